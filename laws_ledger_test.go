package toolexec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/toolexec/toolexec"
)

// What the ledger, which sees both sides, demands of each run of a tool.

// dispatch notes the beginning of a tool's function and checks what must hold before it.
func (w *lawsWorld) dispatch(ctx context.Context, spec *lawsSpec, p *lawsProcess, in lawsIn) *lawsDispatch {
	intent := w.intent(in.Intent)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	intent.dispatches++
	d := &lawsDispatch{
		seq: w.seq, name: fmt.Sprintf("run%d.%d", in.Intent, intent.dispatches), intent: intent, spec: spec, proc: p, call: lawsCallOf(ctx, in.Intent), actor: lawsActorOf(ctx), key: lawsKey{Scope: intent.scope, Ref: toolexec.OperationRef(ctx)},
		identity: spec.identity(in), rng: w.stream(fmt.Sprintf("run%d.%d", in.Intent, intent.dispatches)), started: time.Now(),
	}
	w.log("p%d: dispatch %d of %s, intent %d, ref %s, attempt %d", p.n, d.seq, spec.name, in.Intent, d.key.Ref, toolexec.Attempt(ctx))
	if d.key.Ref == "" {
		w.broken("L1", "a tool that writes runs without an operation ref")
	}
	if scope := toolexec.Scope(ctx); scope != d.key.Scope {
		w.broken("L1", "dispatch %d of %s runs in scope %q instead of %q", d.seq, d.key.Ref, scope, d.key.Scope)
	}
	w.mayRetry(ctx, p)
	if rec, err := w.base.Load(context.Background(), d.key); err == nil {
		d.nonce = rec.Nonce
		w.mayResend(d, &rec)
	}
	w.mayDispatch(d, in)
	w.dispatches[d.key] = append(w.dispatches[d.key], d)
	return d
}

// mayRetry: an attempt that follows another of the same call is one of those that the process has a budget for. Called with
// mu held.
func (w *lawsWorld) mayRetry(ctx context.Context, p *lawsProcess) {
	b := w.cfg.budget
	if b.Burst == 0 || toolexec.Attempt(ctx) < 2 {
		return
	}
	perSecond := max(b.PerSecond, 0)
	if b.PerSecond == 0 {
		perSecond = float64(b.Burst) / 10
	}
	if p.retries++; float64(p.retries) > float64(b.Burst)+perSecond*time.Since(p.began).Seconds()+1e-6 {
		w.broken("L5", "p%d retries for the %dth time in %v", p.n, p.retries, time.Since(p.began))
	}
}

// mayResend: an Idempotent tool whose remote side may have forgotten the ref is as good as a Write.
func (w *lawsWorld) mayResend(d *lawsDispatch, rec *toolexec.Record) {
	if d.spec.dedupe == 0 || w.now().Sub(rec.CreatedAt.Time()) <= d.spec.dedupe+w.cfg.slack() {
		return
	}
	for _, earlier := range w.dispatches[d.key] {
		if w.unproven(earlier) {
			w.broken("L1", "dispatch %d of %s although dispatch %d is not proven without effect, and its ref is forgotten", d.seq, d.key.Ref, earlier.seq)
		}
	}
}

// mayDispatch is called with mu held.
func (w *lawsWorld) mayDispatch(d *lawsDispatch, in lawsIn) {
	for _, earlier := range w.dispatches[d.key] {
		if d.spec.effect == toolexec.Write && w.unproven(earlier) {
			w.broken("L1", "dispatch %d of %s although dispatch %d is not proven without effect", d.seq, d.key.Ref, earlier.seq)
		}
	}
	w.allowance[d.key]++
	if n := w.allowance[d.key]; d.spec.lifetime > 0 && n > d.spec.lifetime {
		w.broken("L5", "dispatch %d of %s is number %d of %d", d.seq, d.key.Ref, n, d.spec.lifetime)
	}
	if t := w.notBefore[d.key]; time.Until(t) > w.cfg.slack() {
		w.broken("L5", "dispatch %d of %s is %v before not_before", d.seq, d.key.Ref, time.Until(t))
	}
	if d.spec.approval {
		w.mayWithApproval(d, in)
	}
	w.mayMint(d)
}

// lawsBeginRetries is how long begin may repeat a Save whose end was unclear: the approval was spent in its time, by the
// first of them.
const lawsBeginRetries = 100 * time.Millisecond

