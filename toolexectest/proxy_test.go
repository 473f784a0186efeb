package toolexectest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// till is a server that takes money and tells what it was sent.
func till(l *toolexectest.Ledger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		what := fmt.Sprintf("%s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("X-Key"), body)
		if r.Method != http.MethodGet {
			l.Record(r.Header.Get("X-Key"), what)
		}
		w.Header().Set("X-Till", "7")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, what)
	})
}

// through serves a proxy before a till.
func through(t *testing.T, start func(*httptest.Server), path string, steps ...toolexectest.HTTPFault) (url string, client *http.Client, l *toolexectest.Ledger, p *toolexectest.Proxy) {
	t.Helper()
	l = new(toolexectest.Ledger)
	server := httptest.NewServer(till(l))
	t.Cleanup(server.Close)
	p = toolexectest.NewProxy(server.URL+path, steps...)
	front := httptest.NewUnstartedServer(p)
	start(front)
	t.Cleanup(front.Close)
	client = front.Client()
	return front.URL, client, l, p
}

func http1(s *httptest.Server) { s.Start() }

func http1TLS(s *httptest.Server) { s.StartTLS() }

func http2(s *httptest.Server) {
	s.EnableHTTP2 = true
	s.StartTLS()
}

// pay posts once and returns what comes back.
func pay(ctx context.Context, client *http.Client, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/pay?a=1%2F2", io.LimitReader(strings.NewReader("30"), 2))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("X-Key", "k")
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

type (
	fault = toolexectest.HTTPFault
	leg   = toolexectest.HTTPLeg
)

const paid = "POST /pay?a=1%2F2 k 30"

func TestProxyFaults(t *testing.T) {
	anyError := func(t *testing.T, err error) { require.Error(t, err) }
	for _, row := range []struct {
		fault   fault
		effects int
		status  int
		body    string
		err     func(t *testing.T, err error)
		words   string
	}{
		{fault{}, 1, 201, paid, nil, "no fault"},
		{fault{Request: leg{Close: true}}, 0, 0, "", func(t *testing.T, err error) { require.ErrorIs(t, err, io.EOF) }, "request closed"},
		{fault{Answer: leg{Close: true}}, 1, 0, "", func(t *testing.T, err error) { require.ErrorIs(t, err, io.EOF) }, "answer closed"},
		{fault{Request: leg{Reset: true}}, 0, 0, "", func(t *testing.T, err error) { require.ErrorIs(t, err, syscall.ECONNRESET) }, "request reset"},
		{fault{Answer: leg{Reset: true}}, 1, 0, "", func(t *testing.T, err error) { require.ErrorIs(t, err, syscall.ECONNRESET) }, "answer reset"},
		{fault{Request: leg{Status: 503}}, 0, 503, "toolexectest: injected status\n", nil, "request replaced by status 503"},
		{fault{Answer: leg{Status: 503}}, 1, 503, "toolexectest: injected status\n", nil, "answer replaced by status 503"},
		{fault{Answer: leg{Cut: true}}, 1, 201, paid[:len(paid)/2], func(t *testing.T, err error) { require.ErrorIs(t, err, io.ErrUnexpectedEOF) }, "answer cut off"},
		{fault{Answer: leg{Garble: true}}, 1, 0, "", anyError, "answer garbled"},
		{fault{Duplicate: 2}, 3, 201, paid, nil, "request duplicated 2 time(s)"},
		{fault{Request: leg{Delay: time.Millisecond}, Answer: leg{Delay: time.Millisecond}}, 1, 201, paid, nil, "request delayed 1ms, answer delayed 1ms"},
		{fault{Duplicate: 1, Answer: leg{Close: true}}, 2, 0, "", anyError, "request duplicated 1 time(s), answer closed"},
	} {
		for name, start := range map[string]func(*httptest.Server){"HTTP/1": http1, "TLS": http1TLS, "HTTP/2": http2} {
			t.Run(row.words+", "+name, func(t *testing.T) {
				assert.Equal(t, row.words, row.fault.String())
				url, client, l, p := through(t, start, "", row.fault)
				status, body, err := pay(t.Context(), client, url)
				switch {
				case row.err == nil:
					require.NoError(t, err)
				case name == "HTTP/1": // the others have their own words for it
					row.err(t, err)
				default:
					require.Error(t, err)
				}
				if row.err == nil || status != 0 && name == "HTTP/1" {
					assert.Equal(t, row.status, status)
					assert.Equal(t, row.body, body)
				}
				assert.Equal(t, row.effects, l.Effects("k"))
				assert.Empty(t, p.Unfired())
				assert.Equal(t, 1, p.Requests())

				status, body, err = pay(t.Context(), client, url)
				require.NoError(t, err, "the script is over")
				assert.Equal(t, 201, status)
				assert.Equal(t, paid, body)
			})
		}
	}
}

// impatient pays, and gives up once the request has reached the proxy.
func impatient(t *testing.T, client *http.Client, url string, p *toolexectest.Proxy) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.Match = func(*http.Request) bool { cancel(); return true }
	_, _, err := pay(ctx, client, url)
	return err
}

