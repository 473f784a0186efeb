package attempt_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/toolexec/toolexec/internal/attempt"
)

func TestContextBeforeItsEnd(t *testing.T) {
	bubble(t, "unasked", func(t *testing.T) {
		type key struct{}
		parent := context.WithValue(t.Context(), key{}, "of the caller")
		at := time.Now().Add(deadline)
		c := attempt.NewContext(parent, at, nil, "state")
		defer c.Cancel(nil)

		got, ok := c.Deadline()
		assert.True(t, ok)
		assert.Equal(t, at, got)
		assert.NoError(t, c.Err())
		assert.NoError(t, context.Cause(c))
		assert.Equal(t, "state", c.Value(attempt.StateKey{}))
		assert.Equal(t, "of the caller", c.Value(key{}))
		assert.Nil(t, c.Value("nothing"))
		assert.Equal(t, "attempt.Context", fmt.Sprint(c))
		assert.False(t, c.Asked(), "nothing of this asks for Done")

		child := context.WithValue(c, key{}, "of the child")
		assert.False(t, c.Asked(), "nor does a child that cannot be cancelled")
		assert.NotNil(t, child.Done())
		assert.True(t, c.Asked())
		assert.Equal(t, "state", child.Value(attempt.StateKey{}))
		assert.Equal(t, "of the caller", c.Value(key{}), "armed")
		assert.NoError(t, c.Err())
		done := c.Done()
		assert.Equal(t, done, c.Done())
	})
	bubble(t, "no deadline", func(t *testing.T) {
		c := attempt.NewContext(context.Background(), time.Time{}, nil, nil)
		_, ok := c.Deadline()
		assert.False(t, ok)
		assert.Nil(t, c.Value(attempt.StateKey{}))
		assert.NotNil(t, c.Done(), "it can be cancelled all the same")
		time.Sleep(time.Hour)
		assert.NoError(t, c.Err())
		c.Cancel(nil)
		<-c.Done()
	})
}

// TestContextExpiry has every way to learn of the deadline, each first.
func TestContextExpiry(t *testing.T) {
	ways := map[string]func(c *attempt.Context){
		"Err after":   func(c *attempt.Context) { time.Sleep(deadline); _ = c.Err() },
		"Cause after": func(c *attempt.Context) { time.Sleep(deadline); _ = context.Cause(c) },
		"Done before": func(c *attempt.Context) { <-c.Done() },
		"Done after":  func(c *attempt.Context) { time.Sleep(deadline); <-c.Done() },
		"long after":  func(c *attempt.Context) { time.Sleep(time.Hour) },
	}
	for name, learn := range ways {
		bubble(t, name, func(t *testing.T) {
			c := attempt.NewContext(t.Context(), time.Now().Add(deadline), errTool, nil)
			learn(c)
			assert.Equal(t, context.DeadlineExceeded, c.Err())
			assert.ErrorIs(t, context.Cause(c), errTool)
			assert.ErrorIs(t, context.Cause(c), context.DeadlineExceeded)
			<-c.Done()
			c.Cancel(errors.New("too late"))
			assert.Equal(t, context.DeadlineExceeded, c.Err())
			assert.ErrorIs(t, context.Cause(c), errTool, "the first end stays")
		})
	}
	bubble(t, "not a moment before", func(t *testing.T) {
		c := attempt.NewContext(t.Context(), time.Now().Add(deadline), errTool, nil)
		time.Sleep(deadline - 1)
		assert.NoError(t, c.Err())
		time.Sleep(1)
		assert.Error(t, c.Err())
	})
	bubble(t, "Cancel after expiry nobody saw", func(t *testing.T) {
		c := attempt.NewContext(t.Context(), time.Now().Add(deadline), errTool, nil)
		time.Sleep(deadline)
		c.Cancel(errors.New("too late"))
		assert.Equal(t, context.DeadlineExceeded, c.Err())
		assert.ErrorIs(t, context.Cause(c), errTool)
	})
	t.Run("deadline without monotonic reading gets one", func(t *testing.T) {
		at := time.Now().Add(time.Hour).Round(0) // outside bubbles, where no time has one
		got, _ := attempt.NewContext(t.Context(), at, nil, nil).Deadline()
		assert.True(t, at.Equal(got))
		assert.Contains(t, got.String(), " m=+")
	})
}

