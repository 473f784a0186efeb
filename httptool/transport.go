package httptool

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toolexec/toolexec"
)

// Transport is an http.RoundTripper that says what it knows about the attempt in
// a request's context: it calls [toolexec.MarkSent] before a request of an unsafe
// method leaves, and [toolexec.MarkNotSent] when that request provably did not.
// A tool that sends everything through a Transport, with the context it was given,
// can declare MarksSent: what is known of its failures is then exact, also with
// several requests in one attempt.
//
// GET, HEAD, OPTIONS and TRACE change nothing by definition (RFC 9110 §9.2.1), so
// they are not marked; every other method is. Outside an attempt a Transport only
// does what its base does.
//
// Proofs that nothing was sent are:
//
//   - no connection was obtained: name resolution, dial, proxy, TLS handshake
//     or the time for all of that failed;
//   - HTTP/1: not one byte was written to the connection, and it was made
//     impossible that one still is;
//   - HTTP/2: the server refused the stream, on a connection that stays open;
//   - TLS 1.3: the server refused the handshake, with the alert that says so, on a
//     fresh connection before any answer.
//
// Nothing else is one: not a trace hook that did not fire, not a text, not a
// timeout. On HTTP/2 there are fewer proofs, because connections are shared: a
// GOAWAY looks like a reset after the effect in what net/http tells. What a proof
// is about has an error of its own around its cause, see [ErrNotSent].
//
// A request goes out once. net/http would send one again that bears an
// Idempotency-Key, when a reused connection breaks, and on HTTP/2 when the server
// resets the stream with PROTOCOL_ERROR; it is kept from that. It still replaces
// a connection to which nothing was written. For redirections see [CheckRedirect].
//
// The zero Transport is ready to use. It must not be copied. Its methods are safe
// for concurrent use; its fields must not be changed after the first request.
type Transport struct {
	// Base sends. Nil: a clone of http.DefaultTransport. A *http.Transport is
	// cloned at the first request, so that its connections can be counted; it
	// shares neither them nor what was registered with RegisterProtocol. What its
	// DialTLSContext makes is not counted: fewer proofs. Any other RoundTripper is
	// used as it is and proves nothing, since it may do anything; put it around the
	// Transport instead, where it has to be one.
	Base http.RoundTripper

	// IdempotencyHeader is the header that carries [toolexec.OperationRef], such as
	// "Idempotency-Key", on requests of unsafe methods that have none. The ref is the
	// same for all requests of an operation, so this is for tools that make one.
	// Empty: none is sent.
	IdempotencyHeader string

	once    sync.Once // sets what follows
	sender  http.RoundTripper
	watched bool // sender is a *http.Transport of our own
	prior   bool // HTTP/2 by prior knowledge
	foreign bool // an HTTP/2 that is not that of net/http
}

// ErrNotSent is wrapped by the errors of a [Transport] whose request was provably
// not sent. It says nothing about other requests of the attempt.
var ErrNotSent = errors.New("httptool: the request was not sent")

// Client returns a new client that sends through t and does not follow
// redirections of unsafe methods. It has no timeout: attempts have deadlines.
func (t *Transport) Client() *http.Client {
	return &http.Client{Transport: t, CheckRedirect: CheckRedirect}
}

// CheckRedirect is for http.Client: it follows what was asked for by a safe
// method, up to ten times, and hands any other redirection to the caller, where
// [CheckResponse] judges it. Of a 301, 302 and 303 net/http would make a GET, and
// report its 200 as the answer; with a 307 and 308 it would send the arguments, the
// operation ref and perhaps credentials to an address that the tool's author
// did not choose.
func CheckRedirect(_ *http.Request, via []*http.Request) error {
	if unsafe(via[0].Method) {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return errRedirects
	}
	return nil
}

const maxRedirects = 10 // that of net/http

var errRedirects = errors.New("httptool: stopped after 10 redirections")

// unsafe reports whether a request of this method may change something.
func unsafe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return false
	}
	return true
}

