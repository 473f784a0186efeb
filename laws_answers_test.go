package toolexec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// what is checked of answers -----------------------------------------------------------------

// lawsTB turns failures of assertions into violations, so that they come with their seed.
type lawsTB struct {
	testing.TB // nil: nothing else is used
	w          *lawsWorld
}

func (t lawsTB) Errorf(format string, args ...any) {
	t.w.locked(func() { t.w.broken("L4", format, args...) })
}
func (t lawsTB) FailNow() { runtime.Goexit() }
func (t lawsTB) Helper()  {}

// lawsAnswered checks one envelope; c is nil for a call that cannot have run.
func lawsAnswered[T any](r *lawsRun, c *lawsCall, e *toolexec.Envelope[T], in int) *lawsAnswer {
	raw, err := json.Marshal(e)
	require.NoError(r.t, err)
	if _, crash := any(e.Result).(lawsCrash); !crash && lawsNewShape(raw, e) { // which the checker would encode
		checkEnvelope(r.t, *e)
		lawsWords(r, raw)
	}
	a := &lawsAnswer{}
	require.NoError(r.t, json.Unmarshal(raw, a))
	_, isError := e.Observation()
	shown, wire := *e, raw
	if len(e.FieldErrors) > 0 {
		shown = lawsUnnamed(*e)
		wire, err = json.Marshal(shown)
		require.NoError(r.t, err)
	}
	text, _ := shown.Observation()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range []string{e.AgentMessage, e.UserMessage, fmt.Sprint(e.SafeDetails), fmt.Sprint(shown.FieldErrors)} {
		if strings.Contains(s, lawsCanary) {
			r.broken("L6", "%s in %q", e.Code, s)
		}
	}
	if !e.OK && (strings.Contains(string(wire), lawsCanary) || strings.Contains(text, lawsCanary) || strings.Contains(shown.Err().Error(), lawsCanary)) {
		r.broken("L6", "%s, %s", raw, text)
	}
	if isError == e.OK {
		r.broken("L4", "ok %t and the error flag %t", e.OK, isError)
	}
	r.meet("code ", a.Code)
	if errors.Is(e.Err(), toolexec.ErrRetryBudget) {
		r.meet("an empty retry budget")
	}
	if e.OK && e.Replayed && !e.HasResult {
		r.meet("a commit without its result")
		if _, err := e.Value(); !errors.Is(err, toolexec.ErrNoResult) {
			r.broken("L2", "a commit without its result has the value of %v", err)
		}
	}
	if c == nil || c.waits {
		return a
	}
	r.log("call %d: answered %s %s %s %s, ref %s, not before %v", c.id, e.Code, e.CommitState, e.Retry.Directive, e.NextAction, e.OperationRef, e.Retry.NotBefore.Sub(r.begin))
	r.inTime(c, in)
	if !c.intent.spec.writes() {
		r.holdReads(c, a)
	} else {
		r.believes(c, a)
		if s, ok := any(e.Result).(string); ok && e.HasResult && strings.HasPrefix(s, "receipt") && s != lawsReceipt(lawsKey{Scope: c.scope, Ref: e.OperationRef}) {
			r.broken("L2", "call %d of %s is answered with the %s", c.id, e.OperationRef, s)
		}
	}
	return a
}

// lawsShapes are the envelopes that were checked, whatever their schedule.
var lawsShapes sync.Map

// lawsNewShape reports whether no envelope was checked yet that differs from this one in its refs and numbers alone: most
// answers are like many before them, and checking one against the schema costs more than the call.
func lawsNewShape[T any](raw []byte, e *toolexec.Envelope[T]) bool {
	shape := bytes.ReplaceAll(raw, []byte(e.OperationRef), []byte("REF"))
	for i, c := range shape {
		if c >= '0' && c <= '9' {
			shape[i] = '0'
		}
	}
	_, known := lawsShapes.LoadOrStore(fmt.Sprintf("%T %s", any(e.Result), shape), true)
	return !known
}

// holdReads: what the remote side said about when to read again holds for the calls that begin now. Called with mu held.
func (w *lawsWorld) holdReads(c *lawsCall, a *lawsAnswer) {
	key := lawsReads{c.intent.spec.name, c.scope, c.proc}
	if hold := w.readAfter[key]; c.try == 0 && hold.said.Before(c.began) && time.Until(hold.until) > 0 {
		w.meet("a read that waits")
	}
	if a.Code == toolexec.CodeRateLimited && a.Retry.NotBefore.After(w.readAfter[key].until) {
		w.readAfter[key] = lawsHold{time.Now(), a.Retry.NotBefore}
	}
}

// lawsUnnamed is e without the member that nonsense makes up, which field_errors name by design.
func lawsUnnamed[T any](e toolexec.Envelope[T]) toolexec.Envelope[T] {
	e.FieldErrors = slices.Clone(e.FieldErrors)
	for i := range e.FieldErrors {
		if f := &e.FieldErrors[i]; f.Pointer == "/"+lawsCanary {
			f.Pointer = "/"
		}
	}
	return e
}

