package toolexectest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolexec/toolexec"
)

// Case is a tool under test, and what a test of it has to know.
type Case[In, Out any] struct {
	// Tool as the program binds it.
	Tool toolexec.Tool[In, Out]
	// Valid are arguments that succeed. The second, where there is one, has to mean
	// another call than the first.
	Valid []In
	// Invalid are arguments that the tool refuses.
	Invalid []In
	// Effects counts the effects on the remote side that go by an operation ref, Total
	// all that there are. They run concurrently with the tool.
	Effects func(ref string) int
	Total   func() int
	// RealTime declares that the tool needs a wall clock: it uses sockets, or a
	// database behind one. The pauses of its Policy are then short, but its Settle is waited for
	// where nothing is found.
	RealTime bool
	// Waive names scenarios that are left out on purpose: their names, or beginnings
	// of them.
	Waive []string
}

// CheckContract runs a tool through the scenarios in which recovery goes wrong,
// with faults around its Run, and says in words what it breaks: each is derived
// from what the tool declares. It returns nil, or one error that joins what was
// found.
//
// newCase is called at least once for each scenario: it returns a new remote
// side without effects, and the tool that uses it. What the case does not allow to
// be tested is an error, which says what is missing; a scenario that means nothing
// for this kind of tool is none. When a valid call does not succeed nothing else is
// tried. The scenarios are
//
//	a valid call succeeds
//	a call by name is the same call
//	invalid input is refused, and not tried again
//	its classifiers keep the laws
//	a call that was not sent is sent
//	the answer is lost after the effect
//	the request is lost
//	the tool crashes after the effect
//	the caller gives up
//	the remote side limits the rate
//	the remote side is down for long
//	the same operation is called again
//	the request is delivered twice
//	the remote side remembers the ref as long as declared
//	look-ups tell the truth, and change nothing
//	a call waits for its approval
//	an approval is for one call alone
//	the process dies
//
// It sleeps. Call it in a [testing/synctest] bubble, unless the case needs real
// time. [RunContract] does all that.
func CheckContract[In, Out any](ctx context.Context, newCase func() Case[In, Out]) error {
	first := newCase()
	if err := first.wrongWaivers(); err != nil {
		return err
	}
	var broken []error
	for i, s := range scenarios[In, Out]() {
		found := s.check(ctx, &first, newCase)
		if found != nil && !errors.Is(found, errPointless) {
			broken = append(broken, fmt.Errorf("%s: %w", s.name, found))
			if i == 0 {
				break
			}
		}
	}
	return errors.Join(broken...)
}

