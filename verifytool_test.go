package toolexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// asks is verify_operation as an agent calls it, in words.
func (w *recoverWorld) asks(req toolexec.Call) string {
	w.t.Helper()
	return verifyWords(w, w.ask(w.t.Context(), req))
}

func (w *recoverWorld) ask(ctx context.Context, req toolexec.Call) toolexec.Envelope[json.RawMessage] {
	w.t.Helper()
	ref := req.OperationRef
	req.Name, req.OperationRef, req.Arguments = toolexec.VerifyOperationTool, "", []byte(`{"operation_ref":"`+ref+`"}`)
	return caseChecked(w.t, w.x.Execute(ctx, req))
}

func verifyWords(w *recoverWorld, env toolexec.Envelope[json.RawMessage]) string {
	if !env.OK {
		return fmt.Sprint(env.Code, " ", env.NextAction)
	}
	var s toolexec.OperationStatus
	require.NoError(w.t, json.Unmarshal(env.Result, &s))
	words := []string{s.CommitState.String(), s.NextAction.String()}
	if !s.Known {
		words = append(words, "not known")
	}
	if s.Tool != "" {
		words = append(words, "of "+s.Tool)
	}
	if !s.NotBefore.IsZero() {
		words = append(words, "not before "+s.NotBefore.Sub(w.starts.since).String())
	}
	if s.Verification != nil {
		words = append(words, "by "+s.Verification.Source.String()+" at "+s.Verification.CheckedAt.Local().Sub(w.starts.since).String())
	}
	if s.Result != nil {
		words = append(words, string(s.Result))
	}
	return strings.Join(words, " ")
}

// doubtful is a tool whose answer is lost once.
func (w *recoverWorld) doubtful(look func(string) (toolexec.Finding[caseReceipt], error)) caseTool {
	tool := w.failing(toolexec.Write, toolexec.InDoubt(nil))
	if look != nil {
		tool.Verify = w.verifier(look)
	}
	return tool
}

