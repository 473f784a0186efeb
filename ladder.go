package toolexec

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"io"
	"net"
	"net/url"
	"reflect"
	"slices"
	"syscall"
)

// The built-in ladder says what errors of the standard library, and of drivers
// that behave alike, mean. It goes by type, sentinel and behaviour, never by
// text: texts get reworded, translated, and written by whoever is at the other
// end. The one exception can only take certainty away, see untyped.
//
// It is asked last and sees no adapter's trace, so where an error has two
// meanings it gives the careful one. A write in doubt is renamed
// OUTCOME_UNKNOWN later, so doubtful(CodeDeadlineExceeded) is no promise that
// waiting is enough.

// rung is one row of the ladder. Class and category are those of the code.
type rung struct {
	code     Code
	evidence Evidence
	// ofRequest: the evidence is about one request or connection, and the tool
	// may have used another before; see Failure.ofRequest.
	ofRequest bool
}

// doubtful: it may have happened.
func doubtful(c Code) rung { return rung{code: c} }

// refusing: the remote side refused this one request or connection.
func refusing(c Code) rung { return rung{code: c, evidence: EvidenceRejected, ofRequest: true} }

// unsent: this one request was not sent.
func unsent(c Code) rung { return rung{code: c, evidence: EvidenceNotSent, ofRequest: true} }

func (r rung) failure() Failure {
	facts := factsOf(r.code, ClassPermanent, CategoryInternal)
	return Failure{Class: facts.Class, Code: r.code, Category: facts.Category, Evidence: r.evidence, ofRequest: r.ofRequest}
}

// sentinels is a list because a map panics on an error of a type that cannot be
// compared. context.Canceled is missing on purpose: a caller's cancellation is
// seen before the ladder is asked, and one that a tool made up means nothing.
// The deadlines of context and os have a behaviour, see vagueRung.
var sentinels = []struct {
	err  error
	rung rung
}{
	{ErrNotSent, rung{code: CodeDependencyUnavailable, evidence: EvidenceNotSent}}, // the whole attempt
	{io.EOF, doubtful(CodeOutcomeUnknown)},                                         // net/http: closed without an answer
	{io.ErrUnexpectedEOF, doubtful(CodeOutcomeUnknown)},                            // an adapter that saw a status knows more
	{net.ErrClosed, doubtful(CodeDependencyUnavailable)},                           // by us or by them
	{io.ErrClosedPipe, doubtful(CodeDependencyUnavailable)},                        // the same from net.Pipe
	{sql.ErrNoRows, refusing(CodeEmptyResult)},                                     // this statement changed no row
	{sql.ErrConnDone, unsent(CodeDependencyUnavailable)},
	{sql.ErrTxDone, doubtful(CodeToolFailed)}, // ended elsewhere, one way or the other
	// "Should not be returned if the server might have performed the operation",
	// and yet lib/pq returns it for a lost COMMIT (lib/pq #939).
	{driver.ErrBadConn, doubtful(CodeOutcomeUnknown)},
}

// namedTypes are recognised by the full name of their type, which is as exact
// as an assertion. An assertion on crypto/tls would link 47 more packages, 0.6 MB,
// into programs that may never open a socket; pgx is not a requirement.
var namedTypes = map[string]rung{
	// Our side refused the peer in the handshake. Never to be retried or relaxed.
	"crypto/tls.CertificateVerificationError": unsent(CodeTLSVerificationFailed),
	// Bare, these may be about any certificate at any time.
	"crypto/x509.CertificateInvalidError":    doubtful(CodeTLSVerificationFailed),
	"crypto/x509.ConstraintViolationError":   doubtful(CodeTLSVerificationFailed),
	"crypto/x509.HostnameError":              doubtful(CodeTLSVerificationFailed),
	"crypto/x509.InsecureAlgorithmError":     doubtful(CodeTLSVerificationFailed),
	"crypto/x509.SystemRootsError":           doubtful(CodeTLSVerificationFailed),
	"crypto/x509.UnhandledCriticalExtension": doubtful(CodeTLSVerificationFailed),
	"crypto/x509.UnknownAuthorityError":      doubtful(CodeTLSVerificationFailed),
	"net/http.MaxBytesError":                 doubtful(CodeResultTooLarge),
	// HTTP/2: the stream was reset, or the connection ended. That a stream was refused
	// is seen by an adapter alone, since net/http sends such a request again.
	"net/http.http2StreamError":              doubtful(CodeOutcomeUnknown),
	"net/http.http2ConnectionError":          doubtful(CodeOutcomeUnknown),
	"net/http.http2GoAwayError":              doubtful(CodeOutcomeUnknown),
	"golang.org/x/net/http2.StreamError":     doubtful(CodeOutcomeUnknown),
	"golang.org/x/net/http2.ConnectionError": doubtful(CodeOutcomeUnknown),
	"golang.org/x/net/http2.GoAwayError":     doubtful(CodeOutcomeUnknown),
	// Up to pgx 5.12.0 receiveMessage returns this too, after the statement was sent,
	// and it says SafeToRetry: from 5.9.0 on any Exec whose connection is lost ends
	// so (seen). Those from before sending look the same, so they prove nothing.
	"github.com/jackc/pgx/v5/pgconn.connLockError": doubtful(CodeOutcomeUnknown),
}

