package sqlstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/toolexec/toolexec"
)

// maxKey bounds scope, ref and alias, maxName tool and state: what each database
// can index.
const (
	maxKey  = 1024
	maxName = 255
)

// document is what the column record holds: all of a record but its key, its
// version, its alias, its bodies and the moments that the database sets.
//
// A moment that is relative when it is saved is resolved by the writer's clock,
// to be readable, and named in Relative. The row says when it was saved on the
// database's clock, so a reader knows by how much the writer's clock was off.
type document struct {
	toolexec.Record

	WrittenAt int64    `json:"written_at"` // microseconds, on the writer's clock
	Relative  []string `json:"relative,omitempty"`
}

// moments calls f with each Instant of r that is stored in its document.
func moments(r *toolexec.Record, f func(name string, i *toolexec.Instant)) {
	f("lease_until", &r.LeaseUntil)
	f("not_before", &r.NotBefore)
	f("next_check_at", &r.NextCheckAt)
	f("unknown_since", &r.UnknownSince)
	f("settled_at", &r.SettledAt)
	f("created_at", &r.CreatedAt)
	if r.Approval != nil {
		f("approval.expires", &r.Approval.Expires)
	}
	for i := range r.Unresolved {
		f("unresolved_attempts."+strconv.Itoa(i), &r.Unresolved[i].Settles)
	}
	for i := range r.History {
		f("history."+strconv.Itoa(i), &r.History[i].At)
	}
}

// relative reports whether i depends on when it is saved.
func relative(i toolexec.Instant) bool { return !i.IsZero() && i.Time().IsZero() }

// offset returns how far after the Save i is, if it is relative.
func offset(i toolexec.Instant) time.Duration {
	base := time.Unix(0, 0)
	return i.Resolve(base).Time().Sub(base)
}

// shift moves the moments of r that are named.
func shift(r *toolexec.Record, named []string, by time.Duration) {
	if by == 0 || len(named) == 0 {
		return
	}
	moments(r, func(name string, i *toolexec.Instant) {
		if slices.Contains(named, name) {
			*i = toolexec.At(i.Time().Add(by))
		}
	})
}

// encoded is a record on its way into the database.
type encoded struct {
	values values
	doc    document        // the record resolved by the writer's clock, without bodies
	args   json.RawMessage // as they were passed
	result json.RawMessage
	retain retention
}

// size is about what a Save sends.
func (e *encoded) size() int {
	record, _ := e.values[paramRecord].(string)
	return len(record) + len(e.args) + len(e.result)
}

// encode makes a copy of r that shares nothing with it.
func (s *Store) encode(r toolexec.Record) (*encoded, error) {
	if err := checkSizes(&r); err != nil {
		return nil, err
	}
	e := &encoded{args: bytes.Clone(r.Arguments), result: bytes.Clone(r.Result)}
	r.Arguments, r.Result = nil, nil
	r = r.Clone()
	if r.State == toolexec.StateCommitted {
		e.args = nil
		if s.keepResults < 0 {
			e.result, r.ResultPresent = nil, false
		}
	}
	if r.CreatedAt.IsZero() {
		r.CreatedAt = toolexec.In(0)
	}
	moments(&r, func(name string, i *toolexec.Instant) {
		if relative(*i) {
			e.doc.Relative = append(e.doc.Relative, name)
		}
	})
	e.retain = s.retention(&r, len(e.result) > 0)
	now := micros(time.Now())
	due, dueRelative := resolve(&r, now)
	e.doc.Record, e.doc.WrittenAt = r, now.UnixMicro()
	r.Key, r.Alias, r.Version, r.UpdatedAt, r.RetainUntil = toolexec.Key{}, "", 0, toolexec.Instant{}, toolexec.Instant{}
	text, err := json.Marshal(document{r, e.doc.WrittenAt, e.doc.Relative})
	if err != nil {
		return nil, &explained{"the record cannot be encoded", err}
	}
	e.fill(string(text), due, dueRelative)
	s.fillBodies(e)
	return e, nil
}

func checkSizes(r *toolexec.Record) error {
	for _, f := range []struct {
		name, text string
		limit      int
	}{
		{"scope", r.Scope, maxKey}, {"ref", r.Ref, maxKey}, {"alias", r.Alias, maxKey},
		{"tool", r.Tool, maxName}, {"state", string(r.State), maxName},
	} {
		if len(f.text) > f.limit {
			return refuse("the %s of a record has %d bytes, and %d is the most", f.name, len(f.text), f.limit)
		}
	}
	return nil
}

// resolve makes r absolute, and returns when it is due: a moment, or an offset
// to the moment of the Save.
func resolve(r *toolexec.Record, now time.Time) (due any, dueRelative int64) {
	// Which moment DueAt takes is its business; the one that moves with the clock
	// is relative.
	const step = time.Hour
	later := *r
	r.Resolve(now)
	later.Unresolved, later.History, later.Approval = nil, r.History, r.Approval
	if later.Approval != nil {
		later.Approval = new(*later.Approval)
	}
	later.History = slices.Clone(later.History)
	later.Resolve(now.Add(step))
	first, second := r.DueAt(), later.DueAt()
	switch {
	case first.IsZero():
		return nil, 0
	case second.Time().Sub(first.Time()) == step:
		return first.Time().Sub(now).Microseconds(), 1
	}
	return first.Time().UnixMicro(), 0
}

