package toolexec_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/toolexec/toolexec"
)

// tools ---------------------------------------------------------------------------

// bind makes the tools of one process.
func (w *lawsWorld) bind(p *lawsProcess) {
	for _, spec := range w.cfg.tools {
		t := toolexec.Tool[lawsIn, any]{
			Name: spec.name, Effect: spec.effect, Policy: spec.policy, MarksSent: spec.marks, OneRequest: spec.oneRequest,
			Cooperative: spec.cooperative, Unverifiable: spec.unverifiable, DedupeWindow: spec.dedupe,
			VerificationTool: "look_up",
			Run:              func(ctx context.Context, in lawsIn) (any, error) { return w.run(ctx, spec, p, in) },
			Check: func(in lawsIn) error {
				if i := w.intent(in.Intent); i == nil {
					return errors.New(lawsCanary + "-check")
				}
				return nil
			},
		}
		if spec.plainRejects {
			t.ErrorsMean = toolexec.EvidenceRejected
		}
		if spec.ignoresNote {
			t.IgnoreFields = []string{"/note"}
		}
		if spec.stringsOnly {
			t.OutputSchema = json.RawMessage(`{"type":"string","maxLength":1000}`)
		}
		if spec.ref {
			t.Ref = func(in lawsIn) string {
				if i := w.intent(in.Intent); i.poison {
					panic(lawsCanary + "-ref")
				}
				return fmt.Sprint("order ", in.Intent)
			}
		}
		if spec.approval {
			t.Approval = &toolexec.Approval[lawsIn]{TTL: 10 * time.Minute}
		}
		if spec.verified {
			t.Verify = &toolexec.Verifier[lawsIn, any]{
				Settle: spec.settle, Authoritative: spec.authoritative, Confirm: spec.confirm,
				Lookup: func(ctx context.Context, ref string, in lawsIn) (toolexec.Finding[any], error) {
					return w.lookup(ctx, spec, ref, in)
				},
			}
		}
		if t.DropArguments = spec.drops; spec.seals {
			t.Seal = func(raw []byte) ([]byte, error) { return lawsTurned(raw), nil }
			t.Open = func(raw []byte) ([]byte, error) { return lawsTurned(raw), nil }
		}
		p.tools[spec.name] = toolexec.Bind(p.x, t)
	}
	if w.cfg.supervised {
		toolexec.BindVerifyOperation(p.x)
	}
}

func (w *lawsWorld) run(ctx context.Context, spec *lawsSpec, p *lawsProcess, in lawsIn) (any, error) {
	if !spec.writes() {
		return w.read(ctx, spec, p, in)
	}
	d := w.dispatch(ctx, spec, p, in)
	defer w.ended(d)
	return w.act(ctx, d)
}

// pause waits as the tool does: one that obeys its context returns false at its end.
func (d *lawsDispatch) pause(ctx context.Context, dur time.Duration) bool {
	if dur <= 0 {
		return true
	}
	if !d.spec.obeysContext {
		time.Sleep(dur)
		return true
	}
	t := time.NewTimer(dur)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fails returns an error with a canary that the observer must be shown.
func (w *lawsWorld) fails(d *lawsDispatch, format string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	d.canary = fmt.Sprintf("%s-%d.", lawsCanary, d.seq)
	w.canaries = append(w.canaries, d.canary)
	return fmt.Errorf(format+": %s password=hunter2", d.canary)
}

func (w *lawsWorld) proves(d *lawsDispatch, unsent bool) {
	w.locked(func() { d.proven, d.unsent = true, unsent })
}

// act is a tool's function: prepare, mark, send, answer.
func (w *lawsWorld) act(ctx context.Context, d *lawsDispatch) (any, error) {
	r := d.rng
	slow := lawsPick(r, 0, 0, 0, 0, 10*time.Millisecond, 300*time.Millisecond, 2200*time.Millisecond, w.cfg.hang)
	if slow > 0 && w.cfg.has(d.name, ".slow") && !d.pause(ctx, slow) {
		return nil, w.interrupted(ctx, d)
	}
	if d.spec.nests && r.IntN(2) == 0 && w.cfg.has(d.name, ".nested") {
		w.nested(ctx, d)
	}
	if r.IntN(5) == 0 && w.cfg.has(d.name, ".early") {
		if out, over, err := w.early(d); over {
			return out, err
		}
	}
	if d.spec.marks || d.spec.asksMark {
		if err := toolexec.MarkSent(ctx); err != nil {
			w.proves(d, true)
			return nil, lawsPick(r, err, fmt.Errorf("sending: %w", err))
		}
		w.marked(d)
		if r.IntN(8) == 0 && w.cfg.has(d.name, ".dial") { // the dial is refused, provably
			toolexec.MarkNotSent(ctx)
			if d.spec.marks || d.spec.oneRequest {
				w.proves(d, true)
			}
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: w.fails(d, "connection refused")}
		}
	}
	if slow = lawsPick(r, 0, 0, 0, 100*time.Millisecond, 3*time.Second); slow > 0 && w.cfg.has(d.name, ".slower") {
		d.pause(ctx, slow)
	}
	return w.request(ctx, d)
}

