package toolexec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// what is checked of answers -----------------------------------------------------------------

// lawsTB turns failures of assertions into violations, so that they come with their seed.
type lawsTB struct {
	testing.TB
	w *lawsWorld
}

func (t lawsTB) Errorf(format string, args ...any) {
	t.w.locked(func() { t.w.broken("L4", format, args...) })
}
func (t lawsTB) FailNow() { runtime.Goexit() }
func (t lawsTB) Helper()  {}

// lawsAnswered checks one envelope; c is nil for a call that cannot have run.
func lawsAnswered[T any](r *lawsRun, c *lawsCall, e *toolexec.Envelope[T], in int) *lawsAnswer {
	_, crash := any(e.Result).(lawsCrash)                   // which the checker would encode
	if !crash && (c == nil || !e.Replayed || c.id%4 == 0) { // replays are many and alike
		checkEnvelope(r.t, *e)
	}
	raw, err := json.Marshal(e)
	require.NoError(r.t, err)
	a := &lawsAnswer{}
	require.NoError(r.t, json.Unmarshal(raw, a))
	if c != nil && c.id%8 == 0 {
		lawsWords(r, raw)
	}
	_, isError := e.Observation()
	shown := lawsUnnamed(*e)
	text, _ := shown.Observation()
	wire, err := json.Marshal(shown)
	require.NoError(r.t, err)
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
	if c == nil || c.waits {
		return a
	}
	r.log("call %d: answered %s %s %s %s, ref %s, not before %v", c.id, e.Code, e.CommitState, e.Retry.Directive, e.NextAction, e.OperationRef, e.Retry.NotBefore.Sub(r.begin))
	r.inTime(c, in)
	if c.intent.spec.writes() {
		r.believes(c, a)
		if s, ok := any(e.Result).(string); ok && e.HasResult && strings.HasPrefix(s, "receipt") && s != lawsReceipt(lawsKey{Scope: c.scope, Ref: e.OperationRef}) {
			r.broken("L2", "call %d of %s is answered with the %s", c.id, e.OperationRef, s)
		}
	}
	return a
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
		w.claims = append(w.claims, lawsClaim{key, identity, c.seq, c, fmt.Sprintf("call %d (%s)", c.id, a.Code)})
		w.noteNotBefore(key, a)
	default:
		if _, err := w.base.Load(context.Background(), key); err != nil && lawsHandedRefs && c.unnamed() && c.ref == "" {
			w.broken("L1", "call %d: unknown (%s), and its ref %s names nothing: given again it would start anew", c.id, a.Code, key.Ref)
		}
		read := lawsWaitersRead || a.Code != toolexec.CodeOperationInProgress
		if known && read && !was.unrecorded && !c.hurried && !c.proc.dead() && !w.cfg.faulty() && w.cfg.latency == 0 {
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

// settleClaims: what was said to be not committed is not, now that everything has landed; and the observers were
// shown every cause. Called with mu held.
func (w *lawsWorld) settleClaims() {
	for _, claim := range w.claims {
		for _, d := range w.dispatches[claim.key] {
			meant := d.seq <= claim.before || claim.call != nil && d.call == claim.call && !claim.call.shared
			if meant && d.effect && (claim.identity == "" || d.identity == claim.identity) {
				w.broken("L2", "%s: not_committed, and dispatch %d of %s has an effect", claim.text, d.seq, claim.key.Ref)
			}
		}
	}
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
