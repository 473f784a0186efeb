package toolexec_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// The laws hold whatever the world does. Each seed draws a world (tools, network, look-ups, stores, processes), several
// agents that call, cancel, repeat and ignore advice, and a person who settles what the executor may not; time is that
// of a testing/synctest bubble. Every answer, every version of a record and every run of a tool is checked as it
// happens, and the claims of all answers once more when everything has landed.
//
//	L1  at most one effect per operation of a Write, no dispatch without proof that those before it have none
//	L2  committed: the ledger has the effect; not_committed: nothing sent before it has one, now or later
//	L3  committed is final
//	L4  one envelope per call, valid and in time
//	L5  no run before not_before, without approval, or beyond the lifetime budget
//	L6  no upstream text, panic value or argument reaches an envelope; observers are shown all of it
//	L8  envelopes and records survive JSON, and unknown words are kept and safe
//	L9  after Close nothing is left

var (
	lawsSeed = flag.Uint64("laws.seed", 0, "run the laws with this seed alone, and show its trace")
	lawsN    = flag.Uint64("laws.n", 180, "how many seeds the laws are run with")
	lawsAll  = flag.Bool("laws.all", false, "go on after a seed that breaks a law, without traces")
)

// What is drawn or checked beside the rest. False where the check asks for more than the
// laws do. Each test at the end of this file shows one in its smallest form.
const (
	lawsRuns        = true  // TestLawsRepeatedCallReadsTheRecord, TestLawsRepeatNeverDeniesAnUnknown
	lawsHandedRefs  = true  // TestLawsNoAnswerHandsOutANewRef
	lawsWaitersRead = true  // who waited for a call of its own process knows what is committed
	lawsReadsWait   = false // also between processes and reads side by side: TestLawsReadWaitsAsTheRemoteSideWants
	lawsLeases      = true  // TestLawsRunningOwnerKeepsItsLease
)

func TestLaws(t *testing.T) {
	if *lawsSeed > 0 {
		runLaws(t, *lawsSeed, true)
		return
	}
	const parts = 4 // side by side; in turns, so that each is as long as the others
	for part := range uint64(parts) {
		t.Run(fmt.Sprint("part ", part+1), func(t *testing.T) {
			t.Parallel()
			for seed := part + 1; seed <= *lawsN; seed += parts {
				runLaws(t, seed, false)
				if t.Failed() && !*lawsAll {
					return
				}
			}
		})
	}
}

// TestLawsKeptSeeds runs again what once found something: an approval that ended while begin repeated a Save, and an
// operation that a begin had stored, and then given up.
func TestLawsKeptSeeds(t *testing.T) {
	for _, seed := range []uint64{281, 2157} {
		runLaws(t, seed, false)
	}
}

// runLaws runs one schedule.
func runLaws(t *testing.T, seed uint64, verbose bool) {
	t.Helper()
	var w *lawsWorld
	func() {
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("L9: the schedule did not end: %v", r)
			}
		}()
		synctest.Test(t, func(t *testing.T) {
			w = newLawsWorld(drawLaws(seed))
			w.live(t)
		})
	}()
	if len(w.violations) > 0 {
		t.Errorf("seed %d breaks\n  %s", seed, strings.Join(w.violations, "\n  "))
	}
	if t.Failed() && !*lawsAll {
		t.Logf("reproduce with: go test -run '^TestLaws$' . -laws.seed=%d", seed)
	}
	if t.Failed() && !*lawsAll || verbose {
		t.Log(w.story())
	}
}

// story is the trace of the schedule.
func (w *lawsWorld) story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", w.cfg)
	for _, s := range w.cfg.tools {
		fmt.Fprintf(&b, "tool %+v\n", *s)
	}
	for _, i := range w.intents {
		fmt.Fprintf(&b, "intent %d: %s, scope %q, ref %q, run %q, plural %t\n", i.id, i.spec.name, i.scope, i.ref, i.run, i.plural)
	}
	for _, e := range w.trace {
		fmt.Fprintf(&b, "%12v  %s\n", e.at, fmt.Sprintf(e.format, e.args...))
	}
	return b.String()
}

// what is drawn ---------------------------------------------------------------------

type lawsConfig struct {
	seed                uint64
	leased              bool
	procs, agents       int
	errBefore, errAfter float64
	latency, hang       time.Duration
	killAt              time.Duration // 0: nobody is killed
	killStops           bool
	oddObserver         int
	oddClassifier       bool
	checkReads          bool
	tools               []*lawsSpec
}

func (c *lawsConfig) faulty() bool { return c.errBefore > 0 || c.errAfter > 0 }

// slack is how much later an instant of an answer may lie than that of its record: the store was slow in between.
func (c *lawsConfig) slack() time.Duration { return 20 * c.latency }

func drawLaws(seed uint64) lawsConfig {
	r := rand.New(rand.NewPCG(seed, 0))
	c := lawsConfig{seed: seed, leased: r.IntN(2) == 0, procs: 1 + r.IntN(3), agents: 2 + r.IntN(3), hang: lawsPick(r, 4*time.Second, 20*time.Second, 70*time.Second)}
	if r.IntN(3) == 0 {
		c.errBefore, c.errAfter = lawsPick(r, 0, 0.03, 0.1), lawsPick(r, 0, 0.03, 0.1)
	}
	if r.IntN(4) == 0 {
		c.latency = 50 * time.Millisecond
	}
	if c.leased && c.procs > 1 && r.IntN(2) == 0 {
		c.killAt, c.killStops = time.Duration(r.IntN(20_000))*time.Millisecond, r.IntN(2) == 0
	}
	if r.IntN(4) == 0 {
		c.oddObserver = 1 + r.IntN(3)
	}
	c.oddClassifier, c.checkReads = r.IntN(6) == 0, lawsReadsWait
	for n := range 3 + r.IntN(3) {
		c.tools = append(c.tools, drawLawsTool(r, n, c.leased))
	}
	return c
}

