package toolexec

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/toolexec/toolexec/internal/canonical"
	"github.com/toolexec/toolexec/internal/closest"
	"github.com/toolexec/toolexec/internal/schema"
)

// Executor runs tools. The zero Executor works: 2 s per attempt, 10 s in all,
// two retries after 0.5 s and 1 s, and a guard in memory. Its fields are wiring;
// set them before the first Bind and leave them alone afterwards. An Executor
// must not be copied. Its methods are safe for concurrent use.
type Executor struct {
	// Policy is what the tools inherit, field by field.
	Policy Policy
	// Store keeps the guard's records. Nil: a MemoryStore of this executor's own.
	Store Store
	// Classifiers are asked, in order, about errors that a tool's own classifiers
	// do not know, before the built-in ladder.
	Classifiers []Classifier
	// Observer is told what happens. Nil costs nothing.
	Observer Observer
	// RetryBudget bounds the retries of all calls together. The zero value is off.
	RetryBudget RetryBudget
	// MaxObservation bounds the text of Envelope.Observation, in bytes, so that one
	// result does not fill a model's context. Default 32 KiB; negative: no bound.
	// Less than 1 KiB counts as 1 KiB, which the facts need. Envelope.Result is
	// always whole, and what records keep is bounded by Tool.MaxResult.
	MaxObservation int
	// Owner names this process in records. Default: a random UUID.
	Owner string

	once    sync.Once // sets what follows
	memory  *MemoryStore
	id      string // random; the name may be that of an earlier process
	name    string
	stop    chan struct{}
	outlive tally

	flights turnstile[Key]
	prints  turnstile[printKey]
	repeats repeats
	gates   gates
	tokens  retryTokens
	begun   atomic.Uint64 // ownerships
	warned  atomic.Bool   // the store was nearly full when last asked

	mu    sync.RWMutex // protects what follows
	tools map[string]*tool
}

// setUp makes what the zero Executor lacks.
func (x *Executor) setUp() {
	x.once.Do(func() {
		x.stop = make(chan struct{})
		x.id = uuid.NewString()
		if x.name = x.Owner; x.name == "" {
			x.name = x.id
		}
		if x.Store == nil {
			x.memory = new(MemoryStore)
		}
	})
}

// records is the store in use.
func (x *Executor) records() Store {
	if x.Store != nil {
		return x.Store
	}
	x.setUp()
	return x.memory
}

func (x *Executor) owner() string {
	x.setUp()
	return x.name
}

func (x *Executor) closed() <-chan struct{} {
	x.setUp()
	return x.stop
}

func (x *Executor) closing() bool {
	select {
	case <-x.closed():
		return true
	default:
		return false
	}
}

// add registers a tool; false when the name is taken.
func (x *Executor) add(t *tool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, taken := x.tools[t.name]; taken {
		return false
	}
	if x.tools == nil {
		x.tools = make(map[string]*tool)
	}
	x.tools[t.name] = t
	return true
}

func (x *Executor) toolNamed(name string) *tool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.tools[name]
}

// sorted returns the tools in the order of their names.
func (x *Executor) sorted() []*tool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.SortedFunc(maps.Values(x.tools), func(a, b *tool) int { return strings.Compare(a.name, b.name) })
}

// Call is a request to run a tool by its name, as an agent makes it.
type Call struct {
	// ID is the agent's own, for observers. It never names the operation: it
	// changes when a turn is replayed.
	ID string
	// Name of the tool.
	Name string
	// Arguments is a JSON value; nil or empty is {}.
	Arguments json.RawMessage
	// OperationRef names the operation, unless the tool has a Ref of its own, which
	// goes before it; "": a new one is minted. 1 to 200 bytes of
	// [A-Za-z0-9._:/@-]. A ref in the context is not used: a batch has one context.
	OperationRef string
	// Scope is the tenant or principal on whose behalf the call is made; "": that
	// of the context, see WithScope.
	Scope string
	// RunID names the agent's run, in which loops are broken; "": that of the
	// context, see WithRunID, or none.
	RunID string
	// Allowed are the names this caller may use; nil: all. An empty slice allows
	// none.
	Allowed []string
}

// Execute runs a call by name and returns its envelope, whatever happens. No
// Go error escapes it: what the world or the model can cause is an answer.
// Bad arguments and unknown names are answered without running anything.
func (x *Executor) Execute(ctx context.Context, req Call) Envelope[json.RawMessage] {
	s, refused := x.prepare(ctx, req)
	if refused != nil {
		return *refused
	}
	c := s.core()
	var h head
	c.do(ctx, &h)
	return c.raw(h)
}

// raw gives the answer its result as JSON.
func (c *call) raw(h head) Envelope[json.RawMessage] {
	e := recast[json.RawMessage](&h)
	e.maxObservation = c.x.MaxObservation
	switch {
	case !h.HasResult:
	case c.winner != nil && c.t.guarded():
		e.Result = slices.Clone(c.winner.encoded) // reports of the same ownership may hold it
	case c.winner != nil:
		e.Result = c.winner.encoded
	default:
		e.Result = c.result // a copy already
	}
	return e
}

// namedShell is a shell that knows its call.
type namedShell interface {
	shell
	core() *call
}

// prepare finds the tool and makes a call of the arguments.
func (x *Executor) prepare(ctx context.Context, req Call) (namedShell, *Envelope[json.RawMessage]) {
	_, scope, run := callContext(ctx)
	inherit(&req.Scope, scope)
	inherit(&req.RunID, run)
	t := x.toolNamed(req.Name)
	if t == nil || req.Allowed != nil && !slices.Contains(req.Allowed, req.Name) {
		h := x.unknownTool(ctx, req)
		return nil, &h
	}
	args := req.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	s, violations := t.parse(args)
	if len(violations) > 0 {
		h := x.malformed(ctx, t, req, violations)
		return nil, &h
	}
	c := s.core()
	c.x, c.t, c.shell, c.byName, c.encode = x, t, s, true, true
	c.id, c.key, c.runID = req.ID, Key{req.Scope, req.OperationRef}, req.RunID
	return s, nil
}

