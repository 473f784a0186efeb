package toolexec

import (
	"fmt"
	"math"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Internal, because a pause of years cannot be waited for, and a draw of the random source is chosen here.

func takePauses(b Backoff, n int, random func(int64) int64) (out []time.Duration) {
	p := b.pauses()
	p.random = random
	for range n {
		out = append(out, p.next())
	}
	return out
}

func TestBackoffSequences(t *testing.T) {
	ms := func(list ...int64) (out []time.Duration) {
		for _, n := range list {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	for name, row := range map[string]struct {
		b    Backoff
		want []time.Duration
	}{
		"documented":       {Backoff{}, ms(500, 1000, 2000, 4000, 8000, 16000, 30000, 30000)},
		"own":              {Backoff{Initial: 10 * time.Millisecond, Max: 200 * time.Millisecond, Multiplier: 3}, ms(10, 30, 90, 200, 200)},
		"constant":         {Backoff{Multiplier: 1}, ms(500, 500, 500)},
		"shrinking":        {Backoff{Multiplier: 0.5}, ms(500, 500, 500)},
		"negative factor":  {Backoff{Multiplier: -2}, ms(500, 500)},
		"not a number":     {Backoff{Multiplier: math.NaN(), Jitter: math.NaN()}, ms(500, 500)},
		"infinite factor":  {Backoff{Multiplier: math.Inf(1)}, ms(500, 30000, 30000)},
		"none":             {Backoff{Initial: -1}, ms(0, 0, 0)},
		"above the cap":    {Backoff{Initial: time.Hour}, ms(30000, 30000)},
		"no cap":           {Backoff{Initial: time.Hour, Max: -1, Multiplier: 1000}, []time.Duration{time.Hour, 1000 * time.Hour, 1000000 * time.Hour, math.MaxInt64, math.MaxInt64}},
		"largest duration": {Backoff{Initial: math.MaxInt64, Max: math.MaxInt64}, []time.Duration{math.MaxInt64, math.MaxInt64}},
		"smallest":         {Backoff{Initial: 1, Max: 3}, []time.Duration{1, 2, 3, 3}},
		"negative jitter":  {Backoff{Jitter: -1}, ms(500, 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, takePauses(row.b, len(row.want), nil))
		})
	}
}

func TestBackoffJitterComesOffAndNeverBelowZero(t *testing.T) {
	most := func(n int64) int64 { return n - 1 }
	none := func(int64) int64 { return 0 }
	for _, jitter := range []float64{0.1, 0.5, 1, 7, math.Inf(1)} {
		for _, initial := range []time.Duration{1, time.Second, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64} {
			for _, longest := range []time.Duration{0, -1, 1, time.Minute} {
				b := Backoff{Initial: initial, Max: longest, Jitter: jitter}
				full := takePauses(Backoff{Initial: initial, Max: longest}, 5, nil)
				assert.Equal(t, full, takePauses(b, 5, none), "the least that is drawn: %+v", b)
				for i, d := range takePauses(b, 5, most) {
					share := min(jitter, 1)
					assert.GreaterOrEqual(t, d, time.Duration(0), "%+v", b)
					assert.LessOrEqual(t, d, full[i])
					assert.GreaterOrEqual(t, float64(d), (1-share)*float64(full[i])*0.999-1, "%+v", b)
				}
			}
		}
	}
}

func TestBackoffIsSharedByConcurrentSequences(t *testing.T) {
	b := Backoff{Jitter: 1}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				for i, d := range takePauses(b, 8, nil) {
					assert.LessOrEqual(t, d, min(500*time.Millisecond<<i, 30*time.Second))
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, Backoff{Jitter: 1}, b)
}

// FuzzDelays: whatever the settings and the draws, a pause is within [0, Max], and none is shorter than the
// one before by more than jitter allows.
func FuzzDelays(f *testing.F) {
	f.Add(int64(0), int64(0), 0.0, 0.0, int64(0))
	f.Add(int64(time.Second), int64(-1), 2.0, 1.0, int64(7))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), math.Inf(1), math.NaN(), int64(math.MaxInt64))
	f.Add(int64(math.MinInt64), int64(math.MinInt64), math.NaN(), math.Inf(-1), int64(-1))
	f.Add(int64(math.MaxInt64-608), int64(-30), -22.0, 0.9999999, int64(math.MaxInt64-1))
	f.Add(int64(math.MaxInt64-511), int64(-1), 1.0000001, 0.9999999, int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, initial, limit int64, multiplier, jitter float64, draw int64) {
		b := Backoff{Initial: time.Duration(initial), Max: time.Duration(limit), Multiplier: multiplier, Jitter: jitter}
		random := func(n int64) int64 {
			if n <= 0 {
				t.Fatalf("a draw of [0, %d)", n)
			}
			return int64(uint64(draw) % uint64(n))
		}
		top := b.Max
		switch {
		case top == 0:
			top = DefaultMaxBackoff
		case top < 0:
			top = math.MaxInt64
		}
		var last time.Duration
		plain := b
		plain.Jitter = 0
		base := takePauses(plain, 70, nil)
		for i, d := range takePauses(b, 70, random) {
			rounding := last / (1 << 50) // the sequence is computed in float64
			if d < 0 || d > top || d > base[i] || base[i] < last-rounding {
				t.Fatalf("pause %d is %v of %v after %v, top %v: %+v", i, d, base[i], last, top, b)
			}
			last = base[i]
		}
	})
}

