package toolexec

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"

	"github.com/toolexec/toolexec/internal/attempt"
)

// ExecuteAll runs the calls of one turn and returns one envelope per call, in
// their order, whatever happens to the siblings. Calls of tools that change
// something run one after the other, in call order, so that refs are claimed
// in that order; those that only read run beside them, eight at a time or twice
// GOMAXPROCS. The bound belongs to this call of ExecuteAll, so a tool may call
// ExecuteAll itself.
func (x *Executor) ExecuteAll(ctx context.Context, calls []Call) []Envelope[json.RawMessage] {
	out := make([]Envelope[json.RawMessage], len(calls))
	var reads, writes []int
	for i, c := range calls {
		if t := x.toolNamed(c.Name); t != nil && t.guarded() {
			writes = append(writes, i)
		} else {
			reads = append(reads, i)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, i := range writes {
			out[i] = x.isolated(ctx, calls[i])
		}
	})
	next := make(chan int)
	for range min(len(reads), batchReads()) {
		wg.Go(func() {
			for i := range next {
				out[i] = x.isolated(ctx, calls[i])
			}
		})
	}
	for _, i := range reads {
		next <- i
	}
	close(next)
	wg.Wait()
	return out
}

// batchReads bounds the reads of one batch that run at a time.
func batchReads() int { return max(8, 2*runtime.GOMAXPROCS(0)) }

// isolated runs one call so that a Goexit of a Cooperative tool ends its own
// goroutine only: the siblings, and this call, keep their envelopes.
func (x *Executor) isolated(ctx context.Context, req Call) Envelope[json.RawMessage] {
	if t := x.toolNamed(req.Name); t == nil || !t.cooperative {
		return x.Execute(ctx, req)
	}
	s, refused := x.prepare(ctx, req)
	if refused != nil {
		return *refused
	}
	c := s.core()
	var h head
	if attempt.Contain(func() { c.do(ctx, &h) }).End != attempt.Returned {
		h = c.exited()
	}
	return c.raw(h)
}

// exited answers a call whose goroutine was ended by its Cooperative tool.
func (c *call) exited() head {
	f := c.exitFailure()
	if c.operation == nil || c.session == nil {
		return c.failed(f, NotCommitted, 0, 0)
	}
	return c.ownFailure(outcome{fail: f}, !c.unstored)
}

// exitFailure is what the runtime.Goexit of a Cooperative tool means.
func (c *call) exitFailure() *Failure {
	f := &Failure{Code: CodeToolPanic, Err: errors.New("the tool ended its caller's goroutine")}
	f.complete()
	return f
}
