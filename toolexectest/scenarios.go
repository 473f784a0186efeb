package toolexectest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/toolexec/toolexec"
)

// The scenarios of a contract, each told in order.

func (t *trial[In, Out]) validCall() {
	if ref := t.c.Tool.Ref; ref != nil {
		if first := ref(t.c.Valid[0]); first != ref(t.c.Valid[0]) {
			t.breaks("has a Ref that is no pure function: the same input has two refs")
		}
	}
	t.opens()
	for i := range len(t.c.Valid) {
		if i > 0 {
			t.restart()
			t.c.Valid = t.c.Valid[i:]
		}
		env := t.tool(new(Process)).finish()
		if !env.OK {
			t.breaks("answers a valid call with %s", answered(env))
		}
		if t.ran() > 1 {
			t.breaks("ran %d times for one call, and nothing failed", t.ran())
		}
	}
}

// opens checks that a Supervisor gets the arguments that were sealed.
func (t *trial[In, Out]) opens() {
	tool := &t.c.Tool
	if tool.Seal == nil || tool.Open == nil {
		return
	}
	raw := encoded(t.c.Valid[0])
	sealed, err := tool.Seal(bytes.Clone(raw))
	if err == nil {
		sealed, err = tool.Open(sealed)
	}
	if err != nil || !bytes.Equal(sealed, raw) {
		t.breaks("has an Open that does not give back what its Seal was given")
	}
}

// answered says what matters of an answer.
func answered[Out any](e toolexec.Envelope[Out]) string {
	return fmt.Sprintf("%s (%s, %s)", e.Code, e.CommitState, e.NextAction)
}

func (t *trial[In, Out]) callByName() {
	r := t.tool(new(Process))
	env := r.finish()
	named := r.x.Execute(t.ctx, toolexec.Call{Name: r.bound.Name(), OperationRef: trialRef, Arguments: encoded(t.c.Valid[0])})
	switch {
	case named.Code == toolexec.CodeInvalidArguments:
		t.breaks("refuses its own arguments when it is called by name: %v", named.FieldErrors)
		return
	case !env.OK:
	case !named.OK, t.c.Tool.Effect != toolexec.ReadOnly && !named.Replayed:
		t.breaks("takes the same call by name for another operation, and answers %s", answered(named))
	}
	t.judge(named.CommitState, named.OperationRef)
}

func (t *trial[In, Out]) invalidInput() {
	for i, in := range t.c.Invalid {
		if i > 0 {
			t.restart()
			in = t.c.Invalid[i]
		}
		r := t.tool(new(Process))
		ctx := toolexec.WithRunID(r.callContext(), "contract")
		env := r.call(ctx, in)
		effects := t.c.Total()
		switch {
		case env.Code == toolexec.CodeToolPanic:
			t.breaks("panics on invalid input %d", i+1)
		case env.OK:
			t.breaks("accepts invalid input %d", i+1)
		case env.Code == toolexec.CodeMissingApproval:
			t.breaks("asks a person to approve invalid input %d: judge it in Check", i+1)
		case effects > 0:
			t.breaks("refuses invalid input %d when it has had its effect", i+1)
		case env.NextAction != toolexec.NextCorrectInput:
			t.breaks("answers invalid input %d with %s, which nobody can correct: return toolexec.Invalid, which names the field, instead of a text", i+1, answered(env))
		}
		ran := t.ran()
		if r.call(ctx, in); env.NextAction == toolexec.NextCorrectInput && t.ran() > ran {
			t.breaks("runs again for input %d that was refused and did not change", i+1)
		}
	}
}

func (t *trial[In, Out]) classifiers() {
	for i, c := range t.c.Tool.Classifiers {
		if err := CheckClassifier(c); err != nil {
			t.breaks("has a classifier, number %d, that cannot be believed: %v", i+1, err)
		}
	}
}

func (t *trial[In, Out]) notSent() {
	t.ends(t.tool(new(Process), NotSent()).finish(), true)
}

