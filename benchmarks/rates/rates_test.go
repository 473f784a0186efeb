package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// TestRates holds the committed page, and what semantics promise of it: nothing
// lost and nothing told wrong, and no duplicate where an operation has a ref.
func TestRates(t *testing.T) {
	each := committedEach
	if testing.Short() {
		each = 24
	}
	r := measure(t, committedSeed, each)
	for _, g := range r.groups {
		for _, c := range g.cells {
			checkCell(t, g.title(), c)
		}
	}
	if testing.Short() {
		return
	}
	committed, err := os.ReadFile("../RATES.md")
	if err != nil {
		t.Fatal(err)
	}
	want, got := strings.Split(string(committed), "\n"), strings.Split(r.markdown(), "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("RATES.md is not what the code prints, from line %d on; run go generate ./rates in benchmarks, and read the difference", i+1)
		}
	}
}

func checkCell(t *testing.T, side string, c *cell) {
	t.Helper()
	all := sum(c.outcomes, everything)
	named := sum(c.outcomes, func(o outcome) bool { return o.style != withoutRef })
	calm := sum(c.outcomes, func(o outcome) bool { return o.fault == faults[0] })
	if want := (tally{operations: calm.operations, definite: calm.definite, attempts: 1}); calm != want {
		t.Errorf("%s, %s: without a fault: %+v", side, c.contender.label(), calm)
	}
	if all.lost > 0 {
		t.Errorf("%s, %s: %d lost", side, c.contender.label(), all.lost)
	}
	switch {
	case c.contender.ours && (all.wrong > 0 || named.duplicates > 0):
		t.Errorf("%s, %s: %d told wrong, %d duplicates with a ref", side, c.contender.label(), all.wrong, named.duplicates)
	case !c.contender.ours && (all.wrong == 0 || all.duplicates == 0):
		t.Errorf("%s, %s: the faults do it no harm, so they prove nothing: %+v", side, c.contender.label(), all)
	}
}

func TestMeasureIsDeterministic(t *testing.T) {
	first, again := measure(t, 7, 12), measure(t, 7, 12)
	if first.markdown() != again.markdown() {
		t.Error("two runs with one seed differ")
	}
	if other := measure(t, 8, 12); other.markdown() == strings.Replace(first.markdown(), "seed 7", "seed 8", 1) {
		t.Error("two seeds give one result")
	}
}

// TestFaultsStrike: a fault that does not befall the first attempt measures
// nothing.
func TestFaultsStrike(t *testing.T) {
	naive := peers[slices.IndexFunc(peers, func(c *contender) bool { return c.name == "naive retry" })]
	unharmed := travelling(toolexectest.OK()).String()
	for _, f := range faults[1:] {
		t.Run(f.name, func(t *testing.T) {
			for n := range 12 {
				s := draw(1, f, n)
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(s, naive, false)
					w.live(t.Context())
					first := w.operations[0]
					switch {
					case s.crash != noCrash && first.crash != noCrash:
						t.Error("the process did not die")
					case s.redelivered > 0 && first.plan.Attempts() < 2:
						t.Error("the call was not delivered again")
					case s.crash == noCrash && s.redelivered == 0 && s.steps[0].String() == unharmed:
						t.Error("nothing befalls the first attempt")
					}
					for _, line := range first.plan.Unfired() {
						if strings.HasPrefix(line, "step 1 ") && s.crash == noCrash {
							t.Error(line)
						}
					}
				})
			}
		})
	}
}

func TestDrawDealsStylesAndTwins(t *testing.T) {
	count := map[style][2]int{}
	for n := range committedEach {
		s := draw(1, faults[1], n)
		if !reflect.DeepEqual(s.thinks, draw(1, faults[1], n).thinks) {
			t.Fatal("one seed draws two worlds")
		}
		c := count[s.style]
		c[0]++
		if s.twin > 0 {
			c[1]++
		}
		count[s.style] = c
	}
	for s := range styles {
		if want := [2]int{committedEach / 3, committedEach / 12}; count[s] != want {
			t.Errorf("%v: %v worlds and second operations, want %v", s, count[s], want)
		}
	}
}

