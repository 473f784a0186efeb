package httptool_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/httptool"
	"github.com/toolexec/toolexec/toolexectest"
)

// bank posts payments by key, and can be asked for them.
type bank struct {
	ledger toolexectest.Ledger
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch r.Method {
	case http.MethodGet:
		if b.ledger.Effects(r.URL.Query().Get("ref")) == 0 {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"receipt":"r"}`)
	default:
		b.ledger.Record(r.Header.Get("Idempotency-Key"), "r")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"receipt":"r"}`)
	}
}

// befall is a fault of the way, and how a Write without a verifier ends when its
// first request meets it.
type befall struct {
	name    string
	fault   toolexectest.HTTPFault
	refused bool                 // nobody listens at the first dial
	late    bool                 // the deadline has to pass
	want    toolexec.CommitState // of the Write alone
	effect  bool                 // there is one then
}

var befalls = []befall{
	{"nothing", fault{}, false, false, com, true},
	{"connection refused", fault{}, true, false, com, true}, // retried: nothing was sent
	{"dropped before", fault{Request: leg{Close: true}}, false, false, unk, false},
	{"reset before", fault{Request: leg{Reset: true}}, false, false, unk, false},
	{"lost before", fault{Request: leg{Drop: true}}, false, true, unk, false},
	{"refused by a limiter", fault{Request: leg{Status: 429}}, false, false, com, true}, // retried: nothing was done
	{"503 before", fault{Request: leg{Status: 503}}, false, false, unk, false},
	{"slow", fault{Request: leg{Delay: time.Millisecond}}, false, false, com, true},
	{"twice", fault{Duplicate: 1}, false, false, com, true},
	{"dropped after", fault{Answer: leg{Close: true}}, false, false, unk, true},
	{"reset after", fault{Answer: leg{Reset: true}}, false, false, unk, true},
	{"lost after", fault{Answer: leg{Drop: true}}, false, true, unk, true},
	{"503 after", fault{Answer: leg{Status: 503}}, false, false, unk, true},
	{"cut off", fault{Answer: leg{Cut: true}}, false, false, com, true},
	{"garbled", fault{Answer: leg{Garble: true}}, false, false, unk, true},
	{"answered slowly", fault{Answer: leg{Delay: time.Millisecond}}, false, false, com, true},
}

type (
	fault = toolexectest.HTTPFault
	leg   = toolexectest.HTTPLeg
)

// Verifiers of the matrix. A look-up that finds nothing is final at once where the
// tool says that nothing settles late; else only after the settle window, which is
// longer than a call.
const (
	nobody   = "none"
	settling = "settling"
	final    = "final"
)

// Every fault of the way × effect × verifier. The table of what became of each is
// printed with -v.
func TestMatrix(t *testing.T) {
	known, failures := make(map[string]int), 0
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "fault\ttool\tverifier\tsent\teffects\tcommit state\tcode\tknown by")
	for _, b := range befalls {
		failures += count(b.fails())
		for _, effect := range []toolexec.Effect{toolexec.ReadOnly, toolexec.Idempotent, toolexec.Write} {
			for _, verifier := range []string{nobody, settling, final} {
				if effect == toolexec.ReadOnly && verifier != nobody {
					continue
				}
				t.Run(fmt.Sprintf("%s, %v, verifier %s", b.name, effect, verifier), func(t *testing.T) {
					env, ledger, proxy := b.run(t, effect, verifier)
					_, _ = fmt.Fprintf(w, "%s\t%v\t%s\t%d\t%d\t%v\t%s\t%s\n", b.name, effect, verifier,
						proxy.Requests(), ledger.Effects("op-1"), env.CommitState, env.Code, knownBy(env))
					want, source := b.ends(effect, verifier)
					assert.Equal(t, want.String(), env.CommitState.String(), "%v", env.Code)
					if env.OK {
						assert.Equal(t, source.String(), env.Verification.Source.String())
					}
					if effect == toolexec.Write {
						known[verifier] += count(b.fails() && env.CommitState != unk)
						again := b.fault.Request.Status == 429 || verifier == final && b.want == unk && !b.effect
						assert.Equal(t, 1+count(again), proxy.Requests(), "sent again without proof")
						assert.Equal(t, count(b.effect || again)+b.fault.Duplicate, ledger.Effects("op-1"))
					}
				})
			}
		}
	}
	require.NoError(t, w.Flush())
	t.Logf("\n%s", table.String())
	for _, verifier := range []string{nobody, settling, final} {
		t.Logf("of %d writes that failed on the way, verifier %s, %d (%d %%) ended as committed or not_committed, and none as done twice",
			failures, verifier, known[verifier], 100*known[verifier]/failures)
	}
	assert.Equal(t, map[string]int{nobody: 3, settling: 8, final: 12}, known)
}

