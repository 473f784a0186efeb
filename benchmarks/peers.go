package main

import (
	"context"
	"testing"
	"time"

	"github.com/avast/retry-go/v5"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	backoff4 "github.com/cenkalti/backoff/v4"
	backoff5 "github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/googleapis/gax-go/v2"
	goretry "github.com/sethvargo/go-retry"
	"github.com/sony/gobreaker/v2"
)

// The peers, each as its documentation has it and as cheap as that allows: what
// can be made once is made once.

const (
	deadline = 2 * time.Second
	retries  = 2
	pause    = 500 * time.Millisecond
	maxPause = 30 * time.Second
)

// each times call, which has to succeed.
func each(b *testing.B, call func(context.Context) error) {
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		must(b, call(ctx) == nil)
	}
}

func bareCall(b *testing.B) {
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		_, err := lookup(ctx, in)
		must(b, err == nil)
	}
}

func withTimeout(b *testing.B) {
	each(b, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		_, err := lookup(ctx, in)
		return err
	})
}

type answer struct {
	out receipt
	err error
}

func handOff(b *testing.B) {
	answers := make(chan answer)
	each(b, func(ctx context.Context) error {
		go func() {
			out, err := lookup(ctx, in)
			answers <- answer{out, err}
		}()
		return (<-answers).err
	})
}

