package toolexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// observeSpan is what Start opened. Spans nest by the context that Start returned.
type observeSpan struct {
	depth int
	began toolexec.Event
	ended toolexec.Event
}

type observeKey struct{}

// observeIn is the name of the innermost span of ctx, with its depth.
func observeIn(ctx context.Context) string {
	if s, ok := ctx.Value(observeKey{}).(*observeSpan); ok {
		return s.began.EventName()
	}
	return ""
}

// observeTrace is an Observer that keeps everything, as a tracer would.
type observeTrace struct {
	delay func(e toolexec.Event) time.Duration // how long Start takes; nil: no time

	mu    sync.Mutex // protects what follows
	lines []string   // indented by nesting
	spans []*observeSpan
	notes []toolexec.Event
	stray []string // an End without its Start, or the other way round
}

func (o *observeTrace) Start(ctx context.Context, e toolexec.Event) context.Context {
	if o.delay != nil {
		time.Sleep(o.delay(e))
	}
	s := &observeSpan{began: e}
	if outer, ok := ctx.Value(observeKey{}).(*observeSpan); ok {
		s.depth = outer.depth + 1
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spans = append(o.spans, s)
	o.lines = append(o.lines, strings.Repeat("  ", s.depth)+e.EventName())
	return context.WithValue(ctx, observeKey{}, s)
}

func (o *observeTrace) End(ctx context.Context, e toolexec.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := ctx.Value(observeKey{}).(*observeSpan)
	if !ok || s.ended != nil || s.began.EventName() != e.EventName() {
		o.stray = append(o.stray, e.EventName())
		return
	}
	s.ended = e
	o.lines = append(o.lines, strings.Repeat("  ", s.depth)+"/"+e.EventName())
}

func (o *observeTrace) Note(ctx context.Context, e toolexec.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	depth := 0
	if outer, ok := ctx.Value(observeKey{}).(*observeSpan); ok {
		depth = outer.depth + 1
	}
	o.notes = append(o.notes, e)
	o.lines = append(o.lines, strings.Repeat("  ", depth)+"- "+e.EventName())
}

// observed returns the beginnings and ends of one type, in the order of their beginnings.
func observed[E toolexec.Event](t testing.TB, o *observeTrace) (begun, ended []E) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	assert.Empty(t, o.stray)
	for _, s := range o.spans {
		if b, ok := s.began.(E); ok {
			begun = append(begun, b)
			require.NotNil(t, s.ended, "%s has no end", b.EventName())
			ended = append(ended, s.ended.(E))
		}
	}
	return begun, ended
}

// observedNotes returns the notes of one type.
func observedNotes[E toolexec.Event](o *observeTrace) (out []E) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.notes {
		if e, ok := n.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// observeScript runs the steps one after the other, the last one again and again.
func observeScript(steps ...func(ctx context.Context) error) func(context.Context, caseOrder) (caseReceipt, error) {
	var mu sync.Mutex
	n := 0
	return func(ctx context.Context, _ caseOrder) (caseReceipt, error) {
		mu.Lock()
		n++
		step := steps[min(n, len(steps))-1]
		mu.Unlock()
		if err := step(ctx); err != nil {
			return caseReceipt{}, err
		}
		return caseReceipt{"rcpt_1"}, nil
	}
}

func observeOK(context.Context) error     { return nil }
func observeUnsent(context.Context) error { return toolexec.NotSent(io.ErrUnexpectedEOF) }
func observeDoubt(context.Context) error  { return toolexec.InDoubt(io.ErrUnexpectedEOF) }

// observeDeaf ignores its context for 10 s, and then succeeds.
func observeDeaf(context.Context) error {
	time.Sleep(10 * time.Second)
	return nil
}

// observeAbsent is a verifier whose word ends every doubt.
func observeAbsent(seen *[]string) *toolexec.Verifier[caseOrder, caseReceipt] {
	return &toolexec.Verifier[caseOrder, caseReceipt]{
		Settle: -1, Authoritative: true,
		Lookup: func(ctx context.Context, _ string, _ caseOrder) (toolexec.Finding[caseReceipt], error) {
			time.Sleep(time.Second)
			*seen = append(*seen, "look-up in "+observeIn(ctx))
			return toolexec.Absent[caseReceipt](), nil
		},
	}
}

func TestObserverNesting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(observeTrace)
		x := &toolexec.Executor{Observer: o}
		var seen []string
		step := func(end func(context.Context) error) func(context.Context) error {
			return func(ctx context.Context) error {
				seen = append(seen, "run in "+observeIn(ctx))
				return end(ctx)
			}
		}
		b := toolexec.Bind(x, caseTool{Name: "refund", Verify: observeAbsent(&seen), Run: observeScript(step(observeUnsent), step(observeDoubt), step(observeOK))})
		env := b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder)
		checkEnvelope(t, env)
		require.True(t, env.OK)
		assert.Equal(t, []string{
			"call",
			"  - guard_decision",
			"  attempt", "  /attempt",
			"  pause", "  /pause",
			"  attempt", "  /attempt",
			"  verification", "  /verification",
			"  - guard_decision",
			"  attempt", "  /attempt",
			"/call",
		}, o.lines)
		assert.Empty(t, o.stray)
		assert.Equal(t, []string{"run in attempt", "run in attempt", "look-up in verification", "run in attempt"}, seen)
	})
}

// TestObserverNestsAToolInATool: the context of an attempt leads to the calls that the tool makes.
func TestObserverNestsAToolInATool(t *testing.T) {
	o := new(observeTrace)
	x := &toolexec.Executor{Observer: o}
	inner := toolexec.Bind(x, execTool("inner", toolexec.ReadOnly, observeOK))
	outer := toolexec.Bind(x, execTool("outer", toolexec.ReadOnly, func(ctx context.Context) error {
		return inner.Call(ctx, execOrder).Err()
	}))
	require.True(t, outer.Call(t.Context(), execOrder).OK)
	assert.Equal(t, []string{"call", "  attempt", "    call", "      attempt", "      /attempt", "    /call", "  /attempt", "/call"}, o.lines)
}

// observeKeeps returns nil from Start.
type observeKeeps struct{ *observeTrace }

func (o observeKeeps) Start(ctx context.Context, e toolexec.Event) context.Context {
	o.observeTrace.Start(ctx, e)
	return nil
}

func (o observeKeeps) End(ctx context.Context, e toolexec.Event) {
	if ctx == nil {
		panic("no context")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, "/"+e.EventName())
}

func TestObserverStartThatReturnsNilKeepsTheContext(t *testing.T) {
	type key struct{}
	o := observeKeeps{new(observeTrace)}
	x := &toolexec.Executor{Observer: o}
	b := toolexec.Bind(x, execTool("lookup", toolexec.ReadOnly, func(ctx context.Context) error {
		assert.Equal(t, "value", ctx.Value(key{}))
		return nil
	}))
	require.True(t, b.Call(context.WithValue(t.Context(), key{}, "value"), execOrder).OK)
	assert.Equal(t, []string{"call", "attempt", "/attempt", "/call"}, o.lines)
}

