package toolexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// Attacks on the promises of the documentation. In the first part each test holds one rule, and says what would follow
// without it; the second has faults, hostile values and load in every place at once.

type attackSave = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error)

// attackLeased is a MemoryStore that outlives its executors: without Volatile, owners can be lost, and there are leases.
type attackLeased struct {
	toolexec.Store

	mu   sync.Mutex // protects what follows
	save func(ctx context.Context, r toolexec.Record, next attackSave) (toolexec.Record, error)
}

// fail replaces what Save does from now on; nil restores it.
func (s *attackLeased) fail(save func(ctx context.Context, r toolexec.Record, next attackSave) (toolexec.Record, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.save = save
}

// attackDown is a store that cannot be reached.
func attackDown(context.Context, toolexec.Record, attackSave) (toolexec.Record, error) {
	return toolexec.Record{}, errors.New("the store is down")
}

func (s *attackLeased) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	s.mu.Lock()
	f := s.save
	s.mu.Unlock()
	if f == nil {
		return s.Store.Save(ctx, r)
	}
	return f(ctx, r, s.Store.Save)
}

type attackIn struct {
	ID   string         `json:"id"`
	Note string         `json:"note,omitempty"`
	M    map[string]int `json:"m,omitempty"`
}

// attackLedger counts effects, and is what a verifier looks at.
type attackLedger struct{ n atomic.Int64 }

func (l *attackLedger) verifier(settle time.Duration) *toolexec.Verifier[attackIn, string] {
	return &toolexec.Verifier[attackIn, string]{Authoritative: true, Settle: settle, Lookup: func(context.Context, string, attackIn) (toolexec.Finding[string], error) {
		if l.n.Load() > 0 {
			return toolexec.Found("x"), nil
		}
		return toolexec.Absent[string](), nil
	}}
}

// A write runs twice ---------------------------------------------------------

// The lease of a TotalDeadline near the largest duration must not overflow: a lease in the past makes a second process
// take the living owner for lost, and its settle window for closed, and send again.
func TestAttackEndlessTotalDeadline(t *testing.T) {
	store := &attackLeased{Store: new(toolexec.MemoryStore)}
	var dispatched atomic.Int64
	started, release := make(chan struct{}, 2), make(chan struct{})
	tool := toolexec.Tool[attackIn, string]{Name: "pay", Policy: toolexec.Policy{Deadline: -1, TotalDeadline: math.MaxInt64},
		Run: func(context.Context, attackIn) (string, error) {
			if dispatched.Add(1) == 1 {
				started <- struct{}{}
				<-release
			}
			return "", nil
		},
		Verify: &toolexec.Verifier[attackIn, string]{Authoritative: true, Lookup: func(context.Context, string, attackIn) (toolexec.Finding[string], error) {
			return toolexec.Absent[string](), nil
		}}}
	a, b := &toolexec.Executor{Store: store}, &toolexec.Executor{Store: store}
	one, two := toolexec.Bind(a, tool), toolexec.Bind(b, tool)
	ctx := toolexec.WithOperationRef(t.Context(), "r1")
	done := make(chan struct{})
	go func() { one.Call(ctx, attackIn{ID: "1"}); close(done) }()
	<-started
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	env := two.Call(short, attackIn{ID: "1"})
	assert.Equal(t, int64(1), dispatched.Load(), "the write runs twice: %s", env.Code)
	close(release)
	<-done
}

// The window of an attempt that still runs (lease + settle) must not overflow, however large Settle is: were it a moment
// long past, absence would count at once, in the very call whose attempt runs on.
func TestAttackEndlessSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent attackLedger
		x := &toolexec.Executor{Store: &attackLeased{Store: new(toolexec.MemoryStore)}}
		b := toolexec.Bind(x, toolexec.Tool[attackIn, string]{Name: "pay", Verify: sent.verifier(math.MaxInt64), Run: func(context.Context, attackIn) (string, error) {
			time.Sleep(30 * time.Second) // it ignores its context, and arrives
			sent.n.Add(1)
			return "x", nil
		}})
		env := b.Call(t.Context(), attackIn{ID: "1"})
		assert.Equal(t, toolexec.CommitUnknown, env.CommitState)
		require.NoError(t, x.Close(t.Context()))
		assert.Equal(t, int64(1), sent.n.Load(), "the write ran twice")
	})
}

// Whether a lost owner marked its sends is read from its record, not from the tool of the process that takes over: a
// process of the version before MarksSent that died after it had sent must not be taken for one that sent nothing.
func TestAttackMarksSentIsNewInTheOtherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := new(toolexec.MemoryStore)
		dying := &attackLeased{Store: mem}
		var sent attackLedger
		tool := toolexec.Tool[attackIn, string]{Name: "pay", Run: func(context.Context, attackIn) (string, error) {
			sent.n.Add(1)
			dying.fail(attackDown) // as a process that is killed
			return "", errors.New("killed")
		}}
		before := toolexec.Bind(&toolexec.Executor{Store: dying}, tool)
		tool.MarksSent = true
		tool.Run = func(ctx context.Context, _ attackIn) (string, error) {
			if err := toolexec.MarkSent(ctx); err != nil {
				return "", err
			}
			sent.n.Add(1)
			return "", nil
		}
		after := toolexec.Bind(&toolexec.Executor{Store: &attackLeased{Store: mem}}, tool)
		ctx := toolexec.WithOperationRef(t.Context(), "r1")
		before.Call(ctx, attackIn{ID: "1"})
		time.Sleep(time.Minute)
		env := after.Call(ctx, attackIn{ID: "1"})
		assert.Equal(t, int64(1), sent.n.Load(), "the write ran twice")
		assert.Equal(t, toolexec.CommitUnknown, env.CommitState)
	})
}

// An owner must not dispatch when the store's answer to begin took longer than the lease that begin wrote: by then
// another process may have taken over, looked and sent.
func TestAttackBeginTakesLongerThanItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := new(toolexec.MemoryStore)
		slow := &attackLeased{Store: mem}
		slow.fail(func(ctx context.Context, r toolexec.Record, next attackSave) (toolexec.Record, error) {
			out, err := next(ctx, r)
			if r.Version == 0 {
				time.Sleep(time.Minute)
			}
			return out, err
		})
		var sent attackLedger
		tool := toolexec.Tool[attackIn, string]{Name: "pay", Verify: sent.verifier(0), Policy: toolexec.Policy{TotalDeadline: -1},
			Run: func(context.Context, attackIn) (string, error) { sent.n.Add(1); return "", nil }}
		one, two := toolexec.Bind(&toolexec.Executor{Store: slow}, tool), toolexec.Bind(&toolexec.Executor{Store: &attackLeased{Store: mem}}, tool)
		ctx := toolexec.WithOperationRef(t.Context(), "r1")
		done := make(chan struct{})
		go func() { one.Call(ctx, attackIn{ID: "1"}); close(done) }()
		time.Sleep(16 * time.Second) // the lease is over
		two.Call(ctx, attackIn{ID: "1"})
		time.Sleep(31 * time.Second) // the settle window is, too
		two.Call(ctx, attackIn{ID: "1"})
		<-done
		assert.Equal(t, int64(1), sent.n.Load(), "the write ran twice")
	})
}

