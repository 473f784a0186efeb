package toolexec_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// unknowns puts n operations in doubt, whose tool's verifier does what look does. They are due a nanosecond later.
func (w *recoverWorld) unknowns(n int, look func(ref string) (toolexec.Finding[caseReceipt], error)) {
	w.t.Helper()
	store := &recoverStore{Store: w.disk}
	before := &toolexec.Executor{Store: store}
	b := toolexec.Bind(before, execTool("refund", toolexec.Write, observeDoubt))
	for i := range n {
		w.put(b, fmt.Sprintf("op_%04d", i))
	}
	caseClose(w.t, before)
	tool := w.tool(toolexec.Write)
	tool.Verify = w.verifier(look)
	toolexec.Bind(w.x, tool)
	time.Sleep(1)
}

// states counts the operations on the disk by state.
func (w *recoverWorld) states() map[toolexec.State]int {
	w.t.Helper()
	n, err := w.disk.Stats(w.t.Context())
	require.NoError(w.t, err)
	for s, k := range n {
		if k == 0 {
			delete(n, s)
		}
	}
	return n
}

// recoverBusy counts how many look-ups run at once.
type recoverBusy struct {
	mu        sync.Mutex // protects what follows
	now, most int
}

func (b *recoverBusy) look(ref string) (toolexec.Finding[caseReceipt], error) {
	b.mu.Lock()
	b.now++
	b.most = max(b.most, b.now)
	b.mu.Unlock()
	time.Sleep(time.Second)
	b.mu.Lock()
	b.now--
	b.mu.Unlock()
	return recoverFound(ref)
}

// TestRecoverWorksOnSoManyAtOnce: and goes through more than a page of them.
func TestRecoverWorksOnSoManyAtOnce(t *testing.T) {
	for _, row := range []struct {
		name             string
		workers, ops     int
		most             int
		took             time.Duration
		pages, perPageAt int
	}{
		{"by default", 0, 40, 16, 3 * time.Second, 1, 40},
		{"three", 3, 6, 3, 2 * time.Second, 1, 6},
		{"negative is one", -5, 3, 1, 3 * time.Second, 1, 3},
		{"more workers than work", 100, 2, 2, time.Second, 1, 2},
		{"more than a page", 1000, 600, 256, 3 * time.Second, 3, 256},
	} {
		recoverRun(t, row.name, func(w *recoverWorld) {
			var busy recoverBusy
			w.unknowns(row.ops, busy.look)
			w.s.Workers = row.workers
			pages, largest := 0, 0
			w.store.listed = func(page []toolexec.Record) { pages++; largest = max(largest, len(page)) }
			began := time.Now()
			done, err := w.s.Recover(w.t.Context())
			require.NoError(w.t, err)
			assert.Equal(w.t, toolexec.Recovery{Due: row.ops, Settled: row.ops}, done)
			assert.Equal(w.t, map[toolexec.State]int{toolexec.StateCommitted: row.ops}, w.states())
			assert.Equal(w.t, row.most, busy.most, "at once")
			assert.Equal(w.t, row.took, time.Since(began))
			assert.Equal(w.t, row.pages, pages)
			assert.Equal(w.t, row.perPageAt, largest)
			assert.Len(w.t, w.settled(), row.ops)
			assert.Contains(w.t, w.noted, toolexec.RecoveryPass{Recovery: done})
		})
	}
}

// TestRecoverEndsWithWhatWasDueAtItsBeginning: what becomes due while a pass works is the next one's.
func TestRecoverEndsWithWhatWasDueAtItsBeginning(t *testing.T) {
	recoverRun(t, "checks that fail", func(w *recoverWorld) {
		w.unknowns(300, func(ref string) (toolexec.Finding[caseReceipt], error) {
			time.Sleep(time.Second) // longer than the pause between two checks
			return recoverDown(ref)
		})
		done, err := w.s.Recover(w.t.Context())
		require.NoError(w.t, err)
		assert.Equal(w.t, toolexec.Recovery{Due: 300, Open: 300}, done)
		assert.Len(w.t, w.looks.at(), 300)
		assert.Empty(w.t, w.settled(), "nobody is told of what is open")
	})
}

