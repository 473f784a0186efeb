package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/toolexec/toolexec"
)

// The tools of a shop. What is declared about each decides what becomes of the
// mistakes of whoever calls it.

// Search is what search_orders is asked for; Order is one of its results.
type Search struct {
	Customer string `json:"customer"`
}

// Order is an order of the shop.
type Order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// Refund is what process_refund is asked for; Receipt is its result.
type Refund struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
	Reason  string `json:"reason,omitempty"`
}

// Receipt is the gateway's word that a refund was posted.
type Receipt struct {
	ID string `json:"receipt"`
}

// Mail is what send_mail is asked for; Sent is its result.
type Mail struct {
	OrderID string `json:"order_id"`
	Text    string `json:"text"`
}

// Sent is the mail server's word that it took a mail.
type Sent struct {
	ID string `json:"mail"`
}

const (
	customer = "C-17"
	limit    = 10000 // cents; a larger refund needs a person's approval
)

// orders are what the customer wants to have refunded.
var orders = []Order{{"ORD-1001", 8000}, {"ORD-1002", 2550}, {"ORD-1003", 24900}, {"ORD-1004", 12000}}

func orderIDs() (ids []string) {
	for _, o := range orders {
		ids = append(ids, o.ID)
	}
	return ids
}

func orderNamed(id string) (Order, bool) {
	i := slices.IndexFunc(orders, func(o Order) bool { return o.ID == id })
	if i < 0 {
		return Order{}, false
	}
	return orders[i], true
}

// shop is the remote sides behind the tools.
type shop struct {
	pace     pace
	archive  *service // where orders are found
	gateway  *service
	mailbox  *service
	tools    []string
	findings []string // what the executor says of the declarations
}

// openShop binds the tools to x. The seed says what befalls their requests.
func openShop(x *toolexec.Executor, p pace, rng *rand.Rand) *shop {
	s := &shop{
		pace:    p,
		archive: &service{pace: p, prefix: "search", accept: func(posting) error { return nil }},
		gateway: &service{pace: p, prefix: "rcpt", accept: checkRefund},
		mailbox: &service{pace: p, prefix: "mail", accept: checkMail, lag: 2 * time.Second},
	}
	s.archive.deal(rng, []string{customer}, busy, refused, lostAnswer)
	s.gateway.deal(rng, orderIDs(), refused, outage, busy, lostRequest, late, crashed, broken, lostAnswer, slow, crashedDone)
	s.mailbox.deal(rng, orderIDs(), refused, outage, busy, lostRequest, late, crashed, broken, slow)
	s.bind(x)
	s.findings = x.Vet()
	return s
}

func (s *shop) bind(x *toolexec.Executor) {
	search := toolexec.Bind(x, toolexec.Tool[Search, []Order]{
		Name:        "search_orders",
		Description: "Find a customer's orders that are to be refunded.",
		Effect:      toolexec.ReadOnly,
		Run:         s.search,
	})
	refund := toolexec.Bind(x, toolexec.Tool[Refund, Receipt]{
		Name:        "process_refund",
		Description: "Refund an order once, in full.",
		Run:         s.refund,
		Ref:         func(in Refund) string { return in.OrderID }, // once per order, whoever calls
		IgnoreFields: []string{
			"/reason", // other words are no other refund
		},
		Verify: &toolexec.Verifier[Refund, Receipt]{
			Lookup: s.lookUpRefund, Authoritative: true,
			Settle: s.pace.short(10 * time.Second), Deadline: s.pace.short(toolexec.DefaultVerifyDeadline),
		},
		Approval: &toolexec.Approval[Refund]{
			Required: func(in Refund) bool { return in.Cents > limit },
			Summary:  func(in Refund) string { return summary(in.OrderID, in.Cents) },
		},
	})
	mail := toolexec.Bind(x, toolexec.Tool[Mail, Sent]{
		Name:        "send_mail",
		Description: "Send the customer a mail about an order.",
		Run:         s.mail,
		MarksSent:   true,
		Verify: &toolexec.Verifier[Mail, Sent]{ // its index lags, so what it does not show may be there
			Lookup: s.lookUpMail, MaxChecks: 2,
			Settle: s.pace.short(5 * time.Second), Deadline: s.pace.short(toolexec.DefaultVerifyDeadline),
		},
	})
	s.tools = []string{search.Name(), refund.Name(), mail.Name()}
}

// summary is what the reviewer of a refund sees.
func summary(order string, cents int) string { return "refund " + order + ": " + money(cents) }

func (s *shop) search(ctx context.Context, in Search) ([]Order, error) {
	if _, err := s.archive.send(ctx, posting{Order: in.Customer}); err != nil {
		return nil, err
	}
	if in.Customer != customer {
		return nil, nil
	}
	return orders, nil
}

func (s *shop) refund(ctx context.Context, in Refund) (Receipt, error) {
	id, err := s.gateway.send(ctx, posting{Ref: toolexec.OperationRef(ctx), Order: in.OrderID, Cents: in.Cents})
	return Receipt{id}, err
}

func (s *shop) lookUpRefund(_ context.Context, ref string, _ Refund) (toolexec.Finding[Receipt], error) {
	return verdict(s.gateway.find(ref), func(p posting) Receipt { return Receipt{p.Receipt} }), nil
}

func (s *shop) mail(ctx context.Context, in Mail) (Sent, error) {
	s.mailbox.crash(in.OrderID) // before the mark: then nothing was sent
	if err := toolexec.MarkSent(ctx); err != nil {
		return Sent{}, err
	}
	id, err := s.mailbox.send(ctx, posting{Ref: toolexec.OperationRef(ctx), Order: in.OrderID, Text: in.Text})
	return Sent{id}, err
}

func (s *shop) lookUpMail(_ context.Context, ref string, _ Mail) (toolexec.Finding[Sent], error) {
	return verdict(s.mailbox.find(ref), func(p posting) Sent { return Sent{p.Receipt} }), nil
}

// checkRefund is what the gateway refuses: it knows the orders and their amounts.
func checkRefund(p posting) error {
	o, ok := orderNamed(p.Order)
	switch {
	case !ok:
		return toolexec.Rejected(toolexec.CodeNotFound, errors.New("404: no such order"))
	case p.Cents != o.Cents:
		return toolexec.Invalid("cents", "the amount of the order")
	}
	return nil
}

// checkMail is what the mail server refuses.
func checkMail(p posting) error {
	if _, ok := orderNamed(p.Order); !ok {
		return toolexec.Rejected(toolexec.CodeNotFound, errors.New("550: no such recipient"))
	}
	return nil
}

// close waits for what is still on its way.
func (s *shop) close() {
	for _, remote := range []*service{s.archive, s.gateway, s.mailbox} {
		remote.late.Wait()
	}
}

func money(cents int) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }
