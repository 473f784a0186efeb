package toolexec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// retryStarts runs a tool that always fails with err and returns when its attempts started.
func retryStarts(t testing.TB, effect toolexec.Effect, p toolexec.Policy, err error) ([]time.Duration, toolexec.Envelope[caseReceipt]) {
	t.Helper()
	x := toolexec.Executor{Policy: p}
	starts := execStart()
	b := toolexec.Bind(&x, execTool("w", effect, func(context.Context) error { starts.note(); return err }))
	e := caseChecked(t, b.Call(t.Context(), execOrder))
	at := starts.at()
	assert.Equal(t, at[len(at)-1], time.Since(starts.since), "no pause after the last")
	return at, e
}

func TestPolicyIsInheritedFieldByField(t *testing.T) {
	unsent := toolexec.NotSent(nil)
	for _, row := range []struct {
		name           string
		executor, tool toolexec.Policy
		starts         []time.Duration
	}{
		{"defaults", toolexec.Policy{}, toolexec.Policy{}, execSeconds(0, 0.5, 1.5)},
		{"executor's retries", toolexec.Policy{MaxRetries: 1}, toolexec.Policy{}, execSeconds(0, 0.5)},
		{"tool's retries", toolexec.Policy{MaxRetries: 1}, toolexec.Policy{MaxRetries: 3}, execSeconds(0, 0.5, 1.5, 3.5)},
		{"executor turns off", toolexec.Policy{MaxRetries: -1}, toolexec.Policy{}, execSeconds(0)},
		{"tool turns off", toolexec.Policy{MaxRetries: 5}, toolexec.Policy{MaxRetries: -1}, execSeconds(0)},
		{"tool turns on", toolexec.Policy{MaxRetries: -1}, toolexec.Policy{MaxRetries: 1}, execSeconds(0, 0.5)},
		{"backoff is inherited by its fields", toolexec.Policy{Backoff: toolexec.Backoff{Initial: 100 * time.Millisecond}},
			toolexec.Policy{MaxRetries: 3, Backoff: toolexec.Backoff{Multiplier: 3}}, execSeconds(0, 0.1, 0.4, 1.3)},
		{"cap", toolexec.Policy{Backoff: toolexec.Backoff{Max: 600 * time.Millisecond}}, toolexec.Policy{MaxRetries: 4}, execSeconds(0, 0.5, 1.1, 1.7, 2.3)},
		{"no pauses", toolexec.Policy{Backoff: toolexec.Backoff{Initial: -1}}, toolexec.Policy{}, execSeconds(0, 0, 0)},
		{"multiplier below one", toolexec.Policy{}, toolexec.Policy{Backoff: toolexec.Backoff{Multiplier: 0.1}}, execSeconds(0, 0.5, 1)},
		{"no pause is slept", toolexec.Policy{MaxPause: -1}, toolexec.Policy{}, execSeconds(0)},
		{"short pauses are slept", toolexec.Policy{MaxPause: 700 * time.Millisecond}, toolexec.Policy{}, execSeconds(0, 0.5)},
		{"total deadline", toolexec.Policy{TotalDeadline: 1400 * time.Millisecond}, toolexec.Policy{}, execSeconds(0, 0.5)},
		{"a pause that ends at the total deadline", toolexec.Policy{TotalDeadline: 1500 * time.Millisecond}, toolexec.Policy{}, execSeconds(0, 0.5)},
		{"no total deadline", toolexec.Policy{TotalDeadline: -1, MaxPause: time.Hour}, toolexec.Policy{MaxRetries: 5}, execSeconds(0, 0.5, 1.5, 3.5, 7.5, 15.5)},
		{"lifetime", toolexec.Policy{MaxAttempts: 2}, toolexec.Policy{MaxRetries: 5}, execSeconds(0, 0.5)},
		{"no lifetime", toolexec.Policy{MaxAttempts: -1, Backoff: toolexec.Backoff{Initial: -1}}, toolexec.Policy{MaxRetries: 11}, make([]time.Duration, 12)},
	} {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
			t.Run(row.name+"/"+effect.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x := toolexec.Executor{Policy: row.executor}
					starts := execStart()
					tool := execTool("w", effect, func(context.Context) error { starts.note(); return unsent })
					tool.Policy = row.tool
					e := caseChecked(t, toolexec.Bind(&x, tool).Call(t.Context(), execOrder))
					assert.Equal(t, row.starts, starts.at())
					assert.Equal(t, row.starts[len(row.starts)-1], time.Since(starts.since), "no pause after the last")
					assert.Equal(t, toolexec.NotCommitted, e.CommitState)
				})
			})
		}
	}
}

func TestLifetimeBudgetCountsOverCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := toolexec.Executor{Policy: toolexec.Policy{MaxAttempts: 4}}
		runs := 0
		b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error { runs++; return toolexec.NotSent(nil) }))
		ctx := toolexec.WithOperationRef(t.Context(), "a/1")
		e := caseChecked(t, b.Call(ctx, execOrder))
		assert.Equal(t, 3, runs)
		assert.Equal(t, 1, e.Retry.MaxAttemptsRemaining)
		assert.Equal(t, 2*time.Second, time.Until(e.Retry.NotBefore), "the next pause")
		early := caseChecked(t, b.Call(ctx, execOrder))
		assert.Equal(t, 3, runs, "not before its time")
		assert.Equal(t, e.Retry.NotBefore.UTC(), early.Retry.NotBefore.UTC())
		time.Sleep(time.Until(e.Retry.NotBefore))
		e = caseChecked(t, b.Call(ctx, execOrder))
		assert.Equal(t, 4, runs)
		assert.Equal(t, toolexec.NextEscalate, e.NextAction, "the lifetime is spent")
		assert.Equal(t, toolexec.NotCommitted, e.CommitState)
		time.Sleep(time.Hour)
		caseChecked(t, b.Call(ctx, execOrder))
		assert.Equal(t, 4, runs)
	})
}

func TestNegativeCorrectionsAndRepeatsTurnOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for corrections, want := range map[int]int{-1: 1, 0: 2, 3: 4} {
			x := toolexec.Executor{Policy: toolexec.Policy{MaxCorrections: corrections}}
			runs := 0
			b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error { runs++; return toolexec.Invalid("cents", "") }))
			for i := range 6 {
				caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), caseOrder{OrderID: "1", Cents: int64(i)}))
			}
			assert.Equal(t, want, runs, "MaxCorrections %d", corrections)
		}
		for repeats, want := range map[int]int{-1: 1, 1: 2, 0: 4} {
			x := toolexec.Executor{Policy: toolexec.Policy{MaxRepeats: repeats}}
			n := 1
			for x.Execute(t.Context(), toolexec.Call{Name: "no_such", RunID: "r"}).NextAction != toolexec.NextEscalate {
				n++
				require.Less(t, n, 20)
			}
			assert.Equal(t, want, n-1, "MaxRepeats %d", repeats)
		}
	})
}

func TestRetryNeedsAClassAndAStateThatAllowIt(t *testing.T) {
	type runs struct{ write, idempotent, read int }
	for _, row := range []struct {
		name string
		err  error
		want runs
	}{
		{"not sent", toolexec.NotSent(nil), runs{3, 3, 3}},
		{"not sent, permanent", &toolexec.Failure{Code: toolexec.CodeTLSVerificationFailed, Evidence: toolexec.EvidenceNotSent}, runs{1, 1, 1}},
		{"rejected, transient", toolexec.Rejected(toolexec.CodeRateLimited, nil), runs{3, 3, 3}},
		{"rejected, permanent", toolexec.Rejected(toolexec.CodeConflict, nil), runs{1, 1, 1}},
		{"invalid", toolexec.Invalid("cents", ""), runs{1, 1, 1}},
		{"in doubt", toolexec.InDoubt(nil), runs{1, 3, 3}},
		{"transient", toolexec.Transient(nil), runs{1, 3, 3}},
		{"closed", io.EOF, runs{1, 3, 3}},
		{"timeout", os.ErrDeadlineExceeded, runs{1, 3, 3}},
		{"in doubt, permanent", &toolexec.Failure{Code: toolexec.CodeDataLoss}, runs{1, 1, 1}},
		{"plain", errors.New("x"), runs{1, 1, 1}},
		{"made-up cancel", context.Canceled, runs{1, 1, 1}},
		{"empty", toolexec.Empty(""), runs{1, 1, 1}},
		{"joined with in doubt", errors.Join(toolexec.NotSent(nil), io.EOF), runs{1, 3, 3}},
		{"joined with plain", errors.Join(toolexec.NotSent(nil), errors.New("x")), runs{1, 1, 1}},
		{"committed, transient", &toolexec.Failure{Class: toolexec.ClassTransient, Evidence: toolexec.EvidenceCommitted}, runs{1, 1, 3}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := retryStarts(t, toolexec.Write, toolexec.Policy{}, row.err)
				i, _ := retryStarts(t, toolexec.Idempotent, toolexec.Policy{}, row.err)
				r, _ := retryStarts(t, toolexec.ReadOnly, toolexec.Policy{}, row.err)
				assert.Equal(t, row.want, runs{len(w), len(i), len(r)})
			})
		})
	}
	for name, end := range map[string]func(){"panic": func() { panic("x") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
					var x toolexec.Executor
					n := 0
					caseChecked(t, toolexec.Bind(&x, execTool("w", effect, func(context.Context) error { n++; end(); return nil })).Call(t.Context(), execOrder))
					assert.Equal(t, 1, n, "%s", effect)
				}
			})
		})
	}
}

