package toolexec_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
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

	effects, dispatches, lookups int // protected by the world
}

// lawsDispatch is one run of a tool's function that changes something.
type lawsDispatch struct {
	seq      int
	intent   *lawsIntent
	spec     *lawsSpec
	proc     *lawsProcess
	call     *lawsCall
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
	claims     []lawsClaim
	exits      map[*lawsCall]bool
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
		seq: w.seq, intent: intent, spec: spec, proc: p, call: lawsCallOf(ctx, in.Intent), key: lawsKey{Scope: intent.scope, Ref: toolexec.OperationRef(ctx)},
		identity: spec.identity(in), rng: w.stream("dispatch", in.Intent, intent.dispatches), started: time.Now(),
	}
	w.log("p%d: dispatch %d of %s, intent %d, ref %s, attempt %d", p.n, d.seq, spec.name, in.Intent, d.key.Ref, toolexec.Attempt(ctx))
	if d.key.Ref == "" {
		w.broken("L1", "a tool that writes runs without an operation ref")
	}
	w.mayDispatch(d, in)
	w.dispatches[d.key] = append(w.dispatches[d.key], d)
	return d
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
		begun := slices.ContainsFunc(a.used, func(u *lawsDispatch) bool { return u.call == d.call }) // within its time
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
	if d.call == nil || !d.call.unnamed() {
		return
	}
	for key, nonce := range d.call.open {
		if key == d.key {
			continue
		}
		r, err := w.base.Load(context.Background(), key)
		if err == nil && lawsOpen(r.State) && r.Nonce == nonce {
			w.broken("L1", "dispatch %d under the new %s although %s is %s", d.seq, d.key.Ref, key.Ref, r.State)
		}
	}
}

