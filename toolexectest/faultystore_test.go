package toolexectest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

func storeFault(f ...toolexectest.Fault) *toolexectest.Plan { return toolexectest.Script(f...) }

var storeFaultKey = toolexec.Key{Ref: "op/1"}

// The wrapped store breaks no rule that the store keeps, with or without a process
// in between.
func TestStoreFaultsNone(t *testing.T) {
	for name, wrap := range map[string]func(toolexec.Store) toolexec.Store{
		"no plans": func(s toolexec.Store) toolexec.Store { return toolexectest.WrapStore(s, toolexectest.StoreFaults{}) },
		"empty plans": func(s toolexec.Store) toolexec.Store {
			return toolexectest.WrapStore(s, toolexectest.StoreFaults{Any: storeFault(), Load: storeFault(), Save: storeFault(), Wait: storeFault()})
		},
		"a process": func(s toolexec.Store) toolexec.Store { return new(toolexectest.Process).Store(s) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				assert.NoError(t, toolexectest.CheckStore(t.Context(), func() (toolexec.Store, error) { return wrap(new(toolexec.MemoryStore)), nil }))
			})
		})
	}
}

// Stores with each set of abilities.
type (
	storeFaultBase   struct{ toolexec.Store }
	storeFaultWaits  struct{}
	storeFaultClaims struct{}
	storeFaultPrunes struct{}
	storeFaultCounts struct{}
)

var errStoreFaultAbility = errors.New("asked")

func (storeFaultWaits) Wait(context.Context, toolexec.Key, int64) error { return errStoreFaultAbility }
func (storeFaultClaims) Claim(context.Context, toolexec.Query, time.Duration) ([]toolexec.Record, error) {
	return nil, errStoreFaultAbility
}
func (storeFaultPrunes) Prune(context.Context, int) (int, error) { return 7, errStoreFaultAbility }
func (storeFaultCounts) Stats(context.Context) (map[toolexec.State]int, error) {
	return nil, errStoreFaultAbility
}

func TestStoreFaultsKeepAbilities(t *testing.T) {
	base := storeFaultBase{new(toolexec.MemoryStore)}
	w, c, p, s := storeFaultWaits{}, storeFaultClaims{}, storeFaultPrunes{}, storeFaultCounts{}
	for want, store := range map[string]toolexec.Store{
		"": base,
		"w": struct {
			storeFaultBase
			storeFaultWaits
		}{base, w},
		"c": struct {
			storeFaultBase
			storeFaultClaims
		}{base, c},
		"p": struct {
			storeFaultBase
			storeFaultPrunes
		}{base, p},
		"s": struct {
			storeFaultBase
			storeFaultCounts
		}{base, s},
		"wc": struct {
			storeFaultBase
			storeFaultWaits
			storeFaultClaims
		}{base, w, c},
		"wp": struct {
			storeFaultBase
			storeFaultWaits
			storeFaultPrunes
		}{base, w, p},
		"ws": struct {
			storeFaultBase
			storeFaultWaits
			storeFaultCounts
		}{base, w, s},
		"cp": struct {
			storeFaultBase
			storeFaultClaims
			storeFaultPrunes
		}{base, c, p},
		"cs": struct {
			storeFaultBase
			storeFaultClaims
			storeFaultCounts
		}{base, c, s},
		"ps": struct {
			storeFaultBase
			storeFaultPrunes
			storeFaultCounts
		}{base, p, s},
		"wcp": struct {
			storeFaultBase
			storeFaultWaits
			storeFaultClaims
			storeFaultPrunes
		}{base, w, c, p},
		"wcs": struct {
			storeFaultBase
			storeFaultWaits
			storeFaultClaims
			storeFaultCounts
		}{base, w, c, s},
		"wps": struct {
			storeFaultBase
			storeFaultWaits
			storeFaultPrunes
			storeFaultCounts
		}{base, w, p, s},
		"cps": struct {
			storeFaultBase
			storeFaultClaims
			storeFaultPrunes
			storeFaultCounts
		}{base, c, p, s},
		"wcps": struct {
			storeFaultBase
			storeFaultWaits
			storeFaultClaims
			storeFaultPrunes
			storeFaultCounts
		}{base, w, c, p, s},
	} {
		assert.Equal(t, want, storeFaultAbilities(t, toolexectest.WrapStore(store, toolexectest.StoreFaults{})))
		assert.Equal(t, want, storeFaultAbilities(t, new(toolexectest.Process).Store(store)))
	}
}

