package sqltool

import (
	"regexp"
	"strings"
)

// Dialect names a kind of database. The zero value is none, and is refused.
type Dialect string

// The databases that a Writer can write to.
const (
	PostgreSQL Dialect = "postgresql" // 12 or newer
	MySQL      Dialect = "mysql"      // 8.0, or MariaDB 10.6, or newer, with InnoDB
)

// queries are the statements of one Writer.
type queries struct {
	create []string
	insert string // scope, ref, digest
	find   string // scope, ref
	fill   string // has_result, result, scope, ref
	prune  string // microseconds, limit

	probeWait string // before probe, "" for none
	probe     string // scope, ref, and for an INSERT the digest
}

// tableName may carry a schema.
var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,47}(\.[A-Za-z_][A-Za-z0-9_]{0,47})?$`)

// Refs are of letters, digits and ._:/@- only, so text is fine in PostgreSQL.
// MySQL compares text by a collation that may fold case, so there they are
// bytes.
//
// Results are bytes: a database in another encoding than UTF-8 refuses some
// texts, and the write would fail for ever.
var dialects = map[Dialect]queries{
	PostgreSQL: {
		create: []string{
			`CREATE TABLE IF NOT EXISTS {table} (
	scope text COLLATE "C" NOT NULL,
	ref text COLLATE "C" NOT NULL,
	digest bytea NOT NULL,
	has_result smallint,
	result bytea,
	created_at timestamptz NOT NULL,
	PRIMARY KEY (scope, ref)
)`,
			`CREATE INDEX IF NOT EXISTS {index} ON {table} (created_at)`,
		},
		// DO NOTHING waits for an open transaction that holds the key, like the
		// INSERT without it, but does not fail the transaction when it finds a row.
		insert: `INSERT INTO {table} (scope, ref, digest, created_at) VALUES ($1, $2, $3, clock_timestamp()) ON CONFLICT (scope, ref) DO NOTHING`,
		find:   `SELECT digest, has_result, result FROM {table} WHERE scope = $1 AND ref = $2`,
		fill:   `UPDATE {table} SET has_result = $1, result = $2 WHERE scope = $3 AND ref = $4`,
		prune: `DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table}
	WHERE created_at < clock_timestamp() - CAST($1 AS double precision) * interval '1 microsecond'
	ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED))`,
		probeWait: `SET LOCAL lock_timeout = '50ms'`,
		probe:     `INSERT INTO {table} (scope, ref, digest, created_at) VALUES ($1, $2, $3, clock_timestamp()) ON CONFLICT (scope, ref) DO NOTHING`,
	},
	MySQL: {
		create: []string{"CREATE TABLE IF NOT EXISTS {table} (" + `
	scope VARBINARY(250) NOT NULL,
	ref VARBINARY(200) NOT NULL,
	digest VARBINARY(32) NOT NULL,
	has_result TINYINT,
	result LONGBLOB,
	created_at DATETIME(6) NOT NULL,
	PRIMARY KEY (scope, ref),
	INDEX {index} (created_at)
) ENGINE=InnoDB`},
		// Not INSERT IGNORE, which also cuts a key that is too long, nor ON DUPLICATE
		// KEY UPDATE, whose count of rows depends on a flag of the connection.
		insert: `INSERT INTO {table} (scope, ref, digest, created_at) VALUES (?, ?, ?, UTC_TIMESTAMP(6))`,
		find:   `SELECT digest, has_result, result FROM {table} WHERE scope = ? AND ref = ?`,
		fill:   `UPDATE {table} SET has_result = ?, result = ? WHERE scope = ? AND ref = ?`,
		prune:  `DELETE FROM {table} WHERE created_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND ORDER BY created_at LIMIT ?`,
		probe:  `SELECT digest, has_result, result FROM {table} WHERE scope = ? AND ref = ? FOR UPDATE NOWAIT`,
	},
}

// of fills in the table's name.
func (q queries) of(d Dialect, table string) queries {
	mark := `"`
	if d == MySQL {
		mark = "`"
	}
	quote := func(name string) string { return mark + strings.ReplaceAll(name, ".", mark+"."+mark) + mark }
	index := table[strings.IndexByte(table, '.')+1:] + "_created"
	fill := strings.NewReplacer("{table}", quote(table), "{index}", quote(index)).Replace
	out := queries{
		insert: fill(q.insert), find: fill(q.find), fill: fill(q.fill), prune: fill(q.prune),
		probeWait: q.probeWait, probe: fill(q.probe),
	}
	for _, c := range q.create {
		out.create = append(out.create, fill(c))
	}
	return out
}