// The context of an attempt ends with its owner's lease, not with the first heartbeat that fails after it: others count
// the settle window from the lease's end, so an owner that cannot reach the store must not send beyond it.
func TestAttackContextOutlivesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := new(toolexec.MemoryStore)
		cut := &attackLeased{Store: mem}
		var sent attackLedger
		tool := toolexec.Tool[attackIn, string]{Name: "pay", Verify: sent.verifier(time.Second), Policy: toolexec.Policy{Deadline: -1, TotalDeadline: -1}}
		tool.Run = func(ctx context.Context, _ attackIn) (string, error) {
			cut.fail(func(ctx context.Context, _ toolexec.Record, _ attackSave) (toolexec.Record, error) {
				<-ctx.Done()
				return toolexec.Record{}, ctx.Err()
			})
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(17 * time.Second): // and so it may send
			}
			sent.n.Add(1)
			return "x", nil
		}
		a := &toolexec.Executor{Store: cut}
		one := toolexec.Bind(a, tool)
		tool.Run = func(context.Context, attackIn) (string, error) { sent.n.Add(1); return "x", nil }
		two := toolexec.Bind(&toolexec.Executor{Store: &attackLeased{Store: mem}}, tool)
		ctx := toolexec.WithOperationRef(t.Context(), "r1")
		done := make(chan struct{})
		go func() { one.Call(ctx, attackIn{ID: "1"}); close(done) }()
		time.Sleep(15*time.Second + time.Millisecond)
		two.Call(ctx, attackIn{ID: "1"})
		time.Sleep(1100 * time.Millisecond)
		two.Call(ctx, attackIn{ID: "1"})
		<-done
		assert.Equal(t, int64(1), sent.n.Load(), "the write ran twice")
		require.NoError(t, a.Close(t.Context()))
	})
}

// DedupeWindow holds at the moment of dispatch: it is checked again when the store has answered begin, since after the
// window the remote side may have forgotten the ref, and carries it out anew.
func TestAttackDedupeWindowPassesDuringBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := new(toolexec.MemoryStore)
		n := 0
		store := &attackLeased{Store: mem}
		x := &toolexec.Executor{Store: store, Policy: toolexec.Policy{MaxRetries: -1}}
		var at []time.Duration
		start := time.Now()
		b := toolexec.Bind(x, toolexec.Tool[attackIn, string]{Name: "put", Effect: toolexec.Idempotent, DedupeWindow: time.Minute, Run: func(context.Context, attackIn) (string, error) {
			at = append(at, time.Since(start))
			return "", toolexec.InDoubt(errors.New("x"))
		}})
		ctx := toolexec.WithOperationRef(t.Context(), "r")
		b.Call(ctx, attackIn{ID: "1"})
		store.fail(func(ctx context.Context, r toolexec.Record, next attackSave) (toolexec.Record, error) {
			if n++; n == 1 {
				out, err := next(ctx, r)
				time.Sleep(9 * time.Second)
				return out, err
			}
			return next(ctx, r)
		})
		time.Sleep(55 * time.Second)
		b.Call(ctx, attackIn{ID: "1"})
		for _, d := range at {
			assert.LessOrEqual(t, d, time.Minute, "sent again after the window")
		}
	})
}

// Arguments with invalid UTF-8 are refused, since JSON makes U+FFFD of it: two intents would have one identity (and one
// approval digest), and a retry would be sent with other bytes than the first attempt.
func TestAttackInvalidUTF8(t *testing.T) {
	t.Run("two intents collide", func(t *testing.T) {
		var x toolexec.Executor
		b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(_ context.Context, in attackIn) (string, error) { return in.ID, nil }})
		ctx := toolexec.WithOperationRef(t.Context(), "r1")
		for _, id := range []string{"acct\xff", "acct\xfe"} {
			env := b.Call(ctx, attackIn{ID: id})
			assert.Equal(t, toolexec.CodeInvalidArguments, env.Code)
		}
		for _, id := range []string{"acct\ufffd", `acct\ufffd`} { // these are texts like any other
			assert.True(t, b.Call(t.Context(), attackIn{ID: id}).OK)
		}
	})
	t.Run("a retry sends other bytes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			var got []string
			b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Effect: toolexec.Idempotent, Run: func(_ context.Context, in attackIn) (string, error) {
				got = append(got, in.ID)
				return in.ID, toolexec.Transient(nil)
			}})
			b.Call(t.Context(), attackIn{ID: "acct\xff"})
			for _, g := range got {
				assert.Equal(t, "acct\xff", g)
			}
		})
	})
}

// What a retry gets ----------------------------------------------------------

type attackUnexported struct {
	ID   string `json:"id"`
	from string
}

type attackMasked string

func (attackMasked) MarshalJSON() ([]byte, error) { return []byte(`"***"`), nil }

type attackMaskedIn struct {
	ID   string       `json:"id"`
	Card attackMasked `json:"card"`
}

// Each attempt gets a copy of its own, of the value that was passed: also where JSON does not give it back (unexported
// fields, a MarshalJSON that masks, omitempty), for reads, for tools with IgnoreHidden, and for the first attempt of a
// typed call. Two attempts that write to one map at once would crash the process.
func TestAttackRetryGetsAnotherInput(t *testing.T) {
	t.Run("unexported", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			var got []string
			b := toolexec.Bind(&x, toolexec.Tool[attackUnexported, string]{Name: "pay", Run: func(_ context.Context, in attackUnexported) (string, error) {
				got = append(got, in.from)
				return "", toolexec.NotSent(nil)
			}})
			b.Call(t.Context(), attackUnexported{"a", "savings"})
			assert.Equal(t, []string{"savings", "savings", "savings"}, got)
		})
	})
	t.Run("masked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			var got []string
			b := toolexec.Bind(&x, toolexec.Tool[attackMaskedIn, string]{Name: "pay", Run: func(_ context.Context, in attackMaskedIn) (string, error) {
				got = append(got, string(in.Card))
				return "", toolexec.NotSent(nil)
			}})
			x.Execute(t.Context(), toolexec.Call{Name: "pay", Arguments: json.RawMessage(`{"id":"1","card":"4242"}`)})
			assert.Equal(t, []string{"4242", "4242", "4242"}, got)
			got = nil
			b.Call(t.Context(), attackMaskedIn{"a", "4242"})
			assert.Equal(t, []string{"4242", "4242", "4242"}, got)
		})
	})
	t.Run("omitempty", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(_ context.Context, in attackIn) (string, error) {
				in.M["x"] = 1
				return "", toolexec.NotSent(nil)
			}})
			env := b.Call(t.Context(), attackIn{ID: "a", M: map[string]int{}})
			assert.Equal(t, toolexec.NotCommitted, env.CommitState, "%s", env.Code)
		})
	})
	t.Run("read only map", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			var got []int
			toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "find", Effect: toolexec.ReadOnly, Run: func(_ context.Context, in attackIn) (string, error) {
				in.M["n"]++
				got = append(got, in.M["n"])
				return "", toolexec.Transient(nil)
			}})
			x.Execute(t.Context(), toolexec.Call{Name: "find", Arguments: json.RawMessage(`{"id":"a","m":{"n":0}}`)})
			assert.Equal(t, []int{1, 1, 1}, got)
		})
	})
	t.Run("ignore hidden, by name", func(t *testing.T) {
		type in struct {
			M map[string]int `json:"m"`
			F func()         `json:"-"`
		}
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			var got []int
			toolexec.Bind(&x, toolexec.Tool[in, string]{Name: "pay", IgnoreHidden: true, Run: func(_ context.Context, i in) (string, error) {
				i.M["n"]++
				got = append(got, i.M["n"])
				return "", toolexec.NotSent(nil)
			}})
			x.Execute(t.Context(), toolexec.Call{Name: "pay", Arguments: json.RawMessage(`{"m":{"n":0}}`)})
			assert.Equal(t, []int{1, 1, 1}, got)
		})
	})
	t.Run("first attempt of a typed call", func(t *testing.T) {
		var x toolexec.Executor
		b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(_ context.Context, in attackIn) (string, error) { in.M["x"] = 1; return "", nil }})
		m := map[string]int{"a": 1}
		b.Call(t.Context(), attackIn{ID: "1", M: m})
		assert.Equal(t, map[string]int{"a": 1}, m, "the caller's own")
	})
}

