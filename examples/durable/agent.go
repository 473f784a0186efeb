package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	_ "modernc.org/sqlite" // pure Go: builds everywhere

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

// Refund is the input of the tool.
type Refund struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}

// Receipt is its result.
type Receipt struct {
	ID string `json:"id"`
}

// agent is the program that a user writes: a tool, an executor with a durable
// store, a supervisor for what an earlier process left behind.
func agent(ctx context.Context, out io.Writer, file, gateway, name string) error {
	say := func(format string, args ...any) {
		fmt.Fprintf(out, "%-8s "+format+"\n", append([]any{name + ":"}, args...)...)
	}

	db, err := sql.Open("sqlite", file)
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := sqlstore.Open(ctx, db, sqlstore.SQLite, sqlstore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()

	x := toolexec.Executor{
		Store:  store,
		Policy: toolexec.Policy{Deadline: 500 * time.Millisecond, TotalDeadline: time.Second},
	}
	api := api{gateway}
	refund := toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{
		Name:   "process_refund",
		Run:    api.post,
		Ref:    func(in Refund) string { return in.OrderID },
		Verify: &toolexec.Verifier[Refund, Receipt]{Lookup: api.lookUp, Authoritative: true, Settle: 2 * time.Second},
	})
	supervisor := toolexec.Supervisor{Executor: &x}

	order := Refund{OrderID: "ORD-5510", Cents: 8000}
	say("calls process_refund")
	env := refund.Call(ctx, order)
	say("%s, %s, %s", env.Code, env.CommitState, env.NextAction)
	if !env.OK {
		say("waits until it is known")
		final, err := supervisor.Wait(ctx, toolexec.Key{Ref: env.OperationRef})
		if err != nil {
			return err
		}
		say("%s, %s by %s: %s", final.Code, final.CommitState, final.Verification.Source, final.Result)
	}
	env = refund.Call(ctx, order)
	say("calls once more: %s, %s, replayed %t: %s", env.Code, env.CommitState, env.Replayed, env.Result.ID)
	return x.Close(ctx)
}

// api is the client of the gateway.
type api struct{ url string }

// post refunds. The operation ref is the key: it is the same in every attempt,
// in whatever process.
func (a api) post(ctx context.Context, in Refund) (Receipt, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return Receipt{}, toolexec.NotSent(err)
	}
	line, err := a.do(ctx, http.MethodPost, toolexec.OperationRef(ctx), bytes.NewReader(body))
	return Receipt{ID: line.Receipt}, err
}

// lookUp asks by the key. Only a clear "none" is absence.
func (a api) lookUp(ctx context.Context, ref string, in Refund) (toolexec.Finding[Receipt], error) {
	line, err := a.do(ctx, http.MethodGet, ref, nil)
	switch {
	case err != nil:
		return toolexec.Finding[Receipt]{}, err
	case line.Receipt == "":
		return toolexec.Absent[Receipt](), nil
	case line.Cents != in.Cents:
		return toolexec.Conflicting[Receipt](), nil
	}
	return toolexec.Found(Receipt{ID: line.Receipt}), nil
}

func (a api) do(ctx context.Context, method, key string, body io.Reader) (line refundLine, err error) {
	req, err := http.NewRequestWithContext(ctx, method, a.url, body)
	if err != nil {
		return line, toolexec.NotSent(err)
	}
	req.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return line, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
		err = json.NewDecoder(res.Body).Decode(&line)
		return line, err
	case http.StatusNotFound:
		return line, nil
	}
	return line, fmt.Errorf("the gateway answered %d", res.StatusCode)
}
