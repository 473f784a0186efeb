package main

import (
	"context"
	"hash/maphash"
	"sync"
	"testing"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"

	"github.com/toolexec/toolexec"
)

// recorder keeps what the guard saves.
type recorder struct {
	toolexec.MemoryStore
	saved []toolexec.Record
}

func (r *recorder) Save(ctx context.Context, record toolexec.Record) (toolexec.Record, error) {
	r.saved = append(r.saved, record)
	return r.MemoryStore.Save(ctx, record)
}

// saves are the two records that a guarded write saves.
func saves(b *testing.B) (begin, finish toolexec.Record) {
	b.Helper()
	store := new(recorder)
	env := bind(toolexec.Tool[input, receipt]{}, store).Call(toolexec.WithOperationRef(context.Background(), ref(1)), in)
	must(b, env.OK && len(store.saved) == 2)
	return store.saved[0], store.saved[1]
}

// storeSaves saves them again and again, each time for another ref.
func storeSaves(b *testing.B) {
	begin, finish := saves(b)
	store := forgetful()
	ctx := context.Background()
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		begin.Ref = ref(n)
		begun, err := store.Save(ctx, begin)
		must(b, err == nil)
		finish.Ref, finish.Version = begin.Ref, begun.Version
		_, err = store.Save(ctx, finish)
		must(b, err == nil)
	}
}

// keys times claim, which is given one key after another.
func keys(b *testing.B, claim func(key string) bool) {
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		must(b, claim(ref(n)))
	}
}

func singleFlight(b *testing.B) {
	var group singleflight.Group
	keys(b, func(key string) bool {
		_, err, _ := group.Do(key, func() (any, error) { return nil, nil })
		return err == nil
	})
}

type shard struct {
	mu   sync.Mutex
	held map[string]struct{} // protected by mu
	_    [48]byte            // neighbours do not share a cache line
}

func (s *shard) claim(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, held := s.held[key]; held {
		return false
	}
	s.held[key] = struct{}{}
	return true
}

func (s *shard) release(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, key)
}

func shardedMap(b *testing.B) {
	var shards [32]shard
	for i := range shards {
		shards[i].held = make(map[string]struct{})
	}
	seed := maphash.MakeSeed()
	keys(b, func(key string) bool {
		s := &shards[maphash.String(seed, key)%uint64(len(shards))]
		defer s.release(key)
		return s.claim(key)
	})
}

func syncMap(b *testing.B) {
	var held sync.Map
	keys(b, func(key string) bool {
		_, loaded := held.LoadOrStore(key, struct{}{})
		held.Delete(key)
		return !loaded
	})
}

func otterCache(b *testing.B) {
	cache := otter.Must(&otter.Options[string, receipt]{
		MaximumSize:      10_000,
		ExpiryCalculator: otter.ExpiryWriting[string, receipt](24 * time.Hour),
	})
	defer cache.StopAllGoroutines()
	keys(b, func(key string) bool {
		_, claimed := cache.SetIfAbsent(key, receipt{})
		cache.Set(key, receipt{ID: "rcpt_1"})
		return claimed
	})
}
