package toolexec

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// The state machine of one operation. Each function below is one event; it
// changes the record in memory, and the caller makes the change real with one
// compare-and-swap, or does not and nothing happened.
//
//	absent ────────── begin ──────────► in_flight ── success ──────► committed
//	released ──────── begin ──────────►     │
//	rejected ─ begin, input corrected ►     ├─ nothing sent, refused by state ─► released
//	awaiting_approval ─ approved,begin ►    ├─ refused for its input ──────────► rejected
//	unknown ─ begin, Idempotent ──────►     └─ anything else, owner lost ──────► unknown
//
//	unknown, released, escalated ─ look-up: found ────────────► committed
//	unknown ─ look-up: absent, settled, authoritative ────────► released
//	unknown ─ look-up: conflict; checks used up; unverifiable ► escalated
//	unknown ─ hand over: settled, nothing to look it up with ─► escalated
//	unknown ─ late evidence: last open attempt resolved ──────► released
//	absent, released, rejected ─ begin, approval missing ─────► awaiting_approval
//	released ─ budget spent, rejected ─ corrections spent,
//	awaiting_approval ─ denied ───────────────────────────────► escalated
//	unknown, escalated ─ resolve ─────────────────────────────► committed, released
//	rejected, released ─ reopen ──────────────────────────────► released
//	any but absent ─ late success ────────────────────────────► committed, for ever

// machine holds the facts of a tool that the transitions depend on.
type machine struct {
	tool          string
	effect        Effect
	marksSent     bool // nothing is sent before the record says so
	verifiable    bool // there is a verifier
	unverifiable  bool // the tool says that nobody can ever look it up
	authoritative bool // the verifier's "absent" can be believed
	settle        time.Duration
	dedupeWindow  time.Duration // how long the remote side remembers the ref; 0: always
	maxChecks     int
	maxAttempts   int // dispatches for life
	maxCorrect    int
	lease         time.Duration // 0: the store is volatile, owners are never lost
	checkBackoff  Backoff
}

// intent is one caller's wish to run an operation.
type intent struct {
	key         Key
	alias       string
	fingerprint Fingerprint
	arguments   []byte // canonical; what field digests are taken of
	keep        []byte // what the record keeps of them; nil: nothing
	digest      string // of all arguments, for an approval
	repeat      bool   // this run was refused the same call before
	approval    bool   // this call needs one
	approvalTTL time.Duration
	summary     string
	runID       string
	owner       string
	nonce       string
}

// move is what a caller does after begin.
type move uint8

const (
	moveRun         move = iota + 1 // in flight for the caller's nonce
	moveReplay                      // committed
	moveWait                        // in flight for another owner
	moveVerify                      // unknown, a look-up is due
	moveUnknown                     // unknown, no look-up is due
	moveLater                       // before not_before
	moveUnchanged                   // rejected, and nothing relevant changed
	moveRefReused                   // the ref names another operation
	moveNeedApprove                 // awaiting approval
	moveExpired                     // the approval has expired
	moveEscalated                   // a person must decide
)

// String names m for observers.
func (m move) String() string {
	return [...]string{
		"", "run", "replay", "wait", "verify", "unknown", "later", "unchanged", "ref_reused",
		"needs_approval", "approval_expired", "escalated",
	}[m]
}

// begin moves r as far as in allows. It may change r also when the answer is
// not moveRun (an owner lost, a budget spent, an approval now awaited).
func (m *machine) begin(r *Record, in *intent, now time.Time) move {
	if r.State == StateAbsent {
		m.create(r, in)
		return m.start(r, in, now)
	}
	if r.Tool != m.tool {
		return moveRefReused
	}
	same := r.Fingerprint == in.fingerprint
	switch state := r.State.Safe(); {
	case state == StateRejected:
		return m.correct(r, in, now)
	case state == StateReleased: // accepts new arguments
		return m.start(r, in, now)
	case !same:
		return moveRefReused
	case state == StateCommitted:
		return moveReplay
	case state == StateAwaitingApproval:
		return m.start(r, in, now)
	case state == StateInFlight && !leaseOver(r, now):
		return moveWait
	case state == StateInFlight:
		m.loseOwner(r)
		if r.State == StateReleased {
			return m.start(r, in, now)
		}
		return m.resume(r, in, now)
	case state == StateUnknown:
		return m.resume(r, in, now)
	}
	return moveEscalated
}

