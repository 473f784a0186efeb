package httptool_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
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

const (
	nc  = toolexec.NotCommitted
	unk = toolexec.CommitUnknown
	com = toolexec.Committed

	transient = toolexec.ClassTransient
	permanent = toolexec.ClassPermanent
)

// ends is how a write ends: what a tool is told that marks its sends, one that
// declares OneRequest, and one that declares nothing.
type ends struct {
	code             toolexec.Code // as the one that marks is told
	class            toolexec.Class
	marks, one, none toolexec.CommitState
}

func ended(code toolexec.Code, class toolexec.Class, marks, one, none toolexec.CommitState) ends {
	return ends{code, class, marks, one, none}
}

// socketFault is an error made by a real socket.
type socketFault struct {
	name string
	// make returns where to send, and over what.
	make func(t *testing.T) (url string, base *http.Transport)
	// late: the attempt's deadline has to pass.
	late bool
	// watched is how it ends over a Transport, ladder over http.Client alone.
	watched, ladder ends
}

var (
	unavailable = toolexec.CodeDependencyUnavailable
	unknown     = toolexec.CodeOutcomeUnknown
	tlsFailed   = toolexec.CodeTLSVerificationFailed
	login       = toolexec.CodeAuthenticationRequired
	malformed   = toolexec.CodeResultMalformed
	failed      = toolexec.CodeToolFailed

	notSent = ended(unavailable, transient, nc, nc, unk)
	inDoubt = ended(unknown, transient, unk, unk, unk)
	// Without a Transport nothing takes a mark back.
	dialed = ended(unavailable, transient, unk, nc, unk)
)

func bare() *http.Transport { return &http.Transport{} }

func raw(serve func(c net.Conn, n int)) func(t *testing.T) (string, *http.Transport) {
	return func(t *testing.T) (string, *http.Transport) { return "http://" + listen(t, serve), bare() }
}

func https(config *tls.Config, change func(*http.Transport)) func(t *testing.T) (string, *http.Transport) {
	return func(t *testing.T) (string, *http.Transport) {
		addr, base := secured(t, config.Clone(), func(c *tls.Conn, _ int) {
			if reading(c)() != nil {
				write(c, okAnswer)
			}
		})
		change(base)
		return "https://" + addr, base
	}
}

