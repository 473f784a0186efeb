package toolexec

import (
	"context"
	"slices"
	"time"
)

// recoverySteps: a pass that starts nothing, but settles what nobody calls for
// any more.
func (k *checker) recoverySteps(w *ckWorld) {
	r := w.record
	m := &k.tool.machine
	now := ckTime(w.now)
	if r.State == StateInFlight && leaseOver(r, now) {
		k.step(w, -1, "recovery takes the owner for lost", func(n *ckWorld) {
			in := intent{key: r.Key, fingerprint: r.Fingerprint, repeat: true, nonce: "r"}
			_ = k.update(n, "begin", func(r *Record) error { k.rules.begin(m, r, &in, now); return nil })
		})
	}
	if r.State == StateUnknown && k.cfg.verify && !r.NextCheckAt.Time().After(now) {
		k.step(w, -1, "recovery looks it up", func(n *ckWorld) {
			l := &lookup{verdict: NoEffect, started: now}
			if n.effects > 0 {
				l.verdict = FoundEffect
			}
			_ = k.update(n, "look-up", func(r *Record) error { k.rules.verified(m, r, l, now); return nil })
		})
	}
}

// leaderSteps is Supervisor.advance in process i: it has listed the record, and
// loads it.
func (k *checker) leaderSteps(w *ckWorld, i int) {
	l := &w.leaders[i]
	switch l.phase {
	case ckIdle:
		if k.due(w) {
			k.step(w, i, "its supervisor loads it", func(n *ckWorld) {
				n.leaders[i] = ckSupervisor{phase: ckBegins, record: k.read(n)}
				if !k.stale() {
					k.advance(n, i)
				}
			})
		}
	case ckBegins:
		k.step(w, i, "its supervisor goes on", func(n *ckWorld) { k.advance(n, i) })
	case ckAsks:
		k.leaderLooks(w, i)
	case ckAnswered:
		k.step(w, i, "its supervisor stores what it found", func(n *ckWorld) { k.applyLeader(n, i) })
	}
}

// due is what Recover lists.
func (k *checker) due(w *ckWorld) bool {
	s := Supervisor{Executor: k.x}
	if k.cfg.rerun {
		s.Rerun = func(Record) bool { return true }
	}
	q := Query{States: s.dueStates(), DueBefore: At(ckTime(w.now).Add(1))}
	return q.Matches(w.record)
}

// advance decides as call.advance does.
func (k *checker) advance(w *ckWorld, i int) {
	l := &w.leaders[i]
	c, now := k.leading(w, i), ckTime(w.now)
	ahead := l.record.cloneHead()
	lost := k.tool.reclaim(&ahead, now)
	resend := !k.cfg.drops && k.rules.resends(&k.tool.machine, &ahead, &c.intent, now)
	switch {
	case ahead.State == StateUnknown && k.tool.verifiable && (ahead.Verification == nil || !resend):
		l.phase, l.started = ckAsks, w.now
		return
	case resend, !k.cfg.drops && (l.record.State == StateReleased || l.record.State == StateAwaitingApproval):
		k.runAgain(w, i)
		return
	case !lost && ahead.State != StateUnknown:
		w.never = true
		return
	}
	k.leaderStores(w, i, func(r *Record) {
		if r.State == StateUnknown {
			k.rules.handOver(&k.tool.machine, r, now)
			if r.State == StateEscalated && k.mayStillHappen(w) {
				w.breaks("L7: it is given to a person while an attempt of it can still take effect")
			}
		}
	})
}

// runAgain is call.runAgain: the process's worker runs it, on nobody's behalf.
func (k *checker) runAgain(w *ckWorld, i int) {
	wk, l := &w.workers[i], &w.leaders[i]
	if wk.phase != ckIdle || w.reruns == 0 {
		w.never = true
		return
	}
	w.reruns--
	wk.phase, wk.input, wk.record, wk.resumed = ckBegins, k.inputOf(l.record), l.record, true
	*l = ckSupervisor{}
	if !k.stale() {
		k.begin(w, i)
	}
}

// mayStillHappen: something travels, or can still be sent.
func (k *checker) mayStillHappen(w *ckWorld) bool {
	return slices.ContainsFunc(w.sessions, func(s ckSession) bool {
		return slices.ContainsFunc(s.tries, func(a ckAttempt) bool {
			sends := !s.dead && a.phase != phaseEnded && a.sent == ckUnsent && w.now < s.lease
			return sends || a.sent == ckTravels
		})
	})
}

func (k *checker) inputOf(r *Record) int {
	return slices.IndexFunc(k.cfg.inputs, func(in ckInput) bool { return in.fingerprint() == r.Fingerprint })
}

// leading is the call that a supervisor makes of the record.
func (k *checker) leading(w *ckWorld, i int) *call {
	l := &w.leaders[i]
	c := &call{operation: &operation{resumed: true}, x: k.x, t: k.tool, caller: context.Background(), key: Key{Ref: "op"}}
	c.saw(l.record)
	c.clock, c.seen = ckTime(w.now), time.Now()
	in := &k.cfg.inputs[k.inputOf(l.record)]
	c.intent = intent{fingerprint: in.fingerprint(), digest: in.json, approval: in.approval}
	return c
}

func (k *checker) leaderLooks(w *ckWorld, i int) {
	sees := func(text string, v Verdict, failed bool) {
		k.step(w, i, "its supervisor's look-up "+text, func(n *ckWorld) {
			l := &n.leaders[i]
			l.phase, l.verdict, l.probeLost = ckAnswered, v, failed
			if !k.stale() {
				k.applyLeader(n, i)
			}
		})
	}
	if w.effects > 0 {
		sees("finds the effect", FoundEffect, false)
	}
	if w.effects == 0 || k.cfg.lagging {
		sees("finds nothing", NoEffect, false)
	}
	if k.cfg.probes {
		sees("fails", CannotTell, true)
	}
}

// applyLeader is what call.verifyDue stores.
func (k *checker) applyLeader(w *ckWorld, i int) {
	l := &w.leaders[i]
	found := &lookup{verdict: l.verdict, failed: l.probeLost, started: ckTime(l.started)}
	k.leaderStores(w, i, func(r *Record) {
		k.rules.verified(&k.tool.machine, r, found, ckTime(w.now))
		r.Unheard = r.State == StateCommitted && k.rules.background
	})
}

// leaderStores is the library's own change: reclaim and what was found in one
// compare-and-swap, on the newest record.
func (k *checker) leaderStores(w *ckWorld, i int, apply func(*Record)) {
	c := k.leading(w, i)
	w.leaders[i] = ckSupervisor{}
	k.as(w, "recover", func() {
		if err := k.rules.change(c, apply); err != nil {
			w.breaks("the supervisor cannot store: %v", err)
		}
	})
}
