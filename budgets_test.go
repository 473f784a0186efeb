package toolexec_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// budgetNone is a budget of n retries that never come back.
func budgetNone(n int) toolexec.RetryBudget {
	return toolexec.RetryBudget{Burst: n, PerSecond: -1}
}

// The bucket belongs to the executor: whoever retries takes from it. Who gets none is answered at once, with what it would have
// been answered at the end.
func TestRetryBudgetIsSharedByAllCalls(t *testing.T) {
	for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
		t.Run(effect.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				notes := new(observeTrace)
				x := toolexec.Executor{RetryBudget: budgetNone(3), Observer: notes}
				cause := errors.New("refused")
				var starts *execStarts
				run := func(context.Context) error { starts.note(); return toolexec.NotSent(cause) }
				one, two := toolexec.Bind(&x, execTool("one", effect, run)), toolexec.Bind(&x, execTool("two", effect, run))
				call := func(b *toolexec.Bound[caseOrder, caseReceipt], scope, ref string) toolexec.Envelope[caseReceipt] {
					starts = execStart()
					e := caseChecked(t, b.Call(toolexec.WithScope(toolexec.WithOperationRef(t.Context(), ref), scope), execOrder))
					assert.ErrorIs(t, e.Err(), cause)
					assert.Equal(t, toolexec.CodeDependencyUnavailable, e.Code)
					assert.Equal(t, toolexec.NotCommitted, e.CommitState)
					assert.Equal(t, toolexec.RetryAfterDelay, e.Retry.Directive)
					assert.Equal(t, toolexec.NextWaitAndRetry, e.NextAction)
					return e
				}

				e := call(one, "", "a/1")
				assert.Equal(t, execSeconds(0, 0.5, 1.5), starts.at())
				assert.NotErrorIs(t, e.Err(), toolexec.ErrRetryBudget, "its own retries were spent")
				assert.Empty(t, observedNotes[toolexec.RetryRefused](notes))

				e = call(two, "tenant", "a/2")
				assert.Equal(t, execSeconds(0, 0.5), starts.at())
				assert.Equal(t, 500*time.Millisecond, time.Since(starts.since), "without the pause of the retry that was refused")
				assert.ErrorIs(t, e.Err(), toolexec.ErrRetryBudget)
				assert.Equal(t, time.Second, time.Until(e.Retry.NotBefore), "which is when it may be repeated")

				e = call(one, "", "a/3")
				assert.Equal(t, execSeconds(0), starts.at(), "a first attempt never asks")
				assert.ErrorIs(t, e.Err(), toolexec.ErrRetryBudget)
				assert.Equal(t, 500*time.Millisecond, time.Until(e.Retry.NotBefore))
				assert.Equal(t, 8, e.Retry.MaxAttemptsRemaining)
				assert.Equal(t, []toolexec.RetryRefused{
					{Tool: "two", Key: toolexec.Key{Scope: "tenant", Ref: "a/2"}, After: toolexec.CodeDependencyUnavailable},
					{Tool: "one", Key: toolexec.Key{Ref: "a/3"}, After: toolexec.CodeDependencyUnavailable},
				}, observedNotes[toolexec.RetryRefused](notes))
				caseClose(t, &x)
			})
		})
	}
}

// What was refused is in the record like any other failure that waits.
func TestRetryBudgetLeavesTheOperationWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := toolexec.Executor{RetryBudget: budgetNone(0)}
		starts := execStart()
		b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error { starts.note(); return toolexec.NotSent(nil) }))
		ctx := toolexec.WithOperationRef(t.Context(), "a/0")
		b.Call(ctx, execOrder) // takes the one that there is
		ctx = toolexec.WithOperationRef(t.Context(), "a/1")
		starts = execStart()
		first := caseChecked(t, b.Call(ctx, execOrder))
		rec, err := (&toolexec.Supervisor{Executor: &x}).Get(ctx, toolexec.Key{Ref: "a/1"})
		require.NoError(t, err)
		assert.Equal(t, toolexec.StateReleased, rec.State)
		assert.Equal(t, 1, rec.Attempts)
		early := caseChecked(t, b.Call(ctx, execOrder))
		assert.Equal(t, first.Retry.NotBefore.UTC(), early.Retry.NotBefore.UTC())
		assert.Equal(t, execSeconds(0), starts.at())
		time.Sleep(time.Until(first.Retry.NotBefore))
		b.Call(ctx, execOrder)
		assert.Equal(t, execSeconds(0, 0.5), starts.at(), "calling again is a first attempt")
	})
}

