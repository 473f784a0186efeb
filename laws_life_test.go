package toolexec_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolexec/toolexec"
)

// lawsRun is one run of the world.
type lawsRun struct {
	*lawsWorld
	t       testing.TB
	procs   []*lawsProcess // protected by mu
	plans   [][]*lawsPlan  // by agent; each its own agent's until all have ended
	pending sync.WaitGroup // calls, those that nobody waits for included
	over    chan struct{}
	leaders sync.WaitGroup // supervisors
	stop    context.CancelFunc
	life    context.Context //nolint:containedctx // of the supervisors
}

// live plays the schedule.
func (w *lawsWorld) live() {
	run := &lawsRun{lawsWorld: w, t: lawsTB{w: w}, over: make(chan struct{})}
	w.cast = run
	run.life, run.stop = context.WithCancel(context.Background())
	defer run.stop()
	r := w.stream("intents")
	for id := range 4 + r.IntN(6) {
		w.drawIntent(id, r)
	}
	var people, agents sync.WaitGroup
	for n := range w.cfg.procs {
		p := w.process(n, n)
		run.start(p)
		if p.kill.at > 0 {
			people.Go(func() { run.kill(p) })
		}
	}
	people.Go(run.operator)
	run.plans = make([][]*lawsPlan, w.cfg.agents)
	for n := range w.cfg.agents {
		agents.Go(func() { run.agent(n) })
	}
	agents.Wait()
	run.pending.Wait()
	close(run.over)
	people.Wait()
	run.recovered()
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
	w.locked(w.shown)
	if !w.cfg.faulty() {
		w.settleRecords()
	}
}

// settleRecords: with a store that never failed nothing is left in hand by a process that closed, and every success
// that a tool reported, however late, is a fact.
func (w *lawsWorld) settleRecords() {
	w.mu.Lock()
	defer w.mu.Unlock()
	page, _, err := w.base.List(context.Background(), toolexec.Query{Limit: 1000})
	if err != nil {
		w.broken("L9", "the store cannot list: %v", err)
	}
	killed := map[string]bool{}
	for _, p := range w.cast.procs {
		killed[p.owner()] = killed[p.owner()] || p.dead()
	}
	for _, rec := range page {
		if rec.State == toolexec.StateInFlight && (!killed[rec.Owner] || w.cfg.supervised) {
			w.broken("L9", "%s is still in flight for %s", rec.Ref, rec.Owner)
		}
		if len(w.cfg.kills) == 0 && slices.ContainsFunc(rec.Unresolved, func(u toolexec.Unresolved) bool { return u.Alive }) {
			w.broken("L9", "%s has an attempt that is taken for alive", rec.Ref)
		}
		for _, d := range w.dispatches[rec.Key] {
			if d.success && !d.proc.dead() && rec.State != toolexec.StateCommitted {
				w.broken("L9", "%s is %s although dispatch %d succeeded", rec.Ref, rec.State, d.seq)
			}
		}
	}
}

// process makes process n, which goes by the name of the one that it replaces.
func (w *lawsWorld) process(n, name int) *lawsProcess {
	p := &lawsProcess{
		n: n, name: name, tools: map[string]*toolexec.Bound[lawsIn, any]{}, killed: make(chan struct{}),
		began: time.Now(), lasts: 4*time.Second - w.cfg.slip(),
	}
	if n < len(w.cfg.kills) {
		p.kill = w.cfg.kills[n]
	}
	p.x = &toolexec.Executor{Observer: lawsObserver{w, p}, Owner: p.owner(), RetryBudget: w.cfg.budget}
	s := lawsStore{w, p}
	switch {
	case !w.cfg.leased:
		p.x.Store = lawsVolatileStore{s}
	case w.cfg.claims:
		p.x.Store = lawsClaimingStore{s}
	default:
		p.x.Store = s
	}
	if w.cfg.oddClassifier {
		p.x.Classifiers = []toolexec.Classifier{func(error) (toolexec.Failure, bool) { panic(lawsCanary + "-classifier") }}
	}
	w.bind(p)
	return p
}

// owner is how records name p.
func (p *lawsProcess) owner() string { return fmt.Sprint("p", p.name) }

func (w *lawsWorld) drawIntent(id int, r *rand.Rand) {
	i := &lawsIntent{id: id, spec: lawsPick(r, w.cfg.tools...), scope: lawsPick(r, "", "tenant"), run: lawsPick(r, "", "run_1", "run_2")}
	switch {
	case i.spec.ref:
		i.poison = r.IntN(8) == 0
	case r.IntN(2) == 0:
		i.ref = fmt.Sprintf("run/step_%d", id)
		if id > 0 && r.IntN(4) == 0 {
			i.ref = fmt.Sprintf("run/step_%d", r.IntN(id)) // another operation has it, perhaps
		}
	}
	if i.ref == "" && !i.spec.ref && w.rerunsAll() { // who repeats it without a ref does not know of the second run
		i.plural = true
	}
	w.intents = append(w.intents, i)
}

// kill lets p die in its time, or when it uses its store, whichever is first, and another take its place.
func (r *lawsRun) kill(p *lawsProcess) {
	t := time.NewTimer(p.kill.at)
	defer t.Stop()
	select {
	case <-t.C:
		r.die(p)
	case <-p.killed:
	case <-r.over:
		return
	}
	if p.kill.restart > 0 {
		time.Sleep(p.kill.restart)
		r.start(r.process(r.cfg.procs+p.n, p.name))
	}
}

// die ends p between two of its steps; false when it is dead.
func (w *lawsWorld) die(p *lawsProcess) bool {
	p.mu.Lock()
	dead, uses := p.dead(), p.uses
	if !dead {
		p.killedAt = time.Now()
		close(p.killed)
	}
	p.mu.Unlock()
	if !dead {
		w.locked(func() {
			w.log("p%d is killed, after %d uses of its store", p.n, uses)
			w.meet("a kill")
		})
	}
	return !dead
}

// start lets a process live, and its supervisor, if it has one.
func (r *lawsRun) start(p *lawsProcess) {
	r.locked(func() { r.procs = append(r.procs, p); r.log("p%d starts", p.n) })
	if r.cfg.supervised {
		r.lead(p, r.cfg.supervisors[p.name])
	}
}

// living returns a process that was not killed, once there is one.
func (r *lawsRun) living(rng *rand.Rand) *lawsProcess {
	for {
		r.mu.Lock()
		alive := slices.DeleteFunc(slices.Clone(r.procs), (*lawsProcess).dead)
		r.mu.Unlock()
		if len(alive) > 0 {
			return lawsPick(rng, alive...)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
