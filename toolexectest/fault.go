package toolexectest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolexec/toolexec"
)

// ErrInjected is the cause of the errors that the faults of this package make
// up.
var ErrInjected = errors.New("toolexectest: injected fault")

// Fault is what befalls one attempt: something on the way there, before the
// wrapped function had its effect, and something on the way back, after it. The
// zero Fault is none. Any combination that makes sense is a Fault; the functions
// below name those that have names.
type Fault struct {
	Request Leg // before the effect
	Answer  Leg // after it

	// Duplicate is how often the request arrives beside the first time, one after
	// another. The first answer counts.
	Duplicate int
	// For is how long the fault lasts: attempts that start within that time of the
	// one that it befalls first meet it too, instead of a step of their own.
	For time.Duration
}

// Leg is how one way fails: by omission, timing, crash or value. The zero Leg
// does not. First the times pass, then at most one of the other fields ends the
// attempt; on the way there the function is then not called.
type Leg struct {
	// Hang holds the attempt that long, whatever its context says.
	Hang time.Duration
	// Delay is how long the message travels. The attempt gives up when its context
	// ends; a request that is on its way then arrives all the same.
	Delay time.Duration

	// Drop loses the message: the attempt waits until its context ends.
	Drop bool
	// Err ends the attempt with an error.
	Err error
	// Panic, if not nil, is what the attempt panics with.
	Panic any
	// Goexit ends the attempt's goroutine.
	Goexit bool
	// Crash, if not nil, is a process that dies here; the attempt ends with
	// [ErrCrashed].
	Crash *Process
	// Empty ends the attempt with the zero result and no error.
	Empty bool
	// Garble ends the attempt with a result of the wrong shape and no error: JSON
	// that breaks off for a [encoding/json.RawMessage], text that is not UTF-8 for a
	// string, a member that nobody knows for a map or an any, the zero result for
	// every other type, which cannot hold a wrong shape.
	Garble bool
	// Huge, if not 0, ends the attempt with a result of at least so many bytes as
	// JSON, and no error: texts and lists in it are made longer. It panics at [Wrap]
	// when the result has no place for them.
	Huge int
	// Result, if not nil, ends the attempt with this result and no error. It must be
	// of the function's result type.
	Result any
}

// OK is no fault.
func OK() Fault { return Fault{} }

// NotSent fails before anything is sent, and says so.
func NotSent() Fault { return FailRequest(toolexec.NotSent(ErrInjected)) }

// DropRequest loses the request: no effect, and no answer until the context
// ends. The literature calls it a send omission.
func DropRequest() Fault { return Fault{Request: Leg{Drop: true}} }

// DropAnswer has the effect and loses the answer: none until the context ends.
// The literature calls it a receive omission, or a lost acknowledgement.
func DropAnswer() Fault { return Fault{Answer: Leg{Drop: true}} }

// DelayRequest has the effect d late: after the attempt, if its context ends
// sooner. See [Plan.Wait].
func DelayRequest(d time.Duration) Fault { return Fault{Request: Leg{Delay: d}} }

// DelayAnswer has the effect at once and answers d later, if the context lets
// it.
func DelayAnswer(d time.Duration) Fault { return Fault{Answer: Leg{Delay: d}} }

// FailRequest ends the attempt with err, without the effect.
func FailRequest(err error) Fault { return Fault{Request: Leg{Err: err}} }

// FailAnswer has the effect and ends the attempt with err.
func FailAnswer(err error) Fault { return Fault{Answer: Leg{Err: err}} }

// Refuse is a refusal of class c by the remote side: nothing changed.
func Refuse(c toolexec.Class) Fault {
	return FailRequest(&toolexec.Failure{Class: c, Evidence: toolexec.EvidenceRejected, Err: ErrInjected})
}

// RateLimited is a refusal by the remote side that says when to come again: d
// later.
func RateLimited(d time.Duration) Fault {
	return FailRequest(&toolexec.Failure{
		Code: toolexec.CodeRateLimited, Evidence: toolexec.EvidenceRejected, RetryAfter: d, Err: ErrInjected,
	})
}

// Hang holds the attempt for d before its effect, whatever its context says.
func Hang(d time.Duration) Fault { return Fault{Request: Leg{Hang: d}} }

// PanicRequest panics with v before the effect.
func PanicRequest(v any) Fault { return Fault{Request: Leg{Panic: v}} }

// PanicAnswer panics with v after the effect.
func PanicAnswer(v any) Fault { return Fault{Answer: Leg{Panic: v}} }

// ExitRequest calls runtime.Goexit before the effect.
func ExitRequest() Fault { return Fault{Request: Leg{Goexit: true}} }

