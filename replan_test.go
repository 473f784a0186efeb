package toolexec_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

type replanOrder struct {
	OrderID string `json:"order_id"`
}

// replanTool answers its first call after it has been given up on.
func replanTool(x *toolexec.Executor, runs *atomic.Int64) *toolexec.Bound[replanOrder, string] {
	return toolexec.Bind(x, toolexec.Tool[replanOrder, string]{Name: "refund", Run: func(context.Context, replanOrder) (string, error) {
		if runs.Add(1) == 1 {
			time.Sleep(3 * time.Second)
		}
		return "receipt", nil
	}})
}

// A caller was told unknown, and then the commit came to light. An agent that
// plans the call again, without its ref, is given that commit, once; after that
// an equal call is a second, intended one.
func TestReplanIsGivenTheCommitNobodyHeardOf(t *testing.T) {
	for _, row := range []struct {
		name   string
		settle func(t *testing.T, x *toolexec.Executor, ref string)
		source toolexec.Source
		result bool
	}{
		{"late evidence", func(*testing.T, *toolexec.Executor, string) { time.Sleep(2 * time.Second) }, toolexec.SourceExecution, true},
		{"a person's word", func(t *testing.T, x *toolexec.Executor, ref string) {
			t.Helper()
			_, err := (&toolexec.Supervisor{Executor: x}).Resolve(t.Context(), toolexec.Key{Ref: ref}, toolexec.Committed,
				toolexec.Statement{Actor: "a person", Evidence: "the ledger"})
			require.NoError(t, err)
		}, toolexec.SourceOperator, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				var runs atomic.Int64
				refund := replanTool(&x, &runs)
				first := refund.Call(t.Context(), replanOrder{"ORD-1"})
				checkEnvelope(t, first)
				require.Equal(t, toolexec.CommitUnknown, first.CommitState)
				row.settle(t, &x, first.OperationRef)

				again := refund.Call(t.Context(), replanOrder{"ORD-1"})
				checkEnvelope(t, again)
				assert.True(t, again.OK && again.Replayed, "%s", again.Code)
				assert.Equal(t, first.OperationRef, again.OperationRef)
				assert.Equal(t, row.source, again.Verification.Source)
				assert.Equal(t, row.result, again.HasResult)
				assert.EqualValues(t, 1, runs.Load(), "the effect is there already")

				second := refund.Call(t.Context(), replanOrder{"ORD-1"})
				checkEnvelope(t, second)
				assert.True(t, second.OK && !second.Replayed)
				assert.NotEqual(t, first.OperationRef, second.OperationRef)
				assert.EqualValues(t, 2, runs.Load(), "an equal call that is meant")
				require.NoError(t, x.Close(t.Context()))
			})
		})
	}
}

// Calling with the ref tells the caller too: the re-planned call after it is
// another operation.
func TestReplanAfterTheCommitWasHeardByRef(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var runs atomic.Int64
		refund := replanTool(&x, &runs)
		ref := refund.Call(t.Context(), replanOrder{"ORD-1"}).OperationRef
		time.Sleep(2 * time.Second)
		heard := refund.Call(toolexec.WithOperationRef(t.Context(), ref), replanOrder{"ORD-1"})
		require.True(t, heard.OK && heard.Replayed)
		assert.False(t, refund.Call(t.Context(), replanOrder{"ORD-1"}).Replayed)
		assert.EqualValues(t, 2, runs.Load())
		require.NoError(t, x.Close(t.Context()))
	})
}

// Two equal payments in a row can both be meant: a commit that its caller was
// told of is not given to the next one.
func TestReplanOfAnEqualCallThatIsMeant(t *testing.T) {
	var x toolexec.Executor
	var runs atomic.Int64
	runs.Add(1)
	refund := replanTool(&x, &runs)
	for i := range 3 {
		env := refund.Call(t.Context(), replanOrder{"ORD-1"})
		assert.True(t, env.OK && !env.Replayed)
		assert.EqualValues(t, i+2, runs.Load())
	}
}