func drawLawsTool(r *rand.Rand, n int, leased bool) *lawsSpec {
	one := func(in int) bool { return r.IntN(in) == 0 }
	s := &lawsSpec{name: fmt.Sprintf("tool_%d", n), settle: toolexec.DefaultSettle, obeysContext: one(2), stringsOnly: one(4)}
	switch {
	case n == 0 || one(6):
		s.effect = toolexec.ReadOnly
		s.policy = drawLawsPolicy(r)
		return s
	case one(3):
		s.effect = toolexec.Idempotent
		s.dedupe = lawsPick(r, 0, 0, 20*time.Second)
	}
	s.marks, s.asksMark, s.oneRequest, s.ref = one(3), one(3), one(2), one(4)
	s.cooperative, s.approval, s.ignoresNote, s.plainRejects = one(5), one(4), one(4), one(4)
	if s.verified = !one(4); s.verified {
		s.settle, s.authoritative = lawsPick(r, 3*time.Second, 10*time.Second, 30*time.Second), !one(5)
	} else {
		s.unverifiable = one(3)
	}
	s.policy = drawLawsPolicy(r)
	if leased && s.marks && one(3) { // the fence has to hold where no deadline does
		s.policy.Deadline, s.policy.TotalDeadline = -1, -1
	}
	s.lifetime = s.policy.MaxAttempts
	if s.lifetime == 0 {
		s.lifetime = toolexec.DefaultMaxAttempts
	}
	return s
}

func drawLawsPolicy(r *rand.Rand) toolexec.Policy {
	p := toolexec.Policy{
		Deadline:      lawsPick(r, 0, 0, 500*time.Millisecond, 5*time.Second),
		TotalDeadline: lawsPick(r, 0, 0, 3*time.Second, 20*time.Second),
		MaxRetries:    lawsPick(r, 0, -1, 5),
		MaxAttempts:   lawsPick(r, 0, 0, 2, 3),
		MaxAbandon:    lawsPick(r, 0, 10*time.Second),
		MaxAbandoned:  lawsPick(r, 0, 0, 2),
	}
	if r.IntN(8) == 0 {
		p.Deadline, p.TotalDeadline = -1, lawsPick(r, -1, 10*time.Second)
	}
	return p
}

// a life ------------------------------------------------------------------------------

// lawsRun is one run of the world.
type lawsRun struct {
	*lawsWorld
	t       testing.TB
	procs   []*lawsProcess
	pending sync.WaitGroup // calls, those that nobody waits for included
	over    chan struct{}
}

func (w *lawsWorld) live(t *testing.T) {
	run := &lawsRun{lawsWorld: w, t: lawsTB{t, w}, over: make(chan struct{})}
	for n := range w.cfg.procs {
		run.procs = append(run.procs, w.process(n))
	}
	r := w.stream("intents")
	for id := range 4 + r.IntN(6) {
		w.drawIntent(id, r)
	}
	if w.cfg.killAt > 0 {
		run.pending.Go(run.kill)
	}
	var people, agents sync.WaitGroup
	people.Go(run.operator)
	for n := range w.cfg.agents {
		agents.Go(func() { run.agent(n) })
	}
	agents.Wait()
	run.pending.Wait()
	close(run.over)
	people.Wait()
	for _, p := range run.procs {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		if err := p.x.Close(ctx); err != nil {
			w.locked(func() { w.broken("L9", "Close of p%d: %v", p.n, err) })
		}
		cancel()
	}
	w.locked(func() { w.closed = true })
	w.wires.Wait()
	time.Sleep(time.Hour) // whatever timer is left fires now, and is noticed at the store
	w.locked(w.settleClaims)
	if !w.cfg.faulty() {
		w.settleRecords(t)
	}
}

