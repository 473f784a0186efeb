package toolexectest

import (
	"context"
	"errors"
	"testing"

	"github.com/toolexec/toolexec"
)

// StoreFaults are the faults of a store, a plan for each method, so that "the
// third Save" can be said: Save: Script(Nth(3, FailAnswer(err))...). What a fault
// is to a tool it is to a store:
//
//	FailRequest(err)      it fails, and stored nothing
//	FailAnswer(err)       it has stored, and says that it failed: the end is unclear
//	DropRequest()         it hangs until the context ends, and stored nothing
//	DropAnswer()          it has stored, and hangs
//	DelayRequest(d)       it is slow; a Save can arrive when nobody waits any more
//	Conflict()            another writer was first
//	Outage(d, f)          it is down for a time
//	CrashRequest(p)       the process dies before the record is stored
//	CrashAnswer(p)        the process dies when it is
//
// A nil plan has no faults.
type StoreFaults struct {
	// Any is asked about every call, whichever method it is of, before the plan of
	// that method.
	Any *Plan

	Load, Save, List, Wait, Claim, Prune, Stats *Plan
}

// Conflict is a lost race for a record: somebody else's Save comes first, changes
// nothing but the version and its time, and the compare-and-swap is refused by the store itself
// with what is stored. Of a record that does not exist yet it is a plain
// [toolexec.ErrConflict]. For a Save.
func Conflict() Fault { return FailRequest(toolexec.ErrConflict) }

// WrapStore returns s with faults around it. It has the optional abilities of s
// (Wait, Claim, Prune, Stats, Volatile) and no others. It panics as [Wrap] does.
func WrapStore(s toolexec.Store, faults StoreFaults) toolexec.Store {
	c := callsOf(s)
	stored := c.save
	c.load = Wrap(faults.Load, c.load)
	c.save = Wrap(faults.Save, c.save)
	c.list = Wrap(faults.List, c.list)
	wrapAbility(faults.Wait, &c.wait)
	wrapAbility(faults.Claim, &c.claim)
	wrapAbility(faults.Prune, &c.prune)
	wrapAbility(faults.Stats, &c.stats)
	c.wrap(faults.Any)
	save := c.save
	c.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
		out, err := save(ctx, r)
		if errors.Is(err, toolexec.ErrConflict) && out.Ref == "" {
			return conflictOf(ctx, s, stored, r)
		}
		return out, err
	}
	return c.store()
}

// conflictOf makes a conflict of r true.
func conflictOf(
	ctx context.Context, s toolexec.Store, save func(context.Context, toolexec.Record) (toolexec.Record, error), r toolexec.Record,
) (toolexec.Record, error) {
	current, err := s.Load(ctx, r.Key)
	if errors.Is(err, toolexec.ErrNotFound) {
		return toolexec.Record{}, toolexec.ErrConflict
	}
	if err != nil {
		return toolexec.Record{}, err
	}
	if current.Version == r.Version {
		if _, err := save(ctx, current); err != nil {
			return toolexec.Record{}, err
		}
	}
	return save(ctx, r)
}

// Unfired says, a line each, which faults have not struck; see [Plan.Unfired].
func (f StoreFaults) Unfired() (out []string) {
	for _, m := range f.methods() {
		for _, line := range m.plan.Unfired() {
			out = append(out, m.name+": "+line)
		}
	}
	return out
}

// Check fails t for each fault that has not struck.
func (f StoreFaults) Check(t testing.TB) {
	t.Helper()
	report(t, f.Unfired())
}

func (f StoreFaults) methods() []planOf {
	return []planOf{
		{"Any", f.Any}, {"Load", f.Load}, {"Save", f.Save}, {"List", f.List},
		{"Wait", f.Wait}, {"Claim", f.Claim}, {"Prune", f.Prune}, {"Stats", f.Stats},
	}
}

type planOf struct {
	name string
	plan *Plan
}
