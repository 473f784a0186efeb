package toolexec

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A small exhaustive checker of the guard: every interleaving of two workers
// that call one operation, with crashes, expired leases, requests that land
// late, are dropped or refused, lost answers, abandoned attempts and people's
// statements. The transitions, the reports and the answers are the library's
// own functions; the model adds what surrounds them: a store with
// compare-and-swap, a clock of ticks, a network, a ledger.
//
// It is breadth first, so the trace of a violation is a shortest one. Time has
// no bound: a state is encoded relative to its clock, and what lies further
// back than any comparison can see is the same state.
//
// What is assumed, as the documentation does: an attempt sends only while its
// owner's lease runs, and a request arrives within the settle window.

var checkerLarge = flag.Bool("checker.large", false, "explore larger models: minutes, gigabytes")

const (
	ckTick   = time.Hour // far above what a step of the test takes
	ckLease  = 2         // ticks
	ckSettle = 1
)

var ckBase = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func ckTime(tick int) time.Time { return ckBase.Add(time.Duration(tick) * ckTick) }

// ckInput is one form of the call's arguments.
type ckInput struct {
	json     string
	identity string // what the fingerprint is taken of
	approval bool   // a call with it needs approval
}

func (in *ckInput) fingerprint() Fingerprint {
	return Fingerprint{Rule: fingerprintRule, Sum: sha256.Sum256([]byte(in.identity))}
}

var ckApprovedCorrections = []ckInput{
	{json: `{"amount":1}`, identity: "1", approval: true},
	{json: `{"amount":2}`, identity: "2", approval: true},
}

// ckConfig is one kind of tool, and what may happen to it.
type ckConfig struct {
	name     string
	effect   Effect
	inputs   []ckInput
	calls    int  // of each worker
	retries  int  // within a call
	attempts int  // lifetime budget
	verify   bool // there is a verifier
	lagging  bool // it may miss an effect; not authoritative
	probes   bool // look-ups may fail
	declared bool // Unverifiable
	marks    bool // MarksSent
	refuse   bool // the remote side may refuse by state
	wait     bool // and then asks for a tick's wait
	invalid  bool // the remote side may refuse the input
	abandon  bool // attempts may outlive their deadline
	outlive  bool // and every bound
	early    bool // the tool may call MarkCommitted, and then fail
	crash    bool // processes may die
	pause    bool // processes may sleep past their lease
	outage   bool // the store may be away when an ownership ends
	people   bool // Resolve, Reopen
	stale    bool // what is read and what is stored on it are steps of their own, as are a look-up and its use
	large    bool // only with -checker.large
}

var ckPlain = []ckInput{{json: `{"amount":1}`, identity: "1"}}

// The second input corrects the named field; the third changes another one.
var ckCorrections = []ckInput{
	{json: `{"amount":1}`, identity: "1"},
	{json: `{"amount":2}`, identity: "2"},
	{json: `{"amount":1,"note":"x"}`, identity: "3"},
}

// The second input differs from the first in a field that is no part of its
// identity, but part of what is approved.
var ckApprovals = []ckInput{
	{json: `{"amount":1}`, identity: "1", approval: true},
	{json: `{"amount":1,"at":2}`, identity: "1", approval: true},
}

// ckRules are the library's functions, so that a planted fault can wrap one.
type ckRules struct {
	begin    func(*machine, *Record, *intent, time.Time) move
	apply    func(*machine, *Record, *report) bool
	verified func(*machine, *Record, *lookup, time.Time)
	resolve  func(*machine, *Record, CommitState, Statement, time.Time) error
	unfenced bool // the store ignores versions
	eager    bool // the tool is invoked before the record says so
}

func ckReal() ckRules {
	return ckRules{
		begin:    (*machine).begin,
		apply:    (*machine).apply,
		verified: func(m *machine, r *Record, l *lookup, _ time.Time) { m.verified(r, l) },
		resolve:  (*machine).resolve,
	}
}

// request is where what an attempt sent is.
type ckRequest uint8

const (
	ckUnsent   ckRequest = iota
	ckTravels            // in the network
	ckLanded             // it took effect, or was recognised as a repetition
	ckRefused            // by state
	ckInvalid            // for its input
	ckVanished           // it can have no effect any more
)

// ckAttempt is one invocation of the tool.
type ckAttempt struct {
	n              int
	phase          phase
	sending        sendState
	evidence       Evidence
	mayHaveNil     bool // MarkSent returned nil to it
	marked         bool // it called MarkCommitted
	sent           ckRequest
	sentAt, endsAt int
	sealed         bool // somebody was told that it has no effect
	outcome        ckOutcome
}

// ckOutcome is how an attempt ended, for its owner.
type ckOutcome uint8

const (
	ckSuccess ckOutcome = iota
	ckNotSent
	ckDoubt
	ckState
	ckInput1
)

func (o ckOutcome) failure() *Failure {
	var f *Failure
	switch o {
	case ckSuccess:
		return nil
	case ckNotSent:
		f = NotSent(nil)
	case ckDoubt:
		f = InDoubt(nil)
	case ckState:
		f = Rejected(CodeRateLimited, nil)
	case ckInput1:
		f = Invalid("amount", "")
	}
	f.complete()
	return f
}

// ckSession is one ownership.
type ckSession struct {
	worker, ordinal int
	input           int
	before          int
	lease           int // until when its attempts may send
	ended, dead     bool
	unsaved         bool // its end could not be stored
	failed          ckOutcome
	waits           bool
	others, settled bool // as it last saw the record: others' open attempts, committed
	tries           []ckAttempt
}

func (s *ckSession) nonce() string {
	return string([]byte{'0' + byte(s.worker), 'a' + byte(s.ordinal)})
}

// runs reports whether an attempt of s is alive.
func (s *ckSession) runs() bool {
	return !s.dead && slices.ContainsFunc(s.tries, func(a ckAttempt) bool { return a.phase != phaseEnded })
}

// over reports whether nothing can come of s any more.
func (s *ckSession) over() bool {
	busy := slices.ContainsFunc(s.tries, func(a ckAttempt) bool { return a.sent == ckTravels })
	return !busy && (s.dead || s.ended && !s.unsaved && !s.runs())
}

type ckPhase uint8

const (
	ckIdle   ckPhase = iota
	ckBegins         // holds a copy of it, which may be stale
	ckEager          // planted fault: runs, and has yet to store it
	ckRuns
	ckDecides  // its attempt is over
	ckLooks    // about to look up
	ckAsks     // the look-up has started
	ckAnswered // it has its answer, and applies it
)

// ckWorker is a process with one caller at a time.
type ckWorker struct {
	phase     ckPhase
	calls     int // left
	input     int
	tries     int
	ordinal   int // of its newest session
	looked    bool
	own       bool // the look-up is about its own attempts
	out       ckOutcome
	record    *Record // as the call last saw it; never written
	started   int     // of the look-up
	verdict   Verdict
	probeLost bool
}

// ckWorld is a state of everything.
type ckWorld struct {
	now      int
	record   *Record // never written
	workers  [2]ckWorker
	sessions []ckSession

	effects   int  // in the ledger
	effectOf  int  // the input of the first
	told      bool // a caller was told that it is committed
	dispatch  int  // invocations since the last new allowance
	corrected int
	granted   [4]bool // approvals that nothing was sent on, by input

	broken string // the law that this step broke
	never  bool   // this step cannot happen
}

func (w *ckWorld) clone() *ckWorld {
	n := *w
	n.sessions = slices.Clone(w.sessions)
	for i := range n.sessions {
		n.sessions[i].tries = slices.Clone(n.sessions[i].tries)
	}
	return &n
}

func (w *ckWorld) breaks(law string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(law, args...)
	}
}

// session returns the live session of a worker's present call.
func (w *ckWorld) session(worker int) *ckSession {
	for i := range w.sessions {
		if s := &w.sessions[i]; s.worker == worker && s.ordinal == w.workers[worker].ordinal {
			return s
		}
	}
	return nil
}

// ckArrow is a transition of the record.
type ckArrow struct {
	from  State
	event string
	to    State
}

// ckEvent is one step, for traces.
type ckEvent struct {
	who  int // a worker; -1: nobody in particular
	text string
}

// checker explores one configuration under one set of rules.
type checker struct {
	cfg    ckConfig
	rules  ckRules
	x      *Executor
	tool   *tool
	arrows map[ckArrow]int
	emit   func(ckEvent, *ckWorld)
	seed   maphash.Seed

	lawsOnly bool // forbidden arrows are taken, to see which law falls
	buf      []byte
}

