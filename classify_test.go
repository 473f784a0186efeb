package toolexec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

var classifyTools atomic.Int64

// classifyRun runs a tool that fails with err once, under a ref of its own.
func classifyRun(t testing.TB, x *toolexec.Executor, tool caseTool, err error) toolexec.Envelope[caseReceipt] {
	t.Helper()
	tool.Name = fmt.Sprint("tool_", classifyTools.Add(1))
	tool.Run = func(context.Context, caseOrder) (caseReceipt, error) { return caseReceipt{}, err }
	tool.Policy.MaxRetries = -1
	return caseChecked(t, toolexec.Bind(x, tool).Call(t.Context(), execOrder))
}

// classifyWords are the parts of an answer that classification decides.
type classifyWords struct {
	class     toolexec.Class
	code      toolexec.Code
	category  toolexec.Category
	state     toolexec.CommitState
	directive toolexec.Directive
	next      toolexec.NextAction
}

func classifyWordsOf(e toolexec.Envelope[caseReceipt]) classifyWords {
	return classifyWords{e.Class, e.Code, e.Category, e.CommitState, e.Retry.Directive, e.NextAction}
}

const (
	classifyNC  = toolexec.NotCommitted
	classifyUnk = toolexec.CommitUnknown
)

func TestConstructorsStateFacts(t *testing.T) {
	cause := errors.New("cause")
	type w = classifyWords
	var (
		conflict = w{toolexec.ClassPermanent, toolexec.CodeConflict, toolexec.CategoryConflict, classifyNC, toolexec.RetryNever, toolexec.NextEscalate}
		own      = w{toolexec.ClassPermanent, "ORDER_CLOSED", toolexec.CategoryConflict, classifyNC, toolexec.RetryNever, toolexec.NextEscalate}
		limited  = w{toolexec.ClassTransient, toolexec.CodeRateLimited, toolexec.CategoryDependency, classifyNC, toolexec.RetryAfterDelay, toolexec.NextWaitAndRetry}
		denied   = w{toolexec.ClassPermanent, toolexec.CodePermissionDenied, toolexec.CategoryAuthorization, classifyNC, toolexec.RetryNever, toolexec.NextRequestApproval}
		invalid  = w{toolexec.ClassPermanent, toolexec.CodeInvalidArguments, toolexec.CategoryValidation, classifyNC, toolexec.RetryAfterInputFix, toolexec.NextCorrectInput}
		away     = w{toolexec.ClassTransient, toolexec.CodeDependencyUnavailable, toolexec.CategoryDependency, classifyNC, toolexec.RetryAfterDelay, toolexec.NextWaitAndRetry}
		lost     = w{toolexec.ClassTransient, toolexec.CodeOutcomeUnknown, toolexec.CategoryDependency, classifyUnk, toolexec.RetryNever, toolexec.NextVerifyOperation}
		empty    = w{toolexec.ClassEmptyResult, toolexec.CodeEmptyResult, toolexec.CategoryValidation, classifyNC, toolexec.RetryAfterInputFix, toolexec.NextCorrectInput}
		failedW  = w{toolexec.ClassPermanent, toolexec.CodeToolFailed, toolexec.CategoryInternal, classifyUnk, toolexec.RetryNever, toolexec.NextVerifyOperation}
		failedR  = w{toolexec.ClassPermanent, toolexec.CodeToolFailed, toolexec.CategoryInternal, classifyNC, toolexec.RetryNever, toolexec.NextEscalate}
		failedC  = w{toolexec.ClassPermanent, toolexec.CodeToolFailed, toolexec.CategoryConflict, classifyNC, toolexec.RetryNever, toolexec.NextEscalate}
	)
	for _, row := range []struct {
		name        string
		err         error
		read, write classifyWords
	}{
		{"Rejected, of the table", toolexec.Rejected(toolexec.CodeConflict, cause), conflict, conflict},
		{"Rejected, transient", toolexec.Rejected(toolexec.CodeRateLimited, cause), limited, limited},
		{"Rejected, permission", toolexec.Rejected(toolexec.CodePermissionDenied, cause), denied, denied},
		{"Rejected, own code", toolexec.Rejected("ORDER_CLOSED", cause), own, own},
		{"Rejected, no code", toolexec.Rejected("", cause), failedC, failedC},
		{"Rejected, bad code", toolexec.Rejected("order closed", cause), failedC, failedC},
		{"Invalid", toolexec.Invalid("cents", "too many"), invalid, invalid},
		{"NotSent", toolexec.NotSent(cause), away, away},
		{"InDoubt", toolexec.InDoubt(cause), away, lost},
		{"Transient", toolexec.Transient(cause), away, lost},
		{"Empty", toolexec.Empty(""), empty, empty},
		{"plain", cause, failedR, failedW},
		{"zero Failure", &toolexec.Failure{}, failedR, failedW},
		{"wrapped", fmt.Errorf("a: %w", fmt.Errorf("b: %w", toolexec.NotSent(cause))), away, away},
		{"own code, transient", &toolexec.Failure{Code: "BUSY_HERE", Class: toolexec.ClassTransient, Category: toolexec.CategoryDependency, Evidence: toolexec.EvidenceRejected},
			w{toolexec.ClassTransient, "BUSY_HERE", toolexec.CategoryDependency, classifyNC, toolexec.RetryAfterDelay, toolexec.NextWaitAndRetry},
			w{toolexec.ClassTransient, "BUSY_HERE", toolexec.CategoryDependency, classifyNC, toolexec.RetryAfterDelay, toolexec.NextWaitAndRetry}},
		{"class only", &toolexec.Failure{Class: toolexec.ClassTransient}, away, lost},
		{"class of a newer version", &toolexec.Failure{Class: "eventual", Category: "weather"}, failedR, failedW},
		// An evidence that this version does not know proves nothing.
		{"evidence of a newer version", &toolexec.Failure{Evidence: 42}, failedR, failedW},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				read := classifyRun(t, &x, caseTool{Effect: toolexec.ReadOnly}, row.err)
				write := classifyRun(t, &x, caseTool{}, row.err)
				assert.Equal(t, row.read, classifyWordsOf(read), "read")
				assert.Equal(t, row.write, classifyWordsOf(write), "write")
				assert.ErrorIs(t, write.Err(), row.err, "the cause is kept")
				assert.NotContains(t, write.AgentMessage+read.AgentMessage, "cause")
			})
		})
	}
}

