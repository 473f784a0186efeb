package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/toolexec/toolexec"
)

// answered is an answer as the page shows it.
type answered struct {
	OK       bool   `json:"ok"`
	Summary  string `json:"summary"`
	Envelope string `json:"envelope,omitempty"` // the wire form, as it is
	Lines    []line `json:"lines,omitempty"`    // the same, to read
	Model    string `json:"model"`              // what the model reads
	Person   string `json:"person"`             // what the person reads

	Help     verdict `json:"help"`     // would repeating help?
	Happened verdict `json:"happened"` // could it have happened?
	So       verdict `json:"so"`       // what is done about it
}

// line is a line of an envelope; Why explains a field that decides.
type line struct {
	Text string `json:"text"`
	Why  string `json:"why,omitempty"`
}

// verdict is the answer to a question, and its reason.
type verdict struct {
	Answer string `json:"answer"`
	Why    string `json:"why"`
}

func (s *stage) answered(env *envelope) *answered {
	a := &answered{
		OK: env.OK, Summary: summary(env), Person: env.UserMessage,
		Help: wouldHelp(env), Happened: couldHaveHappened(env, s.plan.tool), So: soNow(env),
	}
	if env.OK {
		a.Person = "Nothing by itself: the agent tells the result."
		if failed := s.watch.lastFailure(); failed != nil { // what the success came after
			a.Help, a.Happened, a.So = failureWouldHelp(failed), failureCouldHaveHappened(failed, s.plan.tool), soAfter(env)
		}
	}
	wire, err := json.Marshal(env)
	if err != nil {
		a.Summary = "the envelope could not be encoded"
		return a
	}
	a.Envelope, a.Lines = string(wire), s.explained(wire, env)
	observation, _ := env.Observation()
	a.Model = instant.ReplaceAllString(observation, s.notBefore(env))
	return a
}

// notBefore is when the envelope allows the next step. The instants of a run
// that is faster than documented would say nothing.
func (s *stage) notBefore(env *envelope) string {
	return seconds(s.lab.long(env.Retry.NotBefore.Sub(s.began))) + " on the time line"
}

// answeredBlindly is what a loop without an executor has to say.
func (s *stage) answeredBlindly(result any, err error) *answered {
	a := &answered{
		OK: err == nil, Summary: blindText(result, err), Model: blindText(result, err),
		Person:   "Whatever the model makes of that.",
		Help:     verdict{"nobody asks", "To the loop every error is a reason to try again."},
		Happened: verdict{"nobody asks", "The loop has no ref and no record: a second request is a new one to everybody."},
		So:       verdict{"done", "The last attempt returned no error, so the loop reports success."},
	}
	if err != nil {
		a.So = verdict{"it failed", "The retries are used up. Whether it happened, nobody knows."}
	}
	return a
}

// wouldHelp answers the first question from the class.
func wouldHelp(env *envelope) verdict {
	if env.OK {
		return verdict{"no need", "It succeeded."}
	}
	switch env.Class.Safe() {
	case toolexec.ClassTransient:
		return verdict{"yes", "class is transient: the same call may succeed later. That alone does not allow it."}
	case toolexec.ClassEmptyResult:
		return verdict{"no", "class is empty_result: for these arguments there is nothing."}
	case toolexec.ClassMalformed:
		return verdict{"no", "class is malformed: the same arguments are refused again."}
	case toolexec.ClassUnknownTool:
		return verdict{"no", "class is unknown_tool: there is no such tool to call."}
	}
	return verdict{"no", "class is permanent: the same call fails again."}
}

// couldHaveHappened answers the second from the commit state.
func couldHaveHappened(env *envelope, tool string) verdict {
	switch env.CommitState.Safe() {
	case toolexec.Committed:
		if tool == toolRead {
			return verdict{"nothing to happen", "A read has no effect that a second one could double."}
		}
		return verdict{"yes, it has", "commit_state is committed: the effect exists, and that is final."}
	case toolexec.NotCommitted:
		return verdict{"no", "commit_state is not_committed: no attempt has an effect, now or later."}
	}
	return verdict{"yes", "commit_state is unknown: an attempt is unresolved, so nothing is sent before it is looked up or deduplicated."}
}

// failureWouldHelp answers the first question for an attempt, from its class.
func failureWouldHelp(a *toolexec.AttemptInfo) verdict {
	if a.Class.Safe() == toolexec.ClassTransient {
		return verdict{"yes", string(a.Code) + " is transient: the same call may succeed later. That alone does not allow it."}
	}
	return verdict{"no", string(a.Code) + " is " + a.Class.String() + ": the same call fails again."}
}

