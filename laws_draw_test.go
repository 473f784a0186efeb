package toolexec_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/toolexec/toolexec"
)

// What a seed draws before anything happens. The rest (what agents do, what becomes of a run) is drawn when it happens, each
// from a generator of its own: see lawsWorld.stream.

type lawsConfig struct {
	*lawsParts
	seed                uint64
	leased              bool // records outlive processes; else they die together
	procs, agents       int
	together            bool    // agents may wake at one moment
	errBefore, errAfter float64 // of 1: a store's method fails before it has done anything, or after it
	latency, hang       time.Duration
	clock               lawsClock
	kills               []lawsKill // by process
	forgets             bool       // the store deletes what retention allows, soon
	bound               int        // records that it holds; 0: any number
	budget              toolexec.RetryBudget
	oddObserver         int
	oddClassifier       bool
	tools               []*lawsSpec

	supervised  bool
	supervisors []lawsSupervision // by process
	claims      bool              // the store gives each due record to one supervisor at a time
}

// lawsClock is the store's clock, compared to that of the processes.
type lawsClock struct {
	ahead time.Duration
	skews []time.Duration // further, by process: what a store does that asks its own machine
	jumps []lawsJump
}

type lawsJump struct{ at, by time.Duration }

// lawsKill is the end of a process that did not end.
type lawsKill struct {
	at      time.Duration // 0: it is not killed
	op      int           // of its uses of the store: then, if that is before at
	done    bool          // the store does what it asked, and it never hears of it
	stops   bool          // its tools and its supervisor end with it; else they go on for the rest of their lease
	restart time.Duration // after which another takes its place; 0: none does
}

// lawsSpec is a drawn tool.
type lawsSpec struct {
	name                                                string
	effect                                              toolexec.Effect
	marks, asksMark, cooperative, oneRequest, ref       bool
	approval, ignoresNote, plainRejects, stringsOnly    bool
	verified, authoritative, unverifiable, obeysContext bool
	nests                                               bool // it calls other tools
	settle, dedupe                                      time.Duration
	policy                                              toolexec.Policy
	lifetime                                            int
	confirm, drops, seals                               bool // only where there are supervisors
}

// lawsSupervision is the supervisor of one process.
type lawsSupervision struct {
	runs    bool // Run; else single passes
	none    bool // or neither
	every   time.Duration
	workers int
	rerun   lawsRerun
}

// lawsRerun is a host's Rerun.
type lawsRerun uint8

const (
	lawsRerunsNone  lawsRerun = iota // nil
	lawsRerunsAll                    // also what is repeated without a ref
	lawsRerunsNamed                  // some of those that a host or a tool names
)

func (c *lawsConfig) faulty() bool { return c.errBefore > 0 || c.errAfter > 0 || c.bound > 0 }

// slip is by how much a wait that the store's clock measures can be too short: the clock jumps ahead, or another process
// reads another one. What a tool declares (Settle) has to include it.
func (c *lawsConfig) slip() (by time.Duration) {
	for _, j := range c.clock.jumps {
		by += max(j.by, 0)
	}
	if len(c.clock.skews) > 0 {
		by += max(slices.Max(c.clock.skews), 0) - min(slices.Min(c.clock.skews), 0)
	}
	return by
}

// slack is how much later an instant of an answer may lie than that of its record: the store was slow in between, or its
// clock slipped.
func (c *lawsConfig) slack() time.Duration { return 20*c.latency + c.slip() }

func lawsPick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func drawLaws(s lawsSchedule) lawsConfig {
	r := rand.New(rand.NewPCG(s.seed, 0))
	one := func(in int) bool { return r.IntN(in) == 0 }
	c := lawsConfig{
		lawsParts: newLawsParts(s), seed: s.seed, leased: one(2), procs: 1 + r.IntN(3), agents: 2 + r.IntN(3),
		hang: lawsPick(r, 4*time.Second, 20*time.Second, 70*time.Second),
	}
	if one(3) {
		c.errBefore, c.errAfter = lawsPick(r, 0, 0.03, 0.1), lawsPick(r, 0, 0.03, 0.1)
	}
	c.together = one(3)
	if one(4) {
		c.latency = 50 * time.Millisecond
	}
	if one(4) {
		c.oddObserver = 1 + r.IntN(3)
	}
	if one(6) {
		c.budget = toolexec.RetryBudget{Burst: 1 + r.IntN(3), PerSecond: lawsPick(r, 0, -1, 0.1)}
	}
	c.oddClassifier = one(6)
	for n := range 3 + r.IntN(3) {
		c.tools = append(c.tools, drawLawsTool(r, n, c.leased))
	}
	c.drawSupervision(rand.New(rand.NewPCG(s.seed, 1)))
	if c.leased {
		c.drawDatabase(rand.New(rand.NewPCG(s.seed, 2)))
	}
	c.reduce()
	return c
}

