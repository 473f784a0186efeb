package suite

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

// failures are those that every database knows.
func failures(t *testing.T, e Engine) {
	t.Run("the table is gone", func(t *testing.T) {
		db := e.Pool(t)
		s := e.OpenOn(t, db, sqlstore.Options{})
		exec(t, db, "DROP TABLE "+Table)
		each(t, s, func(err error) { assert.ErrorContains(t, err, "missing") })
		_, err := sqlstore.Open(t.Context(), db, e.Dialect, sqlstore.Options{})
		assert.ErrorContains(t, err, "missing", "and it is not made anew")
	})
	t.Run("the pool is closed", func(t *testing.T) {
		db := e.Pool(t)
		s := e.OpenOn(t, db, sqlstore.Options{})
		require.NoError(t, db.Close())
		each(t, s, func(err error) { assert.ErrorContains(t, err, "the *sql.DB is closed") })
		_, err := sqlstore.Open(t.Context(), db, e.Dialect, sqlstore.Options{})
		assert.ErrorContains(t, err, "the *sql.DB is closed")
	})
	t.Run("a record that is not readable", func(t *testing.T) {
		db := e.Pool(t)
		s := e.OpenOn(t, db, sqlstore.Options{})
		commit(t, s, "op")
		exec(t, db, "UPDATE "+Table+" SET record = 'x'")
		_, err := s.Load(t.Context(), toolexec.Key{Scope: "tenant", Ref: "op"})
		assert.ErrorContains(t, err, `sqlstore: the stored record of "op" in scope "tenant" is not readable: `)
		_, err = s.Save(t.Context(), record("op"))
		require.Error(t, err)
		assert.NotErrorIs(t, err, toolexec.ErrConflict)
	})
}

// each calls every method, and checks that its error is one that says what is
// wrong, and not one of those that mean something else.
func each(t *testing.T, s *sqlstore.Store, check func(error)) {
	t.Helper()
	key := toolexec.Key{Scope: "tenant", Ref: "op"}
	_, loadErr := s.Load(t.Context(), key)
	_, createErr := s.Save(t.Context(), record("op"))
	r := record("op")
	r.Version = 1
	_, updateErr := s.Save(t.Context(), r)
	_, _, listErr := s.List(t.Context(), toolexec.Query{})
	_, claimErr := s.Claim(t.Context(), toolexec.Query{DueBefore: toolexec.In(0)}, 1)
	_, pruneErr := s.Prune(t.Context(), 1)
	_, statsErr := s.Stats(t.Context())
	for _, err := range []error{loadErr, createErr, updateErr, listErr, claimErr, pruneErr, statsErr} {
		require.Error(t, err)
		require.NotErrorIs(t, err, toolexec.ErrNotFound)
		require.NotErrorIs(t, err, toolexec.ErrConflict)
		check(err)
	}
}
