package toolexec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ckFault is a guard that lacks one thing.
type ckFault struct {
	name  string
	law   string // how the violation begins; the machine's arrows are let go unless it is about them
	cfg   ckConfig
	plant func(*ckRules)
}

// onTool wraps begin and verified with another tool's facts.
func onTool(change func(*machine)) func(*ckRules) {
	changed := func(m *machine) *machine {
		other := *m
		change(&other)
		return &other
	}
	return func(k *ckRules) {
		k.begin = func(m *machine, r *Record, in *intent, now time.Time) move { return changed(m).begin(r, in, now) }
		k.verified = func(m *machine, r *Record, l *lookup, _ time.Time) { changed(m).verified(r, l) }
	}
}

// onBegin, onApply and onLookup act before the library's function does.
func onBegin(before func(*Record, *intent, time.Time)) func(*ckRules) {
	return func(k *ckRules) {
		k.begin = func(m *machine, r *Record, in *intent, now time.Time) move {
			other := *in
			before(r, &other, now)
			return m.begin(r, &other, now)
		}
	}
}

func onApply(before func(*machine, *Record, *report)) func(*ckRules) {
	return func(k *ckRules) {
		k.apply = func(m *machine, r *Record, rep *report) bool {
			before(m, r, rep)
			return m.apply(r, rep)
		}
	}
}

func onLookup(before func(*lookup, time.Time)) func(*ckRules) {
	return func(k *ckRules) {
		k.verified = func(m *machine, r *Record, l *lookup, now time.Time) {
			other := *l
			before(&other, now)
			m.verified(r, &other)
		}
	}
}

// forgetful lets the last report win.
func forgetful(_ *machine, r *Record, rep *report) {
	if r.State == StateCommitted && rep.committed == "" {
		r.State, r.Nonce = StateInFlight, rep.nonce
	}
}

var (
	ckWrite    = ckConfig{inputs: ckPlain, calls: 1, attempts: 3, verify: true, abandon: true, crash: true}
	ckMarks    = ckConfig{inputs: ckPlain, calls: 1, attempts: 3, verify: true, marks: true, abandon: true, crash: true}
	ckRepeats  = ckConfig{inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 3, abandon: true, refuse: true}
	ckApproved = ckConfig{inputs: ckApprovals, calls: 2, attempts: 3, refuse: true}
)

func (c ckConfig) with(change func(*ckConfig)) ckConfig {
	change(&c)
	return c
}

