package toolexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// failing is a tool that ends as the errors say, one after the other, and then succeeds.
func (w *recoverWorld) failing(effect toolexec.Effect, list ...error) caseTool {
	tool := w.tool(effect)
	inner := tool.Run
	var mu sync.Mutex
	tool.Run = func(ctx context.Context, in caseOrder) (caseReceipt, error) {
		mu.Lock()
		var err error
		if len(list) > 0 {
			err, list = list[0], list[1:]
		}
		mu.Unlock()
		if err != nil {
			w.starts.note()
			return caseReceipt{}, err
		}
		return inner(ctx, in)
	}
	tool.Policy.MaxRetries = -1
	return tool
}

// reruns says yes, and notes what it was asked about.
func (w *recoverWorld) reruns(asked *[]string) func(toolexec.Record) bool {
	return func(r toolexec.Record) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		*asked = append(*asked, r.Ref+" "+r.State.String())
		return true
	}
}

var errRecoverUnsent = toolexec.NotSent(errors.New("refused"))

// TestRecoverRunsAgainWhatTheHostAllows: released for a reason that may pass, or approved.
func TestRecoverRunsAgainWhatTheHostAllows(t *testing.T) {
	recoverRun(t, "released, once its time has come", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, errRecoverUnsent)), "r1")
		var asked []string
		assert.Equal(w.t, "nothing → released", w.pass(key), "nobody said so")
		w.s.Rerun = w.reruns(&asked)
		require.Equal(w.t, time.Now().Add(500*time.Millisecond), w.get(key).NotBefore.Time().Local())
		time.Sleep(500 * time.Millisecond)
		assert.Equal(w.t, "nothing → released", w.pass(key), "too early")
		time.Sleep(1)
		assert.Equal(w.t, "1 due: 1 settled → committed", w.pass(key))
		assert.Equal(w.t, []string{"r1 released"}, asked)
		assert.Equal(w.t, []time.Duration{0, 500*time.Millisecond + 1}, w.starts.at())
		assert.Equal(w.t, []string{"r1 committed"}, w.settled())
		assert.True(w.t, w.get(key).Unheard)
	})
	recoverRun(t, "not for a reason that will not pass", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, toolexec.Rejected(toolexec.CodeConflict, nil))), "r1")
		var asked []string
		w.s.Rerun = w.reruns(&asked)
		time.Sleep(time.Hour)
		assert.Equal(w.t, "nothing → released", w.pass(key))
		assert.Empty(w.t, asked)
	})
	recoverRun(t, "not what was rejected", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, toolexec.Invalid("order_id", ""))), "r1")
		w.s.Rerun = func(toolexec.Record) bool { return true }
		time.Sleep(time.Hour)
		assert.Equal(w.t, "nothing → rejected", w.pass(key))
	})
	recoverRun(t, "what a person gave back", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, toolexec.Invalid("order_id", ""))), "r1")
		w.s.Rerun = func(toolexec.Record) bool { return true }
		_, err := w.s.Reopen(w.t.Context(), key, supervisorAnn)
		require.NoError(w.t, err)
		time.Sleep(1)
		assert.Equal(w.t, "1 due: 1 settled → committed", w.pass(key))
	})
	recoverRun(t, "what a look-up gave back", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write)
		tool.Verify = w.verifier(recoverAbsent)
		toolexec.Bind(w.x, tool)
		w.s.Rerun = func(toolexec.Record) bool { return true }
		key := w.crash(tool, "r1", observeOK)
		time.Sleep(recoverClosed + 1)
		assert.Equal(w.t, "1 due: 1 settled → released", w.pass(key), "one step at a time")
		time.Sleep(1)
		assert.Equal(w.t, "1 due: 1 settled → committed", w.pass(key))
		assert.Equal(w.t, 1, w.ledger.count("r1"))
	})
	recoverRun(t, "approved, and only then", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write)
		tool.Approval = new(toolexec.Approval[caseOrder])
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		var asked []string
		w.s.Rerun = w.reruns(&asked)
		time.Sleep(1)
		assert.Equal(w.t, "nothing → awaiting_approval", w.pass(key))
		_, err := approveHeld(w.s, w.t.Context(), key, supervisorAnn, 0)
		require.NoError(w.t, err)
		time.Sleep(1)
		assert.Equal(w.t, "1 due: 1 settled → committed", w.pass(key))
		assert.Equal(w.t, []string{"r1 awaiting_approval"}, asked)
		assert.True(w.t, w.get(key).Approval.Spent)
	})
	recoverRun(t, "approved, and the host says no", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write)
		tool.Approval = new(toolexec.Approval[caseOrder])
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		_, err := approveHeld(w.s, w.t.Context(), key, supervisorAnn, 0)
		require.NoError(w.t, err)
		time.Sleep(1)
		assert.Equal(w.t, "nothing → awaiting_approval", w.pass(key), "there is no host")
		w.s.Rerun = func(toolexec.Record) bool { return false }
		assert.Equal(w.t, "nothing → awaiting_approval", w.pass(key))
		assert.Empty(w.t, w.starts.at())
	})
	recoverRun(t, "approved too long ago: held anew", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write)
		tool.Approval = new(toolexec.Approval[caseOrder])
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		_, err := approveHeld(w.s, w.t.Context(), key, supervisorAnn, time.Minute)
		require.NoError(w.t, err)
		w.s.Rerun = func(toolexec.Record) bool { return true }
		time.Sleep(time.Minute)
		assert.Equal(w.t, "1 due: 1 settled → awaiting_approval", w.pass(key))
		assert.Empty(w.t, w.get(key).Approval.Decision)
		assert.Equal(w.t, "nothing → awaiting_approval", w.pass(key))
		assert.Empty(w.t, w.starts.at())
	})
	recoverRun(t, "no more than its lifetime budget", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write, errRecoverUnsent, errRecoverUnsent, errRecoverUnsent, errRecoverUnsent)
		tool.Policy.MaxAttempts = 3
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		w.s.Rerun = func(toolexec.Record) bool { return true }
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		require.NoError(w.t, w.s.Run(ctx))
		r := w.get(key)
		assert.Equal(w.t, toolexec.StateEscalated, r.State)
		assert.Equal(w.t, toolexec.NotCommitted, r.CommitState())
		assert.Len(w.t, w.starts.at(), 3)
		assert.Equal(w.t, "released: escalated (, lifetime budget spent)", strings.Replace(supervisorSaid(r), "escalated:", "released:", 1))
	})
	recoverRun(t, "a Check that refuses now", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, errRecoverUnsent)), "r1")
		w.restart()
		tool := w.failing(toolexec.Write)
		tool.Check = func(caseOrder) error { return toolexec.Invalid("order_id", "no longer") }
		toolexec.Bind(w.x, tool)
		w.s.Rerun = func(toolexec.Record) bool { return true }
		time.Sleep(time.Second)
		assert.Equal(w.t, "1 due: 1 settled → released", w.pass(key))
		assert.Len(w.t, w.starts.at(), 1, "it did not run")
		assert.Empty(w.t, w.settled(), "nothing happened")
	})
}