// handshakeAlerts are the TLS alerts that refuse a handshake (RFC 8446 §6.2).
// In TLS 1.3 a refused client certificate is reported after the request was
// written, but the peer's application never saw it. Other alerts come at any
// time.
var handshakeAlerts = map[uint64]rung{
	40:  refusing(CodeConfigError),            // handshake_failure
	42:  refusing(CodeAuthenticationRequired), // bad_certificate
	43:  refusing(CodeAuthenticationRequired), // unsupported_certificate
	44:  refusing(CodeAuthenticationRequired), // certificate_revoked
	45:  refusing(CodeAuthenticationRequired), // certificate_expired
	46:  refusing(CodeAuthenticationRequired), // certificate_unknown
	48:  refusing(CodeAuthenticationRequired), // unknown_ca
	49:  refusing(CodeAuthenticationRequired), // access_denied
	70:  refusing(CodeConfigError),            // protocol_version
	116: refusing(CodeAuthenticationRequired), // certificate_required
	120: refusing(CodeConfigError),            // no_application_protocol
}

// sqlStates are those of PostgreSQL (its appendix A); two characters stand for
// the rest of a class, what is not listed is left unrecognised. An error of a
// statement undoes its transaction and says nothing of those that the tool has
// committed before: two statements without a transaction around them are two.
var sqlStates = map[string]rung{
	"08":    doubtful(CodeOutcomeUnknown),         // 08000, 08003, 08006; 08007 transaction_resolution_unknown
	"08001": refusing(CodeDependencyUnavailable),  // sqlclient_unable_to_establish_sqlconnection
	"08004": refusing(CodeDependencyUnavailable),  // sqlserver_rejected_establishment_of_sqlconnection
	"08P01": doubtful(CodeToolFailed),             // protocol_violation: poolers
	"0A000": refusing(CodeConfigError),            // feature_not_supported
	"22":    refusing(CodeInvalidArguments),       // data_exception
	"23":    refusing(CodeConflict),               // 23503, 23P01, and 23001 since PostgreSQL 18: depend on other rows
	"23502": refusing(CodeInvalidArguments),       // not_null_violation
	"23505": refusing(CodeAlreadyExists),          // unique_violation
	"23514": refusing(CodeInvalidArguments),       // check_violation
	"25006": refusing(CodeDependencyUnavailable),  // read_only_sql_transaction: failed over to a replica
	"25P02": refusing(CodeToolFailed),             // in_failed_sql_transaction
	"25P03": refusing(CodeDependencyUnavailable),  // idle_in_transaction_session_timeout
	"26000": refusing(CodeConfigError),            // invalid_sql_statement_name
	"28":    refusing(CodeAuthenticationRequired), // invalid_authorization_specification
	"3D000": refusing(CodeConfigError),            // invalid_catalog_name
	"40000": refusing(CodeSerializationConflict),  // transaction_rollback
	"40001": refusing(CodeSerializationConflict),
	"40002": refusing(CodeConflict),              // transaction_integrity_constraint_violation
	"40003": doubtful(CodeOutcomeUnknown),        // statement_completion_unknown
	"40P01": refusing(CodeSerializationConflict), // deadlock_detected
	"42":    refusing(CodeConfigError),           // syntax_error_or_access_rule_violation: our SQL or schema
	"42501": refusing(CodePermissionDenied),      // insufficient_privilege
	"53":    refusing(CodeDependencyUnavailable), // insufficient_resources
	"53300": refusing(CodeDependencyUnavailable), // too_many_connections
	"55006": refusing(CodeResourceLocked),        // object_in_use
	"55P03": refusing(CodeResourceLocked),        // lock_not_available
	"57":    doubtful(CodeOutcomeUnknown),        // 57P01, 57P02: may follow "has already committed locally"
	"57014": refusing(CodeDeadlineExceeded),      // query_canceled: in doubt where a COMMIT was outstanding
	"57P03": refusing(CodeDependencyUnavailable), // cannot_connect_now
	"57P04": doubtful(CodeConfigError),           // database_dropped
	"57P05": refusing(CodeDependencyUnavailable), // idle_session_timeout
	// An ERROR of these undoes its transaction, a FATAL or PANIC need not, and
	// drivers have no behaviour that tells which it was.
	"58": doubtful(CodeToolFailed), // system_error
	"XX": doubtful(CodeToolFailed), // internal_error
}

