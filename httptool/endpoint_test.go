package httptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/httptool"
)

type (
	refundIn struct {
		OrderID string `json:"order_id"`
		Cents   int    `json:"cents"`
	}
	receipt struct {
		Receipt string `json:"receipt"`
	}
)

// exchange is one request of an endpoint and what the server made of it.
type exchange struct {
	method, uri, body string
	header            http.Header
}

// echo records requests and answers each with status and body.
func echo(t *testing.T, status int, body string) (url string, seen chan exchange) {
	t.Helper()
	seen = make(chan exchange, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		seen <- exchange{r.Method, r.RequestURI, string(raw), r.Header}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL, seen
}

func call[In, Out any](t *testing.T, tool toolexec.Tool[In, Out], in In) toolexec.Envelope[Out] {
	t.Helper()
	x := &toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}}
	t.Cleanup(func() { assert.NoError(t, x.Close(t.Context())) })
	return toolexec.Bind(x, tool).Call(toolexec.WithOperationRef(t.Context(), "run_81/step_4"), in)
}

func TestEndpoint(t *testing.T) {
	url, seen := echo(t, http.StatusCreated, `{"receipt":"rcpt_1"}`)
	e := &httptool.Endpoint[refundIn, receipt]{
		URL: url + "/orders/{order_id}/refunds?cents={cents}", IdempotencyHeader: "Idempotency-Key",
		Header: http.Header{"X-Api": {"v2"}},
		Request: func(_ context.Context, in refundIn, req *http.Request) error {
			req.Header.Set("Authorization", "Bearer "+in.OrderID)
			return nil
		},
	}
	env := call(t, e.Tool("process_refund"), refundIn{"ORD 55/10", 8000})
	require.True(t, env.OK, "%v", env)
	assert.Equal(t, receipt{"rcpt_1"}, env.Result)
	got := <-seen
	assert.Equal(t, "POST", got.method)
	assert.Equal(t, "/orders/ORD%2055%2F10/refunds?cents=8000", got.uri)
	assert.JSONEq(t, `{"order_id":"ORD 55/10","cents":8000}`, got.body)
	assert.Equal(t, "run_81/step_4", got.header.Get("Idempotency-Key"))
	assert.Equal(t, []string{"application/json", "application/json", "v2", "Bearer ORD 55/10"},
		[]string{got.header.Get("Content-Type"), got.header.Get("Accept"), got.header.Get("X-Api"), got.header.Get("Authorization")})
}

// What an endpoint declares about itself.
func TestEndpointTool(t *testing.T) {
	type endpoint = httptool.Endpoint[refundIn, receipt]
	inner := new(httptool.Transport)
	for name, row := range map[string]struct {
		e      endpoint
		effect toolexec.Effect
		shape
	}{
		"POST":               {endpoint{}, toolexec.Write, shape{true, true}},
		"DELETE":             {endpoint{Method: http.MethodDelete}, toolexec.Write, shape{true, true}},
		"GET":                {endpoint{Method: http.MethodGet}, toolexec.ReadOnly, plain},
		"own Transport":      {endpoint{Client: inner.Client()}, toolexec.Write, shape{true, true}},
		"another base":       {endpoint{Client: (&httptool.Transport{Base: roundTripper(inner.RoundTrip)}).Client()}, toolexec.Write, marks},
		"another RoundTrip":  {endpoint{Client: http.DefaultClient}, toolexec.Write, marks},
		"around a Transport": {endpoint{Client: &http.Client{Transport: roundTripper(inner.RoundTrip)}}, toolexec.Write, marks},
	} {
		tool := row.e.Tool("x")
		assert.Equal(t, row.effect, tool.Effect, name)
		declared := shape{tool.MarksSent, tool.OneRequest}
		assert.Equal(t, row.shape, declared, name)
	}
}

func TestEndpointMethods(t *testing.T) {
	for method, body := range map[string]string{http.MethodGet: "", http.MethodDelete: "", http.MethodPut: `{"order_id":"A","cents":1}`} {
		url, seen := echo(t, http.StatusOK, `{"receipt":"r"}`)
		e := &httptool.Endpoint[refundIn, receipt]{Method: method, URL: url + "/{order_id}"}
		env := call(t, e.Tool("x"), refundIn{"A", 1})
		assert.True(t, env.OK, method)
		got := <-seen
		assert.Equal(t, method, got.method)
		assert.Equal(t, body, got.body)
		assert.Equal(t, body != "", got.header.Get("Content-Type") != "")
	}
}

