package toolexec_test

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// compiledEnvelopeSchema is compiled once: every test of the package asks it. Formats are asserted, so
// that an instant has to be RFC 3339.
var compiledEnvelopeSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(toolexec.EnvelopeSchema()))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("envelope.schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("envelope.schema.json")
})

// validateEnvelope validates one encoded envelope.
func validateEnvelope(t testing.TB, raw []byte) error {
	t.Helper()
	s, err := compiledEnvelopeSchema()
	require.NoError(t, err, "the schema does not compile")
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err, "%s", raw)
	return s.Validate(doc)
}

// checkEnvelope asserts what holds for every envelope that the library returns, whatever it says: it is
// valid by the published schema, and JSON carries it without loss. e is an Envelope of any result type.
func checkEnvelope(t testing.TB, e any) {
	t.Helper()
	raw, err := json.Marshal(e)
	require.NoError(t, err)
	assert.NoError(t, validateEnvelope(t, raw), "%s", raw)
	appended, err := e.(interface{ AppendJSON([]byte) ([]byte, error) }).AppendJSON([]byte("before "))
	require.NoError(t, err)
	assert.JSONEq(t, string(raw), strings.TrimPrefix(string(appended), "before "), "AppendJSON and json.Marshal agree")

	back := reflect.New(reflect.TypeOf(e))
	require.NoError(t, json.Unmarshal(raw, back.Interface()), "%s", raw)
	again, err := json.Marshal(back.Elem().Interface())
	require.NoError(t, err)
	assert.JSONEq(t, string(raw), string(again), "a second trip differs from the first")
	equalEnvelopes(t, reflect.ValueOf(e), back.Elem(), string(raw))
}

// equalEnvelopes compares all exported fields. A result is compared as JSON, because that is what
// travelled; one that cannot be encoded has to be gone.
func equalEnvelopes(t testing.TB, want, got reflect.Value, raw string) {
	t.Helper()
	require.Contains(t, want.Type().Name(), "Envelope[")
	encodable := true
	for i := range want.NumField() {
		f := want.Type().Field(i)
		a, b := want.Field(i), got.Field(i)
		switch {
		case !f.IsExported():
			continue
		case f.Name == "Result":
			x, err := marshalCrashing(a.Interface())
			encodable = err == nil
			if y, err := json.Marshal(b.Interface()); encodable && assert.NoError(t, err) && want.FieldByName("HasResult").Bool() {
				assert.JSONEq(t, string(x), string(y), "%s: %s", f.Name, raw)
			}
		case f.Name == "HasResult":
			assert.Equal(t, a.Bool() && encodable, b.Bool(), "%s: %s", f.Name, raw)
		case f.Name == "SafeDetails" && !encodable:
			assert.Contains(t, b.Interface(), toolexec.DetailNote, raw)
		default:
			assert.Equal(t, envelopeField(a), envelopeField(b), "%s: %s", f.Name, raw)
		}
	}
}

// marshalCrashing encodes a value whose methods may panic or exit.
func marshalCrashing(v any) ([]byte, error) {
	var raw []byte
	err := errors.New("the value's methods crashed")
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		raw, err = json.Marshal(v)
	}()
	<-done
	return raw, err
}

// envelopeField makes of a field what is equal exactly when the field is: instants in UTC and without
// their monotonic part, numbers as JSON writes them, an empty list like none.
func envelopeField(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case toolexec.Retry:
		x.NotBefore = x.NotBefore.Round(0).UTC()
		return x
	case *toolexec.Verification:
		if x == nil {
			return nil
		}
		y := *x
		y.CheckedAt = y.CheckedAt.Round(0).UTC()
		return y
	case toolexec.Details:
		out := map[string]string{}
		for k, d := range x {
			raw, _ := json.Marshal(d)
			out[k] = string(raw)
		}
		return out
	case time.Time:
		return x.Round(0).UTC()
	case []toolexec.FieldError:
		raw, _ := json.Marshal(x)
		if len(x) == 0 {
			return "[]"
		}
		return string(raw)
	}
	return v.Interface()
}

// word is what every enum of the contract can do.
type envelopeWord interface {
	encoding.TextMarshaler
	fmt.Stringer
}

