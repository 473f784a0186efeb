package suite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

type order struct {
	ID string `json:"id"`
}

// counted counts what an executor asks of a store.
type counted struct {
	*sqlstore.Store

	saves, loads, lists atomic.Int64
}

func (c *counted) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	c.saves.Add(1)
	return c.Store.Save(ctx, r)
}

func (c *counted) Load(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
	c.loads.Add(1)
	return c.Store.Load(ctx, key)
}

func (c *counted) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	c.lists.Add(1)
	return c.Store.List(ctx, q)
}

func withRef(t testing.TB, ref string) context.Context {
	return toolexec.WithOperationRef(t.Context(), ref)
}

// executor drives the real executor over the store.
func executor(t *testing.T, e Engine) {
	db := e.Pool(t)
	t.Run("success and replay", func(t *testing.T) {
		s := &counted{Store: e.OpenOn(t, db, sqlstore.Options{})}
		var effects atomic.Int64
		b := toolexec.Bind(&toolexec.Executor{Store: s}, toolexec.Tool[order, string]{Name: "charge", Run: func(context.Context, order) (string, error) {
			effects.Add(1)
			return "receipt", nil
		}})
		for i, saves := range []int64{2, 3} {
			env := b.Call(withRef(t, "run/1"), order{"a"})
			got, err := env.Value()
			require.NoError(t, err)
			assert.Equal(t, "receipt", got)
			assert.Equal(t, i > 0, env.Replayed)
			assert.Equal(t, saves, s.saves.Load())
		}
		assert.Equal(t, int64(1), effects.Load())
		assert.Zero(t, s.loads.Load())
		assert.Zero(t, s.lists.Load())
		// Another process, which has only the database.
		again := toolexec.Bind(&toolexec.Executor{Store: e.OpenOn(t, db, sqlstore.Options{})}, toolexec.Tool[order, string]{
			Name: "charge", Run: func(context.Context, order) (string, error) { return "", errors.New("ran again") },
		})
		env := again.Call(withRef(t, "run/1"), order{"a"})
		assert.True(t, env.OK)
		assert.True(t, env.Replayed)
		assert.Equal(t, toolexec.CodeOperationRefReused, again.Call(withRef(t, "run/1"), order{"b"}).Code)
	})
	t.Run("unknown and looked up", func(t *testing.T) {
		s := &counted{Store: e.OpenOn(t, db, sqlstore.Options{})}
		b := toolexec.Bind(&toolexec.Executor{Store: s}, toolexec.Tool[order, string]{
			Name: "charge_unheard",
			Run:  func(context.Context, order) (string, error) { return "", toolexec.InDoubt(nil) },
			Verify: &toolexec.Verifier[order, string]{Lookup: func(context.Context, string, order) (toolexec.Finding[string], error) {
				return toolexec.Found("found"), nil
			}},
		})
		env := b.Call(withRef(t, "run/2"), order{"a"})
		got, err := env.Value()
		require.NoError(t, err)
		assert.Equal(t, "found", got)
		assert.Equal(t, int64(3), s.saves.Load())
		assert.Zero(t, s.loads.Load())
	})
	t.Run("without a ref, while it is open", func(t *testing.T) {
		s := &counted{Store: e.OpenOn(t, db, sqlstore.Options{})}
		var effects atomic.Int64
		tool := toolexec.Tool[order, string]{Name: "charge_lost", Unverifiable: true, Run: func(context.Context, order) (string, error) {
			effects.Add(1)
			return "", toolexec.InDoubt(nil)
		}}
		first := toolexec.Bind(&toolexec.Executor{Store: s}, tool).Call(t.Context(), order{"a"})
		assert.Equal(t, toolexec.CommitUnknown, first.CommitState)
		// A process that has never heard of it.
		second := toolexec.Bind(&toolexec.Executor{Store: s}, tool).Call(t.Context(), order{"a"})
		assert.Equal(t, first.OperationRef, second.OperationRef)
		assert.Equal(t, int64(1), effects.Load())
	})
	t.Run("duplicates over two executors", func(t *testing.T) { duplicates(t, e, db) })
}

func duplicates(t *testing.T, e Engine, db *sql.DB) {
	var effects atomic.Int64
	started, release := make(chan struct{}), make(chan struct{})
	tool := toolexec.Tool[order, string]{
		Name: "charge_once", Policy: toolexec.Policy{Deadline: time.Minute, TotalDeadline: time.Minute},
		Run: func(context.Context, order) (string, error) {
			if effects.Add(1) == 1 {
				close(started)
			}
			<-release
			return "receipt", nil
		},
	}
	var wg sync.WaitGroup
	for range 2 {
		b := toolexec.Bind(&toolexec.Executor{Store: e.OpenOn(t, db, sqlstore.Options{})}, tool)
		for range 25 {
			wg.Go(func() {
				env := b.Call(withRef(t, "run/3"), order{"a"})
				got, err := env.Value()
				assert.NoError(t, err)
				assert.Equal(t, "receipt", got)
			})
		}
	}
	<-started
	close(release)
	wg.Wait()
	assert.Equal(t, int64(1), effects.Load())
}