// Settings, and how many retries they allow at once, and a second later, to calls that want 80 each time.
func TestRetryBudgetSettings(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, row := range []struct {
		name        string
		budget      toolexec.RetryBudget
		atOnce      int
		afterSecond int
	}{
		{"zero is off", toolexec.RetryBudget{}, 80, 80},
		{"negative burst is off", toolexec.RetryBudget{Burst: -1, PerSecond: 1}, 80, 80},
		{"both", toolexec.RetryBudget{Burst: 3, PerSecond: 2}, 3, 2},
		{"no more than the bucket holds", toolexec.RetryBudget{Burst: 3, PerSecond: 50}, 3, 3},
		{"a tenth of the burst", toolexec.RetryBudget{Burst: 20}, 20, 2},
		{"ten seconds' worth", toolexec.RetryBudget{PerSecond: 2}, 20, 2},
		{"at least one", toolexec.RetryBudget{PerSecond: 0.01}, 1, 0},
		{"less than one a second", toolexec.RetryBudget{Burst: 3, PerSecond: 0.5}, 3, 0},
		{"none come back", budgetNone(3), 3, 0},
		{"not a number", toolexec.RetryBudget{Burst: 3, PerSecond: nan}, 3, 0},
		{"not a number alone", toolexec.RetryBudget{PerSecond: nan}, 1, 0},
		{"negative alone", toolexec.RetryBudget{PerSecond: -1}, 1, 0},
		{"infinite", toolexec.RetryBudget{Burst: 5, PerSecond: inf}, 5, 5},
		{"infinite alone", toolexec.RetryBudget{PerSecond: inf}, 80, 80},
		{"the largest", toolexec.RetryBudget{Burst: math.MaxInt, PerSecond: math.MaxFloat64}, 80, 80},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := toolexec.Executor{RetryBudget: row.budget, Policy: toolexec.Policy{Backoff: toolexec.Backoff{Initial: -1}}}
				runs := 0
				b := toolexec.Bind(&x, execTool("r", toolexec.ReadOnly, func(context.Context) error { runs++; return io.EOF }))
				retries := func() int {
					runs = 0
					for range 40 {
						b.Call(t.Context(), execOrder)
					}
					return runs - 40
				}
				assert.Equal(t, row.atOnce, retries())
				time.Sleep(time.Second)
				assert.Equal(t, row.afterSecond, retries())
			})
		})
	}
}

// A token comes back at its instant, not before, also when it was asked for often meanwhile.
func TestRetryBudgetComesBackOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := toolexec.Executor{RetryBudget: toolexec.RetryBudget{Burst: 1, PerSecond: 0.1}, Policy: toolexec.Policy{MaxRetries: 1, Backoff: toolexec.Backoff{Initial: -1}}}
		runs := 0
		b := toolexec.Bind(&x, execTool("r", toolexec.ReadOnly, func(context.Context) error { runs++; return io.EOF }))
		attempts := func() int {
			before := runs
			b.Call(t.Context(), execOrder)
			return runs - before
		}
		for range 3 {
			assert.Equal(t, 2, attempts())
			for range 99 {
				assert.Equal(t, 1, attempts())
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(100*time.Millisecond - 50)
			assert.Equal(t, 1, attempts())
			time.Sleep(50)
		}
	})
}

