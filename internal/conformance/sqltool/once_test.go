package sqltool_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqltool"
)

// restarted is a tool of another process that knows nothing of the first: its
// guard is empty, and the ref row is all there is.
func (w *world) restarted(t *testing.T, write sqltool.Func[order, receipt]) bound {
	return w.tool(t, quick, write)
}

func forbidden(t *testing.T) sqltool.Func[order, receipt] {
	return func(context.Context, *sql.Tx, order) (receipt, error) {
		t.Error("the function ran again")
		return receipt{}, nil
	}
}

// TestDuplicates: an effect that exists is answered with its stored result.
func TestDuplicates(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ref := newRef()
		first := w.tool(t, once(), w.write).Call(with(t.Context(), ref), order{"A1", 5})
		require.Equal(t, done, w.seen(t, first, ref))
		again := w.restarted(t, forbidden(t)).Call(with(t.Context(), ref), order{"A1", 5})
		assert.Equal(t, done, w.seen(t, again, ref))
		assert.Equal(t, first.Result, again.Result)

		other := w.restarted(t, forbidden(t)).Call(with(t.Context(), ref), order{"A1", 500})
		assert.Equal(t, seen{toolexec.NotCommitted, toolexec.CodeOperationRefReused, es, 1}, w.seen(t, other, ref))
		assert.Equal(t, toolexec.Details{toolexec.DetailExistingCommitState: "committed"}, other.SafeDetails)
	})
}

// TestSettings of the drivers that change what goes over the wire, or what comes
// back: the same is known.
func TestSettings(t *testing.T) {
	for _, e := range []engine{
		{"pgx, simple protocol", "pgx", sqltool.PostgreSQL, "BEGIN", "default_query_exec_mode=simple_protocol"},
		{"pq, binary parameters", "postgres", sqltool.PostgreSQL, "BEGIN", "binary_parameters=yes"},
		{"mysql, rows found", "mysql", sqltool.MySQL, "START TRANSACTION", "clientFoundRows=true"},
		{"mysql, interpolated", "mysql", sqltool.MySQL, "START TRANSACTION", "interpolateParams=true"},
	} {
		t.Run(e.name, func(t *testing.T) {
			w := newWorld(t, e)
			for _, do := range []cut{pass, before, after} {
				ref := newRef()
				tool := w.tool(t, quick, w.write)
				warm(t, tool)
				w.cutAt(commit, ref, do)
				e := tool.Call(with(t.Context(), ref), order{"A1", 5})
				assert.Equal(t, done, w.seen(t, e, ref), "%v", errors.Unwrap(e.Err()))
				again := w.restarted(t, forbidden(t)).Call(with(t.Context(), ref), order{"A1", 5})
				assert.Equal(t, done, w.seen(t, again, ref), "%v", errors.Unwrap(again.Err()))
				assert.Equal(t, receipt{"no-A1"}, again.Result)
			}
		})
	}
}

// TestConcurrentDuplicates come from several processes at once: one writes, and
// the others wait for it.
func TestConcurrentDuplicates(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var runs atomic.Int32
		ref := newRef()
		var wg sync.WaitGroup
		for range 8 {
			tool := w.restarted(t, func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
				runs.Add(1)
				return w.book(ctx, tx, in)
			})
			wg.Go(func() {
				e := tool.Call(with(t.Context(), ref), order{"A1", 5})
				assert.True(t, e.OK, "%v", errors.Unwrap(e.Err()))
				assert.Equal(t, receipt{"no-A1"}, e.Result)
			})
		}
		wg.Wait()
		assert.Equal(t, 1, w.effects(t, ref))
		assert.Equal(t, int32(1), runs.Load())
	})
}

