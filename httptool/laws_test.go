package httptool_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/httptool"
	"github.com/toolexec/toolexec/toolexectest"
)

// world is a server that does what its dice say, and a ledger of its effects. It
// does not look at idempotency keys: whatever arrives twice happens twice.
type world struct {
	mu     sync.Mutex // protects dice
	dice   *rand.Rand
	ledger toolexectest.Ledger
	server *httptest.Server
	dead   string
	log    []string
}

// What the server can do with a request. The effect is had where it says so, and a
// status that refuses is given only without one.
var behaviours = []struct {
	name string
	do   func(w http.ResponseWriter, r *http.Request, effect func())
}{
	{"done", func(w http.ResponseWriter, _ *http.Request, effect func()) { effect(); answerWith(w, 201) }},
	{"done", func(w http.ResponseWriter, _ *http.Request, effect func()) { effect(); answerWith(w, 200) }},
	{"done", func(w http.ResponseWriter, _ *http.Request, effect func()) {
		effect()
		w.WriteHeader(http.StatusNoContent)
	}},
	{"done", func(w http.ResponseWriter, _ *http.Request, effect func()) { effect(); answerWith(w, 200) }},
	{"refused", func(w http.ResponseWriter, _ *http.Request, _ func()) { answerWith(w, 422) }},
	{"conflict", func(w http.ResponseWriter, _ *http.Request, _ func()) { answerWith(w, 409) }},
	{"limited", func(w http.ResponseWriter, _ *http.Request, _ func()) { answerWith(w, 429) }},
	{"503 before", func(w http.ResponseWriter, _ *http.Request, _ func()) { answerWith(w, 503) }},
	{"503 after", func(w http.ResponseWriter, _ *http.Request, effect func()) { effect(); answerWith(w, 503) }},
	{"500 after", func(w http.ResponseWriter, _ *http.Request, effect func()) { effect(); answerWith(w, 500) }},
	{"redirected after", func(w http.ResponseWriter, r *http.Request, effect func()) {
		effect()
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}},
	{"accepted", func(w http.ResponseWriter, _ *http.Request, effect func()) { effect(); answerWith(w, 202) }},
	{"dropped before", func(http.ResponseWriter, *http.Request, func()) { panic(http.ErrAbortHandler) }},
	{"dropped after", func(_ http.ResponseWriter, _ *http.Request, effect func()) { effect(); panic(http.ErrAbortHandler) }},
	{"reset after", func(w http.ResponseWriter, _ *http.Request, effect func()) { effect(); resetAnswer(w) }},
	{"reset before", func(w http.ResponseWriter, _ *http.Request, _ func()) { resetAnswer(w) }},
	{"cut off", func(w http.ResponseWriter, _ *http.Request, effect func()) {
		effect()
		w.Header().Set("Content-Length", "100")
		answerWith(w, 200)
		panic(http.ErrAbortHandler)
	}},
	{"never", func(_ http.ResponseWriter, r *http.Request, _ func()) { <-r.Context().Done() }},
	{"late", func(_ http.ResponseWriter, r *http.Request, effect func()) { <-r.Context().Done(); effect() }},
	{"done, answered late", func(_ http.ResponseWriter, r *http.Request, effect func()) { effect(); <-r.Context().Done() }},
}

func answerWith(w http.ResponseWriter, status int) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `"done"`)
}

func resetAnswer(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if c, _, err := h.Hijack(); err == nil {
			reset(c)
			return
		}
	}
	panic(http.ErrAbortHandler) // HTTP/2 resets the stream
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{dice: rand.New(rand.NewPCG(seed, 1)), dead: deadAddr(t)}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	w.server.Config.ErrorLog = nil
	switch seed % 3 {
	case 0:
		w.server.Start()
	case 1:
		w.server.StartTLS()
	case 2:
		w.server.EnableHTTP2 = true
		w.server.StartTLS()
	}
	return w
}

