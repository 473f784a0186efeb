package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// gateway posts refunds under the key that comes with them, and can be asked
// for them by it. It answers the first one never.
type gateway struct {
	out    io.Writer
	onPost func()

	mu      sync.Mutex // protects what follows
	refunds []refundLine
	wait    chan struct{}
}

type refundLine struct {
	Key     string `json:"key"`
	Receipt string `json:"receipt"`
	Cents   int    `json:"cents"`
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if r.Method == http.MethodPost {
		var in Refund
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, "no refund", http.StatusBadRequest)
			return
		}
		g.post(r, key, in)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, line := range g.refunds {
		if line.Key == key {
			_ = json.NewEncoder(w).Encode(line)
			return
		}
	}
	http.Error(w, "none", http.StatusNotFound)
}

// post does not dedupe: a second request would be a second refund.
func (g *gateway) post(r *http.Request, key string, in Refund) {
	g.mu.Lock()
	line := refundLine{Key: key, Receipt: fmt.Sprintf("rcpt_%d", len(g.refunds)+1), Cents: in.Cents}
	g.refunds = append(g.refunds, line)
	g.wait = make(chan struct{})
	g.mu.Unlock()
	fmt.Fprintf(g.out, "gateway: %s posted for %s, $%d.%02d; the answer is on its way\n", line.Receipt, key, in.Cents/100, in.Cents%100)
	g.onPost()
	select {
	case <-g.wait:
	case <-r.Context().Done(): // nobody is left to be answered
	}
}

func (g *gateway) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wait != nil {
		close(g.wait)
	}
}

func (g *gateway) print() {
	g.mu.Lock()
	defer g.mu.Unlock()
	total := 0
	for _, line := range g.refunds {
		total += line.Cents
	}
	fmt.Fprintf(g.out, "ledger:  refunds %d, total $%d.%02d\n", len(g.refunds), total/100, total%100)
}
