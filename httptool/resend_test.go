package httptool_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/httptool"
)

// counter counts the requests of a server that answers the first on each
// connection and dies with the second.
type counter struct{ posts atomic.Int64 }

func (n *counter) serve(c net.Conn, _ int) {
	next := reading(c)
	for i := 0; ; i++ {
		req := next()
		if req == nil {
			return
		}
		if req.Method != http.MethodGet {
			n.posts.Add(1)
		}
		if i > 0 {
			return
		}
		write(c, okAnswer)
	}
}

// warm makes the client have an idle connection.
func warm(t *testing.T, client *http.Client, url string) {
	t.Helper()
	require.NoError(t, send(t.Context(), client, http.MethodGet, url, nil))
}

// net/http sends a request with an idempotency key again when a reused connection
// breaks, whatever the server thinks of the key.
func TestNoResendOnAReusedConnection(t *testing.T) {
	bodies := map[string]func() io.Reader{
		"rewindable body": func() io.Reader { return strings.NewReader("{}") },
		"opaque body":     func() io.Reader { return io.LimitReader(strings.NewReader("{}"), 2) },
		"no body":         func() io.Reader { return nil },
	}
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		for name, body := range bodies {
			t.Run(header+", "+name, func(t *testing.T) {
				run := func(client *http.Client) (int64, toolexec.Envelope[string]) {
					var n counter
					url := "http://" + listen(t, n.serve)
					warm(t, client, url)
					env := once(t, marks, func(ctx context.Context) error {
						if err := toolexec.MarkSent(ctx); err != nil {
							return err
						}
						req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body())
						require.NoError(t, err)
						req.Header.Set(header, toolexec.OperationRef(ctx))
						resp, err := client.Do(req)
						if err == nil {
							resp.Body.Close()
						}
						return err
					})
					return n.posts.Load(), env
				}
				sent, env := run(over(t, bare()))
				assert.Equal(t, int64(1), sent)
				assert.Equal(t, unk, env.CommitState)
				assert.Equal(t, unknown, env.Code)

				foreign := roundTripper((&http.Transport{}).RoundTrip)
				sent, env = run(over(t, foreign))
				assert.Equal(t, int64(1), sent, "over a RoundTripper that is not ours")
				assert.Equal(t, unk, env.CommitState)

				alone := bare()
				t.Cleanup(alone.CloseIdleConnections)
				sent, _ = run(&http.Client{Transport: alone})
				if name == "opaque body" {
					assert.Equal(t, int64(1), sent)
				} else {
					assert.Equal(t, int64(2), sent, "net/http has changed: see whether this is needed still")
				}
			})
		}
	}
}

// Connections that nobody counts cannot be sealed: there the request has to look as
// if it could not be sent again.
func TestNoResendOnAnUncountedConnection(t *testing.T) {
	var n counter
	addr, base := secured(t, &tls.Config{}, func(c *tls.Conn, i int) { n.serve(c, i) })
	base.DialTLSContext = (&tls.Dialer{Config: base.TLSClientConfig}).DialContext
	tr := &httptool.Transport{Base: base, IdempotencyHeader: "Idempotency-Key"}
	t.Cleanup(tr.CloseIdleConnections)
	warm(t, tr.Client(), "https://"+addr)
	env := once(t, marks, func(ctx context.Context) error { return post(ctx, tr.Client(), "https://"+addr) })
	assert.Equal(t, int64(1), n.posts.Load())
	assert.Equal(t, unk, env.CommitState)

	// No connection is a proof still.
	env = once(t, marks, func(ctx context.Context) error { return post(ctx, tr.Client(), "https://"+deadAddr(t)) })
	assert.Equal(t, nc, env.CommitState)
}

// Of an HTTP/2 that is not that of net/http nobody knows when it has a connection.
func TestForeignHTTP2ProvesNothing(t *testing.T) {
	base := &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{
		"h3": func(string, *tls.Conn) http.RoundTripper { return nil },
	}}
	env := once(t, marks, func(ctx context.Context) error { return post(ctx, over(t, base), "https://"+deadAddr(t)) })
	assert.Equal(t, unk, env.CommitState)
}

