package mcptool_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/adapters/mcptool"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("MCPTOOL_ROLE"); role != "" { // a server, started by a test
		os.Exit(child(role))
	}
	_ = flag.Set("test.parallel", "32") // those that are parallel wait for leases, not for a core
	os.Exit(m.Run())
}

type (
	order struct {
		OrderID string `json:"order_id"`
		Cents   int64  `json:"cents,omitempty"`
	}
	receipt struct {
		Receipt string `json:"receipt"`
	}
	tool = toolexec.Tool[order, receipt]
)

// args are those of the common call, here and in the documents.
var args = map[string]any{"order_id": "ORD-5510", "cents": 8000}

func impl(name string) *mcp.Implementation { return &mcp.Implementation{Name: name, Version: "v1"} }

// serving is an executor behind a server of the SDK.
func serving(x *toolexec.Executor, o mcptool.ServeOptions) *mcp.Server {
	s := mcp.NewServer(impl("server"), nil)
	mcptool.Serve(s, x, o)
	return s
}

// dial joins a client of the SDK to s, in memory.
func dial(t testing.TB, s *mcp.Server, o *mcp.ClientOptions, version string) *mcp.ClientSession {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	ss, err := s.Connect(t.Context(), there, nil)
	require.NoError(t, err)
	cs, err := mcp.NewClient(impl("client"), o).Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = cs.Close()
		_ = ss.Wait()
	})
	return cs
}

// ask calls a tool with a ref in _meta; "" for none.
func ask(t testing.TB, cs *mcp.ClientSession, name, ref string, arguments any) (*mcp.CallToolResult, toolexec.Envelope[json.RawMessage]) {
	t.Helper()
	p := &mcp.CallToolParams{Name: name, Arguments: arguments}
	if ref != "" {
		p.Meta = mcp.Meta{mcptool.MetaOperationRef: ref}
	}
	res, err := cs.CallTool(context.WithoutCancel(t.Context()), p)
	require.NoError(t, err)
	return res, envelopeIn(t, res)
}

// envelopeIn is the envelope in a result, which agrees with what stands beside it.
func envelopeIn(t testing.TB, res *mcp.CallToolResult) toolexec.Envelope[json.RawMessage] {
	t.Helper()
	var env toolexec.Envelope[json.RawMessage]
	raw, err := json.Marshal(res.StructuredContent)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &env), "%s", raw)
	assert.Equal(t, !env.OK, res.IsError)
	assert.EqualValues(t, 1, res.Meta[mcptool.MetaEnvelope])
	require.Len(t, res.Content, 1)
	assert.IsType(t, (*mcp.TextContent)(nil), res.Content[0])
	return env
}

func textOf(t testing.TB, res *mcp.CallToolResult) string {
	t.Helper()
	require.NotEmpty(t, res.Content)
	text, ok := res.Content[0].(*mcp.TextContent)
	require.True(t, ok)
	return text.Text
}

// counted is the world of a test: its effects by ref.
type counted struct {
	mu      sync.Mutex
	effects map[string]int
	runs    int
}

func (c *counted) post(ref string) receipt {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.effects == nil {
		c.effects = map[string]int{}
	}
	c.effects[ref]++
	c.runs++
	return receipt{"rcpt_1"}
}

func (c *counted) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs
}

// refund posts to c.
func refund(c *counted) tool {
	return tool{Name: "refund", Description: "Refund an order.", Run: func(ctx context.Context, _ order) (receipt, error) {
		return c.post(toolexec.OperationRef(ctx)), nil
	}}
}
