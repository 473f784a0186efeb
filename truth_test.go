package toolexec_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// The truth table: what is known, by the effect of the tool, and what is then answered. A row of
// truthTable carries the row's text, and its cells read like the table's:
//
//	nc, unk, com   the commit state
//	never, delay, fix   the retry directive
//	ci, wr, vo, ra, es  the next action: correct_input, wait_and_retry, verify_operation,
//	                    request_approval, escalate
//
// followed by the code, how often the tool was invoked in the whole case, what is left of the budget
// where the directive allows another call, and when the next action is sensible. A cell is compared as a
// whole, so what it does not say must not be there. Each cell is asked through Call, Execute and
// ExecuteAll, which have to agree.

type truthIn struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
	Note  string `json:"note,omitempty"`
}

type truthOut struct {
	Receipt string `json:"receipt"`
}

// MarshalJSON refuses one receipt, so that a result can be one that cannot be encoded.
func (o truthOut) MarshalJSON() ([]byte, error) {
	if o.Receipt == "unencodable" {
		return nil, errors.New("this receipt cannot be encoded")
	}
	type plain truthOut
	return json.Marshal(plain(o))
}

type (
	truthTool = toolexec.Tool[truthIn, truthOut]
	truthLook = toolexec.Verifier[truthIn, truthOut]
	// truthStep is what the tool does in one invocation; n counts them from 1.
	truthStep func(ctx context.Context, n int) (truthOut, error)
)

var (
	truthOrder = truthIn{Order: "ORD-1", Cents: 100}
	truthOther = truthIn{Order: "ORD-1", Cents: 200}
	truthThird = truthIn{Order: "ORD-1", Cents: 300}
	truthBoss  = toolexec.Statement{Actor: "ada", Evidence: "ticket 7"}
)

const truthRef = "run_81/step_4"

var errTruth = errors.New("cause")

func truthFail(err error) truthStep {
	return func(context.Context, int) (truthOut, error) { return truthOut{}, err }
}

func truthSucceed(_ context.Context, n int) (truthOut, error) {
	return truthOut{Receipt: fmt.Sprintf("r%d", n)}, nil
}

func truthResult(receipt string) truthStep {
	return func(context.Context, int) (truthOut, error) { return truthOut{Receipt: receipt}, nil }
}

// truthDeaf takes d, whatever its context says, and then does next.
func truthDeaf(d time.Duration, next truthStep) truthStep {
	return func(ctx context.Context, n int) (truthOut, error) {
		time.Sleep(d)
		return next(ctx, n)
	}
}

// truthHang obeys its context.
func truthHang(ctx context.Context, _ int) (truthOut, error) {
	<-ctx.Done()
	return truthOut{}, ctx.Err()
}

func truthPanic(context.Context, int) (truthOut, error) { panic("a secret") }

func truthGoexit(context.Context, int) (truthOut, error) {
	runtime.Goexit()
	return truthOut{}, nil
}

// truthMark marks the operation as committed and then does next.
func truthMark(next truthStep) truthStep {
	return func(ctx context.Context, n int) (truthOut, error) {
		if err := toolexec.MarkCommitted(ctx, truthOut{Receipt: "marked"}); err != nil {
			return truthOut{}, err
		}
		return next(ctx, n)
	}
}

// truthSend marks that it is about to send and then does next.
func truthSend(next truthStep) truthStep {
	return func(ctx context.Context, n int) (truthOut, error) {
		if err := toolexec.MarkSent(ctx); err != nil {
			return truthOut{}, err
		}
		return next(ctx, n)
	}
}

// truthStore fails on demand, as a store does that cannot be reached. Embedding the interface alone
// hides what the memory store can do beyond it: it has leases and is polled.
type truthStore struct {
	toolexec.Store

	mu   sync.Mutex // protects what follows
	down bool       // nothing is answered
	deaf bool       // Save alone fails
	lost int        // so many answers of Save get lost on their way
	hook func(r toolexec.Record) error
}

var errTruthStore = errors.New("the store is away")

func (s *truthStore) set(down, deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.deaf = down, deaf
}

func (s *truthStore) onSave(hook func(r toolexec.Record) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

func (s *truthStore) away(saving bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down || s.deaf && saving {
		return errTruthStore
	}
	return nil
}

func (s *truthStore) Load(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
	if err := s.away(false); err != nil {
		return toolexec.Record{}, err
	}
	return s.Store.Load(ctx, key)
}

func (s *truthStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	if err := s.away(true); err != nil {
		return toolexec.Record{}, err
	}
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		if err := hook(r); err != nil {
			return toolexec.Record{}, err
		}
	}
	stored, err := s.Store.Save(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost > 0 {
		s.lost--
		return toolexec.Record{}, errTruthStore
	}
	return stored, err
}

func (s *truthStore) lose(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = n
}

func (s *truthStore) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	if err := s.away(false); err != nil {
		return nil, toolexec.Cursor{}, err
	}
	return s.Store.List(ctx, q)
}

// truthProcess is one process: an executor with its tool, and its own way to the store.
type truthProcess struct {
	w    *truthWorld
	x    *toolexec.Executor
	tool *toolexec.Bound[truthIn, truthOut]
	road *truthStore // nil where the store is volatile
}

// truthWorld is one cell: processes that share a store, and a tool that does does[n-1] in its
// invocation n, wherever that is, and the last of them for ever.
type truthWorld struct {
	*truthProcess // the process under test

	t      *testing.T
	row    *truthRow
	door   string
	effect toolexec.Effect
	memory *toolexec.MemoryStore
	all    []*truthProcess
	beside sync.WaitGroup // calls that run beside the case

	mu      sync.Mutex // protects what follows
	runs    int
	refs    []string        // that the tool saw
	starts  []time.Duration // when its invocations began
	lookups int
	notes   []toolexec.Event
	began   time.Time
}

// Start implements Observer.
func (w *truthWorld) Start(context.Context, toolexec.Event) context.Context { return nil }

// End implements Observer.
func (w *truthWorld) End(context.Context, toolexec.Event) {}

// Note implements Observer.
func (w *truthWorld) Note(_ context.Context, e toolexec.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, e)
}

// noted is how many notes of that name there were.
func (w *truthWorld) noted(name string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.notes {
		if e.EventName() == name {
			n++
		}
	}
	return n
}

func newTruthWorld(t *testing.T, row *truthRow, effect toolexec.Effect, door string) *truthWorld {
	w := &truthWorld{t: t, row: row, effect: effect, door: door, began: time.Now(), memory: row.memory()}
	w.truthProcess = w.process(row.policy)
	return w
}

// process starts a process with policy. Processes share the store only if it is leased.
func (w *truthWorld) process(policy toolexec.Policy) *truthProcess {
	p := &truthProcess{w: w, x: &toolexec.Executor{Policy: policy, Store: w.memory, Observer: w}}
	if w.row.leased {
		p.road = &truthStore{Store: w.memory}
		p.x.Store = p.road
	}
	p.tool = toolexec.Bind(p.x, w.spec())
	w.all = append(w.all, p)
	return p
}

func (w *truthWorld) spec() truthTool {
	spec := truthTool{Name: "refund", Effect: w.effect, Run: w.run}
	if w.row.tool != nil {
		w.row.tool(&spec)
	}
	if v := spec.Verify; v != nil {
		counted, truthVerify := *v, v.Lookup
		counted.Lookup = func(ctx context.Context, ref string, in truthIn) (toolexec.Finding[truthOut], error) {
			w.mu.Lock()
			w.lookups++
			w.mu.Unlock()
			return truthVerify(ctx, ref, in)
		}
		spec.Verify = &counted
	}
	return spec
}

func (w *truthWorld) run(ctx context.Context, _ truthIn) (truthOut, error) {
	w.mu.Lock()
	w.runs++
	n := w.runs
	w.refs = append(w.refs, toolexec.OperationRef(ctx))
	w.starts = append(w.starts, time.Since(w.began))
	w.mu.Unlock()
	return w.row.does[min(n, len(w.row.does))-1](ctx, n)
}

// ran is how often the tool was invoked so far, in all processes.
func (w *truthWorld) ran() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs
}

func (w *truthWorld) close() {
	w.beside.Wait()
	for _, p := range w.all {
		assert.NoError(w.t, p.x.Close(w.t.Context()))
	}
}

// truthAnswer is an envelope whatever the door it came through.
type truthAnswer struct {
	toolexec.Envelope[json.RawMessage]

	has     bool
	receipt string
	value   error // of Value
}

