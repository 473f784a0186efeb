package toolexec

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/toolexec/toolexec/internal/attempt"
	"github.com/toolexec/toolexec/internal/deepcopy"
	"github.com/toolexec/toolexec/internal/schema"
)

// The typed side of a call. Types are erased once, here: the core sees a shell
// and its bodies, and never a value of the user's.

// shell is one call's typed half. Its methods run the user's functions without
// containment; the core contains them.
type shell interface { //nolint:interfacebloat // not an extension: one type of this package has it
	// body returns a fresh attempt, with a copy of the input and room for the
	// output.
	body() typedForm
	// encodeInput is by way of a pointer, as decoding is: package json calls no
	// methods of a pointer on what it cannot address, and a big.Int would be {}.
	encodeInput() ([]byte, error)
	// hasRef, ref: the tool's business key.
	hasRef() bool
	ref() string
	hasCheck() bool
	check() error
	// needsApproval, summary: nil-safe.
	needsApproval() bool
	summary() string
	// lookup asks the verifier; the result comes back encoded.
	lookup(ctx context.Context, ref string) (lookup, error)
}

// typedCall is one call of a typed tool: the call, its input and its first
// attempt are one allocation.
type typedCall[In, Out any] struct {
	call  call
	bound *Bound[In, Out]
	in    In
	first typedInvocation[In, Out]
}

// guardedCall is one call of a tool whose operations are recorded: with what it
// knows of its operation in the same allocation.
type guardedCall[In, Out any] struct {
	typedCall[In, Out]
	operation operation
}

// newCall makes a call without its input.
func (b *Bound[In, Out]) newCall() *typedCall[In, Out] {
	if !b.t.guarded() {
		return &typedCall[In, Out]{bound: b}
	}
	g := new(guardedCall[In, Out])
	g.operation.record = noRecord
	g.bound, g.call.operation = b, &g.operation
	return &g.typedCall
}

// typedInvocation is one attempt of a typed tool.
type typedInvocation[In, Out any] struct {
	invocation
	bound *Bound[In, Out]
	in    In
	out   Out // the tool's goroutine writes it; read after attempt.Run reported the end
}

func (s *typedCall[In, Out]) body() typedForm {
	i := &s.first
	if s.call.tries > 0 {
		i = new(typedInvocation[In, Out])
	}
	i.in, i.bound, i.call = s.input(), s.bound, &s.call
	return i
}

// input is what one attempt gets: its own copy, because an attempt may change
// what its input points to, and may still run when the next one starts.
func (s *typedCall[In, Out]) input() In {
	if !s.bound.t.sharedInput {
		return s.in
	}
	return deepcopy.Value(s.in)
}

// Run implements attempt.Task: the tool's function, then what must happen on
// its goroutine, because it runs code of the user's as well.
func (i *typedInvocation[In, Out]) Run(ctx context.Context) {
	out, err := i.bound.tool.Run(ctx, i.in)
	i.err = err
	if err != nil {
		return
	}
	i.out, i.succeeded = out, true
	if i.call.encode && !i.bound.t.plainOutput {
		i.encoded, i.encodeErr = json.Marshal(&i.out)
	}
	if i.call.t.effect == ReadOnly && !i.call.t.emptyIsResult {
		i.empty = isEmpty(&i.out)
	}
}

// canBeEmpty reports whether isEmpty can say yes of a value of type t.
func canBeEmpty(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Slice, reflect.Map, reflect.String:
		return true
	}
	return false
}

// isEmpty reports whether a result is nil, "" or of length 0.
func isEmpty[Out any](out *Out) bool {
	v := reflect.ValueOf(out).Elem()
	for v.Kind() == reflect.Interface && !v.IsNil() {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		return v.IsNil()
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	}
	return false
}

func (s *typedCall[In, Out]) encodeInput() ([]byte, error) {
	return json.Marshal(&s.in)
}

func (s *typedCall[In, Out]) hasRef() bool   { return s.bound.tool.Ref != nil }
func (s *typedCall[In, Out]) ref() string    { return s.bound.tool.Ref(s.in) }
func (s *typedCall[In, Out]) hasCheck() bool { return s.bound.tool.Check != nil }
func (s *typedCall[In, Out]) check() error   { return s.bound.tool.Check(s.in) }

