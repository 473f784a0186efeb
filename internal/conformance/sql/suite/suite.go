package suite

import (
	"context"
	"database/sql"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
	"github.com/toolexec/toolexec/toolexectest"
)

// Run runs all that needs nothing but a database.
func Run(t *testing.T, e Engine) {
	t.Run("conformance", func(t *testing.T) { Conform(t, e) })
	t.Run("a pool of one", func(t *testing.T) { poolOfOne(t, e) })
	t.Run("connections that do not last", func(t *testing.T) { shortConnections(t, e) })
	t.Run("keys", func(t *testing.T) { keys(t, e) })
	t.Run("races", func(t *testing.T) { races(t, e) })
	t.Run("groups", func(t *testing.T) { groups(t, e) })
	t.Run("close", func(t *testing.T) { closing(t, e) })
	t.Run("schema", func(t *testing.T) { schema(t, e) })
	t.Run("retention", func(t *testing.T) { retention(t, e) })
	t.Run("plans", func(t *testing.T) { plans(t, e) })
	t.Run("executor", func(t *testing.T) { executor(t, e) })
	t.Run("errors", func(t *testing.T) { failures(t, e) })
}

// RunShort runs what differs from driver to driver.
func RunShort(t *testing.T, e Engine) {
	t.Run("keys", func(t *testing.T) { keys(t, e) })
	t.Run("races", func(t *testing.T) { races(t, e) })
	t.Run("groups", func(t *testing.T) { groups(t, e) })
	t.Run("retention", func(t *testing.T) { retention(t, e) })
	t.Run("errors", func(t *testing.T) { failures(t, e) })
}

// Conform runs the conformance kit.
func Conform(t *testing.T, e Engine) {
	db := e.Pool(t)
	toolexectest.RunStore(t, func(t *testing.T) toolexec.Store {
		return e.OpenOn(t, db, sqlstore.Options{Table: Name()})
	})
}

func record(ref string) toolexec.Record {
	return toolexec.Record{
		Key: toolexec.Key{Scope: "tenant", Ref: ref}, Tool: "tool", State: toolexec.StateInFlight, Nonce: "nonce " + ref,
		Arguments: json.RawMessage(`{"n":1}`), LeaseUntil: toolexec.In(time.Minute), Attempts: 1,
	}
}

// save saves what must be saved.
func save(t testing.TB, s toolexec.Store, r toolexec.Record) toolexec.Record {
	t.Helper()
	saved, err := s.Save(t.Context(), r)
	require.NoError(t, err)
	return saved
}

// commit creates a record and commits it.
func commit(t testing.TB, s toolexec.Store, ref string) toolexec.Record {
	t.Helper()
	r := save(t, s, record(ref))
	r.State, r.LeaseUntil, r.SettledAt = toolexec.StateCommitted, toolexec.Instant{}, toolexec.In(0)
	r.Result, r.ResultPresent = json.RawMessage(`{"receipt":"r"}`), true
	return save(t, s, r)
}

func load(t testing.TB, s toolexec.Store, ref string) toolexec.Record {
	t.Helper()
	r, err := s.Load(t.Context(), toolexec.Key{Scope: "tenant", Ref: ref})
	require.NoError(t, err)
	return r
}

func exec(t testing.TB, on interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		_, err := on.ExecContext(context.WithoutCancel(t.Context()), statement)
		require.NoError(t, err, statement)
	}
}

// poolOfOne: nothing holds a connection while it waits for another.
func poolOfOne(t *testing.T, e Engine) {
	db := e.Pool(t)
	db.SetMaxOpenConns(1)
	s := e.OpenOn(t, db, sqlstore.Options{})
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 10 {
				r := commit(t, s, Name())
				load(t, s, r.Ref)
				_, err := s.Save(t.Context(), record(r.Ref))
				assert.ErrorIs(t, err, toolexec.ErrConflict)
				_, _, err = s.List(t.Context(), toolexec.Query{Open: true})
				assert.NoError(t, err)
				_, err = s.Claim(t.Context(), toolexec.Query{DueBefore: toolexec.In(0)}, time.Second)
				assert.NoError(t, err)
				_, err = s.Prune(t.Context(), 5)
				assert.NoError(t, err)
				_, err = s.Stats(t.Context())
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
}

func shortConnections(t *testing.T, e Engine) {
	db := e.Pool(t)
	db.SetMaxIdleConns(-1)
	s := e.OpenOn(t, db, sqlstore.Options{})
	for i := range 60 {
		r := commit(t, s, Name())
		require.Equal(t, int64(2), load(t, s, r.Ref).Version, i)
	}
	require.Zero(t, db.Stats().Idle)
	require.Zero(t, db.Stats().InUse)
}
