package durable

import (
	"fmt"
	"io"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/benchmarks/internal/measure"
	"github.com/toolexec/toolexec/benchmarks/internal/recovery"
)

const about = `## Operations that outlive the process

An operation is a begin and a finish, each acknowledged by the database, with a result of 300 bytes. SQLite is in WAL mode with synchronous=FULL, PostgreSQL as it
comes, over TCP on the same machine; both sides use database/sql, with at most %d connections. c is how many callers work at once; the figures are
operations a second, the ratios are taken within a pass, and above 1 is faster than the other. Draining is %s jobs that wait when the
client starts, with 1 000 workers that ask for more without pause; it does not count their insertion.

`

func render(w io.Writer, o Options, missing error, adopted recovery.Result, all ...*contest) {
	_, _ = fmt.Fprintf(w, about, mostConns, measure.Number(float64(o.Jobs)))
	if missing != nil {
		_, _ = fmt.Fprint(w, "No PostgreSQL answered, so what runs on one was not measured (TOOLEXEC_POSTGRES says where to look).\n\n")
	}
	printTargets(w, o, adopted, all)
	for _, c := range all {
		c.print(w)
	}
}

const aboutTargets = `Temporal, of which D4 also speaks (≥ 50 times its activity), is not measured here: its server is a build of its own. While the supervisor adopted what was
in flight (D5, ` + "`go run ./recovery`" + ` alone), %d MiB of heap before it began became %d MiB at most; in transactions of %d, the bare driver does %s single-row updates a second.

`

// printTargets prints what is aimed at, and what was reached.
func printTargets(w io.Writer, o Options, adopted recovery.Result, all []*contest) {
	t := measure.NewTable("", "path", "beside", "measured", "aim", "reached")
	row := func(c *contest, id, of, to, what string, aim measure.Aim) {
		if s := c.got.Ratio(to, of); s.Known() { // of times: the slower has the longer
			t.Row(id, of, what, s, aim, aim.Verdict(s))
		}
	}
	for i, c := range all {
		id := fmt.Sprintf("D%d", i+1)
		most := at(pathSaves, mostCallers)
		row(c, id, at(pathSaves, 1), at(pathBare, 1), c.title+", "+at(pathBare, 1), measure.AtLeast(0.8))
		row(c, id, most, at(pathBare, mostCallers), c.title+", "+at(pathBare, mostCallers), measure.AtLeast([]float64{4, 1.5}[i]))
		if last := c.curve[len(c.curve)-1]; last > fewest {
			aim := measure.AtMost(1.3)
			s := c.got.Ratio(withRecords(last), withRecords(fewest))
			t.Row("D3", c.title+", "+withRecords(last), withRecords(fewest)+" (time of an operation)", s, aim, aim.Verdict(s))
		}
		row(c, "D4", at(pathWrite, mostCallers), at(pathDBOS, mostCallers), at(pathDBOS, mostCallers), measure.AtLeast(8))
		row(c, "D4", at(pathWrite, 1), at(pathDBOS, 1), at(pathDBOS, 1)+" (half its latency)", measure.AtLeast(2))
		row(c, "D4", at(pathWrite, mostCallers), pathDrain, pathDrain, measure.AtLeast(1))
	}
	rate, aim := measure.SpreadOf(adopted.Rate), measure.AtLeast(5_000)
	t.Row("D5", measure.Number(float64(o.InFlight))+" operations in flight, adopted and verified on SQLite", "none: a second, in one pass", measure.Number(rate.Median), aim, aim.Verdict(rate))
	t.Print(w)
	_, _ = fmt.Fprintf(w, aboutTargets, adopted.HeapBefore>>20, adopted.Heap>>20, toolexec.DefaultRecoverWorkers, measure.Number(adopted.Bare))
}

func (c *contest) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "### %s\n\n", c.title)
	head := []string{"path", "beside the work"}
	for _, n := range callers {
		head = append(head, fmt.Sprintf("c=%d", n))
	}
	rates, ratios := measure.NewTable(head...), measure.NewTable(append([]string{"beside bare statements"}, head[2:]...)...)
	for _, p := range c.paths {
		name := p.name
		if p.ours {
			name = "**" + name + "**"
		}
		row, ratio := []any{name, p.does}, []any{name}
		for _, n := range callers {
			row = append(row, perSecond(c.got.Ns(at(p.name, n))))
			ratio = append(ratio, c.got.Ratio(at(pathBare, n), at(p.name, n)))
		}
		rates.Row(row...)
		if p.name != pathBare {
			ratios.Row(ratio...)
		}
	}
	if c.drained {
		rates.Row(pathDrain, "the jobs are there already", "", "", perSecond(c.got.Ns(pathDrain)))
	}
	rates.Print(w)
	ratios.Print(w)
	_, _ = fmt.Fprint(w, "With so many committed operations in the table already, 16 callers:\n\n")
	curve := measure.NewTable("records", "a second", "time beside "+withRecords(fewest), "")
	most := 0.0
	for _, n := range c.curve {
		most = max(most, 1e9/c.got.Ns(withRecords(n)).Median)
	}
	for _, n := range c.curve {
		s := c.got.Ns(withRecords(n))
		curve.Row(measure.Number(float64(n)), perSecond(s), c.got.Ratio(withRecords(n), withRecords(fewest)), measure.Bar(1e9/s.Median, most))
	}
	curve.Print(w)
}

// perSecond is how many operations a second take so long.
func perSecond(ns measure.Spread) measure.Spread {
	return measure.Spread{Median: 1e9 / ns.Median, Min: 1e9 / ns.Max, Max: 1e9 / ns.Min}
}
