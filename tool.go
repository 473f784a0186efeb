package toolexec

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolexec/toolexec/internal/canonical"
	"github.com/toolexec/toolexec/internal/deepcopy"
	"github.com/toolexec/toolexec/internal/schema"
)

// Defaults of a tool's facts.
const (
	DefaultSettle         = 30 * time.Second
	DefaultVerifyDeadline = 2 * time.Second
	DefaultMaxChecks      = 8
	DefaultApprovalTTL    = time.Hour
	DefaultMaxResult      = 256 << 10

	// maxSettle keeps sums of durations from overflowing.
	maxSettle = 10 * 365 * 24 * time.Hour
)

// Tool is a function and the facts about it that decide how its failures are
// handled. Only Name and Run are required; every other zero value is the safe
// choice. A Tool is read once, by Bind.
type Tool[In, Out any] struct {
	// Name is what callers and models call it: 1 to 64 bytes of [A-Za-z0-9_.-].
	Name string
	// Description is for the model.
	Description string
	// Effect means: Write is the zero value.
	Effect Effect

	// Run does the work. It must not keep or change In after it returned, and
	// callers must not change what they passed while an attempt may still run.
	// Each attempt gets a copy of its own, except of unexported fields and of
	// pointers to structs that have some.
	// It may run after its deadline, when it ignores its context; see Policy.
	Run func(ctx context.Context, in In) (Out, error)

	// Ref, if not nil, names the operation by a business key, such as the order
	// id of a refund that must happen once per order: the operation ref is then
	// "<name>:<key>", or "<name>:sha256:<hex>" for a key that a ref cannot hold. A
	// ref that comes with the call is kept beside it, as the record's Alias. It
	// must be a pure function. Returning "" refuses the call as INVALID_ARGUMENTS.
	Ref func(in In) string
	// Check, if not nil, judges the arguments as a whole before anything is sent.
	// Return Invalid(field, message) to name the field. The text of any other
	// error is for operators only. It must be a pure function.
	Check func(in In) error
	// Verify, if not nil, can look an operation up by its ref.
	Verify *Verifier[In, Out]
	// VerificationTool names the tool with which a model can look it up. Default:
	// VerifyOperationTool, where that is bound and there is a Verify.
	VerificationTool string
	// Unverifiable declares that nobody can ever look an operation up: an unknown
	// outcome goes to a person at once.
	Unverifiable bool
	// Approval, if not nil, holds calls until a person has allowed them.
	Approval *Approval[In]

	// Policy overrides the executor's, field by field.
	Policy Policy
	// Classifiers are asked before the executor's.
	Classifiers []Classifier
	// ErrorsMean says what a plain error that nobody recognises proves:
	// EvidenceInDoubt (zero), or EvidenceRejected for a tool whose own errors say
	// that nothing changed ("insufficient funds"). Timeouts, cancellation, broken
	// connections and panics stay in doubt.
	ErrorsMean Evidence
	// MarksSent declares that nothing is sent before MarkSent(ctx) returned nil.
	MarksSent bool
	// OneRequest declares that an attempt makes a single request, or one
	// transaction, so that an error of that request (a refused dial, a statement
	// that was rejected) is evidence about the attempt. One call of an HTTP client can
	// be several requests: a redirection that is followed, a POST that is sent again
	// on a fresh connection. Two statements of SQL without a transaction around them
	// are two, and one can be several: a procedure that commits, several statements
	// in one text.
	OneRequest bool
	// DedupeWindow is how long the remote side of an Idempotent tool remembers a
	// ref, counted from the record's creation; after it the tool is treated as a
	// Write. An attempt that begins within it can send until its Deadline, so declare
	// that much less than the remote side promises. Zero: for ever.
	DedupeWindow time.Duration
	// EmptyIsResult declares that nil, "" or length 0 is a result of a ReadOnly
	// tool like any other, not EMPTY_RESULT.
	EmptyIsResult bool
	// Cooperative runs the tool on the caller's goroutine: cheaper, but the
	// deadline then only ends its context.
	Cooperative bool

	// InputSchema replaces the JSON Schema that is inferred from In; OutputSchema,
	// if given, is the contract that results must keep.
	InputSchema, OutputSchema json.RawMessage
	// IgnoreFields are JSON Pointers of arguments that are no part of the
	// operation's identity: timestamps, request ids.
	IgnoreFields []string
	// IgnoreHidden declares that exported fields of In that JSON does not see are
	// no part of the operation's identity. Without it Bind refuses them.
	IgnoreHidden bool
	// DetailKeys are further keys that the tool's failures may put into
	// SafeDetails.
	DetailKeys []string
	// MaxResult bounds the encoded result that a record keeps, in bytes. Default
	// 256 KiB; negative: none is kept. A larger result reaches its own caller
	// whole, and the record keeps its digest.
	MaxResult int
	// DropArguments keeps no arguments in records: after a restart the operation
	// can be looked up by its ref, but not run again by the library. Nor is one whose
	// In has parts that its JSON does not give back: unexported or ignored fields, a
	// MarshalJSON or MarshalText without its counterpart. (An empty slice that is
	// omitted comes back as nil, and what an interface holds as JSON has it.)
	DropArguments bool
	// Seal, if not nil, transforms the arguments before a record keeps them
	// (encryption). An error refuses the call before anything is sent.
	Seal func(arguments []byte) ([]byte, error)
	// Open undoes Seal, for a Supervisor. Without it, and when it fails, a sealed
	// record is like one that keeps no arguments.
	Open func(sealed []byte) ([]byte, error)
}

