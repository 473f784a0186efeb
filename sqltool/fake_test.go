package sqltool_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"slices"
	"strings"
	"sync"
)

// fake is a database of one table of refs, for what goes wrong. It keeps no
// transactions apart: a rollback restores what was there at the beginning.
type fake struct {
	mu    sync.Mutex // protects what follows
	rows  map[string][]driver.Value
	saved map[string][]driver.Value
	log   []string
	fail  map[string]error // by the first word of a statement, "" never
	// affected replaces the count of rows of a statement, by its first word.
	affected map[string]driver.Result
}

func (f *fake) db() *sql.DB { return sql.OpenDB(f) }

func (f *fake) Connect(context.Context) (driver.Conn, error) {
	if err := f.step("CONNECT"); err != nil {
		return nil, err
	}
	return &fakeConn{f}, nil
}

func (f *fake) Driver() driver.Driver { return nil }

// step logs a statement, and says whether it fails.
func (f *fake) step(word string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, word)
	return f.fail[word]
}

// steps returns the log, and empties it.
func (f *fake) steps() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.DeleteFunc(f.log, func(s string) bool { return s == "CONNECT" })
	f.log = nil
	return out
}

type fakeConn struct{ f *fake }

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }
func (c *fakeConn) Close() error                        { return nil }
func (c *fakeConn) Begin() (driver.Tx, error)           { return nil, driver.ErrSkip }

func (c *fakeConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	if err := c.f.step("BEGIN"); err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.saved = make(map[string][]driver.Value)
	for k, v := range c.f.rows {
		c.f.saved[k] = slices.Clone(v)
	}
	return c, nil
}

func (c *fakeConn) Commit() error { return c.f.step("COMMIT") }

func (c *fakeConn) Rollback() error {
	err := c.f.step("ROLLBACK")
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.rows = c.f.saved
	return err
}

func (c *fakeConn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	word, _, _ := strings.Cut(query, " ")
	if err := c.f.step(word); err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if r, ok := c.f.affected[word]; ok {
		return r, nil
	}
	if c.f.rows == nil {
		c.f.rows = make(map[string][]driver.Value)
	}
	switch word {
	case "INSERT":
		if !strings.Contains(query, "operation_refs") {
			break
		}
		ref := args[1].Value.(string)
		if c.f.rows[ref] != nil {
			return driver.RowsAffected(0), nil
		}
		c.f.rows[ref] = []driver.Value{args[2].Value, nil, nil}
	case "UPDATE":
		row := c.f.rows[args[3].Value.(string)]
		row[1], row[2] = args[0].Value, args[1].Value
	}
	return driver.RowsAffected(1), nil
}

func (c *fakeConn) QueryContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.f.step("SELECT"); err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return &fakeRows{row: c.f.rows[args[1].Value.(string)]}, nil
}

type fakeRows struct{ row []driver.Value }

func (r *fakeRows) Columns() []string { return []string{"digest", "has_result", "result"} }
func (r *fakeRows) Close() error      { return nil }

func (r *fakeRows) Next(dest []driver.Value) error {
	if r.row == nil {
		return io.EOF
	}
	copy(dest, r.row)
	r.row = nil
	return nil
}

// noCount is a result that cannot say how many rows there were.
type noCount struct{ driver.Result }

func (noCount) RowsAffected() (int64, error) { return 0, io.ErrNoProgress }

// mysqlError looks like that of the driver.
type mysqlError struct {
	Number  uint16
	Message string
}

func (e *mysqlError) Error() string { return e.Message }

// pgError looks like those of both drivers.
type pgError string

func (e pgError) Error() string    { return "no" }
func (e pgError) SQLState() string { return string(e) }

// exampleDatabase loses the answer to the first COMMIT.
func exampleDatabase() *sql.DB {
	return (&fake{fail: map[string]error{"COMMIT": io.ErrUnexpectedEOF}}).db()
}
