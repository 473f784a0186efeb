package toolexec_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// recoverClaims gives each due record to one supervisor at a time, n of them at once.
type recoverClaims struct {
	*recoverStore
	n int

	mu      sync.Mutex // protects what follows
	claimed map[toolexec.Key]time.Time
	asked   []toolexec.Query
	lasting []time.Duration
	err     error
	panics  bool
}

func (c *recoverClaims) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	out, err := c.recoverStore.Save(ctx, r)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.claimed, r.Key)
	}
	return out, err
}

func (c *recoverClaims) Claim(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.panics:
		panic("boom")
	case c.err != nil:
		return nil, c.err
	}
	c.asked, c.lasting = append(c.asked, q), append(c.lasting, d)
	all := q
	all.Limit = 1000
	page, _, err := c.recoverStore.Store.List(ctx, all)
	page = slices.DeleteFunc(page, func(r toolexec.Record) bool { return r.Now.Before(c.claimed[r.Key]) })
	slices.SortFunc(page, func(a, b toolexec.Record) int {
		return cmp.Or(a.UpdatedAt.Time().Compare(b.UpdatedAt.Time()), a.Key.Compare(b.Key))
	})
	page = page[:min(len(page), c.n, q.PageSize())]
	for _, r := range page {
		if c.claimed == nil {
			c.claimed = map[toolexec.Key]time.Time{}
		}
		c.claimed[r.Key] = r.Now.Add(d)
	}
	return page, err
}

// claims makes the store of the world one that gives claims.
func (w *recoverWorld) claims(n int) *recoverClaims {
	c := &recoverClaims{recoverStore: w.store, n: n}
	w.x = &toolexec.Executor{Store: c, Observer: (*recoverObserver)(w)}
	w.s.Executor = w.x
	return c
}

func TestRecoverClaimsWhatItWorksOn(t *testing.T) {
	recoverRun(t, "each once, page by page", func(w *recoverWorld) {
		c := w.claims(3)
		w.unknowns(10, recoverFound)
		listed := 0
		w.store.listing = func() error { listed++; return nil }
		done, err := w.s.Recover(w.t.Context())
		require.NoError(w.t, err)
		assert.Equal(w.t, toolexec.Recovery{Due: 10, Settled: 10}, done)
		assert.Len(w.t, w.looks.at(), 10)
		assert.Equal(w.t, 1, listed, "for those whose tool is bound elsewhere")
		require.Len(w.t, c.asked, 5, "until a page is empty")
		for i, q := range c.asked {
			assert.Equal(w.t, []toolexec.State{toolexec.StateInFlight, toolexec.StateUnknown}, q.States)
			assert.Equal(w.t, 256, q.Limit)
			assert.Zero(w.t, q.After)
			assert.Equal(w.t, time.Minute, c.lasting[i])
		}
	})
	recoverRun(t, "two supervisors share the work", func(w *recoverWorld) {
		w.claims(2)
		w.unknowns(10, func(ref string) (toolexec.Finding[caseReceipt], error) {
			time.Sleep(time.Second)
			return recoverFound(ref)
		})
		dones := make([]toolexec.Recovery, 2)
		var wg sync.WaitGroup
		for i := range dones {
			wg.Go(func() {
				var err error
				dones[i], err = w.s.Recover(w.t.Context())
				assert.NoError(w.t, err)
			})
		}
		wg.Wait()
		assert.Equal(w.t, 10, dones[0].Settled+dones[1].Settled)
		assert.Equal(w.t, 10, dones[0].Due+dones[1].Due)
		assert.Len(w.t, w.looks.at(), 10)
		assert.Len(w.t, w.settled(), 10)
	})
	recoverRun(t, "the claim of one that died lapses", func(w *recoverWorld) {
		c := w.claims(2)
		w.unknowns(1, recoverFound)
		_, err := c.Claim(w.t.Context(), toolexec.Query{States: []toolexec.State{toolexec.StateUnknown}, DueBefore: toolexec.In(0)}, time.Minute)
		require.NoError(w.t, err)
		key := toolexec.Key{Ref: "op_0000"}
		assert.Equal(w.t, "nothing → unknown", w.pass(key))
		time.Sleep(time.Minute)
		assert.Equal(w.t, "1 due: 1 settled → committed", w.pass(key))
	})
	recoverRun(t, "unbound ones do not keep the pass from ending", func(w *recoverWorld) {
		w.claims(1)
		w.unknowns(2, recoverFound)
		other := w.tool(toolexec.Write)
		other.Name = "other"
		w.crash(other, "a", observeOK)
		w.crash(other, "b", observeOK)
		time.Sleep(recoverLost)
		done, err := w.s.Recover(w.t.Context())
		require.NoError(w.t, err)
		assert.Equal(w.t, toolexec.Recovery{Due: 4, Settled: 2, Unbound: 2}, done)
	})
	recoverRun(t, "it fails", func(w *recoverWorld) {
		c := w.claims(1)
		w.unknowns(1, recoverFound)
		c.err = errors.New("down")
		_, err := w.s.Recover(w.t.Context())
		require.ErrorIs(w.t, err, c.err)
		c.panics = true
		_, err = w.s.Recover(w.t.Context())
		require.EqualError(w.t, err, "toolexec: looking for operations that are due: toolexec: the store panicked: boom")
	})
	recoverRun(t, "what becomes due meanwhile is the next pass's", func(w *recoverWorld) {
		w.claims(1)
		w.unknowns(3, func(ref string) (toolexec.Finding[caseReceipt], error) {
			time.Sleep(time.Second) // longer than the pause between two checks
			return recoverDown(ref)
		})
		done, err := w.s.Recover(w.t.Context())
		require.NoError(w.t, err)
		assert.Equal(w.t, toolexec.Recovery{Due: 3, Open: 3}, done)
		assert.Len(w.t, w.looks.at(), 3)
	})
}

