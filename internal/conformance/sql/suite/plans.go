package suite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

// plans: what a supervisor and a call without a ref ask is answered from an
// index, also where most records are committed.
func plans(t *testing.T, e Engine) {
	db, spy := e.New(t).Spy(t)
	s := e.OpenOn(t, db, sqlstore.Options{})
	if e.Dialect == sqlstore.PostgreSQL {
		t.Run("a group", func(t *testing.T) { planOfGroup(t, e, db, spy) })
	}
	fill(t, e, db, s, 5000)
	if e.Dialect != sqlstore.PostgreSQL { // which takes no hints, and has to know the table
		plansOf(t, e, db, spy, s)
	}
	e.analyse(t, db)
	plansOf(t, e, db, spy, s)
}

func plansOf(t *testing.T, e Engine, db *sql.DB, spy *Spy, s *sqlstore.Store) {
	t.Helper()
	fingerprint := toolexec.Fingerprint{Rule: 1}
	for _, tt := range []struct {
		name  string
		q     toolexec.Query
		index string
	}{
		{"due", toolexec.Query{DueBefore: toolexec.In(0)}, "_due"},
		{"due, next page", toolexec.Query{DueBefore: toolexec.At(time.Now()), After: toolexec.Cursor{Key: toolexec.Key{Ref: "a"}}}, "_due"},
		{"due, of a state", toolexec.Query{DueBefore: toolexec.In(0), States: []toolexec.State{toolexec.StateUnknown}}, "_due"},
		{"open, of a fingerprint", toolexec.Query{Open: true, Fingerprint: fingerprint, Scope: new("tenant"), Tool: "tool", Limit: 1}, "_live"},
		{"open", toolexec.Query{Open: true}, "_live"},
		{"states", toolexec.Query{States: []toolexec.State{toolexec.StateEscalated}}, "_live"},
		{"alias", toolexec.Query{Alias: "alias"}, "_alias"},
		{"all", toolexec.Query{}, "_key"},
		{"all, next page", toolexec.Query{After: toolexec.Cursor{Key: toolexec.Key{Scope: "tenant", Ref: "a"}}}, "_key"},
		{"committed", toolexec.Query{States: []toolexec.State{toolexec.StateCommitted}, Tool: "tool"}, "_key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spy.Take()
			_, _, err := s.List(t.Context(), tt.q)
			require.NoError(t, err)
			seen := spy.Take()
			plan := explain(t, e, db, seen[len(seen)-1].Text, seen[len(seen)-1].Args)
			index := tt.index
			if e.Dialect == sqlstore.MySQL && index == "_key" {
				index = "PRIMARY"
			}
			assert.Contains(t, plan, index, plan)
			if e.Dialect == sqlstore.PostgreSQL {
				assert.NotContains(t, plan, "Seq Scan", plan)
			}
		})
	}
}

// planOfGroup: a group looks its records up, also where the plan was made when
// there were none.
func planOfGroup(t *testing.T, e Engine, db *sql.DB, spy *Spy) {
	t.Helper()
	texts := spy.Prepared()
	at := slices.IndexFunc(texts, func(text string) bool { return strings.Contains(text, "unnest") })
	require.GreaterOrEqual(t, at, 0)
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer c.Close()
	exec(t, c, "SET plan_cache_mode = force_generic_plan", "PREPARE a_group AS "+texts[at])
	params := strings.Repeat(", NULL", strings.Count(texts[at], "$"))[2:]
	plan := explain(t, e, c, "EXECUTE a_group ("+params+")", nil)
	exec(t, c, "DEALLOCATE a_group", "RESET plan_cache_mode")
	assert.Contains(t, plan, "Index Scan using "+Table+"_key", plan)
	assert.NotContains(t, plan, "Seq Scan", plan)
}

// analyse has the server look at what is in the table, as it does by itself now
// and then.
func (e Engine) analyse(t testing.TB, db *sql.DB) {
	t.Helper()
	switch e.Dialect {
	case sqlstore.MySQL:
		exec(t, db, "ANALYZE TABLE "+Table)
	default:
		exec(t, db, "ANALYZE "+Table)
	}
}

func explain(t *testing.T, e Engine, on interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}, text string, args []any) string {
	how := "EXPLAIN "
	if e.Dialect == sqlstore.SQLite {
		how = "EXPLAIN QUERY PLAN "
	}
	rows, err := on.QueryContext(context.WithoutCancel(t.Context()), how+text, args...)
	require.NoError(t, err)
	defer rows.Close()
	names, err := rows.Columns()
	require.NoError(t, err)
	var b strings.Builder
	for rows.Next() {
		cells, to := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range cells {
			to[i] = &cells[i]
		}
		require.NoError(t, rows.Scan(to...))
		for i := range cells {
			if names[i] != "possible_keys" {
				fmt.Fprint(&b, cells[i].String, " ")
			}
		}
		b.WriteByte('\n')
	}
	require.NoError(t, rows.Err())
	return b.String()
}
