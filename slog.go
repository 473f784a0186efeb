package toolexec

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
)

// SlogObserver writes events to a slog.Logger: what operators need and a model
// must not see, such as causes and stacks. What looks like a secret in the text
// of a cause is replaced by "[redacted]"; that is a net, not a proof, so treat
// the log as confidential all the same. The zero value writes to
// slog.Default().
type SlogObserver struct {
	// Logger to write to; nil: slog.Default() at the time of the event.
	Logger *slog.Logger
	// Redact, if not nil, is applied to the text of every cause and stack after
	// the built-in rules.
	Redact func(text string) string
}

var _ Observer = (*SlogObserver)(nil)

// Start implements Observer; beginnings are logged at debug level.
func (o *SlogObserver) Start(ctx context.Context, e Event) context.Context {
	o.log(ctx, slog.LevelDebug, e.EventName()+" started", o.attrs(e))
	return ctx
}

// End implements Observer. Failures are logged at warn level, an operation left
// unknown or escalated at error level, the rest at info.
func (o *SlogObserver) End(ctx context.Context, e Event) {
	o.log(ctx, levelOf(e), e.EventName(), o.attrs(e))
}

// Note implements Observer.
func (o *SlogObserver) Note(ctx context.Context, e Event) {
	o.log(ctx, levelOf(e), e.EventName(), o.attrs(e))
}

func (o *SlogObserver) log(ctx context.Context, level slog.Level, msg string, attrs []slog.Attr) {
	l := o.Logger
	if l == nil {
		l = slog.Default()
	}
	l.LogAttrs(ctx, level, "toolexec: "+msg, attrs...)
}