// settleRecords: with a store that never failed nothing is left in hand by a process that closed, and every success
// that a tool reported, however late, is a fact.
func (w *lawsWorld) settleRecords(t *testing.T) {
	page, _, err := w.base.List(t.Context(), toolexec.Query{Limit: 1000})
	require.NoError(t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, rec := range page {
		killed := w.cfg.killAt > 0 && rec.Owner == "p0"
		if rec.State == toolexec.StateInFlight && !killed {
			w.broken("L9", "%s is still in flight for %s", rec.Ref, rec.Owner)
		}
		if w.cfg.killAt == 0 && slices.ContainsFunc(rec.Unresolved, func(u toolexec.Unresolved) bool { return u.Alive }) {
			w.broken("L9", "%s has an attempt that is taken for alive", rec.Ref)
		}
		for _, d := range w.dispatches[rec.Key] {
			if d.success && !d.proc.dead() && rec.State != toolexec.StateCommitted {
				w.broken("L9", "%s is %s although dispatch %d succeeded", rec.Ref, rec.State, d.seq)
			}
		}
	}
}

func (w *lawsWorld) process(n int) *lawsProcess {
	p := &lawsProcess{n: n, tools: map[string]*toolexec.Bound[lawsIn, any]{}, killed: make(chan struct{}), rng: w.stream("store", n)}
	p.x = &toolexec.Executor{Observer: lawsObserver{w, p}, Owner: fmt.Sprint("p", n)}
	s := lawsStore{w, p}
	if p.x.Store = s; !w.cfg.leased {
		p.x.Store = lawsVolatileStore{s}
	}
	if w.cfg.oddClassifier {
		p.x.Classifiers = []toolexec.Classifier{func(error) (toolexec.Failure, bool) { panic(lawsCanary + "-classifier") }}
	}
	w.bind(p)
	return p
}

func (w *lawsWorld) drawIntent(id int, r *rand.Rand) {
	i := &lawsIntent{id: id, spec: lawsPick(r, w.cfg.tools...), scope: lawsPick(r, "", "tenant"), run: lawsPick(r, "", "run_1", "run_2")}
	if !lawsRuns {
		i.run = ""
	}
	switch {
	case i.spec.ref:
		i.poison = r.IntN(8) == 0
	case r.IntN(2) == 0:
		i.ref = fmt.Sprintf("run/step_%d", id)
		if id > 0 && r.IntN(4) == 0 {
			i.ref = fmt.Sprintf("run/step_%d", r.IntN(id)) // another operation has it, perhaps
		}
	}
	w.intents = append(w.intents, i)
}

func (r *lawsRun) kill() {
	time.Sleep(r.cfg.killAt)
	p := r.procs[0]
	p.mu.Lock()
	p.killedAt, p.stops = time.Now(), r.cfg.killStops
	p.mu.Unlock()
	r.locked(func() { r.log("p%d is killed", p.n) })
	close(p.killed)
}

// living returns a process that was not killed.
func (r *lawsRun) living(rng *rand.Rand) *lawsProcess {
	for {
		if p := lawsPick(rng, r.procs...); !p.dead() {
			return p
		}
	}
}

// agents ---------------------------------------------------------------------------------

// lawsPlan is what one agent knows of one intent.
type lawsPlan struct {
	intent *lawsIntent
	ref    string // to be given on the next call
	note   string
	done   bool
	doubt  bool // an answer was unknown
}

// agent pursues its own intents, and those that name their operation together with the others.
func (r *lawsRun) agent(n int) {
	rng := r.stream("agent", n)
	var plans []*lawsPlan
	for _, i := range r.intents {
		if i.id%r.cfg.agents == n || (i.ref != "" || i.spec.ref) && rng.IntN(2) == 0 {
			plans = append(plans, &lawsPlan{intent: i, ref: i.ref, note: "a"})
		}
	}
	for range 3 * len(plans) {
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		r.pursue(rng, lawsPick(rng, plans...))
		if rng.IntN(8) == 0 {
			r.nonsense(rng)
		}
	}
}

// pursue calls for one intent until it has an answer it is content with, or gives up for now.
func (r *lawsRun) pursue(rng *rand.Rand, plan *lawsPlan) {
	for range 1 + rng.IntN(4) {
		a := r.issue(rng, plan)
		if a == nil { // crashed, or gave up waiting: it plans the same step again
			continue
		}
		r.learn(rng, plan, a)
		if a.OK && rng.IntN(3) > 0 {
			return
		}
		r.heed(rng, plan, a)
	}
}

// learn keeps what the next call needs: an operation goes by its ref once it is known to be committed; before that the
// agent may as well plan the same step again without one.
func (r *lawsRun) learn(rng *rand.Rand, plan *lawsPlan, a *lawsAnswer) {
	named := plan.intent.ref != "" || plan.intent.spec.ref
	if !plan.intent.spec.writes() || named {
		return
	}
	plan.done, plan.doubt = plan.done || a.OK, plan.doubt || a.CommitState != toolexec.NotCommitted
	if _, err := r.base.Load(context.Background(), lawsKey{Scope: plan.intent.scope, Ref: a.OperationRef}); err != nil && !lawsHandedRefs {
		return
	}
	if plan.ref = a.OperationRef; !plan.done && rng.IntN(2) == 0 {
		plan.ref = ""
	}
}

// heed waits as the answer says, or does not.
func (r *lawsRun) heed(rng *rand.Rand, plan *lawsPlan, a *lawsAnswer) {
	named := plan.intent.ref != "" || plan.intent.spec.ref
	switch {
	case a.NextAction == toolexec.NextCorrectInput && rng.IntN(2) == 0, named && rng.IntN(12) == 0:
		plan.note = lawsPick(rng, "a", "b", "c")
	}
	switch wait := time.Until(a.Retry.NotBefore); {
	case rng.IntN(3) == 0: // ignores it
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
	case wait > 0:
		time.Sleep(min(wait, 2*time.Minute))
	default:
		time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
	}
}

// lawsAnswer is an envelope whose result was checked.
type lawsAnswer = toolexec.Envelope[json.RawMessage]

// lawsCall is one call as an agent makes it.
type lawsCall struct {
	id      int
	intent  *lawsIntent
	in      lawsIn
	ref     string
	scope   string
	proc    *lawsProcess
	began   time.Time
	seq     int                // dispatches before it
	open    map[lawsKey]string // equal operations that were open when it began, with their nonces
	hurried bool               // its context ends before its time
	shared  bool               // another call of the same batch asks for the same
	try     int                // reads of it so far; protected by the world
}

// unnamed reports whether neither the host nor the tool names the operation: it goes by a ref that was minted, now or
// for an answer before.
func (c *lawsCall) unnamed() bool {
	return c.intent.ref == "" && !c.intent.spec.ref && c.intent.spec.writes()
}

type lawsCallsKey struct{}

// lawsCallOf returns the call that a tool's context belongs to.
func lawsCallOf(ctx context.Context, intent int) *lawsCall {
	calls, _ := ctx.Value(lawsCallsKey{}).([]*lawsCall)
	for _, c := range calls {
		if c.intent.id == intent {
			return c
		}
	}
	return nil
}

func (r *lawsRun) newCall(p *lawsProcess, plan *lawsPlan) *lawsCall {
	i := plan.intent
	c := &lawsCall{
		intent: i, in: lawsIn{i.id, plan.note, lawsCanary + "-argument"}, ref: plan.ref, scope: i.scope, proc: p,
		began: time.Now(), open: map[lawsKey]string{},
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	c.id, c.seq = r.calls, r.seq
	if plan.doubt && c.unnamed() && c.ref == "" {
		i.plural = true // the one in doubt may be settled by now, and this is then another wish
	}
	if c.unnamed() {
		r.noteOpen(c)
	}
	return c
}

// noteOpen is called with mu held.
func (w *lawsWorld) noteOpen(c *lawsCall) {
	identity := c.intent.spec.identity(c.in)
	for key, list := range w.dispatches {
		if key.Scope != c.scope || len(list) == 0 || list[len(list)-1].identity != identity {
			continue
		}
		if rec, err := w.base.Load(context.Background(), key); err == nil && lawsOpen(rec.State) {
			c.open[key] = rec.Nonce
		}
	}
}

// issue makes one call, in one of several ways, and returns nil when the agent did not wait for its answer.
func (r *lawsRun) issue(rng *rand.Rand, plan *lawsPlan) *lawsAnswer {
	p := r.living(rng)
	c := r.newCall(p, plan)
	ctx, cancel := context.WithCancel(context.Background())
	switch rng.IntN(8) {
	case 0:
		c.hurried = true
		time.AfterFunc(time.Duration(rng.IntN(4000))*time.Millisecond, cancel)
	case 1:
		c.hurried = true
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(4000))*time.Millisecond) // the parent ends with the bubble
	}
	way, patience := rng.IntN(4), time.Hour
	batch := r.stream("batch", c.id, rng.Uint64())
	if rng.IntN(6) == 0 {
		patience = time.Duration(rng.IntN(5000)) * time.Millisecond
	}
	leave := rng.IntN(2) == 0
	r.locked(func() {
		r.log("call %d: p%d, intent %d, ref %q, note %s, way %d, hurried %t, patience %v", c.id, p.n, c.intent.id, c.ref, c.in.Note, way, c.hurried, patience)
	})
	answered := make(chan *lawsAnswer, 1)
	r.pending.Go(func() {
		defer close(answered)
		defer cancel()
		if a := r.do(ctx, batch, way, c); a != nil {
			answered <- a
		}
	})
	killed := p.killed
	if !leave {
		killed = nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case a := <-answered:
		return a
	case <-killed:
	case <-timer.C:
	}
	r.locked(func() { // planned again without a ref after it succeeded unheard, it is another wish
		if c.unnamed() {
			c.intent.plural = true
		}
	})
	return nil
}

