package sqltool_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// refusal is what a server's error means.
type refusal struct {
	state string
	code  toolexec.Code // of a write that is provably not committed
	next  toolexec.NextAction

	// What the ladder makes of it for a tool that uses database/sql by itself: it was
	// undone, for a tool that makes one transaction; or it may have happened.
	plain string
}

const (
	one     = "one transaction"
	doubted = "in doubt"
)

const (
	ci = toolexec.NextCorrectInput
	wr = toolexec.NextWaitAndRetry
	ra = toolexec.NextRequestApproval
	es = toolexec.NextEscalate
)

// refusals are the rows of the mapping that a server can answer a statement
// with.
var refusals = []refusal{
	{"08000", toolexec.CodeDependencyUnavailable, wr, doubted},
	{"08001", toolexec.CodeDependencyUnavailable, wr, one},
	{"08003", toolexec.CodeDependencyUnavailable, wr, doubted},
	{"08004", toolexec.CodeDependencyUnavailable, wr, one},
	{"08006", toolexec.CodeDependencyUnavailable, wr, doubted},
	{"08007", toolexec.CodeDependencyUnavailable, wr, doubted},
	{"08P01", toolexec.CodeToolFailed, es, doubted},
	{"0A000", toolexec.CodeConfigError, es, one},
	{"22001", toolexec.CodeInvalidArguments, ci, one},
	{"22003", toolexec.CodeInvalidArguments, ci, one},
	{"22012", toolexec.CodeInvalidArguments, ci, one},
	{"22P02", toolexec.CodeInvalidArguments, ci, one},
	{"23502", toolexec.CodeInvalidArguments, ci, one},
	{"23503", toolexec.CodeConflict, es, one},
	{"23505", toolexec.CodeAlreadyExists, es, one},
	{"23514", toolexec.CodeInvalidArguments, ci, one},
	{"23P01", toolexec.CodeConflict, es, one},
	{"25006", toolexec.CodeDependencyUnavailable, wr, one},
	{"25P02", toolexec.CodeToolFailed, es, one},
	{"25P03", toolexec.CodeDependencyUnavailable, wr, one},
	{"26000", toolexec.CodeConfigError, es, one},
	{"28000", toolexec.CodeAuthenticationRequired, es, one},
	{"28P01", toolexec.CodeAuthenticationRequired, es, one},
	{"3D000", toolexec.CodeConfigError, es, one},
	{"40000", toolexec.CodeSerializationConflict, wr, one},
	{"40001", toolexec.CodeSerializationConflict, wr, one},
	{"40002", toolexec.CodeConflict, es, one},
	{"40003", toolexec.CodeDependencyUnavailable, wr, doubted},
	{"40P01", toolexec.CodeSerializationConflict, wr, one},
	{"42501", toolexec.CodePermissionDenied, ra, one},
	{"42601", toolexec.CodeConfigError, es, one},
	{"42P01", toolexec.CodeConfigError, es, one},
	{"53000", toolexec.CodeDependencyUnavailable, wr, one},
	{"53100", toolexec.CodeDependencyUnavailable, wr, one},
	{"53200", toolexec.CodeDependencyUnavailable, wr, one},
	{"53300", toolexec.CodeDependencyUnavailable, wr, one},
	{"53400", toolexec.CodeDependencyUnavailable, wr, one},
	{"55006", toolexec.CodeResourceLocked, wr, one},
	{"55P03", toolexec.CodeResourceLocked, wr, one},
	{"57014", toolexec.CodeDeadlineExceeded, wr, one},
	{"57P01", toolexec.CodeDependencyUnavailable, wr, doubted},
	{"57P02", toolexec.CodeDependencyUnavailable, wr, doubted},
	{"57P03", toolexec.CodeDependencyUnavailable, wr, one},
	{"57P04", toolexec.CodeConfigError, es, doubted},
	{"57P05", toolexec.CodeDependencyUnavailable, wr, one},
	{"58000", toolexec.CodeToolFailed, es, doubted},
	{"XX000", toolexec.CodeToolFailed, es, doubted},
}

