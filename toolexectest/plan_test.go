package toolexectest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

func TestPlanDuplicateDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for fault, want := range map[*toolexectest.Fault]struct {
			out     string
			err     error
			effects int
		}{
			{Duplicate: 1}: {"effect 1", nil, 2},
			{Duplicate: 3}: {"effect 1", nil, 4},
			{Duplicate: 1, Answer: toolexectest.Leg{Err: errFaultTest}}:             {"", errFaultTest, 2},
			{Duplicate: 1, Request: toolexectest.Leg{Delay: 5 * time.Second}}:       {"", context.DeadlineExceeded, 2},
			{Duplicate: 1, Request: toolexectest.Leg{Hang: 100 * time.Millisecond}}: {"effect 1", nil, 2},
		} {
			effects := 0
			plan := toolexectest.Script(*fault)
			run := toolexectest.Wrap(plan, func(context.Context, string) (string, error) {
				effects++
				return fmt.Sprint("effect ", effects), nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			out, err := run(ctx, "")
			cancel()
			plan.Wait()
			assert.Equal(t, want.out, out, fault)
			assert.ErrorIs(t, err, want.err, fault)
			assert.Equal(t, want.effects, effects, fault)
			plan.Check(t)
		}
	})
}

// What happens to a second delivery nobody hears of, and it goes by the ref of the
// first.
func TestPlanDuplicateThatPanics(t *testing.T) {
	plan := toolexectest.Script(toolexectest.Duplicate(2))
	calls := 0
	run := toolexectest.Wrap(plan, func(context.Context, int) (int, error) {
		if calls++; calls > 1 {
			panic("second")
		}
		return calls, nil
	})
	out, err := run(t.Context(), 0)
	assert.NoError(t, err)
	assert.Equal(t, []int{1, 3}, []int{out, calls})
}

// A duplicate fires when it is delivered, not when it is declared.
func TestPlanDuplicateUnfired(t *testing.T) {
	plan := toolexectest.Script(toolexectest.Duplicate(1))
	run := toolexectest.Wrap(plan, func(context.Context, int) (int, error) { panic("first") })
	attemptPlan(func() { _, _ = run(t.Context(), 0) })
	assert.Equal(t, []string{"step 1 of 1: request duplicated 1 time(s): did not fire in 1 attempt(s)"}, plan.Unfired())
}

func attemptPlan(f func()) {
	defer func() { _ = recover() }()
	f()
}

func TestPlanOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := toolexectest.Script(toolexectest.OK(), toolexectest.Outage(time.Minute, toolexectest.NotSent()), toolexectest.FailAnswer(errFaultTest))
		run := toolexectest.Wrap(plan, func(context.Context, int) (int, error) { return 1, nil })
		var got []string
		for _, pause := range []time.Duration{0, time.Hour, 0, time.Minute - 1, 1, 0} {
			time.Sleep(pause)
			_, err := run(t.Context(), 0)
			got = append(got, fmt.Sprint(err))
		}
		down := toolexec.NotSent(toolexectest.ErrInjected).Error()
		assert.Equal(t, []string{"<nil>", down, down, down, "reset", "<nil>"}, got, "within the minute each attempt meets it; then the next step comes")
		assert.Equal(t, 6, plan.Attempts())
		plan.Check(t)
	})
}

func TestPlanMistakes(t *testing.T) {
	leg := func(l toolexectest.Leg) toolexectest.Fault { return toolexectest.Fault{Request: l} }
	for want, fault := range map[string]toolexectest.Fault{
		"(request failed, request duplicated 1 time(s)): a request that does not arrive cannot arrive twice": {Request: toolexectest.Leg{Err: errFaultTest}, Duplicate: 1},
		"(no fault): a request cannot arrive less than once":                                                 {Duplicate: -1},
		"(no fault): a time or a size cannot be negative":                                                    {For: -1},
		"(request grown to -1 bytes): a time or a size cannot be negative":                                   leg(toolexectest.Leg{Huge: -1}),
		"(no fault): there is no fault that could last":                                                      toolexectest.Outage(time.Second, toolexectest.OK()),
	} {
		assert.PanicsWithValue(t, "toolexectest: Script: step 1 "+want, func() { toolexectest.Script(fault) })
	}
	assert.PanicsWithValue(t, "toolexectest: Draw: there is no fault to draw from", func() { toolexectest.Draw(1, 1) })
	assert.PanicsWithValue(t, "toolexectest: Wrap: step 1 makes the result grow, but a struct { N int } has no text and no list", func() {
		toolexectest.Wrap(toolexectest.Script(toolexectest.HugeAnswer(10)), func(context.Context, int) (struct{ N int }, error) { panic("unused") })
	})
}

