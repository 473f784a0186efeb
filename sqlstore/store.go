package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolexec/toolexec"
)

// Options are the settings of a Store. The zero value is right for most.
type Options struct {
	// Table is the name of the table; a second one, which holds the version of its
	// schema, is named <Table>_migrations. Empty: toolexec_operations. It is
	// 1 to 40 of A-Z, a-z, 0-9 and _, and does not begin with a digit.
	Table string
	// KeepResults is how long the result of a committed operation is kept after
	// its last Save. 0: 24 h; negative: results are not kept at all.
	KeepResults time.Duration
	// KeepFacts is how long it is remembered that an operation is committed,
	// released or rejected: the limit of the guarantee. 0: 30 days; negative: for
	// ever.
	KeepFacts time.Duration
	// Synchronous is what a commit waits for, on SQLite only. Empty: FULL.
	Synchronous Synchronous
	// BusyTimeout is how long a write waits for another process to finish its own,
	// on SQLite only. 0: 5 s; negative: not at all.
	BusyTimeout time.Duration
}

// Synchronous is a durability of SQLite.
type Synchronous string

const (
	// SynchronousFull means that a commit is on the disk when it is acknowledged.
	SynchronousFull Synchronous = "full"
	// SynchronousNormal means that a commit survives the death of the process, but the last
	// ones may be lost when the machine loses power. It is about three times as
	// fast. A begin that is lost after its write was sent can lead to a second
	// effect, so this is for machines whose power does not fail, or for tools that
	// are Idempotent.
	SynchronousNormal Synchronous = "normal"
)

// The settings of a Store that is not told otherwise.
const (
	defaultTable       = "toolexec_operations"
	defaultKeepResults = 24 * time.Hour
	defaultKeepFacts   = 30 * 24 * time.Hour
	defaultBusyTimeout = 5 * time.Second
)

// Store keeps records in a table. It is made by Open, is safe for concurrent
// use, by any number of processes too, and must not be copied.
type Store struct {
	db          *sql.DB
	dialect     Dialect
	table       string
	keepResults time.Duration // negative: none
	keepFacts   time.Duration // negative: for ever
	synchronous Synchronous
	busy        time.Duration

	swaps
	load     prepared
	lock     *sql.Stmt // SQLite: takes the write lock
	alone    swaps     // SQLite: on a connection that is set up, and on no other
	together prepared  // PostgreSQL: many Saves
	conns    connections

	group   *group       // nil: every Save goes its own way
	saves   atomic.Int64 // on PostgreSQL: how many there are just now
	closed  atomic.Bool
	closing sync.Once
}

var (
	_ toolexec.Store   = (*Store)(nil)
	_ toolexec.Claimer = (*Store)(nil)
	_ toolexec.Pruner  = (*Store)(nil)
	_ toolexec.Stats   = (*Store)(nil)
)

// prepared is a statement that the pool prepares once on each connection.
type prepared struct {
	statement

	stmt *sql.Stmt
}

// swaps are the statements that save a record.
type swaps struct{ update, insert prepared }

func (w *swaps) of(e *encoded) *prepared {
	if e.doc.Version == 0 {
		return &w.insert
	}
	return &w.update
}

// Open makes a Store of a database that the caller has opened and keeps open
// until the Store is closed. It creates the table or migrates it to the schema
// of this version; that several processes do so at once is safe. A table of a
// newer version is refused with ErrNewerSchema and not touched.
//
// ctx bounds Open, not the Store.
func Open(ctx context.Context, db *sql.DB, dialect Dialect, opts Options) (*Store, error) {
	s, err := newStore(db, dialect, opts)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func newStore(db *sql.DB, dialect Dialect, opts Options) (*Store, error) {
	if db == nil {
		return nil, refuse("Open needs a *sql.DB")
	}
	if err := dialect.check(); err != nil {
		return nil, err
	}
	inherit(&opts.Table, defaultTable)
	inherit(&opts.KeepResults, defaultKeepResults)
	inherit(&opts.KeepFacts, defaultKeepFacts)
	inherit(&opts.Synchronous, SynchronousFull)
	inherit(&opts.BusyTimeout, defaultBusyTimeout)
	if !tableName.MatchString(opts.Table) {
		return nil, refuse("Options.Table is %q; it must match %s", opts.Table, tableName)
	}
	if opts.Synchronous != SynchronousFull && opts.Synchronous != SynchronousNormal {
		return nil, refuse("no such Options.Synchronous: %q", string(opts.Synchronous))
	}
	s := &Store{
		db: db, dialect: dialect, table: opts.Table, keepResults: opts.KeepResults, keepFacts: opts.KeepFacts,
		synchronous: opts.Synchronous, busy: max(opts.BusyTimeout, 0),
	}
	switch dialect {
	case SQLite:
		s.group = &group{run: s.runSQLite, writers: 1}
	case PostgreSQL:
		s.group = &group{run: s.runPostgres, writers: groupWriters, beside: directSaves, distinct: true}
	}
	return s, nil
}

func inherit[V comparable](setting *V, from V) {
	var zero V
	if *setting == zero {
		*setting = from
	}
}

func (s *Store) open(ctx context.Context) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if s.dialect == SQLite {
		s.prepareAlone(ctx)
	}
	for _, p := range []struct {
		*prepared
		template string
	}{
		{&s.update, s.dialect.updateTemplate("")},
		{&s.insert, s.dialect.insertTemplate("")},
		{&s.load, "SELECT " + rowColumns(true) + " FROM {table} WHERE scope = :scope AND ref = :ref AND " + alive},
	} {
		p.statement = s.dialect.statement(p.template, s.table)
		if err := s.prepare(ctx, p.text, &p.stmt); err != nil {
			return err
		}
	}
	switch s.dialect {
	case SQLite:
		return s.prepare(ctx, "UPDATE "+s.dialect.quote(s.migrationsTable())+" SET version = version WHERE 0", &s.lock)
	case PostgreSQL:
		s.together.text = groupText(s.table)
		return s.prepare(ctx, s.together.text, &s.together.stmt)
	}
	return nil
}

