package toolexec

import (
	"bytes"
	"context"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"
)

// The bounds of a MemoryStore that is not told otherwise.
const (
	defaultMaxFacts    = 1_000_000
	defaultKeepResults = time.Hour
	defaultKeepFacts   = 24 * time.Hour
)

const (
	memoryShards = 64
	// tidyPerSave is how many due items a Save tidies. A record falls due twice
	// in its life and is saved twice or more, so this keeps up.
	tidyPerSave = 4
	// never is a moment that does not come.
	never = math.MaxInt64
	// unset is the zero time in a compact record.
	unset = math.MinInt64
)

// MemoryStore is a Store in the memory of this process. The zero value is
// ready to use; its settings must not be changed after the first use, nor the
// store be copied. It is safe for concurrent use and starts no goroutine and no
// timer: each Save tidies a few records, and Prune more.
//
// It is bounded by MaxFacts and by retention. An operation that is committed
// loses its result KeepResults after it was last saved and is forgotten
// KeepFacts after it; one that is released or rejected is forgotten KeepFacts
// after it was last saved, or after its NotBefore when that is later. Everything
// else stays for ever. What has expired is gone for every method at that
// moment, whether or not its memory was freed. At the bound a Save that would
// create a record gets ErrStoreFull; no fact is ever forgotten early to make
// room.
//
// The arguments of a committed operation, which never runs again, are dropped.
// A committed record with nothing unusual in it is kept in a compact form, from
// which its times come back in UTC.
//
// List leaves bodies out. A query for states other than committed, with Open or
// with DueBefore, asks an index, and costs next to nothing when it also names a
// fingerprint; any other query walks all records for each page.
//
// The store's clock starts at the wall clock and goes on with the monotonic
// one, so that a step of the wall clock cannot expire a fact.
type MemoryStore struct {
	// MaxFacts bounds how many records are kept. 0: a million; negative: no
	// bound.
	MaxFacts int
	// KeepResults is how long the result of a committed operation is kept. 0: an
	// hour; negative: results are not kept at all.
	KeepResults time.Duration
	// KeepFacts is how long it is remembered that an operation is committed,
	// released or rejected: the limit of the guarantee. 0: 24 h; negative: for
	// ever.
	KeepFacts time.Duration

	once sync.Once // makes start to keepFacts, which are not written later

	start       time.Time // with the monotonic reading
	startUTC    time.Time // without it
	seed        maphash.Seed
	max         int64
	keepResults time.Duration // negative: none
	keepFacts   time.Duration // negative: for ever

	count  atomic.Int64 // records in all shards
	shards [memoryShards]memoryShard
	index  [memoryShards]memoryIndex
}

var (
	_ Store    = (*MemoryStore)(nil)
	_ Waiter   = (*MemoryStore)(nil)
	_ Volatile = (*MemoryStore)(nil)
	_ Pruner   = (*MemoryStore)(nil)
	_ Stats    = (*MemoryStore)(nil)
)

// memoryShard holds the records whose keys hash to it. Locks are taken in the
// order shard, index, and never two of a kind.
type memoryShard struct {
	mu      sync.Mutex              // protects what follows
	records map[uint32]*memoryEntry // by slot
	more    map[Key]*memoryEntry    // those whose slot another one had
	queue   memoryQueue
	waiting map[Key]*memoryWaiters
	shape   unique.Handle[memoryShape] // of the last record that was made
}

// memorySlot is where a record is. A map from Key would hold each key twice,
// which costs 50 bytes a record. It is narrow, so that tests meet two keys in
// one slot.
type memorySlot struct{ shard, slot uint32 }

func (m *MemoryStore) slotOf(key Key) memorySlot {
	h := maphash.Comparable(m.seed, key)
	return memorySlot{uint32(h % memoryShards), uint32(h >> 40)}
}

func (s *memoryShard) get(key Key, slot uint32) *memoryEntry {
	if e := s.records[slot]; e != nil && e.key == key {
		return e
	}
	return s.more[key]
}

