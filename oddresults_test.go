package toolexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

type (
	oddNode struct {
		Next *oddNode `json:"next"`
	}
	oddLiar struct{} // its JSON is none
	oddText struct{} // has no text
	oddKey  struct{} // as the key of a map
)

func (oddLiar) MarshalJSON() ([]byte, error)  { return []byte(`{"a":`), nil }
func (oddText) MarshalText() ([]byte, error)  { return nil, errors.New("hunter2") }
func (oddKey) MarshalText() ([]byte, error)   { panic("hunter2") }
func (oddLiar) UnmarshalJSON([]byte) error    { return nil }
func (*oddText) UnmarshalText(_ []byte) error { return nil }

// oddResults are values that encoding/json refuses. What fails, panics or exits in its MarshalJSON is in TestResultThatCannotBeEncoded.
func oddResults() map[string]any {
	ring := new(oddNode)
	ring.Next = &oddNode{ring}
	loop := map[string]any{"a": 1}
	loop["loop"] = loop
	list := []any{1, nil}
	list[1] = list
	return map[string]any{
		"NaN": math.NaN(), "infinity": math.Inf(-1), "float32": float32(math.Inf(1)), "deep NaN": map[string]any{"a": []float64{1, math.NaN()}},
		"channel": make(chan int), "function": func() {}, "complex": complex(1, 2), "cycle of pointers": ring, "cycle of maps": loop, "cycle of slices": list,
		"invalid JSON of a marshaler": oddLiar{}, "failing MarshalText": oddText{}, "crashing key": map[oddKey]int{{}: 1},
		"invalid RawMessage": json.RawMessage(`{"a":`), "no JSON in a RawMessage": []json.RawMessage{{}}, "two values in a RawMessage": json.RawMessage(`1 2`), "invalid Number": json.Number("1x"),
	}
}

const (
	oddNotKept    = "the result is not kept for a replay: it is too large or could not be encoded"
	oddNotEncoded = "the result could not be encoded"
	oddGone       = "the result is not known, or no longer kept"
)

// A success whose result cannot be JSON is a success: its own caller gets it, who needs JSON gets the fact. Only a read by name
// has nothing to say without its result.
func TestOddResults(t *testing.T) {
	for name, value := range oddResults() {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
			t.Run(name+"/"+effect.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var x toolexec.Executor
					runs := 0
					b := toolexec.Bind(&x, toolexec.Tool[caseOrder, any]{Name: "w", Effect: effect, Run: func(context.Context, caseOrder) (any, error) {
						runs++
						return value, nil
					}})
					typed := b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder)
					oddTyped(t, typed, value, effect)
					named := caseExecute(t, &x, "w", "a/2", caseArgs)
					caseClean(t, named)
					if effect == toolexec.ReadOnly {
						oddReadByName(t, named)
						assert.Equal(t, 2, runs)
						return
					}
					oddFact(t, named, "a/2", oddNotEncoded)
					assert.False(t, named.Replayed)
					for _, ref := range []string{"a/1", "a/2"} {
						again := caseExecute(t, &x, "w", ref, caseArgs)
						oddFact(t, again, ref, oddGone)
						assert.True(t, again.Replayed)
						typed := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), ref), execOrder))
						assert.True(t, typed.OK && typed.Replayed && !typed.HasResult)
						assert.Nil(t, typed.Result)
						rec, err := (&toolexec.Supervisor{Executor: &x}).Get(t.Context(), toolexec.Key{Ref: ref})
						require.NoError(t, err)
						assert.Equal(t, toolexec.StateCommitted, rec.State)
						assert.False(t, rec.ResultPresent)
					}
					assert.Equal(t, 2, runs)
				})
			})
		}
	}
}

func oddTyped(t *testing.T, e toolexec.Envelope[any], value any, effect toolexec.Effect) {
	t.Helper()
	checkEnvelope(t, e)
	caseClean(t, e)
	assert.True(t, e.OK && e.HasResult)
	assert.Equal(t, toolexec.Committed, e.CommitState)
	assert.Equal(t, toolexec.NextContinue, e.NextAction)
	got, err := e.Value()
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("%T", value), fmt.Sprintf("%T", got), "whole")
	text, isError := e.Observation()
	assert.False(t, isError)
	assert.Equal(t, "Done; its result could not be encoded. Do not repeat it. operation_ref: a/1.", text)
	if effect == toolexec.ReadOnly {
		assert.Empty(t, e.SafeDetails)
	} else {
		assert.Equal(t, toolexec.Details{toolexec.DetailNote: oddNotKept}, e.SafeDetails)
	}
	raw, err := json.Marshal(e)
	require.NoError(t, err)
	var wire map[string]any
	require.NoError(t, json.Unmarshal(raw, &wire))
	assert.NotContains(t, wire, "result")
	assert.Equal(t, map[string]any{"note": oddNotEncoded}, wire["safe_details"])
}

