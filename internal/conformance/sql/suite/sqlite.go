package suite

import (
	"bytes"
	"context"
	"fmt"
	"os"
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

// RunSQLite runs what is peculiar to SQLite. file is the file of a place,
// readOnly how to open it without writing, memory are places that are no files.
func RunSQLite(t *testing.T, e Engine, file func(Place) string, readOnly func(Place) Place, memory ...Place) {
	t.Run("in memory", func(t *testing.T) {
		for _, place := range memory {
			_, err := sqlstore.Open(t.Context(), place.Open(t), e.Dialect, sqlstore.Options{})
			assert.ErrorContains(t, err, "sqlstore: ", place.DSN)
			assert.ErrorContains(t, err, "memory", place.DSN)
		}
	})
	t.Run("settings on every connection", func(t *testing.T) { pragmas(t, e) })
	t.Run("alone", func(t *testing.T) { alone(t, e) })
	t.Run("locked", func(t *testing.T) { locked(t, e) })
	t.Run("locked, and the caller gives up", func(t *testing.T) { givesUp(t, e) })
	t.Run("full", func(t *testing.T) { full(t, e) })
	t.Run("read-only", func(t *testing.T) { readOnlyFile(t, e, readOnly) })
	t.Run("corrupted", func(t *testing.T) { corrupted(t, e, file) })
}

// pragmas: a connection of the pool that writes has been told how to before.
func pragmas(t *testing.T, e Engine) {
	for level, synchronous := range map[int]sqlstore.Synchronous{2: "", 1: sqlstore.SynchronousNormal} {
		db, spy := e.New(t).Spy(t)
		s := e.OpenOn(t, db, sqlstore.Options{Synchronous: synchronous, BusyTimeout: 1234 * time.Millisecond})
		var wg sync.WaitGroup
		for i := range 6 {
			db.SetMaxIdleConns(i%3 - 1) // connections come and go
			for range 5 {
				wg.Go(func() { commit(t, s, Name()) })
			}
			wg.Wait()
		}
		told := make(map[int]bool)
		writers := make(map[int]bool)
		for _, st := range spy.Take() {
			if st.Text == fmt.Sprintf("PRAGMA synchronous = %d", level) {
				told[st.Conn] = true
			}
			for _, word := range []string{"INSERT ", "UPDATE ", "CREATE ", "DELETE "} {
				if strings.HasPrefix(st.Text, word) {
					writers[st.Conn] = true
					require.True(t, told[st.Conn], "connection %d writes", st.Conn)
				}
			}
		}
		assert.Greater(t, len(writers), 5)
		db.SetMaxOpenConns(1) // the one that has written last
		db.SetMaxIdleConns(1)
		commit(t, s, "last")
		for pragma, want := range map[string]string{"synchronous": strconv.Itoa(level), "busy_timeout": "1234", "journal_mode": "wal"} {
			var got string
			require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
			assert.Equal(t, want, got, pragma)
		}
	}
}

// alone: a Save beside which nobody writes is one statement, and answers as any
// other does.
func alone(t *testing.T, e Engine) {
	db, spy := e.New(t).Spy(t)
	s := e.OpenOn(t, db, sqlstore.Options{})
	spy.Take()
	r := save(t, s, record("op"))
	r.State = toolexec.StateCommitted
	save(t, s, r)
	seen := spy.Take()
	require.Len(t, seen, 2)
	assert.True(t, strings.HasPrefix(seen[0].Text, "INSERT "), seen[0].Text)
	assert.True(t, strings.HasPrefix(seen[1].Text, "UPDATE "), seen[1].Text)
	for _, stale := range []toolexec.Record{r, record("op")} {
		got, err := s.Save(t.Context(), stale)
		require.ErrorIs(t, err, toolexec.ErrConflict)
		assert.Equal(t, toolexec.StateCommitted, got.State)
		assert.Equal(t, int64(2), got.Version)
	}
	missing := record("missing")
	missing.Version = 7
	got, err := s.Save(t.Context(), missing)
	require.ErrorIs(t, err, toolexec.ErrConflict)
	assert.Empty(t, got)
}

// givesUp: another process may hold the lock for longer than a caller waits.
func givesUp(t *testing.T, e Engine) {
	db := e.Pool(t)
	s := e.OpenOn(t, db, sqlstore.Options{BusyTimeout: time.Minute})
	one, err := db.Conn(t.Context()) // which is set up
	require.NoError(t, err)
	commit(t, s, "another is set up")
	require.NoError(t, one.Close())
	release := e.block(t, db)
	for i := range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := s.Save(ctx, record("op-"+strconv.Itoa(i)))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the caller stopped waiting, and whether the record was stored is not known")
	}
	release()
	commit(t, s, "later")
}