// A wrong commit state -------------------------------------------------------

// ErrorsMean: EvidenceRejected does not make a refusal of what a tool returns because its context ended, in whatever
// words: ctx.Err, the cause of a cancel, or its own. The request is out, so the outcome stays in doubt.
func TestAttackErrorsMeanOfACutAttempt(t *testing.T) {
	for name, ret := range map[string]func(context.Context) error{
		"cause":     context.Cause,
		"own words": func(context.Context) error { return errors.New("gave up") },
		"err":       func(ctx context.Context) error { return ctx.Err() },
	} {
		for _, how := range []string{"cancel", "deadline"} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var x toolexec.Executor
					sent := make(chan struct{})
					b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", ErrorsMean: toolexec.EvidenceRejected, Run: func(ctx context.Context, _ attackIn) (string, error) {
						close(sent) // the request is out
						<-ctx.Done()
						return "", ret(ctx)
					}})
					ctx, cancel := context.WithCancelCause(t.Context())
					if how == "cancel" {
						go func() { <-sent; cancel(errors.New("the user left")) }()
					}
					env := b.Call(ctx, attackIn{ID: "1"})
					assert.Equal(t, toolexec.CommitUnknown, env.CommitState, env.Code)
					cancel(nil)
				})
			})
		}
	}
}

// Arguments that cannot be used are no news of the operation that the given ref names: the answer must not say
// not_committed under the ref of a committed one.
func TestAttackMalformedUnderACommittedRef(t *testing.T) {
	var x toolexec.Executor
	toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(context.Context, attackIn) (string, error) { return "done", nil }})
	call := toolexec.Call{Name: "pay", OperationRef: "r1", Arguments: json.RawMessage(`{"id":"1"}`)}
	require.True(t, x.Execute(t.Context(), call).OK)
	// Either the answer leaves the ref out, or it says what is known of it.
	for _, args := range []string{`{"id":1}`, `{`, `{"id":"1","x":1}`} {
		call.Arguments = json.RawMessage(args)
		env := x.Execute(t.Context(), call)
		if env.OperationRef == "r1" {
			assert.NotEqual(t, toolexec.NotCommitted, env.CommitState, "%s: %s", args, env.AgentMessage)
		}
	}
}

// The same holds for a typed call whose input cannot be encoded.
func TestAttackTypedUnencodableUnderACommittedRef(t *testing.T) {
	type in struct {
		F float64 `json:"f"`
	}
	var x toolexec.Executor
	b := toolexec.Bind(&x, toolexec.Tool[in, string]{Name: "pay", Run: func(context.Context, in) (string, error) { return "done", nil }})
	ctx := toolexec.WithOperationRef(t.Context(), "r1")
	require.True(t, b.Call(ctx, in{1}).OK)
	env := b.Call(ctx, in{math.NaN()})
	if env.OperationRef == "r1" {
		assert.NotEqual(t, toolexec.NotCommitted, env.CommitState, env.AgentMessage)
	}
}

// No hold may be written over an unknown operation, though none of its attempts spent an approval: awaiting_approval
// reads as not_committed, and takes no late evidence, while an attempt is unresolved.
func TestAttackHoldOverAnUnknownOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		required := true
		b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "put", Effect: toolexec.Idempotent, Policy: toolexec.Policy{MaxRetries: -1},
			Approval: &toolexec.Approval[attackIn]{Required: func(attackIn) bool { return required }}, // as configured that day
			Run:      func(context.Context, attackIn) (string, error) { return "", toolexec.InDoubt(nil) }})
		ctx := toolexec.WithOperationRef(t.Context(), "r1")
		b.Call(ctx, attackIn{ID: "1"})
		required = false
		require.Equal(t, toolexec.CommitUnknown, b.Call(ctx, attackIn{ID: "1"}).CommitState)
		required = true
		time.Sleep(time.Minute)
		env := b.Call(ctx, attackIn{ID: "1"})
		assert.Equal(t, toolexec.CommitUnknown, env.CommitState, env.Code)
	})
}

// An owner that cannot reach the store when its lease is over must not answer from its own attempts alone: another
// process may have committed the operation meanwhile.
func TestAttackOwnerWithoutItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := new(toolexec.MemoryStore)
		cut := &attackLeased{Store: mem}
		var sent attackLedger
		tool := toolexec.Tool[attackIn, string]{Name: "pay", Verify: sent.verifier(time.Second), Policy: toolexec.Policy{Deadline: -1, TotalDeadline: -1}}
		tool.Run = func(ctx context.Context, _ attackIn) (string, error) {
			cut.fail(attackDown)
			<-ctx.Done() // the heartbeat has given up
			time.Sleep(time.Minute)
			return "", toolexec.Rejected("CONFLICT", nil)
		}
		a := &toolexec.Executor{Store: cut}
		one := toolexec.Bind(a, tool)
		tool.Run = func(context.Context, attackIn) (string, error) { sent.n.Add(1); return "", nil }
		two := toolexec.Bind(&toolexec.Executor{Store: &attackLeased{Store: mem}}, tool)
		ctx := toolexec.WithOperationRef(t.Context(), "r1")
		answer := make(chan toolexec.Envelope[string], 1)
		go func() { answer <- one.Call(ctx, attackIn{ID: "1"}) }()
		synctest.Wait()
		time.Sleep(20 * time.Second)
		require.True(t, two.Call(ctx, attackIn{ID: "1"}).OK)
		env := <-answer
		assert.Equal(t, toolexec.CommitUnknown, env.CommitState, env.Code)
		require.NoError(t, a.Close(t.Context()))
	})
}

// A permanent answer about one argument does not shut a read's gate, even with a RetryAfter: everything else that is
// asked of the tool in this scope would get the same NOT_FOUND until then.
func TestAttackGateOfAPermanentFailure(t *testing.T) {
	var x toolexec.Executor
	b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "get", Effect: toolexec.ReadOnly, Run: func(_ context.Context, in attackIn) (string, error) {
		if in.ID == "none" {
			f := toolexec.Rejected("NOT_FOUND", nil)
			f.RetryAfter = time.Hour
			return "", f
		}
		return "x", nil
	}})
	b.Call(t.Context(), attackIn{ID: "none"})
	env := b.Call(t.Context(), attackIn{ID: "1"})
	assert.True(t, env.OK, "an order that exists: %s", env.Code)
}

// Approvals and operators ----------------------------------------------------