// do makes the call and checks its answer; nil when the tool ended the goroutine.
func (r *lawsRun) do(ctx context.Context, rng *rand.Rand, way int, c *lawsCall) *lawsAnswer {
	name := c.intent.spec.name
	answered := false
	defer func() {
		if !answered {
			r.locked(func() {
				if !r.exits[c] && !r.failedNow() {
					r.broken("L4", "call %d has no envelope", c.id)
				}
			})
		}
	}()
	ctx = context.WithValue(ctx, lawsCallsKey{}, []*lawsCall{c})
	var a *lawsAnswer
	switch way {
	case 0, 1:
		typed := toolexec.WithRunID(toolexec.WithScope(ctx, c.scope), c.intent.run)
		if c.ref != "" || rng.IntN(2) == 0 {
			typed = toolexec.WithOperationRef(typed, c.ref)
		}
		e := c.proc.tools[name].Call(typed, c.in)
		answered = true
		a = lawsAnswered(r, c, &e, 1)
	case 2:
		e := c.proc.x.Execute(ctx, c.byName())
		answered = true
		a = lawsAnswered(r, c, &e, 1)
	default:
		a, answered = r.doBatch(ctx, rng, c), true
	}
	return a
}

func (w *lawsWorld) failedNow() bool { return len(w.violations) > 0 }

func (c *lawsCall) byName() toolexec.Call {
	raw := fmt.Sprintf(`{"secret":%q, "note":%q, "intent":%d.0}`, c.in.Secret, c.in.Note, c.in.Intent)
	return toolexec.Call{ID: fmt.Sprint(c.id), Name: c.intent.spec.name, Arguments: json.RawMessage(raw), OperationRef: c.ref, Scope: c.scope, RunID: c.intent.run}
}

// doBatch makes the call among others of one turn: the same again, another, a name nobody knows.
func (r *lawsRun) doBatch(ctx context.Context, rng *rand.Rand, c *lawsCall) *lawsAnswer {
	calls := []*lawsCall{c}
	batch := []toolexec.Call{c.byName()}
	if rng.IntN(2) == 0 && (c.ref != "" || c.intent.spec.ref) {
		c.shared = true
		calls, batch = append(calls, c), append(batch, c.byName())
	}
	if other := lawsPick(rng, r.intents...); other != c.intent && (other.ref != "" || other.spec.ref || !other.spec.writes()) {
		o := r.newCall(c.proc, &lawsPlan{intent: other, ref: other.ref, note: "a"})
		o.hurried = c.hurried
		calls, batch = append(calls, o), append(batch, o.byName())
	}
	calls, batch = append(calls, nil), append(batch, toolexec.Call{Name: lawsCanary + "_tool"})
	ctx = context.WithValue(ctx, lawsCallsKey{}, calls[:len(calls)-1])
	out := c.proc.x.ExecuteAll(ctx, batch)
	if len(out) != len(batch) {
		r.locked(func() { r.broken("L4", "%d envelopes for %d calls", len(out), len(batch)) })
		return nil
	}
	var again *lawsAnswer
	for i := range out {
		if i == 0 {
			continue
		}
		if a := lawsAnswered(r, calls[i], &out[i], len(batch)); calls[i] == c {
			again = a
		}
	}
	a := lawsAnswered(r, c, &out[0], len(batch))
	if again != nil && again.OK && !a.OK {
		return again // the agent reads both: its wish is fulfilled
	}
	return a
}

// nonsense is what models send: none of it runs anything, or reaches a text.
func (r *lawsRun) nonsense(rng *rand.Rand) {
	x := r.living(rng).x
	spec := lawsPick(rng, r.cfg.tools...)
	bad := lawsPick(rng,
		`{"intent":"CANARY","note":1,"secret":{"deep":1}}`, `{"intent":1,"intent":2}`, `CANARY`,
		`{"intent":1e400,"note":"","secret":""}`, `{"intent":99,"note":"CANARY","secret":"CANARY"}`)
	if rng.IntN(4) == 0 {
		bad = `{"intent":0,"note":"","secret":"","CANARY":1}`
	}
	call := toolexec.Call{Name: spec.name, Arguments: json.RawMessage(bad), RunID: lawsPick(rng, "", "run_1")}
	if rng.IntN(6) == 0 {
		call.Name = lawsCanary
	}
	if rng.IntN(6) == 0 {
		call.OperationRef = "not a ref " + lawsCanary
	}
	e := x.Execute(context.Background(), call)
	r.locked(func() {
		if e.OK {
			r.broken("L4", "nonsense was carried out: %s", bad)
		}
	})
	lawsAnswered(r, nil, &e, 1)
}

