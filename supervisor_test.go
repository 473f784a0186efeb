package toolexec_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// supervisorWorld is an executor with a tool, its operator, and operations in every state.
type supervisorWorld struct {
	t     *testing.T
	x     *toolexec.Executor
	s     *toolexec.Supervisor
	tool  *toolexec.Bound[caseOrder, caseReceipt]
	held  *toolexec.Bound[caseOrder, caseReceipt] // needs approval
	never *toolexec.Bound[caseOrder, caseReceipt] // nobody can look it up
	next  func(context.Context) error             // what the tools do
}

// supervisorRun makes a world in a bubble.
func supervisorRun(t *testing.T, name string, f func(w *supervisorWorld)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newSupervisorWorld(t, new(toolexec.MemoryStore))
			f(w)
			caseClose(t, w.x)
		})
	})
}

func newSupervisorWorld(t *testing.T, store toolexec.Store) *supervisorWorld {
	w := &supervisorWorld{t: t, x: &toolexec.Executor{Store: store}}
	w.s = &toolexec.Supervisor{Executor: w.x}
	does := func(ctx context.Context) error { return w.next(ctx) }
	w.tool = toolexec.Bind(w.x, execTool("refund", toolexec.Write, does))
	held := execTool("pay", toolexec.Write, does)
	held.Approval = new(toolexec.Approval[caseOrder])
	w.held = toolexec.Bind(w.x, held)
	never := execTool("mail", toolexec.Write, does)
	never.Unverifiable = true
	w.never = toolexec.Bind(w.x, never)
	w.next = observeOK
	return w
}

var supervisorAnn = toolexec.Statement{Actor: "ann", Evidence: "T-1"}

// call runs b under ref, and asserts what holds for every envelope.
func (w *supervisorWorld) call(b *toolexec.Bound[caseOrder, caseReceipt], ref string) toolexec.Envelope[caseReceipt] {
	w.t.Helper()
	return caseChecked(w.t, b.Call(toolexec.WithOperationRef(w.t.Context(), ref), execOrder))
}

// put brings the operation of that name into that state.
func (w *supervisorWorld) put(state toolexec.State, ref string) toolexec.Key {
	w.t.Helper()
	w.next = observeOK
	b := w.tool
	switch state {
	case toolexec.StateReleased:
		w.next = func(context.Context) error { return toolexec.Rejected(toolexec.CodeConflict, nil) }
	case toolexec.StateRejected:
		w.next = func(context.Context) error { return toolexec.Invalid("order_id", "") }
	case toolexec.StateUnknown:
		w.next = observeDoubt
	case toolexec.StateEscalated:
		w.next, b = observeDoubt, w.never
	case toolexec.StateAwaitingApproval:
		b = w.held
	}
	w.call(b, ref)
	w.next = observeOK
	key := toolexec.Key{Ref: ref}
	assert.Equal(w.t, state, w.get(key).State)
	return key
}

func (w *supervisorWorld) get(key toolexec.Key) toolexec.Record {
	w.t.Helper()
	r, err := w.s.Get(w.t.Context(), key)
	require.NoError(w.t, err)
	return r
}

// said is the last step of a history: state, event, actor and note.
func supervisorSaid(r toolexec.Record) string {
	if len(r.History) == 0 {
		return ""
	}
	e := r.History[len(r.History)-1]
	return fmt.Sprintf("%s: %s (%s, %s)", e.State, e.Event, e.Actor, e.Note)
}

var supervisorStates = []toolexec.State{
	toolexec.StateReleased, toolexec.StateRejected, toolexec.StateAwaitingApproval,
	toolexec.StateUnknown, toolexec.StateCommitted, toolexec.StateEscalated,
}

func TestSupervisorGet(t *testing.T) {
	supervisorRun(t, "a record", func(w *supervisorWorld) {
		r := w.get(w.put(toolexec.StateCommitted, "r1"))
		assert.Equal(w.t, "refund", r.Tool)
		assert.JSONEq(w.t, `{"receipt":"ORD-5510"}`, string(r.Result))
		assert.Equal(w.t, time.Now(), r.Now.Local())
	})
	supervisorRun(t, "none", func(w *supervisorWorld) {
		w.put(toolexec.StateCommitted, "r1")
		for _, key := range []toolexec.Key{{}, {Ref: "r2"}, {Scope: "tenant", Ref: "r1"}} {
			_, err := w.s.Get(w.t.Context(), key)
			assert.ErrorIs(w.t, err, toolexec.ErrNotFound)
		}
	})
}

func TestSupervisorList(t *testing.T) {
	supervisorRun(t, "filters", func(w *supervisorWorld) {
		began := time.Now()
		for _, s := range supervisorStates {
			w.put(s, "op_"+s.String())
		}
		tenant, none := "tenant", ""
		require.True(w.t, w.tool.Call(toolexec.WithScope(toolexec.WithOperationRef(w.t.Context(), "op_tenant"), tenant), execOrder).OK)
		byKey := execTool("keyed", toolexec.Write, observeOK)
		byKey.Ref = func(in caseOrder) string { return in.OrderID }
		require.True(w.t, w.call(toolexec.Bind(w.x, byKey), "op_alias").OK)
		refund := w.get(toolexec.Key{Ref: "op_committed"}).Fingerprint

		for name, row := range map[string]struct {
			q    toolexec.Query
			want []string
		}{
			"all": {toolexec.Query{}, []string{
				"keyed:ORD-5510", "op_awaiting_approval", "op_committed", "op_escalated", "op_rejected", "op_released", "op_unknown", "op_tenant",
			}},
			"one state":        {toolexec.Query{States: []toolexec.State{toolexec.StateUnknown}}, []string{"op_unknown"}},
			"what waits":       {toolexec.Query{States: []toolexec.State{toolexec.StateEscalated, toolexec.StateAwaitingApproval}}, []string{"op_awaiting_approval", "op_escalated"}},
			"a tool":           {toolexec.Query{Tool: "pay"}, []string{"op_awaiting_approval"}},
			"a scope":          {toolexec.Query{Scope: &tenant}, []string{"op_tenant"}},
			"the empty scope":  {toolexec.Query{Scope: &none, Tool: "refund", States: []toolexec.State{toolexec.StateCommitted}}, []string{"op_committed"}},
			"an alias":         {toolexec.Query{Alias: "op_alias"}, []string{"keyed:ORD-5510"}},
			"equal arguments":  {toolexec.Query{Fingerprint: refund, Scope: &none}, []string{"op_committed", "op_rejected", "op_released", "op_unknown"}},
			"due":              {toolexec.Query{DueBefore: toolexec.At(began.Add(time.Hour))}, []string{"op_unknown"}},
			"and":              {toolexec.Query{Tool: "refund", States: []toolexec.State{toolexec.StateEscalated}}, nil},
			"after a cursor":   {toolexec.Query{After: toolexec.Cursor{Key: toolexec.Key{Ref: "op_rejected"}}}, []string{"op_released", "op_unknown", "op_tenant"}},
			"nothing is there": {toolexec.Query{Tool: "no_tool"}, nil},
		} {
			page, next, err := w.s.List(w.t.Context(), row.q)
			require.NoError(w.t, err)
			var got []string
			for _, r := range page {
				got = append(got, r.Ref)
			}
			assert.Equal(w.t, row.want, got, name)
			assert.Zero(w.t, next, name)
		}
	})
	for _, limit := range []int{1, 2, 3, 7, 8} {
		supervisorRun(t, fmt.Sprintf("pages of %d", limit), func(w *supervisorWorld) {
			var want []string
			for i := range 7 {
				want = append(want, w.put(toolexec.StateUnknown, fmt.Sprintf("op_%d", i)).Ref)
			}
			var got []string
			q := toolexec.Query{States: []toolexec.State{toolexec.StateUnknown}, Limit: limit}
			for pages := 0; ; pages++ {
				require.Less(w.t, pages, 20)
				page, next, err := w.s.List(w.t.Context(), q)
				require.NoError(w.t, err)
				assert.LessOrEqual(w.t, len(page), limit)
				for _, r := range page {
					got = append(got, r.Ref)
				}
				if next == (toolexec.Cursor{}) {
					break
				}
				q.After = next
			}
			assert.Equal(w.t, want, got)
		})
	}
}

