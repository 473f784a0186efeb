package toolexec

import "slices"

// the steps ------------------------------------------------------------------

// step offers a copy of w to change.
func (k *checker) step(w *ckWorld, who int, text string, change func(*ckWorld)) {
	n := w.clone()
	change(n)
	if n.never {
		return
	}
	k.judge(n)
	n.sessions = slices.DeleteFunc(n.sessions, func(s ckSession) bool { return s.over() })
	k.emit(ckEvent{who, text}, n)
}

// successors offers everything that can happen next.
func (k *checker) successors(w *ckWorld) {
	for i := range w.workers {
		k.workerSteps(w, i)
	}
	for i := range w.sessions {
		for j := range w.sessions[i].tries {
			k.networkSteps(w, i, j)
			k.attemptSteps(w, i, j)
		}
		k.sessionSteps(w, i)
	}
	k.peopleSteps(w)
	if k.cfg.supervise {
		for i := range w.leaders {
			k.leaderSteps(w, i)
		}
	} else {
		k.recoverySteps(w)
	}
	if k.mayTick(w) {
		k.step(w, -1, "a tick passes", func(n *ckWorld) { n.tick() })
	}
}

func (k *checker) mayTick(w *ckWorld) bool {
	for i := range w.workers { // a look-up has a deadline
		if wk := &w.workers[i]; (wk.phase == ckAsks || wk.phase == ckAnswered) && w.now > wk.started {
			return false
		}
		if l := &w.leaders[i]; (l.phase == ckAsks || l.phase == ckAnswered) && w.now >= l.started+k.patience() {
			return false
		}
	}
	if k.cfg.pause {
		return true
	}
	return !slices.ContainsFunc(w.sessions, func(s ckSession) bool { // healthy processes keep their leases
		return !s.dead && (!s.ended || s.runs()) && s.lease <= w.now+1
	})
}

// patience is how long a supervisor may take over a look-up: it has a deadline,
// and a process may sleep before it stores what it found.
func (k *checker) patience() int {
	if k.cfg.sleepy {
		return ckSleep
	}
	return 1
}

func (w *ckWorld) tick() {
	w.now++
	for i := range w.sessions {
		for j := range w.sessions[i].tries {
			a := &w.sessions[i].tries[j]
			if a.sent == ckTravels && w.now >= a.sentAt+ckSettle {
				a.sent = ckVanished
			}
		}
	}
}

func (k *checker) workerSteps(w *ckWorld, i int) {
	wk := &w.workers[i]
	switch wk.phase {
	case ckIdle:
		for input := range k.cfg.inputs {
			if wk.calls > 0 {
				k.step(w, i, ckCalls+k.cfg.inputs[input].json, func(n *ckWorld) { k.calls(n, i, input) })
			}
			if wk.calls > 0 && k.cfg.replan {
				k.step(w, i, ckCalls+"without its ref "+k.cfg.inputs[input].json, func(n *ckWorld) { k.replan(n, i, input) })
			}
		}
	case ckBegins:
		k.step(w, i, "begins", func(n *ckWorld) { k.begin(n, i) })
	case ckEager:
		k.step(w, i, "stores its begin", func(n *ckWorld) { k.storeEager(n, i) })
		k.crashStep(w, i)
	case ckDecides:
		k.decideSteps(w, i)
	case ckLooks:
		k.step(w, i, "starts a look-up", func(n *ckWorld) { n.workers[i].phase, n.workers[i].started = ckAsks, n.now })
	case ckAsks:
		k.lookupSteps(w, i)
	case ckAnswered:
		k.step(w, i, "applies its look-up", func(n *ckWorld) { k.applyLookup(n, i) })
	case ckRuns:
	}
	if wk.phase != ckEager && k.hasLife(w, i) {
		k.crashStep(w, i)
	}
}

const ckCalls = "calls "

