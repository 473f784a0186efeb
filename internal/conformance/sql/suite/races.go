package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

func keys(t *testing.T, e Engine) {
	s := e.Open(t, sqlstore.Options{})
	long := strings.Repeat("k", 1024)
	all := []toolexec.Key{
		{}, {Ref: "\xff\xfe"}, {Scope: "\xff", Ref: "\x00"}, {Ref: "\x00"}, {Ref: "\x00\x00"}, {Scope: "a ", Ref: "a"}, {Scope: "a", Ref: "a"},
		{Scope: "a", Ref: "a "}, {Scope: "A", Ref: "a"}, {Scope: "a\x00", Ref: "a"}, {Ref: `\x61`}, {Ref: "a"}, {Ref: `"`}, {Ref: `\`}, {Ref: "{}"},
		{Scope: long, Ref: long}, {Scope: long, Ref: long[1:]}, {Scope: long[1:], Ref: long}, {Ref: "é"}, {Ref: "\xe9"}, {Ref: "NULL"},
	}
	for i, key := range all {
		r := record("")
		r.Key, r.Alias, r.Attempts = key, "alias "+key.Ref[:min(len(key.Ref), 9)], i
		saved := save(t, s, r)
		assert.Equal(t, r.Key, saved.Key)
		_, err := s.Save(t.Context(), r)
		require.ErrorIs(t, err, toolexec.ErrConflict)
	}
	for i, key := range all {
		r, err := s.Load(t.Context(), key)
		require.NoError(t, err, "%q", key)
		assert.Equal(t, key, r.Key)
		assert.Equal(t, "alias "+key.Ref[:min(len(key.Ref), 9)], r.Alias)
		assert.Equal(t, i, r.Attempts)
	}
	var listed []toolexec.Key
	for q := (toolexec.Query{Limit: 4}); ; {
		page, next, err := s.List(t.Context(), q)
		require.NoError(t, err)
		for _, r := range page {
			listed = append(listed, r.Key)
		}
		if q.After = next; next == (toolexec.Cursor{}) {
			break
		}
	}
	assert.Len(t, listed, len(all))
	for i := 1; i < len(listed); i++ {
		assert.Negative(t, listed[i-1].Compare(listed[i]), "%q and %q", listed[i-1], listed[i])
	}
	page, _, err := s.List(t.Context(), toolexec.Query{Alias: "alias \xff\xfe"})
	require.NoError(t, err)
	assert.Len(t, page, 1)

	for _, tt := range []struct {
		what string
		r    toolexec.Record
	}{
		{"scope", toolexec.Record{Key: toolexec.Key{Scope: long + "k", Ref: "a"}}},
		{"ref", toolexec.Record{Key: toolexec.Key{Ref: long + "k"}}},
		{"alias", toolexec.Record{Alias: long + "k"}},
		{"tool", toolexec.Record{Tool: long[:256]}},
		{"state", toolexec.Record{State: toolexec.State(long[:256])}},
	} {
		_, err := s.Save(t.Context(), tt.r)
		require.Error(t, err)
		assert.NotErrorIs(t, err, toolexec.ErrConflict)
		assert.Contains(t, err.Error(), "sqlstore: the "+tt.what+" of a record has")
	}
}

// races: of many who save one version one wins, whichever store and pool they
// use.
func races(t *testing.T, e Engine) {
	place := e.New(t)
	stores := []*sqlstore.Store{e.OpenOn(t, place.Open(t), sqlstore.Options{}), e.OpenOn(t, place.Open(t), sqlstore.Options{})}
	t.Run("one key", func(t *testing.T) { racesOfOne(t, stores) })
	t.Run("many keys", func(t *testing.T) { racesOfMany(t, stores) })
}

func racesOfOne(t *testing.T, stores []*sqlstore.Store) {
	const rounds, callers = 15, 40
	for version := range int64(rounds) {
		var wg sync.WaitGroup
		var wins, winner atomic.Int64
		for i := range callers {
			wg.Go(func() {
				r := record("op")
				r.Version, r.Attempts = version, i
				got, err := stores[i%2].Save(t.Context(), r)
				switch {
				case err == nil:
					wins.Add(1)
					winner.Store(int64(i))
					assert.Equal(t, version+1, got.Version)
				case errors.Is(err, toolexec.ErrConflict):
					assert.Equal(t, version+1, got.Version, "the record that won comes back")
				default:
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, int64(1), wins.Load())
		require.Equal(t, int(winner.Load()), load(t, stores[0], "op").Attempts)
	}
}

func racesOfMany(t *testing.T, stores []*sqlstore.Store) {
	const callers, each, refs = 60, 20, 7
	var wins [refs]atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			s := stores[i%2]
			for n := range each {
				ref := (i + n) % refs
				r := record("shared-" + strconv.Itoa(ref))
				for {
					got, err := s.Save(t.Context(), r)
					if err == nil {
						break
					}
					if !errors.Is(err, toolexec.ErrConflict) {
						assert.NoError(t, err)
						return
					}
					r.Version = got.Version
				}
				wins[ref].Add(1)
			}
		})
	}
	wg.Wait()
	for ref := range wins {
		assert.Equal(t, wins[ref].Load(), load(t, stores[0], "shared-"+strconv.Itoa(ref)).Version, "no Save is lost, and none counted twice")
	}
}

// Processes has several processes add to one record, each as often as it says,
// and finds that no addition was lost.
func Processes(t *testing.T, e Engine) {
	place := e.New(t)
	const processes, additions = 4, 60
	s := e.OpenOn(t, place.Open(t), sqlstore.Options{})
	errs := make(chan error, processes)
	for range processes {
		go func() {
			command := osexec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestOneProcess$", "-test.v") //nolint:gosec // this test itself
			command.Env = append(os.Environ(), placeVariable+"="+place.Driver+" "+place.DSN)
			out, err := command.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("added 60")) {
				err = fmt.Errorf("%w: %s", errors.Join(err, errors.New("a process failed")), out)
			}
			errs <- err
		}()
	}
	Add(t, s, additions)
	for range processes {
		require.NoError(t, <-errs)
	}
	assert.Equal(t, int64((processes+1)*additions), load(t, s, "sum").Version)
}

const placeVariable = "TOOLEXEC_TEST_PLACE"

// OneProcess is what each of them does.
func OneProcess(t *testing.T, e Engine) {
	driver, dsn, ok := strings.Cut(os.Getenv(placeVariable), " ")
	if !ok {
		t.Skip("it is called by another test, in a process of its own")
	}
	Add(t, e.OpenOn(t, Place{driver, dsn}.Open(t), sqlstore.Options{}), 60)
}

// Add saves one record that others save too, until it has won n times, and
// others of its own beside it.
func Add(t *testing.T, s toolexec.Store, n int) {
	r := record("sum")
	for won := 0; won < n; {
		commit(t, s, Name())
		got, err := s.Save(t.Context(), r)
		switch {
		case err == nil:
			won++
		case !errors.Is(err, toolexec.ErrConflict):
			require.NoError(t, err)
		}
		r.Version = got.Version
	}
	t.Logf("added %d", n)
}

// groups: what waits while something else is written is written together, and
// each one gets its own answer.
func groups(t *testing.T, e Engine) {
	db := e.Pool(t)
	s := e.OpenOn(t, db, sqlstore.Options{})
	e.refuse(t, db)
	commit(t, s, "there")
	release := e.block(t, db)
	var wg sync.WaitGroup
	const callers = 150
	errs := make([]error, callers)
	got := make([]toolexec.Record, callers)
	gaveUp, cancel := context.WithCancel(t.Context())
	for i := range callers {
		r, ctx := record("group-"+strconv.Itoa(i)), t.Context()
		switch i % 5 {
		case 1:
			r.Ref = "there" // with a version that is not stored
		case 2:
			r.Tool = refused // the database does so
		case 3:
			ctx = gaveUp
		case 4:
			r.Ref, r.Version = "missing", 7
		}
		wg.Go(func() { got[i], errs[i] = s.Save(ctx, r) })
	}
	time.Sleep(50 * time.Millisecond) // so that most are waiting; nothing depends on it
	cancel()
	release()
	wg.Wait()
	for i := range callers {
		r, err := s.Load(t.Context(), toolexec.Key{Scope: "tenant", Ref: "group-" + strconv.Itoa(i)})
		switch i % 5 {
		case 0:
			require.NoError(t, errs[i])
			require.NoError(t, err)
			assert.Equal(t, r.Nonce, got[i].Nonce)
			assert.Equal(t, int64(1), r.Version)
			continue
		case 1:
			require.ErrorIs(t, errs[i], toolexec.ErrConflict)
			assert.Equal(t, toolexec.StateCommitted, got[i].State)
			assert.JSONEq(t, `{"receipt":"r"}`, string(got[i].Result))
		case 2:
			require.Error(t, errs[i])
			require.NotErrorIs(t, errs[i], toolexec.ErrConflict)
		case 3:
			if err == nil { // it was under way already
				continue
			}
			require.ErrorIs(t, errs[i], context.Canceled)
		case 4:
			require.ErrorIs(t, errs[i], toolexec.ErrConflict)
			assert.Empty(t, got[i])
		}
		require.ErrorIs(t, err, toolexec.ErrNotFound)
	}
}

// closing: Close waits for what is written, refuses what waits and what comes,
// and leaves the pool open.
func closing(t *testing.T, e Engine) {
	db := e.Pool(t)
	s := e.OpenOn(t, db, sqlstore.Options{})
	stored := commit(t, s, "stored")
	release := e.block(t, db)
	const callers = 80
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { _, errs[i] = s.Save(t.Context(), record("op-"+strconv.Itoa(i))) })
	}
	time.Sleep(50 * time.Millisecond)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	time.Sleep(10 * time.Millisecond)
	release()
	wg.Wait()
	require.NoError(t, <-closed)
	again := e.OpenOn(t, db, sqlstore.Options{})
	for i, err := range errs {
		_, found := again.Load(t.Context(), toolexec.Key{Scope: "tenant", Ref: "op-" + strconv.Itoa(i)})
		if err == nil {
			require.NoError(t, found, "acknowledged, and gone")
			continue
		}
		require.ErrorIs(t, err, sqlstore.ErrClosed)
	}
	require.NoError(t, s.Close())
	_, err := s.Save(t.Context(), record("later"))
	require.ErrorIs(t, err, sqlstore.ErrClosed)
	_, err = s.Load(t.Context(), stored.Key)
	require.ErrorIs(t, err, sqlstore.ErrClosed)
	_, _, err = s.List(t.Context(), toolexec.Query{})
	require.ErrorIs(t, err, sqlstore.ErrClosed)
	_, err = s.Claim(t.Context(), toolexec.Query{}, time.Second)
	require.ErrorIs(t, err, sqlstore.ErrClosed)
	_, err = s.Prune(t.Context(), 1)
	require.ErrorIs(t, err, sqlstore.ErrClosed)
	_, err = s.Stats(t.Context())
	require.ErrorIs(t, err, sqlstore.ErrClosed)
	require.NoError(t, db.PingContext(t.Context()))
}
