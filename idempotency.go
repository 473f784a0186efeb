package toolexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The guard: one record per operation decides who may run it. transition.go
// says what may happen; this file makes it happen on a Store, and keeps the
// calls of one process from asking the store the same question twice.

// guarded runs a Write or Idempotent tool.
func (c *call) guarded(ctx context.Context) head {
	if c.key.Ref != "" && !validRef(c.key.Ref) {
		return c.invalidRef()
	}
	f := c.identify()
	if f == nil {
		f = c.name()
	}
	if f != nil { // it names no operation
		return c.unusable(f)
	}
	if f = c.runCheck(); f == nil {
		f = c.intend()
	}
	switch {
	case f != nil:
		return c.remember(c.peek(c.again(f)))
	case c.minted:
		return c.guardedMinted(ctx)
	}
	return c.guardedKey(ctx, noRecord)
}

func malformed(code Code, err error) *Failure {
	return &Failure{Class: ClassMalformed, Code: code, Category: CategoryValidation, Evidence: EvidenceNotSent, Err: err}
}

// unusable answers arguments that cannot be used: nothing is done with them.
// Where the ref that came with them has an operation that may have happened,
// the answer leaves the ref out, so that it says nothing about that one.
func (c *call) unusable(f *Failure) head {
	if c.t.guarded() && validRef(c.key.Ref) && !c.minted {
		if err := c.look(); err != nil || c.record.CommitState() != NotCommitted {
			c.key.Ref = ""
		}
	}
	return c.remember(c.failed(c.again(f), NotCommitted, 0, c.t.maxCorrect))
}

// name gives the operation its ref: the tool's business key, else the ref of
// the call, else a new one. One that is resumed from its record has its own.
func (c *call) name() *Failure {
	if c.resumed {
		return nil
	}
	if !c.shell.hasRef() {
		if c.minted = c.key.Ref == ""; c.minted {
			c.key.Ref = mintRef()
		}
		return nil
	}
	var key string
	if err := contained(func() error { key = c.shell.ref(); return nil }); err != nil {
		return unsentFailure(CodeToolPanic, err)
	}
	if key == "" {
		return malformed(CodeInvalidArguments, errors.New("the tool's Ref names no operation for these arguments"))
	}
	c.alias, c.key.Ref = c.key.Ref, deriveRef(c.t.name, key)
	return nil
}

// intend completes what begin needs to know.
func (c *call) intend() *Failure {
	in := &c.intent
	in.key, in.alias, in.runID, in.owner, in.nonce = c.key, c.alias, c.runID, c.x.owner(), c.x.nonce()
	in.repeat = c.repeated()
	switch {
	case c.t.dropArguments:
	case c.t.seal == nil:
		in.keep = in.arguments
	default:
		keep, err := c.sealed()
		if err != nil {
			return unsentFailure(CodeToolFailed, err)
		}
		in.keep = keep
	}
	if c.t.approvalTTL == 0 {
		return nil
	}
	return c.intendApproval()
}

// intendApproval asks whether this call needs a person's approval.
func (c *call) intendApproval() *Failure {
	in := &c.intent
	in.digest, in.approvalTTL = fieldDigest(in.arguments, ""), c.t.approvalTTL
	err := contained(func() error {
		if in.approval = c.shell.needsApproval(); in.approval {
			in.summary = c.shell.summary()
		}
		return nil
	})
	if err != nil {
		return unsentFailure(CodeToolPanic, err)
	}
	return nil
}

// unsentFailure is one of our own, before anything was sent.
func unsentFailure(code Code, err error) *Failure {
	f := &Failure{Code: code, Evidence: EvidenceNotSent, Err: err}
	f.complete()
	return f
}

// sealed is what the record keeps of the arguments.
func (c *call) sealed() (keep []byte, err error) {
	err = contained(func() error {
		secret, err := c.t.seal(slices.Clone(c.intent.arguments))
		if err == nil {
			keep, err = json.Marshal(secret) // a JSON string: base64
		}
		return err
	})
	return keep, err
}

