package canonical

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReleasedFrameHoldsNothing: what is pooled must not keep arguments.
func TestReleasedFrameHoldsNothing(t *testing.T) {
	for name, args := range map[string]string{
		"fits":            `{"card":"4111 1111 1111 1111","\u0070in":"1234"}`,
		"outgrows":        `{"notes":"` + strings.Repeat("secret ", 200) + `","list":[` + strings.Repeat(`{"a":1,"b":2},`, 20) + `1]}`,
		"is refused late": `{"card":"4111 1111 1111 1111","card":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := borrow()
			s := f.scanner([]byte(args))
			_ = s.run(nil, Limits{})
			require.NotEqual(t, frame{}, *f, "the scan has used it")
			f.release()
			assert.Equal(t, frame{}, *f)
		})
	}
}

// TestFramesAreNotShared: scans at the same time have a frame each, and an argument of any size leaves the next scan as it was.
func TestFramesAreNotShared(t *testing.T) {
	large := `{"z":"` + strings.Repeat("x", 4096) + `","a":[1,2,3]}`
	want := map[string][32]byte{}
	for _, args := range []string{`{"b":1,"a":2}`, `{}`, large} {
		sum, err := Sum("tool", []byte(args), Exclusions{}, Limits{})
		require.NoError(t, err)
		want[args] = sum
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				for args, sum := range want {
					got, err := Sum("tool", []byte(args), Exclusions{}, Limits{})
					assert.NoError(t, err)
					assert.Equal(t, sum, got)
					assert.Error(t, Check([]byte(`{"a":1,"a":2}`), Limits{}))
				}
			}
		})
	}
	wg.Wait()
}
