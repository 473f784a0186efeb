package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// errKilled is what a process gets for its requests after it died. Nobody sees
// it.
var errKilled = errors.New("the process is dead")

// world is one scenario under one contender: an agent, the processes that its
// calls are delivered to, and the remote side.
type world struct {
	*scenario
	contender *contender
	began     time.Time
	ledger    toolexectest.Ledger
	store     toolexec.MemoryStore // on a disk, as far as processes are concerned
	over      chan struct{}        // closed when all has been told
	running   sync.WaitGroup       // calls, also of processes that died, and requests under way

	operations []*operation

	mu      sync.Mutex // protects what follows
	current *host
	hosts   []*host
}

// host is a process that runs the agent's calls.
type host struct {
	w        *world
	session  session
	dead     chan struct{} // closed when it dies
	replaced chan struct{} // closed when another runs in its place
}

// request is an attempt's request to the remote side.
type request struct {
	from *host
	key  string // for deduplication and look-ups; "" when there is none
	sent time.Time
}

// live lets a world live and judges it. It must run in a bubble.
func live(ctx context.Context, s *scenario, c *contender, dedupes bool) []outcome {
	w := newWorld(s, c, dedupes)
	w.live(ctx)
	return w.judge()
}

func newWorld(s *scenario, c *contender, dedupes bool) *world {
	w := &world{scenario: s, contender: c, began: time.Now(), over: make(chan struct{})}
	w.ledger.Dedupe, w.ledger.Lag = dedupes, s.lag
	w.want(s.steps, s.crash)
	if s.twin > 0 {
		w.want(nil, noCrash)
	}
	return w
}

func (w *world) live(ctx context.Context) {
	w.current = w.start()
	var agents sync.WaitGroup
	for _, o := range w.operations {
		agents.Go(func() {
			time.Sleep(time.Duration(o.n) * w.twin)
			o.began = time.Now()
			o.pursue(ctx)
		})
	}
	if w.redelivered > 0 {
		agents.Go(func() { w.redeliver(ctx) })
	}
	agents.Wait()
	w.end(ctx)
}

// want adds an operation.
func (w *world) want(steps []toolexectest.Fault, crash crash) {
	steps = append([]toolexectest.Fault(nil), steps...)
	for len(steps) < maxAttempts {
		steps = append(steps, travelling(toolexectest.OK()))
	}
	o := &operation{n: len(w.operations), w: w, plan: toolexectest.Script(steps...), crash: crash, refs: map[string]bool{}}
	o.news = make(chan answer, maxAttempts)
	o.send = toolexectest.Wrap(o.plan, o.arrive)
	w.operations = append(w.operations, o)
}

// start starts a process.
func (w *world) start() *host {
	h := &host{w: w, dead: make(chan struct{}), replaced: make(chan struct{})}
	h.session = w.contender.start(h)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts = append(w.hosts, h)
	return h
}

// host waits for the process that takes calls to be up, and a moment of o's own,
// so that no two calls are made at one instant.
func (o *operation) host() *host {
	for {
		o.w.mu.Lock()
		h := o.w.current
		o.w.mu.Unlock()
		if !h.isDead() {
			return h
		}
		<-h.replaced
		time.Sleep(o.w.thinks[o.n][0])
	}
}

// redeliver delivers the first call once more, as a queue does that promises
// delivery at least once. Nobody waits for that answer.
func (w *world) redeliver(ctx context.Context) {
	time.Sleep(w.redelivered)
	o := w.operations[0]
	h := o.host()
	if w.elsewhere {
		h = w.start()
	}
	h.deliver(ctx, o, o.call(1))
}

// end ends what still runs.
func (w *world) end(ctx context.Context) {
	close(w.over)
	for _, h := range w.hosts {
		h.session.stop(ctx)
	}
	w.running.Wait()
	for _, o := range w.operations {
		o.plan.Wait()
	}
}

// settled takes note of what came to light without a call.
func (w *world) settled(a answer) {
	for _, o := range w.operations {
		if o.isNamed(a.ref) {
			o.hear(a)
			o.news <- a
		}
	}
}

// deliver runs a call of o, and reports whether the process lived to answer it.
func (h *host) deliver(ctx context.Context, o *operation, c call) (a answer, alive bool) {
	answered := make(chan answer, 1)
	ctx = context.WithValue(ctx, operationKey{}, o)
	h.w.running.Go(func() {
		defer func() { answered <- a }() // of a panic or Goexit: unknown
		defer func() { _ = recover() }()
		a = h.session.call(ctx, c)
	})
	select {
	case a := <-answered:
		return a, true
	case <-h.dead:
		return answer{}, false
	}
}

type operationKey struct{}

// tool is the function that every contender runs: one request under key.
func (h *host) tool(ctx context.Context, key string) (receipt, error) {
	if h.isDead() {
		<-h.w.over
		return receipt{}, errKilled
	}
	o, _ := ctx.Value(operationKey{}).(*operation)
	return o.send(ctx, request{from: h, key: key, sent: time.Now()})
}

func (h *host) isDead() bool {
	select {
	case <-h.dead:
		return true
	default:
		return false
	}
}

// die ends the process, but for what the world cannot end: its goroutines go on,
// and reach nothing.
func (h *host) die() {
	close(h.dead)
	h.w.running.Go(func() {
		time.Sleep(h.w.restart)
		next := h.w.start()
		h.w.mu.Lock()
		h.w.current = next
		h.w.mu.Unlock()
		close(h.replaced)
	})
}

// arrive is a request's arrival at the remote side.
func (o *operation) arrive(_ context.Context, r request) (receipt, error) {
	o.mu.Lock()
	crash := o.crash
	o.crash = noCrash
	o.mu.Unlock()
	switch crash {
	case noCrash:
		return o.effect(r), nil
	case crashUnderWay:
		o.w.running.Go(func() {
			time.Sleep(3 * time.Second)
			o.effect(r)
		})
	case crashAnswered:
		o.effect(r)
	}
	r.from.die()
	<-o.w.over
	return receipt{}, errKilled
}

// effect is what o is about, or the answer of an earlier request with its key.
func (o *operation) effect(r request) receipt {
	made, _ := o.w.ledger.Record(r.key, receipt{Operation: o.n, Sent: r.sent}).Value.(receipt)
	return made
}
