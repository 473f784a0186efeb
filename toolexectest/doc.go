// Package toolexectest holds what is needed to test tools, classifiers, stores,
// and what a program does with an answer, in milliseconds.
//
// # Test a tool
//
// [RunContract] takes a tool of yours and runs it through the scenarios in which
// recovery goes wrong: a lost answer, a rate limit, an outage, a process that
// dies, an approval that expires. It says in words what the tool breaks, such as
// "declares Idempotent but had 2 effects for one ref". A [Case] says what it has to
// know; [CheckContract] is the form that returns an error.
//
// # Make it fail
//
// A [Fault] is what befalls one attempt, on the way there or on the way back. A
// [Plan] says which attempt: a [Script] that is written, or one that [Draw] draws
// from a seed; [Catalogue] ranges over every single way to fail. One plan serves
// whatever can be wrapped:
//
//	Wrap         a tool's function
//	WrapLookup   the look-up of a verifier
//	WrapStore    a store, with a plan for each of its methods
//	NewProxy     an HTTP connection, with faults of its own
//
// A [Process] dies at a named [Point], and nothing of it reaches the others any
// more. A fault that is declared and does not strike fails the test: call Check.
//
// # See what happened
//
// A [Ledger] is a remote side that counts effects by operation ref; it can
// deduplicate, for a window of time, have its effects late, and show them later
// still. [Lookup] reads it for a verifier. [Expect] compares an envelope with what
// a test wants of it, field by field; [CheckEnvelope] says whether an envelope
// contradicts itself.
//
// # Test an extension
//
// [RunStore] and [CheckStore] are the conformance kit for stores,
// [RunClassifier] and [CheckClassifier] that for classifiers: named rules, each of
// which says in words what has to be true. In this package Check returns an error,
// and works in a [testing/synctest] bubble; Run makes a subtest of each rule.
package toolexectest
