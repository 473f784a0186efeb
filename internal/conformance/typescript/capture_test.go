package typescript

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// captured is an answer of a real executor and the type that it has in TypeScript.
type captured struct {
	name string // of the constant
	typ  string // Success<…> or Failure
	raw  json.RawMessage
}

type order struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}

type receipt struct {
	Receipt string `json:"receipt"`
}

type (
	orderTool = toolexec.Tool[order, receipt]
	look      = toolexec.Verifier[order, receipt]
)

var errUnavailable = errors.New("the store is away")

// failingStore refuses to save when told so. Embedding the interface alone hides that its records die with the process.
type failingStore struct {
	toolexec.Store
	failing atomic.Bool
}

func (s *failingStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	if s.failing.Load() {
		return toolexec.Record{}, errUnavailable
	}
	return s.Store.Save(ctx, r)
}

// capture makes calls of every outcome, in fake time.
func capture(t *testing.T) (all []captured) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{t: t, store: &failingStore{Store: new(toolexec.MemoryStore)}}
		r.x = &toolexec.Executor{Store: r.store, Policy: toolexec.Policy{MaxRetries: -1}}
		r.successes()
		r.replays()
		r.refusals()
		r.doubts()
		r.unsaved()
		require.NoError(t, r.x.Close(t.Context()))
		all = r.all
	})
	return all
}

type recorder struct {
	t     *testing.T
	store *failingStore
	x     *toolexec.Executor
	all   []captured
}

// bind adds a tool that answers with out and err.
func (r *recorder) bind(tool orderTool, out receipt, err error) {
	if tool.Run == nil {
		tool.Run = func(context.Context, order) (receipt, error) { return out, err }
	}
	toolexec.Bind(r.x, tool)
}

// call keeps the answer to one call under name, as typ.
func (r *recorder) call(name, typ, tool, ref string) {
	r.callWith(name, typ, toolexec.Call{Name: tool, OperationRef: ref, Arguments: json.RawMessage(`{"order_id":"ORD-5510","cents":8000}`)})
}

func (r *recorder) callWith(name, typ string, call toolexec.Call) {
	r.t.Helper()
	raw, err := json.Marshal(r.x.Execute(r.t.Context(), call))
	require.NoError(r.t, err)
	r.all = append(r.all, captured{name, typ, raw})
}

// quietly makes a call whose answer is not kept.
func (r *recorder) quietly(tool, ref string) {
	r.x.Execute(r.t.Context(), toolexec.Call{Name: tool, OperationRef: ref, Arguments: json.RawMessage(`{"order_id":"ORD-5510","cents":8000}`)})
}

func (r *recorder) successes() {
	done := receipt{"rcpt_1"}
	r.bind(orderTool{Name: "refund"}, done, nil)
	r.call("refunded", "Success<Receipt>", "refund", "run_81/step_4")

	r.bind(orderTool{Name: "find", Effect: toolexec.ReadOnly}, done, nil)
	r.call("found", "Success<Receipt>", "find", "")

	toolexec.Bind(r.x, toolexec.Tool[order, *receipt]{
		Name: "find_none", Effect: toolexec.ReadOnly, EmptyIsResult: true,
		Run: func(context.Context, order) (*receipt, error) { return nil, nil }, //nolint:nilnil // null is a result
	})
	r.call("foundNothing", "Success<Receipt | null>", "find_none", "run_81/step_5")

	r.bind(orderTool{Name: "refund_broken", OutputSchema: json.RawMessage(`{"required":["id"]}`)}, done, nil)
	r.call("resultWithheld", "Success<Receipt>", "refund_broken", "run_81/step_6")

	r.bind(orderTool{Name: "refund_marked", Run: func(ctx context.Context, _ order) (receipt, error) {
		return receipt{}, errors.Join(toolexec.MarkCommitted(ctx, done), errors.New("the receipt could not be printed"))
	}}, done, nil)
	r.call("marked", "Success<Receipt>", "refund_marked", "run_81/step_7")
}

func (r *recorder) replays() {
	r.call("replayed", "Success<Receipt>", "refund", "run_81/step_4")

	r.bind(orderTool{Name: "refund_small", MaxResult: -1}, receipt{"rcpt_2"}, nil)
	r.call("resultNotKept", "Success<Receipt>", "refund_small", "run_82/step_1")
	r.call("resultGone", "Success<Receipt>", "refund_small", "run_82/step_1")

	r.bind(orderTool{Name: "refund_looked_up", Verify: &look{Lookup: func(context.Context, string, order) (toolexec.Finding[receipt], error) {
		f := toolexec.Found(receipt{"rcpt_3"})
		f.EvidenceRef = "ledger/77"
		return f, nil
	}}}, receipt{}, toolexec.InDoubt(nil))
	r.call("lookedUp", "Success<Receipt>", "refund_looked_up", "run_82/step_2")

	r.bind(orderTool{Name: "refund_resolved"}, receipt{}, toolexec.InDoubt(nil))
	r.quietly("refund_resolved", "run_82/step_3")
	by := toolexec.Statement{Actor: "operator", Evidence: "seen in the ledger"}
	_, err := (&toolexec.Supervisor{Executor: r.x}).Resolve(r.t.Context(), toolexec.Key{Ref: "run_82/step_3"}, toolexec.Committed, by)
	require.NoError(r.t, err)
	r.call("resolved", "Success<Receipt>", "refund_resolved", "run_82/step_3")
}

