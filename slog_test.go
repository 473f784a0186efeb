package toolexec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// slogLines returns an observer that writes JSON, and what it has written so far as maps without time.
func slogLines(t testing.TB) (o *toolexec.SlogObserver, lines func() []map[string]any) {
	t.Helper()
	var out bytes.Buffer
	o = &toolexec.SlogObserver{Logger: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	return o, func() (all []map[string]any) {
		dec := json.NewDecoder(bytes.NewReader(out.Bytes()))
		for {
			var m map[string]any
			err := dec.Decode(&m)
			if errors.Is(err, io.EOF) {
				return all
			}
			require.NoError(t, err)
			delete(m, "time")
			all = append(all, m)
		}
	}
}

// slogLine is what one event is written as.
func slogLine(t testing.TB, redact func(string) string, e toolexec.Event) map[string]any {
	t.Helper()
	o, lines := slogLines(t)
	o.Redact = redact
	o.Note(t.Context(), e)
	all := lines()
	require.Len(t, all, 1)
	return all[0]
}

func TestSlogLevels(t *testing.T) {
	for _, row := range []struct {
		name  string
		event toolexec.Event
		want  string
	}{
		{"success", toolexec.CallInfo{OK: true, Code: toolexec.CodeOK, CommitState: toolexec.Committed, NextAction: toolexec.NextContinue}, "INFO"},
		{"success that is not stored", toolexec.CallInfo{OK: true, CommitState: toolexec.Committed, NextAction: toolexec.NextContinue, Unrecorded: true}, "ERROR"},
		{"failure", toolexec.CallInfo{CommitState: toolexec.NotCommitted, NextAction: toolexec.NextCorrectInput}, "WARN"},
		{"failure that waits", toolexec.CallInfo{CommitState: toolexec.NotCommitted, NextAction: toolexec.NextWaitAndRetry}, "WARN"},
		{"left unknown", toolexec.CallInfo{NextAction: toolexec.NextVerifyOperation}, "ERROR"},
		{"unknown, sent again later", toolexec.CallInfo{NextAction: toolexec.NextWaitAndRetry}, "ERROR"},
		{"escalated", toolexec.CallInfo{CommitState: toolexec.NotCommitted, NextAction: toolexec.NextEscalate}, "ERROR"},
		{"attempt", toolexec.AttemptInfo{OK: true}, "INFO"},
		{"failed attempt", toolexec.AttemptInfo{}, "WARN"},
		{"look-up", toolexec.VerificationInfo{Verdict: toolexec.FoundEffect}, "INFO"},
		{"failed look-up", toolexec.VerificationInfo{Failed: true}, "WARN"},
		{"pause", toolexec.PauseInfo{}, "DEBUG"},
		{"decision", toolexec.GuardDecision{}, "DEBUG"},
		{"late evidence", toolexec.LateEvidence{}, "INFO"},
		{"late evidence that is not stored", toolexec.LateEvidence{StoreErr: io.EOF}, "ERROR"},
		{"duplicate", toolexec.DuplicateEffect{}, "ERROR"},
		{"nearly full", toolexec.StoreNearlyFull{}, "WARN"},
		{"an event of a later version", slogUnknownEvent{}, "INFO"},
	} {
		t.Run(row.name, func(t *testing.T) {
			o, lines := slogLines(t)
			o.Start(t.Context(), row.event)
			o.End(t.Context(), row.event)
			o.Note(t.Context(), row.event)
			var got []string
			for _, l := range lines() {
				got = append(got, fmt.Sprint(l["level"], " ", l["msg"]))
			}
			name := "toolexec: " + row.event.EventName()
			assert.Equal(t, []string{"DEBUG " + name + " started", row.want + " " + name, row.want + " " + name}, got)
		})
	}
}

type slogUnknownEvent struct{}

func (slogUnknownEvent) EventName() string { return "later" }

func TestSlogAttributes(t *testing.T) {
	key := toolexec.Key{Scope: "tenant", Ref: "r1"}
	cause := errors.New("no route")
	for _, row := range []struct {
		event toolexec.Event
		want  string // without level and msg
	}{
		{
			toolexec.CallInfo{ID: "call_1", Tool: "refund", Scope: "tenant", RunID: "run", OperationRef: "r1"},
			`{"tool":"refund","operation_ref":"r1","scope":"tenant","call_id":"call_1","run_id":"run"}`,
		},
		{
			toolexec.CallInfo{
				ID: "call_1", Tool: "refund", RunID: "run", OperationRef: "r1", Done: true, Took: time.Second,
				Code: toolexec.CodeOutcomeUnknown, NextAction: toolexec.NextVerifyOperation, Replayed: true, Cause: cause,
			},
			`{"tool":"refund","operation_ref":"r1","call_id":"call_1","run_id":"run","ok":false,"code":"OUTCOME_UNKNOWN","commit_state":"unknown",
			  "next_action":"verify_operation","took":1000000000,"replayed":true,"cause":"no route"}`,
		},
		{toolexec.AttemptInfo{Tool: "refund", Key: key, N: 2}, `{"tool":"refund","operation_ref":"r1","scope":"tenant","attempt":2}`},
		{
			toolexec.AttemptInfo{Tool: "refund", Key: key, N: 2, Done: true, OK: true, Took: 5, Evidence: toolexec.EvidenceCommitted},
			`{"tool":"refund","operation_ref":"r1","scope":"tenant","attempt":2,"ok":true,"evidence":"committed","took":5}`,
		},
		{
			toolexec.AttemptInfo{Tool: "refund", Key: key, N: 2, Done: true, Took: 5, Code: toolexec.CodeToolPanic, Outlives: true, Cause: cause, Stack: []byte("goroutine 1")},
			`{"tool":"refund","operation_ref":"r1","scope":"tenant","attempt":2,"ok":false,"evidence":"in_doubt","took":5,"code":"TOOL_PANIC","outlives":true,
			  "cause":"no route","stack":"goroutine 1"}`,
		},
		{
			toolexec.PauseInfo{Tool: "refund", Key: key, For: 7, After: toolexec.CodeRateLimited},
			`{"tool":"refund","operation_ref":"r1","scope":"tenant","for":7,"after":"RATE_LIMITED"}`,
		},
		{
			toolexec.VerificationInfo{Tool: "refund", Key: key, Done: true, Took: 9, Verdict: toolexec.NoEffect},
			`{"tool":"refund","operation_ref":"r1","scope":"tenant","took":9,"failed":false,"verdict":"absent"}`,
		},
		{
			toolexec.VerificationInfo{Tool: "refund", Key: key, Done: true, Took: 9, Verdict: toolexec.FoundEffect},
			`{"tool":"refund","operation_ref":"r1","scope":"tenant","took":9,"failed":false,"verdict":"found"}`,
		},
		{
			toolexec.VerificationInfo{Tool: "refund", Key: key, Done: true, Took: 9, Verdict: toolexec.OtherEffect},
			`{"tool":"refund","operation_ref":"r1","scope":"tenant","took":9,"failed":false,"verdict":"conflicting"}`,
		},
		{
			toolexec.VerificationInfo{Tool: "refund", Key: key, Done: true, Took: 9, Failed: true, Err: cause},
			`{"tool":"refund","operation_ref":"r1","scope":"tenant","took":9,"failed":true,"verdict":"cannot_tell","cause":"no route"}`,
		},
		{
			toolexec.GuardDecision{Tool: "refund", Key: key, Move: "run", State: toolexec.StateInFlight},
			`{"tool":"refund","operation_ref":"r1","scope":"tenant","move":"run","state":"in_flight"}`,
		},
		{
			toolexec.LateEvidence{Tool: "refund", Key: key, N: 1, Evidence: toolexec.EvidenceRejected, Failure: cause, StoreErr: io.EOF},
			`{"tool":"refund","operation_ref":"r1","scope":"tenant","attempt":1,"evidence":"rejected","cause":"no route\nEOF"}`,
		},
		{
			toolexec.LateEvidence{Tool: "refund", Key: key, N: 1, Evidence: toolexec.EvidenceCommitted},
			`{"tool":"refund","operation_ref":"r1","scope":"tenant","attempt":1,"evidence":"committed"}`,
		},
		{toolexec.DuplicateEffect{Tool: "refund", Key: key}, `{"tool":"refund","operation_ref":"r1","scope":"tenant"}`},
		{toolexec.DuplicateEffect{Tool: "refund", Key: toolexec.Key{Ref: "r1"}}, `{"tool":"refund","operation_ref":"r1"}`},
		{toolexec.StoreNearlyFull{Records: 8, Bound: 10}, `{"records":8,"bound":10}`},
		{slogUnknownEvent{}, `{}`},
	} {
		t.Run(row.event.EventName(), func(t *testing.T) {
			line := slogLine(t, nil, row.event)
			delete(line, "level")
			delete(line, "msg")
			got, err := json.Marshal(line)
			require.NoError(t, err)
			assert.JSONEq(t, row.want, string(got))
		})
	}
}

// TestSlogSaysWhyASuccessIsAnError: the line of a success that could not be stored is at error level.
func TestSlogSaysWhyASuccessIsAnError(t *testing.T) {
	line := slogLine(t, nil, toolexec.CallInfo{Done: true, OK: true, CommitState: toolexec.Committed, NextAction: toolexec.NextContinue, Unrecorded: true})
	assert.Equal(t, false, line["recorded"], line)
}

// TestSlogVerificationStartHasNoVerdict: what is known at the end is not said at the beginning.
func TestSlogVerificationStartHasNoVerdict(t *testing.T) {
	assert.NotContains(t, slogLine(t, nil, toolexec.VerificationInfo{Tool: "refund"}), "verdict")
}

const slogSecret = "hunter2-hunter2"

// slogJWT is the example of RFC 7519, section 3.1.
const slogJWT = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODB9.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

func TestSlogRedacts(t *testing.T) {
	// What is put together here would otherwise look like a leak to those who search for leaks.
	pem := func(kind string) string { return "-----BEGIN " + kind + "PRIVATE KEY-----" }
	for _, row := range []struct{ name, text, want string }{
		{"nothing to hide", "dial tcp 10.0.0.1:5432: connection refused", "dial tcp 10.0.0.1:5432: connection refused"},
		{"a URL without credentials", `Get "https://api.example.com/v1?id=7": EOF`, `Get "https://api.example.com/v1?id=7": EOF`},
		{"a DSN", "postgres://app:" + slogSecret + "@db:5432/x?sslmode=on", "postgres://[redacted]@db:5432/x?sslmode=on"},
		{"a DSN whose password has an @", "amqp://app:p@" + slogSecret + "@mq", "amqp://[redacted]@mq"},
		{"a DSN without a user", "redis://:" + slogSecret + "@cache:6379", "redis://[redacted]@cache:6379"},
		{"a DSN of words", "host=db user=app password=" + slogSecret + " dbname=x", "host=db user=app password=[redacted] dbname=x"},
		{"a DSN of quoted words", "user=app password='" + slogSecret + " more' dbname=x", "user=app password=[redacted] dbname=x"},
		{"a bearer token", "401 for Bearer " + slogSecret + ".", "401 for Bearer [redacted]"},
		{"a header", "Authorization: Basic " + slogSecret + "==", "Authorization: [redacted]…"},
		{"a JWT", "token is bad: " + slogJWT + ", sorry", "token is bad: [redacted], sorry"},
		{"a JWT in a path", "GET /login/" + slogJWT + "/x", "GET /login/[redacted]/x"},
		{"an API key in a query", "GET /v1?api_key=" + slogSecret + "&id=7", "GET /v1?api_key=[redacted]&id=7"},
		{"an API key in a header", "X-Api-Key: " + slogSecret, "X-Api-Key: [redacted]"},
		{"an API key by its form", "no such key sk_live_" + strings.Repeat("a1", 12), "no such key [redacted]"},
		{"an access key id", "AKIA" + strings.Repeat("Q7", 8) + " is disabled", "[redacted] is disabled"},
		{"a token of a forge", "ghp_" + strings.Repeat("a1", 18), "[redacted]"},
		{"JSON", `{"user":"app","password":"` + slogSecret + `","n":1}`, `{"user":"app","password":[redacted],"n":1}`},
		{"a client secret", "client_secret=" + slogSecret + ";x", "client_secret=[redacted];x"},
		{"the environment", "AWS_SECRET_ACCESS_KEY=" + slogSecret, "AWS_SECRET_ACCESS_KEY=[redacted]"},
		{"a struct", fmt.Sprintf("%+v", struct{ User, Passwd string }{"app", slogSecret}), "{User:app Passwd:[redacted]"},
		{"a signed URL", "https://s3/x?X-Amz-Signature=" + slogSecret + "&y=1", "https://s3/x?X-Amz-Signature=[redacted]&y=1"},
		{"a cookie", "Set-Cookie: " + slogSecret + "; Path=/", "Set-Cookie: [redacted]…"},
		{"a private key", "bad key " + pem("RSA ") + "\n" + slogSecret + "\n-----END RSA PRIVATE KEY----- in x", "bad key [redacted] in x"},
		{"a private key in JSON", `{"k":"` + pem("") + `\n` + slogSecret + `\n-----END PRIVATE KEY-----\n"}`, `{"k":"[redacted]\n"}`},
		{"a private key that was cut off", pem("EC ") + "\n" + slogSecret + "\nmore", "[redacted]"},
		{"several lines", "first\npassword: " + slogSecret + "\ntoken=" + slogSecret + "\nlast", "first\npassword: [redacted]\ntoken=[redacted]\nlast"},
		{"several in one line", "pwd=" + slogSecret + "&token=" + slogSecret, "pwd=[redacted]&token=[redacted]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := errors.New(row.text)
			stack := []byte(row.text)
			for _, e := range []toolexec.Event{
				toolexec.CallInfo{Done: true, Cause: err},
				toolexec.AttemptInfo{Done: true, Cause: fmt.Errorf("%w", err), Stack: stack},
				toolexec.VerificationInfo{Done: true, Err: err},
				toolexec.LateEvidence{Failure: err},
				toolexec.LateEvidence{StoreErr: err},
			} {
				line := slogLine(t, nil, e)
				slogSame(t, row.want, line["cause"])
				if e.EventName() == "attempt" {
					slogSame(t, row.want, line["stack"])
				}
			}
		})
	}
}

