package toolexec

import (
	"bytes"
	_ "embed" // the schema document
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Envelope is the one answer to a call: what is known, what is safe to do
// next, and what must never be repeated. Decide from OK, CommitState and
// NextAction; the messages are for reading, not for deciding.
//
// The zero Envelope is the safest answer there is: not ok, outcome unknown,
// never retry, escalate. (It has no code, so it is not for the wire.) An
// Envelope is a plain value; its maps and slices are
// its own and are never written by the library after it was returned.
type Envelope[T any] struct {
	// OK says that the operation succeeded. OK and CommitState Committed go
	// together, also for tools that only read.
	OK   bool
	Code Code

	// Class and Category describe a failure.
	Class    Class
	Category Category

	// CommitState is that of the operation, joined over all its attempts, in
	// whatever process they ran.
	CommitState CommitState

	// Retry says whether this tool may be called again with this ref.
	Retry      Retry
	NextAction NextAction

	// OperationRef names the operation. Calling again with the same ref is
	// always safe.
	OperationRef string

	// Result is the tool's answer; meaningful only when HasResult. A committed
	// operation whose result is no longer kept has OK without HasResult.
	Result    T
	HasResult bool

	// Replayed says of a success that the tool did not run for this call: the
	// answer is that of an earlier one.
	Replayed bool

	// Unrecorded says that the success could not be stored yet: a later call
	// may see the operation as unknown until verification settles it. On the
	// wire it is "recorded": false.
	Unrecorded bool

	// Verification says when and from what the commit is known; on a failure,
	// when it was last looked for.
	Verification *Verification

	// SafeDetails holds scalars under the allowlisted keys (Detail…) and those
	// that the tool declares. Never text from a remote system.
	SafeDetails Details

	// FieldErrors lists every violation of malformed arguments.
	FieldErrors []FieldError

	// AgentMessage is for the model, UserMessage for the person it speaks with.
	// Both are fixed templates or text that the tool's author wrote.
	AgentMessage string
	UserMessage  string

	cause error // for operators only: Err().Unwrap; never encoded
}

// Retry is the part of an envelope about calling the same tool again with the
// same operation ref.
type Retry struct {
	Directive Directive
	// NotBefore is the earliest sensible time for NextAction, also when the
	// directive is never. Zero: at once; of verify_operation, that nothing is
	// planned either: without a verifier calling again changes nothing.
	NotBefore time.Time
	// MaxAttemptsRemaining is what is left of the operation's lifetime budget, and
	// of the same number for one call of a tool that only reads; of the operation's
	// corrections, when the directive is after_input_fix. Zero with never.
	MaxAttemptsRemaining int
}

// Verification says when and from what a commit is known.
type Verification struct {
	CheckedAt   time.Time `json:"checked_at"`
	Source      Source    `json:"source"`
	EvidenceRef string    `json:"evidence_ref,omitempty"`
}

// Details holds safe scalars: string, bool, integers, floats or json.Number.
type Details map[string]any

// The allowlisted keys of SafeDetails.
const (
	DetailField               = "field"
	DetailAllowedValues       = "allowed_values" // comma-joined, 256 bytes at most
	DetailRetryAfter          = "retry_after"    // seconds
	DetailResourceVersion     = "resource_version"
	DetailVerificationTool    = "verification_tool"
	DetailExistingCommitState = "existing_commit_state"
	DetailPartial             = "partial"
	DetailNote                = "note"
)

// FieldError is one violation of malformed arguments. It never holds the value
// that was received, only its JSON type.
type FieldError struct {
	Pointer  string   `json:"pointer"`            // RFC 6901; "" is the whole
	Rule     string   `json:"rule"`               // the schema keyword
	Expected string   `json:"expected,omitempty"` // from the schema
	Received string   `json:"received,omitempty"` // a JSON type, or "absent"
	Allowed  []string `json:"allowed,omitempty"`  // where the schema lists them
}

// ErrNoResult is what Value returns for an operation that is committed but
// whose result is not kept: it was too large, could not be encoded, or its
// retention has passed. Do not run the operation again.
var ErrNoResult = errors.New("toolexec: the operation is committed, but its result is not kept")

// Error is the Go form of a failed envelope. Its text holds no word of the
// cause, because callers hand error texts to models; Unwrap gives the cause.
type Error struct {
	Code         Code
	Class        Class
	CommitState  CommitState
	NextAction   NextAction
	NotBefore    time.Time
	OperationRef string
	Message      string // the envelope's AgentMessage
	Err          error  // the cause, or ErrNoResult; may be nil
}

// Error returns code, commit state, next action and ref. It is safe to show.
func (e *Error) Error() string {
	s := "toolexec: " + string(e.Code) + " (" + e.CommitState.String() + ", " + e.NextAction.String() + ")"
	if e.OperationRef != "" {
		s += " operation_ref " + e.OperationRef
	}
	if e.Err == ErrNoResult { //nolint:errorlint // the cause's methods may crash, and this one is ours
		s += ": its result is not kept"
	}
	return s
}

// Unwrap returns the cause. It may hold secrets: for operators only.
func (e *Error) Unwrap() error { return e.Err }

// Err returns nil when e is ok, else an *Error.
func (e Envelope[T]) Err() error {
	if e.OK {
		return nil
	}
	return e.asError(e.cause)
}

func (e Envelope[T]) asError(cause error) *Error {
	return &Error{
		Code: e.Code, Class: e.Class, CommitState: e.CommitState, NextAction: e.NextAction,
		NotBefore: e.Retry.NotBefore, OperationRef: e.OperationRef, Message: e.AgentMessage, Err: cause,
	}
}

// Value returns the result as Go code expects it. The error is always an
// *Error; it wraps ErrNoResult when the operation is committed but its result
// is not kept.
func (e Envelope[T]) Value() (T, error) {
	var zero T
	switch {
	case !e.OK:
		return zero, e.Err()
	case !e.HasResult:
		return zero, e.asError(ErrNoResult)
	}
	return e.Result, nil
}

// Observation returns what the model reads, and whether a provider's error
// flag belongs beside it. On success that is the result as JSON; otherwise the
// agent's message, every field error, and the words of the contract.
func (e Envelope[T]) Observation() (text string, isError bool) {
	if !e.OK {
		return e.failureText(), true
	}
	if !e.HasResult {
		return e.committedText("its result is not available"), false
	}
	raw, err := marshalContained(e.Result)
	if err != nil {
		return e.committedText("its result could not be encoded"), false
	}
	return string(raw), false
}

func (e Envelope[T]) committedText(why string) string {
	s := "Done; " + why + ". Do not repeat it."
	if e.OperationRef != "" {
		s += " operation_ref: " + e.OperationRef + "."
	}
	return s
}

func (e Envelope[T]) failureText() string {
	var b strings.Builder
	b.WriteString(cmpOr(e.AgentMessage, "The outcome is unknown. Do not repeat the call."))
	for _, f := range e.FieldErrors {
		b.WriteString("\n- ")
		b.WriteString(f.String())
	}
	fmt.Fprintf(&b, "\ncode: %s; commit_state: %s; next_action: %s", cmpOr(string(e.Code), string(CodeOutcomeUnknown)), e.CommitState.Safe(), e.NextAction.Safe())
	if !e.Retry.NotBefore.IsZero() {
		b.WriteString("; not_before: " + wholeSecond(e.Retry.NotBefore))
	}
	if e.OperationRef != "" {
		b.WriteString("; operation_ref: " + e.OperationRef)
	}
	return b.String()
}

// String returns the violation as one line without the received value.
func (f FieldError) String() string {
	s := cmpOr(f.Pointer, "(the whole)") + ": " + f.Rule
	if f.Expected != "" {
		s += ", expected " + f.Expected
	}
	if f.Received != "" {
		s += ", received " + f.Received
	}
	if len(f.Allowed) > 0 {
		s += ", allowed " + strings.Join(f.Allowed, ", ")
	}
	return s
}

func cmpOr(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

//go:embed envelope.schema.json
var envelopeSchema []byte

// EnvelopeSchema returns the JSON Schema (draft 2020-12) of an encoded
// envelope, success or failure. The slice is the caller's own.
func EnvelopeSchema() json.RawMessage { return bytes.Clone(envelopeSchema) }

type retryWire struct {
	Directive            Directive  `json:"directive"`
	NotBefore            *time.Time `json:"not_before,omitempty"`
	MaxAttemptsRemaining int        `json:"max_attempts_remaining"`
}

// envelopeWire is the JSON form; the two shapes differ in which members are
// present.
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

// MarshalJSON implements json.Marshaler. A result that cannot be encoded does
// not take the facts with it: it is left out and a note says so.
func (e Envelope[T]) MarshalJSON() ([]byte, error) {
	w := envelopeWire{
		OK: &e.OK, Code: e.Code, CommitState: e.CommitState, NextAction: e.NextAction, OperationRef: e.OperationRef,
		Replayed: e.Replayed, Verification: e.Verification, SafeDetails: e.SafeDetails, FieldErrors: e.FieldErrors,
		AgentMessage: e.AgentMessage, UserMessage: e.UserMessage,
	}
	if e.Unrecorded {
		w.Recorded = new(bool)
	}
	if e.OK {
		w.setResult(e.Result, e.HasResult)
	} else {
		w.Class, w.Category = &e.Class, &e.Category
		w.Retry = &retryWire{Directive: e.Retry.Directive, MaxAttemptsRemaining: e.Retry.MaxAttemptsRemaining}
	}
	if !e.Retry.NotBefore.IsZero() && w.Retry != nil {
		t := e.Retry.NotBefore.UTC()
		w.Retry.NotBefore = &t
	}
	return json.Marshal(w)
}

func (w *envelopeWire) setResult(v any, present bool) {
	if !present {
		return
	}
	raw, err := marshalContained(v)
	if err == nil {
		w.Result = raw
		return
	}
	w.SafeDetails = maps.Clone(w.SafeDetails)
	if w.SafeDetails == nil {
		w.SafeDetails = Details{}
	}
	w.SafeDetails[DetailNote] = noteNotEncodable
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

func deref[V any](p *V) (v V) {
	if p != nil {
		v = *p
	}
	return v
}

// recast gives e another result type; every other field is carried over.
func recast[T, U any](e *Envelope[U]) Envelope[T] {
	return Envelope[T]{
		OK: e.OK, Code: e.Code, Class: e.Class, Category: e.Category, CommitState: e.CommitState, Retry: e.Retry,
		NextAction: e.NextAction, OperationRef: e.OperationRef, HasResult: e.HasResult, Replayed: e.Replayed,
		Unrecorded: e.Unrecorded, Verification: e.Verification, SafeDetails: e.SafeDetails, FieldErrors: e.FieldErrors,
		AgentMessage: e.AgentMessage, UserMessage: e.UserMessage, cause: e.cause,
	}
}
