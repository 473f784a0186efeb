package main

import (
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// fault is what the page lets befall an attempt.
type fault struct {
	value, label, says string
	make               func(l *lab, deadline time.Duration) toolexectest.Fault
}

// The faults of the call itself, before there is an attempt.
const (
	faultBadArguments = "bad-arguments"
	faultWrongName    = "wrong-name"
)

// What services say when they fail. No word of it reaches a model or a person
// through an envelope.
var (
	errRefused = toolexec.NotSent(&net.OpError{
		Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 443}, Err: syscall.ECONNREFUSED,
	})
	errBusy    = refused(toolexec.CodeDependencyUnavailable, "503: the pool of db-3 is full")
	errDenied  = refused(toolexec.CodePermissionDenied, "403: the token of svc-7 lacks refunds.write")
	errMissing = refused(toolexec.CodeEmptyResult, "404: nothing in shard 12")
	errInvalid = refused(toolexec.CodeInvalidArguments, "422: limit_7 is exceeded")
	errBroken  = errors.New("502: gw-2 closed the connection")
)

func refused(code toolexec.Code, says string) error {
	f := toolexec.Rejected(code, errors.New(says))
	if code == toolexec.CodeInvalidArguments {
		f.Class = toolexec.ClassMalformed
	}
	return f
}

// faults are every class of failure, and every point around the commit: a
// heading says where.
var faults = []struct {
	where string
	what  []fault
}{
	{"No fault", []fault{
		{"none", "none", "Everything works.", just(toolexectest.OK())},
	}},
	{"The model's call", []fault{
		{faultBadArguments, "malformed arguments", "The model writes a number where the schema wants a text.", just(toolexectest.OK())},
		{faultWrongName, "unknown tool", "The model misspells the tool's name.", just(toolexectest.OK())},
	}},
	{"Before the request arrives", []fault{
		{"not-sent", "connection refused", "The dial fails, so nothing can have been sent.", just(toolexectest.FailRequest(errRefused))},
		{"outage", "outage of 3 s", "For three seconds every dial fails.", outage},
		{"request-lost", "request lost", "The request never arrives, and nothing comes back.", just(toolexectest.DropRequest())},
		{"request-slow", "slow request", "The request travels for half the deadline, and arrives.", requestSlow},
		{"request-late", "effect after the deadline", "The request is on its way when the attempt gives up, and arrives all the same.", requestLate},
		{"hang", "hang, then a late effect", "The tool ignores its deadline, sends after it, and hears that it worked.", hang},
		{"error-before", "error, no effect", "The way breaks before the service acts; the error does not say so.", just(toolexectest.FailRequest(errBroken))},
		{"panic-before", "panic, no effect", "The tool's own code panics before it sends.", just(toolexectest.PanicRequest(panicValue))},
	}},
	{"The service refuses", []fault{
		{"refused-transient", "transient: busy", "The service did nothing, and may do it later.", just(toolexectest.FailRequest(errBusy))},
		{"rate-limited", "transient: rate limited", "The service did nothing, and says when to come again: 1 s later.", rateLimited},
		{"refused-permanent", "permanent: not allowed", "The service does not do it for this caller.", just(toolexectest.FailRequest(errDenied))},
		{"nothing-found", "empty result", "There is nothing for these arguments.", just(toolexectest.FailRequest(errMissing))},
		{"refused-malformed", "malformed: invalid value", "The service checks more than the schema, and refuses the arguments.", just(toolexectest.FailRequest(errInvalid))},
	}},
	{"After the effect", []fault{
		{"answer-lost", "answer lost", "It happened, and the acknowledgement never comes.", just(toolexectest.DropAnswer())},
		{"answer-slow", "slow answer", "It happened, and the answer comes within the deadline.", answerSlow},
		{"answer-late", "answer after the deadline", "It happened, and the tool obeys its deadline before the answer comes.", answerLate},
		{"hang-after", "late result", "It happened, and the tool waits past its deadline until it hears so.", hangAfter},
		{"error-after", "error after the effect", "It happened, and then the way breaks, with the same error as if it had not.", just(toolexectest.FailAnswer(errBroken))},
		{"panic-after", "panic after the effect", "It happened, and then the tool's own code panics.", just(toolexectest.PanicAnswer(panicValue))},
		{"exit-after", "Goexit after the effect", "It happened, and then the tool ends its goroutine.", just(toolexectest.ExitAnswer())},
	}},
	{"What no error shows", []fault{
		{"empty-answer", "empty answer", "It happened, and the answer is empty.", just(toolexectest.EmptyAnswer())},
		{"lie", "a success that is none", "The service says yes and does nothing; only a look-up after each success (Verifier.Confirm) could tell.", just(toolexectest.Lie(nil))},
		{"duplicate", "delivered twice", "The network delivers one request twice; only a service that knows the ref again can tell.", just(toolexectest.Duplicate(1))},
	}},
}

const panicValue = "index out of range [3] with length 3"

// just is a fault in which no time passes that a plan could say.
func just(f toolexectest.Fault) func(*lab, time.Duration) toolexectest.Fault {
	return func(*lab, time.Duration) toolexectest.Fault { return f }
}

// afterwards is how long it takes what comes after the deadline.
func afterwards(deadline time.Duration) time.Duration { return deadline + deadline/2 }

func outage(l *lab, _ time.Duration) toolexectest.Fault {
	return toolexectest.Outage(l.short(3*time.Second), toolexectest.FailRequest(errRefused))
}

func requestSlow(_ *lab, deadline time.Duration) toolexectest.Fault {
	return toolexectest.DelayRequest(deadline / 2)
}

func requestLate(_ *lab, deadline time.Duration) toolexectest.Fault {
	return toolexectest.DelayRequest(afterwards(deadline))
}

func hang(_ *lab, deadline time.Duration) toolexectest.Fault {
	return toolexectest.Hang(afterwards(deadline))
}

func rateLimited(l *lab, _ time.Duration) toolexectest.Fault {
	return toolexectest.RateLimited(l.short(time.Second))
}

func answerSlow(_ *lab, deadline time.Duration) toolexectest.Fault {
	return toolexectest.DelayAnswer(deadline / 2)
}

func answerLate(_ *lab, deadline time.Duration) toolexectest.Fault {
	return toolexectest.DelayAnswer(afterwards(deadline))
}

func hangAfter(_ *lab, deadline time.Duration) toolexectest.Fault {
	return toolexectest.Fault{Answer: toolexectest.Leg{Hang: afterwards(deadline)}}
}

// faultOptions are the faults, to choose from.
func faultOptions() (out []option) {
	for _, group := range faults {
		for _, f := range group.what {
			out = append(out, option{Value: f.value, Label: f.label, Says: f.says, Group: group.where})
		}
	}
	return out
}

// script is the faults of a plan's attempts.
func (p plan) script(l *lab) *toolexectest.Plan {
	var struck toolexectest.Fault
	for _, group := range faults {
		for _, f := range group.what {
			if f.value == p.fault {
				struck = f.make(l, l.short(duration(p.deadline)))
			}
		}
	}
	return toolexectest.Script(lasting(struck, p.on == onEvery))
}

// lasting makes f befall every attempt of a run, if it is to.
func lasting(f toolexectest.Fault, every bool) toolexectest.Fault {
	if !every || f.String() == toolexectest.OK().String() || f.For > 0 {
		return f
	}
	return toolexectest.Outage(time.Hour, f)
}
