package main

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"

	"github.com/toolexec/toolexec"
)

// contender is a way to run a tool.
type contender struct {
	name  string
	setup string // a sentence for the reader
	ours  bool
	needs need
	start func(h *host) session
}

// need is the remote side that a contender is for.
type need int

const (
	anySide     need = iota
	keyedSide        // one that deduplicates by a key
	unkeyedSide      // one that does not
)

// session is a contender in one process.
type session struct {
	call func(ctx context.Context, c call) answer
	stop func(ctx context.Context)
}

// The bounds are the same for all: 2 s an attempt, two retries after 0.5 s and
// 1 s, no jitter.
const (
	attemptDeadline = toolexec.DefaultDeadline
	maxRetries      = toolexec.DefaultMaxRetries
	initialPause    = toolexec.DefaultInitialPause
	maxPause        = toolexec.DefaultMaxBackoff
)

var peers = []*contender{
	{
		name:  "native key, retried",
		setup: "`cenkalti/backoff` v4 as below, and each request carries an idempotency key: the ref of the call, else the id of the call.",
		needs: keyedSide,
		start: func(h *host) session {
			return plain(func(ctx context.Context, c call) error { return withBackoff(ctx, h, key(c), maxRetries) })
		},
	},
	{
		name:  "never retry",
		setup: "one attempt within 2 s. The agent reads the error, and calls again.",
		needs: unkeyedSide,
		start: func(h *host) session {
			return plain(func(ctx context.Context, _ call) error { return withBackoff(ctx, h, "", 0) })
		},
	},
	{
		name:  "never retry, agent stopped",
		setup: "the same, and the host ends the agent's loop at an error that does not say that nothing was done.",
		needs: unkeyedSide,
		start: func(h *host) session {
			once := plain(func(ctx context.Context, _ call) error { return withBackoff(ctx, h, "", 0) })
			return session{stop: once.stop, call: func(ctx context.Context, c call) answer {
				a := once.call(ctx, c)
				a.stop = a.stop || a.told == toldUnknown
				return a
			}}
		},
	},
	{
		name: "naive retry",
		setup: "`cenkalti/backoff` v4: two retries after 0.5 s and 1 s, each attempt within `context.WithTimeout` of 2 s, " +
			"a refusal for good is a `backoff.Permanent`.",
		start: func(h *host) session {
			return plain(func(ctx context.Context, _ call) error { return withBackoff(ctx, h, "", maxRetries) })
		},
	},
	{
		name: "failsafe-go",
		setup: "`failsafe-go`: a retry policy with the same pauses, which aborts at a refusal for good and waits as long as a rate limit says, " +
			"around a timeout of 2 s.",
		start: func(h *host) session {
			policies := failsafePolicies()
			return plain(func(ctx context.Context, _ call) error {
				return policies.WithContext(ctx).RunWithExecution(func(e failsafe.Execution[receipt]) error {
					_, err := h.tool(e.Context(), "")
					return err
				})
			})
		},
	},
}

// key is what a careful caller without a record of operations can deduplicate
// by: the step of the run where it is known, else the call.
func key(c call) string {
	if c.ref != "" {
		return c.ref
	}
	return c.id
}

// withBackoff retries the tool as the documentation of backoff shows. Its jitter
// is off, so that a seed prints one table.
func withBackoff(ctx context.Context, h *host, key string, retries uint64) error {
	pauses := backoff.NewExponentialBackOff(backoff.WithInitialInterval(initialPause), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(maxPause), backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
	return backoff.Retry(func() error {
		attempt, cancel := context.WithTimeout(ctx, attemptDeadline)
		defer cancel()
		_, err := h.tool(attempt, key)
		if isRefusal(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(backoff.WithMaxRetries(pauses, retries), ctx))
}

func failsafePolicies() failsafe.Executor[receipt] {
	return failsafe.With(
		retrypolicy.NewBuilder[receipt]().
			WithMaxRetries(maxRetries).
			WithBackoff(initialPause, maxPause).
			WithDelayFunc(func(e failsafe.ExecutionAttempt[receipt]) time.Duration {
				if f, ok := errors.AsType[*toolexec.Failure](e.LastError()); ok && f.RetryAfter > 0 {
					return f.RetryAfter
				}
				return -1 // as the backoff says
			}).
			AbortIf(func(_ receipt, err error) bool { return isRefusal(err) }).
			ReturnLastFailure().
			Build(),
		timeout.New[receipt](attemptDeadline),
	)
}

// isRefusal: the remote side refused for good. The Failure stands for what a
// client's own error type says, a status and a Retry-After.
func isRefusal(err error) bool {
	f, ok := errors.AsType[*toolexec.Failure](err)
	return ok && f.Evidence == toolexec.EvidenceRejected && f.Class == toolexec.ClassPermanent
}

// plain is a contender that answers with an error. It is read as kindly as it
// can be: what says that nothing was done is believed, and everything else leaves
// the outcome unknown.
func plain(run func(ctx context.Context, c call) error) session {
	return session{
		call: func(ctx context.Context, c call) answer { return reading(run(ctx, c)) },
		stop: func(context.Context) {},
	}
}

func reading(err error) answer {
	if err == nil {
		return answer{told: toldDone}
	}
	f, ok := errors.AsType[*toolexec.Failure](err)
	if !ok || f.Evidence == toolexec.EvidenceInDoubt {
		return answer{told: toldUnknown}
	}
	return answer{told: toldNotDone, stop: isRefusal(err), notBefore: time.Now().Add(f.RetryAfter)}
}