func newChecker(cfg ckConfig, rules ckRules) *checker {
	x := new(Executor)
	policy := Policy{MaxRetries: -1, MaxAttempts: cfg.attempts, MaxCorrections: 1}
	if cfg.retries > 0 {
		policy.MaxRetries = cfg.retries
	}
	tl := Tool[struct{}, int]{
		Name: "charge", Effect: cfg.effect, Policy: policy, MarksSent: cfg.marks, Unverifiable: cfg.declared,
		Run: func(context.Context, struct{}) (int, error) { return 0, nil },
	}
	if cfg.verify {
		tl.Verify = &Verifier[struct{}, int]{
			Lookup:        func(context.Context, string, struct{}) (Finding[int], error) { return Finding[int]{}, nil },
			Authoritative: !cfg.lagging, MaxChecks: 2,
		}
	}
	t := Bind(x, tl).t
	t.lease, t.settle = ckLease*ckTick, ckSettle*ckTick
	t.checkBackoff = Backoff{Initial: ckTick, Max: ckTick}
	return &checker{cfg: cfg, rules: rules, x: x, tool: t, arrows: map[ckArrow]int{}, seed: maphash.MakeSeed()}
}

// the store ------------------------------------------------------------------

// save is the store's compare-and-swap; the record that is stored now comes
// back either way.
func (k *checker) save(w *ckWorld, event string, r Record) (ok bool) {
	if r.Version != w.record.Version && !k.rules.unfenced {
		return false
	}
	r.Version = w.record.Version + 1
	r.Resolve(ckTime(w.now))
	for i := range r.Unresolved { // the report took a reading of the real clock
		u := &r.Unresolved[i].Settles
		if !u.IsZero() {
			*u = At(u.Time().Round(ckTick))
		}
	}
	r.History = nil
	from := w.record.State
	w.record = &r
	k.transition(w, from, event, r.State)
	return true
}

// update is Executor.update: it wins in the end, on the newest record.
func (k *checker) update(w *ckWorld, event string, change func(*Record) error) error {
	r := w.record.cloneHead()
	r.Now = ckTime(w.now)
	if err := change(&r); err != nil {
		return err
	}
	k.save(w, event, r)
	return nil
}

// transition judges an arrow.
// stale: elsewhere a compare-and-swap that wins is as if it had read just now,
// and one that loses reads anew, so one step will do.
func (k *checker) stale() bool { return k.cfg.stale || k.rules.unfenced || k.rules.eager }

// slow: whether time can pass between the end of an attempt and its storing.
func (k *checker) slow() bool { return k.cfg.pause || k.cfg.stale }

func (k *checker) read(w *ckWorld) *Record {
	r := *w.record
	r.Now = ckTime(w.now)
	return &r
}

func (k *checker) transition(w *ckWorld, from State, event string, to State) {
	if from == to && (event != "begin" || to != StateInFlight) {
		return
	}
	a := ckArrow{from, event, to}
	if !ckAllowed[a] && !k.lawsOnly {
		w.breaks("the machine has no arrow %s -- %s --> %s", from, event, to)
	}
	if from == StateCommitted {
		w.breaks("L3: committed is final, and was left for %s", to)
	}
	k.arrows[a]++
}

// the library's own half -----------------------------------------------------

// real builds the library's session of s, to let it report.
func (k *checker) real(w *ckWorld, s *ckSession) *session {
	c := k.call(w, s.worker)
	ours := &session{call: c, nonce: s.nonce(), before: s.before, ended: s.ended}
	if s.settled {
		ours.rec.State = StateCommitted
	}
	if s.others {
		ours.rec.Unresolved = []Unresolved{{Attempt: "other"}}
	}
	if f := s.failed.failure(); s.ended && f != nil {
		c.arguments = []byte(k.cfg.inputs[s.input].json)
		ours.failure, ours.sticky, ours.fields = c.failureRecord(f), f.isSticky(), c.rejectedFields(f)
		if s.waits {
			ours.until = In(ckTick)
		}
	}
	for i := range s.tries {
		ours.tries = append(ours.tries, k.realAttempt(w, c, &s.tries[i]))
	}
	return ours
}

func (k *checker) realAttempt(w *ckWorld, c *call, a *ckAttempt) *invocation {
	return &invocation{
		call: c, n: a.n, phase: a.phase, sending: a.sending, marks: a.marks(), evidence: a.evidence,
		marked: a.marked, endedAt: time.Now().Add(time.Duration(a.endsAt-w.now) * ckTick), succeeded: a.evidence == EvidenceCommitted,
	}
}

// call builds the library's call of a worker, to let it answer.
func (k *checker) call(w *ckWorld, worker int) *call {
	c := &call{operation: new(operation), x: k.x, t: k.tool, caller: context.Background()}
	c.key = Key{Ref: "op"}
	wk := &w.workers[worker]
	if wk.record != nil {
		c.record = *wk.record
	}
	c.tries = wk.tries
	c.intent = k.intent(w, worker)
	return c
}

func (k *checker) intent(w *ckWorld, worker int) intent {
	wk := &w.workers[worker]
	in := &k.cfg.inputs[wk.input]
	next := ckSession{worker: worker, ordinal: wk.ordinal + 1}
	return intent{
		key: Key{Ref: "op"}, fingerprint: in.fingerprint(), arguments: []byte(in.json), digest: in.json,
		approval: in.approval, approvalTTL: 3 * ckTick, nonce: next.nonce(), owner: "w",
	}
}

