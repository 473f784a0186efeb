package attempt

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestAlarm runs calls one after another on one alarm, whose timer the next one finds as
// the last one left it.
func TestAlarm(t *testing.T) {
	type watched struct {
		deadline time.Duration // from its start
		takes    time.Duration // until unset
		asks     bool          // somebody asks for Done
		kept     bool
		rings    time.Duration // after its start; 0: it does not
		graced   bool
	}
	const never = 0
	for name, calls := range map[string][]watched{
		"at the deadline": {{deadline: 2 * time.Second, takes: time.Minute, kept: true, rings: 2 * time.Second}},
		"a call that ends in time": {
			{deadline: 2 * time.Second, takes: 2*time.Second - 1, kept: true, rings: never},
		},
		"a timer that is due too early": {
			{deadline: 2 * time.Second, takes: time.Second, kept: true, rings: never},
			{deadline: 3 * time.Second, takes: time.Minute, kept: true, rings: 3 * time.Second},
		},
		"a timer that is due too late": {
			{deadline: 8 * time.Second, takes: time.Second, kept: true, rings: never},
			{deadline: time.Second, takes: time.Minute, kept: true, rings: time.Second},
		},
		"a timer that met no call": {
			{deadline: time.Second, takes: 1, kept: true, rings: never},
			{deadline: time.Hour, takes: 30 * time.Minute, rings: never},
			{deadline: time.Second, takes: time.Minute, kept: true, rings: time.Second},
		},
		"many calls within one deadline": {
			{deadline: time.Second, takes: 400 * time.Millisecond, kept: true, rings: never},
			{deadline: time.Second, takes: 400 * time.Millisecond, kept: true, rings: never},
			{deadline: time.Second, takes: 400 * time.Millisecond, kept: true, rings: never},
			{deadline: time.Second, takes: 400 * time.Millisecond, kept: true, rings: never},
			{deadline: time.Second, takes: time.Second + 1, kept: true, rings: time.Second},
		},
		"grace": {{deadline: time.Second, takes: time.Minute, asks: true, kept: true, rings: time.Second + Grace, graced: true}},
		"within grace": {
			{deadline: time.Second, takes: time.Second + Grace/2, asks: true, kept: true, rings: never, graced: true},
		},
		"not kept": {
			{deadline: time.Second, takes: time.Millisecond, rings: never},
			{deadline: 2 * time.Second, takes: time.Minute, rings: 2 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rung time.Time
				a := &alarm{ring: func() { rung = time.Now() }}
				for i, call := range calls {
					start := time.Now()
					ctx := NewContext(context.Background(), start.Add(call.deadline), nil, nil)
					if call.asks {
						_ = ctx.Done()
					}
					a.set(ctx)
					time.Sleep(call.takes)
					synctest.Wait()
					assert.Equal(t, !call.graced, a.unset(start, call.kept), "call %d: its deadline has not passed", i)
					if !call.kept {
						assert.Zero(t, a.due(), "call %d: nothing is left running", i)
					}
					if call.rings == never {
						assert.True(t, rung.IsZero(), "call %d: rung", i)
					} else {
						assert.Equal(t, call.rings, rung.Sub(start), "call %d", i)
					}
					rung = time.Time{}
					ctx.Cancel(nil)
				}
				time.Sleep(time.Hour)
				assert.Zero(t, rung, "it rings for nobody")
				assert.Zero(t, a.due(), "and its timer is at rest")
			})
		})
	}
}

// TestAlarmLetsFarTimersGo: what the runtime would hold for long is stopped.
func TestAlarmLetsFarTimersGo(t *testing.T) {
	for left, stays := range map[time.Duration]bool{idle: true, idle + 1: false} {
		synctest.Test(t, func(t *testing.T) {
			a := &alarm{ring: func() {}}
			now := time.Now()
			a.set(NewContext(context.Background(), now.Add(left), nil, nil))
			a.unset(now, true)
			assert.Equal(t, stays, !a.due().IsZero(), "a timer that is due in %s stays", left)
			a.timer.Stop()
		})
	}
}

// due is when the timer fires; zero: it does not.
func (a *alarm) due() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fires
}
