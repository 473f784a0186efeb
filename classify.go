package toolexec

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Evidence is what is known about one attempt. It answers the second of the
// two questions: could it have happened already? The zero value is
// EvidenceInDoubt: sent, no answer.
type Evidence uint8

const (
	// EvidenceInDoubt means: the request may have been acted upon.
	EvidenceInDoubt Evidence = 0
	// EvidenceNotSent means: provably nothing was sent.
	EvidenceNotSent Evidence = 1
	// EvidenceRejected means: the remote side refused, and nothing changed.
	EvidenceRejected Evidence = 2
	// EvidenceCommitted means: the effect exists.
	EvidenceCommitted Evidence = 3
)

// String names e for logs.
func (e Evidence) String() string {
	switch e {
	case EvidenceNotSent:
		return "not_sent"
	case EvidenceRejected:
		return "rejected"
	case EvidenceCommitted:
		return "committed"
	}
	return "in_doubt"
}

// Failure is what a failed attempt means. A tool may return one (the
// constructors below name the fact they state); a Classifier makes one from an
// error it knows. Zero fields take what Code implies; an empty Code takes what
// Class implies.
type Failure struct { //nolint:errname // the word of the domain
	// Class means: would repeating help?
	Class Class
	// Code of the table, or the tool's own of the form CodePattern. Another
	// text is replaced by TOOL_FAILED.
	Code     Code
	Category Category
	// Evidence means: could it have happened? Zero is "yes, it could".
	Evidence Evidence
	// Next overrides the next action that Code implies while nothing was
	// committed; nil leaves it.
	Next *NextAction
	// RetryAfter is the remote side's lower bound for the next attempt; zero:
	// none. Absurd values are capped at a day. Of a transient failure of a ReadOnly
	// tool it is kept to by every call of that tool in the scope: until then the
	// same answer is given without running it.
	RetryAfter time.Duration
	// Details go to SafeDetails, allowlisted keys and scalars only.
	Details Details
	// Fields are violations for FieldErrors; their pointers name what must
	// change before the call is run again.
	Fields []FieldError
	// AgentMessage and UserMessage replace the templates. Only text that the
	// tool's author wrote belongs here, never text from a remote system.
	AgentMessage string
	UserMessage  string
	// Err is the cause, for operators.
	Err error

	// ofRequest marks evidence that an error gives about the request it belongs
	// to, not about the whole attempt: a tool may have sent another request
	// before. It counts only for a tool that declares OneRequest.
	ofRequest bool
	// unrecognised marks what nobody knew; ErrorsMean is about such errors alone.
	unrecognised bool
	// unmarked marks the error of a MarkSent that refused.
	unmarked bool
}

