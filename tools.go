package toolexec

import (
	"encoding/json"
	"slices"
)

// ToolInfo says what a tool declares: what an adapter needs to offer it to a
// model, or to list it as a server. It is a copy; its slices are the caller's
// own.
type ToolInfo struct {
	// Name is what a Call gives. It can hold dots, which some providers refuse.
	Name string
	// Description is for the model; "" when the tool has none.
	Description string
	// InputSchema is the JSON Schema (draft 2020-12) of the arguments, compact: the
	// very text that Execute enforces, inferred from the tool's In or its own
	// InputSchema as it was written. A call can be refused for more than a schema
	// says: syntax, size, the tool's Check. Providers want an object at the top,
	// which the schema of a struct or a map is. OpenAI's strict mode wants no
	// optional members: turn that off.
	InputSchema json.RawMessage
	// OutputSchema is the JSON Schema that results keep; nil when the tool declares
	// none.
	OutputSchema json.RawMessage
	// Effect is what a call does to the world. It says more than the hints below.
	Effect Effect

	// ReadOnly, Idempotent and Destructive are the hints of the same names in MCP's
	// tool annotations, where a tool that says nothing counts as the worst.

	// ReadOnly: a call changes nothing.
	ReadOnly bool
	// Idempotent: repeating a call with the same arguments changes nothing further.
	// A ReadOnly tool promises that, and one with Effect Idempotent, a Ref of its own
	// and no DedupeWindow. All others tell a repeat by an operation ref that is not
	// made of the arguments, or by what does not last for ever.
	Idempotent bool
	// Destructive: a call may change or remove what exists. True unless ReadOnly,
	// because no tool declares that it only adds.
	Destructive bool

	// NeedsApproval: some calls or all are held until a person has allowed them.
	NeedsApproval bool
	// VerificationTool names the tool with which a model can look up what became of
	// a call; "" when there is none. It need not be among those that are listed.
	VerificationTool string
}

// Tools lists the bound tools that a caller may use, in the order of their
// names. The names mean what Call.Allowed means, so pass the same slice to both,
// as x.Tools(allowed...): a nil slice, like no argument at all, is every tool; an
// empty one is none. A name that no tool has is skipped.
func (x *Executor) Tools(allowed ...string) []ToolInfo {
	var out []ToolInfo
	for _, t := range x.sorted() {
		if allowed == nil || slices.Contains(allowed, t.name) {
			out = append(out, x.info(t))
		}
	}
	return out
}

func (x *Executor) info(t *tool) ToolInfo {
	i := ToolInfo{
		Name: t.name, Description: t.description, InputSchema: t.input.JSON(), Effect: t.effect,
		ReadOnly: t.effect == ReadOnly, Idempotent: t.repeatable(), Destructive: t.effect != ReadOnly,
		NeedsApproval: t.approvalTTL != 0, VerificationTool: x.verificationToolOf(t),
	}
	if t.output != nil {
		i.OutputSchema = t.output.JSON()
	}
	return i
}

// repeatable reports whether the arguments alone name the operation, and the
// remote side remembers it for ever.
func (t *tool) repeatable() bool {
	return t.effect == ReadOnly || t.effect == Idempotent && t.keyed && t.dedupeWindow == 0
}
