package toolexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// confirmed is a tool whose success counts once a look-up has found its effect.
func (w *recoverWorld) confirmed(effect toolexec.Effect, look func(ref string) (toolexec.Finding[caseReceipt], error)) caseTool {
	tool := w.tool(effect)
	tool.Verify = w.verifier(look)
	tool.Verify.Confirm = true
	return tool
}

func confirmEffectOnly(string) (toolexec.Finding[caseReceipt], error) {
	return toolexec.FoundEffectOnly[caseReceipt](), nil
}

// confirmSays is an answer in words.
func confirmSays(env toolexec.Envelope[caseReceipt]) string {
	s := fmt.Sprint(env.Code, " ", env.CommitState, " ", env.NextAction)
	if env.HasResult {
		s += " " + env.Result.Receipt
	}
	if env.Replayed {
		s += " replayed"
	}
	if env.Verification != nil {
		s += " by " + env.Verification.Source.String()
	}
	return s
}

type confirmRow struct {
	name   string
	look   func(string) (toolexec.Finding[caseReceipt], error)
	tool   func(w *recoverWorld, t *caseTool)
	want   string
	again  string // of a second call at once, with the ref
	state  toolexec.State
	starts int
	looks  int
}

const confirmPending = "OPERATION_PENDING unknown verify_operation by lookup"

// TestSuccessHasToBeConfirmed: until a look-up has found the effect the operation is unknown, not ok.
func TestSuccessHasToBeConfirmed(t *testing.T) {
	for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent} {
		for _, row := range []confirmRow{
			{
				name: "it verifies", look: recoverFound,
				want: "OK committed continue rcpt_r1 by lookup", again: "OK committed continue rcpt_r1 replayed by lookup",
				state: toolexec.StateCommitted, starts: 1, looks: 1,
			},
			{
				name: "it verifies, and the look-up does not have the result", look: confirmEffectOnly,
				want: "OK committed continue rcpt_r1 by lookup", again: "OK committed continue rcpt_r1 replayed by lookup",
				state: toolexec.StateCommitted, starts: 1, looks: 1,
			},
			{
				name: "it does not, so far", look: recoverAbsent,
				want: confirmPending, state: toolexec.StateUnknown, starts: 1, looks: 1,
			},
			{
				name: "something else goes by its ref", look: recoverConflict,
				want: "VERIFICATION_CONFLICT unknown escalate by lookup", again: "VERIFICATION_CONFLICT unknown escalate by lookup",
				state: toolexec.StateEscalated, starts: 1, looks: 1,
			},
			{
				name: "the verifier is down", look: recoverDown,
				want: confirmPending, state: toolexec.StateUnknown, starts: 1, looks: 1,
			},
			{
				name: "the verifier panics", look: func(string) (toolexec.Finding[caseReceipt], error) { panic("boom") },
				want: confirmPending, state: toolexec.StateUnknown, starts: 1, looks: 1,
			},
			{
				name: "the verifier cannot tell", look: func(string) (toolexec.Finding[caseReceipt], error) { return toolexec.Finding[caseReceipt]{}, nil },
				want: confirmPending, state: toolexec.StateUnknown, starts: 1, looks: 1,
			},
			{
				name: "the verifier's error is permanent", look: func(string) (toolexec.Finding[caseReceipt], error) {
					return toolexec.Finding[caseReceipt]{}, toolexec.Rejected(toolexec.CodePermissionDenied, nil)
				},
				want: "VERIFICATION_UNAVAILABLE unknown escalate by lookup", again: "VERIFICATION_UNAVAILABLE unknown escalate by lookup",
				state: toolexec.StateEscalated, starts: 1, looks: 1,
			},
			{
				name: "it was marked: that stands, and nobody looks", look: recoverAbsent,
				tool: func(w *recoverWorld, t *caseTool) {
					inner := t.Run
					t.Run = func(ctx context.Context, in caseOrder) (caseReceipt, error) {
						assert.NoError(w.t, toolexec.MarkCommitted(ctx, caseReceipt{"marked"}))
						return inner(ctx, in)
					}
				},
				want: "OK committed continue rcpt_r1 by execution", again: "OK committed continue rcpt_r1 replayed by execution",
				state: toolexec.StateCommitted, starts: 1, looks: 0,
			},
			{
				name: "it was marked, and then failed", look: recoverAbsent,
				tool: func(w *recoverWorld, t *caseTool) {
					t.Run = func(ctx context.Context, in caseOrder) (caseReceipt, error) {
						w.starts.note()
						assert.NoError(w.t, toolexec.MarkCommitted(ctx, caseReceipt{"marked"}))
						return caseReceipt{}, errors.New("boom")
					}
				},
				want: "OK committed continue marked by execution", again: "OK committed continue marked replayed by execution",
				state: toolexec.StateCommitted, starts: 1, looks: 0,
			},
		} {
			recoverRun(t, effect.String()+": "+row.name, func(w *recoverWorld) {
				tool := w.confirmed(effect, row.look)
				if row.tool != nil {
					row.tool(w, &tool)
				}
				b := toolexec.Bind(w.x, tool)
				ctx := toolexec.WithOperationRef(w.t.Context(), "r1")
				assert.Equal(w.t, row.want, confirmSays(caseChecked(w.t, b.Call(ctx, execOrder))))
				assert.Equal(w.t, row.state, w.get(toolexec.Key{Ref: "r1"}).State)
				assert.Len(w.t, w.starts.at(), row.starts)
				assert.Len(w.t, w.looks.at(), row.looks)
				if row.again != "" {
					assert.Equal(w.t, row.again, confirmSays(caseChecked(w.t, b.Call(ctx, execOrder))))
					assert.Len(w.t, w.starts.at(), row.starts, "it does not run again")
				}
			})
		}
	}
}