// judgement is a world whose operations came to an end: told is the last word of
// each, a second apart, made the operation of each effect, 1 s after the beginning.
type judgement struct {
	style  style
	told   []told
	made   []int
	denied time.Duration // when the first operation was denied; 0: never
}

func (j *judgement) judge() []outcome {
	w := newWorld(&scenario{fault: faults[0], style: j.style}, library[0], false)
	for i, last := range j.told {
		if i > 0 {
			w.want(nil, noCrash)
		}
		o := w.operations[i]
		o.began, o.last, o.at = w.began, last, w.began.Add(time.Duration(len(j.told)-i)*time.Second+2*oneWay)
	}
	if j.denied > 0 {
		w.operations[0].denials = append(w.operations[0].denials, w.began.Add(j.denied))
	}
	for _, n := range j.made {
		w.ledger.Record("", receipt{Operation: n, Sent: w.began.Add(time.Second)})
	}
	return w.judge()
}

func TestJudge(t *testing.T) {
	second := func(o outcome) outcome { o.added = 2 * time.Second; return o } // the first of two is told later
	one, none := []told{toldDone}, []int(nil)
	both := []told{toldDone, toldDone}
	good := outcome{fault: faults[0], definite: true, added: time.Second}
	other := outcome{fault: faults[0]}
	anon := func(o outcome) outcome { o.style = withoutRef; return o }
	duplicated, lost, wrong, swallowed, notMade := good, good, good, other, good
	duplicated.duplicates, lost.lost, wrong.wrong, swallowed.notMade, notMade.notMade = 1, true, true, true, true
	for _, row := range []struct {
		name string
		of   judgement
		want []outcome
	}{
		{"done", judgement{told: one, made: []int{0}}, []outcome{good}},
		{"twice", judgement{told: one, made: []int{0, 0}}, []outcome{duplicated}},
		{"told done, nothing there", judgement{told: one, made: none}, []outcome{lost}},
		{"not done, truly", judgement{told: []told{toldNotDone}, denied: 2 * time.Second}, []outcome{notMade}},
		{"denied after it was sent", judgement{told: one, made: []int{0}, denied: 2 * time.Second}, []outcome{wrong}},
		{"denied before it was sent", judgement{told: one, made: []int{0}, denied: time.Second}, []outcome{good}},
		{"unknown, and there", judgement{told: []told{toldUnknown}, made: []int{0}}, []outcome{{fault: faults[0], unresolved: true}}},
		{"unknown, and not there", judgement{told: []told{toldUnknown}}, []outcome{{fault: faults[0], unresolved: true, notMade: true}}},
		{"both", judgement{told: both, made: []int{0, 1}}, []outcome{second(good), other}},
		{"both by the calls of one, named", judgement{told: both, made: []int{0, 0}}, []outcome{second(duplicated), swallowed}},
		{"both by the calls of one", judgement{style: withoutRef, told: both, made: []int{0, 0}}, []outcome{anon(second(good)), anon(other)}},
		{"the first is swallowed", judgement{style: withoutRef, told: both, made: []int{0}}, []outcome{anon(second(notMade)), anon(other)}},
		{
			"the second has the effect that the first is denied",
			judgement{style: withoutRef, told: []told{toldNotDone, toldDone}, made: []int{0}, denied: 2 * time.Second},
			[]outcome{anon(second(notMade)), anon(other)},
		},
		{
			"nobody is told of the effect", judgement{style: withoutRef, told: []told{toldUnknown, toldUnknown}, made: []int{1}},
			[]outcome{{style: withoutRef, fault: faults[0], unresolved: true, notMade: true}, {style: withoutRef, fault: faults[0], unresolved: true}},
		},
	} {
		if got := row.of.judge(); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s:\n%+v, want\n%+v", row.name, got, row.want)
		}
	}
}

