package toolexec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toolexec/toolexec/internal/attempt"
)

// invocation is one attempt: one run of a tool's function.
//
// Its life: running; then either ended (the call saw its end) or cut (the
// deadline or the caller ended the wait, and the function runs on). A cut one
// may add late evidence, for itself only.
type invocation struct {
	ctx     attempt.Context // its state is the attempt's typed form
	call    *call
	session *session // nil in a read; of its own ownership

	// Written by the tool's goroutine; read after attempt.Run reported the end, or
	// by late on that goroutine.
	err       error
	encoded   []byte // the result as JSON, where one is needed
	encodeErr error
	succeeded bool
	empty     bool

	n int32 // within the call, from 1; set before it starts

	mu       sync.Mutex    // protects what follows; never held across a store call
	marking  chan struct{} // closed when the goroutine that marks is done; nil when nobody waits
	result   []byte        // that MarkCommitted stated
	took     time.Duration // from the start of the call to its end
	marks    int32         // sends that were marked and not taken back
	evidence Evidence      // what is known of it once it is settled
	sending  sendState
	phase    phase
	marked   bool // MarkCommitted was called
}

// typedForm is the state of an attempt's context.
type typedForm interface {
	attempt.Task
	attempt() *invocation
	encodeOut() ([]byte, error)
}

// attempt returns i, also of what embeds it.
func (i *invocation) attempt() *invocation { return i }

// typed is the attempt with its input and output.
func (i *invocation) typed() typedForm {
	return i.ctx.State().(typedForm) //nolint:forcetypeassert // dispatch gave it one
}

// phase is how far an invocation is.
type phase uint8

const (
	phaseRunning phase = iota
	phaseCut           // the caller was answered, the function runs on: it is counted as abandoned
	phaseEnded
)

// sendState is the point of no return of a tool that marks its sends.
type sendState uint8

const (
	sendUnmarked sendState = iota
	sendMarking            // the record is being told
	sendMarked
	sendClosed // nothing may be sent any more
)

// invocationOf returns the attempt that ctx belongs to, nil outside one.
func invocationOf(ctx context.Context) *invocation {
	if form, ok := ctx.Value(attempt.StateKey{}).(typedForm); ok {
		return form.attempt()
	}
	return nil
}

// OperationRef returns the ref of the operation that the running attempt
// belongs to: the key to hand to the remote side, the same in every attempt.
// It is "" outside a tool, and in a read that nobody gave a ref.
func OperationRef(ctx context.Context) string {
	if i := invocationOf(ctx); i != nil {
		return i.call.key.Ref
	}
	return ""
}

// Scope returns the scope of the operation that ctx belongs to, inside a tool and
// inside a look-up; elsewhere that of WithScope.
func Scope(ctx context.Context) string {
	given, _ := ctx.Value(scopeKey{}).(scopeValue)
	switch s := ctx.Value(attempt.StateKey{}).(type) {
	case typedForm:
		if i := s.attempt(); given.inside != i {
			return i.call.key.Scope
		}
	case *lookupTask:
		return s.call.key.Scope
	}
	return given.scope
}

// Attempt returns the number of the running attempt within its call, from 1;
// 0 outside a tool.
func Attempt(ctx context.Context) int {
	if i := invocationOf(ctx); i != nil {
		return int(i.n)
	}
	return 0
}

// MarkSent is the point of no return: call it when everything is ready to be
// sent, and send only if it returns nil. It returns an error that wraps
// ErrNotSent when the operation's record was lost to another owner, the
// deadline has passed, the store failed, or no attempt is running; return that
// error, and nothing was sent. Mark each send of an attempt: every mark but the
// first is free.
//
// For a tool that declares MarksSent an attempt that never marked has sent
// nothing. For others it keeps a stale attempt from sending.
func MarkSent(ctx context.Context) error {
	i := invocationOf(ctx)
	if i == nil {
		return &notSentError{why: "no attempt is running in this context"}
	}
	return i.markSent()
}