func TestDeadlineCause(t *testing.T) {
	own := fmt.Errorf("tool x: %w", context.DeadlineExceeded)
	expired := func(cause error) error {
		return context.Cause(attempt.NewContext(context.Background(), time.Now().Add(-1), cause, nil))
	}
	assert.Equal(t, context.DeadlineExceeded, expired(nil))
	assert.Same(t, own, expired(own), "one that unwraps to DeadlineExceeded is left alone")

	var wrapped *attempt.DeadlineError
	require.ErrorAs(t, expired(errTool), &wrapped)
	assert.ErrorIs(t, wrapped, errTool)
	assert.ErrorIs(t, wrapped, context.DeadlineExceeded)
	assert.EqualError(t, wrapped, errTool.Error())
	assert.True(t, wrapped.Timeout())
}

func TestContextAndItsParent(t *testing.T) {
	errParent := errors.New("parent deadline")
	for _, armed := range []bool{false, true} {
		arm := func(c *attempt.Context) {
			if armed {
				c.Done()
			}
		}
		bubble(t, fmt.Sprintf("earlier deadline of the caller wins, armed=%t", armed), func(t *testing.T) {
			at := time.Now().Add(deadline / 2)
			parent, cancel := context.WithDeadlineCause(t.Context(), at, errParent)
			defer cancel()
			c := attempt.NewContext(parent, time.Now().Add(deadline), errTool, nil)
			arm(c)
			got, _ := c.Deadline()
			assert.Equal(t, at, got)
			time.Sleep(deadline / 2)
			synctest.Wait()
			assert.Equal(t, context.DeadlineExceeded, c.Err())
			assert.Same(t, errParent, context.Cause(c))
		})
		bubble(t, fmt.Sprintf("so does the only one, armed=%t", armed), func(t *testing.T) {
			parent, cancel := context.WithTimeoutCause(t.Context(), deadline, errParent)
			defer cancel()
			c := attempt.NewContext(parent, time.Time{}, errTool, nil)
			arm(c)
			_, ok := c.Deadline()
			assert.True(t, ok)
			<-c.Done()
			assert.Same(t, errParent, context.Cause(c))
		})
		bubble(t, fmt.Sprintf("later deadline of the caller, armed=%t", armed), func(t *testing.T) {
			parent, cancel := context.WithTimeoutCause(t.Context(), 2*deadline, errParent)
			defer cancel()
			c := attempt.NewContext(parent, time.Now().Add(deadline), errTool, nil)
			arm(c)
			time.Sleep(deadline)
			synctest.Wait()
			assert.ErrorIs(t, context.Cause(c), errTool)
		})
		bubble(t, fmt.Sprintf("cancelled, armed=%t", armed), func(t *testing.T) {
			parent, cancel := context.WithCancelCause(t.Context())
			c := attempt.NewContext(parent, time.Now().Add(deadline), errTool, nil)
			arm(c)
			cancel(errParent)
			c.Cancel(errors.New("too late"))
			assert.Same(t, context.Canceled, c.Err())
			assert.Same(t, errParent, context.Cause(c))
			<-c.Done()
		})
	}
}

func TestContextCancel(t *testing.T) {
	errLease := errors.New("lease lost")
	for _, d := range []time.Duration{0, deadline} {
		for _, armed := range []bool{false, true} {
			bubble(t, fmt.Sprintf("deadline=%v armed=%t", d, armed), func(t *testing.T) {
				p := newProbe(t.Context(), d, nil)
				if armed {
					p.Done()
				}
				p.Cancel(errLease)
				p.Cancel(errors.New("second"))
				time.Sleep(2 * deadline)
				assert.Same(t, context.Canceled, p.Err())
				assert.Same(t, errLease, context.Cause(&p.Context))
				<-p.Done()
				child, cancel := context.WithCancel(p)
				defer cancel()
				assert.Same(t, errLease, context.Cause(child))
			})
		}
	}
	t.Run("nil cause", func(t *testing.T) {
		c := attempt.NewContext(context.Background(), time.Time{}, nil, nil)
		c.Cancel(nil)
		assert.Same(t, context.Canceled, context.Cause(c))
	})
	assert.ErrorIs(t, attempt.ErrOver, context.Canceled)
}

