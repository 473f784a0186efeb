package crash

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver of the records

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

// agent is a process that does the steps of its job.
type agent struct {
	job
	x   toolexec.Executor
	sup toolexec.Supervisor

	mu     sync.Mutex // protects visits
	visits map[string]int
}

// payment is the input of every tool.
type payment struct {
	Step string `json:"step"`
}

type receipt struct {
	Receipt string `json:"receipt"`
}

// runChild is the main function of a child.
func runChild(encoded string) error {
	a := &agent{visits: map[string]int{}}
	if err := json.Unmarshal([]byte(encoded), &a.job); err != nil {
		return err
	}
	ctx := context.Background()
	db, err := sql.Open("sqlite", a.File)
	if err != nil {
		return err
	}
	store, err := sqlstore.Open(ctx, db, sqlstore.SQLite, sqlstore.Options{})
	if err != nil {
		return err
	}
	a.x.Store = &lethalStore{Store: store, at: a.at}
	attempt, total := attemptDeadline, totalDeadline
	if a.Last { // it has to end also on a machine that is busy
		attempt, total = time.Second, 3*time.Second
	}
	a.x.Policy = toolexec.Policy{
		Deadline: attempt, TotalDeadline: total, MaxRetries: 2, MaxAttempts: -1,
		Backoff: toolexec.Backoff{Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond},
	}
	a.sup = toolexec.Supervisor{Executor: &a.x, Every: 50 * time.Millisecond}
	bound := a.bind(attempt)
	if a.Point == atRandom {
		time.AfterFunc(time.Duration(a.Visit)*time.Millisecond, die)
	}
	supervising, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = a.sup.Run(supervising) })
	if a.Patient {
		a.settle(ctx)
	}
	var steps sync.WaitGroup
	for _, s := range a.Steps {
		steps.Go(func() { a.do(ctx, bound[s.Tool], s) })
	}
	steps.Wait()
	if a.Last {
		a.settle(ctx)
	}
	stop()
	running.Wait()
	if err := a.x.Close(ctx); err != nil {
		return err
	}
	return store.Close()
}

type boundTool = *toolexec.Bound[payment, receipt]

func (a *agent) bind(patience time.Duration) map[string]boundTool {
	verify := &toolexec.Verifier[payment, receipt]{
		Lookup: a.lookUp, Authoritative: true, Settle: settle, Deadline: patience, MaxChecks: a.Checks,
	}
	key := func(in payment) string { return in.Step }
	all := map[string]boundTool{}
	for _, t := range []toolexec.Tool[payment, receipt]{
		{Name: toolKeyed, Ref: key},
		{Name: toolMarks, Ref: key, MarksSent: true},
		{Name: toolPlain},
		{Name: toolDedupe, Ref: key, Effect: toolexec.Idempotent},
	} {
		t.Verify = verify
		t.Run = func(ctx context.Context, in payment) (receipt, error) { return a.send(ctx, t.Name, in) }
		all[t.Name] = toolexec.Bind(&a.x, t)
	}
	return all
}

// die is SIGKILL, as the kernel's out-of-memory killer sends it.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// at dies at the visit of the point that was chosen.
func (a *agent) at(point string) {
	a.mu.Lock()
	a.visits[point]++
	dies := a.Point == point && a.visits[point] == a.Visit
	a.mu.Unlock()
	if dies {
		die()
	}
}

// send is the tools' function.
func (a *agent) send(ctx context.Context, tool string, in payment) (receipt, error) {
	if err := toolexec.MarkSent(ctx); err != nil {
		return receipt{}, err
	}
	a.at(beforeSend)
	var out receipt
	until, _ := ctx.Deadline()
	err := a.request(ctx, http.MethodPost, "/effect", url.Values{
		"step": {in.Step}, "ref": {toolexec.OperationRef(ctx)}, "tool": {tool}, "process": {a.Name},
		"until": {strconv.FormatInt(until.UnixNano(), 10)},
	}, &out)
	return out, err
}

func (a *agent) lookUp(ctx context.Context, ref string, in payment) (toolexec.Finding[receipt], error) {
	var hits int
	err := a.request(ctx, http.MethodGet, "/effect", url.Values{"step": {in.Step}, "ref": {ref}, "process": {a.Name}}, &hits)
	switch {
	case err != nil:
		return toolexec.Finding[receipt]{}, err
	case hits == 0:
		return toolexec.Absent[receipt](), nil
	}
	return toolexec.Found(receipt{Receipt: ref}), nil
}

// request asks the ledger. A connection is used once, so that nothing is sent
// again behind our back.
func (a *agent) request(ctx context.Context, method, path string, form url.Values, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, a.Ledger+path+"?"+form.Encode(), nil)
	if err != nil {
		return err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", res.StatusCode)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(raw, out)
	}
	return err
}

// settle waits until nothing is open, for as long as leases and settle windows
// can take.
func (a *agent) settle(ctx context.Context) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		open, _, err := a.sup.List(ctx, toolexec.Query{States: []toolexec.State{toolexec.StateInFlight, toolexec.StateUnknown}, Limit: 1})
		if err == nil && len(open) == 0 {
			return
		}
	}
}

// do issues a step: with its ref, and where the tool has a key of its own
// without one beside it. In the last life it goes on until the step is over.
func (a *agent) do(ctx context.Context, tool boundTool, s step) {
	refs := []string{"run/" + s.ID}
	if s.Tool != toolPlain {
		refs = append(refs, "")
	}
	var both sync.WaitGroup
	for _, ref := range refs {
		both.Go(func() {
			for {
				since := a.clock(ctx)
				call := ctx
				if ref != "" {
					call = toolexec.WithOperationRef(ctx, ref)
				}
				env := tool.Call(call, payment{Step: s.ID})
				a.tell(ctx, told{
					Step: s.ID, Process: a.Name, OK: env.OK, CommitState: env.CommitState.String(), Code: string(env.Code), Since: since,
				})
				if env.OK || !a.Last || env.NextAction == toolexec.NextEscalate {
					return
				}
				time.Sleep(min(max(time.Until(env.Retry.NotBefore), 20*time.Millisecond), 500*time.Millisecond))
			}
		})
	}
	both.Wait()
}

func (a *agent) clock(ctx context.Context) int {
	var raw json.RawMessage
	if a.request(ctx, http.MethodGet, "/clock", nil, &raw) != nil {
		return 0 // claims nothing
	}
	n, _ := strconv.Atoi(string(raw))
	return n
}

func (a *agent) tell(ctx context.Context, t told) {
	raw, _ := json.Marshal(t) // plain data
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.Ledger+"/told", bytes.NewReader(raw))
	if err != nil {
		return
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

// lethalStore is a store with points at which the process dies.
type lethalStore struct {
	*sqlstore.Store
	at func(point string)
}

func (s *lethalStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	before, after := "", ""
	switch r.State {
	case toolexec.StateInFlight:
		if !r.Sent {
			before, after = beforeRecord, afterRecord
		}
	case toolexec.StateCommitted, toolexec.StateUnknown:
		before, after = beforeResult, afterResult
	}
	if before != "" {
		s.at(before)
	}
	stored, err := s.Store.Save(ctx, r)
	if after != "" {
		s.at(after)
	}
	return stored, err
}
