package toolexec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// the laws in their smallest form ---------------------------------------------------------------

// lawsTool is a Write that counts its runs.
func lawsTool(runs *atomic.Int64, f func(ctx context.Context, n int) (string, error)) toolexec.Tool[lawsIn, string] {
	return toolexec.Tool[lawsIn, string]{Name: "charge", Run: func(ctx context.Context, _ lawsIn) (string, error) {
		return f(ctx, int(runs.Add(1)))
	}}
}

// lawsHidden is a store that shows nothing but the interface, so that ownership is leased.
type lawsHidden struct{ toolexec.Store }

// L8: what a newer version wrote is left to a person, whole.
func TestLawsRecordOfANewerVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		var store toolexec.MemoryStore
		x := toolexec.Executor{Store: &store}
		charge := toolexec.Bind(&x, lawsTool(&runs, func(context.Context, int) (string, error) { return "", toolexec.InDoubt(nil) }))
		ctx := toolexec.WithOperationRef(t.Context(), "a")
		charge.Call(ctx, lawsIn{})
		rec, err := store.Load(ctx, toolexec.Key{Ref: "a"})
		require.NoError(t, err)

		raw, err := json.Marshal(rec)
		require.NoError(t, err)
		raw = []byte(strings.NewReplacer(`"state":"unknown"`, `"state":"half_done"`, `"effect":"write"`, `"effect":"cascade"`).Replace(string(raw)))
		var newer toolexec.Record
		require.NoError(t, json.Unmarshal(raw, &newer))
		again, err := json.Marshal(newer)
		require.NoError(t, err)
		require.Equal(t, string(raw), string(again))
		require.Equal(t, toolexec.CommitUnknown, newer.CommitState())

		_, err = store.Save(ctx, newer)
		require.NoError(t, err)
		e := charge.Call(ctx, lawsIn{})
		require.EqualValues(t, 1, runs.Load())
		require.Equal(t, toolexec.CommitUnknown, e.CommitState)
		require.Equal(t, toolexec.NextEscalate, e.NextAction)
		require.NoError(t, x.Close(ctx))
	})
}

// L1: whoever lost the record while it prepared may not send any more.
func TestLawsFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := lawsHidden{new(toolexec.MemoryStore)}
		var first, second toolexec.Executor
		first.Store, second.Store = store, store
		var runs, effects atomic.Int64
		tool := lawsTool(&runs, func(ctx context.Context, n int) (string, error) {
			if n == 1 {
				time.Sleep(time.Minute)
			}
			if err := toolexec.MarkSent(ctx); err != nil {
				return "", err
			}
			effects.Add(1)
			return "receipt", nil
		})
		tool.MarksSent, tool.Policy = true, toolexec.Policy{Deadline: -1, TotalDeadline: -1}
		ctx := toolexec.WithOperationRef(t.Context(), "a")
		here, there := toolexec.Bind(&first, tool), toolexec.Bind(&second, tool)
		go here.Call(ctx, lawsIn{})
		time.Sleep(20 * time.Second) // unless it is extended the lease is over
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		there.Call(bounded, lawsIn{})
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, effects.Load())
	})
}

// A call that its run was refused before is answered from the record, not from the run's memory: the operation may have
// been carried out since (L2, L3).
func TestLawsRepeatedCallReadsTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var runs atomic.Int64
		charge := toolexec.Bind(&x, lawsTool(&runs, func(_ context.Context, n int) (string, error) {
			if n == 1 {
				return "", toolexec.Rejected(toolexec.CodeConflict, nil)
			}
			return "receipt", nil
		}))
		ctx := toolexec.WithOperationRef(t.Context(), "a")
		require.Equal(t, toolexec.NotCommitted, charge.Call(toolexec.WithRunID(ctx, "run"), lawsIn{}).CommitState)
		require.True(t, charge.Call(ctx, lawsIn{}).OK)
		e := charge.Call(toolexec.WithRunID(ctx, "run"), lawsIn{})
		require.Equal(t, toolexec.Committed, e.CommitState, "%s", e.Code)
	})
}