func (k *checker) calls(w *ckWorld, i, input int) {
	wk := &w.workers[i]
	wk.phase, wk.input, wk.calls, wk.record = ckBegins, input, wk.calls-1, k.read(w)
	if !k.stale() {
		k.begin(w, i)
	}
}

// hasLife: a crash of a process without a live session is a call less.
func (k *checker) hasLife(w *ckWorld, i int) bool {
	return w.leaders[i].phase != ckIdle || slices.ContainsFunc(w.sessions, func(s ckSession) bool {
		return s.worker == i && !s.dead && (!s.ended || s.unsaved || s.runs())
	})
}

func (k *checker) crashStep(w *ckWorld, i int) {
	if !k.cfg.crash {
		return
	}
	k.step(w, i, "crashes", func(n *ckWorld) {
		for j := range n.sessions {
			if n.sessions[j].worker == i {
				n.sessions[j].dead = true
			}
		}
		n.workers[i] = ckWorker{phase: ckIdle, calls: n.workers[i].calls, ordinal: n.workers[i].ordinal}
		n.leaders[i] = ckSupervisor{}
	})
}

// begin is call.begin: the machine's word, made real by one compare-and-swap.
func (k *checker) begin(w *ckWorld, i int) {
	wk := &w.workers[i]
	in := k.intent(w, i)
	if !k.stale() {
		wk.record = k.read(w)
	}
	was := wk.record
	next := was.cloneHead()
	mv := k.rules.begin(&k.tool.machine, &next, &in, ckTime(w.now))
	if mv == moveRun {
		k.mayRun(w, was)
	}
	if mv == moveRun && k.rules.eager {
		k.invoke(w, i, &next)
		wk.record, wk.phase = was, ckEager
		return
	}
	if needsSave(was, &next, mv) {
		if !k.save(w, k.beginning(wk), next) {
			wk.phase = ckBegins
			wk.record = k.read(w)
			w.broken = "" // it did not run
			return
		}
		if mv == moveRun && was.State == StateRejected || was.State == StateRejected && w.record.State == StateAwaitingApproval {
			w.corrected++
		}
		wk.record = w.record
	}
	k.proceed(w, i, mv)
}

// beginning names the arrow of a begin.
func (k *checker) beginning(wk *ckWorker) string {
	if wk.resumed {
		return "rerun"
	}
	return "begin"
}

// mayRun checks L5 of a begin that is about to win.
func (k *checker) mayRun(w *ckWorld, was *Record) {
	if was.Version != w.record.Version && !k.rules.unfenced && !k.rules.freeRuns {
		return
	}
	if w.dispatch >= k.cfg.attempts {
		w.breaks("L5: dispatched beyond the lifetime budget of %d", k.cfg.attempts)
	}
	if was.NotBefore.Time().After(ckTime(w.now)) {
		w.breaks("L5: dispatched before not_before")
	}
	if was.State == StateRejected && w.corrected > 0 {
		w.breaks("L5: corrected more often than allowed")
	}
}

// proceed is what call.own does after a move.
func (k *checker) proceed(w *ckWorld, i int, mv move) {
	wk := &w.workers[i]
	c := k.call(w, i)
	switch mv {
	case moveRun:
		k.invoke(w, i, w.record)
	case moveReplay:
		k.as(w, "hear", func() { k.answer(w, i, c, c.replay(wk.record)) })
	case moveWait:
		k.answer(w, i, c, c.inProgress())
	case moveVerify:
		if wk.looked {
			k.answer(w, i, c, c.standing(mv))
			return
		}
		wk.looked, wk.own, wk.phase = true, false, ckLooks
	default:
		k.answer(w, i, c, c.standing(mv))
	}
}

// invoke starts the first attempt of a new ownership.
func (k *checker) invoke(w *ckWorld, i int, r *Record) {
	wk := &w.workers[i]
	wk.ordinal++
	wk.phase = ckRuns
	w.sessions = append(w.sessions, ckSession{
		worker: i, ordinal: wk.ordinal, input: wk.input, before: r.Attempts - 1, lease: w.now + ckLease,
		others: len(r.Unresolved) > 0, resumed: wk.resumed, answered: wk.resumed,
	})
	k.dispatch(w, i)
}