// parse turns arguments into a call, or says everything that is wrong with
// them.
func (t *tool) parse(args []byte) (namedShell, []FieldError) {
	if violations := t.violations(args); violations != nil {
		return nil, violations
	}
	s, violations := t.decodeArguments(args)
	if violations != nil {
		return nil, violations
	}
	return s.(namedShell), nil //nolint:forcetypeassert // every shell of this package is one
}

// violations says what is wrong with arguments as text, or else everything that
// the schema and the names of fields have against them.
func (t *tool) violations(args []byte) (all []FieldError) {
	accepted := t.input.Accepts(args)
	if accepted && t.exactNames {
		return nil
	}
	var list []schema.Violation
	if !accepted {
		if err := canonical.Check(args, canonical.Limits{}); err != nil {
			return []FieldError{syntaxViolation(err)}
		}
		list = t.input.Validate(args)
	}
	if t.ownSchema {
		list = append(list, schema.CaseVariants(args, t.inputType)...)
	}
	for _, v := range list {
		all = append(all, fieldError(v))
	}
	return all
}

// decodeArguments decodes what the schema has accepted, contained where that
// runs methods of the user's.
func (t *tool) decodeArguments(args []byte) (shell, []FieldError) {
	if t.plainInput {
		return t.decode(args)
	}
	return t.decodeContained(args)
}

func (t *tool) decodeContained(args []byte) (s shell, violations []FieldError) {
	if contained(func() error { s, violations = t.decode(args); return nil }) != nil {
		return nil, []FieldError{{Rule: "decode"}}
	}
	return s, violations
}

// syntaxViolation names what the scanner refused, without the text it saw.
func syntaxViolation(err error) FieldError {
	var e *canonical.Error
	if !errors.As(err, &e) {
		return FieldError{Rule: "syntax", Expected: "one JSON value"}
	}
	return FieldError{Rule: "syntax", Expected: "one JSON value", Received: e.Error()}
}

// malformed answers a call whose arguments cannot be used. The tool is not
// invoked and nothing is recorded.
func (x *Executor) malformed(ctx context.Context, t *tool, req Call, violations []FieldError) Envelope[json.RawMessage] {
	c := x.refusedCall(t, req)
	f := t.malformedFields(violations)
	c.refuse(repeatKey{req.Scope, req.RunID, t.name, digestOf(req.Arguments)})
	return c.raw(c.refusedAs(ctx, t.name, func() head { return c.unusable(f) }))
}

// malformedFields names every violation; the details repeat the first, if it is
// about a field that the type declares. Other names are the model's own text,
// which does not belong there.
func (t *tool) malformedFields(violations []FieldError) *Failure {
	f := malformed(CodeInvalidArguments, nil)
	f.Fields = violations
	if len(violations) > 0 && schema.Declared(violations[0].Pointer, t.inputType) {
		f.Details = Details{DetailField: violations[0].Pointer}
		if a := violations[0].Allowed; len(a) > 0 {
			f.Details[DetailAllowedValues] = strings.Join(a, ",")
		}
	}
	return f
}

// refusedCall is a call that never runs, made for its answer.
func (x *Executor) refusedCall(t *tool, req Call) *call {
	return &call{operation: newOperation(), x: x, t: t, id: req.ID, key: Key{req.Scope, req.OperationRef}, runID: req.RunID, caller: context.Background()} //nolint:contextcheck // it is never run
}

// unknownTool answers a name that this caller cannot use, with the closest
// ones that it can. The name itself is the model's text and is not repeated.
func (x *Executor) unknownTool(ctx context.Context, req Call) Envelope[json.RawMessage] {
	c := x.refusedCall(&tool{policy: x.Policy.over(defaultPolicy), machine: machine{effect: ReadOnly}}, req)
	f := &Failure{Code: CodeUnknownTool, Evidence: EvidenceNotSent}
	f.complete()
	c.refuse(repeatKey{req.Scope, req.RunID, "", digestOf([]byte(req.Name))})
	return c.raw(c.refusedAs(ctx, cutText(req.Name, 64), func() head {
		if near := closest.Names(req.Name, x.allowed(req.Allowed), 3); len(near) > 0 {
			f.Details = Details{DetailAllowedValues: strings.Join(near, ",")}
			f.AgentMessage = "There is no tool of that name. Close to it: " + strings.Join(near, ", ") + "."
		}
		if c.repeated() {
			return c.unchanged(f)
		}
		return c.remember(c.failed(f, NotCommitted, 0, 0))
	}))
}

// allowed are the registered names that a caller may use.
func (x *Executor) allowed(names []string) []string {
	var out []string
	for _, t := range x.sorted() {
		if names == nil || slices.Contains(names, t.name) {
			out = append(out, t.name)
		}
	}
	return out
}

// Close waits until nothing outlives calls any more: attempts that ran past
// their deadline, successes that could not be stored yet, look-ups that hang.
// It stops trying to store what it could not after a last attempt. Call it when
// no more calls are made. When ctx ends first its error is returned, and
// waiting again is fine.
func (x *Executor) Close(ctx context.Context) error {
	x.setUp()
	x.mu.Lock()
	if !x.closing() {
		close(x.stop)
	}
	x.mu.Unlock()
	return x.outlive.wait(ctx)
}
