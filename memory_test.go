package toolexec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

func memoryRecord(ref string, state toolexec.State) toolexec.Record {
	r := toolexec.Record{
		Key: toolexec.Key{Scope: "tenant", Ref: ref}, Tool: "refund", State: state, Attempts: 1,
		Fingerprint: toolexec.Fingerprint{Rule: 1, Sum: [32]byte{1}}, Arguments: json.RawMessage(`{"amount":1}`),
	}
	if state == toolexec.StateCommitted {
		r.Result, r.ResultPresent, r.ResultDigest = json.RawMessage(`{"id":"re_1"}`), true, "digest"
	}
	return r
}

func mustSave(t testing.TB, m *toolexec.MemoryStore, r toolexec.Record) toolexec.Record {
	t.Helper()
	out, err := m.Save(t.Context(), r)
	require.NoError(t, err)
	return out
}

func usage(m *toolexec.MemoryStore) int {
	n, _ := m.Usage()
	return n
}

var openStates = []toolexec.State{
	toolexec.StateInFlight, toolexec.StateUnknown, toolexec.StateEscalated, toolexec.StateAwaitingApproval, "state of a newer version",
}

func TestMemoryRetentionOfResultAndFact(t *testing.T) {
	tests := []struct {
		name         string
		store        toolexec.MemoryStore // a zero value with settings, not used yet
		result, fact time.Duration
	}{
		{"defaults", toolexec.MemoryStore{}, time.Hour, 24 * time.Hour},
		{"settings", toolexec.MemoryStore{KeepResults: time.Minute, KeepFacts: time.Second * 90}, time.Minute, 90 * time.Second},
		{"a fact takes its result along", toolexec.MemoryStore{KeepResults: time.Hour, KeepFacts: time.Minute}, time.Minute, time.Minute},
		{"no results", toolexec.MemoryStore{KeepResults: -1}, 0, 24 * time.Hour},
		{"facts for ever", toolexec.MemoryStore{KeepFacts: -1}, time.Hour, 100 * 365 * 24 * time.Hour},
		{"longer than can be counted", toolexec.MemoryStore{KeepFacts: 1<<63 - 1, KeepResults: 1<<63 - 1}, 200 * 365 * 24 * time.Hour, 200 * 365 * 24 * time.Hour},
	}
	for i := range tests {
		tt := &tests[i]
		for _, unusual := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unusual %t", tt.name, unusual), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := &toolexec.MemoryStore{KeepResults: tt.store.KeepResults, KeepFacts: tt.store.KeepFacts}
					r := memoryRecord("op", toolexec.StateCommitted)
					if unusual { // keeps it out of the compact form
						r.LastFailure = &toolexec.FailureRecord{Code: "X"}
					}
					saved := mustSave(t, m, r)
					began := time.Now()
					assert.Nil(t, saved.Arguments, "it never runs again")
					assert.Equal(t, tt.result > 0, saved.ResultPresent)
					if tt.store.KeepFacts < 0 {
						assert.True(t, saved.RetainUntil.IsZero())
					} else {
						assert.True(t, saved.RetainUntil.Time().Equal(saved.Now.Add(max(tt.fact, m.KeepFacts))))
					}
					check := func(result, fact bool) {
						t.Helper()
						got, err := m.Load(t.Context(), r.Key)
						if !fact {
							require.ErrorIs(t, err, toolexec.ErrNotFound)
							return
						}
						require.NoError(t, err)
						assert.Equal(t, result, got.ResultPresent)
						assert.Equal(t, result, got.Result != nil)
						assert.Equal(t, "digest", got.ResultDigest)
						assert.True(t, got.RetainUntil.Time().Equal(saved.RetainUntil.Time()))
						current, err := m.Save(t.Context(), r)
						require.ErrorIs(t, err, toolexec.ErrConflict)
						assert.Equal(t, got.Result, current.Result)
					}
					if tt.result > 0 {
						time.Sleep(tt.result - 1)
						check(true, true)
						time.Sleep(1)
					}
					if tt.result < tt.fact {
						check(false, true)
					}
					time.Sleep(tt.fact - 1 - time.Since(began))
					if tt.fact > tt.result {
						check(false, true)
					}
					if tt.fact < 50*365*24*time.Hour {
						time.Sleep(1)
						check(false, false)
					}
				})
			})
		}
	}
}