func (k *checker) dispatch(w *ckWorld, i int) {
	wk := &w.workers[i]
	s := w.session(i)
	wk.tries++
	w.dispatch++
	wk.phase = ckRuns
	s.tries = append(s.tries, ckAttempt{n: wk.tries})
}

// storeEager is the planted fault's late begin.
func (k *checker) storeEager(w *ckWorld, i int) {
	wk := &w.workers[i]
	in := k.intent(w, i)
	in.nonce = w.session(i).nonce()
	next := wk.record.cloneHead()
	if mv := k.rules.begin(&k.tool.machine, &next, &in, ckTime(w.now)); mv == moveRun && k.save(w, "begin", next) {
		wk.record = w.record
		wk.phase = ckRuns
		return
	}
	w.session(i).dead = true
	*wk = ckWorker{phase: ckIdle, calls: wk.calls, ordinal: wk.ordinal}
}

// what an owner does

func (k *checker) decideSteps(w *ckWorld, i int) {
	for _, d := range ckDecisions {
		if d.may == nil || d.may(k, w, i) {
			k.step(w, i, "stores how it ended"+d.text, func(n *ckWorld) { d.do(k, n, i) })
		}
	}
}

// wouldRetry is the decision in call.attempts.
func (k *checker) wouldRetry(w *ckWorld, i int) bool {
	s := w.session(i)
	f := k.failure(w.workers[i].out)
	if f == nil || w.workers[i].tries > k.tool.policy.MaxRetries {
		return false
	}
	ours := k.real(w, s)
	spent := k.cfg.inputs[s.input].approval && !ours.allUnsent()
	return mayRetry(k.tool.effect, f, ours.commitState()) && !spent && ours.attemptsUsed() < k.tool.policy.lifetime()
}

// retry is session.nextAttempt and the dispatch after it.
func (k *checker) retry(w *ckWorld, i int) {
	s := w.session(i)
	err := k.store(w, s, func(r *Record) error {
		if r.State != StateInFlight || r.Nonce != s.nonce() {
			return errOwnerLost
		}
		r.LeaseUntil = In(ckLease * ckTick)
		r.Attempts = max(r.Attempts, s.before+len(s.tries)+1)
		return nil
	})
	if err != nil {
		k.finish(w, i, true, false)
		return
	}
	if w.dispatch >= k.cfg.attempts {
		w.breaks("L5: dispatched beyond the lifetime budget of %d", k.cfg.attempts)
	}
	s.lease = w.now + ckLease
	k.dispatch(w, i)
}

// finish is session.end and what call.runOwned answers.
func (k *checker) finish(w *ckWorld, i int, stored, waits bool) {
	wk := &w.workers[i]
	s := w.session(i)
	s.ended, s.failed, s.waits, s.unsaved = true, wk.out, waits, !stored
	if stored {
		_ = k.store(w, s, nil)
		wk.record = w.record
	} else {
		r := w.record.cloneHead() // session.asIfStored
		k.rules.apply(&k.tool.machine, &r, k.real(w, s).report())
		r.Resolve(ckTime(w.now))
		wk.record = &r
	}
	f := k.failure(wk.out)
	c := k.call(w, i)
	switch {
	case f == nil:
		won := &invocation{call: c, phase: phaseEnded, succeeded: true}
		k.answer(w, i, c, c.success(won, wk.record, stored))
	case wk.record.State == StateCommitted:
		k.as(w, "hear", func() { k.answer(w, i, c, c.marked(wk.record, stored)) })
	case wk.record.State == StateUnknown && k.tool.verifiable && !wk.looked && stored:
		wk.looked, wk.own, wk.phase = true, true, ckLooks
	default:
		k.answer(w, i, c, c.ownFailure(outcome{fail: f}, stored))
	}
}

