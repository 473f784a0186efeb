package toolexec

import (
	"context"
	"errors"
	"sync"
	"time"
)

// session is one ownership of one operation, from the begin that acquired the
// record to the end of its last attempt, which may be long after its caller was
// answered.
//
// What it knows of its attempts is in them; report makes one picture of all,
// and storing that picture, again or late, joins to the same record. So there
// is no order to keep between the caller, a marked send, a marked commit, a
// heartbeat and late evidence: each of them is one compare-and-swap of the
// whole picture, and whoever loses the race repeats on the newer record.
type session struct {
	call  *call
	nonce string

	mu        sync.Mutex // protects what follows; never held across a store call
	rec       *Record    // the newest version this process has seen; never written
	tries     []*invocation
	few       [2]*invocation // the memory of tries, as a rule
	before    int            // the operation's dispatches before this ownership
	ended     bool           // the ownership is over: attempts can only add late evidence
	answered  bool           // no caller may hear of a commit: an attempt ended after that, or a supervisor runs it
	failure   *FailureRecord
	sticky    bool
	fields    []FieldDigest
	until     Instant   // not_before
	renewedAt time.Time // when the lease was last asked for
	timers    map[timerKey]*time.Timer
}

// bookkeeping bounds a store call that must be tried also after the caller's
// time is over.
const bookkeeping = time.Second

func (s *session) add(i *invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.session = s
	s.tries = append(s.tries, i)
}

// commitState joins what is known of this ownership's attempts, and of those
// before it.
func (s *session) commitState() CommitState {
	s.mu.Lock()
	defer s.mu.Unlock()
	rep := s.report()
	switch {
	case rep.committed != "" || s.rec.State == StateCommitted:
		return Committed
	case len(rep.open) > 0 || len(withoutOwner(s.rec.Unresolved, s.nonce)) > 0:
		return CommitUnknown
	}
	return NotCommitted
}

func (s *session) attemptsUsed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before + len(s.tries)
}

// allUnsent reports whether every attempt so far is proven unsent.
func (s *session) allUnsent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.report().unsent
}

// lastSuccess is the last attempt, if its tool succeeded and has ended.
func (s *session) lastSuccess() *invocation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tries) == 0 {
		return nil
	}
	i := s.tries[len(s.tries)-1]
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase != phaseEnded || !i.succeeded {
		return nil
	}
	return i
}

// report is the picture of all attempts. Called with mu held.
func (s *session) report() *report {
	rep := new(report) // on the caller's stack
	s.describe(rep)
	return rep
}

func (s *session) describe(rep *report) {
	*rep = report{
		nonce: s.nonce, identity: s.call.intent.fingerprint, ended: s.ended, unsent: true, attempts: s.before + len(s.tries), first: len(s.tries) <= 1,
		late: s.answered || !s.ended, failure: s.failure, sticky: s.sticky, fields: s.fields, notBefore: s.until,
	}
	for _, i := range s.tries {
		i.mu.Lock()
		s.include(rep, i)
		i.mu.Unlock()
	}
}

// include adds one attempt. Called with s.mu and i.mu held.
func (s *session) include(rep *report, i *invocation) {
	if i.evidence != EvidenceNotSent {
		rep.unsent = false
	}
	switch {
	case i.evidence == EvidenceCommitted:
		rep.commit(i, s.call.t)
	case i.phase == phaseRunning:
		if i.sentOr(EvidenceInDoubt) == EvidenceInDoubt {
			rep.running = append(rep.running, s.unresolved(i))
		}
	case i.evidence == EvidenceInDoubt:
		rep.open = append(rep.open, s.unresolved(i))
	}
}

