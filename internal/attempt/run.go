package attempt

import (
	"context"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Grace is how long after the deadline, or after the caller's cancellation, [Run] waits
// for a function that asked for Done, so that it can hand in its own evidence. Without
// it a tool that obeys its context lost its not-sent proof in half the runs.
const Grace = 10 * time.Millisecond

// Task is the function of an attempt. The struct that embeds the attempt's [Context]
// implements it: a closure for each method would be an allocation each.
type Task interface {
	// Run does the work. It may return, panic or call runtime.Goexit.
	Run(ctx context.Context)
	// Late is told the end of Run that could not be reported by returning it; see the
	// package functions [Run] and [Inline]. It is called on the goroutine of Run, after
	// Run, and sees everything Run wrote. It must not panic: that would crash the
	// process.
	Late(Result)
}

// End says how a function ended.
type End uint8

// The ends of a function.
const (
	Running  End = 0 // it has not ended, as far as is known; the Result of a cut
	Returned End = 1
	Panicked End = 2
	Exited   End = 3 // runtime.Goexit
)

// String returns the name of the constant.
func (e End) String() string {
	switch e {
	case Running:
		return "running"
	case Returned:
		return "returned"
	case Panicked:
		return "panicked"
	case Exited:
		return "exited"
	}
	return "End(" + strconv.Itoa(int(e)) + ")"
}

// Result is the end of a function.
type Result struct {
	End   End
	Value any    // of the panic, never nil; *runtime.PanicNilError for panic(nil)
	Stack []byte // of the panicking goroutine, as debug.Stack formats it
}

// Run calls task.Run(ctx) on a goroutine of its own and waits for its end; now is the
// time, which its caller knows already. It gives up waiting, and reports cut with a zero Result,
//
//   - at the deadline of ctx when nobody has asked for ctx.Done by then;
//   - Grace after the deadline when somebody has;
//   - when the parent of ctx ends, at once or after Grace by the same rule, and in no
//     case later than Grace after the deadline.
//
// Either Run reports the end, with the function's writes visible to the caller, or it
// reports cut, and then task.Late is called once when the function ends at last. Late may
// run before Run has returned to its caller, and is not ordered with anything the caller
// does afterwards. After a cut the caller must not read what the function writes.
//
// When Run returns, ctx has ended: after a cut, context.Cause(ctx) tells what cut it,
// unless Cancel came first (Err may be context.Canceled for a deadline, if the runtime was
// more than Grace late: ask the cause); otherwise it is cancelled with ErrOver unless it had ended
// before. Nothing is left for the caller to release.
//
// A ctx that has ended before Run is no exception: the function is started and cut.
// Callers that want it not to start look at ctx.Err first. A parent that announces a
// deadline earlier than ours is trusted to end at it.
func Run(ctx *Context, now time.Time, task Task) (r Result, cut bool) {
	c, pooled := newCall(now)
	c.ctx, c.task = ctx, task
	if ctx.own {
		c.alarm.set(ctx)
	}
	go c.main()
	c.wait(ctx.parent.Done())
	cut = c.outcome.Load() == outcomeCut
	quiet := !ctx.own || c.alarm.unset(now, pooled && !cut)
	if cut {
		ctx.settle()
		return Result{}, true
	}
	r = c.result
	ctx.end(ErrOver)
	if pooled && quiet {
		c.free()
	}
	return r, false
}

// Contain calls f on a goroutine of its own, waits for its end however long it takes, and
// reports a panic or runtime.Goexit as a Result. It is for small functions of the user
// that are expected to return at once and have no context.
func Contain(f func()) Result {
	c, pooled := newCall(time.Now())
	c.task = plain(f)
	go c.main()
	<-c.wake
	r := c.result
	if pooled {
		c.free()
	}
	return r
}

// Inline calls task.Run(ctx) on the caller's goroutine; the deadline only ends ctx. A panic
// is recovered and reported. After runtime.Goexit nothing can be returned: task.Late is
// called instead, from a deferred function, and the goroutine goes on dying.
//
// Afterwards ctx is cancelled with ErrOver unless it had ended before. A ctx whose
// Done and Err were never asked for counts as one that had not, whatever the time.
func Inline(ctx *Context, task Task) (r Result) {
	alive := false
	defer func() {
		ctx.end(ErrOver)
		if !alive {
			task.Late(r)
		}
	}()
	recovering(ctx, task, &r)
	alive = true // not reached after Goexit, even when a deferred panic was recovered on the way
	return r
}

// recovering calls task.Run(ctx) and stores its end in r. It does not return after Goexit.
func recovering(ctx *Context, task Task, r *Result) {
	defer func() {
		if r.End != Returned {
			*r = failure(recover())
		}
	}()
	task.Run(ctx)
	r.End = Returned
}

// failure returns the Result of a function that did not return, given what recover
// reported. It is called in the deferred function, so the stack is still that of the panic.
func failure(recovered any) Result {
	if recovered == nil {
		return Result{End: Exited} // panic(nil) recovers as a *runtime.PanicNilError
	}
	return Result{End: Panicked, Value: recovered, Stack: debug.Stack()}
}

// plain is a Task without context whose end is always waited for.
type plain func()

func (f plain) Run(context.Context) { f() }
func (f plain) Late(Result)         {}

// The outcomes of a call. The first to leave open wins.
const (
	outcomeOpen  = 0
	outcomeEnded = 1 // the function ended: Run reports it
	outcomeCut   = 2 // Run gave up: Late reports it
)

// call is the record of one Run. Three parties race for its outcome by compare-and-swap:
// the function's end, the alarm, and the Run that waits. The winner, unless it
// is Run itself, sends on wake, and that is the last it does with the record.
type call struct {
	// Made once, kept when the record is reused.
	main  func()        // c.run: `go c.main()` allocates nothing, `go c.run()` a closure
	wake  chan struct{} // capacity 1: nobody waits to wake
	alarm alarm         // of the deadline

	// Set by Run before the goroutine starts.
	ctx  *Context
	task Task

	outcome atomic.Uint32
	result  Result // the function's goroutine owns it; Run, after outcomeEnded and wake
}

// calls holds records for reuse: without it Run costs 1.6 times the time and 5
// allocations more. A record whose function or whose grace may still run is
// never put back; the garbage collector gets it.
var calls = sync.Pool{New: func() any { return makeCall() }}

// bubbleEnd is a time before which no clock but that of a testing/synctest bubble stands.
const bubbleEnd = 1577836800 // 2020-01-01 UTC, in Unix seconds

// newCall returns a record for use at the time now and whether it may go back to the pool.
//
// A channel or timer made in one testing/synctest bubble and used outside it is a fatal
// error, so nothing is pooled in bubbles. Package synctest cannot be asked (it links package
// testing into the program), but its clock can be recognised: it starts at midnight UTC
// 2000-01-01. A machine whose clock stands before 2020 only loses the pool. A test that
// sleeps twenty years in its bubble and then runs calls is not supported.
func newCall(now time.Time) (c *call, pooled bool) {
	if now.Unix() < bubbleEnd {
		return makeCall(), false
	}
	return calls.Get().(*call), true
}

func makeCall() *call {
	c := &call{wake: make(chan struct{}, 1)}
	c.main = c.run
	c.alarm.ring = c.cut
	return c
}

// free puts c back. Nobody else may hold it.
func (c *call) free() {
	c.ctx, c.task, c.result = nil, nil, Result{}
	c.outcome.Store(outcomeOpen)
	calls.Put(c)
}

// decide reports whether o became the outcome.
func (c *call) decide(o uint32) bool { return c.outcome.CompareAndSwap(outcomeOpen, o) }

// run is the goroutine of the function.
func (c *call) run() {
	defer c.end()
	c.task.Run(c.ctx)
	c.result.End = Returned
}

// end is deferred by run.
func (c *call) end() {
	if c.result.End != Returned {
		c.result = failure(recover())
	}
	if c.decide(outcomeEnded) {
		c.wake <- struct{}{}
		return
	}
	c.task.Late(c.result)
}

// cut ends the wait at the deadline.
func (c *call) cut() {
	if c.decide(outcomeCut) {
		c.wake <- struct{}{}
	}
}

// wait returns when the outcome is decided and, if another party than this one decided
// it, its wake has been received. done is that of the caller's context.
func (c *call) wait(done <-chan struct{}) {
	if done == nil {
		<-c.wake // half the cost of a select with one channel that is never ready
		return
	}
	select {
	case <-c.wake:
	case <-done:
		c.abandon()
	}
}

// abandon is the part of wait after the end of the caller's context.
func (c *call) abandon() {
	if c.ctx.Asked() {
		grace := time.NewTimer(Grace) // the record's own keeps the deadline
		defer grace.Stop()
		select {
		case <-c.wake:
			return
		case <-grace.C:
		}
	}
	if !c.decide(outcomeCut) {
		<-c.wake
	}
}
