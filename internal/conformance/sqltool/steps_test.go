package sqltool_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// step is a message of the client's within a write of sqltool's. Every statement
// but BEGIN and COMMIT carries the ref, whether its text was prepared before or
// not, so they are counted by that.
type step struct {
	name string
	n    int // of the messages that carry the ref; 0 for the others
}

var (
	begin        = step{"BEGIN", 0}
	insertRef    = step{"INSERT of the ref", 1}
	insertLedger = step{"INSERT into the ledger", 2}
	updateRef    = step{"UPDATE of the ref", 3}
	commit       = step{"COMMIT", 0}
)

func (w *world) cutAt(s step, ref string, do cut) {
	switch {
	case s == begin:
		w.wire.arm(w.begin, 1, do)
	case s.n == 0:
		w.wire.arm(s.name, 1, do)
	default:
		w.wire.arm(ref, s.n, do)
	}
}

// warm makes a connection that is ready, so that a cut is not at its making.
func warm(t *testing.T, tool bound) {
	t.Helper()
	require.True(t, tool.Call(with(t.Context(), newRef()), order{"warm", 1}).OK)
}

// TestSteps cuts the connection of one attempt at each step of the protocol. The
// executor makes one attempt, so what it answers is what it knows.
func TestSteps(t *testing.T) {
	unavailable := seen{toolexec.NotCommitted, toolexec.CodeDependencyUnavailable, toolexec.NextWaitAndRetry, 0}
	for _, row := range []struct {
		at   step
		do   cut
		want seen
	}{
		{begin, before, unavailable},
		{begin, middle, unavailable},
		{begin, after, unavailable},
		{insertRef, before, unavailable},
		{insertRef, middle, unavailable},
		{insertRef, after, unavailable},
		{insertLedger, before, unavailable},
		{insertLedger, middle, unavailable},
		{insertLedger, after, unavailable},
		{updateRef, before, unavailable},
		{updateRef, middle, unavailable},
		{updateRef, after, unavailable},
		{commit, before, unavailable}, // looked up at once: absent
		{commit, middle, unavailable},
		{commit, after, done}, // looked up at once: there
	} {
		t.Run(row.at.name+" "+names[row.do], func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				tool, ref := w.tool(t, once(), w.write), newRef()
				warm(t, tool)
				w.cutAt(row.at, ref, row.do)
				e := tool.Call(with(t.Context(), ref), order{"A1", 5})
				require.Equal(t, 1, w.wire.cuts())
				got := w.seen(t, e, ref)
				// A BEGIN changed nothing, so database/sql sends it again where the driver
				// says driver.ErrBadConn.
				if row.at == begin && e.OK {
					assert.Equal(t, done, got)
				} else {
					assert.Equal(t, row.want, got, "%v", e.Err())
				}
				time.Sleep(time.Until(e.Retry.NotBefore)) // it is not run again before
				again := tool.Call(with(t.Context(), ref), order{"A1", 5})
				assert.Equal(t, done, w.seen(t, again, ref), "calling again with the same ref is always safe: %v", again.Err())
				assert.Equal(t, receipt{"no-A1"}, again.Result)
			})
		})
	}
}

// TestStepsRetried is TestSteps with an executor that may make more attempts.
// None of the cuts needs anybody: each ends in one effect, within the call. What
// is looked up and found absent is run again.
func TestStepsRetried(t *testing.T) {
	for _, at := range []step{begin, insertRef, insertLedger, updateRef, commit} {
		for _, do := range []cut{before, middle, after} {
			t.Run(at.name+" "+names[do], func(t *testing.T) {
				each(t, func(t *testing.T, w *world) {
					tool, ref := w.tool(t, quick, w.write), newRef()
					warm(t, tool)
					w.cutAt(at, ref, do)
					e := tool.Call(with(t.Context(), ref), order{"A1", 5})
					require.Equal(t, 1, w.wire.cuts())
					assert.Equal(t, done, w.seen(t, e, ref), "%v", e.Err())
				})
			})
		}
	}
}