// Silence lasts until the client gives up.
func TestProxyDrops(t *testing.T) {
	for _, row := range []struct {
		fault   fault
		effects int
	}{{fault{Request: leg{Drop: true}}, 0}, {fault{Answer: leg{Drop: true}}, 1}} {
		t.Run(row.fault.String(), func(t *testing.T) {
			url, client, l, p := through(t, http1, "", row.fault)
			require.ErrorIs(t, impatient(t, client, url, p), context.Canceled)
			p.Wait()
			assert.Equal(t, row.effects, l.Effects("k"))
			assert.Empty(t, p.Unfired())
		})
	}
}

// What is on its way arrives, also when nobody waits for it.
func TestProxyCarriesOutLate(t *testing.T) {
	url, client, l, p := through(t, http1, "", fault{Request: leg{Delay: 50 * time.Millisecond}})
	require.ErrorIs(t, impatient(t, client, url, p), context.Canceled)
	p.Wait()
	assert.Equal(t, 1, l.Effects("k"))
}

func TestProxyReportsWhatDidNotFire(t *testing.T) {
	url, client, _, p := through(t, http1, "",
		fault{}, fault{Request: leg{Close: true}}, fault{Request: leg{Delay: 1}, Duplicate: 1, Answer: leg{Status: 503, Delay: time.Second}})
	_, _, err := pay(t.Context(), client, url)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"step 2 of 3: request closed: did not fire in 1 request(s)",
		"step 3 of 3: request delayed 1ns: did not fire in 1 request(s)",
		"step 3 of 3: request duplicated 1 time(s): did not fire in 1 request(s)",
		"step 3 of 3: answer delayed 1s, answer replaced by status 503: did not fire in 1 request(s)",
	}, p.Unfired())
	var r recorder
	p.Check(&r)
	assert.Len(t, r.errors, 4)
	assert.Contains(t, r.errors[0], "toolexectest: step 2 of 3")
}

// recorder keeps what a check says.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()           {}
func (r *recorder) Error(args ...any) { r.errors = append(r.errors, fmt.Sprint(args...)) }

// A target that is down is no fault of the script, so that has not fired.
func TestProxyWithoutTarget(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	p := toolexectest.NewProxy(gone.URL, fault{Duplicate: 1, Answer: leg{Close: true}})
	front := httptest.NewServer(p)
	defer front.Close()
	status, _, err := pay(t.Context(), front.Client(), front.URL)
	require.NoError(t, err)
	assert.Equal(t, 502, status)
	assert.Len(t, p.Unfired(), 2)
}

