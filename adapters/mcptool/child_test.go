package mcptool_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // pure Go: builds everywhere

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/adapters/mcptool"
	"github.com/toolexec/toolexec/sqlstore"
)

// A server in a process of its own, so that it can die: this test, started again. It posts refunds to a file, which
// survives it, and meets a fault once.

// childFault is what befalls the first call of refund.
type childFault string

const (
	childFine   childFault = ""
	childBefore childFault = "killed before the effect"
	childDuring childFault = "killed after the effect, in the tool"
	childAfter  childFault = "killed after the tool, before the answer"
	childLost   childFault = "the answer of the gateway is lost"
	childPanics childFault = "the tool panics after the effect"
	childHangs  childFault = "the tool hangs after the effect"
	childBroken childFault = "the result breaks its schema"
)

// childWorld is where the effects are, and whether the fault has struck.
type childWorld struct {
	dir   string
	fault childFault
}

func (w childWorld) ledger() string { return filepath.Join(w.dir, "ledger") }

// effects are the refs that were posted, a line each.
func (w childWorld) effects() []string {
	raw, err := os.ReadFile(w.ledger())
	if err != nil {
		return nil
	}
	return strings.Fields(string(raw))
}

func (w childWorld) post(ref string) error {
	f, err := os.OpenFile(w.ledger(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, "ref="+ref) // a line also for a call without one
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

// strikes reports whether the fault is f, and has not struck before.
func (w childWorld) strikes(f childFault) bool {
	if w.fault != f || f == childFine {
		return false
	}
	marker, err := os.OpenFile(filepath.Join(w.dir, "struck"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	return marker.Close() == nil
}

func childDie() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// refund is the tool of both servers.
func (w childWorld) refund(ref string) (receipt, error) {
	if w.strikes(childBefore) {
		childDie()
	}
	if err := w.post(ref); err != nil {
		return receipt{}, err
	}
	switch {
	case w.strikes(childDuring):
		childDie()
	case w.strikes(childLost):
		return receipt{}, io.ErrUnexpectedEOF
	case w.strikes(childPanics):
		panic("boom")
	case w.strikes(childHangs):
		time.Sleep(time.Hour)
	case w.strikes(childBroken):
		return receipt{"bad"}, nil
	}
	return receipt{"rcpt_1"}, nil
}

func (w childWorld) lookUp(_ context.Context, ref string, _ order) (toolexec.Finding[receipt], error) {
	if slices.Contains(w.effects(), "ref="+ref) {
		return toolexec.Found(receipt{"rcpt_1"}), nil
	}
	return toolexec.Absent[receipt](), nil
}

// childSchema is what its results keep: a receipt that does not read "bad".
const childSchema = `{"type":"object","required":["receipt"],"properties":{"receipt":{"type":"string","minLength":4}}}`

// child is the process. Over stdio, or over HTTP on a port that it prints.
func child(role string) int {
	w := childWorld{os.Getenv("MCPTOOL_DIR"), childFault(os.Getenv("MCPTOOL_FAULT"))}
	s := mcp.NewServer(impl(role), nil)
	switch role {
	case "plain":
		childPlain(s, w)
	case "toolexec":
		db, err := sql.Open("sqlite", filepath.Join(w.dir, "records.db"))
		if err != nil {
			return 1
		}
		defer db.Close()
		store, err := sqlstore.Open(context.Background(), db, sqlstore.SQLite, sqlstore.Options{})
		if err != nil {
			return 1
		}
		defer func() { _ = store.Close() }()
		mcptool.Serve(s, childExecutor(w, store), mcptool.ServeOptions{Scope: childScope})
	}
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			res, err := next(ctx, method, req)
			if call, ok := req.(*mcp.CallToolRequest); ok && call.Params.Name == "refund" && w.strikes(childAfter) {
				childDie()
			}
			return res, err
		}
	})
	if os.Getenv("MCPTOOL_HTTP") == "" {
		_ = s.Run(context.Background(), &mcp.StdioTransport{})
		return 0
	}
	l, err := net.Listen("tcp", os.Getenv("MCPTOOL_HTTP"))
	if err != nil {
		return 1
	}
	if _, err := fmt.Fprintln(os.Stdout, l.Addr()); err != nil {
		return 1
	}
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	_ = http.Serve(l, h)
	return 0
}

func childScope(*mcp.CallToolRequest) string { return "tests" }

// childPlain is what one writes with the SDK alone.
func childPlain(s *mcp.Server, w childWorld) {
	mcp.AddTool(s, &mcp.Tool{Name: "refund", OutputSchema: json.RawMessage(childSchema)},
		func(_ context.Context, r *mcp.CallToolRequest, _ order) (*mcp.CallToolResult, receipt, error) {
			ref, _ := r.Params.Meta[mcptool.MetaOperationRef].(string)
			out, err := w.refund(ref)
			return nil, out, err
		})
	mcp.AddTool(s, &mcp.Tool{Name: "get_order", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *mcp.CallToolRequest, order) (*mcp.CallToolResult, receipt, error) {
			return nil, receipt{"shipped"}, nil
		})
}

// childExecutor is the same with an executor.
func childExecutor(w childWorld, store toolexec.Store) *toolexec.Executor {
	x := &toolexec.Executor{Store: store, Policy: toolexec.Policy{Deadline: time.Second, TotalDeadline: 2 * time.Second}}
	toolexec.Bind(x, tool{
		Name: "refund", OutputSchema: json.RawMessage(childSchema),
		Run:    func(ctx context.Context, _ order) (receipt, error) { return w.refund(toolexec.OperationRef(ctx)) },
		Verify: &toolexec.Verifier[order, receipt]{Lookup: w.lookUp, Authoritative: true, Settle: 100 * time.Millisecond},
	})
	toolexec.Bind(x, tool{Name: "get_order", Effect: toolexec.ReadOnly, Run: func(context.Context, order) (receipt, error) { return receipt{"shipped"}, nil }})
	toolexec.BindVerifyOperation(x)
	return x
}

// childServer starts it, and again when it has died.
type childServer struct {
	t     testing.TB
	role  string
	world childWorld
	web   bool
	addr  string // of the first life, kept by the next
	died  chan struct{}
}

func newChild(t testing.TB, role string, fault childFault, web bool) *childServer {
	t.Helper()
	return &childServer{t: t, role: role, world: childWorld{t.TempDir(), fault}, web: web}
}

// command is one life of it.
func (c *childServer) command() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MCPTOOL_ROLE="+c.role, "MCPTOOL_DIR="+c.world.dir, "MCPTOOL_FAULT="+string(c.world.fault))
	return cmd
}

