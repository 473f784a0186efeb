package toolexec

import (
	"slices"
	"time"
)

// the network and the ledger

func (k *checker) networkSteps(w *ckWorld, i, j int) {
	if w.sessions[i].tries[j].sent != ckTravels {
		return
	}
	who := w.sessions[i].worker
	to := func(text string, end ckRequest) {
		k.step(w, who, text, func(n *ckWorld) { n.sessions[i].tries[j].sent = end })
	}
	k.step(w, who, "its request lands", func(n *ckWorld) { k.land(n, i, j) })
	if k.cfg.refuse {
		to("its request is refused by state", ckRefused)
	}
	if k.cfg.invalid && w.sessions[i].input != 1 {
		to("its request is refused for its input", ckInvalid)
	}
}

func (k *checker) land(w *ckWorld, i, j int) {
	s := &w.sessions[i]
	a := &s.tries[j]
	a.sent = ckLanded
	// What was begun within the window may be sent until its lease is over, and
	// arrive after that: the remote side remembers so much longer.
	forgets := w.record.CreatedAt.Time().Add(time.Duration(k.cfg.dedupe+ckLease+ckSettle) * ckTick)
	if k.cfg.effect == Idempotent && w.effects > 0 && (k.cfg.dedupe == 0 || ckTime(w.now).Before(forgets)) {
		return // recognised by its ref
	}
	if a.sealed {
		w.breaks("L2: an attempt takes effect after somebody was told not_committed")
	}
	if w.effects == 0 {
		w.effectOf = s.input
	}
	w.effects++
}

// what an attempt does

func (k *checker) attemptSteps(w *ckWorld, i, j int) {
	s := &w.sessions[i]
	a := &s.tries[j]
	if s.dead || a.phase == phaseEnded {
		return
	}
	inTime := w.now < s.lease
	marked := a.sending == sendMarked || a.mayHaveNil
	if k.cfg.marks && a.sending == sendUnmarked && inTime {
		k.settling(w, s.worker, "marks its send", func(n *ckWorld) { k.mark(n, i, j) })
	}
	if a.sent == ckUnsent && inTime && (marked || !k.cfg.marks || k.rules.sendsUnmarked) {
		k.step(w, s.worker, "sends", func(n *ckWorld) { k.send(n, i, j) })
	}
	if k.cfg.early && a.sent == ckLanded && !a.marked {
		k.step(w, s.worker, "marks its commit", func(n *ckWorld) { // MarkCommitted
			a := &n.sessions[i].tries[j]
			a.marked, a.evidence = true, EvidenceCommitted
			n.sessions[i].answered = n.sessions[i].answered || n.sessions[i].ended
			_ = k.store(n, &n.sessions[i], nil)
		})
	}
	if k.cfg.takeBack && a.sending == sendMarked && a.sent == ckUnsent && inTime {
		k.step(w, s.worker, "takes its mark back", func(n *ckWorld) {
			a := &n.sessions[i].tries[j]
			inv := k.realAttempt(n, k.call(n, s.worker), a)
			inv.markNotSent()
			a.sending, a.mayHaveNil = inv.sending, inv.marks > 0
		})
	}
	k.endSteps(w, i, j)
	if a.phase == phaseRunning && k.cfg.abandon && w.workers[s.worker].phase == ckRuns {
		k.settling(w, s.worker, "is cut at its deadline", func(n *ckWorld) { k.cut(n, i, j) })
	}
}

// mark is invocation.markSent and session.markSent.
func (k *checker) mark(w *ckWorld, i, j int) {
	s := &w.sessions[i]
	err := k.store(w, s, func(r *Record) error {
		if r.State != StateInFlight || r.Nonce != s.nonce() {
			return errOwnerLost
		}
		r.Sent = true
		return nil
	})
	if err == nil {
		s.tries[j].sending, s.tries[j].mayHaveNil = sendMarked, true
		return
	}
	k.end(w, i, j, ckNotSent) // the tool returns that error
}

func (k *checker) send(w *ckWorld, i, j int) {
	s := &w.sessions[i]
	a := &s.tries[j]
	a.sent, a.sentAt = ckTravels, w.now
	if k.cfg.inputs[s.input].approval {
		if !w.granted[s.input] {
			w.breaks("L5: sent without an approval of these arguments that is not spent")
		}
		w.granted[s.input] = false
	}
}

// endSteps: what the tool may return, given what became of its request.
func (k *checker) endSteps(w *ckWorld, i, j int) {
	s := &w.sessions[i]
	ends := func(text string, o ckOutcome) {
		k.settling(w, s.worker, text, func(n *ckWorld) { k.end(n, i, j, o) })
	}
	switch s.tries[j].sent {
	case ckUnsent:
		ends("returns: not sent", ckNotSent)
	case ckLanded:
		if !k.cfg.confirm {
			ends("returns: success", ckSuccess)
		}
	case ckRefused:
		ends("returns: refused by state", ckState)
	case ckInvalid:
		ends("returns: refused for its input", ckInput1)
	case ckTravels, ckVanished:
	}
	if o := s.tries[j].sent; o == ckTravels || o == ckLanded || o == ckVanished {
		ends("returns: no answer", ckDoubt)
		if k.cfg.confirm {
			ends("returns: success, before it has happened", ckUnconfirmed)
		}
	}
}

