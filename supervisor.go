package toolexec

import (
	"context"
	"time"
)

// Supervisor brings operations to an end that one call could not: it looks up
// what is unknown, takes over from owners that are lost, runs again what may be
// run, and takes the word of people where nobody else can say.
//
// Recover, Run and Wait work by themselves; see recovery.go. List and Get show.
// Approve, Deny, Resolve and Reopen are a person's: one compare-and-swap each,
// with actor and ground in the record's history. All are safe for concurrent
// use, also while operations are being called, and with the supervisors of
// other processes on the same store.
//
// Errors: ErrNotFound, ErrRefused (the error says why), ErrUnbound, or the
// store's.
type Supervisor struct {
	// Executor whose operations are meant; required.
	Executor *Executor
	// Every is how long Run pauses between passes. Default 1 s.
	Every time.Duration
	// Workers bounds how many operations a pass works on at once. Default 16;
	// negative: 1.
	Workers int
	// Rerun says which operations a pass may run again in the background: one that
	// was released for a reason that may pass, or that a person approved. Nil:
	// none; they are run when they are called again, or waited for. Set it where
	// callers repeat a call with its ref or not at all: a caller that repeats it
	// without one does not know of the second run.
	Rerun func(Record) bool
	// OnSettled is told of each operation that a pass has brought to an end, or to
	// where its caller or a person must go on; what a call or a person settles is
	// not told. It is called concurrently, at most
	// once for each such step, and not at all when the process dies in between, or
	// the store's answer to that step is lost: List shows the commits that no caller was told of with
	// Query{Open: true}. Its ctx does not end with that of Run, which waits for it.
	OnSettled func(ctx context.Context, s Settled)
}

// List returns operations that match q, a page at a time.
func (s *Supervisor) List(ctx context.Context, q Query) (page []Record, next Cursor, err error) {
	x, err := s.executor()
	if err != nil {
		return nil, Cursor{}, err
	}
	return x.list(ctx, q)
}

// Get returns the record of one operation. Its key holds the ref of the envelope;
// an alias is found with List.
func (s *Supervisor) Get(ctx context.Context, key Key) (Record, error) {
	x, err := s.executor()
	if err != nil {
		return Record{}, err
	}
	rec, err := x.load(ctx, key)
	return *rec, err
}

// Verify looks an unknown operation up now, also before its next check is due,
// and returns the record with what was found. That is safe at any time: absence
// counts only after the settle window. It is refused for an operation that is
// not unknown, and for a tool without a verifier.
func (s *Supervisor) Verify(ctx context.Context, key Key) (Record, error) {
	rec, err := s.Get(ctx, key)
	if err != nil {
		return Record{}, err
	}
	c, err := s.Executor.resume(ctx, &rec)
	switch {
	case err != nil:
		return rec, err
	case rec.State != StateUnknown:
		err = refusedIn(&rec, "verify", StateUnknown)
		return rec, err
	case !c.t.verifiable:
		return rec, refused("the tool %s has no verifier", rec.Tool)
	}
	err = c.verifyDue(ctx)
	return *c.record, err
}

// Approve allows exactly the call that was reviewed, once, within ttl (zero:
// DefaultApprovalTTL; negative: for ever): digest is the Approval.Digest of the record that the
// reviewer saw, and another call that is held by now is not approved. The
// operation runs when it is called again or waited for, and by Run where Rerun
// says so. Until it does a later decision replaces an earlier one.
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

// Reopen lets an operation that was refused, for its input or for another
// reason, run again with the same input, also in a run that was told not to
// repeat it.
func (s *Supervisor) Reopen(ctx context.Context, key Key, by Statement) (Record, error) {
	return s.change(ctx, key, by, func(m *machine, r *Record) error { return m.reopen(r, by) })
}

func (s *Supervisor) change(ctx context.Context, key Key, by Statement, apply func(*machine, *Record) error) (Record, error) {
	if err := by.check(); err != nil {
		return Record{}, err
	}
	rec, err := s.Get(ctx, key)
	if err != nil {
		return Record{}, err
	}
	m := &machine{tool: rec.Tool}
	if t := s.Executor.toolNamed(rec.Tool); t != nil {
		m = &t.machine
	}
	changed, err := s.Executor.update(ctx, &rec, func(r *Record) error { return apply(m, r) })
	return *changed, err
}