func lawsOpen(s toolexec.State) bool {
	return s == toolexec.StateInFlight || s == toolexec.StateUnknown || s == toolexec.StateEscalated || s == toolexec.StateAwaitingApproval
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

// tools ---------------------------------------------------------------------------

// bind makes the tools of one process.
func (w *lawsWorld) bind(p *lawsProcess) {
	for _, spec := range w.cfg.tools {
		t := toolexec.Tool[lawsIn, any]{
			Name: spec.name, Effect: spec.effect, Policy: spec.policy, MarksSent: spec.marks, OneRequest: spec.oneRequest,
			Cooperative: spec.cooperative, Unverifiable: spec.unverifiable, DedupeWindow: spec.dedupe,
			VerificationTool: "look_up",
			Run:              func(ctx context.Context, in lawsIn) (any, error) { return w.run(ctx, spec, p, in) },
			Check: func(in lawsIn) error {
				if i := w.intent(in.Intent); i == nil {
					return errors.New(lawsCanary + "-check")
				}
				return nil
			},
		}
		if spec.plainRejects {
			t.ErrorsMean = toolexec.EvidenceRejected
		}
		if spec.ignoresNote {
			t.IgnoreFields = []string{"/note"}
		}
		if spec.stringsOnly {
			t.OutputSchema = json.RawMessage(`{"type":"string","maxLength":1000}`)
		}
		if spec.ref {
			t.Ref = func(in lawsIn) string {
				if i := w.intent(in.Intent); i.poison {
					panic(lawsCanary + "-ref")
				}
				return fmt.Sprint("order ", in.Intent)
			}
		}
		if spec.approval {
			t.Approval = &toolexec.Approval[lawsIn]{TTL: 10 * time.Minute}
		}
		if spec.verified {
			t.Verify = &toolexec.Verifier[lawsIn, any]{
				Settle: spec.settle, Authoritative: spec.authoritative,
				Lookup: func(ctx context.Context, ref string, in lawsIn) (toolexec.Finding[any], error) {
					return w.lookup(ctx, spec, ref, in)
				},
			}
		}
		p.tools[spec.name] = toolexec.Bind(p.x, t)
	}
}

func (w *lawsWorld) run(ctx context.Context, spec *lawsSpec, p *lawsProcess, in lawsIn) (any, error) {
	if !spec.writes() {
		return w.read(ctx, spec, in)
	}
	d := w.dispatch(ctx, spec, p, in)
	defer w.ended(d)
	return w.act(ctx, d)
}

// pause waits as the tool does: one that obeys its context returns false at its end.
func (d *lawsDispatch) pause(ctx context.Context, dur time.Duration) bool {
	if dur <= 0 {
		return true
	}
	if !d.spec.obeysContext {
		time.Sleep(dur)
		return true
	}
	t := time.NewTimer(dur)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func lawsPick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// fails returns an error with a canary that the observer must be shown.
func (w *lawsWorld) fails(d *lawsDispatch, format string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	d.canary = fmt.Sprintf("%s-%d.", lawsCanary, d.seq)
	w.canaries = append(w.canaries, d.canary)
	return fmt.Errorf(format+": %s password=hunter2", d.canary)
}

func (w *lawsWorld) proves(d *lawsDispatch, unsent bool) {
	w.locked(func() { d.proven, d.unsent = true, unsent })
}

// act is a tool's function: prepare, mark, send, answer.
func (w *lawsWorld) act(ctx context.Context, d *lawsDispatch) (any, error) {
	r := d.rng
	if !d.pause(ctx, lawsPick(r, 0, 0, 0, 0, 10*time.Millisecond, 300*time.Millisecond, 2200*time.Millisecond, w.hang(d))) {
		return nil, w.interrupted(ctx, d)
	}
	if r.IntN(5) == 0 {
		if out, over, err := w.early(d); over {
			return out, err
		}
	}
	if d.spec.marks || d.spec.asksMark {
		if err := toolexec.MarkSent(ctx); err != nil {
			w.proves(d, true)
			return nil, lawsPick(r, err, fmt.Errorf("sending: %w", err))
		}
		w.marked(d)
		if r.IntN(8) == 0 { // the dial is refused, provably
			toolexec.MarkNotSent(ctx)
			if d.spec.marks || d.spec.oneRequest {
				w.proves(d, true)
			}
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: w.fails(d, "connection refused")}
		}
	}
	if lawsLeases || !w.outlasts(d) {
		d.pause(ctx, lawsPick(r, 0, 0, 0, 100*time.Millisecond, 3*time.Second))
	}
	return w.request(ctx, d)
}

// outlasts reports whether d may still run when its lease is over, although its process lives.
func (w *lawsWorld) outlasts(d *lawsDispatch) bool {
	return w.cfg.leased && (d.spec.cooperative || d.spec.policy.TotalDeadline < 0)
}

// hang is how long d hangs.
func (w *lawsWorld) hang(d *lawsDispatch) time.Duration {
	if !lawsLeases && w.outlasts(d) && !d.spec.marks {
		return 4 * time.Second
	}
	return w.cfg.hang
}

// interrupted is what an obedient tool returns that has sent nothing.
func (w *lawsWorld) interrupted(ctx context.Context, d *lawsDispatch) error {
	if d.rng.IntN(2) == 0 {
		return ctx.Err() // which proves nothing
	}
	w.proves(d, true)
	return toolexec.NotSent(ctx.Err())
}

// marked checks the fence: whoever may send is the last that was let in.
func (w *lawsWorld) marked(d *lawsDispatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d.marked = true
	for _, later := range w.dispatches[d.key] {
		if later.seq > d.seq && later.call != d.call && d.spec.effect == toolexec.Write {
			w.broken("L1", "dispatch %d of %s may send although dispatch %d came after it", d.seq, d.key.Ref, later.seq)
		}
	}
}

// early ends before anything is sent.
func (w *lawsWorld) early(d *lawsDispatch) (out any, over bool, err error) {
	switch d.rng.IntN(8) {
	case 0, 1:
		w.proves(d, true)
		return nil, true, toolexec.NotSent(w.fails(d, "pool exhausted"))
	case 2:
		if d.spec.oneRequest {
			w.proves(d, true)
		}
		return nil, true, &net.OpError{Op: "dial", Net: "tcp", Err: w.fails(d, "connection refused")}
	case 3:
		w.proves(d, false)
		return nil, true, toolexec.Rejected("OUT_OF_STOCK", w.fails(d, "no stock"))
	case 4:
		panic(w.fails(d, "a crash"))
	case 5:
		if d.spec.cooperative {
			w.locked(func() { w.exits[d.call] = true })
		}
		runtime.Goexit()
	case 6:
		if d.spec.plainRejects {
			w.proves(d, false)
		}
		return nil, true, w.fails(d, "something")
	}
	return nil, false, nil
}

// request sends and says what came back.
func (w *lawsWorld) request(ctx context.Context, d *lawsDispatch) (any, error) {
	r := d.rng
	short := time.Duration(r.IntN(900)) * time.Millisecond
	long := d.spec.settle / 10 * time.Duration(r.IntN(9))
	switch n := r.IntN(100); {
	case n < 40: // answered
		return w.answered(ctx, d, short)
	case n < 50: // the answer is lost
		w.send(d, true, short)
		d.pause(ctx, lawsPick(r, time.Second, 3*time.Second, w.hang(d)))
		return nil, w.inDoubt(d)
	case n < 60: // it lands late
		w.send(d, true, long)
		return nil, w.inDoubt(d)
	case n < 68: // it is dropped
		w.send(d, false, 0)
		d.pause(ctx, lawsPick(r, 0, 3*time.Second, w.hang(d)))
		return nil, w.inDoubt(d)
	case n < 74: // a gateway fails after the commit
		w.send(d, true, 0)
		return nil, &toolexec.Failure{Class: toolexec.ClassTransient, Code: toolexec.CodeOutcomeUnknown, Err: w.fails(d, "502")}
	case n < 86:
		return w.rejected(ctx, d, short)
	case n < 90: // accepted
		w.send(d, r.IntN(2) == 0, long)
		return nil, &toolexec.Failure{Code: toolexec.CodeOperationPending, RetryAfter: time.Second, Err: w.fails(d, "202")}
	case n < 95 && !d.spec.oneRequest: // a second request of the same attempt is not sent
		w.send(d, r.IntN(2) == 0, long)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: w.fails(d, "connection refused")}
	}
	return w.markedThenFails(ctx, d)
}