// inTime: an envelope is there within its total deadline, the grace, and bounded bookkeeping. Called with mu held.
func (w *lawsWorld) inTime(c *lawsCall, calls int) {
	p := c.intent.spec.policy
	unbounded := func(s *lawsSpec) bool { return s.cooperative || s.policy.TotalDeadline < 0 }
	if unbounded(c.intent.spec) || calls > 1 && slices.ContainsFunc(w.cfg.tools, unbounded) {
		return
	}
	limit := p.TotalDeadline
	if limit == 0 {
		limit = toolexec.DefaultTotalDeadline
	}
	if calls > 1 { // writes of a batch wait for one another
		limit = time.Duration(calls) * 20 * time.Second
	}
	limit += 10 * time.Millisecond
	if w.cfg.faulty() {
		limit += 100 * time.Millisecond
	}
	if w.cfg.latency > 0 {
		limit += 4 * time.Second
	}
	if took := time.Since(c.began); took > limit {
		w.broken("L4", "call %d took %v", c.id, took)
	}
}

// believes holds an answer against the ledger. Called with mu held.
func (w *lawsWorld) believes(c *lawsCall, a *lawsAnswer) {
	spec := c.intent.spec
	key, identity := lawsKey{Scope: c.scope, Ref: a.OperationRef}, spec.identity(c.in)
	fact := fmt.Sprint(key, identity)
	was, known := w.committed[fact]
	known = known && was.at.Before(c.began)
	switch a.CommitState {
	case toolexec.Committed:
		if !w.hasEffect(key, identity) {
			w.broken("L2", "call %d: committed, the ledger has nothing for %s", c.id, key.Ref)
		}
		if _, dup := w.committed[fact]; !dup {
			w.committed[fact] = lawsFact{time.Now(), a.Unrecorded}
		}
		w.isFinal(key, a.Unrecorded)
		w.confirmed(key, spec)
	case toolexec.NotCommitted:
		if known {
			w.broken("L3", "call %d: %s was committed, now it is not", c.id, key.Ref)
		}
		w.claim(lawsClaim{key, identity, c.seq, c, fmt.Sprintf("call %d (%s)", c.id, a.Code)})
		if !c.proc.dead() {
			w.noteNotBefore(key, a)
		}
	default:
		if _, err := w.base.Load(context.Background(), key); err != nil && c.unnamed() && c.ref == "" && !c.proc.dead() { // whose answers nobody hears
			w.broken("L1", "call %d: unknown (%s), and its ref %s names nothing: given again it would start anew", c.id, a.Code, key.Ref)
		}
		if known && !was.unrecorded && !c.hurried && !c.proc.dead() && !w.cfg.faulty() && w.cfg.latency == 0 {
			w.broken("L3", "call %d: %s was committed, now it is unknown: %s", c.id, key.Ref, a.Code)
		}
	}
}

// noteNotBefore is called with mu held.
func (w *lawsWorld) noteNotBefore(key lawsKey, a *lawsAnswer) {
	if a.Retry.Directive == toolexec.RetryAfterDelay && !a.Unrecorded && !a.Retry.NotBefore.IsZero() {
		w.notBefore[key] = a.Retry.NotBefore
	}
}

// claim keeps what an answer says to have no effect: nothing sent before it has one, now or later. Called with mu held.
func (w *lawsWorld) claim(c lawsClaim) {
	w.claims[c.key] = append(w.claims[c.key], c)
	for _, d := range w.dispatches[c.key] {
		if d.effect {
			w.mayDeny(&c, d)
		}
	}
}

// denied holds an effect that is under way against what was said before. Called with mu held.
func (w *lawsWorld) denied(d *lawsDispatch) {
	for i := range w.claims[d.key] {
		w.mayDeny(&w.claims[d.key][i], d)
	}
}

// mayDeny is called with mu held.
func (w *lawsWorld) mayDeny(c *lawsClaim, d *lawsDispatch) {
	meant := d.seq <= c.before || c.call != nil && d.call == c.call && !c.call.shared
	if meant && (c.identity == "" || d.identity == c.identity) {
		w.broken("L2", "%s: not_committed, and dispatch %d of %s has an effect", c.text, d.seq, c.key.Ref)
	}
}

// shown: the observers were shown every cause. Called with mu held.
func (w *lawsWorld) shown() {
	seen := w.seen.String()
	for _, c := range w.canaries {
		if !strings.Contains(seen, c) {
			w.broken("L6", "no observer was shown %s", c)
		}
	}
}

// lawsWords: words of a newer version are kept, and act as the safe ones; without "ok" nothing is an envelope.
func lawsWords(r *lawsRun, raw []byte) {
	var m map[string]any
	require.NoError(r.t, json.Unmarshal(raw, &m))
	m["commit_state"], m["next_action"] = "half_committed", "dance"
	if retry, ok := m["retry"].(map[string]any); ok {
		retry["directive"] = "at_once"
	}
	newer, err := json.Marshal(m)
	require.NoError(r.t, err)
	var e lawsAnswer
	require.NoError(r.t, json.Unmarshal(newer, &e))
	if e.CommitState.Safe() != toolexec.CommitUnknown || e.NextAction.Safe() != toolexec.NextEscalate || e.Retry.Directive.Safe() != toolexec.RetryNever {
		r.t.Errorf("unknown words are not safe: %s", newer)
	}
	again, err := json.Marshal(e)
	require.NoError(r.t, err)
	require.JSONEq(r.t, string(newer), string(again))
	delete(m, "ok")
	newer, _ = json.Marshal(m)
	require.Error(r.t, json.Unmarshal(newer, &e))
}
