package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/adapters/mcptool"
)

var faultUpdate = flag.Bool("update", false, "write the table of faults into README.md")

// faultRows are what befalls the first call. Both servers are real processes over stdio, and both have the same
// tool; the client is the SDK's, and calls once more with the same ref in _meta, after starting a server that died.
var faultRows = []struct {
	name  string
	fault childFault
	tool  string
	args  any
	twice bool // whether a second call means anything
}{
	{"none", childFine, "refund", args, true},
	{"the gateway's answer is lost after the effect", childLost, "refund", args, true},
	{"the tool panics after the effect", childPanics, "refund", args, true},
	{"the tool hangs after the effect", childHangs, "refund", args, true},
	{"the result breaks its schema after the effect", childBroken, "refund", args, true},
	{"the process is killed before the effect", childBefore, "refund", args, true},
	{"the process is killed after the effect", childDuring, "refund", args, true},
	{"an argument is missing", childFine, "refund", map[string]any{"cents": 8000}, false},
	{"there is no such tool", childFine, "refnd", args, false},
}

// faultTold says what a client can tell from an answer.
func faultTold(res *mcp.CallToolResult, err error) string {
	var rpc *jsonrpc.Error
	var env toolexec.Envelope[any]
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "nothing, until it gives up"
	case errors.As(err, &rpc):
		return fmt.Sprintf("protocol error %d", rpc.Code)
	case err != nil:
		return "the server is gone"
	case res.Meta[mcptool.MetaEnvelope] != nil && faultEnvelope(res, &env) && env.OK && env.Replayed:
		return "`OK`, replayed"
	case env.OK && env.Verification.Source == toolexec.SourceLookup:
		return "`OK`, found by a look-up"
	case env.OK && !env.HasResult:
		return "`OK`, the result withheld"
	case env.OK:
		return "`OK`"
	case env.Code != "":
		return fmt.Sprint("`", env.Code, "`, ", env.CommitState, ", ", env.NextAction)
	case res.IsError:
		return "isError, a text"
	}
	return "ok"
}

func faultEnvelope(res *mcp.CallToolResult, env *toolexec.Envelope[any]) bool {
	raw, ok := res.StructuredContent.(map[string]any)
	if !ok {
		return false
	}
	text, err := json.Marshal(raw)
	return err == nil && env.UnmarshalJSON(text) == nil
}

// faultCall gives up after five seconds.
func faultCall(t *testing.T, cs *mcp.ClientSession, tool string, with any) (*mcp.CallToolResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return cs.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: with, Meta: mcp.Meta{mcptool.MetaOperationRef: "run_81/step_4"}})
}

// faultRun is one row for one server: what the first call tells, what the second does, and the effects in the end.
func faultRun(t *testing.T, role string, i int) (first, second string, effects int) {
	t.Helper()
	row := faultRows[i]
	server := newChild(t, role, row.fault, false)
	cs := server.session()
	res, err := faultCall(t, cs, row.tool, row.args)
	first = faultTold(res, err)
	if !row.twice {
		return first, "", len(server.world.effects())
	}
	if first == "the server is gone" {
		cs = server.session()
	}
	childUntil(t, func() bool { // it waits for the lease of the process that died, as the answers say
		second = faultTold(faultCall(t, cs, row.tool, row.args))
		return !strings.Contains(second, "unknown")
	})
	return first, second, len(server.world.effects())
}

// TestFaultsSideBySide makes the table in README.md, or finds it there as it is.
func TestFaultsSideBySide(t *testing.T) {
	t.Parallel()
	type cell struct{ told, effects string }
	table := make([][2]cell, len(faultRows))
	var wg sync.WaitGroup
	for i := range faultRows {
		for side, role := range []string{"plain", "toolexec"} {
			wg.Go(func() {
				first, second, effects := faultRun(t, role, i)
				if second != "" {
					first += "; then " + second
				}
				table[i][side] = cell{first, fmt.Sprint(effects)}
			})
		}
	}
	wg.Wait()
	var b strings.Builder
	b.WriteString("| fault of the first call | the SDK alone tells the client | refunds | served by `mcptool` | refunds |\n|---|---|---|---|---|\n")
	for i, row := range faultRows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", row.name, table[i][0].told, table[i][0].effects, table[i][1].told, table[i][1].effects)
	}
	const begin, end = "<!-- faults: written by a test -->\n", "<!-- end of faults -->"
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(readme), begin)
	require.True(t, found)
	was, after, found := strings.Cut(rest, end)
	require.True(t, found)
	if *faultUpdate {
		require.NoError(t, os.WriteFile("README.md", []byte(before+begin+b.String()+end+after), 0o600))
		return
	}
	assert.Equal(t, b.String(), was, "run go test -run Faults -update")
	for i := range table {
		assert.LessOrEqual(t, table[i][1].effects, "1", faultRows[i].name)
	}
}
