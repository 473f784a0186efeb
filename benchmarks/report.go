package main

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolexec/toolexec/benchmarks/durable"
	"github.com/toolexec/toolexec/benchmarks/internal/measure"
)

// environment is where and when a page was printed.
type environment struct {
	processor, platform, goVersion, commit string
	procs                                  int
	envelope                               int // bytes of the one that is encoded
	date                                   time.Time
	versions                               map[string]string // by module
}

func here() environment {
	return environment{
		processor: measure.Processor(), platform: runtime.GOOS + "/" + runtime.GOARCH, goVersion: runtime.Version(), commit: measure.Commit(),
		procs: runtime.GOMAXPROCS(0), envelope: encodedBytes(), date: time.Now(), versions: measure.Versions(),
	}
}

// report is a page of what was measured.
type report struct {
	environment
	options
	got *measure.Samples
}

const preamble = `# What it costs

Printed by ` + "`%s`" + ` in ` + "`benchmarks/`" + `; no figure on this page was typed by hand. A row has the median of its passes and, in brackets, the least
and the greatest; **bold** paths are this library's.

Absolute figures are those of one machine, which others may have used at the same time: they prove nothing elsewhere. A ratio is taken within a pass, in which every
path runs once, so that a machine that slows down slows both sides; judge by ratios. 1.00 is as fast as the other, 0.50 takes half its time.

`

// markdown writes the page.
func (r *report) markdown(w *bytes.Buffer) {
	fmt.Fprintf(w, preamble, r.command)
	r.printRun(w)
	r.printTargets(w)
	if r.has(sectionPaths) {
		for _, g := range groups {
			r.printGroup(w, g)
		}
		w.WriteString(aboutFloors)
		r.printTable(w, floors())
	}
	if r.has(sectionCurves) {
		r.printGoroutines(w)
		r.printRecords(w)
		r.printSizes(w)
	}
}

func (r *report) printRun(w *bytes.Buffer) {
	t := measure.NewTable("this run", "")
	t.Row("date", r.date.UTC().Format("2006-01-02 15:04 MST"))
	t.Row("processor", fmt.Sprintf("%s, GOMAXPROCS %d", r.processor, r.procs))
	t.Row("Go", r.goVersion+" "+r.platform)
	if r.commit != "" {
		t.Row("commit", r.commit)
	}
	t.Row("passes", fmt.Sprintf("%d, of %s for each path", r.passes, r.benchtime))
	list := modules()
	if r.has(sectionDurable) {
		list = append(list, durable.Peers...)
	}
	for _, module := range list {
		t.Row(module, version(r.versions, module))
	}
	t.Print(w)
}

