package toolexectest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

type contractOrder struct {
	ID    string   `json:"id"`
	Cents int      `json:"cents"`
	Notes []string `json:"notes,omitempty"`
	Payee string   `json:"-"`
}

type (
	contractTool = toolexec.Tool[contractOrder, string]
	contractCase = toolexectest.Case[contractOrder, string]
)

// contractRemote is a remote side and a correct tool that uses it.
type contractRemote struct {
	toolexectest.Ledger
}

var contractValid = []contractOrder{{ID: "ORD-1", Cents: 8000, Notes: []string{"b", "a"}}, {ID: "ORD-1", Cents: 9000}}

func contractCheck(in contractOrder) error {
	if in.Cents <= 0 {
		return toolexec.Invalid("cents", "It must be above 0.")
	}
	return nil
}

func (r *contractRemote) post(ctx context.Context, _ contractOrder) (string, error) {
	return r.Record(toolexec.OperationRef(ctx), "receipt").Value.(string), nil //nolint:forcetypeassert // just recorded
}

func (r *contractRemote) write() contractTool {
	return contractTool{Name: "post", Run: r.post, Check: contractCheck, IgnoreHidden: true}
}

func (r *contractRemote) verified() contractTool {
	t := r.write()
	t.Verify = &toolexec.Verifier[contractOrder, string]{Lookup: toolexectest.Lookup[contractOrder, string](&r.Ledger), Authoritative: true}
	return t
}

func (r *contractRemote) idempotent() contractTool {
	r.Dedupe = true
	t := r.write()
	t.Effect = toolexec.Idempotent
	return t
}

func (r *contractRemote) readOnly() contractTool {
	return contractTool{
		Name: "read", Effect: toolexec.ReadOnly, Check: contractCheck, IgnoreHidden: true,
		Run: func(context.Context, contractOrder) (string, error) { return "found", nil },
	}
}

func (r *contractRemote) marking() contractTool {
	t := r.verified()
	t.MarksSent = true
	t.Run = func(ctx context.Context, in contractOrder) (string, error) {
		if err := toolexec.MarkSent(ctx); err != nil {
			return "", err
		}
		return r.post(ctx, in)
	}
	return t
}

func (r *contractRemote) approved() contractTool {
	t := r.verified()
	t.Approval = &toolexec.Approval[contractOrder]{}
	return t
}

func (r *contractRemote) of(t contractTool) contractCase {
	return contractCase{Tool: t, Valid: contractValid, Invalid: []contractOrder{{ID: "ORD-2", Cents: -1}}, Effects: r.Effects, Total: r.Total}
}

// contractOf makes cases of a tool on a new remote side each time.
func contractOf(tool func(*contractRemote) contractTool) func() contractCase {
	return func() contractCase {
		var r contractRemote
		return r.of(tool(&r))
	}
}

func checkContract(t *testing.T, newCase func() contractCase) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { err = toolexectest.CheckContract(t.Context(), newCase) })
	return err
}