// TestPolicyFieldsInherit sets each field by itself, so that a new one cannot be forgotten.
func TestPolicyFieldsInherit(t *testing.T) {
	var visit func(v reflect.Value, path string, set func(p *Policy) reflect.Value)
	visit = func(v reflect.Value, path string, at func(p *Policy) reflect.Value) {
		for i := range v.NumField() {
			name := path + v.Type().Field(i).Name
			field := func(p *Policy) reflect.Value { return at(p).Field(i) }
			if v.Field(i).Kind() == reflect.Struct {
				visit(v.Field(i), name+".", field)
				continue
			}
			t.Run(name, func(t *testing.T) {
				put := func(n int) (p Policy) {
					if f := field(&p); f.CanFloat() {
						f.SetFloat(float64(n))
					} else {
						f.SetInt(int64(n))
					}
					return p
				}
				get := func(p Policy) string {
					if f := field(&p); f.CanInt() {
						return fmt.Sprint(f.Int())
					}
					return fmt.Sprint(field(&p).Float())
				}
				assert.Equal(t, "7", get(Policy{}.over(put(7)).over(defaultPolicy)), "zero inherits")
				assert.Equal(t, "3", get(put(3).over(put(7))), "its own counts")
				assert.Equal(t, "-1", get(put(-1).over(put(7))), "negative is no zero")
				assert.Equal(t, "-1", get(Policy{}.over(put(-1)).over(defaultPolicy)), "and is inherited")
				assert.Equal(t, get(defaultPolicy), get(Policy{}.over(Policy{}).over(defaultPolicy)))
			})
		}
	}
	visit(reflect.ValueOf(Policy{}), "", func(p *Policy) reflect.Value { return reflect.ValueOf(p).Elem() })
}

func TestMayRetry(t *testing.T) {
	for _, class := range []Class{ClassPermanent, ClassTransient, ClassEmptyResult, ClassMalformed, ClassUnknownTool, "new"} {
		for _, state := range []CommitState{NotCommitted, CommitUnknown, Committed, "new"} {
			for _, effect := range []Effect{Write, Idempotent, ReadOnly, "new"} {
				want := class == ClassTransient && (effect == ReadOnly || state == NotCommitted || effect == Idempotent && state == CommitUnknown)
				if effect == Idempotent && state == "new" {
					continue // it never is; the zero value stands for what is not known
				}
				assert.Equal(t, want, mayRetry(effect, &Failure{Class: class}, state), "%s %s %s", effect, class, state)
			}
		}
	}
}
