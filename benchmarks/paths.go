package main

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/benchmarks/internal/measure"
)

// entry is a path of a group.
type entry struct {
	measure.Path
	ours bool
	does string // beside the call itself, and what it leaves out
	from string // the module of a peer; empty for the standard library's
}

func ours(name, does string, run func(b *testing.B)) entry {
	return entry{measure.Path{Name: name, Run: run}, true, does, ""}
}

func peer(name, from, does string, run func(b *testing.B)) entry {
	return entry{measure.Path{Name: name, Run: run}, false, does, from}
}

// group is a set of paths that come to the same thing.
type group struct {
	title, text string
	entries     []entry
	call        bool // its paths are calls, and so compare with what a tool itself takes
}

// The names of paths that are compared.
const (
	pathWithTimeout     = "context.WithTimeout + call"
	pathEnforced        = "goroutine + channel + WithTimeout"
	pathFailsafe        = "failsafe-go, retry + timeout"
	pathCooperative     = "ReadOnly, cooperative"
	pathRead            = "ReadOnly, enforced deadline"
	pathWrite           = "Write, new ref"
	pathReplay          = "Write, replayed"
	pathTwice           = "ReadOnly, cooperative, fails twice"
	pathTwiceEnforced   = "ReadOnly, enforced deadline, fails twice"
	pathTwiceBackoff4   = "backoff v4, fails twice"
	pathTwiceFailsafe   = "failsafe-go, retry + timeout, fails twice"
	pathByName          = "by name, JSON in and envelope out"
	pathPlainJSON       = "json.Unmarshal + call + json.Marshal"
	pathMCP             = "MCP Go SDK, in memory"
	pathSaves           = "MemoryStore, begin + finish"
	pathAppendJSON      = "AppendJSON, reused buffer"
	pathMarshalEnvelope = "json.Marshal of the envelope"
	pathMarshalStruct   = "json.Marshal of an equal struct"
)

var groups = []group{
	{
		"A call that succeeds",
		`Two fields in, one out, a tool that returns at once. Attempts may take 2 s; two retries are allowed, and none is needed. None of the peers records anything,
knows what a retry may repeat, or answers a second call from the first; a guarded write has canonical arguments and their SHA-256, a record before and after, and the
encoded result.`,
		[]entry{
			peer("bare call", "", "nothing", bareCall),
			peer(pathWithTimeout, "", "ends the context; a tool that ignores it is waited for", withTimeout),
			peer("goroutine handoff", "", "runs the tool elsewhere; no deadline", handOff),
			peer(pathEnforced, "", "returns at its deadline; loses what comes later", enforced),
			peer(pathFailsafe, "github.com/failsafe-go/failsafe-go", "retries; ends the context at the deadline", failsafeRetryTimeout),
			peer("failsafe-go, retry", "github.com/failsafe-go/failsafe-go", "retries; no deadline", failsafeRetry),
			peer("backoff v4", "github.com/cenkalti/backoff/v4", "retries; no deadline of an attempt", backoffV4),
			peer("backoff v5", "github.com/cenkalti/backoff/v5", "retries; no deadline of an attempt", backoffV5),
			peer("retry-go", "github.com/avast/retry-go/v5", "retries; no deadline", retryGo),
			peer("go-retry", "github.com/sethvargo/go-retry", "retries; no deadline", goRetry),
			peer("gobreaker", "github.com/sony/gobreaker/v2", "a circuit breaker; neither retries nor deadline", breaker),
			peer("AWS SDK retryer", "github.com/aws/aws-sdk-go-v2", "retries with a budget; calls hooks for metrics and spans, which are empty; no deadline", awsRetryer),
			peer("gax", "github.com/googleapis/gax-go/v2", "retries; ends the context at the deadline of the call", gaxInvoke),
			ours(pathCooperative, "retries what may be retried; ends the context at the deadline", readCooperative),
			ours(pathRead, "the same; returns at the deadline, and keeps what comes later", readEnforced),
			ours(pathWrite, "the same, guarded by a record in memory", writeNewRef),
			ours(pathReplay, "answered from the record", replay),
		},
		true,
	},
	{
		"Two failures, then success",
		"The tool fails twice and then succeeds, without pauses.",
		[]entry{
			peer(pathTwiceBackoff4, "github.com/cenkalti/backoff/v4", "no deadline of an attempt", twiceBackoffV4),
			peer("backoff v5, fails twice", "github.com/cenkalti/backoff/v5", "no deadline of an attempt", twiceBackoffV5),
			peer("retry-go, fails twice", "github.com/avast/retry-go/v5", "no deadline", twiceRetryGo),
			peer("go-retry, fails twice", "github.com/sethvargo/go-retry", "no deadline", twiceGoRetry),
			peer(pathTwiceFailsafe, "github.com/failsafe-go/failsafe-go", "ends the context at the deadline of an attempt", twiceFailsafe),
			peer("AWS SDK retryer, fails twice", "github.com/aws/aws-sdk-go-v2", "calls the same hooks; no budget here; no deadline", twiceAWS),
			peer("gax, fails twice", "github.com/googleapis/gax-go/v2", "pauses a nanosecond, its least; ends the context at the deadline of the call", twiceGax),
			ours(pathTwice, "says what it judged; ends the context at the deadline of an attempt", twiceCooperative),
			ours(pathTwiceEnforced, "the same; returns at the deadline", twiceEnforced),
		},
		false,
	},
	{
		"A call by name",
		"What a model wrote comes in as JSON, and what it reads goes out as JSON.",
		[]entry{
			peer(pathPlainJSON, "", "decodes, calls, encodes the same bytes; checks nothing", plainJSON),
			peer(pathMCP, "github.com/modelcontextprotocol/go-sdk", "checks the schema; a client, a server and JSON-RPC between them, without a network", mcpInMemory),
			ours(pathByName, "checks the schema, runs a ReadOnly tool, encodes the envelope", byName),
		},
		true,
	},
	{
		"The guard alone",
		`What is spent to find out, for one key after another, that nobody else is at it, and to end that. The store keeps two records of an ordinary write: its begin with
the arguments, its finish with the result, each a compare-and-swap; then it forgets them.`,
		[]entry{
			peer("singleflight.Do", "golang.org/x/sync", "joins who is in flight; remembers nothing", singleFlight),
			peer("map of 32 shards, claim + release", "", "says that somebody is in flight; remembers nothing", shardedMap),
			peer("sync.Map, LoadOrStore + Delete", "", "says that somebody is in flight; remembers nothing", syncMap),
			peer("otter cache, SetIfAbsent + Set", "github.com/maypok86/otter/v2", "remembers a value, until it is full", otterCache),
			ours(pathSaves, "remembers both records", storeSaves),
		},
		false,
	},
	{
		"Encoding",
		"The envelope of a write in doubt, {bytes} bytes long, and a struct with the same members and values.",
		[]entry{
			peer(pathMarshalStruct, "", "the same bytes from plain fields", marshalStruct),
			ours(pathMarshalEnvelope, "the envelope's own encoder, and what package json checks of it", marshalEnvelope),
			ours(pathAppendJSON, "the envelope's own encoder", appendJSON),
		},
		false,
	},
}

