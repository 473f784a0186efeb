package suite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

const (
	keepResults = time.Hour
	keepFacts   = 24 * time.Hour
)

func count(t testing.TB, e Engine, db *sql.DB, table string) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}

func retention(t *testing.T, e Engine) {
	opts := sqlstore.Options{KeepResults: keepResults, KeepFacts: keepFacts}
	t.Run("results", func(t *testing.T) { resultsExpire(t, e, opts) })
	t.Run("facts", func(t *testing.T) { factsExpire(t, e, opts) })
	t.Run("in batches", func(t *testing.T) {
		db := e.Pool(t)
		s := e.OpenOn(t, db, opts)
		const facts = 1203
		fill(t, e, db, s, facts)
		e.age(t, db, keepResults+time.Minute)
		n, err := s.Prune(t.Context(), 1)
		require.NoError(t, err)
		assert.Zero(t, n)
		e.age(t, db, keepFacts)
		n, err = s.Prune(t.Context(), facts-1)
		require.NoError(t, err)
		assert.Equal(t, facts-1, n)
		n, err = s.Prune(t.Context(), facts)
		require.NoError(t, err)
		assert.Equal(t, 1, n)
	})
	t.Run("for ever", func(t *testing.T) {
		db := e.Pool(t)
		s := e.OpenOn(t, db, sqlstore.Options{KeepResults: -1, KeepFacts: -1})
		saved := commit(t, s, "op")
		assert.Nil(t, saved.Result)
		assert.False(t, saved.ResultPresent)
		assert.True(t, saved.RetainUntil.IsZero())
		e.age(t, db, 200*365*24*time.Hour)
		n, err := s.Prune(t.Context(), 10)
		require.NoError(t, err)
		assert.Zero(t, n)
		loaded := load(t, s, "op")
		assert.Equal(t, toolexec.StateCommitted, loaded.State)
		assert.Nil(t, loaded.Result)
		assert.False(t, loaded.ResultPresent)
	})
	t.Run("as the default", func(t *testing.T) {
		s := e.Open(t, sqlstore.Options{})
		saved := commit(t, s, "op")
		assert.Equal(t, 30*24*time.Hour, saved.RetainUntil.Time().Sub(saved.Now))
		assert.Equal(t, saved.RetainUntil, load(t, s, "op").RetainUntil)
	})
}

func resultsExpire(t *testing.T, e Engine, opts sqlstore.Options) {
	key := toolexec.Key{Scope: "tenant", Ref: "op"}
	db := e.Pool(t)
	s := e.OpenOn(t, db, opts)
	stored := commit(t, s, "op")
	e.age(t, db, keepResults-time.Minute)
	assert.Equal(t, stored.Result, load(t, s, "op").Result)
	e.age(t, db, 2*time.Minute)
	check := func(r toolexec.Record, err error) {
		t.Helper()
		assert.Equal(t, toolexec.StateCommitted, r.State, "%v", err)
		assert.Nil(t, r.Result)
		assert.False(t, r.ResultPresent)
	}
	check(s.Load(t.Context(), key))
	check(s.Save(t.Context(), record("op"))) // a conflict
	page, _, err := s.List(t.Context(), toolexec.Query{})
	require.Len(t, page, 1)
	check(page[0], err)
	// A Save that leaves the result alone does not bring it back.
	saved := save(t, s, load(t, s, "op"))
	check(saved, nil)
	check(s.Load(t.Context(), key))
	commit(t, s, "other")
	e.age(t, db, keepResults+time.Minute)
	n, err := s.Prune(t.Context(), 100)
	require.NoError(t, err)
	assert.Zero(t, n)
	check(s.Load(t.Context(), toolexec.Key{Scope: "tenant", Ref: "other"}))
	var kept int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+Table+" WHERE result IS NOT NULL").Scan(&kept))
	assert.Zero(t, kept)
}

