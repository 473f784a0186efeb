package toolexec

import (
	"sync"
	"sync/atomic"
	"time"
)

// gates keep a ReadOnly tool from being called before a time that its remote
// side gave (Retry-After, RetryInfo): until then the same answer is given, with
// the same instant. Operations that are recorded have this in their record.
type gates struct {
	n    atomic.Int64 // of shut, so that a read without gates takes no lock
	mu   sync.Mutex   // protects what follows
	shut map[gateKey]gate
}

type gateKey struct{ scope, tool string }

type gate struct {
	until   time.Time
	failure Failure
}

// maxGates bounds the gates; past it those that have opened are dropped, and
// the rest protects only the remote side's courtesy.
const maxGates = 1 << 12

// close shuts the gate of c's tool and scope.
func (g *gates) close(c *call, f *Failure, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(map[gateKey]gate)
	}
	if len(g.shut) >= maxGates {
		for k, old := range g.shut {
			if !old.until.After(c.watch.now()) {
				delete(g.shut, k)
			}
		}
	}
	if old, ok := g.shut[gateKey{c.key.Scope, c.t.name}]; ok && old.until.After(until) {
		return
	}
	if len(g.shut) < maxGates {
		g.shut[gateKey{c.key.Scope, c.t.name}] = gate{until, *f}
	}
	g.n.Store(int64(len(g.shut)))
}

// closed answers for a gate that is shut; nil when it is open.
func (g *gates) closed(c *call) *head {
	if g.n.Load() == 0 {
		return nil
	}
	key := gateKey{c.key.Scope, c.t.name}
	g.mu.Lock()
	shut, ok := g.shut[key]
	if ok && !shut.until.After(c.watch.now()) {
		delete(g.shut, key)
		g.n.Store(int64(len(g.shut)))
		ok = false
	}
	g.mu.Unlock()
	if !ok {
		return nil
	}
	f := shut.failure
	f.RetryAfter = shut.until.Sub(c.watch.now())
	h := c.failed(&f, NotCommitted, f.RetryAfter, max(c.t.policy.lifetime()-1, 0))
	h.Retry.NotBefore = shut.until
	return &h
}
