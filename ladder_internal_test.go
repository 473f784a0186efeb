package toolexec

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Internal, because a rung can only be told from what the core makes of it
// before the core has done so.

// means is what a row of the table says. One is the evidence for a tool that
// declares OneRequest, any for one that does not.
type means struct {
	class    Class
	code     Code
	category Category
	any, one Evidence
}

var (
	meansBroken       = means{ClassTransient, CodeOutcomeUnknown, CategoryDependency, EvidenceInDoubt, EvidenceInDoubt}
	meansClosed       = means{ClassTransient, CodeDependencyUnavailable, CategoryDependency, EvidenceInDoubt, EvidenceInDoubt}
	meansExpired      = means{ClassTransient, CodeDeadlineExceeded, CategoryDependency, EvidenceInDoubt, EvidenceInDoubt}
	meansUnsent       = means{ClassTransient, CodeDependencyUnavailable, CategoryDependency, EvidenceInDoubt, EvidenceNotSent}
	meansRefused      = means{ClassTransient, CodeDependencyUnavailable, CategoryDependency, EvidenceInDoubt, EvidenceRejected}
	meansUnverified   = means{ClassPermanent, CodeTLSVerificationFailed, CategoryDependency, EvidenceInDoubt, EvidenceNotSent}
	meansMalformed    = means{ClassPermanent, CodeResultMalformed, CategoryDependency, EvidenceInDoubt, EvidenceInDoubt}
	meansRefusedLogin = means{ClassPermanent, CodeAuthenticationRequired, CategoryAuthorization, EvidenceInDoubt, EvidenceRejected}
	meansRefusedSetup = means{ClassPermanent, CodeConfigError, CategoryInternal, EvidenceInDoubt, EvidenceRejected}
	meansBadInput     = means{ClassPermanent, CodeInvalidArguments, CategoryValidation, EvidenceInDoubt, EvidenceRejected}
	meansConflict     = means{ClassPermanent, CodeConflict, CategoryConflict, EvidenceInDoubt, EvidenceRejected}
	meansBadSQL       = means{ClassPermanent, CodeConfigError, CategoryInternal, EvidenceInDoubt, EvidenceRejected}
	meansRolledBack   = means{ClassTransient, CodeSerializationConflict, CategoryConflict, EvidenceInDoubt, EvidenceRejected}
	meansNoResources  = means{ClassTransient, CodeDependencyUnavailable, CategoryDependency, EvidenceInDoubt, EvidenceRejected}
	meansLocked       = means{ClassTransient, CodeResourceLocked, CategoryConflict, EvidenceInDoubt, EvidenceRejected}
	meansFailed       = means{ClassPermanent, CodeToolFailed, CategoryInternal, EvidenceInDoubt, EvidenceInDoubt}
)

func asMeant(t *testing.T, want means, err error) {
	t.Helper()
	require.Error(t, err)
	for one, evidence := range map[bool]Evidence{false: want.any, true: want.one} {
		f := classification{oneRequest: one}.classify(err)
		assert.Equal(t, want.class, f.Class, "class of %v", err)
		assert.Equal(t, want.code, f.Code, "code of %v", err)
		assert.Equal(t, want.category, f.Category, "category of %v", err)
		assert.Equal(t, evidence, f.Evidence, "evidence of %v, OneRequest %v", err, one)
		assert.NotNil(t, classification{oneRequest: one}.walk(err), "%v is not recognised", err)
	}
	// The same words without the type mean nothing.
	assert.Nil(t, classification{}.walk(errors.New(err.Error())), "the text of %v was read", err)
	// And a tool may have put its own words around it.
	wrapped := classification{}.classify(fmt.Errorf("refunding: %w", err))
	assert.Equal(t, want.code, wrapped.Code, "%v, wrapped", err)
	assert.Equal(t, want.any, wrapped.Evidence, "%v, wrapped", err)
}

func unrecognised(t *testing.T, err error) {
	t.Helper()
	assert.Nil(t, classification{oneRequest: true}.walk(err), "%v", err)
}

// Errors with a behaviour.
type (
	stateError string
	retryError struct {
		safe bool
		err  error
	}
	timeoutError struct {
		is  bool
		err error
	}
	timeoutErrors []error // cannot be compared
	plainErrors   []error
)

func (e stateError) Error() string      { return "ERROR: SQLSTATE " + string(e) }
func (e stateError) SQLState() string   { return string(e) }
func (e retryError) Error() string      { return "conn busy" }
func (e retryError) SafeToRetry() bool  { return e.safe }
func (e retryError) Unwrap() error      { return e.err }
func (e timeoutError) Error() string    { return "i/o timeout" }
func (e timeoutError) Timeout() bool    { return e.is }
func (e timeoutError) Unwrap() error    { return e.err }
func (e timeoutErrors) Error() string   { return "i/o timeouts" }
func (e timeoutErrors) Timeout() bool   { return true }
func (e timeoutErrors) Unwrap() []error { return e }

func (e plainErrors) Error() string   { return "errors" }
func (e plainErrors) Unwrap() []error { return e }

