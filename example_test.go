package toolexec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/toolexec/toolexec"
)

type Refund struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}

type Receipt struct {
	ID string `json:"id"`
}

// A Write whose answer is lost is not sent again: its outcome is unknown, and the
// next action says who finds out.
func ExampleBind() {
	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Ref:  func(in Refund) string { return in.OrderID },
		Run: func(context.Context, Refund) (Receipt, error) {
			return Receipt{}, io.ErrUnexpectedEOF // the request was sent, and the connection broke
		},
	})
	env := refund.Call(context.Background(), Refund{OrderID: "ORD-5510", Cents: 8000})
	fmt.Println(env.OK, env.Code, env.CommitState, env.NextAction, env.OperationRef)
	// Output: false OUTCOME_UNKNOWN unknown verify_operation refund:ORD-5510
}

// Calling again with the same ref is always safe: what is committed is replayed.
func ExampleBound_Call() {
	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Ref:  func(in Refund) string { return in.OrderID },
		Run: func(_ context.Context, in Refund) (Receipt, error) {
			fmt.Println("refunding", in.OrderID)
			return Receipt{ID: "rcpt_1"}, nil
		},
	})
	for range 2 {
		env := refund.Call(context.Background(), Refund{OrderID: "ORD-5510", Cents: 8000})
		fmt.Println(env.Result.ID, env.Replayed)
	}
	// Output:
	// refunding ORD-5510
	// rcpt_1 false
	// rcpt_1 true
}

// Arguments that a model wrote are checked before anything runs. Every violation is
// named, and no received value.
func ExampleExecutor_Execute() {
	var x toolexec.Executor
	toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Run:  func(context.Context, Refund) (Receipt, error) { return Receipt{ID: "rcpt_1"}, nil },
	})
	env := x.Execute(context.Background(), toolexec.Call{
		Name: "refund", Arguments: json.RawMessage(`{"order_id": 5510, "cents": 8000}`), OperationRef: "run_81/step_4",
	})
	fmt.Println(env.Code, env.NextAction)
	for _, f := range env.FieldErrors {
		fmt.Println(f)
	}

	env = x.Execute(context.Background(), toolexec.Call{Name: "refnd"})
	fmt.Println(env.Code, env.SafeDetails[toolexec.DetailAllowedValues])
	// Output:
	// INVALID_ARGUMENTS correct_input
	// /order_id: type, expected string, received integer
	// UNKNOWN_TOOL refund
}

// The calls of one turn: one envelope each, in their order.
func ExampleExecutor_ExecuteAll() {
	var x toolexec.Executor
	toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Run:  func(context.Context, Refund) (Receipt, error) { return Receipt{ID: "rcpt_1"}, nil },
	})
	toolexec.Bind(&x, toolexec.Tool[struct{}, []string]{
		Name: "list_orders", Effect: toolexec.ReadOnly,
		Run: func(context.Context, struct{}) ([]string, error) { panic("a bug") },
	})
	for _, env := range x.ExecuteAll(context.Background(), []toolexec.Call{
		{Name: "list_orders"},
		{Name: "refund", Arguments: json.RawMessage(`{"order_id":"ORD-5510","cents":8000}`)},
	}) {
		fmt.Printf("%s %s\n", env.Code, env.CommitState)
	}
	// Output:
	// TOOL_PANIC not_committed
	// OK committed
}

// Go code that wants a result and an error asks for Value.
func ExampleEnvelope_Value() {
	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Run: func(context.Context, Refund) (Receipt, error) {
			return Receipt{}, toolexec.Rejected(toolexec.CodePreconditionFailed, errors.New("ledger is closed"))
		},
	})
	ctx := toolexec.WithOperationRef(context.Background(), "run_81/step_4")
	_, err := refund.Call(ctx, Refund{OrderID: "ORD-5510", Cents: 8000}).Value()

	var failed *toolexec.Error
	fmt.Println(err)
	fmt.Println(errors.As(err, &failed), failed.CommitState, failed.NextAction)
	fmt.Println(failed.Unwrap()) // for operators
	// Output:
	// toolexec: PRECONDITION_FAILED (not_committed, escalate) operation_ref run_81/step_4
	// true not_committed escalate
	// PRECONDITION_FAILED (rejected): ledger is closed
}

