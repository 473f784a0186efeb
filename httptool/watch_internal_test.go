package httptool

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/http/httptrace"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Internal, because net/http gives no occasion for what is guarded against: that
// it sends again after bytes of the first try are on the wire.

func got(c net.Conn) httptrace.GotConnInfo { return httptrace.GotConnInfo{Conn: c} }

func pipe(t *testing.T) *countedConn {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	go func() { // until it is closed
		for b := make([]byte, 64); ; {
			if _, err := there.Read(b); err != nil {
				return
			}
		}
	}()
	return &countedConn{Conn: here}
}

func TestSecondTryIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	w := &watch{cancel: cancel}
	first, second := pipe(t), pipe(t)
	w.gotConn(got(first))
	_, err := first.Write([]byte("POST"))
	require.NoError(t, err)
	w.gotConn(got(second))

	_, err = second.Write([]byte("POST"))
	require.ErrorIs(t, err, errSealed)
	require.ErrorIs(t, context.Cause(ctx), errStopped)
	assert.False(t, w.proves(errSealed))
}

func TestSecondTryAfterNothingIsLet(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	w := &watch{cancel: cancel}
	first, second := pipe(t), pipe(t)
	w.gotConn(got(first))
	w.gotConn(got(second))
	_, err := first.Write([]byte("POST"))
	require.ErrorIs(t, err, errSealed, "the goroutine of the first try may come late")
	_, err = second.Write([]byte("POST"))
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
	assert.False(t, w.proves(errors.New("lost")))
}

// A connection that nobody counted proves nothing, then or later.
func TestUncountedTries(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	w := &watch{cancel: cancel}
	w.gotConn(got(pipe(t).Conn))
	assert.False(t, w.proves(errors.New("lost")))
	w.gotConn(got(pipe(t)))
	require.NoError(t, ctx.Err())
	assert.False(t, w.proves(errors.New("lost")), "the second was counted, the first was not")
}

// A write that is under way may still arrive.
func TestSealWaitsForNobody(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _ = here.Close() }()
	c := &countedConn{Conn: here}
	done := make(chan error, 1)
	go func() { _, err := c.Write([]byte("POST")); done <- err }()
	_, err := there.Read(make([]byte, 1)) // it has begun
	require.NoError(t, err)
	assert.False(t, c.sealAt(0))
	require.NoError(t, there.Close())
	require.Error(t, <-done)
	assert.False(t, c.sealAt(0))
	assert.Equal(t, int64(1), c.count())
	assert.True(t, c.sealAt(1))
}

// A refusal of the handshake is proof on a fresh connection of TLS 1.3 before any
// answer. crypto/tls sends such an alert at no other time, others may.
func TestRefusedInHandshake(t *testing.T) {
	refused := alerted(t)
	for name, row := range map[string]struct {
		try  func(now, old *tls.Conn) try
		err  error
		want bool
	}{
		"fresh":             {func(now, _ *tls.Conn) try { return try{secured: now, fresh: true} }, refused, true},
		"reused":            {func(now, _ *tls.Conn) try { return try{secured: now} }, refused, false},
		"answered":          {func(now, _ *tls.Conn) try { return try{secured: now, fresh: true, answered: true} }, refused, false},
		"TLS 1.2":           {func(_, old *tls.Conn) try { return try{secured: old, fresh: true} }, refused, false},
		"not by crypto/tls": {func(_, _ *tls.Conn) try { return try{fresh: true} }, refused, false},
		"another error":     {func(now, _ *tls.Conn) try { return try{secured: now, fresh: true} }, io.EOF, false},
		"another alert": {func(now, _ *tls.Conn) try { return try{secured: now, fresh: true} },
			&net.OpError{Op: "remote error", Err: tls.AlertError(42)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			last := row.try(connected(t, tls.VersionTLS13), connected(t, tls.VersionTLS12))
			assert.Equal(t, row.want, last.refusedInHandshake(row.err))
		})
	}
	for n, want := range map[uint8]bool{0: false, 10: false, 20: false, 40: true, 42: true, 49: true, 51: false, 80: false, 90: false, 116: true, 120: true} {
		alert := reflect.New(reflect.TypeOf(refused.Err)).Elem()
		alert.SetUint(uint64(n))
		err := &net.OpError{Op: "remote error", Err: alert.Interface().(error)} //nolint:forcetypeassert // an alert is one
		last := try{secured: connected(t, tls.VersionTLS13), fresh: true}
		assert.Equal(t, want, last.refusedInHandshake(err), n)
	}
}

// handshake makes a connection between two configurations; err is the client's.
func handshake(t *testing.T, server, client *tls.Config) (*tls.Conn, error) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	t.Cleanup(s.Close)
	server.Certificates = s.TLS.Certificates
	client.InsecureSkipVerify = true
	here, there := net.Pipe()
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	go func() {
		c := tls.Server(there, server)
		_ = c.HandshakeContext(t.Context())
		_, _ = io.Copy(io.Discard, c)
	}()
	c := tls.Client(here, client)
	err := c.HandshakeContext(t.Context())
	return c, err
}

func connected(t *testing.T, version uint16) *tls.Conn {
	t.Helper()
	c, err := handshake(t, &tls.Config{MaxVersion: version, SessionTicketsDisabled: true}, &tls.Config{MaxVersion: version})
	require.NoError(t, err)
	return c
}

func alerted(t *testing.T) *net.OpError {
	t.Helper()
	_, err := handshake(t, &tls.Config{MinVersion: tls.VersionTLS13}, &tls.Config{MaxVersion: tls.VersionTLS12})
	var refused *net.OpError
	require.ErrorAs(t, err, &refused)
	return refused
}

// On a connection that others write to no count of bytes is a proof, and it must
// not be sealed.
func TestSharedConnectionIsNotSealed(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	w := &watch{prior: true, cancel: cancel}
	conn := pipe(t)
	w.gotConn(got(conn))
	assert.False(t, w.proves(context.DeadlineExceeded))
	w.last.headers = true
	w.gotConn(got(conn)) // net/http stays with it
	require.Error(t, ctx.Err())
	assert.True(t, w.proves(context.Canceled))
	_, err := conn.Write([]byte("another request"))
	require.NoError(t, err)
}
