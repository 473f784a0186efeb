package toolexec

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// states ---------------------------------------------------------------------

// key names a state. The workers are alike, so the smaller of both orders
// stands for both.
func (k *checker) key(w *ckWorld) uint64 {
	k.buf = k.encode(k.buf[:0], w, 0)
	n := len(k.buf)
	k.buf = k.encode(k.buf, w, 1)
	a, b := k.buf[:n], k.buf[n:]
	if slices.Compare(a, b) > 0 {
		a = b
	}
	return maphash.Bytes(k.seed, a)
}

type ckEncoder struct {
	b     []byte
	now   int
	first int // the worker that counts as the first

	horizon int
}

// horizon is how far back a comparison can see: to the start of a look-up.
func (k *checker) horizon() int { return 1 + k.patience() }

func (e *ckEncoder) num(n int)          { e.b = append(e.b, byte(n)) }
func (e *ckEncoder) text(s string)      { e.b = append(append(e.b, s...), 0) }
func (e *ckEncoder) at(tick, floor int) { e.num(max(tick-e.now, -floor) + 100) }
func (e *ckEncoder) worker(i int)       { e.num(i ^ e.first) }
func (e *ckEncoder) bits(v ...bool) {
	n := 0
	for _, b := range v {
		n <<= 1
		if b {
			n |= 1
		}
	}
	e.num(n)
}

func (e *ckEncoder) instant(i Instant, floor int) {
	if i.IsZero() {
		e.num(255)
		return
	}
	e.at(int(i.Time().Sub(ckBase)/ckTick), floor)
}

func (e *ckEncoder) nonce(s string) {
	if s == "" || s[0] < '0' || s[0] > '1' {
		e.text(s)
		return
	}
	e.worker(int(s[0] - '0'))
	e.text(s[1:])
}

func (e *ckEncoder) record(r *Record) {
	e.text(string(r.State))
	if r.State == StateAbsent {
		return
	}
	e.b = append(e.b, r.Fingerprint.Sum[0])
	e.nonce(r.Nonce)
	e.bits(r.Sent, r.Effect == Write, r.Unheard)
	e.instant(r.LeaseUntil, ckSettle+e.horizon)
	e.instant(r.NotBefore, 0)
	e.instant(r.NextCheckAt, 0)
	e.num(r.Attempts)
	e.num(r.Checks)
	e.num(r.Corrections)
	e.num(len(r.RejectedFields))
	for _, u := range r.Unresolved {
		e.nonce(u.Attempt)
		e.bits(u.Alive)
		e.instant(u.Settles, e.horizon)
	}
	e.num(254)
	e.nonce(r.CommittedBy)
	if a := r.Approval; a != nil {
		e.text(a.Digest)
		e.text(a.Decision)
		e.bits(a.Spent)
		e.instant(a.Expires, 0)
	}
}

func (k *checker) encode(b []byte, w *ckWorld, first int) []byte {
	e := &ckEncoder{b: b, now: w.now, first: first, horizon: k.horizon()}
	e.record(w.record)
	e.num(w.effects)
	if w.effects > 0 {
		e.num(w.effectOf)
	}
	e.num(w.dispatch)
	e.num(w.corrected)
	e.num(w.reruns)
	e.bits(w.told, w.granted[0], w.granted[1], w.granted[2], w.granted[3])
	for p := range w.workers {
		wk := &w.workers[p^first]
		k.leader(e, w, &w.leaders[p^first])
		e.num(int(wk.phase))
		e.num(wk.calls)
		e.num(wk.ordinal)
		if wk.phase == ckIdle {
			continue
		}
		e.num(wk.input)
		e.num(wk.tries)
		e.num(int(wk.out))
		e.num(int(wk.verdict))
		e.bits(wk.looked, wk.own, wk.probeLost, wk.resumed)
		if wk.phase == ckAsks || wk.phase == ckAnswered {
			e.at(wk.started, e.horizon)
		}
		switch {
		case !k.stale() || wk.phase != ckBegins && wk.phase != ckEager: // what it saw before does not count any more
		case wk.record.Version == w.record.Version:
			e.num(1)
		default:
			e.num(2)
			e.record(wk.record)
		}
	}
	for p := range w.workers {
		for i := range w.sessions {
			if s := &w.sessions[i]; s.worker == p^first {
				e.session(s)
			}
		}
	}
	return e.b
}

func (k *checker) leader(e *ckEncoder, w *ckWorld, l *ckSupervisor) {
	if !k.cfg.supervise {
		return
	}
	e.num(int(l.phase))
	if l.phase == ckIdle {
		return
	}
	e.num(int(l.verdict))
	e.bits(l.probeLost)
	if l.phase != ckBegins {
		e.at(l.started, e.horizon)
	}
	if l.record.Version == w.record.Version {
		e.num(1)
		return
	}
	e.num(2)
	e.record(l.record)
}

func (e *ckEncoder) session(s *ckSession) {
	e.worker(s.worker)
	e.num(s.ordinal)
	e.num(s.input)
	if s.dead {
		for i := range s.tries { // only what travels counts
			if a := &s.tries[i]; a.sent == ckTravels {
				e.bits(a.sealed)
				e.at(a.sentAt, ckSettle)
			}
		}
		e.num(252)
		return
	}
	e.num(s.before)
	e.at(s.lease, 0)
	e.num(int(s.failed))
	e.bits(s.ended, s.resumed, s.unsaved, s.waits, s.others, s.settled, s.answered)
	for i := range s.tries {
		a := &s.tries[i]
		e.num(int(a.phase)<<4 | int(a.sending))
		e.num(int(a.evidence)<<4 | int(a.sent))
		e.bits(a.sealed, a.mayHaveNil, a.marked)
		if a.sent == ckTravels {
			e.at(a.sentAt, ckSettle)
		}
		if a.phase == phaseEnded {
			e.at(a.endsAt, ckSettle+e.horizon)
		}
	}
	e.num(253)
}