// ends checks how an operation came to an end, where the library can bring it
// there and may dispatch it twice.
func (t *trial[In, Out]) ends(env toolexec.Envelope[Out], resolvable bool) {
	if !env.OK && resolvable && t.mayRepeat() {
		t.breaks("does not come to an end: the last answer is %s", answered(env))
	}
}

func (t *trial[In, Out]) lostAnswer() {
	r := t.tool(new(Process), FailAnswer(os.ErrDeadlineExceeded))
	env := r.finish()
	if t.c.Tool.Verify != nil && t.c.Tool.Effect == toolexec.Write && (t.c.Total() > 1 || !env.OK) {
		t.breaks("has a Verify that does not find an effect that exists")
	}
	t.ends(env, t.resolvable())
	t.neverBlindly()
}

// neverBlindly: a Write runs again only when a look-up has proved that there is
// no effect.
func (t *trial[In, Out]) neverBlindly() {
	if t.c.Tool.Effect == toolexec.Write && t.c.Tool.Verify == nil && !t.c.Tool.MarksSent && t.ran() > 1 {
		t.breaks("ran %d times, and nobody had looked", t.ran())
	}
}

func (t *trial[In, Out]) lostRequest() {
	env := t.tool(new(Process), FailRequest(io.ErrUnexpectedEOF)).finish()
	if env.OK && t.c.Total() == 0 && t.c.Tool.Verify != nil {
		t.breaks("has a Verify that finds an effect that does not exist")
	}
	t.ends(env, t.resolvable())
}

func (t *trial[In, Out]) crashedAnswer() {
	t.tool(new(Process), PanicAnswer("contract")).finish()
	t.neverBlindly()
}

// caller gives up when the tool begins to run.
func (t *trial[In, Out]) caller() {
	grace := 100 * time.Millisecond
	if t.c.RealTime {
		grace = 2 * time.Second
	}
	run := t.c.Tool.Run
	ctx, giveUp := context.WithCancel(t.ctx)
	defer giveUp()
	t.c.Tool.Run = func(ctx context.Context, in In) (Out, error) {
		giveUp()
		began := time.Now()
		out, err := run(ctx, in)
		if took := time.Since(began); took > grace {
			t.breaks("swallows its context: it ran on for %v when its caller had given up", took.Round(time.Millisecond))
		}
		return out, err
	}
	r := t.tool(new(Process))
	env := r.call(toolexec.WithOperationRef(ctx, trialRef), t.c.Valid[0])
	if env.Code == toolexec.CodeMissingApproval && r.approve(env.OperationRef, time.Hour) {
		env = r.call(toolexec.WithOperationRef(ctx, trialRef), t.c.Valid[0])
	}
	t.end()
	t.judge(env.CommitState, env.OperationRef)
}

func (t *trial[In, Out]) rateLimit() {
	wait := time.Minute
	if t.c.RealTime {
		wait = 50 * time.Millisecond
	}
	r := t.tool(new(Process), RateLimited(wait))
	env := r.approvedCall()
	if !env.OK && (env.CommitState != toolexec.NotCommitted || env.NextAction != toolexec.NextWaitAndRetry && t.mayRepeat()) {
		t.breaks("answers a rate limit with %s", answered(env))
	}
	attempts := r.plan.Attempts()
	if !env.OK && time.Until(env.Retry.NotBefore) > 0 {
		if r.approvedCall(); r.plan.Attempts() > attempts {
			t.breaks("is sent again before the time that the remote side has set")
		}
	}
	t.ends(r.finish(), true)
}

func (t *trial[In, Out]) outage() {
	most := t.c.Tool.Policy.MaxAttempts
	if most == 0 {
		most = toolexec.DefaultMaxAttempts
	}
	r := t.tool(new(Process), Outage(1000*time.Hour, NotSent()))
	env := r.approvedCall()
	for range max(most, 0) {
		if env.NextAction != toolexec.NextWaitAndRetry || t.c.Tool.Effect == toolexec.ReadOnly {
			break
		}
		time.Sleep(time.Until(env.Retry.NotBefore))
		env = r.approvedCall()
	}
	switch {
	case env.CommitState != toolexec.NotCommitted:
		t.breaks("answers an outage with %s", answered(env))
	case t.c.Tool.Effect == toolexec.ReadOnly:
	case most < 0:
		t.breaks("is tried for ever: its Policy.MaxAttempts is negative")
	case env.NextAction != toolexec.NextEscalate:
		t.breaks("is not handed to a person after %d attempts", r.plan.Attempts())
	}
}

