package toolexec

import (
	"context"
	"hash/maphash"
	"sync"
)

// printKey names equal calls of one scope.
type printKey struct {
	scope, tool string
	print       Fingerprint
}

// flight is one call of this process that has an operation in hand.
type flight struct {
	done   chan struct{} // closed by leave; made by the first who waits
	key    Key           // the operation in hand, once it is known; under the shard's mu
	record *Record       // where that call left the operation; read after done, never written
	stored bool          // and whether the store knows; read after done
}

// turnstile lets one call of this process at a time deal with what a key
// names; the others wait for it and take over where it left off.
type turnstile[K comparable] struct {
	seedOnce sync.Once
	seed     maphash.Seed
	shards   [64]turnstileShard[K]
}

type turnstileShard[K comparable] struct {
	mu   sync.Mutex // protects what follows; never held while anybody waits
	open map[K]*flight
	_    [40]byte // a cache line each: neighbours do not slow one another down
}

func (t *turnstile[K]) shard(key K) *turnstileShard[K] {
	t.seedOnce.Do(func() { t.seed = maphash.MakeSeed() })
	return &t.shards[maphash.Comparable(t.seed, key)%uint64(len(t.shards))]
}

// enter returns the flight of key; mine says that the caller holds it, and must
// leave it. Otherwise the caller waits for done.
func (t *turnstile[K]) enter(key K) (f *flight, mine bool) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.open[key]; f != nil {
		if f.done == nil {
			f.done = make(chan struct{})
		}
		return f, false
	}
	if s.open == nil {
		s.open = make(map[K]*flight)
	}
	f = new(flight)
	s.open[key] = f
	return f, true
}

// name says which operation the flight has in hand.
func (t *turnstile[K]) name(key K, f *flight, op Key) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	f.key = op
}

// named returns what name said.
func (t *turnstile[K]) named(key K, f *flight) Key {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.key
}

// leave lets the next one in and tells those who wait where the operation is.
func (t *turnstile[K]) leave(key K, f *flight, op *operation) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, key)
	if f.done != nil {
		f.record, f.stored = op.record, !op.unstored
		close(f.done)
	}
}

// tally counts what outlives calls, and lets Close wait for the last of it.
type tally struct {
	mu   sync.Mutex // protects what follows
	n    int
	zero chan struct{} // closed when n falls to zero; nil while nobody waits
}

func (t *tally) add(d int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n += d
	if t.n == 0 && t.zero != nil {
		close(t.zero)
		t.zero = nil
	}
}

func (t *tally) wait(ctx context.Context) error {
	for {
		t.mu.Lock()
		if t.n == 0 {
			t.mu.Unlock()
			return nil
		}
		if t.zero == nil {
			t.zero = make(chan struct{})
		}
		zero := t.zero
		t.mu.Unlock()
		select {
		case <-zero:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
