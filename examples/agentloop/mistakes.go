package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolexec/toolexec"
)

// Mistake is a kind of mistake; "" is none.
type Mistake string

// What the scripted model does wrong.
const (
	unknownName    Mistake = "a tool that does not exist"
	nothingGiven   Mistake = "arguments {}"
	wrongType      Mistake = "an argument of the wrong type"
	fraction       Mistake = "a fraction of a cent"
	duplicateKey   Mistake = "a key twice in one object"
	unknownField   Mistake = "a field that the schema does not know"
	cutOff         Mistake = "arguments that are cut off"
	badRef         Mistake = "an operation ref that is none"
	repeatsRefused Mistake = "repeats a refused call, unchanged"
	wrongOrder     Mistake = "an order that does not exist"
	repeats        Mistake = "repeats a call, same call id"
	replans        Mistake = "plans the same again, new call id"
	replansRef     Mistake = "the same, with a ref that it read"
	replansNewRef  Mistake = "the same, with a ref it made up"
	rewords        Mistake = "the same in other words"
	otherAmount    Mistake = "the same refund, another amount"
	belowLimit     Mistake = "a part, below the approval limit"
	twiceAtOnce    Mistake = "the same call twice in one turn"
	twoVersions    Mistake = "two versions of a call in one turn"
	ignoresAdvice  Mistake = "calls although told not to"
	tooEarly       Mistake = "calls before the time it was told"
	notAllowed     Mistake = "calls before a person allowed it"
)

// neverReaches are the mistakes that must not reach a tool at all.
var neverReaches = []Mistake{
	unknownName, nothingGiven, wrongType, fraction, duplicateKey, unknownField, cutOff, badRef,
	repeatsRefused, tooEarly, notAllowed,
}

// blunder is a card: how a mistake is made.
type blunder struct {
	kind   Mistake
	timely bool // it makes sense at one time only, so it goes first
	times  int  // how often it is made, a turn each; 0: once
	// play makes the calls; nil when it cannot be made now.
	play func(*scripted) []ToolCall
	// beside makes a call beside a right one of the same turn; then play is nil.
	beside func(*scripted, *errand) ToolCall
}

