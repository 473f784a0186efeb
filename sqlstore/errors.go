package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
)

// What a Store and Open answer beside the errors of package toolexec.
var (
	// ErrClosed: the Store was closed.
	ErrClosed = errors.New("sqlstore: the store is closed")
	// ErrNewerSchema: the table was made by a newer version of this package. It
	// was not touched.
	ErrNewerSchema = errors.New("sqlstore: the table has a newer schema than this program knows")
)

// explained is an error that says what went wrong, and keeps the driver's.
type explained struct {
	text string
	err  error // nil: there is no other
}

func (e *explained) Unwrap() error { return e.err }

func (e *explained) Error() string {
	if e.err == nil {
		return "sqlstore: " + e.text
	}
	return "sqlstore: " + e.text + ": " + e.err.Error()
}

// refuse is an error of this package's own.
func refuse(format string, args ...any) error { return &explained{text: fmt.Sprintf(format, args...)} }

// explain says in words what went wrong, where that is known. It keeps the
// driver's error, and what was explained already as it is.
func (s *Store) explain(ctx context.Context, doing string, err error) error {
	if _, ok := errors.AsType[*explained](err); ok || err == nil {
		return err
	}
	if s.closed.Load() {
		return &explained{doing, errors.Join(ErrClosed, err)}
	}
	if words := s.words(ctx, err); words != "" {
		doing += ": " + words
	}
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) { // drivers have words of their own for it
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return &explained{doing, err}
}

func (s *Store) words(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, dbClosed()), errors.Is(err, sql.ErrConnDone):
		return "the *sql.DB is closed"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ""
	case connectionLost(err):
		return "the connection to the database was lost, and whether the statement took effect is not known"
	}
	switch s.dialect {
	case SQLite:
		code := sqliteCode(err)
		if code == sqliteError && s.missing(ctx) {
			return "the table " + s.table + " is missing"
		}
		return sqliteWords[code]
	case PostgreSQL:
		return postgresWords[sqlState(err)]
	}
	return mysqlWords[mysqlNumber(err)]
}

// missing reports whether it is sure that the table is not there: SQLite has no
// code of its own for that.
func (s *Store) missing(ctx context.Context) bool {
	there, err := s.exists(ctx, s.db, s.table)
	return err == nil && !there
}

func connectionLost(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// dbClosed is the error of a closed *sql.DB, which database/sql does not export.
var dbClosed = sync.OnceValue(func() error {
	db := sql.OpenDB(noConnector{})
	_ = db.Close()
	return db.PingContext(context.Background())
})

type noConnector struct{}

func (noConnector) Connect(context.Context) (driver.Conn, error) { return nil, driver.ErrBadConn }
func (noConnector) Driver() driver.Driver                        { return nil }

// Codes of SQLite: https://sqlite.org/rescode.html.
const (
	sqliteError  = 1
	sqliteBusy   = 5
	sqliteLocked = 6
)

var sqliteWords = map[int64]string{
	3:            "permission denied",
	sqliteBusy:   "the database is locked by another writer, and stayed so for the whole busy timeout",
	sqliteLocked: "the table is locked by another connection",
	8:            "the database is read-only",
	10:           "the disk reports an I/O error",
	11:           "the database file is corrupted",
	13:           "the disk or the database is full",
	14:           "the database file cannot be opened",
	26:           "the file is not an SQLite database, or its header is destroyed",
}

// Codes of PostgreSQL: https://www.postgresql.org/docs/current/errcodes-appendix.html.
var postgresWords = map[string]string{
	"25006": "the database is read-only",
	"28P01": "the password was refused",
	"3D000": "the database does not exist",
	"42501": "permission denied",
	"42P01": "the table is missing",
	"53100": "the disk is full",
	"53200": "the server is out of memory",
	"53300": "the server has too many connections",
	"57P01": "the server is shutting down, and whether the statement took effect is not known",
	"57P03": "the server is starting up or shutting down",
	"XX001": "the table is corrupted",
	"XX002": "an index is corrupted",
}

// Codes of MySQL and MariaDB.
var mysqlWords = map[uint64]string{
	1021: "the disk is full",
	1040: "the server has too many connections",
	1044: "permission denied",
	1045: "the user or the password was refused",
	1049: "the database does not exist",
	1114: "the table is full",
	1142: "permission denied",
	1146: "the table is missing",
	1153: "the record is larger than the server's max_allowed_packet",
	1194: "the table is corrupted",
	1205: "another transaction held the record for the whole lock wait timeout",
	1290: "the server is read-only",
	1712: "an index is corrupted",
	1836: "the server is read-only",
}

// sqlState is the code that PostgreSQL gave, "" if it gave none. Both drivers
// have this method.
func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// serverRefused reports whether PostgreSQL itself answered that a statement
// failed, so that it took no effect; a server that goes down is not so sure.
func serverRefused(err error) bool {
	state := sqlState(err)
	return len(state) == 5 && state[:2] != "08" && state[:2] != "57"
}

// inTheWay reports whether a statement was undone because of another one, so
// that repeating it is right.
func (s *Store) inTheWay(err error) bool {
	switch s.dialect {
	case PostgreSQL:
		state := sqlState(err)
		return state == "40001" || state == "40P01"
	case MySQL:
		return mysqlNumber(err) == 1213
	}
	return false
}

// sqliteCode is the primary result code. The drivers give it as a method or a
// field named Code, of types of their own.
func sqliteCode(err error) int64 {
	v, ok := property(err, "Code")
	if !ok {
		return 0
	}
	if v.CanInt() {
		return v.Int() & 0xff
	}
	return int64(v.Uint() & 0xff)
}

// mysqlNumber is the code that the server gave: a field named Number.
func mysqlNumber(err error) uint64 {
	if v, ok := property(err, "Number"); ok && v.CanUint() {
		return v.Uint()
	}
	return 0
}

// property looks for a whole number that an error in err's tree has as a method
// or a field, or is, because a library that imports no driver cannot ask for the
// driver's type.
func property(err error, name string) (reflect.Value, bool) {
	if err == nil {
		return reflect.Value{}, false
	}
	v := reflect.ValueOf(err)
	if m := v.MethodByName(name); m.IsValid() && m.Type().NumIn() == 0 && m.Type().NumOut() == 1 {
		if out := m.Call(nil)[0]; whole(out) {
			return out, true
		}
	}
	if whole(v) {
		return v, true
	}
	if v = reflect.Indirect(v); v.Kind() == reflect.Struct {
		if f := v.FieldByName(name); whole(f) {
			return f, true
		}
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range many.Unwrap() {
			if v, ok := property(err, name); ok {
				return v, true
			}
		}
	}
	return property(errors.Unwrap(err), name)
}

func whole(v reflect.Value) bool { return v.IsValid() && (v.CanInt() || v.CanUint()) }
