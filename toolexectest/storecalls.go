package toolexectest

import (
	"context"
	"time"

	"github.com/toolexec/toolexec"
)

// storeCalls is a store as functions of one argument and one result, so that what
// wraps a function can wrap a store: see [Wrap]. A nil function is an ability
// that the store does not have.
type storeCalls struct {
	load  func(context.Context, toolexec.Key) (toolexec.Record, error)
	save  func(context.Context, toolexec.Record) (toolexec.Record, error)
	list  func(context.Context, toolexec.Query) (storePage, error)
	wait  func(context.Context, storeWait) (struct{}, error)
	claim func(context.Context, storeClaim) ([]toolexec.Record, error)
	prune func(context.Context, int) (int, error)
	stats func(context.Context, struct{}) (map[toolexec.State]int, error)

	volatile func() bool
}

type storePage struct {
	records []toolexec.Record
	next    toolexec.Cursor
}

type storeWait struct {
	key     toolexec.Key
	version int64
}

type storeClaim struct {
	query toolexec.Query
	lasts time.Duration
}

// callsOf returns the calls of s.
func callsOf(s toolexec.Store) storeCalls {
	c := storeCalls{load: s.Load, save: s.Save, list: func(ctx context.Context, q toolexec.Query) (storePage, error) {
		page, next, err := s.List(ctx, q)
		return storePage{page, next}, err
	}}
	if w, ok := s.(toolexec.Waiter); ok {
		c.wait = func(ctx context.Context, until storeWait) (struct{}, error) {
			return struct{}{}, w.Wait(ctx, until.key, until.version)
		}
	}
	if w, ok := s.(toolexec.Claimer); ok {
		c.claim = func(ctx context.Context, q storeClaim) ([]toolexec.Record, error) {
			return w.Claim(ctx, q.query, q.lasts)
		}
	}
	if w, ok := s.(toolexec.Pruner); ok {
		c.prune = w.Prune
	}
	if w, ok := s.(toolexec.Stats); ok {
		c.stats = func(ctx context.Context, _ struct{}) (map[toolexec.State]int, error) { return w.Stats(ctx) }
	}
	if w, ok := s.(toolexec.Volatile); ok {
		c.volatile = w.Volatile
	}
	return c
}

// wrap wraps all of c with one plan.
func (c *storeCalls) wrap(p *Plan) {
	c.load, c.save, c.list = Wrap(p, c.load), Wrap(p, c.save), Wrap(p, c.list)
	wrapAbility(p, &c.wait)
	wrapAbility(p, &c.claim)
	wrapAbility(p, &c.prune)
	wrapAbility(p, &c.stats)
}

// wrapAbility leaves what a store cannot do as it is.
func wrapAbility[In, Out any](p *Plan, f *func(context.Context, In) (Out, error)) {
	if *f != nil {
		*f = Wrap(p, *f)
	}
}

// store returns the store of these calls. It has the abilities that are there and
// no others, since a guard asks for them by type.
func (c *storeCalls) store() toolexec.Store { //nolint:funlen // one case for each set of abilities
	type (
		base = calledStore
		w    = calledWaiter
		cl   = calledClaimer
		p    = calledPruner
		st   = calledStats
	)
	b := base{c}
	switch [4]bool{c.wait != nil, c.claim != nil, c.prune != nil, c.stats != nil} {
	case [4]bool{true, false, false, false}:
		return struct {
			base
			w
		}{b, w{c}}
	case [4]bool{false, true, false, false}:
		return struct {
			base
			cl
		}{b, cl{c}}
	case [4]bool{true, true, false, false}:
		return struct {
			base
			w
			cl
		}{b, w{c}, cl{c}}
	case [4]bool{false, false, true, false}:
		return struct {
			base
			p
		}{b, p{c}}
	case [4]bool{true, false, true, false}:
		return struct {
			base
			w
			p
		}{b, w{c}, p{c}}
	case [4]bool{false, true, true, false}:
		return struct {
			base
			cl
			p
		}{b, cl{c}, p{c}}
	case [4]bool{true, true, true, false}:
		return struct {
			base
			w
			cl
			p
		}{b, w{c}, cl{c}, p{c}}
	case [4]bool{false, false, false, true}:
		return struct {
			base
			st
		}{b, st{c}}
	case [4]bool{true, false, false, true}:
		return struct {
			base
			w
			st
		}{b, w{c}, st{c}}
	case [4]bool{false, true, false, true}:
		return struct {
			base
			cl
			st
		}{b, cl{c}, st{c}}
	case [4]bool{true, true, false, true}:
		return struct {
			base
			w
			cl
			st
		}{b, w{c}, cl{c}, st{c}}
	case [4]bool{false, false, true, true}:
		return struct {
			base
			p
			st
		}{b, p{c}, st{c}}
	case [4]bool{true, false, true, true}:
		return struct {
			base
			w
			p
			st
		}{b, w{c}, p{c}, st{c}}
	case [4]bool{false, true, true, true}:
		return struct {
			base
			cl
			p
			st
		}{b, cl{c}, p{c}, st{c}}
	case [4]bool{true, true, true, true}:
		return struct {
			base
			w
			cl
			p
			st
		}{b, w{c}, cl{c}, p{c}, st{c}}
	}
	return b
}

// calledStore is a store of calls, and what every store may say of itself.
type calledStore struct{ calls *storeCalls }

func (s calledStore) Load(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
	return s.calls.load(ctx, key)
}

func (s calledStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	return s.calls.save(ctx, r)
}

func (s calledStore) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	page, err := s.calls.list(ctx, q)
	return page.records, page.next, err
}

// Volatile implements toolexec.Volatile: a store that does not say it is not.
func (s calledStore) Volatile() bool { return s.calls.volatile != nil && s.calls.volatile() }

type calledWaiter struct{ c *storeCalls }

func (s calledWaiter) Wait(ctx context.Context, key toolexec.Key, version int64) error {
	_, err := s.c.wait(ctx, storeWait{key, version})
	return err
}

type calledClaimer struct{ c *storeCalls }

func (s calledClaimer) Claim(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
	return s.c.claim(ctx, storeClaim{q, d})
}

type calledPruner struct{ c *storeCalls }

func (s calledPruner) Prune(ctx context.Context, limit int) (int, error) {
	return s.c.prune(ctx, limit)
}

type calledStats struct{ c *storeCalls }

func (s calledStats) Stats(ctx context.Context) (map[toolexec.State]int, error) {
	return s.c.stats(ctx, struct{}{})
}
