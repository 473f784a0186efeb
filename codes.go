package toolexec

import (
	"fmt"
	"slices"
	"strings"
)

//go:generate go test -run ^TestCodesDocument$ . -update

// Code is a stable, documented identifier of what happened. The library's own
// are the constants below; a tool may add its own of the form CodePattern.
// docs/codes.md lists what each one implies.
type Code string

// CodePattern is the form of every code.
const CodePattern = `^[A-Z][A-Z0-9_]{0,62}$`

// The library's codes. codeTable says what each one means.
const (
	CodeOK                      Code = "OK"
	CodeInvalidArguments        Code = "INVALID_ARGUMENTS"
	CodeUnchangedRetry          Code = "UNCHANGED_RETRY"
	CodeUnknownTool             Code = "UNKNOWN_TOOL"
	CodeEmptyResult             Code = "EMPTY_RESULT"
	CodeNotFound                Code = "NOT_FOUND"
	CodeDependencyUnavailable   Code = "DEPENDENCY_UNAVAILABLE"
	CodeDependencyTimeout       Code = "DEPENDENCY_TIMEOUT"
	CodeRateLimited             Code = "RATE_LIMITED"
	CodeQuotaExhausted          Code = "QUOTA_EXHAUSTED"
	CodeOutcomeUnknown          Code = "OUTCOME_UNKNOWN"
	CodeOperationPending        Code = "OPERATION_PENDING"
	CodePartialResult           Code = "PARTIAL_RESULT"
	CodeDeadlineExceeded        Code = "DEADLINE_EXCEEDED"
	CodeCancelled               Code = "CANCELLED"
	CodePermissionDenied        Code = "PERMISSION_DENIED"
	CodeAuthenticationRequired  Code = "AUTHENTICATION_REQUIRED"
	CodePaymentRequired         Code = "PAYMENT_REQUIRED"
	CodeMissingApproval         Code = "MISSING_APPROVAL"
	CodeApprovalDenied          Code = "APPROVAL_DENIED"
	CodeApprovalExpired         Code = "APPROVAL_EXPIRED"
	CodeConflict                Code = "CONFLICT"
	CodeVersionConflict         Code = "VERSION_CONFLICT"
	CodeSerializationConflict   Code = "SERIALIZATION_CONFLICT"
	CodeResourceLocked          Code = "RESOURCE_LOCKED"
	CodeAlreadyExists           Code = "ALREADY_EXISTS"
	CodePreconditionFailed      Code = "PRECONDITION_FAILED"
	CodeOperationInProgress     Code = "OPERATION_IN_PROGRESS"
	CodeOperationRefReused      Code = "OPERATION_REF_REUSED"
	CodeInvalidOperationRef     Code = "INVALID_OPERATION_REF"
	CodeGuardUnavailable        Code = "GUARD_UNAVAILABLE"
	CodeGuardFull               Code = "GUARD_FULL"
	CodeVerificationConflict    Code = "VERIFICATION_CONFLICT"
	CodeVerificationUnavailable Code = "VERIFICATION_UNAVAILABLE"
	CodeResultMalformed         Code = "RESULT_MALFORMED"
	CodeResultTooLarge          Code = "RESULT_TOO_LARGE"
	CodeToolPanic               Code = "TOOL_PANIC"
	CodeToolBusy                Code = "TOOL_BUSY"
	CodeToolFailed              Code = "TOOL_FAILED"
	CodeUpstreamError           Code = "UPSTREAM_ERROR"
	CodeUnsupportedOperation    Code = "UNSUPPORTED_OPERATION"
	CodeConfigError             Code = "CONFIG_ERROR"
	CodeTLSVerificationFailed   Code = "TLS_VERIFICATION_FAILED"
	CodeRedirected              Code = "REDIRECTED"
	CodeProtocolError           Code = "PROTOCOL_ERROR"
	CodeDataLoss                Code = "DATA_LOSS"
)

// codeFacts is what a code implies while nothing was committed. An unresolved
// attempt overrides Directive and Next: see answer in answer.go.
type codeFacts struct {
	Code      Code
	Class     Class
	Category  Category
	Directive Directive
	Next      NextAction
	// Sticky: the refusal is determined by the input, so the same input is
	// refused again without asking. Refusals that depend on state are not.
	Sticky bool
	// Happened is the first sentence of the agent's message; %s is the tool.
	Happened string
}

