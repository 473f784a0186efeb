package toolexec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// What an adversary did to the supervisor, each in its smallest form.

type attackLook = func(ctx context.Context, ref string, in caseOrder) (toolexec.Finding[caseReceipt], error)

// attackDoubtful is a tool whose answers are lost, and its look-up.
func attackDoubtful(effect toolexec.Effect, look attackLook) caseTool {
	tool := execTool("w", effect, func(context.Context) error { return io.ErrUnexpectedEOF })
	tool.Policy = toolexec.Policy{MaxRetries: -1}
	if look != nil {
		tool.Verify = &toolexec.Verifier[caseOrder, caseReceipt]{Authoritative: true, Lookup: look}
	}
	return tool
}

func attackFound(context.Context, string, caseOrder) (toolexec.Finding[caseReceipt], error) {
	return toolexec.Found(caseReceipt{"r"}), nil
}

func attackStore() toolexec.Store { return &caseDurable{Store: new(toolexec.MemoryStore)} }

var attackKey = toolexec.Key{Ref: "r"}

func attackCall(t *testing.T, x *toolexec.Executor, tool caseTool) toolexec.Envelope[caseReceipt] {
	t.Helper()
	return caseChecked(t, toolexec.Bind(x, tool).Call(toolexec.WithOperationRef(t.Context(), "r"), execOrder))
}

// attackRun lets a supervisor work for an hour, and returns the operation then.
func attackRun(t *testing.T, s *toolexec.Supervisor) toolexec.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	require.NoError(t, s.Run(ctx))
	r, err := s.Get(t.Context(), attackKey)
	require.NoError(t, err)
	return r
}

// A write that a tool makes through the executor is one operation, whoever runs the outer tool again.
func TestAttackNestedWriteOfARunAgain(t *testing.T) {
	for how, again := range map[string]func(t *testing.T, s *toolexec.Supervisor, outer func(context.Context)){
		"called again": func(t *testing.T, _ *toolexec.Supervisor, outer func(context.Context)) {
			t.Helper()
			outer(toolexec.WithScope(t.Context(), "tenant"))
		},
		"recovered": func(t *testing.T, s *toolexec.Supervisor, _ func(context.Context)) {
			t.Helper()
			_, err := s.Recover(t.Context())
			assert.NoError(t, err)
		},
		"waited for by another tenant": func(t *testing.T, s *toolexec.Supervisor, _ func(context.Context)) {
			t.Helper()
			_, err := s.Wait(toolexec.WithScope(t.Context(), "other"), toolexec.Key{Scope: "tenant", Ref: "outer:ORD-5510"})
			assert.NoError(t, err)
		},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &toolexec.Executor{Store: attackStore()}
				charges, runs := 0, 0
				key := func(in caseOrder) string { return in.OrderID }
				inner := execTool("inner", toolexec.Write, func(context.Context) error { charges++; return nil })
				inner.Ref = key
				charge := toolexec.Bind(x, inner)
				outer := execTool("outer", toolexec.Idempotent, func(ctx context.Context) error {
					if _, err := charge.Call(ctx, execOrder).Value(); err != nil {
						return err
					}
					if runs++; runs == 1 {
						return io.ErrUnexpectedEOF
					}
					return nil
				})
				outer.Ref, outer.Policy = key, toolexec.Policy{MaxRetries: -1}
				checkout := toolexec.Bind(x, outer)
				call := func(ctx context.Context) { caseChecked(t, checkout.Call(ctx, execOrder)) }
				call(toolexec.WithScope(t.Context(), "tenant"))
				time.Sleep(time.Minute)
				again(t, &toolexec.Supervisor{Executor: x}, call)
				assert.Equal(t, 2, runs)
				assert.Equal(t, 1, charges)
				caseClose(t, x)
			})
		})
	}
}

// attackHidden has a part that its JSON does not give back.
type attackHidden struct {
	OrderID string `json:"order_id"`
	cents   int
}