// guardedMinted keeps a ref that nobody gave from starting an operation that
// is in flight, unknown, awaiting approval or escalated under another ref:
// that one is continued.
func (c *call) guardedMinted(ctx context.Context) head {
	if f := c.mayStart(ctx); f != nil {
		return c.peek(f)
	}
	same := printKey{c.key.Scope, c.t.name, c.intent.fingerprint}
	left := noRecord // where an equal call that was waited for left its operation
	for {
		f, mine := c.x.prints.enter(same)
		if mine {
			return c.ownPrint(ctx, same, f, left)
		}
		if h, done := c.awaitFlight(ctx, f); done {
			return h
		}
		left = f.record
	}
}

// ownPrint runs the call while equal calls without a ref wait for it.
func (c *call) ownPrint(ctx context.Context, same printKey, f *flight, left *Record) head {
	defer c.x.prints.leave(same, f, c.operation)
	open, err := c.findOpen(ctx, same)
	if err != nil && left.IsOpen() { // no time to ask, and it is known all the same
		c.adopt(left.Key)
		if c.watch.read(); c.watch.over() {
			return c.timeUp()
		}
	}
	if err != nil {
		return c.guardUnavailable(err)
	}
	if open.State != StateAbsent {
		c.adopt(open.Key)
	}
	c.x.prints.name(same, f, c.key)
	if open.State == StateCommitted {
		open = noRecord // a listing has no bodies, and this one's result is wanted
	}
	return c.guardedKey(ctx, open)
}

// adopt continues the operation of key.
func (c *call) adopt(key Key) { c.key, c.intent.key, c.minted = key, key, false }

// guardedKey runs, or waits for, the operation of c.key. Calls of one process
// take turns, so that fifty duplicates cost the store what one call does.
func (c *call) guardedKey(ctx context.Context, base *Record) head {
	for {
		f, mine := c.x.flights.enter(c.key)
		if mine {
			return c.ownKey(ctx, f, base)
		}
		if h, done := c.awaitFlight(ctx, f); done {
			return h
		}
		base = f.record // where the other one left it
	}
}

// ownKey runs the call while others of the same key wait for it.
func (c *call) ownKey(ctx context.Context, f *flight, base *Record) head {
	defer c.x.flights.leave(c.key, f, c.operation)
	return c.own(ctx, base)
}

// awaitFlight waits for another call of this process. done is false when that
// one left the operation open: then this call begins itself, on its own budget.
func (c *call) awaitFlight(ctx context.Context, f *flight) (h head, done bool) {
	stop, cancel := c.untilTotal(ctx)
	defer cancel()
	select {
	case <-f.done:
	case <-stop.Done():
		if c.minted { // the operation that was waited for is an equal one
			c.adopt(c.x.prints.named(printKey{c.key.Scope, c.t.name, c.intent.fingerprint}, f))
		}
		return c.timeUp(), true
	}
	c.watch.read()
	r := f.record
	if r.State == StateCommitted && c.isOf(r) {
		c.key = r.Key
		h = c.replay(r)
		h.Unrecorded = h.OK && !f.stored
		return h, true
	}
	return head{}, false
}

// untilTotal bounds a wait by the caller and the total deadline.
func (c *call) untilTotal(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.watch.total == unbounded {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, c.watch.end())
}

// own takes the operation through as many transitions as this call may.
func (c *call) own(ctx context.Context, base *Record) head {
	if c.record = base; base.State != StateAbsent {
		c.saw(base)
	}
	if c.intent.repeat && base.State == StateAbsent {
		if err := c.look(); err != nil {
			return c.guardUnavailable(err)
		}
	}
	looked := false // one look-up a call
	for {
		if f := c.mayStart(ctx); f != nil && !c.begun { // what is begun has to be given back
			return c.peek(f)
		}
		mv, h, answered := moveRun, head{}, false
		if !c.begun { // a look-up has not begun it already
			mv, h, answered = c.begin(ctx)
		}
		if c.begun = false; answered {
			return h
		}
		c.observeDecision(ctx, mv)
		switch mv {
		case moveRun:
			if c.intent.repeat { // a person let it run again: what was refused is past
				c.intent.repeat = false
				c.x.repeats.forget(*c.refused)
			}
			h, again := c.runOwned(ctx, &looked)
			if !again {
				return h
			}
		case moveWait:
			if c.resumed {
				return c.standingAnswer()
			}
			if !c.awaitOwner(ctx) {
				return c.timeUp()
			}
		case moveVerify:
			if looked {
				return c.standing(mv)
			}
			looked = true
			c.verify(ctx, func() bool { return true })
		case moveReplay:
			return c.replay(c.record)
		default:
			return c.standing(mv)
		}
	}
}