func (r *recorder) refusals() {
	list := json.RawMessage(`{"type":"object","required":["order_id","cents","reason"],"properties":{"order_id":{"type":"string"},` +
		`"cents":{"type":"integer","minimum":1},"reason":{"enum":["late","damaged"]}}}`)
	r.bind(orderTool{Name: "refund_checked", InputSchema: list}, receipt{}, nil)
	r.callWith("malformed", "Failure", toolexec.Call{Name: "refund_checked", Arguments: json.RawMessage(`{"cents":"8000","reason":"because"}`)})
	r.callWith("unknownTool", "Failure", toolexec.Call{Name: "refnd"})

	limited := toolexec.Rejected(toolexec.CodeRateLimited, nil)
	limited.RetryAfter = time.Minute
	refusal := func(name, code string, details toolexec.Details) {
		f := toolexec.Rejected(toolexec.Code(code), nil)
		f.Details = details
		r.bind(orderTool{Name: name, DetailKeys: []string{"holds", "ratio"}}, receipt{}, f)
	}
	for _, tool := range []struct {
		orderTool
		err error
	}{
		{orderTool{Name: "find_limited", Effect: toolexec.ReadOnly}, limited},
		{orderTool{Name: "find_empty", Effect: toolexec.ReadOnly}, toolexec.Empty("")},
		{orderTool{Name: "refund_invalid"}, toolexec.Invalid("cents", "at most 5000")},
		{orderTool{Name: "refund_approved", Approval: &toolexec.Approval[order]{}}, nil},
		{orderTool{Name: "refund_panics", MarksSent: true, Run: func(context.Context, order) (receipt, error) { panic("bug") }}, nil},
	} {
		r.bind(tool.orderTool, receipt{}, tool.err)
	}
	refusal("refund_denied", string(toolexec.CodePermissionDenied), nil)
	refusal("refund_changed", string(toolexec.CodeVersionConflict), toolexec.Details{
		toolexec.DetailResourceVersion: 7, toolexec.DetailPartial: true, "holds": false, "ratio": 0.25,
	})
	refusal("refund_own_code", "ORDER_LOCKED", nil)

	r.call("rateLimited", "Failure", "find_limited", "run_83/step_1")
	r.call("empty", "Failure", "find_empty", "run_83/step_2")
	r.call("invalid", "Failure", "refund_invalid", "run_83/step_3")
	r.call("unapproved", "Failure", "refund_approved", "run_83/step_4")
	r.call("crashed", "Failure", "refund_panics", "run_83/step_5")
	r.call("denied", "Failure", "refund_denied", "run_83/step_6")
	r.call("changed", "Failure", "refund_changed", "run_83/step_7")
	r.call("ownCode", "Failure", "refund_own_code", "run_83/step_8")
	r.call("refReused", "Failure", "refund_own_code", "run_81/step_4")
}

func (r *recorder) doubts() {
	r.bind(orderTool{Name: "refund_lost", VerificationTool: "find"}, receipt{}, toolexec.InDoubt(nil))
	r.call("unknown", "Failure", "refund_lost", "run_84/step_1")

	r.bind(orderTool{Name: "save_lost", Effect: toolexec.Idempotent}, receipt{}, toolexec.InDoubt(nil))
	r.call("unknownIdempotent", "Failure", "save_lost", "run_84/step_2")

	r.bind(orderTool{Name: "refund_absent", Verify: &look{Lookup: func(context.Context, string, order) (toolexec.Finding[receipt], error) {
		return toolexec.Absent[receipt](), nil
	}}}, receipt{}, toolexec.InDoubt(nil))
	r.call("lookedForInVain", "Failure", "refund_absent", "run_84/step_3")

	r.bind(orderTool{Name: "refund_unverifiable", Unverifiable: true}, receipt{}, toolexec.InDoubt(nil))
	r.call("escalated", "Failure", "refund_unverifiable", "run_84/step_4")

	r.bind(orderTool{Name: "refund_unsent"}, receipt{}, toolexec.NotSent(nil))
	r.call("notSent", "Failure", "refund_unsent", "run_84/step_5")
}

// unsaved makes calls whose end cannot be stored at first.
func (r *recorder) unsaved() {
	for _, c := range []struct {
		name, typ, ref string
		err            error
	}{
		{"unrecorded", "Success<Receipt>", "run_85/step_1", nil},
		{"unrecordedFailure", "Failure", "run_85/step_2", toolexec.NotSent(nil)},
	} {
		r.bind(orderTool{Name: c.name, Run: func(context.Context, order) (receipt, error) {
			r.store.failing.Store(true)
			return receipt{"rcpt_4"}, c.err
		}}, receipt{}, nil)
		r.call(c.name, c.typ, c.name, c.ref)
		r.store.failing.Store(false)
	}
}
