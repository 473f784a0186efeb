package sqltool

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/toolexec/toolexec"
)

// Defaults of a Writer.
const (
	DefaultTable      = "operation_refs"
	DefaultCommitWait = 10 * time.Second
)

// Writer says where the writes of tools go, and the rows that name their
// operations. DB and Dialect are required. It is read once, by the function
// that is given it, and may be copied.
type Writer struct {
	// DB is the database of the writes and of the ref rows. It must reach the one
	// server that takes writes; see the package's documentation.
	DB *sql.DB
	// Dialect of DB.
	Dialect Dialect
	// Table holds the ref rows. Default DefaultTable. It may carry a schema:
	// "app.refs".
	Table string
	// Scope sets the refs of this Writer apart from those of others that share the
	// table: another application, a tenant. 0 to 200 bytes of [A-Za-z0-9._:/@-].
	// Changing it makes every earlier operation look absent. The scope of a call
	// (toolexec.WithScope) sets its refs apart as well.
	Scope string
	// Isolation of the transactions. Zero: that of the database. At any level a
	// ref has at most one effect.
	Isolation sql.IsolationLevel
	// CommitWait bounds how long the answer to COMMIT or ROLLBACK is waited for.
	// The attempt's deadline does not: an answer that comes later is still heard.
	// Default DefaultCommitWait; negative: no bound. It works with drivers that let
	// a context end a COMMIT, as pgx does. lib/pq and go-sql-driver/mysql do not:
	// with a connection that is silent for ever the attempt lives until the
	// system, or the driver's readTimeout, gives the connection up.
	CommitWait time.Duration
	// MaxResult bounds the result that a row keeps, in bytes of JSON. Default
	// toolexec.DefaultMaxResult; negative: none is kept. Of a result that is not
	// kept the fact remains, and a duplicate is answered without it.
	MaxResult int
}

// core is a Writer that was checked.
type core struct {
	Writer

	sql queries
}

// scope is what a row is kept under: the Writer's, and a digest of the call's,
// which may be any text. A '#' is in no Writer's.
func (c *core) scope(ctx context.Context) string {
	of := toolexec.Scope(ctx)
	if of == "" {
		return c.Scope
	}
	sum := sha256.Sum256([]byte(of))
	return c.Scope + "#" + base64.RawURLEncoding.EncodeToString(sum[:])
}

var scopeName = regexp.MustCompile(`^[A-Za-z0-9._:/@-]{0,200}$`)

// check returns w with its defaults, or what is wrong with it.
func (w Writer) check() (*core, error) {
	if w.Table == "" {
		w.Table = DefaultTable
	}
	if w.CommitWait == 0 {
		w.CommitWait = DefaultCommitWait
	}
	if w.MaxResult == 0 {
		w.MaxResult = toolexec.DefaultMaxResult
	}
	templates, known := dialects[w.Dialect]
	switch {
	case w.DB == nil:
		return nil, errors.New("sqltool: the Writer has no DB; set it to the database that the tool writes to")
	case !known:
		return nil, fmt.Errorf("sqltool: no such dialect: %q; set Dialect to PostgreSQL or MySQL", string(w.Dialect))
	case !tableName.MatchString(w.Table):
		return nil, fmt.Errorf("sqltool: the table name %q must match %s", w.Table, tableName)
	case !scopeName.MatchString(w.Scope):
		return nil, fmt.Errorf("sqltool: the scope %q must match %s", w.Scope, scopeName)
	}
	return &core{Writer: w, sql: templates.of(w.Dialect, w.Table)}, nil
}

// must is check for functions that make parts of tools: a Writer that cannot
// work is a mistake of the program.
func (w Writer) must() *core {
	c, err := w.check()
	if err != nil {
		panic(err.Error())
	}
	return c
}

// CreateTable creates the table and its index where they are missing. It may be
// called by several processes at once, and needs the privilege to create
// tables, so a program may leave it to its migrations.
func (w Writer) CreateTable(ctx context.Context) error {
	c, err := w.check()
	if err != nil {
		return err
	}
	for _, statement := range c.sql.create {
		if err := c.createOne(ctx, statement); err != nil {
			return fmt.Errorf("sqltool: creating %s: %w", c.Table, err)
		}
	}
	return nil
}

// createOne repeats: IF NOT EXISTS does not keep two that create at the same
// time from colliding in PostgreSQL's catalogue.
func (c *core) createOne(ctx context.Context, statement string) (err error) {
	for range 3 {
		if _, err = c.DB.ExecContext(ctx, statement); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// Prune deletes at most limit ref rows that are older than age, by the
// database's clock, oldest first, and returns how many it deleted.
//
// A deleted row is a forgotten effect: the operation would look absent, and
// could run again. So age must be longer than anybody may come back with a ref:
// longer than the guard's store keeps facts (30 days by default), and than an
// operation may stay unknown or wait for a person.
func (w Writer) Prune(ctx context.Context, age time.Duration, limit int) (int64, error) {
	c, err := w.check()
	switch {
	case err != nil:
		return 0, err
	case age <= 0:
		return 0, fmt.Errorf("sqltool: Prune deletes what is older than an age above zero, not %v", age)
	case limit <= 0:
		return 0, nil
	}
	res, err := c.DB.ExecContext(ctx, c.sql.prune, age.Microseconds(), limit)
	if err != nil {
		return 0, fmt.Errorf("sqltool: pruning %s: %w", c.Table, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("sqltool: pruning %s: %w", c.Table, err)
	}
	return n, nil
}