// TestVerifyOperationFindsOut: what became of an operation, when it may be looked up, and never before.
func TestVerifyOperationFindsOut(t *testing.T) {
	recoverRun(t, "never before its next check is due", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		w.put(toolexec.Bind(w.x, w.doubtful(waitAppears(10*time.Second)(w))), "r1")
		waits := "unknown verify_operation of refund not before 30s by lookup at 0s"
		for _, at := range []time.Duration{0, 10 * time.Second, toolexec.DefaultSettle - 1} {
			time.Sleep(time.Until(w.starts.since.Add(at)))
			assert.Equal(w.t, waits, w.asks(toolexec.Call{OperationRef: "r1"}))
		}
		assert.Equal(w.t, execSeconds(0), w.looks.at())
		time.Sleep(1)
		found := `committed continue of refund by lookup at 30s {"receipt":"rcpt_r1"}`
		assert.Equal(w.t, found, w.asks(toolexec.Call{OperationRef: "r1"}))
		assert.Equal(w.t, found, w.asks(toolexec.Call{OperationRef: "r1"}))
		assert.Equal(w.t, execSeconds(0, 30), w.looks.at(), "a fact is not looked up")
		assert.Len(w.t, w.starts.at(), 1)
	})
	recoverRun(t, "it never runs anything again", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		w.put(toolexec.Bind(w.x, w.doubtful(recoverAbsent)), "r1")
		time.Sleep(toolexec.DefaultSettle)
		for range 2 {
			assert.Equal(w.t, "not_committed wait_and_retry of refund by lookup at 30s", w.asks(toolexec.Call{OperationRef: "r1"}))
		}
		assert.Len(w.t, w.starts.at(), 1)
		assert.Len(w.t, w.looks.at(), 2)
	})
	recoverRun(t, "an Idempotent one is not sent again either", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		tool := w.failing(toolexec.Idempotent, toolexec.InDoubt(nil))
		w.put(toolexec.Bind(w.x, tool), "r1")
		time.Sleep(time.Hour)
		assert.Equal(w.t, "unknown verify_operation of refund", w.asks(toolexec.Call{OperationRef: "r1"}))
		assert.Len(w.t, w.starts.at(), 1)
	})
	recoverRun(t, "committed, with its result", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		w.put(toolexec.Bind(w.x, w.failing(toolexec.Write)), "r1")
		time.Sleep(time.Second)
		assert.Equal(w.t, `committed continue of refund by execution at 0s {"receipt":"rcpt_r1"}`, w.asks(toolexec.Call{OperationRef: "r1"}))
	})
	recoverRun(t, "conflicting", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		w.put(toolexec.Bind(w.x, w.doubtful(waitAppearsAs(recoverConflict)(w))), "r1")
		time.Sleep(toolexec.DefaultSettle)
		assert.Equal(w.t, "unknown escalate of refund by lookup at 30s", w.asks(toolexec.Call{OperationRef: "r1"}))
	})
	recoverRun(t, "escalated", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		tool := w.doubtful(nil)
		tool.Unverifiable = true
		w.put(toolexec.Bind(w.x, tool), "r1")
		assert.Equal(w.t, "unknown escalate of refund", w.asks(toolexec.Call{OperationRef: "r1"}))
	})
	recoverRun(t, "without a verifier", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		w.put(toolexec.Bind(w.x, w.doubtful(nil)), "r1")
		time.Sleep(time.Hour)
		assert.Equal(w.t, "unknown verify_operation of refund", w.asks(toolexec.Call{OperationRef: "r1"}))
		assert.Equal(w.t, toolexec.StateUnknown, w.get(toolexec.Key{Ref: "r1"}).State, "asking changes nothing")
	})
	recoverRun(t, "rejected", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, toolexec.Invalid("order_id", ""))), "r1")
		assert.Equal(w.t, "not_committed correct_input of refund", w.asks(toolexec.Call{OperationRef: "r1"}))
	})
	recoverRun(t, "released, for later", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, errRecoverUnsent)), "r1")
		assert.Equal(w.t, "not_committed wait_and_retry of refund not before 500ms", w.asks(toolexec.Call{OperationRef: "r1"}))
	})
	recoverRun(t, "awaiting approval", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		tool := w.failing(toolexec.Write)
		waitApproval(&tool)
		w.put(toolexec.Bind(w.x, tool), "r1")
		assert.Equal(w.t, "not_committed request_approval of refund", w.asks(toolexec.Call{OperationRef: "r1"}))
	})
	recoverRun(t, "in flight, in this process", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		b := toolexec.Bind(w.x, slowly(w.tool(toolexec.Write)))
		var wg sync.WaitGroup
		wg.Go(func() { w.put(b, "r1") })
		synctest.Wait()
		assert.Equal(w.t, "unknown wait_and_retry of refund", w.asks(toolexec.Call{OperationRef: "r1"}))
		assert.Zero(w.t, time.Since(w.starts.since), "it does not wait for the owner")
		wg.Wait()
	})
	recoverRun(t, "in flight, and its owner died", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		tool := w.tool(toolexec.Write)
		tool.Verify = w.verifier(recoverFound)
		toolexec.Bind(w.x, tool)
		w.crash(tool, "r1", observeOK)
		time.Sleep(recoverLease - 1)
		assert.Equal(w.t, "unknown wait_and_retry of refund", w.asks(toolexec.Call{OperationRef: "r1"}))
		assert.Empty(w.t, w.looks.at())
		time.Sleep(1)
		assert.Equal(w.t, `committed continue of refund by lookup at 15s {"receipt":"rcpt_r1"}`, w.asks(toolexec.Call{OperationRef: "r1"}))
	})
	recoverRun(t, "the verifier is down: it backs off, and a person decides in the end", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		tool := w.doubtful(recoverDown)
		tool.Verify.MaxChecks = 3
		w.put(toolexec.Bind(w.x, tool), "r1")
		time.Sleep(500 * time.Millisecond)
		assert.Equal(w.t, "unknown verify_operation of refund not before 1.5s by lookup at 500ms", w.asks(toolexec.Call{OperationRef: "r1"}))
		time.Sleep(time.Second)
		assert.Equal(w.t, "unknown escalate of refund by lookup at 1.5s", w.asks(toolexec.Call{OperationRef: "r1"}))
	})
	for deadline, words := range map[time.Duration]string{
		0:               "unknown verify_operation of refund not before 32.5s by lookup at 30s",
		5 * time.Second: "unknown verify_operation of refund not before 35.5s by lookup at 30s",
	} {
		recoverRun(t, "a look-up that hangs is cut at its own deadline: "+deadline.String(), func(w *recoverWorld) {
			toolexec.BindVerifyOperation(w.x)
			release := make(chan struct{})
			tool := w.doubtful(nil)
			tool.Verify = w.verifier(func(ref string) (toolexec.Finding[caseReceipt], error) {
				if len(w.looks.at()) > 1 {
					<-release
				}
				return recoverAbsent(ref)
			})
			tool.Verify.Deadline = deadline
			w.put(toolexec.Bind(w.x, tool), "r1")
			time.Sleep(toolexec.DefaultSettle)
			assert.Equal(w.t, words, w.asks(toolexec.Call{OperationRef: "r1"}))
			close(release)
		})
	}
	recoverRun(t, "the commit stays unheard, since its answer may be cut", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		b := toolexec.Bind(w.x, w.doubtful(waitAppears(time.Second)(w)))
		key := w.put(b, "r1")
		time.Sleep(toolexec.DefaultSettle)
		w.asks(toolexec.Call{OperationRef: "r1"})
		assert.True(w.t, w.open(key))
		assert.Equal(w.t, "r1", caseChecked(w.t, b.Call(w.t.Context(), execOrder)).OperationRef)
		assert.False(w.t, w.open(key))
	})
}