func op(name string, err error) error { return &net.OpError{Op: name, Net: "tcp", Err: err} }

func TestLadderSentinels(t *testing.T) {
	for _, row := range []struct {
		err  error
		want means
	}{
		{ErrNotSent, means{ClassTransient, CodeDependencyUnavailable, CategoryDependency, EvidenceNotSent, EvidenceNotSent}},
		{context.DeadlineExceeded, meansExpired},
		{os.ErrDeadlineExceeded, meansExpired}, // not the one above
		{io.EOF, meansBroken},
		{io.ErrUnexpectedEOF, meansBroken},
		{io.ErrClosedPipe, meansClosed},
		{net.ErrClosed, meansClosed},
		{sql.ErrNoRows, means{ClassEmptyResult, CodeEmptyResult, CategoryValidation, EvidenceInDoubt, EvidenceRejected}},
		{sql.ErrConnDone, meansUnsent},
		{sql.ErrTxDone, meansFailed},
		{driver.ErrBadConn, meansBroken},
	} {
		t.Run(row.err.Error(), func(t *testing.T) { asMeant(t, row.want, row.err) })
	}
}

// An error that wraps itself ends no program.
func TestLadderRings(t *testing.T) {
	asks := &retryError{safe: true}
	asks.err = asks
	asMeant(t, meansUnsent, asks)

	wide := plainErrors{nil, nil}
	wide[0], wide[1] = wide, wide
	asMeant(t, meansExpired, timeoutError{is: true, err: wide})
	asMeant(t, meansUnsent, retryError{safe: true, err: wide})

	// Nor does looking inside change what is there.
	inner := append(make(plainErrors, 0, 4), errors.New("x"))
	below(plainErrors{inner, errors.New("y")}, maxInside)
	assert.NoError(t, inner[:2][1])
	known, ok := below(plainErrors{inner, io.EOF}, maxInside)
	assert.True(t, ok)
	assert.Equal(t, doubtful(CodeOutcomeUnknown), known)
}

// What the table knows and no type, sentinel or behaviour shows without
// linking net/http: these are the adapters' rows.
func TestLadderLeavesOthers(t *testing.T) {
	var noOp *net.OpError
	for _, err := range []error{
		errors.New("dial tcp 127.0.0.1:1: connect: connection refused"),
		context.Canceled, // the caller's own was seen before
		http.ErrServerClosed,
		http.ErrSchemeMismatch,
		os.ErrNotExist,
		syscall.ENOENT,
		timeoutError{is: false},
		stateError("P0001"), // raise_exception: what the application means by it
		stateError("25001"),
		stateError("55000"),
		stateError(""),
		stateError("22"),
		stateError("22P022"),
		&json.InvalidUnmarshalError{},
		&url.Error{Op: "parse", Err: url.InvalidHostError("x")},
	} {
		unrecognised(t, err)
	}
	for _, err := range []error{nil, noOp, (*json.SyntaxError)(nil), (*Failure)(nil)} {
		_, ok := ladder(err)
		assert.False(t, ok, "%T", err)
	}
	_, known := below(timeoutErrors{nil, noOp}, maxInside)
	assert.False(t, known)
}

