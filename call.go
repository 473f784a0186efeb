package toolexec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/toolexec/toolexec/internal/canonical"
)

// none is the result type of the core, which sees no results.
type none struct{}

// head is an envelope without its result.
type head = Envelope[none]

// call is one request to run a tool, from its preparation to its envelope. It
// is owned by the caller's goroutine, except where an invocation that outlives
// it reads what is set before the first attempt: x, t, shell, caller, key,
// arguments, encode, session.
type call struct {
	*operation // of a guarded tool, or a call within a run; nil in a plain read

	x      *Executor
	t      *tool
	shell  shell
	caller context.Context //nolint:containedctx // a call is one request; what outlives it asks for its values and its cancel

	id    string
	key   Key
	runID string

	watch stopwatch
	tries int // attempts made

	encode bool // results are needed as JSON
	byName bool

	winner *invocation // whose result is the answer's; else it is operation.result
}

// operation is what a call knows of the operation it belongs to.
type operation struct {
	intent   intent
	session  *session  // nil before the first dispatch
	first    session   // the memory of session, as a rule
	minted   bool      // the ref is this call's own invention
	resumed  bool      // a supervisor's: the key is the record's, and no caller waits
	partial  bool      // and the record keeps too little to run the tool
	changed  bool      // and this call has changed it
	begun    bool      // the record is in flight for this call already
	unstored bool      // record reads as it would, had the store taken its end
	alias    string    // the ref of a call whose tool has a key of its own
	record   *Record   // as this call last saw it; never nil, never written
	clock    time.Time // the store's clock when it was last seen, or a little less
	seen     time.Time // and ours then
	result   []byte    // of the record, that the answer is made of
	asked    time.Time // our clock before the last begin was stored

	refused *repeatKey // what the loop breaker knows this call by; nil outside a run
}

// noRecord is the record of an operation that has none.
var noRecord = new(Record)

func newOperation() *operation { return &operation{record: noRecord} }

func (c *call) init(ctx context.Context, x *Executor, t *tool, s shell) {
	c.x, c.t, c.shell = x, t, s
	c.encode = t.guarded()
	c.key.Ref, c.key.Scope, c.runID = callContext(ctx)
}

// do is the core: prepare, run, answer. It fills in h, which is zero: an envelope
// is large, and handing it up by value copies it at each step.
func (c *call) do(ctx context.Context, h *head) {
	c.caller = ctx
	c.startWatch()
	if c.x.Observer == nil {
		c.run(ctx, h)
		return
	}
	*h = c.observed(ctx, c.t.name, func(ctx context.Context) (h head) { c.run(ctx, &h); return h })
}

// observed tells the observer of the beginning and the end of what answers the
// call, also when its goroutine dies on the way.
func (c *call) observed(ctx context.Context, tool string, answer func(context.Context) head) (h head) {
	o := c.x.Observer
	info := CallInfo{ID: c.id, Tool: tool, Effect: c.t.effect, Scope: c.key.Scope, RunID: c.runID}
	ctx = observeStart(ctx, o, info)
	c.startWatch() // the observer's time is not the call's
	start := time.Now()
	answered := false
	defer func() {
		if !answered {
			h = c.exited()
		}
		info.OperationRef, info.Took, info.Done = h.OperationRef, time.Since(start), true
		info.setAnswer(&h)
		observeEnd(ctx, o, info)
	}()
	h = answer(ctx)
	answered = true
	return h
}

func (c *call) run(ctx context.Context, h *head) {
	if !c.t.guarded() {
		c.read(ctx, h)
		return
	}
	*h = c.guarded(ctx)
}

// refusedAs answers a call that is not run, and tells the observer of both.
func (c *call) refusedAs(ctx context.Context, tool string, answer func() head) head {
	c.startWatch()
	if c.x.Observer == nil {
		return answer()
	}
	return c.observed(ctx, tool, func(context.Context) head { return answer() })
}

// startWatch starts what is measured from the start of the call.
func (c *call) startWatch() { c.watch.begin(c.caller, c.t.policy.TotalDeadline) }

// effect is the stricter of the tool's and its record's.
func (c *call) effect() Effect {
	if c.operation == nil || c.record.State == StateAbsent {
		return c.t.effect
	}
	return c.t.strictest(c.record.Effect)
}

