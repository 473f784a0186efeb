package sqltool_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqltool"
)

// hold runs statements in a transaction of somebody else's, which ends with the
// test or when the returned function is called.
func (w *world) hold(t *testing.T, statements ...string) (tx *sql.Tx, end func()) {
	t.Helper()
	tx, err := w.admin.BeginTx(context.Background(), nil)
	require.NoError(t, err)
	for _, s := range statements {
		_, err := tx.ExecContext(t.Context(), s)
		require.NoError(t, err, s)
	}
	end = func() { _ = tx.Rollback() }
	t.Cleanup(end)
	return tx, end
}

// TestLocked: what somebody else holds is refused at once, or after a wait.
func TestLocked(t *testing.T) {
	locked := refusal{code: toolexec.CodeResourceLocked, next: wr, plain: one}
	each(t, func(t *testing.T, w *world) {
		w.hold(t, "UPDATE strict SET must = 2 WHERE id = 1")
		for _, statement := range []string{"SELECT id FROM strict WHERE id = 1 FOR UPDATE NOWAIT", "UPDATE strict SET must = 3 WHERE id = 1"} {
			w.check(t, locked, func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
				wait := "SET LOCAL lock_timeout = '20ms'"
				if w.engine == mariadb {
					wait = "SET SESSION innodb_lock_wait_timeout = 1"
				}
				if _, err := tx.ExecContext(ctx, wait); err != nil {
					return receipt{}, err
				}
				return w.failing(statement)(ctx, tx, in)
			})
		}
	})
}

// TestSerialization: a change that came in between undoes the transaction, and
// the next attempt succeeds. The wait for a duplicate counts as one.
func TestSerialization(t *testing.T) {
	for _, e := range []engine{pgx, pq} {
		t.Run(e.name, func(t *testing.T) {
			for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
				t.Run(level.String(), func(t *testing.T) {
					w := newWorld(t, e)
					writer := w.writer()
					writer.Isolation = level
					tries := 0
					write := func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
						if tries++; tries == 1 {
							exec(t, w.admin, "UPDATE strict SET must = must + 1 WHERE id = 1")
						}
						return w.failing("UPDATE strict SET must = must + 1 WHERE id = 1")(ctx, tx, in)
					}
					tool := func(policy toolexec.Policy) bound {
						x := &toolexec.Executor{Policy: policy}
						return toolexec.Bind(x, sqltool.Tool(writer, write, toolexec.Tool[order, receipt]{Name: "book"}))
					}
					ref := newRef()
					e := tool(once()).Call(with(t.Context(), ref), order{"A1", 5})
					assert.Equal(t, seen{toolexec.NotCommitted, toolexec.CodeSerializationConflict, wr, 0}, w.seen(t, e, ref))
					tries, ref = 0, newRef()
					assert.Equal(t, done, w.seen(t, tool(quick).Call(with(t.Context(), ref), order{"A1", 5}), ref))
					assert.Equal(t, 2, tries)
				})
			}
		})
	}
}

// TestDeadlock has the tool be the victim: in PostgreSQL because it looks for
// deadlocks first, in MariaDB because it changed less.
func TestDeadlock(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		tries, over := 0, make(chan struct{})
		write := func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
			out, err := w.book(ctx, tx, in)
			if tries++; tries > 1 || err != nil {
				return out, err
			}
			if w.engine != mariadb {
				_, err = tx.ExecContext(ctx, "SET LOCAL deadlock_timeout = '10ms'")
				require.NoError(t, err)
			}
			_, err = tx.ExecContext(ctx, "UPDATE strict SET must = 5 WHERE id = 1")
			require.NoError(t, err)
			other, end := w.hold(t, "UPDATE strict SET must = 6 WHERE id = 2", "INSERT INTO parents (id) VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9)")
			ended := make(chan error, 1)
			go func() {
				_, err := other.ExecContext(context.Background(), "UPDATE strict SET must = 6 WHERE id = 1")
				ended <- err
			}()
			_, err = tx.ExecContext(ctx, "UPDATE strict SET must = 5 WHERE id = 2")
			if err == nil {
				return out, errors.New("no deadlock")
			}
			go func() {
				assert.NoError(t, <-ended)
				end()
				close(over)
			}()
			return out, err
		}
		ref := newRef()
		e := w.tool(t, once(), write).Call(with(t.Context(), ref), order{"A1", 5})
		<-over
		assert.Equal(t, seen{toolexec.NotCommitted, toolexec.CodeSerializationConflict, wr, 0}, w.seen(t, e, ref), "%v", errors.Unwrap(e.Err()))
	})
}

