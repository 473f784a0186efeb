package toolexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The part of the supervisor that works by itself: it takes operations that are
// due one step further, after a crash or long after their callers have left.
// What may be done with them is the state machine's; see transition.go.

// Recovery is what one pass over the operations that were due came to.
type Recovery struct {
	// Due is how many operations the pass has worked on.
	Due int
	// Settled of them are committed, released, rejected, held for approval or with
	// a person now; Open ones are in flight or unknown, and will be due again.
	Settled, Open int
	// Unbound have a tool that this process does not have; they are left as they
	// are, for a process that has it.
	Unbound int
	// Failed could not be read or stored; they stay due.
	Failed int
}

// Settled is an operation that the supervisor has brought to an end, or to
// where a caller or a person has to go on.
type Settled struct {
	Record Record
	// Envelope is what a call of the operation would be answered now.
	Envelope Envelope[json.RawMessage]
}

// ErrUnbound is what the Supervisor answers about an operation whose tool is
// not bound to its executor.
var ErrUnbound = errors.New("toolexec: the operation's tool is not bound in this process")

// The bounds of a Supervisor that is not told otherwise.
const (
	DefaultRecoverEvery   = time.Second
	DefaultRecoverWorkers = 16

	recoverPage  = 256
	recoverClaim = time.Minute

	recoverPatience = 30 * time.Second // with one listing of the store
	pruneBatch      = 256
)

// Recover is one pass over the operations that are due, whoever began them:
//
//	in flight, its lease is over      its owner is lost: released when nothing can
//	                                  have been sent, else unknown
//	unknown, with a verifier          looked up; an Idempotent one once, then it is sent again
//	unknown, Idempotent without one   sent again with the same ref, within DedupeWindow
//	unknown, neither                  with a person, once nothing can arrive any more
//	released or approved              run again, if Rerun says so
//
// What cannot be run again, because the record keeps no arguments or none that
// the tool can read, counts as neither.
//
// It holds a page of records at a time. A step that has begun is finished when
// ctx ends, within the deadlines of its tool, so that no record is left in
// between. The error is the store's; the next pass finds what this one did not
// reach. Passes of several processes may overlap: each step is one
// compare-and-swap.
func (s *Supervisor) Recover(ctx context.Context) (Recovery, error) {
	var done Recovery
	x, err := s.executor()
	if err != nil {
		return done, err
	}
	q := Query{States: s.dueStates(), DueBefore: In(0), Limit: recoverPage}
	if claimer, ok := x.records().(Claimer); ok {
		err = s.recoverClaimed(ctx, claimer, q, &done)
	} else {
		err = s.recoverListed(ctx, q, &done)
	}
	if err != nil {
		return done, fmt.Errorf("toolexec: looking for operations that are due: %w", err)
	}
	if done.Due > 0 {
		x.note(ctx, RecoveryPass{done})
	}
	return done, ctx.Err()
}

// recoverListed works on all that is due, a page at a time.
func (s *Supervisor) recoverListed(ctx context.Context, q Query, done *Recovery) error {
	for ctx.Err() == nil {
		page, next, err := s.Executor.listIn(ctx, q)
		if err != nil {
			return err
		}
		q.endWith(page)
		s.work(ctx, page, done)
		if next == (Cursor{}) {
			break
		}
		q.After = next
	}
	return nil
}

// recoverClaimed works on what it can claim, tool by tool: an operation whose
// tool is bound elsewhere is left for who has it, and only counted, up to a page
// of them.
func (s *Supervisor) recoverClaimed(ctx context.Context, claimer Claimer, q Query, done *Recovery) error {
	x := s.Executor
	for _, t := range x.sorted() {
		q.Tool = t.name
		for ctx.Err() == nil {
			page, err := claimIn(ctx, claimer, q)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			q.endWith(page)
			s.work(ctx, page, done)
		}
	}
	q.Tool = ""
	page, _, err := x.listIn(ctx, q)
	for _, rec := range page {
		if x.toolNamed(rec.Tool) == nil {
			done.add(Recovery{Due: 1, Unbound: 1})
		}
	}
	return err
}