type planNode struct {
	N    int       `json:"n"`
	Next *planNode `json:"next,omitempty"`
	Text string    `json:"text,omitempty"`
}

func TestPlanHuge(t *testing.T) {
	const size = 10_000
	grown := func(out any, err error) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			require.NoError(t, err)
			raw, err := json.Marshal(out)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, len(raw), size)
		}
	}
	list := []int{1}
	shared := &planNode{Text: "kept"}
	table := map[string]string{"a": "b"}
	for name, check := range map[string]func(*testing.T){
		"text":        grown(hugePlan(t, "a")),
		"list":        grown(hugePlan(t, list)),
		"raw JSON":    grown(hugePlan(t, json.RawMessage(`{}`))),
		"any":         grown(hugePlan[any](t, 1)),
		"map":         grown(hugePlan(t, table)),
		"map to ints": grown(hugePlan(t, map[string]int{})),
		"struct":      grown(hugePlan(t, planNode{N: 1})),
		"pointer":     grown(hugePlan(t, shared)),
		"nil pointer": grown(hugePlan[*planNode](t, nil)),
		"bytes":       grown(hugePlan(t, []byte("a"))),
		"what is kept": func(t *testing.T) {
			assert.Equal(t, []any{1, planNode{Text: "kept"}, 1}, []any{len(list), *shared, len(table)})
		},
	} {
		t.Run(name, check)
	}
}

func hugePlan[Out any](t *testing.T, out Out) (Out, error) {
	t.Helper()
	return toolexectest.Wrap(toolexectest.Script(toolexectest.HugeAnswer(10_000)), func(context.Context, int) (Out, error) { return out, nil })(t.Context(), 0)
}

func TestPlanGarble(t *testing.T) {
	raw := garbledPlan(t, json.RawMessage(`1`))
	assert.False(t, json.Valid(raw))
	assert.Equal(t, "\xff\xfe unexpected", garbledPlan(t, "a"))
	assert.Equal(t, map[string]any{"unexpected": true}, garbledPlan[any](t, 1))
	assert.Equal(t, map[string]int{"unexpected": 0}, garbledPlan(t, map[string]int{"a": 1}))
	assert.Equal(t, planNode{}, garbledPlan(t, planNode{N: 1}))
}

func garbledPlan[Out any](t *testing.T, out Out) Out {
	t.Helper()
	got, err := toolexectest.Wrap(toolexectest.Script(toolexectest.GarbleAnswer()), func(context.Context, int) (Out, error) { return out, nil })(t.Context(), 0)
	require.NoError(t, err)
	return got
}

func TestPlanDraw(t *testing.T) {
	from := slices.Collect(maps.Values(maps.Collect(toolexectest.Catalogue(0))))
	slices.SortFunc(from, compareFaults)
	first := toolexectest.Draw(7, 50, from...)
	assert.Equal(t, first.String(), toolexectest.Draw(7, 50, from...).String())
	assert.NotEqual(t, first.String(), toolexectest.Draw(8, 50, from...).String())
	assert.Equal(t, "toolexectest.Script(toolexectest.DropAnswer(), toolexectest.OK(), toolexectest.DropAnswer(), toolexectest.DropAnswer(), toolexectest.OK(), toolexectest.DropAnswer())",
		toolexectest.Draw(81, 6, toolexectest.OK(), toolexectest.NotSent(), toolexectest.DropAnswer()).String(), "a seed means the same for ever")
	assert.Equal(t, "(*toolexectest.Plan)(nil)", (*toolexectest.Plan)(nil).String())
}

func compareFaults(a, b toolexectest.Fault) int {
	switch s, u := a.GoString(), b.GoString(); {
	case s < u:
		return -1
	case s > u:
		return 1
	}
	return 0
}

