// Package suite holds what is asked of sqlstore on every database and with
// every driver.
package suite

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/sqlstore"
)

// Engine is a database with a driver.
type Engine struct {
	Dialect sqlstore.Dialect
	// New makes an empty database that lasts as long as the test.
	New func(t testing.TB) Place
}

// Place is where a database is, for sql.Open.
type Place struct{ Driver, DSN string }

// Open returns a new pool of connections to p.
func (p Place) Open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(p.Driver, p.DSN)
	return Pool(t, db, err)
}

// Pool returns a pool in a new place.
func (e Engine) Pool(t testing.TB) *sql.DB {
	t.Helper()
	return e.New(t).Open(t)
}

// Open returns a store in a new place.
func (e Engine) Open(t testing.TB, opts sqlstore.Options) *sqlstore.Store {
	t.Helper()
	return e.OpenOn(t, e.Pool(t), opts)
}

// OpenOn returns a store on a pool.
func (e Engine) OpenOn(t testing.TB, db *sql.DB, opts sqlstore.Options) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), db, e.Dialect, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// Table is the table of a store that is not told otherwise.
const Table = "toolexec_operations"

// block keeps everybody from writing until release is called.
func (e Engine) block(t testing.TB, db *sql.DB) (release func()) {
	t.Helper()
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	begin, end := []string{"BEGIN IMMEDIATE"}, "ROLLBACK"
	switch e.Dialect {
	case sqlstore.PostgreSQL:
		begin = []string{"BEGIN", "LOCK TABLE " + Table + " IN EXCLUSIVE MODE"}
	case sqlstore.MySQL:
		begin, end = []string{"LOCK TABLES " + Table + " WRITE"}, "UNLOCK TABLES"
	}
	exec(t, c, begin...)
	return func() {
		exec(t, c, end)
		require.NoError(t, c.Close())
	}
}

// refused is a tool whose records the database does not take, after refuse.
const refused = "refused"

func (e Engine) refuse(t testing.TB, db *sql.DB) {
	t.Helper()
	statement := "ALTER TABLE " + Table + " ADD CONSTRAINT no_such_tool CHECK (tool <> 'refused')"
	if e.Dialect == sqlstore.SQLite { // by the harshest way: it ends the transaction of all
		statement = "CREATE TRIGGER no_such_tool BEFORE INSERT ON " + Table + " WHEN new.tool = 'refused' BEGIN SELECT RAISE(ROLLBACK, 'no such tool'); END"
	}
	exec(t, db, statement)
}

// age makes all records older.
func (e Engine) age(t testing.TB, db *sql.DB, d time.Duration) {
	t.Helper()
	var set []string
	for _, column := range []string{"due_at", "claimed_until", "result_until", "retain_until", "prune_at", "saved_at"} {
		set = append(set, fmt.Sprintf("%s = %s - %d", column, column, d.Microseconds()))
	}
	exec(t, db, "UPDATE "+Table+" SET "+strings.Join(set, ", "))
}

// dump returns all that is in the tables.
func (e Engine) dump(t testing.TB, db *sql.DB) string {
	t.Helper()
	var b strings.Builder
	for _, table := range []string{Table, Table + "_migrations"} {
		dumpTable(t, &b, db, table)
	}
	return b.String()
}

func dumpTable(t testing.TB, b *strings.Builder, db *sql.DB, table string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT * FROM "+table+" ORDER BY 1, 2") //nolint:gosec // one of our own
	require.NoError(t, err)
	defer rows.Close()
	names, err := rows.Columns()
	require.NoError(t, err)
	fmt.Fprintln(b, table, names)
	for rows.Next() {
		cells, to := make([]any, len(names)), make([]any, len(names))
		for i := range cells {
			to[i] = &cells[i]
		}
		require.NoError(t, rows.Scan(to...))
		fmt.Fprintf(b, "%q\n", cells)
	}
	require.NoError(t, rows.Err())
}

// Name is a new name for a database.
func Name() string { return "toolexec_" + strings.ToLower(rand.Text()[:12]) }

// Pool closes db at the end of the test, and lets it keep its connections.
func Pool(t testing.TB, db *sql.DB, err error) *sql.DB {
	t.Helper()
	require.NoError(t, err)
	db.SetMaxOpenConns(70)
	db.SetMaxIdleConns(70)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