func TestSupervisorApprove(t *testing.T) {
	supervisorRun(t, "once", func(w *supervisorWorld) {
		key := w.put(toolexec.StateAwaitingApproval, "r1")
		r, err := approveHeld(w.s, w.t.Context(), key, supervisorAnn, time.Minute)
		require.NoError(w.t, err)
		assert.Equal(w.t, w.get(key), r)
		assert.Equal(w.t, toolexec.StateAwaitingApproval, r.State)
		assert.Equal(w.t, "approved", r.Approval.Decision)
		assert.Equal(w.t, "ann", r.Approval.Actor)
		assert.Equal(w.t, "T-1", r.Approval.Reason)
		assert.Equal(w.t, "pay", r.Approval.Summary)
		assert.Equal(w.t, r.Now.Add(time.Minute), r.Approval.Expires.Time())
		assert.Equal(w.t, "awaiting_approval: approved (ann, T-1)", supervisorSaid(r))
		assert.True(w.t, w.call(w.held, "r1").OK)
		assert.True(w.t, w.get(key).Approval.Spent)
	})
	supervisorRun(t, "no time is the default", func(w *supervisorWorld) {
		r, err := approveHeld(w.s, w.t.Context(), w.put(toolexec.StateAwaitingApproval, "r1"), supervisorAnn, 0)
		require.NoError(w.t, err)
		assert.Equal(w.t, r.Now.Add(toolexec.DefaultApprovalTTL), r.Approval.Expires.Time())
	})
	supervisorRun(t, "in time", func(w *supervisorWorld) {
		_, err := approveHeld(w.s, w.t.Context(), w.put(toolexec.StateAwaitingApproval, "r1"), supervisorAnn, time.Minute)
		require.NoError(w.t, err)
		time.Sleep(time.Minute - 1)
		assert.True(w.t, w.call(w.held, "r1").OK)
	})
	supervisorRun(t, "too late", func(w *supervisorWorld) {
		key := w.put(toolexec.StateAwaitingApproval, "r1")
		_, err := approveHeld(w.s, w.t.Context(), key, supervisorAnn, time.Minute)
		require.NoError(w.t, err)
		time.Sleep(time.Minute)
		assert.Equal(w.t, toolexec.CodeApprovalExpired, w.call(w.held, "r1").Code)
		_, err = approveHeld(w.s, w.t.Context(), key, supervisorAnn, time.Minute)
		require.NoError(w.t, err, "it is held again")
		assert.True(w.t, w.call(w.held, "r1").OK)
	})
	supervisorRun(t, "not for other arguments", func(w *supervisorWorld) {
		_, err := approveHeld(w.s, w.t.Context(), w.put(toolexec.StateAwaitingApproval, "r1"), supervisorAnn, 0)
		require.NoError(w.t, err)
		other := w.held.Call(toolexec.WithOperationRef(w.t.Context(), "r1"), caseOrder{OrderID: "ORD-5510", Cents: 9000})
		assert.Equal(w.t, toolexec.CodeOperationRefReused, other.Code)
		assert.True(w.t, w.call(w.held, "r1").OK)
	})
	supervisorRun(t, "the last word before the call counts", func(w *supervisorWorld) {
		key := w.put(toolexec.StateAwaitingApproval, "r1")
		_, err := approveHeld(w.s, w.t.Context(), key, supervisorAnn, 0)
		require.NoError(w.t, err)
		_, err = w.s.Deny(w.t.Context(), key, toolexec.Statement{Actor: "bob", Evidence: "T-2"})
		require.NoError(w.t, err)
		assert.Equal(w.t, toolexec.CodeApprovalDenied, w.call(w.held, "r1").Code)
	})
}

func TestSupervisorDeny(t *testing.T) {
	supervisorRun(t, "for good", func(w *supervisorWorld) {
		key := w.put(toolexec.StateAwaitingApproval, "r1")
		r, err := w.s.Deny(w.t.Context(), key, supervisorAnn)
		require.NoError(w.t, err)
		assert.Equal(w.t, w.get(key), r)
		assert.Equal(w.t, toolexec.StateEscalated, r.State)
		assert.Equal(w.t, toolexec.NotCommitted, r.CommitState())
		assert.Equal(w.t, "denied", r.Approval.Decision)
		assert.Equal(w.t, "ann", r.Approval.Actor)
		assert.Equal(w.t, "T-1", r.Approval.Reason)
		require.Len(w.t, r.History, 2)
		assert.Equal(w.t, toolexec.HistoryEntry{At: toolexec.At(r.Now), State: toolexec.StateAwaitingApproval, Event: "denied", Actor: "ann", Note: "T-1"}, r.History[0])
		for range 2 {
			env := w.call(w.held, "r1")
			assert.Equal(w.t, toolexec.CodeApprovalDenied, env.Code)
			assert.Equal(w.t, toolexec.NotCommitted, env.CommitState)
			assert.Equal(w.t, toolexec.NextEscalate, env.NextAction)
		}
	})
}

