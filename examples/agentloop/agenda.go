package main

import (
	"context"
	"errors"
	"time"

	"github.com/toolexec/toolexec"
)

// The agenda is what the host finishes itself, whatever the model does: it waits,
// asks what became of an operation, and asks people. All of it ends with the same
// call once more, because calling again with the same ref is always safe.

// People are asked where a program may not decide.
type People interface {
	// Review allows or denies the call that is held under key.
	Review(ctx context.Context, key toolexec.Key) (allowed bool, says string, err error)
	// Settle looks into an operation that is stuck. again means: make its call once
	// more to learn what holds now. When err is toolexec.ErrRefused it is too early
	// to say, and the host comes back later.
	Settle(ctx context.Context, key toolexec.Key) (again bool, says string, err error)
}

// pending is an operation that is not over.
type pending struct {
	call ToolCall // to be made again as it was
	next toolexec.NextAction
	due  time.Time
}

// plan puts an operation on the agenda. People who are asked already keep the
// time they have.
func (h *Host) plan(c ToolCall, env Envelope, does string) Decision {
	if env.OperationRef == "" { // nothing was started
		return Decision{Does: "stop the model: there is nothing to look into"}
	}
	c.Mistake = "" // made again by the host it is none
	p := &pending{c, env.NextAction, env.Retry.NotBefore}
	was := h.agenda[env.OperationRef]
	switch {
	case asksPeople(p) && was != nil && was.next == p.next:
		p.due, does = was.due, does+", who is asked already"
	case asksPeople(p):
		p.due = time.Now().Add(h.Reply)
	case p.due.IsZero():
		p.due = time.Now().Add(h.Pause)
	}
	h.agenda[env.OperationRef] = p // with the newest call: it is the one that is held, or in doubt
	return Decision{does, p.due}
}

func asksPeople(p *pending) bool {
	return p.next != toolexec.NextWaitAndRetry && p.next != toolexec.NextVerifyOperation
}

// settle does what is due, in the order of its times, and returns what the model
// should hear of it.
func (h *Host) settle(ctx context.Context) (heard []Observation, err error) {
	for {
		ref, p := h.first()
		if p == nil || p.due.After(time.Now()) {
			return heard, nil
		}
		o, err := h.settleOne(ctx, ref, p)
		if err != nil {
			return heard, err
		}
		heard = append(heard, o...)
	}
}

// first is what is due first; nil when the agenda is empty.
func (h *Host) first() (ref string, first *pending) {
	for r, p := range h.agenda {
		if first == nil || p.due.Before(first.due) || p.due.Equal(first.due) && r < ref {
			ref, first = r, p
		}
	}
	return ref, first
}

func (h *Host) settleOne(ctx context.Context, ref string, p *pending) ([]Observation, error) {
	if asksPeople(p) {
		again, heard, err := h.ask(ctx, ref, p)
		if !again || err != nil {
			return heard, err
		}
	}
	h.Witness.Host(ref + ": the same call once more")
	delete(h.agenda, ref) // unless the answer puts it there again
	h.asked[ref]++
	env := h.Executor.Execute(ctx, h.request(p.call)) // in no run: the loops to break are the model's
	return []Observation{h.answered(p.call, env)}, nil
}

// ask asks a person; again says that the call may be made once more.
func (h *Host) ask(ctx context.Context, ref string, p *pending) (again bool, heard []Observation, err error) {
	key := toolexec.Key{Ref: ref}
	var says string
	if p.next == toolexec.NextRequestApproval {
		if again, says, err = h.People.Review(ctx, key); !again && err == nil {
			heard = []Observation{{CallID: p.call.ID, Text: "Not allowed: " + says + ".", IsError: true}}
		}
	} else {
		again, says, err = h.People.Settle(ctx, key)
	}
	switch {
	case errors.Is(err, toolexec.ErrRefused):
		p.due = time.Now().Add(h.Reply)
		return false, nil, nil
	case err != nil:
		return false, nil, err
	case !again:
		delete(h.agenda, ref)
	}
	h.asked[ref] = 0
	h.Witness.Host(ref + ": " + says)
	return again, heard, nil
}

// wait sleeps until something is due; false when the agenda is empty.
func (h *Host) wait(ctx context.Context) bool {
	_, p := h.first()
	return p != nil && sleepUntil(ctx, p.due) == nil
}

func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
