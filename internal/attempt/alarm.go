package attempt

import (
	"math"
	"sync"
	"time"
)

// alarm tells a call that its deadline has passed, and once more after Grace when
// somebody has asked its context for Done.
//
// It leaves its timer running from one call to the next. Deadlines are far away
// and calls are short, so that setting and stopping a timer for each of them would be a
// sixth of the cost of a Run. A timer that is due too early for the call it meets is set
// again for the rest, and one that meets no call is not.
type alarm struct {
	ring func() // set once; called with mu held, at most once between set and unset

	mu     sync.Mutex  // protects what follows
	timer  *time.Timer // calls a.expire; nil until a call has a deadline
	fires  time.Time   // when the timer does; zero: it does not
	ctx    *Context    // of the call that is on; nil: none is
	graced bool        // its deadline has passed and Grace runs
}

// idle is how long a timer may be left running for the next call: the runtime keeps it,
// and the record with it, for that long.
const idle = 10 * time.Second

// set starts the watch over ctx, whose deadline is its own.
func (a *alarm) set(ctx *Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx = ctx
	if a.fires.IsZero() || a.fires.After(ctx.deadline) {
		a.start(ctx.deadline, time.Until(ctx.deadline)) // rare, so it can afford a clock that is right
	}
}

// start sets the timer to fire at t, in d. The callback uses a.timer, so a new one is
// made far from due. Called with mu held.
func (a *alarm) start(t time.Time, d time.Duration) {
	if a.timer == nil {
		a.timer = time.AfterFunc(math.MaxInt64, a.expire)
	}
	a.fires = t
	a.timer.Reset(d)
}

// unset ends the watch, whose call began at the time then. The timer goes on
// when it is kept for another call and is due soon. It reports whether the deadline had
// not passed.
func (a *alarm) unset(then time.Time, kept bool) (quiet bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx = nil
	if !kept || a.fires.Sub(then) > idle {
		a.timer.Stop()
		a.fires = time.Time{}
	}
	return !a.graced
}

// expire is the callback of the timer.
func (a *alarm) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fires = time.Time{}
	if a.ctx == nil {
		return
	}
	now := time.Now()
	switch left := a.ctx.deadline.Sub(now); {
	case left > 0:
		a.start(a.ctx.deadline, left)
	case a.ctx.Asked() && !a.graced:
		a.graced = true
		a.start(now.Add(Grace), Grace)
	default:
		a.ring()
	}
}