// How the answers of one endpoint end.
func TestEndpointAnswers(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		body   string
		change func(*httptool.Endpoint[refundIn, receipt])
		code   toolexec.Code
		state  toolexec.CommitState
	}{
		"no content":         {204, "", nil, toolexec.CodeOK, com},
		"null":               {200, "null", nil, toolexec.CodeOK, com},
		"blank":              {200, " \n", nil, toolexec.CodeOK, com},
		"refused":            {400, "", nil, toolexec.CodeInvalidArguments, nc},
		"failed":             {500, "", nil, unknown, unk},
		"redirected":         {302, "", nil, toolexec.CodeRedirected, unk},
		"post redirect get":  {303, "<a href>", func(e *httptool.Endpoint[refundIn, receipt]) { e.Check.SeeOtherIsSuccess = true }, toolexec.CodeOK, com},
		"not JSON":           {200, "<html>", nil, toolexec.CodeOK, com},
		"two values":         {200, `{"receipt":"a"}{"receipt":"b"}`, nil, toolexec.CodeOK, com},
		"another type":       {200, `{"receipt":7}`, nil, toolexec.CodeOK, com},
		"too long":           {200, `{"receipt":"aaaaaaaaaaaaaaaaaaa"}`, func(e *httptool.Endpoint[refundIn, receipt]) { e.MaxBody = 10 }, toolexec.CodeOK, com},
		"foreign redirected": {302, "", func(e *httptool.Endpoint[refundIn, receipt]) { e.Client = &http.Client{} }, toolexec.CodeRedirected, unk},
		"foreign refused":    {400, "", func(e *httptool.Endpoint[refundIn, receipt]) { e.Client = &http.Client{} }, toolexec.CodeInvalidArguments, unk},
	} {
		t.Run(name, func(t *testing.T) {
			url, seen := echo(t, row.status, row.body)
			e := &httptool.Endpoint[refundIn, receipt]{URL: url}
			if row.change != nil {
				row.change(e)
			}
			env := call(t, e.Tool("x"), refundIn{"A", 1})
			assert.Equal(t, row.code, env.Code)
			assert.Equal(t, row.state.String(), env.CommitState.String())
			assert.Len(t, seen, 1)
		})
	}
}

// What fails before the point of no return has sent nothing.
func TestEndpointSendsNothing(t *testing.T) {
	url, seen := echo(t, 200, "{}")
	hook := func(err error) func(context.Context, refundIn, *http.Request) error {
		return func(context.Context, refundIn, *http.Request) error { return err }
	}
	for name, row := range map[string]struct {
		e     httptool.Endpoint[refundIn, receipt]
		in    refundIn
		code  toolexec.Code
		state toolexec.CommitState
	}{
		"refused":         {httptool.Endpoint[refundIn, receipt]{URL: "http://" + deadAddr(t)}, refundIn{}, unavailable, nc},
		"hook":            {httptool.Endpoint[refundIn, receipt]{URL: url, Request: hook(errors.New("no token"))}, refundIn{}, failed, nc},
		"hook that knows": {httptool.Endpoint[refundIn, receipt]{URL: url, Request: hook(toolexec.Rejected(login, nil))}, refundIn{}, login, nc},
		"bad URL":         {httptool.Endpoint[refundIn, receipt]{URL: "http://a b/"}, refundIn{}, failed, nc},
		"climbs":          {httptool.Endpoint[refundIn, receipt]{URL: url + "/{order_id}"}, refundIn{OrderID: ".."}, toolexec.CodeInvalidArguments, nc},
		"foreign refused": {httptool.Endpoint[refundIn, receipt]{URL: "http://" + deadAddr(t), Client: &http.Client{}}, refundIn{}, unknown, unk},
	} {
		t.Run(name, func(t *testing.T) {
			env := call(t, row.e.Tool("x"), row.in)
			assert.Equal(t, row.code, env.Code)
			assert.Equal(t, row.state.String(), env.CommitState.String())
		})
	}
	assert.Empty(t, seen)

	unencodable := &httptool.Endpoint[chan int, receipt]{URL: url}
	_, err := unencodable.Run(t.Context(), nil)
	var f *toolexec.Failure
	require.ErrorAs(t, err, &f)
	assert.Equal(t, toolexec.EvidenceNotSent, f.Evidence)

	// A mark that is refused ends it too.
	plainTool := &httptool.Endpoint[refundIn, receipt]{URL: url}
	env := once(t, marks, func(ctx context.Context) error {
		ended, cancel := context.WithTimeout(ctx, -1)
		defer cancel()
		_, err := plainTool.Run(ended, refundIn{})
		return err
	})
	assert.Equal(t, nc, env.CommitState)
	assert.Empty(t, seen)
}

