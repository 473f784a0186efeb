package toolexec_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolexec/toolexec"
)

// verifyBeginStore tells of each state that it stores, and may lose the answer to one Save.
type verifyBeginStore struct {
	toolexec.Store
	saved func(toolexec.State)
	lose  func(toolexec.Record) bool
}

func (s *verifyBeginStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	stored, err := s.Store.Save(ctx, r)
	if err == nil && s.saved != nil {
		s.saved(stored.State)
	}
	if err == nil && s.lose != nil && s.lose(stored) {
		return toolexec.Record{}, errors.New("the answer was lost")
	}
	return stored, err
}

// TestNoReleaseInTheMiddleOfACall: a look-up that finds no effect and the attempt that follows are one step, so an equal
// call without a ref never finds the operation closed while its call goes on.
func TestNoReleaseInTheMiddleOfACall(t *testing.T) {
	for _, lost := range []bool{false, true} {
		name := map[bool]string{false: "the store answers", true: "the answer to the step is lost"}[lost]
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var states []toolexec.State
				var down bool
				var runs, effects, running atomic.Int64
				store := &verifyBeginStore{Store: new(toolexec.MemoryStore)}
				x := toolexec.Executor{Store: store}
				tool := execTool("w", toolexec.Write, func(context.Context) error {
					assert.Equal(t, int64(1), running.Add(1), "one attempt at a time")
					defer running.Add(-1)
					time.Sleep(100 * time.Millisecond)
					if runs.Add(1) == 1 {
						return io.ErrUnexpectedEOF
					}
					effects.Add(1)
					return nil
				})
				tool.Verify = &toolexec.Verifier[caseOrder, caseReceipt]{Settle: -1, Authoritative: true, Lookup: func(context.Context, string, caseOrder) (toolexec.Finding[caseReceipt], error) {
					if down {
						return toolexec.Finding[caseReceipt]{}, errors.New("down")
					}
					if effects.Load() > 0 {
						return toolexec.FoundEffectOnly[caseReceipt](), nil
					}
					return toolexec.Absent[caseReceipt](), nil
				}}
				store.saved = func(s toolexec.State) { states = append(states, s) }
				once := lost
				down = lost // so that the look-up that releases is the next call's
				store.lose = func(r toolexec.Record) bool {
					hit := once && r.State == toolexec.StateInFlight && r.Attempts == 2
					once = once && !hit
					return hit
				}
				b := toolexec.Bind(&x, tool)
				env := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder))
				caseClose(t, &x)
				if !lost {
					assert.True(t, env.OK)
					assert.Equal(t, []toolexec.State{"in_flight", "unknown", "in_flight", "committed"}, states)
					return
				}
				assert.Equal(t, toolexec.CommitUnknown, env.CommitState)
				down = false
				time.Sleep(time.Minute)
				again := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder))
				assert.Equal(t, toolexec.CommitUnknown, again.CommitState, "nobody knows whether it began")
				caseClose(t, &x) // it is given back
				again = caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder))
				assert.True(t, again.OK, "%v", again)
				assert.Equal(t, int64(1), effects.Load())
				assert.Equal(t, int64(2), runs.Load())
				caseClose(t, &x)
			})
		})
	}
}
