package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/toolexec/toolexec/benchmarks/internal/measure"
)

// What a call cannot do without, however it is written: where that alone misses
// an aim, the aim asks for less than the library promises.

const (
	floorRead     = "one reading of the clock, an attempt and a verification"
	floorEnforced = "the same, and a goroutine that is waited for"
	floorTwice    = "three attempts, the clock after each, two failures"
	floorWrite    = "an enforced read's, input and result as JSON, SHA-256, two records in a map"
)

const aboutFloors = `## What a call cannot do without

Each answer says when it was known, so the clock is read; a tool may keep its context for ever, so an attempt is an object of its own (500 bytes, a further one 290), and so is
what an envelope points to; a failure is one too (160); a deadline that holds needs another goroutine; a write is named by the SHA-256 of its arguments, and is recorded before and after it (700 bytes each). These paths
do that and nothing else, with the same peers and aims as above: they are how far a library with these promises could get.

`

// These have the sizes of a first attempt, a further one, a failure, a
// verification and a record.
type (
	kept     [63]*int
	further  [36]*int
	failed   [20]*int
	verified [7]*int
	recorded [88]*int
)

// kept here, what is made escapes.
var heap struct {
	attempt  *kept
	another  *further
	failure  *failed
	verified *verified
}

func floorOfRead() time.Time {
	heap.attempt, heap.verified = new(kept), new(verified)
	return time.Now()
}

func readFloor(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		must(b, !floorOfRead().IsZero())
		_, err := lookup(context.Background(), in)
		must(b, err == nil)
	}
}

func twiceFloor(b *testing.B) {
	ctx := context.Background()
	tool := downTwice(errDown)
	b.ReportAllocs()
	for b.Loop() {
		began := floorOfRead()
		_, err := tool(ctx, in)
		for err != nil {
			heap.failure, heap.another = new(failed), new(further)
			must(b, time.Since(began) >= 0)
			_, err = tool(ctx, in)
		}
	}
}

func enforcedFloor(b *testing.B) {
	done := make(chan struct{}, 1)
	run := func() {
		_, _ = lookup(context.Background(), in)
		done <- struct{}{}
	}
	b.ReportAllocs()
	for b.Loop() {
		must(b, !floorOfRead().IsZero())
		go run()
		<-done
	}
}

func writeFloor(b *testing.B) {
	done := make(chan struct{}, 1)
	var out receipt
	run := func() {
		out, _ = lookup(context.Background(), in)
		done <- struct{}{}
	}
	var mu sync.Mutex
	records := make(map[[32]byte]*recorded)
	put := func(sum [32]byte, r *recorded) {
		mu.Lock()
		defer mu.Unlock()
		records[sum] = r
	}
	b.ReportAllocs()
	for b.Loop() {
		must(b, !floorOfRead().IsZero())
		arguments, err := json.Marshal(&in)
		must(b, err == nil)
		sum := sha256.Sum256(arguments)
		put(sum, new(recorded))
		go run()
		<-done
		_, err = json.Marshal(&out)
		must(b, err == nil)
		put(sum, new(recorded))
	}
}

func floorPaths() []measure.Path {
	return []measure.Path{
		{Name: floorRead, Run: readFloor}, {Name: floorEnforced, Run: enforcedFloor},
		{Name: floorTwice, Run: twiceFloor}, {Name: floorWrite, Run: writeFloor},
	}
}

// floors are the targets as they are for those paths.
func floors() []target {
	return []target{
		over("P1", floorRead, pathWithTimeout, atMost(0.6)),
		over("P1", floorRead, pathFailsafe, atMost(0.25)),
		over("P2", floorEnforced, pathFailsafe, atMost(0.65)),
		over("P3", floorWrite, pathFailsafe, atMost(2.5)),
		over("P5", floorTwice, pathTwiceBackoff4, atMost(0.8)),
	}
}
