package toolexectest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

func TestMemoryStoreConforms(t *testing.T) {
	RunStore(t, func(*testing.T) toolexec.Store { return &toolexec.MemoryStore{} })
}

func TestMemoryStoreConformsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		assert.NoError(t, CheckStore(t.Context(), func() (toolexec.Store, error) { return &toolexec.MemoryStore{}, nil }))
		assert.Zero(t, time.Since(began), "the kit does not sleep")
	})
}

// A store without abilities is a store.
func TestAbilitiesAreOptional(t *testing.T) {
	type bare struct{ toolexec.Store }
	assert.NoError(t, CheckStore(t.Context(), func() (toolexec.Store, error) { return bare{&toolexec.MemoryStore{}}, nil }))
	RunStore(t, func(*testing.T) toolexec.Store { return bare{&toolexec.MemoryStore{}} })
}

func TestStoreThatCannotBeMade(t *testing.T) {
	down := errors.New("the database is down")
	err := CheckStore(t.Context(), func() (toolexec.Store, error) { return nil, down })
	require.ErrorIs(t, err, down)
	assert.Len(t, brokenRules(err), len(storeRules))
}

// Every error of the store comes out of every rule, wherever it happens.
func TestStoreThatFails(t *testing.T) {
	down := errors.New("the connection is lost")
	for fail := 0; ; fail++ {
		failed := false
		for _, rule := range storeRules {
			if rule.words == "a page holds no more than Limit says: 100 when it is 0, 1000 at most" && fail%50 != 5 {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				b := &brokenStore{MemoryStore: &toolexec.MemoryStore{}}
				b.failFrom(fail, down)
				err := rule.check(t.Context(), b)
				if b.failed() {
					failed = true
					assert.Error(t, err, "rule %q, call %d fails", rule.words, fail)
				}
			})
		}
		if !failed {
			return
		}
		if fail > 60 {
			fail += 97 // the rest of long rules says the same again
		}
	}
}

func brokenRules(err error) (broken []string) {
	if err == nil {
		return nil
	}
	for _, rule := range storeRules {
		if strings.Contains(err.Error(), "broken rule: "+rule.words+": ") {
			broken = append(broken, rule.words)
		}
	}
	return broken
}

// brokenStore is a store that breaks a rule: by what its functions do, where
// they are set.
type brokenStore struct {
	*toolexec.MemoryStore
	load  func(context.Context, toolexec.Key) (toolexec.Record, error)
	save  func(context.Context, toolexec.Record) (toolexec.Record, error)
	list  func(context.Context, toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error)
	wait  func(context.Context, toolexec.Key, int64) error
	prune func(context.Context, int) (int, error)
	stats func(context.Context) (map[toolexec.State]int, error)
	claim func(context.Context, toolexec.Query, time.Duration) ([]toolexec.Record, error)

	mu     sync.Mutex // protects calls, kept and claims
	calls  int
	from   int
	err    error
	kept   map[toolexec.Key]toolexec.Record
	claims map[toolexec.Key]claim
}

// claim is one of a version of a record.
type claim struct {
	version int64
	until   time.Time
}

func (b *brokenStore) failFrom(n int, err error) { b.from, b.err = n, err }

func (b *brokenStore) failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err != nil && b.calls > b.from
}

// call counts, and fails from a given call on.
func (b *brokenStore) call() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.err != nil && b.calls > b.from {
		return b.err
	}
	return nil
}

func (b *brokenStore) Load(ctx context.Context, k toolexec.Key) (toolexec.Record, error) {
	if err := b.call(); err != nil {
		return toolexec.Record{}, err
	}
	if b.load != nil {
		return b.load(ctx, k)
	}
	return b.MemoryStore.Load(ctx, k)
}

func (b *brokenStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	if err := b.call(); err != nil {
		return toolexec.Record{}, err
	}
	if b.save != nil {
		return b.save(ctx, r)
	}
	return b.MemoryStore.Save(ctx, r)
}

func (b *brokenStore) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	if err := b.call(); err != nil {
		return nil, toolexec.Cursor{}, err
	}
	if b.list != nil {
		return b.list(ctx, q)
	}
	return b.MemoryStore.List(ctx, q)
}

