package sqltool_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqltool"
)

// straight is a look-up that does not go over the wire.
func (w *world) straight() func(context.Context, string, order) (toolexec.Finding[receipt], error) {
	return sqltool.Lookup[order, receipt](sqltool.Writer{DB: w.admin, Dialect: w.dialect})
}

// TestLateCommit: the client lost its connection, and its COMMIT arrives later.
// A look-up that read no more than what is committed would find nothing, release
// the operation, and be wrong. This one waits for the open transaction.
func TestLateCommit(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ref := newRef()
		x := &toolexec.Executor{Policy: quick, Observer: observer{duplicate: func() { t.Error("a duplicate effect") }}}
		tool := w.toolOn(x, w.write)
		warm(t, tool)
		w.cutAt(commit, ref, late)
		waits := make(chan toolexec.Envelope[receipt], 1)
		defer w.wire.release()
		go func() { waits <- tool.Call(with(t.Context(), ref), order{"A1", 5}) }()
		require.Eventually(t, func() bool { return w.wire.cuts() == 1 }, 10*time.Second, time.Millisecond)

		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := w.straight()(ctx, ref, order{"A1", 5})
		require.ErrorIs(t, err, context.DeadlineExceeded, "it cannot tell while the transaction is open")
		require.ErrorContains(t, err, "a transaction that has the ref is still open")
		select {
		case e := <-waits:
			t.Fatalf("the call was answered before its transaction had ended: %v", e.Err())
		default:
		}
		w.wire.release()
		e := <-waits
		assert.Equal(t, done, w.seen(t, e, ref), "%v", errors.Unwrap(e.Err()))
		assert.Equal(t, receipt{"no-A1"}, e.Result)
		assert.Equal(t, toolexec.SourceLookup, e.Verification.Source)
	})
}

// TestCannotTell: the transaction stays open for longer than the look-up may
// take. The outcome stays unknown, nothing is run again, and when it has ended
// the operation is settled.
func TestCannotTell(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ref := newRef()
		x := &toolexec.Executor{Policy: quick}
		tool := toolexec.Bind(x, sqltool.Tool(w.writer(), w.write, toolexec.Tool[order, receipt]{
			Name: "book", Verify: &toolexec.Verifier[order, receipt]{Deadline: 200 * time.Millisecond, MaxChecks: -1},
		}))
		warm(t, tool)
		w.cutAt(commit, ref, late)
		e := tool.Call(with(t.Context(), ref), order{"A1", 5})
		assert.Equal(t, toolexec.CommitUnknown, e.CommitState)
		assert.Equal(t, toolexec.NextVerifyOperation, e.NextAction)
		w.wire.release()
		w.quiet(t)
		require.Eventually(t, func() bool { return tool.Call(with(t.Context(), ref), order{"A1", 5}).OK }, 10*time.Second, time.Millisecond)
		assert.Equal(t, 1, w.effects(t, ref))
	})
}

// TestSilentCommit: COMMIT is executed and nothing comes back, for ever. The
// caller is answered at its deadline. The attempt lives on for CommitWait, and
// until it ends absence would not count; what is there is found at once.
func TestSilentCommit(t *testing.T) {
	for _, e := range []engine{pgx} { // the other two do not let a context end COMMIT
		t.Run(e.name, func(t *testing.T) {
			w := newWorld(t, e)
			policy := once()
			policy.Deadline = 300 * time.Millisecond
			writer := w.writer()
			writer.CommitWait = 600 * time.Millisecond
			x := &toolexec.Executor{Policy: policy}
			tool := toolexec.Bind(x, sqltool.Tool(writer, w.write, toolexec.Tool[order, receipt]{Name: "book"}))
			ref := newRef()
			w.cutAt(commit, ref, silently)
			e := tool.Call(with(t.Context(), ref), order{"A1", 5})
			assert.Equal(t, done, w.seen(t, e, ref), "%v", errors.Unwrap(e.Err()))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			require.NoError(t, x.Close(ctx), "the attempt ends")
		})
	}
}

// TestLateAnswer: COMMIT is answered after the deadline. It is heard, without a
// look-up.
func TestLateAnswer(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		policy := once()
		policy.Deadline = 300 * time.Millisecond
		x := &toolexec.Executor{Policy: policy}
		tool := toolexec.Bind(x, sqltool.Tool(w.writer(), w.write, toolexec.Tool[order, receipt]{
			Name: "book", Verify: &toolexec.Verifier[order, receipt]{Deadline: 50 * time.Millisecond},
		}))
		warm(t, tool)
		ref := newRef()
		w.cutAt(commit, ref, hold)
		e := tool.Call(with(t.Context(), ref), order{"A1", 5})
		assert.Equal(t, toolexec.CommitUnknown, e.CommitState)
		w.wire.release()
		require.NoError(t, x.Close(t.Context()))
		e = tool.Call(with(t.Context(), ref), order{"A1", 5})
		assert.Equal(t, done, w.seen(t, e, ref))
		assert.Equal(t, toolexec.SourceExecution, e.Verification.Source)
	})
}