// what is checked of answers -----------------------------------------------------------------

// lawsTB turns failures of assertions into violations, so that they come with their seed.
type lawsTB struct {
	testing.TB
	w *lawsWorld
}

func (t lawsTB) Errorf(format string, args ...any) {
	t.w.locked(func() { t.w.broken("L4", format, args...) })
}
func (t lawsTB) FailNow() { runtime.Goexit() }
func (t lawsTB) Helper()  {}

// lawsAnswered checks one envelope; c is nil for a call that cannot have run.
func lawsAnswered[T any](r *lawsRun, c *lawsCall, e *toolexec.Envelope[T], in int) *lawsAnswer {
	_, crash := any(e.Result).(lawsCrash)                   // which the checker would encode
	if !crash && (c == nil || !e.Replayed || c.id%4 == 0) { // replays are many and alike
		checkEnvelope(r.t, *e)
	}
	raw, err := json.Marshal(e)
	require.NoError(r.t, err)
	a := &lawsAnswer{}
	require.NoError(r.t, json.Unmarshal(raw, a))
	if c != nil && c.id%8 == 0 {
		lawsWords(r, raw)
	}
	_, isError := e.Observation()
	shown := lawsUnnamed(*e)
	text, _ := shown.Observation()
	wire, err := json.Marshal(shown)
	require.NoError(r.t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range []string{e.AgentMessage, e.UserMessage, fmt.Sprint(e.SafeDetails), fmt.Sprint(shown.FieldErrors)} {
		if strings.Contains(s, lawsCanary) {
			r.broken("L6", "%s in %q", e.Code, s)
		}
	}
	if !e.OK && (strings.Contains(string(wire), lawsCanary) || strings.Contains(text, lawsCanary) || strings.Contains(shown.Err().Error(), lawsCanary)) {
		r.broken("L6", "%s, %s", raw, text)
	}
	if isError == e.OK {
		r.broken("L4", "ok %t and the error flag %t", e.OK, isError)
	}
	if c == nil {
		return a
	}
	r.log("call %d: answered %s %s %s %s, ref %s, not before %v", c.id, e.Code, e.CommitState, e.Retry.Directive, e.NextAction, e.OperationRef, e.Retry.NotBefore.Sub(r.begin))
	r.inTime(c, in)
	if c.intent.spec.writes() {
		r.believes(c, a)
		if s, ok := any(e.Result).(string); ok && e.HasResult && strings.HasPrefix(s, "receipt") && s != lawsReceipt(lawsKey{Scope: c.scope, Ref: e.OperationRef}) {
			r.broken("L2", "call %d of %s is answered with the %s", c.id, e.OperationRef, s)
		}
	}
	return a
}

// lawsUnnamed is e without the member that nonsense makes up, which field_errors name by design.
func lawsUnnamed[T any](e toolexec.Envelope[T]) toolexec.Envelope[T] {
	e.FieldErrors = slices.Clone(e.FieldErrors)
	for i := range e.FieldErrors {
		if f := &e.FieldErrors[i]; f.Pointer == "/"+lawsCanary {
			f.Pointer = "/"
		}
	}
	return e
}

// inTime: an envelope is there within its total deadline, the grace, and bounded bookkeeping. Called with mu held.
func (w *lawsWorld) inTime(c *lawsCall, calls int) {
	p := c.intent.spec.policy
	unbounded := func(s *lawsSpec) bool { return s.cooperative || s.policy.TotalDeadline < 0 }
	if unbounded(c.intent.spec) || calls > 1 && slices.ContainsFunc(w.cfg.tools, unbounded) {
		return
	}
	limit := p.TotalDeadline
	if limit == 0 {
		limit = toolexec.DefaultTotalDeadline
	}
	if calls > 1 { // writes of a batch wait for one another
		limit = time.Duration(calls) * 20 * time.Second
	}
	limit += 10 * time.Millisecond
	if w.cfg.faulty() {
		limit += 100 * time.Millisecond
	}
	if w.cfg.latency > 0 {
		limit += 4 * time.Second
	}
	if took := time.Since(c.began); took > limit {
		w.broken("L4", "call %d took %v", c.id, took)
	}
}

// believes holds an answer against the ledger. Called with mu held.
func (w *lawsWorld) believes(c *lawsCall, a *lawsAnswer) {
	spec := c.intent.spec
	key, identity := lawsKey{Scope: c.scope, Ref: a.OperationRef}, spec.identity(c.in)
	fact := fmt.Sprint(key, identity)
	was, known := w.committed[fact]
	known = known && was.at.Before(c.began)
	switch a.CommitState {
	case toolexec.Committed:
		if !w.hasEffect(key, identity) {
			w.broken("L2", "call %d: committed, the ledger has nothing for %s", c.id, key.Ref)
		}
		if _, dup := w.committed[fact]; !dup {
			w.committed[fact] = lawsFact{time.Now(), a.Unrecorded}
		}
	case toolexec.NotCommitted:
		if known {
			w.broken("L3", "call %d: %s was committed, now it is not", c.id, key.Ref)
		}
		w.claims = append(w.claims, lawsClaim{key, identity, c.seq, c, fmt.Sprint(a.Code)})
		w.noteNotBefore(key, a)
	default:
		if _, err := w.base.Load(context.Background(), key); err != nil && lawsHandedRefs && c.unnamed() && c.ref == "" {
			w.broken("L1", "call %d: unknown (%s), and its ref %s names nothing: given again it would start anew", c.id, a.Code, key.Ref)
		}
		read := lawsWaitersRead || a.Code != toolexec.CodeOperationInProgress
		if known && read && !was.unrecorded && !c.hurried && !c.proc.dead() && !w.cfg.faulty() && w.cfg.latency == 0 {
			w.broken("L3", "call %d: %s was committed, now it is unknown: %s", c.id, key.Ref, a.Code)
		}
	}
}

// noteNotBefore is called with mu held.
func (w *lawsWorld) noteNotBefore(key lawsKey, a *lawsAnswer) {
	if a.Retry.Directive == toolexec.RetryAfterDelay && !a.Unrecorded && !a.Retry.NotBefore.IsZero() {
		w.notBefore[key] = a.Retry.NotBefore
	}
}

// settleClaims: what was said to be not committed is not, now that everything has landed; and the observers were
// shown every cause. Called with mu held.
func (w *lawsWorld) settleClaims() {
	for _, claim := range w.claims {
		for _, d := range w.dispatches[claim.key] {
			meant := d.seq <= claim.before || d.call == claim.call && !claim.call.shared
			if meant && d.effect && d.identity == claim.identity {
				w.broken("L2", "call %d: not_committed (%s), and dispatch %d of %s has an effect", claim.call.id, claim.text, d.seq, claim.key.Ref)
			}
		}
	}
	seen := w.seen.String()
	for _, c := range w.canaries {
		if !strings.Contains(seen, c) {
			w.broken("L6", "no observer was shown %s", c)
		}
	}
}

// lawsWords: words of a newer version are kept, and act as the safe ones; without "ok" nothing is an envelope.
func lawsWords(r *lawsRun, raw []byte) {
	var m map[string]any
	require.NoError(r.t, json.Unmarshal(raw, &m))
	m["commit_state"], m["next_action"] = "half_committed", "dance"
	if retry, ok := m["retry"].(map[string]any); ok {
		retry["directive"] = "at_once"
	}
	newer, err := json.Marshal(m)
	require.NoError(r.t, err)
	var e lawsAnswer
	require.NoError(r.t, json.Unmarshal(newer, &e))
	if e.CommitState.Safe() != toolexec.CommitUnknown || e.NextAction.Safe() != toolexec.NextEscalate || e.Retry.Directive.Safe() != toolexec.RetryNever {
		r.t.Errorf("unknown words are not safe: %s", newer)
	}
	again, err := json.Marshal(e)
	require.NoError(r.t, err)
	require.JSONEq(r.t, string(newer), string(again))
	delete(m, "ok")
	newer, _ = json.Marshal(m)
	require.Error(r.t, json.Unmarshal(newer, &e))
}

// the person ----------------------------------------------------------------------------------

// operator approves, denies and resolves; what it states is true.
func (r *lawsRun) operator() {
	rng := r.stream("operator")
	for {
		t := time.NewTimer(time.Duration(1+rng.IntN(8)) * time.Second)
		select {
		case <-t.C:
		case <-r.over:
			t.Stop()
			return
		}
		sup := &toolexec.Supervisor{Executor: r.living(rng).x}
		page, _, err := sup.List(context.Background(), toolexec.Query{States: []toolexec.State{
			toolexec.StateAwaitingApproval, toolexec.StateUnknown, toolexec.StateEscalated, toolexec.StateRejected,
		}})
		if err != nil {
			continue
		}
		for _, rec := range page {
			r.attend(rng, sup, rec)
		}
	}
}

func (r *lawsRun) attend(rng *rand.Rand, sup *toolexec.Supervisor, rec toolexec.Record) {
	ctx, by := context.Background(), toolexec.Statement{Actor: "anna", Evidence: "ledger"}
	switch n := rng.IntN(8); {
	case rec.State == toolexec.StateAwaitingApproval && n == 0:
		_, _ = sup.Deny(ctx, rec.Key, by)
	case rec.State == toolexec.StateAwaitingApproval && n < 6:
		_, _ = approveHeld(sup, ctx, rec.Key, by, lawsPick(rng, 0, time.Second, time.Minute))
	case rec.State == toolexec.StateRejected && n == 0:
		_, _ = sup.Reopen(ctx, rec.Key, by)
	case rec.State == toolexec.StateEscalated && n < 4, rec.State == toolexec.StateUnknown && n == 0:
		if state, certain := r.truth(rec.Key); certain {
			by.Force = rec.State == toolexec.StateEscalated && rng.IntN(2) == 0
			_, _ = sup.Resolve(ctx, rec.Key, state, by)
		}
	}
}

// truth reads the ledger. It is certain of an absence only when nothing can send or land any more.
func (r *lawsRun) truth(key lawsKey) (toolexec.CommitState, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hasEffect(key, "") {
		return toolexec.Committed, true
	}
	for _, d := range r.dispatches[key] {
		if d.effect || d.ended.IsZero() && !d.proc.mute() || time.Since(d.ended) < d.spec.settle {
			return toolexec.CommitUnknown, false
		}
	}
	return toolexec.NotCommitted, true
}

// the laws in their smallest form ---------------------------------------------------------------

// lawsTool is a Write that counts its runs.
func lawsTool(runs *atomic.Int64, f func(ctx context.Context, n int) (string, error)) toolexec.Tool[lawsIn, string] {
	return toolexec.Tool[lawsIn, string]{Name: "charge", Run: func(ctx context.Context, _ lawsIn) (string, error) {
		return f(ctx, int(runs.Add(1)))
	}}
}

// lawsHidden is a store that shows nothing but the interface, so that ownership is leased.
type lawsHidden struct{ toolexec.Store }

// L8: what a newer version wrote is left to a person, whole.
func TestLawsRecordOfANewerVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		var store toolexec.MemoryStore
		x := toolexec.Executor{Store: &store}
		charge := toolexec.Bind(&x, lawsTool(&runs, func(context.Context, int) (string, error) { return "", toolexec.InDoubt(nil) }))
		ctx := toolexec.WithOperationRef(t.Context(), "a")
		charge.Call(ctx, lawsIn{})
		rec, err := store.Load(ctx, toolexec.Key{Ref: "a"})
		require.NoError(t, err)

		raw, err := json.Marshal(rec)
		require.NoError(t, err)
		raw = []byte(strings.NewReplacer(`"state":"unknown"`, `"state":"half_done"`, `"effect":"write"`, `"effect":"cascade"`).Replace(string(raw)))
		var newer toolexec.Record
		require.NoError(t, json.Unmarshal(raw, &newer))
		again, err := json.Marshal(newer)
		require.NoError(t, err)
		require.Equal(t, string(raw), string(again))
		require.Equal(t, toolexec.CommitUnknown, newer.CommitState())

		_, err = store.Save(ctx, newer)
		require.NoError(t, err)
		e := charge.Call(ctx, lawsIn{})
		require.EqualValues(t, 1, runs.Load())
		require.Equal(t, toolexec.CommitUnknown, e.CommitState)
		require.Equal(t, toolexec.NextEscalate, e.NextAction)
		require.NoError(t, x.Close(ctx))
	})
}

