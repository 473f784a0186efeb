package toolexectest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/toolexec/toolexec"
)

// Ledger is the remote side of a test: it counts effects per operation ref. The
// zero Ledger is ready to use, and has an effect for every request. Its methods
// are safe for concurrent use. It must not be copied.
type Ledger struct {
	// Dedupe makes it remember refs: another request with one that it has seen has
	// no effect. A request without a ref cannot be told from another.
	Dedupe bool
	// Window is how long it remembers a ref, from the request that it accepted.
	// Zero: for ever.
	Window time.Duration
	// Settle is how long after its request an effect comes: until then the request
	// is accepted and nothing is to be seen of it.
	Settle time.Duration
	// Lag is how long look-ups do not see an effect that there is, as if they read a
	// copy.
	Lag time.Duration

	mu       sync.Mutex // protects what follows
	entries  []Entry
	requests map[string]int
}

// Entry is one effect.
type Entry struct {
	N     int // from 1, in the order of the requests
	Ref   string
	Value any
	At    time.Time // of the effect
}

// Record is a request: it has the effect v under ref, at once or when Settle has
// passed, and returns its entry, or that of the earlier request with ref that the
// ledger still remembers.
func (l *Ledger) Record(ref string, v any) Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests == nil {
		l.requests = make(map[string]int)
	}
	l.requests[ref]++
	if e, ok := l.remembered(ref); ok {
		return e
	}
	e := Entry{N: len(l.entries) + 1, Ref: ref, Value: v, At: time.Now().Add(l.Settle)}
	l.entries = append(l.entries, e)
	return e
}

// remembered is the newest entry of ref, if the ledger dedupes and still knows it.
// Called with mu held.
func (l *Ledger) remembered(ref string) (e Entry, ok bool) {
	if !l.Dedupe || ref == "" {
		return e, false
	}
	for _, e = range slices.Backward(l.entries) {
		if e.Ref == ref {
			return e, l.Window <= 0 || time.Since(e.At.Add(-l.Settle)) < l.Window
		}
	}
	return e, false
}

// Requests returns how many requests with ref arrived: more than it has effects
// when the ledger dedupes.
func (l *Ledger) Requests(ref string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests[ref]
}

// Effects returns how many effects ref has by now.
func (l *Ledger) Effects(ref string) int {
	return len(l.seen(0, func(e Entry) bool { return e.Ref == ref }))
}

// Total returns how many effects there are by now.
func (l *Ledger) Total() int { return len(l.Entries()) }

// Entries returns all effects that there are by now, in the order of their
// requests; the slice is the caller's own.
func (l *Ledger) Entries() []Entry { return l.seen(0, func(Entry) bool { return true }) }

// Visible returns the effects of ref that look-ups see by now.
func (l *Ledger) Visible(ref string) []Entry {
	return l.seen(l.Lag, func(e Entry) bool { return e.Ref == ref })
}

// seen returns the effects that are at least age old, of those that are wanted.
func (l *Ledger) seen(age time.Duration, wanted func(Entry) bool) (found []Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if time.Since(e.At) >= age && wanted(e) {
			found = append(found, e)
		}
	}
	return found
}

// Lookup returns the look-up of a [toolexec.Verifier] that reads l: no effect
// is absence, several are a conflict, and the value of a single one is the
// result. A value that is not an Out is an error, which says nothing.
func Lookup[In, Out any](l *Ledger) func(ctx context.Context, ref string, in In) (toolexec.Finding[Out], error) {
	return func(_ context.Context, ref string, _ In) (toolexec.Finding[Out], error) {
		switch found := l.Visible(ref); len(found) {
		case 0:
			return toolexec.Absent[Out](), nil
		case 1:
			return finding[Out](found[0])
		}
		return toolexec.Conflicting[Out](), nil
	}
}

func finding[Out any](e Entry) (toolexec.Finding[Out], error) {
	result, ok := e.Value.(Out)
	if !ok {
		return toolexec.Finding[Out]{}, fmt.Errorf("toolexectest: the ledger holds a %T under ref %q, not a result", e.Value, e.Ref)
	}
	f := toolexec.Found(result)
	f.EvidenceRef = "entry-" + strconv.Itoa(e.N)
	return f, nil
}