func TestLadderNetwork(t *testing.T) {
	refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
	for name, row := range map[string]struct {
		err  error
		want means
	}{
		"dial refused":            {op("dial", refused), meansUnsent},
		"dial unreachable":        {op("dial", os.NewSyscallError("connect", syscall.EHOSTUNREACH)), meansUnsent},
		"dial timed out":          {op("dial", os.NewSyscallError("connect", syscall.ETIMEDOUT)), meansUnsent},
		"dial without a reason":   {op("dial", errors.New("x")), meansUnsent},
		"dial, inner certificate": {op("dial", x509.UnknownAuthorityError{}), meansUnverified},
		"dial, tool's own word":   {op("dial", InDoubt(nil)), meansUnsent},
		"proxy refused":           {op("proxyconnect", op("dial", refused)), meansUnsent},
		"proxy closed":            {op("proxyconnect", io.EOF), meansUnsent},
		"proxy certificate":       {op("proxyconnect", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), meansUnverified},
		"socks":                   {op("socks connect", refused), meansUnsent},
		"name not found":          {&net.DNSError{IsNotFound: true}, meansUnsent},
		"name timed out":          {&net.DNSError{IsTimeout: true, UnwrapErr: context.DeadlineExceeded}, meansUnsent},
		"name temporary":          {&net.DNSError{IsTemporary: true}, meansUnsent},
		"name, no flag":           {&net.DNSError{}, meansUnsent},
		"read reset":              {op("read", os.NewSyscallError("read", syscall.ECONNRESET)), meansBroken},
		"read, anything":          {op("read", errors.New("x")), meansBroken},
		"read timed out":          {op("read", os.ErrDeadlineExceeded), meansExpired},
		"write broken pipe":       {op("write", os.NewSyscallError("write", syscall.EPIPE)), meansBroken},
		"write, anything":         {op("write", errors.New("x")), meansBroken},
		"write timed out":         {op("write", os.ErrDeadlineExceeded), meansExpired},
		"local alert":             {op("local error", errors.New("x")), meansBroken},
		"remote, no alert":        {op("remote error", errors.New("x")), meansBroken},
		"accept":                  {op("accept", net.ErrClosed), meansClosed},
		"set, anything":           {op("set", errors.New("x")), meansFailed},
		"pipe to a process":       {&os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, meansBroken},
		"bare reset":              {syscall.ECONNRESET, meansBroken},
		"bare abort":              {syscall.ECONNABORTED, meansBroken},
		"bare refused":            {os.NewSyscallError("recvfrom", syscall.ECONNREFUSED), meansBroken},
		"bare host unreachable":   {syscall.EHOSTUNREACH, meansBroken},
		"bare net unreachable":    {syscall.ENETUNREACH, meansBroken},
		"bare timeout":            {syscall.ETIMEDOUT, meansExpired},
		"url, dial timed out":     {&url.Error{Op: "Post", Err: op("dial", os.ErrDeadlineExceeded)}, meansUnsent},
		"url, anything":           {&url.Error{Op: "Post", Err: errors.New("http2: server sent GOAWAY")}, meansFailed},
		"url, cancelled by tool":  {&url.Error{Op: "Post", Err: context.Canceled}, meansFailed}, // not retried
		"url, reset":              {&url.Error{Op: "Post", Err: io.EOF}, meansBroken},
		"url, timed out":          {&url.Error{Op: "Post", Err: timeoutError{is: true}}, meansExpired},
		"timeout over dial":       {timeoutError{is: true, err: fmt.Errorf("x: %w", op("dial", refused))}, meansUnsent},
		"timeout over a plain":    {timeoutError{is: true, err: errors.New("x")}, meansExpired},
		"timeout over dials":      {timeoutErrors{op("dial", refused), op("dial", refused)}, meansUnsent},
		"timeout over nothing":    {timeoutErrors{nil, errors.New("x")}, meansExpired},
	} {
		t.Run(name, func(t *testing.T) { asMeant(t, row.want, row.err) })
	}
	// A wrapper that timed out does not hide what the tool itself states.
	own := classification{}.classify(timeoutError{is: true, err: Rejected(CodeConflict, nil)})
	assert.Equal(t, EvidenceRejected, own.Evidence)
}

func TestLadderDecoding(t *testing.T) {
	var n struct{ N int }
	asMeant(t, meansMalformed, json.Unmarshal([]byte(`{"n":`), &n))
	asMeant(t, meansMalformed, json.Unmarshal([]byte(`{"n":"1"}`), &n))
	asMeant(t, meansMalformed, json.NewDecoder(strings.NewReader(`<html>`)).Decode(&n))
	asMeant(t, meansBroken, json.NewDecoder(strings.NewReader(`{"n":`)).Decode(&n))

	_, err := io.ReadAll(http.MaxBytesReader(nil, io.NopCloser(strings.NewReader("too long")), 3))
	asMeant(t, means{ClassPermanent, CodeResultTooLarge, CategoryDependency, EvidenceInDoubt, EvidenceInDoubt}, err)
}

func TestLadderSQLStates(t *testing.T) {
	meansDenied := means{ClassPermanent, CodePermissionDenied, CategoryAuthorization, EvidenceInDoubt, EvidenceRejected}
	meansExists := means{ClassPermanent, CodeAlreadyExists, CategoryConflict, EvidenceInDoubt, EvidenceRejected}
	for states, want := range map[string]means{
		"08000 08003 08006 08007 40003": meansBroken,
		"08001 08004 53300 57P03":       meansRefused,
		"08P01 58000 58030 XX000 XX001": meansFailed,
		"22001 22003 22P02 23502 23514": meansBadInput,
		"23000 23001 23503 23P01 40002": meansConflict,
		"23505":                         meansExists,
		"25006 53000 53100 53200 53400": meansNoResources,
		"25P02":                         {ClassPermanent, CodeToolFailed, CategoryInternal, EvidenceInDoubt, EvidenceRejected},
		"25P03 57P05":                   meansRefused,
		"28000 28P01":                   meansRefusedLogin,
		"42501":                         meansDenied,
		"42601 42P01 0A000 26000":       meansBadSQL,
		"3D000":                         meansRefusedSetup,
		"40000 40001 40P01":             meansRolledBack,
		"55P03 55006":                   meansLocked,
		"57014":                         {ClassTransient, CodeDeadlineExceeded, CategoryDependency, EvidenceInDoubt, EvidenceRejected},
		"57000 57P01 57P02":             meansBroken,
		"57P04":                         {ClassPermanent, CodeConfigError, CategoryInternal, EvidenceInDoubt, EvidenceInDoubt},
	} {
		for state := range strings.FieldsSeq(states) {
			t.Run(state, func(t *testing.T) { asMeant(t, want, stateError(state)) })
		}
	}
	for state := range sqlStates {
		assert.Contains(t, []int{2, 5}, len(state), state)
	}
}

