package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// A thousand orders of mistakes and faults. Whatever the model does, every order
// is refunded once, every mail is sent once, and no tool runs that must not.
func TestThousandSeeds(t *testing.T) {
	seeds := uint64(1000)
	if testing.Short() {
		seeds = 100
	}
	sum := newSum()
	t.Run("seeds", func(t *testing.T) {
		const parts = 4
		for part := range uint64(parts) {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := part; seed < seeds && !t.Failed(); seed += parts {
					playSeed(t, seed, sum)
				}
			})
		}
	})
	sum.check(t)
}

// playSeed plays one seed in a bubble, whose end waits for every goroutine.
func playSeed(t *testing.T, seed uint64, sum *sum) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(seed, 1, nil)
		require.NoError(t, w.play(t.Context()), "seed %d", seed)
		require.Empty(t, wrongs(w), "seed %d", seed)
		sum.add(w)
	})
}

// Three runs at once, over the same orders: the business key makes a refund one
// operation for all of them, the step refs a mail one for each.
func TestThreeRunsAtOnce(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(seed, 1, nil)
			hosts := []*Host{&w.host}
			for run := uint64(2); run <= 3; run++ {
				h := w.host
				h.RunID = fmt.Sprintf("run_%d", run)
				h.Work = workList(h.RunID)
				h.Model = newScripted(rand.New(rand.NewPCG(seed, run+1)), w.shop.tools, h.Work)
				h.Witness = newStory(1, new(tally), nil)
				h.People = &person{supervisor: w.person.supervisor, shop: w.shop}
				hosts = append(hosts, &h)
			}
			errs := make([]error, len(hosts))
			var wg sync.WaitGroup
			for i, h := range hosts {
				wg.Go(func() { errs[i] = h.Run(t.Context()) })
			}
			wg.Wait()
			require.NoError(t, errors.Join(errs...), "seed %d", seed)
			require.NoError(t, w.executor.Close(t.Context()))
			w.shop.close()
			for _, o := range orders {
				assert.Len(t, w.shop.gateway.about(o.ID), 1, "seed %d: %s", seed, o.ID)
				assert.Len(t, w.shop.mailbox.about(o.ID), len(hosts), "seed %d: %s", seed, o.ID)
			}
		})
	}
}

// wrongs says what must not have happened in a run.
func wrongs(w *world) (list []string) {
	wrong := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for _, o := range orders {
		refunds, mails := w.shop.gateway.about(o.ID), w.shop.mailbox.about(o.ID)
		if len(refunds) != 1 || refunds[0].Cents != o.Cents {
			wrong("%s: refunds %v", o.ID, refunds)
		}
		if len(mails) != 1 {
			wrong("%s: mails %v", o.ID, mails)
		}
	}
	if n := len(w.shop.gateway.entries(all)) + len(w.shop.mailbox.entries(all)); n != 2*len(orders) {
		wrong("%d effects", n)
	}
	_, reached := w.story.kinds()
	for _, kind := range neverReaches {
		if reached[kind] > 0 {
			wrong("%s: reached a tool", kind)
		}
	}
	for _, a := range w.story.answers {
		if a.env.Code == "" || a.env.OK != (a.env.NextAction == toolexec.NextContinue) {
			wrong("%s: no answer: %+v", a.call.ID, a.env)
		}
	}
	list = append(list, impatient(w)...)
	list = append(list, tooSoon(w)...)
	return append(list, unallowed(w)...)
}

func all(posting) bool { return true }

// tooSoon says which attempts were made before the time that a service or an
// earlier turn's answer had named, or after the effect was there.
func tooSoon(w *world) (list []string) {
	until := make(map[toolexec.Key]time.Time)
	answers := w.story.answers
	for _, remote := range []*service{w.shop.archive, w.shop.gateway, w.shop.mailbox} {
		for _, p := range remote.tooSoon {
			list = append(list, fmt.Sprintf("%+v: the service had said when to come back", p))
		}
	}
	for _, at := range w.tally.attempts {
		for len(answers) > 0 && answers[0].at.Before(at.at) {
			a := answers[0]
			until[toolexec.Key{Ref: a.env.OperationRef}] = time.Time{}
			if a.env.NextAction == toolexec.NextWaitAndRetry {
				until[toolexec.Key{Ref: a.env.OperationRef}] = a.env.Retry.NotBefore
			}
			answers = answers[1:]
		}
		if at.at.Before(until[at.key]) {
			list = append(list, fmt.Sprintf("%s: %v ran at %v, before %v", at.call, at.key, at.at, until[at.key]))
		}
		for _, remote := range []*service{w.shop.gateway, w.shop.mailbox} {
			for _, p := range remote.entries(func(p posting) bool { return p.Ref == at.key.Ref && p.At.Before(at.at) }) {
				list = append(list, fmt.Sprintf("%s: %v ran at %v, after its effect at %v", at.call, at.key, at.at, p.At))
			}
		}
	}
	return list
}

