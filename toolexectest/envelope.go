package toolexectest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/internal/schema"
)

// CheckEnvelope checks what is true of every envelope, whatever it says: its JSON
// is valid by [toolexec.EnvelopeSchema], it comes back from JSON as it was, and its
// fields do not contradict each other. It returns nil, or one error that joins
// what is wrong, in words.
//
// A result counts as its JSON: what that does not keep is the tool's business.
func CheckEnvelope[T any](e toolexec.Envelope[T]) error {
	var wrong []error
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("it has no JSON: %w", err)
	}
	compiled, err := envelopeSchema()
	if err != nil {
		return err
	}
	for _, v := range compiled.Validate(raw) {
		wrong = append(wrong, fmt.Errorf("its JSON breaks the schema at %q: %s, expected %s", v.Pointer, v.Rule, v.Expected))
	}
	var back toolexec.Envelope[json.RawMessage]
	if err := json.Unmarshal(raw, &back); err != nil {
		wrong = append(wrong, fmt.Errorf("its JSON does not come back: %w", err))
	} else if again, err := json.Marshal(back); err != nil || !bytes.Equal(again, raw) {
		wrong = append(wrong, fmt.Errorf("it changes on its way through JSON: %s became %s", raw, again))
	}
	for _, words := range contradictions(factsOf(e)) {
		wrong = append(wrong, errors.New(words))
	}
	return errors.Join(wrong...)
}

var envelopeSchema = sync.OnceValues(func() (*schema.Schema, error) { return schema.Compile(toolexec.EnvelopeSchema()) })

// facts are what an envelope says beside its result.
type facts = toolexec.Envelope[struct{}]

func factsOf[T any](e toolexec.Envelope[T]) facts {
	return facts{
		OK: e.OK, Code: e.Code, Class: e.Class, Category: e.Category, CommitState: e.CommitState, Retry: e.Retry,
		NextAction: e.NextAction, OperationRef: e.OperationRef, HasResult: e.HasResult, Replayed: e.Replayed,
		Unrecorded: e.Unrecorded, Verification: e.Verification, SafeDetails: e.SafeDetails, FieldErrors: e.FieldErrors,
		AgentMessage: e.AgentMessage, UserMessage: e.UserMessage,
	}
}

// contradictions says which fields of e do not go together.
func contradictions(e facts) (out []string) {
	next, directive, state := e.NextAction.Safe(), e.Retry.Directive.Safe(), e.CommitState.Safe()
	for _, rule := range []struct {
		broken bool
		words  string
	}{
		{e.OK != (state == toolexec.Committed), "ok and commit_state committed go together"},
		{e.OK != (next == toolexec.NextContinue), "ok and next_action continue go together"},
		{e.OK != (e.Code == toolexec.CodeOK), "ok and code OK go together"},
		{e.OK && e.Retry != toolexec.Retry{}, "a success says nothing about retrying"},
		{!e.OK && (e.HasResult || e.Replayed), "a failure has no result and is not a replay"},
		{
			(directive == toolexec.RetryAfterDelay) != (next == toolexec.NextWaitAndRetry),
			"retry.directive after_delay and next_action wait_and_retry go together",
		},
		{
			directive == toolexec.RetryAfterInputFix && next != toolexec.NextCorrectInput,
			"retry.directive after_input_fix goes with next_action correct_input",
		},
		{
			directive == toolexec.RetryNever && e.Retry.MaxAttemptsRemaining != 0,
			"retry.directive never leaves no attempts",
		},
		{
			state == toolexec.CommitUnknown && (next == toolexec.NextCorrectInput || next == toolexec.NextRequestApproval),
			"what may have happened is not called again with another input or an approval before it is looked up",
		},
		{
			state == toolexec.NotCommitted && (next == toolexec.NextVerifyOperation && e.Code != toolexec.CodeOperationRefReused || e.Code == toolexec.CodeOutcomeUnknown),
			"what was not done is not looked up, unless its ref is that of another operation, and its outcome is not unknown",
		},
		{
			state == toolexec.CommitUnknown && e.OperationRef == "",
			"what may have happened has an operation_ref by which it can be looked up",
		},
	} {
		if rule.broken {
			out = append(out, rule.words)
		}
	}
	return out
}

// Want is what a test expects of an envelope. Only the fields that are set count:
//
//	Want{CommitState: new(toolexec.NotCommitted), NextAction: new(toolexec.NextWaitAndRetry)}
//
// They are pointers because the zero value of each word is an answer of its own,
// and the safe one. The zero Want expects nothing.
type Want struct {
	OK          *bool
	Code        *toolexec.Code
	Class       *toolexec.Class
	Category    *toolexec.Category
	CommitState *toolexec.CommitState
	NextAction  *toolexec.NextAction

	Directive            *toolexec.Directive
	NotBefore            *time.Time
	MaxAttemptsRemaining *int

	OperationRef *string
	Replayed     *bool
	Unrecorded   *bool
	Source       *toolexec.Source // of its verification, which then has to be there
	// Result is compared as JSON; nil is not compared.
	Result any
	// Details have to be among the safe details, compared as JSON; others may be.
	Details toolexec.Details
}

