package main

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// pagePlan is the plan of a query, which must be one.
func pagePlan(t *testing.T, query string) plan {
	t.Helper()
	q, err := url.ParseQuery(query)
	require.NoError(t, err)
	p, err := parsePlan(q)
	require.NoError(t, err, query)
	return p
}

// pageMoments runs a plan in fake time.
func pageMoments(t *testing.T, p plan) (told []moment) {
	t.Helper()
	fakePlay(t)(t.Context(), p, func(m moment) { told = append(told, m) })
	return told
}

// pageLast is the last moment of a side that tells books or an answer.
func pageLast(told []moment, side string) (last struct {
	books  books
	answer answered
}) {
	for _, m := range told {
		if m.Side == side && m.Books != nil {
			last.books = *m.Books
		}
		if m.Side == side && m.Answer != nil {
			last.answer = *m.Answer
		}
	}
	return last
}

func TestPlanStandard(t *testing.T) {
	p := pagePlan(t, "")
	assert.Equal(t, "tool=write&fault=answer-lost&on=first&verifier=good&guard=both&deadline=2s&retries=2&backoff=500ms&calls=3&pace=1", p.query())
	assert.Equal(t, p, pagePlan(t, p.query()), "a link reproduces the run")
}

// Every option can be chosen, says what it means in a sentence, and is in the
// link.
func TestPlanOptions(t *testing.T) {
	for _, c := range choices {
		assert.NotNil(t, c.option(c.standard), c.Name)
		for _, o := range c.Options {
			p := pagePlan(t, c.Name+"="+o.Value)
			assert.Equal(t, o.Value, *c.field(&p))
			assert.Equal(t, p, pagePlan(t, p.query()))
			assert.Regexp(t, `^[A-Za-z].*\.$`, o.Says, c.Name+"="+o.Value)
			policy := p.policy(p.lab())
			assert.Positive(t, policy.Deadline)
			assert.Positive(t, policy.Backoff.Initial)
			assert.NotZero(t, policy.MaxRetries)
		}
	}
}

func TestPlanRefusesGarbage(t *testing.T) {
	for query, says := range map[string]string{
		"tool=hammer":                    `tool cannot be "hammer"; it is one of read, idempotent, write`,
		"tool=":                          `tool cannot be ""; it is one of read, idempotent, write`,
		"tool=read&tool=write":           "tool is given 2 times; give it once",
		"retries=1000000":                `retries cannot be "1000000"; it is one of 0, 1, 2, 4`,
		"deadline=2h":                    `deadline cannot be "2h"; it is one of 1s, 2s, 4s`,
		"pace=%3Cscript%3E%00":           `pace cannot be "<script>\x00"; it is one of 1, 4, 20, step`,
		"hammer=1":                       `there is nothing called "hammer" to choose; there are tool, fault, on, verifier, guard, deadline, retries, backoff, calls, pace`,
		"on=" + strings.Repeat("é", 100): `on cannot be "` + strings.Repeat(`\u00e9`, 20) + `\u2026"; it is one of first, every`,
	} {
		q, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = parsePlan(q)
		assert.EqualError(t, err, says)
	}
}

// The refund of $80.00 whose acknowledgement is lost: what the page opens with.
func TestPlayStandard(t *testing.T) {
	told := pageMoments(t, pagePlan(t, ""))
	blind, guarded := pageLast(told, sideBlind), pageLast(told, sideToolexec)
	assert.Equal(t, books{Requests: 2, Total: "$160.00", Entries: []entry{{1, "", "$80.00", 0}, {2, "", "$80.00", 2.5}}}, blind.books)
	assert.Equal(t, books{Requests: 1, Total: "$80.00", Entries: []entry{{1, "process_refund:ORD-5510", "$80.00", 0}}}, guarded.books)
	assert.Equal(t, "OK, committed, continue, known by lookup", guarded.answer.Summary)

	type drawn struct {
		at, until float64
		kind      string
		word      string
	}
	var line []drawn
	for _, m := range told {
		if m.Side == sideToolexec {
			line = append(line, drawn{m.At, m.Until, m.Kind, m.Word})
		}
	}
	assert.Equal(t, []drawn{
		{0, 0, kindCall, "call 1"}, {0, 0, kindGuard, "run"}, {0, 0, kindAttempt, "1"}, {0, 0, kindEffect, "$80.00"},
		{2, 0, kindAttempted, "in_doubt"}, {2, 0, kindLookUp, "look-up"}, {2, 0, kindLookedUp, "the effect is there"}, {2, 0, kindAnswer, "OK"},
	}, line)
}

