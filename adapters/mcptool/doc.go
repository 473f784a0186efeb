// Package mcptool is for both sides of the Model Context Protocol: it serves the
// tools of an executor, and makes the tools of a server tools of an executor.
//
// MCP has no key that makes two calls one operation, and its answers do not say
// whether an effect happened. Both travel here in what the protocol leaves to its
// users, so that other clients and servers work as before:
//
//	operation ref   _meta of tools/call, or an argument that a model can give
//	envelope        structuredContent of the result; its text is the observation
//
// [Serve] is the server's side. A tool that panics, hangs, or breaks its contract
// after its effect is answered like any other; a call that comes again with its ref
// is answered from the operation's record.
//
// [Remote] is the client's. A write whose stream is lost, or whose time is up, is
// unknown and is not issued again, whatever the protocol advises.
package mcptool

// Keys of _meta.
const (
	// MetaOperationRef holds the operation ref of a call, a string.
	MetaOperationRef = "io.github.toolexec/operation_ref"
	// MetaRunID holds the id of the agent's run that makes the call, a string. Loops
	// are broken within a run, and without one not at all: a session can outlive many.
	MetaRunID = "io.github.toolexec/run_id"
	// MetaEnvelope says of a result that its structuredContent is an envelope. Its
	// value is the version of that, 1.
	MetaEnvelope = "io.github.toolexec/envelope"
	// MetaTool says of a listed tool what MCP's annotations cannot: an object with
	// "effect", "ref_argument" and "verification_tool".
	MetaTool = "io.github.toolexec/tool"
)

// envelopeVersion is the value of MetaEnvelope.
const envelopeVersion = 1

// DefaultRefArgument is the argument that holds an operation ref where nobody says
// otherwise.
const DefaultRefArgument = "operation_ref"

// toolMeta is the value of MetaTool.
type toolMeta struct {
	Effect           string `json:"effect"`
	RefArgument      string `json:"ref_argument,omitempty"`
	VerificationTool string `json:"verification_tool,omitempty"`
}
