package mcptool

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"sync"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolexec/toolexec"
)

// Names of scopes. Those that a host gives are taken as they are.
const (
	anonymous   = "anonymous"
	firstPipe   = "local"
	userScope   = "user:"
	sessionPart = "session:"
	pipePart    = "pipe:"
)

// scope is on whose behalf a call is made; "" when nobody can tell.
func (v *service) scope(ctx context.Context, req *mcp.CallToolRequest) string {
	if v.options.Scope != nil {
		return scopeFrom(v.options.Scope, req)
	}
	if token := tokenOf(ctx, req); token != nil && token.UserID != "" {
		return userScope + token.UserID
	}
	switch id := req.Session.ID(); {
	case id != "": // it is a secret of its client's, and a scope is stored
		sum := sha256.Sum256([]byte(id))
		return sessionPart + hex.EncodeToString(sum[:16])
	case req.Extra == nil: // not HTTP
		return v.pipes.name(req.Session)
	}
	return ""
}

// scopeFrom asks the host. A panic there would end the server, and says that nobody
// can tell.
func scopeFrom(scope func(*mcp.CallToolRequest) string, req *mcp.CallToolRequest) (name string) {
	defer func() {
		if recover() != nil {
			name = ""
		}
	}()
	return scope(req)
}

// tokenOf is what the request's bearer token says. The older SSE transport has it
// in the context only.
func tokenOf(ctx context.Context, req *mcp.CallToolRequest) *auth.TokenInfo {
	if req.Extra != nil {
		return req.Extra.TokenInfo
	}
	return auth.TokenInfoFromContext(ctx)
}

// pipes names the sessions of an executor that have no id.
type pipes struct {
	mu    sync.Mutex // protects what follows
	names map[weak.Pointer[mcp.ServerSession]]string
	seen  bool
}

// name returns the name of a session, the same for its life.
func (p *pipes) name(s *mcp.ServerSession) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := weak.Make(s)
	if name, ok := p.names[key]; ok {
		return name
	}
	name := firstPipe
	if p.seen {
		name = pipePart + rand.Text()
	}
	if p.names == nil {
		p.names = make(map[weak.Pointer[mcp.ServerSession]]string)
	}
	p.names[key], p.seen = name, true
	runtime.AddCleanup(s, p.forget, key)
	return name
}

func (p *pipes) forget(key weak.Pointer[mcp.ServerSession]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.names, key)
}

// allPipes holds them by executor: a host may serve one executor with a server for
// each connection.
var (
	allPipesMu sync.Mutex // protects allPipes
	allPipes   = make(map[weak.Pointer[toolexec.Executor]]*pipes)
)

func pipesOf(x *toolexec.Executor) *pipes {
	allPipesMu.Lock()
	defer allPipesMu.Unlock()
	key := weak.Make(x)
	if p, ok := allPipes[key]; ok {
		return p
	}
	p := new(pipes)
	allPipes[key] = p
	runtime.AddCleanup(x, forgetPipes, key)
	return p
}

func forgetPipes(key weak.Pointer[toolexec.Executor]) {
	allPipesMu.Lock()
	defer allPipesMu.Unlock()
	delete(allPipes, key)
}
