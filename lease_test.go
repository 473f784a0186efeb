package toolexec_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// A call whose record was lost to another owner in a pause makes no further attempt.
func TestNoAttemptAfterTheOwnerWasLostInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(toolexec.MemoryStore)
		x := &toolexec.Executor{Store: new(toolexectest.Process).Store(disk), Policy: toolexec.Policy{
			Backoff: toolexec.Backoff{Initial: 2 * time.Second}, TotalDeadline: time.Minute,
		}}
		var runs int
		b := toolexec.Bind(x, toolexec.Tool[int, string]{Name: "post", Run: func(context.Context, int) (string, error) {
			runs++
			return "", toolexec.NotSent(errors.New("refused"))
		}})
		go func() {
			time.Sleep(time.Second)
			rec, err := disk.Load(context.Background(), toolexec.Key{Ref: "a/b"})
			assert.NoError(t, err)
			rec.Owner, rec.Nonce = "another", "another"
			_, err = disk.Save(context.Background(), rec)
			assert.NoError(t, err)
		}()
		b.Call(toolexec.WithOperationRef(t.Context(), "a/b"), 1)
		require.NoError(t, x.Close(t.Context()))
		assert.Equal(t, 1, runs)
	})
}

// A heartbeat that the store refused once is tried again before the lease ends.
func TestHeartbeatGoesOnAfterAStoreError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := toolexectest.Script(toolexectest.Nth(2, toolexectest.FailRequest(errors.New("store down")))...)
		disk := toolexectest.WrapStore(new(toolexectest.Process).Store(new(toolexec.MemoryStore)), toolexectest.StoreFaults{Save: plan})
		x := &toolexec.Executor{Store: disk, Policy: toolexec.Policy{Deadline: -1, TotalDeadline: -1}}
		b := toolexec.Bind(x, toolexec.Tool[int, string]{Name: "post", Run: func(ctx context.Context, _ int) (string, error) {
			select {
			case <-time.After(10 * time.Minute):
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}})
		env := b.Call(toolexec.WithOperationRef(t.Context(), "a/b"), 1)
		require.NoError(t, x.Close(t.Context()))
		plan.Check(t)
		assert.True(t, env.OK, "%v", env.Err())
	})
}