// TestFailureIsNoSuccessToConfirm: Confirm changes nothing about failures.
func TestFailureIsNoSuccessToConfirm(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		look func(string) (toolexec.Finding[caseReceipt], error)
		want string
	}{
		"not sent":            {errRecoverUnsent, recoverFound, "DEPENDENCY_UNAVAILABLE not_committed wait_and_retry"},
		"refused":             {toolexec.Rejected(toolexec.CodeConflict, nil), recoverFound, "CONFLICT not_committed escalate"},
		"in doubt":            {toolexec.InDoubt(nil), recoverAbsent, "OUTCOME_UNKNOWN unknown verify_operation by lookup"},
		"in doubt, and found": {toolexec.InDoubt(nil), confirmEffectOnly, "OK committed continue by lookup"},
	} {
		recoverRun(t, name, func(w *recoverWorld) {
			tool := w.confirmed(toolexec.Write, row.look)
			tool.Policy.MaxRetries = -1
			tool.Run = func(context.Context, caseOrder) (caseReceipt, error) { return caseReceipt{}, row.err }
			b := toolexec.Bind(w.x, tool)
			assert.Equal(w.t, row.want, confirmSays(caseChecked(w.t, b.Call(toolexec.WithOperationRef(w.t.Context(), "r1"), execOrder))))
		})
	}
}

// TestUnconfirmedSuccessIsFollowedUp: by calls with its ref, by Wait and by Recover; it is not sent again meanwhile.
func TestUnconfirmedSuccessIsFollowedUp(t *testing.T) {
	for name, then := range map[string]func(w *recoverWorld, key toolexec.Key){
		"a call": func(w *recoverWorld, key toolexec.Key) {
			time.Sleep(toolexec.DefaultSettle)
			assert.True(w.t, caseExecute(w.t, w.x, "refund", key.Ref, caseArgs).OK)
		},
		"Wait": func(w *recoverWorld, key toolexec.Key) { assert.Contains(w.t, w.waits(key), waitDone) },
		"Run": func(w *recoverWorld, key toolexec.Key) {
			ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
			defer cancel()
			assert.NoError(w.t, w.s.Run(ctx))
		},
	} {
		recoverRun(t, name, func(w *recoverWorld) {
			tool := w.confirmed(toolexec.Write, waitAppears(20*time.Second)(w))
			key := w.put(toolexec.Bind(w.x, tool), "r1")
			require.Equal(w.t, toolexec.StateUnknown, w.get(key).State)
			then(w, key)
			r := w.get(key)
			assert.Equal(w.t, toolexec.StateCommitted, r.State)
			assert.Equal(w.t, toolexec.SourceLookup, r.Verification.Source)
			assert.JSONEq(w.t, `{"receipt":"rcpt_r1"}`, string(r.Result))
			assert.Len(w.t, w.starts.at(), 1)
		})
	}
	recoverRun(t, "it never appears: released, and run again by those who may", func(w *recoverWorld) {
		tool := w.confirmed(toolexec.Write, nil)
		tool.Verify = w.verifier(func(ref string) (toolexec.Finding[caseReceipt], error) {
			if len(w.starts.at()) < 2 {
				return recoverAbsent(ref)
			}
			return recoverFound(ref)
		})
		tool.Verify.Confirm = true
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		assert.Equal(w.t, waitDone+"30.001s", w.waits(key))
		assert.Len(w.t, w.starts.at(), 2)
	})
	recoverRun(t, "it never appears, and there is no window: run again within the call", func(w *recoverWorld) {
		tool := w.confirmed(toolexec.Write, func(ref string) (toolexec.Finding[caseReceipt], error) {
			if len(w.starts.at()) < 2 {
				return recoverAbsent(ref)
			}
			return recoverFound(ref)
		})
		tool.Verify.Settle = -1
		b := toolexec.Bind(w.x, tool)
		env := caseChecked(w.t, b.Call(toolexec.WithOperationRef(w.t.Context(), "r1"), execOrder))
		assert.Len(w.t, w.starts.at(), 2)
		assert.Equal(w.t, "OPERATION_PENDING unknown verify_operation", confirmSays(env)) // one look-up a call, and it was of the first
		assert.Equal(w.t, time.Now(), env.Retry.NotBefore)
	})
	recoverRun(t, "an Idempotent one is pending, not failed: it is looked up, not sent again", func(w *recoverWorld) {
		tool := w.confirmed(toolexec.Idempotent, waitAppears(20*time.Second)(w))
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		w.waits(key)
		assert.Equal(w.t, toolexec.StateCommitted, w.get(key).State)
		assert.Len(w.t, w.starts.at(), 1)
	})
}

