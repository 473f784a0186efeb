package toolexec

import "fmt"

// Vet says what the bound tools' declarations mean for the day when an answer
// is lost, one finding a line, in the order of the tools' names. Ask it in a
// unit test, and decide which findings are meant.
func (x *Executor) Vet() []string {
	var out []string
	for _, t := range x.sorted() {
		for _, finding := range t.vet() {
			out = append(out, t.name+": "+finding)
		}
	}
	return out
}

func (t *tool) vet() (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	p := &t.policy
	switch {
	case t.effect == Write && !t.verifiable && !t.unverifiable:
		add("no Verify, not Idempotent: a lost answer goes to a person")
	case t.unverifiable:
		add("declared Unverifiable: a lost answer goes to a person at once")
	case t.verifiable && !t.authoritative:
		add("its Verify is not Authoritative: an operation that is not found goes to a person")
	case t.verifiable && t.settle == 0:
		add("Settle is off: a look-up right after a lost answer is believed, also while the request may still arrive")
	}
	if t.effect == Idempotent && t.dedupeWindow == 0 {
		add("Idempotent without a DedupeWindow: the remote side is taken to remember refs for ever")
	}
	if p.Deadline < 0 && p.TotalDeadline < 0 {
		add("no deadline at all: a hung tool hangs its caller")
	}
	if t.cooperative {
		add("Cooperative: the deadline only ends its context, it does not hold against a tool that ignores it")
	}
	if p.Deadline > 0 && p.TotalDeadline > 0 && p.Deadline > p.TotalDeadline {
		add("its deadline of %v can never pass within its total deadline of %v", p.Deadline, p.TotalDeadline)
	}
	if t.dedupeWindow > 0 && t.dedupeWindow < max(p.TotalDeadline, 0) {
		add("its DedupeWindow of %v is shorter than one call may take (%v)", t.dedupeWindow, p.TotalDeadline)
	}
	return out
}
