package toolexectest

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/toolexec/toolexec"
)

// GoString returns f as the Go expression that makes it: the function that has
// its name, else a literal.
func (f Fault) GoString() string {
	if lasting := f.For; lasting > 0 {
		f.For = 0
		return "toolexectest.Outage(" + goDuration(lasting) + ", " + f.GoString() + ")"
	}
	for _, n := range f.candidates() {
		if reflect.DeepEqual(n.fault, f) { //nolint:govet // deepequalerrors: made alike is what is meant
			return "toolexectest." + n.name
		}
	}
	return f.literal()
}

// candidates are the named faults that f could be.
func (f *Fault) candidates() []named {
	out := []named{
		{"OK()", OK()},
		{"NotSent()", NotSent()},
		{"Conflict()", Conflict()},
		{"DropRequest()", DropRequest()},
		{"DropAnswer()", DropAnswer()},
		{"ExitRequest()", ExitRequest()},
		{"ExitAnswer()", ExitAnswer()},
		{"Lie(nil)", Lie(nil)},
		{"EmptyAnswer()", EmptyAnswer()},
		{"GarbleAnswer()", GarbleAnswer()},
		{"HugeAnswer(" + strconv.Itoa(f.Answer.Huge) + ")", HugeAnswer(f.Answer.Huge)},
		{"Duplicate(" + strconv.Itoa(f.Duplicate) + ")", Duplicate(f.Duplicate)},
		{"Hang(" + goDuration(f.Request.Hang) + ")", Hang(f.Request.Hang)},
		{"DelayRequest(" + goDuration(f.Request.Delay) + ")", DelayRequest(f.Request.Delay)},
		{"DelayAnswer(" + goDuration(f.Answer.Delay) + ")", DelayAnswer(f.Answer.Delay)},
		{"PanicRequest(" + goValue(f.Request.Panic) + ")", PanicRequest(f.Request.Panic)},
		{"PanicAnswer(" + goValue(f.Answer.Panic) + ")", PanicAnswer(f.Answer.Panic)},
		{"Lie(" + goValue(f.Request.Result) + ")", Lie(f.Request.Result)},
	}
	if refusal := new(toolexec.Failure); errors.As(f.Request.Err, &refusal) {
		c, d := refusal.Class, refusal.RetryAfter
		out = append(out,
			named{"Refuse(" + goClass(c) + ")", Refuse(c)},
			named{"RateLimited(" + goDuration(d) + ")", RateLimited(d)})
	}
	return append(out,
		named{"FailRequest(" + goError(f.Request.Err) + ")", FailRequest(f.Request.Err)},
		named{"FailAnswer(" + goError(f.Answer.Err) + ")", FailAnswer(f.Answer.Err)})
}

func (f *Fault) literal() string {
	var fields []string
	if s := f.Request.literal(); s != "" {
		fields = append(fields, "Request: "+s)
	}
	if s := f.Answer.literal(); s != "" {
		fields = append(fields, "Answer: "+s)
	}
	if f.Duplicate != 0 {
		fields = append(fields, "Duplicate: "+strconv.Itoa(f.Duplicate))
	}
	return "toolexectest.Fault{" + strings.Join(fields, ", ") + "}"
}

func (l *Leg) literal() string {
	var fields []string
	for _, field := range []struct {
		set        bool
		name, text string
	}{
		{l.Hang != 0, "Hang", goDuration(l.Hang)},
		{l.Delay != 0, "Delay", goDuration(l.Delay)},
		{l.Drop, "Drop", "true"},
		{l.Err != nil, "Err", goError(l.Err)},
		{l.Panic != nil, "Panic", goValue(l.Panic)},
		{l.Goexit, "Goexit", "true"},
		{l.Crash != nil, "Crash", "process"},
		{l.Empty, "Empty", "true"},
		{l.Garble, "Garble", "true"},
		{l.Huge != 0, "Huge", strconv.Itoa(l.Huge)},
		{l.Result != nil, "Result", goValue(l.Result)},
	} {
		if field.set {
			fields = append(fields, field.name+": "+field.text)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return "toolexectest.Leg{" + strings.Join(fields, ", ") + "}"
}

// goValue writes v with its type, which %#v leaves out of a named number.
func goValue(v any) string {
	s := fmt.Sprintf("%#v", v)
	if t := reflect.TypeOf(v); t != nil && t.PkgPath() != "" && !strings.HasPrefix(s, t.String()) {
		s = t.String() + "(" + s + ")"
	}
	return s
}

// goDuration writes d in the largest unit that keeps it whole.
func goDuration(d time.Duration) string {
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"}, {time.Millisecond, "time.Millisecond"}, {time.Microsecond, "time.Microsecond"}} {
		switch {
		case d == unit.d:
			return unit.name
		case d != 0 && d%unit.d == 0:
			return strconv.FormatInt(int64(d/unit.d), 10) + "*" + unit.name
		}
	}
	return strconv.FormatInt(int64(d), 10)
}

func goClass(c toolexec.Class) string {
	switch c {
	case toolexec.ClassPermanent:
		return "toolexec.ClassPermanent"
	case toolexec.ClassTransient:
		return "toolexec.ClassTransient"
	case toolexec.ClassEmptyResult:
		return "toolexec.ClassEmptyResult"
	case toolexec.ClassMalformed:
		return "toolexec.ClassMalformed"
	case toolexec.ClassUnknownTool:
		return "toolexec.ClassUnknownTool"
	}
	return strconv.Quote(string(c))
}

func goError(err error) string {
	if err == nil {
		return "nil"
	}
	if err == ErrInjected { //nolint:errorlint // itself, not what wraps it
		return "toolexectest.ErrInjected"
	}
	for name, made := range map[string]error{
		"NotSent": toolexec.NotSent(ErrInjected), "Transient": toolexec.Transient(ErrInjected), "InDoubt": toolexec.InDoubt(ErrInjected),
	} {
		if reflect.DeepEqual(err, made) { //nolint:govet // the same
			return "toolexec." + name + "(toolexectest.ErrInjected)"
		}
	}
	return "errors.New(" + strconv.Quote(err.Error()) + ")"
}
