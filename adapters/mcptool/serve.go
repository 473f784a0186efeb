package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
)

// DefaultMaxResult bounds the result in an answer's structured content, in bytes.
const DefaultMaxResult = 1 << 20

// ServeOptions says how tools are served. The zero value serves all of them.
type ServeOptions struct {
	// Tools are the names that are served; nil: all that are bound when Serve is
	// called. An empty slice serves none.
	Tools []string

	// Scope names the tenant or principal on whose behalf a call is made; "" says
	// that nobody can tell. Refs of different scopes never meet, so one client cannot
	// read what another's call did. Nil: the user of the request's token
	// (auth.TokenInfo.UserID, so users of several issuers need a Scope that tells them
	// apart); without one the session, by a digest of its id.
	//
	// A session of a pipe has no id. The first of an executor is taken for the process
	// that started this one (stdio) and is named "local", also after a restart; each
	// further one has a name of its own, which ends with it.
	//
	// Where nobody can tell, as over HTTP without sessions and tokens, or when Scope
	// panics, calls that change something are refused as AUTHENTICATION_REQUIRED. It
	// runs concurrently.
	Scope func(*mcp.CallToolRequest) string

	// RefArgument is the optional argument by which a model, or a client that cannot
	// set _meta, gives a call its operation ref. It is added to the schema of every
	// tool that changes something, except where the tool has a member of that name.
	// Default: DefaultRefArgument; "-": none.
	RefArgument string

	// ClientMayApprove declares that the person at the client may allow a call that
	// needs approval. The client is then asked (elicitation) before anything is sent,
	// if it can be; that it shows the question to a person is its word. Otherwise, and
	// by default, the call is held for Supervisor.Approve.
	ClientMayApprove bool

	// MaxResult bounds the result that an answer carries as structured content, in
	// bytes: a client may close its connection on a message that is too long for it. A
	// longer one, or one that is nested too deep for other languages, is left out with
	// a note; the text is bounded by Executor.MaxObservation. Default 1 MiB; negative:
	// no bound.
	MaxResult int
}

// Serve adds the tools of x to s. Tools that s has otherwise are left alone.
//
// Every call is answered with a result, never with a protocol error: its text is
// the observation of the envelope, isError goes beside it, and its structured
// content is the envelope itself. That includes unknown names and arguments that
// break the schema. A call is cancelled by its client as MCP provides for, and its
// tool may report progress; see [Progress].
//
// It panics where x cannot be served as o says, as [toolexec.Bind] does: an
// argument of MCP is an object, and a name in o.Tools is that of a tool.
func Serve(s *mcp.Server, x *toolexec.Executor, o ServeOptions) {
	if s == nil || x == nil {
		panic("mcptool: Serve needs a server and an executor")
	}
	v := &service{x: x, people: toolexec.Supervisor{Executor: x}, options: o.inherit(), pipes: pipesOf(x), names: []string{}}
	for _, info := range x.Tools(o.Tools...) {
		v.names = append(v.names, info.Name)
		t, err := v.listed(info)
		if err != nil {
			panic(fmt.Sprintf("mcptool: Serve %q: %v", info.Name, err))
		}
		s.AddTool(t.listing, v.handler(t))
	}
	for _, name := range o.Tools {
		if !slices.Contains(v.names, name) {
			panic(fmt.Sprintf("mcptool: Serve %q: the executor has no tool of this name; bind it first", name))
		}
	}
	s.AddReceivingMiddleware(v.answerUnknown)
}

func (o ServeOptions) inherit() ServeOptions {
	switch o.RefArgument {
	case "":
		o.RefArgument = DefaultRefArgument
	case "-":
		o.RefArgument = ""
	}
	if o.MaxResult == 0 {
		o.MaxResult = DefaultMaxResult
	}
	return o
}

// service is an executor that is served.
type service struct {
	x       *toolexec.Executor
	people  toolexec.Supervisor
	options ServeOptions
	pipes   *pipes
	names   []string // that are served
}

// served is one of its tools.
type served struct {
	name    string
	guarded bool   // it changes something
	refArg  string // "": none was added
	listing *mcp.Tool
}

