package httptool_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/httptool"
)

// What a Transport costs beside its base, within an attempt, over loopback.
func BenchmarkPost(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	base := http.DefaultTransport.(*http.Transport).Clone()
	defer base.CloseIdleConnections()
	for name, client := range map[string]*http.Client{
		"base":      {Transport: base},
		"Transport": (&httptool.Transport{IdempotencyHeader: "Idempotency-Key"}).Client(),
	} {
		b.Run(name, func(b *testing.B) {
			x := &toolexec.Executor{Policy: toolexec.Policy{Deadline: -1, TotalDeadline: -1}}
			loop := toolexec.Bind(x, toolexec.Tool[int, int]{Name: "loop", Run: func(ctx context.Context, n int) (int, error) {
				for b.Loop() {
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(`{"cents":8000}`))
					if err != nil {
						return n, err
					}
					resp, err := client.Do(req)
					if err != nil {
						return n, err
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				return n, nil
			}})
			b.ReportAllocs()
			if env := loop.Call(b.Context(), 1); !env.OK {
				b.Fatal(env.Code)
			}
		})
	}
}
