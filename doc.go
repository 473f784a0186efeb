// Package toolexec runs tool calls for agents and says, for each, what is
// known, what is safe to do next, and what must never be repeated.
//
// # The contract on one page
//
// Two independent questions decide every failure:
//
//	Would repeating help?            Class        decides whether a retry is useful
//	Could it have happened already?  CommitState  decides whether a retry is allowed
//
// A retry needs both: a transient class, and a commit state that permits it. A
// write whose outcome is unknown is looked up by its operation ref before
// anything is sent again.
//
// An [Executor] runs [Tool] functions that were added with [Bind]: typed,
// through [Bound.Call], or by name with the JSON that a model wrote, through
// [Executor.Execute]. Both answer with one [Envelope], always: on an error, a
// panic, runtime.Goexit, a deadline, a cancel, a store that is down. Decide from
// its fields, never from its texts:
//
//	env := refund.Call(ctx, in)
//	switch {
//	case env.OK:
//		markSucceeded(env.Result, env.Verification)
//	case env.NextAction == toolexec.NextWaitAndRetry:
//		schedule(env.OperationRef, env.Retry.NotBefore)
//	case env.NextAction == toolexec.NextVerifyOperation:
//		scheduleVerification(env.OperationRef)
//	...
//	default:
//		escalate(env.OperationRef, env.Code)
//	}
//
// # Operations
//
// An operation is one intent, such as refunding this order once. Its ref names
// it over all calls, attempts and processes: the tool's business key
// ([Tool.Ref]), else the ref of the call, else a new one. Calling again with
// the same ref is always safe. One record for each is kept in a [Store], in
// memory by default; transition.go shows its states on one page.
//
// What an effect allows:
//
//	ReadOnly    retried freely; nothing is recorded
//	Idempotent  sent again with the same ref; the remote side deduplicates
//	Write       sent again only after proof that nothing happened (the default)
//
// # Evidence
//
// A tool returns any error, and a ladder of types and behaviours says what it
// means; or it states a fact: [NotSent], [Rejected], [Invalid], [InDoubt],
// [Transient], [Empty]. Inside a tool, [OperationRef] is the key for the remote
// side, [MarkSent] the point of no return, and [MarkCommitted] states that the
// effect exists before a step that may still fail. An error nobody recognises,
// a timeout, a panic leave a Write in doubt.
//
// # Deadlines
//
// A call returns at its deadline also when the tool ignores its context. What
// the tool does afterwards is not lost: late evidence joins the operation's
// record, and while the tool runs the operation counts as able to happen.
// [Executor.Close] waits for what outlives calls.
//
// # After a crash
//
// On a durable [Store], such as that of package sqlstore, an owner holds an
// operation by a lease that it extends. When the process dies the lease ends,
// and what the owner may have sent is unknown until it is looked up: by the next
// call with the same ref, or by a [Supervisor] that runs beside the calls
// ([Supervisor.Run]), finishes one operation ([Supervisor.Wait]), and shows
// people what only they can settle. An agent can ask too, with the tool of
// [BindVerifyOperation].
//
// # What no record can promise
//
// A process can be paused between its last check and the write to the socket.
// Only the remote side can exclude that: by deduplicating on the operation ref,
// by a unique constraint on it, or by refusing an old version. So this package
// does not say "exactly once". It says which outcomes are known, and how.
package toolexec
