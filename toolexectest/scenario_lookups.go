package toolexectest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/toolexec/toolexec"
)

// lookups asks the verifier before there is an effect, after it, and about another
// operation.
func (t *trial[In, Out]) lookups() {
	r := t.tool(new(Process))
	t.expectAbsent("an operation that was never called", trialRef, t.c.Valid[0])
	env := r.finish()
	if !env.OK {
		return // that is another scenario's
	}
	t.expectFound(env)
	if ref, in, ok := t.another(); ok {
		t.expectAbsent("another operation", ref, in)
	}
}

// another is an operation that was not called. Of a tool with a business key only
// another input makes one.
func (t *trial[In, Out]) another() (ref string, in In, ok bool) {
	key := t.c.Tool.Ref
	if key == nil {
		return trialRef + "-another", t.c.Valid[0], true
	}
	for _, in := range t.c.Valid[1:] {
		if key(in) != key(t.c.Valid[0]) {
			return t.c.Tool.Name + ":" + key(in), in, true
		}
	}
	return "", in, false
}

// ask asks the verifier, and watches the remote side meanwhile.
func (t *trial[In, Out]) ask(ref string, in In) (f toolexec.Finding[Out], err error) {
	ctx, cancel := t.ctx, func() {}
	if d := cmp.Or(t.c.Tool.Verify.Deadline, toolexec.DefaultVerifyDeadline); d > 0 {
		ctx, cancel = context.WithTimeout(ctx, d)
	}
	defer cancel()
	was := t.c.Total()
	func() {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("it panicked: %v", v)
			}
		}()
		f, err = t.c.Tool.Verify.Lookup(ctx, ref, in)
	}()
	if n := t.c.Total() - was; n != 0 {
		t.breaks("has a look-up with side effects: it had %s", counted(n))
	}
	return f, err
}

func (t *trial[In, Out]) expectAbsent(of, ref string, in In) {
	switch f, err := t.ask(ref, in); {
	case err != nil:
		t.breaks("cannot look up %s: %v; return Absent when there is nothing", of, err)
	case f.Verdict == toolexec.FoundEffect:
		t.breaks("has a look-up that finds what is not there: %s is found", of)
	case f.Verdict != toolexec.NoEffect:
		t.breaks("has a look-up that says %s of %s; return Absent when there is nothing", f.Verdict, of)
	}
}

// expectFound asks at once, and once more when the settle window has closed.
func (t *trial[In, Out]) expectFound(env toolexec.Envelope[Out]) {
	in := t.c.Valid[0]
	if t.c.Tool.DropArguments || t.c.Tool.Seal != nil && t.c.Tool.Open == nil {
		in = *new(In) // as a Supervisor asks
	}
	f, err := t.ask(env.OperationRef, in)
	if f.Verdict != toolexec.FoundEffect {
		time.Sleep(t.settle())
		f, err = t.ask(env.OperationRef, in)
	}
	switch {
	case err != nil:
		t.breaks("cannot look up an effect that exists: %v", err)
	case f.Verdict == toolexec.OtherEffect:
		t.breaks("has a look-up that takes the operation's own effect for another's")
	case f.Verdict != toolexec.FoundEffect && t.c.Tool.Verify.Authoritative:
		t.breaks("declares its Verify Authoritative, and it does not find an effect %v after it: it reads a copy that lags", t.settle())
	case f.Verdict != toolexec.FoundEffect:
		t.breaks("has a look-up that does not find an effect %v after it", t.settle())
	case f.HasResult && env.HasResult && !bytes.Equal(encoded(f.Result), encoded(env.Result)):
		t.breaks("has a look-up that finds another result than the tool gave")
	}
}

// settle is the tool's settle window.
func (t *trial[In, Out]) settle() time.Duration {
	if s := t.c.Tool.Verify.Settle; s != 0 {
		return max(s, 0)
	}
	return toolexec.DefaultSettle
}
