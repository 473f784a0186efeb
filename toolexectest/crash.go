package toolexectest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/toolexec/toolexec"
)

// ErrCrashed is what the code of a dead process gets where it would reach out.
// Nobody outside the process sees it.
var ErrCrashed = errors.New("toolexectest: the process has crashed")

// Point is where a [Process] dies. The zero Point is nowhere.
type Point string

// The points of an operation's life at which its process can die.
const (
	Nowhere Point = ""
	// BeforeRecord: nothing is recorded, nothing was sent.
	BeforeRecord Point = "before the record"
	// AfterRecord: the operation is recorded as in flight, nothing was sent.
	AfterRecord Point = "after the record"
	// BeforeSend: the tool is running, and has not sent yet.
	BeforeSend Point = "before the send"
	// AfterSend: the request is on its way. Its effect comes when the process is
	// dead; a tool that asks MarkSent is refused then and sends nothing, so it takes
	// BeforeAnswer instead.
	AfterSend Point = "after the send"
	// BeforeAnswer: the effect exists, and the answer is not read.
	BeforeAnswer Point = "before the answer"
	// BeforeResult: the tool has returned, and its result is not recorded.
	BeforeResult Point = "before the result is recorded"
	// AfterResult: the result is recorded, and its caller has not heard of it.
	AfterResult Point = "after the result is recorded"
)

// Points are all points at which a process can die, in the order of an
// operation's life.
func Points() []Point {
	return []Point{BeforeRecord, AfterRecord, BeforeSend, AfterSend, BeforeAnswer, BeforeResult, AfterResult}
}

// Process is one of several processes in a test. When it has died nothing of it
// reaches the store that they share, or the remote side, any more: give its
// executor the store of [Process.Store] and the tools of [InProcess]. What it may
// still compute nobody hears of; calls of it end with errors, so that no goroutine
// stays once its executor is closed, as that of any process. The zero Process lives until it is killed. Its methods are safe for
// concurrent use. It must not be copied.
type Process struct {
	// At is where it dies, when an operation first comes there. Set it before use.
	At Point

	late sync.WaitGroup

	mu       sync.Mutex // protects what follows
	dead     bool
	recorded bool // an operation was
	returned bool // a tool has
	calls    int
	running  map[int]context.CancelCauseFunc // by the number of the call
}

// Kill ends the process here and now.
func (p *Process) Kill() {
	p.mu.Lock()
	p.dead = true
	running := p.running
	p.running = nil
	p.mu.Unlock()
	for _, cancel := range running {
		cancel(ErrCrashed)
	}
}

// Dead reports whether the process has died.
func (p *Process) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// reach kills the process if this is where it dies, and reports whether it is
// dead.
func (p *Process) reach(at Point) (dead bool) {
	if at != Nowhere && p.At == at {
		p.Kill()
	}
	return p.Dead()
}

// Unfired says that the process has not come to where it dies.
func (p *Process) Unfired() []string {
	if p.At == Nowhere || p.Dead() {
		return nil
	}
	return []string{fmt.Sprintf("crash %s: no operation came there", p.At)}
}

// Check fails t if the process has not come to where it dies.
func (p *Process) Check(t testing.TB) {
	t.Helper()
	report(t, p.Unfired())
}

// Wait returns when what the process had sent has arrived.
func (p *Process) Wait() { p.late.Wait() }

// Store returns the way of this process to the store s, with the abilities of s
// except Volatile: what several processes share outlives each of them.
func (p *Process) Store(s toolexec.Store) toolexec.Store {
	c := callsOf(s)
	c.volatile = nil
	c.load, c.list = living(p, c.load), living(p, c.list)
	c.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) { return p.save(ctx, s, r) }
	livingAbility(p, &c.wait)
	livingAbility(p, &c.claim)
	livingAbility(p, &c.prune)
	livingAbility(p, &c.stats)
	return c.store()
}

// living lets f be called, and its answer be heard, while the process lives.
func living[In, Out any](p *Process, f func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (out Out, err error) {
		ctx, done, ok := p.begin(ctx)
		if !ok {
			return out, ErrCrashed
		}
		defer done()
		answer, err := f(ctx, in)
		if p.Dead() {
			return out, ErrCrashed
		}
		return answer, err
	}
}

// livingAbility leaves what a store cannot do as it is.
func livingAbility[In, Out any](p *Process, f *func(context.Context, In) (Out, error)) {
	if *f != nil {
		*f = living(p, *f)
	}
}

// begin counts a call among those whose context ends when the process dies; ok is
// false when it is dead already.
func (p *Process) begin(ctx context.Context) (_ context.Context, done func(), ok bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		cancel(ErrCrashed)
		return ctx, nil, false
	}
	if p.running == nil {
		p.running = make(map[int]context.CancelCauseFunc)
	}
	p.calls++
	n := p.calls
	p.running[n] = cancel
	return ctx, func() {
		p.mu.Lock()
		delete(p.running, n)
		p.mu.Unlock()
		cancel(nil)
	}, true
}

// save is a Save of s. The first one records an operation; the first after a tool
// has returned, its result.
func (p *Process) save(ctx context.Context, s toolexec.Store, r toolexec.Record) (toolexec.Record, error) {
	before, after := p.points()
	if p.reach(before) {
		return toolexec.Record{}, ErrCrashed
	}
	out, err := living(p, s.Save)(ctx, r)
	if err != nil {
		return out, err
	}
	p.mu.Lock()
	p.recorded = true
	p.mu.Unlock()
	if p.reach(after) {
		return toolexec.Record{}, ErrCrashed
	}
	return out, nil
}

// points are those before and after a Save at this stage of the process.
func (p *Process) points() (before, after Point) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.recorded:
		return BeforeRecord, AfterRecord
	case p.returned:
		return BeforeResult, AfterResult
	}
	return Nowhere, Nowhere
}

// InProcess returns f as it runs in p: f is the effect. When p dies the context
// of a running f ends with [ErrCrashed], and f is not called any more. A request
// that was sent before runs f on a goroutine of its own; see [Process.Wait].
func InProcess[In, Out any](p *Process, f func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	alive := living(p, f)
	return func(ctx context.Context, in In) (out Out, err error) {
		switch {
		case p.reach(BeforeSend):
			return out, ErrCrashed
		case p.At == AfterSend:
			p.Kill()
			p.late.Go(func() {
				defer func() { _ = recover() }()
				_, _ = f(context.WithoutCancel(ctx), in)
			})
			return out, ErrCrashed
		}
		answer, err := alive(ctx, in)
		if p.reach(BeforeAnswer) {
			return out, ErrCrashed
		}
		p.mu.Lock()
		p.returned = true
		p.mu.Unlock()
		return answer, err
	}
}
