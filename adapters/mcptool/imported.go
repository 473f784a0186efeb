package mcptool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
)

// imported is a tool of a server.
type imported struct {
	remote  *Remote
	name    string // on the server
	effect  toolexec.Effect
	refArg  string               // "": it has none
	results *jsonschema.Resolved // what structured content keeps; nil: nothing is promised
}

// tool is what a listed tool becomes here.
func (r *Remote) tool(listed *mcp.Tool) (*Tool, error) {
	meta := metaOf(listed)
	input, err := inputOf(listed)
	if err != nil {
		return nil, err
	}
	i := &imported{remote: r, name: listed.Name, effect: r.effect(listed.Annotations, meta), results: resultsOf(listed, meta)}
	if i.effect != toolexec.ReadOnly {
		i.refArg = r.takeRefArgument(input, meta)
	}
	schema, err := json.Marshal(input)
	if err != nil {
		return nil, fmt.Errorf("its input schema: %w", err)
	}
	t := &Tool{
		Name: r.Prefix + listed.Name, Description: listed.Description, InputSchema: schema, Effect: i.effect,
		Run: i.run, OneRequest: true,
	}
	if r.Trusted && meta != nil && meta.VerificationTool == toolexec.VerifyOperationTool && i.effect != toolexec.ReadOnly {
		t.VerificationTool = r.Prefix + toolexec.VerifyOperationTool
		t.Verify = &toolexec.Verifier[json.RawMessage, json.RawMessage]{Lookup: r.lookUp, Authoritative: true}
	}
	if r.Adjust != nil {
		r.Adjust(listed, t)
	}
	i.effect, t.MarksSent = t.Effect, t.Effect != toolexec.ReadOnly // run marks
	return t, nil
}

// metaOf is what a server made with Serve says of a tool; nil from others.
func metaOf(t *mcp.Tool) *toolMeta {
	said, ok := t.Meta[MetaTool]
	if !ok {
		return nil
	}
	raw, err := json.Marshal(said)
	if err != nil {
		return nil
	}
	m := new(toolMeta)
	if json.Unmarshal(raw, m) != nil {
		return nil
	}
	return m
}

func inputOf(t *mcp.Tool) (members, error) {
	if t.InputSchema == nil {
		return members{"type": json.RawMessage(`"object"`)}, nil
	}
	raw, err := json.Marshal(t.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("its input schema: %w", err)
	}
	return objectSchema(raw)
}

// resultsOf is the schema of its structured content. That of an envelope is not
// needed, and one that cannot be resolved, because it refers elsewhere, promises
// nothing that could be checked.
func resultsOf(t *mcp.Tool, meta *toolMeta) *jsonschema.Resolved {
	if t.OutputSchema == nil || meta != nil {
		return nil
	}
	raw, err := json.Marshal(t.OutputSchema)
	if err != nil {
		return nil
	}
	var s jsonschema.Schema
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil
	}
	return resolved
}

// effect is what a call of a tool may do: what its hints say, if the server is
// trusted; otherwise the stricter of that and what the host says. Hints are words:
// "untrusted unless received from trusted servers".
func (r *Remote) effect(hints *mcp.ToolAnnotations, meta *toolMeta) toolexec.Effect {
	said := toolexec.Write
	switch {
	case hints == nil && meta == nil:
		return r.Effect
	case meta != nil:
		if said.UnmarshalText([]byte(meta.Effect)) != nil {
			said = toolexec.Write
		}
		said = said.Safe()
	case hints.ReadOnlyHint:
		said = toolexec.ReadOnly
	case hints.IdempotentHint:
		said = toolexec.Idempotent
	}
	if r.Trusted {
		return said
	}
	return stricter(said, r.Effect)
}

// byStrictness orders effects, the safest first.
var byStrictness = []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly}

func stricter(a, b toolexec.Effect) toolexec.Effect {
	return byStrictness[min(slices.Index(byStrictness, a), slices.Index(byStrictness, b))]
}

// takeRefArgument finds the argument for the ref, takes it out of the schema that
// models see, and returns its name; "" when there is none.
func (r *Remote) takeRefArgument(input members, meta *toolMeta) string {
	name, sure := r.RefArgument, r.RefArgument != ""
	switch {
	case name == "-":
		return ""
	case sure:
	case meta != nil:
		name, sure = meta.RefArgument, true
	default:
		name = DefaultRefArgument
	}
	var properties members
	var required []string
	_ = json.Unmarshal(input["properties"], &properties) // what is none has no such member
	_ = json.Unmarshal(input["required"], &required)
	if _, has := properties[name]; !has || !sure && slices.Contains(required, name) {
		return ""
	}
	delete(properties, name)
	input.set("properties", properties)
	if slices.Contains(required, name) {
		input.set("required", slices.DeleteFunc(required, func(s string) bool { return s == name }))
	}
	return name
}

// set replaces a member by what can always be encoded.
func (m members) set(name string, v any) {
	raw, err := json.Marshal(v)
	if err == nil {
		m[name] = raw
	}
}

// run is one attempt: one request, on the session that is open.
func (i *imported) run(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
	session, err := i.remote.open(ctx)
	if err != nil {
		return nil, toolexec.NotSent(err)
	}
	params := &mcp.CallToolParams{Name: i.name, Arguments: in}
	if ref := sentRef(ctx, toolexec.OperationRef(ctx)); ref != "" && i.effect != toolexec.ReadOnly {
		params.Meta = mcp.Meta{MetaOperationRef: ref}
		params.Arguments = withRef(in, i.refArg, ref)
	}
	if i.effect != toolexec.ReadOnly {
		if err := toolexec.MarkSent(ctx); err != nil {
			return nil, err
		}
	}
	res, wrote, err := session.call(ctx, params)
	if err != nil {
		return nil, failureOf(err, wrote)
	}
	return i.answer(res)
}

// sentRef is what the server is told of a ref. Two scopes of this side may be one
// there, where their refs must not meet either.
func sentRef(ctx context.Context, ref string) string {
	scope := toolexec.Scope(ctx)
	if ref == "" || scope == "" {
		return ref
	}
	sum := sha256.Sum256([]byte(scope + "\x00" + ref))
	return "scoped:" + hex.EncodeToString(sum[:])
}

// withRef sets the argument for the ref, which a model is not to choose.
func withRef(in json.RawMessage, name, ref string) json.RawMessage {
	if name == "" {
		return in
	}
	in, _ = takeMember(in, name)
	body := bytes.TrimSpace(in)
	if len(body) < 2 || body[0] != '{' {
		return in // not an object, which its schema refuses
	}
	key, _ := json.Marshal(name) //nolint:errchkjson // a string always can be
	out := append(append([]byte{'{'}, key...), `:"`...)
	out = append(append(out, ref...), '"') // no byte of a ref needs an escape
	if rest := bytes.TrimSpace(body[1:]); rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, body[1:]...)
}
