package toolexectest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// faultEnd is how an attempt ended, as seen from outside.
type faultEnd struct {
	out    string
	err    error
	panics any
	exits  bool
	took   time.Duration
}

// attemptFault makes one attempt on a goroutine of its own.
func attemptFault(ctx context.Context, run func(context.Context, string) (string, error)) faultEnd {
	began := time.Now()
	ended := make(chan faultEnd, 1)
	go func() {
		e := faultEnd{exits: true}
		defer func() {
			e.took = time.Since(began)
			if e.panics = recover(); e.panics != nil {
				e.exits = false
			}
			ended <- e
		}()
		e.out, e.err = run(ctx, "a")
		e.exits = false
	}()
	return <-ended
}

var errFaultTest = errors.New("reset")

func TestFaults(t *testing.T) {
	const deadline = 2 * time.Second
	ok := func(d time.Duration) faultEnd { return faultEnd{out: "a", took: d} }
	failed := func(err error, d time.Duration) faultEnd { return faultEnd{err: err, took: d} }
	type leg = toolexectest.Leg
	type fault = toolexectest.Fault
	for _, c := range []struct {
		name    string
		fault   fault
		want    faultEnd
		effects []time.Duration // when the effect happens
	}{
		{"none", toolexectest.OK(), ok(0), []time.Duration{0}},
		{"nothing is sent", toolexectest.NotSent(), failed(toolexectest.ErrInjected, 0), nil},
		{"the request is lost", toolexectest.DropRequest(), failed(context.DeadlineExceeded, deadline), nil},
		{"the answer is lost", toolexectest.DropAnswer(), failed(context.DeadlineExceeded, deadline), []time.Duration{0}},
		{"a slow request", toolexectest.DelayRequest(time.Second), ok(time.Second), []time.Duration{time.Second}},
		{"a request that arrives after the deadline", toolexectest.DelayRequest(5 * time.Second), failed(context.DeadlineExceeded, deadline), []time.Duration{5 * time.Second}},
		{"a request that arrives at the deadline", toolexectest.DelayRequest(deadline), failed(context.DeadlineExceeded, deadline), []time.Duration{deadline}},
		{"a slow answer", toolexectest.DelayAnswer(time.Second), ok(time.Second), []time.Duration{0}},
		{"an answer after the deadline", toolexectest.DelayAnswer(5 * time.Second), failed(context.DeadlineExceeded, deadline), []time.Duration{0}},
		{"an answer at the deadline", toolexectest.DelayAnswer(deadline), failed(context.DeadlineExceeded, deadline), []time.Duration{0}},
		{"an error without the effect", toolexectest.FailRequest(errFaultTest), failed(errFaultTest, 0), nil},
		{"an error after the effect", toolexectest.FailAnswer(errFaultTest), failed(errFaultTest, 0), []time.Duration{0}},
		{"a hang before the effect", fault{Request: leg{Hang: 5 * time.Second}}, ok(5 * time.Second), []time.Duration{5 * time.Second}},
		{"a hang after the effect", fault{Answer: leg{Hang: 5 * time.Second}}, ok(5 * time.Second), []time.Duration{0}},
		{"a panic before the effect", fault{Request: leg{Panic: "p"}}, faultEnd{panics: "p"}, nil},
		{"a panic after the effect", fault{Answer: leg{Panic: "p"}}, faultEnd{panics: "p"}, []time.Duration{0}},
		{"a Goexit before the effect", fault{Request: leg{Goexit: true}}, faultEnd{exits: true}, nil},
		{"a Goexit after the effect", fault{Answer: leg{Goexit: true}}, faultEnd{exits: true}, []time.Duration{0}},
		{"an empty answer", fault{Answer: leg{Empty: true}}, faultEnd{}, []time.Duration{0}},
		{"an empty answer without the effect", fault{Request: leg{Empty: true}}, faultEnd{}, nil},
		{"a wrong answer", fault{Answer: leg{Result: "b"}}, faultEnd{out: "b"}, []time.Duration{0}},
		{"an answer without the effect", fault{Request: leg{Result: "b"}}, faultEnd{out: "b"}, nil},
		{"a slow refusal", fault{Request: leg{Delay: time.Second, Err: errFaultTest}}, failed(errFaultTest, time.Second), nil},
		{"a refusal after the deadline", fault{Request: leg{Delay: 5 * time.Second, Err: errFaultTest}}, failed(context.DeadlineExceeded, deadline), nil},
		{"slow both ways", fault{Request: leg{Delay: time.Second}, Answer: leg{Delay: time.Second / 2}}, ok(1500 * time.Millisecond), []time.Duration{time.Second}},
		{"late there, lost on the way back", fault{Request: leg{Delay: 5 * time.Second}, Answer: leg{Drop: true}}, failed(context.DeadlineExceeded, deadline), []time.Duration{5 * time.Second}},
		{"a hang, then a late request", fault{Request: leg{Hang: 3 * time.Second, Delay: 3 * time.Second}}, failed(context.DeadlineExceeded, 3*time.Second), []time.Duration{6 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var effects []time.Duration
				began := time.Now()
				plan := toolexectest.Script(c.fault)
				run := toolexectest.Wrap(plan, func(_ context.Context, in string) (string, error) {
					effects = append(effects, time.Since(began))
					return in, nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()

				got := attemptFault(ctx, run)
				plan.Wait()
				assert.ErrorIs(t, got.err, c.want.err)
				got.err, c.want.err = nil, nil
				assert.Equal(t, c.want, got)
				assert.Equal(t, c.effects, effects)
				plan.Check(t)

				assert.Equal(t, faultEnd{out: "a"}, attemptFault(ctx, run), "after the script there is no fault")
				assert.Equal(t, 2, plan.Attempts())
			})
		})
	}
}