func levelOf(e Event) slog.Level {
	switch i := e.(type) {
	case CallInfo:
		return i.level()
	case AttemptInfo:
		if !i.OK {
			return slog.LevelWarn
		}
	case VerificationInfo:
		if i.Failed {
			return slog.LevelWarn
		}
	case LateEvidence:
		if i.StoreErr != nil {
			return slog.LevelError
		}
	case DuplicateEffect, RecoveryFailed:
		return slog.LevelError
	case StoreNearlyFull, RetryRefused:
		return slog.LevelWarn
	case PauseInfo, GuardDecision:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

func (i CallInfo) level() slog.Level {
	switch {
	case i.OK && !i.Unrecorded:
		return slog.LevelInfo
	case i.CommitState == CommitUnknown || i.NextAction == NextEscalate || i.Unrecorded:
		return slog.LevelError
	}
	return slog.LevelWarn
}

func (o *SlogObserver) attrs(e Event) []slog.Attr {
	switch i := e.(type) {
	case CallInfo:
		return o.callAttrs(i)
	case AttemptInfo:
		return o.attemptAttrs(i)
	case PauseInfo:
		return append(opAttrs(i.Tool, i.Key), slog.Duration("for", i.For), slog.String("after", string(i.After)))
	case VerificationInfo:
		a := opAttrs(i.Tool, i.Key)
		if !i.Done {
			return a
		}
		a = append(a, slog.Bool("failed", i.Failed), slog.String("verdict", i.Verdict.String()), slog.Duration("took", i.Took))
		return o.withCause(a, i.Err)
	case GuardDecision:
		return append(opAttrs(i.Tool, i.Key), slog.String("move", i.Move), slog.String("state", i.State.String()))
	case RetryRefused:
		return append(opAttrs(i.Tool, i.Key), slog.String("after", string(i.After)))
	case LateEvidence:
		a := append(opAttrs(i.Tool, i.Key), slog.Int("attempt", i.N), slog.String("evidence", i.Evidence.String()))
		return o.withCause(a, errors.Join(i.Failure, i.StoreErr))
	case DuplicateEffect:
		return opAttrs(i.Tool, i.Key)
	case StoreNearlyFull:
		return []slog.Attr{slog.Int("records", i.Records), slog.Int("bound", i.Bound)}
	case RecoveryPass:
		return []slog.Attr{
			slog.Int("due", i.Due), slog.Int("settled", i.Settled), slog.Int("open", i.Open),
			slog.Int("unbound", i.Unbound), slog.Int("failed", i.Failed),
		}
	case RecoveryFailed:
		return o.withCause(nil, i.Err)
	}
	return nil
}

func opAttrs(tool string, key Key) []slog.Attr {
	a := []slog.Attr{slog.String("tool", tool), slog.String("operation_ref", key.Ref)}
	if key.Scope != "" {
		a = append(a, slog.String("scope", key.Scope))
	}
	return a
}

func (o *SlogObserver) callAttrs(i CallInfo) []slog.Attr {
	a := append(opAttrs(i.Tool, Key{i.Scope, i.OperationRef}), slog.String("call_id", i.ID), slog.String("run_id", i.RunID))
	if !i.Done {
		return a
	}
	a = append(a, slog.Bool("ok", i.OK), slog.String("code", string(i.Code)), slog.String("commit_state", i.CommitState.String()),
		slog.String("next_action", i.NextAction.String()), slog.Duration("took", i.Took), slog.Bool("replayed", i.Replayed))
	if i.Unrecorded {
		a = append(a, slog.Bool("recorded", false))
	}
	return o.withCause(a, i.Cause)
}

func (o *SlogObserver) attemptAttrs(i AttemptInfo) []slog.Attr {
	a := append(opAttrs(i.Tool, i.Key), slog.Int("attempt", i.N))
	if !i.Done {
		return a
	}
	a = append(a, slog.Bool("ok", i.OK), slog.String("evidence", i.Evidence.String()), slog.Duration("took", i.Took))
	if i.OK {
		return a
	}
	a = o.withCause(append(a, slog.String("code", string(i.Code)), slog.Bool("outlives", i.Outlives)), i.Cause)
	if len(i.Stack) > 0 {
		a = append(a, slog.String("stack", o.redact(string(i.Stack))))
	}
	return a
}

func (o *SlogObserver) withCause(a []slog.Attr, err error) []slog.Attr {
	if err == nil {
		return a
	}
	return append(a, slog.String("cause", o.redact(causeText(err))))
}

// causeText is the text of an error whose Error may panic.
func causeText(err error) string {
	text := "the error's text cannot be had"
	_ = contained(func() error { text = err.Error(); return nil })
	return text
}

const redacted = "[redacted]"

// secrets are the forms in which credentials usually stand in error texts. Each
// prefers to take too much.
var secrets = []struct {
	form *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@"']*:[^\s"']*@`), "${1}" + redacted + "@"}, // user:password@ of a URL
	{regexp.MustCompile(`([\w.-]+:)[^\s@]*(@(?:tcp|udp|unix)\()`), "${1}" + redacted + "${2}"},        // and of go-sql-driver
	{regexp.MustCompile(`(?i)(\bcookie:\s*)[^\r\n]+`), "${1}" + redacted},                             // all of them, but a Set-Cookie below
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{4,}`), "${1} " + redacted},
	{regexp.MustCompile(`(?i)\b(digest|token)\s+[A-Za-z0-9._~+/=-]{8,}`), "${1} " + redacted},
	{regexp.MustCompile(`(?i)((?:password|passwd|pwd|secret|api[_-]?key|access[_-]?key|token|authorization|credential|cookie|signature|sig)[\\"']*\s*[=:]\s*)` +
		`(\\"(?:[^"\\]|\\[^"])*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s&,;"']+)`), "${1}" + redacted},
	{regexp.MustCompile(`(?i)([?&](?:key|auth|code)=)[^&\s"']+`), "${1}" + redacted},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), redacted}, // a JWT
	{regexp.MustCompile(`\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|xox[abps]|AKIA|ASIA)[_-]?[A-Za-z0-9_-]{12,}`), redacted},
	{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|$)`), redacted},
}

func (o *SlogObserver) redact(text string) string {
	for _, s := range secrets {
		text = s.form.ReplaceAllString(text, s.with)
	}
	if o.Redact != nil {
		text = o.Redact(text)
	}
	return text
}