// TestCancelledStatement: the server broke a statement off, because somebody
// told it to.
func TestCancelledStatement(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		write := w.failing("SET STATEMENT max_statement_time = 0.02 FOR UPDATE strict SET must = 1 WHERE SLEEP(5) = 0")
		if w.engine != mariadb {
			write = func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
				_, err := tx.ExecContext(ctx, "SET LOCAL statement_timeout = '20ms'")
				require.NoError(t, err)
				return w.failing("SELECT pg_sleep(5)")(ctx, tx, in)
			}
		}
		want := refusal{code: toolexec.CodeDeadlineExceeded, next: wr, plain: one}
		if w.engine == mariadb { // the error may meet a COMMIT too
			want.plain = doubted
		}
		w.check(t, want, write)
	})
}

// TestKilled: the server ends the connection in the middle of a transaction.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		kill := "SELECT pg_terminate_backend(pg_backend_pid())"
		if w.engine == mariadb {
			kill = "KILL CONNECTION_ID()"
		}
		w.check(t, refusal{code: toolexec.CodeDependencyUnavailable, next: wr, plain: doubted}, w.failing(kill))
	})
}

// TestUsers: what a server says to a user who may not come in, or may not write.
func TestUsers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		user := w.place + "_u"
		if w.engine == mariadb {
			exec(t, w.admin, "CREATE USER "+user+" IDENTIFIED BY 'right' WITH MAX_USER_CONNECTIONS 1")
			exec(t, w.admin, "GRANT ALL ON operation_refs TO "+user)
			t.Cleanup(func() { _, _ = w.admin.ExecContext(context.Background(), "DROP USER "+user) })
		} else {
			exec(t, w.admin, "CREATE ROLE "+user+" LOGIN CONNECTION LIMIT 1")
			exec(t, w.admin, "GRANT USAGE ON SCHEMA "+w.place+" TO "+user)
			exec(t, w.admin, "GRANT ALL ON operation_refs TO "+user)
			t.Cleanup(func() {
				_, _ = w.admin.ExecContext(context.Background(), "DROP OWNED BY "+user)
				_, _ = w.admin.ExecContext(context.Background(), "DROP ROLE "+user)
			})
		}
		as := func(t *testing.T, name, password string) {
			w.db = w.open(t, w.wire.Addr().String(), url.UserPassword(name, password))
		}
		t.Run("may not write", func(t *testing.T) {
			as(t, user, "right")
			defer w.db.Close()
			w.db.SetMaxOpenConns(1)
			w.check(t, refusal{code: toolexec.CodePermissionDenied, next: ra, plain: one}, w.write)
		})
		t.Run("too many connections", func(t *testing.T) {
			as(t, user, "right")
			defer w.db.Close()
			var busy *sql.Conn
			require.Eventually(t, func() bool { // the server may not have noticed yet that the last one ended
				var err error
				busy, err = w.db.Conn(t.Context())
				return err == nil
			}, 5*time.Second, 10*time.Millisecond)
			defer busy.Close()
			w.check(t, refusal{code: toolexec.CodeDependencyUnavailable, next: wr, plain: one}, w.write)
		})
		t.Run("nobody", func(t *testing.T) {
			as(t, "nobody_at_all", "wrong")
			defer w.db.Close()
			w.check(t, refusal{code: toolexec.CodeAuthenticationRequired, next: es, plain: one}, w.write)
		})
	})
}

// TestReadOnly: usually a failover to a replica.
func TestReadOnly(t *testing.T) {
	for _, e := range []engine{pgx, pq} {
		t.Run(e.name, func(t *testing.T) {
			w := newWorld(t, e)
			w.check(t, refusal{code: toolexec.CodeDependencyUnavailable, next: wr, plain: one},
				func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
					_, err := tx.ExecContext(ctx, "SET TRANSACTION READ ONLY")
					require.NoError(t, err)
					return w.book(ctx, tx, in)
				})
		})
	}
}

// TestNobodyThere: the dial is refused.
func TestNobodyThere(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.db = w.open(t, "127.0.0.1:1", nil)
		ref := newRef()
		e := w.tool(t, once(), w.write).Call(with(t.Context(), ref), order{"A1", 5})
		assert.Equal(t, seen{toolexec.NotCommitted, toolexec.CodeDependencyUnavailable, wr, 0}, w.seen(t, e, ref))
	})
}
