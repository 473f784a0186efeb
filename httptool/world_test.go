package httptool_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/httptool"
)

// listen accepts connections and gives each to serve, which owns it until it
// returns; n counts them from 1.
func listen(t *testing.T, serve func(c net.Conn, n int)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	accept(t, l, serve)
	return l.Addr().String()
}

func accept(t *testing.T, l net.Listener, serve func(c net.Conn, n int)) {
	t.Helper()
	var served sync.WaitGroup
	var mu sync.Mutex
	open := make(map[net.Conn]bool)
	served.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			served.Go(func() {
				defer func() { _ = c.Close() }()
				serve(c, n)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		served.Wait()
	})
}

// deadAddr is an address where nobody listens.
func deadAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// reading returns a function that reads the next request of c whole.
func reading(c net.Conn) func() *http.Request {
	r := bufio.NewReader(c)
	return func() *http.Request {
		req, err := http.ReadRequest(r)
		if err != nil {
			return nil
		}
		_, _ = io.Copy(io.Discard, req.Body)
		return req
	}
}

func write(c net.Conn, s string) { _, _ = io.WriteString(c, s) }

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// reset makes the close of c a reset.
func reset(c net.Conn) {
	if s, ok := c.(*tls.Conn); ok {
		c = s.NetConn()
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// certify makes a self-signed certificate for 127.0.0.1 and a pool that holds it.
func certify(t *testing.T, expired bool) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().AddDate(-2, 0, 0), NotAfter: time.Now().AddDate(1, 0, 0),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if expired {
		template.NotAfter = time.Now().AddDate(-1, 0, 0)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// secured is listen under TLS; the returned base trusts the server.
func secured(t *testing.T, config *tls.Config, serve func(c *tls.Conn, n int)) (addr string, base *http.Transport) {
	t.Helper()
	cert, pool := certify(t, false)
	if config.Certificates == nil {
		config.Certificates = []tls.Certificate{cert}
	}
	addr = listen(t, func(c net.Conn, n int) {
		s := tls.Server(c, config)
		if s.HandshakeContext(t.Context()) == nil {
			serve(s, n)
		}
	})
	return addr, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
}

// frames of HTTP/2 (RFC 9113 §6): as much as a server needs that refuses.
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	framePing     = 6
	frameGoAway   = 7

	codeNone     = 0
	codeProtocol = 1
	codeRefused  = 7
)

type framer struct {
	net.Conn
	preface bool
}

func (f *framer) send(kind, flags byte, stream uint32, payload ...byte) {
	head := make([]byte, 9, 9+len(payload))
	head[1], head[2] = byte(len(payload)>>8), byte(len(payload))
	head[3], head[4] = kind, flags
	binary.BigEndian.PutUint32(head[5:], stream)
	_, _ = f.Write(append(head, payload...))
}

func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// request reads until a request has ended, and returns its stream; false when
// the connection did.
func (f *framer) request() (stream uint32, ok bool) {
	if !f.preface {
		f.preface = true
		if _, err := io.ReadFull(f, make([]byte, 24)); err != nil {
			return 0, false
		}
		f.send(frameSettings, 0, 0)
	}
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(f, head); err != nil {
			return 0, false
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(f, payload); err != nil {
			return 0, false
		}
		kind, flags := head[3], head[4]
		switch {
		case kind == frameSettings && flags&1 == 0:
			f.send(frameSettings, 1, 0)
		case kind == framePing && flags&1 == 0:
			f.send(framePing, 1, 0, payload...)
		case (kind == frameHeaders || kind == frameData) && flags&1 != 0:
			return binary.BigEndian.Uint32(head[5:]), true
		}
	}
}

// answer says 200 with an empty body: 0x88 is ":status: 200" in HPACK.
func (f *framer) answer(stream uint32) { f.send(frameHeaders, 5, stream, 0x88) }

// h2 is a server of HTTP/2 that gives each request to serve.
func h2(t *testing.T, serve func(f *framer, conn int, stream uint32)) (addr string, base *http.Transport) {
	t.Helper()
	return secured(t, &tls.Config{NextProtos: []string{"h2"}}, func(c *tls.Conn, n int) {
		f := &framer{Conn: c}
		for {
			stream, ok := f.request()
			if !ok {
				return
			}
			serve(f, n, stream)
		}
	})
}

// shape is what a tool declares.
type shape struct{ marks, one bool }

var (
	marks = shape{marks: true}
	one   = shape{one: true}
	plain = shape{}
)

// once runs f as the single attempt of a Write.
func once(t *testing.T, s shape, f func(ctx context.Context) error) toolexec.Envelope[string] {
	t.Helper()
	return attempt(t, toolexec.Tool[int, string]{
		Name: "post", MarksSent: s.marks, OneRequest: s.one,
		Run: func(ctx context.Context, _ int) (string, error) { return "done", f(ctx) },
	})
}

// deadline is what an attempt has where it is to run out of time. Others have
// enough for a busy machine.
const deadline = 150 * time.Millisecond

func attempt[Out any](t *testing.T, tool toolexec.Tool[int, Out]) toolexec.Envelope[Out] {
	t.Helper()
	x := &toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1, Deadline: 20 * time.Second, TotalDeadline: 30 * time.Second}}
	t.Cleanup(func() { assert.NoError(t, x.Close(t.Context())) })
	return toolexec.Bind(x, tool).Call(t.Context(), 7)
}

// post sends a POST with a body and checks the answer.
func post(ctx context.Context, client *http.Client, url string) error {
	return send(ctx, client, http.MethodPost, url, strings.NewReader(`{"cents":8000}`))
}

func send(ctx context.Context, client *http.Client, method, url string, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := httptool.CheckResponse(resp); err != nil {
		return err
	}
	_, err = httptool.ReadBody(resp, 1<<20)
	return err
}

// over returns a client that sends through a Transport on base.
func over(t *testing.T, base http.RoundTripper) *http.Client {
	t.Helper()
	tr := &httptool.Transport{Base: base}
	t.Cleanup(tr.CloseIdleConnections)
	return tr.Client()
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}
