package toolexec

import (
	"context"
	"encoding/json"
	"time"
)

// Wait takes the operation of key, which holds the ref of its envelope, to its
// end and returns the envelope then: it waits for
// whoever runs it, until a look-up or another attempt is due, and for a person's
// decision; it looks up, takes over from a lost owner, and runs the operation
// again where that is allowed and Rerun, if set, agrees. So the moments of an
// envelope (Retry.NotBefore) need no timer of the caller's. They are kept in the
// record: a restart neither shortens a wait nor gives back an attempt.
//
// It ends with an operation that is committed, rejected or escalated, with one
// that was released for a reason that will not pass by itself, and with a held
// call for which nobody has decided in time: that one has to be made again. When ctx ends first it
// returns the envelope of what is known then, and the error of ctx. A caller
// that waits knows of the run that may follow: it must not repeat the call
// without its ref.
func (s *Supervisor) Wait(ctx context.Context, key Key) (Envelope[json.RawMessage], error) {
	if _, err := s.executor(); err != nil {
		return Envelope[json.RawMessage]{}, err
	}
	for {
		c, err := s.look(ctx, key)
		if err != nil {
			return Envelope[json.RawMessage]{}, err
		}
		if s.isOver(c) {
			return c.waited(), nil
		}
		if ctx.Err() != nil {
			return c.waited(), ctx.Err()
		}
		if due := c.record.DueAt(); due.IsZero() || c.wait(due) > 0 {
			s.awaitDue(ctx, c, due)
			continue
		}
		was := c.record.Version
		if err := c.advance(context.WithoutCancel(ctx), s.agrees); err != nil {
			s.Executor.note(ctx, RecoveryFailed{err})
		}
		if c.record.Version == was { // nothing could be done or stored
			sleepUntil(ctx, waitPoll)
		}
	}
}

// waitPoll is how often Wait tries what it could not do.
const waitPoll = 250 * time.Millisecond

// look loads the operation of key as a call.
func (s *Supervisor) look(ctx context.Context, key Key) (*call, error) {
	ctx = context.WithoutCancel(ctx)
	loading, cancel := context.WithTimeout(ctx, 2*bookkeeping)
	defer cancel()
	rec, err := s.Executor.load(loading, key)
	if err != nil {
		return nil, err
	}
	return s.Executor.resume(ctx, rec)
}

// agrees: who waits for an operation wants it run, unless Rerun says no.
func (s *Supervisor) agrees(r *Record) bool { return s.Rerun == nil || s.mayRerun(r) }

// isOver: what is left to do is not the supervisor's.
func (s *Supervisor) isOver(c *call) bool {
	r := c.record
	switch r.State.Safe() {
	case StateCommitted, StateRejected, StateEscalated:
		return true
	case StateReleased:
		return !r.worthRepeating() || !s.agrees(r) || !c.runnable()
	case StateAwaitingApproval:
		a := r.Approval
		tooLate := a != nil && a.Decision == "" && a.expired(c.storeNow())
		return tooLate || !r.DueAt().IsZero() && !s.agrees(r) || !c.runnable()
	}
	return false
}

// awaitDue waits until the operation is due, or has changed.
func (s *Supervisor) awaitDue(ctx context.Context, c *call, due Instant) {
	if !due.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.local(due).Add(time.Millisecond))
		defer cancel()
	}
	_ = s.Executor.awaitChange(ctx, c.key, c.record.Version)
}

// waited is the answer to one who has waited: it hears of a commit.
func (c *call) waited() Envelope[json.RawMessage] {
	if c.record.State == StateCommitted && c.record.Unheard {
		c.hear(c.record)
	}
	return c.raw(c.standingAnswer())
}
