package toolexec

import "slices"

// The words of the contract. Each type is a string whose zero value is the
// safe answer and prints as its word, so that a forgotten field never reads as
// permission. A text this version does not know is kept as it came, is none of
// the constants, and acts as the safe answer: write each switch so that its
// default branch is the careful one, or ask Safe first.
//
// Numbers (as in connect.Code) were rejected: a number cannot keep the text of
// a value that a newer version sent.

// Effect says what a tool does to the world. The zero value is Write.
type Effect string

const (
	// Write changes something, and repeating it changes it again. Safe default.
	Write Effect = ""
	// Idempotent changes something, and the remote side deduplicates by the
	// operation ref: repeating with the same ref has one effect. Declare it only
	// where that is true; otherwise declare Write.
	Idempotent Effect = "idempotent"
	// ReadOnly changes nothing. Its calls are neither recorded nor replayed.
	ReadOnly Effect = "read_only"
)

// String returns the word for e: "write" for the zero value.
func (e Effect) String() string { return orWord(string(e), "write") }

// Safe returns e, or Write when this version does not know e.
func (e Effect) Safe() Effect { return known(e, Write, Idempotent, ReadOnly) }

// MarshalText implements encoding.TextMarshaler.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; unknown texts are kept.
func (e *Effect) UnmarshalText(b []byte) error { *e = Effect(dropWord(b, "write")); return nil }

// CommitState says whether the state change of an operation happened, joined
// over all its attempts. The zero value is CommitUnknown.
type CommitState string

const (
	// CommitUnknown means: an attempt is unresolved. Verify before sending anything.
	CommitUnknown CommitState = ""
	// NotCommitted means: no attempt has an effect, now or later.
	NotCommitted CommitState = "not_committed"
	// Committed means: the effect exists. It never leaves this state.
	Committed CommitState = "committed"
)

// String returns the word for s: "unknown" for the zero value.
func (s CommitState) String() string { return orWord(string(s), "unknown") }

// Safe returns s, or CommitUnknown when this version does not know s.
func (s CommitState) Safe() CommitState { return known(s, CommitUnknown, NotCommitted, Committed) }