// TestRecoverTellsOfAnOperationOnce: what it will run again itself has not come to its end.
func TestRecoverTellsOfAnOperationOnce(t *testing.T) {
	recoverRun(t, "three failures, and a success", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, errRecoverUnsent, errRecoverUnsent, errRecoverUnsent)), "r1")
		w.s.Rerun = func(toolexec.Record) bool { return true }
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		require.NoError(w.t, w.s.Run(ctx))
		assert.Equal(w.t, toolexec.StateCommitted, w.get(key).State)
		assert.Len(w.t, w.starts.at(), 4)
		assert.Equal(w.t, []string{"r1 committed"}, w.settled())
	})
	recoverRun(t, "released, and nobody runs it again: its caller must go on", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write)
		tool.Verify = w.verifier(recoverAbsent)
		toolexec.Bind(w.x, tool)
		w.crash(tool, "r1", observeOK)
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
		defer cancel()
		require.NoError(w.t, w.s.Run(ctx))
		assert.Equal(w.t, []string{"r1 released"}, w.settled())
	})
	recoverRun(t, "asked about what it would run", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, errRecoverUnsent)), "r1")
		var seen toolexec.Record
		w.s.Rerun = func(r toolexec.Record) bool { seen = r; return false }
		time.Sleep(time.Second)
		assert.Equal(w.t, "nothing → released", w.pass(key))
		assert.Equal(w.t, "refund", seen.Tool)
		assert.Equal(w.t, 1, seen.Attempts)
		assert.Equal(w.t, toolexec.CodeDependencyUnavailable, seen.LastFailure.Code)
	})
}