// A connection that the server had closed before anything was written to it is
// replaced, and nobody waits for a retry.
func TestStaleConnectionIsReplaced(t *testing.T) {
	for name, body := range map[string]io.Reader{"body": strings.NewReader("{}"), "no body": nil} {
		t.Run(name, func(t *testing.T) {
			var posts atomic.Int64
			url := "http://" + listen(t, func(c net.Conn, _ int) {
				for next := reading(c); ; {
					req := next()
					if req == nil {
						return
					}
					if req.Method == http.MethodPost {
						posts.Add(1)
					}
					write(c, okAnswer)
				}
			})
			stale := &staleConns{}
			client := over(t, &http.Transport{DialContext: stale.dial})
			warm(t, client, url)
			stale.now.Store(true) // the connection there is takes no byte any more
			env := once(t, marks, func(ctx context.Context) error { return send(ctx, client, http.MethodPost, url, body) })
			assert.True(t, env.OK, "%v", env)
			assert.Equal(t, int64(1), posts.Load())
			assert.Equal(t, int64(2), stale.dials.Load())
		})
	}
}

// staleConns are connections of which the first takes no byte any more once it is
// now, as one whose other end is gone.
type staleConns struct {
	now   atomic.Bool
	dials atomic.Int64
}

func (s *staleConns) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &staleConn{conn, s, s.dials.Add(1)}, err
}

type staleConn struct {
	net.Conn
	all *staleConns
	n   int64
}

func (c *staleConn) Write(b []byte) (int, error) {
	if c.n == 1 && c.all.now.Load() {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: io.ErrClosedPipe}
	}
	return c.Conn.Write(b)
}

// When no other connection can be had nothing was sent still; a body that cannot
// be had again makes no difference to that.
func TestStaleConnectionWithoutAnother(t *testing.T) {
	for name, body := range map[string]io.Reader{"rewindable": strings.NewReader("{}"), "opaque": io.LimitReader(strings.NewReader("{}"), 2)} {
		t.Run(name, func(t *testing.T) {
			var once1 sync.Once
			var l net.Listener
			addr := func() string {
				var err error
				l, err = net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				accept(t, l, func(c net.Conn, _ int) {
					for next := reading(c); next() != nil; {
						write(c, okAnswer)
					}
				})
				return l.Addr().String()
			}()
			stale := &staleConns{}
			client := over(t, &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := stale.dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return conn, nil
			}})
			warm(t, client, "http://"+addr)
			once1.Do(func() { _ = l.Close() })
			stale.now.Store(true)
			env := once(t, marks, func(ctx context.Context) error { return send(ctx, client, http.MethodPost, "http://"+addr, body) })
			assert.Equal(t, nc.String(), env.CommitState.String(), "%v", env.Code)
		})
	}
}

// A server that resets a stream with PROTOCOL_ERROR may have acted; net/http sends
// the request again.
func TestNoResendOverHTTP2(t *testing.T) {
	for name, row := range map[string]struct {
		refuse func(f *framer, stream uint32)
		want   toolexec.CommitState
	}{
		"PROTOCOL_ERROR": {func(f *framer, stream uint32) { f.send(frameReset, 0, stream, number(codeProtocol)...) }, unk},
		"REFUSED_STREAM": {func(f *framer, stream uint32) { f.send(frameReset, 0, stream, number(codeRefused)...) }, nc},
		"GOAWAY": {func(f *framer, _ uint32) {
			f.send(frameGoAway, 0, 0, append(number(0), number(codeNone)...)...)
		}, unk},
	} {
		for kind, body := range map[string]func() io.Reader{
			"rewindable body": func() io.Reader { return strings.NewReader("{}") },
			"opaque body":     func() io.Reader { return io.LimitReader(strings.NewReader("{}"), 2) },
			"no body":         func() io.Reader { return nil },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				run := func(client func(*http.Transport) *http.Client) (int64, toolexec.Envelope[string]) {
					var n atomic.Int64
					addr, base := h2(t, func(f *framer, _ int, stream uint32) {
						if n.Add(1) == 1 {
							row.refuse(f, stream)
							return
						}
						f.answer(stream)
					})
					env := once(t, marks, func(ctx context.Context) error {
						if toolexec.Attempt(ctx) == 0 {
							return nil
						}
						return send(ctx, client(base), http.MethodPost, "https://"+addr, body())
					})
					return n.Load(), env
				}
				n, env := run(func(base *http.Transport) *http.Client { return over(t, base) })
				assert.Equal(t, int64(1), n)
				assert.Equal(t, row.want.String(), env.CommitState.String(), "%v", env.Code)

				n, _ = run(func(base *http.Transport) *http.Client {
					t.Cleanup(base.CloseIdleConnections)
					return &http.Client{Transport: base}
				})
				if kind != "opaque body" {
					assert.Equal(t, int64(2), n, "net/http has changed: see whether this is needed still")
				}
			})
		}
	}
}

