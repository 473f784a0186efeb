package httptool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/toolexec/toolexec"
)

// DefaultMaxBody is the default of [Endpoint.MaxBody] and [Lookup.MaxBody].
const DefaultMaxBody = 1 << 20

// Endpoint is the common tool: JSON in, JSON out, one request. Only URL is
// required. It is read when it is used; do not change it then.
type Endpoint[In, Out any] struct {
	// Method is POST by default.
	Method string
	// URL may name members of the arguments' JSON in braces, which are escaped:
	// "https://api.example.com/orders/{order_id}/refunds". A member must be a text, a
	// number or a boolean; in the path neither "", "." nor ".." is allowed.
	URL string
	// Header is sent with each request, as it is.
	Header http.Header
	// IdempotencyHeader carries the operation ref, see [Transport.IdempotencyHeader].
	// Without it, or a {ref} in the URL, the service never learns the ref: then a
	// look-up by it finds nothing, and where that is called Authoritative a write
	// whose answer was lost is sent again.
	IdempotencyHeader string
	// Client sends; redirections of an unsafe method are not followed, whatever it
	// says. Nil: one for all, on the zero Transport. Another proves nothing, unless what
	// it sends through ends in a [Transport].
	Client *http.Client
	// Request, if not nil, completes the request before it is sent: credentials, a
	// signature, another body. Its error means that nothing was sent.
	Request func(ctx context.Context, in In, req *http.Request) error
	// Check says what answers mean.
	Check Checker
	// MaxBody bounds the body of a success, in bytes. Default 1 MiB; a larger one is
	// RESULT_TOO_LARGE.
	MaxBody int64
}

// Tool returns the endpoint as a tool: ReadOnly for a safe method, else a Write
// that marks what it sends. It declares OneRequest too where it knows: the client
// sends through a [Transport], with nothing around it and a *http.Transport as its
// base. Declare it yourself where what is around it, or below, neither sends again
// nor asks others to change anything; a refusal is taken for one of the whole
// attempt only then. Add what else is known, Verify above all, and bind it.
func (e *Endpoint[In, Out]) Tool(name string) toolexec.Tool[In, Out] {
	t := toolexec.Tool[In, Out]{Name: name, Run: e.Run, Effect: toolexec.ReadOnly}
	if unsafe(e.method()) {
		t.Effect, t.MarksSent = toolexec.Write, true
		own, ok := client(e.Client).Transport.(*Transport)
		t.OneRequest = ok && own.sendsOnce()
	}
	return t
}

func (e *Endpoint[In, Out]) method() string { return cmp.Or(e.Method, http.MethodPost) }

// Run sends the request and decodes its answer. It is the Run of a tool. An empty
// body is the zero Out.
func (e *Endpoint[In, Out]) Run(ctx context.Context, in In) (out Out, err error) {
	req, err := e.request(ctx, in)
	if err != nil {
		return out, err
	}
	resp, err := e.do(req)
	if err != nil {
		return out, err
	}
	if err := e.Check.Check(resp); err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSeeOther { // a success by declaration, and its body is a link
		return out, nil
	}
	err = Decode(resp, bound(e.MaxBody), &out)
	return out, err
}

// request is everything before the point of no return, so its errors say that
// nothing was sent.
func (e *Endpoint[In, Out]) request(ctx context.Context, in In) (*http.Request, error) {
	raw, err := json.Marshal(&in)
	if err != nil {
		return nil, unsent(fmt.Errorf("httptool: arguments: %w", err))
	}
	target, err := expand(e.URL, raw)
	if err != nil {
		return nil, unsent(err)
	}
	var body io.Reader
	if m := e.method(); m != http.MethodDelete && unsafe(m) {
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, e.method(), target, body)
	if err != nil {
		return nil, unsent(err)
	}
	fill(req, e.Header, body != nil)
	if ref := toolexec.OperationRef(ctx); e.IdempotencyHeader != "" && ref != "" {
		req.Header.Set(e.IdempotencyHeader, ref)
	}
	if e.Request != nil {
		if err := e.complete(ctx, in, req); err != nil {
			return nil, unsent(err)
		}
	}
	return req, nil
}

// complete asks the hook. Another body is not to be had by the GetBody of this one.
func (e *Endpoint[In, Out]) complete(ctx context.Context, in In, req *http.Request) error {
	body, again := req.Body, req.GetBody
	req.GetBody = nil
	if err := e.Request(ctx, in, req); err != nil {
		return err
	}
	if req.Body == body && req.GetBody == nil {
		req.GetBody = again
	}
	return nil
}

