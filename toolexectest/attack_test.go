package toolexectest_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// What an adversary asked of the checks: unusual tools that are right, and tools that are wrong in unusual ways.

func TestAttackContractOfHonestTools(t *testing.T) {
	for name, newCase := range map[string]func() contractCase{
		"looks up by its business key": func() contractCase {
			var r contractRemote
			tool := r.verified()
			tool.Ref = func(in contractOrder) string { return in.ID }
			tool.Run = func(ctx context.Context, in contractOrder) (string, error) {
				return r.Record("post:"+in.ID, "receipt").Value.(string), nil
			}
			tool.Verify.Lookup = func(ctx context.Context, _ string, in contractOrder) (toolexec.Finding[string], error) {
				return toolexectest.Lookup[contractOrder, string](&r.Ledger)(ctx, "post:"+in.ID, in)
			}
			return r.of(tool)
		},
		"slow look-ups that it allows for": func() contractCase {
			var r contractRemote
			tool := r.verified()
			tool.Verify.Deadline = 10 * time.Second
			tool.Policy.TotalDeadline = time.Minute
			look := tool.Verify.Lookup
			tool.Verify.Lookup = func(ctx context.Context, ref string, in contractOrder) (toolexec.Finding[string], error) {
				select {
				case <-time.After(5 * time.Second):
				case <-ctx.Done():
					return toolexec.Finding[string]{}, ctx.Err()
				}
				return look(ctx, ref, in)
			}
			return r.of(tool)
		},
		"a short dedupe window": func() contractCase {
			var r contractRemote
			tool := r.idempotent()
			r.Window = time.Minute
			tool.DedupeWindow = 10 * time.Second
			return r.of(tool)
		},
		"read that finds nothing": func() contractCase {
			var r contractRemote
			tool := r.readOnly()
			tool.EmptyIsResult = true
			tool.Run = func(context.Context, contractOrder) (string, error) { return "", nil }
			return r.of(tool)
		},
		"long pauses": func() contractCase {
			var r contractRemote
			tool := r.verified()
			tool.Policy = toolexec.Policy{Backoff: toolexec.Backoff{Initial: 10 * time.Hour, Max: 100 * time.Hour}, MaxPause: time.Millisecond}
			return r.of(tool)
		},
		"cooperative": func() contractCase {
			var r contractRemote
			tool := r.verified()
			tool.Cooperative = true
			return r.of(tool)
		},
		"cooperative, marks": func() contractCase {
			var r contractRemote
			tool := r.marking()
			tool.Cooperative = true
			return r.of(tool)
		},
		"sealed, approval, drops arguments": func() contractCase {
			var r contractRemote
			tool := r.approved()
			tool.DropArguments = true
			return r.of(tool)
		},
		"keeps no result": func() contractCase {
			var r contractRemote
			tool := r.verified()
			tool.MaxResult = -1
			return r.of(tool)
		},
		"keeps no result, no verify": func() contractCase {
			var r contractRemote
			tool := r.write()
			tool.MaxResult = -1
			return r.of(tool)
		},
		"two attempts in its life": func() contractCase {
			var r contractRemote
			tool := r.verified()
			tool.Policy.MaxAttempts = 2
			return r.of(tool)
		},
		"unverifiable": func() contractCase {
			var r contractRemote
			tool := r.write()
			tool.Unverifiable = true
			return r.of(tool)
		},
		"confirms, and the effect comes late": func() contractCase {
			var r contractRemote
			tool := r.verified()
			r.Settle = 5 * time.Second
			tool.Verify.Confirm = true
			return r.of(tool)
		},
		"marks committed": func() contractCase {
			var r contractRemote
			tool := r.verified()
			tool.Run = func(ctx context.Context, in contractOrder) (string, error) {
				out, err := r.post(ctx, in)
				if err == nil {
					err = toolexec.MarkCommitted(ctx, out)
				}
				return out, err
			}
			return r.of(tool)
		},
		"approval for a moment": func() contractCase {
			var r contractRemote
			tool := r.approved()
			tool.Approval.TTL = 100 * time.Millisecond
			return r.of(tool)
		},
		"one valid input, approval": func() contractCase {
			var r contractRemote
			c := r.of(r.approved())
			c.Valid = c.Valid[:1]
			c.Waive = []string{"an approval is for one call alone"}
			return c
		},
		"marks, and nobody can look it up": func() contractCase {
			var r contractRemote
			tool := r.marking()
			tool.Verify = nil
			return r.of(tool)
		},
	} {
		t.Run(name, func(t *testing.T) { assert.NoError(t, checkContract(t, newCase)) })
	}
}