func (m *machine) create(r *Record, in *intent) {
	*r = Record{Key: in.key, Alias: in.alias, Tool: m.tool, Effect: m.effect, RunID: in.runID}
}

// start dispatches a record that holds no unresolved attempt, or an Idempotent
// one that may be sent again.
func (m *machine) start(r *Record, in *intent, now time.Time) move {
	if in.repeat && !r.heardPerson() { // never of an unknown one: resume looks that up
		return moveUnchanged
	}
	if r.NotBefore.Time().After(now) {
		return moveLater
	}
	if r.Attempts >= m.maxAttempts {
		m.escalate(r, "lifetime budget spent")
		return moveEscalated
	}
	if in.approval {
		if mv := m.checkApproval(r, in, now); mv != moveRun {
			return mv
		}
	}
	if r.State != StateAbsent {
		r.note("begin", "", "")
	}
	r.State, r.Owner, r.Nonce, r.Sent, r.MarksSent = StateInFlight, in.owner, in.nonce, false, m.marksSent
	r.Effect, r.Fingerprint, r.Arguments = m.strictest(r.Effect), in.fingerprint, in.keep
	r.Attempts++
	r.NotBefore, r.NextCheckAt, r.LeaseUntil = Instant{}, Instant{}, Instant{}
	r.RejectedFields = nil
	if m.lease > 0 {
		r.LeaseUntil = In(m.lease)
	}
	return moveRun
}

// checkApproval spends an approval for exactly these arguments, or holds.
func (m *machine) checkApproval(r *Record, in *intent, now time.Time) move {
	a := r.Approval
	switch {
	case r.State == StateAwaitingApproval && a.Digest != in.digest && r.approved(now): // another call's, which stands
		return moveNeedApprove
	case a == nil || a.Digest != in.digest || a.Spent:
		m.hold(r, in)
		return moveNeedApprove
	case a.expired(now):
		m.hold(r, in)
		return moveExpired
	case a.Decision != decisionApproved:
		r.State = StateAwaitingApproval
		return moveNeedApprove
	}
	a.Spent, a.SpentBy = true, in.nonce
	return moveRun
}

// approves reports whether an approval of exactly these arguments is left.
func (r *Record) approves(in *intent, now time.Time) bool {
	return r.approved(now) && r.Approval.Digest == in.digest
}

// approved reports whether an approval is left to be spent.
func (r *Record) approved(now time.Time) bool {
	a := r.Approval
	return a != nil && a.Decision == decisionApproved && !a.Spent && !a.expired(now)
}

func (m *machine) hold(r *Record, in *intent) {
	r.State, r.Fingerprint, r.Arguments = StateAwaitingApproval, in.fingerprint, in.keep
	r.Approval = &ApprovalRecord{Digest: in.digest, Summary: in.summary}
	if in.approvalTTL > 0 {
		r.Approval.Expires = In(in.approvalTTL)
	}
}

// correct runs a rejected operation again when a relevant argument changed.
func (m *machine) correct(r *Record, in *intent, now time.Time) move {
	if !changed(r, in) {
		return moveUnchanged
	}
	if r.Corrections >= m.maxCorrect {
		m.escalate(r, "corrections spent")
		return moveEscalated
	}
	mv := m.start(r, in, now)
	if mv != moveLater {
		r.Corrections++
	}
	return mv
}

// changed reports whether a field that the rejection named differs; any field,
// when it named none.
func changed(r *Record, in *intent) bool {
	named := false
	for _, f := range r.RejectedFields {
		digest := fieldDigest(in.arguments, f.Pointer)
		if digest != f.Digest {
			return true
		}
		named = named || digest != "" // a name that leads nowhere, then and now, names nothing
	}
	return !named && r.Fingerprint != in.fingerprint
}

// loseOwner takes the owner of an expired lease for lost. Where the tool marks
// its sends and none is marked, nothing was sent, and the new version keeps the
// old owner from marking one. Otherwise all its attempts are unresolved.
func (m *machine) loseOwner(r *Record) {
	unsent := r.MarksSent && !r.Sent && len(r.Unresolved) == 0
	r.note("owner lost", r.Owner, "")
	if unsent {
		r.unspend(r.Nonce)
		r.release()
		return
	}
	settles := At(r.LeaseUntil.Time().Add(m.settle))
	r.Unresolved = append(r.Unresolved, Unresolved{Attempt: r.Nonce, Settles: settles})
	m.doubt(r)
}

