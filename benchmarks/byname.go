package main

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
)

// The path of a model's call: JSON in, schema check, run, envelope as JSON out.

var call = toolexec.Call{Name: "lookup", Arguments: json.RawMessage(`{"order_id":"ORD-5510","cents":8000}`)}

// reader is an executor with the tool as a read.
func reader() *toolexec.Executor {
	x := new(toolexec.Executor)
	toolexec.Bind(x, toolexec.Tool[input, receipt]{Name: call.Name, Effect: toolexec.ReadOnly, Run: lookup})
	return x
}

func byName(b *testing.B) {
	x := reader()
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		env := x.Execute(ctx, call)
		must(b, env.OK)
		_, err := env.AppendJSON(nil)
		must(b, err == nil)
	}
}

// plainJSON decodes the same arguments, runs the same tool and encodes the same
// envelope.
func plainJSON(b *testing.B) {
	ctx := context.Background()
	var shape struct {
		OK           bool                   `json:"ok"`
		Code         string                 `json:"code"`
		CommitState  string                 `json:"commit_state"`
		NextAction   string                 `json:"next_action"`
		Result       receipt                `json:"result"`
		Verification *toolexec.Verification `json:"verification,omitempty"`
	}
	fill(b, reader().Execute(ctx, call), &shape)
	b.ReportAllocs()
	for b.Loop() {
		var got input
		must(b, json.Unmarshal(call.Arguments, &got) == nil)
		var err error
		shape.Result, err = lookup(ctx, got)
		must(b, err == nil)
		_, err = json.Marshal(&shape)
		must(b, err == nil)
	}
}

// fill sets shape to what env is on the wire, and sees to it that it is encoded
// to the same bytes.
func fill(b *testing.B, env json.Marshaler, shape any) {
	b.Helper()
	want, err := env.MarshalJSON()
	must(b, err == nil && json.Unmarshal(want, shape) == nil)
	got, err := json.Marshal(shape)
	must(b, err == nil && bytes.Equal(want, got))
}

// mcpInMemory calls the same tool through the MCP Go SDK's client and server,
// joined in memory.
func mcpInMemory(b *testing.B) {
	ctx := context.Background()
	server := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "v1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: call.Name}, func(ctx context.Context, _ *mcp.CallToolRequest, got input) (*mcp.CallToolResult, receipt, error) {
		out, err := lookup(ctx, got)
		return nil, out, err
	})
	here, there := mcp.NewInMemoryTransports()
	serving, err := server.Connect(ctx, there, nil)
	must(b, err == nil)
	defer func() { must(b, serving.Close() == nil) }()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "v1"}, nil).Connect(ctx, here, nil)
	must(b, err == nil)
	defer func() { must(b, client.Close() == nil) }()
	b.ReportAllocs()
	for b.Loop() {
		res, err := client.CallTool(ctx, &mcp.CallToolParams{Name: call.Name, Arguments: in})
		must(b, err == nil && !res.IsError)
	}
}