func (t *trial[In, Out]) sameRef() {
	r := t.tool(new(Process))
	first := r.finish()
	switch again := r.finish(); {
	case !again.Replayed:
		t.breaks("runs again for an operation that is committed: %s", answered(again))
	case again.HasResult && first.HasResult && !bytes.Equal(encoded(again.Result), encoded(first.Result)):
		t.breaks("has a result that does not come back from JSON as it was")
	}
	if len(t.c.Valid) < 2 || t.c.Tool.Ref != nil {
		return
	}
	if other := r.call(r.callContext(), t.c.Valid[1]); other.OK {
		t.breaks("takes two inputs that differ for one: what JSON does not see, or IgnoreFields leaves out, tells them apart")
	}
}

func (t *trial[In, Out]) duplicate() {
	t.ends(t.tool(new(Process), Duplicate(1)).finish(), true)
}

// memory is what a remote side needs to deduplicate by the ref at the end of the
// time for which it is said to.
func (t *trial[In, Out]) memory() {
	tool := &t.c.Tool
	tool.Policy.MaxRetries = -1
	r := t.tool(new(Process), FailAnswer(os.ErrDeadlineExceeded))
	r.approvedCall()
	within := 30 * 24 * time.Hour // for ever
	if w := tool.DedupeWindow; w > 0 {
		within = w - cmp.Or(max(tool.Policy.Deadline, 0), toolexec.DefaultDeadline) - time.Second
	}
	time.Sleep(within)
	r.finish()
}

func (t *trial[In, Out]) approval() {
	short := time.Second
	if t.c.RealTime {
		short = 50 * time.Millisecond
	}
	r := t.tool(new(Process))
	held := r.call(r.callContext(), t.c.Valid[0])
	if held.Code != toolexec.CodeMissingApproval || t.ran() > 0 {
		t.breaks("is not held for approval: %s", answered(held))
		return
	}
	if again := r.call(r.callContext(), t.c.Valid[0]); again.NextAction != toolexec.NextRequestApproval || t.ran() > 0 {
		t.breaks("runs without its approval")
		return
	}
	if !r.approve(held.OperationRef, short) {
		return
	}
	time.Sleep(short)
	if late := r.call(r.callContext(), t.c.Valid[0]); late.NextAction != toolexec.NextRequestApproval || t.ran() > 0 {
		t.breaks("runs with an approval that has expired: %s", answered(late))
	}
	t.ends(r.finish(), true)
}

func (t *trial[In, Out]) approvalOfAnother() {
	r := t.tool(new(Process))
	held := r.call(r.callContext(), t.c.Valid[0])
	if held.Code != toolexec.CodeMissingApproval || !r.approve(held.OperationRef, time.Hour) {
		return // that is another scenario's
	}
	if r.call(r.callContext(), t.c.Valid[1]); t.ran() > 0 {
		t.breaks("runs one call with the approval of another: what JSON does not see of its input is not approved")
	}
}

// death lets the process die at each point in turn; another takes over.
func (t *trial[In, Out]) death() {
	for i, at := range Points() {
		if i > 0 {
			t.restart()
		}
		p := &Process{At: at}
		began, first := time.Now(), t.tool(p)
		first.approvedCall()
		p.Wait()
		t.expire()
		for _, line := range p.Unfired() {
			t.breaks("the fault of this scenario did not come about: %s", line)
		}
		env := t.tool(new(Process)).finish()
		forgotten := t.c.Tool.DedupeWindow > 0 && t.c.Tool.Verify == nil && time.Since(began) >= t.c.Tool.DedupeWindow
		if !env.OK && (at == BeforeRecord || !forgotten && t.resolvable() && t.mayRepeat()) {
			t.breaks("does not come to an end when its process dies %s: the last answer is %s", at, answered(env))
		}
		t.neverBlindly()
	}
}