// L1: whoever lost the record while it prepared may not send any more.
func TestLawsFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := lawsHidden{new(toolexec.MemoryStore)}
		var first, second toolexec.Executor
		first.Store, second.Store = store, store
		var runs, effects atomic.Int64
		tool := lawsTool(&runs, func(ctx context.Context, n int) (string, error) {
			if n == 1 {
				time.Sleep(time.Minute)
			}
			if err := toolexec.MarkSent(ctx); err != nil {
				return "", err
			}
			effects.Add(1)
			return "receipt", nil
		})
		tool.MarksSent, tool.Policy = true, toolexec.Policy{Deadline: -1, TotalDeadline: -1}
		ctx := toolexec.WithOperationRef(t.Context(), "a")
		here, there := toolexec.Bind(&first, tool), toolexec.Bind(&second, tool)
		go here.Call(ctx, lawsIn{})
		time.Sleep(20 * time.Second) // unless it is extended the lease is over
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		there.Call(bounded, lawsIn{})
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, effects.Load())
	})
}

// A call that its run was refused before is answered from the record, not from the run's memory: the operation may have
// been carried out since (L2, L3).
func TestLawsRepeatedCallReadsTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var runs atomic.Int64
		charge := toolexec.Bind(&x, lawsTool(&runs, func(_ context.Context, n int) (string, error) {
			if n == 1 {
				return "", toolexec.Rejected(toolexec.CodeConflict, nil)
			}
			return "receipt", nil
		}))
		ctx := toolexec.WithOperationRef(t.Context(), "a")
		require.Equal(t, toolexec.NotCommitted, charge.Call(toolexec.WithRunID(ctx, "run"), lawsIn{}).CommitState)
		require.True(t, charge.Call(ctx, lawsIn{}).OK)
		e := charge.Call(toolexec.WithRunID(ctx, "run"), lawsIn{})
		require.Equal(t, toolexec.Committed, e.CommitState, "%s", e.Code)
	})
}