// connect opens a session with it, and starts it where nothing runs.
func (c *childServer) connect(ctx context.Context) (*mcp.ClientSession, error) {
	client := mcp.NewClient(impl("client"), nil)
	if !c.web {
		return client.Connect(ctx, &mcp.CommandTransport{Command: c.command()}, nil)
	}
	if err := c.listen(); err != nil {
		return nil, err
	}
	return client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: "http://" + c.addr, HTTPClient: &http.Client{Transport: new(http.Transport)}, DisableStandaloneSSE: true, MaxRetries: -1,
	}, nil)
}

// listen starts a server for HTTP, if none is alive.
func (c *childServer) listen() error {
	if c.died != nil {
		select {
		case <-c.died:
		default:
			return nil
		}
	}
	cmd := c.command()
	addr := c.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	cmd.Env = append(cmd.Env, "MCPTOOL_HTTP="+addr)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := readLine(out)
	if err != nil {
		return err
	}
	c.addr, c.died = line, make(chan struct{})
	died := c.died
	go func() {
		_ = cmd.Wait()
		close(died)
	}()
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-died
	})
	return nil
}

// restart waits for the end of a server for HTTP and starts it again. Over stdio
// that is what opening a session does.
func (c *childServer) restart() {
	c.t.Helper()
	if c.web {
		<-c.died
		require.NoError(c.t, c.listen())
	}
}

func readLine(r io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(bytes.TrimSpace(line)), nil
		}
		line = append(line, b[0])
	}
}

// session opens one for the life of the test.
func (c *childServer) session() *mcp.ClientSession {
	c.t.Helper()
	cs, err := c.connect(c.t.Context())
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = cs.Close() })
	return cs
}

// childUntil asks a child, a process with a clock of its own, again and again until it knows.
func childUntil(t testing.TB, knows func() bool) {
	t.Helper()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-pause.C {
		if knows() {
			return
		}
	}
	t.Fatal("it is never known")
}
