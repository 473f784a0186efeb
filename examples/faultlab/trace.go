package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/toolexec/toolexec"
)

// trace is an Observer that writes down what an executor saw and did. Its clock
// adds up what attempts, pauses and look-ups took; what is between them is the
// machine's.
type trace struct {
	lab *lab

	mu       sync.Mutex // protects what follows
	last     time.Time  // when the clock was read
	clock    time.Duration
	events   []event
	attempts []toolexec.AttemptInfo // that have ended
}

// event is one line of a trace.
type event struct {
	from, to time.Duration // documented, since the exhibit began
	word     string        // call, saw, did, answered or person
	text     string
	mark     string // its first column in the chart; "": it is not in it
	fill     string // its other columns
	answer   int    // of an answer: which
}

// now is the documented time since the exhibit began. What ended now cannot have
// taken longer than most. Called with mu held.
func (t *trace) now(most time.Duration) time.Duration {
	at := time.Now()
	if !t.last.IsZero() {
		t.clock += min(t.lab.long(at.Sub(t.last)).Truncate(t.lab.grain()), most)
	}
	t.last = at
	return t.clock
}

// add writes down what happens or begins now.
func (t *trace) add(e event) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.from = t.now(0)
	e.to = e.from
	t.events = append(t.events, e)
	return e.from
}

// end completes the last event: here things happen one after the other. Its
// duration is bounded by most.
func (t *trace) end(text string, most time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := &t.events[len(t.events)-1]
	last.to, last.text = t.now(most), text
}

// attempt is told the end of an attempt, which is answered for at its deadline.
func (t *trace) attempt(a toolexec.AttemptInfo) {
	t.end(describe(a), documented.Deadline)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts = append(t.attempts, a)
}

func describe(a toolexec.AttemptInfo) string {
	s := fmt.Sprintf("attempt %d: ", a.N)
	switch {
	case a.OK:
		return s + "ok"
	case a.Code == "": // no executor judged it
		return s + a.Cause.Error()
	}
	return s + strings.Join([]string{string(a.Code), a.Class.String(), a.Evidence.String()}, ", ")
}

// Start implements toolexec.Observer.
func (t *trace) Start(ctx context.Context, e toolexec.Event) context.Context {
	switch e := e.(type) {
	case toolexec.AttemptInfo:
		t.add(event{word: "saw", mark: fmt.Sprint(e.N), fill: "="})
	case toolexec.PauseInfo:
		t.add(event{word: "did", mark: ".", fill: "."})
	case toolexec.VerificationInfo:
		t.add(event{word: "did", mark: "?", fill: "?"})
	}
	return ctx
}

// End implements toolexec.Observer.
func (t *trace) End(_ context.Context, e toolexec.Event) {
	switch e := e.(type) {
	case toolexec.AttemptInfo:
		t.attempt(e)
	case toolexec.PauseInfo:
		length := t.lab.long(e.For)
		t.end("pause "+seconds(length), length)
	case toolexec.VerificationInfo:
		t.end("look-up of "+e.Key.Ref+": "+finding(e), toolexec.DefaultVerifyDeadline)
	}
}

// Note implements toolexec.Observer.
func (t *trace) Note(_ context.Context, e toolexec.Event) {
	if d, ok := e.(toolexec.GuardDecision); ok && d.Move != "run" {
		t.add(event{word: "did", text: fmt.Sprintf("guard: %s (the record is %s); the tool is not invoked", d.Move, d.State)})
	}
}

func finding(v toolexec.VerificationInfo) string {
	switch {
	case v.Failed:
		return "cannot tell"
	case v.Verdict == toolexec.FoundEffect:
		return "the effect is there"
	case v.Verdict == toolexec.NoEffect:
		return "no effect"
	}
	return "another effect"
}
