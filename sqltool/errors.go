package sqltool

import (
	"context"
	"errors"
	"reflect"

	"github.com/toolexec/toolexec"
)

// sqlState is the code that PostgreSQL gave, "" if it gave none. Both drivers
// have this method.
func sqlState(err error) string {
	if s, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return s.SQLState()
	}
	return ""
}

// refusedCommit reports whether PostgreSQL answered COMMIT so that nothing was
// committed, and will not be: 23xxx of a deferred constraint, 40xxx but for
// statement_completion_unknown. 57014 and 57P01 can follow a commit, whose
// replication was waited for.
func refusedCommit(err error) bool {
	state := sqlState(err)
	return len(state) == 5 && (state[:2] == "23" || state[:2] == "40" && state != "40003")
}

// busy reports whether another transaction has what was asked for.
func (c *core) busy(err error) bool {
	if err == nil {
		return false
	}
	if c.Dialect == MySQL {
		n := mysqlNumber(err)
		return n == 1205 || n == 3572
	}
	return sqlState(err) == "55P03"
}

// unsentError is of an attempt that lost its connection or its time before
// COMMIT: nothing was committed and nothing will be. The built-in ladder asks
// NotSent, and the driver's error for why.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }
func (e *unsentError) NotSent() bool { return true }

// unsent is for an error of the connection or of the context.
func (c *core) unsent(ctx context.Context, err error) error {
	err = withEnd(ctx, err)
	if judged := c.judged(err); judged != err { //nolint:errorlint // the same or not
		return judged
	}
	return &unsentError{err}
}

// withEnd puts the end of ctx before err, if it has ended: drivers say that in
// many ways, or in none.
func withEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return errors.Join(context.Cause(ctx), err)
}

// judgedError carries what a statement's error means to the built-in ladder. It
// is no Failure, so that the tool's classifiers are asked before.
type judgedError struct {
	err  error
	code toolexec.Code
}

func (e *judgedError) Error() string { return e.err.Error() }
func (e *judgedError) Unwrap() error { return e.err }

// RequestFailure implements what the ladder asks of adapters.
func (e *judgedError) RequestFailure() *toolexec.Failure {
	return toolexec.Rejected(e.code, e.err)
}

// judged gives an error of MySQL the meaning that it has before COMMIT, when it
// left nothing behind whatever it was: the built-in ladder, which cannot know that,
// is more careful. Everything else is returned as it is.
func (c *core) judged(err error) error {
	if c.Dialect != MySQL {
		return err
	}
	if code, known := mysqlCodes[mysqlNumber(err)]; known && !stated(err) {
		return &judgedError{err, code}
	}
	return err
}

// recognised reports whether err says itself what it means, so that the
// connection which was lost afterwards does not.
func recognised(err error) bool {
	_, known := mysqlCodes[mysqlNumber(err)]
	return known || stated(err) || sqlState(err) != ""
}

func stated(err error) bool {
	_, ok := errors.AsType[*toolexec.Failure](err)
	return ok
}

// mysqlNumber is the code that MySQL gave, 0 if it gave none: a field named
// Number of the driver's error, whose type cannot be asked for without the
// driver.
func mysqlNumber(err error) uint64 {
	for err != nil {
		v := reflect.Indirect(reflect.ValueOf(err))
		if v.Kind() == reflect.Struct {
			if n := v.FieldByName("Number"); n.IsValid() && n.CanUint() {
				return n.Uint()
			}
		}
		switch u := err.(type) { //nolint:errorlint // the tree is walked node by node
		case interface{ Unwrap() error }:
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				if n := mysqlNumber(e); n != 0 {
					return n
				}
			}
			return 0
		default:
			return 0
		}
	}
	return 0
}

// mysqlCodes are the errors of MySQL and MariaDB that a statement in a
// transaction meets, by what they mean. Before COMMIT none of them left
// anything behind.
var mysqlCodes = map[uint64]toolexec.Code{
	1048: toolexec.CodeInvalidArguments, // a column cannot be null
	1264: toolexec.CodeInvalidArguments, // out of range
	1292: toolexec.CodeInvalidArguments, // truncated incorrect value
	1364: toolexec.CodeInvalidArguments, // no default value
	1365: toolexec.CodeInvalidArguments, // division by zero
	1366: toolexec.CodeInvalidArguments, // incorrect value
	1406: toolexec.CodeInvalidArguments, // data too long
	1690: toolexec.CodeInvalidArguments, // value is out of range in an expression
	3819: toolexec.CodeInvalidArguments, // check constraint, MySQL
	4025: toolexec.CodeInvalidArguments, // check constraint, MariaDB

	1062: toolexec.CodeAlreadyExists, // duplicate entry
	1586: toolexec.CodeAlreadyExists,
	1451: toolexec.CodeConflict, // foreign key: a parent row
	1452: toolexec.CodeConflict, // foreign key: a child row
	1020: toolexec.CodeSerializationConflict,
	1213: toolexec.CodeSerializationConflict, // deadlock
	1205: toolexec.CodeResourceLocked,        // lock wait timeout
	3572: toolexec.CodeResourceLocked,        // NOWAIT

	1044: toolexec.CodePermissionDenied, // to the database
	1142: toolexec.CodePermissionDenied, // to the table
	1143: toolexec.CodePermissionDenied, // to the column
	1227: toolexec.CodePermissionDenied, // needs a privilege
	1370: toolexec.CodePermissionDenied, // to the routine
	1045: toolexec.CodeAuthenticationRequired,
	1698: toolexec.CodeAuthenticationRequired,
	1049: toolexec.CodeConfigError, // unknown database
	1054: toolexec.CodeConfigError, // unknown column
	1064: toolexec.CodeConfigError, // syntax
	1146: toolexec.CodeConfigError, // no such table
	1305: toolexec.CodeConfigError, // no such routine

	1317: toolexec.CodeDeadlineExceeded, // interrupted
	1969: toolexec.CodeDeadlineExceeded, // max_statement_time, MariaDB
	3024: toolexec.CodeDeadlineExceeded, // max_execution_time, MySQL

	1021: toolexec.CodeDependencyUnavailable, // disk full
	1040: toolexec.CodeDependencyUnavailable, // too many connections
	1053: toolexec.CodeDependencyUnavailable, // shutting down
	1114: toolexec.CodeDependencyUnavailable, // table full
	1203: toolexec.CodeDependencyUnavailable, // too many connections of the user
	1226: toolexec.CodeDependencyUnavailable, // a limit of the user
	1290: toolexec.CodeDependencyUnavailable, // read-only server: a failover
	1792: toolexec.CodeDependencyUnavailable, // read-only transaction
	1836: toolexec.CodeDependencyUnavailable, // read-only mode
	1927: toolexec.CodeDependencyUnavailable, // connection killed
}