// The same for an Idempotent operation whose outcome is unknown: "unchanged" is no answer to a call that resumes it (L2).
func TestLawsRepeatNeverDeniesAnUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var runs atomic.Int64
		tool := lawsTool(&runs, func(_ context.Context, n int) (string, error) {
			if n == 1 {
				return "", toolexec.Rejected(toolexec.CodeConflict, nil)
			}
			return "", fmt.Errorf("lost")
		})
		tool.Effect = toolexec.Idempotent
		charge := toolexec.Bind(&x, tool)
		other, ctx := toolexec.WithOperationRef(t.Context(), "a"), toolexec.WithOperationRef(t.Context(), "b")
		require.Equal(t, toolexec.NotCommitted, charge.Call(toolexec.WithRunID(other, "run"), lawsIn{}).CommitState)
		require.Equal(t, toolexec.CommitUnknown, charge.Call(ctx, lawsIn{}).CommitState)
		e := charge.Call(toolexec.WithRunID(ctx, "run"), lawsIn{})
		require.Equal(t, toolexec.CommitUnknown, e.CommitState, "%s", e.Code)
	})
}

// lawsFailingList fails List while told to.
type lawsFailingList struct {
	toolexec.Store
	fails bool
}

func (s *lawsFailingList) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	if s.fails {
		return nil, toolexec.Cursor{}, errLawsStore
	}
	return s.Store.List(ctx, q)
}

// An answer to a call without a ref must not hand out a ref that names nothing while an equal operation is open: given
// again, as the answer says is safe, it would start that operation a second time (L1).
func TestLawsNoAnswerHandsOutANewRef(t *testing.T) {
	t.Run("the store cannot list", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &lawsFailingList{Store: new(toolexec.MemoryStore)}
			x := toolexec.Executor{Store: store}
			var runs atomic.Int64
			charge := toolexec.Bind(&x, lawsTool(&runs, func(context.Context, int) (string, error) { return "", toolexec.InDoubt(nil) }))
			charge.Call(t.Context(), lawsIn{})
			store.fails = true
			e := charge.Call(t.Context(), lawsIn{})
			store.fails = false
			charge.Call(toolexec.WithOperationRef(t.Context(), e.OperationRef), lawsIn{})
			require.EqualValues(t, 1, runs.Load(), "%s", e.Code)
		})
	})
	t.Run("it waited for an equal call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			var runs atomic.Int64
			charge := toolexec.Bind(&x, lawsTool(&runs, func(context.Context, int) (string, error) {
				time.Sleep(1500 * time.Millisecond)
				return "receipt", nil
			}))
			go charge.Call(t.Context(), lawsIn{})
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			e := charge.Call(ctx, lawsIn{})
			time.Sleep(time.Minute)
			charge.Call(toolexec.WithOperationRef(t.Context(), e.OperationRef), lawsIn{})
			require.EqualValues(t, 1, runs.Load(), "%s %s", e.Code, e.NextAction)
		})
	})
	t.Run("its Cooperative tool ended the goroutine", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			var runs atomic.Int64
			tool := lawsTool(&runs, func(context.Context, int) (string, error) { runtime.Goexit(); return "", nil })
			tool.Cooperative = true
			toolexec.Bind(&x, tool)
			call := toolexec.Call{Name: "charge", Arguments: json.RawMessage(`{"intent":1,"note":"","secret":""}`)}
			call.OperationRef = x.ExecuteAll(t.Context(), []toolexec.Call{call})[0].OperationRef
			x.ExecuteAll(t.Context(), []toolexec.Call{call})
			require.EqualValues(t, 1, runs.Load())
		})
	})
}

// The lease of an owner that runs is extended for as long as it runs (no deadline, or Cooperative): another process would
// take the attempt for lost, see nothing after the settle window and send again while the first can still send (L1).
func TestLawsRunningOwnerKeepsItsLease(t *testing.T) {
	for _, cooperative := range []bool{false, true} {
		t.Run(fmt.Sprint("cooperative ", cooperative), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := lawsHidden{new(toolexec.MemoryStore)}
				var first, second toolexec.Executor
				first.Store, second.Store = store, store
				var runs, effects atomic.Int64
				tool := lawsTool(&runs, func(_ context.Context, n int) (string, error) {
					if n == 1 {
						time.Sleep(2 * time.Minute)
					}
					effects.Add(1)
					return "receipt", nil
				})
				if tool.Cooperative = cooperative; !cooperative {
					tool.Policy = toolexec.Policy{Deadline: -1, TotalDeadline: -1}
				}
				tool.Verify = &toolexec.Verifier[lawsIn, string]{Authoritative: true, Lookup: func(context.Context, string, lawsIn) (toolexec.Finding[string], error) {
					if effects.Load() > 0 {
						return toolexec.Found("receipt"), nil
					}
					return toolexec.Absent[string](), nil
				}}
				ctx := toolexec.WithOperationRef(t.Context(), "a")
				here, there := toolexec.Bind(&first, tool), toolexec.Bind(&second, tool)
				go here.Call(ctx, lawsIn{})
				for range 6 {
					time.Sleep(16 * time.Second)
					bounded, cancel := context.WithTimeout(ctx, time.Second)
					there.Call(bounded, lawsIn{})
					cancel()
				}
				time.Sleep(10 * time.Minute)
				require.EqualValues(t, 1, effects.Load())
			})
		})
	}
}

// A member that the schema does not know is model text: field_errors name it, and safe_details and both messages do not
// (L6).
func TestLawsUndeclaredNamesStayOut(t *testing.T) {
	var x toolexec.Executor
	var runs atomic.Int64
	toolexec.Bind(&x, lawsTool(&runs, func(context.Context, int) (string, error) { return "", nil }))
	e := x.Execute(t.Context(), toolexec.Call{Name: "charge", Arguments: json.RawMessage(`{"intent":0,"note":"","secret":"","CANARY":1}`)})
	require.Equal(t, toolexec.CodeInvalidArguments, e.Code)
	require.Len(t, e.FieldErrors, 1)
	require.Equal(t, "/"+lawsCanary, e.FieldErrors[0].Pointer)
	require.NotContains(t, fmt.Sprint(e.SafeDetails), lawsCanary)
	require.NotContains(t, e.AgentMessage, lawsCanary)
	require.NotContains(t, e.UserMessage, lawsCanary)
}

// After a read failed with an instant that the remote side gave, it is not read again before (L5).
func TestLawsReadWaitsAsTheRemoteSideWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var runs atomic.Int64
		tool := lawsTool(&runs, func(context.Context, int) (string, error) {
			f := toolexec.Rejected(toolexec.CodeRateLimited, nil)
			f.RetryAfter = 20 * time.Second
			return "", f
		})
		tool.Effect = toolexec.ReadOnly
		search := toolexec.Bind(&x, tool)
		until := search.Call(t.Context(), lawsIn{}).Retry.NotBefore
		time.Sleep(time.Second)
		require.True(t, until.Equal(search.Call(t.Context(), lawsIn{}).Retry.NotBefore))
		require.EqualValues(t, 1, runs.Load())
	})
}

// lawsHangingStore answers one method only when its context ends, or after an hour.
type lawsHangingStore struct {
	toolexec.Store
	hangs string
}

func (s *lawsHangingStore) hang(ctx context.Context, method string) error {
	if method != s.hangs {
		return nil
	}
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	select {
	case <-t.C:
		return errLawsStore
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *lawsHangingStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	if err := s.hang(ctx, "Save"); err != nil {
		return toolexec.Record{}, err
	}
	return s.Store.Save(ctx, r)
}

func (s *lawsHangingStore) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	if err := s.hang(ctx, "List"); err != nil {
		return nil, toolexec.Cursor{}, err
	}
	return s.Store.List(ctx, q)
}

// Store calls before the first attempt are bounded by the total deadline, not by the caller's context alone: a store that
// hangs must not hold its caller beyond it (L4).
func TestLawsHangingStoreEndsInTime(t *testing.T) {
	for _, method := range []string{"Save", "List"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := toolexec.Executor{Store: &lawsHangingStore{new(toolexec.MemoryStore), method}}
				var runs atomic.Int64
				charge := toolexec.Bind(&x, lawsTool(&runs, func(context.Context, int) (string, error) { return "", nil }))
				began := time.Now()
				e := charge.Call(t.Context(), lawsIn{})
				require.LessOrEqual(t, time.Since(began), toolexec.DefaultTotalDeadline+2*time.Second, "%s", e.Code)
				require.EqualValues(t, 0, runs.Load())
			})
		})
	}
}
