package sqltool_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/internal/mappingpage"
	"github.com/toolexec/toolexec/sqltool"
)

// mappingCase is a write of this package's that meets a row's signal.
type mappingCase struct {
	fail     map[string]error // of a statement, by its first word
	write    sqltool.Func[in, out]
	before   *in           // of a call of the same ref that is done already
	deadline time.Duration // of the attempt
}

// errMappingLost is a connection that is gone.
var errMappingLost = driver.ErrBadConn

// mappingCases are the signals of the rows of this package.
var mappingCases = map[string][]mappingCase{
	"sqltool-before-commit": {
		{fail: map[string]error{"CONNECT": io.EOF}},
		{fail: map[string]error{"BEGIN": io.EOF}},
		{fail: map[string]error{"INSERT": io.EOF, "ROLLBACK": errMappingLost}},
		{fail: map[string]error{"UPDATE": errMappingLost, "ROLLBACK": errMappingLost}},
	},
	"sqltool-late": {{write: mappingLate, deadline: time.Millisecond}},
	"sqltool-statement": {
		{fail: map[string]error{"INSERT": pgError("57P01")}},
		{fail: map[string]error{"UPDATE": pgError("08006")}},
	},
	"sqltool-commit-refused": {{fail: map[string]error{"COMMIT": pgError("40001")}}},
	"sqltool-commit-constraint": {
		{fail: map[string]error{"COMMIT": pgError("23503")}},
	},
	"sqltool-commit-done": {
		{fail: map[string]error{"COMMIT": errMappingLost}},
		{fail: map[string]error{"COMMIT": pgError("57P01")}},
		{fail: map[string]error{"COMMIT": errors.New("no")}},
	},
	"sqltool-commit-unknown": {{fail: map[string]error{"COMMIT": errMappingLost, "SELECT": errMappingLost}}},
	"sqltool-ended":          {{write: mappingEnds, fail: map[string]error{"SELECT": errMappingLost}}},
	"sqltool-done":           {{before: &in{ID: "a"}}},
	"sqltool-reused":         {{before: &in{ID: "b"}}},
	"sqltool-panic":          {{write: func(context.Context, *sql.Tx, in) (out, error) { panic("no") }}},
}

// mappingLate runs into the attempt's deadline.
func mappingLate(ctx context.Context, _ *sql.Tx, _ in) (out, error) {
	<-ctx.Done()
	return out{}, ctx.Err()
}

// mappingEnds ends the transaction, which it must not.
func mappingEnds(_ context.Context, tx *sql.Tx, _ in) (out, error) {
	return out{}, errors.Join(tx.Commit(), errors.New("no"))
}

// TestMapping runs the rows of this package.
func TestMapping(t *testing.T) {
	rows, err := mappingpage.Match("../docs/mapping.md", "sqltool", mappingCases)
	require.NoError(t, err)
	for _, row := range rows {
		for _, c := range mappingCases[row.ID] {
			t.Run(row.ID, func(t *testing.T) { assert.Equal(t, row.Cells, c.cells(t)) })
		}
	}
}

func (c mappingCase) cells(t *testing.T) map[string]string {
	t.Helper()
	f := new(fake)
	w := sqltool.Writer{DB: f.db(), Dialect: sqltool.PostgreSQL}
	if c.before != nil {
		require.True(t, bind(w, ok).Call(ref(t.Context()), *c.before).OK)
	}
	f.fail = c.fail
	if c.write == nil {
		c.write = ok
	}
	x := &toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1, Deadline: c.deadline}}
	env := toolexec.Bind(x, sqltool.Tool(w, c.write, toolexec.Tool[in, out]{Name: "t"})).Call(ref(t.Context()), in{ID: "a"})
	require.NoError(t, x.Close(t.Context()))
	return mappingpage.Cells(mappingpage.Column[out]{Name: "write", Env: env})
}
