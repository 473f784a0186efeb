package toolexec_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolexec/toolexec"
)

// What a read does before its attempt takes no time from the attempt, and makes its deadline no later; when it took all of the
// call's time, the tool is not started.
func TestReadAfterASlowCheck(t *testing.T) {
	for _, row := range []struct {
		check, want time.Duration
		starts      int
	}{
		{0, 2 * time.Second, 1},
		{1500 * time.Millisecond, 3 * time.Second, 1}, // at the total deadline
		{500 * time.Millisecond, 2500 * time.Millisecond, 1},
		{4 * time.Second, 4 * time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := toolexec.Executor{Policy: toolexec.Policy{Deadline: 2 * time.Second, TotalDeadline: 3 * time.Second, MaxRetries: -1}}
			over, starts := make(chan struct{}), 0
			b := toolexec.Bind(&x, toolexec.Tool[caseOrder, caseReceipt]{
				Name: "find", Effect: toolexec.ReadOnly,
				Check: func(caseOrder) error { time.Sleep(row.check); return nil },
				Run: func(context.Context, caseOrder) (caseReceipt, error) {
					starts++
					<-over
					return caseReceipt{}, errors.New("too late")
				},
			})
			start := time.Now()
			e := b.Call(t.Context(), execOrder)
			assert.Equal(t, row.want, time.Since(start), "a check of %s", row.check)
			assert.Equal(t, toolexec.CodeDeadlineExceeded, e.Code)
			close(over)
			synctest.Wait()
			assert.Equal(t, row.starts, starts)
		})
	}
}

// A deadline of the caller's that is long past is past.
func TestDeadlineBeforeTime(t *testing.T) {
	var x toolexec.Executor
	b := toolexec.Bind(&x, execTool("find", toolexec.ReadOnly, func(context.Context) error { panic("it must not run") }))
	ctx, cancel := context.WithDeadline(t.Context(), time.Time{})
	defer cancel()
	assert.Equal(t, toolexec.CodeDeadlineExceeded, b.Call(ctx, execOrder).Code)
}
