package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/adapters/mcptool"
)

func TestListing(t *testing.T) {
	var x toolexec.Executor
	toolexec.Bind(&x, refund(new(counted)))
	toolexec.Bind(&x, tool{Name: "charge", Effect: toolexec.Idempotent, Ref: func(in order) string { return in.OrderID }, Run: refund(nil).Run})
	toolexec.Bind(&x, toolexec.Tool[*order, receipt]{
		Name: "get_order", Effect: toolexec.ReadOnly, OutputSchema: json.RawMessage(`{"type":"object","required":["receipt"]}`),
		Run: func(context.Context, *order) (receipt, error) { return receipt{}, nil },
	})
	toolexec.Bind(&x, toolexec.Tool[map[string]any, string]{
		Name: "note", Effect: toolexec.ReadOnly, InputSchema: json.RawMessage(`{"type":["null","object"],"properties":{}}`),
		Run: func(context.Context, map[string]any) (string, error) { return "", nil },
	})
	toolexec.BindVerifyOperation(&x)
	cs := dial(t, serving(&x, mcptool.ServeOptions{}), nil, "")
	listed, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	got := map[string]string{}
	for _, l := range listed.Tools {
		raw, err := json.Marshal([]any{l.Annotations, l.InputSchema.(map[string]any)["type"], l.Meta[mcptool.MetaTool]})
		require.NoError(t, err)
		got[l.Name] = string(raw)
	}
	assert.Equal(t, map[string]string{
		"charge":           `[{"destructiveHint":true,"idempotentHint":true,"readOnlyHint":false},"object",{"effect":"idempotent","ref_argument":"operation_ref"}]`,
		"get_order":        `[{"destructiveHint":false,"idempotentHint":true,"readOnlyHint":true},"object",{"effect":"read_only"}]`,
		"note":             `[{"destructiveHint":false,"idempotentHint":true,"readOnlyHint":true},"object",{"effect":"read_only"}]`,
		"refund":           `[{"destructiveHint":true,"idempotentHint":false,"readOnlyHint":false},"object",{"effect":"write","ref_argument":"operation_ref"}]`,
		"verify_operation": `[{"destructiveHint":false,"idempotentHint":true,"readOnlyHint":true},"object",{"effect":"read_only"}]`,
	}, got)
	for _, l := range listed.Tools {
		properties := l.InputSchema.(map[string]any)["properties"].(map[string]any)
		required, _ := l.InputSchema.(map[string]any)["required"].([]any)
		assert.Equal(t, l.Name != "get_order" && l.Name != "note", properties["operation_ref"] != nil, l.Name)
		assert.Equal(t, l.Name == "verify_operation", len(required) > 0 && required[0] == "operation_ref", l.Name)
		assert.Equal(t, l.Name == "get_order", l.OutputSchema != nil, l.Name)
	}
}

func TestServeRefusesWhatCannotBeServed(t *testing.T) {
	var x toolexec.Executor
	toolexec.Bind(&x, toolexec.Tool[string, string]{Name: "echo", Run: func(_ context.Context, s string) (string, error) { return s, nil }})
	toolexec.Bind(&x, refund(new(counted)))
	s := mcp.NewServer(impl("server"), nil)
	assert.PanicsWithValue(t, `mcptool: Serve "echo": MCP calls tools with an object, and this one takes something else; leave it out of ServeOptions.Tools, or give it a struct`,
		func() { mcptool.Serve(s, &x, mcptool.ServeOptions{}) })
	assert.PanicsWithValue(t, `mcptool: Serve "refnd": the executor has no tool of this name; bind it first`,
		func() { mcptool.Serve(s, &x, mcptool.ServeOptions{Tools: []string{"refnd"}}) })
	assert.PanicsWithValue(t, "mcptool: Serve needs a server and an executor", func() { mcptool.Serve(s, nil, mcptool.ServeOptions{}) })
	assert.NotPanics(t, func() { mcptool.Serve(s, &x, mcptool.ServeOptions{Tools: []string{"refund"}}) })
}