// unsent states that an attempt ended before it sent anything, unless err states
// more.
func unsent(err error) error {
	if _, stated := errors.AsType[*toolexec.Failure](err); stated {
		return err
	}
	return &toolexec.Failure{Code: toolexec.CodeToolFailed, Evidence: toolexec.EvidenceNotSent, Err: err}
}

func fill(req *http.Request, h http.Header, body bool) {
	req.Header.Set("Accept", "application/json")
	if body {
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, h)
}

// do marks and sends. It marks itself, so that the tool's MarksSent holds
// whatever the client sends through. A Transport takes that mark over, and may take
// it back; where there is something around one the mark stands, since that may send
// by other ways too.
func (e *Endpoint[In, Out]) do(req *http.Request) (*http.Response, error) {
	c := *client(e.Client)
	_, ours := c.Transport.(*Transport)
	if ctx := req.Context(); unsafe(req.Method) && toolexec.Attempt(ctx) > 0 {
		if err := toolexec.MarkSent(ctx); err != nil {
			return nil, err
		}
		if ours {
			req = req.WithContext(context.WithValue(ctx, ticketKey{}, new(ticket)))
		}
	}
	if unsafe(req.Method) {
		c.CheckRedirect = CheckRedirect
		if !ours {
			single(req)
		}
	}
	return c.Do(req) //nolint:gosec // G704: where a tool sends is its author's choice; arguments cannot change the host
}

// shared sends for all that name no client, so that they share connections.
var shared = new(Transport).Client()

func client(c *http.Client) *http.Client {
	if c == nil {
		return shared
	}
	return c
}

func bound(n int64) int64 {
	if n <= 0 {
		return DefaultMaxBody
	}
	return n
}

// Decode reads the body of a success up to max bytes, as one JSON value, into
// out; an empty body leaves it alone. Its errors are those of [ReadBody].
func Decode(resp *http.Response, maxBytes int64, out any) error {
	body, err := ReadBody(resp, maxBytes)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil { // refuses what follows the value, other than a Decoder
		return unusable(resp, toolexec.CodeResultMalformed, err)
	}
	return nil
}

// Lookup is the look-up of a [toolexec.Verifier] over HTTP: a GET by operation
// ref. A 404 or 410 says that there is no effect. Anything but that and a success
// that can be read is an error, which says nothing.
type Lookup[In, Out any] struct {
	// URL is as that of an [Endpoint]; {ref} is the operation ref, also when the
	// arguments have a member of that name.
	URL string
	// Header, Client, Request, MaxBody are those of an [Endpoint].
	Header  http.Header
	Client  *http.Client
	Request func(ctx context.Context, in In, req *http.Request) error
	MaxBody int64
	// Same, if not nil, says whether what was found is the effect of these arguments;
	// if not, the operation is in conflict and goes to a person. Nil: whatever goes by
	// the ref is.
	Same func(in In, out Out) bool
}

// Find is the Lookup of a Verifier.
func (l *Lookup[In, Out]) Find(ctx context.Context, ref string, in In) (toolexec.Finding[Out], error) {
	none := toolexec.Finding[Out]{}
	raw, err := json.Marshal(&in)
	if err != nil {
		return none, err
	}
	target, err := expand(l.URL, raw, ref)
	if err != nil {
		return none, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return none, err
	}
	fill(req, l.Header, false)
	if l.Request != nil {
		if err := l.Request(ctx, in, req); err != nil {
			return none, err
		}
	}
	resp, err := client(l.Client).Do(req)
	if err != nil {
		return none, err
	}
	defer resp.Body.Close()
	return l.read(resp, in)
}

func (l *Lookup[In, Out]) read(resp *http.Response, in In) (toolexec.Finding[Out], error) {
	none := toolexec.Finding[Out]{}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		return toolexec.Absent[Out](), nil
	case http.StatusOK:
	default:
		if err := CheckResponse(resp); err != nil {
			return none, err
		}
		return none, fmt.Errorf("httptool: a look-up was answered with status %d", resp.StatusCode)
	}
	var out *Out
	if err := Decode(resp, bound(l.MaxBody), &out); err != nil {
		return none, err
	}
	switch {
	case out == nil: // "null", or nothing: an answer, but to what?
		return none, errors.New("httptool: a look-up was answered with an empty body")
	case l.Same != nil && !l.Same(in, *out):
		return toolexec.Conflicting[Out](), nil
	}
	return toolexec.Found(*out), nil
}