// Whatever the client sends through, net/http sends nothing again for its key.
func TestEndpointSendsOnce(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		for name, client := range map[string]func(*http.Transport) *http.Client{
			"Transport": func(b *http.Transport) *http.Client { return over(t, b) },
			"net/http":  func(b *http.Transport) *http.Client { return &http.Client{Transport: b} },
			"around one": func(b *http.Transport) *http.Client {
				return &http.Client{Transport: roundTripper((&httptool.Transport{Base: b}).RoundTrip)}
			},
		} {
			var n counter
			base := bare()
			t.Cleanup(base.CloseIdleConnections)
			url := "http://" + listen(t, n.serve)
			e := &httptool.Endpoint[refundIn, receipt]{Method: method, URL: url, IdempotencyHeader: "Idempotency-Key", Client: client(base)}
			warm(t, e.Client, url)
			env := call(t, e.Tool("x"), refundIn{})
			assert.Equal(t, unk, env.CommitState, name)
			assert.Equal(t, int64(1), n.posts.Load(), "%s over %s", method, name)
		}
	}
}

// Outside an attempt Run is a plain function.
func TestEndpointAlone(t *testing.T) {
	url, _ := echo(t, 200, `{"receipt":"r"}`)
	e := &httptool.Endpoint[refundIn, receipt]{URL: url, IdempotencyHeader: "Idempotency-Key"}
	out, err := e.Run(t.Context(), refundIn{})
	require.NoError(t, err)
	assert.Equal(t, receipt{"r"}, out)
}

// The mark that an endpoint makes is the Transport's to take back, once.
func TestEndpointTwiceInAnAttempt(t *testing.T) {
	url, _ := echo(t, 200, `{}`)
	good := &httptool.Endpoint[refundIn, receipt]{URL: url}
	dead := &httptool.Endpoint[refundIn, receipt]{URL: "http://" + deadAddr(t)}
	run := func(ctx context.Context, e *httptool.Endpoint[refundIn, receipt]) error {
		_, err := e.Run(ctx, refundIn{})
		return err
	}
	env := once(t, marks, func(ctx context.Context) error { _ = run(ctx, dead); return run(ctx, dead) })
	assert.Equal(t, nc, env.CommitState)
	env = once(t, marks, func(ctx context.Context) error { _ = run(ctx, good); return run(ctx, dead) })
	assert.Equal(t, unk, env.CommitState)

	// A client around the Transport that asks for a token first.
	inner := new(httptool.Transport)
	t.Cleanup(inner.CloseIdleConnections)
	around := roundTripper(func(req *http.Request) (*http.Response, error) {
		token, err := http.NewRequestWithContext(req.Context(), http.MethodPost, url, nil)
		require.NoError(t, err)
		resp, err := inner.RoundTrip(token)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return inner.RoundTrip(req)
	})
	dead.Client = &http.Client{Transport: around}
	env = once(t, marks, func(ctx context.Context) error { return run(ctx, dead) })
	assert.Equal(t, unk, env.CommitState, "the token's request was sent")
}

