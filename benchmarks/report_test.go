package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolexec/toolexec/benchmarks/internal/measure"
)

var update = flag.Bool("update", false, "write the page of fixed samples to testdata")

// A run of a moment: each path works, each section is there, each peer has a
// version, and no target is left out.
func TestRun(t *testing.T) {
	page := printed(t, "-passes", "1", "-benchtime", "1ms", "-records", "1000", "-sections", "paths,curves")
	for _, want := range []string{"# What it costs", "## What is aimed at", "## Goroutines", "## Records", "## Result size"} {
		contains(t, page, want)
	}
	for _, g := range groups {
		contains(t, page, "## "+g.title)
		for _, e := range g.entries {
			contains(t, page, "| "+e.label()+" | ")
		}
	}
	for _, module := range modules() {
		if !regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(module) + ` \| v\d`).MatchString(page) {
			t.Errorf("no version of %s", module)
		}
	}
	for _, id := range []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8"} {
		contains(t, page, "\n| "+id+" | ")
	}
	for _, wrong := range []string{"not measured", "unknown |", "–"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the page has %q:\n%s", wrong, page)
		}
	}
}

func TestBenchstat(t *testing.T) {
	lines := printed(t, "-passes", "2", "-benchtime", "1ms", "-sections", sectionPaths, "-format", "benchstat")
	one := regexp.MustCompile(`^BenchmarkPaths/\S+\t\d+\t[\d.e+]+ ns/op\t\d+ B/op\t\d+ allocs/op$`)
	count := map[string]int{}
	for line := range strings.Lines(lines) {
		if line = strings.TrimSuffix(line, "\n"); one.MatchString(line) {
			name, _, _ := strings.Cut(line, "\t")
			count[name]++
		} else if !regexp.MustCompile(`^(goos|goarch|pkg|cpu): `).MatchString(line) {
			t.Errorf("not a line of a benchmark: %q", line)
		}
	}
	paths := options{sections: []string{sectionPaths}}.paths()
	if len(count) != len(paths) {
		t.Errorf("%d paths, want %d", len(count), len(paths))
	}
	for name, n := range count {
		if n != 2 {
			t.Errorf("%d lines of %s, want 2", n, name)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-sections", "paths,more"}, {"-format", "html"}, {"-passes", "0"}, {"-benchtime", "-1s"}, {"-records", "10"}, {"more"}, {"-more"},
	} {
		if err := run(context.Background(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run(ctx, []string{"-records", "1000", "-sections", "paths,curves"}, io.Discard, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A section that was not measured is left out, and its targets say so.
func TestOneSection(t *testing.T) {
	page := printed(t, "-passes", "1", "-benchtime", "1ms", "-sections", sectionPaths)
	if strings.Contains(page, "## Goroutines") {
		t.Error("there are goroutines")
	}
	contains(t, page, "| P7 | Write, new ref, 2 goroutines | Write, new ref, 1 goroutine | not measured in this run | ≤ 1 |  |\n")
}

// TestPage compares the page of fixed samples with the one in testdata.
func TestPage(t *testing.T) {
	r := report{
		environment{
			processor: "a processor", platform: "linux/amd64", goVersion: "go1.26", commit: "0123456789abcdef", procs: 2, envelope: 500,
			date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), versions: map[string]string{},
		},
		options{passes: 3, records: 10_000, benchtime: 50 * time.Millisecond, sections: []string{sectionPaths, sectionCurves}, command: "go run ."},
		new(measure.Samples),
	}
	for _, module := range modules() {
		r.versions[module] = "v1.2.3"
	}
	for i, p := range append(r.paths(), recordPaths(r.records)...) {
		for pass := range r.passes {
			r.got.Add(p.Name, measure.Sample{
				N: 1, Ns: float64(100 + 13*i + 40*pass*(i%3)), Bytes: int64(100 * i), Allocs: int64(i % 5),
				Extra: map[string]float64{heapPerRecord: float64(300 + 50*pass)},
			})
		}
	}
	var page bytes.Buffer
	r.markdown(&page)
	golden := filepath.Join("testdata", "page.md")
	if *update {
		if err := os.WriteFile(golden, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, page.Bytes()) {
		t.Errorf("not %s (go test . -run TestPage -update writes it):\n%s", golden, page.String())
	}
}

// printed is what a run writes to its file.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.md")
	if err := run(context.Background(), append(args, "-o", file), io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func contains(t *testing.T, page, want string) {
	t.Helper()
	if !strings.Contains(page, want) {
		t.Errorf("the page lacks %q", want)
	}
}