// hold keeps a connection open until the other side closes it.
func hold(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// faults are the rows of the error table that a socket can make.
var faults = []socketFault{
	{"refused", func(t *testing.T) (string, *http.Transport) { return "http://" + deadAddr(t), bare() }, false, notSent, dialed},
	{"no such name", func(*testing.T) (string, *http.Transport) {
		base := bare()
		base.DialContext = (&net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "udp", Err: io.ErrClosedPipe}
		}}}).DialContext
		return "http://shop.example.", base
	}, false, notSent, dialed},
	{"proxy refused", func(t *testing.T) (string, *http.Transport) {
		base := bare()
		base.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: deadAddr(t)})
		return "https://shop.invalid", base
	}, false, notSent, dialed},
	{"proxy says no", func(t *testing.T) (string, *http.Transport) { // to CONNECT, which is not the request
		base := bare()
		base.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: listen(t, func(c net.Conn, _ int) {
			reading(c)()
			write(c, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		})})
		return "https://shop.invalid", base
	}, false, notSent, ended(failed, permanent, unk, unk, unk)},
	{"dial never ends", func(*testing.T) (string, *http.Transport) {
		base := bare()
		base.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return "http://shop.invalid", base
	}, true, ended(toolexec.CodeDeadlineExceeded, transient, nc, nc, unk), inDoubt},
	{"handshake never ends", func(t *testing.T) (string, *http.Transport) {
		return "https://" + listen(t, func(c net.Conn, _ int) { hold(c) }), bare()
	}, true, ended(toolexec.CodeDeadlineExceeded, transient, nc, nc, unk), inDoubt},
	{"wrong host", https(&tls.Config{}, func(b *http.Transport) { b.TLSClientConfig.ServerName = "other.example" }),
		false, ended(tlsFailed, permanent, nc, nc, unk), ended(tlsFailed, permanent, unk, nc, unk)},
	{"unknown authority", https(&tls.Config{}, func(b *http.Transport) { b.TLSClientConfig.RootCAs = nil }),
		false, ended(tlsFailed, permanent, nc, nc, unk), ended(tlsFailed, permanent, unk, nc, unk)},
	{"expired certificate", func(t *testing.T) (string, *http.Transport) {
		cert, pool := certify(t, true)
		addr, base := secured(t, &tls.Config{Certificates: []tls.Certificate{cert}}, func(*tls.Conn, int) {})
		base.TLSClientConfig.RootCAs = pool
		return "https://" + addr, base
	}, false, ended(tlsFailed, permanent, nc, nc, unk), ended(tlsFailed, permanent, unk, nc, unk)},
	{"plain HTTP under https", func(t *testing.T) (string, *http.Transport) {
		return "https://" + listen(t, func(c net.Conn, _ int) {
			write(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			hold(c)
		}), bare()
	}, false, ended(toolexec.CodeConfigError, permanent, nc, nc, unk), ended(failed, permanent, unk, unk, unk)},
	{"no client certificate, TLS 1.3", https(&tls.Config{ClientAuth: tls.RequireAnyClientCert}, func(b *http.Transport) {
		b.ForceAttemptHTTP2 = false
		b.TLSClientConfig.MinVersion = tls.VersionTLS13
	}), false, ended(login, permanent, nc, nc, unk), ended(login, permanent, unk, nc, unk)},
	{"no client certificate, TLS 1.2", https(&tls.Config{ClientAuth: tls.RequireAnyClientCert}, func(b *http.Transport) {
		b.TLSClientConfig.MaxVersion = tls.VersionTLS12
	}), false, ended(toolexec.CodeConfigError, permanent, nc, nc, unk), ended(toolexec.CodeConfigError, permanent, unk, nc, unk)},

	{"no byte written", breaking(0), false, notSent, inDoubt},
	{"one byte written", breaking(1), false, inDoubt, inDoubt},
	{"closed without an answer", raw(func(c net.Conn, _ int) { reading(c)() }), false, inDoubt, inDoubt},
	{"half closed", raw(func(c net.Conn, _ int) {
		reading(c)()
		_ = c.(*net.TCPConn).CloseWrite()
		hold(c)
	}), false, inDoubt, inDoubt},
	{"reset after the request", raw(func(c net.Conn, _ int) { reading(c)(); reset(c) }), false, inDoubt, inDoubt},
	{"reset within the request", raw(func(c net.Conn, _ int) { _, _ = c.Read(make([]byte, 1)); reset(c) }), false, inDoubt, inDoubt},
	{"slow headers", raw(func(c net.Conn, _ int) {
		reading(c)()
		write(c, "HTTP/1.1 200 OK\r\nX-Slow: ")
		hold(c)
	}), true, inDoubt, inDoubt},
	{"response header timeout", func(t *testing.T) (string, *http.Transport) {
		base := bare()
		base.ResponseHeaderTimeout = deadline
		return "http://" + listen(t, func(c net.Conn, _ int) { reading(c)(); hold(c) }), base
	}, false, inDoubt, inDoubt},
	{"answer that is not HTTP", raw(func(c net.Conn, _ int) { reading(c)(); write(c, "SSH-2.0-OpenSSH\r\n\r\n") }),
		false, ended(malformed, permanent, unk, unk, unk), ended(failed, permanent, unk, unk, unk)},
	{"malformed header", raw(func(c net.Conn, _ int) { reading(c)(); write(c, "HTTP/1.1 200 OK\r\nno colon\r\n\r\n") }),
		false, ended(malformed, permanent, unk, unk, unk), ended(failed, permanent, unk, unk, unk)},
	// The status line is the answer; what cannot be read is the result.
	{"body cut off", raw(func(c net.Conn, _ int) {
		reading(c)()
		write(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
	}), false, ended(malformed, permanent, unk, com, unk), ended(malformed, permanent, unk, com, unk)},
	{"chunk cut off", raw(func(c net.Conn, _ int) {
		reading(c)()
		write(c, "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
	}), false, ended(malformed, permanent, unk, com, unk), ended(malformed, permanent, unk, com, unk)},

	{"stream refused", func(t *testing.T) (string, *http.Transport) {
		addr, base := h2(t, func(f *framer, _ int, stream uint32) { f.send(frameReset, 0, stream, number(codeRefused)...) })
		return "https://" + addr, base
	}, false, notSent, ends{}},
	{"stream reset with PROTOCOL_ERROR", func(t *testing.T) (string, *http.Transport) { // perhaps after the effect
		addr, base := h2(t, func(f *framer, _ int, stream uint32) { f.send(frameReset, 0, stream, number(codeProtocol)...) })
		return "https://" + addr, base
	}, false, inDoubt, ends{}},
	{"stream reset with PROTOCOL_ERROR, and no other connection", func(t *testing.T) (string, *http.Transport) {
		addr, base := h2(t, func(f *framer, _ int, stream uint32) { f.send(frameReset, 0, stream, number(codeProtocol)...) })
		base.DialContext = dialedOnce(deadAddr(t))
		return "https://" + addr, base
	}, false, inDoubt, ends{}},
	{"GOAWAY that excludes the stream", func(t *testing.T) (string, *http.Transport) { // net/http gives it no type
		addr, base := h2(t, func(f *framer, _ int, _ uint32) {
			f.send(frameGoAway, 0, 0, append(number(0), number(codeNone)...)...)
		})
		return "https://" + addr, base
	}, false, inDoubt, ends{}},
	{"GOAWAY that includes the stream", func(t *testing.T) (string, *http.Transport) { // it may be done, and the connection ends
		addr, base := h2(t, func(f *framer, _ int, stream uint32) {
			f.send(frameGoAway, 0, 0, append(number(stream), number(codeNone)...)...)
			_ = f.Close()
		})
		return "https://" + addr, base
	}, false, inDoubt, inDoubt},
	{"HTTP/2 connection lost", func(t *testing.T) (string, *http.Transport) {
		addr, base := h2(t, func(f *framer, _ int, _ uint32) { reset(f.Conn) })
		return "https://" + addr, base
	}, false, inDoubt, inDoubt},
	{"HTTP/2 without an answer", func(t *testing.T) (string, *http.Transport) {
		addr, base := h2(t, func(*framer, int, uint32) {})
		return "https://" + addr, base
	}, true, inDoubt, inDoubt},
}

// dialedOnce dials where it is told to every other time, from the first on, as the
// attempts of a fault go: each is left alone on its second connection.
func dialedOnce(dead string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	var dials atomic.Int64
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1)%2 == 0 {
			addr = dead
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			url, base := f.make(t)
			f.check(t, "Transport", over(t, base), url, f.watched)
			if f.ladder == (ends{}) { // net/http sends these again by itself
				return
			}
			alone := base.Clone()
			t.Cleanup(alone.CloseIdleConnections)
			f.check(t, "http.Client", &http.Client{Transport: alone, CheckRedirect: httptool.CheckRedirect}, url, f.ladder)
		})
	}
}