func TestTemplates(t *testing.T) {
	url, seen := echo(t, 200, `{}`)
	for name, row := range map[string]struct {
		template, arguments, want string
	}{
		"nothing":        {"/a", `{}`, "/a"},
		"text":           {"/a/{id}/b", `{"id":"x y"}`, "/a/x%20y/b"},
		"number":         {"/{id}", `{"id":9007199254740993}`, "/9007199254740993"},
		"boolean":        {"/?on={on}", `{"on":true}`, "/?on=true"},
		"query":          {"/?q={q}&r=1", `{"q":"a&b=c d/.."}`, "/?q=a%26b%3Dc+d%2F..&r=1"},
		"empty query":    {"/?q={q}", `{"q":""}`, "/?q="},
		"two":            {"/{a}-{b}", `{"a":"1","b":"2"}`, "/1-2"},
		"slash":          {"/{a}", `{"a":"g/p"}`, "/g%2Fp"},
		"dots":           {"/{a}", `{"a":"a..b"}`, "/a..b"},
		"empty":          {"/{a}/b", `{"a":""}`, ""},
		"dot":            {"/{a}/b", `{"a":"."}`, ""},
		"up":             {"/{a}/b", `{"a":".."}`, ""},
		"hidden up":      {"/{a}/b", `{"a":"x/../../y"}`, ""},
		"backwards":      {"/{a}/b", `{"a":"..\\y"}`, ""},
		"up in two":      {"/{a}{b}", `{"a":"x","b":"../"}`, "/x..%2F"},
		"up by two":      {"/.{a}", `{"a":"."}`, ""},
		"null":           {"/{a}", `{"a":null}`, ""},
		"absent":         {"/{a}", `{}`, ""},
		"object":         {"/{a}", `{"a":{}}`, ""},
		"array":          {"/{a}", `{"a":[]}`, ""},
		"no object":      {"/{a}", `[1]`, ""},
		"never closed":   {"/{a", `{"a":"1"}`, ""},
		"chooses a host": {"{host}", `{"host":".evil.example"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := &httptool.Endpoint[json.RawMessage, json.RawMessage]{Method: http.MethodGet, URL: url + row.template}
			_, err := e.Run(t.Context(), json.RawMessage(row.arguments))
			if row.want == "" {
				require.Error(t, err)
				assert.Empty(t, seen)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, row.want, (<-seen).uri)
		})
	}
	anywhere := &httptool.Endpoint[json.RawMessage, json.RawMessage]{Method: http.MethodGet, URL: "http://{host}/"}
	_, err := anywhere.Run(t.Context(), json.RawMessage(`{"host":"`+strings.TrimPrefix(url, "http://")+`"}`))
	require.ErrorContains(t, err, "must not choose a host")
	assert.Empty(t, seen)
	relative := &httptool.Endpoint[refundIn, receipt]{URL: "/{order_id}"} // no host, which net/http refuses
	_, err = relative.Run(t.Context(), refundIn{OrderID: "a"})
	assert.Error(t, err)
}

func TestLookup(t *testing.T) {
	for name, row := range map[string]struct {
		status  int
		body    string
		same    bool
		verdict toolexec.Verdict
		failed  bool
	}{
		"found":         {200, `{"receipt":"r"}`, true, toolexec.FoundEffect, false},
		"another":       {200, `{"receipt":"r"}`, false, toolexec.OtherEffect, false},
		"absent":        {404, "", true, toolexec.NoEffect, false},
		"gone":          {410, "", true, toolexec.NoEffect, false},
		"empty":         {200, "", true, toolexec.CannotTell, true},
		"null":          {200, "null", true, toolexec.CannotTell, true},
		"no JSON":       {200, "<html>", true, toolexec.CannotTell, true},
		"no content":    {204, "", true, toolexec.CannotTell, true},
		"not permitted": {403, "", true, toolexec.CannotTell, true},
		"down":          {503, "", true, toolexec.CannotTell, true},
		"pending":       {202, "", true, toolexec.CannotTell, true},
	} {
		t.Run(name, func(t *testing.T) {
			url, seen := echo(t, row.status, row.body)
			l := &httptool.Lookup[refundIn, receipt]{
				URL: url + "/refunds?ref={ref}&order={order_id}", Header: http.Header{"X-Api": {"v2"}},
				Same: func(in refundIn, out receipt) bool { return row.same && in.Cents == 1 && out.Receipt == "r" },
			}
			f, err := l.Find(t.Context(), "run_81/step_4", refundIn{"A", 1})
			assert.Equal(t, row.failed, err != nil, "%v", err)
			assert.Equal(t, row.verdict.String(), f.Verdict.String())
			if row.verdict == toolexec.FoundEffect {
				assert.Equal(t, receipt{"r"}, f.Result)
			}
			got := <-seen
			assert.Equal(t, "GET /refunds?ref=run_81%2Fstep_4&order=A v2", strings.Join([]string{got.method, got.uri, got.header.Get("X-Api")}, " "))
		})
	}
}

// A look-up that cannot be made says nothing.
func TestLookupThatFails(t *testing.T) {
	l := func(url string) *httptool.Lookup[refundIn, receipt] {
		return &httptool.Lookup[refundIn, receipt]{URL: url}
	}
	hooked := l("http://127.0.0.1:1/")
	hooked.Request = func(context.Context, refundIn, *http.Request) error { return errors.New("no token") }
	for name, l := range map[string]*httptool.Lookup[refundIn, receipt]{
		"template": l("http://x/{nothing}"), "URL": l("http://a b/"), "dial": l("http://" + deadAddr(t)), "hook": hooked,
	} {
		f, err := l.Find(t.Context(), "r", refundIn{})
		require.Error(t, err, name)
		assert.Equal(t, toolexec.CannotTell, f.Verdict)
	}
	bad := &httptool.Lookup[chan int, receipt]{URL: "http://x/{ref}"}
	_, err := bad.Find(t.Context(), "r", nil)
	require.Error(t, err)
	noObject := &httptool.Lookup[int, receipt]{URL: "http://" + deadAddr(t) + "/{ref}"}
	_, err = noObject.Find(t.Context(), "r", 7)
	require.ErrorContains(t, err, "/r")
}