// Absence counts after the settle window only: a verifier that finds nothing too
// early, and an effect that comes after the deadline, double nothing.
func TestPlaySettles(t *testing.T) {
	for _, query := range []string{"fault=answer-lost&verifier=early", "fault=request-late&verifier=good"} {
		told := pageMoments(t, pagePlan(t, query))
		assert.Equal(t, "$160.00", pageLast(told, sideBlind).books.Total, query)
		assert.Equal(t, "$80.00", pageLast(told, sideToolexec).books.Total, query)
		assert.Contains(t, told, moment{
			Side: sideToolexec, Kind: kindSettle, At: 2, Until: 6, Word: "settle window",
			Text: "settle window until 6.0s: before that, absent could mean not yet",
		}, query)
	}
}

// A result that comes late joins the record, and the host asks once more.
func TestPlayLate(t *testing.T) {
	told := pageMoments(t, pagePlan(t, "fault=hang-after&verifier=none&calls=1"))
	var answers []string
	for _, m := range told {
		if m.Side == sideToolexec && (m.Kind == kindAnswer || m.Kind == kindLate) {
			answers = append(answers, m.Word)
		}
	}
	assert.Equal(t, []string{"OUTCOME_UNKNOWN", "late: committed", "OK"}, answers)
	assert.Equal(t, "$80.00", pageLast(told, sideToolexec).books.Total)
}

// Every tool with every fault and verifier: what is told ends, in order, with the
// executor's own envelope, no word of a service is in it, and no write has two
// effects, but for the fault that no wrapper can see.
func TestPlayAll(t *testing.T) {
	for _, tool := range choices[0].values() {
		for _, fault := range choices[1].values() {
			for _, verifier := range choices[3].values() {
				for _, on := range []string{onFirst, onEvery} {
					p := pagePlan(t, "")
					p.tool, p.fault, p.verifier, p.on = tool, fault, verifier, on
					checkPlayed(t, p)
				}
			}
		}
	}
}

func checkPlayed(t *testing.T, p plan) {
	t.Helper()
	name := p.query()
	told := pageMoments(t, p)
	last := pageLast(told, sideToolexec)
	assert.Equal(t, ownAnswer(t, p), last.answer.Envelope, name)
	for _, secret := range []string{"svc-7", "db-3", "gw-2", "shard", "limit_7", "10.0.0.7", panicValue} {
		assert.NotContains(t, last.answer.Envelope, secret, name)
		assert.NotContains(t, last.answer.Model, secret, name)
	}
	if p.tool != toolRead && p.fault != "duplicate" {
		assert.LessOrEqual(t, len(last.books.Entries), 1, name)
	}
	assert.Equal(t, kindEnd, told[len(told)-1].Kind, name)
	for i := 1; i < len(told); i++ {
		assert.GreaterOrEqual(t, told[i].At, told[i-1].At, name)
	}
	for _, v := range []verdict{last.answer.Help, last.answer.Happened, last.answer.So} {
		assert.NotEmpty(t, v.Answer, name)
		assert.NotEmpty(t, v.Why, name)
	}
}

// The longest run that can be planned fits into the bound, in real time.
func TestPlayIsBounded(t *testing.T) {
	longest := 0.0
	for _, tool := range choices[0].values() {
		for _, fault := range choices[1].values() {
			for _, verifier := range choices[3].values() {
				p := pagePlan(t, "deadline=4s&retries=4&backoff=1s&calls=4&on=every")
				p.tool, p.fault, p.verifier = tool, fault, verifier
				told := pageMoments(t, p)
				longest = max(longest, told[len(told)-1].At)
			}
		}
	}
	assert.Less(t, longest, maxRun.Seconds())
}

// A faster lab tells the same story with the same times.
func TestPlayPace(t *testing.T) {
	want := pageMoments(t, pagePlan(t, "guard=toolexec&fault=request-late"))
	got := pageMoments(t, pagePlan(t, "guard=toolexec&fault=request-late&pace=20"))
	require.Len(t, got, len(want))
	for i := range want {
		assert.Equal(t, want[i].Kind, got[i].Kind)
		assert.InDelta(t, want[i].At, got[i].At, 1e-9, want[i].Text)
		assert.Equal(t, want[i].Text, got[i].Text)
	}
}