// reclaim takes the owner of a record whose lease is over for lost, without
// anybody beginning. It reports whether it did.
func (m *machine) reclaim(r *Record, now time.Time) bool {
	if r.State != StateInFlight || !leaseOver(r, now) {
		return false
	}
	m.loseOwner(r)
	return true
}

// handOver gives an operation to a person that nobody can look up, once no
// attempt of it can take effect any more; until then it is due when that is so.
func (m *machine) handOver(r *Record, now time.Time) {
	if r.settledBy(now) {
		r.LastFailure = &FailureRecord{Code: CodeVerificationUnavailable, Category: CategoryDependency}
		m.escalate(r, "there is nothing to look it up with")
		return
	}
	if r.NextCheckAt = r.settleUntil(); r.NextCheckAt.IsZero() {
		r.NextCheckAt = In(m.settle)
	}
}

// resume continues an unknown operation: an Idempotent one is sent again with
// the same ref, before it is looked up; a Write is looked up.
func (m *machine) resume(r *Record, in *intent, now time.Time) move {
	if m.mayResend(r, in, now) {
		return m.start(r, in, now)
	}
	switch {
	case r.State.Safe() == StateEscalated:
		return moveEscalated
	case m.verifiable && !r.NextCheckAt.Time().After(now):
		return moveVerify
	}
	return moveUnknown
}

// mayResend: the remote side still deduplicates, and no approval was spent on
// the first dispatch.
func (m *machine) mayResend(r *Record, in *intent, now time.Time) bool {
	if r.State != StateUnknown || m.strictest(r.Effect) != Idempotent || in.repeat {
		return false
	}
	if in.approval && !r.approves(in, now) { // and an unknown operation is not held
		return false
	}
	if m.verifiable && r.LastFailure != nil && r.LastFailure.Code == CodeOperationPending {
		return false // it was accepted: what is missing is to see it
	}
	return m.remembered(r, now)
}

// remembered: the remote side still knows the ref.
func (m *machine) remembered(r *Record, now time.Time) bool {
	return m.dedupeWindow <= 0 || r.CreatedAt.Time().Add(m.dedupeWindow).After(now)
}

// strictest is the stricter of the stored effect and the tool's present one.
func (m *machine) strictest(stored Effect) Effect {
	if stored.Safe() == Write || m.effect == Write {
		return Write
	}
	return m.effect
}

// report is what an owner knows about all the attempts of one ownership. It
// replaces what was known about them before, so reporting twice, or late, or
// in another order than the attempts ended, joins to the same record.
type report struct {
	nonce    string
	ended    bool         // the ownership is over
	unsent   bool         // every dispatch of it was proven unsent
	attempts int          // the operation's dispatches, this ownership's included
	first    bool         // it made at most one
	open     []Unresolved // its attempts that are unresolved
	running  []Unresolved // those that run on; unresolved once the record is not its owner's
	identity Fingerprint  // of the arguments they were sent with

	committed string // the attempt that succeeded; "" for none
	result    []byte // its encoded result
	present   bool
	digest    string
	late      bool // the caller may have been answered before

	failure   *FailureRecord
	sticky    bool
	fields    []FieldDigest
	notBefore Instant
}

// apply joins a report. It returns true when the record had been committed by
// another attempt: a duplicate effect.
func (m *machine) apply(r *Record, rep *report) (duplicate bool) {
	ours := r.State == StateInFlight && r.Nonce == rep.nonce
	r.join(rep, ours && !rep.ended)
	if rep.failure != nil && (ours || r.CommittedBy == rep.committed && rep.committed != "") {
		r.LastFailure = rep.failure
	}
	if ours {
		r.Attempts = max(r.Attempts, rep.attempts)
	}
	switch {
	case rep.committed != "":
		return m.commit(r, rep)
	case ours && rep.ended:
		m.end(r, rep)
	case r.State == StateUnknown && len(r.Unresolved) == 0:
		r.note("late evidence: nothing happened", "", "")
		if rep.unsent {
			r.unspend(rep.nonce)
		}
		r.release()
	}
	return false
}

// join replaces what was known of the owner's attempts. What runs under its
// owner is no doubt yet. A record that is settled took them into account, by a
// look-up after they had closed or by a person's word, and opens no more.
func (r *Record) join(rep *report, owned bool) {
	switch r.State {
	case StateInFlight, StateUnknown, StateEscalated:
	default:
		return
	}
	r.Unresolved = append(withoutOwner(r.Unresolved, rep.nonce), rep.open...)
	if !owned {
		r.Unresolved = append(r.Unresolved, rep.running...)
	}
}

