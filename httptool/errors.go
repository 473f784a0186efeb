package httptool

import (
	"errors"
	"io"

	"github.com/toolexec/toolexec"
)

// The ladder of package toolexec asks errors for these behaviours.
var (
	_ interface{ NotSent() bool }                     = (*notSentError)(nil)
	_ interface{ RequestFailure() *toolexec.Failure } = (*doubtError)(nil)
	_ interface{ RequestFailure() *toolexec.Failure } = (*unreadableError)(nil)
	_ interface{ RequestFailure() *toolexec.Failure } = (*ResponseError)(nil)
)

// notSentError is the error of a request that was provably not sent.
type notSentError struct{ cause error }

func (e *notSentError) Error() string        { return ErrNotSent.Error() + ": " + e.cause.Error() }
func (e *notSentError) Unwrap() error        { return e.cause }
func (e *notSentError) Is(target error) bool { return target == ErrNotSent }

// NotSent reports true.
func (e *notSentError) NotSent() bool { return true }

// Timeout is that of the cause, which is how http.Client asks.
func (e *notSentError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.cause, &t) && t.Timeout()
}

// doubtError is the error of a request that may have arrived, whatever else the
// error seems to say: net/http wanted to send it again and was kept from it, or it
// is about something other than the request, such as where the body is read from.
type doubtError struct{ cause error }

func (e *doubtError) Error() string {
	return "httptool: no answer came, and the request may have arrived: " + e.cause.Error()
}
func (e *doubtError) Unwrap() error { return e.cause }

// RequestFailure says what it means.
func (e *doubtError) RequestFailure() *toolexec.Failure { return toolexec.InDoubt(nil) }

// unreadableError is the error of a request whose answer is not HTTP.
type unreadableError struct{ cause error }

func (e *unreadableError) Error() string { return "httptool: unreadable answer: " + e.cause.Error() }
func (e *unreadableError) Unwrap() error { return e.cause }

// RequestFailure says what it means.
func (e *unreadableError) RequestFailure() *toolexec.Failure {
	return &toolexec.Failure{Code: toolexec.CodeResultMalformed}
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