// envelopeEnum checks a type over its whole range: zero is the first of words and is the safe value.
func envelopeEnum[E interface {
	~string
	envelopeWord
}](t *testing.T, safe func(E) E, words map[E]string) {
	t.Helper()
	t.Run(reflect.TypeFor[E]().Name(), func(t *testing.T) {
		var zero E
		require.Contains(t, words, zero, "the zero value has a word")
		for v, text := range words {
			assert.Equal(t, text, v.String())
			if safe != nil {
				assert.Equal(t, v, safe(v), "a known value is its own safe value")
			}
			envelopeEnumTrip(t, v, text)
		}
		const future = "of a newer version"
		unknown := E(future)
		assert.Equal(t, future, unknown.String())
		envelopeEnumTrip(t, unknown, future)
		if safe != nil && reflect.TypeFor[E]() != reflect.TypeFor[toolexec.State]() {
			assert.Equal(t, zero, safe(unknown))
		}
		assert.NotContains(t, words, E(words[zero]), "the zero value has one representation")
	})
}

func envelopeEnumTrip[E interface {
	~string
	envelopeWord
}](t *testing.T, v E, text string) {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	assert.Equal(t, `"`+text+`"`, string(raw))
	var back E
	require.NoError(t, json.Unmarshal(raw, &back))
	assert.Equal(t, v, back)
}

func TestEnums(t *testing.T) {
	envelopeEnum(t, toolexec.Effect.Safe, map[toolexec.Effect]string{
		toolexec.Write: "write", toolexec.Idempotent: "idempotent", toolexec.ReadOnly: "read_only",
	})
	envelopeEnum(t, toolexec.CommitState.Safe, map[toolexec.CommitState]string{
		toolexec.CommitUnknown: "unknown", toolexec.NotCommitted: "not_committed", toolexec.Committed: "committed",
	})
	envelopeEnum(t, toolexec.NextAction.Safe, map[toolexec.NextAction]string{
		toolexec.NextEscalate: "escalate", toolexec.NextContinue: "continue", toolexec.NextCorrectInput: "correct_input",
		toolexec.NextWaitAndRetry: "wait_and_retry", toolexec.NextVerifyOperation: "verify_operation", toolexec.NextRequestApproval: "request_approval",
	})
	envelopeEnum(t, toolexec.Directive.Safe, map[toolexec.Directive]string{
		toolexec.RetryNever: "never", toolexec.RetryAfterDelay: "after_delay", toolexec.RetryAfterInputFix: "after_input_fix",
	})
	envelopeEnum(t, toolexec.Class.Safe, map[toolexec.Class]string{
		toolexec.ClassPermanent: "permanent", toolexec.ClassTransient: "transient", toolexec.ClassEmptyResult: "empty_result",
		toolexec.ClassMalformed: "malformed", toolexec.ClassUnknownTool: "unknown_tool",
	})
	envelopeEnum(t, toolexec.Category.Safe, map[toolexec.Category]string{
		toolexec.CategoryInternal: "internal", toolexec.CategoryValidation: "validation", toolexec.CategoryAuthorization: "authorization",
		toolexec.CategoryConflict: "conflict", toolexec.CategoryDependency: "dependency",
	})
	envelopeEnum(t, nil, map[toolexec.Source]string{
		toolexec.SourceExecution: "execution", toolexec.SourceLookup: "lookup", toolexec.SourceOperator: "operator",
	})
	envelopeEnum(t, toolexec.State.Safe, map[toolexec.State]string{
		toolexec.StateAbsent: "absent", toolexec.StateInFlight: "in_flight", toolexec.StateReleased: "released", toolexec.StateRejected: "rejected",
		toolexec.StateAwaitingApproval: "awaiting_approval", toolexec.StateUnknown: "unknown", toolexec.StateCommitted: "committed", toolexec.StateEscalated: "escalated",
	})
	assert.Equal(t, toolexec.StateEscalated, toolexec.State("of a newer version").Safe(), "what a newer version wrote is left to a person")
}

func TestEvidenceWords(t *testing.T) {
	for e, text := range map[toolexec.Evidence]string{
		toolexec.EvidenceInDoubt: "in_doubt", toolexec.EvidenceNotSent: "not_sent", toolexec.EvidenceRejected: "rejected",
		toolexec.EvidenceCommitted: "committed", 99: "in_doubt",
	} {
		assert.Equal(t, text, e.String())
	}
}