func (s *memoryShard) add(e *memoryEntry, slot uint32) {
	switch {
	case s.records == nil:
		s.records = map[uint32]*memoryEntry{slot: e}
	case s.records[slot] == nil:
		s.records[slot] = e
	case s.more == nil:
		s.more = map[Key]*memoryEntry{e.key: e}
	default:
		s.more[e.key] = e
	}
}

func (s *memoryShard) del(e *memoryEntry, slot uint32) {
	if s.records[slot] == e {
		delete(s.records, slot)
		return
	}
	delete(s.more, e.key)
}

// memoryEntry is one record. Its fields belong to the shard's lock.
type memoryEntry struct {
	key     Key // never changes
	version int64
	queued  int64 // when its item in the queue is due; 0: it has none, others are stale
	updated int64
	live    *memoryLive // the whole record; nil: what follows says it all

	shape                     unique.Handle[memoryShape]
	created, settled, checked int64
	sum                       [32]byte
	text                      string // nonce, alias, run, evidence ref, committed by and result digest in one piece
	cuts                      [5]uint16
	attempts                  uint16
	flags                     uint8
	result                    string
}

// memoryShape is what many records have in common; it is stored once.
type memoryShape struct {
	marksSent          bool
	scope, tool, owner string
	effect             Effect
	rule               uint8
	source             Source
}

const (
	flagSent = 1 << iota
	flagResult
	flagVerified
	flagByNonce // CommittedBy begins with the nonce, which is not repeated
)

// memoryLive is a record that is not committed, or that does not fit the
// compact form.
type memoryLive struct {
	record Record // protected by the shard; what it points to is never written

	key         Key         // written before it is indexed, not while it is
	fingerprint Fingerprint // the same
	indexed     bool        // protected by the shard
	prev, next  *memoryLive // protected by the index
}

// livePool saves a begin the allocation of a large record.
var livePool = sync.Pool{New: func() any { return new(memoryLive) }}

// memoryWaiters are those who wait for one key.
type memoryWaiters struct {
	changed chan struct{}
	n       int
}

func (m *MemoryStore) init() {
	m.start = time.Now()
	m.startUTC = m.start.UTC().Round(0)
	m.seed = maphash.MakeSeed()
	m.max = int64(m.MaxFacts)
	switch {
	case m.MaxFacts == 0:
		m.max = defaultMaxFacts
	case m.MaxFacts < 0:
		m.max = math.MaxInt64
	}
	m.keepResults, m.keepFacts = m.KeepResults, m.KeepFacts
	if m.keepResults == 0 {
		m.keepResults = defaultKeepResults
	}
	if m.keepFacts == 0 {
		m.keepFacts = defaultKeepFacts
	}
}

// shard returns where key lives; every method comes through it or init.
func (m *MemoryStore) shard(key Key) (s *memoryShard, slot uint32) {
	m.once.Do(m.init)
	at := m.slotOf(key)
	return &m.shards[at.shard], at.slot
}

func (m *MemoryStore) now() time.Time { return m.startUTC.Add(time.Since(m.start)) }

// Volatile implements [Volatile]: the records vanish with the process.
func (m *MemoryStore) Volatile() bool { return true }

// Usage returns how many records there are, those that have expired but are
// not freed yet included, and the bound; 0 when there is none.
func (m *MemoryStore) Usage() (facts, bound int) {
	m.once.Do(m.init)
	if m.max != math.MaxInt64 {
		bound = int(m.max)
	}
	return int(m.count.Load()), bound
}

// Load implements [Store].
func (m *MemoryStore) Load(ctx context.Context, key Key) (r Record, err error) {
	if err := ctx.Err(); err != nil {
		return Record{}, err
	}
	s, slot := m.shard(key)
	s.mu.Lock()
	now := m.now()
	e := m.find(s, slot, key, now)
	if e == nil {
		s.mu.Unlock()
		return Record{}, ErrNotFound
	}
	result := m.view(e, now, &r)
	s.mu.Unlock()
	r.own(result)
	return r, nil
}

