package attempt_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/toolexec/toolexec/internal/attempt"
)

func TestRunReturns(t *testing.T) {
	for _, d := range []time.Duration{0, deadline, math.MaxInt64} {
		bubble(t, fmt.Sprint(d), func(t *testing.T) {
			n := 0
			var seen any
			p := newProbe(t.Context(), d, func(ctx context.Context) {
				time.Sleep(deadline / 2)
				n, seen = 1, ctx.Value(attempt.StateKey{})
			})
			r, cut, took := p.run()
			assert.False(t, cut)
			assert.Equal(t, attempt.Result{End: attempt.Returned}, r)
			assert.Equal(t, deadline/2, took)
			assert.Equal(t, 1, n, "what the function wrote is visible")
			assert.Same(t, p, seen)
			assert.Same(t, context.Canceled, p.Err(), "over, as after a deferred cancel")
			assert.ErrorIs(t, context.Cause(p), attempt.ErrOver)
			time.Sleep(2 * deadline)
			assert.Zero(t, p.lates.Load())
			assert.ErrorIs(t, context.Cause(p), attempt.ErrOver)
		})
	}
	bubble(t, "children of an attempt that is over are cancelled", func(t *testing.T) {
		var child context.Context
		var forgotten context.CancelFunc
		p := newProbe(t.Context(), deadline, func(ctx context.Context) {
			child = context.WithValue(ctx, errTool, 1)
			child, forgotten = context.WithCancel(child)
		})
		p.run()
		assert.ErrorIs(t, context.Cause(child), attempt.ErrOver)
		forgotten()
	})
}

// TestCut has when Run gives up, what it says, and what comes later.
func TestCut(t *testing.T) {
	const grace = attempt.Grace
	ask := func(ctx context.Context) { ctx.Done() }
	ignore := func(context.Context) {}
	ways := []struct {
		name      string
		ask       func(context.Context)
		works     time.Duration // how long the function takes
		cancelled time.Duration // when the caller cancels; 0: never
		deadline  time.Duration
		cut       bool
		at        time.Duration // when Run returns
	}{
		{"deadline, nobody asked", ignore, time.Minute, 0, deadline, true, deadline},
		{"deadline, asked", ask, time.Minute, 0, deadline, true, deadline + grace},
		{"deadline, asked through a child", func(ctx context.Context) { context.AfterFunc(ctx, func() {}) },
			time.Minute, 0, deadline, true, deadline + grace},
		{"deadline, only Err polled", func(ctx context.Context) { _ = ctx.Err() }, time.Minute, 0, deadline, true, deadline},
		{"returns within grace", ask, deadline + grace/2, 0, deadline, false, deadline + grace/2},
		{"would return within grace, nobody asked", ignore, deadline + grace/2, 0, deadline, true, deadline},
		{"cancelled, nobody asked", ignore, time.Minute, deadline / 2, deadline, true, deadline / 2},
		{"cancelled, nobody asked, no deadline", ignore, time.Minute, deadline / 2, 0, true, deadline / 2},
		{"cancelled, asked", ask, time.Minute, deadline / 2, deadline, true, deadline/2 + grace},
		{"cancelled, asked, no deadline", ask, time.Minute, deadline / 2, 0, true, deadline/2 + grace},
		{"cancelled, returns within grace", ask, deadline/2 + 1, deadline / 2, deadline, false, deadline/2 + 1},
		{"cancelled just before the deadline", ask, time.Minute, deadline - 1, deadline, true, deadline - 1 + grace},
		{"cancelled during grace: not prolonged", ask, time.Minute, deadline + 1, deadline, true, deadline + grace},
		{"never cancelled, no deadline", ask, time.Minute, 0, 0, false, time.Minute},
	}
	for _, w := range ways {
		bubble(t, w.name, func(t *testing.T) {
			parent, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			errCaller := errors.New("caller")
			if w.cancelled != 0 {
				time.AfterFunc(w.cancelled, func() { cancel(errCaller) })
			}
			p := newProbe(parent, w.deadline, func(ctx context.Context) {
				w.ask(ctx)
				time.Sleep(w.works)
				panic(w.name)
			})
			r, cut, took := p.run()
			assert.Equal(t, w.at, took)
			require.Equal(t, w.cut, cut)
			cause := context.Cause(p)
			switch {
			case w.cancelled != 0 && w.cancelled < deadline:
				assert.Same(t, errCaller, cause)
				assert.Same(t, context.Canceled, p.Err())
			case w.deadline != 0:
				assert.ErrorIs(t, cause, errTool)
				assert.Equal(t, context.DeadlineExceeded, p.Err())
			}
			if cut {
				assert.Equal(t, attempt.Result{}, r)
				assert.Zero(t, p.lates.Load(), "it still runs")
				p.Cancel(errors.New("abandoned"))
				assert.Same(t, cause, context.Cause(p), "a later Cancel changes nothing")
				r = <-p.late
				synctest.Wait()
				assert.EqualValues(t, 1, p.lates.Load())
			}
			assert.Equal(t, attempt.Panicked, r.End)
			assert.Equal(t, w.name, r.Value)
		})
	}
}