// An attempt that is cancelled gives up at once, and its request goes on.
func TestFaultsObeyCancel(t *testing.T) {
	for name, c := range map[string]struct {
		fault   toolexectest.Fault
		effects []time.Duration
	}{
		"request dropped":        {toolexectest.DropRequest(), nil},
		"request delayed 1h0m0s": {toolexectest.DelayRequest(time.Hour), []time.Duration{time.Hour}},
		"answer dropped":         {toolexectest.DropAnswer(), []time.Duration{0}},
		"answer delayed 1h0m0s":  {toolexectest.DelayAnswer(time.Hour), []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				assert.Equal(t, name, c.fault.String())
				began := time.Now()
				var effects []time.Duration
				plan := toolexectest.Script(c.fault)
				run := toolexectest.Wrap(plan, func(context.Context, string) (string, error) {
					effects = append(effects, time.Since(began))
					return "a", nil
				})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errFaultTest) })
				got := attemptFault(ctx, run)
				assert.Equal(t, faultEnd{err: errFaultTest, took: time.Second}, got)
				plan.Wait()
				assert.Equal(t, c.effects, effects)
			})
		})
	}
}

// The answer of a late request is lost, whatever it would have been.
func TestFaultLateEffects(t *testing.T) {
	type key struct{}
	for name, end := range map[string]func(){
		"return": func() {},
		"panic":  func() { panic("late") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var arrived atomic.Bool
				plan := toolexectest.Script(toolexectest.DelayRequest(time.Minute))
				run := toolexectest.Wrap(plan, func(ctx context.Context, _ string) (string, error) {
					arrived.Store(true)
					assert.NoError(t, ctx.Err(), "the attempt's end does not reach it")
					assert.Equal(t, "v", ctx.Value(key{}))
					end()
					return "", nil
				})
				ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Second)
				defer cancel()
				_, err := run(ctx, "")
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.False(t, arrived.Load())
				plan.Wait()
				assert.True(t, arrived.Load())
			})
		})
	}
}

func TestFaultScriptGoesByAttempt(t *testing.T) {
	plan := toolexectest.Script(toolexectest.NotSent(), toolexectest.OK(), toolexectest.FailAnswer(errFaultTest))
	calls := 0
	run := toolexectest.Wrap(plan, func(context.Context, int) (int, error) { calls++; return calls, nil })
	other := toolexectest.Wrap(plan, func(context.Context, string) (string, error) { return "other", nil })

	_, err := run(t.Context(), 0)
	assert.ErrorIs(t, err, toolexectest.ErrInjected)
	got, err := other(t.Context(), "")
	assert.NoError(t, err)
	assert.Equal(t, "other", got)
	assert.Len(t, plan.Unfired(), 1)
	_, err = run(t.Context(), 0)
	assert.ErrorIs(t, err, errFaultTest)
	n, err := run(t.Context(), 0)
	assert.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.Equal(t, 4, plan.Attempts())
	plan.Check(t)
}

