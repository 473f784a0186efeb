package toolexec

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// ErrRetryBudget is among the causes of a failure that was not retried because
// the executor's RetryBudget was empty: errors.Is(env.Err(), ErrRetryBudget).
// The failure keeps its code and its own cause beside it.
var ErrRetryBudget = errors.New("toolexec: the executor's retry budget is empty")

// RetryBudget bounds the retries that all calls of an executor make together,
// so that a remote side in trouble is not asked three times by everybody. It is
// a bucket of tokens, full at first: a retry takes one, time brings them back. Over
// any t seconds there are at most Burst + PerSecond × t retries. When the bucket
// is empty a failure is answered at once instead of after its pause, with the
// same code and advice, and ErrRetryBudget among its causes.
//
// Only an attempt that follows another one of the same call is a retry; a first
// attempt never asks. A token that was taken is spent, also if the caller
// cancels during the pause. The zero RetryBudget is off and costs nothing.
//
// Two designs are older. In gRPC (proposal A6, "Throttling Retry Attempts and
// Hedged RPCs") every failure takes a token, every success brings back a part of
// one, and retries stop below half. In the AWS SDKs ("retry quota") a retry
// takes 5 of 500, more after a timeout, and its success brings them back. Both
// bound the share of retries in the traffic, and without successes they never
// recover. This one bounds their rate, which needs no traffic to recover and
// says what the remote side will see.
type RetryBudget struct {
	// Burst is how many tokens the bucket holds. 0: what ten seconds bring, at
	// least one; negative: no budget at all.
	Burst int
	// PerSecond is how many tokens a second brings. 0: a tenth of Burst; negative
	// and NaN: none, so that Burst retries are all that this executor makes.
	PerSecond float64
}

// off reports whether every retry is allowed.
func (b RetryBudget) off() bool { return b == RetryBudget{} || b.Burst < 0 }

// sane returns the size of the bucket and what a second brings, both finite.
func (b RetryBudget) sane() (size, perSecond float64) {
	size, perSecond = float64(b.Burst), b.PerSecond
	switch {
	case perSecond == 0:
		perSecond = size / 10
	case !(perSecond > 0): // also NaN
		perSecond = 0
	}
	perSecond = min(perSecond, 1e9)
	if b.Burst == 0 {
		size = max(math.Floor(10*perSecond), 1)
	}
	return size, perSecond
}

// retryTokens is the bucket of one executor. The zero value is a full one.
type retryTokens struct {
	mu   sync.Mutex // protects what follows
	used bool
	left float64   // at that time
	at   time.Time // of the newest token that was taken
}

// take takes a token; false when there is none, which changes nothing. A now
// from before the last token brings none back.
func (t *retryTokens) take(b RetryBudget, now time.Time) bool {
	const rounding = 1e-9 // of the sums below: what is due is not refused for it
	size, perSecond := b.sane()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.used {
		t.used, t.left, t.at = true, size, now
	}
	left := min(size, t.left+max(now.Sub(t.at), 0).Seconds()*perSecond)
	if left < 1-rounding {
		return false
	}
	t.left = left - 1
	if now.After(t.at) {
		t.at = now
	}
	return true
}

// overBudget is asked before a retry: nil when it is allowed, else what the last
// failure becomes. That one is not changed: the observer may hold it.
func (c *call) overBudget(ctx context.Context, last *Failure) *Failure {
	if c.x.RetryBudget.off() || c.x.tokens.take(c.x.RetryBudget, c.watch.now()) {
		return nil
	}
	c.x.note(ctx, RetryRefused{Tool: c.t.name, Key: c.key, After: last.Code})
	f := *last
	f.Err = errors.Join(last.Err, ErrRetryBudget)
	return &f
}