// exploration ----------------------------------------------------------------

// ckFound is what an exploration came to.
type ckFound struct {
	states, steps int
	took          time.Duration
	cut           bool   // there are more states
	law           string // that was broken; "" for none
	trace         []string
	stuck         []string // a trace to a state from which nothing is ever settled
}

type ckOrigin struct {
	parent int32
	branch int32
}

func (k *checker) start() *ckWorld {
	w := &ckWorld{record: new(Record), reruns: k.cfg.reruns}
	for i := range w.workers {
		if k.cfg.callers == 0 || i < k.cfg.callers {
			w.workers[i].calls = k.cfg.calls
		}
	}
	return w
}

// explore visits every state, or stops at the first that breaks a law.
func (k *checker) explore(limit int) (found ckFound) {
	began := time.Now()
	defer func() { found.took = time.Since(began) }()
	type pending struct {
		id int32
		w  *ckWorld
	}
	first := k.start()
	ids := map[uint64]int32{k.key(first): 0}
	origins := []ckOrigin{{-1, 0}}
	settled := []bool{true}
	var edges [][2]int32
	queue := []pending{{0, first}}
	for len(queue) > 0 && found.law == "" && !found.cut {
		at := queue[0]
		queue[0] = pending{}
		queue = queue[1:]
		branch := int32(-1)
		k.emit = func(e ckEvent, n *ckWorld) {
			branch++
			found.steps++
			if found.law != "" {
				return
			}
			if n.broken != "" {
				found.law = n.broken
				found.trace = k.retrace(append(k.path(origins, at.id), branch))
				return
			}
			key := k.key(n)
			id, known := ids[key]
			if !known {
				id = int32(len(origins)) // bounded by limit
				ids[key] = id
				origins = append(origins, ckOrigin{at.id, branch})
				spent := k.cfg.reruns > 0 && n.reruns == 0 // what comes next is beyond the model
				settled = append(settled, spent || n.record.State != StateInFlight && n.record.State != StateUnknown)
				queue = append(queue, pending{id, n})
			}
			outside := strings.HasPrefix(e.text, ckCalls) || strings.HasPrefix(e.text, ckPerson)
			if k.settles() && !settled[at.id] && !(k.cfg.supervise && outside) { // supervisors need no help
				edges = append(edges, [2]int32{at.id, id})
			}
		}
		k.successors(at.w)
		found.cut = len(origins) > limit
	}
	found.states = len(origins)
	if found.law == "" && !found.cut && k.settles() {
		if id := unsettled(settled, edges); id >= 0 {
			found.stuck = k.retrace(k.path(origins, id))
		}
	}
	return found
}

// settles: whether every operation comes to an end.
func (k *checker) settles() bool { return k.cfg.verify || k.cfg.supervise }

// unsettled returns a state from which no settled one can be reached; -1 for
// none.
func unsettled(settled []bool, edges [][2]int32) int32 {
	into := make(map[int32][]int32)
	var reached []int32
	for _, e := range edges {
		into[e[1]] = append(into[e[1]], e[0])
	}
	for id, ok := range settled {
		if ok {
			reached = append(reached, int32(id)) // bounded by the exploration
		}
	}
	for len(reached) > 0 {
		id := reached[len(reached)-1]
		reached = reached[:len(reached)-1]
		for _, from := range into[id] {
			if !settled[from] {
				settled[from] = true
				reached = append(reached, from)
			}
		}
	}
	return int32(slices.Index(settled, false)) // as above
}

func (k *checker) path(origins []ckOrigin, id int32) (branches []int32) {
	for ; id > 0; id = origins[id].parent {
		branches = append(branches, origins[id].branch)
	}
	slices.Reverse(branches)
	return branches
}

// retrace takes a path again, and tells it.
func (k *checker) retrace(branches []int32) (lines []string) {
	outer := k.emit
	defer func() { k.emit = outer }()
	w := k.start()
	for step, want := range branches {
		var next *ckWorld
		branch := int32(-1)
		k.emit = func(e ckEvent, n *ckWorld) {
			if branch++; branch == want {
				next = n
				lines = append(lines, k.line(step+1, e, w, n))
			}
		}
		k.successors(w)
		w = next
	}
	return lines
}

func (k *checker) line(step int, e ckEvent, was, is *ckWorld) string {
	who := ""
	if e.who >= 0 {
		who = string([]byte{'A' + byte(e.who)}) + " "
	}
	s := fmt.Sprintf("%2d. t=%d %s%s", step, was.now, who, e.text)
	if is.record.Version != was.record.Version {
		s += fmt.Sprintf(" → %s", is.record.State)
		for _, u := range is.record.Unresolved {
			s += " [open " + u.Attempt + "]"
		}
	}
	if is.effects != was.effects {
		s += fmt.Sprintf(" ⇒ ledger: %d", is.effects)
	}
	if is.broken != "" {
		s += "   ✗ " + is.broken
	}
	return s
}