func TestObserverIsToldTheCall(t *testing.T) {
	secret := errors.New("a secret")
	refuses := func(context.Context) error { return toolexec.Rejected("LEDGER_CLOSED", secret) }
	synctest.Test(t, func(t *testing.T) {
		o := new(observeTrace)
		x := &toolexec.Executor{Observer: o}
		takes := func(end func(context.Context) error) func(context.Context, caseOrder) (caseReceipt, error) {
			return observeScript(func(ctx context.Context) error {
				time.Sleep(time.Second)
				return end(ctx)
			})
		}
		toolexec.Bind(x, caseTool{Name: "refund", Run: takes(observeOK)})
		toolexec.Bind(x, caseTool{Name: "close", Run: takes(refuses)})
		call := func(name string) toolexec.Envelope[json.RawMessage] {
			return caseChecked(t, x.Execute(t.Context(), toolexec.Call{
				ID: "call_1", Name: name, Arguments: json.RawMessage(caseArgs), OperationRef: "ref_" + name, Scope: "tenant", RunID: "run",
			}))
		}
		require.True(t, call("refund").OK)
		require.True(t, call("refund").Replayed)
		require.False(t, call("close").OK)

		begun, ended := observed[toolexec.CallInfo](t, o)
		refund := toolexec.CallInfo{ID: "call_1", Tool: "refund", Effect: toolexec.Write, Scope: "tenant", RunID: "run"}
		closing := refund
		closing.Tool = "close"
		assert.Equal(t, []toolexec.CallInfo{refund, refund, closing}, begun)

		refund.Done, refund.OperationRef, refund.Took, refund.OK = true, "ref_refund", time.Second, true
		refund.Code, refund.CommitState, refund.NextAction = toolexec.CodeOK, toolexec.Committed, toolexec.NextContinue
		again := refund
		again.Replayed, again.Took = true, 0
		closing.Done, closing.OperationRef, closing.Took = true, "ref_close", time.Second
		closing.Code, closing.CommitState, closing.NextAction, closing.Cause = "LEDGER_CLOSED", toolexec.NotCommitted, toolexec.NextEscalate, ended[2].Cause
		assert.Equal(t, []toolexec.CallInfo{refund, again, closing}, ended)
		assert.ErrorIs(t, ended[2].Cause, secret)
	})
}

// TestObserverIsToldOfAnUnrecordedSuccess: the operator learns that the store does not know yet.
func TestObserverIsToldOfAnUnrecordedSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(observeTrace)
		store := &truthStore{Store: new(toolexec.MemoryStore)}
		x := &toolexec.Executor{Observer: o, Store: store}
		b := toolexec.Bind(x, caseTool{Name: "refund", Run: observeScript(func(context.Context) error {
			store.set(true, false)
			return nil
		})})
		env := caseChecked(t, b.Call(t.Context(), execOrder))
		require.True(t, env.OK)
		_, ended := observed[toolexec.CallInfo](t, o)
		assert.True(t, ended[0].OK)
		assert.True(t, ended[0].Unrecorded)
		assert.True(t, env.Unrecorded)
		store.set(false, false)
		caseClose(t, x)
	})
}

func TestObserverIsToldTheAttempts(t *testing.T) {
	for _, row := range []struct {
		name string
		tool caseTool
		want []toolexec.AttemptInfo // without Tool, Key, N, Done, Cause and Stack
		err  string                 // the text of the last cause
	}{
		{"success", caseTool{Run: observeScript(observeOK)}, []toolexec.AttemptInfo{{OK: true, Evidence: toolexec.EvidenceCommitted}}, ""},
		{
			"not sent, then rejected",
			caseTool{Run: observeScript(observeUnsent, func(context.Context) error {
				time.Sleep(time.Second)
				return toolexec.Rejected(toolexec.CodeConflict, errors.New("a secret"))
			})},
			[]toolexec.AttemptInfo{
				{Evidence: toolexec.EvidenceNotSent, Code: toolexec.CodeDependencyUnavailable, Class: toolexec.ClassTransient},
				{Took: time.Second, Evidence: toolexec.EvidenceRejected, Code: toolexec.CodeConflict},
			}, "CONFLICT (rejected): a secret",
		},
		{
			"cut at its deadline", caseTool{Run: observeScript(observeDeaf)},
			[]toolexec.AttemptInfo{{Took: 2 * time.Second, Outlives: true, Code: toolexec.CodeDeadlineExceeded, Class: toolexec.ClassTransient}},
			"toolexec: the attempt's deadline has passed",
		},
		{
			"cut before it marked", caseTool{MarksSent: true, Policy: toolexec.Policy{MaxRetries: -1}, Run: observeScript(observeDeaf)},
			[]toolexec.AttemptInfo{{Took: 2 * time.Second, Outlives: true, Evidence: toolexec.EvidenceNotSent, Code: toolexec.CodeDeadlineExceeded, Class: toolexec.ClassTransient}},
			"toolexec: the attempt's deadline has passed",
		},
		{
			"marked, then failed", caseTool{Run: observeScript(func(ctx context.Context) error {
				return errors.Join(toolexec.MarkCommitted(ctx, 1), errors.New("a secret"))
			})},
			[]toolexec.AttemptInfo{{Evidence: toolexec.EvidenceCommitted, Code: toolexec.CodeToolFailed}}, "a secret",
		},
		{
			"Goexit", caseTool{Run: observeScript(func(context.Context) error { runtime.Goexit(); return nil })},
			[]toolexec.AttemptInfo{{Code: toolexec.CodeToolPanic}}, "runtime.Goexit was called",
		},
		{
			"panic", caseTool{Run: observeScript(func(context.Context) error { panic(io.ErrNoProgress) })},
			[]toolexec.AttemptInfo{{Code: toolexec.CodeToolPanic}}, "panic: multiple Read calls return no data or error",
		},
		{
			"panic of a Cooperative tool", caseTool{Cooperative: true, Run: observeScript(func(context.Context) error { panic(io.ErrNoProgress) })},
			[]toolexec.AttemptInfo{{Code: toolexec.CodeToolPanic}}, "panic: multiple Read calls return no data or error",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := new(observeTrace)
				x := &toolexec.Executor{Observer: o}
				row.tool.Name = "refund"
				ctx := toolexec.WithScope(toolexec.WithOperationRef(t.Context(), "r1"), "tenant")
				checkEnvelope(t, toolexec.Bind(x, row.tool).Call(ctx, execOrder))
				begun, ended := observed[toolexec.AttemptInfo](t, o)
				require.Len(t, ended, len(row.want))
				for i, want := range row.want {
					want.Tool, want.Key, want.N = "refund", toolexec.Key{Scope: "tenant", Ref: "r1"}, i+1
					assert.Equal(t, toolexec.AttemptInfo{Tool: want.Tool, Key: want.Key, N: want.N}, begun[i])
					got := ended[i]
					assert.Equal(t, want.OK, got.Cause == nil)
					got.Cause, got.Stack, want.Done = nil, nil, true
					assert.Equal(t, want, got)
				}
				last := ended[len(ended)-1]
				if row.err != "" {
					require.Error(t, last.Cause)
					assert.Contains(t, last.Cause.Error(), row.err)
				}
				if strings.HasPrefix(row.name, "panic") {
					assert.Contains(t, string(last.Stack), "observe_test.go", "the stack of the panic")
					assert.ErrorIs(t, last.Cause, io.ErrNoProgress, "a panic value that is an error is kept")
				}
				caseClose(t, x)
			})
		})
	}
}

func TestObserverIsToldPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(observeTrace)
		x := &toolexec.Executor{Observer: o}
		b := toolexec.Bind(x, caseTool{Name: "refund", Run: observeScript(observeUnsent, func(context.Context) error {
			return &toolexec.Failure{Code: toolexec.CodeRateLimited, Evidence: toolexec.EvidenceRejected, RetryAfter: 3 * time.Second}
		}, observeOK)})
		require.True(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder).OK)
		begun, ended := observed[toolexec.PauseInfo](t, o)
		want := []toolexec.PauseInfo{
			{Tool: "refund", Key: toolexec.Key{Ref: "r1"}, For: 500 * time.Millisecond, After: toolexec.CodeDependencyUnavailable},
			{Tool: "refund", Key: toolexec.Key{Ref: "r1"}, For: 3 * time.Second, After: toolexec.CodeRateLimited},
		}
		assert.Equal(t, want, begun)
		want[0].Done, want[1].Done = true, true
		assert.Equal(t, want, ended)
	})
}

// TestObserverPauseThatIsBrokenOffEnds: the caller's cancel ends the span too.
func TestObserverPauseThatIsBrokenOffEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(observeTrace)
		x := &toolexec.Executor{Observer: o}
		b := toolexec.Bind(x, caseTool{Name: "refund", Run: observeScript(observeUnsent)})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		env := caseChecked(t, b.Call(ctx, execOrder))
		assert.Equal(t, toolexec.CodeCancelled, env.Code)
		_, ended := observed[toolexec.PauseInfo](t, o)
		require.Len(t, ended, 1)
		assert.True(t, ended[0].Done)
	})
}

func TestObserverIsToldVerifications(t *testing.T) {
	secret := errors.New("a secret")
	found := toolexec.Found(caseReceipt{"rcpt_1"})
	for _, row := range []struct {
		name   string
		lookup func() (toolexec.Finding[caseReceipt], error)
		want   toolexec.VerificationInfo
	}{
		{"found", func() (toolexec.Finding[caseReceipt], error) { return found, nil }, toolexec.VerificationInfo{Verdict: toolexec.FoundEffect}},
		{"absent", func() (toolexec.Finding[caseReceipt], error) { return toolexec.Absent[caseReceipt](), nil }, toolexec.VerificationInfo{Verdict: toolexec.NoEffect}},
		{"conflicting", func() (toolexec.Finding[caseReceipt], error) { return toolexec.Conflicting[caseReceipt](), nil }, toolexec.VerificationInfo{Verdict: toolexec.OtherEffect}},
		{"says nothing", func() (toolexec.Finding[caseReceipt], error) { return toolexec.Finding[caseReceipt]{}, nil }, toolexec.VerificationInfo{}},
		{"error", func() (toolexec.Finding[caseReceipt], error) { return found, secret }, toolexec.VerificationInfo{Failed: true, Err: secret}},
		{"panic", func() (toolexec.Finding[caseReceipt], error) { panic(secret) }, toolexec.VerificationInfo{Failed: true, Err: secret}},
		{"hangs", func() (toolexec.Finding[caseReceipt], error) { time.Sleep(time.Minute); return found, nil }, toolexec.VerificationInfo{Failed: true, Err: context.DeadlineExceeded, Took: 2 * time.Second}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := new(observeTrace)
				x := &toolexec.Executor{Observer: o}
				b := toolexec.Bind(x, caseTool{Name: "refund", Run: observeScript(observeDoubt), Verify: &toolexec.Verifier[caseOrder, caseReceipt]{
					Lookup: func(context.Context, string, caseOrder) (toolexec.Finding[caseReceipt], error) { return row.lookup() },
				}})
				checkEnvelope(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder))
				begun, ended := observed[toolexec.VerificationInfo](t, o)
				want := row.want
				want.Tool, want.Key = "refund", toolexec.Key{Ref: "r1"}
				assert.Equal(t, []toolexec.VerificationInfo{{Tool: want.Tool, Key: want.Key}}, begun)
				require.Len(t, ended, 1)
				if want.Err != nil {
					assert.ErrorIs(t, ended[0].Err, want.Err)
				} else {
					assert.NoError(t, ended[0].Err)
				}
				want.Done, want.Err = true, ended[0].Err
				assert.Equal(t, want, ended[0])
				caseClose(t, x)
			})
		})
	}
}

// observeDecisions are the moves and the states after them.
func observeDecisions(o *observeTrace) (out []string) {
	for _, d := range observedNotes[toolexec.GuardDecision](o) {
		out = append(out, d.Tool+" "+d.Key.Ref+" "+d.Move+" "+d.State.String())
	}
	return out
}

func TestObserverIsToldTheGuardsDecisions(t *testing.T) {
	order, other := execOrder, caseOrder{OrderID: "ORD-1"}
	for _, row := range []struct {
		name string
		tool caseTool
		do   func(t *testing.T, x *toolexec.Executor, call func(caseOrder))
		want []string
	}{
		{
			"a success and its replay", caseTool{Run: observeScript(observeOK)},
			func(_ *testing.T, _ *toolexec.Executor, call func(caseOrder)) { call(order); call(order) },
			[]string{"refund r1 run in_flight", "refund r1 replay committed"},
		},
		{
			"a doubt nobody can look up", caseTool{Run: observeScript(observeDoubt)},
			func(_ *testing.T, _ *toolexec.Executor, call func(caseOrder)) { call(order); call(order) },
			[]string{"refund r1 run in_flight", "refund r1 unknown unknown"},
		},
		{
			"a doubt that is looked up in the next call", caseTool{Run: observeScript(observeDoubt), Verify: &toolexec.Verifier[caseOrder, caseReceipt]{
				Lookup: func(context.Context, string, caseOrder) (toolexec.Finding[caseReceipt], error) {
					return toolexec.Finding[caseReceipt]{}, nil
				},
			}},
			func(_ *testing.T, _ *toolexec.Executor, call func(caseOrder)) {
				call(order)
				time.Sleep(time.Minute)
				call(order)
			},
			[]string{"refund r1 run in_flight", "refund r1 verify unknown", "refund r1 unknown unknown"},
		},
		{
			"a declaration that nobody can look up", caseTool{Unverifiable: true, Run: observeScript(observeDoubt)},
			func(_ *testing.T, _ *toolexec.Executor, call func(caseOrder)) { call(order); call(order) },
			[]string{"refund r1 run in_flight", "refund r1 escalated escalated"},
		},
		{
			"before the remote side's time", caseTool{Run: observeScript(func(context.Context) error {
				return &toolexec.Failure{Code: toolexec.CodeRateLimited, Evidence: toolexec.EvidenceRejected, RetryAfter: time.Minute}
			})},
			func(_ *testing.T, _ *toolexec.Executor, call func(caseOrder)) { call(order); call(order) },
			[]string{"refund r1 run in_flight", "refund r1 later released"},
		},
		{
			"the same input after a rejection", caseTool{Run: observeScript(func(context.Context) error { return toolexec.Invalid("order_id", "") })},
			func(_ *testing.T, _ *toolexec.Executor, call func(caseOrder)) { call(order); call(order); call(other) },
			[]string{"refund r1 run in_flight", "refund r1 unchanged rejected", "refund r1 run in_flight"},
		},
		{
			"a ref of another operation", caseTool{Run: observeScript(observeOK)},
			func(_ *testing.T, _ *toolexec.Executor, call func(caseOrder)) { call(order); call(other) },
			[]string{"refund r1 run in_flight", "refund r1 ref_reused committed"},
		},
		{
			"an approval that is missing, given, and expired", caseTool{Approval: new(toolexec.Approval[caseOrder]), Run: observeScript(observeUnsent)},
			func(t *testing.T, x *toolexec.Executor, call func(caseOrder)) {
				call(order)
				s := toolexec.Supervisor{Executor: x}
				_, err := approveHeld(&s, t.Context(), toolexec.Key{Ref: "r1"}, toolexec.Statement{Actor: "ann", Evidence: "T-1"}, time.Minute)
				require.NoError(t, err)
				call(order)
				time.Sleep(time.Hour)
				call(order)
			},
			[]string{"refund r1 needs_approval awaiting_approval", "refund r1 run in_flight", "refund r1 approval_expired awaiting_approval"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := new(observeTrace)
				x := &toolexec.Executor{Observer: o}
				row.tool.Name = "refund"
				b := toolexec.Bind(x, row.tool)
				row.do(t, x, func(in caseOrder) {
					checkEnvelope(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), in))
				})
				assert.Equal(t, row.want, observeDecisions(o))
			})
		})
	}
}

