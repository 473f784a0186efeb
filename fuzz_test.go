package toolexec_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

type fuzzArgs struct {
	To    string            `json:"to"`
	Count int               `json:"count,omitempty"`
	Rate  float64           `json:"rate,omitempty"`
	Tags  []string          `json:"tags,omitempty"`
	Map   map[string]uint8  `json:"map,omitempty"`
	Inner *caseOrder        `json:"inner,omitempty"`
	Any   any               `json:"any,omitempty"`
	When  *time.Time        `json:"when,omitempty"`
	Raw   json.RawMessage   `json:"raw,omitempty"`
	Names map[string]string `json:"names,omitempty"`
}

var fuzzTools = []string{"write", "again", "read"}

// fuzzBind gives x a tool of each effect, which notes what it is called with.
func fuzzBind(x *toolexec.Executor, seen *[]fuzzArgs) {
	run := func(_ context.Context, in fuzzArgs) (fuzzArgs, error) { *seen = append(*seen, in); return in, nil }
	for i, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
		toolexec.Bind(x, toolexec.Tool[fuzzArgs, fuzzArgs]{Name: fuzzTools[i], Effect: effect, Run: run})
	}
}

// fuzzSchema is the schema that models are given, compiled by another hand.
var fuzzSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	var x toolexec.Executor
	fuzzBind(&x, nil)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(x.Tools("write")[0].InputSchema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("input.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("input.json")
})

// fuzzMalformed says what is wrong with arguments, by encoding/json and the published schema; nil is no proof that they are good.
func fuzzMalformed(t *testing.T, args []byte) error {
	if !json.Valid(args) || !utf8.Valid(args) || len(args) > 1<<20 {
		return errors.New("no JSON, no UTF-8, or too long")
	}
	if err := fuzzRepeated(json.NewDecoder(bytes.NewReader(args)), 0); err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return err
	}
	s, err := fuzzSchema()
	require.NoError(t, err)
	return s.Validate(doc)
}

