package toolexec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/toolexec/toolexec"
)

// stores --------------------------------------------------------------------------

var errLawsStore = errors.New(lawsCanary + "-store: the database is away")

// lawsStore is one process's way to the records. It hides what the store can do beside the interface, so that
// ownership is leased.
type lawsStore struct {
	w *lawsWorld
	p *lawsProcess
}

// lawsVolatileStore shows that records and owners die together.
type lawsVolatileStore struct{ lawsStore }

func (lawsVolatileStore) Volatile() bool { return true }

func (s lawsVolatileStore) Wait(ctx context.Context, key toolexec.Key, version int64) error {
	return s.w.memory.Wait(ctx, key, version)
}

// enter lets p ask its store for something. An error comes before anything happens; after is one that comes then.
func (s lawsStore) enter(ctx context.Context) (_ context.Context, after, err error) {
	if n := s.p.name; n < len(s.w.cfg.clock.skews) {
		ctx = context.WithValue(ctx, lawsSkewKey{}, s.w.cfg.clock.skews[n])
	}
	if s.w.isCalm() {
		if s.p.dead() {
			return ctx, nil, errLawsStore
		}
		return ctx, nil, ctx.Err()
	}
	s.w.locked(func() {
		if s.w.closed {
			s.w.broken("L9", "p%d uses the store after Close", s.p.n)
		}
	})
	s.p.mu.Lock()
	s.p.uses++
	use := s.p.uses
	s.p.mu.Unlock()
	var before, unclear bool
	if cfg := &s.w.cfg; cfg.latency > 0 || cfg.errBefore > 0 || cfg.errAfter > 0 {
		r := s.w.stream("store", s.p.n, use)
		before = r.Float64() < cfg.errBefore && cfg.has("store", s.p.n, ".", use)
		unclear = r.Float64() < cfg.errAfter && cfg.has("store", s.p.n, ".", use, ".after")
		if cfg.latency > 0 {
			time.Sleep(time.Duration(r.Int64N(int64(cfg.latency))))
		}
	}
	if use == s.p.kill.op && s.w.die(s.p) && s.p.kill.done {
		return ctx, errLawsStore, nil
	}
	switch {
	case s.p.dead(), before:
		return ctx, nil, errLawsStore
	case unclear:
		return ctx, errLawsStore, nil
	}
	return ctx, nil, ctx.Err()
}

func (s lawsStore) Load(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
	ctx, after, err := s.enter(ctx)
	if err != nil || after != nil {
		return toolexec.Record{}, errors.Join(err, after)
	}
	rec, err := s.w.base.Load(ctx, key)
	if a := lawsActorOf(ctx); a != nil && err == nil {
		s.w.locked(func() { a.loaded = rec })
	}
	return rec, err
}

func (s lawsStore) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	ctx, after, err := s.enter(ctx)
	if err != nil || after != nil {
		return nil, toolexec.Cursor{}, errors.Join(err, after)
	}
	return s.w.base.List(ctx, q)
}

