package toolexec

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// The documented defaults of a Policy.
const (
	DefaultDeadline       = 2 * time.Second
	DefaultTotalDeadline  = 10 * time.Second
	DefaultMaxRetries     = 2
	DefaultMaxAttempts    = 9
	DefaultMaxPause       = 5 * time.Second
	DefaultMaxCorrections = 1
	DefaultMaxAbandoned   = 8
	DefaultMaxAbandon     = 5 * time.Minute
	DefaultMaxRepeats     = 3
	DefaultInitialPause   = 500 * time.Millisecond
	DefaultMaxBackoff     = 30 * time.Second

	leaseMargin   = 5 * time.Second
	maxLease      = time.Hour // of a longer call the heartbeat extends it
	maxRetryAfter = 24 * time.Hour
)

// Policy bounds the attempts of a call. It is a plain value, never written by
// the library, and may be shared. In every field zero inherits (a tool's from
// its executor's, the executor's from the documented default), those of Backoff
// one by one; a negative value turns the bound off, or the number to zero.
type Policy struct {
	// Deadline bounds each attempt. Default 2 s; negative: none.
	Deadline time.Duration
	// TotalDeadline bounds the call with all its attempts and pauses; the
	// caller's own deadline counts when it is earlier. Default 10 s; negative:
	// none.
	TotalDeadline time.Duration
	// MaxRetries is how many attempts may follow the first within one call.
	// Default 2; negative: none.
	MaxRetries int
	// MaxAttempts is how often an operation may be dispatched in its life, over
	// all calls and processes. Default 9; negative: no bound.
	MaxAttempts int
	// MaxPause is the longest pause that is slept within a call; a longer one is
	// left to the caller as Retry.NotBefore. Default 5 s; negative: none is slept.
	MaxPause time.Duration
	// MaxCorrections is how often a rejected operation may be run again with a
	// changed input. Default 1; negative: never.
	MaxCorrections int
	// MaxAbandoned bounds the attempts of one tool that outlived their deadline
	// and still run; at the bound further calls get TOOL_BUSY and send nothing.
	// Default 8; negative: no bound.
	MaxAbandoned int
	// MaxAbandon is how long such an attempt may live before its operation is
	// escalated. Default 5 min; negative: for ever.
	MaxAbandon time.Duration
	// MaxRepeats is how often, within one run, a call that was answered with
	// never or after_input_fix may be repeated unchanged before it is
	// escalated. Default 3; negative: at the first repeat.
	MaxRepeats int
	// Backoff says how long the pauses between attempts are.
	Backoff Backoff
}

// Backoff is the sequence of pauses: Initial, then each Multiplier times the
// one before, never above Max, never negative. The zero Backoff is 0.5 s, 1 s,
// 2 s … up to 30 s, without jitter, so that a trace reads as documented.
type Backoff struct {
	// Initial is the first pause. Default 0.5 s; negative: no pauses at all.
	Initial time.Duration
	// Max caps each pause. Default 30 s; negative: no cap.
	Max time.Duration
	// Multiplier of at least 1. Default 2; anything below 1 and NaN count as 1.
	Multiplier float64
	// Jitter between 0 and 1 is the part of a pause that is drawn at random and
	// taken off: 1 is full jitter (AWS Architecture Blog, "Exponential Backoff
	// and Jitter"). It never lengthens a pause.
	Jitter float64
}

// over returns p with its zero fields taken from base.
func (p Policy) over(base Policy) Policy {
	inherit(&p.Deadline, base.Deadline)
	inherit(&p.TotalDeadline, base.TotalDeadline)
	inherit(&p.MaxRetries, base.MaxRetries)
	inherit(&p.MaxAttempts, base.MaxAttempts)
	inherit(&p.MaxPause, base.MaxPause)
	inherit(&p.MaxCorrections, base.MaxCorrections)
	inherit(&p.MaxAbandoned, base.MaxAbandoned)
	inherit(&p.MaxAbandon, base.MaxAbandon)
	inherit(&p.MaxRepeats, base.MaxRepeats)
	p.Backoff = p.Backoff.over(base.Backoff)
	return p
}

func (b Backoff) over(base Backoff) Backoff {
	inherit(&b.Initial, base.Initial)
	inherit(&b.Max, base.Max)
	inherit(&b.Multiplier, base.Multiplier)
	inherit(&b.Jitter, base.Jitter)
	return b
}