// TestObserverIsToldThatAnotherOwnerIsWaitedFor: two processes, one record.
func TestObserverIsToldThatAnotherOwnerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, o := new(toolexec.MemoryStore), new(observeTrace)
		tool := caseTool{Name: "refund", Run: observeScript(func(context.Context) error { time.Sleep(time.Second); return nil })}
		first, second := &toolexec.Executor{Store: store}, &toolexec.Executor{Store: store, Observer: o}
		a, b := toolexec.Bind(first, tool), toolexec.Bind(second, tool)
		ctx := toolexec.WithOperationRef(t.Context(), "r1")
		var wg sync.WaitGroup
		wg.Go(func() { a.Call(ctx, execOrder) })
		synctest.Wait()
		assert.True(t, b.Call(ctx, execOrder).Replayed)
		wg.Wait()
		assert.Equal(t, []string{"refund r1 wait in_flight", "refund r1 replay committed"}, observeDecisions(o))
	})
}

func TestObserverIsToldLateEvidence(t *testing.T) {
	late := func(err error) func(context.Context) error {
		return func(context.Context) error {
			time.Sleep(10 * time.Second)
			return err
		}
	}
	for _, row := range []struct {
		name     string
		run      func(context.Context) error
		down     bool
		evidence toolexec.Evidence
		failure  toolexec.Code // "": it succeeded
	}{
		{"it succeeded", late(nil), false, toolexec.EvidenceCommitted, ""},
		{"it was rejected", late(toolexec.Rejected(toolexec.CodeConflict, nil)), false, toolexec.EvidenceRejected, toolexec.CodeConflict},
		{"it stayed in doubt", late(errors.New("a secret")), false, toolexec.EvidenceInDoubt, toolexec.CodeToolFailed},
		{"the store is down", late(nil), true, toolexec.EvidenceCommitted, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, store := new(observeTrace), &truthStore{Store: new(toolexec.MemoryStore)}
				x := &toolexec.Executor{Observer: o, Store: store}
				b := toolexec.Bind(x, execTool("refund", toolexec.Write, row.run))
				checkEnvelope(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder))
				assert.Empty(t, observedNotes[toolexec.LateEvidence](o))
				store.set(row.down, false)
				time.Sleep(12 * time.Second)
				store.set(false, false)
				caseClose(t, x)
				notes := observedNotes[toolexec.LateEvidence](o)
				require.Len(t, notes, 1)
				n := notes[0]
				assert.Equal(t, toolexec.LateEvidence{
					Tool: "refund", Key: toolexec.Key{Ref: "r1"}, N: 1, Evidence: row.evidence, Failure: n.Failure, StoreErr: n.StoreErr,
				}, n)
				assert.Equal(t, row.down, n.StoreErr != nil)
				var f *toolexec.Failure
				if row.failure == "" {
					assert.NoError(t, n.Failure)
				} else if assert.ErrorAs(t, n.Failure, &f) {
					assert.Equal(t, row.failure, f.Code)
				}
			})
		})
	}
}

// TestObserverIsAlarmedOfADuplicate: an operator forced a second run while the first was still going on.
func TestObserverIsAlarmedOfADuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(observeTrace)
		x := &toolexec.Executor{Observer: o}
		b := toolexec.Bind(x, caseTool{Name: "refund", Run: observeScript(observeDeaf, observeOK)})
		observeTwice(t, x, b, "r1")
		caseClose(t, x)
		assert.Equal(t, []toolexec.DuplicateEffect{{Tool: "refund", Key: toolexec.Key{Ref: "r1"}}}, observedNotes[toolexec.DuplicateEffect](o))
	})
}

// observeTwice calls, forces the operation back, and calls again.
func observeTwice(t testing.TB, x *toolexec.Executor, b *toolexec.Bound[caseOrder, caseReceipt], ref string) (out []toolexec.Envelope[caseReceipt]) {
	t.Helper()
	ctx := toolexec.WithOperationRef(t.Context(), ref)
	out = append(out, caseChecked(t, b.Call(ctx, execOrder)))
	s := toolexec.Supervisor{Executor: x}
	_, err := s.Resolve(ctx, toolexec.Key{Ref: ref}, toolexec.NotCommitted, toolexec.Statement{Actor: "ann", Evidence: "T-1", Force: true})
	require.NoError(t, err)
	return append(out, caseChecked(t, b.Call(ctx, execOrder)))
}

func TestObserverIsWarnedOnceAtFourFifths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(observeTrace)
		store := &toolexec.MemoryStore{MaxFacts: 10, KeepFacts: time.Hour}
		x := &toolexec.Executor{Observer: o, Store: store}
		b := toolexec.Bind(x, caseTool{Name: "refund", Run: observeScript(observeOK)})
		call := func(n int) int {
			for i := range n {
				ref := fmt.Sprintf("%d_%d", time.Now().Unix(), i)
				require.True(t, b.Call(toolexec.WithOperationRef(t.Context(), ref), execOrder).OK)
			}
			return len(observedNotes[toolexec.StoreNearlyFull](o))
		}
		assert.Equal(t, 0, call(7))
		time.Sleep(time.Second)
		assert.Equal(t, 1, call(1))
		time.Sleep(time.Second)
		assert.Equal(t, 1, call(2), "once")
		assert.Equal(t, []toolexec.StoreNearlyFull{{Records: 8, Bound: 10}}, observedNotes[toolexec.StoreNearlyFull](o))

		time.Sleep(2 * time.Hour)
		n, err := store.Prune(t.Context(), 100)
		require.NoError(t, err)
		require.Equal(t, 10, n)
		assert.Equal(t, 1, call(5))
		time.Sleep(time.Second)
		assert.Equal(t, 2, call(5), "again, once it had fallen below")
	})
}

func TestObserverIsNotWarnedByAStoreWithoutBound(t *testing.T) {
	for name, store := range map[string]toolexec.Store{
		"no bound":         &toolexec.MemoryStore{MaxFacts: -1},
		"not known":        &caseDurable{Store: &toolexec.MemoryStore{MaxFacts: 1}},
		"a bound far away": new(toolexec.MemoryStore),
	} {
		t.Run(name, func(t *testing.T) {
			o := new(observeTrace)
			x := &toolexec.Executor{Observer: o, Store: store}
			b := toolexec.Bind(x, caseTool{Name: "refund", Run: observeScript(observeOK)})
			require.True(t, b.Call(t.Context(), execOrder).OK)
			assert.Empty(t, observedNotes[toolexec.StoreNearlyFull](o))
		})
	}
}

