package sqltool

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

var errOpen = errors.New("sqltool: a transaction that has the ref is still open")

// Pauses between two looks while a transaction is open.
const (
	firstPause = 5 * time.Millisecond
	longPause  = 100 * time.Millisecond
)

// look returns the ref's row, or nil when there is none and no transaction is
// open that could still commit one. An open one is waited for until ctx ends.
func (c *core) look(ctx context.Context, ref string, digest []byte) (*row, error) {
	found, err := c.find(ctx, c.DB, c.sql.find, ref)
	var open error // what the last probe that found it open said
	for pause := firstPause; found == nil && err == nil; pause = min(2*pause, longPause) {
		found, err = c.probe(ctx, ref, digest)
		if !errors.Is(err, errOpen) {
			break
		}
		open = err
		select {
		case <-time.After(pause):
			err = nil
		case <-ctx.Done():
		}
	}
	if err != nil {
		return nil, withEnd(ctx, errors.Join(open, err))
	}
	return found, nil
}

// probe asks for the ref's key: errOpen while an open transaction has it. It is
// always rolled back, so it changes nothing.
func (c *core) probe(ctx context.Context, ref string, digest []byte) (*row, error) {
	// At a higher level MySQL locks the gap as well, and writers of other refs
	// would wait.
	tx, err := c.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	found, err := c.ask(ctx, tx, ref, digest)
	if c.busy(err) {
		return nil, fmt.Errorf("%w: %w", errOpen, err)
	}
	return found, err
}

func (c *core) ask(ctx context.Context, tx *sql.Tx, ref string, digest []byte) (*row, error) {
	if c.Dialect == MySQL {
		return c.find(ctx, tx, c.sql.probe, ref)
	}
	if _, err := tx.ExecContext(ctx, c.sql.probeWait); err != nil {
		return nil, err
	}
	res, err := tx.ExecContext(ctx, c.sql.probe, c.scope(ctx), ref, digest)
	if err != nil {
		return nil, err
	}
	if n, err := res.RowsAffected(); n == 1 || err != nil {
		return nil, err
	}
	found, err := c.find(ctx, tx, c.sql.find, ref)
	if found == nil && err == nil {
		err = errGone
	}
	return found, err
}
