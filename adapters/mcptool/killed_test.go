package mcptool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/adapters/mcptool"
)

// killedAt are the points at which a server dies, and how many effects there are then.
var killedAt = map[childFault]int{childBefore: 0, childDuring: 1, childAfter: 1}

// killedEach runs f for each point and each transport, side by side: most of the time is leases of dead processes.
func killedEach(t *testing.T, f func(t *testing.T, fault childFault, web bool)) {
	t.Helper()
	t.Parallel()
	for fault := range killedAt {
		for _, web := range []bool{false, true} {
			name := "stdio"
			if web {
				name = "HTTP"
			}
			t.Run(fmt.Sprint(name, "/", fault), func(t *testing.T) {
				t.Parallel()
				f(t, fault, web)
			})
		}
	}
}

// killedCall calls refund as a client of the SDK does.
func killedCall(t testing.TB, cs *mcp.ClientSession) (*mcp.CallToolResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return cs.CallTool(ctx, &mcp.CallToolParams{Name: "refund", Arguments: args, Meta: mcp.Meta{mcptool.MetaOperationRef: "run_81/step_4"}})
}

// killedUntil calls again, as the answer allows, until it is known what happened.
func killedUntil(t *testing.T, again func() toolexec.Envelope[json.RawMessage]) toolexec.Envelope[json.RawMessage] {
	t.Helper()
	var env toolexec.Envelope[json.RawMessage]
	childUntil(t, func() bool { env = again(); return env.OK })
	return env
}

// A server that is killed, before, during or after the effect, and started again on its records: the client loses
// its stream, calls again with its ref, and there is one refund.
func TestServerIsKilled(t *testing.T) {
	killedEach(t, func(t *testing.T, fault childFault, web bool) {
		server := newChild(t, "toolexec", fault, web)
		_, err := killedCall(t, server.session())
		require.Error(t, err, "it died")
		assert.Len(t, server.world.effects(), killedAt[fault])
		server.restart()
		cs := server.session()
		env := killedUntil(t, func() toolexec.Envelope[json.RawMessage] {
			res, err := killedCall(t, cs)
			require.NoError(t, err)
			return envelopeIn(t, res)
		})
		assert.JSONEq(t, `{"receipt":"rcpt_1"}`, string(env.Result))
		assert.Equal(t, []string{"ref=run_81/step_4"}, server.world.effects())
	})
}

// A server that knows nothing of toolexec and is killed: the write is unknown, stays so, and is never issued again. The
// next call of another tool starts the server again.
func TestRemoteIsKilled(t *testing.T) {
	killedEach(t, func(t *testing.T, fault childFault, web bool) {
		server := newChild(t, "plain", fault, web)
		remote := &mcptool.Remote{Connect: server.connect, Trusted: true}
		t.Cleanup(func() { _ = remote.Close() })
		x := toolexec.Executor{Policy: toolexec.Policy{Deadline: 20 * time.Second, TotalDeadline: time.Minute}}
		remoteImport(t, remote, &x)
		call := toolexec.Call{Name: "refund", OperationRef: "run_81/step_4", Arguments: json.RawMessage(`{"order_id":"1"}`)}
		for i := range 2 {
			env := x.Execute(t.Context(), call)
			assert.Equal(t, "OUTCOME_UNKNOWN unknown verify_operation never", fmt.Sprint(env.Code, " ", env.CommitState, " ", env.NextAction, " ", env.Retry.Directive))
			assert.Len(t, server.world.effects(), killedAt[fault])
			if i == 0 {
				server.restart()
			}
		}
		read := x.Execute(t.Context(), toolexec.Call{Name: "get_order", Arguments: json.RawMessage(`{"order_id":"1"}`)})
		assert.True(t, read.OK, read.AgentMessage)
		assert.Len(t, server.world.effects(), killedAt[fault])
	})
}

// With toolexec on both sides what became of it is found out, once the server is back.
func TestRemoteIsKilledAndAsked(t *testing.T) {
	killedEach(t, func(t *testing.T, fault childFault, web bool) {
		server := newChild(t, "toolexec", fault, web)
		remote := &mcptool.Remote{Connect: server.connect, Trusted: true, Adjust: func(_ *mcp.Tool, tool *mcptool.Tool) {
			if tool.Verify != nil {
				tool.Verify.Settle, tool.Verify.MaxChecks = 100*time.Millisecond, -1
			}
		}}
		t.Cleanup(func() { _ = remote.Close() })
		x := toolexec.Executor{Policy: toolexec.Policy{Deadline: 20 * time.Second, TotalDeadline: time.Minute}}
		remoteImport(t, remote, &x)
		call := toolexec.Call{Name: "refund", OperationRef: "run_81/step_4", Arguments: json.RawMessage(`{"order_id":"1"}`)}
		assert.NotEqual(t, toolexec.NotCommitted, x.Execute(t.Context(), call).CommitState, "it may be found at once, and is not denied")
		server.restart()
		env := killedUntil(t, func() toolexec.Envelope[json.RawMessage] { return x.Execute(t.Context(), call) })
		assert.JSONEq(t, `{"receipt":"rcpt_1"}`, string(env.Result))
		assert.Equal(t, []string{"ref=run_81/step_4"}, server.world.effects())
	})
}