// inDoubt is an error that proves nothing.
func (w *lawsWorld) inDoubt(d *lawsDispatch) error {
	err := w.fails(d, "connection reset")
	switch n := d.rng.IntN(4); {
	case n == 0:
		return toolexec.InDoubt(err)
	case n == 1:
		return toolexec.Transient(err)
	case n == 2 || d.spec.plainRejects:
		return &net.OpError{Op: "read", Net: "tcp", Err: err}
	}
	return err
}

func (w *lawsWorld) rejected(ctx context.Context, d *lawsDispatch, after time.Duration) (any, error) {
	w.send(d, false, 0)
	d.pause(ctx, after)
	w.proves(d, false)
	err := w.fails(d, "refused")
	switch d.rng.IntN(5) {
	case 0:
		f := toolexec.Invalid("note", "another note")
		f.Err = err
		return nil, f
	case 1:
		return nil, toolexec.Rejected(toolexec.CodeInvalidArguments, err)
	case 2:
		f := toolexec.Rejected(toolexec.CodeRateLimited, err)
		f.RetryAfter = lawsPick(d.rng, time.Second, 7*time.Second, time.Minute)
		return nil, f
	case 3:
		if d.spec.plainRejects {
			return nil, err
		}
	}
	return nil, toolexec.Rejected(toolexec.CodeConflict, err)
}

// answered waits for the answer, which proves the effect.
func (w *lawsWorld) answered(ctx context.Context, d *lawsDispatch, after time.Duration) (any, error) {
	w.send(d, true, after)
	if !d.pause(ctx, after+time.Millisecond) {
		return nil, ctx.Err()
	}
	if !w.done(d) { // sent by a dead process
		return nil, w.inDoubt(d)
	}
	w.locked(func() { d.success = true })
	switch d.rng.IntN(20) {
	case 0:
		return nil, nil //nolint:nilnil // a result like any other
	case 1:
		return strings.Repeat("x", 300<<10), nil
	case 2:
		return make(chan int), nil
	case 3:
		return map[string]any{"wrong": []int{1}}, nil
	case 4:
		w.locked(func() { d.success = false })
		return lawsCrash{}, nil
	}
	return lawsReceipt(d.key), nil
}

// lawsCrash is a result whose encoding panics.
type lawsCrash struct{}

func (lawsCrash) MarshalJSON() ([]byte, error) { panic(lawsCanary + "-marshal") }

func lawsReceipt(k lawsKey) string { return "receipt of " + k.Scope + "|" + k.Ref }

func (w *lawsWorld) done(d *lawsDispatch) (done bool) {
	w.locked(func() { done = w.hasEffect(d.key, "") })
	return done
}

// markedThenFails knows of the effect and fails afterwards.
func (w *lawsWorld) markedThenFails(ctx context.Context, d *lawsDispatch) (any, error) {
	w.send(d, true, 0)
	if !w.done(d) {
		return nil, w.inDoubt(d)
	}
	w.locked(func() { d.success = true })
	_ = toolexec.MarkCommitted(ctx, lawsReceipt(d.key)) // tried again at the end
	switch d.rng.IntN(4) {
	case 0:
		panic(w.fails(d, "a crash"))
	case 1:
		d.pause(ctx, w.hang(d))
		return nil, w.fails(d, "after the commit")
	case 2:
		return nil, toolexec.Transient(w.fails(d, "after the commit"))
	}
	return nil, toolexec.NotSent(w.fails(d, "a confused tool"))
}