func TestLadderSafeToRetry(t *testing.T) {
	asMeant(t, meansUnsent, retryError{safe: true})
	asMeant(t, meansUnsent, retryError{safe: true, err: context.DeadlineExceeded}) // the context was done before
	asMeant(t, meansUnsent, retryError{safe: true, err: context.Canceled})
	asMeant(t, meansExpired, retryError{safe: false, err: context.DeadlineExceeded})
	// Not to be taken for a refusal by a tool whose plain errors are refusals.
	asMeant(t, meansBroken, retryError{safe: false, err: errors.New("conn closed")})
	asMeant(t, meansConflict, retryError{safe: false, err: stateError("23503")})
	asMeant(t, meansBroken, retryError{safe: false, err: io.ErrUnexpectedEOF})
	// A password that was refused is refused again.
	asMeant(t, means{ClassPermanent, CodeAuthenticationRequired, CategoryAuthorization, EvidenceInDoubt, EvidenceNotSent},
		retryError{safe: true, err: stateError("28P01")})
	asMeant(t, meansUnsent, retryError{safe: true, err: stateError("57P03")})

	// pgx is not a requirement, so its types are not at hand here.
	for name, want := range map[string]rung{
		"connLockError": doubtful(CodeOutcomeUnknown),
		"ConnectError":  unsent(CodeAuthenticationRequired),
	} {
		got, ok := namedRung("github.com/jackc/pgx/v5/pgconn."+name, retryError{err: stateError("28P01")}, maxInside)
		assert.True(t, ok, name)
		assert.Equal(t, want, got, name)
	}
}

// numberError has a field like that of the driver's, which is not at hand here:
// the real one is classified in internal/conformance/sqltool.
type numberError struct{ Number uint16 }

func (e *numberError) Error() string { return "Error 1062 (23000): Duplicate entry" }

func TestLadderMySQL(t *testing.T) {
	const driverError = "github.com/go-sql-driver/mysql.MySQLError"
	for number, want := range map[uint16]rung{
		1062: refusing(CodeAlreadyExists),
		1205: refusing(CodeResourceLocked),        // the statement alone
		1213: refusing(CodeSerializationConflict), // the transaction, and a procedure can have had one before
		2013: doubtful(CodeOutcomeUnknown),
	} {
		got, ok := namedRung(driverError, &numberError{number}, maxInside)
		assert.True(t, ok, number)
		assert.Equal(t, want, got, number)
	}
	for _, err := range []error{&numberError{}, &numberError{1644}, stateError("1062"), (*numberError)(nil)} {
		_, ok := namedRung(driverError, err, maxInside)
		assert.False(t, ok, "%T", err)
	}
	// Another type of that shape means nothing.
	unrecognised(t, &numberError{1062})
	// An error of MySQL is one of the statement: the transaction is open still, so
	// nothing is rejected whatever the tool declares.
	for number, r := range mysqlNumbers {
		assert.Equal(t, r.evidence == EvidenceRejected, r.ofRequest, number)
	}
}

// A sentinel without a type is known by its whole text, and that only takes
// certainty away.
func TestLadderUntyped(t *testing.T) {
	for text, r := range untyped {
		assert.Equal(t, EvidenceInDoubt, r.evidence, text)
		err := errors.New(text)
		for _, c := range []classification{{}, {oneRequest: true}, {plain: EvidenceRejected}} {
			assert.Equal(t, EvidenceInDoubt, c.classify(fmt.Errorf("refunding: %w", err)).Evidence, text)
			assert.Equal(t, CodeOutcomeUnknown, c.classify(err).Code, text)
		}
		unrecognised(t, errors.New(text+"!"))
		unrecognised(t, plainError(text)) // of a type of the tool's own
	}
}

type plainError string

func (e plainError) Error() string { return string(e) }

// What the tables know is on the page, where its rows are run.
func TestLadderIsOnThePage(t *testing.T) {
	raw, err := os.ReadFile("docs/mapping.md")
	require.NoError(t, err)
	for state := range sqlStates {
		assert.Contains(t, string(raw), "`"+state+"`")
	}
	for number := range mysqlNumbers {
		assert.Contains(t, string(raw), fmt.Sprintf("`%d`", number))
	}
}

func TestLadderTypeName(t *testing.T) {
	assert.Equal(t, "net.OpError", typeName(&net.OpError{}))
	assert.Equal(t, "crypto/x509.HostnameError", typeName(x509.HostnameError{}))
	assert.Equal(t, "github.com/toolexec/toolexec.stateError", typeName(stateError("")))
	assert.Empty(t, typeName(nil))
}