// A ref comes in _meta, or as an argument; one that is neither is refused, and nothing runs.
func TestRefOfACall(t *testing.T) {
	for name, row := range map[string]struct {
		meta any
		args string
		code toolexec.Code
		ref  string
	}{
		"meta":                {"run_81/step_4", `{"order_id":"1"}`, toolexec.CodeOK, "run_81/step_4"},
		"argument":            {nil, `{"order_id":"1","operation_ref":"a/1"}`, toolexec.CodeOK, "a/1"},
		"argument first":      {nil, ` { "operation_ref" : "a/1" , "order_id":"1" } `, toolexec.CodeOK, "a/1"},
		"both, the same":      {"a/1", `{"order_id":"1","operation_ref":"a/1"}`, toolexec.CodeOK, "a/1"},
		"both, different":     {"a/2", `{"order_id":"1","operation_ref":"a/1"}`, toolexec.CodeInvalidOperationRef, ""},
		"null argument":       {"a/1", `{"order_id":"1","operation_ref":null}`, toolexec.CodeOK, "a/1"},
		"empty argument":      {"a/1", `{"order_id":"1","operation_ref":""}`, toolexec.CodeOK, "a/1"},
		"number in meta":      {7, `{"order_id":"1"}`, toolexec.CodeInvalidOperationRef, ""},
		"number as argument":  {nil, `{"order_id":"1","operation_ref":7}`, toolexec.CodeInvalidOperationRef, ""},
		"not the form":        {"a b", `{"order_id":"1"}`, toolexec.CodeInvalidOperationRef, ""},
		"twice":               {nil, `{"order_id":"1","operation_ref":"a","operation_ref":"b"}`, toolexec.CodeInvalidArguments, ""},
		"inside":              {"a/1", `{"order_id":"operation_ref"}`, toolexec.CodeOK, "a/1"},
		"broken":              {nil, `{"operation_ref":"a"`, toolexec.CodeInvalidArguments, ""},
		"no object":           {nil, `["operation_ref"]`, toolexec.CodeInvalidArguments, ""},
		"other key twice":     {nil, `{"order_id":"1","order_id":"2","operation_ref":"a"}`, toolexec.CodeInvalidArguments, ""},
		"null for everything": {nil, `null`, toolexec.CodeInvalidArguments, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var world counted
			var x toolexec.Executor
			toolexec.Bind(&x, refund(&world))
			env := rawCall(t, &x, row.meta, row.args)
			assert.Equal(t, row.code, env.Code)
			assert.Equal(t, env.OK, world.total() == 1)
			if env.OK {
				assert.Equal(t, map[string]int{row.ref: 1}, world.effects)
			}
		})
	}
}

// rawCall sends arguments that a client of the SDK would not encode: it changes the
// request when it has arrived.
func rawCall(t *testing.T, x *toolexec.Executor, meta any, arguments string) toolexec.Envelope[json.RawMessage] {
	t.Helper()
	s := serving(x, mcptool.ServeOptions{})
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if call, ok := req.(*mcp.CallToolRequest); ok {
				call.Params.Arguments = json.RawMessage(arguments)
			}
			return next(ctx, method, req)
		}
	})
	p := &mcp.CallToolParams{Name: "refund"}
	if meta != nil {
		p.Meta = mcp.Meta{mcptool.MetaOperationRef: meta}
	}
	res, err := dial(t, s, nil, "").CallTool(t.Context(), p)
	require.NoError(t, err)
	return envelopeIn(t, res)
}