// read runs a ReadOnly tool: nothing is recorded, so every failure is
// not_committed.
func (c *call) read(ctx context.Context, h *head) {
	if refused := c.prepareRead(); refused != nil {
		*h = *refused
		return
	}
	out := c.attempts(ctx, nil)
	if out.fail == nil {
		c.readSuccess(out.won, h)
		return
	}
	*h = c.failed(out.fail, NotCommitted, out.notBefore, max(c.t.policy.lifetime()-c.tries, 0))
	if out.fail.RetryAfter > 0 && out.fail.Class == ClassTransient {
		c.x.gates.close(c, out.fail, h.Retry.NotBefore)
	}
	*h = c.remember(*h)
}

// prepareRead refuses what must not run. Only a call within a run needs an
// identity: to break loops.
func (c *call) prepareRead() *head {
	if c.key.Ref != "" && !validRef(c.key.Ref) {
		h := c.invalidRef()
		return &h
	}
	f := c.identifyRead()
	if f == nil {
		f = c.runCheck()
	}
	if c.shell.hasCheck() || c.shell.hasRef() { // which may take their time
		c.watch.read()
	}
	switch {
	case f != nil:
		h := c.remember(c.failed(c.again(f), NotCommitted, 0, c.t.maxCorrect))
		return &h
	case c.repeated():
		h := c.unchanged(&Failure{})
		return &h
	}
	return c.x.gates.closed(c)
}

// identifyRead gives a read an identity where it needs one: to break loops
// within a run, and to name it by its tool's key.
func (c *call) identifyRead() *Failure {
	if c.runID == "" && !c.shell.hasRef() {
		return nil
	}
	c.operation = newOperation()
	if c.runID != "" {
		if f := c.identify(); f != nil {
			return f
		}
	}
	if c.shell.hasRef() {
		return c.name()
	}
	return nil
}

// readSuccess hands over the result; by name, only if it keeps its contract.
//
// It counts as checked when its attempt started, as that of a look-up does: what was
// read is at least that fresh (so RFC 9111, section 4.2.3, reckons the age of a response).
func (c *call) readSuccess(won *invocation, h *head) {
	if f := c.breaksContract(won); f != nil {
		*h = c.failed(f, NotCommitted, 0, 0)
		return
	}
	c.winner = won
	c.succeeded(&Verification{CheckedAt: c.watch.now(), Source: SourceExecution}, h)
	h.HasResult = true
}

// breaksContract says so of a result that is needed as JSON and is none, or
// that the tool's output schema refuses.
func (c *call) breaksContract(won *invocation) *Failure {
	raw, err := won.encoded, won.encodeErr
	if c.t.output == nil && (err == nil || !c.byName) {
		return nil
	}
	if raw == nil && err == nil {
		raw, err = won.encodeResult()
	}
	if err == nil && c.t.keeps(raw) {
		return nil
	}
	f := &Failure{Code: CodeResultMalformed, Evidence: EvidenceCommitted, Err: err}
	f.complete()
	return f
}

// outcome is how the attempts of one ownership ended.
type outcome struct {
	won       *invocation
	fail      *Failure // nil when won
	last      *Failure // what the last attempt met, where fail is the caller's cancel
	notBefore time.Duration

	overBudget bool // another attempt was right, and the retry budget refused it
}

// worthKeeping is the failure for the record: not one caller's cancel.
func (o *outcome) worthKeeping() *Failure {
	switch {
	case o.last != nil:
		return o.last
	case o.fail.Code == CodeCancelled:
		return InDoubt(nil)
	}
	return o.fail
}

// attempts runs the tool until it succeeds, or another attempt is not useful or
// not allowed. s is nil for a read.
func (c *call) attempts(ctx context.Context, s *session) outcome {
	wait := c.t.policy.Backoff.pauses()
	var out outcome
	for {
		if f := c.mayStart(ctx); f != nil {
			return out.refused(f)
		}
		if s != nil && c.t.dedupeWindow > 0 && s.commitState() == CommitUnknown && c.windowOver(0) {
			return out.refused(InDoubt(nil))
		}
		i := c.dispatch(ctx, s)
		if i.fail == nil {
			return outcome{won: i.invocation}
		}
		c.watch.read()
		out = outcome{fail: i.fail, notBefore: i.fail.RetryAfter}
		state := NotCommitted
		if s != nil {
			state = s.commitState()
		}
		if !mayRetry(c.effect(), i.fail, state) || ctx.Err() != nil || c.approvalSpent(s) {
			return out
		}
		pause := max(wait.next(), i.fail.RetryAfter)
		out.notBefore = pause
		if !c.worthWaiting(pause, s) || state == CommitUnknown && c.windowOver(pause) {
			return out
		}
		if f := c.overBudget(ctx, i.fail); f != nil {
			out.fail, out.overBudget = f, true
			return out
		}
		if f := c.pause(ctx, pause, i.fail); f != nil {
			return out.refused(f)
		}
		if s != nil && !s.nextAttempt(ctx) {
			return out
		}
	}
}

