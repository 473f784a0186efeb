// Command benchmarks measures the library beside its peers, in one process and
// interleaved, and prints a table of medians and ratios:
//
//	go run . -passes 20
//
// Only the ratios mean anything elsewhere. A pass runs every path once; a ratio
// is taken within a pass, so that a machine that slows down slows both sides.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
)

// path is one way to do a call.
type path struct {
	name string
	run  func(b *testing.B)
}

var paths = []path{
	{"bare call", bareCall},
	{"context.WithTimeout + call", withTimeout},
	{"failsafe-go retry + timeout", failsafeRetryTimeout},
	{"backoff v4, fails twice", failTwiceBackoffV4},
	{"ReadOnly, cooperative", readCooperative},
	{"ReadOnly, enforced deadline", readEnforced},
	{"Write, new ref", writeNewRef},
	{"Write, replayed", replay},
	{"ReadOnly, cooperative, fails twice", failTwiceCooperative},
	{"by name, JSON in and envelope out", byName},
	{"json.Unmarshal + call + json.Marshal", plainJSON},
	{"MCP Go SDK, in memory", mcpInMemory},
	{"Write, 1 × GOMAXPROCS goroutines", writeParallel(1)},
	{"Write, 2 × GOMAXPROCS goroutines", writeParallel(2)},
	{"Write, 4 × GOMAXPROCS goroutines", writeParallel(4)},
}

// ratio compares two paths, and says what is aimed at.
type ratio struct{ id, of, to, aim string }

var ratios = []ratio{
	{"P1", "ReadOnly, cooperative", "context.WithTimeout + call", "≤ 0.6"},
	{"P1", "ReadOnly, cooperative", "failsafe-go retry + timeout", "≤ 0.25"},
	{"P2", "ReadOnly, enforced deadline", "failsafe-go retry + timeout", "≤ 0.65, ≤ 3 allocs"},
	{"P3", "Write, new ref", "failsafe-go retry + timeout", "≤ 2.5"},
	{"P4", "Write, replayed", "Write, new ref", "≤ 0.5"},
	{"P5", "ReadOnly, cooperative, fails twice", "backoff v4, fails twice", "≤ 0.8"},
	{"P6", "by name, JSON in and envelope out", "MCP Go SDK, in memory", "≤ 0.1"},
	{"P6", "by name, JSON in and envelope out", "json.Unmarshal + call + json.Marshal", "≤ 4"},
	{"P7", "Write, 2 × GOMAXPROCS goroutines", "Write, 1 × GOMAXPROCS goroutines", "≤ 1"},
	{"P7", "Write, 4 × GOMAXPROCS goroutines", "Write, 1 × GOMAXPROCS goroutines", "≤ 1"},
}

// sample is one path in one pass.
type sample struct {
	ns            float64
	bytes, allocs int64
}

func main() {
	testing.Init()
	passes := flag.Int("passes", 10, "how many interleaved passes")
	_ = flag.Set("test.benchtime", "50ms")
	flag.Parse()
	got := measure(*passes)
	fmt.Printf("%s, GOMAXPROCS %d, %d passes; median (min to max)\n\n", runtime.Version(), runtime.GOMAXPROCS(0), *passes)
	fmt.Println("| path | ns | B | allocs |\n|---|---|---|---|")
	for _, p := range paths {
		fmt.Printf("| %s | %s | %d | %d |\n", p.name, spread(times(got[p.name]), "%.0f"), got[p.name][0].bytes, got[p.name][0].allocs)
	}
	fmt.Println("\n| | path | beside | ratio | aim |\n|---|---|---|---|---|")
	for _, r := range ratios {
		fmt.Printf("| %s | %s | %s | %s | %s |\n", r.id, r.of, r.to, spread(within(got[r.of], got[r.to]), "%.2f"), r.aim)
	}
}

// measure runs every path once a pass.
func measure(passes int) map[string][]sample {
	got := make(map[string][]sample)
	for pass := range passes {
		for _, p := range paths {
			r := testing.Benchmark(p.run)
			if r.N == 0 {
				fmt.Fprintln(os.Stderr, p.name, "failed")
				os.Exit(1)
			}
			got[p.name] = append(got[p.name], sample{float64(r.T.Nanoseconds()) / float64(r.N), r.AllocedBytesPerOp(), r.AllocsPerOp()})
		}
		fmt.Fprintf(os.Stderr, "pass %d of %d\r", pass+1, passes)
	}
	fmt.Fprintln(os.Stderr)
	return got
}

func times(list []sample) []float64 {
	out := make([]float64, len(list))
	for i, s := range list {
		out[i] = s.ns
	}
	return out
}

// within returns the ratio of two paths in each pass.
func within(of, to []sample) []float64 {
	out := make([]float64, len(of))
	for i := range of {
		out[i] = of[i].ns / to[i].ns
	}
	return out
}

// spread formats median, minimum and maximum.
func spread(list []float64, format string) string {
	list = slices.Sorted(slices.Values(list))
	return fmt.Sprintf(format+" ("+format+" to "+format+")", list[len(list)/2], list[0], list[len(list)-1])
}
