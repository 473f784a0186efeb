package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// stage is one side of a run: the service, its tool, and who calls it.
type stage struct {
	*reel
	plan   plan
	side   string
	faults *toolexectest.Plan
	probes *toolexectest.Plan // the faults of look-ups

	ledger   toolexectest.Ledger
	requests atomic.Int64

	call  toolexec.Call
	blind func(ctx context.Context, arguments json.RawMessage) (any, error) // the tool without an executor
	x     toolexec.Executor
	watch *watch
}

const (
	sideToolexec = "toolexec"
	sideBlind    = "blind"

	// settle is the lab's settle window. The library's is longer, because
	// networks are more patient than people who look at a page.
	settle    = 4 * time.Second
	slowProbe = 1500 * time.Millisecond
	maxChecks = 3
)

// stage sets one side of p up.
func (r *reel) stage(p plan, side string) *stage {
	s := &stage{reel: r, plan: p, side: side, faults: p.script(r.lab), probes: p.probeScript(r.lab)}
	s.ledger.Dedupe = p.tool == toolIdempotent
	s.watch = newWatch(s)
	s.x.Policy, s.x.Observer = p.policy(r.lab), s.watch
	s.x.Store = new(toolexec.MemoryStore)
	if p.tool == toolRead {
		s.mountSearch()
	} else {
		s.mountRefund()
	}
	return s
}

func (s *stage) mountSearch() {
	s.call = toolexec.Call{Name: "search_orders", Arguments: json.RawMessage(`{"customer":"C-17"}`), OperationRef: "run_81/step_3"}
	mount(s, "serach_orders", `{"customer":17}`, toolexec.Tool[Search, []Order]{
		Name:   "search_orders",
		Effect: toolexec.ReadOnly,
		Run:    func(context.Context, Search) ([]Order, error) { return s.found(), nil },
	})
}

func (s *stage) mountRefund() {
	s.call = refundCall()
	s.call.OperationRef = "run_81/step_4" // an alias: the order names the operation
	tool := toolexec.Tool[Refund, Receipt]{
		Name: "process_refund",
		Ref:  func(in Refund) string { return in.OrderID },
		Run: func(ctx context.Context, in Refund) (Receipt, error) {
			return s.refund(toolexec.OperationRef(ctx), in), nil
		},
	}
	if s.plan.tool == toolIdempotent {
		tool.Effect = toolexec.Idempotent
	}
	if s.plan.verifier != verifierNone {
		tool.Verify = &toolexec.Verifier[Refund, Receipt]{
			Lookup:        toolexectest.WrapLookup(s.probes, toolexectest.Lookup[Refund, Receipt](&s.ledger)),
			Authoritative: true,
			Settle:        s.lab.short(settle),
			Deadline:      s.lab.short(toolexec.DefaultVerifyDeadline),
			MaxChecks:     maxChecks,
		}
	}
	mount(s, "proces_refund", `{"order_id":5510,"cents":8000}`, tool)
}

// mount wraps the tool in the plan's faults and gives it to both: the executor,
// and whoever calls it without one.
func mount[In, Out any](s *stage, misspelt, malformed string, tool toolexec.Tool[In, Out]) {
	tool.Run = toolexectest.Wrap(s.faults, tool.Run)
	toolexec.Bind(&s.x, tool)
	s.blind = func(ctx context.Context, arguments json.RawMessage) (any, error) {
		var in In
		if err := json.Unmarshal(arguments, &in); err != nil {
			return nil, err
		}
		return tool.Run(ctx, in)
	}
	switch s.plan.fault {
	case faultWrongName:
		s.call.Name = misspelt
		s.blind = func(context.Context, json.RawMessage) (any, error) {
			return nil, errors.New("no handler for " + strconv.Quote(misspelt))
		}
	case faultBadArguments:
		s.call.Arguments = json.RawMessage(malformed)
	}
}

// probeScript is the faults of the plan's look-ups.
func (p plan) probeScript(l *lab) *toolexectest.Plan {
	switch p.verifier {
	case verifierSlow:
		return toolexectest.Script(toolexectest.Outage(time.Hour, toolexectest.DelayAnswer(l.short(slowProbe))))
	case verifierEarly:
		return toolexectest.Script(toolexectest.Lie(toolexec.NoEffect))
	case verifierDown:
		return toolexectest.Script(toolexectest.Outage(time.Hour, toolexectest.FailRequest(errBusy)))
	}
	return nil
}

// found is the search: it has no effect.
func (s *stage) found() []Order {
	s.requests.Add(1)
	s.say(moment{Kind: kindRequest, Word: "asked", Text: "the service is asked, and changes nothing", Books: s.books()})
	return []Order{{ID: order, Cents: theRefund.Cents}}
}

// refund is the effect, unless the service has seen ref before.
func (s *stage) refund(ref string, in Refund) Receipt {
	n := s.requests.Add(1)
	receipt := Receipt{ID: fmt.Sprintf("rcpt_%d", n), Cents: in.Cents}
	posted, _ := s.ledger.Record(ref, receipt).Value.(Receipt)
	m := moment{Kind: kindEffect, Word: money(in.Cents), Text: "the service refunds " + money(in.Cents) + " for " + in.OrderID, Books: s.books()}
	if posted != receipt {
		m.Kind, m.Word = kindRequest, "known"
		m.Text = "the service knows ref " + ref + " again, and answers as before: no second effect"
	}
	s.say(m)
	return posted
}

// books are the service's, by now.
func (s *stage) books() *books {
	b := &books{Requests: int(s.requests.Load()), Entries: []entry{}}
	cents := 0
	for _, e := range s.ledger.Entries() {
		receipt, _ := e.Value.(Receipt)
		cents += receipt.Cents
		b.Entries = append(b.Entries, entry{N: e.N, Ref: e.Ref, Amount: money(receipt.Cents), At: s.at(e.At)})
	}
	b.Total = money(cents)
	return b
}

// say tells a moment of this side.
func (s *stage) say(m moment) {
	m.Side = s.side
	s.add(m)
}
