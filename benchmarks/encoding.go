package main

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/toolexec/toolexec"
)

// A write in doubt, which has the longest of the usual envelopes.

func inDoubt() toolexec.Envelope[receipt] {
	x := new(toolexec.Executor)
	t := toolexec.Bind(x, toolexec.Tool[input, receipt]{
		Name: "create_invoice", VerificationTool: "get_invoice",
		Run: func(context.Context, input) (receipt, error) { return receipt{}, toolexec.InDoubt(nil) },
	})
	return t.Call(toolexec.WithOperationRef(context.Background(), "run_81/step_4"), in)
}

// encodedBytes is how long that is on the wire.
func encodedBytes() int {
	wire, err := inDoubt().AppendJSON(nil)
	if err != nil {
		panic(err)
	}
	return len(wire)
}

func appendJSON(b *testing.B) {
	env := inDoubt()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		buf, err = env.AppendJSON(buf[:0])
		must(b, err == nil)
	}
}

func marshalEnvelope(b *testing.B) {
	env := inDoubt()
	b.ReportAllocs()
	for b.Loop() {
		_, err := json.Marshal(env)
		must(b, err == nil)
	}
}

// plainEnvelope is the same as fields of plain types.
type plainEnvelope struct {
	OK          bool   `json:"ok"`
	Code        string `json:"code"`
	Class       string `json:"class"`
	Category    string `json:"category"`
	CommitState string `json:"commit_state"`
	Retry       struct {
		Directive            string `json:"directive"`
		MaxAttemptsRemaining int    `json:"max_attempts_remaining"`
	} `json:"retry"`
	NextAction   string `json:"next_action"`
	OperationRef string `json:"operation_ref"`
	SafeDetails  struct {
		VerificationTool string `json:"verification_tool"`
	} `json:"safe_details"`
	AgentMessage string `json:"agent_message"`
	UserMessage  string `json:"user_message"`
}

func marshalStruct(b *testing.B) {
	var shape plainEnvelope
	fill(b, inDoubt(), &shape)
	b.ReportAllocs()
	for b.Loop() {
		_, err := json.Marshal(&shape)
		must(b, err == nil)
	}
}