func TestRunWithContextThatHasEnded(t *testing.T) {
	end := map[string]func() (context.Context, time.Duration){
		"parent cancelled": func() (context.Context, time.Duration) {
			parent, cancel := context.WithCancel(context.Background())
			cancel()
			return parent, deadline
		},
		"deadline passed": func() (context.Context, time.Duration) { return context.Background(), -1 },
	}
	for name, f := range end {
		bubble(t, name, func(t *testing.T) {
			parent, d := f()
			p := newProbe(parent, d, func(context.Context) { time.Sleep(deadline) })
			_, cut, took := p.run()
			assert.True(t, cut)
			assert.Zero(t, took)
			assert.Error(t, p.Err())
			assert.Equal(t, attempt.Returned, (<-p.late).End)
		})
	}
}

// slow is a parent that ends but does not pass its end on.
type slow struct{ *counting }

func (s slow) Err() error {
	select {
	case <-s.done:
		return errSlow
	default:
		return nil
	}
}

var errSlow = errors.New("slow parent")

func TestRunDoesNotWaitForTheContext(t *testing.T) {
	bubble(t, "caller's context lags", func(t *testing.T) {
		parent := slow{newCounting()}
		time.AfterFunc(deadline/2, func() { close(parent.done) })
		p := newProbe(parent, deadline, func(ctx context.Context) { ctx.Done(); time.Sleep(time.Minute) })
		_, cut, took := p.run()
		assert.True(t, cut)
		assert.Equal(t, deadline/2+attempt.Grace, took)
		assert.Error(t, p.Err())
		assert.Same(t, errSlow, context.Cause(p))
		assert.Zero(t, parent.registered.Load())
		<-p.late
	})
}

// raced is a parent that ends just after the function ended and before Run looks.
type raced struct {
	context.Context
	p *probe
}

func (r raced) Done() <-chan struct{} {
	for range 100 { // the function's goroutine has a few steps left when it sets ended
		runtime.Gosched()
	}
	for !r.p.ended.Load() {
		runtime.Gosched()
	}
	return r.Context.Done()
}

func TestEndWinsOverCancellation(t *testing.T) {
	parent, cancel := context.WithCancel(context.Background())
	cancel()
	for id := range 200 { // outside bubbles: a wake left in a pooled record would end the next Run
		p := newProbe(parent, time.Minute, func(context.Context) { panic(id) })
		p.Init(raced{parent, p}, time.Now().Add(time.Minute), nil, nil)
		r, cut, _ := p.run()
		p.verdict(t, id, r, cut)
	}
}

func TestCancelDoesNotEndRun(t *testing.T) {
	bubble(t, "ignored", func(t *testing.T) {
		p := newProbe(t.Context(), deadline, func(context.Context) { time.Sleep(time.Minute) })
		time.AfterFunc(deadline/2, func() { p.Cancel(errors.New("lease lost")) })
		_, cut, took := p.run()
		assert.True(t, cut)
		assert.Equal(t, deadline, took)
		assert.EqualError(t, context.Cause(p), "lease lost")
		<-p.late
	})
	bubble(t, "obeyed", func(t *testing.T) {
		p := newProbe(t.Context(), deadline, func(ctx context.Context) { <-ctx.Done() })
		time.AfterFunc(deadline/2, func() { p.Cancel(errors.New("lease lost")) })
		r, cut, took := p.run()
		assert.False(t, cut)
		assert.Equal(t, attempt.Returned, r.End)
		assert.Equal(t, deadline/2, took)
	})
}

