package toolexec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// batchTrace notes which call runs when.
type batchTrace struct {
	mu    sync.Mutex
	since time.Time
	lines []string
}

func (b *batchTrace) note(what, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf("%s %s %v", what, id, time.Since(b.since)))
}

func (b *batchTrace) of(prefix string) (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lines {
		if strings.HasPrefix(l, prefix) {
			out = append(out, l)
		}
	}
	return out
}

func batchCall(name, ref string, id int) toolexec.Call {
	return toolexec.Call{Name: name, OperationRef: ref, Arguments: fmt.Appendf(nil, `{"order_id":"%d"}`, id)}
}

func batchRun(t testing.TB, x *toolexec.Executor, calls ...toolexec.Call) []toolexec.Envelope[json.RawMessage] {
	t.Helper()
	all := x.ExecuteAll(t.Context(), calls)
	require.Len(t, all, len(calls))
	for _, e := range all {
		checkEnvelope(t, e)
	}
	return all
}

func TestBatchRunsWritesInOrderAndReadsBesideThem(t *testing.T) {
	for _, cooperative := range []bool{false, true} {
		t.Run(fmt.Sprint(cooperative), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				trace := &batchTrace{since: time.Now()}
				for name, effect := range map[string]toolexec.Effect{"write": toolexec.Write, "put": toolexec.Idempotent, "read": toolexec.ReadOnly} {
					toolexec.Bind(&x, caseTool{Name: name, Effect: effect, Cooperative: cooperative, Run: func(_ context.Context, in caseOrder) (caseReceipt, error) {
						trace.note(name+" starts", in.OrderID)
						time.Sleep(time.Second)
						trace.note(name+" ends", in.OrderID)
						return caseReceipt{in.OrderID}, nil
					}})
				}
				all := batchRun(t, &x, batchCall("read", "", 0), batchCall("write", "", 1), batchCall("read", "", 2), batchCall("put", "", 3), batchCall("write", "", 4), batchCall("read", "", 5))
				for i, e := range all {
					assert.JSONEq(t, fmt.Sprintf(`{"receipt":"%d"}`, i), string(e.Result))
				}
				assert.Equal(t, 3*time.Second, time.Since(trace.since))
				assert.Equal(t, []string{"write starts 1 0s", "write ends 1 1s", "write starts 4 2s", "write ends 4 3s"}, trace.of("write"))
				assert.Equal(t, []string{"put starts 3 1s", "put ends 3 2s"}, trace.of("put"))
				assert.ElementsMatch(t, []string{"read starts 0 0s", "read starts 2 0s", "read starts 5 0s"}, trace.of("read starts"))
			})
		})
	}
}

func TestBatchOfNothing(t *testing.T) {
	var x toolexec.Executor
	assert.Empty(t, x.ExecuteAll(t.Context(), nil))
	all := batchRun(t, &x, toolexec.Call{}, toolexec.Call{Name: "no_such"})
	for _, e := range all {
		assert.Equal(t, toolexec.CodeUnknownTool, e.Code)
	}
}

func TestBatchClaimsRefsInCallOrder(t *testing.T) {
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			var x toolexec.Executor
			var ran []string
			toolexec.Bind(&x, caseTool{Name: "write", Run: func(_ context.Context, in caseOrder) (caseReceipt, error) {
				ran = append(ran, in.OrderID)
				return caseReceipt{in.OrderID}, nil
			}})
			all := batchRun(t, &x, batchCall("write", "a/1", 1), batchCall("write", "a/1", 2), batchCall("write", "a/1", 1), batchCall("write", "a/2", 2))
			assert.Equal(t, []toolexec.Code{toolexec.CodeOK, toolexec.CodeOperationRefReused, toolexec.CodeOK, toolexec.CodeOK},
				[]toolexec.Code{all[0].Code, all[1].Code, all[2].Code, all[3].Code}, "the first of a ref names the operation")
			assert.Equal(t, []bool{false, false, true, false}, []bool{all[0].Replayed, all[1].Replayed, all[2].Replayed, all[3].Replayed})
			assert.Equal(t, []string{"1", "2"}, ran)
		})
	}
}

