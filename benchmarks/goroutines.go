package main

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/benchmarks/internal/measure"
)

// goroutines is how many write at once.
var goroutines = []int{1, 2, 4, 8}

func goroutinesName(n int) string {
	if n == 1 {
		return pathWrite + ", 1 goroutine"
	}
	return pathWrite + ", " + strconv.Itoa(n) + " goroutines"
}

func goroutinePaths() []measure.Path {
	var out []measure.Path
	for _, n := range goroutines {
		out = append(out, measure.Path{Name: goroutinesName(n), Run: writeBy(n)})
	}
	return out
}

// writeBy has n goroutines call, each operation with its own ref. Neither b.Loop
// nor b.RunParallel knows exact numbers of goroutines.
func writeBy(n int) func(b *testing.B) {
	return func(b *testing.B) {
		t := bind(toolexec.Tool[input, receipt]{}, forgetful())
		b.ReportAllocs()
		must(b, spread(n, b.N, func(i int) bool {
			return t.Call(toolexec.WithOperationRef(context.Background(), ref(i)), in).OK
		}))
	}
}

// spread has n goroutines share the calls of do from 0 up to total, and reports
// whether all were well. They share nothing else, so each has a fixed part.
func spread(n, total int, do func(i int) bool) bool {
	var failed atomic.Bool
	var all sync.WaitGroup
	for first := range n {
		all.Go(func() {
			for i := first; i < total; i += n {
				if !do(i) {
					failed.Store(true)
				}
			}
		})
	}
	all.Wait()
	return !failed.Load()
}