// endWith ends a pass with what was due at its beginning.
func (q *Query) endWith(page []Record) {
	if len(page) > 0 && q.DueBefore.Time().IsZero() {
		q.DueBefore = At(page[0].Now)
	}
}

// listIn and claimIn bound a store that does not answer.
func (x *Executor) listIn(ctx context.Context, q Query) ([]Record, Cursor, error) {
	ctx, cancel := context.WithTimeout(ctx, recoverPatience)
	defer cancel()
	return x.list(ctx, q)
}

func claimIn(ctx context.Context, c Claimer, q Query) (page []Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, recoverPatience)
	defer cancel()
	defer recoverStore(&err)
	return c.Claim(ctx, q, recoverClaim)
}

// Run repeats Recover every Every until ctx ends and the steps in progress have
// ended; then it returns nil. After each pass it lets a store that is a Pruner
// delete what retention allows. What goes wrong is noted to the executor's
// observer, and tried again.
func (s *Supervisor) Run(ctx context.Context) error {
	x, err := s.executor()
	if err != nil {
		return err
	}
	every := s.Every
	inherit(&every, DefaultRecoverEvery)
	for {
		if _, err := s.Recover(ctx); err != nil && ctx.Err() == nil {
			x.note(ctx, RecoveryFailed{err})
		}
		if err := x.prune(ctx); err != nil && ctx.Err() == nil {
			x.note(ctx, RecoveryFailed{err})
		}
		if !sleepUntil(ctx, max(every, time.Millisecond)) {
			return nil
		}
	}
}

// prune deletes what retention allows, a batch at a time, where the store
// leaves that to others.
func (x *Executor) prune(ctx context.Context) (err error) {
	pruner, ok := x.records().(Pruner)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recoverPatience)
	defer cancel()
	defer recoverStore(&err)
	for ctx.Err() == nil {
		if n, err := pruner.Prune(ctx, pruneBatch); err != nil || n < pruneBatch {
			return err
		}
	}
	return nil
}

func (s *Supervisor) executor() (*Executor, error) {
	if s.Executor == nil {
		return nil, errors.New("toolexec: the Supervisor has no Executor; set the one whose operations it is to supervise")
	}
	return s.Executor, nil
}

func (s *Supervisor) dueStates() []State {
	if s.Rerun == nil {
		return []State{StateInFlight, StateUnknown}
	}
	return []State{StateInFlight, StateUnknown, StateReleased, StateAwaitingApproval}
}

// work takes the operations of a page a step further, Workers at a time.
func (s *Supervisor) work(ctx context.Context, page []Record, done *Recovery) {
	workers := s.Workers
	inherit(&workers, DefaultRecoverWorkers)
	var (
		mu   sync.Mutex // protects done
		wg   sync.WaitGroup
		jobs = make(chan Record)
	)
	for range min(max(workers, 1), len(page)) {
		wg.Go(func() {
			for rec := range jobs {
				one := s.step(context.WithoutCancel(ctx), rec)
				mu.Lock()
				done.add(one)
				mu.Unlock()
			}
		})
	}
	for _, rec := range page {
		if ctx.Err() != nil {
			break
		}
		jobs <- rec
	}
	close(jobs)
	wg.Wait()
}

func (r *Recovery) add(o Recovery) {
	r.Due += o.Due
	r.Settled += o.Settled
	r.Open += o.Open
	r.Unbound += o.Unbound
	r.Failed += o.Failed
}

