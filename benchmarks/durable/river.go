package durable

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/toolexec/toolexec/benchmarks/internal/measure"
)

// job is the refund as a job.
type job struct {
	Ref string `json:"ref"`
	input
}

// Kind implements river.JobArgs.
func (job) Kind() string { return "process_refund" }

// worker records the outcome.
type worker struct {
	river.WorkerDefaults[job]

	done atomic.Int64
}

// Work implements river.Worker.
func (w *worker) Work(ctx context.Context, _ *river.Job[job]) error {
	defer w.done.Add(1)
	return river.RecordOutput(ctx, outcome)
}

// riverConns is more than pgx's default, which is four.
const riverConns = 16

// queue is River on a database.
type queue struct {
	pool   *pgxpool.Pool
	worker *worker
}

func newQueue(ctx context.Context, d *database) (*queue, error) {
	config, err := pgxpool.ParseConfig(d.dsn)
	if err != nil {
		return nil, err
	}
	config.MaxConns = riverConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &queue{pool, new(worker)}, nil
}

// client works on a queue of that name, with River's defaults but for what is
// given.
func (q *queue) client(name string, c river.Config, mostWorkers int) (*river.Client[pgx.Tx], error) {
	c.Workers, c.Logger = river.NewWorkers(), slog.New(slog.DiscardHandler)
	c.Queues = map[string]river.QueueConfig{name: {MaxWorkers: mostWorkers}}
	river.AddWorker(c.Workers, q.worker)
	return river.NewClient(riverpgxv5.New(q.pool), &c)
}

// start returns a job that is inserted and waited for.
func (q *queue) start(ctx context.Context) (do operation, stop func(), err error) {
	client, err := q.client(river.QueueDefault, river.Config{}, 100)
	if err != nil {
		return nil, nil, err
	}
	var waiting sync.Map // from ref to chan error
	ended, unsubscribe := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed)
	go func() {
		for e := range ended {
			var j job
			if json.Unmarshal(e.Job.EncodedArgs, &j) != nil {
				continue
			}
			if c, ok := waiting.LoadAndDelete(j.Ref); ok {
				var failed error
				if e.Kind == river.EventKindJobFailed {
					failed = errors.New("the job failed")
				}
				c.(chan error) <- failed //nolint:forcetypeassert // see above
			}
		}
	}()
	if err := client.Start(ctx); err != nil {
		unsubscribe()
		return nil, nil, err
	}
	return func(ctx context.Context, ref string) error {
			done := make(chan error, 1)
			waiting.Store(ref, done)
			if _, err := client.Insert(ctx, job{ref, order}, nil); err != nil {
				return err
			}
			select {
			case err := <-done:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}, func() {
			_ = client.Stop(context.WithoutCancel(ctx))
			unsubscribe()
		}, nil
}

// drain has n jobs waiting, and measures until all were worked on and are
// completed.
func (q *queue) drain(ctx context.Context, n int) (measure.Sample, error) {
	client, err := q.client("drain", river.Config{FetchCooldown: river.FetchCooldownMin}, 1_000)
	if err != nil {
		return measure.Sample{}, err
	}
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i] = river.InsertManyParams{Args: job{newRef(), order}, InsertOpts: &river.InsertOpts{Queue: "drain"}}
	}
	if _, err := client.InsertManyFast(ctx, jobs); err != nil {
		return measure.Sample{}, err
	}
	q.worker.done.Store(0)
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return measure.Sample{}, err
	}
	for left := n; left > 0 && err == nil; {
		select {
		case <-ctx.Done():
			err = ctx.Err()
			continue
		case <-time.After(2 * time.Millisecond):
		}
		if q.worker.done.Load() < int64(n) {
			continue // a query would only slow it down
		}
		err = q.pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE queue = 'drain' AND state <> 'completed'").Scan(&left)
	}
	took := time.Since(began)
	return measure.Sample{N: n, Ns: float64(took) / float64(n)}, errors.Join(err, client.Stop(context.WithoutCancel(ctx)))
}
