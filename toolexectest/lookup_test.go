package toolexectest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// What each fault of a look-up comes to, for a write whose answer is lost: what
// the first call says, and what a call after the settle window says.
func TestLookupFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault        toolexectest.Fault
		first, later toolexec.CommitState
		code         toolexec.Code
		effects      int
	}{
		"none":                    {toolexectest.OK(), toolexec.Committed, toolexec.Committed, toolexec.CodeOK, 1},
		"down":                    {toolexectest.FailRequest(toolexectest.ErrInjected), toolexec.CommitUnknown, toolexec.Committed, toolexec.CodeOK, 1},
		"slow":                    {toolexectest.DelayAnswer(time.Second), toolexec.Committed, toolexec.Committed, toolexec.CodeOK, 1},
		"too slow":                {toolexectest.DelayAnswer(3 * time.Second), toolexec.CommitUnknown, toolexec.Committed, toolexec.CodeOK, 1},
		"hangs":                   {toolexectest.Hang(time.Minute), toolexec.CommitUnknown, toolexec.Committed, toolexec.CodeOK, 1},
		"never answers":           {toolexectest.DropAnswer(), toolexec.CommitUnknown, toolexec.Committed, toolexec.CodeOK, 1},
		"panics":                  {toolexectest.PanicRequest("p"), toolexec.CommitUnknown, toolexec.Committed, toolexec.CodeOK, 1},
		"exits":                   {toolexectest.ExitRequest(), toolexec.CommitUnknown, toolexec.Committed, toolexec.CodeOK, 1},
		"cannot tell":             {toolexectest.Lie(nil), toolexec.CommitUnknown, toolexec.Committed, toolexec.CodeOK, 1},
		"absent too early":        {toolexectest.Lie(toolexec.NoEffect), toolexec.CommitUnknown, toolexec.Committed, toolexec.CodeOK, 1},
		"absent for good":         {toolexectest.Outage(time.Hour, toolexectest.Lie(toolexec.NoEffect)), toolexec.CommitUnknown, toolexec.Committed, toolexec.CodeOK, 2},
		"several hits":            {toolexectest.Lie(toolexec.OtherEffect), toolexec.CommitUnknown, toolexec.CommitUnknown, toolexec.CodeVerificationConflict, 1},
		"found without a result":  {toolexectest.Lie(toolexec.FoundEffect), toolexec.Committed, toolexec.Committed, toolexec.CodeOK, 1},
		"found with another's":    {toolexectest.Lie(toolexec.Found("other")), toolexec.Committed, toolexec.Committed, toolexec.CodeOK, 1},
		"refused, with no effect": {toolexectest.Refuse(toolexec.ClassPermanent), toolexec.CommitUnknown, toolexec.CommitUnknown, toolexec.CodeVerificationUnavailable, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				var l toolexectest.Ledger
				lost, looks := toolexectest.Script(toolexectest.FailAnswer(errFaultTest)), toolexectest.Script(c.fault)
				tool := toolexec.Bind(&x, toolexec.Tool[int, string]{
					Name: "post", Run: toolexectest.Wrap(lost, ledgerPost(&l)),
					Verify: &toolexec.Verifier[int, string]{Lookup: toolexectest.WrapLookup(looks, toolexectest.Lookup[int, string](&l)), Authoritative: true},
				})
				ctx := toolexec.WithOperationRef(t.Context(), "op/1")
				assert.Equal(t, c.first, tool.Call(ctx, 1).CommitState)
				time.Sleep(2 * time.Minute)
				env := tool.Call(ctx, 1)
				assert.Equal(t, c.later, env.CommitState)
				assert.Equal(t, c.code, env.Code)
				assert.Equal(t, c.effects, l.Effects("op/1"))
				looks.Check(t)
				lost.Check(t)
				require.NoError(t, x.Close(t.Context()))
			})
		})
	}
}

// The look-up under the faults is asked for the same operation.
func TestLookupPassesTheQuestion(t *testing.T) {
	look := toolexectest.WrapLookup(nil, func(_ context.Context, ref string, in int) (toolexec.Finding[int], error) {
		assert.Equal(t, "op/1", ref)
		return toolexec.Found(in + 1), nil
	})
	got, err := look(t.Context(), "op/1", 4)
	assert.NoError(t, err)
	assert.Equal(t, toolexec.Found(5), got)
	assert.PanicsWithValue(t, "toolexectest: Wrap: step 1 replaces the result by a toolexec.Verdict, but the function returns a int", func() {
		toolexectest.Wrap(toolexectest.Script(toolexectest.Lie(toolexec.NoEffect)), func(context.Context, int) (int, error) { return 0, nil })
	}, "a verdict is an answer of look-ups only")
}
