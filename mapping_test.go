package toolexec_test

import (
	"cmp"
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
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/internal/mappingpage"
)

const mappingPath = "docs/mapping.md"

// TestMappingOwners: each row of the page is of a prefix that tests of one package
// match, so that no row is on the page alone.
func TestMappingOwners(t *testing.T) {
	rows, err := mappingpage.Read(mappingPath)
	require.NoError(t, err)
	ids, prefixes := make(map[string]bool), make(map[string]bool)
	for _, r := range rows {
		assert.False(t, ids[r.ID], "%s is there twice", r.ID)
		assert.Contains(t, mappingpage.Owners, r.Prefix(), r.ID)
		ids[r.ID], prefixes[r.Prefix()] = true, true
	}
	for prefix, dir := range mappingpage.Owners {
		assert.True(t, prefixes[prefix], "no row of %s-…", prefix)
		assert.True(t, mappingMatched(t, dir, prefix), "no test in %s matches the rows of %s-…", dir, prefix)
	}
}

// mappingMatched reports whether a test of a directory matches the rows of a
// prefix.
func mappingMatched(t *testing.T, dir, prefix string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	call := regexp.MustCompile(`mappingpage\.(Match|Of)\([^,]+, "` + prefix + `"`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if call.Match(text) {
			return true
		}
	}
	return false
}

// mappingRun is a tool that meets a row's signal, as much of it as is asked for.
// Cancel is the caller's.
type mappingRun struct {
	run       func(ctx context.Context, cancel func()) (string, error)
	arguments string // in JSON; "" is fine
}

// mappingErrs are tools that return these errors, bare and wrapped.
func mappingErrs(errs ...error) (runs []mappingRun) {
	for _, err := range errs {
		for _, err := range []error{err, fmt.Errorf("refunding: %w", err)} {
			runs = append(runs, mappingRun{run: func(context.Context, func()) (string, error) { return "done", err }})
		}
	}
	return runs
}

// mappingDoes is one tool.
func mappingDoes(run func(ctx context.Context, cancel func()) (string, error)) []mappingRun {
	return []mappingRun{{run: run}}
}

// TestMappingGo runs the rows of Go's own errors.
func TestMappingGo(t *testing.T) {
	cases := mappingGo(t)
	rows, err := mappingpage.Match(mappingPath, "go", cases)
	require.NoError(t, err)
	for _, row := range rows {
		t.Run(row.ID, func(t *testing.T) {
			require.NotEmpty(t, cases[row.ID])
			for _, run := range cases[row.ID] {
				assert.Equal(t, row.Cells, mappingCells(t, run))
			}
		})
	}
}

// TestMappingSQL runs the rows of database/sql, and of SQLSTATE: each state that
// a row names, as a driver's error.
func TestMappingSQL(t *testing.T) {
	named := map[string]error{
		"sql-no-rows":           sql.ErrNoRows,
		"sql-conn-done":         sql.ErrConnDone,
		"sql-tx-done":           sql.ErrTxDone,
		"sql-bad-conn":          driver.ErrBadConn,
		"sql-safe-to-retry":     mappingRetryError{safe: true, err: io.ErrUnexpectedEOF},
		"sql-not-safe-to-retry": mappingRetryError{err: errors.New("conn closed")},
	}
	rows, err := mappingpage.Of(mappingPath, "sql")
	require.NoError(t, err)
	for _, row := range rows {
		t.Run(row.ID, func(t *testing.T) {
			for _, err := range mappingStates(t, row, named) {
				for _, run := range mappingErrs(err) {
					assert.Equal(t, row.Cells, mappingCells(t, run), err.Error())
				}
			}
			delete(named, row.ID)
		})
	}
	assert.Empty(t, named, "cases that no row is about")
}

// mappingStates are the errors that a row is about: the one named as it is, or
// those of the states in its signal. Two characters are a class.
func mappingStates(t *testing.T, row mappingpage.Row, named map[string]error) (errs []error) {
	t.Helper()
	if err, ok := named[row.ID]; ok {
		return []error{err}
	}
	for _, state := range row.Codes {
		require.Regexp(t, "^([0-9A-Z]{2}|[0-9A-Z]{5})$", state)
		errs = append(errs, mappingStateError((state + "000")[:5]))
	}
	require.NotEmpty(t, errs, "a row says in its signal what it is about")
	return errs
}