func TestContextLeavesNothingWithItsParent(t *testing.T) {
	check := func(name string, f func(p *probe)) {
		bubble(t, name, func(t *testing.T) {
			parent := newCounting()
			p := newProbe(parent, deadline, func(ctx context.Context) { ctx.Done() })
			f(p)
			synctest.Wait()
			assert.Zero(t, parent.registered.Load())
		})
	}
	check("unasked", func(p *probe) { _ = p.Err() })
	check("Cancel", func(p *probe) { p.Done(); p.Cancel(nil) })
	check("expiry", func(p *probe) { <-p.Done() })
	check("armed after expiry", func(p *probe) { time.Sleep(deadline); p.Done() })
	check("armed after Cancel", func(p *probe) { p.Cancel(nil); p.Done() })
	check("Run", func(p *probe) { p.run() })
	check("Inline", func(p *probe) { attempt.Inline(&p.Context, p) })
	check("cut", func(p *probe) {
		p.f = func(ctx context.Context) { ctx.Done(); time.Sleep(time.Minute); ctx.Done() }
		p.run()
		<-p.late
	})
}

// TestChildren covers every kind of child package context makes; an errgroup is a
// WithCancelCause.
func TestChildren(t *testing.T) {
	type cancelFunc = func()
	kinds := map[string]func(ctx context.Context) (context.Context, cancelFunc){
		"WithCancel": func(ctx context.Context) (context.Context, cancelFunc) {
			child, cancel := context.WithCancel(ctx)
			return child, cancel
		},
		"WithCancelCause": func(ctx context.Context) (context.Context, cancelFunc) {
			child, cancel := context.WithCancelCause(ctx)
			return child, func() { cancel(nil) }
		},
		"WithTimeout": func(ctx context.Context) (context.Context, cancelFunc) {
			child, cancel := context.WithTimeout(ctx, time.Hour)
			return child, cancel
		},
		"below WithValue": func(ctx context.Context) (context.Context, cancelFunc) {
			child, cancel := context.WithCancel(context.WithValue(ctx, errTool, 1))
			return child, cancel
		},
		"another attempt": func(ctx context.Context) (context.Context, cancelFunc) {
			child := attempt.NewContext(ctx, time.Now().Add(time.Hour), nil, nil)
			child.Done()
			return child, func() { child.Cancel(nil) }
		},
	}
	for name, kind := range kinds {
		bubble(t, name, func(t *testing.T) {
			parent, stop := context.WithCancel(t.Context())
			defer stop()
			c := attempt.NewContext(parent, time.Now().Add(deadline), errTool, nil)
			child, cancel := kind(c)
			defer cancel()
			assert.NotContains(t, stacks(), "propagateCancel", "a child costs no goroutine")
			assert.True(t, c.Asked())
			<-child.Done()
			assert.Equal(t, context.DeadlineExceeded, child.Err())
			assert.Equal(t, context.Cause(c), context.Cause(child))
			assert.ErrorIs(t, context.Cause(child), errTool)
		})
		bubble(t, name+" cancelled alone", func(t *testing.T) {
			c := attempt.NewContext(t.Context(), time.Now().Add(deadline), errTool, nil)
			defer c.Cancel(nil)
			child, cancel := kind(c)
			cancel()
			assert.Error(t, child.Err())
			assert.NoError(t, c.Err())
		})
		bubble(t, name+" of an expired one", func(t *testing.T) {
			c := attempt.NewContext(t.Context(), time.Now().Add(deadline), errTool, nil)
			time.Sleep(deadline)
			child, cancel := kind(c)
			defer cancel()
			assert.ErrorIs(t, context.Cause(child), errTool)
		})
	}
	bubble(t, "AfterFunc", func(t *testing.T) {
		c := attempt.NewContext(t.Context(), time.Now().Add(deadline), errTool, nil)
		start := time.Now()
		var at time.Duration
		context.AfterFunc(c, func() { at = time.Since(start) })
		assert.NotContains(t, stacks(), "propagateCancel")
		<-c.Done()
		synctest.Wait()
		assert.Equal(t, deadline, at)
	})
	bubble(t, "WithoutCancel", func(t *testing.T) {
		c := attempt.NewContext(t.Context(), time.Now().Add(deadline), errTool, "state")
		free := context.WithoutCancel(c)
		time.Sleep(deadline)
		require.Error(t, c.Err())
		assert.NoError(t, context.Cause(free))
		assert.Nil(t, free.Done())
		assert.Equal(t, "state", free.Value(attempt.StateKey{}))
	})
}