var codeTable = []codeFacts{
	{CodeOK, ClassPermanent, CategoryInternal, RetryNever, NextContinue, false, "%s succeeded."},

	{CodeInvalidArguments, ClassPermanent, CategoryValidation, RetryAfterInputFix, NextCorrectInput, true, "The arguments for %s are not valid."},
	{CodeUnchangedRetry, ClassMalformed, CategoryValidation, RetryAfterInputFix, NextCorrectInput, true, "The same call of %s was already refused and nothing relevant in it changed."},
	{CodeUnknownTool, ClassUnknownTool, CategoryValidation, RetryNever, NextCorrectInput, false, "There is no tool of that name."},
	{CodeInvalidOperationRef, ClassMalformed, CategoryValidation, RetryAfterInputFix, NextCorrectInput, false, "The operation ref given for %s is not valid: 1 to 200 bytes of A-Z a-z 0-9 . _ : / @ - are."},
	{CodeEmptyResult, ClassEmptyResult, CategoryValidation, RetryAfterInputFix, NextCorrectInput, false, "%s found nothing for these arguments."},
	{CodeNotFound, ClassPermanent, CategoryValidation, RetryAfterInputFix, NextCorrectInput, false, "What %s was asked for does not exist."},

	{CodeDependencyUnavailable, ClassTransient, CategoryDependency, RetryAfterDelay, NextWaitAndRetry, false, "The service behind %s could not be reached."},
	{CodeDependencyTimeout, ClassTransient, CategoryDependency, RetryAfterDelay, NextWaitAndRetry, false, "The service behind %s did not answer in time."},
	{CodeRateLimited, ClassTransient, CategoryDependency, RetryAfterDelay, NextWaitAndRetry, false, "The service behind %s limits how often it is called."},
	{CodeQuotaExhausted, ClassPermanent, CategoryDependency, RetryNever, NextEscalate, false, "The quota for %s is used up."},
	{CodeOutcomeUnknown, ClassTransient, CategoryDependency, RetryNever, NextVerifyOperation, false, "%s may have been sent, and no usable answer came back."},
	{CodeOperationPending, ClassTransient, CategoryDependency, RetryNever, NextVerifyOperation, false, "%s was accepted but is not finished."},
	{CodePartialResult, ClassPermanent, CategoryDependency, RetryNever, NextEscalate, false, "%s did only a part."},
	{CodeDeadlineExceeded, ClassTransient, CategoryDependency, RetryAfterDelay, NextWaitAndRetry, false, "%s did not finish in time."},
	{CodeCancelled, ClassTransient, CategoryInternal, RetryAfterDelay, NextWaitAndRetry, false, "The call of %s was cancelled."},
	{CodeOperationInProgress, ClassTransient, CategoryConflict, RetryAfterDelay, NextWaitAndRetry, false, "%s is already running for this operation."},
	{CodeToolBusy, ClassTransient, CategoryDependency, RetryAfterDelay, NextWaitAndRetry, false, "%s has too many calls that have not ended yet."},
	{CodeGuardUnavailable, ClassTransient, CategoryDependency, RetryAfterDelay, NextWaitAndRetry, false, "The record of operations could not be written, so %s was not started."},
	{CodeGuardFull, ClassTransient, CategoryDependency, RetryAfterDelay, NextWaitAndRetry, false, "The record of operations is full, so %s was not started."},
	{CodeSerializationConflict, ClassTransient, CategoryConflict, RetryAfterDelay, NextWaitAndRetry, false, "%s met a concurrent change."},
	{CodeResourceLocked, ClassTransient, CategoryConflict, RetryAfterDelay, NextWaitAndRetry, false, "What %s needs is locked by somebody else."},

	{CodePermissionDenied, ClassPermanent, CategoryAuthorization, RetryNever, NextRequestApproval, false, "%s is not permitted for this caller."},
	{CodeAuthenticationRequired, ClassPermanent, CategoryAuthorization, RetryNever, NextEscalate, false, "%s was refused because its credentials were not accepted."},
	{CodeMissingApproval, ClassPermanent, CategoryAuthorization, RetryNever, NextRequestApproval, false, "%s needs a person's approval for exactly this call."},
	{CodeApprovalDenied, ClassPermanent, CategoryAuthorization, RetryNever, NextEscalate, false, "A person denied this call of %s."},
	{CodeApprovalExpired, ClassPermanent, CategoryAuthorization, RetryNever, NextRequestApproval, false, "The approval for this call of %s has expired."},

	{CodePaymentRequired, ClassPermanent, CategoryConflict, RetryNever, NextRequestApproval, false, "%s was refused because a payment is needed."},
	{CodeConflict, ClassPermanent, CategoryConflict, RetryNever, NextEscalate, false, "The present state does not allow %s."},
	{CodeVersionConflict, ClassPermanent, CategoryConflict, RetryNever, NextEscalate, false, "What %s was to change has changed meanwhile."},
	{CodeAlreadyExists, ClassPermanent, CategoryConflict, RetryNever, NextEscalate, false, "What %s was to make exists already."},
	{CodePreconditionFailed, ClassPermanent, CategoryConflict, RetryNever, NextEscalate, false, "A precondition of %s does not hold."},
	{CodeOperationRefReused, ClassPermanent, CategoryConflict, RetryNever, NextEscalate, false, "The operation ref given for %s names another operation."},

	{CodeVerificationConflict, ClassPermanent, CategoryConflict, RetryNever, NextEscalate, false, "The look-up for %s found something other than what was asked for."},
	{CodeVerificationUnavailable, ClassPermanent, CategoryDependency, RetryNever, NextEscalate, false, "Whether %s happened could not be looked up."},
	{CodeResultMalformed, ClassPermanent, CategoryDependency, RetryNever, NextEscalate, false, "%s gave a result that breaks its contract."},
	{CodeResultTooLarge, ClassPermanent, CategoryDependency, RetryNever, NextEscalate, false, "%s gave a result that is too large."},
	{CodeUpstreamError, ClassPermanent, CategoryDependency, RetryNever, NextEscalate, false, "The service behind %s reported an error."},
	{CodeRedirected, ClassPermanent, CategoryDependency, RetryNever, NextEscalate, false, "The service behind %s answered with a redirection."},
	{CodeTLSVerificationFailed, ClassPermanent, CategoryDependency, RetryNever, NextEscalate, false, "The identity of the service behind %s could not be verified."},
	{CodeDataLoss, ClassPermanent, CategoryDependency, RetryNever, NextEscalate, false, "The service behind %s reported lost or damaged data."},
	{CodeToolPanic, ClassPermanent, CategoryInternal, RetryNever, NextEscalate, false, "%s crashed."},
	{CodeToolFailed, ClassPermanent, CategoryInternal, RetryNever, NextEscalate, false, "%s failed."},
	{CodeUnsupportedOperation, ClassPermanent, CategoryInternal, RetryNever, NextEscalate, false, "The service behind %s does not support this operation."},
	{CodeConfigError, ClassPermanent, CategoryInternal, RetryNever, NextEscalate, false, "%s is not configured correctly."},
	{CodeProtocolError, ClassPermanent, CategoryInternal, RetryNever, NextEscalate, false, "The service behind %s could not be spoken to."},
}