func TestMemoryExpiryWithoutPruning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &toolexec.MemoryStore{}
		for _, state := range []toolexec.State{toolexec.StateCommitted, toolexec.StateReleased, toolexec.StateRejected} {
			mustSave(t, m, memoryRecord(state.String(), state))
		}
		time.Sleep(24*time.Hour - 1)
		counts, err := m.Stats(t.Context())
		require.NoError(t, err)
		assert.Equal(t, map[toolexec.State]int{toolexec.StateCommitted: 1, toolexec.StateReleased: 1, toolexec.StateRejected: 1}, counts)

		time.Sleep(1)
		counts, err = m.Stats(t.Context())
		require.NoError(t, err)
		assert.Empty(t, counts)
		for _, q := range []toolexec.Query{{}, {States: []toolexec.State{toolexec.StateReleased, toolexec.StateRejected}}} {
			page, next, err := m.List(t.Context(), q)
			require.NoError(t, err)
			assert.Empty(t, page)
			assert.Zero(t, next)
		}
		r := memoryRecord("committed", toolexec.StateCommitted)
		r.Version = 1
		current, err := m.Save(t.Context(), r)
		require.ErrorIs(t, err, toolexec.ErrConflict)
		assert.Zero(t, current, "an update of what has expired finds nothing")
		r.Version = 0
		assert.EqualValues(t, 1, mustSave(t, m, r).Version, "it is created anew")
	})
}

func TestMemoryNeverForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &toolexec.MemoryStore{MaxFacts: 8}
		for _, state := range openStates {
			mustSave(t, m, memoryRecord(state.String(), state))
		}
		for _, state := range []toolexec.State{toolexec.StateReleased, toolexec.StateRejected} {
			r := memoryRecord("open "+state.String(), state)
			r.Unresolved = []toolexec.Unresolved{{Attempt: "n/1"}}
			mustSave(t, m, r)
		}
		later := memoryRecord("later", toolexec.StateReleased)
		later.NotBefore = toolexec.In(10 * 24 * time.Hour)
		mustSave(t, m, later)

		time.Sleep(11*24*time.Hour - 1)
		_, err := m.Save(t.Context(), memoryRecord("new", toolexec.StateInFlight))
		require.ErrorIs(t, err, toolexec.ErrStoreFull)
		_, err = m.Load(t.Context(), later.Key)
		require.NoError(t, err, "its NotBefore has passed a day ago, less a moment")
		time.Sleep(1)
		mustSave(t, m, memoryRecord("new", toolexec.StateInFlight))
		_, err = m.Load(t.Context(), later.Key)
		require.ErrorIs(t, err, toolexec.ErrNotFound)

		time.Sleep(200 * 365 * 24 * time.Hour)
		n, err := m.Prune(t.Context(), 1000)
		require.NoError(t, err)
		assert.Zero(t, n)
		assert.Equal(t, 8, usage(m))
	})
}

func TestMemoryBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &toolexec.MemoryStore{MaxFacts: 3, KeepFacts: time.Hour}
		first := mustSave(t, m, memoryRecord("0", toolexec.StateCommitted))
		time.Sleep(time.Minute)
		for i := 1; i < 3; i++ {
			mustSave(t, m, memoryRecord(strconv.Itoa(i), toolexec.StateCommitted))
		}
		n, bound := m.Usage()
		assert.Equal(t, []int{3, 3}, []int{n, bound})
		for range 3 {
			out, err := m.Save(t.Context(), memoryRecord("new", toolexec.StateInFlight))
			require.ErrorIs(t, err, toolexec.ErrStoreFull)
			assert.Zero(t, out)
		}
		_, err := m.Load(t.Context(), first.Key)
		require.NoError(t, err, "no fact is forgotten early")
		second, err := m.Load(t.Context(), toolexec.Key{Scope: "tenant", Ref: "1"})
		require.NoError(t, err)
		mustSave(t, m, second) // an update passes
		wrong := memoryRecord("new", toolexec.StateInFlight)
		wrong.Version = 4
		_, err = m.Save(t.Context(), wrong)
		require.ErrorIs(t, err, toolexec.ErrConflict, "which is no create")

		time.Sleep(59 * time.Minute) // the first has expired
		mustSave(t, m, memoryRecord("new", toolexec.StateInFlight))
		_, err = m.Save(t.Context(), memoryRecord("newer", toolexec.StateInFlight))
		require.ErrorIs(t, err, toolexec.ErrStoreFull, "but that was one")
	})
}