// What cannot be had back from the record is not run again, but looked up or handed to a person.
func TestAttackArgumentsThatDoNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &toolexec.Executor{Store: attackStore()}
		var ran []int
		b := toolexec.Bind(x, toolexec.Tool[attackHidden, caseReceipt]{
			Name: "w", Effect: toolexec.Idempotent, Policy: toolexec.Policy{MaxRetries: -1},
			Run: func(_ context.Context, in attackHidden) (caseReceipt, error) {
				ran = append(ran, in.cents)
				return caseReceipt{}, io.ErrUnexpectedEOF
			},
		})
		caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "r"), attackHidden{"ORD-5510", 100}))
		assert.Equal(t, toolexec.StateEscalated, attackRun(t, &toolexec.Supervisor{Executor: x}).State)
		assert.Equal(t, []int{100}, ran)
	})
}

// A success that was not marked still has to be confirmed.
func TestAttackConfirmedSuccessWithoutAMark(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context) error{
		"never marked": observeOK,
		"taken back": func(ctx context.Context) error {
			err := toolexec.MarkSent(ctx)
			toolexec.MarkNotSent(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := new(toolexec.Executor)
				runs, looks := 0, 0
				tool := execTool("w", toolexec.Write, func(ctx context.Context) error { runs++; return run(ctx) })
				tool.MarksSent = true
				tool.Verify = &toolexec.Verifier[caseOrder, caseReceipt]{Confirm: true, Lookup: func(ctx context.Context, ref string, in caseOrder) (toolexec.Finding[caseReceipt], error) {
					looks++
					return attackFound(ctx, ref, in)
				}}
				assert.True(t, attackCall(t, x, tool).OK)
				assert.Equal(t, []int{1, 1}, []int{runs, looks})
				caseClose(t, x)
			})
		})
	}
}

// A look-up finds the effect, and meanwhile a person has said that there is none.
func TestAttackFoundAfterAPersonsNo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &toolexec.Executor{Store: attackStore()}
		down := true
		tool := attackDoubtful(toolexec.Write, func(ctx context.Context, ref string, in caseOrder) (toolexec.Finding[caseReceipt], error) {
			if down {
				return toolexec.Finding[caseReceipt]{}, errors.New("down")
			}
			time.Sleep(time.Second)
			return attackFound(ctx, ref, in)
		})
		attackCall(t, x, tool)
		down = false
		time.Sleep(time.Minute)
		s := &toolexec.Supervisor{Executor: x}
		var pass sync.WaitGroup
		pass.Go(func() { _, _ = s.Recover(t.Context()) })
		time.Sleep(500 * time.Millisecond)
		r, err := s.Resolve(t.Context(), attackKey, toolexec.NotCommitted, supervisorAnn)
		require.NoError(t, err)
		assert.Equal(t, toolexec.StateReleased, r.State)
		pass.Wait()
		r, err = s.Get(t.Context(), attackKey)
		require.NoError(t, err)
		assert.Equal(t, toolexec.StateCommitted, r.State)
		caseClose(t, x)
	})
}

