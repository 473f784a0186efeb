package toolexec_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/toolexec/toolexec"
)

// BenchmarkEnvelopeMarshal: a failure as a model's caller gets it, beside the same members by reflection.
func BenchmarkEnvelopeMarshal(b *testing.B) {
	env := toolexec.Envelope[json.RawMessage]{
		Code: toolexec.CodeOutcomeUnknown, Class: toolexec.ClassTransient, Category: toolexec.CategoryDependency,
		Retry:      toolexec.Retry{Directive: toolexec.RetryNever, NotBefore: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)},
		NextAction: toolexec.NextVerifyOperation, OperationRef: "run_81/step_4",
		AgentMessage: "create_invoice may have been sent, and no usable answer came back. The change may have been made.",
		UserMessage:  "We are checking whether this went through.",
	}
	raw, err := json.Marshal(env)
	if err != nil {
		b.Fatal(err)
	}
	var plain struct {
		OK          bool   `json:"ok"`
		Code        string `json:"code"`
		Class       string `json:"class"`
		Category    string `json:"category"`
		CommitState string `json:"commit_state"`
		Retry       struct {
			Directive string    `json:"directive"`
			NotBefore time.Time `json:"not_before"`
			Left      int       `json:"max_attempts_remaining"`
		} `json:"retry"`
		NextAction   string `json:"next_action"`
		OperationRef string `json:"operation_ref"`
		AgentMessage string `json:"agent_message"`
		UserMessage  string `json:"user_message"`
	}
	if err := json.Unmarshal(raw, &plain); err != nil {
		b.Fatal(err)
	}
	b.Run("AppendJSON", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf, _ = env.AppendJSON(buf[:0])
		}
	})
	b.Run("json.Marshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(env)
		}
	})
	b.Run("reflection", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(&plain)
		}
	})
}

// BenchmarkEnvelopeSuccess: a success that is encoded into memory of its own.
func BenchmarkEnvelopeSuccess(b *testing.B) {
	env := toolexec.Envelope[json.RawMessage]{
		OK: true, Code: toolexec.CodeOK, CommitState: toolexec.Committed, NextAction: toolexec.NextContinue,
		Result: json.RawMessage(`{"id":"rcpt_1"}`), HasResult: true,
		Verification: &toolexec.Verification{CheckedAt: time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC), Source: toolexec.SourceExecution},
	}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = env.AppendJSON(nil)
	}
}
