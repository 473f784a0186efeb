package httptool_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/httptool"
	"github.com/toolexec/toolexec/internal/mappingpage"
)

const mappingPath = "../docs/mapping.md"

// meaning is an answer of the server's, and how it is asked for and judged.
type meaning struct {
	status  int
	header  http.Header
	body    string
	cut     bool        // the connection breaks after the body, which was to be longer
	request http.Header // of the request
	checker httptool.Checker
}

func (m meaning) with(change func(*meaning)) meaning { change(&m); return m }

func problem(s string) func(*meaning) {
	return func(m *meaning) {
		m.body, m.header = s, http.Header{"Content-Type": {"application/problem+json; charset=utf-8"}}
	}
}

func header(name, value string) func(*meaning) {
	return func(m *meaning) { m.header = http.Header{name: {value}} }
}

// plainStatuses are rows that are about a status alone.
var plainStatuses = []int{
	202, 206, 207, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411, 412, 413, 414, 415, 417, 421, 422, 423, 424, 425,
	426, 428, 429, 431, 451, 460, 499, 500, 501, 502, 503, 504, 505, 507, 508, 511, 520, 521, 522, 523, 524, 525, 526, 530,
}

// statusRows are the rows of the statuses, by what a server sends.
func statusRows() map[string][]meaning {
	of := func(status int, change func(*meaning)) []meaning {
		return []meaning{meaning{status: status}.with(change)}
	}
	rows := map[string][]meaning{
		"http-2xx":           {{status: 200, body: `"done"`}, {status: 201, body: `"done"`}, {status: 299, body: `"done"`}},
		"http-2xx-cut":       of(200, func(m *meaning) { m.body, m.cut = `"do`, true }),
		"http-2xx-malformed": {{status: 200, body: `<html>`}, {status: 201, body: `"done""done"`}},
		"http-2xx-too-large": {{status: 200, body: fmt.Sprintf("%101d", 1)}},
		"http-2xx-hidden": of(200, func(m *meaning) {
			m.body = `{"ok":false}`
			m.checker.Hidden = func(*http.Response, []byte) error { return io.ErrNoProgress }
		}),
		"http-303-done":        of(303, func(m *meaning) { m.body, m.checker.SeeOtherIsSuccess = `"done"`, true }),
		"http-404-empty":       of(404, func(m *meaning) { m.checker.NotFoundIsEmpty = true }),
		"http-410-empty":       of(410, func(m *meaning) { m.checker.NotFoundIsEmpty = true }),
		"http-408-refusal":     of(408, func(m *meaning) { m.checker.TimeoutIsRefusal = true }),
		"http-503-refusal":     of(503, func(m *meaning) { m.checker.UnavailableIsRefusal = true }),
		"http-412-if-match":    of(412, func(m *meaning) { m.request = http.Header{"If-Match": {`"v1"`}} }),
		"http-413-retry-after": of(413, header("Retry-After", "30")),
		"http-key-in-use": {
			meaning{status: 409}.with(problem(`{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`)),
			meaning{status: 409}.with(problem(`{"code":"idempotency_in_flight"}`)),
		},
		"http-key-reused": {
			meaning{status: 422}.with(problem(`{"type":"https://api.example/problems/idempotency_key_reused"}`)),
			meaning{status: 400}.with(problem(`{"error":{"type":"idempotency_error"}}`)),
		},
		"http-429-quota": of(429, func(m *meaning) {
			problem(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded"}`)(m)
			m.header.Set("Retry-After", "7200")
		}),
		"http-429-soon":           of(429, problem(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded"}`)),
		"http-stripe-no-500":      of(500, header("Stripe-Should-Retry", "false")),
		"http-stripe-no-429":      of(429, header("Stripe-Should-Retry", "false")),
		"http-stripe-no-404":      of(404, header("Stripe-Should-Retry", "false")),
		"http-stripe-retry-409":   of(409, header("Stripe-Should-Retry", "true")),
		"http-stripe-retry-400":   of(400, header("Stripe-Should-Retry", "true")),
		"http-stripe-retry-doubt": of(424, header("Stripe-Should-Retry", "true")),
		"http-other":              {{status: 304}, {status: 418}, {status: 599}},
	}
	for _, status := range plainStatuses {
		rows[fmt.Sprintf("http-%d", status)] = []meaning{{status: status}}
	}
	return rows
}

// serve answers everything as m says.
func (m *meaning) serve(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), m.header)
		if m.cut {
			w.Header().Set("Content-Length", fmt.Sprint(len(m.body)+1))
		}
		w.WriteHeader(m.status)
		_, _ = io.WriteString(w, m.body)
		if m.cut {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	server.Config.ErrorLog = nil
	t.Cleanup(server.Close)
	return server.URL
}

func (m *meaning) ask(ctx context.Context, client *http.Client, method, url string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	maps.Copy(req.Header, m.request)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := m.checker.Check(resp); err != nil {
		return err
	}
	var out any
	return httptool.Decode(resp, 100, &out)
}

// TestMappingStatuses runs the rows of the statuses: as a write that declares
// OneRequest over a Transport, and as a read.
func TestMappingStatuses(t *testing.T) {
	cases := statusRows()
	rows, err := mappingpage.Match(mappingPath, "http", cases)
	require.NoError(t, err)
	for _, row := range rows {
		for i, m := range cases[row.ID] {
			t.Run(fmt.Sprint(row.ID, " ", i), func(t *testing.T) {
				url, client := m.serve(t), over(t, nil)
				write := once(t, shape{true, true}, func(ctx context.Context) error { return m.ask(ctx, client, http.MethodPost, url) })
				read := asRead(t, func(ctx context.Context) error { return m.ask(ctx, client, http.MethodGet, url) })
				assert.Equal(t, row.Cells, mappingpage.Cells(
					mappingpage.Column[string]{Name: "write", Env: write}, mappingpage.Column[string]{Name: "read", Env: read}))
			})
		}
	}
}

// asRead runs f as the single attempt of a read.
func asRead(t *testing.T, f func(ctx context.Context) error) toolexec.Envelope[string] {
	t.Helper()
	return attempt(t, toolexec.Tool[int, string]{
		Name: "get", Effect: toolexec.ReadOnly,
		Run: func(ctx context.Context, _ int) (string, error) { return "done", f(ctx) },
	})
}

// wireRows are the rows of what a Transport sees, by the faults they are about.
var wireRows = map[string][]string{
	"wire-dial":            {"refused"},
	"wire-dns":             {"no such name"},
	"wire-proxy":           {"proxy refused", "proxy says no"},
	"wire-connect-late":    {"dial never ends", "handshake never ends"},
	"wire-tls-peer":        {"wrong host", "unknown authority", "expired certificate"},
	"wire-tls-plain":       {"plain HTTP under https"},
	"wire-tls-login":       {"no client certificate, TLS 1.3"},
	"wire-tls-setup":       {"no client certificate, TLS 1.2"},
	"wire-nothing-written": {"no byte written"},
	"wire-part-written":    {"one byte written"},
	"wire-closed":          {"closed without an answer", "half closed", "HTTP/2 connection lost"},
	"wire-reset":           {"reset after the request", "reset within the request"},
	"wire-late":            {"slow headers", "response header timeout", "HTTP/2 without an answer"},
	// The caller's cancel is no fault.
	"wire-cancelled-before": nil,
	"wire-cancelled-after":  nil,

	"wire-not-http":   {"answer that is not HTTP", "malformed header"},
	"wire-body-cut":   {"body cut off", "chunk cut off"},
	"wire-h2-refused": {"stream refused"},
	"wire-h2-reset":   {"stream reset with PROTOCOL_ERROR", "stream reset with PROTOCOL_ERROR, and no other connection"},
	"wire-h2-goaway":  {"GOAWAY that excludes the stream", "GOAWAY that includes the stream"},
}

// TestMappingWire runs the rows of what a Transport sees.
func TestMappingWire(t *testing.T) {
	byName := make(map[string]*socketFault)
	for i := range faults {
		byName[faults[i].name] = &faults[i]
	}
	rows, err := mappingpage.Match(mappingPath, "wire", wireRows)
	require.NoError(t, err)
	for _, row := range rows {
		if len(wireRows[row.ID]) == 0 {
			t.Run(row.ID, func(t *testing.T) { assert.Equal(t, row.Cells, cancelledCells(t, row.ID == "wire-cancelled-after")) })
		}
		for _, name := range wireRows[row.ID] {
			f := byName[name]
			require.NotNil(t, f, "%s: no fault %q, or it has a row already", row.ID, name)
			delete(byName, name)
			t.Run(row.ID+" "+name, func(t *testing.T) { assert.Equal(t, row.Cells, f.cells(t)) })
		}
	}
	assert.Empty(t, byName, "faults that no row is about")
}

// cancelledCells has the caller cancel, before or after the request.
func cancelledCells(t *testing.T, sent bool) map[string]string {
	t.Helper()
	column := func(name string, tool toolexec.Tool[int, string]) mappingpage.Column[string] {
		return mappingpage.Column[string]{Name: name, Env: cancelled(t, tool, sent)}
	}
	return mappingpage.Cells(
		column("write, MarksSent", toolexec.Tool[int, string]{MarksSent: true}),
		column("write, OneRequest", toolexec.Tool[int, string]{OneRequest: true}),
		column("write", toolexec.Tool[int, string]{}),
		column("read", toolexec.Tool[int, string]{Effect: toolexec.ReadOnly}))
}

// cells runs a fault over a Transport.
func (f *socketFault) cells(t *testing.T) map[string]string {
	url, base := f.make(t)
	client := over(t, base)
	meet := func(ctx context.Context) error { return f.meet(ctx, client, url) }
	return mappingpage.Cells(
		mappingpage.Column[string]{Name: "write, MarksSent", Env: once(t, marks, meet)},
		mappingpage.Column[string]{Name: "write, OneRequest", Env: once(t, one, meet)},
		mappingpage.Column[string]{Name: "write", Env: once(t, plain, meet)},
		mappingpage.Column[string]{Name: "read", Env: asRead(t, meet)})
}
