package toolexec_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// The store of the laws that has a clock of its own keeps the contract, whatever it shows.
func TestLawsTableIsAStore(t *testing.T) {
	for _, ahead := range []time.Duration{0, 7 * time.Hour, -7 * time.Hour} {
		toolexectest.RunStore(t, func(*testing.T) toolexec.Store {
			return newLawsTable(lawsConfig{clock: lawsClock{ahead: ahead}})
		})
	}
}

// Whatever a call starts from, it is on the store's clock: the settle window of an attempt in doubt is not over because the
// clock of the process is ahead of the store's, and not_before is told on the clock of the process.
func TestLawsStoresClockIsItsOwn(t *testing.T) {
	for _, tt := range []struct {
		name          string
		first, second string // refs
		after         time.Duration
		unsaved       bool // the end of the first call cannot be stored
	}{
		{"it waited for another call of its process", "a", "a", 500 * time.Millisecond, false},
		{"that one's end could not be stored", "a", "a", 500 * time.Millisecond, true},
		{"it was found among those that are open", "", "", 5 * time.Second, false},
		{"it was loaded", "a", "a", 5 * time.Second, false},
	} {
		for _, ahead := range []time.Duration{7 * time.Hour, -7 * time.Hour} {
			t.Run(tt.name+", "+ahead.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := &lawsFailingSaves{Store: newLawsTable(lawsConfig{clock: lawsClock{ahead: ahead}})}
					store.fails.Store(tt.unsaved)
					x := toolexec.Executor{Store: store}
					defer func() {
						store.fails.Store(false)
						require.NoError(t, x.Close(t.Context()))
					}()
					var runs atomic.Int64
					tool := lawsTool(&runs, func(context.Context, int) (string, error) {
						time.Sleep(time.Second)
						return "", toolexec.InDoubt(nil)
					})
					tool.Verify = &toolexec.Verifier[lawsIn, string]{Authoritative: true, Lookup: func(context.Context, string, lawsIn) (toolexec.Finding[string], error) {
						return toolexec.Absent[string](), nil
					}}
					charge := toolexec.Bind(&x, tool)
					ended := time.Now().Add(time.Second)
					go charge.Call(toolexec.WithOperationRef(t.Context(), tt.first), lawsIn{})
					time.Sleep(tt.after)
					e := charge.Call(toolexec.WithOperationRef(t.Context(), tt.second), lawsIn{})
					require.EqualValues(t, 1, runs.Load())
					require.Equal(t, toolexec.CodeOutcomeUnknown, e.Code)
					if !tt.unsaved { // else it is not known yet
						require.Equal(t, ended.Add(toolexec.DefaultSettle), e.Retry.NotBefore)
					}
				})
			})
		}
	}
}

// A look-up that was under way when the store's clock stepped back began before the attempt closed that it says nothing of,
// although on that clock it seems to have begun after.
func TestLawsStoresClockStepsBackDuringALookUp(t *testing.T) {
	for _, back := range []time.Duration{0, 5 * time.Minute} {
		t.Run(back.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newLawsTable(lawsConfig{clock: lawsClock{jumps: []lawsJump{{at: 2800 * time.Millisecond, by: -back}}}})
				var runs atomic.Int64
				tool := lawsTool(&runs, func(context.Context, int) (string, error) {
					time.Sleep(3 * time.Second)
					return "", toolexec.InDoubt(nil)
				})
				first, second := toolexec.Executor{Store: store}, toolexec.Executor{Store: store}
				ctx := toolexec.WithOperationRef(t.Context(), "a")
				toolexec.Bind(&first, tool).Call(ctx, lawsIn{}) // cut after 2 s, it ends after 3
				time.Sleep(500 * time.Millisecond)
				tool.Verify = &toolexec.Verifier[lawsIn, string]{Authoritative: true, Lookup: func(context.Context, string, lawsIn) (toolexec.Finding[string], error) {
					time.Sleep(time.Second)
					return toolexec.Absent[string](), nil
				}}
				e := toolexec.Bind(&second, tool).Call(ctx, lawsIn{})
				require.Equal(t, toolexec.CommitUnknown, e.CommitState)
				require.EqualValues(t, 1, runs.Load())
				require.NoError(t, first.Close(t.Context()))
				require.NoError(t, second.Close(t.Context()))
			})
		})
	}
}