func TestAttackContractOfWrongTools(t *testing.T) {
	wants := map[string]string{
		"the second of Valid fails":                          "a valid call succeeds: the tool answers a valid call with TOOL_PANIC",
		"ReadOnly with an effect for the second of Valid":    "a valid call succeeds: the tool declares ReadOnly but had 1 effect",
		"drops arguments, and looks up by them":              "declares its Verify Authoritative, and it does not find an effect",
		"an Open that does not undo Seal":                    "has an Open that does not give back what its Seal was given",
		"forgets a ref after an hour, and declares for ever": "the remote side remembers the ref as long as declared: the tool declares Idempotent but had 2 effects for one ref",
		"forgets a ref sooner than declared":                 "the remote side remembers the ref as long as declared: the tool declares Idempotent but had 2 effects for one ref",
		"goes on when MarkSent refuses":                      "the process dies: the tool had 2 effects for one operation",
		"fire and forget":                                    "a valid call succeeds: the tool had no effect, and its caller was told committed",
		"commits before it sends":                            "the caller gives up: the tool had no effect, and its caller was told committed",
		"cancelled, and says rejected":                       "the caller gives up: the tool says NotSent when it has had an effect",
		"a Ref by the clock":                                 "it ignores OperationRef(ctx) in 1 of its 2 effects",
	}
	for name, newCase := range map[string]func() contractCase{
		"the second of Valid fails": func() contractCase {
			var r contractRemote
			tool := r.verified()
			run := tool.Run
			tool.Run = func(ctx context.Context, in contractOrder) (string, error) {
				if in.Cents == 9000 {
					panic("no")
				}
				return run(ctx, in)
			}
			return r.of(tool)
		},
		"ReadOnly with an effect for the second of Valid": func() contractCase {
			var r contractRemote
			tool := r.readOnly()
			tool.Run = func(ctx context.Context, in contractOrder) (string, error) {
				if in.Cents == 9000 {
					r.Record("", "x")
				}
				return "x", nil
			}
			return r.of(tool)
		},
		"drops arguments, and looks up by them": func() contractCase {
			var r contractRemote
			tool := r.verified()
			tool.DropArguments = true
			look := tool.Verify.Lookup
			tool.Verify.Lookup = func(ctx context.Context, ref string, in contractOrder) (toolexec.Finding[string], error) {
				if in.ID == "" {
					return toolexec.Absent[string](), nil
				}
				return look(ctx, ref, in)
			}
			return r.of(tool)
		},
		"an Open that does not undo Seal": func() contractCase {
			var r contractRemote
			tool := r.idempotent()
			tool.Seal = func(b []byte) ([]byte, error) { return append([]byte("s"), b...), nil }
			tool.Open = func([]byte) ([]byte, error) { return []byte(`{"id":"ORD-666","cents":1}`), nil }
			return r.of(tool)
		},
		"forgets a ref after an hour, and declares for ever": func() contractCase {
			var r contractRemote
			tool := r.idempotent()
			r.Window = time.Hour
			return r.of(tool)
		},
		"forgets a ref sooner than declared": func() contractCase {
			var r contractRemote
			tool := r.idempotent()
			r.Window = 10 * time.Minute
			tool.DedupeWindow = 24 * time.Hour
			return r.of(tool)
		},
		"goes on when MarkSent refuses": func() contractCase {
			var r contractRemote
			tool := r.marking()
			tool.Run = func(ctx context.Context, in contractOrder) (string, error) {
				_ = toolexec.MarkSent(ctx)
				return r.post(ctx, in)
			}
			return r.of(tool)
		},
		"fire and forget": func() contractCase {
			var r contractRemote
			tool := r.write()
			tool.Run = func(ctx context.Context, in contractOrder) (string, error) {
				time.AfterFunc(time.Second, func() { _, _ = r.post(ctx, in) })
				return "receipt", nil
			}
			return r.of(tool)
		},
		"commits before it sends": func() contractCase {
			var r contractRemote
			tool := r.verified()
			tool.Run = func(ctx context.Context, in contractOrder) (string, error) {
				if err := toolexec.MarkCommitted(ctx, "receipt"); err != nil {
					return "", err
				}
				if ctx.Err() != nil {
					return "", ctx.Err()
				}
				return r.post(ctx, in)
			}
			return r.of(tool)
		},
		"cancelled, and says rejected": func() contractCase {
			var r contractRemote
			tool := r.verified()
			run := tool.Run
			tool.Run = func(ctx context.Context, in contractOrder) (string, error) {
				out, _ := run(ctx, in)
				if ctx.Err() != nil {
					return "", fmt.Errorf("gave up: %w", toolexec.NotSent(ctx.Err()))
				}
				return out, nil
			}
			return r.of(tool)
		},
		"a Ref by the clock": func() contractCase {
			var r contractRemote
			tool := r.write()
			tool.Ref = func(in contractOrder) string { return fmt.Sprint(in.ID, time.Now().UnixMilli()) }
			return r.of(tool)
		},
	} {
		t.Run(name, func(t *testing.T) { assert.ErrorContains(t, checkContract(t, newCase), wants[name]) })
	}
	t.Run("a result that reads other than it writes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			err := toolexectest.CheckContract(t.Context(), func() toolexectest.Case[contractOrder, attackMoney] {
				var r contractRemote
				return toolexectest.Case[contractOrder, attackMoney]{
					Tool: toolexec.Tool[contractOrder, attackMoney]{
						Name: "post", IgnoreHidden: true,
						Run: func(ctx context.Context, _ contractOrder) (attackMoney, error) {
							r.Record(toolexec.OperationRef(ctx), "x")
							return attackMoney{7}, nil
						},
					},
					Valid: contractValid, Effects: r.Effects, Total: r.Total, Waive: []string{"invalid"},
				}
			})
			assert.ErrorContains(t, err, "has a result that does not come back from JSON as it was")
		})
	})
}

