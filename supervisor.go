package toolexec

import (
	"context"
	"time"
)

// Supervisor is how people settle what the executor may not decide: it shows
// operations, takes approvals and denials, and takes a person's word on an
// outcome that nobody can look up. Every statement is stored in the record's
// history with its actor and ground.
//
// Its methods are one compare-and-swap each and safe for concurrent use, also
// while the operation is being called. They return the record as it then is.
// Errors: ErrNotFound, ErrRefused (the error says why), or the store's.
type Supervisor struct {
	// Executor whose store is meant; required.
	Executor *Executor
}

// List returns operations that match q, a page at a time.
func (s *Supervisor) List(ctx context.Context, q Query) (page []Record, next Cursor, err error) {
	return s.Executor.list(ctx, q)
}

// Get returns the record of one operation.
func (s *Supervisor) Get(ctx context.Context, key Key) (Record, error) {
	return s.Executor.load(ctx, key)
}

// Approve allows exactly the call that was reviewed, once, within ttl (zero:
// DefaultApprovalTTL; negative: for ever): digest is the Approval.Digest of the record that the
// reviewer saw, and another call that is held by now is not approved. The
// operation runs when it is called again. Until it does a later decision
// replaces an earlier one.
func (s *Supervisor) Approve(ctx context.Context, key Key, digest string, by Statement, ttl time.Duration) (Record, error) {
	inherit(&ttl, DefaultApprovalTTL)
	return s.change(ctx, key, by, func(m *machine, r *Record) error { return m.approve(r, digest, by, ttl, r.Now) })
}

// Deny refuses the call that is held under key, approved or not; only Resolve
// opens it again.
func (s *Supervisor) Deny(ctx context.Context, key Key, by Statement) (Record, error) {
	return s.change(ctx, key, by, func(m *machine, r *Record) error { return m.deny(r, by) })
}

// Resolve settles an unknown or escalated operation as Committed or
// NotCommitted. NotCommitted is refused while an attempt can still take
// effect, unless the statement forces it.
func (s *Supervisor) Resolve(ctx context.Context, key Key, state CommitState, by Statement) (Record, error) {
	return s.change(ctx, key, by, func(m *machine, r *Record) error { return m.resolve(r, state, by, r.Now) })
}

// Reopen lets a rejected operation run again with the same input.
func (s *Supervisor) Reopen(ctx context.Context, key Key, by Statement) (Record, error) {
	return s.change(ctx, key, by, func(m *machine, r *Record) error { return m.reopen(r, by) })
}

func (s *Supervisor) change(ctx context.Context, key Key, by Statement, apply func(*machine, *Record) error) (Record, error) {
	if err := by.check(); err != nil {
		return Record{}, err
	}
	rec, err := s.Executor.load(ctx, key)
	if err != nil {
		return Record{}, err
	}
	m := &machine{tool: rec.Tool}
	if t := s.Executor.toolNamed(rec.Tool); t != nil {
		m = &t.machine
	}
	return s.Executor.update(ctx, rec, func(r *Record) error { return apply(m, r) })
}