// Beside each literal is the text that has to be the same.
func TestPlanPrintsItself(t *testing.T) {
	type leg = toolexectest.Leg
	for want, fault := range map[string]toolexectest.Fault{
		"toolexectest.OK()":                                                          toolexectest.OK(),
		"toolexectest.NotSent()":                                                     toolexectest.NotSent(),
		"toolexectest.DropRequest()":                                                 toolexectest.DropRequest(),
		"toolexectest.DropAnswer()":                                                  toolexectest.DropAnswer(),
		"toolexectest.DelayRequest(3*time.Second)":                                   toolexectest.DelayRequest(3 * time.Second),
		"toolexectest.DelayAnswer(time.Hour)":                                        toolexectest.DelayAnswer(time.Hour),
		"toolexectest.FailRequest(toolexectest.ErrInjected)":                         toolexectest.FailRequest(toolexectest.ErrInjected),
		"toolexectest.FailAnswer(errors.New(\"reset\"))":                             toolexectest.FailAnswer(errors.New("reset")),
		"toolexectest.FailAnswer(toolexec.Transient(toolexectest.ErrInjected))":      toolexectest.FailAnswer(toolexec.Transient(toolexectest.ErrInjected)),
		"toolexectest.FailRequest(toolexec.InDoubt(toolexectest.ErrInjected))":       toolexectest.FailRequest(toolexec.InDoubt(toolexectest.ErrInjected)),
		"toolexectest.FailAnswer(toolexec.NotSent(toolexectest.ErrInjected))":        toolexectest.FailAnswer(toolexec.NotSent(toolexectest.ErrInjected)),
		"toolexectest.Conflict()":                                                    toolexectest.Conflict(),
		"toolexectest.Refuse(toolexec.ClassEmptyResult)":                             toolexectest.Refuse(toolexec.ClassEmptyResult),
		"toolexectest.RateLimited(1500*time.Millisecond)":                            toolexectest.RateLimited(1500 * time.Millisecond),
		"toolexectest.Hang(2*time.Minute)":                                           toolexectest.Hang(2 * time.Minute),
		"toolexectest.PanicRequest(\"p\")":                                           toolexectest.PanicRequest("p"),
		"toolexectest.PanicAnswer(1)":                                                toolexectest.PanicAnswer(1),
		"toolexectest.ExitRequest()":                                                 toolexectest.ExitRequest(),
		"toolexectest.ExitAnswer()":                                                  toolexectest.ExitAnswer(),
		"toolexectest.Lie(nil)":                                                      toolexectest.Lie(nil),
		"toolexectest.Lie(\"receipt\")":                                              toolexectest.Lie("receipt"),
		"toolexectest.Lie(toolexec.Verdict(0x2))":                                    toolexectest.Lie(toolexec.NoEffect),
		"toolexectest.EmptyAnswer()":                                                 toolexectest.EmptyAnswer(),
		"toolexectest.GarbleAnswer()":                                                toolexectest.GarbleAnswer(),
		"toolexectest.HugeAnswer(1024)":                                              toolexectest.HugeAnswer(1024),
		"toolexectest.Duplicate(2)":                                                  toolexectest.Duplicate(2),
		"toolexectest.Outage(time.Minute, toolexectest.NotSent())":                   toolexectest.Outage(time.Minute, toolexectest.NotSent()),
		"toolexectest.Outage(90*time.Second, toolexectest.DelayAnswer(250))":         toolexectest.Outage(90*time.Second, toolexectest.DelayAnswer(250)),
		"toolexectest.Fault{Answer: toolexectest.Leg{Hang: time.Microsecond}}":       {Answer: leg{Hang: time.Microsecond}},
		"toolexectest.Fault{Request: toolexectest.Leg{Crash: process}}":              toolexectest.CrashRequest(new(toolexectest.Process)),
		"toolexectest.Fault{Request: toolexectest.Leg{Delay: 1001}, Duplicate: 1}":   {Request: leg{Delay: 1001}, Duplicate: 1},
		"toolexectest.Fault{Answer: toolexectest.Leg{Result: []string{\"a\"}}}":      {Answer: leg{Result: []string{"a"}}},
		"toolexectest.Fault{Answer: toolexectest.Leg{Delay: time.Hour, Drop: true}}": {Answer: leg{Delay: time.Hour, Drop: true}},
	} {
		assert.Equal(t, want, fault.GoString())
		assert.Equal(t, "toolexectest.Script("+want+")", toolexectest.Script(fault).String())
	}
}

// Every field of a Leg, on each way, is in the catalogue, but for those that need a
// value of the tool's or a process.
func TestPlanCatalogueIsWhole(t *testing.T) {
	set := map[string]bool{}
	for name, fault := range toolexectest.Catalogue(0) {
		assert.NotEqual(t, toolexectest.OK(), fault, name)
		for way, leg := range map[string]toolexectest.Leg{"Request": fault.Request, "Answer": fault.Answer} {
			for i := range reflect.TypeFor[toolexectest.Leg]().NumField() {
				if !reflect.ValueOf(leg).Field(i).IsZero() {
					set[way+"."+reflect.TypeFor[toolexectest.Leg]().Field(i).Name] = true
				}
			}
		}
		set["Duplicate"] = set["Duplicate"] || fault.Duplicate > 0
		set["For"] = set["For"] || fault.For > 0
	}
	assert.Equal(t, []string{
		"Answer.Delay", "Answer.Drop", "Answer.Empty", "Answer.Err", "Answer.Garble", "Answer.Goexit", "Answer.Hang", "Answer.Panic", "Duplicate", "For",
		"Request.Delay", "Request.Drop", "Request.Empty", "Request.Err", "Request.Goexit", "Request.Hang", "Request.Panic",
	}, slices.Sorted(maps.Keys(set)))
	classes := map[toolexec.Class]bool{}
	for _, fault := range toolexectest.Catalogue(0) {
		if f := new(toolexec.Failure); errors.As(fault.Request.Err, &f) && f.Evidence == toolexec.EvidenceRejected {
			classes[f.Class] = true
		}
	}
	assert.Len(t, classes, 5, "each class")
	for range toolexectest.Catalogue(0) { // it can be left early
		break
	}
}

