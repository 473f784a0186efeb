package durable

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

// bare is what a program writes by hand: a claim and a finish, prepared, each
// with a commit of its own. db is its own.
func bare(ctx context.Context, db *sql.DB, d sqlstore.Dialect) (operation, error) {
	create := []string{
		"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
		"CREATE TABLE bare (scope BLOB NOT NULL, ref BLOB NOT NULL, version INTEGER NOT NULL, record TEXT NOT NULL, arguments BLOB, result BLOB, UNIQUE (scope, ref))",
	}
	insert := "INSERT INTO bare (scope, ref, version, record, arguments) VALUES (?, ?, 1, ?, ?)"
	update := "UPDATE bare SET version = version + 1, record = ?, arguments = NULL, result = ? WHERE scope = ? AND ref = ? AND version = ?"
	if d == sqlstore.PostgreSQL {
		create = []string{"CREATE TABLE bare (scope bytea NOT NULL, ref bytea NOT NULL, version bigint NOT NULL, record text NOT NULL, arguments bytea, result bytea, UNIQUE (scope, ref))"}
		insert = "INSERT INTO bare (scope, ref, version, record, arguments) VALUES ($1, $2, 1, $3, $4)"
		update = "UPDATE bare SET version = version + 1, record = $1, arguments = NULL, result = $2 WHERE scope = $3 AND ref = $4 AND version = $5"
	} else {
		db.SetMaxOpenConns(1) // the pragmas are the connection's, and one writes at a time
	}
	for _, statement := range create {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, err
		}
	}
	claim, err := db.PrepareContext(ctx, insert) //nolint:sqlclosecheck // closed with db
	if err != nil {
		return nil, err
	}
	finish, err := db.PrepareContext(ctx, update) //nolint:sqlclosecheck // closed with db
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, ref string) error {
		if _, err := claim.ExecContext(ctx, []byte("tenant"), []byte(ref), record, orderJSON); err != nil {
			return err
		}
		_, err := finish.ExecContext(ctx, record, outcomeJSON, []byte("tenant"), []byte(ref), 1)
		return err
	}, nil
}

// saves is the store alone: the two Saves of a write.
func saves(s toolexec.Store) operation {
	return func(ctx context.Context, ref string) error {
		r, err := s.Save(ctx, toolexec.Record{
			Key: toolexec.Key{Scope: "tenant", Ref: ref}, Tool: "process_refund", State: toolexec.StateInFlight,
			Fingerprint: toolexec.Fingerprint{Rule: 1, Sum: sha256.Sum256([]byte(ref))}, Arguments: orderJSON, Owner: "host-1", Nonce: ref, Attempts: 1,
			LeaseUntil: toolexec.In(15 * time.Second),
		})
		if err != nil {
			return err
		}
		r.State, r.LeaseUntil, r.SettledAt = toolexec.StateCommitted, toolexec.Instant{}, toolexec.In(0)
		r.Arguments, r.Result, r.ResultPresent, r.CommittedBy = nil, outcomeJSON, true, r.Nonce+"/1"
		_, err = s.Save(ctx, r)
		return err
	}
}

// write is a whole call.
func write(s toolexec.Store) operation {
	t := toolexec.Bind(&toolexec.Executor{Store: s}, toolexec.Tool[input, receipt]{
		Name: "process_refund", Run: func(context.Context, input) (receipt, error) { return outcome, nil },
	})
	return func(ctx context.Context, ref string) error {
		return t.Call(toolexec.WithOperationRef(ctx, ref), order).Err()
	}
}