// call makes a call through the cell's door; ref "" lets the executor mint one.
func (p *truthProcess) call(ref string, in truthIn) truthAnswer {
	return p.callIn(p.w.t.Context(), ref, in)
}

func (p *truthProcess) callIn(ctx context.Context, ref string, in truthIn) truthAnswer {
	t := p.w.t
	if p.w.door == "Call" {
		if ref != "" {
			ctx = toolexec.WithOperationRef(ctx, ref)
		}
		return truthTyped(t, p.tool.Call(ctx, in))
	}
	raw, err := json.Marshal(in)
	require.NoError(t, err)
	return p.named(ctx, toolexec.Call{ID: "call_1", Name: "refund", Arguments: raw, OperationRef: ref})
}

func truthTyped(t testing.TB, e toolexec.Envelope[truthOut]) truthAnswer {
	t.Helper()
	checkEnvelope(t, e)
	raw, err := json.Marshal(e)
	require.NoError(t, err)
	a := truthAnswer{has: e.HasResult, receipt: e.Result.Receipt}
	require.NoError(t, json.Unmarshal(raw, &a.Envelope))
	_, a.value = e.Value()
	return a
}

func (p *truthProcess) named(ctx context.Context, c toolexec.Call) truthAnswer {
	t := p.w.t
	t.Helper()
	var e toolexec.Envelope[json.RawMessage]
	if p.w.door == "ExecuteAll" {
		all := p.x.ExecuteAll(ctx, []toolexec.Call{c})
		require.Len(t, all, 1)
		e = all[0]
	} else {
		e = p.x.Execute(ctx, c)
	}
	checkEnvelope(t, e)
	a := truthAnswer{Envelope: e, has: e.HasResult}
	if e.HasResult {
		var out truthOut
		require.NoError(t, json.Unmarshal(e.Result, &out))
		a.receipt = out.Receipt
	}
	_, a.value = e.Value()
	return a
}

// must makes a call that only prepares a case, and asserts what it was answered.
func (p *truthProcess) must(want, ref string, in truthIn) {
	p.w.t.Helper()
	assert.Equal(p.w.t, want, p.w.cell(p.call(ref, in)), "a call that prepares the case")
}

func (w *truthWorld) supervisor() *toolexec.Supervisor {
	return &toolexec.Supervisor{Executor: w.x}
}

func (w *truthWorld) key() toolexec.Key { return toolexec.Key{Ref: truthRef} }

func (w *truthWorld) record() toolexec.Record {
	w.t.Helper()
	r, err := w.memory.Load(w.t.Context(), w.key())
	require.NoError(w.t, err)
	return r
}

// crash runs the operation in a process that dies while its tool runs: it tells the store nothing any
// more. The lease is over when crash returns.
func (w *truthWorld) crash() {
	p := w.process(w.row.policy)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.callIn(w.t.Context(), truthRef, truthOrder)
	}()
	synctest.Wait()
	p.road.set(true, true)
	<-done
	time.Sleep(time.Minute)
}

// cell writes an answer as the table does.
func (w *truthWorld) cell(a truthAnswer) string {
	words := truthWords(a)
	if left := a.Retry.MaxAttemptsRemaining; left != 0 {
		words = append(words, fmt.Sprintf("left=%d", left))
	}
	if !a.Retry.NotBefore.IsZero() {
		words = append(words, "in="+time.Until(a.Retry.NotBefore).Round(time.Millisecond).String())
	}
	if s, ok := a.SafeDetails[toolexec.DetailExistingCommitState]; ok {
		words = append(words, fmt.Sprintf("existing=%v", s))
	}
	if _, ok := a.SafeDetails[toolexec.DetailNote]; ok {
		words = append(words, "noted")
	}
	return strings.Join(append(words, fmt.Sprintf("runs=%d", w.ran())), " ")
}

func truthWords(a truthAnswer) []string {
	if !a.OK {
		return []string{
			truthShort[a.CommitState.String()], truthShort[a.Retry.Directive.String()], truthShort[a.NextAction.String()], string(a.Code),
		}
	}
	words := []string{"ok"}
	if a.has {
		words = append(words, a.receipt)
	} else {
		words = append(words, "no result")
	}
	if a.Replayed {
		words = append(words, "replayed")
	}
	if a.Unrecorded {
		words = append(words, "unrecorded")
	}
	if s := a.Verification.Source; s != toolexec.SourceExecution {
		words = append(words, s.String())
	}
	return words
}

var truthShort = map[string]string{
	"not_committed": "nc", "unknown": "unk", "committed": "com",
	"never": "never", "after_delay": "delay", "after_input_fix": "fix",
	"continue": "go on", "correct_input": "ci", "wait_and_retry": "wr", "verify_operation": "vo",
	"request_approval": "ra", "escalate": "es",
}

// truthRow is a case of one row of the table. A cell of "" is one that the row does not have.
type truthRow struct {
	row  string
	when string // which of the row's cases

	doors  string // "": all of them
	leased bool   // owners can be lost, and processes share the store
	keep   time.Duration
	policy toolexec.Policy
	tool   func(*truthTool)
	does   []truthStep
	ask    func(w *truthWorld) truthAnswer // nil: one call

	read, idem, write string
	after             func(w *truthWorld) // further checks
}

func (r *truthRow) memory() *toolexec.MemoryStore { return &toolexec.MemoryStore{KeepResults: r.keep} }

func (r *truthRow) want(e toolexec.Effect) string {
	switch e {
	case toolexec.ReadOnly:
		return r.read
	case toolexec.Idempotent:
		return r.idem
	}
	return r.write
}

func (r *truthRow) test(t *testing.T, effect toolexec.Effect, door string) {
	synctest.Test(t, func(t *testing.T) {
		w := newTruthWorld(t, r, effect, door)
		defer w.close()
		ask := r.ask
		if ask == nil {
			ask = func(w *truthWorld) truthAnswer { return w.call(truthRef, truthOrder) }
		}
		a := ask(w)
		assert.Equal(t, r.want(effect), w.cell(a))
		if a.OK || a.CommitState != toolexec.NotCommitted { // else a minted ref that names no record is kept back
			assert.NotEmpty(t, a.OperationRef)
		}
		if r.after != nil {
			r.after(w)
		}
		for _, ref := range w.refs {
			if effect != toolexec.ReadOnly {
				assert.Equal(t, a.OperationRef, ref, "the tool saw another ref than the caller")
			}
		}
	})
}

func TestTruthTable(t *testing.T) {
	for i := range truthTable {
		r := &truthTable[i]
		for _, effect := range []toolexec.Effect{toolexec.ReadOnly, toolexec.Idempotent, toolexec.Write} {
			for _, door := range []string{"Call", "Execute", "ExecuteAll"} {
				if r.want(effect) == "" || r.doors != "" && !slices.Contains(strings.Fields(r.doors), door) {
					continue
				}
				t.Run(strings.Join([]string{r.row, r.when, effect.String(), door}, "/"), func(t *testing.T) { r.test(t, effect, door) })
			}
		}
	}
}

// truthTwice asks, waits, and asks the same again.
func truthTwice(first string, wait time.Duration) func(*truthWorld) truthAnswer {
	return func(w *truthWorld) truthAnswer {
		w.must(first, truthRef, truthOrder)
		time.Sleep(wait)
		return w.call(truthRef, truthOrder)
	}
}

// cancelled asks with a context that ends after d.
func truthCancelled(d time.Duration) func(*truthWorld) truthAnswer {
	return func(w *truthWorld) truthAnswer {
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		if d == 0 {
			cancel()
		} else {
			defer time.AfterFunc(d, cancel).Stop()
		}
		return w.callIn(ctx, truthRef, truthOrder)
	}
}

// truthVerify makes a tool that can be looked up.
func truthVerify(find func() (toolexec.Finding[truthOut], error), facts truthLook) func(*truthTool) {
	facts.Lookup = func(context.Context, string, truthIn) (toolexec.Finding[truthOut], error) { return find() }
	return func(t *truthTool) { t.Verify = &facts }
}

func truthFound() (toolexec.Finding[truthOut], error) {
	return toolexec.Found(truthOut{Receipt: "found"}), nil
}
func truthAbsent() (toolexec.Finding[truthOut], error) { return toolexec.Absent[truthOut](), nil }
func truthConflicting() (toolexec.Finding[truthOut], error) {
	return toolexec.Conflicting[truthOut](), nil
}
func truthCannotTell() (toolexec.Finding[truthOut], error) {
	return toolexec.Finding[truthOut]{}, errors.New("the look-up failed")
}

