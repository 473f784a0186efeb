package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolexec/toolexec"
)

// documented is the wrapper that every exhibit runs in.
var documented = toolexec.Policy{
	Deadline:      2 * time.Second,
	TotalDeadline: 10 * time.Second,
	MaxRetries:    2,
	MaxPause:      5 * time.Second,
	Backoff:       toolexec.Backoff{Initial: 500 * time.Millisecond, Multiplier: 2, Max: 30 * time.Second},
}

// lab runs exhibits, speed times faster than documented.
type lab struct{ speed int }

// short is how long the lab takes for what is documented to take d.
func (l *lab) short(d time.Duration) time.Duration { return d / time.Duration(l.speed) }

// long is what is documented for what takes the lab d.
func (l *lab) long(d time.Duration) time.Duration { return d * time.Duration(l.speed) }

// grain is what times are rounded down to: all documented ones are multiples of
// it, so what the machine adds does not show.
func (l *lab) grain() time.Duration {
	if l.speed == 1 {
		return 100 * time.Millisecond
	}
	return 500 * time.Millisecond
}

// policy is the documented one, made shorter. The total deadline stays: no
// exhibit comes near it, and on a slow machine none should.
func (l *lab) policy() toolexec.Policy {
	p := documented
	p.Deadline, p.MaxPause = l.short(p.Deadline), l.short(p.MaxPause)
	p.Backoff.Initial, p.Backoff.Max = l.short(p.Backoff.Initial), l.short(p.Backoff.Max)
	return p
}

// exhibit is one run: what was called, what happened, what was answered.
type exhibit struct {
	part    string // the heading it stands under
	title   string
	vet     []string // what the executor finds in the declarations
	effect  toolexec.Effect
	trace   *trace
	answers []answer
	gateway *gateway // nil: it has no ledger
}

// envelope is what a call by name is answered with.
type envelope = toolexec.Envelope[json.RawMessage]

// answer is what a call got.
type answer struct {
	envelope  envelope
	notBefore time.Duration // documented, since the exhibit began
}

// visit runs every exhibit and shows it.
func (l *lab) visit(ctx context.Context, show func(*exhibit) error) error {
	for _, run := range append(l.classes(), l.refunds()...) {
		e, err := run(ctx)
		if err != nil {
			return err
		}
		if err := show(e); err != nil {
			return err
		}
	}
	return nil
}

// bench is an exhibit being set up: an executor of its own, observed.
type bench struct {
	exhibit
	x toolexec.Executor
}

func (l *lab) bench(part, title string) *bench {
	b := &bench{exhibit: exhibit{part: part, title: title, trace: &trace{lab: l}}}
	b.x.Policy, b.x.Observer = l.policy(), b.trace
	return b
}

// call makes a call as an agent does, and keeps the answer.
func (b *bench) call(ctx context.Context, c toolexec.Call) envelope {
	b.trace.add(event{word: "call", text: c.Name + " " + string(c.Arguments)})
	env := b.x.Execute(ctx, c)
	at := b.trace.add(event{word: "answered", answer: len(b.answers)})
	left, grain := b.trace.lab.long(time.Until(env.Retry.NotBefore)), b.trace.lab.grain()
	b.answers = append(b.answers, answer{env, at + (left + grain - 1).Truncate(grain)})
	return env
}

// done waits for whatever outlived its call, and hands over the exhibit.
func (b *bench) done(ctx context.Context) (*exhibit, error) {
	return &b.exhibit, b.x.Close(ctx)
}
