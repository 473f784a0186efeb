package toolexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// recoverStore is the store of one process. Once the process is dead nothing of it reaches the records.
type recoverStore struct {
	toolexec.Store

	mu      sync.Mutex // protects what follows
	dead    bool
	listing func() error
	loading func(key toolexec.Key) error
	saving  func(r toolexec.Record) error
	listed  func(page []toolexec.Record) // after a List
	loaded  func()                       // after a Load
}

var errRecoverDead = errors.New("the process is dead")

func (s *recoverStore) do(f func() error) error {
	s.mu.Lock()
	dead := s.dead
	s.mu.Unlock()
	switch {
	case dead:
		return errRecoverDead
	case f == nil:
		return nil
	}
	return f()
}

func (s *recoverStore) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

func (s *recoverStore) Load(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
	if err := s.do(func() error {
		if s.loading == nil {
			return nil
		}
		return s.loading(key)
	}); err != nil {
		return toolexec.Record{}, err
	}
	r, err := s.Store.Load(ctx, key)
	if s.loaded != nil {
		s.loaded()
	}
	return r, err
}

func (s *recoverStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	if err := s.do(func() error {
		if s.saving == nil {
			return nil
		}
		return s.saving(r)
	}); err != nil {
		return toolexec.Record{}, err
	}
	return s.Store.Save(ctx, r)
}

func (s *recoverStore) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	if err := s.do(s.listing); err != nil {
		return nil, toolexec.Cursor{}, err
	}
	page, next, err := s.Store.List(ctx, q)
	if s.listed != nil {
		s.listed(page)
	}
	return page, next, err
}

// recoverLease is how long an owner holds an operation that nobody renews.
const recoverLease = toolexec.DefaultTotalDeadline + 5*time.Second

// recoverWorld is a disk that outlives processes, the remote side, and one process with a supervisor.
type recoverWorld struct {
	t      *testing.T
	disk   *toolexec.MemoryStore
	store  *recoverStore
	x      *toolexec.Executor
	s      *toolexec.Supervisor
	ledger *caseLedger
	starts *execStarts // of the tool
	looks  *execStarts // of its verifier

	mu    sync.Mutex // protects what follows
	told  []toolexec.Settled
	noted []toolexec.Event
}

// recoverRun makes a world in a bubble.
func recoverRun(t *testing.T, name string, f func(w *recoverWorld)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newRecoverWorld(t)
			f(w)
			caseClose(t, w.x)
		})
	})
}

func newRecoverWorld(t *testing.T) *recoverWorld {
	w := &recoverWorld{t: t, disk: new(toolexec.MemoryStore), ledger: new(caseLedger), starts: execStart(), looks: execStart()}
	w.restart()
	return w
}

// restart is a new process on the same disk.
func (w *recoverWorld) restart() {
	w.store = &recoverStore{Store: w.disk}
	w.x = &toolexec.Executor{Store: w.store, Observer: (*recoverObserver)(w)}
	w.s = &toolexec.Supervisor{Executor: w.x, OnSettled: func(_ context.Context, s toolexec.Settled) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, s)
	}}
}

// recoverObserver notes what has no duration.
type recoverObserver recoverWorld

func (o *recoverObserver) Start(ctx context.Context, _ toolexec.Event) context.Context { return ctx }
func (o *recoverObserver) End(context.Context, toolexec.Event)                         {}
func (o *recoverObserver) Note(_ context.Context, e toolexec.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noted = append(o.noted, e)
}

// failures are the causes that were noted.
func (w *recoverWorld) failures() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.noted {
		if f, ok := e.(toolexec.RecoveryFailed); ok {
			list = append(list, f.Err.Error())
		}
	}
	return list
}

// settled are the refs and states that OnSettled was told, in order.
func (w *recoverWorld) settled() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.told {
		checkEnvelope(w.t, s.Envelope)
		list = append(list, s.Record.Ref+" "+s.Record.State.String())
	}
	slices.Sort(list)
	return list
}

// tool posts to the ledger, and its starts are noted.
func (w *recoverWorld) tool(effect toolexec.Effect) caseTool {
	return caseTool{Name: "refund", Effect: effect, Run: func(ctx context.Context, in caseOrder) (caseReceipt, error) {
		w.starts.note()
		return w.ledger.post(toolexec.OperationRef(ctx)), nil
	}}
}