// settling is a step that may end an attempt. Where no time can pass before its
// owner acts on that, the owner acts in the same step.
func (k *checker) settling(w *ckWorld, i int, text string, change func(*ckWorld)) {
	if k.slow() {
		k.step(w, i, text, change)
		return
	}
	for _, d := range ckDecisions {
		k.step(w, i, text+d.text, func(n *ckWorld) {
			change(n)
			decides := n.workers[i].phase == ckDecides
			switch {
			case n.never || !decides && d.may != nil || decides && d.may != nil && !d.may(k, n, i):
				n.never = true
			case decides:
				d.do(k, n, i)
			}
		})
	}
}

// ckDecision is what an owner does once its attempt is over.
type ckDecision struct {
	text string
	may  func(*checker, *ckWorld, int) bool // nil: always
	do   func(*checker, *ckWorld, int)
}

var ckDecisions = []ckDecision{
	{"", nil, func(k *checker, n *ckWorld, i int) { k.finish(n, i, true, false) }},
	{"; it tries again", (*checker).wouldRetry, (*checker).retry},
	{
		"; it is to wait", func(k *checker, w *ckWorld, i int) bool { return k.cfg.wait && w.workers[i].out == ckState },
		func(k *checker, n *ckWorld, i int) { k.finish(n, i, true, true) },
	},
	{
		"; its end cannot be stored", func(k *checker, w *ckWorld, i int) bool { return k.cfg.outage && w.workers[i].ordinal == 1 },
		func(k *checker, n *ckWorld, i int) { k.finish(n, i, false, false) },
	},
}

// end settles an attempt: for its owner, or as late evidence.
func (k *checker) end(w *ckWorld, i, j int, o ckOutcome) {
	s := &w.sessions[i]
	a := &s.tries[j]
	late := a.phase == phaseCut
	inv := k.realAttempt(w, k.call(w, s.worker), a)
	f := k.failure(o)
	if late && f != nil && inv.evidence == EvidenceNotSent {
		f.Evidence = EvidenceNotSent
	}
	inv.settle(f)
	a.phase, a.sending, a.evidence, a.endsAt = inv.phase, inv.sending, inv.evidence, w.now
	if late {
		s.answered = s.answered || s.ended
		_ = k.store(w, s, nil)
		return
	}
	a.outcome = o
	if f != nil && f.Evidence == EvidenceNotSent {
		a.outcome = ckNotSent
	}
	wk := &w.workers[s.worker]
	wk.phase, wk.out = ckDecides, a.outcome
}

// cut is invocation.cut.
func (k *checker) cut(w *ckWorld, i, j int) {
	s := &w.sessions[i]
	a := &s.tries[j]
	inv := k.realAttempt(w, k.call(w, s.worker), a)
	if !a.marked {
		a.evidence = inv.sentOr(EvidenceInDoubt)
	}
	a.phase, a.sending = phaseCut, sendClosed
	a.outcome = ckDoubt
	if a.evidence == EvidenceNotSent {
		a.outcome = ckNotSent
	}
	wk := &w.workers[s.worker]
	wk.phase, wk.out = ckDecides, a.outcome
}

// people

const ckPerson = "a person "

func (k *checker) peopleSteps(w *ckWorld) {
	by := Statement{Actor: "a", Evidence: "e"}
	m := &k.tool.machine
	says := func(text, event string, change func(*Record) error, then func(*ckWorld)) {
		r := w.record.cloneHead()
		if change(&r) != nil {
			return // refused
		}
		k.step(w, -1, text, func(n *ckWorld) {
			_ = k.update(n, event, change)
			then(n)
		})
	}
	if r := w.record; r.State == StateAwaitingApproval && r.Approval.Decision == "" {
		held := slices.IndexFunc(k.cfg.inputs, func(in ckInput) bool { return in.json == r.Approval.Digest })
		says(ckPerson+"approves", "approve", func(r *Record) error { return m.approve(r, r.Approval.Digest, by, 2*ckTick, ckTime(w.now)) },
			func(n *ckWorld) { n.granted = [4]bool{}; n.granted[held] = true })
		says(ckPerson+"denies", "deny", func(r *Record) error { return m.deny(r, by) }, func(*ckWorld) {})
	}
	if !k.cfg.people {
		return
	}
	now := ckTime(w.now)
	if w.effects > 0 {
		says(ckPerson+"says committed", "resolve", func(r *Record) error { return k.rules.resolve(m, r, Committed, by, now) }, func(*ckWorld) {})
	} else {
		says(ckPerson+"says not committed", "resolve", func(r *Record) error { return k.rules.resolve(m, r, NotCommitted, by, now) },
			func(n *ckWorld) { n.dispatch, n.corrected, n.granted = 0, 0, [4]bool{} })
	}
	says(ckPerson+"reopens", "reopen", func(r *Record) error { return m.reopen(r, by) }, func(n *ckWorld) { n.corrected = 0 })
}
