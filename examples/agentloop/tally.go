package main

import (
	"context"
	"sync"
	"time"

	"github.com/toolexec/toolexec"
)

// tally is an Observer that counts which calls reached a tool.
type tally struct {
	mu       sync.Mutex // protects what follows
	runs     map[string]int
	attempts []attempt
}

// attempt is one run of a tool's function.
type attempt struct {
	call, tool string
	key        toolexec.Key
	at         time.Time
}

type callKey struct{}

// Start implements toolexec.Observer.
func (t *tally) Start(ctx context.Context, e toolexec.Event) context.Context {
	switch e := e.(type) {
	case toolexec.CallInfo:
		return context.WithValue(ctx, callKey{}, e.ID)
	case toolexec.AttemptInfo:
		t.mu.Lock()
		defer t.mu.Unlock()
		id, _ := ctx.Value(callKey{}).(string)
		if t.runs == nil {
			t.runs = make(map[string]int)
		}
		t.runs[id]++
		t.attempts = append(t.attempts, attempt{id, e.Tool, e.Key, time.Now()})
	}
	return ctx
}

// End implements toolexec.Observer.
func (t *tally) End(context.Context, toolexec.Event) {}

// Note implements toolexec.Observer.
func (t *tally) Note(context.Context, toolexec.Event) {}

// take returns how often a call has reached its tool since it was last asked
// about.
func (t *tally) take(call string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.runs[call]
	delete(t.runs, call)
	return n
}