// read is a tool that changes nothing.
func (w *lawsWorld) read(ctx context.Context, spec *lawsSpec, in lawsIn) (any, error) {
	c := lawsCallOf(ctx, in.Intent)
	w.mu.Lock()
	w.reads++
	r := w.stream("read", w.reads)
	if t := w.readAfter[spec.name+"|"+c.scope]; c.try == 0 && time.Until(t) > 0 && w.cfg.checkReads {
		w.broken("L5", "%s is read %v before the remote side wants it", spec.name, time.Until(t))
	}
	c.try++
	w.mu.Unlock()
	switch r.IntN(8) {
	case 0:
		return nil, errors.New(lawsCanary + "-read")
	case 1:
		return nil, toolexec.Transient(errors.New(lawsCanary + "-read"))
	case 2:
		panic(lawsCanary + "-read")
	case 3:
		time.Sleep(lawsPick(r, time.Second, 3*time.Second, w.cfg.hang))
	case 4:
		return nil, nil //nolint:nilnil // empty
	case 5:
		wait := lawsPick(r, time.Second, 20*time.Second)
		w.locked(func() { w.readAfter[spec.name+"|"+c.scope] = time.Now().Add(wait) })
		return nil, &toolexec.Failure{Class: toolexec.ClassTransient, Code: toolexec.CodeRateLimited, RetryAfter: wait}
	case 6:
		if !spec.cooperative {
			runtime.Goexit()
		}
	}
	return "what was read", nil
}

// look-ups ------------------------------------------------------------------------

func (w *lawsWorld) lookup(ctx context.Context, spec *lawsSpec, ref string, in lawsIn) (toolexec.Finding[any], error) {
	intent := w.intent(in.Intent)
	key := lawsKey{Scope: intent.scope, Ref: ref}
	w.mu.Lock()
	intent.lookups++
	r := w.stream("lookup", in.Intent, intent.lookups)
	started := time.Now()
	found := w.shows(spec, key, started, r)
	w.mu.Unlock()
	none := toolexec.Finding[any]{}
	switch r.IntN(16) {
	case 0:
		return none, errors.New(lawsCanary + "-lookup")
	case 1:
		return none, sql.ErrNoRows
	case 2, 7, 8:
		time.Sleep(lawsPick(r, 300*time.Millisecond, time.Second, 1900*time.Millisecond, 1900*time.Millisecond, 5*time.Second)) // reads first, answers later
	case 3:
		t := time.NewTimer(w.cfg.hang)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return none, ctx.Err()
		case <-t.C:
		}
	case 4:
		panic(lawsCanary + "-lookup")
	case 5:
		runtime.Goexit()
	case 6:
		if r.IntN(6) == 0 {
			return none, toolexec.Rejected(toolexec.CodePermissionDenied, errors.New(lawsCanary))
		}
		if found && r.IntN(6) == 0 {
			return toolexec.Conflicting[any](), nil
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log("look-up of %s, begun at %v: found %t", ref, started.Sub(w.begin), found)
	w.lookups[key] = append(w.lookups[key], lawsLookup{started, !found})
	if !found {
		return toolexec.Absent[any](), nil
	}
	if r.IntN(4) == 0 {
		return toolexec.FoundEffectOnly[any](), nil
	}
	return toolexec.Found[any](lawsReceipt(key)), nil
}

// shows is what a look-up reads: an effect may be hidden until the settle window has passed; for ever, where the
// verifier is not authoritative. Called with mu held.
func (w *lawsWorld) shows(spec *lawsSpec, key lawsKey, now time.Time, r *rand.Rand) bool {
	if !spec.authoritative && r.IntN(2) == 0 {
		return false
	}
	for _, d := range w.dispatches[key] {
		if d.landed && d.effect && !now.Before(d.sentAt.Add(d.visible)) {
			return true
		}
	}
	return false
}

// stores --------------------------------------------------------------------------

var errLawsStore = errors.New(lawsCanary + "-store: the database is away")

// lawsStore is one process's way to the records. It hides what the store can do beside the interface, so that
// ownership is leased.
type lawsStore struct {
	w *lawsWorld
	p *lawsProcess
}

// lawsVolatileStore shows that records and owners die together.
type lawsVolatileStore struct{ lawsStore }

func (lawsVolatileStore) Volatile() bool { return true }

func (s lawsVolatileStore) Wait(ctx context.Context, key toolexec.Key, version int64) error {
	return s.w.base.Wait(ctx, key, version)
}

// enter fails before anything happens, or draws a failure after it.
func (s lawsStore) enter(ctx context.Context) (after, err error) {
	s.p.mu.Lock()
	latency := time.Duration(0)
	if s.w.cfg.latency > 0 {
		latency = time.Duration(s.p.rng.Int64N(int64(s.w.cfg.latency)))
	}
	before, unclear := s.p.rng.Float64() < s.w.cfg.errBefore, s.p.rng.Float64() < s.w.cfg.errAfter
	s.p.mu.Unlock()
	s.w.locked(func() {
		if s.w.closed {
			s.w.broken("L9", "p%d uses the store after Close", s.p.n)
		}
	})
	if latency > 0 {
		time.Sleep(latency)
	}
	switch {
	case s.p.dead(), before:
		return nil, errLawsStore
	case unclear:
		return errLawsStore, nil
	}
	return nil, ctx.Err()
}

func (s lawsStore) Load(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
	after, err := s.enter(ctx)
	if err != nil || after != nil {
		return toolexec.Record{}, errors.Join(err, after)
	}
	return s.w.base.Load(ctx, key)
}

func (s lawsStore) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	after, err := s.enter(ctx)
	if err != nil || after != nil {
		return nil, toolexec.Cursor{}, errors.Join(err, after)
	}
	return s.w.base.List(ctx, q)
}

