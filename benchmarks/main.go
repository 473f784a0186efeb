// Command benchmarks measures the library beside its peers, in one process and
// interleaved, and prints a page of medians and ratios:
//
//	cd benchmarks && go run . -o RESULTS.md
//
// With -format benchstat it prints the lines of go test -bench instead, one for
// each path and pass.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/toolexec/toolexec/benchmarks/durable"
	"github.com/toolexec/toolexec/benchmarks/internal/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

// The sections of a page.
const (
	sectionPaths   = "paths"
	sectionCurves  = "curves"
	sectionDurable = "durable"
)

var sections = []string{sectionPaths, sectionCurves, sectionDurable}

type options struct {
	passes, records         int
	benchtime               time.Duration
	sections                []string
	format, output, command string
}

func (o options) has(section string) bool { return slices.Contains(o.sections, section) }

func parse(args []string, progress io.Writer) (options, error) {
	o := options{command: strings.Join(append([]string{"go run ."}, args...), " ")}
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.IntVar(&o.passes, "passes", 10, "how many interleaved passes")
	flags.DurationVar(&o.benchtime, "benchtime", 50*time.Millisecond, "how long a path takes in a pass")
	flags.IntVar(&o.records, "records", 1_000_000, "how many records the longest curve goes to, a thousand or more")
	flags.StringVar(&o.format, "format", "markdown", "markdown or benchstat")
	flags.StringVar(&o.output, "o", "", "the file to write, standard output without it")
	list := flags.String("sections", strings.Join(sections, ","), "what to measure")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.sections = strings.Split(*list, ",")
	return o, o.check(flags.Args())
}

func (o options) check(rest []string) error {
	for _, s := range o.sections {
		if !slices.Contains(sections, s) {
			return fmt.Errorf("there is no section %q, but %s", s, strings.Join(sections, ", "))
		}
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is no flag", rest[0])
	case o.format != "markdown" && o.format != "benchstat":
		return fmt.Errorf("there is no format %q, but markdown and benchstat", o.format)
	case o.passes < 1 || o.benchtime <= 0 || o.records < 1_000:
		return fmt.Errorf("nothing to measure: %d passes of %s, %d records", o.passes, o.benchtime, o.records)
	}
	return nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	got, err := o.samples(ctx, progress)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if o.format == "benchstat" {
		benchstat(&page, got)
	} else {
		(&report{here(), o, got}).markdown(&page)
		if o.has(sectionDurable) {
			if err := durable.Section(ctx, &page, o.durable(progress)); err != nil {
				return err
			}
		}
	}
	text := append(bytes.TrimRight(page.Bytes(), "\n"), '\n')
	if o.output != "" {
		return os.WriteFile(o.output, text, 0o644) //nolint:gosec // a page is for all to read
	}
	_, err = out.Write(text)
	return err
}

// samples measures what there is in the sections.
func (o options) samples(ctx context.Context, progress io.Writer) (*measure.Samples, error) {
	got := new(measure.Samples)
	err := got.Run(ctx, o.paths(), o.passes, o.benchtime, progress)
	if err == nil && o.has(sectionCurves) {
		err = got.Run(ctx, recordPaths(o.records), o.recordPasses(), o.benchtime, progress)
	}
	return got, err
}

// durable are the options of what is slow: fewer passes, of longer windows. A
// short run has short curves, because to fill a table takes longer than to measure.
func (o options) durable(progress io.Writer) durable.Options {
	out := durable.Options{
		Passes: (o.passes + 1) / 2, Window: 10 * o.benchtime, Records: o.records, Jobs: 20_000, InFlight: 100_000, Progress: progress,
	}
	if o.benchtime < 50*time.Millisecond {
		out.Window, out.Records, out.Jobs, out.InFlight = 300*time.Millisecond, min(o.records, 10_000), 2_000, 20_000
	}
	return out
}

// paths are those that take turns.
func (o options) paths() []measure.Path {
	var out []measure.Path
	if o.has(sectionPaths) {
		for _, g := range groups {
			for _, e := range g.entries {
				out = append(out, e.Path)
			}
		}
		out = append(out, floorPaths()...)
	}
	if o.has(sectionCurves) {
		out = append(out, goroutinePaths()...)
		out = append(out, sizePaths()...)
	}
	return out
}

// recordPasses are fewer, because they are long.
func (o options) recordPasses() int { return (o.passes + 2) / 3 }

// benchmark is the one of which the paths are subbenchmarks.
const benchmark = "BenchmarkPaths"

func benchstat(w *bytes.Buffer, got *measure.Samples) {
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: %s\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, "github.com/toolexec/toolexec/benchmarks", measure.Processor())
	for _, name := range got.Names() {
		for _, one := range got.Of(name) {
			fmt.Fprintln(w, measure.BenchmarkLine(benchmark, name, one))
		}
	}
}
