package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolexec/toolexec"
)

// query is the text of a statement in the making, and its arguments.
type query struct {
	store *Store
	now   string
	args  []any
	where []string
}

func (s *Store) newQuery(now int64) *query {
	q := &query{store: s, now: s.dialect.now()}
	if s.dialect == SQLite {
		q.now = q.arg(now, "bigint")
	}
	return q
}

func (q *query) arg(v any, kind string) string {
	q.args = append(q.args, v)
	return q.store.dialect.placeholder(len(q.args), kind)
}

func (q *query) and(condition string) { q.where = append(q.where, condition) }

// text replaces {table}, {now} and {where}.
func (q *query) text(template string) string {
	return strings.NewReplacer(
		"{table}", q.store.dialect.quote(q.store.table),
		"{now}", q.now,
		"{where}", strings.ReplaceAll(strings.Join(q.where, " AND "), "{now}", q.now),
	).Replace(template)
}

// path is the index that a query is answered from. It is forced: a planner that
// guesses wrong walks a million records.
type path string

const (
	pathKey   path = "key"   // the order of the keys: all records
	pathDue   path = "due"   // those that fall due some time, by when
	pathLive  path = "live"  // those that are not committed or unheard of, by fingerprint
	pathAlias path = "alias" // those that have an alias
)

// pathOf chooses the path that leaves the fewest records to look at.
func pathOf(q *toolexec.Query) path {
	live := q.Open || !q.DueBefore.IsZero() || len(q.States) > 0 && !slices.Contains(q.States, toolexec.StateCommitted)
	switch {
	case live && q.Fingerprint != (toolexec.Fingerprint{}):
		return pathLive
	case !q.DueBefore.IsZero():
		return pathDue
	case q.Alias != "":
		return pathAlias
	case live:
		return pathLive
	}
	return pathKey
}

// filter adds what q selects, its cursor and limit apart.
func (q *query) filter(f *toolexec.Query, by path) {
	q.and(alive)
	if len(f.States) > 0 {
		states := make([]string, len(f.States))
		for i, state := range f.States {
			states[i] = q.arg(string(state), "text")
		}
		q.and("state IN (" + strings.Join(states, ", ") + ")")
	}
	if f.Open {
		q.and("is_open = 1")
	}
	if f.Tool != "" {
		q.and("tool = " + q.arg(f.Tool, "text"))
	}
	if f.Scope != nil {
		q.and("scope = " + q.arg([]byte(*f.Scope), "bytea"))
	}
	if f.Alias != "" {
		q.and("alias = " + q.arg([]byte(f.Alias), "bytea"))
	}
	hasPrint := f.Fingerprint != toolexec.Fingerprint{}
	switch {
	case by == pathLive && hasPrint:
		q.and("live_print = " + q.arg(printOf(f.Fingerprint), "bytea"))
	case by == pathLive:
		q.and("live_print IS NOT NULL")
	case hasPrint:
		q.and("fingerprint = " + q.arg(printOf(f.Fingerprint), "bytea"))
	}
	switch {
	case relative(f.DueBefore):
		q.and("due_at < " + q.arg(offset(f.DueBefore).Microseconds(), "bigint") + " + {now}")
	case !f.DueBefore.IsZero():
		q.and("due_at < " + q.arg(f.DueBefore.Time().UnixMicro(), "bigint"))
	}
}

// after adds where a page begins.
func (q *query) after(k toolexec.Key) {
	if k == (toolexec.Key{}) {
		return
	}
	bind := func() (scope, ref string) { return q.arg([]byte(k.Scope), "bytea"), q.arg([]byte(k.Ref), "bytea") }
	if q.store.dialect != MySQL {
		scope, ref := bind()
		q.and("(scope, ref) > (" + scope + ", " + ref + ")")
		return
	}
	// MySQL does not look up rows of values in an index.
	from := q.arg([]byte(k.Scope), "bytea")
	scope, ref := bind()
	q.and("scope >= " + from + " AND (scope > " + scope + " OR ref > " + ref + ")")
}

// from is the table, read by a path.
func (q *query) from(by path) string {
	index := q.store.dialect.quote(q.store.indexName(by))
	switch {
	case q.store.dialect == SQLite:
		return "{table} INDEXED BY " + index
	case q.store.dialect == MySQL && by == pathKey:
		return "{table} FORCE INDEX (PRIMARY)"
	case q.store.dialect == MySQL:
		return "{table} FORCE INDEX (" + index + ")"
	}
	return "{table}"
}

// listText is the text of a page. PostgreSQL takes no hint, but it does not move
// a condition over OFFSET 0, so it cannot walk all keys in their order instead.
func (q *query) listText(by path, limit int) string {
	page := " ORDER BY scope, ref LIMIT " + strconv.Itoa(limit)
	body := " FROM " + q.from(by) + " WHERE {where}"
	if q.store.dialect == PostgreSQL && by != pathKey {
		return q.text("SELECT * FROM (SELECT " + rowColumns(false) + body + " OFFSET 0) AS found" + page)
	}
	return q.text("SELECT " + rowColumns(false) + body + page)
}

