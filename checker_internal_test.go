package toolexec

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"time"
)

// A small exhaustive checker of the guard: every interleaving of two processes
// that call one operation and, where a model says so, supervise it, with crashes, expired leases, requests that land
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
	ckSleep  = 4
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

	callers   int  // processes that are called; 0: both
	supervise bool // each process has a supervisor
	sleepy    bool // and may sleep between a look-up and the storing of what it found
	rerun     bool // whose Rerun says yes
	reruns    int  // runs that supervisors begin, in all
	drops     bool // DropArguments
	confirm   bool // a success counts once a look-up has found it
	takeBack  bool // the tool may take a mark back
	replan    bool // a call may be planned again without its ref
	dedupe    int  // ticks that the remote side remembers a ref, from the record's creation; 0: for ever
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
	begin         func(*machine, *Record, *intent, time.Time) move
	apply         func(*machine, *Record, *report) bool
	verified      func(*machine, *Record, *lookup, time.Time)
	resolve       func(*machine, *Record, CommitState, Statement, time.Time) error
	change        func(*call, func(*Record)) error // what a supervisor stores
	handOver      func(*machine, *Record, time.Time)
	resends       func(*machine, *Record, *intent, time.Time) bool
	confirms      func() *Failure // what a success means that has to be confirmed
	background    bool            // a commit is marked as unheard of where no caller can hear of it
	unfenced      bool            // the store ignores versions
	sendsUnmarked bool            // the tool sends although it took its mark back
	freeRuns      bool            // it ignores those of what a supervisor runs again
	eager         bool            // the tool is invoked before the record says so
}

func ckReal() ckRules {
	return ckRules{
		begin:      (*machine).begin,
		apply:      (*machine).apply,
		verified:   func(m *machine, r *Record, l *lookup, _ time.Time) { m.verified(r, l) },
		resolve:    (*machine).resolve,
		change:     (*call).change,
		handOver:   (*machine).handOver,
		resends:    (*machine).mayResend,
		confirms:   unconfirmed,
		background: true,
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
	ckUnconfirmed
)

func (k *checker) failure(o ckOutcome) *Failure {
	var f *Failure
	switch o {
	case ckUnconfirmed:
		return k.rules.confirms()
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
	resumed         bool // a supervisor's
	answered        bool // no caller may hear of its commit
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
	resumed   bool // it is a supervisor's run
}

// ckSupervisor is the supervisor of a process, at work on the operation.
type ckSupervisor struct {
	phase     ckPhase // ckIdle, ckBegins, ckAsks or ckAnswered
	record    *Record // as it loaded it; never written
	started   int     // of the look-up
	verdict   Verdict
	probeLost bool
}

// ckWorld is a state of everything.
type ckWorld struct {
	now      int
	record   *Record // never written
	workers  [2]ckWorker
	leaders  [2]ckSupervisor
	reruns   int // left
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

	at    *ckWorld // that the store is of, while the library uses it
	event string   // what it does then

	lawsOnly bool // forbidden arrows are taken, to see which law falls
	buf      []byte
}

func newChecker(cfg ckConfig, rules ckRules) *checker {
	k := &checker{cfg: cfg, rules: rules, x: new(Executor), arrows: map[ckArrow]int{}, seed: maphash.MakeSeed()}
	k.x.Store = ckStore{k}
	policy := Policy{MaxRetries: -1, MaxAttempts: cfg.attempts, MaxCorrections: 1}
	if cfg.retries > 0 {
		policy.MaxRetries = cfg.retries
	}
	tl := Tool[struct{}, int]{
		Name: "charge", Effect: cfg.effect, Policy: policy, MarksSent: cfg.marks, Unverifiable: cfg.declared,
		DropArguments: cfg.drops, DedupeWindow: time.Duration(cfg.dedupe) * ckTick,
		Run: func(context.Context, struct{}) (int, error) { return 0, nil },
	}
	if cfg.verify {
		tl.Verify = &Verifier[struct{}, int]{
			Lookup:        func(context.Context, string, struct{}) (Finding[int], error) { return Finding[int]{}, nil },
			Authoritative: !cfg.lagging, MaxChecks: 2, Confirm: cfg.confirm,
		}
	}
	t := Bind(k.x, tl).t
	t.lease, t.settle = ckLease*ckTick, ckSettle*ckTick
	t.checkBackoff = Backoff{Initial: ckTick, Max: ckTick}
	k.tool = t
	return k
}
