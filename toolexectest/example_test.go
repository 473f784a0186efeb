package toolexectest_test

import (
	"context"
	"fmt"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// ledgerPost is a tool's function that has its effect on l.
func ledgerPost(l *toolexectest.Ledger) func(context.Context, int) (string, error) {
	return func(ctx context.Context, _ int) (string, error) {
		return l.Record(toolexec.OperationRef(ctx), "receipt").Value.(string), nil //nolint:forcetypeassert // just recorded
	}
}

// A refund whose connection breaks after the gateway has posted it: the effect is
// found by its ref, and nothing is sent twice.
func Example() {
	var ledger toolexectest.Ledger
	plan := toolexectest.Script(toolexectest.FailAnswer(toolexectest.ErrInjected))

	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[int, string]{
		Name: "process_refund",
		Run:  toolexectest.Wrap(plan, ledgerPost(&ledger)),
		Verify: &toolexec.Verifier[int, string]{
			Lookup:        toolexectest.Lookup[int, string](&ledger),
			Authoritative: true,
		},
	})
	env := refund.Call(toolexec.WithOperationRef(context.Background(), "run_81/step_4"), 8000)

	fmt.Println(env.Code, env.CommitState, "by", env.Verification.Source, env.Verification.EvidenceRef)
	fmt.Println(plan.Attempts(), "attempt,", ledger.Effects("run_81/step_4"), "effect")
	// Output:
	// OK committed by lookup entry-1
	// 1 attempt, 1 effect
}

func ExampleScript() {
	plan := toolexectest.Script(toolexectest.NotSent(), toolexectest.OK(), toolexectest.Refuse(toolexec.ClassPermanent))
	double := toolexectest.Wrap(plan, func(_ context.Context, n int) (int, error) { return 2 * n, nil })

	for n := range 2 {
		fmt.Println(double(context.Background(), n+1))
	}
	for _, line := range plan.Unfired() { // in a test: plan.Check(t)
		fmt.Println(line)
	}
	// Output:
	// 0 DEPENDENCY_UNAVAILABLE (not_sent): toolexectest: injected fault
	// 4 <nil>
	// step 3 of 3: request failed: did not fire in 2 attempt(s)
}

func ExampleFault() {
	fault := toolexectest.Fault{
		Request: toolexectest.Leg{Result: 0}, // a proxy that answers for a service it never asked
	}
	square := toolexectest.Wrap(toolexectest.Script(fault), func(_ context.Context, n int) (int, error) { return n * n, nil })

	fmt.Println(fault)
	fmt.Println(square(context.Background(), 3))
	fmt.Println(square(context.Background(), 3))
	// Output:
	// request replaced
	// 0 <nil>
	// 9 <nil>
}

func ExampleLedger() {
	ledger := toolexectest.Ledger{Dedupe: true} // a remote side that honours operation refs
	ledger.Record("run_81/step_4", 8000)
	ledger.Record("run_81/step_4", 8000)
	fmt.Println(ledger.Requests("run_81/step_4"), "requests,", ledger.Effects("run_81/step_4"), "effect")
	// Output: 2 requests, 1 effect
}

func ExampleLookup() {
	var ledger toolexectest.Ledger
	ledger.Record("run_81/step_4", "rcpt_1")
	look := toolexectest.Lookup[int, string](&ledger)

	found, _ := look(context.Background(), "run_81/step_4", 8000)
	absent, _ := look(context.Background(), "run_81/step_5", 8000)
	fmt.Println(found.Verdict == toolexec.FoundEffect, found.Result)
	fmt.Println(absent.Verdict == toolexec.NoEffect)
	// Output:
	// true rcpt_1
	// true
}
