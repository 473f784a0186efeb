package durable

import (
	"context"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// startDBOS returns a workflow of one step, whose result is asked for.
func startDBOS(ctx context.Context, d *database) (do operation, stop func(), err error) {
	root, err := dbos.NewContext(ctx, dbos.Config{AppName: "benchmark", DatabaseURL: d.dsn, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	workflow := func(c dbos.Context, in input) (receipt, error) {
		return dbos.RunAsStep(c, func(context.Context) (receipt, error) { return outcome, nil })
	}
	dbos.RegisterWorkflow(root, workflow)
	if err := dbos.Launch(root); err != nil {
		return nil, nil, err
	}
	return func(_ context.Context, ref string) error {
		h, err := dbos.RunWorkflow(root, workflow, order, dbos.WithWorkflowID(ref))
		if err == nil {
			_, err = h.GetResult()
		}
		return err
	}, func() { _ = dbos.Shutdown(root, 5*time.Second) }, nil
}