// step takes one operation a step further and tells the host if that settled it.
func (s *Supervisor) step(ctx context.Context, listed Record) Recovery {
	if listed.isSettled() && !s.mayRerun(&listed) {
		return Recovery{} // it is its caller's
	}
	c, err := s.advance(ctx, listed.Key, func(r *Record) bool {
		return listed.isSettled() && r.Version == listed.Version || s.mayRerun(r) // asked already
	})
	switch {
	case errors.Is(err, ErrUnbound):
		return Recovery{Due: 1, Unbound: 1}
	case errors.Is(err, ErrNotFound):
		return Recovery{Due: 1, Settled: 1} // retention was quicker
	case err != nil:
		s.Executor.note(ctx, RecoveryFailed{err})
		return Recovery{Due: 1, Failed: 1}
	case !c.record.isSettled():
		return Recovery{Due: 1, Open: 1}
	}
	if c.changed && (c.record.DueAt().IsZero() || !s.mayRerun(c.record)) {
		s.tell(ctx, c)
	}
	return Recovery{Due: 1, Settled: 1}
}

// mayRerun: what is released or approved runs again when the host says so.
func (s *Supervisor) mayRerun(r *Record) bool {
	allowed := false
	_ = contained(func() error { allowed = s.Rerun != nil && s.Rerun(r.Clone()); return nil })
	return allowed
}

// isSettled: nothing is in doubt or under way.
func (r *Record) isSettled() bool {
	return r.State != StateInFlight && r.State != StateUnknown
}

// tell calls OnSettled. The result of a commit may have to be loaded for it.
func (s *Supervisor) tell(ctx context.Context, c *call) {
	if s.OnSettled == nil {
		return
	}
	if c.record.ResultPresent && c.record.Result == nil {
		_ = c.look() // without it the envelope says that the result is not known
	}
	settled := Settled{Record: c.record.Clone(), Envelope: c.raw(c.standingAnswer())}
	_ = contained(func() error { s.OnSettled(ctx, settled); return nil })
}

// advance takes the operation of key one step further if it is due, and returns
// it as a call, with the record as it then is.
func (s *Supervisor) advance(ctx context.Context, key Key, mayRun func(*Record) bool) (*call, error) {
	loading, cancel := context.WithTimeout(ctx, 2*bookkeeping)
	defer cancel()
	rec, err := s.Executor.load(loading, key) // the newest, with its bodies
	if err != nil {
		return nil, err
	}
	c, err := s.Executor.resume(ctx, rec)
	if err != nil {
		return nil, err
	}
	if due := rec.DueAt(); due.IsZero() || due.Time().After(c.storeNow()) {
		return c, nil // somebody was quicker
	}
	err = c.advance(ctx, mayRun)
	return c, err
}

// resume makes a call of what a record keeps. Its shell has no arguments when
// the record keeps none, or none that mean the same to the tool as they did.
func (x *Executor) resume(ctx context.Context, rec *Record) (*call, error) {
	t := x.toolNamed(rec.Tool)
	if t == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnbound, rec.Tool)
	}
	c := x.resumed(ctx, t, rec, t.reopen(rec.Arguments))
	if !c.partial && (c.identify() != nil || c.intent.fingerprint != rec.Fingerprint) {
		c = x.resumed(ctx, t, rec, nil)
	}
	return c, nil
}

// resumed makes a call of s, of no arguments if that is nil.
func (x *Executor) resumed(ctx context.Context, t *tool, rec *Record, s namedShell) *call {
	partial := s == nil
	if partial {
		s = t.blank()
	}
	c := s.core()
	c.x, c.t, c.shell, c.byName, c.encode = x, t, s, true, true
	c.caller, c.key, c.operation = ctx, rec.Key, &operation{record: rec, resumed: true, partial: partial}
	c.intent.fingerprint = rec.Fingerprint
	c.startWatch()
	c.saw(rec)
	return c
}

// runnable completes the intent of a resumed call. It is false when the record
// keeps too little, or the tool's Check refuses it by now: then the operation is
// left to its caller.
func (c *call) runnable() bool {
	return !c.partial && c.t.faithful && c.t.guarded() && c.runCheck() == nil && c.intend() == nil
}