func TestBatchWithDuplicates(t *testing.T) {
	for _, row := range []struct {
		name string
		ref  string
		err  error
		runs int
		code toolexec.Code
	}{
		{"one ref", "a/1", nil, 1, toolexec.CodeOK},
		{"one ref, lost", "a/1", io.EOF, 1, toolexec.CodeOutcomeUnknown},
		{"no ref: each is meant", "", nil, 3, toolexec.CodeOK},
		{"no ref, lost: the open one is continued", "", io.EOF, 1, toolexec.CodeOutcomeUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				runs := 0
				toolexec.Bind(&x, execTool("write", toolexec.Write, func(context.Context) error { runs++; return row.err }))
				all := batchRun(t, &x, batchCall("write", row.ref, 1), batchCall("write", row.ref, 1), batchCall("write", row.ref, 1))
				assert.Equal(t, row.runs, runs)
				for i, e := range all {
					assert.Equal(t, row.code, e.Code)
					assert.Equal(t, row.runs == 1 || i == 0, e.OperationRef == all[0].OperationRef)
					assert.Equal(t, row.runs == 1 && row.err == nil && i > 0, e.Replayed)
				}
			})
		})
	}
}

func TestBatchBoundsItsReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var now, most atomic.Int64
		toolexec.Bind(&x, execTool("read", toolexec.ReadOnly, func(context.Context) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		}))
		calls := make([]toolexec.Call, 100)
		for i := range calls {
			calls[i] = batchCall("read", "", i)
		}
		for _, e := range batchRun(t, &x, calls...) {
			assert.True(t, e.OK)
		}
		assert.EqualValues(t, max(8, 2*runtime.GOMAXPROCS(0)), most.Load())
	})
}

func TestNestedBatchesDoNotDeadlock(t *testing.T) {
	for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.ReadOnly} {
		for _, cooperative := range []bool{false, true} {
			t.Run(fmt.Sprint(effect, "/", cooperative), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var x toolexec.Executor
					var runs atomic.Int64
					toolexec.Bind(&x, caseTool{Name: "tree", Effect: effect, Cooperative: cooperative, Run: func(ctx context.Context, in caseOrder) (caseReceipt, error) {
						runs.Add(1)
						if in.Cents == 0 {
							return caseReceipt{"leaf"}, nil
						}
						calls := make([]toolexec.Call, 12)
						for i := range calls {
							calls[i] = toolexec.Call{Name: "tree", Arguments: fmt.Appendf(nil, `{"order_id":"%s/%d","cents":%d}`, in.OrderID, i, in.Cents-1)}
						}
						for _, e := range x.ExecuteAll(ctx, calls) {
							assert.True(t, e.OK, "%s", e.Code)
						}
						return caseReceipt{"node"}, nil
					}})
					e := caseExecute(t, &x, "tree", "", `{"order_id":"root","cents":2}`)
					assert.True(t, e.OK)
					assert.EqualValues(t, 1+12+144, runs.Load())
				})
			})
		}
	}
}

// A tool that calls itself with its own ref waits for itself: its time bounds that.
func TestBatchWithinItsOwnOperationIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		start := time.Now()
		var inner []toolexec.Envelope[json.RawMessage]
		toolexec.Bind(&x, caseTool{Name: "self", Run: func(ctx context.Context, in caseOrder) (caseReceipt, error) {
			sub, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			inner = x.ExecuteAll(sub, []toolexec.Call{batchCall("self", toolexec.OperationRef(ctx), 1), batchCall("self", "other", 2)})
			return caseReceipt{in.OrderID}, nil
		}})
		// The inner call of another ref runs the tool again, whose own inner call of "other" waits in turn.
		e := batchRun(t, &x, batchCall("self", "a/1", 1))[0]
		assert.True(t, e.OK)
		require.Len(t, inner, 2)
		checkEnvelope(t, inner[0])
		assert.Equal(t, toolexec.CodeOperationInProgress, inner[0].Code)
		assert.Equal(t, toolexec.CommitUnknown, inner[0].CommitState)
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestBatchKeepsSiblings(t *testing.T) {
	ends := map[string]func(context.Context, caseOrder){
		"panic":        func(context.Context, caseOrder) { panic("x") },
		"Goexit":       func(context.Context, caseOrder) { runtime.Goexit() },
		"hangs":        func(context.Context, caseOrder) { time.Sleep(time.Minute) },
		"Check panics": nil, "Check exits": nil, "Ref panics": nil, "Ref exits": nil,
	}
	for name, end := range ends {
		for _, effect := range []toolexec.Effect{toolexec.Write, toolexec.ReadOnly} {
			for _, cooperative := range []bool{false, true} {
				if name == "hangs" && cooperative || strings.HasPrefix(name, "Ref") && effect == toolexec.ReadOnly {
					continue
				}
				t.Run(fmt.Sprint(name, "/", effect, "/", cooperative), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						x := toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}}
						bad := caseTool{Name: "bad", Effect: effect, Cooperative: cooperative, Run: func(ctx context.Context, in caseOrder) (caseReceipt, error) {
							if end != nil {
								end(ctx, in)
							}
							return caseReceipt{}, nil
						}}
						boom := func() { panic("x") }
						if strings.HasSuffix(name, "exits") {
							boom = runtime.Goexit
						}
						switch name[:3] {
						case "Che":
							bad.Check = func(caseOrder) error { boom(); return nil }
						case "Ref":
							bad.Ref = func(caseOrder) string { boom(); return "" }
						}
						toolexec.Bind(&x, bad)
						for _, e := range []toolexec.Effect{toolexec.Write, toolexec.ReadOnly} {
							toolexec.Bind(&x, execTool("good_"+e.String(), e, func(context.Context) error { return nil }))
						}
						all := batchRun(t, &x, batchCall("good_write", "a/0", 0), batchCall("bad", "a/1", 1), batchCall("good_write", "a/2", 2),
							batchCall("good_read_only", "a/3", 3), batchCall("bad", "a/4", 4), batchCall("good_read_only", "a/5", 5))
						for i, e := range all {
							assert.Equal(t, i != 1 && i != 4, e.OK, "%d", i)
							if e.OK {
								assert.JSONEq(t, fmt.Sprintf(`{"receipt":"%d"}`, i), string(e.Result))
							}
						}
						caseClose(t, &x)
					})
				})
			}
		}
	}
}

