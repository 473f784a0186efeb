package toolexec_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/toolexec/toolexec"
)

// The laws hold whatever the world does. A schedule is a world that one seed draws (tools, a remote side, stores with
// clocks of their own, processes that die, supervisors, a person who settles what the executor may not) and the steps
// that several agents take in it: they call, cancel, repeat, wait, ask and ignore advice. Its time is that of a
// testing/synctest bubble. Every answer, every version of a record and every run of a tool is checked as it happens, by
// the world, which sees both sides.
//
//	L1  at most one effect per operation of a Write, no dispatch without proof that those before it have none
//	L2  committed: the ledger has the effect; not_committed: nothing sent before it has one, now or later
//	L3  committed is final
//	L4  one envelope per call, valid and in time
//	L5  no run before not_before, without approval, or beyond the lifetime budget or the budget of retries
//	L6  no upstream text, panic value or argument reaches an envelope; observers are shown all of it
//	L7  once the faults have stopped, supervisors bring every operation to an end, and tell of it once and truly
//	L8  envelopes and records survive JSON, and unknown words are kept and safe
//	L9  after Close nothing is left
//
// What is drawn is in laws_draw_test.go. What is checked is at dispatch, saved, acted, lawsAnswered and believes. A schedule
// that breaks a law is reduced to the parts that it needs for that (laws_shrink_test.go), and printed as a plan:
//
//	go test -run '^TestLaws$' . -laws.seed=17                          the whole schedule, with its trace
//	go test -run '^TestLaws$' . -laws.plan='17: agent0.3 run2.1'       these parts of it
//	go test -run '^TestLaws$' . -laws.n=10000 -laws.from=20000         ten thousand others

var (
	lawsSeed = flag.Uint64("laws.seed", 0, "run the laws with this seed alone, and show its trace")
	lawsOnly = flag.String("laws.plan", "", "run these parts of a schedule, and show their trace")
	lawsFrom = flag.Uint64("laws.from", 1, "the first seed")
	lawsN    = flag.Uint64("laws.n", lawsDefaultN, "how many seeds the laws are run with")
	lawsAll  = flag.Bool("laws.all", false, "go on after a seed that breaks a law, and reduce none")
)

// lawsDefaultN takes two seconds; see .ci/run for more.
const lawsDefaultN = 180

func TestLaws(t *testing.T) {
	switch {
	case *lawsOnly != "":
		s, err := parseLawsSchedule(*lawsOnly)
		if err != nil {
			t.Fatal(err)
		}
		lawsRetrace(t, s)
		return
	case *lawsSeed > 0:
		lawsRetrace(t, lawsSchedule{seed: *lawsSeed})
		return
	}
	met := lawsMet(t)
	const parts = 4 // side by side; in turns, so that each is as long as the others
	for part := range uint64(parts) {
		t.Run(fmt.Sprint("part ", part+1), func(t *testing.T) {
			t.Parallel()
			for seed := *lawsFrom + part; seed < *lawsFrom+*lawsN; seed += parts {
				s := lawsSchedule{seed: seed}
				w := s.play(t, nil)
				met(w)
				if len(w.violations) == 0 {
					continue
				}
				t.Errorf("seed %d breaks\n  %s", seed, strings.Join(w.violations, "\n  "))
				if !*lawsAll {
					lawsReport(t, s, w)
					return
				}
			}
		})
	}
}

// lawsMeets is what some of the first schedules have to meet, else the laws would hold because nothing happens.
var lawsMeets = []string{
	"a commit without its result", "a duplicate that the remote side knows", "a kill",
	"a nested call", "a read that waits", "an empty retry budget",
	"awaiting_approval -> escalated", "awaiting_approval -> in_flight", "escalated -> committed", "escalated -> released",
	"in_flight -> escalated", "in_flight -> rejected", "in_flight -> released", "rejected -> released",
	"released -> awaiting_approval", "released -> in_flight", "unknown -> committed", "unknown -> escalated",
	"unknown -> in_flight", "unknown -> released",
	"code APPROVAL_DENIED", "code APPROVAL_EXPIRED", "code CANCELLED", "code GUARD_UNAVAILABLE",
	"code INVALID_OPERATION_REF", "code OPERATION_IN_PROGRESS", "code OPERATION_PENDING", "code OPERATION_REF_REUSED",
	"code UNCHANGED_RETRY", "code UNKNOWN_TOOL", "code VERIFICATION_UNAVAILABLE",
	"late evidence: committed", "late evidence: in_doubt", "late evidence: not_sent", "late evidence: rejected",
	"move later", "move unknown", "move verify", "move wait",
}

// lawsMet counts the schedules in which something happened, until the test ends.
func lawsMet(t *testing.T) func(*lawsWorld) {
	t.Helper()
	var mu sync.Mutex
	in := map[string]int{}
	t.Cleanup(func() {
		for _, what := range lawsMeets {
			if in[what] == 0 && *lawsN >= lawsDefaultN && *lawsFrom == 1 && !t.Failed() {
				t.Errorf("no schedule met %s", what)
			}
		}
		for _, what := range slices.Sorted(maps.Keys(in)) {
			if testing.Verbose() {
				t.Logf("%6d schedules met %s", in[what], what)
			}
		}
	})
	return func(w *lawsWorld) {
		mu.Lock()
		defer mu.Unlock()
		for what := range w.met {
			in[what]++
		}
	}
}

// lawsRetrace plays one schedule and shows its trace; a few times, until it breaks a law: the same schedule can take other
// turns, since the runtime decides who of several goroutines that wake at one moment comes first.
func lawsRetrace(t *testing.T, s lawsSchedule) {
	t.Helper()
	w := s.play(t, nil)
	for tries := 1; len(w.violations) == 0 && tries < lawsTries; tries++ {
		w = s.play(t, nil)
	}
	t.Log(w.story())
	if len(w.violations) > 0 {
		t.Errorf("%s breaks\n  %s", s, strings.Join(w.violations, "\n  "))
	}
}

// lawsReport reduces a schedule that broke a law, and shows what is left of it.
func lawsReport(t *testing.T, s lawsSchedule, w *lawsWorld) {
	t.Helper()
	t.Logf("the whole schedule: go test -run '^TestLaws$' . -laws.seed=%d", s.seed)
	least, found := lawsShrink(s, w.law(), func(s lawsSchedule) *lawsWorld { return s.play(t, nil) })
	if found == nil {
		t.Log("it did not break the same law again; its trace is\n" + w.story())
		return
	}
	t.Logf("%d of its parts break %s: go test -run '^TestLaws$' . -laws.plan='%s'\n%s", len(least.only), w.law(), least, found.story())
}

// play runs one schedule and returns its world, at its end. With wrap the records are kept in what it makes of their store.
func (s lawsSchedule) play(t *testing.T, wrap func(toolexec.Store) toolexec.Store) (w *lawsWorld) {
	t.Helper()
	cfg := drawLaws(s)
	defer func() {
		if r := recover(); r != nil {
			w.violations = append(w.violations, fmt.Sprint("L9: it does not end: ", r))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w = newLawsWorld(cfg, wrap)
		w.live()
	})
	return w
}

// law is the law that was broken first.
func (w *lawsWorld) law() string {
	law, _, _ := strings.Cut(w.violations[0], ":")
	return law
}

// breaks reports whether law was broken.
func (w *lawsWorld) breaks(law string) bool {
	return slices.ContainsFunc(w.violations, func(v string) bool { return strings.HasPrefix(v, law+":") })
}

// story is the trace of the schedule.
func (w *lawsWorld) story() string {
	var b strings.Builder
	cfg := w.cfg
	cfg.lawsParts, cfg.tools = nil, nil
	fmt.Fprintf(&b, "%+v\n", cfg)
	for _, s := range w.cfg.tools {
		fmt.Fprintf(&b, "tool %+v\n", *s)
	}
	for _, i := range w.intents {
		fmt.Fprintf(&b, "intent %d: %s, scope %q, ref %q, run %q, plural %t\n", i.id, i.spec.name, i.scope, i.ref, i.run, i.plural)
	}
	for _, e := range w.trace {
		fmt.Fprintf(&b, "%12v  %s\n", e.at, fmt.Sprintf(e.format, e.args...))
	}
	return b.String()
}
