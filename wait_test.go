package toolexec_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// waitSlack is how much later than due a step may be taken: clocks are read in between.
const waitSlack = time.Millisecond

// wait waits for the operation of key, and says what came of it and when.
func (w *recoverWorld) wait(ctx context.Context, key toolexec.Key) string {
	w.t.Helper()
	env, err := w.s.Wait(ctx, key)
	checkEnvelope(w.t, env)
	s := fmt.Sprint(env.Code, " ", env.CommitState, " ", env.NextAction)
	if env.HasResult {
		s += " " + string(env.Result)
	}
	if !env.Retry.NotBefore.IsZero() {
		s += " not before " + env.Retry.NotBefore.Sub(w.starts.since).String()
	}
	if err != nil {
		s += ", " + err.Error()
	}
	return s + " @" + time.Since(w.starts.since).String()
}

// waits is wait until an hour has passed.
func (w *recoverWorld) waits(key toolexec.Key) string {
	w.t.Helper()
	ctx, cancel := context.WithDeadline(w.t.Context(), w.starts.since.Add(time.Hour))
	defer cancel()
	return w.wait(ctx, key)
}

const waitDone = `OK committed continue {"receipt":"rcpt_r1"} @`

// TestWaitKeepsTheTimesOfTheRecord: a restart neither shortens a wait nor gives back an attempt.
func TestWaitKeepsTheTimesOfTheRecord(t *testing.T) {
	limited := toolexec.NotSent(errors.New("busy"))
	limited.RetryAfter = time.Minute
	recoverRun(t, "not_before", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, limited)), "r1")
		time.Sleep(20 * time.Second)
		w.restart()
		toolexec.Bind(w.x, w.failing(toolexec.Write))
		assert.Equal(w.t, waitDone+"1m0.001s", w.waits(key))
		assert.Equal(w.t, []time.Duration{0, time.Minute + waitSlack}, w.starts.at())
		assert.Equal(w.t, 2, w.get(key).Attempts)
	})
	recoverRun(t, "one that waits is stopped, and another one goes on", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, limited)), "r1")
		ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
		defer cancel()
		assert.Equal(w.t, "DEPENDENCY_UNAVAILABLE not_committed wait_and_retry not before 1m0s, context deadline exceeded @30s", w.wait(ctx, key))
		w.restart()
		toolexec.Bind(w.x, w.failing(toolexec.Write))
		assert.Equal(w.t, waitDone+"1m0.001s", w.waits(key))
	})
	recoverRun(t, "the budget", func(w *recoverWorld) {
		spec := func() caseTool {
			tool := w.failing(toolexec.Write, errRecoverUnsent, errRecoverUnsent, errRecoverUnsent, errRecoverUnsent)
			tool.Policy.MaxAttempts = 3
			return tool
		}
		key := w.put(toolexec.Bind(w.x, spec()), "r1")
		ctx, cancel := context.WithTimeout(w.t.Context(), 600*time.Millisecond) // in which it runs once more
		defer cancel()
		w.wait(ctx, key)
		w.restart()
		toolexec.Bind(w.x, spec())
		assert.Equal(w.t, "DEPENDENCY_UNAVAILABLE not_committed escalate @1.002s", w.waits(key))
		assert.Len(w.t, w.starts.at(), 3)
		assert.Equal(w.t, toolexec.StateEscalated, w.get(key).State)
	})
	recoverRun(t, "the checks", func(w *recoverWorld) {
		spec := func() caseTool {
			tool := w.failing(toolexec.Write, toolexec.InDoubt(nil))
			tool.Verify = w.verifier(recoverDown)
			tool.Verify.MaxChecks = 4
			return tool
		}
		key := w.put(toolexec.Bind(w.x, spec()), "r1")
		ctx, cancel := context.WithTimeout(w.t.Context(), 600*time.Millisecond) // in which it looks once more
		defer cancel()
		assert.Equal(w.t, "OUTCOME_UNKNOWN unknown verify_operation not before 1.501s, context deadline exceeded @600ms", w.wait(ctx, key))
		w.restart()
		toolexec.Bind(w.x, spec())
		assert.Equal(w.t, "VERIFICATION_UNAVAILABLE unknown escalate @3.503s", w.waits(key))
		assert.Equal(w.t, []time.Duration{0, 501 * time.Millisecond, 1502 * time.Millisecond, 3503 * time.Millisecond}, w.looks.at())
	})
}