// mysqlNumbers are those of the server errors of MySQL and MariaDB (their
// reference of error messages). Such an error undoes its statement and leaves the
// transaction open, but for a deadlock; so it too speaks for one request. A CALL, and several statements in one
// text, are several where nothing keeps them together: see Tool.OneRequest. That holds for InnoDB: a table that is
// not transactional keeps what a statement did before it failed.
//
// What is not listed is left unrecognised, as 1644 is, a SIGNAL: what the
// application means by it.
var mysqlNumbers = map[uint64]rung{
	1040: refusing(CodeDependencyUnavailable),  // too many connections
	1129: refusing(CodeDependencyUnavailable),  // host is blocked
	1203: refusing(CodeDependencyUnavailable),  // too many connections of the user
	1226: refusing(CodeDependencyUnavailable),  // a limit of the user
	1045: refusing(CodeAuthenticationRequired), // access denied
	1698: refusing(CodeAuthenticationRequired),
	1044: refusing(CodePermissionDenied), // to the database
	1142: refusing(CodePermissionDenied), // to the table
	1143: refusing(CodePermissionDenied), // to the column
	1227: refusing(CodePermissionDenied), // needs a privilege
	1370: refusing(CodePermissionDenied), // to the routine
	1049: refusing(CodeConfigError),      // unknown database
	1054: refusing(CodeConfigError),      // unknown column
	1064: refusing(CodeConfigError),      // syntax
	1146: refusing(CodeConfigError),      // no such table
	1305: refusing(CodeConfigError),      // no such routine

	1048: refusing(CodeInvalidArguments), // a column cannot be null
	1264: refusing(CodeInvalidArguments), // out of range
	1292: refusing(CodeInvalidArguments), // truncated incorrect value
	1364: refusing(CodeInvalidArguments), // no default value
	1365: refusing(CodeInvalidArguments), // division by zero
	1366: refusing(CodeInvalidArguments), // incorrect value
	1406: refusing(CodeInvalidArguments), // data too long
	1690: refusing(CodeInvalidArguments), // value is out of range in an expression
	3819: refusing(CodeInvalidArguments), // check constraint, MySQL
	4025: refusing(CodeInvalidArguments), // check constraint, MariaDB
	1062: refusing(CodeAlreadyExists),    // duplicate entry
	1586: refusing(CodeAlreadyExists),
	1451: refusing(CodeConflict), // foreign key: a parent row
	1452: refusing(CodeConflict), // foreign key: a child row

	1020: refusing(CodeSerializationConflict), // a row has changed since it was read
	1205: refusing(CodeResourceLocked),        // lock wait timeout: the statement alone, unless innodb_rollback_on_timeout
	1213: refusing(CodeSerializationConflict), // deadlock: the whole transaction, but not one that a procedure has committed before
	3572: refusing(CodeResourceLocked),        // NOWAIT
	1114: refusing(CodeDependencyUnavailable), // table full
	1290: refusing(CodeDependencyUnavailable), // read-only server: a failover
	1792: refusing(CodeDependencyUnavailable), // read-only transaction
	1836: refusing(CodeDependencyUnavailable), // read-only mode
	3024: refusing(CodeDeadlineExceeded),      // max_execution_time, MySQL: of a SELECT only

	// These may meet a COMMIT that is under way, or the log behind it.
	1021: doubtful(CodeDependencyUnavailable), // disk full
	1053: doubtful(CodeDependencyUnavailable), // shutting down
	1180: doubtful(CodeOutcomeUnknown),        // error during COMMIT
	1317: doubtful(CodeDeadlineExceeded),      // interrupted
	1927: doubtful(CodeDependencyUnavailable), // connection killed
	1969: doubtful(CodeDeadlineExceeded),      // max_statement_time, MariaDB
	// Of a client, and of the proxies that speak for one.
	2006: doubtful(CodeOutcomeUnknown), // server has gone away
	2013: doubtful(CodeOutcomeUnknown), // lost connection during a query
}

