package main

import (
	"slices"
	"time"
)

// outcome is what became of one operation. The columns of the tables are sums of
// it; definitions, below, says what each means.
type outcome struct {
	style style
	fault *fault

	duplicates                       int
	lost, wrong, unresolved, notMade bool
	definite                         bool // told done or not done, and met the fault
	added                            time.Duration
	attempts                         int
}

// definitions are printed above the tables.
const definitions = `- **duplicates**: effects of an operation beyond its first. Where no call has a ref nobody can tell those of two equal operations apart; the one that is told
  done first then has the first.
- **lost**: operations that were told done and have no effect. No fault here makes a remote side lie, so nobody should have any.
- **told wrong**: operations of which an answer said that they are not done, though a request sent before that answer had its effect, or has it later.
- **unresolved**: operations of which the last word is that the outcome is unknown, 5 minutes after the agent's last call; a person has to look.
- **false suppression**: operations without an effect that the remote side did not refuse for good: swallowed as a repetition of the other, equal one, or
  not made although nothing had happened. Many are unresolved too; those that are lost are not counted twice.
- **added latency**: from the agent's first call to the last word, less the 100 ms of a call without faults; mean and 99th percentile of the operations that met
  the fault and were told done or not done, so what is unresolved does not count. The agent's own pauses and waits are in it; what a store on a disk takes is not.
- **attempts**: runs of the tool's function, per operation.
`

// judge compares what was told with what is there.
func (w *world) judge() []outcome {
	made := make([][]receipt, len(w.operations))
	for _, e := range w.ledger.Entries() {
		r, _ := e.Value.(receipt)
		made[r.Operation] = append(made[r.Operation], r)
	}
	w.share(made)
	out := make([]outcome, len(w.operations))
	for i, o := range w.operations {
		r := outcome{
			style: w.style, fault: w.fault, attempts: o.plan.Attempts(),
			duplicates: max(0, len(made[i])-1),
			wrong:      o.deniedWrongly(made[i]),
			unresolved: o.last == toldUnknown,
			definite:   o.last != toldUnknown && o.n == 0,
		}
		if len(made[i]) == 0 {
			r.lost = o.last == toldDone && w.ledger.Total() == 0
			r.notMade = !r.lost && !w.refused(o)
		}
		if r.definite {
			r.added = o.at.Sub(o.began) - 2*oneWay
		}
		out[i] = r
	}
	return out
}

// share divides the effects of two equal operations where no call had a ref and
// all of them come from calls for one: nobody can tell them apart, so the
// operation that was told done first has the first.
func (w *world) share(made [][]receipt) {
	if w.style != withoutRef || len(made) != 2 || (len(made[0]) > 0) == (len(made[1]) > 0) {
		return
	}
	all := slices.Concat(made...)
	first := w.doneFirst()
	if first < 0 {
		first = count(len(made[0]) == 0)
	}
	made[first], made[1-first] = all[:1], all[1:]
}

// doneFirst returns which operation was told done first; -1: none was.
func (w *world) doneFirst() int {
	first := -1
	for i, o := range w.operations {
		if o.last == toldDone && (first < 0 || o.at.Before(w.operations[first].at)) {
			first = i
		}
	}
	return first
}

// deniedWrongly: an answer said that o is not done, and a request sent before it
// had its effect at any time.
func (o *operation) deniedWrongly(mine []receipt) bool {
	return slices.ContainsFunc(o.denials, func(at time.Time) bool {
		return slices.ContainsFunc(mine, func(r receipt) bool { return r.Sent.Before(at) })
	})
}

// refused: an attempt at o met a refusal for good.
func (w *world) refused(o *operation) bool {
	if o.n > 0 {
		return false // the second operation meets no fault
	}
	for _, f := range w.steps[:min(o.plan.Attempts(), len(w.steps))] {
		if isRefusal(f.Request.Err) {
			return true
		}
	}
	return false
}