// Save implements [Store].
func (m *MemoryStore) Save(ctx context.Context, r Record) (Record, error) {
	err := m.save(ctx, &r)
	return r, err
}

// save is Save for one who lends its record, which is large: what Save returns
// is put in its place.
func (m *MemoryStore) save(ctx context.Context, r *Record) error {
	if err := ctx.Err(); err != nil {
		*r = Record{}
		return err
	}
	s, slot := m.shard(r.Key)
	for {
		err := m.trySave(s, slot, r)
		if err != ErrStoreFull { //nolint:errorlint // our own, unwrapped
			return err
		}
		// Room is made without holding s: another shard may have what is due.
		if !m.makeRoom() {
			*r = Record{}
			return err
		}
	}
}

// trySave saves r, and puts what Save returns in its place; on ErrStoreFull it
// leaves r alone, to be tried again.
func (m *MemoryStore) trySave(s *memoryShard, slot uint32, r *Record) error {
	s.mu.Lock()
	now := m.now() // under the lock, so that times are in the order of versions
	m.tidy(s, now.UnixNano(), tidyPerSave)
	e := m.find(s, slot, r.Key, now)
	switch {
	case e == nil && r.Version != 0:
		s.mu.Unlock()
		*r = Record{}
		return ErrConflict
	case e != nil && e.version != r.Version:
		result := m.view(e, now, r)
		s.mu.Unlock()
		r.own(result)
		return ErrConflict
	case e == nil && !m.reserve():
		s.mu.Unlock()
		return ErrStoreFull
	case e == nil:
		e = s.create(r, slot)
	}
	args, result := m.prepare(e, r, now)
	m.put(s, e, r, args, result)
	s.wake(e.key)
	s.mu.Unlock()
	// A body that the caller passed goes back to it: it is not the stored one.
	if r.Arguments == nil {
		r.Arguments = bytes.Clone(args)
	}
	if r.Result == nil {
		r.Result = bytes.Clone(result)
	}
	return nil
}