// store is session.store.
func (k *checker) store(w *ckWorld, s *ckSession, further func(*Record) error) error {
	err := k.update(w, "report", func(r *Record) error {
		k.rules.apply(&k.tool.machine, r, k.real(w, s).report())
		if further != nil {
			return further(r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.settled = w.record.State == StateCommitted
	s.others = len(withoutOwner(w.record.Unresolved, s.nonce())) > 0
	// What was reported as alive may send until the new end of its lease; a lease
	// that ran out is not taken up again.
	if s.ended && s.runs() && w.now < s.lease {
		s.lease = w.now + ckLease
	}
	return nil
}

// the laws -------------------------------------------------------------------

// judge checks what must hold in every state.
func (k *checker) judge(w *ckWorld) {
	r := w.record
	if w.effects > 1 {
		w.breaks("L1: the operation has %d effects", w.effects)
	}
	if r.State == StateAbsent {
		return
	}
	switch r.CommitState() {
	case Committed:
		if w.effects == 0 {
			w.breaks("L2: the record says committed, and the ledger has no effect")
		} else if k.cfg.inputs[w.effectOf].fingerprint() != r.Fingerprint {
			w.breaks("identity: the record names other arguments than the effect has")
		}
	case NotCommitted:
		k.seal(w, "the record", nil)
		if len(r.Unresolved) > 0 {
			w.breaks("joined: the record is %s, and holds an unresolved attempt", r.State)
		}
	}
}

// seal holds everybody to a "not committed": nothing that was dispatched before
// may have an effect, now or later.
func (k *checker) seal(w *ckWorld, who string, only *Fingerprint) {
	ours := func(input int) bool { return only == nil || k.cfg.inputs[input].fingerprint() == *only }
	if w.effects > 0 && ours(w.effectOf) {
		w.breaks("L2: %s says not_committed, and the ledger has the effect", who)
	}
	for i := range w.sessions {
		s := &w.sessions[i]
		for j := range s.tries {
			if ours(s.input) {
				s.tries[j].sealed = true
			}
		}
	}
}

// answer ends a worker's call.
func (k *checker) answer(w *ckWorld, worker int, c *call, h head) {
	in := &k.cfg.inputs[w.workers[worker].input]
	fp := in.fingerprint()
	switch {
	case h.OK || h.CommitState == Committed:
		w.told = true
		if w.effects == 0 {
			w.breaks("L2: a caller is told committed, and the ledger has no effect")
		} else if k.cfg.inputs[w.effectOf].fingerprint() != fp {
			w.breaks("identity: a caller is told committed for an effect of other arguments")
		}
	case c.record.Version != w.record.Version:
		// it rests on an older version: what was dispatched since is not its matter
	case h.CommitState == NotCommitted && h.Code == CodeOperationRefReused:
		k.seal(w, "a caller's envelope", &fp)
	case h.CommitState == NotCommitted:
		if w.told {
			w.breaks("L3: a caller is told not_committed after another was told committed")
		}
		k.seal(w, "a caller's envelope", nil)
	}
	wk := &w.workers[worker]
	*wk = ckWorker{phase: ckIdle, calls: wk.calls, ordinal: wk.ordinal}
}

// the steps ------------------------------------------------------------------

// step offers a copy of w to change.
func (k *checker) step(w *ckWorld, who int, text string, change func(*ckWorld)) {
	n := w.clone()
	change(n)
	if n.never {
		return
	}
	k.judge(n)
	n.sessions = slices.DeleteFunc(n.sessions, func(s ckSession) bool { return s.over() })
	k.emit(ckEvent{who, text}, n)
}

// successors offers everything that can happen next.
func (k *checker) successors(w *ckWorld) {
	for i := range w.workers {
		k.workerSteps(w, i)
	}
	for i := range w.sessions {
		for j := range w.sessions[i].tries {
			k.networkSteps(w, i, j)
			k.attemptSteps(w, i, j)
		}
		k.sessionSteps(w, i)
	}
	k.peopleSteps(w)
	k.recoverySteps(w)
	if k.mayTick(w) {
		k.step(w, -1, "a tick passes", func(n *ckWorld) { n.tick() })
	}
}

func (k *checker) mayTick(w *ckWorld) bool {
	for i := range w.workers { // a look-up has a deadline
		if wk := &w.workers[i]; (wk.phase == ckAsks || wk.phase == ckAnswered) && w.now > wk.started {
			return false
		}
	}
	if k.cfg.pause {
		return true
	}
	return !slices.ContainsFunc(w.sessions, func(s ckSession) bool { // healthy processes keep their leases
		return !s.dead && (!s.ended || s.runs()) && s.lease <= w.now+1
	})
}

func (w *ckWorld) tick() {
	w.now++
	for i := range w.sessions {
		for j := range w.sessions[i].tries {
			a := &w.sessions[i].tries[j]
			if a.sent == ckTravels && w.now >= a.sentAt+ckSettle {
				a.sent = ckVanished
			}
		}
	}
}

func (k *checker) workerSteps(w *ckWorld, i int) {
	wk := &w.workers[i]
	switch wk.phase {
	case ckIdle:
		for input := range k.cfg.inputs {
			if wk.calls > 0 {
				k.step(w, i, "calls "+k.cfg.inputs[input].json, func(n *ckWorld) {
					n.workers[i].phase, n.workers[i].input, n.workers[i].calls = ckBegins, input, wk.calls-1
					n.workers[i].record = k.read(n)
					if !k.stale() {
						k.begin(n, i)
					}
				})
			}
		}
	case ckBegins:
		k.step(w, i, "begins", func(n *ckWorld) { k.begin(n, i) })
	case ckEager:
		k.step(w, i, "stores its begin", func(n *ckWorld) { k.storeEager(n, i) })
		k.crashStep(w, i)
	case ckDecides:
		k.decideSteps(w, i)
	case ckLooks:
		k.step(w, i, "starts a look-up", func(n *ckWorld) { n.workers[i].phase, n.workers[i].started = ckAsks, n.now })
	case ckAsks:
		k.lookupSteps(w, i)
	case ckAnswered:
		k.step(w, i, "applies its look-up", func(n *ckWorld) { k.applyLookup(n, i) })
	case ckRuns:
	}
	if wk.phase != ckEager && k.hasLife(w, i) {
		k.crashStep(w, i)
	}
}

// hasLife: a crash of a process without a live session is a call less.
func (k *checker) hasLife(w *ckWorld, i int) bool {
	return slices.ContainsFunc(w.sessions, func(s ckSession) bool {
		return s.worker == i && !s.dead && (!s.ended || s.unsaved || s.runs())
	})
}

func (k *checker) crashStep(w *ckWorld, i int) {
	if !k.cfg.crash {
		return
	}
	k.step(w, i, "crashes", func(n *ckWorld) {
		for j := range n.sessions {
			if n.sessions[j].worker == i {
				n.sessions[j].dead = true
			}
		}
		n.workers[i] = ckWorker{phase: ckIdle, calls: n.workers[i].calls, ordinal: n.workers[i].ordinal}
	})
}

// begin is call.begin: the machine's word, made real by one compare-and-swap.
func (k *checker) begin(w *ckWorld, i int) {
	wk := &w.workers[i]
	in := k.intent(w, i)
	if !k.stale() {
		wk.record = k.read(w)
	}
	was := wk.record
	next := was.cloneHead()
	mv := k.rules.begin(&k.tool.machine, &next, &in, ckTime(w.now))
	if mv == moveRun {
		k.mayRun(w, was)
	}
	if mv == moveRun && k.rules.eager {
		k.invoke(w, i, &next)
		wk.record, wk.phase = was, ckEager
		return
	}
	if needsSave(was, &next, mv) {
		if !k.save(w, "begin", next) {
			wk.phase = ckBegins
			wk.record = k.read(w)
			w.broken = "" // it did not run
			return
		}
		if mv == moveRun && was.State == StateRejected || was.State == StateRejected && w.record.State == StateAwaitingApproval {
			w.corrected++
		}
		wk.record = w.record
	}
	k.proceed(w, i, mv)
}

// mayRun checks L5 of a begin that is about to win.
func (k *checker) mayRun(w *ckWorld, was *Record) {
	if was.Version != w.record.Version && !k.rules.unfenced {
		return
	}
	if w.dispatch >= k.cfg.attempts {
		w.breaks("L5: dispatched beyond the lifetime budget of %d", k.cfg.attempts)
	}
	if was.NotBefore.Time().After(ckTime(w.now)) {
		w.breaks("L5: dispatched before not_before")
	}
	if was.State == StateRejected && w.corrected > 0 {
		w.breaks("L5: corrected more often than allowed")
	}
}

// proceed is what call.own does after a move.
func (k *checker) proceed(w *ckWorld, i int, mv move) {
	wk := &w.workers[i]
	c := k.call(w, i)
	switch mv {
	case moveRun:
		k.invoke(w, i, w.record)
	case moveReplay:
		k.answer(w, i, c, c.replay(*wk.record))
	case moveWait:
		k.answer(w, i, c, c.inProgress())
	case moveVerify:
		if wk.looked {
			k.answer(w, i, c, c.standing(mv))
			return
		}
		wk.looked, wk.own, wk.phase = true, false, ckLooks
	default:
		k.answer(w, i, c, c.standing(mv))
	}
}

// invoke starts the first attempt of a new ownership.
func (k *checker) invoke(w *ckWorld, i int, r *Record) {
	wk := &w.workers[i]
	wk.ordinal++
	wk.phase = ckRuns
	w.sessions = append(w.sessions, ckSession{
		worker: i, ordinal: wk.ordinal, input: wk.input, before: r.Attempts - 1, lease: w.now + ckLease,
		others: len(r.Unresolved) > 0,
	})
	k.dispatch(w, i)
}

func (k *checker) dispatch(w *ckWorld, i int) {
	wk := &w.workers[i]
	s := w.session(i)
	wk.tries++
	w.dispatch++
	wk.phase = ckRuns
	s.tries = append(s.tries, ckAttempt{n: wk.tries})
}

// storeEager is the planted fault's late begin.
func (k *checker) storeEager(w *ckWorld, i int) {
	wk := &w.workers[i]
	in := k.intent(w, i)
	in.nonce = w.session(i).nonce()
	next := wk.record.cloneHead()
	if mv := k.rules.begin(&k.tool.machine, &next, &in, ckTime(w.now)); mv == moveRun && k.save(w, "begin", next) {
		wk.record = w.record
		wk.phase = ckRuns
		return
	}
	w.session(i).dead = true
	*wk = ckWorker{phase: ckIdle, calls: wk.calls, ordinal: wk.ordinal}
}

// the network and the ledger

func (k *checker) networkSteps(w *ckWorld, i, j int) {
	if w.sessions[i].tries[j].sent != ckTravels {
		return
	}
	who := w.sessions[i].worker
	to := func(text string, end ckRequest) {
		k.step(w, who, text, func(n *ckWorld) { n.sessions[i].tries[j].sent = end })
	}
	k.step(w, who, "its request lands", func(n *ckWorld) { k.land(n, i, j) })
	if k.cfg.refuse {
		to("its request is refused by state", ckRefused)
	}
	if k.cfg.invalid && w.sessions[i].input != 1 {
		to("its request is refused for its input", ckInvalid)
	}
}

func (k *checker) land(w *ckWorld, i, j int) {
	s := &w.sessions[i]
	a := &s.tries[j]
	a.sent = ckLanded
	if k.cfg.effect == Idempotent && w.effects > 0 {
		return // recognised by its ref
	}
	if a.sealed {
		w.breaks("L2: an attempt takes effect after somebody was told not_committed")
	}
	if w.effects == 0 {
		w.effectOf = s.input
	}
	w.effects++
}

// what an attempt does

func (k *checker) attemptSteps(w *ckWorld, i, j int) {
	s := &w.sessions[i]
	a := &s.tries[j]
	if s.dead || a.phase == phaseEnded {
		return
	}
	inTime := w.now < s.lease
	marked := a.sending == sendMarked || a.mayHaveNil
	if k.cfg.marks && a.sending == sendUnmarked && inTime {
		k.settling(w, s.worker, "marks its send", func(n *ckWorld) { k.mark(n, i, j) })
	}
	if a.sent == ckUnsent && inTime && (marked || !k.cfg.marks) {
		k.step(w, s.worker, "sends", func(n *ckWorld) { k.send(n, i, j) })
	}
	if k.cfg.early && a.sent == ckLanded && !a.marked {
		k.step(w, s.worker, "marks its commit", func(n *ckWorld) { // MarkCommitted
			a := &n.sessions[i].tries[j]
			a.marked, a.evidence = true, EvidenceCommitted
			_ = k.store(n, &n.sessions[i], nil)
		})
	}
	k.endSteps(w, i, j)
	if a.phase == phaseRunning && k.cfg.abandon && w.workers[s.worker].phase == ckRuns {
		k.settling(w, s.worker, "is cut at its deadline", func(n *ckWorld) { k.cut(n, i, j) })
	}
}

// mark is invocation.markSent and session.markSent.
func (k *checker) mark(w *ckWorld, i, j int) {
	s := &w.sessions[i]
	err := k.store(w, s, func(r *Record) error {
		if r.State != StateInFlight || r.Nonce != s.nonce() {
			return errOwnerLost
		}
		r.Sent = true
		return nil
	})
	if err == nil {
		s.tries[j].sending, s.tries[j].mayHaveNil = sendMarked, true
		return
	}
	k.end(w, i, j, ckNotSent) // the tool returns that error
}

func (k *checker) send(w *ckWorld, i, j int) {
	s := &w.sessions[i]
	a := &s.tries[j]
	a.sent, a.sentAt = ckTravels, w.now
	if k.cfg.inputs[s.input].approval {
		if !w.granted[s.input] {
			w.breaks("L5: sent without an approval of these arguments that is not spent")
		}
		w.granted[s.input] = false
	}
}

// endSteps: what the tool may return, given what became of its request.
func (k *checker) endSteps(w *ckWorld, i, j int) {
	s := &w.sessions[i]
	ends := func(text string, o ckOutcome) {
		k.settling(w, s.worker, text, func(n *ckWorld) { k.end(n, i, j, o) })
	}
	switch s.tries[j].sent {
	case ckUnsent:
		ends("returns: not sent", ckNotSent)
	case ckLanded:
		ends("returns: success", ckSuccess)
	case ckRefused:
		ends("returns: refused by state", ckState)
	case ckInvalid:
		ends("returns: refused for its input", ckInput1)
	case ckTravels, ckVanished:
	}
	if o := s.tries[j].sent; o == ckTravels || o == ckLanded || o == ckVanished {
		ends("returns: no answer", ckDoubt)
	}
}

// settling is a step that may end an attempt. Where no time can pass before its
// owner acts on that, the owner acts in the same step.
func (k *checker) settling(w *ckWorld, i int, text string, change func(*ckWorld)) {
	if k.slow() {
		k.step(w, i, text, change)
		return
	}
	for _, d := range ckDecisions {
		k.step(w, i, text+d.text, func(n *ckWorld) {
			change(n)
			decides := n.workers[i].phase == ckDecides
			switch {
			case n.never || !decides && d.may != nil || decides && d.may != nil && !d.may(k, n, i):
				n.never = true
			case decides:
				d.do(k, n, i)
			}
		})
	}
}

// ckDecision is what an owner does once its attempt is over.
type ckDecision struct {
	text string
	may  func(*checker, *ckWorld, int) bool // nil: always
	do   func(*checker, *ckWorld, int)
}

var ckDecisions = []ckDecision{
	{"", nil, func(k *checker, n *ckWorld, i int) { k.finish(n, i, true, false) }},
	{"; it tries again", (*checker).wouldRetry, (*checker).retry},
	{
		"; it is to wait", func(k *checker, w *ckWorld, i int) bool { return k.cfg.wait && w.workers[i].out == ckState },
		func(k *checker, n *ckWorld, i int) { k.finish(n, i, true, true) },
	},
	{
		"; its end cannot be stored", func(k *checker, w *ckWorld, i int) bool { return k.cfg.outage && w.workers[i].ordinal == 1 },
		func(k *checker, n *ckWorld, i int) { k.finish(n, i, false, false) },
	},
}

// end settles an attempt: for its owner, or as late evidence.
func (k *checker) end(w *ckWorld, i, j int, o ckOutcome) {
	s := &w.sessions[i]
	a := &s.tries[j]
	late := a.phase == phaseCut
	inv := k.realAttempt(w, k.call(w, s.worker), a)
	f := o.failure()
	if late && f != nil && inv.evidence == EvidenceNotSent {
		f.Evidence = EvidenceNotSent
	}
	inv.settle(f)
	a.phase, a.sending, a.evidence, a.endsAt = inv.phase, inv.sending, inv.evidence, w.now
	if late {
		_ = k.store(w, s, nil)
		return
	}
	a.outcome = o
	if f != nil && f.Evidence == EvidenceNotSent {
		a.outcome = ckNotSent
	}
	wk := &w.workers[s.worker]
	wk.phase, wk.out = ckDecides, a.outcome
}

// cut is invocation.cut.
func (k *checker) cut(w *ckWorld, i, j int) {
	s := &w.sessions[i]
	a := &s.tries[j]
	inv := k.realAttempt(w, k.call(w, s.worker), a)
	if !a.marked {
		a.evidence = inv.sentOr(EvidenceInDoubt)
	}
	a.phase, a.sending = phaseCut, sendClosed
	a.outcome = ckDoubt
	if a.evidence == EvidenceNotSent {
		a.outcome = ckNotSent
	}
	wk := &w.workers[s.worker]
	wk.phase, wk.out = ckDecides, a.outcome
}

// what an owner does

func (k *checker) decideSteps(w *ckWorld, i int) {
	for _, d := range ckDecisions {
		if d.may == nil || d.may(k, w, i) {
			k.step(w, i, "stores how it ended"+d.text, func(n *ckWorld) { d.do(k, n, i) })
		}
	}
}

// wouldRetry is the decision in call.attempts.
func (k *checker) wouldRetry(w *ckWorld, i int) bool {
	s := w.session(i)
	f := w.workers[i].out.failure()
	if f == nil || w.workers[i].tries > k.tool.policy.MaxRetries {
		return false
	}
	ours := k.real(w, s)
	spent := k.cfg.inputs[s.input].approval && !ours.allUnsent()
	return mayRetry(k.tool.effect, f, ours.commitState()) && !spent && ours.attemptsUsed() < k.tool.policy.lifetime()
}

// retry is session.nextAttempt and the dispatch after it.
func (k *checker) retry(w *ckWorld, i int) {
	s := w.session(i)
	err := k.store(w, s, func(r *Record) error {
		if r.State != StateInFlight || r.Nonce != s.nonce() {
			return errOwnerLost
		}
		r.LeaseUntil = In(ckLease * ckTick)
		r.Attempts = max(r.Attempts, s.before+len(s.tries)+1)
		return nil
	})
	if err != nil {
		k.finish(w, i, true, false)
		return
	}
	if w.dispatch >= k.cfg.attempts {
		w.breaks("L5: dispatched beyond the lifetime budget of %d", k.cfg.attempts)
	}
	s.lease = w.now + ckLease
	k.dispatch(w, i)
}

// finish is session.end and what call.runOwned answers.
func (k *checker) finish(w *ckWorld, i int, stored, waits bool) {
	wk := &w.workers[i]
	s := w.session(i)
	s.ended, s.failed, s.waits, s.unsaved = true, wk.out, waits, !stored
	if stored {
		_ = k.store(w, s, nil)
		wk.record = w.record
	} else {
		r := w.record.cloneHead() // session.asIfStored
		k.rules.apply(&k.tool.machine, &r, k.real(w, s).report())
		r.Resolve(ckTime(w.now))
		wk.record = &r
	}
	f := wk.out.failure()
	c := k.call(w, i)
	switch {
	case f == nil:
		won := &invocation{call: c, phase: phaseEnded, succeeded: true}
		k.answer(w, i, c, c.success(won, *wk.record, stored))
	case wk.record.State == StateCommitted:
		k.answer(w, i, c, c.marked(*wk.record, stored))
	case wk.record.State == StateUnknown && k.tool.verifiable && !wk.looked && stored:
		wk.looked, wk.own, wk.phase = true, true, ckLooks
	default:
		k.answer(w, i, c, c.ownFailure(outcome{fail: f}, stored))
	}
}

// sessionSteps: heartbeats, stores that come late, and the bound on a life.
func (k *checker) sessionSteps(w *ckWorld, i int) {
	s := &w.sessions[i]
	if s.dead || !s.ended {
		return
	}
	if s.unsaved {
		k.step(w, s.worker, "stores its end at last", func(n *ckWorld) {
			n.sessions[i].unsaved = false
			_ = k.store(n, &n.sessions[i], nil)
		})
	}
	if !s.runs() {
		return
	}
	k.step(w, s.worker, "beats for its abandoned attempt", func(n *ckWorld) { _ = k.store(n, &n.sessions[i], nil) })
	if k.cfg.outlive {
		k.step(w, s.worker, "gives its abandoned attempt to a person", func(n *ckWorld) {
			_ = k.store(n, &n.sessions[i], func(r *Record) error {
				if r.State == StateUnknown {
					k.tool.machine.escalate(r, "")
				}
				return nil
			})
		})
	}
}

// look-ups

func (k *checker) lookupSteps(w *ckWorld, i int) {
	sees := func(text string, v Verdict, failed bool) {
		k.step(w, i, text, func(n *ckWorld) {
			wk := &n.workers[i]
			wk.phase, wk.verdict, wk.probeLost = ckAnswered, v, failed
			if !k.stale() {
				k.applyLookup(n, i)
			}
		})
	}
	switch {
	case w.effects > 1:
		sees("its look-up finds several", OtherEffect, false)
	case w.effects == 1:
		sees("its look-up finds the effect", FoundEffect, false)
	}
	if w.effects == 0 || k.cfg.lagging {
		sees("its look-up finds nothing", NoEffect, false)
	}
	if k.cfg.probes {
		sees("its look-up fails", CannotTell, true)
	}
}

// applyLookup is call.verify, and what its caller does next.
func (k *checker) applyLookup(w *ckWorld, i int) {
	wk := &w.workers[i]
	l := &lookup{verdict: wk.verdict, failed: wk.probeLost, started: ckTime(wk.started)}
	_ = k.update(w, "look-up", func(r *Record) error {
		k.rules.verified(&k.tool.machine, r, l, ckTime(w.now))
		return nil
	})
	wk.record = k.read(w)
	wk.verdict, wk.probeLost, wk.started = 0, false, 0
	if !wk.own {
		wk.phase = ckBegins
		return
	}
	f := wk.out.failure()
	c := k.call(w, i)
	switch {
	case wk.record.State == StateCommitted:
		k.answer(w, i, c, c.verifiedSuccess(*wk.record))
	case wk.record.State == StateReleased && f.Class == ClassTransient && wk.tries <= k.tool.policy.MaxRetries:
		wk.phase, wk.own = ckBegins, false
	default:
		k.answer(w, i, c, c.ownFailure(outcome{fail: f}, true))
	}
}

// recoverySteps: a pass that starts nothing, but settles what nobody calls for
// any more.
func (k *checker) recoverySteps(w *ckWorld) {
	r := w.record
	m := &k.tool.machine
	now := ckTime(w.now)
	if r.State == StateInFlight && leaseOver(r, now) {
		k.step(w, -1, "recovery takes the owner for lost", func(n *ckWorld) {
			in := intent{key: r.Key, fingerprint: r.Fingerprint, repeat: true, nonce: "r"}
			_ = k.update(n, "begin", func(r *Record) error { k.rules.begin(m, r, &in, now); return nil })
		})
	}
	if r.State == StateUnknown && k.cfg.verify && !r.NextCheckAt.Time().After(now) {
		k.step(w, -1, "recovery looks it up", func(n *ckWorld) {
			l := &lookup{verdict: NoEffect, started: now}
			if n.effects > 0 {
				l.verdict = FoundEffect
			}
			_ = k.update(n, "look-up", func(r *Record) error { k.rules.verified(m, r, l, now); return nil })
		})
	}
}

// people

func (k *checker) peopleSteps(w *ckWorld) {
	by := Statement{Actor: "a", Evidence: "e"}
	m := &k.tool.machine
	says := func(text, event string, change func(*Record) error, then func(*ckWorld)) {
		r := w.record.cloneHead()
		if change(&r) != nil {
			return // refused
		}
		k.step(w, -1, text, func(n *ckWorld) {
			_ = k.update(n, event, change)
			then(n)
		})
	}
	if r := w.record; r.State == StateAwaitingApproval && r.Approval.Decision == "" {
		held := slices.IndexFunc(k.cfg.inputs, func(in ckInput) bool { return in.json == r.Approval.Digest })
		says("a person approves", "approve", func(r *Record) error { return m.approve(r, r.Approval.Digest, by, 2*ckTick, ckTime(w.now)) },
			func(n *ckWorld) { n.granted = [4]bool{}; n.granted[held] = true })
		says("a person denies", "deny", func(r *Record) error { return m.deny(r, by) }, func(*ckWorld) {})
	}
	if !k.cfg.people {
		return
	}
	now := ckTime(w.now)
	if w.effects > 0 {
		says("a person says committed", "resolve", func(r *Record) error { return k.rules.resolve(m, r, Committed, by, now) }, func(*ckWorld) {})
	} else {
		says("a person says not committed", "resolve", func(r *Record) error { return k.rules.resolve(m, r, NotCommitted, by, now) },
			func(n *ckWorld) { n.dispatch, n.corrected, n.granted = 0, 0, [4]bool{} })
	}
	says("a person reopens", "reopen", func(r *Record) error { return m.reopen(r, by) }, func(n *ckWorld) { n.corrected = 0 })
}

// states ---------------------------------------------------------------------

// key names a state. The workers are alike, so the smaller of both orders
// stands for both.
func (k *checker) key(w *ckWorld) uint64 {
	k.buf = k.encode(k.buf[:0], w, 0)
	n := len(k.buf)
	k.buf = k.encode(k.buf, w, 1)
	a, b := k.buf[:n], k.buf[n:]
	if slices.Compare(a, b) > 0 {
		a = b
	}
	return maphash.Bytes(k.seed, a)
}

type ckEncoder struct {
	b     []byte
	now   int
	first int // the worker that counts as the first
}

// ckHorizon is how far back a comparison can see: to the start of a look-up.
const ckHorizon = 2

func (e *ckEncoder) num(n int)          { e.b = append(e.b, byte(n)) }
func (e *ckEncoder) text(s string)      { e.b = append(append(e.b, s...), 0) }
func (e *ckEncoder) at(tick, floor int) { e.num(max(tick-e.now, -floor) + 100) }
func (e *ckEncoder) worker(i int)       { e.num(i ^ e.first) }
func (e *ckEncoder) bits(v ...bool) {
	n := 0
	for _, b := range v {
		n <<= 1
		if b {
			n |= 1
		}
	}
	e.num(n)
}

func (e *ckEncoder) instant(i Instant, floor int) {
	if i.IsZero() {
		e.num(255)
		return
	}
	e.at(int(i.Time().Sub(ckBase)/ckTick), floor)
}

func (e *ckEncoder) nonce(s string) {
	if s == "" || s[0] < '0' || s[0] > '1' {
		e.text(s)
		return
	}
	e.worker(int(s[0] - '0'))
	e.text(s[1:])
}

func (e *ckEncoder) record(r *Record) {
	e.text(string(r.State))
	if r.State == StateAbsent {
		return
	}
	e.b = append(e.b, r.Fingerprint.Sum[0])
	e.nonce(r.Nonce)
	e.bits(r.Sent, r.Effect == Write)
	e.instant(r.LeaseUntil, ckSettle+ckHorizon)
	e.instant(r.NotBefore, 0)
	e.instant(r.NextCheckAt, 0)
	e.num(r.Attempts)
	e.num(r.Checks)
	e.num(r.Corrections)
	e.num(len(r.RejectedFields))
	for _, u := range r.Unresolved {
		e.nonce(u.Attempt)
		e.bits(u.Alive)
		e.instant(u.Settles, ckHorizon)
	}
	e.num(254)
	e.nonce(r.CommittedBy)
	if a := r.Approval; a != nil {
		e.text(a.Digest)
		e.text(a.Decision)
		e.bits(a.Spent)
		e.instant(a.Expires, 0)
	}
}

func (k *checker) encode(b []byte, w *ckWorld, first int) []byte {
	e := &ckEncoder{b: b, now: w.now, first: first}
	e.record(w.record)
	e.num(w.effects)
	if w.effects > 0 {
		e.num(w.effectOf)
	}
	e.num(w.dispatch)
	e.num(w.corrected)
	e.bits(w.told, w.granted[0], w.granted[1], w.granted[2], w.granted[3])
	for p := range w.workers {
		wk := &w.workers[p^first]
		e.num(int(wk.phase))
		e.num(wk.calls)
		e.num(wk.ordinal)
		if wk.phase == ckIdle {
			continue
		}
		e.num(wk.input)
		e.num(wk.tries)
		e.num(int(wk.out))
		e.num(int(wk.verdict))
		e.bits(wk.looked, wk.own, wk.probeLost)
		if wk.phase == ckAsks || wk.phase == ckAnswered {
			e.at(wk.started, ckHorizon)
		}
		switch {
		case !k.stale() || wk.phase != ckBegins && wk.phase != ckEager: // what it saw before does not count any more
		case wk.record.Version == w.record.Version:
			e.num(1)
		default:
			e.num(2)
			e.record(wk.record)
		}
	}
	for p := range w.workers {
		for i := range w.sessions {
			if s := &w.sessions[i]; s.worker == p^first {
				e.session(s)
			}
		}
	}
	return e.b
}

func (e *ckEncoder) session(s *ckSession) {
	e.worker(s.worker)
	e.num(s.ordinal)
	e.num(s.input)
	if s.dead {
		for i := range s.tries { // only what travels counts
			if a := &s.tries[i]; a.sent == ckTravels {
				e.bits(a.sealed)
				e.at(a.sentAt, ckSettle)
			}
		}
		e.num(252)
		return
	}
	e.num(s.before)
	e.at(s.lease, 0)
	e.num(int(s.failed))
	e.bits(s.ended, s.dead, s.unsaved, s.waits, s.others, s.settled)
	for i := range s.tries {
		a := &s.tries[i]
		e.num(int(a.phase)<<4 | int(a.sending))
		e.num(int(a.evidence)<<4 | int(a.sent))
		e.bits(a.sealed, a.mayHaveNil, a.marked)
		if a.sent == ckTravels {
			e.at(a.sentAt, ckSettle)
		}
		if a.phase == phaseEnded {
			e.at(a.endsAt, ckSettle+ckHorizon)
		}
	}
	e.num(253)
}

// exploration ----------------------------------------------------------------

// ckFound is what an exploration came to.
type ckFound struct {
	states, steps int
	took          time.Duration
	cut           bool   // there are more states
	law           string // that was broken; "" for none
	trace         []string
	stuck         []string // a trace to a state from which nothing is ever settled
}

type ckOrigin struct {
	parent int32
	branch int32
}

func (k *checker) start() *ckWorld {
	w := &ckWorld{record: new(Record)}
	for i := range w.workers {
		w.workers[i].calls = k.cfg.calls
	}
	return w
}

// explore visits every state, or stops at the first that breaks a law.
func (k *checker) explore(limit int) (found ckFound) {
	began := time.Now()
	defer func() { found.took = time.Since(began) }()
	type pending struct {
		id int32
		w  *ckWorld
	}
	first := k.start()
	ids := map[uint64]int32{k.key(first): 0}
	origins := []ckOrigin{{-1, 0}}
	settled := []bool{true}
	var edges [][2]int32
	queue := []pending{{0, first}}
	for len(queue) > 0 && found.law == "" && !found.cut {
		at := queue[0]
		queue[0] = pending{}
		queue = queue[1:]
		branch := int32(-1)
		k.emit = func(_ ckEvent, n *ckWorld) {
			branch++
			found.steps++
			if found.law != "" {
				return
			}
			if n.broken != "" {
				found.law = n.broken
				found.trace = k.retrace(append(k.path(origins, at.id), branch))
				return
			}
			key := k.key(n)
			id, known := ids[key]
			if !known {
				id = int32(len(origins)) // bounded by limit
				ids[key] = id
				origins = append(origins, ckOrigin{at.id, branch})
				settled = append(settled, n.record.State != StateInFlight && n.record.State != StateUnknown)
				queue = append(queue, pending{id, n})
			}
			if k.cfg.verify && !settled[at.id] {
				edges = append(edges, [2]int32{at.id, id})
			}
		}
		k.successors(at.w)
		found.cut = len(origins) > limit
	}
	found.states = len(origins)
	if found.law == "" && !found.cut && k.cfg.verify {
		if id := unsettled(settled, edges); id >= 0 {
			found.stuck = k.retrace(k.path(origins, id))
		}
	}
	return found
}

// unsettled returns a state from which no settled one can be reached; -1 for
// none.
func unsettled(settled []bool, edges [][2]int32) int32 {
	into := make(map[int32][]int32)
	var reached []int32
	for _, e := range edges {
		into[e[1]] = append(into[e[1]], e[0])
	}
	for id, ok := range settled {
		if ok {
			reached = append(reached, int32(id)) // bounded by the exploration
		}
	}
	for len(reached) > 0 {
		id := reached[len(reached)-1]
		reached = reached[:len(reached)-1]
		for _, from := range into[id] {
			if !settled[from] {
				settled[from] = true
				reached = append(reached, from)
			}
		}
	}
	return int32(slices.Index(settled, false)) // as above
}

func (k *checker) path(origins []ckOrigin, id int32) (branches []int32) {
	for ; id > 0; id = origins[id].parent {
		branches = append(branches, origins[id].branch)
	}
	slices.Reverse(branches)
	return branches
}

// retrace takes a path again, and tells it.
func (k *checker) retrace(branches []int32) (lines []string) {
	outer := k.emit
	defer func() { k.emit = outer }()
	w := k.start()
	for step, want := range branches {
		var next *ckWorld
		branch := int32(-1)
		k.emit = func(e ckEvent, n *ckWorld) {
			if branch++; branch == want {
				next = n
				lines = append(lines, k.line(step+1, e, w, n))
			}
		}
		k.successors(w)
		w = next
	}
	return lines
}

func (k *checker) line(step int, e ckEvent, was, is *ckWorld) string {
	who := ""
	if e.who >= 0 {
		who = string([]byte{'A' + byte(e.who)}) + " "
	}
	s := fmt.Sprintf("%2d. t=%d %s%s", step, was.now, who, e.text)
	if is.record.Version != was.record.Version {
		s += fmt.Sprintf(" → %s", is.record.State)
		for _, u := range is.record.Unresolved {
			s += " [open " + u.Attempt + "]"
		}
	}
	if is.effects != was.effects {
		s += fmt.Sprintf(" ⇒ ledger: %d", is.effects)
	}
	if is.broken != "" {
		s += "   ✗ " + is.broken
	}
	return s
}

// the table ------------------------------------------------------------------

func ckSet(list ...ckArrow) map[ckArrow]bool {
	m := make(map[ckArrow]bool, len(list))
	for _, a := range list {
		m[a] = true
	}
	return m
}

// ckAllowed are all the arrows of the machine.
var ckAllowed = ckSet(
	ckArrow{StateAbsent, "begin", StateInFlight},
	ckArrow{StateAbsent, "begin", StateAwaitingApproval},
	ckArrow{StateReleased, "begin", StateInFlight},
	ckArrow{StateReleased, "begin", StateAwaitingApproval},
	ckArrow{StateReleased, "begin", StateEscalated}, // budget spent
	ckArrow{StateRejected, "begin", StateInFlight},
	ckArrow{StateRejected, "begin", StateAwaitingApproval},
	ckArrow{StateRejected, "begin", StateEscalated}, // corrections spent
	ckArrow{StateAwaitingApproval, "begin", StateInFlight},
	ckArrow{StateUnknown, "begin", StateInFlight},          // Idempotent
	ckArrow{StateUnknown, "begin", StateEscalated},         // Idempotent, budget spent
	ckArrow{StateInFlight, "begin", StateInFlight},         // owner lost, Idempotent; owner lost unmarked, and begun again
	ckArrow{StateInFlight, "begin", StateUnknown},          // owner lost
	ckArrow{StateInFlight, "begin", StateReleased},         // owner lost, unmarked
	ckArrow{StateInFlight, "begin", StateEscalated},        // owner lost, unverifiable
	ckArrow{StateInFlight, "begin", StateAwaitingApproval}, // owner lost, unmarked, and the approval has expired
	ckArrow{StateInFlight, "report", StateCommitted},
	ckArrow{StateInFlight, "report", StateReleased},
	ckArrow{StateInFlight, "report", StateRejected},
	ckArrow{StateInFlight, "report", StateUnknown},
	ckArrow{StateInFlight, "report", StateEscalated}, // budget spent; unverifiable
	ckArrow{StateUnknown, "report", StateCommitted},
	ckArrow{StateUnknown, "report", StateReleased},
	ckArrow{StateUnknown, "report", StateEscalated}, // it outlived every bound
	ckArrow{StateEscalated, "report", StateCommitted},
	ckArrow{StateUnknown, "look-up", StateCommitted},
	ckArrow{StateUnknown, "look-up", StateReleased},
	ckArrow{StateUnknown, "look-up", StateEscalated},
	ckArrow{StateUnknown, "resolve", StateCommitted},
	ckArrow{StateUnknown, "resolve", StateReleased},
	ckArrow{StateEscalated, "resolve", StateCommitted},
	ckArrow{StateEscalated, "resolve", StateReleased},
	ckArrow{StateAwaitingApproval, "deny", StateEscalated},
	ckArrow{StateRejected, "reopen", StateReleased},
)

// Every configuration has two workers. The large ones take minutes.
var ckConfigs = []ckConfig{
	{name: "write, verified", inputs: ckPlain, calls: 2, attempts: 3, verify: true, abandon: true, crash: true},
	{name: "write, verified, refused", inputs: ckPlain, calls: 2, attempts: 3, retries: 1, verify: true, crash: true, refuse: true, wait: true},
	{name: "write, verified, stale reads", inputs: ckPlain, calls: 1, attempts: 3, verify: true, abandon: true, crash: true, stale: true},
	{name: "write, verified, people", inputs: ckPlain, calls: 1, attempts: 2, verify: true, probes: true, abandon: true, outlive: true, crash: true, people: true},
	{name: "write, verified, outage", inputs: ckPlain, calls: 1, attempts: 3, verify: true, abandon: true, crash: true, outage: true},
	{name: "write, verified, paused", inputs: ckPlain, calls: 1, attempts: 3, verify: true, crash: true, pause: true},
	{name: "write, lagging verifier", inputs: ckPlain, calls: 2, attempts: 3, verify: true, lagging: true, crash: true},
	{name: "write, no verifier", inputs: ckPlain, calls: 2, attempts: 3, abandon: true, crash: true, people: true},
	{name: "write, declared unverifiable", inputs: ckPlain, calls: 2, attempts: 3, declared: true, abandon: true, crash: true, people: true},
	{name: "write, marks its commits", inputs: ckPlain, calls: 1, attempts: 2, verify: true, early: true, abandon: true, crash: true},
	{name: "write, marks its sends", inputs: ckPlain, calls: 2, attempts: 3, verify: true, marks: true, crash: true},
	{name: "write, marks its sends, abandoned", inputs: ckPlain, calls: 1, attempts: 3, verify: true, marks: true, abandon: true, crash: true},
	{name: "idempotent", inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 3, abandon: true, crash: true, refuse: true},
	{name: "idempotent, tries again", inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 3, retries: 1, crash: true, refuse: true},
	{name: "idempotent, verified", inputs: ckPlain, effect: Idempotent, calls: 2, attempts: 2, verify: true, crash: true},
	{name: "approval", inputs: ckApprovals, calls: 2, attempts: 3, verify: true, crash: true, refuse: true},
	{name: "approval, marks its sends", inputs: ckApprovals[:1], calls: 2, attempts: 3, verify: true, marks: true, crash: true},
	{name: "corrections", inputs: ckCorrections, calls: 2, attempts: 3, invalid: true, crash: true, people: true},
	{name: "approval and corrections", inputs: ckApprovedCorrections, calls: 2, attempts: 3, invalid: true},

	{name: "write, verified, everything", inputs: ckPlain, calls: 2, attempts: 4, verify: true, probes: true, abandon: true, outlive: true, crash: true, people: true, large: true},
	{name: "write, verified, abandoned, paused", inputs: ckPlain, calls: 1, attempts: 3, verify: true, abandon: true, pause: true, large: true},
	{name: "write, marks its sends, tries again", inputs: ckPlain, calls: 1, attempts: 3, retries: 1, verify: true, marks: true, abandon: true, large: true},
	{name: "idempotent, tries again beside", inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 3, retries: 1, abandon: true, crash: true, refuse: true, large: true},
}

func (f *ckFound) told() string { return f.law + "\n" + strings.Join(f.trace, "\n") }

func TestCheckerLaws(t *testing.T) {
	var mu sync.Mutex // protects what follows
	seen := map[ckArrow]int{}
	total := 0
	t.Cleanup(func() { // after the worlds, which are explored side by side
		for a := range ckAllowed {
			assert.NotZero(t, seen[a], "the models never took %s -- %s --> %s", a.from, a.event, a.to)
		}
		t.Logf("%d states in all", total)
	})
	for _, cfg := range ckConfigs {
		if cfg.large && !*checkerLarge {
			continue
		}
		t.Run(cfg.name, func(t *testing.T) {
			t.Parallel()
			k := newChecker(cfg, ckReal())
			found := k.explore(3_000_000)
			t.Logf("%d states, %d steps, %v", found.states, found.steps, found.took.Round(time.Millisecond))
			require.Empty(t, found.law, "%s", found.told())
			require.False(t, found.cut, "the model has more states")
			require.Empty(t, found.stuck, "stuck:\n%s", strings.Join(found.stuck, "\n"))
			mu.Lock()
			defer mu.Unlock()
			for a, n := range k.arrows {
				seen[a] += n
			}
			total += found.states
		})
	}
}

// ckFault is a guard that lacks one thing.
type ckFault struct {
	name  string
	law   string // how the violation begins; the machine's arrows are let go unless it is about them
	cfg   ckConfig
	plant func(*ckRules)
}

// onTool wraps begin and verified with another tool's facts.
func onTool(change func(*machine)) func(*ckRules) {
	changed := func(m *machine) *machine {
		other := *m
		change(&other)
		return &other
	}
	return func(k *ckRules) {
		k.begin = func(m *machine, r *Record, in *intent, now time.Time) move { return changed(m).begin(r, in, now) }
		k.verified = func(m *machine, r *Record, l *lookup, _ time.Time) { changed(m).verified(r, l) }
	}
}

// onBegin, onApply and onLookup act before the library's function does.
func onBegin(before func(*Record, *intent, time.Time)) func(*ckRules) {
	return func(k *ckRules) {
		k.begin = func(m *machine, r *Record, in *intent, now time.Time) move {
			other := *in
			before(r, &other, now)
			return m.begin(r, &other, now)
		}
	}
}

func onApply(before func(*machine, *Record, *report)) func(*ckRules) {
	return func(k *ckRules) {
		k.apply = func(m *machine, r *Record, rep *report) bool {
			before(m, r, rep)
			return m.apply(r, rep)
		}
	}
}

func onLookup(before func(*lookup, time.Time)) func(*ckRules) {
	return func(k *ckRules) {
		k.verified = func(m *machine, r *Record, l *lookup, now time.Time) {
			other := *l
			before(&other, now)
			m.verified(r, &other)
		}
	}
}

// forgetful lets the last report win.
func forgetful(_ *machine, r *Record, rep *report) {
	if r.State == StateCommitted && rep.committed == "" {
		r.State, r.Nonce = StateInFlight, rep.nonce
	}
}

var (
	ckWrite    = ckConfig{inputs: ckPlain, calls: 1, attempts: 3, verify: true, abandon: true, crash: true}
	ckMarks    = ckConfig{inputs: ckPlain, calls: 1, attempts: 3, verify: true, marks: true, abandon: true, crash: true}
	ckRepeats  = ckConfig{inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 3, abandon: true, refuse: true}
	ckApproved = ckConfig{inputs: ckApprovals, calls: 2, attempts: 3, refuse: true}
)

func (c ckConfig) with(change func(*ckConfig)) ckConfig {
	change(&c)
	return c
}

var ckFaults = []ckFault{
	{
		"absence is believed at once", "L", ckWrite,
		onLookup(func(l *lookup, _ time.Time) { l.started = ckTime(1 << 16) }),
	},
	{
		"a live attempt does not keep the settle window open", "L", ckWrite,
		onApply(func(m *machine, _ *Record, rep *report) {
			for i := range rep.open {
				rep.open[i].Settles = In(m.settle)
			}
		}),
	},
	{
		"absence counts as of the end of the look-up", "L", ckWrite.with(func(c *ckConfig) { c.stale = true }),
		onLookup(func(l *lookup, now time.Time) { l.started = now }),
	},
	{
		"a failed look-up is absence", "L2", ckWrite.with(func(c *ckConfig) { c.probes = true }),
		onLookup(func(l *lookup, _ time.Time) {
			if l.failed {
				l.failed, l.verdict = false, NoEffect
			}
		}),
	},
	{
		"a lagging verifier is believed", "L2", ckWrite.with(func(c *ckConfig) { c.lagging = true }),
		onTool(func(m *machine) { m.authoritative = true }),
	},
	{"the store ignores versions", "L2", ckWrite, func(k *ckRules) { k.unfenced = true }},
	{"the tool is invoked before the record says so", "L2", ckWrite, func(k *ckRules) { k.eager = true }},
	{"a late failure overwrites committed", "L3", ckWrite, onApply(forgetful)},
	{"a late failure overwrites committed, by its arrow", "the machine has no arrow committed", ckWrite, onApply(forgetful)},
	{
		"an attempt's evidence replaces that of earlier ones", "L2", ckRepeats,
		onApply(func(_ *machine, r *Record, _ *report) { r.Unresolved = nil }),
	},
	{
		"late evidence takes one off a count", "L", ckMarks,
		onApply(func(_ *machine, r *Record, rep *report) {
			if r.State == StateUnknown && len(rep.open) == 0 && len(r.Unresolved) > 0 {
				r.Unresolved = r.Unresolved[1:]
			}
		}),
	},
	{
		"a lost owner's attempt is forgotten", "L", ckWrite,
		onBegin(func(r *Record, _ *intent, now time.Time) {
			if r.State == StateInFlight && leaseOver(r, now) {
				r.State = StateReleased
			}
		}),
	},
	{
		"a lost owner's mark is forgotten", "L", ckMarks,
		onBegin(func(r *Record, _ *intent, _ time.Time) { r.Sent = false }),
	},
	{
		"an unknown write is sent again", "L", ckWrite,
		onBegin(func(r *Record, _ *intent, _ time.Time) {
			if r.State == StateUnknown {
				r.State = StateReleased
			}
		}),
	},
	{
		"an approval is good for any arguments", "L5", ckApproved,
		onBegin(func(r *Record, in *intent, _ time.Time) {
			if r.Approval != nil {
				in.digest = r.Approval.Digest
			}
		}),
	},
	{
		"an approval is never spent", "L5", ckApproved,
		onBegin(func(r *Record, _ *intent, _ time.Time) {
			if r.Approval != nil {
				r.Approval.Spent = false
			}
		}),
	},
	{
		"the lifetime budget is ignored", "L5", ckWrite.with(func(c *ckConfig) { c.calls, c.attempts = 2, 2 }),
		onTool(func(m *machine) { m.maxAttempts = 9 }),
	},
	{
		"corrections are not counted", "L5",
		ckConfig{inputs: ckCorrections, calls: 2, attempts: 4, invalid: true}.with(func(c *ckConfig) {
			c.inputs = append(c.inputs[:2:2], ckInput{json: `{"amount":3}`, identity: "4"})
		}),
		onTool(func(m *machine) { m.maxCorrect = 9 }),
	},
	{
		"not_before is ignored", "L5", ckWrite.with(func(c *ckConfig) { c.refuse, c.wait = true, true }),
		onBegin(func(r *Record, _ *intent, _ time.Time) { r.NotBefore = Instant{} }),
	},
	{
		"a person is believed too early", "L2", ckWrite.with(func(c *ckConfig) { c.people = true }),
		func(k *ckRules) {
			k.resolve = func(m *machine, r *Record, state CommitState, s Statement, now time.Time) error {
				s.Force = true
				return m.resolve(r, state, s, now)
			}
		},
	},
}

// TestCheckerFindsFaults shows that the checker can find what it looks for.
func TestCheckerFindsFaults(t *testing.T) {
	for _, f := range ckFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			rules := ckReal()
			if *checkerLarge {
				sound := newChecker(f.cfg, rules).explore(1_000_000)
				require.Empty(t, sound.law, "without the fault: %s", sound.told())
			}
			f.plant(&rules)
			k := newChecker(f.cfg, rules)
			k.lawsOnly = !strings.HasPrefix(f.law, "the machine")
			found := k.explore(100_000)
			t.Logf("after %d states: %s", found.states, found.told())
			require.NotEmpty(t, found.trace, "the fault was not found")
			assert.True(t, strings.HasPrefix(found.law, f.law), found.law)
			assert.LessOrEqual(t, len(found.trace), 14)
		})
	}
}

// TestCheckerFindsStuckOperations: a guard that learns nothing from absence
// leaves an operation unknown for ever.
func TestCheckerFindsStuckOperations(t *testing.T) {
	rules := ckReal()
	onLookup(func(l *lookup, _ time.Time) {
		if l.verdict == NoEffect {
			l.started = time.Time{}
		}
	})(&rules)
	found := newChecker(ckWrite, rules).explore(100_000)
	require.False(t, found.cut)
	require.Empty(t, found.law, found.told())
	assert.NotEmpty(t, found.stuck)
	t.Log(strings.Join(found.stuck, "\n"))
}

// The second input needs no approval.
var ckSometimesApproved = []ckInput{
	{json: `{"amount":1000}`, identity: "1", approval: true},
	{json: `{"amount":2}`, identity: "2"},
}

var ckOther = []ckInput{
	{json: `{"amount":1}`, identity: "1"},
	{json: `{"amount":2}`, identity: "2"},
}

// Each of these is the smallest world that needs one rule.
var ckRuled = []ckConfig{
	// The report of an owner that was lost names its running attempt, or
	// evidence about an earlier one releases the operation beneath it.
	{name: "late evidence beside a running attempt", inputs: ckPlain, calls: 1, attempts: 2, retries: 1, verify: true, marks: true, abandon: true, pause: true},
	{name: "late evidence beside a running attempt, idempotent", inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 2, retries: 1, abandon: true, pause: true},
	// After its look-up, or its end, a call compares fingerprints before it takes
	// a commit for its own.
	{name: "a commit of other arguments", inputs: ckOther, calls: 1, attempts: 3, verify: true},
	// A proven unsent ownership gives back the approval that it spent, and none
	// that another ownership did.
	{name: "an approval given back by somebody else", inputs: ckSometimesApproved, calls: 2, attempts: 4, refuse: true},
	// What a look-up has settled is not reported again, or it stays on a released record.
	{name: "a settled attempt is reported again", inputs: ckPlain, calls: 1, attempts: 3, verify: true, outage: true},
	// A live attempt does not report itself on a record that was released meanwhile.
	{name: "a live attempt on a released record", inputs: ckPlain, calls: 1, attempts: 2, verify: true, abandon: true, pause: true},
}

func TestCheckerRules(t *testing.T) {
	for _, cfg := range ckRuled {
		t.Run(cfg.name, func(t *testing.T) {
			t.Parallel()
			found := newChecker(cfg, ckReal()).explore(30_000)
			t.Logf("%d states, %d steps, %v", found.states, found.steps, found.took.Round(time.Millisecond))
			assert.Empty(t, found.law, "%s", found.told())
		})
	}
}

// ckDurable is a store that outlives its process: owners can be lost.
type ckDurable struct{ m *MemoryStore }

func (d ckDurable) Load(ctx context.Context, key Key) (Record, error)  { return d.m.Load(ctx, key) }
func (d ckDurable) Save(ctx context.Context, r Record) (Record, error) { return d.m.Save(ctx, r) }
func (d ckDurable) List(ctx context.Context, q Query) ([]Record, Cursor, error) {
	return d.m.List(ctx, q)
}

// The model assumes that a healthy owner keeps its lease.
func TestCheckerLongAttemptKeepsItsLease(t *testing.T) {
	for name, change := range map[string]func(*Tool[struct{}, int]){
		"no deadlines":                         func(tl *Tool[struct{}, int]) { tl.Policy = Policy{Deadline: -1, TotalDeadline: -1} },
		"cooperative, and deaf to its context": func(tl *Tool[struct{}, int]) { tl.Cooperative = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var effects atomic.Int64
				store := ckDurable{new(MemoryStore)}
				process := func() *Bound[struct{}, int] {
					tl := Tool[struct{}, int]{
						Name: "charge",
						Run: func(context.Context, struct{}) (int, error) {
							time.Sleep(2 * time.Minute)
							return int(effects.Add(1)), nil
						},
						Verify: &Verifier[struct{}, int]{Authoritative: true, Lookup: func(context.Context, string, struct{}) (Finding[int], error) {
							if n := effects.Load(); n > 0 {
								return Found(int(n)), nil
							}
							return Absent[int](), nil
						}},
					}
					change(&tl)
					return Bind(&Executor{Store: store}, tl)
				}
				ctx := WithOperationRef(t.Context(), "op")
				go process().Call(ctx, struct{}{})
				time.Sleep(time.Minute) // both processes are healthy all the time
				second := process().Call(ctx, struct{}{})
				time.Sleep(5 * time.Minute)
				assert.EqualValues(t, 1, effects.Load(), "the second caller was told %s, %s", second.Code, second.CommitState)
			})
		})
	}
}

