package toolexec_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/toolexec/toolexec"
)

// The world of the laws: a remote side with a ledger, a network that delays, drops and loses, look-ups that lag or
// lie early, tools that use all this well or badly, and stores that fail. Everything a dispatch draws comes from a
// generator of its own, seeded by the run's seed and its number within its intent, so a seed reproduces as far as
// scheduling allows.

// lawsCanary marks every text that no caller may read.
const lawsCanary = "CANARY"

type lawsIn struct {
	Intent int    `json:"intent"`
	Note   string `json:"note"`
	Secret string `json:"secret"`
}

// lawsKey names an operation as the ledger sees it.
type lawsKey = toolexec.Key

// writes reports whether runs of the tool are dispatches.
func (s *lawsSpec) writes() bool { return s.effect != toolexec.ReadOnly }

// identity is what the fingerprint stands for.
func (s *lawsSpec) identity(in lawsIn) string {
	if s.ignoresNote {
		in.Note = ""
	}
	return fmt.Sprintf("%s/%d/%s", s.name, in.Intent, in.Note)
}

// lawsIntent is one wish of the agents: at most one effect, however often and by whatever route it is called.
type lawsIntent struct {
	id     int
	spec   *lawsSpec
	scope  string
	ref    string // given on its calls; "" where it is minted or the tool's own
	run    string
	plural bool // several agents wish it at a time
	poison bool // the tool's pure functions panic on it

	effects, dispatches, lookups int // protected by the world; plural too
}

// lawsDispatch is one run of a tool's function that changes something.
type lawsDispatch struct {
	seq      int
	name     string // of the part: the run of its intent
	intent   *lawsIntent
	spec     *lawsSpec
	proc     *lawsProcess
	call     *lawsCall  // nil in a supervisor's pass
	actor    *lawsActor // nil in a call of an agent's
	nonce    string
	key      lawsKey
	identity string
	rng      *rand.Rand
	started  time.Time
	approval *lawsApproval

	// Protected by the world.
	ended    time.Time // when the function ended; zero while it runs
	marked   bool      // MarkSent returned nil
	unsent   bool      // and the tool proved that nothing was sent
	proven   bool      // the tool proved that there is and will be no effect
	resolved bool      // a person said so
	success  bool      // the tool said that it has an effect
	effect   bool      // it made one, or will
	sentAt   time.Time
	visible  time.Duration // how long after sentAt a look-up shows it
	landed   bool
	canary   string // of the error it ended with
}

type lawsApproval struct {
	args  string
	until time.Time
	used  []*lawsDispatch
}

type lawsLookup struct {
	started time.Time
	absent  bool
}

// lawsProcess is an Executor with its own way to the store.
type lawsProcess struct {
	n      int
	name   int // that of the one that it replaces
	x      *toolexec.Executor
	tools  map[string]*toolexec.Bound[lawsIn, any]
	killed chan struct{}
	kill   lawsKill      // how it is going to end
	lasts  time.Duration // its tools, without it: no longer than the shortest lease that it can have held
	began  time.Time

	mu       sync.Mutex // protects what follows
	uses     int        // of its store
	killedAt time.Time
	retries  int // by its tools; protected by the world
}

func (p *lawsProcess) dead() bool {
	select {
	case <-p.killed:
		return true
	default:
		return false
	}
}

// mute reports whether what a tool of p sends is lost.
func (p *lawsProcess) mute() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead() && (p.kill.stops || time.Since(p.killedAt) > p.lasts)
}

type lawsWorld struct {
	cfg    lawsConfig
	base   toolexec.Store        // what all processes keep their records in
	table  *lawsTable            // which is this one where they outlive a process
	memory *toolexec.MemoryStore // and this one where they do not
	cast   *lawsRun              // those who act in it
	begin  time.Time
	wires  sync.WaitGroup // requests under way

	mu         sync.Mutex // protects what follows; never held while anything waits
	seq        int
	intents    []*lawsIntent
	dispatches map[lawsKey][]*lawsDispatch
	readAfter  map[lawsReads]lawsHold
	lookups    map[lawsKey][]lawsLookup
	approvals  map[lawsKey][]*lawsApproval
	allowance  map[lawsKey]int // dispatches since the operation was new, or was given a new allowance
	notBefore  map[lawsKey]time.Time
	committed  map[string]lawsFact // key and identity
	final      map[lawsKey]lawsFact
	settled    map[lawsKey][]*lawsSettlement
	actors     int
	calm       bool // nothing fails any more, and look-ups answer
	claims     map[lawsKey][]lawsClaim
	exits      map[*lawsCall]bool
	claimed    map[lawsKey]time.Time // until when, by a supervisor
	calls      int
	closed     bool
	seen       strings.Builder // causes that the observer was shown
	canaries   []string        // causes that it must have been shown
	violations []string
	trace      []lawsEntry
	met        map[string]bool // what happened, in words
}

type lawsFact struct {
	at         time.Time
	unrecorded bool
}

// lawsClaim is an envelope that says not_committed.
type lawsClaim struct {
	key      lawsKey
	identity string
	before   int // dispatches with a smaller number are meant
	call     *lawsCall
	text     string
}

type lawsEntry struct {
	at     time.Duration
	format string
	args   []any
}

func newLawsWorld(cfg lawsConfig, wrap func(toolexec.Store) toolexec.Store) *lawsWorld {
	w := &lawsWorld{
		cfg: cfg, begin: time.Now(), claims: map[lawsKey][]lawsClaim{}, met: map[string]bool{},
		dispatches: map[lawsKey][]*lawsDispatch{}, readAfter: map[lawsReads]lawsHold{}, lookups: map[lawsKey][]lawsLookup{},
		approvals: map[lawsKey][]*lawsApproval{}, allowance: map[lawsKey]int{}, notBefore: map[lawsKey]time.Time{},
		committed: map[string]lawsFact{}, exits: map[*lawsCall]bool{},
		final: map[lawsKey]lawsFact{}, settled: map[lawsKey][]*lawsSettlement{}, claimed: map[lawsKey]time.Time{},
	}
	if cfg.leased {
		w.table = newLawsTable(cfg)
		w.base = w.table
	} else {
		w.memory = new(toolexec.MemoryStore)
		w.base = w.memory
	}
	if wrap != nil {
		w.base = wrap(w.base)
	}
	return w
}

// now is the clock of the store.
func (w *lawsWorld) now() time.Time {
	if w.table != nil {
		return w.table.now(context.Background())
	}
	return time.Now()
}

// log is called with mu held. Its arguments are formatted only when somebody reads the trace.
func (w *lawsWorld) log(format string, args ...any) {
	w.trace = append(w.trace, lawsEntry{time.Since(w.begin), format, args})
}

// broken notes that a law does not hold. Called with mu held.
func (w *lawsWorld) broken(law, format string, args ...any) {
	text := law + ": " + fmt.Sprintf(format, args...)
	w.log("!!! %s", text)
	if len(w.violations) < 20 {
		w.violations = append(w.violations, text)
	}
}

// meet notes that something happened, so that TestLaws can tell whether everything does. Called with mu held.
func (w *lawsWorld) meet(what ...any) { w.met[fmt.Sprint(what...)] = true }

func (w *lawsWorld) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// stream is a generator of its own for a thing that happens in a run.
func (w *lawsWorld) stream(parts ...any) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, parts...) // a hash takes everything
	return rand.New(rand.NewPCG(w.cfg.seed, h.Sum64()))
}

func (w *lawsWorld) intent(id int) *lawsIntent {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id < 0 || id >= len(w.intents) {
		return nil
	}
	return w.intents[id]
}

// observers -------------------------------------------------------------------------

// lawsObserver keeps the causes it is shown, and then behaves badly where that is drawn.
type lawsObserver struct {
	w *lawsWorld
	p *lawsProcess
}

func (o lawsObserver) Start(ctx context.Context, e toolexec.Event) context.Context {
	o.misbehave()
	if o.w.cfg.oddObserver == 3 {
		return nil
	}
	return ctx
}

func (o lawsObserver) End(_ context.Context, e toolexec.Event) {
	if a, ok := e.(toolexec.AttemptInfo); ok {
		o.sees(a.Cause)
	}
	o.misbehave()
}

func (o lawsObserver) Note(_ context.Context, e toolexec.Event) {
	switch e := e.(type) {
	case toolexec.LateEvidence:
		o.sees(e.Failure)
		o.w.locked(func() {
			o.w.log("p%d: late evidence for %s: %s", o.p.n, e.Key.Ref, e.Evidence)
			o.w.meet("late evidence: ", e.Evidence)
		})
	case toolexec.DuplicateEffect:
		o.w.locked(func() { o.w.broken("L1", "the alarm for a duplicate effect of %s", e.Key.Ref) })
	case toolexec.GuardDecision:
		o.w.locked(func() {
			o.w.log("p%d: %s: %s, %s", o.p.n, e.Key.Ref, e.Move, e.State)
			o.w.meet("move ", e.Move)
		})
	}
	o.misbehave()
}

func (o lawsObserver) sees(err error) {
	if err != nil {
		o.w.locked(func() { o.w.seen.WriteString(err.Error()); o.w.seen.WriteByte('\n') })
	}
}

func (o lawsObserver) misbehave() {
	switch o.w.cfg.oddObserver {
	case 1:
		panic(lawsCanary + "-observer")
	case 2:
		runtime.Goexit()
	}
}
