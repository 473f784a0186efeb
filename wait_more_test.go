package toolexec_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// TestWaitAndItsStore: what cannot be read ends a wait; what cannot be stored is tried again.
func TestWaitAndItsStore(t *testing.T) {
	down := errors.New("down")
	recoverRun(t, "there is no such operation", func(w *recoverWorld) {
		w.put(toolexec.Bind(w.x, w.failing(toolexec.Write)), "r1")
		for _, key := range []toolexec.Key{{Ref: "r2"}, {Scope: "tenant", Ref: "r1"}} {
			_, err := w.s.Wait(w.t.Context(), key)
			require.ErrorIs(w.t, err, toolexec.ErrNotFound)
		}
	})
	recoverRun(t, "it cannot be read", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write)), "r1")
		w.store.loading = func(toolexec.Key) error { return down }
		_, err := w.s.Wait(w.t.Context(), key)
		require.ErrorIs(w.t, err, down)
		w.store.loading = func(toolexec.Key) error { panic("boom") }
		_, err = w.s.Wait(w.t.Context(), key)
		require.EqualError(w.t, err, "toolexec: the store panicked: boom")
	})
	recoverRun(t, "what a look-up found cannot be stored", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write, toolexec.InDoubt(nil))
		tool.Verify = w.verifier(func(ref string) (toolexec.Finding[caseReceipt], error) {
			if time.Since(w.starts.since) == 0 {
				return recoverDown(ref)
			}
			return recoverFound(ref)
		})
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		w.store.saving = func(toolexec.Record) error {
			if time.Since(w.starts.since) < 1200*time.Millisecond {
				return down
			}
			return nil
		}
		assert.Equal(w.t, waitDone+"1.251s", w.waits(key))
		assert.Equal(w.t, []time.Duration{0, 501 * time.Millisecond, 751 * time.Millisecond, 1001 * time.Millisecond, 1251 * time.Millisecond}, w.looks.at())
		assert.Equal(w.t, []string{"down", "down", "down"}, w.failures())
	})
	recoverRun(t, "a run cannot be begun", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, errRecoverUnsent)), "r1")
		w.store.saving = func(toolexec.Record) error {
			if time.Since(w.starts.since) < 2*time.Second {
				return down
			}
			return nil
		}
		assert.Contains(w.t, w.waits(key), waitDone+"2.")
		assert.Len(w.t, w.starts.at(), 2)
	})
}

// waitDeaf is a store whose notifications do not work.
type waitDeaf struct {
	*recoverStore
	mu    sync.Mutex // protects asked
	asked int
}

func (s *waitDeaf) Wait(ctx context.Context, _ toolexec.Key, _ int64) error {
	s.mu.Lock()
	s.asked++
	spins := s.asked > 10_000
	s.mu.Unlock()
	if spins { // time stands still in a bubble that spins
		<-ctx.Done()
	}
	return errors.New("the connection for notifications is gone")
}

// TestWaitDoesNotSpin: a store that cannot notify is polled.
func TestWaitDoesNotSpin(t *testing.T) {
	recoverRun(t, "notifications fail", func(w *recoverWorld) {
		deaf := &waitDeaf{recoverStore: w.store}
		w.x = &toolexec.Executor{Store: deaf}
		w.s.Executor = w.x
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, errRecoverUnsent)), "r1")
		assert.Equal(w.t, waitDone+"501ms", w.waits(key))
		assert.Less(w.t, deaf.asked, 100)
	})
}

// TestWaitOnAVolatileStore: there is no lease to wait for, and it is told at once.
func TestWaitOnAVolatileStore(t *testing.T) {
	recoverRun(t, "in flight", func(w *recoverWorld) {
		x := new(toolexec.Executor)
		w.s.Executor = x
		b := toolexec.Bind(x, slowly(w.tool(toolexec.Write)))
		var wg sync.WaitGroup
		wg.Go(func() { caseChecked(w.t, b.Call(toolexec.WithOperationRef(w.t.Context(), "r1"), execOrder)) })
		time.Sleep(100 * time.Millisecond)
		assert.Equal(w.t, waitDone+"1s", w.waits(toolexec.Key{Ref: "r1"}))
		wg.Wait()
		caseClose(w.t, x)
	})
}

// TestWaitAsksBeforeItRuns: of whatever state.
func TestWaitAsksBeforeItRuns(t *testing.T) {
	recoverRun(t, "approved, and the host says no", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write)
		waitApproval(&tool)
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		_, err := approveHeld(w.s, w.t.Context(), key, supervisorAnn, -1)
		require.NoError(w.t, err)
		w.s.Rerun = waitNo
		w.waits(key)
		assert.Empty(w.t, w.starts.at())
	})
}

// TestWaitSaysThatAnApprovalHasExpired: as a call would be told.
func TestWaitSaysThatAnApprovalHasExpired(t *testing.T) {
	recoverRun(t, "held too long", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write)
		waitApproval(&tool)
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		assert.Equal(w.t, "APPROVAL_EXPIRED not_committed request_approval @1h0m0s", w.waits(key))
	})
}