func TestSupervisorResolve(t *testing.T) {
	for _, state := range []toolexec.State{toolexec.StateUnknown, toolexec.StateEscalated} {
		tool := func(w *supervisorWorld) *toolexec.Bound[caseOrder, caseReceipt] {
			if state == toolexec.StateEscalated {
				return w.never
			}
			return w.tool
		}
		supervisorRun(t, state.String()+" as committed", func(w *supervisorWorld) {
			key := w.put(state, "r1")
			r, err := w.s.Resolve(w.t.Context(), key, toolexec.Committed, supervisorAnn)
			require.NoError(w.t, err)
			assert.Equal(w.t, w.get(key), r)
			assert.Equal(w.t, toolexec.StateCommitted, r.State)
			assert.Empty(w.t, r.Unresolved)
			assert.Equal(w.t, state.String()+": resolved: committed (ann, T-1)", supervisorSaid(r))
			env := w.call(tool(w), "r1")
			assert.True(w.t, env.OK)
			assert.True(w.t, env.Replayed)
			assert.False(w.t, env.HasResult)
			assert.Equal(w.t, toolexec.SourceOperator, env.Verification.Source)
			assert.Equal(w.t, time.Now(), env.Verification.CheckedAt.Local())
		})
		supervisorRun(t, state.String()+" as not committed, after the settle window", func(w *supervisorWorld) {
			key := w.put(state, "r1")
			time.Sleep(toolexec.DefaultSettle)
			r, err := w.s.Resolve(w.t.Context(), key, toolexec.NotCommitted, toolexec.Statement{Actor: "ann", Evidence: "T-1", Force: true})
			require.NoError(w.t, err)
			assert.Equal(w.t, toolexec.StateReleased, r.State)
			assert.Zero(w.t, r.Attempts, "a new allowance")
			assert.Equal(w.t, state.String()+": resolved: not committed (ann, T-1)", supervisorSaid(r), "it did not need the force")
			assert.True(w.t, w.call(tool(w), "r1").OK)
		})
		supervisorRun(t, state.String()+" as not committed, before it", func(w *supervisorWorld) {
			key := w.put(state, "r1")
			time.Sleep(toolexec.DefaultSettle - 1)
			before := w.get(key)
			r, err := w.s.Resolve(w.t.Context(), key, toolexec.NotCommitted, supervisorAnn)
			assert.ErrorIs(w.t, err, toolexec.ErrRefused)
			assert.EqualError(w.t, err, "toolexec: the record does not allow this: an attempt of it can still take effect; wait until 2000-01-01T00:00:30Z, or force it")
			assert.Equal(w.t, before, r, "the record as it is")
			r, err = w.s.Resolve(w.t.Context(), key, toolexec.NotCommitted, toolexec.Statement{Actor: "ann", Evidence: "T-1", Force: true})
			require.NoError(w.t, err)
			assert.Equal(w.t, state.String()+": resolved: not committed, forced before the settle window closed (ann, T-1)", supervisorSaid(r))
			assert.True(w.t, w.call(tool(w), "r1").OK)
		})
	}
	supervisorRun(t, "while an attempt still runs", func(w *supervisorWorld) {
		w.next = observeDeaf
		env := w.call(w.tool, "r1")
		assert.Equal(w.t, toolexec.CodeOutcomeUnknown, env.Code)
		_, err := w.s.Resolve(w.t.Context(), toolexec.Key{Ref: "r1"}, toolexec.NotCommitted, supervisorAnn)
		assert.EqualError(w.t, err, "toolexec: the record does not allow this: an attempt of it can still take effect; wait until it has ended, or force it")
		_, err = w.s.Resolve(w.t.Context(), toolexec.Key{Ref: "r1"}, toolexec.Committed, supervisorAnn)
		assert.NoError(w.t, err)
	})
	supervisorRun(t, "a denied call may be released", func(w *supervisorWorld) {
		key := w.put(toolexec.StateAwaitingApproval, "r1")
		_, err := w.s.Deny(w.t.Context(), key, supervisorAnn)
		require.NoError(w.t, err)
		r, err := w.s.Resolve(w.t.Context(), key, toolexec.NotCommitted, supervisorAnn)
		require.NoError(w.t, err)
		assert.Nil(w.t, r.Approval)
		assert.Equal(w.t, toolexec.CodeMissingApproval, w.call(w.held, "r1").Code, "and has to be approved again")
	})
}

// TestSupervisorResolveNamesATimeThatIsLateEnough: who waits as told is not refused again.
func TestSupervisorResolveNamesATimeThatIsLateEnough(t *testing.T) {
	supervisorRun(t, "half a second", func(w *supervisorWorld) {
		time.Sleep(500 * time.Millisecond)
		key := w.put(toolexec.StateUnknown, "r1")
		_, err := w.s.Resolve(w.t.Context(), key, toolexec.NotCommitted, supervisorAnn)
		require.ErrorIs(w.t, err, toolexec.ErrRefused)
		_, text, _ := strings.Cut(err.Error(), "wait until ")
		text, _, _ = strings.Cut(text, ",")
		at, err := time.Parse(time.RFC3339, text)
		require.NoError(w.t, err)
		time.Sleep(time.Until(at))
		_, err = w.s.Resolve(w.t.Context(), key, toolexec.NotCommitted, supervisorAnn)
		assert.NoError(w.t, err)
	})
}

func TestSupervisorReopen(t *testing.T) {
	supervisorRun(t, "the same input runs again", func(w *supervisorWorld) {
		key := w.put(toolexec.StateRejected, "r1")
		assert.Equal(w.t, toolexec.CodeUnchangedRetry, w.call(w.tool, "r1").Code, "it is sticky")
		r, err := w.s.Reopen(w.t.Context(), key, supervisorAnn)
		require.NoError(w.t, err)
		assert.Equal(w.t, w.get(key), r)
		assert.Equal(w.t, toolexec.StateReleased, r.State)
		assert.Empty(w.t, r.RejectedFields)
		assert.Equal(w.t, "rejected: reopened (ann, T-1)", supervisorSaid(r))
		assert.True(w.t, w.call(w.tool, "r1").OK)
	})
	supervisorRun(t, "what was released, in the run that was told not to repeat it", func(w *supervisorWorld) {
		ctx := toolexec.WithRunID(toolexec.WithOperationRef(w.t.Context(), "r1"), "run")
		w.next = func(context.Context) error { return toolexec.Rejected(toolexec.CodeConflict, nil) }
		assert.Equal(w.t, toolexec.CodeConflict, caseChecked(w.t, w.tool.Call(ctx, execOrder)).Code)
		w.next = observeOK
		assert.Equal(w.t, toolexec.CodeUnchangedRetry, caseChecked(w.t, w.tool.Call(ctx, execOrder)).Code)
		_, err := w.s.Reopen(w.t.Context(), toolexec.Key{Ref: "r1"}, supervisorAnn)
		require.NoError(w.t, err)
		assert.True(w.t, caseChecked(w.t, w.tool.Call(ctx, execOrder)).OK)
	})
}