// Tenths have no exact sums in binary: what is due is not refused for that.
func TestRetryBudgetRoundsInFavour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := toolexec.Executor{RetryBudget: toolexec.RetryBudget{Burst: 2, PerSecond: 0.1}, Policy: toolexec.Policy{MaxRetries: 1, Backoff: toolexec.Backoff{Initial: -1}}}
		runs := 0
		b := toolexec.Bind(&x, execTool("r", toolexec.ReadOnly, func(context.Context) error { runs++; return io.EOF }))
		for _, wait := range []time.Duration{0, 0, 14200 * time.Millisecond, 5800 * time.Millisecond} {
			time.Sleep(wait)
			b.Call(t.Context(), execOrder)
		}
		assert.Equal(t, 8, runs)
	})
}

// Only a retry that would be made asks.
func TestRetryBudgetIsNotSpentOnWhatIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := toolexec.Executor{RetryBudget: budgetNone(1), Policy: toolexec.Policy{MaxRetries: 1}}
		var err error
		runs := 0
		b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error { runs++; return err }))
		for i, e := range []error{nil, io.EOF, toolexec.Rejected(toolexec.CodeConflict, nil), retryLimited(time.Minute)} {
			err = e
			answer := caseChecked(t, b.Call(t.Context(), caseOrder{OrderID: "1", Cents: int64(i)}))
			assert.NotErrorIs(t, answer.Err(), toolexec.ErrRetryBudget)
		}
		assert.Equal(t, 4, runs)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		err = toolexec.NotSent(nil)
		b.Call(ctx, caseOrder{OrderID: "no time for the pause"})
		assert.Equal(t, 5, runs)
		b.Call(t.Context(), caseOrder{OrderID: "2"})
		assert.Equal(t, 7, runs, "the token was still there")
		b.Call(t.Context(), caseOrder{OrderID: "3"})
		assert.Equal(t, 8, runs)
	})
}

// A tool may return one value from every attempt, and from several at once.
func TestRetryBudgetLeavesTheToolsFailureAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
			x := toolexec.Executor{RetryBudget: budgetNone(1)}
			cause := errors.New("limited")
			own := toolexec.Rejected(toolexec.CodeRateLimited, cause)
			b := toolexec.Bind(&x, execTool("w", effect, func(context.Context) error { return own }))
			e := caseChecked(t, b.Call(t.Context(), execOrder))
			assert.ErrorIs(t, e.Err(), toolexec.ErrRetryBudget)
			assert.ErrorIs(t, e.Err(), cause)
			assert.Equal(t, toolexec.CodeRateLimited, e.Code)
			assert.Equal(t, cause, own.Err)
			assert.NotErrorIs(t, own, toolexec.ErrRetryBudget)
		}
	})
}

// A write that a look-up found not to have happened is sent again: that is a retry as well.
func TestRetryBudgetAfterALookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for effect, want := range map[toolexec.Effect][]int{toolexec.Write: {2, 1}, toolexec.Idempotent: {2, 1}} {
			notes := new(observeTrace)
			x := toolexec.Executor{RetryBudget: budgetNone(1), Observer: notes}
			var ledger caseLedger
			b := toolexec.Bind(&x, caseTool{
				Name: "w", Effect: effect, Run: func(context.Context, caseOrder) (caseReceipt, error) { ledger.run(); return caseReceipt{}, io.EOF },
				Verify: &toolexec.Verifier[caseOrder, caseReceipt]{Authoritative: true, Settle: -1, Lookup: ledger.lookUp},
			})
			before := 0
			for i, runs := range want {
				e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), []string{"a/1", "a/2"}[i]), execOrder))
				assert.Equal(t, runs, ledger.ran()-before, "%s %d", effect, i)
				before = ledger.ran()
				if i == 0 {
					continue
				}
				assert.ErrorIs(t, e.Err(), toolexec.ErrRetryBudget)
				assert.ErrorIs(t, e.Err(), io.EOF)
				assert.Equal(t, toolexec.NotCommitted, e.CommitState)
				assert.Equal(t, toolexec.RetryAfterDelay, e.Retry.Directive)
				assert.Equal(t, toolexec.NextWaitAndRetry, e.NextAction)
			}
			if effect == toolexec.Idempotent { // the second attempt of the first call as well
				require.Len(t, observedNotes[toolexec.RetryRefused](notes), 2, "each call is refused once, not again after the look-up")
			} else {
				require.Len(t, observedNotes[toolexec.RetryRefused](notes), 1)
			}
			caseClose(t, &x)
		}
	})
}