// Correct tools of every kind pass.
func TestContractOfCorrectTools(t *testing.T) {
	for name, tool := range map[string]func(*contractRemote) contractTool{
		"a write":                (*contractRemote).write,
		"a write with a look-up": (*contractRemote).verified,
		"an idempotent tool":     (*contractRemote).idempotent,
		"a read":                 (*contractRemote).readOnly,
		"one that marks":         (*contractRemote).marking,
		"one that is approved":   func(r *contractRemote) contractTool { t := r.approved(); t.IgnoreHidden = true; return t },
		"one with its own ref": func(r *contractRemote) contractTool {
			t := r.verified()
			t.Ref = func(in contractOrder) string { return in.ID }
			return t
		},
		"an unverifiable write": func(r *contractRemote) contractTool { t := r.write(); t.Unverifiable = true; return t },
		"a look-up that may lag": func(r *contractRemote) contractTool {
			r.Lag = 20 * time.Second
			return r.verified()
		},
		"one that is confirmed": func(r *contractRemote) contractTool {
			r.Settle = 3 * time.Second
			t := r.verified()
			t.Verify.Confirm = true
			return t
		},
		"a look-up that is not authoritative": func(r *contractRemote) contractTool {
			t := r.verified()
			t.Verify.Authoritative = false
			return t
		},
		"no retries": func(r *contractRemote) contractTool {
			t := r.verified()
			t.Policy = toolexec.Policy{MaxRetries: -1, MaxAttempts: 3, Deadline: -1}
			return t
		},
		"one attempt for life": func(r *contractRemote) contractTool { t := r.verified(); t.Policy.MaxAttempts = 1; return t },
		"cooperative":          func(r *contractRemote) contractTool { t := r.verified(); t.Cooperative = true; return t },
		"keeps no result":      func(r *contractRemote) contractTool { t := r.verified(); t.MaxResult = -1; return t },
		"keeps no arguments":   func(r *contractRemote) contractTool { t := r.idempotent(); t.DropArguments = true; return t },
		"a window": func(r *contractRemote) contractTool {
			t := r.idempotent()
			t.DedupeWindow, r.Window = time.Hour, 2*time.Hour
			return t
		},
		"no settle window": func(r *contractRemote) contractTool { t := r.verified(); t.Verify.Settle = -1; return t },
		"marks its commit": func(r *contractRemote) contractTool {
			t := r.write()
			t.Run = func(ctx context.Context, in contractOrder) (string, error) {
				out, _ := r.post(ctx, in)
				return out, toolexec.MarkCommitted(ctx, out)
			}
			return t
		},
		"its own transaction": func(r *contractRemote) contractTool {
			t := r.idempotent()
			t.OneRequest, t.Ref = true, func(in contractOrder) string { return in.ID }
			t.Verify = &toolexec.Verifier[contractOrder, string]{Lookup: toolexectest.Lookup[contractOrder, string](&r.Ledger)}
			return t
		},
		"slow": func(r *contractRemote) contractTool {
			t := r.verified()
			t.Run = func(ctx context.Context, in contractOrder) (string, error) {
				select {
				case <-time.After(time.Second):
					return r.post(ctx, in)
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
			return t
		},
	} {
		t.Run(name, func(t *testing.T) { assert.NoError(t, checkContract(t, contractOf(tool))) })
	}
}

// contractRequired says n times that a call needs approval, and then that it does
// not.
func contractRequired(n int64) func(contractOrder) bool {
	var asked atomic.Int64
	return func(contractOrder) bool { return asked.Add(1) <= n }
}

// Each tool here is wrong in one way, and the report names it.
func TestContractOfWrongTools(t *testing.T) {
	var made atomic.Int64
	for name, c := range map[string]struct {
		tool func(r *contractRemote) contractTool
		want string
	}{
		"declares ReadOnly and writes": {func(r *contractRemote) contractTool {
			t := r.readOnly()
			t.Run = r.post
			return t
		}, "a valid call succeeds: the tool declares ReadOnly but had 1 effect"},
		"declares Idempotent and doubles": {func(r *contractRemote) contractTool {
			t := r.idempotent()
			r.Dedupe = false
			return t
		}, "the request is delivered twice: the tool declares Idempotent but had 2 effects for one ref"},
		"forgets refs": {func(r *contractRemote) contractTool {
			t := r.idempotent()
			r.Window = 100 * time.Millisecond
			return t
		}, "the answer is lost after the effect: the tool declares Idempotent but had 2 effects for one ref"},
		"a look-up that finds what is not there": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Verify.Lookup = func(context.Context, string, contractOrder) (toolexec.Finding[string], error) {
				return toolexec.Found("receipt"), nil
			}
			return t
		}, "has a look-up that finds what is not there: an operation that was never called is found"},
		"a look-up that takes any effect for its own": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Verify.Lookup = func(context.Context, string, contractOrder) (toolexec.Finding[string], error) {
				if r.Total() > 0 {
					return toolexec.Found("receipt"), nil
				}
				return toolexec.Absent[string](), nil
			}
			return t
		}, "has a look-up that finds what is not there: another operation is found"},
		"an authoritative look-up of a copy": {func(r *contractRemote) contractTool {
			r.Lag = time.Hour
			return r.verified()
		}, "declares its Verify Authoritative, and it does not find an effect 30s after it: it reads a copy that lags"},
		"a look-up that says error for absence": {func(r *contractRemote) contractTool {
			t := r.verified()
			look := t.Verify.Lookup
			t.Verify.Lookup = func(ctx context.Context, ref string, in contractOrder) (toolexec.Finding[string], error) {
				if f, err := look(ctx, ref, in); f.Verdict == toolexec.FoundEffect {
					return f, err
				}
				return toolexec.Finding[string]{}, errors.New("no rows")
			}
			return t
		}, "cannot look up an operation that was never called: no rows; return Absent when there is nothing"},
		"a look-up with side effects": {func(r *contractRemote) contractTool {
			t := r.verified()
			look := t.Verify.Lookup
			t.Verify.Lookup = func(ctx context.Context, ref string, in contractOrder) (toolexec.Finding[string], error) {
				r.Record("audit", "looked")
				return look(ctx, ref, in)
			}
			return t
		}, "has a look-up with side effects: it had 1 effect"},
		"a look-up that panics": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Verify.Lookup = func(context.Context, string, contractOrder) (toolexec.Finding[string], error) { panic("nil map") }
			return t
		}, "cannot look up an operation that was never called: it panicked: nil map"},
		"a look-up with another result": {func(r *contractRemote) contractTool {
			t := r.verified()
			look := t.Verify.Lookup
			t.Verify.Lookup = func(ctx context.Context, ref string, in contractOrder) (toolexec.Finding[string], error) {
				f, err := look(ctx, ref, in)
				f.Result = strings.ToUpper(f.Result)
				return f, err
			}
			return t
		}, "has a look-up that finds another result than the tool gave"},
		"a look-up that conflicts with itself": {func(r *contractRemote) contractTool {
			t := r.verified()
			look := t.Verify.Lookup
			t.Verify.Lookup = func(ctx context.Context, ref string, in contractOrder) (toolexec.Finding[string], error) {
				f, err := look(ctx, ref, in)
				if f.Verdict == toolexec.FoundEffect {
					f = toolexec.Conflicting[string]()
				}
				return f, err
			}
			return t
		}, "has a look-up that takes the operation's own effect for another's"},
		"ignores the ref": {func(r *contractRemote) contractTool {
			t := r.write()
			t.Run = func(context.Context, contractOrder) (string, error) {
				r.Record("mine", "receipt")
				return "receipt", nil
			}
			return t
		}, "a valid call succeeds: the tool ignores OperationRef(ctx) in 1 of its 1 effect: what it sends must go by that ref"},
		"a ref of the attempt": {func(r *contractRemote) contractTool {
			t := r.idempotent()
			t.Run = func(ctx context.Context, _ contractOrder) (string, error) {
				ref := toolexec.OperationRef(ctx)
				if n := toolexec.Attempt(ctx); n > 1 {
					ref += fmt.Sprint("-", n)
				}
				r.Record(ref, "receipt")
				return "receipt", nil
			}
			return t
		}, "a call that was not sent is sent: the tool ignores OperationRef(ctx) in 1 of its 1 effect: what it sends must go by that ref, the same in every attempt"},
		"a Ref that is not pure": {func(r *contractRemote) contractTool {
			t, n := r.write(), 0
			t.Ref = func(contractOrder) string { n++; return fmt.Sprint(n) }
			return t
		}, "a valid call succeeds: the tool has a Ref that is no pure function: the same input has two refs"},
		"NotSent after sending": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Run = func(ctx context.Context, in contractOrder) (string, error) {
				if out, err := r.post(ctx, in); toolexec.Attempt(ctx) > 1 {
					return out, err
				}
				return "", toolexec.NotSent(errors.New("refused"))
			}
			return t
		}, "says NotSent when it has had an effect"},
		"Rejected after sending": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Run = func(ctx context.Context, in contractOrder) (string, error) {
				_, _ = r.post(ctx, in)
				return "", toolexec.Rejected(toolexec.CodeConflict, nil)
			}
			return t
		}, "says that it was rejected when it has had an effect"},
		"swallows its context": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Run = func(ctx context.Context, in contractOrder) (string, error) {
				time.Sleep(time.Second)
				return r.post(ctx, in)
			}
			return t
		}, "the caller gives up: the tool swallows its context: it ran on for 1s when its caller had given up"},
		"changes its input": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Run = func(ctx context.Context, in contractOrder) (string, error) {
				if len(in.Notes) > 0 {
					in.Notes[0] = "changed"
				}
				return r.post(ctx, in)
			}
			return t
		}, "a valid call succeeds: the tool changes its input"},
		"text instead of a typed error": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Check = nil
			t.Run = func(ctx context.Context, in contractOrder) (string, error) {
				if err := contractCheck(in); err != nil {
					return "", errors.New("cents must be above 0")
				}
				return r.post(ctx, in)
			}
			return t
		}, "answers invalid input 1 with TOOL_FAILED (unknown, verify_operation), which nobody can correct: return toolexec.Invalid, which names the field, instead of a text"},
		"panics on invalid input": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Check = nil
			t.Run = func(ctx context.Context, in contractOrder) (string, error) {
				if in.Cents < 0 {
					panic("negative")
				}
				return r.post(ctx, in)
			}
			return t
		}, "invalid input is refused, and not tried again: the tool panics on invalid input 1"},
		"accepts invalid input": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Check = nil
			return t
		}, "accepts invalid input 1"},
		"refuses when it is done": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Check = nil
			t.Run = func(ctx context.Context, in contractOrder) (string, error) {
				out, _ := r.post(ctx, in)
				return out, contractCheck(in)
			}
			return t
		}, "refuses invalid input 1 when it has had its effect"},
		"asks a person about invalid input": {func(r *contractRemote) contractTool {
			t := r.approved()
			t.Check = nil
			return t
		}, "asks a person to approve invalid input 1: judge it in Check"},
		"marks nothing": {func(r *contractRemote) contractTool {
			t := r.write()
			t.MarksSent = true
			return t
		}, "declares MarksSent but had an effect without MarkSent, so its caller was told not_committed"},
		"a plain error after the effect, declared a refusal": {func(r *contractRemote) contractTool {
			t := r.write()
			t.ErrorsMean = toolexec.EvidenceRejected
			t.Run = func(ctx context.Context, in contractOrder) (string, error) {
				_, _ = r.post(ctx, in)
				return "", errors.New("insufficient funds")
			}
			return t
		}, "had an effect, and its caller was told not_committed"},
		"a classifier that takes a timeout for a refusal": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Classifiers = []toolexec.Classifier{classifyBank, func(err error) (toolexec.Failure, bool) {
				return *toolexec.NotSent(nil), errors.Is(err, context.DeadlineExceeded)
			}}
			return t
		}, "its classifiers keep the laws: the tool has a classifier, number 2, that cannot be believed: broken law: it takes for a proof only what proves something"},
		"no bound": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Policy.MaxAttempts = -1
			return t
		}, "the remote side is down for long: the tool is tried for ever: its Policy.MaxAttempts is negative"},
		"an approval that is asked for once": {func(r *contractRemote) contractTool {
			t := r.approved()
			t.Approval.Required = contractRequired(1)
			return t
		}, "a call waits for its approval: the tool runs without its approval"},
		"an approval that is asked for twice": {func(r *contractRemote) contractTool {
			t := r.approved()
			t.Approval.Required = contractRequired(2)
			return t
		}, "a call waits for its approval: the tool runs with an approval that has expired: OK (committed, continue)"},
		"an approval that is not asked for": {func(r *contractRemote) contractTool {
			t := r.approved()
			first := made.Add(1) == 1
			t.Approval.Required = func(contractOrder) bool { return first }
			return t
		}, "a call waits for its approval: the tool is not held for approval: OK (committed, continue)"},
		"runs for ever": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Run = func(context.Context, contractOrder) (string, error) {
				time.Sleep(24 * time.Hour)
				return "", nil
			}
			return t
		}, "it runs on, long after its deadline: for "},
		"no effect": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.Run = func(context.Context, contractOrder) (string, error) { return "receipt", nil }
			return t
		}, "a valid call succeeds: the tool had no effect, and its caller was told committed"},
		"always two effects": {func(r *contractRemote) contractTool {
			t := r.write()
			t.Run = func(ctx context.Context, in contractOrder) (string, error) {
				_, _ = r.post(ctx, in)
				return r.post(ctx, in)
			}
			return t
		}, "a valid call succeeds: the tool had 2 effects for one operation"},
		"fails": {func(r *contractRemote) contractTool {
			t := r.write()
			t.Run = func(context.Context, contractOrder) (string, error) {
				return "", toolexec.Rejected(toolexec.CodeConflict, nil)
			}
			return t
		}, "a valid call succeeds: the tool answers a valid call with CONFLICT (not_committed, escalate)"},
		"its schema refuses its own arguments": {func(r *contractRemote) contractTool {
			t := r.verified()
			t.InputSchema = []byte(`{"type":"object","required":["order_id"]}`)
			return t
		}, "a call by name is the same call: the tool refuses its own arguments when it is called by name: [/order_id: required, expected order_id, received absent]"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkContract(t, contractOf(c.tool))
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// What JSON does not see is not approved, and does not tell operations apart.
func TestContractOfHiddenInput(t *testing.T) {
	newCase := func(tool func(*contractRemote) contractTool) func() contractCase {
		return func() contractCase {
			c := contractOf(tool)()
			c.Valid = []contractOrder{{ID: "ORD-1", Cents: 1, Payee: "a"}, {ID: "ORD-1", Cents: 1, Payee: "b"}}
			return c
		}
	}
	err := checkContract(t, newCase((*contractRemote).approved))
	assert.ErrorContains(t, err, "an approval is for one call alone: the tool runs one call with the approval of another: what JSON does not see of its input is not approved")
	assert.ErrorContains(t, err, "the same operation is called again: the tool takes two inputs that differ for one")
	err = checkContract(t, newCase(func(r *contractRemote) contractTool {
		tool := r.verified()
		tool.Ref = func(in contractOrder) string { return in.ID + in.Payee }
		return tool
	}))
	assert.ErrorContains(t, err, "a call by name is the same call: the tool takes the same call by name for another operation, and answers OK (committed, continue)")
}

// What cannot be tested is said, and can be waived by name.
func TestContractSaysWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*contractCase)
		want  string
	}{
		"effects":     {func(c *contractCase) { c.Effects = nil }, "a valid call succeeds: it cannot be tested: set Case.Effects to a function that counts effects by ref; or waive it"},
		"total":       {func(c *contractCase) { c.Total = nil }, "a valid call succeeds: it cannot be tested: set Case.Total to a function that counts all effects; or waive it"},
		"valid":       {func(c *contractCase) { c.Valid = nil }, "a valid call succeeds: it cannot be tested: set Case.Valid to arguments that succeed; or waive it"},
		"invalid":     {func(c *contractCase) { c.Invalid = nil }, "invalid input is refused, and not tried again: it cannot be tested: set Case.Invalid to arguments that the tool refuses; or waive it"},
		"waived":      {func(c *contractCase) { c.Invalid, c.Waive = nil, []string{"invalid input"} }, ""},
		"wrong waive": {func(c *contractCase) { c.Waive = []string{"invalid inputs"} }, `Case.Waive: there is no scenario "invalid inputs"`},
		"empty waive": {func(c *contractCase) { c.Waive = []string{""} }, `Case.Waive: there is no scenario ""`},
		"two calls":   {func(c *contractCase) { c.Valid = c.Valid[:1] }, "an approval is for one call alone: it cannot be tested: set Case.Valid to two calls that differ; or waive it"},
		"no approval": {func(c *contractCase) {
			c.Tool.Approval = &toolexec.Approval[contractOrder]{Required: func(contractOrder) bool { return false }}
		}, "a call waits for its approval: it cannot be tested: the first of Case.Valid needs no approval: give one that does; or waive it\n" +
			"an approval is for one call alone: it cannot be tested: the first of Case.Valid needs no approval: give one that does; or waive it"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkContract(t, func() contractCase {
				k := contractOf((*contractRemote).approved)()
				c.spoil(&k)
				return k
			})
			if c.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, c.want)
		})
	}
}