// reserve counts a record that is about to be created, if the bound allows it.
func (m *MemoryStore) reserve() bool {
	for {
		n := m.count.Load()
		if n >= m.max {
			return false
		}
		if m.count.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// create adds an entry that holds nothing but its key. It pins neither the
// caller's ref, which may be part of something large, nor a scope of its own.
func (s *memoryShard) create(r *Record, slot uint32) *memoryEntry {
	shape := shapeOf(r)
	if s.shape == (unique.Handle[memoryShape]{}) || s.shape.Value() != shape {
		s.shape = unique.Make(shape)
	}
	e := &memoryEntry{shape: s.shape}
	e.key = Key{Scope: e.shape.Value().scope, Ref: strings.Clone(r.Ref)}
	s.add(e, slot)
	return e
}

// prepare makes r what is to be stored, sharing nothing with the caller's but
// the bodies that were passed, and returns the stored bodies that it leaves in
// place.
func (m *MemoryStore) prepare(e *memoryEntry, r *Record, now time.Time) (args, result []byte) {
	r.detach()
	r.Resolve(now)
	r.Version++
	r.RetainUntil = m.retainUntil(r, now)
	if r.Arguments == nil && e.live != nil {
		args = e.live.record.Arguments
	}
	if r.Result == nil {
		result = e.storedResult()
	}
	if r.State == StateCommitted {
		r.Arguments, args = nil, nil
		if m.keepResults < 0 {
			r.Result, result, r.ResultPresent = nil, nil, false
		}
	}
	return args, result
}

func (e *memoryEntry) storedResult() []byte {
	if e.live != nil {
		return e.live.record.Result
	}
	if e.result == "" {
		return nil
	}
	return []byte(e.result)
}

// put makes e hold r, with the bodies args and result where r has none.
func (m *MemoryStore) put(s *memoryShard, e *memoryEntry, r *Record, args, result []byte) {
	e.version, e.updated = r.Version, nanos(r.UpdatedAt.Time())
	switch {
	case e.compact(r):
		e.result = string(r.Result)
		if r.Result == nil {
			e.result = string(result)
		}
		m.release(e)
	default:
		m.keepLive(e, r, args, result)
	}
	m.enqueue(s, e)
}

// keepLive makes e hold r in full.
func (m *MemoryStore) keepLive(e *memoryEntry, r *Record, args, result []byte) {
	l := e.live
	if l == nil {
		l, _ = livePool.Get().(*memoryLive)
		e.live = l
	}
	if l.indexed && (!indexable(r) || r.Fingerprint != l.fingerprint) {
		m.unindex(l)
	}
	l.record = *r
	l.record.detach()
	if r.Arguments != nil {
		args = bytes.Clone(r.Arguments)
	}
	if r.Result != nil {
		result = bytes.Clone(r.Result)
	}
	l.record.Key, l.record.Arguments, l.record.Result = e.key, args, result
	if indexable(r) && !l.indexed {
		l.key, l.fingerprint, l.indexed = e.key, r.Fingerprint, true
		m.indexOf(l.fingerprint).add(l)
	}
	e.text, e.result = "", ""
}

// release gives up the record in full.
func (m *MemoryStore) release(e *memoryEntry) {
	l := e.live
	if l == nil {
		return
	}
	if l.indexed {
		m.unindex(l)
	}
	e.live = nil
	*l = memoryLive{}
	livePool.Put(l)
}

func (m *MemoryStore) unindex(l *memoryLive) {
	m.indexOf(l.fingerprint).remove(l)
	l.indexed = false
}

// find returns the entry of key, or nil if there is none or it has expired.
func (m *MemoryStore) find(s *memoryShard, slot uint32, key Key, now time.Time) *memoryEntry {
	e := s.get(key, slot)
	if e == nil {
		return nil
	}
	if _, fact := m.ends(e); fact <= now.UnixNano() {
		m.remove(s, e)
		return nil
	}
	return e
}

func (m *MemoryStore) remove(s *memoryShard, e *memoryEntry) {
	s.del(e, m.slotOf(e.key).slot)
	m.release(e)
	e.queued = 0
	m.count.Add(-1)
	s.wake(e.key)
}

// view puts the record that e holds into r. Its result is in result if e is
// compact. What r points to must not be written: see own, which is called
// without the lock because bodies may be large.
func (m *MemoryStore) view(e *memoryEntry, now time.Time, r *Record) (result string) {
	if e.live != nil {
		*r = e.live.record
	} else {
		*r, result = e.expand(), e.result
		r.RetainUntil = m.retainUntil(r, r.UpdatedAt.Time())
	}
	if end, _ := m.ends(e); end <= now.UnixNano() {
		r.Result, r.ResultPresent, result = nil, false, ""
	}
	r.Now = now
	return result
}

// own makes what view returned the caller's own.
func (r *Record) own(result string) {
	r.detach()
	r.Arguments, r.Result = bytes.Clone(r.Arguments), bytes.Clone(r.Result)
	if result != "" {
		r.Result = []byte(result)
	}
}

// retainUntil says when a record that was saved at a moment may be deleted.
func (m *MemoryStore) retainUntil(r *Record, saved time.Time) Instant {
	switch {
	case m.keepFacts < 0:
		return Instant{}
	case r.State == StateCommitted:
		return At(saved.Add(m.keepFacts))
	case (r.State == StateReleased || r.State == StateRejected) && len(r.Unresolved) == 0:
		// To forget a NotBefore that has not come would be to allow what it forbids.
		if t := r.NotBefore.Time(); t.After(saved) {
			saved = t
		}
		return At(saved.Add(m.keepFacts))
	}
	return Instant{}
}

// ends returns when the result and when the record of e expire.
func (m *MemoryStore) ends(e *memoryEntry) (result, fact int64) {
	result, fact = never, never
	present := e.flags&flagResult != 0 || e.result != ""
	switch l := e.live; {
	case l != nil:
		present = l.record.State == StateCommitted && (l.record.ResultPresent || l.record.Result != nil)
		if until := l.record.RetainUntil; !until.IsZero() {
			fact = nanos(until.Time())
		}
	case m.keepFacts >= 0:
		fact = addTo(e.updated, m.keepFacts)
	}
	if present {
		result = min(fact, addTo(e.updated, m.keepResults))
	}
	return result, fact
}

// enqueue sees to it that e comes up when something of it expires.
func (m *MemoryStore) enqueue(s *memoryShard, e *memoryEntry) {
	result, fact := m.ends(e)
	due := min(result, fact)
	if due == never || e.queued != 0 && e.queued <= due {
		return // or it comes up earlier, and is put back then
	}
	e.queued = due
	s.queue.push(memoryItem{due, e})
}

// tidy handles at most limit items that are due, and returns how many records
// it deleted.
func (m *MemoryStore) tidy(s *memoryShard, now int64, limit int) (deleted int) {
	for ; limit > 0 && len(s.queue) > 0 && s.queue[0].due <= now; limit-- {
		item := s.queue.pop()
		e := item.entry
		if e.queued != item.due {
			continue
		}
		e.queued = 0
		result, fact := m.ends(e)
		if fact <= now {
			m.remove(s, e)
			deleted++
			continue
		}
		if result <= now {
			e.dropResult()
		}
		m.enqueue(s, e)
	}
	return deleted
}

func (e *memoryEntry) dropResult() {
	if l := e.live; l != nil {
		l.record.Result, l.record.ResultPresent = nil, false
		return
	}
	e.result, e.flags = "", e.flags&^flagResult
}

// makeRoom deletes a record that has expired, wherever it is, and reports
// whether it found one.
func (m *MemoryStore) makeRoom() bool {
	for i := range m.shards {
		if m.pruneShard(&m.shards[i], 1) > 0 {
			return true
		}
	}
	return false
}

// Prune implements [Pruner]. It goes shard by shard, in each one in the order
// in which things fell due, so a result goes before its record.
func (m *MemoryStore) Prune(ctx context.Context, limit int) (int, error) {
	m.once.Do(m.init)
	deleted := 0
	for i := range m.shards {
		for deleted < limit {
			if err := ctx.Err(); err != nil {
				return deleted, err
			}
			// A few at a time, so that no call waits long for the lock.
			batch := min(limit-deleted, 64)
			n := m.pruneShard(&m.shards[i], batch)
			deleted += n
			if n < batch {
				break
			}
		}
	}
	return deleted, nil
}

// pruneShard deletes up to limit records of s that have expired.
func (m *MemoryStore) pruneShard(s *memoryShard, limit int) (deleted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.now().UnixNano()
	for deleted < limit && len(s.queue) > 0 && s.queue[0].due <= now {
		deleted += m.tidy(s, now, 1)
	}
	return deleted
}

// Stats implements [Stats]. It walks all records.
func (m *MemoryStore) Stats(ctx context.Context) (map[State]int, error) {
	counts := make(map[State]int)
	err := m.each(ctx, func(e *memoryEntry) {
		state := StateCommitted
		if e.live != nil {
			state = e.live.record.State
		}
		counts[state]++
	})
	return counts, err
}

// each calls f with every entry that has not expired, under its shard's lock.
func (m *MemoryStore) each(ctx context.Context, f func(*memoryEntry)) error {
	m.once.Do(m.init)
	for i := range m.shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := &m.shards[i]
		s.mu.Lock()
		now := m.now().UnixNano()
		visit := func(e *memoryEntry) {
			if _, fact := m.ends(e); fact > now {
				f(e)
			}
		}
		for _, e := range s.records {
			visit(e)
		}
		for _, e := range s.more {
			visit(e)
		}
		s.mu.Unlock()
	}
	return ctx.Err()
}

// Wait implements [Waiter]. It also returns when the record is deleted.
func (m *MemoryStore) Wait(ctx context.Context, key Key, version int64) error {
	s, slot := m.shard(key)
	s.mu.Lock()
	e := m.find(s, slot, key, m.now())
	if e == nil && version != 0 || e != nil && e.version != version {
		s.mu.Unlock()
		return nil
	}
	w := s.waiting[key]
	if w == nil {
		if s.waiting == nil {
			s.waiting = make(map[Key]*memoryWaiters)
		}
		w = &memoryWaiters{changed: make(chan struct{})}
		s.waiting[key] = w
	}
	w.n++
	s.mu.Unlock()

	select {
	case <-w.changed:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.n--
	if w.n == 0 && s.waiting[key] == w {
		delete(s.waiting, key)
	}
	return ctx.Err()
}

func (s *memoryShard) wake(key Key) {
	if w := s.waiting[key]; w != nil {
		close(w.changed)
		delete(s.waiting, key)
	}
}

// List implements [Store]. It is no snapshot: a record that is written during
// the call is judged by what it was before or after.
func (m *MemoryStore) List(ctx context.Context, q Query) (page []Record, next Cursor, err error) {
	if err := ctx.Err(); err != nil {
		return nil, Cursor{}, err
	}
	m.once.Do(m.init)
	q.Resolve(m.now())
	keys := smallestKeys{after: q.After.Key, n: q.PageSize() + 1}
	if q.indexed() {
		err = m.pickFromIndex(ctx, q, &keys)
	} else {
		var head Record
		err = m.each(ctx, func(e *memoryEntry) {
			if keys.wants(e.key) && q.Matches(e.head(&head)) {
				keys.add(e.key)
			}
		})
	}
	if err != nil {
		return nil, Cursor{}, err
	}
	found := keys.sorted()
	if len(found) == keys.n {
		found = found[:keys.n-1]
		next = Cursor{Key: found[len(found)-1]}
	}
	for _, key := range found {
		if r, ok := m.headOf(key); ok && q.Matches(&r) {
			page = append(page, r)
		}
	}
	return page, next, nil
}

// headOf returns the record of key without its bodies.
func (m *MemoryStore) headOf(key Key) (r Record, ok bool) {
	s, slot := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.now()
	e := m.find(s, slot, key, now)
	if e == nil {
		return r, false
	}
	m.view(e, now, &r)
	r.Arguments, r.Result = nil, nil
	r.detach()
	return r, true
}

// indexable reports whether the index holds r: all but the many that are
// committed and known to be.
func indexable(r *Record) bool { return r.State != StateCommitted || r.Unheard }

// indexed reports whether q selects nothing that the index leaves out.
func (q Query) indexed() bool {
	return q.Open || len(q.States) > 0 && !slices.Contains(q.States, StateCommitted) || !q.DueBefore.IsZero()
}

func (m *MemoryStore) pickFromIndex(ctx context.Context, q Query, keys *smallestKeys) error {
	indexes := m.index[:]
	if q.Fingerprint != (Fingerprint{}) {
		i := indexNumber(q.Fingerprint)
		indexes = indexes[i : i+1]
	}
	var candidates []Key
	for i := range indexes {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Keys first, records later: the lock of an index comes after a shard's.
		candidates = indexes[i].keys(q.Fingerprint, candidates[:0])
		for _, key := range candidates {
			if !keys.wants(key) {
				continue
			}
			if r, ok := m.headOf(key); ok && q.Matches(&r) {
				keys.add(key)
			}
		}
	}
	return nil
}

// memoryIndex finds the records that are not committed by their fingerprint.
type memoryIndex struct {
	mu    sync.Mutex // protects what follows, and the links of what it holds
	heads map[Fingerprint]*memoryLive
	_     [48]byte // neighbours do not share a cache line
}

func indexNumber(f Fingerprint) int { return int(f.Sum[0]) % memoryShards }

func (m *MemoryStore) indexOf(f Fingerprint) *memoryIndex { return &m.index[indexNumber(f)] }

func (x *memoryIndex) add(l *memoryLive) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.heads == nil {
		x.heads = make(map[Fingerprint]*memoryLive)
	}
	l.next = x.heads[l.fingerprint]
	if l.next != nil {
		l.next.prev = l
	}
	x.heads[l.fingerprint] = l
}

func (x *memoryIndex) remove(l *memoryLive) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if l.next != nil {
		l.next.prev = l.prev
	}
	switch {
	case l.prev != nil:
		l.prev.next = l.next
	case l.next != nil:
		x.heads[l.fingerprint] = l.next
	default:
		delete(x.heads, l.fingerprint)
	}
	l.prev, l.next = nil, nil
}

