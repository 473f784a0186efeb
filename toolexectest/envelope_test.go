package toolexectest_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// envelopeDoubt is a write in doubt, envelopeDone a success.
func envelopeDoubt() toolexec.Envelope[string] {
	return toolexec.Envelope[string]{
		Code: toolexec.CodeOutcomeUnknown, Class: toolexec.ClassTransient, Category: toolexec.CategoryDependency,
		NextAction: toolexec.NextVerifyOperation, OperationRef: "run_81/step_4", AgentMessage: "Do not repeat it.", UserMessage: "We are checking.",
		SafeDetails: toolexec.Details{toolexec.DetailVerificationTool: "get_refund"},
	}
}

func envelopeDone() toolexec.Envelope[string] {
	return toolexec.Envelope[string]{
		OK: true, Code: toolexec.CodeOK, CommitState: toolexec.Committed, NextAction: toolexec.NextContinue, OperationRef: "run_81/step_4",
		Result: "rcpt_1", HasResult: true, Verification: &toolexec.Verification{CheckedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
	}
}

func TestCheckEnvelope(t *testing.T) {
	assert.NoError(t, toolexectest.CheckEnvelope(envelopeDoubt()))
	assert.NoError(t, toolexectest.CheckEnvelope(envelopeDone()))
	for name, c := range map[string]struct {
		from  func() toolexec.Envelope[string]
		spoil func(*toolexec.Envelope[string])
		want  string
	}{
		"no code":               {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.Code = "" }, `breaks the schema at "/code"`},
		"a word there is not":   {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.Class = "odd" }, `breaks the schema at "/class"`},
		"no message":            {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.AgentMessage = "" }, "expected agent_message"},
		"no verification":       {envelopeDone, func(e *toolexec.Envelope[string]) { e.Verification = nil }, "expected verification"},
		"no JSON":               {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.SafeDetails["f"] = func() {} }, "it has no JSON"},
		"a detail of many":      {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.SafeDetails["f"] = []int{1} }, "does not come back"},
		"a ref of other bytes":  {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.OperationRef = "a b" }, `breaks the schema at "/operation_ref"`},
		"ok in doubt":           {envelopeDone, func(e *toolexec.Envelope[string]) { e.CommitState = "" }, "ok and commit_state committed go together"},
		"committed and failed":  {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.CommitState = toolexec.Committed }, "ok and commit_state committed go together"},
		"ok and a person":       {envelopeDone, func(e *toolexec.Envelope[string]) { e.NextAction = "" }, "ok and next_action continue go together"},
		"failed and go on":      {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.NextAction = toolexec.NextContinue }, "ok and next_action continue go together"},
		"ok with a code":        {envelopeDone, func(e *toolexec.Envelope[string]) { e.Code = toolexec.CodeConflict }, "ok and code OK go together"},
		"failed with OK":        {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.Code = toolexec.CodeOK }, "ok and code OK go together"},
		"ok with a retry":       {envelopeDone, func(e *toolexec.Envelope[string]) { e.Retry.MaxAttemptsRemaining = 1 }, "a success says nothing about retrying"},
		"failed with a result":  {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.HasResult = true }, "a failure has no result"},
		"failed and replayed":   {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.Replayed = true }, "is not a replay"},
		"delay and verify":      {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.Retry.Directive = toolexec.RetryAfterDelay }, "after_delay and next_action wait_and_retry go together"},
		"wait and never":        {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.NextAction = toolexec.NextWaitAndRetry }, "after_delay and next_action wait_and_retry go together"},
		"fix and verify":        {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.Retry.Directive = toolexec.RetryAfterInputFix }, "after_input_fix goes with"},
		"never with attempts":   {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.Retry.MaxAttemptsRemaining = 3 }, "retry.directive never leaves no attempts"},
		"doubt and other input": {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.NextAction = toolexec.NextCorrectInput }, "what may have happened is not called again"},
		"doubt and approval":    {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.NextAction = toolexec.NextRequestApproval }, "what may have happened is not called again"},
		"doubt without a ref":   {envelopeDoubt, func(e *toolexec.Envelope[string]) { e.OperationRef = "" }, "has an operation_ref by which it can be looked up"},
	} {
		t.Run(name, func(t *testing.T) {
			e := c.from()
			c.spoil(&e)
			assert.ErrorContains(t, toolexectest.CheckEnvelope(e), c.want)
		})
	}
}

