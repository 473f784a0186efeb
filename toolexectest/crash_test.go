package toolexectest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// crashWorld is a disk and a remote side that several processes share.
type crashWorld struct {
	disk   toolexec.MemoryStore
	ledger toolexectest.Ledger
}

func (w *crashWorld) start(p *toolexectest.Process) (*toolexec.Executor, *toolexec.Bound[int, string]) {
	x := &toolexec.Executor{Store: p.Store(&w.disk)}
	return x, toolexec.Bind(x, toolexec.Tool[int, string]{
		Name: "post", Run: toolexectest.InProcess(p, ledgerPost(&w.ledger)),
		Verify: &toolexec.Verifier[int, string]{Lookup: toolexectest.Lookup[int, string](&w.ledger), Authoritative: true},
	})
}

// Wherever the first process dies, the second takes over and there is one effect.
func TestCrashAtEachPoint(t *testing.T) {
	type seen struct {
		state   toolexec.State // what the dead process left
		effects int            // at its death
		source  toolexec.Source
	}
	for at, want := range map[toolexectest.Point]seen{
		toolexectest.BeforeRecord: {toolexec.StateAbsent, 0, toolexec.SourceExecution},
		toolexectest.AfterRecord:  {toolexec.StateInFlight, 0, toolexec.SourceExecution},
		toolexectest.BeforeSend:   {toolexec.StateInFlight, 0, toolexec.SourceExecution},
		toolexectest.AfterSend:    {toolexec.StateInFlight, 1, toolexec.SourceLookup},
		toolexectest.BeforeAnswer: {toolexec.StateInFlight, 1, toolexec.SourceLookup},
		toolexectest.BeforeResult: {toolexec.StateInFlight, 1, toolexec.SourceLookup},
		toolexectest.AfterResult:  {toolexec.StateCommitted, 1, toolexec.SourceExecution},
	} {
		t.Run(string(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w crashWorld
				dying := toolexectest.Process{At: at}
				x, post := w.start(&dying)
				ctx := toolexec.WithOperationRef(t.Context(), "op/1")
				post.Call(ctx, 1)
				dying.Check(t)
				dying.Wait()
				left, _ := w.disk.Load(t.Context(), storeFaultKey)
				assert.Equal(t, want.state, left.State)
				assert.Equal(t, want.effects, w.ledger.Total())

				var second toolexectest.Process
				y, post := w.start(&second)
				time.Sleep(time.Minute)
				assert.False(t, post.Call(ctx, 1).CommitState == toolexec.NotCommitted && want.effects > 0)
				time.Sleep(time.Minute)
				env := post.Call(ctx, 1)
				assert.True(t, env.OK, env.Code)
				assert.Equal(t, want.source, env.Verification.Source)
				assert.Equal(t, 1, w.ledger.Total())
				assert.False(t, second.Dead())
				require.NoError(t, x.Close(t.Context()), "nothing of the dead one stays")
				require.NoError(t, y.Close(t.Context()))
			})
		})
	}
	assert.Len(t, toolexectest.Points(), 7)
}

// A supervisor of the second process finishes what the first has left.
func TestCrashIsRecovered(t *testing.T) {
	for _, at := range toolexectest.Points()[1:] {
		t.Run(string(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w crashWorld
				dying := toolexectest.Process{At: at}
				x, post := w.start(&dying)
				post.Call(toolexec.WithOperationRef(t.Context(), "op/1"), 1)
				dying.Wait()
				var second toolexectest.Process
				y, _ := w.start(&second)
				s := toolexec.Supervisor{Executor: y, Rerun: func(toolexec.Record) bool { return true }}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				env, err := s.Wait(ctx, storeFaultKey)
				assert.NoError(t, err)
				assert.True(t, env.OK, env.Code)
				assert.Equal(t, 1, w.ledger.Total())
				require.NoError(t, x.Close(t.Context()))
				require.NoError(t, y.Close(t.Context()))
			})
		})
	}
}