// keys appends the keys of what x holds, of fingerprint f if there is one.
func (x *memoryIndex) keys(f Fingerprint, to []Key) []Key {
	x.mu.Lock()
	defer x.mu.Unlock()
	if f != (Fingerprint{}) {
		return x.heads[f].appendKeys(to)
	}
	for _, l := range x.heads {
		to = l.appendKeys(to)
	}
	return to
}

func (l *memoryLive) appendKeys(to []Key) []Key {
	for ; l != nil; l = l.next {
		to = append(to, l.key)
	}
	return to
}

// smallestKeys collects the n smallest keys after a given one, in memory
// proportional to n.
type smallestKeys struct {
	after Key
	n     int
	keys  []Key
	last  *Key // the largest of the n smallest so far, once there are n
}

func (k *smallestKeys) wants(key Key) bool {
	return (k.after == Key{} || key.Compare(k.after) > 0) && (k.last == nil || key.Compare(*k.last) < 0)
}

func (k *smallestKeys) add(key Key) {
	k.keys = append(k.keys, key)
	if len(k.keys) >= 4*k.n {
		last := k.sorted()[k.n-1]
		k.last = &last
	}
}

func (k *smallestKeys) sorted() []Key {
	slices.SortFunc(k.keys, Key.Compare)
	k.keys = k.keys[:min(len(k.keys), k.n)]
	return k.keys
}