// RunContract is [CheckContract] with a subtest for each scenario, in a
// [testing/synctest] bubble unless the case needs real time. Those that mean
// nothing for the tool, or are waived, are skipped.
func RunContract[In, Out any](t *testing.T, newCase func(t *testing.T) Case[In, Out]) {
	t.Helper()
	first := newCase(t)
	if err := first.wrongWaivers(); err != nil {
		t.Fatal(err)
	}
	for i, s := range scenarios[In, Out]() {
		run := func(t *testing.T) {
			err := s.check(t.Context(), &first, func() Case[In, Out] { return newCase(t) })
			switch {
			case errors.Is(err, errPointless):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		}
		ok := t.Run(s.name, func(t *testing.T) {
			if first.RealTime {
				run(t)
				return
			}
			stuck := time.AfterFunc(stuckAfter, func() { fmt.Fprintf(os.Stderr, stuckText, s.name, stuckAfter) })
			defer stuck.Stop()
			synctest.Test(t, run)
		})
		if !ok && i == 0 {
			t.Fatal("toolexectest: the other scenarios were not run")
		}
	}
}

// stuckAfter is for a scenario in fake time, which takes milliseconds. One that waits for a
// socket never ends there, and says nothing until the test times out.
const stuckAfter = 10 * time.Second

const stuckText = "toolexectest: the scenario %q has not ended in %v of real time: does the tool use a socket? Then set Case.RealTime\n"

// errPointless is what is not an error of a case.
var errPointless = errors.New("nothing to test")

// scenario is one way in which recovery can go wrong.
type scenario[In, Out any] struct {
	name string
	// fits says why the scenario means nothing for the tool, or what the case lacks.
	fits func(c *Case[In, Out]) (pointless, missing string)
	run  func(t *trial[In, Out])
}

// check runs the scenario on a new case.
func (s *scenario[In, Out]) check(ctx context.Context, c *Case[In, Out], newCase func() Case[In, Out]) error {
	pointless, missing := s.fits(c)
	switch {
	case slices.ContainsFunc(c.Waive, func(w string) bool { return strings.HasPrefix(s.name, w) }):
		return fmt.Errorf("%w: it is waived", errPointless)
	case pointless != "":
		return fmt.Errorf("%w: %s", errPointless, pointless)
	case missing != "":
		return fmt.Errorf("it cannot be tested: %s; or waive it", missing)
	}
	t := &trial[In, Out]{ctx: ctx, newCase: newCase}
	t.restart()
	s.run(t)
	t.end()
	return t.found()
}

// wrongWaivers refuses waivers that name no scenario.
func (c *Case[In, Out]) wrongWaivers() error {
	for _, w := range c.Waive {
		if !slices.ContainsFunc(scenarios[In, Out](), func(s scenario[In, Out]) bool { return w != "" && strings.HasPrefix(s.name, w) }) {
			return fmt.Errorf("Case.Waive: there is no scenario %q", w)
		}
	}
	return nil
}

// scenarios are all of them. The first has to pass for the others to mean
// anything.
func scenarios[In, Out any]() []scenario[In, Out] {
	return []scenario[In, Out]{
		{"a valid call succeeds", always[In, Out], (*trial[In, Out]).validCall},
		{"a call by name is the same call", always[In, Out], (*trial[In, Out]).callByName},
		{"invalid input is refused, and not tried again", needsInvalid[In, Out], (*trial[In, Out]).invalidInput},
		{"its classifiers keep the laws", classifies[In, Out], (*trial[In, Out]).classifiers},
		{"a call that was not sent is sent", always[In, Out], (*trial[In, Out]).notSent},
		{"the answer is lost after the effect", always[In, Out], (*trial[In, Out]).lostAnswer},
		{"the request is lost", always[In, Out], (*trial[In, Out]).lostRequest},
		{"the tool crashes after the effect", always[In, Out], (*trial[In, Out]).crashedAnswer},
		{"the caller gives up", always[In, Out], (*trial[In, Out]).caller},
		{"the remote side limits the rate", always[In, Out], (*trial[In, Out]).rateLimit},
		{"the remote side is down for long", always[In, Out], (*trial[In, Out]).outage},
		{"the same operation is called again", changes[In, Out], (*trial[In, Out]).sameRef},
		{"the request is delivered twice", deduplicates[In, Out], (*trial[In, Out]).duplicate},
		{"the remote side remembers the ref as long as declared", remembers[In, Out], (*trial[In, Out]).memory},
		{"look-ups tell the truth, and change nothing", verifies[In, Out], (*trial[In, Out]).lookups},
		{"a call waits for its approval", needsApproval[In, Out], (*trial[In, Out]).approval},
		{"an approval is for one call alone", needsApprovalOfTwo[In, Out], (*trial[In, Out]).approvalOfAnother},
		{"the process dies", changes[In, Out], (*trial[In, Out]).death},
	}
}

// What a scenario needs

func always[In, Out any](c *Case[In, Out]) (pointless, missing string) {
	switch {
	case c.Effects == nil:
		missing = "set Case.Effects to a function that counts effects by ref"
	case c.Total == nil:
		missing = "set Case.Total to a function that counts all effects"
	case len(c.Valid) == 0:
		missing = "set Case.Valid to arguments that succeed"
	}
	return "", missing
}

func needsInvalid[In, Out any](c *Case[In, Out]) (pointless, missing string) {
	if len(c.Invalid) == 0 {
		return "", "set Case.Invalid to arguments that the tool refuses"
	}
	return always(c)
}

func classifies[In, Out any](c *Case[In, Out]) (pointless, missing string) {
	if len(c.Tool.Classifiers) == 0 {
		return "the tool has no classifiers", ""
	}
	return always(c)
}

func changes[In, Out any](c *Case[In, Out]) (pointless, missing string) {
	if c.Tool.Effect == toolexec.ReadOnly {
		return "the tool is ReadOnly", ""
	}
	return always(c)
}

func deduplicates[In, Out any](c *Case[In, Out]) (pointless, missing string) {
	if c.Tool.Effect != toolexec.Idempotent {
		return "the tool is not Idempotent: what is delivered twice happens twice", ""
	}
	return always(c)
}

func remembers[In, Out any](c *Case[In, Out]) (pointless, missing string) {
	if c.RealTime {
		return "nobody waits that long", ""
	}
	return deduplicates(c)
}

func verifies[In, Out any](c *Case[In, Out]) (pointless, missing string) {
	if c.Tool.Verify == nil {
		return "the tool has no Verify", ""
	}
	return always(c)
}

func needsApproval[In, Out any](c *Case[In, Out]) (pointless, missing string) {
	switch a := c.Tool.Approval; {
	case a == nil:
		return "the tool needs no approval", ""
	case a.Required != nil && len(c.Valid) > 0 && !a.Required(c.Valid[0]):
		return "", "the first of Case.Valid needs no approval: give one that does"
	}
	return always(c)
}

func needsApprovalOfTwo[In, Out any](c *Case[In, Out]) (pointless, missing string) {
	a := c.Tool.Approval
	if a != nil && len(c.Valid) < 2 {
		return "", "set Case.Valid to two calls that differ"
	}
	pointless, missing = needsApproval(c)
	if pointless == "" && missing == "" && a.Required != nil && !a.Required(c.Valid[1]) {
		missing = "the second of Case.Valid needs no approval: give one that does"
	}
	return pointless, missing
}
