package toolexec

import (
	"context"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// From what is known to what is answered: the truth table, and the envelopes
// made of it.

// advice says what may be done next, from the two questions.
//
//	             not_committed                     unknown
//	ReadOnly     what the code implies             –
//	Idempotent   what the code implies             transient: after_delay; else verify
//	Write        what the code implies             verify
func advice(effect Effect, f *Failure, state CommitState) (Directive, NextAction) {
	if state != NotCommitted {
		if effect == Idempotent && f.Class == ClassTransient && f.Code != CodeOperationPending {
			return RetryAfterDelay, NextWaitAndRetry
		}
		return RetryNever, NextVerifyOperation
	}
	facts := factsOf(f.Code, f.Class, f.Category)
	directive, next := facts.Directive, facts.Next
	switch {
	case f.Next != nil && *f.Next != NextContinue: // that goes with a success alone
		next = f.Next.Safe()
		directive = directiveFor(next)
	case f.Next != nil:
		directive, next = RetryNever, NextEscalate
	case f.Class == ClassTransient:
		directive, next = RetryAfterDelay, NextWaitAndRetry
	case next == NextVerifyOperation: // nothing was changed: there is nothing to verify
		next = NextEscalate
	}
	return directive, next
}

// directiveFor is the directive that fits a next action that a tool chose.
func directiveFor(next NextAction) Directive {
	switch next {
	case NextWaitAndRetry:
		return RetryAfterDelay
	case NextCorrectInput:
		return RetryAfterInputFix
	}
	return RetryNever
}

// codeFor tells the same signal apart by what it left behind: an unreachable
// service is just that for a read, and an unknown outcome for a write.
func codeFor(code Code, state CommitState) Code {
	switch code {
	case CodeOutcomeUnknown:
		if state == NotCommitted {
			return CodeDependencyUnavailable
		}
	case CodeDeadlineExceeded, CodeDependencyUnavailable, CodeDependencyTimeout:
		if state != NotCommitted {
			return CodeOutcomeUnknown
		}
	}
	return code
}

// failed is the envelope of a failure: state is the operation's, wait the time
// until the next action is sensible, left the attempts (or corrections) left.
func (c *call) failed(f *Failure, state CommitState, wait time.Duration, left int) head {
	directive, next := advice(c.effect(), f, state)
	return c.failure(f, state, directive, next, wait, left)
}

func (c *call) failure(f *Failure, state CommitState, directive Directive, next NextAction, wait time.Duration, left int) head {
	h := head{
		Code: codeFor(f.Code, state), Class: f.Class, Category: f.Category, CommitState: state,
		Retry: Retry{Directive: directive}, NextAction: next, OperationRef: c.refOfFailure(),
		SafeDetails: c.safeDetails(f.Details), FieldErrors: slices.Clone(f.Fields), cause: f.Err,
	}
	if directive != RetryNever {
		h.Retry.MaxAttemptsRemaining = min(max(left, 0), math.MaxInt32)
	}
	unseen := c.operation != nil && c.t.verifiable && c.record.dueForLookup()
	if wait > 0 || unseen && next == NextVerifyOperation { // a zero time would say that nothing is planned
		h.Retry.NotBefore = time.Now().Add(max(wait, 0))
	}
	if f.RetryAfter > 0 {
		h.addDetail(DetailRetryAfter, int64(math.Ceil(f.RetryAfter.Seconds())))
	}
	verifyWith := c.x.verificationToolOf(c.t)
	if next == NextVerifyOperation && verifyWith != "" {
		h.addDetail(DetailVerificationTool, verifyWith)
	}
	if c.operation != nil && c.record.Verification != nil && c.record.State != StateCommitted && !unseen {
		v := *c.record.Verification
		h.Verification = &v
	}
	h.speak(c.t, f, verifyWith)
	return h
}

// refOfFailure is the ref that an answer hands out. A read's is minted here:
// only a failure needs one. A guarded tool's that was minted and names no
// record is kept back: given again it would start an operation beside an equal
// one that is open, which a call without a ref does not.
func (c *call) refOfFailure() string {
	switch {
	case c.t.guarded() && (c.operation == nil || c.minted && c.record.State == StateAbsent):
		return ""
	case c.key.Ref == "" && !c.t.guarded():
		c.key.Ref = mintRef()
	}
	if !validRef(c.key.Ref) {
		return ""
	}
	return c.key.Ref
}

func (e *Envelope[T]) addDetail(key string, v any) {
	if e.SafeDetails == nil {
		e.SafeDetails = Details{}
	}
	e.SafeDetails[key] = v
}

// ownFailure answers for the attempts that this call made itself.
func (c *call) ownFailure(out outcome, stored bool) head {
	rec, f := c.record, out.fail
	state := rec.CommitState()
	if !stored && c.session != nil && c.session.mayBeLost() {
		state = CommitUnknown // others may have had the operation since
	}
	if state == Committed { // late evidence came in between
		return c.marked(rec, stored)
	}
	if rec.State == StateEscalated { // perhaps by a look-up, so the code is the record's
		was := failureOf(rec)
		was.Err = f.Err
		return c.failure(was, state, RetryNever, NextEscalate, 0, 0)
	}
	if state == CommitUnknown && c.effect() == Idempotent && c.intent.approval && rec.Approval != nil && rec.Approval.Spent {
		return c.failure(f, state, RetryNever, NextVerifyOperation, c.wait(rec.NextCheckAt), 0)
	}
	left := c.attemptsLeft()
	if f.isSticky() {
		left = c.t.maxCorrect - rec.Corrections
	}
	directive, next := advice(c.effect(), f, state)
	wait := out.notBefore
	if stored {
		wait = c.wait(rec.NotBefore) // a look-up may have taken its time since
	}
	if next == NextVerifyOperation {
		wait = max(c.wait(rec.NextCheckAt), wait)
	}
	h := c.failure(f, state, directive, next, wait, left)
	h.Unrecorded = !stored
	return c.remember(h)
}

// standing answers from the record alone: the tool did not run for this call.
func (c *call) standing(mv move) head {
	rec := c.record
	f := failureOf(rec)
	switch mv {
	case moveLater:
		if f.Class != ClassTransient {
			f = &Failure{Code: CodeDependencyUnavailable, Class: ClassTransient, Category: CategoryDependency}
		}
		return c.failure(f, rec.CommitState(), RetryAfterDelay, NextWaitAndRetry, c.wait(rec.NotBefore), c.attemptsLeft())
	case moveUnchanged:
		return c.unchanged(f)
	case moveRefReused:
		return c.refReused()
	case moveNeedApprove:
		return c.refusal(CodeMissingApproval)
	case moveExpired:
		return c.refusal(CodeApprovalExpired)
	case moveEscalated:
		return c.failure(f, rec.CommitState(), RetryNever, NextEscalate, 0, 0)
	}
	wait := c.wait(rec.NextCheckAt)
	return c.failure(f, CommitUnknown, RetryNever, NextVerifyOperation, max(wait, c.wait(rec.NotBefore)), 0)
}

// standingAnswer is what a call of the operation would be answered now, from
// its record alone.
func (c *call) standingAnswer() head {
	rec := c.record
	switch rec.State.Safe() {
	case StateCommitted:
		return c.recorded(rec)
	case StateReleased, StateRejected:
		f, left := failureOf(rec), c.attemptsLeft()
		if rec.State == StateRejected {
			left = c.t.maxCorrect - rec.Corrections
		}
		return c.failed(f, NotCommitted, c.wait(rec.NotBefore), left)
	case StateInFlight:
		return c.inProgress()
	case StateUnknown:
		return c.standing(moveUnknown)
	case StateAwaitingApproval:
		if a := rec.Approval; a != nil && a.expired(c.storeNow()) {
			return c.standing(moveExpired)
		}
		return c.standing(moveNeedApprove)
	}
	return c.standing(moveEscalated)
}

// failureOf is the failure that a record remembers. One caller's cancel is no
// business of another's: a record never holds it.
func failureOf(r *Record) *Failure {
	l := r.LastFailure
	if l == nil {
		return &Failure{Code: CodeOutcomeUnknown, Class: ClassTransient, Category: CategoryDependency}
	}
	return &Failure{
		Code: l.Code, Class: l.Class, Category: l.Category,
		AgentMessage: l.AgentMessage, UserMessage: l.UserMessage, Details: l.Details,
	}
}

func (c *call) unchanged(was *Failure) head {
	return c.remember(c.failed(c.unchangedFailure(was), NotCommitted, 0, c.t.maxCorrect-c.record.Corrections))
}

// refReused: the ref names another operation, which is left as it is.
func (c *call) refReused() head {
	f := &Failure{Code: CodeOperationRefReused}
	f.complete()
	existing, next := c.record.CommitState(), NextEscalate
	switch c.record.State {
	case StateInFlight, StateUnknown:
		next = NextVerifyOperation
		f.AgentMessage = "The operation ref names another operation, which may have been carried out."
	case StateCommitted:
		f.AgentMessage = "The operation ref names another operation, which was carried out."
	}
	f.Details = Details{DetailExistingCommitState: existing.String()}
	h := c.failure(f, NotCommitted, RetryNever, next, 0, 0)
	h.Verification = nil
	return h
}

func (c *call) refusal(code Code) head {
	f := &Failure{Code: code}
	f.complete()
	return c.failed(f, NotCommitted, 0, 0)
}

// invalidRef refuses a ref that no operation can have. It is named by that ref
// for the loop breaker, whatever the arguments are.
func (c *call) invalidRef() head {
	if c.operation == nil {
		c.operation = newOperation()
	}
	c.refuse(repeatKey{c.key.Scope, c.runID, c.t.name, "ref " + digestOf([]byte(c.key.Ref))})
	return c.remember(c.failed(c.again(malformed(CodeInvalidOperationRef, nil)), NotCommitted, 0, 1))
}

// inProgress: another owner has the operation, and this call's time is up.
func (c *call) inProgress() head {
	f := &Failure{Code: CodeOperationInProgress}
	if cut := c.cutFailure(); cut.Code == CodeCancelled {
		f = cut
	}
	f.complete()
	return c.failure(f, CommitUnknown, RetryAfterDelay, NextWaitAndRetry, 0, c.attemptsLeft())
}

// guardUnavailable: nothing was started. What an earlier call did under a given
// ref cannot be known without the store.
func (c *call) guardUnavailable(err error) head {
	f := &Failure{Code: CodeGuardUnavailable, Err: err}
	f.complete()
	state := CommitUnknown
	if c.minted && c.session == nil {
		state = NotCommitted
	}
	return c.failure(f, state, RetryAfterDelay, NextWaitAndRetry, 0, c.attemptsLeft())
}

// guardFull: there is no record, so nothing was ever started.
func (c *call) guardFull(err error) head {
	f := &Failure{Code: CodeGuardFull, Err: err}
	f.complete()
	return c.failed(f, NotCommitted, 0, c.t.maxAttempts)
}

// succeeded makes the zero h the envelope of a success.
func (c *call) succeeded(v *Verification, h *head) {
	h.OK, h.Code, h.CommitState, h.NextAction = true, CodeOK, Committed, NextContinue
	h.OperationRef, h.Verification = c.key.Ref, v
}

// What a success may have to add.
const (
	noteNotEncodable = "the result could not be encoded"
	noteNotKept      = "the result is not kept for a replay: it is too large or could not be encoded"
	noteWithheld     = "the result breaks the tool's output contract and is withheld; do not repeat the call"
	noteGone         = "the result is not known, or no longer kept"
)

// success answers for an attempt that succeeded now: the caller gets its result
// whole, unless it breaks the tool's contract.
func (c *call) success(won *invocation, rec *Record, stored bool) (h head) {
	c.succeeded(verificationOf(rec), &h)
	h.Unrecorded = !stored
	switch {
	case c.t.output != nil && (won.encodeErr != nil || !c.t.keeps(won.encoded)):
		h.addDetail(DetailNote, noteWithheld)
		h.AgentMessage = c.t.name + " succeeded, but its result breaks its contract and is withheld. Do not call it again for this."
		return h
	case won.encodeErr != nil && c.byName:
		h.addDetail(DetailNote, noteNotEncodable)
		return h
	case won.encodeErr != nil || !rec.ResultPresent:
		h.addDetail(DetailNote, noteNotKept)
	}
	c.winner, h.HasResult = won, true
	return h
}

// marked answers for an operation that is committed although the attempt of
// this call ended otherwise: it was marked, or late evidence came in.
func (c *call) marked(rec *Record, stored bool) head {
	h := c.fromRecord(rec)
	h.Unrecorded = !stored
	return h
}

// verifiedSuccess answers for what a look-up found. The caller of a success
// that was confirmed so has its result as of any other success, also where the
// record does not keep it.
func (c *call) verifiedSuccess(rec *Record) head {
	if won := c.unconfirmed(); won != nil && !rec.ResultPresent {
		return c.success(won, rec, true)
	}
	return c.fromRecord(rec)
}

// replay answers with what an earlier call did.
func (c *call) replay(rec *Record) head {
	h := c.fromRecord(rec)
	h.Replayed = h.OK
	return h
}

// fromRecord answers with the recorded result, as a copy of the caller's own;
// never with that of other arguments.
func (c *call) fromRecord(rec *Record) head {
	if !c.isOf(rec) {
		c.record = rec
		return c.refReused()
	}
	if rec.Unheard && (c.operation == nil || !c.resumed) { // a supervisor tells no caller
		c.hear(rec)
	}
	return c.recorded(rec)
}

// recorded is the success that a record holds.
func (c *call) recorded(rec *Record) (h head) {
	c.succeeded(verificationOf(rec), &h)
	h.OperationRef = rec.Ref
	if rec.ResultPresent {
		c.result, h.HasResult = slices.Clone(rec.Result), true
		return h
	}
	h.addDetail(DetailNote, noteGone)
	return h
}

// verificationOf says how a commit is known: by execution, at the time it was
// settled, unless the record says otherwise.
func verificationOf(r *Record) *Verification {
	v := deref(r.Verification)
	if v.CheckedAt.IsZero() {
		v.CheckedAt = r.SettledAt.Time()
	}
	return &v
}

// safeDetails keeps allowlisted keys and scalars.
func (c *call) safeDetails(d Details) Details {
	var out Details
	for k, v := range d {
		if s, ok := safeScalar(v); ok && (slices.Contains(detailKeys, k) || slices.Contains(c.t.detailKeys, k)) {
			if out == nil {
				out = Details{}
			}
			out[k] = s
		}
	}
	return out
}

var detailKeys = []string{
	DetailField, DetailAllowedValues, DetailRetryAfter, DetailResourceVersion, DetailVerificationTool,
	DetailExistingCommitState, DetailPartial, DetailNote,
}

// maxDetail bounds a text among the details, in bytes.
const maxDetail = 256

// jsonNumber is the grammar of RFC 8259, section 6.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func safeScalar(v any) (any, bool) {
	switch s := v.(type) {
	case string:
		return cutText(s, maxDetail), true
	case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return s, true
	case float32:
		return s, !math.IsNaN(float64(s)) && !math.IsInf(float64(s), 0)
	case float64:
		return s, !math.IsNaN(s) && !math.IsInf(s, 0)
	case json.Number:
		return s, jsonNumber.MatchString(string(s))
	}
	return nil, false
}

