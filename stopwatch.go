package toolexec

import (
	"context"
	"math"
	"time"
)

// stopwatch is the clock of one call: it reads the wall clock once, at the
// start, and from then on only what has passed, which costs half as much. Only
// the caller's goroutine reads it on; what read does not write others may ask for.
type stopwatch struct {
	start time.Time
	spent time.Duration // until the last reading
	total time.Duration // from the start to the total deadline; unbounded: none
}

// unbounded is longer than any call.
const unbounded time.Duration = math.MaxInt64

// begin starts the watch, with the total deadline of a policy (none unless
// positive) or the caller's, whichever is earlier.
func (w *stopwatch) begin(caller context.Context, total time.Duration) {
	*w = stopwatch{start: time.Now(), total: unbounded}
	if total > 0 {
		w.total = total
	}
	if d, ok := caller.Deadline(); ok {
		w.total = max(min(w.total, d.Sub(w.start)), 0)
	}
}

// read brings the watch up to date.
func (w *stopwatch) read() { w.spent = time.Since(w.start) }

// now is the time of the last reading.
func (w *stopwatch) now() time.Time {
	if w.spent == 0 {
		return w.start
	}
	return w.start.Add(w.spent)
}

// left is what is left of the total deadline.
func (w *stopwatch) left() time.Duration {
	if w.total == unbounded {
		return unbounded
	}
	return w.total - time.Since(w.start)
}

// leftThen is what was left at the last reading.
func (w *stopwatch) leftThen() time.Duration {
	if w.total == unbounded {
		return unbounded
	}
	return w.total - w.spent
}

// end is the total deadline, zero for none.
func (w *stopwatch) end() time.Time {
	if w.total == unbounded {
		return time.Time{}
	}
	return w.start.Add(w.total)
}

// over reports whether the total deadline had passed at the last reading.
func (w *stopwatch) over() bool { return w.leftThen() <= 0 }

// deadline is when something ends that started at the last reading and may take
// d (no bound unless positive), or the total deadline; zero for never.
func (w *stopwatch) deadline(d time.Duration) time.Time {
	left := w.leftThen()
	if d > 0 {
		left = min(left, d)
	}
	if left >= unbounded-w.spent {
		return time.Time{}
	}
	return w.start.Add(w.spent + left)
}