func TestZeroEnvelopeIsTheSafestAnswer(t *testing.T) {
	var e toolexec.Envelope[truthOut]
	assert.False(t, e.OK)
	assert.Equal(t, "unknown", e.CommitState.String())
	assert.Equal(t, "never", e.Retry.Directive.String())
	assert.Equal(t, "escalate", e.NextAction.String())

	_, err := e.Value()
	var own *toolexec.Error
	require.ErrorAs(t, err, &own)
	assert.Equal(t, toolexec.NextEscalate, own.NextAction)
	text, isError := e.Observation()
	assert.True(t, isError)
	assert.Equal(t, "The outcome is unknown. Do not repeat the call.\ncode: OUTCOME_UNKNOWN; commit_state: unknown; next_action: escalate", text)

	raw, err := json.Marshal(e)
	require.NoError(t, err)
	var back toolexec.Envelope[truthOut]
	require.NoError(t, json.Unmarshal(raw, &back))
	assert.Equal(t, e, back)
}

func TestEnvelopeNeedsOK(t *testing.T) {
	for _, raw := range []string{
		`{}`, `null`, `{"ok":null}`, `{"code":"OK","commit_state":"committed","next_action":"continue"}`,
		`{"result":{"receipt":"r"}}`, `[]`, `"ok"`, `true`, `{"ok":"true"}`, `{"ok":1}`,
	} {
		e := toolexec.Envelope[truthOut]{AgentMessage: "as it was"}
		assert.Error(t, json.Unmarshal([]byte(raw), &e), raw)
		assert.Equal(t, "as it was", e.AgentMessage, "a refused text leaves the envelope as it was: %s", raw)
	}
}

func TestEnvelopeOfANewerVersion(t *testing.T) {
	const raw = `{"ok":false,"code":"SOMETHING_NEW","class":"paused","category":"policy","commit_state":"compensated",
		"retry":{"directive":"after_reading","max_attempts_remaining":3,"budget":1},"next_action":"consult","operation_ref":"a/1",
		"verification":{"checked_at":"2026-01-02T03:04:05Z","source":"oracle"},"agent_message":"m","user_message":"u","tomorrow":{"x":1}}`
	var e toolexec.Envelope[truthOut]
	require.NoError(t, json.Unmarshal([]byte(raw), &e))
	assert.Equal(t, toolexec.CommitUnknown, e.CommitState.Safe())
	assert.Equal(t, toolexec.NextEscalate, e.NextAction.Safe())
	assert.Equal(t, toolexec.RetryNever, e.Retry.Directive.Safe())
	assert.Equal(t, toolexec.ClassPermanent, e.Class.Safe())
	text, isError := e.Observation()
	assert.True(t, isError)
	assert.Equal(t, "m\ncode: SOMETHING_NEW; commit_state: unknown; next_action: escalate; operation_ref: a/1", text)

	again, err := json.Marshal(e)
	require.NoError(t, err)
	for _, survives := range []string{"paused", "policy", "compensated", "after_reading", "consult", "oracle", "SOMETHING_NEW"} {
		assert.Contains(t, string(again), `"`+survives+`"`)
	}
}

func TestDetailsKeepBigNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const big = int64(1)<<53 + 1
		var x toolexec.Executor
		b := toolexec.Bind(&x, toolexec.Tool[truthIn, truthOut]{Name: "refund", Run: func(context.Context, truthIn) (truthOut, error) {
			f := toolexec.Rejected(toolexec.CodeVersionConflict, nil)
			f.Details = toolexec.Details{toolexec.DetailResourceVersion: big, "secret": "s", toolexec.DetailPartial: []int{1}}
			return truthOut{}, f
		}})
		e := b.Call(t.Context(), truthOrder)
		checkEnvelope(t, e)
		assert.Equal(t, toolexec.Details{toolexec.DetailResourceVersion: big}, e.SafeDetails, "allowlisted keys and scalars only")
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		assert.Contains(t, string(raw), `"resource_version":9007199254740993`)
		var back toolexec.Envelope[truthOut]
		require.NoError(t, json.Unmarshal(raw, &back))
		assert.Equal(t, json.Number("9007199254740993"), back.SafeDetails[toolexec.DetailResourceVersion])
	})
	var d toolexec.Details
	for _, raw := range []string{`{"a":{}}`, `{"a":[]}`, `{"a":null}`, `[]`} {
		assert.Error(t, json.Unmarshal([]byte(raw), &d), raw)
	}
}