// fuzzRepeated refuses a name that an object has twice, and values that lie too deep.
func fuzzRepeated(d *json.Decoder, depth int) error {
	d.UseNumber()
	token, err := d.Token()
	open, nested := token.(json.Delim)
	if err != nil || !nested {
		return err
	}
	if depth++; depth > 64 {
		return errors.New("too deep")
	}
	names := map[string]bool{}
	for d.More() {
		if open == '{' {
			token, err := d.Token()
			if err != nil {
				return err
			}
			name := token.(string)
			if names[name] {
				return errors.New("twice: " + name)
			}
			names[name] = true
		}
		if err := fuzzRepeated(d, depth); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

var fuzzRef = regexp.MustCompile(`^[A-Za-z0-9._:/@-]{1,200}$`)

// FuzzExecute: a call by name, whatever its bytes, is one valid envelope. The tool sees it only if everything about it is good,
// and then sees what it says; said again it is replayed, read again, or refused again.
func FuzzExecute(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"to":`, `{"to":"a"}`, `{"to":"a","to":"b"}`, `{"to":"a"} {}`, `null`, `[]`, `{"to":1}`, `{"to":"a","count":1e2}`, `{"to":"a","count":1.5}`,
		`{"to":"a","count":9223372036854775808}`, `{"to":"\ud800"}`, "{\"to\":\"\xff\"}", `{"to":"a","map":{"x":256}}`, `{"to":"a","inner":{"order_id":"1"}}`,
		`{"to":"a","inner":{}}`, `{"to":"a","any":{"b":[1,2,{"c":null}]}}`, `{"to":"a","when":"2026-11-30T12:00:00Z"}`, `{"to":"a","when":"yesterday"}`, `{"to":"a","raw":1e1000}`,
		`{"TO":"a"}`, `{"to":"a","rate":1e400}`, `{"to":"a","tags":[1]}`, `{"to":null}`, `{"to":"a","inner":null}`,
		`{"to":"a","any":{"b":1,"\u0062":2}}`, `{"to":"a","count":1.0}`, `{"to":"a","new":1}`, `{"to":"a","names":{"x":null}}`, `{"to":"a","any":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`,
	} {
		for _, name := range fuzzTools {
			f.Add([]byte(s), name, "a/1", "", uint8(0))
		}
		f.Add([]byte(s), "write", "", "run", uint8(0))
	}
	f.Add([]byte(`{"to":"a"}`), "wriet", "a/1", "run", uint8(0))
	f.Add([]byte(`{"to":"a"}`), "write", "no ref", "run", uint8(0))
	f.Add([]byte(`{"to":"a"}`), "read", "a/1", "run", uint8(1))
	f.Add([]byte(`{"to":"a"}`), "", strings.Repeat("r", 201), "", uint8(255))
	f.Fuzz(func(t *testing.T, args []byte, name, ref, run string, allowed uint8) {
		var x toolexec.Executor
		var seen []fuzzArgs
		fuzzBind(&x, &seen)
		call := toolexec.Call{Name: name, OperationRef: ref, RunID: run, Arguments: args}
		if allowed > 0 {
			call.Allowed = fuzzTools[:allowed%4]
		}
		given := bytes.Clone(args)
		first := x.Execute(t.Context(), call)
		fuzzAnswer(t, &call, first, seen)
		runs := len(seen)
		call.OperationRef = cmp.Or(call.OperationRef, first.OperationRef)
		again := x.Execute(t.Context(), call)
		checkEnvelope(t, again)
		require.Equal(t, given, args, "the arguments were changed")
		assert.Equal(t, first.OK, again.OK)
		assert.Equal(t, first.OK && name != "read", again.Replayed)
		if name != "read" || !first.OK {
			assert.Len(t, seen, runs)
		}
		if !first.OK && run != "" && first.Code != toolexec.CodeInvalidOperationRef {
			assert.Equal(t, toolexec.CodeUnchangedRetry, again.Code)
		}
	})
}

// fuzzAnswer holds the first answer against what another reading of the call says.
func fuzzAnswer(t *testing.T, call *toolexec.Call, e toolexec.Envelope[json.RawMessage], seen []fuzzArgs) {
	checkEnvelope(t, e)
	args := []byte(call.Arguments)
	if len(args) == 0 {
		args = []byte("{}")
	}
	known := slices.Contains(fuzzTools, call.Name) && (call.Allowed == nil || slices.Contains(call.Allowed, call.Name))
	goodRef := call.OperationRef == "" || fuzzRef.MatchString(call.OperationRef)
	malformed := fuzzMalformed(t, args)
	if !known || !goodRef || malformed != nil {
		assert.False(t, e.OK, "%s, %q, %v", call.Name, call.OperationRef, malformed)
		require.Empty(t, seen, "invoked: %v", malformed)
	}
	if e.OK {
		require.Len(t, seen, 1)
		var plain fuzzArgs
		if json.Unmarshal(args, &plain) == nil { // it refuses 1e2 for an integer, which is fine by the schema
			got := seen[0]
			if fuzzSameJSON(plain.Raw, got.Raw) { // 1e1 reaches the tool as 10
				plain.Raw, got.Raw = nil, nil
			}
			assert.True(t, reflect.DeepEqual(plain, got), "%+v, not %+v", got, plain)
		}
		return
	}
	assert.Empty(t, seen)
	assert.Equal(t, toolexec.NotCommitted, e.CommitState)
	switch e.Code {
	case toolexec.CodeUnknownTool:
		assert.False(t, known)
	case toolexec.CodeInvalidOperationRef:
		assert.False(t, goodRef)
	default:
		assert.Equal(t, toolexec.CodeInvalidArguments, e.Code)
		assert.NotEmpty(t, e.FieldErrors)
	}
}

// fuzzSameJSON reports whether two texts are one value, however their numbers are written.
func fuzzSameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// FuzzEnvelope: what decodes is encoded to the same, acts safe where it is not known, and reads without harm.
func FuzzEnvelope(f *testing.F) {
	for _, s := range []string{
		`{"ok":true,"code":"OK","commit_state":"committed","next_action":"continue","operation_ref":"run_81/step_4","result":{"receipt":"rcpt_1"},"verification":{"checked_at":"2026-11-30T12:00:00Z","source":"execution"}}`,
		`{"ok":false,"code":"OUTCOME_UNKNOWN","class":"transient","category":"dependency","commit_state":"unknown","retry":{"directive":"never","max_attempts_remaining":0},"next_action":"verify_operation","operation_ref":"a","safe_details":{"verification_tool":"x","big":9007199254740993},"agent_message":"a","user_message":"b"}`,
		`{"ok":false,"code":"NEW","class":"eventual","category":"weather","commit_state":"half","retry":{"directive":"maybe","not_before":"2026-11-30T12:00:00.5+01:00","max_attempts_remaining":3},"next_action":"dance"}`,
		`{}`, `{"ok":null}`, `{"ok":true,"result":null}`, `{"ok":true,"recorded":false,"replayed":true,"result":[]}`, `{"ok":false,"field_errors":[{"pointer":"/a","rule":"type"}],"safe_details":{"a":[]}}`,
		`{"ok":false,"safe_details":{"a":1e400,"b":true}}`, `null`, `[]`, `{"OK":true}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e toolexec.Envelope[json.RawMessage]
		if err := json.Unmarshal(raw, &e); err != nil {
			assert.Zero(t, e, "a refused envelope leaves traces")
			return
		}
		if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
			return // encoding/json does not ask
		}
		first, err := json.Marshal(e)
		require.NoError(t, err)
		var back toolexec.Envelope[json.RawMessage]
		require.NoError(t, json.Unmarshal(first, &back), "%s", first)
		second, err := json.Marshal(back)
		require.NoError(t, err)
		assert.Equal(t, string(first), string(second))
		assert.Equal(t, []any{e.OK, e.Code, e.CommitState, e.NextAction, e.OperationRef, e.Replayed, e.Unrecorded},
			[]any{back.OK, back.Code, back.CommitState, back.NextAction, back.OperationRef, back.Replayed, back.Unrecorded})
		switch e.CommitState.Safe() {
		case toolexec.NotCommitted, toolexec.Committed:
			assert.Contains(t, []toolexec.CommitState{toolexec.NotCommitted, toolexec.Committed}, e.CommitState)
		}
		_, isError := e.Observation()
		assert.Equal(t, !e.OK, isError)
		_, err = e.Value()
		assert.Equal(t, e.OK && e.HasResult, err == nil)
		if e.Err() != nil {
			assert.NotEmpty(t, e.Err().Error())
		}
	})
}