// interrupted is what an obedient tool returns that has sent nothing.
func (w *lawsWorld) interrupted(ctx context.Context, d *lawsDispatch) error {
	if d.rng.IntN(2) == 0 {
		return ctx.Err() // which proves nothing
	}
	w.proves(d, true)
	return toolexec.NotSent(ctx.Err())
}

// nested calls another tool, as a part of what this one does: its call is like any other, in the scope of the outer one and
// under a ref of its own. Only intents before d's are called, so that nobody waits
// for itself.
func (w *lawsWorld) nested(ctx context.Context, d *lawsDispatch) {
	w.mu.Lock()
	var inner []*lawsIntent
	for _, i := range w.intents[:d.intent.id] {
		if i.scope == d.intent.scope && !i.spec.cooperative && (i.ref != "" || i.spec.ref || !i.spec.writes()) && i.ref != d.key.Ref {
			inner = append(inner, i)
		}
	}
	w.mu.Unlock()
	if len(inner) == 0 {
		return
	}
	c := w.cast.newCall(d.proc, &lawsPlan{intent: lawsPick(d.rng, inner...), note: "a"})
	c.hurried = true
	ctx = context.WithValue(context.WithValue(ctx, lawsActorKey{}, (*lawsActor)(nil)), lawsCallsKey{}, []*lawsCall{c})
	w.locked(func() {
		w.log("p%d: dispatch %d calls intent %d: call %d", d.proc.n, d.seq, c.intent.id, c.id)
		w.meet("a nested call")
	})
	if c.intent.ref != "" {
		c.ref = c.intent.ref
		ctx = toolexec.WithOperationRef(ctx, c.ref)
	}
	e := d.proc.tools[c.intent.spec.name].Call(ctx, c.in)
	lawsAnswered(w.cast, c, &e, 1)
	if e.OperationRef == d.key.Ref {
		w.locked(func() { w.broken("L1", "call %d, which dispatch %d made, has the ref of the outer one", c.id, d.seq) })
	}
}

// marked checks the fence: whoever may send is the last that was let in.
func (w *lawsWorld) marked(d *lawsDispatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d.marked = true
	for _, later := range w.dispatches[d.key] {
		if later.seq > d.seq && later.nonce != d.nonce && d.spec.effect == toolexec.Write {
			w.broken("L1", "dispatch %d of %s may send although dispatch %d came after it", d.seq, d.key.Ref, later.seq)
		}
	}
}