// TestVerifyOperationStaysInItsScope: another's operations do not exist for it.
func TestVerifyOperationStaysInItsScope(t *testing.T) {
	recoverRun(t, "scopes", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		tool := w.failing(toolexec.Write)
		tool.Ref = func(in caseOrder) string { return in.OrderID }
		b := toolexec.Bind(w.x, tool)
		ctx := toolexec.WithScope(toolexec.WithOperationRef(w.t.Context(), "alias"), "tenant")
		require.True(w.t, caseChecked(w.t, b.Call(ctx, execOrder)).OK)
		mine := `committed continue of refund by execution at 0s {"receipt":"rcpt_refund:ORD-5510"}`
		for _, ref := range []string{"refund:ORD-5510", "alias"} {
			assert.Equal(w.t, mine, w.asks(toolexec.Call{OperationRef: ref, Scope: "tenant"}), ref)
			assert.Equal(w.t, mine, verifyWords(w, w.ask(toolexec.WithScope(w.t.Context(), "tenant"), toolexec.Call{OperationRef: ref})), ref)
			for _, scope := range []string{"", "other", "Tenant", "tenant "} {
				assert.Equal(w.t, "unknown escalate not known", w.asks(toolexec.Call{OperationRef: ref, Scope: scope}), "%s in %q", ref, scope)
			}
		}
	})
	recoverRun(t, "an alias of two operations names neither", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		tool := w.failing(toolexec.Write)
		tool.Ref = func(in caseOrder) string { return in.OrderID }
		b := toolexec.Bind(w.x, tool)
		ctx := toolexec.WithOperationRef(w.t.Context(), "alias")
		b.Call(ctx, execOrder)
		b.Call(ctx, caseOrder{OrderID: "ORD-1"})
		assert.Equal(w.t, "unknown escalate not known", w.asks(toolexec.Call{OperationRef: "alias"}))
	})
	recoverRun(t, "a ref goes before an alias", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		tool := w.failing(toolexec.Write)
		tool.Ref = func(in caseOrder) string { return in.OrderID }
		toolexec.Bind(w.x, tool).Call(toolexec.WithOperationRef(w.t.Context(), "r1"), execOrder)
		w.put(toolexec.Bind(w.x, execTool("plain", toolexec.Write, observeOK)), "r1")
		assert.Equal(w.t, `committed continue of plain by execution at 0s {"receipt":"ORD-5510"}`, w.asks(toolexec.Call{OperationRef: "r1"}))
	})
	recoverRun(t, "unknown refs prove nothing", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		assert.Equal(w.t, "unknown escalate not known", w.asks(toolexec.Call{OperationRef: "r1"}))
		for _, bad := range []string{"", "two words", strings.Repeat("x", 201)} {
			assert.Equal(w.t, "INVALID_ARGUMENTS correct_input", w.asks(toolexec.Call{OperationRef: bad}))
		}
	})
	recoverRun(t, "its tool is not bound here", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		other := w.tool(toolexec.Write)
		w.crash(other, "r1", observeOK)
		time.Sleep(recoverLost)
		assert.Equal(w.t, "unknown escalate of refund", w.asks(toolexec.Call{OperationRef: "r1"}))
		assert.Equal(w.t, toolexec.StateInFlight, w.get(toolexec.Key{Ref: "r1"}).State)
	})
	recoverRun(t, "committed, and its tool is not bound here", func(w *recoverWorld) {
		w.put(toolexec.Bind(w.x, w.failing(toolexec.Write)), "r1")
		w.restart()
		toolexec.BindVerifyOperation(w.x)
		got := w.asks(toolexec.Call{OperationRef: "r1"})
		assert.Contains(w.t, got, "committed")
		assert.Contains(w.t, got, "committed continue of refund")
	})
}

