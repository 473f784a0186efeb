package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/toolexec/toolexec"
)

// watch is the Observer of a stage: it tells what the executor does, and knows
// whether attempts run on that their calls were answered for.
type watch struct {
	stage *stage

	mu        sync.Mutex            // protects what follows
	failed    *toolexec.AttemptInfo // the last one that did; nil: none
	outliving int                   // attempts
	heard     int                   // late results
	changed   chan struct{}         // closed and replaced when outliving changes
}

func newWatch(s *stage) *watch { return &watch{stage: s, changed: make(chan struct{})} }

// Start implements toolexec.Observer.
func (w *watch) Start(ctx context.Context, e toolexec.Event) context.Context {
	switch e := e.(type) {
	case toolexec.AttemptInfo:
		w.stage.say(moment{Kind: kindAttempt, N: e.N, Word: fmt.Sprint(e.N), Text: fmt.Sprintf("attempt %d begins", e.N)})
	case toolexec.PauseInfo:
		w.stage.pause(e.For, fmt.Sprintf("pause of %s: repeating is useful and allowed", seconds(w.stage.lab.long(e.For))))
	case toolexec.VerificationInfo:
		w.stage.say(moment{Kind: kindLookUp, Word: "look-up", Text: "look-up of " + e.Key.Ref + " begins"})
	}
	return ctx
}

// End implements toolexec.Observer.
func (w *watch) End(_ context.Context, e toolexec.Event) {
	switch e := e.(type) {
	case toolexec.AttemptInfo:
		w.attempted(e)
	case toolexec.PauseInfo:
		w.stage.say(moment{Kind: kindPaused})
	case toolexec.VerificationInfo:
		w.stage.say(moment{Kind: kindLookedUp, Word: finding(e), Text: "look-up: " + finding(e)})
	}
}

func (w *watch) attempted(a toolexec.AttemptInfo) {
	m := moment{Kind: kindAttempted, N: a.N, Word: "ok", Text: describe(a)}
	if !a.OK {
		m.Word = a.Evidence.String()
		w.mu.Lock()
		w.failed = &a
		w.mu.Unlock()
	}
	if a.Outlives && w.stage.plan.tool != toolRead { // a read's late end changes nothing
		m.Outlives = true
		m.Text += "; it runs on, and what it hears later joins the record"
		w.outlives(1)
	}
	w.stage.say(m)
}

// Note implements toolexec.Observer.
func (w *watch) Note(_ context.Context, e toolexec.Event) {
	switch e := e.(type) {
	case toolexec.GuardDecision:
		w.stage.say(moment{Kind: kindGuard, Word: guardWord(e.Move), Text: fmt.Sprintf("guard: %s (the record is %s)", guardSays(e.Move), e.State)})
	case toolexec.LateEvidence:
		w.stage.say(moment{Kind: kindLate, N: e.N, Word: "late: " + e.Evidence.String(), Text: lateSays(e)})
		w.outlives(-1)
	case toolexec.DuplicateEffect:
		w.stage.say(moment{Kind: kindAlarm, Word: "alarm", Text: "alarm: two attempts of " + e.Key.Ref + " both succeeded"})
	}
}

func (w *watch) outlives(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outliving += n
	if n < 0 {
		w.heard++
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// lastFailure returns the last attempt that failed; nil when none did.
func (w *watch) lastFailure() *toolexec.AttemptInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// lateEvidence returns how many late results were heard of.
func (w *watch) lateEvidence() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard
}

// ended returns when no attempt runs on, or ctx is done.
func (w *watch) ended(ctx context.Context) {
	for {
		w.mu.Lock()
		outliving, changed := w.outliving, w.changed
		w.mu.Unlock()
		if outliving == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// pause tells a pause of d that begins now.
func (s *stage) pause(d time.Duration, says string) {
	s.say(moment{Kind: kindPause, Until: s.at(time.Now().Add(d)), Word: "pause", Text: says})
}