// impatient says which calls the host itself made before the time that the last
// answer had named.
func impatient(w *world) (list []string) {
	until := make(map[string]time.Time)
	for _, a := range w.story.answers {
		ref := a.env.OperationRef
		if a.byHost && a.at.Before(until[ref]) {
			list = append(list, fmt.Sprintf("%s: the host asked about %s at %v, before %v", a.call.ID, ref, a.at, until[ref]))
		}
		switch a.env.NextAction {
		case toolexec.NextWaitAndRetry, toolexec.NextVerifyOperation:
			until[ref] = a.env.Retry.NotBefore
		case toolexec.NextRequestApproval: // late evidence has released it meanwhile
			until[ref] = time.Time{}
		}
	}
	return list
}

// unallowed says which large refunds were requested without approval of that
// amount.
func unallowed(w *world) (list []string) {
	for _, r := range w.shop.gateway.requests() {
		if r.Cents <= limit {
			continue
		}
		allowed := false
		for _, a := range w.person.allowed {
			allowed = allowed || a.ref == r.Ref && a.summary == summary(r.Order, r.Cents) && !a.at.After(r.At)
		}
		if !allowed {
			list = append(list, fmt.Sprintf("%+v: nobody allowed it", r))
		}
	}
	return list
}

// sum is what happened over all seeds: what never happens proves nothing.
type sum struct {
	mu     sync.Mutex // protects what follows
	made   map[Mistake]int
	faults map[fault]int
	codes  map[toolexec.Code]int
	next   map[toolexec.NextAction]int
	denied int
}

func newSum() *sum {
	return &sum{
		made: make(map[Mistake]int), faults: make(map[fault]int),
		codes: make(map[toolexec.Code]int), next: make(map[toolexec.NextAction]int),
	}
}

func (s *sum) add(w *world) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, _ := w.story.kinds()
	for kind, n := range made {
		s.made[kind] += n
	}
	for _, remote := range []*service{w.shop.archive, w.shop.gateway, w.shop.mailbox} {
		for f, n := range remote.met {
			s.faults[f] += n
		}
	}
	for _, a := range w.story.answers {
		s.codes[a.env.Code]++
		s.next[a.env.NextAction]++
	}
	s.denied += w.person.denied
}

func (s *sum) check(t *testing.T) {
	t.Helper()
	for _, b := range blunders {
		assert.Positive(t, s.made[b.kind], b.kind)
	}
	for f := refused; f <= crashedDone; f++ {
		if f != outage { // that is three of refused
			assert.Positive(t, s.faults[f], "fault %d", f)
		}
	}
	for _, c := range []toolexec.Code{
		"OK", "INVALID_ARGUMENTS", "UNCHANGED_RETRY", "UNKNOWN_TOOL", "INVALID_OPERATION_REF", "OPERATION_REF_REUSED", "NOT_FOUND",
		"MISSING_APPROVAL", "OUTCOME_UNKNOWN", "DEPENDENCY_UNAVAILABLE", "TOOL_PANIC", "VERIFICATION_UNAVAILABLE",
	} {
		assert.Positive(t, s.codes[c], c)
	}
	for _, a := range []toolexec.NextAction{
		toolexec.NextContinue, toolexec.NextCorrectInput, toolexec.NextWaitAndRetry, toolexec.NextVerifyOperation,
		toolexec.NextRequestApproval, toolexec.NextEscalate,
	} {
		assert.Positive(t, s.next[a], a)
	}
	assert.Positive(t, s.denied, "a person denied nothing")
}
