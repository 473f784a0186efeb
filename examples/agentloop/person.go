package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolexec/toolexec"
)

// person is a scripted one: it allows a refund of an order's amount, and settles
// what is stuck by what the ledgers say.
type person struct {
	supervisor toolexec.Supervisor
	shop       *shop
	allowed    []approval
	denied     int
}

// approval is what a person allowed, and when.
type approval struct {
	ref, summary string
	at           time.Time
}

func says(format string, args ...any) toolexec.Statement {
	return toolexec.Statement{Actor: "ops@example.com", Evidence: fmt.Sprintf(format, args...)}
}

// Review implements People.
func (p *person) Review(ctx context.Context, key toolexec.Key) (allowed bool, said string, err error) {
	rec, err := p.supervisor.Get(ctx, key)
	if err != nil {
		return false, "", err
	}
	if rec.State != toolexec.StateAwaitingApproval {
		return true, "a person sees that nothing is held any more", nil
	}
	seen := rec.Approval.Summary
	if !slices.ContainsFunc(orders, func(o Order) bool { return summary(o.ID, o.Cents) == seen }) {
		if _, err := p.supervisor.Deny(ctx, key, says("%s is not what was paid", seen)); err != nil {
			return false, "", err
		}
		p.denied++
		// The amount is denied, not the refund: the right call may still be made.
		_, err := p.supervisor.Resolve(ctx, key, toolexec.NotCommitted, says("nothing was sent"))
		return false, "a person denies \"" + seen + "\", it is not what was paid", err
	}
	if _, err := p.supervisor.Approve(ctx, key, rec.Approval.Digest, says("it is what was paid"), 0); err != nil {
		return false, "", err
	}
	p.allowed = append(p.allowed, approval{key.Ref, seen, time.Now()})
	return true, "a person allows \"" + seen + "\"", nil
}

// Settle implements People.
func (p *person) Settle(ctx context.Context, key toolexec.Key) (again bool, said string, err error) {
	rec, err := p.supervisor.Get(ctx, key)
	if errors.Is(err, toolexec.ErrNotFound) { // a read, or nothing was ever started
		return false, "a person finds no operation", nil
	}
	if err != nil {
		return false, "", err
	}
	if rec.State != toolexec.StateEscalated && rec.State != toolexec.StateUnknown {
		return true, fmt.Sprintf("a person sees that it is %s", rec.State), nil
	}
	ledger := p.shop.gateway
	if rec.Tool == "send_mail" {
		ledger = p.shop.mailbox
	}
	found := ledger.entries(func(e posting) bool { return e.Ref == key.Ref })
	state := toolexec.NotCommitted
	if len(found) > 0 {
		state = toolexec.Committed
	}
	_, err = p.supervisor.Resolve(ctx, key, state, says("the ledger has %d of it", len(found)))
	return true, fmt.Sprintf("a person finds %d of it in the ledger: %s", len(found), state), err
}