// faultErrors records what a check reports.
type faultErrors struct {
	testing.TB
	got []string
}

func (f *faultErrors) Helper() {}
func (f *faultErrors) Error(args ...any) {
	f.got = append(f.got, args[0].(string)) //nolint:forcetypeassert // Check gives one string
}

func TestFaultsThatDoNotFire(t *testing.T) {
	effect := func(context.Context, int) (int, error) { return 1, nil }
	slow := toolexectest.Leg{Hang: time.Millisecond, Delay: time.Hour}
	for name, c := range map[string]struct {
		plan     *toolexectest.Plan
		attempts int
		f        func(context.Context, int) (int, error)
		want     []string
	}{
		"an empty script":      {toolexectest.Script(), 0, effect, nil},
		"the zero plan":        {new(toolexectest.Plan), 1, effect, nil},
		"no fault is no fault": {toolexectest.Script(toolexectest.OK(), toolexectest.OK()), 0, effect, nil},
		"no attempt":           {toolexectest.Script(toolexectest.DropAnswer()), 0, effect, []string{"toolexectest: step 1 of 1: answer dropped: did not fire in 0 attempt(s)"}},
		"too few attempts":     {toolexectest.Script(toolexectest.NotSent(), toolexectest.OK(), toolexectest.NotSent()), 2, effect, []string{"toolexectest: step 3 of 3: request failed: did not fire in 2 attempt(s)"}},
		"both ways":            {toolexectest.Script(toolexectest.Fault{Request: slow, Answer: slow}), 0, effect, []string{"toolexectest: step 1 of 1: request hung 1ms, request delayed 1h0m0s: did not fire in 0 attempt(s)", "toolexectest: step 1 of 1: answer hung 1ms, answer delayed 1h0m0s: did not fire in 0 attempt(s)"}},
		"a function that panics": {
			toolexectest.Script(toolexectest.FailAnswer(errFaultTest)), 1, func(context.Context, int) (int, error) { panic("no answer") },
			[]string{"toolexectest: step 1 of 1: answer failed: did not fire in 1 attempt(s)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := toolexectest.Wrap(c.plan, c.f)
			for range c.attempts {
				func() {
					defer func() { _ = recover() }()
					_, _ = run(t.Context(), 0)
				}()
			}
			var report faultErrors
			c.plan.Check(&report)
			assert.Equal(t, c.want, report.got)
		})
	}
}

func TestFaultWords(t *testing.T) {
	for want, fault := range map[string]toolexectest.Fault{
		"no fault":         toolexectest.OK(),
		"request failed":   toolexectest.NotSent(),
		"request dropped":  toolexectest.DropRequest(),
		"answer panicked":  {Answer: toolexectest.Leg{Panic: 1}},
		"answer exited":    {Answer: toolexectest.Leg{Goexit: true}},
		"answer emptied":   {Answer: toolexectest.Leg{Empty: true}},
		"request replaced": {Request: toolexectest.Leg{Result: 1}},
		"request delayed 3s, answer hung 4s, answer failed": {
			Request: toolexectest.Leg{Delay: 3 * time.Second},
			Answer:  toolexectest.Leg{Hang: 4 * time.Second, Err: errFaultTest},
		},
	} {
		assert.Equal(t, want, fault.String())
	}
}

func TestFaultMistakesPanic(t *testing.T) {
	type leg = toolexectest.Leg
	script := func(f toolexectest.Fault) func() {
		return func() { toolexectest.Script(toolexectest.OK(), f) }
	}
	assert.PanicsWithValue(t, "toolexectest: Script: step 2 (request dropped, request failed): one way can end in one manner only",
		script(toolexectest.Fault{Request: leg{Drop: true, Err: errFaultTest}}))
	assert.PanicsWithValue(t, "toolexectest: Script: step 2 (answer exited, answer emptied): one way can end in one manner only",
		script(toolexectest.Fault{Answer: leg{Goexit: true, Empty: true}}))
	assert.PanicsWithValue(t, "toolexectest: Script: step 2 (request failed, answer delayed 1s): there is no answer to spoil when the request ends the attempt",
		script(toolexectest.Fault{Request: leg{Err: errFaultTest}, Answer: leg{Delay: time.Second}}))
	assert.PanicsWithValue(t, "toolexectest: Wrap: step 1 replaces the result by a int, but the function returns a string", func() {
		plan := toolexectest.Script(toolexectest.Fault{Answer: leg{Result: 1}})
		toolexectest.Wrap(plan, func(context.Context, int) (string, error) { return "", nil })
	})
}