// look loads the record for an answer that is given without a compare-and-swap.
func (c *call) look() error {
	ctx, cancel := c.afterwards(bookkeeping)
	defer cancel()
	rec, err := c.x.load(ctx, c.key)
	if err == nil {
		c.saw(rec)
	} else if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return err
}

// begin asks the state machine and stores what it says. answered is true when
// the store could not be asked.
func (c *call) begin(ctx context.Context) (mv move, h head, answered bool) {
	in := &c.intent
	if c.session != nil { // a further ownership within this call
		in.nonce = c.x.nonce()
	}
	wait := Backoff{Initial: 10 * time.Millisecond, Max: 200 * time.Millisecond}.pauses()
	for failures, conflicts := 0, 0; ; {
		c.watch.read()
		c.asked = c.watch.now()
		next := c.record.draft()
		mv = c.t.begin(next, in, c.storeAt(c.asked))
		if !needsSave(c.record, next, mv) {
			return mv, head{}, false
		}
		stored, err := c.saveBegin(ctx, next)
		switch {
		case err == nil:
			c.saw(stored)
			c.changed = true
			c.x.warnNearlyFull(ctx, stored.Version)
			return mv, head{}, false
		case errors.Is(err, ErrConflict):
			if conflicts++; conflicts > 10 && !sleepUntil(ctx, wait.next()) {
				return c.interrupted()
			}
			c.saw(stored)
			if stored.State == StateInFlight && stored.Nonce == in.nonce {
				return moveRun, head{}, false // an earlier try whose end was unclear
			}
			if c.resumed { // somebody was quicker: what is to be done now is another question
				return 0, c.standingAnswer(), true
			}
		case errors.Is(err, ErrStoreFull):
			return 0, c.guardFull(err), true
		case ctx.Err() != nil || c.watch.left() <= 0:
			return c.interrupted()
		default:
			if failures++; failures > 2 || !sleepUntil(ctx, wait.next()) {
				c.disown(c.key, in.nonce)
				return 0, c.guardUnavailable(err), true
			}
		}
	}
}

// disown gives back, in the background, what a begin may have stored although
// it was given up: nothing was started for it, and nobody else would end it.
func (c *call) disown(key Key, nonce string) {
	x := c.x
	x.outlive.add(1)
	go func() {
		defer x.outlive.add(-1)
		deadline := time.Now().Add(c.t.policy.lease())
		wait := Backoff{Initial: 50 * time.Millisecond, Max: time.Second}.pauses()
		for time.Now().Before(deadline) && sleep(x.closed(), wait.next()) {
			if c.giveBack(key, nonce) == nil {
				return
			}
		}
		_ = c.giveBack(key, nonce) // a last time
	}()
}

func (c *call) giveBack(key Key, nonce string) error {
	ctx, cancel := c.afterwards(bookkeeping)
	defer cancel()
	rec, err := c.x.load(ctx, key)
	if err == nil {
		_, err = c.x.update(ctx, rec, func(r *Record) error {
			if r.State != StateInFlight || r.Nonce != nonce {
				return errOwnerLost
			}
			c.t.apply(r, &report{
				nonce: nonce, identity: r.Fingerprint, ended: true, unsent: true, attempts: r.Attempts,
				failure: &FailureRecord{Code: CodeGuardUnavailable, Class: ClassTransient, Category: CategoryDependency},
			})
			return nil
		})
	}
	if errors.Is(err, errOwnerLost) || errors.Is(err, ErrNotFound) {
		return nil // there is nothing of ours
	}
	return err
}

// saveBegin stores an arrow of begin, within the call's time. next stays on the
// stack: a replay, which stores nothing, has no use for it on the heap.
func (c *call) saveBegin(ctx context.Context, next *Record) (*Record, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	stored := *next
	return &stored, c.x.save(ctx, &stored)
}

// within bounds a store call by the total deadline.
func (c *call) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.t.lease == 0 || c.watch.total == unbounded {
		return ctx, func() {} // a volatile store answers at once
	}
	return context.WithDeadline(ctx, c.watch.end())
}

