package measure

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// testingFlags makes the flags of package testing known, of which benchtime is
// the only way to tell testing.Benchmark how long it may take.
var testingFlags = sync.OnceFunc(testing.Init)

// once measures a path for about benchtime.
func once(p Path, benchtime time.Duration) (Sample, error) {
	testingFlags()
	if err := flag.Set("test.benchtime", benchtime.String()); err != nil {
		return Sample{}, err
	}
	r := testing.Benchmark(p.Run)
	if r.N == 0 {
		return Sample{}, fmt.Errorf("the path %q failed", p.Name)
	}
	return Sample{
		N:      r.N,
		Ns:     float64(r.T.Nanoseconds()) / float64(r.N),
		Bytes:  r.AllocedBytesPerOp(),
		Allocs: r.AllocsPerOp(),
		Extra:  r.Extra,
	}, nil
}

// BenchmarkLine is s as a line of go test -bench, for benchstat.
func BenchmarkLine(benchmark, name string, s Sample) string {
	procs := ""
	if n := runtime.GOMAXPROCS(0); n > 1 {
		procs = "-" + strconv.Itoa(n)
	}
	// As package testing rewrites the names of its subbenchmarks.
	name = strings.ReplaceAll(name, " ", "_")
	var line strings.Builder
	fmt.Fprintf(&line, "%s/%s%s\t%d\t%.5g ns/op", benchmark, name, procs, s.N, s.Ns)
	for _, unit := range slices.Sorted(maps.Keys(s.Extra)) {
		fmt.Fprintf(&line, "\t%.5g %s", s.Extra[unit], unit)
	}
	fmt.Fprintf(&line, "\t%d B/op\t%d allocs/op", s.Bytes, s.Allocs)
	return line.String()
}
