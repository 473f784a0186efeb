package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolexec/toolexec/benchmarks/internal/measure"
)

// operation is a unit of work: its begin and its finish are each acknowledged by
// the database before it returns. ref is new each time.
type operation func(ctx context.Context, ref string) error

// input and receipt are of an ordinary size, as is what bare statements write.
type input struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
	Note    string `json:"note"`
}

type receipt struct {
	ID string `json:"id"`
}

var (
	order   = input{OrderID: "ORD-5510", Cents: 8000, Note: strings.Repeat("a", 60)}
	outcome = receipt{ID: strings.Repeat("r", 290)}

	orderJSON, _   = json.Marshal(order)   // plain data
	outcomeJSON, _ = json.Marshal(outcome) // plain data

	// record is as large as what the library writes beside arguments and result.
	record = strings.Repeat("d", 420)
)

var refs atomic.Int64

// newRef is spread over the index, as refs are that come from many runs.
func newRef() string {
	return fmt.Sprintf("op_%016x", uint64(refs.Add(1))*0x9E3779B97F4A7C15) //nolint:gosec // it counts up from 1
}

// rate has c callers do operations for d.
func rate(ctx context.Context, do operation, c int, d time.Duration) (measure.Sample, error) {
	var wg sync.WaitGroup
	var done atomic.Int64
	errs := make([]error, c)
	began := time.Now()
	for i := range c {
		wg.Go(func() {
			for time.Since(began) < d && errs[i] == nil {
				if errs[i] = do(ctx, newRef()); errs[i] == nil {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return measure.Sample{}, err
		}
	}
	n := int(done.Load())
	return measure.Sample{N: n, Ns: float64(time.Since(began)) / float64(max(n, 1))}, nil
}
