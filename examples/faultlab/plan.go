package main

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolexec/toolexec"
)

// plan is one run of the page, as its query says it. Its words are those of
// choices, and no others.
type plan struct {
	tool, fault, on, verifier, guard  string
	deadline, retries, backoff, calls string
	pace                              string
}

// choice is one thing to choose, by name in a query.
type choice struct {
	Name, Label string
	standard    string
	field       func(*plan) *string
	Options     []option
}

// option is one way to choose it. Says is what it means, in one sentence.
type option struct {
	Value, Label, Says string
	Group              string // the heading that it stands under; "": none
}

// The words that the code asks for; all others it only reads.
const (
	toolRead, toolIdempotent, toolWrite = "read", "idempotent", "write"

	onFirst, onEvery = "first", "every"

	verifierGood, verifierSlow, verifierEarly, verifierDown, verifierNone = "good", "slow", "early", "down", "none"

	guardBoth, guardToolexec, guardBlind = "both", "toolexec", "blind"

	paceStep = "step"
)

var choices = []choice{
	{"tool", "Tool", toolWrite, func(p *plan) *string { return &p.tool }, []option{
		{Value: toolRead, Label: "read", Says: "search_orders: it changes nothing."},
		{Value: toolIdempotent, Label: "idempotent", Says: "process_refund, of a gateway that knows a ref again."},
		{Value: toolWrite, Label: "write", Says: "process_refund: each request refunds $80.00."},
	}},
	{"fault", "Fault", "answer-lost", func(p *plan) *string { return &p.fault }, faultOptions()},
	{"on", "Befalls", onFirst, func(p *plan) *string { return &p.on }, []option{
		{Value: onFirst, Label: "first attempt", Says: "Later attempts meet no fault."},
		{Value: onEvery, Label: "each attempt", Says: "However often it is tried, the same happens."},
	}},
	{"verifier", "Verifier", verifierGood, func(p *plan) *string { return &p.verifier }, []option{
		{Value: verifierGood, Label: "good", Says: "It reads the ledger and answers at once."},
		{Value: verifierSlow, Label: "slow", Says: "It answers rightly, after 1.5 s."},
		{Value: verifierEarly, Label: "too early", Says: "Its first look-up says absent, whatever there is."},
		{Value: verifierDown, Label: "down", Says: "Every look-up fails, which proves nothing."},
		{Value: verifierNone, Label: "none", Says: "Nobody can look the refund up but a person."},
	}},
	{"guard", "Guard", guardBoth, func(p *plan) *string { return &p.guard }, []option{
		{Value: guardBoth, Label: "side by side", Says: "The same fault befalls a blind loop and the executor."},
		{Value: guardToolexec, Label: "toolexec", Says: "The executor decides: useful and allowed, or not again."},
		{Value: guardBlind, Label: "blind retry", Says: "A loop that takes every error for a reason to try again."},
	}},
	{"deadline", "Deadline", "2s", func(p *plan) *string { return &p.deadline }, []option{
		{Value: "1s", Label: "1 s", Says: "How long one attempt may take."},
		{Value: "2s", Label: "2 s", Says: "How long one attempt may take."},
		{Value: "4s", Label: "4 s", Says: "How long one attempt may take."},
	}},
	{"retries", "Retries", "2", func(p *plan) *string { return &p.retries }, []option{
		{Value: "0", Label: "none", Says: "One attempt a call, no more."},
		{Value: "1", Label: "1", Says: "So many attempts may follow the first of a call."},
		{Value: "2", Label: "2", Says: "So many attempts may follow the first of a call."},
		{Value: "4", Label: "4", Says: "So many attempts may follow the first of a call."},
	}},
	{"backoff", "Backoff", "500ms", func(p *plan) *string { return &p.backoff }, []option{
		{Value: "250ms", Label: "0.25 s, × 2", Says: "The first pause; each later one is twice as long."},
		{Value: "500ms", Label: "0.5 s, × 2", Says: "The first pause; each later one is twice as long."},
		{Value: "1s", Label: "1 s, × 2", Says: "The first pause; each later one is twice as long."},
	}},
	{"calls", "The host calls", "3", func(p *plan) *string { return &p.calls }, []option{
		{Value: "1", Label: "once", Says: "It takes the first answer."},
		{Value: "2", Label: "up to 2 ×", Says: "Again with the same ref, when the envelope says so."},
		{Value: "3", Label: "up to 3 ×", Says: "Again with the same ref, when the envelope says so."},
		{Value: "4", Label: "up to 4 ×", Says: "Again with the same ref, when the envelope says so."},
	}},
	{"pace", "Pace", "1", func(p *plan) *string { return &p.pace }, []option{
		{Value: "1", Label: "real time", Says: "A second is a second."},
		{Value: "4", Label: "4 × faster", Says: "Everything is shortened alike; the scale shows the documented times."},
		{Value: "20", Label: "20 × faster", Says: "Everything is shortened alike; the scale shows the documented times."},
		{Value: paceStep, Label: "step by step", Says: "It runs 20 times faster, and shows what happened when you ask for the next step."},
	}},
}

