// Command recovery leaves operations in flight in an SQLite file, as a process
// that was killed does, and measures how fast a supervisor adopts them and looks
// them up with a verifier that answers at once (target D5):
//
//	cd benchmarks && go run ./recovery -n 100000
//
// Beside it, in the same run, the bare driver: as many single-row updates, in
// transactions of as many as the supervisor works on at once.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	_ "modernc.org/sqlite"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

func main() {
	n := flag.Int("n", 100_000, "operations that are left in flight")
	workers := flag.Int("workers", toolexec.DefaultRecoverWorkers, "how many are worked on at once")
	flag.Parse()
	if err := run(context.Background(), *n, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "recovery:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, n, workers int) error {
	dir, err := os.MkdirTemp("", "recovery")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", filepath.Join(dir, "records.db"))
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := sqlstore.Open(ctx, db, sqlstore.SQLite, sqlstore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	if err := leave(ctx, store, n); err != nil {
		return err
	}
	x := toolexec.Executor{Store: store}
	bind(&x)
	before := heap()
	peak, stop := watchHeap()
	began := time.Now()
	got, err := (&toolexec.Supervisor{Executor: &x, Workers: workers}).Recover(ctx)
	took := time.Since(began)
	stop()
	if err != nil {
		return err
	}
	if got.Settled != n {
		return fmt.Errorf("%d of %d were settled: %+v", got.Settled, n, got)
	}
	bare, err := bareUpdates(ctx, filepath.Join(dir, "bare.db"), n, workers)
	if err != nil {
		return err
	}
	rate := float64(n) / took.Seconds()
	fmt.Printf("%d operations adopted and verified in %s: %.0f/s, %.2f x the bare driver (%.0f single-row updates/s, %d a commit, FULL)\n",
		n, took.Round(time.Millisecond), rate, rate/bare, bare, workers)
	fmt.Printf("heap in use: %d MiB before, %d MiB at its peak\n", before>>20, peak()>>20)
	return nil
}

type input struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}

type receipt struct {
	ID string `json:"id"`
}

// leave fills the store through calls that are cut off: the owner's lease is
// over as soon as it is granted.
func leave(ctx context.Context, store *sqlstore.Store, n int) error {
	jobs := make(chan int)
	errs := make(chan error, 64)
	var wg sync.WaitGroup
	for range cap(errs) {
		wg.Go(func() {
			for i := range jobs {
				raw, _ := json.Marshal(input{OrderID: "ORD-" + strconv.Itoa(i), Cents: 8000}) // plain data
				_, err := store.Save(ctx, toolexec.Record{
					Key: toolexec.Key{Ref: fmt.Sprintf("run/step_%07d", i)}, Tool: "refund", State: toolexec.StateInFlight,
					Owner: "dead", Nonce: strconv.Itoa(i), Attempts: 1, Arguments: raw, LeaseUntil: toolexec.In(-time.Hour),
				})
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for i := range n {
		select {
		case jobs <- i:
		case err := <-errs:
			return err
		}
	}
	close(jobs)
	wg.Wait()
	return nil
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

// watchHeap samples the heap until it is stopped.
func watchHeap() (peak func() uint64, stop func()) {
	var high uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			high = max(high, m.HeapInuse)
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() uint64 { return high }, func() { close(done); <-ended }
}

// bareUpdates returns how many single-row updates the driver does a second.
func bareUpdates(ctx context.Context, file string, n, batch int) (float64, error) {
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
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
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		for j := i; j < min(i+batch, n); j++ {
			if _, err := tx.ExecContext(ctx, "UPDATE t SET body = ? WHERE id = ?", body, j+1); err != nil {
				return 0, err
			}
		}
		if err := tx.Commit(); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}