// TestBytewise: refs that differ in nothing but case are two operations, and so
// are those that differ in a trailing byte. So are equal refs of two scopes.
func TestBytewise(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		tool := w.tool(t, once(), w.write)
		refs := []string{"op/a", "op/A", "op/a.", "op/a-", strings.Repeat("x", 200), strings.Repeat("x", 199)}
		for _, ref := range refs {
			require.True(t, tool.Call(with(t.Context(), ref), order{"A1", 5}).OK)
		}
		scoped := w.writer()
		scoped.Scope = "tenant"
		other := toolexec.Bind(new(toolexec.Executor), sqltool.Tool(scoped, w.write, toolexec.Tool[order, receipt]{Name: "book"}))
		require.True(t, other.Call(with(t.Context(), "op/a"), order{"A1", 5}).OK)
		require.True(t, tool.Call(toolexec.WithScope(with(t.Context(), "op/b"), "x"), order{"A1", 5}).OK)
		require.True(t, tool.Call(toolexec.WithScope(with(t.Context(), "op/b"), "y"), order{"A1", 5}).OK)
		assert.Equal(t, 2, w.effects(t, "op/b"))
		assert.Equal(t, 2, w.effects(t, "op/a")-map[bool]int{true: 1}[w.engine == mariadb], "the ledger's own column folds case in MariaDB")
		assert.Equal(t, len(refs)+3, w.count(t, "SELECT COUNT(*) FROM operation_refs"))
	})
}

// TestRollback: whatever ends the function but a result leaves nothing behind,
// and that is known without a look-up.
func TestRollback(t *testing.T) {
	failed := seen{toolexec.NotCommitted, toolexec.CodeToolFailed, es, 0}
	panicked := seen{toolexec.NotCommitted, toolexec.CodeToolPanic, es, 0}
	for _, row := range []struct {
		name string
		end  func() error
		want seen
	}{
		{"a plain error", func() error { return errors.New("not enough money") }, failed},
		{"a stated one", func() error { return toolexec.Invalid("amount", "too much") },
			seen{toolexec.NotCommitted, toolexec.CodeInvalidArguments, ci, 0}},
		{"a panic", func() error { panic("no") }, panicked},
		{"Goexit", func() error { runtime.Goexit(); return nil }, panicked},
	} {
		t.Run(row.name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				looks, ref := 0, newRef()
				x := &toolexec.Executor{Policy: quick, Observer: observer{looked: func() { looks++ }}}
				tool := w.toolOn(x, func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
					_, err := w.book(ctx, tx, in)
					require.NoError(t, err)
					return receipt{}, row.end()
				})
				e := tool.Call(with(t.Context(), ref), order{"A1", 5})
				assert.Equal(t, row.want, w.seen(t, e, ref))
				assert.Zero(t, looks)
				assert.Zero(t, w.db.Stats().InUse)
				assert.Equal(t, 0, w.count(t, "SELECT COUNT(*) FROM operation_refs"))
			})
		})
	}
}

// TestEndedItself: a function that commits by itself has broken the promise that
// only this package does. It is noticed, and what it left is looked up.
func TestEndedItself(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		name string
		end  func(*sql.Tx) error
		want seen
	}{
		{"Commit", (*sql.Tx).Commit, done},
		{"Commit and an error", func(tx *sql.Tx) error { return errors.Join(tx.Commit(), boom) }, done},
		{"Rollback", (*sql.Tx).Rollback, seen{toolexec.NotCommitted, toolexec.CodeDependencyUnavailable, wr, 0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				ref := newRef()
				e := w.tool(t, once(), func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
					_, err := w.book(ctx, tx, in)
					require.NoError(t, err)
					return receipt{}, row.end(tx)
				}).Call(with(t.Context(), ref), order{"A1", 5})
				assert.Equal(t, row.want, w.seen(t, e, ref), "%v", errors.Unwrap(e.Err()))
				assert.False(t, e.HasResult)
			})
		})
	}
}