// verifier is an authoritative one that does what look does.
func (w *recoverWorld) verifier(look func(ref string) (toolexec.Finding[caseReceipt], error)) *toolexec.Verifier[caseOrder, caseReceipt] {
	return &toolexec.Verifier[caseOrder, caseReceipt]{
		Authoritative: true,
		Lookup: func(_ context.Context, ref string, _ caseOrder) (toolexec.Finding[caseReceipt], error) {
			w.looks.note()
			return look(ref)
		},
	}
}

func recoverFound(ref string) (toolexec.Finding[caseReceipt], error) {
	return toolexec.Found(caseReceipt{"rcpt_" + ref}), nil
}

func recoverAbsent(string) (toolexec.Finding[caseReceipt], error) {
	return toolexec.Absent[caseReceipt](), nil
}

func recoverConflict(string) (toolexec.Finding[caseReceipt], error) {
	return toolexec.Conflicting[caseReceipt](), nil
}

func recoverDown(string) (toolexec.Finding[caseReceipt], error) {
	return toolexec.Finding[caseReceipt]{}, errors.New("down")
}

// crash is a process that begins the operation under ref, does what did does, and dies.
func (w *recoverWorld) crash(tool caseTool, ref string, did func(ctx context.Context) error) toolexec.Key {
	w.t.Helper()
	store := &recoverStore{Store: w.disk}
	x := &toolexec.Executor{Store: store, Policy: toolexec.Policy{MaxRetries: -1}}
	tool.Verify, tool.Run = nil, func(ctx context.Context, in caseOrder) (caseReceipt, error) {
		err := did(ctx)
		store.kill()
		return caseReceipt{}, err
	}
	toolexec.Bind(x, tool).Call(toolexec.WithOperationRef(w.t.Context(), ref), execOrder)
	caseClose(w.t, x)
	key := toolexec.Key{Ref: ref}
	require.Equal(w.t, toolexec.StateInFlight, w.get(key).State)
	return key
}

// put calls b under ref.
func (w *recoverWorld) put(b *toolexec.Bound[caseOrder, caseReceipt], ref string) toolexec.Key {
	w.t.Helper()
	caseChecked(w.t, b.Call(toolexec.WithOperationRef(w.t.Context(), ref), execOrder))
	return toolexec.Key{Ref: ref}
}

func (w *recoverWorld) get(key toolexec.Key) toolexec.Record {
	w.t.Helper()
	r, err := w.disk.Load(w.t.Context(), key)
	require.NoError(w.t, err)
	return r
}

// pass is one Recover, in words: what it came to, and where it left the operation of key.
func (w *recoverWorld) pass(key toolexec.Key) string {
	w.t.Helper()
	done, err := w.s.Recover(w.t.Context())
	require.NoError(w.t, err)
	return recoverWords(done) + " → " + w.get(key).State.String()
}

func recoverWords(r toolexec.Recovery) string {
	if r.Due == 0 {
		return "nothing"
	}
	var list []string
	for _, p := range []struct {
		n    int
		word string
	}{{r.Settled, "settled"}, {r.Open, "open"}, {r.Unbound, "unbound"}, {r.Failed, "failed"}} {
		if p.n > 0 {
			list = append(list, fmt.Sprint(p.n, " ", p.word))
		}
	}
	return fmt.Sprint(r.Due, " due: ", strings.Join(list, ", "))
}

// recoverRow is an operation whose owner died, and what each pass over it comes to.
type recoverRow struct {
	name   string
	effect toolexec.Effect
	tool   func(w *recoverWorld, t *caseTool)
	did    func(ctx context.Context) error
	passes []time.Duration // since the crash
	want   []string
	starts []time.Duration // of the tool in this process
	looks  []time.Duration
	more   func(w *recoverWorld, r toolexec.Record)
}

const (
	recoverLost   = recoverLease + 1
	recoverClosed = recoverLease + toolexec.DefaultSettle
)

func recoverVerify(look func(string) (toolexec.Finding[caseReceipt], error)) func(*recoverWorld, *caseTool) {
	return func(w *recoverWorld, t *caseTool) { t.Verify = w.verifier(look) }
}