// truthLookupsAre asserts how often the effect was looked for.
func truthLookupsAre(n int) func(*truthWorld) {
	return func(w *truthWorld) { assert.Equal(w.t, n, w.lookups, "look-ups") }
}

func truthStartsAre(want ...time.Duration) func(*truthWorld) {
	return func(w *truthWorld) { assert.Equal(w.t, want, w.starts, "when the tool was invoked") }
}

func truthNeedsApproval(t *truthTool) {
	if t.Effect != toolexec.ReadOnly { // which has nothing to approve: its cells are what a tool says itself
		t.Approval = &toolexec.Approval[truthIn]{}
	}
}

// truthRejects is a refusal by the remote side of a tool without approval.
func truthRejects(code toolexec.Code) []truthStep {
	return []truthStep{truthFail(toolexec.Rejected(code, errTruth))}
}

func truthLimited(d time.Duration) truthStep {
	f := toolexec.Rejected(toolexec.CodeRateLimited, errTruth)
	f.RetryAfter = d
	return truthFail(f)
}

func truthPending(d time.Duration) truthStep {
	return truthFail(&toolexec.Failure{Code: toolexec.CodeOperationPending, RetryAfter: d})
}

var (
	truthNotSent = truthFail(toolexec.NotSent(errTruth))
	truthInDoubt = truthFail(toolexec.InDoubt(errTruth))
	truthRefused = truthFail(toolexec.Rejected(toolexec.CodeConflict, errTruth))
	truthInvalid = truthFail(toolexec.Invalid("cents", "at most 50"))
)

// truthSlow lets a tool run for a minute.
var truthSlow = toolexec.Policy{Deadline: time.Minute, TotalDeadline: 90 * time.Second}

// truthElsewhere starts the operation in another process, whose tool takes a while, and then asks.
func truthElsewhere(ask func(w *truthWorld) truthAnswer) func(*truthWorld) truthAnswer {
	return func(w *truthWorld) truthAnswer {
		p := w.process(truthSlow)
		w.beside.Go(func() { p.call(truthRef, truthOrder) })
		synctest.Wait()
		return ask(w)
	}
}

// truthAnotherTool asks for another tool under the same ref.
func truthAnotherTool(w *truthWorld) truthAnswer {
	other := toolexec.Bind(w.x, truthTool{Name: "payout", Effect: w.effect, Run: w.run})
	return truthTyped(w.t, other.Call(toolexec.WithOperationRef(w.t.Context(), truthRef), truthOrder))
}

func truthWithOther(first string) func(*truthWorld) truthAnswer {
	return func(w *truthWorld) truthAnswer {
		w.must(first, truthRef, truthOrder)
		return w.call(truthRef, truthOther)
	}
}

func truthWithAnotherTool(first string) func(*truthWorld) truthAnswer {
	return func(w *truthWorld) truthAnswer {
		w.must(first, truthRef, truthOrder)
		return truthAnotherTool(w)
	}
}

