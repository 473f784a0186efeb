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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// execTool is a tool of that name whose function is run.
func execTool(name string, effect toolexec.Effect, run func(ctx context.Context) error) caseTool {
	return caseTool{Name: name, Effect: effect, Run: func(ctx context.Context, in caseOrder) (caseReceipt, error) {
		return caseReceipt{in.OrderID}, run(ctx)
	}}
}

var execOrder = caseOrder{OrderID: "ORD-5510", Cents: 8000}

// execStarts notes when attempts start. An abandoned one is ordered with nothing, so it is locked.
type execStarts struct {
	since time.Time
	mu    sync.Mutex
	list  []time.Duration
}

func execStart() *execStarts { return &execStarts{since: time.Now()} }

// note returns how many have started.
func (s *execStarts) note() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, time.Since(s.since))
	return len(s.list)
}

func (s *execStarts) at() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

func execSeconds(list ...float64) (out []time.Duration) {
	for _, f := range list {
		out = append(out, time.Duration(f*float64(time.Second)))
	}
	return out
}

func TestZeroExecutorHasTheDocumentedDefaults(t *testing.T) {
	for _, row := range []struct {
		name   string
		run    func(ctx context.Context) error
		starts []time.Duration
		took   time.Duration
		code   toolexec.Code
	}{
		{"fails at once", func(context.Context) error { return io.EOF }, execSeconds(0, 0.5, 1.5), 1500 * time.Millisecond, toolexec.CodeDependencyUnavailable},
		{"hangs", func(context.Context) error { time.Sleep(time.Minute); return nil }, execSeconds(0, 2.5, 5.5), 7500 * time.Millisecond, toolexec.CodeDeadlineExceeded},
		{"obeys", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, execSeconds(0, 2.5, 5.5), 7500 * time.Millisecond, toolexec.CodeDeadlineExceeded},
		{"permanent", func(context.Context) error { return errors.New("x") }, execSeconds(0), 0, toolexec.CodeToolFailed},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				starts := execStart()
				b := toolexec.Bind(&x, execTool("read", toolexec.ReadOnly, func(ctx context.Context) error {
					starts.note()
					d, ok := ctx.Deadline()
					assert.True(t, ok)
					assert.Equal(t, toolexec.DefaultDeadline, time.Until(d))
					return row.run(ctx)
				}))
				e := caseChecked(t, b.Call(t.Context(), execOrder))
				assert.Equal(t, row.took, time.Since(starts.since))
				assert.Equal(t, row.starts, starts.at())
				assert.Equal(t, row.code, e.Code)
				caseClose(t, &x)
			})
		})
	}
	t.Run("guard in memory", func(t *testing.T) {
		var x toolexec.Executor
		runs := 0
		b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error { runs++; return nil }))
		for i := range 2 {
			e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder))
			assert.True(t, e.OK)
			assert.Equal(t, i == 1, e.Replayed)
		}
		assert.Equal(t, 1, runs)
		e := caseChecked(t, b.Call(t.Context(), execOrder))
		assert.Regexp(t, `^op_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, e.OperationRef)
		assert.Equal(t, 2, runs, "an operation of its own")
		caseClose(t, &x)
	})
}

func TestTypedAndNamedCallsAreOneOperation(t *testing.T) {
	type args struct {
		Big   int64              `json:"big"`
		Float float64            `json:"float"`
		Text  string             `json:"text"`
		Opt   *int               `json:"opt,omitempty"`
		Map   map[string]float64 `json:"map"`
		When  time.Time          `json:"when"`
	}
	one := 1
	when := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		typed args
		named string
	}{
		"plain": {
			args{9007199254740993, 0.5, "a\u2028<b>", &one, map[string]float64{"b": 1, "a": 2}, when},
			`{"when":"2026-11-30T12:00:00Z","map":{"a":2.0,"b":1e0},"opt":1,"text":"a\u2028\u003cb\u003e","float":5e-1,"big":9007199254740993}`,
		},
		"spelling": {args{Big: 100, Map: map[string]float64{}, When: when}, `{"big":1e2,"float":0.0,"text":"","map":{},"when":"2026-11-30T12:00:00.000Z"}`},
		"omitted":  {args{Big: 1, When: when, Map: map[string]float64{}}, ` { "big" : 1 , "float" : -0 , "text" : "" , "map" : { } , "when" : "2026-11-30T12:00:00Z" } `},
	} {
		for _, namedFirst := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/", namedFirst), func(t *testing.T) {
				var x toolexec.Executor
				runs := 0
				b := toolexec.Bind(&x, toolexec.Tool[args, string]{Name: "w", Run: func(context.Context, args) (string, error) { runs++; return "r", nil }})
				typed := func() bool {
					e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), row.typed))
					assert.True(t, e.OK, "%s", e.Code)
					assert.Equal(t, "r", e.Result)
					return e.Replayed
				}
				named := func() bool {
					e := caseExecute(t, &x, "w", "a/1", row.named)
					assert.True(t, e.OK, "%s %v", e.Code, e.FieldErrors)
					assert.Equal(t, `"r"`, string(e.Result))
					return e.Replayed
				}
				first, second := typed, named
				if namedFirst {
					first, second = named, typed
				}
				assert.Equal(t, []bool{false, true}, []bool{first(), second()})
				assert.Equal(t, 1, runs)
			})
		}
	}
}

func TestBindPanicsNameToolAndMend(t *testing.T) {
	type hidden struct {
		Seen   string
		Hidden string `json:"-"`
	}
	ok := execTool("the_tool", toolexec.Write, func(context.Context) error { return nil })
	lookUp := func(context.Context, string, caseOrder) (toolexec.Finding[caseReceipt], error) {
		return toolexec.Absent[caseReceipt](), nil
	}
	with := func(change func(*caseTool)) func(*toolexec.Executor) {
		return func(x *toolexec.Executor) {
			tool := ok
			change(&tool)
			toolexec.Bind(x, tool)
		}
	}
	for name, row := range map[string]struct {
		bind func(*toolexec.Executor)
		mend string
	}{
		"no name":            {with(func(c *caseTool) { c.Name = "" }), "1 to 64 bytes"},
		"long name":          {with(func(c *caseTool) { c.Name = strings.Repeat("x", 65) }), "1 to 64 bytes"},
		"bad name":           {with(func(c *caseTool) { c.Name = "a b" }), "A-Z a-z 0-9 _ . -"},
		"name with newline":  {with(func(c *caseTool) { c.Name = "ab\n" }), "A-Z a-z 0-9 _ . -"},
		"no Run":             {with(func(c *caseTool) { c.Run = nil }), "set it"},
		"effect":             {with(func(c *caseTool) { c.Effect = "delete" }), "Write, Idempotent, ReadOnly"},
		"ErrorsMean":         {with(func(c *caseTool) { c.ErrorsMean = toolexec.EvidenceNotSent }), "must be"},
		"ErrorsMean success": {with(func(c *caseTool) { c.ErrorsMean = toolexec.EvidenceCommitted }), "must be"},
		"no Lookup":          {with(func(c *caseTool) { c.Verify = &toolexec.Verifier[caseOrder, caseReceipt]{} }), "set it"},
		"unverifiable Verify": {with(func(c *caseTool) {
			c.Verify, c.Unverifiable = &toolexec.Verifier[caseOrder, caseReceipt]{Lookup: lookUp}, true
		}), "drop one"},
		"verified read": {with(func(c *caseTool) {
			c.Effect, c.Verify = toolexec.ReadOnly, &toolexec.Verifier[caseOrder, caseReceipt]{Lookup: lookUp}
		}), "drop"},
		"approved read":     {with(func(c *caseTool) { c.Effect, c.Approval = toolexec.ReadOnly, &toolexec.Approval[caseOrder]{} }), "drop"},
		"marking read":      {with(func(c *caseTool) { c.Effect, c.MarksSent = toolexec.ReadOnly, true }), "drop"},
		"window of a write": {with(func(c *caseTool) { c.DedupeWindow = time.Hour }), "drop it"},
		"window of a read":  {with(func(c *caseTool) { c.Effect, c.DedupeWindow = toolexec.ReadOnly, time.Hour }), "drop it"},
		"detail key":        {with(func(c *caseTool) { c.DetailKeys = []string{"Bad Key"} }), "must match"},
		"pointer":           {with(func(c *caseTool) { c.IgnoreFields = []string{"no_slash"} }), "IgnoreFields"},
		"input schema":      {with(func(c *caseTool) { c.InputSchema = json.RawMessage(`{"type":7}`) }), "input schema"},
		"input no JSON":     {with(func(c *caseTool) { c.InputSchema = json.RawMessage(`{`) }), "input schema"},
		"output schema":     {with(func(c *caseTool) { c.OutputSchema = json.RawMessage(`{"$ref":"http://example.com/x"}`) }), "output schema"},
		"twice":             {func(x *toolexec.Executor) { toolexec.Bind(x, ok); toolexec.Bind(x, ok) }, "give each its own"},
		"hidden field": {func(x *toolexec.Executor) {
			toolexec.Bind(x, toolexec.Tool[hidden, string]{Name: "the_tool", Run: func(context.Context, hidden) (string, error) { return "", nil }})
		}, "Hidden.*IgnoreHidden"},
		"channel": {func(x *toolexec.Executor) {
			toolexec.Bind(x, toolexec.Tool[chan int, string]{Name: "the_tool", Effect: toolexec.ReadOnly, Run: func(context.Context, chan int) (string, error) { return "", nil }})
		}, "input schema"},
	} {
		t.Run(name, func(t *testing.T) {
			var x toolexec.Executor
			defer func() {
				text, _ := recover().(string)
				assert.Regexp(t, `^toolexec: Bind ".*": `+`(?s).*`+row.mend, text)
				if !strings.Contains(name, "name") {
					assert.Contains(t, text, `"the_tool"`)
				}
			}()
			row.bind(&x)
		})
	}
	t.Run("what is fine", func(t *testing.T) {
		var x toolexec.Executor
		for i, change := range []func(*caseTool){
			func(*caseTool) {},
			func(c *caseTool) { c.Effect, c.DedupeWindow = toolexec.Idempotent, time.Hour },
			func(c *caseTool) { c.ErrorsMean = toolexec.EvidenceRejected },
			func(c *caseTool) { c.Unverifiable = true },
			func(c *caseTool) { c.Name = strings.Repeat("x", 64) },
			func(c *caseTool) { c.DetailKeys = []string{"order_state"} },
		} {
			tool := ok
			tool.Name = fmt.Sprint("tool.", i, "-x")
			change(&tool)
			assert.NotPanics(t, func() { assert.Equal(t, tool.Name, toolexec.Bind(&x, tool).Name()) })
		}
		toolexec.Bind(&x, toolexec.Tool[hidden, string]{Name: "ignores", IgnoreHidden: true, Run: func(context.Context, hidden) (string, error) { return "", nil }})
		toolexec.Bind(&x, toolexec.Tool[hidden, string]{Name: "reads", Effect: toolexec.ReadOnly, Run: func(context.Context, hidden) (string, error) { return "", nil }})
	})
}

func TestFuncAndValue(t *testing.T) {
	cause := errors.New("no such account")
	var x toolexec.Executor
	fail := false
	b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error {
		if fail {
			return toolexec.Rejected(toolexec.CodeConflict, cause)
		}
		return nil
	}))
	f := b.Func()
	got, err := f(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder)
	assert.NoError(t, err)
	assert.Equal(t, caseReceipt{"ORD-5510"}, got)

	fail = true
	got, err = f(toolexec.WithOperationRef(t.Context(), "a/2"), execOrder)
	assert.Zero(t, got)
	var own *toolexec.Error
	require.ErrorAs(t, err, &own)
	assert.ErrorIs(t, err, cause)
	own.Err, own.Message = nil, ""
	assert.Equal(t, &toolexec.Error{Code: toolexec.CodeConflict, CommitState: toolexec.NotCommitted, NextAction: toolexec.NextEscalate, OperationRef: "a/2"}, own)
	assert.Equal(t, "toolexec: CONFLICT (not_committed, escalate) operation_ref a/2", err.Error())

	// Committed and not kept is a success that Go code must not take for a value.
	kept := toolexec.Bind(&x, caseTool{Name: "none_kept", MaxResult: -1, Run: func(context.Context, caseOrder) (caseReceipt, error) { return caseReceipt{"r"}, nil }})
	_, err = kept.Func()(toolexec.WithOperationRef(t.Context(), "b/1"), execOrder)
	assert.NoError(t, err, "its own caller gets it")
	_, err = kept.Func()(toolexec.WithOperationRef(t.Context(), "b/1"), execOrder)
	assert.ErrorIs(t, err, toolexec.ErrNoResult)
	require.ErrorAs(t, err, &own)
	assert.Equal(t, toolexec.Committed, own.CommitState)
	assert.Equal(t, toolexec.NextContinue, own.NextAction)

	var zero toolexec.Envelope[string]
	_, err = zero.Value()
	require.ErrorAs(t, err, &own)
	assert.Equal(t, toolexec.CommitUnknown, own.CommitState)
	assert.Equal(t, toolexec.NextEscalate, own.NextAction)
}

func TestVet(t *testing.T) {
	var x toolexec.Executor
	run := func(context.Context) error { return nil }
	verify := func(settle time.Duration, authoritative bool) *toolexec.Verifier[caseOrder, caseReceipt] {
		return &toolexec.Verifier[caseOrder, caseReceipt]{Settle: settle, Authoritative: authoritative, Lookup: func(context.Context, string, caseOrder) (toolexec.Finding[caseReceipt], error) {
			return toolexec.Absent[caseReceipt](), nil
		}}
	}
	bind := func(name string, effect toolexec.Effect, change func(*caseTool)) {
		tool := execTool(name, effect, run)
		change(&tool)
		toolexec.Bind(&x, tool)
	}
	assert.Empty(t, x.Vet())
	bind("z_fine", toolexec.Write, func(c *caseTool) { c.Verify = verify(0, true) })
	bind("a_fine_read", toolexec.ReadOnly, func(*caseTool) {})
	bind("b_fine_idempotent", toolexec.Idempotent, func(c *caseTool) { c.DedupeWindow = time.Hour })
	assert.Empty(t, x.Vet())
	bind("c_lost", toolexec.Write, func(*caseTool) {})
	bind("d_unverifiable", toolexec.Write, func(c *caseTool) { c.Unverifiable = true })
	bind("e_lagging", toolexec.Write, func(c *caseTool) { c.Verify = verify(0, false) })
	bind("f_hasty", toolexec.Write, func(c *caseTool) { c.Verify = verify(-1, true) })
	bind("g_for_ever", toolexec.Idempotent, func(*caseTool) {})
	bind("h_endless", toolexec.ReadOnly, func(c *caseTool) { c.Policy = toolexec.Policy{Deadline: -1, TotalDeadline: -1} })
	bind("i_cooperative", toolexec.ReadOnly, func(c *caseTool) { c.Cooperative = true })
	bind("j_longer", toolexec.ReadOnly, func(c *caseTool) { c.Policy.Deadline = time.Minute })
	bind("k_short", toolexec.Idempotent, func(c *caseTool) { c.DedupeWindow = time.Second })
	findings := x.Vet()
	want := []string{
		"c_lost: no Verify, not Idempotent: a lost answer goes to a person",
		"d_unverifiable: declared Unverifiable: a lost answer goes to a person at once",
		"e_lagging: its Verify is not Authoritative: ", "f_hasty: Settle is off: ", "g_for_ever: Idempotent without a DedupeWindow: ",
		"h_endless: no deadline at all: ", "i_cooperative: Cooperative: ", "j_longer: its deadline of 1m0s can never pass within its total deadline of 10s",
		"k_short: its DedupeWindow of 1s is shorter than one call may take (10s)",
	}
	require.Len(t, findings, len(want), "%q", findings)
	for i := range want {
		assert.True(t, strings.HasPrefix(findings[i], want[i]), "%q", findings[i])
	}
}

func TestCloseWaitsForAbandonedAttempts(t *testing.T) {
	for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
		t.Run(effect.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}}
				b := toolexec.Bind(&x, execTool("slow", effect, func(context.Context) error { time.Sleep(20 * time.Second); return nil }))
				require.NoError(t, x.Close(t.Context()), "nothing to wait for")
				start := time.Now()
				caseChecked(t, b.Call(t.Context(), execOrder))
				require.Equal(t, 2*time.Second, time.Since(start))

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				assert.ErrorIs(t, x.Close(ctx), context.DeadlineExceeded)
				assert.Equal(t, 3*time.Second, time.Since(start))
				cancelled, stop := context.WithCancel(t.Context())
				stop()
				assert.ErrorIs(t, x.Close(cancelled), context.Canceled)

				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() { assert.NoError(t, x.Close(t.Context())) })
				}
				wg.Wait()
				assert.Equal(t, 20*time.Second, time.Since(start))
				assert.NoError(t, x.Close(cancelled), "nothing is left to wait for")
			})
		})
	}
}

// execFlaky fails Saves while broken, as a database that is away does.
type execFlaky struct {
	caseDurable
	broken atomic.Bool
	fails  atomic.Int64
}

func (f *execFlaky) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	if f.broken.Load() {
		f.fails.Add(1)
		return toolexec.Record{}, errors.New("the database is away")
	}
	return f.caseDurable.Save(ctx, r)
}

func TestUnsavedSuccessIsStoredLater(t *testing.T) {
	for _, comesBack := range []bool{true, false} {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent} {
			t.Run(fmt.Sprint(effect, "/", comesBack), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := &execFlaky{caseDurable: caseDurable{Store: new(toolexec.MemoryStore)}}
					x := toolexec.Executor{Store: store}
					runs := 0
					b := toolexec.Bind(&x, execTool("w", effect, func(context.Context) error {
						runs++
						store.broken.Store(true)
						return nil
					}))
					ctx := toolexec.WithOperationRef(t.Context(), "a/1")
					e := caseChecked(t, b.Call(ctx, execOrder))
					assert.True(t, e.OK)
					assert.Equal(t, toolexec.Committed, e.CommitState)
					assert.True(t, e.Unrecorded)
					assert.Equal(t, caseReceipt{"ORD-5510"}, e.Result)
					time.Sleep(3 * time.Second)
					if comesBack {
						store.broken.Store(false)
						time.Sleep(2 * time.Second)
						again := caseChecked(t, b.Call(ctx, execOrder))
						assert.True(t, again.OK && again.Replayed && !again.Unrecorded, "%s", again.Code)
						assert.Equal(t, caseReceipt{"ORD-5510"}, again.Result)
					}
					tried := store.fails.Load()
					assert.Greater(t, tried, int64(2))
					assert.NoError(t, x.Close(t.Context()))
					if !comesBack {
						assert.Equal(t, tried+1, store.fails.Load(), "a last attempt")
					}
					assert.Equal(t, 1, runs)
				})
			})
		}
	}
}

// Who waited for that call is told as much as it was.
func TestUnsavedSuccessIsUnrecordedForAllWhoWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &execFlaky{caseDurable: caseDurable{Store: new(toolexec.MemoryStore)}}
		x := toolexec.Executor{Store: store}
		b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error {
			time.Sleep(time.Second)
			store.broken.Store(true)
			return nil
		}))
		envs := make([]toolexec.Envelope[caseReceipt], 3)
		var calls sync.WaitGroup
		for i, ref := range []string{"a/1", "a/1", ""} { // the last continues the equal one that is open
			calls.Go(func() { envs[i] = b.Call(toolexec.WithOperationRef(t.Context(), ref), execOrder) })
			time.Sleep(time.Millisecond)
		}
		calls.Wait()
		for i, e := range envs {
			caseChecked(t, e)
			assert.True(t, e.OK && e.Unrecorded, "%d: %s", i, e.Code)
			assert.Equal(t, i > 0, e.Replayed)
		}
		store.broken.Store(false)
		time.Sleep(2 * time.Second)
		assert.False(t, b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder).Unrecorded)
		caseClose(t, &x)
	})
}

func TestAttemptsAreRunOnTheDocumentedClock(t *testing.T) {
	unsent := errors.New("unsent")
	for _, row := range []struct {
		name   string
		effect toolexec.Effect
		policy toolexec.Policy
		run    func(ctx context.Context, n int) error
		starts []time.Duration
		took   time.Duration
		code   toolexec.Code // "": ok
		state  toolexec.CommitState
	}{
		{"write not sent", toolexec.Write, toolexec.Policy{}, func(context.Context, int) error { return toolexec.NotSent(unsent) },
			execSeconds(0, 0.5, 1.5), 1500 * time.Millisecond, toolexec.CodeDependencyUnavailable, toolexec.NotCommitted},
		{"write not sent, then fine", toolexec.Write, toolexec.Policy{}, func(_ context.Context, n int) error {
			if n == 3 {
				return nil
			}
			return toolexec.NotSent(unsent)
		}, execSeconds(0, 0.5, 1.5), 1500 * time.Millisecond, "", toolexec.Committed},
		{"idempotent lost", toolexec.Idempotent, toolexec.Policy{}, func(context.Context, int) error { return io.EOF },
			execSeconds(0, 0.5, 1.5), 1500 * time.Millisecond, toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown},
		{"write lost", toolexec.Write, toolexec.Policy{}, func(context.Context, int) error { return io.EOF },
			execSeconds(0), 0, toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown},
		{"hung write", toolexec.Write, toolexec.Policy{}, func(context.Context, int) error { time.Sleep(time.Hour); return nil },
			execSeconds(0), 2 * time.Second, toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown},
		{"polls Err only", toolexec.Write, toolexec.Policy{}, func(ctx context.Context, _ int) error {
			for ctx.Err() == nil {
				time.Sleep(300 * time.Millisecond)
			}
			return toolexec.NotSent(ctx.Err())
		}, execSeconds(0), 2 * time.Second, toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown},
		{"obeys within the grace", toolexec.Write, toolexec.Policy{MaxRetries: -1}, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			time.Sleep(9 * time.Millisecond)
			return toolexec.NotSent(ctx.Err())
		}, execSeconds(0), 2009 * time.Millisecond, toolexec.CodeDependencyUnavailable, toolexec.NotCommitted},
		{"obeys after the grace", toolexec.Write, toolexec.Policy{MaxRetries: -1}, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			time.Sleep(11 * time.Millisecond)
			return toolexec.NotSent(ctx.Err())
		}, execSeconds(0), 2010 * time.Millisecond, toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown},
		{"succeeds within the grace", toolexec.Write, toolexec.Policy{}, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			time.Sleep(5 * time.Millisecond)
			return nil
		}, execSeconds(0), 2005 * time.Millisecond, "", toolexec.Committed},
		{"total deadline", toolexec.ReadOnly, toolexec.Policy{Deadline: 4 * time.Second}, func(context.Context, int) error { time.Sleep(time.Hour); return nil },
			execSeconds(0, 4.5, 9.5), 10 * time.Second, toolexec.CodeDeadlineExceeded, toolexec.NotCommitted},
		{"total deadline alone", toolexec.ReadOnly, toolexec.Policy{Deadline: -1}, func(context.Context, int) error { time.Sleep(time.Hour); return nil },
			execSeconds(0), 10 * time.Second, toolexec.CodeDeadlineExceeded, toolexec.NotCommitted},
		{"no deadline", toolexec.Write, toolexec.Policy{Deadline: -1, TotalDeadline: -1}, func(context.Context, int) error { time.Sleep(time.Hour); return nil },
			execSeconds(0), time.Hour, "", toolexec.Committed},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := toolexec.Executor{Policy: row.policy}
				starts := execStart()
				b := toolexec.Bind(&x, execTool("w", row.effect, func(ctx context.Context) error {
					return row.run(ctx, starts.note())
				}))
				e := caseChecked(t, b.Call(t.Context(), execOrder))
				assert.Equal(t, row.took, time.Since(starts.since))
				assert.Equal(t, row.starts, starts.at())
				assert.Equal(t, row.code == "", e.OK)
				if !e.OK {
					assert.Equal(t, row.code, e.Code)
				}
				assert.Equal(t, row.state, e.CommitState)
				caseClose(t, &x)
			})
		})
	}
}

func TestCallersEarlierDeadlineCounts(t *testing.T) {
	for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
		for _, obeys := range []bool{false, true} {
			t.Run(fmt.Sprint(effect, "/", obeys), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var x toolexec.Executor
					start, starts := time.Now(), execStart()
					b := toolexec.Bind(&x, execTool("w", effect, func(ctx context.Context) error {
						starts.note()
						d, _ := ctx.Deadline()
						assert.Equal(t, time.Second, d.Sub(start))
						if !obeys {
							time.Sleep(time.Minute)
							return nil
						}
						<-ctx.Done()
						return ctx.Err()
					}))
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					e := caseChecked(t, b.Call(ctx, execOrder))
					assert.Equal(t, time.Second, time.Since(start))
					assert.Equal(t, execSeconds(0), starts.at())
					if effect == toolexec.ReadOnly {
						assert.Equal(t, toolexec.CodeDeadlineExceeded, e.Code)
						assert.Equal(t, toolexec.NotCommitted, e.CommitState)
					} else {
						assert.Equal(t, toolexec.CodeOutcomeUnknown, e.Code, "not CANCELLED: the caller did not cancel")
						assert.Equal(t, toolexec.CommitUnknown, e.CommitState)
					}
					caseClose(t, &x)
				})
			})
		}
	}
}

func TestThreeCancellationsAreToldApart(t *testing.T) {
	obey := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	wrap := func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("posting: %w", context.Cause(ctx)) }
	ignore := func(context.Context) error { time.Sleep(time.Minute); return nil }
	madeUp := func(context.Context) error { return fmt.Errorf("posting: %w", context.Canceled) }
	child := func(ctx context.Context) error {
		sub, cancel := context.WithCancel(ctx)
		cancel()
		return sub.Err()
	}
	for _, row := range []struct {
		name    string
		cancel  time.Duration // by the caller; 0: not
		run     func(context.Context) error
		readCod toolexec.Code
		writCod toolexec.Code
		runs    int // of a read
	}{
		{"caller, obeyed", time.Second, obey, toolexec.CodeCancelled, toolexec.CodeCancelled, 1},
		{"caller, wrapped cause", time.Second, wrap, toolexec.CodeCancelled, toolexec.CodeCancelled, 1},
		{"caller, ignored", time.Second, ignore, toolexec.CodeCancelled, toolexec.CodeCancelled, 1},
		{"attempt's deadline, obeyed", 0, obey, toolexec.CodeDeadlineExceeded, toolexec.CodeOutcomeUnknown, 3},
		{"attempt's deadline, wrapped cause", 0, wrap, toolexec.CodeDeadlineExceeded, toolexec.CodeOutcomeUnknown, 3},
		{"attempt's deadline, ignored", 0, ignore, toolexec.CodeDeadlineExceeded, toolexec.CodeOutcomeUnknown, 3},
		{"made up", 0, madeUp, toolexec.CodeToolFailed, toolexec.CodeToolFailed, 1},
		{"the tool's own child", 0, child, toolexec.CodeToolFailed, toolexec.CodeToolFailed, 1},
	} {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.ReadOnly} {
			t.Run(row.name+"/"+effect.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var x toolexec.Executor
					var count atomic.Int64
					start := time.Now()
					b := toolexec.Bind(&x, execTool("w", effect, func(ctx context.Context) error { count.Add(1); return row.run(ctx) }))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if row.cancel > 0 {
						time.AfterFunc(row.cancel, cancel)
					}
					e := caseChecked(t, b.Call(ctx, execOrder))
					if row.cancel > 0 {
						assert.Equal(t, row.cancel, time.Since(start))
						assert.ErrorIs(t, e.Err(), context.Canceled)
					}
					runs := count.Load()
					if effect == toolexec.ReadOnly {
						assert.EqualValues(t, row.runs, runs)
						assert.Equal(t, row.readCod, e.Code)
						assert.Equal(t, toolexec.NotCommitted, e.CommitState)
						wait := row.readCod != toolexec.CodeToolFailed
						assert.Equal(t, wait, e.Retry.Directive == toolexec.RetryAfterDelay)
						assert.Equal(t, wait, e.NextAction == toolexec.NextWaitAndRetry)
					} else {
						assert.EqualValues(t, 1, runs)
						assert.Equal(t, row.writCod, e.Code)
						assert.Equal(t, toolexec.CommitUnknown, e.CommitState)
						assert.Equal(t, toolexec.NextVerifyOperation, e.NextAction)
						assert.Equal(t, toolexec.RetryNever, e.Retry.Directive)
					}
					time.Sleep(10 * time.Second)
					assert.Equal(t, runs, count.Load(), "nothing further starts")
					caseClose(t, &x)
				})
			})
		}
	}
}

func TestNothingStartsWhenTheContextIsDone(t *testing.T) {
	for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
		for _, ref := range []string{"", "a/1"} {
			for _, expired := range []bool{false, true} {
				t.Run(fmt.Sprint(effect, "/", ref, "/", expired), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var x toolexec.Executor
						b := toolexec.Bind(&x, execTool("w", effect, func(context.Context) error { t.Error("invoked"); return nil }))
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						want := toolexec.CodeCancelled
						if expired {
							time.Sleep(time.Second)
							want = toolexec.CodeDeadlineExceeded
						} else {
							cancel()
						}
						if ref != "" {
							ctx = toolexec.WithOperationRef(ctx, ref)
						}
						e := caseChecked(t, b.Call(ctx, execOrder))
						// An ended context is answered as one, with a ref and without.
						assert.Equal(t, want, e.Code)
						assert.Equal(t, toolexec.NotCommitted, e.CommitState)
						assert.Equal(t, toolexec.RetryAfterDelay, e.Retry.Directive)
						assert.Equal(t, toolexec.NextWaitAndRetry, e.NextAction)
						page, _, err := (&toolexec.Supervisor{Executor: &x}).List(t.Context(), toolexec.Query{})
						assert.NoError(t, err)
						assert.Empty(t, page)
					})
				})
			}
		}
	}
}

func TestAbandonedAttemptsAreBounded(t *testing.T) {
	for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
		t.Run(effect.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}}
				var runs atomic.Int64
				release := make(chan struct{})
				b := toolexec.Bind(&x, execTool("stuck", effect, func(context.Context) error { runs.Add(1); <-release; return nil }))
				other := toolexec.Bind(&x, execTool("other", effect, func(context.Context) error { return nil }))
				for i := range toolexec.DefaultMaxAbandoned {
					e := b.Call(t.Context(), caseOrder{OrderID: fmt.Sprint(i)})
					assert.NotEqual(t, toolexec.CodeToolBusy, e.Code)
				}
				start := time.Now()
				e := caseChecked(t, b.Call(t.Context(), execOrder))
				assert.Zero(t, time.Since(start), "at once")
				assert.Equal(t, toolexec.CodeToolBusy, e.Code)
				assert.Equal(t, toolexec.NotCommitted, e.CommitState)
				assert.Equal(t, toolexec.NextWaitAndRetry, e.NextAction)
				assert.EqualValues(t, 8, runs.Load(), "nothing was sent")
				assert.True(t, other.Call(t.Context(), execOrder).OK, "the bound is per tool")
				close(release)
				require.NoError(t, x.Close(t.Context()))
				assert.True(t, b.Call(t.Context(), execOrder).OK)
			})
		})
	}
	t.Run("no bound", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1, MaxAbandoned: -1}}
			b := toolexec.Bind(&x, execTool("stuck", toolexec.ReadOnly, func(context.Context) error { time.Sleep(time.Hour); return nil }))
			for range 20 {
				assert.Equal(t, toolexec.CodeDeadlineExceeded, b.Call(t.Context(), execOrder).Code)
			}
			caseClose(t, &x)
		})
	})
}

func TestCooperativeToolRunsOnTheCallersGoroutine(t *testing.T) {
	for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.ReadOnly} {
		t.Run(effect.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				var end func(ctx context.Context) error
				tool := execTool("w", effect, func(ctx context.Context) error { return end(ctx) })
				tool.Cooperative = true
				b := toolexec.Bind(&x, tool)
				start := time.Now()
				call := func() toolexec.Envelope[caseReceipt] {
					start = time.Now()
					return caseChecked(t, b.Call(t.Context(), execOrder))
				}

				end = func(context.Context) error { time.Sleep(5 * time.Second); return nil }
				assert.True(t, call().OK, "the deadline does not hold")
				assert.Equal(t, 5*time.Second, time.Since(start))

				end = func(ctx context.Context) error {
					<-ctx.Done()
					return toolexec.Rejected(toolexec.CodeConflict, ctx.Err())
				}
				e := call()
				assert.Equal(t, 2*time.Second, time.Since(start), "but it ends the context")
				assert.Equal(t, toolexec.CodeConflict, e.Code)
				assert.ErrorIs(t, e.Err(), context.DeadlineExceeded)

				end = func(context.Context) error { runtime.Goexit(); return nil }
				returned, done := false, make(chan struct{})
				go func() {
					defer close(done)
					b.Call(toolexec.WithOperationRef(t.Context(), "exit/1"), execOrder)
					returned = true
				}()
				<-done
				assert.False(t, returned, "Goexit ends the caller's goroutine")
				if effect == toolexec.Write {
					e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "exit/1"), execOrder))
					assert.Equal(t, toolexec.CommitUnknown, e.CommitState, "and the record is not left in flight")
					assert.Equal(t, toolexec.NextVerifyOperation, e.NextAction)
				}

				end = func(context.Context) error { panic("x") }
				ctx := toolexec.WithOperationRef(t.Context(), "panic/1")
				assert.Equal(t, toolexec.CodeToolPanic, caseChecked(t, b.Call(ctx, execOrder)).Code)
				caseClose(t, &x)
			})
		})
	}
}

func TestInsideATool(t *testing.T) {
	t.Run("outside", func(t *testing.T) {
		for _, ctx := range []context.Context{t.Context(), toolexec.WithOperationRef(t.Context(), "a/1")} {
			assert.Empty(t, toolexec.OperationRef(ctx))
			assert.Zero(t, toolexec.Attempt(ctx))
			assert.ErrorIs(t, toolexec.MarkSent(ctx), toolexec.ErrNotSent)
			assert.Error(t, toolexec.MarkCommitted(ctx, 1))
		}
	})
	t.Run("ref and attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, ref := range []string{"", "a/1"} {
				for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
					var x toolexec.Executor
					var seen []string
					b := toolexec.Bind(&x, execTool("w", effect, func(ctx context.Context) error {
						child, cancel := context.WithCancel(ctx)
						defer cancel()
						seen = append(seen, fmt.Sprint(toolexec.OperationRef(child), " ", toolexec.Attempt(child)))
						return toolexec.NotSent(io.EOF)
					}))
					ctx := t.Context()
					if ref != "" {
						ctx = toolexec.WithOperationRef(ctx, ref)
					}
					e := caseChecked(t, b.Call(ctx, execOrder))
					want := e.OperationRef
					if ref == "" && effect == toolexec.ReadOnly {
						want = "" // minted for the failure
					}
					assert.Equal(t, []string{want + " 1", want + " 2", want + " 3"}, seen)
				}
			}
		})
	})
}

func TestMarkSent(t *testing.T) {
	for _, row := range []struct {
		name    string
		marks   bool // declared
		run     func(ctx context.Context) error
		state   toolexec.CommitState
		code    toolexec.Code
		late    toolexec.CommitState // after all has ended
		retried bool
	}{
		{"declared, never marked", true, func(context.Context) error { return io.EOF }, toolexec.NotCommitted, toolexec.CodeDependencyUnavailable, toolexec.NotCommitted, true},
		{"declared, plain error unmarked", true, func(context.Context) error { return errors.New("x") }, toolexec.NotCommitted, toolexec.CodeToolFailed, toolexec.NotCommitted, false},
		{"declared, panics unmarked", true, func(context.Context) error { panic("x") }, toolexec.NotCommitted, toolexec.CodeToolPanic, toolexec.NotCommitted, false},
		{"declared, marked", true, func(ctx context.Context) error {
			return errors.Join(toolexec.MarkSent(ctx), toolexec.MarkSent(ctx), io.EOF)
		}, toolexec.CommitUnknown, toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown, false},
		{"declared, hangs unmarked, then may not send", true, func(ctx context.Context) error {
			time.Sleep(3 * time.Second)
			if err := toolexec.MarkSent(ctx); !errors.Is(err, toolexec.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
				panic(err)
			}
			return errors.New("x")
		}, toolexec.NotCommitted, toolexec.CodeDeadlineExceeded, toolexec.NotCommitted, true},
		{"declared, hangs after marking", true, func(ctx context.Context) error {
			err := toolexec.MarkSent(ctx)
			time.Sleep(3 * time.Second)
			return errors.Join(err, io.EOF)
		}, toolexec.CommitUnknown, toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown, false},
		{"declared, marked and taken back", true, func(ctx context.Context) error {
			err := toolexec.MarkSent(ctx)
			toolexec.MarkNotSent(ctx)
			return errors.Join(err, io.EOF)
		}, toolexec.NotCommitted, toolexec.CodeDependencyUnavailable, toolexec.NotCommitted, true},
		{"declared, taken back and marked again", true, func(ctx context.Context) error {
			err := toolexec.MarkSent(ctx)
			toolexec.MarkNotSent(ctx)
			toolexec.MarkNotSent(ctx) // one too many is none
			return errors.Join(err, toolexec.MarkSent(ctx), io.EOF)
		}, toolexec.CommitUnknown, toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown, false},
		{"declared, one of two taken back", true, func(ctx context.Context) error {
			err := errors.Join(toolexec.MarkSent(ctx), toolexec.MarkSent(ctx))
			toolexec.MarkNotSent(ctx)
			return errors.Join(err, io.EOF)
		}, toolexec.CommitUnknown, toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown, false},
		{"declared, taken back too late", true, func(ctx context.Context) error {
			err := toolexec.MarkSent(ctx)
			time.Sleep(3 * time.Second)
			toolexec.MarkNotSent(ctx)
			return errors.Join(err, io.EOF)
		}, toolexec.CommitUnknown, toolexec.CodeOutcomeUnknown, toolexec.NotCommitted, false},
		{"not declared, marked and taken back", false, func(ctx context.Context) error {
			err := toolexec.MarkSent(ctx)
			toolexec.MarkNotSent(ctx)
			return errors.Join(err, io.EOF)
		}, toolexec.CommitUnknown, toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown, false},
		{"not declared, never marked", false, func(context.Context) error { return io.EOF }, toolexec.CommitUnknown, toolexec.CodeOutcomeUnknown, toolexec.CommitUnknown, false},
		// MarkSent wraps its cause beside ErrNotSent; what it refuses is proof whatever that cause is.
		{"not declared, refused mark returned", false, func(ctx context.Context) error {
			time.Sleep(3 * time.Second)
			return toolexec.MarkSent(ctx)
		}, toolexec.CommitUnknown, toolexec.CodeOutcomeUnknown, toolexec.NotCommitted, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				starts := execStart()
				tool := execTool("w", toolexec.Write, func(ctx context.Context) error { starts.note(); return row.run(ctx) })
				tool.MarksSent = row.marks
				b := toolexec.Bind(&x, tool)
				e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder))
				assert.Equal(t, row.state, e.CommitState)
				assert.Equal(t, row.code, e.Code)
				assert.Equal(t, row.retried, len(starts.at()) == 3, "%v", starts.at())
				caseClose(t, &x)
				rec, err := (&toolexec.Supervisor{Executor: &x}).Get(t.Context(), toolexec.Key{Ref: "a/1"})
				require.NoError(t, err)
				assert.Equal(t, row.late, rec.CommitState())
			})
		})
	}
	t.Run("the store is away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &execFlaky{caseDurable: caseDurable{Store: new(toolexec.MemoryStore)}}
			x := toolexec.Executor{Store: store, Policy: toolexec.Policy{MaxRetries: -1}}
			tool := execTool("w", toolexec.Write, func(ctx context.Context) error {
				store.broken.Store(true)
				err := toolexec.MarkSent(ctx)
				store.broken.Store(false)
				assert.ErrorIs(t, err, toolexec.ErrNotSent)
				return err // as above, whether or not the tool declares that it marks
			})
			for _, marks := range []bool{false, true} {
				tool.Name, tool.MarksSent = fmt.Sprint("w", marks), marks
				e := caseChecked(t, toolexec.Bind(&x, tool).Call(t.Context(), execOrder))
				assert.Equal(t, toolexec.NotCommitted, e.CommitState)
				assert.Equal(t, toolexec.CodeDependencyUnavailable, e.Code)
				assert.Equal(t, toolexec.NextWaitAndRetry, e.NextAction)
			}
			caseClose(t, &x)
		})
	})
	t.Run("read", func(t *testing.T) {
		var x toolexec.Executor
		b := toolexec.Bind(&x, execTool("r", toolexec.ReadOnly, func(ctx context.Context) error {
			assert.Error(t, toolexec.MarkCommitted(ctx, 1))
			return toolexec.MarkSent(ctx)
		}))
		assert.True(t, b.Call(t.Context(), execOrder).OK)
	})
}

// TestMarksSentAndStatesMore: what a tool states is stronger than what follows from not having marked.
func TestMarksSentAndStatesMore(t *testing.T) {
	for _, row := range []struct {
		name  string
		err   error
		state toolexec.CommitState
		code  toolexec.Code
		again toolexec.Code
		runs  int
	}{
		{"committed", &toolexec.Failure{Code: toolexec.CodeResultTooLarge, Evidence: toolexec.EvidenceCommitted}, toolexec.Committed, toolexec.CodeOK, toolexec.CodeOK, 1},
		{"refused for its input", toolexec.Invalid("order_id", "no such order"), toolexec.NotCommitted, toolexec.CodeInvalidArguments, toolexec.CodeUnchangedRetry, 1},
		{"refused by state", toolexec.Rejected(toolexec.CodeConflict, nil), toolexec.NotCommitted, toolexec.CodeConflict, toolexec.CodeConflict, 2},
		{"in doubt", toolexec.InDoubt(nil), toolexec.NotCommitted, toolexec.CodeDependencyUnavailable, toolexec.CodeDependencyUnavailable, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}}
				runs := 0
				tool := execTool("w", toolexec.Write, func(context.Context) error { runs++; return row.err })
				tool.MarksSent = true
				b := toolexec.Bind(&x, tool)
				ctx := toolexec.WithOperationRef(t.Context(), "a/1")
				e := caseChecked(t, b.Call(ctx, execOrder))
				assert.Equal(t, row.state, e.CommitState)
				assert.Equal(t, row.code, e.Code)
				time.Sleep(time.Minute)
				assert.Equal(t, row.again, caseChecked(t, b.Call(ctx, execOrder)).Code)
				assert.Equal(t, row.runs, runs)
				caseClose(t, &x)
			})
		})
	}
}

// TestScope: a tool and its look-up know on whose behalf they run, however the call was made.
func TestScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var got []string
		tool := execTool("w", toolexec.Write, func(ctx context.Context) error { got = append(got, "run "+toolexec.Scope(ctx)); return io.EOF })
		tool.Verify = &toolexec.Verifier[caseOrder, caseReceipt]{Lookup: func(ctx context.Context, _ string, _ caseOrder) (toolexec.Finding[caseReceipt], error) {
			got = append(got, "look-up "+toolexec.Scope(ctx))
			return toolexec.Found(caseReceipt{"r"}), nil
		}}
		b := toolexec.Bind(&x, tool)
		outer := toolexec.WithScope(t.Context(), "tenant")
		b.Call(toolexec.WithOperationRef(outer, "a/1"), execOrder)
		x.Execute(outer, toolexec.Call{Name: "w", Scope: "other", OperationRef: "a/1", Arguments: json.RawMessage(caseArgs)})
		b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder)
		assert.Equal(t, []string{"run tenant", "look-up tenant", "run other", "look-up other", "run ", "look-up "}, got)
		assert.Equal(t, "tenant", toolexec.Scope(outer))
	})
}

// execUnmarshalable cannot be encoded, in one of three ways.
type execUnmarshalable struct{ how string }

func (u execUnmarshalable) MarshalJSON() ([]byte, error) {
	switch u.how {
	case "panic":
		panic(caseSecret)
	case "Goexit":
		runtime.Goexit()
	}
	return nil, errors.New(caseSecret)
}

func TestMarkCommitted(t *testing.T) {
	type ending = func(context.Context) error
	for name, end := range map[string]ending{
		"success":  func(context.Context) error { return nil },
		"error":    func(context.Context) error { return errors.New("x") },
		"rejected": func(context.Context) error { return toolexec.Rejected(toolexec.CodeConflict, nil) },
		"not sent": func(context.Context) error { return toolexec.NotSent(nil) },
		"panic":    func(context.Context) error { panic("x") },
		"Goexit":   func(context.Context) error { runtime.Goexit(); return nil },
		"hangs":    func(context.Context) error { time.Sleep(time.Minute); return errors.New("x") },
	} {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent} {
			t.Run(name+"/"+effect.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var x toolexec.Executor
					runs := 0
					b := toolexec.Bind(&x, execTool("w", effect, func(ctx context.Context) error {
						runs++
						assert.NoError(t, toolexec.MarkCommitted(ctx, caseReceipt{"marked"}))
						return end(ctx)
					}))
					ctx := toolexec.WithOperationRef(t.Context(), "a/1")
					want := caseReceipt{"marked"}
					if name == "success" {
						want = caseReceipt{"ORD-5510"} // what it returned is newer
					}
					for i := range 2 {
						e := caseChecked(t, b.Call(ctx, execOrder))
						assert.True(t, e.OK, "%s", e.Code)
						assert.Equal(t, toolexec.Committed, e.CommitState)
						assert.Equal(t, want, e.Result)
						assert.Equal(t, i > 0, e.Replayed)
					}
					assert.Equal(t, 1, runs)
					caseClose(t, &x)
					if name == "error" || name == "panic" {
						rec, err := (&toolexec.Supervisor{Executor: &x}).Get(t.Context(), toolexec.Key{Ref: "a/1"})
						require.NoError(t, err)
						assert.NotNil(t, rec.LastFailure, "the error is kept")
					}
				})
			})
		}
	}
	for _, how := range []string{"error", "panic", "Goexit"} {
		t.Run("result cannot be encoded: "+how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(ctx context.Context) error {
					// The commit is marked even if MarshalJSON panics or exits.
					assert.NoError(t, toolexec.MarkCommitted(ctx, execUnmarshalable{how}))
					return errors.New("x")
				}))
				e := caseChecked(t, b.Call(t.Context(), execOrder))
				assert.True(t, e.OK, "what cannot be encoded is left out, the fact is not")
				assert.False(t, e.HasResult)
			})
		})
	}
}

func TestResultThatCannotBeEncoded(t *testing.T) {
	for _, how := range []string{"error", "panic", "Goexit"} {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
			for _, cooperative := range []bool{false, true} {
				if cooperative && how == "Goexit" {
					continue // it ends the caller's goroutine
				}
				t.Run(fmt.Sprint(how, "/", effect, "/", cooperative), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var x toolexec.Executor
						runs := 0
						b := toolexec.Bind(&x, toolexec.Tool[caseOrder, execUnmarshalable]{Name: "w", Effect: effect, Cooperative: cooperative, Run: func(context.Context, caseOrder) (execUnmarshalable, error) {
							runs++
							return execUnmarshalable{how}, nil
						}})
						typed := b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder)
						if how == "error" {
							checkEnvelope(t, typed) // it encodes the result itself
						}
						named := caseExecute(t, &x, "w", "a/2", caseArgs)
						caseClean(t, typed)
						caseClean(t, named)
						assert.Equal(t, 2, runs)
						// A success whose MarshalJSON panics or exits is a success, not a crash of the tool.
						assert.True(t, typed.OK, "its own caller gets it whole")
						assert.Equal(t, execUnmarshalable{how}, typed.Result)
						if effect == toolexec.ReadOnly {
							assert.Equal(t, toolexec.CodeResultMalformed, named.Code)
							assert.Equal(t, toolexec.NotCommitted, named.CommitState)
							return
						}
						assert.True(t, named.OK)
						assert.Equal(t, toolexec.Committed, named.CommitState)
						assert.NotEmpty(t, named.SafeDetails[toolexec.DetailNote])
						again := caseExecute(t, &x, "w", "a/1", caseArgs)
						assert.True(t, again.OK && again.Replayed && !again.HasResult)
						assert.Equal(t, 2, runs)
					})
				})
			}
		}
	}
}

func TestNestedCallsHaveOperationsOfTheirOwn(t *testing.T) {
	var x toolexec.Executor
	var refs []string
	inner := toolexec.Bind(&x, execTool("inner", toolexec.Write, func(ctx context.Context) error {
		refs = append(refs, toolexec.OperationRef(ctx))
		return nil
	}))
	outer := toolexec.Bind(&x, execTool("outer", toolexec.Write, func(ctx context.Context) error {
		refs = append(refs, toolexec.OperationRef(ctx))
		sub, cancel := context.WithCancel(ctx)
		defer cancel()
		assert.True(t, inner.Call(ctx, execOrder).OK)
		assert.True(t, inner.Call(sub, caseOrder{OrderID: "2"}).OK)
		assert.True(t, inner.Call(toolexec.WithOperationRef(ctx, toolexec.OperationRef(ctx)+"/inner"), execOrder).OK)
		assert.True(t, x.Execute(ctx, toolexec.Call{Name: "inner", Arguments: json.RawMessage(`{"order_id":"3"}`)}).OK)
		return nil
	}))
	e := caseChecked(t, outer.Call(toolexec.WithRunID(toolexec.WithScope(toolexec.WithOperationRef(t.Context(), "a/1"), "tenant"), "run"), execOrder))
	require.True(t, e.OK)
	require.Len(t, refs, 5)
	assert.Equal(t, "a/1", refs[0])
	assert.Regexp(t, "^op_", refs[1])
	assert.Regexp(t, "^op_", refs[2])
	assert.Equal(t, "a/1/inner", refs[3])
	assert.Regexp(t, "^op_", refs[4])
	ops := toolexec.Supervisor{Executor: &x}
	for i, ref := range refs { // scope and run are those of the context, by name as well
		rec, err := ops.Get(t.Context(), toolexec.Key{Scope: "tenant", Ref: ref})
		require.NoError(t, err, "%d", i)
		assert.Equal(t, "run", rec.RunID)
	}
}

// A tool made of tools fails as certainly as the least certain of them.
func TestErrorOfANestedCallIsAsCertainAsItsEnvelope(t *testing.T) {
	for _, row := range []struct {
		name  string
		ends  []error // of the inner attempts
		state toolexec.CommitState
		runs  int // of the outer tool
	}{
		{"unknown", []error{io.EOF, io.EOF, io.EOF}, toolexec.CommitUnknown, 1},
		// The envelope of the inner operation counts, not the cause of its last attempt.
		{"unknown, last attempt not sent", []error{io.EOF, toolexec.NotSent(nil), toolexec.NotSent(nil)}, toolexec.CommitUnknown, 1},
		{"unknown, last attempt rejected", []error{io.EOF, toolexec.Rejected(toolexec.CodeConflict, nil)}, toolexec.CommitUnknown, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				n, runs := 0, 0
				inner := toolexec.Bind(&x, execTool("inner", toolexec.Idempotent, func(context.Context) error {
					n++
					return row.ends[min(n, len(row.ends))-1]
				}))
				outer := toolexec.Bind(&x, caseTool{Name: "outer", OneRequest: true, Policy: toolexec.Policy{Deadline: 5 * time.Second}, Run: func(ctx context.Context, in caseOrder) (caseReceipt, error) {
					runs++
					return inner.Func()(toolexec.WithOperationRef(ctx, toolexec.OperationRef(ctx)+"/inner"), in)
				}})
				e := caseChecked(t, outer.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder))
				assert.Equal(t, row.state, e.CommitState)
				assert.Equal(t, row.runs, runs)
			})
		})
	}
}

// What a nested call proves, it proves of itself: the tool may have done something before.
func TestRefusedNestedCallProvesNothingOfWhatCameBefore(t *testing.T) {
	for _, row := range []struct {
		name string
		end  error // of the inner attempt
	}{
		// The inner tool's own statement is in the cause, and is none of the outer attempt.
		{"rejected", toolexec.Rejected(toolexec.CodeConflict, nil)},
		{"invalid", toolexec.Invalid("order_id", "")},
		{"not sent", &toolexec.Failure{Code: toolexec.CodeConfigError, Evidence: toolexec.EvidenceNotSent}},
	} {
		for _, one := range []bool{false, true} {
			t.Run(fmt.Sprint(row.name, "/OneRequest ", one), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var x toolexec.Executor
					var ledger caseLedger
					inner := toolexec.Bind(&x, execTool("inner", toolexec.Write, func(context.Context) error { return row.end }))
					outer := toolexec.Bind(&x, caseTool{Name: "outer", OneRequest: one, Run: func(ctx context.Context, in caseOrder) (caseReceipt, error) {
						if !one {
							ledger.post(toolexec.OperationRef(ctx))
						}
						return inner.Func()(ctx, in)
					}})
					e := caseChecked(t, outer.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder))
					assert.Equal(t, one, e.CommitState == toolexec.NotCommitted, "%s with %d effects", e.CommitState, ledger.total())
				})
			})
		}
	}
}

func TestScopesDoNotMeet(t *testing.T) {
	var x toolexec.Executor
	runs := 0
	b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error { runs++; return nil }))
	for i, scope := range []string{"", "a", "b", "A", "a/", "\x00"} {
		ctx := toolexec.WithOperationRef(toolexec.WithScope(t.Context(), scope), "op/1")
		assert.False(t, caseChecked(t, b.Call(ctx, execOrder)).Replayed)
		assert.Equal(t, i+1, runs)
		e := caseChecked(t, x.Execute(t.Context(), toolexec.Call{Name: "w", Scope: scope, OperationRef: "op/1", Arguments: json.RawMessage(caseArgs)}))
		assert.True(t, e.OK && e.Replayed, "typed and by name share the scope")
		rec, err := (&toolexec.Supervisor{Executor: &x}).Get(t.Context(), toolexec.Key{Scope: scope, Ref: "op/1"})
		require.NoError(t, err)
		assert.Equal(t, scope, rec.Scope)
	}
	assert.Equal(t, 6, runs)
}

func TestContextValuesOfATypedCall(t *testing.T) {
	var x toolexec.Executor
	b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error { return nil }))
	ctx := toolexec.WithOperationRef(t.Context(), "first")
	ctx = toolexec.WithScope(ctx, "s")
	ctx = toolexec.WithRunID(ctx, "r")
	ctx = toolexec.WithOperationRef(ctx, "second")
	e := caseChecked(t, b.Call(ctx, execOrder))
	assert.Equal(t, "second", e.OperationRef, "the innermost counts")
	rec, err := (&toolexec.Supervisor{Executor: &x}).Get(t.Context(), toolexec.Key{Scope: "s", Ref: "second"})
	require.NoError(t, err)
	assert.Equal(t, "r", rec.RunID)
	// A call by name takes none of them: it carries its own.
	e2 := caseChecked(t, x.Execute(ctx, toolexec.Call{Name: "w", Arguments: json.RawMessage(caseArgs)}))
	assert.Regexp(t, "^op_", e2.OperationRef)
	e = caseChecked(t, b.Call(toolexec.WithOperationRef(ctx, ""), execOrder))
	assert.Regexp(t, "^op_", e.OperationRef, "an empty ref is none")
	for _, bad := range []string{"a b", strings.Repeat("x", 201), "ä", "a\n"} {
		e = caseChecked(t, b.Call(toolexec.WithOperationRef(ctx, bad), execOrder))
		assert.Equal(t, toolexec.CodeInvalidOperationRef, e.Code)
		assert.Equal(t, toolexec.NotCommitted, e.CommitState)
		assert.Empty(t, e.OperationRef)
		assert.NotContains(t, e.AgentMessage, bad)
	}
	assert.True(t, b.Call(toolexec.WithOperationRef(ctx, strings.Repeat("x", 200)), execOrder).OK)
}

// A host that keeps tenants apart in its context must not have to say so twice.
func TestCallByNameTakesScopeAndRunOfItsContext(t *testing.T) {
	var x toolexec.Executor
	runs := 0
	toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error { runs++; return nil }))
	call := toolexec.Call{Name: "w", OperationRef: "a/1", Arguments: json.RawMessage(caseArgs)}
	for _, tenant := range []string{"tenant-a", "tenant-b"} {
		env := caseChecked(t, x.Execute(toolexec.WithScope(t.Context(), tenant), call))
		assert.True(t, env.OK && !env.Replayed, "one tenant is not answered with another's result")
	}
	assert.Equal(t, 2, runs)
	call.Scope = "tenant-a"
	assert.True(t, x.Execute(toolexec.WithScope(t.Context(), "tenant-c"), call).Replayed, "the call's own goes before")
	assert.NotEqual(t, "a/2", x.Execute(toolexec.WithOperationRef(t.Context(), "a/2"), toolexec.Call{Name: "w", Arguments: json.RawMessage(caseArgs)}).OperationRef)
}
