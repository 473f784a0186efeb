package suite

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

// What a wire does to what is sent over it.
const (
	wireWell   = iota
	wireMute   // what is sent arrives, and the connection ends instead of an answer
	wireLossy  // the connection ends instead of anything arriving
	wireBroken // nobody is there
)

// wire is between a client and a server.
type wire struct {
	net.Listener

	to    string
	state atomic.Int32
	cuts  atomic.Int64

	mu   sync.Mutex // protects open
	open map[net.Conn]bool
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{Listener: l, to: to, open: make(map[net.Conn]bool)}
	ctx := context.WithoutCancel(t.Context()) // it serves the end of the test, too
	var served sync.WaitGroup
	served.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { w.serve(ctx, client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.cutAll()
		served.Wait()
	})
	return w
}

// be sets what happens from now on, to connections that exist too.
func (w *wire) be(state int32) {
	w.state.Store(state)
	if state == wireBroken {
		w.cutAll()
	}
}

func (w *wire) cutAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		_ = c.Close()
	}
}

func (w *wire) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	if w.state.Load() == wireBroken {
		return
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "tcp", w.to)
	if err != nil {
		return
	}
	defer server.Close()
	w.mu.Lock()
	w.open[client] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.open, client)
		w.mu.Unlock()
	}()
	go func() {
		defer client.Close()
		defer server.Close()
		_, _ = io.Copy(writer(func(b []byte) (int, error) {
			if w.state.Load() == wireLossy {
				w.cuts.Add(1)
				return 0, io.ErrClosedPipe
			}
			return server.Write(b)
		}), client)
	}()
	_, _ = io.Copy(writer(func(b []byte) (int, error) {
		if w.state.Load() == wireMute {
			w.cuts.Add(1)
			return 0, io.ErrClosedPipe // the server has done what it answers
		}
		return client.Write(b)
	}), server)
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// RunWire cuts connections in the middle of what the store does. address is
// where a place is, via how to reach it at another address.
func RunWire(t *testing.T, e Engine, address func(Place) string, via func(Place, string) Place) {
	place := e.New(t)
	w := newWire(t, address(place))
	safe := e.OpenOn(t, place.Open(t), sqlstore.Options{})
	db := via(place, w.Addr().String()).Open(t)
	s := e.OpenOn(t, db, sqlstore.Options{})
	well := func() {
		w.be(wireWell)
		w.cutAll() // and nothing that was cut is used again
		db.SetMaxIdleConns(-1)
		db.SetMaxIdleConns(70)
	}
	t.Run("one", func(t *testing.T) {
		for _, state := range []int32{wireMute, wireLossy} {
			commit(t, s, Name()) // a connection that is ready
			r := record(Name())
			w.cuts.Store(0)
			w.be(state)
			_, err := s.Save(t.Context(), r)
			well()
			require.Positive(t, w.cuts.Load())
			doubtful(t, err)
			stored := repeat(t, s, r)
			if state == wireMute {
				assert.Equal(t, int64(1), stored, "it was stored before the connection ended")
			}
			// And an update.
			r.Version, r.State = 1, toolexec.StateCommitted
			w.be(state)
			_, err = s.Save(t.Context(), r)
			well()
			doubtful(t, err)
			repeat(t, s, r)
			assert.Equal(t, int64(2), load(t, safe, r.Ref).Version)
		}
	})
	t.Run("many", func(t *testing.T) { wireMany(t, w, well, s, safe) })
	t.Run("under an executor", func(t *testing.T) { wireExecutor(t, w, well, s, safe) })
	t.Run("nobody is there", func(t *testing.T) {
		w.be(wireBroken)
		each(t, s, func(err error) { assert.ErrorContains(t, err, "sqlstore: ") })
		_, err := sqlstore.Open(t.Context(), db, e.Dialect, sqlstore.Options{})
		require.Error(t, err)
		well()
		commit(t, s, Name())
	})
}

// wireMany cuts connections while many save.
func wireMany(t *testing.T, w *wire, well func(), s, safe toolexec.Store) {
	for _, state := range []int32{wireMute, wireLossy} {
		const callers = 90
		errs := make([]error, callers)
		prefix := Name()
		name := func(i int) string { return prefix + strconv.Itoa(i) }
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				if i == callers/2 {
					w.be(state)
				}
				_, errs[i] = s.Save(t.Context(), record(name(i)))
			})
		}
		wg.Wait()
		well()
		for i, err := range errs {
			if err == nil {
				load(t, safe, name(i))
				continue
			}
			doubtful(t, err)
			repeat(t, s, record(name(i)))
		}
	}
}

// doubtful: it does not say that it knows.
func doubtful(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.NotErrorIs(t, err, toolexec.ErrConflict)
	require.NotErrorIs(t, err, toolexec.ErrNotFound)
}

// repeat saves what may have been stored: it is stored now, or was, by us.
func repeat(t *testing.T, s toolexec.Store, r toolexec.Record) (version int64) {
	t.Helper()
	got, err := s.Save(t.Context(), r)
	if err != nil {
		require.ErrorIs(t, err, toolexec.ErrConflict)
	}
	assert.Equal(t, r.Nonce, got.Nonce)
	assert.Equal(t, r.Version+1, got.Version)
	return got.Version
}

// wireExecutor: whenever the connection ends, there is one effect, or none and
// GUARD_UNAVAILABLE.
func wireExecutor(t *testing.T, w *wire, well func(), s, safe toolexec.Store) {
	for _, state := range []int32{wireMute, wireLossy, wireBroken} {
		for _, during := range []string{"begin", "finish"} {
			var effects atomic.Int64
			ref := Name()
			run := func(context.Context, order) (string, error) {
				effects.Add(1)
				if during == "finish" {
					w.be(state)
				}
				return "receipt", nil
			}
			if during == "begin" {
				w.be(state)
			}
			env := charge(s, run).Call(withRef(t, ref), order{"a"})
			well()
			if during == "begin" {
				assert.Equal(t, toolexec.CodeGuardUnavailable, env.Code)
				assert.Zero(t, effects.Load())
			} else {
				assert.True(t, env.OK)
				assert.True(t, env.Unrecorded)
				assert.Equal(t, int64(1), effects.Load())
			}
			again := charge(safe, run).Call(withRef(t, ref), order{"a"})
			assert.LessOrEqual(t, effects.Load(), int64(1))
			if effects.Load() == 1 {
				assert.NotEqual(t, toolexec.NotCommitted, again.CommitState)
			}
			well()
		}
	}
}