// Verifier looks an operation up on the remote side.
type Verifier[In, Out any] struct {
	// Lookup asks by operation ref. in is what the operation was called with, and
	// the zero value where a Supervisor looks up an operation whose record keeps no
	// arguments. Return Found, FoundEffectOnly, Absent or
	// Conflicting. An error, whatever its kind, means that it cannot tell: a
	// sql.ErrNoRows is not absence, return Absent for that. It runs under a
	// deadline, concurrently, and must change nothing.
	Lookup func(ctx context.Context, ref string, in In) (Finding[Out], error)
	// Settle is how long after the last moment an attempt could send an effect
	// may still appear. Absence counts only after it. Default 30 s; negative: no
	// time at all.
	Settle time.Duration
	// Authoritative declares that absence after Settle can be believed: the
	// look-up reads what the writes write, not a lagging copy. Without it a
	// person decides, once MaxChecks look-ups have found nothing.
	Authoritative bool
	// Deadline bounds one look-up. Default 2 s; negative: none but the call's.
	Deadline time.Duration
	// Confirm makes every success of Run wait for a look-up: until one has found
	// the effect the operation is unknown, not ok. For remote sides that answer
	// before they have done what they say. What MarkCommitted stated stands.
	Confirm bool
	// MaxChecks is how many look-ups may fail, or find nothing without being
	// believed, before the operation is escalated. Default 8; negative: no bound.
	MaxChecks int
}

// Verdict is what a look-up found. The zero value is CannotTell.
type Verdict uint8

const (
	// CannotTell means: the look-up says nothing.
	CannotTell Verdict = 0
	// FoundEffect means: the effect of exactly this operation exists.
	FoundEffect Verdict = 1
	// NoEffect means: there is none, as of the look-up.
	NoEffect Verdict = 2
	// OtherEffect means: something else goes by this ref, or several effects do.
	OtherEffect Verdict = 3
)

// String names v for logs.
func (v Verdict) String() string {
	switch v {
	case FoundEffect:
		return "found"
	case NoEffect:
		return "absent"
	case OtherEffect:
		return "conflicting"
	}
	return "cannot_tell"
}

// Finding is the answer of a look-up. The zero Finding cannot tell.
type Finding[Out any] struct {
	Verdict   Verdict
	Result    Out
	HasResult bool
	// EvidenceRef names the evidence for operators and the envelope: an id on
	// the remote side. It must be safe to show: at most 200 bytes of the bytes
	// that a ref may hold; anything else is left out.
	EvidenceRef string
}

// Found says that the effect exists, and what the tool would have returned.
func Found[Out any](result Out) Finding[Out] {
	return Finding[Out]{Verdict: FoundEffect, Result: result, HasResult: true}
}

// FoundEffectOnly says that the effect exists; its result cannot be had.
func FoundEffectOnly[Out any]() Finding[Out] { return Finding[Out]{Verdict: FoundEffect} }

// Absent says that there is no effect. It counts only after the settle window.
func Absent[Out any]() Finding[Out] { return Finding[Out]{Verdict: NoEffect} }

// Conflicting says that the ref has another effect, or several.
func Conflicting[Out any]() Finding[Out] { return Finding[Out]{Verdict: OtherEffect} }

// Approval holds calls until a person has allowed exactly these arguments.
type Approval[In any] struct {
	// Required says whether a call needs approval; nil: every call does.
	Required func(in In) bool
	// Summary is what the reviewer sees; nil: the tool's name alone. Never the
	// raw arguments by default.
	Summary func(in In) string
	// TTL is how long a held call waits for a decision; the next call after it is
	// held anew. Default 1 h; negative: for ever.
	TTL time.Duration
}