// input and receipt are of an ordinary size: two fields in, one out.
type input struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}

type receipt struct {
	ID string `json:"id"`
}

var in = input{OrderID: "ORD-5510", Cents: 8000}

func tool(context.Context, input) (receipt, error) { return receipt{ID: "rcpt_1"}, nil }

// lookup is the same tool as a plain function that the optimiser cannot see
// through.
var lookup = tool

var errDown = errors.New("down")

// downTwice returns a tool that fails with down twice each time before it
// succeeds.
func downTwice(down error) func(context.Context, input) (receipt, error) {
	n := 0
	return func(ctx context.Context, in input) (receipt, error) {
		if n++; n%3 != 0 {
			return receipt{}, down
		}
		return lookup(ctx, in)
	}
}

func must(b *testing.B, ok bool) {
	if !ok {
		b.Fatal("the call failed")
	}
}

func bind(t toolexec.Tool[input, receipt], store toolexec.Store) *toolexec.Bound[input, receipt] {
	if t.Name = "lookup"; t.Run == nil {
		t.Run = lookup
	}
	return toolexec.Bind(&toolexec.Executor{Store: store}, t)
}

// calls times calls of t without a ref.
func calls(b *testing.B, t *toolexec.Bound[input, receipt]) {
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		must(b, t.Call(ctx, in).OK)
	}
}

func readCooperative(b *testing.B) {
	calls(b, bind(toolexec.Tool[input, receipt]{Effect: toolexec.ReadOnly, Cooperative: true}, nil))
}

func readEnforced(b *testing.B) {
	calls(b, bind(toolexec.Tool[input, receipt]{Effect: toolexec.ReadOnly}, nil))
}

// forgetful is a store that forgets a commit at once, so that a figure is the
// guard's and not that of a heap that grows with each call.
func forgetful() toolexec.Store { return &toolexec.MemoryStore{KeepFacts: 1} }

// ref names operation n.
func ref(n int) string { return "run/" + strconv.Itoa(n) }

func writeNewRef(b *testing.B) {
	t := bind(toolexec.Tool[input, receipt]{}, forgetful())
	ctx := context.Background()
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		must(b, t.Call(toolexec.WithOperationRef(ctx, ref(n)), in).OK)
	}
}

func replay(b *testing.B) {
	t := bind(toolexec.Tool[input, receipt]{}, nil)
	ctx := toolexec.WithOperationRef(context.Background(), ref(1))
	must(b, t.Call(ctx, in).OK)
	b.ReportAllocs()
	for b.Loop() {
		must(b, t.Call(ctx, in).Replayed)
	}
}

func twiceCooperative(b *testing.B) { twice(b, true) }
func twiceEnforced(b *testing.B)    { twice(b, false) }

func twice(b *testing.B, cooperative bool) {
	calls(b, bind(toolexec.Tool[input, receipt]{
		Effect: toolexec.ReadOnly, Cooperative: cooperative,
		Policy: toolexec.Policy{Backoff: toolexec.Backoff{Initial: -1}},
		Run:    downTwice(toolexec.Transient(errDown)),
	}, nil))
}