// TestRecoverLeavesWhatHasNoTool: a process that has it will see to it.
func TestRecoverLeavesWhatHasNoTool(t *testing.T) {
	recoverRun(t, "unbound", func(w *recoverWorld) {
		w.unknowns(1, recoverFound)
		other := w.tool(toolexec.Write)
		other.Name = "other"
		key := w.crash(other, "r1", observeOK)
		time.Sleep(recoverLost)
		before := w.get(key)
		done, err := w.s.Recover(w.t.Context())
		require.NoError(w.t, err)
		assert.Equal(w.t, toolexec.Recovery{Due: 2, Settled: 1, Unbound: 1}, done)
		before.Now = time.Time{}
		after := w.get(key)
		after.Now = time.Time{}
		assert.Equal(w.t, before, after, "as it is")
		assert.Equal(w.t, []string{"op_0000 committed"}, w.settled())
		assert.Empty(w.t, w.failures())

		_, err = w.s.Wait(w.t.Context(), key)
		require.ErrorIs(w.t, err, toolexec.ErrUnbound)
		assert.EqualError(w.t, err, "toolexec: the operation's tool is not bound in this process: other")
		_, err = w.s.Verify(w.t.Context(), key)
		require.ErrorIs(w.t, err, toolexec.ErrUnbound)

		other.Verify = w.verifier(recoverFound)
		toolexec.Bind(w.x, other)
		assert.Equal(w.t, "1 due: 1 settled → committed", w.pass(key))
	})
}

// TestRecoverFindsARecordGone: retention was quicker, or somebody cleared the disk.
func TestRecoverFindsARecordGone(t *testing.T) {
	recoverRun(t, "between the listing and its turn", func(w *recoverWorld) {
		w.unknowns(2, recoverFound)
		w.store.loading = func(key toolexec.Key) error {
			if key.Ref == "op_0001" {
				return toolexec.ErrNotFound
			}
			return nil
		}
		done, err := w.s.Recover(w.t.Context())
		require.NoError(w.t, err)
		assert.Equal(w.t, toolexec.Recovery{Due: 2, Settled: 2}, done)
		assert.Equal(w.t, []string{"op_0000 committed"}, w.settled())
		assert.Empty(w.t, w.failures())
	})
}

// TestRecoverLeavesLivingOwnersAlone: what was lost when it was listed may be in good hands when its turn comes.
func TestRecoverLeavesLivingOwnersAlone(t *testing.T) {
	for name, change := range map[string]func(r *toolexec.Record){
		"its lease was extended": func(r *toolexec.Record) { r.LeaseUntil = toolexec.In(time.Minute) },
		"its next check is later": func(r *toolexec.Record) {
			r.State, r.NextCheckAt, r.LeaseUntil = toolexec.StateUnknown, toolexec.In(time.Minute), toolexec.Instant{}
		},
	} {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent} {
			for _, during := range []bool{false, true} {
				if during && name != "its lease was extended" {
					continue // what was found counts for an unknown one
				}
				recoverRun(t, fmt.Sprint(name, ", ", effect, ", during the look-up: ", during), func(w *recoverWorld) {
					key := toolexec.Key{Ref: "r1"}
					meanwhile := func() {
						r := w.get(key)
						change(&r)
						_, err := w.disk.Save(w.t.Context(), r)
						assert.NoError(w.t, err)
					}
					tool := w.tool(effect)
					tool.Verify = w.verifier(func(ref string) (toolexec.Finding[caseReceipt], error) {
						if during {
							meanwhile()
						}
						return recoverAbsent(ref)
					})
					toolexec.Bind(w.x, tool)
					w.crash(tool, "r1", observeOK)
					time.Sleep(recoverLost)
					if !during {
						w.store.listed = func([]toolexec.Record) { w.store.listed = nil; meanwhile() }
					}
					state := w.pass(key)
					assert.Contains(w.t, []string{"1 due: 1 open → in_flight", "1 due: 1 open → unknown"}, state)
					assert.Empty(w.t, w.starts.at())
					assert.Empty(w.t, w.settled())
					if !during {
						assert.Empty(w.t, w.looks.at())
					}
				})
			}
		}
	}
}

