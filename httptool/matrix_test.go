package httptool_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
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

// Every fault of the way × effect × with a verifier and without.
func TestMatrix(t *testing.T) {
	failures, settled := 0, 0
	for _, b := range befalls {
		for _, effect := range []toolexec.Effect{toolexec.ReadOnly, toolexec.Idempotent, toolexec.Write} {
			for _, verified := range []bool{false, true} {
				if effect == toolexec.ReadOnly && verified {
					continue
				}
				t.Run(fmt.Sprintf("%s, %v, verifier %v", b.name, effect, verified), func(t *testing.T) {
					env, ledger, proxy := b.run(t, effect, verified)
					want, source := b.want, toolexec.SourceExecution
					switch {
					case effect == toolexec.ReadOnly && (b.fault.Answer.Garble || b.fault.Answer.Cut): // not transient
						assert.False(t, env.OK)
						want = nc
					case effect == toolexec.Idempotent && b.fault.Answer.Garble && !verified: // not transient either
						want = unk
					case effect != toolexec.Write && !b.fault.Answer.Garble:
						want = com // sent again
					case verified && b.effect && b.want == unk:
						want, source = com, toolexec.SourceLookup
					}
					assert.Equal(t, want.String(), env.CommitState.String(), "%v", env.Code)
					if env.OK {
						assert.Equal(t, source.String(), env.Verification.Source.String())
					}
					if effect == toolexec.Write {
						failures += count(b.name != "nothing")
						settled += count(b.name != "nothing" && env.CommitState != unk)
						assert.LessOrEqual(t, ledger.Effects("op-1"), 1+b.fault.Duplicate)
						assert.Equal(t, b.effect, ledger.Effects("op-1") > 0)
						assert.Equal(t, 1+count(b.fault.Request.Status == 429), proxy.Requests(), "sent again without proof")
					}
				})
			}
		}
	}
	t.Logf("of %d writes that met a fault %d ended as known, by proof, success or look-up", failures, settled)
	assert.Equal(t, 17, settled, "the others were lost on the way there, and count as open until the settle window is over")
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

func (b *befall) run(t *testing.T, effect toolexec.Effect, verified bool) (toolexec.Envelope[receipt], *toolexectest.Ledger, *toolexectest.Proxy) {
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
	if verified {
		l := &httptool.Lookup[refundIn, receipt]{URL: front.URL + "/payments?ref={ref}", Client: tr.Client()}
		tool.Verify = &toolexec.Verifier[refundIn, receipt]{Lookup: l.Find, Authoritative: true, Deadline: 20 * time.Second}
	}
	var x toolexec.Executor
	env := toolexec.Bind(&x, tool).Call(toolexec.WithOperationRef(t.Context(), "op-1"), refundIn{"ORD-5510", 8000})
	require.NoError(t, x.Close(t.Context()))
	tr.CloseIdleConnections()
	proxy.Wait()
	proxy.Check(t)
	return env, &service.ledger, proxy
}
