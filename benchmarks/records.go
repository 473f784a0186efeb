package main

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/benchmarks/internal/measure"
)

// heapPerRecord is what a record keeps on the heap besides its result.
const heapPerRecord = "heap-B/record"

// resultBytes is how long the result is that each record keeps.
const resultBytes = float64(len(`{"id":"rcpt_1"}`))

// records are how many operations a store holds when the next ones are timed:
// none, and the powers of ten from a thousand to most.
func records(most int) []int {
	out := []int{0}
	for n := 1_000; n <= most; n *= 10 {
		out = append(out, n)
	}
	return out
}

func recordsName(n int) string { return pathWrite + ", after " + strconv.Itoa(n) + " records" }

// recordTime is for how long calls after n records are timed. The more there is
// to keep, the more seldom the collector comes, and the longer it stays; this is
// long enough to meet it.
func recordTime(n int, benchtime time.Duration) time.Duration {
	return max(benchtime, time.Duration(n)*1500*time.Nanosecond)
}

// writeAfter times a guarded write in a store that holds n committed operations,
// or up to half as many more, and has the heap to itself. One that holds none
// forgets at once.
func writeAfter(n int) func(b *testing.B) {
	if n == 0 {
		return writeNewRef
	}
	return func(b *testing.B) {
		before := heapInUse()
		t, next := filled(b, n), n
		heap := (heapInUse() - before) / float64(n)
		last := n + n/2
		b.ReportAllocs()
		for b.Loop() {
			if next == last {
				b.StopTimer()
				t, next = filled(b, n), n
				b.StartTimer()
			}
			next++
			must(b, t.Call(toolexec.WithOperationRef(context.Background(), ref(next)), in).OK)
		}
		b.ReportMetric(heap-resultBytes, heapPerRecord)
	}
}

// filled returns a tool in whose store n operations are committed.
func filled(b *testing.B, n int) *toolexec.Bound[input, receipt] {
	b.Helper()
	t := bind(toolexec.Tool[input, receipt]{}, &toolexec.MemoryStore{MaxFacts: -1})
	ok := spread(runtime.GOMAXPROCS(0), n, func(i int) bool {
		return t.Call(toolexec.WithOperationRef(context.Background(), ref(i+1)), in).OK
	})
	must(b, ok)
	return t
}

func heapInUse() float64 {
	// Twice, because what a pool keeps survives the first.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func recordPaths(most int) []measure.Path {
	var out []measure.Path
	for _, n := range records(most) {
		out = append(out, measure.Path{
			Name: recordsName(n), Run: writeAfter(n),
			Time: func(benchtime time.Duration) time.Duration { return recordTime(n, benchtime) },
		})
	}
	return out
}
