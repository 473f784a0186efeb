package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/adapters/mcptool"
)

// Both ways in which a server asks: with a request of its own, and in the result.
var approveVersions = []string{"2025-11-25", "2026-07-28"}

// approvePerson answers elicitations, and remembers what was asked.
type approvePerson struct {
	says  string
	err   error
	asked []string
}

func (p *approvePerson) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		p.asked = append(p.asked, r.Params.Message)
		return &mcp.ElicitResult{Action: p.says}, p.err
	}}
}

// approveRefund is a refund that a person has to allow.
func approveRefund(world *counted) tool {
	t := refund(world)
	t.Approval = &toolexec.Approval[order]{Summary: func(in order) string { return "Refund order " + in.OrderID + "." }}
	return t
}

func TestPersonAtTheClientDecides(t *testing.T) {
	for name, row := range map[string]struct {
		person  approvePerson
		may     bool
		code    toolexec.Code
		asked   int
		effects int
		second  toolexec.Code // of the same call, made once more
	}{
		"accepts":                       {approvePerson{says: "accept"}, true, toolexec.CodeOK, 1, 1, toolexec.CodeOK},
		"declines":                      {approvePerson{says: "decline"}, true, toolexec.CodeApprovalDenied, 1, 0, toolexec.CodeApprovalDenied},
		"looks away":                    {approvePerson{says: "cancel"}, true, toolexec.CodeMissingApproval, 1, 0, toolexec.CodeMissingApproval},
		"says what nobody knows":        {approvePerson{says: "sure"}, true, toolexec.CodeMissingApproval, 1, 0, toolexec.CodeMissingApproval},
		"is not asked, which is safest": {approvePerson{says: "accept"}, false, toolexec.CodeMissingApproval, 0, 0, toolexec.CodeMissingApproval},
	} {
		for _, version := range approveVersions {
			for _, ref := range []string{"", "step/1"} {
				t.Run(name+"/"+version+"/"+ref, func(t *testing.T) {
					var world counted
					var x toolexec.Executor
					toolexec.Bind(&x, approveRefund(&world))
					person := row.person
					cs := dial(t, serving(&x, mcptool.ServeOptions{ClientMayApprove: row.may}), person.options(), version)
					_, env := ask(t, cs, "refund", ref, args)
					assert.Equal(t, row.code, env.Code)
					assert.Equal(t, row.effects, world.total())
					require.Len(t, person.asked, row.asked)
					if row.asked > 0 {
						assert.Equal(t, "Allow refund? Refund order ORD-5510.", person.asked[0])
					}
					_, again := ask(t, cs, "refund", env.OperationRef, args)
					assert.Equal(t, row.second, again.Code)
					assert.Equal(t, row.effects, world.total(), "an approval is spent once")
				})
			}
		}
	}
}

// A client that cannot ask gets the held envelope, and a person elsewhere decides.
func TestClientThatCannotAskLeavesTheCallHeld(t *testing.T) {
	failing := (&approvePerson{err: errors.New("no screen")}).options()
	for name, o := range map[string]*mcp.ClientOptions{
		"no handler":    nil,
		"only by links": {ElicitationHandler: failing.ElicitationHandler, Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}}},
		"fails":         failing,
	} {
		for _, version := range approveVersions {
			if name == "fails" && version == "2026-07-28" {
				continue // there the client's SDK asks, and ends the call itself
			}
			t.Run(name+"/"+version, func(t *testing.T) {
				var world counted
				var x toolexec.Executor
				toolexec.Bind(&x, approveRefund(&world))
				cs := dial(t, serving(&x, mcptool.ServeOptions{ClientMayApprove: true}), o, version)
				_, env := ask(t, cs, "refund", "step/1", args)
				assert.Equal(t, toolexec.CodeMissingApproval, env.Code)
				assert.Equal(t, toolexec.NextRequestApproval, env.NextAction)
				assert.Zero(t, world.total())

				people := toolexec.Supervisor{Executor: &x}
				held := toolexec.Key{Scope: "local", Ref: "step/1"}
				rec, err := people.Get(t.Context(), held)
				require.NoError(t, err)
				_, err = people.Approve(t.Context(), held, rec.Approval.Digest, toolexec.Statement{Actor: "ada", Evidence: "T-1"}, 0)
				require.NoError(t, err)
				_, env = ask(t, cs, "refund", "step/1", args)
				assert.True(t, env.OK)
				assert.Equal(t, 1, world.total())
			})
		}
	}
}

// An answer counts for the call that was asked about, and for no other.
func TestAnswerIsBoundToItsCall(t *testing.T) {
	for name, state := range map[string]string{"none": "", "another's": "0000", "forged": "step/1"} {
		t.Run(name, func(t *testing.T) {
			var world counted
			var x toolexec.Executor
			toolexec.Bind(&x, approveRefund(&world))
			person := approvePerson{says: "accept"}
			o := person.options()
			o.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true}
			cs := dial(t, serving(&x, mcptool.ServeOptions{ClientMayApprove: true}), o, "2026-07-28")
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{
				Name: "refund", Arguments: args, Meta: mcp.Meta{mcptool.MetaOperationRef: "step/1"},
				InputResponses: mcp.InputResponseMap{"approval": &mcp.ElicitResult{Action: "accept"}}, RequestState: state,
			})
			require.NoError(t, err)
			assert.True(t, res.NeedsInput(), "it is asked, whatever the client brought")
			assert.Zero(t, world.total())
		})
	}
}

// A tool with a key of its own is approved under that.
func TestApprovalOfAKeyedTool(t *testing.T) {
	for _, version := range approveVersions {
		t.Run(version, func(t *testing.T) {
			var world counted
			var x toolexec.Executor
			keyed := approveRefund(&world)
			keyed.Ref = func(in order) string { return in.OrderID }
			toolexec.Bind(&x, keyed)
			person := approvePerson{says: "accept"}
			cs := dial(t, serving(&x, mcptool.ServeOptions{ClientMayApprove: true}), person.options(), version)
			_, env := ask(t, cs, "refund", "", args)
			assert.True(t, env.OK)
			assert.Equal(t, map[string]int{"refund:ORD-5510": 1}, world.effects)
			raw, err := json.Marshal(env)
			require.NoError(t, err)
			assert.Contains(t, string(raw), "refund:ORD-5510")
		})
	}
}