var ckFaults = []ckFault{
	{
		"absence is believed at once", "L", ckWrite,
		onLookup(func(l *lookup, _ time.Time) { l.started = ckTime(1 << 16) }),
	},
	{
		"a live attempt does not keep the settle window open", "L", ckWrite,
		onApply(func(m *machine, _ *Record, rep *report) {
			for i := range rep.open {
				rep.open[i].Settles = In(m.settle)
			}
		}),
	},
	{
		"absence counts as of the end of the look-up", "L", ckWrite.with(func(c *ckConfig) { c.stale = true }),
		onLookup(func(l *lookup, now time.Time) { l.started = now }),
	},
	{
		"a failed look-up is absence", "L2", ckWrite.with(func(c *ckConfig) { c.probes = true }),
		onLookup(func(l *lookup, _ time.Time) {
			if l.failed {
				l.failed, l.verdict = false, NoEffect
			}
		}),
	},
	{
		"a lagging verifier is believed", "L2", ckWrite.with(func(c *ckConfig) { c.lagging = true }),
		onTool(func(m *machine) { m.authoritative = true }),
	},
	{"the store ignores versions", "L2", ckWrite, func(k *ckRules) { k.unfenced = true }},
	{"the tool is invoked before the record says so", "L2", ckWrite, func(k *ckRules) { k.eager = true }},
	{"a late failure overwrites committed", "L3", ckWrite, onApply(forgetful)},
	{"a late failure overwrites committed, by its arrow", "the machine has no arrow committed", ckWrite, onApply(forgetful)},
	{
		"an attempt's evidence replaces that of earlier ones", "L2", ckRepeats,
		onApply(func(_ *machine, r *Record, _ *report) { r.Unresolved = nil }),
	},
	{
		"late evidence takes one off a count", "L", ckMarks,
		onApply(func(_ *machine, r *Record, rep *report) {
			if r.State == StateUnknown && len(rep.open) == 0 && len(r.Unresolved) > 0 {
				r.Unresolved = r.Unresolved[1:]
			}
		}),
	},
	{
		"a lost owner's attempt is forgotten", "L", ckWrite,
		onBegin(func(r *Record, _ *intent, now time.Time) {
			if r.State == StateInFlight && leaseOver(r, now) {
				r.State = StateReleased
			}
		}),
	},
	{
		"a lost owner's mark is forgotten", "L", ckMarks,
		onBegin(func(r *Record, _ *intent, _ time.Time) { r.Sent = false }),
	},
	{
		"an unknown write is sent again", "L", ckWrite,
		onBegin(func(r *Record, _ *intent, _ time.Time) {
			if r.State == StateUnknown {
				r.State = StateReleased
			}
		}),
	},
	{
		"an approval is good for any arguments", "L5", ckApproved,
		onBegin(func(r *Record, in *intent, _ time.Time) {
			if r.Approval != nil {
				in.digest = r.Approval.Digest
			}
		}),
	},
	{
		"an approval is never spent", "L5", ckApproved,
		onBegin(func(r *Record, _ *intent, _ time.Time) {
			if r.Approval != nil {
				r.Approval.Spent = false
			}
		}),
	},
	{
		"the lifetime budget is ignored", "L5", ckWrite.with(func(c *ckConfig) { c.calls, c.attempts = 2, 2 }),
		onTool(func(m *machine) { m.maxAttempts = 9 }),
	},
	{
		"corrections are not counted", "L5",
		ckConfig{inputs: ckCorrections, calls: 2, attempts: 4, invalid: true}.with(func(c *ckConfig) {
			c.inputs = append(c.inputs[:2:2], ckInput{json: `{"amount":3}`, identity: "4"})
		}),
		onTool(func(m *machine) { m.maxCorrect = 9 }),
	},
	{
		"not_before is ignored", "L5", ckWrite.with(func(c *ckConfig) { c.refuse, c.wait = true, true }),
		onBegin(func(r *Record, _ *intent, _ time.Time) { r.NotBefore = Instant{} }),
	},
	{
		"a person is believed too early", "L2", ckWrite.with(func(c *ckConfig) { c.people = true }),
		func(k *ckRules) {
			k.resolve = func(m *machine, r *Record, state CommitState, s Statement, now time.Time) error {
				s.Force = true
				return m.resolve(r, state, s, now)
			}
		},
	},
}

var (
	ckLed       = ckConfig{inputs: ckPlain, calls: 1, attempts: 2, supervise: true, verify: true, abandon: true, crash: true, replan: true}
	ckSleepy    = ckConfig{inputs: ckPlain, calls: 2, callers: 1, attempts: 2, supervise: true, sleepy: true, verify: true, crash: true, stale: true}
	ckForgotten = ckConfig{inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 3, supervise: true, reruns: 2, crash: true, dedupe: 1}
	ckReruns    = ckConfig{inputs: ckPlain, calls: 1, callers: 1, attempts: 3, supervise: true, rerun: true, reruns: 2, refuse: true, stale: true}
)

// onChange is call.change with another way to take owners for lost.
func onChange(reclaim func(c *call, r *Record) (lost bool)) func(*ckRules) {
	return func(k *ckRules) {
		k.change = func(c *call, apply func(*Record)) error {
			_, err := c.x.update(context.Background(), c.record, func(r *Record) error {
				if !reclaim(c, r) && r.State != StateUnknown {
					return errOwnerLost
				}
				apply(r)
				return nil
			})
			if errors.Is(err, errOwnerLost) {
				return nil
			}
			return err
		}
	}
}

