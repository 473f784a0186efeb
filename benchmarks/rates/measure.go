package main

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// report is what was measured.
type report struct {
	seed   uint64
	each   int
	groups []group
}

// group is what was measured over one kind of remote side.
type group struct {
	dedupes bool
	cells   []*cell
}

// cell is a contender over all worlds.
type cell struct {
	contender *contender
	outcomes  []outcome
}

// measure lets every contender live through the same worlds, each of the faults
// in as many as each says.
func measure(t *testing.T, seed uint64, each int) *report {
	t.Helper()
	var worlds []*scenario
	for i, f := range faults {
		for n := range each {
			worlds = append(worlds, draw(seed+uint64(i)<<32, f, n))
		}
	}
	r := &report{seed: seed, each: each, groups: []group{{dedupes: true}, {dedupes: false}}}
	for i := range r.groups {
		g := &r.groups[i]
		for _, c := range contenders(g.dedupes) {
			g.cells = append(g.cells, &cell{contender: c, outcomes: liveAll(t, worlds, c, g.dedupes)})
		}
	}
	return r
}

// contenders are those for a remote side, the library's first.
func contenders(dedupes bool) (out []*contender) {
	for _, c := range slices.Concat(library, peers) {
		if c.needs == anySide || (c.needs == keyedSide) == dedupes {
			out = append(out, c)
		}
	}
	return out
}

// liveAll lives through worlds on all cores, each in a bubble of its own, and
// returns the outcomes in the order of the worlds.
func liveAll(t *testing.T, worlds []*scenario, c *contender, dedupes bool) []outcome {
	t.Helper()
	lived := make([][]outcome, len(worlds))
	cores := runtime.GOMAXPROCS(0)
	var running sync.WaitGroup
	for core := range cores {
		running.Go(func() {
			for i := core; i < len(worlds); i += cores {
				synctest.Test(t, func(t *testing.T) { lived[i] = live(t.Context(), worlds[i], c, dedupes) })
			}
		})
	}
	running.Wait()
	return slices.Concat(lived...)
}

// tally is the sum of outcomes.
type tally struct {
	operations, definite int

	duplicates, lost, wrong, unresolved, notMade int

	mean, p99 time.Duration // of the definite ones
	attempts  float64       // mean
}

// sum sums the outcomes that are meant.
func sum(outcomes []outcome, meant func(outcome) bool) (t tally) {
	var added []time.Duration
	var total time.Duration
	attempts := 0
	for _, o := range outcomes {
		if !meant(o) {
			continue
		}
		t.operations++
		t.duplicates += o.duplicates
		t.lost += count(o.lost)
		t.wrong += count(o.wrong)
		t.unresolved += count(o.unresolved)
		t.notMade += count(o.notMade)
		attempts += o.attempts
		if o.definite {
			added = append(added, o.added)
			total += o.added
		}
	}
	t.attempts = float64(attempts) / float64(max(1, t.operations))
	if t.definite = len(added); t.definite > 0 {
		slices.Sort(added)
		t.mean, t.p99 = total/time.Duration(t.definite), added[(t.definite*99-1)/100]
	}
	return t
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