// memoryQueue is a binary heap of what falls due, the earliest first.
// container/heap would allocate for each item.
type memoryQueue []memoryItem

type memoryItem struct {
	due   int64
	entry *memoryEntry
}

func (q *memoryQueue) push(item memoryItem) {
	h := append(*q, item)
	i := len(h) - 1
	for i > 0 && h[(i-1)/2].due > item.due {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = item
	*q = h
}

func (q *memoryQueue) pop() memoryItem {
	h := *q
	top, item := h[0], h[len(h)-1]
	h[len(h)-1] = memoryItem{}
	h = h[:len(h)-1]
	for i := 0; len(h) > 0; {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].due < h[child].due {
			child++
		}
		if child >= len(h) || h[child].due >= item.due {
			h[i] = item
			break
		}
		h[i] = h[child]
		i = child
	}
	*q = h
	return top
}

func shapeOf(r *Record) memoryShape {
	shape := memoryShape{marksSent: r.MarksSent, scope: r.Scope, tool: r.Tool, owner: r.Owner, effect: r.Effect, rule: r.Fingerprint.Rule}
	if r.Verification != nil {
		shape.source = r.Verification.Source
	}
	return shape
}

// compact makes e hold r but for its bodies, if r fits: it is committed and has
// only what a first attempt that succeeds has. A field that Record gets must be
// kept here or keep r out; toolexectest.CheckStore sets each one alone.
func (e *memoryEntry) compact(r *Record) bool {
	v := deref(r.Verification)
	by, byNonce := strings.CutPrefix(r.CommittedBy, r.Nonce)
	texts := [len(e.cuts) + 1]string{r.Nonce, r.Alias, r.RunID, v.EvidenceRef, by, r.ResultDigest}
	if !plain(r) || !fits(r.CreatedAt.Time()) || !fits(r.SettledAt.Time()) || !fits(v.CheckedAt) {
		return false
	}
	for i := range e.cuts {
		if len(texts[i]) > math.MaxUint16 {
			return false
		}
		e.cuts[i] = uint16(len(texts[i])) //nolint:gosec // checked above
	}
	if shape := shapeOf(r); shape != e.shape.Value() {
		e.shape = unique.Make(shape)
	}
	e.text = strings.Join(texts[:], "") // a copy, so that nothing large is pinned
	e.created, e.settled, e.checked = nanos(r.CreatedAt.Time()), nanos(r.SettledAt.Time()), nanos(v.CheckedAt)
	e.sum, e.attempts, e.flags = r.Fingerprint.Sum, uint16(r.Attempts), 0 //nolint:gosec // plain has checked it
	if r.Sent {
		e.flags |= flagSent
	}
	if r.ResultPresent {
		e.flags |= flagResult
	}
	if r.Verification != nil {
		e.flags |= flagVerified
	}
	if byNonce {
		e.flags |= flagByNonce
	}
	return true
}

