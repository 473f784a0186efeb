package toolexectest

import (
	"context"
	"reflect"
	"strings"

	"github.com/toolexec/toolexec"
)

// WrapLookup returns the look-up of a [toolexec.Verifier] with the faults of p
// around it. What a fault is to a tool it is to a look-up:
//
//	FailRequest(err)               it is down
//	DelayAnswer(d)                 it is slow
//	Hang(d)                        it hangs, whatever its context says
//	DropAnswer()                   it never answers
//	PanicRequest(v)                it panics
//	Lie(toolexec.NoEffect)         it finds nothing: too early, or on a lagging copy
//	Lie(toolexec.FoundEffect)      it finds what is not there
//	Lie(toolexec.OtherEffect)      it finds another effect, or several
//	Lie(nil)                       it cannot tell
//
// Beside a Finding[Out], a fault's Result may be a [toolexec.Verdict], which is a
// finding without a result. It panics as [Wrap] does.
func WrapLookup[In, Out any](
	p *Plan, lookup func(ctx context.Context, ref string, in In) (toolexec.Finding[Out], error),
) func(ctx context.Context, ref string, in In) (toolexec.Finding[Out], error) {
	type question struct {
		ref string
		in  In
	}
	ask := Wrap(p, func(ctx context.Context, q question) (toolexec.Finding[Out], error) { return lookup(ctx, q.ref, q.in) })
	return func(ctx context.Context, ref string, in In) (toolexec.Finding[Out], error) {
		return ask(ctx, question{ref, in})
	}
}

// resultAs is a fault's Result as a result of the function that it befalls.
func resultAs[Out any](v any) (out Out, ok bool) {
	if out, ok = v.(Out); ok {
		return out, true
	}
	verdict, ok := v.(toolexec.Verdict)
	if ok = ok && isFinding(reflect.TypeFor[Out]()); ok {
		reflect.ValueOf(&out).Elem().FieldByName("Verdict").Set(reflect.ValueOf(verdict))
	}
	return out, ok
}

func isFinding(t reflect.Type) bool {
	return t.PkgPath() == reflect.TypeFor[toolexec.Record]().PkgPath() && strings.HasPrefix(t.Name(), "Finding[")
}