// early ends before anything is sent.
func (w *lawsWorld) early(d *lawsDispatch) (out any, over bool, err error) {
	switch d.rng.IntN(8) {
	case 0, 1:
		w.proves(d, true)
		return nil, true, toolexec.NotSent(w.fails(d, "pool exhausted"))
	case 2:
		if d.spec.oneRequest {
			w.proves(d, true)
		}
		return nil, true, &net.OpError{Op: "dial", Net: "tcp", Err: w.fails(d, "connection refused")}
	case 3:
		w.proves(d, false)
		return nil, true, toolexec.Rejected("OUT_OF_STOCK", w.fails(d, "no stock"))
	case 4:
		panic(w.fails(d, "a crash"))
	case 5:
		if d.spec.cooperative {
			w.locked(func() { w.exits[d.call] = true })
			if d.actor != nil {
				w.locked(func() { d.actor.exited = true })
			}
		}
		runtime.Goexit()
	case 6:
		if d.spec.plainRejects {
			w.proves(d, false)
		}
		return nil, true, w.fails(d, "something")
	}
	return nil, false, nil
}

// request sends and says what came back.
func (w *lawsWorld) request(ctx context.Context, d *lawsDispatch) (any, error) {
	r := d.rng
	short := time.Duration(r.IntN(900)) * time.Millisecond
	long := w.lag(d) / 10 * time.Duration(r.IntN(9))
	switch n := r.IntN(100); {
	case n < 40 || !w.cfg.has(d.name): // answered
		return w.answered(ctx, d, short)
	case n < 50: // the answer is lost
		w.send(d, true, short)
		d.pause(ctx, lawsPick(r, time.Second, 3*time.Second, w.cfg.hang))
		return nil, w.inDoubt(d)
	case n < 60: // it lands late
		w.send(d, true, long)
		return nil, w.inDoubt(d)
	case n < 68: // it is dropped
		w.send(d, false, 0)
		d.pause(ctx, lawsPick(r, 0, 3*time.Second, w.cfg.hang))
		return nil, w.inDoubt(d)
	case n < 74: // a gateway fails after the commit
		w.send(d, true, 0)
		return nil, &toolexec.Failure{Class: toolexec.ClassTransient, Code: toolexec.CodeOutcomeUnknown, Err: w.fails(d, "502")}
	case n < 86:
		return w.rejected(ctx, d, short)
	case n < 90: // accepted
		w.send(d, r.IntN(2) == 0, long)
		return nil, &toolexec.Failure{Code: toolexec.CodeOperationPending, RetryAfter: time.Second, Err: w.fails(d, "202")}
	case n < 95 && !d.spec.oneRequest: // a second request of the same attempt is not sent
		w.send(d, r.IntN(2) == 0, long)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: w.fails(d, "connection refused")}
	}
	return w.markedThenFails(ctx, d)
}

// inDoubt is an error that proves nothing.
func (w *lawsWorld) inDoubt(d *lawsDispatch) error {
	err := w.fails(d, "connection reset")
	switch n := d.rng.IntN(4); {
	case n == 0:
		return toolexec.InDoubt(err)
	case n == 1:
		return toolexec.Transient(err)
	case n == 2 || d.spec.plainRejects:
		return &net.OpError{Op: "read", Net: "tcp", Err: err}
	}
	return err
}

func (w *lawsWorld) rejected(ctx context.Context, d *lawsDispatch, after time.Duration) (any, error) {
	w.send(d, false, 0)
	d.pause(ctx, after)
	w.proves(d, false)
	err := w.fails(d, "refused")
	switch d.rng.IntN(5) {
	case 0:
		f := toolexec.Invalid("note", "another note")
		f.Err = err
		return nil, f
	case 1:
		return nil, toolexec.Rejected(toolexec.CodeInvalidArguments, err)
	case 2:
		f := toolexec.Rejected(toolexec.CodeRateLimited, err)
		f.RetryAfter = lawsPick(d.rng, time.Second, 7*time.Second, time.Minute)
		return nil, f
	case 3:
		if d.spec.plainRejects {
			return nil, err
		}
	}
	return nil, toolexec.Rejected(toolexec.CodeConflict, err)
}

