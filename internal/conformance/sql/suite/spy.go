package suite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"slices"
	"sync"
	"testing"
)

// Spy is between database/sql and a driver, and keeps what is executed.
type Spy struct {
	driver driver.Driver
	dsn    string

	mu    sync.Mutex // protects what follows
	conns int
	seen  []Statement
	texts []string
}

// Statement is one that was executed.
type Statement struct {
	Conn int
	Text string
	Args []any
}

// Spy returns a pool that is watched.
func (p Place) Spy(t testing.TB) (*sql.DB, *Spy) {
	s := &Spy{driver: p.Open(t).Driver(), dsn: p.DSN}
	return Pool(t, sql.OpenDB(s), nil), s
}

// Take returns what was executed since it was last called.
func (s *Spy) Take() []Statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// Prepared returns the texts of what was prepared.
func (s *Spy) Prepared() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.texts)
}

func (s *Spy) prepared(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, text)
}

func (s *Spy) saw(conn int, text string, args []driver.NamedValue) {
	st := Statement{Conn: conn, Text: text}
	for _, a := range args {
		st.Args = append(st.Args, a.Value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, st)
}

// Driver implements driver.Connector.
func (s *Spy) Driver() driver.Driver { return s.driver }

// Connect implements driver.Connector.
func (s *Spy) Connect(context.Context) (driver.Conn, error) {
	c, err := s.driver.Open(s.dsn)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns++
	return &spyConn{c, s, s.conns}, nil
}

type spyConn struct {
	driver.Conn
	spy    *Spy
	number int
}

func (c *spyConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	st, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	c.spy.prepared(text)
	return &spyStmt{st, c, text}, nil
}

func (c *spyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c *spyConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	inner, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip // then it is prepared
	}
	c.spy.saw(c.number, text, args)
	return inner.ExecContext(ctx, text, slices.Clone(args))
}

func (c *spyConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	inner, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip // then it is prepared
	}
	c.spy.saw(c.number, text, args)
	return inner.QueryContext(ctx, text, slices.Clone(args))
}

func (c *spyConn) CheckNamedValue(v *driver.NamedValue) error { return checkValue(c.Conn, v) }

func checkValue(by any, v *driver.NamedValue) error {
	if checker, ok := by.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type spyStmt struct {
	driver.Stmt
	conn *spyConn
	text string
}

func (s *spyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.conn.spy.saw(s.conn.number, s.text, args)
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, slices.Clone(args))
}

func (s *spyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.conn.spy.saw(s.conn.number, s.text, args)
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, slices.Clone(args))
}

func (s *spyStmt) CheckNamedValue(v *driver.NamedValue) error { return checkValue(s.Stmt, v) }
