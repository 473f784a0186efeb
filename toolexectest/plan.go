package toolexectest

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolexec/toolexec"
)

// Plan says which fault befalls which attempt. Make it with [Script] or [Draw];
// a nil Plan and the zero Plan have none. Its methods are safe for concurrent
// use. It must not be copied.
type Plan struct {
	steps []Fault // read-only
	late  sync.WaitGroup

	mu       sync.Mutex // protects what follows
	attempts int
	taken    int // steps
	lasts    time.Time
	struck   map[strike]bool
}

// strike names one way of one step.
type strike struct{ step, way int }

// Script returns the plan by which the n-th attempt meets the n-th step;
// attempts after the last step meet no fault. Attempts are counted in the order
// in which they start, over all functions that are wrapped with the plan; those
// that a lasting fault befalls take no step of their own. It panics when a step
// contradicts itself.
func Script(steps ...Fault) *Plan {
	for i := range steps {
		if problem := steps[i].problem(); problem != "" {
			panic(fmt.Sprintf("toolexectest: Script: step %d (%v): %s", i+1, steps[i], problem))
		}
	}
	return &Plan{steps: slices.Clone(steps)}
}

// Nth returns the steps of a script in which f befalls the n-th attempt alone:
// Script(Nth(3, DropAnswer())...).
func Nth(n int, f Fault) []Fault {
	if n < 1 {
		panic(fmt.Sprintf("toolexectest: Nth: attempts are counted from 1, and there is none of number %d", n))
	}
	return append(make([]Fault, n-1), f)
}

// Draw returns a script of n steps that are drawn from the given faults, with no
// fault among them where [OK] is. The same arguments give the same script, in
// every version of Go and of this package; [Plan.String] prints it. It panics as
// Script does, and when there is nothing to draw from.
func Draw(seed uint64, n int, from ...Fault) *Plan {
	if len(from) == 0 {
		panic("toolexectest: Draw: there is no fault to draw from")
	}
	rng := rand.New(rand.NewPCG(seed, 0)) // its sequence is promised by math/rand/v2
	steps := make([]Fault, max(n, 0))
	for i := range steps {
		steps[i] = from[rng.Uint64()%uint64(len(from))]
	}
	return Script(steps...)
}

// Catalogue ranges over every way in which one attempt can fail by itself, each
// with a name, so that a test can run them all. They fit a tool whose attempts
// have the given deadline; 0 stands for [toolexec.DefaultDeadline]. What needs a
// value of the tool's is not among them: [Lie] with a result, [HugeAnswer],
// [CrashRequest] and [CrashAnswer]. One of them delivers the request twice
// (Fault.Duplicate), which only the remote side can make one effect of.
func Catalogue(deadline time.Duration) iter.Seq2[string, Fault] {
	if deadline <= 0 {
		deadline = toolexec.DefaultDeadline
	}
	return func(yield func(string, Fault) bool) {
		for _, entry := range catalogue(deadline) {
			if !yield(entry.name, entry.fault) {
				return
			}
		}
	}
}

type named struct {
	name  string
	fault Fault
}

func catalogue(deadline time.Duration) []named {
	late := deadline + deadline/2
	return []named{
		{"not sent", NotSent()},
		{"request lost", DropRequest()},
		{"answer lost", DropAnswer()},
		{"slow request", DelayRequest(deadline / 2)},
		{"slow answer", DelayAnswer(deadline / 2)},
		{"effect after the deadline", DelayRequest(late)},
		{"answer after the deadline", DelayAnswer(late)},
		{"hang that ignores its context", Hang(late)},
		{"hang after the effect", Fault{Answer: Leg{Hang: late}}},
		{"error before the effect", FailRequest(ErrInjected)},
		{"error after the effect", FailAnswer(ErrInjected)},
		{"transient error after the effect", FailAnswer(toolexec.Transient(ErrInjected))},
		{"refused: transient", Refuse(toolexec.ClassTransient)},
		{"refused: permanent", Refuse(toolexec.ClassPermanent)},
		{"refused: nothing found", Refuse(toolexec.ClassEmptyResult)},
		{"refused: malformed", Refuse(toolexec.ClassMalformed)},
		{"refused: unknown tool", Refuse(toolexec.ClassUnknownTool)},
		{"rate limited", RateLimited(deadline / 2)},
		{"panic before the effect", PanicRequest("injected")},
		{"panic after the effect", PanicAnswer("injected")},
		{"Goexit before the effect", ExitRequest()},
		{"Goexit after the effect", ExitAnswer()},
		{"success without the effect", Lie(nil)},
		{"empty answer", EmptyAnswer()},
		{"answer of the wrong shape", GarbleAnswer()},
		{"delivered twice", Duplicate(1)},
		{"outage", Outage(10*deadline, NotSent())},
	}
}

// String returns the plan as the Go expression that makes it, so that what a
// drawn plan did can be kept as a test. An error that is not of this package is
// written as one with the same text.
func (p *Plan) String() string {
	if p == nil {
		return "(*toolexectest.Plan)(nil)"
	}
	steps := make([]string, len(p.steps))
	for i, f := range p.steps {
		steps[i] = f.GoString()
	}
	return "toolexectest.Script(" + strings.Join(steps, ", ") + ")"
}

// Attempts returns how many attempts have started.
func (p *Plan) Attempts() int {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attempts
}

// Unfired says, a line each, which faults of the script have not struck: their
// attempt was not made, or ended sooner.
func (p *Plan) Unfired() []string {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for i := range p.steps {
		for way, words := range p.steps[i].ways() {
			if len(words) > 0 && !p.struck[strike{i, way}] {
				out = append(out, fmt.Sprintf("step %d of %d: %s: did not fire in %d attempt(s)",
					i+1, len(p.steps), strings.Join(words, ", "), p.attempts))
			}
		}
	}
	return out
}

// Check fails t for each fault of the script that has not struck: a test that
// passes without its fault proves nothing.
func (p *Plan) Check(t testing.TB) {
	t.Helper()
	report(t, p.Unfired())
}

func report(t testing.TB, lines []string) {
	t.Helper()
	for _, line := range lines {
		t.Error("toolexectest: " + line)
	}
}

// Wait returns when the requests that outlived their attempts have arrived. Call
// it when no more attempts are made, and in a [testing/synctest] bubble before the
// test ends.
func (p *Plan) Wait() {
	if p != nil {
		p.late.Wait()
	}
}

// next counts an attempt and returns its fault.
func (p *Plan) next() (step int, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts++
	now := time.Now()
	if now.Before(p.lasts) {
		return p.taken - 1, p.steps[p.taken-1]
	}
	step = p.taken
	p.taken++
	if step < len(p.steps) {
		f = p.steps[step]
		if f.For > 0 {
			p.lasts = now.Add(f.For)
		}
	}
	return step, f
}

func (p *Plan) strikes(step, way int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.struck == nil {
		p.struck = make(map[strike]bool)
	}
	p.struck[strike{step, way}] = true
}
