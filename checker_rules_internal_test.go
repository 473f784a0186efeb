package toolexec

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// The second input needs no approval.
var ckSometimesApproved = []ckInput{
	{json: `{"amount":1000}`, identity: "1", approval: true},
	{json: `{"amount":2}`, identity: "2"},
}

var ckOther = []ckInput{
	{json: `{"amount":1}`, identity: "1"},
	{json: `{"amount":2}`, identity: "2"},
}

// Each of these is the smallest world that needs one rule.
var ckRuled = []ckConfig{
	// The report of an owner that was lost names its running attempt, or
	// evidence about an earlier one releases the operation beneath it.
	{name: "late evidence beside a running attempt", inputs: ckPlain, calls: 1, attempts: 2, retries: 1, verify: true, marks: true, abandon: true, pause: true},
	{name: "late evidence beside a running attempt, idempotent", inputs: ckPlain, effect: Idempotent, calls: 1, attempts: 2, retries: 1, abandon: true, pause: true},
	// After its look-up, or its end, a call compares fingerprints before it takes
	// a commit for its own.
	{name: "a commit of other arguments", inputs: ckOther, calls: 1, attempts: 3, verify: true},
	// A proven unsent ownership gives back the approval that it spent, and none
	// that another ownership did.
	{name: "an approval given back by somebody else", inputs: ckSometimesApproved, calls: 2, attempts: 4, refuse: true},
	// What a look-up has settled is not reported again, or it stays on a released record.
	{name: "a settled attempt is reported again", inputs: ckPlain, calls: 1, attempts: 3, verify: true, outage: true},
	// A live attempt does not report itself on a record that was released meanwhile.
	{name: "a live attempt on a released record", inputs: ckPlain, calls: 1, attempts: 2, verify: true, abandon: true, pause: true},
}

func TestCheckerRules(t *testing.T) {
	for _, cfg := range ckRuled {
		t.Run(cfg.name, func(t *testing.T) {
			t.Parallel()
			found := newChecker(cfg, ckReal()).explore(30_000)
			t.Logf("%d states, %d steps, %v", found.states, found.steps, found.took.Round(time.Millisecond))
			assert.Empty(t, found.law, "%s", found.told())
		})
	}
}

// ckDurable is a store that outlives its process: owners can be lost.
type ckDurable struct{ m *MemoryStore }

func (d ckDurable) Load(ctx context.Context, key Key) (Record, error)  { return d.m.Load(ctx, key) }
func (d ckDurable) Save(ctx context.Context, r Record) (Record, error) { return d.m.Save(ctx, r) }
func (d ckDurable) List(ctx context.Context, q Query) ([]Record, Cursor, error) {
	return d.m.List(ctx, q)
}

// The model assumes that a healthy owner keeps its lease.
func TestCheckerLongAttemptKeepsItsLease(t *testing.T) {
	for name, change := range map[string]func(*Tool[struct{}, int]){
		"no deadlines":                         func(tl *Tool[struct{}, int]) { tl.Policy = Policy{Deadline: -1, TotalDeadline: -1} },
		"cooperative, and deaf to its context": func(tl *Tool[struct{}, int]) { tl.Cooperative = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var effects atomic.Int64
				store := ckDurable{new(MemoryStore)}
				process := func() *Bound[struct{}, int] {
					tl := Tool[struct{}, int]{
						Name: "charge",
						Run: func(context.Context, struct{}) (int, error) {
							time.Sleep(2 * time.Minute)
							return int(effects.Add(1)), nil
						},
						Verify: &Verifier[struct{}, int]{Authoritative: true, Lookup: func(context.Context, string, struct{}) (Finding[int], error) {
							if n := effects.Load(); n > 0 {
								return Found(int(n)), nil
							}
							return Absent[int](), nil
						}},
					}
					change(&tl)
					return Bind(&Executor{Store: store}, tl)
				}
				ctx := WithOperationRef(t.Context(), "op")
				go process().Call(ctx, struct{}{})
				time.Sleep(time.Minute) // both processes are healthy all the time
				second := process().Call(ctx, struct{}{})
				time.Sleep(5 * time.Minute)
				assert.EqualValues(t, 1, effects.Load(), "the second caller was told %s, %s", second.Code, second.CommitState)
			})
		})
	}
}

// ckIn returns a context of one run and the operation op.
func ckIn(t *testing.T, run string) context.Context {
	t.Helper()
	return WithRunID(WithOperationRef(t.Context(), "op"), run)
}

// A run that was refused before must not be told not_committed of an
// Idempotent operation that another run has left unknown since.
func TestCheckerRefusedRunIsToldUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []error{Rejected(CodeConflict, nil), InDoubt(nil)}
		runs := 0
		b := Bind(new(Executor), Tool[struct{}, int]{
			Name: "charge", Effect: Idempotent, Policy: Policy{MaxRetries: -1},
			Run: func(context.Context, struct{}) (int, error) { runs++; return 0, answers[runs-1] },
		})
		assert.Equal(t, NotCommitted, b.Call(ckIn(t, "1"), struct{}{}).CommitState)
		assert.Equal(t, CommitUnknown, b.Call(ckIn(t, "2"), struct{}{}).CommitState)
		env := b.Call(ckIn(t, "1"), struct{}{})
		assert.Equal(t, CommitUnknown, env.CommitState, "%s", env.Code)
	})
}

// After its dedupe window an Idempotent tool is treated as a Write, within a
// call as well.
func TestCheckerRetryKeepsTheDedupeWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		b := Bind(new(Executor), Tool[struct{}, int]{
			Name: "charge", Effect: Idempotent, DedupeWindow: 100 * time.Millisecond, // the first pause is longer
			Run: func(context.Context, struct{}) (int, error) { runs++; return 0, InDoubt(nil) },
		})
		b.Call(ckIn(t, "1"), struct{}{})
		assert.Equal(t, 1, runs)
	})
}

// The stricter of the tool's present effect and the stored one decides on a
// retry, within a call as well.
func TestCheckerRetryKeepsTheStoredEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(MemoryStore)
		tl := Tool[struct{}, int]{Name: "charge", Policy: Policy{MaxRetries: -1}, Run: func(context.Context, struct{}) (int, error) {
			return 0, NotSent(nil)
		}}
		Bind(&Executor{Store: store}, tl).Call(ckIn(t, "1"), struct{}{}) // stored as a Write
		time.Sleep(time.Minute)                                          // past its not_before
		runs := 0
		tl.Effect, tl.Policy = Idempotent, Policy{}
		tl.Run = func(context.Context, struct{}) (int, error) { runs++; return 0, InDoubt(nil) }
		Bind(&Executor{Store: store}, tl).Call(ckIn(t, "1"), struct{}{})
		assert.Equal(t, 1, runs)
	})
}
