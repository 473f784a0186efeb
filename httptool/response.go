package httptool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolexec/toolexec"
)

// Checker says what an answer means. The zero Checker is ready to use and takes
// the careful meaning wherever a status has two; its fields declare that a
// service means the other one. It is safe for concurrent use.
type Checker struct {
	// NotFoundIsEmpty declares that 404 and 410 mean "nothing for these arguments":
	// EMPTY_RESULT instead of NOT_FOUND.
	NotFoundIsEmpty bool
	// SeeOtherIsSuccess declares that a 303 to an unsafe method says that it was done
	// (post, redirect, get).
	SeeOtherIsSuccess bool
	// UnavailableIsRefusal declares that a 503 always comes from the service itself
	// and means that it did nothing. Proxies make a 503 of a reset after the effect,
	// so without it a write is in doubt.
	UnavailableIsRefusal bool
	// TimeoutIsRefusal declares the same of a 408: the service never got a complete
	// request.
	TimeoutIsRefusal bool

	// DetailMembers are the members of a problem (RFC 9457) that may reach
	// SafeDetails, under their own names and only if their values are numbers,
	// booleans or short tokens (64 bytes of A-Z a-z 0-9 . _ : -). The tool must list
	// them in its DetailKeys.
	DetailMembers []string
	// Problem, if not nil, is shown what an answer means, and may change its code,
	// category, next action and messages by what the problem says. That must not
	// turn what is in doubt into a refusal unless the service documents it.
	Problem func(p Problem, f *toolexec.Failure)
	// Hidden, if not nil, is shown the body of each success, to find the failure of a
	// service that answers everything with 200. What it returns, if not nil, is the
	// answer; an error that is no *toolexec.Failure is UPSTREAM_ERROR and in doubt.
	Hidden func(resp *http.Response, body []byte) error
	// MaxBody bounds what is read of a body here, in bytes. Default 64 KiB. A problem
	// is cut there; a success that Hidden cannot see whole is RESULT_TOO_LARGE.
	MaxBody int64
}

// DefaultMaxProblem is the default of [Checker.MaxBody].
const DefaultMaxProblem = 64 << 10

// CheckResponse is Check of the zero [Checker].
func CheckResponse(resp *http.Response) error { return new(Checker).Check(resp) }

// Check returns nil for a success, whose body is left to the caller; otherwise
// it closes the body and returns a *[ResponseError], which unwraps to the
// *[toolexec.Failure] that the answer means. The failure is one of the request:
// what a refusal says about the whole attempt depends on whether there were others,
// so it counts as proof for a tool that declares OneRequest.
func (c *Checker) Check(resp *http.Response) error {
	a, failed := c.lookUp(resp)
	if !failed {
		return c.hidden(resp)
	}
	defer resp.Body.Close()
	e := &ResponseError{StatusCode: resp.StatusCode, Problem: readProblem(resp, c.max())}
	e.Location, e.Failure = statusLocation(resp), a.failure(resp)
	e.Failure.RetryAfter = waitOf(resp.Header, time.Now())
	e.Failure.Details = c.details(e)
	e.refine(resp)
	if c.Problem != nil {
		c.Problem(e.Problem, e.Failure)
	}
	return e
}

func (c *Checker) max() int64 {
	if c.MaxBody <= 0 {
		return DefaultMaxProblem
	}
	return c.MaxBody
}

func (a answer) failure(resp *http.Response) *toolexec.Failure {
	f := &toolexec.Failure{Code: a.code, Evidence: a.evidence}
	if a.escalate {
		next := toolexec.NextEscalate
		f.Next = &next
	}
	if resp.StatusCode == http.StatusMultiStatus || resp.StatusCode == http.StatusPartialContent {
		f.Details = toolexec.Details{toolexec.DetailPartial: true}
	}
	return f
}

// details adds the allowlisted members.
func (c *Checker) details(e *ResponseError) toolexec.Details {
	d := e.Failure.Details
	for _, name := range c.DetailMembers {
		v, ok := e.Problem.scalar(name)
		if !ok {
			continue
		}
		if d == nil {
			d = make(toolexec.Details)
		}
		d[name] = v
	}
	return d
}

// longReset is how long a quota must be used up for to be no matter of waiting.
const longReset = time.Hour

