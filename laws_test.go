package toolexec_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolexec/toolexec"
)

// The laws hold whatever the world does. Each seed draws a world (tools, network, look-ups, stores, processes), several
// agents that call, cancel, repeat, wait, ask and ignore advice, supervisors, and a person who settles what the executor
// may not; time is that of a testing/synctest bubble. Every answer, every version of a record and every run of a tool is checked as it
// happens, and the claims of all answers once more when everything has landed.
//
//	L1  at most one effect per operation of a Write, no dispatch without proof that those before it have none
//	L2  committed: the ledger has the effect; not_committed: nothing sent before it has one, now or later
//	L3  committed is final
//	L4  one envelope per call, valid and in time
//	L5  no run before not_before, without approval, or beyond the lifetime budget
//	L6  no upstream text, panic value or argument reaches an envelope; observers are shown all of it
//	L7  once the faults have stopped, supervisors bring every operation to an end, and tell of it once and truly
//	L8  envelopes and records survive JSON, and unknown words are kept and safe
//	L9  after Close nothing is left

var (
	lawsSeed = flag.Uint64("laws.seed", 0, "run the laws with this seed alone, and show its trace")
	lawsFrom = flag.Uint64("laws.from", 1, "the first seed")
	lawsN    = flag.Uint64("laws.n", 180, "how many seeds the laws are run with")
	lawsAll  = flag.Bool("laws.all", false, "go on after a seed that breaks a law, without traces")
)

// What is drawn or checked beside the rest. False where the check asks for more than the
// laws do, or more than the library does yet. The tests named show each in its smallest form.
const (
	lawsRuns        = true  // TestLawsRepeatedCallReadsTheRecord, TestLawsRepeatNeverDeniesAnUnknown
	lawsHandedRefs  = true  // TestLawsNoAnswerHandsOutANewRef
	lawsWaitersRead = true  // who waited for a call of its own process knows what is committed
	lawsReadsWait   = false // also between processes and reads side by side: TestLawsReadWaitsAsTheRemoteSideWants
	lawsLeases      = true  // TestLawsRunningOwnerKeepsItsLease
	lawsPassExits   = true  // TestLawsGoexitInAPass
)

func TestLaws(t *testing.T) {
	if *lawsSeed > 0 {
		runLaws(t, *lawsSeed, true)
		return
	}
	const parts = 4 // side by side; in turns, so that each is as long as the others
	for part := range uint64(parts) {
		t.Run(fmt.Sprint("part ", part+1), func(t *testing.T) {
			t.Parallel()
			for seed := *lawsFrom + part; seed < *lawsFrom+*lawsN; seed += parts {
				runLaws(t, seed, false)
				if t.Failed() && !*lawsAll {
					return
				}
			}
		})
	}
}

// TestLawsKeptSeeds runs again what once found something: an approval that ended while begin repeated a Save, and an
// operation that a begin had stored, and then given up. Tools draw more than they did then (they take marks back), so the
// second no longer meets what it found; TestBeginWhoseAnswerIsLostIsGivenBack holds that.
func TestLawsKeptSeeds(t *testing.T) {
	for _, seed := range []uint64{281, 2157} { // both are of worlds without supervisors
		runLawsIn(t, drawLaws(seed), false)
	}
}

// runLaws runs one schedule.
func runLaws(t *testing.T, seed uint64, verbose bool) {
	t.Helper()
	cfg := drawLaws(seed)
	cfg.drawSupervision()
	runLawsIn(t, cfg, verbose)
}

func runLawsIn(t *testing.T, cfg lawsConfig, verbose bool) {
	t.Helper()
	var w *lawsWorld
	func() {
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("L9: the schedule of seed %d did not end: %v", cfg.seed, r)
			}
		}()
		synctest.Test(t, func(t *testing.T) {
			w = newLawsWorld(cfg)
			w.live(t)
		})
	}()
	if len(w.violations) > 0 {
		t.Errorf("seed %d breaks\n  %s", cfg.seed, strings.Join(w.violations, "\n  "))
	}
	if t.Failed() && !*lawsAll {
		t.Logf("reproduce with: go test -run '^TestLaws$' . -laws.seed=%d", cfg.seed)
	}
	if t.Failed() && !*lawsAll || verbose {
		t.Log(w.story())
	}
}

// story is the trace of the schedule.
func (w *lawsWorld) story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", w.cfg)
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