// provenNot is the answer where nothing was committed.
func (r refusal) provenNot() seen { return seen{toolexec.NotCommitted, r.code, r.next, 0} }

// byLadder is what a tool without this package is answered.
func (r refusal) byLadder(oneRequest bool) seen {
	if r.plain == one && oneRequest {
		return r.provenNot()
	}
	s := seen{toolexec.CommitUnknown, r.code, toolexec.NextVerifyOperation, 0}
	switch r.code {
	case toolexec.CodeDependencyUnavailable, toolexec.CodeDeadlineExceeded:
		s.Code = toolexec.CodeOutcomeUnknown
	}
	return s
}

// failing writes to the ledger and then fails, in the same transaction.
func (w *world) failing(statement string) func(context.Context, *sql.Tx, order) (receipt, error) {
	return func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
		if out, err := w.book(ctx, tx, in); err != nil {
			return out, err
		}
		_, err := tx.ExecContext(ctx, statement)
		return receipt{"wrong"}, err
	}
}

// transact is a plain tool's transaction.
func (w *world) transact(write func(context.Context, *sql.Tx, order) (receipt, error)) func(context.Context, order) (receipt, error) {
	return func(ctx context.Context, in order) (receipt, error) {
		tx, err := w.db.BeginTx(ctx, nil)
		if err != nil {
			return receipt{}, err
		}
		defer tx.Rollback()
		out, err := write(ctx, tx, in)
		if err != nil {
			return out, err
		}
		return out, tx.Commit()
	}
}

// check runs a failing write in all three forms.
func (w *world) check(t *testing.T, r refusal, write func(context.Context, *sql.Tx, order) (receipt, error)) {
	t.Helper()
	ref := newRef()
	e := w.tool(t, once(), write).Call(with(t.Context(), ref), order{"A1", 5})
	assert.Equal(t, r.provenNot(), w.seen(t, e, ref), "sqltool: %v", errors.Unwrap(e.Err()))
	for _, oneRequest := range []bool{false, true} {
		ref := newRef()
		e := w.plain(t, oneRequest, w.transact(write)).Call(with(t.Context(), ref), order{"A1", 5})
		assert.Equal(t, r.byLadder(oneRequest), w.seen(t, e, ref), "plain, one request %v: %v", oneRequest, errors.Unwrap(e.Err()))
	}
}

// TestStates has PostgreSQL answer a statement with each state.
func TestStates(t *testing.T) {
	for _, e := range []engine{pgx, pq} {
		t.Run(e.name, func(t *testing.T) {
			w := newWorld(t, e)
			for _, r := range refusals {
				t.Run(r.state, func(t *testing.T) {
					w.check(t, r, w.failing(fmt.Sprintf("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '%s'; END $$", r.state)))
				})
			}
		})
	}
}

// TestStatesOfCommit has PostgreSQL answer COMMIT with each state, as a deferred
// constraint does. Nothing was committed, but not every state says so: those go
// to the look-up, which finds nothing.
func TestStatesOfCommit(t *testing.T) {
	says := map[string]bool{"23502": true, "23503": true, "23505": true, "23514": true, "23P01": true, "40000": true, "40001": true, "40002": true, "40P01": true}
	for _, e := range []engine{pgx, pq} {
		t.Run(e.name, func(t *testing.T) {
			w := newWorld(t, e)
			exec(t, w.admin, "CREATE TABLE late (state text)")
			exec(t, w.admin, "CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = NEW.state; END $$ LANGUAGE plpgsql")
			exec(t, w.admin, "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()")
			for _, r := range refusals {
				t.Run(r.state, func(t *testing.T) {
					looks := 0
					x := &toolexec.Executor{Policy: once(), Observer: observer{looked: func() { looks++ }}}
					ref := newRef()
					e := w.toolOn(x, w.failing("INSERT INTO late VALUES ('"+r.state+"')")).Call(with(t.Context(), ref), order{"A1", 5})
					want, wantLooks := r.provenNot(), 0
					if !says[r.state] {
						want, wantLooks = seen{toolexec.NotCommitted, toolexec.CodeDependencyUnavailable, wr, 0}, 1
					}
					assert.Equal(t, want, w.seen(t, e, ref), "%v", errors.Unwrap(e.Err()))
					assert.Equal(t, wantLooks, looks)
				})
			}
		})
	}
}