// reopen makes a shell of the arguments that a record keeps, nil when it cannot.
// They are not validated again: they were when they came in, and whether they
// are still the same is seen by their fingerprint.
func (t *tool) reopen(kept []byte) (s namedShell) {
	if kept == nil || t.seal != nil && t.open == nil {
		return nil
	}
	err := contained(func() (err error) {
		if t.seal != nil {
			var sealed []byte
			if err := json.Unmarshal(kept, &sealed); err != nil {
				return err
			}
			if kept, err = t.open(sealed); err != nil {
				return err
			}
		}
		s, err = t.reread(kept)
		return err
	})
	if err != nil {
		return nil
	}
	return s
}

// advance takes the operation one step: it is looked up, sent again, handed
// over, or only loses its owner. mayRun is asked about what is released or
// approved.
func (c *call) advance(ctx context.Context, mayRun func(*Record) bool) error {
	now := c.storeNow()
	ahead := c.record.cloneHead() // what it is without its lost owner
	lost := c.t.reclaim(&ahead, now)
	switch {
	case ahead.State == StateUnknown && c.t.verifiable && (ahead.Verification == nil || !c.resendable(&ahead, now)):
		return c.verifyDue(ctx)
	case c.resendable(&ahead, now), !lost && ahead.State != StateUnknown && mayRun(c.record) && c.runnable():
		c.runAgain(ctx)
		return nil
	case !lost && ahead.State != StateUnknown:
		return nil // it is its caller's
	}
	return c.change(func(r *Record) {
		if r.State == StateUnknown {
			c.t.handOver(r, now)
		}
	})
}

// resendable: the remote side still deduplicates by the ref.
func (c *call) resendable(r *Record, now time.Time) bool {
	return r.State == StateUnknown && c.t.strictest(r.Effect) == Idempotent && c.runnable() && c.t.mayResend(r, &c.intent, now) &&
		c.mayStart(c.caller) == nil
}

// verifyDue looks the operation up. Its lost owner and what the look-up found
// are one compare-and-swap: whether the look-up began late enough is judged on
// the record that is stored.
func (c *call) verifyDue(ctx context.Context) error {
	l := c.lookup(ctx)
	if l.failed && gaveUp(ctx) {
		return context.DeadlineExceeded // of the caller, not of the verifier
	}
	return c.change(func(r *Record) {
		c.t.verified(r, l.asOf(r))
		r.Unheard = r.State == StateCommitted // its callers have left
	})
}

// change stores the loss of the owner, if its lease is over, and what apply
// does to an operation that nobody owns, if that is anything.
func (c *call) change(apply func(*Record)) error {
	ctx, cancel := c.afterwards(2 * bookkeeping)
	defer cancel()
	rec, err := c.x.update(ctx, c.record, func(r *Record) error {
		lost := c.t.reclaim(r, c.storeNow())
		was := r.State
		apply(r)
		if !lost && was != StateUnknown && r.State == was {
			return errOwnerLost // a living owner has it, or it is settled
		}
		return nil
	})
	if err != nil && !errors.Is(err, errOwnerLost) {
		return err
	}
	c.changed = err == nil
	c.saw(rec)
	return nil
}

// runAgain is a call of the operation, with its own attempts and pauses. It does
// not wait where another call has it: what is to be done after that one is
// another question.
func (c *call) runAgain(ctx context.Context) {
	again := func(ctx context.Context) head {
		f, mine := c.x.flights.enter(c.key)
		if !mine {
			return c.standingAnswer()
		}
		return c.ownKey(ctx, f, c.record)
	}
	_ = contained(func() error { // a Cooperative tool may end its goroutine
		if c.x.Observer == nil {
			again(ctx)
		} else {
			c.observed(ctx, c.t.name, again)
		}
		return nil
	})
}