func (s *Store) prepare(ctx context.Context, text string, to **sql.Stmt) error {
	st, err := s.db.PrepareContext(ctx, text) //nolint:sqlclosecheck // Close does
	*to = st
	return s.explain(ctx, "preparing a statement", err)
}

// Close ends the Store: it waits for what is being written, and answers what
// waits, and every later call, with ErrClosed. It does not close the *sql.DB. It
// may be called again, and returns nil.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		if s.group != nil {
			s.group.close()
		}
		for _, st := range []*sql.Stmt{s.update.stmt, s.insert.stmt, s.load.stmt, s.lock, s.alone.update.stmt, s.alone.insert.stmt, s.together.stmt} {
			if st != nil {
				_ = st.Close()
			}
		}
	})
	return nil
}

// usable returns why nothing can be done, if nothing can.
func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// Load implements [toolexec.Store].
func (s *Store) Load(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
	if err := s.usable(ctx); err != nil {
		return toolexec.Record{}, err
	}
	r, err := s.loadNow(ctx, key)
	if err != nil && !errors.Is(err, toolexec.ErrNotFound) {
		return toolexec.Record{}, s.explain(ctx, "loading a record", err)
	}
	return r, err
}

func (s *Store) loadNow(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
	v := values{paramScope: []byte(key.Scope), paramRef: []byte(key.Ref), paramNow: time.Now().UnixMicro()}
	args := s.load.args(&v)
	if s.dialect != SQLite {
		return s.one(s.load.stmt.QueryRowContext(ctx, args...).Scan)
	}
	c, err := s.connection(ctx)
	if err != nil {
		return toolexec.Record{}, err
	}
	defer release(c)
	return s.one(c.QueryRowContext(ctx, s.load.text, args...).Scan)
}

// one decodes the one row of a query for a key.
func (s *Store) one(scan func(...any) error) (toolexec.Record, error) {
	var w row
	if err := w.scan(scan); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			err = toolexec.ErrNotFound
		}
		return toolexec.Record{}, err
	}
	return w.decode()
}

// Save implements [toolexec.Store]. Its errors but for ErrConflict leave it
// open whether the record was stored; to repeat it is safe, and finds out.
func (s *Store) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	if err := s.usable(ctx); err != nil {
		return toolexec.Record{}, err
	}
	e, err := s.encode(r)
	if err != nil {
		return toolexec.Record{}, err
	}
	switch s.dialect {
	case SQLite:
		if out, done := s.saveAlone(ctx, e); done {
			return out.record, out.err
		}
		return s.group.add(&item{ctx: ctx, key: r.Key, size: e.size(), save: e})
	case PostgreSQL:
		defer s.saves.Add(-1)
		if s.saves.Add(1) > s.directLimit() {
			return s.group.add(&item{ctx: ctx, key: r.Key, size: e.size(), save: e})
		}
	}
	out := s.saveDirect(ctx, e)
	return out.record, out.err
}

// maxRepeats is how often a statement is repeated that the database undid in
// favour of another.
const maxRepeats = 10

// saveDirect is one compare-and-swap by itself: one round trip, and another
// when it is refused.
func (s *Store) saveDirect(ctx context.Context, e *encoded) outcome {
	for try := 0; ; try++ {
		at, err := s.swap(ctx, s.swaps.of(e), &e.values)
		switch {
		case err == nil && at > 0:
			return outcome{record: e.saved(at)}
		case err != nil && (!s.inTheWay(err) || try == maxRepeats):
			return outcome{err: s.explain(ctx, "saving a record", err)}
		case err != nil:
			continue
		}
		current, err := s.one(s.load.stmt.QueryRowContext(ctx, s.load.args(&e.values)...).Scan)
		switch {
		case err == nil:
			return outcome{current, toolexec.ErrConflict}
		case !errors.Is(err, toolexec.ErrNotFound):
			return outcome{err: s.explain(ctx, "loading the record that is in the way", err)}
		case e.doc.Version != 0 || try == maxRepeats:
			return outcome{err: toolexec.ErrConflict}
		}
		// What was in the way has expired meanwhile.
	}
}

// swap executes one statement, and returns when it stored the record on the
// database's clock; 0 if it did not.
func (s *Store) swap(ctx context.Context, p *prepared, v *values) (at int64, err error) {
	if s.dialect == PostgreSQL {
		err = p.stmt.QueryRowContext(ctx, p.args(v)...).Scan(&at)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, nil
		}
		return at, err
	}
	result, err := p.stmt.ExecContext(ctx, p.args(v)...)
	if err != nil {
		return 0, err
	}
	if p == &s.update {
		// It changes the version of what it finds, so whether the driver counts rows
		// found or rows changed makes no difference.
		if n, err := result.RowsAffected(); n == 0 || err != nil {
			return 0, err
		}
	}
	return result.LastInsertId()
}
