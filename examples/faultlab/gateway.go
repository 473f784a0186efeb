package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/toolexec/toolexec"
)

// Refund is what process_refund is asked for; Receipt is its result.
type Refund struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}

// Receipt is the gateway's word that a refund was posted.
type Receipt struct {
	ID    string `json:"receipt"`
	Cents int    `json:"cents"`
}

// gateway is a payment service with a ledger that counts. The acknowledgement of
// the first refund is lost: it is posted, and then nothing is heard of it.
type gateway struct {
	dedupes bool // it knows a ref again

	mu       sync.Mutex // protects what follows
	requests int
	ledger   []posting
	confirms int
}

type posting struct {
	ref, order string
	receipt    Receipt
}

// post has the effect, once a ref if the gateway dedupes.
func (g *gateway) post(ref string, in Refund) Receipt {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	for _, p := range g.ledger {
		if g.dedupes && p.ref == ref {
			return p.receipt
		}
	}
	r := Receipt{ID: fmt.Sprintf("rcpt_%d", len(g.ledger)+1), Cents: in.Cents}
	g.ledger = append(g.ledger, posting{ref, in.OrderID, r})
	return r
}

// confirm waits for the acknowledgement.
func (g *gateway) confirm(ctx context.Context) error {
	g.mu.Lock()
	g.confirms++
	lost := g.confirms == 1
	g.mu.Unlock()
	if lost {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// refund posts under ref and waits for the acknowledgement.
func (g *gateway) refund(ctx context.Context, ref string, in Refund) (Receipt, error) {
	r := g.post(ref, in)
	if err := g.confirm(ctx); err != nil {
		return Receipt{}, err
	}
	return r, nil
}

// lookUp finds the refund of an operation.
func (g *gateway) lookUp(_ context.Context, ref string, _ Refund) (toolexec.Finding[Receipt], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.ledger {
		if p.ref == ref {
			return toolexec.Found(p.receipt), nil
		}
	}
	return toolexec.Absent[Receipt](), nil
}

// sum reads the ledger: the requests that arrived, and what was refunded.
func (g *gateway) sum() (requests, refunds, cents int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.ledger {
		cents += p.receipt.Cents
	}
	return g.requests, len(g.ledger), cents
}

func money(cents int) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }
