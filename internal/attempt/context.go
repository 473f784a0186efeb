package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrOver is the cause of a Context whose attempt ended before anything else ended
// the context. Err is context.Canceled then, and ErrOver unwraps to it.
var ErrOver = fmt.Errorf("the attempt is over: %w", context.Canceled)

// StateKey is the key under which [Context.Value] finds the state given to
// [Context.Init].
type StateKey struct{}

// DeadlineError is the cause of an expired [Context] that was given a cause which is
// not itself a context.DeadlineExceeded. It unwraps to both.
type DeadlineError struct{ Err error }

// Error returns the text of the cause.
func (e *DeadlineError) Error() string { return e.Err.Error() }

// Unwrap returns the cause and context.DeadlineExceeded.
func (e *DeadlineError) Unwrap() []error { return []error{e.Err, context.DeadlineExceeded} }

// Timeout reports true, as context.DeadlineExceeded does.
func (e *DeadlineError) Timeout() bool { return true }

// Context is the context of one attempt. It behaves as a context made by
// context.WithDeadlineCause and context.WithCancelCause on the caller's, except that
// it makes these two only when somebody asks for Done, directly or through a child, or
// when Err has to report an end. Until then it costs no timer, no channel and no
// entry in the caller's context: arming takes twice the time of context.WithTimeout and 11
// allocations. (One standard context would do for the half, but only the second can carry
// the cause of Cancel to children.)
//
// Laziness shows in one place only: when several things ended an unarmed Context
// before anybody looked, Err may name another than the first. Once Err or Done was
// answered, the answer stays.
//
// Embed it by value in the struct that holds the rest of the attempt, so that both are
// one allocation, and call Init before anything else. The zero Context is not usable.
// It must not be copied, and not be used for another attempt: whoever was given it may
// keep it for as long as they like.
//
// All methods but Init are safe for concurrent use.
type Context struct {
	// Set by Init, read-only afterwards.
	parent   context.Context
	deadline time.Time // the earlier of ours and the caller's; zero: none
	state    any
	own      bool // deadline is ours, so the caller's context will not end at it

	asked atomic.Bool              // somebody called Done
	armed atomic.Pointer[standard] // set once, under mu

	mu    sync.Mutex  // protects what follows, and the setting of armed
	over  atomic.Bool // ended by Cancel while not armed; written under mu
	cause error       // of the deadline; once over, of the end
}

// standard is the armed form of a Context.
type standard struct {
	context.Context                         // a cancelCtx, child of the caller's or of the deadline's
	cancel          context.CancelCauseFunc // of Context
	release         context.CancelFunc      // of the deadline's context
}

// NewContext returns a new Context; see [Context.Init].
func NewContext(parent context.Context, deadline time.Time, cause error, state any) *Context {
	c := new(Context)
	c.Init(parent, deadline, cause, state)
	return c
}

// Init prepares c, before anybody else sees it.
//
// The context ends with parent, at the deadline, or by Cancel. A zero deadline is none.
// A parent that ends earlier keeps its deadline, and the end is then the parent's, with
// the parent's cause. cause is what context.Cause reports at the deadline; nil means
// context.DeadlineExceeded, and one that does not unwrap to that is wrapped in a
// [DeadlineError]. state is what Value returns for StateKey{}.
func (c *Context) Init(parent context.Context, deadline time.Time, cause error, state any) {
	c.parent, c.cause, c.state = parent, cause, state
	c.deadline, c.own = deadline, !deadline.IsZero()
	if d, ok := parent.Deadline(); ok && (!c.own || d.Before(deadline)) {
		c.deadline, c.own = d, false
	}
	if c.own && c.deadline == c.deadline.Round(0) { //nolint:revive,staticcheck // Equal does not look at the monotonic reading
		// The deadline was made without a monotonic reading. Without this a wall clock
		// set back during the attempt would let the two timers of an attempt differ. It
		// also brings a deadline within what a time.Duration holds, 292 years.
		now := time.Now()
		c.deadline = now.Add(c.deadline.Sub(now))
	}
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements context.Context. Asking is noted; see [Context.Asked].
func (c *Context) Done() <-chan struct{} {
	if !c.asked.Load() {
		c.asked.Store(true) // before arming: a child that hears of the deadline has its grace
	}
	return c.arm().Done()
}

// Err implements context.Context. It does not count as asking: a function that only
// polls Err has no way to hear of the deadline in time to answer it.
func (c *Context) Err() error {
	if s := c.armed.Load(); s != nil {
		return s.Err()
	}
	if c.over.Load() || c.ended() {
		return c.arm().Err() // armed, so that context.Cause finds the cause of this very error
	}
	return nil
}

// Value implements context.Context. For StateKey{} it returns the state.
func (c *Context) Value(key any) any {
	if key == (StateKey{}) {
		return c.state
	}
	if s := c.armed.Load(); s != nil {
		// Package context asks here for the cancelCtx behind a context, always after
		// Done or Err. Finding it, children register with it and need no goroutine.
		return s.Value(key)
	}
	return c.parent.Value(key)
}

// String names the type only: printing a context must not read what others write.
func (c *Context) String() string { return "attempt.Context" }

// State returns the state given to Init.
func (c *Context) State() any { return c.state }

// Asked reports whether anybody has called Done, directly or by making a child that
// can be cancelled, and so can obey this context.
func (c *Context) Asked() bool { return c.asked.Load() }

// Cancel ends the context now with context.Canceled and the given cause (nil:
// context.Canceled) and releases its resources. It does nothing to a context that has
// ended. It does not end a [Run]: the function is told, and its deadline still holds.
func (c *Context) Cancel(cause error) {
	if c.armed.Load() == nil && c.ended() {
		return // whoever asks is told of the first end, not of this one
	}
	c.end(cause)
}

// end is Cancel for the attempt's normal end. It does not look at the clock (20 ns) to
// learn whether an unarmed context has expired in the meantime: nobody asked it.
func (c *Context) end(cause error) {
	c.mu.Lock()
	s := c.armed.Load()
	if s == nil && !c.over.Load() {
		c.cause = cause
		c.over.Store(true)
	}
	c.mu.Unlock()
	if s != nil {
		s.cancel(cause)
		s.release()
	}
}

// ended reports whether the caller or the deadline has ended a context that is not armed.
func (c *Context) ended() bool {
	return c.parent.Err() != nil || c.own && time.Until(c.deadline) <= 0
}

// settle makes Err report the end that Run has just acted on. An armed context may lag
// behind it: the runtime has yet to start the callback of a timer that is due, or the
// caller's context to pass its end on. It is cancelled here with the cause it was about
// to have, rather than waited for: nothing bounds how late another's context is.
func (c *Context) settle() {
	c.mu.Lock() // who is arming it has looked at the clock before
	s := c.armed.Load()
	c.mu.Unlock()
	if s == nil || s.Err() != nil {
		return
	}
	cause := context.Cause(c.parent)
	if cause == nil {
		cause = cmp.Or(deadlineCause(c.cause), context.DeadlineExceeded) // no longer written, once armed
	}
	s.cancel(cause)
	s.release()
}

// arm returns the standard context, which it makes at the first call.
func (c *Context) arm() *standard {
	if s := c.armed.Load(); s != nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.armed.Load(); s != nil {
		return s
	}
	s := c.newStandard()
	c.armed.Store(s)
	return s
}

// newStandard is called with mu held.
//
// The deadline's context is the outer one: when it expires it leaves the caller's
// context by itself, so an abandoned function that arms late leaves nothing behind.
// Only the inner one can be cancelled with a cause.
func (c *Context) newStandard() *standard {
	s := &standard{Context: c.parent, release: func() {}}
	if c.own && !c.over.Load() {
		s.Context, s.release = context.WithDeadlineCause(c.parent, c.deadline, deadlineCause(c.cause))
	}
	s.Context, s.cancel = context.WithCancelCause(s.Context)
	if c.over.Load() {
		s.cancel(c.cause)
	}
	return s
}

// deadlineCause returns cause as something that unwraps to context.DeadlineExceeded.
func deadlineCause(cause error) error {
	if cause == nil || errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return &DeadlineError{Err: cause}
}