// refused ends a call whose next attempt may not start: the failure it met
// stays, beside the caller's cancel.
func (o outcome) refused(f *Failure) outcome {
	switch {
	case o.fail == nil:
		o.fail = f
	case f.Code == CodeCancelled:
		f.Evidence, f.Err = o.fail.Evidence, errors.Join(f.Err, o.fail)
		o.fail, o.last = f, o.fail
	}
	return o
}

// windowOver: after the pause the remote side may have forgotten the ref, so
// what is in doubt must not be sent again.
func (c *call) windowOver(pause time.Duration) bool {
	return !c.t.remembered(c.record, c.storeNow().Add(pause))
}

// approvalSpent: an approval allows one dispatch, unless it was never sent.
func (c *call) approvalSpent(s *session) bool {
	return s != nil && c.intent.approval && !s.allUnsent()
}

// dispatched is an attempt and its failure.
type dispatched struct {
	*invocation
	fail *Failure
}

// mayStart refuses an attempt that must not start; nothing was sent then.
func (c *call) mayStart(ctx context.Context) *Failure {
	if ctx.Err() != nil || c.watch.over() {
		return c.unstarted()
	}
	if n := c.t.policy.MaxAbandoned; n > 0 && c.t.abandoned.Load() >= int64(n) {
		return unsentFailure(CodeToolBusy, nil)
	}
	return nil
}

// unstarted is the failure of an attempt for which no time is left.
func (c *call) unstarted() *Failure {
	f := c.cutFailure()
	f.Evidence = EvidenceNotSent
	return f
}

// dispatch runs one attempt.
func (c *call) dispatch(ctx context.Context, s *session) dispatched {
	form := c.shell.body()
	i := form.attempt()
	c.tries++
	i.n = int32(min(c.tries, math.MaxInt32)) //nolint:gosec // it fits
	if o := c.x.Observer; o != nil {
		info := AttemptInfo{Tool: c.t.name, Key: c.key, N: c.tries}
		ctx = observeStart(ctx, o, info)
		c.watch.read()
		began := c.watch.now()
		f := c.exitFailure() // stands when the goroutine dies
		defer func() {
			info.Done, info.Took = true, time.Since(began)
			info.setEnd(i, f)
			observeEnd(ctx, o, info)
		}()
		f = c.invoke(ctx, s, form)
		return dispatched{i, f}
	}
	return dispatched{i, c.invoke(ctx, s, form)}
}

func (c *call) invoke(ctx context.Context, s *session, form typedForm) *Failure {
	i := form.attempt()
	i.ctx.Init(ctx, c.watch.deadline(c.t.policy.Deadline), errDeadline, form)
	if s != nil {
		s.add(i)
	}
	return i.run(form)
}

// errDeadline is the cause of a context whose attempt is out of time.
var errDeadline = deadlineError{}

type deadlineError struct{}

func (deadlineError) Error() string { return "toolexec: the attempt's deadline has passed" }
func (deadlineError) Unwrap() error { return context.DeadlineExceeded }
func (deadlineError) Timeout() bool { return true }

// cutFailure is what the end of the caller's patience means: its cancel, or a
// deadline. Both say nothing about what was sent.
func (c *call) cutFailure() *Failure {
	f := &Failure{Code: CodeDeadlineExceeded, Err: errDeadline}
	if errors.Is(c.caller.Err(), context.Canceled) {
		f.Code, f.Err = CodeCancelled, context.Cause(c.caller)
	}
	f.complete()
	return f
}

// classify says what an error of the tool means. The caller's cancel is told
// apart from the attempt's deadline and from a cancel that the tool made up.
func (c *call) classify(err error, i *invocation) *Failure {
	cancelled := errors.Is(c.caller.Err(), context.Canceled)
	if own, ok := err.(*Failure); ok && own != nil && !cancelled { //nolint:errorlint // runs nothing of the user's
		return c.judge(err, false, own.unrecognised && i.outOfTime())
	}
	return c.classifyContained(err, cancelled, i.outOfTime())
}

func (c *call) classifyContained(err error, cancelled, late bool) (f *Failure) {
	crash := contained(func() error { f = c.judge(err, cancelled, late); return nil })
	if crash != nil { // in Unwrap, Is, As or a behaviour of the error itself
		f = &Failure{Code: CodeToolFailed, Err: crash}
		f.complete()
	}
	return f
}