// Approve is good for the digest that the reviewer saw, and no other: a call that differs in an ignored field may
// replace the hold between the look and the approval.
func TestAttackApprovalOfWhatWasNotSeen(t *testing.T) {
	var x toolexec.Executor
	var ran []string
	b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", IgnoreFields: []string{"/note"},
		Approval: &toolexec.Approval[attackIn]{Summary: func(in attackIn) string { return in.Note }},
		Run:      func(_ context.Context, in attackIn) (string, error) { ran = append(ran, in.Note); return "", nil }})
	ctx := toolexec.WithOperationRef(t.Context(), "r1")
	s := toolexec.Supervisor{Executor: &x}
	b.Call(ctx, attackIn{ID: "1", Note: "to Alice"})
	seen, err := s.Get(ctx, toolexec.Key{Ref: "r1"})
	require.NoError(t, err)
	require.Equal(t, "to Alice", seen.Approval.Summary)
	b.Call(ctx, attackIn{ID: "1", Note: "to Mallory"})
	_, _ = s.Approve(ctx, seen.Key, seen.Approval.Digest, toolexec.Statement{Actor: "a", Evidence: "saw it"}, 0)
	env := b.Call(ctx, attackIn{ID: "1", Note: "to Mallory"})
	assert.False(t, env.OK, "ran %v", ran)
}

// TTL is how long a held call waits for a decision: after it an approval is refused, since the reviewer's grounds may
// be out of date.
func TestAttackApprovalAfterItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Approval: &toolexec.Approval[attackIn]{TTL: time.Minute},
			Run: func(_ context.Context, in attackIn) (string, error) { return "", nil }})
		ctx := toolexec.WithOperationRef(t.Context(), "r1")
		s := toolexec.Supervisor{Executor: &x}
		b.Call(ctx, attackIn{ID: "1"})
		time.Sleep(time.Hour)
		_, err := approveHeld(&s, ctx, toolexec.Key{Ref: "r1"}, toolexec.Statement{Actor: "a", Evidence: "saw it"}, 0)
		assert.ErrorIs(t, err, toolexec.ErrRefused)
	})
}

// Reopen lets a rejected operation run again with the same input, within the run that was refused as well: a person's
// word stands above the loop breaker.
func TestAttackReopenWithinARun(t *testing.T) {
	for _, run := range []string{"", "run"} {
		t.Run("run "+run, func(t *testing.T) {
			var x toolexec.Executor
			refuse := true
			b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(context.Context, attackIn) (string, error) {
				if refuse {
					return "", toolexec.Invalid("id", "")
				}
				return "done", nil
			}})
			ctx := toolexec.WithRunID(toolexec.WithOperationRef(t.Context(), "r1"), run)
			require.False(t, b.Call(ctx, attackIn{ID: "1"}).OK)
			s := toolexec.Supervisor{Executor: &x}
			_, err := s.Reopen(ctx, toolexec.Key{Ref: "r1"}, toolexec.Statement{Actor: "a", Evidence: "e"})
			require.NoError(t, err)
			refuse = false
			env := b.Call(ctx, attackIn{ID: "1"})
			assert.True(t, env.OK, "%s", env.Code)
		})
	}
}

// A rejection that names a field by another name than JSON's must not refuse every correction: a field that the
// arguments do not have is never seen to change.
func TestAttackWrongFieldNameIsNeverCorrected(t *testing.T) {
	var x toolexec.Executor
	b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(_ context.Context, in attackIn) (string, error) {
		if in.ID == "bad" {
			return "", toolexec.Invalid("ID", "")
		}
		return "", nil
	}})
	ctx := toolexec.WithOperationRef(t.Context(), "r1")
	b.Call(ctx, attackIn{ID: "bad"})
	env := b.Call(ctx, attackIn{ID: "good"})
	assert.True(t, env.OK, env.Code)
}

// What escapes ---------------------------------------------------------------

type attackNilError struct{ inner error }

func (e *attackNilError) Error() string { return e.inner.Error() }
func (e *attackNilError) Unwrap() error { return e.inner }

// attackForEver is when a ring lets go, so that the test ends.
const attackForEver = 5_000_000

type attackLoopError struct{ n *int }

func (e attackLoopError) Error() string { return "loop" }
func (e attackLoopError) Unwrap() error {
	if *e.n++; *e.n > attackForEver {
		return nil
	}
	return e
}

// Errors of Check, Lookup and Run are asked for their Unwrap, As and Is under containment and with a bound: the
// well-known nil pointer in an error must not crash the caller, nor a ring hang it.
func TestAttackErrorsOfCheckAndLookup(t *testing.T) {
	errs := map[string]func() (n *int, err error){
		"typed nil": func() (*int, error) { var e *attackNilError; return new(int), e },
		"ring":      func() (*int, error) { n := new(int); return n, attackLoopError{n} },
	}
	for name, mk := range errs {
		t.Run("check "+name, func(t *testing.T) {
			n, err := mk()
			var x toolexec.Executor
			b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Check: func(attackIn) error { return err },
				Run: func(context.Context, attackIn) (string, error) { return "", nil }})
			assert.NotPanics(t, func() { b.Call(t.Context(), attackIn{ID: "1"}) })
			assert.Less(t, *n, attackForEver, "it hung")
		})
		t.Run("lookup "+name, func(t *testing.T) {
			n, err := mk()
			var x toolexec.Executor
			b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay",
				Verify: &toolexec.Verifier[attackIn, string]{Lookup: func(context.Context, string, attackIn) (toolexec.Finding[string], error) {
					return toolexec.Finding[string]{}, err
				}},
				Run: func(context.Context, attackIn) (string, error) { return "", errors.New("x") }})
			assert.NotPanics(t, func() { b.Call(t.Context(), attackIn{ID: "1"}) })
			assert.Less(t, *n, attackForEver, "it hung")
		})
		t.Run("run "+name, func(t *testing.T) {
			n, err := mk()
			var x toolexec.Executor
			b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(context.Context, attackIn) (string, error) { return "", err }})
			assert.NotPanics(t, func() { b.Call(t.Context(), attackIn{ID: "1"}) })
			assert.Less(t, *n, attackForEver, "it hung")
		})
	}
}

// attackFlippy is cancelled between two looks.
type attackFlippy struct {
	context.Context //nolint:containedctx // it is a context

	at   int
	asks *atomic.Int64
}

func (c attackFlippy) Err() error {
	if int(c.asks.Add(1)) > c.at {
		return context.Canceled
	}
	return nil
}

// A Failure's cause is unwrapped under containment, whenever the caller's context ends while it is judged: on the
// goroutine of an attempt that outlives its call a panic would crash the process.
func TestAttackCancelWhileJudging(t *testing.T) {
	for at := range 30 {
		var x toolexec.Executor
		b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(context.Context, attackIn) (string, error) {
			var e *attackNilError
			return "", toolexec.Transient(e)
		}})
		assert.NotPanics(t, func() { b.Call(attackFlippy{t.Context(), at, new(atomic.Int64)}, attackIn{ID: "1"}) }, at)
	}
}

// A json.Number becomes a detail only if it is a number: with any other text in it the whole envelope could not be
// encoded.
func TestAttackNumberDetail(t *testing.T) {
	for _, n := range []json.Number{`"x"`, `{"a":1}`, " 1", "null", "[1]"} {
		var x toolexec.Executor
		b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(context.Context, attackIn) (string, error) {
			f := toolexec.Rejected("", nil)
			f.Details = toolexec.Details{toolexec.DetailNote: n}
			return "", f
		}})
		env := b.Call(t.Context(), attackIn{ID: "1"})
		_, err := json.Marshal(env)
		assert.NoError(t, err, "%q", n)
	}
}

