package main

import (
	"io"
	"time"

	"github.com/toolexec/toolexec"
)

// story is a Witness that writes down what happens, and prints it.
type story struct {
	pace  pace
	tally *tally
	out   io.Writer // nil: nothing is printed

	began, turn time.Time
	notBefore   map[string]time.Time // by ref, when the host was told to wait until
	read        map[string]string    // by ref, what the model read last
	byHost      bool                 // the host has taken over since the turn began
	answers     []answer
	err         error // of the first write that failed
}

// answer is what a call got.
type answer struct {
	at       time.Time
	call     ToolCall
	mistake  Mistake
	env      Envelope
	runs     int // of its tool
	decision Decision
	byHost   bool // the host made the call, not the model
}

func newStory(p pace, t *tally, out io.Writer) *story {
	return &story{pace: p, tally: t, out: out, began: time.Now(), notBefore: make(map[string]time.Time), read: make(map[string]string)}
}

// Turn implements Witness.
func (s *story) Turn(n int, calls []ToolCall) {
	s.turn, s.byHost = time.Now(), false
	if len(calls) > 0 {
		s.line("\nturn %d, %s", n, s.since(s.turn))
	}
}

// Host implements Witness.
func (s *story) Host(does string) {
	s.byHost = true
	s.line("  host, %s: %s", s.since(time.Now()), does)
}

// Answered implements Witness.
func (s *story) Answered(call ToolCall, env Envelope, heard Observation, d Decision) {
	a := answer{time.Now(), call, s.label(call, env.OperationRef), env, s.tally.take(call.ID), d, s.byHost}
	s.answers = append(s.answers, a)
	if env.NextAction == toolexec.NextWaitAndRetry {
		s.notBefore[env.OperationRef] = env.Retry.NotBefore
	}
	if s.out == nil {
		return
	}
	s.heading(a)
	text := s.masked(heard.Text, env)
	if env.OperationRef != "" && s.read[env.OperationRef] == text && len(text) > left {
		text = "the same as before"
	} else {
		s.read[env.OperationRef] = text
	}
	s.columns(text, s.fields(a))
}

// label is the mistake that a call is. One that was meant to come too early is
// none when its time had come, after all.
func (s *story) label(c ToolCall, ref string) Mistake {
	if c.Mistake == tooEarly && !s.turn.Before(s.notBefore[ref]) {
		return ""
	}
	return c.Mistake
}

// kinds counts, for each kind of mistake, how many were made and how many of
// them reached a tool.
func (s *story) kinds() (made, reached map[Mistake]int) {
	made, reached = make(map[Mistake]int), make(map[Mistake]int)
	for _, a := range s.answers {
		if a.mistake == "" {
			continue
		}
		made[a.mistake]++
		reached[a.mistake] += min(a.runs, 1)
	}
	return made, reached
}
