package mcptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
)

// listed is how a tool is served and listed.
func (v *service) listed(info toolexec.ToolInfo) (*served, error) {
	t := &served{name: info.Name, guarded: !info.ReadOnly}
	input, err := objectSchema(info.InputSchema)
	if err != nil {
		return nil, err
	}
	if t.guarded && v.options.RefArgument != "" {
		if t.refArg, err = addRef(input, v.options.RefArgument); err != nil {
			return nil, err
		}
	}
	t.listing = &mcp.Tool{
		Name: info.Name, Description: info.Description, InputSchema: input,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: info.ReadOnly, IdempotentHint: info.Idempotent, DestructiveHint: &info.Destructive},
		Meta: mcp.Meta{MetaTool: toolMeta{
			Effect: info.Effect.String(), RefArgument: t.refArg, VerificationTool: info.VerificationTool,
		}},
	}
	if info.OutputSchema != nil {
		t.listing.OutputSchema, err = envelopeSchema(info.OutputSchema)
	}
	return t, err
}

// members are those of a JSON object.
type members map[string]json.RawMessage

var errNotObject = errors.New("MCP calls tools with an object, and this one takes something else; leave it out of ServeOptions.Tools, or give it a struct")

// objectSchema is a schema that says so: MCP wants "object" at the top, and not
// the null that a pointer or a map may be.
func objectSchema(raw json.RawMessage) (members, error) {
	var input members
	if json.Unmarshal(raw, &input) != nil || input == nil {
		input = members{} // true accepts anything
	}
	if given, ok := input["type"]; ok {
		var one string
		var several []string
		if json.Unmarshal(given, &one) == nil {
			several = []string{one}
		} else if err := json.Unmarshal(given, &several); err != nil {
			return nil, fmt.Errorf("the type of its input schema: %w", err)
		}
		if !slices.Contains(several, "object") {
			return nil, errNotObject
		}
	}
	input["type"] = json.RawMessage(`"object"`)
	return input, nil
}

// refSchema describes the argument for models.
var refSchema = json.RawMessage(`{"type":"string","maxLength":200,"pattern":"^[A-Za-z0-9._:/@-]*$",` +
	`"description":"Names this one intent. Leave it out at first; to call again for the same intent, give the operation_ref of the earlier answer."}`)

// addRef adds the argument for the ref and returns its name; "" when the tool has
// a member of that name already.
func addRef(input members, name string) (string, error) {
	properties := members{}
	if raw, ok := input["properties"]; ok {
		if err := json.Unmarshal(raw, &properties); err != nil {
			return "", fmt.Errorf("the properties of its input schema: %w", err)
		}
	}
	if _, taken := properties[name]; taken {
		return "", nil
	}
	properties[name] = refSchema
	raw, err := json.Marshal(properties)
	input["properties"] = raw
	return name, err
}

// envelopeSchema is the schema of an envelope whose result keeps the tool's. A
// schema that refers to its own parts cannot be moved, and is left out.
func envelopeSchema(result json.RawMessage) (members, error) {
	var envelope, properties members
	if err := json.Unmarshal(toolexec.EnvelopeSchema(), &envelope); err != nil {
		return nil, err
	}
	if bytes.Contains(result, []byte(`"$`)) {
		return envelope, nil
	}
	if err := json.Unmarshal(envelope["properties"], &properties); err != nil {
		return nil, err
	}
	properties["result"] = result
	raw, err := json.Marshal(properties)
	envelope["properties"] = raw
	return envelope, err
}

// takeMember takes the member of a name off an object, and leaves the rest as it
// was written. What is no object, or has the name not exactly once, stays whole:
// the executor says what is wrong with it.
func takeMember(raw json.RawMessage, name string) (rest, value json.RawMessage) {
	if !bytes.Contains(raw, []byte(name)) {
		return raw, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return raw, nil
	}
	out, found := []byte{'{'}, 0
	for dec.More() {
		start := dec.InputOffset()
		key, err := dec.Token()
		if err != nil {
			return raw, nil
		}
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			return raw, nil
		}
		if key == name {
			value, found = v, found+1
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, bytes.TrimLeft(raw[start:dec.InputOffset()], ", \t\r\n")...)
	}
	if found != 1 {
		return raw, nil
	}
	return append(out, raw[dec.InputOffset():]...), value
}
