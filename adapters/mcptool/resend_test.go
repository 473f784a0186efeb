package mcptool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/adapters/mcptool"
)

// resendFault is what befalls a request.
type resendFault func(next http.RoundTripper, r *http.Request) (*http.Response, error)

// resendWire does to the first call of a tool what a test says, and counts the calls that were sent.
type resendWire struct {
	fault resendFault
	next  http.RoundTripper
	calls atomic.Int32 // that were tried
}

func (w *resendWire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		return w.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !bytes.Contains(body, []byte(`"tools/call"`)) || w.calls.Add(1) > 1 {
		return w.next.RoundTrip(r)
	}
	return w.fault(w.next, r)
}

// resendAnswer sends the request, drops its answer and answers otherwise.
func resendAnswer(status int, kind, body string) resendFault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		res.StatusCode, res.Body = status, io.NopCloser(bytes.NewReader([]byte(body)))
		res.Header.Set("Content-Type", kind)
		return res, nil
	}
}

// resendFail sends the request, or not, and fails.
func resendFail(send bool, fail error) resendFault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if send {
			res, err := next.RoundTrip(r)
			if err != nil {
				return nil, err
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		return nil, fail
	}
}

// A write is sent again only when it is proven that it was not sent. That the SDK calls every error of its HTTP client
// "rejected by transport", and says that it "didn't reach the server", is no proof.
func TestWriteIsSentOnceOverHTTP(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	const unknown, done = "OUTCOME_UNKNOWN unknown verify_operation", "OK committed continue"
	for name, row := range map[string]struct {
		fault          resendFault
		want           string
		tried, effects int
	}{
		"refused dial":           {resendFail(false, dial), done, 2, 1},
		"connection closed":      {resendFail(true, io.EOF), unknown, 1, 1},
		"reset":                  {resendFail(true, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}), unknown, 1, 1},
		"500":                    {resendAnswer(500, "text/plain", "oops"), unknown, 1, 1},
		"503":                    {resendAnswer(503, "text/plain", ""), unknown, 1, 1},
		"429":                    {resendAnswer(429, "text/plain", ""), unknown, 1, 1},
		"400":                    {resendAnswer(400, "text/plain", ""), unknown, 1, 1},
		"stream that ends":       {resendAnswer(200, "text/event-stream", ""), unknown, 1, 1},
		"stream that breaks":     {resendAnswer(200, "text/event-stream", "event: message\ndata: {\"jsonrpc\"\n\n"), unknown, 1, 1},
		"no JSON":                {resendAnswer(200, "application/json", "<html>"), unknown, 1, 1},
		"another kind of answer": {resendAnswer(200, "text/html", "<html>"), unknown, 1, 1},
		"a JSON-RPC refusal":     {resendAnswer(400, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"header"}}`), "CONFIG_ERROR not_committed escalate", 1, 1},
		"a redirection, then a refused dial": {func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			res, err := resendAnswer(http.StatusSeeOther, "text/plain", "")(next, r)
			if err == nil {
				res.Header.Set("Location", "http://127.0.0.1:1/elsewhere")
			}
			return res, err
		}, unknown, 1, 1},
		"a session that is not known": {func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			r.Header.Set("Mcp-Session-Id", "of an earlier life")
			return next.RoundTrip(r)
		}, done, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var world counted
			s, _ := remotePlain(remoteTool{mcp.Tool{Name: "w"}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				world.post(fmt.Sprint(r.Params.Meta[mcptool.MetaOperationRef]))
				return text("done"), nil
			}})
			url := web(t, s, false, false).URL
			wire := &resendWire{fault: row.fault, next: new(http.Transport)}
			remote := &mcptool.Remote{Trusted: true, Connect: func(ctx context.Context) (*mcp.ClientSession, error) {
				return mcp.NewClient(impl("agent"), nil).Connect(ctx, &mcp.StreamableClientTransport{
					Endpoint: url, HTTPClient: &http.Client{Transport: wire}, DisableStandaloneSSE: true, MaxRetries: -1,
				}, nil)
			}}
			t.Cleanup(func() { _ = remote.Close() })
			x := toolexec.Executor{Policy: toolexec.Policy{Deadline: 20 * time.Second, TotalDeadline: time.Minute, Backoff: toolexec.Backoff{Initial: -1}}}
			_, err := remote.Import(t.Context(), &x)
			require.NoError(t, err)
			env := x.Execute(t.Context(), toolexec.Call{Name: "w", OperationRef: "a/1", Arguments: json.RawMessage(`{}`)})
			assert.Equal(t, row.want, fmt.Sprint(env.Code, " ", env.CommitState, " ", env.NextAction))
			assert.EqualValues(t, row.tried, wire.calls.Load())
			assert.Equal(t, map[string]int{"a/1": row.effects}, world.effects)
		})
	}
}