func factsExpire(t *testing.T, e Engine, opts sqlstore.Options) {
	db := e.Pool(t)
	s := e.OpenOn(t, db, opts)
	const facts = 7
	for i := range facts {
		commit(t, s, "op-"+strconv.Itoa(i))
	}
	kept := unforgettable(t, s)
	e.age(t, db, keepFacts-time.Minute)
	assert.Equal(t, int64(2), load(t, s, "op-0").Version)
	e.age(t, db, 2*time.Minute)
	_, err := s.Load(t.Context(), toolexec.Key{Scope: "tenant", Ref: "op-0"})
	require.ErrorIs(t, err, toolexec.ErrNotFound)
	page, _, err := s.List(t.Context(), toolexec.Query{})
	require.NoError(t, err)
	assert.Len(t, page, len(kept))
	stats, err := s.Stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats[toolexec.StateCommitted])
	// It may be begun anew, and not be continued.
	stale := record("op-0")
	stale.Version = 2
	got, err := s.Save(t.Context(), stale)
	require.ErrorIs(t, err, toolexec.ErrConflict)
	assert.Empty(t, got)
	again := save(t, s, record("op-0"))
	assert.Equal(t, int64(1), again.Version)
	assert.Nil(t, load(t, s, "op-0").Result, "of the operation before it")
	for _, step := range []struct{ limit, want int }{{-1, 0}, {0, 0}, {2, 2}, {100, facts - 3}, {100, 0}} {
		n, err := s.Prune(t.Context(), step.limit)
		require.NoError(t, err)
		assert.Equal(t, step.want, n)
	}
	for _, ref := range kept {
		load(t, s, ref)
	}
	load(t, s, "op-0")
	assert.Equal(t, len(kept)+1, count(t, e, db, Table))
}

// unforgettable makes records that retention never deletes, or not so soon.
func unforgettable(t *testing.T, s toolexec.Store) (refs []string) {
	for i, change := range []func(*toolexec.Record){
		func(r *toolexec.Record) { r.State = toolexec.StateInFlight },
		func(r *toolexec.Record) { r.State = toolexec.StateUnknown },
		func(r *toolexec.Record) { r.State = toolexec.StateEscalated },
		func(r *toolexec.Record) { r.State = toolexec.StateAwaitingApproval },
		func(r *toolexec.Record) { r.State = "state of a newer version" },
		func(r *toolexec.Record) {
			r.State, r.Unresolved = toolexec.StateReleased, []toolexec.Unresolved{{Attempt: "n/1"}}
		},
		func(r *toolexec.Record) { r.State, r.NotBefore = toolexec.StateReleased, toolexec.In(3*time.Hour) },
		func(r *toolexec.Record) {
			r.State, r.NotBefore = toolexec.StateReleased, toolexec.At(time.Now().Add(3*time.Hour))
		},
	} {
		r := record("kept-" + strconv.Itoa(i))
		change(&r)
		save(t, s, r)
		refs = append(refs, r.Ref)
	}
	return refs
}

// fill makes n committed records quickly, like one that was saved.
func fill(t testing.TB, e Engine, db *sql.DB, s toolexec.Store, n int) {
	t.Helper()
	r := commit(t, s, "fill-1")
	r.Arguments, r.Result = nil, nil
	r.Result = json.RawMessage(`{"receipt":"r"}`)
	save(t, s, r)
	columns := "version, state, tool, alias, fingerprint, live_print, is_open, due_at, claimed_until, record, arguments, result, result_until, prune_at, saved_at, retain_until"
	number := "CAST('fill-' || (%d + x.n) AS BLOB)"
	switch e.Dialect {
	case sqlstore.PostgreSQL:
		number = "convert_to('fill-' || (%d + x.n), 'UTF8')"
	case sqlstore.MySQL:
		number = "CONCAT('fill-', %d + x.n)"
	}
	for at := 1; at < n; {
		more := min(at, n-at)
		source := "(SELECT CAST(SUBSTR(ref, 6) AS INTEGER) AS n FROM " + Table + ") AS x"
		switch e.Dialect {
		case sqlstore.PostgreSQL:
			source = "generate_series(1, " + strconv.Itoa(more) + ") AS x(n)"
		case sqlstore.MySQL:
			source = "(SELECT CAST(SUBSTR(ref, 6) AS UNSIGNED) AS n FROM " + Table + ") AS x"
		}
		exec(t, db, "INSERT INTO "+Table+" (scope, ref, "+columns+") SELECT scope, "+fmt.Sprintf(number, at)+", "+columns+
			" FROM "+Table+" AS one, "+source+" WHERE one.ref = "+hexOf(e, "fill-1")+" AND x.n <= "+strconv.Itoa(more))
		at += more
	}
	require.Equal(t, n, count(t, e, db, Table))
}

func hexOf(e Engine, s string) string {
	if e.Dialect == sqlstore.PostgreSQL {
		return fmt.Sprintf("'\\x%x'", s)
	}
	return fmt.Sprintf("x'%x'", s)
}