// interrupted is the end of a begin whose time ran out while the store was
// asked. A record that carries our nonce is ours: it must be given back, which
// the ownership does when its first attempt may not start.
func (c *call) interrupted() (mv move, h head, answered bool) {
	h = c.peek(c.unstarted())
	if c.record.State == StateInFlight && c.record.Nonce == c.intent.nonce {
		return moveRun, head{}, false
	}
	return 0, h, true
}

// needsSave: only what changed is stored, so a refusal leaves no trace.
func needsSave(was, is *Record, mv move) bool {
	if mv == moveRun || was.State != is.State || was.Fingerprint != is.Fingerprint {
		return true
	}
	return is.Approval != nil && (was.Approval == nil || *was.Approval != *is.Approval)
}

// runOwned runs the operation and stores how it ended. again is true when the
// state machine should be asked once more: after a look-up found no effect.
func (c *call) runOwned(ctx context.Context, looked *bool) (h head, again bool) {
	s := &c.first
	if c.session != nil { // a further ownership within this call
		s = new(session)
	}
	*s = session{call: c, nonce: c.intent.nonce, rec: c.record, before: c.record.Attempts - 1, answered: c.resumed}
	s.tries = s.few[:0]
	c.session = s
	defer s.abandonOnExit()
	var out outcome
	if s.keepAlive(ctx) {
		out = c.attempts(ctx, s)
	} else {
		out.fail = unsentFailure(CodeGuardUnavailable, errLeaseShort)
	}
	rec, stored := s.end(out)
	c.changed = stored
	c.saw(rec)
	c.unstored = !stored
	switch {
	case out.fail == nil:
		return c.success(out.won, rec, stored), false
	case !c.isOf(rec):
		return c.refReused(), false
	case rec.State == StateCommitted:
		return c.marked(rec, stored), false
	}
	if rec.State == StateUnknown && c.t.verifiable && !*looked && stored && ctx.Err() == nil && c.watch.left() > 0 {
		*looked = true
		if out = c.verifyOwn(ctx, out); c.begun {
			return head{}, true
		}
		if !c.isOf(c.record) {
			return c.refReused(), false
		}
		if c.record.State == StateCommitted {
			return c.verifiedSuccess(c.record), false
		}
	}
	return c.ownFailure(out, stored), false
}

// verifyOwn looks up what this call ran itself and left unknown. Where nothing
// happened it may begin again, which is a retry like any other.
func (c *call) verifyOwn(ctx context.Context, out outcome) outcome {
	c.verify(ctx, func() bool {
		if out.fail.Class != ClassTransient || c.tries > c.t.policy.MaxRetries || out.overBudget {
			return false
		}
		f := c.overBudget(ctx, out.fail)
		if f != nil {
			out.fail = f
		}
		return f == nil
	})
	return out
}

// awaitOwner waits for the owner in another process: by notification where the
// store can, else by polling. False when the time is up.
func (c *call) awaitOwner(ctx context.Context) bool {
	stop, cancel := c.untilTotal(ctx)
	defer cancel()
	lease := c.record.LeaseUntil
	if !lease.IsZero() {
		var cancelLease context.CancelFunc
		stop, cancelLease = context.WithDeadline(stop, c.local(lease).Add(time.Millisecond))
		defer cancelLease()
	}
	_ = c.x.awaitChange(stop, c.key, c.record.Version)
	c.watch.read()
	if ctx.Err() != nil || c.watch.over() {
		return false
	}
	fresh, err := c.x.load(ctx, c.key)
	switch {
	case errors.Is(err, ErrNotFound):
		c.record = noRecord
	case err != nil:
		return false
	default:
		c.saw(fresh)
	}
	return true
}

