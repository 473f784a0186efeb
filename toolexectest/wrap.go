package toolexectest

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"time"
)

// Wrap returns f with the faults of p around it: f is the effect. It panics when
// a step's Result is not an Out, or its Huge has no place in one. A late request
// runs f on a goroutine of its own, with the values of the attempt's context but
// not its end; its answer is lost, a panic included.
func Wrap[In, Out any](p *Plan, f func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	if p == nil {
		return f
	}
	for i := range p.steps {
		for _, l := range []*Leg{&p.steps[i].Request, &p.steps[i].Answer} {
			if problem := unfit[Out](l); problem != "" {
				panic(fmt.Sprintf("toolexectest: Wrap: step %d %s", i+1, problem))
			}
		}
	}
	return func(ctx context.Context, in In) (Out, error) {
		step, fault := p.next()
		w := &wrapped[Out]{plan: p, step: step, fault: &fault, effect: func(ctx context.Context) (Out, error) { return f(ctx, in) }}
		return w.run(ctx)
	}
}

// unfit says why l cannot end a function that returns an Out.
func unfit[Out any](l *Leg) string {
	if _, ok := resultAs[Out](l.Result); l.Result != nil && !ok {
		return fmt.Sprintf("replaces the result by a %T, but the function returns a %v", l.Result, reflect.TypeFor[Out]())
	}
	if l.Huge > 0 && !grow(reflect.New(reflect.TypeFor[Out]()).Elem(), 1, maxDepth) {
		return fmt.Sprintf("makes the result grow, but a %v has no text and no list", reflect.TypeFor[Out]())
	}
	return ""
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
		left, inTime := request.travel(ctx)
		if inTime || !request.isViolent() {
			w.plan.strikes(w.step, onRequest)
		}
		if !inTime && len(request.ends()) == 0 {
			w.arriveLate(ctx, left)
		}
		if !inTime {
			return out, context.Cause(ctx)
		}
		if ended, out, err := end(ctx, request, out); ended {
			return out, err
		}
	}
	out, err = w.deliver(ctx)
	if answer := &w.fault.Answer; !answer.isZero() {
		_, inTime := answer.travel(ctx)
		if inTime || !answer.isViolent() {
			w.plan.strikes(w.step, onAnswer)
		}
		if !inTime {
			return *new(Out), context.Cause(ctx)
		}
		if ended, out, err := end(ctx, answer, out); ended {
			return out, err
		}
	}
	return out, err
}

// deliver has the effect, as often as the request arrives.
func (w *wrapped[Out]) deliver(ctx context.Context) (Out, error) {
	out, err := w.effect(ctx)
	for range w.fault.Duplicate {
		w.plan.strikes(w.step, onDelivery)
		unanswered(func() { _, _ = w.effect(ctx) })
	}
	return out, err
}

// unanswered runs what nobody hears the end of. A goroutine of its own, because f
// may end its goroutine.
func unanswered(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		f()
	}()
	<-done
}

// arriveLate lets the request arrive although its attempt is over. Nobody waits
// for the answer, so whatever was to befall that has befallen it, but for what
// would have been seen by others.
func (w *wrapped[Out]) arriveLate(ctx context.Context, left time.Duration) {
	if !w.fault.Answer.isViolent() {
		w.plan.strikes(w.step, onAnswer)
	}
	ctx = context.WithoutCancel(ctx)
	w.plan.late.Go(func() {
		defer func() { _ = recover() }()
		time.Sleep(left)
		_, _ = w.deliver(ctx)
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

// end ends the attempt as l says, if it does. was is the answer so far.
func end[Out any](ctx context.Context, l *Leg, was Out) (ended bool, out Out, err error) {
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
	case l.Crash != nil:
		l.Crash.Kill()
		return true, out, ErrCrashed
	case l.Empty:
		return true, out, nil
	case l.Garble:
		garble(reflect.ValueOf(&out).Elem())
		return true, out, nil
	case l.Huge > 0:
		grow(reflect.ValueOf(&was).Elem(), l.Huge, maxDepth)
		return true, was, nil
	case l.Result != nil:
		out, _ = resultAs[Out](l.Result) // Wrap has checked it
		return true, out, nil
	}
	return false, out, nil
}
