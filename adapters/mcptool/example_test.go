package mcptool_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/adapters/mcptool"
)

type Refund struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}

// shop is a server with one tool.
func shop() *mcp.Server {
	var x toolexec.Executor
	toolexec.Bind(&x, toolexec.Tool[Refund, string]{Name: "process_refund", Run: func(ctx context.Context, in Refund) (string, error) {
		mcptool.Progress(ctx, 1, 2, "Asking the gateway.")
		return "rcpt_1", nil
	}})
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "v1"}, nil)
	mcptool.Serve(server, &x, mcptool.ServeOptions{})
	return server
}

// join opens a session with server, in memory. Programs use stdio or HTTP.
func join(ctx context.Context, server *mcp.Server, o *mcp.ClientOptions) (*mcp.ClientSession, error) {
	here, there := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, there, nil); err != nil {
		return nil, err
	}
	return mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "v1"}, o).Connect(ctx, here, nil)
}

func ExampleServe() {
	ctx := context.Background()
	session, err := join(ctx, shop(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = session.Close() }()
	for range 2 { // calling again with the ref is always safe
		res, err := session.CallTool(ctx, &mcp.CallToolParams{
			Name: "process_refund", Arguments: Refund{"ORD-5510", 8000}, Meta: mcp.Meta{mcptool.MetaOperationRef: "run_81/step_4"},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		envelope := res.StructuredContent.(map[string]any)
		fmt.Println(res.IsError, envelope["commit_state"], envelope["operation_ref"], envelope["result"], envelope["replayed"])
	}
	// Output:
	// false committed run_81/step_4 rcpt_1 <nil>
	// false committed run_81/step_4 rcpt_1 true
}

func ExampleRemote() {
	ctx := context.Background()
	server := shop()
	remote := &mcptool.Remote{Prefix: "shop.", Connect: func(ctx context.Context) (*mcp.ClientSession, error) { return join(ctx, server, nil) }}
	defer func() { _ = remote.Close() }()
	var x toolexec.Executor
	names, err := remote.Import(ctx, &x)
	if err != nil {
		fmt.Println(err)
		return
	}
	env := x.Execute(ctx, toolexec.Call{Name: names[0], Arguments: json.RawMessage(`{"order_id":"ORD-5510","cents":8000}`), OperationRef: "run_81/step_4"})
	fmt.Println(names, env.OK, env.CommitState, string(env.Result))
	// Output:
	// [shop.process_refund] true committed "rcpt_1"
}

func ExampleRemote_adjust() {
	remote := &mcptool.Remote{
		Connect: func(ctx context.Context) (*mcp.ClientSession, error) { return join(ctx, shop(), nil) },
		Adjust: func(listed *mcp.Tool, tool *mcptool.Tool) {
			if listed.Name == "process_refund" { // what its manual says
				tool.Effect = toolexec.Idempotent
				tool.Approval = &toolexec.Approval[json.RawMessage]{}
			}
		},
	}
	defer func() { _ = remote.Close() }()
	var x toolexec.Executor
	if _, err := remote.Import(context.Background(), &x); err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range x.Tools() {
		fmt.Println(t.Name, t.Effect, t.NeedsApproval)
	}
	// Output:
	// process_refund idempotent true
}

func ExampleProgress() {
	ctx := context.Background()
	reported := make(chan string, 1)
	session, err := join(ctx, shop(), &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			reported <- fmt.Sprint(r.Params.Progress, " of ", r.Params.Total, ": ", r.Params.Message)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = session.Close() }()
	call := &mcp.CallToolParams{Name: "process_refund", Arguments: Refund{"ORD-5510", 8000}}
	call.SetProgressToken("refund of ORD-5510")
	if _, err := session.CallTool(ctx, call); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-reported)
	// Output:
	// 1 of 2: Asking the gateway.
}
