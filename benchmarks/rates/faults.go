package main

import (
	"math/rand/v2"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/toolexectest"
)

// oneWay is how long a request or an answer travels when nothing befalls it.
const oneWay = 50 * time.Millisecond

// scenario is everything that is drawn about a world. No contender has a say in
// it.
type scenario struct {
	fault *fault
	style style
	steps []toolexectest.Fault // of the attempts at the first operation; those after them meet none
	crash crash
	twin  time.Duration // when a second, equal operation is wanted too; 0: never

	redelivered time.Duration // when the first call is delivered once more; 0: never
	elsewhere   bool          // and to another process

	lag       time.Duration // of look-ups
	lookupsUp time.Duration // when look-ups begin to answer

	thinks  [2][maxCalls]time.Duration // how long the agent takes to call again
	restart time.Duration              // how long a process that died is away
}

// crash says whether the process dies during the first attempt, and where the
// request is then.
type crash int

const (
	noCrash       crash = iota
	crashLost           // the request is lost with it
	crashUnderWay       // the request arrives 3 s later
	crashAnswered       // the effect is made, the answer comes to nobody
)

// fault is a row of the second table: what befalls the first attempt.
type fault struct {
	name string
	draw func(rng *rand.Rand, s *scenario)
}

// faults are those of package toolexectest that bear on what has happened, and
// those of the processes around it. Left out are answers whose content is wrong
// (Leg.Empty and Leg.Result), which everybody here would believe.
var faults = []*fault{
	{"no fault", func(*rand.Rand, *scenario) {}},
	step("request lost", func(*rand.Rand) toolexectest.Fault { return toolexectest.DropRequest() }),
	step("answer lost after the effect", func(*rand.Rand) toolexectest.Fault { return toolexectest.DropAnswer() }),
	step("effect after the deadline", func(rng *rand.Rand) toolexectest.Fault {
		return toolexectest.DelayRequest(between(rng, 2500*time.Millisecond, 8*time.Second))
	}),
	step("not sent", func(*rand.Rand) toolexectest.Fault { return toolexectest.NotSent() }),
	step("503, nothing done", func(*rand.Rand) toolexectest.Fault { return toolexectest.FailRequest(unavailable()) }),
	step("503 after the effect", func(*rand.Rand) toolexectest.Fault { return toolexectest.FailAnswer(unavailable()) }),
	step("rate limit", func(rng *rand.Rand) toolexectest.Fault { return toolexectest.FailRequest(limited(rng)) }),
	{"refused for good", func(_ *rand.Rand, s *scenario) {
		for range maxAttempts {
			s.steps = append(s.steps, toolexectest.Refuse(toolexec.ClassPermanent))
		}
	}},
	step("hang, deaf to its context", hang),
	step("slow", func(rng *rand.Rand) toolexectest.Fault {
		return toolexectest.DelayAnswer(between(rng, 500*time.Millisecond, 1800*time.Millisecond))
	}),
	step("panic or Goexit", broken),
	{"the process dies", func(rng *rand.Rand, s *scenario) { s.crash = crashLost + crash(rng.IntN(3)) }},
	{"the call is delivered twice", func(rng *rand.Rand, s *scenario) {
		s.redelivered, s.elsewhere = between(rng, time.Millisecond, 500*time.Millisecond), rng.IntN(2) == 0
	}},
	{"lost, and look-ups lag 10 s", func(rng *rand.Rand, s *scenario) { s.lose(rng); s.lag = 10 * time.Second }},
	{"lost, and look-ups are down for 1 min", func(rng *rand.Rand, s *scenario) { s.lose(rng); s.lookupsUp = time.Minute }},
	{"lost, and look-ups are down for good", func(rng *rand.Rand, s *scenario) { s.lose(rng); s.lookupsUp = 24 * time.Hour }},
}