// What the model reads.
func ExampleEnvelope_Observation() {
	var x toolexec.Executor
	find := toolexec.Bind(&x, toolexec.Tool[Refund, []Receipt]{
		Name: "find_receipts", Effect: toolexec.ReadOnly,
		Run: func(_ context.Context, in Refund) ([]Receipt, error) {
			if in.OrderID == "ORD-5510" {
				return []Receipt{{ID: "rcpt_1"}}, nil
			}
			return nil, nil
		},
	})
	ctx := toolexec.WithOperationRef(context.Background(), "run_81/step_4")
	for _, order := range []string{"ORD-5510", "ORD-1"} {
		text, isError := find.Call(ctx, Refund{OrderID: order}).Observation()
		fmt.Printf("%v: %s\n", isError, text)
	}
	// Output:
	// false: [{"id":"rcpt_1"}]
	// true: find_receipts found nothing for these arguments. Correct the arguments before calling find_receipts again.
	// code: EMPTY_RESULT; commit_state: not_committed; next_action: correct_input; operation_ref: run_81/step_4
}

// A tool that marks its sends has sent nothing before it did, so an error from
// before is known to have changed nothing.
func ExampleMarkSent() {
	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund", MarksSent: true, Policy: toolexec.Policy{MaxRetries: -1},
		Run: func(ctx context.Context, in Refund) (Receipt, error) {
			if in.Cents == 0 {
				return Receipt{}, errors.New("the amount service did not answer") // still preparing
			}
			if err := toolexec.MarkSent(ctx); err != nil {
				return Receipt{}, err
			}
			return Receipt{}, errors.New("the gateway did not answer")
		},
	})
	for _, cents := range []int{0, 8000} {
		env := refund.Call(context.Background(), Refund{OrderID: "ORD-5510", Cents: cents})
		fmt.Println(env.CommitState)
	}
	// Output:
	// not_committed
	// unknown
}

// An effect that is stated before a step that may fail is not lost with that step.
func ExampleMarkCommitted() {
	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Run: func(ctx context.Context, _ Refund) (Receipt, error) {
			paid := Receipt{ID: "rcpt_1"}
			if err := toolexec.MarkCommitted(ctx, paid); err != nil {
				slog.WarnContext(ctx, "to be stored at the end", "cause", err)
			}
			return paid, errors.New("the customer could not be notified")
		},
	})
	env := refund.Call(context.Background(), Refund{OrderID: "ORD-5510", Cents: 8000})
	fmt.Println(env.OK, env.CommitState, env.Result.ID)
	// Output: true committed rcpt_1
}

// The operation ref is the key for the remote side. It is the same in every attempt.
func ExampleOperationRef() {
	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name:   "refund",
		Policy: toolexec.Policy{Backoff: toolexec.Backoff{Initial: -1}},
		Run: func(ctx context.Context, _ Refund) (Receipt, error) {
			fmt.Println("Idempotency-Key:", toolexec.OperationRef(ctx), "attempt", toolexec.Attempt(ctx))
			if toolexec.Attempt(ctx) == 1 {
				return Receipt{}, toolexec.NotSent(nil)
			}
			return Receipt{ID: "rcpt_1"}, nil
		},
	})
	ctx := toolexec.WithOperationRef(context.Background(), "run_81/step_4")
	fmt.Println(refund.Call(ctx, Refund{OrderID: "ORD-5510", Cents: 8000}).OK)
	// Output:
	// Idempotency-Key: run_81/step_4 attempt 1
	// Idempotency-Key: run_81/step_4 attempt 2
	// true
}