// plain reports whether r is committed and has none of what compact leaves out.
func plain(r *Record) bool {
	return r.State == StateCommitted && !r.Unheard &&
		r.LeaseUntil.IsZero() && r.NotBefore.IsZero() && r.NextCheckAt.IsZero() && r.UnknownSince.IsZero() &&
		len(r.Unresolved) == 0 && len(r.RejectedFields) == 0 && len(r.History) == 0 &&
		r.LastFailure == nil && r.Approval == nil && r.Checks == 0 && r.Corrections == 0 &&
		r.Attempts >= 0 && r.Attempts <= math.MaxUint16
}

// head fills what Query.Matches asks of r, which is cheaper than all of it.
func (e *memoryEntry) head(r *Record) *Record {
	if e.live != nil {
		return &e.live.record
	}
	shape := e.shape.Value()
	r.Key, r.Tool, r.State = e.key, shape.tool, StateCommitted
	r.Fingerprint = Fingerprint{Rule: shape.rule, Sum: e.sum}
	r.Alias = e.text[e.cuts[0]:][:e.cuts[1]]
	return r
}

// expand is the reverse of compact.
func (e *memoryEntry) expand() Record {
	shape := e.shape.Value()
	var r Record
	e.head(&r)
	r.Effect, r.Owner, r.Version, r.Attempts = shape.effect, shape.owner, e.version, int(e.attempts)
	var texts [len(e.cuts)]string
	rest := e.text
	for i, n := range e.cuts {
		texts[i], rest = rest[:n], rest[n:]
	}
	r.Nonce, r.RunID, r.CommittedBy, r.ResultDigest = texts[0], texts[2], texts[4], rest
	if e.flags&flagByNonce != 0 {
		r.CommittedBy = r.Nonce + r.CommittedBy
	}
	r.Sent, r.ResultPresent, r.MarksSent = e.flags&flagSent != 0, e.flags&flagResult != 0, shape.marksSent
	if e.flags&flagVerified != 0 {
		r.Verification = &Verification{CheckedAt: moment(e.checked), Source: shape.source, EvidenceRef: texts[3]}
	}
	r.CreatedAt, r.SettledAt, r.UpdatedAt = At(moment(e.created)), At(moment(e.settled)), At(moment(e.updated))
	return r
}

// fits reports whether t survives nanos and moment.
func fits(t time.Time) bool { return moment(nanos(t)).Equal(t) }

// nanos returns t as nanoseconds since 1970: unset for the zero time, and the
// nearest moment for one that is out of range (1678 to 2262).
func nanos(t time.Time) int64 {
	switch {
	case t.IsZero():
		return unset
	case t.Unix() <= unset/int64(time.Second):
		return unset + 1
	case t.Unix() >= never/int64(time.Second):
		return never
	}
	return t.UnixNano()
}

func moment(n int64) time.Time {
	if n == unset {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// addTo returns t + d, or never if that is out of range. d is not negative.
func addTo(t int64, d time.Duration) int64 {
	if t > never-int64(d) {
		return never
	}
	return t + int64(d)
}