// The test form, in bubbles.
func TestContractRuns(t *testing.T) {
	toolexectest.RunContract(t, func(*testing.T) contractCase { return contractOf((*contractRemote).verified)() })
}

// The test form fails the subtest of each scenario that finds something, skips
// what means nothing, and goes no further when a valid call does not succeed. It
// runs in a process of its own, because it fails.
func TestContractRunsAndFails(t *testing.T) {
	const which = "TOOLEXECTEST_CONTRACT"
	wrong := map[string]func(*contractRemote) contractTool{
		"late":  func(r *contractRemote) contractTool { t := r.idempotent(); r.Dedupe = false; return t },
		"early": func(r *contractRemote) contractTool { t := r.readOnly(); t.Run = r.post; return t },
	}
	if tool := wrong[os.Getenv(which)]; tool != nil {
		toolexectest.RunContract(t, func(*testing.T) contractCase { return contractOf(tool)() })
		return
	}
	for name, want := range map[string][]string{
		"late": {
			"--- PASS: TestContractRunsAndFails/a_valid_call_succeeds", "--- FAIL: TestContractRunsAndFails/the_request_is_delivered_twice",
			"the tool declares Idempotent but had 2 effects for one ref", "nothing to test: the tool has no Verify", "--- FAIL: TestContractRunsAndFails/the_process_dies",
		},
		"early": {"--- FAIL: TestContractRunsAndFails/a_valid_call_succeeds", "the tool declares ReadOnly but had 1 effect", "the other scenarios were not run"},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestContractRunsAndFails$", "-test.v")
		cmd.Env = append(os.Environ(), which+"="+name)
		out, err := cmd.CombinedOutput()
		assert.Error(t, err, name)
		for _, line := range want {
			assert.Contains(t, string(out), line, name)
		}
		assert.Equal(t, name == "late", strings.Contains(string(out), "delivered_twice"), name)
	}
}

