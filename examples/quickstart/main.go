// Command quickstart refunds an order through a gateway that posts the refund
// and then loses the answer: go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	"github.com/toolexec/toolexec"
)

// Refund is what the tool is asked for; Receipt is its result.
type Refund struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}

// Receipt is the gateway's word that a refund was posted.
type Receipt struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, w io.Writer) error {
	var gateway Gateway
	var x toolexec.Executor // the zero Executor works
	out := log.New(w, "", 0)

	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name:   "process_refund", // a Write, as every tool that does not say otherwise
		Run:    gateway.Refund,
		Ref:    func(in Refund) string { return in.OrderID }, // once per order
		Verify: &toolexec.Verifier[Refund, Receipt]{Lookup: gateway.LookUp, Authoritative: true},
	})

	for range 2 { // calling again is always safe
		env := refund.Call(ctx, Refund{OrderID: "ORD-5510", Cents: 8000})
		switch env.NextAction {
		case toolexec.NextContinue:
			out.Printf("%s: %s, known by %s, replayed: %t", env.OperationRef, env.Result.ID, env.Verification.Source, env.Replayed)
		case toolexec.NextCorrectInput:
			out.Println("ask for other arguments:", env.FieldErrors)
		case toolexec.NextWaitAndRetry:
			out.Println("call again, same arguments, not before", env.Retry.NotBefore)
		case toolexec.NextVerifyOperation: // a call with the same ref asks the verifier again
			out.Println("find out what became of", env.OperationRef, "not before", env.Retry.NotBefore)
		case toolexec.NextRequestApproval:
			out.Println("hold for a person's approval:", env.AgentMessage)
		default: // NextEscalate, and whatever a newer version adds
			out.Println("a person must look:", env.Err())
		}
	}
	out.Print("refunds posted: ", gateway.Posted())
	return x.Close(ctx)
}

// Gateway stands for a payment service. It posts the first refund, and then the
// connection breaks.
type Gateway struct {
	mu     sync.Mutex // protects what follows
	posted []posting
}

type posting struct {
	ref     string
	receipt Receipt
}

// Refund posts a refund under the operation's ref.
func (g *Gateway) Refund(ctx context.Context, in Refund) (Receipt, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	receipt := Receipt{ID: fmt.Sprintf("rcpt_%d", len(g.posted)+1), Cents: in.Cents}
	g.posted = append(g.posted, posting{toolexec.OperationRef(ctx), receipt})
	if len(g.posted) == 1 {
		return Receipt{}, io.ErrUnexpectedEOF
	}
	return receipt, nil
}

// LookUp finds a refund by the operation's ref.
func (g *Gateway) LookUp(_ context.Context, ref string, _ Refund) (toolexec.Finding[Receipt], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.posted {
		if p.ref == ref {
			return toolexec.Found(p.receipt), nil
		}
	}
	return toolexec.Absent[Receipt](), nil
}

// Posted returns how many refunds were posted.
func (g *Gateway) Posted() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.posted)
}
