package toolexec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/toolexec/toolexec"
)

// lawsPlan is what one agent knows of one intent.
type lawsPlan struct {
	intent *lawsIntent
	ref    string // to be given on the next call
	note   string
	done   bool
	doubt  bool // an answer was unknown
	waited bool // it was waited for, so it goes by its ref
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
	r.plans[n] = plans
	for step := range 3 * len(plans) {
		name := fmt.Sprintf("agent%d.%d", n, step)
		if !r.cfg.has(name) {
			continue
		}
		rng := r.stream(name)
		r.rest(rng, time.Duration(rng.IntN(3000))*time.Millisecond)
		r.pursue(name, rng, lawsPick(rng, plans...))
		if rng.IntN(8) == 0 && r.cfg.has(name, ".nonsense") {
			r.nonsense(rng)
		}
	}
}

// pursue calls for one intent until it has an answer it is content with, or gives up for now.
func (r *lawsRun) pursue(name string, rng *rand.Rand, plan *lawsPlan) {
	for n := range 1 + rng.IntN(4) {
		if n > 0 {
			name := fmt.Sprintf("%s.%d", name, n)
			if !r.cfg.has(name) {
				return
			}
		}
		a := r.issue(fmt.Sprintf("%s.%d", name, n), rng, plan)
		if a == nil { // crashed, or gave up waiting: it plans the same step again
			continue
		}
		r.learn(rng, plan, a)
		if a.OK && rng.IntN(3) > 0 {
			return
		}
		if !r.cfg.supervised || !a.OK && !r.awaits(r.stream("waiter", name, n), plan, a) {
			r.heed(rng, plan, a)
		}
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
	if plan.ref = a.OperationRef; !plan.done && !plan.waited && rng.IntN(2) == 0 {
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
		r.rest(rng, time.Duration(rng.IntN(500))*time.Millisecond)
	case wait > 0:
		r.rest(rng, min(wait, 2*time.Minute))
	default:
		r.rest(rng, time.Duration(rng.IntN(5000))*time.Millisecond)
	}
}

// rest is a pause of an agent. Where agents may not wake at one moment, which makes a schedule take the same turns when it is
// played again, each pause is a little longer than another.
func (r *lawsRun) rest(rng *rand.Rand, d time.Duration) {
	if further := time.Duration(1 + rng.IntN(1_000_000)); !r.cfg.together {
		d += further
	}
	time.Sleep(d)
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
	waits   bool               // it is Supervisor.Wait, or verify_operation
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
	if plan.doubt && c.unnamed() && c.ref == "" && r.cfg.faulty() {
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
		if rec, err := w.base.Load(context.Background(), key); err == nil && rec.IsOpen() {
			c.open[key] = rec.Nonce
		}
	}
}

// issue makes one call, in one of several ways, and returns nil when the agent did not wait for its answer.
func (r *lawsRun) issue(name string, rng *rand.Rand, plan *lawsPlan) *lawsAnswer {
	p := r.living(rng)
	c := r.newCall(p, plan)
	ctx, cancel := context.WithCancel(context.Background())
	hurry, after := rng.IntN(8), time.Duration(rng.IntN(4000))*time.Millisecond
	if c.hurried = hurry < 2 && r.cfg.has(name, ".hurry"); c.hurried {
		if hurry == 0 {
			time.AfterFunc(after, cancel)
		} else {
			ctx, cancel = context.WithTimeout(ctx, after) // the parent ends with the bubble
		}
	}
	way, patience := rng.IntN(4), time.Hour
	lawsKeep(r.cfg.lawsParts, &way, 0, name, ".way")
	if rng.IntN(6) == 0 {
		patience = time.Duration(rng.IntN(5000)) * time.Millisecond
		lawsKeep(r.cfg.lawsParts, &patience, time.Hour, name, ".patience")
	}
	leave := rng.IntN(2) == 0
	batch := r.stream("batch", name)
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
		if p.dead() { // it may not know what it stored last
			r.locked(c.unheard)
		}
		return a
	case <-killed:
	case <-timer.C:
	}
	r.locked(c.unheard)
	return nil
}

// unheard: planned again without a ref after it succeeded unheard, it is another wish. Called with the world's mu held.
func (c *lawsCall) unheard() {
	if c.unnamed() {
		c.intent.plural = true
	}
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
	switch rng.IntN(6) {
	case 0:
		call.OperationRef = "not a ref " + lawsCanary
	case 1: // it is sound, and not the caller's to use
		call.Arguments, call.Allowed = json.RawMessage(`{"intent":0,"note":"a","secret":"CANARY"}`), lawsPick(rng, []string{}, []string{"another"})
	}
	e := x.Execute(context.Background(), call)
	r.locked(func() {
		if e.OK {
			r.broken("L4", "nonsense was carried out: %s", bad)
		}
	})
	lawsAnswered(r, nil, &e, 1)
}
