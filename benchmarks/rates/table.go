package main

import (
	"fmt"
	"strings"
	"time"
)

// column is one of the first tables. Less is better in all of them.
type column struct {
	name  string
	value func(tally) float64
	text  string // the format of value
}

func (c column) format(t tally) string { return fmt.Sprintf(c.text, c.value(t)) }

var columns = []column{
	{"duplicates", func(t tally) float64 { return float64(t.duplicates) }, "%.0f"},
	{"lost", func(t tally) float64 { return float64(t.lost) }, "%.0f"},
	{"told wrong", func(t tally) float64 { return float64(t.wrong) }, "%.0f"},
	{"unresolved", func(t tally) float64 { return float64(t.unresolved) }, "%.0f"},
	{"false suppression", func(t tally) float64 { return float64(t.notMade) }, "%.0f"},
	{"added latency", func(t tally) float64 { return t.mean.Seconds() }, "%.1f s"},
	{"p99", func(t tally) float64 { return t.p99.Seconds() }, "%.1f s"},
	{"attempts", func(t tally) float64 { return t.attempts }, "%.2f"},
}

const preamble = `# What goes wrong, counted

Printed by ` + "`cd benchmarks && go run ./rates -o RATES.md`" + `; ` + "`go test ./rates`" + ` fails when this page is not what that prints. All time is fake, and one seed gives one
page; this is seed %d.

## What is counted

A world is an agent, the processes that run its tool calls, and a remote side with a ledger. The agent wants an effect, a refund. A fault befalls the first
attempt; in a third of the worlds another one befalls the second too, in a ninth the third; later attempts meet none. In a quarter of the worlds a second refund
is wanted, with equal arguments and meant, up to 20 s after the first; no fault befalls its own attempts. Every contender lives through the same
worlds, %d for each of %d faults.

The agent is the same for all. It calls until it is told that the operation is done or that calling again is no use, six times at most, 1 to 3 s after each
answer. A process that dies is back after 1 to 3 s, and the agent calls again. A third of the worlds each:

- **with the ref**: each call carries the ref of the operation (run and step); the agent waits as long as it is told to.
- **without**: no call carries a ref; it waits all the same.
- **planned anew**: the first call carries a ref; every later one has another call id and no ref, and comes without waiting.

The columns; less is better in each, and **bold** is a figure of this library that is worse than the best one of the others:

%s
## Contenders

For all: 2 s an attempt, two retries after 0.5 s and 1 s unless the text says otherwise, no jitter. An error is read as kindly as it can be: what says that
nothing was done (a refused connection, a 4xx) is believed, anything else (a timeout, a 503, a panic) tells the agent that the outcome is unknown.

%s
This library's run on a durable store, with a ` + "`Supervisor`" + ` beside the calls; what that finds out after the agent's last call is told to the agent, which goes
on if it may.
`

// markdown is the page.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, preamble, r.seed, r.each, len(faults), definitions, setups())
	b.WriteString("\n## All faults together\n")
	for _, g := range r.groups {
		fmt.Fprintf(&b, "\n%s; %d operations for each contender:\n\n", g.title(), sum(g.cells[0].outcomes, everything).operations)
		g.together(&b, "", everything)
	}
	b.WriteString("\n## Where this library is worse\n\nThan the best of the others, in the tables above:\n\n")
	for _, g := range r.groups {
		g.worse(&b)
	}
	b.WriteString(reasons)
	b.WriteString("\n## By how the agent calls again\n")
	for _, g := range r.groups {
		fmt.Fprintf(&b, "\n%s:\n\n", g.title())
		for s := range styles {
			g.together(&b, s.String(), func(o outcome) bool { return o.style == s })
		}
	}
	b.WriteString(legend)
	for _, g := range r.groups {
		fmt.Fprintf(&b, "\n%s:\n\n", g.title())
		g.byFault(&b)
	}
	return b.String()
}

const reasons = `
Nobody but this library waits: a write in doubt is looked up, and sent again only when the settle window has passed without it, 30 s unless the tool says
otherwise. Where nobody can look it up it stays unknown, for a person. Where no call has a ref, an equal call is taken for the one that is open, and for another
operation when none is: so a second operation can be swallowed, and a second delivery can be a second effect. Refs are there to tell these apart. A write whose
tool panicked, and of which a supervisor then finds that nothing was done, is handed to a person and not repeated.
`

const legend = `
## By fault

What befalls the first attempt, with the agent's three ways together. D duplicates, L lost, W told wrong, U unresolved, S false suppression, as counts; – is
none of these. Then the mean of the added latency, where anything was told.
`