func TestParentDeadlineEarlierCutsRun(t *testing.T) {
	bubble(t, "standard", func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), deadline/2)
		defer cancel()
		p := newProbe(parent, deadline, func(context.Context) { time.Sleep(time.Minute) })
		_, cut, took := p.run()
		assert.True(t, cut)
		assert.Equal(t, deadline/2, took)
		assert.Equal(t, context.DeadlineExceeded, context.Cause(p), "the caller's, not the tool's")
		<-p.late
	})
	bubble(t, "nested attempt", func(t *testing.T) {
		var inner *probe
		outer := newProbe(t.Context(), deadline, func(ctx context.Context) {
			inner = newProbe(ctx, time.Hour, func(context.Context) {
				assert.NotContains(t, stacks(), "propagateCancel", "waiting on the caller costs no goroutine")
				time.Sleep(time.Minute)
			})
			_, cut, took := inner.run()
			assert.True(t, cut)
			assert.Equal(t, deadline, took)
		})
		r, cut, _ := outer.run()
		assert.False(t, cut, "returned within grace")
		assert.Equal(t, attempt.Returned, r.End)
		assert.ErrorIs(t, context.Cause(inner), errTool)
		<-inner.late
	})
}

// ends are the ways a function ends, and how they are reported.
var ends = []struct {
	name string
	f    func()
	end  attempt.End
	dies bool // the goroutine, so that Inline cannot return
	want func(t *testing.T, value any)
}{
	{"return", func() {}, attempt.Returned, false, isNil},
	{"panic string", func() { panic("boom") }, attempt.Panicked, false,
		func(t *testing.T, value any) { assert.Equal(t, "boom", value) }},
	{"panic error", func() { panic(errTool) }, attempt.Panicked, false,
		func(t *testing.T, value any) { assert.Same(t, errTool, value) }},
	{"panic nil", func() { panic(nil) }, attempt.Panicked, false,
		func(t *testing.T, value any) { assert.IsType(t, new(runtime.PanicNilError), value) }},
	{"runtime panic", func() { var m map[int]int; m[0] = 1 }, attempt.Panicked, false, //nolint:staticcheck // the point
		func(t *testing.T, value any) { assert.Implements(t, new(runtime.Error), value) }},
	{"Goexit", runtime.Goexit, attempt.Exited, true, isNil},
	{"panic during Goexit", func() { defer func() { panic("boom") }(); runtime.Goexit() }, attempt.Panicked, true,
		func(t *testing.T, value any) { assert.Equal(t, "boom", value) }},
	{"recovered inside", func() { defer func() { _ = recover() }(); panic("boom") }, attempt.Returned, false, isNil},
}

func isNil(t *testing.T, value any) { assert.Nil(t, value) }

func TestEnds(t *testing.T) {
	for _, e := range ends {
		check := func(t *testing.T, r attempt.Result) {
			assert.Equal(t, e.end, r.End)
			e.want(t, r.Value)
			if e.end == attempt.Panicked {
				assert.Contains(t, string(r.Stack), "run_test.go", "the stack is that of the panic")
			} else {
				assert.Empty(t, r.Stack)
			}
		}
		bubble(t, e.name+"/Run", func(t *testing.T) {
			p := newProbe(t.Context(), deadline, func(context.Context) { e.f() })
			r, cut, _ := p.run()
			assert.False(t, cut)
			check(t, r)
			assert.Zero(t, p.lates.Load())
		})
		bubble(t, e.name+"/late", func(t *testing.T) {
			p := newProbe(t.Context(), deadline, func(context.Context) { time.Sleep(time.Minute); e.f() })
			_, cut, _ := p.run()
			assert.True(t, cut)
			check(t, <-p.late)
			synctest.Wait()
			assert.EqualValues(t, 1, p.lates.Load())
		})
		bubble(t, e.name+"/Contain", func(t *testing.T) {
			check(t, attempt.Contain(func() { time.Sleep(time.Hour); e.f() }))
		})
		bubble(t, e.name+"/Inline", func(t *testing.T) {
			p := newProbe(t.Context(), deadline, func(context.Context) { e.f() })
			returned := make(chan attempt.Result, 1)
			go func() { returned <- attempt.Inline(&p.Context, p) }()
			synctest.Wait()
			assert.ErrorIs(t, context.Cause(p), attempt.ErrOver)
			if e.dies {
				check(t, <-p.late)
				assert.Empty(t, returned, "the goroutine has died")
				return
			}
			check(t, <-returned)
			assert.Zero(t, p.lates.Load())
		})
	}
}

func TestInlineIsOnlyAsked(t *testing.T) {
	bubble(t, "deadline", func(t *testing.T) {
		var err error
		p := newProbe(t.Context(), deadline, func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Minute)
			err = ctx.Err()
		})
		start := time.Now()
		r := attempt.Inline(&p.Context, p)
		assert.Equal(t, attempt.Returned, r.End)
		assert.Equal(t, deadline+time.Minute, time.Since(start))
		assert.Equal(t, context.DeadlineExceeded, err)
		assert.ErrorIs(t, context.Cause(p), errTool)
	})
}