// TestRecoverSendsNothingAgainAfterTheDedupeWindow: also in the middle of its attempts.
func TestRecoverSendsNothingAgainAfterTheDedupeWindow(t *testing.T) {
	recoverRun(t, "it closes between two attempts", func(w *recoverWorld) {
		doubt := toolexec.InDoubt(nil)
		tool := w.failing(toolexec.Idempotent, doubt, doubt, doubt, doubt)
		tool.Policy, tool.DedupeWindow = toolexec.Policy{}, recoverLost+time.Second
		tool.Verify = w.verifier(func(ref string) (toolexec.Finding[caseReceipt], error) {
			if len(w.starts.at()) == 0 {
				return recoverDown(ref)
			}
			return recoverFound(ref)
		})
		toolexec.Bind(w.x, tool)
		key := w.crash(tool, "r1", observeOK)
		time.Sleep(recoverLost)
		assert.Equal(w.t, "1 due: 1 open → unknown", w.pass(key), "looked up first")
		assert.Empty(w.t, w.starts.at())
		time.Sleep(500*time.Millisecond + 1)
		assert.Equal(w.t, "1 due: 1 settled → committed", w.pass(key))
		assert.Equal(w.t, []time.Duration{recoverLost + 500*time.Millisecond + 1}, w.starts.at(), "the second would come half a second later")
		assert.Equal(w.t, []time.Duration{recoverLost, recoverLost + 500*time.Millisecond + 1}, w.looks.at(), "verification takes over")
		assert.True(w.t, w.get(key).Unheard)
	})
}

// recoverKept is an operation whose record keeps too little, or nothing that this tool can use, to run it again.
type recoverKept struct {
	name        string
	before, now func(t *caseTool)
	seen        caseOrder // what the verifier is called with
	either      bool      // or with nothing
	runs        bool
}

func recoverSeal(b []byte) ([]byte, error) { return append([]byte("sealed "), b...), nil }

func recoverOpen(b []byte) ([]byte, error) { return b[len("sealed "):], nil }

var recoverKeeps = []recoverKept{
	{name: "all", before: func(*caseTool) {}, seen: execOrder, runs: true},
	{name: "dropped", before: func(t *caseTool) { t.DropArguments = true }},
	{name: "dropped, kept by now", before: func(t *caseTool) { t.DropArguments = true }, now: func(*caseTool) {}},
	{name: "kept, dropped by now", before: func(*caseTool) {}, now: func(t *caseTool) { t.DropArguments = true }, seen: execOrder, runs: true},
	{name: "sealed", before: func(t *caseTool) { t.Seal, t.Open = recoverSeal, recoverOpen }, seen: execOrder, runs: true},
	{name: "sealed for ever", before: func(t *caseTool) { t.Seal = recoverSeal }},
	{name: "Open fails", before: func(t *caseTool) {
		t.Seal, t.Open = recoverSeal, func([]byte) ([]byte, error) { return nil, errors.New("no key") }
	}},
	{name: "Open fails, and answers all the same", before: func(t *caseTool) {
		t.Seal, t.Open = recoverSeal, func(b []byte) ([]byte, error) { return b[len("sealed "):], errors.New("tampered with") }
	}},
	{name: "Open panics", before: func(t *caseTool) { t.Seal, t.Open = recoverSeal, func([]byte) ([]byte, error) { panic("no key") } }},
	{name: "Open answers nonsense", before: func(t *caseTool) {
		t.Seal, t.Open = recoverSeal, func([]byte) ([]byte, error) { return []byte("{"), nil }
	}},
	{name: "Open answers nothing", before: func(t *caseTool) { t.Seal, t.Open = recoverSeal, func([]byte) ([]byte, error) { return nil, nil } }},
	{name: "Open answers the arguments of another operation", before: func(t *caseTool) {
		t.Seal, t.Open = recoverSeal, func([]byte) ([]byte, error) { return []byte(`{"order_id":"ORD-1"}`), nil }
	}},
	{name: "sealed by now", before: func(*caseTool) {}, now: func(t *caseTool) { t.Seal, t.Open = recoverSeal, recoverOpen }},
	{name: "sealed once", before: func(t *caseTool) { t.Seal = recoverSeal }, now: func(*caseTool) {}},
	{name: "Seal fails by now", before: func(*caseTool) {}, now: func(t *caseTool) {
		t.Seal = func([]byte) ([]byte, error) { return nil, errors.New("no key") }
	}},
	{name: "the tool excludes a field by now", before: func(*caseTool) {}, now: func(t *caseTool) { t.IgnoreFields = []string{"/cents"} }, seen: execOrder, either: true},
}