func TestRetryBudgetUnderConcurrency(t *testing.T) {
	x := toolexec.Executor{RetryBudget: budgetNone(100), Policy: toolexec.Policy{Backoff: toolexec.Backoff{Initial: -1}}}
	var runs atomic.Int64
	b := toolexec.Bind(&x, execTool("r", toolexec.ReadOnly, func(context.Context) error { runs.Add(1); return io.EOF }))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				b.Call(t.Context(), execOrder)
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 200+100, runs.Load())
}

func TestRetryBudgetInTheLog(t *testing.T) {
	var out bytes.Buffer
	o := &toolexec.SlogObserver{Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))}
	o.Note(t.Context(), toolexec.RetryRefused{Tool: "w", Key: toolexec.Key{Scope: "s", Ref: "a/1"}, After: toolexec.CodeRateLimited})
	assert.Equal(t, "level=WARN msg=\"toolexec: retry_refused\" tool=w operation_ref=a/1 scope=s after=RATE_LIMITED\n", out.String())
}

// What was to be verified is no refusal: once the look-up allows it, the same call of the same run is sent.
func TestLoopBreakerLetsTheSameCallVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var ledger caseLedger
		b := toolexec.Bind(&x, caseTool{
			Name: "w", Verify: &toolexec.Verifier[caseOrder, caseReceipt]{Authoritative: true, Lookup: ledger.lookUp},
			Run: func(context.Context, caseOrder) (caseReceipt, error) {
				if ledger.run() == 1 {
					return caseReceipt{}, io.EOF
				}
				return caseReceipt{"r"}, nil
			},
		})
		ctx := toolexec.WithRunID(toolexec.WithOperationRef(t.Context(), "a/1"), "run_1")
		for range 5 {
			e := caseChecked(t, b.Call(ctx, execOrder))
			assert.Equal(t, toolexec.CodeOutcomeUnknown, e.Code)
			assert.Equal(t, toolexec.NextVerifyOperation, e.NextAction)
		}
		time.Sleep(toolexec.DefaultSettle)
		e := caseChecked(t, b.Call(ctx, execOrder))
		assert.True(t, e.OK, "%s", e.Code)
		assert.Equal(t, 2, ledger.ran())
	})
}

// Nor is what a person has to allow first.
func TestLoopBreakerLetsTheSameCallAskForApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var ledger caseLedger
		b := toolexec.Bind(&x, caseTool{Name: "w", Approval: new(toolexec.Approval[caseOrder]), Run: func(context.Context, caseOrder) (caseReceipt, error) {
			ledger.run()
			return caseReceipt{}, nil
		}})
		ctx := toolexec.WithRunID(toolexec.WithOperationRef(t.Context(), "a/1"), "run_1")
		for range 5 {
			assert.Equal(t, toolexec.CodeMissingApproval, caseChecked(t, b.Call(ctx, execOrder)).Code)
		}
		assert.Zero(t, ledger.ran())
	})
}

