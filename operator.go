package toolexec

import (
	"errors"
	"fmt"
	"time"
)

// What a person decided about an operation that awaits approval.
const (
	decisionApproved = "approved"
	decisionDenied   = "denied"
)

// ErrRefused is what an operator's statement gets that the record does not
// allow; the error says which and why.
var ErrRefused = errors.New("toolexec: the record does not allow this")

// Statement is what an operator says about an operation, and on what ground.
// Both are stored in the record's history.
type Statement struct {
	// Actor names the person or system; required.
	Actor string
	// Evidence is the ground: a ticket, a ledger line, a reason; required.
	Evidence string
	// Force overrides the settle window of a Resolve to NotCommitted. It is
	// recorded. With Force the guarantee rests on the statement alone.
	Force bool
}

func (s Statement) check() error {
	if s.Actor == "" || s.Evidence == "" {
		return fmt.Errorf("%w: an actor and evidence are required", ErrRefused)
	}
	return nil
}

// approve allows exactly the call that is held, until ttl has passed.
func (m *machine) approve(r *Record, digest string, s Statement, ttl time.Duration, now time.Time) error {
	switch {
	case r.State != StateAwaitingApproval || r.Approval == nil:
		return refusedIn(r, "approve", StateAwaitingApproval)
	case r.Approval.Digest != digest:
		return fmt.Errorf("%w: another call is held by now than the one that was reviewed; look again", ErrRefused)
	case r.Approval.Decision == "" && r.Approval.expired(now):
		return fmt.Errorf("%w: the call waited for a decision until %s; it has to be made again", ErrRefused, untilText(r.Approval.Expires))
	}
	r.Approval.Decision, r.Approval.Actor, r.Approval.Reason = decisionApproved, s.Actor, s.Evidence
	r.Approval.Spent, r.Approval.SpentBy, r.Approval.Expires = false, "", Instant{}
	if ttl > 0 {
		r.Approval.Expires = In(ttl)
	}
	r.note("approved", s.Actor, s.Evidence)
	return nil
}

// deny refuses the call that is held, for good.
func (m *machine) deny(r *Record, s Statement) error {
	if r.State != StateAwaitingApproval || r.Approval == nil {
		return refusedIn(r, "deny", StateAwaitingApproval)
	}
	r.Approval.Decision, r.Approval.Actor, r.Approval.Reason = decisionDenied, s.Actor, s.Evidence
	r.LastFailure = &FailureRecord{Code: CodeApprovalDenied, Category: CategoryAuthorization}
	r.note("denied", s.Actor, s.Evidence)
	m.escalate(r, "approval denied")
	return nil
}

// resolve settles an operation by a person's word.
func (m *machine) resolve(r *Record, state CommitState, s Statement, now time.Time) error {
	if r.State != StateUnknown && r.State != StateEscalated {
		return refusedIn(r, "resolve", StateUnknown, StateEscalated)
	}
	switch state {
	case Committed:
		r.note("resolved: committed", s.Actor, s.Evidence)
		r.Verification = &Verification{CheckedAt: now, Source: SourceOperator}
		r.settleCommitted()
		r.Unheard = true
		return nil
	case NotCommitted:
		return m.resolveAbsent(r, s, now)
	}
	return fmt.Errorf("%w: an operation is resolved as committed or not_committed, not as %s", ErrRefused, state)
}

// resolveAbsent gives the operation a new allowance.
func (m *machine) resolveAbsent(r *Record, s Statement, now time.Time) error {
	event := "resolved: not committed"
	if !r.settledBy(now) {
		if !s.Force {
			return fmt.Errorf("%w: an attempt of it can still take effect; wait until %s, or force it", ErrRefused, untilText(r.settleUntil()))
		}
		event += ", forced before the settle window closed"
	}
	r.note(event, s.Actor, s.Evidence)
	r.Attempts, r.Corrections, r.Approval, r.NotBefore = 0, 0, nil, Instant{}
	r.release()
	return nil
}

func untilText(i Instant) string {
	if i.IsZero() {
		return "it has ended"
	}
	return wholeSecond(i.Time())
}

// reopen lets a refused operation run again with the same input.
func (m *machine) reopen(r *Record, s Statement) error {
	if r.State != StateRejected && r.State != StateReleased {
		return refusedIn(r, "reopen", StateRejected, StateReleased)
	}
	r.note("reopened", s.Actor, s.Evidence)
	r.Corrections, r.RejectedFields = 0, nil
	r.release()
	return nil
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}

func refusedIn(r *Record, verb string, want ...State) error {
	return fmt.Errorf("%w: %s wants an operation that is %v; this one is %s", ErrRefused, verb, want, r.State)
}
