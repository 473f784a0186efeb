package sqlstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/toolexec/toolexec"
)

// The bounds of one group.
const (
	groupItems = 256
	groupBytes = 4 << 20
)

// item is something that waits to be written.
type item struct {
	ctx  context.Context //nolint:containedctx // one who waits, who may stop waiting
	key  toolexec.Key    // two of one key are not grouped, where the statement forbids it
	size int
	save *encoded                                  // a Save; or
	do   func(context.Context, *transaction) error // something else, SQLite only
	done chan outcome                              // has room for the one outcome
}

// outcome is what became of an item.
type outcome struct {
	record toolexec.Record
	err    error
}

func (it *item) end(record toolexec.Record, err error) { it.done <- outcome{record, err} }

// group writes together what waits at the same time. It never waits for more:
// while a group is written the next one gathers, so one caller alone pays for
// nothing but a goroutine.
//
// Its goroutines live as long as there is something to write, so that there is
// none to leak.
type group struct {
	run      func([]*item) // ends each of them
	writers  int           // how many groups may be written at a time
	beside   int           // how many items must wait for a group beside another
	distinct bool          // two items of one key may not be in one group

	mu      sync.Mutex // protects what follows
	waiting []*item
	writing int // groups
	closed  bool
	idle    sync.WaitGroup
}

// add has an item written, and returns when it is, or when its context is done.
func (g *group) add(it *item) (toolexec.Record, error) {
	it.done = make(chan outcome, 1)
	if err := g.queue(it); err != nil {
		return toolexec.Record{}, err
	}
	select {
	case out := <-it.done:
		return out.record, out.err
	case <-it.ctx.Done():
	}
	select {
	case out := <-it.done:
		return out.record, out.err
	default:
	}
	return toolexec.Record{}, unclear(it.ctx)
}

// unclear is the answer to one who stopped waiting: it may be in a transaction
// just now.
func unclear(ctx context.Context) error {
	return &unclearError{ctx.Err()}
}

type unclearError struct{ err error }

func (e *unclearError) Error() string {
	return "sqlstore: the caller stopped waiting, and whether the record was stored is not known: " + e.err.Error()
}

func (e *unclearError) Unwrap() error { return e.err }

func (g *group) queue(it *item) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	g.waiting = append(g.waiting, it)
	if g.writing < g.writers && g.enough(g.writing) {
		g.writing++
		g.idle.Go(g.write)
	}
	return nil
}

// enough reports whether what waits is worth a group beside so many others. Two
// small groups cost more than one large, on either side.
func (g *group) enough(others int) bool {
	return len(g.waiting) > 0 && (others == 0 || len(g.waiting) >= g.beside)
}

// alone takes the place of the one writer, if nobody writes just now. The caller
// gives it back by [group.done].
func (g *group) alone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.writing > 0 {
		return false
	}
	g.writing++
	g.idle.Add(1)
	return true
}

// done leaves the place to what has gathered meanwhile.
func (g *group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) > 0 {
		g.idle.Go(g.write)
	} else {
		g.writing--
	}
	g.idle.Done()
}

func (g *group) write() {
	for {
		items := g.take()
		if items == nil {
			return
		}
		items = slices.DeleteFunc(items, func(it *item) bool {
			err := it.ctx.Err()
			if err != nil {
				it.end(toolexec.Record{}, errors.Join(errNotBegun, err))
			}
			return err != nil
		})
		if len(items) > 0 {
			g.run(items)
		}
	}
}

var errNotBegun = errors.New("sqlstore: nothing was stored")

// take returns what waits, within the bounds; nil when that is not enough.
func (g *group) take() (items []*item) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.enough(g.writing - 1) {
		g.writing--
		return nil
	}
	if g.writers > 1 { // in one order, so that two groups do not lock each other out
		slices.SortStableFunc(g.waiting, func(a, b *item) int { return a.key.Compare(b.key) })
	}
	size := 0
	left := g.waiting[:0:0]
	var keys map[toolexec.Key]bool
	if g.distinct {
		keys = make(map[toolexec.Key]bool, len(g.waiting))
	}
	for _, it := range g.waiting {
		size += it.size
		if len(items) == groupItems || len(items) > 0 && size > groupBytes || keys[it.key] {
			left = append(left, it)
			continue
		}
		if g.distinct {
			keys[it.key] = true
		}
		items = append(items, it)
	}
	g.waiting = left
	return items
}

// close refuses what comes and what waits, and returns when the group that is
// being written is.
func (g *group) close() {
	g.mu.Lock()
	g.closed = true
	for _, it := range g.waiting {
		it.end(toolexec.Record{}, ErrClosed)
	}
	g.waiting = nil
	g.mu.Unlock()
	g.idle.Wait()
}
