package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// errDown is what a look-up that is down answers.
var errDown = errors.New("the look-up is down")

var library = []*contender{
	{
		name:  "Write, verifier",
		setup: "a `Write` with an authoritative `Verify` that reads the remote side by ref, and the default settle window of 30 s.",
		ours:  true,
		start: func(h *host) session {
			return guarded(h, toolexec.Tool[refund, receipt]{
				Verify: &toolexec.Verifier[refund, receipt]{Lookup: h.lookUp, Authoritative: true},
			})
		},
	},
	{
		name:  "Write",
		setup: "a `Write` about which nothing is declared: nobody can look it up.",
		ours:  true,
		start: func(h *host) session { return guarded(h, toolexec.Tool[refund, receipt]{}) },
	},
	{
		name:  "Idempotent",
		setup: "`Effect: Idempotent`, without a verifier; only where the remote side deduplicates, since elsewhere the declaration is false.",
		ours:  true,
		needs: keyedSide,
		start: func(h *host) session { return guarded(h, toolexec.Tool[refund, receipt]{Effect: toolexec.Idempotent}) },
	},
}

// guarded runs t in an executor as the README sets one up for processes that can
// die: a durable store, and a supervisor beside the calls. Policies are the
// defaults.
func guarded(h *host, t toolexec.Tool[refund, receipt]) session {
	x := &toolexec.Executor{Store: lethalStore{&h.w.store, h}}
	t.Name = "refund"
	t.Run = func(ctx context.Context, _ refund) (receipt, error) { return h.tool(ctx, toolexec.OperationRef(ctx)) }
	tool := toolexec.Bind(x, t)
	supervisor := &toolexec.Supervisor{Executor: x, Every: 5 * time.Second, OnSettled: h.onSettled}
	supervising, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = supervisor.Run(supervising) })
	return session{
		call: func(ctx context.Context, c call) answer {
			ctx = toolexec.WithRunID(ctx, c.run)
			if c.ref != "" {
				ctx = toolexec.WithOperationRef(ctx, c.ref)
			}
			return fromEnvelope(tool.Call(ctx, c.in))
		},
		stop: func(ctx context.Context) {
			stop()
			running.Wait()
			_ = x.Close(ctx)
		},
	}
}

// fromEnvelope is what an envelope tells the agent.
func fromEnvelope[T any](env toolexec.Envelope[T]) answer {
	a := answer{told: toldUnknown, notBefore: env.Retry.NotBefore, ref: env.OperationRef}
	switch {
	case env.OK:
		a.told = toldDone
	case env.CommitState == toolexec.NotCommitted:
		a.told = toldNotDone
	}
	a.stop = env.NextAction != toolexec.NextWaitAndRetry && env.NextAction != toolexec.NextVerifyOperation
	return a
}

func (h *host) onSettled(_ context.Context, s toolexec.Settled) {
	h.w.settled(fromEnvelope(s.Envelope))
}

// lookUp reads the remote side, when it can be asked.
func (h *host) lookUp(ctx context.Context, ref string, in refund) (toolexec.Finding[receipt], error) {
	if h.isDead() {
		<-h.w.over
		return toolexec.Finding[receipt]{}, errKilled
	}
	if time.Since(h.w.began) < h.w.lookupsUp {
		return toolexec.Finding[receipt]{}, errDown
	}
	return toolexectest.Lookup[refund, receipt](&h.w.ledger)(ctx, ref, in)
}

// lethalStore is a store on a disk, reached by a process that can die. It has
// none of the optional abilities of the store beneath.
type lethalStore struct {
	disk toolexec.Store
	h    *host
}

func (s lethalStore) Load(ctx context.Context, key toolexec.Key) (toolexec.Record, error) {
	if err := s.alive(); err != nil {
		return toolexec.Record{}, err
	}
	return s.disk.Load(ctx, key)
}

func (s lethalStore) Save(ctx context.Context, r toolexec.Record) (toolexec.Record, error) {
	if err := s.alive(); err != nil {
		return toolexec.Record{}, err
	}
	return s.disk.Save(ctx, r)
}

func (s lethalStore) List(ctx context.Context, q toolexec.Query) ([]toolexec.Record, toolexec.Cursor, error) {
	if err := s.alive(); err != nil {
		return nil, toolexec.Cursor{}, err
	}
	return s.disk.List(ctx, q)
}

// alive holds a dead process until the world is over.
func (s lethalStore) alive() error {
	if s.h.isDead() {
		<-s.h.w.over
		return errKilled
	}
	return nil
}