// refine does what depends on more than the status.
func (e *ResponseError) refine(resp *http.Response) {
	f := e.Failure
	switch code := resp.StatusCode; {
	case code == http.StatusRequestEntityTooLarge && f.RetryAfter > 0: // "temporary", 15.5.14
		f.Code = toolexec.CodeDependencyUnavailable
	case code == http.StatusTooManyRequests && e.Problem.isA("quota-exceeded") && f.RetryAfter >= longReset:
		f.Code = toolexec.CodeQuotaExhausted
	case code >= 400 && code < 500 && e.Problem.isA("idempotency_key_in_use", "idempotency_in_flight"):
		// Another request with this key runs, and it may be our own.
		f.Code, f.Evidence, f.Next = toolexec.CodeOperationInProgress, toolexec.EvidenceInDoubt, nil
	case (code == http.StatusBadRequest || code == http.StatusConflict || code == http.StatusUnprocessableEntity) &&
		e.Problem.isA("idempotency_error", "idempotency_conflict", "idempotency_key_reused"):
		f.Code = toolexec.CodeOperationRefReused
	}
	switch resp.Header.Get("Stripe-Should-Retry") {
	case "true":
		f.Class = toolexec.ClassTransient
		if f.Code == toolexec.CodeInvalidArguments { // which the same arguments would not get past
			f.Code = toolexec.CodeDependencyUnavailable
		}
	case "false":
		if isTransient(f) {
			f.Code = toolexec.CodeUpstreamError
		}
	}
}

// isTransient reports whether the failure's code implies that repeating may help.
func isTransient(f *toolexec.Failure) bool {
	return f.Class == toolexec.ClassTransient || slices.Contains([]toolexec.Code{
		toolexec.CodeOutcomeUnknown, toolexec.CodeDependencyUnavailable, toolexec.CodeDependencyTimeout, toolexec.CodeRateLimited,
		toolexec.CodeOperationPending, toolexec.CodeOperationInProgress, toolexec.CodeResourceLocked,
	}, f.Code)
}

// statusLocation is where an answer says that its outcome will be found.
func statusLocation(resp *http.Response) string {
	for _, name := range []string{"Operation-Location", "Azure-AsyncOperation", "Location"} {
		if v := resp.Header.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// hidden shows a success to the Hidden hook.
func (c *Checker) hidden(resp *http.Response) error {
	if c.Hidden == nil {
		return nil
	}
	body, err := ReadBody(resp, c.max())
	if err == nil {
		resp.Body = io.NopCloser(bytes.NewReader(body))
		if err = c.Hidden(resp, body); err == nil {
			return nil
		}
	}
	e := &ResponseError{StatusCode: resp.StatusCode, Err: err, Failure: &toolexec.Failure{Code: toolexec.CodeUpstreamError}}
	var unread *ResponseError
	var stated *toolexec.Failure
	switch {
	case errors.As(err, &unread): // and what it says is not known
		e.Failure.Code = unread.Failure.Code
	case errors.As(err, &stated):
		e.Failure = stated
	}
	return e
}

// ResponseError is an answer that is no success, or cannot be used. It says what
// that means for its request by its Failure.
type ResponseError struct {
	StatusCode int
	// Failure is what it means. Change it to say more; it is never nil.
	Failure *toolexec.Failure
	// Problem is what the body says of it, for operators and programs.
	Problem Problem
	// Location is where the answer says its outcome will be found: that of a 202, or
	// the target of a redirection. It is the other side's text: resolve it against the
	// request's URL, and check where it leads.
	Location string
	// Err is the cause, where there is one.
	Err error
}

// Error is for operators: it holds text of the other side.
func (e *ResponseError) Error() string {
	s := "httptool: status " + strconv.Itoa(e.StatusCode) + ": " + string(e.Failure.Code)
	if t := strings.TrimSpace(e.Problem.Title + " " + e.Problem.Detail); t != "" {
		s += ": " + strconv.Quote(t)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the failure and the cause.
func (e *ResponseError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Failure}
	}
	return []error{e.Failure, e.Err}
}

// RequestFailure says what the answer means for its request.
func (e *ResponseError) RequestFailure() *toolexec.Failure { return e.Failure }

// ReadBody reads the body of a success up to max bytes and closes it. What cannot
// be read does not undo the success: for an unsafe method the error is evidence
// that the effect exists, since the status is the answer. It is RESULT_TOO_LARGE
// or RESULT_MALFORMED.
func ReadBody(resp *http.Response, maxBytes int64) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	switch {
	case err != nil:
		return nil, unusable(resp, toolexec.CodeResultMalformed, fmt.Errorf("the body broke off after %d bytes: %w", len(body), err))
	case int64(len(body)) > maxBytes:
		return nil, unusable(resp, toolexec.CodeResultTooLarge, fmt.Errorf("the body is longer than %d bytes", maxBytes))
	}
	return body, nil
}

// unusable is a success whose result cannot be had.
func unusable(resp *http.Response, code toolexec.Code, err error) error {
	f := &toolexec.Failure{Code: code}
	if resp.Request != nil && unsafe(resp.Request.Method) {
		f.Evidence = toolexec.EvidenceCommitted
	}
	return &ResponseError{StatusCode: resp.StatusCode, Failure: f, Err: err}
}
