//go:build !race

// The race detector drops records from a sync.Pool at random.

package attempt_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/toolexec/toolexec/internal/attempt"
)

// TestAllocations holds what the pool and the lazy context are for.
func TestAllocations(t *testing.T) {
	allocs := func(f func()) float64 { return testing.AllocsPerRun(1000, f) }
	assert.InDelta(t, 1, allocs(func() {
		p := newBare(time.Minute)
		attempt.Run(&p.Context, time.Now(), p)
	}), 0, "the attempt itself")
	assert.InDelta(t, 1, allocs(func() {
		p := newBare(time.Minute)
		attempt.Inline(&p.Context, p)
	}), 0, "the attempt itself")
	f := func() {}
	assert.Zero(t, allocs(func() { attempt.Contain(f) }))
}