// TestApprovalStandsBesideAnotherCall: a call that differs in an ignored field only does not take the approval away
// that another one has, nor use it.
func TestApprovalStandsBesideAnotherCall(t *testing.T) {
	supervisorRun(t, "approved", func(w *supervisorWorld) {
		runs := 0
		tool := execTool("noted", toolexec.Write, func(context.Context) error { runs++; return nil })
		tool.Approval, tool.IgnoreFields = &toolexec.Approval[caseOrder]{}, []string{"/cents"}
		b := toolexec.Bind(w.x, tool)
		ctx := toolexec.WithOperationRef(w.t.Context(), "r1")
		one, two := caseOrder{OrderID: "ORD-5510", Cents: 1}, caseOrder{OrderID: "ORD-5510", Cents: 2}
		assert.Equal(w.t, toolexec.CodeMissingApproval, caseChecked(w.t, b.Call(ctx, one)).Code)
		_, err := approveHeld(w.s, w.t.Context(), toolexec.Key{Ref: "r1"}, supervisorAnn, time.Hour)
		require.NoError(w.t, err)
		before := w.get(toolexec.Key{Ref: "r1"})
		assert.Equal(w.t, toolexec.CodeMissingApproval, caseChecked(w.t, b.Call(ctx, two)).Code)
		assert.Equal(w.t, before.Version, w.get(before.Key).Version)
		assert.Zero(w.t, runs)
		assert.True(w.t, caseChecked(w.t, b.Call(ctx, one)).OK)
	})
	supervisorRun(t, "expired", func(w *supervisorWorld) {
		tool := execTool("noted", toolexec.Write, observeOK)
		tool.Approval, tool.IgnoreFields = &toolexec.Approval[caseOrder]{}, []string{"/cents"}
		b := toolexec.Bind(w.x, tool)
		ctx := toolexec.WithOperationRef(w.t.Context(), "r1")
		caseChecked(w.t, b.Call(ctx, caseOrder{OrderID: "ORD-5510", Cents: 1}))
		_, err := approveHeld(w.s, w.t.Context(), toolexec.Key{Ref: "r1"}, supervisorAnn, time.Minute)
		require.NoError(w.t, err)
		before := w.get(toolexec.Key{Ref: "r1"})
		time.Sleep(time.Minute)
		assert.Equal(w.t, toolexec.CodeMissingApproval, caseChecked(w.t, b.Call(ctx, caseOrder{OrderID: "ORD-5510", Cents: 2})).Code)
		assert.NotEqual(w.t, before.Approval.Digest, w.get(before.Key).Approval.Digest, "the new one is held")
	})
}

// TestInvalidRefRepeated: a run that repeats a ref that no operation can have is told so, and stopped.
func TestInvalidRefRepeated(t *testing.T) {
	supervisorRun(t, "codes", func(w *supervisorWorld) {
		ctx := toolexec.WithRunID(toolexec.WithOperationRef(w.t.Context(), "no ref"), "run")
		var got []string
		for range 5 {
			e := caseChecked(w.t, w.tool.Call(ctx, execOrder))
			got = append(got, string(e.Code)+" "+e.NextAction.String())
		}
		assert.Equal(w.t, []string{
			"INVALID_OPERATION_REF correct_input", "UNCHANGED_RETRY correct_input", "UNCHANGED_RETRY correct_input",
			"UNCHANGED_RETRY correct_input", "UNCHANGED_RETRY escalate",
		}, got)
		good := toolexec.WithRunID(toolexec.WithOperationRef(w.t.Context(), "a/ref"), "run")
		assert.True(w.t, caseChecked(w.t, w.tool.Call(good, execOrder)).OK)
	})
}

// supervisorVerbs are the statements that a record may refuse.
var supervisorVerbs = map[string]func(w *supervisorWorld, key toolexec.Key, by toolexec.Statement) (toolexec.Record, error){
	"approve": func(w *supervisorWorld, key toolexec.Key, by toolexec.Statement) (toolexec.Record, error) {
		return approveHeld(w.s, w.t.Context(), key, by, 0)
	},
	"deny": func(w *supervisorWorld, key toolexec.Key, by toolexec.Statement) (toolexec.Record, error) {
		return w.s.Deny(w.t.Context(), key, by)
	},
	"resolve": func(w *supervisorWorld, key toolexec.Key, by toolexec.Statement) (toolexec.Record, error) {
		return w.s.Resolve(w.t.Context(), key, toolexec.Committed, by)
	},
	"reopen": func(w *supervisorWorld, key toolexec.Key, by toolexec.Statement) (toolexec.Record, error) {
		return w.s.Reopen(w.t.Context(), key, by)
	},
}

// TestSupervisorRefusals tries every statement in every state. What is refused leaves the record as it is, and
// the sentence names what is wrong and what is allowed.
func TestSupervisorRefusals(t *testing.T) {
	allowed := map[string][]toolexec.State{
		"approve": {toolexec.StateAwaitingApproval}, "deny": {toolexec.StateAwaitingApproval},
		"resolve": {toolexec.StateUnknown, toolexec.StateEscalated}, "reopen": {toolexec.StateRejected, toolexec.StateReleased},
	}
	words := map[string]string{"approve": "[awaiting_approval]", "deny": "[awaiting_approval]", "resolve": "[unknown escalated]", "reopen": "[rejected released]"}
	for verb, do := range supervisorVerbs {
		for _, state := range supervisorStates {
			supervisorRun(t, verb+" "+state.String(), func(w *supervisorWorld) {
				key := w.put(state, "r1")
				before := w.get(key)
				r, err := do(w, key, toolexec.Statement{Actor: "ann", Evidence: "T-1", Force: true})
				if slices.Contains(allowed[verb], state) {
					assert.NoError(w.t, err)
					assert.Equal(w.t, before.Version+1, r.Version)
					return
				}
				assert.ErrorIs(w.t, err, toolexec.ErrRefused)
				assert.EqualError(w.t, err, "toolexec: the record does not allow this: "+verb+" wants an operation that is "+words[verb]+"; this one is "+state.String())
				assert.Equal(w.t, before, r)
				assert.Equal(w.t, before, w.get(key))
			})
		}
		supervisorRun(t, verb+" in flight", func(w *supervisorWorld) {
			var wg sync.WaitGroup
			w.next = func(context.Context) error { time.Sleep(time.Second); return nil }
			wg.Go(func() { w.call(w.tool, "r1") })
			synctest.Wait()
			_, err := do(w, toolexec.Key{Ref: "r1"}, supervisorAnn)
			assert.EqualError(w.t, err, "toolexec: the record does not allow this: "+verb+" wants an operation that is "+words[verb]+"; this one is in_flight")
			wg.Wait()
			assert.Equal(w.t, toolexec.StateCommitted, w.get(toolexec.Key{Ref: "r1"}).State, "the owner goes on")
		})
		supervisorRun(t, verb+" nothing", func(w *supervisorWorld) {
			r, err := do(w, toolexec.Key{Ref: "r1"}, supervisorAnn)
			assert.ErrorIs(w.t, err, toolexec.ErrNotFound)
			assert.Zero(w.t, r)
		})
		for _, by := range []toolexec.Statement{{}, {Actor: "ann"}, {Evidence: "T-1"}, {Force: true}} {
			supervisorRun(t, fmt.Sprintf("%s %+v", verb, by), func(w *supervisorWorld) {
				key := w.put(allowed[verb][0], "r1")
				before := w.get(key)
				_, err := do(w, key, by)
				assert.ErrorIs(w.t, err, toolexec.ErrRefused)
				assert.EqualError(w.t, err, "toolexec: the record does not allow this: an actor and evidence are required")
				assert.Equal(w.t, before, w.get(key))
			})
		}
	}
}

func TestSupervisorResolvesOnlyToAFact(t *testing.T) {
	for _, state := range []toolexec.CommitState{toolexec.CommitUnknown, "perhaps"} {
		supervisorRun(t, state.String(), func(w *supervisorWorld) {
			key := w.put(toolexec.StateUnknown, "r1")
			_, err := w.s.Resolve(w.t.Context(), key, state, supervisorAnn)
			assert.ErrorIs(w.t, err, toolexec.ErrRefused)
			assert.EqualError(w.t, err, "toolexec: the record does not allow this: an operation is resolved as committed or not_committed, not as "+state.String())
			assert.Equal(w.t, toolexec.StateUnknown, w.get(key).State)
		})
	}
}