func (f *socketFault) check(t *testing.T, over string, client *http.Client, url string, want ends) {
	t.Helper()
	for _, row := range []struct {
		shape
		want toolexec.CommitState
	}{{marks, want.marks}, {one, want.one}, {plain, want.none}} {
		env := once(t, row.shape, func(ctx context.Context) error {
			if over == "http.Client" && row.marks { // somebody has to
				if err := toolexec.MarkSent(ctx); err != nil {
					return err
				}
			}
			return f.meet(ctx, client, url)
		})
		which := fmt.Sprintf("over %s, %+v", over, row.shape)
		assert.Equal(t, row.want.String(), env.CommitState.String(), "%s: %v", which, env.Code)
		if env.OK {
			continue
		}
		code := want.code
		if row.want == unk && transient == want.class {
			code = unknown
		}
		assert.Equal(t, code, env.Code, which)
		assert.Equal(t, want.class.String(), env.Class.String(), which)
	}
}

// meet sends a request that meets the fault.
func (f *socketFault) meet(ctx context.Context, client *http.Client, url string) error {
	if f.late {
		short, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		ctx = short
	}
	return post(ctx, client, url)
}

// What is at the end of a chain that holds a proof says so by itself.
func TestNotSentErrors(t *testing.T) {
	client := over(t, nil)
	var err error
	env := once(t, plain, func(ctx context.Context) error {
		err = post(ctx, client, "http://"+deadAddr(t))
		return err
	})
	assert.Equal(t, unk, env.CommitState, "it is proof for one request")
	require.ErrorIs(t, err, httptool.ErrNotSent)
	var dial *net.OpError
	require.ErrorAs(t, err, &dial)
	assert.Equal(t, "dial", dial.Op)
	var failed *url.Error
	require.ErrorAs(t, err, &failed)
	assert.False(t, failed.Timeout())
}