// Each step strikes once, however many attempts start at the same time.
func TestFaultsUnderConcurrency(t *testing.T) {
	const n = 40
	plan := toolexectest.Script(slices.Repeat([]toolexectest.Fault{toolexectest.FailRequest(errFaultTest)}, n/2)...)
	run := toolexectest.Wrap(plan, func(context.Context, int) (int, error) { return 1, nil })
	var mu sync.Mutex
	var failed int
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := run(t.Context(), 0); err != nil {
				mu.Lock()
				failed++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, n/2, failed)
	assert.Equal(t, n, plan.Attempts())
	plan.Check(t)
}

// Through the executor: what a write tool's faults come to, and what the ledger
// says about it.
func TestFaultsThroughTheExecutor(t *testing.T) {
	type leg = toolexectest.Leg
	type fault = toolexectest.Fault
	refused := toolexec.CodeToolFailed
	for _, c := range []struct {
		name     string
		fault    fault
		code     toolexec.Code
		state    toolexec.CommitState
		attempts int
		effects  int
	}{
		{"nothing sent", toolexectest.NotSent(), toolexec.CodeOK, toolexec.Committed, 2, 1},
		{"request lost", toolexectest.DropRequest(), toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown, 1, 0},
		{"request late", toolexectest.DelayRequest(3 * time.Second), toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown, 1, 1},
		{"answer lost", toolexectest.DropAnswer(), toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown, 1, 1},
		{"answer slow", toolexectest.DelayAnswer(time.Second), toolexec.CodeOK, toolexec.Committed, 1, 1},
		{"error after the effect", toolexectest.FailAnswer(errFaultTest), toolexec.CodeToolFailed, toolexec.CommitUnknown, 1, 1},
		{"panic after the effect", fault{Answer: leg{Panic: 1}}, toolexec.CodeToolPanic, toolexec.CommitUnknown, 1, 1},
		{"Goexit before it", fault{Request: leg{Goexit: true}}, toolexec.CodeToolPanic, toolexec.CommitUnknown, 1, 0},
		{"hang before it", fault{Request: leg{Hang: 3 * time.Second}}, toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown, 1, 1},
		{"transient", toolexectest.Refuse(toolexec.ClassTransient), toolexec.CodeOK, toolexec.Committed, 2, 1},
		{"permanent", toolexectest.Refuse(toolexec.ClassPermanent), refused, toolexec.NotCommitted, 1, 0},
		{"empty", toolexectest.Refuse(toolexec.ClassEmptyResult), toolexec.CodeEmptyResult, toolexec.NotCommitted, 1, 0},
		{"malformed", toolexectest.Refuse(toolexec.ClassMalformed), toolexec.CodeInvalidArguments, toolexec.NotCommitted, 1, 0},
		{"unknown tool", toolexectest.Refuse(toolexec.ClassUnknownTool), toolexec.CodeUnknownTool, toolexec.NotCommitted, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				var ledger toolexectest.Ledger
				plan := toolexectest.Script(c.fault)
				tool := toolexec.Bind(&x, toolexec.Tool[string, int]{
					Name: "post",
					Run: toolexectest.Wrap(plan, func(ctx context.Context, in string) (int, error) {
						return ledger.Record(toolexec.OperationRef(ctx), in).N, nil
					}),
				})
				env := tool.Call(toolexec.WithOperationRef(t.Context(), "op/1"), "a")
				require.NoError(t, x.Close(t.Context()))
				plan.Wait()
				plan.Check(t)
				assert.Equal(t, c.code, env.Code)
				assert.Equal(t, c.state, env.CommitState)
				assert.Equal(t, c.attempts, plan.Attempts())
				assert.Equal(t, c.effects, ledger.Effects("op/1"), "also late ones go by the ref")
				assert.Equal(t, c.effects, ledger.Total())
			})
		})
	}
}
