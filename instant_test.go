package toolexec_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolexec/toolexec"
)

func TestInstantKeepsWhatInWasGiven(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, d := range []time.Duration{math.MinInt64, -time.Hour, -2, -1, 0, 1, 2, time.Hour, math.MaxInt64 - 1} {
		i := toolexec.In(d)
		assert.False(t, i.IsZero(), d)
		assert.Equal(t, "in "+d.String(), i.String())
		assert.True(t, i.Time().IsZero(), "a relative moment has no time yet: %s", d)
		assert.Equal(t, toolexec.At(now.Add(d)), i.Resolve(now), d)
		_, err := i.MarshalJSON()
		assert.Error(t, err, d)
	}
	assert.Equal(t, toolexec.In(math.MaxInt64-1), toolexec.In(math.MaxInt64), "292 years are not told from 292 years and a nanosecond")
}

func TestInstantNone(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, i := range []toolexec.Instant{{}, toolexec.At(time.Time{})} {
		assert.True(t, i.IsZero())
		assert.Equal(t, "none", i.String())
		assert.Equal(t, i, i.Resolve(now), "none stays none")
	}
}