// A verifier turns a lost answer into the success that it was.
func ExampleVerifier() {
	posted := map[string]Receipt{}
	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Run: func(ctx context.Context, _ Refund) (Receipt, error) {
			posted[toolexec.OperationRef(ctx)] = Receipt{ID: "rcpt_1"}
			return Receipt{}, io.ErrUnexpectedEOF
		},
		Verify: &toolexec.Verifier[Refund, Receipt]{
			Authoritative: true,
			Lookup: func(_ context.Context, ref string, _ Refund) (toolexec.Finding[Receipt], error) {
				if r, ok := posted[ref]; ok {
					return toolexec.Found(r), nil
				}
				return toolexec.Absent[Receipt](), nil
			},
		},
	})
	env := refund.Call(context.Background(), Refund{OrderID: "ORD-5510", Cents: 8000})
	fmt.Println(env.OK, env.Result.ID, env.Verification.Source)
	// Output: true rcpt_1 lookup
}

// A remote side that deduplicates by ref may be asked again when an answer is lost.
func ExampleTool_idempotent() {
	posted := map[string]Receipt{}
	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund", Effect: toolexec.Idempotent, DedupeWindow: 24 * time.Hour,
		Policy: toolexec.Policy{Backoff: toolexec.Backoff{Initial: -1}},
		Run: func(ctx context.Context, _ Refund) (Receipt, error) {
			if r, ok := posted[toolexec.OperationRef(ctx)]; ok {
				return r, nil
			}
			posted[toolexec.OperationRef(ctx)] = Receipt{ID: "rcpt_1"}
			return Receipt{}, io.ErrUnexpectedEOF
		},
	})
	env := refund.Call(context.Background(), Refund{OrderID: "ORD-5510", Cents: 8000})
	fmt.Println(env.OK, env.Result.ID, len(posted))
	// Output: true rcpt_1 1
}

// ErrorsMean is for a tool whose own errors say that nothing changed.
func ExampleTool_errorsMean() {
	errFunds := errors.New("insufficient funds")
	for _, mean := range []toolexec.Evidence{toolexec.EvidenceInDoubt, toolexec.EvidenceRejected} {
		var x toolexec.Executor
		pay := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
			Name: "pay", ErrorsMean: mean,
			Run: func(context.Context, Refund) (Receipt, error) { return Receipt{}, errFunds },
		})
		fmt.Println(pay.Call(context.Background(), Refund{OrderID: "ORD-5510", Cents: 8000}).CommitState)
	}
	// Output:
	// unknown
	// not_committed
}

// A held call runs once a person has allowed exactly its arguments.
func ExampleApproval() {
	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Run:  func(context.Context, Refund) (Receipt, error) { return Receipt{ID: "rcpt_1"}, nil },
		Approval: &toolexec.Approval[Refund]{
			Required: func(in Refund) bool { return in.Cents > 5000 },
			Summary:  func(in Refund) string { return fmt.Sprintf("refund %d cents of %s", in.Cents, in.OrderID) },
		},
	})
	ctx := context.Background()
	small := refund.Call(toolexec.WithOperationRef(ctx, "step_4"), Refund{OrderID: "ORD-5510", Cents: 100})
	large := refund.Call(toolexec.WithOperationRef(ctx, "step_5"), Refund{OrderID: "ORD-5510", Cents: 8000})
	fmt.Println(small.Code, small.NextAction)
	fmt.Println(large.Code, large.NextAction)
	// Output:
	// OK continue
	// MISSING_APPROVAL request_approval
}

// An operator sees what waits and decides.
func ExampleSupervisor_Approve() {
	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name:     "refund",
		Run:      func(context.Context, Refund) (Receipt, error) { return Receipt{ID: "rcpt_1"}, nil },
		Approval: &toolexec.Approval[Refund]{Summary: func(in Refund) string { return "refund of " + in.OrderID }},
	})
	ctx := toolexec.WithOperationRef(context.Background(), "run_81/step_4")
	in := Refund{OrderID: "ORD-5510", Cents: 8000}
	fmt.Println(refund.Call(ctx, in).NextAction)

	desk := toolexec.Supervisor{Executor: &x}
	waiting, _, err := desk.List(ctx, toolexec.Query{States: []toolexec.State{toolexec.StateAwaitingApproval}})
	if err != nil {
		fmt.Println(err)
	}
	for _, r := range waiting {
		fmt.Println(r.Ref, "–", r.Approval.Summary)
		if _, err := desk.Approve(ctx, r.Key, r.Approval.Digest, toolexec.Statement{Actor: "ann", Evidence: "ticket 7"}, time.Hour); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(refund.Call(ctx, in).NextAction)
	// Output:
	// request_approval
	// run_81/step_4 – refund of ORD-5510
	// continue
}

