package toolexectest_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

func TestLedgerCounts(t *testing.T) {
	type request struct {
		ref   string
		value any
	}
	twice := []request{{"a", 1}, {"b", 2}, {"a", 3}}
	unnamed := []request{{"", 1}, {"", 2}}
	for name, c := range map[string]struct {
		dedupe   bool
		requests []request
		answers  []int // the entry each request got
		effects  map[string]int
		arrived  map[string]int
	}{
		"every request has its effect":        {false, twice, []int{1, 2, 3}, map[string]int{"a": 2, "b": 1, "c": 0}, map[string]int{"a": 2, "b": 1, "c": 0}},
		"one effect a ref":                    {true, twice, []int{1, 2, 1}, map[string]int{"a": 1, "b": 1, "c": 0}, map[string]int{"a": 2, "b": 1, "c": 0}},
		"without a ref there is no dedupe":    {true, unnamed, []int{1, 2}, map[string]int{"": 2}, map[string]int{"": 2}},
		"all without a ref are counted there": {false, unnamed, []int{1, 2}, map[string]int{"": 2}, map[string]int{"": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := toolexectest.Ledger{Dedupe: c.dedupe}
				var answers []int
				for _, r := range c.requests {
					answers = append(answers, l.Record(r.ref, r.value).N)
				}
				assert.Equal(t, c.answers, answers)
				total := 0
				for ref, n := range c.effects {
					assert.Equal(t, n, l.Effects(ref), ref)
					assert.Equal(t, c.arrived[ref], l.Requests(ref), ref)
					total += n
				}
				assert.Equal(t, total, l.Total())
				assert.Len(t, l.Entries(), total)
				assert.Equal(t, toolexectest.Entry{N: 1, Ref: c.requests[0].ref, Value: 1, At: time.Now()}, l.Entries()[0])
			})
		})
	}
}

func TestLedgerEntriesAreTheCallersOwn(t *testing.T) {
	var l toolexectest.Ledger
	assert.Empty(t, l.Entries())
	l.Record("a", 1)
	l.Entries()[0].Ref = "changed"
	assert.Equal(t, "a", l.Entries()[0].Ref)
}

func TestLedgerUnderConcurrency(t *testing.T) {
	l := toolexectest.Ledger{Dedupe: true}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { assert.Equal(t, 1, l.Record("a", nil).N) })
	}
	wg.Wait()
	assert.Equal(t, 1, l.Effects("a"))
	assert.Equal(t, 50, l.Requests("a"))
}

func TestLedgerLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := toolexectest.Ledger{Lag: 5 * time.Second}
		look := toolexectest.Lookup[int, string](&l)
		find := func(ref string) toolexec.Finding[string] {
			f, err := look(t.Context(), ref, 0)
			require.NoError(t, err)
			return f
		}
		assert.Equal(t, toolexec.Absent[string](), find("a"))

		l.Record("a", "receipt")
		l.Record("b", "one")
		time.Sleep(5*time.Second - time.Nanosecond)
		assert.Equal(t, toolexec.Absent[string](), find("a"), "the copy lags")
		assert.Equal(t, 1, l.Effects("a"), "the fact does not")
		l.Record("b", "two")
		time.Sleep(time.Nanosecond)

		found := toolexec.Found("receipt")
		found.EvidenceRef = "entry-1"
		assert.Equal(t, found, find("a"))
		found = toolexec.Found("one")
		found.EvidenceRef = "entry-2"
		assert.Equal(t, found, find("b"))
		time.Sleep(5 * time.Second)
		assert.Equal(t, toolexec.Conflicting[string](), find("b"))

		l.Lag = 0
		l.Record("c", 1)
		_, err := look(t.Context(), "c", 0)
		assert.EqualError(t, err, `toolexectest: the ledger holds a int under ref "c", not a result`)
	})
}

// The settle window is what a lagging ledger needs: absence is believed only
// once no effect can still appear.
func TestLedgerAsVerifier(t *testing.T) {
	for name, c := range map[string]struct {
		fault    toolexectest.Fault
		lag      time.Duration
		wait     time.Duration // before the second call
		first    toolexec.CommitState
		attempts int
	}{
		"found at once":             {toolexectest.DropAnswer(), 0, 0, toolexec.Committed, 1},
		"found when the copy is up": {toolexectest.DropAnswer(), 20 * time.Second, 31 * time.Second, toolexec.CommitUnknown, 1},
		"arrives late":              {toolexectest.DelayRequest(25 * time.Second), 0, 31 * time.Second, toolexec.CommitUnknown, 1},
		"never arrives":             {toolexectest.DropRequest(), 0, 31 * time.Second, toolexec.CommitUnknown, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				l := toolexectest.Ledger{Lag: c.lag}
				plan := toolexectest.Script(c.fault)
				tool := toolexec.Bind(&x, toolexec.Tool[int, string]{
					Name:   "post",
					Run:    toolexectest.Wrap(plan, ledgerPost(&l)),
					Verify: &toolexec.Verifier[int, string]{Lookup: toolexectest.Lookup[int, string](&l), Authoritative: true},
				})
				ctx := toolexec.WithOperationRef(t.Context(), "op/1")
				assert.Equal(t, c.first, tool.Call(ctx, 1).CommitState)
				time.Sleep(c.wait)
				env := tool.Call(ctx, 1)
				got, err := env.Value()
				require.NoError(t, err)
				assert.Equal(t, "receipt", got)
				plan.Check(t)
				assert.Equal(t, c.attempts, plan.Attempts())
				assert.Equal(t, 1, l.Effects("op/1"))
			})
		})
	}
}

// A ref is remembered from the request that was accepted, and no longer than the
// window.
func TestLedgerWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := toolexectest.Ledger{Dedupe: true, Window: time.Minute, Settle: time.Hour}
		var got []int
		for _, pause := range []time.Duration{0, time.Minute - 1, 1, time.Minute - 1, 1} {
			time.Sleep(pause)
			got = append(got, l.Record("a", nil).N)
		}
		assert.Equal(t, []int{1, 1, 2, 2, 3}, got)
		assert.Equal(t, 5, l.Requests("a"))
		time.Sleep(2 * time.Hour)
		assert.Equal(t, 3, l.Effects("a"))
	})
}

// An accepted request has its effect later; only then there is something to see.
func TestLedgerSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := toolexectest.Ledger{Dedupe: true, Settle: 3 * time.Second, Lag: 2 * time.Second}
		look := toolexectest.Lookup[int, string](&l)
		seen := func() (out [4]int) {
			f, err := look(t.Context(), "a", 0)
			require.NoError(t, err)
			return [4]int{l.Effects("a"), l.Total(), len(l.Entries()), int(f.Verdict)}
		}
		assert.Equal(t, time.Now().Add(3*time.Second), l.Record("a", "receipt").At)
		absent, found := int(toolexec.NoEffect), int(toolexec.FoundEffect)
		assert.Equal(t, [4]int{0, 0, 0, absent}, seen())
		assert.Equal(t, 1, l.Record("a", "receipt").N, "it is remembered already")
		time.Sleep(3*time.Second - 1)
		assert.Equal(t, [4]int{0, 0, 0, absent}, seen())
		time.Sleep(1)
		assert.Equal(t, [4]int{1, 1, 1, absent}, seen(), "there, and the copy lags")
		time.Sleep(2 * time.Second)
		assert.Equal(t, [4]int{1, 1, 1, found}, seen())
	})
}
