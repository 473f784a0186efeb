package toolexec

import (
	"fmt"
	"strings"
	"time"
)

// Messages are fixed templates, or text that a tool's author wrote. No byte of
// a remote system, an argument or a panic gets here.

// speak writes both messages of a failure. An author's text replaces the
// sentence about what happened; what follows from it is always ours.
func (e *Envelope[T]) speak(t *tool, f *Failure, verifyWith string) {
	tool, effect := t.name, t.effect
	happened := f.AgentMessage
	if happened == "" {
		happened = happenedText(e.Code, f, tool)
	}
	parts := []string{strings.TrimSpace(happened)}
	if effect != ReadOnly {
		parts = append(parts, stateText(e.CommitState))
	}
	parts = append(parts, e.nextText(t, verifyWith))
	e.AgentMessage = strings.Join(parts, " ")
	if e.UserMessage = f.UserMessage; e.UserMessage == "" {
		e.UserMessage = userText(e.Code, e.NextAction, e.CommitState)
	}
}

func happenedText(code Code, f *Failure, tool string) string {
	if tool == "" {
		tool = "The tool"
	}
	text := factsOf(code, f.Class, f.Category).Happened
	if !strings.Contains(text, "%s") {
		return text
	}
	return fmt.Sprintf(text, tool)
}

func stateText(s CommitState) string {
	if s == NotCommitted {
		return "Nothing was changed."
	}
	return "The change may have been made."
}

func (e *Envelope[T]) nextText(t *tool, verifyWith string) string {
	switch e.NextAction {
	case NextCorrectInput:
		if t.name == "" {
			return "Use the name of a tool that was offered."
		}
		return "Correct the arguments before calling " + t.name + " again."
	case NextWaitAndRetry:
		return e.waitText(t.effect)
	case NextVerifyOperation:
		return e.verifyText(t, verifyWith)
	case NextRequestApproval:
		return "A person must allow it first; do not call it before."
	}
	return "Do not call it again for this; a person must decide."
}

func (e *Envelope[T]) waitText(effect Effect) string {
	s := "The same call may be made again"
	if !e.Retry.NotBefore.IsZero() {
		s += " after " + wholeSecond(e.Retry.NotBefore)
	} else {
		s += " a little later"
	}
	if effect != ReadOnly && e.OperationRef != "" {
		s += ", with operation_ref " + e.OperationRef
	}
	return s + "."
}

// wholeSecond writes t for reading, never earlier than it is.
func wholeSecond(t time.Time) string {
	if r := t.Truncate(time.Second); r.Before(t) {
		t = r.Add(time.Second)
	}
	return t.UTC().Format(time.RFC3339)
}

func (e *Envelope[T]) verifyText(t *tool, with string) string {
	s := "Do not call " + t.name + " again, by any route. "
	switch {
	case with != "":
		return s + "Look up operation_ref " + e.OperationRef + " first, with " + with + "."
	case t.verifiable:
		return s + "First operation_ref " + e.OperationRef + " must be looked up."
	}
	return s + "A person must look up operation_ref " + e.OperationRef + " first."
}

func userText(code Code, next NextAction, state CommitState) string {
	switch {
	case code == CodeUnknownTool: // only the model can act on it
		return "This could not be done just now. It is being tried another way."
	case next == NextVerifyOperation:
		return "We are checking whether this went through."
	case next == NextWaitAndRetry && state.Safe() == CommitUnknown:
		return "We are still working on this."
	case next == NextWaitAndRetry:
		return "This is not possible just now; it can be done a little later."
	case next == NextCorrectInput:
		return "Some details need to be corrected before this can be done."
	case next == NextRequestApproval:
		return "This needs approval first."
	case state.Safe() == CommitUnknown:
		return "We could not confirm whether this went through. Someone will look into it."
	}
	return "This could not be done. Someone will look into it."
}