// answered waits for the answer, which proves the effect.
func (w *lawsWorld) answered(ctx context.Context, d *lawsDispatch, after time.Duration) (any, error) {
	if d.spec.confirm && d.rng.IntN(3) == 0 && w.cfg.has(d.name, ".early-answer") { // it answers before it has done, or not, what it says
		w.send(d, d.rng.IntN(2) == 0, after)
		return lawsReceipt(d.key), nil
	}
	w.send(d, true, after)
	if !d.pause(ctx, after+time.Millisecond) {
		return nil, ctx.Err()
	}
	if !w.done(d) { // sent by a dead process
		return nil, w.inDoubt(d)
	}
	w.locked(func() { d.success = !d.spec.confirm })
	odd := d.rng.IntN(20)
	if odd < 5 && !w.cfg.has(d.name, ".result") {
		odd = 5
	}
	switch odd {
	case 0:
		return nil, nil //nolint:nilnil // a result like any other
	case 1:
		return strings.Repeat("x", 300<<10), nil
	case 2:
		return make(chan int), nil
	case 3:
		return map[string]any{"wrong": []int{1}}, nil
	case 4:
		w.locked(func() { d.success = false })
		return lawsCrash{}, nil
	}
	return lawsReceipt(d.key), nil
}

// lawsCrash is a result whose encoding panics.
type lawsCrash struct{}

func (lawsCrash) MarshalJSON() ([]byte, error) { panic(lawsCanary + "-marshal") }

func lawsReceipt(k lawsKey) string { return "receipt of " + k.Scope + "|" + k.Ref }

func (w *lawsWorld) done(d *lawsDispatch) (done bool) {
	w.locked(func() { done = w.hasEffect(d.key, "") })
	return done
}

// markedThenFails knows of the effect and fails afterwards.
func (w *lawsWorld) markedThenFails(ctx context.Context, d *lawsDispatch) (any, error) {
	w.send(d, true, 0)
	if !w.done(d) {
		return nil, w.inDoubt(d)
	}
	w.locked(func() { d.success = true })
	_ = toolexec.MarkCommitted(ctx, lawsReceipt(d.key)) // tried again at the end
	switch d.rng.IntN(4) {
	case 0:
		panic(w.fails(d, "a crash"))
	case 1:
		d.pause(ctx, w.cfg.hang)
		return nil, w.fails(d, "after the commit")
	case 2:
		return nil, toolexec.Transient(w.fails(d, "after the commit"))
	}
	return nil, toolexec.NotSent(w.fails(d, "a confused tool"))
}

// read is a tool that changes nothing.
func (w *lawsWorld) read(ctx context.Context, spec *lawsSpec, p *lawsProcess, in lawsIn) (any, error) {
	c := lawsCallOf(ctx, in.Intent)
	w.mu.Lock()
	c.intent.dispatches++
	name := fmt.Sprintf("run%d.%d", in.Intent, c.intent.dispatches)
	r := w.stream(name)
	w.mayRead(spec, p, c)
	w.mayRetry(ctx, p)
	w.mu.Unlock()
	way := r.IntN(8)
	if way < 7 && !w.cfg.has(name) {
		way = 7
	}
	switch way {
	case 0:
		return nil, errors.New(lawsCanary + "-read")
	case 1:
		return nil, toolexec.Transient(errors.New(lawsCanary + "-read"))
	case 2:
		panic(lawsCanary + "-read")
	case 3:
		time.Sleep(lawsPick(r, time.Second, 3*time.Second, w.cfg.hang))
	case 4:
		return nil, nil //nolint:nilnil // empty
	case 5:
		return nil, &toolexec.Failure{Class: toolexec.ClassTransient, Code: toolexec.CodeRateLimited, RetryAfter: lawsPick(r, time.Second, 20*time.Second)}
	case 6:
		if !spec.cooperative {
			runtime.Goexit()
		}
	}
	return "what was read", nil
}

// lawsHold is what an answer said: not before until.
type lawsHold struct{ said, until time.Time }

// lawsReads names those reads that wait for one another: of a tool, in a scope, by one process.
type lawsReads struct {
	tool, scope string
	proc        *lawsProcess
}

// mayRead: a call does not begin to read before the remote side wants it, as an answer of the same process said. Called with
// mu held.
func (w *lawsWorld) mayRead(spec *lawsSpec, p *lawsProcess, c *lawsCall) {
	until := w.readAfter[lawsReads{spec.name, c.scope, p}]
	if c.try++; c.try == 1 && until.said.Before(c.began) && time.Until(until.until) > 0 {
		w.broken("L5", "call %d reads %s %v before the remote side wants it", c.id, spec.name, time.Until(until.until))
	}
}

