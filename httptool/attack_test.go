package httptool_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/httptool"
)

// What an adversary did to the Transport, each in its smallest form.

// attackActs reads a whole request, counts it, and closes without an answer.
func attackActs(n *atomic.Int64) func(net.Conn, int) {
	return func(c net.Conn, _ int) {
		if req := reading(c)(); req != nil && req.Method != http.MethodGet {
			n.Add(1)
		}
	}
}

// Transport.Base: "Any other RoundTripper is used as it is and proves nothing, since it may do anything".
func TestAttackForeignBaseWithAFallback(t *testing.T) {
	var effects atomic.Int64
	url, dead := "http://"+listen(t, attackActs(&effects)), "http://"+deadAddr(t)
	first, second := bare(), new(httptool.Transport)
	t.Cleanup(first.CloseIdleConnections)
	t.Cleanup(second.CloseIdleConnections)
	fallback := roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := first.RoundTrip(req) // has the effect, the answer is lost
		if err == nil {
			return resp, nil
		}
		again, err2 := http.NewRequestWithContext(req.Context(), http.MethodPost, dead, nil)
		require.NoError(t, err2)
		resp, err2 = second.RoundTrip(again)
		if err2 != nil {
			return nil, errors.Join(err, err2)
		}
		return resp, nil
	})
	env := once(t, marks, func(ctx context.Context) error { return post(ctx, over(t, fallback), url) })
	assert.Equal(t, int64(1), effects.Load())
	assert.Equal(t, unk.String(), env.CommitState.String(), "%v", env.Code)
}

// The body's own error is not the request's: "Nothing else is [a proof]".
func TestAttackBodyFailsWithANotSent(t *testing.T) {
	for name, cause := range map[string]func(ctx context.Context, t *testing.T) error{
		"of a Transport": func(ctx context.Context, t *testing.T) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+deadAddr(t), nil)
			require.NoError(t, err)
			_, err = over(t, nil).Transport.RoundTrip(req) //nolint:bodyclose // nobody answers
			require.Error(t, err)
			return err
		},
		"of a Transport, wrapped": func(ctx context.Context, t *testing.T) error {
			err := post(ctx, over(t, nil), "http://"+deadAddr(t)) // marks, and takes back
			require.ErrorIs(t, err, httptool.ErrNotSent)
			return err
		},
		"a name": func(context.Context, *testing.T) error { return &net.DNSError{Err: "no such host", IsNotFound: true} },
		"a dial": func(context.Context, *testing.T) error { return &net.OpError{Op: "dial", Net: "tcp", Err: io.EOF} },
	} {
		for kind, s := range map[string]shape{"MarksSent": marks, "OneRequest": one} {
			t.Run(name+", "+kind, func(t *testing.T) {
				var effects atomic.Int64
				acted := make(chan struct{})
				url := "http://" + listen(t, func(c net.Conn, _ int) { // acts when it has the first line of the body
					b := make([]byte, 4096)
					var got string
					for !strings.Contains(got, "refund 80") {
						n, err := c.Read(b)
						if err != nil {
							return
						}
						got += string(b[:n])
					}
					effects.Add(1)
					close(acted)
					hold(c)
				})
				env := once(t, s, func(ctx context.Context) error {
					body := io.MultiReader(strings.NewReader("refund 80\n"+strings.Repeat("x", 1<<16)), attackFails{cause(ctx, t), acted})
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
					require.NoError(t, err)
					resp, err := over(t, nil).Do(req)
					if err == nil {
						resp.Body.Close()
					}
					return err
				})
				assert.Equal(t, unk.String(), env.CommitState.String(), "%v", env.Code)
			})
		}
	}
}

// attackFails fails when the server has acted on what it has.
type attackFails struct {
	err   error
	acted chan struct{}
}

func (f attackFails) Read([]byte) (int, error) { <-f.acted; return 0, f.err }