// net/http asks for the body again after a GOAWAY, which was not processed, and
// after a PROTOCOL_ERROR, which perhaps was, and tells nobody which it was. If this
// fails, see whether a GOAWAY that excludes the stream can be told by now.
func TestGetBodyProvesNothing(t *testing.T) {
	asked := func(refuse func(f *framer, stream uint32)) (bodies int, err error) {
		addr, base := h2(t, func(f *framer, _ int, stream uint32) { refuse(f, stream) })
		t.Cleanup(base.CloseIdleConnections)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr, strings.NewReader("{}"))
		require.NoError(t, err)
		req.GetBody = func() (io.ReadCloser, error) { bodies++; return nil, errors.New("no other body") }
		resp, err := base.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		return bodies, err
	}
	excluded, goAway := asked(func(f *framer, _ uint32) { f.send(frameGoAway, 0, 0, append(number(0), number(codeNone)...)...) })
	perhaps, reset := asked(func(f *framer, stream uint32) { f.send(frameReset, 0, stream, number(codeProtocol)...) })
	assert.Equal(t, [2]int{1, 1}, [2]int{excluded, perhaps})
	require.EqualError(t, goAway, "no other body")
	require.EqualError(t, reset, "no other body")
}

// One refused stream of many on a connection is proof for its own request alone.
func TestSharedConnection(t *testing.T) {
	var seen atomic.Int64
	addr, base := h2(t, func(f *framer, _ int, stream uint32) {
		if seen.Add(1)%2 == 0 {
			f.send(frameReset, 0, stream, number(codeRefused)...)
			return
		}
		f.answer(stream)
	})
	client := over(t, base)
	warm(t, client, "https://"+addr)
	var committed, released atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			switch env := once(t, marks, func(ctx context.Context) error { return post(ctx, client, "https://"+addr) }); env.CommitState {
			case com:
				committed.Add(1)
			case nc:
				released.Add(1)
			}
		})
	}
	all.Wait()
	assert.Equal(t, int64(10), committed.Load())
	assert.Equal(t, int64(10), released.Load())
}

// A server that answers without an interim answer, or dies instead of giving one,
// has seen the headers.
func TestExpectContinue(t *testing.T) {
	for name, row := range map[string]struct {
		answer string
		want   toolexec.CommitState
		code   toolexec.Code
	}{
		"refused":  {"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n", nc, toolexec.CodeInvalidArguments},
		"no word":  {"", unk, unknown},
		"go ahead": {"HTTP/1.1 100 Continue\r\n\r\n", unk, unknown}, // and then nothing
	} {
		t.Run(name, func(t *testing.T) {
			url := "http://" + listen(t, func(c net.Conn, _ int) {
				buf := make([]byte, 1<<16)
				_, _ = c.Read(buf)
				write(c, row.answer)
				if strings.Contains(row.answer, "100") {
					_, _ = c.Read(buf)
				}
			})
			base := bare()
			base.ExpectContinueTimeout = 20 * time.Second
			client := over(t, base)
			env := once(t, shape{marks: true, one: true}, func(ctx context.Context) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
				require.NoError(t, err)
				req.Header.Set("Expect", "100-continue")
				resp, err := client.Do(req)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				return httptool.CheckResponse(resp)
			})
			assert.Equal(t, row.want.String(), env.CommitState.String())
			assert.Equal(t, row.code, env.Code)
		})
	}
}