// TestContextConcurrently arms, asks and cancels at once, for the race detector, and
// checks that there was one end only.
func TestContextConcurrently(t *testing.T) {
	for range 500 {
		parent, stop := context.WithCancelCause(context.Background())
		c := attempt.NewContext(parent, time.Now().Add(time.Microsecond), errTool, nil)
		var all sync.WaitGroup
		causes := make([]error, 4)
		for i := range causes {
			all.Go(func() { <-c.Done(); causes[i] = context.Cause(c) })
		}
		all.Go(func() { _ = c.Err(); c.Value(attempt.StateKey{}) })
		all.Go(func() { c.Cancel(errors.New("cancel")) })
		all.Go(func() { stop(errors.New("parent")) })
		all.Wait()
		for _, cause := range causes {
			require.Error(t, cause)
			require.Same(t, causes[0], cause)
		}
	}
}

func TestWithHTTPClient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	get := func(d time.Duration, path string) (p *probe, err error) {
		got := make(chan error, 1)
		p = newProbe(t.Context(), d, func(ctx context.Context) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
			if err == nil {
				var resp *http.Response
				if resp, err = server.Client().Do(req); err == nil {
					err = resp.Body.Close()
				}
			}
			got <- err
		})
		p.run()
		return p, <-got
	}
	p, err := get(time.Minute, "/")
	require.NoError(t, err)
	assert.ErrorIs(t, context.Cause(p), attempt.ErrOver)
	assert.True(t, p.Asked())

	p, err = get(20*time.Millisecond, "/hang")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorIs(t, context.Cause(p), errTool)
}

// hanging is a database whose queries hang until their context ends.
type hanging struct{}

func (hanging) Connect(context.Context) (driver.Conn, error) { return hanging{}, nil }
func (hanging) Driver() driver.Driver                        { return nil }
func (hanging) Prepare(string) (driver.Stmt, error)          { return nil, driver.ErrSkip }
func (hanging) Begin() (driver.Tx, error)                    { return hanging{}, nil }
func (hanging) Commit() error                                { return nil }
func (hanging) Rollback() error                              { return nil }
func (hanging) Close() error                                 { return nil }
func (hanging) QueryContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Rows, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestWithDatabaseSQL(t *testing.T) {
	db := sql.OpenDB(hanging{})
	defer db.Close()
	got := make(chan error, 1)
	p := newProbe(t.Context(), 20*time.Millisecond, func(ctx context.Context) {
		tx, err := db.BeginTx(ctx, nil) // watches its context as long as it lives
		if err == nil {
			_, err = tx.QueryContext(ctx, "SELECT 1") //nolint:gocritic,rowserrcheck,sqlclosecheck // the driver knows queries only, and has no rows
			_ = tx.Rollback()
		}
		got <- err
	})
	p.run()
	require.ErrorIs(t, <-got, context.DeadlineExceeded)
	assert.ErrorIs(t, context.Cause(p), errTool)
}

// stacks are those of all goroutines. One that package context starts for a child, because it does not know its parent, is in
// propagateCancel.
func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