// waitRow is an operation that one call could not bring to an end.
type waitRow struct {
	name   string
	effect toolexec.Effect
	fails  []error
	look   func(w *recoverWorld) func(string) (toolexec.Finding[caseReceipt], error)
	tool   func(t *caseTool)
	rerun  func(toolexec.Record) bool
	then   func(w *recoverWorld, key toolexec.Key) // when it waits
	want   string
	starts []time.Duration
	looks  []time.Duration
}

func waitLook(look func(string) (toolexec.Finding[caseReceipt], error)) func(*recoverWorld) func(string) (toolexec.Finding[caseReceipt], error) {
	return func(*recoverWorld) func(string) (toolexec.Finding[caseReceipt], error) { return look }
}

// waitAppears is an effect that a look-up shows d after the call.
func waitAppears(d time.Duration) func(*recoverWorld) func(string) (toolexec.Finding[caseReceipt], error) {
	return func(w *recoverWorld) func(string) (toolexec.Finding[caseReceipt], error) {
		return func(ref string) (toolexec.Finding[caseReceipt], error) {
			if time.Since(w.starts.since) < d {
				return recoverAbsent(ref)
			}
			return recoverFound(ref)
		}
	}
}

func waitApproval(t *caseTool) { t.Approval = &toolexec.Approval[caseOrder]{TTL: time.Minute} }

const waitSettled = toolexec.DefaultSettle + waitSlack

var (
	waitDoubt  = []error{toolexec.InDoubt(nil)}
	waitUnsent = []error{errRecoverUnsent}
	waitNo     = func(toolexec.Record) bool { return false }
)