// TestRecoverWithoutArguments: it looks up by ref only, and hands a released operation back.
func TestRecoverWithoutArguments(t *testing.T) {
	for _, row := range recoverKeeps {
		bind := func(w *recoverWorld, tool caseTool) {
			change := row.now
			if change == nil {
				change = row.before
			}
			change(&tool)
			toolexec.Bind(w.x, tool)
		}
		recoverRun(t, row.name+": looked up", func(w *recoverWorld) {
			tool := w.tool(toolexec.Write)
			row.before(&tool)
			key := w.crash(tool, "r1", observeOK)
			var seen []caseOrder
			tool = w.tool(toolexec.Write)
			tool.Verify = w.verifier(recoverFound)
			tool.Verify.Lookup = func(_ context.Context, ref string, in caseOrder) (toolexec.Finding[caseReceipt], error) {
				assert.Equal(w.t, "r1", ref)
				seen = append(seen, in)
				return recoverFound(ref)
			}
			bind(w, tool)
			time.Sleep(recoverLost)
			assert.Equal(w.t, "1 due: 1 settled → committed", w.pass(key))
			if !row.either || seen[0] != (caseOrder{}) {
				assert.Equal(w.t, []caseOrder{row.seen}, seen)
			}
		})
		recoverRun(t, row.name+": released", func(w *recoverWorld) {
			tool := w.failing(toolexec.Write, errRecoverUnsent)
			row.before(&tool)
			key := w.put(toolexec.Bind(w.x, tool), "r1")
			w.restart()
			bind(w, w.tool(toolexec.Write))
			w.s.Rerun = func(toolexec.Record) bool { return true }
			time.Sleep(time.Second)
			want, starts := "1 due: 1 settled → released", 1
			if row.runs {
				want, starts = "1 due: 1 settled → committed", 2
			}
			before := w.get(key).Version
			assert.Equal(w.t, want, w.pass(key))
			assert.Len(w.t, w.starts.at(), starts)
			if !row.runs {
				assert.Equal(w.t, before, w.get(key).Version, "as it is")
				assert.Empty(w.t, w.settled())
			}
		})
		recoverRun(t, row.name+": idempotent, in doubt", func(w *recoverWorld) {
			tool := w.tool(toolexec.Idempotent)
			row.before(&tool)
			key := w.crash(tool, "r1", observeOK)
			bind(w, w.tool(toolexec.Idempotent))
			time.Sleep(recoverLost)
			want, starts := "1 due: 1 open → unknown", 0
			if row.runs {
				want, starts = "1 due: 1 settled → committed", 1
			}
			assert.Equal(w.t, want, w.pass(key))
			assert.Len(w.t, w.starts.at(), starts, "never with other arguments, or none")
		})
	}
}

// TestRecoverArgumentsOfEveryKind: what a record keeps of a call that was made can be read again.
func TestRecoverArgumentsOfEveryKind(t *testing.T) {
	type all struct {
		Map  map[string]int  `json:"map"`
		List []string        `json:"list"`
		Ptr  *int            `json:"ptr"`
		Any  any             `json:"any"`
		Raw  json.RawMessage `json:"raw"`
		At   time.Time       `json:"at"`
		Blob []byte          `json:"blob"`
	}
	n := 5
	recoverKind(t, "full", "", all{Map: map[string]int{"a": 1}, List: []string{"a"}, Ptr: &n, Any: 1.5, Raw: []byte(`{"a":1}`), At: time.Unix(1, 5), Blob: []byte("x")})
	recoverKind(t, "empty", "", all{})
	recoverKind(t, "large", "", caseOrder{OrderID: strings.Repeat("x", 2<<20)})
	recoverKind(t, "own schema, nil list", `{"type":"object","properties":{"list":{"type":"array"}}}`, struct {
		List []string `json:"list"`
	}{})
}