// failureCouldHaveHappened answers the second, from its evidence.
func failureCouldHaveHappened(a *toolexec.AttemptInfo, tool string) verdict {
	switch {
	case a.Evidence == toolexec.EvidenceNotSent:
		return verdict{"no", "not_sent: it is proven that nothing was sent."}
	case a.Evidence == toolexec.EvidenceRejected:
		return verdict{"no", "rejected: the service says that it did nothing."}
	case tool == toolRead:
		return verdict{"nothing to happen", "in_doubt, but a read has no effect that a second one could double."}
	case tool == toolIdempotent:
		return verdict{"yes", "in_doubt: nobody heard what came of it. The same ref has one effect, so it may be sent again."}
	}
	return verdict{"yes", "in_doubt: nobody heard what came of it. So it is not sent again before that is known."}
}

// soAfter says how a success came after a failure.
func soAfter(env *envelope) verdict {
	switch {
	case env.Verification != nil && env.Verification.Source == toolexec.SourceLookup:
		return verdict{env.NextAction.String(), "It was looked up by its ref, and it is there."}
	case env.Replayed:
		return verdict{env.NextAction.String(), "Its late result joined the record, and the next call was answered from that."}
	}
	return verdict{env.NextAction.String(), "It was sent again when that was allowed, and succeeded."}
}

// soNow says what the host does.
func soNow(env *envelope) verdict {
	return verdict{env.NextAction.String(), whyOf("next_action", env.NextAction.String())}
}

// meaning says what a field of an envelope decides, by its value; "" stands for
// any other.
var meaning = map[string]map[string]string{
	"ok":    {"true": "It succeeded. Nothing else has to be read.", "false": "It did not succeed; what to do follows."},
	"class": {"transient": "Repeating may help.", "": "Repeating the same call does not help."},
	"commit_state": {
		"committed":     "The effect exists. Final.",
		"not_committed": "No attempt has an effect, now or later.",
		"":              "It may have happened. Look before anything is sent.",
	},
	"directive": {
		"after_delay":     "The same call may be made again, later.",
		"after_input_fix": "Only with corrected arguments.",
		"":                "The model must not call again.",
	},
	"not_before": {"": "Not before this."},
	"next_action": {
		"continue":         "Go on with the result.",
		"correct_input":    "The model corrects the call.",
		"wait_and_retry":   "The host makes the same call again, with the same ref, not before not_before.",
		"verify_operation": "Find out what became of the operation, by its ref, before anything is sent.",
		"request_approval": "A person has to allow it first.",
		"":                 "A person decides.",
	},
	"operation_ref": {"": "Names the operation. Calling again with it is always safe."},
	"replayed":      {"": "Answered from the record; the tool did not run for this call."},
	"source": {
		"execution": "Known from the tool's own run.",
		"lookup":    "Known from a look-up.",
		"":          "Known from a person.",
	},
}

var member = regexp.MustCompile(`^ *"([a-z_]+)": (?:"([^"]*)"|(true|false))`)

// explained is a wire form, line by line, with what the deciding fields mean.
func (s *stage) explained(wire []byte, env *envelope) (lines []line) {
	var indented bytes.Buffer
	if err := json.Indent(&indented, wire, "", "  "); err != nil {
		return []line{{Text: string(wire)}}
	}
	for text := range strings.SplitSeq(indented.String(), "\n") {
		l := line{Text: text}
		if m := member.FindStringSubmatch(text); m != nil {
			l.Why = whyOf(m[1], m[2]+m[3])
			switch {
			case m[1] == "not_before":
				l.Why += " That is " + s.notBefore(env) + "."
			case m[1] == "source" && !env.OK:
				l.Why = "" // a look-up that settled nothing decides nothing
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// whyOf is what a field decides; "" when it decides nothing.
func whyOf(field, value string) string {
	if why, ok := meaning[field][value]; ok {
		return why
	}
	return meaning[field][""]
}

// moves are the guard's, for the time line and for the list.
var moves = map[string][2]string{
	"run":       {"run", "it may run"},
	"replay":    {"replay", "replay; the tool is not invoked"},
	"wait":      {"wait", "another call is running it; wait for that"},
	"verify":    {"look up first", "look it up first; the tool is not invoked before"},
	"unknown":   {"not again", "not again: it may have happened; the tool is not invoked"},
	"later":     {"later", "not yet; the tool is not invoked"},
	"unchanged": {"unchanged", "the same call was refused before; the tool is not invoked"},
	"escalated": {"a person", "a person decides; the tool is not invoked"},
}

func guardWord(move string) string {
	if m, ok := moves[move]; ok {
		return m[0]
	}
	return move
}

func guardSays(move string) string {
	if m, ok := moves[move]; ok {
		return m[1]
	}
	return move + "; the tool is not invoked"
}

func lateSays(e toolexec.LateEvidence) string {
	if e.Failure == nil {
		return "late result of an attempt that was answered for: it succeeded"
	}
	return "late result of an attempt that was answered for: " + e.Evidence.String()
}