// No byte of an argument gets into a detail or a user's message, and the key of a map is one, also when its value is
// refused.
func TestAttackMapKeysLeak(t *testing.T) {
	var x toolexec.Executor
	toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(context.Context, attackIn) (string, error) { return "", nil }})
	for _, args := range []string{`{"id":"1","m":{"CANARY":"x"}}`, `{"id":"1","m":{"CANARY":1e99}}`, `{"id":"1","m":{"CANARY":1,"CANARY":2}}`} {
		env := x.Execute(t.Context(), toolexec.Call{Name: "pay", Arguments: json.RawMessage(args)})
		assert.NotContains(t, fmt.Sprint(env.SafeDetails), "CANARY", args)
		assert.NotContains(t, env.UserMessage, "CANARY", args)
	}
}

// Hangs and spins ------------------------------------------------------------

// Store calls between attempts are bounded by the total deadline, not by the caller's context alone: a store that hangs
// until its context ends would hang a caller without a deadline.
func TestAttackStoreHangsUntilItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &attackLeased{Store: new(toolexec.MemoryStore)}
		x := &toolexec.Executor{Store: store}
		b := toolexec.Bind(x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(context.Context, attackIn) (string, error) {
			store.fail(func(ctx context.Context, _ toolexec.Record, _ attackSave) (toolexec.Record, error) {
				select {
				case <-ctx.Done():
				case <-time.After(24 * time.Hour):
				}
				return toolexec.Record{}, errors.New("hung")
			})
			return "", toolexec.NotSent(nil)
		}})
		start := time.Now()
		env := b.Call(toolexec.WithOperationRef(context.Background(), "r1"), attackIn{ID: "1"})
		assert.LessOrEqual(t, time.Since(start), 13*time.Second, env.Code)
		store.fail(nil)
		_ = x.Close(t.Context())
	})
}

type attackSpin struct {
	toolexec.Store
	n atomic.Int64
}

func (s *attackSpin) Wait(ctx context.Context, _ toolexec.Key, _ int64) error { return nil }
func (s *attackSpin) Load(ctx context.Context, k toolexec.Key) (toolexec.Record, error) {
	s.n.Add(1)
	return s.Store.Load(ctx, k)
}

// A Waiter may return early, and then neither it nor the store is asked again as often as the processor can.
func TestAttackEarlyWait(t *testing.T) {
	s := &attackSpin{Store: new(toolexec.MemoryStore)}
	a, b := &toolexec.Executor{Store: s}, &toolexec.Executor{Store: s}
	end := make(chan struct{})
	started := make(chan struct{})
	one := toolexec.Bind(a, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(context.Context, attackIn) (string, error) { close(started); <-end; return "", nil }})
	two := toolexec.Bind(b, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(context.Context, attackIn) (string, error) { return "", nil }})
	ctx := toolexec.WithOperationRef(context.Background(), "r1")
	done := make(chan struct{})
	go func() { one.Call(ctx, attackIn{ID: "1"}); close(done) }()
	<-started
	c, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	two.Call(c, attackIn{ID: "1"})
	close(end)
	<-done
	assert.Less(t, s.n.Load(), int64(1000), "it spins")
}

// MaxAbandoned bounds look-ups too: those that ignore their deadline must not pile up.
func TestAttackHungLookupsPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var running atomic.Int64
		free := make(chan struct{})
		b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(context.Context, attackIn) (string, error) { return "", errors.New("x") },
			Verify: &toolexec.Verifier[attackIn, string]{Lookup: func(context.Context, string, attackIn) (toolexec.Finding[string], error) {
				running.Add(1)
				<-free
				return toolexec.Finding[string]{}, nil
			}}})
		for i := range 100 {
			b.Call(toolexec.WithOperationRef(t.Context(), fmt.Sprint("r", i)), attackIn{ID: fmt.Sprint(i)})
		}
		assert.LessOrEqual(t, running.Load(), int64(toolexec.DefaultMaxAbandoned))
		close(free)
		_ = x.Close(t.Context())
	})
}

// A heartbeat leaves nothing behind: an attempt that does not end has thousands of them a day.
func TestAttackHeartbeatsKeepMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &toolexec.Executor{Store: &attackLeased{Store: new(toolexec.MemoryStore)}}
		end := make(chan struct{})
		b := toolexec.Bind(x, toolexec.Tool[attackIn, string]{Name: "pay", Run: func(context.Context, attackIn) (string, error) { <-end; return "", nil }})
		b.Call(t.Context(), attackIn{ID: "1"})
		heap := func() int64 {
			var m runtime.MemStats
			time.Sleep(24 * time.Hour)
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		first := heap()
		assert.Less(t, heap()-first, int64(1<<20), "bytes of a day")
		close(end)
		require.NoError(t, x.Close(t.Context()))
	})
}

// Shared memory --------------------------------------------------------------

// The result that a caller gets is its own: what it does with it must not get into the record when another attempt of
// the same ownership ends late.
func TestAttackResultOfTheCallerJoinsTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		hang := make(chan struct{})
		toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "put", Effect: toolexec.Idempotent, Run: func(ctx context.Context, _ attackIn) (string, error) {
			if toolexec.Attempt(ctx) == 1 {
				<-hang
				return "", errors.New("late")
			}
			return "receipt", nil
		}})
		call := toolexec.Call{Name: "put", OperationRef: "r1", Arguments: json.RawMessage(`{"id":"1"}`)}
		env := x.Execute(t.Context(), call)
		require.True(t, env.OK)
		copy(env.Result, `"changed"`) // as long as "receipt"
		close(hang)
		synctest.Wait()
		again := x.Execute(t.Context(), call)
		assert.Equal(t, `"receipt"`, string(again.Result))
		_ = x.Close(t.Context())
	})
}

// With -race: the call's key is not written while an attempt that runs on may read it, for OperationRef in the tool and
// for its late evidence.
func TestAttackRaceOfTheKey(t *testing.T) {
	for _, cut := range []string{"cancel", "deadline"} {
		t.Run(cut, func(t *testing.T) {
			for range 20 {
				attackCutAfterCommit(t, cut == "cancel")
			}
		})
	}
}

// attackCutAfterCommit ends a call whose attempt has committed and runs on.
func attackCutAfterCommit(t *testing.T, byCancel bool) {
	t.Helper()
	var x toolexec.Executor
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	policy := toolexec.Policy{Deadline: time.Millisecond}
	if byCancel {
		policy.Deadline = time.Minute
	}
	stop := make(chan struct{})
	b := toolexec.Bind(&x, toolexec.Tool[attackIn, string]{Name: "pay", Policy: policy, Run: func(ctx context.Context, _ attackIn) (string, error) {
		_ = toolexec.MarkCommitted(ctx, "x")
		if byCancel {
			cancel()
		}
		for {
			select {
			case <-stop:
				return "x", nil
			default:
				_ = toolexec.OperationRef(ctx)
			}
		}
	}})
	env := b.Call(ctx, attackIn{ID: "1"})
	if byCancel { // on a busy machine the deadline may pass before the tool says that it committed
		assert.True(t, env.OK, env.Code)
	}
	close(stop)
	require.NoError(t, x.Close(t.Context()))
}

// Everything at once ---------------------------------------------------------

// attackFaulty fails, cancels the caller or panics, before or after doing what it was asked, from its at-th call on.
type attackFaulty struct {
	toolexec.Store

	n        atomic.Int64
	at, many int64
	how      string
	cancel   context.CancelFunc
}

func (s *attackFaulty) around(do func() error) error {
	n := s.n.Add(1)
	hit := n >= s.at && n < s.at+s.many
	if hit && strings.HasSuffix(s.how, "before") {
		if err := s.strike(); err != nil {
			return err
		}
	}
	err := do()
	if hit && strings.HasSuffix(s.how, "after") {
		if err := s.strike(); err != nil {
			return err
		}
	}
	return err
}

