package toolexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/toolexec/toolexec"
)

// lostRefund is a refund whose answer is lost, in a process that then ends: what is left is its record.
func lostRefund(store toolexec.Store) toolexec.NextAction {
	x := toolexec.Executor{Store: store}
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Run:  func(context.Context, Refund) (Receipt, error) { return Receipt{}, io.ErrUnexpectedEOF },
	})
	ctx := toolexec.WithOperationRef(context.Background(), "run_81/step_4")
	return refund.Call(ctx, Refund{OrderID: "ORD-5510", Cents: 8000}).NextAction
}

// lookedUpRefund is the same tool in the next process, which can ask the bank.
func lookedUpRefund(x *toolexec.Executor) {
	toolexec.Bind(x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Run:  func(context.Context, Refund) (Receipt, error) { return Receipt{}, errors.New("not again") },
		Verify: &toolexec.Verifier[Refund, Receipt]{
			Lookup: func(_ context.Context, _ string, in Refund) (toolexec.Finding[Receipt], error) {
				return toolexec.Found(Receipt{ID: "rcpt of " + in.OrderID}), nil
			},
		},
	})
}

// One pass brings to an end what an earlier process left open.
func ExampleSupervisor_Recover() {
	var store toolexec.MemoryStore // a durable one, in earnest
	fmt.Println("before:", lostRefund(&store))

	x := toolexec.Executor{Store: &store}
	lookedUpRefund(&x)
	s := toolexec.Supervisor{Executor: &x, OnSettled: func(_ context.Context, s toolexec.Settled) {
		fmt.Println("after:", s.Record.Ref, s.Envelope.CommitState, string(s.Envelope.Result))
	}}
	done, err := s.Recover(context.Background())
	fmt.Println("due:", done.Due, "settled:", done.Settled, "error:", err)
	// Output:
	// before: verify_operation
	// after: run_81/step_4 committed {"id":"rcpt of ORD-5510"}
	// due: 1 settled: 1 error: <nil>
}

// A supervisor that runs beside the program, until the program ends.
func ExampleSupervisor_Run() {
	var store toolexec.MemoryStore // a durable one, in earnest
	fmt.Println("before:", lostRefund(&store))

	x := toolexec.Executor{Store: &store}
	lookedUpRefund(&x)
	ctx, stop := context.WithCancel(context.Background())
	s := toolexec.Supervisor{Executor: &x, Every: 10 * time.Millisecond, OnSettled: func(_ context.Context, s toolexec.Settled) {
		fmt.Println("after:", s.Envelope.CommitState, s.Envelope.Verification.Source)
		stop()
	}}
	fmt.Println("stopped:", s.Run(ctx))
	// Output:
	// before: verify_operation
	// after: committed lookup
	// stopped: <nil>
}

// An operation that has to wait is waited for, and run again when its time has come.
func ExampleSupervisor_Wait() {
	var x toolexec.Executor
	tries := 0
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Policy: toolexec.Policy{
			MaxPause: -1, // no pause is slept within a call
			Backoff:  toolexec.Backoff{Initial: 10 * time.Millisecond},
		},
		Run: func(context.Context, Refund) (Receipt, error) {
			if tries++; tries == 1 {
				return Receipt{}, toolexec.NotSent(errors.New("connection refused"))
			}
			return Receipt{ID: "rcpt_1"}, nil
		},
	})
	ctx := toolexec.WithOperationRef(context.Background(), "run_81/step_4")
	first := refund.Call(ctx, Refund{OrderID: "ORD-5510", Cents: 8000})
	fmt.Println(first.Code, first.NextAction)

	s := toolexec.Supervisor{Executor: &x}
	env, err := s.Wait(ctx, toolexec.Key{Ref: first.OperationRef})
	fmt.Println(env.Code, string(env.Result), err)
	// Output:
	// DEPENDENCY_UNAVAILABLE wait_and_retry
	// OK {"id":"rcpt_1"} <nil>
}

// The agent finds out by itself what became of its own operation.
func ExampleBindVerifyOperation() {
	x := toolexec.Executor{Policy: toolexec.Policy{Backoff: toolexec.Backoff{Initial: -1}}} // look-ups need not wait
	toolexec.BindVerifyOperation(&x)
	down := true
	toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Run:  func(context.Context, Refund) (Receipt, error) { return Receipt{}, io.ErrUnexpectedEOF },
		Verify: &toolexec.Verifier[Refund, Receipt]{
			Lookup: func(context.Context, string, Refund) (toolexec.Finding[Receipt], error) {
				if down {
					return toolexec.Finding[Receipt]{}, errors.New("the bank is down as well")
				}
				return toolexec.Found(Receipt{ID: "rcpt_1"}), nil
			},
		},
	})
	ctx := context.Background()
	env := x.Execute(ctx, toolexec.Call{
		Name: "refund", OperationRef: "run_81/step_4", Arguments: json.RawMessage(`{"order_id":"ORD-5510","cents":8000}`),
	})
	fmt.Println(env.AgentMessage)

	down = false
	env = x.Execute(ctx, toolexec.Call{Name: "verify_operation", Arguments: json.RawMessage(`{"operation_ref":"run_81/step_4"}`)})
	var status toolexec.OperationStatus
	if err := json.Unmarshal(env.Result, &status); err != nil {
		fmt.Println(err)
	}
	fmt.Println(status.CommitState, status.NextAction, string(status.Result))
	// Output:
	// refund may have been sent, and no usable answer came back. The change may have been made. Do not call refund again, by any route. Look up operation_ref run_81/step_4 first, with verify_operation.
	// committed continue {"id":"rcpt_1"}
}
