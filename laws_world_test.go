package toolexec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
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

// lawsSpec is a drawn tool.
type lawsSpec struct {
	name                                                string
	effect                                              toolexec.Effect
	marks, asksMark, cooperative, oneRequest, ref       bool
	approval, ignoresNote, plainRejects, stringsOnly    bool
	verified, authoritative, unverifiable, obeysContext bool
	settle, dedupe                                      time.Duration
	policy                                              toolexec.Policy
	lifetime                                            int
	confirm, drops, seals                               bool // only where there are supervisors
}

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
	x      *toolexec.Executor
	tools  map[string]*toolexec.Bound[lawsIn, any]
	killed chan struct{}

	mu       sync.Mutex // protects what follows
	rng      *rand.Rand // of its store's failures
	killedAt time.Time
	stops    bool // its tools stop with it
}

func (p *lawsProcess) dead() bool {
	select {
	case <-p.killed:
		return true
	default:
		return false
	}
}

// mute reports whether what a tool of p sends is lost: p was killed, and the tool with it, or it lasted no longer
// than the shortest lease that p can have held.
func (p *lawsProcess) mute() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead() && (p.stops || time.Since(p.killedAt) > 4*time.Second)
}

type lawsWorld struct {
	cfg   lawsConfig
	base  *toolexec.MemoryStore
	begin time.Time
	wires sync.WaitGroup // requests under way

	mu         sync.Mutex // protects what follows; never held while anything waits
	seq        int
	intents    []*lawsIntent
	dispatches map[lawsKey][]*lawsDispatch
	reads      int
	readAfter  map[string]time.Time // tool and scope: the earliest next run
	lookups    map[lawsKey][]lawsLookup
	approvals  map[lawsKey][]*lawsApproval
	allowance  map[lawsKey]int // dispatches since the operation was new, or was given a new allowance
	notBefore  map[lawsKey]time.Time
	committed  map[string]lawsFact // key and identity
	final      map[lawsKey]lawsFact
	settled    map[lawsKey][]*lawsSettlement
	actors     int
	calm       bool // nothing fails any more, and look-ups answer
	claims     []lawsClaim
	exits      map[*lawsCall]bool
	claimed    map[lawsKey]time.Time // until when, by a supervisor
	calls      int
	closed     bool
	seen       strings.Builder // causes that the observer was shown
	canaries   []string        // causes that it must have been shown
	violations []string
	trace      []lawsEntry
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

func newLawsWorld(cfg lawsConfig) *lawsWorld {
	return &lawsWorld{
		cfg: cfg, base: new(toolexec.MemoryStore), begin: time.Now(),
		dispatches: map[lawsKey][]*lawsDispatch{}, readAfter: map[string]time.Time{}, lookups: map[lawsKey][]lawsLookup{},
		approvals: map[lawsKey][]*lawsApproval{}, allowance: map[lawsKey]int{}, notBefore: map[lawsKey]time.Time{},
		committed: map[string]lawsFact{}, exits: map[*lawsCall]bool{},
		final: map[lawsKey]lawsFact{}, settled: map[lawsKey][]*lawsSettlement{}, claimed: map[lawsKey]time.Time{},
	}
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

// dispatches ------------------------------------------------------------------

// dispatch notes the beginning of a tool's function and checks what must hold before it.
func (w *lawsWorld) dispatch(ctx context.Context, spec *lawsSpec, p *lawsProcess, in lawsIn) *lawsDispatch {
	intent := w.intent(in.Intent)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	intent.dispatches++
	d := &lawsDispatch{
		seq: w.seq, intent: intent, spec: spec, proc: p, call: lawsCallOf(ctx, in.Intent), actor: lawsActorOf(ctx), key: lawsKey{Scope: intent.scope, Ref: toolexec.OperationRef(ctx)},
		identity: spec.identity(in), rng: w.stream("dispatch", in.Intent, intent.dispatches), started: time.Now(),
	}
	w.log("p%d: dispatch %d of %s, intent %d, ref %s, attempt %d", p.n, d.seq, spec.name, in.Intent, d.key.Ref, toolexec.Attempt(ctx))
	if d.key.Ref == "" {
		w.broken("L1", "a tool that writes runs without an operation ref")
	}
	if rec, err := w.base.Load(context.Background(), d.key); err == nil {
		d.nonce = rec.Nonce
		w.mayResend(d, &rec)
	}
	w.mayDispatch(d, in)
	w.dispatches[d.key] = append(w.dispatches[d.key], d)
	return d
}

// mayResend: an Idempotent tool whose remote side may have forgotten the ref is as good as a Write.
func (w *lawsWorld) mayResend(d *lawsDispatch, rec *toolexec.Record) {
	if d.spec.dedupe == 0 || time.Since(rec.CreatedAt.Time()) <= d.spec.dedupe+w.cfg.slack() {
		return
	}
	for _, earlier := range w.dispatches[d.key] {
		if w.unproven(earlier) {
			w.broken("L1", "dispatch %d of %s although dispatch %d is not proven without effect, and its ref is forgotten", d.seq, d.key.Ref, earlier.seq)
		}
	}
}

// mayDispatch is called with mu held.
func (w *lawsWorld) mayDispatch(d *lawsDispatch, in lawsIn) {
	for _, earlier := range w.dispatches[d.key] {
		if d.spec.effect == toolexec.Write && w.unproven(earlier) {
			w.broken("L1", "dispatch %d of %s although dispatch %d is not proven without effect", d.seq, d.key.Ref, earlier.seq)
		}
	}
	w.allowance[d.key]++
	if n := w.allowance[d.key]; d.spec.lifetime > 0 && n > d.spec.lifetime {
		w.broken("L5", "dispatch %d of %s is number %d of %d", d.seq, d.key.Ref, n, d.spec.lifetime)
	}
	if t := w.notBefore[d.key]; time.Until(t) > w.cfg.slack() {
		w.broken("L5", "dispatch %d of %s is %v before not_before", d.seq, d.key.Ref, time.Until(t))
	}
	if d.spec.approval {
		w.mayWithApproval(d, in)
	}
	w.mayMint(d)
}

// lawsBeginRetries is how long begin may repeat a Save whose end was unclear: the approval was spent in its time, by the
// first of them.
const lawsBeginRetries = 100 * time.Millisecond

// mayWithApproval: a person allowed exactly these arguments, and the approval was not spent.
func (w *lawsWorld) mayWithApproval(d *lawsDispatch, in lawsIn) {
	raw, _ := json.Marshal(in)
	for _, a := range w.approvals[d.key] {
		begun := slices.ContainsFunc(a.used, func(u *lawsDispatch) bool { return u.call == d.call && u.actor == d.actor }) // within its time
		if a.args != string(raw) || !begun && time.Since(a.until) > w.cfg.slack()+lawsBeginRetries || a.spent() {
			continue
		}
		a.used, d.approval = append(a.used, d), a
		return
	}
	w.broken("L5", "dispatch %d of %s without an approval", d.seq, d.key.Ref)
}

func (a *lawsApproval) spent() bool {
	for _, d := range a.used {
		if !d.unsent && (!d.spec.marks || d.marked) {
			return true
		}
	}
	return false
}

// mayMint: what was open when the call began, and still is, is continued instead of started anew.
func (w *lawsWorld) mayMint(d *lawsDispatch) {
	if d.call == nil || !d.call.unnamed() || d.call.ref != "" && d.intent.plural { // there may be equal ones side by side
		return
	}
	if _, continued := d.call.open[d.key]; continued {
		return
	}
	for key, nonce := range d.call.open {
		r, err := w.base.Load(context.Background(), key)
		if err == nil && r.IsOpen() && r.Nonce == nonce {
			w.broken("L1", "dispatch %d under the new %s although %s is %s, unheard %t", d.seq, d.key.Ref, key.Ref, r.State, r.Unheard)
		}
	}
}

// unproven reports whether d may have an effect as far as anybody can know: neither the tool, nor a look-up after the
// settle window, nor a person said that it has none. Called with mu held.
func (w *lawsWorld) unproven(d *lawsDispatch) bool {
	if d.proven || d.resolved || d.spec.marks && !d.marked {
		return false
	}
	last := d.ended
	switch {
	case d.proc.dead(), last.IsZero() && w.cfg.leased && w.cfg.faulty():
		last = d.started // its lease settles it, some time after
	case last.IsZero():
		return true
	}
	for _, l := range w.lookups[d.key] {
		if l.absent && d.spec.authoritative && !l.started.Before(last.Add(d.spec.settle)) {
			return false
		}
	}
	return true
}

// ended notes the end of a tool's function, by whatever way.
func (w *lawsWorld) ended(d *lawsDispatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d.ended = time.Now()
	w.log("p%d: dispatch %d ends: proven %t, unsent %t, effect %t", d.proc.n, d.seq, d.proven, d.unsent, d.effect)
}

// the network -------------------------------------------------------------------

// send hands d's request to the network. effect says what comes of it.
func (w *lawsWorld) send(d *lawsDispatch, effect bool, delay time.Duration) {
	if d.proc.mute() {
		w.locked(func() { w.log("p%d: dispatch %d is dead and sends nothing", d.proc.n, d.seq) })
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d.sentAt = time.Now()
	w.log("p%d: dispatch %d sends: effect %t after %v", d.proc.n, d.seq, effect, delay)
	if !effect {
		return
	}
	d.effect = true
	d.visible = delay + time.Duration(d.rng.Int64N(int64(d.spec.settle-delay)+1))
	if d.rng.IntN(2) == 0 {
		d.visible = delay
	}
	if delay == 0 {
		w.land(d)
		return
	}
	w.wires.Go(func() {
		time.Sleep(delay)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.land(d)
	})
}

// land makes the effect, unless the remote side knows the ref already. Called with mu held.
func (w *lawsWorld) land(d *lawsDispatch) {
	d.landed = true
	before := 0
	for _, other := range w.dispatches[d.key] {
		if other != d && other.landed && other.effect {
			before++
		}
	}
	if d.spec.effect == toolexec.Idempotent && before > 0 {
		w.log("dispatch %d lands and is a duplicate", d.seq)
		return
	}
	d.intent.effects++
	w.log("dispatch %d lands: effect %d of intent %d", d.seq, d.intent.effects, d.intent.id)
	if before > 0 {
		w.broken("L1", "%s has %d effects", d.key.Ref, before+1)
	}
	if d.intent.effects > 1 && !d.intent.plural {
		w.broken("L1", "intent %d has %d effects", d.intent.id, d.intent.effects)
	}
}

// hasEffect reports whether the ledger has one now. Called with mu held.
func (w *lawsWorld) hasEffect(key lawsKey, identity string) bool {
	for _, d := range w.dispatches[key] {
		if d.landed && d.effect && (identity == "" || d.identity == identity) {
			return true
		}
	}
	return false
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
		o.w.locked(func() { o.w.log("p%d: late evidence for %s: %s", o.p.n, e.Key.Ref, e.Evidence) })
	case toolexec.DuplicateEffect:
		o.w.locked(func() { o.w.broken("L1", "the alarm for a duplicate effect of %s", e.Key.Ref) })
	case toolexec.GuardDecision:
		o.w.locked(func() { o.w.log("p%d: %s: %s, %s", o.p.n, e.Key.Ref, e.Move, e.State) })
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