func (w *world) roll(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dice.IntN(n)
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if r.Method == http.MethodGet {
		answerWith(rw, 200)
		return
	}
	b := behaviours[w.roll(len(behaviours))]
	what := r.Header.Get("Idempotency-Key") + r.URL.Path
	w.mu.Lock()
	w.log = append(w.log, what+": "+b.name)
	w.mu.Unlock()
	b.do(rw, r, func() { w.ledger.Record(what, "done") })
}

// tool is a random tool: up to three requests in an attempt, some of which find
// nobody, over connections that were used before or not.
func (w *world) tool(client *http.Client, n int) toolexec.Tool[int, string] {
	steps := []int{1, 1, 1, 1, 2, 3}[w.roll(6)]
	dead := make([]bool, steps)
	for i := range dead {
		dead[i] = w.roll(4) == 0
	}
	body, declared := w.roll(3), w.roll(4)
	t := toolexec.Tool[int, string]{
		Name: fmt.Sprint("tool_", n), MarksSent: declared < 2, OneRequest: declared > 0 && declared < 3 && steps == 1,
		Policy: toolexec.Policy{Deadline: 60 * time.Millisecond, TotalDeadline: 5 * time.Second, Backoff: toolexec.Backoff{Initial: time.Millisecond}},
	}
	t.Run = func(ctx context.Context, _ int) (string, error) {
		for i := range steps {
			base := w.server.URL
			if dead[i] && (toolexec.Attempt(ctx) == 1 || i == 0) { // the second attempt may get further
				base = "http://" + w.dead
			}
			bodies := []io.Reader{nil, strings.NewReader("{}"), io.LimitReader(strings.NewReader("{}"), 2)}
			if err := send(ctx, client, http.MethodPost, fmt.Sprint(base, "/", i), bodies[body]); err != nil {
				return "", err
			}
		}
		return "done", nil
	}
	return t
}

// Whatever the server does, and however a tool sends: not_committed means that
// nothing happened, now or later, and nothing happens twice.
func TestLaws(t *testing.T) {
	worlds, calls := 30, 12
	if testing.Short() {
		worlds = 6
	}
	counts := make(map[toolexec.CommitState]int)
	for seed := range uint64(worlds) {
		w := newWorld(t, seed)
		base, _ := w.server.Client().Transport.(*http.Transport)
		base = base.Clone()
		tr := &httptool.Transport{Base: base, IdempotencyHeader: "Idempotency-Key"}
		var x toolexec.Executor
		answers := make(map[string]toolexec.CommitState)
		for n := range calls {
			if w.roll(2) == 0 {
				warm(t, tr.Client(), w.server.URL)
			}
			ref := fmt.Sprintf("op-%d-%d", seed, n)
			env := toolexec.Bind(&x, w.tool(tr.Client(), n)).Call(toolexec.WithOperationRef(t.Context(), ref), n)
			answers[ref] = env.CommitState
			counts[env.CommitState]++
			if env.OK && len(w.effectsOf(ref)) == 0 {
				t.Errorf("seed %d, %s: committed without an effect: %v", seed, ref, w.log)
			}
		}
		require.NoError(t, x.Close(t.Context()))
		tr.CloseIdleConnections()
		w.server.Close() // waits for what comes late
		for ref, state := range answers {
			effects := w.effectsOf(ref)
			if state == nc && len(effects) > 0 {
				t.Errorf("seed %d, %s: not_committed, and yet %v: %v", seed, ref, effects, w.log)
			}
			if len(slices.Compact(effects)) != len(w.effectsOf(ref)) {
				t.Errorf("seed %d, %s: happened twice: %v: %v", seed, ref, effects, w.log)
			}
		}
	}
	t.Logf("of %d writes %d ended committed, %d not_committed, %d unknown", worlds*calls, counts[com], counts[nc], counts[unk])
	require.Positive(t, counts[com])
	require.Positive(t, counts[nc])
	require.Positive(t, counts[unk])
}

// effectsOf returns the steps of an operation that had an effect, sorted, each as
// often as it had one.
func (w *world) effectsOf(ref string) (steps []string) {
	for _, e := range w.ledger.Entries() {
		if strings.HasPrefix(e.Ref, ref+"/") {
			steps = append(steps, e.Ref)
		}
	}
	slices.Sort(steps)
	return steps
}