// A write whose first attempt was not sent may go on; once one is in doubt it may not.
func TestRetryStopsAtTheFirstAttemptInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		n := 0
		b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error {
			if n++; n == 2 {
				return io.EOF
			}
			return toolexec.NotSent(nil)
		}))
		e := caseChecked(t, b.Call(t.Context(), execOrder))
		assert.Equal(t, 2, n)
		assert.Equal(t, toolexec.CommitUnknown, e.CommitState)
	})
}

func retryLimited(after time.Duration) error {
	return &toolexec.Failure{Code: toolexec.CodeRateLimited, Evidence: toolexec.EvidenceRejected, RetryAfter: after}
}

func TestRetryAfterIsALowerBound(t *testing.T) {
	for _, row := range []struct {
		after  time.Duration
		starts []time.Duration
		wait   time.Duration // after the last
	}{
		{0, execSeconds(0, 0.5, 1.5), 2 * time.Second},
		{100 * time.Millisecond, execSeconds(0, 0.5, 1.5), 2 * time.Second},
		{700 * time.Millisecond, execSeconds(0, 0.7, 1.7), 2 * time.Second},
		{3 * time.Second, execSeconds(0, 3, 6), 3 * time.Second},
		{5 * time.Second, execSeconds(0, 5), 5 * time.Second}, // a further pause would end at the total deadline
		{5*time.Second + 1, execSeconds(0), 5*time.Second + 1},
		{time.Hour, execSeconds(0), time.Hour},
		{math.MaxInt64, execSeconds(0), 24 * time.Hour},
		{-time.Hour, execSeconds(0, 0.5, 1.5), 2 * time.Second},
	} {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
			t.Run(fmt.Sprint(row.after, "/", effect), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					starts, e := retryStarts(t, effect, toolexec.Policy{}, retryLimited(row.after))
					assert.Equal(t, row.starts, starts)
					assert.Equal(t, toolexec.CodeRateLimited, e.Code)
					assert.Equal(t, toolexec.RetryAfterDelay, e.Retry.Directive)
					assert.Equal(t, toolexec.NextWaitAndRetry, e.NextAction)
					assert.Equal(t, row.wait, time.Until(e.Retry.NotBefore))
				})
			})
		}
	}
}

// What the remote side said is kept to by the next call, too.
func TestNothingIsInvokedBeforeNotBefore(t *testing.T) {
	for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
		t.Run(effect.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				starts := execStart()
				b := toolexec.Bind(&x, execTool("w", effect, func(context.Context) error { starts.note(); return retryLimited(time.Minute) }))
				ctx := toolexec.WithOperationRef(t.Context(), "a/1")
				first := caseChecked(t, b.Call(ctx, execOrder))
				for range 3 {
					time.Sleep(10 * time.Second)
					again := caseChecked(t, b.Call(ctx, execOrder))
					assert.Equal(t, toolexec.CodeRateLimited, again.Code, "same answer")
					assert.Equal(t, first.Retry.NotBefore.UTC(), again.Retry.NotBefore.UTC(), "same instant")
				}
				assert.Equal(t, execSeconds(0), starts.at()) // a read waits as well
				time.Sleep(time.Until(first.Retry.NotBefore))
				b.Call(ctx, execOrder)
				assert.Contains(t, starts.at(), time.Minute)
				if effect == toolexec.ReadOnly {
					at := len(starts.at())
					b.Call(toolexec.WithScope(t.Context(), "other tenant"), execOrder)
					assert.Len(t, starts.at(), at+1, "another scope has limits of its own")
				}
			})
		})
	}
}

func TestLastErrorIsKept(t *testing.T) {
	t.Run("after exhaustion", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
				var x toolexec.Executor
				causes := []error{errors.New("first"), errors.New("second"), errors.New("last")}
				n := 0
				b := toolexec.Bind(&x, execTool("w", effect, func(context.Context) error { n++; return toolexec.NotSent(causes[n-1]) }))
				e := caseChecked(t, b.Call(t.Context(), execOrder))
				assert.ErrorIs(t, e.Err(), causes[2])
				assert.NotErrorIs(t, e.Err(), causes[0])
				assert.Equal(t, toolexec.CodeDependencyUnavailable, e.Code, "the last cause keeps its code")
			}
		})
	})
	t.Run("of a pause too long to sleep", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("limited")
			f := &toolexec.Failure{Code: toolexec.CodeRateLimited, Evidence: toolexec.EvidenceRejected, RetryAfter: time.Hour, Err: cause}
			_, e := retryStarts(t, toolexec.ReadOnly, toolexec.Policy{}, f)
			assert.ErrorIs(t, e.Err(), cause)
		})
	})
	t.Run("after too many abandoned attempts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, effect := range []toolexec.Effect{toolexec.Idempotent, toolexec.ReadOnly} {
				x := toolexec.Executor{Policy: toolexec.Policy{MaxAbandoned: 1}}
				b := toolexec.Bind(&x, execTool("w", effect, func(context.Context) error { time.Sleep(time.Minute); return nil }))
				e := caseChecked(t, b.Call(t.Context(), execOrder))
				// The bound refuses the retry, and the answer is still the failure that the call met.
				assert.ErrorIs(t, e.Err(), context.DeadlineExceeded)
				caseClose(t, &x)
			}
		})
	})
}

func TestJitterShortensPausesWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lengths := map[time.Duration]bool{}
		for range 50 {
			starts, _ := retryStarts(t, toolexec.ReadOnly, toolexec.Policy{Backoff: toolexec.Backoff{Jitter: 0.5, Max: 800 * time.Millisecond}}, io.EOF)
			require.Len(t, starts, 3)
			first, second := starts[1], starts[2]-starts[1]
			assert.True(t, first > 250*time.Millisecond-1 && first <= 500*time.Millisecond, "%v", first)
			assert.True(t, second > 400*time.Millisecond-1 && second <= 800*time.Millisecond, "%v", second)
			lengths[first] = true
		}
		assert.Greater(t, len(lengths), 40, "it is drawn")
	})
}

func TestAbsurdPoliciesEnd(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for i, b := range []toolexec.Backoff{
		{Multiplier: nan}, {Multiplier: inf}, {Multiplier: -inf}, {Jitter: nan}, {Jitter: inf}, {Jitter: -inf},
		{Initial: math.MaxInt64}, {Initial: math.MinInt64}, {Max: math.MinInt64, Initial: math.MaxInt64, Multiplier: inf, Jitter: 1}, {Initial: 1, Multiplier: math.MaxFloat64},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				starts, e := retryStarts(t, toolexec.Write, toolexec.Policy{Backoff: b, MaxRetries: math.MaxInt, MaxAttempts: 20}, toolexec.NotSent(nil))
				assert.LessOrEqual(t, len(starts), 20)
				for i, at := range starts {
					assert.GreaterOrEqual(t, at, starts[max(i-1, 0)])
					assert.Less(t, at, 10*time.Second)
				}
				if !e.Retry.NotBefore.IsZero() {
					assert.GreaterOrEqual(t, time.Until(e.Retry.NotBefore), time.Duration(0))
				}
			})
		})
	}
}

// A Policy is a plain value that may be shared, and calls that pause do not disturb one another.
func TestPolicyIsSharedByConcurrentCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := toolexec.Policy{MaxRetries: 3, Backoff: toolexec.Backoff{Jitter: 0.5}}
		was := policy
		x := toolexec.Executor{Policy: policy}
		b := toolexec.Bind(&x, execTool("r", toolexec.ReadOnly, func(context.Context) error { return io.EOF }))
		plain := execTool("p", toolexec.ReadOnly, func(context.Context) error { return io.EOF })
		plain.Policy.Backoff.Jitter = -1
		p := toolexec.Bind(&x, plain)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { caseChecked(t, b.Call(t.Context(), execOrder)) })
			wg.Go(func() {
				start := time.Now()
				caseChecked(t, p.Call(t.Context(), execOrder))
				assert.Equal(t, 3500*time.Millisecond, time.Since(start))
			})
		}
		wg.Wait()
		assert.Equal(t, was, x.Policy)
	})
}

// A statement that was rejected proves nothing of what the tool has committed before. A tool that debits and credits without a
// transaction around both, and whose credit meets a deadlock, must not debit again.
func TestRejectedStatementIsNotTheAttempt(t *testing.T) {
	for name, row := range map[string]struct {
		effect     toolexec.Effect
		oneRequest bool // the tool has a transaction around both
		debits     int
		state      toolexec.CommitState
	}{
		"a write":                    {toolexec.Write, false, 1, toolexec.CommitUnknown},
		"a write of one transaction": {toolexec.Write, true, 3, toolexec.NotCommitted},
		"the other side dedupes":     {toolexec.Idempotent, false, 3, toolexec.CommitUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				debits := 0
				tool := execTool("transfer", row.effect, func(context.Context) error {
					debits++
					return mappingStateError("40P01") // of the credit
				})
				tool.OneRequest = row.oneRequest
				e := toolexec.Bind(&x, tool).Call(t.Context(), execOrder)
				caseChecked(t, e)
				assert.Equal(t, row.debits, debits)
				assert.Equal(t, row.state, e.CommitState)
				assert.Equal(t, toolexec.CodeSerializationConflict, e.Code)
			})
		})
	}
}