func TestRefArgumentOfAnotherName(t *testing.T) {
	for name, row := range map[string]struct {
		option, args string
		ok           bool
	}{
		"named": {"key", `{"order_id":"1","key":"a/1"}`, true},
		"none":  {"-", `{"order_id":"1","operation_ref":"a/1"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			var world counted
			var x toolexec.Executor
			toolexec.Bind(&x, refund(&world))
			cs := dial(t, serving(&x, mcptool.ServeOptions{RefArgument: row.option}), nil, "")
			_, env := ask(t, cs, "refund", "", json.RawMessage(row.args))
			assert.Equal(t, row.ok, env.OK)
			if row.ok {
				assert.Equal(t, "a/1", env.OperationRef)
			}
		})
	}
}

// bearer is a token verifier by which the token is the user.
func bearer(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
}

// asUser sends requests of a user.
type asUser struct{ name string }

func (u asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if u.name != "" {
		r.Header.Set("Authorization", "Bearer "+u.name)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// web serves s over streamable HTTP.
func web(t testing.TB, s *mcp.Server, stateless, tokens bool) *httptest.Server {
	t.Helper()
	var h http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	if tokens {
		h = auth.RequireBearerToken(bearer, nil)(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

func browse(t testing.TB, url, user string) *mcp.ClientSession {
	t.Helper()
	cs, err := mcp.NewClient(impl("client"), nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: asUser{user}}, DisableStandaloneSSE: true,
	}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cs.Close() })
	return cs
}

// Client B cannot read what client A's call did, whatever tells them apart; each sees its own.
func TestRefsOfTwoClientsNeverMeet(t *testing.T) {
	for name, row := range map[string]struct {
		stateless, tokens bool
		pipe              bool
		a, b              string
		again             bool // A's second session is A
	}{
		"users, stateless":   {stateless: true, tokens: true, a: "alice", b: "bob", again: true},
		"users, in sessions": {tokens: true, a: "alice", b: "bob", again: true},
		"sessions":           {},
		"pipes":              {pipe: true},
	} {
		t.Run(name, func(t *testing.T) {
			var world counted
			var x toolexec.Executor
			toolexec.Bind(&x, refund(&world))
			var open func(user string) *mcp.ClientSession
			if row.pipe { // each with a server of its own, as a listener would
				open = func(string) *mcp.ClientSession { return dial(t, serving(&x, mcptool.ServeOptions{}), nil, "") }
			} else {
				url := web(t, serving(&x, mcptool.ServeOptions{}), row.stateless, row.tokens).URL
				open = func(user string) *mcp.ClientSession { return browse(t, url, user) }
			}
			a := open(row.a)
			_, first := ask(t, a, "refund", "step/1", args)
			_, own := ask(t, a, "refund", "step/1", args)
			_, others := ask(t, open(row.b), "refund", "step/1", args)
			_, anew := ask(t, open(row.a), "refund", "step/1", args)
			assert.Equal(t, []bool{true, true, true, true}, []bool{first.OK, own.OK, others.OK, anew.OK})
			assert.Equal(t, []bool{false, true, false, row.again}, []bool{first.Replayed, own.Replayed, others.Replayed, anew.Replayed})
			want := 3
			if row.again {
				want = 2
			}
			assert.Equal(t, want, world.effects["step/1"])
		})
	}
}

// The scope is never empty: who cannot be told from others may read, and no more.
func TestNobodyKnownChangesNothing(t *testing.T) {
	var world counted
	var x toolexec.Executor
	toolexec.Bind(&x, refund(&world))
	toolexec.Bind(&x, tool{Name: "get_order", Effect: toolexec.ReadOnly, Run: func(ctx context.Context, _ order) (receipt, error) {
		return receipt{toolexec.Scope(ctx)}, nil
	}})
	for name, row := range map[string]struct {
		scope func(*mcp.CallToolRequest) string
		code  toolexec.Code
		reads string
	}{
		"default": {nil, toolexec.CodeAuthenticationRequired, `{"receipt":"anonymous"}`},
		"nobody":  {func(*mcp.CallToolRequest) string { return "" }, toolexec.CodeAuthenticationRequired, `{"receipt":"anonymous"}`},
		"panics":  {func(*mcp.CallToolRequest) string { panic("boom") }, toolexec.CodeAuthenticationRequired, `{"receipt":"anonymous"}`},
		"the one": {func(*mcp.CallToolRequest) string { return "tenant/1" }, toolexec.CodeOK, `{"receipt":"tenant/1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			cs := browse(t, web(t, serving(&x, mcptool.ServeOptions{Scope: row.scope}), true, false).URL, "")
			before := world.total()
			_, env := ask(t, cs, "refund", "a/1", args)
			assert.Equal(t, row.code, env.Code)
			assert.Equal(t, env.OK, world.total() > before)
			_, read := ask(t, cs, "get_order", "", args)
			assert.JSONEq(t, row.reads, string(read.Result))
		})
	}
}