// On connections that are not counted a request whose body cannot be had again
// must not be sent with another body.
func TestAttackEmptyBodyIsSent(t *testing.T) {
	for name, length := range map[string]int64{"known length": 2, "chunked": -1} {
		t.Run(name, func(t *testing.T) {
			bodies := make(chan string, 4)
			addr, base := secured(t, &tls.Config{}, func(c *tls.Conn, _ int) {
				_ = http.Serve(&attackOne{c: c}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					b, _ := io.ReadAll(req.Body)
					if req.Method == http.MethodPost {
						bodies <- string(b)
					}
					_, _ = io.WriteString(w, "{}")
				}))
				<-t.Context().Done()
			})
			base.ForceAttemptHTTP2 = false
			stale := &staleConns{}
			base.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := (&tls.Dialer{Config: base.TLSClientConfig}).DialContext(ctx, network, addr)
				return &staleConn{c, stale, stale.dials.Add(1)}, err
			}
			client := over(t, base)
			warm(t, client, "https://"+addr)
			stale.now.Store(true)
			once(t, marks, func(ctx context.Context) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addr, io.LimitReader(strings.NewReader("{}"), 2))
				require.NoError(t, err)
				req.ContentLength = length
				resp, err := client.Do(req)
				if err != nil {
					return err
				}
				resp.Body.Close()
				return nil
			})
			close(bodies)
			for b := range bodies {
				assert.Equal(t, "{}", b, "a body that nobody wrote")
			}
		})
	}
}

type attackOne struct {
	c    net.Conn
	done bool
}

func (l *attackOne) Accept() (net.Conn, error) {
	if l.done {
		return nil, net.ErrClosed
	}
	l.done = true
	return l.c, nil
}
func (l *attackOne) Close() error   { return nil }
func (l *attackOne) Addr() net.Addr { return l.c.LocalAddr() }

// Endpoint.do: "It marks itself, so that the tool's MarksSent holds whatever the client sends through".
func TestAttackEndpointOverAFallback(t *testing.T) {
	for name, ownFirst := range map[string]bool{"Transport first": true, "Transport second": false} {
		t.Run(name, func(t *testing.T) {
			var effects atomic.Int64
			url, dead := "http://"+listen(t, attackActs(&effects)), "http://"+deadAddr(t)
			foreign, own := bare(), new(httptool.Transport)
			t.Cleanup(foreign.CloseIdleConnections)
			t.Cleanup(own.CloseIdleConnections)
			to := func(req *http.Request, url string) *http.Request {
				out, err := http.NewRequestWithContext(req.Context(), req.Method, url, strings.NewReader("{}"))
				require.NoError(t, err)
				return out
			}
			e := &httptool.Endpoint[refundIn, receipt]{URL: url, Client: &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
				if ownFirst {
					if resp, err := own.RoundTrip(to(req, dead)); err == nil {
						return resp, nil
					}
					return foreign.RoundTrip(to(req, url))
				}
				if resp, err := foreign.RoundTrip(to(req, url)); err == nil {
					return resp, nil
				}
				return own.RoundTrip(to(req, dead))
			})}}
			env := call(t, e.Tool("x"), refundIn{})
			assert.Equal(t, int64(1), effects.Load())
			assert.Equal(t, unk.String(), env.CommitState.String(), "%v", env.Code)
		})
	}
}

// "A request goes out once."
func TestAttackDeleteOverHTTP2(t *testing.T) {
	for name, row := range map[string]struct {
		method string
		client func(b *http.Transport) *http.Client
	}{
		"DELETE, Endpoint over net/http":      {http.MethodDelete, func(b *http.Transport) *http.Client { return &http.Client{Transport: b} }},
		"DELETE, Endpoint over foreign base":  {http.MethodDelete, func(b *http.Transport) *http.Client { return over(t, roundTripper(b.RoundTrip)) }},
		"DELETE, Endpoint over own Transport": {http.MethodDelete, func(b *http.Transport) *http.Client { return over(t, b) }},
		"POST, Endpoint over net/http":        {http.MethodPost, func(b *http.Transport) *http.Client { return &http.Client{Transport: b} }},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			addr, base := h2(t, func(f *framer, _ int, stream uint32) {
				if n.Add(1) == 1 {
					f.send(frameReset, 0, stream, number(codeProtocol)...)
					return
				}
				f.answer(stream)
			})
			t.Cleanup(base.CloseIdleConnections)
			e := &httptool.Endpoint[refundIn, receipt]{Method: row.method, URL: "https://" + addr, Client: row.client(base)}
			call(t, e.Tool("x"), refundIn{})
			assert.Equal(t, int64(1), n.Load(), "sent once")
		})
	}
}

