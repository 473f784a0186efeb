package httptool_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/httptool"
)

// gateway is a service that posts refunds and can be asked for them. It loses the
// answer to the first.
func gateway() *httptest.Server {
	posted := make(map[string]string)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{order}/refunds", func(w http.ResponseWriter, r *http.Request) {
		posted[r.Header.Get("Idempotency-Key")] = `{"receipt":"rcpt_1"}`
		panic(http.ErrAbortHandler) // the connection breaks, the refund stays
	})
	mux.HandleFunc("GET /refunds/{ref}", func(w http.ResponseWriter, r *http.Request) {
		if receipt, ok := posted[r.PathValue("ref")]; ok {
			_, _ = fmt.Fprint(w, receipt)
			return
		}
		http.NotFound(w, r)
	})
	return httptest.NewServer(mux)
}

// A refund over HTTP whose answer is lost is looked up, and not sent again.
func Example() {
	server := gateway()
	defer server.Close()

	type Refund struct {
		OrderID string `json:"order_id"`
		Cents   int    `json:"cents"`
	}
	type Receipt struct {
		Receipt string `json:"receipt"`
	}
	endpoint := &httptool.Endpoint[Refund, Receipt]{
		URL:               server.URL + "/orders/{order_id}/refunds",
		IdempotencyHeader: "Idempotency-Key",
	}
	lookup := &httptool.Lookup[Refund, Receipt]{URL: server.URL + "/refunds/{ref}"}

	tool := endpoint.Tool("process_refund")
	tool.Verify = &toolexec.Verifier[Refund, Receipt]{Lookup: lookup.Find, Authoritative: true}

	var x toolexec.Executor
	refund := toolexec.Bind(&x, tool)

	env := refund.Call(toolexec.WithOperationRef(context.Background(), "op-1"), Refund{OrderID: "ORD-5510", Cents: 8000})
	fmt.Println(env.Code, env.CommitState, "by", env.Verification.Source, env.Result.Receipt)
	// Output: OK committed by lookup rcpt_1
}

// A tool that makes its requests itself: it declares that it marks them, and
// leaves the marking to the Transport.
func ExampleTransport() {
	refuses := httptest.NewServer(http.NotFoundHandler())
	refuses.Close() // nobody listens there any more

	client := new(httptool.Transport).Client()
	var x toolexec.Executor
	pay := toolexec.Bind(&x, toolexec.Tool[int, string]{
		Name:      "pay",
		MarksSent: true,
		Policy:    toolexec.Policy{MaxRetries: -1},
		Run: func(ctx context.Context, cents int) (string, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, refuses.URL, http.NoBody)
			if err != nil {
				return "", err
			}
			resp, err := client.Do(req)
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			if err := httptool.CheckResponse(resp); err != nil {
				return "", err
			}
			var id string
			err = httptool.Decode(resp, 1<<10, &id)
			return id, err
		},
	})
	env := pay.Call(context.Background(), 8000)
	fmt.Println(env.Code, env.CommitState, env.NextAction)
	// Output: DEPENDENCY_UNAVAILABLE not_committed wait_and_retry
}

func ExampleChecker() {
	// A service whose 503 is its own, and which names the account's balance when it
	// refuses.
	service := &httptool.Checker{UnavailableIsRefusal: true, DetailMembers: []string{"balance"}}

	recorder := httptest.NewRecorder()
	recorder.Header().Set("Content-Type", "application/problem+json")
	recorder.WriteHeader(http.StatusPaymentRequired)
	_, _ = fmt.Fprint(recorder, `{"title":"Out of credit","balance":30}`)

	err := service.Check(recorder.Result())
	var f *toolexec.Failure
	fmt.Println(errors.As(err, &f), f.Code, f.Evidence, f.Details)
	// Output: true PAYMENT_REQUIRED rejected map[balance:30]
}
