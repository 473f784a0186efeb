package toolexec

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// the table ------------------------------------------------------------------

func ckSet(list ...ckArrow) map[ckArrow]bool {
	m := make(map[ckArrow]bool, len(list))
	for _, a := range list {
		m[a] = true
	}
	return m
}

// ckAllowed are all the arrows of the machine.
var ckAllowed = ckSet(
	ckArrow{StateAbsent, "begin", StateInFlight},
	ckArrow{StateAbsent, "begin", StateAwaitingApproval},
	ckArrow{StateReleased, "begin", StateInFlight},
	ckArrow{StateReleased, "begin", StateAwaitingApproval},
	ckArrow{StateReleased, "begin", StateEscalated}, // budget spent
	ckArrow{StateRejected, "begin", StateInFlight},
	ckArrow{StateRejected, "begin", StateAwaitingApproval},
	ckArrow{StateRejected, "begin", StateEscalated}, // corrections spent
	ckArrow{StateAwaitingApproval, "begin", StateInFlight},
	ckArrow{StateUnknown, "begin", StateInFlight},          // Idempotent
	ckArrow{StateUnknown, "begin", StateEscalated},         // Idempotent, budget spent
	ckArrow{StateInFlight, "begin", StateInFlight},         // owner lost, Idempotent; owner lost unmarked, and begun again
	ckArrow{StateInFlight, "begin", StateUnknown},          // owner lost
	ckArrow{StateInFlight, "begin", StateReleased},         // owner lost, unmarked
	ckArrow{StateInFlight, "begin", StateEscalated},        // owner lost, unverifiable
	ckArrow{StateInFlight, "begin", StateAwaitingApproval}, // owner lost, unmarked, and the approval has expired
	ckArrow{StateInFlight, "report", StateCommitted},
	ckArrow{StateInFlight, "report", StateReleased},
	ckArrow{StateInFlight, "report", StateRejected},
	ckArrow{StateInFlight, "report", StateUnknown},
	ckArrow{StateInFlight, "report", StateEscalated}, // budget spent; unverifiable
	ckArrow{StateUnknown, "report", StateCommitted},
	ckArrow{StateUnknown, "report", StateReleased},
	ckArrow{StateUnknown, "report", StateEscalated}, // it outlived every bound
	ckArrow{StateEscalated, "report", StateCommitted},
	ckArrow{StateUnknown, "look-up", StateCommitted},
	ckArrow{StateEscalated, "look-up", StateCommitted}, // given to a person meanwhile
	ckArrow{StateUnknown, "look-up", StateReleased},
	ckArrow{StateUnknown, "look-up", StateEscalated},
	ckArrow{StateUnknown, "look-up", StateInFlight}, // released, and begun at once
	ckArrow{StateUnknown, "look-up", StateAwaitingApproval},
	ckArrow{StateReleased, "look-up", StateInFlight}, // somebody else has released it
	ckArrow{StateReleased, "look-up", StateAwaitingApproval},
	ckArrow{StateReleased, "look-up", StateEscalated}, // budget spent
	ckArrow{StateUnknown, "resolve", StateCommitted},
	ckArrow{StateUnknown, "resolve", StateReleased},
	ckArrow{StateEscalated, "resolve", StateCommitted},
	ckArrow{StateEscalated, "resolve", StateReleased},
	ckArrow{StateAwaitingApproval, "deny", StateEscalated},
	ckArrow{StateRejected, "reopen", StateReleased},

	// What supervisors add: the loss of the owner and what was found are one.
	ckArrow{StateInFlight, "recover", StateUnknown},
	ckArrow{StateInFlight, "recover", StateReleased},
	ckArrow{StateInFlight, "recover", StateCommitted},
	ckArrow{StateInFlight, "recover", StateEscalated},
	ckArrow{StateUnknown, "recover", StateCommitted},
	ckArrow{StateEscalated, "recover", StateCommitted}, // given to a person meanwhile
	ckArrow{StateUnknown, "recover", StateReleased},
	ckArrow{StateUnknown, "recover", StateEscalated},
	ckArrow{StateReleased, "rerun", StateInFlight},
	ckArrow{StateReleased, "rerun", StateEscalated}, // budget spent
	ckArrow{StateReleased, "rerun", StateAwaitingApproval},
	ckArrow{StateAwaitingApproval, "rerun", StateInFlight},
	ckArrow{StateUnknown, "rerun", StateInFlight},  // Idempotent
	ckArrow{StateUnknown, "rerun", StateEscalated}, // and budget spent
	ckArrow{StateInFlight, "rerun", StateInFlight}, // owner lost, Idempotent
	ckArrow{StateInFlight, "rerun", StateEscalated},
)