// fails reports whether the fault fails an attempt of a write.
func (b *befall) fails() bool {
	return b.refused || b.want == unk || b.fault.Request.Status == 429 || b.fault.Answer.Cut
}

// ends is the commit state of an operation that meets the fault, and where it is
// known from if it succeeds.
func (b *befall) ends(effect toolexec.Effect, verifier string) (toolexec.CommitState, toolexec.Source) {
	switch {
	case effect == toolexec.ReadOnly && (b.fault.Answer.Garble || b.fault.Answer.Cut): // not transient
		return nc, toolexec.SourceExecution
	case effect == toolexec.Idempotent && b.fault.Answer.Garble && verifier == nobody: // not transient either
		return unk, toolexec.SourceExecution
	case effect != toolexec.Write && !b.fault.Answer.Garble: // sent again
		return com, toolexec.SourceExecution
	case verifier != nobody && b.effect && b.want == unk:
		return com, toolexec.SourceLookup
	case verifier == final: // absent, and sent again
		return com, toolexec.SourceExecution
	}
	return b.want, toolexec.SourceExecution
}

// knownBy is what the commit state rests on.
func knownBy(env toolexec.Envelope[receipt]) string {
	switch env.CommitState {
	case unk:
		return "nothing yet"
	case nc:
		return "proof, or a read"
	}
	return env.Verification.Source.String()
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

func (b *befall) run(t *testing.T, effect toolexec.Effect, verifier string) (toolexec.Envelope[receipt], *toolexectest.Ledger, *toolexectest.Proxy) {
	t.Helper()
	service := &bank{ledger: toolexectest.Ledger{Dedupe: effect == toolexec.Idempotent}}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	proxy := toolexectest.NewProxy(server.URL, b.fault)
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)

	dials := 0
	dead := deadAddr(t)
	tr := &httptool.Transport{Base: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials++; dials == 1 && b.refused {
			addr = dead
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}}
	t.Cleanup(tr.CloseIdleConnections)
	e := &httptool.Endpoint[refundIn, receipt]{URL: front.URL + "/pay", IdempotencyHeader: "Idempotency-Key", Client: tr.Client()}
	tool := e.Tool("pay")
	tool.Effect = effect
	tool.MarksSent = effect != toolexec.ReadOnly
	tool.Policy = toolexec.Policy{Deadline: 20 * time.Second, TotalDeadline: 60 * time.Second, Backoff: toolexec.Backoff{Initial: time.Millisecond}}
	if b.late {
		tool.Policy.Deadline = 300 * time.Millisecond
	}
	if verifier != nobody {
		l := &httptool.Lookup[refundIn, receipt]{URL: front.URL + "/payments?ref={ref}", Client: tr.Client()}
		tool.Verify = &toolexec.Verifier[refundIn, receipt]{Lookup: l.Find, Authoritative: true, Deadline: 20 * time.Second}
		if verifier == final {
			tool.Verify.Settle = -1
		}
	}
	var x toolexec.Executor
	env := toolexec.Bind(&x, tool).Call(toolexec.WithOperationRef(t.Context(), "op-1"), refundIn{"ORD-5510", 8000})
	require.NoError(t, x.Close(t.Context()))
	tr.CloseIdleConnections()
	proxy.Wait()
	proxy.Check(t)
	return env, &service.ledger, proxy
}
