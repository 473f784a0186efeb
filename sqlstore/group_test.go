package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// gathered runs groups that wait to be let go, and keeps how large they were.
type gathered struct {
	group

	sizes []int
	gate  chan struct{}
}

func newGathered() *gathered {
	g := &gathered{gate: make(chan struct{})}
	g.writers = 1
	g.run = func(items []*item) {
		<-g.gate
		g.sizes = append(g.sizes, len(items))
		for _, it := range items {
			it.end(toolexec.Record{Key: it.key}, nil)
		}
	}
	return g
}

func (g *gathered) save(t *testing.T, ctx context.Context, ref string, size int) <-chan error {
	done := make(chan error, 1)
	go func() {
		r, err := g.add(&item{ctx: ctx, key: toolexec.Key{Ref: ref}, size: size})
		if err == nil {
			assert.Equal(t, ref, r.Ref)
		}
		done <- err
	}()
	synctest.Wait()
	return done
}

func TestGroups(t *testing.T) {
	t.Run("one alone does not wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGathered()
			close(g.gate)
			for range 3 {
				require.NoError(t, <-g.save(t, t.Context(), "op", 1))
			}
			assert.Equal(t, []int{1, 1, 1}, g.sizes)
			g.close()
		})
	})
	t.Run("what waits goes together, within the bounds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGathered()
			var all []<-chan error
			all = append(all, g.save(t, t.Context(), "first", 1))
			for i := range groupItems + 10 {
				all = append(all, g.save(t, t.Context(), fmt.Sprint(i), 1))
			}
			all = append(all, g.save(t, t.Context(), "large", groupBytes), g.save(t, t.Context(), "larger", groupBytes+1))
			close(g.gate)
			for _, done := range all {
				require.NoError(t, <-done)
			}
			assert.Equal(t, []int{1, groupItems, 10, 1, 1}, g.sizes)
			g.close()
		})
	})
	t.Run("two of one key go apart where they must", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGathered()
			g.distinct = true
			var all []<-chan error
			for _, ref := range []string{"a", "b", "b", "c", "b"} {
				all = append(all, g.save(t, t.Context(), ref, 1))
			}
			close(g.gate)
			for _, done := range all {
				require.NoError(t, <-done)
			}
			assert.Equal(t, []int{1, 2, 1, 1}, g.sizes)
			g.close()
		})
	})
	t.Run("a second group goes beside the first when enough wait for it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGathered()
			g.writers, g.beside = 2, 3
			first := g.save(t, t.Context(), "first", 1)
			all := []<-chan error{first, g.save(t, t.Context(), "a", 1), g.save(t, t.Context(), "b", 1)}
			assert.Equal(t, 1, g.writing)
			all = append(all, g.save(t, t.Context(), "c", 1))
			assert.Equal(t, 2, g.writing)
			all = append(all, g.save(t, t.Context(), "d", 1))
			g.gate <- struct{}{} // one of the two ends, and leaves d to the other
			synctest.Wait()
			assert.Equal(t, 1, g.writing)
			close(g.gate)
			for _, done := range all {
				require.NoError(t, <-done)
			}
			assert.ElementsMatch(t, []int{1, 3, 1}, g.sizes)
			g.close()
		})
	})
	t.Run("one alone has the place, and leaves it to what gathers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGathered()
			close(g.gate)
			require.True(t, g.alone())
			assert.False(t, g.alone())
			first, second := g.save(t, t.Context(), "a", 1), g.save(t, t.Context(), "b", 1)
			assert.Empty(t, g.sizes)
			g.done()
			require.NoError(t, <-first)
			require.NoError(t, <-second)
			assert.Equal(t, []int{2}, g.sizes)
			synctest.Wait()
			require.True(t, g.alone())
			closed := make(chan struct{})
			go func() { g.close(); close(closed) }()
			synctest.Wait()
			select {
			case <-closed:
				t.Error("close has not waited")
			default:
			}
			g.done()
			<-closed
			assert.False(t, g.alone())
		})
	})
	t.Run("who gives up does not hold up the others, and is not written", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGathered()
			under, cancelUnder := context.WithCancel(t.Context())
			waiting, cancelWaiting := context.WithCancel(t.Context())
			first := g.save(t, under, "under way", 1)
			second, third := g.save(t, waiting, "waiting", 1), g.save(t, t.Context(), "patient", 1)
			cancelUnder()
			cancelWaiting()
			for _, done := range []<-chan error{first, second} {
				err := <-done
				require.ErrorIs(t, err, context.Canceled)
				assert.NotErrorIs(t, err, toolexec.ErrConflict)
				assert.EqualError(t, err, "sqlstore: the caller stopped waiting, and whether the record was stored is not known: context canceled")
			}
			close(g.gate)
			require.NoError(t, <-third)
			assert.Equal(t, []int{1, 1}, g.sizes)
			g.close()
		})
	})
	t.Run("close", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGathered()
			first, second := g.save(t, t.Context(), "under way", 1), g.save(t, t.Context(), "waiting", 1)
			closed := make(chan struct{})
			go func() { g.close(); close(closed) }()
			synctest.Wait()
			require.ErrorIs(t, <-second, ErrClosed)
			require.ErrorIs(t, <-g.save(t, t.Context(), "later", 1), ErrClosed)
			select {
			case <-closed:
				t.Fatal("Close does not wait for what is being written")
			default:
			}
			close(g.gate)
			require.NoError(t, <-first)
			<-closed
		})
	})
}

func TestGroupContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cancelA := context.WithCancel(t.Context())
		b, cancelB := context.WithCancel(t.Context())
		ctx, stop := anyOf([]*item{{ctx: a}, {ctx: b}})
		defer stop()
		cancelA()
		synctest.Wait()
		require.NoError(t, ctx.Err(), "one still waits")
		cancelB()
		synctest.Wait()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
	})
}

type methodError int

func (e methodError) Error() string { return "x" }
func (e methodError) Code() int     { return int(e) }

type fieldError struct {
	Code   uint16
	Number uint16
}

func (e *fieldError) Error() string { return "x" }

type stateError string

func (e stateError) Error() string    { return "x" }
func (e stateError) SQLState() string { return string(e) }

// What drivers know is asked of whatever type they give it.
func TestCodesOfDrivers(t *testing.T) {
	wrap := func(err error) error { return errors.Join(errors.New("other"), fmt.Errorf("wrapped: %w", err)) }
	for _, err := range []error{methodError(13), &fieldError{Code: 13}, methodError(13 | 7<<8)} {
		assert.Equal(t, int64(13), sqliteCode(wrap(err)))
		s := &Store{dialect: SQLite}
		explained := s.explain(t.Context(), "saving", wrap(err))
		require.ErrorIs(t, explained, err)
		assert.ErrorContains(t, explained, "sqlstore: saving: the disk or the database is full: ")
		assert.Equal(t, explained, s.explain(t.Context(), "again", explained), "said once")
	}
	assert.Equal(t, uint64(1213), mysqlNumber(wrap(&fieldError{Number: 1213})))
	assert.Equal(t, "40001", sqlState(wrap(stateError("40001"))))
	for _, err := range []error{nil, errors.New("plain"), wrap(context.Canceled)} {
		assert.Zero(t, sqliteCode(err))
		assert.Zero(t, mysqlNumber(err))
		assert.Empty(t, sqlState(err))
	}
	for dialect, err := range map[Dialect]error{PostgreSQL: stateError("40P01"), MySQL: &fieldError{Number: 1213}} {
		assert.True(t, (&Store{dialect: dialect}).inTheWay(err))
	}
	assert.False(t, (&Store{dialect: SQLite}).inTheWay(methodError(5)))
	for state, sure := range map[string]bool{"23514": true, "40001": true, "57P01": false, "08006": false, "": false} {
		assert.Equal(t, sure, serverRefused(stateError(state)), state)
	}
}