var truthTable = []truthRow{
	{
		row: "bad arguments; input that cannot be encoded; Ref returns nothing", when: "by the schema", doors: "Execute ExecuteAll", does: []truthStep{truthSucceed},
		ask: func(w *truthWorld) truthAnswer {
			return w.named(w.t.Context(), toolexec.Call{Name: "refund", Arguments: json.RawMessage(`{"order":7,"cents":"x"}`), OperationRef: truthRef})
		},
		read:  "nc fix ci INVALID_ARGUMENTS left=1 runs=0",
		idem:  "nc fix ci INVALID_ARGUMENTS left=1 runs=0",
		write: "nc fix ci INVALID_ARGUMENTS left=1 runs=0",
	},
	{
		row: "bad arguments; input that cannot be encoded; Ref returns nothing", when: "by Check", does: []truthStep{truthSucceed},
		tool:  func(t *truthTool) { t.Check = func(truthIn) error { return toolexec.Invalid("cents", "too many") } },
		read:  "nc fix ci INVALID_ARGUMENTS left=1 runs=0",
		idem:  "nc fix ci INVALID_ARGUMENTS left=1 runs=0",
		write: "nc fix ci INVALID_ARGUMENTS left=1 runs=0",
	},
	{
		row: "bad arguments; input that cannot be encoded; Ref returns nothing", when: "Ref returns nothing", does: []truthStep{truthSucceed},
		tool:  func(t *truthTool) { t.Ref = func(truthIn) string { return "" } },
		read:  "nc fix ci INVALID_ARGUMENTS left=1 runs=0",
		idem:  "nc fix ci INVALID_ARGUMENTS left=1 runs=0",
		write: "nc fix ci INVALID_ARGUMENTS left=1 runs=0",
	},
	{
		row: "Ref panics", does: []truthStep{truthSucceed},
		tool:  func(t *truthTool) { t.Ref = func(truthIn) string { panic("a secret") } },
		read:  "nc never es TOOL_PANIC runs=0",
		idem:  "nc never es TOOL_PANIC runs=0",
		write: "nc never es TOOL_PANIC runs=0",
	},
	{
		row: "Ref panics", when: "exits", does: []truthStep{truthSucceed},
		tool:  func(t *truthTool) { t.Ref = func(truthIn) string { runtime.Goexit(); return "" } },
		read:  "nc never es TOOL_PANIC runs=0",
		idem:  "nc never es TOOL_PANIC runs=0",
		write: "nc never es TOOL_PANIC runs=0",
	},
	{
		row: "unknown tool", doors: "Execute ExecuteAll", does: []truthStep{truthSucceed},
		ask: func(w *truthWorld) truthAnswer {
			a := w.named(w.t.Context(), toolexec.Call{Name: "refnd", OperationRef: truthRef})
			assert.Equal(w.t, "refund", a.SafeDetails[toolexec.DetailAllowedValues])
			return a
		},
		read:  "nc never ci UNKNOWN_TOOL runs=0",
		idem:  "nc never ci UNKNOWN_TOOL runs=0",
		write: "nc never ci UNKNOWN_TOOL runs=0",
	},
	{
		row: "unknown tool", when: "that the caller may not use", doors: "Execute ExecuteAll", does: []truthStep{truthSucceed},
		ask: func(w *truthWorld) truthAnswer {
			a := w.named(w.t.Context(), toolexec.Call{Name: "refund", OperationRef: truthRef, Allowed: []string{"refunds"}})
			assert.NotContains(w.t, a.SafeDetails, toolexec.DetailAllowedValues, "a name that the caller may not use is not offered")
			return a
		},
		read:  "nc never ci UNKNOWN_TOOL runs=0",
		idem:  "nc never ci UNKNOWN_TOOL runs=0",
		write: "nc never ci UNKNOWN_TOOL runs=0",
	},
	{
		row: "approval missing / denied / expired", when: "missing", tool: truthNeedsApproval, does: truthRejects(toolexec.CodeMissingApproval),
		read:  "nc never ra MISSING_APPROVAL runs=1",
		idem:  "nc never ra MISSING_APPROVAL runs=0",
		write: "nc never ra MISSING_APPROVAL runs=0",
	},
	{
		row: "approval missing / denied / expired", when: "denied", tool: truthNeedsApproval, does: truthRejects(toolexec.CodeApprovalDenied),
		ask: func(w *truthWorld) truthAnswer {
			if w.effect != toolexec.ReadOnly {
				w.must("nc never ra MISSING_APPROVAL runs=0", truthRef, truthOrder)
				_, err := w.supervisor().Deny(w.t.Context(), w.key(), truthBoss)
				require.NoError(w.t, err)
			}
			return w.call(truthRef, truthOrder)
		},
		read:  "nc never es APPROVAL_DENIED runs=1",
		idem:  "nc never es APPROVAL_DENIED runs=0",
		write: "nc never es APPROVAL_DENIED runs=0",
	},
	{
		row: "approval missing / denied / expired", when: "expired", tool: truthNeedsApproval, does: truthRejects(toolexec.CodeApprovalExpired),
		ask: func(w *truthWorld) truthAnswer {
			if w.effect != toolexec.ReadOnly {
				w.must("nc never ra MISSING_APPROVAL runs=0", truthRef, truthOrder)
				_, err := approveHeld(w.supervisor(), w.t.Context(), w.key(), truthBoss, time.Minute)
				require.NoError(w.t, err)
				time.Sleep(time.Minute)
			}
			return w.call(truthRef, truthOrder)
		},
		read:  "nc never ra APPROVAL_EXPIRED runs=1",
		idem:  "nc never ra APPROVAL_EXPIRED runs=0",
		write: "nc never ra APPROVAL_EXPIRED runs=0",
	},
	{
		row: "approval missing / denied / expired", when: "no decision in time", tool: truthNeedsApproval, does: []truthStep{truthSucceed},
		ask:   truthTwice("nc never ra MISSING_APPROVAL runs=0", toolexec.DefaultApprovalTTL),
		idem:  "nc never ra APPROVAL_EXPIRED runs=0",
		write: "nc never ra APPROVAL_EXPIRED runs=0",
	},
	{
		row: "not sent, transient (dial, DNS, pool, breaker)", when: "stated", does: []truthStep{truthNotSent},
		read:  "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
		idem:  "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
		write: "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
		after: truthStartsAre(0, 500*time.Millisecond, 1500*time.Millisecond),
	},
	{
		row: "not sent, transient (dial, DNS, pool, breaker)", when: "once", does: []truthStep{truthNotSent, truthSucceed},
		read:  "ok r2 runs=2",
		idem:  "ok r2 runs=2",
		write: "ok r2 runs=2",
	},
	{
		row: "not sent, transient (dial, DNS, pool, breaker)", when: "dial", does: []truthStep{truthFail(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})},
		tool:  func(t *truthTool) { t.OneRequest = true },
		read:  "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
		idem:  "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
		write: "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
	},
	{
		row: "not sent, transient (dial, DNS, pool, breaker)", when: "dns", does: []truthStep{truthFail(&net.DNSError{Err: "no such host", IsNotFound: true})},
		tool:  func(t *truthTool) { t.OneRequest = true },
		read:  "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
		idem:  "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
		write: "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
	},
	{
		row: "not sent, transient (dial, DNS, pool, breaker)", when: "pool", does: []truthStep{truthFail(sql.ErrConnDone)},
		tool:  func(t *truthTool) { t.OneRequest = true },
		read:  "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
		idem:  "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
		write: "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
	},
	{
		row: "not sent: caller cancelled or no time left", when: "cancelled before the call", does: []truthStep{truthSucceed}, ask: truthCancelled(0),
		read:  "nc delay wr CANCELLED left=9 runs=0",
		idem:  "nc delay wr CANCELLED left=9 runs=0",
		write: "nc delay wr CANCELLED left=9 runs=0",
	},
	{
		row: "not sent: caller cancelled or no time left", when: "cancelled in a pause", does: []truthStep{truthNotSent}, ask: truthCancelled(100 * time.Millisecond),
		read:  "nc delay wr CANCELLED left=8 in=500ms runs=1",
		idem:  "nc delay wr CANCELLED left=8 in=500ms runs=1",
		write: "nc delay wr CANCELLED left=8 in=500ms runs=1",
	},
	{
		row: "not sent: caller cancelled or no time left", when: "no time left", does: []truthStep{truthSucceed},
		ask: func(w *truthWorld) truthAnswer {
			ctx, cancel := context.WithDeadline(w.t.Context(), time.Now())
			defer cancel()
			return w.callIn(ctx, truthRef, truthOrder)
		},
		read:  "nc delay wr DEADLINE_EXCEEDED left=9 runs=0",
		idem:  "nc delay wr DEADLINE_EXCEEDED left=9 runs=0",
		write: "nc delay wr DEADLINE_EXCEEDED left=9 runs=0",
	},
	{
		row: "sent, no answer", when: "stated", does: []truthStep{truthInDoubt},
		read:  "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
		idem:  "unk delay wr OUTCOME_UNKNOWN left=6 in=2s runs=3",
		write: "unk never vo OUTCOME_UNKNOWN runs=1",
	},
	{
		row: "sent, no answer", when: "once", does: []truthStep{truthInDoubt, truthSucceed},
		read:  "ok r2 runs=2",
		idem:  "ok r2 runs=2",
		write: "unk never vo OUTCOME_UNKNOWN runs=1",
	},
	{
		row: "sent, no answer", when: "the tool is out of time", does: []truthStep{truthHang},
		read:  "nc delay wr DEADLINE_EXCEEDED left=6 in=2s runs=3",
		idem:  "unk delay wr OUTCOME_UNKNOWN left=6 in=2s runs=3",
		write: "unk never vo OUTCOME_UNKNOWN runs=1",
	},
	{
		row: "sent, no answer", when: "the tool ignores its deadline", does: []truthStep{truthDeaf(30*time.Second, truthInDoubt)},
		read:  "nc delay wr DEADLINE_EXCEEDED left=6 in=2s runs=3",
		idem:  "unk delay wr OUTCOME_UNKNOWN left=6 in=2s runs=3",
		write: "unk never vo OUTCOME_UNKNOWN runs=1",
		after: func(w *truthWorld) {
			if w.effect == toolexec.Write {
				assert.Equal(w.t, 2*time.Second, time.Since(w.began), "an attempt is cut at its deadline")
			}
		},
	},
	{
		row: "sent, no answer", when: "a dial of a tool that may have sent before", does: []truthStep{truthFail(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})},
		read:  "nc delay wr DEPENDENCY_UNAVAILABLE left=6 in=2s runs=3",
		idem:  "unk delay wr OUTCOME_UNKNOWN left=6 in=2s runs=3",
		write: "unk never vo OUTCOME_UNKNOWN runs=1",
	},
	{
		row: "sent, no answer", when: "looked up: found", does: []truthStep{truthInDoubt}, tool: truthVerify(truthFound, truthLook{}),
		idem: "ok found lookup runs=3", write: "ok found lookup runs=1", after: truthLookupsAre(1),
	},
	{
		row: "sent, no answer", when: "looked up: absent too early", does: []truthStep{truthInDoubt}, tool: truthVerify(truthAbsent, truthLook{Authoritative: true}),
		write: "unk never vo OUTCOME_UNKNOWN in=30s runs=1", after: truthLookupsAre(1),
	},
	{
		row: "sent, no answer", when: "looked up: absent and settled", does: []truthStep{truthInDoubt, truthSucceed}, tool: truthVerify(truthAbsent, truthLook{Authoritative: true, Settle: -1}),
		write: "ok r2 runs=2", after: truthLookupsAre(1),
	},
	{
		row: "sent, no answer", when: "looked up: absent, but it cannot be believed", does: []truthStep{truthInDoubt}, tool: truthVerify(truthAbsent, truthLook{Settle: -1}),
		write: "unk never vo OUTCOME_UNKNOWN in=500ms runs=1", after: truthLookupsAre(1),
	},
	{
		row: "sent, no answer", when: "looked up: cannot tell", does: []truthStep{truthInDoubt}, tool: truthVerify(truthCannotTell, truthLook{}),
		write: "unk never vo OUTCOME_UNKNOWN in=500ms runs=1", after: truthLookupsAre(1),
	},
	{
		row: "sent, no answer", when: "looked up: look-ups spent", does: []truthStep{truthInDoubt}, tool: truthVerify(truthCannotTell, truthLook{MaxChecks: 1}),
		write: "unk never es VERIFICATION_UNAVAILABLE runs=1", after: truthLookupsAre(1),
	},
	{
		row: "sent, no answer", when: "declared unverifiable", does: []truthStep{truthInDoubt}, tool: func(t *truthTool) { t.Unverifiable = true },
		write: "unk never es OUTCOME_UNKNOWN runs=1",
	},
	{
		row: "caller cancelled after sending", does: []truthStep{truthHang}, ask: truthCancelled(time.Second),
		read:  "nc delay wr CANCELLED left=8 runs=1",
		idem:  "unk delay wr CANCELLED left=8 runs=1",
		write: "unk never vo CANCELLED runs=1",
	},
	{
		row: "caller cancelled after sending", when: "the tool ignores it", does: []truthStep{truthDeaf(30*time.Second, truthInDoubt)}, ask: truthCancelled(time.Second),
		read:  "nc delay wr CANCELLED left=8 runs=1",
		idem:  "unk delay wr CANCELLED left=8 runs=1",
		write: "unk never vo CANCELLED runs=1",
	},
	{
		row: "rejected, nothing unresolved", when: "for its input", does: []truthStep{truthInvalid},
		read:  "nc fix ci INVALID_ARGUMENTS left=8 runs=1", // a read has no corrections to count
		idem:  "nc fix ci INVALID_ARGUMENTS left=1 runs=1",
		write: "nc fix ci INVALID_ARGUMENTS left=1 runs=1",
	},
	{
		row: "rejected, nothing unresolved", when: "not found", does: truthRejects(toolexec.CodeNotFound),
		read:  "nc fix ci NOT_FOUND left=8 runs=1",
		idem:  "nc fix ci NOT_FOUND left=8 runs=1",
		write: "nc fix ci NOT_FOUND left=8 runs=1",
	},
	{
		row: "rejected, nothing unresolved", when: "permission", does: truthRejects(toolexec.CodePermissionDenied),
		read:  "nc never ra PERMISSION_DENIED runs=1",
		idem:  "nc never ra PERMISSION_DENIED runs=1",
		write: "nc never ra PERMISSION_DENIED runs=1",
	},
	{
		row: "rejected, nothing unresolved", when: "credentials", does: truthRejects(toolexec.CodeAuthenticationRequired),
		read:  "nc never es AUTHENTICATION_REQUIRED runs=1",
		idem:  "nc never es AUTHENTICATION_REQUIRED runs=1",
		write: "nc never es AUTHENTICATION_REQUIRED runs=1",
	},
	{
		row: "rejected, nothing unresolved", when: "conflict", does: []truthStep{truthRefused},
		read:  "nc never es CONFLICT runs=1",
		idem:  "nc never es CONFLICT runs=1",
		write: "nc never es CONFLICT runs=1",
	},
	{
		row: "rejected, nothing unresolved", when: "transient", does: []truthStep{truthLimited(0)},
		read:  "nc delay wr RATE_LIMITED left=6 in=2s runs=3",
		idem:  "nc delay wr RATE_LIMITED left=6 in=2s runs=3",
		write: "nc delay wr RATE_LIMITED left=6 in=2s runs=3",
	},
	{
		row: "rejected, nothing unresolved", when: "a code of the tool's own", does: truthRejects("ORDER_LOCKED"),
		read:  "nc never es ORDER_LOCKED runs=1",
		idem:  "nc never es ORDER_LOCKED runs=1",
		write: "nc never es ORDER_LOCKED runs=1",
	},
	{
		row: "rejected, an earlier attempt unresolved", when: "permanent", does: []truthStep{truthInDoubt, truthRefused},
		read: "nc never es CONFLICT runs=2",
		idem: "unk never vo CONFLICT runs=2",
	},
	{
		row: "rejected, an earlier attempt unresolved", when: "for its input", does: []truthStep{truthInDoubt, truthInvalid},
		read: "nc fix ci INVALID_ARGUMENTS left=7 runs=2",
		idem: "unk never vo INVALID_ARGUMENTS runs=2",
	},
	{
		row: "rejected, an earlier attempt unresolved", when: "transient", does: []truthStep{truthInDoubt, truthLimited(20 * time.Second)},
		read: "nc delay wr RATE_LIMITED left=7 in=20s runs=2",
		idem: "unk delay wr RATE_LIMITED left=7 in=20s runs=2",
	},
	{
		// A Write with an unresolved attempt is not sent again, so it takes a person who forced the
		// matter while an attempt was alive, and that attempt's heartbeat.
		row: "rejected, an earlier attempt unresolved", when: "an attempt that a person gave up lives on", leased: true,
		does: []truthStep{truthDeaf(40*time.Second, truthInDoubt), truthDeaf(20*time.Second, truthRefused)},
		ask: func(w *truthWorld) truthAnswer {
			w.must("unk never vo OUTCOME_UNKNOWN runs=1", truthRef, truthOrder)
			by := truthBoss
			by.Force = true
			_, err := w.supervisor().Resolve(w.t.Context(), w.key(), toolexec.NotCommitted, by)
			require.NoError(w.t, err)
			return w.process(truthSlow).call(truthRef, truthOrder)
		},
		write: "unk never vo CONFLICT runs=2",
	},
	{
		row: "success", does: []truthStep{truthSucceed},
		read:  "ok r1 runs=1",
		idem:  "ok r1 runs=1",
		write: "ok r1 runs=1",
	},
	{
		row: "success", when: "with a minted ref", does: []truthStep{truthSucceed}, ask: func(w *truthWorld) truthAnswer {
			a := w.call("", truthOrder)
			if w.effect == toolexec.ReadOnly {
				assert.Empty(w.t, a.OperationRef, "a read's ref is minted only when a failure needs one")
				a.OperationRef = "none"
			}
			return a
		},
		read:  "ok r1 runs=1",
		idem:  "ok r1 runs=1",
		write: "ok r1 runs=1",
	},
	{
		row: "marked committed, then failure", when: "error", does: []truthStep{truthMark(truthRefused)},
		idem: "ok marked runs=1", write: "ok marked runs=1",
	},
	{
		row: "marked committed, then failure", when: "transient error", does: []truthStep{truthMark(truthInDoubt)},
		idem: "ok marked runs=1", write: "ok marked runs=1",
	},
	{
		row: "marked committed, then failure", when: "panic", does: []truthStep{truthMark(truthPanic)},
		idem: "ok marked runs=1", write: "ok marked runs=1",
	},
	{
		row: "marked committed, then failure", when: "goexit", does: []truthStep{truthMark(truthGoexit)},
		idem: "ok marked runs=1", write: "ok marked runs=1",
	},
	{
		row: "marked committed, then failure", when: "deadline", does: []truthStep{truthMark(truthDeaf(30*time.Second, truthSucceed))},
		idem: "ok marked runs=1", write: "ok marked runs=1",
	},
	{
		row: "success; result breaks the output contract, is not encodable or too large to keep", when: "breaks the contract", does: []truthStep{truthSucceed},
		tool: func(t *truthTool) { t.OutputSchema = json.RawMessage(`{"type":"object","required":["total"]}`) },
		read: "nc never es RESULT_MALFORMED runs=1", idem: "ok no result noted runs=1", write: "ok no result noted runs=1",
	},
	{
		row: "success; result breaks the output contract, is not encodable or too large to keep", when: "not encodable, by name", does: []truthStep{truthResult("unencodable")},
		doors: "Execute ExecuteAll",
		read:  "nc never es RESULT_MALFORMED runs=1", idem: "ok no result noted runs=1", write: "ok no result noted runs=1",
	},
	{
		row: "success; result breaks the output contract, is not encodable or too large to keep", when: "not encodable, typed", does: []truthStep{truthResult("unencodable")},
		doors: "Call",
		read:  "ok unencodable noted runs=1", idem: "ok unencodable noted runs=1", write: "ok unencodable noted runs=1",
	},
	{
		row: "success; result breaks the output contract, is not encodable or too large to keep", when: "too large to keep", does: []truthStep{truthSucceed},
		tool: func(t *truthTool) { t.MaxResult = 5 },
		read: "ok r1 runs=1", idem: "ok r1 noted runs=1", write: "ok r1 noted runs=1",
	},
	{
		row: "success; result breaks the output contract, is not encodable or too large to keep", when: "too large to keep, again", does: []truthStep{truthSucceed},
		tool: func(t *truthTool) { t.MaxResult = -1 }, ask: truthTwice("ok r1 noted runs=1", 0),
		idem: "ok no result replayed noted runs=1", write: "ok no result replayed noted runs=1",
	},
	{
		row: "accepted, not finished (202)", does: []truthStep{truthPending(20 * time.Second)},
		read:  "nc delay wr OPERATION_PENDING left=8 in=20s runs=1",
		idem:  "unk never vo OPERATION_PENDING in=20s runs=1",
		write: "unk never vo OPERATION_PENDING in=20s runs=1",
	},
	{
		row: "accepted, not finished (202)", when: "without a time", does: []truthStep{truthPending(0)},
		idem:  "unk never vo OPERATION_PENDING runs=1",
		write: "unk never vo OPERATION_PENDING runs=1",
	},
	{
		row: "empty result (nil, nothing, length 0, sql.ErrNoRows)", when: "sql.ErrNoRows", does: []truthStep{truthFail(sql.ErrNoRows)},
		tool: func(t *truthTool) { t.OneRequest = true },
		read: "nc fix ci EMPTY_RESULT left=8 runs=1",
		// An error of a tool that changes something is no result: its statement changed no row.
		idem:  "nc fix ci EMPTY_RESULT left=8 runs=1",
		write: "nc fix ci EMPTY_RESULT left=8 runs=1",
	},
	{
		row: "panic / Goexit (a tool that marks its sends, before marking: nc)", when: "panic", does: []truthStep{truthPanic},
		read:  "nc never es TOOL_PANIC runs=1",
		idem:  "unk never vo TOOL_PANIC runs=1",
		write: "unk never vo TOOL_PANIC runs=1",
	},
	{
		row: "panic / Goexit (a tool that marks its sends, before marking: nc)", when: "goexit", does: []truthStep{truthGoexit},
		read:  "nc never es TOOL_PANIC runs=1",
		idem:  "unk never vo TOOL_PANIC runs=1",
		write: "unk never vo TOOL_PANIC runs=1",
	},
	{
		row: "panic / Goexit (a tool that marks its sends, before marking: nc)", when: "goexit on the caller's goroutine", does: []truthStep{truthGoexit},
		doors: "ExecuteAll", tool: func(t *truthTool) { t.Cooperative = true },
		read:  "nc never es TOOL_PANIC runs=1",
		idem:  "unk never vo TOOL_PANIC runs=1",
		write: "unk never vo TOOL_PANIC runs=1",
	},
	{
		row: "panic / Goexit (a tool that marks its sends, before marking: nc)", when: "goexit on the caller's goroutine, with a minted ref", does: []truthStep{truthGoexit},
		doors: "ExecuteAll", tool: func(t *truthTool) { t.Cooperative = true },
		ask:   func(w *truthWorld) truthAnswer { return w.call("", truthOrder) },
		idem:  "unk never vo TOOL_PANIC runs=1",
		write: "unk never vo TOOL_PANIC runs=1",
	},
	{
		row: "panic / Goexit (a tool that marks its sends, before marking: nc)", when: "before marking", does: []truthStep{truthPanic},
		tool: func(t *truthTool) { t.MarksSent = true },
		idem: "nc never es TOOL_PANIC runs=1", write: "nc never es TOOL_PANIC runs=1",
	},
	{
		row: "panic / Goexit (a tool that marks its sends, before marking: nc)", when: "after marking", does: []truthStep{truthSend(truthPanic)},
		tool: func(t *truthTool) { t.MarksSent = true },
		idem: "unk never vo TOOL_PANIC runs=1", write: "unk never vo TOOL_PANIC runs=1",
	},
	{
		row: "record committed, same fingerprint", does: []truthStep{truthSucceed}, ask: truthTwice("ok r1 runs=1", time.Minute),
		idem: "ok r1 replayed runs=1", write: "ok r1 replayed runs=1",
	},
	{
		row: "record committed, same fingerprint", when: "by another process", leased: true, does: []truthStep{truthSucceed},
		ask: func(w *truthWorld) truthAnswer {
			w.process(w.row.policy).must("ok r1 runs=1", truthRef, truthOrder)
			return w.call(truthRef, truthOrder)
		},
		idem: "ok r1 replayed runs=1", write: "ok r1 replayed runs=1",
	},
	{
		row: "record committed, result no longer kept", keep: time.Minute, does: []truthStep{truthSucceed},
		ask: func(w *truthWorld) truthAnswer {
			w.must("ok r1 runs=1", truthRef, truthOrder)
			time.Sleep(time.Minute)
			a := w.call(truthRef, truthOrder)
			assert.ErrorIs(w.t, a.value, toolexec.ErrNoResult)
			return a
		},
		idem: "ok no result replayed noted runs=1", write: "ok no result replayed noted runs=1",
	},
	{
		row: "record rejected: unchanged / corrected / corrections spent", when: "unchanged", does: []truthStep{truthInvalid, truthSucceed},
		ask:  truthTwice("nc fix ci INVALID_ARGUMENTS left=1 runs=1", time.Minute),
		idem: "nc fix ci UNCHANGED_RETRY left=1 runs=1", write: "nc fix ci UNCHANGED_RETRY left=1 runs=1",
	},
	{
		row: "record rejected: unchanged / corrected / corrections spent", when: "corrected", does: []truthStep{truthInvalid, truthSucceed},
		ask:  truthWithOther("nc fix ci INVALID_ARGUMENTS left=1 runs=1"),
		idem: "ok r2 runs=2", write: "ok r2 runs=2",
	},
	{
		row: "record rejected: unchanged / corrected / corrections spent", when: "corrections spent", does: []truthStep{truthInvalid},
		ask: func(w *truthWorld) truthAnswer {
			w.must("nc fix ci INVALID_ARGUMENTS left=1 runs=1", truthRef, truthOrder)
			w.call(truthRef, truthOther)
			return w.call(truthRef, truthThird)
		},
		idem: "nc never es INVALID_ARGUMENTS runs=2", write: "nc never es INVALID_ARGUMENTS runs=2",
	},
	{
		row: "record in flight elsewhere, our time is up", when: "in another process", leased: true, does: []truthStep{truthDeaf(30*time.Second, truthSucceed)},
		ask:  truthElsewhere(func(w *truthWorld) truthAnswer { return w.call(truthRef, truthOrder) }),
		idem: "unk delay wr OPERATION_IN_PROGRESS left=8 runs=1", write: "unk delay wr OPERATION_IN_PROGRESS left=8 runs=1",
		after: func(w *truthWorld) { assert.Equal(w.t, 10*time.Second, time.Since(w.began)) },
	},
	{
		row: "record in flight elsewhere, our time is up", when: "in this process", policy: truthSlow, does: []truthStep{truthDeaf(30*time.Second, truthSucceed)},
		ask: func(w *truthWorld) truthAnswer {
			w.beside.Go(func() { w.call(truthRef, truthOrder) })
			synctest.Wait()
			ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
			defer cancel()
			return w.callIn(ctx, truthRef, truthOrder)
		},
		idem: "unk delay wr OPERATION_IN_PROGRESS left=8 runs=1", write: "unk delay wr OPERATION_IN_PROGRESS left=8 runs=1",
	},
	{
		row: "record in flight, lease over", leased: true, does: []truthStep{truthDeaf(40*time.Second, truthInDoubt), truthSucceed},
		ask:  func(w *truthWorld) truthAnswer { w.crash(); return w.call(truthRef, truthOrder) },
		idem: "ok r2 runs=2", write: "unk never vo OUTCOME_UNKNOWN runs=1",
		policy: toolexec.Policy{MaxRetries: -1},
	},
	{
		row: "record in flight, lease over", when: "looked up", leased: true, does: []truthStep{truthDeaf(40*time.Second, truthInDoubt), truthSucceed},
		ask: func(w *truthWorld) truthAnswer { w.crash(); return w.call(truthRef, truthOrder) }, tool: truthVerify(truthFound, truthLook{}),
		idem: "ok r2 runs=2", write: "ok found replayed lookup runs=1",
		policy: toolexec.Policy{MaxRetries: -1},
	},
	{
		row: "record in flight, lease over", when: "looked up: absent and settled", leased: true, does: []truthStep{truthDeaf(40*time.Second, truthInDoubt), truthSucceed},
		ask:   func(w *truthWorld) truthAnswer { w.crash(); return w.call(truthRef, truthOrder) },
		tool:  truthVerify(truthAbsent, truthLook{Authoritative: true}),
		write: "ok r2 runs=2", policy: toolexec.Policy{MaxRetries: -1},
	},
	{
		row: "record unknown", when: "at once", does: []truthStep{truthInDoubt}, policy: toolexec.Policy{MaxRetries: -1},
		ask: func(w *truthWorld) truthAnswer { w.call(truthRef, truthOrder); return w.call(truthRef, truthOrder) },
		// A ref that is to be sent again is not sent before its not_before.
		idem: "unk delay wr OUTCOME_UNKNOWN left=8 in=500ms runs=1", write: "unk never vo OUTCOME_UNKNOWN runs=1",
	},
	{
		row: "record unknown", when: "later", does: []truthStep{truthInDoubt, truthSucceed}, policy: toolexec.Policy{MaxRetries: -1},
		ask: func(w *truthWorld) truthAnswer {
			w.call(truthRef, truthOrder)
			time.Sleep(time.Minute)
			return w.call(truthRef, truthOrder)
		},
		idem: "ok r2 runs=2", write: "unk never vo OUTCOME_UNKNOWN runs=1",
	},
	{
		row: "record unknown", when: "the remote side has forgotten the ref", does: []truthStep{truthInDoubt, truthSucceed}, policy: toolexec.Policy{MaxRetries: -1},
		tool: func(t *truthTool) { t.DedupeWindow = time.Minute },
		ask:  truthTwice("unk delay wr OUTCOME_UNKNOWN left=8 in=500ms runs=1", time.Minute),
		idem: "unk never vo OUTCOME_UNKNOWN runs=1",
	},
	{
		row: "record unknown", when: "the remote side has forgotten the ref, due: found", does: []truthStep{truthInDoubt, truthSucceed}, policy: toolexec.Policy{MaxRetries: -1},
		tool: func(t *truthTool) {
			t.DedupeWindow = time.Minute
			truthVerifyThen(truthAbsent, truthFound)(t)
		},
		ask:  truthTwice("unk delay wr OUTCOME_UNKNOWN left=8 in=500ms runs=1", time.Minute),
		idem: "ok found replayed lookup runs=1", after: truthLookupsAre(2),
	},
	{
		row: "record unknown", when: "due: found", does: []truthStep{truthInDoubt}, tool: truthVerifyThen(truthAbsent, truthFound),
		ask:   truthTwice("unk never vo OUTCOME_UNKNOWN in=30s runs=1", 30*time.Second),
		write: "ok found replayed lookup runs=1", after: truthLookupsAre(2),
	},
	{
		row: "record unknown", when: "due: absent and settled", does: []truthStep{truthInDoubt, truthSucceed}, tool: truthVerify(truthAbsent, truthLook{Authoritative: true}),
		ask:   truthTwice("unk never vo OUTCOME_UNKNOWN in=30s runs=1", 30*time.Second),
		write: "ok r2 runs=2", after: truthLookupsAre(2),
	},
	{
		row: "record unknown", when: "not due", does: []truthStep{truthInDoubt, truthSucceed}, tool: truthVerify(truthAbsent, truthLook{Authoritative: true}),
		ask:   truthTwice("unk never vo OUTCOME_UNKNOWN in=30s runs=1", 10*time.Second),
		write: "unk never vo OUTCOME_UNKNOWN in=20s runs=1", after: truthLookupsAre(1),
	},
	{
		row: "record unknown", when: "due: cannot tell", does: []truthStep{truthInDoubt, truthSucceed}, tool: truthVerify(truthCannotTell, truthLook{}),
		ask:   truthTwice("unk never vo OUTCOME_UNKNOWN in=500ms runs=1", 500*time.Millisecond),
		write: "unk never vo OUTCOME_UNKNOWN in=1s runs=1", after: truthLookupsAre(2),
	},
	{
		row: "record awaiting approval", tool: truthNeedsApproval, does: []truthStep{truthSucceed},
		ask:  truthTwice("nc never ra MISSING_APPROVAL runs=0", time.Minute),
		idem: "nc never ra MISSING_APPROVAL runs=0", write: "nc never ra MISSING_APPROVAL runs=0",
	},
	{
		row: "record escalated", when: "unverifiable", does: []truthStep{truthInDoubt}, tool: func(t *truthTool) { t.Unverifiable = true },
		ask:   truthTwice("unk never es OUTCOME_UNKNOWN runs=1", time.Minute),
		write: "unk never es OUTCOME_UNKNOWN runs=1",
	},
	{
		row: "record escalated", when: "conflict", does: []truthStep{truthInDoubt}, tool: truthVerify(truthConflicting, truthLook{}),
		ask:   truthTwice("unk never es VERIFICATION_CONFLICT runs=1", time.Minute),
		write: "unk never es VERIFICATION_CONFLICT runs=1",
	},
	{
		row: "record escalated", when: "budget spent", does: []truthStep{truthNotSent}, policy: toolexec.Policy{MaxAttempts: 3},
		ask:  truthTwice("nc never es DEPENDENCY_UNAVAILABLE runs=3", time.Minute),
		idem: "nc never es DEPENDENCY_UNAVAILABLE runs=3", write: "nc never es DEPENDENCY_UNAVAILABLE runs=3",
	},
	{
		row: "record released, before not_before", does: []truthStep{truthLimited(20 * time.Second), truthSucceed},
		ask:  truthTwice("nc delay wr RATE_LIMITED left=8 in=20s runs=1", 5*time.Second),
		idem: "nc delay wr RATE_LIMITED left=8 in=15s runs=1", write: "nc delay wr RATE_LIMITED left=8 in=15s runs=1",
	},
	{
		row: "record released, before not_before", when: "and then", does: []truthStep{truthLimited(20 * time.Second), truthSucceed},
		ask:  truthTwice("nc delay wr RATE_LIMITED left=8 in=20s runs=1", 20*time.Second),
		idem: "ok r2 runs=2", write: "ok r2 runs=2",
	},
	{
		row: "other fingerprint or tool under this ref; record committed, awaiting approval or escalated", when: "committed", does: []truthStep{truthSucceed},
		ask: func(w *truthWorld) truthAnswer {
			w.call(truthRef, truthOrder)
			a := w.call(truthRef, truthOther)
			assert.Contains(w.t, a.AgentMessage, "names another operation, which was carried out")
			return a
		},
		idem: "nc never es OPERATION_REF_REUSED existing=committed runs=1", write: "nc never es OPERATION_REF_REUSED existing=committed runs=1",
	},
	{
		row: "other fingerprint or tool under this ref; record committed, awaiting approval or escalated", when: "committed by another tool", does: []truthStep{truthSucceed}, doors: "Call",
		ask:  truthWithAnotherTool("ok r1 runs=1"),
		idem: "nc never es OPERATION_REF_REUSED existing=committed runs=1", write: "nc never es OPERATION_REF_REUSED existing=committed runs=1",
	},
	{
		row: "other fingerprint or tool under this ref; record committed, awaiting approval or escalated", when: "awaiting approval", does: []truthStep{truthSucceed}, tool: truthNeedsApproval,
		ask:  truthWithOther("nc never ra MISSING_APPROVAL runs=0"),
		idem: "nc never es OPERATION_REF_REUSED existing=not_committed runs=0", write: "nc never es OPERATION_REF_REUSED existing=not_committed runs=0",
	},
	{
		row: "other fingerprint or tool under this ref; record committed, awaiting approval or escalated", when: "escalated", does: []truthStep{truthInDoubt},
		tool:  func(t *truthTool) { t.Unverifiable = true },
		ask:   truthWithOther("unk never es OUTCOME_UNKNOWN runs=1"),
		write: "nc never es OPERATION_REF_REUSED existing=unknown runs=1",
	},
	{
		row: "other fingerprint or tool under this ref; record committed, awaiting approval or escalated", when: "a released record accepts new arguments", does: []truthStep{truthRefused, truthSucceed},
		ask:  truthWithOther("nc never es CONFLICT runs=1"),
		idem: "ok r2 runs=2", write: "ok r2 runs=2",
	},
	{
		row: "the same; record in flight or unknown", when: "unknown", does: []truthStep{truthInDoubt}, policy: toolexec.Policy{MaxRetries: -1},
		ask: func(w *truthWorld) truthAnswer {
			w.call(truthRef, truthOrder)
			a := w.call(truthRef, truthOther)
			assert.Contains(w.t, a.AgentMessage, "may have been carried out")
			return a
		},
		idem: "nc never vo OPERATION_REF_REUSED existing=unknown runs=1", write: "nc never vo OPERATION_REF_REUSED existing=unknown runs=1",
	},
	{
		row: "the same; record in flight or unknown", when: "unknown, another tool", does: []truthStep{truthInDoubt}, policy: toolexec.Policy{MaxRetries: -1}, doors: "Call",
		ask:  func(w *truthWorld) truthAnswer { w.call(truthRef, truthOrder); return truthAnotherTool(w) },
		idem: "nc never vo OPERATION_REF_REUSED existing=unknown runs=1", write: "nc never vo OPERATION_REF_REUSED existing=unknown runs=1",
	},
	{
		row: "the same; record in flight or unknown", when: "in flight in another process", leased: true, does: []truthStep{truthDeaf(30*time.Second, truthSucceed)},
		ask:  truthElsewhere(func(w *truthWorld) truthAnswer { return w.call(truthRef, truthOther) }),
		idem: "nc never vo OPERATION_REF_REUSED existing=unknown runs=1", write: "nc never vo OPERATION_REF_REUSED existing=unknown runs=1",
	},
	{
		row: "store unavailable at begin", when: "the ref was minted in this call", leased: true, does: []truthStep{truthSucceed},
		ask:  func(w *truthWorld) truthAnswer { w.road.set(true, true); return w.call("", truthOrder) },
		idem: "nc delay wr GUARD_UNAVAILABLE left=9 runs=0", write: "nc delay wr GUARD_UNAVAILABLE left=9 runs=0",
	},
	{
		row: "store unavailable at begin", when: "minted, and only the begin fails", leased: true, does: []truthStep{truthSucceed},
		ask:  func(w *truthWorld) truthAnswer { w.road.set(false, true); return w.call("", truthOrder) },
		idem: "nc delay wr GUARD_UNAVAILABLE left=9 runs=0", write: "nc delay wr GUARD_UNAVAILABLE left=9 runs=0",
	},
	{
		row: "store unavailable at begin", when: "else", leased: true, does: []truthStep{truthSucceed},
		ask:  func(w *truthWorld) truthAnswer { w.road.set(true, true); return w.call(truthRef, truthOrder) },
		idem: "unk delay wr GUARD_UNAVAILABLE left=9 runs=0", write: "unk delay wr GUARD_UNAVAILABLE left=9 runs=0",
	},
	{
		row: "store unavailable at begin", when: "and then it is back", leased: true, does: []truthStep{truthSucceed},
		ask: func(w *truthWorld) truthAnswer {
			w.road.set(true, true)
			w.must("unk delay wr GUARD_UNAVAILABLE left=9 runs=0", truthRef, truthOrder)
			w.road.set(false, false)
			return w.call(truthRef, truthOrder)
		},
		idem: "ok r1 runs=1", write: "ok r1 runs=1",
	},
	{
		row: "budget spent, not committed", when: "of the call", does: []truthStep{truthNotSent}, policy: toolexec.Policy{MaxRetries: 8, MaxPause: time.Minute},
		read:  "nc delay wr DEPENDENCY_UNAVAILABLE left=4 in=8s runs=5", // the fifth pause would end after the total deadline
		idem:  "nc delay wr DEPENDENCY_UNAVAILABLE left=4 in=8s runs=5",
		write: "nc delay wr DEPENDENCY_UNAVAILABLE left=4 in=8s runs=5",
	},
	{
		row: "budget spent, not committed", when: "of the call, an attempt unresolved", does: []truthStep{truthInDoubt, truthNotSent},
		idem: "unk delay wr OUTCOME_UNKNOWN left=6 in=2s runs=3",
	},
	{
		row: "budget spent, not committed", when: "for life", does: []truthStep{truthNotSent}, policy: toolexec.Policy{MaxAttempts: 2},
		read: "nc delay wr DEPENDENCY_UNAVAILABLE in=1s runs=2",
		idem: "nc never es DEPENDENCY_UNAVAILABLE runs=2", write: "nc never es DEPENDENCY_UNAVAILABLE runs=2",
	},
	{
		row: "budget spent, not committed", when: "for life, an attempt unresolved", does: []truthStep{truthInDoubt}, policy: toolexec.Policy{MaxAttempts: 3},
		ask: func(w *truthWorld) truthAnswer {
			w.call(truthRef, truthOrder)
			time.Sleep(time.Minute)
			return w.call(truthRef, truthOrder)
		},
		idem: "unk never es OUTCOME_UNKNOWN runs=3",
	},
}