// The only client of a process keeps its scope when the process starts again.
func TestFirstPipeIsTheSameAfterARestart(t *testing.T) {
	var world counted
	store := new(toolexec.MemoryStore)
	for i := range 2 {
		x := &toolexec.Executor{Store: store}
		toolexec.Bind(x, refund(&world))
		_, env := ask(t, dial(t, serving(x, mcptool.ServeOptions{}), nil, ""), "refund", "step/1", args)
		assert.Equal(t, i == 1, env.Replayed)
	}
	assert.Equal(t, 1, world.total())
}

func TestUnknownNameIsAnsweredForTheModel(t *testing.T) {
	var x toolexec.Executor
	toolexec.Bind(&x, refund(new(counted)))
	toolexec.Bind(&x, tool{Name: "secret", Run: refund(nil).Run})
	s := serving(&x, mcptool.ServeOptions{Tools: []string{"refund"}})
	mcp.AddTool(s, &mcp.Tool{Name: "host"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "the host's own"}}}, nil, nil
	})
	cs := dial(t, s, nil, "")
	for _, name := range []string{"refnd", "secret"} { // one that is bound and not served is no different
		res, env := ask(t, cs, name, "", args)
		assert.Equal(t, toolexec.CodeUnknownTool, env.Code)
		assert.Equal(t, toolexec.ClassUnknownTool, env.Class)
		assert.NotContains(t, textOf(t, res), "secret")
	}
	res, _ := ask(t, cs, "refnd", "", args)
	assert.Contains(t, textOf(t, res), "refund")
	own, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "host", Arguments: struct{}{}})
	require.NoError(t, err)
	assert.Equal(t, "the host's own", textOf(t, own))
}

