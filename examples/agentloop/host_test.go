package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// scribe is a model that has written its turns down, and a witness.
type scribe struct {
	turns [][]ToolCall
	said  []string
}

func (s *scribe) Turn([]Observation) []ToolCall {
	if len(s.turns) == 0 {
		return nil
	}
	calls := s.turns[0]
	s.turns = s.turns[1:]
	return calls
}

func (s *scribe) Answered(call ToolCall, env Envelope, _ Observation, d Decision) {
	s.said = append(s.said, fmt.Sprintf("%s %s: %s", call.ID, env.Code, d.Does))
}

func (s *scribe) Host(does string) { s.said = append(s.said, does) }

// witness makes a Witness of a scribe: both have a method Turn.
type witness struct{ *scribe }

func (witness) Turn(int, []ToolCall) {}

// clerk knows from elsewhere that nothing happened.
type clerk struct{ toolexec.Supervisor }

func (c clerk) Review(context.Context, toolexec.Key) (bool, string, error) {
	return false, "", errors.New("nobody is there")
}

func (c clerk) Settle(ctx context.Context, key toolexec.Key) (bool, string, error) {
	_, err := c.Resolve(ctx, key, toolexec.NotCommitted, says("the bank has nothing"))
	return true, "nothing happened", err
}

type transfer struct {
	OrderID string `json:"order_id"`
}

// hostOf makes a host of a tool that cannot be looked up; its first attempt stays
// in doubt.
func hostOf(approval *toolexec.Approval[transfer], turns ...[]ToolCall) (*Host, *scribe, *int) {
	var x toolexec.Executor
	runs := 0
	toolexec.Bind(&x, toolexec.Tool[transfer, string]{
		Name: "transfer", Approval: approval,
		Run: func(context.Context, transfer) (string, error) {
			if runs++; runs == 1 {
				return "", errors.New("connection lost")
			}
			return "tr_1", nil
		},
	})
	s := &scribe{turns: turns}
	return &Host{
		Executor: &x, Model: s, Witness: witness{s}, People: clerk{toolexec.Supervisor{Executor: &x}},
		Tools: []string{"transfer"}, Work: []Step{{"transfer", "ORD-1", "run_1/step_1"}},
		MaxTurns: 50, Pause: time.Second, Reply: 10 * time.Second, Patience: 2,
	}, s, &runs
}

func transferOf(id string) []ToolCall {
	return []ToolCall{{ID: id, Name: "transfer", Arguments: asJSON(transfer{"ORD-1"})}}
}

// Where nobody can look an operation up, asking again changes nothing: after a
// while a person is asked, who may not say "it did not happen" before it could
// not happen any more.
func TestHostAsksAPersonWhereNothingCanBeLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s, runs := hostOf(nil, transferOf("call_1"))
		began := time.Now()
		require.NoError(t, h.Run(t.Context()))
		assert.Equal(t, []string{
			"call_1 TOOL_FAILED: ask what became of it",
			"run_1/step_1: the same call once more",
			"call_1 TOOL_FAILED: ask what became of it",
			"run_1/step_1: the same call once more",
			"call_1 TOOL_FAILED: ask a person",
			"run_1/step_1: nothing happened",
			"run_1/step_1: the same call once more",
			"call_1 OK: the step is done",
		}, s.said)
		assert.Equal(t, 2, *runs)
		assert.GreaterOrEqual(t, time.Since(began), toolexec.DefaultSettle, "the person was told to wait")
	})
}

func TestHostStops(t *testing.T) {
	needed := &toolexec.Approval[transfer]{}
	for name, c := range map[string]struct {
		approval *toolexec.Approval[transfer]
		turns    [][]ToolCall
		within   time.Duration
		want     string
	}{
		"when people fail":           {needed, [][]ToolCall{transferOf("call_1")}, time.Hour, "nobody is there"},
		"when the turns are used":    {nil, nil, time.Hour, "the model has used all its turns"},
		"when its context has ended": {nil, nil, 5 * time.Second, "context deadline exceeded"},
		"when it ends during a wait": {nil, [][]ToolCall{transferOf("call_1")}, 12 * time.Second, "context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				defer cancel()
				h, _, _ := hostOf(c.approval, c.turns...)
				assert.EqualError(t, h.Run(ctx), c.want)
			})
		})
	}
}