var waitTable = []waitRow{
	{name: "it is committed already", want: waitDone + "0s", starts: []time.Duration{0}},
	{
		name: "released: runs again when its time has come", fails: waitUnsent,
		want: waitDone + "501ms", starts: []time.Duration{0, 501 * time.Millisecond},
	},
	{
		name: "released: the host says no", fails: waitUnsent, rerun: waitNo,
		want: "DEPENDENCY_UNAVAILABLE not_committed wait_and_retry not before 500ms @0s", starts: []time.Duration{0},
	},
	{
		name: "released: the host says yes", fails: waitUnsent, rerun: func(r toolexec.Record) bool { return r.Ref == "r1" },
		want: waitDone + "501ms", starts: []time.Duration{0, 501 * time.Millisecond},
	},
	{
		name: "released for a reason that will not pass by itself", fails: []error{toolexec.Rejected(toolexec.CodeConflict, nil)},
		want: "CONFLICT not_committed escalate @0s", starts: []time.Duration{0},
	},
	{
		name: "rejected", fails: []error{toolexec.Invalid("order_id", "")},
		want: "INVALID_ARGUMENTS not_committed correct_input @0s", starts: []time.Duration{0},
	},
	{
		name: "unknown: looked up until the window has closed, then run again", fails: waitDoubt, look: waitLook(recoverAbsent),
		want: waitDone + "30.001s", starts: []time.Duration{0, waitSettled}, looks: []time.Duration{0, waitSettled},
	},
	{
		name: "unknown: and the host says no", fails: waitDoubt, look: waitLook(recoverAbsent), rerun: waitNo,
		want: "DEPENDENCY_UNAVAILABLE not_committed wait_and_retry @30.001s", starts: []time.Duration{0}, looks: []time.Duration{0, waitSettled},
	},
	{
		name: "unknown: it appears late", fails: waitDoubt, look: waitAppears(20 * time.Second),
		want: waitDone + "30.001s", starts: []time.Duration{0}, looks: []time.Duration{0, waitSettled},
	},
	{
		name: "unknown: conflicting", fails: waitDoubt, look: waitAppearsAs(recoverConflict),
		want: "VERIFICATION_CONFLICT unknown escalate @30.001s", starts: []time.Duration{0}, looks: []time.Duration{0, waitSettled},
	},
	{
		name: "unknown: nobody can look it up", fails: waitDoubt,
		want: "VERIFICATION_UNAVAILABLE unknown escalate @30.001s", starts: []time.Duration{0},
	},
	{
		name: "unknown: a person decides", fails: waitDoubt, look: waitLook(recoverAbsent),
		then: func(w *recoverWorld, key toolexec.Key) {
			time.Sleep(10 * time.Second)
			_, err := w.s.Resolve(w.t.Context(), key, toolexec.Committed, supervisorAnn)
			assert.NoError(w.t, err)
		},
		want: "OK committed continue @10", starts: []time.Duration{0}, looks: []time.Duration{0},
	},
	{
		name: "idempotent, in doubt: sent again", effect: toolexec.Idempotent, fails: waitDoubt,
		want: waitDone + "501ms", starts: []time.Duration{0, 501 * time.Millisecond},
	},
	{
		name: "idempotent, in doubt: the dedupe window closes meanwhile, and verification takes over", effect: toolexec.Idempotent,
		fails: waitDoubt, look: waitLook(recoverAbsent), tool: func(t *caseTool) { t.DedupeWindow = 10 * time.Second },
		want: "DEPENDENCY_UNAVAILABLE not_committed wait_and_retry @30.001s", rerun: waitNo, starts: []time.Duration{0}, looks: []time.Duration{0, waitSettled},
	},
	{
		name: "idempotent, in doubt: the dedupe window closes during the pause", effect: toolexec.Idempotent,
		fails: waitDoubt, tool: func(t *caseTool) { t.DedupeWindow = 500 * time.Millisecond },
		want: "VERIFICATION_UNAVAILABLE unknown escalate @30.001s", starts: []time.Duration{0},
	},
	{
		name: "approval: approved", tool: waitApproval,
		then: func(w *recoverWorld, key toolexec.Key) {
			time.Sleep(30 * time.Second)
			_, err := approveHeld(w.s, w.t.Context(), key, supervisorAnn, time.Minute)
			assert.NoError(w.t, err)
		},
		want: waitDone + "30", starts: []time.Duration{30 * time.Second},
	},
	{
		name: "approval: denied", tool: waitApproval,
		then: func(w *recoverWorld, key toolexec.Key) {
			time.Sleep(30 * time.Second)
			_, err := w.s.Deny(w.t.Context(), key, supervisorAnn)
			assert.NoError(w.t, err)
		},
		want: "APPROVAL_DENIED not_committed escalate @30",
	},
	{
		name: "approval: nobody decides in time", tool: waitApproval,
		then: func(w *recoverWorld, key toolexec.Key) {
			time.Sleep(time.Minute)
			_, err := approveHeld(w.s, w.t.Context(), key, supervisorAnn, time.Minute)
			assert.ErrorIs(w.t, err, toolexec.ErrRefused)
		},
		want: "APPROVAL_EXPIRED not_committed request_approval @1h0m0s",
	},
}

func waitAppearsAs(look func(string) (toolexec.Finding[caseReceipt], error)) func(*recoverWorld) func(string) (toolexec.Finding[caseReceipt], error) {
	return func(w *recoverWorld) func(string) (toolexec.Finding[caseReceipt], error) {
		return func(ref string) (toolexec.Finding[caseReceipt], error) {
			if time.Since(w.starts.since) < time.Second {
				return recoverAbsent(ref)
			}
			return look(ref)
		}
	}
}