// MarshalText implements encoding.TextMarshaler.
func (s CommitState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; unknown texts are kept.
func (s *CommitState) UnmarshalText(b []byte) error {
	*s = CommitState(dropWord(b, "unknown"))
	return nil
}

// NextAction is what the host may do next. The zero value is NextEscalate.
type NextAction string

const (
	// NextEscalate hands the operation to a person.
	NextEscalate NextAction = ""
	// NextContinue goes on; only with ok.
	NextContinue NextAction = "continue"
	// NextCorrectInput asks for corrected arguments.
	NextCorrectInput NextAction = "correct_input"
	// NextWaitAndRetry allows the same call again, from Retry.NotBefore on.
	NextWaitAndRetry NextAction = "wait_and_retry"
	// NextVerifyOperation asks the remote side by operation ref, from Retry.NotBefore on.
	NextVerifyOperation NextAction = "verify_operation"
	// NextRequestApproval asks a person to allow exactly this call.
	NextRequestApproval NextAction = "request_approval"
)

// String returns the word for a: "escalate" for the zero value.
func (a NextAction) String() string { return orWord(string(a), "escalate") }

// Safe returns a, or NextEscalate when this version does not know a.
func (a NextAction) Safe() NextAction {
	return known(a, NextEscalate, NextContinue, NextCorrectInput, NextWaitAndRetry, NextVerifyOperation, NextRequestApproval)
}

// MarshalText implements encoding.TextMarshaler.
func (a NextAction) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; unknown texts are kept.
func (a *NextAction) UnmarshalText(b []byte) error {
	*a = NextAction(dropWord(b, "escalate"))
	return nil
}

// Directive says whether this tool may be called again with this operation
// ref. The zero value is RetryNever.
type Directive string

const (
	// RetryNever means: the model must not call again; a host that calls with the
	// same ref to learn what became of it is safe.
	RetryNever Directive = ""
	// RetryAfterDelay means: the same call may be made again after Retry.NotBefore.
	RetryAfterDelay Directive = "after_delay"
	// RetryAfterInputFix means: only with corrected arguments.
	RetryAfterInputFix Directive = "after_input_fix"
)

// String returns the word for d: "never" for the zero value.
func (d Directive) String() string { return orWord(string(d), "never") }

// Safe returns d, or RetryNever when this version does not know d.
func (d Directive) Safe() Directive { return known(d, RetryNever, RetryAfterDelay, RetryAfterInputFix) }

// MarshalText implements encoding.TextMarshaler.
func (d Directive) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; unknown texts are kept.
func (d *Directive) UnmarshalText(b []byte) error { *d = Directive(dropWord(b, "never")); return nil }

// Class answers the first of the two questions: would repeating help? The
// zero value is ClassPermanent, which is never retried.
type Class string

const (
	// ClassPermanent means: repeating the same call cannot help.
	ClassPermanent Class = ""
	// ClassTransient means: repeating may help, if the commit state allows it.
	ClassTransient Class = "transient"
	// ClassEmptyResult means: a final answer for these arguments: there is nothing.
	ClassEmptyResult Class = "empty_result"
	// ClassMalformed means: the arguments were refused before the tool ran.
	ClassMalformed Class = "malformed"
	// ClassUnknownTool means: there is no such tool for this caller.
	ClassUnknownTool Class = "unknown_tool"
)

// String returns the word for c: "permanent" for the zero value.
func (c Class) String() string { return orWord(string(c), "permanent") }

// Safe returns c, or ClassPermanent when this version does not know c.
func (c Class) Safe() Class {
	return known(c, ClassPermanent, ClassTransient, ClassEmptyResult, ClassMalformed, ClassUnknownTool)
}

// MarshalText implements encoding.TextMarshaler.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; unknown texts are kept.
func (c *Class) UnmarshalText(b []byte) error { *c = Class(dropWord(b, "permanent")); return nil }

// Category says who is asked to act on a failure. The zero value is
// CategoryInternal: the operators of the program.
type Category string

const (
	// CategoryInternal means: the program or its configuration.
	CategoryInternal Category = ""
	// CategoryValidation means: the arguments.
	CategoryValidation Category = "validation"
	// CategoryAuthorization means: a permission, a credential or an approval.
	CategoryAuthorization Category = "authorization"
	// CategoryConflict means: durable state makes the request invalid.
	CategoryConflict Category = "conflict"
	// CategoryDependency means: the remote side or the way to it.
	CategoryDependency Category = "dependency"
)

// String returns the word for c: "internal" for the zero value.
func (c Category) String() string { return orWord(string(c), "internal") }

// Safe returns c, or CategoryInternal when this version does not know c.
func (c Category) Safe() Category {
	return known(c, CategoryInternal, CategoryValidation, CategoryAuthorization, CategoryConflict, CategoryDependency)
}

// MarshalText implements encoding.TextMarshaler.
func (c Category) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; unknown texts are kept.
func (c *Category) UnmarshalText(b []byte) error {
	*c = Category(dropWord(b, "internal"))
	return nil
}

// Source says where the knowledge of a commit came from. The zero value is
// SourceExecution.
type Source string

const (
	// SourceExecution means: the tool's own successful run.
	SourceExecution Source = ""
	// SourceLookup means: a verifier found the effect.
	SourceLookup Source = "lookup"
	// SourceOperator means: a person said so, with evidence.
	SourceOperator Source = "operator"
)

// String returns the word for s: "execution" for the zero value.
func (s Source) String() string { return orWord(string(s), "execution") }

// MarshalText implements encoding.TextMarshaler.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; unknown texts are kept.
func (s *Source) UnmarshalText(b []byte) error { *s = Source(dropWord(b, "execution")); return nil }

// State is the state of an operation's record; see transition.go for the
// machine. The zero value is StateAbsent: never seen.
type State string

const (
	// StateAbsent means: no record.
	StateAbsent State = ""
	// StateInFlight means: one owner is running it.
	StateInFlight State = "in_flight"
	// StateReleased means: provably not committed; may run again.
	StateReleased State = "released"
	// StateRejected means: refused because of its input; sticky for these arguments.
	StateRejected State = "rejected"
	// StateAwaitingApproval means: held for a decision.
	StateAwaitingApproval State = "awaiting_approval"
	// StateUnknown means: an attempt is unresolved; verify.
	StateUnknown State = "unknown"
	// StateCommitted means: the effect exists, for ever.
	StateCommitted State = "committed"
	// StateEscalated means: a person must decide.
	StateEscalated State = "escalated"
)

// String returns the word for s: "absent" for the zero value.
func (s State) String() string { return orWord(string(s), "absent") }

// Safe returns s, or StateEscalated when this version does not know s: a
// record that a newer version wrote is left to a person.
func (s State) Safe() State {
	switch s {
	case StateAbsent, StateInFlight, StateReleased, StateRejected, StateAwaitingApproval, StateUnknown, StateCommitted:
		return s
	}
	return StateEscalated
}

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; unknown texts are kept.
func (s *State) UnmarshalText(b []byte) error { *s = State(dropWord(b, "absent")); return nil }

func orWord(s, zero string) string {
	if s == "" {
		return zero
	}
	return s
}

func dropWord(b []byte, zero string) string {
	if string(b) == zero {
		return ""
	}
	return string(b)
}

// known returns v if it is one of the listed values, else the first of them.
func known[E ~string](v E, values ...E) E {
	if slices.Contains(values, v) {
		return v
	}
	return values[0]
}