// CloseIdleConnections closes what is idle, as that of http.Transport.
func (t *Transport) CloseIdleConnections() {
	t.once.Do(t.setUp)
	if c, ok := t.sender.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// sendsOnce reports whether a request goes out once at most: what is not ours may
// send it again.
func (t *Transport) sendsOnce() bool {
	t.once.Do(t.setUp)
	return t.watched
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.once.Do(t.setUp)
	ctx := req.Context()
	if !unsafe(req.Method) || toolexec.Attempt(ctx) == 0 {
		return t.sender.RoundTrip(req)
	}
	if err := mark(ctx); err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := t.send(req)
	if _, proven := err.(*notSentError); proven && t.watched { //nolint:errorlint // what it wraps may be about another request
		toolexec.MarkNotSent(ctx)
	}
	if resp != nil {
		resp.Request = req
	}
	return resp, err
}

func (t *Transport) send(req *http.Request) (*http.Response, error) {
	if !t.watched {
		return t.sender.RoundTrip(t.opaque(req))
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	w := &watch{prior: t.prior, cancel: cancel}
	resp, err := t.sender.RoundTrip(t.guarded(req, w.trace(ctx), w))
	if err == nil {
		if _, upgraded := resp.Body.(io.Writer); !upgraded {
			w.answer = body{resp.Body, cancel}
			resp.Body = &w.answer
		}
		return resp, nil
	}
	cancel(err)
	return nil, t.judge(req.Context(), w, err)
}

// body releases the context of its request when it is closed.
type body struct {
	io.ReadCloser
	release context.CancelCauseFunc
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.release(nil)
	return b.ReadCloser.Close()
}

// judge puts around err what was seen.
func (t *Transport) judge(ctx context.Context, w *watch, err error) error {
	if (w.refused || w.doubt) && ctx.Err() == nil {
		err = errStopped // its cause stayed within net/http
	}
	switch {
	case w.proves(err) && (w.tries > 0 || !t.foreign):
		return &notSentError{err}
	case w.doubt:
		return &doubtError{err}
	case w.unreadable(err):
		return &unreadableError{err}
	case w.isOfBody(err), claims(err):
		return &doubtError{err}
	}
	return err
}

// claims reports whether err, which proves nothing about its request, would be taken
// for a proof by itself: one about another request, or a TLS alert outside the
// handshake.
func claims(err error) bool {
	var alert *net.OpError
	return errors.Is(err, ErrNotSent) || errors.As(err, &alert) && alert.Op != "read" && alert.Op != "write"
}

// guarded returns req as net/http should see it: without what makes it send a
// request again, and with a body that can be had again when it has to replace a
// connection.
func (t *Transport) guarded(req *http.Request, ctx context.Context, w *watch) *http.Request { //nolint:revive // the context is no parameter of the work
	out := req.WithContext(ctx)
	out.Header = t.header(req)
	for _, name := range replayHeaders {
		// net/http looks for these names in this spelling; on the wire they are the same
		// in any.
		if values, ok := out.Header[name.canonical]; ok {
			delete(out.Header, name.canonical)
			if others := out.Header[name.lower]; len(others) > 0 {
				values = slices.Concat(others, values)
			}
			out.Header[name.lower] = values
		}
	}
	if hasBody(out) && out.GetBody == nil {
		out.Body, out.GetBody = &stream{out.Body, w}, w.noBody
	}
	return out
}

// stream is a body that is read from elsewhere. What it fails with is not about its
// request: it may be a refused dial to where it comes from.
type stream struct {
	io.ReadCloser
	w *watch
}

// Read implements io.Reader.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.w.mu.Lock()
		s.w.ofBody = err
		s.w.mu.Unlock()
	}
	return n, err
}

func (w *watch) isOfBody(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ofBody != nil && errors.Is(err, w.ofBody)
}

// noBody stands in for a body that cannot be had again. To refuse hides on HTTP/2
// why it was asked for; the try it is for is stopped anyway, unless the one
// before was not sent.
func (w *watch) noBody() (io.ReadCloser, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if uncounted := w.last.conn == nil && !w.last.shared; w.tries == 0 || uncounted || w.last.isUnsent() {
		return nil, errNoRewind
	}
	return http.NoBody, nil
}

var errNoRewind = errors.New("httptool: the connection was lost, and the request has no GetBody for another")

// opaque returns req as a RoundTripper should see it that we do not know: with a
// body that cannot be had again, also where it has none and would be sent again
// for its key.
func (t *Transport) opaque(req *http.Request) *http.Request {
	out := req.WithContext(req.Context())
	out.Header = t.header(req)
	single(out)
	return out
}

func single(req *http.Request) {
	req.GetBody = nil
	if !hasBody(req) {
		req.Body = emptyBody{}
	}
}

// emptyBody is a body that net/http cannot tell from one with content.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// replayHeaders are those for which net/http sends a POST again.
var replayHeaders = [...]struct{ canonical, lower string }{
	{"Idempotency-Key", "idempotency-key"},
	{"X-Idempotency-Key", "x-idempotency-key"},
}

// header returns a copy of the request's header, with the ref where it is asked
// for. The values are the request's own, and stay as they are.
func (t *Transport) header(req *http.Request) http.Header {
	h := maps.Clone(req.Header)
	if h == nil {
		h = make(http.Header)
	}
	if t.IdempotencyHeader == "" || h.Get(t.IdempotencyHeader) != "" {
		return h
	}
	if ref := toolexec.OperationRef(req.Context()); ref != "" {
		h.Set(t.IdempotencyHeader, ref)
	}
	return h
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// setUp makes the sender.
func (t *Transport) setUp() {
	t.sender = t.Base
	if t.sender == nil {
		t.sender = http.DefaultTransport
	}
	base, ok := t.sender.(*http.Transport)
	if !ok {
		return
	}
	own := base.Clone()
	t.watched, t.foreign = true, len(own.TLSNextProto) > 0
	if base.TLSNextProto["h2"] != nil { // Clone has set it, unless the user had turned it off
		own.ForceAttemptHTTP2 = true // which our dialer would turn off
	}
	if p := own.Protocols; p != nil {
		t.prior = p.UnencryptedHTTP2() && !p.HTTP1()
	}
	dial := own.DialContext
	if dial == nil {
		dial = dialerOf(own)
	}
	own.Dial = nil //nolint:staticcheck // DialContext calls it
	own.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil || conn == nil {
			return conn, err
		}
		return &countedConn{Conn: conn}, nil
	}
	t.sender = own
}

func dialerOf(base *http.Transport) func(ctx context.Context, network, addr string) (net.Conn, error) {
	if old := base.Dial; old != nil { //nolint:staticcheck // the user's
		return func(_ context.Context, network, addr string) (net.Conn, error) { return old(network, addr) }
	}
	return new(net.Dialer).DialContext
}

// A ticket is a mark that was made already for the next request in a context.
type ticket struct{ used atomic.Bool }

type ticketKey struct{}

// mark is the point of no return of a request.
func mark(ctx context.Context) error {
	if t, ok := ctx.Value(ticketKey{}).(*ticket); ok && t.used.CompareAndSwap(false, true) {
		return nil
	}
	return toolexec.MarkSent(ctx)
}
