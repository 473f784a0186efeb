package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

var update = flag.Bool("update", false, "write the golden file")

// runLab runs the program in fake time and returns its output and how long it
// took.
func runLab(t *testing.T, args ...string) (stdout string, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		began := time.Now()
		assert.Equal(t, 0, run(t.Context(), args, &out, &errs), errs.String())
		assert.Empty(t, errs.String())
		stdout, took = out.String(), time.Since(began)
	})
	return stdout, took
}

func TestText(t *testing.T) {
	got, took := runLab(t)
	assert.Equal(t, time.Second, took, "twenty seconds, twenty times faster")
	golden := filepath.Join("testdata", "faultlab.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
	for line := range strings.Lines(got) {
		assert.LessOrEqual(t, len(line), width+1, line)
	}
}

// At full length all is the same but the line that says so.
func TestRealText(t *testing.T) {
	short, _ := runLab(t)
	long, took := runLab(t, "-real")
	assert.Equal(t, 20*time.Second, took)
	head, short, _ := strings.Cut(short, "Charts:")
	assert.Contains(t, head, "Run 20 times faster than the times say (-real: at full length); they are rounded down to 0.5s.\n")
	head, long, _ = strings.Cut(long, "Charts:")
	assert.Contains(t, head, "Run at full length; times are rounded down to 0.1s.\n")
	assert.Equal(t, short, long)
}

// What the text says is what was measured: the attempts, the class, and the
// gateway's ledger.
func TestExhibits(t *testing.T) {
	type answered struct {
		code  toolexec.Code
		class toolexec.Class
	}
	ok := answered{toolexec.CodeOK, ""}
	unknown := answered{toolexec.CodeOutcomeUnknown, toolexec.ClassTransient}
	want := map[string]struct {
		attempts                 string
		answers                  []answered
		requests, refunds, cents int
	}{
		"transient: the connection is refused twice":            {attempts: "at [0.0s 0.5s 1.5s]", answers: []answered{ok}},
		"transient: the service never answers":                  {attempts: "at [0.0s 2.5s 5.5s]; no more: the retries are used up", answers: []answered{{toolexec.CodeDeadlineExceeded, toolexec.ClassTransient}}},
		"permanent: the service refuses this caller":            {attempts: "at [0.0s]; no retry: repeating it would not help", answers: []answered{{toolexec.CodePermissionDenied, toolexec.ClassPermanent}}},
		"empty_result: there is nothing to find":                {attempts: "at [0.0s]; no retry: repeating it would not help", answers: []answered{{toolexec.CodeEmptyResult, toolexec.ClassEmptyResult}}},
		"malformed: the model wrote a number for a string":      {attempts: "none, the tool is not invoked", answers: []answered{{toolexec.CodeInvalidArguments, toolexec.ClassMalformed}}},
		"unknown_tool: the model misspelt the name":             {attempts: "none, the tool is not invoked", answers: []answered{{toolexec.CodeUnknownTool, toolexec.ClassUnknownTool}}},
		"1 blind retry: a loop, no executor":                    {"at [0.0s 2.5s]", nil, 2, 2, 16000},
		"2 Write: the effect is recorded first (MarkCommitted)": {"at [0.0s]; no retry: the effect is recorded", []answered{ok, ok}, 1, 1, 8000},
		"3 Idempotent: the gateway dedupes by operation ref":    {"at [0.0s 2.5s]", []answered{ok}, 2, 1, 8000},
		"4 Write: a verifier can look it up (Verify)":           {"at [0.0s]; no retry: it may have happened", []answered{ok}, 1, 1, 8000},
		"5 Write: nothing is declared":                          {"at [0.0s]; no retry: it may have happened", []answered{unknown, unknown, ok}, 1, 1, 8000},
	}
	synctest.Test(t, func(t *testing.T) {
		seen := 0
		err := (&lab{speed: 20}).visit(t.Context(), func(e *exhibit) error {
			seen++
			w, known := want[e.title]
			require.True(t, known, e.title)
			assert.Equal(t, w.attempts, attemptsText(e), e.title)
			var answers []answered
			for _, a := range e.answers {
				answers = append(answers, answered{a.envelope.Code, a.envelope.Class})
			}
			assert.Equal(t, w.answers, answers, e.title)
			if e.gateway != nil {
				requests, refunds, cents := e.gateway.sum()
				assert.Equal(t, []int{w.requests, w.refunds, w.cents}, []int{requests, refunds, cents}, e.title)
			}
			return nil
		})
		assert.NoError(t, err)
		assert.Len(t, want, seen)
	})
}

func TestJSON(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(toolexec.EnvelopeSchema()))
	require.NoError(t, err)
	require.NoError(t, compiler.AddResource("envelope.json", document))
	schema, err := compiler.Compile("envelope.json")
	require.NoError(t, err)

	out, _ := runLab(t, "-json")
	var codes []toolexec.Code
	for line := range strings.Lines(out) {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		require.NoError(t, err, line)
		assert.NoError(t, schema.Validate(value), line)
		var env envelope
		require.NoError(t, json.Unmarshal([]byte(line), &env))
		codes = append(codes, env.Code)
	}
	assert.Equal(t, []toolexec.Code{
		"OK", "DEADLINE_EXCEEDED", "PERMISSION_DENIED", "EMPTY_RESULT", "INVALID_ARGUMENTS", "UNKNOWN_TOOL",
		"OK", "OK", "OK", "OK", "OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN", "OK",
	}, codes)
	assert.NotContains(t, out, "svc-7", "what a service says stays with the operators")
}

func TestFlags(t *testing.T) {
	const usage = "usage: faultlab [-real] [-json]\n"
	for name, c := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"unknown":    {[]string{"-slow"}, 2, "flag provided but not defined: -slow\n" + usage},
		"a value":    {[]string{"-real=maybe"}, 2, `invalid boolean value "maybe" for -real: parse error` + "\n" + usage},
		"an operand": {[]string{"-json", "transient"}, 2, `faultlab takes no arguments, only flags: ["transient"]` + "\n" + usage},
		"help":       {[]string{"-h"}, 0, usage},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			assert.Equal(t, c.status, run(t.Context(), c.args, &out, &errs))
			assert.Empty(t, out.String())
			assert.True(t, strings.HasPrefix(errs.String(), c.says), errs.String())
		})
	}
}

// brokenPipe takes nothing.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{nil, {"-json"}} {
		t.Run(strings.Join(args, ""), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs bytes.Buffer
				assert.Equal(t, 1, run(t.Context(), args, brokenPipe{}, &errs))
				assert.Equal(t, "faultlab: file already closed\n", errs.String())
			})
		})
	}
}
