package toolexec

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// VerifyOperationTool is the name of the tool that BindVerifyOperation adds.
const VerifyOperationTool = "verify_operation"

// VerifyOperation is the input of that tool.
type VerifyOperation struct {
	OperationRef string `json:"operation_ref" jsonschema:"the operation_ref of an earlier answer"`
}

// OperationStatus is its answer: what is known of an operation, and what may be
// done next about it.
type OperationStatus struct {
	OperationRef string `json:"operation_ref"`
	// Known is false when there is no record of the operation, which proves
	// nothing: it may have been forgotten.
	Known       bool        `json:"known"`
	Tool        string      `json:"tool,omitempty"`
	CommitState CommitState `json:"commit_state"`
	NextAction  NextAction  `json:"next_action"`
	// NotBefore is the earliest sensible time for NextAction.
	NotBefore time.Time `json:"not_before,omitzero"`
	// Verification says when and from what this is known, Result what the
	// operation returned, where it committed and that is kept.
	Verification *Verification   `json:"verification,omitempty"`
	Result       json.RawMessage `json:"result,omitempty"`
}

// BindVerifyOperation adds to x the tool with which an agent can find out what
// became of an operation of its own: of the scope of its call, by operation ref
// or alias. It asks the operation's verifier when a look-up is due, never
// before, and never runs anything again. Envelopes then name it as the
// verification tool of every tool that has a verifier.
func BindVerifyOperation(x *Executor) *Bound[VerifyOperation, OperationStatus] {
	return Bind(x, Tool[VerifyOperation, OperationStatus]{
		Name:        VerifyOperationTool,
		Description: "Find out what became of an operation whose outcome is unknown, by its operation_ref. It changes nothing.",
		Effect:      ReadOnly,
		Policy:      Policy{Deadline: -1, MaxRetries: -1}, // a look-up has a deadline of its own
		Run: func(ctx context.Context, in VerifyOperation) (OperationStatus, error) {
			if !validRef(in.OperationRef) {
				return OperationStatus{}, Invalid("operation_ref", "It is not an operation_ref.")
			}
			return x.operationStatus(ctx, in.OperationRef)
		},
	})
}

// verificationToolOf names the tool with which operations of t can be looked up.
func (x *Executor) verificationToolOf(t *tool) string {
	if t.verificationTool == "" && t.verifiable && x.toolNamed(VerifyOperationTool) != nil {
		return VerifyOperationTool
	}
	return t.verificationTool
}

func (x *Executor) operationStatus(ctx context.Context, ref string) (OperationStatus, error) {
	status := OperationStatus{OperationRef: ref, NextAction: NextEscalate}
	rec, err := x.findOperation(ctx, Key{invocationOf(ctx).call.key.Scope, ref})
	switch {
	case errors.Is(err, ErrNotFound):
		return status, nil
	case err != nil:
		return status, Transient(err)
	}
	status.Known, status.Tool, status.CommitState = true, rec.Tool, rec.CommitState()
	if status.CommitState == Committed {
		status.NextAction = NextContinue
	}
	c, err := x.resume(ctx, rec)
	if err != nil {
		return status, nil //nolint:nilerr // another process has the tool; its word is not ours to give
	}
	if c.lookUpDue() {
		if err := c.verifyDue(ctx); err != nil {
			return status, Transient(err)
		}
	}
	e := c.raw(c.standingAnswer()) // the commit stays unheard: this answer may be cut yet
	status.CommitState, status.NextAction, status.NotBefore = e.CommitState, e.NextAction, e.Retry.NotBefore
	status.Verification, status.Result = e.Verification, e.Result
	return status, nil
}

// findOperation loads an operation by its ref, or by one that a caller gave
// beside the tool's own key.
func (x *Executor) findOperation(ctx context.Context, key Key) (*Record, error) {
	rec, err := x.load(ctx, key)
	if !errors.Is(err, ErrNotFound) {
		return rec, err
	}
	page, listErr := x.first(ctx, Query{Scope: &key.Scope, Alias: key.Ref, Limit: 2})
	switch {
	case listErr != nil:
		return rec, listErr
	case len(page) != 1: // none, or one of several
		return rec, err
	}
	return x.load(ctx, page[0].Key)
}

// lookUpDue reports whether the operation should be looked up now: it is
// unknown, or its owner is lost, and the time for it has come.
func (c *call) lookUpDue() bool {
	now := c.storeNow()
	due := c.record.DueAt()
	ahead := c.record.cloneHead()
	c.t.reclaim(&ahead, now)
	return ahead.State == StateUnknown && c.t.verifiable && !due.Time().After(now)
}