func TestLadderCertificates(t *testing.T) {
	bare := means{ClassPermanent, CodeTLSVerificationFailed, CategoryDependency, EvidenceInDoubt, EvidenceInDoubt}
	for _, err := range []error{
		x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.Expired},
		x509.ConstraintViolationError{},
		x509.HostnameError{Certificate: &x509.Certificate{}, Host: "example.com"},
		x509.InsecureAlgorithmError(x509.SHA1WithRSA),
		x509.SystemRootsError{},
		x509.UnhandledCriticalExtension{},
		x509.UnknownAuthorityError{},
	} {
		asMeant(t, bare, err)
		asMeant(t, meansUnverified, &tls.CertificateVerificationError{Err: err})
	}
	// Only the first record of a handshake comes with its connection.
	asMeant(t, means{ClassPermanent, CodeConfigError, CategoryInternal, EvidenceInDoubt, EvidenceInDoubt}, tls.RecordHeaderError{Msg: "oversized"})
	asMeant(t, means{ClassPermanent, CodeConfigError, CategoryInternal, EvidenceInDoubt, EvidenceInDoubt}, &tls.RecordHeaderError{Msg: "oversized"})
}

// --- by real sockets ---

// server answers each connection with serve, which closes it.
func server(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				serve(conn.(*net.TCPConn))
				_ = conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func readRequest(conn net.Conn) {
	if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		_, _ = io.Copy(io.Discard, req.Body)
	}
}

// post sends a POST and reads the answer.
func post(t *testing.T, client *http.Client, url string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	require.NoError(t, err)
	return do(client, req)
}

func do(client *http.Client, req *http.Request) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func newClient(t *testing.T, config *tls.Config) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: config}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestLadderSockets(t *testing.T) {
	t.Run("dial refused", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, l.Close())
		asMeant(t, meansUnsent, post(t, newClient(t, nil), "http://"+l.Addr().String()))
		client := newClient(t, nil)
		proxy := &url.URL{Scheme: "http", Host: l.Addr().String()}
		client.Transport.(*http.Transport).Proxy = http.ProxyURL(proxy)
		asMeant(t, meansUnsent, post(t, client, "https://shop.invalid"))
	})
	t.Run("dial timed out", func(t *testing.T) {
		client := newClient(t, nil)
		client.Transport.(*http.Transport).DialContext = (&net.Dialer{Deadline: time.Unix(1, 0)}).DialContext
		err := post(t, client, "http://127.0.0.1:1")
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout(), "the url.Error has to look like a timeout for this row to prove anything")
		asMeant(t, meansUnsent, err)
	})
	t.Run("resolver", func(t *testing.T) {
		resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, op("dial", syscall.ENETUNREACH)
		}}
		_, err := resolver.LookupHost(t.Context(), "shop.example.")
		var failed *net.DNSError
		require.ErrorAs(t, err, &failed)
		asMeant(t, meansUnsent, err)
		client := newClient(t, nil)
		client.Transport.(*http.Transport).DialContext = (&net.Dialer{Resolver: resolver}).DialContext
		asMeant(t, meansUnsent, post(t, client, "http://shop.example."))
	})
	t.Run("closed without an answer", func(t *testing.T) {
		asMeant(t, meansBroken, post(t, newClient(t, nil), "http://"+server(t, func(c *net.TCPConn) { readRequest(c) })))
	})
	t.Run("half closed", func(t *testing.T) {
		asMeant(t, meansBroken, post(t, newClient(t, nil), "http://"+server(t, func(c *net.TCPConn) {
			readRequest(c)
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		})))
	})
	t.Run("reset after the request", func(t *testing.T) {
		asMeant(t, meansBroken, post(t, newClient(t, nil), "http://"+server(t, func(c *net.TCPConn) {
			readRequest(c)
			_ = c.SetLinger(0)
		})))
	})
	t.Run("body cut off", func(t *testing.T) {
		asMeant(t, meansBroken, post(t, newClient(t, nil), "http://"+server(t, func(c *net.TCPConn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
		})))
	})
	t.Run("not HTTP", func(t *testing.T) { // has no type: the adapter makes it RESULT_MALFORMED
		asMeant(t, meansFailed, post(t, newClient(t, nil), "http://"+server(t, func(c *net.TCPConn) {
			readRequest(c)
			_, _ = io.WriteString(c, "SSH-2.0-OpenSSH\r\n\r\n")
		})))
	})
	t.Run("reset while writing", func(t *testing.T) {
		conn := dial(t, server(t, func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 1)) // the client is connected
			_ = c.SetLinger(0)
		}))
		var err error
		for err == nil {
			_, err = conn.Write(make([]byte, 1<<16))
		}
		asMeant(t, meansBroken, err)
	})
	t.Run("closed by us", func(t *testing.T) {
		conn := dial(t, server(t, readRequestTCP))
		require.NoError(t, conn.Close())
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		asMeant(t, meansBroken, err)
	})
	t.Run("deadline of a connection", func(t *testing.T) {
		conn := dial(t, server(t, readRequestTCP))
		require.NoError(t, conn.SetDeadline(time.Unix(1, 0)))
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		asMeant(t, meansExpired, err)
		_, err = conn.Write(make([]byte, 1))
		asMeant(t, meansExpired, err)
	})
}

