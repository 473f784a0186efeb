package toolexec

import (
	"context"
	"time"
)

// Observer is told what happens, for logs, metrics and traces. It must be safe
// for concurrent use and should return at once: calls wait for it. A panic or
// Goexit of an observer changes no outcome. Events hold causes and stacks that
// may be secret: they are for operators.
type Observer interface {
	// Start is told the beginning of a call, attempt, pause or verification, and
	// returns the context for what happens inside it. Returning nil keeps ctx.
	Start(ctx context.Context, e Event) context.Context
	// End is told the end of what Start began, with the context that Start
	// returned, and an event of the same type with Done set.
	End(ctx context.Context, e Event)
	// Note is told of what has no duration: a decision of the guard, a refused
	// retry, late evidence, an alarm.
	Note(ctx context.Context, e Event)
}

// Event is one of CallInfo, AttemptInfo, PauseInfo, VerificationInfo,
// GuardDecision, RetryRefused, LateEvidence, DuplicateEffect, StoreNearlyFull,
// RecoveryPass and RecoveryFailed.
type Event interface {
	// EventName is a short constant name: "call", "attempt" …
	EventName() string
}

// CallInfo is a call; what follows Done is known at its end.
type CallInfo struct {
	ID, Tool     string // Tool as it was asked for: cut to 64 bytes, and perhaps no tool's name
	Effect       Effect
	Scope, RunID string

	Done         bool
	OperationRef string
	Took         time.Duration
	OK           bool
	Code         Code
	Class        Class
	CommitState  CommitState
	NextAction   NextAction
	Replayed     bool
	Unrecorded   bool
	Cause        error // of a failure; may hold secrets
}

func (i *CallInfo) setAnswer(h *head) {
	i.OK, i.Code, i.Class, i.CommitState, i.NextAction = h.OK, h.Code, h.Class, h.CommitState, h.NextAction
	i.Replayed, i.Unrecorded, i.Cause = h.Replayed, h.Unrecorded, h.cause
}

// AttemptInfo is one run of a tool's function; what follows Done is known at
// its end.
type AttemptInfo struct {
	Tool string
	Key  Key
	N    int // within the call, from 1

	Done     bool
	Took     time.Duration
	OK       bool
	Outlives bool // it was answered for, and runs on
	Evidence Evidence
	Code     Code
	Class    Class
	Cause    error  // may hold secrets
	Stack    []byte // of a panic
}

func (a *AttemptInfo) setEnd(i *invocation, f *Failure) {
	i.mu.Lock()
	a.Outlives, a.Evidence = i.phase == phaseCut, i.evidence
	i.mu.Unlock()
	if a.OK = f == nil; a.OK {
		return
	}
	a.Code, a.Class, a.Cause = f.Code, f.Class, f.Err
	if e, ok := f.Err.(*endError); ok { //nolint:errorlint // only the attempt's own end
		a.Stack = e.Stack
	}
}

// PauseInfo is a pause before a retry.
type PauseInfo struct {
	Tool  string
	Key   Key
	For   time.Duration
	After Code // the failure before it
	Done  bool
}

// VerificationInfo is one look-up; what follows Done is known at its end.
type VerificationInfo struct {
	Tool string
	Key  Key

	Done    bool
	Took    time.Duration
	Verdict Verdict
	Failed  bool
	Err     error
}

// GuardDecision is what the guard answered a call that wanted to run.
type GuardDecision struct {
	Tool  string
	Key   Key
	Move  string // "run", "replay", "wait", "verify" …
	State State  // of the record after it
}

// RetryRefused says that a failure was answered instead of retried, because the
// executor's RetryBudget was empty.
type RetryRefused struct {
	Tool  string
	Key   Key
	After Code // the failure
}

// LateEvidence is what an attempt proved after its caller had been answered.
type LateEvidence struct {
	Tool     string
	Key      Key
	N        int
	Evidence Evidence
	Failure  error // nil: it succeeded
	StoreErr error // the store could not be told yet
}

// DuplicateEffect is an alarm: two attempts of a Write both succeeded.
type DuplicateEffect struct {
	Tool string
	Key  Key
}

// StoreNearlyFull warns, at 80 % of the bound, that the memory store will soon
// refuse new operations; it forgets no fact early.
type StoreNearlyFull struct{ Records, Bound int }

// RecoveryPass is what a pass of a Supervisor came to that found something due.
type RecoveryPass struct{ Recovery }

// RecoveryFailed is an operation, or a pass, of a Supervisor that could not be
// read or stored. It will be tried again.
type RecoveryFailed struct{ Err error }

// EventName implements Event.
func (CallInfo) EventName() string { return "call" }

// EventName implements Event.
func (AttemptInfo) EventName() string { return "attempt" }

// EventName implements Event.
func (PauseInfo) EventName() string { return "pause" }

// EventName implements Event.
func (VerificationInfo) EventName() string { return "verification" }

// EventName implements Event.
func (GuardDecision) EventName() string { return "guard_decision" }

// EventName implements Event.
func (RetryRefused) EventName() string { return "retry_refused" }

// EventName implements Event.
func (LateEvidence) EventName() string { return "late_evidence" }

// EventName implements Event.
func (DuplicateEffect) EventName() string { return "duplicate_effect" }

// EventName implements Event.
func (StoreNearlyFull) EventName() string { return "store_nearly_full" }

// EventName implements Event.
func (RecoveryPass) EventName() string { return "recovery_pass" }

// EventName implements Event.
func (RecoveryFailed) EventName() string { return "recovery_failed" }

// observeStart contains an observer: whatever it does, the call goes on.
func observeStart(ctx context.Context, o Observer, e Event) context.Context {
	inner := ctx
	_ = contained(func() error {
		if got := o.Start(ctx, e); got != nil {
			inner = got
		}
		return nil
	})
	return inner
}

func observeEnd(ctx context.Context, o Observer, e Event) {
	_ = contained(func() error { o.End(ctx, e); return nil })
}

// note tells the observer, if there is one.
func (x *Executor) note(ctx context.Context, e Event) {
	if o := x.Observer; o != nil {
		_ = contained(func() error { o.Note(ctx, e); return nil })
	}
}

func (c *call) observeDecision(ctx context.Context, mv move) {
	if c.x.Observer != nil {
		c.x.note(ctx, GuardDecision{Tool: c.t.name, Key: c.key, Move: mv.String(), State: c.record.State})
	}
}

// warnNearlyFull notes when a bounded store passes 80 % of its bound, once until
// it has fallen below that again. Only creating a record can fill it.
func (x *Executor) warnNearlyFull(ctx context.Context, version int64) {
	bounded, ok := x.records().(interface{ Usage() (records, bound int) })
	if x.Observer == nil || version != 1 || !ok {
		return
	}
	records, bound := bounded.Usage()
	nearly := bound > 0 && records >= bound-bound/5
	if nearly && !x.warned.Swap(true) {
		x.note(ctx, StoreNearlyFull{Records: records, Bound: bound})
	} else if !nearly {
		x.warned.Store(false)
	}
}