// A new version refuses the arguments, or all its attempts hang: what can be looked up is looked up.
func TestAttackOperationThatCannotBeSentAgain(t *testing.T) {
	for _, row := range []struct {
		name string
		look attackLook
		want toolexec.State
	}{
		{"a verifier", attackFound, toolexec.StateCommitted},
		{"none", nil, toolexec.StateEscalated},
	} {
		t.Run("a stricter Check, "+row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := attackStore()
				absent := row.look
				if absent != nil {
					absent = func(context.Context, string, caseOrder) (toolexec.Finding[caseReceipt], error) {
						return toolexec.Absent[caseReceipt](), nil
					}
				}
				attackCall(t, &toolexec.Executor{Store: store}, attackDoubtful(toolexec.Idempotent, absent))
				x := &toolexec.Executor{Store: store}
				tool := attackDoubtful(toolexec.Idempotent, row.look)
				tool.Check = func(caseOrder) error { return toolexec.Invalid("order_id", "not any more") }
				runs := 0
				tool.Run = func(context.Context, caseOrder) (caseReceipt, error) {
					runs++
					return caseReceipt{}, io.ErrUnexpectedEOF
				}
				toolexec.Bind(x, tool)
				assert.Equal(t, row.want, attackRun(t, &toolexec.Supervisor{Executor: x}).State)
				assert.Zero(t, runs)
			})
		})
	}
	t.Run("busy", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := &toolexec.Executor{Store: attackStore(), Policy: toolexec.Policy{MaxAbandoned: 1, MaxAbandon: -1}}
			release, appeared := make(chan struct{}), false
			tool := attackDoubtful(toolexec.Idempotent, func(ctx context.Context, ref string, in caseOrder) (toolexec.Finding[caseReceipt], error) {
				switch {
				case ref != "r":
					return toolexec.Finding[caseReceipt]{}, errors.New("cannot tell")
				case appeared:
					return attackFound(ctx, ref, in)
				}
				return toolexec.Absent[caseReceipt](), nil
			})
			hang := false
			tool.Run = func(context.Context, caseOrder) (caseReceipt, error) {
				if hang {
					<-release
				}
				return caseReceipt{}, io.ErrUnexpectedEOF
			}
			b := toolexec.Bind(x, tool)
			b.Call(toolexec.WithOperationRef(t.Context(), "r"), execOrder)
			hang = true
			b.Call(toolexec.WithOperationRef(t.Context(), "hangs"), execOrder)
			appeared = true
			assert.Equal(t, toolexec.StateCommitted, attackRun(t, &toolexec.Supervisor{Executor: x}).State)
			close(release)
			caseClose(t, x)
		})
	})
}

// attackClaims gives each due record to one supervisor at a time.
type attackClaims struct {
	toolexec.Store
	mu      sync.Mutex
	claimed map[toolexec.Key]time.Time
}

func (c *attackClaims) Claim(ctx context.Context, q toolexec.Query, d time.Duration) (page []toolexec.Record, err error) {
	time.Sleep(time.Millisecond) // what was stored a moment ago is due by now
	c.mu.Lock()
	defer c.mu.Unlock()
	all, _, err := c.List(ctx, q)
	for _, r := range all {
		if c.claimed[r.Key].After(r.Now) {
			continue
		}
		c.claimed[r.Key] = r.Now.Add(d)
		page = append(page, r)
	}
	return page, err
}

// Save ends the claim, as a store's does.
func (c *attackClaims) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.claimed, r.Key)
	return c.Store.Save(ctx, r)
}

// A process without the tool does not keep an operation from the one that has it.
func TestAttackClaimsOfWhoLacksTheTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &attackClaims{Store: attackStore(), claimed: map[toolexec.Key]time.Time{}}
		attackCall(t, &toolexec.Executor{Store: store}, attackDoubtful(toolexec.Write, nil))
		time.Sleep(time.Minute)
		lacks, has := &toolexec.Executor{Store: store}, &toolexec.Executor{Store: store}
		toolexec.Bind(has, attackDoubtful(toolexec.Write, attackFound))
		var beside sync.WaitGroup
		beside.Go(func() { attackRun(t, &toolexec.Supervisor{Executor: lacks}) })
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, toolexec.StateCommitted, attackRun(t, &toolexec.Supervisor{Executor: has}).State)
		beside.Wait()
	})
}

// Many who ask at once are one failed look-up, not many.
func TestAttackManyAskers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := new(toolexec.Executor)
		began := time.Now()
		attackCall(t, x, attackDoubtful(toolexec.Write, func(ctx context.Context, ref string, in caseOrder) (toolexec.Finding[caseReceipt], error) {
			time.Sleep(10 * time.Millisecond)
			if time.Since(began) < 3*time.Second {
				return toolexec.Finding[caseReceipt]{}, errors.New("down")
			}
			return attackFound(ctx, ref, in)
		}))
		var askers sync.WaitGroup
		for range 3 * toolexec.DefaultMaxChecks {
			askers.Go(func() {
				env, err := (&toolexec.Supervisor{Executor: x}).Wait(t.Context(), attackKey)
				assert.NoError(t, err)
				assert.True(t, env.OK, "%s", env.Code)
			})
		}
		askers.Wait()
		caseClose(t, x)
	})
}