// TestObserverSeesRefusedCalls: what is never run is observed as a call all the same.
func TestObserverSeesRefusedCalls(t *testing.T) {
	long := strings.Repeat("x", 63) + "ü and more" // the ü would be cut in two
	for _, row := range []struct {
		name string
		call toolexec.Call
		tool string
		code toolexec.Code
	}{
		{"malformed", toolexec.Call{Name: "refund", Arguments: json.RawMessage(`{"order_id":7}`)}, "refund", toolexec.CodeInvalidArguments},
		{"not JSON", toolexec.Call{Name: "refund", Arguments: json.RawMessage(`{`)}, "refund", toolexec.CodeInvalidArguments},
		{"unknown", toolexec.Call{Name: "refnd"}, "refnd", toolexec.CodeUnknownTool},
		{"not allowed", toolexec.Call{Name: "refund", Allowed: []string{}}, "refund", toolexec.CodeUnknownTool},
		{"a name without end", toolexec.Call{Name: long}, strings.Repeat("x", 63), toolexec.CodeUnknownTool},
		{"a name that is no text", toolexec.Call{Name: "ref\xffund"}, "refund", toolexec.CodeUnknownTool},
		{"a ref that is none", toolexec.Call{Name: "refund", Arguments: json.RawMessage(caseArgs), OperationRef: "ö"}, "refund", toolexec.CodeInvalidOperationRef},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := new(observeTrace)
			x := &toolexec.Executor{Observer: o}
			toolexec.Bind(x, caseTool{Name: "refund", Run: observeScript(observeOK)})
			row.call.ID, row.call.Scope, row.call.RunID = "call_1", "tenant", "run"
			env := caseChecked(t, x.Execute(t.Context(), row.call))
			assert.Equal(t, row.code, env.Code)
			begun, ended := observed[toolexec.CallInfo](t, o)
			require.Len(t, ended, 1)
			assert.Equal(t, []string{"call", "/call"}, o.lines)
			assert.Equal(t, row.tool, begun[0].Tool)
			assert.Equal(t, []string{"call_1", "tenant", "run"}, []string{begun[0].ID, begun[0].Scope, begun[0].RunID})
			got := ended[0]
			assert.True(t, got.Done)
			assert.False(t, got.OK)
			assert.Equal(t, row.code, got.Code)
			assert.Equal(t, env.Class, got.Class)
			assert.Equal(t, toolexec.NotCommitted, got.CommitState)
			assert.Equal(t, env.NextAction, got.NextAction)
		})
	}
}

// observeVandal does something to an observer that no observer should do, at one event.
type observeVandal struct {
	hook, event string
	do          func()
	mu          sync.Mutex
	hit         int
	seen        map[string]bool
}

func (v *observeVandal) at(hook string, e toolexec.Event) {
	v.mu.Lock()
	if v.seen == nil {
		v.seen = map[string]bool{}
	}
	v.seen[hook+" "+e.EventName()] = true
	hit := v.hook == hook && v.event == e.EventName()
	if hit {
		v.hit++
	}
	v.mu.Unlock()
	if hit {
		v.do()
	}
}

func (v *observeVandal) Start(ctx context.Context, e toolexec.Event) context.Context {
	v.at("Start", e)
	return ctx
}
func (v *observeVandal) End(_ context.Context, e toolexec.Event)  { v.at("End", e) }
func (v *observeVandal) Note(_ context.Context, e toolexec.Event) { v.at("Note", e) }

// observeEverything makes every event there is, and returns what was answered.
func observeEverything(t *testing.T, o toolexec.Observer) (out []string) {
	x := &toolexec.Executor{Observer: o, Store: &toolexec.MemoryStore{MaxFacts: 2}}
	var ignored []string
	say := func(e any) {
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		out = append(out, string(raw))
	}
	b := toolexec.Bind(x, caseTool{Name: "refund", Verify: observeAbsent(&ignored), Run: observeScript(observeUnsent, observeDoubt, observeOK)})
	say(b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder))
	late := toolexec.Bind(x, caseTool{Name: "charge", Run: observeScript(observeDeaf, observeOK)})
	for _, e := range observeTwice(t, x, late, "r2") {
		say(e)
	}
	say(x.Execute(t.Context(), toolexec.Call{Name: "refnd", OperationRef: "r3"}))
	say(x.Execute(t.Context(), toolexec.Call{Name: "refund", OperationRef: "r4", Arguments: json.RawMessage(`7`)}))
	caseClose(t, x)
	for _, ref := range []string{"r1", "r2"} {
		r, err := x.Store.Load(t.Context(), toolexec.Key{Ref: ref})
		require.NoError(t, err)
		out = append(out, r.State.String()+" "+string(r.Result))
	}
	return out
}

var observeHooks = []string{
	"Start call", "End call", "Start attempt", "End attempt", "Start pause", "End pause", "Start verification", "End verification",
	"Note guard_decision", "Note late_evidence", "Note duplicate_effect", "Note store_nearly_full",
}

func TestObserverThatMisbehavesChangesNoOutcome(t *testing.T) {
	var want []string
	t.Run("well-behaved", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			all := new(observeVandal)
			want = observeEverything(t, all)
			seen := []string{}
			for name := range all.seen {
				seen = append(seen, name)
			}
			assert.ElementsMatch(t, observeHooks, seen, "every event there is")
		})
	})
	for _, at := range observeHooks {
		for how, do := range map[string]func(){"panics": func() { panic("observer") }, "calls Goexit": runtime.Goexit} {
			t.Run(at+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := &observeVandal{do: do}
					v.hook, v.event, _ = strings.Cut(at, " ")
					assert.Equal(t, want, observeEverything(t, v))
					assert.Positive(t, v.hit)
				})
			})
		}
	}
}

func TestObserverThatIsNilCostsNothing(t *testing.T) {
	allocs := func(o toolexec.Observer) float64 {
		x := &toolexec.Executor{Observer: o}
		b := toolexec.Bind(x, caseTool{Name: "lookup", Effect: toolexec.ReadOnly, Run: func(context.Context, caseOrder) (caseReceipt, error) {
			return caseReceipt{"rcpt_1"}, nil
		}})
		return testing.AllocsPerRun(100, func() { b.Call(t.Context(), execOrder) })
	}
	none := allocs(nil)
	if observePoolDrops() {
		t.Skip("the race detector drops what is put into a sync.Pool, at random")
	}
	assert.LessOrEqual(t, none, 2.0)
	assert.Greater(t, allocs(new(observeVandal)), none)
}

// observePoolDrops reports whether a sync.Pool forgets much of what was just put into it.
func observePoolDrops() bool {
	var p sync.Pool
	dropped := 0
	for range 1000 {
		p.Put(new(int))
		if p.Get() == nil {
			dropped++
		}
	}
	return dropped > 100 // a garbage collection or another processor may cost a few
}

