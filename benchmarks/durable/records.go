package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/toolexec/toolexec/sqlstore"
)

// The curve over records: the same writes beside a table that holds committed
// operations already.

const (
	fewest       = 1_000
	curveCallers = 16
)

func counts(most int) []int {
	var out []int
	for n := fewest; n <= most; n *= 10 {
		out = append(out, n)
	}
	return out
}

func withRecords(n int) string { return fmt.Sprintf("%d records", n) }

// measureCurve measures writes of curveCallers, in turn on a table of each size.
func (c *contest) measureCurve(ctx context.Context, o Options, at placer) error {
	var end cleanups
	defer end.run()
	at = at.until(&end)
	c.curve = counts(o.Records)
	var paths []path
	for _, n := range c.curve {
		d, err := at(fmt.Sprintf("records%d.db", n))
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(o.Progress, "%s, %d records\n", c.title, n)
		db, err := d.pool(&end)
		if err != nil {
			return err
		}
		db.SetMaxOpenConns(curveCallers)
		s, err := openStore(ctx, db, d, &end)
		if err != nil {
			return err
		}
		if err := fill(ctx, db, d.dialect, saves(s), n); err != nil {
			return err
		}
		paths = append(paths, path{name: withRecords(n), do: write(s)})
	}
	for range o.Passes {
		for _, p := range paths {
			s, err := rate(ctx, p.do, curveCallers, o.Window)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			c.got.Add(p.name, s)
		}
	}
	return nil
}

const table = "toolexec_operations"

// fill has the store hold n operations: one of its own, and copies of it under
// other refs.
func fill(ctx context.Context, db *sql.DB, d sqlstore.Dialect, do operation, n int) error {
	if err := do(ctx, "op_template"); err != nil {
		return err
	}
	columns, err := columnsOf(ctx, db)
	if err != nil {
		return err
	}
	// Refs spread over the index, as those of rate do.
	series, from := fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", n-1), "n"
	ref := "CAST(printf('op_%08x', (n.i * 2654435761) & 4294967295) AS BLOB)"
	if d == sqlstore.PostgreSQL {
		series, from = "", fmt.Sprintf("generate_series(1, %d) AS n(i)", n-1)
		ref = "convert_to('op_' || lpad(to_hex((n.i * 2654435761::bigint) & 4294967295), 8, '0'), 'UTF8')"
	}
	values := make([]string, len(columns))
	for i, column := range columns {
		if values[i] = "t." + column; column == "ref" {
			values[i] = ref
		}
	}
	statement := "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") " + series + "SELECT " + strings.Join(values, ", ") +
		" FROM (SELECT * FROM " + table + " LIMIT 1) AS t, " + from
	for _, q := range []string{statement, "ANALYZE"} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func columnsOf(ctx context.Context, db *sql.DB) ([]string, error) {
	rows, err := db.QueryContext(ctx, "SELECT * FROM "+table+" LIMIT 1")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	return names, errors.Join(err, rows.Err())
}