// mysqlRefusals are errors by number.
var mysqlRefusals = map[int]refusal{
	1048: {code: toolexec.CodeInvalidArguments, next: ci, plain: one},
	1264: {code: toolexec.CodeInvalidArguments, next: ci, plain: one},
	1292: {code: toolexec.CodeInvalidArguments, next: ci, plain: one},
	1364: {code: toolexec.CodeInvalidArguments, next: ci, plain: one},
	1365: {code: toolexec.CodeInvalidArguments, next: ci, plain: one},
	1366: {code: toolexec.CodeInvalidArguments, next: ci, plain: one},
	1406: {code: toolexec.CodeInvalidArguments, next: ci, plain: one},
	1690: {code: toolexec.CodeInvalidArguments, next: ci, plain: one},
	3819: {code: toolexec.CodeInvalidArguments, next: ci, plain: one},
	4025: {code: toolexec.CodeInvalidArguments, next: ci, plain: one},
	1062: {code: toolexec.CodeAlreadyExists, next: es, plain: one},
	1586: {code: toolexec.CodeAlreadyExists, next: es, plain: one},
	1451: {code: toolexec.CodeConflict, next: es, plain: one},
	1452: {code: toolexec.CodeConflict, next: es, plain: one},
	1020: {code: toolexec.CodeSerializationConflict, next: wr, plain: one},
	1213: {code: toolexec.CodeSerializationConflict, next: wr, plain: one},
	1205: {code: toolexec.CodeResourceLocked, next: wr, plain: one},
	3572: {code: toolexec.CodeResourceLocked, next: wr, plain: one},
	1044: {code: toolexec.CodePermissionDenied, next: ra, plain: one},
	1142: {code: toolexec.CodePermissionDenied, next: ra, plain: one},
	1143: {code: toolexec.CodePermissionDenied, next: ra, plain: one},
	1227: {code: toolexec.CodePermissionDenied, next: ra, plain: one},
	1370: {code: toolexec.CodePermissionDenied, next: ra, plain: one},
	1045: {code: toolexec.CodeAuthenticationRequired, next: es, plain: one},
	1698: {code: toolexec.CodeAuthenticationRequired, next: es, plain: one},
	1049: {code: toolexec.CodeConfigError, next: es, plain: one},
	1054: {code: toolexec.CodeConfigError, next: es, plain: one},
	1064: {code: toolexec.CodeConfigError, next: es, plain: one},
	1146: {code: toolexec.CodeConfigError, next: es, plain: one},
	1305: {code: toolexec.CodeConfigError, next: es, plain: one},
	1317: {code: toolexec.CodeDeadlineExceeded, next: wr, plain: doubted},
	1969: {code: toolexec.CodeDeadlineExceeded, next: wr, plain: doubted},
	3024: {code: toolexec.CodeDeadlineExceeded, next: wr, plain: one},
	1021: {code: toolexec.CodeDependencyUnavailable, next: wr, plain: doubted},
	1040: {code: toolexec.CodeDependencyUnavailable, next: wr, plain: one},
	1053: {code: toolexec.CodeDependencyUnavailable, next: wr, plain: doubted},
	1114: {code: toolexec.CodeDependencyUnavailable, next: wr, plain: one},
	1203: {code: toolexec.CodeDependencyUnavailable, next: wr, plain: one},
	1226: {code: toolexec.CodeDependencyUnavailable, next: wr, plain: one},
	1290: {code: toolexec.CodeDependencyUnavailable, next: wr, plain: one},
	1792: {code: toolexec.CodeDependencyUnavailable, next: wr, plain: one},
	1836: {code: toolexec.CodeDependencyUnavailable, next: wr, plain: one},
	1927: {code: toolexec.CodeDependencyUnavailable, next: wr, plain: doubted},
	1644: {code: toolexec.CodeToolFailed, next: es, plain: doubted}, // SIGNAL's own: not in the table
}