func (b *brokenStore) Wait(ctx context.Context, k toolexec.Key, v int64) error {
	if err := b.call(); err != nil {
		return err
	}
	if b.wait != nil {
		return b.wait(ctx, k, v)
	}
	return b.MemoryStore.Wait(ctx, k, v)
}

func (b *brokenStore) Prune(ctx context.Context, n int) (int, error) {
	if err := b.call(); err != nil {
		return 0, err
	}
	if b.prune != nil {
		return b.prune(ctx, n)
	}
	return b.MemoryStore.Prune(ctx, n)
}

func (b *brokenStore) Stats(ctx context.Context) (map[toolexec.State]int, error) {
	if err := b.call(); err != nil {
		return nil, err
	}
	if b.stats != nil {
		return b.stats(ctx)
	}
	return b.MemoryStore.Stats(ctx)
}

func (b *brokenStore) Claim(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
	if err := b.call(); err != nil {
		return nil, err
	}
	if b.claim != nil {
		return b.claim(ctx, q, d)
	}
	return b.claimWell(ctx, q, d)
}

// claimWell is right where the MemoryStore is.
func (b *brokenStore) claimWell(ctx context.Context, q toolexec.Query, d time.Duration) (claimed []toolexec.Record, err error) {
	limit := q.PageSize()
	q.Limit = 1000
	page, _, err := b.MemoryStore.List(ctx, q)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.claims == nil {
		b.claims = make(map[toolexec.Key]claim)
	}
	for _, r := range page {
		if c := b.claims[r.Key]; c.version == r.Version && c.until.After(r.Now) || len(claimed) == limit {
			continue
		}
		b.claims[r.Key] = claim{r.Version, r.Now.Add(d)}
		claimed = append(claimed, r)
	}
	return claimed, nil
}

func (b *brokenStore) keep(r toolexec.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept == nil {
		b.kept = make(map[toolexec.Key]toolexec.Record)
	}
	b.kept[r.Key] = r
}

func (b *brokenStore) keptOf(k toolexec.Key) toolexec.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[k]
}

// edit changes every record on its way in.
func edit(f func(*toolexec.Record)) func(*brokenStore) {
	return func(b *brokenStore) {
		b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
			r = r.Clone()
			f(&r)
			return b.MemoryStore.Save(ctx, r)
		}
	}
}

// rekey stores records under other keys.
func rekey(f func(toolexec.Key) toolexec.Key) func(*brokenStore) {
	return func(b *brokenStore) {
		b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
			key := r.Key
			r.Key = f(key)
			out, err := b.MemoryStore.Save(ctx, r)
			if out.Version > 0 {
				out.Key = key
			}
			return out, err
		}
		b.load = func(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
			out, err := b.MemoryStore.Load(ctx, f(key))
			if out.Version > 0 {
				out.Key = key
			}
			return out, err
		}
	}
}

// onConflict does something else when a Save is refused over current.
func onConflict(f func(b *brokenStore, r, current toolexec.Record) (toolexec.Record, error)) func(*brokenStore) {
	return func(b *brokenStore) {
		b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
			current, err := b.MemoryStore.Save(ctx, r)
			if errors.Is(err, toolexec.ErrConflict) {
				return f(b, r, current)
			}
			return current, err
		}
	}
}

// over saves r whatever is stored.
func (b *brokenStore) over(r toolexec.Record) (toolexec.Record, error) {
	for {
		out, err := b.MemoryStore.Save(context.Background(), r)
		if !errors.Is(err, toolexec.ErrConflict) {
			return out, err
		}
		r.Version = out.Version
	}
}

// ask changes every query.
func ask(f func(*toolexec.Query)) func(*brokenStore) {
	return func(b *brokenStore) {
		b.list = func(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
			f(&q)
			return b.MemoryStore.List(ctx, q)
		}
	}
}

// pages changes every page.
func pages(f func(b *brokenStore, q toolexec.Query, page []toolexec.Record) []toolexec.Record) func(*brokenStore) {
	return func(b *brokenStore) {
		b.list = func(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
			page, next, err := b.MemoryStore.List(ctx, q)
			return f(b, q, page), next, err
		}
	}
}

// count gives version v of a record another number.
func count(number func(v int64) int64) func(*brokenStore) {
	return func(b *brokenStore) { recount(b, number) }
}

