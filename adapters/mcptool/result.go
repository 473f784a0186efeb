package mcptool

import (
	"encoding/json"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
)

// maxDepth bounds how deep a result may be nested. Go's decoder gives up at
// 10 000 levels, and leaves the client without an answer; others do at a few hundred.
const maxDepth = 256

const noteLeftOut = "the result is too large, or nested too deep, to be sent whole; the call is done"

// result is the answer of MCP that an envelope is.
func (v *service) result(env toolexec.Envelope[json.RawMessage]) *mcp.CallToolResult {
	text, isError := env.Observation()
	res := &mcp.CallToolResult{
		Meta:    mcp.Meta{MetaEnvelope: envelopeVersion},
		Content: []mcp.Content{&mcp.TextContent{Text: text}},
		IsError: isError,
	}
	if limit := v.options.MaxResult; limit > 0 && len(env.Result) > limit || deeperThan(env.Result, maxDepth) {
		env = leaveOut(env)
	}
	if raw, err := env.AppendJSON(nil); err == nil {
		res.StructuredContent = json.RawMessage(raw)
	}
	return res
}

// leaveOut keeps the facts of an envelope and not its result.
func leaveOut(env toolexec.Envelope[json.RawMessage]) toolexec.Envelope[json.RawMessage] {
	env.Result, env.HasResult = nil, false
	env.SafeDetails = maps.Clone(env.SafeDetails)
	if env.SafeDetails == nil {
		env.SafeDetails = toolexec.Details{}
	}
	env.SafeDetails[toolexec.DetailNote] = noteLeftOut
	return env
}

// deeperThan reports whether arrays and objects are nested in raw more than n
// deep.
func deeperThan(raw []byte, n int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > n {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}
