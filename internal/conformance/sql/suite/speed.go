package suite

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/internal/conformance/sql/bench"
	"github.com/toolexec/toolexec/sqlstore"
)

var (
	speed   = flag.Bool("speed", false, "compare with bare statements")
	seconds = flag.Duration("for", time.Second, "how long each measurement of -speed takes")
	records = flag.Int("records", 0, "compare an empty table with one of so many records instead")
	rounds  = flag.Int("rounds", 5, "how often each is taken")
)

// Speed compares a store with the bare statements of its driver, one commit a
// statement.
func Speed(t *testing.T, e Engine) {
	if !*speed {
		t.Skip("run with -speed, when the machine has nothing else to do")
	}
	if *records > 0 {
		scale(t, e)
		return
	}
	place := e.New(t)
	bareDB := place.Open(t)
	if e.Dialect == sqlstore.SQLite {
		bareDB.SetMaxOpenConns(1)
		for _, pragma := range []string{"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"} {
			_, err := bareDB.ExecContext(t.Context(), pragma)
			require.NoError(t, err)
		}
	}
	bare, err := bench.Bare(t.Context(), bareDB, e.Dialect)
	require.NoError(t, err)
	s := e.OpenOn(t, e.Pool(t), sqlstore.Options{})
	require.NoError(t, bench.Compare(context.Background(), t.Output(), []bench.Contestant{
		{Name: "bare", Do: bare}, {Name: "sqlstore", Do: bench.Store(s)},
	}, []int{1, 16, 64}, *rounds, *seconds))
}

// scale compares a small table with a large one.
func scale(t *testing.T, e Engine) {
	small, large := e.New(t).Open(t), e.New(t).Open(t)
	few, many := e.OpenOn(t, small, sqlstore.Options{}), e.OpenOn(t, large, sqlstore.Options{})
	fill(t, e, small, few, 1000)
	fill(t, e, large, many, *records)
	e.analyse(t, small)
	e.analyse(t, large)
	require.NoError(t, bench.Compare(context.Background(), t.Output(), []bench.Contestant{
		{Name: "1000 records", Do: bench.Store(few)}, {Name: fmt.Sprint(*records, " records"), Do: bench.Store(many)},
	}, []int{1, 32}, *rounds, *seconds))
	// What a supervisor asks again and again.
	due := func(s *sqlstore.Store) bench.Contestant {
		return bench.Contestant{Name: "due", Do: func(ctx context.Context, _ string) error {
			_, _, err := s.List(ctx, toolexec.Query{DueBefore: toolexec.In(0)})
			return err
		}}
	}
	one, other := due(few), due(many)
	other.Name = "due of many"
	require.NoError(t, bench.Compare(context.Background(), t.Output(), []bench.Contestant{one, other}, []int{1}, *rounds, *seconds))
}
