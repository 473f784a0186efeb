package attempt_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolexec/toolexec/internal/attempt"
)

const deadline = time.Second

var errTool = errors.New("tool deadline")

// probe is an attempt whose function is f and which keeps what Late was told.
type probe struct {
	attempt.Context
	f     func(context.Context)
	ended atomic.Bool // f's goroutine is past f
	lates atomic.Int32
	late  chan attempt.Result
}

func (p *probe) Run(ctx context.Context) {
	defer p.ended.Store(true)
	p.f(ctx)
}

func (p *probe) Late(r attempt.Result) {
	if !p.ended.Load() {
		panic("Late before the end of Run")
	}
	p.lates.Add(1)
	p.late <- r
}

// newProbe returns an attempt with a deadline d from now; zero: none.
func newProbe(parent context.Context, d time.Duration, f func(context.Context)) *probe {
	p := &probe{f: f, late: make(chan attempt.Result, 2)}
	var at time.Time
	if d != 0 {
		at = time.Now().Add(d)
	}
	p.Init(parent, at, errTool, p)
	return p
}

// run runs p and returns what Run did and how long it took.
func (p *probe) run() (r attempt.Result, cut bool, took time.Duration) {
	start := time.Now()
	r, cut = attempt.Run(&p.Context, time.Now(), p)
	return r, cut, time.Since(start)
}

// bubble runs f in a subtest in a bubble.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// counting is a parent that counts who is registered with it.
type counting struct {
	context.Context
	done       chan struct{}
	registered atomic.Int32
}

func newCounting() *counting {
	return &counting{Context: context.Background(), done: make(chan struct{})}
}

func (c *counting) Done() <-chan struct{} { return c.done }

func (c *counting) AfterFunc(func()) func() bool {
	c.registered.Add(1)
	return func() bool { c.registered.Add(-1); return true }
}