// untyped are errors of go-sql-driver/mysql that are made by errors.New, for a
// connection that was lost or is out of step after a statement was sent. Without
// the driver their text is all there is. It is compared whole and only takes
// certainty away: a tool whose plain errors mean a refusal is not believed about
// an error of this text, whoever made it.
var untyped = map[string]rung{
	"invalid connection": doubtful(CodeOutcomeUnknown), // ErrInvalidConn
	"malformed packet":   doubtful(CodeOutcomeUnknown), // ErrMalformPkt
	"commands out of sync. You can't run this command now":           doubtful(CodeOutcomeUnknown), // ErrPktSync
	"commands out of sync. Did you run multiple statements at once?": doubtful(CodeOutcomeUnknown), // ErrPktSyncMul
}

// ladder classifies err itself, without what it wraps: classification.walk goes
// on to that. Wrappers whose meaning depends on what they wrap look inside.
func ladder(err error) (Failure, bool) {
	if isNil(err) {
		return Failure{}, false
	}
	if f := requestFailure(err); f != nil {
		return *f, true
	}
	r, ok := rungOf(err, maxInside)
	if !ok {
		if r, ok = vagueRung(err); ok {
			if _, known := below(err, maxInside); known {
				return Failure{}, false
			}
		}
	}
	if !ok {
		return Failure{}, false
	}
	return r.failure(), true
}

// requestFailure is for adapters: what an error that saw one request's answer
// says about that request. Other than a Failure that the tool returns itself it
// says nothing about the rest of the attempt.
func requestFailure(err error) *Failure {
	a, ok := err.(interface{ RequestFailure() *Failure })
	if !ok {
		return nil
	}
	f := a.RequestFailure()
	if f == nil {
		return nil
	}
	own := *f
	own.ofRequest = true
	return &own
}

// rungOf is the ladder without vagueRung. Budget bounds the looks inside.
func rungOf(err error, budget int) (rung, bool) {
	for _, s := range sentinels {
		if err == s.err { //nolint:errorlint // the tree is walked node by node
			return s.rung, true
		}
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked node by node
	case *net.OpError:
		return opRung(e, budget)
	case *net.DNSError:
		// Also when the name was not found, which often passes: a new record,
		// another resolver.
		return unsent(CodeDependencyUnavailable), true
	case syscall.Errno:
		return errnoRung(e)
	case *json.SyntaxError, *json.UnmarshalTypeError:
		// Arguments are decoded before the tool runs, so this is a result.
		return doubtful(CodeResultMalformed), true
	}
	if s, ok := err.(interface{ NotSent() bool }); ok && s.NotSent() {
		return neverLeft(err, budget), true
	}
	if s, ok := err.(interface{ SQLState() string }); ok {
		if r, ok := sqlRung(s.SQLState()); ok {
			return r, true
		}
	}
	if r, ok := namedRung(typeName(err), err, budget); ok {
		return r, true
	}
	// pgconn: nothing was sent of this statement. Earlier ones are another matter.
	if s, ok := err.(interface{ SafeToRetry() bool }); ok && s.SafeToRetry() {
		return unconnected(err, budget), true
	}
	return rung{}, false
}

// unconnected is for an error that proves err's request unsent. What it wraps
// may still tell that repeating is of no use (a password refused, a certificate
// that is not valid).
func unconnected(err error, budget int) rung {
	r := unsent(CodeDependencyUnavailable)
	if inner, ok := below(err, budget); ok && factsOf(inner.code, ClassTransient, CategoryDependency).Class == ClassPermanent {
		r.code = inner.code
	}
	return r
}

// neverLeft is for adapters: an error that says of its request that it was not
// sent, whatever it wraps. That still tells why: the time was up before there
// was a connection.
func neverLeft(err error, budget int) rung {
	r := unconnected(err, budget)
	if inner, ok := below(err, budget); ok && inner.code == CodeDeadlineExceeded {
		r.code = inner.code
	}
	return r
}

func opRung(e *net.OpError, budget int) (rung, bool) {
	switch e.Op {
	case "dial", "proxyconnect", "socks connect":
		// No connection, whatever the errno: ECONNREFUSED is neither Temporary nor a
		// Timeout. The last two are net/http's and x/net/proxy's.
		return unconnected(e, budget), true
	case "remote error":
		if r, ok := handshakeAlerts[alertOf(e.Err)]; ok {
			return r, true
		}
	case "read", "write", "local error":
		// A write that failed may have written a part, and only the byte count tells.
	default:
		return rung{}, false
	}
	if e.Timeout() {
		return doubtful(CodeDeadlineExceeded), true
	}
	return doubtful(CodeOutcomeUnknown), true
}