func readRequestTCP(c *net.TCPConn) { readRequest(c) }

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestLadderHTTPTimeouts(t *testing.T) {
	addr := "http://" + server(t, func(c *net.TCPConn) {
		readRequest(c)
		_, _ = io.Copy(io.Discard, c) // until the client gives up
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, addr, nil)
		require.NoError(t, err)
		asMeant(t, meansExpired, do(newClient(t, nil), req))
	})
	t.Run("Client.Timeout", func(t *testing.T) {
		client := newClient(t, nil)
		client.Timeout = 20 * time.Millisecond
		asMeant(t, meansExpired, post(t, client, addr))
	})
	t.Run("ResponseHeaderTimeout", func(t *testing.T) {
		client := newClient(t, nil)
		client.Transport.(*http.Transport).ResponseHeaderTimeout = 20 * time.Millisecond
		asMeant(t, meansExpired, post(t, client, addr))
	})
}

// tlsServer handshakes and then says nothing.
func tlsServer(t *testing.T, config *tls.Config) (addr string, trusted *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	config.Certificates = s.TLS.Certificates
	return server(t, func(c *net.TCPConn) {
		conn := tls.Server(c, config)
		if conn.Handshake() == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
		_ = conn.CloseWrite()
	}), &tls.Config{RootCAs: roots, ServerName: "example.com"}
}

// handshake returns what the client is told in the handshake, or, with TLS 1.3,
// by the first read after it.
func handshake(t *testing.T, addr string, config *tls.Config) error {
	t.Helper()
	conn := tls.Client(dial(t, addr), config)
	if err := conn.Handshake(); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	return err
}

func TestLadderTLS(t *testing.T) {
	addr, trusted := tlsServer(t, &tls.Config{})
	t.Run("unknown authority", func(t *testing.T) {
		asMeant(t, meansUnverified, post(t, newClient(t, nil), "https://"+addr))
	})
	t.Run("wrong host", func(t *testing.T) {
		config := trusted.Clone()
		config.ServerName = "other.example"
		asMeant(t, meansUnverified, post(t, newClient(t, config), "https://"+addr))
	})
	t.Run("expired", func(t *testing.T) {
		config := trusted.Clone()
		config.Time = func() time.Time { return time.Now().AddDate(200, 0, 0) }
		asMeant(t, meansUnverified, post(t, newClient(t, config), "https://"+addr))
	})
	t.Run("plain HTTP", func(t *testing.T) {
		plain := server(t, func(c *net.TCPConn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		})
		setup := meansRefusedSetup
		setup.one = EvidenceNotSent
		asMeant(t, setup, handshake(t, plain, trusted))
		// http.Client puts a sentinel of net/http in its place, ErrSchemeMismatch.
		asMeant(t, meansFailed, post(t, newClient(t, trusted), "https://"+plain))
	})
	for name, row := range map[string]struct {
		server func(*tls.Config)
		client func(*tls.Config)
		want   means
	}{
		"no client certificate, 1.3": {
			func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert },
			func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }, meansRefusedLogin,
		},
		"no client certificate, 1.2": {
			func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert },
			// TLS 1.2 has no word for it: handshake_failure.
			func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, meansRefusedSetup,
		},
		"version": {
			func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 },
			func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, meansRefusedSetup,
		},
		"no common protocol": {
			func(c *tls.Config) { c.NextProtos = []string{"h2"} },
			func(c *tls.Config) { c.NextProtos = []string{"x"} }, meansRefusedSetup,
		},
		"no common cipher": {
			func(c *tls.Config) { c.CipherSuites = []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256} },
			func(c *tls.Config) {
				c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}
			}, meansRefusedSetup,
		},
		"another alert": { // internal_error
			func(c *tls.Config) {
				c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("x") }
			},
			func(*tls.Config) {}, meansBroken,
		},
	} {
		t.Run(name, func(t *testing.T) {
			served := &tls.Config{}
			row.server(served)
			addr, config := tlsServer(t, served)
			row.client(config)
			err := handshake(t, addr, config)
			var refused *net.OpError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "remote error", refused.Op)
			asMeant(t, row.want, err)
		})
	}
}

// Every alert there can be: what is not listed is in doubt.
func TestLadderAlerts(t *testing.T) {
	addr, config := tlsServer(t, &tls.Config{MinVersion: tls.VersionTLS13})
	config.MaxVersion = tls.VersionTLS12
	var sent *net.OpError
	require.ErrorAs(t, handshake(t, addr, config), &sent)

	login := []int{42, 43, 44, 45, 46, 48, 49, 116}
	setup := []int{40, 70, 120}
	for n := range 256 {
		alert := reflect.New(reflect.TypeOf(sent.Err)).Elem()
		alert.SetUint(uint64(n))
		want := meansBroken
		switch {
		case slices.Contains(login, n):
			want = meansRefusedLogin
		case slices.Contains(setup, n):
			want = meansRefusedSetup
		}
		asMeant(t, want, op("remote error", alert.Interface().(error)))
	}
	// A number of another type is no alert.
	asMeant(t, meansBroken, op("remote error", tls.AlertError(42)))
	unrecognised(t, tls.AlertError(42))
}

// --- rule 11: where one error joins several causes, the least certain wins ---