func TestCommittedIsEvidenceToo(t *testing.T) {
	var x toolexec.Executor
	e := classifyRun(t, &x, caseTool{}, &toolexec.Failure{Evidence: toolexec.EvidenceCommitted, Code: toolexec.CodeResultMalformed})
	assert.True(t, e.OK)
	assert.Equal(t, toolexec.Committed, e.CommitState)
	assert.False(t, e.HasResult)
	_, err := e.Value()
	assert.ErrorIs(t, err, toolexec.ErrNoResult)
}

func TestInvalidNamesFields(t *testing.T) {
	for _, row := range []struct{ field, pointer, message string }{
		{"cents", "/cents", "at most 100"}, {"/a/0/b", "/a/0/b", ""}, {"", "", "the dates overlap"},
	} {
		var x toolexec.Executor
		e := classifyRun(t, &x, caseTool{}, toolexec.Invalid(row.field, row.message))
		assert.Equal(t, []toolexec.FieldError{{Pointer: row.pointer, Rule: "check", Expected: row.message}}, e.FieldErrors)
		if row.field == "" {
			assert.Empty(t, e.SafeDetails)
		} else {
			assert.Equal(t, toolexec.Details{toolexec.DetailField: row.field}, e.SafeDetails)
		}
	}
}

func TestFailuresMayChooseTheNextActionWhereNothingHappened(t *testing.T) {
	for _, row := range []struct {
		next      toolexec.NextAction
		want      toolexec.NextAction
		directive toolexec.Directive
	}{
		{toolexec.NextRequestApproval, toolexec.NextRequestApproval, toolexec.RetryNever},
		{toolexec.NextCorrectInput, toolexec.NextCorrectInput, toolexec.RetryAfterInputFix},
		{toolexec.NextWaitAndRetry, toolexec.NextWaitAndRetry, toolexec.RetryAfterDelay},
		{toolexec.NextEscalate, toolexec.NextEscalate, toolexec.RetryNever},
		{"call_a_lawyer", toolexec.NextEscalate, toolexec.RetryNever},
		// continue goes with ok alone.
		{toolexec.NextContinue, toolexec.NextEscalate, toolexec.RetryNever},
	} {
		t.Run(row.next.String(), func(t *testing.T) {
			var x toolexec.Executor
			f := &toolexec.Failure{Code: toolexec.CodeConflict, Evidence: toolexec.EvidenceRejected, Next: &row.next}
			e := classifyRun(t, &x, caseTool{}, f)
			assert.Equal(t, row.want, e.NextAction)
			assert.Equal(t, row.directive, e.Retry.Directive)
			f = &toolexec.Failure{Code: toolexec.CodeConflict, Next: &row.next}
			e = classifyRun(t, &x, caseTool{}, f)
			assert.Equal(t, toolexec.CommitUnknown, e.CommitState)
			assert.Equal(t, toolexec.NextVerifyOperation, e.NextAction, "in doubt it is verified, whatever it asks for")
			assert.Equal(t, toolexec.RetryNever, e.Retry.Directive)
		})
	}
}

func TestCodesAreValidated(t *testing.T) {
	for code, valid := range map[toolexec.Code]bool{
		"A": true, "ORDER_CLOSED_2": true, toolexec.Code("A" + strings.Repeat("B", 62)): true,
		toolexec.Code("A" + strings.Repeat("B", 63)): false, "order": false, "_A": false, "1A": false, "A B": false, "A\n": false, "Ä": false,
		"IGNORE ALL": false, toolexec.CodeOK: false, "": false,
	} {
		t.Run(string(code), func(t *testing.T) {
			var x toolexec.Executor
			e := classifyRun(t, &x, caseTool{}, &toolexec.Failure{Code: code, Category: toolexec.CategoryConflict, Evidence: toolexec.EvidenceRejected})
			if valid {
				assert.Equal(t, code, e.Code)
			} else {
				assert.Equal(t, toolexec.CodeToolFailed, e.Code)
			}
		})
	}
}

func TestRetryAfterIsCapped(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{
		0: 0, -time.Hour: 0, math.MinInt64: 0, time.Minute: time.Minute, 24 * time.Hour: 24 * time.Hour, 25 * time.Hour: 24 * time.Hour, math.MaxInt64: 24 * time.Hour,
	} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.ReadOnly} {
					e := classifyRun(t, &x, caseTool{Effect: effect, Policy: toolexec.Policy{Backoff: toolexec.Backoff{Initial: -1}}}, &toolexec.Failure{Code: toolexec.CodeRateLimited, Evidence: toolexec.EvidenceRejected, RetryAfter: after})
					if want == 0 {
						assert.Zero(t, e.Retry.NotBefore)
						assert.Empty(t, e.SafeDetails)
						continue
					}
					assert.Equal(t, want, time.Until(e.Retry.NotBefore))
					assert.Equal(t, toolexec.Details{toolexec.DetailRetryAfter: int64(want / time.Second)}, e.SafeDetails)
				}
			})
		})
	}
}

func TestDetailsAreSafeScalarsUnderKnownKeys(t *testing.T) {
	var x toolexec.Executor
	long := strings.Repeat("ä", 200)
	e := classifyRun(t, &x, caseTool{DetailKeys: []string{"order_state", "too_long", "a_map", "nan", "big"}}, &toolexec.Failure{
		Code: toolexec.CodeConflict, Evidence: toolexec.EvidenceRejected, AgentMessage: "The order is closed.", UserMessage: "It is closed.",
		Details: toolexec.Details{
			"order_state": "closed", "other": "x", toolexec.DetailPartial: true, "too_long": long, "a_map": map[string]int{"a": 1},
			"nan": math.NaN(), "big": uint64(math.MaxUint64), toolexec.DetailNote: errors.New("x"), toolexec.DetailResourceVersion: 7,
		},
	})
	assert.Equal(t, toolexec.Details{
		"order_state": "closed", toolexec.DetailPartial: true, "too_long": long[:256], "big": uint64(math.MaxUint64), toolexec.DetailResourceVersion: 7,
	}, e.SafeDetails)
	assert.Contains(t, e.AgentMessage, "The order is closed.")
	assert.Equal(t, "It is closed.", e.UserMessage)
}

