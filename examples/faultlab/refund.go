package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolexec/toolexec"
)

const order = "ORD-5510"

var (
	theRefund  = Refund{OrderID: order, Cents: 8000}
	partRefund = fmt.Sprintf("Part 2: a refund of %s for %s is posted, its acknowledgement is lost; five ways", money(theRefund.Cents), order)
)

// refunds are the five ways.
func (l *lab) refunds() []exhibitor {
	return []exhibitor{
		l.blind,
		l.way("2 Write: the effect is recorded first (MarkCommitted)", toolexec.Write, 2, func(g *gateway, t *toolexec.Tool[Refund, Receipt]) {
			t.Run = func(ctx context.Context, in Refund) (Receipt, error) {
				r := g.post(toolexec.OperationRef(ctx), in)
				if err := toolexec.MarkCommitted(ctx, r); err != nil {
					return Receipt{}, err
				}
				return r, g.confirm(ctx)
			}
		}),
		l.way("3 Idempotent: the gateway dedupes by operation ref", toolexec.Idempotent, 1, func(g *gateway, _ *toolexec.Tool[Refund, Receipt]) {
			g.dedupes = true
		}),
		l.way("4 Write: a verifier can look it up (Verify)", toolexec.Write, 1, func(g *gateway, t *toolexec.Tool[Refund, Receipt]) {
			t.Verify = &toolexec.Verifier[Refund, Receipt]{
				Lookup: g.lookUp, Authoritative: true,
				Settle: l.short(toolexec.DefaultSettle), Deadline: l.short(toolexec.DefaultVerifyDeadline),
			}
		}),
		l.undeclared,
	}
}

// blind retries by hand, as one does without an executor: an error is an error,
// so try again.
func (l *lab) blind(ctx context.Context) (*exhibit, error) {
	b := l.bench(partRefund, "1 blind retry: a loop, no executor")
	b.gateway = &gateway{}
	pause := l.short(documented.Backoff.Initial)
	for n := 1; n <= 1+documented.MaxRetries; n++ {
		err := l.blindAttempt(ctx, b, n)
		if err == nil {
			break
		}
		b.trace.Start(ctx, toolexec.PauseInfo{})
		time.Sleep(pause)
		b.trace.End(ctx, toolexec.PauseInfo{For: pause})
		pause *= 2
	}
	return b.done(ctx)
}

func (l *lab) blindAttempt(ctx context.Context, b *bench, n int) error {
	ctx, cancel := context.WithTimeout(ctx, l.short(documented.Deadline))
	defer cancel()
	b.trace.Start(ctx, toolexec.AttemptInfo{N: n})
	_, err := b.gateway.refund(ctx, "", theRefund)
	b.trace.End(ctx, toolexec.AttemptInfo{N: n, Done: true, OK: err == nil, Cause: err})
	return err
}

// way makes the refund through an executor, as often as calls says.
func (l *lab) way(title string, effect toolexec.Effect, calls int, declare func(*gateway, *toolexec.Tool[Refund, Receipt])) exhibitor {
	return func(ctx context.Context) (*exhibit, error) {
		b := l.refundBench(title, effect, declare)
		for range calls {
			b.call(ctx, refundCall())
		}
		return b.done(ctx)
	}
}

func (l *lab) refundBench(title string, effect toolexec.Effect, declare func(*gateway, *toolexec.Tool[Refund, Receipt])) *bench {
	b := l.bench(partRefund, title)
	g := &gateway{}
	b.gateway, b.effect = g, effect
	tool := toolexec.Tool[Refund, Receipt]{
		Name:   "process_refund",
		Effect: effect,
		Ref:    func(in Refund) string { return in.OrderID },
		Run: func(ctx context.Context, in Refund) (Receipt, error) {
			return g.refund(ctx, toolexec.OperationRef(ctx), in)
		},
	}
	declare(g, &tool)
	toolexec.Bind(&b.x, tool)
	return b
}

func refundCall() toolexec.Call {
	arguments, err := json.Marshal(theRefund)
	if err != nil {
		panic(err) // a string and an int
	}
	return toolexec.Call{Name: "process_refund", Arguments: arguments}
}

// undeclared says nothing about the refund, so a person has to.
func (l *lab) undeclared(ctx context.Context) (*exhibit, error) {
	b := l.refundBench("5 Write: nothing is declared", toolexec.Write, func(*gateway, *toolexec.Tool[Refund, Receipt]) {})
	b.vet = b.x.Vet()
	env := b.call(ctx, refundCall())
	b.call(ctx, refundCall()) // the model tries again all the same
	if err := b.askPerson(ctx, env.OperationRef); err != nil {
		return nil, err
	}
	b.call(ctx, refundCall())
	return b.done(ctx)
}

// askPerson has somebody read the gateway's ledger and say what is there.
func (b *bench) askPerson(ctx context.Context, ref string) error {
	state := toolexec.NotCommitted
	_, refunds, cents := b.gateway.sum()
	if refunds > 0 {
		state = toolexec.Committed
	}
	seen := fmt.Sprintf("the gateway's ledger shows %s, %s", count(refunds, "refund"), money(cents))
	people := toolexec.Supervisor{Executor: &b.x}
	rec, err := people.Resolve(ctx, toolexec.Key{Ref: ref}, state, toolexec.Statement{Actor: "ops@example.com", Evidence: seen})
	if err != nil {
		return err
	}
	b.trace.add(event{word: "person", text: seen + ": " + rec.State.String()})
	return nil
}