// truthVerifyThen finds first once, and then what follows.
func truthVerifyThen(first, then func() (toolexec.Finding[truthOut], error)) func(*truthTool) {
	return func(t *truthTool) {
		find := first
		truthVerify(func() (toolexec.Finding[truthOut], error) {
			now := find
			find = then
			return now()
		}, truthLook{})(t)
	}
}

// truthStubborn is an argument that cannot be encoded.
type truthStubborn struct {
	Order string `json:"order"`
}

func (truthStubborn) MarshalJSON() ([]byte, error) { return nil, errors.New("a secret") }

type truthExplosive struct {
	Order string `json:"order"`
}

func (truthExplosive) MarshalJSON() ([]byte, error) { panic("a secret") }

// "bad arguments; input that cannot be encoded", through the only door that takes such an input.
func TestTruthInputThatCannotBeEncoded(t *testing.T) {
	truthUnencodable[truthStubborn](t, "an error")
	truthUnencodable[truthExplosive](t, "a panic")
}

func truthUnencodable[In any](t *testing.T, how string) {
	for _, effect := range []toolexec.Effect{toolexec.ReadOnly, toolexec.Idempotent, toolexec.Write} {
		t.Run(how+"/"+effect.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				runs := 0
				b := toolexec.Bind(&x, toolexec.Tool[In, truthOut]{Name: "refund", Effect: effect, Run: func(context.Context, In) (truthOut, error) {
					runs++
					return truthOut{}, nil
				}})
				var in In
				e := b.Call(toolexec.WithRunID(t.Context(), "run_81"), in)
				checkEnvelope(t, e)
				assert.Equal(t, toolexec.NotCommitted, e.CommitState)
				assert.Equal(t, toolexec.RetryAfterInputFix, e.Retry.Directive)
				assert.Equal(t, toolexec.NextCorrectInput, e.NextAction)
				assert.Equal(t, toolexec.CodeInvalidArguments, e.Code)
				assert.NotContains(t, e.AgentMessage+e.UserMessage, "secret")
				assert.Zero(t, runs)
			})
		})
	}
}

