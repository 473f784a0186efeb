package toolexec_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// savesStore counts what the guard asks of a store. Its records die with it, as
// those of the MemoryStore that it is made of.
type savesStore struct {
	toolexec.MemoryStore

	saves, loads atomic.Int64
}

func (s *savesStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	s.saves.Add(1)
	return s.MemoryStore.Save(ctx, r)
}

func (s *savesStore) Load(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
	s.loads.Add(1)
	return s.MemoryStore.Load(ctx, key)
}

// What a call costs a store: beginning and finishing are one Save each, and
// nothing is loaded that a Save brings along.
func TestSavesOfACall(t *testing.T) {
	type tool = toolexec.Tool[caseOrder, string]
	for _, row := range []struct {
		name  string
		tool  tool
		calls int // before the one that is counted
		dup   int // beside it
		saves int64
	}{
		{name: "success", saves: 2, tool: tool{Run: func(context.Context, caseOrder) (string, error) { return "r", nil }}},
		{name: "a marked send", saves: 3, tool: tool{MarksSent: true, Run: func(ctx context.Context, _ caseOrder) (string, error) {
			return "r", toolexec.MarkSent(ctx)
		}}},
		{name: "not sent, and retried", saves: 2, tool: tool{Run: func(ctx context.Context, _ caseOrder) (string, error) {
			if toolexec.Attempt(ctx) == 1 {
				return "", toolexec.NotSent(nil)
			}
			return "r", nil
		}}},
		{name: "unknown, and looked up", saves: 3, tool: tool{
			Run: func(context.Context, caseOrder) (string, error) { return "", toolexec.InDoubt(nil) },
			Verify: &toolexec.Verifier[caseOrder, string]{Lookup: func(context.Context, string, caseOrder) (toolexec.Finding[string], error) {
				return toolexec.Found("r"), nil
			}},
		}},
		{name: "a replay", calls: 1, saves: 1, tool: tool{Run: func(context.Context, caseOrder) (string, error) { return "r", nil }}},
		{name: "fifty duplicates", dup: 49, saves: 2, tool: tool{Run: func(ctx context.Context, _ caseOrder) (string, error) {
			<-ctx.Done() // long enough for all of them to come
			return "r", nil
		}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(savesStore)
				row.tool.Name = "w"
				b := toolexec.Bind(&toolexec.Executor{Store: store}, row.tool)
				ctx := toolexec.WithOperationRef(t.Context(), "a/1")
				for range row.calls {
					require.True(t, b.Call(ctx, execOrder).OK)
				}
				store.saves.Store(0)
				for range row.dup {
					go func() { assert.True(t, b.Call(ctx, execOrder).OK) }()
				}
				assert.True(t, b.Call(ctx, execOrder).OK)
				synctest.Wait()
				assert.Equal(t, row.saves, store.saves.Load(), "saves")
				assert.Zero(t, store.loads.Load(), "loads")
			})
		})
	}
}