// fill sets the values but for the bodies.
func (e *encoded) fill(document string, due any, dueRelative int64) {
	r := &e.doc.Record
	fingerprint := printOf(r.Fingerprint)
	e.values = values{
		paramScope: []byte(r.Scope), paramRef: []byte(r.Ref), paramVersion: r.Version,
		paramState: string(r.State), paramTool: r.Tool,
		paramFingerprint: fingerprint, paramOpen: int64(0), paramDue: due, paramDueRelative: dueRelative,
		paramRetain: e.retain.fact, paramFloor: e.retain.floor, paramResult: e.retain.result, paramPrune: e.retain.first(),
		paramRecord: document,
	}
	if r.Alias != "" {
		e.values[paramAlias] = []byte(r.Alias)
	}
	if r.State != toolexec.StateCommitted || r.Unheard {
		e.values[paramLive] = fingerprint
	}
	if r.IsOpen() {
		e.values[paramOpen] = int64(1)
	}
}

// fillBodies: a nil body leaves the stored one alone, unless it is not to be
// kept; an empty one is stored as none.
func (s *Store) fillBodies(e *encoded) {
	committed := e.doc.State == toolexec.StateCommitted
	e.values[paramSetArguments], e.values[paramArguments] = body(e.args, committed)
	e.values[paramSetResult], e.values[paramResultBody] = body(e.result, committed && s.keepResults < 0)
}

func body(b []byte, drop bool) (set int64, value any) {
	switch {
	case drop:
		return 1, nil
	case b == nil:
		return 0, nil
	case len(b) == 0:
		return 1, nil
	}
	return 1, b
}

// saved returns the record as it was stored at a moment of the database.
func (e *encoded) saved(at int64) toolexec.Record {
	r := e.doc.Record
	r.Now = moment(at)
	shift(&r, e.doc.Relative, time.Duration(at-e.doc.WrittenAt)*time.Microsecond)
	r.UpdatedAt = toolexec.At(r.Now)
	r.RetainUntil = e.retain.until(at)
	r.Version++
	r.Arguments, r.Result = e.args, e.result
	return r
}

// printOf is a fingerprint as bytes: rule and sum.
func printOf(f toolexec.Fingerprint) []byte {
	return append([]byte{f.Rule}, f.Sum[:]...)
}

// retention is how long after a Save what is kept, in microseconds; nil: for
// ever.
type retention struct {
	fact, result any
	floor        int64 // a fact is kept until this moment at least
}

// retention is decided as MemoryStore decides it.
func (s *Store) retention(r *toolexec.Record, result bool) (t retention) {
	switch {
	case r.State == toolexec.StateCommitted:
		if (result || r.ResultPresent) && s.keepResults >= 0 {
			t.result = ceilMicros(s.keepResults)
		}
		if s.keepFacts >= 0 {
			t.fact = ceilMicros(s.keepFacts)
		}
	case (r.State == toolexec.StateReleased || r.State == toolexec.StateRejected) && len(r.Unresolved) == 0 && s.keepFacts >= 0:
		// To forget a NotBefore that has not come would be to allow what it forbids.
		keep := s.keepFacts
		switch {
		case relative(r.NotBefore):
			keep += max(offset(r.NotBefore), 0)
		case !r.NotBefore.IsZero():
			t.floor = r.NotBefore.Time().Add(s.keepFacts).UnixMicro()
		}
		t.fact = ceilMicros(keep)
	}
	return t
}

// first is when something of the record expires first.
func (t retention) first() any {
	result, hasResult := t.result.(int64)
	fact, hasFact := t.fact.(int64)
	switch {
	case hasResult && hasFact:
		return min(result, fact)
	case hasResult:
		return result
	}
	return t.fact
}

func (t retention) until(saved int64) toolexec.Instant {
	fact, ok := t.fact.(int64)
	if !ok {
		return toolexec.Instant{}
	}
	return toolexec.At(moment(max(saved+fact, t.floor)))
}

// row is what a query returns of a record.
type row struct {
	scope, ref, alias, record, args, result []byte
	version, savedAt, now                   int64
	resultUntil, retainUntil                *int64
}

// rowColumns are what row.scan wants, with or without bodies.
func rowColumns(bodies bool) string {
	const head = "scope, ref, alias, record, version, saved_at, result_until, retain_until, {now} AS clock, "
	if bodies {
		return head + "arguments, result"
	}
	return head + "NULL AS arguments, NULL AS result"
}

func (w *row) scan(scan func(...any) error) error {
	return scan(&w.scope, &w.ref, &w.alias, &w.record, &w.version, &w.savedAt, &w.resultUntil, &w.retainUntil, &w.now, &w.args, &w.result)
}

func (w *row) decode() (toolexec.Record, error) {
	var doc document
	if err := json.Unmarshal(w.record, &doc); err != nil {
		return toolexec.Record{}, &explained{fmt.Sprintf("the stored record of %q in scope %q is not readable", w.ref, w.scope), err}
	}
	r := doc.Record
	r.Key = toolexec.Key{Scope: string(w.scope), Ref: string(w.ref)}
	r.Alias, r.Version, r.Now = string(w.alias), w.version, moment(w.now)
	shift(&r, doc.Relative, time.Duration(w.savedAt-doc.WrittenAt)*time.Microsecond)
	r.UpdatedAt = toolexec.At(moment(w.savedAt))
	if w.retainUntil != nil {
		r.RetainUntil = toolexec.At(moment(*w.retainUntil))
	}
	r.Arguments, r.Result = filled(w.args), filled(w.result)
	if w.resultUntil != nil && *w.resultUntil <= w.now {
		r.Result, r.ResultPresent = nil, false
	}
	return r, nil
}

// filled returns b, or nil if it is empty: some drivers tell NULL from empty,
// and some do not.
func filled(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	return b
}

func moment(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

func micros(t time.Time) time.Time { return t.Truncate(time.Microsecond).UTC().Round(0) }

func ceilMicros(d time.Duration) int64 {
	n := d.Microseconds()
	if d%time.Microsecond > 0 {
		n++
	}
	return n
}