// look-ups ------------------------------------------------------------------------

func (w *lawsWorld) lookup(ctx context.Context, spec *lawsSpec, ref string, in lawsIn) (toolexec.Finding[any], error) {
	key, intent := w.lookupKey(spec, ref, in)
	if intent == nil {
		return toolexec.Finding[any]{}, errors.New(lawsCanary + "-lookup: several are meant")
	}
	in.Intent = intent.id
	w.mu.Lock()
	w.mayLookUp(ctx, key)
	intent.lookups++
	r := w.stream("lookup", in.Intent, intent.lookups)
	name := fmt.Sprintf("look%d.%d", in.Intent, intent.lookups)
	started := time.Now()
	found := w.shows(spec, key, started, r, name)
	calm := w.calm
	w.mu.Unlock()
	none := toolexec.Finding[any]{}
	trouble := r.IntN(16)
	if calm || trouble < 9 && !w.cfg.has(name) {
		trouble = 15
	}
	switch trouble {
	case 0:
		return none, errors.New(lawsCanary + "-lookup")
	case 1:
		return none, sql.ErrNoRows
	case 2, 7, 8:
		time.Sleep(lawsPick(r, 300*time.Millisecond, time.Second, 1900*time.Millisecond, 1900*time.Millisecond, 5*time.Second)) // reads first, answers later
	case 3:
		t := time.NewTimer(w.cfg.hang)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return none, ctx.Err()
		case <-t.C:
		}
	case 4:
		panic(lawsCanary + "-lookup")
	case 5:
		runtime.Goexit()
	case 6:
		if r.IntN(6) == 0 {
			return none, toolexec.Rejected(toolexec.CodePermissionDenied, errors.New(lawsCanary))
		}
		if found && r.IntN(2) == 0 {
			return toolexec.Conflicting[any](), nil
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log("look-up of %s, begun at %v: found %t", ref, started.Sub(w.begin), found)
	w.lookups[key] = append(w.lookups[key], lawsLookup{started, !found})
	if !found {
		return toolexec.Absent[any](), nil
	}
	if r.IntN(4) == 0 && w.cfg.has(name, ".bare") {
		return toolexec.FoundEffectOnly[any](), nil
	}
	return toolexec.Found[any](lawsReceipt(key)), nil
}

// lookupKey names the operation that is looked up; nil where the record keeps no arguments, and the ref alone does not
// tell.
func (w *lawsWorld) lookupKey(spec *lawsSpec, ref string, in lawsIn) (lawsKey, *lawsIntent) {
	if in.Secret != "" {
		intent := w.intent(in.Intent)
		return lawsKey{Scope: intent.scope, Ref: ref}, intent
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var meant *lawsDispatch
	for key, list := range w.dispatches {
		for _, d := range list {
			if key.Ref == ref && d.spec == spec {
				if meant != nil && meant.key != key {
					return lawsKey{}, nil
				}
				meant = d
			}
		}
	}
	if meant == nil {
		return lawsKey{}, nil
	}
	return meant.key, meant.intent
}

// lawsTurned is a secret that is its own opening.
func lawsTurned(raw []byte) []byte {
	out := bytes.Clone(raw)
	for i := range out {
		out[i] ^= 0x55
	}
	return out
}

// shows is what a look-up reads: an effect may be hidden until the settle window has passed; for ever, where the
// verifier is not authoritative. Called with mu held.
func (w *lawsWorld) shows(spec *lawsSpec, key lawsKey, now time.Time, r *rand.Rand, name string) bool {
	if !spec.authoritative && r.IntN(2) == 0 && w.cfg.has(name, ".blind") {
		return false
	}
	for _, d := range w.dispatches[key] {
		if d.landed && d.effect && !now.Before(d.sentAt.Add(d.visible)) {
			return true
		}
	}
	return false
}