// And in real time: a tool whose remote side is behind a socket.
func TestContractInRealTime(t *testing.T) {
	toolexectest.RunContract(t, func(t *testing.T) contractCase {
		t.Helper()
		var r contractRemote
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			ref := req.Header.Get("Idempotency-Key")
			switch n := r.Effects(ref); {
			case req.Method == http.MethodPost:
				r.Record(ref, "receipt")
			case n == 0:
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		t.Cleanup(server.Close)
		send := func(ctx context.Context, method, ref string) (int, error) {
			req, err := http.NewRequestWithContext(ctx, method, server.URL, http.NoBody)
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", ref)
			res, err := server.Client().Do(req)
			if err != nil {
				return 0, err
			}
			return res.StatusCode, res.Body.Close()
		}
		tool := r.write()
		tool.Run = func(ctx context.Context, _ contractOrder) (string, error) {
			_, err := send(ctx, http.MethodPost, toolexec.OperationRef(ctx))
			return "receipt", err
		}
		tool.Verify = &toolexec.Verifier[contractOrder, string]{Authoritative: true, Settle: 50 * time.Millisecond}
		tool.Verify.Lookup = func(ctx context.Context, ref string, _ contractOrder) (toolexec.Finding[string], error) {
			switch status, err := send(ctx, http.MethodGet, ref); {
			case err != nil:
				return toolexec.Finding[string]{}, err
			case status == http.StatusNotFound:
				return toolexec.Absent[string](), nil
			}
			return toolexec.Found("receipt"), nil
		}
		c := r.of(tool)
		c.RealTime = true
		return c
	})
}

// The documentation names each scenario, in their order.
func TestContractDocumentsItsScenarios(t *testing.T) {
	source, err := os.ReadFile("contract.go")
	require.NoError(t, err)
	var want, got []string
	for _, m := range regexp.MustCompile(`(?m)^\t\t\{"([^"]+)", \w+\[In, Out\]`).FindAllSubmatch(source, -1) {
		want = append(want, string(m[1]))
	}
	doc, _, _ := strings.Cut(string(source), "func CheckContract")
	for _, m := range regexp.MustCompile(`(?m)^//\t(.+)$`).FindAllStringSubmatch(doc, -1) {
		got = append(got, m[1])
	}
	assert.Equal(t, want, got)
	assert.Len(t, got, 18)
}

// Every case starts with a remote side of its own.
func TestContractAsksForNewCases(t *testing.T) {
	var mu sync.Mutex
	made := map[*contractRemote]bool{}
	err := checkContract(t, func() contractCase {
		r := new(contractRemote)
		mu.Lock()
		defer mu.Unlock()
		made[r] = true
		c := r.of(r.verified())
		assert.Zero(t, r.Total())
		return c
	})
	require.NoError(t, err)
	assert.Greater(t, len(made), 15)
}