func TestErrorsMeanIsAboutPlainErrorsAlone(t *testing.T) {
	plain := errors.New("insufficient funds")
	for _, row := range []struct {
		name  string
		err   error
		state toolexec.CommitState
	}{
		{"plain", plain, classifyNC},
		{"wrapped", fmt.Errorf("posting: %w", plain), classifyNC},
		{"two plain", errors.Join(plain, errors.New("closed")), classifyNC},
		{"closed", io.EOF, classifyUnk},
		{"timeout", os.ErrDeadlineExceeded, classifyUnk},
		{"deadline", fmt.Errorf("posting: %w", context.DeadlineExceeded), classifyUnk},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, classifyUnk},
		{"plain and closed", errors.Join(plain, io.EOF), classifyUnk},
		{"closed and plain", fmt.Errorf("%w: %w", io.EOF, plain), classifyUnk},
		{"in doubt", toolexec.InDoubt(plain), classifyUnk},
		{"transient", toolexec.Transient(plain), classifyUnk},
		{"cancelled", context.Canceled, classifyUnk},
		{"wrapped cancel", &url.Error{Op: "Post", URL: "x", Err: context.Canceled}, classifyUnk},
		{"plain and cancelled", errors.Join(plain, context.Canceled), classifyUnk},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				assert.Equal(t, row.state, classifyRun(t, &x, caseTool{ErrorsMean: toolexec.EvidenceRejected}, row.err).CommitState)
				assert.Equal(t, classifyUnk, classifyRun(t, &x, caseTool{}, row.err).CommitState, "without the declaration")
			})
		})
	}
	t.Run("the caller cancels after sending", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			tool := execTool("w", toolexec.Write, func(ctx context.Context) error {
				<-ctx.Done() // sent, and waiting for the answer
				return &url.Error{Op: "Post", URL: "x", Err: ctx.Err()}
			})
			tool.ErrorsMean = toolexec.EvidenceRejected
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			time.AfterFunc(time.Second, cancel)
			e := caseChecked(t, toolexec.Bind(&x, tool).Call(ctx, execOrder))
			assert.Equal(t, toolexec.CodeCancelled, e.Code)
			assert.Equal(t, classifyUnk, e.CommitState)
			assert.Equal(t, toolexec.NextVerifyOperation, e.NextAction)
		})
	})
	t.Run("crashes", func(t *testing.T) {
		for name, end := range map[string]func(){"panic": func() { panic(plain) }, "Goexit": runtime.Goexit} {
			var x toolexec.Executor
			tool := execTool(name, toolexec.Write, func(context.Context) error { end(); return nil })
			tool.ErrorsMean = toolexec.EvidenceRejected
			assert.Equal(t, classifyUnk, caseChecked(t, toolexec.Bind(&x, tool).Call(t.Context(), execOrder)).CommitState)
		}
	})
}

// classifyAs is a classifier that knows one error, and notes what it is asked.
func classifyAs(known error, code toolexec.Code, asked *[]string) toolexec.Classifier {
	return func(err error) (toolexec.Failure, bool) {
		if asked != nil {
			*asked = append(*asked, string(code)+" about "+err.Error())
		}
		if err == known { //nolint:errorlint // it is asked about each error of the tree
			return toolexec.Failure{Code: code, Category: toolexec.CategoryConflict, Evidence: toolexec.EvidenceRejected}, true
		}
		return toolexec.Failure{Code: "NOT_MEANT"}, false
	}
}

func TestClassifiersAreAskedInOrder(t *testing.T) {
	mine, other := errors.New("mine"), errors.New("other")
	var asked []string
	x := toolexec.Executor{Classifiers: []toolexec.Classifier{classifyAs(mine, "EXECUTOR", &asked), classifyAs(io.EOF, "EXECUTOR_EOF", &asked)}}
	tool := caseTool{Classifiers: []toolexec.Classifier{classifyAs(other, "FIRST", &asked), classifyAs(other, "SECOND", &asked)}}
	for _, row := range []struct {
		name string
		err  error
		code toolexec.Code
	}{
		{"the tool's first", other, "FIRST"},
		{"the executor's", mine, "EXECUTOR"},
		{"before the ladder", io.EOF, "EXECUTOR_EOF"},
		{"the ladder is last", io.ErrUnexpectedEOF, toolexec.CodeOutcomeUnknown},
		{"nobody", errors.New("?"), toolexec.CodeToolFailed},
		{"what the tool states is not asked about", toolexec.Rejected("OWN", mine), "OWN"},
		{"wrapped", fmt.Errorf("a: %w", mine), "EXECUTOR"},
		{"joined, all known", errors.Join(mine, other), "EXECUTOR"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := classifyRun(t, &x, tool, row.err)
				assert.Equal(t, row.code, e.Code)
				assert.ErrorIs(t, e.Err(), row.err)
			})
		})
	}
	asked = nil
	classifyRun(t, &x, tool, fmt.Errorf("outer: %w", errors.Join(other, fmt.Errorf("inner: %w", mine))))
	assert.Equal(t, []string{
		"FIRST about outer: other\ninner: mine", "SECOND about outer: other\ninner: mine", "EXECUTOR about outer: other\ninner: mine", "EXECUTOR_EOF about outer: other\ninner: mine",
		"FIRST about other\ninner: mine", "SECOND about other\ninner: mine", "EXECUTOR about other\ninner: mine", "EXECUTOR_EOF about other\ninner: mine",
		"FIRST about other",
		"FIRST about inner: mine", "SECOND about inner: mine", "EXECUTOR about inner: mine", "EXECUTOR_EOF about inner: mine",
		"FIRST about mine", "SECOND about mine", "EXECUTOR about mine",
	}, asked, "once for each error of the tree, outermost first")
}