// storeFaultAbilities names those of s, and asks each.
func storeFaultAbilities(t *testing.T, s toolexec.Store) (out string) {
	t.Helper()
	if w, ok := s.(toolexec.Waiter); ok {
		assert.Equal(t, errStoreFaultAbility, w.Wait(t.Context(), storeFaultKey, 1))
		out += "w"
	}
	if c, ok := s.(toolexec.Claimer); ok {
		_, err := c.Claim(t.Context(), toolexec.Query{}, time.Second)
		assert.Equal(t, errStoreFaultAbility, err)
		out += "c"
	}
	if p, ok := s.(toolexec.Pruner); ok {
		n, err := p.Prune(t.Context(), 1)
		assert.Equal(t, errStoreFaultAbility, err)
		assert.Equal(t, 7, n)
		out += "p"
	}
	if c, ok := s.(toolexec.Stats); ok {
		_, err := c.Stats(t.Context())
		assert.Equal(t, errStoreFaultAbility, err)
		out += "s"
	}
	return out
}

func TestStoreFaultsVolatile(t *testing.T) {
	volatile := func(s toolexec.Store) bool {
		v, ok := s.(toolexec.Volatile)
		return ok && v.Volatile()
	}
	memory := new(toolexec.MemoryStore)
	assert.True(t, volatile(toolexectest.WrapStore(memory, toolexectest.StoreFaults{})))
	assert.False(t, volatile(toolexectest.WrapStore(storeFaultBase{memory}, toolexectest.StoreFaults{})))
	assert.False(t, volatile(new(toolexectest.Process).Store(memory)), "the store outlives the process")
}

// What each fault of a Save leaves, and says.
func TestStoreFaultsOfSave(t *testing.T) {
	record := toolexec.Record{Key: storeFaultKey, Tool: "post", State: toolexec.StateInFlight}
	for name, c := range map[string]struct {
		fault   toolexectest.Fault
		err     error
		version int64 // that is stored in the end; 0: none
		took    time.Duration
	}{
		"none":                     {toolexectest.OK(), nil, 1, 0},
		"fails before":             {toolexectest.FailRequest(errFaultTest), errFaultTest, 0, 0},
		"fails when it has stored": {toolexectest.FailAnswer(errFaultTest), errFaultTest, 1, 0},
		"hangs before":             {toolexectest.DropRequest(), context.DeadlineExceeded, 0, 2 * time.Second},
		"hangs after":              {toolexectest.DropAnswer(), context.DeadlineExceeded, 1, 2 * time.Second},
		"slow":                     {toolexectest.DelayRequest(time.Second), nil, 1, time.Second},
		"arrives late":             {toolexectest.DelayRequest(time.Minute), context.DeadlineExceeded, 1, 2 * time.Second},
		"a lost create":            {toolexectest.Conflict(), toolexec.ErrConflict, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := new(toolexec.MemoryStore)
				faults := toolexectest.StoreFaults{Save: storeFault(c.fault)}
				store := toolexectest.WrapStore(memory, faults)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				began := time.Now()
				saved, err := store.Save(ctx, record)
				assert.ErrorIs(t, err, c.err)
				assert.Equal(t, c.took, time.Since(began))
				faults.Save.Wait()
				stored, loadErr := memory.Load(t.Context(), storeFaultKey)
				assert.Equal(t, c.version, stored.Version)
				assert.Equal(t, c.version == 0, errors.Is(loadErr, toolexec.ErrNotFound))
				if c.err == nil {
					assert.EqualValues(t, 1, saved.Version)
				} else {
					assert.Zero(t, saved)
				}
				faults.Check(t)
			})
		})
	}
}

