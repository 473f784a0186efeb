package mappingpage_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/internal/mappingpage"
)

const page = `# A page

| id | signal | code | write | why |
|---|---|---|---|---|
| ` + "`http-409`" + ` | ` + "`409` and `9`" + ` | CONFLICT | not_committed, escalate | it says so |
| ` + "`http-500`" + ` | 500 | ` + "`OUTCOME_UNKNOWN`" + ` | unknown, verify_operation | who knows |

| other | table |
|---|---|
| ` + "`http-600`" + ` | x |

| id | code |
|---|---|
| ` + "`go-dial`" + ` | DEPENDENCY_UNAVAILABLE |
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestRead(t *testing.T) {
	rows, err := mappingpage.Read(write(t, page))
	require.NoError(t, err)
	assert.Equal(t, []mappingpage.Row{
		{ID: "http-409", Codes: []string{"409", "9"}, Cells: map[string]string{"code": "CONFLICT", "write": "not_committed, escalate"}},
		{ID: "http-500", Cells: map[string]string{"code": "OUTCOME_UNKNOWN", "write": "unknown, verify_operation"}},
		{ID: "go-dial", Cells: map[string]string{"code": "DEPENDENCY_UNAVAILABLE"}},
	}, rows)

	_, err = mappingpage.Read(write(t, "| id | code |\n|---|---|\n| `go-x` |\n"))
	require.ErrorContains(t, err, "page.md:3: 1 cells under 2 columns")
	_, err = mappingpage.Read(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestMatch(t *testing.T) {
	path := write(t, page)
	both := map[string]int{"http-409": 1, "http-500": 2}
	rows, err := mappingpage.Match(path, "http", both)
	require.NoError(t, err)
	assert.Len(t, rows, 2)

	for want, cases := range map[string]map[string]int{
		"http-500 has no case of its own": {"http-409": 1},
		"http-410 has no row":             {"http-409": 1, "http-500": 2, "http-410": 3},
	} {
		_, err = mappingpage.Match(path, "http", cases)
		require.ErrorContains(t, err, want)
	}
	_, err = mappingpage.Match(path, "sql", map[string]int{})
	require.ErrorContains(t, err, "no row of sql-", "a page without the table is not a page that was checked")
	_, err = mappingpage.Match(write(t, page+"| `go-dial` | OK |\n"), "go", map[string]int{"go-dial": 1})
	require.ErrorContains(t, err, "go-dial has no case of its own", "an id is used once")
	_, err = mappingpage.Match("none", "go", both)
	require.Error(t, err)
}

func TestCells(t *testing.T) {
	column := func(name string, err error) mappingpage.Column[int] {
		x := toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}}
		env := toolexec.Bind(&x, toolexec.Tool[int, int]{
			Name: "tool", Run: func(context.Context, int) (int, error) { return 1, err },
		}).Call(t.Context(), 1)
		require.NoError(t, x.Close(t.Context()))
		return mappingpage.Column[int]{Name: name, Env: env}
	}
	assert.Equal(t, map[string]string{
		"code": "OUTCOME_UNKNOWN / CONFLICT / OK", "class": "transient / permanent / –", "category": "dependency / conflict / –",
		"lost": "unknown, verify_operation", "late": "unknown, verify_operation",
		"refused": "not_committed, escalate", "done": "committed, continue",
	}, mappingpage.Cells(
		column("lost", toolexec.InDoubt(nil)), column("late", toolexec.InDoubt(nil)),
		column("refused", toolexec.Rejected(toolexec.CodeConflict, nil)), column("done", nil)))
}