func (s *attackFaulty) strike() error {
	switch {
	case strings.HasPrefix(s.how, "cancel"):
		s.cancel()
		return nil
	case strings.HasPrefix(s.how, "panic"):
		panic("the store")
	}
	return errors.New("the store failed")
}

func (s *attackFaulty) Save(ctx context.Context, r toolexec.Record) (out toolexec.Record, err error) {
	err = s.around(func() error { var e error; out, e = s.Store.Save(ctx, r); return e })
	return out, err
}

func (s *attackFaulty) Load(ctx context.Context, k toolexec.Key) (out toolexec.Record, err error) {
	err = s.around(func() error { var e error; out, e = s.Store.Load(ctx, k); return e })
	return out, err
}

func (s *attackFaulty) List(ctx context.Context, q toolexec.Query) (out []toolexec.Record, next toolexec.Cursor, err error) {
	err = s.around(func() error { var e error; out, next, e = s.Store.List(ctx, q); return e })
	return out, next, err
}

// attackWorld is one write, called by a process whose store is faulty, and then by two in turn.
type attackWorld struct {
	effect       toolexec.Effect
	outcome, ref string
	store        *attackFaulty
	sent         attackLedger
	dispatched   atomic.Int64
}

func (w *attackWorld) add() {
	if w.effect != toolexec.Idempotent || w.sent.n.Load() == 0 {
		w.sent.n.Add(1)
	}
}

func (w *attackWorld) run(ctx context.Context, _ attackIn) (string, error) {
	n := w.dispatched.Add(1)
	switch w.outcome {
	case "rejected":
		return "", toolexec.Rejected("CONFLICT", nil)
	case "not sent at first":
		if n == 1 {
			return "", toolexec.NotSent(nil)
		}
	case "outlives":
		time.Sleep(30 * time.Second)
	}
	w.add()
	switch w.outcome {
	case "marked":
		_ = toolexec.MarkCommitted(ctx, "x")
		return "", errors.New("a later step")
	case "lost":
		return "", errors.New("no answer")
	}
	return "x", nil
}

// wrong is what an envelope must not say.
func (w *attackWorld) wrong(env *toolexec.Envelope[string]) bool {
	effects := w.sent.n.Load()
	runs := w.outcome == "outlives" && w.dispatched.Load() > 0
	return env.CommitState == toolexec.NotCommitted && (effects > 0 || runs) || env.CommitState == toolexec.Committed && effects == 0
}

func (w *attackWorld) play(t *testing.T) {
	mem := w.store.Store
	ctx, cancel := context.WithCancel(toolexec.WithOperationRef(t.Context(), w.ref))
	defer cancel()
	w.store.cancel = cancel
	tool := toolexec.Tool[attackIn, string]{Name: "pay", Effect: w.effect, Verify: w.sent.verifier(0), Run: w.run}
	xs := []*toolexec.Executor{{Store: w.store}, {Store: &attackLeased{Store: mem}}}
	bs := []*toolexec.Bound[attackIn, string]{toolexec.Bind(xs[0], tool), toolexec.Bind(xs[1], tool)}
	env := bs[0].Call(ctx, attackIn{ID: "1"})
	assert.False(t, w.wrong(&env), "%s: %s with %d effects", env.Code, env.CommitState, w.sent.n.Load())
	for i := range 6 {
		time.Sleep(20 * time.Second)
		again := bs[(i+1)%2].Call(toolexec.WithOperationRef(t.Context(), w.ref), attackIn{ID: "1"})
		assert.False(t, w.ref != "" && w.wrong(&again), "again: %s: %s with %d effects", again.Code, again.CommitState, w.sent.n.Load())
	}
	for _, x := range xs {
		require.NoError(t, x.Close(t.Context()))
	}
	assert.False(t, w.ref != "" && w.sent.n.Load() > 1, "%d effects", w.sent.n.Load())
}

// A store that fails or panics, or whose caller cancels, before or after doing what it was asked, at each of its calls,
// once or for good: no write runs twice and no commit state is wrong, whatever the tool meets, in two
// processes.
func TestAttackFaultAtEveryStoreCall(t *testing.T) {
	for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent} {
		for _, outcome := range []string{"succeeds", "lost", "outlives", "rejected", "not sent at first", "marked"} {
			t.Run(effect.String()+" "+outcome, func(t *testing.T) {
				t.Parallel()
				for _, how := range []string{"fail before", "fail after", "cancel before", "cancel after", "panic before", "panic after"} {
					for _, many := range []int64{1, 100} {
						for at := range int64(6) {
							for _, ref := range []string{"", "r1"} {
								w := &attackWorld{effect: effect, outcome: outcome, ref: ref, store: &attackFaulty{Store: new(toolexec.MemoryStore), at: at + 1, many: many, how: how}}
								if synctest.Test(t, w.play); t.Failed() {
									t.Fatalf("%s, call %d, %d times, ref %q", how, at, many, ref)
								}
							}
						}
					}
				}
			})
		}
	}
}

// attackEvilError crashes in every method by which the library could meet it.
type attackEvilError struct{ How, At string }

func (e attackEvilError) do(at string) {
	if e.At != at && e.At != "*" {
		return
	}
	switch e.How {
	case "panic":
		panic("CANARY")
	case "exit":
		runtime.Goexit()
	case "nil":
		panic(error((*attackNilError)(nil)))
	}
}

func (e attackEvilError) MarshalJSON() ([]byte, error) { e.do("marshal"); return []byte(`"x"`), nil }
func (e *attackEvilError) UnmarshalJSON([]byte) error  { e.do("unmarshal"); return nil }
func (e attackEvilError) String() string               { e.do("string"); return "CANARY" }
func (e attackEvilError) Error() string                { e.do("error"); return "CANARY" }
func (e attackEvilError) Unwrap() error                { e.do("unwrap"); return nil }
func (e attackEvilError) Is(error) bool                { e.do("is"); return false }
func (e attackEvilError) As(any) bool                  { e.do("as"); return false }
func (e attackEvilError) Timeout() bool                { e.do("timeout"); return false }
func (e attackEvilError) SQLState() string             { e.do("sqlstate"); return "CANAR" }
func (e attackEvilError) SafeToRetry() bool            { e.do("safe"); return false }

type attackEvilIn struct {
	ID string          `json:"id"`
	E  attackEvilError `json:"e"`
}

// attackEvilTool meets e in one place.
func attackEvilTool(place string, e attackEvilError) toolexec.Tool[attackEvilIn, any] {
	tool := toolexec.Tool[attackEvilIn, any]{Name: "pay", DetailKeys: []string{"d"}}
	tool.Run = func(ctx context.Context, _ attackEvilIn) (any, error) {
		switch place {
		case "error":
			return nil, e
		case "panic":
			panic(e)
		case "result":
			return e, nil
		case "cause":
			return nil, toolexec.Transient(e)
		case "detail":
			f := toolexec.InDoubt(e)
			f.Details = toolexec.Details{"d": e, "note": e, "CANARY": 1}
			return nil, f
		case "join":
			return nil, errors.Join(fmt.Errorf("CANARY %w", e), e)
		case "marked":
			_ = toolexec.MarkCommitted(ctx, e)
			return nil, e
		}
		return nil, errors.New("CANARY")
	}
	switch place {
	case "check":
		tool.Check = func(attackEvilIn) error { panic(e) }
	case "lookup panic":
		tool.Verify = &toolexec.Verifier[attackEvilIn, any]{Lookup: func(context.Context, string, attackEvilIn) (toolexec.Finding[any], error) { panic(e) }}
	case "lookup result":
		tool.Verify = &toolexec.Verifier[attackEvilIn, any]{Lookup: func(context.Context, string, attackEvilIn) (toolexec.Finding[any], error) {
			return toolexec.Found[any](e), nil
		}}
	case "classifier":
		tool.Classifiers = []toolexec.Classifier{func(error) (toolexec.Failure, bool) { panic(e) }}
	case "seal":
		tool.Seal = func([]byte) ([]byte, error) { panic(e) }
	case "seal error":
		tool.Seal = func([]byte) ([]byte, error) { return nil, e }
	case "ref":
		tool.Ref = func(attackEvilIn) string { panic(e) }
	case "required":
		tool.Approval = &toolexec.Approval[attackEvilIn]{Required: func(attackEvilIn) bool { panic(e) }}
	case "summary":
		tool.Approval = &toolexec.Approval[attackEvilIn]{Summary: func(attackEvilIn) string { panic(e) }}
	}
	return tool
}

