package toolexec

import (
	"bytes"
	_ "embed" // the schema document
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolexec/toolexec/internal/excerpt"
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

	cause          error // for operators only: Err().Unwrap; never encoded
	maxObservation int   // Executor.MaxObservation; never encoded
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

// Verification says when and from what a commit is known. CheckedAt is when a
// look-up, or the attempt of a read, was started: what it found is at least that
// fresh. Of a write that succeeded it is when the record of its end was stored.
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

// DefaultMaxObservation bounds an observation where Executor.MaxObservation is 0,
// and that of an envelope that was decoded.
const DefaultMaxObservation = 32 << 10

// minObservation is what the facts need, at most: a ref and two tool names, and
// the words between them.
const minObservation = 1 << 10

// Observation returns what the model reads, and whether a provider's error
// flag belongs beside it. On success that is the result as JSON; otherwise the
// agent's message, every field error, and the words of the contract.
//
// The text is bounded by Executor.MaxObservation. A result that is longer is
// shortened to JSON of the same type, where that is possible: leading elements,
// leading members, the beginnings of texts; numbers are whole or missing. Each
// cut says in its place what is missing and how much, and one at the top says
// that the call is done and must not be repeated. Of a failure only field errors
// are left out, whole lines from the last, and the middle of a message that is
// longer than the rest of the room. What it says is a function of the envelope.
func (e Envelope[T]) Observation() (text string, isError bool) {
	room := e.observationRoom()
	if !e.OK {
		return e.failureText(room), true
	}
	if !e.HasResult {
		return e.committedText("its result is not available"), false
	}
	raw, err := marshalContained(&e.Result)
	if err != nil {
		return e.committedText("its result could not be encoded"), false
	}
	if len(raw) <= room {
		return string(raw), false
	}
	note := e.noteShortened(len(raw))
	if len(note) > room/2 { // the facts go first: of a decoded envelope the ref can be any text
		return e.committedText("its result is too long to be shown"), false
	}
	return string(excerpt.Noted(raw, room, note)), false
}

// observationRoom is the bound in bytes.
func (e *Envelope[T]) observationRoom() int {
	switch n := e.maxObservation; {
	case n == 0:
		return DefaultMaxObservation
	case n < 0:
		return math.MaxInt
	default:
		return max(n, minObservation)
	}
}

// noteShortened are the facts beside a result that is not whole. A read has no
// ref, as a rule, and may well be called again, for less.
func (e *Envelope[T]) noteShortened(size int) string {
	s := "shortened from " + strconv.Itoa(size) + " bytes; "
	if e.OperationRef == "" {
		return s + "the call is done, and repeating it unchanged shows no more of it"
	}
	return s + "done, commit_state: " + e.CommitState.Safe().String() + "; do not repeat it for the rest; operation_ref: " + e.OperationRef
}

func (e Envelope[T]) committedText(why string) string {
	s := "Done; " + why + ". Do not repeat it."
	if e.OperationRef != "" {
		s += " operation_ref: " + e.OperationRef + "."
	}
	return s
}

// failureText is the message, a line for each field error, and the contract,
// which is always whole.
func (e Envelope[T]) failureText(room int) string {
	message, contract := cmpOr(e.AgentMessage, "The outcome is unknown. Do not repeat the call."), e.contractLine()
	lines, size := make([]string, len(e.FieldErrors)), len(message)
	for i, f := range e.FieldErrors {
		lines[i] = "\n- " + f.String()
		size += len(lines[i])
	}
	if room -= len(contract); size > room {
		message = cutMiddle(message, room-len(moreLine(len(lines))))
		lines = leadingLines(lines, room-len(message))
	}
	return message + strings.Join(lines, "") + contract
}

// leadingLines keeps the lines that fit beside the one that says how many do
// not.
func leadingLines(lines []string, room int) []string {
	room -= len(moreLine(len(lines)))
	for n, line := range lines {
		if room -= len(line); room < 0 {
			return append(lines[:n:n], moreLine(len(lines)-n))
		}
	}
	return lines
}

func moreLine(n int) string { return "\n… and " + strconv.Itoa(n) + " more" }

func (e *Envelope[T]) contractLine() string {
	s := "\ncode: " + cmpOr(string(e.Code), string(CodeOutcomeUnknown)) +
		"; commit_state: " + e.CommitState.Safe().String() + "; next_action: " + e.NextAction.Safe().String()
	if !e.Retry.NotBefore.IsZero() {
		s += "; not_before: " + wholeSecond(e.Retry.NotBefore)
	}
	if e.OperationRef != "" {
		s += "; operation_ref: " + e.OperationRef
	}
	return s
}

// cutMiddle shortens a message to n bytes. The author's words come first in it,
// and what to do comes last.
func cutMiddle(s string, n int) string {
	if len(s) <= n {
		return s
	}
	mark := " …[" + strconv.Itoa(len(s)) + " bytes in all]… "
	half := max(n-len(mark), 0) / 2
	tail := len(s) - half
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return cutText(s[:len(s)-half], half) + mark + s[tail:]
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
		AgentMessage: e.AgentMessage, UserMessage: e.UserMessage, cause: e.cause, maxObservation: e.maxObservation,
	}
}
