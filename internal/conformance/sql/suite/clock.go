package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

// Clock checks that a store's clock is the database's, which shows about
// another time than this process's.
func Clock(t *testing.T, e Engine, shows time.Time) {
	t.Run("conformance", func(t *testing.T) { Conform(t, e) })
	s := e.Open(t, sqlstore.Options{})
	r := record("op")
	r.History = []toolexec.HistoryEntry{{At: toolexec.In(-time.Hour)}}
	for range 2 {
		r = save(t, s, r)
		for _, got := range []toolexec.Record{r, load(t, s, "op")} {
			assert.WithinDuration(t, shows, got.Now, time.Hour)
			assert.WithinDuration(t, shows, got.UpdatedAt.Time(), time.Hour)
			assert.WithinDuration(t, shows, got.CreatedAt.Time(), time.Hour)
			assert.Equal(t, time.Minute, got.LeaseUntil.Time().Sub(got.CreatedAt.Time()))
			assert.Equal(t, -time.Hour, got.History[0].At.Time().Sub(got.CreatedAt.Time()))
		}
	}
	for in, want := range map[time.Duration]int{0: 0, 2 * time.Hour: 1} {
		page, _, err := s.List(t.Context(), toolexec.Query{DueBefore: toolexec.In(in)})
		require.NoError(t, err)
		assert.Len(t, page, want)
	}
}