// enforced is the usual deadline that is kept also when the tool ignores it.
func enforced(b *testing.B) {
	each(b, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		answers := make(chan answer, 1)
		go func() {
			out, err := lookup(ctx, in)
			answers <- answer{out, err}
		}()
		select {
		case got := <-answers:
			return got.err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func failsafeRetryTimeout(b *testing.B) {
	failsafeCalls(b, failsafe.With(failsafePolicy().WithBackoff(pause, maxPause).Build(), timeout.New[receipt](deadline)), lookup)
}

func failsafeRetry(b *testing.B) {
	failsafeCalls(b, failsafe.With(failsafePolicy().WithBackoff(pause, maxPause).Build()), lookup)
}

func twiceFailsafe(b *testing.B) {
	failsafeCalls(b, failsafe.With(failsafePolicy().Build(), timeout.New[receipt](deadline)), downTwice(errDown))
}

func failsafePolicy() retrypolicy.Builder[receipt] {
	return retrypolicy.NewBuilder[receipt]().WithMaxRetries(retries)
}

func failsafeCalls(b *testing.B, exec failsafe.Executor[receipt], run func(context.Context, input) (receipt, error)) {
	each(b, func(ctx context.Context) error {
		_, err := exec.WithContext(ctx).GetWithExecution(func(e failsafe.Execution[receipt]) (receipt, error) {
			return run(e.Context(), in)
		})
		return err
	})
}

// Its pauses are a state, so there is a new one for each call.
func backoffV4(b *testing.B) {
	each(b, func(ctx context.Context) error {
		_, err := backoff4.RetryWithData(func() (receipt, error) { return lookup(ctx, in) },
			backoff4.WithContext(backoff4.WithMaxRetries(backoff4.NewExponentialBackOff(), retries), ctx))
		return err
	})
}

func twiceBackoffV4(b *testing.B) {
	run := downTwice(errDown)
	each(b, func(ctx context.Context) error {
		_, err := backoff4.RetryWithData(func() (receipt, error) { return run(ctx, in) }, backoff4.WithContext(&backoff4.ZeroBackOff{}, ctx))
		return err
	})
}

func backoffV5(b *testing.B) {
	each(b, func(ctx context.Context) error {
		_, err := backoff5.Retry(ctx, func() (receipt, error) { return lookup(ctx, in) }, backoff5.WithMaxTries(1+retries))
		return err
	})
}

func twiceBackoffV5(b *testing.B) {
	run := downTwice(errDown)
	each(b, func(ctx context.Context) error {
		_, err := backoff5.Retry(ctx, func() (receipt, error) { return run(ctx, in) },
			backoff5.WithMaxTries(1+retries), backoff5.WithBackOff(&backoff5.ZeroBackOff{}))
		return err
	})
}

func retryGo(b *testing.B) {
	r := retry.NewWithData[receipt](retry.Attempts(1+retries), retry.Delay(pause), retry.MaxDelay(maxPause))
	each(b, func(ctx context.Context) error {
		_, err := r.Do(func() (receipt, error) { return lookup(ctx, in) })
		return err
	})
}

func twiceRetryGo(b *testing.B) {
	r := retry.NewWithData[receipt](retry.Attempts(1+retries), retry.Delay(0), retry.DelayType(retry.FixedDelay))
	run := downTwice(errDown)
	each(b, func(ctx context.Context) error {
		_, err := r.Do(func() (receipt, error) { return run(ctx, in) })
		return err
	})
}

// Its pauses are a state as well.
func goRetry(b *testing.B) {
	each(b, func(ctx context.Context) error {
		_, err := goretry.DoValue(ctx, goretry.WithMaxRetries(retries, goretry.NewExponential(pause)),
			func(ctx context.Context) (receipt, error) { return lookup(ctx, in) })
		return err
	})
}

func twiceGoRetry(b *testing.B) {
	run := downTwice(goretry.RetryableError(errDown))
	none := goretry.BackoffFunc(func() (time.Duration, bool) { return 0, false })
	each(b, func(ctx context.Context) error {
		_, err := goretry.DoValue(ctx, goretry.WithMaxRetries(retries, none),
			func(ctx context.Context) (receipt, error) { return run(ctx, in) })
		return err
	})
}

func breaker(b *testing.B) {
	cb := gobreaker.NewCircuitBreaker[receipt](gobreaker.Settings{Name: "lookup"})
	each(b, func(ctx context.Context) error {
		_, err := cb.Execute(func() (receipt, error) { return lookup(ctx, in) })
		return err
	})
}

func awsRetryer(b *testing.B) { awsCalls(b, awsretry.NewStandard(), lookup) }

func twiceAWS(b *testing.B) {
	awsCalls(b, awsretry.NewStandard(func(o *awsretry.StandardOptions) {
		o.Backoff = awsretry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		o.RateLimiter = ratelimit.None
		o.Retryables = []awsretry.IsErrorRetryable{awsretry.IsErrorRetryableFunc(func(error) aws.Ternary { return aws.TrueTernary })}
	}), downTwice(errDown))
}

// awsCalls runs the middleware that the clients of the SDK have, without the
// rest of their stack.
func awsCalls(b *testing.B, retryer aws.Retryer, run func(context.Context, input) (receipt, error)) {
	attempt := awsretry.NewAttemptMiddleware(retryer, func(request any) any { return request })
	next := middleware.FinalizeHandlerFunc(func(ctx context.Context, _ middleware.FinalizeInput) (middleware.FinalizeOutput, middleware.Metadata, error) {
		out, err := run(ctx, in)
		return middleware.FinalizeOutput{Result: out}, middleware.Metadata{}, err
	})
	each(b, func(ctx context.Context) error {
		_, _, err := attempt.HandleFinalize(ctx, middleware.FinalizeInput{Request: &in}, next)
		return err
	})
}

func gaxInvoke(b *testing.B) { gaxCalls(b, gax.Backoff{Initial: pause, Max: maxPause}, lookup) }

func twiceGax(b *testing.B) {
	gaxCalls(b, gax.Backoff{Initial: 1, Max: 1, Multiplier: 1}, downTwice(errDown))
}

func gaxCalls(b *testing.B, pauses gax.Backoff, run func(context.Context, input) (receipt, error)) {
	options := []gax.CallOption{
		gax.WithTimeout(deadline),
		gax.WithRetry(func() gax.Retryer { return gax.OnErrorFunc(pauses, func(error) bool { return true }) }),
	}
	each(b, func(ctx context.Context) error {
		return gax.Invoke(ctx, func(ctx context.Context, _ gax.CallSettings) error {
			_, err := run(ctx, in)
			return err
		}, options...)
	})
}
