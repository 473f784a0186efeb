// Package attempt makes a deadline hold against a function that ignores its
// context.
//
// A function that runs on its caller's goroutine can only be asked to stop. [Run]
// therefore puts it on a goroutine of its own, waits for it no longer than the
// deadline and the caller allow, and takes its result afterwards, whenever that is:
// exactly one of "Run reports the end" and "Late is called with it" happens, and one
// compare-and-swap decides which.
//
// [Context] is the context of one attempt. It is a standard context whose timer and
// registration with the caller's context are made only when somebody asks for Done.
// Most functions never do, and then an attempt costs one allocation: the caller's
// own struct, which embeds a Context.
//
// What it costs beside a bare goroutine, channel and context.WithTimeout is measured
// by the benchmarks of this package: about half the time, a tenth of the allocations.
package attempt