// TestSupervisorWithoutTheTool: the person's process need not know the tool.
func TestSupervisorWithoutTheTool(t *testing.T) {
	for verb, state := range map[string]toolexec.State{
		"approve": toolexec.StateAwaitingApproval, "deny": toolexec.StateAwaitingApproval,
		"resolve": toolexec.StateEscalated, "reopen": toolexec.StateRejected,
	} {
		supervisorRun(t, verb, func(w *supervisorWorld) {
			key := w.put(state, "r1")
			tools := w.s
			w.s = &toolexec.Supervisor{Executor: &toolexec.Executor{Store: w.x.Store}}
			r, err := supervisorVerbs[verb](w, key, supervisorAnn)
			require.NoError(w.t, err)
			page, _, err := w.s.List(w.t.Context(), toolexec.Query{})
			require.NoError(w.t, err)
			assert.Len(w.t, page, 1)
			w.s = tools
			assert.Equal(w.t, r, w.get(key))
			switch verb {
			case "approve":
				assert.True(w.t, w.call(w.held, "r1").OK)
			case "deny":
				assert.Equal(w.t, toolexec.CodeApprovalDenied, w.call(w.held, "r1").Code)
			case "resolve":
				assert.True(w.t, w.call(w.never, "r1").Replayed)
			case "reopen":
				assert.True(w.t, w.call(w.tool, "r1").OK)
			}
		})
	}
}

// TestSupervisorsSpeakOneAfterTheOther: of many statements at once one counts, and the rest see what it did.
func TestSupervisorsSpeakOneAfterTheOther(t *testing.T) {
	w := newSupervisorWorld(t, new(toolexec.MemoryStore))
	for round := range 20 {
		key := w.put(toolexec.StateUnknown, fmt.Sprintf("r%d", round))
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				state := []toolexec.CommitState{toolexec.Committed, toolexec.NotCommitted}[i%2]
				_, errs[i] = w.s.Resolve(t.Context(), key, state, toolexec.Statement{Actor: fmt.Sprint("actor ", i), Evidence: "T-1", Force: true})
			})
		}
		wg.Wait()
		won := -1
		for i, err := range errs {
			if err == nil {
				assert.Equal(t, -1, won, "only one")
				won = i
				continue
			}
			assert.ErrorIs(t, err, toolexec.ErrRefused)
		}
		require.NotEqual(t, -1, won)
		assert.Contains(t, supervisorSaid(w.get(key)), fmt.Sprint("actor ", won))
	}
}

// TestSupervisorSpeaksWhileTheOperationIsCalled: whatever comes first, the approval is spent once.
func TestSupervisorSpeaksWhileTheOperationIsCalled(t *testing.T) {
	w := newSupervisorWorld(t, new(toolexec.MemoryStore))
	var ledger caseLedger
	w.next = func(ctx context.Context) error { ledger.post(toolexec.OperationRef(ctx)); return nil }
	for round := range 20 {
		ref := fmt.Sprintf("r%d", round)
		key := toolexec.Key{Ref: ref}
		assert.Equal(t, toolexec.CodeMissingApproval, w.call(w.held, ref).Code)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { w.call(w.held, ref) })
			wg.Go(func() {
				if _, err := approveHeld(w.s, t.Context(), key, supervisorAnn, 0); err != nil {
					assert.ErrorIs(t, err, toolexec.ErrRefused)
				}
			})
		}
		wg.Wait()
		assert.True(t, w.call(w.held, ref).OK)
		assert.Equal(t, 1, ledger.count(ref))
	}
}

// supervisorStore loses every race it is told to, or fails.
type supervisorStore struct {
	toolexec.Store
	save func(toolexec.Record) (toolexec.Record, error)
}

func (s *supervisorStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	if f := s.save; f != nil {
		s.save = nil
		return f(r)
	}
	return s.Store.Save(ctx, r)
}

func TestSupervisorAndItsStore(t *testing.T) {
	down := errors.New("down")
	setup := func(t *testing.T) (*supervisorWorld, *supervisorStore, toolexec.Key) {
		store := &supervisorStore{Store: new(toolexec.MemoryStore)}
		w := newSupervisorWorld(t, store)
		key := w.put(toolexec.StateUnknown, "r1")
		return w, store, key
	}
	t.Run("the record changed meanwhile", func(t *testing.T) {
		w, store, key := setup(t)
		store.save = func(r toolexec.Record) (toolexec.Record, error) {
			newer := w.get(key)
			newer.Alias = "seen"
			newer, err := store.Store.Save(t.Context(), newer)
			require.NoError(t, err)
			return newer, toolexec.ErrConflict
		}
		r, err := w.s.Resolve(t.Context(), key, toolexec.Committed, supervisorAnn)
		require.NoError(t, err)
		assert.Equal(t, toolexec.StateCommitted, r.State)
		assert.Equal(t, "seen", r.Alias, "nothing of the newer record is lost")
	})
	t.Run("the record went meanwhile", func(t *testing.T) {
		w, store, key := setup(t)
		store.save = func(toolexec.Record) (toolexec.Record, error) { return toolexec.Record{}, toolexec.ErrConflict }
		_, err := w.s.Resolve(t.Context(), key, toolexec.Committed, supervisorAnn)
		assert.ErrorIs(t, err, toolexec.ErrNotFound)
		assert.EqualError(t, err, "toolexec: no such record: the record is gone")
	})
	t.Run("the store fails", func(t *testing.T) {
		w, store, key := setup(t)
		store.save = func(toolexec.Record) (toolexec.Record, error) { return toolexec.Record{}, down }
		_, err := w.s.Resolve(t.Context(), key, toolexec.Committed, supervisorAnn)
		assert.Equal(t, down, err)
		assert.Equal(t, toolexec.StateUnknown, w.get(key).State)
	})
	t.Run("the store panics", func(t *testing.T) {
		w, store, key := setup(t)
		store.save = func(toolexec.Record) (toolexec.Record, error) { panic("down") }
		_, err := w.s.Resolve(t.Context(), key, toolexec.Committed, supervisorAnn)
		assert.EqualError(t, err, "toolexec: the store panicked: down")
	})
	t.Run("the caller gave up", func(t *testing.T) {
		w, _, key := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := w.s.Resolve(ctx, key, toolexec.Committed, supervisorAnn)
		assert.ErrorIs(t, err, context.Canceled)
		_, _, err = w.s.List(ctx, toolexec.Query{})
		assert.ErrorIs(t, err, context.Canceled)
	})
}