func recoverKind[In any](t *testing.T, name, schema string, in In) {
	recoverRun(t, name, func(w *recoverWorld) {
		fail := true
		var got []In
		b := toolexec.Bind(w.x, toolexec.Tool[In, string]{
			Name: "kind", Policy: toolexec.Policy{MaxRetries: -1}, InputSchema: json.RawMessage(orNil(schema)),
			Run: func(_ context.Context, in In) (string, error) {
				got = append(got, in)
				if fail {
					return "", errRecoverUnsent
				}
				return "ok", nil
			},
		})
		caseChecked(w.t, b.Call(toolexec.WithOperationRef(w.t.Context(), "r1"), in))
		fail = false
		w.s.Rerun = func(toolexec.Record) bool { return true }
		time.Sleep(time.Second)
		assert.Equal(w.t, "1 due: 1 settled → committed", w.pass(toolexec.Key{Ref: "r1"}))
		if assert.Len(w.t, got, 2) {
			assert.JSONEq(w.t, recoverJSON(w.t, got[0]), recoverJSON(w.t, got[1]))
		}
	})
}

func orNil(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// TestRecoverWithAnotherEffect: where the record and the tool differ the stricter applies.
func TestRecoverWithAnotherEffect(t *testing.T) {
	for _, row := range []struct {
		name         string
		was, is      toolexec.Effect
		verify       bool
		want         []string
		starts, look int
	}{
		{"write, idempotent by now", toolexec.Write, toolexec.Idempotent, false, []string{"1 due: 1 open → unknown", "1 due: 1 settled → escalated"}, 0, 0},
		{"write, idempotent by now, with a verifier", toolexec.Write, toolexec.Idempotent, true, []string{"1 due: 1 open → unknown", "1 due: 1 settled → released"}, 0, 2},
		{"idempotent, write by now", toolexec.Idempotent, toolexec.Write, false, []string{"1 due: 1 open → unknown", "1 due: 1 settled → escalated"}, 0, 0},
		{"write, a read by now", toolexec.Write, toolexec.ReadOnly, false, []string{"1 due: 1 open → unknown", "1 due: 1 settled → escalated"}, 0, 0},
		{"idempotent, a read by now", toolexec.Idempotent, toolexec.ReadOnly, false, []string{"1 due: 1 open → unknown", "1 due: 1 settled → escalated"}, 0, 0},
		{"idempotent still", toolexec.Idempotent, toolexec.Idempotent, false, []string{"1 due: 1 settled → committed", "nothing → committed"}, 1, 0},
	} {
		recoverRun(t, row.name, func(w *recoverWorld) {
			key := w.crash(w.tool(row.was), "r1", observeOK)
			tool := w.tool(row.is)
			if row.verify {
				tool.Verify = w.verifier(recoverAbsent)
			}
			toolexec.Bind(w.x, tool)
			time.Sleep(recoverLost)
			got := []string{w.pass(key)}
			time.Sleep(toolexec.DefaultSettle)
			got = append(got, w.pass(key))
			assert.Equal(w.t, row.want, got)
			assert.Len(w.t, w.starts.at(), row.starts)
			assert.Len(w.t, w.looks.at(), row.look)
			require.Len(w.t, w.settled(), 1)
		})
	}
	recoverRun(t, "released, a read by now", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, errRecoverUnsent)), "r1")
		w.restart()
		toolexec.Bind(w.x, w.tool(toolexec.ReadOnly))
		w.s.Rerun = func(toolexec.Record) bool { return true }
		time.Sleep(time.Second)
		assert.Equal(w.t, "1 due: 1 settled → released", w.pass(key))
		assert.Len(w.t, w.starts.at(), 1)
	})
}