// TestLookup is the look-up by itself: found, absent, conflicting, and that it
// changes nothing and keeps nobody waiting.
func TestLookup(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		look, tool, ref := sqltool.Lookup[order, receipt](w.writer()), w.run(t), newRef()
		find := func(in order) toolexec.Finding[receipt] {
			t.Helper()
			found, err := look(t.Context(), ref, in)
			require.NoError(t, err)
			return found
		}
		assert.Equal(t, toolexec.Absent[receipt](), find(order{"A1", 5}))
		assert.Equal(t, toolexec.Absent[receipt](), find(order{}))
		assert.Zero(t, w.count(t, "SELECT COUNT(*) FROM operation_refs"))
		require.True(t, tool.Call(with(t.Context(), ref), order{"A1", 5}).OK)
		assert.Equal(t, toolexec.Found(receipt{"no-A1"}), find(order{"A1", 5}))
		assert.Equal(t, toolexec.Found(receipt{"no-A1"}), find(order{}), "the arguments were not kept")
		assert.Equal(t, toolexec.Conflicting[receipt](), find(order{"A1", 6}))
		assert.Equal(t, 1, w.count(t, "SELECT COUNT(*) FROM operation_refs"))
		w.quiet(t)
		assert.Zero(t, w.db.Stats().InUse)
	})
}

// run is a tool made of the parts.
func (w *world) run(t *testing.T) bound {
	return toolexec.Bind(new(toolexec.Executor), toolexec.Tool[order, receipt]{
		Name: "book", Run: sqltool.Run(w.writer(), w.write), MarksSent: true,
		Verify: &toolexec.Verifier[order, receipt]{Lookup: sqltool.Lookup[order, receipt](w.writer()), Authoritative: true, Settle: -1},
	})
}

// TestLookupBeside: an open transaction of another ref keeps no look-up waiting.
func TestLookupBeside(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		inside, let := make(chan struct{}), make(chan struct{})
		release := sync.OnceFunc(func() { close(let) })
		defer release()
		tool := w.tool(t, once(), func(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
			close(inside)
			<-let
			return w.book(ctx, tx, in)
		})
		answered := make(chan bool, 1)
		go func() { answered <- tool.Call(with(t.Context(), "op/m"), order{"A1", 5}).OK }()
		<-inside
		for _, ref := range []string{"op/a", "op/l", "op/n", "op/z"} {
			found, err := w.straight()(t.Context(), ref, order{})
			require.NoError(t, err)
			assert.Equal(t, toolexec.Absent[receipt](), found)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := w.straight()(ctx, "op/m", order{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		release()
		assert.True(t, <-answered)
	})
}

// TestLookupKeepsNobody waiting: while a look-up has its locks, refs beside the
// one it asks about are written.
func TestLookupKeepsNobody(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, ref := range []string{"op/a", "op/z"} {
			require.True(t, w.tool(t, once(), w.write).Call(with(t.Context(), ref), order{"A1", 5}).OK)
		}
		w.wire.arm("ROLLBACK", 1, hold)
		defer w.wire.release()
		found := make(chan toolexec.Verdict, 1)
		go func() {
			f, err := sqltool.Lookup[order, receipt](w.writer())(t.Context(), "op/m", order{})
			assert.NoError(t, err)
			found <- f.Verdict
		}()
		require.Eventually(t, func() bool { return w.wire.cuts() == 1 }, 10*time.Second, time.Millisecond)
		policy := once()
		policy.Deadline = 5 * time.Second
		writer := sqltool.Writer{DB: w.admin, Dialect: w.dialect}
		x := &toolexec.Executor{Policy: policy}
		tool := toolexec.Bind(x, sqltool.Tool(writer, w.write, toolexec.Tool[order, receipt]{Name: "book"}))
		for _, ref := range []string{"op/l", "op/n"} {
			e := tool.Call(with(t.Context(), ref), order{"A1", 5})
			assert.True(t, e.OK, "%v", errors.Unwrap(e.Err()))
		}
		w.wire.release()
		assert.Equal(t, toolexec.NoEffect, <-found)
	})
}