// blunders are all cards.
var blunders = []blunder{
	again(unknownName, false, func(*errand) bool { return true }, func(m *scripted, e *errand) ToolCall {
		name := []rune(m.tools[m.rng.IntN(len(m.tools))])
		return m.write(unknownName, string(slices.Delete(name, 3, 4+m.rng.IntN(3))), string(e.right))
	}),
	spoils(nothingGiven, func(string) string { return `{}` }),
	spoils(wrongType, func(s string) string {
		return strings.NewReplacer(`"cents":`, `"cents":"`, `,"reason"`, `","reason"`, `"text":`, `"text":17,"was":`, `"customer":"C-17"`, `"customer":17`).Replace(s)
	}),
	spoils(fraction, func(s string) string { return strings.Replace(s, `,"reason"`, `.5,"reason"`, 1) }),
	spoils(duplicateKey, func(s string) string { return strings.Replace(s, `{`, `{"order_id":"ORD-1002",`, 1) }),
	spoils(unknownField, func(s string) string { return strings.Replace(s, `{`, `{"urgent":true,`, 1) }),
	spoils(cutOff, func(s string) string { return s[:len(s)-4] }),
	again(badRef, false, isRefund, func(m *scripted, e *errand) ToolCall {
		c := m.write(badRef, e.step.Tool, string(e.right))
		c.OperationRef = "the refund of " + e.step.Order
		return c
	}),
	{kind: repeatsRefused, times: toolexec.DefaultMaxRepeats + 1, play: func(m *scripted) []ToolCall {
		if m.refused == nil && len(m.failed) > 0 {
			m.refused = &m.failed[m.rng.IntN(len(m.failed))]
		}
		if m.refused == nil || m.repeated {
			return nil
		}
		m.repeated = true
		c := m.write(repeatsRefused, m.refused.Name, string(m.refused.Arguments))
		c.OperationRef = m.refused.OperationRef
		return []ToolCall{c}
	}},
	again(wrongOrder, false, isGuarded, func(m *scripted, e *errand) ToolCall {
		return m.write(wrongOrder, e.step.Tool, strings.ReplaceAll(string(e.right), "ORD-", "ord-"))
	}),
	again(repeats, false, wasCalled, func(_ *scripted, e *errand) ToolCall {
		c := *e.called
		c.Mistake = repeats
		return c
	}),
	again(replans, false, wasCalled, func(m *scripted, e *errand) ToolCall { return m.call(e, replans) }),
	again(replansRef, false, func(e *errand) bool { return wasCalled(e) && e.ref != "" }, func(m *scripted, e *errand) ToolCall {
		c := m.call(e, replansRef)
		c.OperationRef = e.ref
		return c
	}),
	again(replansNewRef, false, wasCalled, func(m *scripted, e *errand) ToolCall {
		c := m.call(e, replansNewRef)
		c.OperationRef = fmt.Sprintf("attempt_%d", m.last)
		return c
	}),
	again(rewords, false, wasCalled, func(m *scripted, e *errand) ToolCall {
		return m.write(rewords, e.step.Tool, reworded(e))
	}),
	again(otherAmount, false, func(e *errand) bool { return wasCalled(e) && isRefund(e) }, func(m *scripted, e *errand) ToolCall {
		return m.write(otherAmount, e.step.Tool, string(asJSON(Refund{e.step.Order, e.cents + 100, "damaged"})))
	}),
	again(belowLimit, false, func(e *errand) bool { return isRefund(e) && e.cents > limit }, func(m *scripted, e *errand) ToolCall {
		return m.write(belowLimit, e.step.Tool, string(asJSON(Refund{e.step.Order, limit, "damaged"})))
	}),
	{kind: twiceAtOnce, beside: func(m *scripted, e *errand) ToolCall { return m.call(e, twiceAtOnce) }},
	{kind: twoVersions, beside: func(m *scripted, e *errand) ToolCall {
		return m.write(twoVersions, e.step.Tool, strings.ReplaceAll(reworded(e), `"cents":`, `"cents":1`))
	}},
	again(ignoresAdvice, true, func(e *errand) bool { return e.told == toldVerify || e.told == toldStop }, func(m *scripted, e *errand) ToolCall {
		return m.call(e, ignoresAdvice)
	}),
	again(tooEarly, true, func(e *errand) bool { return e.told == toldWait }, func(m *scripted, e *errand) ToolCall {
		return m.call(e, tooEarly)
	}),
	again(notAllowed, true, func(e *errand) bool { return e.told == toldApproval }, func(m *scripted, e *errand) ToolCall {
		return m.call(e, notAllowed)
	}),
}

func isRefund(e *errand) bool  { return e.step.Tool == "process_refund" }
func isGuarded(e *errand) bool { return e.step.Tool != "search_orders" }
func wasCalled(e *errand) bool { return e.known && isGuarded(e) }

// spoils is a card that makes bad arguments of good ones, where that changes
// them.
func spoils(kind Mistake, how func(string) string) blunder {
	fits := func(e *errand) bool {
		return how(string(e.right)) != string(e.right) && (kind != duplicateKey || isGuarded(e))
	}
	return again(kind, false, fits, func(m *scripted, e *errand) ToolCall {
		return m.write(kind, e.step.Tool, how(string(e.right)))
	})
}

// again is a card about one errand that fits.
func again(kind Mistake, timely bool, fits func(*errand) bool, play func(*scripted, *errand) ToolCall) blunder {
	return blunder{kind: kind, timely: timely, play: func(m *scripted) []ToolCall {
		e := m.pick(fits)
		if e == nil {
			return nil
		}
		return []ToolCall{play(m, e)}
	}}
}

// reworded means the same.
func reworded(e *errand) string {
	return strings.NewReplacer("damaged", "it came broken", "You get", "Dear customer, you get").Replace(string(e.right))
}
