package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/toolexec/toolexec"
)

// fault is what befalls one request to a remote service.
type fault uint8

const (
	refused     fault = iota + 1 // no connection: nothing was sent
	outage                       // none, three times in a row
	busy                         // 503 with Retry-After, before anything was done
	lostRequest                  // it never arrives, and no answer comes
	late                         // it arrives after the deadline
	crashed                      // the client panics before it has sent
	broken                       // done, then the connection breaks
	lostAnswer                   // done, and no answer comes
	slow                         // done, and the answer comes after the deadline
	crashedDone                  // done, then the client panics
)

// How long a service takes, where it does not answer at once.
const (
	busyFor = 8 * time.Second
	lateBy  = 3 * time.Second // past the deadline of an attempt
)

// service is a remote side with a ledger that counts. It does not know a ref
// again: what is sent twice is done twice.
type service struct {
	pace   pace
	prefix string              // of its receipts
	lag    time.Duration       // how long look-ups do not see an entry yet
	accept func(posting) error // what it refuses
	late   sync.WaitGroup      // requests that are still on their way

	mu      sync.Mutex           // protects what follows
	faults  map[string][]fault   // by order, what befalls the next requests
	met     map[fault]int        // what has befallen one
	asked   []posting            // the requests, as they were made
	closed  map[string]time.Time // by order, until when it wants no request
	tooSoon []posting            // those that it got all the same
	ledger  []posting
}

// posting is a request, and an entry of the ledger.
type posting struct {
	Ref, Order string
	Cents      int
	Text       string
	Receipt    string
	At         time.Time
}

// deal deals the faults to the orders like cards.
func (s *service) deal(rng *rand.Rand, orders []string, cards ...fault) {
	rng.Shuffle(len(cards), func(i, j int) { cards[i], cards[j] = cards[j], cards[i] })
	s.faults, s.met = make(map[string][]fault), make(map[fault]int)
	for i, f := range cards {
		order, times := orders[i%len(orders)], 1
		if f == outage {
			f, times = refused, 3
		}
		s.faults[order] = append(s.faults[order], slices.Repeat([]fault{f}, times)...)
	}
}

// next is the fault of the next request about an order; 0 is none.
func (s *service) next(order string) fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.faults[order]
	if len(list) == 0 {
		return 0
	}
	s.faults[order] = list[1:]
	s.met[list[0]]++
	return list[0]
}

// crash panics if that is what comes next for the order.
func (s *service) crash(order string) {
	s.mu.Lock()
	list := s.faults[order]
	crash := len(list) > 0 && list[0] == crashed
	s.mu.Unlock()
	if crash {
		s.next(order)
		panic("the template of the mail has no such field")
	}
}

// send makes a request, which meets its fault on the way there or back.
func (s *service) send(ctx context.Context, p posting) (receipt string, err error) {
	f := s.next(p.Order)
	s.request(p)
	switch f {
	case refused:
		return "", toolexec.NotSent(syscall.ECONNREFUSED)
	case busy:
		s.closeFor(p.Order, s.pace.short(busyFor))
		return "", &toolexec.Failure{
			Class: toolexec.ClassTransient, Evidence: toolexec.EvidenceRejected,
			RetryAfter: s.pace.short(busyFor), Err: errors.New("503 Service Unavailable"),
		}
	case lostRequest:
		<-ctx.Done()
		return "", ctx.Err()
	case late:
		s.late.Go(func() {
			time.Sleep(s.pace.short(lateBy))
			_, _ = s.post(p)
		})
		<-ctx.Done()
		return "", ctx.Err()
	case crashed:
		panic("a bug of the client")
	}
	receipt, err = s.post(p)
	switch f {
	case broken:
		return "", io.ErrUnexpectedEOF
	case lostAnswer:
		<-ctx.Done()
		return "", ctx.Err()
	case slow:
		time.Sleep(s.pace.short(lateBy)) // whatever ctx says
	case crashedDone:
		panic("a bug of the client")
	}
	return receipt, err
}

// post is the effect.
func (s *service) post(p posting) (receipt string, err error) {
	if err := s.accept(p); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Receipt, p.At = fmt.Sprintf("%s_%d", s.prefix, len(s.ledger)+1), time.Now()
	s.ledger = append(s.ledger, p)
	return p.Receipt, nil
}

// request writes a request down, whatever becomes of it.
func (s *service) request(p posting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.At = time.Now()
	s.asked = append(s.asked, p)
	if p.At.Before(s.closed[p.Order]) {
		s.tooSoon = append(s.tooSoon, p)
	}
}

// closeFor wants no request about an order for d.
func (s *service) closeFor(order string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed == nil {
		s.closed = make(map[string]time.Time)
	}
	s.closed[order] = time.Now().Add(d)
}

// requests returns the requests that were made.
func (s *service) requests() []posting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// find looks an operation up: what its ref did, as far as a look-up sees it.
func (s *service) find(ref string) []posting {
	return s.entries(func(p posting) bool { return p.Ref == ref && time.Since(p.At) >= s.pace.short(s.lag) })
}

// about returns what was done for an order.
func (s *service) about(order string) []posting {
	return s.entries(func(p posting) bool { return p.Order == order })
}

func (s *service) entries(want func(posting) bool) (found []posting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ledger {
		if want(p) {
			found = append(found, p)
		}
	}
	return found
}

// verdict turns what was found into the finding of a verifier.
func verdict[Out any](found []posting, result func(posting) Out) toolexec.Finding[Out] {
	switch len(found) {
	case 0:
		return toolexec.Absent[Out]()
	case 1:
		f := toolexec.Found(result(found[0]))
		f.EvidenceRef = found[0].Receipt
		return f
	}
	return toolexec.Conflicting[Out]()
}