// ckIn returns a context of one run and the operation op.
func ckIn(t *testing.T, run string) context.Context {
	t.Helper()
	return WithRunID(WithOperationRef(t.Context(), "op"), run)
}

// A run that was refused before must not be told not_committed of an
// Idempotent operation that another run has left unknown since.
func TestCheckerRefusedRunIsToldUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []error{Rejected(CodeConflict, nil), InDoubt(nil)}
		runs := 0
		b := Bind(new(Executor), Tool[struct{}, int]{
			Name: "charge", Effect: Idempotent, Policy: Policy{MaxRetries: -1},
			Run: func(context.Context, struct{}) (int, error) { runs++; return 0, answers[runs-1] },
		})
		assert.Equal(t, NotCommitted, b.Call(ckIn(t, "1"), struct{}{}).CommitState)
		assert.Equal(t, CommitUnknown, b.Call(ckIn(t, "2"), struct{}{}).CommitState)
		env := b.Call(ckIn(t, "1"), struct{}{})
		assert.Equal(t, CommitUnknown, env.CommitState, "%s", env.Code)
	})
}

// After its dedupe window an Idempotent tool is treated as a Write, within a
// call as well.
func TestCheckerRetryKeepsTheDedupeWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		b := Bind(new(Executor), Tool[struct{}, int]{
			Name: "charge", Effect: Idempotent, DedupeWindow: 100 * time.Millisecond, // the first pause is longer
			Run: func(context.Context, struct{}) (int, error) { runs++; return 0, InDoubt(nil) },
		})
		b.Call(ckIn(t, "1"), struct{}{})
		assert.Equal(t, 1, runs)
	})
}

// The stricter of the tool's present effect and the stored one decides on a
// retry, within a call as well.
func TestCheckerRetryKeepsTheStoredEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(MemoryStore)
		tl := Tool[struct{}, int]{Name: "charge", Policy: Policy{MaxRetries: -1}, Run: func(context.Context, struct{}) (int, error) {
			return 0, NotSent(nil)
		}}
		Bind(&Executor{Store: store}, tl).Call(ckIn(t, "1"), struct{}{}) // stored as a Write
		time.Sleep(time.Minute)                                          // past its not_before
		runs := 0
		tl.Effect, tl.Policy = Idempotent, Policy{}
		tl.Run = func(context.Context, struct{}) (int, error) { runs++; return 0, InDoubt(nil) }
		Bind(&Executor{Store: store}, tl).Call(ckIn(t, "1"), struct{}{})
		assert.Equal(t, 1, runs)
	})
}

// marks is how many sends of the attempt are marked.
func (a *ckAttempt) marks() int {
	if a.sending == sendMarked || a.mayHaveNil {
		return 1
	}
	return 0
}