func (i *invocation) markSent() error {
	if i.ctx.Err() != nil {
		return &notSentError{cause: context.Cause(&i.ctx)}
	}
	if already, err := i.beginMark(); already || err != nil {
		return err
	}
	var err error
	if s := i.session; s != nil {
		err = s.markSent()
	}
	return i.finishMark(err)
}

// beginMark lets one goroutine tell the record; others wait for it.
func (i *invocation) beginMark() (already bool, err error) {
	for {
		other, already, err := i.tryMark()
		if other == nil {
			return already, err
		}
		select {
		case <-other:
		case <-i.ctx.Done():
			return false, &notSentError{cause: context.Cause(&i.ctx)}
		}
	}
}

// tryMark returns what is closed when the goroutine that marks already has done
// so, nil when there is none.
func (i *invocation) tryMark() (other chan struct{}, already bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch i.sending {
	case sendMarked:
		i.marks++
		return nil, true, nil
	case sendClosed:
		return nil, false, &notSentError{why: "the attempt is over"}
	case sendMarking:
		if i.marking == nil {
			i.marking = make(chan struct{})
		}
		return i.marking, false, nil
	}
	i.sending = sendMarking
	return nil, false, nil
}

func (i *invocation) finishMark(err error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.marking != nil {
		close(i.marking)
		i.marking = nil
	}
	switch {
	case i.sending == sendClosed:
		return &notSentError{why: "the attempt is over"}
	case err != nil:
		i.sending = sendUnmarked
		return &notSentError{cause: err}
	case i.ctx.Err() != nil:
		i.sending = sendUnmarked
		return &notSentError{cause: context.Cause(&i.ctx)}
	}
	i.sending, i.marks = sendMarked, 1
	return nil
}

// MarkNotSent takes back one MarkSent: what it announced is proven not to have
// been sent, because the dial was refused, say. Once all marks of an attempt
// are taken back a tool that declares MarksSent has sent nothing in it. For
// others it changes nothing, since not all that they send is marked. Without a
// mark, and outside an attempt, it does nothing.
func MarkNotSent(ctx context.Context) {
	if i := invocationOf(ctx); i != nil {
		i.markNotSent()
	}
}

func (i *invocation) markNotSent() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.marks = max(i.marks-1, 0); i.marks == 0 && i.sending == sendMarked {
		i.sending = sendUnmarked
	}
}

// MarkCommitted states that the effect exists, before a step of the tool that
// may still fail: whatever happens then, the operation is committed, with this
// result (encoded as JSON; what cannot be encoded is left out). It returns an
// error when no attempt is running in ctx, when the tool is ReadOnly, or when
// the store could not be told yet, which is tried again at the end of the
// attempt.
func MarkCommitted(ctx context.Context, result any) error {
	i := invocationOf(ctx)
	switch {
	case i == nil:
		return errors.New("toolexec: MarkCommitted: no attempt is running in this context")
	case i.session == nil:
		return errors.New("toolexec: MarkCommitted: a ReadOnly tool commits nothing")
	}
	raw, err := marshalContained(result)
	if err != nil {
		raw = nil
	}
	i.mu.Lock()
	i.marked, i.result, i.evidence = true, raw, EvidenceCommitted
	i.mu.Unlock()
	i.session.noteAnswered()
	if err := i.session.store(); err != nil {
		return fmt.Errorf("toolexec: MarkCommitted: the store does not know yet: %w", err)
	}
	return nil
}

// run invokes the tool and returns its failure, nil for success. form is its own.
func (i *invocation) run(form typedForm) *Failure {
	if i.call.t.cooperative {
		return i.ended(attempt.Inline(&i.ctx, form))
	}
	res, cut := attempt.Run(&i.ctx, i.call.watch.now(), form)
	if !cut {
		return i.ended(res)
	}
	return i.cut()
}

// ended settles an attempt whose end is known.
func (i *invocation) ended(res attempt.Result) *Failure {
	f := i.judge(res)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.settle(f)
	return f
}

