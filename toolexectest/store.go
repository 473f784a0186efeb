package toolexectest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolexec/toolexec"
)

// CheckStore checks the stores that newStore returns against every rule of the
// contract of [toolexec.Store], and of the optional abilities that they have.
// It returns nil, or one error that joins the rules that are broken, each named
// in words.
//
// newStore is called once per rule. It returns an empty store that keeps
// results and facts for at least a minute and has room for 2000 records.
// CheckStore does not close it.
//
// It does not sleep, and works in a [testing/synctest] bubble if the store
// does. A store that never wakes its waiters costs it 10 s.
func CheckStore(ctx context.Context, newStore func() (toolexec.Store, error)) error {
	var broken []error
	for _, rule := range storeRules {
		s, err := newStore()
		if err == nil {
			err = rule.check(ctx, s)
		}
		if err != nil && !errors.Is(err, errNotApplicable) {
			broken = append(broken, fmt.Errorf("broken rule: %s: %w", rule.words, err))
		}
	}
	return errors.Join(broken...)
}

// RunStore is CheckStore with a subtest for each rule; those about abilities
// that the store does not have are skipped.
func RunStore(t *testing.T, newStore func(t *testing.T) toolexec.Store) {
	t.Helper()
	for _, rule := range storeRules {
		t.Run(rule.words, func(t *testing.T) {
			err := rule.check(t.Context(), newStore(t))
			switch {
			case errors.Is(err, errNotApplicable):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

var errNotApplicable = errors.New("the store does not have this ability")

type storeRule struct {
	words string
	check func(ctx context.Context, s toolexec.Store) error
}

var storeRules = slices.Concat(saveRules, recordRules, listRules, contextRules, abilityRules)

// tolerance is how far a moment may move in a store: databases round.
const tolerance = time.Millisecond

// patience bounds what must happen soon.
const patience = 10 * time.Second

// Saving

var saveRules = []storeRule{
	{"Load of a missing record returns ErrNotFound", checkNotFound},
	{"a Save of version 0 creates the record, with version 1", checkCreate},
	{"every Save adds one to the version", checkVersions},
	{"a Save of version 0 over an existing record is refused with ErrConflict", checkCreateOver},
	{"a Save of another version than the stored one is refused with ErrConflict", checkStale},
	{"a Save of another version than 0 of a missing record returns ErrConflict and the zero Record", checkUpdateMissing},
	{"a conflict returns the current record, bodies included", checkConflictReturns},
	{"a conflict changes nothing", checkConflictChangesNothing},
	{"keys are compared bytewise", checkKeys},
	{"scope and ref are two things, however they are joined", checkKeyBoundary},
	{"of concurrent Saves of one version exactly one wins", checkConcurrent},
}

func checkNotFound(ctx context.Context, s toolexec.Store) error {
	r, err := s.Load(ctx, toolexec.Key{Scope: "tenant", Ref: "missing"})
	if !errors.Is(err, toolexec.ErrNotFound) {
		return returned(err, "Load")
	}
	return diff(r, toolexec.Record{})
}

// returned says that what was called has ended otherwise than the rule asks.
func returned(err error, format string, args ...any) error {
	return fmt.Errorf("%s returned %v", fmt.Sprintf(format, args...), err) //nolint:errorlint // often nil, which %w garbles
}

func checkCreate(ctx context.Context, s toolexec.Store) error {
	saved, err := s.Save(ctx, sample("op", 0))
	if err != nil {
		return err
	}
	loaded, err := s.Load(ctx, saved.Key)
	if err != nil {
		return err
	}
	if saved.Version != 1 || loaded.Version != 1 {
		return fmt.Errorf("Save returned version %d, Load %d", saved.Version, loaded.Version)
	}
	return nil
}

func checkVersions(ctx context.Context, s toolexec.Store) error {
	r := sample("op", 0)
	for want := int64(1); want <= 5; want++ {
		saved, err := s.Save(ctx, r)
		if err != nil {
			return fmt.Errorf("Save of version %d: %w", r.Version, err)
		}
		loaded, err := s.Load(ctx, r.Key)
		if err != nil {
			return err
		}
		if saved.Version != want || loaded.Version != want {
			return fmt.Errorf("after Save %d Save returned version %d, Load %d", want, saved.Version, loaded.Version)
		}
		r = saved
	}
	return nil
}

func checkCreateOver(ctx context.Context, s toolexec.Store) error {
	return checkRefused(ctx, s, func(current toolexec.Record) int64 { return 0 })
}

func checkStale(ctx context.Context, s toolexec.Store) error {
	for _, offset := range []int64{-1, 1, 1000, -1000} {
		if err := checkRefused(ctx, s, func(current toolexec.Record) int64 { return current.Version + offset }); err != nil {
			return err
		}
	}
	return nil
}

// checkRefused saves twice, and then with the version that is asked for.
func checkRefused(ctx context.Context, s toolexec.Store, version func(current toolexec.Record) int64) error {
	current, err := twice(ctx, s, sample("op", 0))
	if err != nil {
		return err
	}
	r := current
	r.Version = version(current)
	if _, err := s.Save(ctx, r); !errors.Is(err, toolexec.ErrConflict) {
		return returned(err, "Save of version %d over %d", r.Version, current.Version)
	}
	return nil
}

// twice saves r, over what is stored if need be, and saves it again.
func twice(ctx context.Context, s toolexec.Store, r toolexec.Record) (toolexec.Record, error) {
	if old, err := s.Load(ctx, r.Key); err == nil {
		r.Version = old.Version
	}
	saved, err := s.Save(ctx, r)
	if err != nil {
		return saved, err
	}
	return s.Save(ctx, saved)
}

func checkUpdateMissing(ctx context.Context, s toolexec.Store) error {
	for _, version := range []int64{1, 7, -1} {
		r := sample("op", 0)
		r.Version = version
		got, err := s.Save(ctx, r)
		if !errors.Is(err, toolexec.ErrConflict) {
			return returned(err, "Save of version %d", version)
		}
		if err := diff(got, toolexec.Record{}); err != nil {
			return err
		}
		if _, err := s.Load(ctx, r.Key); !errors.Is(err, toolexec.ErrNotFound) {
			return returned(err, "afterwards Load")
		}
	}
	return nil
}

// conflict stores a record, saves another over it with a version that is not
// the stored one, and returns the stored one, the refused one and the answer.
func conflict(ctx context.Context, s toolexec.Store) (stored, refused, answer toolexec.Record, err error) {
	if _, err = twice(ctx, s, full("op", toolexec.StateUnknown)); err != nil {
		return
	}
	if stored, err = s.Load(ctx, toolexec.Key{Scope: "tenant", Ref: "op"}); err != nil {
		return
	}
	refused = sample("op", 1)
	refused.Version = stored.Version - 1
	// Whether the error is right is another rule's business.
	answer, _ = s.Save(ctx, refused)
	return
}

func checkConflictReturns(ctx context.Context, s toolexec.Store) error {
	stored, _, answer, err := conflict(ctx, s)
	if err != nil {
		return err
	}
	if answer.Now.IsZero() {
		return errors.New("Record.Now is not set")
	}
	return diff(answer, stored, "Now")
}

func checkConflictChangesNothing(ctx context.Context, s toolexec.Store) error {
	stored, refused, _, err := conflict(ctx, s)
	if err != nil {
		return err
	}
	loaded, err := s.Load(ctx, refused.Key)
	if err != nil {
		return err
	}
	return diff(loaded, stored, "Now")
}

func checkKeys(ctx context.Context, s toolexec.Store) error {
	var keys []toolexec.Key
	for _, text := range []string{
		"ref", "Ref", "REF", "ref ", " ref", "ref\t", "ref\n", "ref.", "re", "r", "ref\x00", "ref\x00x", "%", "_", "r_f", "r%",
		"stra\u00dfe", "strasse", "\u00e9", "e\u0301", "\u017f", "s", "\u212a", "k", "K", "\u0130", "i", "I", "1", "01", "1.0", "null", "''",
	} {
		keys = append(keys, toolexec.Key{Scope: "tenant", Ref: text}, toolexec.Key{Scope: text, Ref: "op"})
	}
	return checkDistinct(ctx, s, keys)
}

func checkKeyBoundary(ctx context.Context, s toolexec.Store) error {
	keys := []toolexec.Key{
		{Scope: "", Ref: "abc"}, {Scope: "a", Ref: "bc"}, {Scope: "ab", Ref: "c"}, {Scope: "abcd", Ref: "x"}, {Scope: "x", Ref: "abcd"},
	}
	for _, sep := range []string{"/", ":", "\x00", "|", "\x1f", ",", "\\", "."} {
		keys = append(keys,
			toolexec.Key{Scope: "a" + sep + "b", Ref: "c"}, toolexec.Key{Scope: "a", Ref: "b" + sep + "c"},
			toolexec.Key{Scope: "a", Ref: sep + "c"}, toolexec.Key{Scope: "a" + sep, Ref: "c"},
			toolexec.Key{Scope: "", Ref: "a" + sep + "c"})
	}
	return checkDistinct(ctx, s, keys)
}

// checkDistinct creates a record under each key, and finds it there.
func checkDistinct(ctx context.Context, s toolexec.Store, keys []toolexec.Key) error {
	for i, key := range keys {
		r := sample("", i)
		r.Key = key
		if _, err := s.Save(ctx, r); err != nil {
			return fmt.Errorf("creating %q: %w", key, err)
		}
	}
	for i, key := range keys {
		r, err := s.Load(ctx, key)
		if err != nil {
			return fmt.Errorf("loading %q: %w", key, err)
		}
		if r.Key != key || r.RunID != strconv.Itoa(i) {
			return fmt.Errorf("under %q is the record of %q", key, r.Key)
		}
	}
	return nil
}

func checkConcurrent(ctx context.Context, s toolexec.Store) error {
	const workers, rounds = 8, 25
	key := sample("op", 0).Key
	for round := range int64(rounds) {
		var wg sync.WaitGroup
		var wins atomic.Int64
		errs := make([]error, workers)
		start := make(chan struct{})
		for i := range workers {
			wg.Go(func() {
				r := sample("op", i)
				r.Version = round
				<-start
				_, err := s.Save(ctx, r)
				switch {
				case err == nil:
					wins.Add(1)
				case !errors.Is(err, toolexec.ErrConflict):
					errs[i] = err
				}
			})
		}
		close(start)
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		r, err := s.Load(ctx, key)
		if err != nil {
			return err
		}
		if wins.Load() != 1 || r.Version != round+1 {
			return fmt.Errorf("%d of %d Saves of version %d succeeded, and the version is %d", wins.Load(), workers, round, r.Version)
		}
	}
	return nil
}

// Records

var recordRules = []storeRule{
	{"every field comes back as it was saved, and what was not set comes back not set", checkFields},
	{"texts of enums that this version does not know are kept", checkUnknownTexts},
	{"bodies come back byte for byte, and null, 0, false, \"\" and [] are results", checkBodies},
	{"large bodies come back whole", checkLarge},
	{"a nil body leaves the stored one as it is", checkNilBodies},
	{"an empty body that is not nil replaces the stored one", checkEmptyBodies},
	{"relative Instants are resolved by the store's clock and come back absolute", checkInstants},
	{"Now is the store's clock, set by Load, Save and List, and does not go back", checkNow},
	{"CreatedAt stays, and UpdatedAt is the moment of the last Save", checkTimes},
	{"a caller may write to what it has saved without changing the store", checkPassed},
	{"a caller may write to what it was given without changing the store", checkReturned},
}

// stores saves r and checks that Save and Load return it.
func stores(ctx context.Context, s toolexec.Store, r toolexec.Record) error {
	saved, err := s.Save(ctx, r)
	if err != nil {
		return err
	}
	loaded, err := s.Load(ctx, r.Key)
	if err != nil {
		return err
	}
	except := []string{"Version", "UpdatedAt", "RetainUntil", "Now"}
	if r.CreatedAt.IsZero() {
		except = append(except, "CreatedAt")
	}
	if r.State == toolexec.StateCommitted && len(loaded.Arguments) == 0 {
		except = append(except, "Arguments") // it never runs again, so a store may drop them
	}
	if err := diff(loaded, r, except...); err != nil {
		return fmt.Errorf("Load: %w", err)
	}
	if err := diff(saved, loaded, "Now", "Arguments", "Result"); err != nil {
		return fmt.Errorf("Save and Load differ: %w", err)
	}
	if err := diff(saved, r, except...); err != nil {
		return fmt.Errorf("Save: %w", err)
	}
	return nil
}

func checkFields(ctx context.Context, s toolexec.Store) error {
	for _, state := range []toolexec.State{toolexec.StateUnknown, toolexec.StateCommitted} {
		if err := stores(ctx, s, full("all-"+state.String(), state)); err != nil {
			return fmt.Errorf("every field set, state %s: %w", state, err)
		}
		if err := stores(ctx, s, emptied("none-"+state.String(), state)); err != nil {
			return fmt.Errorf("no field set, state %s: %w", state, err)
		}
		for i := range reflect.TypeFor[toolexec.Record]().NumField() {
			f := reflect.TypeFor[toolexec.Record]().Field(i)
			if f.Name == "Key" || f.Name == "State" || f.Name == "Version" || f.Name == "Now" {
				continue
			}
			// Alone too: a store may treat a record with nothing unusual in another way.
			r := emptied(f.Name+"-"+state.String(), state)
			n := 100 * i
			fill(reflect.ValueOf(&r).Elem().Field(i), f.Name, &n)
			if err := stores(ctx, s, r); err != nil {
				return fmt.Errorf("only %s set, state %s: %w", f.Name, state, err)
			}
		}
	}
	// And over a record that has everything.
	old, err := s.Load(ctx, full("all-unknown", toolexec.StateUnknown).Key)
	if err != nil {
		return err
	}
	r := emptied(old.Ref, toolexec.StateReleased)
	r.Version, r.Arguments, r.Result = old.Version, json.RawMessage{}, json.RawMessage{}
	if err := stores(ctx, s, r); err != nil {
		return fmt.Errorf("every field cleared: %w", err)
	}
	return nil
}

func checkUnknownTexts(ctx context.Context, s toolexec.Store) error {
	r := full("op", "state of a newer version")
	r.Effect = "effect of a newer version"
	r.LastFailure.Code, r.LastFailure.Class, r.LastFailure.Category = "CODE_OF_A_TOOL", "newer class", "newer category"
	r.Verification.Source = "newer source"
	r.History[0].State = "newer state"
	if err := stores(ctx, s, r); err != nil {
		return err
	}
	// The zero values print as other words than they are.
	r = emptied("zero", "")
	r.LastFailure, r.Verification, r.History = &toolexec.FailureRecord{}, &toolexec.Verification{}, make([]toolexec.HistoryEntry, 1)
	return stores(ctx, s, r)
}

func checkBodies(ctx context.Context, s toolexec.Store) error {
	for i, body := range []string{
		"null", "0", "false", `""`, "[]", "{}", "-0", "1.0", "1e400", "9007199254740993", `{"b":1, "a":2.0,"a":[ ]}`,
		`"\u0000\ud800 \/"`, "\"<\u2028\u00e9\"", " \t\n[1 , 2]",
	} {
		r := emptied("op-"+strconv.Itoa(i), toolexec.StateUnknown)
		r.Arguments, r.Result, r.ResultPresent = json.RawMessage(body), json.RawMessage(body), true
		if err := stores(ctx, s, r); err != nil {
			return err
		}
		r = emptied("fact-"+strconv.Itoa(i), toolexec.StateCommitted)
		r.Result, r.ResultPresent = json.RawMessage(body), true
		if err := stores(ctx, s, r); err != nil {
			return err
		}
	}
	return nil
}

func checkLarge(ctx context.Context, s toolexec.Store) error {
	r := emptied("op", toolexec.StateUnknown)
	r.Arguments = json.RawMessage(`"` + strings.Repeat("argument", 1<<17) + `"`)
	r.Result, r.ResultPresent = json.RawMessage(`"`+strings.Repeat("result", 1<<17)+`"`), true
	return stores(ctx, s, r)
}

func checkNilBodies(ctx context.Context, s toolexec.Store) error {
	for _, state := range []toolexec.State{toolexec.StateUnknown, toolexec.StateCommitted} {
		r := full("op-"+state.String(), state)
		saved, err := s.Save(ctx, r)
		if err != nil {
			return err
		}
		saved.Arguments, saved.Result = nil, nil
		answer, err := s.Save(ctx, saved)
		if err != nil {
			return err
		}
		loaded, err := s.Load(ctx, r.Key)
		if err != nil {
			return err
		}
		for _, b := range []struct {
			name                 string
			stored, got, answers []byte
			may                  bool
		}{
			{"Arguments", r.Arguments, loaded.Arguments, answer.Arguments, state == toolexec.StateCommitted},
			{"Result", r.Result, loaded.Result, answer.Result, false},
		} {
			if !bytes.Equal(b.got, b.stored) && !(b.may && len(b.got) == 0) {
				return fmt.Errorf("%s was %s and is %s", b.name, b.stored, b.got)
			}
			// What the caller left out need not be sent back to it.
			if len(b.answers) > 0 && !bytes.Equal(b.answers, b.stored) {
				return fmt.Errorf("%s is %s and Save returned %s", b.name, b.got, b.answers)
			}
		}
	}
	return nil
}

func checkEmptyBodies(ctx context.Context, s toolexec.Store) error {
	saved, err := s.Save(ctx, full("op", toolexec.StateUnknown))
	if err != nil {
		return err
	}
	saved.Arguments, saved.Result = json.RawMessage{}, json.RawMessage{}
	if saved, err = s.Save(ctx, saved); err != nil {
		return err
	}
	loaded, err := s.Load(ctx, saved.Key)
	if err != nil {
		return err
	}
	for _, r := range []toolexec.Record{saved, loaded} {
		if len(r.Arguments)+len(r.Result) > 0 {
			return fmt.Errorf("the bodies are %s and %s", r.Arguments, r.Result)
		}
	}
	return nil
}

// instants returns what may be relative in r.
func instants(r *toolexec.Record) map[string]*toolexec.Instant {
	return map[string]*toolexec.Instant{
		"LeaseUntil": &r.LeaseUntil, "NotBefore": &r.NotBefore, "NextCheckAt": &r.NextCheckAt,
		"UnknownSince": &r.UnknownSince, "SettledAt": &r.SettledAt, "Unresolved[0].Settles": &r.Unresolved[0].Settles,
		"Unresolved[1].Settles": &r.Unresolved[1].Settles, "History[0].At": &r.History[0].At, "Approval.Expires": &r.Approval.Expires,
	}
}

func checkInstants(ctx context.Context, s toolexec.Store) error {
	r := full("op", toolexec.StateUnknown)
	in := make(map[string]time.Duration)
	for i, name := range slices.Sorted(maps.Keys(instants(&r))) {
		in[name] = time.Duration(i-2) * 17 * time.Minute // the past and the present too
		*instants(&r)[name] = toolexec.In(in[name])
	}
	saved, err := s.Save(ctx, r)
	if err != nil {
		return err
	}
	if !r.LeaseUntil.Time().IsZero() || !r.History[0].At.Time().IsZero() {
		return errors.New("the record that was passed was resolved too")
	}
	loaded, err := s.Load(ctx, r.Key)
	if err != nil {
		return err
	}
	for _, got := range []toolexec.Record{saved, loaded} {
		for name, i := range instants(&got) {
			if want := saved.Now.Add(in[name]); !near(i.Time(), want) {
				return fmt.Errorf("%s: in %v is %v, not %v", name, in[name], i.Time(), want)
			}
		}
	}
	return nil
}

func checkNow(ctx context.Context, s toolexec.Store) error {
	saved, err := s.Save(ctx, sample("op", 0))
	if err != nil {
		return err
	}
	loaded, err := s.Load(ctx, saved.Key)
	if err != nil {
		return err
	}
	page, _, err := s.List(ctx, toolexec.Query{})
	if err != nil {
		return err
	}
	if len(page) != 1 {
		return fmt.Errorf("List returned %d records of one", len(page))
	}
	again, err := s.Save(ctx, loaded)
	if err != nil {
		return err
	}
	nows := []time.Time{saved.Now, loaded.Now, page[0].Now, again.Now}
	last := saved.Now
	for _, now := range nows {
		if now.IsZero() || now.Before(last.Add(-tolerance)) {
			return fmt.Errorf("Record.Now of Save, Load, List and Save: %v", nows)
		}
		last = now
	}
	return nil
}

func checkTimes(ctx context.Context, s toolexec.Store) error {
	first, err := s.Save(ctx, sample("op", 0))
	if err != nil {
		return err
	}
	r := first
	r.UpdatedAt = toolexec.At(base)
	second, err := s.Save(ctx, r)
	if err != nil {
		return err
	}
	loaded, err := s.Load(ctx, r.Key)
	if err != nil {
		return err
	}
	old := sample("old", 0)
	old.CreatedAt = toolexec.At(base)
	if old, err = twice(ctx, s, old); err != nil {
		return err
	}
	switch created := first.CreatedAt.Time(); {
	case !near(old.CreatedAt.Time(), base):
		return fmt.Errorf("CreatedAt was given as %v and is %v", base, old.CreatedAt.Time())
	case !near(created, first.Now):
		return fmt.Errorf("it was created at %v, and CreatedAt is %v", first.Now, created)
	case !near(second.CreatedAt.Time(), created), !near(loaded.CreatedAt.Time(), created):
		return fmt.Errorf("CreatedAt was %v and is %v", created, loaded.CreatedAt.Time())
	case !near(first.UpdatedAt.Time(), first.Now), !near(second.UpdatedAt.Time(), second.Now), !near(loaded.UpdatedAt.Time(), second.Now):
		return fmt.Errorf("it was saved at %v, and UpdatedAt is %v", second.Now, loaded.UpdatedAt.Time())
	}
	return nil
}

func checkPassed(ctx context.Context, s toolexec.Store) error {
	for _, state := range []toolexec.State{toolexec.StateUnknown, toolexec.StateCommitted} {
		r := full("op-"+state.String(), state)
		if _, err := s.Save(ctx, r); err != nil {
			return err
		}
		before, err := s.Load(ctx, r.Key)
		if err != nil {
			return err
		}
		if err := unmoved(ctx, s, before, &r); err != nil {
			return err
		}
	}
	return nil
}

func checkReturned(ctx context.Context, s toolexec.Store) error {
	for _, state := range []toolexec.State{toolexec.StateUnknown, toolexec.StateCommitted} {
		saved, err := s.Save(ctx, full("op-"+state.String(), state))
		if err != nil {
			return err
		}
		loaded, err := s.Load(ctx, saved.Key)
		if err != nil {
			return err
		}
		conflicting, _ := s.Save(ctx, sample(saved.Ref, 1)) // its error is another rule's business
		page, _, err := s.List(ctx, toolexec.Query{States: []toolexec.State{state}})
		if err != nil {
			return err
		}
		before, err := s.Load(ctx, saved.Key)
		if err != nil {
			return err
		}
		for _, r := range append(page, saved, loaded, conflicting) {
			if err := unmoved(ctx, s, before, &r); err != nil {
				return err
			}
		}
	}
	return nil
}

// unmoved writes over all that r points to, and checks that the stored record
// is what it was.
func unmoved(ctx context.Context, s toolexec.Store, was toolexec.Record, r *toolexec.Record) error {
	// Compared with a copy that shares nothing: the store may have handed out
	// its own memory twice.
	was = deepCopy(was)
	scribble(reflect.ValueOf(r).Elem())
	is, err := s.Load(ctx, was.Key)
	if err != nil {
		return err
	}
	return diff(is, was, "Now")
}

// Listing

var listRules = []storeRule{
	{"List without a filter returns every record", checkFilter(func(*toolexec.Query) {})},
	{"List selects by states", checkFilter(func(q *toolexec.Query) {
		q.States = []toolexec.State{toolexec.StateCommitted, toolexec.StateUnknown}
	})},
	{"List selects by a state that this version does not know", checkFilter(func(q *toolexec.Query) {
		q.States = []toolexec.State{"state of a newer version"}
	})},
	{"List selects by tool", checkFilter(func(q *toolexec.Query) { q.Tool = "tool-1" })},
	{"List selects by scope", checkFilter(func(q *toolexec.Query) { q.Scope = new("scope-1") })},
	{"List selects by the empty scope", checkFilter(func(q *toolexec.Query) { q.Scope = new("") })},
	{"List selects by alias", checkFilter(func(q *toolexec.Query) { q.Alias = "alias-1" })},
	{"List selects by fingerprint, its rule included", checkFilter(func(q *toolexec.Query) { q.Fingerprint = fingerprint(1) })},
	{"List selects what is due before a moment", checkFilter(func(q *toolexec.Query) { q.DueBefore = toolexec.At(base.Add(30 * time.Minute)) })},
	{"List takes a relative moment on the store's own clock", checkFilter(func(q *toolexec.Query) { q.DueBefore = toolexec.In(time.Hour) })},
	{"List selects what is open", checkFilter(func(q *toolexec.Query) { q.Open = true })},
	{"List combines filters by and", checkFilter(func(q *toolexec.Query) {
		q.States = []toolexec.State{toolexec.StateInFlight, toolexec.StateUnknown, toolexec.StateEscalated, toolexec.StateAwaitingApproval}
		q.Tool, q.Scope, q.Fingerprint = "tool-1", new("scope-1"), fingerprint(1)
	})},
	{"List returns records in the order of their keys, bytewise, scope first", checkOrder},
	{"pages return every record once, and the zero Cursor ends them", checkPages},
	{"a page holds no more than Limit says: 100 when it is 0, 1000 at most", checkLimit},
}

// fingerprint returns the first of two that differ in their rule only, and
// others.
func fingerprint(n int) toolexec.Fingerprint {
	f := toolexec.Fingerprint{Rule: uint8(1 + n%2)}
	f.Sum[31] = byte(n / 2) //nolint:gosec // n is small
	return f
}

// variety returns records that each filter selects some of.
func variety() []toolexec.Record {
	states := []toolexec.State{
		toolexec.StateInFlight, toolexec.StateReleased, toolexec.StateRejected, toolexec.StateAwaitingApproval,
		toolexec.StateUnknown, toolexec.StateCommitted, toolexec.StateEscalated, "state of a newer version",
	}
	var all []toolexec.Record
	for i := range 16 * len(states) {
		n := i / len(states)
		r := toolexec.Record{
			Key:  toolexec.Key{Scope: []string{"", "scope-1", "Scope-1"}[n%3], Ref: "op-" + strconv.Itoa(i)},
			Tool: "tool-" + strconv.Itoa(n%2), Alias: []string{"", "alias-1", "ALIAS-1", "alias-1 "}[n%4],
			State: states[i%len(states)], Fingerprint: fingerprint(n % 5), Unheard: n%3 == 1,
		}
		if n%3 > 0 {
			at := toolexec.At(base.Add(time.Duration(n) * 5 * time.Minute))
			r.LeaseUntil, r.NextCheckAt, r.NotBefore = at, at, at
		}
		if n%5 == 4 { // in the far future
			at := toolexec.In(48 * time.Hour)
			r.LeaseUntil, r.NextCheckAt, r.NotBefore = at, at, at
		}
		if n%2 > 0 {
			r.LastFailure = &toolexec.FailureRecord{Class: toolexec.ClassPermanent}
			r.Approval = &toolexec.ApprovalRecord{Decision: "approved", Spent: n%4 == 3}
		}
		all = append(all, r)
	}
	return all
}

func checkFilter(set func(*toolexec.Query)) func(context.Context, toolexec.Store) error {
	return func(ctx context.Context, s toolexec.Store) error {
		var q toolexec.Query
		set(&q)
		var want []toolexec.Key
		for _, r := range variety() {
			saved, err := s.Save(ctx, r)
			if err != nil {
				return err
			}
			// Each record is updated too, so that an index has something to follow.
			if saved, err = s.Save(ctx, saved); err != nil {
				return err
			}
			q := q
			q.Resolve(saved.Now)
			saved.State = r.State // whether it is kept is another rule
			if q.Matches(&saved) {
				want = append(want, saved.Key)
			}
		}
		got, err := listAll(ctx, s, q)
		if err != nil {
			return err
		}
		return sameKeys(keysOf(got), want)
	}
}

// sameKeys compares without order or repetition, which are other rules.
func sameKeys(got, want []toolexec.Key) error {
	got, want = slices.Clone(got), slices.Clone(want)
	slices.SortFunc(got, toolexec.Key.Compare)
	slices.SortFunc(want, toolexec.Key.Compare)
	got = slices.Compact(got)
	for _, k := range got {
		if !slices.Contains(want, k) {
			return fmt.Errorf("%q is listed and should not be", k)
		}
	}
	for _, k := range want {
		if !slices.Contains(got, k) {
			return fmt.Errorf("%q is not listed", k)
		}
	}
	return nil
}

func keysOf(records []toolexec.Record) []toolexec.Key {
	keys := make([]toolexec.Key, len(records))
	for i, r := range records {
		keys[i] = r.Key
	}
	return keys
}

// listAll follows q to its end, in a bounded number of steps.
func listAll(ctx context.Context, s toolexec.Store, q toolexec.Query) ([]toolexec.Record, error) {
	var all []toolexec.Record
	for range 5000 {
		page, next, err := s.List(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == (toolexec.Cursor{}) {
			return all, nil
		}
		q.After = next
	}
	return nil, errors.New("the listing does not end")
}

func checkOrder(ctx context.Context, s toolexec.Store) error {
	for i, text := range []string{"b", "a", "B", "A", "a b", "ab", "\u00e9", "z", "e\u0301", "10", "9", "_", "-", "~", "\U0001f600", "\uffee"} {
		for _, key := range []toolexec.Key{{Scope: "", Ref: text}, {Scope: text, Ref: "z"}, {Scope: text, Ref: "a"}} {
			r := sample("", i)
			r.Key = key
			if _, err := s.Save(ctx, r); err != nil {
				return err
			}
		}
	}
	// Whether pages join well is another rule.
	page, _, err := s.List(ctx, toolexec.Query{Limit: 1000})
	if err != nil {
		return err
	}
	for i := 1; i < len(page); i++ {
		if page[i-1].Key.Compare(page[i].Key) > 0 {
			return fmt.Errorf("%q comes before %q", page[i-1].Key, page[i].Key)
		}
	}
	return nil
}

func checkPages(ctx context.Context, s toolexec.Store) error {
	const records = 60
	var want []toolexec.Key
	for i := range records {
		r := sample("op-"+strconv.Itoa(i*7919%records), i)
		r.Scope = "scope-" + strconv.Itoa(i%3)
		if i%2 == 0 {
			r.State = toolexec.StateCommitted
		}
		if _, err := s.Save(ctx, r); err != nil {
			return err
		}
		want = append(want, r.Key)
	}
	for _, limit := range []int{1, 7, 20, records - 1, records, records + 1} {
		got, err := listAll(ctx, s, toolexec.Query{Limit: limit})
		if err != nil {
			return fmt.Errorf("limit %d: %w", limit, err)
		}
		if err := sameKeys(keysOf(got), want); err != nil {
			return fmt.Errorf("limit %d: %w", limit, err)
		}
		if len(got) != records {
			return fmt.Errorf("limit %d: %d records are listed as %d", limit, records, len(got))
		}
	}
	empty, next, err := s.List(ctx, toolexec.Query{Tool: "no such tool"})
	if err == nil && (len(empty) > 0 || next != toolexec.Cursor{}) {
		err = fmt.Errorf("a listing of nothing returned %d records and the cursor %q", len(empty), next.Key)
	}
	return err
}

func checkLimit(ctx context.Context, s toolexec.Store) error {
	for i := range 1005 {
		if _, err := s.Save(ctx, sample("op-"+strconv.Itoa(i), i)); err != nil {
			return err
		}
	}
	for _, q := range []toolexec.Query{{}, {Limit: -1}, {Limit: 1}, {Limit: 101}, {Limit: 1000}, {Limit: 1001}, {Limit: 1 << 30}} {
		page, next, err := s.List(ctx, q)
		if err != nil {
			return err
		}
		if len(page) > q.PageSize() || len(page) == 0 || next == (toolexec.Cursor{}) {
			return fmt.Errorf("with the limit %d a page of 1005 has %d, and the cursor is %q", q.Limit, len(page), next.Key)
		}
	}
	return nil
}

// Contexts

var contextRules = []storeRule{
	{"with a context that is done every method succeeds or returns its error", checkDone},
}

func checkDone(ctx context.Context, s toolexec.Store) error {
	kept, err := s.Save(ctx, sample("kept", 0))
	if err != nil {
		return err
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	_, loadErr := s.Load(done, kept.Key)
	_, _, listErr := s.List(done, toolexec.Query{})
	fresh := sample("fresh", 1)
	_, saveErr := s.Save(done, fresh)
	for _, err := range []error{loadErr, listErr, saveErr} {
		if err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("the error is %w", err)
		}
	}
	_, err = s.Load(ctx, fresh.Key)
	switch {
	case saveErr == nil && err != nil:
		return fmt.Errorf("Save succeeded and Load returned %w", err)
	case err != nil && !errors.Is(err, toolexec.ErrNotFound):
		return err
	}
	return nil
}

// Abilities

var abilityRules = []storeRule{
	{"Wait returns at once when the record has another version", checkWaitOther},
	{"Wait returns when the version changes", checkWaitChange},
	{"Wait ends with its context", checkWaitDone},
	{"Prune keeps facts that are young, and whatever is in flight, unknown, escalated or awaiting approval", checkPrune},
	{"Stats counts the records of each state", checkStats},
	{"Claim returns what matches, with Now set, and changes nothing but that it is claimed", checkClaim},
	{"Claim returns no more than Limit says", checkClaimLimit},
	{"what is claimed is not claimed again, by whoever asks at the same time", checkClaimOnce},
	{"a claim is over after its time", checkClaimEnds},
	{"a Save of a record ends its claim", checkClaimSaved},
}

func checkWaitOther(ctx context.Context, s toolexec.Store) error {
	w, ok := s.(toolexec.Waiter)
	if !ok {
		return errNotApplicable
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	saved, err := twice(ctx, s, sample("op", 0))
	if err != nil {
		return err
	}
	for key, version := range map[toolexec.Key]int64{saved.Key: 1, {Ref: "missing"}: 3} {
		if err := w.Wait(ctx, key, version); err != nil {
			return fmt.Errorf("of version %d of %q: %w", version, key, err)
		}
	}
	return nil
}

func checkWaitChange(ctx context.Context, s toolexec.Store) error {
	w, ok := s.(toolexec.Waiter)
	if !ok {
		return errNotApplicable
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := sample("op", 0)
	// Many times, because a change that comes just then is easily missed.
	for range 50 {
		const waiters = 3
		began, ended := make(chan struct{}, waiters), make(chan error, waiters)
		for range waiters {
			key, version := r.Key, r.Version
			go func() {
				began <- struct{}{}
				ended <- w.Wait(ctx, key, version)
			}()
		}
		for range waiters {
			<-began
		}
		saved, err := s.Save(ctx, r)
		for range waiters {
			err = errors.Join(err, <-ended)
		}
		if err != nil {
			return err
		}
		r = saved
	}
	return nil
}

func checkWaitDone(ctx context.Context, s toolexec.Store) error {
	w, ok := s.(toolexec.Waiter)
	if !ok {
		return errNotApplicable
	}
	saved, err := s.Save(ctx, sample("op", 0))
	if err != nil {
		return err
	}
	done, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Wait(done, saved.Key, saved.Version) }()
	cancel()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("the error is %w", err)
		}
		return nil
	case <-timeout.C:
		// Let it go by a change, so that nothing of this rule stays behind.
		_, err := s.Save(ctx, saved)
		return errors.Join(errors.New("it did not"), err)
	}
}

func checkPrune(ctx context.Context, s toolexec.Store) error {
	p, ok := s.(toolexec.Pruner)
	if !ok {
		return errNotApplicable
	}
	var kept []toolexec.Record
	for _, r := range variety() {
		saved, err := s.Save(ctx, r)
		if err != nil {
			return err
		}
		if r.State != toolexec.StateReleased && r.State != toolexec.StateRejected {
			kept = append(kept, saved)
		}
	}
	for _, limit := range []int{0, 1, 1000} {
		if n, err := p.Prune(ctx, limit); err != nil || n < 0 || n > limit {
			return fmt.Errorf("with the limit %d it deleted %d (%w)", limit, n, err)
		}
	}
	for _, r := range kept {
		loaded, err := s.Load(ctx, r.Key)
		if err != nil {
			return fmt.Errorf("of one in state %s: %w", r.State, err)
		}
		if err := diff(loaded, r, "Now"); err != nil {
			return fmt.Errorf("of one in state %s: %w", r.State, err)
		}
	}
	return nil
}

func checkStats(ctx context.Context, s toolexec.Store) error {
	st, ok := s.(toolexec.Stats)
	if !ok {
		return errNotApplicable
	}
	want := make(map[toolexec.State]int)
	for i, r := range variety() {
		if i%3 == 0 {
			continue
		}
		saved, err := s.Save(ctx, r)
		if err != nil {
			return err
		}
		if i%4 == 0 {
			r.State, r.Version = toolexec.StateCommitted, saved.Version
			if _, err = s.Save(ctx, r); err != nil {
				return err
			}
		}
		want[r.State]++
	}
	got, err := st.Stats(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(got, func(_ toolexec.State, n int) bool { return n == 0 })
	if !maps.Equal(got, want) {
		return fmt.Errorf("they are %v and Stats says %v", want, got)
	}
	return nil
}

// claimer returns s as one, with n records that are due, and a query for them.
func claimer(ctx context.Context, s toolexec.Store, n int) (toolexec.Claimer, []toolexec.Record, toolexec.Query, error) {
	q := toolexec.Query{States: []toolexec.State{toolexec.StateInFlight}, DueBefore: toolexec.In(0), Limit: n}
	c, ok := s.(toolexec.Claimer)
	if !ok {
		return nil, nil, q, errNotApplicable
	}
	var due []toolexec.Record
	for i := range n {
		r := sample("due-"+strconv.Itoa(i), i)
		r.LeaseUntil = toolexec.In(-time.Hour) // in a bubble base is still to come
		saved, err := s.Save(ctx, r)
		if err != nil {
			return nil, nil, q, err
		}
		due = append(due, saved)
	}
	return c, due, q, nil
}

func checkClaim(ctx context.Context, s toolexec.Store) error {
	c, due, q, err := claimer(ctx, s, 5)
	if err != nil {
		return err
	}
	// Beside them, one that is not due, and one in another state.
	later, other := sample("later", 0), sample("other", 0)
	later.LeaseUntil = toolexec.In(48 * time.Hour)
	other.State, other.NextCheckAt = toolexec.StateUnknown, toolexec.In(-time.Hour)
	for _, r := range []toolexec.Record{later, other} {
		if _, err := s.Save(ctx, r); err != nil {
			return err
		}
	}
	q.Limit = 100
	claimed, err := c.Claim(ctx, q, time.Hour)
	if err != nil {
		return err
	}
	if err := sameKeys(keysOf(claimed), keysOf(due)); err != nil {
		return err
	}
	if len(claimed) != len(due) {
		return fmt.Errorf("%d records are claimed as %d", len(due), len(claimed))
	}
	for _, r := range claimed {
		if r.Now.IsZero() {
			return errors.New("Record.Now is not set")
		}
		loaded, err := s.Load(ctx, r.Key)
		if err != nil {
			return err
		}
		was := due[slices.IndexFunc(due, func(d toolexec.Record) bool { return d.Key == r.Key })]
		if err := diff(loaded, was, "Now"); err != nil {
			return err
		}
		if err := diff(r, was, "Now", "Arguments", "Result"); err != nil {
			return fmt.Errorf("as it is claimed: %w", err)
		}
	}
	return nil
}

func checkClaimLimit(ctx context.Context, s toolexec.Store) error {
	c, due, q, err := claimer(ctx, s, 7)
	if err != nil {
		return err
	}
	var got []int
	q.Limit = 3
	for range 4 {
		claimed, err := c.Claim(ctx, q, time.Hour)
		if err != nil {
			return err
		}
		got = append(got, len(claimed))
	}
	if want := []int{3, 3, 1, 0}; !slices.Equal(got, want) {
		return fmt.Errorf("of %d records, three at a time, it claimed %v and not %v", len(due), got, want)
	}
	return nil
}

func checkClaimOnce(ctx context.Context, s toolexec.Store) error {
	c, due, q, err := claimer(ctx, s, 40)
	if err != nil {
		return err
	}
	const claimers = 4
	q.Limit = 3
	var wg sync.WaitGroup
	keys, errs := make([][]toolexec.Key, claimers), make([]error, claimers)
	for i := range claimers {
		wg.Go(func() {
			for range due { // a claim may find nothing because others hold what it looks at
				claimed, err := c.Claim(ctx, q, time.Hour)
				if err != nil {
					errs[i] = err
					return
				}
				keys[i] = append(keys[i], keysOf(claimed)...)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	all := slices.Concat(keys...)
	if len(all) > len(due) {
		return fmt.Errorf("%d records were claimed %d times", len(due), len(all))
	}
	return sameKeys(all, keysOf(due))
}

func checkClaimEnds(ctx context.Context, s toolexec.Store) error {
	c, due, q, err := claimer(ctx, s, 2)
	if err != nil {
		return err
	}
	// For no time, so that nobody has to wait.
	for i := range 2 {
		claimed, err := c.Claim(ctx, q, 0)
		if err != nil {
			return err
		}
		if len(claimed) != len(due) {
			return fmt.Errorf("claim %d of %d records returned %d", i+1, len(due), len(claimed))
		}
	}
	return nil
}

func checkClaimSaved(ctx context.Context, s toolexec.Store) error {
	c, due, q, err := claimer(ctx, s, 2)
	if err != nil {
		return err
	}
	if _, err := c.Claim(ctx, q, time.Hour); err != nil {
		return err
	}
	if _, err := s.Save(ctx, due[0]); err != nil {
		return err
	}
	again, err := c.Claim(ctx, q, time.Hour)
	if err != nil {
		return err
	}
	return sameKeys(keysOf(again), []toolexec.Key{due[0].Key})
}

// Records to store

// base is a moment that any database can hold.
var base = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

// sample returns an ordinary record; n is in RunID, to tell it from others.
func sample(ref string, n int) toolexec.Record {
	return toolexec.Record{
		Key: toolexec.Key{Scope: "tenant", Ref: ref}, Tool: "tool", State: toolexec.StateInFlight,
		RunID: strconv.Itoa(n), Arguments: json.RawMessage(`{"n":` + strconv.Itoa(n) + `}`), Attempts: 1,
	}
}

// emptied returns a record with nothing set that may be left out.
func emptied(ref string, state toolexec.State) toolexec.Record {
	return toolexec.Record{Key: toolexec.Key{Scope: "tenant", Ref: ref}, Tool: "tool", State: state}
}

// full returns a record to create in which every field is set.
func full(ref string, state toolexec.State) toolexec.Record {
	var r toolexec.Record
	n := 0
	fill(reflect.ValueOf(&r).Elem(), "", &n)
	r.Key, r.State, r.Version = toolexec.Key{Scope: "tenant", Ref: ref}, state, 0
	return r
}

var (
	typeInstant = reflect.TypeFor[toolexec.Instant]()
	typeTime    = reflect.TypeFor[time.Time]()
	typeRaw     = reflect.TypeFor[json.RawMessage]()
)

// fill sets v and all in it to values that differ. It goes by reflection, so
// that a new field of Record cannot be forgotten, and panics at a kind of field
// that it does not know.
func fill(v reflect.Value, path string, n *int) {
	*n++
	switch v.Type() {
	case typeInstant:
		v.Set(reflect.ValueOf(toolexec.At(base.Add(time.Duration(*n) * time.Second))))
		return
	case typeTime:
		v.Set(reflect.ValueOf(base.Add(time.Duration(*n) * time.Second)))
		return
	case typeRaw:
		v.SetBytes([]byte(`{"` + path + `":` + strconv.Itoa(*n) + `}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(path + " " + strconv.Itoa(*n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8:
		v.SetUint(uint64(*n % 256)) //nolint:gosec // n counts from 0
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Interface: // a value of Details, of whose types only string is sure to survive JSON
		v.Set(reflect.ValueOf(path + " " + strconv.Itoa(*n)))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillElements(v, path, n)
	case reflect.Array:
		fillElements(v, path, n)
	case reflect.Map:
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, path+" key", n)
		fill(elem, path, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, elem)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), n)
		}
	default:
		panic("toolexectest: fill does not know the kind of Record." + path)
	}
}

func fillElements(v reflect.Value, path string, n *int) {
	for i := range v.Len() {
		fill(v.Index(i), path, n)
	}
}

// scribble writes over all memory that v refers to.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			v.Elem().SetZero()
		}
	case reflect.Map:
		v.Clear()
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
			v.Index(i).SetZero()
		}
	case reflect.Struct:
		if v.Type() == typeInstant || v.Type() == typeTime {
			return
		}
		for _, field := range v.Fields() {
			scribblePointee(field)
		}
	}
}

// scribblePointee goes through a pointer before scribble would cut it off.
func scribblePointee(v reflect.Value) {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		scribble(v.Elem())
	}
	scribble(v)
}

// deepCopy copies r by reflection, so as not to trust Record.Clone.
func deepCopy(r toolexec.Record) toolexec.Record {
	copyValue(reflect.ValueOf(&r).Elem())
	return r
}

func copyValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			p := reflect.New(v.Type().Elem())
			p.Elem().Set(v.Elem())
			copyValue(p.Elem())
			v.Set(p)
		}
	case reflect.Map:
		if !v.IsNil() {
			m := reflect.MakeMap(v.Type())
			for it := v.MapRange(); it.Next(); {
				m.SetMapIndex(it.Key(), it.Value())
			}
			v.Set(m)
		}
	case reflect.Slice:
		if !v.IsNil() {
			s := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(s, v)
			for i := range s.Len() {
				copyValue(s.Index(i))
			}
			v.Set(s)
		}
	case reflect.Struct:
		if v.Type() == typeInstant || v.Type() == typeTime {
			return
		}
		for _, field := range v.Fields() {
			copyValue(field)
		}
	}
}

// diff returns an error that names the first field in which got is not want,
// but for those named. Moments are equal when they are near, and empty is nil.
func diff(got, want toolexec.Record, except ...string) error {
	for _, name := range except {
		reflect.ValueOf(&want).Elem().FieldByName(name).Set(reflect.ValueOf(&got).Elem().FieldByName(name))
	}
	if path := differs(reflect.ValueOf(got), reflect.ValueOf(want)); path != "" {
		return errors.New("Record" + path)
	}
	return nil
}

// differs returns "" if a and b are equal, else where and how they differ.
func differs(a, b reflect.Value) string {
	switch v := a.Interface().(type) {
	case toolexec.Instant:
		w, _ := reflect.TypeAssert[toolexec.Instant](b)
		return timeDiffers(v.Time(), w.Time())
	case time.Time:
		w, _ := reflect.TypeAssert[time.Time](b)
		return timeDiffers(v, w)
	case json.RawMessage:
		if w, _ := reflect.TypeAssert[json.RawMessage](b); !bytes.Equal(v, w) {
			return fmt.Sprintf(" is %s, not %s", short(v), short(w))
		}
		return ""
	}
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if d := differs(a.Field(i), b.Field(i)); d != "" {
				return "." + a.Type().Field(i).Name + d
			}
		}
	case reflect.Pointer:
		if a.IsNil() != b.IsNil() {
			return fmt.Sprintf(" is nil: %t, not %t", a.IsNil(), b.IsNil())
		}
		if !a.IsNil() {
			return differs(a.Elem(), b.Elem())
		}
	case reflect.Slice:
		if a.Len() != b.Len() {
			return fmt.Sprintf(" has %d elements, not %d", a.Len(), b.Len())
		}
		for i := range a.Len() {
			if d := differs(a.Index(i), b.Index(i)); d != "" {
				return "[" + strconv.Itoa(i) + "]" + d
			}
		}
	default:
		empty := a.Kind() == reflect.Map && a.Len() == 0 && b.Len() == 0
		if !empty && !reflect.DeepEqual(a.Interface(), b.Interface()) {
			return fmt.Sprintf(" is %v, not %v", a, b)
		}
	}
	return ""
}

func timeDiffers(a, b time.Time) string {
	if a.IsZero() != b.IsZero() || !near(a, b) {
		return fmt.Sprintf(" is %v, not %v", a, b)
	}
	return ""
}

func short(b []byte) string { return fmt.Sprintf("%.80q (%d bytes)", b, len(b)) }

func near(a, b time.Time) bool { return a.Sub(b).Abs() <= tolerance }
