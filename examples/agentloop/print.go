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

// The run as text: on the left what the model reads, on the right what the host
// decides.

const (
	width = 120
	left  = 74
	right = width - left - len(between) - len(indent)

	between = " | "
	indent  = "    "
)

func (s *story) line(format string, args ...any) {
	if s.out == nil || s.err != nil {
		return
	}
	_, s.err = io.WriteString(s.out, strings.TrimRight(fmt.Sprintf(format, args...), " ")+"\n")
}

// since is the documented time from the beginning to t.
func (s *story) since(t time.Time) string {
	return fmt.Sprintf("%.1fs", s.pace.long(t.Sub(s.began)).Truncate(500*time.Millisecond).Seconds())
}

func (s *story) heading(a answer) {
	text := fmt.Sprintf("%s %s %s", a.call.ID, a.call.Name, a.call.Arguments)
	if a.call.OperationRef != "" {
		text += fmt.Sprintf(" ref %q", a.call.OperationRef)
	}
	if a.mistake != "" {
		text += "  <- " + string(a.mistake)
	}
	for i, part := range wrap(text, width-len(indent)) {
		s.line("%s%s", []string{"  ", indent}[min(i, 1)], part)
	}
}

// fields are what the host decides from, and its decision.
func (s *story) fields(a answer) string {
	words := []string{string(a.env.Code), a.env.CommitState.String(), a.env.NextAction.String()}
	if a.env.Replayed {
		words = append(words, "replayed")
	}
	if a.env.OK && a.env.Verification != nil && a.env.Verification.Source != toolexec.SourceExecution {
		words = append(words, "known by "+a.env.Verification.Source.String())
	}
	decision := a.decision.Does
	if !a.decision.At.IsZero() {
		decision += ", at " + s.since(a.decision.At)
	}
	return strings.Join(words, ", ") + "\n" + runsText(a.runs) + "\n=> " + decision
}

func runsText(n int) string {
	switch n {
	case 0:
		return "the tool is not invoked"
	case 1:
		return "the tool is invoked once"
	}
	return fmt.Sprintf("the tool is invoked %d times", n)
}

var (
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	minted  = regexp.MustCompile(`op_[0-9a-f-]{36}`)
)

// masked is a text without what differs from run to run: its instants are given
// as times of the run.
func (s *story) masked(text string, env Envelope) string {
	text = instant.ReplaceAllString(text, s.since(env.Retry.NotBefore))
	return minted.ReplaceAllString(text, "op_...")
}

// columns prints two texts side by side.
func (s *story) columns(l, r string) {
	ls, rs := lines(l, left), lines(r, right)
	for i := range max(len(ls), len(rs)) {
		s.line("%s%-*s%s%s", indent, left, at(ls, i), between, at(rs, i))
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

func lines(text string, n int) (out []string) {
	for part := range strings.SplitSeq(text, "\n") {
		out = append(out, wrap(part, n)...)
	}
	return out
}

// wrap breaks s into lines of at most n bytes.
func wrap(s string, n int) (out []string) {
	var line string
	for word := range strings.FieldsSeq(s) {
		for len(word) > n { // JSON without a space
			out, word = append(out, word[:n]), word[n:]
		}
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= n:
			line += " " + word
		default:
			out = append(out, line)
			line = word
		}
	}
	return append(out, line)
}

// head says what the run is made of.
func (s *story) head(seed uint64, shop *shop, work []Step) {
	s.line("agentloop, seed %d: a model that makes every mistake, a gateway that fails in every way", seed)
	if s.pace > 1 {
		s.line("Run %d times faster than the times say (-real: at full length).", s.pace)
	}
	s.line("\nThe model is offered: %s", strings.Join(shop.tools, ", "))
	s.line("It is asked to refund the orders of customer %s and to mail the customer about each.", customer)
	for _, finding := range shop.findings {
		s.line("Vet: %s", finding)
	}
	s.line("\nThe host's work list, with the operation refs that it gives:")
	for _, w := range work {
		ref := w.Ref
		if ref == "" {
			ref = "the tool's own business key"
		}
		s.line("  %-16s %-10s %s", w.Tool, w.Order, ref)
	}
	s.line("\n%s%-*s%s%s", indent, left, "what the model reads", between, "what the host decides")
	s.line("%s%s%s%s", indent, strings.Repeat("-", left), between, strings.Repeat("-", right))
}

// ledger prints what came of it all; it returns how many orders did not get
// exactly their amount, once.
func (s *story) ledger(shop *shop) (wrong int) {
	s.line("\nThe ledger\n")
	s.line("  %-10s %10s %10s %10s %8s", "order", "amount", "refunds", "refunded", "mails")
	for _, o := range orders {
		refunds, mails, cents := shop.gateway.about(o.ID), shop.mailbox.about(o.ID), 0
		for _, p := range refunds {
			cents += p.Cents
		}
		verdict := "exactly once"
		if len(refunds) != 1 || cents != o.Cents || len(mails) != 1 {
			verdict = "WRONG"
			wrong++
		}
		s.line("  %-10s %10s %10d %10s %8d   %s", o.ID, money(o.Cents), len(refunds), money(cents), len(mails), verdict)
	}
	return wrong
}

// mistakes prints what the model did wrong.
func (s *story) mistakes() {
	made, reached := s.kinds()
	s.line("\nThe mistakes\n")
	s.line("  %-42s %6s %18s", "", "made", "reached the tool")
	for _, b := range blunders {
		note := ""
		switch {
		case slices.Contains(neverReaches, b.kind):
			note = "never does"
		case reached[b.kind] > 0:
			note = "and its operation had no effect yet"
		}
		s.line("  %-42s %6d %18d   %s", b.kind, made[b.kind], reached[b.kind], note)
	}
}