// attackOdd is a store that hangs once, and whose Wait panics.
type attackOdd struct {
	toolexec.Store
	hangs atomic.Bool
}

func (s *attackOdd) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	if s.hangs.Swap(false) {
		<-ctx.Done()
		return nil, toolexec.Cursor{}, ctx.Err()
	}
	return s.Store.List(ctx, q)
}

func (*attackOdd) Wait(context.Context, toolexec.Key, int64) error { panic("secret of the store") }

func TestAttackOddStores(t *testing.T) {
	t.Run("a listing hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &attackOdd{Store: attackStore()}
			x := &toolexec.Executor{Store: store}
			attackCall(t, x, attackDoubtful(toolexec.Write, nil))
			store.hangs.Store(true)
			assert.Equal(t, toolexec.StateEscalated, attackRun(t, &toolexec.Supervisor{Executor: x}).State)
		})
	})
	t.Run("its Wait panics", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &attackOdd{Store: attackStore()}
			tool := execTool("w", toolexec.Write, func(context.Context) error { time.Sleep(time.Second); return nil })
			var first sync.WaitGroup
			first.Go(func() { attackCall(t, &toolexec.Executor{Store: store}, tool) })
			time.Sleep(100 * time.Millisecond)
			second := attackCall(t, &toolexec.Executor{Store: store}, tool)
			assert.True(t, second.OK && second.Replayed)
			first.Wait()
		})
	})
}

// A pass ends although what it runs is due again at once, also beside what it may not run.
func TestAttackPassThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &attackClaims{Store: attackStore(), claimed: map[toolexec.Key]time.Time{}}
		x := &toolexec.Executor{Store: store, Policy: toolexec.Policy{MaxRetries: -1, MaxAttempts: 20, Backoff: toolexec.Backoff{Initial: -1}}}
		runs := 0
		b := toolexec.Bind(x, execTool("w", toolexec.Write, func(context.Context) error {
			runs++
			return toolexec.NotSent(errors.New("x"))
		}))
		for _, ref := range []string{"r", "no"} {
			caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), ref), execOrder))
		}
		runs = 0
		s := &toolexec.Supervisor{Executor: x, Rerun: func(r toolexec.Record) bool { return r.Ref == "r" }}
		_, err := s.Recover(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, runs)
		caseClose(t, x)
	})
}

// What a verifier says stays inside, also when its asker gives up at that moment.
func TestAttackVerifyKeepsSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &toolexec.Executor{Store: attackStore()}
		attackCall(t, x, attackDoubtful(toolexec.Write, func(ctx context.Context, _ string, _ caseOrder) (toolexec.Finding[caseReceipt], error) {
			<-ctx.Done()
			return toolexec.Finding[caseReceipt]{}, fmt.Errorf("password=hunter2: %w", ctx.Err())
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := (&toolexec.Supervisor{Executor: x}).Verify(ctx, attackKey)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotContains(t, err.Error(), "hunter2")
		caseClose(t, x)
	})
}

// OnSettled is told of what a begin brings about, too.
func TestAttackOnSettledOfABegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &toolexec.Executor{Store: attackStore()}
		tool := execTool("w", toolexec.Write, observeOK)
		tool.Approval = &toolexec.Approval[caseOrder]{}
		attackCall(t, x, tool)
		var told []toolexec.State
		s := &toolexec.Supervisor{
			Executor: x, Rerun: func(toolexec.Record) bool { return true },
			OnSettled: func(_ context.Context, o toolexec.Settled) { told = append(told, o.Record.State) },
		}
		_, err := approveHeld(s, t.Context(), attackKey, supervisorAnn, time.Minute)
		require.NoError(t, err)
		time.Sleep(2 * time.Minute) // it has expired, so it is held anew
		_, err = s.Recover(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []toolexec.State{toolexec.StateAwaitingApproval}, told)
		caseClose(t, x)
	})
}