func TestBatchCancelledHalfway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		var ran []string
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		toolexec.Bind(&x, caseTool{Name: "write", Run: func(ctx context.Context, in caseOrder) (caseReceipt, error) {
			ran = append(ran, in.OrderID)
			select {
			case <-ctx.Done():
				return caseReceipt{}, ctx.Err()
			case <-time.After(time.Second):
				return caseReceipt{in.OrderID}, nil
			}
		}})
		time.AfterFunc(1500*time.Millisecond, cancel)
		calls := []toolexec.Call{batchCall("write", "a/0", 0), batchCall("write", "a/1", 1), batchCall("write", "a/2", 2), batchCall("write", "", 3)}
		all := x.ExecuteAll(ctx, calls)
		assert.Equal(t, 1500*time.Millisecond, time.Since(start))
		assert.Equal(t, []string{"0", "1"}, ran, "nothing further starts")
		for i, want := range []struct {
			ok    bool
			code  toolexec.Code
			state toolexec.CommitState
		}{
			{true, toolexec.CodeOK, toolexec.Committed},
			{false, toolexec.CodeCancelled, toolexec.CommitUnknown},
			{false, toolexec.CodeCancelled, toolexec.NotCommitted},
			{false, toolexec.CodeCancelled, toolexec.NotCommitted}, // without a ref too
		} {
			checkEnvelope(t, all[i])
			assert.Equal(t, want.ok, all[i].OK, "%d", i)
			assert.Equal(t, want.code, all[i].Code, "%d", i)
			assert.Equal(t, want.state, all[i].CommitState, "%d", i)
		}
	})
}

func TestBatchNamesTheOperationOfACooperativeToolThatExits(t *testing.T) {
	for _, row := range []struct {
		name, ref string
		derive    bool
	}{{"given", "a/1", false}, {"minted", "", false}, {"derived", "", true}, {"derived, with an alias", "a/1", true}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				var ref string
				tool := caseTool{Name: "write", Cooperative: true, Run: func(ctx context.Context, _ caseOrder) (caseReceipt, error) {
					ref = toolexec.OperationRef(ctx)
					runtime.Goexit()
					return caseReceipt{}, nil
				}}
				if row.derive {
					tool.Ref = func(in caseOrder) string { return in.OrderID }
				}
				toolexec.Bind(&x, tool)
				e := batchRun(t, &x, batchCall("write", row.ref, 1))[0]
				assert.Equal(t, toolexec.CommitUnknown, e.CommitState)
				assert.Equal(t, toolexec.NextVerifyOperation, e.NextAction)
				// Minted and derived refs too are those of the operation, so that it can be looked up.
				assert.Equal(t, ref, e.OperationRef)
			})
		})
	}
}
