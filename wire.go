package toolexec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// The wire form of an envelope. envelope.schema.json describes it, and
// envelope.d.ts for TypeScript.

type retryWire struct {
	Directive            Directive  `json:"directive"`
	NotBefore            *time.Time `json:"not_before,omitempty"`
	MaxAttemptsRemaining int        `json:"max_attempts_remaining"`
}

// envelopeWire is what is decoded; AppendJSON writes the same members. The two
// shapes differ in which are present.
type envelopeWire struct {
	OK           *bool           `json:"ok"`
	Code         Code            `json:"code"`
	Class        *Class          `json:"class,omitempty"`
	Category     *Category       `json:"category,omitempty"`
	CommitState  CommitState     `json:"commit_state"`
	Retry        *retryWire      `json:"retry,omitempty"`
	NextAction   NextAction      `json:"next_action"`
	OperationRef string          `json:"operation_ref,omitempty"`
	Result       json.RawMessage `json:"result,omitempty"`
	Replayed     bool            `json:"replayed,omitempty"`
	Recorded     *bool           `json:"recorded,omitempty"`
	Verification *Verification   `json:"verification,omitempty"`
	SafeDetails  Details         `json:"safe_details,omitempty"`
	FieldErrors  []FieldError    `json:"field_errors,omitempty"`
	AgentMessage string          `json:"agent_message,omitempty"`
	UserMessage  string          `json:"user_message,omitempty"`
}

// MarshalJSON implements json.Marshaler. See AppendJSON.
func (e Envelope[T]) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// AppendJSON appends the wire form of e to dst, in one allocation at most
// besides the result's own. It is what json.Marshal writes as well, which then
// checks, compacts and HTML-escapes it once more, at several times the cost
// (BenchmarkEnvelopeMarshal).
//
// A result that cannot be encoded does not take the facts with it: it is left
// out and a note says so.
func (e Envelope[T]) AppendJSON(dst []byte) ([]byte, error) {
	result, details := e.wireResult()
	facts := 320
	if e.OK {
		facts = 240 // no class, category and retry
	}
	w := wireWriter{out: slices.Grow(dst, facts+len(e.OperationRef)+len(result)+len(e.AgentMessage)+len(e.UserMessage))}
	w.out = strconv.AppendBool(append(w.out, `{"ok":`...), e.OK)
	w.text("code", string(e.Code))
	if !e.OK {
		w.text("class", e.Class.String())
		w.text("category", e.Category.String())
	}
	w.text("commit_state", e.CommitState.String())
	if !e.OK {
		w.retry(e.Retry)
	}
	w.text("next_action", e.NextAction.String())
	w.optional("operation_ref", e.OperationRef)
	if len(result) > 0 {
		w.raw("result", nil)
		w.line(result)
	}
	if e.Replayed {
		w.raw("replayed", []byte("true"))
	}
	if e.Unrecorded {
		w.raw("recorded", []byte("false"))
	}
	if e.Verification != nil {
		w.verification(e.Verification)
	}
	if len(details) > 0 {
		w.value("safe_details", details)
	}
	if len(e.FieldErrors) > 0 {
		w.value("field_errors", e.FieldErrors)
	}
	w.optional("agent_message", e.AgentMessage)
	w.optional("user_message", e.UserMessage)
	return append(w.out, '}'), w.err
}

// wireResult is the result as JSON, nil for none, and the details beside it.
func (e Envelope[T]) wireResult() (json.RawMessage, Details) {
	if !e.OK || !e.HasResult {
		return nil, e.SafeDetails
	}
	raw, err := e.encodeResult()
	if err == nil {
		return raw, e.SafeDetails
	}
	d := maps.Clone(e.SafeDetails)
	if d == nil {
		d = Details{}
	}
	d[DetailNote] = noteNotEncodable
	return nil, d
}

// encodeResult is json.Marshal, contained where that can run code of the user's.
func (e *Envelope[T]) encodeResult() (json.RawMessage, error) {
	raw, ready := any(&e.Result).(*json.RawMessage) // the slice itself in an any would be an allocation
	switch {
	case !ready:
		return marshalContained(&e.Result)
	case *raw == nil:
		return json.RawMessage("null"), nil
	case !json.Valid(*raw):
		return nil, errNotJSON
	}
	return *raw, nil
}