// Of a dead process nothing reaches what the others see: neither calls that come
// later nor answers of those that were on the way.
func TestCrashIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w crashWorld
		var p toolexectest.Process
		store := p.Store(&w.disk)
		ended := make(chan error, 2)
		run := toolexectest.InProcess(&p, func(ctx context.Context, in int) (int, error) {
			if in > 0 {
				<-ctx.Done()
				ended <- context.Cause(ctx)
			}
			return in, nil
		})
		_, err := run(t.Context(), 0)
		require.NoError(t, err)
		go func() {
			_, err := run(t.Context(), 1)
			ended <- err
		}()
		synctest.Wait()
		assert.False(t, p.Dead())
		p.Kill()
		p.Kill()
		assert.True(t, p.Dead())
		assert.Equal(t, toolexectest.ErrCrashed, <-ended, "its context ended")
		assert.Equal(t, toolexectest.ErrCrashed, <-ended, "its answer is not heard")

		_, err = run(t.Context(), 0)
		assert.Equal(t, toolexectest.ErrCrashed, err)
		_, err = store.Save(t.Context(), toolexec.Record{Key: storeFaultKey})
		assert.Equal(t, toolexectest.ErrCrashed, err)
		_, err = store.Load(t.Context(), storeFaultKey)
		assert.Equal(t, toolexectest.ErrCrashed, err)
		_, _, err = store.List(t.Context(), toolexec.Query{})
		assert.Equal(t, toolexectest.ErrCrashed, err)
		assert.Equal(t, toolexectest.ErrCrashed, store.(toolexec.Waiter).Wait(t.Context(), storeFaultKey, 1)) //nolint:forcetypeassert // a MemoryStore has it
		_, err = w.disk.Load(t.Context(), storeFaultKey)
		assert.ErrorIs(t, err, toolexec.ErrNotFound)
	})
}

// What is under way when the process dies is done, and nobody of the process hears
// of it.
func TestCrashDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w crashWorld
		var p toolexectest.Process
		hang := toolexectest.Fault{Answer: toolexectest.Leg{Hang: time.Second}}
		slow := toolexectest.StoreFaults{Save: toolexectest.Script(hang), Load: toolexectest.Script(hang)}
		store := p.Store(toolexectest.WrapStore(&w.disk, slow))
		time.AfterFunc(time.Millisecond, p.Kill)
		read := make(chan error, 1)
		go func() {
			_, err := store.Load(t.Context(), storeFaultKey)
			read <- err
		}()
		saved, err := store.Save(t.Context(), toolexec.Record{Key: storeFaultKey, State: toolexec.StateInFlight})
		assert.Equal(t, toolexectest.ErrCrashed, err)
		assert.Zero(t, saved)
		assert.Equal(t, toolexectest.ErrCrashed, <-read, "nor of what a Load found")
		_, err = w.disk.Load(t.Context(), storeFaultKey)
		assert.NoError(t, err)
	})
}

// A crash that no operation came to fails the test, like any other fault.
func TestCrashThatDoesNotHappen(t *testing.T) {
	var report faultErrors
	(&toolexectest.Process{At: toolexectest.AfterSend}).Check(&report)
	new(toolexectest.Process).Check(&report)
	assert.Equal(t, []string{"toolexectest: crash after the send: no operation came there"}, report.got)
}

// Scripts can crash a process too: here at the Save that marks a send.
func TestCrashByScript(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*toolexectest.Process) toolexectest.Fault
		sent  bool
	}{
		"before the mark": {toolexectest.CrashRequest, false},
		"after the mark":  {toolexectest.CrashAnswer, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w crashWorld
				var p toolexectest.Process
				faults := toolexectest.StoreFaults{Save: toolexectest.Script(toolexectest.Nth(2, c.fault(&p))...)}
				x := toolexec.Executor{Store: p.Store(toolexectest.WrapStore(&w.disk, faults))}
				tool := toolexec.Bind(&x, toolexec.Tool[int, string]{
					Name: "post", MarksSent: true,
					Run: toolexectest.InProcess(&p, func(ctx context.Context, in int) (string, error) {
						if err := toolexec.MarkSent(ctx); err != nil {
							return "", err
						}
						return ledgerPost(&w.ledger)(ctx, in)
					}),
				})
				tool.Call(toolexec.WithOperationRef(t.Context(), "op/1"), 1)
				faults.Check(t)
				assert.Zero(t, w.ledger.Total())
				left, err := w.disk.Load(t.Context(), storeFaultKey)
				assert.NoError(t, err)
				assert.Equal(t, c.sent, left.Sent)
				require.NoError(t, x.Close(t.Context()))
			})
		})
	}
}
