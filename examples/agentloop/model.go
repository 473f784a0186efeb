package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// scripted is a model without a language model: it knows what it was asked for,
// reads what it is told, does the sensible thing each turn, and makes a mistake
// or two beside it, in an order drawn from a seed.
type scripted struct {
	rng     *rand.Rand
	steps   []Step
	tools   []string
	errands []*errand
	deck    []blunder // mistakes it is going to make

	calls    map[string]*errand // the right calls it made, by id
	made     []ToolCall         // all it made
	failed   []ToolCall         // those it was told to correct
	refused  *ToolCall          // the one of them that it keeps repeating
	repeated bool               // in this turn
	last     int                // number of the last call id
}

// errand is one thing that the model has to do.
type errand struct {
	step   Step
	right  json.RawMessage // the arguments that are right
	cents  int
	called *ToolCall // the last right call
	known  bool      // it was called in an earlier turn
	told   told
	ref    string // an operation ref that it read
}

// told is what the model last read about an errand.
type told string

const (
	toldNothing  told = ""
	toldDone     told = "continue"
	toldCorrect  told = "correct_input"
	toldWait     told = "wait_and_retry"
	toldVerify   told = "verify_operation"
	toldApproval told = "request_approval"
	toldStop     told = "escalate"
)

// newScripted makes a model that is given the names of the tools and the work
// list.
func newScripted(rng *rand.Rand, tools []string, work []Step) *scripted {
	m := &scripted{rng: rng, steps: work, tools: tools, calls: make(map[string]*errand), deck: slices.Clone(blunders)}
	for range 3 { // some of them twice
		m.deck = append(m.deck, blunders[rng.IntN(len(blunders))])
	}
	rng.Shuffle(len(m.deck), func(i, j int) { m.deck[i], m.deck[j] = m.deck[j], m.deck[i] })
	m.errands = []*errand{{step: work[0], right: asJSON(Search{customer})}}
	return m
}

func asJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and ints
	}
	return raw
}

// Turn implements Model.
func (m *scripted) Turn(heard []Observation) []ToolCall {
	for _, o := range heard {
		m.listen(o)
	}
	for _, e := range m.errands {
		e.known = e.called != nil
	}
	m.repeated = false
	early := m.blunder(func(b blunder) bool { return b.timely })
	rest := m.sensible()
	mistakes := m.rng.IntN(3)
	if len(m.errands) == 1 { // it keeps most for the orders
		mistakes = m.rng.IntN(2)
	}
	for range mistakes {
		rest = append(rest, m.blunder(func(b blunder) bool { return !b.timely && b.beside == nil })...)
	}
	rest = append(rest, m.besides(rest)...)
	calls := slices.Concat(early, rest)
	m.made = append(m.made, calls...)
	return calls
}

var (
	nextAction   = regexp.MustCompile(`next_action: (\w+)`)
	operationRef = regexp.MustCompile(`operation_ref: (\S+)`)
)

// listen reads an observation as a model does: as text.
func (m *scripted) listen(o Observation) {
	if o.CallID == "" { // the host says what is not done yet
		for _, e := range m.errands {
			if e.told != toldDone {
				e.told = toldNothing
			}
		}
		return
	}
	next := toldDone
	if found := nextAction.FindStringSubmatch(o.Text); found != nil {
		next = told(found[1])
	} else if o.IsError {
		next = toldStop
	}
	if next == toldCorrect {
		m.failed = append(m.failed, m.callNamed(o.CallID))
	}
	e := m.calls[o.CallID]
	if e == nil || e.told == toldDone {
		return
	}
	e.told = next
	if found := operationRef.FindStringSubmatch(o.Text); found != nil {
		e.ref = strings.TrimRight(found[1], ".;")
	}
	if next == toldDone && e.step.Tool == "search_orders" {
		m.plan(o.Text)
	}
}

func (m *scripted) callNamed(id string) ToolCall {
	i := slices.IndexFunc(m.made, func(c ToolCall) bool { return c.ID == id })
	return m.made[i]
}

// plan makes errands of the orders that were found.
func (m *scripted) plan(found string) {
	var list []Order
	if err := json.Unmarshal([]byte(found), &list); err != nil {
		panic(err) // search_orders never says anything else
	}
	for _, s := range m.steps[1:] {
		i := slices.IndexFunc(list, func(o Order) bool { return o.ID == s.Order })
		e := &errand{step: s, cents: list[i].Cents}
		e.right = asJSON(Refund{s.Order, e.cents, "damaged"})
		if s.Tool == "send_mail" {
			e.right = asJSON(Mail{s.Order, "You get " + money(e.cents) + " back."})
		}
		m.errands = append(m.errands, e)
	}
}

// sensible makes the next right call: of what it has not called yet, or was told
// to correct.
func (m *scripted) sensible() (calls []ToolCall) {
	for _, e := range m.errands {
		if len(calls) < 2 && (e.told == toldNothing || e.told == toldCorrect) && m.ready(e) {
			calls = append(calls, m.call(e, ""))
		}
	}
	return calls
}

// ready: a mail says that the refund is done, so it comes after it.
func (m *scripted) ready(e *errand) bool {
	return e.step.Tool != "send_mail" || slices.ContainsFunc(m.errands, func(r *errand) bool {
		return r.step.Tool == "process_refund" && r.step.Order == e.step.Order && r.told == toldDone
	})
}

// call makes the right call of an errand, under a new call id.
func (m *scripted) call(e *errand, mistake Mistake) ToolCall {
	c := m.write(mistake, e.step.Tool, string(e.right))
	m.calls[c.ID], e.called = e, &c
	return c
}

// write makes any call, under a new call id.
func (m *scripted) write(mistake Mistake, tool, arguments string) ToolCall {
	m.last++
	return ToolCall{ID: fmt.Sprintf("call_%d", m.last), Name: tool, Arguments: json.RawMessage(arguments), Mistake: mistake}
}

// pick draws an errand that fits; nil when none does.
func (m *scripted) pick(fits func(*errand) bool) *errand {
	var list []*errand
	for _, e := range m.errands {
		if fits(e) {
			list = append(list, e)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[m.rng.IntN(len(list))]
}

// blunder plays the first card of the deck that fits and can be played now.
func (m *scripted) blunder(fits func(blunder) bool) []ToolCall {
	for i, b := range m.deck {
		if !fits(b) {
			continue
		}
		if calls := b.play(m); calls != nil {
			if m.deck[i].times--; m.deck[i].times <= 0 {
				m.deck = slices.Delete(m.deck, i, i+1)
			}
			return calls
		}
	}
	return nil
}

// besides plays a card that goes beside one of this turn's right calls.
func (m *scripted) besides(turn []ToolCall) []ToolCall {
	for _, c := range turn {
		e := m.calls[c.ID]
		if e == nil || c.Mistake != "" || e.step.Tool == "search_orders" {
			continue
		}
		for i, b := range m.deck {
			if b.beside != nil && m.rng.IntN(2) == 0 {
				m.deck = slices.Delete(m.deck, i, i+1)
				return []ToolCall{b.beside(m, e)}
			}
		}
	}
	return nil
}
