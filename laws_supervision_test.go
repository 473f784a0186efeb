package toolexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/toolexec/toolexec"
)

// Supervisors, those who wait instead of repeating, and agents that ask what became of their operations.

// rerunsAll reports whether something may run again that is called without a ref.
func (w *lawsWorld) rerunsAll() bool {
	return slices.ContainsFunc(w.cfg.supervisors, func(s lawsSupervision) bool { return s.rerun == lawsRerunsAll })
}

// lawsActor is who drives operations beside the callers of tools: a pass or a Run of a supervisor, one who waits,
// verify_operation.
type lawsActor struct {
	name  string
	p     *lawsProcess
	rerun lawsRerun
	began time.Time
	seq   int  // dispatches before it
	waits bool // Supervisor.Wait
	asks  bool // verify_operation

	// Protected by the world.
	allowed map[lawsKey]bool // what Rerun said of it last
	nonces  map[string]bool  // its own ownerships
	loaded  toolexec.Record  // last
	exited  bool             // a Cooperative tool ended its goroutine
}

type lawsActorKey struct{}

func lawsActorOf(ctx context.Context) *lawsActor {
	a, _ := ctx.Value(lawsActorKey{}).(*lawsActor)
	return a
}

func (r *lawsRun) actor(kind string, p *lawsProcess, rerun lawsRerun) *lawsActor {
	a := &lawsActor{p: p, rerun: rerun, began: time.Now(), allowed: map[lawsKey]bool{}, nonces: map[string]bool{}}
	r.locked(func() {
		r.actors++
		a.name, a.seq = fmt.Sprintf("%s %d of p%d", kind, r.actors, p.n), r.seq
	})
	return a
}

// supervisor makes a's Supervisor, and the context in which it is known.
func (r *lawsRun) supervisor(ctx context.Context, a *lawsActor) (*toolexec.Supervisor, context.Context) {
	s := &toolexec.Supervisor{Executor: a.p.x, OnSettled: func(ctx context.Context, s toolexec.Settled) { r.told(a, s) }}
	if a.rerun != lawsRerunsNone {
		s.Rerun = func(rec toolexec.Record) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			ok := a.rerun == lawsRerunsAll || !strings.HasPrefix(rec.Ref, "op_") && r.stream("rerun", a.p.n, rec.Key, rec.Version).IntN(2) == 0
			a.allowed[rec.Key] = ok
			r.log("%s: may run %s v%d again: %t", a.name, rec.Ref, rec.Version, ok)
			return ok
		}
	}
	return s, context.WithValue(ctx, lawsActorKey{}, a)
}

// lead gives a process its supervisor for life.
func (r *lawsRun) lead(p *lawsProcess, of lawsSupervision) {
	if of.none {
		return
	}
	ctx, cancel := context.WithCancel(r.life)
	r.leaders.Go(func() {
		defer cancel()
		select {
		case <-p.killed:
		case <-ctx.Done():
		}
		if !p.kill.stops {
			<-r.life.Done()
		}
	})
	r.leaders.Go(func() {
		if of.runs {
			s, ctx := r.supervisor(ctx, r.actor("run", p, of.rerun))
			s.Every, s.Workers = of.every, of.workers
			if err := s.Run(ctx); err != nil || ctx.Err() == nil {
				r.locked(func() { r.broken("L7", "Run of p%d ended with %v", p.n, err) })
			}
			return
		}
		rng := r.stream("passes", p.n)
		for lawsSleeps(ctx, time.Duration(1+rng.IntN(12_000))*time.Millisecond) {
			r.pass(ctx, p, of)
		}
	})
}