// unresolved says until when i could still take effect. While it runs it could
// send at any time; where owners can be lost its lease bounds that, and a
// heartbeat extends it.
func (s *session) unresolved(i *invocation) Unresolved {
	m := &s.call.t.machine
	u := Unresolved{Attempt: attemptID(s.nonce, int(i.n))}
	switch {
	case i.phase == phaseEnded:
		u.Settles = In(m.settle - (time.Since(s.call.watch.start) - i.took))
	case m.lease > 0:
		u.Alive, u.Settles = true, In(m.lease+m.settle)
	default:
		u.Alive = true
	}
	return u
}

// commit takes the attempt that succeeded last: its result is the newest.
func (rep *report) commit(i *invocation, t *tool) {
	if rep.committed == "" {
		rep.committed = attemptID(rep.nonce, int(i.n))
	}
	raw := i.result // marked
	if i.phase == phaseEnded && i.succeeded {
		if i.encodeErr == nil && i.encoded != nil {
			raw = i.encoded
		}
	}
	if raw == nil {
		return
	}
	if t.maxResult >= 0 && len(raw) <= t.maxResult && t.keeps(raw) {
		rep.result, rep.present, rep.digest = raw, true, ""
		return
	}
	rep.digest = digestOf(raw)
}

// keeps reports whether a result keeps the tool's contract.
func (t *tool) keeps(raw []byte) bool {
	return t.output == nil || t.output.Accepts(raw) || len(t.output.Validate(raw)) == 0
}

// store makes the present picture durable.
func (s *session) store() error {
	ctx, cancel := s.call.afterwards(bookkeeping)
	defer cancel()
	_, err := s.update(ctx, nil)
	return err
}

// errOwnerLost: the record belongs to another owner now.
var errOwnerLost = errors.New("the operation's record was lost to another owner")

// update applies the present picture, and then further, to the record: one
// compare-and-swap, repeated on the newer record when it lost. further may
// refuse.
func (s *session) update(ctx context.Context, further func(*Record) error) (*Record, error) {
	s.mu.Lock()
	base := s.rec
	s.mu.Unlock()
	var duplicate bool
	stored, err := s.call.x.update(ctx, base, func(r *Record) error {
		s.mu.Lock()
		rep := s.report()
		s.mu.Unlock()
		duplicate = s.call.t.apply(r, rep)
		if further != nil {
			return further(r)
		}
		return nil
	})
	if err != nil {
		return base, err
	}
	s.keep(stored)
	if duplicate {
		s.call.x.note(s.call.caller, DuplicateEffect{Tool: s.call.t.name, Key: stored.Key})
	}
	return stored, nil
}

func (s *session) keep(r *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Version > s.rec.Version {
		s.rec = r
	}
}

// markSent tells the record that the owner is about to send. It fails when the
// record is not this owner's any more: that is the fence.
func (s *session) markSent() error {
	ctx, cancel := s.call.afterwards(bookkeeping)
	defer cancel()
	_, err := s.update(ctx, func(r *Record) error {
		if r.State != StateInFlight || r.Nonce != s.nonce {
			return errOwnerLost
		}
		r.Sent = true
		return nil
	})
	return err
}

// nextAttempt tells a durable record that the owner goes on, so that a crash
// cannot make it forget a dispatch. It reports whether the owner still is, with
// enough of a lease left.
func (s *session) nextAttempt(ctx context.Context) bool {
	lease := s.call.t.lease
	if lease == 0 {
		return true
	}
	ctx, cancel := s.call.within(ctx)
	defer cancel()
	began := time.Now()
	_, err := s.update(ctx, func(r *Record) error {
		r.Attempts = max(r.Attempts, s.attemptsUsed()+1)
		return s.renew(r)
	})
	if err != nil || time.Since(began) >= lease/2 {
		return false
	}
	s.call.watch.read() // storing took its time
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed(began)
	return true
}

