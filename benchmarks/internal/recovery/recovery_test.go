package recovery_test

import (
	"context"
	"errors"
	"testing"

	"github.com/toolexec/toolexec/benchmarks/internal/recovery"
)

// Measure fails if one operation is not adopted.
func TestMeasure(t *testing.T) {
	got, err := recovery.Measure(t.Context(), 300, 8)
	if err != nil {
		t.Fatal(err)
	}
	if got.Took <= 0 || got.Rate <= 0 || got.Bare <= 0 || got.HeapBefore == 0 || got.Heap == 0 {
		t.Errorf("got %+v", got)
	}
}

func TestMeasureEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := recovery.Measure(ctx, 300, 8); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
