package mcptool

import (
	"context"
	"errors"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
)

// codeSessionTerminated is what the Python SDK calls a session that is lost: the
// code of an invalid request without its sign (python-sdk #3556).
const codeSessionTerminated = 32600

// Codes that the SDK makes itself have no meaning when they come from a server,
// and no proof when they do not: -32005, "rejected by transport", goes around every
// error of its HTTP client, also one that comes after the request was sent.
const (
	codeResourceNotFound = -32002
	codeInterrupted      = -32800
)

// failureOf is what an error of a call means, of which something was written or
// not.
//
// What the HTTP client says about a request that it did not begin is judged by
// toolexec's own ladder, which knows a refused dial and a certificate that is not
// trusted. Of everything else that is no answer nothing is known.
func failureOf(err error, wrote bool) error {
	var request *url.Error
	var rpc *jsonrpc.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, mcp.ErrSessionMissing):
		return sessionLost(err)
	case errors.As(err, &request) && !wrote:
		return request
	case errors.As(err, &rpc):
		return answered(rpc, err)
	}
	return toolexec.InDoubt(err)
}

// sessionLost: the server does not know the session, so it did not get to the call.
// A retry opens another; without one the agent is not to go on by itself.
func sessionLost(err error) *toolexec.Failure {
	f := toolexec.Rejected(toolexec.CodeProtocolError, err)
	f.Class, f.Category = toolexec.ClassTransient, toolexec.CategoryDependency
	return f
}

// answered is what an error answer of JSON-RPC means.
func answered(rpc *jsonrpc.Error, err error) *toolexec.Failure {
	switch rpc.Code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest:
		return toolexec.Rejected(toolexec.CodeProtocolError, err)
	case codeSessionTerminated:
		return sessionLost(err)
	case jsonrpc.CodeMethodNotFound:
		return toolexec.Rejected(toolexec.CodeUnknownTool, err)
	case jsonrpc.CodeInvalidParams:
		if isUnknownTool(rpc, "") {
			return toolexec.Rejected(toolexec.CodeUnknownTool, err)
		}
		return toolexec.Rejected(toolexec.CodeInvalidArguments, err)
	case jsonrpc.CodeInternalError, codeInterrupted:
		return toolexec.InDoubt(err)
	case codeResourceNotFound:
		return toolexec.Rejected(toolexec.CodeNotFound, err)
	case mcp.CodeHeaderMismatch, mcp.CodeMissingRequiredClientCapabilities, mcp.CodeUnsupportedProtocolVersion:
		return toolexec.Rejected(toolexec.CodeConfigError, err)
	case mcp.CodeURLElicitationRequired:
		return toolexec.Rejected(toolexec.CodeMissingApproval, err)
	case -32003, -32004, -32005: // closing, closing, rejected by transport: the SDK's, or a server's that has the same
		return toolexec.InDoubt(err)
	}
	return &toolexec.Failure{Code: toolexec.CodeToolFailed, Category: toolexec.CategoryDependency, Err: err}
}
