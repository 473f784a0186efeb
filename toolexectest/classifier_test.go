package toolexectest_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// classifierBankError is an error of a remote side that a correct classifier knows.
type classifierBankError struct{ code int }

func (e *classifierBankError) Error() string { return "the bank refused" }

// classifyBank knows it by its type alone. The chain is walked by the library.
func classifyBank(err error) (toolexec.Failure, bool) {
	e, ok := err.(*classifierBankError) //nolint:errorlint // asked of each error of the chain
	if !ok || e == nil {
		return toolexec.Failure{}, false
	}
	if e.code == 429 {
		return toolexec.Failure{Code: toolexec.CodeRateLimited, Evidence: toolexec.EvidenceRejected, RetryAfter: time.Second}, true
	}
	return toolexec.Failure{Code: "BANK_REFUSED", Evidence: toolexec.EvidenceRejected, Details: toolexec.Details{"field": "iban"}, Err: err}, true
}

var classifierErrs = []error{&classifierBankError{429}, &classifierBankError{1}}

func TestClassifierThatIsCorrect(t *testing.T) {
	assert.NoError(t, toolexectest.CheckClassifier(classifyBank, classifierErrs...))
	toolexectest.RunClassifier(t, classifyBank, classifierErrs...)
	assert.NoError(t, toolexectest.CheckClassifier(func(error) (toolexec.Failure, bool) { return toolexec.Failure{}, false }), "one that knows nothing")
	assert.NoError(t, toolexectest.CheckClassifier(func(err error) (toolexec.Failure, bool) {
		return toolexec.Failure{Class: toolexec.ClassTransient}, errors.Is(err, io.EOF)
	}), "one that knows what repeating helps against")
}

// Each classifier here breaks one law.
func TestClassifiersThatAreWrong(t *testing.T) {
	known := func(f toolexec.Failure) toolexec.Classifier {
		return func(err error) (toolexec.Failure, bool) {
			_, ok := err.(*classifierBankError) //nolint:errorlint // asked of each error of the chain
			return f, ok
		}
	}
	var n atomic.Int64
	var busy atomic.Bool
	cache := map[error]toolexec.Failure{}
	for name, c := range map[string]struct {
		classify toolexec.Classifier
		law      string
		words    string
	}{
		"it panics on nil pointers": {func(err error) (toolexec.Failure, bool) {
			if len(err.Error()) < 1 {
				panic("no text")
			}
			return toolexec.Failure{}, false
		}, "it answers about every error, without a panic", "it panics on a nil *toolexectest.strangeError: no text"},
		"it keeps errors as keys": {func(err error) (toolexec.Failure, bool) {
			f, ok := cache[err]
			return f, ok
		}, "it answers about every error, without a panic", "it panics on the toolexectest.listError"},
		"it counts": {func(err error) (toolexec.Failure, bool) {
			_, ok := err.(*classifierBankError) //nolint:errorlint // asked of each error of the chain
			return toolexec.Failure{RetryAfter: time.Duration(n.Add(1)) * time.Millisecond}, ok
		}, "it says the same of the same error", `of the *toolexectest_test.classifierBankError "the bank refused" it says`},
		"it forgets what it knew": {func(error) (toolexec.Failure, bool) { return toolexec.Failure{}, n.Add(1)%2 == 0 }, "it says the same of the same error", "that it does not know"},
		"a timeout is not sent": {func(err error) (toolexec.Failure, bool) {
			return *toolexec.NotSent(nil), errors.Is(err, context.DeadlineExceeded)
		}, "it takes for a proof only what proves something", `it says not_sent of the context.deadlineExceededError "context deadline exceeded", which may have come after the effect`},
		"a reset is a refusal": {func(err error) (toolexec.Failure, bool) {
			return *toolexec.Rejected(toolexec.CodeUpstreamError, nil), errors.Is(err, io.EOF)
		}, "it takes for a proof only what proves something", `it says rejected of the *errors.errorString "EOF"`},
		"everything is committed": {func(error) (toolexec.Failure, bool) {
			return toolexec.Failure{Evidence: toolexec.EvidenceCommitted}, true
		}, "it takes for a proof only what proves something", "which does not prove an effect"},
		"it reads the text": {func(err error) (toolexec.Failure, bool) {
			return toolexec.Failure{Class: toolexec.ClassTransient}, strings.Contains(err.Error(), "the bank")
		}, "it does not judge by the text of an error", `it knows the *toolexectest_test.classifierBankError "the bank refused", and every other error with that text`},
		"a wrong code":     {known(toolexec.Failure{Code: "bank refused"}), "what it says has words of the contract", `the code "bank refused", which does not match`},
		"the code OK":      {known(toolexec.Failure{Code: toolexec.CodeOK}), "what it says has words of the contract", "the code OK, which is no failure's"},
		"a wrong class":    {known(toolexec.Failure{Class: "temporary"}), "what it says has words of the contract", `the class "temporary", which there is not`},
		"a wrong category": {known(toolexec.Failure{Category: "remote"}), "what it says has words of the contract", `the category "remote", which there is not`},
		"wrong evidence":   {known(toolexec.Failure{Evidence: 9}), "what it says has words of the contract", "evidence 9, which there is not"},
		"a wrong wait":     {known(toolexec.Failure{RetryAfter: -1}), "what it says has words of the contract", "a retry after -1ns: it has to be between 0 and a day"},
		"a wrong action":   {known(toolexec.Failure{Next: new(toolexec.NextAction("retry"))}), "what it says has words of the contract", `the next action "retry", which there is not`},
		"go on":            {known(toolexec.Failure{Next: new(toolexec.NextContinue)}), "what it says has words of the contract", "the next action continue, which goes with a success alone"},
		"a detail's key":   {known(toolexec.Failure{Details: toolexec.Details{"Field": "x"}}), "what it says has words of the contract", `a detail "Field" of type string`},
		"a detail of many": {known(toolexec.Failure{Details: toolexec.Details{"field": []int{1}}}), "what it says has words of the contract", `a detail "field" of type []int`},
		"another cause":    {known(toolexec.Failure{Err: io.EOF}), "what it says keeps the error as its cause", `it keeps the *errors.errorString "EOF" as the cause, which does not wrap it`},
		"it cannot be shared": {func(error) (toolexec.Failure, bool) {
			if !busy.CompareAndSwap(false, true) {
				return toolexec.Failure{Code: "BUSY"}, true
			}
			defer busy.Store(false)
			time.Sleep(time.Microsecond)
			return toolexec.Failure{}, false
		}, "it can be asked concurrently", "when it is asked alone"},
	} {
		t.Run(name, func(t *testing.T) {
			err := toolexectest.CheckClassifier(c.classify, classifierErrs...)
			assert.ErrorContains(t, err, "broken law: "+c.law+": ")
			assert.ErrorContains(t, err, c.words)
		})
	}
}