func TestEndString(t *testing.T) {
	for end, want := range map[attempt.End]string{
		attempt.Running: "running", attempt.Returned: "returned", attempt.Panicked: "panicked",
		attempt.Exited: "exited", 4: "End(4)", 255: "End(255)",
	} {
		assert.Equal(t, want, end.String())
	}
	assert.Equal(t, attempt.Running, attempt.Result{}.End, "the zero Result claims nothing")
}

// TestPoolAcrossBubbles uses records in and out of bubbles in turn. A record that crosses
// a border is a fatal error.
func TestPoolAcrossBubbles(t *testing.T) {
	use := func(t *testing.T) {
		for _, d := range []time.Duration{0, deadline, 30 * 365 * 24 * time.Hour, math.MaxInt64} {
			for range 8 { // more than one, for a pool that hides the first
				r, cut, _ := newProbe(context.Background(), d, func(context.Context) {}).run()
				require.False(t, cut)
				require.Equal(t, attempt.Returned, r.End)
				require.Equal(t, attempt.Returned, attempt.Contain(func() {}).End)
				require.Equal(t, attempt.Panicked, attempt.Contain(func() { panic(1) }).End, "nothing of the last call is left")
			}
		}
		far := attempt.NewContext(context.Background(), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), nil, nil)
		attempt.Run(far, time.Now(), newProbe(context.Background(), 0, func(context.Context) {}))
	}
	t.Run("outside", use)
	bubble(t, "first", use)
	bubble(t, "second", use)
	t.Run("outside again", use)
	bubble(t, "third", func(t *testing.T) {
		time.Sleep(10 * 365 * 24 * time.Hour)
		use(t)
	})
	t.Run("outside at last", use)
}

// verdict checks that exactly one of Run and Late reported the end of p, and the right one.
func (p *probe) verdict(t *testing.T, id int, r attempt.Result, cut bool) {
	t.Helper()
	if cut {
		require.Equal(t, attempt.Result{}, r)
		require.Error(t, p.Err())
		r = <-p.late
	}
	require.Equal(t, attempt.Panicked, r.End)
	require.Equal(t, id, r.Value, "the result is of this attempt")
}

// TestSameInstant lets the function's end, the deadline, the end of grace and the caller's
// cancellation fall on one instant.
func TestSameInstant(t *testing.T) {
	for _, c := range []struct {
		name   string
		works  time.Duration
		cancel time.Duration
		ask    bool
	}{
		{"end and deadline", deadline, 0, false},
		{"end and deadline and cancel", deadline, deadline, false},
		{"deadline and cancel", 2 * deadline, deadline, false},
		{"end and deadline, asked", deadline, 0, true},
		{"end and grace", deadline + attempt.Grace, 0, true},
		{"end and both graces", deadline + attempt.Grace, deadline, true},
		{"end and grace and cancel", deadline + attempt.Grace, deadline + attempt.Grace, true},
	} {
		bubble(t, c.name, func(t *testing.T) {
			for id := range 200 {
				parent, cancel := context.WithCancel(t.Context())
				if c.cancel != 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				p := newProbe(parent, deadline, func(ctx context.Context) {
					if c.ask {
						ctx.Done()
					}
					time.Sleep(c.works)
					panic(id)
				})
				r, cut, _ := p.run()
				p.verdict(t, id, r, cut)
				cancel()
				synctest.Wait()
				if cut {
					require.EqualValues(t, 1, p.lates.Load())
				} else {
					require.Zero(t, p.lates.Load())
				}
			}
		})
	}
}

// TestRaceOutside races ends, deadlines and cancellations in real time, with records from
// the pool, on several goroutines.
func TestRaceOutside(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range rounds {
				raceOnce(t, rnd, g*rounds+i)
			}
		})
	}
	all.Wait()
}

func raceOnce(t *testing.T, rnd *rand.Rand, id int) {
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	spins, ask := rnd.IntN(20), rnd.IntN(8) == 0
	if rnd.IntN(4) == 0 {
		go cancel()
	}
	written := 0 // plain, for the race detector: read only by whoever may
	p := newProbe(parent, time.Duration(1+rnd.IntN(20_000)), func(ctx context.Context) {
		if ask {
			ctx.Done()
		}
		for range spins {
			runtime.Gosched()
		}
		written = id
		panic(id)
	})
	r, cut, _ := p.run()
	if !cut {
		assert.Equal(t, id, written)
	}
	if cut {
		assert.Error(t, p.Err())
		r = <-p.late
		assert.Equal(t, id, written)
	}
	assert.Equal(t, id, r.Value)
	assert.LessOrEqual(t, p.lates.Load(), int32(1))
}