// tool is a Tool without its types: what the core works with.
type tool struct {
	machine

	name             string
	description      string
	policy           Policy
	classifiers      []Classifier
	errorsMean       Evidence
	oneRequest       bool
	emptyIsResult    bool
	cooperative      bool
	verificationTool string
	verifyDeadline   time.Duration
	approvalTTL      time.Duration
	input            *schema.Schema
	output           *schema.Schema
	exclusions       canonical.Exclusions
	inputType        reflect.Type
	keyed            bool // it has a Ref of its own
	ownSchema        bool // the input schema is the user's, so it may allow unknown members
	exactNames       bool // but none that In would read under another name
	sharedInput      bool // copies of In can share memory
	plainOutput      bool // decoding Out runs no code of the user's
	plainInput       bool // encoding and decoding In runs no code of the user's
	detailKeys       []string
	maxResult        int
	dropArguments    bool
	seal, open       func([]byte) ([]byte, error)
	confirm          bool
	faithful         bool // what encoding keeps of an In is all of it

	blank     func() namedShell                      // without arguments
	reread    func(kept []byte) (namedShell, error)  // of what a record kept; runs methods of In's
	decode    func(raw []byte) (shell, []FieldError) // for calls by name
	hung      atomic.Int64                           // look-ups that did
	abandoned atomic.Int64                           // attempts that outlived their deadline and still run
}

// Bound is a tool of one executor. Its methods are safe for concurrent use.
type Bound[In, Out any] struct {
	x    *Executor
	t    *tool
	tool *Tool[In, Out]
}