func TestValueErrObservation(t *testing.T) {
	ok := toolexec.Envelope[truthOut]{OK: true, Code: toolexec.CodeOK, CommitState: toolexec.Committed, NextAction: toolexec.NextContinue, OperationRef: "a/1"}
	ok.Result, ok.HasResult = truthOut{"r1"}, true
	out, err := ok.Value()
	require.NoError(t, err)
	assert.Equal(t, truthOut{"r1"}, out)
	require.NoError(t, ok.Err())
	text, isError := ok.Observation()
	assert.Equal(t, `{"receipt":"r1"}`, text)
	assert.False(t, isError)

	gone := ok
	gone.Result, gone.HasResult = truthOut{}, false
	_, err = gone.Value()
	require.ErrorIs(t, err, toolexec.ErrNoResult)
	var own *toolexec.Error
	require.ErrorAs(t, err, &own)
	assert.Equal(t, toolexec.Committed, own.CommitState)
	assert.Contains(t, err.Error(), "not kept")
	require.NoError(t, gone.Err(), "it is ok")
	text, isError = gone.Observation()
	assert.Equal(t, "Done; its result is not available. Do not repeat it. operation_ref: a/1.", text)
	assert.False(t, isError)

	bad := ok
	bad.Result = truthOut{"unencodable"}
	text, isError = bad.Observation()
	assert.Equal(t, "Done; its result could not be encoded. Do not repeat it. operation_ref: a/1.", text)
	assert.False(t, isError)
}

func TestErrorHoldsNoWordOfItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("password=hunter2")
		var x toolexec.Executor
		b := toolexec.Bind(&x, toolexec.Tool[truthIn, truthOut]{Name: "refund", Run: func(context.Context, truthIn) (truthOut, error) { return truthOut{}, cause }})
		e := b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), truthOrder)
		checkEnvelope(t, e)
		out, err := e.Value()
		assert.Zero(t, out)
		require.ErrorIs(t, err, cause, "operators can ask")
		assert.Equal(t, "toolexec: TOOL_FAILED (unknown, verify_operation) operation_ref a/1", err.Error())
		text, isError := e.Observation()
		assert.True(t, isError)
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		assert.NotContains(t, text+string(raw)+fmt.Sprintf("%+v", e.SafeDetails)+e.UserMessage, "hunter2")
		_, err = b.Func()(toolexec.WithOperationRef(t.Context(), "a/1"), truthOrder)
		var own *toolexec.Error
		require.ErrorAs(t, err, &own)
		assert.Equal(t, e.AgentMessage, own.Message)
	})
}

func TestObservationOfAFailureNamesEveryField(t *testing.T) {
	e := toolexec.Envelope[truthOut]{
		Code: toolexec.CodeInvalidArguments, Class: toolexec.ClassMalformed, Category: toolexec.CategoryValidation, CommitState: toolexec.NotCommitted,
		Retry:      toolexec.Retry{Directive: toolexec.RetryAfterInputFix, NotBefore: time.Date(2026, 1, 2, 3, 4, 5, 1, time.UTC), MaxAttemptsRemaining: 1},
		NextAction: toolexec.NextCorrectInput, OperationRef: "a/1", AgentMessage: "No.", UserMessage: "No.",
		FieldErrors: []toolexec.FieldError{
			{Pointer: "/cents", Rule: "type", Expected: "integer", Received: "string"},
			{Rule: "required", Expected: "order"},
			{Pointer: "/unit", Rule: "enum", Allowed: []string{"kg", "g"}},
		},
	}
	checkEnvelope(t, e)
	text, isError := e.Observation()
	assert.True(t, isError)
	assert.Equal(t, strings.Join([]string{
		"No.",
		"- /cents: type, expected integer, received string",
		"- (the whole): required, expected order",
		"- /unit: enum, allowed kg, g",
		// rounded up: never earlier than it is
		"code: INVALID_ARGUMENTS; commit_state: not_committed; next_action: correct_input; not_before: 2026-01-02T03:04:06Z; operation_ref: a/1",
	}, "\n"), text)
}

// envelopeExploding panics when it is encoded.
type envelopeExploding struct{}

func (envelopeExploding) MarshalJSON() ([]byte, error) { panic("a secret") }