// locked: who waits longer than the busy timeout is told so, and nothing is
// stored.
func locked(t *testing.T, e Engine) {
	db := e.Pool(t)
	s := e.OpenOn(t, db, sqlstore.Options{BusyTimeout: 30 * time.Millisecond})
	var effects atomic.Int64
	b := charge(s, func(context.Context, order) (string, error) { effects.Add(1); return "receipt", nil })
	release := e.block(t, db)
	_, err := s.Save(t.Context(), record("op"))
	require.ErrorContains(t, err, "the database is locked by another writer, and stayed so for the whole busy timeout")
	env := b.Call(withRef(t, "run/1"), order{"a"})
	assert.Equal(t, toolexec.CodeGuardUnavailable, env.Code)
	assert.Zero(t, effects.Load())
	_, err = s.Load(t.Context(), toolexec.Key{Scope: "tenant", Ref: "op"})
	require.ErrorIs(t, err, toolexec.ErrNotFound, "reading does not wait for a writer")
	release()
	commit(t, s, "op")
	assert.True(t, b.Call(withRef(t, "run/1"), order{"a"}).OK)
	assert.Equal(t, int64(1), effects.Load())
}

// charge binds a tool that writes, for which there is little time.
func charge(s toolexec.Store, run func(context.Context, order) (string, error)) *toolexec.Bound[order, string] {
	return toolexec.Bind(&toolexec.Executor{Store: s}, toolexec.Tool[order, string]{
		Name: "charge", Run: run, Policy: toolexec.Policy{Deadline: 400 * time.Millisecond, TotalDeadline: 800 * time.Millisecond},
	})
}

// full: a full disk is as a database that may not grow.
func full(t *testing.T, e Engine) {
	db := e.Pool(t)
	db.SetMaxOpenConns(1) // the bound is a connection's
	s := e.OpenOn(t, db, sqlstore.Options{})
	limit := func(more int) {
		var pages int
		require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages))
		exec(t, db, fmt.Sprintf("PRAGMA max_page_count = %d", pages+more))
	}
	limit(20)
	var stored []string
	var err error
	for i := 0; err == nil; i++ {
		require.Less(t, i, 10_000)
		r := record("op-" + strconv.Itoa(i))
		if _, err = s.Save(t.Context(), r); err == nil {
			stored = append(stored, r.Ref)
		}
	}
	require.ErrorContains(t, err, "sqlstore: writing: the disk or the database is full: ")
	require.NotErrorIs(t, err, toolexec.ErrConflict)
	require.NotEmpty(t, stored)
	for _, ref := range stored {
		assert.Equal(t, "nonce "+ref, load(t, s, ref).Nonce)
	}
	assert.Equal(t, len(stored), count(t, e, db, Table))

	var effects atomic.Int64
	b := charge(s, func(context.Context, order) (string, error) {
		effects.Add(1)
		limit(0) // full once more, before the end
		return strings.Repeat("large", 20_000), nil
	})
	var env toolexec.Envelope[string]
	for i := range 20 { // a page may have room for a few more
		if env = b.Call(withRef(t, "run/"+strconv.Itoa(i)), order{"a"}); env.Code == toolexec.CodeGuardUnavailable {
			break
		}
	}
	assert.Equal(t, toolexec.CodeGuardUnavailable, env.Code)
	limit(20)
	effects.Store(0)
	env = b.Call(withRef(t, "last"), order{"a"})
	assert.True(t, env.OK)
	assert.True(t, env.Unrecorded)
	limit(1000)
	again := b.Call(withRef(t, "last"), order{"a"})
	assert.Equal(t, int64(1), effects.Load())
	assert.NotEqual(t, toolexec.NotCommitted, again.CommitState)
}

