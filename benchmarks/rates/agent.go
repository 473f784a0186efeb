package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/toolexec/toolexec/toolexectest"
)

// maxCalls is how often the agent calls for one operation before it gives up,
// and patience how long it then goes by what comes to light without a call.
// maxAttempts is how many attempts at one operation a scenario has faults for.
const (
	maxCalls    = 6
	maxAttempts = 24
	patience    = 5 * time.Minute
)

// style is how the agent calls again what failed.
type style int

const (
	withRef    style = iota // each call names the operation; it waits as long as it is told to
	withoutRef              // no call does; it waits all the same
	replanned               // the first call does; then it plans anew: without the ref, and without waiting
	styles
)

func (s style) String() string { return [styles]string{"with the ref", "without", "planned anew"}[s] }

// told is what an answer says of the operation.
type told int

const (
	toldUnknown told = iota
	toldNotDone
	toldDone
)

// answer is what a contender tells the agent.
type answer struct {
	told      told
	stop      bool      // calling again is no use, or forbidden
	notBefore time.Time // when to call again; zero: any time
	ref       string    // the operation, where the contender names it
}

// call is a tool call of the agent's.
type call struct {
	id, ref, run string // id is never the same twice, but for a call that is delivered twice
	in           refund
}

type refund struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}

// receipt is the remote side's answer, and says whose request made the effect.
type receipt struct {
	Operation int       `json:"operation"`
	Sent      time.Time `json:"sent"` // when the attempt began
}

// operation is one effect that is wanted, once. Those of a world are equal in
// their arguments.
type operation struct {
	n     int
	w     *world
	began time.Time
	plan  *toolexectest.Plan
	send  func(context.Context, request) (receipt, error)
	calls int         // the agent's
	news  chan answer // what came to light without a call

	mu      sync.Mutex // protects what follows
	crash   crash
	refs    map[string]bool // by which contenders name it
	last    told
	at      time.Time
	denials []time.Time // when it was said that it is not done
}

// pursue is the agent: it calls until it is told that the operation is done or
// that it must stop, or has called often enough, and begins again when it hears
// later that it may.
func (o *operation) pursue(ctx context.Context) {
	over := o.try(ctx)
	for !over && o.mayGoOn() {
		over = o.try(ctx)
	}
}

// try calls up to maxCalls times, and reports whether there is nothing left to
// call for.
func (o *operation) try(ctx context.Context) (over bool) {
	for range maxCalls {
		h := o.host()
		a, alive := h.deliver(ctx, o, o.next())
		if !alive {
			continue
		}
		o.hear(a)
		if a.told == toldDone || a.stop {
			return true
		}
		if o.w.style != replanned {
			time.Sleep(time.Until(a.notBefore))
		}
		time.Sleep(o.w.thinks[o.n][o.calls%maxCalls])
	}
	return false
}

// mayGoOn waits for what comes to light without a call, where the contender
// remembers anything that can.
func (o *operation) mayGoOn() bool {
	if !o.w.contender.ours {
		return false
	}
	select {
	case a := <-o.news:
		return a.told != toldDone && !a.stop
	case <-time.After(patience):
		return false
	}
}

// next is the agent's next call for o.
func (o *operation) next() call {
	o.calls++
	return o.call(o.calls)
}

// call is the agent's n-th for o, from 1.
func (o *operation) call(n int) call {
	c := call{
		id: "call_" + strconv.Itoa(o.n) + "_" + strconv.Itoa(n), run: "run_" + strconv.Itoa(o.n),
		in: refund{OrderID: "ORD-5510", Cents: 8000},
	}
	if o.w.style == withRef || o.w.style == replanned && n == 1 {
		c.ref = c.run + "/step_1"
		o.named(c.ref)
	}
	return c
}

func (o *operation) named(ref string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refs[ref] = true
}

// hear takes note of an answer. That it is done is the last word.
func (o *operation) hear(a answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if a.ref != "" {
		o.refs[a.ref] = true
	}
	if o.last == toldDone {
		return
	}
	o.last, o.at = a.told, time.Now()
	if a.told == toldNotDone {
		o.denials = append(o.denials, o.at)
	}
}

// isNamed reports whether the agent knows o by ref.
func (o *operation) isNamed(ref string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refs[ref]
}