func TestClassifierThatCrashesDoesNotKnow(t *testing.T) {
	boom := errors.New("boom")
	for name, crash := range map[string]toolexec.Classifier{
		"panic":     func(error) (toolexec.Failure, bool) { panic(caseSecret) },
		"nil panic": func(error) (toolexec.Failure, bool) { panic(nil) }, //nolint:govet // the point
		"Goexit":    func(error) (toolexec.Failure, bool) { runtime.Goexit(); return toolexec.Failure{}, true },
		"nil":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := toolexec.Executor{Classifiers: []toolexec.Classifier{classifyAs(boom, "KNOWN", nil)}}
				tool := caseTool{Classifiers: []toolexec.Classifier{crash}}
				e := classifyRun(t, &x, tool, boom)
				assert.Equal(t, toolexec.Code("KNOWN"), e.Code, "the next one is asked")
				caseClean(t, e)
				assert.Equal(t, toolexec.CodeToolFailed, classifyRun(t, &x, tool, errors.New("?")).Code)
			})
		})
	}
}

func TestLeastCertainOfJoinedErrorsWins(t *testing.T) {
	notSent, inDoubt := toolexec.NotSent(nil), toolexec.InDoubt(nil)
	rejected := toolexec.Rejected(toolexec.CodeConflict, nil)
	committed := &toolexec.Failure{Code: toolexec.CodeResultMalformed, Evidence: toolexec.EvidenceCommitted}
	plain := errors.New("plain")
	for _, row := range []struct {
		name  string
		errs  []error
		state toolexec.CommitState
		code  toolexec.Code
	}{
		{"not sent, not sent", []error{notSent, notSent}, classifyNC, toolexec.CodeDependencyUnavailable},
		{"not sent, rejected", []error{notSent, rejected}, classifyNC, toolexec.CodeConflict},
		{"not sent, in doubt", []error{notSent, inDoubt}, classifyUnk, toolexec.CodeOutcomeUnknown},
		{"not sent, plain", []error{notSent, plain}, classifyUnk, toolexec.CodeToolFailed},
		{"rejected, closed", []error{rejected, io.EOF}, classifyUnk, toolexec.CodeOutcomeUnknown},
		{"committed, in doubt", []error{committed, inDoubt}, classifyUnk, toolexec.CodeOutcomeUnknown},
		{"committed, rejected", []error{committed, rejected}, toolexec.Committed, toolexec.CodeOK},
		{"none but nil", []error{nil, nil, notSent}, classifyNC, toolexec.CodeDependencyUnavailable},
		{"deep", []error{notSent, fmt.Errorf("a: %w", errors.Join(notSent, fmt.Errorf("b: %w", inDoubt)))}, classifyUnk, toolexec.CodeOutcomeUnknown},
	} {
		for _, reverse := range []bool{false, true} {
			t.Run(fmt.Sprint(row.name, "/", reverse), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var x toolexec.Executor
					errs := append([]error(nil), row.errs...)
					if reverse {
						for i, err := range row.errs {
							errs[len(errs)-1-i] = err
						}
					}
					for _, err := range []error{errors.Join(errs...), classifyTreeErrors(errs), fmt.Errorf("x: %w", classifyTreeErrors(errs))} {
						e := classifyRun(t, &x, caseTool{}, err)
						assert.Equal(t, row.state, e.CommitState)
						assert.Equal(t, row.code, e.Code)
					}
				})
			})
		}
	}
	var x toolexec.Executor
	assert.Equal(t, classifyUnk, classifyRun(t, &x, caseTool{}, classifyTreeErrors{nil}).CommitState, "a tree of nothing says nothing")
	assert.Equal(t, classifyUnk, classifyRun(t, &x, caseTool{}, classifyTreeErrors{}).CommitState)
}