// List implements [toolexec.Store]. Bodies are left out. A query with DueBefore,
// with Open, for states other than committed or for an alias asks an index, and
// each page of it costs what there is of those; other queries walk the records in
// the order of their keys until the page is full.
func (s *Store) List(ctx context.Context, q toolexec.Query) (page []toolexec.Record, next toolexec.Cursor, err error) {
	if err := s.usable(ctx); err != nil {
		return nil, toolexec.Cursor{}, err
	}
	by, limit := pathOf(&q), q.PageSize()
	sq := s.newQuery(time.Now().UnixMicro())
	sq.filter(&q, by)
	sq.after(q.After.Key)
	page, err = s.records(ctx, sq.listText(by, limit+1), sq.args)
	if err != nil {
		return nil, toolexec.Cursor{}, s.explain(ctx, "listing records", err)
	}
	if len(page) > limit {
		page = page[:limit]
		next.Key = page[limit-1].Key
	}
	return page, next, nil
}

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (s *Store) records(ctx context.Context, text string, args []any) ([]toolexec.Record, error) {
	if s.dialect != SQLite {
		return collect(ctx, s.db, text, args)
	}
	c, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	defer release(c)
	return collect(ctx, c, text, args)
}

func collect(ctx context.Context, on querier, text string, args []any) (found []toolexec.Record, err error) {
	rows, err := on.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var w row
		if err := w.scan(rows.Scan); err != nil {
			return nil, err
		}
		r, err := w.decode()
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, rows.Err()
}

// Claim implements [toolexec.Claimer]. With DueBefore it claims what has been due
// longest, at the cost of what it returns.
func (s *Store) Claim(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	var claimed []toolexec.Record
	claim := func(ctx context.Context, tx querier, now int64) (err error) {
		claimed, err = s.claim(ctx, tx, q, d, now)
		return err
	}
	var err error
	switch s.dialect {
	case SQLite:
		_, err = s.group.add(&item{ctx: ctx, do: func(ctx context.Context, tx *transaction) error { return claim(ctx, tx, tx.now) }})
	case MySQL:
		err = s.repeated(ctx, claim)
	default:
		err = claim(ctx, s.db, 0)
	}
	if err != nil {
		return nil, s.explain(ctx, "claiming records", err)
	}
	return claimed, nil
}

func (s *Store) claim(ctx context.Context, on querier, q toolexec.Query, d time.Duration, now int64) ([]toolexec.Record, error) {
	by := pathOf(&q)
	sq := s.newQuery(now)
	sq.filter(&q, by)
	sq.and("(claimed_until IS NULL OR claimed_until <= {now})")
	order := " ORDER BY scope, ref"
	if by == pathDue {
		order = " ORDER BY due_at"
	}
	pick := " FROM " + sq.from(by) + " WHERE {where}" + order + " LIMIT " + strconv.Itoa(q.PageSize())
	until := "UPDATE {table} SET claimed_until = {now} + "
	switch s.dialect {
	case SQLite:
		until += sq.arg(d.Microseconds(), "bigint")
		return collect(ctx, on, sq.text(until+" WHERE rowid IN (SELECT rowid"+pick+") RETURNING "+rowColumns(false)), sq.args)
	case PostgreSQL:
		until += sq.arg(d.Microseconds(), "bigint")
		return collect(ctx, on, sq.text("WITH picked AS (SELECT scope AS its_scope, ref AS its_ref"+pick+" FOR UPDATE SKIP LOCKED) "+
			until+" FROM picked WHERE scope = its_scope AND ref = its_ref RETURNING "+rowColumns(false)), sq.args)
	}
	picked, err := collect(ctx, on, sq.text("SELECT "+rowColumns(false)+pick+" FOR UPDATE SKIP LOCKED"), sq.args)
	if err != nil || len(picked) == 0 {
		return nil, err
	}
	sq = s.newQuery(now)
	until += sq.arg(d.Microseconds(), "bigint") + " WHERE " + sq.keys(picked)
	_, err = on.ExecContext(ctx, sq.text(until), sq.args...)
	return picked, err
}

// keys selects the records by their keys.
func (q *query) keys(records []toolexec.Record) string {
	pairs := make([]string, len(records))
	for i, r := range records {
		pairs[i] = "(" + q.arg([]byte(r.Scope), "bytea") + ", " + q.arg([]byte(r.Ref), "bytea") + ")"
	}
	return "(scope, ref) IN (" + strings.Join(pairs, ", ") + ")"
}

// repeated does something in a transaction of its own, again if it was undone in
// favour of another.
func (s *Store) repeated(ctx context.Context, do func(context.Context, querier, int64) error) error {
	for try := 0; ; try++ {
		err := s.once(ctx, do)
		if err == nil || !s.inTheWay(err) || try == maxRepeats {
			return err
		}
	}
}

func (s *Store) once(ctx context.Context, do func(context.Context, querier, int64) error) error {
	// What is read must be what is there, and gaps need not be locked.
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(ctx, tx, 0); err != nil {
		return err
	}
	return tx.Commit()
}