func lawsSleeps(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pass is one Recover.
func (r *lawsRun) pass(ctx context.Context, p *lawsProcess, of lawsSupervision) {
	s, ctx := r.supervisor(ctx, r.actor("pass", p, of.rerun))
	s.Workers = of.workers
	done, err := s.Recover(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case done.Due != done.Settled+done.Open+done.Unbound+done.Failed:
		r.broken("L7", "a pass does not add up: %+v", done)
	case done.Unbound > 0:
		r.broken("L7", "every tool is bound, and a pass says %+v", done)
	case !r.cfg.faulty() && !p.dead() && (ctx.Err() == nil && err != nil || done.Failed > 0):
		r.broken("L7", "a pass fails on a sound store: %+v, %v", done, err)
	}
}

// acted checks what an actor's save did. Called with mu held.
func (w *lawsWorld) acted(a *lawsActor, was, is *toolexec.Record) {
	held := is.State == toolexec.StateAwaitingApproval && was.Approval != nil && was.Approval.Decision != "" && is.Approval.Decision == "" // anew
	if (is.State != was.State || held) && is.State != toolexec.StateInFlight && is.State != toolexec.StateUnknown {
		w.settled[is.Key] = append(w.settled[is.Key], &lawsSettlement{version: is.Version, at: time.Now(), by: a, from: was.State, rec: *is})
	}
	if a == nil {
		return
	}
	if is.State == toolexec.StateInFlight && is.Nonce != was.Nonce {
		w.mayRunAgain(a, was, is)
		a.nonces[is.Nonce] = true
	}
}

// mayRunAgain: only Rerun lets a supervisor run what was released or approved; what is unknown it sends again where the
// remote side deduplicates. Called with mu held.
func (w *lawsWorld) mayRunAgain(a *lawsActor, was, is *toolexec.Record) {
	switch was.State {
	case toolexec.StateReleased, toolexec.StateAwaitingApproval:
		if !a.asks && (a.allowed[is.Key] || a.nonces[was.Nonce] || a.waits && a.rerun == lawsRerunsNone) {
			return
		}
	case toolexec.StateUnknown, toolexec.StateInFlight:
		if !a.asks && (is.Effect == toolexec.Idempotent || is.MarksSent || a.nonces[was.Nonce]) {
			return
		}
	}
	w.broken("L7", "%s runs %s, which was %s, although nobody let it", a.name, is.Ref, was.State)
}

// lawsSettlement is a save that brought an operation to an end, or to where others must go on.
type lawsSettlement struct {
	version int64
	at      time.Time
	by      *lawsActor // nil: a caller or a person
	from    toolexec.State
	rec     toolexec.Record
	tells   []*lawsActor
}

// told checks what OnSettled says.
func (r *lawsRun) told(a *lawsActor, s toolexec.Settled) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log("%s: %s v%d is settled: %s, %s", a.name, s.Record.Ref, s.Record.Version, s.Record.State, s.Envelope.CommitState)
	var of *lawsSettlement
	for _, one := range r.settled[s.Record.Key] {
		if one.version <= s.Record.Version {
			of = one
		}
	}
	switch {
	case of == nil || of.rec.State != s.Record.State:
		r.broken("L7", "%s is told that %s is %s, and no save made it so", a.name, s.Record.Ref, s.Record.State)
		return
	case s.Envelope.CommitState != s.Record.CommitState():
		r.broken("L7", "%s: the record of %s says %s and its envelope %s", a.name, s.Record.Ref, s.Record.CommitState(), s.Envelope.CommitState)
	case len(of.tells) > 0:
		r.broken("L7", "%s is told that %s v%d is %s, and so was %s", a.name, s.Record.Ref, of.version, of.rec.State, of.tells[0].name)
	}
	of.tells = append(of.tells, a)
	r.holds(a.name, s.Record.Key, &s.Envelope, of.at, 0)
}

// holds compares what is said of an operation with the ledger: began is when it was asked, and dispatches up to before
// are meant by it. Called with mu held.
func (w *lawsWorld) holds(who string, key lawsKey, e *lawsAnswer, began time.Time, before int) {
	was, known := w.final[key]
	known = known && was.at.Before(began)
	switch e.CommitState {
	case toolexec.Committed:
		if !w.hasEffect(key, "") {
			w.broken("L2", "%s: committed, the ledger has nothing for %s", who, key.Ref)
		}
		w.isFinal(key, e.Unrecorded)
	case toolexec.NotCommitted:
		if known {
			w.broken("L3", "%s: %s was committed, now it is not", who, key.Ref)
		}
		w.claim(lawsClaim{key, "", before, nil, who})
	default:
		if known && !was.unrecorded && !w.cfg.faulty() {
			w.broken("L3", "%s: %s was committed, now it is unknown", who, key.Ref)
		}
	}
}

// isFinal is called with mu held.
func (w *lawsWorld) isFinal(key lawsKey, unrecorded bool) {
	if _, known := w.final[key]; !known {
		w.final[key] = lawsFact{time.Now(), unrecorded}
	}
}

// confirmed: where a success has to be, a look-up found the effect, the tool marked it, or a person said so. Called with
// mu held.
func (w *lawsWorld) confirmed(key lawsKey, spec *lawsSpec) {
	if !spec.confirm {
		return
	}
	marked := slices.ContainsFunc(w.dispatches[key], func(d *lawsDispatch) bool { return d.success })
	found := slices.ContainsFunc(w.lookups[key], func(l lawsLookup) bool { return !l.absent })
	rec, err := w.base.Load(context.Background(), key)
	person := err == nil && rec.Verification != nil && rec.Verification.Source == toolexec.SourceOperator
	if !marked && !found && !person {
		w.broken("L2", "%s is said to be committed, and nothing has confirmed it", key.Ref)
	}
}