// end closes the ownership and stores how it ended. stored is false when the
// store could not be told; it is then tried on, in the background, as long as
// the lease runs.
func (s *session) end(out outcome) (rec *Record, stored bool) {
	s.mu.Lock()
	s.ended = true
	if f := out.fail; f != nil {
		s.failure = s.call.failureRecord(out.worthKeeping())
		s.sticky = f.isSticky()
		s.fields = s.call.rejectedFields(f)
		if out.notBefore > 0 {
			s.until = In(out.notBefore)
		}
	}
	s.mu.Unlock()
	s.stopTimers(nil)
	s.watchOutliving()
	ctx, cancel := s.call.afterwards(s.bookkeepingTime())
	defer cancel()
	rec, err := s.update(ctx, nil)
	if err == nil {
		return rec, true
	}
	s.storeLater()
	return s.asIfStored(), false
}

// abandonOnExit closes an ownership whose goroutine is dying: a Cooperative
// tool called runtime.Goexit, and nobody is left to be answered.
func (s *session) abandonOnExit() {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if !ended {
		rec, stored := s.end(outcome{fail: s.call.exitFailure()})
		s.call.changed = stored
		s.call.saw(rec)
		s.call.unstored = !stored
	}
}

// bookkeepingTime: until the total deadline, and at least a second.
func (s *session) bookkeepingTime() time.Duration {
	if s.call.t.lease == 0 {
		return bookkeeping // a volatile store answers at once
	}
	return min(max(s.call.watch.left(), bookkeeping), 2*bookkeeping)
}

// asIfStored is the record as it would read had the store taken it.
func (s *session) asIfStored() *Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rec.cloneHead()
	s.call.t.apply(&r, s.report())
	r.Resolve(s.call.storeNow())
	return &r
}

// storeLater repeats a store that failed, until it succeeds or the lease is
// over; then the record is found in flight and verified.
func (s *session) storeLater() {
	x := s.call.x
	x.outlive.add(1)
	go func() {
		defer x.outlive.add(-1)
		deadline := time.Now().Add(s.call.t.policy.lease())
		wait := Backoff{Initial: 50 * time.Millisecond, Max: time.Second}.pauses()
		for time.Now().Before(deadline) && !x.closing() {
			if !sleep(x.closed(), wait.next()) {
				break
			}
			if err := s.store(); err == nil || errors.Is(err, ErrNotFound) {
				return
			}
		}
		_ = s.store() // a last time
	}()
}

// late adds what an attempt proved after its caller was answered.
func (s *session) late(i *invocation, f *Failure) {
	s.stopTimers(i)
	s.noteAnswered()
	err := s.store()
	s.call.x.note(s.call.caller, LateEvidence{Tool: s.call.t.name, Key: s.call.key, N: int(i.n), Evidence: i.known(), Failure: asCause(f), StoreErr: err})
	if err != nil && !errors.Is(err, ErrNotFound) {
		s.storeLater()
	}
}

// noteAnswered is called before evidence is stored that may come after the
// answer: a commit by it may be one that nobody was told of.
func (s *session) noteAnswered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = s.answered || s.ended
}

func (i *invocation) known() Evidence {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.evidence
}

func asCause(f *Failure) error {
	if f == nil {
		return nil
	}
	return f
}

// timerKey names a timer of an ownership: what for, and of which attempt; of
// the ownership as a whole when there is none.
type timerKey struct {
	of  *invocation
	use timerUse
}

type timerUse uint8

const (
	timerBeat    timerUse = iota + 1 // extends the lease, or an attempt's settle window
	timerLease                       // the end of the lease
	timerAbandon                     // the bound on the life of an attempt
)

// set arms a timer in place of the one of the same key. It counts among what
// outlives calls until it was stopped or its callback has ended. Called with
// mu held.
func (s *session) set(key timerKey, d time.Duration, f func()) {
	x := s.call.x
	if old := s.timers[key]; old != nil && old.Stop() {
		x.outlive.add(-1)
	}
	if s.timers == nil {
		s.timers = make(map[timerKey]*time.Timer)
	}
	x.outlive.add(1)
	s.timers[key] = time.AfterFunc(d, func() {
		defer x.outlive.add(-1)
		f()
	})
}