func TestAResultThatCannotBeEncodedErasesNoFact(t *testing.T) {
	facts := func(e any) {
		t.Helper()
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		assert.JSONEq(t, `{"ok":true,"code":"OK","commit_state":"committed","next_action":"continue","operation_ref":"a/1",
			"verification":{"checked_at":"2026-01-02T03:04:05Z","source":"execution"},
			"safe_details":{"resource_version":7,"note":"the result could not be encoded"}}`, string(raw))
	}
	v := &toolexec.Verification{CheckedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	d := toolexec.Details{toolexec.DetailResourceVersion: 7}
	f := toolexec.Envelope[func()]{
		OK: true, Code: toolexec.CodeOK, CommitState: toolexec.Committed, NextAction: toolexec.NextContinue, OperationRef: "a/1",
		Verification: v, SafeDetails: d, HasResult: true, Result: func() {},
	}
	facts(f)
	facts(toolexec.Envelope[envelopeExploding]{
		OK: true, Code: toolexec.CodeOK, CommitState: toolexec.Committed, NextAction: toolexec.NextContinue, OperationRef: "a/1",
		Verification: v, SafeDetails: d, HasResult: true,
	})
	assert.Len(t, d, 1, "encoding writes no map of the envelope's")
}

// Every kind of nothing is a result.
func TestEnvelopeKeepsEveryKindOfNothing(t *testing.T) {
	for _, raw := range []string{`null`, `0`, `false`, `""`, `[]`, `{}`} {
		e := toolexec.Envelope[json.RawMessage]{
			OK: true, Code: toolexec.CodeOK, CommitState: toolexec.Committed, NextAction: toolexec.NextContinue,
			Verification: &toolexec.Verification{CheckedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
			HasResult:    true, Result: json.RawMessage(raw),
		}
		checkEnvelope(t, e)
		out, err := e.Value()
		require.NoError(t, err)
		assert.Equal(t, raw, string(out))
	}
}

// No field of the core's answer gets lost on its way to the typed one, or to the one by name: over a few
// calls every field is set in both, and they agree.
func TestEveryFieldReachesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		typed, named := envelopeEveryAnswer(t, "Call"), envelopeEveryAnswer(t, "Execute")
		require.Len(t, named, len(typed))
		set := map[string]bool{}
		for i := range typed {
			for j := range typed[i].NumField() {
				f := typed[i].Type().Field(j)
				if !f.IsExported() {
					continue
				}
				a, b := typed[i].Field(j), named[i].Field(j)
				set[f.Name] = set[f.Name] || !a.IsZero()
				if f.Name == "Result" {
					x, err := json.Marshal(a.Interface())
					require.NoError(t, err)
					if typed[i].FieldByName("HasResult").Bool() {
						assert.JSONEq(t, string(x), string(b.Interface().(json.RawMessage)))
					}
					continue
				}
				assert.Equal(t, envelopeField(a), envelopeField(b), f.Name)
			}
		}
		for name := range maps.Keys(set) {
			assert.True(t, set[name], "%s was never set: no case shows that it arrives", name)
		}
	})
}

// envelopeEveryAnswer makes calls whose answers set every field of an envelope, through one door.
func envelopeEveryAnswer(t *testing.T, door string) (out []reflect.Value) {
	road := &truthStore{Store: &toolexec.MemoryStore{}}
	x := &toolexec.Executor{Store: road, Policy: toolexec.Policy{MaxRetries: -1}}
	b := toolexec.Bind(x, toolexec.Tool[truthIn, truthOut]{
		Name: "refund", Verify: &truthLook{Lookup: func(context.Context, string, truthIn) (toolexec.Finding[truthOut], error) {
			return toolexec.Absent[truthOut](), nil
		}},
		Run: func(_ context.Context, in truthIn) (truthOut, error) {
			switch in.Cents {
			case 1:
				f := toolexec.Invalid("cents", "too few")
				f.UserMessage, f.AgentMessage = "u", "a"
				return truthOut{}, f
			case 2:
				f := toolexec.Rejected(toolexec.CodeRateLimited, nil)
				f.RetryAfter = time.Minute
				return truthOut{}, f
			case 3:
				return truthOut{}, toolexec.InDoubt(nil)
			case 4:
				road.set(false, true)
			}
			return truthOut{"r"}, nil
		},
	})
	ask := func(ref string, cents int) {
		in := truthIn{Order: "ORD-1", Cents: cents}
		if door == "Call" {
			e := b.Call(toolexec.WithOperationRef(t.Context(), ref), in)
			checkEnvelope(t, e)
			out = append(out, reflect.ValueOf(e))
			return
		}
		raw, err := json.Marshal(in)
		require.NoError(t, err)
		e := x.Execute(t.Context(), toolexec.Call{Name: "refund", Arguments: raw, OperationRef: ref})
		checkEnvelope(t, e)
		out = append(out, reflect.ValueOf(e))
	}
	ask("invalid", 1)
	ask("limited", 2)
	ask("doubt", 3)
	ask("fine", 5)
	ask("fine", 5)
	ask("unsaved", 4)
	road.set(false, false)
	require.NoError(t, x.Close(t.Context()))
	return out
}