var recoverTable = []recoverRow{
	{
		name: "the owner lives as far as anybody knows", tool: recoverVerify(recoverFound), did: observeOK,
		passes: []time.Duration{0, recoverLease - 1, recoverLease},
		want:   []string{"nothing → in_flight", "nothing → in_flight", "nothing → in_flight"},
	},
	{
		name: "it had marked no send", tool: func(_ *recoverWorld, t *caseTool) { t.MarksSent = true }, did: observeOK,
		passes: []time.Duration{recoverLost, recoverLost + 1}, want: []string{"1 due: 1 settled → released", "nothing → released"},
	},
	{
		name: "it had marked a send", tool: func(_ *recoverWorld, t *caseTool) { t.MarksSent = true }, did: toolexec.MarkSent,
		passes: []time.Duration{recoverLost}, want: []string{"1 due: 1 open → unknown"},
	},
	{
		name: "marked a send, with a verifier", did: toolexec.MarkSent,
		tool:   func(w *recoverWorld, t *caseTool) { t.MarksSent, t.Verify = true, w.verifier(recoverFound) },
		passes: []time.Duration{recoverLost}, want: []string{"1 due: 1 settled → committed"}, looks: []time.Duration{recoverLost},
	},
	{
		name: "nobody can look it up: with a person, once nothing can arrive any more", tool: func(*recoverWorld, *caseTool) {}, did: observeOK,
		passes: []time.Duration{recoverLost, recoverLost + 1, recoverClosed, recoverClosed + 1, recoverClosed + 2},
		want:   []string{"1 due: 1 open → unknown", "nothing → unknown", "nothing → unknown", "1 due: 1 settled → escalated", "nothing → escalated"},
		more: func(w *recoverWorld, r toolexec.Record) {
			assert.Equal(w.t, toolexec.CommitUnknown, r.CommitState())
			assert.Equal(w.t, toolexec.CodeVerificationUnavailable, r.LastFailure.Code)
			assert.Equal(w.t, "escalated: escalated (, there is nothing to look it up with)", supervisorSaid(r))
		},
	},
	{
		name: "declared unverifiable: with a person at once", tool: func(_ *recoverWorld, t *caseTool) { t.Unverifiable = true }, did: observeOK,
		passes: []time.Duration{recoverLost}, want: []string{"1 due: 1 settled → escalated"},
	},
	{
		name: "found", tool: recoverVerify(recoverFound), did: observeOK,
		passes: []time.Duration{recoverLost, recoverLost + 1}, want: []string{"1 due: 1 settled → committed", "nothing → committed"},
		looks: []time.Duration{recoverLost},
		more: func(w *recoverWorld, r toolexec.Record) {
			assert.JSONEq(w.t, `{"receipt":"rcpt_r1"}`, string(r.Result))
			assert.Equal(w.t, toolexec.SourceLookup, r.Verification.Source)
			assert.True(w.t, r.Unheard)
		},
	},
	{
		name: "absent, too early, and then in time", tool: recoverVerify(recoverAbsent), did: observeOK,
		passes: []time.Duration{recoverLost, recoverLost + time.Second, recoverClosed, recoverClosed + 1},
		want:   []string{"1 due: 1 open → unknown", "nothing → unknown", "nothing → unknown", "1 due: 1 settled → released"},
		looks:  []time.Duration{recoverLost, recoverClosed + 1},
	},
	{
		name: "absent at first, and there in the end", did: observeOK,
		tool: func(w *recoverWorld, t *caseTool) {
			t.Verify = w.verifier(func(ref string) (toolexec.Finding[caseReceipt], error) {
				if time.Since(w.starts.since) < recoverClosed {
					return recoverAbsent(ref)
				}
				return recoverFound(ref)
			})
		},
		passes: []time.Duration{recoverLost, recoverClosed + 1},
		want:   []string{"1 due: 1 open → unknown", "1 due: 1 settled → committed"},
		looks:  []time.Duration{recoverLost, recoverClosed + 1},
	},
	{
		name: "conflicting", tool: recoverVerify(recoverConflict), did: observeOK,
		passes: []time.Duration{recoverLost}, want: []string{"1 due: 1 settled → escalated"}, looks: []time.Duration{recoverLost},
	},
	{
		name: "the verifier is down: checks back off, until they are used up", did: observeOK,
		tool: func(w *recoverWorld, t *caseTool) { t.Verify = w.verifier(recoverDown); t.Verify.MaxChecks = 3 },
		passes: []time.Duration{
			recoverLost, recoverLost + 500*time.Millisecond, recoverLost + 500*time.Millisecond + 1,
			recoverLost + 1500*time.Millisecond + 1, recoverLost + 1500*time.Millisecond + 2,
		},
		want:  []string{"1 due: 1 open → unknown", "nothing → unknown", "1 due: 1 open → unknown", "nothing → unknown", "1 due: 1 settled → escalated"},
		looks: []time.Duration{recoverLost, recoverLost + 500*time.Millisecond + 1, recoverLost + 1500*time.Millisecond + 2},
	},
	{
		name: "idempotent without a verifier: sent again", effect: toolexec.Idempotent, tool: func(*recoverWorld, *caseTool) {}, did: observeOK,
		passes: []time.Duration{recoverLost}, want: []string{"1 due: 1 settled → committed"}, starts: []time.Duration{recoverLost},
		more: func(w *recoverWorld, r toolexec.Record) {
			assert.Equal(w.t, 2, r.Attempts)
			assert.Equal(w.t, 1, w.ledger.count("r1"))
			assert.True(w.t, r.Unheard)
		},
	},
	{
		name: "idempotent with a verifier: looked up", effect: toolexec.Idempotent, tool: recoverVerify(recoverFound), did: observeOK,
		passes: []time.Duration{recoverLost}, want: []string{"1 due: 1 settled → committed"}, looks: []time.Duration{recoverLost},
	},
	{
		name: "idempotent, within the window", effect: toolexec.Idempotent, did: observeOK,
		tool:   func(_ *recoverWorld, t *caseTool) { t.DedupeWindow = recoverLost + 1 },
		passes: []time.Duration{recoverLost}, want: []string{"1 due: 1 settled → committed"}, starts: []time.Duration{recoverLost},
	},
	{
		name: "idempotent, the window is over", effect: toolexec.Idempotent, did: observeOK,
		tool:   func(_ *recoverWorld, t *caseTool) { t.DedupeWindow = recoverLost },
		passes: []time.Duration{recoverLost, recoverClosed + 1}, want: []string{"1 due: 1 open → unknown", "1 due: 1 settled → escalated"},
	},
	{
		name: "idempotent, the window is over, with a verifier", effect: toolexec.Idempotent, did: observeOK,
		tool: func(w *recoverWorld, t *caseTool) {
			t.DedupeWindow, t.Verify = recoverLost, w.verifier(recoverAbsent)
		},
		passes: []time.Duration{recoverLost, recoverClosed + 1}, want: []string{"1 due: 1 open → unknown", "1 due: 1 settled → released"},
		looks: []time.Duration{recoverLost, recoverClosed + 1},
	},
}

