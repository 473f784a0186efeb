package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeServer is as much of a database as migrations need: it has a version, and
// keeps what is executed.
type fakeServer struct {
	tables  bool
	version int64
	before  int64 // as it was when the transaction began
	log     []string
	fail    string // a statement that fails
	waits   func() // what another process does while this one waits for the lock
}

func (f *fakeServer) Connect(context.Context) (driver.Conn, error) { return f, nil }
func (f *fakeServer) Driver() driver.Driver                        { return nil }
func (f *fakeServer) Prepare(string) (driver.Stmt, error)          { return nil, errors.New("not prepared") }
func (f *fakeServer) Close() error                                 { return nil }
func (f *fakeServer) Begin() (driver.Tx, error)                    { return nil, errors.New("not by database/sql") }

var errFake = errors.New("the statement fails")

func (f *fakeServer) ExecContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	f.log = append(f.log, text)
	if text == f.fail {
		return nil, errFake
	}
	switch {
	case text == "BEGIN":
		f.before = f.version
	case text == "ROLLBACK":
		f.version = f.before
	case strings.Contains(text, "pg_advisory_xact_lock") && f.waits != nil:
		f.waits()
	case strings.HasPrefix(text, "CREATE TABLE IF NOT EXISTS \"t_migrations\""):
		f.tables = true
	case strings.HasPrefix(text, "INSERT INTO \"t_migrations\""):
		f.version++
	}
	return driver.RowsAffected(0), nil
}

func (f *fakeServer) QueryContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Rows, error) {
	switch {
	case strings.Contains(text, "pg_tables") && !f.tables:
		return &fakeRow{v: int64(0)}, nil
	case strings.Contains(text, "MAX(version)") && f.version > 0:
		return &fakeRow{v: f.version}, nil
	case strings.Contains(text, "MAX(version)"):
		return &fakeRow{v: nil}, nil
	}
	return &fakeRow{v: int64(1)}, nil
}

type fakeRow struct {
	v    driver.Value
	done bool
}

func (r *fakeRow) Columns() []string { return []string{"v"} }
func (r *fakeRow) Close() error      { return nil }
func (r *fakeRow) Next(to []driver.Value) error {
	if r.done {
		return io.EOF
	}
	to[0], r.done = r.v, true
	return nil
}

// madeUp are migrations up to a version.
func madeUp(last int) (all []migration) {
	for v := 1; v <= last; v++ {
		name := "to " + string(rune('0'+v))
		all = append(all, migration{v, func(_ Dialect, table string) []string { return []string{name + " a of " + table, name + " b"} }})
	}
	return all
}

func migrateFake(t *testing.T, f *fakeServer, all []migration) error {
	t.Helper()
	db := sql.OpenDB(f)
	defer db.Close()
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer release(c)
	s, err := newStore(db, PostgreSQL, Options{Table: "t"})
	require.NoError(t, err)
	f.log = nil
	return s.migrateOn(t.Context(), c, all)
}

// steps are the statements of migrations, and where the transaction ends.
func (f *fakeServer) steps() (steps []string) {
	for _, text := range f.log {
		if strings.HasPrefix(text, "to ") || text == "COMMIT" || text == "ROLLBACK" {
			steps = append(steps, text)
		}
	}
	return steps
}

func TestMigrations(t *testing.T) {
	t.Run("from nothing, and on", func(t *testing.T) {
		f := &fakeServer{}
		require.NoError(t, migrateFake(t, f, madeUp(2)))
		assert.Equal(t, []string{"to 1 a of t", "to 1 b", "to 2 a of t", "to 2 b", "COMMIT"}, f.steps())
		require.NoError(t, migrateFake(t, f, madeUp(2)))
		assert.Equal(t, []string{"COMMIT"}, f.steps(), "again, nothing is done")
		require.NoError(t, migrateFake(t, f, madeUp(4)))
		assert.Equal(t, []string{"to 3 a of t", "to 3 b", "to 4 a of t", "to 4 b", "COMMIT"}, f.steps())
		assert.Equal(t, int64(4), f.version)
	})
	t.Run("newer", func(t *testing.T) {
		f := &fakeServer{tables: true, version: 3}
		require.ErrorIs(t, migrateFake(t, f, madeUp(2)), ErrNewerSchema)
		assert.Equal(t, []string{"ROLLBACK"}, f.steps())
	})
	t.Run("another process was faster", func(t *testing.T) {
		f := &fakeServer{tables: true, version: 1}
		f.waits = func() { f.version = 2 }
		require.NoError(t, migrateFake(t, f, madeUp(3)))
		assert.Equal(t, []string{"to 3 a of t", "to 3 b", "COMMIT"}, f.steps())
		f.waits = func() { f.version = 9 }
		require.ErrorIs(t, migrateFake(t, f, madeUp(3)), ErrNewerSchema)
		assert.Equal(t, []string{"ROLLBACK"}, f.steps())
	})
	t.Run("one fails", func(t *testing.T) {
		f := &fakeServer{tables: true, version: 1, fail: "to 3 b"}
		err := migrateFake(t, f, madeUp(4))
		require.ErrorIs(t, err, errFake)
		require.EqualError(t, err, "sqlstore: migrating: to version 3: the statement fails")
		assert.Equal(t, []string{"to 2 a of t", "to 2 b", "to 3 a of t", "to 3 b", "ROLLBACK"}, f.steps())
		assert.Equal(t, int64(1), f.version)
		f.fail = ""
		require.NoError(t, migrateFake(t, f, madeUp(4)))
		assert.Equal(t, int64(4), f.version)
	})
}

// A migration that was published stays as it is: tables exist that it made.
func TestMigrationsStay(t *testing.T) {
	var b strings.Builder
	for _, m := range migrations {
		for _, d := range []Dialect{SQLite, PostgreSQL, MySQL} {
			for _, statement := range m.statements(d, "t") {
				b.WriteString("-- " + string(d) + "\n" + statement + ";\n")
			}
		}
	}
	const file = "testdata/migrations.sql"
	want, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) { // remove it to make it anew, before a version is published
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	}
	if err == nil {
		assert.Equal(t, string(want), b.String())
	}
	assert.True(t, slices.IsSortedFunc(migrations, func(a, b migration) int { return a.version - b.version }))
}

func TestTemplates(t *testing.T) {
	assert.Panics(t, func() { SQLite.statement("SELECT :nothing", "t") })
	st := SQLite.statement("SELECT :ref, {now}, :scope, :ref FROM {table}", "t")
	assert.Equal(t, `SELECT ?1, ?2, ?3, ?1 FROM "t"`, st.text)
	v := values{paramRef: "r", paramNow: 1, paramScope: "s"}
	assert.Equal(t, []any{"r", 1, "s"}, st.args(&v))
	st = MySQL.statement("SELECT :ref, :scope, :ref FROM {table}", "t")
	assert.Equal(t, "SELECT ?, ?, ? FROM `t`", st.text)
	assert.Equal(t, []any{"r", "s", "r"}, st.args(&v))
	st = PostgreSQL.statement("SELECT :ref, :version, :ref FROM {table}", "t")
	assert.Equal(t, `SELECT $1::bytea, $2::bigint, $1::bytea FROM "t"`, st.text)
}