type attackMoney struct{ cents int }

func (m attackMoney) MarshalJSON() ([]byte, error) { return []byte(strconv.Itoa(m.cents)), nil }

func (m *attackMoney) UnmarshalJSON(b []byte) error {
	n, err := strconv.Atoi(string(b))
	m.cents = n * 100 // reads dollars where it writes cents
	return err
}

func TestAttackContractWantsAnApprovalForBoth(t *testing.T) {
	err := checkContract(t, func() contractCase {
		var r contractRemote
		tool := r.approved()
		tool.Approval.Required = func(in contractOrder) bool { return in.Cents > 5000 }
		c := r.of(tool)
		c.Valid = []contractOrder{{ID: "ORD-1", Cents: 8000}, {ID: "ORD-1", Cents: 100}}
		return c
	})
	assert.ErrorContains(t, err, "the second of Case.Valid needs no approval: give one that does")
}

func TestAttackClassifiersThatLie(t *testing.T) {
	says := func(evidence toolexec.Evidence, of func(error) bool) toolexec.Classifier {
		return func(err error) (toolexec.Failure, bool) {
			return toolexec.Failure{Code: toolexec.CodeDependencyUnavailable, Evidence: evidence}, of(err)
		}
	}
	for name, c := range map[string]toolexec.Classifier{
		"*url.Error is not sent":        says(toolexec.EvidenceNotSent, func(err error) bool { _, ok := err.(*url.Error); return ok }), //nolint:errorlint // this very one
		"driver.ErrBadConn is not sent": says(toolexec.EvidenceNotSent, func(err error) bool { return err == driver.ErrBadConn }),      //nolint:errorlint // this very one
		"a join is rejected": says(toolexec.EvidenceRejected, func(err error) bool {
			_, ok := err.(interface{ Unwrap() []error })
			return ok
		}),
		"a wrapped EOF is rejected": says(toolexec.EvidenceRejected, func(err error) bool {
			return err != io.EOF && errors.Is(err, io.EOF) //nolint:errorlint // but for the bare one
		}),
	} {
		t.Run(name, func(t *testing.T) { assert.Error(t, toolexectest.CheckClassifier(c)) })
	}
	none := func(error) (toolexec.Failure, bool) { return toolexec.Failure{}, false }
	assert.NoError(t, toolexectest.CheckClassifier(none, io.EOF, nil), "a nil among the errors")
}

func TestAttackEnvelopesThatContradict(t *testing.T) {
	failed := toolexec.Envelope[string]{
		Code: toolexec.CodeConflict, Category: toolexec.CategoryConflict, CommitState: toolexec.NotCommitted,
		OperationRef: "a/b", AgentMessage: "x", UserMessage: "y",
	}
	assert.NoError(t, toolexectest.CheckEnvelope(failed))
	lookedUp, unknown := failed, failed
	lookedUp.NextAction = toolexec.NextVerifyOperation
	assert.ErrorContains(t, toolexectest.CheckEnvelope(lookedUp), "what was not done is not looked up")
	lookedUp.Code = toolexec.CodeOperationRefReused // of the other operation
	assert.NoError(t, toolexectest.CheckEnvelope(lookedUp))
	unknown.Code = toolexec.CodeOutcomeUnknown
	assert.ErrorContains(t, toolexectest.CheckEnvelope(unknown), "its outcome is not unknown")
}

// A fault that other people would see has not struck while its attempt had given up before.
func TestAttackFaultsThatStruckNobody(t *testing.T) {
	for name, f := range map[string]toolexectest.Fault{
		"an answer that panics":   {Answer: toolexectest.Leg{Delay: time.Minute, Panic: "x"}},
		"an answer that exits":    {Answer: toolexectest.Leg{Delay: time.Minute, Goexit: true}},
		"a late request's answer": {Request: toolexectest.Leg{Delay: time.Minute}, Answer: toolexectest.Leg{Panic: "x"}},
		"a process that goes on":  {Answer: toolexectest.Leg{Delay: time.Minute, Crash: new(toolexectest.Process)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plan := toolexectest.Script(f)
				run := toolexectest.Wrap(plan, func(context.Context, int) (string, error) { return "", nil })
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := run(ctx, 1)
				assert.Error(t, err)
				plan.Wait()
				assert.Len(t, plan.Unfired(), 1)
			})
		})
	}
}
