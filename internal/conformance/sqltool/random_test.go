package sqltool_test

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqltool"
)

// operations is how many each engine goes through.
const operations = 100

// TestRandom throws at a few processes that share a guard: cut connections,
// answers and messages that come late, errors, panics, deadlines, cancels, and
// duplicates of every call. Then it looks whether anybody was told wrong.
func TestRandom(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		r := newRandomRun(t, w)
		w.wire.chaos(func() cut {
			if rand.IntN(12) > 0 {
				return pass
			}
			return []cut{before, middle, after, late, late, late, hold}[rand.IntN(7)]
		})
		r.goThrough()
		t.Logf("%d cuts, %d answers: %d committed, %d not committed, %d unknown", w.wire.cuts(),
			r.told[0].Load()+r.told[1].Load()+r.told[2].Load(), r.told[0].Load(), r.told[1].Load(), r.told[2].Load())
		assert.Positive(t, w.wire.cuts())
		w.wire.chaos(nil)
		w.quiet(t)
		r.settle()
		assert.Zero(t, r.duplicates.Load())
	})
}

type randomRun struct {
	t          *testing.T
	w          *world
	tools      []bound
	refs       [operations]string
	lastNot    [operations]bool // the last that was said of it is not_committed, by everybody
	told       [3]atomic.Int64
	duplicates atomic.Int64
}

func newRandomRun(t *testing.T, w *world) *randomRun {
	r := &randomRun{t: t, w: w}
	store := new(toolexec.MemoryStore)
	policy := quick
	policy.Deadline, policy.TotalDeadline, policy.MaxAttempts, policy.MaxAbandoned = 150*time.Millisecond, time.Second, -1, -1
	for range 3 {
		x := &toolexec.Executor{Policy: policy, Store: store, Observer: observer{duplicate: func() { r.duplicates.Add(1) }}}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			assert.NoError(t, x.Close(ctx))
		})
		writer := w.writer()
		writer.CommitWait = time.Second
		r.tools = append(r.tools, toolexec.Bind(x, sqltool.Tool(writer, r.write, toolexec.Tool[order, receipt]{
			Name: "book", Verify: &toolexec.Verifier[order, receipt]{MaxChecks: -1, Deadline: 300 * time.Millisecond},
		})))
	}
	for i := range r.refs {
		r.refs[i] = newRef()
	}
	return r
}

// write fails in ways of its own, now and then.
func (r *randomRun) write(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
	out, err := r.w.book(ctx, tx, in)
	if err != nil {
		return out, err
	}
	switch rand.IntN(20) {
	case 0:
		return out, errors.New("no")
	case 1:
		panic("no")
	case 2:
		time.Sleep(rand.N(300 * time.Millisecond)) // deaf to its context
	case 3:
		<-ctx.Done()
		return out, ctx.Err()
	case 4:
		return out, toolexec.Transient(errors.New("again"))
	}
	return out, nil
}

func (r *randomRun) goThrough() {
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := worker; i < operations; i += 4 {
				for range 1 + rand.IntN(3) {
					r.burst(i)
				}
			}
		})
	}
	wg.Wait()
}

// burst makes calls of one operation at the same time, in any process, and
// checks what they were told.
func (r *randomRun) burst(i int) {
	if r.lastNot[i] {
		assert.Zero(r.t, r.w.effects(r.t, r.refs[i]), "told not committed, and it came later")
	}
	answers := make([]toolexec.Envelope[receipt], 1+rand.IntN(3))
	var wg sync.WaitGroup
	for n := range answers {
		wg.Go(func() {
			ctx := with(r.t.Context(), r.refs[i])
			if rand.IntN(10) == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, rand.N(100*time.Millisecond))
				defer cancel()
			}
			answers[n] = r.tools[rand.IntN(len(r.tools))].Call(ctx, order{"A1", i})
		})
	}
	wg.Wait()
	committed, not := 0, 0
	for _, e := range answers {
		switch e.CommitState {
		case toolexec.Committed:
			committed++
			r.told[0].Add(1)
		case toolexec.NotCommitted:
			not++
			r.told[1].Add(1)
		default:
			r.told[2].Add(1)
		}
	}
	r.lastNot[i] = not == len(answers)
	switch effects := r.w.effects(r.t, r.refs[i]); {
	case committed > 0:
		assert.Equal(r.t, 1, effects, "told committed")
	case r.lastNot[i]:
		assert.Zero(r.t, effects, "told not committed: %v", errors.Unwrap(answers[0].Err()))
	default:
		assert.LessOrEqual(r.t, effects, 1)
	}
}

// settle: what was called not committed is so for good, and every operation can
// still be brought to its end.
func (r *randomRun) settle() {
	for i, ref := range r.refs {
		if r.lastNot[i] {
			require.Zero(r.t, r.w.effects(r.t, ref), "told not committed, and there it is")
		}
	}
	for i, ref := range r.refs {
		require.Eventually(r.t, func() bool {
			e := r.tools[0].Call(with(r.t.Context(), ref), order{"A1", i})
			return e.OK
		}, time.Minute, time.Millisecond)
		require.Equal(r.t, 1, r.w.effects(r.t, ref))
	}
}