// TestWait takes each operation as far as it goes. Where a decision of another goes before, polling adds up to 250 ms.
func TestWait(t *testing.T) {
	for _, row := range waitTable {
		recoverRun(t, row.name, func(w *recoverWorld) {
			tool := w.failing(row.effect, row.fails...)
			if row.look != nil {
				tool.Verify = w.verifier(row.look(w))
			}
			if row.tool != nil {
				row.tool(&tool)
			}
			w.s.Rerun = row.rerun
			key := w.put(toolexec.Bind(w.x, tool), "r1")
			var wg sync.WaitGroup
			if row.then != nil {
				wg.Go(func() { row.then(w, key) })
			}
			got := w.waits(key)
			wg.Wait()
			if row.then != nil {
				assert.Contains(w.t, got, row.want)
				require.Len(w.t, w.starts.at(), len(row.starts))
				for i, at := range w.starts.at() {
					assert.InDelta(w.t, row.starts[i].Seconds(), at.Seconds(), 0.251)
				}
			} else {
				assert.Equal(w.t, row.want, got)
				assert.Equal(w.t, row.starts, w.starts.at(), "the tool")
			}
			assert.Equal(w.t, row.looks, w.looks.at(), "the verifier")
			assert.Empty(w.t, w.failures())
		})
	}
}

// TestWaitOutlastsOwners: of this process, of another one that lives, and of one that died.
func TestWaitOutlastsOwners(t *testing.T) {
	recoverRun(t, "it died", func(w *recoverWorld) {
		tool := w.tool(toolexec.Write)
		tool.Verify = w.verifier(recoverFound)
		toolexec.Bind(w.x, tool)
		key := w.crash(tool, "r1", observeOK)
		assert.Equal(w.t, waitDone+"15.001s", w.waits(key))
		assert.Equal(w.t, []time.Duration{recoverLease + waitSlack}, w.looks.at())
	})
	recoverRun(t, "it died before it sent anything", func(w *recoverWorld) {
		tool := w.tool(toolexec.Write)
		tool.MarksSent = true
		tool.Run = func(ctx context.Context, _ caseOrder) (caseReceipt, error) {
			w.starts.note()
			return caseReceipt{"rcpt_r1"}, toolexec.MarkSent(ctx)
		}
		toolexec.Bind(w.x, tool)
		key := w.crash(tool, "r1", observeOK)
		assert.Equal(w.t, waitDone+"15.001s", w.waits(key))
		assert.Equal(w.t, []time.Duration{recoverLease + waitSlack}, w.starts.at())
	})
	for name, leased := range map[string]bool{"another process": true, "this process": false} {
		recoverRun(t, name+" runs it for three minutes, without a total deadline", func(w *recoverWorld) {
			owner := w.x
			if leased {
				owner = &toolexec.Executor{Store: &caseDurable{Store: w.disk}}
			}
			tool := w.tool(toolexec.Write)
			inner := tool.Run
			tool.Policy = toolexec.Policy{Deadline: -1, TotalDeadline: -1}
			tool.Run = func(ctx context.Context, in caseOrder) (caseReceipt, error) {
				select {
				case <-time.After(3 * time.Minute):
				case <-ctx.Done():
					return caseReceipt{}, context.Cause(ctx)
				}
				return inner(ctx, in)
			}
			tool.Verify = w.verifier(recoverAbsent)
			b := toolexec.Bind(owner, tool)
			if leased {
				toolexec.Bind(w.x, tool)
			}
			var wg sync.WaitGroup
			wg.Go(func() { w.put(b, "r1") })
			synctest.Wait()
			ctx, cancel := context.WithTimeout(w.t.Context(), 4*time.Minute)
			defer cancel()
			wg.Go(func() { assert.NoError(w.t, w.s.Run(ctx)) })
			assert.Contains(w.t, w.waits(toolexec.Key{Ref: "r1"}), waitDone+"3m0")
			wg.Wait()
			assert.Empty(w.t, w.looks.at(), "its heartbeat keeps it")
			assert.Equal(w.t, 1, w.ledger.count("r1"))
			assert.Empty(w.t, w.settled())
			if leased {
				caseClose(w.t, owner)
			}
		})
	}
	recoverRun(t, "an attempt that was abandoned ends well", func(w *recoverWorld) {
		tool := execTool("refund", toolexec.Write, observeDeaf) // 10 s
		tool.Verify = w.verifier(recoverAbsent)
		b := toolexec.Bind(w.x, tool)
		key := w.put(b, "r1")
		assert.Contains(w.t, w.waits(key), `OK committed continue {"receipt":"ORD-5510"} @10`)
	})
}

