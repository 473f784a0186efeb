package mcptool

import (
	"encoding/json"
	"errors"
	"regexp"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
)

// What a result of a server means; errors.go is for calls that have none.

// answer is the result of a tool, or what its failure proves.
func (i *imported) answer(res *mcp.CallToolResult) (json.RawMessage, error) {
	if res.NeedsInput() {
		return nil, needsInput()
	}
	structured, err := structuredOf(res)
	if err != nil {
		return nil, malformed(err)
	}
	if env, ok := envelopeOf(res, structured); ok {
		return i.envelope(res, env)
	}
	if res.IsError {
		return nil, i.reported(structured)
	}
	return i.success(res, structured)
}

// structuredOf is the structured content as JSON; nil for none.
func structuredOf(res *mcp.CallToolResult) (json.RawMessage, error) {
	if res.StructuredContent == nil {
		return nil, nil
	}
	return json.Marshal(res.StructuredContent)
}

// needsInput: the server asks something first. By the protocol's convention the
// call is not begun, and comes again as a whole.
func needsInput() *toolexec.Failure {
	return toolexec.Rejected(toolexec.CodeMissingApproval, errors.New("mcptool: the server asks for input, which nobody gave"))
}

// malformed: there is an answer, and it does not say what happened.
func malformed(err error) *toolexec.Failure {
	return &toolexec.Failure{Code: toolexec.CodeResultMalformed, Err: err}
}

// success is the result of a call that its server says is done.
func (i *imported) success(res *mcp.CallToolResult, structured json.RawMessage) (json.RawMessage, error) {
	if structured != nil {
		if i.results != nil {
			if err := i.results.Validate(res.StructuredContent); err != nil {
				return nil, malformed(err)
			}
		}
		return structured, nil
	}
	if i.effect == toolexec.ReadOnly && isEmpty(res.Content) {
		return nil, toolexec.Empty("")
	}
	switch len(res.Content) {
	case 0:
		return json.RawMessage("null"), nil
	case 1:
		if text, ok := res.Content[0].(*mcp.TextContent); ok {
			return json.Marshal(text.Text)
		}
	}
	return json.Marshal(res.Content)
}

func isEmpty(content []mcp.Content) bool {
	for _, c := range content {
		if text, ok := c.(*mcp.TextContent); !ok || text.Text != "" {
			return false
		}
	}
	return true
}

// envelopeOf is the envelope in a result of a server made with Serve.
func envelopeOf(res *mcp.CallToolResult, structured json.RawMessage) (env toolexec.Envelope[json.RawMessage], ok bool) {
	if _, marked := res.Meta[MetaEnvelope]; !marked || structured == nil {
		return env, false
	}
	return env, json.Unmarshal(structured, &env) == nil
}

// envelope is what such a server says about its operation. One that is not trusted
// is believed a failure, but not that nothing happened.
func (i *imported) envelope(res *mcp.CallToolResult, env toolexec.Envelope[json.RawMessage]) (json.RawMessage, error) {
	switch {
	case env.OK && res.IsError:
		return nil, malformed(errors.New("mcptool: a success that is marked as an error"))
	case env.OK && env.HasResult:
		return env.Result, nil
	case env.OK && i.effect == toolexec.ReadOnly:
		return nil, &toolexec.Failure{Code: toolexec.CodeResultTooLarge}
	case env.OK: // the result is not kept there, and null is not what it was
		return nil, &toolexec.Failure{Code: toolexec.CodeResultTooLarge, Evidence: toolexec.EvidenceCommitted}
	case !i.remote.Trusted:
		return nil, &toolexec.Failure{Code: toolexec.CodeUpstreamError, Err: env.Err()}
	}
	return nil, failureIn(env)
}

// failureIn is a failure of a server that is trusted, with the facts of its own.
// Its texts stay there: they are written for its callers, not for ours.
func failureIn(env toolexec.Envelope[json.RawMessage]) *toolexec.Failure {
	f := &toolexec.Failure{
		Class: env.Class.Safe(), Code: env.Code, Category: env.Category.Safe(), Details: env.SafeDetails, Fields: env.FieldErrors, Err: env.Err(),
	}
	if wait := time.Until(env.Retry.NotBefore); !env.Retry.NotBefore.IsZero() && wait > 0 {
		f.RetryAfter = wait
	}
	delete(f.Details, toolexec.DetailVerificationTool) // its name is another here
	if env.CommitState.Safe() == toolexec.NotCommitted {
		next := env.NextAction.Safe()
		f.Evidence, f.Next = toolexec.EvidenceRejected, &next
	}
	return f
}

// stated is what other servers say of an error in structured content.
type stated struct {
	CommitState toolexec.CommitState `json:"commit_state"`
	Code        string               `json:"code"`
	Class       toolexec.Class       `json:"class"`
	Category    toolexec.Category    `json:"category"`
	Retryable   bool                 `json:"retryable"`
}

var codeForm = regexp.MustCompile(toolexec.CodePattern)

// reported is a result that is marked as an error. Its text says nothing about the
// effect: the marker covers arguments that were refused and answers that were lost
// alike. What is stated of a server that is trusted counts; that a call may be
// repeated does not say that nothing happened.
func (i *imported) reported(structured json.RawMessage) *toolexec.Failure {
	f := &toolexec.Failure{Code: toolexec.CodeUpstreamError, Err: errors.New("mcptool: the server reported an error")}
	var s stated
	if !i.remote.Trusted || structured == nil || json.Unmarshal(structured, &s) != nil {
		return f
	}
	if codeForm.MatchString(s.Code) && s.Code != string(toolexec.CodeOK) {
		f.Code = toolexec.Code(s.Code)
	}
	f.Class, f.Category = s.Class.Safe(), s.Category.Safe()
	if s.Retryable && f.Class == toolexec.ClassPermanent {
		f.Class = toolexec.ClassTransient
	}
	switch s.CommitState {
	case toolexec.NotCommitted:
		f.Evidence = toolexec.EvidenceRejected
	case toolexec.Committed:
		f.Evidence = toolexec.EvidenceCommitted
	}
	return f
}