// modules are those of the peers.
func modules() []string {
	var out []string
	for _, g := range groups {
		for _, e := range g.entries {
			if e.from != "" {
				out = append(out, e.from)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func version(versions map[string]string, module string) string {
	if v := versions[module]; v != "" {
		return v
	}
	return "unknown"
}

func (r *report) printTargets(w *bytes.Buffer) {
	w.WriteString("## What is aimed at\n\n")
	r.printTable(w, targets(r.records))
}

func (r *report) printTable(w *bytes.Buffer, list []target) {
	t := measure.NewTable("", "path", "beside", "measured", "aim", "reached")
	for _, target := range list {
		aim, reached, measured := "", "", "not measured in this run"
		if s := target.value(r.got); s.Known() {
			measured = s.String()
			if target.aim != nil {
				reached = target.aim.Verdict(s)
			}
		}
		if target.aim != nil {
			aim = target.aim.String()
		}
		t.Row(target.id, target.what, target.beside, measured, aim, reached)
	}
	t.Print(w)
}

func (r *report) printGroup(w *bytes.Buffer, g group) {
	fmt.Fprintf(w, "## %s\n\n%s\n\n", g.title, strings.ReplaceAll(g.text, "{bytes}", strconv.Itoa(r.envelope)))
	t := measure.NewTable("path", "beside the call", "ns", "B", "allocs")
	for _, e := range g.entries {
		t.Row(e.label(), e.does, r.got.Ns(e.Name), measure.Number(r.got.Bytes(e.Name).Median), measure.Number(r.got.Allocs(e.Name).Median))
	}
	t.Print(w)
	if g.call {
		r.printScale(w, g)
	}
	r.printBeside(w, g)
}

// usual is what a tool may take that calls somebody over a network.
const usual = 10 * time.Millisecond

// printScale prints what this library's paths are beside a tool that does
// something.
func (r *report) printScale(w *bytes.Buffer, g group) {
	var list []string
	for _, e := range g.entries {
		if e.ours {
			list = append(list, fmt.Sprintf("%s: %s %%", e.Name, measure.Number(100*r.got.Ns(e.Name).Median/float64(usual))))
		}
	}
	fmt.Fprintf(w, "Of a tool that takes %s, that is, in the median, %s.\n\n", usual, strings.Join(list, "; "))
}

// printBeside prints what this library's paths take beside each of the others.
func (r *report) printBeside(w *bytes.Buffer, g group) {
	head := []string{"beside"}
	for _, mine := range g.entries {
		if mine.ours {
			head = append(head, mine.Name)
		}
	}
	t := measure.NewTable(head...)
	for _, other := range g.entries {
		if other.ours {
			continue
		}
		row := []any{other.Name}
		for _, mine := range g.entries {
			if mine.ours {
				row = append(row, r.got.Ratio(mine.Name, other.Name))
			}
		}
		t.Row(row...)
	}
	t.Print(w)
}

// label is e's name in the table, bold when it is this library's.
func (e entry) label() string {
	if e.ours {
		return "**" + e.Name + "**"
	}
	return e.Name
}

const aboutGoroutines = `## Goroutines

A guarded write, each with a ref of its own, from several goroutines at once; ns is the time of the run over its operations.

`

func (r *report) printGoroutines(w *bytes.Buffer) {
	w.WriteString(aboutGoroutines)
	perSecond := func(n int) float64 { return 1e9 / r.got.Ns(goroutinesName(n)).Median }
	most := 0.0
	for _, n := range goroutines {
		most = max(most, perSecond(n))
	}
	t := measure.NewTable("goroutines", "ns", "beside one", "a second", "")
	for _, n := range goroutines {
		t.Row(n, r.got.Ns(goroutinesName(n)), r.got.Ratio(goroutinesName(n), goroutinesName(1)), measure.Number(perSecond(n)), measure.Bar(perSecond(n), most))
	}
	t.Print(w)
}

const aboutRecords = `## Records

A guarded write in a store in memory that holds so many committed operations already, or up to half as many more; with none, it forgets each at once. The
collector's work is part of the time. The heap is what each record keeps, its key included, besides its result. Passes: %d.

`

func (r *report) printRecords(w *bytes.Buffer) {
	fmt.Fprintf(w, aboutRecords, r.recordPasses())
	most := 0.0
	for _, n := range records(r.records) {
		most = max(most, r.got.Ns(recordsName(n)).Median)
	}
	t := measure.NewTable("records", "ns", "beside none", "B of heap a record", "")
	for _, n := range records(r.records) {
		name := recordsName(n)
		heap := ""
		if n > 0 {
			heap = r.got.Extra(name, heapPerRecord).String()
		}
		t.Row(measure.Number(float64(n)), r.got.Ns(name), r.got.Ratio(name, recordsName(0)), heap, measure.Bar(r.got.Ns(name).Median, most))
	}
	t.Print(w)
}

const aboutSizes = `## Result size

The result is one text; records keep it whole. Beside it, what ` + "`json.Marshal`" + ` alone takes for the result. A call by name is a read, and ends with the envelope's bytes.

`

func (r *report) printSizes(w *bytes.Buffer) {
	w.WriteString(aboutSizes)
	paths := []string{pathMarshalResult, pathWrite, pathReplay, pathByName}
	times := measure.NewTable(append([]string{"result, ns"}, paths...)...)
	ratios := measure.NewTable(append([]string{"beside json.Marshal"}, paths[1:]...)...)
	for _, s := range sizes {
		row, ratio := []any{s}, []any{s}
		for _, p := range paths {
			row = append(row, r.got.Ns(s.of(p)))
		}
		for _, p := range paths[1:] {
			ratio = append(ratio, r.got.Ratio(s.of(p), s.of(pathMarshalResult)))
		}
		times.Row(row...)
		ratios.Row(ratio...)
	}
	times.Print(w)
	ratios.Print(w)
}
