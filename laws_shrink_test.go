package toolexec_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// lawsSchedule names a schedule: all of what a seed draws, or some parts of it. A part is whatever can be left out: a step
// of an agent, a process, a fault, a trait of a tool, an odd turn of the remote side. What is left out is as plain as can be
// (a run of a tool answers at once, a duration has its default), and changes nothing else that the seed draws.
type lawsSchedule struct {
	seed uint64
	only []string // nil: all
}

// String is what -laws.plan takes.
func (s lawsSchedule) String() string {
	if s.only == nil {
		return strconv.FormatUint(s.seed, 10)
	}
	return strings.TrimSpace(fmt.Sprintf("%d: %s", s.seed, strings.Join(s.only, " ")))
}

func parseLawsSchedule(text string) (lawsSchedule, error) {
	number, parts, some := strings.Cut(text, ":")
	seed, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
	if err != nil {
		return lawsSchedule{}, errors.New("a plan is <seed>, or <seed>: <part> <part> …")
	}
	s := lawsSchedule{seed: seed}
	if some {
		s.only = append([]string{}, strings.Fields(parts)...)
	}
	return s, nil
}

// lawsParts are the parts of one schedule.
type lawsParts struct {
	mu    sync.Mutex      // protects what follows
	only  map[string]bool // nil: all
	asked map[string]int  // those that it has, in the order in which they were first asked for
}

func newLawsParts(s lawsSchedule) *lawsParts {
	p := &lawsParts{asked: map[string]int{}}
	if s.only != nil {
		p.only = map[string]bool{}
	}
	for _, part := range s.only {
		p.only[part] = true
	}
	return p
}

// has reports whether the schedule has a part, which is what the shrinker knows of it: whatever is asked for here can be
// left out.
func (p *lawsParts) has(name ...any) bool {
	part := fmt.Sprint(name...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.only != nil && !p.only[part] {
		return false
	}
	if _, known := p.asked[part]; !known {
		p.asked[part] = len(p.asked)
	}
	return true
}

// used returns the parts that the schedule has.
func (p *lawsParts) used() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	parts := make([]string, 0, len(p.asked))
	for part := range p.asked {
		parts = append(parts, part)
	}
	slices.SortFunc(parts, func(a, b string) int { return cmp.Compare(p.asked[a], p.asked[b]) })
	return parts
}

// lawsKeep sets what was drawn to what is simplest, unless the schedule has that part.
func lawsKeep[T comparable](p *lawsParts, v *T, simplest T, name ...any) {
	if *v != simplest && !p.has(name...) {
		*v = simplest
	}
}

const (
	lawsTries = 3    // plays before a schedule is said to keep a law
	lawsPlays = 1500 // plays of one reduction
)

// lawsShrink reduces s while what is left of it breaks law, and returns what is left, and its last world; no world when s
// does not break it again.
func lawsShrink(s lawsSchedule, law string, play func(lawsSchedule) *lawsWorld) (least lawsSchedule, found *lawsWorld) {
	plays := 0
	fails := func(parts []string) []string {
		for range lawsTries {
			if plays++; plays > lawsPlays {
				return nil
			}
			if w := play(lawsSchedule{s.seed, parts}); w.breaks(law) {
				found = w
				return w.cfg.used()
			}
		}
		return nil
	}
	parts := fails(s.only)
	if parts == nil {
		return s, nil
	}
	return lawsSchedule{s.seed, lawsMinimal(parts, fails)}, found
}

// lawsMinimal takes away from parts, first many at once and then one by one, while the rest fails. fails returns those of the
// parts that it has used, or nil when they do not fail. (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
// Input", 2002.)
func lawsMinimal(parts []string, fails func(parts []string) []string) []string {
	for size := len(parts); size > 0; {
		shorter := false
		for end := len(parts); end > 0; end = min(end-size, len(parts)) {
			rest := append(append([]string{}, parts[:max(end-size, 0)]...), parts[end:]...)
			if used := fails(rest); used != nil {
				parts, shorter = used, true
			}
		}
		if size > 1 || !shorter {
			size = min(size/2, max(len(parts), 1))
		}
	}
	return parts
}

// the shrinker itself -------------------------------------------------------------------

func TestLawsMinimalFindsWhatIsNeeded(t *testing.T) {
	var parts []string
	for i := range 100 {
		parts = append(parts, strconv.Itoa(i))
	}
	for _, needed := range [][]string{{}, {"0"}, {"99"}, {"3", "4"}, {"0", "17", "50", "99"}, parts} {
		runs := 0
		got := lawsMinimal(parts, func(some []string) []string {
			runs++
			for _, n := range needed {
				if !slices.Contains(some, n) {
					return nil
				}
			}
			return some
		})
		require.Equal(t, needed, got)
		assert.LessOrEqual(t, runs, 210, "%v", needed)
	}
}

func TestLawsScheduleIsText(t *testing.T) {
	for _, s := range []lawsSchedule{{seed: 17}, {seed: 17, only: []string{}}, {seed: 3, only: []string{"agent0.3", "run2.1"}}} {
		back, err := parseLawsSchedule(s.String())
		require.NoError(t, err)
		require.Equal(t, s, back)
	}
	_, err := parseLawsSchedule("agent0.3")
	require.Error(t, err)
}

// A schedule without parts is quiet: nobody calls anything.
func TestLawsScheduleWithoutParts(t *testing.T) {
	for seed := range uint64(20) {
		w := lawsSchedule{seed, []string{}}.play(t, nil)
		require.Empty(t, w.violations)
		require.Zero(t, w.calls)
		require.Empty(t, w.cfg.used())
	}
}

// lawsLoses is a store that breaks a rule of its contract.
type lawsLoses struct {
	toolexec.Store
	swaps bool // a Save that lost the comparison is stored all the same
	parts bool // the attempts that nobody knows the end of are not stored
}

func (s *lawsLoses) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	if s.parts {
		r.Unresolved = nil
	}
	out, err := s.Store.Save(ctx, r)
	if s.swaps && errors.Is(err, toolexec.ErrConflict) {
		r.Version = out.Version
		return s.Store.Save(ctx, r)
	}
	return out, err
}

// A store that breaks its contract is found, and the schedule that shows it is short.
func TestLawsShrinkABrokenStore(t *testing.T) {
	for _, tt := range []struct {
		name  string
		store lawsLoses
	}{
		{"a lost comparison is stored", lawsLoses{swaps: true}},
		{"attempts in doubt are not stored", lawsLoses{parts: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			play := func(s lawsSchedule) *lawsWorld {
				return s.play(t, func(sound toolexec.Store) toolexec.Store {
					return &lawsLoses{sound, tt.store.swaps, tt.store.parts}
				})
			}
			least, found := lawsShrink(lawsBreaks(t, "L1", play), "L1", play)
			require.NotNil(t, found)
			assert.True(t, found.breaks("L1"))
			t.Log(least)
			assert.LessOrEqual(t, len(least.only), 15, "%s", least)
			assert.LessOrEqual(t, found.calls, 5, "%s", found.story())
		})
	}
}

// lawsBreaks returns the first schedule that breaks law.
func lawsBreaks(t *testing.T, law string, play func(lawsSchedule) *lawsWorld) lawsSchedule {
	t.Helper()
	for seed := range uint64(200) {
		s := lawsSchedule{seed: seed + 1}
		if play(s).breaks(law) {
			return s
		}
	}
	require.FailNow(t, "nothing breaks "+law)
	return lawsSchedule{}
}
