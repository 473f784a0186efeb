package toolexec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Calls read the clock before they ask, so the bucket meets readings in any order. An older one takes a token like any other and
// moves no time back, which would bring tokens twice.
func TestRetryTokensMeetAnOlderReading(t *testing.T) {
	b := RetryBudget{Burst: 3, PerSecond: 1}
	var bucket retryTokens
	now := time.Now()
	for _, at := range []time.Duration{10 * time.Second, 0, 5 * time.Second} {
		assert.True(t, bucket.take(b, now.Add(at)))
	}
	assert.False(t, bucket.take(b, now.Add(10*time.Second)))
	assert.False(t, bucket.take(b, now))
	assert.True(t, bucket.take(b, now.Add(11*time.Second)))
	assert.False(t, bucket.take(b, now.Add(11*time.Second)))
}
