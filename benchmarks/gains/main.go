// Command gains measures optimisations again: for each it builds the benchmarks
// of today on the commit before it and on the commit that made it, has the two
// binaries take turns, and prints a row of before and after:
//
//	cd benchmarks && go run ./gains -o GAINS.md
//
// It needs git, and the history of the repository.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/toolexec/toolexec/benchmarks/internal/measure"
)

// gain is an optimisation that was kept.
type gain struct {
	commit string
	what   string
	paths  []string // those that it is for
}

// kept are they, oldest first.
var kept = []gain{
	{"9215853", "the memory of a scan of arguments is reused", []string{"Write, new ref"}},
	{"16c330b", "the guard passes records by pointer", []string{"Write, new ref"}},
	{"464c7a6", "calls and attempts are smaller, and read the clock less often", []string{"ReadOnly, cooperative", "ReadOnly, cooperative, fails twice", "Write, new ref"}},
	{"931f339", "a call by name allocates six objects fewer", []string{"by name, JSON in and envelope out"}},
	{"9d58de4", "three allocations of a write fewer, and a scan of each failure", []string{"ReadOnly, cooperative, fails twice", "Write, new ref"}},
	{"f1daaaf", "a moment in a record is smaller, and the loop breaker costs nothing outside a run", []string{"ReadOnly, cooperative", "Write, new ref"}},
	{"0ea55d9", "a call reads its clock once and then what has passed; its envelope is made where it is answered", []string{"ReadOnly, cooperative", "ReadOnly, cooperative, fails twice"}},
	{"be15629", "the timer of a deadline is left running from one call to the next", []string{"ReadOnly, enforced deadline"}},
	{"4c83b78", "a guarded call is one allocation, an attempt is smaller, a record is stored where it lies", []string{"ReadOnly, cooperative, fails twice", "Write, new ref", "Write, replayed"}},
	{"61aec25", "good arguments are recognised in one pass", []string{"by name, JSON in and envelope out"}},
	{"69afd9f", "a record's moments are resolved without a list of them", []string{"Write, new ref"}},
}

func main() {
	passes := flag.Int("passes", 10, "how often each binary takes its turn")
	benchtime := flag.Duration("benchtime", 50*time.Millisecond, "how long a path takes in a turn")
	only := flag.String("only", "", "the commit of one of them; all without it")
	output := flag.String("o", "", "the file to write, standard output without it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var page bytes.Buffer
	err := run(ctx, &page, os.Stderr, *passes, *benchtime, *only)
	stop()
	if err == nil && *output != "" {
		err = os.WriteFile(*output, page.Bytes(), 0o644) //nolint:gosec // a page is for all to read
	} else if err == nil {
		_, err = os.Stdout.Write(page.Bytes())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gains:", err)
		os.Exit(1)
	}
}

const preamble = `# What was won

Printed by ` + "`go run ./gains -o GAINS.md`" + ` in ` + "`benchmarks/`" + `. For each optimisation that was kept, the benchmarks of today were built on the commit before it and on the one that
made it, and the two took turns: %d passes of %s. A ratio is taken within a pass; below 1 is faster than before.

`

func run(ctx context.Context, w, progress io.Writer, passes int, benchtime time.Duration, only string) error {
	dir, err := os.MkdirTemp("", "gains")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	_, _ = fmt.Fprintf(w, preamble, passes, benchtime)
	t := measure.NewTable("commit", "what", "path", "before, ns", "after, ns", "after beside before", "B", "allocs")
	for _, g := range kept {
		if only != "" && only != g.commit {
			continue
		}
		_, _ = fmt.Fprintln(progress, g.commit, g.what)
		before, err := build(ctx, filepath.Join(dir, g.commit+"-before"), g.commit+"^")
		if err != nil {
			return err
		}
		after, err := build(ctx, filepath.Join(dir, g.commit+"-after"), g.commit)
		if err != nil {
			return err
		}
		if err := g.measure(ctx, t, before, after, passes, benchtime); err != nil {
			return err
		}
	}
	t.Print(w)
	return nil
}

// build returns the benchmarks of today on a commit.
func build(ctx context.Context, dir, commit string) (binary string, err error) {
	for _, step := range [][]string{
		{"git", "clone", "--quiet", "--shared", "--no-checkout", "..", dir},
		{"git", "-C", dir, "checkout", "--quiet", commit},
		{"rm", "-rf", filepath.Join(dir, "benchmarks")},
		{"cp", "-R", ".", filepath.Join(dir, "benchmarks")},
		{"go", "-C", filepath.Join(dir, "benchmarks"), "test", "-c", "-o", filepath.Join(dir, "bench.test"), "."},
	} {
		c := exec.CommandContext(ctx, step[0], step[1:]...) //nolint:gosec // of the list above
		if out, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(step, " "), err, out)
		}
	}
	return filepath.Join(dir, "bench.test"), nil
}

// measure adds a row for each path of g.
func (g gain) measure(ctx context.Context, t *measure.Table, before, after string, passes int, benchtime time.Duration) error {
	var got measure.Samples
	for range passes {
		for _, path := range g.paths {
			for side, binary := range map[string]string{"before ": before, "after ": after} {
				s, err := once(ctx, binary, path, benchtime)
				if err != nil {
					return fmt.Errorf("%s of %s: %w", path, g.commit, err)
				}
				got.Add(side+path, s)
			}
		}
	}
	change := func(of func(string) measure.Spread, path string) string {
		return measure.Number(of("before "+path).Median) + " → " + measure.Number(of("after "+path).Median)
	}
	for _, path := range g.paths {
		t.Row("`"+g.commit+"`", g.what, path, got.Ns("before "+path), got.Ns("after "+path), got.Ratio("after "+path, "before "+path), change(got.Bytes, path), change(got.Allocs, path))
	}
	return nil
}

var line = regexp.MustCompile(`(?m)^BenchmarkPaths\S*\s+(\d+)\s+([\d.]+) ns/op\s+(\d+) B/op\s+(\d+) allocs/op`)

// once is one turn of a binary.
func once(ctx context.Context, binary, path string, benchtime time.Duration) (measure.Sample, error) {
	name := "^BenchmarkPaths$/^" + regexp.QuoteMeta(strings.ReplaceAll(path, " ", "_")) + "$"
	c := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.benchmem", "-test.bench", name, "-test.benchtime", benchtime.String()) //nolint:gosec // built above
	out, err := c.CombinedOutput()
	if err != nil {
		return measure.Sample{}, fmt.Errorf("%w\n%s", err, out)
	}
	m := line.FindSubmatch(out)
	if m == nil {
		return measure.Sample{}, errors.New("it printed no figures: " + string(out))
	}
	number := func(i int) float64 {
		v, _ := strconv.ParseFloat(string(m[i]), 64) // the pattern has made sure
		return v
	}
	return measure.Sample{N: int(number(1)), Ns: number(2), Bytes: int64(number(3)), Allocs: int64(number(4))}, nil
}