// A repeat is the same call: tool, arguments, scope and run.
func TestLoopBreakerKnowsCallsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		runs := 0
		for _, name := range []string{"one", "two"} {
			toolexec.Bind(&x, execTool(name, toolexec.ReadOnly, func(context.Context) error { runs++; return toolexec.Rejected(toolexec.CodeConflict, nil) }))
		}
		call := toolexec.Call{Name: "one", RunID: "r", Scope: "s", Arguments: []byte(caseArgs)}
		other := func(f func(*toolexec.Call)) toolexec.Call { c := call; f(&c); return c }
		for i, row := range []struct {
			call  toolexec.Call
			first bool
		}{
			{call, true},
			{call, false},
			{other(func(c *toolexec.Call) { c.Arguments = []byte(`{"cents":8e3, "order_id":"ORD-5510"}`) }), false}, // the same in other words
			{other(func(c *toolexec.Call) { c.OperationRef, c.ID = "a/1", "call_2" }), false},
			{other(func(c *toolexec.Call) { c.Arguments = []byte(`{"order_id":"2"}`) }), true},
			{other(func(c *toolexec.Call) { c.Name = "two" }), true},
			{other(func(c *toolexec.Call) { c.Scope = "t" }), true},
			{other(func(c *toolexec.Call) { c.RunID = "q" }), true},
			{other(func(c *toolexec.Call) { c.RunID = "" }), true},
			{other(func(c *toolexec.Call) { c.RunID = "" }), true}, // without a run there are no loops to break
		} {
			before := runs
			e := caseChecked(t, x.Execute(t.Context(), row.call))
			assert.Equal(t, row.first, e.Code == toolexec.CodeConflict, "%d: %s", i, e.Code)
			assert.Equal(t, row.first, runs > before, "%d", i)
		}
		for i, args := range []string{`{`, `{"`, `{`} { // malformed ones by their bytes
			e := caseChecked(t, x.Execute(t.Context(), toolexec.Call{Name: "one", RunID: "r", Arguments: []byte(args)}))
			assert.Equal(t, i == 2, e.Code == toolexec.CodeUnchangedRetry, "%d", i)
		}
	})
}

// The gate of a read is that of its tool, and only a later time moves it.
func TestReadGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		starts := execStart()
		after := []time.Duration{time.Minute, 30 * time.Second}
		run := func(context.Context) error {
			n := starts.note()
			time.Sleep(time.Second)
			return retryLimited(after[n-1])
		}
		b := toolexec.Bind(&x, execTool("r", toolexec.ReadOnly, run))
		other := toolexec.Bind(&x, execTool("other", toolexec.ReadOnly, func(context.Context) error { return nil }))
		var wg sync.WaitGroup
		for i := range 2 { // both are on their way before the gate is shut
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				e := b.Call(t.Context(), execOrder)
				assert.Equal(t, after[i], time.Until(e.Retry.NotBefore).Round(time.Second))
			})
		}
		wg.Wait()
		assert.Len(t, starts.at(), 2)
		e := caseChecked(t, b.Call(t.Context(), execOrder))
		assert.Equal(t, time.Minute-time.Millisecond, time.Until(e.Retry.NotBefore), "the shorter time does not open it earlier")
		assert.Equal(t, toolexec.CodeRateLimited, e.Code)
		assert.Equal(t, 8, e.Retry.MaxAttemptsRemaining)
		assert.Len(t, starts.at(), 2)
		assert.True(t, other.Call(t.Context(), execOrder).OK, "another tool")
	})
}

// The lifetime bounds one call as well, that of a read too, which has no other life.
func TestLifetimeBudgetBoundsACall(t *testing.T) {
	for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
		for most, want := range map[int]int{1: 1, 2: 2, -1: 6} {
			synctest.Test(t, func(t *testing.T) {
				x := toolexec.Executor{Policy: toolexec.Policy{MaxAttempts: most, MaxRetries: 5, Backoff: toolexec.Backoff{Initial: -1}}}
				runs := 0
				b := toolexec.Bind(&x, execTool("w", effect, func(context.Context) error { runs++; return toolexec.NotSent(nil) }))
				e := caseChecked(t, b.Call(t.Context(), execOrder))
				assert.Equal(t, want, runs, "%s %d", effect, most)
				assert.Equal(t, most < 0, e.Retry.MaxAttemptsRemaining > 0)
			})
		}
	}
}

// A process that dies in its second attempt has spent two: where records outlive processes each dispatch is counted before
// it is made.
func TestLifetimeBudgetCountsBeforeTheDispatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := toolexec.Executor{Store: &caseDurable{Store: new(toolexec.MemoryStore)}}
		var counted []int
		b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(ctx context.Context) error {
			r, err := x.Store.Load(ctx, toolexec.Key{Ref: toolexec.OperationRef(ctx)})
			counted = append(counted, r.Attempts)
			return errors.Join(err, toolexec.NotSent(nil))
		}))
		caseChecked(t, b.Call(t.Context(), execOrder))
		assert.Equal(t, []int{1, 2, 3}, counted)
		caseClose(t, &x)
	})
}