// attackShown is everything of a failure that somebody outside the program may read.
func attackShown[T any](t *testing.T, env *toolexec.Envelope[T]) string {
	t.Helper()
	raw, err := json.Marshal(env)
	require.NoError(t, err)
	if env.OK {
		return ""
	}
	text, _ := env.Observation()
	return text + string(raw) + env.Err().Error()
}

// Values that crash in any method by which they could be met, in every place where the library meets the user's values:
// one envelope each, and not a byte of them in it or in the record.
func TestAttackEvilValues(t *testing.T) {
	places := []string{
		"error", "panic", "result", "cause", "detail", "join", "marked", "check", "lookup panic", "lookup result", "input",
		"classifier", "seal", "seal error", "ref", "required", "summary", "observer", "store",
	}
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			for _, how := range []string{"panic", "exit", "nil"} {
				for _, at := range []string{"*", "marshal", "unmarshal", "string", "error", "unwrap", "is", "as", "timeout", "sqlstate", "safe", "none"} {
					synctest.Test(t, func(t *testing.T) { attackMeetEvil(t, place, attackEvilError{how, at}) })
				}
			}
		})
	}
}

func attackMeetEvil(t *testing.T, place string, e attackEvilError) {
	t.Helper()
	mem := new(toolexec.MemoryStore)
	x := &toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}, Store: mem}
	in := attackEvilIn{ID: "1"}
	switch place {
	case "input":
		in.E = e
	case "observer":
		x.Observer = &toolexec.SlogObserver{Logger: slog.New(slog.DiscardHandler), Redact: func(string) string { panic(e) }}
	case "store":
		x.Store = &attackLeased{Store: mem, save: func(context.Context, toolexec.Record, attackSave) (toolexec.Record, error) { panic("CANARY") }}
	}
	b := toolexec.Bind(x, attackEvilTool(place, e))
	typed := b.Call(toolexec.WithOperationRef(t.Context(), "r1"), in)
	named := x.Execute(t.Context(), toolexec.Call{Name: "pay", OperationRef: "r1", Arguments: json.RawMessage(`{"id":"1","e":"x"}`)})
	shown := attackShown(t, &typed) + attackShown(t, &named)
	if r, err := mem.Load(t.Context(), toolexec.Key{Ref: "r1"}); err == nil {
		r.Result = nil
		raw, err := json.Marshal(r)
		require.NoError(t, err)
		shown += string(raw)
	}
	assert.NotContains(t, shown, "CANARY", "%v", e)
	require.NoError(t, x.Close(t.Context()))
}

// attackBusy is a tool that does everything, with effects counted by ref.
func attackBusy(effects *sync.Map) toolexec.Tool[attackIn, string] {
	return toolexec.Tool[attackIn, string]{
		Name:     "pay",
		Policy:   toolexec.Policy{Deadline: 5 * time.Millisecond, TotalDeadline: 50 * time.Millisecond, Backoff: toolexec.Backoff{Initial: time.Millisecond}},
		Approval: &toolexec.Approval[attackIn]{Required: func(in attackIn) bool { return strings.HasSuffix(in.ID, "7") }},
		Run: func(ctx context.Context, _ attackIn) (string, error) {
			if err := toolexec.MarkSent(ctx); err != nil {
				return "", err
			}
			if n := rand.IntN(6); n == 0 {
				return "", toolexec.NotSent(nil)
			} else if n == 1 {
				return "", toolexec.Invalid("note", "")
			}
			n, _ := effects.LoadOrStore(toolexec.OperationRef(ctx), new(atomic.Int64))
			n.(*atomic.Int64).Add(1) //nolint:forcetypeassert // stored above
			switch rand.IntN(6) {
			case 0:
				time.Sleep(10 * time.Millisecond)
			case 1:
				_ = toolexec.MarkCommitted(ctx, "x")
				return "", errors.New("a later step")
			case 2:
				return "", errors.New("no answer")
			case 3:
				panic("after it")
			}
			return "x", nil
		},
		// Long enough that a scheduler under the race detector cannot break it.
		Verify: &toolexec.Verifier[attackIn, string]{Authoritative: true, Settle: 200 * time.Millisecond, Lookup: func(_ context.Context, ref string, _ attackIn) (toolexec.Finding[string], error) {
			if _, ok := effects.Load(ref); ok {
				return toolexec.Found("x"), nil
			}
			return toolexec.Absent[string](), nil
		}},
	}
}

// Two executors on one store, one with leases, sixteen callers, a person who approves and reopens whatever is there,
// binding, listing, counting and pruning, all at once: no effect comes twice.
func TestAttackEverythingAtOnce(t *testing.T) {
	mem := new(toolexec.MemoryStore)
	xs := []*toolexec.Executor{{Store: mem}, {Store: &attackLeased{Store: mem}}}
	var effects sync.Map
	bs := []*toolexec.Bound[attackIn, string]{toolexec.Bind(xs[0], attackBusy(&effects)), toolexec.Bind(xs[1], attackBusy(&effects))}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var callers, others sync.WaitGroup
	for g := range 16 {
		callers.Go(func() {
			for i := range 100 {
				id := fmt.Sprint(rand.IntN(400), "-", i/50)
				bs[g%2].Call(toolexec.WithOperationRef(ctx, "r"+id), attackIn{ID: id, M: map[string]int{"a": 1}, Note: fmt.Sprint(rand.IntN(2))})
			}
		})
	}
	others.Go(func() {
		for i := range 300 {
			toolexec.Bind(xs[i%2], toolexec.Tool[attackIn, string]{Name: fmt.Sprint("t", i), Run: func(context.Context, attackIn) (string, error) { return "", nil }})
			xs[i%2].Execute(ctx, toolexec.Call{Name: "paay"})
		}
	})
	others.Go(func() {
		s, by := toolexec.Supervisor{Executor: xs[0]}, toolexec.Statement{Actor: "a", Evidence: "e"}
		for ctx.Err() == nil {
			page, _, _ := s.List(ctx, toolexec.Query{States: []toolexec.State{toolexec.StateAwaitingApproval, toolexec.StateRejected}})
			for i := range page {
				_, _ = approveHeld(&s, ctx, page[i].Key, by, 0)
				_, _ = s.Reopen(ctx, page[i].Key, by)
			}
			_, _ = mem.Prune(ctx, 100)
			_, _ = mem.Stats(ctx)
		}
	})
	callers.Wait()
	cancel()
	others.Wait()
	for _, x := range xs {
		require.NoError(t, x.Close(t.Context()))
	}
	effects.Range(func(ref, n any) bool {
		assert.Equal(t, int64(1), n.(*atomic.Int64).Load(), "%v", ref) //nolint:forcetypeassert // stored by the tool
		return true
	})
}

