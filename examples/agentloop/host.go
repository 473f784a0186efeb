package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolexec/toolexec"
)

// Model is what writes the tool calls of a turn. It is shown what became of the
// last ones, and returns no call when it has nothing to do.
type Model interface {
	Turn(heard []Observation) []ToolCall
}

// ToolCall is a call as the model wrote it: untrusted, all of it.
type ToolCall struct {
	ID           string
	Name         string
	Arguments    json.RawMessage
	OperationRef string // which operation it is about, if the model says so

	Mistake Mistake // what is wrong with it: for the summary, the host does not look
}

// Observation is what the model reads.
type Observation struct {
	CallID  string // "": the host's own word
	Text    string
	IsError bool // the flag that providers have beside it
}

// Envelope is what a call by name is answered with.
type Envelope = toolexec.Envelope[json.RawMessage]

// Step is one item of the work list: what has to be done in this run.
type Step struct {
	Tool, Order string
	// Ref names the step's operation. "": the tool has a business key of its own.
	Ref string
}

// Host owns the loop between the model and the tools. It decides from the fields
// of envelopes, never from a text.
type Host struct {
	Executor *toolexec.Executor
	Model    Model
	People   People
	RunID    string
	Tools    []string // the names that this model may use
	Work     []Step
	MaxTurns int
	Pause    time.Duration // between turns, and where an answer names no time
	Reply    time.Duration // how long people take to answer
	Patience int           // how often the host asks about an operation before a person does
	Witness  Witness

	done   map[Step]bool
	agenda map[string]*pending // by operation ref: what the host has to finish
	asked  map[string]int      // by operation ref: how often it made the call again
}

// Decision is what the host does about an answer, and when; zero is at once, or
// nothing is planned.
type Decision struct {
	Does string
	At   time.Time
}

// Witness is told what the host sees and decides.
type Witness interface {
	Turn(n int, calls []ToolCall)
	Answered(call ToolCall, env Envelope, heard Observation, d Decision)
	Host(does string)
}

// Run lets the model work until the work list is done. Its error is that of the
// context or of people, or says that the turns are used up.
func (h *Host) Run(ctx context.Context) error {
	h.done, h.agenda, h.asked = make(map[Step]bool), make(map[string]*pending), make(map[string]int)
	var heard []Observation
	for n := 1; n <= h.MaxTurns; n++ {
		calls := h.Model.Turn(heard)
		heard = h.turn(ctx, n, calls)
		if len(calls) == 0 && !h.wait(ctx) {
			open := h.open()
			if len(open) == 0 {
				return nil
			}
			heard = append(heard, Observation{Text: "Not done yet: " + strings.Join(open, ", ") + "."})
		}
		later, err := h.settle(ctx)
		if err != nil {
			return err
		}
		heard = append(heard, later...)
		if err := sleepUntil(ctx, time.Now().Add(h.Pause)); err != nil {
			return err
		}
	}
	return errors.New("the model has used all its turns")
}

// turn makes the calls of one turn. Each gets its answer, whatever becomes of the
// others.
func (h *Host) turn(ctx context.Context, n int, calls []ToolCall) (heard []Observation) {
	h.Witness.Turn(n, calls)
	batch := make([]toolexec.Call, len(calls))
	for i, c := range calls {
		batch[i] = h.request(c)
		batch[i].RunID = h.RunID // within which the executor breaks the model's loops
	}
	for i, env := range h.Executor.ExecuteAll(ctx, batch) {
		heard = append(heard, h.answered(calls[i], env))
	}
	return heard
}

// request makes a call of what the model wrote. The arguments go through as they
// are: the executor refuses what the tool's schema does not allow.
func (h *Host) request(c ToolCall) toolexec.Call {
	ref := c.OperationRef
	if s, ok := h.step(c); ok && s.Ref != "" {
		ref = s.Ref // the work list names the operation; a model would name it anew with each plan
	}
	return toolexec.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments, OperationRef: ref, Allowed: h.Tools}
}

// step is the item of the work list that a call serves.
func (h *Host) step(c ToolCall) (Step, bool) {
	var about struct {
		OrderID string `json:"order_id"`
	}
	_ = json.Unmarshal(c.Arguments, &about) // what cannot be read serves no step, and is refused anyway
	i := slices.IndexFunc(h.Work, func(s Step) bool { return s.Tool == c.Name && s.Order == about.OrderID })
	if i < 0 {
		return Step{}, false
	}
	return h.Work[i], true
}

// open names what is left of the work list.
func (h *Host) open() (names []string) {
	for _, s := range h.Work {
		if !h.done[s] {
			names = append(names, strings.TrimSpace(s.Tool+" "+s.Order))
		}
	}
	return names
}

// answered decides about an answer, and returns what the model reads of it.
func (h *Host) answered(c ToolCall, env Envelope) Observation {
	text, isError := env.Observation()
	heard := Observation{CallID: c.ID, Text: text, IsError: isError}
	h.Witness.Answered(c, env, heard, h.decide(c, env))
	return heard
}

// decide is the host's half of the contract: one branch for each next action.
func (h *Host) decide(c ToolCall, env Envelope) Decision {
	if existing, other := env.SafeDetails[toolexec.DetailExistingCommitState]; other {
		return Decision{Does: fmt.Sprintf("refused: the ref is that of other arguments, and their operation (%v) stays as it is", existing)}
	}
	switch env.NextAction {
	case toolexec.NextContinue:
		delete(h.agenda, env.OperationRef)
		if s, ok := h.step(c); ok {
			h.done[s] = true
		}
		return Decision{Does: "the step is done"}
	case toolexec.NextCorrectInput:
		return Decision{Does: "the model's turn: correct the call"}
	case toolexec.NextWaitAndRetry:
		return h.plan(c, env, "make the same call again")
	case toolexec.NextVerifyOperation: // the same call has it looked up, and sends nothing before that
		if h.asked[env.OperationRef] >= h.Patience {
			env.NextAction = toolexec.NextEscalate // there may be no verifier to ask
			return h.plan(c, env, "ask a person")
		}
		return h.plan(c, env, "ask what became of it")
	case toolexec.NextRequestApproval:
		return h.plan(c, env, "ask a person to allow it")
	default: // NextEscalate, and whatever a newer version adds
		if env.Code == toolexec.CodeUnchangedRetry {
			return Decision{Does: "stop the model: it goes round in circles"}
		}
		return h.plan(c, env, "ask a person")
	}
}