// A redirection of a write is an answer, not an invitation.
func TestRedirections(t *testing.T) {
	for status, want := range map[int]toolexec.CommitState{301: unk, 302: unk, 303: unk, 307: nc, 308: nc} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			var followed atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/" {
					followed.Add(1)
					return
				}
				http.Redirect(w, r, "/elsewhere", status)
			}))
			defer server.Close()
			client := over(t, nil)
			env := once(t, shape{true, true}, func(ctx context.Context) error { return post(ctx, client, server.URL) })
			assert.Equal(t, want.String(), env.CommitState.String())
			assert.Equal(t, toolexec.CodeRedirected, env.Code)
			assert.Zero(t, followed.Load())

			env = once(t, plain, func(ctx context.Context) error { return send(ctx, client, http.MethodGet, server.URL, nil) })
			assert.True(t, env.OK, "what changes nothing may be followed")
			assert.Equal(t, int64(1), followed.Load())
		})
	}
	t.Run("for ever", func(t *testing.T) {
		server := httptest.NewServer(http.RedirectHandler("/", http.StatusFound))
		defer server.Close()
		assert.ErrorContains(t, send(t.Context(), over(t, nil), http.MethodGet, server.URL, nil), "10 redirections")
	})
}

// The key reaches the wire under a name that any server reads, once.
func TestIdempotencyHeader(t *testing.T) {
	got := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer server.Close()
	for _, base := range []http.RoundTripper{nil, roundTripper(http.DefaultTransport.RoundTrip)} {
		tr := &httptool.Transport{Base: base, IdempotencyHeader: "Idempotency-Key"}
		t.Cleanup(tr.CloseIdleConnections)
		var ref string
		once(t, marks, func(ctx context.Context) error {
			ref = toolexec.OperationRef(ctx)
			return post(ctx, tr.Client(), server.URL)
		})
		assert.Equal(t, []string{ref}, (<-got)["Idempotency-Key"])

		once(t, marks, func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, nil)
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", "own")
			resp, err := tr.Client().Do(req)
			require.NoError(t, err)
			assert.Same(t, req, resp.Request)
			assert.Equal(t, "own", req.Header.Get("Idempotency-Key"), "a RoundTripper changes no request")
			return resp.Body.Close()
		})
		assert.Equal(t, []string{"own"}, (<-got)["Idempotency-Key"])

		once(t, marks, func(ctx context.Context) error { return send(ctx, tr.Client(), http.MethodGet, server.URL, nil) })
		assert.Empty(t, (<-got)["Idempotency-Key"])
	}
}

// What the user's transport can do its clone can too.
func TestBaseKeepsWhatItCan(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for name, row := range map[string]struct {
		change func(*http.Transport)
		want   string
	}{
		"as it is": {func(*http.Transport) {}, "HTTP/2.0"},
		"turned off": {func(b *http.Transport) {
			b.TLSNextProto, b.ForceAttemptHTTP2 = map[string]func(string, *tls.Conn) http.RoundTripper{}, false
			b.TLSClientConfig.NextProtos = nil
		}, "HTTP/1.1"},
		"old dialer": {func(b *http.Transport) { b.Dial = net.Dial }, "HTTP/2.0"}, //nolint:staticcheck // users have it
		"own TLS dials": {func(b *http.Transport) {
			b.DialTLSContext = (&tls.Dialer{Config: b.TLSClientConfig}).DialContext
		}, "HTTP/2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			base := &http.Transport{}
			base.Clone() // the first use of a transport sets its HTTP/2 up
			base.TLSClientConfig.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			row.change(base)
			client := over(t, base)
			var proto string
			env := once(t, marks, func(ctx context.Context) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, nil)
				require.NoError(t, err)
				resp, err := client.Do(req)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				body, err := httptool.ReadBody(resp, 100)
				proto = string(body)
				return err
			})
			assert.True(t, env.OK, "%v", env)
			assert.Equal(t, row.want, proto)
		})
	}
}