// What a tool does to its process, its goroutine or its result reaches the SDK as a result only.
func TestWhateverAToolDoesIsAResult(t *testing.T) {
	deep := func(n int) json.RawMessage { return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	type raw = toolexec.Tool[order, json.RawMessage]
	ends := map[string]struct {
		run  func(ctx context.Context) (json.RawMessage, error)
		ok   bool
		note string
	}{
		"panics":           {run: func(context.Context) (json.RawMessage, error) { panic("hunter2") }},
		"panics with nil":  {run: func(context.Context) (json.RawMessage, error) { panic(nil) }}, //nolint:govet // that is the case
		"panics with err":  {run: func(context.Context) (json.RawMessage, error) { panic(errors.New("hunter2")) }},
		"exits":            {run: func(context.Context) (json.RawMessage, error) { runtime.Goexit(); return nil, nil }},
		"hangs":            {run: func(context.Context) (json.RawMessage, error) { time.Sleep(time.Minute); return nil, nil }},
		"fails":            {run: func(context.Context) (json.RawMessage, error) { return nil, errors.New("hunter2") }},
		"nil":              {run: func(context.Context) (json.RawMessage, error) { return nil, nil }, ok: true},
		"not JSON":         {run: func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{"a":`), nil }, ok: true, note: "encoded"},
		"lines":            {run: func(context.Context) (json.RawMessage, error) { return json.RawMessage("{\n\"a\":\r\n1}"), nil }, ok: true},
		"not UTF-8":        {run: func(context.Context) (json.RawMessage, error) { return json.RawMessage("\"\xff\xfe\""), nil }, ok: true},
		"huge":             {run: func(context.Context) (json.RawMessage, error) { return json.Marshal(strings.Repeat("x", 20<<20)) }, ok: true, note: "too large"},
		"deep":             {run: func(context.Context) (json.RawMessage, error) { return deep(257), nil }, ok: true, note: "too deep"},
		"deep enough":      {run: func(context.Context) (json.RawMessage, error) { return deep(256), nil }, ok: true},
		"brackets in text": {run: func(context.Context) (json.RawMessage, error) { return json.Marshal(`\"` + strings.Repeat("[", 300)) }, ok: true},
		"as deep as it is": {run: func(context.Context) (json.RawMessage, error) { return deep(9999), nil }, ok: true, note: "too deep"},
	}
	for name, end := range ends {
		for _, cooperative := range []bool{false, true} {
			if cooperative && name == "hangs" {
				continue // its deadline ends its context only, as its declaration says
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var x toolexec.Executor
					toolexec.Bind(&x, raw{Name: "w", Cooperative: cooperative, Run: func(ctx context.Context, _ order) (json.RawMessage, error) { return end.run(ctx) }})
					cs := dial(t, serving(&x, mcptool.ServeOptions{}), nil, "")
					res, env := ask(t, cs, "w", "a/1", args)
					assert.Equal(t, end.ok, env.OK, env.Code)
					assert.NotContains(t, textOf(t, res), "hunter2")
					assert.LessOrEqual(t, len(textOf(t, res)), toolexec.DefaultMaxObservation)
					if end.note != "" {
						assert.Contains(t, env.SafeDetails[toolexec.DetailNote], end.note)
					}
					assert.Equal(t, end.ok && end.note == "", env.HasResult)
					if !end.ok {
						assert.Equal(t, toolexec.CommitUnknown, env.CommitState)
						assert.Equal(t, toolexec.NextVerifyOperation, env.NextAction)
					}
					require.NoError(t, cs.Ping(t.Context(), nil), "the server is alive")
					require.NoError(t, x.Close(t.Context()))
				})
			})
		}
	}
}

func TestHostSetsItsBound(t *testing.T) {
	var x toolexec.Executor
	toolexec.Bind(&x, toolexec.Tool[order, string]{Name: "w", Run: func(context.Context, order) (string, error) { return strings.Repeat("x", 2<<20), nil }})
	for limit, whole := range map[int]bool{0: false, 10: false, 3 << 20: true, -1: true} {
		_, env := ask(t, dial(t, serving(&x, mcptool.ServeOptions{MaxResult: limit}), nil, ""), "w", "", args)
		assert.True(t, env.OK)
		assert.Equal(t, whole, env.HasResult, "%d", limit)
	}
}

// A client that cancels ends the tool's context, and what the record says holds for the next call.
func TestClientCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var cause error
		toolexec.Bind(&x, tool{Name: "slow", Run: func(ctx context.Context, _ order) (receipt, error) {
			<-ctx.Done()
			cause = ctx.Err()
			return receipt{}, ctx.Err()
		}})
		cs := dial(t, serving(&x, mcptool.ServeOptions{}), nil, "")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "slow", Arguments: args, Meta: mcp.Meta{mcptool.MetaOperationRef: "a/1"}})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		assert.ErrorIs(t, cause, context.Canceled)
		_, env := ask(t, cs, "slow", "a/1", args)
		assert.Equal(t, toolexec.CodeOutcomeUnknown, env.Code)
	})
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		left := make(chan context.Context, 1)
		toolexec.Bind(&x, tool{Name: "long", Run: func(ctx context.Context, _ order) (receipt, error) {
			mcptool.Progress(ctx, 1, 2, "half")
			mcptool.Progress(ctx, 2, 2, "")
			left <- ctx
			return receipt{}, nil
		}})
		var got []string
		o := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			raw, _ := json.Marshal(r.Params)
			got = append(got, string(raw))
		}}
		cs := dial(t, serving(&x, mcptool.ServeOptions{}), o, "2025-11-25")
		p := &mcp.CallToolParams{Name: "long", Arguments: args}
		p.SetProgressToken("t1")
		_, err := cs.CallTool(t.Context(), p)
		require.NoError(t, err)
		mcptool.Progress(context.WithoutCancel(<-left), 3, 2, "late")
		_, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "long", Arguments: args}) // did not ask for it
		require.NoError(t, err)
		mcptool.Progress(t.Context(), 1, 1, "outside")
		synctest.Wait()
		assert.Equal(t, []string{
			`{"progressToken":"t1","message":"half","progress":1,"total":2}`,
			`{"progressToken":"t1","progress":2,"total":2}`,
		}, got)
	})
}

// A member that the tool has itself is its own.
func TestOwnMemberIsNoRef(t *testing.T) {
	type in struct {
		Ref string `json:"operation_ref"`
	}
	var x toolexec.Executor
	toolexec.Bind(&x, toolexec.Tool[in, string]{Name: "w", Run: func(ctx context.Context, v in) (string, error) {
		return v.Ref + " of " + toolexec.OperationRef(ctx), nil
	}})
	cs := dial(t, serving(&x, mcptool.ServeOptions{}), nil, "")
	_, env := ask(t, cs, "w", "a/1", in{"theirs"})
	assert.Equal(t, `"theirs of a/1"`, string(env.Result))
}
