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
	// Lag is how long look-ups do not see an effect yet, as if they read a copy.
	Lag time.Duration

	mu       sync.Mutex // protects what follows
	entries  []Entry
	requests map[string]int
}

// Entry is one effect.
type Entry struct {
	N     int // from 1, in the order of the effects
	Ref   string
	Value any
	At    time.Time
}

// Record is a request: it has the effect v under ref and returns its entry, or
// that of the first request with ref when the ledger dedupes.
func (l *Ledger) Record(ref string, v any) Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests == nil {
		l.requests = make(map[string]int)
	}
	l.requests[ref]++
	if l.Dedupe && ref != "" {
		if i := slices.IndexFunc(l.entries, func(e Entry) bool { return e.Ref == ref }); i >= 0 {
			return l.entries[i]
		}
	}
	e := Entry{N: len(l.entries) + 1, Ref: ref, Value: v, At: time.Now()}
	l.entries = append(l.entries, e)
	return e
}

// Requests returns how many requests with ref arrived: more than it has effects
// when the ledger dedupes.
func (l *Ledger) Requests(ref string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests[ref]
}

// Effects returns how many effects ref has.
func (l *Ledger) Effects(ref string) int { return len(l.under(ref, 0)) }

// Total returns how many effects there are.
func (l *Ledger) Total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Entries returns all effects in their order; the slice is the caller's own.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Visible returns the effects of ref that look-ups see by now.
func (l *Ledger) Visible(ref string) []Entry { return l.under(ref, l.Lag) }

// under returns the effects of ref that are at least age old.
func (l *Ledger) under(ref string, age time.Duration) (found []Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.Ref == ref && time.Since(e.At) >= age {
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
