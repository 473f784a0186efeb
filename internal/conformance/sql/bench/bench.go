// Package bench compares sqlstore with the bare statements of a driver, in one
// run, because only ratios say anything.
package bench

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

// Operation is a begin and a finish, each one acknowledged.
type Operation func(ctx context.Context, ref string) error

var (
	arguments = json.RawMessage(`{"order_id":"ORD-5510","cents":8000,"note":"` + strings.Repeat("a", 60) + `"}`)
	result    = json.RawMessage(`{"receipt":"` + strings.Repeat("r", 285) + `"}`)
)

// Store returns the operation of a store.
func Store(s toolexec.Store) Operation {
	return func(ctx context.Context, ref string) error {
		r, err := s.Save(ctx, toolexec.Record{
			Key: toolexec.Key{Scope: "tenant", Ref: ref}, Tool: "process_refund", State: toolexec.StateInFlight,
			Fingerprint: fingerprint(ref), Arguments: arguments, Owner: "host-1", Nonce: ref, Attempts: 1,
			LeaseUntil: toolexec.In(15 * time.Second),
		})
		if err != nil {
			return err
		}
		r.State, r.LeaseUntil, r.SettledAt = toolexec.StateCommitted, toolexec.Instant{}, toolexec.In(0)
		r.Arguments, r.Result, r.ResultPresent, r.CommittedBy = nil, result, true, r.Nonce+"/1"
		_, err = s.Save(ctx, r)
		return err
	}
}

func fingerprint(ref string) (f toolexec.Fingerprint) {
	f.Rule = 1
	for i := range f.Sum {
		f.Sum[i] = ref[i%len(ref)] * byte(i+7)
	}
	return f
}

// bareRecord is as large as what a store writes.
var bareRecord = strings.Repeat("d", 420)

// Bare returns the operation of two statements in a table of nothing but a key,
// a version and the data.
func Bare(ctx context.Context, db *sql.DB, d sqlstore.Dialect) (Operation, error) {
	create := "CREATE TABLE bare (scope BLOB NOT NULL, ref BLOB NOT NULL, version INTEGER NOT NULL, record TEXT NOT NULL, arguments BLOB, result BLOB, UNIQUE (scope, ref))"
	insert := "INSERT INTO bare (scope, ref, version, record, arguments) VALUES (?, ?, 1, ?, ?)"
	update := "UPDATE bare SET version = version + 1, record = ?, arguments = NULL, result = ? WHERE scope = ? AND ref = ? AND version = ?"
	switch d {
	case sqlstore.PostgreSQL:
		create = "CREATE TABLE bare (scope bytea NOT NULL, ref bytea NOT NULL, version bigint NOT NULL, record text NOT NULL, arguments bytea, result bytea, UNIQUE (scope, ref))"
		insert = "INSERT INTO bare (scope, ref, version, record, arguments) VALUES ($1, $2, 1, $3, $4)"
		update = "UPDATE bare SET version = version + 1, record = $1, arguments = NULL, result = $2 WHERE scope = $3 AND ref = $4 AND version = $5"
	case sqlstore.MySQL:
		create = "CREATE TABLE bare (scope VARBINARY(255) NOT NULL, ref VARBINARY(255) NOT NULL, version BIGINT NOT NULL, record LONGBLOB NOT NULL, arguments LONGBLOB, result LONGBLOB, PRIMARY KEY (scope, ref))"
	}
	if _, err := db.ExecContext(ctx, create); err != nil {
		return nil, err
	}
	ins, err := db.PrepareContext(ctx, insert) //nolint:sqlclosecheck // as long as the pool
	if err != nil {
		return nil, err
	}
	upd, err := db.PrepareContext(ctx, update) //nolint:sqlclosecheck // as long as the pool
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, ref string) error {
		if _, err := ins.ExecContext(ctx, []byte("tenant"), []byte(ref), bareRecord, []byte(arguments)); err != nil {
			return err
		}
		_, err := upd.ExecContext(ctx, bareRecord, []byte(result), []byte("tenant"), []byte(ref), 1)
		return err
	}, nil
}

// Contestant is one of those that are compared.
type Contestant struct {
	Name string
	Do   Operation
}

var refs atomic.Uint64

// Rate returns how many operations a second c callers get done.
func Rate(ctx context.Context, do Operation, c int, d time.Duration) (float64, error) {
	var wg sync.WaitGroup
	var done atomic.Int64
	errs := make([]error, c)
	began := time.Now()
	for i := range c {
		wg.Go(func() {
			for time.Since(began) < d && errs[i] == nil {
				ref := fmt.Sprintf("op_%016x", refs.Add(1)*0x9E3779B97F4A7C15)
				errs[i] = do(ctx, ref)
				done.Add(1)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return float64(done.Load()) / time.Since(began).Seconds(), nil
}

// Compare measures all contestants in turn, rounds times, and prints for each
// number of callers the median rate, and the median of the ratios to the first
// contestant within a round: with as many callers, and with one.
func Compare(ctx context.Context, w io.Writer, all []Contestant, callers []int, rounds int, d time.Duration) error {
	type place struct {
		name    string
		callers int
	}
	rates := make(map[place][]float64)
	for range rounds {
		for _, c := range callers {
			for _, one := range all {
				rate, err := Rate(ctx, one.Do, c, d)
				if err != nil {
					return fmt.Errorf("%s: %w", one.Name, err)
				}
				rates[place{one.Name, c}] = append(rates[place{one.Name, c}], rate)
			}
		}
	}
	ratio := func(of, to place) float64 {
		ratios := make([]float64, rounds)
		for i := range ratios {
			ratios[i] = rates[of][i] / rates[to][i]
		}
		return median(ratios)
	}
	base := all[0].Name
	for _, c := range callers {
		for _, one := range all {
			_, err := fmt.Fprintf(w, "c=%-3d %-24s %7.0f op/s  %6.2f x %s  %6.2f x %s alone\n", c, one.Name, median(rates[place{one.Name, c}]),
				ratio(place{one.Name, c}, place{base, c}), base, ratio(place{one.Name, c}, place{base, callers[0]}), base)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}