// later are what can befall a second or third attempt too.
var later = []func(*rand.Rand) toolexectest.Fault{
	func(*rand.Rand) toolexectest.Fault { return toolexectest.DropRequest() },
	func(*rand.Rand) toolexectest.Fault { return toolexectest.DropAnswer() },
	func(*rand.Rand) toolexectest.Fault { return toolexectest.NotSent() },
	func(*rand.Rand) toolexectest.Fault { return toolexectest.FailRequest(unavailable()) },
	func(*rand.Rand) toolexectest.Fault { return toolexectest.FailAnswer(unavailable()) },
	func(rng *rand.Rand) toolexectest.Fault { return toolexectest.FailRequest(limited(rng)) },
	func(*rand.Rand) toolexectest.Fault { return toolexectest.Refuse(toolexec.ClassPermanent) },
}

// draw draws world n of those in which f befalls the first attempt. The styles
// of the agent and the second operations are dealt, so that each fault meets as
// many of each.
func draw(seed uint64, f *fault, n int) *scenario {
	rng := rand.New(rand.NewPCG(seed, uint64(n))) //nolint:gosec // n counts up from 0
	s := &scenario{fault: f, style: style(n % int(styles)), restart: between(rng, time.Second, 3*time.Second)}
	f.draw(rng, s)
	if f != faults[0] && len(s.steps) < maxAttempts {
		s.more(rng)
	}
	for i := range s.steps {
		s.steps[i] = travelling(s.steps[i])
	}
	for i := range s.thinks {
		for j := range s.thinks[i] {
			s.thinks[i][j] = between(rng, time.Second, 3*time.Second)
		}
	}
	if twin := between(rng, time.Millisecond, 20*time.Second); n/int(styles)%4 == 3 {
		s.twin = twin
	}
	return s
}

// more lets a fault befall the second attempt in a third of the worlds, and the
// third in a ninth.
func (s *scenario) more(rng *rand.Rand) {
	if len(s.steps) == 0 {
		s.steps = append(s.steps, toolexectest.OK())
	}
	for range 2 {
		if rng.IntN(3) != 0 {
			return
		}
		s.steps = append(s.steps, later[rng.IntN(len(later))](rng))
	}
}

// step is a fault of the way there or back.
func step(name string, f func(*rand.Rand) toolexectest.Fault) *fault {
	return &fault{name, func(rng *rand.Rand, s *scenario) { s.steps = append(s.steps, f(rng)) }}
}

// lose loses the request or the answer, so that there is something to look up.
func (s *scenario) lose(rng *rand.Rand) {
	lost := toolexectest.DropRequest()
	if rng.IntN(2) == 0 {
		lost = toolexectest.DropAnswer()
	}
	s.steps = append(s.steps, lost)
}

// hang holds the attempt before or after the effect.
func hang(rng *rand.Rand) toolexectest.Fault {
	leg := toolexectest.Leg{Hang: between(rng, 15*time.Second, 25*time.Second)}
	if rng.IntN(2) == 0 {
		return toolexectest.Fault{Request: leg}
	}
	return toolexectest.Fault{Answer: leg}
}

// broken ends the attempt as a mistake in the program does.
func broken(rng *rand.Rand) toolexectest.Fault {
	leg := toolexectest.Leg{Panic: toolexectest.ErrInjected}
	if rng.IntN(2) == 0 {
		leg = toolexectest.Leg{Goexit: true}
	}
	if rng.IntN(2) == 0 {
		return toolexectest.Fault{Request: leg}
	}
	return toolexectest.Fault{Answer: leg}
}

// unavailable is a 503: a gateway's word, which does not say what became of the
// request.
func unavailable() error { return toolexec.InDoubt(toolexectest.ErrInjected) }

// limited is a 429 with its Retry-After.
func limited(rng *rand.Rand) error {
	return &toolexec.Failure{
		Code: toolexec.CodeRateLimited, Class: toolexec.ClassTransient, Evidence: toolexec.EvidenceRejected,
		RetryAfter: time.Duration(1+rng.IntN(4)) * time.Second, Err: toolexectest.ErrInjected,
	}
}

// travelling adds the time that requests and answers take anyway.
func travelling(f toolexectest.Fault) toolexectest.Fault {
	r := &f.Request
	r.Delay += oneWay
	switch {
	case r.Err != nil:
		r.Delay += oneWay
	case !r.Drop && r.Panic == nil && !r.Goexit:
		f.Answer.Delay += oneWay
	}
	return f
}

// between draws a duration of an odd number of nanoseconds, so that no two
// things happen at one instant.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(most-least))) | 1
}