// A person settles what nobody else can look up.
func ExampleSupervisor_Resolve() {
	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Run:  func(context.Context, Refund) (Receipt, error) { return Receipt{}, io.ErrUnexpectedEOF },
	})
	ctx := toolexec.WithOperationRef(context.Background(), "run_81/step_4")
	in := Refund{OrderID: "ORD-5510", Cents: 8000}
	fmt.Println(refund.Call(ctx, in).CommitState)

	desk := toolexec.Supervisor{Executor: &x}
	by := toolexec.Statement{Actor: "ann", Evidence: "bank statement, line 12"}
	if _, err := desk.Resolve(ctx, toolexec.Key{Ref: "run_81/step_4"}, toolexec.Committed, by); err != nil {
		fmt.Println(err)
	}
	env := refund.Call(ctx, in)
	fmt.Println(env.CommitState, env.Verification.Source, env.HasResult)
	// Output:
	// unknown
	// committed operator false
}

type quotaError struct{ after time.Duration }

func (e *quotaError) Error() string { return "quota" }

// A classifier says what an error of your client means. It is asked about each error
// in the tree, so it need not unwrap.
func ExampleClassifier() {
	x := toolexec.Executor{Classifiers: []toolexec.Classifier{
		func(err error) (toolexec.Failure, bool) {
			q, ok := err.(*quotaError) //nolint:errorlint // it is asked about each error in the tree
			if !ok {
				return toolexec.Failure{}, false
			}
			return toolexec.Failure{Code: toolexec.CodeRateLimited, Evidence: toolexec.EvidenceRejected, RetryAfter: q.after}, true
		},
	}}
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Run: func(context.Context, Refund) (Receipt, error) {
			return Receipt{}, fmt.Errorf("refund: %w", &quotaError{time.Minute})
		},
	})
	env := refund.Call(context.Background(), Refund{OrderID: "ORD-5510", Cents: 8000})
	fmt.Println(env.Code, env.CommitState, env.NextAction, env.SafeDetails[toolexec.DetailRetryAfter])
	// Output: RATE_LIMITED not_committed wait_and_retry 60
}

// A tool's policy overrides its executor's, field by field.
func ExamplePolicy() {
	x := toolexec.Executor{Policy: toolexec.Policy{MaxRetries: 3, Backoff: toolexec.Backoff{Initial: -1}}}
	tries := map[string]int{}
	fails := func(name string) func(context.Context, struct{}) (string, error) {
		return func(context.Context, struct{}) (string, error) {
			tries[name]++
			return "", toolexec.NotSent(nil)
		}
	}
	inherits := toolexec.Bind(&x, toolexec.Tool[struct{}, string]{Name: "inherits", Run: fails("inherits")})
	once := toolexec.Bind(&x, toolexec.Tool[struct{}, string]{
		Name: "once", Run: fails("once"), Policy: toolexec.Policy{MaxRetries: -1}, // negative turns off
	})
	inherits.Call(context.Background(), struct{}{})
	once.Call(context.Background(), struct{}{})
	fmt.Println(tries)
	// Output: map[inherits:4 once:1]
}

// pauseLog prints how long the pauses are.
type pauseLog struct{}

func (pauseLog) Start(ctx context.Context, e toolexec.Event) context.Context {
	if p, ok := e.(toolexec.PauseInfo); ok {
		fmt.Println(p.For, "after", p.After)
	}
	return ctx
}
func (pauseLog) End(context.Context, toolexec.Event)  {}
func (pauseLog) Note(context.Context, toolexec.Event) {}