// cutText shortens s to n bytes of valid UTF-8.
func cutText(s string, n int) string {
	s = strings.ToValidUTF8(s, "")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// contextual values of typed calls ------------------------------------------

type (
	refKey   struct{}
	scopeKey struct{}
	runKey   struct{}
)

// refValue remembers in which attempt a ref was set: it does not reach through
// a tool into the calls that the tool itself makes.
type refValue struct {
	ref    string
	inside *invocation
}

// scopeValue remembers the same.
type scopeValue struct {
	scope  string
	inside *invocation
}

// WithOperationRef gives the typed calls made with ctx an operation ref. Calls
// that a tool makes with its own context do not inherit it.
func WithOperationRef(ctx context.Context, ref string) context.Context {
	return context.WithValue(ctx, refKey{}, refValue{ref, invocationOf(ctx)})
}

// WithScope gives the calls made with ctx a scope: the tenant or principal on
// whose behalf they run. Refs of different scopes never meet. Calls that a tool
// makes have the scope of its operation, unless it gives them another.
func WithScope(ctx context.Context, scope string) context.Context {
	return context.WithValue(ctx, scopeKey{}, scopeValue{scope, invocationOf(ctx)})
}

// WithRunID gives the typed calls made with ctx the id of the agent's run, in
// which loops are broken.
func WithRunID(ctx context.Context, run string) context.Context {
	return context.WithValue(ctx, runKey{}, run)
}

func callContext(ctx context.Context) (ref, scope, run string) {
	if v, ok := ctx.Value(refKey{}).(refValue); ok && v.inside == invocationOf(ctx) {
		ref = v.ref
	}
	scope = Scope(ctx)
	run, _ = ctx.Value(runKey{}).(string)
	return ref, scope, run
}
