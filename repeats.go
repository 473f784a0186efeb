package toolexec

import "sync"

// repeatKey names a call within a run, by the digest of what was asked.
type repeatKey struct{ scope, run, tool, digest string }

// repeats remembers which calls of which runs were refused, to break loops: a
// call that was answered with never or after_input_fix is not run again
// unchanged. The zero value is ready.
type repeats struct {
	mu    sync.Mutex // protects what follows
	seen  map[repeatKey]int
	order []repeatKey // oldest first, for the bound
}

// maxRepeatKeys bounds what is remembered; the oldest is forgotten first, and
// then only costs a run of the tool.
const maxRepeatKeys = 1 << 14

// add notes a refusal.
func (r *repeats) add(k repeatKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = make(map[repeatKey]int)
	}
	if _, known := r.seen[k]; !known {
		if len(r.order) >= maxRepeatKeys {
			delete(r.seen, r.order[0])
			r.order = r.order[1:]
		}
		r.order = append(r.order, k)
	}
	r.seen[k]++
}

// forget takes a refusal back.
func (r *repeats) forget(k repeatKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.seen[k]; ok {
		r.seen[k] = 0
	}
}

// count returns how often k was refused.
func (r *repeats) count(k repeatKey) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[k]
}

// refuse names the call for the loop breaker; without a run there is none.
func (c *call) refuse(k repeatKey) {
	if k.run != "" {
		c.refused = &k
	}
}

// repeated reports whether this run was refused the same call before.
func (c *call) repeated() bool {
	if c.operation == nil {
		return false
	}
	if c.refused == nil && c.runID != "" && c.intent.fingerprint != (Fingerprint{}) {
		c.refuse(repeatKey{c.key.Scope, c.runID, c.t.name, c.intent.fingerprint.String()})
	}
	return c.refused != nil && c.x.repeats.count(*c.refused) > 0
}

// again is what a refusal becomes when this run met it before: an unchanged
// retry, and a person's business once it has been repeated too often.
func (c *call) again(f *Failure) *Failure {
	if f.Evidence != EvidenceNotSent && f.Evidence != EvidenceRejected || !c.repeated() {
		return f
	}
	return c.unchangedFailure(f)
}

func (c *call) unchangedFailure(was *Failure) *Failure {
	f := &Failure{Code: CodeUnchangedRetry, Evidence: EvidenceNotSent, Details: was.Details, Fields: was.Fields, Err: was.Err}
	f.complete()
	if c.t.name == "" {
		f.AgentMessage = "There is no tool of that name, and it was asked for before."
	}
	if c.refused != nil && c.x.repeats.count(*c.refused) > max(c.t.policy.MaxRepeats, 0) {
		escalate := NextEscalate
		f.Next = &escalate
	}
	return f
}

// remember notes a refusal that repeating cannot change. What waits, asks for
// approval or is to be verified is no refusal: the same call is right then.
func (c *call) remember(h head) head {
	final := h.Retry.Directive != RetryAfterDelay && h.CommitState == NotCommitted &&
		(h.NextAction == NextCorrectInput || h.NextAction == NextEscalate)
	if c.operation != nil && c.refused != nil && final && !h.OK {
		c.x.repeats.add(*c.refused)
	}
	return h
}