// The same for an Idempotent operation whose outcome is unknown: "unchanged" is no answer to a call that resumes it (L2).
func TestLawsRepeatNeverDeniesAnUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var runs atomic.Int64
		tool := lawsTool(&runs, func(_ context.Context, n int) (string, error) {
			if n == 1 {
				return "", toolexec.Rejected(toolexec.CodeConflict, nil)
			}
			return "", fmt.Errorf("lost")
		})
		tool.Effect = toolexec.Idempotent
		charge := toolexec.Bind(&x, tool)
		other, ctx := toolexec.WithOperationRef(t.Context(), "a"), toolexec.WithOperationRef(t.Context(), "b")
		require.Equal(t, toolexec.NotCommitted, charge.Call(toolexec.WithRunID(other, "run"), lawsIn{}).CommitState)
		require.Equal(t, toolexec.CommitUnknown, charge.Call(ctx, lawsIn{}).CommitState)
		e := charge.Call(toolexec.WithRunID(ctx, "run"), lawsIn{})
		require.Equal(t, toolexec.CommitUnknown, e.CommitState, "%s", e.Code)
	})
}

// lawsFailingList fails List while told to.
type lawsFailingList struct {
	toolexec.Store
	fails bool
}

func (s *lawsFailingList) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	if s.fails {
		return nil, toolexec.Cursor{}, errLawsStore
	}
	return s.Store.List(ctx, q)
}

// An answer to a call without a ref must not hand out a ref that names nothing while an equal operation is open: given
// again, as the answer says is safe, it would start that operation a second time (L1).
func TestLawsNoAnswerHandsOutANewRef(t *testing.T) {
	t.Run("the store cannot list", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &lawsFailingList{Store: new(toolexec.MemoryStore)}
			x := toolexec.Executor{Store: store}
			var runs atomic.Int64
			charge := toolexec.Bind(&x, lawsTool(&runs, func(context.Context, int) (string, error) { return "", toolexec.InDoubt(nil) }))
			charge.Call(t.Context(), lawsIn{})
			store.fails = true
			e := charge.Call(t.Context(), lawsIn{})
			store.fails = false
			charge.Call(toolexec.WithOperationRef(t.Context(), e.OperationRef), lawsIn{})
			require.EqualValues(t, 1, runs.Load(), "%s", e.Code)
		})
	})
	t.Run("it waited for an equal call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			var runs atomic.Int64
			charge := toolexec.Bind(&x, lawsTool(&runs, func(context.Context, int) (string, error) {
				time.Sleep(1500 * time.Millisecond)
				return "receipt", nil
			}))
			go charge.Call(t.Context(), lawsIn{})
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			e := charge.Call(ctx, lawsIn{})
			time.Sleep(time.Minute)
			charge.Call(toolexec.WithOperationRef(t.Context(), e.OperationRef), lawsIn{})
			require.EqualValues(t, 1, runs.Load(), "%s %s", e.Code, e.NextAction)
		})
	})
	t.Run("its Cooperative tool ended the goroutine", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			var runs atomic.Int64
			tool := lawsTool(&runs, func(context.Context, int) (string, error) { runtime.Goexit(); return "", nil })
			tool.Cooperative = true
			toolexec.Bind(&x, tool)
			call := toolexec.Call{Name: "charge", Arguments: json.RawMessage(`{"intent":1,"note":"","secret":""}`)}
			call.OperationRef = x.ExecuteAll(t.Context(), []toolexec.Call{call})[0].OperationRef
			x.ExecuteAll(t.Context(), []toolexec.Call{call})
			require.EqualValues(t, 1, runs.Load())
		})
	})
}