// Every configuration has two workers. The large ones take minutes.
var ckConfigs = []ckConfig{
	{name: "write, verified", inputs: ckPlain, calls: 2, attempts: 3, verify: true, abandon: true, crash: true},
	{name: "write, verified, refused", inputs: ckPlain, calls: 2, attempts: 3, retries: 1, verify: true, crash: true, refuse: true, wait: true},
	{name: "write, verified, stale reads", inputs: ckPlain, calls: 1, attempts: 3, verify: true, abandon: true, crash: true, stale: true},
	{name: "write, verified, people", inputs: ckPlain, calls: 1, attempts: 2, verify: true, probes: true, abandon: true, outlive: true, crash: true, people: true},
	{name: "write, verified, outage", inputs: ckPlain, calls: 1, attempts: 3, verify: true, abandon: true, crash: true, outage: true},
	{name: "write, verified, paused", inputs: ckPlain, calls: 1, attempts: 3, verify: true, crash: true, pause: true},
	{name: "write, lagging verifier", inputs: ckPlain, calls: 2, attempts: 3, verify: true, lagging: true, crash: true},
	{name: "write, no verifier", inputs: ckPlain, calls: 2, attempts: 3, abandon: true, crash: true, people: true},
	{name: "write, declared unverifiable", inputs: ckPlain, calls: 2, attempts: 3, declared: true, abandon: true, crash: true, people: true},
	{name: "write, marks its commits", inputs: ckPlain, calls: 1, attempts: 2, verify: true, early: true, abandon: true, crash: true},
	{name: "write, marks its sends", inputs: ckPlain, calls: 2, attempts: 3, verify: true, marks: true, crash: true},
	{name: "write, marks its sends, abandoned", inputs: ckPlain, calls: 1, attempts: 3, verify: true, marks: true, abandon: true, crash: true},
	{name: "idempotent", inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 3, abandon: true, crash: true, refuse: true},
	{name: "idempotent, tries again", inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 3, retries: 1, crash: true, refuse: true},
	{name: "idempotent, verified", inputs: ckPlain, effect: Idempotent, calls: 2, attempts: 2, verify: true, crash: true},
	{name: "approval", inputs: ckApprovals, calls: 2, attempts: 3, verify: true, crash: true, refuse: true},
	{name: "approval, marks its sends", inputs: ckApprovals[:1], calls: 2, attempts: 3, verify: true, marks: true, crash: true},
	{name: "corrections", inputs: ckCorrections, calls: 2, attempts: 3, invalid: true, crash: true, people: true},
	{name: "approval and corrections", inputs: ckApprovedCorrections, calls: 2, attempts: 3, invalid: true},

	{name: "supervised", inputs: ckPlain, calls: 1, callers: 1, attempts: 2, supervise: true, verify: true, abandon: true, crash: true, replan: true},
	{name: "supervised, stale reads", inputs: ckPlain, calls: 1, callers: 1, attempts: 2, supervise: true, verify: true, crash: true, stale: true},
	{name: "supervised, look-ups fail or lag", inputs: ckPlain, calls: 1, callers: 1, attempts: 2, supervise: true, verify: true, lagging: true, probes: true, crash: true},
	{name: "supervised, paused", inputs: ckPlain, calls: 1, callers: 1, attempts: 2, supervise: true, verify: true, crash: true, pause: true},
	{name: "supervised, nobody can look it up", inputs: ckPlain, calls: 1, attempts: 2, supervise: true, abandon: true, crash: true},
	{name: "supervised, declared unverifiable", inputs: ckPlain, calls: 1, attempts: 2, supervise: true, declared: true, abandon: true, crash: true},
	{name: "supervised, marks its sends, and takes them back", inputs: ckPlain, calls: 1, callers: 1, attempts: 2, supervise: true, verify: true, marks: true, takeBack: true, abandon: true, crash: true},
	{name: "supervised, success is confirmed", inputs: ckPlain, calls: 1, callers: 1, attempts: 2, supervise: true, verify: true, confirm: true, abandon: true, crash: true, replan: true},
	{name: "run again", inputs: ckPlain, calls: 1, callers: 1, attempts: 2, supervise: true, rerun: true, reruns: 2, verify: true, crash: true, refuse: true, replan: true},
	{name: "run again, stale reads", inputs: ckPlain, calls: 1, callers: 1, attempts: 2, supervise: true, rerun: true, reruns: 2, refuse: true, stale: true},
	{name: "run again, approved", inputs: ckApprovals[:1], calls: 1, callers: 1, attempts: 3, supervise: true, rerun: true, reruns: 2, verify: true, crash: true, refuse: true},
	{name: "run again, idempotent", inputs: ckPlain, effect: Idempotent, calls: 1, callers: 1, attempts: 2, supervise: true, reruns: 2, crash: true, refuse: true},
	{name: "run again, idempotent, remembered for a while", inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 3, supervise: true, reruns: 2, crash: true, dedupe: 2},
	{name: "supervised, idempotent, verified, remembered for a while", inputs: ckPlain, effect: Idempotent, calls: 1, callers: 1, attempts: 2, supervise: true, reruns: 1, verify: true, crash: true, dedupe: 2},
	{name: "supervised, idempotent, without arguments", inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 2, supervise: true, drops: true, crash: true},

	{name: "write, verified, everything", inputs: ckPlain, calls: 2, attempts: 4, verify: true, probes: true, abandon: true, outlive: true, crash: true, people: true, large: true},
	{name: "write, verified, abandoned, paused", inputs: ckPlain, calls: 1, attempts: 3, verify: true, abandon: true, pause: true, large: true},
	{name: "write, marks its sends, tries again", inputs: ckPlain, calls: 1, attempts: 3, retries: 1, verify: true, marks: true, abandon: true, large: true},
	{name: "idempotent, tries again beside", inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 3, retries: 1, abandon: true, crash: true, refuse: true, large: true},
	{name: "supervised, look-ups fail or lag, two callers", inputs: ckPlain, calls: 1, attempts: 2, supervise: true, verify: true, lagging: true, probes: true, crash: true, large: true},
	{name: "run again, idempotent, two callers", inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 3, supervise: true, reruns: 2, crash: true, refuse: true, large: true},
	{name: "supervised, two callers", inputs: ckPlain, calls: 1, attempts: 2, supervise: true, verify: true, abandon: true, crash: true, replan: true, large: true},
	{name: "supervised, stale reads, two callers", inputs: ckPlain, calls: 1, attempts: 2, supervise: true, verify: true, crash: true, stale: true, large: true},
	{name: "supervised, paused, two callers", inputs: ckPlain, calls: 1, attempts: 2, supervise: true, verify: true, crash: true, pause: true, large: true},
	{name: "supervised, marks its sends, and takes them back, two callers", inputs: ckPlain, calls: 1, attempts: 2, supervise: true, verify: true, marks: true, takeBack: true, abandon: true, crash: true, large: true},
	{name: "supervised, success is confirmed, two callers", inputs: ckPlain, calls: 1, attempts: 2, supervise: true, verify: true, confirm: true, abandon: true, crash: true, replan: true, large: true},
	{name: "run again, two callers", inputs: ckPlain, calls: 1, attempts: 2, supervise: true, rerun: true, reruns: 2, verify: true, crash: true, refuse: true, replan: true, large: true},
	{name: "run again, stale reads, two callers", inputs: ckPlain, calls: 1, attempts: 2, supervise: true, rerun: true, reruns: 2, refuse: true, stale: true, large: true},
	{name: "run again, approved, two callers", inputs: ckApprovals[:1], calls: 1, attempts: 3, supervise: true, rerun: true, reruns: 2, verify: true, crash: true, refuse: true, large: true},
	{name: "supervised, idempotent, verified, remembered for a while, two callers", inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 2, supervise: true, reruns: 1, verify: true, crash: true, dedupe: 2, large: true},
}

func (f *ckFound) told() string { return f.law + "\n" + strings.Join(f.trace, "\n") }

func TestCheckerLaws(t *testing.T) {
	var mu sync.Mutex // protects what follows
	seen := map[ckArrow]int{}
	total := 0
	t.Cleanup(func() { // after the worlds, which are explored side by side
		for a := range ckAllowed {
			assert.NotZero(t, seen[a], "the models never took %s -- %s --> %s", a.from, a.event, a.to)
		}
		t.Logf("%d states in all", total)
	})
	for _, cfg := range ckConfigs {
		if cfg.large && !*checkerLarge {
			continue
		}
		t.Run(cfg.name, func(t *testing.T) {
			t.Parallel()
			k := newChecker(cfg, ckReal())
			found := k.explore(3_000_000)
			t.Logf("%d states, %d steps, %v", found.states, found.steps, found.took.Round(time.Millisecond))
			require.Empty(t, found.law, "%s", found.told())
			require.False(t, found.cut, "the model has more states")
			require.Empty(t, found.stuck, "stuck:\n%s", strings.Join(found.stuck, "\n"))
			mu.Lock()
			defer mu.Unlock()
			for a, n := range k.arrows {
				seen[a] += n
			}
			total += found.states
		})
	}
}