// TestSupervisorHistoryIsBounded: the oldest step stays, because it says how it began; the oldest after it go.
func TestSupervisorHistoryIsBounded(t *testing.T) {
	supervisorRun(t, "at 32", func(w *supervisorWorld) {
		key := w.put(toolexec.StateUnknown, "r1")
		first := w.get(key).History[0]
		for i := range 40 {
			time.Sleep(time.Minute)
			by := toolexec.Statement{Actor: "ann", Evidence: fmt.Sprint("T-", i)}
			_, err := w.s.Resolve(w.t.Context(), key, toolexec.NotCommitted, by)
			require.NoError(w.t, err)
			w.next = observeDoubt
			w.call(w.tool, "r1")
			h := w.get(key).History
			assert.Len(w.t, h, min(1+3*(i+1), 32))
			assert.Equal(w.t, first, h[0])
		}
		h := w.get(key).History
		assert.Equal(w.t, "in_flight: failed: OUTCOME_UNKNOWN (, )", supervisorSaid(w.get(key)))
		assert.Equal(w.t, []string{"begin", "T-39", "failed: OUTCOME_UNKNOWN"}, []string{h[30].Event, h[29].Note, h[28].Event})
	})
}

// What else a record says --------------------------------------------------------------------------------

// TestCallerWhoGaveUpIsToldTheRecord: nothing is started for it, and the answer is what is known.
func TestCallerWhoGaveUpIsToldTheRecord(t *testing.T) {
	for state, want := range map[toolexec.State]string{
		toolexec.StateAbsent:           "CANCELLED not_committed wait_and_retry 9",
		toolexec.StateReleased:         "CANCELLED not_committed wait_and_retry 8",
		toolexec.StateRejected:         "CANCELLED not_committed wait_and_retry 8",
		toolexec.StateAwaitingApproval: "MISSING_APPROVAL not_committed request_approval 0",
		toolexec.StateUnknown:          "OUTCOME_UNKNOWN unknown verify_operation 0",
		toolexec.StateEscalated:        "OUTCOME_UNKNOWN unknown escalate 0",
		toolexec.StateCommitted:        "OK committed continue 0",
		toolexec.StateInFlight:         "CANCELLED unknown wait_and_retry 8",
	} {
		supervisorRun(t, state.String(), func(w *supervisorWorld) {
			b := w.tool
			var wg sync.WaitGroup
			switch state {
			case toolexec.StateAbsent:
			case toolexec.StateInFlight: // in another process
				other := &toolexec.Executor{Store: w.x.Store}
				slow := toolexec.Bind(other, execTool("refund", toolexec.Write, func(context.Context) error { time.Sleep(time.Second); return nil }))
				wg.Go(func() { slow.Call(toolexec.WithOperationRef(w.t.Context(), "r1"), execOrder) })
				synctest.Wait()
			case toolexec.StateAwaitingApproval:
				b = w.held
				w.put(state, "r1")
			case toolexec.StateEscalated:
				b = w.never
				w.put(state, "r1")
			default:
				w.put(state, "r1")
			}
			w.next = func(context.Context) error { w.t.Error("the tool ran"); return nil }
			ctx, cancel := context.WithCancel(toolexec.WithOperationRef(w.t.Context(), "r1"))
			cancel()
			e := caseChecked(w.t, b.Call(ctx, execOrder))
			assert.Equal(w.t, want, fmt.Sprint(e.Code, " ", e.CommitState, " ", e.NextAction, " ", e.Retry.MaxAttemptsRemaining))
			wg.Wait()
		})
	}
}

// TestLookUpOfACallerWhoGaveUpDoesNotCount: it was broken off, and the verifier failed at nothing.
func TestLookUpOfACallerWhoGaveUpDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := new(toolexec.Executor)
		ctx, cancel := context.WithTimeout(toolexec.WithOperationRef(t.Context(), "r"), 100*time.Millisecond)
		defer cancel()
		b := toolexec.Bind(x, attackDoubtful(toolexec.Write, func(ctx context.Context, _ string, _ caseOrder) (toolexec.Finding[caseReceipt], error) {
			<-ctx.Done()
			return toolexec.Finding[caseReceipt]{}, ctx.Err()
		}))
		caseChecked(t, b.Call(ctx, execOrder))
		r, err := (&toolexec.Supervisor{Executor: x}).Get(t.Context(), attackKey)
		require.NoError(t, err)
		assert.Equal(t, toolexec.StateUnknown, r.State)
		assert.Zero(t, r.Checks)
		assert.Nil(t, r.Verification)
		caseClose(t, x)
	})
}

// TestAnAttemptAfterTheLookUpIsNotSeenByIt: a call looks up once. What it says of the attempt that followed is that it may be
// looked up now, and not what the look-up before it saw.
func TestAnAttemptAfterTheLookUpIsNotSeenByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := new(toolexec.Executor)
		tool := attackDoubtful(toolexec.Write, func(context.Context, string, caseOrder) (toolexec.Finding[caseReceipt], error) {
			return toolexec.Absent[caseReceipt](), nil
		})
		b := toolexec.Bind(x, tool)
		ctx := toolexec.WithOperationRef(t.Context(), "r")
		first := caseChecked(t, b.Call(ctx, execOrder))
		require.Equal(t, toolexec.NextVerifyOperation, first.NextAction)
		require.NotNil(t, first.Verification)
		time.Sleep(time.Until(first.Retry.NotBefore) + time.Millisecond)
		second := caseChecked(t, b.Call(ctx, execOrder)) // looked up, released, run again
		assert.Equal(t, toolexec.NextVerifyOperation, second.NextAction)
		assert.Nil(t, second.Verification)
		assert.Equal(t, time.Now(), second.Retry.NotBefore)
		third := caseChecked(t, b.Call(ctx, execOrder))
		require.NotNil(t, third.Verification)
		assert.Equal(t, time.Now(), third.Verification.CheckedAt.Local())
		assert.Equal(t, time.Now().Add(toolexec.DefaultSettle), third.Retry.NotBefore)
		caseClose(t, x)
	})
}

// TestCallerWhoGaveUpWithoutAStore: what an earlier call did under the ref cannot be known.
func TestCallerWhoGaveUpWithoutAStore(t *testing.T) {
	store := &truthStore{Store: new(toolexec.MemoryStore)}
	w := newSupervisorWorld(t, store)
	store.set(true, false)
	for ref, want := range map[string]toolexec.CommitState{"r1": toolexec.CommitUnknown, "": toolexec.NotCommitted} {
		ctx, cancel := context.WithCancel(toolexec.WithOperationRef(t.Context(), ref))
		cancel()
		e := caseChecked(t, w.tool.Call(ctx, execOrder))
		assert.Equal(t, toolexec.CodeCancelled, e.Code)
		assert.Equal(t, want, e.CommitState, "ref %q", ref)
	}
}

// TestApprovalFunctionsThatCrash: nothing was sent, and nothing is held.
func TestApprovalFunctionsThatCrash(t *testing.T) {
	for name, a := range map[string]toolexec.Approval[caseOrder]{
		"Required": {Required: func(caseOrder) bool { panic("a secret") }},
		"Summary":  {Summary: func(caseOrder) string { panic("a secret") }},
	} {
		t.Run(name, func(t *testing.T) {
			x := new(toolexec.Executor)
			b := toolexec.Bind(x, caseTool{Name: "pay", Approval: &a, Run: observeScript(observeOK)})
			e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder))
			assert.Equal(t, toolexec.CodeToolPanic, e.Code)
			assert.Equal(t, toolexec.NotCommitted, e.CommitState)
			_, err := (&toolexec.Supervisor{Executor: x}).Get(t.Context(), toolexec.Key{Ref: "r1"})
			assert.ErrorIs(t, err, toolexec.ErrNotFound)
		})
	}
}

