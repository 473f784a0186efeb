package toolexec_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// What the laws have found in supervisors, in its smallest form.

// lawsOnce is an Idempotent tool that tries once a call, under the ref a.
func lawsOnce(t *testing.T, x *toolexec.Executor, tool toolexec.Tool[lawsIn, string]) (call func() toolexec.Envelope[string]) {
	t.Helper()
	tool.Effect, tool.Policy = toolexec.Idempotent, toolexec.Policy{MaxRetries: -1}
	b := toolexec.Bind(x, tool)
	return func() toolexec.Envelope[string] {
		return b.Call(toolexec.WithOperationRef(t.Context(), "a"), lawsIn{})
	}
}

// One settlement is told once, by the supervisor that stored it, also when another was at work on the same operation.
func TestLawsOnSettledIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := lawsHidden{new(toolexec.MemoryStore)}
		var runs, looks, told atomic.Int64
		tool := lawsTool(&runs, func(context.Context, int) (string, error) { return "", toolexec.InDoubt(nil) })
		tool.Verify = &toolexec.Verifier[lawsIn, string]{Authoritative: true, Lookup: func(context.Context, string, lawsIn) (toolexec.Finding[string], error) {
			time.Sleep(time.Duration(looks.Add(1)) * 100 * time.Millisecond)
			return toolexec.Absent[string](), nil
		}}
		var supervisors [2]toolexec.Supervisor
		for i := range supervisors {
			x := &toolexec.Executor{Store: store}
			charge := toolexec.Bind(x, tool)
			supervisors[i] = toolexec.Supervisor{Executor: x, OnSettled: func(context.Context, toolexec.Settled) { told.Add(1) }}
			if i == 0 {
				charge.Call(toolexec.WithOperationRef(t.Context(), "a"), lawsIn{})
			}
		}
		time.Sleep(time.Minute)
		var both sync.WaitGroup
		for i := range supervisors {
			both.Go(func() {
				_, err := supervisors[i].Recover(t.Context())
				assert.NoError(t, err)
			})
		}
		both.Wait()
		require.EqualValues(t, 1, told.Load())
	})
}

// lawsFailingSaves fails, while told to, the Saves of what is not in flight.
type lawsFailingSaves struct {
	toolexec.Store
	fails atomic.Bool
}

func (s *lawsFailingSaves) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	if s.fails.Load() && r.State != toolexec.StateInFlight {
		return toolexec.Record{}, errLawsStore
	}
	return s.Store.Save(ctx, r)
}

// What could not be stored is not told: the next pass may find it otherwise.
func TestLawsOnSettledIsOfWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lawsFailingSaves{Store: new(toolexec.MemoryStore)}
		x := &toolexec.Executor{Store: store}
		var runs atomic.Int64
		call := lawsOnce(t, x, lawsTool(&runs, func(_ context.Context, n int) (string, error) {
			if n == 1 {
				return "", toolexec.InDoubt(nil)
			}
			return "receipt", nil
		}))
		call()
		store.fails.Store(true)
		s := toolexec.Supervisor{Executor: x, OnSettled: func(_ context.Context, s toolexec.Settled) {
			rec, err := store.Load(t.Context(), s.Record.Key)
			assert.NoError(t, err)
			assert.Equal(t, rec.State, s.Record.State, "told, and not stored")
		}}
		time.Sleep(time.Minute)
		_, err := s.Recover(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, runs.Load())
		store.fails.Store(false)
		require.NoError(t, x.Close(t.Context()))
	})
}

// One who waits runs nothing that Rerun says no to, also not what a person approved.
func TestLawsWaitAsksRerun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var runs atomic.Int64
		tool := lawsTool(&runs, func(context.Context, int) (string, error) { return "receipt", nil })
		tool.Approval = new(toolexec.Approval[lawsIn])
		toolexec.Bind(&x, tool).Call(toolexec.WithOperationRef(t.Context(), "a"), lawsIn{})
		s := toolexec.Supervisor{Executor: &x, Rerun: func(toolexec.Record) bool { return false }}
		_, err := approveHeld(&s, t.Context(), toolexec.Key{Ref: "a"}, toolexec.Statement{Actor: "anna", Evidence: "ledger"}, 0)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = s.Wait(ctx, toolexec.Key{Ref: "a"})
		require.NoError(t, err)
		require.Zero(t, runs.Load())
	})
}

