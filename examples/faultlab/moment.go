package main

import (
	"sync"
	"time"
)

// moment is one thing that happened in a run, as the page is told it.
type moment struct {
	Side string  `json:"side,omitempty"` // toolexec or blind
	Kind string  `json:"kind"`
	At   float64 `json:"at"` // seconds that are documented, since the run began
	// Until is when it ends, if that is known already.
	Until float64 `json:"until,omitempty"`
	N     int     `json:"n,omitempty"`
	// Outlives says of an attempt that it runs on, though it was answered for.
	Outlives bool `json:"outlives,omitempty"`
	// Word stands on the time line, Text in the list below it.
	Word   string    `json:"word,omitempty"`
	Text   string    `json:"text,omitempty"`
	Books  *books    `json:"books,omitempty"`
	Answer *answered `json:"answer,omitempty"`
}

// The kinds of moment. What begins with one ends with the kind after it.
const (
	kindCall, kindAnswer       = "call", "answer"
	kindAttempt, kindAttempted = "attempt", "attempted"
	kindPause, kindPaused      = "pause", "paused"
	kindLookUp, kindLookedUp   = "lookup", "lookedup"
	kindWait, kindWaited       = "wait", "waited"
	kindGuard                  = "guard"
	kindRequest, kindEffect    = "request", "effect"
	kindSettle                 = "settle"
	kindLate, kindAlarm        = "late", "alarm"
	kindNote                   = "note"
	kindEnd                    = "end"
)

// reel is a run being told, moment by moment, in the order of their times.
type reel struct {
	lab   *lab
	began time.Time // set before the first moment

	mu   sync.Mutex // held while a moment is told
	tell func(moment)
}

// at is t as the page shows it: in documented seconds since the run began,
// rounded to what the machine adds.
func (r *reel) at(t time.Time) float64 {
	grain := 5 * time.Millisecond * time.Duration(r.lab.speed)
	return r.lab.long(t.Sub(r.began)).Round(grain).Seconds()
}

// add tells what happens now.
func (r *reel) add(m moment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.At = r.at(time.Now())
	r.tell(m)
}

// entry is an effect, as the page shows it.
type entry struct {
	N      int     `json:"n"`
	Ref    string  `json:"ref"`
	Amount string  `json:"amount"`
	At     float64 `json:"at"`
}

// books are what the service has seen and done by now.
type books struct {
	Requests int     `json:"requests"`
	Entries  []entry `json:"entries"`
	Total    string  `json:"total"`
}
