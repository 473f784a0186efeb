package suite

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

func schema(t *testing.T, e Engine) {
	t.Run("opened by many at once", func(t *testing.T) { openedAtOnce(t, e) })
	t.Run("opened again", func(t *testing.T) {
		place := e.New(t)
		stored := commit(t, e.OpenOn(t, place.Open(t), sqlstore.Options{}), "op")
		before := e.dump(t, place.Open(t))
		s := e.OpenOn(t, place.Open(t), sqlstore.Options{})
		assert.Equal(t, before, e.dump(t, place.Open(t)))
		assert.Equal(t, stored.Result, load(t, s, "op").Result)
		replayed, err := s.Save(t.Context(), record("op"))
		require.ErrorIs(t, err, toolexec.ErrConflict)
		assert.Equal(t, stored.Nonce, replayed.Nonce)
	})
	t.Run("two tables in one database", func(t *testing.T) {
		db := e.Pool(t)
		a, b := e.OpenOn(t, db, sqlstore.Options{}), e.OpenOn(t, db, sqlstore.Options{Table: "Other_Table"})
		commit(t, a, "op")
		_, err := b.Load(t.Context(), toolexec.Key{Scope: "tenant", Ref: "op"})
		require.ErrorIs(t, err, toolexec.ErrNotFound)
		commit(t, b, "op")
	})
	t.Run("a newer version", func(t *testing.T) {
		place := e.New(t)
		db := place.Open(t)
		commit(t, e.OpenOn(t, db, sqlstore.Options{}), "op")
		exec(t, db, "INSERT INTO "+Table+"_migrations (version, applied_at) VALUES (1000, 1)")
		before := e.dump(t, db)
		_, err := sqlstore.Open(t.Context(), place.Open(t), e.Dialect, sqlstore.Options{})
		require.ErrorIs(t, err, sqlstore.ErrNewerSchema)
		assert.ErrorContains(t, err, "sqlstore: table toolexec_operations has version 1000, this program knows 1, and nothing was changed")
		assert.Equal(t, before, e.dump(t, db))
	})
	t.Run("a table of somebody else", func(t *testing.T) {
		db := e.Pool(t)
		exec(t, db, "CREATE TABLE "+Table+" (a INTEGER)", "INSERT INTO "+Table+" VALUES (7)")
		_, err := sqlstore.Open(t.Context(), db, e.Dialect, sqlstore.Options{})
		require.ErrorContains(t, err, "there is a table toolexec_operations that this package did not make")
		assert.Equal(t, 1, count(t, e, db, Table))
	})
	// A process that died while it migrated: on MySQL statements of a schema are
	// not undone.
	t.Run("from version 0", func(t *testing.T) {
		for _, partly := range []bool{false, true} {
			db := e.Pool(t)
			if partly && e.Dialect == sqlstore.MySQL {
				require.NoError(t, e.OpenOn(t, db, sqlstore.Options{}).Close())
				exec(t, db, "DELETE FROM "+Table+"_migrations")
			} else {
				exec(t, db, "CREATE TABLE "+Table+"_migrations (version BIGINT NOT NULL PRIMARY KEY, applied_at BIGINT NOT NULL)")
			}
			s := e.OpenOn(t, db, sqlstore.Options{})
			commit(t, s, "op")
			assert.Equal(t, 1, count(t, e, db, Table+"_migrations"))
		}
	})
	t.Run("settings that cannot be", func(t *testing.T) { impossibleSettings(t, e) })
}

func openedAtOnce(t *testing.T, e Engine) {
	place := e.New(t)
	const openers = 8
	stores := make([]*sqlstore.Store, openers)
	errs := make([]error, openers)
	var wg sync.WaitGroup
	for i := range openers {
		db := place.Open(t)
		wg.Go(func() { stores[i], errs[i] = sqlstore.Open(t.Context(), db, e.Dialect, sqlstore.Options{}) })
	}
	wg.Wait()
	for i, s := range stores {
		require.NoError(t, errs[i])
		commit(t, s, Name())
		require.NoError(t, s.Close())
	}
	db := place.Open(t)
	assert.Equal(t, 1, count(t, e, db, Table+"_migrations"))
	assert.Equal(t, openers, count(t, e, db, Table))
}

func impossibleSettings(t *testing.T, e Engine) {
	db := e.Pool(t)
	for _, opts := range []sqlstore.Options{
		{Table: "a-b"}, {Table: "1a"}, {Table: `a"; DROP TABLE b; --`}, {Table: strings.Repeat("a", 41)}, {Synchronous: "off"},
	} {
		_, err := sqlstore.Open(t.Context(), db, e.Dialect, opts)
		require.ErrorContains(t, err, "sqlstore: ")
	}
	_, err := sqlstore.Open(t.Context(), db, "oracle", sqlstore.Options{})
	require.EqualError(t, err, `sqlstore: no such dialect: "oracle"; it is one of "sqlite", "postgresql" and "mysql"`)
	_, err = sqlstore.Open(t.Context(), nil, e.Dialect, sqlstore.Options{})
	require.EqualError(t, err, "sqlstore: Open needs a *sql.DB")
	s := e.OpenOn(t, db, sqlstore.Options{Table: strings.Repeat("a", 40)})
	commit(t, s, "op")
}