// Error returns code and evidence, and the cause's text: a Failure is an error
// inside the program. Envelopes never carry it.
func (f *Failure) Error() string {
	if f == nil {
		return "a nil *toolexec.Failure"
	}
	s := fmt.Sprintf("%s (%s)", cmpOr(string(f.Code), f.Class.String()), f.Evidence)
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error {
	if f == nil {
		return nil
	}
	return f.Err
}

// Rejected states that the remote side refused and nothing changed. Code is
// one of the table or the tool's own; a code nobody knows is a conflict with
// present state: the same call may succeed another day, but not by changing
// its arguments.
func Rejected(code Code, err error) *Failure {
	f := &Failure{Code: code, Category: CategoryConflict, Evidence: EvidenceRejected, Err: err}
	if facts := codeIndex[code]; facts != nil {
		f.Class, f.Category = facts.Class, facts.Category
	}
	return f
}

// Invalid states that an argument was refused and nothing changed. Field is a
// member name or a JSON Pointer; "" is the whole. The message is for the
// model: write it, do not copy it from a remote system. An empty message is
// fine.
func Invalid(field, message string) *Failure {
	return &Failure{
		Code: CodeInvalidArguments, Category: CategoryValidation, Evidence: EvidenceRejected,
		Fields: []FieldError{{Pointer: asPointer(field), Rule: "check", Expected: message}},
		Details: func() Details {
			if field == "" {
				return nil
			}
			return Details{DetailField: field}
		}(),
	}
}

// NotSent states that provably nothing was sent in the whole attempt.
func NotSent(err error) *Failure {
	return &Failure{Class: ClassTransient, Code: CodeDependencyUnavailable, Category: CategoryDependency, Evidence: EvidenceNotSent, Err: err}
}

// InDoubt states that something was sent and no usable answer came back.
func InDoubt(err error) *Failure {
	return &Failure{Class: ClassTransient, Code: CodeOutcomeUnknown, Category: CategoryDependency, Err: err}
}

// Transient states that repeating may help, and nothing about the effect: for
// a Write the outcome is in doubt.
func Transient(err error) *Failure {
	return &Failure{Class: ClassTransient, Code: CodeDependencyUnavailable, Category: CategoryDependency, Err: err}
}

// Empty states that there is nothing for these arguments, and that nothing was
// changed. The message is for the model; an empty one takes the template.
func Empty(message string) *Failure {
	return &Failure{Class: ClassEmptyResult, Code: CodeEmptyResult, Category: CategoryValidation, Evidence: EvidenceRejected, AgentMessage: message}
}

// ErrNotSent is returned by MarkSent when the attempt must not send. A tool
// that returns it has sent nothing.
var ErrNotSent = errors.New("toolexec: the attempt must not send")

// notSentError is what MarkSent returns. It wraps its cause but is judged
// itself: of two joined errors the less certain one would win.
type notSentError struct {
	why   string // where there is no cause
	cause error
}

func (e *notSentError) Error() string {
	if e.cause != nil {
		return ErrNotSent.Error() + ": " + e.cause.Error()
	}
	return ErrNotSent.Error() + ": " + e.why
}

func (e *notSentError) Is(target error) bool { return target == ErrNotSent }
func (e *notSentError) Unwrap() error        { return e.cause }

// Classifier says what an error means; ok is false when it does not know. It
// is asked once for each error in the tree of what a tool returned, joined
// errors included, outermost first. It must not judge by the text of an error.
// It runs concurrently.
type Classifier func(err error) (f Failure, ok bool)

// evidenceRank orders evidence from the least certain to the most: where one
// error joins several causes the least certain wins.
func evidenceRank(f *Failure, trustRequest bool) int {
	switch {
	case f.Evidence == EvidenceInDoubt:
		return 0
	case f.ofRequest && !trustRequest: // in doubt too, and it knows why
		return 1
	case f.Evidence == EvidenceCommitted:
		return 2
	case f.Evidence == EvidenceRejected:
		return 3
	}
	return 4
}

// classification asks, in this order: what the tool stated itself, the tool's
// classifiers, the executor's, the built-in ladder.
type classification struct {
	classifiers []Classifier
	oneRequest  bool // evidence of a request is evidence of the attempt
	plain       Evidence
}

// classify returns what err means for the attempt as a whole, never nil.
func (c classification) classify(err error) *Failure {
	f := c.walk(err)
	if f == nil {
		f = c.unrecognised(err)
	}
	if f.ofRequest && !c.oneRequest {
		f.Evidence = EvidenceInDoubt
	}
	f.Err = err
	f.complete()
	return f
}

// unrecognised is what a plain error of the tool means. A cancel that the tool
// made up is none: something was broken off, so what the tool says of its plain
// errors does not hold for it.
func (c classification) unrecognised(err error) *Failure {
	f := &Failure{Code: CodeToolFailed, Evidence: c.plain, unrecognised: true}
	if wraps(err, context.Canceled) {
		f.Evidence = EvidenceInDoubt
	}
	return f
}

// wraps is errors.Is for a sentinel, on a tree that may have no end.
func wraps(err, sentinel error) bool {
	nodes := maxErrorDepth
	return wrapsWithin(err, sentinel, &nodes)
}

func wrapsWithin(err, sentinel error, nodes *int) bool {
	for ; err != nil && *nodes > 0; *nodes-- {
		if err == sentinel { //nolint:errorlint // the tree is walked node by node
			return true
		}
		switch u := err.(type) { //nolint:errorlint // the tree is walked node by node
		case interface{ Unwrap() error }:
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				if *nodes--; wrapsWithin(e, sentinel, nodes) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}

// maxErrorDepth bounds the walk: an error may wrap itself, or a great many.
const maxErrorDepth = 1000

// walk classifies the tree of err, outermost first; nil when nobody knows it.
func (c classification) walk(err error) *Failure {
	nodes := maxErrorDepth
	return c.descend(err, &nodes)
}

func (c classification) descend(err error, nodes *int) *Failure {
	for ; err != nil; *nodes-- {
		if *nodes <= 0 {
			return &Failure{Code: CodeToolFailed} // too much to judge: in doubt
		}
		if f := c.node(err); f != nil {
			return f
		}
		switch u := err.(type) { //nolint:errorlint // the tree is walked node by node
		case interface{ Unwrap() error }:
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			return c.join(u.Unwrap(), nodes)
		default:
			return nil
		}
	}
	return nil
}

// join classifies each branch; the least certain wins, and a branch that
// nobody knows is as uncertain as a plain error of this tool.
func (c classification) join(errs []error, nodes *int) *Failure {
	var least *Failure
	for _, err := range errs {
		if err == nil {
			continue
		}
		*nodes--
		f := c.descend(err, nodes)
		if f == nil {
			f = c.unrecognised(err)
		}
		if least == nil || evidenceRank(f, c.oneRequest) < evidenceRank(least, c.oneRequest) {
			least = f
		}
	}
	return least
}

// node classifies err itself, without what it wraps.
func (c classification) node(err error) *Failure {
	switch e := err.(type) { //nolint:errorlint // the tree is walked node by node
	case *Failure:
		if e == nil {
			return &Failure{Code: CodeToolFailed}
		}
		own := *e
		return &own
	case *notSentError:
		return &Failure{Code: CodeDependencyUnavailable, Evidence: EvidenceNotSent, unmarked: true}
	case *Error:
		return nested(e)
	}
	for _, classifier := range c.classifiers {
		if f := askContained(classifier, err); f != nil {
			return f
		}
	}
	if f, ok := ladder(err); ok {
		return &f
	}
	return nil
}

// nested is what the envelope of a call means that the tool made itself: what
// became of that operation, whatever its last attempt met. Of the rest of the
// tool it says nothing.
func nested(e *Error) *Failure {
	if e == nil {
		return &Failure{Code: CodeToolFailed}
	}
	f := &Failure{Class: e.Class, Code: e.Code}
	if e.CommitState == NotCommitted {
		f.Evidence, f.ofRequest = EvidenceRejected, true
	}
	return f
}

// stated returns the first Failure in the tree of err, as errors.As would, but
// with an end and behind containment: it runs methods of the user's errors.
func stated(err error) (f *Failure) {
	_ = contained(func() error {
		nodes := maxErrorDepth
		f = statedWithin(err, &nodes)
		return nil
	})
	return f
}

func statedWithin(err error, nodes *int) *Failure {
	for ; err != nil && *nodes > 0; *nodes-- {
		switch e := err.(type) { //nolint:errorlint // the tree is walked node by node
		case *Failure:
			return e
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, branch := range e.Unwrap() {
				*nodes--
				if f := statedWithin(branch, nodes); f != nil {
					return f
				}
			}
			return nil
		default:
			return nil
		}
	}
	return nil
}

// askContained asks one classifier. One that panics does not know.
func askContained(classify Classifier, err error) (f *Failure) {
	_ = contained(func() error {
		if known, ok := classify(err); ok {
			f = &known
		}
		return nil
	})
	return f
}

// complete fills what the code implies and refuses what a code cannot be.
func (f *Failure) complete() {
	if f.Code == "" {
		f.Code = defaultCode(f.Class)
	}
	facts := codeIndex[f.Code]
	if facts == nil && !validCode(f.Code) || f.Code == CodeOK {
		f.Code, facts = CodeToolFailed, codeIndex[CodeToolFailed]
	}
	if facts != nil {
		if f.Class == ClassPermanent {
			f.Class = facts.Class
		}
		if f.Category == CategoryInternal {
			f.Category = facts.Category
		}
	}
	if facts == nil || f.Class != facts.Class { // which is safe
		f.Class = f.Class.Safe()
	}
	if facts == nil || f.Category != facts.Category {
		f.Category = f.Category.Safe()
	}
	if f.Evidence > EvidenceCommitted {
		f.Evidence = EvidenceInDoubt
	}
	f.RetryAfter = min(max(f.RetryAfter, 0), maxRetryAfter)
}

func defaultCode(c Class) Code {
	switch c.Safe() {
	case ClassTransient:
		return CodeDependencyUnavailable
	case ClassEmptyResult:
		return CodeEmptyResult
	case ClassMalformed:
		return CodeInvalidArguments
	case ClassUnknownTool:
		return CodeUnknownTool
	}
	return CodeToolFailed
}

// isSticky reports whether the refusal is determined by the input alone.
func (f *Failure) isSticky() bool {
	return f.Evidence == EvidenceRejected && factsOf(f.Code, f.Class, f.Category).Sticky
}

func asPointer(field string) string {
	if field == "" || field[0] == '/' {
		return field
	}
	return "/" + field
}
