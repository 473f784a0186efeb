package crash

import (
	"encoding/json"
	"time"
)

// What parent and child agree on.

// Points at which a process is killed. Those of the child kill themselves; at
// those of the wire the ledger has the child killed.
const (
	beforeRecord = "before the record"
	afterRecord  = "after the record"
	beforeSend   = "before send"
	afterSend    = "after send"        // the effect comes when the process is dead
	beforeAnswer = "before the answer" // the effect is there
	beforeResult = "before the result is stored"
	afterResult  = "after the result is stored"
	inLookup     = "in a look-up"
	atRandom     = "at random"
)

var points = []string{beforeRecord, afterRecord, beforeSend, afterSend, beforeAnswer, beforeResult, afterResult, inLookup, atRandom}

// The facts that every process has in common.
const (
	attemptDeadline = 80 * time.Millisecond
	totalDeadline   = 300 * time.Millisecond
	settle          = 200 * time.Millisecond // of the verifier
	lateBy          = 90 * time.Millisecond  // an effect comes at most so long after its request was given up
	ledgerLag       = 80 * time.Millisecond  // a look-up of a lagging ledger does not show younger effects
)

// job is what a child is started with, in the environment.
type job struct {
	File    string // the database
	Ledger  string // its address
	Name    string // of the process, for the ledger
	Steps   []step
	Patient bool // waits until nothing is open before it goes on
	Last    bool // goes on until every step is over
	Point   string
	Visit   int // at which visit of Point it dies
	Checks  int // MaxChecks of the verifier
}

// step is one thing the agent wants done, once.
type step struct {
	ID   string
	Tool string
}

func (j job) encode() string {
	raw, _ := json.Marshal(j) // plain data
	return string(raw)
}

// tools by how they protect themselves.
const (
	toolKeyed  = "pay"      // a Write with a business key, looked up
	toolMarks  = "transfer" // the same, and it marks its sends
	toolPlain  = "mail"     // a Write without a key: its steps have refs
	toolDedupe = "charge"   // Idempotent: the ledger dedupes by ref
)

var tools = []string{toolKeyed, toolMarks, toolPlain, toolDedupe}

// told is what an agent was answered about a step.
type told struct {
	Step, Process string
	OK            bool
	CommitState   string
	Code          string
	Since         int // the ledger's clock when the call began
}