// commit is final. A second success of another attempt of a Write is a
// duplicate effect; the record stays as it is.
func (m *machine) commit(r *Record, rep *report) (duplicate bool) {
	if r.State == StateCommitted && r.CommittedBy != "" && r.CommittedBy != rep.committed {
		return m.strictest(r.Effect) == Write
	}
	if r.State != StateCommitted {
		r.Verification, r.Unheard = nil, rep.late
		if len(r.History) > 0 || !rep.first {
			r.note("committed", "", "")
		}
	} else if r.CommittedBy == rep.committed && rep.ended && !rep.late { // marked before, and its caller is told now
		r.Unheard = false
	}
	r.CommittedBy, r.Fingerprint = rep.committed, rep.identity // the effect is of these arguments
	r.setResult(rep)
	r.settleCommitted()
	return false
}

func (r *Record) setResult(rep *report) {
	if r.ResultPresent && !rep.present {
		return // a marked result stands when the attempt then failed
	}
	r.ResultPresent, r.ResultDigest = rep.present, rep.digest
	if rep.present {
		r.Result = rep.result
	}
}

// settleCommitted leaves Verification as it is: none means by execution, when
// it was settled.
func (r *Record) settleCommitted() {
	r.State, r.Unresolved = StateCommitted, nil
	r.LeaseUntil, r.NextCheckAt, r.NotBefore, r.UnknownSince = Instant{}, Instant{}, Instant{}, Instant{}
	if r.SettledAt.IsZero() {
		r.SettledAt = In(0)
	}
}

// end closes an ownership that did not commit.
func (m *machine) end(r *Record, rep *report) {
	r.LeaseUntil = Instant{}
	r.NotBefore = rep.notBefore
	if rep.unsent {
		r.unspend(rep.nonce)
	}
	r.note("failed: "+string(deref(rep.failure).Code), "", "")
	switch {
	case len(r.Unresolved) > 0:
		m.doubt(r)
	case rep.sticky:
		r.State, r.RejectedFields = StateRejected, rep.fields
	default:
		r.release()
		if r.Attempts >= m.maxAttempts {
			m.escalate(r, "lifetime budget spent")
		}
	}
}

// doubt makes r unknown, due for a look-up at once.
func (m *machine) doubt(r *Record) {
	r.State, r.LeaseUntil = StateUnknown, Instant{}
	if r.UnknownSince.IsZero() {
		r.UnknownSince = In(0)
	}
	if m.unverifiable && m.strictest(r.Effect) == Write { // an Idempotent one is sent again
		m.escalate(r, "the tool is declared unverifiable")
	}
}

// dueForLookup: it is unknown, and no look-up has seen its last attempt.
func (r *Record) dueForLookup() bool { return r.State == StateUnknown && r.NextCheckAt.IsZero() }

// release: provably not committed, may run again.
func (r *Record) release() {
	r.State, r.Unresolved = StateReleased, nil
	r.LeaseUntil, r.NextCheckAt, r.UnknownSince = Instant{}, Instant{}, Instant{}
	r.Checks = 0
}

// unspend gives an approval back that an ownership spent: its dispatch was
// never sent.
func (r *Record) unspend(nonce string) {
	if r.Approval != nil && r.Approval.SpentBy == nonce {
		r.Approval.Spent, r.Approval.SpentBy = false, ""
	}
}

func (m *machine) escalate(r *Record, why string) {
	r.State = StateEscalated
	r.LeaseUntil, r.NextCheckAt = Instant{}, Instant{}
	r.note("escalated", "", why)
}

// lookup is what a verifier answered.
type lookup struct {
	verdict     Verdict
	failed      bool // it could not tell: error, panic, deadline
	permanent   bool // and asking again cannot help
	err         error
	result      []byte
	present     bool
	digest      string
	evidenceRef string
	started     time.Time // on the store's clock, before the look-up

	began   time.Time // and on ours
	version int64     // of the record then
}

// asOf returns l as r sees it, which was read from the store just now if it is
// newer than the look-up. When the store's clock has stepped back meanwhile, l
// began earlier on it than it seemed: before attempts that have closed since.
func (l *lookup) asOf(r *Record) *lookup {
	if r.Version == l.version || r.Now.IsZero() {
		return l
	}
	seen := *l
	if began := r.Now.Add(-time.Since(l.began)); began.Before(seen.started) {
		seen.started = began
	}
	return &seen
}