// TestRecordKeepsOfArgumentsWhatTheToolAllows looks into the record of an operation that may run again.
func TestRecordKeepsOfArgumentsWhatTheToolAllows(t *testing.T) {
	for name, row := range map[string]struct {
		tool caseTool
		want string
	}{
		"all":     {caseTool{}, caseArgs},
		"none":    {caseTool{DropArguments: true}, ""},
		"sealed":  {caseTool{Seal: func([]byte) ([]byte, error) { return []byte("sealed"), nil }}, `"c2VhbGVk"`},
		"neither": {caseTool{DropArguments: true, Seal: func([]byte) ([]byte, error) { return []byte("sealed"), nil }}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := new(toolexec.Executor)
			row.tool.Name, row.tool.Run = "refund", observeScript(observeDoubt)
			checkEnvelope(t, toolexec.Bind(x, row.tool).Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder))
			r, err := (&toolexec.Supervisor{Executor: x}).Get(t.Context(), toolexec.Key{Ref: "r1"})
			require.NoError(t, err)
			assert.Equal(t, row.want, string(r.Arguments))
		})
	}
}

// supervisorFound is an operation in doubt that a look-up finds.
func supervisorFound[Out any](t *testing.T, found toolexec.Finding[Out], maxResult int) (toolexec.Envelope[Out], toolexec.Record) {
	x := new(toolexec.Executor)
	b := toolexec.Bind(x, toolexec.Tool[caseOrder, Out]{
		Name: "refund", MaxResult: maxResult,
		Run: func(context.Context, caseOrder) (out Out, err error) { return out, toolexec.InDoubt(nil) },
		Verify: &toolexec.Verifier[caseOrder, Out]{
			Lookup: func(context.Context, string, caseOrder) (toolexec.Finding[Out], error) { return found, nil },
		},
	})
	e := b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder)
	checkEnvelope(t, e)
	assert.True(t, e.OK, "found is found")
	r, err := (&toolexec.Supervisor{Executor: x}).Get(t.Context(), toolexec.Key{Ref: "r1"})
	require.NoError(t, err)
	return e, r
}

func TestLookUpFindsWithoutAResult(t *testing.T) {
	e, r := supervisorFound(t, toolexec.Found(truthStubborn{}), 0)
	assert.False(t, e.HasResult, "it cannot be encoded")
	assert.Empty(t, r.ResultDigest)

	large, r := supervisorFound(t, toolexec.Found(strings.Repeat("x", 100)), 10)
	assert.False(t, large.HasResult, "it is too large to keep")
	assert.True(t, strings.HasPrefix(r.ResultDigest, "sha256:"), r.ResultDigest)
	_, err := large.Value()
	assert.ErrorIs(t, err, toolexec.ErrNoResult)
}

func TestLookUpNamesItsEvidenceIfItIsSafe(t *testing.T) {
	for ref, want := range map[string]string{"ledger/12": "ledger/12", "two words": "", "": "", strings.Repeat("x", 201): ""} {
		f := toolexec.Found("rcpt_1")
		f.EvidenceRef = ref
		e, r := supervisorFound(t, f, 0)
		assert.Equal(t, want, e.Verification.EvidenceRef)
		assert.Equal(t, want, r.Verification.EvidenceRef)
	}
}

// TestLookUpsWithoutABoundNeverEscalate: MaxChecks is negative.
func TestLookUpsWithoutABoundNeverEscalate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := new(toolexec.Executor)
		looked := 0
		b := toolexec.Bind(x, caseTool{Name: "refund", Run: observeScript(observeDoubt), Verify: &toolexec.Verifier[caseOrder, caseReceipt]{
			MaxChecks: -1,
			Lookup: func(context.Context, string, caseOrder) (toolexec.Finding[caseReceipt], error) {
				looked++
				return toolexec.Finding[caseReceipt]{}, errors.New("down")
			},
		}})
		for range 5 * toolexec.DefaultMaxChecks {
			e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder))
			assert.Equal(t, toolexec.NextVerifyOperation, e.NextAction)
			time.Sleep(time.Hour)
		}
		assert.Equal(t, 5*toolexec.DefaultMaxChecks, looked)
	})
}

// TestMarkedResultStands: the attempt's own result is too large to keep, the marked one is not.
func TestMarkedResultStands(t *testing.T) {
	x := new(toolexec.Executor)
	b := toolexec.Bind(x, toolexec.Tool[caseOrder, string]{
		Name: "refund", MaxResult: 10,
		Run: func(ctx context.Context, _ caseOrder) (string, error) {
			return strings.Repeat("x", 100), toolexec.MarkCommitted(ctx, "rcpt_1")
		},
	})
	ctx := toolexec.WithOperationRef(t.Context(), "r1")
	assert.Len(t, caseChecked(t, b.Call(ctx, execOrder)).Result, 100, "its own caller gets it whole")
	e := caseChecked(t, b.Call(ctx, execOrder))
	assert.True(t, e.Replayed)
	assert.Equal(t, "rcpt_1", e.Result)
}

// TestRefusalOfALargeArgumentIsRemembered: its digest is taken of what is beyond the canonical form's bound.
func TestRefusalOfALargeArgumentIsRemembered(t *testing.T) {
	x := new(toolexec.Executor)
	runs := 0
	b := toolexec.Bind(x, execTool("refund", toolexec.Write, func(context.Context) error { runs++; return toolexec.Invalid("order_id", "") }))
	call := func(last string) toolexec.Code {
		in := caseOrder{OrderID: strings.Repeat("x", 1<<20) + last}
		return caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), in)).Code
	}
	assert.Equal(t, toolexec.CodeInvalidArguments, call("a"))
	assert.Equal(t, toolexec.CodeUnchangedRetry, call("a"))
	assert.Equal(t, 1, runs)
	assert.Equal(t, toolexec.CodeInvalidArguments, call("b"))
	assert.Equal(t, 2, runs, "a change of its last byte is a change")
}

func TestFingerprintText(t *testing.T) {
	f := toolexec.Fingerprint{Rule: 7, Sum: [32]byte{0: 0xab, 31: 0x01}}
	text, err := f.MarshalText()
	require.NoError(t, err)
	assert.Equal(t, "7:ab"+strings.Repeat("00", 30)+"01", string(text))
	var back toolexec.Fingerprint
	require.NoError(t, back.UnmarshalText(text))
	assert.Equal(t, f, back)
	sum := strings.Repeat("ab", 32)
	for _, bad := range []string{"", "1", "1:", "1:ab", ":" + sum, "x:" + sum, "256:" + sum, "-1:" + sum, "1:" + sum + "ab", "1:" + strings.Repeat("xy", 32)} {
		assert.EqualError(t, back.UnmarshalText([]byte(bad)), "toolexec: a fingerprint is <rule>:<64 hex digits>", bad)
	}
	assert.Equal(t, f, back, "what was refused changed nothing")
}

