package main

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
)

// The path of a model's call: JSON in, schema check, run, envelope as JSON out.

var arguments = json.RawMessage(`{"order_id":"ORD-5510","cents":8000}`)

// P6
func byName(b *testing.B) {
	_, x := bind(b, toolexec.Tool[input, receipt]{Effect: toolexec.ReadOnly})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		env := x.Execute(ctx, toolexec.Call{Name: "lookup", Arguments: arguments})
		must(b, env.OK)
		_, err := env.AppendJSON(nil)
		must(b, err == nil)
	}
}

// plainJSON decodes the same arguments, runs the same tool and encodes the same
// envelope, and checks nothing.
func plainJSON(b *testing.B) {
	_, x := bind(b, toolexec.Tool[input, receipt]{Effect: toolexec.ReadOnly})
	ctx := context.Background()
	var shape struct {
		OK           bool                   `json:"ok"`
		Code         string                 `json:"code"`
		CommitState  string                 `json:"commit_state"`
		NextAction   string                 `json:"next_action"`
		Result       receipt                `json:"result"`
		Verification *toolexec.Verification `json:"verification"`
	}
	env, err := json.Marshal(x.Execute(ctx, toolexec.Call{Name: "lookup", Arguments: arguments}))
	must(b, err == nil && json.Unmarshal(env, &shape) == nil)
	b.ReportAllocs()
	for b.Loop() {
		var got input
		must(b, json.Unmarshal(arguments, &got) == nil)
		shape.Result, err = lookup(ctx, got)
		must(b, err == nil)
		_, err = json.Marshal(&shape)
		must(b, err == nil)
	}
}

// mcpInMemory calls the same tool through the MCP Go SDK's client and server,
// joined in memory.
func mcpInMemory(b *testing.B) {
	ctx := context.Background()
	server := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "v1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "lookup"}, func(ctx context.Context, _ *mcp.CallToolRequest, got input) (*mcp.CallToolResult, receipt, error) {
		out, err := lookup(ctx, got)
		return nil, out, err
	})
	here, there := mcp.NewInMemoryTransports()
	serving, err := server.Connect(ctx, there, nil)
	must(b, err == nil)
	defer serving.Close()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "v1"}, nil).Connect(ctx, here, nil)
	must(b, err == nil)
	defer client.Close()
	b.ReportAllocs()
	for b.Loop() {
		res, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "lookup", Arguments: in})
		must(b, err == nil && !res.IsError)
	}
}