// TestWaitEndsWithItsContext: it tells what is known, and what it has begun it finishes.
func TestWaitEndsWithItsContext(t *testing.T) {
	recoverRun(t, "before it begins", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write, errRecoverUnsent)), "r1")
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		time.Sleep(time.Second)
		assert.Equal(w.t, "DEPENDENCY_UNAVAILABLE not_committed wait_and_retry, context canceled @1s", w.wait(ctx, key))
		assert.Len(w.t, w.starts.at(), 1)
	})
	recoverRun(t, "it is over all the same", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, w.failing(toolexec.Write)), "r1")
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		assert.Equal(w.t, waitDone+"0s", w.wait(ctx, key), "no error")
	})
	recoverRun(t, "while it runs it again", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, slowly(w.failing(toolexec.Write, errRecoverUnsent))), "r1")
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		assert.Equal(w.t, waitDone+"2.501s", w.wait(ctx, key))
	})
	recoverRun(t, "while it looks it up", func(w *recoverWorld) {
		tool := w.failing(toolexec.Write, toolexec.InDoubt(nil))
		tool.Verify = w.verifier(func(ref string) (toolexec.Finding[caseReceipt], error) {
			if len(w.looks.at()) == 1 {
				return recoverDown(ref)
			}
			time.Sleep(time.Second)
			return recoverFound(ref)
		})
		key := w.put(toolexec.Bind(w.x, tool), "r1")
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		assert.Equal(w.t, waitDone+"1.501s", w.wait(ctx, key))
	})
	recoverRun(t, "in flight elsewhere", func(w *recoverWorld) {
		tool := w.tool(toolexec.Write)
		toolexec.Bind(w.x, tool)
		key := w.crash(tool, "r1", observeOK)
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		assert.Equal(w.t, "OPERATION_IN_PROGRESS unknown wait_and_retry, context deadline exceeded @1s", w.wait(ctx, key))
	})
}

// TestWaitWithoutArguments: what cannot be run again is handed back.
func TestWaitWithoutArguments(t *testing.T) {
	drop := func(tool caseTool) caseTool { tool.DropArguments = true; return tool }
	recoverRun(t, "released", func(w *recoverWorld) {
		key := w.put(toolexec.Bind(w.x, drop(w.failing(toolexec.Write, errRecoverUnsent))), "r1")
		assert.Equal(w.t, "DEPENDENCY_UNAVAILABLE not_committed wait_and_retry not before 500ms @0s", w.waits(key))
	})
	recoverRun(t, "awaiting approval", func(w *recoverWorld) {
		tool := drop(w.failing(toolexec.Write))
		waitApproval(&tool)
		assert.Equal(w.t, "MISSING_APPROVAL not_committed request_approval @0s", w.waits(w.put(toolexec.Bind(w.x, tool), "r1")))
	})
	recoverRun(t, "unknown, and absent", func(w *recoverWorld) {
		tool := drop(w.failing(toolexec.Write, toolexec.InDoubt(nil)))
		tool.Verify = w.verifier(recoverAbsent)
		assert.Equal(w.t, "DEPENDENCY_UNAVAILABLE not_committed wait_and_retry @30.001s", w.waits(w.put(toolexec.Bind(w.x, tool), "r1")))
		assert.Len(w.t, w.starts.at(), 1)
	})
	recoverRun(t, "unknown, and found", func(w *recoverWorld) {
		tool := drop(w.failing(toolexec.Write, toolexec.InDoubt(nil)))
		tool.Verify = w.verifier(waitAppears(time.Second)(w))
		assert.Equal(w.t, waitDone+"30.001s", w.waits(w.put(toolexec.Bind(w.x, tool), "r1")))
	})
}