// mayLookUp: an agent's question never asks the remote side before the time. Called with mu held.
func (w *lawsWorld) mayLookUp(ctx context.Context, key lawsKey) {
	if a := lawsActorOf(ctx); a != nil && a.asks {
		if early := a.loaded.DueAt().Time().Sub(w.now()); early > w.cfg.slack() {
			w.broken("L5", "%s looks %s up %v before it is due", a.name, key.Ref, early)
		}
	}
}

// agents that do not repeat ---------------------------------------------------------------

// awaits waits for an operation, or asks about it, instead of repeating the call; false when the agent does neither.
func (r *lawsRun) awaits(rng *rand.Rand, plan *lawsPlan, a *lawsAnswer) bool {
	if !plan.intent.spec.writes() || a.OperationRef == "" {
		return false
	}
	key := lawsKey{Scope: plan.intent.scope, Ref: a.OperationRef}
	switch rng.IntN(6) {
	case 0, 1:
		plan.ref, plan.waited = a.OperationRef, true // it may be run again, so it must be named from now on
		return r.wait(rng, plan, key)
	case 2:
		r.verify(rng, plan, key)
	}
	return false
}

// wait calls Supervisor.Wait; true when that brought the operation to an end.
func (r *lawsRun) wait(rng *rand.Rand, plan *lawsPlan, key lawsKey) bool {
	p := r.living(rng)
	a := r.actor("wait", p, lawsPick(rng, lawsRerunsNone, lawsRerunsNone, lawsRerunsAll, lawsRerunsNamed))
	a.waits = true
	patience := time.Duration(rng.IntN(60_000)) * time.Millisecond
	c := &lawsCall{intent: plan.intent, scope: key.Scope, proc: p, began: a.began, waits: true}
	r.locked(func() { r.log("%s for %s, patience %v", a.name, key.Ref, patience) })
	over := make(chan bool, 1)
	r.pending.Go(func() {
		defer close(over)
		s, ctx := r.supervisor(context.WithValue(context.Background(), lawsCallsKey{}, []*lawsCall{c}), a)
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		answered := false
		defer func() {
			r.locked(func() {
				if !answered && !a.exited && !r.failedNow() {
					r.broken("L4", "%s has no envelope", a.name)
				}
			})
		}()
		e, err := s.Wait(ctx, key)
		answered = true
		over <- r.waited(ctx, c, a, key, &e, err)
	})
	select {
	case ended := <-over:
		return ended
	case <-p.killed:
		return false
	}
}