// TestObserverTimeIsNotTheCalls: what an observer takes at the beginning is not taken from a deadline.
func TestObserverTimeIsNotTheCalls(t *testing.T) {
	for _, row := range []struct {
		event  string
		policy toolexec.Policy
	}{
		{"call", toolexec.Policy{TotalDeadline: 2 * time.Second}},
		{"attempt", toolexec.Policy{}},
		{"verification", toolexec.Policy{}},
	} {
		t.Run(row.event, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &observeTrace{delay: func(e toolexec.Event) time.Duration {
					if e.EventName() == row.event {
						return 3 * time.Second
					}
					return 0
				}}
				x := &toolexec.Executor{Observer: o, Policy: row.policy}
				takes := func() { time.Sleep(1900 * time.Millisecond) }
				read := toolexec.Bind(x, execTool("lookup", toolexec.ReadOnly, func(context.Context) error { takes(); return nil }))
				env := read.Call(t.Context(), execOrder)
				assert.True(t, env.OK, env.Code)
				if row.event == "verification" {
					write := toolexec.Bind(x, caseTool{Name: "refund", Run: observeScript(observeDoubt), Verify: &toolexec.Verifier[caseOrder, caseReceipt]{
						Lookup: func(context.Context, string, caseOrder) (toolexec.Finding[caseReceipt], error) {
							takes()
							return toolexec.Found(caseReceipt{"rcpt_1"}), nil
						},
					}})
					assert.True(t, write.Call(t.Context(), execOrder).OK)
					return
				}
				if row.event == "call" {
					_, ended := observed[toolexec.CallInfo](t, o)
					assert.Equal(t, 1900*time.Millisecond, ended[0].Took)
				}
				_, ended := observed[toolexec.AttemptInfo](t, o)
				assert.Equal(t, 1900*time.Millisecond, ended[0].Took)
			})
		})
	}
}

// TestObserverOfACooperativeGoexit: the tool ends its caller's goroutine, and what began ends all the same.
func TestObserverOfACooperativeGoexit(t *testing.T) {
	for _, effect := range []toolexec.Effect{toolexec.ReadOnly, toolexec.Write} {
		t.Run(effect.String(), func(t *testing.T) {
			o := new(observeTrace)
			x := &toolexec.Executor{Observer: o}
			tool := execTool("refund", effect, func(context.Context) error { runtime.Goexit(); return nil })
			tool.Cooperative = true
			toolexec.Bind(x, tool)
			env := caseChecked(t, x.ExecuteAll(t.Context(), []toolexec.Call{{Name: "refund", OperationRef: "r1", Arguments: json.RawMessage(caseArgs)}})[0])
			assert.Equal(t, toolexec.CodeToolPanic, env.Code)
			assert.Equal(t, 1, strings.Count(strings.Join(o.lines, "\n"), "/call"))
			assert.True(t, slices.Contains(o.lines, "  /attempt"), o.lines)
			for _, s := range o.spans {
				if e, ok := s.ended.(toolexec.CallInfo); ok {
					assert.Equal(t, env.Code, e.Code)
				}
			}
		})
	}
}

// What an attempt may say, and what its end means --------------------------------------------------------

func TestMarkSentOutsideAnAttempt(t *testing.T) {
	err := toolexec.MarkSent(t.Context())
	assert.ErrorIs(t, err, toolexec.ErrNotSent)
	assert.EqualError(t, err, "toolexec: the attempt must not send: no attempt is running in this context")
	assert.Error(t, toolexec.MarkCommitted(t.Context(), nil))
	assert.Empty(t, toolexec.OperationRef(t.Context()))
	assert.Zero(t, toolexec.Attempt(t.Context()))
}

// TestMarkSentRefusals: the tool learns that it must not send, and the operation is known to be unsent, unless
// an earlier mark had allowed it.
func TestMarkSentRefusals(t *testing.T) {
	slow := func(store *supervisorDeaf, d time.Duration) {
		store.once(func(context.Context) error { time.Sleep(d); return nil })
	}
	for _, row := range []struct {
		name string
		coop bool
		run  func(ctx context.Context, store *supervisorDeaf) error // what MarkSent said
		err  string
		want toolexec.CommitState
	}{
		{
			"the deadline has passed", true, func(ctx context.Context, _ *supervisorDeaf) error {
				time.Sleep(3 * time.Second)
				return toolexec.MarkSent(ctx)
			}, "the attempt's deadline has passed", toolexec.NotCommitted,
		},
		{
			"the deadline passes while the record is told", true, func(ctx context.Context, store *supervisorDeaf) error {
				slow(store, 3*time.Second)
				return toolexec.MarkSent(ctx)
			}, "the attempt's deadline has passed", toolexec.NotCommitted,
		},
		{
			"the attempt is cut while the record is told", false, func(ctx context.Context, store *supervisorDeaf) error {
				slow(store, 3*time.Second)
				return toolexec.MarkSent(ctx)
			}, "the attempt is over", toolexec.CommitUnknown, // until the tool ends
		},
		{
			"another goroutine marks until the deadline", false, func(ctx context.Context, store *supervisorDeaf) error {
				slow(store, 3*time.Second)
				var wg sync.WaitGroup
				wg.Go(func() { _ = toolexec.MarkSent(ctx) })
				defer wg.Wait()
				time.Sleep(100 * time.Millisecond)
				return toolexec.MarkSent(ctx)
			}, "the attempt's deadline has passed", toolexec.CommitUnknown, // until the other one knows
		},
		{
			"the record is another owner's", false, func(ctx context.Context, store *supervisorDeaf) error {
				r, err := store.Load(ctx, toolexec.Key{Ref: toolexec.OperationRef(ctx)})
				if err == nil {
					r.Nonce = "another"
					_, err = store.Store.Save(ctx, r)
				}
				return errors.Join(err, toolexec.MarkSent(ctx))
			}, "the operation's record was lost to another owner", toolexec.CommitUnknown, // the other one runs it
		},
		{
			"it was marked before", true, func(ctx context.Context, _ *supervisorDeaf) error {
				if err := toolexec.MarkSent(ctx); err != nil {
					return err
				}
				time.Sleep(3 * time.Second)
				return toolexec.MarkSent(ctx)
			}, "the attempt's deadline has passed", toolexec.CommitUnknown,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &supervisorDeaf{Store: new(toolexec.MemoryStore)}
				x := &toolexec.Executor{Store: store, Policy: toolexec.Policy{MaxRetries: -1}}
				var said error
				b := toolexec.Bind(x, caseTool{Name: "refund", MarksSent: true, Cooperative: row.coop, Run: observeScript(func(ctx context.Context) error {
					said = row.run(ctx, store)
					return said
				})})
				e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder))
				assert.Equal(t, row.want, e.CommitState)
				caseClose(t, x)
				assert.ErrorIs(t, said, toolexec.ErrNotSent)
				assert.ErrorContains(t, said, row.err)
			})
		})
	}
}

// TestMarkSentInParallel: who marks while another one tells the record waits for that, and may send as well.
func TestMarkSentInParallel(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint("the first fails ", fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &supervisorDeaf{Store: new(toolexec.MemoryStore)}
				x := &toolexec.Executor{Store: store, Policy: toolexec.Policy{MaxRetries: -1}}
				var said [3]error
				b := toolexec.Bind(x, caseTool{Name: "refund", MarksSent: true, Run: observeScript(func(ctx context.Context) error {
					store.once(func(context.Context) error {
						time.Sleep(time.Second)
						if fails {
							return errors.New("down")
						}
						return nil
					})
					var all sync.WaitGroup
					for i := range said {
						all.Go(func() {
							time.Sleep(time.Duration(i) * 100 * time.Millisecond)
							said[i] = toolexec.MarkSent(ctx)
						})
					}
					all.Wait()
					return io.EOF
				})})
				e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder))
				assert.Equal(t, toolexec.CommitUnknown, e.CommitState)
				assert.Equal(t, fails, said[0] != nil)
				assert.NoError(t, said[1])
				assert.NoError(t, said[2])
				caseClose(t, x)
			})
		})
	}
}