// fuzzTree makes an error of bytes, and says whether it leaves the outcome of a write in doubt: by the rule
// that the least certain of joined errors wins, and that what the tool states of the whole attempt stands.
func fuzzTree(data []byte, depth int) (err error, inDoubt bool, rest []byte) { //nolint:revive,staticcheck // the error is the value here
	if len(data) == 0 || depth > 20 {
		return errors.New("plain"), true, nil
	}
	op := data[0]
	rest = data[1:]
	leaves := []struct {
		err   error
		doubt bool
	}{
		{io.EOF, true}, {context.DeadlineExceeded, true}, {context.Canceled, true}, {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{toolexec.ErrNotSent, false}, {errors.New("plain"), true}, {toolexec.Rejected(toolexec.CodeConflict, nil), false}, {toolexec.NotSent(nil), false}, {toolexec.InDoubt(nil), true},
		{toolexec.Empty(""), false}, {toolexec.Invalid("to", ""), false}, {(*toolexec.Failure)(nil), true}, {fuzzNoCompareError{1}, true},
	}
	switch op % 8 {
	case 0, 1, 2:
		l := leaves[int(op/8)%len(leaves)]
		return l.err, l.doubt, rest
	case 3:
		inner, doubt, rest := fuzzTree(rest, depth+1)
		return fmt.Errorf("wrapped: %w", inner), doubt, rest
	case 4:
		inner, doubt, rest := fuzzTree(rest, depth+1)
		return &url.Error{Op: "Post", URL: "http://x/", Err: inner}, doubt, rest
	case 5:
		var tree classifyTreeErrors
		doubtful := false
		for range op / 8 % 4 {
			var doubt bool
			err, doubt, rest = fuzzTree(rest, depth+1)
			tree, doubtful = append(tree, err, nil), doubtful || doubt
		}
		return tree, doubtful || len(tree) == 0, rest
	case 6:
		inner, _, rest := fuzzTree(rest, depth+1)
		return toolexec.NotSent(inner), false, rest
	default:
		inner, _, rest := fuzzTree(rest, depth+1)
		return toolexec.Transient(inner), true, rest
	}
}

// fuzzNoCompareError is an error that cannot be compared.
type fuzzNoCompareError []int

func (fuzzNoCompareError) Error() string { return "not comparable" }

// FuzzClassify: any tree of errors is a valid envelope, and a write is told not_committed exactly where every
// branch of it proves that.
func FuzzClassify(f *testing.F) {
	for _, s := range []string{"", "\x00", "\x20", "\x38", "\x03\x30", "\x1d\x20\x38\x30", "\x15\x38\x00", "\x06\x00", "\x07\x38", "\x04\x18", "\x58", "\x60", "\x03\x15\x58\x38", "\x05"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err, inDoubt, _ := fuzzTree(data, 0)
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.Idempotent, toolexec.ReadOnly} {
			x := toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}}
			b := toolexec.Bind(&x, execTool("w", effect, func(context.Context) error { return err }))
			e := b.Call(toolexec.WithOperationRef(t.Context(), "a/1"), execOrder)
			checkEnvelope(t, e)
			require.False(t, e.OK)
			assert.Equal(t, inDoubt && effect != toolexec.ReadOnly, e.CommitState == toolexec.CommitUnknown, "%#v", err)
			if e.CommitState == toolexec.CommitUnknown && effect == toolexec.Write {
				assert.Equal(t, toolexec.NextVerifyOperation, e.NextAction)
				assert.Equal(t, toolexec.RetryNever, e.Retry.Directive)
			}
			assert.NotEqual(t, toolexec.NextContinue, e.NextAction)
		}
	})
}