func TestMemoryBoundSettings(t *testing.T) {
	_, bound := new(toolexec.MemoryStore).Usage()
	assert.Equal(t, 1_000_000, bound)
	m := &toolexec.MemoryStore{MaxFacts: -1}
	for i := range 100 {
		mustSave(t, m, memoryRecord(strconv.Itoa(i), toolexec.StateInFlight))
	}
	n, bound := m.Usage()
	assert.Equal(t, 100, n)
	assert.Zero(t, bound)
	assert.True(t, m.Volatile())
}

func TestMemoryBoundUnderConcurrency(t *testing.T) {
	m := &toolexec.MemoryStore{MaxFacts: 100}
	var created atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				_, err := m.Save(context.Background(), memoryRecord(fmt.Sprint(g, " ", i), toolexec.StateInFlight)) // may outlive a failed test
				if err == nil {
					created.Add(1)
				} else {
					assert.ErrorIs(t, err, toolexec.ErrStoreFull)
				}
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 100, created.Load())
	assert.Equal(t, 100, usage(m))
}

func TestMemoryPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &toolexec.MemoryStore{}
		const facts = 500
		for i := range facts {
			mustSave(t, m, memoryRecord(strconv.Itoa(i), toolexec.StateCommitted))
		}
		time.Sleep(time.Hour)
		n, err := m.Prune(t.Context(), 1000)
		require.NoError(t, err)
		assert.Zero(t, n, "results go, facts stay")
		time.Sleep(23 * time.Hour)
		for _, limit := range []int{-1, 0} {
			n, err = m.Prune(t.Context(), limit)
			require.NoError(t, err)
			assert.Zero(t, n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = m.Prune(ctx, 1)
		require.ErrorIs(t, err, context.Canceled)
		for _, step := range []struct{ limit, want int }{{1, 1}, {199, 199}, {200, 200}, {1000, 100}, {1, 0}} {
			n, err = m.Prune(t.Context(), step.limit)
			require.NoError(t, err)
			assert.Equal(t, step.want, n)
		}
		assert.Zero(t, usage(m))
	})
}

// What has expired is freed by the Saves that follow, a few at a time.
func TestMemoryTidiesAsItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &toolexec.MemoryStore{}
		for i := range 1000 {
			mustSave(t, m, memoryRecord("old "+strconv.Itoa(i), toolexec.StateCommitted))
		}
		time.Sleep(25 * time.Hour)
		before := usage(m)
		mustSave(t, m, memoryRecord("new", toolexec.StateInFlight))
		assert.GreaterOrEqual(t, usage(m), before+1-4, "no sweep")
		for i := range 2000 {
			mustSave(t, m, memoryRecord("new "+strconv.Itoa(i), toolexec.StateInFlight))
		}
		assert.Equal(t, 2001, usage(m))
	})
}

// The result of a fact is freed, not only hidden, while the fact stays.
func TestMemoryFreesResults(t *testing.T) {
	for _, unusual := range []bool{false, true} {
		t.Run(fmt.Sprintf("unusual %t", unusual), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &toolexec.MemoryStore{}
				before := heap()
				for i := range 64 {
					r := memoryRecord(strconv.Itoa(i), toolexec.StateCommitted)
					r.Result = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
					if unusual {
						r.Checks = 1
					}
					mustSave(t, m, r)
				}
				assert.Greater(t, heap()-before, 60<<20)
				time.Sleep(time.Hour)
				_, err := m.Prune(t.Context(), 1)
				require.NoError(t, err)
				assert.Less(t, heap()-before, 8<<20)
				assert.Equal(t, 64, usage(m))
			})
		})
	}
}