// With a long URI net/http writes before the first of its header hooks: no hook is
// a proof, the bytes are.
func TestLongURIOutrunsTheHooks(t *testing.T) {
	addr := listen(t, func(c net.Conn, _ int) { _, _ = io.ReadFull(c, make([]byte, 4096)); reset(c) })
	env := once(t, marks, func(ctx context.Context) error {
		return post(ctx, over(t, nil), "http://"+addr+"/?"+strings.Repeat("x", 9000))
	})
	assert.Equal(t, unk, env.CommitState)
	assert.Equal(t, unknown, env.Code)
}

// breaking has connections whose first write fails after n bytes.
func breaking(n int) func(t *testing.T) (string, *http.Transport) {
	return func(t *testing.T) (string, *http.Transport) {
		addr := listen(t, func(c net.Conn, _ int) { hold(c) })
		return "http://" + addr, &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &brokenConn{conn, n}, err
		}}
	}
}

// brokenConn fails to write after n bytes.
type brokenConn struct {
	net.Conn
	n int
}

func (c *brokenConn) Write([]byte) (int, error) {
	return c.n, &net.OpError{Op: "write", Net: "tcp", Err: io.ErrClosedPipe}
}

// A body of the tool's own that cannot be read is no answer that cannot be read.
func TestUnreadableRequest(t *testing.T) {
	url := "http://" + listen(t, func(c net.Conn, _ int) { hold(c) })
	body := func() io.Reader { return io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<16)), &cutBody{}) }
	env := once(t, marks, func(ctx context.Context) error { return send(ctx, over(t, nil), http.MethodPost, url, body()) })
	assert.Equal(t, unk, env.CommitState)
	assert.Equal(t, unknown, env.Code)

	env = once(t, marks, func(ctx context.Context) error {
		return send(ctx, over(t, nil), http.MethodPost, url, io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<16)), failing{}))
	})
	assert.Equal(t, unk, env.CommitState)
	assert.Equal(t, unknown, env.Code)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken off") }

// Several requests in one attempt: only what is marked and not taken back counts.
func TestSeveralRequests(t *testing.T) {
	good := "http://" + listen(t, func(c net.Conn, _ int) {
		for next := reading(c); next() != nil; {
			write(c, okAnswer)
		}
	})
	for name, row := range map[string]struct {
		first, second string // methods
		firstDead     bool
		want          toolexec.CommitState
	}{
		"read, then a dial that fails":      {http.MethodGet, http.MethodPost, false, nc},
		"write, then a dial that fails":     {http.MethodPost, http.MethodPost, false, unk},
		"two dials that fail":               {http.MethodPost, http.MethodPut, true, nc},
		"write, then a read that fails":     {http.MethodPost, http.MethodGet, false, unk},
		"an unknown method counts as write": {"REFUND", http.MethodPost, false, unk},
	} {
		t.Run(name, func(t *testing.T) {
			client, dead := over(t, nil), "http://"+deadAddr(t)
			env := once(t, marks, func(ctx context.Context) error {
				url := good
				if row.firstDead {
					url = dead
				}
				first := send(ctx, client, row.first, url, nil)
				assert.Equal(t, row.firstDead, first != nil, "%v", first)
				return send(ctx, client, row.second, dead, nil)
			})
			assert.Equal(t, row.want.String(), env.CommitState.String())
		})
	}
}

