package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
)

// Tool is a tool of a server, as it is bound: arguments and results are JSON.
type Tool = toolexec.Tool[json.RawMessage, json.RawMessage]

// Remote is an MCP server whose tools become tools of an executor. Only Connect is
// required. Its methods are safe for concurrent use, the tools that it bound as
// well; its fields must not be changed after Import, nor the Remote be copied.
//
// A call sends one request. Its operation ref goes along in _meta, and as an
// argument where the tool has one for it. When the session is lost the next call
// opens another; a write that was under way is in doubt and is not issued again.
type Remote struct {
	// Connect opens a session, for Import, and again when the one before has ended.
	// Its ctx bounds the handshake only: the session outlives it. An error proves
	// that nothing was sent, so the call is tried again as its policy says. One that
	// takes longer than a call waits goes on, for the next. For a session that the
	// host keeps itself, return that; once it has ended nothing is sent any more.
	Connect func(ctx context.Context) (*mcp.ClientSession, error)

	// ConnectTimeout bounds it. Default 30 s; negative: no bound but Close.
	ConnectTimeout time.Duration

	// Prefix goes before the names of the tools here, such as "crm.".
	Prefix string

	// Effect is what the host knows of all the server's tools. The zero value, Write,
	// is the safe one. Where a server's hints say that a tool does more, that counts.
	Effect toolexec.Effect

	// Trusted declares that the server means what it says. Then its hints make a tool
	// ReadOnly or Idempotent; what an error says about its effect is believed; and of
	// a server made with Serve its tool verify_operation looks up what is in doubt. A
	// server that is not trusted can only make things stricter.
	Trusted bool

	// RefArgument is the argument that takes the operation ref, such as
	// "idempotency_key", in those tools that have it. Models are not shown it.
	// Default: the one that a server made with Serve names; elsewhere
	// DefaultRefArgument, where that is optional. "-": none.
	RefArgument string

	// Adjust, if not nil, is called with each tool before it is bound: t is what it
	// will be. Here the host says what it knows of it: Effect, Verify, Approval, Policy,
	// Classifiers. What t.Run sends is up to the Remote.
	Adjust func(remote *mcp.Tool, t *Tool)

	mu      sync.Mutex // protects what follows
	current *link      // the last one; it may have ended
	pending *opening   // nil while nobody connects
	closed  bool
}

// DefaultConnectTimeout bounds Remote.Connect.
const DefaultConnectTimeout = 30 * time.Second

// opening is a session that is being opened. It belongs to no call, since it may
// take longer than one.
type opening struct {
	stop context.CancelFunc
	done chan struct{} // closed when what follows is set
	link *link
	err  error
}

// link is a session and its end.
type link struct {
	session *mcp.ClientSession
	gone    chan struct{} // closed when it has ended
	ending  atomic.Bool   // a call was told so, which comes a moment before
}

func (l *link) alive() bool {
	select {
	case <-l.gone:
		return false
	default:
		return !l.ending.Load()
	}
}

// call calls a tool. Wrote says that something was written over HTTP for it: an
// error of the client can belong to a redirection that was followed, and a refused
// dial then says nothing about the request before it.
func (l *link) call(ctx context.Context, p *mcp.CallToolParams) (res *mcp.CallToolResult, wrote bool, err error) {
	var headers atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { headers.Store(true) }})
	res, err = l.session.CallTool(ctx, p)
	if errors.Is(err, mcp.ErrSessionMissing) {
		l.ending.Store(true)
	}
	return res, headers.Load(), err
}

// Import binds the server's tools to x and returns the names that they have there,
// in the server's order. It is called once; tools that a server adds later are not
// known here.
//
// The error joins what went wrong with single tools, whose names are then missing:
// a name that x has already or cannot have, a schema that cannot be used. All
// others are bound. Where the server could not be asked none are.
func (r *Remote) Import(ctx context.Context, x *toolexec.Executor) (names []string, err error) {
	l, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	var listed []*mcp.Tool
	for t, err := range l.session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("mcptool: listing the tools: %w", err)
		}
		listed = append(listed, t)
	}
	var problems []error
	for _, t := range listed {
		tool, err := r.tool(t)
		if err == nil {
			err = bind(x, *tool)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("mcptool: importing %q: %w", t.Name, err))
			continue
		}
		names = append(names, tool.Name)
	}
	return names, errors.Join(problems...)
}

// bind is toolexec.Bind for what another program declares: its mistakes are no
// bugs of this one.
func bind(x *toolexec.Executor, t Tool) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case string:
			err = errors.New(p)
		default:
			panic(p)
		}
	}()
	toolexec.Bind(x, t)
	return nil
}

// Close ends the session, and a Connect that is under way, for which it waits.
// Calls that are made afterwards send nothing.
func (r *Remote) Close() error {
	r.mu.Lock()
	r.closed = true
	o := r.pending
	r.mu.Unlock()
	if o != nil {
		o.stop()
		<-o.done
	}
	r.mu.Lock()
	l := r.current
	r.mu.Unlock()
	if l == nil {
		return nil
	}
	err := l.session.Close()
	<-l.gone
	return err
}

var (
	errClosed = errors.New("mcptool: the Remote is closed")
	errEnded  = errors.New("mcptool: the session has ended, and Connect returned it again")
	errNone   = errors.New("mcptool: Connect returned no session")
)

// open returns the session that is open, or waits for one as long as ctx lasts.
func (r *Remote) open(ctx context.Context) (*link, error) {
	r.mu.Lock()
	switch {
	case r.closed:
		r.mu.Unlock()
		return nil, errClosed
	case r.current != nil && r.current.alive():
		defer r.mu.Unlock()
		return r.current, nil
	case r.pending == nil:
		r.pending = r.begin(ctx)
	}
	o := r.pending
	r.mu.Unlock()
	select {
	case <-o.done:
		return o.link, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin starts to open a session, with the values of ctx and not its end.
func (r *Remote) begin(ctx context.Context) *opening {
	limit := r.ConnectTimeout
	switch {
	case limit == 0:
		limit = DefaultConnectTimeout
	case limit < 0:
		limit = math.MaxInt64
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
	o := &opening{stop: stop, done: make(chan struct{}), err: errNone}
	last := r.current
	go func() {
		defer r.opened(o) // also when Connect ends this goroutine
		defer func() {
			if p := recover(); p != nil {
				o.err = fmt.Errorf("mcptool: Connect panicked: %v", p)
			}
		}()
		session, err := r.Connect(ctx)
		switch {
		case err != nil:
			o.err = fmt.Errorf("mcptool: connecting: %w", err)
		case session == nil:
		case last != nil && session == last.session:
			o.err = errEnded
		default:
			o.link, o.err = follow(session), nil
		}
	}()
	return o
}

// opened ends an opening, whatever came of it.
func (r *Remote) opened(o *opening) {
	o.stop()
	r.mu.Lock()
	r.pending = nil
	if o.link != nil {
		r.current = o.link
	}
	r.mu.Unlock()
	close(o.done)
}

// follow makes a link of a session, and watches for its end.
func follow(session *mcp.ClientSession) *link {
	l := &link{session: session, gone: make(chan struct{})}
	go func() {
		defer close(l.gone)
		_ = session.Wait() // why it ended is in the error of the call that it broke
	}()
	return l
}