func ExampleBackoff() {
	x := toolexec.Executor{
		Observer: pauseLog{},
		Policy: toolexec.Policy{MaxRetries: 4, Backoff: toolexec.Backoff{
			Initial: time.Millisecond, Multiplier: 2, Max: 3 * time.Millisecond,
		}},
	}
	fetch := toolexec.Bind(&x, toolexec.Tool[struct{}, string]{
		Name: "fetch", Effect: toolexec.ReadOnly,
		Run: func(context.Context, struct{}) (string, error) { return "", toolexec.Transient(nil) },
	})
	fetch.Call(context.Background(), struct{}{})
	// Output:
	// 1ms after DEPENDENCY_UNAVAILABLE
	// 2ms after DEPENDENCY_UNAVAILABLE
	// 3ms after DEPENDENCY_UNAVAILABLE
	// 3ms after DEPENDENCY_UNAVAILABLE
}

// A plain function is there for callers that want one.
func ExampleBound_Func() {
	var x toolexec.Executor
	double := toolexec.Bind(&x, toolexec.Tool[int, int]{
		Name: "double", Effect: toolexec.ReadOnly,
		Run: func(_ context.Context, n int) (int, error) { return 2 * n, nil },
	}).Func()
	n, err := double(context.Background(), 21)
	fmt.Println(n, err)
	// Output: 42 <nil>
}

// Ask in a unit test what the declarations mean for the day when an answer is lost.
func ExampleExecutor_Vet() {
	var x toolexec.Executor
	run := func(context.Context, Refund) (Receipt, error) { return Receipt{ID: "rcpt_1"}, nil }
	toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{Name: "refund", Run: run})
	toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{Name: "find", Effect: toolexec.ReadOnly, Run: run})
	toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{Name: "send_mail", Unverifiable: true, Run: run})
	for _, finding := range x.Vet() {
		fmt.Println(finding)
	}
	// Output:
	// refund: no Verify, not Idempotent: a lost answer goes to a person
	// send_mail: declared Unverifiable: a lost answer goes to a person at once
}

// A ref names the operation over all calls, attempts and processes.
func ExampleWithOperationRef() {
	var x toolexec.Executor
	count := 0
	charge := toolexec.Bind(&x, toolexec.Tool[Refund, int]{
		Name: "charge",
		Run:  func(context.Context, Refund) (int, error) { count++; return count, nil },
	})
	in := Refund{OrderID: "ORD-5510", Cents: 8000}
	for _, ref := range []string{"run_81/step_4", "run_81/step_4", "run_81/step_5"} {
		env := charge.Call(toolexec.WithOperationRef(context.Background(), ref), in)
		fmt.Println(env.OperationRef, env.Result, env.Replayed)
	}
	// Output:
	// run_81/step_4 1 false
	// run_81/step_4 1 true
	// run_81/step_5 2 false
}

// Refs of different scopes never meet.
func ExampleWithScope() {
	var x toolexec.Executor
	count := 0
	charge := toolexec.Bind(&x, toolexec.Tool[Refund, int]{
		Name: "charge",
		Run:  func(context.Context, Refund) (int, error) { count++; return count, nil },
	})
	for _, tenant := range []string{"north", "south", "north"} {
		ctx := toolexec.WithScope(toolexec.WithOperationRef(context.Background(), "step_4"), tenant)
		fmt.Println(tenant, charge.Call(ctx, Refund{OrderID: "ORD-5510", Cents: 8000}).Result)
	}
	// Output:
	// north 1
	// south 2
	// north 1
}

// Within a run, a call that was refused is not run again unchanged.
func ExampleWithRunID() {
	var x toolexec.Executor
	find := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "find", Effect: toolexec.ReadOnly,
		Run: func(_ context.Context, in Refund) (Receipt, error) {
			fmt.Println("looking for", in.OrderID)
			return Receipt{}, toolexec.Empty("There is no such order.")
		},
	})
	ctx := toolexec.WithRunID(context.Background(), "run_81")
	for range 2 {
		fmt.Println(find.Call(ctx, Refund{OrderID: "ORD-1"}).Code)
	}
	// Output:
	// looking for ORD-1
	// EMPTY_RESULT
	// UNCHANGED_RETRY
}