func TestLadderJoined(t *testing.T) {
	dialed := op("dial", syscall.ECONNREFUSED)
	for name, row := range map[string]struct {
		err  error
		code Code
		one  Evidence
	}{
		"dials to two addresses":     {errors.Join(dialed, dialed), CodeDependencyUnavailable, EvidenceNotSent},
		"not sent, then reset":       {errors.Join(dialed, io.EOF), CodeOutcomeUnknown, EvidenceInDoubt},
		"reset, then not sent":       {fmt.Errorf("%w, then %w", io.EOF, dialed), CodeOutcomeUnknown, EvidenceInDoubt},
		"rejected, not sent":         {errors.Join(dialed, stateError("40001")), CodeSerializationConflict, EvidenceRejected},
		"rejected, then a timeout":   {errors.Join(stateError("23505"), context.DeadlineExceeded), CodeDeadlineExceeded, EvidenceInDoubt},
		"rejected, then who knows":   {errors.Join(stateError("23505"), errors.New("rollback failed")), CodeToolFailed, EvidenceInDoubt},
		"deep":                       {fmt.Errorf("a: %w", errors.Join(dialed, fmt.Errorf("b: %w", errors.Join(dialed, io.EOF)))), CodeOutcomeUnknown, EvidenceInDoubt},
		"a nil among them":           {timeoutErrors{nil, dialed}, CodeDependencyUnavailable, EvidenceNotSent},
		"no rows, then not sent":     {errors.Join(sql.ErrNoRows, dialed), CodeEmptyResult, EvidenceRejected},
		"not sent, tool says it was": {errors.Join(dialed, InDoubt(nil)), CodeOutcomeUnknown, EvidenceInDoubt},
	} {
		f := classification{oneRequest: true}.classify(row.err)
		assert.Equal(t, row.code, f.Code, name)
		assert.Equal(t, row.one, f.Evidence, name)
	}
	// Evidence of a request counts for nothing unless the tool makes one request
	// only, and names the failure beside what says nothing at all.
	for name, row := range map[string]struct {
		err  error
		code Code
	}{
		"rejected, not sent":         {errors.Join(stateError("40001"), dialed), CodeSerializationConflict},
		"not sent, rejected":         {errors.Join(dialed, stateError("40001")), CodeDependencyUnavailable},
		"rejected, then reset":       {errors.Join(stateError("40001"), io.EOF), CodeOutcomeUnknown},
		"rejected, then who knows":   {errors.Join(stateError("23505"), errors.New("rollback failed")), CodeToolFailed},
		"rejected, as the tool says": {errors.Join(Rejected(CodeConflict, nil), stateError("23505")), CodeAlreadyExists},
	} {
		f := classification{}.classify(row.err)
		assert.Equal(t, row.code, f.Code, name)
		assert.Equal(t, EvidenceInDoubt, f.Evidence, name)
	}
}

// FuzzLadder builds trees of errors. No tree makes it panic, and no answer is
// more certain than the least certain branch.
func FuzzLadder(f *testing.F) {
	for i := range len(fuzzLeaves()) + 8 {
		f.Add([]byte{byte(i), byte(i + 1), byte(i + 2), 0, byte(i)}, i%2 == 0, i%3 == 0)
	}
	f.Fuzz(func(t *testing.T, tree []byte, oneRequest, rejects bool) {
		if len(tree) > 256 {
			return
		}
		c := classification{oneRequest: oneRequest}
		if rejects { // ErrorsMean
			c.plain = EvidenceRejected
		}
		g := fuzzTree{c: c, code: tree, exact: true}
		err, bound := g.next(0)
		got := c.classify(err)
		rank := evidenceRank(got, oneRequest)
		if rank > bound || g.exact && rank != bound {
			t.Errorf("%#v: evidence %v (%d), the branches give %d", err, got.Evidence, rank, bound)
		}
		if got.Class != got.Class.Safe() || got.Category != got.Category.Safe() {
			t.Errorf("%#v: class %q, category %q", err, got.Class, got.Category)
		}
		if codeIndex[got.Code] == nil {
			t.Errorf("%#v: code %q", err, got.Code)
		}
		if got.ofRequest && !oneRequest && got.Evidence != EvidenceInDoubt {
			t.Errorf("%#v: evidence of a request was taken for the attempt", err)
		}
	})
}

func fuzzLeaves() []error {
	leaves := []error{
		errors.New("plain"), context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded,
		&net.DNSError{IsNotFound: true}, syscall.ECONNRESET, syscall.ENOENT, syscall.ETIMEDOUT,
		&json.SyntaxError{}, &json.UnmarshalTypeError{Type: reflect.TypeFor[int]()},
		&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, tls.RecordHeaderError{},
		x509.UnknownAuthorityError{}, tls.AlertError(42), &http.MaxBytesError{}, retryError{}, retryError{safe: true},
		stateError("23505"), stateError("28P01"), stateError("57014"), stateError("57P01"), stateError("P0001"), stateError("x"),
		timeoutErrors{}, timeoutError{}, timeoutError{is: true}, Rejected(CodeConflict, nil), InDoubt(nil), NotSent(nil),
		op("dial", errors.New("x")), op("read", errors.New("x")), op("write", errors.New("x")), op("remote error", errors.New("x")),
		op("accept", errors.New("x")), errors.New("invalid connection"),
	}
	for _, s := range sentinels {
		leaves = append(leaves, s.err)
	}
	return leaves
}

