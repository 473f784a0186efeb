//go:build !race

// The race detector drops what is put into a sync.Pool at random.

package canonical_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/toolexec/toolexec/internal/canonical"
)

// TestAllocations holds what frames are pooled for.
func TestAllocations(t *testing.T) {
	args := []byte(benchArgs)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _ = canonical.Check(args, canonical.Limits{}) }))
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		_, _ = canonical.Sum("process_refund", args, canonical.Exclusions{}, canonical.Limits{})
	}))
}