// TestMarkCommittedWhileTheStoreIsDown: the tool is told, and the end of the attempt makes up for it.
func TestMarkCommittedWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &truthStore{Store: new(toolexec.MemoryStore)}
		x := &toolexec.Executor{Store: store}
		var said error
		b := toolexec.Bind(x, caseTool{Name: "refund", Run: observeScript(func(ctx context.Context) error {
			store.set(true, false)
			said = toolexec.MarkCommitted(ctx, caseReceipt{"rcpt_1"})
			store.set(false, false)
			return errors.New("a later step")
		})})
		e := caseChecked(t, b.Call(t.Context(), execOrder))
		assert.EqualError(t, said, "toolexec: MarkCommitted: the store does not know yet: the store is away")
		assert.True(t, e.OK)
		assert.False(t, e.Unrecorded)
		assert.Equal(t, "rcpt_1", e.Result.Receipt)
		caseClose(t, x)
	})
}

// TestMarkedCooperativeToolThatExits: of a batch, so that there is somebody to be answered.
func TestMarkedCooperativeToolThatExits(t *testing.T) {
	x := new(toolexec.Executor)
	toolexec.Bind(x, caseTool{Name: "refund", Cooperative: true, Run: observeScript(func(ctx context.Context) error {
		assert.NoError(t, toolexec.MarkCommitted(ctx, caseReceipt{"rcpt_1"}))
		runtime.Goexit()
		return nil
	})})
	all := x.ExecuteAll(t.Context(), []toolexec.Call{
		{Name: "refund", OperationRef: "r1", Arguments: json.RawMessage(caseArgs)},
		{Name: "refund", OperationRef: "r2", Arguments: json.RawMessage(`{"order_id":7}`)}, // refused before it runs
	})
	checkEnvelope(t, all[0])
	checkEnvelope(t, all[1])
	assert.True(t, all[0].OK)
	assert.JSONEq(t, `{"receipt":"rcpt_1"}`, string(all[0].Result))
	assert.Equal(t, toolexec.CodeInvalidArguments, all[1].Code)
}

// observeEndlessError wraps itself.
type observeEndlessError struct{}

func (observeEndlessError) Error() string   { return "endless" }
func (e observeEndlessError) Unwrap() error { return e }

// TestFailuresOfATool: what the fields that a tool leaves out are taken to be, and what is not believed.
func TestFailuresOfATool(t *testing.T) {
	var nobody *toolexec.Error
	rejected := func(f toolexec.Failure) error { f.Evidence = toolexec.EvidenceRejected; return &f }
	for _, row := range []struct {
		name string
		err  error
		want string
	}{
		{"a transient class", rejected(toolexec.Failure{Class: toolexec.ClassTransient}), "DEPENDENCY_UNAVAILABLE transient not_committed after_delay wait_and_retry"},
		{"a class of nothing found", rejected(toolexec.Failure{Class: toolexec.ClassEmptyResult}), "EMPTY_RESULT empty_result not_committed after_input_fix correct_input"},
		{"a class of malformed arguments", rejected(toolexec.Failure{Class: toolexec.ClassMalformed}), "INVALID_ARGUMENTS malformed not_committed after_input_fix correct_input"},
		{"a class of unknown tools", rejected(toolexec.Failure{Class: toolexec.ClassUnknownTool}), "UNKNOWN_TOOL unknown_tool not_committed never correct_input"},
		{"no class", rejected(toolexec.Failure{}), "TOOL_FAILED permanent not_committed never escalate"},
		{"an own code", rejected(toolexec.Failure{Code: "SHY"}), "SHY permanent not_committed never escalate"},
		{"an own code that is transient", rejected(toolexec.Failure{Code: "SHY", Class: toolexec.ClassTransient}), "SHY transient not_committed after_delay wait_and_retry"},
		{"an own code of nothing found", rejected(toolexec.Failure{Code: "SHY", Class: toolexec.ClassEmptyResult}), "SHY empty_result not_committed after_input_fix correct_input"},
		{"an own code of validation", rejected(toolexec.Failure{Code: "SHY", Category: toolexec.CategoryValidation}), "SHY permanent not_committed after_input_fix correct_input"},
		{"an own code of authorisation", rejected(toolexec.Failure{Code: "SHY", Category: toolexec.CategoryAuthorization}), "SHY permanent not_committed never request_approval"},
		{"nothing to verify", rejected(toolexec.Failure{Code: toolexec.CodeOperationPending, Class: toolexec.ClassMalformed}), "OPERATION_PENDING malformed not_committed never escalate"},
		{"a nil *Error", nobody, "TOOL_FAILED permanent unknown never verify_operation"},
		{"a nil *Failure", (*toolexec.Failure)(nil), "TOOL_FAILED permanent unknown never verify_operation"},
		{"an error without end", observeEndlessError{}, "TOOL_FAILED permanent unknown never verify_operation"},
		{"a cancel that the tool made up, beside others", errors.Join(errors.New("x"), errors.Join(io.ErrNoProgress, context.Canceled)), "TOOL_FAILED permanent unknown never verify_operation"},
	} {
		t.Run(row.name, func(t *testing.T) {
			x := &toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}}
			b := toolexec.Bind(x, caseTool{Name: "refund", ErrorsMean: toolexec.EvidenceRejected, Run: observeScript(func(context.Context) error { return row.err })})
			e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder))
			assert.Equal(t, row.want, fmt.Sprint(e.Code, " ", e.Class, " ", e.CommitState, " ", e.Retry.Directive, " ", e.NextAction))
		})
	}
}

// TestRefusalThatIsNotTransientButHasATime: until then the operation is not run, and the answer says to wait.
func TestRefusalThatIsNotTransientButHasATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := new(toolexec.Executor)
		runs := 0
		b := toolexec.Bind(x, execTool("refund", toolexec.Write, func(context.Context) error {
			runs++
			return &toolexec.Failure{Code: toolexec.CodeConflict, Evidence: toolexec.EvidenceRejected, RetryAfter: time.Minute}
		}))
		call := func() string {
			e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder))
			return fmt.Sprint(e.Code, " ", e.NextAction, " ", time.Until(e.Retry.NotBefore), " runs=", runs)
		}
		assert.Equal(t, "CONFLICT escalate 1m0s runs=1", call())
		time.Sleep(20 * time.Second)
		assert.Equal(t, "DEPENDENCY_UNAVAILABLE wait_and_retry 40s runs=1", call())
		time.Sleep(40 * time.Second)
		assert.Equal(t, "CONFLICT escalate 1m0s runs=2", call())
	})
}

// TestDetailsAreScalars: numbers of every kind pass if JSON has them.
func TestDetailsAreScalars(t *testing.T) {
	nan := 0.0
	nan /= nan
	x := new(toolexec.Executor)
	b := toolexec.Bind(x, caseTool{
		Name: "lookup", Effect: toolexec.ReadOnly, DetailKeys: []string{"f32", "f64", "number", "text", "flag", "nan", "nan32", "bad_number", "list"},
		Run: observeScript(func(context.Context) error {
			return &toolexec.Failure{Code: "SHY", Details: toolexec.Details{
				"f32": float32(1.5), "f64": 2.5, "number": json.Number("9007199254740993"), "text": strings.Repeat("x", 255) + "ü", "flag": true,
				"nan": nan, "nan32": float32(nan), "bad_number": json.Number("1x"), "list": []int{1}, "undeclared": 1,
			}}
		}),
	})
	e := b.Call(t.Context(), execOrder)
	checkEnvelope(t, e)
	assert.Equal(t, toolexec.Details{
		"f32": float32(1.5), "f64": 2.5, "number": json.Number("9007199254740993"), "text": strings.Repeat("x", 255), "flag": true,
	}, e.SafeDetails)
}