// A run ends soon after its context, also when it waits.
func TestPlayCancelled(t *testing.T) {
	for _, query := range []string{"", "fault=request-lost&on=every", "verifier=slow", "fault=hang&verifier=none", "fault=rate-limited&guard=blind"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			defer cancel()
			began := time.Now()
			play(ctx, pagePlan(t, query), func(moment) {})
			assert.LessOrEqual(t, time.Since(began), 3*time.Second, "a hang, at most: "+query)
		})
	}
}

// The two questions are answered for the failure that a success came after.
func TestQuestions(t *testing.T) {
	const (
		useful  = "DEADLINE_EXCEEDED is transient: the same call may succeed later. That alone does not allow it."
		doubted = "in_doubt: nobody heard what came of it. "
		sent    = "It was sent again when that was allowed, and succeeded."
	)
	for query, want := range map[string][3]verdict{
		"tool=write&fault=answer-lost": {
			{"yes", useful}, {"yes", doubted + "So it is not sent again before that is known."},
			{"continue", "It was looked up by its ref, and it is there."},
		},
		"tool=write&fault=hang-after&verifier=none": {
			{"yes", useful}, {"yes", doubted + "So it is not sent again before that is known."},
			{"continue", "Its late result joined the record, and the next call was answered from that."},
		},
		"tool=idempotent&fault=answer-lost": {
			{"yes", useful}, {"yes", doubted + "The same ref has one effect, so it may be sent again."}, {"continue", sent},
		},
		"tool=read&fault=answer-lost": {
			{"yes", useful}, {"nothing to happen", "in_doubt, but a read has no effect that a second one could double."}, {"continue", sent},
		},
		"tool=write&fault=not-sent": {
			{"yes", "DEPENDENCY_UNAVAILABLE is transient: the same call may succeed later. That alone does not allow it."},
			{"no", "not_sent: it is proven that nothing was sent."}, {"continue", sent},
		},
		"tool=write&fault=rate-limited": {
			{"yes", "RATE_LIMITED is transient: the same call may succeed later. That alone does not allow it."},
			{"no", "rejected: the service says that it did nothing."}, {"continue", sent},
		},
		"tool=write&fault=panic-after": {
			{"no", "TOOL_PANIC is permanent: the same call fails again."}, {"yes", doubted + "So it is not sent again before that is known."},
			{"continue", "It was looked up by its ref, and it is there."},
		},
		"tool=write&fault=answer-lost&verifier=none": {
			{"yes", "class is transient: the same call may succeed later. That alone does not allow it."},
			{"yes", "commit_state is unknown: an attempt is unresolved, so nothing is sent before it is looked up or deduplicated."},
			{"verify_operation", "Find out what became of the operation, by its ref, before anything is sent."},
		},
		"tool=write&fault=none": {
			{"no need", "It succeeded."}, {"yes, it has", "commit_state is committed: the effect exists, and that is final."},
			{"continue", "Go on with the result."},
		},
	} {
		a := pageLast(pageMoments(t, pagePlan(t, query)), sideToolexec).answer
		assert.Equal(t, want, [3]verdict{a.Help, a.Happened, a.So}, query)
	}
}

func TestGuardWords(t *testing.T) {
	assert.Equal(t, "look up first", guardWord("verify"))
	assert.Equal(t, "ref_reused", guardWord("ref_reused"), "a move that the page has no words for")
	assert.Equal(t, "ref_reused; the tool is not invoked", guardSays("ref_reused"))
	assert.Equal(t, "late result of an attempt that was answered for: rejected",
		lateSays(toolexec.LateEvidence{Evidence: toolexec.EvidenceRejected, Failure: errBusy}))
}

// No plan has two attempts of a Write succeed; were it to happen, the page says
// so.
func TestAlarm(t *testing.T) {
	var told []moment
	r := &reel{lab: &lab{speed: 1}, began: time.Now(), tell: func(m moment) { m.At = 0; told = append(told, m) }}
	w := r.stage(pagePlan(t, ""), sideToolexec).watch
	w.Note(t.Context(), toolexec.DuplicateEffect{Key: toolexec.Key{Ref: "process_refund:ORD-5510"}})
	assert.Equal(t, []moment{{
		Side: sideToolexec, Kind: kindAlarm, Word: "alarm", Text: "alarm: two attempts of process_refund:ORD-5510 both succeeded",
	}}, told)
}