// stopTimers stops the timers of an attempt, or of the ownership for nil.
func (s *session) stopTimers(of *invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, t := range s.timers {
		if key.of != of {
			continue
		}
		if t.Stop() {
			s.call.x.outlive.add(-1)
		}
		delete(s.timers, key)
	}
}

// watchOutliving starts, for each attempt that still runs, the heartbeat that
// keeps its settle window open and the bound on its life.
func (s *session) watchOutliving() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.tries {
		if !i.runsOn() {
			continue
		}
		if d := s.call.t.policy.MaxAbandon; d > 0 {
			s.set(timerKey{i, timerAbandon}, d, s.escalate)
		}
		s.setHeartbeat(i)
	}
}

// runsOn reports whether the attempt was cut and has not ended.
func (i *invocation) runsOn() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.phase == phaseCut
}

// setHeartbeat is called with mu held.
func (s *session) setHeartbeat(i *invocation) {
	lease := s.call.t.lease
	if lease == 0 {
		return
	}
	s.set(timerKey{i, timerBeat}, lease/3, func() {
		_ = s.store()
		s.mu.Lock()
		defer s.mu.Unlock()
		if i.runsOn() {
			s.setHeartbeat(i)
		}
	})
}

// errLeaseShort: the store took so long that the lease it granted is nearly
// over.
var errLeaseShort = errors.New("the store answered too late for the lease it granted")

// keepAlive extends the lease for as long as the owner runs the operation,
// which may be longer than the lease: without a total deadline, and in a
// Cooperative tool. It reports false when there is too little of the lease left
// to begin with.
func (s *session) keepAlive(ctx context.Context) bool {
	lease := s.call.t.lease
	if lease == 0 {
		return true
	}
	s.mu.Lock()
	s.renewed(s.call.asked)
	s.mu.Unlock()
	return time.Since(s.call.asked) < lease/2 || s.nextAttempt(ctx)
}

// renewed notes the last renewal, by our clock and from before the store was
// asked, so that our lease is never longer than the store's. Called with mu
// held.
func (s *session) renewed(at time.Time) {
	lease := s.call.t.lease
	s.renewedAt = at
	s.set(timerKey{nil, timerLease}, lease-time.Since(at), s.loseLease)
	s.set(timerKey{nil, timerBeat}, lease/3, s.beat)
}

// mayBeLost reports whether the lease is over, as far as this process knows.
func (s *session) mayBeLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.call.t.lease > 0 && time.Since(s.renewedAt) >= s.call.t.lease
}

// beat extends the lease at the current version. When the store cannot be
// reached the end of the lease stands.
func (s *session) beat() {
	ctx, cancel := s.call.afterwards(bookkeeping)
	defer cancel()
	began := time.Now()
	_, err := s.update(ctx, s.renew)
	if errors.Is(err, errOwnerLost) {
		s.loseLease()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
	case err == nil:
		s.renewed(began)
	default:
		s.set(timerKey{nil, timerBeat}, s.call.t.lease/3, s.beat)
	}
}

// loseLease ends the tool's context: another owner may take the record.
func (s *session) loseLease() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.tries {
		i.ctx.Cancel(errOwnerLost)
	}
}

// renew extends the lease of a record that is still this owner's.
func (s *session) renew(r *Record) error {
	if r.State != StateInFlight || r.Nonce != s.nonce {
		return errOwnerLost
	}
	r.LeaseUntil = In(s.call.t.lease)
	return nil
}

// escalate gives an operation to a person whose attempt has lived too long.
func (s *session) escalate() {
	ctx, cancel := s.call.afterwards(bookkeeping)
	defer cancel()
	_, _ = s.update(ctx, func(r *Record) error {
		if r.State == StateUnknown {
			s.call.t.machine.escalate(r, "an attempt outlived every bound")
		}
		return nil
	})
}

// sleep waits for d; false when done closed first.
func sleep(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}