// peek answers a call that may not start anything from what the record says:
// without it the answer would be a guess.
func (c *call) peek(f *Failure) head {
	if c.minted && c.record.State == StateAbsent {
		return c.failed(f, NotCommitted, 0, c.budgetFor(f))
	}
	peekCtx, cancel := c.afterwards(bookkeeping)
	defer cancel()
	rec, err := c.x.load(peekCtx, c.key)
	switch {
	case errors.Is(err, ErrNotFound):
		return c.failed(f, NotCommitted, 0, c.budgetFor(f))
	case err != nil:
		f.Err = errors.Join(f.Err, err)
		return c.failed(f, CommitUnknown, 0, 0)
	}
	c.saw(rec)
	if rec.Tool != c.t.name || !c.isOf(rec) && rec.State != StateReleased && rec.State != StateRejected {
		return c.standing(moveRefReused)
	}
	switch rec.State.Safe() {
	case StateCommitted:
		return c.replay(rec)
	case StateReleased:
		return c.failed(f, NotCommitted, c.wait(rec.NotBefore), c.attemptsLeft())
	case StateRejected:
		return c.failed(f, NotCommitted, 0, c.attemptsLeft())
	case StateInFlight:
		return c.failure(f, CommitUnknown, RetryAfterDelay, NextWaitAndRetry, 0, c.attemptsLeft())
	case StateUnknown:
		return c.standing(moveUnknown)
	case StateAwaitingApproval:
		return c.standing(moveNeedApprove)
	}
	return c.standing(moveEscalated)
}

// budgetFor is what is left of an operation that has not begun: corrections of
// its input, or attempts.
func (c *call) budgetFor(f *Failure) int {
	if f.Class == ClassMalformed {
		return c.t.maxCorrect
	}
	return c.t.maxAttempts
}

// timeUp answers a call that waited for another owner until its time was up.
// Meanwhile the operation may have been committed elsewhere.
func (c *call) timeUp() head {
	ctx, cancel := c.afterwards(bookkeeping)
	defer cancel()
	rec, err := c.x.load(ctx, c.key)
	if err == nil {
		c.saw(rec)
	}
	if rec.State == StateCommitted && c.isOf(rec) {
		return c.replay(rec)
	}
	return c.inProgress()
}

// hear notes that a caller is told of a commit that nobody had heard of.
func (c *call) hear(rec *Record) {
	ctx, cancel := c.afterwards(bookkeeping)
	defer cancel()
	_, _ = c.x.update(ctx, rec, func(r *Record) error { // unsaved, the next caller is told once more
		r.Unheard = false
		return nil
	})
}

// isOf reports whether a record is of this call's tool and arguments: asked on
// every path that answers from a record.
func (c *call) isOf(r *Record) bool {
	return r.Tool == c.t.name && r.Fingerprint == c.intent.fingerprint
}

// saw notes a record and the store's clock: the reading was taken before now, so
// the store's time is never overestimated. From here it goes on by our monotonic
// clock, so that a step of our wall clock changes nothing.
func (c *call) saw(r *Record) {
	c.watch.read()
	c.record, c.unstored = r, false
	if !r.Now.IsZero() {
		c.clock, c.seen = r.Now, c.watch.now()
	}
}

// storeNow is the store's time, or a little less.
func (c *call) storeNow() time.Time { return c.storeAt(time.Now()) }

// storeAt is the store's time when our clock showed now.
func (c *call) storeAt(now time.Time) time.Time {
	if c.seen.IsZero() {
		return now
	}
	return c.clock.Add(now.Sub(c.seen))
}

// local is when our clock shows i.
func (c *call) local(i Instant) time.Time { return time.Now().Add(i.Time().Sub(c.storeNow())) }

// wait is how long it is until i.
func (c *call) wait(i Instant) time.Duration {
	if i.IsZero() {
		return 0
	}
	return max(time.Until(c.local(i)), 0)
}

func (c *call) attemptsLeft() int { return max(c.t.maxAttempts-c.record.Attempts, 0) }

// failureRecord is what a record keeps of a failure: nothing of its cause.
func (c *call) failureRecord(f *Failure) *FailureRecord {
	return &FailureRecord{
		Code: f.Code, Class: f.Class, Category: f.Category,
		AgentMessage: f.AgentMessage, UserMessage: f.UserMessage, Details: c.safeDetails(f.Details),
	}
}

// rejectedFields are what must change before a rejected call is run again.
func (c *call) rejectedFields(f *Failure) []FieldDigest {
	if !f.isSticky() {
		return nil
	}
	var list []FieldDigest
	for _, e := range f.Fields {
		if e.Pointer != "" {
			list = append(list, FieldDigest{e.Pointer, fieldDigest(c.intent.arguments, e.Pointer)})
		}
	}
	return list
}

