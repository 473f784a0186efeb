package toolexec

import (
	"context"
	"time"
)

// the store ------------------------------------------------------------------

// save is the store's compare-and-swap; the record that is stored now comes
// back either way.
func (k *checker) save(w *ckWorld, event string, r Record) (ok bool) {
	unfenced := k.rules.unfenced || k.rules.freeRuns && event == "rerun"
	if r.Version != w.record.Version && !unfenced {
		return false
	}
	r.Version = w.record.Version + 1
	r.Resolve(ckTime(w.now))
	for i := range r.Unresolved { // the report took a reading of the real clock
		u := &r.Unresolved[i].Settles
		if !u.IsZero() {
			*u = At(u.Time().Round(ckTick))
		}
	}
	r.History = nil
	from := w.record.State
	if event == "recover" && from == StateInFlight && !leaseOver(w.record, ckTime(w.now)) {
		w.breaks("L7: an owner that holds its lease is taken for lost")
	}
	w.record = &r
	k.transition(w, from, event, r.State)
	return true
}

// ckStore is the record of the world that the checker is at, for what the
// library stores by itself.
type ckStore struct{ k *checker }

func (s ckStore) Load(context.Context, Key) (Record, error) {
	if s.k.at == nil || s.k.at.record.State == StateAbsent {
		return Record{}, ErrNotFound
	}
	return *s.k.read(s.k.at), nil
}

func (s ckStore) Save(_ context.Context, r Record) (Record, error) {
	if s.k.at == nil {
		return Record{}, ErrConflict
	}
	if !s.k.save(s.k.at, s.k.event, r) {
		return *s.k.read(s.k.at), ErrConflict
	}
	return *s.k.read(s.k.at), nil
}

func (s ckStore) List(context.Context, Query) ([]Record, Cursor, error) { return nil, Cursor{}, nil }

// as lets the library store for itself, as the step of an event.
func (k *checker) as(w *ckWorld, event string, f func()) {
	k.at, k.event = w, event
	defer func() { k.at = nil }()
	f()
}

// update is Executor.update: it wins in the end, on the newest record.
func (k *checker) update(w *ckWorld, event string, change func(*Record) error) error {
	r := w.record.cloneHead()
	r.Now = ckTime(w.now)
	if err := change(&r); err != nil {
		return err
	}
	k.save(w, event, r)
	return nil
}

// stale: elsewhere a compare-and-swap that wins is as if it had read just now,
// and one that loses reads anew, so one step will do.
func (k *checker) stale() bool {
	return k.cfg.stale || k.rules.unfenced || k.rules.freeRuns || k.rules.eager
}

// slow: whether time can pass between the end of an attempt and its storing.
func (k *checker) slow() bool { return k.cfg.pause || k.cfg.stale }

func (k *checker) read(w *ckWorld) *Record {
	r := *w.record
	r.Now = ckTime(w.now)
	return &r
}

// transition judges an arrow.
func (k *checker) transition(w *ckWorld, from State, event string, to State) {
	if from == to && (event != "begin" && event != "rerun" || to != StateInFlight) {
		return
	}
	a := ckArrow{from, event, to}
	if !ckAllowed[a] && !k.lawsOnly {
		w.breaks("the machine has no arrow %s -- %s --> %s", from, event, to)
	}
	if from == StateCommitted {
		w.breaks("L3: committed is final, and was left for %s", to)
	}
	k.arrows[a]++
}

// the library's own half -----------------------------------------------------

// real builds the library's session of s, to let it report.
func (k *checker) real(w *ckWorld, s *ckSession) *session {
	c := k.call(w, s.worker)
	ours := &session{call: c, rec: new(Record), nonce: s.nonce(), before: s.before, ended: s.ended, answered: s.answered && k.rules.background}
	if s.settled {
		ours.rec.State = StateCommitted
	}
	if s.others {
		ours.rec.Unresolved = []Unresolved{{Attempt: "other"}}
	}
	if f := k.failure(s.failed); s.ended && f != nil {
		c.intent.arguments = []byte(k.cfg.inputs[s.input].json)
		ours.failure, ours.sticky, ours.fields = c.failureRecord(f), f.isSticky(), c.rejectedFields(f)
		if s.waits {
			ours.until = In(ckTick)
		}
	}
	for i := range s.tries {
		ours.tries = append(ours.tries, k.realAttempt(w, c, &s.tries[i]))
	}
	return ours
}

func (k *checker) realAttempt(w *ckWorld, c *call, a *ckAttempt) *invocation {
	return &invocation{
		call: c, n: int32(a.n), phase: a.phase, sending: a.sending, marks: int32(a.marks()), evidence: a.evidence,
		marked: a.marked, took: time.Since(c.watch.start) + time.Duration(a.endsAt-w.now)*ckTick, succeeded: a.evidence == EvidenceCommitted,
	}
}