// "TLS 1.3: the server refused the handshake, with the alert that says so, on a fresh
// connection before any answer. Nothing else is one."
func TestAttackAlertOnAReusedConnection(t *testing.T) {
	var effects atomic.Int64
	// A real alert of the type that crypto/tls has: of a refused handshake.
	refusing, base0 := secured(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert}, func(*tls.Conn, int) {})
	base0.TLSClientConfig.MaxVersion = tls.VersionTLS12
	_, err := base0.RoundTrip(attackRequest(t, http.MethodGet, "https://"+refusing)) //nolint:bodyclose // nobody answers
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "remote error", op.Op)

	addr := listen(t, func(c net.Conn, _ int) {
		for next := reading(c); ; {
			req := next()
			if req == nil {
				return
			}
			if req.Method == http.MethodPost {
				effects.Add(1)
				return
			}
			write(c, okAnswer)
		}
	})
	base := bare()
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &attackAlertConn{Conn: c, err: op}, err
	}
	client := over(t, base)
	warm(t, client, "http://"+addr)
	env := once(t, one, func(ctx context.Context) error { return post(ctx, client, "http://"+addr) })
	assert.Equal(t, int64(1), effects.Load())
	assert.Equal(t, unk.String(), env.CommitState.String(), "%v", env.Code)
}

func attackRequest(t *testing.T, method, url string) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	return req
}

// attackAlertConn ends with the alert where the other side closes.
type attackAlertConn struct {
	net.Conn
	err error
}

func (c *attackAlertConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		err = c.err
	}
	return n, err
}

// Endpoint.Request: "completes the request before it is sent: credentials, a signature, another body".
func TestAttackAnotherBodyOnAStaleConnection(t *testing.T) {
	var got atomic.Value
	url := "http://" + listen(t, func(c net.Conn, _ int) {
		_ = http.Serve(&attackOne{c: c}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			b, _ := io.ReadAll(req.Body)
			if req.Method == http.MethodPost {
				got.Store(string(b))
			}
			_, _ = io.WriteString(w, "{}")
		}))
		<-t.Context().Done()
	})
	stale := &staleConns{}
	client := over(t, &http.Transport{DialContext: stale.dial})
	warm(t, client, url)
	stale.now.Store(true)
	e := &httptool.Endpoint[refundIn, receipt]{URL: url, Client: client, Request: func(_ context.Context, _ refundIn, req *http.Request) error {
		req.Body = io.NopCloser(strings.NewReader(`{"order_id":"1","cents":1111}`))
		req.ContentLength = int64(len(`{"order_id":"1","cents":1111}`))
		return nil
	}}
	call(t, e.Tool("x"), refundIn{OrderID: "1", Cents: 8000})
	if b := got.Load(); b != nil {
		assert.Equal(t, `{"order_id":"1","cents":1111}`, b)
	}
}

// "A request goes out once", also where the second connection speaks HTTP/1 and is
// not counted.
func TestAttackSecondConnectionIsHTTP1(t *testing.T) {
	for name, counted := range map[string]bool{"counted": true, "not counted": false} {
		t.Run(name, func(t *testing.T) {
			var n, conns atomic.Int64
			cert, pool := certify(t, false)
			addr := listen(t, func(c net.Conn, _ int) {
				config := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
				if conns.Add(1) > 1 {
					config.NextProtos = []string{"http/1.1"}
				}
				s := tls.Server(c, config)
				if s.HandshakeContext(t.Context()) != nil {
					return
				}
				if conns.Load() > 1 {
					if reading(s)() != nil {
						n.Add(1)
						write(s, okAnswer)
					}
					return
				}
				f := &framer{Conn: s}
				for {
					stream, ok := f.request()
					if !ok {
						return
					}
					n.Add(1)
					f.send(frameReset, 0, stream, number(codeProtocol)...)
				}
			})
			base := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
			if !counted {
				base.DialTLSContext = (&tls.Dialer{Config: &tls.Config{RootCAs: pool, NextProtos: []string{"h2", "http/1.1"}}}).DialContext
			}
			env := once(t, marks, func(ctx context.Context) error { return post(ctx, over(t, base), "https://"+addr) })
			assert.Equal(t, int64(1), n.Load(), "sent once")
			assert.Equal(t, unk.String(), env.CommitState.String(), "%v", env.Code)
		})
	}
}
