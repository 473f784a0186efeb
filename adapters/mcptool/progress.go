package mcptool

import (
	"context"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type progressKey struct{}

// progress is where the reports of one call go.
type progress struct {
	session  *mcp.ServerSession
	token    any
	answered atomic.Bool
}

// withProgress lets a tool report, if its client asked for that, until the call is
// answered.
func withProgress(ctx context.Context, req *mcp.CallToolRequest) (_ context.Context, answered func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return ctx, func() {}
	}
	p := &progress{session: req.Session, token: token}
	return context.WithValue(ctx, progressKey{}, p), func() { p.answered.Store(true) }
}

// Progress tells the client of the call in ctx how far its tool has come: done of
// total, which is 0 where it is not known. Done must grow from report to report.
// The message is for people: write it, do not copy it from a remote system.
//
// It does nothing outside of a call that is served, where the client did not ask
// for it, and once the call is answered. It may wait for a client that does not
// read, as long as ctx lasts.
func Progress(ctx context.Context, done, total float64, message string) {
	p, ok := ctx.Value(progressKey{}).(*progress)
	if !ok || p.answered.Load() {
		return
	}
	// A report that cannot be delivered is no reason to fail the call.
	_ = p.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: p.token, Progress: done, Total: total, Message: message,
	})
}