// drawDatabase draws what only happens where records outlive a process.
func (c *lawsConfig) drawDatabase(r *rand.Rand) {
	one := func(in int) bool { return r.IntN(in) == 0 }
	for range c.procs {
		var k lawsKill
		if one(2) {
			k = lawsKill{at: time.Duration(1+r.IntN(20_000)) * time.Millisecond, stops: one(2), done: one(2)}
			if one(2) {
				k.at, k.op = 60*time.Second, 1+r.IntN(40)
			}
			if one(2) || c.procs == 1 {
				k.restart = time.Duration(1+r.IntN(20_000)) * time.Millisecond
			}
		}
		c.kills = append(c.kills, k)
	}
	if !slices.ContainsFunc(c.kills, func(k lawsKill) bool { return k.at == 0 || k.restart > 0 }) {
		c.kills[0].restart = 3 * time.Second // somebody has to live
	}
	if c.forgets = one(4); one(12) {
		c.bound = 2 + r.IntN(5)
	}
	if lawsClocks {
		c.drawClock(r)
	}
}

// What is drawn of clocks. False where the library does not hold the laws yet.
const (
	// A store's clock is not that of the processes. A call that continues an operation which it was handed, by another call of
	// its process or by a listing, has to take the store's time from it.
	lawsClocks = true
	// And it jumps, as an operator or NTP makes it.
	lawsClocksJump = true
	// Or it shows each process another time. False: the contract of a Store knows one clock, and none of ours has more.
	lawsClocksSkewed = false
)

