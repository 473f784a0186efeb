package toolexectest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolexec/toolexec"
)

// ErrInjected is the cause of the errors that the faults of this package make
// up.
var ErrInjected = errors.New("toolexectest: injected fault")

// Fault is what befalls one attempt: something on the way there, before the
// wrapped function had its effect, and something on the way back, after it. The
// zero Fault is none. Any combination that makes sense is a Fault; the functions
// below name those that have names.
type Fault struct {
	Request Leg // before the effect
	Answer  Leg // after it
}

// Leg is how one way fails: by omission, timing, crash or value. The zero Leg
// does not. First the times pass, then at most one of the other fields ends the
// attempt; on the way there the function is then not called.
type Leg struct {
	// Hang holds the attempt that long, whatever its context says.
	Hang time.Duration
	// Delay is how long the message travels. The attempt gives up when its context
	// ends; a request that is on its way then arrives all the same.
	Delay time.Duration

	// Drop loses the message: the attempt waits until its context ends.
	Drop bool
	// Err ends the attempt with an error.
	Err error
	// Panic, if not nil, is what the attempt panics with.
	Panic any
	// Goexit ends the attempt's goroutine.
	Goexit bool
	// Empty ends the attempt with the zero result and no error.
	Empty bool
	// Result, if not nil, ends the attempt with this result and no error. It must be
	// of the function's result type.
	Result any
}

// OK is no fault.
func OK() Fault { return Fault{} }

// NotSent fails before anything is sent, and says so.
func NotSent() Fault { return FailRequest(toolexec.NotSent(ErrInjected)) }

// DropRequest loses the request: no effect, and no answer until the context
// ends.
func DropRequest() Fault { return Fault{Request: Leg{Drop: true}} }

// DropAnswer has the effect and loses the answer: none until the context ends.
func DropAnswer() Fault { return Fault{Answer: Leg{Drop: true}} }

// DelayRequest has the effect d late: after the attempt, if its context ends
// sooner. See [Plan.Wait].
func DelayRequest(d time.Duration) Fault { return Fault{Request: Leg{Delay: d}} }

// DelayAnswer has the effect at once and answers d later, if the context lets
// it.
func DelayAnswer(d time.Duration) Fault { return Fault{Answer: Leg{Delay: d}} }

// FailRequest ends the attempt with err, without the effect.
func FailRequest(err error) Fault { return Fault{Request: Leg{Err: err}} }

// FailAnswer has the effect and ends the attempt with err.
func FailAnswer(err error) Fault { return Fault{Answer: Leg{Err: err}} }

// Refuse is a refusal of class c by the remote side: nothing changed.
func Refuse(c toolexec.Class) Fault {
	return FailRequest(&toolexec.Failure{Class: c, Evidence: toolexec.EvidenceRejected, Err: ErrInjected})
}

// String says what the fault does: "answer dropped".
func (f Fault) String() string {
	words := slices.Concat(f.Request.words("request"), f.Answer.words("answer"))
	if len(words) == 0 {
		return "no fault"
	}
	return strings.Join(words, ", ")
}

// words says what happens on this way.
func (l *Leg) words(way string) (words []string) {
	if l.Hang > 0 {
		words = append(words, way+" hung "+l.Hang.String())
	}
	if l.Delay > 0 {
		words = append(words, way+" delayed "+l.Delay.String())
	}
	for _, end := range l.ends() {
		words = append(words, way+" "+end)
	}
	return words
}

// ends names what ends the attempt on this way.
func (l *Leg) ends() (words []string) {
	for _, end := range []struct {
		is   bool
		word string
	}{
		{l.Drop, "dropped"},
		{l.Err != nil, "failed"},
		{l.Panic != nil, "panicked"},
		{l.Goexit, "exited"},
		{l.Empty, "emptied"},
		{l.Result != nil, "replaced"},
	} {
		if end.is {
			words = append(words, end.word)
		}
	}
	return words
}

func (l *Leg) isZero() bool { return len(l.words("")) == 0 }

// problem says why f cannot be meant.
func (f *Fault) problem() string {
	request, answer := f.Request.ends(), f.Answer.ends()
	switch {
	case len(request) > 1 || len(answer) > 1:
		return "one way can end in one manner only"
	case len(request) > 0 && !f.Answer.isZero():
		return "there is no answer to spoil when the request ends the attempt"
	}
	return ""
}

// Plan says which fault befalls which attempt. Make it with [Script]; the zero
// Plan has none. Its methods are safe for concurrent use. It must not be copied.
type Plan struct {
	steps []Fault // read-only
	late  sync.WaitGroup

	mu       sync.Mutex // protects what follows
	attempts int
	struck   map[strike]bool
}

// strike names one way of one step.
type strike struct {
	step   int
	answer bool
}

// Script returns the plan by which the n-th attempt meets the n-th step;
// attempts after the last step meet no fault. Attempts are counted in the order
// in which they start, over all functions that are wrapped with the plan. It
// panics when a step contradicts itself.
func Script(steps ...Fault) *Plan {
	for i := range steps {
		if problem := steps[i].problem(); problem != "" {
			panic(fmt.Sprintf("toolexectest: Script: step %d (%v): %s", i+1, steps[i], problem))
		}
	}
	return &Plan{steps: slices.Clone(steps)}
}