// judge classifies err of an attempt; late says that its context had ended
// before: then what a tool says of its plain errors does not hold for this one.
func (c *call) judge(err error, cancelled, late bool) *Failure {
	f := classification{classifiers: c.t.classifiers, oneRequest: c.t.oneRequest || c.t.effect == ReadOnly, plain: c.t.errorsMean}.classify(err)
	if f.unrecognised && late {
		f.Evidence = EvidenceInDoubt
	}
	if cancelled && wraps(err, context.Canceled) {
		f.Code, f.Class, f.Category = CodeCancelled, ClassTransient, CategoryInternal
	}
	return f
}

// worthWaiting: retries are left, the budget of the operation is, and the pause
// is one that is slept and ends in time.
func (c *call) worthWaiting(pause time.Duration, s *session) bool {
	p := &c.t.policy
	if c.tries > p.MaxRetries || c.tries >= p.lifetime() || pause > max(p.MaxPause, 0) {
		return false
	}
	if pause >= c.watch.leftThen() {
		return false
	}
	return s == nil || s.attemptsUsed() < p.lifetime()
}

// pause sleeps; it returns a failure when the caller cancelled meanwhile, with
// the last failure kept in its cause.
func (c *call) pause(ctx context.Context, d time.Duration, last *Failure) *Failure {
	if d <= 0 {
		return nil
	}
	if o := c.x.Observer; o != nil {
		info := PauseInfo{Tool: c.t.name, Key: c.key, For: d, After: last.Code}
		ctx = observeStart(ctx, o, info)
		defer func() { info.Done = true; observeEnd(ctx, o, info) }()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		c.watch.read()
		return nil
	case <-ctx.Done():
	}
	return c.cutFailure()
}

// identify fixes the call's identity before the tool sees the arguments: their
// private copy and its fingerprint.
func (c *call) identify() *Failure {
	raw, err := c.encodeInput()
	if err != nil {
		return malformed(CodeInvalidArguments, err)
	}
	if !c.byName && holdsInvalidText(raw) {
		f := malformed(CodeInvalidArguments, nil)
		f.Fields = []FieldError{{Rule: "utf8", Expected: "text in valid UTF-8"}}
		return f
	}
	sum, err := canonical.Sum(c.t.name, raw, c.t.exclusions, canonical.Limits{MaxBytes: -1})
	if err != nil {
		return malformed(CodeInvalidArguments, err)
	}
	c.intent.arguments = raw
	c.intent.fingerprint = Fingerprint{Rule: fingerprintRule, Sum: sum}
	return nil
}

// holdsInvalidText reports whether encoding/json met bytes that are no UTF-8:
// it writes them as the escape \ufffd, a genuine U+FFFD as it is. Two texts
// that differ in such bytes would be one identity.
func holdsInvalidText(raw []byte) bool {
	for rest := raw; ; {
		at := bytes.Index(rest, []byte(`\ufffd`))
		if at < 0 {
			return false
		}
		slashes := at
		for slashes > 0 && rest[slashes-1] == '\\' {
			slashes--
		}
		if (at-slashes)%2 == 0 {
			return true
		}
		rest = rest[at+1:]
	}
}

func (c *call) encodeInput() ([]byte, error) {
	if c.t.plainInput {
		return c.shell.encodeInput()
	}
	return c.encodeContained()
}

func (c *call) encodeContained() (raw []byte, err error) {
	err = contained(func() error {
		var e error
		raw, e = c.shell.encodeInput()
		return e
	})
	return raw, err
}

// runCheck asks the tool's Check about the arguments as a whole.
func (c *call) runCheck() *Failure {
	if !c.shell.hasCheck() {
		return nil
	}
	err := contained(c.shell.check)
	if err == nil {
		return nil
	}
	if _, crashed := err.(*containedError); crashed { //nolint:errorlint // our own, unwrapped
		return unsentFailure(CodeToolPanic, err)
	}
	f := &Failure{Err: err}
	if own := stated(err); own != nil {
		*f = *own
	}
	f.Class, f.Code, f.Category, f.Evidence = ClassMalformed, CodeInvalidArguments, CategoryValidation, EvidenceNotSent
	return f
}

// encodeResult encodes a typed result that nobody needed as JSON so far.
func (i *invocation) encodeResult() (raw []byte, err error) {
	err = contained(func() error {
		var e error
		raw, e = i.typed().encodeOut()
		return e
	})
	return raw, err
}

// encodeOut may run methods of the result's.
func (i *typedInvocation[In, Out]) encodeOut() ([]byte, error) {
	return json.Marshal(&i.out)
}