func readOnlyFile(t *testing.T, e Engine, readOnly func(Place) Place) {
	place := e.New(t)
	db := place.Open(t)
	s := e.OpenOn(t, db, sqlstore.Options{})
	commit(t, s, "op")
	reader := e.OpenOn(t, readOnly(place).Open(t), sqlstore.Options{}) // to look at
	assert.Equal(t, toolexec.StateCommitted, load(t, reader, "op").State)
	_, err := reader.Save(t.Context(), record("other"))
	require.ErrorContains(t, err, "the database is read-only")
	_, err = sqlstore.Open(t.Context(), readOnly(place).Open(t), e.Dialect, sqlstore.Options{Table: "new"})
	require.ErrorContains(t, err, "the database is read-only")

	db.SetMaxOpenConns(1)
	exec(t, db, "PRAGMA query_only = 1")
	_, err = s.Save(t.Context(), record("other"))
	require.ErrorContains(t, err, "the database is read-only")
	assert.Equal(t, toolexec.StateCommitted, load(t, s, "op").State)
	env := charge(s, func(context.Context, order) (string, error) { t.Error("ran"); return "", nil }).Call(withRef(t, "a"), order{"a"})
	assert.Equal(t, toolexec.CodeGuardUnavailable, env.Code)
}

func corrupted(t *testing.T, e Engine, file func(Place) string) {
	// make fills a file, closes it and lets it be spoiled.
	spoilt := func(t *testing.T, spoil func([]byte)) (Place, []byte) {
		place := e.New(t)
		db := place.Open(t)
		s := e.OpenOn(t, db, sqlstore.Options{})
		fill(t, e, db, s, 2000)
		require.NoError(t, s.Close())
		require.NoError(t, db.Close())
		data, err := os.ReadFile(file(place))
		require.NoError(t, err)
		spoil(data)
		require.NoError(t, os.WriteFile(file(place), data, 0o600)) //nolint:gosec // in the directory of the test
		return place, data
	}
	unchanged := func(t *testing.T, place Place, was []byte) {
		is, err := os.ReadFile(file(place))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(was, is), "the file was written to")
	}
	t.Run("the header", func(t *testing.T) {
		place, data := spoilt(t, func(b []byte) { copy(b, strings.Repeat("x", 100)) })
		_, err := sqlstore.Open(t.Context(), place.Open(t), e.Dialect, sqlstore.Options{})
		require.ErrorContains(t, err, "the file is not an SQLite database, or its header is destroyed")
		unchanged(t, place, data)
	})
	t.Run("all but the header", func(t *testing.T) {
		place, data := spoilt(t, func(b []byte) { copy(b[4096:], bytes.Repeat([]byte{0xff}, len(b))) })
		_, err := sqlstore.Open(t.Context(), place.Open(t), e.Dialect, sqlstore.Options{})
		require.ErrorContains(t, err, "the database file is corrupted")
		unchanged(t, place, data)
	})
	t.Run("a page in the middle", func(t *testing.T) {
		place, data := spoilt(t, func(b []byte) {
			middle := len(b) / 4096 / 2 * 4096
			copy(b[middle:middle+4096], bytes.Repeat([]byte{0xff}, 4096))
		})
		db := place.Open(t)
		s := e.OpenOn(t, db, sqlstore.Options{})
		var err error
		failed := 0
		for i := 1; i <= 2000; i++ {
			var r toolexec.Record
			ref := "fill-" + strconv.Itoa(i)
			r, err = s.Load(t.Context(), toolexec.Key{Scope: "tenant", Ref: ref})
			if err != nil {
				failed++
				require.ErrorContains(t, err, "the database file is corrupted")
				_, err = s.Save(t.Context(), record(ref))
				require.ErrorContains(t, err, "the database file is corrupted")
				continue
			}
			require.Equal(t, ref, r.Ref)
			require.Equal(t, toolexec.StateCommitted, r.State)
		}
		assert.Positive(t, failed)
		assert.Less(t, failed, 2000)
		unchanged(t, place, data)
	})
}