// "empty result", by what can be empty.
func TestTruthEmptyResult(t *testing.T) {
	truthEmpty[*truthOut](t, nil)
	truthEmpty(t, "")
	truthEmpty(t, []string{})
	truthEmpty[[]string](t, nil)
	truthEmpty(t, map[string]int{})
	truthEmpty[any](t, nil)
}

func truthEmpty[Out any](t *testing.T, empty Out) {
	for _, effect := range []toolexec.Effect{toolexec.ReadOnly, toolexec.Idempotent, toolexec.Write} {
		for _, fine := range []bool{false, true} {
			t.Run(fmt.Sprintf("%T/%v/%s/declared fine %t", empty, empty, effect, fine), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var x toolexec.Executor
					runs := 0
					b := toolexec.Bind(&x, toolexec.Tool[truthIn, Out]{
						Name: "find", Effect: effect, EmptyIsResult: fine,
						Run: func(context.Context, truthIn) (Out, error) { runs++; return empty, nil },
					})
					e := b.Call(t.Context(), truthOrder)
					checkEnvelope(t, e)
					assert.Equal(t, 1, runs)
					if effect == toolexec.ReadOnly && !fine {
						assert.Equal(t, toolexec.CodeEmptyResult, e.Code)
						assert.Equal(t, toolexec.NotCommitted, e.CommitState)
						assert.Equal(t, toolexec.RetryAfterInputFix, e.Retry.Directive)
						assert.Equal(t, toolexec.NextCorrectInput, e.NextAction)
						assert.Equal(t, toolexec.ClassEmptyResult, e.Class)
						return
					}
					assert.True(t, e.OK)
					assert.True(t, e.HasResult, "nothing is a result")
					assert.Equal(t, empty, e.Result)
					raw, err := json.Marshal(truthOrder)
					require.NoError(t, err)
					again := x.Execute(t.Context(), toolexec.Call{Name: "find", Arguments: raw, OperationRef: e.OperationRef})
					checkEnvelope(t, again)
					assert.True(t, again.OK)
					assert.True(t, again.HasResult)
				})
			})
		}
	}
}

