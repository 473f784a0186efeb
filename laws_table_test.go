package toolexec_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolexec/toolexec"
)

// lawsTable is a database as far as the guard can tell: rows that outlive processes, and a clock that is not theirs. It is
// written for nothing but to be plainly right.
type lawsTable struct {
	clock   lawsClock
	begin   time.Time
	forgets bool
	bound   int

	mu   sync.Mutex // protects what follows
	rows map[toolexec.Key]toolexec.Record
}

const (
	lawsKeepsResult = 20 * time.Second
	lawsKeepsClosed = 15 * time.Second
)

func newLawsTable(cfg lawsConfig) *lawsTable {
	return &lawsTable{clock: cfg.clock, begin: time.Now(), forgets: cfg.forgets, bound: cfg.bound, rows: map[toolexec.Key]toolexec.Record{}}
}

type lawsSkewKey struct{}

// now is the table's clock as the process of ctx is told it.
func (s *lawsTable) now(ctx context.Context) time.Time {
	skew, _ := ctx.Value(lawsSkewKey{}).(time.Duration)
	now := time.Now()
	by := s.clock.ahead + skew
	for _, j := range s.clock.jumps {
		if now.Sub(s.begin) >= j.at {
			by += j.by
		}
	}
	return now.Add(by).UTC().Round(0)
}

// Load implements [toolexec.Store].
func (s *lawsTable) Load(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.rows[key]
	if !ok {
		return toolexec.Record{}, toolexec.ErrNotFound
	}
	r = r.Clone()
	r.Now = s.now(ctx)
	return r, nil
}

// Save implements [toolexec.Store].
func (s *lawsTable) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.rows[r.Key]
	switch {
	case was.Version != r.Version && ok:
		was = was.Clone()
		was.Now = s.now(ctx)
		return was, toolexec.ErrConflict
	case was.Version != r.Version:
		return toolexec.Record{}, toolexec.ErrConflict
	case !ok && s.bound > 0 && len(s.rows) >= s.bound:
		return toolexec.Record{}, toolexec.ErrStoreFull
	}
	r = r.Clone()
	if r.Arguments == nil {
		r.Arguments = was.Arguments
	}
	if r.Result == nil {
		r.Result = was.Result
	}
	r.Version++
	r.Resolve(s.now(ctx))
	s.rows[r.Key] = r
	return r.Clone(), nil
}

// List implements [toolexec.Store].
func (s *lawsTable) List(ctx context.Context, q toolexec.Query) (page []toolexec.Record, next toolexec.Cursor, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now(ctx)
	q.Resolve(now)
	for _, key := range slices.SortedFunc(maps.Keys(s.rows), toolexec.Key.Compare) {
		r := s.rows[key]
		if q.After != (toolexec.Cursor{}) && key.Compare(q.After.Key) <= 0 || !q.Matches(&r) {
			continue
		}
		if len(page) == q.PageSize() {
			return page, toolexec.Cursor{Key: page[len(page)-1].Key}, nil
		}
		r = r.Clone()
		r.Arguments, r.Result, r.Now = nil, nil, now
		page = append(page, r)
	}
	return page, toolexec.Cursor{}, nil
}

// prune deletes what retention allows, and returns the keys of the records that are gone. It never deletes a commit: for how
// long that is known is the published limit of the guarantee.
func (s *lawsTable) prune(ctx context.Context) (gone []toolexec.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now(ctx)
	for key, r := range s.rows {
		switch since := now.Sub(r.UpdatedAt.Time()); {
		case !s.forgets:
		case r.State == toolexec.StateCommitted && since > lawsKeepsResult:
			r.Result, r.ResultPresent = nil, false
			s.rows[key] = r
		case (r.State == toolexec.StateReleased || r.State == toolexec.StateRejected) && len(r.Unresolved) == 0:
			if since > lawsKeepsClosed && now.After(r.NotBefore.Time()) {
				delete(s.rows, key)
				gone = append(gone, key)
			}
		}
	}
	return gone
}
