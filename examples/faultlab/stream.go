package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// The bounds of runs. The longest that can be planned takes less than maxRun.
const (
	maxRun       = 2 * time.Minute
	maxRuns      = 16
	maxPerClient = 4
	maxBehind    = 256              // moments that a client may be behind before its run waits for it
	maxStall     = 10 * time.Second // that a client may take to read one
)

// runs counts those that go on, in all and for each client.
type runs struct {
	mu     sync.Mutex // protects what follows
	all    int
	client map[string]int
}

// begin counts a run of client; it says why not when there are too many.
func (r *runs) begin(client string) (end func(), problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.client[client] >= maxPerClient:
		return nil, fmt.Sprintf("%d runs of yours go on; wait until one ends, or close its page", maxPerClient)
	case r.all >= maxRuns:
		return nil, fmt.Sprintf("%d runs go on, which is all that the lab makes at once; try again in a minute", maxRuns)
	}
	if r.client == nil {
		r.client = make(map[string]int)
	}
	r.all++
	r.client[client]++
	return func() { r.end(client) }, ""
}

func (r *runs) end(client string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.client[client]--; r.client[client] == 0 {
		delete(r.client, client)
	}
}

// stream runs the plan of the query and streams its moments as server-sent
// events. The run ends when the client leaves, and the request when the run has.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	p, err := parsePlan(r.URL.Query())
	if err != nil {
		http.Error(w, sentence(err), http.StatusBadRequest)
		return
	}
	end, problem := s.runs.begin(clientOf(r))
	if problem != "" {
		w.Header().Set("Retry-After", "5")
		http.Error(w, problem+".", http.StatusTooManyRequests)
		return
	}
	defer end()
	ctx, cancel := context.WithTimeout(r.Context(), maxRun)
	defer cancel()
	w.Header().Set("Content-Type", "text/event-stream")
	events := &eventWriter{w: w, control: http.NewResponseController(w)}
	for m := range s.moments(ctx, p) {
		if events.write(m) != nil {
			cancel() // and go on until the run has ended
		}
	}
}

// moments plays p on a goroutine of its own, which ends when ctx does; the
// channel is closed then.
func (s *server) moments(ctx context.Context, p plan) <-chan moment {
	out := make(chan moment, maxBehind)
	go func() {
		defer close(out)
		s.play(ctx, p, func(m moment) {
			select {
			case out <- m:
			case <-ctx.Done():
			}
		})
	}()
	return out
}

type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (e *eventWriter) write(m moment) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := e.control.SetWriteDeadline(time.Now().Add(maxStall)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(e.w, "data: %s\n\n", data); err != nil {
		return err
	}
	return e.control.Flush()
}

// clientOf is the address that a request came from.
func clientOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
