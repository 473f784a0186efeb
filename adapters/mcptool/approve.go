package mcptool

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
)

// From this version of the protocol on a server asks its client in the result of
// the call (SEP-2322), not with a request of its own.
const asksInResult = "2026-07-28"

// question is the id of the one that is asked in a result.
const question = "approval"

// What a person answers.
const (
	accepted = "accept"
	declined = "decline"
)

// mayAsk reports whether the person at the client may, and can, be asked about a
// held call.
func (v *service) mayAsk(req *mcp.CallToolRequest, env toolexec.Envelope[json.RawMessage]) bool {
	if !v.options.ClientMayApprove || env.Code != toolexec.CodeMissingApproval {
		return false
	}
	p := req.Session.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return false
	}
	can := p.Capabilities.Elicitation
	return can.Form != nil || can.URL == nil // neither means forms, as it did at first
}

// ask lets the person at the client decide on the call that is held, and runs it
// if that is allowed. It returns the question instead where the protocol wants it
// in a result. Nothing has been sent so far. Where there is no decision the call
// stays held.
func (v *service) ask(ctx context.Context, req *mcp.CallToolRequest, call toolexec.Call, env toolexec.Envelope[json.RawMessage]) (toolexec.Envelope[json.RawMessage], *mcp.CallToolResult) {
	key := toolexec.Key{Scope: call.Scope, Ref: env.OperationRef}
	rec, err := v.people.Get(ctx, key)
	if err != nil || rec.Approval == nil {
		return env, nil
	}
	answer, asked := answerTo(ctx, req, &rec)
	if asked != nil {
		return env, asked
	}
	by := toolexec.Statement{Actor: "client of " + call.Scope, Evidence: "elicitation: " + answer}
	switch answer {
	case accepted:
		_, err = v.people.Approve(ctx, key, rec.Approval.Digest, by, 0)
	case declined:
		_, err = v.people.Deny(ctx, key, by)
	default:
		return env, nil
	}
	if err != nil {
		return env, nil // somebody else decided meanwhile, and the next call says what
	}
	if call.OperationRef == "" {
		call.OperationRef = env.OperationRef
	}
	return v.execute(ctx, call), nil
}

// answerTo is what a person said to the question about rec; or the question, if
// it is still to be asked. An answer counts only for the call that it was asked
// about, which the state that comes back names.
func answerTo(ctx context.Context, req *mcp.CallToolRequest, rec *toolexec.Record) (string, *mcp.CallToolResult) {
	form := &mcp.ElicitParams{
		Mode: "form", Message: questionText(rec),
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
	}
	if req.Session.InitializeParams().ProtocolVersion < asksInResult {
		res, err := req.Session.Elicit(ctx, form)
		if err != nil {
			return "", nil // it cannot be asked after all
		}
		return res.Action, nil
	}
	if said, ok := req.Params.InputResponses[question].(*mcp.ElicitResult); ok && req.Params.RequestState == rec.Approval.Digest {
		return said.Action, nil
	}
	return "", &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{question: form},
		RequestState:  rec.Approval.Digest,
	}
}

func questionText(rec *toolexec.Record) string {
	if s := rec.Approval.Summary; s != "" && s != rec.Tool {
		return "Allow " + rec.Tool + "? " + s
	}
	return "Allow this call of " + rec.Tool + "?"
}