// The store in memory is bounded, and forgets no fact early: at the bound new writes
// are refused before anything is sent.
func ExampleMemoryStore() {
	x := toolexec.Executor{Store: &toolexec.MemoryStore{MaxFacts: 2, KeepFacts: 48 * time.Hour}}
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Ref:  func(in Refund) string { return in.OrderID },
		Run:  func(context.Context, Refund) (Receipt, error) { return Receipt{ID: "rcpt_1"}, nil },
	})
	for _, order := range []string{"ORD-1", "ORD-2", "ORD-3", "ORD-1"} {
		env := refund.Call(context.Background(), Refund{OrderID: order})
		fmt.Println(order, env.Code, env.Replayed)
	}
	// Output:
	// ORD-1 OK false
	// ORD-2 OK false
	// ORD-3 GUARD_FULL false
	// ORD-1 OK true
}

// Operators read the cause, without what looks like a secret.
func ExampleSlogObserver() {
	noTimes := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "took" {
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: noTimes, Level: slog.LevelWarn}))
	x := toolexec.Executor{Observer: &toolexec.SlogObserver{Logger: logger}}
	find := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "find", Effect: toolexec.ReadOnly,
		Run: func(context.Context, Refund) (Receipt, error) {
			return Receipt{}, errors.New("postgres://app:hunter2@db/orders: no such table")
		},
	})
	find.Call(toolexec.WithOperationRef(context.Background(), "step_4"), Refund{OrderID: "ORD-5510"})
	// Output:
	// level=WARN msg="toolexec: attempt" tool=find operation_ref=step_4 attempt=1 ok=false evidence=in_doubt code=TOOL_FAILED outlives=false cause="postgres://[redacted]@db/orders: no such table"
	// level=ERROR msg="toolexec: call" tool=find operation_ref=step_4 call_id="" run_id="" ok=false code=TOOL_FAILED commit_state=not_committed next_action=escalate replayed=false cause="postgres://[redacted]@db/orders: no such table"
}

// eventCount counts events by name.
type eventCount struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *eventCount) count(e toolexec.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[e.EventName()]++
}

func (c *eventCount) Start(ctx context.Context, _ toolexec.Event) context.Context { return ctx }
func (c *eventCount) End(_ context.Context, e toolexec.Event)                     { c.count(e) }
func (c *eventCount) Note(_ context.Context, e toolexec.Event)                    { c.count(e) }

func ExampleObserver() {
	counts := &eventCount{n: map[string]int{}}
	x := toolexec.Executor{Observer: counts, Policy: toolexec.Policy{Backoff: toolexec.Backoff{Initial: -1}}}
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name: "refund",
		Run: func(ctx context.Context, _ Refund) (Receipt, error) {
			if toolexec.Attempt(ctx) < 3 {
				return Receipt{}, toolexec.NotSent(nil)
			}
			return Receipt{ID: "rcpt_1"}, nil
		},
	})
	refund.Call(context.Background(), Refund{OrderID: "ORD-5510", Cents: 8000})
	fmt.Println(counts.n)
	// Output: map[attempt:3 call:1 guard_decision:1]
}

// The JSON Schema of an encoded envelope, for programs in other languages.
func ExampleEnvelopeSchema() {
	var doc struct {
		Schema string `json:"$schema"`
	}
	err := json.Unmarshal(toolexec.EnvelopeSchema(), &doc)
	fmt.Println(doc.Schema, err)

	raw, err := json.Marshal(toolexec.Envelope[string]{
		OK: true, Code: toolexec.CodeOK, CommitState: toolexec.Committed, NextAction: toolexec.NextContinue,
		Result: "rcpt_1", HasResult: true, OperationRef: "run_81/step_4",
	})
	var out bytes.Buffer
	_ = json.Indent(&out, raw, "", "  ")
	fmt.Println(out.String(), err)
	// Output:
	// https://json-schema.org/draft/2020-12/schema <nil>
	// {
	//   "ok": true,
	//   "code": "OK",
	//   "commit_state": "committed",
	//   "next_action": "continue",
	//   "operation_ref": "run_81/step_4",
	//   "result": "rcpt_1"
	// } <nil>
}
