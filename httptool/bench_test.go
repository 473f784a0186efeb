package httptool_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/httptool"
)

// benchWires are the ways a request can go.
var benchWires = []string{"HTTP1", "TLS", "HTTP2"}

// benchServer answers at once, over a wire; its clients are http.Transport and
// Transport.
func benchServer(b *testing.B, wire string) (url string, base, watched *http.Client) {
	b.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "{}")
	}))
	if server.EnableHTTP2 = wire == "HTTP2"; wire == "HTTP1" {
		server.Start()
	} else {
		server.StartTLS()
	}
	b.Cleanup(server.Close)
	own := server.Client().Transport.(*http.Transport).Clone() //nolint:forcetypeassert // httptest's own
	b.Cleanup(own.CloseIdleConnections)
	tr := &httptool.Transport{Base: own}
	b.Cleanup(tr.CloseIdleConnections)
	return server.URL, &http.Client{Transport: own}, tr.Client()
}

// benchAttempt runs loop within one attempt of a write.
func benchAttempt(b *testing.B, loop func(ctx context.Context) error) {
	b.Helper()
	x := &toolexec.Executor{Policy: toolexec.Policy{Deadline: -1, TotalDeadline: -1}}
	tool := toolexec.Bind(x, toolexec.Tool[int, int]{Name: "loop", Run: func(ctx context.Context, n int) (int, error) { return n, loop(ctx) }})
	b.ReportAllocs()
	if env := tool.Call(b.Context(), 1); !env.OK {
		b.Fatal(env.Code)
	}
}

func benchPost(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"cents":8000}`))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", "op-1") // so that the same bytes are sent over either
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// A POST over loopback, by http.Transport and by a Transport.
func BenchmarkPost(b *testing.B) {
	for _, wire := range benchWires {
		url, base, watched := benchServer(b, wire)
		for _, row := range []struct {
			name   string
			client *http.Client
		}{{"base", base}, {"Transport", watched}} {
			b.Run(wire+"/"+row.name, func(b *testing.B) {
				benchAttempt(b, func(ctx context.Context) error {
					for b.Loop() {
						if err := benchPost(ctx, row.client, url); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}

// What a Transport costs beside its base, in per cent of a round trip over loopback:
//
//	go test -run '^$' -bench Overhead -benchtime 3000x -count 3 ./httptool
//
// Each turn times a few requests over either, in alternating order, so that what the
// machine does besides meets both. The median of the turns is %overhead, and half of
// them lie between %lower and %upper.
func BenchmarkOverhead(b *testing.B) {
	for _, wire := range benchWires {
		url, base, watched := benchServer(b, wire)
		b.Run(wire, func(b *testing.B) {
			var ratios []float64
			benchAttempt(b, func(ctx context.Context) error {
				for turn := 0; b.Loop(); turn++ {
					ratio, err := benchTurn(ctx, url, base, watched, turn%2 == 1)
					if err != nil {
						return err
					}
					ratios = append(ratios, 100*(ratio-1))
				}
				return nil
			})
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/4], "%lower")
			b.ReportMetric(ratios[len(ratios)/2], "%overhead")
			b.ReportMetric(ratios[3*len(ratios)/4], "%upper")
		})
	}
}

// benchTurn returns how much longer a few requests take over watched than over
// base.
func benchTurn(ctx context.Context, url string, base, watched *http.Client, watchedFirst bool) (ratio float64, err error) {
	clients := []*http.Client{base, watched}
	if watchedFirst {
		slices.Reverse(clients)
	}
	took := make(map[*http.Client]time.Duration)
	for _, client := range clients {
		start := time.Now()
		for range 4 {
			if err := benchPost(ctx, client, url); err != nil {
				return 0, err
			}
		}
		took[client] = time.Since(start)
	}
	return float64(took[watched]) / float64(took[base]), nil
}