// together lets n come before any of them goes on.
func together(n int) func() {
	var mu sync.Mutex
	all := make(chan struct{})
	return func() {
		mu.Lock()
		if n--; n == 0 {
			close(all)
		}
		mu.Unlock()
		<-all
	}
}

// processes runs a pass in each of n processes, which have listed and loaded the same, and closes them.
func (w *recoverWorld) processes(n int, tool caseTool, rerun func(toolexec.Record) bool) {
	w.t.Helper()
	var wg sync.WaitGroup
	listed, loaded := together(n), together(n)
	var xs []*toolexec.Executor
	for range n {
		x := &toolexec.Executor{Store: &recoverStore{Store: w.disk, listed: func([]toolexec.Record) { listed() }, loaded: loaded}}
		toolexec.Bind(x, tool)
		xs = append(xs, x)
		wg.Go(func() {
			_, err := (&toolexec.Supervisor{Executor: x, OnSettled: w.s.OnSettled, Rerun: rerun}).Recover(w.t.Context())
			assert.NoError(w.t, err)
		})
	}
	wg.Wait()
	for _, x := range xs {
		caseClose(w.t, x)
	}
}

// slowly makes a tool take a second before it does what it does.
func slowly(tool caseTool) caseTool {
	inner := tool.Run
	tool.Run = func(ctx context.Context, in caseOrder) (caseReceipt, error) {
		time.Sleep(time.Second)
		return inner(ctx, in)
	}
	return tool
}

// TestRecoverTwoPassesAtOnce: steps are compare-and-swaps; the host hears of each end once.
func TestRecoverTwoPassesAtOnce(t *testing.T) {
	recoverRun(t, "looked up", func(w *recoverWorld) {
		w.unknowns(1, func(ref string) (toolexec.Finding[caseReceipt], error) {
			time.Sleep(time.Second)
			return recoverFound(ref)
		})
		w.store.loaded = together(2)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				_, err := w.s.Recover(w.t.Context())
				assert.NoError(w.t, err)
			})
		}
		wg.Wait()
		assert.Equal(w.t, map[toolexec.State]int{toolexec.StateCommitted: 1}, w.states())
		assert.Equal(w.t, []string{"op_0000 committed"}, w.settled())
	})
	recoverRun(t, "sent again by two processes", func(w *recoverWorld) {
		tool := slowly(w.tool(toolexec.Idempotent))
		key := w.crash(tool, "r1", observeOK)
		time.Sleep(recoverLost)
		w.processes(2, tool, nil)
		assert.Equal(w.t, toolexec.StateCommitted, w.get(key).State)
		assert.Equal(w.t, 1, w.ledger.count("r1"))
		assert.Equal(w.t, []string{"r1 committed"}, w.settled())
	})
	recoverRun(t, "and no caller has heard of it", func(w *recoverWorld) {
		tool := slowly(w.tool(toolexec.Idempotent))
		key := w.crash(tool, "r1", observeOK)
		time.Sleep(recoverLost)
		w.processes(2, tool, nil)
		assert.True(w.t, w.get(key).Unheard)
		env := caseChecked(w.t, toolexec.Bind(w.x, tool).Call(w.t.Context(), execOrder))
		assert.Equal(w.t, "r1", env.OperationRef, "an equal call without a ref is given this commit")
		assert.Equal(w.t, 1, w.ledger.total(), "effects")
	})
	recoverRun(t, "settled by its caller meanwhile", func(w *recoverWorld) {
		w.unknowns(1, recoverFound)
		key := toolexec.Key{Ref: "op_0000"}
		w.store.listed = func([]toolexec.Record) { // between the listing and the step
			w.store.listed = nil
			assert.True(w.t, caseExecute(w.t, w.x, "refund", key.Ref, caseArgs).OK)
		}
		done, err := w.s.Recover(w.t.Context())
		require.NoError(w.t, err)
		assert.Equal(w.t, toolexec.Recovery{Due: 1, Settled: 1}, done)
		assert.Empty(w.t, w.settled(), "the supervisor did not bring it to its end")
	})
}

// TestRecoverRunsNothingAgainUnasked: what was unknown when it was listed may be released when its turn comes.
func TestRecoverRunsNothingAgainUnasked(t *testing.T) {
	for name, rerun := range map[string]func(toolexec.Record) bool{"nil": nil, "refused": func(toolexec.Record) bool { return false }} {
		recoverRun(t, name, func(w *recoverWorld) {
			w.unknowns(1, recoverFound)
			key := toolexec.Key{Ref: "op_0000"}
			w.s.Rerun = rerun
			w.store.listed = func([]toolexec.Record) {
				w.store.listed = nil
				_, err := w.s.Resolve(w.t.Context(), key, toolexec.NotCommitted, toolexec.Statement{Actor: "ann", Evidence: "T-1", Force: true})
				assert.NoError(w.t, err)
				time.Sleep(1)
			}
			_, err := w.s.Recover(w.t.Context())
			require.NoError(w.t, err)
			assert.Equal(w.t, toolexec.StateReleased, w.get(key).State)
			assert.Empty(w.t, w.starts.at())
		})
	}
}