// Two requests of one attempt that leave at the same time both leave.
func TestParallelRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	client := over(t, nil)
	for range 200 {
		env := once(t, marks, func(ctx context.Context) error {
			var errs [2]error
			var both sync.WaitGroup
			for i := range errs {
				both.Go(func() { errs[i] = post(ctx, client, server.URL) })
			}
			both.Wait()
			return errors.Join(errs[:]...)
		})
		require.True(t, env.OK, "%v", env)
	}
}

// A RoundTripper that is not ours may have done anything.
func TestForeignBaseProvesNothing(t *testing.T) {
	base := roundTripper(func(req *http.Request) (*http.Response, error) { return http.DefaultTransport.RoundTrip(req) })
	dead := "http://" + deadAddr(t)
	env := once(t, marks, func(ctx context.Context) error { return post(ctx, over(t, base), dead) })
	assert.Equal(t, unk, env.CommitState)

	// Put around the Transport it takes nothing away.
	inner := &httptool.Transport{}
	around := &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) { return inner.RoundTrip(req) })}
	env = once(t, marks, func(ctx context.Context) error { return post(ctx, around, dead) })
	assert.Equal(t, nc, env.CommitState)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A stale attempt is refused before anything leaves.
func TestNothingLeavesWithoutAMark(t *testing.T) {
	requests := make(chan *http.Request, 1)
	addr := listen(t, func(c net.Conn, _ int) { requests <- reading(c)() })
	client := over(t, nil)
	body := &closing{Reader: strings.NewReader("{}")}
	env := once(t, marks, func(ctx context.Context) error {
		ended, cancel := context.WithTimeout(ctx, -1)
		defer cancel()
		require.Error(t, send(ended, client, http.MethodPost, "http://"+addr, body))
		return nil
	})
	assert.True(t, env.OK)
	assert.True(t, body.closed)

	// After the attempt its context marks nothing any more.
	var kept context.Context
	once(t, marks, func(ctx context.Context) error { kept = context.WithoutCancel(ctx); return nil })
	body = &closing{Reader: strings.NewReader("{}")}
	err := send(kept, client, http.MethodPost, "http://"+addr, body)
	require.ErrorIs(t, err, toolexec.ErrNotSent)
	assert.True(t, body.closed)
	assert.Empty(t, requests)
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// Outside an attempt a Transport is its base.
func TestOutsideAnAttempt(t *testing.T) {
	addr := listen(t, func(c net.Conn, _ int) { reading(c)(); write(c, okAnswer) })
	tr := &httptool.Transport{IdempotencyHeader: "Idempotency-Key"}
	defer tr.CloseIdleConnections()
	require.NoError(t, post(t.Context(), tr.Client(), "http://"+addr))
	err := post(t.Context(), tr.Client(), "http://"+deadAddr(t))
	require.Error(t, err)
	assert.NotErrorIs(t, err, httptool.ErrNotSent)
}

// The caller's cancel is told apart by what was sent, too.
func TestCancelled(t *testing.T) {
	for name, row := range map[string]struct {
		sent bool
		want toolexec.CommitState
	}{"before the request": {false, nc}, "after the request": {true, unk}} {
		t.Run(name, func(t *testing.T) {
			env := cancelled(t, toolexec.Tool[int, string]{MarksSent: true}, row.sent)
			assert.Equal(t, toolexec.CodeCancelled, env.Code)
			assert.Equal(t, row.want.String(), env.CommitState.String())
		})
	}
}

// cancelled is a call whose caller cancels when the request has been read, or when
// a connection is looked for.
func cancelled(t *testing.T, tool toolexec.Tool[int, string], sent bool) toolexec.Envelope[string] {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	base := bare()
	addr := listen(t, func(c net.Conn, _ int) {
		reading(c)()
		cancel()
		hold(c)
	})
	if !sent {
		base.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	x, client := &toolexec.Executor{}, over(t, base)
	tool.Name, tool.Policy = "post", toolexec.Policy{Deadline: 20 * time.Second, TotalDeadline: 20 * time.Second}
	tool.Run = func(ctx context.Context, _ int) (string, error) { return "", post(ctx, client, "http://"+addr) }
	env := toolexec.Bind(x, tool).Call(ctx, 7)
	require.NoError(t, x.Close(t.Context()))
	return env
}