// A conflict is one that the store itself tells of.
func TestStoreFaultsConflict(t *testing.T) {
	memory := new(toolexec.MemoryStore)
	first, err := memory.Save(t.Context(), toolexec.Record{Key: storeFaultKey, State: toolexec.StateInFlight, RunID: "first"})
	require.NoError(t, err)
	store := toolexectest.WrapStore(memory, toolexectest.StoreFaults{Save: storeFault(toolexectest.Conflict(), toolexectest.OK())})
	second := first
	second.RunID = "second"
	current, err := store.Save(t.Context(), second)
	assert.ErrorIs(t, err, toolexec.ErrConflict)
	assert.Equal(t, []any{"first", int64(2)}, []any{current.RunID, current.Version})
	second.Version = current.Version
	saved, err := store.Save(t.Context(), second)
	assert.NoError(t, err)
	assert.Equal(t, []any{"second", int64(3)}, []any{saved.RunID, saved.Version})
}

func TestStoreFaultsNth(t *testing.T) {
	faults := toolexectest.StoreFaults{
		Any:  toolexectest.Script(toolexectest.Nth(5, toolexectest.FailRequest(errFaultTest))...),
		Load: toolexectest.Script(toolexectest.Nth(2, toolexectest.FailRequest(errFaultTest))...),
		List: toolexectest.Script(toolexectest.Nth(1, toolexectest.FailAnswer(errFaultTest))...),
		Wait: toolexectest.Script(toolexectest.DropAnswer()),
	}
	store := toolexectest.WrapStore(new(toolexec.MemoryStore), faults)
	load := func() error { _, err := store.Load(t.Context(), storeFaultKey); return err }
	assert.ErrorIs(t, load(), toolexec.ErrNotFound)
	assert.Equal(t, errFaultTest, load())
	_, _, err := store.List(t.Context(), toolexec.Query{})
	assert.Equal(t, errFaultTest, err)
	assert.ErrorIs(t, load(), toolexec.ErrNotFound)
	assert.Equal(t, errFaultTest, load(), "the fifth call, whatever it is")
	assert.ErrorIs(t, load(), toolexec.ErrNotFound)
	var report faultErrors
	faults.Check(&report)
	assert.Equal(t, []string{"toolexectest: Wait: step 1 of 1: answer dropped: did not fire in 0 attempt(s)"}, report.got)
}

// What a guarded write comes to on a store that fails.
func TestStoreFaultsThroughTheExecutor(t *testing.T) {
	for name, c := range map[string]struct {
		faults  toolexectest.StoreFaults
		code    toolexec.Code
		effects int
		later   toolexec.Code // of the same call, a minute later
	}{
		"the record is made at the second try": {toolexectest.StoreFaults{Save: storeFault(toolexectest.FailRequest(errFaultTest))}, toolexec.CodeOK, 1, toolexec.CodeOK},
		"it is made, with unclear end":         {toolexectest.StoreFaults{Save: storeFault(toolexectest.FailAnswer(errFaultTest))}, toolexec.CodeOK, 1, toolexec.CodeOK},
		"the result is stored unclearly":       {toolexectest.StoreFaults{Save: storeFault(toolexectest.OK(), toolexectest.FailAnswer(errFaultTest))}, toolexec.CodeOK, 1, toolexec.CodeOK},
		"the race for it is lost":              {toolexectest.StoreFaults{Save: storeFault(toolexectest.OK(), toolexectest.Conflict())}, toolexec.CodeOK, 1, toolexec.CodeOK},
		"the store is down for a time":         {toolexectest.StoreFaults{Any: storeFault(toolexectest.Outage(30*time.Second, toolexectest.FailRequest(errFaultTest)))}, toolexec.CodeGuardUnavailable, 0, toolexec.CodeOK},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := toolexec.Executor{Store: toolexectest.WrapStore(new(toolexec.MemoryStore), c.faults)}
				var l toolexectest.Ledger
				tool := toolexec.Bind(&x, toolexec.Tool[int, string]{Name: "post", Run: ledgerPost(&l)})
				ctx := toolexec.WithOperationRef(t.Context(), "op/1")
				assert.Equal(t, c.code, tool.Call(ctx, 1).Code)
				assert.Equal(t, c.effects, l.Total())
				time.Sleep(time.Minute)
				assert.Equal(t, c.later, tool.Call(ctx, 1).Code)
				assert.Equal(t, 1, l.Total())
				c.faults.Check(t)
				require.NoError(t, x.Close(t.Context()))
			})
		})
	}
}