// mappingCells runs a tool as a write, as one that declares OneRequest, and as a
// read.
func mappingCells(t *testing.T, run mappingRun) map[string]string {
	t.Helper()
	call := func(name string, tool toolexec.Tool[mappingIn, string]) mappingpage.Column[json.RawMessage] {
		x := toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		tool.Name = "tool"
		tool.Run = func(ctx context.Context, _ mappingIn) (string, error) { return run.run(ctx, cancel) }
		toolexec.Bind(&x, tool)
		env := x.Execute(ctx, toolexec.Call{Name: tool.Name, Arguments: []byte(cmp.Or(run.arguments, `{"cents":8000}`))})
		require.NoError(t, x.Close(t.Context()))
		return mappingpage.Column[json.RawMessage]{Name: name, Env: env}
	}
	return mappingpage.Cells(
		call("write", toolexec.Tool[mappingIn, string]{}),
		call("write, OneRequest", toolexec.Tool[mappingIn, string]{OneRequest: true}),
		call("read", toolexec.Tool[mappingIn, string]{Effect: toolexec.ReadOnly}))
}

type mappingIn struct {
	Cents int `json:"cents"`
}

// Errors of drivers have these methods.
type (
	mappingStateError string
	mappingRetryError struct {
		safe bool
		err  error
	}
	mappingTimeoutError struct{}
	mappingUnsentError  struct{}
	mappingAnswerError  struct{}
)

func (e mappingStateError) Error() string    { return "SQLSTATE " + string(e) }
func (e mappingStateError) SQLState() string { return string(e) }

func (e mappingRetryError) Error() string     { return "conn busy" }
func (e mappingRetryError) SafeToRetry() bool { return e.safe }
func (e mappingRetryError) Unwrap() error     { return e.err }

func (mappingTimeoutError) Error() string { return "i/o timeout" }
func (mappingTimeoutError) Timeout() bool { return true }

func (mappingUnsentError) Error() string { return "not sent" }
func (mappingUnsentError) NotSent() bool { return true }

func (mappingAnswerError) Error() string { return "409" }
func (mappingAnswerError) RequestFailure() *toolexec.Failure {
	return toolexec.Rejected(toolexec.CodeConflict, nil)
}

func mappingOp(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }

// mappingGo are the signals of the rows of Go's own errors.
func mappingGo(t *testing.T) map[string][]mappingRun {
	refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
	dial := mappingOp("dial", refused)
	stranger := x509.UnknownAuthorityError{}
	var n struct{ N int }
	_, tooLong := io.ReadAll(http.MaxBytesReader(nil, io.NopCloser(strings.NewReader("too long")), 3))
	return map[string][]mappingRun{
		"go-dial": mappingErrs(dial, mappingOp("dial", os.NewSyscallError("connect", syscall.EHOSTUNREACH)),
			mappingOp("dial", os.ErrDeadlineExceeded), &url.Error{Op: "Post", Err: dial}),
		"go-proxy": mappingErrs(mappingOp("proxyconnect", io.EOF), mappingOp("socks connect", refused)),
		"go-dns": mappingErrs(&net.DNSError{IsNotFound: true}, &net.DNSError{IsTimeout: true}, &net.DNSError{IsTemporary: true},
			&net.DNSError{}),
		"go-unsent":     mappingErrs(mappingUnsentError{}),
		"go-mark-sent":  mappingErrs(toolexec.ErrNotSent),
		"go-answered":   mappingErrs(mappingAnswerError{}),
		"go-tls-peer":   mappingErrs(&tls.CertificateVerificationError{Err: stranger}),
		"go-tls-plain":  mappingErrs(mappingPlainPeer(t)),
		"go-tls-record": mappingErrs(tls.RecordHeaderError{Msg: "oversized"}),
		"go-x509": mappingErrs(stranger, x509.HostnameError{Certificate: &x509.Certificate{}, Host: "example.com"},
			x509.CertificateInvalidError{Cert: &x509.Certificate{}}),
		"go-alert-login": mappingErrs(mappingAlerts(t, 42, 43, 44, 45, 46, 48, 49, 116)...),
		"go-alert-setup": mappingErrs(mappingAlerts(t, 40, 70, 120)...),
		"go-alert-other": mappingErrs(mappingAlerts(t, 0, 10, 20, 80, 90)...),

		"go-deadline":       mappingErrs(context.DeadlineExceeded),
		"go-timeout":        mappingErrs(os.ErrDeadlineExceeded, mappingTimeoutError{}, mappingOp("read", os.ErrDeadlineExceeded), &url.Error{Op: "Post", Err: mappingTimeoutError{}}),
		"go-cancelled":      mappingDoes(func(ctx context.Context, cancel func()) (string, error) { cancel(); return "", ctx.Err() }),
		"go-cancel-made-up": mappingErrs(context.Canceled),
		"go-eof":            mappingErrs(io.EOF, io.ErrUnexpectedEOF, &url.Error{Op: "Post", Err: io.EOF}),
		"go-reset":          mappingErrs(mappingOp("read", os.NewSyscallError("read", syscall.ECONNRESET)), syscall.ECONNRESET, syscall.ECONNABORTED),
		"go-write":          mappingErrs(mappingOp("write", os.NewSyscallError("write", syscall.EPIPE)), syscall.EPIPE),
		"go-closed":         mappingErrs(net.ErrClosed, io.ErrClosedPipe),
		"go-h2":             mappingErrs(mappingReset(t)),
		"go-url":            mappingErrs(&url.Error{Op: "Post", Err: errors.New("malformed HTTP response")}),

		"go-arguments": {{arguments: `{"cents":"eight"}`}},
		"go-json":      mappingErrs(json.Unmarshal([]byte(`{"n":`), &n), json.Unmarshal([]byte(`{"n":"1"}`), &n)),
		"go-too-large": mappingErrs(tooLong),
		"go-empty":     mappingDoes(func(context.Context, func()) (string, error) { return "", nil }),
		"go-panic":     mappingDoes(func(context.Context, func()) (string, error) { panic("no") }),
		"go-joined":    mappingErrs(errors.Join(dial, io.EOF), errors.Join(io.EOF, dial), fmt.Errorf("%w and %w", mappingStateError("40001"), io.EOF)),
		"go-other":     mappingErrs(errors.New("no"), http.ErrServerClosed, http.ErrSchemeMismatch, os.ErrNotExist, syscall.ENOENT),
	}
}

// mappingReset is what net/http says of a stream that its server reset.
func mappingReset(t *testing.T) error {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
	require.NoError(t, err)
	resp, err := server.Client().Do(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// mappingHandshake is what a client of TLS is told by a server.
func mappingHandshake(t *testing.T, serve func(net.Conn)) error {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	go serve(there)
	return tls.Client(here, &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true}).HandshakeContext(t.Context())
}

// mappingPlainPeer is the error of a handshake with a server that speaks no TLS.
func mappingPlainPeer(t *testing.T) error {
	t.Helper()
	return mappingHandshake(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1<<10))
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
}

// mappingAlerts are errors that crypto/tls makes of the alerts of a peer. Their
// type is not exported, so one is had from a handshake.
func mappingAlerts(t *testing.T, alerts ...uint64) (errs []error) {
	t.Helper()
	var refused *net.OpError
	require.ErrorAs(t, mappingHandshake(t, func(c net.Conn) {
		_ = tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS13}).HandshakeContext(t.Context())
	}), &refused)
	for _, n := range alerts {
		alert := reflect.New(reflect.TypeOf(refused.Err)).Elem()
		alert.SetUint(n)
		errs = append(errs, mappingOp("remote error", alert.Interface().(error))) //nolint:forcetypeassert // an alert is one
	}
	return errs
}