func recount(b *brokenStore, number func(v int64) int64) {
	inner := func(n int64) int64 {
		for v := int64(1); n != 0; v++ {
			if number(v) == n {
				return v
			}
			if v > 100 {
				return -99
			}
		}
		return 0
	}
	out := func(r toolexec.Record, err error) (toolexec.Record, error) {
		if r.Version > 0 {
			r.Version = number(r.Version)
		}
		return r, err
	}
	b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
		r.Version = inner(r.Version)
		return out(b.MemoryStore.Save(ctx, r))
	}
	b.load = func(ctx context.Context, k toolexec.Key) (toolexec.Record, error) {
		return out(b.MemoryStore.Load(ctx, k))
	}
	b.list = func(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
		page, next, err := b.MemoryStore.List(ctx, q)
		for i := range page {
			page[i], _ = out(page[i], nil)
		}
		return page, next, err
	}
	b.wait = func(ctx context.Context, k toolexec.Key, v int64) error { return b.MemoryStore.Wait(ctx, k, inner(v)) }
	b.claim = func(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
		claimed, err := b.claimWell(ctx, q, d)
		for i := range claimed {
			claimed[i], _ = out(claimed[i], nil)
		}
		return claimed, err
	}
}

// TestBrokenStores: each store breaks what its name says, and the kit names
// the rules that follow and no other.
func TestBrokenStores(t *testing.T) {
	const (
		notFound       = "Load of a missing record returns ErrNotFound"
		create         = "a Save of version 0 creates the record, with version 1"
		versions       = "every Save adds one to the version"
		createOver     = "a Save of version 0 over an existing record is refused with ErrConflict"
		stale          = "a Save of another version than the stored one is refused with ErrConflict"
		updateMissing  = "a Save of another version than 0 of a missing record returns ErrConflict and the zero Record"
		returnsCurrent = "a conflict returns the current record, bodies included"
		changesNothing = "a conflict changes nothing"
		bytewise       = "keys are compared bytewise"
		boundary       = "scope and ref are two things, however they are joined"
		oneWins        = "of concurrent Saves of one version exactly one wins"
		fields         = "every field comes back as it was saved, and what was not set comes back not set"
		texts          = "texts of enums that this version does not know are kept"
		bodies         = "bodies come back byte for byte, and null, 0, false, \"\" and [] are results"
		large          = "large bodies come back whole"
		nilBodies      = "a nil body leaves the stored one as it is"
		emptyBodies    = "an empty body that is not nil replaces the stored one"
		relative       = "relative Instants are resolved by the store's clock and come back absolute"
		clock          = "Now is the store's clock, set by Load, Save and List, and does not go back"
		times          = "CreatedAt stays, and UpdatedAt is the moment of the last Save"
		passed         = "a caller may write to what it has saved without changing the store"
		returned       = "a caller may write to what it was given without changing the store"
		listAll        = "List without a filter returns every record"
		listStates     = "List selects by states"
		listNewState   = "List selects by a state that this version does not know"
		listTool       = "List selects by tool"
		listScope      = "List selects by scope"
		listNoScope    = "List selects by the empty scope"
		listAlias      = "List selects by alias"
		listPrint      = "List selects by fingerprint, its rule included"
		listDue        = "List selects what is due before a moment"
		listDueSoon    = "List takes a relative moment on the store's own clock"
		listOpen       = "List selects what is open"
		listAnd        = "List combines filters by and"
		order          = "List returns records in the order of their keys, bytewise, scope first"
		paging         = "pages return every record once, and the zero Cursor ends them"
		limits         = "a page holds no more than Limit says: 100 when it is 0, 1000 at most"
		done           = "with a context that is done every method succeeds or returns its error"
		waitOther      = "Wait returns at once when the record has another version"
		waitChange     = "Wait returns when the version changes"
		waitDone       = "Wait ends with its context"
		pruned         = "Prune keeps facts that are young, and whatever is in flight, unknown, escalated or awaiting approval"
		counted        = "Stats counts the records of each state"
		claims         = "Claim returns what matches, with Now set, and changes nothing but that it is claimed"
		claimLimit     = "Claim returns no more than Limit says"
		claimOnce      = "what is claimed is not claimed again, by whoever asks at the same time"
		claimEnds      = "a claim is over after its time"
		claimSaved     = "a Save of a record ends its claim"
	)
	other := errors.New("some other error")
	tests := []struct {
		name   string
		broken func(*brokenStore)
		rules  []string
	}{
		{"another error than ErrNotFound", func(b *brokenStore) {
			b.load = func(ctx context.Context, k toolexec.Key) (toolexec.Record, error) {
				r, err := b.MemoryStore.Load(ctx, k)
				if errors.Is(err, toolexec.ErrNotFound) {
					err = other
				}
				return r, err
			}
		}, []string{notFound, updateMissing, done}},
		{"a record and ErrNotFound", func(b *brokenStore) {
			b.load = func(ctx context.Context, k toolexec.Key) (toolexec.Record, error) {
				r, err := b.MemoryStore.Load(ctx, k)
				r.Key = k
				return r, err
			}
		}, []string{notFound}},
		{"versions count by two", count(func(v int64) int64 { return 2*v - 1 }), []string{versions, oneWins}},
		{"versions begin at five", count(func(v int64) int64 { return v + 4 }), []string{create, versions, oneWins}},
		{"the last write wins", onConflict(func(b *brokenStore, r, current toolexec.Record) (toolexec.Record, error) {
			if current.Version == 0 {
				return current, toolexec.ErrConflict
			}
			return b.over(r)
		}), []string{createOver, stale, returnsCurrent, changesNothing, oneWins}},
		{"a create goes over what exists", onConflict(func(b *brokenStore, r, current toolexec.Record) (toolexec.Record, error) {
			if r.Version == 0 {
				return b.over(r)
			}
			return current, toolexec.ErrConflict
		}), []string{createOver, oneWins}},
		{"a newer version goes over an older one", onConflict(func(b *brokenStore, r, current toolexec.Record) (toolexec.Record, error) {
			if r.Version > current.Version && current.Version > 0 {
				return b.over(r)
			}
			return current, toolexec.ErrConflict
		}), []string{stale}},
		{"an update creates", onConflict(func(b *brokenStore, r, current toolexec.Record) (toolexec.Record, error) {
			if current.Version == 0 {
				r.Version = 0
				return b.MemoryStore.Save(context.Background(), r)
			}
			return current, toolexec.ErrConflict
		}), []string{updateMissing}},
		{"an update of a missing record returns what was passed", onConflict(func(_ *brokenStore, r, current toolexec.Record) (toolexec.Record, error) {
			if current.Version == 0 {
				current = r
			}
			return current, toolexec.ErrConflict
		}), []string{updateMissing}},
		{"a conflict without the current record", onConflict(func(*brokenStore, toolexec.Record, toolexec.Record) (toolexec.Record, error) {
			return toolexec.Record{}, toolexec.ErrConflict
		}), []string{returnsCurrent}},
		{"a conflict without the bodies", onConflict(func(_ *brokenStore, _, current toolexec.Record) (toolexec.Record, error) {
			current.Arguments, current.Result = nil, nil
			return current, toolexec.ErrConflict
		}), []string{returnsCurrent}},
		{"a conflict without Now", onConflict(func(_ *brokenStore, _, current toolexec.Record) (toolexec.Record, error) {
			current.Now = time.Time{}
			return current, toolexec.ErrConflict
		}), []string{returnsCurrent}},
		{"a conflict touches the record", onConflict(func(b *brokenStore, r, current toolexec.Record) (toolexec.Record, error) {
			if current.Version > 0 {
				_, _ = b.over(current)
			}
			return current, toolexec.ErrConflict
		}), []string{changesNothing, oneWins}},
		{"a conflict is not reported as ErrConflict", onConflict(func(_ *brokenStore, _, current toolexec.Record) (toolexec.Record, error) {
			return current, other
		}), []string{createOver, stale, updateMissing, oneWins}},
		{"compare and swap in two steps", func(b *brokenStore) {
			b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
				if err := ctx.Err(); err != nil {
					return toolexec.Record{}, err
				}
				if current, err := b.MemoryStore.Load(ctx, r.Key); current.Version != r.Version {
					if err == nil || r.Version != 0 {
						return current, toolexec.ErrConflict
					}
				}
				time.Sleep(time.Nanosecond) // in a bubble: until all others are here
				return b.over(r)
			}
		}, []string{oneWins}},
		{"refs without case", rekey(func(k toolexec.Key) toolexec.Key { return toolexec.Key{Scope: k.Scope, Ref: strings.ToLower(k.Ref)} }), []string{bytewise, order}},
		{"refs without trailing blanks", rekey(func(k toolexec.Key) toolexec.Key {
			return toolexec.Key{Scope: k.Scope, Ref: strings.TrimRight(k.Ref, " ")}
		}), []string{bytewise}},
		{"scopes end at NUL", rekey(func(k toolexec.Key) toolexec.Key {
			k.Scope, _, _ = strings.Cut(k.Scope, "\x00")
			return k
		}), []string{bytewise, boundary}},
		{"refs in a normal form", rekey(func(k toolexec.Key) toolexec.Key {
			return toolexec.Key{Scope: k.Scope, Ref: strings.ReplaceAll(k.Ref, "e\u0301", "\u00e9")}
		}), []string{bytewise, order}},
		{"scope and ref joined by a slash", rekey(func(k toolexec.Key) toolexec.Key {
			scope, ref, _ := strings.Cut(k.Scope+"/"+k.Ref, "/")
			return toolexec.Key{Scope: scope, Ref: ref}
		}), []string{boundary}},
		{"scope and ref joined by nothing", rekey(func(k toolexec.Key) toolexec.Key {
			if k.Scope == "a" {
				return toolexec.Key{Scope: "", Ref: "a" + k.Ref}
			}
			return k
		}), []string{boundary}},
		{"a field is forgotten", edit(func(r *toolexec.Record) { r.RejectedFields = nil }), []string{fields, texts}},
		{"a nested field is forgotten", edit(func(r *toolexec.Record) {
			for i := range r.History {
				r.History[i].Actor = ""
			}
		}), []string{fields, texts}},
		{"a field of Details is forgotten", edit(func(r *toolexec.Record) {
			if r.LastFailure != nil {
				r.LastFailure.Details = nil
			}
		}), []string{fields, texts}},
		{"a pointer comes back set", edit(func(r *toolexec.Record) {
			if r.Approval == nil {
				r.Approval = &toolexec.ApprovalRecord{}
			}
		}), []string{fields, texts, bodies, large}},
		{"a failure of a committed record is forgotten", edit(func(r *toolexec.Record) {
			if r.State == toolexec.StateCommitted {
				r.LastFailure = nil
			}
		}), []string{fields}},
		{"states become known ones", edit(func(r *toolexec.Record) { r.State = r.State.Safe() }),
			[]string{texts, listNewState, listAnd, counted}},
		{"sources become words", edit(func(r *toolexec.Record) {
			if r.Verification != nil {
				r.Verification.Source = toolexec.Source(r.Verification.Source.String())
			}
		}), []string{texts}},
		{"bodies are parsed", edit(func(r *toolexec.Record) {
			for _, b := range []*json.RawMessage{&r.Arguments, &r.Result} {
				var out bytes.Buffer
				if json.Compact(&out, *b) == nil {
					*b = out.Bytes()
				}
			}
		}), []string{bodies}},
		{"a null result is none", edit(func(r *toolexec.Record) {
			if string(r.Result) == "null" {
				r.Result, r.ResultPresent = nil, false
			}
		}), []string{bodies}},
		{"bodies end at 64 KiB", edit(func(r *toolexec.Record) { r.Result = r.Result[:min(len(r.Result), 1<<16)] }), []string{large}},
		{"nil bodies erase", edit(func(r *toolexec.Record) {
			if r.Result == nil {
				r.Result = json.RawMessage{}
			}
		}), []string{nilBodies}},
		{"Save returns a wrong body for one left out", func(b *brokenStore) {
			b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
				out, err := b.MemoryStore.Save(ctx, r)
				if err == nil && r.Result == nil && out.Result != nil {
					out.Result = json.RawMessage(`"wrong"`)
				}
				return out, err
			}
		}, []string{nilBodies}},
		{"empty bodies replace nothing", edit(func(r *toolexec.Record) {
			if len(r.Result) == 0 {
				r.Result = nil
			}
		}), []string{fields, emptyBodies}},
		{"Instants are resolved by another clock", edit(func(r *toolexec.Record) {
			r.LeaseUntil = r.LeaseUntil.Resolve(time.Now().Add(-time.Hour))
		}), []string{relative}},
		{"nested Instants are not resolved", func(b *brokenStore) {
			b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
				out, err := b.MemoryStore.Save(ctx, r)
				if err == nil {
					for i := range out.Unresolved {
						out.Unresolved[i].Settles = r.Unresolved[i].Settles
					}
				}
				return out, err
			}
		}, []string{relative}},
		{"what was passed is resolved", func(b *brokenStore) {
			b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
				for i := range r.History {
					r.History[i].At = r.History[i].At.Resolve(time.Now())
				}
				return b.MemoryStore.Save(ctx, r)
			}
		}, []string{relative}},
		{"List does not set Now", pages(func(_ *brokenStore, _ toolexec.Query, page []toolexec.Record) []toolexec.Record {
			for i := range page {
				page[i].Now = time.Time{}
			}
			return page
		}), []string{clock}},
		{"CreatedAt is that of the last Save", edit(func(r *toolexec.Record) {
			if r.Version > 0 {
				r.CreatedAt = toolexec.Instant{}
			}
		}), []string{times}},
		{"CreatedAt is of another clock", edit(func(r *toolexec.Record) {
			if r.CreatedAt.IsZero() {
				r.CreatedAt = toolexec.At(base)
			}
		}), []string{times}},
		{"CreatedAt changes", func(b *brokenStore) {
			b.load = func(ctx context.Context, k toolexec.Key) (toolexec.Record, error) {
				r, err := b.MemoryStore.Load(ctx, k)
				if k.Ref == "op" && r.Version == 2 && r.Unresolved == nil {
					r.CreatedAt = toolexec.At(base)
				}
				return r, err
			}
		}, []string{times}},
		{"UpdatedAt is the caller's", func(b *brokenStore) {
			b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
				out, err := b.MemoryStore.Save(ctx, r)
				if err == nil && r.Version > 0 {
					out.UpdatedAt = r.UpdatedAt
				}
				return out, err
			}
		}, []string{fields, times}},
		{"what is passed is kept", func(b *brokenStore) {
			b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
				out, err := b.MemoryStore.Save(ctx, r)
				if err == nil {
					b.keep(r)
				}
				return out, err
			}
			b.load = func(ctx context.Context, k toolexec.Key) (toolexec.Record, error) {
				r, err := b.MemoryStore.Load(ctx, k)
				if kept := b.keptOf(k); len(kept.RejectedFields) > 0 {
					r.RejectedFields = slices.Clone(kept.RejectedFields)
				}
				return r, err
			}
		}, []string{passed}},
		{"what is returned is kept", func(b *brokenStore) {
			b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
				out, err := b.MemoryStore.Save(ctx, r)
				if err == nil {
					b.keep(out)
				}
				return out, err
			}
			b.load = func(ctx context.Context, k toolexec.Key) (toolexec.Record, error) {
				r, err := b.MemoryStore.Load(ctx, k)
				if kept := b.keptOf(k); len(kept.RejectedFields) > 0 {
					r.RejectedFields = slices.Clone(kept.RejectedFields)
				}
				return r, err
			}
		}, []string{returned}},
		{"List ignores states", ask(func(q *toolexec.Query) { q.States = nil }), []string{listStates, listNewState, listAnd}},
		{"List uses one state", ask(func(q *toolexec.Query) { q.States = q.States[:min(1, len(q.States))] }), []string{listStates, listAnd}},
		{"List ignores the tool", ask(func(q *toolexec.Query) {
			if q.Tool != "no such tool" {
				q.Tool = ""
			}
		}), []string{listTool}},
		{"List lists for an unknown tool", ask(func(q *toolexec.Query) {
			if q.Tool == "no such tool" {
				q.Tool = ""
			}
		}), []string{paging}},
		{"List ignores the scope", ask(func(q *toolexec.Query) { q.Scope = nil }), []string{listScope, listNoScope, listAnd}},
		{"List takes the empty scope for none", ask(func(q *toolexec.Query) {
			if q.Scope != nil && *q.Scope == "" {
				q.Scope = nil
			}
		}), []string{listNoScope}},
		{"List ignores the alias", ask(func(q *toolexec.Query) { q.Alias = "" }), []string{listAlias}},
		{"List ignores the fingerprint", ask(func(q *toolexec.Query) { q.Fingerprint = toolexec.Fingerprint{} }), []string{listPrint, listAnd}},
		{"List ignores when it is due", ask(func(q *toolexec.Query) { q.DueBefore = toolexec.Instant{} }), []string{listDue, listDueSoon}},
		{"List ignores whether it is open", ask(func(q *toolexec.Query) { q.Open = false }), []string{listOpen}},
		{"List takes open for uncommitted", ask(func(q *toolexec.Query) {
			if q.Open {
				q.Open, q.States = false, []toolexec.State{
					toolexec.StateInFlight, toolexec.StateAwaitingApproval, toolexec.StateUnknown, toolexec.StateEscalated,
				}
			}
		}), []string{listOpen}},
		{"List takes what is due for more", ask(func(q *toolexec.Query) {
			if at := q.DueBefore.Time(); !at.IsZero() {
				q.DueBefore = toolexec.At(at.Add(time.Hour))
			}
		}), []string{listDue}},
		{"List takes a relative moment for an absolute one", ask(func(q *toolexec.Query) {
			if !q.DueBefore.IsZero() {
				q.DueBefore = toolexec.At(q.DueBefore.Time().Add(time.Nanosecond))
			}
		}), []string{listDueSoon}},
		{"pages in reverse", pages(func(_ *brokenStore, _ toolexec.Query, page []toolexec.Record) []toolexec.Record {
			slices.Reverse(page)
			return page
		}), []string{order}},
		{"a page begins one too late", pages(func(_ *brokenStore, q toolexec.Query, page []toolexec.Record) []toolexec.Record {
			if q.After != (toolexec.Cursor{}) && len(page) > 0 {
				page = page[1:]
			}
			return page
		}), []string{listAll, paging}},
		{"a page begins one too early", pages(func(b *brokenStore, q toolexec.Query, page []toolexec.Record) []toolexec.Record {
			if q.After != (toolexec.Cursor{}) {
				last, _ := b.MemoryStore.Load(context.Background(), q.After.Key)
				page = append([]toolexec.Record{last}, page...)
			}
			return page
		}), []string{paging}},
		{"a listing does not end", func(b *brokenStore) {
			b.list = func(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
				page, next, err := b.MemoryStore.List(ctx, q)
				if q.Limit > 0 && next == (toolexec.Cursor{}) && len(page) > 0 {
					next.Key = page[0].Key
				}
				return page, next, err
			}
		}, []string{paging}},
		{"pages are as large as they can be", ask(func(q *toolexec.Query) { q.Limit = 1000 }), []string{limits}},
		{"a page of 1005", func(b *brokenStore) {
			b.list = func(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
				page, next, err := b.MemoryStore.List(ctx, q)
				if q.Limit > 1000 && len(page) == 1000 {
					page = append(page, page[0])
				}
				return page, next, err
			}
		}, []string{limits}},
		{"another error than the context's", func(b *brokenStore) {
			b.list = func(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
				page, next, err := b.MemoryStore.List(ctx, q)
				if err != nil {
					err = other
				}
				return page, next, err
			}
		}, []string{done}},
		{"success without storing", func(b *brokenStore) {
			b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
				if ctx.Err() != nil {
					return r, nil //nolint:nilerr // what is broken here
				}
				return b.MemoryStore.Save(ctx, r)
			}
		}, []string{done}},
		{"Wait sleeps on", func(b *brokenStore) {
			b.wait = func(ctx context.Context, _ toolexec.Key, _ int64) error {
				<-ctx.Done()
				return ctx.Err()
			}
		}, []string{waitOther, waitChange}},
		{"Wait misses what was before it", func(b *brokenStore) {
			b.wait = func(ctx context.Context, k toolexec.Key, _ int64) error {
				time.Sleep(time.Nanosecond) // in a bubble: until the change is made
				r, err := b.MemoryStore.Load(ctx, k)
				if err != nil {
					r.Version = 0
				}
				return b.MemoryStore.Wait(ctx, k, r.Version)
			}
		}, []string{waitOther, waitChange}},
		{"Wait knows no context", func(b *brokenStore) {
			b.wait = func(ctx context.Context, k toolexec.Key, v int64) error {
				return b.MemoryStore.Wait(context.WithoutCancel(ctx), k, v)
			}
		}, []string{waitDone}},
		{"Wait ends with another error", func(b *brokenStore) {
			b.wait = func(ctx context.Context, k toolexec.Key, v int64) error {
				if b.MemoryStore.Wait(ctx, k, v) != nil {
					return other
				}
				return nil
			}
		}, []string{waitDone}},
		{"Prune deletes all", func(b *brokenStore) {
			b.prune = func(_ context.Context, limit int) (int, error) {
				b.MemoryStore = &toolexec.MemoryStore{}
				return 0, nil
			}
		}, []string{pruned}},
		{"Prune changes what it keeps", func(b *brokenStore) {
			b.prune = func(ctx context.Context, limit int) (int, error) {
				page, _, _ := b.MemoryStore.List(ctx, toolexec.Query{})
				for _, r := range page {
					_, _ = b.over(r)
				}
				return 0, nil
			}
		}, []string{pruned}},
		{"Prune knows no limit", func(b *brokenStore) {
			b.prune = func(_ context.Context, limit int) (int, error) { return limit + 1, nil }
		}, []string{pruned}},
		{"Stats leaves a state out", func(b *brokenStore) {
			b.stats = func(ctx context.Context) (map[toolexec.State]int, error) {
				m, err := b.MemoryStore.Stats(ctx)
				delete(m, toolexec.StateRejected)
				return m, err
			}
		}, []string{counted}},
		{"Claim ignores what it is asked for", func(b *brokenStore) {
			b.claim = func(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
				return b.claimWell(ctx, toolexec.Query{Limit: q.Limit}, d)
			}
		}, []string{claims}},
		{"Claim does not set Now", func(b *brokenStore) {
			b.claim = func(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
				claimed, err := b.claimWell(ctx, q, d)
				for i := range claimed {
					claimed[i].Now = time.Time{}
				}
				return claimed, err
			}
		}, []string{claims}},
		{"a claim is a Save", func(b *brokenStore) {
			var one sync.Mutex // at a time
			b.claim = func(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
				one.Lock()
				defer one.Unlock()
				claimed, err := b.claimWell(ctx, q, d)
				for _, r := range claimed {
					r, _ = b.MemoryStore.Save(ctx, r)
					b.mu.Lock()
					b.claims[r.Key] = claim{r.Version, r.Now.Add(d)}
					b.mu.Unlock()
				}
				return claimed, err
			}
		}, []string{claims, claimSaved}},
		{"Claim knows no limit", func(b *brokenStore) {
			b.claim = func(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
				q.Limit = 1000
				return b.claimWell(ctx, q, d)
			}
		}, []string{claimLimit}},
		{"Claim does not claim", func(b *brokenStore) {
			b.claim = func(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
				page, _, err := b.MemoryStore.List(ctx, q)
				return page, err
			}
		}, []string{claimLimit, claimOnce, claimSaved}},
		{"Claim in two steps", func(b *brokenStore) {
			b.claim = func(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
				b.mu.Lock()
				before := maps.Clone(b.claims)
				b.mu.Unlock()
				time.Sleep(time.Nanosecond) // in a bubble: until all others are here
				b.mu.Lock()
				b.claims = before
				b.mu.Unlock()
				return b.claimWell(ctx, q, d)
			}
		}, []string{claimOnce}},
		{"a claim is for ever", func(b *brokenStore) {
			b.claim = func(ctx context.Context, q toolexec.Query, d time.Duration) ([]toolexec.Record, error) {
				return b.claimWell(ctx, q, d+time.Hour)
			}
		}, []string{claimEnds}},
		{"a claim outlives a Save", func(b *brokenStore) {
			b.save = func(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
				out, err := b.MemoryStore.Save(ctx, r)
				b.mu.Lock()
				defer b.mu.Unlock()
				if c, ok := b.claims[r.Key]; ok && err == nil {
					b.claims[r.Key] = claim{out.Version, c.until}
				}
				return out, err
			}
		}, []string{claimSaved}},
	}
	seen := make(map[string]bool)
	for _, tt := range tests {
		for _, rule := range tt.rules {
			seen[rule] = true
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := CheckStore(t.Context(), func() (toolexec.Store, error) {
					b := &brokenStore{MemoryStore: &toolexec.MemoryStore{}}
					tt.broken(b)
					return b, nil
				})
				assert.ElementsMatch(t, tt.rules, brokenRules(err), "%v", err)
			})
		})
	}
	for _, rule := range storeRules {
		assert.True(t, seen[rule.words], "no store breaks the rule: %s", rule.words)
	}
}

func TestFillRefusesWhatItDoesNotKnow(t *testing.T) {
	n := 0
	assert.Panics(t, func() { fill(reflect.ValueOf(new(func())).Elem(), "Field", &n) })
}