// Look-ups pass unless they are asked for.
func TestProxyMatch(t *testing.T) {
	url, client, _, p := through(t, http1, "/base", fault{Answer: leg{Status: 503}})
	get := func() (int, string, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/x%2Fy?q=1", nil)
		require.NoError(t, err)
		req.Header.Set("Connection", "X-Key, close")
		req.Header.Set("X-Key", "hop")
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body), resp.Header.Get("X-Till")
	}
	status, body, header := get()
	assert.Equal(t, 201, status)
	assert.Equal(t, "GET /base/x%2Fy?q=1  ", body)
	assert.Equal(t, "7", header)
	assert.Zero(t, p.Requests())

	url, client, _, p = through(t, http1, "", fault{Answer: leg{Status: 503}})
	p.Match = func(r *http.Request) bool { return r.Method == http.MethodGet }
	status, _, err := pay(t.Context(), client, url)
	require.NoError(t, err)
	assert.Equal(t, 201, status)
	status, _, _ = get()
	assert.Equal(t, 503, status)
	assert.Equal(t, 1, p.Requests())
}

// Of several answers the first counts.
func TestProxyDuplicates(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200 + int(n.Add(1)))
		_, _ = fmt.Fprint(w, n.Load())
	}))
	defer server.Close()
	front := httptest.NewServer(toolexectest.NewProxy(server.URL, fault{Duplicate: 2}))
	defer front.Close()
	status, body, err := pay(t.Context(), front.Client(), front.URL)
	require.NoError(t, err)
	assert.Equal(t, 201, status)
	assert.Equal(t, "1", body)
	assert.Equal(t, int64(3), n.Load())
}

// A client that breaks its own request off has not been heard.
func TestProxyHalfARequest(t *testing.T) {
	url, client, l, p := through(t, http1, "")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, io.MultiReader(strings.NewReader("3"), broken{}))
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	require.Error(t, err)
	p.Wait()
	assert.Zero(t, l.Total())
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken off") }

func TestNewProxyRefuses(t *testing.T) {
	for _, f := range []fault{
		{Request: leg{Drop: true, Close: true}},
		{Answer: leg{Cut: true, Status: 503}},
		{Request: leg{Cut: true}},
		{Request: leg{Garble: true}},
		{Request: leg{Close: true}, Answer: leg{Delay: 1}},
		{Request: leg{Close: true}, Duplicate: 1},
		{Duplicate: -1},
		{Answer: leg{Status: 100}},
		{Request: leg{Status: 1000}},
	} {
		assert.Panics(t, func() { toolexectest.NewProxy("http://x", fault{}, f) }, "%v", f)
	}
	for _, target := range []string{"", "x", ":", "/path"} {
		assert.Panics(t, func() { toolexectest.NewProxy(target) }, target)
	}
}

// A refund whose answer is lost by a proxy that stands before the real service.
func ExampleProxy() {
	var ledger toolexectest.Ledger
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ledger.Record(r.Header.Get("Idempotency-Key"), "rcpt_1")
		_, _ = fmt.Fprint(w, "rcpt_1")
	}))
	defer service.Close()
	proxy := toolexectest.NewProxy(service.URL, toolexectest.HTTPFault{Answer: toolexectest.HTTPLeg{Close: true}})
	front := httptest.NewServer(proxy)
	defer front.Close()

	var x toolexec.Executor
	refund := toolexec.Bind(&x, toolexec.Tool[int, string]{
		Name: "process_refund",
		Run: func(ctx context.Context, _ int) (string, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, front.URL, http.NoBody)
			if err != nil {
				return "", err
			}
			req.Header.Set("Idempotency-Key", toolexec.OperationRef(ctx))
			resp, err := front.Client().Do(req)
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			receipt, err := io.ReadAll(resp.Body)
			return string(receipt), err
		},
		Verify: &toolexec.Verifier[int, string]{Lookup: toolexectest.Lookup[int, string](&ledger), Authoritative: true},
	})
	env := refund.Call(toolexec.WithOperationRef(context.Background(), "op-1"), 8000)

	fmt.Println(env.Code, env.CommitState, "by", env.Verification.Source)
	fmt.Println(ledger.Effects("op-1"), "effect, faults left:", len(proxy.Unfired())) // in a test: proxy.Check(t)
	// Output:
	// OK committed by lookup
	// 1 effect, faults left: 0
}