// TestRecoverTakesOverFromALostOwner: what becomes of an operation whose process died depends on what can have happened.
func TestRecoverTakesOverFromALostOwner(t *testing.T) {
	for _, row := range recoverTable {
		recoverRun(t, row.name, func(w *recoverWorld) {
			tool := w.tool(row.effect)
			row.tool(w, &tool)
			toolexec.Bind(w.x, tool)
			key := w.crash(tool, "r1", row.did)
			var got []string
			for _, at := range row.passes {
				time.Sleep(time.Until(w.starts.since.Add(at)))
				got = append(got, w.pass(key))
			}
			assert.Equal(w.t, row.want, got)
			assert.Equal(w.t, row.starts, w.starts.at(), "the tool")
			assert.Equal(w.t, row.looks, w.looks.at(), "the verifier")
			r := w.get(key)
			if row.more != nil {
				row.more(w, r)
			}
			var told []string
			if r.State != toolexec.StateUnknown && r.State != toolexec.StateInFlight {
				told = []string{"r1 " + r.State.String()}
			}
			assert.Equal(w.t, told, w.settled())
		})
	}
}

// TestRecoverTellsWhatACallWouldBeAnswered: the envelope of OnSettled is the answer of a call with the same ref.
func TestRecoverTellsWhatACallWouldBeAnswered(t *testing.T) {
	for name, look := range map[string]func(string) (toolexec.Finding[caseReceipt], error){
		"committed": recoverFound, "escalated": recoverConflict,
		"committed without a result": func(string) (toolexec.Finding[caseReceipt], error) {
			return toolexec.FoundEffectOnly[caseReceipt](), nil
		},
	} {
		recoverRun(t, name, func(w *recoverWorld) {
			tool := w.tool(toolexec.Write)
			tool.Verify = w.verifier(look)
			toolexec.Bind(w.x, tool)
			w.crash(tool, "r1", observeOK)
			time.Sleep(recoverLost)
			_, err := w.s.Recover(w.t.Context())
			require.NoError(w.t, err)
			require.Len(w.t, w.told, 1)
			told := w.told[0].Envelope
			checkEnvelope(w.t, told)
			call := caseExecute(w.t, w.x, "refund", "r1", caseArgs)
			call.Replayed = false
			assert.Equal(w.t, recoverJSON(w.t, call), recoverJSON(w.t, told))
		})
	}
}

func recoverJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// TestRecoverIsContainedFromItsHost: a host's function that panics or exits changes nothing.
func TestRecoverIsContainedFromItsHost(t *testing.T) {
	for _, how := range []string{"panic", "Goexit"} {
		end := caseEnds()[how]
		recoverRun(t, how, func(w *recoverWorld) {
			tool := w.tool(toolexec.Write)
			tool.Verify = w.verifier(recoverFound)
			toolexec.Bind(w.x, tool)
			w.s.OnSettled = func(ctx context.Context, _ toolexec.Settled) { _ = end(ctx) }
			w.s.Rerun = func(toolexec.Record) bool { _ = end(w.t.Context()); return true }
			key := w.crash(tool, "r1", observeOK)
			time.Sleep(recoverLost)
			assert.Equal(w.t, "1 due: 1 settled → committed", w.pass(key))
			assert.Equal(w.t, "nothing → committed", w.pass(key))
			w.s.OnSettled = nil
			again := w.failing(toolexec.Write, errRecoverUnsent)
			again.Name = "again"
			key = w.put(toolexec.Bind(w.x, again), "r2")
			time.Sleep(time.Second)
			assert.Equal(w.t, "nothing → released", w.pass(key), "it did not say yes")
			w.s.Rerun = func(toolexec.Record) bool { return true }
			assert.Equal(w.t, "1 due: 1 settled → committed", w.pass(key), "nobody wants to be told")
		})
	}
}

// TestRecoverOnAVolatileStore: there are no leases and no lost owners, but unknown operations all the same.
func TestRecoverOnAVolatileStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRecoverWorld(t)
		w.x = new(toolexec.Executor)
		w.s = &toolexec.Supervisor{Executor: w.x}
		tool := w.tool(toolexec.Write)
		run := tool.Run
		tool.Run = func(ctx context.Context, in caseOrder) (caseReceipt, error) {
			out, _ := run(ctx, in)
			return out, toolexec.InDoubt(nil)
		}
		found := false
		tool.Verify = w.verifier(func(ref string) (toolexec.Finding[caseReceipt], error) {
			if !found {
				return recoverAbsent(ref)
			}
			return recoverFound(ref)
		})
		b := toolexec.Bind(w.x, tool)
		w.put(b, "r1")
		running := make(chan struct{})
		var wg sync.WaitGroup
		patient := execTool("slow", toolexec.Write, func(context.Context) error { <-running; return nil })
		patient.Policy = toolexec.Policy{Deadline: -1, TotalDeadline: -1}
		slow := toolexec.Bind(w.x, patient)
		wg.Go(func() { slow.Call(toolexec.WithOperationRef(t.Context(), "r2"), execOrder) })
		found = true
		time.Sleep(toolexec.DefaultSettle + 1)
		done, err := w.s.Recover(t.Context())
		require.NoError(t, err)
		close(running)
		wg.Wait()
		assert.Equal(t, toolexec.Recovery{Due: 1, Settled: 1}, done)
		r, err := w.s.Get(t.Context(), toolexec.Key{Ref: "r1"})
		require.NoError(t, err)
		assert.Equal(t, toolexec.StateCommitted, r.State)
		caseClose(t, w.x)
	})
}

// TestSupervisorNeedsAnExecutor: each method says so.
func TestSupervisorNeedsAnExecutor(t *testing.T) {
	const want = "toolexec: the Supervisor has no Executor; set the one whose operations it is to supervise"
	var s toolexec.Supervisor
	_, err := s.Recover(t.Context())
	require.EqualError(t, err, want)
	require.EqualError(t, s.Run(t.Context()), want)
	_, err = s.Wait(t.Context(), toolexec.Key{Ref: "r1"})
	require.EqualError(t, err, want)
	_, err = s.Verify(t.Context(), toolexec.Key{Ref: "r1"})
	require.EqualError(t, err, want)
	_, err = s.Get(t.Context(), toolexec.Key{Ref: "r1"})
	require.EqualError(t, err, want)
	_, _, err = s.List(t.Context(), toolexec.Query{})
	require.EqualError(t, err, want)
	_, err = s.Approve(t.Context(), toolexec.Key{Ref: "r1"}, "", supervisorAnn, 0)
	require.EqualError(t, err, want)
}