func oddReadByName(t *testing.T, e toolexec.Envelope[json.RawMessage]) {
	t.Helper()
	assert.Equal(t, []any{false, toolexec.CodeResultMalformed, toolexec.NotCommitted, toolexec.RetryNever, toolexec.NextEscalate, false},
		[]any{e.OK, e.Code, e.CommitState, e.Retry.Directive, e.NextAction, e.HasResult})
	text, isError := e.Observation()
	assert.True(t, isError)
	assert.Contains(t, text, "\ncode: RESULT_MALFORMED; commit_state: not_committed; next_action: escalate; operation_ref: a/2")
}

// oddFact: it is committed, and that is all there is.
func oddFact(t *testing.T, e toolexec.Envelope[json.RawMessage], ref, note string) {
	t.Helper()
	assert.Equal(t, []any{true, toolexec.CodeOK, toolexec.Committed, toolexec.NextContinue, false, ref},
		[]any{e.OK, e.Code, e.CommitState, e.NextAction, e.HasResult, e.OperationRef})
	assert.Equal(t, toolexec.Details{toolexec.DetailNote: note}, e.SafeDetails)
	_, err := e.Value()
	require.ErrorIs(t, err, toolexec.ErrNoResult)
	text, isError := e.Observation()
	assert.False(t, isError)
	assert.Equal(t, "Done; its result is not available. Do not repeat it. operation_ref: "+ref+".", text)
}

// The other two ways to a commit: what was marked, and what a look-up found. Neither has a caller who could get the value.
func TestOddResultsMarkedAndFound(t *testing.T) {
	for name, value := range oddResults() {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent} {
			t.Run(name+"/"+effect.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var x toolexec.Executor
					toolexec.Bind(&x, toolexec.Tool[caseOrder, any]{Name: "marked", Effect: effect, Run: func(ctx context.Context, _ caseOrder) (any, error) {
						assert.NoError(t, toolexec.MarkCommitted(ctx, value))
						return nil, errors.New("a later step")
					}})
					toolexec.Bind(&x, toolexec.Tool[caseOrder, any]{
						Name: "found", Effect: effect, Run: func(context.Context, caseOrder) (any, error) { return nil, errors.New("no answer") },
						Verify: &toolexec.Verifier[caseOrder, any]{Lookup: func(context.Context, string, caseOrder) (toolexec.Finding[any], error) {
							return toolexec.Found(value), nil
						}},
					})
					for _, tool := range []string{"marked", "found"} {
						for range 2 {
							e := caseExecute(t, &x, tool, tool, caseArgs)
							caseClean(t, e)
							oddFact(t, e, tool, oddGone)
						}
					}
				})
			})
		}
	}
}

// observationRows is a result of n rows of 100 bytes.
func observationRows(n int) []map[string]string {
	rows := make([]map[string]string, n)
	for i := range rows {
		rows[i] = map[string]string{"row": fmt.Sprintf("%089d", i)}
	}
	return rows
}

func TestObservationIsBounded(t *testing.T) {
	for _, row := range []struct {
		name            string
		max, rows, want int
		whole           bool
	}{
		{"default, fits", 0, 300, 32 << 10, true}, {"default", 0, 1000, 32 << 10, false}, {"none", -1, 1000, 0, true},
		{"least", 1, 1000, 1 << 10, false}, {"above the least", 2000, 1000, 2000, false},
	} {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
			t.Run(row.name+"/"+effect.String(), func(t *testing.T) {
				x := toolexec.Executor{MaxObservation: row.max}
				value := observationRows(row.rows)
				whole, err := json.Marshal(value)
				require.NoError(t, err)
				b := toolexec.Bind(&x, toolexec.Tool[caseOrder, []map[string]string]{Name: "w", Effect: effect, Run: func(context.Context, caseOrder) ([]map[string]string, error) { return value, nil }})
				ctx := t.Context()
				if effect != toolexec.ReadOnly {
					ctx = toolexec.WithOperationRef(ctx, "a/1")
				}
				typed := caseChecked(t, b.Call(ctx, execOrder))
				assert.Equal(t, value, typed.Result, "the caller gets it whole")
				named := caseExecute(t, &x, "w", typed.OperationRef, caseArgs)
				assert.Equal(t, effect != toolexec.ReadOnly, named.Replayed)
				assert.Equal(t, string(whole), string(named.Result), "and so does the record")
				text, isError := typed.Observation()
				assert.False(t, isError)
				again, _ := named.Observation()
				assert.Equal(t, text, again)
				if row.whole {
					assert.Equal(t, string(whole), text)
					return
				}
				observationCut(t, text, row.want, value, effect, len(whole))
			})
		}
	}
}