// TestLateSuccessHasToBeConfirmed: one that came after its caller had been answered is no commit either.
func TestLateSuccessHasToBeConfirmed(t *testing.T) {
	recoverRun(t, "late", func(w *recoverWorld) {
		tool := w.confirmed(toolexec.Write, recoverAbsent)
		inner := tool.Run
		tool.Run = func(ctx context.Context, in caseOrder) (caseReceipt, error) {
			time.Sleep(5 * time.Second)
			return inner(context.WithoutCancel(ctx), in)
		}
		found := false
		tool.Verify = w.verifier(func(ref string) (toolexec.Finding[caseReceipt], error) {
			if found {
				return recoverFound(ref)
			}
			return recoverAbsent(ref)
		})
		tool.Verify.Confirm = true
		b := toolexec.Bind(w.x, tool)
		env := caseChecked(w.t, b.Call(toolexec.WithOperationRef(w.t.Context(), "r1"), execOrder))
		assert.Equal(w.t, "OUTCOME_UNKNOWN unknown verify_operation by lookup", confirmSays(env))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		r := w.get(toolexec.Key{Ref: "r1"})
		assert.Equal(w.t, toolexec.StateUnknown, r.State, "the late success alone proves nothing")
		require.Len(w.t, r.Unresolved, 1)
		assert.False(w.t, r.Unresolved[0].Alive)
		assert.Equal(w.t, 5*time.Second+toolexec.DefaultSettle, r.Unresolved[0].Settles.Time().Local().Sub(w.starts.since))
		found = true
		env = caseChecked(w.t, b.Call(toolexec.WithOperationRef(w.t.Context(), "r1"), execOrder))
		if !env.OK {
			time.Sleep(time.Until(env.Retry.NotBefore))
			env = caseChecked(w.t, b.Call(toolexec.WithOperationRef(w.t.Context(), "r1"), execOrder))
		}
		assert.Equal(w.t, "OK committed continue rcpt_r1 replayed by lookup", confirmSays(env))
	})
}

// TestUnconfirmedSuccessOfACallerWhoLeft: nobody waits for the look-up, so it is not made.
func TestUnconfirmedSuccessOfACallerWhoLeft(t *testing.T) {
	recoverRun(t, "cancelled", func(w *recoverWorld) {
		ctx, cancel := context.WithCancel(toolexec.WithOperationRef(w.t.Context(), "r1"))
		tool := w.confirmed(toolexec.Write, recoverFound)
		inner := tool.Run
		tool.Run = func(ctx context.Context, in caseOrder) (caseReceipt, error) {
			defer cancel()
			return inner(ctx, in)
		}
		b := toolexec.Bind(w.x, tool)
		assert.Contains(w.t, confirmSays(caseChecked(w.t, b.Call(ctx, execOrder))), "unknown verify_operation")
		assert.Empty(w.t, w.looks.at())
		assert.Equal(w.t, toolexec.StateUnknown, w.get(toolexec.Key{Ref: "r1"}).State)
	})
}

// confirmResult checks what a record keeps, and what its caller gets, of a result whose look-up says only that it is there.
func confirmResult[Out any](t *testing.T, name string, out Out, change func(*toolexec.Tool[caseOrder, Out]), check func(t *testing.T, env, again toolexec.Envelope[Out], byName toolexec.Envelope[json.RawMessage], r toolexec.Record)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := new(toolexec.Executor)
			tool := toolexec.Tool[caseOrder, Out]{
				Name: "refund", Run: func(context.Context, caseOrder) (Out, error) { return out, nil },
				Verify: &toolexec.Verifier[caseOrder, Out]{
					Confirm: true, Lookup: func(context.Context, string, caseOrder) (toolexec.Finding[Out], error) {
						return toolexec.FoundEffectOnly[Out](), nil
					},
				},
			}
			change(&tool)
			b := toolexec.Bind(x, tool)
			ctx := toolexec.WithOperationRef(t.Context(), "r1")
			env := caseChecked(t, b.Call(ctx, execOrder))
			require.True(t, env.OK)
			again := caseChecked(t, b.Call(ctx, execOrder))
			require.True(t, again.Replayed)
			byName := caseExecute(t, x, "refund", "r2", caseArgs)
			require.True(t, byName.OK)
			r, err := (&toolexec.Supervisor{Executor: x}).Get(t.Context(), toolexec.Key{Ref: "r1"})
			require.NoError(t, err)
			assert.Equal(t, toolexec.StateCommitted, r.State)
			check(t, env, again, byName, r)
			caseClose(t, x)
		})
	})
}