// TestTwoWaitForOneOperation: one of them runs it, and both are told.
func TestTwoWaitForOneOperation(t *testing.T) {
	twice := func(w *recoverWorld, key toolexec.Key) [2]string {
		both := together(2)
		w.store.loaded = func() { // both find it due
			if time.Since(w.starts.since) == 1501*time.Millisecond {
				both()
			}
		}
		var got [2]string
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i] = w.waits(key) })
		}
		wg.Wait()
		return got
	}
	recoverRun(t, "it succeeds", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, slowly(w.failing(toolexec.Write, errRecoverUnsent))), "r1")
		for _, got := range twice(w, key) {
			assert.Contains(w.t, got, waitDone+"2.")
		}
		assert.Len(w.t, w.starts.at(), 2)
	})
	recoverRun(t, "it is refused for a reason that will not pass", func(w *recoverWorld) {
		conflict := toolexec.Rejected(toolexec.CodeConflict, nil)
		key := w.put(toolexec.Bind(w.x, slowly(w.failing(toolexec.Write, errRecoverUnsent, conflict, conflict))), "r1")
		for _, got := range twice(w, key) {
			assert.Contains(w.t, got, "CONFLICT not_committed escalate @")
		}
		assert.Len(w.t, w.starts.at(), 2)
	})
}

// TestBackgroundCommitIsHeardOfOnce: an equal call without a ref is given a commit that no caller was told of, exactly once.
func TestBackgroundCommitIsHeardOfOnce(t *testing.T) {
	for name, row := range map[string]struct {
		effect  toolexec.Effect
		fails   []error
		confirm bool
		look    func(string) (toolexec.Finding[caseReceipt], error)
		settle  func(w *recoverWorld, key toolexec.Key)
		already bool // whoever settled it was told
	}{
		"Recover looked it up":  {look: recoverFound, settle: recoverPass},
		"Recover sent it again": {effect: toolexec.Idempotent, settle: recoverPass},
		"Recover ran it again":  {fails: waitUnsent, settle: recoverPass},
		"Recover confirmed it":  {fails: waitUnsent, confirm: true, look: recoverFound, settle: recoverPass},
		"Verify looked it up": {look: recoverFound, settle: func(w *recoverWorld, key toolexec.Key) {
			_, err := w.s.Verify(w.t.Context(), key)
			assert.NoError(w.t, err)
		}},
		"a person said so": {settle: func(w *recoverWorld, key toolexec.Key) {
			_, err := w.s.Resolve(w.t.Context(), key, toolexec.Committed, supervisorAnn)
			assert.NoError(w.t, err)
		}},
		"Wait":                   {look: recoverFound, settle: func(w *recoverWorld, key toolexec.Key) { w.waits(key) }, already: true},
		"Wait ran it again":      {fails: waitUnsent, settle: func(w *recoverWorld, key toolexec.Key) { w.waits(key) }, already: true},
		"Recover, and then Wait": {look: recoverFound, settle: func(w *recoverWorld, key toolexec.Key) { recoverPass(w, key); w.waits(key) }, already: true},
		"Recover, and then its ref": {look: recoverFound, settle: func(w *recoverWorld, key toolexec.Key) {
			recoverPass(w, key)
			caseExecute(w.t, w.x, "refund", key.Ref, caseArgs)
		}, already: true},
	} {
		recoverRun(t, name, func(w *recoverWorld) {
			fails := row.fails
			if fails == nil {
				fails = waitDoubt
			}
			tool := w.failing(row.effect, fails...)
			if row.look != nil {
				tool.Verify = w.verifier(func(ref string) (toolexec.Finding[caseReceipt], error) {
					if len(w.looks.at()) == 1 && !row.confirm {
						return recoverDown(ref)
					}
					return row.look(ref)
				})
				tool.Verify.Confirm = row.confirm
			}
			b := toolexec.Bind(w.x, tool)
			key := w.put(b, "r1")
			w.s.Rerun = func(toolexec.Record) bool { return true }
			time.Sleep(time.Second)
			row.settle(w, key)
			r := w.get(key)
			require.Equal(w.t, toolexec.StateCommitted, r.State)
			assert.Equal(w.t, !row.already, r.Unheard)
			assert.Equal(w.t, !row.already, r.IsOpen())
			open, _, err := w.s.List(w.t.Context(), toolexec.Query{Open: true})
			require.NoError(w.t, err)
			starts := len(w.starts.at())
			if !row.already {
				require.Len(w.t, open, 1)
				first := caseChecked(w.t, b.Call(w.t.Context(), execOrder))
				assert.True(w.t, first.Replayed)
				assert.Equal(w.t, "r1", first.OperationRef)
				assert.Len(w.t, w.starts.at(), starts)
				assert.False(w.t, w.open(key))
			} else {
				assert.Empty(w.t, open)
			}
			second := caseChecked(w.t, b.Call(w.t.Context(), execOrder))
			assert.True(w.t, second.OK)
			assert.False(w.t, second.Replayed)
			assert.NotEqual(w.t, "r1", second.OperationRef, "a second, intended, equal call")
			assert.Len(w.t, w.starts.at(), starts+1)
		})
	}
}

