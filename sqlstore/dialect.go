package sqlstore

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Dialect names a kind of database. The zero value is none, and Open refuses
// it.
type Dialect string

// The databases that a Store can be kept in.
const (
	SQLite     Dialect = "sqlite"     // 3.37 or newer, in a file
	PostgreSQL Dialect = "postgresql" // 12 or newer
	MySQL      Dialect = "mysql"      // 8.0, or MariaDB 10.6, or newer, with InnoDB
)

func (d Dialect) check() error {
	switch d {
	case SQLite, PostgreSQL, MySQL:
		return nil
	}
	return refuse("no such dialect: %q; it is one of %q, %q and %q", string(d), SQLite, PostgreSQL, MySQL)
}

// now is the database's clock in microseconds since 1970; the same all through
// one statement.
func (d Dialect) now() string {
	switch d {
	case PostgreSQL:
		return "CAST(date_part('epoch', statement_timestamp()) * 1000000 AS bigint)"
	case MySQL:
		return "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"
	}
	return ":now" // the clock of this machine, which is what SQLite would ask
}

func (d Dialect) quote(name string) string {
	if d == MySQL {
		return "`" + name + "`"
	}
	return `"` + name + `"`
}

// tableName is what Options.Table may be: it leaves room for the suffixes of
// indexes in the 63 bytes of PostgreSQL.
var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,39}$`)

// param is a value of a record that a statement stores.
type param int

const (
	paramNow param = iota // SQLite only
	paramScope
	paramRef
	paramVersion
	paramState
	paramTool
	paramAlias
	paramFingerprint
	paramLive
	paramOpen
	paramDue
	paramDueRelative
	paramResult
	paramRetain
	paramFloor
	paramPrune
	paramRecord
	paramSetArguments
	paramArguments
	paramSetResult
	paramResultBody
	numParams
)

// params says what each is called in a template, and its type in PostgreSQL.
var params = [numParams]struct{ name, kind string }{
	paramNow:          {"now", "bigint"},
	paramScope:        {"scope", "bytea"},
	paramRef:          {"ref", "bytea"},
	paramVersion:      {"version", "bigint"},
	paramState:        {"state", "text"},
	paramTool:         {"tool", "text"},
	paramAlias:        {"alias", "bytea"},
	paramFingerprint:  {"fingerprint", "bytea"},
	paramLive:         {"live", "bytea"},
	paramOpen:         {"open", "bigint"},
	paramDue:          {"due", "bigint"},
	paramDueRelative:  {"due_relative", "bigint"},
	paramResult:       {"keep_result", "bigint"},
	paramRetain:       {"retain", "bigint"},
	paramFloor:        {"floor", "bigint"},
	paramPrune:        {"prune", "bigint"},
	paramRecord:       {"record", "text"},
	paramSetArguments: {"set_arguments", "bigint"},
	paramArguments:    {"arguments", "bytea"},
	paramSetResult:    {"set_result", "bigint"},
	paramResultBody:   {"result", "bytea"},
}

// values are those of one record.
type values [numParams]any

// statement is a template made for a dialect: its text, and which value goes
// where.
type statement struct {
	text  string
	order []param
}

var templateNames = regexp.MustCompile(`:[a-z_]+|\{[a-z_]+\}`)

// expand replaces {table} and {now} in a template, and each :name by what put
// returns.
func (d Dialect) expand(template, table string, put func(param) string) string {
	template = strings.ReplaceAll(template, "{now}", d.now())
	return templateNames.ReplaceAllStringFunc(template, func(name string) string {
		if name == "{table}" {
			return d.quote(table)
		}
		p := slices.IndexFunc(params[:], func(p struct{ name, kind string }) bool { return p.name == name[1:] })
		if p < 0 {
			panic("sqlstore: no such name in a template: " + name)
		}
		return put(param(p))
	})
}

func (d Dialect) statement(template, table string) statement {
	var st statement
	st.text = d.expand(template, table, func(p param) string {
		at := slices.Index(st.order, p)
		if at < 0 || d == MySQL { // which cannot name a value twice
			at = len(st.order)
			st.order = append(st.order, p)
		}
		return d.placeholder(at+1, params[p].kind)
	})
	return st
}

// placeholder is the n-th. PostgreSQL is told its type: what it infers differs
// from driver to driver.
func (d Dialect) placeholder(n int, kind string) string {
	switch d {
	case PostgreSQL:
		return "$" + strconv.Itoa(n) + "::" + kind
	case MySQL:
		return "?"
	}
	return "?" + strconv.Itoa(n)
}

func (st *statement) args(v *values) []any {
	args := make([]any, len(st.order))
	for i, p := range st.order {
		args[i] = v[p]
	}
	return args
}

// columns of the table that a Save writes, and the value of each. Moments that
// depend on the database's clock are given as an offset to it, so that a Save is
// one round trip.
var columns = []struct{ name, insert, update string }{
	{"version", "1", ":version + 1"},
	{"state", ":state", ":state"},
	{"tool", ":tool", ":tool"},
	{"alias", ":alias", ":alias"},
	{"fingerprint", ":fingerprint", ":fingerprint"},
	{"live_print", ":live", ":live"},
	{"is_open", ":open", ":open"},
	{"due_at", dueAt, dueAt},
	{"claimed_until", "NULL", "NULL"},
	{"record", ":record", ":record"},
	{"arguments", ":arguments", "CASE WHEN :set_arguments = 1 THEN :arguments ELSE arguments END"},
	// MySQL assigns in this order, so result_until is still that of the last Save.
	{"result", ":result", "CASE WHEN :set_result = 1 THEN :result WHEN result_until <= {now} THEN NULL ELSE result END"},
	{"result_until", resultUntil, resultUntil},
	{"prune_at", pruneAt, pruneAt},
	{"saved_at", "{now}", "{now}"},
	{"retain_until", retainUntil, retainUntil}, // last, because what says that a fact has expired must be
}

const (
	dueAt       = ":due + :due_relative * {now}"
	resultUntil = ":keep_result + {now}"
	retainUntil = "CASE WHEN :retain + {now} < :floor THEN :floor ELSE :retain + {now} END"
	pruneAt     = "CASE WHEN :prune + {now} < :floor THEN :floor ELSE :prune + {now} END"
	alive       = "(retain_until IS NULL OR retain_until > {now})"
	dead        = "retain_until <= {now}"
)

// list joins f of each column.
func list(f func(name, insert, update string) string) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = f(c.name, c.insert, c.update)
	}
	return strings.Join(parts, ", ")
}

// updateTemplate and insertTemplate may be given a condition without which they
// store nothing.
func (d Dialect) updateTemplate(condition string) string {
	set := list(func(name, _, update string) string {
		if d == MySQL && name == "saved_at" {
			update = "LAST_INSERT_ID(" + update + ")" // comes back with the number of rows
		}
		return name + " = " + update
	})
	text := "UPDATE {table} SET " + set + " WHERE scope = :scope AND ref = :ref AND version = :version AND " + alive
	if condition != "" {
		text += " AND " + condition
	}
	if d == PostgreSQL {
		text += " RETURNING saved_at"
	}
	return text
}

func (d Dialect) insertTemplate(condition string) string {
	names := list(func(name, _, _ string) string { return name })
	inserts := list(func(name, insert, _ string) string {
		if d == MySQL && name == "saved_at" {
			insert = "LAST_INSERT_ID(" + insert + ")"
		}
		return insert
	})
	text := "INSERT INTO {table} (scope, ref, " + names + ") "
	if condition == "" {
		text += "VALUES (:scope, :ref, " + inserts + ")"
	} else {
		text += "SELECT :scope, :ref, " + inserts + " WHERE " + condition
	}
	switch d {
	case MySQL:
		return text + " ON DUPLICATE KEY UPDATE " + list(func(name, _, _ string) string {
			stored, fresh := name, "VALUES("+name+")"
			if name == "saved_at" { // 0 says that nothing was stored
				stored, fresh = "saved_at + 0 * LAST_INSERT_ID(0)", "LAST_INSERT_ID("+fresh+")"
			}
			return name + " = IF(" + dead + ", " + fresh + ", " + stored + ")"
		})
	case PostgreSQL:
		return text + " " + onConflict() + " RETURNING saved_at"
	}
	return text + " " + onConflict()
}

// onConflict lets a create go over a fact that has expired.
func onConflict() string {
	return "ON CONFLICT (scope, ref) DO UPDATE SET " +
		list(func(name, _, _ string) string { return name + " = excluded." + name }) +
		" WHERE {table}." + dead
}

// groupText is both for many records at once, for PostgreSQL: each parameter is
// an array of all their values. It returns the keys of what it stored.
//
// The plan is made once for each connection, perhaps while the table is empty,
// and must not be to read all of it. An equality, as that on is_new, has the
// planner expect a single record, and look it up by its key.
func groupText(table string) string {
	d := PostgreSQL
	var arrays, names []string
	for p := paramScope; p < numParams; p++ {
		arrays = append(arrays, d.placeholder(len(arrays)+1, params[p].kind+"[]"))
		names = append(names, "p_"+params[p].name)
	}
	input := "WITH i AS (SELECT CASE WHEN p_version = 0 THEN 1 ELSE 0 END AS is_new, i.* FROM unnest(" + strings.Join(arrays, ", ") +
		") AS i(" + strings.Join(names, ", ") + ")), "
	text := "u AS (UPDATE {table} SET " + list(func(name, _, update string) string { return name + " = " + update }) +
		" FROM i WHERE i.is_new = 0 AND scope = :scope AND ref = :ref AND version = :version AND " + alive +
		" RETURNING scope, ref, saved_at), " +
		"c AS (INSERT INTO {table} (scope, ref, " + list(func(name, _, _ string) string { return name }) + ") SELECT :scope, :ref, " +
		list(func(_, insert, _ string) string { return insert }) + " FROM i WHERE i.is_new = 1 ORDER BY :scope, :ref " +
		onConflict() + " RETURNING scope, ref, saved_at) " +
		"SELECT scope, ref, saved_at FROM u UNION ALL SELECT scope, ref, saved_at FROM c"
	return input + d.expand(text, table, func(p param) string { return "i.p_" + params[p].name })
}