// observationCut: leading rows, whole, and one element that says what is missing and that it is done.
func observationCut(t *testing.T, text string, bound int, value []map[string]string, effect toolexec.Effect, size int) {
	t.Helper()
	assert.LessOrEqual(t, len(text), bound)
	assert.Greater(t, len(text), bound-110, "the room is used")
	var got []any
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	for i, r := range got[:len(got)-1] {
		assert.Equal(t, value[i]["row"], r.(map[string]any)["row"])
	}
	facts := "done, commit_state: committed; do not repeat it for the rest; operation_ref: a/1"
	if effect == toolexec.ReadOnly {
		facts = "the call is done, and repeating it unchanged shows no more of it"
	}
	assert.Equal(t, fmt.Sprintf("…[%d of %d elements left out; shortened from %d bytes; %s]", len(value)-len(got)+1, len(value), size, facts), got[len(got)-1])
}

// An envelope that came over the wire has no executor: it uses the default. Its ref may be any text, and is kept all the same.
func TestObservationOfADecodedEnvelope(t *testing.T) {
	whole, err := json.Marshal(observationRows(1000))
	require.NoError(t, err)
	for name, ref := range map[string]string{"a ref": "a/1", "a ref that fills the room": strings.Repeat("r", 40<<10)} {
		t.Run(name, func(t *testing.T) {
			var e toolexec.Envelope[json.RawMessage]
			raw := fmt.Sprintf(`{"ok":true,"code":"OK","commit_state":"committed","next_action":"continue","operation_ref":%q,"result":%s}`, ref, whole)
			require.NoError(t, json.Unmarshal([]byte(raw), &e))
			text, isError := e.Observation()
			assert.False(t, isError)
			assert.Contains(t, text, ref)
			assert.Contains(t, strings.ToLower(text), "do not repeat it")
			if ref == "a/1" {
				assert.True(t, json.Valid([]byte(text)))
				assert.Greater(t, len(text), 31<<10)
				assert.LessOrEqual(t, len(text), toolexec.DefaultMaxObservation)
			}
		})
	}
}

// A failure loses the last of its field errors, line by line, and never the words of the contract.
func TestObservationOfManyFieldErrors(t *testing.T) {
	for _, n := range []int{1, 2, 10, 20, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var x = toolexec.Executor{MaxObservation: 1}
			f := toolexec.Invalid("order_id", "")
			f.Fields = nil
			var all []string
			for i := range n {
				f.Fields = append(f.Fields, toolexec.FieldError{Pointer: fmt.Sprintf("/items/%03d", i), Rule: "check", Expected: strings.Repeat("e", 40)})
				all = append(all, "- "+f.Fields[i].String())
			}
			b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error { return f }))
			e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder))
			assert.Len(t, e.FieldErrors, n, "the envelope has all")
			text, isError := e.Observation()
			assert.True(t, isError)
			assert.LessOrEqual(t, len(text), 1<<10)
			lines := strings.Split(text, "\n")
			assert.Equal(t, e.AgentMessage, lines[0])
			assert.Equal(t, "code: INVALID_ARGUMENTS; commit_state: not_committed; next_action: correct_input; operation_ref: a/1", lines[len(lines)-1])
			shown := lines[1 : len(lines)-1]
			if n <= 10 {
				assert.Equal(t, all, shown)
				return
			}
			kept := len(shown) - 1
			assert.Equal(t, all[:kept], shown[:kept])
			assert.Equal(t, fmt.Sprintf("… and %d more", n-kept), shown[kept])
			assert.Greater(t, len(text), 1<<10-90, "the room is used")
		})
	}
}

// The author's words come first in a message and what to do comes last: both ends stay.
func TestObservationOfALongMessage(t *testing.T) {
	for name, fields := range map[string][]toolexec.FieldError{"alone": nil, "with field errors": {{Pointer: "/a", Rule: "check"}, {Pointer: "/b", Rule: "check"}}} {
		for shift := range 3 {
			t.Run(fmt.Sprint(name, shift), func(t *testing.T) {
				var x = toolexec.Executor{MaxObservation: 1 << 10}
				f := toolexec.Rejected(toolexec.CodeConflict, nil)
				f.AgentMessage, f.Fields = "First words."+strings.Repeat("x", shift)+strings.Repeat("ü", 5000), fields
				b := toolexec.Bind(&x, execTool("w", toolexec.Write, func(context.Context) error { return f }))
				e := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder))
				text, _ := e.Observation()
				assert.LessOrEqual(t, len(text), 1<<10)
				assert.Greater(t, len(text), 1<<10-50, "the room is used")
				assert.True(t, utf8.ValidString(text), "a character was parted")
				assert.True(t, strings.HasPrefix(text, "First words."))
				assert.Contains(t, text, fmt.Sprintf("ü …[%d bytes in all]… ü", len(e.AgentMessage)))
				assert.Contains(t, text, "Do not call it again for this; a person must decide.\n")
				assert.True(t, strings.HasSuffix(text, "\ncode: CONFLICT; commit_state: not_committed; next_action: escalate; operation_ref: a/1"))
				assert.Equal(t, fields != nil, strings.Contains(text, "\n… and 2 more\n"))
			})
		}
	}
}