// slogSame compares a text; what follows … is free, but for the secret.
func slogSame(t *testing.T, want string, got any) {
	t.Helper()
	text, _ := got.(string)
	assert.NotContains(t, text, slogSecret)
	if start, free := strings.CutSuffix(want, "…"); free {
		assert.True(t, strings.HasPrefix(text, start), text)
		return
	}
	assert.Equal(t, want, text)
}

// TestSlogRedactsFurtherForms: forms that stand in real error texts and are easily missed.
func TestSlogRedactsFurtherForms(t *testing.T) {
	for name, text := range map[string]string{
		"JSON in a quoted text":           fmt.Sprintf("body %q", `{"password":"`+slogSecret+`"}`),
		"a DSN of go-sql-driver":          "root:" + slogSecret + "@tcp(127.0.0.1:3306)/x",
		"a password with a slash":         "postgres://app:x/" + slogSecret + "@db:5432/x",
		"a short bearer token":            "Authorization: Bearer hunter2",
		"further cookies":                 "Cookie: a=b; session=" + slogSecret,
		"a key in a query":                `Get "https://maps.example.com/json?key=` + slogSecret + `": EOF`,
		"a PGP key":                       "-----BEGIN PGP PRIVATE KEY " + "BLOCK-----\n" + slogSecret + "\n-----END",
		"a fine-grained token of a forge": "github_pat_" + strings.ReplaceAll(slogSecret, "-", "") + strings.Repeat("a1", 12),
		"a quote in a password":           `{"password":"a\"` + slogSecret + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			assert.NotContains(t, slogLine(t, nil, toolexec.CallInfo{Done: true, Cause: errors.New(text)})["cause"], "hunter2")
		})
	}
}