func (w *recoverWorld) open(key toolexec.Key) bool {
	r := w.get(key)
	return r.IsOpen()
}

func recoverPass(w *recoverWorld, _ toolexec.Key) {
	_, err := w.s.Recover(w.t.Context())
	assert.NoError(w.t, err)
}

// TestBackgroundCommitIsGivenToOneOfMany: of equal calls without a ref at once.
func TestBackgroundCommitIsGivenToOneOfMany(t *testing.T) {
	recoverRun(t, "five", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write, toolexec.InDoubt(nil))
		b := toolexec.Bind(w.x, tool)
		key := w.put(b, "r1")
		_, err := w.s.Resolve(w.t.Context(), key, toolexec.Committed, supervisorAnn)
		require.NoError(w.t, err)
		refs := make([]string, 5)
		var wg sync.WaitGroup
		for i := range refs {
			wg.Go(func() { refs[i] = caseChecked(w.t, b.Call(w.t.Context(), execOrder)).OperationRef })
		}
		wg.Wait()
		assert.Contains(w.t, refs, "r1")
		assert.False(w.t, w.open(key))
	})
}

// TestVerifyLooksNow: also before the next check is due, and absence counts only after the window.
func TestVerifyLooksNow(t *testing.T) {
	recoverRun(t, "before it is due", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write, toolexec.InDoubt(nil))
		tool.Verify = w.verifier(waitAppears(10 * time.Second)(w))
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		time.Sleep(5 * time.Second)
		r, err := w.s.Verify(w.t.Context(), key)
		require.NoError(w.t, err)
		assert.Equal(w.t, toolexec.StateUnknown, r.State)
		assert.Equal(w.t, toolexec.DefaultSettle, r.NextCheckAt.Time().Local().Sub(w.starts.since))
		assert.Equal(w.t, w.starts.since.Add(5*time.Second), r.Verification.CheckedAt.Local())
		time.Sleep(5 * time.Second)
		r, err = w.s.Verify(w.t.Context(), key)
		require.NoError(w.t, err)
		assert.Equal(w.t, toolexec.StateCommitted, r.State)
		assert.JSONEq(w.t, `{"receipt":"rcpt_r1"}`, string(r.Result))
		_, err = w.s.Verify(w.t.Context(), key)
		require.ErrorIs(w.t, err, toolexec.ErrRefused)
		require.EqualError(w.t, err, "toolexec: the record does not allow this: verify wants an operation that is [unknown]; this one is committed")
		assert.Equal(w.t, execSeconds(0, 5, 10), w.looks.at())
		assert.Empty(w.t, w.settled(), "whoever asked was answered")
	})
	recoverRun(t, "nothing to look it up with", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, toolexec.InDoubt(nil))), "r1")
		_, err := w.s.Verify(w.t.Context(), key)
		require.EqualError(w.t, err, "toolexec: the record does not allow this: the tool refund has no verifier")
	})
	recoverRun(t, "none", func(w *recoverWorld) {
		_, err := w.s.Verify(w.t.Context(), toolexec.Key{Ref: "r1"})
		require.ErrorIs(w.t, err, toolexec.ErrNotFound)
	})
	recoverRun(t, "the store fails", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write, toolexec.InDoubt(nil))
		tool.Verify = w.verifier(recoverDown)
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		w.store.saving = func(toolexec.Record) error { return errors.New("down") }
		r, err := w.s.Verify(w.t.Context(), key)
		require.EqualError(w.t, err, "down")
		assert.Equal(w.t, toolexec.StateUnknown, r.State)
	})
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled": context.WithCancel,
		"out of time": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Millisecond)
		},
	} {
		recoverRun(t, "whoever asks gives up: "+name, func(w *recoverWorld) {
			tool := w.failing(toolexec.Write, toolexec.InDoubt(nil))
			tool.Verify = &toolexec.Verifier[caseOrder, caseReceipt]{
				Lookup: func(ctx context.Context, _ string, _ caseOrder) (toolexec.Finding[caseReceipt], error) {
					<-ctx.Done()
					return toolexec.Finding[caseReceipt]{}, ctx.Err()
				},
			}
			key := w.put(toolexec.Bind(w.x, tool), "r1")
			before := w.get(key).Checks
			ctx, cancel := end(w.t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			_, _ = w.s.Verify(ctx, key)
			assert.Equal(w.t, before, w.get(key).Checks, "it says nothing about the verifier")
		})
	}
}
