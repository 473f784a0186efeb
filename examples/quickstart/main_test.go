package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The answer of the only attempt is lost, the effect is found by its ref, and the
// second call is a replay.
func TestQuickstart(t *testing.T) {
	var out strings.Builder
	assert.NoError(t, run(t.Context(), &out))
	assert.Equal(t, `process_refund:ORD-5510: rcpt_1, known by lookup, replayed: false
process_refund:ORD-5510: rcpt_1, known by lookup, replayed: true
refunds posted: 1
`, out.String())
}