// fuzzTree reads a tree from bytes. Exact: nothing in it has a behaviour of its
// own around others, so the bound is reached.
type fuzzTree struct {
	c     classification
	code  []byte
	exact bool
}

func (g *fuzzTree) byte() int {
	if len(g.code) == 0 {
		return 0
	}
	b := g.code[0]
	g.code = g.code[1:]
	return int(b)
}

func (g *fuzzTree) next(depth int) (tree error, bound int) { //nolint:revive,staticcheck // the error is the value here
	leaves := fuzzLeaves()
	n := g.byte()
	if depth > 12 || n < len(leaves) {
		err := leaves[n%len(leaves)]
		return err, evidenceRank(g.c.classify(err), g.c.oneRequest)
	}
	err, bound := g.next(depth + 1)
	unsentBound := 0
	if g.c.oneRequest {
		unsentBound = evidenceRank(&Failure{Evidence: EvidenceNotSent}, true)
	}
	switch n % 10 {
	case 0:
		return fmt.Errorf("at %d: %w", depth, err), bound
	case 1, 2:
		second, other := g.next(depth + 1)
		return errors.Join(err, second), min(bound, other)
	case 3:
		second, other := g.next(depth + 1)
		return fmt.Errorf("%w and %w", err, second), min(bound, other)
	case 4:
		return timeoutErrors{nil, err}, g.behaves(bound)
	case 5:
		return timeoutError{is: true, err: err}, g.behaves(bound)
	case 6:
		return &url.Error{Op: "Post", URL: "/", Err: err}, g.behaves(bound)
	case 7:
		return retryError{safe: false, err: err}, g.behaves(bound)
	case 8: // states what it proves whatever is inside
		return retryError{safe: true, err: err}, unsentBound
	}
	return op("dial", err), unsentBound
}

func (g *fuzzTree) behaves(bound int) int {
	g.exact = false
	return bound
}

// --- adapters that watched a request ---

type (
	unsentError struct {
		is    bool
		cause error
	}
	answeredError struct{ f *Failure }
)

func (e unsentError) Error() string   { return "the request was not sent" }
func (e unsentError) NotSent() bool   { return e.is }
func (e unsentError) Unwrap() error   { return e.cause }
func (e answeredError) Error() string { return "status 409" }

func (e answeredError) RequestFailure() *Failure { return e.f }

// An error may say that its request was not sent, whatever it wraps; what it wraps
// says why.
func TestLadderNotSent(t *testing.T) {
	late := meansUnsent
	late.code = CodeDeadlineExceeded
	login := meansRefusedLogin
	login.one = EvidenceNotSent
	for name, row := range map[string]struct {
		cause error
		want  means
	}{
		"no cause":            {nil, meansUnsent},
		"nobody knows":        {errors.New("x"), meansUnsent},
		"closed":              {io.EOF, meansUnsent},
		"reset":               {op("read", syscall.ECONNRESET), meansUnsent},
		"time was up":         {context.DeadlineExceeded, late},
		"certificate refused": {stateError("28000"), login},
		"certificate":         {&tls.CertificateVerificationError{Err: errors.New("x")}, meansUnverified},
	} {
		t.Run(name, func(t *testing.T) {
			asMeant(t, row.want, unsentError{true, row.cause})
			asMeant(t, row.want, &url.Error{Op: "Post", Err: unsentError{true, row.cause}})
		})
	}
	unrecognised(t, unsentError{false, nil})
	asMeant(t, meansBroken, unsentError{false, io.EOF})
}

// An error may know the answer to its request. That is no word about the whole
// attempt, as a Failure is that the tool returns.
func TestLadderRequestFailure(t *testing.T) {
	conflict := means{ClassPermanent, CodeConflict, CategoryConflict, EvidenceInDoubt, EvidenceRejected}
	asMeant(t, conflict, answeredError{&Failure{Code: CodeConflict, Evidence: EvidenceRejected}})
	asMeant(t, conflict, timeoutError{true, answeredError{&Failure{Code: CodeConflict, Evidence: EvidenceRejected}}})
	committed := meansMalformed
	committed.one = EvidenceCommitted
	asMeant(t, committed, answeredError{&Failure{Code: CodeResultMalformed, Evidence: EvidenceCommitted}})

	all := classification{}.classify(answeredError{&Failure{Code: CodeRateLimited, RetryAfter: time.Minute, Details: Details{"a": 1}}})
	assert.Equal(t, time.Minute, all.RetryAfter)
	assert.Equal(t, Details{"a": 1}, all.Details)
	assert.Nil(t, requestFailure(answeredError{}))

	kept := &Failure{Code: CodeConflict, Evidence: EvidenceRejected}
	_ = classification{}.classify(answeredError{kept})
	assert.Equal(t, &Failure{Code: CodeConflict, Evidence: EvidenceRejected}, kept, "it is the adapter's own")
}
