package sqltool

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolexec/toolexec"
)

// row is what a ref row holds.
type row struct {
	digest    []byte
	hasResult bool
	result    []byte
}

var (
	errNoRef   = errors.New("sqltool: no operation is running in this context; a ReadOnly tool has none, and needs no ref row")
	errNotKept = errors.New("sqltool: the effect exists; its result was not kept, or fits no more")
	errReused  = errors.New("sqltool: the operation ref has a row of other arguments")
	errEnded   = errors.New("sqltool: the tool's function ended the transaction itself")
	errGone    = errors.New("sqltool: the ref row is not there any more: the function removed it, or somebody pruned it just now")
	errTimeUp  = errors.New("sqltool: the answer to COMMIT or ROLLBACK was waited for long enough")
)

// write runs do and commits it with its ref row. A prior row is returned
// instead when the effect exists already.
func (c *core) write(ctx context.Context, digest []byte, do func(*sql.Tx) (any, error)) (prior *row, err error) {
	ref := toolexec.OperationRef(ctx)
	if ref == "" {
		return nil, errNoRef
	}
	t, err := c.begin(ctx)
	if err != nil {
		return nil, c.unsent(ctx, err)
	}
	defer t.abandon() // also on a panic and on Goexit
	if prior, err = t.claim(ctx, ref, digest); err != nil || prior != nil {
		return prior, t.giveUp(ctx, err)
	}
	out, err := do(t.tx)
	if err == nil {
		err = t.fill(ctx, ref, out)
	}
	if err != nil {
		return nil, t.giveUp(ctx, err)
	}
	return nil, t.commit(ctx)
}

// transaction is one that this package ends.
type transaction struct {
	c      *core
	tx     *sql.Tx
	cancel context.CancelCauseFunc // of the transaction's own context
	detach func() bool             // from the attempt's
	over   bool
}

// begin starts a transaction that ends with ctx until detach, and then with
// cancel: the answer to COMMIT is waited for longer than the attempt's deadline,
// because pgx breaks off a COMMIT whose context ends, and its answer is lost.
func (c *core) begin(ctx context.Context) (*transaction, error) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	tx, err := c.DB.BeginTx(own, &sql.TxOptions{Isolation: c.Isolation})
	if err != nil {
		detach()
		cancel(nil)
		return nil, err
	}
	return &transaction{c: c, tx: tx, cancel: cancel, detach: detach}, nil
}

// claim inserts the ref row, after any open transaction that has inserted it
// has ended, or returns the one that is there.
func (t *transaction) claim(ctx context.Context, ref string, digest []byte) (*row, error) {
	res, err := t.tx.ExecContext(ctx, t.c.sql.insert, t.c.scope(ctx), ref, digest)
	if err == nil {
		n, err := res.RowsAffected()
		if n == 1 || err != nil {
			return nil, err
		}
	}
	// MySQL fails the statement for a row that is there, and not the transaction:
	// whatever the error is called, the row decides. In PostgreSQL it is the error
	// that failed the transaction, so there is nothing to ask.
	if err != nil && t.c.Dialect != MySQL {
		return nil, err
	}
	prior, findErr := t.c.find(ctx, t.tx, t.c.sql.find, ref)
	switch {
	case err != nil && prior == nil:
		return nil, err
	case findErr != nil:
		return nil, findErr
	case prior == nil:
		return nil, errGone
	case !bytes.Equal(prior.digest, digest):
		return nil, reused()
	}
	return prior, nil
}

func reused() error {
	f := toolexec.Rejected(toolexec.CodeOperationRefReused, errReused)
	f.Details = toolexec.Details{toolexec.DetailExistingCommitState: toolexec.Committed.String()}
	return f
}

// querier is a *sql.DB or a *sql.Tx.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// find reads the ref row; nil when there is none.
func (c *core) find(ctx context.Context, q querier, query, ref string) (*row, error) {
	var r row
	var has sql.NullInt64
	err := q.QueryRowContext(ctx, query, c.scope(ctx), ref).Scan(&r.digest, &has, &r.result)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // no row is an answer
	}
	if err != nil {
		return nil, err
	}
	r.hasResult = has.Int64 == 1
	return &r, nil
}

// fill stores the result. Being the last statement it also finds out about a
// transaction that failed unnoticed, which PostgreSQL would answer COMMIT for
// with ROLLBACK.
func (t *transaction) fill(ctx context.Context, ref string, out any) error {
	has, result := 1, encode(out, t.c.MaxResult)
	if result == nil {
		has = 0
	}
	res, err := t.tx.ExecContext(ctx, t.c.sql.fill, has, result, t.c.scope(ctx), ref)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n != 1 {
		err = errGone
	}
	return err
}

// encode returns a result as JSON; nil where it is too large or cannot be
// encoded: the fact is stored all the same.
func encode(out any, limit int) []byte {
	raw, err := json.Marshal(out)
	if err != nil || limit < 0 || len(raw) > limit {
		return nil
	}
	return raw
}

// commit is the only step that can leave something behind.
func (t *transaction) commit(ctx context.Context) error {
	t.detach()
	if err := toolexec.MarkSent(ctx); err != nil { // also when ctx ended before detach
		return err
	}
	err := t.end((*sql.Tx).Commit)
	if err == nil || refusedCommit(err) {
		return err
	}
	return toolexec.InDoubt(fmt.Errorf("sqltool: COMMIT: %w", err))
}

// end commits or rolls back, and waits for the answer as long as it may.
func (t *transaction) end(how func(*sql.Tx) error) error {
	t.over = true
	defer t.cancel(nil)
	if d := t.c.CommitWait; d > 0 {
		defer time.AfterFunc(d, func() { t.cancel(errTimeUp) }).Stop()
	}
	return how(t.tx)
}

// abandon rolls back what did not end.
func (t *transaction) abandon() {
	if !t.over {
		_ = t.rollback()
	}
}

func (t *transaction) rollback() error {
	t.detach()
	return t.end((*sql.Tx).Rollback)
}

// giveUp rolls back and says what err means for an attempt whose COMMIT was not
// sent. A nil err is fine: there was nothing to do.
func (t *transaction) giveUp(ctx context.Context, err error) error {
	alive := t.detach() // so that nothing but the function can have ended the transaction
	lost := t.rollback()
	switch {
	case err == nil:
		return nil
	case errors.Is(lost, sql.ErrTxDone) && alive:
		// Nobody but the function can have ended it, perhaps with COMMIT. The mark
		// takes back the promise that nothing was sent before one.
		_ = toolexec.MarkSent(ctx)
		return toolexec.InDoubt(errors.Join(errEnded, err))
	case ctx.Err() != nil || lost != nil && !recognised(err):
		return t.c.unsent(ctx, err)
	}
	return t.c.judged(err)
}
