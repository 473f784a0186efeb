package toolexec_test

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/toolexec/toolexec"
)

// the person ----------------------------------------------------------------------------------

// operator approves, denies and resolves; what it states is true.
func (r *lawsRun) operator() {
	for visit := 0; ; visit++ {
		rng := r.stream("operator", visit)
		t := time.NewTimer(time.Duration(1+rng.IntN(8)) * time.Second)
		select {
		case <-t.C:
		case <-r.over:
			t.Stop()
			return
		}
		if !r.anyCalls() || !r.cfg.has("visit", visit) {
			continue
		}
		sup := &toolexec.Supervisor{Executor: r.living(rng).x}
		page, _, err := sup.List(context.Background(), toolexec.Query{States: []toolexec.State{
			toolexec.StateAwaitingApproval, toolexec.StateUnknown, toolexec.StateEscalated, toolexec.StateRejected,
		}})
		if err != nil {
			continue
		}
		if pruner, ok := sup.Executor.Store.(toolexec.Pruner); ok {
			_, _ = pruner.Prune(context.Background(), 100) // tried again at the next visit
		}
		for _, rec := range page {
			r.attend(rng, sup, rec)
		}
	}
}

// anyCalls: before the first there is nothing to visit.
func (r *lawsRun) anyCalls() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls > 0
}

// attend decides, or does not, about one operation.
func (r *lawsRun) attend(rng *rand.Rand, sup *toolexec.Supervisor, rec toolexec.Record) {
	ctx, by := context.Background(), toolexec.Statement{Actor: "anna", Evidence: "ledger"}
	switch n := rng.IntN(8); {
	case rec.State == toolexec.StateAwaitingApproval && n == 0:
		_, _ = sup.Deny(ctx, rec.Key, by)
	case rec.State == toolexec.StateAwaitingApproval && n < 6:
		_, _ = approveHeld(sup, ctx, rec.Key, by, lawsPick(rng, 0, time.Second, time.Minute))
	case rec.State == toolexec.StateRejected && n == 0:
		_, _ = sup.Reopen(ctx, rec.Key, by)
	case rec.State == toolexec.StateUnknown && n == 1 && r.cfg.supervised:
		_, _ = sup.Verify(ctx, rec.Key) // safe at any time
	case rec.State == toolexec.StateEscalated && n < 4, rec.State == toolexec.StateUnknown && n == 0:
		if state, certain := r.truth(rec.Key); certain {
			by.Force = rec.State == toolexec.StateEscalated && rng.IntN(2) == 0
			_, _ = sup.Resolve(ctx, rec.Key, state, by)
		}
	}
}

// truth reads the ledger. It is certain of an absence only when nothing can send or land any more.
func (r *lawsRun) truth(key lawsKey) (toolexec.CommitState, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hasEffect(key, "") {
		return toolexec.Committed, true
	}
	for _, d := range r.dispatches[key] {
		if d.effect || d.ended.IsZero() && !d.proc.mute() || time.Since(d.ended) < d.spec.settle {
			return toolexec.CommitUnknown, false
		}
	}
	return toolexec.NotCommitted, true
}