func (s lawsStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	after, err := s.enter(ctx)
	if err != nil {
		return toolexec.Record{}, err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	was, _ := s.w.base.Load(ctx, r.Key)
	out, err := s.w.base.Save(ctx, r)
	if err == nil {
		s.w.saved(s.p, &was, &out)
	}
	if after != nil {
		s.w.log("p%d: that save had an unclear end", s.p.n)
		return toolexec.Record{}, after
	}
	return out, err
}

// saved checks a version of a record. Called with mu held.
func (w *lawsWorld) saved(p *lawsProcess, was, is *toolexec.Record) {
	w.log("p%d: save %s v%d: %s -> %s, attempts %d, unresolved %d", p.n, is.Ref, is.Version, was.State, is.State, is.Attempts, len(is.Unresolved))
	lawsRecordTravels(w, is)
	if was.State == toolexec.StateCommitted && is.State != toolexec.StateCommitted {
		w.broken("L3", "%s leaves committed", is.Ref)
	}
	w.statement(was, is)
	switch is.CommitState() {
	case toolexec.Committed:
		if !w.hasEffect(is.Key, "") {
			w.broken("L2", "the record of %s says committed, the ledger has nothing", is.Ref)
		}
	case toolexec.NotCommitted:
		for _, d := range w.dispatches[is.Key] {
			if w.unproven(d) {
				w.broken("L2", "the record of %s says not_committed, and dispatch %d is not proven without effect", is.Ref, d.seq)
			}
		}
	}
	if is.State == toolexec.StateInFlight && is.Nonce != was.Nonce && was.NotBefore.Time().After(is.Now) {
		w.broken("L5", "%s begins before its not_before", is.Ref)
	}
	for _, spec := range w.cfg.tools {
		late := spec.dedupe > 0 && is.Now.After(is.CreatedAt.Time().Add(spec.dedupe+w.cfg.slack()))
		if late && spec.name == is.Tool && was.State == toolexec.StateUnknown && is.State == toolexec.StateInFlight {
			w.broken("L1", "%s is sent again when the remote side may have forgotten it", is.Ref)
		}
	}
}

// statement follows what people said. Called with mu held.
func (w *lawsWorld) statement(was, is *toolexec.Record) {
	if a := is.Approval; a != nil && a.Decision == "approved" && (was.Approval == nil || was.Approval.Expires != a.Expires) {
		w.approvals[is.Key] = append(w.approvals[is.Key], &lawsApproval{args: string(is.Arguments), until: a.Expires.Time()})
	}
	if n := len(is.History); n > 0 && n != len(was.History) && strings.HasPrefix(is.History[n-1].Event, "resolved: not") {
		for _, d := range w.dispatches[is.Key] {
			d.resolved = true
		}
		w.allowance[is.Key], w.approvals[is.Key] = 0, nil
		delete(w.notBefore, is.Key)
	}
}

// lawsRecordTravels: a record survives JSON.
func lawsRecordTravels(w *lawsWorld, r *toolexec.Record) {
	raw, err := json.Marshal(r)
	if err != nil {
		w.broken("L8", "the record of %s does not encode: %v", r.Ref, err)
		return
	}
	var back toolexec.Record
	if err := json.Unmarshal(raw, &back); err != nil {
		w.broken("L8", "the record of %s does not decode: %v", r.Ref, err)
		return
	}
	again, err := json.Marshal(back)
	if err != nil || !bytes.Equal(again, raw) {
		w.broken("L8", "the record of %s changes on its way: %s became %s", r.Ref, raw, again)
	}
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
