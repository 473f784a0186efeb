package toolexectest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolexec/toolexec"
)

// trialRef names the operation of a trial, where the tool has no business key.
const trialRef = "contract/op-1"

// trial is one run of a scenario: a remote side, a tool that is watched, and what
// it was seen to break.
type trial[In, Out any] struct {
	ctx     context.Context //nolint:containedctx // a trial lives as long as its check
	newCase func() Case[In, Out]
	c       Case[In, Out] // the present one
	disk    toolexec.Store
	plans   []*Plan
	open    []*toolexec.Executor

	mu     sync.Mutex // protects what follows
	runs   int        // dispatches of the tool itself, inside the faults
	broken []string
}

// restart begins anew: another remote side, without records.
func (t *trial[In, Out]) restart() {
	t.end()
	t.c = t.newCase()
	t.disk = new(toolexec.MemoryStore)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs = 0
}

// end waits for what outlives calls.
func (t *trial[In, Out]) end() {
	ctx, cancel := context.WithTimeout(t.ctx, t.patience())
	defer cancel()
	for _, x := range t.open {
		began := time.Now()
		if err := x.Close(ctx); err != nil || time.Since(began) > longest {
			t.breaks("runs on, long after its deadline: for %v", time.Since(began).Round(time.Second))
		}
	}
	for _, p := range t.plans {
		p.Wait()
		for _, line := range p.Unfired() {
			t.breaks("the fault of this scenario did not come about: %s", line)
		}
	}
	t.open, t.plans = nil, nil
}

// longest is what a tool that ignores its context may take to end.
const longest = time.Hour

// patience is how long what outlives calls is waited for. A bubble has all the
// time there is, and cannot be left before.
func (t *trial[In, Out]) patience() time.Duration {
	if t.c.RealTime {
		return 10 * time.Second
	}
	return 10 * 365 * 24 * time.Hour
}

// tick is a pause that is not asked for.
func (t *trial[In, Out]) tick() time.Duration {
	if t.c.RealTime {
		return 10 * time.Millisecond
	}
	return time.Second
}

// expire ends the leases of a process that has died, where waiting for their end
// takes real time.
func (t *trial[In, Out]) expire() {
	if !t.c.RealTime {
		return
	}
	page, _, err := t.disk.List(t.ctx, toolexec.Query{States: []toolexec.State{toolexec.StateInFlight}})
	for _, r := range page {
		r.LeaseUntil = toolexec.At(r.Now)
		_, saveErr := t.disk.Save(t.ctx, r)
		err = errors.Join(err, saveErr)
	}
	if err != nil {
		t.breaks("cannot be tested further: %v", err)
	}
}

// breaks notes what the tool breaks, once.
func (t *trial[In, Out]) breaks(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := fmt.Sprintf(format, args...); !slices.Contains(t.broken, s) {
		t.broken = append(t.broken, s)
	}
}

func (t *trial[In, Out]) found() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.broken) == 0 {
		return nil
	}
	return errors.New("the tool " + strings.Join(t.broken, "; it "))
}

func (t *trial[In, Out]) ran() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs
}

// tool binds the tool to a new executor, as it runs in p, with faults around it.
func (t *trial[In, Out]) tool(p *Process, faults ...Fault) *running[In, Out] {
	plan := Script(faults...)
	x := &toolexec.Executor{Store: p.Store(t.disk)}
	t.plans, t.open = append(t.plans, plan), append(t.open, x)
	tool := t.c.Tool
	tool.Run = Wrap(plan, InProcess(p, t.watch(tool.Run)))
	if t.c.RealTime {
		tool.Policy.Backoff, tool.Policy.MaxPause = toolexec.Backoff{Initial: time.Millisecond}, -1
	}
	return &running[In, Out]{trial: t, x: x, plan: plan, bound: toolexec.Bind(x, tool)}
}

// watch sees what the tool does to its input and to the remote side, and what it
// says of it.
func (t *trial[In, Out]) watch(run func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) {
		t.mu.Lock()
		t.runs++
		t.mu.Unlock()
		was, effects := encoded(in), t.c.Total()
		out, err := run(ctx, in)
		if !bytes.Equal(was, encoded(in)) {
			t.breaks("changes its input")
		}
		if f := new(toolexec.Failure); errors.As(err, &f) && t.c.Total() > effects {
			switch f.Evidence {
			case toolexec.EvidenceNotSent:
				t.breaks("says NotSent when it has had an effect")
			case toolexec.EvidenceRejected:
				t.breaks("says that it was rejected when it has had an effect")
			}
		}
		return out, err
	}
}