// alertOf returns the TLS alert in err, whose type is not exported; 0, which is
// no refusal, if there is none.
func alertOf(err error) uint64 {
	if typeName(err) != "crypto/tls.alert" {
		return 0
	}
	return reflect.Indirect(reflect.ValueOf(err)).Uint()
}

// errnoRung is for what a pipe or a raw socket says; net wraps its own in
// OpError. Refused and unreachable are what an earlier datagram met.
func errnoRung(e syscall.Errno) (rung, bool) {
	switch e {
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
		syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return doubtful(CodeOutcomeUnknown), true
	default:
		return rung{}, false
	}
}

func sqlRung(state string) (rung, bool) {
	if len(state) != 5 {
		return rung{}, false
	}
	r, ok := sqlStates[state]
	if !ok {
		r, ok = sqlStates[state[:2]]
	}
	return r, ok
}

func namedRung(name string, err error, budget int) (rung, bool) {
	switch name {
	case "crypto/tls.RecordHeaderError":
		// Its Conn is set only for the first record of a handshake, before any data.
		if conn := reflect.Indirect(reflect.ValueOf(err)).FieldByName("Conn"); conn.IsValid() && !conn.IsNil() {
			return unsent(CodeConfigError), true
		}
		return doubtful(CodeConfigError), true
	case "github.com/jackc/pgx/v5/pgconn.ConnectError":
		return unconnected(err, budget), true
	case "github.com/go-sql-driver/mysql.MySQLError":
		r, ok := mysqlNumbers[numberOf(err)]
		return r, ok
	case "errors.errorString":
		r, ok := untyped[err.Error()]
		return r, ok
	}
	r, ok := namedTypes[name]
	return r, ok
}

// numberOf returns the field Number of err; 0, which is no error of a server, if
// it has none of that kind.
func numberOf(err error) uint64 {
	v := reflect.Indirect(reflect.ValueOf(err))
	if v.Kind() != reflect.Struct {
		return 0
	}
	if n := v.FieldByName("Number"); n.IsValid() && n.CanUint() {
		return n.Uint()
	}
	return 0
}

// typeName is the import path and name of err's type, or of what it points to.
func typeName(err error) string {
	t := reflect.TypeOf(err)
	if t == nil {
		return ""
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() + "." + t.Name()
}

// vagueRung is for what an error says about itself in general. Where it wraps
// something known, that knows better: url.Error says Timeout also for a dial
// that timed out, which sent nothing.
func vagueRung(err error) (rung, bool) {
	if t, ok := err.(interface{ Timeout() bool }); ok && t.Timeout() {
		return doubtful(CodeDeadlineExceeded), true
	}
	if _, ok := err.(interface{ SafeToRetry() bool }); ok {
		// It is false, or rungOf had known: pgx 5.13 has no more than this to say about
		// a connection lost after the statement was sent.
		return doubtful(CodeOutcomeUnknown), true
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked node by node
	case *url.Error:
		// Most of net/http's own errors have no type (an answer that is not HTTP). They are no plain errors of the tool's, of which ErrorsMean speaks.
		return doubtful(CodeToolFailed), e.Op != "parse"
	case *net.OpError:
		return doubtful(CodeToolFailed), true
	}
	return rung{}, false
}

// maxInside bounds the nodes that are looked at below one: a tree may be a ring.
const maxInside = 1000

// below returns the first rung under err, depth first, within budget. A Failure there is the tool's own word:
// known, and not of the ladder.
func below(err error, budget int) (rung, bool) {
	for todo := unwrapped(err); len(todo) > 0 && budget > 0; budget-- {
		err, todo = todo[0], todo[1:]
		if isNil(err) {
			continue
		}
		if _, ok := err.(*Failure); ok || requestFailure(err) != nil { //nolint:errorlint // the tree is walked node by node
			return rung{}, true
		}
		if r, ok := rungOf(err, budget-1); ok {
			return r, true
		}
		if r, ok := vagueRung(err); ok {
			return r, true
		}
		todo = slices.Concat(unwrapped(err), todo) // append could write into the error's own slice
	}
	return rung{}, false
}

func unwrapped(err error) []error {
	switch u := err.(type) { //nolint:errorlint // the tree is walked node by node
	case interface{ Unwrap() error }:
		return []error{u.Unwrap()}
	case interface{ Unwrap() []error }:
		return u.Unwrap()
	}
	return nil
}

// isNil reports whether err is nil or the well-known mistake of a nil pointer
// in an interface, whose methods panic.
func isNil(err error) bool {
	v := reflect.ValueOf(err)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