// TestJudgeRefusal: what the remote side refused for good is not suppressed.
func TestJudgeRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := live(t.Context(), draw(1, faults[slices.IndexFunc(faults, func(f *fault) bool { return f.name == "refused for good" })], 0), library[0], false)
		want := outcome{fault: out[0].fault, definite: true, attempts: 1}
		if !reflect.DeepEqual(out, []outcome{want}) {
			t.Errorf("%+v, want %+v", out, want)
		}
	})
}

func TestReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := limited(rand.New(rand.NewPCG(1, 1)))
		failure, _ := errors.AsType[*toolexec.Failure](limit)
		for _, row := range []struct {
			name string
			err  error
			want answer
		}{
			{"success", nil, answer{told: toldDone}},
			{"timeout", os.ErrDeadlineExceeded, answer{told: toldUnknown}},
			{"503", unavailable(), answer{told: toldUnknown}},
			{"not sent", toolexectest.NotSent().Request.Err, answer{told: toldNotDone, notBefore: time.Now()}},
			{"429", limit, answer{told: toldNotDone, notBefore: time.Now().Add(failure.RetryAfter)}},
			{"refused", toolexectest.Refuse(toolexec.ClassPermanent).Request.Err, answer{told: toldNotDone, stop: true, notBefore: time.Now()}},
		} {
			if got := reading(row.err); got != row.want {
				t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
			}
		}
	})
}

func TestFromEnvelope(t *testing.T) {
	later := time.Now().Add(time.Minute)
	for _, row := range []struct {
		name string
		env  toolexec.Envelope[receipt]
		want answer
	}{
		{"ok", toolexec.Envelope[receipt]{OK: true, CommitState: toolexec.Committed, NextAction: toolexec.NextContinue}, answer{told: toldDone, stop: true}},
		{
			"unknown", toolexec.Envelope[receipt]{NextAction: toolexec.NextVerifyOperation, OperationRef: "r", Retry: toolexec.Retry{NotBefore: later}},
			answer{told: toldUnknown, notBefore: later, ref: "r"},
		},
		{"not done", toolexec.Envelope[receipt]{CommitState: toolexec.NotCommitted, NextAction: toolexec.NextWaitAndRetry}, answer{told: toldNotDone}},
		{"escalated", toolexec.Envelope[receipt]{}, answer{told: toldUnknown, stop: true}},
	} {
		if got := fromEnvelope(row.env); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}

func TestSum(t *testing.T) {
	var list []outcome
	for i := range 200 {
		list = append(list, outcome{definite: true, added: time.Duration(i+1) * time.Second, attempts: 2})
	}
	list = append(list, outcome{unresolved: true, attempts: 2}, outcome{style: withoutRef, duplicates: 5})
	got := sum(list, func(o outcome) bool { return o.style == withRef })
	want := tally{operations: 201, definite: 200, unresolved: 1, mean: 100500 * time.Millisecond, p99: 198 * time.Second, attempts: 2}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestTablesShowWhereTheLibraryIsWorse: bold, and in the list.
func TestTablesShowWhereTheLibraryIsWorse(t *testing.T) {
	cells := []*cell{
		{contender: library[1], outcomes: []outcome{{fault: faults[0], unresolved: true, attempts: 1}}},
		{contender: peers[3], outcomes: []outcome{{fault: faults[0], definite: true, duplicates: 1, attempts: 2}}},
	}
	text := (&report{groups: []group{{cells: cells}}}).markdown()
	for _, line := range []string{
		"| toolexec Write | 0 | 0 | 0 | **1** | 0 | 0.0 s | 0.0 s | 1.00 |\n",
		"| naive retry | 1 | 0 | 0 | 0 | 0 | 0.0 s | 0.0 s | 2.00 |\n",
		"- toolexec Write, without keys: unresolved 1 (naive retry: 0).\n",
		"| no fault | U1 | D1 0.0 s |\n",
		"| slow | – | – |\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}