// TestRecoverLeavesACommitAsItIs: its owner ended well during the look-up, and its caller was told.
func TestRecoverLeavesACommitAsItIs(t *testing.T) {
	recoverRun(t, "committed meanwhile", func(w *recoverWorld) {
		key := toolexec.Key{Ref: "r1"}
		tool := w.tool(toolexec.Write)
		tool.Verify = w.verifier(func(ref string) (toolexec.Finding[caseReceipt], error) {
			r := w.get(key)
			r.State, r.Result, r.ResultPresent, r.CommittedBy = toolexec.StateCommitted, []byte(`{"receipt":"its own"}`), true, r.Nonce+"/1"
			r.LeaseUntil = toolexec.Instant{}
			_, err := w.disk.Save(w.t.Context(), r)
			assert.NoError(w.t, err)
			return recoverFound(ref)
		})
		toolexec.Bind(w.x, tool)
		w.crash(tool, "r1", observeOK)
		time.Sleep(recoverLost)
		assert.Equal(w.t, "1 due: 1 settled → committed", w.pass(key))
		r := w.get(key)
		assert.False(w.t, r.Unheard)
		assert.JSONEq(w.t, `{"receipt":"its own"}`, string(r.Result))
	})
}

// TestRecoverAndItsStore: what could not be read or stored is noted, stays due, and is done once the store is well.
func TestRecoverAndItsStore(t *testing.T) {
	down := errors.New("down")
	mine := toolexec.Key{Ref: "op_0001"}
	for _, row := range []struct {
		name string
		hurt func(w *recoverWorld)
		done toolexec.Recovery
		err  string
	}{
		{"it cannot be listed", func(w *recoverWorld) { w.store.listing = func() error { return down } }, toolexec.Recovery{}, "toolexec: looking for operations that are due: down"},
		{"listing panics", func(w *recoverWorld) { w.store.listing = func() error { panic("boom") } }, toolexec.Recovery{}, "toolexec: looking for operations that are due: toolexec: the store panicked: boom"},
		{"one cannot be loaded", func(w *recoverWorld) {
			w.store.loading = func(key toolexec.Key) error {
				if key == mine {
					return down
				}
				return nil
			}
		}, toolexec.Recovery{Due: 3, Settled: 2, Failed: 1}, ""},
		{"one cannot be saved", func(w *recoverWorld) {
			w.store.saving = func(r toolexec.Record) error {
				if r.Key == mine {
					return down
				}
				return nil
			}
		}, toolexec.Recovery{Due: 3, Settled: 2, Failed: 1}, ""},
		{"one makes the store panic", func(w *recoverWorld) {
			w.store.saving = func(r toolexec.Record) error {
				if r.Key == mine {
					panic("down")
				}
				return nil
			}
		}, toolexec.Recovery{Due: 3, Settled: 2, Failed: 1}, ""},
	} {
		recoverRun(t, row.name, func(w *recoverWorld) {
			w.unknowns(3, recoverFound)
			row.hurt(w)
			done, err := w.s.Recover(w.t.Context())
			assert.Equal(w.t, row.done, done)
			if row.err != "" {
				require.EqualError(w.t, err, row.err)
			} else {
				require.NoError(w.t, err)
				require.Len(w.t, w.failures(), 1)
				assert.Contains(w.t, w.failures()[0], "down")
			}
			w.store.listing, w.store.loading, w.store.saving = nil, nil, nil
			left := 3 - row.done.Settled
			done, err = w.s.Recover(w.t.Context())
			require.NoError(w.t, err)
			assert.Equal(w.t, toolexec.Recovery{Due: left, Settled: left}, done)
			assert.Len(w.t, w.settled(), 3, "each once")
		})
	}
	recoverRun(t, "Run notes it and goes on", func(w *recoverWorld) {
		w.unknowns(1, recoverFound)
		began := time.Now()
		w.store.listing = func() error {
			if time.Since(began) < 2500*time.Millisecond {
				return down
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 3500*time.Millisecond)
		defer cancel()
		require.NoError(w.t, w.s.Run(ctx))
		assert.Equal(w.t, slices.Repeat([]string{"toolexec: looking for operations that are due: down"}, 3), w.failures())
		assert.Equal(w.t, []string{"op_0000 committed"}, w.settled())
	})
}

// TestRunRepeatsRecover: at once, and then after each pause.
func TestRunRepeatsRecover(t *testing.T) {
	for _, row := range []struct {
		every time.Duration
		lasts time.Duration
		want  []time.Duration
	}{
		{0, 2500 * time.Millisecond, execSeconds(0, 1, 2)},
		{time.Minute, 150 * time.Second, execSeconds(0, 60, 120)},
		{-1, 2500 * time.Microsecond, execSeconds(0, 0.001, 0.002)},
	} {
		recoverRun(t, row.every.String(), func(w *recoverWorld) {
			passes := execStart()
			w.store.listing = func() error { passes.note(); return nil }
			w.s.Every = row.every
			ctx, cancel := context.WithTimeout(w.t.Context(), row.lasts)
			defer cancel()
			require.NoError(w.t, w.s.Run(ctx))
			assert.Equal(w.t, row.want, passes.at())
			assert.Equal(w.t, row.lasts, time.Since(passes.since), "it ends with ctx")
			assert.Empty(w.t, w.noted, "passes that found nothing are not noted")
		})
	}
}

// TestRecoverStopsGracefully: what has begun is finished and stored, nothing else begins.
func TestRecoverStopsGracefully(t *testing.T) {
	for name, run := range map[string]func(s *toolexec.Supervisor, ctx context.Context) error{
		"Run": (*toolexec.Supervisor).Run,
		"Recover": func(s *toolexec.Supervisor, ctx context.Context) error {
			done, err := s.Recover(ctx)
			if err != context.Canceled { //nolint:errorlint // exactly that
				return fmt.Errorf("%w after %+v", err, done)
			}
			return nil
		},
	} {
		recoverRun(t, name, func(w *recoverWorld) {
			w.unknowns(5, func(ref string) (toolexec.Finding[caseReceipt], error) {
				time.Sleep(time.Second)
				return recoverFound(ref)
			})
			w.s.Workers = 2
			began := time.Now()
			ctx, cancel := context.WithCancel(w.t.Context())
			time.AfterFunc(500*time.Millisecond, cancel)
			require.NoError(w.t, run(w.s, ctx))
			assert.Len(w.t, w.looks.at(), 3, "two were under way, and one had been handed over")
			assert.Equal(w.t, 2*time.Second, time.Since(began))
			assert.Equal(w.t, map[toolexec.State]int{toolexec.StateCommitted: 3, toolexec.StateUnknown: 2}, w.states())
			assert.Len(w.t, w.settled(), 3)
			assert.Empty(w.t, w.failures())
		})
	}
	recoverRun(t, "a run under way", func(w *recoverWorld) {
		tool := w.tool(toolexec.Idempotent)
		inner := tool.Run
		tool.Run = func(ctx context.Context, in caseOrder) (caseReceipt, error) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return caseReceipt{}, ctx.Err()
			}
			return inner(ctx, in)
		}
		toolexec.Bind(w.x, tool)
		key := w.crash(tool, "r1", observeOK)
		time.Sleep(recoverLost)
		ctx, cancel := context.WithCancel(w.t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		require.NoError(w.t, w.s.Run(ctx))
		assert.Equal(w.t, toolexec.StateCommitted, w.get(key).State)
		assert.Equal(w.t, []string{"r1 committed"}, w.settled())
	})
	recoverRun(t, "before it begins", func(w *recoverWorld) {
		w.unknowns(1, recoverFound)
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		require.NoError(w.t, w.s.Run(ctx))
		done, err := w.s.Recover(ctx)
		require.Equal(w.t, context.Canceled, err, "the store was not asked")
		assert.Zero(w.t, done)
		assert.Empty(w.t, w.looks.at())
	})
}
