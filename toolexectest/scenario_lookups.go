package toolexectest

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/toolexec/toolexec"
)

// lookups asks the verifier before there is an effect, after it, and about another
// operation.
func (t *trial[In, Out]) lookups() {
	r := t.tool(new(Process))
	t.expectAbsent("an operation that was never called", trialRef)
	env := r.finish()
	if !env.OK {
		return // that is another scenario's
	}
	t.expectFound(env)
	t.expectAbsent("another operation", trialRef+"-another")
}

// ask asks the verifier, and watches the remote side meanwhile.
func (t *trial[In, Out]) ask(ref string) (f toolexec.Finding[Out], err error) {
	ctx, cancel := context.WithTimeout(t.ctx, toolexec.DefaultVerifyDeadline)
	defer cancel()
	was := t.c.Total()
	func() {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("it panicked: %v", v)
			}
		}()
		f, err = t.c.Tool.Verify.Lookup(ctx, ref, t.c.Valid[0])
	}()
	if n := t.c.Total() - was; n != 0 {
		t.breaks("has a look-up with side effects: it had %s", counted(n))
	}
	return f, err
}

func (t *trial[In, Out]) expectAbsent(of, ref string) {
	switch f, err := t.ask(ref); {
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
	f, err := t.ask(env.OperationRef)
	if f.Verdict != toolexec.FoundEffect {
		time.Sleep(t.settle())
		f, err = t.ask(env.OperationRef)
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