// mayWithApproval: a person allowed exactly these arguments, and the approval was not spent.
func (w *lawsWorld) mayWithApproval(d *lawsDispatch, in lawsIn) {
	raw, _ := json.Marshal(in)
	for _, a := range w.approvals[d.key] {
		begun := slices.ContainsFunc(a.used, func(u *lawsDispatch) bool { return u.call == d.call && u.actor == d.actor }) // within its time
		if a.args != string(raw) || !begun && w.now().Sub(a.until) > w.cfg.slack()+lawsBeginRetries || a.spent() {
			continue
		}
		a.used, d.approval = append(a.used, d), a
		return
	}
	w.broken("L5", "dispatch %d of %s without an approval", d.seq, d.key.Ref)
}

func (a *lawsApproval) spent() bool {
	for _, d := range a.used {
		if !d.unsent && (!d.spec.marks || d.marked) {
			return true
		}
	}
	return false
}

// mayMint: what was open when the call began, and still is, is continued instead of started anew.
func (w *lawsWorld) mayMint(d *lawsDispatch) {
	if d.call == nil || !d.call.unnamed() || d.call.ref != "" && d.intent.plural { // there may be equal ones side by side
		return
	}
	if _, continued := d.call.open[d.key]; continued {
		return
	}
	for key, nonce := range d.call.open {
		r, err := w.base.Load(context.Background(), key)
		if err == nil && r.IsOpen() && r.Nonce == nonce {
			w.broken("L1", "dispatch %d under the new %s although %s is %s, unheard %t", d.seq, d.key.Ref, key.Ref, r.State, r.Unheard)
		}
	}
}

// unproven reports whether d may have an effect as far as anybody can know: neither the tool, nor a look-up after the
// settle window, nor a person said that it has none. Called with mu held.
func (w *lawsWorld) unproven(d *lawsDispatch) bool {
	if d.proven || d.resolved || d.spec.marks && !d.marked {
		return false
	}
	last := d.ended
	switch {
	case d.proc.dead(), last.IsZero() && w.cfg.leased && w.cfg.faulty():
		last = d.started // its lease settles it, some time after
	case last.IsZero():
		return true
	}
	for _, l := range w.lookups[d.key] {
		if l.absent && d.spec.authoritative && !l.started.Before(last.Add(d.spec.settle-w.cfg.slip())) {
			return false
		}
	}
	return true
}

// ended notes the end of a tool's function, by whatever way.
func (w *lawsWorld) ended(d *lawsDispatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d.ended = time.Now()
	w.log("p%d: dispatch %d ends: proven %t, unsent %t, effect %t", d.proc.n, d.seq, d.proven, d.unsent, d.effect)
}

// the network -------------------------------------------------------------------

// send hands d's request to the network. effect says what comes of it.
func (w *lawsWorld) send(d *lawsDispatch, effect bool, delay time.Duration) {
	if d.proc.mute() {
		w.locked(func() { w.log("p%d: dispatch %d is dead and sends nothing", d.proc.n, d.seq) })
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d.sentAt = time.Now()
	w.log("p%d: dispatch %d sends: effect %t after %v", d.proc.n, d.seq, effect, delay)
	if !effect {
		return
	}
	d.effect = true
	d.visible = delay + time.Duration(d.rng.Int64N(int64(w.lag(d)-delay)+1))
	if d.rng.IntN(2) == 0 || !w.cfg.has(d.name, ".lag") {
		d.visible = delay
	}
	w.denied(d)
	if delay == 0 {
		w.land(d)
		return
	}
	w.wires.Go(func() {
		time.Sleep(delay)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.land(d)
	})
}

// lag is how long after it was sent a look-up may not show an effect yet: what the tool declares includes a slip of the clock.
func (w *lawsWorld) lag(d *lawsDispatch) time.Duration { return d.spec.settle - w.cfg.slip() }

// land makes the effect, unless the remote side knows the ref already. Called with mu held.
func (w *lawsWorld) land(d *lawsDispatch) {
	d.landed = true
	before := 0
	for _, other := range w.dispatches[d.key] {
		if other != d && other.landed && other.effect {
			before++
		}
	}
	if d.spec.effect == toolexec.Idempotent && before > 0 {
		w.log("dispatch %d lands and is a duplicate", d.seq)
		w.meet("a duplicate that the remote side knows")
		return
	}
	d.intent.effects++
	w.log("dispatch %d lands: effect %d of intent %d", d.seq, d.intent.effects, d.intent.id)
	if before > 0 {
		w.broken("L1", "%s has %d effects", d.key.Ref, before+1)
	}
	if d.intent.effects > 1 && !d.intent.plural {
		w.broken("L1", "intent %d has %d effects", d.intent.id, d.intent.effects)
	}
}

// hasEffect reports whether the ledger has one now. Called with mu held.
func (w *lawsWorld) hasEffect(key lawsKey, identity string) bool {
	for _, d := range w.dispatches[key] {
		if d.landed && d.effect && (identity == "" || d.identity == identity) {
			return true
		}
	}
	return false
}