// The lease of an owner that runs is extended for as long as it runs (no deadline, or Cooperative): another process would
// take the attempt for lost, see nothing after the settle window and send again while the first can still send (L1).
func TestLawsRunningOwnerKeepsItsLease(t *testing.T) {
	for _, cooperative := range []bool{false, true} {
		t.Run(fmt.Sprint("cooperative ", cooperative), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := lawsHidden{new(toolexec.MemoryStore)}
				var first, second toolexec.Executor
				first.Store, second.Store = store, store
				var runs, effects atomic.Int64
				tool := lawsTool(&runs, func(_ context.Context, n int) (string, error) {
					if n == 1 {
						time.Sleep(2 * time.Minute)
					}
					effects.Add(1)
					return "receipt", nil
				})
				if tool.Cooperative = cooperative; !cooperative {
					tool.Policy = toolexec.Policy{Deadline: -1, TotalDeadline: -1}
				}
				tool.Verify = &toolexec.Verifier[lawsIn, string]{Authoritative: true, Lookup: func(context.Context, string, lawsIn) (toolexec.Finding[string], error) {
					if effects.Load() > 0 {
						return toolexec.Found("receipt"), nil
					}
					return toolexec.Absent[string](), nil
				}}
				ctx := toolexec.WithOperationRef(t.Context(), "a")
				here, there := toolexec.Bind(&first, tool), toolexec.Bind(&second, tool)
				go here.Call(ctx, lawsIn{})
				for range 6 {
					time.Sleep(16 * time.Second)
					bounded, cancel := context.WithTimeout(ctx, time.Second)
					there.Call(bounded, lawsIn{})
					cancel()
				}
				time.Sleep(10 * time.Minute)
				require.EqualValues(t, 1, effects.Load())
			})
		})
	}
}

// A member that the schema does not know is model text: field_errors name it, and safe_details and both messages do not
// (L6).
func TestLawsUndeclaredNamesStayOut(t *testing.T) {
	var x toolexec.Executor
	var runs atomic.Int64
	toolexec.Bind(&x, lawsTool(&runs, func(context.Context, int) (string, error) { return "", nil }))
	e := x.Execute(t.Context(), toolexec.Call{Name: "charge", Arguments: json.RawMessage(`{"intent":0,"note":"","secret":"","CANARY":1}`)})
	require.Equal(t, toolexec.CodeInvalidArguments, e.Code)
	require.Len(t, e.FieldErrors, 1)
	require.Equal(t, "/"+lawsCanary, e.FieldErrors[0].Pointer)
	require.NotContains(t, fmt.Sprint(e.SafeDetails), lawsCanary)
	require.NotContains(t, e.AgentMessage, lawsCanary)
	require.NotContains(t, e.UserMessage, lawsCanary)
}

// After a read failed with an instant that the remote side gave, it is not read again before (L5).
func TestLawsReadWaitsAsTheRemoteSideWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var runs atomic.Int64
		tool := lawsTool(&runs, func(context.Context, int) (string, error) {
			f := toolexec.Rejected(toolexec.CodeRateLimited, nil)
			f.RetryAfter = 20 * time.Second
			return "", f
		})
		tool.Effect = toolexec.ReadOnly
		search := toolexec.Bind(&x, tool)
		until := search.Call(t.Context(), lawsIn{}).Retry.NotBefore
		time.Sleep(time.Second)
		require.True(t, until.Equal(search.Call(t.Context(), lawsIn{}).Retry.NotBefore))
		require.EqualValues(t, 1, runs.Load())
	})
}

// lawsHangingStore answers one method only when its context ends, or after an hour.
type lawsHangingStore struct {
	toolexec.Store
	hangs string
}

func (s *lawsHangingStore) hang(ctx context.Context, method string) error {
	if method != s.hangs {
		return nil
	}
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	select {
	case <-t.C:
		return errLawsStore
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *lawsHangingStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	if err := s.hang(ctx, "Save"); err != nil {
		return toolexec.Record{}, err
	}
	return s.Store.Save(ctx, r)
}

func (s *lawsHangingStore) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	if err := s.hang(ctx, "List"); err != nil {
		return nil, toolexec.Cursor{}, err
	}
	return s.Store.List(ctx, q)
}

// Store calls before the first attempt are bounded by the total deadline, not by the caller's context alone: a store that
// hangs must not hold its caller beyond it (L4).
func TestLawsHangingStoreEndsInTime(t *testing.T) {
	for _, method := range []string{"Save", "List"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := toolexec.Executor{Store: &lawsHangingStore{new(toolexec.MemoryStore), method}}
				var runs atomic.Int64
				charge := toolexec.Bind(&x, lawsTool(&runs, func(context.Context, int) (string, error) { return "", nil }))
				began := time.Now()
				e := charge.Call(t.Context(), lawsIn{})
				require.LessOrEqual(t, time.Since(began), toolexec.DefaultTotalDeadline+2*time.Second, "%s", e.Code)
				require.EqualValues(t, 0, runs.Load())
			})
		})
	}
}