// TestDeadline: the caller is answered at once, and knows that nothing was
// committed, whether the function obeys its context or not.
func TestDeadline(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		name := map[bool]string{true: "a statement", false: "a function that is deaf"}[obeys]
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				policy := once()
				policy.Deadline = 300 * time.Millisecond
				let := make(chan struct{})
				tool, ref := w.tool(t, policy, func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
					out, err := w.book(ctx, tx, in)
					if err != nil || in.ID == "warm" {
						return out, err
					}
					if !obeys {
						<-let
						return out, nil // as if all were well
					}
					sleep := "SELECT pg_sleep(20)"
					if w.engine == mariadb {
						sleep = "UPDATE strict SET must = 1 WHERE SLEEP(1) = 0"
					}
					_, err = tx.ExecContext(ctx, sleep)
					return out, err
				}), newRef()
				warm(t, tool)
				e := tool.Call(with(t.Context(), ref), order{"A1", 5})
				close(let)
				assert.Equal(t, toolexec.NotCommitted, e.CommitState, "%v", errors.Unwrap(e.Err()))
				assert.Equal(t, toolexec.CodeDeadlineExceeded, e.Code)
				assert.Equal(t, wr, e.NextAction)
				require.Eventually(t, func() bool { return w.db.Stats().InUse == 0 }, 10*time.Second, time.Millisecond)
				if w.engine != mariadb { // where a statement sleeps on when its client has gone
					assert.Equal(t, 0, w.seen(t, e, ref).Rows)
				}
			})
		})
	}
}

// TestCancelled by the caller, in the function: nothing was committed.
func TestCancelled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		tool, ref := w.tool(t, quick, func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
			_, err := w.book(ctx, tx, in)
			require.NoError(t, err)
			cancel()
			return w.book(ctx, tx, in)
		}), newRef()
		e := tool.Call(with(ctx, ref), order{"A1", 5})
		assert.Equal(t, seen{toolexec.NotCommitted, toolexec.CodeCancelled, wr, 0}, w.seen(t, e, ref))
	})
}

// TestResults: a result that is not kept leaves the fact.
func TestResults(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		writer := w.writer()
		writer.MaxResult = 20
		bind := func(write sqltool.Func[order, receipt]) bound {
			return toolexec.Bind(new(toolexec.Executor), sqltool.Tool(writer, write, toolexec.Tool[order, receipt]{Name: "book"}))
		}
		ref, large := newRef(), order{strings.Repeat("l", 30), 5}
		first := bind(w.write).Call(with(t.Context(), ref), large)
		assert.Equal(t, done, w.seen(t, first, ref))
		assert.Equal(t, receipt{"no-" + large.ID}, first.Result, "its own caller has it")

		again := bind(forbidden(t)).Call(with(t.Context(), ref), large)
		assert.Equal(t, done, w.seen(t, again, ref))
		assert.False(t, again.HasResult)
		found, err := sqltool.Lookup[order, receipt](writer)(t.Context(), ref, order{})
		require.NoError(t, err)
		assert.Equal(t, toolexec.FoundEffectOnly[receipt](), found)
	})
}

// TestPrune deletes what is older, and no more than it is told to.
func TestPrune(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		tool := w.tool(t, once(), w.write)
		for range 5 {
			require.True(t, tool.Call(with(t.Context(), newRef()), order{"A1", 5}).OK)
		}
		n, err := w.writer().Prune(t.Context(), time.Hour, 10)
		require.NoError(t, err)
		assert.Zero(t, n)
		old := "UPDATE operation_refs SET created_at = created_at - interval '2 hours'"
		if w.engine == mariadb {
			old = "UPDATE operation_refs SET created_at = created_at - INTERVAL 2 HOUR"
		}
		exec(t, w.admin, old)
		require.True(t, tool.Call(with(t.Context(), newRef()), order{"A1", 5}).OK)
		for _, want := range []int64{3, 2, 0} {
			n, err = w.writer().Prune(t.Context(), time.Hour, 3)
			require.NoError(t, err)
			assert.Equal(t, want, n)
		}
		assert.Equal(t, 1, w.count(t, "SELECT COUNT(*) FROM operation_refs"))
	})
}

// TestCreateTable may be called by many, and again, and in another schema.
func TestCreateTable(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		writer := w.writer()
		writer.Table = w.place + ".refs"
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { assert.NoError(t, writer.CreateTable(t.Context())) })
		}
		wg.Wait()
		require.NoError(t, writer.CreateTable(t.Context()))
		tool := toolexec.Bind(new(toolexec.Executor), sqltool.Tool(writer, w.write, toolexec.Tool[order, receipt]{Name: "book"}))
		ref := newRef()
		assert.Equal(t, done, w.seen(t, tool.Call(with(t.Context(), ref), order{"A1", 5}), ref))
		assert.Equal(t, 1, w.count(t, "SELECT COUNT(*) FROM refs"))
	})
}
