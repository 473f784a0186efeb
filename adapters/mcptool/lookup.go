package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
)

var (
	errNoRecord = errors.New("mcptool: the server has no record of the operation, which proves nothing")
	errStillOut = errors.New("mcptool: the server does not know yet what became of the operation")
)

// lookUp asks a server made with Serve what became of an operation. Its guard
// writes the record before anything is sent, so a record that says that nothing
// happened can be believed; no record cannot: the call may not have arrived yet, or
// a restart have forgotten it.
func (r *Remote) lookUp(ctx context.Context, ref string, _ json.RawMessage) (toolexec.Finding[json.RawMessage], error) {
	status, err := r.status(ctx, sentRef(ctx, ref))
	switch {
	case err != nil:
		return toolexec.Finding[json.RawMessage]{}, err
	case !status.Known:
		return toolexec.Finding[json.RawMessage]{}, errNoRecord
	case status.CommitState == toolexec.Committed && status.Result == nil:
		return toolexec.FoundEffectOnly[json.RawMessage](), nil
	case status.CommitState == toolexec.Committed:
		return toolexec.Found(status.Result), nil
	case status.CommitState == toolexec.NotCommitted:
		return toolexec.Absent[json.RawMessage](), nil
	}
	return toolexec.Finding[json.RawMessage]{}, errStillOut
}

// status calls the server's verify_operation.
func (r *Remote) status(ctx context.Context, ref string) (toolexec.OperationStatus, error) {
	var status toolexec.OperationStatus
	session, err := r.open(ctx)
	if err != nil {
		return status, err
	}
	res, _, err := session.call(ctx, &mcp.CallToolParams{
		Name: toolexec.VerifyOperationTool, Arguments: toolexec.VerifyOperation{OperationRef: ref},
	})
	if err != nil {
		return status, err
	}
	structured, err := structuredOf(res)
	if err != nil {
		return status, err
	}
	env, ok := envelopeOf(res, structured)
	if !ok || !env.OK || !env.HasResult {
		return status, fmt.Errorf("mcptool: %s gave no answer (%s)", toolexec.VerifyOperationTool, env.Code)
	}
	err = json.Unmarshal(env.Result, &status)
	return status, err
}