func TestInstantText(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 5, time.FixedZone("", 3600))
	raw, err := toolexec.At(at).MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, `"2026-03-01T11:00:00.000000005Z"`, string(raw))
	var i toolexec.Instant
	require.NoError(t, i.UnmarshalJSON(raw))
	assert.True(t, at.Equal(i.Time()))

	raw, err = toolexec.Instant{}.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, "null", string(raw))
	require.NoError(t, i.UnmarshalJSON(raw))
	assert.True(t, i.IsZero())

	_, err = toolexec.In(time.Second).MarshalJSON()
	assert.EqualError(t, err, "toolexec: a relative Instant must be resolved before it is encoded")
	assert.False(t, toolexec.In(0).IsZero())
	assert.ErrorContains(t, i.UnmarshalJSON([]byte(`"yesterday"`)), "toolexec: an Instant: ")
}

// supervisorSwap is a store that loses everything it had, or that cannot be read.
type supervisorSwap struct {
	mu    sync.Mutex
	under toolexec.Store
	err   error
}

func (s *supervisorSwap) now() (toolexec.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.under, s.err
}

func (s *supervisorSwap) Load(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
	under, err := s.now()
	if err != nil {
		return toolexec.Record{}, err
	}
	return under.Load(ctx, key)
}

func (s *supervisorSwap) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	under, err := s.now()
	if err != nil {
		return toolexec.Record{}, err
	}
	return under.Save(ctx, r)
}

func (s *supervisorSwap) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	under, err := s.now()
	if err != nil {
		return nil, toolexec.Cursor{}, err
	}
	return under.List(ctx, q)
}

// TestWaitingForAnotherOwner: a second process asks while the first one runs for 1.08 s.
func TestWaitingForAnotherOwner(t *testing.T) {
	for _, row := range []struct {
		name  string
		total time.Duration
		after time.Duration
		then  func(s *supervisorSwap) // after that time
		want  string
	}{
		{"it commits", 10 * time.Second, 0, nil, "OK continue replayed"},
		{"it commits between the last poll and the deadline", 1100 * time.Millisecond, 0, nil, "OK continue replayed"},
		{"time is up", time.Second, 0, nil, "OPERATION_IN_PROGRESS wait_and_retry"},
		{"the store cannot be read any more", 10 * time.Second, 100 * time.Millisecond, func(s *supervisorSwap) { s.err = errors.New("down") }, "OPERATION_IN_PROGRESS wait_and_retry"},
		{"the record is gone", 10 * time.Second, 100 * time.Millisecond, func(s *supervisorSwap) { s.under = new(toolexec.MemoryStore) }, "OK continue"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &supervisorSwap{under: new(toolexec.MemoryStore)}
				slow := observeScript(func(context.Context) error { time.Sleep(1080 * time.Millisecond); return nil })
				first, second := &toolexec.Executor{Store: store}, &toolexec.Executor{Store: store, Policy: toolexec.Policy{TotalDeadline: row.total}}
				a, b := toolexec.Bind(first, caseTool{Name: "refund", Run: slow}), toolexec.Bind(second, caseTool{Name: "refund", Run: observeScript(observeOK)})
				ctx := toolexec.WithOperationRef(t.Context(), "r1")
				var wg sync.WaitGroup
				wg.Go(func() { a.Call(ctx, execOrder) })
				synctest.Wait()
				if row.then != nil {
					time.AfterFunc(row.after, func() {
						store.mu.Lock()
						defer store.mu.Unlock()
						row.then(store)
					})
				}
				e := caseChecked(t, b.Call(ctx, execOrder))
				got := fmt.Sprint(e.Code, " ", e.NextAction)
				if e.Replayed {
					got += " replayed"
				}
				assert.Equal(t, row.want, got)
				wg.Wait()
				store.mu.Lock()
				store.err = nil
				store.mu.Unlock()
				caseClose(t, first)
				caseClose(t, second)
			})
		})
	}
}

// TestBeginWhoseAnswerIsLostIsGivenBack: the record was written, the time is up, and the tool never ran.
func TestBeginWhoseAnswerIsLostIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := new(toolexec.MemoryStore)
		store := &supervisorDeaf{Store: memory}
		store.once(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		x := &toolexec.Executor{Store: store, Policy: toolexec.Policy{TotalDeadline: time.Second}}
		b := toolexec.Bind(x, execTool("refund", toolexec.Write, func(context.Context) error { t.Error("the tool ran"); return nil }))
		e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder))
		assert.Equal(t, toolexec.CodeDeadlineExceeded, e.Code)
		assert.Equal(t, toolexec.NotCommitted, e.CommitState)
		r, err := memory.Load(t.Context(), toolexec.Key{Ref: "r1"})
		require.NoError(t, err)
		assert.Equal(t, toolexec.StateReleased, r.State)
		caseClose(t, x)
	})
}

// TestBeginThatIsGivenUpIsGivenBack: the first Save was stored, its answer lost, and then the store was down for a while. The
// call has ended, the tool never ran, and nobody but this process knows that the operation has no owner.
func TestBeginThatIsGivenUpIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("the connection was lost")
		saves := toolexectest.Script(toolexectest.FailAnswer(lost), toolexectest.FailRequest(lost), toolexectest.FailRequest(lost))
		store := toolexectest.WrapStore(&caseDurable{Store: new(toolexec.MemoryStore)}, toolexectest.StoreFaults{Save: saves})
		x := &toolexec.Executor{Store: store}
		b := toolexec.Bind(x, execTool("refund", toolexec.Write, observeOK))
		ctx := toolexec.WithOperationRef(t.Context(), "r1")
		e := caseChecked(t, b.Call(ctx, execOrder))
		assert.Equal(t, toolexec.CodeGuardUnavailable, e.Code)
		assert.Equal(t, toolexec.CommitUnknown, e.CommitState)
		assert.Equal(t, 3, saves.Attempts())
		time.Sleep(time.Second) // less than the lease
		r, err := store.Load(ctx, toolexec.Key{Ref: "r1"})
		require.NoError(t, err)
		assert.Equal(t, toolexec.StateReleased, r.State)
		assert.True(t, caseChecked(t, b.Call(ctx, execOrder)).OK)
		caseClose(t, x)
	})
}

// supervisorDeaf stores, and then may be slow to say so, or not say it at all.
type supervisorDeaf struct {
	toolexec.Store

	mu    sync.Mutex // protects what follows
	after func(ctx context.Context) error
}

// once is done after the next Save.
func (s *supervisorDeaf) once(after func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = after
}

func (s *supervisorDeaf) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	stored, err := s.Store.Save(ctx, r)
	s.mu.Lock()
	after := s.after
	s.after = nil
	s.mu.Unlock()
	if after != nil {
		if lost := after(ctx); lost != nil {
			return toolexec.Record{}, lost
		}
	}
	return stored, err
}