// What an attempt states after its caller was answered, and what it is copied from -----------------------

type attackOrder struct {
	ID string `json:"id"`
}

type attackBase struct {
	M map[string]int `json:"m"`
}

// attackEmbedding promotes a field of an unexported struct.
type attackEmbedding struct{ attackBase }

// A mark that comes after the answer is a commit that nobody was told of.
func TestAttackLateMarkIsUnheardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := new(toolexec.Executor)
		var n atomic.Int64
		b := toolexec.Bind(x, toolexec.Tool[attackOrder, string]{Name: "pay", Run: func(ctx context.Context, in attackOrder) (string, error) {
			if n.Add(1) == 1 {
				time.Sleep(3 * time.Second)
				_ = toolexec.MarkCommitted(ctx, "x")
			}
			return "x", nil
		}})
		e := b.Call(t.Context(), attackOrder{"a"})
		require.Equal(t, toolexec.CommitUnknown, e.CommitState)
		time.Sleep(5 * time.Second)
		require.True(t, b.Call(t.Context(), attackOrder{"a"}).Replayed)
		require.EqualValues(t, 1, n.Load(), "second effect")
	})
}

// An attempt reports to the ownership it belongs to, also when its call has begun another; and nothing is left to wait for.
func TestAttackTwoOwnershipsOfOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &toolexec.Executor{}
		b := toolexec.Bind(x, toolexec.Tool[attackOrder, string]{Name: "pay", MarksSent: true,
			Policy: toolexec.Policy{Deadline: 100 * time.Millisecond},
			Run: func(ctx context.Context, in attackOrder) (string, error) {
				switch toolexec.Attempt(ctx) {
				case 1:
					time.Sleep(5 * time.Second)
					return "", errors.New("late")
				case 2:
					if err := toolexec.MarkSent(ctx); err != nil {
						return "", err
					}
					return "", toolexec.InDoubt(errors.New("lost"))
				}
				if err := toolexec.MarkSent(ctx); err != nil {
					return "", err
				}
				return "x", nil
			}, Verify: &toolexec.Verifier[attackOrder, string]{Authoritative: true, Settle: -1, Lookup: func(context.Context, string, attackOrder) (toolexec.Finding[string], error) {
				return toolexec.Absent[string](), nil
			}}})
		assert.True(t, b.Call(t.Context(), attackOrder{"a"}).OK)
		time.Sleep(10 * time.Second)
		began := time.Now()
		require.NoError(t, x.Close(t.Context()))
		require.Zero(t, time.Since(began), "Close waited although nothing ran")
	})
}

// A promoted field is an argument like any other, so each attempt has its own.
func TestAttackPromotedFieldsAreCopied(t *testing.T) {
	x := new(toolexec.Executor)
	var seen []int
	b := toolexec.Bind(x, toolexec.Tool[attackEmbedding, string]{Name: "pay", Policy: toolexec.Policy{Backoff: toolexec.Backoff{Initial: time.Millisecond}}, Run: func(ctx context.Context, in attackEmbedding) (string, error) {
		seen = append(seen, in.M["a"])
		in.M["a"]++
		if toolexec.Attempt(ctx) == 1 {
			return "", toolexec.NotSent(errors.New("x"))
		}
		return "x", nil
	}})
	b.Call(t.Context(), attackEmbedding{attackBase{map[string]int{"a": 1}}})
	require.Equal(t, []int{1, 1}, seen)
}

// After a person reopened it a refused call is a call like any other, within the run as well.
func TestAttackReopenedCallMayWaitAndRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}}
		var n int
		b := toolexec.Bind(x, toolexec.Tool[attackOrder, string]{Name: "pay", Run: func(ctx context.Context, in attackOrder) (string, error) {
			n++
			switch n {
			case 1:
				return "", toolexec.Invalid("/id", "no")
			case 2:
				return "", toolexec.NotSent(errors.New("busy"))
			}
			return "x", nil
		}})
		ctx := toolexec.WithRunID(toolexec.WithOperationRef(t.Context(), "r1"), "run")
		assert.Equal(t, toolexec.NextCorrectInput, b.Call(ctx, attackOrder{"a"}).NextAction)
		s := toolexec.Supervisor{Executor: x}
		_, err := s.Reopen(t.Context(), toolexec.Key{Ref: "r1"}, toolexec.Statement{Actor: "a", Evidence: "e"})
		require.NoError(t, err)
		assert.Equal(t, toolexec.NextWaitAndRetry, b.Call(ctx, attackOrder{"a"}).NextAction)
		time.Sleep(time.Minute)
		require.True(t, b.Call(ctx, attackOrder{"a"}).OK)
	})
}

// A commit that the store does not know of is unrecorded, also when the goroutine of its call died.
func TestAttackGoexitWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &attackLeased{Store: new(toolexec.MemoryStore)}
		x := &toolexec.Executor{Store: st}
		toolexec.Bind(x, toolexec.Tool[attackOrder, string]{Name: "pay", Cooperative: true, Run: func(ctx context.Context, in attackOrder) (string, error) {
			st.fail(attackDown)
			_ = toolexec.MarkCommitted(ctx, "x")
			runtime.Goexit()
			return "x", nil
		}})
		e := x.ExecuteAll(t.Context(), []toolexec.Call{{Name: "pay", Arguments: json.RawMessage(`{"id":"a"}`), OperationRef: "r"}})[0]
		_ = x.Close(t.Context())
		require.True(t, e.Unrecorded)
	})
}

// The escape of U+FFFD is valid JSON; raw JSON keeps it.
func TestAttackEscapedReplacementCharacter(t *testing.T) {
	type in struct {
		Doc json.RawMessage `json:"doc"`
	}
	x := new(toolexec.Executor)
	toolexec.Bind(x, toolexec.Tool[in, string]{Name: "pay", Run: func(ctx context.Context, in in) (string, error) { return "x", nil }})
	e := x.Execute(t.Context(), toolexec.Call{Name: "pay", Arguments: json.RawMessage(`{"doc":"a\ufffdb"}`)})
	require.True(t, e.OK)
}

// A shorter wait that is heard of later does not open the gate before the longer one is over.
func TestAttackGateIsNotOpenedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}}
		var n atomic.Int64
		b := toolexec.Bind(x, toolexec.Tool[attackOrder, string]{Name: "read", Effect: toolexec.ReadOnly, Run: func(ctx context.Context, in attackOrder) (string, error) {
			n.Add(1)
			if in.ID == "slow" {
				time.Sleep(time.Second)
				return "", &toolexec.Failure{Code: toolexec.CodeRateLimited, Class: toolexec.ClassTransient, Evidence: toolexec.EvidenceRejected, RetryAfter: 30 * time.Second}
			}
			return "", &toolexec.Failure{Code: toolexec.CodeRateLimited, Class: toolexec.ClassTransient, Evidence: toolexec.EvidenceRejected, RetryAfter: time.Minute}
		}})
		go b.Call(t.Context(), attackOrder{"slow"})
		synctest.Wait()
		e := b.Call(t.Context(), attackOrder{"fast"})
		first := e.Retry.NotBefore
		time.Sleep(2 * time.Second)
		e = b.Call(t.Context(), attackOrder{"fast"})
		require.Equal(t, first, e.Retry.NotBefore)
	})
}
