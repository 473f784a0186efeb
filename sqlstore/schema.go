package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// migration takes the schema from the version before to its own. On MySQL,
// where each statement that changes a schema commits, one that was interrupted
// is begun again, so its statements must be harmless when they are repeated.
type migration struct {
	version    int
	statements func(d Dialect, table string) []string
}

// migrations are all there ever were, in order. A new one is added at the end,
// and those before it stay as they are.
var migrations = []migration{{1, createTable}}

func (s *Store) migrationsTable() string { return s.table + "_migrations" }

func (s *Store) indexName(p path) string { return s.table + "_" + string(p) }

// createTable makes version 1.
func createTable(d Dialect, table string) []string {
	key, text, big, long := "BLOB", "TEXT", "INTEGER", "BLOB"
	record, options := "TEXT", " STRICT"
	switch d {
	case PostgreSQL:
		key, text, big, long, record, options = "bytea", "text", "bigint", "bytea", "text", ""
	case MySQL:
		key, text, big, long = fmt.Sprintf("VARBINARY(%d)", maxKey), fmt.Sprintf("VARBINARY(%d)", maxName), "BIGINT", "LONGBLOB"
		record, options = "LONGBLOB", " ENGINE=InnoDB ROW_FORMAT=DYNAMIC"
	}
	sum := key
	if d == MySQL {
		sum = "VARBINARY(33)"
	}
	create := []string{
		"scope " + key + " NOT NULL",
		"ref " + key + " NOT NULL",
		"version " + big + " NOT NULL",
		"state " + text + " NOT NULL",
		"tool " + text + " NOT NULL",
		"alias " + key,
		"fingerprint " + sum + " NOT NULL",
		"live_print " + sum, // the fingerprint, while the record is not committed or unheard of
		"is_open " + big + " NOT NULL",
		"due_at " + big, // this moment and all others in microseconds since 1970
		"claimed_until " + big,
		"result_until " + big,
		"retain_until " + big,
		"prune_at " + big, // the earlier of the two, of what was not pruned yet
		"saved_at " + big + " NOT NULL",
		"record " + record + " NOT NULL",
		"arguments " + long,
		"result " + long,
	}
	indexes := []struct{ name, column, keys string }{
		{"due", "due_at", ", scope, ref"}, {"live", "live_print", ", scope, ref"}, {"alias", "alias", ", scope, ref"}, {"prune", "prune_at", ""},
	}
	if d == MySQL { // whose indexes hold the primary key anyway
		create = append(create, "PRIMARY KEY (scope, ref)")
		for _, x := range indexes {
			create = append(create, "INDEX "+d.quote(table+"_"+x.name)+" ("+x.column+")")
		}
		return []string{"CREATE TABLE IF NOT EXISTS " + d.quote(table) + " (" + strings.Join(create, ", ") + ")" + options}
	}
	statements := []string{
		"CREATE TABLE " + d.quote(table) + " (" + strings.Join(create, ", ") + ")" + options,
		// No primary key: records are large, and stay in the order in which they were
		// made, so that only this index is written here and there.
		"CREATE UNIQUE INDEX " + d.quote(table+"_key") + " ON " + d.quote(table) + " (scope, ref)",
	}
	for _, x := range indexes {
		statements = append(statements, "CREATE INDEX "+d.quote(table+"_"+x.name)+" ON "+d.quote(table)+
			" ("+x.column+x.keys+") WHERE "+x.column+" IS NOT NULL")
	}
	return statements
}

// migrate brings the schema to the last of migrations. What must not be touched
// is found by reading only.
func (s *Store) migrate(ctx context.Context) error {
	c, err := s.connection(ctx)
	if err != nil {
		return s.explain(ctx, "connecting", err)
	}
	defer release(c)
	if s.dialect == SQLite {
		if err := checkFile(ctx, c); err != nil {
			return s.explain(ctx, "opening the database", err)
		}
	}
	version, err := s.version(ctx, c)
	if err != nil {
		return err
	}
	if err := s.refuseNewer(version, migrations); err != nil {
		return err
	}
	if s.dialect == SQLite {
		if err := s.writeAhead(ctx, c); err != nil {
			return s.explain(ctx, "switching to WAL", err)
		}
	}
	return s.migrateOn(ctx, c, migrations)
}

func (s *Store) refuseNewer(version int, known []migration) error {
	if last := known[len(known)-1].version; version > last {
		return &explained{fmt.Sprintf("table %s has version %d, this program knows %d, and nothing was changed", s.table, version, last), ErrNewerSchema}
	}
	return nil
}