// Attempts returns how many attempts have started.
func (p *Plan) Attempts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attempts
}

// Unfired says, a line each, which faults of the script have not struck: their
// attempt was not made, or ended sooner.
func (p *Plan) Unfired() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for i, f := range p.steps {
		for _, way := range []struct {
			name string
			leg  Leg
			id   strike
		}{{"request", f.Request, strike{i, false}}, {"answer", f.Answer, strike{i, true}}} {
			if !way.leg.isZero() && !p.struck[way.id] {
				out = append(out, fmt.Sprintf("step %d of %d: %s: did not fire in %d attempt(s)",
					i+1, len(p.steps), strings.Join(way.leg.words(way.name), ", "), p.attempts))
			}
		}
	}
	return out
}

// Check fails t for each fault of the script that has not struck: a test that
// passes without its fault proves nothing.
func (p *Plan) Check(t testing.TB) {
	t.Helper()
	for _, line := range p.Unfired() {
		t.Error("toolexectest: " + line)
	}
}

// Wait returns when the requests that outlived their attempts have arrived. Call
// it when no more attempts are made, and in a [testing/synctest] bubble before the
// test ends.
func (p *Plan) Wait() { p.late.Wait() }

// next counts an attempt and returns its fault.
func (p *Plan) next() (step int, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	step = p.attempts
	p.attempts++
	if step < len(p.steps) {
		f = p.steps[step]
	}
	return step, f
}

func (p *Plan) strikes(step int, answer bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.struck == nil {
		p.struck = make(map[strike]bool)
	}
	p.struck[strike{step, answer}] = true
}

// Wrap returns f with the faults of p around it: f is the effect. It panics when
// a step's Result is not an Out. A late request runs f on a goroutine of its own,
// with the values of the attempt's context but not its end; its answer is lost,
// a panic included.
func Wrap[In, Out any](p *Plan, f func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	for i, s := range p.steps {
		for _, r := range []any{s.Request.Result, s.Answer.Result} {
			if _, ok := r.(Out); r != nil && !ok {
				panic(fmt.Sprintf("toolexectest: Wrap: step %d replaces the result by a %T, but the function returns a %v",
					i+1, r, reflect.TypeFor[Out]()))
			}
		}
	}
	return func(ctx context.Context, in In) (Out, error) {
		step, fault := p.next()
		w := &wrapped[Out]{plan: p, step: step, fault: &fault, effect: func(ctx context.Context) (Out, error) { return f(ctx, in) }}
		return w.run(ctx)
	}
}

// wrapped is one attempt.
type wrapped[Out any] struct {
	plan   *Plan
	step   int
	fault  *Fault
	effect func(context.Context) (Out, error)
}

func (w *wrapped[Out]) run(ctx context.Context) (out Out, err error) {
	if request := &w.fault.Request; !request.isZero() {
		w.plan.strikes(w.step, false)
		left, inTime := request.travel(ctx)
		if !inTime && len(request.ends()) == 0 {
			w.arriveLate(ctx, left)
		}
		if !inTime {
			return out, context.Cause(ctx)
		}
		if ended, out, err := end[Out](ctx, request); ended {
			return out, err
		}
	}
	out, err = w.effect(ctx)
	if answer := &w.fault.Answer; !answer.isZero() {
		w.plan.strikes(w.step, true)
		if _, inTime := answer.travel(ctx); !inTime {
			return *new(Out), context.Cause(ctx)
		}
		if ended, out, err := end[Out](ctx, answer); ended {
			return out, err
		}
	}
	return out, err
}

// arriveLate lets the request arrive although its attempt is over. Nobody waits
// for the answer, so whatever was to befall that has befallen it.
func (w *wrapped[Out]) arriveLate(ctx context.Context, left time.Duration) {
	w.plan.strikes(w.step, true)
	ctx = context.WithoutCancel(ctx)
	w.plan.late.Go(func() {
		defer func() { _ = recover() }()
		time.Sleep(left)
		_, _ = w.effect(ctx)
	})
}

// travel lets the times of l pass. inTime is false when the context ended first,
// left before the message would have arrived. At the very instant of a deadline
// the deadline wins, so that runs in fake time are all alike.
func (l *Leg) travel(ctx context.Context) (left time.Duration, inTime bool) {
	time.Sleep(l.Hang)
	if l.Delay <= 0 {
		return 0, true
	}
	arrives := time.Now().Add(l.Delay)
	if deadline, ok := ctx.Deadline(); ok && !deadline.After(arrives) {
		<-ctx.Done()
		return time.Until(arrives), false
	}
	timer := time.NewTimer(l.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0, true
	case <-ctx.Done():
		return time.Until(arrives), false
	}
}

// end ends the attempt as l says, if it does.
func end[Out any](ctx context.Context, l *Leg) (ended bool, out Out, err error) {
	switch {
	case l.Drop:
		<-ctx.Done()
		return true, out, context.Cause(ctx)
	case l.Err != nil:
		return true, out, l.Err
	case l.Panic != nil:
		panic(l.Panic)
	case l.Goexit:
		runtime.Goexit()
	case l.Empty:
		return true, out, nil
	case l.Result != nil:
		return true, l.Result.(Out), nil //nolint:forcetypeassert // Wrap has checked it
	}
	return false, out, nil
}
