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
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/benchmarks/internal/recovery"
)

func main() {
	n := flag.Int("n", 100_000, "operations that are left in flight")
	workers := flag.Int("workers", toolexec.DefaultRecoverWorkers, "how many are worked on at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *n, *workers)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "recovery:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, n, workers int) error {
	got, err := recovery.Measure(ctx, n, workers)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%d operations adopted and verified in %s: %.0f/s, %.2f x the bare driver (%.0f single-row updates/s, %d a commit, FULL)\n"+
		"heap in use: %d MiB before, %d MiB at its peak\n",
		n, got.Took.Round(time.Millisecond), got.Rate, got.Rate/got.Bare, got.Bare, workers, got.HeapBefore>>20, got.Heap>>20)
	return err
}