// The schema refuses what the two shapes of an answer cannot be.
func TestSchemaRefusesContradictions(t *testing.T) {
	success := map[string]any{
		"ok": true, "code": "OK", "commit_state": "committed", "next_action": "continue",
		"verification": map[string]any{"checked_at": "2026-01-02T03:04:05Z", "source": "execution"},
	}
	failure := map[string]any{
		"ok": false, "code": "CONFLICT", "class": "permanent", "category": "conflict", "commit_state": "not_committed",
		"retry": map[string]any{"directive": "never", "max_attempts_remaining": 0}, "next_action": "escalate",
		"agent_message": "a", "user_message": "u",
	}
	valid := func(base map[string]any, member string, v any) bool {
		t.Helper()
		m := maps.Clone(base)
		if m[member] = v; v == nil {
			delete(m, member)
		}
		raw, err := json.Marshal(m)
		require.NoError(t, err)
		return validateEnvelope(t, raw) == nil
	}
	require.True(t, valid(success, "replayed", true))
	require.True(t, valid(success, "result", 0))
	require.True(t, valid(success, "recorded", false))
	require.True(t, valid(failure, "operation_ref", "a/1"))
	require.True(t, valid(failure, "code", "ORDER_LOCKED"))

	for _, wrong := range []struct {
		base   map[string]any
		member string
		value  any
	}{
		{success, "ok", nil},
		{success, "ok", "true"},
		{success, "ok", false},
		{success, "code", "CONFLICT"},
		{success, "code", nil},
		{success, "commit_state", "unknown"},
		{success, "commit_state", "not_committed"},
		{success, "next_action", "wait_and_retry"},
		{success, "verification", nil},
		{success, "verification", map[string]any{"checked_at": "yesterday", "source": "execution"}},
		{success, "verification", map[string]any{"checked_at": "2026-01-02T03:04:05Z", "source": "hearsay"}},
		{success, "class", "permanent"},
		{success, "category", "internal"},
		{success, "retry", map[string]any{"directive": "never", "max_attempts_remaining": 0}},
		{success, "field_errors", []any{map[string]any{"pointer": "", "rule": "type"}}},
		{success, "replayed", false},
		{success, "recorded", true},
		{success, "operation_ref", ""},
		{success, "operation_ref", "with space"},
		{success, "operation_ref", strings.Repeat("a", 201)},
		{success, "safe_details", map[string]any{"Key": 1}},
		{success, "safe_details", map[string]any{"key": []any{}}},
		{success, "safe_details", map[string]any{"key": strings.Repeat("a", 257)}},
		{success, "surprise", 1},
		{failure, "ok", true},
		{failure, "code", "OK"},
		{failure, "code", "lower"},
		{failure, "class", nil},
		{failure, "class", "odd"},
		{failure, "category", nil},
		{failure, "commit_state", nil},
		{failure, "commit_state", "perhaps"},
		// OK and committed go together.
		{failure, "commit_state", "committed"},
		{failure, "next_action", "continue"},
		{failure, "next_action", nil},
		{failure, "retry", nil},
		{failure, "retry", map[string]any{"directive": "always", "max_attempts_remaining": 0}},
		{failure, "retry", map[string]any{"directive": "never", "max_attempts_remaining": -1}},
		{failure, "retry", map[string]any{"directive": "never"}},
		{failure, "result", map[string]any{}},
		{failure, "replayed", true},
		{failure, "agent_message", nil},
		{failure, "user_message", nil},
		{failure, "field_errors", []any{}},
	} {
		assert.False(t, valid(wrong.base, wrong.member, wrong.value), "ok %v with %s: %v is valid", wrong.base["ok"], wrong.member, wrong.value)
	}
}

func TestEnvelopeSchemaIsTheCallersOwn(t *testing.T) {
	clear(toolexec.EnvelopeSchema())
	assert.True(t, json.Valid(toolexec.EnvelopeSchema()))
}