// A pass that comes upon an unknown operation while a call of it is looking it up leaves what that call then releases:
// its caller was told not_committed, and may go on under another ref.
func TestLawsPassLeavesWhatACallHasReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var runs, looks atomic.Int64
		tool := lawsTool(&runs, func(_ context.Context, n int) (string, error) {
			if n > 2 {
				return "receipt", nil
			}
			return "", toolexec.InDoubt(nil)
		})
		tool.Verify = &toolexec.Verifier[lawsIn, string]{Settle: -1, Authoritative: true, Lookup: func(context.Context, string, lawsIn) (toolexec.Finding[string], error) {
			if looks.Add(1) == 1 {
				return toolexec.Finding[string]{}, errors.New("away")
			}
			time.Sleep(time.Second)
			return toolexec.Absent[string](), nil
		}}
		call := lawsOnce(t, &x, tool)
		call()
		time.Sleep(time.Minute)
		var both sync.WaitGroup
		both.Go(func() { assert.Equal(t, toolexec.NotCommitted, call().CommitState) })
		time.Sleep(700 * time.Millisecond)
		_, err := (&toolexec.Supervisor{Executor: &x}).Recover(t.Context())
		require.NoError(t, err)
		both.Wait()
		require.EqualValues(t, 2, runs.Load())
	})
}

// A commit that a pass found by running the operation again was told to nobody: an equal call without a ref is given it.
func TestLawsPassTellsNobody(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			var runs atomic.Int64
			tool := lawsTool(&runs, func(_ context.Context, n int) (string, error) {
				if n == 2 && answers {
					return "receipt", nil
				}
				return "", toolexec.InDoubt(nil)
			})
			tool.Verify = &toolexec.Verifier[lawsIn, string]{Lookup: func(context.Context, string, lawsIn) (toolexec.Finding[string], error) {
				if runs.Load() == 1 {
					return toolexec.Finding[string]{}, errors.New("away")
				}
				return toolexec.Found("receipt"), nil
			}}
			tool.Effect, tool.Policy = toolexec.Idempotent, toolexec.Policy{MaxRetries: -1}
			charge := toolexec.Bind(&x, tool)
			first := charge.Call(t.Context(), lawsIn{})
			require.Equal(t, toolexec.CommitUnknown, first.CommitState)
			time.Sleep(time.Minute)
			_, err := (&toolexec.Supervisor{Executor: &x}).Recover(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 2, runs.Load())
			again := charge.Call(t.Context(), lawsIn{})
			require.Equal(t, first.OperationRef, again.OperationRef)
			require.EqualValues(t, 2, runs.Load())
		})
	}
}

// A Cooperative tool that calls runtime.Goexit ends its caller's goroutine; a pass is nobody's, and goes on.
func TestLawsGoexitInAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		tool := toolexec.Tool[lawsIn, string]{Name: "charge", Effect: toolexec.Idempotent, Cooperative: true, Policy: toolexec.Policy{MaxRetries: -1}}
		began := map[string]bool{}
		tool.Run = func(ctx context.Context, _ lawsIn) (string, error) {
			if ref := toolexec.OperationRef(ctx); !began[ref] {
				began[ref] = true
				return "", toolexec.InDoubt(nil)
			}
			runtime.Goexit()
			return "", nil
		}
		charge := toolexec.Bind(&x, tool)
		for _, ref := range []string{"a", "b"} {
			charge.Call(toolexec.WithOperationRef(t.Context(), ref), lawsIn{})
		}
		time.Sleep(time.Minute)
		done, err := (&toolexec.Supervisor{Executor: &x, Workers: -1}).Recover(t.Context())
		require.NoError(t, err)
		require.Equal(t, toolexec.Recovery{Due: 2, Open: 2}, done)
	})
}

// The not_before of an answer is that of the record, however long a look-up took in between: a pass keeps to the record.
func TestLawsNotBeforeIsTheRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var runs atomic.Int64
		tool := lawsTool(&runs, func(context.Context, int) (string, error) {
			return "", &toolexec.Failure{Class: toolexec.ClassTransient, Code: toolexec.CodeOutcomeUnknown, RetryAfter: 5 * time.Second}
		})
		tool.Policy = toolexec.Policy{MaxRetries: -1}
		tool.Verify = &toolexec.Verifier[lawsIn, string]{Settle: -1, Authoritative: true, Lookup: func(context.Context, string, lawsIn) (toolexec.Finding[string], error) {
			time.Sleep(time.Second)
			return toolexec.Absent[string](), nil
		}}
		e := toolexec.Bind(&x, tool).Call(toolexec.WithOperationRef(t.Context(), "a"), lawsIn{})
		require.Equal(t, toolexec.NotCommitted, e.CommitState)
		rec, err := (&toolexec.Supervisor{Executor: &x}).Get(t.Context(), toolexec.Key{Ref: "a"})
		require.NoError(t, err)
		require.Equal(t, rec.NotBefore.Time().UTC(), e.Retry.NotBefore.UTC())
	})
}