// Bind adds t to x and returns its typed form. It panics, naming the tool and
// the mend, when t cannot work as declared: those are mistakes of the program,
// and a test that binds finds them all.
func Bind[In, Out any](x *Executor, t Tool[In, Out]) *Bound[In, Out] {
	fail := func(format string, args ...any) {
		panic(fmt.Sprintf("toolexec: Bind %q: ", t.Name) + fmt.Sprintf(format, args...))
	}
	if problem := t.problem(); problem != "" {
		fail("%s", problem)
	}
	erased, err := t.erase(x)
	if err != nil {
		fail("%v", err)
	}
	b := &Bound[In, Out]{x: x, t: erased, tool: &t}
	erased.decode = b.decode
	erased.blank = func() namedShell { return &typedCall[In, Out]{bound: b} }
	erased.reread = func(kept []byte) (namedShell, error) {
		s := &typedCall[In, Out]{bound: b}
		return s, json.Unmarshal(kept, &s.in)
	}
	if !x.add(erased) {
		fail("the executor has a tool of this name already; give each its own")
	}
	return b
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// problem names what is wrong with t and how to mend it.
func (t *Tool[In, Out]) problem() string {
	switch {
	case !toolName.MatchString(t.Name):
		return "the name must be 1 to 64 bytes of A-Z a-z 0-9 _ . -"
	case t.Run == nil:
		return "Run is nil; set it to the tool's function"
	case t.Effect != t.Effect.Safe():
		return "the effect is none of Write, Idempotent, ReadOnly"
	case t.ErrorsMean != EvidenceInDoubt && t.ErrorsMean != EvidenceRejected:
		return "ErrorsMean must be EvidenceInDoubt or EvidenceRejected; nothing else can be said of an error nobody knows"
	case t.Verify != nil && t.Verify.Lookup == nil:
		return "Verify has no Lookup; set it, or leave Verify nil"
	case t.Verify != nil && t.Unverifiable:
		return "it has a Verify and is declared Unverifiable; drop one of the two"
	case t.Effect == ReadOnly && (t.Verify != nil || t.Approval != nil || t.MarksSent):
		return "a ReadOnly tool changes nothing, so it has nothing to verify, approve or mark; drop these, or declare its effect"
	case t.Effect != Idempotent && t.DedupeWindow != 0:
		return "DedupeWindow is a fact about an Idempotent tool; drop it, or declare Effect: Idempotent"
	}
	for _, c := range t.DetailKeys {
		if !detailKey.MatchString(c) {
			return fmt.Sprintf("the detail key %q must match %s", c, detailKey)
		}
	}
	return t.hiddenProblem()
}

var detailKey = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// hiddenProblem: fields that JSON cannot see would not be part of identity.
func (t *Tool[In, Out]) hiddenProblem() string {
	if t.IgnoreHidden || t.Effect == ReadOnly {
		return ""
	}
	if hidden := canonical.Hidden(reflect.TypeFor[In]()); len(hidden) > 0 {
		return fmt.Sprintf("JSON does not see the fields %s, so calls that differ in them would be taken for the same operation; "+
			"give them a JSON name, or set IgnoreHidden if they do not matter", strings.Join(hidden, ", "))
	}
	return ""
}

// erase makes the core's form of t.
func (t *Tool[In, Out]) erase(x *Executor) (*tool, error) {
	exclusions, err := canonical.ParseExclusions(t.IgnoreFields)
	if err != nil {
		return nil, fmt.Errorf("IgnoreFields: %w", err)
	}
	input, err := compileSchema(t.InputSchema, func() (json.RawMessage, error) { return schema.For(reflect.TypeFor[In]()) })
	if err != nil {
		return nil, fmt.Errorf("input schema: %w", err)
	}
	output, err := compileSchema(t.OutputSchema, nil)
	if err != nil {
		return nil, fmt.Errorf("output schema: %w", err)
	}
	policy := t.Policy.over(x.Policy).over(defaultPolicy)
	e := &tool{
		name: t.Name, description: t.Description, policy: policy, classifiers: slices.Concat(t.Classifiers, x.Classifiers),
		errorsMean: t.ErrorsMean, oneRequest: t.OneRequest, emptyIsResult: t.EmptyIsResult || !canBeEmpty(reflect.TypeFor[Out]()), cooperative: t.Cooperative,
		verificationTool: t.VerificationTool, input: input, output: output, exclusions: exclusions,
		inputType: reflect.TypeFor[In](), ownSchema: t.InputSchema != nil, exactNames: input.Exact(reflect.TypeFor[In]()), keyed: t.Ref != nil,
		sharedInput: deepcopy.Shares(reflect.TypeFor[In]()),
		plainInput:  canonical.Plain(reflect.TypeFor[In]()), plainOutput: canonical.Plain(reflect.TypeFor[Out]()), detailKeys: slices.Clone(t.DetailKeys),
		maxResult: t.MaxResult, dropArguments: t.DropArguments, seal: t.Seal, open: t.Open, faithful: canonical.Faithful(reflect.TypeFor[In]()),
		machine: machine{
			tool: t.Name, effect: t.Effect, marksSent: t.MarksSent, unverifiable: t.Unverifiable, dedupeWindow: t.DedupeWindow,
			settle: DefaultSettle, maxChecks: DefaultMaxChecks, maxAttempts: policy.lifetime(), maxCorrect: max(policy.MaxCorrections, 0),
			lease: policy.lease(), checkBackoff: policy.Backoff,
		},
	}
	if x.volatile() {
		e.lease = 0
	}
	inherit(&e.maxResult, DefaultMaxResult)
	if t.Verify != nil {
		e.setVerifier(t.Verify.Settle, t.Verify.Deadline, t.Verify.MaxChecks, t.Verify.Authoritative)
		e.confirm = t.Verify.Confirm
	}
	if t.Approval != nil {
		e.approvalTTL = t.Approval.TTL
		inherit(&e.approvalTTL, DefaultApprovalTTL)
	}
	return e, nil
}

func (t *tool) setVerifier(settle, deadline time.Duration, checks int, authoritative bool) {
	inherit(&settle, DefaultSettle)
	inherit(&deadline, DefaultVerifyDeadline)
	inherit(&checks, DefaultMaxChecks)
	if checks < 0 {
		checks = math.MaxInt
	}
	t.verifiable, t.authoritative = true, authoritative
	t.settle, t.verifyDeadline, t.maxChecks = clamp(settle, 0, maxSettle), deadline, checks
}

func compileSchema(given json.RawMessage, infer func() (json.RawMessage, error)) (*schema.Schema, error) {
	if given == nil && infer == nil {
		return nil, nil //nolint:nilnil // no contract is no schema
	}
	if given == nil {
		inferred, err := infer()
		if err != nil {
			return nil, err
		}
		given = inferred
	}
	return schema.Compile(given)
}

// guarded reports whether operations of the tool are recorded.
func (t *tool) guarded() bool { return t.effect != ReadOnly }

// Name returns the tool's name.
func (b *Bound[In, Out]) Name() string { return b.t.name }

// Call runs the tool on in and returns its envelope. Ref, scope and run id are
// taken from ctx; see WithOperationRef, WithScope and WithRunID.
func (b *Bound[In, Out]) Call(ctx context.Context, in In) Envelope[Out] {
	s := b.newCall()
	s.in = in
	s.call.init(ctx, b.x, b.t, s)
	var h head
	s.call.do(ctx, &h)
	return s.envelope(&h)
}

// Func returns the tool as a plain function, for callers that want one: its
// error is an *Error.
func (b *Bound[In, Out]) Func() func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) { return b.Call(ctx, in).Value() }
}