func TestSlogCustomRedactComesAfterTheBuiltIn(t *testing.T) {
	var seen []string
	redact := func(text string) string {
		seen = append(seen, text)
		return strings.ReplaceAll(text, "patient 7", "patient ?")
	}
	line := slogLine(t, redact, toolexec.AttemptInfo{
		Done: true, Cause: errors.New("patient 7: password=" + slogSecret), Stack: []byte("main.treat(patient 7)"),
	})
	assert.Equal(t, "patient ?: password=[redacted]", line["cause"])
	assert.Equal(t, "main.treat(patient ?)", line["stack"])
	assert.Equal(t, []string{"patient 7: password=[redacted]", "main.treat(patient 7)"}, seen)
}

// slogCrashingError is an error whose text cannot be had.
type slogCrashingError struct{ how func() }

func (e *slogCrashingError) Error() string {
	e.how()
	return ""
}

func TestSlogSurvivesAnErrorThatCrashes(t *testing.T) {
	var none *slogCrashingError
	for name, err := range map[string]error{
		"panics": &slogCrashingError{func() { panic(slogSecret) }}, "calls Goexit": &slogCrashingError{runtime.Goexit}, "is a nil pointer": none,
		"is joined": errors.Join(io.EOF, &slogCrashingError{runtime.Goexit}),
	} {
		t.Run(name, func(t *testing.T) {
			line := slogLine(t, nil, toolexec.CallInfo{Done: true, Tool: "refund", Cause: err})
			assert.Equal(t, "the error's text cannot be had", line["cause"])
			assert.Equal(t, "refund", line["tool"])
		})
	}
}