// TestVerifyOperationAndItsStore: a store that fails says nothing.
func TestVerifyOperationAndItsStore(t *testing.T) {
	down := errors.New("down")
	for name, hurt := range map[string]func(w *recoverWorld){
		"load": func(w *recoverWorld) { w.store.loading = func(toolexec.Key) error { return down } },
		"save": func(w *recoverWorld) { w.store.saving = func(toolexec.Record) error { return down } },
	} {
		recoverRun(t, name, func(w *recoverWorld) {
			toolexec.BindVerifyOperation(w.x)
			w.put(toolexec.Bind(w.x, w.doubtful(recoverAbsent)), "r1")
			time.Sleep(toolexec.DefaultSettle)
			hurt(w)
			assert.Equal(w.t, "DEPENDENCY_UNAVAILABLE wait_and_retry", w.asks(toolexec.Call{OperationRef: "r1"}))
			assert.Equal(w.t, toolexec.DefaultSettle, time.Since(w.starts.since), "it is tried once")
		})
	}
	recoverRun(t, "list", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		w.store.listing = func() error { return down }
		assert.Equal(w.t, "DEPENDENCY_UNAVAILABLE wait_and_retry", w.asks(toolexec.Call{OperationRef: "alias"}))
	})
}

// TestVerifyOperationIsNeverALoop: the loop breaker of a run does not stop it.
func TestVerifyOperationIsNeverALoop(t *testing.T) {
	recoverRun(t, "twenty times", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		w.put(toolexec.Bind(w.x, w.doubtful(recoverAbsent)), "r1")
		for range 20 {
			assert.Equal(w.t, "unknown verify_operation of refund not before 30s by lookup at 0s", w.asks(toolexec.Call{OperationRef: "r1", RunID: "run_81"}))
			assert.Equal(w.t, "unknown escalate not known", w.asks(toolexec.Call{OperationRef: "r2", RunID: "run_81"}))
		}
	})
	recoverRun(t, "of a person's operation", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		tool := w.doubtful(nil)
		tool.Unverifiable = true
		w.put(toolexec.Bind(w.x, tool), "r1")
		for range 20 {
			assert.Equal(w.t, "unknown escalate of refund", w.asks(toolexec.Call{OperationRef: "r1", RunID: "run_81"}))
		}
	})
}

// TestVerifyOperationWhoseCallerGivesUp: that says nothing about the verifier.
func TestVerifyOperationWhoseCallerGivesUp(t *testing.T) {
	recoverRun(t, "cancelled", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		tool := w.doubtful(nil)
		tool.Verify = &toolexec.Verifier[caseOrder, caseReceipt]{
			Lookup: func(ctx context.Context, _ string, _ caseOrder) (toolexec.Finding[caseReceipt], error) {
				if time.Since(w.starts.since) == 0 {
					return toolexec.Absent[caseReceipt](), nil
				}
				<-ctx.Done()
				return toolexec.Finding[caseReceipt]{}, ctx.Err()
			},
		}
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		time.Sleep(toolexec.DefaultSettle)
		ctx, cancel := context.WithCancel(w.t.Context())
		time.AfterFunc(time.Second, cancel)
		w.ask(ctx, toolexec.Call{OperationRef: "r1"})
		time.Sleep(time.Second)
		assert.Zero(w.t, w.get(key).Checks)
	})
}

