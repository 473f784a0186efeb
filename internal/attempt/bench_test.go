package attempt_test

import (
	"context"
	"testing"
	"time"

	"github.com/toolexec/toolexec/internal/attempt"
)

const benchDeadline = 2 * time.Second

// bare is an attempt as the root package makes it: one struct, one allocation.
type bare struct {
	attempt.Context
	n int
}

func (t *bare) Run(context.Context)    { t.n++ }
func (t *bare) Late(attempt.Result)    {}
func newBare(d time.Duration) *bare    { return initBare(context.Background(), d) }
func work(context.Context, *int) error { return nil }

func initBare(parent context.Context, d time.Duration) *bare {
	t := new(bare)
	t.Init(parent, time.Now().Add(d), nil, t)
	return t
}

// asking asks for Done, as a tool that makes a request does.
type asking struct{ bare }

func (t *asking) Run(ctx context.Context) { t.n++; _ = ctx.Done() }

func BenchmarkRun(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		t := newBare(benchDeadline)
		attempt.Run(&t.Context, time.Now(), t)
	}
}

func BenchmarkRunCancellableParent(b *testing.B) {
	parent := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		t := initBare(parent, benchDeadline)
		attempt.Run(&t.Context, time.Now(), t)
	}
}

func BenchmarkRunAsked(b *testing.B) {
	parent := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		t := new(asking)
		t.Init(parent, time.Now().Add(benchDeadline), nil, t)
		attempt.Run(&t.Context, time.Now(), t)
	}
}

func BenchmarkRunNoDeadline(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		t := new(bare)
		t.Init(context.Background(), time.Time{}, nil, t)
		attempt.Run(&t.Context, time.Now(), t)
	}
}

func BenchmarkInline(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		t := newBare(benchDeadline)
		attempt.Inline(&t.Context, t)
	}
}

func BenchmarkContain(b *testing.B) {
	n := 0
	f := func() { n++ }
	b.ReportAllocs()
	for b.Loop() {
		attempt.Contain(f)
	}
}

func BenchmarkPlainCall(b *testing.B) {
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		_ = work(context.Background(), &n)
	}
}

func BenchmarkPlainWithTimeout(b *testing.B) {
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithTimeout(context.Background(), benchDeadline)
		_ = work(ctx, &n)
		cancel()
	}
}

func BenchmarkPlainGoroutine(b *testing.B) {
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		done := make(chan error, 1)
		go func() { done <- work(context.Background(), &n) }()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlainEnforced(b *testing.B) {
	plainEnforced(b, context.Background())
}

func BenchmarkPlainEnforcedCancellableParent(b *testing.B) {
	plainEnforced(b, b.Context())
}

func plainEnforced(b *testing.B, parent context.Context) {
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithTimeout(parent, benchDeadline)
		done := make(chan error, 1)
		go func() { done <- work(ctx, &n) }()
		select {
		case err := <-done:
			if err != nil {
				b.Fatal(err)
			}
		case <-ctx.Done():
		}
		cancel()
	}
}
