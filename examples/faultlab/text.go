package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolexec/toolexec"
)

// The exhibits as text, at most width columns wide.

const (
	width  = 100
	column = 100 * time.Millisecond // of the chart
	indent = "  "
)

// text shows exhibits; what was learnt comes after the last.
func text(l *lab, w io.Writer) func(*exhibit) error {
	p := &page{lab: l}
	p.head()
	return func(e *exhibit) error {
		p.exhibit(e)
		if len(p.ways) == len(l.refunds()) {
			p.learnt()
		}
		_, err := io.WriteString(w, p.String())
		p.Reset()
		return err
	}
}

type page struct {
	strings.Builder
	lab  *lab
	part string
	read *exhibit // a read whose answer never came
	ways []*exhibit
}

func (p *page) line(format string, args ...any) {
	p.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

func (p *page) head() {
	d := &documented
	p.line("faultlab: %s for each attempt, up to %d retries, after %s and %s",
		seconds(d.Deadline), d.MaxRetries, seconds(d.Backoff.Initial), seconds(time.Duration(d.Backoff.Multiplier*float64(d.Backoff.Initial))))
	if p.lab.speed == 1 {
		p.line("Run at full length; times are rounded down to %s.", seconds(p.lab.grain()))
	} else {
		p.line("Run %d times faster than the times say (-real: at full length); they are rounded down to %s.", p.lab.speed, seconds(p.lab.grain()))
	}
	p.line("They add up attempts, pauses and look-ups, each at most as long as the policy allows.")
	p.line("Charts: a column is %s; a digit begins an attempt, = it runs, . pause, ? look-up.", seconds(column))
}

func (p *page) exhibit(e *exhibit) {
	if e.part != p.part {
		p.part = e.part
		p.line("\n\n%s\n%s", e.part, strings.Repeat("=", len(e.part)))
	}
	if e.gateway != nil {
		p.ways = append(p.ways, e)
	} else if retried(e) && e.trace.attempts[0].Evidence == toolexec.EvidenceInDoubt {
		p.read = e
	}
	p.line("\n%s", e.title)
	p.chart(e)
	for _, finding := range e.vet {
		p.row("", "vet", finding)
	}
	for i := range e.trace.events {
		p.event(e, &e.trace.events[i])
	}
	p.row("", "attempts", attemptsText(e))
	if e.gateway != nil {
		p.row("", "ledger", ledgerText(e.gateway))
	}
}

// attemptsText says when attempts were made, and why no more.
func attemptsText(e *exhibit) string {
	made := e.trace.attempts
	if len(made) == 0 {
		return "none, the tool is not invoked"
	}
	var at []string
	for _, ev := range e.trace.events {
		if ev.fill == "=" {
			at = append(at, seconds(ev.from))
		}
	}
	return fmt.Sprintf("at %v%s", at, whyNoMore(e, &made[len(made)-1], len(made)))
}

func whyNoMore(e *exhibit, last *toolexec.AttemptInfo, n int) string {
	switch {
	case last.OK:
		return ""
	case last.Class != toolexec.ClassTransient:
		return "; no retry: repeating it would not help"
	case n > documented.MaxRetries:
		return "; no more: the retries are used up"
	case last.Evidence == toolexec.EvidenceCommitted:
		return "; no retry: the effect is recorded"
	case e.effect == toolexec.Write:
		return "; no retry: it may have happened"
	}
	return ""
}

func retried(e *exhibit) bool { return len(e.trace.attempts) > 1 }

func ledgerText(g *gateway) string {
	requests, refunds, cents := g.sum()
	return fmt.Sprintf("%s, %s for %s: %s", count(requests, "request"), count(refunds, "refund"), order, money(cents))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// chart draws attempts, pauses and look-ups to scale.
func (p *page) chart(e *exhibit) {
	var row []string
	put := func(at int, s string, weak bool) {
		for len(row) <= at {
			row = append(row, " ")
		}
		if row[at] == " " || !weak {
			row[at] = s
		}
	}
	for _, ev := range e.trace.events {
		if ev.mark == "" {
			continue
		}
		from, to := int(ev.from/column), int(ev.to/column)
		put(from, ev.mark, ev.mark == ".") // a pause begins where an attempt was
		for at := from + 1; at < to; at++ {
			put(at, ev.fill, false)
		}
	}
	if len(row) < 2 { // a dot on a line shows nothing
		return
	}
	var scale strings.Builder
	for at := 0; at < len(row); at += int(time.Second / column) {
		fmt.Fprintf(&scale, "%-10s", fmt.Sprintf("%ds", time.Duration(at)*column/time.Second))
	}
	p.line("%s%s\n%s%s", indent, strings.TrimRight(scale.String(), " "), indent, strings.Join(row, ""))
}

// event writes one line of a trace, an answer in full.
func (p *page) event(e *exhibit, ev *event) {
	when := seconds(ev.from)
	if ev.to > ev.from {
		when += "-" + seconds(ev.to)
	}
	if ev.word != "answered" {
		p.row(when, ev.word, ev.text)
		return
	}
	a := &e.answers[ev.answer]
	env := &a.envelope
	p.row(when, "answered", summary(env))
	if env.OK {
		result, _ := env.Observation()
		p.row("", "result", result)
		return
	}
	if ev.answer > 0 && e.answers[ev.answer-1].envelope.AgentMessage == env.AgentMessage {
		p.row("", "to model", "the same")
		return
	}
	p.row("", "to model", message(a))
	for _, f := range env.FieldErrors {
		p.row("", "", f.String())
	}
	p.row("", "to user", env.UserMessage)
}

func summary(env *envelope) string {
	words := []string{string(env.Code), env.CommitState.String(), env.NextAction.String()}
	if env.OK && env.Verification != nil {
		words = append(words, "known by "+env.Verification.Source.String())
	}
	if env.Replayed {
		words = append(words, "replayed")
	}
	return strings.Join(words, ", ")
}

var instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// message is the agent's message, its instant given as a time of the exhibit.
func message(a *answer) string {
	return instant.ReplaceAllString(a.envelope.AgentMessage, seconds(a.notBefore))
}

// row writes a line of three cells; the last is wrapped.
func (p *page) row(when, word, text string) {
	const lead = 22
	for _, part := range wrap(text, width-len(indent)-lead) {
		p.line("%s%-11s%-*s%s", indent, when, lead-11, word, part)
		when, word = "", ""
	}
}

// wrap breaks s into lines of at most n bytes.
func wrap(s string, n int) (lines []string) {
	var line string
	for word := range strings.FieldsSeq(s) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= n:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// learnt says what the exhibits come to.
func (p *page) learnt() {
	p.line("\n\nWhat the customer got\n=====================\n")
	p.line("%s%-54s%10s%9s%11s", indent, "", "requests", "refunds", "total")
	for _, e := range p.ways {
		requests, refunds, cents := e.gateway.sum()
		p.line("%s%-54s%10d%9d%11s", indent, e.title, requests, refunds, money(cents))
	}
	p.line("\n\nWhy the read and the Idempotent refund are sent again, and the Write is not\n%s\n", strings.Repeat("=", 75))
	p.line(whyRow, indent, "", "would repeating help?", "could it have happened?", "sent")
	sent := []*exhibit{p.read, p.way(toolexec.Idempotent), p.way(toolexec.Write)}
	for _, e := range slices.DeleteFunc(sent, func(e *exhibit) bool { return e == nil }) {
		p.why(e)
	}
	p.line("\n%sA retry has to be useful and allowed. The Write's would be useful and is not allowed: its", indent)
	p.line("%soperation is looked up by its ref, by the verifier or a person, before anything is sent again.", indent)
}

// way is the last refund of a tool with that effect.
func (p *page) way(effect toolexec.Effect) *exhibit {
	for _, e := range slices.Backward(p.ways) {
		if e.effect == effect {
			return e
		}
	}
	return nil
}

const whyRow = "%s%-13s%-24s%-45s%s"

func (p *page) why(e *exhibit) {
	first := &e.trace.attempts[0]
	help := "no"
	if first.Class == toolexec.ClassTransient {
		help = "yes"
	}
	harm := map[toolexec.Effect]string{
		toolexec.ReadOnly:   "but a read changes nothing",
		toolexec.Idempotent: "but the same ref has one effect",
		toolexec.Write:      "and again would be twice",
	}[e.effect]
	p.line(whyRow, indent, e.effect, help+", "+first.Class.String(), first.Evidence.String()+", "+harm,
		count(len(e.trace.attempts), "time"))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