// TestVerificationToolIsNamed: in the details and in what the agent reads, of every tool that has a verifier.
func TestVerificationToolIsNamed(t *testing.T) {
	const do = "refund may have been sent, and no usable answer came back. The change may have been made. Do not call refund again, by any route. "
	for name, row := range map[string]struct {
		bound   bool
		tool    func(w *recoverWorld, t *caseTool)
		detail  any
		message string
	}{
		"it is bound":              {true, func(w *recoverWorld, t *caseTool) { t.Verify = w.verifier(recoverAbsent) }, "verify_operation", "Look up operation_ref r1 first, with verify_operation."},
		"it is not":                {false, func(w *recoverWorld, t *caseTool) { t.Verify = w.verifier(recoverAbsent) }, nil, "First operation_ref r1 must be looked up."},
		"the tool has no verifier": {true, func(*recoverWorld, *caseTool) {}, nil, "A person must look up operation_ref r1 first."},
		"a user's own wins": {true, func(w *recoverWorld, t *caseTool) {
			t.Verify, t.VerificationTool = w.verifier(recoverAbsent), "get_refund"
		}, "get_refund", "Look up operation_ref r1 first, with get_refund."},
		"a user's own, without a verifier":   {true, func(_ *recoverWorld, t *caseTool) { t.VerificationTool = "get_refund" }, "get_refund", "Look up operation_ref r1 first, with get_refund."},
		"a user's own, and this is not here": {false, func(_ *recoverWorld, t *caseTool) { t.VerificationTool = "get_refund" }, "get_refund", "Look up operation_ref r1 first, with get_refund."},
	} {
		for _, late := range []bool{false, true} {
			recoverRun(t, fmt.Sprint(name, ", bound after the tool: ", late), func(w *recoverWorld) {
				if row.bound && !late {
					toolexec.BindVerifyOperation(w.x)
				}
				tool := w.doubtful(nil)
				row.tool(w, &tool)
				b := toolexec.Bind(w.x, tool)
				if row.bound && late {
					toolexec.BindVerifyOperation(w.x)
				}
				for range 2 { // by execution, and by its record
					env := caseChecked(w.t, b.Call(toolexec.WithOperationRef(w.t.Context(), "r1"), execOrder))
					assert.Equal(w.t, toolexec.NextVerifyOperation, env.NextAction)
					assert.Equal(w.t, row.detail, env.SafeDetails[toolexec.DetailVerificationTool])
					assert.Equal(w.t, do+row.message, env.AgentMessage)
				}
			})
		}
	}
	recoverRun(t, "not where there is nothing to verify", func(w *recoverWorld) {
		toolexec.BindVerifyOperation(w.x)
		tool := w.failing(toolexec.Write, errRecoverUnsent)
		tool.Verify = w.verifier(recoverAbsent)
		env := caseChecked(w.t, toolexec.Bind(w.x, tool).Call(toolexec.WithOperationRef(w.t.Context(), "r1"), execOrder))
		assert.NotContains(w.t, env.SafeDetails, toolexec.DetailVerificationTool)
		assert.NotContains(w.t, env.AgentMessage, "verify_operation")
	})
}

// TestVerifyOperationIsATool like any other: read only, listed, and bound once.
func TestVerifyOperationIsATool(t *testing.T) {
	x := new(toolexec.Executor)
	b := toolexec.BindVerifyOperation(x)
	assert.Equal(t, "verify_operation", b.Name())
	list := x.Tools()
	require.Len(t, list, 1)
	assert.Equal(t, "verify_operation", list[0].Name)
	assert.Equal(t, toolexec.ReadOnly, list[0].Effect)
	assert.Empty(t, x.Vet())
	assert.PanicsWithValue(t, `toolexec: Bind "verify_operation": the executor has a tool of this name already; give each its own`, func() { toolexec.BindVerifyOperation(x) })
	env := caseChecked(t, b.Call(t.Context(), toolexec.VerifyOperation{OperationRef: "r1"}))
	require.True(t, env.OK)
	assert.Equal(t, toolexec.OperationStatus{OperationRef: "r1", CommitState: toolexec.CommitUnknown, NextAction: toolexec.NextEscalate}, env.Result)
}