// TestConfirmedResult: its caller gets it whole, and a replay gets what a record keeps, as after any other success.
func TestConfirmedResult(t *testing.T) {
	large := strings.Repeat("x", 100)
	confirmResult(t, "kept", "rcpt_1", func(*toolexec.Tool[caseOrder, string]) {}, func(t *testing.T, env, again toolexec.Envelope[string], byName toolexec.Envelope[json.RawMessage], r toolexec.Record) {
		assert.Equal(t, "rcpt_1", env.Result)
		assert.Equal(t, "rcpt_1", again.Result)
		assert.JSONEq(t, `"rcpt_1"`, string(byName.Result))
		assert.Empty(t, env.SafeDetails)
	})
	confirmResult(t, "too large to keep", large, func(tool *toolexec.Tool[caseOrder, string]) { tool.MaxResult = 10 }, func(t *testing.T, env, again toolexec.Envelope[string], byName toolexec.Envelope[json.RawMessage], r toolexec.Record) {
		assert.Equal(t, large, env.Result)
		assert.False(t, again.HasResult)
		assert.JSONEq(t, `"`+large+`"`, string(byName.Result))
		assert.True(t, strings.HasPrefix(r.ResultDigest, "sha256:"))
		assert.Equal(t, "the result is not kept for a replay: it is too large or could not be encoded", env.SafeDetails[toolexec.DetailNote])
	})
	confirmResult(t, "nothing is kept", "rcpt_1", func(tool *toolexec.Tool[caseOrder, string]) { tool.MaxResult = -1 }, func(t *testing.T, env, again toolexec.Envelope[string], byName toolexec.Envelope[json.RawMessage], r toolexec.Record) {
		assert.Equal(t, "rcpt_1", env.Result)
		assert.False(t, again.HasResult)
		assert.JSONEq(t, `"rcpt_1"`, string(byName.Result))
		assert.False(t, r.ResultPresent)
	})
	for _, how := range []string{"error", "panic", "Goexit"} {
		confirmResult(t, "not encodable: "+how, execUnmarshalable{how}, func(*toolexec.Tool[caseOrder, execUnmarshalable]) {}, func(t *testing.T, env, again toolexec.Envelope[execUnmarshalable], byName toolexec.Envelope[json.RawMessage], r toolexec.Record) {
			assert.True(t, env.HasResult, "a typed caller gets the value")
			assert.Equal(t, how, env.Result.how)
			assert.False(t, again.HasResult)
			assert.False(t, byName.HasResult)
			assert.False(t, r.ResultPresent)
			assert.Equal(t, "the result could not be encoded", byName.SafeDetails[toolexec.DetailNote])
		})
	}
	confirmResult(t, "breaks its contract", "rcpt_1", func(tool *toolexec.Tool[caseOrder, string]) {
		tool.OutputSchema = json.RawMessage(`{"type":"integer"}`)
	}, func(t *testing.T, env, again toolexec.Envelope[string], byName toolexec.Envelope[json.RawMessage], r toolexec.Record) {
		assert.False(t, env.HasResult, "it is withheld")
		assert.False(t, again.HasResult)
		assert.False(t, byName.HasResult)
		assert.False(t, r.ResultPresent)
		assert.Equal(t, "the result breaks the tool's output contract and is withheld; do not repeat the call", env.SafeDetails[toolexec.DetailNote])
	})
}

// TestConfirmedResultOfTheLookUpGoesBefore: it says what is there.
func TestConfirmedResultOfTheLookUpGoesBefore(t *testing.T) {
	recoverRun(t, "another one", func(w *recoverWorld) {
		b := toolexec.Bind(w.x, w.confirmed(toolexec.Write, func(string) (toolexec.Finding[caseReceipt], error) {
			return toolexec.Found(caseReceipt{"as it is there"}), nil
		}))
		ctx := toolexec.WithOperationRef(w.t.Context(), "r1")
		assert.Equal(w.t, "OK committed continue as it is there by lookup", confirmSays(caseChecked(w.t, b.Call(ctx, execOrder))))
		assert.Equal(w.t, "OK committed continue as it is there replayed by lookup", confirmSays(caseChecked(w.t, b.Call(ctx, execOrder))))
	})
}