func (c *choice) option(value string) *option {
	if i := slices.IndexFunc(c.Options, func(o option) bool { return o.Value == value }); i >= 0 {
		return &c.Options[i]
	}
	return nil
}

// parsePlan reads a query. What it does not name is the standard; what it may
// not say is refused, with what it may.
func parsePlan(q url.Values) (plan, error) {
	var p plan
	for i := range choices {
		c := &choices[i]
		given := q[c.Name]
		switch {
		case len(given) == 0:
			given = []string{c.standard}
		case len(given) > 1:
			return plan{}, fmt.Errorf("%s is given %d times; give it once", c.Name, len(given))
		}
		if c.option(given[0]) == nil {
			return plan{}, fmt.Errorf("%s cannot be %s; it is one of %s", c.Name, quoted(given[0]), strings.Join(c.values(), ", "))
		}
		*c.field(&p) = given[0]
	}
	for name := range q {
		if !slices.ContainsFunc(choices, func(c choice) bool { return c.Name == name }) {
			return plan{}, fmt.Errorf("there is nothing called %s to choose; there are %s", quoted(name), strings.Join(choiceNames(), ", "))
		}
	}
	return p, nil
}

// quoted is what was received, short and printable.
func quoted(s string) string {
	const most = 40
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.QuoteToASCII(s)
}

func (c *choice) values() (out []string) {
	for _, o := range c.Options {
		out = append(out, o.Value)
	}
	return out
}

func choiceNames() (out []string) {
	for _, c := range choices {
		out = append(out, c.Name)
	}
	return out
}

// query is the query that p is read from.
func (p plan) query() string {
	pairs := make([]string, len(choices))
	for i, c := range choices {
		pairs[i] = c.Name + "=" + *c.field(&p)
	}
	return strings.Join(pairs, "&")
}

// lab is where p runs: as fast as its pace says.
func (p plan) lab() *lab {
	if p.pace == paceStep {
		return &lab{speed: 20}
	}
	return &lab{speed: number(p.pace)}
}

// policy is what p says of attempts and pauses, as long as they take in l.
func (p plan) policy(l *lab) toolexec.Policy {
	policy := toolexec.Policy{
		Deadline:      l.short(duration(p.deadline)),
		TotalDeadline: l.short(toolexec.DefaultTotalDeadline),
		MaxRetries:    number(p.retries),
		MaxPause:      l.short(toolexec.DefaultMaxPause),
		Backoff: toolexec.Backoff{
			Initial: l.short(duration(p.backoff)), Multiplier: 2, Max: l.short(toolexec.DefaultMaxBackoff),
		},
	}
	if policy.MaxRetries == 0 {
		policy.MaxRetries = -1 // zero would inherit
	}
	return policy
}

// number and duration read words of choices, which a test has seen to be such.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}