// ExitAnswer calls runtime.Goexit after the effect.
func ExitAnswer() Fault { return Fault{Answer: Leg{Goexit: true}} }

// CrashRequest is the death of p before the effect.
func CrashRequest(p *Process) Fault { return Fault{Request: Leg{Crash: p}} }

// CrashAnswer is the death of p after the effect, before the answer is read.
func CrashAnswer(p *Process) Fault { return Fault{Answer: Leg{Crash: p}} }

// Lie is a success without the effect, with the result v; nil stands for the
// zero result. Of a look-up v may be a [toolexec.Verdict]; see [WrapLookup].
func Lie(v any) Fault {
	if v == nil {
		return Fault{Request: Leg{Empty: true}}
	}
	return Fault{Request: Leg{Result: v}}
}

// EmptyAnswer has the effect and answers with the zero result.
func EmptyAnswer() Fault { return Fault{Answer: Leg{Empty: true}} }

// GarbleAnswer has the effect and answers with a result of the wrong shape; see
// [Leg].
func GarbleAnswer() Fault { return Fault{Answer: Leg{Garble: true}} }

// HugeAnswer has the effect and answers with a result of at least n bytes.
func HugeAnswer(n int) Fault { return Fault{Answer: Leg{Huge: n}} }

// Duplicate delivers the request n times beside the first.
func Duplicate(n int) Fault { return Fault{Duplicate: n} }

// Outage is f for a time: all attempts that start within d of the first that
// meets it meet it too.
func Outage(d time.Duration, f Fault) Fault {
	f.For = d
	return f
}

// String says what the fault does: "answer dropped".
func (f Fault) String() string {
	var words []string
	for _, way := range f.ways() {
		words = append(words, way...)
	}
	if len(words) == 0 {
		return "no fault"
	}
	s := strings.Join(words, ", ")
	if f.For > 0 {
		s += ", for " + f.For.String()
	}
	return s
}

// The ways on which a fault strikes.
const (
	onRequest = iota
	onDelivery
	onAnswer
	numWays
)

// ways says what happens on each way.
func (f *Fault) ways() (out [numWays][]string) {
	out[onRequest] = f.Request.words("request")
	if f.Duplicate > 0 {
		out[onDelivery] = []string{"request duplicated " + strconv.Itoa(f.Duplicate) + " time(s)"}
	}
	out[onAnswer] = f.Answer.words("answer")
	return out
}

// words says what happens on this way.
func (l *Leg) words(way string) (words []string) {
	if l.Hang > 0 {
		words = append(words, way+" hung "+l.Hang.String())
	}
	if l.Delay > 0 {
		words = append(words, way+" delayed "+l.Delay.String())
	}
	for _, end := range l.ends() {
		words = append(words, way+" "+end)
	}
	return words
}

// ends names what ends the attempt on this way.
func (l *Leg) ends() (words []string) {
	for _, end := range []struct {
		is   bool
		word string
	}{
		{l.Drop, "dropped"},
		{l.Err != nil, "failed"},
		{l.Panic != nil, "panicked"},
		{l.Goexit, "exited"},
		{l.Crash != nil, "crashed"},
		{l.Empty, "emptied"},
		{l.Garble, "garbled"},
		{l.Huge != 0, "grown to " + strconv.Itoa(l.Huge) + " bytes"},
		{l.Result != nil, "replaced"},
	} {
		if end.is {
			words = append(words, end.word)
		}
	}
	return words
}

// isViolent: more comes of it than an answer that is lost. An attempt that gave up
// before has not met it.
func (l *Leg) isViolent() bool { return l.Panic != nil || l.Goexit || l.Crash != nil }

func (l *Leg) isZero() bool { return len(l.words("")) == 0 }

// problem says why f cannot be meant.
func (f *Fault) problem() string {
	request, answer := f.Request.ends(), f.Answer.ends()
	switch {
	case len(request) > 1 || len(answer) > 1:
		return "one way can end in one manner only"
	case len(request) > 0 && !f.Answer.isZero():
		return "there is no answer to spoil when the request ends the attempt"
	case len(request) > 0 && f.Duplicate > 0:
		return "a request that does not arrive cannot arrive twice"
	case f.Duplicate < 0:
		return "a request cannot arrive less than once"
	case slices.Min([]time.Duration{f.For, f.Request.Hang, f.Request.Delay, f.Answer.Hang, f.Answer.Delay}) < 0,
		f.Request.Huge < 0, f.Answer.Huge < 0:
		return "a time or a size cannot be negative"
	case f.For > 0 && f.Duplicate == 0 && f.Request.isZero() && f.Answer.isZero():
		return "there is no fault that could last"
	}
	return ""
}
