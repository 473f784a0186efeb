package toolexectest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

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

func ExampleDraw() {
	plan := toolexectest.Draw(81, 4, toolexectest.OK(), toolexectest.NotSent(), toolexectest.DropAnswer())
	fmt.Println(plan) // when it finds something: the test that keeps it
	// Output:
	// toolexectest.Script(toolexectest.DropAnswer(), toolexectest.OK(), toolexectest.DropAnswer(), toolexectest.DropAnswer())
}

func ExampleCatalogue() {
	n := 0
	for name, fault := range toolexectest.Catalogue(0) {
		if n++; n <= 3 {
			fmt.Printf("%s: %v\n", name, fault)
		}
	}
	fmt.Println(n, "ways to fail")
	// Output:
	// not sent: request failed
	// request lost: request dropped
	// answer lost: answer dropped
	// 27 ways to fail
}

func ExampleWrapLookup() {
	var ledger toolexectest.Ledger
	ledger.Record("run_81/step_4", "rcpt_1")
	tooEarly := toolexectest.Script(toolexectest.Lie(toolexec.NoEffect))
	look := toolexectest.WrapLookup(tooEarly, toolexectest.Lookup[int, string](&ledger))

	for range 2 {
		found, _ := look(context.Background(), "run_81/step_4", 8000)
		fmt.Println(found.Verdict, found.HasResult)
	}
	// Output:
	// absent false
	// found true
}

// The Save that records the result has an unclear end: it is stored, and the store
// says that it failed.
func ExampleWrapStore() {
	faults := toolexectest.StoreFaults{Save: toolexectest.Script(toolexectest.Nth(2, toolexectest.FailAnswer(toolexectest.ErrInjected))...)}
	var ledger toolexectest.Ledger
	x := toolexec.Executor{Store: toolexectest.WrapStore(new(toolexec.MemoryStore), faults)}
	refund := toolexec.Bind(&x, toolexec.Tool[int, string]{Name: "process_refund", Run: ledgerPost(&ledger)})

	ctx := toolexec.WithOperationRef(context.Background(), "run_81/step_4")
	for range 2 {
		env := refund.Call(ctx, 8000)
		fmt.Println(env.Code, env.CommitState, "replayed", env.Replayed)
	}
	fmt.Println(ledger.Total(), "effect,", len(faults.Unfired()), "faults unfired")
	// Output:
	// OK committed replayed false
	// OK committed replayed true
	// 1 effect, 0 faults unfired
}

// A process dies when its refund is posted and not yet answered. Another one
// starts on the same records: it sends nothing, and once the lease of the first
// has ended it looks the operation up. In a testing/synctest bubble that takes no
// time.
func ExampleProcess() {
	disk := new(toolexec.MemoryStore)
	var ledger toolexectest.Ledger
	start := func(p *toolexectest.Process) *toolexec.Bound[int, string] {
		return toolexec.Bind(&toolexec.Executor{Store: p.Store(disk), Policy: toolexec.Policy{TotalDeadline: time.Second}}, toolexec.Tool[int, string]{
			Name: "process_refund", Run: toolexectest.InProcess(p, ledgerPost(&ledger)),
			Verify: &toolexec.Verifier[int, string]{Lookup: toolexectest.Lookup[int, string](&ledger), Authoritative: true},
		})
	}
	ctx := toolexec.WithOperationRef(context.Background(), "run_81/step_4")

	first := toolexectest.Process{At: toolexectest.BeforeAnswer}
	start(&first).Call(ctx, 8000)
	fmt.Println("first: dead", first.Dead())

	env := start(new(toolexectest.Process)).Call(ctx, 8000)
	fmt.Println("second:", env.Code, env.CommitState)
	fmt.Println(ledger.Total(), "effect")
	// Output:
	// first: dead true
	// second: OPERATION_IN_PROGRESS unknown
	// 1 effect
}

// A tool that declares more than is true: its remote side does not deduplicate.
func ExampleCheckContract() {
	err := toolexectest.CheckContract(context.Background(), func() toolexectest.Case[int, string] {
		ledger := new(toolexectest.Ledger)
		return toolexectest.Case[int, string]{
			Tool:  toolexec.Tool[int, string]{Name: "process_refund", Effect: toolexec.Idempotent, Run: ledgerPost(ledger)},
			Valid: []int{8000}, Waive: []string{"invalid input"},
			Effects: ledger.Effects, Total: ledger.Total,
			RealTime: true, // an example has no bubble
		}
	})
	fmt.Println(err)
	// Output:
	// the answer is lost after the effect: the tool declares Idempotent but had 2 effects for one ref
	// the request is delivered twice: the tool declares Idempotent but had 2 effects for one ref
	// the process dies: the tool declares Idempotent but had 2 effects for one ref
}

func ExampleCheckClassifier() {
	classify := func(err error) (toolexec.Failure, bool) { // a reset connection proves nothing
		return toolexec.Failure{Evidence: toolexec.EvidenceNotSent}, errors.Is(err, io.ErrUnexpectedEOF)
	}
	fmt.Println(toolexectest.CheckClassifier(classify))
	// Output:
	// broken law: it takes for a proof only what proves something: it says not_sent of the *errors.errorString "unexpected EOF", which may have come after the effect
}

func ExampleCompare() {
	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[int, string]{
		Name: "process_refund",
		Run:  func(context.Context, int) (string, error) { return "", io.ErrUnexpectedEOF },
	})
	env := refund.Call(context.Background(), 8000)
	fmt.Println(toolexectest.Compare(env, toolexectest.Want{ // in a test: Expect(t, env, …)
		CommitState: new(toolexec.NotCommitted),
		NextAction:  new(toolexec.NextWaitAndRetry),
	}))
	// Output:
	// the envelope is not as it should be
	//                              got                      want
	// commit_state                 unknown                  not_committed
	// next_action                  verify_operation         wait_and_retry
	// next_action verify_operation means: look the operation up by its ref, and send nothing before, because it may have happened already, and repeating it could make it happen twice (class transient). It should be wait_and_retry: make the same call again later.
}

func ExampleCheckEnvelope() {
	var zero toolexec.Envelope[string]
	zero.Code, zero.NextAction, zero.AgentMessage, zero.UserMessage = "MINE", toolexec.NextCorrectInput, "a", "b"
	fmt.Println(toolexectest.CheckEnvelope(zero))
	// Output:
	// what may have happened is not called again with another input or an approval before it is looked up
	// what may have happened has an operation_ref by which it can be looked up
}