// What supervisors could do wrong.
var ckLedFaults = []ckFault{
	{
		"a supervisor's look-up is not compared with the end of the lost owner's lease", "L2", ckSleepy,
		onChange(func(c *call, r *Record) bool {
			lost := c.t.reclaim(r, c.storeNow())
			for i := range r.Unresolved {
				if lost {
					r.Unresolved[i].Settles = At(ckBase)
				}
			}
			return lost
		}),
	},
	{
		"after a conflict the lease is not looked at again", "L7", ckLed.with(func(c *ckConfig) { c.stale, c.marks, c.replan = true, true, false }),
		onChange(func(c *call, r *Record) bool {
			if r.State != StateInFlight || !leaseOver(c.record, c.storeNow()) {
				return false
			}
			c.t.loseOwner(r)
			return true
		}),
	},
	{
		"an operation is given to a person before its window has closed", "L7", ckLed.with(func(c *ckConfig) { c.verify = false }),
		func(k *ckRules) { k.handOver = func(m *machine, r *Record, _ time.Time) { m.escalate(r, "") } },
	},
	{
		"an Idempotent one is sent again when its ref is forgotten", "L", ckForgotten,
		func(k *ckRules) {
			onTool(func(m *machine) { m.dedupeWindow = 0 })(k)
			k.resends = func(m *machine, r *Record, in *intent, now time.Time) bool {
				other := *m
				other.dedupeWindow = 0
				return other.mayResend(r, in, now)
			}
		},
	},
	{
		"a commit in the background is not marked as unheard of", "L1: planned again", ckLed,
		func(k *ckRules) { k.background = false },
	},
	{
		"two supervisors run it again without a compare-and-swap", "L", ckReruns,
		func(k *ckRules) { k.freeRuns = true },
	},
	{
		"a success counts before a look-up has confirmed it", "L2", ckLed.with(func(c *ckConfig) { c.confirm = true }),
		func(k *ckRules) { k.confirms = func() *Failure { return nil } },
	},
	{
		"a mark that was taken back still lets it send", "L", ckLed.with(func(c *ckConfig) { c.marks, c.takeBack = true, true }),
		func(k *ckRules) { k.sendsUnmarked = true },
	},
}

// TestCheckerFindsFaults shows that the checker can find what it looks for.
func TestCheckerFindsFaults(t *testing.T) {
	for _, f := range slices.Concat(ckFaults, ckLedFaults) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			rules := ckReal()
			if *checkerLarge {
				sound := newChecker(f.cfg, rules).explore(1_000_000)
				require.Empty(t, sound.law, "without the fault: %s", sound.told())
			}
			f.plant(&rules)
			k := newChecker(f.cfg, rules)
			k.lawsOnly = !strings.HasPrefix(f.law, "the machine")
			found := k.explore(300_000)
			t.Logf("after %d states: %s", found.states, found.told())
			require.NotEmpty(t, found.trace, "the fault was not found")
			assert.True(t, strings.HasPrefix(found.law, f.law), found.law)
			assert.LessOrEqual(t, len(found.trace), 20)
		})
	}
}

// TestCheckerFindsStuckOperations: a guard that learns nothing from absence
// leaves an operation unknown for ever.
func TestCheckerFindsStuckOperations(t *testing.T) {
	rules := ckReal()
	onLookup(func(l *lookup, _ time.Time) {
		if l.verdict == NoEffect {
			l.started = time.Time{}
		}
	})(&rules)
	found := newChecker(ckWrite, rules).explore(100_000)
	require.False(t, found.cut)
	require.Empty(t, found.law, found.told())
	assert.NotEmpty(t, found.stuck)
	t.Log(strings.Join(found.stuck, "\n"))
}