// What is committed loses its result and keeps its fact, until the published limit; what may have happened is never forgotten.
func TestRetentionIsSeenByCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		runs := map[string]int{}
		b := toolexec.Bind(&x, caseTool{Name: "w", Run: func(ctx context.Context, _ caseOrder) (caseReceipt, error) {
			ref := toolexec.OperationRef(ctx)
			runs[ref]++
			return caseReceipt{ref}, map[string]error{"unknown": io.EOF, "rejected": toolexec.Invalid("order_id", "")}[ref]
		}})
		call := func(ref string) toolexec.Envelope[caseReceipt] {
			return caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), ref), execOrder))
		}
		for _, ref := range []string{"done", "unknown", "rejected"} {
			call(ref)
		}
		time.Sleep(time.Hour - 1)
		e := call("done")
		assert.Equal(t, caseReceipt{"done"}, e.Result)
		time.Sleep(1)
		e = call("done")
		assert.True(t, e.OK && e.Replayed && !e.HasResult)
		_, err := e.Value()
		assert.ErrorIs(t, err, toolexec.ErrNoResult)
		assert.Equal(t, toolexec.CodeUnchangedRetry, call("rejected").Code)
		time.Sleep(23*time.Hour - 1)
		assert.True(t, call("done").Replayed, "the last moment of the guarantee")
		assert.Equal(t, map[string]int{"done": 1, "unknown": 1, "rejected": 1}, runs)
		time.Sleep(1)
		call("done")
		call("rejected")
		time.Sleep(1000 * time.Hour)
		assert.Equal(t, toolexec.CommitUnknown, call("unknown").CommitState)
		assert.Equal(t, map[string]int{"done": 2, "unknown": 1, "rejected": 2}, runs)
	})
}

// At its bound the guard starts nothing new, and goes on with everything that it has; reads need no room.
func TestFullGuardGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := toolexec.Executor{Store: &toolexec.MemoryStore{MaxFacts: 3}}
		ran := map[string]int{}
		look := caseLedger{}
		b := toolexec.Bind(&x, caseTool{
			Name: "w", Verify: &toolexec.Verifier[caseOrder, caseReceipt]{Authoritative: true, Settle: time.Minute, Lookup: look.lookUp},
			Run: func(ctx context.Context, _ caseOrder) (caseReceipt, error) {
				ref := toolexec.OperationRef(ctx)
				if ran[ref]++; ran[ref] > 1 {
					return caseReceipt{}, nil
				}
				return caseReceipt{}, map[string]error{"unknown": io.EOF, "released": retryLimited(time.Minute)}[ref]
			},
		})
		read := toolexec.Bind(&x, execTool("r", toolexec.ReadOnly, func(context.Context) error { return nil }))
		call := func(ref string) toolexec.Envelope[caseReceipt] {
			return caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), ref), execOrder))
		}
		for _, ref := range []string{"done", "unknown", "released"} {
			call(ref)
		}
		e := call("new")
		assert.Equal(t, toolexec.CodeGuardFull, e.Code)
		assert.Equal(t, toolexec.NotCommitted, e.CommitState)
		assert.Equal(t, toolexec.NextWaitAndRetry, e.NextAction)
		assert.Zero(t, ran["new"])
		assert.True(t, read.Call(t.Context(), execOrder).OK)
		time.Sleep(time.Minute)
		for _, ref := range []string{"done", "unknown", "released"} {
			assert.True(t, call(ref).OK, ref)
		}
		assert.Equal(t, toolexec.CodeGuardFull, call("new").Code, "facts are not forgotten to make room")
		time.Sleep(24 * time.Hour)
		assert.True(t, call("new").OK, "until they expire")
		assert.Equal(t, map[string]int{"done": 1, "unknown": 2, "released": 2, "new": 1}, ran)
	})
}