// sessionSteps: heartbeats, stores that come late, and the bound on a life.
func (k *checker) sessionSteps(w *ckWorld, i int) {
	s := &w.sessions[i]
	if s.dead || !s.ended {
		return
	}
	if s.unsaved {
		k.step(w, s.worker, "stores its end at last", func(n *ckWorld) {
			n.sessions[i].unsaved = false
			_ = k.store(n, &n.sessions[i], nil)
		})
	}
	if !s.runs() {
		return
	}
	k.step(w, s.worker, "beats for its abandoned attempt", func(n *ckWorld) { _ = k.store(n, &n.sessions[i], nil) })
	if k.cfg.outlive {
		k.step(w, s.worker, "gives its abandoned attempt to a person", func(n *ckWorld) {
			_ = k.store(n, &n.sessions[i], func(r *Record) error {
				if r.State == StateUnknown {
					k.tool.machine.escalate(r, "")
				}
				return nil
			})
		})
	}
}

// look-ups

func (k *checker) lookupSteps(w *ckWorld, i int) {
	sees := func(text string, v Verdict, failed bool) {
		k.step(w, i, text, func(n *ckWorld) {
			wk := &n.workers[i]
			wk.phase, wk.verdict, wk.probeLost = ckAnswered, v, failed
			if !k.stale() {
				k.applyLookup(n, i)
			}
		})
	}
	switch {
	case w.effects > 1:
		sees("its look-up finds several", OtherEffect, false)
	case w.effects == 1:
		sees("its look-up finds the effect", FoundEffect, false)
	}
	if w.effects == 0 || k.cfg.lagging {
		sees("its look-up finds nothing", NoEffect, false)
	}
	if k.cfg.probes {
		sees("its look-up fails", CannotTell, true)
	}
}

// applyLookup is call.verify, and what its caller does next.
func (k *checker) applyLookup(w *ckWorld, i int) {
	wk := &w.workers[i]
	l := &lookup{verdict: wk.verdict, failed: wk.probeLost, started: ckTime(wk.started)}
	begun := false
	was := w.record
	_ = k.update(w, "look-up", func(r *Record) error {
		k.rules.verified(&k.tool.machine, r, l, ckTime(w.now))
		begun = k.beginsAtOnce(w, i, r)
		r.Unheard = r.Unheard || wk.resumed && r.State == StateCommitted && k.rules.background // as call.verify does
		return nil
	})
	w.told = w.told || !wk.resumed && w.record.State == StateCommitted && !w.record.Unheard // it is about to be
	wk.record = k.read(w)
	wk.verdict, wk.probeLost, wk.started = 0, false, 0
	if begun {
		k.mayRun(w, &Record{Version: w.record.Version, NotBefore: was.NotBefore})
		wk.own = false
		k.invoke(w, i, w.record)
		return
	}
	if !wk.own {
		wk.phase = ckBegins
		return
	}
	f := k.failure(wk.out)
	c := k.call(w, i)
	if wk.record.State == StateCommitted {
		k.as(w, "hear", func() { k.answer(w, i, c, c.verifiedSuccess(wk.record)) })
		return
	}
	k.answer(w, i, c, c.ownFailure(outcome{fail: f}, true))
}

// beginsAtOnce: what a look-up has released is begun in the same
// compare-and-swap, where its call goes on.
func (k *checker) beginsAtOnce(w *ckWorld, i int, r *Record) bool {
	wk := &w.workers[i]
	in := k.intent(w, i)
	if r.State != StateReleased || r.Fingerprint != in.fingerprint {
		return false
	}
	if f := k.failure(wk.out); wk.own && (f.Class != ClassTransient || wk.tries > k.tool.policy.MaxRetries) {
		return false
	}
	return k.rules.begin(&k.tool.machine, r, &in, ckTime(w.now)) == moveRun
}