var errNotJSON = errors.New("toolexec: the result is not JSON")

// wireWriter appends members to an object that has one already.
type wireWriter struct {
	out []byte
	err error
}

func (w *wireWriter) raw(name string, value []byte) {
	w.out = append(append(append(w.out, `,"`...), name...), `":`...)
	w.out = append(w.out, value...)
}

// line appends JSON on one line, for protocols that end a message with one.
func (w *wireWriter) line(raw []byte) {
	if !bytes.ContainsAny(raw, "\n\r") {
		w.out = append(w.out, raw...)
		return
	}
	buf := bytes.NewBuffer(w.out)
	w.err = errors.Join(w.err, json.Compact(buf, raw))
	w.out = buf.Bytes()
}

func (w *wireWriter) value(name string, v any) {
	raw, err := json.Marshal(v)
	w.raw(name, raw)
	w.err = errors.Join(w.err, err)
}

func (w *wireWriter) optional(name, text string) {
	if text != "" {
		w.text(name, text)
	}
}

func (w *wireWriter) text(name, text string) {
	w.raw(name, nil)
	w.quoted(text)
}

// quoted appends text as a JSON string. Only text with nothing to escape, as
// most is, goes the short way.
func (w *wireWriter) quoted(text string) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			raw, err := json.Marshal(text)
			w.out, w.err = append(w.out, raw...), errors.Join(w.err, err)
			return
		}
	}
	w.out = append(append(append(w.out, '"'), text...), '"')
}

func (w *wireWriter) retry(r Retry) {
	w.raw("retry", []byte(`{"directive":`))
	w.quoted(r.Directive.String())
	if !r.NotBefore.IsZero() {
		w.raw("not_before", nil)
		w.time(r.NotBefore.UTC())
	}
	w.raw("max_attempts_remaining", nil)
	w.out = append(strconv.AppendInt(w.out, int64(r.MaxAttemptsRemaining), 10), '}')
}

func (w *wireWriter) verification(v *Verification) {
	w.raw("verification", []byte(`{"checked_at":`))
	w.time(v.CheckedAt)
	w.text("source", v.Source.String())
	w.optional("evidence_ref", v.EvidenceRef)
	w.out = append(w.out, '}')
}

// time writes t as encoding/json does.
func (w *wireWriter) time(t time.Time) {
	w.out = append(w.out, '"')
	out, err := t.AppendText(w.out)
	out = append(out, '"')
	w.out, w.err = out, errors.Join(w.err, err)
}

// UnmarshalJSON implements json.Unmarshaler. An object without "ok" is refused:
// a missing field must never read as an answer. Unknown members are ignored.
func (e *Envelope[T]) UnmarshalJSON(b []byte) error {
	var w envelopeWire
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("toolexec: not an envelope: %w", err)
	}
	if w.OK == nil {
		return errors.New(`toolexec: not an envelope: it has no "ok"`)
	}
	out := Envelope[T]{
		OK: *w.OK, Code: w.Code, CommitState: w.CommitState, NextAction: w.NextAction, OperationRef: w.OperationRef,
		Replayed: w.Replayed, Unrecorded: w.Recorded != nil && !*w.Recorded, Verification: w.Verification,
		SafeDetails: w.SafeDetails, FieldErrors: w.FieldErrors, AgentMessage: w.AgentMessage, UserMessage: w.UserMessage,
	}
	out.Class, out.Category = deref(w.Class), deref(w.Category)
	if w.Retry != nil {
		out.Retry = Retry{w.Retry.Directive, deref(w.Retry.NotBefore), w.Retry.MaxAttemptsRemaining}
	}
	if len(w.Result) > 0 {
		if err := json.Unmarshal(w.Result, &out.Result); err != nil {
			return fmt.Errorf("toolexec: the envelope's result: %w", err)
		}
		out.HasResult = true
	}
	*e = out
	return nil
}

// UnmarshalJSON keeps numbers exact, so that a version above 2^53 survives.
func (d *Details) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return err
	}
	for k, v := range m {
		switch v.(type) {
		case string, bool, json.Number:
		default:
			return fmt.Errorf("safe_details: %s is not a scalar", strconv.Quote(k))
		}
	}
	*d = m
	return nil
}