func heap() int {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // the second empties what the first left in pools
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// sameRecord compares field by field; moments may be in other locations.
func sameRecord(t *testing.T, want, got toolexec.Record) {
	t.Helper()
	if reflect.DeepEqual(want, got) { // as nearly always
		return
	}
	for i := range reflect.TypeFor[toolexec.Record]().NumField() {
		name := reflect.TypeFor[toolexec.Record]().Field(i).Name
		w, g := reflect.ValueOf(want).Field(i).Interface(), reflect.ValueOf(got).Field(i).Interface()
		switch w := w.(type) {
		case toolexec.Instant:
			assert.True(t, w.Time().Equal(g.(toolexec.Instant).Time()), "%s: %v, not %v", name, g, w)
		case *toolexec.Verification:
			v, _ := g.(*toolexec.Verification)
			require.Equal(t, w == nil, v == nil, name)
			if w != nil {
				assert.True(t, w.CheckedAt.Equal(v.CheckedAt), "%s: %v, not %v", name, v.CheckedAt, w.CheckedAt)
				assert.Equal(t, []any{w.Source, w.EvidenceRef}, []any{v.Source, v.EvidenceRef}, name)
			}
		default:
			assert.Equal(t, w, g, name)
		}
	}
}

// What may be in a compact record comes back in every combination, and so do
// values that just do not fit. That no field is forgotten is in the kit, which
// goes by reflection.
func TestMemoryCompactRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	texts := []string{"", "a", "nonce-1", "nonce-1/2", "\x00", "é", strings.Repeat("x", 65535), strings.Repeat("y", 65536)}
	moments := []time.Time{
		{}, time.Unix(0, 0), time.Unix(-1, 5), time.Date(2030, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600)),
		time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2262, 4, 12, 0, 0, 0, 0, time.UTC), time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(1678, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2261, 12, 31, 23, 59, 59, 999999999, time.UTC),
	}
	text := func() string { return texts[min(rng.IntN(len(texts)), rng.IntN(len(texts)))] }
	moment := func() time.Time { return moments[min(rng.IntN(len(moments)), rng.IntN(len(moments)))] }
	m := &toolexec.MemoryStore{MaxFacts: -1}
	for i := range 3000 {
		r := toolexec.Record{
			Key: toolexec.Key{Scope: text(), Ref: strconv.Itoa(i)}, Alias: text(), Tool: text(), Owner: text(), Nonce: text(),
			CommittedBy: text(), RunID: text(), ResultDigest: text(), Effect: toolexec.Effect(text()), State: toolexec.StateCommitted,
			Sent: rng.IntN(2) == 0, Attempts: []int{0, 1, 65535, 65536, -1}[rng.IntN(5)],
			Fingerprint: toolexec.Fingerprint{Rule: uint8(rng.IntN(256)), Sum: [32]byte{byte(i)}},
			SettledAt:   toolexec.At(moment()), CreatedAt: toolexec.At(moment()),
		}
		if rng.IntN(2) == 0 {
			r.Verification = &toolexec.Verification{CheckedAt: moment(), Source: toolexec.Source(text()), EvidenceRef: text()}
		}
		if rng.IntN(2) == 0 {
			r.Result, r.ResultPresent = json.RawMessage(`"`+text()+`"`), true
		}
		if rng.IntN(2) == 0 { // the usual way to be committed
			begin := memoryRecord(r.Ref, toolexec.StateInFlight)
			begin.Scope = r.Scope
			r.Version = mustSave(t, m, begin).Version
		}
		saved := mustSave(t, m, r)
		loaded, err := m.Load(t.Context(), r.Key)
		require.NoError(t, err)
		saved.Now = loaded.Now
		if r.CreatedAt.IsZero() {
			r.CreatedAt = saved.CreatedAt
		}
		r.Version, r.UpdatedAt, r.RetainUntil, r.Now = saved.Version, saved.UpdatedAt, saved.RetainUntil, saved.Now
		sameRecord(t, saved, loaded)
		sameRecord(t, r, loaded)
		if t.Failed() {
			t.Fatalf("seed %d, record %d", seed, i)
		}
	}
}

// A committed record may be saved again, also as one that is not compact, and
// keeps its result.
func TestMemoryCompactAndBack(t *testing.T) {
	m := &toolexec.MemoryStore{}
	r := mustSave(t, m, memoryRecord("op", toolexec.StateCommitted))
	result := r.Result
	for i := range 6 {
		r.Result, r.History = nil, nil
		if i%2 == 0 {
			r.History = []toolexec.HistoryEntry{{Event: "alarm"}}
		}
		r = mustSave(t, m, r)
		assert.Equal(t, result, r.Result)
		loaded, err := m.Load(t.Context(), r.Key)
		require.NoError(t, err)
		loaded.Now = r.Now
		sameRecord(t, r, loaded)
	}
}

