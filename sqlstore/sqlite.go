package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/toolexec/toolexec"
)

// transaction is one on SQLite, with what is known of it.
type transaction struct {
	*sql.Tx

	now int64 // read when the write lock was held
}

// connections remembers which of the pool's connections were set up. It holds
// them, so that none of them can be mistaken for another that is made later.
type connections struct {
	mu    sync.Mutex // protects ready
	ready map[any]bool
}

// rememberConnections bounds what is held of connections that the pool has
// dropped.
const rememberConnections = 128

// connection returns one of the pool on which the settings are in force. They
// are per connection, and the pool makes connections as it likes.
func (s *Store) connection(ctx context.Context) (*sql.Conn, error) {
	c, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if s.dialect != SQLite || s.setUp(c, false) {
		return c, nil
	}
	if err := s.applyPragmas(ctx, c); err != nil {
		_ = c.Close()
		return nil, err
	}
	s.setUp(c, true)
	return c, nil
}

// release gives c back to its pool. The error would say that it was given back.
func release(c *sql.Conn) { _ = c.Close() }

// setUp reports whether c is known to be set up, or makes it known.
func (s *Store) setUp(c *sql.Conn, done bool) (ready bool) {
	_ = c.Raw(func(driverConn any) error {
		if !reflect.TypeOf(driverConn).Comparable() {
			return nil // then it is set up again each time
		}
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		if done {
			if s.conns.ready == nil || len(s.conns.ready) >= rememberConnections {
				s.conns.ready = make(map[any]bool)
			}
			s.conns.ready[driverConn] = true
		}
		ready = s.conns.ready[driverConn]
		return nil
	})
	return ready
}

// applyPragmas: they are executed, not prepared ahead, because SQLite applies
// synchronous when it compiles the statement. What it then says is checked.
func (s *Store) applyPragmas(ctx context.Context, c *sql.Conn) error {
	want := map[Synchronous]int{SynchronousFull: 2, SynchronousNormal: 1}[s.synchronous]
	for _, pragma := range []string{
		fmt.Sprintf("PRAGMA busy_timeout = %d", s.busy.Milliseconds()),
		fmt.Sprintf("PRAGMA synchronous = %d", want),
	} {
		if _, err := c.ExecContext(ctx, pragma); err != nil {
			return err
		}
	}
	var got int
	if err := c.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&got); err != nil {
		return err
	}
	if got != want {
		return refuse("PRAGMA synchronous is %d, although it was set to %d", got, want)
	}
	// A connection that must not write has no mark, and its Saves go another way.
	_, _ = c.ExecContext(ctx, "CREATE TEMP VIEW IF NOT EXISTS "+s.dialect.quote(s.mark())+" AS SELECT 1")
	return nil
}

// mark is the name of a view that a connection has, for itself, when it is set
// up. The pool executes a statement on a connection of its own choice; one that
// asks for the mark cannot be prepared where there is none.
func (s *Store) mark() string {
	return fmt.Sprintf("toolexec synchronous=%s busy_timeout=%d", s.synchronous, s.busy.Milliseconds())
}

// prepareAlone prepares what saveAlone executes, on the connection that was set
// up for the migration. Without them every Save goes the way of a group.
func (s *Store) prepareAlone(ctx context.Context) {
	marked := "EXISTS (SELECT 1 FROM temp." + s.dialect.quote(s.mark()) + ")"
	s.alone.update.statement = s.dialect.statement(s.dialect.updateTemplate(marked), s.table)
	s.alone.insert.statement = s.dialect.statement(s.dialect.insertTemplate(marked), s.table)
	for _, p := range []*prepared{&s.alone.update, &s.alone.insert} {
		p.stmt, _ = s.db.PrepareContext(ctx, p.text)
	}
}

// checkFile refuses a database that is not in a file: each connection of a pool
// would have another one.
func checkFile(ctx context.Context, c *sql.Conn) error {
	var file sql.NullString
	if err := c.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file); err != nil {
		return err
	}
	if file.String == "" {
		return refuse("the SQLite database is in memory or temporary, which no record survives and which every " +
			"connection of a pool has for itself: give it a file, or use toolexec.MemoryStore")
	}
	return nil
}

