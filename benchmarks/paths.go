package main

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"

	"github.com/toolexec/toolexec"
)

// input and receipt are of an ordinary size: two fields in, one out.
type input struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}

type receipt struct {
	ID string `json:"id"`
}

var in = input{OrderID: "ORD-5510", Cents: 8000}

func tool(context.Context, input) (receipt, error) { return receipt{ID: "rcpt_1"}, nil }

// lookup is the same tool as a plain function that the optimiser cannot see
// through.
var lookup = tool

func bind(b *testing.B, t toolexec.Tool[input, receipt]) (*toolexec.Bound[input, receipt], *toolexec.Executor) {
	b.Helper()
	x := new(toolexec.Executor)
	t.Name, t.Run = "lookup", lookup
	return toolexec.Bind(x, t), x
}

func must(b *testing.B, ok bool) {
	if !ok {
		b.Fatal("the call failed")
	}
}

func bareCall(b *testing.B) {
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		_, err := lookup(ctx, in)
		must(b, err == nil)
	}
}

func withTimeout(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := lookup(ctx, in)
		cancel()
		must(b, err == nil)
	}
}

func failsafeRetryTimeout(b *testing.B) {
	exec := failsafe.With(
		retrypolicy.NewBuilder[receipt]().WithMaxRetries(2).WithBackoff(500*time.Millisecond, 30*time.Second).Build(),
		timeout.New[receipt](2*time.Second),
	)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		_, err := exec.WithContext(ctx).GetWithExecution(func(e failsafe.Execution[receipt]) (receipt, error) {
			return lookup(e.Context(), in)
		})
		must(b, err == nil)
	}
}

// P1
func readCooperative(b *testing.B) {
	t, _ := bind(b, toolexec.Tool[input, receipt]{Effect: toolexec.ReadOnly, Cooperative: true})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		must(b, t.Call(ctx, in).OK)
	}
}

// P2
func readEnforced(b *testing.B) {
	t, _ := bind(b, toolexec.Tool[input, receipt]{Effect: toolexec.ReadOnly})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		must(b, t.Call(ctx, in).OK)
	}
}

// forgetful is a store that forgets a commit at once, so that a figure is the
// guard's and not that of a heap that grows with each call.
func forgetful() toolexec.Store { return &toolexec.MemoryStore{KeepFacts: 1} }

// P3: each call has a ref of its own.
func writeNewRef(b *testing.B) {
	x := &toolexec.Executor{Store: forgetful()}
	t := toolexec.Bind(x, toolexec.Tool[input, receipt]{Name: "refund", Run: lookup})
	ctx := context.Background()
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		must(b, t.Call(toolexec.WithOperationRef(ctx, "run/"+strconv.Itoa(n)), in).OK)
	}
}

// P4
func replay(b *testing.B) {
	t, _ := bind(b, toolexec.Tool[input, receipt]{})
	ctx := toolexec.WithOperationRef(context.Background(), "run_81/step_4")
	must(b, t.Call(ctx, in).OK)
	b.ReportAllocs()
	for b.Loop() {
		must(b, t.Call(ctx, in).Replayed)
	}
}

var errDown = errors.New("down")

// P5: fails twice, then succeeds, without pauses.
func failTwiceBackoffV4(b *testing.B) {
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		err := backoff.Retry(func() error {
			if n++; n < 3 {
				return errDown
			}
			_, err := lookup(ctx, in)
			return err
		}, backoff.WithContext(&backoff.ZeroBackOff{}, ctx))
		must(b, err == nil)
	}
}

func failTwiceCooperative(b *testing.B) {
	x := new(toolexec.Executor)
	n := 0
	down := toolexec.Transient(errDown)
	t := toolexec.Bind(x, toolexec.Tool[input, receipt]{
		Name: "lookup", Effect: toolexec.ReadOnly, Cooperative: true,
		Policy: toolexec.Policy{Backoff: toolexec.Backoff{Initial: -1}},
		Run: func(ctx context.Context, in input) (receipt, error) {
			if n++; n%3 != 0 {
				return receipt{}, down
			}
			return lookup(ctx, in)
		},
	})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		must(b, t.Call(ctx, in).OK)
	}
}

// writeParallel spreads calls of distinct refs over goroutines.
func writeParallel(goroutines int) func(b *testing.B) {
	return func(b *testing.B) {
		x := &toolexec.Executor{Store: forgetful()}
		t := toolexec.Bind(x, toolexec.Tool[input, receipt]{Name: "refund", Run: lookup})
		b.ReportAllocs()
		b.SetParallelism(goroutines) // times GOMAXPROCS; see main
		var n atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				ref := "run/" + strconv.FormatInt(n.Add(1), 10)
				must(b, t.Call(toolexec.WithOperationRef(context.Background(), ref), in).OK)
			}
		})
	}
}
