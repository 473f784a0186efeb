package mcptool_test

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/adapters/mcptool"
)

func benchRun(_ context.Context, in order) (receipt, error) { return receipt{in.OrderID}, nil }

// benchServers have the same tool: on the SDK alone, and served as one that reads and as one that writes.
func benchServers() map[string]*mcp.Server {
	plain := mcp.NewServer(impl("server"), nil)
	mcp.AddTool(plain, &mcp.Tool{Name: "lookup"}, func(ctx context.Context, _ *mcp.CallToolRequest, in order) (*mcp.CallToolResult, receipt, error) {
		out, err := benchRun(ctx, in)
		return nil, out, err
	})
	var reads toolexec.Executor
	toolexec.Bind(&reads, tool{Name: "lookup", Effect: toolexec.ReadOnly, Run: benchRun})
	writes := toolexec.Executor{Store: &toolexec.MemoryStore{MaxFacts: -1}}
	toolexec.Bind(&writes, tool{Name: "lookup", Run: benchRun})
	return map[string]*mcp.Server{
		"plain": plain, "read": serving(&reads, mcptool.ServeOptions{}), "write": serving(&writes, mcptool.ServeOptions{}),
	}
}

func benchCall(b *testing.B, cs *mcp.ClientSession) {
	b.Helper()
	res, err := cs.CallTool(b.Context(), &mcp.CallToolParams{Name: "lookup", Arguments: args})
	if err != nil || res.IsError {
		b.Fatal(err)
	}
}

// What a call costs beside the same tool on a server of the SDK alone, through the same client in memory. Of each
// server by itself, for its allocations:
//
//	go test -run '^$' -bench CallTool .
func BenchmarkCallTool(b *testing.B) {
	for name, s := range benchServers() {
		b.Run(name, func(b *testing.B) {
			cs := dial(b, s, nil, "")
			b.ReportAllocs()
			for b.Loop() {
				benchCall(b, cs)
			}
		})
	}
}

// BenchmarkCallToolBeside takes turns, so that what else the machine does falls on all three alike.
func BenchmarkCallToolBeside(b *testing.B) {
	sessions, took := map[string]*mcp.ClientSession{}, map[string]time.Duration{}
	for name, s := range benchServers() {
		sessions[name] = dial(b, s, nil, "")
	}
	for b.Loop() {
		for name, cs := range sessions {
			start := time.Now()
			benchCall(b, cs)
			took[name] += time.Since(start)
		}
	}
	for _, name := range []string{"read", "write"} {
		b.ReportMetric(float64(took[name])/float64(took["plain"]), name+"/plain")
	}
}

// BenchmarkExecuteRemote is the client's side: a write of an executor, on a server of the SDK.
func BenchmarkExecuteRemote(b *testing.B) {
	s, _ := remotePlain()
	s.AddTool(&mcp.Tool{Name: "lookup", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("done"), nil
	})
	x := toolexec.Executor{Store: &toolexec.MemoryStore{MaxFacts: -1}}
	_, err := remoteOf(b, s, &mcptool.Remote{}).Import(b.Context(), &x)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if env := remoteExecute(b, &x, "lookup", ""); !env.OK {
			b.Fatal(env.AgentMessage)
		}
	}
}