// classifyTreeErrors joins errors, and may hold nil; it cannot be compared.
type classifyTreeErrors []error

func (e classifyTreeErrors) Error() string   { return fmt.Sprintf("%d errors", len(e)) }
func (e classifyTreeErrors) Unwrap() []error { return e }

func TestEvidenceOfARequestIsEvidenceOfAnAttemptThatMakesOne(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, row := range []struct {
		name          string
		err           error
		one, anything toolexec.CommitState
	}{
		{"dial", dial, classifyNC, classifyUnk},
		{"wrapped dial", &url.Error{Op: "Post", URL: "x", Err: dial}, classifyNC, classifyUnk},
		{"DNS", &net.DNSError{IsNotFound: true}, classifyNC, classifyUnk},
		{"stated", toolexec.NotSent(dial), classifyNC, classifyNC},
		{"two dials", errors.Join(dial, dial), classifyNC, classifyUnk},
		{"dial and closed", errors.Join(dial, io.EOF), classifyUnk, classifyUnk},
		{"dial and stated", errors.Join(dial, toolexec.NotSent(nil)), classifyNC, classifyUnk},
		{"read", &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, classifyUnk, classifyUnk},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				assert.Equal(t, row.one, classifyRun(t, &x, caseTool{OneRequest: true}, row.err).CommitState)
				assert.Equal(t, row.anything, classifyRun(t, &x, caseTool{}, row.err).CommitState)
				assert.Equal(t, classifyNC, classifyRun(t, &x, caseTool{Effect: toolexec.ReadOnly}, row.err).CommitState)
			})
		})
	}
}

// classifyCrashingError is an error whose methods end otherwise than by returning.
type classifyCrashingError struct{ unwrap func() error }

func (e *classifyCrashingError) Error() string { return "crashing" }
func (e *classifyCrashingError) Unwrap() error { return e.unwrap() }

func TestBrokenErrorsAreAnswered(t *testing.T) {
	var nilFailure *toolexec.Failure
	var nilURL *url.Error
	var nilOp *net.OpError
	for _, row := range []struct {
		name string
		err  error
	}{
		{"nil Failure", nilFailure},
		{"wrapped nil Failure", fmt.Errorf("a: %w", error(nilFailure))},
		{"nil url.Error", nilURL},
		{"nil net.OpError", nilOp},
		{"Unwrap panics", &classifyCrashingError{func() error { panic(caseSecret) }}},
		{"wrapped, Unwrap panics", fmt.Errorf("a: %w", &classifyCrashingError{func() error { panic(caseSecret) }})},
		{"Unwrap exits", &classifyCrashingError{func() error { runtime.Goexit(); return nil }}},
	} {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.ReadOnly} {
			t.Run(row.name+"/"+effect.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var x toolexec.Executor
					var e toolexec.Envelope[caseReceipt]
					answered := false
					var wg sync.WaitGroup
					wg.Go(func() { // so that an error whose Unwrap exits cannot end the test
						e = classifyRun(t, &x, caseTool{Effect: effect}, row.err)
						answered = true
					})
					wg.Wait()
					require.True(t, answered, "one envelope per call, always")
					assert.Equal(t, toolexec.CodeToolFailed, e.Code)
					assert.Equal(t, effect == toolexec.Write, e.CommitState == classifyUnk)
					if strings.Contains(row.name, "exits") {
						return
					}
					// The methods of the cause are not let out through ours.
					assert.NotPanics(t, func() { caseClean(t, e) })
					assert.NotPanics(t, func() { _ = e.Err().Error() })
					if nilFailure == row.err { //nolint:errorlint // that one is ours
						assert.NotPanics(t, func() { _ = errors.Is(e.Err(), io.EOF) }, "a nil Failure does not break the chain of our own error")
					}
				})
			})
		}
	}
}
