// Package recovery measures how fast a supervisor adopts operations that a killed
// process left in flight in an SQLite file, and looks them up with a verifier that
// answers at once. Beside it, in the same run, it measures the bare driver: as many
// single-row updates, in transactions of as many as the supervisor works on at once.
package recovery

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // the driver

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

// Result is what was measured.
type Result struct {
	Took             time.Duration // all of them
	Rate, Bare       float64       // operations and bare updates a second
	HeapBefore, Heap uint64        // bytes in use, before and at the peak
}

// Measure leaves n operations in flight and has workers adopt them.
func Measure(ctx context.Context, n, workers int) (Result, error) {
	dir, err := os.MkdirTemp("", "recovery")
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	got, err := adopt(ctx, filepath.Join(dir, "records.db"), n, workers)
	if err != nil {
		return Result{}, err
	}
	got.Bare, err = bareUpdates(ctx, filepath.Join(dir, "bare.db"), n, workers)
	return got, err
}

func adopt(ctx context.Context, file string, n, workers int) (Result, error) {
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return Result{}, err
	}
	defer db.Close()
	store, err := sqlstore.Open(ctx, db, sqlstore.SQLite, sqlstore.Options{})
	if err != nil {
		return Result{}, err
	}
	defer store.Close()
	if err := leave(ctx, store, n); err != nil {
		return Result{}, err
	}
	x := toolexec.Executor{Store: store}
	bind(&x)
	got := Result{HeapBefore: heap()}
	stop := watchHeap(&got.Heap)
	began := time.Now()
	report, err := (&toolexec.Supervisor{Executor: &x, Workers: workers}).Recover(ctx)
	got.Took = time.Since(began)
	stop()
	if err == nil && report.Settled != n {
		err = fmt.Errorf("%d of %d were settled: %+v", report.Settled, n, report)
	}
	got.Rate = float64(n) / got.Took.Seconds()
	return got, err
}

type input struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}

type receipt struct {
	ID string `json:"id"`
}

// savers fill the store at once, so that it groups what they save.
const savers = 64

// leave fills the store with what calls leave that are cut off: the owner's lease
// is over as soon as it is granted.
func leave(ctx context.Context, store *sqlstore.Store, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(savers)
	for i := range n {
		group.Go(func() error {
			raw, _ := json.Marshal(input{OrderID: "ORD-" + strconv.Itoa(i), Cents: 8000}) // plain data
			_, err := store.Save(ctx, toolexec.Record{
				Key: toolexec.Key{Ref: fmt.Sprintf("run/step_%07d", i)}, Tool: "refund", State: toolexec.StateInFlight,
				Owner: "dead", Nonce: strconv.Itoa(i), Attempts: 1, Arguments: raw, LeaseUntil: toolexec.In(-time.Hour),
			})
			return err
		})
	}
	return group.Wait()
}

func bind(x *toolexec.Executor) {
	toolexec.Bind(x, toolexec.Tool[input, receipt]{
		Name: "refund",
		Run:  func(context.Context, input) (receipt, error) { panic("nothing is to be run again") },
		Verify: &toolexec.Verifier[input, receipt]{
			Authoritative: true,
			Lookup: func(_ context.Context, ref string, _ input) (toolexec.Finding[receipt], error) {
				return toolexec.Found(receipt{ID: ref}), nil
			},
		},
	})
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// watchHeap samples the heap into peak until it is stopped.
func watchHeap(peak *uint64) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			*peak = max(*peak, m.HeapInuse)
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() { close(done); <-ended }
}

// bareUpdates returns how many single-row updates the driver does a second.
func bareUpdates(ctx context.Context, file string, n, batch int) (float64, error) {
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // the pragmas are a connection's
	for _, q := range []string{"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)"} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return 0, err
		}
	}
	body := string(make([]byte, 600))
	if _, err := db.ExecContext(ctx, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x < ?) INSERT INTO t SELECT x, ? FROM c", n, body); err != nil {
		return 0, err
	}
	began := time.Now()
	for i := 0; i < n; i += batch {
		if err := updates(ctx, db, body, i+1, min(i+batch, n)); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// updates are those of a batch, in one transaction.
func updates(ctx context.Context, db *sql.DB, body string, first, last int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for id := first; id <= last; id++ {
		if _, err := tx.ExecContext(ctx, "UPDATE t SET body = ? WHERE id = ?", body, id); err != nil {
			return err
		}
	}
	return tx.Commit()
}