func (c *lawsConfig) drawClock(r *rand.Rand) {
	one := func(in int) bool { return r.IntN(in) == 0 }
	c.clock.ahead = lawsPick(r, 0, 0, 7*time.Hour, -7*time.Hour)
	if !lawsClocksJump {
		return
	}
	for one(3) {
		at := time.Duration(r.IntN(60_000)) * time.Millisecond
		c.clock.jumps = append(c.clock.jumps, lawsJump{at, lawsPick(r, time.Second, -time.Second, -10*time.Second, -5*time.Minute)})
		if c.slip() > time.Second { // the lease of a lost owner has to outlive what it sends
			c.clock.jumps = c.clock.jumps[:len(c.clock.jumps)-1]
			break
		}
	}
	if lawsClocksSkewed && one(4) && c.slip() == 0 {
		for range c.procs {
			c.clock.skews = append(c.clock.skews, lawsPick(r, 0, 400*time.Millisecond, -400*time.Millisecond))
		}
	}
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
	s.nests = one(6)
	s.policy = drawLawsPolicy(r)
	if leased && s.marks && one(3) { // the fence has to hold where no deadline does
		s.policy.Deadline, s.policy.TotalDeadline = -1, -1
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

func (c *lawsConfig) drawSupervision(r *rand.Rand) {
	if c.supervised = r.IntN(6) > 0; !c.supervised {
		return
	}
	reruns := []lawsRerun{lawsRerunsNone, lawsRerunsNamed}
	if r.IntN(3) == 0 {
		reruns = append(reruns, lawsRerunsAll)
	}
	for range c.procs {
		c.supervisors = append(c.supervisors, lawsSupervision{
			runs: r.IntN(3) > 0, none: r.IntN(5) == 0, every: lawsPick(r, 0, 200*time.Millisecond, 5*time.Second, 20*time.Second),
			workers: lawsPick(r, 0, 0, -1, 2), rerun: lawsPick(r, reruns...),
		})
	}
	c.claims = c.leased && r.IntN(3) == 0
	for _, s := range c.tools {
		s.confirm = s.verified && r.IntN(4) == 0
		if s.writes() && !s.approval {
			s.drops, s.seals = r.IntN(8) == 0, r.IntN(8) == 0
		}
	}
}

// reduce leaves out what the schedule does not have.
func (c *lawsConfig) reduce() {
	p := c.lawsParts
	for c.procs > 1 && !p.has("proc", c.procs-1) {
		c.procs--
	}
	if lawsKeep(p, &c.leased, false, "leased"); !c.leased {
		c.clock, c.kills, c.claims, c.forgets, c.bound = lawsClock{}, nil, false, false, 0
	}
	lawsKeep(p, &c.together, false, "together")
	lawsKeep(p, &c.latency, 0, "latency")
	lawsKeep(p, &c.hang, 4*time.Second, "hang")
	lawsKeep(p, &c.budget, toolexec.RetryBudget{}, "budget")
	lawsKeep(p, &c.oddObserver, 0, "observer")
	lawsKeep(p, &c.oddClassifier, false, "classifier")
	lawsKeep(p, &c.forgets, false, "forgets")
	lawsKeep(p, &c.bound, 0, "bound")
	lawsKeep(p, &c.clock.ahead, 0, "ahead")
	c.clock.skews = c.clock.skews[:min(c.procs, len(c.clock.skews))]
	for n := range c.clock.skews {
		lawsKeep(p, &c.clock.skews[n], 0, "skew", n)
	}
	for n := range c.clock.jumps {
		lawsKeep(p, &c.clock.jumps[n], lawsJump{}, "jump", n)
	}
	c.kills = c.kills[:min(c.procs, len(c.kills))]
	for n := range c.kills {
		k := &c.kills[n]
		if lawsKeep(p, k, lawsKill{}, "kill", n); k.at == 0 {
			continue
		}
		lawsKeep(p, &k.op, 0, "kill", n, ".op")
		if c.procs > 1 && slices.ContainsFunc(c.kills, func(k lawsKill) bool { return k.at == 0 }) {
			lawsKeep(p, &k.restart, 0, "kill", n, ".restart")
		}
	}
	c.reduceSupervision()
	for n, s := range c.tools {
		s.reduce(p, fmt.Sprint("tool", n))
	}
}

func (c *lawsConfig) reduceSupervision() {
	p := c.lawsParts
	if lawsKeep(p, &c.supervised, false, "supervised"); !c.supervised {
		c.supervisors, c.claims = nil, false
	}
	lawsKeep(p, &c.claims, false, "claims")
	c.supervisors = c.supervisors[:min(c.procs, len(c.supervisors))]
	for n := range c.supervisors {
		s := &c.supervisors[n]
		if !s.none && !p.has("supervisor", n) {
			s.none = true
		}
		lawsKeep(p, &s.every, 0, "supervisor", n, ".every")
		lawsKeep(p, &s.workers, -1, "supervisor", n, ".workers")
		lawsKeep(p, &s.rerun, lawsRerunsNone, "supervisor", n, ".rerun")
	}
}

func (s *lawsSpec) reduce(p *lawsParts, name string) {
	lawsKeep(p, &s.effect, toolexec.Write, name, ".", s.effect) // its reads become writes: intents pick tools by number
	for _, trait := range []struct {
		name string
		of   *bool
	}{
		{"marks", &s.marks}, {"asksMark", &s.asksMark}, {"cooperative", &s.cooperative}, {"oneRequest", &s.oneRequest},
		{"ref", &s.ref}, {"approval", &s.approval}, {"ignoresNote", &s.ignoresNote}, {"plainRejects", &s.plainRejects},
		{"stringsOnly", &s.stringsOnly}, {"verified", &s.verified}, {"authoritative", &s.authoritative},
		{"unverifiable", &s.unverifiable}, {"obeysContext", &s.obeysContext}, {"nests", &s.nests}, {"confirm", &s.confirm},
		{"drops", &s.drops}, {"seals", &s.seals},
	} {
		lawsKeep(p, trait.of, false, name, ".", trait.name)
	}
	if !s.verified {
		s.authoritative, s.confirm = false, false
	}
	if s.effect == toolexec.Write {
		s.dedupe = 0
	}
	lawsKeep(p, &s.dedupe, 0, name, ".dedupe")
	lawsKeep(p, &s.settle, toolexec.DefaultSettle, name, ".settle")
	var plain toolexec.Policy
	lawsKeep(p, &s.policy.Deadline, plain.Deadline, name, ".deadline")
	lawsKeep(p, &s.policy.TotalDeadline, plain.TotalDeadline, name, ".total")
	lawsKeep(p, &s.policy.MaxRetries, plain.MaxRetries, name, ".retries")
	lawsKeep(p, &s.policy.MaxAttempts, plain.MaxAttempts, name, ".attempts")
	lawsKeep(p, &s.policy.MaxAbandon, plain.MaxAbandon, name, ".abandon")
	lawsKeep(p, &s.policy.MaxAbandoned, plain.MaxAbandoned, name, ".abandoned")
	if s.lifetime = s.policy.MaxAttempts; s.lifetime == 0 {
		s.lifetime = toolexec.DefaultMaxAttempts
	}
}
