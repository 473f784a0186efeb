package sqltool_test

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"testing"

	"github.com/go-sql-driver/mysql"
	pgxv5 "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	libpq "github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/internal/mappingpage"
)

const mappingPath = "../../../docs/mapping.md"

// mappingErrs are the errors of drivers that the rows are about. They need no
// server: what a server makes of them is tested beside this file.
func mappingErrs(t *testing.T) map[string][]error {
	t.Helper()
	return map[string][]error{
		"driver-connect":       {mappingDial(t, "pgx"), mappingDial(t, "postgres"), mappingDial(t, "mysql")},
		"driver-state":         {&pgconn.PgError{Code: "40001"}, &libpq.Error{Code: "40001"}},
		"driver-pgx-rollback":  {pgxv5.ErrTxCommitRollback},
		"driver-pgx-no-rows":   {pgxv5.ErrNoRows},
		"driver-mysql-invalid": {mysql.ErrInvalidConn, mysql.ErrMalformPkt, mysql.ErrPktSync, mysql.ErrPktSyncMul},
	}
}

// mappingDial is what a driver says of an address where nobody listens.
func mappingDial(t *testing.T, driver string) error {
	t.Helper()
	dsn := "postgres://postgres@127.0.0.1:1/test?sslmode=disable"
	if driver == "mysql" {
		dsn = "root@tcp(127.0.0.1:1)/test"
	}
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	err = db.PingContext(t.Context())
	require.Error(t, err)
	return err
}

// TestMappingDrivers runs the rows of the drivers' own errors.
func TestMappingDrivers(t *testing.T) {
	cases := mappingErrs(t)
	rows, err := mappingpage.Match(mappingPath, "driver", cases)
	require.NoError(t, err)
	for _, row := range rows {
		for _, err := range cases[row.ID] {
			t.Run(fmt.Sprintf("%s %T", row.ID, err), func(t *testing.T) { assert.Equal(t, row.Cells, mappingCells(t, err)) })
		}
	}
}

// TestMappingNumbers runs the rows of the errors of MySQL: each number that a row
// names.
func TestMappingNumbers(t *testing.T) {
	rows, err := mappingpage.Of(mappingPath, "mysql")
	require.NoError(t, err)
	for _, row := range rows {
		t.Run(row.ID, func(t *testing.T) {
			require.NotEmpty(t, row.Codes, "a row says in its signal what it is about")
			for _, code := range row.Codes {
				n, err := strconv.ParseUint(code, 10, 16)
				require.NoError(t, err)
				assert.Equal(t, row.Cells, mappingCells(t, &mysql.MySQLError{Number: uint16(n)}), code)
			}
		})
	}
}

// mappingCells runs a tool that returns err, bare and wrapped, as a write, as one
// that declares OneRequest, and as a read.
func mappingCells(t *testing.T, err error) map[string]string {
	t.Helper()
	call := func(name string, tool toolexec.Tool[int, string], err error) mappingpage.Column[string] {
		x := toolexec.Executor{Policy: once()}
		tool.Name = "tool"
		tool.Run = func(context.Context, int) (string, error) { return "done", err }
		env := toolexec.Bind(&x, tool).Call(t.Context(), 1)
		require.NoError(t, x.Close(t.Context()))
		return mappingpage.Column[string]{Name: name, Env: env}
	}
	cells := func(err error) map[string]string {
		return mappingpage.Cells(
			call("write", toolexec.Tool[int, string]{}, err),
			call("write, OneRequest", toolexec.Tool[int, string]{OneRequest: true}, err),
			call("read", toolexec.Tool[int, string]{Effect: toolexec.ReadOnly}, err))
	}
	assert.Equal(t, cells(err), cells(fmt.Errorf("refunding: %w", err)), "wrapped")
	return cells(err)
}
