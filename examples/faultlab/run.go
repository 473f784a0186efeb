package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toolexec/toolexec"
)

// play runs p and tells it, moment by moment; never two at once. It returns when
// everything that it began has ended: soon after ctx has, though a hang ends no
// sooner for it.
func play(ctx context.Context, p plan, tell func(moment)) {
	r := &reel{lab: p.lab(), tell: tell}
	blind, guarded := r.stage(p, sideBlind), r.stage(p, sideToolexec)
	r.began = time.Now() // setting up takes no time of theirs
	var sides sync.WaitGroup
	if p.guard != guardToolexec {
		sides.Go(func() { blind.retryBlindly(ctx) })
	}
	if p.guard != guardBlind {
		sides.Go(func() { guarded.host(ctx) })
	}
	sides.Wait()
	r.add(moment{Kind: kindEnd})
}

// host calls as a host does that decides from the envelope: again with the same
// ref when the envelope says when, and never before.
func (s *stage) host(ctx context.Context) {
	n := 1
	env := s.ask(ctx, n)
	for n < number(s.plan.calls) && s.waits(ctx, &env) {
		n++
		env = s.ask(ctx, n)
	}
	heard := s.watch.lateEvidence()
	s.watch.ended(ctx)
	if s.watch.lateEvidence() > heard && ctx.Err() == nil {
		s.say(moment{Kind: kindNote, Text: "late evidence has joined the record, so the host asks once more: calling again is always safe"})
		s.ask(ctx, n+1)
	}
	s.faults.Wait()
	_ = s.x.Close(context.WithoutCancel(ctx)) // what hangs ends by itself, and tells what it did
}

// ask makes the n-th call and tells it.
func (s *stage) ask(ctx context.Context, n int) envelope {
	s.say(moment{Kind: kindCall, N: n, Word: fmt.Sprint("call ", n), Text: fmt.Sprintf("call %d: %s %s", n, s.call.Name, s.call.Arguments)})
	env := s.x.Execute(ctx, s.call)
	s.showSettling(ctx, &env)
	s.say(moment{Kind: kindAnswer, N: n, Word: string(env.Code), Text: fmt.Sprintf("answer %d: %s", n, summary(&env)), Answer: s.answered(&env)})
	return env
}

// waits until the envelope allows the next call; false when it allows none.
func (s *stage) waits(ctx context.Context, env *envelope) bool {
	planned := env.NextAction == toolexec.NextWaitAndRetry || env.NextAction == toolexec.NextVerifyOperation
	if !planned || env.Retry.NotBefore.IsZero() {
		return false
	}
	until := s.at(env.Retry.NotBefore)
	s.say(moment{Kind: kindWait, Until: until, Word: "not before", Text: fmt.Sprintf("the host waits: %s not before %.1fs", env.NextAction, until)})
	defer s.say(moment{Kind: kindWaited})
	return sleep(ctx, time.Until(env.Retry.NotBefore))
}

// showSettling tells the settle window of an operation in doubt.
func (s *stage) showSettling(ctx context.Context, env *envelope) {
	rec, err := s.x.Store.Load(ctx, toolexec.Key{Ref: env.OperationRef})
	if err != nil || s.plan.verifier == verifierNone {
		return
	}
	var until time.Time
	for _, u := range rec.Unresolved {
		if t := u.Settles.Time(); t.After(until) {
			until = t
		}
	}
	if until.IsZero() {
		return
	}
	s.say(moment{
		Kind: kindSettle, Until: s.at(until), Word: "settle window",
		Text: fmt.Sprintf("settle window until %.1fs: before that, absent could mean not yet", s.at(until)),
	})
}

// retryBlindly tries again on every error, as one does without an executor.
func (s *stage) retryBlindly(ctx context.Context) {
	policy := s.x.Policy
	pause := policy.Backoff.Initial
	s.say(moment{Kind: kindCall, N: 1, Word: "call 1", Text: fmt.Sprintf("call: %s %s", s.call.Name, s.call.Arguments)})
	for n := 1; ; n++ {
		result, err := s.tryBlindly(ctx, n)
		if err == nil || n > policy.MaxRetries || ctx.Err() != nil {
			s.say(moment{Kind: kindAnswer, N: 1, Word: blindWord(err), Text: "answer: " + blindText(result, err), Answer: s.answeredBlindly(result, err)})
			break
		}
		s.pause(pause, "pause of "+seconds(s.lab.long(pause))+": it failed, so try again")
		sleep(ctx, pause)
		s.say(moment{Kind: kindPaused})
		pause = time.Duration(float64(pause) * policy.Backoff.Multiplier)
	}
	s.faults.Wait()
}

func (s *stage) tryBlindly(ctx context.Context, n int) (result any, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.x.Policy.Deadline)
	defer cancel()
	s.say(moment{Kind: kindAttempt, N: n, Word: fmt.Sprint(n), Text: fmt.Sprintf("attempt %d begins", n)})
	result, err = contained(func() (any, error) { return s.blind(ctx, s.call.Arguments) })
	m := moment{Kind: kindAttempted, N: n, Word: "ok", Text: fmt.Sprintf("attempt %d: ok", n)}
	if err != nil {
		m.Word, m.Text = "error", fmt.Sprintf("attempt %d: %v", n, err)
	}
	s.say(m)
	return result, err
}

// contained runs f on a goroutine of its own, so that the lab survives what would
// have ended a program.
func contained(f func() (any, error)) (any, error) {
	type end struct {
		result any
		err    error
	}
	ended := make(chan end)
	go func() {
		e := end{err: errors.New("runtime.Goexit ended the goroutine")}
		defer func() {
			if v := recover(); v != nil {
				e.err = fmt.Errorf("panic: %v", v)
			}
			ended <- e
		}()
		e.result, e.err = f()
	}()
	e := <-ended
	return e.result, e.err
}

// blindText is what a model gets from a loop: the result, or the error as it came.
func blindText(result any, err error) string {
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(result)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func blindWord(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// sleep returns true when d has passed, false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