// TestNumbers has MariaDB answer a statement with each number.
func TestNumbers(t *testing.T) {
	w := newWorld(t, mariadb)
	for number, r := range mysqlRefusals {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			w.check(t, r, w.failing(fmt.Sprintf("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'no'", number)))
		})
	}
}

// TestConstraints are the commonest refusals, by the tables themselves.
func TestConstraints(t *testing.T) {
	for _, row := range []struct {
		name, statement string
		want            refusal
	}{
		{"unique", "INSERT INTO strict (id, must) VALUES (1, 1)", refusal{code: toolexec.CodeAlreadyExists, next: es, plain: one}},
		{"foreign key", "INSERT INTO strict (id, must, parent) VALUES (3, 1, 99)", refusal{code: toolexec.CodeConflict, next: es, plain: one}},
		{"check", "INSERT INTO strict (id, must) VALUES (3, -1)", refusal{code: toolexec.CodeInvalidArguments, next: ci, plain: one}},
		{"not null", "INSERT INTO strict (id, must) VALUES (3, NULL)", refusal{code: toolexec.CodeInvalidArguments, next: ci, plain: one}},
		{"out of range", "INSERT INTO strict (id, must, small) VALUES (3, 1, 99999)", refusal{code: toolexec.CodeInvalidArguments, next: ci, plain: one}},
		{"no table", "INSERT INTO nowhere (id) VALUES (3)", refusal{code: toolexec.CodeConfigError, next: es, plain: one}},
		{"syntax", "INSRT", refusal{code: toolexec.CodeConfigError, next: es, plain: one}},
	} {
		t.Run(row.name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) { w.check(t, row.want, w.failing(row.statement)) })
		})
	}
}

// TestTwoTransactions: a tool that writes twice without a transaction around both, and whose second statement is rejected, is
// not run again: its first one is committed.
func TestTwoTransactions(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		x := &toolexec.Executor{Policy: quick}
		t.Cleanup(func() { require.NoError(t, x.Close(context.Background())) })
		var rejected error
		tool := toolexec.Bind(x, toolexec.Tool[order, receipt]{Name: "transfer", Run: func(ctx context.Context, in order) (receipt, error) {
			out, err := w.autocommit(ctx, in)
			if err == nil {
				_, err = w.db.ExecContext(ctx, w.rejection())
				rejected = err
			}
			return out, err
		}})
		ref := newRef()
		e := tool.Call(with(t.Context(), ref), order{"A1", 5})
		require.Error(t, rejected)
		assert.Equal(t, seen{toolexec.CommitUnknown, toolexec.CodeSerializationConflict, toolexec.NextVerifyOperation, 1}, w.seen(t, e, ref))
	})
}

// rejection is a statement that is answered as a deadlock is, which would be worth another attempt.
func (w *world) rejection() string {
	if w.engine == mariadb {
		return "SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'no'"
	}
	return "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40P01'; END $$"
}

// TestSwallowed: PostgreSQL fails the whole transaction with a statement, also
// where the tool does not care. It is found before COMMIT, which would be
// answered with ROLLBACK. In MySQL the statement alone failed.
func TestSwallowed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		tool, ref := w.tool(t, once(), func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
			_, err := w.failing("INSERT INTO strict (id, must) VALUES (1, 1)")(ctx, tx, in)
			require.Error(t, err)
			return receipt{"no-A1"}, nil
		}), newRef()
		e := tool.Call(with(t.Context(), ref), order{"A1", 5})
		want := seen{toolexec.NotCommitted, toolexec.CodeToolFailed, es, 0}
		if w.engine == mariadb {
			want = done
		}
		assert.Equal(t, want, w.seen(t, e, ref))
	})
}