// settle is called with mu held, once the end is known.
func (i *invocation) settle(f *Failure) {
	i.phase = phaseEnded
	switch {
	case i.marked || f == nil:
		i.evidence = EvidenceCommitted
	default:
		if i.session != nil {
			i.took = time.Since(i.call.watch.start)
		}
		if f.unmarked && i.marks > 0 { // refused after it had been allowed: that proves nothing
			f.Evidence = EvidenceInDoubt
		}
		i.evidence = i.sentOr(f.Evidence)
		if f.Evidence == EvidenceInDoubt { // what the tool states is stronger
			f.Evidence = i.evidence
		}
	}
	i.sending = sendClosed
}

// sentOr is EvidenceNotSent for a tool that marks its sends, while no mark of it
// stands and it does not say that it succeeded. Called with mu held.
func (i *invocation) sentOr(e Evidence) Evidence {
	if i.call.t.marksSent && i.marks == 0 && i.sending != sendMarking && e != EvidenceCommitted && !(i.phase == phaseEnded && i.succeeded) {
		return EvidenceNotSent
	}
	return e
}

// cut answers for an attempt that runs on. From here it must not send, if it
// asks; if it does not ask, it may.
func (i *invocation) cut() *Failure {
	f := i.call.cutFailure()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase == phaseEnded { // late came first
		f.Evidence = i.evidence
		return f
	}
	i.phase = phaseCut
	if !i.marked {
		f.Evidence = i.sentOr(f.Evidence)
		i.evidence = f.Evidence
	}
	i.sending = sendClosed
	i.call.x.outlive.add(1)
	i.call.t.abandoned.Add(1)
	return f
}

// Late implements attempt.Task: the end of an attempt that had been cut. It
// runs on the tool's goroutine.
func (i *invocation) Late(res attempt.Result) {
	f := i.judge(res)
	i.mu.Lock()
	if f != nil && i.evidence == EvidenceNotSent && f.Evidence == EvidenceInDoubt {
		f.Evidence = EvidenceNotSent // it had not marked when it was cut, and could not afterwards
	}
	outlived := i.phase == phaseCut
	i.settle(f)
	i.mu.Unlock()
	if s := i.session; s != nil {
		s.late(i, f)
	}
	if outlived {
		i.call.t.abandoned.Add(-1)
		i.call.x.outlive.add(-1)
	}
}

// judge says what the end of an attempt means; nil is success.
func (i *invocation) judge(res attempt.Result) *Failure {
	if res.End != attempt.Returned {
		if !i.succeeded {
			f := &Failure{Code: CodeToolPanic, Err: &endError{res}}
			f.complete()
			return f
		}
		i.encoded, i.encodeErr = nil, &endError{res} // in a method of its result's
	} else if i.succeeded && i.call.encode && i.call.t.plainOutput {
		// Here and not on the tool's goroutine, whose stack would have to grow for it.
		i.encoded, i.encodeErr = i.typed().encodeOut()
	}
	switch {
	case !i.succeeded:
		return i.call.classify(i.err, i)
	case i.empty:
		f := Empty("")
		f.complete()
		return f
	case i.call.t.confirm && i.session != nil:
		return unconfirmed()
	}
	return nil
}

// unconfirmed is a success that counts once a look-up has found its effect.
func unconfirmed() *Failure {
	f := &Failure{Code: CodeOperationPending, Evidence: EvidenceInDoubt, Err: errUnconfirmed}
	f.complete()
	return f
}

var errUnconfirmed = errors.New("toolexec: the tool succeeded, and no look-up has confirmed it yet")

// outOfTime reports whether the attempt's context had ended before its tool
// returned.
func (i *invocation) outOfTime() bool {
	deadline, ok := i.ctx.Deadline()
	return i.call.caller.Err() != nil || ok && !time.Now().Before(deadline)
}

// endError is how a tool ended that did not return. Its text and Stack are for
// operators.
type endError struct{ attempt.Result }

// Error describes the end.
func (e *endError) Error() string { return describeEnd(e.Result) }

// Unwrap returns a panic value that is an error.
func (e *endError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func describeEnd(r attempt.Result) string {
	if r.End == attempt.Exited {
		return "runtime.Goexit was called"
	}
	return "panic: " + fmt.Sprint(r.Value) // fmt catches a panic of the value's own methods
}
