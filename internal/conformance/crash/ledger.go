package crash

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// verifierKind is how the ledger answers look-ups.
type verifierKind string

const (
	verifierGood  verifierKind = "good"
	verifierSlow  verifierKind = "slow"
	verifierEarly verifierKind = "absent too early" // its answers lag, within the settle window
	verifierFlaky verifierKind = "mostly down"
	verifierDown  verifierKind = "down"
)

// ledger is the remote side: it does what it is asked, and not always answers.
type ledger struct {
	kind   verifierKind
	dedupe map[string]bool // tools that the ledger dedupes

	mu      sync.Mutex // protects what follows
	rng     *rand.Rand
	clock   int // counts requests and answers
	effects map[string][]effect
	said    []told
	wrong   []string
	kill    map[string]func() // by process
	lethal  map[string]trap   // by process
	calm    bool              // answers everything from now on
	pending sync.WaitGroup    // effects that are still to come
}

// effect is one thing that happened.
type effect struct {
	ref     string
	arrived int // the clock when its request came in
	at      time.Time
}

// trap kills a process at its visit of a point of the wire.
type trap struct {
	point string
	visit int
}

func (l *ledger) tick() int { l.clock++; return l.clock }

// springs reports whether the process dies now. Called with mu held.
func (l *ledger) springs(process, point string) bool {
	t := l.lethal[process]
	if t.point != point {
		return false
	}
	t.visit--
	l.lethal[process] = t
	return t.visit == 0
}

func (l *ledger) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /effect", l.write)
	mux.HandleFunc("GET /effect", l.lookUp)
	mux.HandleFunc("GET /clock", func(w http.ResponseWriter, _ *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, _ = fmt.Fprint(w, l.tick())
	})
	mux.HandleFunc("POST /told", l.hear)
	return mux
}

// write does the effect of a step, or not, and answers, or not.
func (l *ledger) write(w http.ResponseWriter, r *http.Request) {
	step, ref, tool, process := r.FormValue("step"), r.FormValue("ref"), r.FormValue("tool"), r.FormValue("process")
	until, _ := strconv.ParseInt(r.FormValue("until"), 10, 64)
	givenUp := time.Unix(0, until) // when the caller does
	l.mu.Lock()
	arrived, fate := l.tick(), l.rng.IntN(20)
	if l.calm {
		fate = 0
	}
	dies := ""
	for _, p := range []string{afterSend, beforeAnswer} {
		if l.springs(process, p) {
			dies = p
		}
	}
	kill := l.kill[process]
	l.mu.Unlock()
	switch {
	case dies == afterSend:
		kill()
		time.Sleep(lateBy / 2) // the effect of a dead process
		l.happens(step, ref, tool, arrived, time.Now())
		panic(http.ErrAbortHandler)
	case dies == beforeAnswer:
		l.happens(step, ref, tool, arrived, givenUp)
		kill()
		panic(http.ErrAbortHandler)
	case fate < 12:
		l.happens(step, ref, tool, arrived, givenUp)
		l.answer(w, step, ref)
	case fate < 14: // nothing happens
		panic(http.ErrAbortHandler)
	case fate < 17: // it happens, and the answer is lost
		l.happens(step, ref, tool, arrived, givenUp)
		panic(http.ErrAbortHandler)
	default: // it happens when the caller has given up
		l.pending.Add(1)
		time.AfterFunc(attemptDeadline+lateBy/2, func() {
			defer l.pending.Done()
			l.happens(step, ref, tool, arrived, givenUp)
		})
		<-r.Context().Done()
	}
}

// happens does the effect, unless it would come later than the ledger promises:
// then it does not come at all. So the settle window holds however busy the
// machine is.
func (l *ledger) happens(step, ref, tool string, arrived int, givenUp time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tick()
	if time.Now().After(givenUp.Add(lateBy)) {
		return
	}
	if l.dedupe[tool] {
		for _, e := range l.effects[step] {
			if e.ref == ref {
				return
			}
		}
	}
	l.effects[step] = append(l.effects[step], effect{ref: ref, arrived: arrived, at: time.Now()})
}

// answer confirms an effect that is there.
func (l *ledger) answer(w http.ResponseWriter, step, ref string) {
	l.mu.Lock()
	done := slices.ContainsFunc(l.effects[step], func(e effect) bool { return e.ref == ref })
	l.mu.Unlock()
	if !done {
		panic(http.ErrAbortHandler) // it came too late
	}
	_, _ = fmt.Fprintf(w, `{"receipt":%q}`, ref) //nolint:gosec // a test's own client reads it
}

// lookUp answers whether a ref has an effect.
func (l *ledger) lookUp(w http.ResponseWriter, r *http.Request) {
	step, ref, process := r.FormValue("step"), r.FormValue("ref"), r.FormValue("process")
	l.mu.Lock()
	dies, kill := l.springs(process, inLookup), l.kill[process]
	down := l.kind == verifierDown || l.kind == verifierFlaky && !l.calm && l.rng.IntN(10) < 7
	var found []effect
	for _, e := range l.effects[step] {
		if e.ref == ref && (l.kind != verifierEarly || time.Since(e.at) > ledgerLag) {
			found = append(found, e)
		}
	}
	l.mu.Unlock()
	switch {
	case dies:
		kill()
		panic(http.ErrAbortHandler)
	case down:
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	case l.kind == verifierSlow:
		time.Sleep(40 * time.Millisecond)
	}
	_, _ = fmt.Fprint(w, len(found))
}

// hear notes what an agent was told, and whether that is wrong by now or will
// be: a request that had come in before the call began has an effect.
func (l *ledger) hear(_ http.ResponseWriter, r *http.Request) {
	var t told
	if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
		return // its sender was killed in the middle
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, t)
}

// judge counts what is wrong once everything has come to rest.
func (l *ledger) judge() (duplicates, lost, wrong int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for step, list := range l.effects {
		if len(list) > 1 {
			duplicates++
			l.wrong = append(l.wrong, fmt.Sprintf("%s has %d effects: %+v", step, len(list), list))
		}
	}
	for _, t := range l.said {
		list := l.effects[t.Step]
		switch {
		case t.CommitState == "committed" && len(list) == 0:
			lost++
			l.wrong = append(l.wrong, fmt.Sprintf("%s was told %s, and nothing happened", t.Step, t.Code))
		case t.CommitState == "not_committed":
			for _, e := range list {
				if e.arrived < t.Since {
					wrong++
					l.wrong = append(l.wrong, fmt.Sprintf("%s was told %s not_committed (call began at %d), and it happened: %+v", t.Step, t.Code, t.Since, e))
				}
			}
		}
	}
	return duplicates, lost, wrong
}

// finished are the steps whose success an agent was told.
func (l *ledger) finished() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := map[string]bool{}
	for _, t := range l.said {
		if t.OK {
			done[t.Step] = true
		}
	}
	return done
}
