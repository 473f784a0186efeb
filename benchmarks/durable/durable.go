// Package durable measures what it costs to keep an operation in a database:
// through this library, through bare statements of the driver, and through what
// is used instead on the same PostgreSQL.
package durable

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/benchmarks/internal/measure"
	"github.com/toolexec/toolexec/benchmarks/internal/recovery"
	"github.com/toolexec/toolexec/sqlstore"
)

// Peers are the modules of what is measured beside this library.
var Peers = []string{
	"github.com/dbos-inc/dbos-transact-golang", "github.com/jackc/pgx/v5", "github.com/riverqueue/river", "modernc.org/sqlite",
}

// Options say how much is measured.
type Options struct {
	Passes   int           // of each path and number of callers
	Window   time.Duration // how long one takes
	Records  int           // how many the longest curve goes to
	Jobs     int           // how many a queue is drained of
	InFlight int           // how many a supervisor adopts
	Progress io.Writer
}

// path is one way to keep an operation.
type path struct {
	name string
	ours bool
	does string
	do   operation
}

// contest is what one database was asked.
type contest struct {
	title   string
	paths   []path
	got     measure.Samples
	drained bool
	curve   []int
}

// callers are how many work at once.
var callers = []int{1, 16, mostCallers}

func at(name string, callers int) string { return fmt.Sprintf("%s, c=%d", name, callers) }

// Section measures and prints its part of the page. Where no PostgreSQL answers it
// says so, and does without.
func Section(ctx context.Context, w io.Writer, o Options) error {
	dir, err := os.MkdirTemp("", "durable")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	lite, err := o.contest(ctx, func(name string) (*database, error) { return newSQLite(dir, name), nil })
	if err != nil {
		return fmt.Errorf("SQLite: %w", err)
	}
	_, _ = fmt.Fprintf(o.Progress, "%s, %d operations in flight are adopted\n", lite.title, o.InFlight)
	adopted, err := recovery.Measure(ctx, o.InFlight, toolexec.DefaultRecoverWorkers)
	if err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	if missing := absent(ctx); missing != nil {
		render(w, o, missing, adopted, lite)
		return ctx.Err()
	}
	post, err := o.contest(ctx, func(string) (*database, error) { return newPostgres(ctx) })
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	render(w, o, nil, adopted, lite, post)
	return nil
}

// absent says why there is no PostgreSQL, nil if there is.
func absent(ctx context.Context) error {
	db, err := sql.Open("pgx", postgres)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}

// contest measures all that there is for one kind of database.
func (o Options) contest(ctx context.Context, at placer) (*contest, error) {
	c := new(contest)
	if err := c.measurePaths(ctx, o, at); err != nil {
		return nil, err
	}
	err := c.measureCurve(ctx, o, at)
	return c, err
}

// placer makes a database of that name.
type placer func(name string) (*database, error)

// until is at, with databases that are dropped in the end.
func (at placer) until(end *cleanups) placer {
	return func(name string) (*database, error) {
		d, err := at(name)
		if err == nil {
			end.add(d.drop)
		}
		return d, err
	}
}

func (c *contest) measurePaths(ctx context.Context, o Options, at placer) error {
	var end cleanups
	defer end.run()
	at = at.until(&end)
	d, err := at("paths.db")
	if err != nil {
		return err
	}
	if c.title, err = d.version(ctx); err != nil {
		return err
	}
	if err := c.setUp(ctx, d, &end); err != nil {
		return err
	}
	var q *queue
	if d.dialect == sqlstore.PostgreSQL {
		if q, err = c.setUpPeers(ctx, at, &end); err != nil {
			return err
		}
	}
	for _, p := range c.paths { // connections are made, statements prepared
		if _, err := rate(ctx, p.do, mostCallers, o.Window/5); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for pass := range o.Passes {
		_, _ = fmt.Fprintf(o.Progress, "%s, pass %d of %d\n", c.title, pass+1, o.Passes)
		if err := c.pass(ctx, o, q); err != nil {
			return err
		}
	}
	return nil
}

// setUp adds bare statements and the library. They share the connections to a
// server, which has no more; in SQLite each has a file.
func (c *contest) setUp(ctx context.Context, d *database, end *cleanups) error {
	db, err := d.pool(end)
	if err != nil {
		return err
	}
	s, err := openStore(ctx, db, d, end)
	if err != nil {
		return err
	}
	if d.dialect == sqlstore.SQLite {
		if db, err = (&database{dialect: d.dialect, file: d.file + ".bare"}).pool(end); err != nil {
			return err
		}
	}
	hand, err := bare(ctx, db, d.dialect)
	if err != nil {
		return err
	}
	c.paths = append(
		c.paths,
		path{pathBare, false, "a claim and a finish, prepared, each committed; nothing compares, looks up or resumes", hand},
		path{pathSaves, true, "the store alone: two compare-and-swaps of a record", saves(s)},
		path{pathWrite, true, "a call: the store, arguments and their fingerprint, the tool on a goroutine, the envelope", write(s)},
	)
	return nil
}

const (
	pathBare  = "bare statements"
	pathSaves = "sqlstore, two Saves"
	pathWrite = "Write through sqlstore"
	pathDBOS  = "DBOS, a workflow of one step"
	pathRiver = "River, a job and its output"
	pathDrain = "River, draining"
)

// openStore opens a store on d until the end.
func openStore(ctx context.Context, db *sql.DB, d *database, end *cleanups) (*sqlstore.Store, error) {
	s, err := sqlstore.Open(ctx, db, d.dialect, sqlstore.Options{})
	if err == nil {
		end.add(func() { _ = s.Close() })
	}
	return s, err
}

// setUpPeers adds what is used instead, each in a database of its own.
func (c *contest) setUpPeers(ctx context.Context, at placer, end *cleanups) (*queue, error) {
	d, err := at("dbos")
	if err != nil {
		return nil, err
	}
	workflow, stop, err := startDBOS(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("DBOS: %w", err)
	}
	end.add(stop)
	if d, err = at("river"); err != nil {
		return nil, err
	}
	q, err := newQueue(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	end.add(q.pool.Close)
	work, stop, err := q.start(ctx)
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	end.add(stop)
	c.drained = true
	c.paths = append(
		c.paths,
		path{pathDBOS, false, "the step's result is kept; after a crash the step runs again", workflow},
		path{pathRiver, false, "inserted and waited for, with River's defaults; after a crash the job runs again", work},
	)
	return q, nil
}

// pass has every path take its turn with every number of callers.
func (c *contest) pass(ctx context.Context, o Options, q *queue) error {
	for _, n := range callers {
		for _, p := range c.paths {
			s, err := rate(ctx, p.do, n, o.Window)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			c.got.Add(at(p.name, n), s)
		}
	}
	if q == nil {
		return nil
	}
	s, err := q.drain(ctx, o.Jobs)
	if err != nil {
		return fmt.Errorf("%s: %w", pathDrain, err)
	}
	c.got.Add(pathDrain, s)
	return nil
}

// cleanups are run in the end, the last first.
type cleanups struct{ list []func() }

func (c *cleanups) add(f func()) { c.list = append(c.list, f) }

func (c *cleanups) run() {
	for len(c.list) > 0 {
		f := c.list[len(c.list)-1]
		c.list = c.list[:len(c.list)-1]
		f()
	}
}