// store calls ----------------------------------------------------------------

// update repeats a compare-and-swap on the newest record until it wins. change
// may be called several times; its error ends the update.
func (x *Executor) update(ctx context.Context, base *Record, change func(*Record) error) (*Record, error) {
	for {
		next := base.draft()
		if err := change(next); err != nil {
			return base, err
		}
		err := x.save(ctx, next)
		switch {
		case err == nil:
			return next, nil
		case !errors.Is(err, ErrConflict):
			return base, err
		case next.State == StateAbsent:
			return base, fmt.Errorf("%w: the record is gone", ErrNotFound)
		}
		base = next
	}
}

// save, load and list contain a panicking store: its failure is an error like
// any other. A record is large, so the one that is saved becomes the one that the
// store returned: what is stored, or on ErrConflict what was. From then on nobody
// writes it, and everybody may hold it.
func (x *Executor) save(ctx context.Context, r *Record) (err error) {
	defer recoverStore(&err)
	store := x.records()
	if m, ours := store.(*MemoryStore); ours {
		return m.save(ctx, r)
	}
	*r, err = store.Save(ctx, *r)
	return err
}

func (x *Executor) load(ctx context.Context, key Key) (r *Record, err error) {
	defer recoverStore(&err)
	r = new(Record)
	*r, err = x.records().Load(ctx, key)
	return r, err
}

func (x *Executor) list(ctx context.Context, q Query) (page []Record, next Cursor, err error) {
	defer recoverStore(&err)
	return x.records().List(ctx, q)
}

func recoverStore(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("toolexec: the store panicked: %v", r)
	}
}

// findOpen returns an operation of the same arguments that a minted ref must
// not start anew; the zero Record when there is none.
func (c *call) findOpen(ctx context.Context, k printKey) (*Record, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	page, err := c.x.first(ctx, Query{
		Scope: &k.scope, Tool: k.tool, Fingerprint: k.print, Limit: 1,
		Open: true,
	})
	if err != nil || len(page) == 0 || page[0].Scope != k.scope || page[0].Tool != k.tool || page[0].Fingerprint != k.print {
		return noRecord, err
	}
	return &page[0], nil
}

// first returns the first records that match q; pages before the last may be
// short, or empty.
func (x *Executor) first(ctx context.Context, q Query) ([]Record, error) {
	for {
		page, next, err := x.list(ctx, q)
		if err != nil || len(page) > 0 || next == (Cursor{}) {
			return page, err
		}
		q.After = next
	}
}

// afterwards is the context of bookkeeping that must be tried although the
// caller's time may be over.
func (c *call) afterwards(d time.Duration) (context.Context, context.CancelFunc) {
	if _, ours := c.x.records().(*MemoryStore); ours {
		return context.Background(), func() {} // which asks it for nothing but its end
	}
	ctx := context.WithoutCancel(c.caller)
	if c.t.lease == 0 {
		return ctx, func() {} // a volatile store answers at once
	}
	return context.WithTimeout(ctx, d)
}

// volatile reports whether owners and records die together: then an owner is
// never lost, and there are no leases.
func (x *Executor) volatile() bool {
	v, ok := x.records().(Volatile)
	return ok && v.Volatile()
}

// awaitChange returns when the record has changed, or ctx is done.
func (x *Executor) awaitChange(ctx context.Context, key Key, version int64) error {
	waiter, notifies := x.records().(Waiter)
	pause := Backoff{Initial: 10 * time.Millisecond, Max: 250 * time.Millisecond}.pauses()
	for {
		if notifies {
			_ = waitStore(ctx, waiter, key, version) // an error is an early return
			if ctx.Err() != nil {
				return ctx.Err()
			}
		} else if !sleepUntil(ctx, pause.next()) {
			return ctx.Err()
		}
		r, err := x.load(ctx, key)
		if err != nil || r.Version != version {
			return err
		}
		if notifies && !sleepUntil(ctx, pause.next()) { // it returned early
			return ctx.Err()
		}
	}
}

func waitStore(ctx context.Context, w Waiter, key Key, version int64) (err error) {
	defer recoverStore(&err)
	return w.Wait(ctx, key, version)
}

func sleepUntil(ctx context.Context, d time.Duration) bool { return sleep(ctx.Done(), d) }