func (s *typedCall[In, Out]) needsApproval() bool {
	a := s.bound.tool.Approval
	return a != nil && (a.Required == nil || a.Required(s.in))
}

func (s *typedCall[In, Out]) summary() string {
	if a := s.bound.tool.Approval; a != nil && a.Summary != nil {
		return a.Summary(s.in)
	}
	return s.bound.t.name
}

func (s *typedCall[In, Out]) lookup(ctx context.Context, ref string) (lookup, error) {
	f, err := s.bound.tool.Verify.Lookup(ctx, ref, s.input())
	if err != nil {
		return lookup{}, err
	}
	l := lookup{verdict: f.Verdict, present: f.HasResult}
	if validRef(f.EvidenceRef) {
		l.evidenceRef = f.EvidenceRef
	}
	if f.Verdict == FoundEffect && f.HasResult {
		if l.result, err = s.bound.t.encodeKept(&f.Result); err != nil {
			l.result, l.present = nil, false // found is found
		}
	}
	return l, nil
}

// encodeKept encodes a result for the record, contained where that runs methods
// of the result's.
func (t *tool) encodeKept(v any) ([]byte, error) {
	if t.plainOutput {
		return json.Marshal(v)
	}
	return marshalContained(v)
}

// envelope gives the core's answer its typed result.
func (s *typedCall[In, Out]) envelope(h *head) (e Envelope[Out]) {
	e = recast[Out](h)
	e.maxObservation = s.bound.x.MaxObservation
	if !h.OK {
		return e
	}
	if w := s.call.winner; w != nil {
		e.Result, e.HasResult = s.won(w), true
		return e
	}
	e.Result, e.HasResult = decodeKept[Out](s.call.result, s.bound.t.plainOutput)
	return e
}

func (s *typedCall[In, Out]) won(w *invocation) Out {
	return w.ctx.State().(*typedInvocation[In, Out]).out //nolint:forcetypeassert // body made it
}

// decode makes a call of arguments that the schema has accepted. It runs
// UnmarshalJSON methods of the user's.
func (b *Bound[In, Out]) decode(raw []byte) (shell, []FieldError) {
	s := b.newCall()
	v, err := schema.Decode(raw, &s.in)
	switch {
	case v != nil:
		return nil, []FieldError{fieldError(*v)}
	case err != nil:
		return nil, []FieldError{{Rule: "decode"}}
	}
	return s, nil
}

func (s *typedCall[In, Out]) core() *call { return &s.call }

func fieldError(v schema.Violation) FieldError {
	return FieldError{Pointer: v.Pointer, Rule: v.Rule, Expected: v.Expected, Received: v.Received, Allowed: v.Allowed}
}

var errNotContained = errors.New("toolexec: user code did not return")

// marshalContained is json.Marshal for values with methods of the user's.
func marshalContained(v any) (raw []byte, err error) {
	err = contained(func() error {
		var e error
		raw, e = json.Marshal(v)
		return e
	})
	return raw, err
}

// decodeKept decodes what was kept as JSON, on this goroutine where that runs no code
// of the user's.
func decodeKept[V any](raw []byte, plain bool) (v V, ok bool) {
	switch {
	case !plain:
		return decodeContained[V](raw)
	case raw == nil:
		return v, false
	}
	err := json.Unmarshal(raw, &v)
	return v, err == nil
}

// decodeContained decodes a kept result; false when there is none, or it no
// longer fits the type.
func decodeContained[V any](raw []byte) (v V, ok bool) {
	if raw == nil {
		return v, false
	}
	err := contained(func() error { return json.Unmarshal(raw, &v) })
	return v, err == nil
}

// contained runs user code that may panic or call runtime.Goexit.
func contained(f func() error) error {
	err := errNotContained
	if r := attempt.Contain(func() { err = f() }); r.End != attempt.Returned {
		return &containedError{result: r}
	}
	return err
}

// containedError is a panic or Goexit of a small user function. Its text is for
// operators.
type containedError struct{ result attempt.Result }

func (e *containedError) Error() string { return describeEnd(e.result) }