func TestEnvelopeWant(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	e := envelopeDoubt()
	e.Retry.NotBefore = at.UTC()
	assert.NoError(t, toolexectest.Compare(e, toolexectest.Want{}), "nothing is expected")
	assert.NoError(t, toolexectest.Compare(e, toolexectest.Want{
		OK: new(false), Code: new(toolexec.CodeOutcomeUnknown), Class: new(toolexec.ClassTransient), Category: new(toolexec.CategoryDependency),
		CommitState: new(toolexec.CommitUnknown), NextAction: new(toolexec.NextVerifyOperation), Directive: new(toolexec.RetryNever), NotBefore: &at,
		MaxAttemptsRemaining: new(0), OperationRef: new("run_81/step_4"), Replayed: new(false), Unrecorded: new(false),
		Details: toolexec.Details{toolexec.DetailVerificationTool: "get_refund"},
	}))
	assert.NoError(t, toolexectest.Compare(envelopeDone(), toolexectest.Want{Result: json.RawMessage(`"rcpt_1"`), Source: new(toolexec.SourceExecution)}))
}

// Each field counts once it is set, and is shown by the name of its JSON.
func TestEnvelopeWantShowsTheDifference(t *testing.T) {
	for want, w := range map[string]toolexectest.Want{
		"ok                           false                    true":                 {OK: new(true)},
		"code                         OUTCOME_UNKNOWN          OK":                   {Code: new(toolexec.CodeOK)},
		"class                        transient                permanent":            {Class: new(toolexec.ClassPermanent)},
		"category                     dependency               internal":             {Category: new(toolexec.CategoryInternal)},
		"commit_state                 unknown                  not_committed":        {CommitState: new(toolexec.NotCommitted)},
		"retry.directive              never                    after_delay":          {Directive: new(toolexec.RetryAfterDelay)},
		"retry.not_before             (none)                   2026-01-02T00:00:00Z": {NotBefore: new(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))},
		"retry.max_attempts_remaining 0                        3":                    {MaxAttemptsRemaining: new(3)},
		"operation_ref                run_81/step_4            (none)":               {OperationRef: new("")},
		"replayed                     false                    true":                 {Replayed: new(true)},
		"recorded                     true                     false":                {Unrecorded: new(true)},
		"verification.source          (none)                   lookup":               {Source: new(toolexec.SourceLookup)},
		"result                       (none)                   1":                    {Result: 1},
		"safe_details.field           (none)                   \"cents\"":            {Details: toolexec.Details{"field": "cents"}},
		"safe_details.verification_tool \"get_refund\"             \"other\"":        {Details: toolexec.Details{"verification_tool": "other"}},
	} {
		assert.EqualError(t, toolexectest.Compare(envelopeDoubt(), w),
			"the envelope is not as it should be\n                             got                      want\n"+want)
	}
	done := envelopeDone()
	assert.ErrorContains(t, toolexectest.Compare(done, toolexectest.Want{Source: new(toolexec.SourceLookup)}), "execution                lookup")
	assert.ErrorContains(t, toolexectest.Compare(done, toolexectest.Want{Result: "rcpt_2"}), `"rcpt_1"                 "rcpt_2"`)
}

// A wrong next action is explained.
func TestEnvelopeWantExplains(t *testing.T) {
	refused := envelopeDoubt()
	refused.Code, refused.CommitState, refused.NextAction = toolexec.CodeConflict, toolexec.NotCommitted, toolexec.NextEscalate
	waiting := envelopeDoubt()
	waiting.NextAction = toolexec.NextWaitAndRetry
	for want, e := range map[string]toolexec.Envelope[string]{
		"next_action verify_operation means: look the operation up by its ref, and send nothing before, because it may have happened already, and repeating it could make it happen twice (class transient). It should be correct_input: call again with other arguments.": envelopeDoubt(),
		"next_action continue means: go on, it is done, because it is committed (class permanent). It should be correct_input: call again with other arguments.":                                                                                                           envelopeDone(),
		"next_action escalate means: leave it to a person, because nothing was changed, and that is what CONFLICT implies (class transient). It should be correct_input: call again with other arguments.":                                                                 refused,
		"next_action wait_and_retry means: make the same call again later, because it may have happened, and the remote side deduplicates by the ref, or another owner has it (class transient). It should be correct_input: call again with other arguments.":             waiting,
	} {
		assert.ErrorContains(t, toolexectest.Compare(e, toolexectest.Want{NextAction: new(toolexec.NextCorrectInput)}), want)
	}
}

func TestEnvelopeExpect(t *testing.T) {
	toolexectest.Expect(t, envelopeDone(), toolexectest.Want{OK: new(true)})
	wrong := envelopeDone()
	wrong.Verification = nil
	var report faultErrors
	toolexectest.Expect(&report, wrong, toolexectest.Want{OK: new(false)})
	assert.Len(t, report.got, 2, "it differs, and it is not valid")
	assert.Error(t, errors.New(report.got[0]))
}