// verified applies a look-up to an unknown operation.
func (m *machine) verified(r *Record, l *lookup) {
	found := l.verdict == FoundEffect && !l.failed
	switch {
	case r.State == StateUnknown:
	case found && (r.State == StateReleased || r.State == StateEscalated): // it stands above what was said meanwhile
	default:
		return // settled meanwhile; evidence from an attempt is better
	}
	again := r.NextCheckAt.Time().After(l.started) // others have looked meanwhile, or its time has not come: it does not count
	r.Verification = &Verification{CheckedAt: l.started, Source: SourceLookup, EvidenceRef: l.evidenceRef}
	switch {
	case l.failed || l.verdict == CannotTell:
		if !again || l.permanent {
			m.failedCheck(r, l.permanent)
		}
	case found:
		r.note("look-up: found", "", l.evidenceRef)
		r.setResult(&report{result: l.result, present: l.present, digest: l.digest})
		r.settleCommitted()
	case l.verdict == NoEffect:
		m.absent(r, l.started, again)
	default:
		r.LastFailure = &FailureRecord{Code: CodeVerificationConflict, Category: CategoryConflict}
		m.escalate(r, "look-up: conflict")
	}
}

// absent counts only when every attempt had closed before the look-up began,
// and only from an authoritative verifier.
func (m *machine) absent(r *Record, started time.Time, again bool) {
	settled := r.settledBy(started)
	switch {
	case settled && m.authoritative:
		r.note("look-up: absent", "", "")
		r.release()
	case settled && again:
	case settled:
		m.failedCheck(r, false)
	default:
		r.NextCheckAt = r.settleUntil()
		if r.NextCheckAt.IsZero() {
			r.NextCheckAt = In(m.settle)
		}
	}
}

// settledBy reports whether no unresolved attempt could still arrive, or send,
// at t.
func (r *Record) settledBy(t time.Time) bool {
	return !slices.ContainsFunc(r.Unresolved, func(u Unresolved) bool {
		return u.Settles.IsZero() || u.Settles.Time().After(t)
	})
}

// settleUntil is the end of the settle window; none while it is open.
func (r *Record) settleUntil() Instant {
	var last Instant
	for _, u := range r.Unresolved {
		if u.Settles.IsZero() {
			return Instant{}
		}
		if u.Settles.Time().After(last.Time()) {
			last = u.Settles
		}
	}
	return last
}

// failedCheck: a failed probe is never absence. It backs off until the checks
// are used up; then a person must decide.
func (m *machine) failedCheck(r *Record, permanent bool) {
	r.Checks++
	if permanent || r.Checks >= m.maxChecks {
		r.LastFailure = &FailureRecord{Code: CodeVerificationUnavailable, Category: CategoryDependency}
		m.escalate(r, "look-ups used up")
		return
	}
	wait := m.checkBackoff.pauses()
	for range r.Checks {
		r.NextCheckAt = In(wait.next())
	}
}

// CommitState is what r says about the effect of its operation.
func (r *Record) CommitState() CommitState {
	switch r.State.Safe() {
	case StateCommitted:
		return Committed
	case StateInFlight, StateUnknown:
		return CommitUnknown
	case StateEscalated:
		if len(r.Unresolved) > 0 || r.State != StateEscalated {
			return CommitUnknown
		}
	}
	return NotCommitted
}

func leaseOver(r *Record, now time.Time) bool {
	return !r.LeaseUntil.IsZero() && !r.LeaseUntil.Time().After(now)
}

// withoutOwner drops what is known about the attempts of one ownership.
func withoutOwner(list []Unresolved, nonce string) []Unresolved {
	return slices.DeleteFunc(slices.Clone(list), func(u Unresolved) bool {
		return u.Attempt == nonce || strings.HasPrefix(u.Attempt, nonce+"/")
	})
}

func attemptID(nonce string, n int) string { return nonce + "/" + strconv.Itoa(n) }

// heardPerson reports whether a person's word was the last that happened: it
// stands above the loop breaker.
func (r *Record) heardPerson() bool {
	return len(r.History) > 0 && r.History[len(r.History)-1].Actor != ""
}

// note adds to the history, which is bounded: the oldest entry stays, the
// oldest after it goes.
func (r *Record) note(event, actor, text string) {
	if len(r.History) >= maxHistory {
		r.History = slices.Delete(r.History, 1, 2)
	}
	r.History = append(r.History, HistoryEntry{At: In(0), State: r.State, Event: event, Actor: actor, Note: text})
}