func (s lawsStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	ctx, after, err := s.enter(ctx)
	if err != nil {
		return toolexec.Record{}, err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	was, _ := s.w.base.Load(ctx, r.Key)
	out, err := s.w.base.Save(ctx, r)
	if err == nil {
		delete(s.w.claimed, r.Key)
		s.w.saved(s.p, &was, &out)
		s.w.acted(lawsActorOf(ctx), &was, &out)
	}
	if after != nil {
		s.w.log("p%d: that save had an unclear end", s.p.n)
		return toolexec.Record{}, after
	}
	return out, err
}

// saved checks a version of a record. Called with mu held.
func (w *lawsWorld) saved(p *lawsProcess, was, is *toolexec.Record) {
	w.log("p%d: save %s v%d: %s -> %s, attempts %d, unresolved %d", p.n, is.Ref, is.Version, was.State, is.State, is.Attempts, len(is.Unresolved))
	lawsRecordTravels(w, is)
	w.meet(was.State, " -> ", is.State)
	if was.State != toolexec.StateAbsent && is.Now.Before(was.UpdatedAt.Time()) {
		w.meet("a clock that went back")
	}
	if was.State == toolexec.StateInFlight && is.Nonce == was.Nonce && p.dead() {
		w.meet("a last save")
	}
	if was.State == toolexec.StateCommitted && is.State != toolexec.StateCommitted {
		w.broken("L3", "%s leaves committed", is.Ref)
	}
	w.statement(was, is)
	switch is.CommitState() {
	case toolexec.Committed:
		if !w.hasEffect(is.Key, "") {
			w.broken("L2", "the record of %s says committed, the ledger has nothing", is.Ref)
		}
	case toolexec.NotCommitted:
		for _, d := range w.dispatches[is.Key] {
			if w.unproven(d) {
				w.broken("L2", "the record of %s says not_committed, and dispatch %d is not proven without effect", is.Ref, d.seq)
			}
		}
	}
	if is.State == toolexec.StateInFlight && is.Nonce != was.Nonce && was.NotBefore.Time().After(is.Now) && !w.jumped(20*w.cfg.latency+lawsBeginRetries) {
		w.broken("L5", "%s begins before its not_before", is.Ref)
	}
	for _, spec := range w.cfg.tools {
		late := spec.dedupe > 0 && is.Now.After(is.CreatedAt.Time().Add(spec.dedupe+w.cfg.slack()))
		if late && spec.name == is.Tool && was.State == toolexec.StateUnknown && is.State == toolexec.StateInFlight && len(is.Unresolved) > 0 { // none: a look-up has found that there is no effect
			w.broken("L1", "%s is sent again when the remote side may have forgotten it", is.Ref)
		}
	}
}

// jumped reports whether the store's clock has jumped in the time until now in which what is saved was decided.
func (w *lawsWorld) jumped(within time.Duration) bool {
	return slices.ContainsFunc(w.cfg.clock.jumps, func(j lawsJump) bool {
		since := time.Since(w.begin) - j.at
		return since >= 0 && since <= within
	})
}

// statement follows what people said. Called with mu held.
func (w *lawsWorld) statement(was, is *toolexec.Record) {
	if a := is.Approval; a != nil && a.Decision == "approved" && (was.Approval == nil || was.Approval.Expires != a.Expires) {
		w.approvals[is.Key] = append(w.approvals[is.Key], &lawsApproval{args: string(is.Arguments), until: a.Expires.Time()})
	}
	if n := len(is.History); n > 0 && !slices.Equal(is.History, was.History) && strings.HasPrefix(is.History[n-1].Event, "resolved: not") {
		for _, d := range w.dispatches[is.Key] {
			d.resolved = true
		}
		w.allowance[is.Key], w.approvals[is.Key] = 0, nil
		delete(w.notBefore, is.Key)
	}
}

// Prune deletes what retention allows; then nothing is known of what was closed.
func (s lawsStore) Prune(ctx context.Context, _ int) (int, error) {
	ctx, after, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.w.table == nil {
		return 0, after
	}
	gone := s.w.table.prune(ctx)
	for _, key := range gone {
		s.w.log("p%d: %s is deleted", s.p.n, key.Ref)
		s.w.meet("a deleted record")
		s.w.allowance[key], s.w.approvals[key], s.w.settled[key] = 0, nil, nil
	}
	return len(gone), after
}

// lawsRecordTravels: a record survives JSON.
func lawsRecordTravels(w *lawsWorld, r *toolexec.Record) {
	raw, err := json.Marshal(r)
	if err != nil {
		w.broken("L8", "the record of %s does not encode: %v", r.Ref, err)
		return
	}
	var back toolexec.Record
	if err := json.Unmarshal(raw, &back); err != nil {
		w.broken("L8", "the record of %s does not decode: %v", r.Ref, err)
		return
	}
	again, err := json.Marshal(back)
	if err != nil || !bytes.Equal(again, raw) {
		w.broken("L8", "the record of %s changes on its way: %s became %s", r.Ref, raw, again)
	}
}

func (w *lawsWorld) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// lawsClaimingStore gives each due record to one supervisor at a time.
type lawsClaimingStore struct{ lawsStore }

func (s lawsClaimingStore) Claim(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
	ctx, after, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	size := q.PageSize()
	q.Limit = 1000
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	all, _, err := s.w.base.List(ctx, q)
	var page []toolexec.Record
	for _, rec := range all {
		if len(page) < size && time.Until(s.w.claimed[rec.Key]) <= 0 {
			s.w.claimed[rec.Key] = time.Now().Add(d)
			page = append(page, rec)
		}
	}
	if after != nil {
		return nil, after // they stay claimed
	}
	return page, err
}