type (
	observeCrashing struct{ Name string }
	observeTwin     struct{ Name string }
)

func (*observeCrashing) UnmarshalJSON([]byte) error { panic("a secret") }
func (observeTwin) MarshalJSON() ([]byte, error)    { return []byte(`{"name":1,"name":2}`), nil }

// TestArgumentsThatCannotBeUsed: each is named, and the tool does not run.
func TestArgumentsThatCannotBeUsed(t *testing.T) {
	x := new(toolexec.Executor)
	own := execTool("own", toolexec.Write, observeOK)
	own.InputSchema = json.RawMessage(`{"type":"object","properties":{"order_id":{"enum":["ORD-1","ORD-2"]}}}`)
	toolexec.Bind(x, own)
	toolexec.Bind(x, toolexec.Tool[observeCrashing, string]{
		Name: "crash", InputSchema: json.RawMessage(`true`), Run: func(context.Context, observeCrashing) (string, error) { return "ran", nil },
	})
	for _, row := range []struct {
		tool, args string
		field      toolexec.FieldError
		allowed    any
	}{
		{"own", `{"Order_ID":"ORD-1"}`, toolexec.FieldError{Pointer: "/order_id", Rule: "case"}, nil},
		{"own", `{"order_id":"ORD-3"}`, toolexec.FieldError{Pointer: "/order_id", Rule: "enum", Allowed: []string{`"ORD-1"`, `"ORD-2"`}}, `"ORD-1","ORD-2"`},
		{"crash", `{"name":"x"}`, toolexec.FieldError{Rule: "decode"}, nil},
	} {
		e := caseExecute(t, x, row.tool, "r1", row.args)
		assert.Equal(t, toolexec.CodeInvalidArguments, e.Code, row.args)
		require.Len(t, e.FieldErrors, 1, row.args)
		got := e.FieldErrors[0]
		got.Expected, got.Received = "", ""
		assert.Equal(t, row.field, got)
		assert.Equal(t, row.allowed, e.SafeDetails[toolexec.DetailAllowedValues])
	}
	twin := toolexec.Bind(x, toolexec.Tool[observeTwin, string]{Name: "twin", Run: func(context.Context, observeTwin) (string, error) { return "ran", nil }})
	e := twin.Call(t.Context(), observeTwin{})
	checkEnvelope(t, e)
	assert.Equal(t, toolexec.CodeInvalidArguments, e.Code, "what it encodes to has two readings")
	assert.Equal(t, toolexec.NotCommitted, e.CommitState)
}

func TestEnvelopeOfAnotherResultType(t *testing.T) {
	raw, err := json.Marshal(toolexec.Envelope[string]{OK: true, Code: toolexec.CodeOK, CommitState: toolexec.Committed, Result: "x", HasResult: true})
	require.NoError(t, err)
	kept := toolexec.Envelope[int]{Result: 7}
	assert.ErrorContains(t, json.Unmarshal(raw, &kept), "toolexec: the envelope's result: ")
	assert.Equal(t, 7, kept.Result, "what was refused changed nothing")
}

// TestLoopBreakerForgetsTheOldest: its memory is bounded, and forgetting costs one more refusal at full length.
func TestLoopBreakerForgetsTheOldest(t *testing.T) {
	const bound = 1 << 14
	x := new(toolexec.Executor)
	ask := func(n int) toolexec.Code {
		return x.Execute(t.Context(), toolexec.Call{Name: fmt.Sprint("no_tool_", n), RunID: "run"}).Code
	}
	for n := range bound {
		require.Equal(t, toolexec.CodeUnknownTool, ask(n))
	}
	assert.Equal(t, toolexec.CodeUnchangedRetry, ask(0))
	assert.Equal(t, toolexec.CodeUnknownTool, ask(bound), "one too many")
	assert.Equal(t, toolexec.CodeUnchangedRetry, ask(1), "still known")
	assert.Equal(t, toolexec.CodeUnknownTool, ask(0), "forgotten")
}

// TestGatesAreBounded: beyond the bound a read is asked again, until others have opened.
func TestGatesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 1 << 12
		x := &toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}}
		runs := 0
		b := toolexec.Bind(x, caseTool{Name: "lookup", Effect: toolexec.ReadOnly, Cooperative: true, Run: func(context.Context, caseOrder) (caseReceipt, error) {
			runs++
			return caseReceipt{}, &toolexec.Failure{Code: toolexec.CodeRateLimited, Evidence: toolexec.EvidenceRejected, RetryAfter: time.Minute}
		}})
		ran := func(scope int) bool {
			before := runs
			e := b.Call(toolexec.WithScope(t.Context(), fmt.Sprint(scope)), execOrder)
			assert.Equal(t, toolexec.CodeRateLimited, e.Code)
			return runs > before
		}
		for n := range bound {
			require.True(t, ran(n))
		}
		assert.False(t, ran(0), "shut")
		assert.True(t, ran(bound))
		assert.True(t, ran(bound), "there is no room to remember it")
		time.Sleep(time.Minute)
		assert.True(t, ran(bound))
		assert.False(t, ran(bound), "those that had opened made room")
	})
}

// TestCancelAmongOthers: the caller cancelled, and the tool reports it beside what else went wrong.
func TestCancelAmongOthers(t *testing.T) {
	for name, join := range map[string]func(err error) error{
		"joined": func(err error) error { return errors.Join(io.ErrNoProgress, err) },
		"joined deeper": func(err error) error {
			return errors.Join(io.ErrNoProgress, fmt.Errorf("x: %w", errors.Join(nil, err)))
		},
		"wrapped":        func(err error) error { return fmt.Errorf("x: %w", err) },
		"beside a panic": func(err error) error { return errors.Join(err, errors.New("panic")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := new(toolexec.Executor)
				b := toolexec.Bind(x, execTool("refund", toolexec.Write, func(ctx context.Context) error {
					<-ctx.Done()
					return join(ctx.Err())
				}))
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				e := caseChecked(t, b.Call(ctx, execOrder))
				assert.Equal(t, toolexec.CodeCancelled, e.Code)
				assert.Equal(t, toolexec.CommitUnknown, e.CommitState)
				caseClose(t, x)
			})
		})
	}
}

// observeOneWay can be encoded, but not decoded again.
type observeOneWay struct{ Name string }

func (o observeOneWay) MarshalJSON() ([]byte, error) { return json.Marshal(o.Name) }
func (*observeOneWay) UnmarshalJSON([]byte) error    { return errors.New("a secret") }

// TestInputThatCannotBeDecodedIsPassedOn: a further attempt gets what the caller passed, rather than nothing.
func TestInputThatCannotBeDecodedIsPassedOn(t *testing.T) {
	x := &toolexec.Executor{Policy: toolexec.Policy{Backoff: toolexec.Backoff{Initial: -1}}}
	var seen []string
	b := toolexec.Bind(x, toolexec.Tool[observeOneWay, string]{Name: "refund", Run: func(_ context.Context, in observeOneWay) (string, error) {
		seen = append(seen, in.Name)
		return "", toolexec.NotSent(nil)
	}})
	checkEnvelope(t, b.Call(t.Context(), observeOneWay{"x"}))
	assert.Equal(t, []string{"x", "x", "x"}, seen)
}