// Compare returns nil when got is as want says, else an error that shows what
// differs, a line for each field, by the names of the JSON, and what a wrong next
// action means in words.
func Compare[T any](got toolexec.Envelope[T], want Want) error {
	rows := want.rows(factsOf(got))
	if want.Result != nil {
		rows = append(rows, row{"result", resultText(got), string(encoded(want.Result))})
	}
	var lines []string
	for _, r := range rows {
		if r.got != r.want {
			lines = append(lines, fmt.Sprintf("%-28s %-24s %s", r.name, r.got, r.want))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	head := fmt.Sprintf("the envelope is not as it should be\n%-28s %-24s %s\n", "", "got", "want")
	text := head + strings.Join(lines, "\n")
	if n := want.NextAction; n != nil && *n != got.NextAction {
		text += "\n" + explain(factsOf(got), *n)
	}
	return errors.New(text)
}

// Expect fails t when got is not as want says, or not valid at all. See [Compare]
// and [CheckEnvelope].
func Expect[T any](t testing.TB, got toolexec.Envelope[T], want Want) {
	t.Helper()
	if err := Compare(got, want); err != nil {
		t.Error("toolexectest: " + err.Error())
	}
	if err := CheckEnvelope(got); err != nil {
		t.Error("toolexectest: the envelope is not valid: " + err.Error())
	}
}

// row is one field that counts.
type row struct{ name, got, want string }

func (w *Want) rows(got facts) (rows []row) {
	add := func(name string, got, want any) {
		if v := reflect.ValueOf(want); !v.IsNil() {
			rows = append(rows, row{name, text(got), text(v.Elem().Interface())})
		}
	}
	add("ok", got.OK, w.OK)
	add("code", got.Code, w.Code)
	add("class", got.Class, w.Class)
	add("category", got.Category, w.Category)
	add("commit_state", got.CommitState, w.CommitState)
	add("retry.directive", got.Retry.Directive, w.Directive)
	add("retry.not_before", got.Retry.NotBefore, w.NotBefore)
	add("retry.max_attempts_remaining", got.Retry.MaxAttemptsRemaining, w.MaxAttemptsRemaining)
	add("next_action", got.NextAction, w.NextAction)
	add("operation_ref", got.OperationRef, w.OperationRef)
	add("replayed", got.Replayed, w.Replayed)
	if w.Unrecorded != nil {
		rows = append(rows, row{"recorded", text(!got.Unrecorded), text(!*w.Unrecorded)})
	}
	if v := got.Verification; v != nil {
		add("verification.source", v.Source, w.Source)
	} else if w.Source != nil {
		rows = append(rows, row{"verification.source", "(none)", text(*w.Source)})
	}
	for k, v := range inOrder(w.Details) {
		shown := "(none)"
		if d, ok := got.SafeDetails[k]; ok {
			shown = string(encoded(d))
		}
		rows = append(rows, row{"safe_details." + k, shown, string(encoded(v))})
	}
	return rows
}

func resultText[T any](e toolexec.Envelope[T]) string {
	if !e.HasResult {
		return "(none)"
	}
	return string(encoded(e.Result))
}

// text is v as the wire form writes it, without quotes.
func text(v any) string {
	switch v := v.(type) {
	case time.Time:
		if v.IsZero() {
			return "(none)"
		}
		return v.UTC().Format(time.RFC3339Nano)
	case string:
		return orNone(v)
	case toolexec.Code:
		return orNone(string(v))
	}
	return fmt.Sprint(v)
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// actions says what each next action lets a host do.
var actions = map[toolexec.NextAction]string{
	toolexec.NextContinue:        "go on, it is done",
	toolexec.NextCorrectInput:    "call again with other arguments",
	toolexec.NextWaitAndRetry:    "make the same call again later",
	toolexec.NextVerifyOperation: "look the operation up by its ref, and send nothing before",
	toolexec.NextRequestApproval: "ask a person to allow exactly this call",
	toolexec.NextEscalate:        "leave it to a person",
}

// explain says in words what was advised, why, and what it was to be.
func explain(got facts, want toolexec.NextAction) string {
	why := "nothing was changed, and that is what " + orNone(string(got.Code)) + " implies"
	switch {
	case got.CommitState.Safe() == toolexec.CommitUnknown && got.NextAction.Safe() == toolexec.NextWaitAndRetry:
		why = "it may have happened, and the remote side deduplicates by the ref, or another owner has it"
	case got.CommitState.Safe() == toolexec.CommitUnknown:
		why = "it may have happened already, and repeating it could make it happen twice"
	case got.OK:
		why = "it is committed"
	}
	return fmt.Sprintf("next_action %s means: %s, because %s (class %s). It should be %s: %s.",
		got.NextAction, actions[got.NextAction.Safe()], why, got.Class, want, actions[want.Safe()])
}

// inOrder ranges over m in the order of its keys.
func inOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
