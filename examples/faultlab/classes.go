package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"syscall"

	"github.com/toolexec/toolexec"
)

const partClasses = "Part 1: five classes of failure, one tool that reads"

// Search is what search_orders is asked for; Order is one of its results.
type Search struct {
	Customer string `json:"customer"`
}

// Order is an order that was found.
type Order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// search is the service behind search_orders: what it does at an attempt.
type search func(ctx context.Context, attempt int) ([]Order, error)

type exhibitor = func(context.Context) (*exhibit, error)

// classes are the exhibits of the five classes.
func (l *lab) classes() []exhibitor {
	found := []Order{{ID: "ORD-5510", Cents: 8000}}
	good := toolexec.Call{Name: "search_orders", Arguments: json.RawMessage(`{"customer":"C-17"}`)}
	bad, misnamed := good, good
	bad.Arguments = json.RawMessage(`{"customer":17}`)
	misnamed.Name = "serach_orders"
	return []exhibitor{
		l.class("transient: the connection is refused twice", good, func(_ context.Context, attempt int) ([]Order, error) {
			if attempt < 3 {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			return found, nil
		}),
		l.class("transient: the service never answers", good, func(ctx context.Context, _ int) ([]Order, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		l.class("permanent: the service refuses this caller", good, func(context.Context, int) ([]Order, error) {
			return nil, toolexec.Rejected(toolexec.CodePermissionDenied, errors.New("403: token of svc-7 lacks orders.read"))
		}),
		l.class("empty_result: there is nothing to find", good, func(context.Context, int) ([]Order, error) {
			return nil, nil
		}),
		l.class("malformed: the model wrote a number for a string", bad, nil),
		l.class("unknown_tool: the model misspelt the name", misnamed, nil),
	}
}

func (l *lab) class(title string, c toolexec.Call, service search) exhibitor {
	return func(ctx context.Context) (*exhibit, error) {
		b := l.bench(partClasses, title)
		b.effect = toolexec.ReadOnly
		toolexec.Bind(&b.x, toolexec.Tool[Search, []Order]{
			Name:   "search_orders",
			Effect: b.effect,
			Run: func(ctx context.Context, _ Search) ([]Order, error) {
				return service(ctx, toolexec.Attempt(ctx))
			},
		})
		c.OperationRef = "run_81/step_3"
		b.call(ctx, c)
		return b.done(ctx)
	}
}
