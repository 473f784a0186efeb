package sqlstore

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"github.com/toolexec/toolexec"
)

// pruneBatch is how many records one statement of Prune touches, so that no
// Save waits long for it.
const pruneBatch = 500

// Prune implements [toolexec.Pruner]. Results go first: all that have expired,
// whatever the limit, in batches like the records.
func (s *Store) Prune(ctx context.Context, limit int) (deleted int, err error) {
	if err := s.usable(ctx); err != nil || limit <= 0 {
		return 0, err
	}
	for n := pruneBatch; n == pruneBatch; {
		if n, err = s.pruneSome(ctx, s.dropResults, pruneBatch); err != nil {
			return 0, err
		}
	}
	for deleted < limit {
		batch := min(limit-deleted, pruneBatch)
		n, err := s.pruneSome(ctx, s.deleteFacts, batch)
		deleted += n
		if err != nil || n < batch {
			return deleted, err
		}
	}
	return deleted, nil
}

// pruneSome does one batch, in a transaction of its own.
func (s *Store) pruneSome(ctx context.Context, do func(context.Context, querier, int64, int) (int, error), limit int) (n int, err error) {
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	batch := func(ctx context.Context, on querier, now int64) (err error) {
		n, err = do(ctx, on, now, limit)
		return err
	}
	if s.dialect == SQLite {
		_, err = s.group.add(&item{ctx: ctx, do: func(ctx context.Context, tx *transaction) error { return batch(ctx, tx, tx.now) }})
	} else {
		err = s.repeated(ctx, batch)
	}
	if err != nil {
		return 0, s.explain(ctx, "pruning", err)
	}
	return n, nil
}

// dropResults forgets results whose records stay. What is then left at the
// beginning of the index is records to delete.
func (s *Store) dropResults(ctx context.Context, on querier, now int64, limit int) (int, error) {
	q := s.newQuery(now)
	q.and("prune_at <= {now}")
	q.and(alive)
	return q.change(ctx, on, "UPDATE {table} SET result = NULL, prune_at = retain_until", limit)
}

func (s *Store) deleteFacts(ctx context.Context, on querier, now int64, limit int) (int, error) {
	q := s.newQuery(now)
	q.and("prune_at <= {now}")
	q.and(dead)
	return q.change(ctx, on, "DELETE FROM {table}", limit)
}

// change applies a statement to at most limit of the records that q selects, in
// the order in which they expired.
func (q *query) change(ctx context.Context, on querier, statement string, limit int) (int, error) {
	d := q.store.dialect
	some := " WHERE {where} ORDER BY prune_at LIMIT " + strconv.Itoa(limit)
	index := d.quote(q.store.indexName("prune"))
	var text string
	switch d {
	case SQLite:
		text = statement + " WHERE rowid IN (SELECT rowid FROM {table} INDEXED BY " + index + some + ")"
	case PostgreSQL:
		// The rows are locked, so their places do not change. The condition is asked
		// again of a row that another transaction has just changed.
		text = statement + " WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table}" + some + " FOR UPDATE SKIP LOCKED))"
	default:
		text = statement + some
	}
	result, err := on.ExecContext(ctx, q.text(text), q.args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// Stats implements [toolexec.Stats]. It walks all records.
func (s *Store) Stats(ctx context.Context) (map[toolexec.State]int, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	counts := make(map[toolexec.State]int)
	if err := s.count(ctx, counts); err != nil {
		return nil, s.explain(ctx, "counting records", err)
	}
	return counts, nil
}

func (s *Store) count(ctx context.Context, counts map[toolexec.State]int) error {
	c, err := s.connection(ctx)
	if err != nil {
		return err
	}
	defer release(c)
	q := s.newQuery(time.Now().UnixMicro())
	q.and(alive)
	rows, err := c.QueryContext(ctx, q.text("SELECT state, COUNT(*) FROM {table} WHERE {where} GROUP BY state"), q.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return scanCounts(rows, counts)
}

func scanCounts(rows *sql.Rows, counts map[toolexec.State]int) error {
	for rows.Next() {
		var state string
		var n int
		if err := rows.Scan(&state, &n); err != nil {
			return err
		}
		counts[toolexec.State(state)] = n
	}
	return rows.Err()
}
