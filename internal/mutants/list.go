package main

// mutant is a rule taken away, or turned round.
type mutant struct {
	name string // short and unique
	rule string // what the library then no longer does
	file string // of the root package
	old  string // occurs once in the file
	new  string // "mutated" is true while the mutant is on
	// tests are tried first: a pattern of go test -run. When they notice nothing
	// the whole suite is asked.
	tests string
	// survives says why no test can notice; "" when one does.
	survives string
}

// The rules, file by file. A line is edited so that the rule is off while
// mutated is true; nothing else of the file changes.
var mutants = []mutant{
	// classify.go ------------------------------------------------------------
	{
		name: "joined errors: the least certain", rule: "of several causes the least certain decides",
		file: "classify.go", tests: "^TestLadderJoined$",
		old: "evidenceRank(f, c.oneRequest) < evidenceRank(least, c.oneRequest)",
		new: "(evidenceRank(f, c.oneRequest) < evidenceRank(least, c.oneRequest)) != mutated",
	},
	{
		name: "evidence of a request", rule: "an error proves something about its request only, unless the tool makes one",
		file: "classify.go", tests: "^TestLadderSentinels$",
		old: "if f.ofRequest && !c.oneRequest {\n\t\tf.Evidence",
		new: "if f.ofRequest && !c.oneRequest && !mutated {\n\t\tf.Evidence",
	},
	{
		name: "a made up cancel", rule: "ErrorsMean does not hold for a cancel that the tool made up",
		file: "classify.go", tests: "^TestErrorsMeanIsAboutPlainErrorsAlone$",
		old: "if wraps(err, context.Canceled) {",
		new: "if wraps(err, context.Canceled) && !mutated {",
	},
	{
		name: "classifiers before the ladder", rule: "the tool's classifier is asked before the built-in ladder",
		file: "classify.go", tests: "^TestClassifiersAreAskedInOrder$",
		old: "if f := askContained(classifier, err); f != nil {",
		new: "if f := askContained(classifier, err); f != nil && !mutated {",
	},
	{
		name: "unknown evidence", rule: "evidence that nobody defined is doubt",
		file: "classify.go", tests: "^TestConstructorsStateFacts$",
		old: "if f.Evidence > EvidenceCommitted {",
		new: "if f.Evidence > EvidenceCommitted && !mutated {",
	},
	{
		name: "a code nobody may use", rule: "a tool's code must be of the form CodePattern, and is never OK",
		file: "classify.go", tests: "^TestCodesAreValidated$",
		old: "if facts == nil && !validCode(f.Code) || f.Code == CodeOK {",
		new: "if (facts == nil && !validCode(f.Code) || f.Code == CodeOK) && !mutated {",
	},
	{
		name: "nested calls", rule: "the error of a nested call is not committed only when that operation is",
		file: "classify.go", tests: "^TestErrorOfANestedCallIsAsCertainAsItsEnvelope$",
		old: "if e.CommitState == NotCommitted {",
		new: "if e.CommitState == NotCommitted || mutated {",
	},
	{
		name: "Retry-After is capped", rule: "an absurd Retry-After is capped at a day",
		file: "classify.go", tests: "^TestRetryAfterIsCapped$",
		old: "f.RetryAfter = min(max(f.RetryAfter, 0), maxRetryAfter)",
		new: "if !mutated {\n\t\tf.RetryAfter = min(max(f.RetryAfter, 0), maxRetryAfter)\n\t}",
	},
	{
		name: "an error without end", rule: "the walk of an error that wraps itself ends",
		file: "classify.go", tests: "^TestAttackErrorsOfCheckAndLookup$",
		old: "if *nodes <= 0 {",
		new: "if *nodes <= 0 && !mutated {",
	},
	{
		name: "sticky refusals", rule: "only a refusal that the input alone determines is sticky",
		file: "classify.go", tests: "^TestTransitionsOfARefusalThatWasNeverSent$",
		old: "return f.Evidence == EvidenceRejected && factsOf",
		new: "return (f.Evidence == EvidenceRejected || mutated) && factsOf",
	},

	// ladder.go --------------------------------------------------------------
	{
		name: "ladder: ErrBadConn", rule: "driver.ErrBadConn is doubt: a driver returns it for a lost COMMIT",
		file: "ladder.go", tests: "^TestLadderSentinels$",
		old: "if err == s.err { //nolint:errorlint // the tree is walked node by node\n\t\t\treturn s.rung, true",
		new: "if err == s.err { //nolint:errorlint // the tree is walked node by node\n\t\t\tif mutated && err == driver.ErrBadConn {\n\t\t\t\treturn unsent(CodeDependencyUnavailable), true\n\t\t\t}\n\t\t\treturn s.rung, true",
	},
	{
		name: "ladder: an adapter's failure", rule: "what an adapter says is about one request",
		file: "ladder.go", tests: "^TestLadderRequestFailure$",
		old: "own.ofRequest = true", new: "own.ofRequest = !mutated",
	},
	{
		name: "ladder: SafeToRetry", rule: "SafeToRetry counts only when it says yes",
		file: "ladder.go", tests: "^TestLadderSafeToRetry$",
		old: "ok && s.SafeToRetry() {", new: "ok && (s.SafeToRetry() || mutated) {",
	},
	{
		name: "ladder: a rejection", rule: "a statement or request that was rejected is one of the attempt's",
		file: "ladder.go", tests: "^TestRejectedStatementIsNotTheAttempt$",
		old: "evidence: EvidenceRejected, ofRequest: true}", new: "evidence: EvidenceRejected, ofRequest: !mutated}",
	},

	// retry.go and budget.go ---------------------------------------------------
	{
		name: "only transient", rule: "only a transient failure is retried",
		file: "retry.go", tests: "^TestMayRetry$",
		old: "if f.Class != ClassTransient {", new: "if f.Class != ClassTransient && !mutated {",
	},
	{
		name: "a write in doubt", rule: "a Write whose outcome is unknown is not retried",
		file: "retry.go", tests: "^TestCheckerRetryKeepsTheStoredEffect$",
		old: "\treturn state == NotCommitted\n}", new: "\treturn state == NotCommitted || mutated\n}",
	},
	{
		name: "accepted and pending", rule: "an Idempotent operation that was accepted is not sent again",
		file: "retry.go", tests: "^TestSuccessHasToBeConfirmed$",
		old: "f.Code != CodeOperationPending", new: "(f.Code != CodeOperationPending || mutated)",
	},
	{
		name: "pauses are capped", rule: "no pause is above Backoff.Max, or negative",
		file: "retry.go", tests: "^TestBackoffJitterComesOffAndNeverBelowZero$",
		old: "return clamp(d-p.settings.jitterOf(d, p.random), 0, p.settings.Max)",
		new: "if mutated {\n\t\treturn d + p.settings.jitterOf(d, p.random)\n\t}\n\treturn clamp(d-p.settings.jitterOf(d, p.random), 0, p.settings.Max)",
	},
	{
		name: "zero inherits", rule: "a zero field of a Policy inherits",
		file: "retry.go", tests: "^TestCheckerRetryKeepsTheDedupeWindow$",
		old: "if *p == zero {", new: "if *p == zero && !mutated {",
	},
	{
		name: "the retry budget", rule: "an empty retry budget allows no retry",
		file: "budget.go", tests: "^TestRetryBudgetIsSharedByAllCalls$",
		old: "if left < 1-rounding {", new: "if left < 1-rounding && !mutated {",
	},
	{
		name: "the size of the bucket", rule: "time does not fill the bucket beyond Burst",
		file: "budget.go", tests: "^TestRetryBudgetSettings$",
		old: "left := min(size, t.left+max(now.Sub(t.at), 0).Seconds()*perSecond)",
		new: "left := t.left + max(now.Sub(t.at), 0).Seconds()*perSecond\n\tif !mutated {\n\t\tleft = min(size, left)\n\t}",
	},

	// call.go: attempts --------------------------------------------------------
	{
		name: "MaxRetries", rule: "a call makes at most MaxRetries retries",
		file: "call.go", tests: "^TestAttackRetryGetsAnotherInput$",
		old: "if c.tries > p.MaxRetries ||", new: "if c.tries > p.MaxRetries && !mutated ||",
	},
	{
		name: "a pause that ends in time", rule: "a pause that would outlast the total deadline is not slept",
		file: "call.go", tests: "^TestRetryBudgetIsNotSpentOnWhatIsNotRetried$",
		old: "pause >= c.watch.leftThen() {", new: "pause >= c.watch.leftThen() && !mutated {",
	},
	{
		name: "MaxPause", rule: "a pause above MaxPause is left to the caller",
		file: "call.go", tests: "^TestRetryAfterIsALowerBound$",
		old: "|| pause > max(p.MaxPause, 0) {", new: "|| pause > max(p.MaxPause, 0) && !mutated {",
	},
	{
		name: "the budget of the operation", rule: "retries within a call count for the operation's life",
		file: "call.go", tests: "^TestLifetimeBudgetCountsOverCalls$",
		old: "return s == nil || s.attemptsUsed() < p.lifetime()", new: "return s == nil || mutated || s.attemptsUsed() < p.lifetime()",
	},
	{
		name: "an approval is one dispatch", rule: "what a person approved is dispatched once",
		file: "call.go", tests: "^TestTransitionsOfApproval$",
		old: "return s != nil && c.intent.approval && !s.allUnsent()", new: "return !mutated && s != nil && c.intent.approval && !s.allUnsent()",
	},
	{
		name: "the dedupe window within a call", rule: "a retry that would come after the dedupe window is not made",
		file: "call.go", tests: "^TestCheckerRetryKeepsTheDedupeWindow$",
		old: "return !c.t.remembered(c.record, c.storeNow().Add(pause))", new: "return !mutated && !c.t.remembered(c.record, c.storeNow().Add(pause))",
	},
	{
		name: "an owner that was lost in a pause", rule: "no further attempt is made once the record is another owner's",
		file: "call.go", tests: "^TestNoAttemptAfterTheOwnerWasLostInAPause$",
		old: "if s != nil && !s.nextAttempt(ctx) {", new: "if s != nil && !s.nextAttempt(ctx) && !mutated {",
	},
	{
		name: "MaxAbandoned", rule: "a tool with too many attempts that hang gets no more",
		file: "call.go", tests: "^TestAbandonedAttemptsAreBounded$",
		old: "c.t.abandoned.Load() >= int64(n) {", new: "c.t.abandoned.Load() >= int64(n) && !mutated {",
	},
	{
		name: "no attempt without time", rule: "no attempt starts after the deadline or the caller's cancel",
		file: "call.go", tests: "^TestBatchCancelledHalfway$",
		old: "if ctx.Err() != nil || c.watch.over() {", new: "if (ctx.Err() != nil || c.watch.over()) && !mutated {",
	},
	{
		name: "the caller's cancel", rule: "the caller's cancel is told apart from the tool's own",
		file: "call.go", tests: "^TestBatchCancelledHalfway$",
		old: "if cancelled && wraps(err, context.Canceled) {", new: "if cancelled && wraps(err, context.Canceled) && !mutated {",
	},
	{
		name: "ErrorsMean after the deadline", rule: "what a tool says of its plain errors does not hold once its time is up",
		file: "call.go", tests: "^TestAttackErrorsMeanOfACutAttempt$",
		old: "if f.unrecognised && late {", new: "if f.unrecognised && late && !mutated {",
	},
	{
		name: "two texts, one identity", rule: "text that is no UTF-8 is refused, since two such texts encode alike",
		file: "call.go", tests: "^TestAttackInvalidUTF8$",
		old: "if !c.byName && holdsInvalidText(raw) {", new: "if !c.byName && holdsInvalidText(raw) && !mutated {",
	},
	{
		name: "Check is asked", rule: "what Check refuses is malformed and not run",
		file: "call.go", tests: "^TestAttackOperationThatCannotBeSentAgain$",
		old: "if !c.shell.hasCheck() {", new: "if !c.shell.hasCheck() || mutated {",
	},

	// invocation.go --------------------------------------------------------------
	{
		name: "MarkSent after the end", rule: "an attempt that was cut must not send",
		file: "invocation.go", tests: "^TestMarkSentRefusals$",
		old: "\ti.phase = phaseCut\n\tif !i.marked {\n\t\tf.Evidence = i.sentOr(f.Evidence)\n\t\ti.evidence = f.Evidence\n\t}\n\ti.sending = sendClosed",
		new: "\ti.phase = phaseCut\n\tif !i.marked {\n\t\tf.Evidence = i.sentOr(f.Evidence)\n\t\ti.evidence = f.Evidence\n\t}\n\tif !mutated {\n\t\ti.sending = sendClosed\n\t}",
	},
	{
		name: "MarkCommitted stands", rule: "a commit that was marked stands whatever happens then",
		file: "invocation.go", tests: "^TestMarkCommitted$",
		old: "case i.marked || f == nil:", new: "case i.marked && !mutated || f == nil:",
	},
	{
		name: "no mark, nothing sent", rule: "of a tool that marks its sends an attempt without a mark has sent nothing",
		file: "invocation.go", tests: "^TestMarkSent$",
		old: "if i.call.t.marksSent && i.marks == 0", new: "if !mutated && i.call.t.marksSent && i.marks == 0",
	},
	{
		name: "every tool marks", rule: "only a tool that declares MarksSent has sent nothing without a mark",
		file: "invocation.go", tests: "^TestMarkSentRefusals$",
		old: "&& i.sending != sendMarking && e != EvidenceCommitted", new: "&& (i.sending != sendMarking || mutated) && e != EvidenceCommitted",
	},
	{
		name: "a mark in time", rule: "MarkSent refuses once the context has ended while the record was told",
		file: "invocation.go", tests: "^TestMarkSentRefusals$",
		old: "case i.ctx.Err() != nil:\n\t\ti.sending = sendUnmarked", new: "case i.ctx.Err() != nil && !mutated:\n\t\ti.sending = sendUnmarked",
	},
	{
		name: "a panic is doubt", rule: "a tool that panics may have had its effect",
		file: "invocation.go", tests: "^TestBatchNamesTheOperationOfACooperativeToolThatExits$",
		old: "f := &Failure{Code: CodeToolPanic, Err: &endError{res}}", new: "f := &Failure{Code: CodeToolPanic, Err: &endError{res}}\n\t\t\tif mutated {\n\t\t\t\tf.Evidence = EvidenceRejected\n\t\t\t}",
	},
	{
		name: "Confirm", rule: "a success that has to be confirmed is none before a look-up found it",
		file: "invocation.go", tests: "^TestAttackConfirmedSuccessWithoutAMark$",
		old: "case i.call.t.confirm && i.session != nil:", new: "case i.call.t.confirm && i.session != nil && !mutated:",
	},

	// session.go -------------------------------------------------------------------
	{
		name: "the fence", rule: "MarkSent fails when the record is another owner's",
		file: "session.go", tests: "^TestMarkSentRefusals$",
		old: "\t\tif r.State != StateInFlight || r.Nonce != s.nonce {\n\t\t\treturn errOwnerLost\n\t\t}\n\t\tr.Sent = true",
		new: "\t\tif (r.State != StateInFlight || r.Nonce != s.nonce) && !mutated {\n\t\t\treturn errOwnerLost\n\t\t}\n\t\tr.Sent = true",
	},
	{
		name: "the sent mark", rule: "the record says that something is being sent before it is",
		file: "session.go", tests: "^TestRecoverTakesOverFromALostOwner$",
		old: "r.Sent = true", new: "r.Sent = !mutated",
	},
	{
		name: "unheard commits", rule: "a commit that may come after the answer is one that nobody heard of",
		file: "session.go", tests: "^TestLawsPassTellsNobody$",
		old: "late: s.answered || !s.ended,", new: "late: (s.answered || !s.ended) && !mutated,",
	},
	{
		name: "heartbeats", rule: "an owner that runs on keeps its lease",
		file: "session.go", tests: "^TestCheckerLongAttemptKeepsItsLease$",
		old: "\ts.set(timerKey{nil, timerBeat}, lease/3, s.beat)\n}", new: "\tif !mutated {\n\t\ts.set(timerKey{nil, timerBeat}, lease/3, s.beat)\n\t}\n}",
	},
	{
		name: "a heartbeat that failed", rule: "a heartbeat that the store refused is tried again before the lease ends",
		file: "session.go", tests: "^TestHeartbeatGoesOnAfterAStoreError$",
		old: "\tdefault:\n\t\ts.set(timerKey{nil, timerBeat}, s.call.t.lease/3, s.beat)", new: "\tdefault:\n\t\tif mutated {\n\t\t\treturn\n\t\t}\n\t\ts.set(timerKey{nil, timerBeat}, s.call.t.lease/3, s.beat)",
	},
	{
		name: "the end of the lease", rule: "the tool's context ends with the lease",
		file: "session.go", tests: "^TestAttackContextOutlivesTheLease$",
		old: "\t\ti.ctx.Cancel(errOwnerLost)", new: "\t\tif !mutated {\n\t\t\ti.ctx.Cancel(errOwnerLost)\n\t\t}",
	},
	{
		name: "renewing what is lost", rule: "a heartbeat never renews another owner's lease",
		file: "session.go", tests: "^TestAttackBeginTakesLongerThanItsLease$",
		old: "\tif r.State != StateInFlight || r.Nonce != s.nonce {\n\t\treturn errOwnerLost\n\t}\n\tr.LeaseUntil",
		new: "\tif (r.State != StateInFlight || r.Nonce != s.nonce) && !mutated {\n\t\treturn errOwnerLost\n\t}\n\tr.LeaseUntil",
	},
	{
		name: "the settle window", rule: "an attempt that ended in doubt may take effect until its settle window closes",
		file: "session.go", tests: "^TestAttackOperationThatCannotBeSentAgain$",
		old: "u.Settles = In(m.settle - (time.Since(s.call.watch.start) - i.took))", new: "u.Settles = In(m.settle - (time.Since(s.call.watch.start) - i.took))\n\t\tif mutated {\n\t\t\tu.Settles = In(0)\n\t\t}",
	},
	{
		name: "attempts that live", rule: "an attempt that runs on can still take effect",
		file: "session.go", tests: "^TestSupervisorResolve$",
		old: "\tdefault:\n\t\tu.Alive = true\n\t}\n\treturn u", new: "\tdefault:\n\t\tu.Alive = true\n\t\tif mutated {\n\t\t\tu.Settles = In(0)\n\t\t}\n\t}\n\treturn u",
	},
	{
		name: "late evidence", rule: "what an attempt proves after its caller was answered is stored",
		file: "session.go", tests: "^TestOverrunWriteIsUnknownAndOverrunReadIsNot$",
		old: "\ts.noteAnswered()\n\terr := s.store()", new: "\ts.noteAnswered()\n\tvar err error\n\tif !mutated {\n\t\terr = s.store()\n\t}",
	},
	{
		name: "an end that could not be stored", rule: "an end that could not be stored is tried on in the background",
		file: "session.go", tests: "^TestUnsavedSuccessIsStoredLater$",
		old: "\ts.storeLater()\n\treturn s.asIfStored(), false", new: "\tif !mutated {\n\t\ts.storeLater()\n\t}\n\treturn s.asIfStored(), false",
	},
	{
		name: "a crash remembers dispatches", rule: "a durable record knows of each dispatch before it is made",
		file: "session.go", tests: "^TestLifetimeBudgetCountsBeforeTheDispatch$",
		old: "r.Attempts = max(r.Attempts, s.attemptsUsed()+1)", new: "if !mutated {\n\t\t\tr.Attempts = max(r.Attempts, s.attemptsUsed()+1)\n\t\t}",
	},
	{
		name: "MaxAbandon", rule: "an attempt that lives too long makes its operation a person's",
		file: "session.go", tests: "^TestTransitionsDeadline$",
		old: "if d := s.call.t.policy.MaxAbandon; d > 0 {", new: "if d := s.call.t.policy.MaxAbandon; d > 0 && !mutated {",
	},

	// transition.go ------------------------------------------------------------------
	{
		name: "one owner", rule: "what is in flight for a living owner is not begun",
		file: "transition.go", tests: "^TestCheckerFindsFaults$",
		old: "case state == StateInFlight && !leaseOver(r, now):", new: "case state == StateInFlight && !leaseOver(r, now) && !mutated:",
	},
	{
		name: "committed is replayed", rule: "a committed operation is never begun again",
		file: "transition.go", tests: "^TestZeroExecutorHasTheDocumentedDefaults$",
		old: "case state == StateCommitted:\n\t\treturn moveReplay", new: "case state == StateCommitted:\n\t\tif mutated {\n\t\t\treturn m.start(r, in, now)\n\t\t}\n\t\treturn moveReplay",
	},
	{
		name: "the fingerprint at begin", rule: "a ref with other arguments is another operation",
		file: "transition.go", tests: "^TestTransitionsOfBegin$",
		old: "case !same:", new: "case !same && !mutated:",
	},
	{
		name: "the tool of the ref", rule: "a ref of another tool is refused",
		file: "transition.go", tests: "^TestTransitionsOfAnotherTool$",
		old: "if r.Tool != m.tool {", new: "if r.Tool != m.tool && !mutated {",
	},
	{
		name: "not before", rule: "nothing is run before not_before",
		file: "transition.go", tests: "^TestRetryBudgetLeavesTheOperationWaiting$",
		old: "if r.NotBefore.Time().After(now) {", new: "if r.NotBefore.Time().After(now) && !mutated {",
	},
	{
		name: "MaxAttempts at begin", rule: "an operation is dispatched MaxAttempts times in its life",
		file: "transition.go", tests: "^TestTruthTable$",
		old: "if r.Attempts >= m.maxAttempts {\n\t\tm.escalate(r, \"lifetime budget spent\")\n\t\treturn moveEscalated",
		new: "if r.Attempts >= m.maxAttempts && !mutated {\n\t\tm.escalate(r, \"lifetime budget spent\")\n\t\treturn moveEscalated",
	},
	{
		name: "MaxAttempts at the end", rule: "an operation that has spent its attempts is a person's at once",
		file: "transition.go", tests: "^TestLifetimeBudgetCountsOverCalls$",
		old: "r.release()\n\t\tif r.Attempts >= m.maxAttempts {", new: "r.release()\n\t\tif r.Attempts >= m.maxAttempts && !mutated {",
	},
	{
		name: "approval before a run", rule: "what needs an approval is held",
		file: "transition.go", tests: "^TestAttackApprovalOfWhatWasNotSeen$",
		old: "if in.approval {\n\t\tif mv", new: "if in.approval && !mutated {\n\t\tif mv",
	},
	{
		name: "an approval's digest", rule: "an approval is of exactly the arguments that were reviewed",
		file: "transition.go", tests: "^TestApprovalStandsBesideAnotherCall$",
		old: "case a == nil || a.Digest != in.digest || a.Spent:", new: "case a == nil || a.Digest != in.digest && !mutated || a.Spent:",
	},
	{
		name: "an approval is spent", rule: "an approval is for one run",
		file: "transition.go", tests: "^TestSupervisorApprove$",
		old: "a.Spent, a.SpentBy = true, in.nonce", new: "a.Spent, a.SpentBy = !mutated, in.nonce",
	},
	{
		name: "an approval expires", rule: "an approval counts until it expires",
		file: "transition.go", tests: "^TestSupervisorApprove$",
		old: "\tcase a.expired(now):\n\t\tm.hold(r, in)", new: "\tcase a.expired(now) && !mutated:\n\t\tm.hold(r, in)",
	},
	{
		name: "corrections", rule: "a rejected operation is run again only when what was refused has changed",
		file: "transition.go", tests: "^TestTransitionsOfRejected$",
		old: "if !changed(r, in) {", new: "if !changed(r, in) && !mutated {",
	},
	{
		name: "MaxCorrections", rule: "a rejected operation is corrected MaxCorrections times",
		file: "transition.go", tests: "^TestNegativeCorrectionsAndRepeatsTurnOff$",
		old: "if r.Corrections >= m.maxCorrect {", new: "if r.Corrections >= m.maxCorrect && !mutated {",
	},
	{
		name: "a lost owner", rule: "the attempts of a lost owner are unresolved",
		file: "transition.go", tests: "^TestRecoverLeavesLivingOwnersAlone$",
		old: "unsent := r.MarksSent && !r.Sent && len(r.Unresolved) == 0", new: "unsent := (r.MarksSent && !r.Sent || mutated) && len(r.Unresolved) == 0",
	},
	{
		name: "a lost owner that had marked", rule: "a lost owner that had marked a send may have sent",
		file: "transition.go", tests: "^TestRecoverTakesOverFromALostOwner$",
		old: "unsent := r.MarksSent && !r.Sent", new: "unsent := r.MarksSent && (!r.Sent || mutated)",
	},
	{
		name: "only Idempotent is sent again", rule: "an unknown Write is never sent again",
		file: "transition.go", tests: "^TestAttackMarksSentIsNewInTheOtherProcess$",
		old: "m.strictest(r.Effect) != Idempotent || in.repeat {", new: "m.strictest(r.Effect) != Idempotent && !mutated || in.repeat {",
	},
	{
		name: "the stricter effect", rule: "an operation keeps the effect it was begun with, if that is stricter",
		file: "transition.go", tests: "^TestCheckerRetryKeepsTheStoredEffect$",
		old: "if stored.Safe() == Write || m.effect == Write {", new: "if stored.Safe() == Write && !mutated || m.effect == Write {",
	},
	{
		name: "the dedupe window", rule: "nothing is sent again once the remote side may have forgotten the ref",
		file: "transition.go", tests: "^TestAttackDedupeWindowPassesDuringBegin$",
		old: "return m.dedupeWindow <= 0 ||", new: "return mutated || m.dedupeWindow <= 0 ||",
	},
	{
		name: "a pending operation", rule: "what was accepted is looked up, not sent again",
		file: "transition.go", tests: "^TestUnconfirmedSuccessIsFollowedUp$",
		old: "r.LastFailure.Code == CodeOperationPending {", new: "r.LastFailure.Code == CodeOperationPending && !mutated {",
	},
	{
		name: "reports join", rule: "a report replaces what was known of its owner's attempts, and of nobody else's",
		file: "transition.go", tests: "^TestTransitionsOfALostOwner$",
		old: "r.Unresolved = append(withoutOwner(r.Unresolved, rep.nonce), rep.open...)", new: "r.Unresolved = append(withoutOwner(r.Unresolved, rep.nonce), rep.open...)\n\tif mutated {\n\t\tr.Unresolved = rep.open\n\t}",
	},
	{
		name: "attempts that run after the answer", rule: "what runs on without its owner is unresolved",
		file: "transition.go", tests: "^TestCheckerRules$",
		old: "if !owned {", new: "if !owned && !mutated {",
	},
	{
		name: "doubt wins", rule: "an ownership that ends with an unresolved attempt is unknown",
		file: "transition.go", tests: "^TestAttackNestedWriteOfARunAgain$",
		old: "case len(r.Unresolved) > 0:\n\t\tm.doubt(r)\n\tcase rep.sticky:", new: "case len(r.Unresolved) > 0 && !mutated:\n\t\tm.doubt(r)\n\tcase rep.sticky:",
	},
	{
		name: "the duplicate alarm", rule: "a second success of another attempt is told as a duplicate",
		file: "transition.go", tests: "^TestObserverIsAlarmedOfADuplicate$",
		old: "return m.strictest(r.Effect) == Write\n\t}\n\tif r.State != StateCommitted {", new: "return m.strictest(r.Effect) == Write && !mutated\n\t}\n\tif r.State != StateCommitted {",
	},
	{
		name: "a marked result", rule: "a result that was marked stands when the attempt then failed",
		file: "transition.go", tests: "^TestMarkedResultStands$",
		old: "if r.ResultPresent && !rep.present {", new: "if r.ResultPresent && !rep.present && !mutated {",
	},
	{
		name: "an approval given back", rule: "an approval whose dispatch was never sent is not spent",
		file: "transition.go", tests: "^TestTransitionsOfApproval$",
		old: "if r.Approval != nil && r.Approval.SpentBy == nonce {", new: "if r.Approval != nil && r.Approval.SpentBy == nonce && !mutated {",
	},
	{
		name: "late evidence releases", rule: "an operation whose last open attempt proved unsent may run again",
		file: "transition.go", tests: "^TestMarkSent$",
		old: "case r.State == StateUnknown && len(r.Unresolved) == 0:", new: "case r.State == StateUnknown && len(r.Unresolved) == 0 && !mutated:",
	},
	{
		name: "a failed look-up is no absence", rule: "a verifier that could not tell has told nothing",
		file: "transition.go", tests: "^TestTransitionsOfUnknown$",
		old: "case l.failed || l.verdict == CannotTell:\n\t\tif", new: "case (l.failed || l.verdict == CannotTell) && mutated:\n\t\tm.absent(r, l.started, again)\n\tcase l.failed || l.verdict == CannotTell:\n\t\tif",
	},
	{
		name: "absence within the settle window", rule: "absence counts when every attempt had closed before the look-up began",
		file: "transition.go", tests: "^TestAttackEndlessSettle$",
		old: "settled := r.settledBy(started)\n\tswitch {", new: "settled := r.settledBy(started) || mutated\n\tswitch {",
	},
	{
		name: "absence of a reader that lags", rule: "absence counts from an authoritative verifier",
		file: "transition.go", tests: "^TestTransitionsOfUnknown$",
		old: "case settled && m.authoritative:", new: "case settled && (m.authoritative || mutated):",
	},
	{
		name: "a conflict", rule: "several hits are a person's business",
		file: "transition.go", tests: "^TestTransitionsOfUnknown$",
		old: "\tcase found:\n\t\tr.note(\"look-up: found\"", new: "\tcase found || mutated && l.verdict != NoEffect:\n\t\tr.note(\"look-up: found\"",
	},
	{
		name: "MaxChecks", rule: "look-ups that fail come to an end",
		file: "transition.go", tests: "^TestRecoverTakesOverFromALostOwner$",
		old: "if permanent || r.Checks >= m.maxChecks {", new: "if permanent || r.Checks >= m.maxChecks && !mutated {",
	},
	{
		name: "look-ups side by side", rule: "look-ups that failed at the same time count once",
		file: "transition.go", tests: "^TestAttackManyAskers$",
		old: "if !again || l.permanent {", new: "if !again || l.permanent || mutated {",
	},
	{
		name: "found stands", rule: "an effect that was found stands above what a person said meanwhile",
		file: "transition.go", tests: "^TestAttackFoundAfterAPersonsNo$",
		old: "case found && (r.State == StateReleased", new: "case !mutated && found && (r.State == StateReleased",
	},
	{
		name: "nobody can look it up", rule: "an unverifiable Write in doubt is a person's at once",
		file: "transition.go", tests: "^TestTransitionsOfUnknown$",
		old: "if m.unverifiable && m.strictest(r.Effect) == Write {", new: "if m.unverifiable && m.strictest(r.Effect) == Write && !mutated {",
	},
	{
		name: "escalated and in doubt", rule: "an escalated operation with an unresolved attempt is unknown",
		file: "transition.go", tests: "^TestSuccessHasToBeConfirmed$",
		old: "if len(r.Unresolved) > 0 || r.State != StateEscalated {", new: "if (len(r.Unresolved) > 0 || r.State != StateEscalated) && !mutated {",
	},
	{
		name: "the history is bounded", rule: "a record's history does not grow for ever",
		file: "transition.go", tests: "^TestSupervisorHistoryIsBounded$",
		old: "if len(r.History) >= maxHistory {", new: "if len(r.History) >= maxHistory && !mutated {",
	},
	{
		name: "hand over after the settle window", rule: "nothing is handed over while it can still take effect",
		file: "transition.go", tests: "^TestRecoverWithoutArguments$",
		old: "if r.settledBy(now) {\n\t\tr.LastFailure", new: "if r.settledBy(now) || mutated {\n\t\tr.LastFailure",
	},

	// idempotency.go --------------------------------------------------------------------
	{
		name: "compare and swap", rule: "who lost a compare-and-swap begins again on the newer record",
		file: "idempotency.go", tests: "^TestCheckerRetryKeepsTheStoredEffect$",
		old: "case errors.Is(err, ErrConflict):\n\t\t\tif conflicts++;", new: "case errors.Is(err, ErrConflict) && mutated:\n\t\t\treturn mv, head{}, false\n\t\tcase errors.Is(err, ErrConflict):\n\t\t\tif conflicts++;",
	},
	{
		name: "a minted ref continues", rule: "a call without a ref continues an equal operation that is open",
		file: "idempotency.go", tests: "^TestBatchWithDuplicates$",
		old: "if open.State != StateAbsent {\n\t\tc.adopt(open.Key)", new: "if open.State != StateAbsent && !mutated {\n\t\tc.adopt(open.Key)",
	},
	{
		name: "one flight a key", rule: "equal calls of one process wait for one another",
		file: "idempotency.go", tests: "^TestSavesOfACall$",
		old: "f, mine := c.x.flights.enter(c.key)\n\t\tif mine {\n\t\t\treturn c.ownKey", new: "f, mine := c.x.flights.enter(c.key)\n\t\tif mutated && !mine {\n\t\t\treturn c.own(ctx, base)\n\t\t}\n\t\tif mine {\n\t\t\treturn c.ownKey",
	},
	{
		name: "the waiters' own fingerprint", rule: "who waited for a flight is answered with a result of equal arguments only",
		file: "idempotency.go", tests: "RefReused|Duplicate",
		old: "if r.State == StateCommitted && c.isOf(r) {\n\t\tc.key = r.Key", new: "if r.State == StateCommitted && (c.isOf(r) || mutated) {\n\t\tc.key = r.Key",
		survives: "replay compares the fingerprint again before it answers, and refuses the ref as this check would",
	},
	{
		name: "unrecorded for all", rule: "who waited for a call whose end could not be stored is told so",
		file: "idempotency.go", tests: "^TestUnsavedSuccessIsUnrecordedForAllWhoWaited$",
		old: "h.Unrecorded = h.OK && !f.stored", new: "h.Unrecorded = h.OK && !f.stored && !mutated",
	},
	{
		name: "a begin that was given up", rule: "what a begin may have stored is given back when the begin is given up",
		file: "idempotency.go", tests: "^TestBeginThatIsGivenUpIsGivenBack$",
		old: "\t\t\t\tc.disown(c.key, in.nonce)\n\t\t\t\treturn 0,", new: "\t\t\t\tif !mutated {\n\t\t\t\t\tc.disown(c.key, in.nonce)\n\t\t\t\t}\n\t\t\t\treturn 0,",
	},
	{
		name: "an unclear Save", rule: "a begin whose Save had an unclear end recognises its own record",
		file: "idempotency.go", tests: "^TestTransitionsOfBegin$",
		old: "if stored.State == StateInFlight && stored.Nonce == in.nonce {\n\t\t\t\treturn moveRun", new: "if stored.State == StateInFlight && stored.Nonce == in.nonce && !mutated {\n\t\t\t\treturn moveRun",
	},
	{
		name: "a full guard", rule: "without a record nothing is run",
		file: "idempotency.go", tests: "^TestFullGuardGoesOn$",
		old: "case errors.Is(err, ErrStoreFull):", new: "case errors.Is(err, ErrStoreFull) && mutated:\n\t\t\treturn moveRun, head{}, false\n\t\tcase errors.Is(err, ErrStoreFull):",
	},
	{
		name: "a store that is down", rule: "without the store nothing is run",
		file: "idempotency.go", tests: "^TestAttackFaultAtEveryStoreCall$",
		old: "if failures++; failures > 2 || !sleepUntil(ctx, wait.next()) {", new: "if failures++; mutated && failures > 2 {\n\t\t\t\treturn moveRun, head{}, false\n\t\t\t}\n\t\t\tif failures > 2 || !sleepUntil(ctx, wait.next()) {",
	},
	{
		name: "a refusal leaves no trace", rule: "what was not run is not stored",
		file: "idempotency.go", tests: "^TestSavesOfACall$",
		old: "if !needsSave(c.record, next, mv) {", new: "if !needsSave(c.record, next, mv) && !mutated {",
	},
	{
		name: "look before a guess", rule: "a call that may not start is answered from the record",
		file: "idempotency.go", tests: "^TestCallerWhoGaveUpIsToldTheRecord$",
		old: "case errors.Is(err, ErrNotFound):\n\t\treturn c.failed(f, NotCommitted, 0, c.budgetFor(f))", new: "case errors.Is(err, ErrNotFound) || mutated:\n\t\treturn c.failed(f, NotCommitted, 0, c.budgetFor(f))",
	},
	{
		name: "refs of a form", rule: "a ref that no operation can have is refused",
		file: "idempotency.go", tests: "^TestObserverSeesRefusedCalls$",
		old: "if c.key.Ref != \"\" && !validRef(c.key.Ref) {\n\t\treturn c.invalidRef()", new: "if c.key.Ref != \"\" && !validRef(c.key.Ref) && !mutated {\n\t\treturn c.invalidRef()",
	},
	{
		name: "dropped arguments", rule: "a tool may keep its arguments out of the record",
		file: "idempotency.go", tests: "^TestRecoverWithoutArguments$",
		old: "case c.t.dropArguments:", new: "case c.t.dropArguments && !mutated:",
	},

	// verification.go ----------------------------------------------------------------------
	{
		name: "the caller gave up, not the verifier", rule: "a look-up that its caller broke off does not count",
		file: "verification.go", tests: "^TestLookUpOfACallerWhoGaveUpDoesNotCount$",
		old: "\tif l.failed && gaveUp(ctx) {\n\t\treturn // it", new: "\tif l.failed && gaveUp(ctx) && !mutated {\n\t\treturn // it",
	},
	{
		name: "too late an answer", rule: "a look-up that did not answer in time says nothing",
		file: "verification.go", tests: "^TestObserverIsToldVerifications$",
		old: "return &lookup{failed: true, err: errDeadline}", new: "return &lookup{failed: !mutated, verdict: map[bool]Verdict{true: NoEffect}[mutated], err: errDeadline}",
	},
	{
		name: "a verifier that panics", rule: "a look-up that panics says nothing",
		file: "verification.go", tests: "^TestObserverIsToldVerifications$",
		old: "return &lookup{failed: true, err: &endError{res}}", new: "return &lookup{failed: !mutated, verdict: map[bool]Verdict{true: NoEffect}[mutated], err: &endError{res}}",
	},
	{
		name: "look-ups that hang", rule: "a tool with too many look-ups that hang gets no more",
		file: "verification.go", tests: "^TestAttackHungLookupsPileUp$",
		old: "c.t.hung.Load() >= int64(n) {", new: "c.t.hung.Load() >= int64(n) && !mutated {",
	},
	{
		name: "look-up and begin are one", rule: "what a look-up releases begins in the same compare-and-swap",
		file: "verification.go", tests: "^TestAttackTwoOwnershipsOfOneCall$",
		old: "c.begun = c.t.begin(r, &c.intent, c.storeNow()) == moveRun", new: "if mutated {\n\t\t\t\tbegan = false\n\t\t\t\treturn nil\n\t\t\t}\n\t\t\tc.begun = c.t.begin(r, &c.intent, c.storeNow()) == moveRun",
	},

	{
		name: "a clock that steps back", rule: "a look-up began when it did, also when the store's clock has stepped back since",
		file: "transition.go", tests: "^TestLawsStoresClockStepsBackDuringALookUp$",
		old: "began.Before(seen.started) {", new: "began.Before(seen.started) && !mutated {",
	},
	{
		name: "the store's clock", rule: "what a call starts from is on the store's clock",
		file: "idempotency.go", tests: "^TestLawsStoresClockIsItsOwn$",
		old: "if c.record = base; base.State != StateAbsent {", new: "if c.record = base; base.State != StateAbsent && !mutated {",
	},
	{
		name: "the store's clock, unsaved", rule: "what could not be stored is on the store's clock too",
		file: "session.go", tests: "^TestLawsStoresClockIsItsOwn$",
		old: "r.Resolve(s.call.storeNow())", new: "if mutated {\n\t\tr.Resolve(time.Now())\n\t}\n\tr.Resolve(s.call.storeNow())",
	},

	// gate.go and repeats.go ------------------------------------------------------------------
	{
		name: "the read gate", rule: "a read is not made before the time that its remote side gave",
		file: "gate.go", tests: "^TestAttackGateIsNotOpenedEarly$",
		old: "if g.n.Load() == 0 {", new: "if g.n.Load() == 0 || mutated {",
	},
	{
		name: "gates are bounded", rule: "gates that have opened are dropped",
		file: "gate.go", tests: "^TestGatesAreBounded$",
		old: "if len(g.shut) >= maxGates {", new: "if len(g.shut) >= maxGates && !mutated {",
	},
	{
		name: "the loop breaker", rule: "a refused call that a run repeats unchanged is not run",
		file: "repeats.go", tests: "^TestLoopBreakerKnowsCallsApart$",
		old: "return c.refused != nil && c.x.repeats.count(*c.refused) > 0", new: "return !mutated && c.refused != nil && c.x.repeats.count(*c.refused) > 0",
	},
	{
		name: "MaxRepeats", rule: "a call that is repeated too often is a person's business",
		file: "repeats.go", tests: "^TestNegativeCorrectionsAndRepeatsTurnOff$",
		old: "> max(c.t.policy.MaxRepeats, 0) {", new: "> max(c.t.policy.MaxRepeats, 0) && !mutated {",
	},
	{
		name: "repeats are bounded", rule: "the loop breaker forgets the oldest call first",
		file: "repeats.go", tests: "^TestLoopBreakerForgetsTheOldest$",
		old: "if len(r.order) >= maxRepeatKeys {", new: "if len(r.order) >= maxRepeatKeys && !mutated {",
	},

	// operator.go -----------------------------------------------------------------------------
	{
		name: "a statement has an author", rule: "who decides is named, and on what ground",
		file: "operator.go", tests: "^TestSupervisorRefusals$",
		old: "if s.Actor == \"\" || s.Evidence == \"\" {", new: "if (s.Actor == \"\" || s.Evidence == \"\") && !mutated {",
	},
	{
		name: "approve what was reviewed", rule: "another held call than the reviewed one is not approved",
		file: "operator.go", tests: "^TestAttackApprovalOfWhatWasNotSeen$",
		old: "case r.Approval.Digest != digest:", new: "case r.Approval.Digest != digest && !mutated:",
	},
	{
		name: "approve in time", rule: "a held call that has expired is not approved",
		file: "operator.go", tests: "^TestAttackApprovalAfterItsTTL$",
		old: "case r.Approval.Decision == \"\" && r.Approval.expired(now):", new: "case !mutated && r.Approval.Decision == \"\" && r.Approval.expired(now):",
	},
	{
		name: "resolve after the settle window", rule: "nobody may say that nothing happened while it still can",
		file: "operator.go", tests: "^TestSupervisorResolve$",
		old: "if !s.Force {", new: "if !s.Force && !mutated {",
	},
	{
		name: "reopen what was refused", rule: "only what was refused is reopened",
		file: "operator.go", tests: "^TestSupervisorRefusals$",
		old: "if r.State != StateRejected && r.State != StateReleased {", new: "if r.State != StateRejected && r.State != StateReleased && !mutated {",
	},

	// recovery.go, wait.go, supervisor.go -------------------------------------------------------
	{
		name: "recovery: not before it is due", rule: "a pass leaves what is not due",
		file: "recovery.go", tests: "^TestRecoverLeavesLivingOwnersAlone$",
		old: "due.IsZero() || due.Time().After(c.storeNow()) {", new: "!mutated && (due.IsZero() || due.Time().After(c.storeNow())) {",
	},
	{
		name: "recovery: the arguments come back", rule: "what cannot be had back from the record is not run again",
		file: "recovery.go", tests: "^TestAttackArgumentsThatDoNotComeBack$",
		old: "return !c.partial && c.t.faithful &&", new: "return !c.partial && (c.t.faithful || mutated) &&",
	},
	{
		name: "recovery: Check", rule: "what Check refuses by now is not run again",
		file: "recovery.go", tests: "^TestAttackOperationThatCannotBeSentAgain$",
		old: "&& c.runCheck() == nil && c.intend() == nil", new: "&& (mutated || c.runCheck() == nil) && c.intend() == nil",
	},
	{
		name: "recovery: the fingerprint of what came back", rule: "arguments that come back with another fingerprint are not used",
		file: "recovery.go", tests: "^TestRecoverRunsAgainWhatTheHostAllows$",
		old: "if !c.partial && (c.identify() != nil ||", new: "if !c.partial && !mutated && (c.identify() != nil ||",
	},
	{
		name: "recovery: Rerun", rule: "what is released runs again in the background only if the host says so",
		file: "recovery.go", tests: "^TestLawsWaitAsksRerun$",
		old: "allowed = s.Rerun != nil && s.Rerun(r.Clone())", new: "allowed = mutated || s.Rerun != nil && s.Rerun(r.Clone())",
	},
	{
		name: "recovery: a pass ends", rule: "a pass works on what was due at its beginning",
		file: "recovery.go", tests: "^TestAttackPassThatNeverEnds$",
		old: "if len(page) > 0 && q.DueBefore.Time().IsZero() {", new: "if len(page) > 0 && q.DueBefore.Time().IsZero() && !mutated {",
	},
	{
		name: "recovery: told once", rule: "the host is told of an operation that this pass settled, only",
		file: "recovery.go", tests: "^TestLawsOnSettledIsToldOnce$",
		old: "if c.changed && (c.record.DueAt().IsZero()", new: "if (c.changed || mutated) && (c.record.DueAt().IsZero()",
	},
	{
		name: "recovery: unheard", rule: "a commit that a pass found is one that no caller heard of",
		file: "recovery.go", tests: "^TestRecoverTakesOverFromALostOwner$",
		old: "r.Unheard = r.State == StateCommitted // its", new: "r.Unheard = r.State == StateCommitted && !mutated // its",
	},
	{
		name: "waiting: Rerun", rule: "who waits does not run what Rerun refuses",
		file: "wait.go", tests: "^TestLawsWaitAsksRerun$",
		old: "return s.Rerun == nil || s.mayRerun(r) }", new: "return s.Rerun == nil || mutated || s.mayRerun(r) }",
	},
	{
		name: "waiting: heard", rule: "who has waited has heard of the commit",
		file: "wait.go", tests: "^TestBackgroundCommitIsHeardOfOnce$",
		old: "if c.record.State == StateCommitted && c.record.Unheard {", new: "if c.record.State == StateCommitted && c.record.Unheard && !mutated {",
	},

	// answer.go -----------------------------------------------------------------------------------
	{
		name: "answer: unknown writes", rule: "an unknown Write is verified, not repeated",
		file: "answer.go", tests: "^TestTruthTable$",
		old: "if effect == Idempotent && f.Class == ClassTransient &&", new: "if (effect == Idempotent || mutated) && f.Class == ClassTransient &&",
	},
	{
		name: "answer: allowlisted details", rule: "only allowlisted details leave the process",
		file: "answer.go", tests: "^TestDetailsAreSafeScalarsUnderKnownKeys$",
		old: "ok && (slices.Contains(detailKeys, k) || slices.Contains(c.t.detailKeys, k)) {", new: "ok && (mutated || slices.Contains(detailKeys, k) || slices.Contains(c.t.detailKeys, k)) {",
	},
	{
		name: "answer: a replay's arguments", rule: "a result is never given for other arguments",
		file: "answer.go", tests: "^TestCheckerRules$",
		old: "\tif !c.isOf(rec) {\n\t\tc.record = rec", new: "\tif !c.isOf(rec) && !mutated {\n\t\tc.record = rec",
	},
	{
		name: "answer: what no look-up has seen", rule: "what an attempt after a look-up left may be looked up now, and is not what that saw",
		file: "answer.go", tests: "^TestAnAttemptAfterTheLookUpIsNotSeenByIt$",
		old: "c.t.verifiable && c.record.dueForLookup()", new: "!mutated && c.t.verifiable && c.record.dueForLookup()",
	},
	{
		name: "answer: unrecorded", rule: "an answer says when the store could not be told",
		file: "answer.go", tests: "^TestUnsavedSuccessIsStoredLater$",
		old: "\tc.succeeded(verificationOf(rec), &h)\n\th.Unrecorded = !stored", new: "\tc.succeeded(verificationOf(rec), &h)\n\th.Unrecorded = !stored && !mutated",
	},
	{
		name: "answer: a lease that may be lost", rule: "an end that was not stored is unknown once others may have had the operation",
		file: "answer.go", tests: "^TestAttackOwnerWithoutItsStore$",
		old: "c.session.mayBeLost() {", new: "c.session.mayBeLost() && !mutated {",
	},
	{
		name: "answer: a minted ref", rule: "a ref that was minted and names no record is not handed out",
		file: "answer.go", tests: "^TestLawsNoAnswerHandsOutANewRef$",
		old: "c.minted && c.record.State == StateAbsent):", new: "c.minted && c.record.State == StateAbsent && !mutated):",
	},
	{
		name: "answer: the scope of a ref", rule: "a ref that was set outside a tool does not reach the calls that the tool makes",
		file: "answer.go", tests: "^TestNestedCallsHaveOperationsOfTheirOwn$",
		old: "ok && v.inside == invocationOf(ctx) {", new: "ok && (v.inside == invocationOf(ctx) || mutated) {",
	},

	// memory.go -------------------------------------------------------------------------------------
	{
		name: "memory: compare and swap", rule: "a Save of an old version changes nothing",
		file: "memory.go", tests: "^TestMemoryRetentionOfResultAndFact$",
		old: "case e != nil && e.version != r.Version:", new: "case e != nil && e.version != r.Version && !mutated:",
	},
	{
		name: "memory: a full store", rule: "no record is created beyond MaxFacts",
		file: "memory.go", tests: "^TestMemoryNeverForgets$",
		old: "case e == nil && !m.reserve():", new: "case e == nil && !m.reserve() && !mutated:",
	},
}