// writeAhead switches the file to WAL, which it stays in. Another process may
// do so at the same time, and SQLite does not wait for it by itself.
func (s *Store) writeAhead(ctx context.Context, c *sql.Conn) error {
	deadline := time.Now().Add(max(s.busy, 0))
	for {
		var mode string
		err := c.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
		if err == nil && !strings.EqualFold(mode, "wal") {
			err = c.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		}
		switch {
		case err == nil && strings.EqualFold(mode, "wal"):
			return nil
		case err == nil:
			return refuse("the database cannot be switched to WAL: its journal mode stays %q", mode)
		case sqliteCode(err) != sqliteBusy || time.Now().After(deadline):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// saveAlone is a Save beside which nobody writes: one statement that commits by
// itself, on the goroutine of its caller. A group has four, and goroutines to wake,
// which take half as long again. It is not done if it has stored nothing; then the
// Save goes the way of a group, which finds out why.
//
// The clock is read before the statement waits for another process, as the one of
// PostgreSQL is. The versions of a record are in the order of their times all the
// same, because nobody knows a version before it is committed.
func (s *Store) saveAlone(ctx context.Context, e *encoded) (out outcome, done bool) {
	p := s.alone.of(e)
	if p.stmt == nil || !s.group.alone() {
		return outcome{}, false
	}
	defer s.group.done()
	now := time.Now().UnixMicro()
	e.values[paramNow] = now
	result, err := p.stmt.ExecContext(ctx, p.args(&e.values)...)
	var stored int64
	if err == nil {
		stored, err = result.RowsAffected()
	}
	switch {
	case err == nil:
		return outcome{record: e.saved(now)}, stored > 0
	case ctx.Err() != nil:
		return outcome{err: unclear(ctx)}, true
	case sqliteCode(err) == sqliteError: // the connection has no mark
		return outcome{}, false
	}
	return outcome{err: s.explain(ctx, phaseStatement, err)}, true
}

// runSQLite writes a group in one transaction. What fails in company is tried
// again alone, so that one bad item does not fail the others.
func (s *Store) runSQLite(items []*item) {
	outcomes, phase, err := s.transact(items)
	switch {
	case err == nil:
		for i, it := range items {
			it.done <- outcomes[i]
		}
	case phase == phaseStatement && len(items) > 1:
		for _, it := range items {
			s.runSQLite([]*item{it})
		}
	default:
		err = s.explain(context.Background(), phase, err)
		for _, it := range items {
			it.end(toolexec.Record{}, err)
		}
	}
}

const (
	phaseBegin     = "beginning a transaction"
	phaseStatement = "writing"
	phaseCommit    = "committing, whether that took effect is not known"
)

// transact does all items in one transaction. Nobody's context ends it, because
// it is not one caller's; BusyTimeout bounds it.
func (s *Store) transact(items []*item) (outcomes []outcome, phase string, err error) {
	ctx := context.Background()
	c, err := s.connection(ctx)
	if err != nil {
		return nil, phaseBegin, err
	}
	defer release(c)
	sqlTx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return nil, phaseBegin, err
	}
	defer sqlTx.Rollback()
	// The first statement takes the write lock and waits for it. The clock is read
	// after that, so that times are in the order of versions.
	lock := sqlTx.StmtContext(ctx, s.lock) //nolint:sqlclosecheck // the transaction closes it
	if _, err := lock.ExecContext(ctx); err != nil {
		return nil, phaseBegin, err
	}
	tx := &transaction{sqlTx, time.Now().UnixMicro()}
	outcomes = make([]outcome, len(items))
	for i, it := range items {
		if it.do != nil {
			err = it.do(ctx, tx)
		} else {
			outcomes[i], err = s.saveIn(ctx, tx, it.save)
		}
		if err != nil {
			return nil, phaseStatement, err
		}
	}
	return outcomes, phaseCommit, tx.Commit()
}

// saveIn is one compare-and-swap in a transaction on SQLite.
func (s *Store) saveIn(ctx context.Context, tx *transaction, e *encoded) (outcome, error) {
	e.values[paramNow] = tx.now
	st := s.swaps.of(e)
	swap := tx.StmtContext(ctx, st.stmt) //nolint:sqlclosecheck // the transaction closes it
	result, err := swap.ExecContext(ctx, st.args(&e.values)...)
	if err != nil {
		return outcome{}, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return outcome{}, err
	}
	if n > 0 {
		return outcome{record: e.saved(tx.now)}, nil
	}
	load := tx.StmtContext(ctx, s.load.stmt) //nolint:sqlclosecheck // the same
	current, err := s.one(load.QueryRowContext(ctx, s.load.args(&e.values)...).Scan)
	if errors.Is(err, toolexec.ErrNotFound) {
		err = nil
	}
	return outcome{current, toolexec.ErrConflict}, err
}
