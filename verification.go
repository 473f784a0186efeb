package toolexec

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolexec/toolexec/internal/attempt"
)

// verify looks the operation up by its ref and applies what it finds. Only a
// returned verdict says anything: an error, a panic, a hang is "cannot tell".
//
// When the operation is released by that, and the call goes on, it begins in the
// same compare-and-swap: in between an equal call without a ref would find
// nothing open and start another one.
func (c *call) verify(ctx context.Context, goOn func() bool) {
	l := c.lookup(ctx)
	if l.failed && gaveUp(ctx) {
		return // it was the caller, not the verifier
	}
	c.resultOfOwn(l)
	storeCtx, cancel := c.afterwards(bookkeeping)
	defer cancel()
	mayBegin := sync.OnceValue(func() bool { return c.mayStart(ctx) == nil && goOn() })
	began := false
	moved := false
	rec, err := c.x.update(storeCtx, c.record, func(r *Record) error {
		was := r.State
		c.t.verified(r, l.asOf(r))
		moved = r.State != was // else somebody else has settled it
		r.Unheard = r.Unheard || c.resumed && r.State == StateCommitted
		if c.begun = false; r.State == StateReleased && c.isOf(r) && mayBegin() {
			if !began && c.session != nil {
				c.intent.nonce = c.x.nonce() // a further ownership within this call
			}
			began, c.asked = true, time.Now()
			c.begun = c.t.begin(r, &c.intent, c.storeNow()) == moveRun
		}
		return nil
	})
	c.watch.read()
	if err != nil {
		if c.begun = false; began { // and may be stored
			c.disown(c.key, c.intent.nonce)
			c.intent.nonce = c.x.nonce() // so that it is not taken for ours again
		}
		return
	}
	c.saw(rec)
	c.changed = moved
}

// gaveUp reports whether the caller has, or would at this moment.
func gaveUp(ctx context.Context) bool {
	d, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(d)
}

// resultOfOwn completes a look-up that found the effect but not its result: a
// success of this call that waited to be confirmed has it.
func (c *call) resultOfOwn(l *lookup) {
	won := c.unconfirmed()
	if won == nil || l.verdict != FoundEffect || l.present || l.digest != "" {
		return
	}
	l.result, l.present = won.encoded, won.encoded != nil
	c.bound(l)
}

// unconfirmed is the success of this call that waits to be confirmed, or nil.
func (c *call) unconfirmed() *invocation {
	if c.session == nil || !c.t.confirm {
		return nil
	}
	return c.session.lastSuccess()
}

// lookup asks the verifier within its deadline and the call's.
func (c *call) lookup(ctx context.Context) *lookup {
	version, started, began := c.record.Version, c.storeNow(), time.Now()
	l := c.askObserved(ctx)
	l.version, l.started, l.began = version, started, began
	return l
}

func (c *call) askObserved(ctx context.Context) *lookup {
	o := c.x.Observer
	if o == nil {
		return c.ask(ctx)
	}
	info := VerificationInfo{Tool: c.t.name, Key: c.key}
	ctx = observeStart(ctx, o, info)
	defer func() { info.Done = true; observeEnd(ctx, o, info) }()
	began := time.Now()
	l := c.ask(ctx)
	info.Took = time.Since(began)
	info.Verdict, info.Failed, info.Err = l.verdict, l.failed, l.err
	return l
}

func (c *call) ask(ctx context.Context) *lookup {
	if n := c.t.policy.MaxAbandoned; n > 0 && c.t.hung.Load() >= int64(n) {
		return &lookup{failed: true, err: errLookupsHang}
	}
	q := &lookupTask{call: c}
	c.watch.read()
	q.ctx.Init(ctx, c.watch.deadline(c.t.verifyDeadline), errDeadline, q)
	res, cut := attempt.Run(&q.ctx, c.watch.now(), q)
	if cut {
		q.outlive()
		return &lookup{failed: true, err: errDeadline}
	}
	return q.judge(res)
}

// errLookupsHang: as many look-ups of the tool hang as Policy.MaxAbandoned
// allows.
var errLookupsHang = errors.New("too many look-ups of this tool have not ended yet")

// lookupTask is one look-up. It may outlive its call.
type lookupTask struct {
	ctx   attempt.Context
	call  *call
	found lookup // the look-up's goroutine writes both
	err   error

	mu      sync.Mutex // protects what follows
	over    bool
	counted bool
}

// Run implements attempt.Task.
func (q *lookupTask) Run(ctx context.Context) {
	q.found, q.err = q.call.shell.lookup(ctx, q.call.key.Ref)
}

// Late implements attempt.Task: an answer that came too late says nothing.
func (q *lookupTask) Late(attempt.Result) {
	q.mu.Lock()
	counted := q.counted
	q.over = true
	q.mu.Unlock()
	if counted {
		q.call.t.hung.Add(-1)
		q.call.x.outlive.add(-1)
	}
}

func (q *lookupTask) outlive() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.over {
		q.counted = true
		q.call.t.hung.Add(1)
		q.call.x.outlive.add(1)
	}
}

func (q *lookupTask) judge(res attempt.Result) *lookup {
	if res.End != attempt.Returned {
		return &lookup{failed: true, err: &endError{res}}
	}
	if q.err != nil {
		return &lookup{failed: true, err: q.err, permanent: q.call.permanent(q.err)}
	}
	l := q.found
	q.call.bound(&l)
	return &l
}

// bound keeps the digest of a result that a record does not keep.
func (c *call) bound(l *lookup) {
	if n := c.t.maxResult; l.present && (n < 0 || len(l.result) > n || !c.t.keeps(l.result)) {
		l.digest, l.result, l.present = digestOf(l.result), nil, false
	}
}

// permanent: asking again cannot help. Only what the verifier, or a classifier,
// states counts; an error that nobody knows may pass.
func (c *call) permanent(err error) bool {
	if own := stated(err); own != nil {
		return own.Class.Safe() == ClassPermanent
	}
	var f *Failure
	_ = contained(func() error {
		f = classification{classifiers: c.t.classifiers, oneRequest: true}.walk(err)
		return nil
	})
	return f != nil && f.Class == ClassPermanent && f.Code != CodeToolFailed
}