func encoded(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return raw
}

// running is the tool in one process.
type running[In, Out any] struct {
	trial *trial[In, Out]
	x     *toolexec.Executor
	plan  *Plan
	bound *toolexec.Bound[In, Out]
}

func (r *running[In, Out]) callContext() context.Context {
	return toolexec.WithOperationRef(r.trial.ctx, trialRef)
}

// call makes the call, and checks what is true of every answer.
func (r *running[In, Out]) call(ctx context.Context, in In) toolexec.Envelope[Out] {
	env := r.bound.Call(ctx, in)
	if err := CheckEnvelope(env); err != nil {
		r.trial.breaks("gets an answer that is not valid: %v", err)
	}
	return env
}

// approvedCall makes the call, and has it approved if it is held.
func (r *running[In, Out]) approvedCall() toolexec.Envelope[Out] {
	in := r.trial.c.Valid[0]
	env := r.call(r.callContext(), in)
	if env.Code == toolexec.CodeMissingApproval && r.approve(env.OperationRef, time.Hour) {
		return r.call(r.callContext(), in)
	}
	return env
}

func (r *running[In, Out]) approve(ref string, ttl time.Duration) bool {
	s, key := toolexec.Supervisor{Executor: r.x}, toolexec.Key{Scope: toolexec.Scope(r.trial.ctx), Ref: ref}
	rec, err := s.Get(r.trial.ctx, key)
	if err == nil && rec.Approval != nil {
		_, err = s.Approve(r.trial.ctx, key, rec.Approval.Digest, toolexec.Statement{Actor: "contract", Evidence: "test"}, ttl)
	}
	if err != nil {
		r.trial.breaks("could not be approved: %v", err)
	}
	return err == nil
}

// mostCalls bounds how often an operation is called until it comes to an end.
const mostCalls = 60

// finish calls until the operation has come to an end, or nothing more happens,
// as a patient host does, and checks what is true of every end.
func (r *running[In, Out]) finish() toolexec.Envelope[Out] {
	env := r.approvedCall()
	for range mostCalls {
		if !r.worthCalling(env.OK, env.NextAction, env.Retry.NotBefore) {
			break
		}
		time.Sleep(max(time.Until(env.Retry.NotBefore), r.trial.tick()))
		env = r.approvedCall()
	}
	r.trial.judge(env.CommitState, env.OperationRef)
	return env
}

// worthCalling reports whether another call, in its time, may bring the operation
// further: a look-up that is to be made is made by a call.
func (r *running[In, Out]) worthCalling(ok bool, next toolexec.NextAction, notBefore time.Time) bool {
	switch {
	case ok:
		return false
	case next == toolexec.NextVerifyOperation:
		return r.trial.c.Tool.Verify != nil || !notBefore.IsZero()
	}
	return next == toolexec.NextWaitAndRetry
}

// judge compares what a caller was told with what the remote side says.
func (t *trial[In, Out]) judge(state toolexec.CommitState, ref string) {
	all := t.c.Total()
	if t.c.Tool.Effect == toolexec.ReadOnly {
		if all > 0 {
			t.breaks("declares ReadOnly but had %s", counted(all))
		}
		return
	}
	switch {
	case state == toolexec.NotCommitted && all > 0 && t.c.Tool.MarksSent:
		t.breaks("declares MarksSent but had an effect without MarkSent, so its caller was told not_committed")
	case state == toolexec.NotCommitted && all > 0:
		t.breaks("had an effect, and its caller was told not_committed")
	case state == toolexec.Committed && all == 0:
		t.breaks("had no effect, and its caller was told committed")
	case all > 1 && t.c.Tool.Effect == toolexec.Idempotent:
		t.breaks("declares Idempotent but had %s for one ref", counted(all))
	case all > 1:
		t.breaks("had %s for one operation", counted(all))
	}
	if own := t.c.Effects(ref); ref != "" && own != all {
		t.breaks("ignores OperationRef(ctx) in %d of its %s: what it sends must go by that ref, the same in every attempt", all-own, counted(all))
	}
}

func counted(n int) string {
	if n == 1 {
		return "1 effect"
	}
	return fmt.Sprint(n, " effects")
}

// resolvable reports whether the library can settle a lost answer by itself.
func (t *trial[In, Out]) resolvable() bool {
	v := t.c.Tool.Verify
	return t.c.Tool.Effect != toolexec.Write || v != nil && v.Authoritative
}

// mayRepeat reports whether the operation may be dispatched a second time.
func (t *trial[In, Out]) mayRepeat() bool { return t.c.Tool.Policy.MaxAttempts != 1 }