func inherit[V comparable](p *V, base V) {
	var zero V
	if *p == zero {
		*p = base
	}
}

var defaultPolicy = Policy{
	Deadline: DefaultDeadline, TotalDeadline: DefaultTotalDeadline, MaxRetries: DefaultMaxRetries,
	MaxAttempts: DefaultMaxAttempts, MaxPause: DefaultMaxPause, MaxCorrections: DefaultMaxCorrections,
	MaxAbandoned: DefaultMaxAbandoned, MaxAbandon: DefaultMaxAbandon, MaxRepeats: DefaultMaxRepeats,
	Backoff: Backoff{Initial: DefaultInitialPause, Max: DefaultMaxBackoff, Multiplier: 2},
}

// lifetime is MaxAttempts as a count.
func (p *Policy) lifetime() int {
	if p.MaxAttempts < 0 {
		return math.MaxInt
	}
	return p.MaxAttempts
}

// lease is how long an ownership may last: as long as the call, and a margin
// for storing its end.
func (p *Policy) lease() time.Duration {
	if p.TotalDeadline < 0 {
		return DefaultTotalDeadline + leaseMargin
	}
	return min(p.TotalDeadline, maxLease) + leaseMargin
}

// pauses is the sequence of one call: a value on its stack that nobody shares.
// It is made when the first pause is asked for; most calls ask for none.
//
// The sequence comes from backoff/v4, without its own jitter, which exceeds the
// cap in half its draws and turns negative near the largest duration, and
// without its Retry, which judges by the error alone. Jitter comes off before
// the cap applies again here.
type pauses struct {
	made     bool
	settings Backoff
	sequence backoff.ExponentialBackOff
	random   func(int64) int64 // nil: the global source
}

func (b Backoff) pauses() pauses { return pauses{settings: b} }

func (p *pauses) make() {
	b := p.settings.sane()
	p.made, p.settings = true, b
	p.sequence = backoff.ExponentialBackOff{
		InitialInterval: b.Initial, Multiplier: b.Multiplier, MaxInterval: b.Max,
		Stop: backoff.Stop, Clock: stopped{}, // a literal without a clock panics
	}
	p.sequence.Reset()
}

// stopped is a clock for a sequence that has no end in time, and need not read
// one twice a pause.
type stopped struct{}

func (stopped) Now() time.Time { return time.Time{} }

// next returns the next pause: never negative, never above Max.
func (p *pauses) next() time.Duration {
	if !p.made {
		p.make()
	}
	if p.settings.Initial == 0 {
		return 0
	}
	d := p.sequence.NextBackOff()
	return clamp(d-p.settings.jitterOf(d, p.random), 0, p.settings.Max)
}

// jitterOf returns what is taken off d.
func (b Backoff) jitterOf(d time.Duration, random func(int64) int64) time.Duration {
	span := int64(b.Jitter * float64(d))
	if span <= 0 {
		return 0
	}
	if span > int64(d) { // float64 rounds up near the largest duration
		span = int64(d)
	}
	if random == nil {
		random = rand.Int64N
	}
	return time.Duration(random(span))
}

// sane returns settings that backoff/v4 can take: Initial at most Max, a
// multiplier of at least 1, a jitter within [0, 1].
func (b Backoff) sane() Backoff {
	b = b.over(defaultPolicy.Backoff)
	if b.Max < 0 {
		b.Max = math.MaxInt64
	}
	b.Initial = clamp(b.Initial, 0, b.Max)
	if !(b.Multiplier >= 1) { // also NaN
		b.Multiplier = 1
	}
	b.Multiplier = min(b.Multiplier, 1e6)
	if !(b.Jitter >= 0) {
		b.Jitter = 0
	}
	b.Jitter = min(b.Jitter, 1)
	return b
}

func clamp(d, lo, hi time.Duration) time.Duration { return min(max(d, lo), hi) }

// mayRetry answers both questions at once: is another attempt useful, and
// is it allowed?
//
//	useful   the class is transient, and retries and lifetime budget are left
//	allowed  nothing can have happened, or the remote side deduplicates by ref
func mayRetry(effect Effect, f *Failure, state CommitState) bool {
	if f.Class != ClassTransient {
		return false
	}
	switch effect {
	case ReadOnly:
		return true
	case Idempotent:
		return state == NotCommitted || state == CommitUnknown && f.Code != CodeOperationPending
	}
	return state == NotCommitted
}