// So many that some of them meet in one slot.
func TestMemoryFactsAreSmallAndFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const facts = 200_000
		m := &toolexec.MemoryStore{}
		before := heap()
		for i := range facts {
			commitOne(t, m, i)
		}
		perFact := (heap() - before) / facts
		t.Logf("%d B per fact", perFact)
		assert.Less(t, perFact, 400, "beyond a result of two bytes")

		for i := range facts {
			nonce := nonceOf(i)
			r, err := m.Load(t.Context(), toolexec.Key{Scope: "tenant", Ref: "op_" + nonce})
			if err != nil || r.Nonce != nonce || r.CommittedBy != nonce+"/1" {
				t.Fatal(i, r, err)
			}
		}
		counts, err := m.Stats(t.Context())
		require.NoError(t, err)
		assert.Equal(t, map[toolexec.State]int{toolexec.StateCommitted: facts}, counts)
		time.Sleep(24 * time.Hour)
		n, err := m.Prune(t.Context(), facts+1)
		require.NoError(t, err)
		assert.Equal(t, facts, n)
		assert.Zero(t, usage(m))
		for i := range 1000 {
			commitOne(t, m, i)
		}
	})
}

func nonceOf(i int) string { return fmt.Sprintf("%08x-0000-7000-8000-%012x", i, i) }

