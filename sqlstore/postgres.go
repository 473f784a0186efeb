package sqlstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/toolexec/toolexec"
)

// directSaves is up to how many Saves at once each go to PostgreSQL by
// themselves. When there are more, all of them are grouped: one statement for
// many takes half the processor time of as many statements, on either side.
// (Some by themselves beside a group was worse than either.)
const directSaves = 16

// groupWriters is how many groups are under way: while the server works on one,
// or waits for the disk, the next is made. The second is worth it from as many
// as are worth a group at all.
const groupWriters = 2

// directLimit leaves a connection of a small pool to the group.
func (s *Store) directLimit() int64 {
	if n := s.db.Stats().MaxOpenConnections; n > 0 {
		return min(directSaves, int64(n)-1)
	}
	return directSaves
}

// runPostgres writes a group in one statement.
func (s *Store) runPostgres(items []*item) {
	ctx, stop := anyOf(items)
	defer stop()
	if len(items) == 1 {
		items[0].done <- s.saveDirect(ctx, items[0].save)
		return
	}
	err := s.saveTogether(ctx, items)
	switch {
	case err == nil:
	case serverRefused(err):
		// Nothing was stored. Alone each meets its own fate.
		for _, it := range items {
			it.done <- s.saveDirect(it.ctx, it.save)
		}
	default:
		err = s.explain(ctx, "saving records", err)
		for _, it := range items {
			it.end(toolexec.Record{}, err)
		}
	}
}

// anyOf returns a context that ends when those of all items have: then nobody
// waits any more.
func anyOf(items []*item) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(items[0].ctx))
	var mu sync.Mutex
	left := len(items)
	var stops []func() bool
	for _, it := range items {
		stops = append(stops, context.AfterFunc(it.ctx, func() {
			mu.Lock()
			defer mu.Unlock()
			if left--; left == 0 {
				cancel()
			}
		}))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// saveTogether ends all items, or returns an error and ends none.
func (s *Store) saveTogether(ctx context.Context, items []*item) error {
	stored, err := s.storeTogether(ctx, items)
	if err != nil {
		return err
	}
	for _, it := range items {
		if at, ok := stored[it.key]; ok {
			it.end(it.save.saved(at), nil)
			continue
		}
		// By itself it meets what is in the way. That is rare, and nobody else waits
		// for it.
		s.group.idle.Go(func() { it.done <- s.saveDirect(it.ctx, it.save) })
	}
	return nil
}

func (s *Store) storeTogether(ctx context.Context, items []*item) (map[toolexec.Key]int64, error) {
	args := make([]any, 0, numParams-1)
	array := make([]byte, 0, arrayRoom(items))
	for p := paramScope; p < numParams; p++ {
		array = appendArray(array[:0], items, p)
		args = append(args, string(array))
	}
	rows, err := s.together.stmt.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	stored := make(map[toolexec.Key]int64, len(items))
	for rows.Next() {
		var scope, ref []byte
		var at int64
		if err := rows.Scan(&scope, &ref, &at); err != nil {
			return nil, err
		}
		stored[toolexec.Key{Scope: string(scope), Ref: string(ref)}] = at
	}
	return stored, rows.Err()
}

// arrayRoom is about as long as the longest array becomes: most of them are
// short, and the bodies are in hexadecimal.
func arrayRoom(items []*item) int {
	room := 0
	for _, it := range items {
		room += 2 * it.size
	}
	return room
}

// appendArray appends a parameter of all items as the text of an array, which
// every driver passes on as it is.
func appendArray(b []byte, items []*item, p param) []byte {
	b = append(b, '{')
	for i, it := range items {
		if i > 0 {
			b = append(b, ',')
		}
		switch v := it.save.values[p].(type) {
		case nil:
			b = append(b, "NULL"...)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case []byte:
			b = append(b, `"\\x`...)
			b = hex.AppendEncode(b, v)
			b = append(b, '"')
		case string:
			b = appendQuoted(b, v)
		default:
			panic(fmt.Sprintf("sqlstore: a parameter of type %T", v))
		}
	}
	return append(b, '}')
}

func appendQuoted(b []byte, text string) []byte {
	b = append(b, '"')
	for {
		n := strings.IndexAny(text, `"\`)
		if n < 0 {
			break
		}
		b = append(append(b, text[:n]...), '\\', text[n])
		text = text[n+1:]
	}
	return append(append(b, text...), '"')
}
