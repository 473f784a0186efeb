// Package crash kills processes that run an agent's steps, and counts what
// became of them.
//
// A world is one SQLite file, a ledger behind HTTP in the parent process, and
// an agent that has a few steps to do. The agent is a process of its own, this
// test binary started again. It is killed with SIGKILL, at a random moment or at
// a named point, and started anew on the same file: it recovers and issues every
// step again that it was not told the success of. In the end one is left alone
// to finish.
//
//	go test -run TestCrash . -v -args -kills 5000 -seed 7
package crash