// commitOne does what the guard does for an operation that succeeds at once.
func commitOne(t testing.TB, m *toolexec.MemoryStore, i int) {
	nonce := nonceOf(i)
	r, err := m.Save(context.Background(), toolexec.Record{ // t.Context costs more than the Save
		Key: toolexec.Key{Scope: "tenant", Ref: "op_" + nonce}, Tool: "process_refund", State: toolexec.StateInFlight,
		Owner: "host-1234-5678", Nonce: nonce, Attempts: 1, RunID: "run_81", Arguments: json.RawMessage(`{"amount":1,"order":"ORD-5510"}`),
		Fingerprint: toolexec.Fingerprint{Rule: 1, Sum: [32]byte{byte(i), byte(i >> 8), byte(i >> 16)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.State, r.Arguments, r.Result, r.ResultPresent = toolexec.StateCommitted, nil, json.RawMessage(`{}`), true
	r.CommittedBy, r.SettledAt, r.Verification = nonce+"/1", toolexec.In(0), &toolexec.Verification{}
	if _, err = m.Save(context.Background(), r); err != nil { // t.Context costs more than the Save
		t.Fatal(err)
	}
}

// modelStore is the plainest store with the same rules.
type modelStore struct {
	max                    int
	keepResults, keepFacts time.Duration
	records                map[toolexec.Key]toolexec.Record
}

func (s *modelStore) expire() {
	maps.DeleteFunc(s.records, func(_ toolexec.Key, r toolexec.Record) bool {
		return !r.RetainUntil.IsZero() && !time.Now().Before(r.RetainUntil.Time())
	})
	for k, r := range s.records {
		if r.State == toolexec.StateCommitted && !time.Now().Before(r.UpdatedAt.Time().Add(s.keepResults)) {
			r.Result, r.ResultPresent = nil, false
			s.records[k] = r
		}
	}
}

func (s *modelStore) save(r toolexec.Record) (toolexec.Record, error) {
	s.expire()
	old, ok := s.records[r.Key]
	switch {
	case old.Version != r.Version:
		return old, toolexec.ErrConflict
	case !ok && len(s.records) >= s.max:
		return toolexec.Record{}, toolexec.ErrStoreFull
	}
	r = r.Clone()
	if r.Arguments == nil {
		r.Arguments = old.Arguments
	}
	if r.Result == nil {
		r.Result = old.Result
	}
	r.Resolve(time.Now().UTC().Round(0))
	r.Version++
	r.RetainUntil = toolexec.Instant{}
	switch r.State {
	case toolexec.StateCommitted:
		r.Arguments = nil
		r.RetainUntil = toolexec.At(r.Now.Add(s.keepFacts))
	case toolexec.StateReleased, toolexec.StateRejected:
		r.RetainUntil = toolexec.At(r.Now.Add(s.keepFacts))
		if r.NotBefore.Time().After(r.Now) {
			r.RetainUntil = toolexec.At(r.NotBefore.Time().Add(s.keepFacts))
		}
	}
	s.records[r.Key] = r
	return r, nil
}

func (s *modelStore) list(q toolexec.Query) (keys []toolexec.Key) {
	s.expire()
	q.Resolve(time.Now())
	for k, r := range s.records {
		if q.Matches(&r) && (q.After == toolexec.Cursor{} || k.Compare(q.After.Key) > 0) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, toolexec.Key.Compare)
	return keys
}

var modelStates = append([]toolexec.State{toolexec.StateCommitted, toolexec.StateCommitted, toolexec.StateReleased, toolexec.StateRejected}, openStates...)

func randomRecord(rng *rand.Rand) toolexec.Record {
	r := toolexec.Record{
		Key:   toolexec.Key{Scope: []string{"", "a", "b"}[rng.IntN(3)], Ref: strconv.Itoa(rng.IntN(15))},
		State: modelStates[rng.IntN(len(modelStates))], Tool: []string{"t", "u"}[rng.IntN(2)], Alias: []string{"", "x", "y"}[rng.IntN(3)],
		Fingerprint: toolexec.Fingerprint{Rule: uint8(rng.IntN(2)), Sum: [32]byte{byte(rng.IntN(3))}},
	}
	if rng.IntN(2) == 0 {
		r.Result, r.ResultPresent = json.RawMessage(strconv.Itoa(rng.IntN(100))), true
		r.Arguments = json.RawMessage(strconv.Itoa(rng.IntN(100)))
	}
	for _, i := range []*toolexec.Instant{&r.NotBefore, &r.NextCheckAt, &r.LeaseUntil} {
		if rng.IntN(3) == 0 {
			*i = toolexec.In(time.Duration(rng.IntN(300)-100) * time.Minute)
		}
	}
	return r
}

func randomQuery(rng *rand.Rand) (q toolexec.Query) {
	for range rng.IntN(4) {
		q.States = append(q.States, modelStates[rng.IntN(len(modelStates))])
	}
	like := randomRecord(rng)
	if rng.IntN(3) == 0 {
		q.Tool = like.Tool
	}
	if rng.IntN(3) == 0 {
		q.Scope = &like.Scope
	}
	if rng.IntN(4) == 0 {
		q.Alias = like.Alias
	}
	if rng.IntN(2) == 0 {
		q.Fingerprint = like.Fingerprint
	}
	if rng.IntN(4) == 0 {
		q.DueBefore = toolexec.In(time.Duration(rng.IntN(200)-100) * time.Minute)
	}
	if rng.IntN(2) == 0 {
		q.Limit = 1 + rng.IntN(10)
	}
	if rng.IntN(4) == 0 {
		q.After = toolexec.Cursor{Key: like.Key}
	}
	return q
}

func TestMemoryAgainstModel(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { compareWithModel(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func compareWithModel(t *testing.T, rng *rand.Rand) {
	const keepResults, keepFacts, bound = 30 * time.Minute, 2 * time.Hour, 25
	m := &toolexec.MemoryStore{MaxFacts: bound, KeepResults: keepResults, KeepFacts: keepFacts}
	model := &modelStore{bound, keepResults, keepFacts, make(map[toolexec.Key]toolexec.Record)}
	for range 1500 {
		switch rng.IntN(8) {
		case 0:
			time.Sleep(time.Duration(rng.IntN(int(10 * time.Minute))))
		case 1:
			_, err := m.Prune(t.Context(), rng.IntN(5))
			require.NoError(t, err)
		case 2, 3:
			q := randomQuery(rng)
			want, got := model.list(q), []toolexec.Key(nil)
			for more := true; more; more = q.After != (toolexec.Cursor{}) {
				page, next, err := m.List(t.Context(), q)
				require.NoError(t, err)
				for _, r := range page {
					got = append(got, r.Key)
				}
				q.After = next
			}
			require.Equal(t, want, got, "%+v", q)
		case 4:
			want := make(map[toolexec.State]int)
			model.expire()
			for _, r := range model.records {
				want[r.State]++
			}
			got, err := m.Stats(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, got)
		default:
			r := randomRecord(rng)
			if rng.IntN(8) > 0 {
				r.Version = model.records[r.Key].Version
			}
			want, wantErr := model.save(r)
			got, err := m.Save(t.Context(), r)
			require.Equal(t, wantErr, err)
			got.Now, want.Now = time.Time{}, time.Time{}
			sameRecord(t, want, got)
		}
		key := randomRecord(rng).Key
		model.expire()
		want, ok := model.records[key]
		got, err := m.Load(t.Context(), key)
		require.Equal(t, ok, err == nil)
		got.Now, want.Now = time.Time{}, time.Time{}
		sameRecord(t, want, got)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// A walk over many more records than a page holds keeps only what it needs,
// and pages follow on each other.
func TestMemoryListsManyInSmallPages(t *testing.T) {
	m := &toolexec.MemoryStore{}
	for i := range 2000 {
		mustSave(t, m, memoryRecord(fmt.Sprintf("%04d", i*7%2000), []toolexec.State{toolexec.StateCommitted, toolexec.StateUnknown}[i%2]))
	}
	var q toolexec.Query
	var refs []string
	for q.Limit = 30; ; {
		page, next, err := m.List(t.Context(), q)
		require.NoError(t, err)
		for _, r := range page {
			refs = append(refs, r.Ref)
			assert.Nil(t, r.Arguments)
			assert.Nil(t, r.Result)
		}
		if q.After = next; next == (toolexec.Cursor{}) {
			break
		}
	}
	assert.Len(t, refs, 2000)
	assert.True(t, slices.IsSorted(refs))
}

// What the guard asks at every write with a minted ref must not depend on how
// many facts there are.
func TestMemoryFindsOpenOperations(t *testing.T) {
	m := &toolexec.MemoryStore{}
	want := mustSave(t, m, memoryRecord("open", toolexec.StateUnknown))
	q := toolexec.Query{States: openStates[:4], Tool: want.Tool, Scope: &want.Scope, Fingerprint: want.Fingerprint}
	ask := func() (page []toolexec.Record) {
		page, _, err := m.List(t.Context(), q)
		require.NoError(t, err)
		return page
	}
	require.Len(t, ask(), 1)
	assert.Equal(t, "open", ask()[0].Ref)

	other := want
	other.Fingerprint.Sum[5]++
	other = mustSave(t, m, other)
	assert.Empty(t, ask(), "it was rebound")
	other.Fingerprint = want.Fingerprint
	other = mustSave(t, m, other)
	assert.Len(t, ask(), 1)
	other.State = toolexec.StateReleased
	other = mustSave(t, m, other)
	assert.Empty(t, ask())
	other.State = toolexec.StateCommitted
	other.Checks = 1
	mustSave(t, m, other)
	q.States = nil
	assert.Len(t, ask(), 1)
}

func TestMemoryContextIsDone(t *testing.T) {
	m := &toolexec.MemoryStore{}
	r := mustSave(t, m, memoryRecord("op", toolexec.StateUnknown))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Load(ctx, r.Key)
	require.ErrorIs(t, err, context.Canceled)
	_, err = m.Save(ctx, r)
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = m.List(ctx, toolexec.Query{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = m.Stats(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// late is a context that is done from its second question on.
type late struct {
	context.Context //nolint:containedctx // it is one itself
	asked           atomic.Int64
}

func (c *late) Err() error {
	if c.asked.Add(1) > 1 {
		return context.Canceled
	}
	return nil
}

func TestMemoryListStopsMidway(t *testing.T) {
	m := &toolexec.MemoryStore{}
	mustSave(t, m, memoryRecord("op", toolexec.StateUnknown))
	for _, q := range []toolexec.Query{{}, {States: openStates}} {
		page, next, err := m.List(&late{Context: t.Context()}, q)
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, page)
		assert.Zero(t, next)
	}
}

func TestMemoryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &toolexec.MemoryStore{}
		r := mustSave(t, m, memoryRecord("op", toolexec.StateReleased))
		var woken atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 10 {
			ctx := ctx
			if i >= 8 {
				ctx = t.Context()
			}
			go func() {
				if m.Wait(ctx, r.Key, r.Version) == nil {
					woken.Add(1)
				}
			}()
		}
		go func() { // of another key
			assert.ErrorIs(t, m.Wait(ctx, toolexec.Key{Ref: "other"}, 0), context.Canceled)
		}()
		synctest.Wait()
		_, err := m.Save(t.Context(), memoryRecord("op", toolexec.StateReleased))
		require.ErrorIs(t, err, toolexec.ErrConflict)
		synctest.Wait()
		assert.Zero(t, woken.Load(), "nothing changed")
		cancel()
		synctest.Wait()
		assert.Zero(t, woken.Load())
		mustSave(t, m, r)
		synctest.Wait()
		assert.EqualValues(t, 2, woken.Load(), "those who still waited")
		require.NoError(t, m.Wait(t.Context(), r.Key, r.Version))
		require.NoError(t, m.Wait(t.Context(), toolexec.Key{Ref: "missing"}, 1))

		go func() { assert.NoError(t, m.Wait(t.Context(), r.Key, r.Version+1), "it is deleted") }()
		go func() { assert.NoError(t, m.Wait(t.Context(), toolexec.Key{Ref: "new"}, 0), "it is created") }()
		synctest.Wait()
		time.Sleep(24 * time.Hour)
		_, err = m.Load(t.Context(), r.Key)
		require.ErrorIs(t, err, toolexec.ErrNotFound)
		created := memoryRecord("new", toolexec.StateInFlight)
		created.Scope = ""
		mustSave(t, m, created)
		synctest.Wait()
	})
}

func TestMemoryWaitLeavesNothingBehind(t *testing.T) {
	m := &toolexec.MemoryStore{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.Wait(ctx, toolexec.Key{Ref: "first"}, 0), context.Canceled)
	before := heap()
	for i := range 100_000 {
		require.ErrorIs(t, m.Wait(ctx, toolexec.Key{Ref: strconv.Itoa(i)}, 0), context.Canceled)
	}
	assert.Less(t, heap()-before, 1<<20)
	runtime.KeepAlive(m)
}

func TestMemoryStress(t *testing.T) {
	m := &toolexec.MemoryStore{MaxFacts: 30, KeepResults: time.Nanosecond, KeepFacts: 20 * time.Microsecond}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond) // joined below
			defer cancel()
			for ctx.Err() == nil {
				r := randomRecord(rng)
				if old, err := m.Load(ctx, r.Key); err == nil {
					r.Version = old.Version
				}
				_, _ = m.Save(ctx, r)
				_, _, _ = m.List(ctx, randomQuery(rng))
				switch rng.IntN(20) {
				case 0:
					_, _ = m.Stats(ctx)
				case 1:
					_, _ = m.Prune(ctx, 3)
				case 2:
					short, cancel := context.WithTimeout(ctx, 10*time.Microsecond)
					_ = m.Wait(short, r.Key, r.Version+1)
					cancel()
				}
			}
		})
	}
	wg.Wait()
	open, err := m.Stats(t.Context())
	require.NoError(t, err)
	total := 0
	for _, n := range open {
		total += n
	}
	assert.LessOrEqual(t, total, 30)
	var indexed int
	for q := (toolexec.Query{States: openStates, Limit: 1000}); ; {
		page, next, err := m.List(t.Context(), q)
		require.NoError(t, err)
		indexed += len(page)
		if q.After = next; next == (toolexec.Cursor{}) {
			break
		}
	}
	for _, state := range openStates {
		indexed -= open[state]
	}
	assert.Zero(t, indexed, "the index has what the shards have")
}

// BenchmarkMemoryStore is P8: begin and finish with few and with a million
// facts, and what the guard asks before it.
func BenchmarkMemoryStore(b *testing.B) {
	for _, facts := range []int{0, 1_000_000} {
		m := &toolexec.MemoryStore{MaxFacts: -1}
		before := heap()
		for i := range facts {
			commitOne(b, m, i)
		}
		perFact := float64(heap()-before) / float64(max(facts, 1))
		b.Run(fmt.Sprintf("begin+finish/facts=%d", facts), func(b *testing.B) {
			b.ReportAllocs()
			n := facts
			store := m
			for b.Loop() {
				if facts == 0 && n%10_000 == 0 {
					store = &toolexec.MemoryStore{} // stays nearly empty
				}
				commitOne(b, store, n)
				n++
			}
			if facts > 0 {
				b.ReportMetric(perFact, "B/fact")
			}
		})
		b.Run(fmt.Sprintf("find-open/facts=%d", facts), func(b *testing.B) {
			b.ReportAllocs()
			q := toolexec.Query{
				States: openStates[:4], Tool: "process_refund", Scope: new("tenant"),
				Fingerprint: toolexec.Fingerprint{Rule: 1, Sum: [32]byte{1}},
			}
			for b.Loop() {
				if page, _, err := m.List(context.Background(), q); err != nil || len(page) > 0 { // b.Context costs more than the List
					b.Fatal(page, err)
				}
			}
		})
		b.Run(fmt.Sprintf("replay/facts=%d", facts), func(b *testing.B) {
			b.ReportAllocs()
			r := memoryRecord("replayed", toolexec.StateCommitted)
			_, _ = m.Save(context.Background(), r) // may exist
			for b.Loop() {
				if _, err := m.Save(context.Background(), r); err != toolexec.ErrConflict { //nolint:errorlint // as it is
					b.Fatal(err)
				}
			}
		})
	}
}