// An empty value behind an interface is empty as well.
func TestTruthEmptyBehindInterface(t *testing.T) {
	for name, empty := range map[string]any{"text": "", "list": []int{}, "map": map[string]int{}, "pointer": (*truthOut)(nil)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x toolexec.Executor
				b := toolexec.Bind(&x, toolexec.Tool[truthIn, any]{
					Name: "find", Effect: toolexec.ReadOnly,
					Run: func(context.Context, truthIn) (any, error) { return empty, nil },
				})
				e := b.Call(t.Context(), truthOrder)
				checkEnvelope(t, e)
				assert.Equal(t, toolexec.CodeEmptyResult, e.Code)
			})
		})
	}
}

// A ref that an answer carries is one under which the tool ran: calling again with it is always safe.
func TestTruthRefOfAnAnswerIsTheOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		runs := 0
		toolexec.Bind(&x, toolexec.Tool[truthIn, truthOut]{Name: "refund", Cooperative: true, Run: func(context.Context, truthIn) (truthOut, error) {
			if runs++; runs == 1 {
				runtime.Goexit()
			}
			return truthOut{"r"}, nil
		}})
		call := toolexec.Call{Name: "refund", Arguments: json.RawMessage(`{"order":"ORD-1","cents":1}`)}
		first := x.ExecuteAll(t.Context(), []toolexec.Call{call})[0]
		checkEnvelope(t, first)
		assert.Equal(t, toolexec.CommitUnknown, first.CommitState)
		call.OperationRef = first.OperationRef
		second := x.ExecuteAll(t.Context(), []toolexec.Call{call})[0]
		checkEnvelope(t, second)
		assert.Equal(t, 1, runs, "the write was sent again")
		assert.Equal(t, toolexec.CommitUnknown, second.CommitState)
	})
}