// what is drawn ---------------------------------------------------------------------

type lawsConfig struct {
	seed                uint64
	leased              bool
	procs, agents       int
	errBefore, errAfter float64
	latency, hang       time.Duration
	killAt              time.Duration // 0: nobody is killed
	killStops           bool
	oddObserver         int
	oddClassifier       bool
	checkReads          bool
	tools               []*lawsSpec

	supervised   bool
	supervisors  []lawsSupervision // by process
	restartAfter time.Duration     // of the one that is killed; 0: it stays dead
	claims       bool              // the store gives each due record to one supervisor at a time
}

func (c *lawsConfig) faulty() bool { return c.errBefore > 0 || c.errAfter > 0 }

// slack is how much later an instant of an answer may lie than that of its record: the store was slow in between.
func (c *lawsConfig) slack() time.Duration { return 20 * c.latency }

func drawLaws(seed uint64) lawsConfig {
	r := rand.New(rand.NewPCG(seed, 0))
	c := lawsConfig{seed: seed, leased: r.IntN(2) == 0, procs: 1 + r.IntN(3), agents: 2 + r.IntN(3), hang: lawsPick(r, 4*time.Second, 20*time.Second, 70*time.Second)}
	if r.IntN(3) == 0 {
		c.errBefore, c.errAfter = lawsPick(r, 0, 0.03, 0.1), lawsPick(r, 0, 0.03, 0.1)
	}
	if r.IntN(4) == 0 {
		c.latency = 50 * time.Millisecond
	}
	if c.leased && c.procs > 1 && r.IntN(2) == 0 {
		c.killAt, c.killStops = time.Duration(r.IntN(20_000))*time.Millisecond, r.IntN(2) == 0
	}
	if r.IntN(4) == 0 {
		c.oddObserver = 1 + r.IntN(3)
	}
	c.oddClassifier, c.checkReads = r.IntN(6) == 0, lawsReadsWait
	for n := range 3 + r.IntN(3) {
		c.tools = append(c.tools, drawLawsTool(r, n, c.leased))
	}
	return c
}

func drawLawsTool(r *rand.Rand, n int, leased bool) *lawsSpec {
	one := func(in int) bool { return r.IntN(in) == 0 }
	s := &lawsSpec{name: fmt.Sprintf("tool_%d", n), settle: toolexec.DefaultSettle, obeysContext: one(2), stringsOnly: one(4)}
	switch {
	case n == 0 || one(6):
		s.effect = toolexec.ReadOnly
		s.policy = drawLawsPolicy(r)
		return s
	case one(3):
		s.effect = toolexec.Idempotent
		s.dedupe = lawsPick(r, 0, 0, 20*time.Second)
	}
	s.marks, s.asksMark, s.oneRequest, s.ref = one(3), one(3), one(2), one(4)
	s.cooperative, s.approval, s.ignoresNote, s.plainRejects = one(5), one(4), one(4), one(4)
	if s.verified = !one(4); s.verified {
		s.settle, s.authoritative = lawsPick(r, 3*time.Second, 10*time.Second, 30*time.Second), !one(5)
	} else {
		s.unverifiable = one(3)
	}
	s.policy = drawLawsPolicy(r)
	if leased && s.marks && one(3) { // the fence has to hold where no deadline does
		s.policy.Deadline, s.policy.TotalDeadline = -1, -1
	}
	s.lifetime = s.policy.MaxAttempts
	if s.lifetime == 0 {
		s.lifetime = toolexec.DefaultMaxAttempts
	}
	return s
}

func drawLawsPolicy(r *rand.Rand) toolexec.Policy {
	p := toolexec.Policy{
		Deadline:      lawsPick(r, 0, 0, 500*time.Millisecond, 5*time.Second),
		TotalDeadline: lawsPick(r, 0, 0, 3*time.Second, 20*time.Second),
		MaxRetries:    lawsPick(r, 0, -1, 5),
		MaxAttempts:   lawsPick(r, 0, 0, 2, 3),
		MaxAbandon:    lawsPick(r, 0, 10*time.Second),
		MaxAbandoned:  lawsPick(r, 0, 0, 2),
	}
	if r.IntN(8) == 0 {
		p.Deadline, p.TotalDeadline = -1, lawsPick(r, -1, 10*time.Second)
	}
	return p
}