func everything(outcome) bool { return true }

// setups lists the contenders.
func setups() string {
	var b strings.Builder
	for _, c := range append(append([]*contender(nil), library...), peers...) {
		fmt.Fprintf(&b, "- **%s**: %s\n", c.label(), c.setup)
	}
	return b.String()
}

// label is c's name in the tables.
func (c *contender) label() string {
	if c.ours {
		return "toolexec " + c.name
	}
	return c.name
}

func (g *group) title() string {
	if g.dedupes {
		return "A remote side **with** idempotency keys"
	}
	return "A remote side **without** idempotency keys"
}

// together writes a table with a row for each contender, under a heading of its
// own in the first column unless that is "".
func (g *group) together(b *strings.Builder, first string, meant func(outcome) bool) {
	rows := g.sums(meant)
	if first == "" || first == style(0).String() {
		g.head(b, first != "")
	}
	for i, t := range rows {
		if first != "" {
			fmt.Fprintf(b, "| %s ", first)
		}
		fmt.Fprintf(b, "| %s |", g.cells[i].contender.label())
		for _, c := range columns {
			text := c.format(t)
			if _, worse := g.beaten(i, c, rows); worse {
				text = "**" + text + "**"
			}
			fmt.Fprintf(b, " %s |", text)
		}
		b.WriteString("\n")
	}
}

func (g *group) head(b *strings.Builder, styled bool) {
	if styled {
		b.WriteString("| the agent ")
	}
	b.WriteString("| contender |")
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", c.name)
	}
	fmt.Fprintf(b, "\n|%s\n", strings.Repeat("---|", 1+count(styled)+len(columns)))
}

// sums returns the tally of each cell.
func (g *group) sums(meant func(outcome) bool) []tally {
	out := make([]tally, len(g.cells))
	for i, c := range g.cells {
		out[i] = sum(c.outcomes, meant)
	}
	return out
}

// beaten returns the other that is best in c, and whether contender i is the
// library's and worse, as far as the text shows.
func (g *group) beaten(i int, c column, rows []tally) (by int, worse bool) {
	by = -1
	for p, t := range rows {
		if !g.cells[p].contender.ours && (by < 0 || c.value(t) < c.value(rows[by])) {
			by = p
		}
	}
	worse = g.cells[i].contender.ours && c.value(rows[i]) > c.value(rows[by]) && c.format(rows[i]) != c.format(rows[by])
	return by, worse
}

// worse lists what is bold in the table of all faults together.
func (g *group) worse(b *strings.Builder) {
	rows := g.sums(everything)
	side := "without keys"
	if g.dedupes {
		side = "with keys"
	}
	for i, cell := range g.cells {
		var parts []string
		for _, c := range columns {
			if by, worse := g.beaten(i, c, rows); worse {
				parts = append(parts, fmt.Sprintf("%s %s (%s: %s)", c.name, c.format(rows[i]), g.cells[by].contender.name, c.format(rows[by])))
			}
		}
		if len(parts) > 0 {
			fmt.Fprintf(b, "- %s, %s: %s.\n", cell.contender.label(), side, strings.Join(parts, "; "))
		}
	}
}

// byFault writes the table with a row for each fault.
func (g *group) byFault(b *strings.Builder) {
	b.WriteString("| fault |")
	for _, c := range g.cells {
		fmt.Fprintf(b, " %s |", c.contender.label())
	}
	fmt.Fprintf(b, "\n|%s\n", strings.Repeat("---|", 1+len(g.cells)))
	for _, f := range faults {
		fmt.Fprintf(b, "| %s |", f.name)
		for _, t := range g.sums(func(o outcome) bool { return o.fault == f }) {
			fmt.Fprintf(b, " %s |", t.brief())
		}
		b.WriteString("\n")
	}
}

// brief is t in a few characters.
func (t tally) brief() string {
	var words []string
	for _, c := range []struct {
		letter string
		n      int
	}{{"D", t.duplicates}, {"L", t.lost}, {"W", t.wrong}, {"U", t.unresolved}, {"S", t.notMade}} {
		if c.n > 0 {
			words = append(words, fmt.Sprintf("%s%d", c.letter, c.n))
		}
	}
	if len(words) == 0 {
		words = []string{"–"}
	}
	if t.definite > 0 {
		words = append(words, fmt.Sprintf("%.1f s", t.mean.Round(100*time.Millisecond).Seconds()))
	}
	return strings.Join(words, " ")
}