// waited checks what Wait said; true when it was an end.
func (r *lawsRun) waited(ctx context.Context, c *lawsCall, a *lawsActor, key lawsKey, e *lawsAnswer, err error) bool {
	if e.Code == "" { // there is none
		r.locked(func() {
			if err == nil || !r.cfg.faulty() && !a.p.dead() && !errors.Is(err, toolexec.ErrNotFound) {
				r.broken("L4", "%s ends with %v and no envelope", a.name, err)
			}
		})
		return false
	}
	if err != nil && ctx.Err() == nil {
		r.locked(func() { r.broken("L4", "%s ends with %v", a.name, err) })
	}
	lawsAnswered(r, c, e, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log("%s: %s %s %s, %v", a.name, e.Code, e.CommitState, e.NextAction, err)
	if e.OperationRef != key.Ref {
		r.broken("L4", "%s for %s is answered about %s", a.name, key.Ref, e.OperationRef)
	}
	r.holds(a.name, key, e, a.began, a.seq)
	if e.CommitState == toolexec.NotCommitted {
		for _, d := range r.dispatches[key] { // its own are meant too
			if d.actor == a && d.effect {
				r.broken("L2", "%s: not_committed, and its own dispatch %d has an effect", a.name, d.seq)
			}
		}
	}
	if err == nil && e.CommitState == toolexec.CommitUnknown && e.NextAction != toolexec.NextEscalate {
		r.broken("L7", "%s ends although %s is open: %s", a.name, key.Ref, e.NextAction)
	}
	return err == nil
}

// verify asks with the tool that agents have for it.
func (r *lawsRun) verify(rng *rand.Rand, plan *lawsPlan, key lawsKey) {
	p := r.living(rng)
	a := r.actor("question", p, lawsRerunsNone)
	a.asks = true
	ctx := context.WithValue(context.Background(), lawsActorKey{}, a)
	e := p.x.Execute(ctx, toolexec.Call{
		Name: toolexec.VerifyOperationTool, Arguments: json.RawMessage(fmt.Sprintf(`{"operation_ref":%q}`, key.Ref)), Scope: key.Scope, RunID: plan.intent.run,
	})
	lawsAnswered(r, nil, &e, 1)
	if !e.OK {
		return
	}
	var status toolexec.OperationStatus
	if err := json.Unmarshal(e.Result, &status); err != nil {
		r.t.Errorf("%s: %v", a.name, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log("%s: %s is %s, %s, known %t", a.name, key.Ref, status.CommitState, status.NextAction, status.Known)
	if !status.Known {
		if status.CommitState != toolexec.CommitUnknown {
			r.broken("L2", "%s: nothing is known of %s, which is said to be %s", a.name, key.Ref, status.CommitState)
		}
		return
	}
	if status.CommitState == toolexec.Committed { // the agent has heard of it, and goes on by its ref
		plan.done, plan.ref = true, key.Ref
	}
	r.holds(a.name, key, &lawsAnswer{CommitState: status.CommitState}, a.began, a.seq)
}

// what is left --------------------------------------------------------------------------------

// recovered: the faults stop. Supervisors bring everything to an end, the agents make every unfinished call again, with
// its ref and without, and once more everything comes to an end.
func (r *lawsRun) recovered() {
	r.locked(func() { r.calm = true; r.log("the faults stop") })
	if !r.cfg.supervised {
		r.stop()
		return
	}
	r.recoverAll()
	for n, plans := range r.plans {
		for i, plan := range plans {
			if name := fmt.Sprintf("again%d.%d", n, i); !plan.done && r.cfg.has(name) {
				r.again(name, plan)
			}
		}
	}
	r.pending.Wait()
	r.recoverAll()
	r.stop()
	r.leaders.Wait()
	r.locked(r.toldAll)
}

// again makes an unfinished call once more, with its ref and without.
func (r *lawsRun) again(name string, plan *lawsPlan) {
	rng := r.stream(name)
	if a := r.issue(name, rng, plan); a != nil {
		r.learn(rng, plan, a)
	}
	if plan.ref != "" && !plan.waited && !plan.done && plan.intent.ref == "" {
		plan.ref = ""
		r.issue(name+".unnamed", rng, plan)
	}
}

// recoverAll lets every process that lives take passes until nothing is open, or that can be taken for never.
func (r *lawsRun) recoverAll() {
	var open []toolexec.Record
	var before, versions int64
	for range 300 {
		for _, p := range slices.Clone(r.procs) {
			if !p.dead() {
				r.pass(context.Background(), p, r.cfg.supervisors[p.name])
			}
		}
		page, _, err := r.base.List(context.Background(), toolexec.Query{
			States: []toolexec.State{toolexec.StateInFlight, toolexec.StateUnknown}, Limit: 1000,
		})
		if err != nil {
			r.t.Errorf("%v", err)
			return
		}
		if open = page; len(open) == 0 {
			return
		}
		next := time.Minute
		for _, rec := range open {
			if versions += rec.Version; rec.State == toolexec.StateInFlight && rec.LeaseUntil.IsZero() {
				continue
			}
			if due := rec.DueAt(); !due.IsZero() {
				next = min(next, max(due.Time().Sub(rec.Now), 0)+100*time.Millisecond)
			}
		}
		if versions == before { // a claim that was left holds it
			next = max(next, 5*time.Second)
		}
		before, versions = versions, 0
		time.Sleep(next)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range open {
		if rec.State == toolexec.StateInFlight && !r.cfg.leased && r.cfg.faulty() {
			continue // a store without leases that fails is a known rough edge
		}
		r.broken("L7", "%s is still %s, due %s, attempts %d, checks %d, open attempts %v", rec.Ref, rec.State, rec.DueAt(), rec.Attempts, rec.Checks, rec.Unresolved)
	}
}

// toldAll: of what a pass looked up to an end, it told. Called with mu held.
func (w *lawsWorld) toldAll() {
	for key, list := range w.settled {
		for _, s := range list {
			if s.by == nil || s.by.waits || s.by.asks || s.by.p.dead() || w.cfg.faulty() || len(s.tells) > 0 || len(s.rec.History) == 0 {
				continue
			}
			ends := s.rec.State == toolexec.StateCommitted || s.rec.State == toolexec.StateEscalated // what is released may go on by itself
			if event := s.rec.History[len(s.rec.History)-1].Event; ends && strings.HasPrefix(event, "look-up") {
				w.broken("L7", "nobody was told that %s brought %s to be %s", s.by.name, key.Ref, s.rec.State)
			}
		}
	}
}