func (v *service) handler(t *served) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, refused := v.read(ctx, t, req)
		if refused != nil {
			return v.result(*refused), nil
		}
		ctx, answered := withProgress(ctx, req)
		defer answered()
		env := v.execute(ctx, call)
		if v.mayAsk(req, env) {
			var question *mcp.CallToolResult
			if env, question = v.ask(ctx, req, call, env); question != nil {
				return question, nil
			}
		}
		return v.result(env), nil
	}
}

// execute runs one call. It is a batch of one, because that contains also a
// Cooperative tool that ends its caller's goroutine, which is the SDK's.
func (v *service) execute(ctx context.Context, call toolexec.Call) toolexec.Envelope[json.RawMessage] {
	return v.x.ExecuteAll(ctx, []toolexec.Call{call})[0]
}

// read makes a call of a request, or refuses it.
func (v *service) read(ctx context.Context, t *served, req *mcp.CallToolRequest) (toolexec.Call, *toolexec.Envelope[json.RawMessage]) {
	call := toolexec.Call{Name: t.name, Arguments: req.Params.Arguments, Scope: v.scope(ctx, req)}
	call.RunID, _ = req.Params.Meta[MetaRunID].(string)
	if string(call.Arguments) == "null" {
		call.Arguments = nil // as if there were none, which some clients say so
	}
	if call.Scope == "" {
		if t.guarded {
			return call, refusal(t.name, toolexec.CodeAuthenticationRequired, toolexec.CategoryAuthorization,
				t.name+" was refused because nobody can tell who calls it.")
		}
		call.Scope = anonymous
	}
	var argument string
	if t.refArg != "" {
		var raw json.RawMessage
		call.Arguments, raw = takeMember(call.Arguments, t.refArg)
		argument = refIn(raw)
	}
	call.OperationRef = refOf(req.Params.Meta[MetaOperationRef])
	switch {
	case call.OperationRef == "":
		call.OperationRef = argument
	case argument != "" && argument != call.OperationRef:
		return call, refusal(t.name, toolexec.CodeInvalidOperationRef, toolexec.CategoryValidation,
			"Two operation refs were given for "+t.name+", in _meta and as an argument, and they differ.")
	}
	return call, nil
}

// noRef is not the form of a ref, so the executor refuses it.
const noRef = "?"

// refOf is a ref that came as v; "" for none.
func refOf(v any) string {
	if v == nil {
		return ""
	}
	if s, ok := v.(string); ok {
		return s
	}
	return noRef
}

// refIn is a ref that came as JSON. Models fill what they leave out with null.
func refIn(raw json.RawMessage) string {
	if raw == nil {
		return ""
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return noRef
	}
	return refOf(v)
}

// refusal answers a call that never gets to the executor. Nothing was changed.
func refusal(tool string, code toolexec.Code, category toolexec.Category, happened string) *toolexec.Envelope[json.RawMessage] {
	e := &toolexec.Envelope[json.RawMessage]{
		Code: code, Category: category, CommitState: toolexec.NotCommitted,
		AgentMessage: happened + " Nothing was changed. Do not call it again for this; a person must decide.",
		UserMessage:  "This could not be done. Someone will look into it.",
	}
	if category == toolexec.CategoryValidation {
		e.Class, e.NextAction = toolexec.ClassMalformed, toolexec.NextCorrectInput
		e.Retry = toolexec.Retry{Directive: toolexec.RetryAfterInputFix, MaxAttemptsRemaining: 1}
		e.AgentMessage = happened + " Nothing was changed. Correct the arguments before calling " + tool + " again."
		e.UserMessage = "Some details need to be corrected before this can be done."
	}
	return e
}

// answerUnknown answers a name that s does not have as a result, so that the model
// reads which ones are close. The SDK says it as a protocol error, in words only.
func (v *service) answerUnknown(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		call, ok := req.(*mcp.CallToolRequest)
		if err == nil || !ok || !isUnknownTool(err, call.Params.Name) {
			return res, err
		}
		asked := toolexec.Call{Name: call.Params.Name, Arguments: call.Params.Arguments, Allowed: v.names, Scope: v.scope(ctx, call)}
		asked.RunID, _ = call.Params.Meta[MetaRunID].(string)
		return v.result(v.x.Execute(ctx, asked)), nil
	}
}