// version returns the version of the schema; 0 when there is none yet.
func (s *Store) version(ctx context.Context, on querier) (int, error) {
	const doing = "reading the version of the schema"
	there, err := s.exists(ctx, on, s.migrationsTable())
	if err != nil {
		return 0, s.explain(ctx, doing, err)
	}
	if !there {
		foreign, err := s.exists(ctx, on, s.table)
		if err != nil || !foreign {
			return 0, s.explain(ctx, doing, err)
		}
		// Perhaps another process has made both between the two questions.
		if there, err = s.exists(ctx, on, s.migrationsTable()); err != nil {
			return 0, s.explain(ctx, doing, err)
		}
		if !there {
			return 0, refuse("there is a table %s that this package did not make, or %s is missing; nothing was changed", s.table, s.migrationsTable())
		}
	}
	var version sql.NullInt64
	err = scanOne(ctx, on, &version, "SELECT MAX(version) FROM "+s.dialect.quote(s.migrationsTable()))
	if err == nil && version.Int64 > 0 {
		if there, err = s.exists(ctx, on, s.table); err == nil && !there {
			err = refuse("the table %s is missing, although %s says that it was made; it is not made anew", s.table, s.migrationsTable())
		}
	}
	return int(version.Int64), s.explain(ctx, doing, err)
}

// exists reports whether there is a table, in the schema that is in use.
func (s *Store) exists(ctx context.Context, on querier, table string) (bool, error) {
	text := "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?1"
	switch s.dialect {
	case PostgreSQL:
		// Not to_regclass, which does not see what was committed since this transaction
		// began.
		text = "SELECT COUNT(*) FROM pg_catalog.pg_tables WHERE schemaname = ANY(current_schemas(false)) AND tablename = $1::text"
	case MySQL:
		text = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
	}
	var n int
	err := scanOne(ctx, on, &n, text, table)
	return n > 0, err
}

func scanOne(ctx context.Context, on querier, to any, text string, args ...any) error {
	rows, err := on.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() {
		if err := rows.Scan(to); err != nil {
			return err
		}
	}
	return rows.Err()
}

// lockWait is how long MySQL waits for another process that migrates.
const lockWait = 60

// migrateOn applies what is missing on one connection, while no other process
// does.
func (s *Store) migrateOn(ctx context.Context, c *sql.Conn, all []migration) error {
	name := "toolexec " + s.table
	begin, end, undo := "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"
	switch s.dialect {
	case PostgreSQL:
		begin = "BEGIN"
	case MySQL:
		begin, end, undo = "DO 0", "DO 0", "DO 0"
		if err := s.lockMySQL(ctx, c, name); err != nil {
			return err
		}
		defer func() {
			_, _ = c.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(LEFT(CONCAT(DATABASE(), ' ', ?), 64))", name)
		}()
	}
	if _, err := c.ExecContext(ctx, begin); err != nil {
		return s.explain(ctx, "migrating", err)
	}
	err := s.applyMissing(ctx, c, all, name)
	if err == nil {
		_, err = c.ExecContext(ctx, end)
	}
	if err != nil {
		_, _ = c.ExecContext(context.WithoutCancel(ctx), undo)
		return s.explain(ctx, "migrating", err)
	}
	return nil
}

func (s *Store) lockMySQL(ctx context.Context, c *sql.Conn, name string) error {
	var got sql.NullInt64
	err := scanOne(ctx, c, &got, fmt.Sprintf("SELECT GET_LOCK(LEFT(CONCAT(DATABASE(), ' ', ?), 64), %d)", lockWait), name)
	if err == nil && got.Int64 != 1 {
		err = refuse("another process has been migrating for %d s", lockWait)
	}
	return s.explain(ctx, "migrating", err)
}

func (s *Store) applyMissing(ctx context.Context, c *sql.Conn, all []migration, name string) error {
	if s.dialect == PostgreSQL {
		if _, err := c.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext($1::text))", name); err != nil {
			return err
		}
	}
	version, err := s.version(ctx, c)
	if err != nil {
		return err
	}
	// Again, now that nobody else can change it.
	if err := s.refuseNewer(version, all); err != nil {
		return err
	}
	big := "BIGINT"
	if s.dialect == SQLite {
		big = "INTEGER"
	}
	history := s.dialect.quote(s.migrationsTable())
	if version == 0 {
		if _, err := c.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+history+" (version "+big+" NOT NULL PRIMARY KEY, applied_at "+big+" NOT NULL)"); err != nil {
			return err
		}
	}
	for _, m := range all {
		if m.version <= version {
			continue
		}
		for _, statement := range m.statements(s.dialect, s.table) {
			if _, err := c.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("to version %d: %w", m.version, err)
			}
		}
		if err := s.recordMigration(ctx, c, history, m.version); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) recordMigration(ctx context.Context, c *sql.Conn, history string, version int) error {
	now := s.dialect.now()
	if s.dialect == SQLite {
		now = strconv.FormatInt(time.Now().UnixMicro(), 10)
	}
	_, err := c.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (version, applied_at) VALUES (%d, %s)", history, version, now))
	return err
}