// call builds the library's call of a worker, to let it answer.
func (k *checker) call(w *ckWorld, worker int) *call {
	c := &call{operation: newOperation(), x: k.x, t: k.tool, caller: context.Background()}
	c.key = Key{Ref: "op"}
	c.startWatch()
	wk := &w.workers[worker]
	if wk.record != nil {
		c.record = wk.record
	}
	c.tries, c.resumed = wk.tries, wk.resumed
	c.intent = k.intent(w, worker)
	return c
}

func (k *checker) intent(w *ckWorld, worker int) intent {
	wk := &w.workers[worker]
	in := &k.cfg.inputs[wk.input]
	next := ckSession{worker: worker, ordinal: wk.ordinal + 1}
	return intent{
		key: Key{Ref: "op"}, fingerprint: in.fingerprint(), arguments: []byte(in.json), digest: in.json,
		approval: in.approval, approvalTTL: 3 * ckTick, nonce: next.nonce(), owner: "w",
	}
}

// store is session.store.
func (k *checker) store(w *ckWorld, s *ckSession, further func(*Record) error) error {
	err := k.update(w, "report", func(r *Record) error {
		k.rules.apply(&k.tool.machine, r, k.real(w, s).report())
		if further != nil {
			return further(r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.settled = w.record.State == StateCommitted
	s.others = len(withoutOwner(w.record.Unresolved, s.nonce())) > 0
	// What was reported as alive may send until the new end of its lease; a lease
	// that ran out is not taken up again.
	if s.ended && s.runs() && w.now < s.lease {
		s.lease = w.now + ckLease
	}
	return nil
}

// marks is how many sends of the attempt are marked.
func (a *ckAttempt) marks() int {
	if a.sending == sendMarked || a.mayHaveNil {
		return 1
	}
	return 0
}

// the laws -------------------------------------------------------------------

// judge checks what must hold in every state.
func (k *checker) judge(w *ckWorld) {
	r := w.record
	if w.effects > 1 {
		w.breaks("L1: the operation has %d effects", w.effects)
	}
	if r.State == StateAbsent {
		return
	}
	switch r.CommitState() {
	case Committed:
		if w.effects == 0 {
			w.breaks("L2: the record says committed, and the ledger has no effect")
		} else if k.cfg.inputs[w.effectOf].fingerprint() != r.Fingerprint {
			w.breaks("identity: the record names other arguments than the effect has")
		}
	case NotCommitted:
		k.seal(w, "the record", nil)
		if len(r.Unresolved) > 0 {
			w.breaks("joined: the record is %s, and holds an unresolved attempt", r.State)
		}
	}
}

// seal holds everybody to a "not committed": nothing that was dispatched before
// may have an effect, now or later.
func (k *checker) seal(w *ckWorld, who string, only *Fingerprint) {
	ours := func(input int) bool { return only == nil || k.cfg.inputs[input].fingerprint() == *only }
	if w.effects > 0 && ours(w.effectOf) {
		w.breaks("L2: %s says not_committed, and the ledger has the effect", who)
	}
	for i := range w.sessions {
		s := &w.sessions[i]
		for j := range s.tries {
			if ours(s.input) {
				s.tries[j].sealed = true
			}
		}
	}
}

// answer ends a worker's call.
func (k *checker) answer(w *ckWorld, worker int, c *call, h head) {
	in := &k.cfg.inputs[w.workers[worker].input]
	fp := in.fingerprint()
	switch {
	case h.OK || h.CommitState == Committed:
		w.told = w.told || !w.workers[worker].resumed
		if w.effects == 0 {
			w.breaks("L2: a caller is told committed, and the ledger has no effect")
		} else if k.cfg.inputs[w.effectOf].fingerprint() != fp {
			w.breaks("identity: a caller is told committed for an effect of other arguments")
		}
	case c.record.Version != w.record.Version:
		// it rests on an older version: what was dispatched since is not its matter
	case h.CommitState == NotCommitted && h.Code == CodeOperationRefReused:
		k.seal(w, "a caller's envelope", &fp)
	case h.CommitState == NotCommitted:
		if w.told {
			w.breaks("L3: a caller is told not_committed after another was told committed")
		}
		k.seal(w, "a caller's envelope", nil)
	}
	wk := &w.workers[worker]
	*wk = ckWorker{phase: ckIdle, calls: wk.calls, ordinal: wk.ordinal}
}

// replan is a call without its ref by one who was not told how it ended: an
// operation that is open is continued. What is not would be a second operation.
func (k *checker) replan(w *ckWorld, i, input int) {
	r := w.record
	switch {
	case r.State == StateCommitted && !r.IsOpen() && !w.told:
		w.breaks("L1: planned again without its ref it is carried out twice: it is committed, and nobody was told")
	case !r.IsOpen():
		w.never = true
	default:
		k.calls(w, i, input)
	}
}