// Whatever befalls a write: never two effects that the tool was not to blame for,
// and never a word against the ledger.
func TestPlanCatalogueThroughTheExecutor(t *testing.T) {
	const deadline = time.Second
	for name, fault := range toolexectest.Catalogue(deadline) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				var l toolexectest.Ledger
				plan := toolexectest.Script(fault)
				tool := toolexec.Bind(&x, toolexec.Tool[int, string]{
					Name: "post", Policy: toolexec.Policy{Deadline: deadline}, Run: toolexectest.Wrap(plan, ledgerPost(&l)),
				})
				env := tool.Call(toolexec.WithOperationRef(t.Context(), "op/1"), 1)
				require.NoError(t, x.Close(t.Context()))
				plan.Wait()
				plan.Check(t)
				switch {
				case name == "success without the effect":
					assert.Equal(t, toolexec.Committed, env.CommitState, "it was told so")
				case name == "delivered twice":
					assert.Equal(t, 2, l.Effects("op/1"), "only the remote side can tell")
				case env.CommitState == toolexec.Committed:
					assert.Equal(t, 1, l.Effects("op/1"))
				case env.CommitState == toolexec.NotCommitted:
					assert.Zero(t, l.Total())
				default:
					assert.LessOrEqual(t, l.Total(), 1)
				}
			})
		})
	}
}

// Drawn plans around the tool, its look-up and its store, all at once: no write has
// two effects, nobody is told what is not so, and what breaks that is printed as the
// scripts that repeat it.
func TestPlanDrawnAroundEverything(t *testing.T) {
	var ofTool []toolexectest.Fault
	for name, f := range toolexectest.Catalogue(0) {
		if name != "success without the effect" && name != "delivered twice" && f.For == 0 { // those lie, or are the network's
			ofTool = append(ofTool, f)
		}
	}
	ofLookup := []toolexectest.Fault{
		toolexectest.OK(), toolexectest.DelayAnswer(time.Second), toolexectest.DropAnswer(), toolexectest.Hang(5 * time.Second),
		toolexectest.FailRequest(toolexectest.ErrInjected), toolexectest.PanicRequest("p"), toolexectest.Lie(nil),
	}
	ofStore := []toolexectest.Fault{
		toolexectest.OK(), toolexectest.OK(), toolexectest.OK(), toolexectest.FailRequest(toolexectest.ErrInjected),
		toolexectest.FailAnswer(toolexectest.ErrInjected), toolexectest.Conflict(), toolexectest.DelayRequest(200 * time.Millisecond),
	}
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			tools, looks, saves := toolexectest.Draw(seed, 6, ofTool...), toolexectest.Draw(seed, 6, ofLookup...), toolexectest.Draw(seed, 20, ofStore...)
			var l toolexectest.Ledger
			x := toolexec.Executor{Store: toolexectest.WrapStore(storeFaultBase{new(toolexec.MemoryStore)}, toolexectest.StoreFaults{Save: saves})}
			tool := toolexec.Bind(&x, toolexec.Tool[int, string]{
				Name: "post", Run: toolexectest.Wrap(tools, ledgerPost(&l)),
				Verify: &toolexec.Verifier[int, string]{Lookup: toolexectest.WrapLookup(looks, toolexectest.Lookup[int, string](&l)), Authoritative: true},
			})
			var told []string
			for range 8 {
				env := tool.Call(toolexec.WithOperationRef(t.Context(), "op/1"), 1)
				told = append(told, fmt.Sprint(env.Code, " ", env.CommitState))
				wrong := toolexectest.CheckEnvelope(env)
				switch effects := l.Total(); {
				case effects > 1, env.CommitState == toolexec.Committed && effects == 0, env.CommitState == toolexec.NotCommitted && effects > 0:
					wrong = errors.Join(wrong, fmt.Errorf("told %s with %d effect(s)", env.CommitState, effects))
				}
				if !assert.NoError(t, wrong, "seed %d: %v\ntool: %v\nlook-up: %v\nSave: %v", seed, told, tools, looks, saves) {
					break
				}
				time.Sleep(time.Minute)
			}
			require.NoError(t, x.Close(t.Context()))
			tools.Wait()
			looks.Wait()
			saves.Wait()
		})
	}
}