// approveHeld approves the call that is held now, as a reviewer who looked at it.
func approveHeld(s *toolexec.Supervisor, ctx context.Context, key toolexec.Key, by toolexec.Statement, ttl time.Duration) (toolexec.Record, error) { //nolint:revive // reads like the method
	r, err := s.Get(ctx, key)
	if err != nil {
		return r, err
	}
	digest := ""
	if r.Approval != nil {
		digest = r.Approval.Digest
	}
	return s.Approve(ctx, key, digest, by, ttl)
}

// A tool marked its commit, and its process died before the caller was answered: nobody heard of that commit either. An
// ownership that ends in order has told its caller.
func TestReplanIsGivenTheMarkedCommitOfADeadProcess(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint("it dies ", dies), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := new(toolexec.MemoryStore)
				effects := 0
				bind := func(store toolexec.Store, marked func()) *toolexec.Bound[replanOrder, string] {
					return toolexec.Bind(&toolexec.Executor{Store: store}, toolexec.Tool[replanOrder, string]{
						Name: "refund", Run: func(ctx context.Context, _ replanOrder) (string, error) {
							effects++
							err := toolexec.MarkCommitted(ctx, "receipt")
							marked()
							return "receipt", err
						},
					})
				}
				var first toolexectest.Process
				bind(first.Store(disk), func() {
					if dies {
						first.Kill()
					}
				}).Call(t.Context(), replanOrder{"ORD-1"})
				time.Sleep(time.Minute)

				second := bind(disk, func() {})
				again := second.Call(t.Context(), replanOrder{"ORD-1"})
				checkEnvelope(t, again)
				assert.Equal(t, dies, again.Replayed)
				assert.Equal(t, "receipt", again.Result)
				assert.Equal(t, map[bool]int{false: 2, true: 1}[dies], effects)
				assert.False(t, second.Call(t.Context(), replanOrder{"ORD-1"}).Replayed, "it was heard of now")
			})
		})
	}
}

// Two calls without a ref wait for an equal one of another process. The second
// gets its turn when its own time is all but up. It has waited for an operation
// that may have an effect, so it must not say that nothing has happened.
func TestReplanWaiterWithoutTimeNamesWhatItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listings := toolexectest.Script(toolexectest.Outage(time.Hour, toolexectest.DelayRequest(5*time.Millisecond)))
		store := toolexectest.WrapStore(&caseDurable{Store: new(toolexec.MemoryStore)}, toolexectest.StoreFaults{List: listings})
		elsewhere, here := toolexec.Executor{Store: store}, toolexec.Executor{Store: store}
		sent := make(chan struct{})
		run := func(context.Context, replanOrder) (string, error) { <-sent; return "receipt", nil }
		policy := toolexec.Policy{Deadline: time.Minute, TotalDeadline: time.Minute}
		owner := toolexec.Bind(&elsewhere, toolexec.Tool[replanOrder, string]{Name: "refund", Run: run, Policy: policy})
		refund := toolexec.Bind(&here, toolexec.Tool[replanOrder, string]{Name: "refund", Run: run})

		var running sync.WaitGroup
		var first toolexec.Envelope[string]
		running.Go(func() { first = owner.Call(t.Context(), replanOrder{"ORD-1"}) })
		time.Sleep(time.Second)
		waiters := make([]toolexec.Envelope[string], 2)
		for i := range waiters {
			running.Go(func() { waiters[i] = refund.Call(t.Context(), replanOrder{"ORD-1"}) })
			time.Sleep(time.Millisecond)
		}
		time.Sleep(30 * time.Second)
		close(sent)
		running.Wait()

		require.True(t, first.OK)
		for i, env := range waiters {
			checkEnvelope(t, env)
			assert.Equal(t, toolexec.CodeOperationInProgress, env.Code, "waiter %d", i)
			assert.Equal(t, toolexec.CommitUnknown, env.CommitState, "waiter %d: the effect exists", i)
			assert.Equal(t, first.OperationRef, env.OperationRef, "waiter %d", i)
		}
		require.NoError(t, elsewhere.Close(t.Context()))
		require.NoError(t, here.Close(t.Context()))
	})
}