var codeIndex = func() map[Code]*codeFacts {
	m := make(map[Code]*codeFacts, len(codeTable))
	for i := range codeTable {
		m[codeTable[i].Code] = &codeTable[i]
	}
	return m
}()

// validCode reports whether c has the form CodePattern.
func validCode(c Code) bool {
	if len(c) == 0 || len(c) > 63 || c[0] < 'A' || c[0] > 'Z' {
		return false
	}
	return !strings.ContainsFunc(string(c), func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
	})
}

// factsOf returns what code implies; for a tool's own code, what its class and
// category do.
func factsOf(code Code, class Class, cat Category) codeFacts {
	if f := codeIndex[code]; f != nil {
		return *f
	}
	f := codeFacts{Code: code, Class: class, Category: cat, Happened: "%s failed."}
	switch {
	case class == ClassTransient:
		f.Directive, f.Next = RetryAfterDelay, NextWaitAndRetry
	case class == ClassEmptyResult:
		f.Directive, f.Next = RetryAfterInputFix, NextCorrectInput
	case cat == CategoryValidation:
		f.Directive, f.Next, f.Sticky = RetryAfterInputFix, NextCorrectInput, true
	case cat == CategoryAuthorization:
		f.Next = NextRequestApproval
	}
	return f
}

// codesMarkdown renders codeTable as docs/codes.md.
func codesMarkdown() string {
	var b strings.Builder
	b.WriteString("# Codes\n\nGenerated by `go generate` from the table in `codes.go`; do not edit.\n\n" +
		"What each code implies while nothing was committed. While an attempt is unresolved the commit state is\n" +
		"`unknown`, and the answer is `never` and `verify_operation` for a write; for an idempotent tool and a\n" +
		"transient failure it is `after_delay` and `wait_and_retry`. *Sticky*: the same input is refused again\n" +
		"without asking the tool. `INVALID_ARGUMENTS` is `malformed` when the arguments were refused before the tool ran, and\n" +
		"`permanent` when the tool or the remote side refused them. A tool's own codes match `" + CodePattern + "`.\n\n" +
		"| code | class | category | directive | next action | sticky | meaning |\n|---|---|---|---|---|---|---|\n")
	rows := slices.Clone(codeTable)
	slices.SortFunc(rows, func(a, b codeFacts) int { return strings.Compare(string(a.Code), string(b.Code)) })
	for _, f := range rows {
		sticky := ""
		if f.Sticky {
			sticky = "yes"
		}
		class, cat, meaning := f.Class.String(), f.Category.String(), strings.ReplaceAll(f.Happened, "%s", "the tool")
		if f.Code == CodeOK {
			class, cat = "–", "–"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", f.Code, class, cat, f.Directive, f.Next, sticky, upperFirst(meaning))
	}
	return b.String()
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
