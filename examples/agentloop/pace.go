package main

import (
	"time"

	"github.com/toolexec/toolexec"
)

// pace is how many times faster than documented the program runs.
type pace int

// short is how long the program takes for what is documented to take d.
func (p pace) short(d time.Duration) time.Duration { return d / time.Duration(p) }

// long is what is documented for what takes the program d.
func (p pace) long(d time.Duration) time.Duration { return d * time.Duration(p) }

// policy is the documented one, made shorter.
func (p pace) policy() toolexec.Policy {
	return toolexec.Policy{
		Deadline: p.short(toolexec.DefaultDeadline), TotalDeadline: toolexec.DefaultTotalDeadline, MaxPause: p.short(toolexec.DefaultMaxPause),
		Backoff: toolexec.Backoff{Initial: p.short(toolexec.DefaultInitialPause), Max: p.short(toolexec.DefaultMaxBackoff)},
	}
}
