package sqltool_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// Tools that use database/sql by themselves: what the built-in ladder makes of
// the drivers' errors.

// plain binds a Write that nobody can look up, so that the first answer stands.
func (w *world) plain(t *testing.T, oneRequest bool, write func(context.Context, order) (receipt, error)) bound {
	t.Helper()
	x := &toolexec.Executor{Policy: once()}
	t.Cleanup(func() { require.NoError(t, x.Close(context.Background())) })
	return toolexec.Bind(x, toolexec.Tool[order, receipt]{Name: "plain", Run: write, OneRequest: oneRequest})
}

func (w *world) autocommit(ctx context.Context, in order) (receipt, error) {
	return w.book(ctx, w.db, in)
}

func (w *world) explicit(ctx context.Context, in order) (receipt, error) {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return receipt{}, err
	}
	defer tx.Rollback()
	out, err := w.book(ctx, tx, in)
	if err != nil {
		return out, err
	}
	return out, tx.Commit()
}

// unknownTo is what the ladder says of a connection that was lost.
func unknownTo(rows int) seen {
	return seen{toolexec.CommitUnknown, toolexec.CodeOutcomeUnknown, toolexec.NextVerifyOperation, rows}
}

// TestPlainSteps: of a lost connection the ladder knows nothing but that the
// write may have happened.
//
// The rows with twice are lib/pq's: it answers driver.ErrBadConn for a statement
// that was sent, and database/sql then runs the statement again, beneath the
// tool. Where nothing was executed that is one effect. Where the answer was lost
// it is two, and nobody is told (lib/pq #939). In an explicit transaction
// database/sql repeats nothing but BEGIN.
func TestPlainSteps(t *testing.T) {
	statement := step{"INSERT", 1}
	for _, row := range []struct {
		form  string
		at    step
		do    cut
		rows  int
		twice int // effects with lib/pq, where database/sql repeats
	}{
		{"autocommit", statement, before, 0, 1},
		{"autocommit", statement, middle, 0, 1},
		{"autocommit", statement, after, 1, 2},
		{"explicit", begin, before, 0, 1},
		{"explicit", begin, after, 0, 1},
		{"explicit", statement, before, 0, 0},
		{"explicit", statement, middle, 0, 0},
		{"explicit", statement, after, 0, 0},
		{"explicit", commit, before, 0, 0},
		{"explicit", commit, middle, 0, 0},
		{"explicit", commit, after, 1, 0},
	} {
		// What was declared changes nothing: it might be trusted where an error claims
		// that its request was not sent.
		for _, oneRequest := range []bool{false, true} {
			name := row.form + " " + row.at.name + " " + names[row.do]
			if oneRequest {
				name += " one request"
			}
			t.Run(name, func(t *testing.T) {
				each(t, func(t *testing.T, w *world) {
					write := w.autocommit
					if row.form == "explicit" {
						write = w.explicit
					}
					tool, ref := w.plain(t, oneRequest, write), newRef()
					warm(t, tool)
					w.cutAt(row.at, ref, row.do)
					e := tool.Call(with(t.Context(), ref), order{"A1", 5})
					require.Equal(t, 1, w.wire.cuts())
					want := unknownTo(row.rows)
					if w.engine == pq && row.twice > 0 {
						want = seen{toolexec.Committed, toolexec.CodeOK, toolexec.NextContinue, row.twice}
					}
					assert.Equal(t, want, w.seen(t, e, ref), "%v", errors.Unwrap(e.Err()))
				})
			})
		}
	}
}

// TestPlainErrorsMean: "broken connections stay in doubt", whatever the tool
// says its own errors mean.
func TestPlainErrorsMean(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		x := &toolexec.Executor{Policy: once()}
		tool := toolexec.Bind(x, toolexec.Tool[order, receipt]{Name: "plain", Run: w.explicit, ErrorsMean: toolexec.EvidenceRejected})
		ref := newRef()
		warm(t, tool)
		w.cutAt(commit, ref, after)
		e := tool.Call(with(t.Context(), ref), order{"A1", 5})
		assert.Equal(t, unknownTo(1), w.seen(t, e, ref))
	})
}