// slogDefault makes l the default for one test. It puts back what slog.SetDefault changes in package log too.
func slogDefault(t *testing.T, l *slog.Logger) {
	t.Helper()
	was, out, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(l)
	t.Cleanup(func() {
		slog.SetDefault(was)
		log.SetOutput(out)
		log.SetFlags(flags)
	})
}

func TestSlogZeroValueWritesToTheDefault(t *testing.T) {
	var o toolexec.SlogObserver
	o.Start(t.Context(), slogUnknownEvent{}) // the default of now; debug, so it is not written
	var out bytes.Buffer
	slogDefault(t, slog.New(slog.NewTextHandler(&out, nil)))
	o.Note(t.Context(), toolexec.DuplicateEffect{Tool: "refund"})
	assert.Contains(t, out.String(), `level=ERROR msg="toolexec: duplicate_effect" tool=refund`)
}

// TestSlogStartKeepsTheContext: what it returns is what it was given.
func TestSlogStartKeepsTheContext(t *testing.T) {
	o, _ := slogLines(t)
	assert.Equal(t, t.Context(), o.Start(t.Context(), toolexec.CallInfo{}))
}

// TestSlogTellsTheOperatorWhatTheModelIsNotTold runs it behind an executor.
func TestSlogTellsTheOperatorWhatTheModelIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, lines := slogLines(t)
		x := &toolexec.Executor{Observer: o}
		b := toolexec.Bind(x, caseTool{Name: "refund", Run: observeScript(func(context.Context) error {
			panic(errors.New("ledger 7 of postgres://app:" + slogSecret + "@db is closed"))
		})})
		env := caseChecked(t, b.Call(toolexec.WithOperationRef(t.Context(), "r1"), execOrder))
		raw, err := json.Marshal(env)
		require.NoError(t, err)
		assert.NotContains(t, string(raw), "ledger 7")

		var got []string
		for _, l := range lines() {
			got = append(got, fmt.Sprint(l["level"], " ", l["msg"]))
			text := fmt.Sprint(l)
			assert.NotContains(t, text, slogSecret)
			if done := l["ok"] != nil; done {
				assert.Contains(t, l["cause"], "ledger 7 of postgres://[redacted]@db is closed")
			}
			if l["msg"] == "toolexec: attempt" {
				assert.Contains(t, l["stack"], "slog_test.go")
			}
		}
		assert.Equal(t, []string{
			"DEBUG toolexec: call started", "DEBUG toolexec: guard_decision", "DEBUG toolexec: attempt started",
			"WARN toolexec: attempt", "ERROR toolexec: call",
		}, got)
	})
}
