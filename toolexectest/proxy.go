package toolexectest

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// HTTPFault is what befalls one request on its way through a [Proxy]. The zero
// HTTPFault is none. Any combination that makes sense is one:
//
//	HTTPFault{Request: HTTPLeg{Close: true}}    dropped before it was carried out
//	HTTPFault{Answer: HTTPLeg{Close: true}}     carried out, the answer dropped
//	HTTPFault{Answer: HTTPLeg{Drop: true}}      carried out, and silence
//	HTTPFault{Answer: HTTPLeg{Status: 503}}     a 503 after the commit
//	HTTPFault{Answer: HTTPLeg{Delay: d}}        answered late
//	HTTPFault{Request: HTTPLeg{Delay: d}}       carried out late, also when nobody waits any more
//	HTTPFault{Duplicate: 1}                     carried out twice
type HTTPFault struct {
	Request HTTPLeg // before the request is carried out
	Answer  HTTPLeg // after it
	// Duplicate is how often the request arrives beside the first time, one after
	// another. The first answer counts.
	Duplicate int
}

// HTTPLeg is how one way fails. The zero HTTPLeg does not. First the time passes,
// then at most one of the other fields ends the exchange.
type HTTPLeg struct {
	// Delay is how long the message travels, whether somebody still waits or not.
	Delay time.Duration

	// Drop loses the message; the connection stays open until the client gives up.
	Drop bool
	// Close closes the connection without an answer.
	Close bool
	// Reset resets the connection.
	Reset bool
	// Status, if not 0, is what the proxy answers itself.
	Status int
	// Cut sends half of the answer's body and closes the connection. Answer only.
	Cut bool
	// Garble answers what is not HTTP. Answer only.
	Garble bool
}

// String says what the fault does: "answer closed".
func (f HTTPFault) String() string {
	words := slices.Concat(f.Request.words("request"), f.duplicated(), f.Answer.words("answer"))
	if len(words) == 0 {
		return "no fault"
	}
	return strings.Join(words, ", ")
}

func (f *HTTPFault) duplicated() []string {
	if f.Duplicate <= 0 {
		return nil
	}
	return []string{"request duplicated " + strconv.Itoa(f.Duplicate) + " time(s)"}
}

func (l *HTTPLeg) words(way string) (words []string) {
	if l.Delay > 0 {
		words = append(words, way+" delayed "+l.Delay.String())
	}
	for _, end := range l.ends() {
		words = append(words, way+" "+end)
	}
	return words
}

func (l *HTTPLeg) ends() (words []string) {
	for _, end := range []struct {
		is   bool
		word string
	}{
		{l.Drop, "dropped"},
		{l.Close, "closed"},
		{l.Reset, "reset"},
		{l.Status != 0, "replaced by status " + strconv.Itoa(l.Status)},
		{l.Cut, "cut off"},
		{l.Garble, "garbled"},
	} {
		if end.is {
			words = append(words, end.word)
		}
	}
	return words
}

// problem says why f cannot be meant.
func (f *HTTPFault) problem() string {
	request, answer := f.Request.ends(), f.Answer.ends()
	switch {
	case len(request) > 1 || len(answer) > 1:
		return "one way can end in one manner only"
	case f.Request.Cut || f.Request.Garble:
		return "only an answer can be cut off or garbled"
	case len(request) > 0 && (len(f.Answer.words("")) > 0 || f.Duplicate > 0):
		return "there is nothing to spoil or to repeat when the request does not arrive"
	case f.Duplicate < 0:
		return "a request cannot arrive less than once"
	case invalidStatus(f.Request.Status) || invalidStatus(f.Answer.Status):
		return "the status of an answer is 200 to 999"
	}
	return ""
}

func invalidStatus(code int) bool { return code != 0 && (code < 200 || code > 999) }

// Proxy is an http.Handler that stands before a server and does to its requests
// what a script says. Serve it with [net/http/httptest], and aim the tool under
// test at that. Make it with [NewProxy]. It must not be copied. Its methods are safe
// for concurrent use.
type Proxy struct {
	// Match says which requests meet the script; the others pass. Nil: those of unsafe
	// methods, so that a verifier sees what is there. Set it before the first request.
	Match func(r *http.Request) bool

	target *url.URL
	steps  []HTTPFault
	client *http.Client

	mu       sync.Mutex // protects what follows
	idle     *sync.Cond // open has become 0
	open     int        // requests that are being carried out
	requests int
	struck   map[httpStrike]bool
}

// httpStrike names one part of one step.
type httpStrike struct {
	step int
	part httpPart
}

type httpPart uint8

const (
	partRequest httpPart = iota
	partDuplicate
	partAnswer
)

// NewProxy returns a proxy before target, a URL, by which the n-th request meets
// the n-th step; requests after the last step meet no fault. It panics when target
// is no URL, or when a step contradicts itself.
func NewProxy(target string, steps ...HTTPFault) *Proxy {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		panic("toolexectest: NewProxy: the target must be a URL with a host")
	}
	for i := range steps {
		if problem := steps[i].problem(); problem != "" {
			panic(fmt.Sprintf("toolexectest: NewProxy: step %d (%v): %s", i+1, steps[i], problem))
		}
	}
	p := &Proxy{
		target: u, steps: slices.Clone(steps),
		client: &http.Client{
			// A fresh connection each time: net/http sends nothing again on those.
			Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	p.idle = sync.NewCond(&p.mu)
	return p
}

// Requests returns how many requests have met the script.
func (p *Proxy) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// Unfired says, a line each, which faults of the script have not struck: their
// request was not made, or did not get that far.
func (p *Proxy) Unfired() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for i, f := range p.steps {
		for part, words := range [][]string{f.Request.words("request"), f.duplicated(), f.Answer.words("answer")} {
			if len(words) > 0 && !p.struck[httpStrike{i, httpPart(part)}] {
				out = append(out, fmt.Sprintf("step %d of %d: %s: did not fire in %d request(s)",
					i+1, len(p.steps), strings.Join(words, ", "), p.requests))
			}
		}
	}
	return out
}

// Check fails t for each fault of the script that has not struck: a test that
// passes without its fault proves nothing.
func (p *Proxy) Check(t testing.TB) {
	t.Helper()
	for _, line := range p.Unfired() {
		t.Error("toolexectest: " + line)
	}
}

// Wait returns when every request that has reached the proxy has been carried out,
// those included that outlived their clients.
func (p *Proxy) Wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.open > 0 {
		p.idle.Wait()
	}
}

func (p *Proxy) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open += n; p.open == 0 {
		p.idle.Broadcast()
	}
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.count(1)
	defer p.count(-1)
	body, err := io.ReadAll(r.Body)
	if err != nil { // the client broke its request off
		panic(http.ErrAbortHandler)
	}
	x := &exchange{proxy: p, w: w, r: r, body: body, step: -1}
	if p.matches(r) {
		x.step, x.fault = p.next()
	}
	x.run()
}

func (p *Proxy) matches(r *http.Request) bool {
	if p.Match != nil {
		return p.Match(r)
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return false
	}
	return true
}

// next counts a request and returns its fault.
func (p *Proxy) next() (step int, f HTTPFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	step = p.requests
	p.requests++
	if step < len(p.steps) {
		f = p.steps[step]
	}
	return step, f
}

// exchange is one request and its answer.
type exchange struct {
	proxy *Proxy
	w     http.ResponseWriter
	r     *http.Request
	body  []byte
	step  int
	fault HTTPFault

	status int
	header http.Header
	answer []byte
}

func (x *exchange) strikes(part httpPart) {
	p := x.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.struck == nil {
		p.struck = make(map[httpStrike]bool)
	}
	p.struck[httpStrike{x.step, part}] = true
}

func (x *exchange) run() {
	if x.befalls(&x.fault.Request, partRequest) {
		return
	}
	if err := x.forward(); err != nil {
		http.Error(x.w, "toolexectest: the proxy's target did not answer: "+err.Error(), http.StatusBadGateway)
		return
	}
	for range x.fault.Duplicate {
		first := *x
		if x.forward() == nil {
			x.strikes(partDuplicate)
		}
		x.status, x.header, x.answer = first.status, first.header, first.answer
	}
	if x.befalls(&x.fault.Answer, partAnswer) {
		return
	}
	x.reply(x.answer)
}

// befalls does to the exchange what l says, and reports whether that ended it.
func (x *exchange) befalls(l *HTTPLeg, part httpPart) (ended bool) {
	if len(l.words("")) == 0 {
		return false
	}
	x.strikes(part)
	if l.Delay > 0 {
		time.Sleep(l.Delay)
	}
	switch {
	case l.Drop:
		<-x.r.Context().Done()
		panic(http.ErrAbortHandler)
	case l.Close:
		panic(http.ErrAbortHandler)
	case l.Reset:
		x.take(func(c net.Conn) { linger(c) })
	case l.Garble:
		x.take(func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-not_HTTP\r\n\r\n") })
	case l.Status != 0:
		http.Error(x.w, "toolexectest: injected status", l.Status)
	case l.Cut:
		x.header.Set("Content-Length", strconv.Itoa(max(len(x.answer), 1)))
		x.reply(x.answer[:len(x.answer)/2])
		_ = http.NewResponseController(x.w).Flush() // not possible: then it was cut before the status
		panic(http.ErrAbortHandler)
	default:
		return false
	}
	return true
}

// take gives f the connection, which is closed then. On HTTP/2 it is shared: there
// the stream is reset.
func (x *exchange) take(f func(net.Conn)) {
	c, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = c.Close() }()
	f(c)
}

// linger makes the close of c a reset.
func linger(c net.Conn) {
	if s, ok := c.(*tls.Conn); ok {
		c = s.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	}
}

// forward has the request carried out, also when its client has given up.
func (x *exchange) forward() error {
	u := *x.r.URL
	u.Scheme, u.Host = x.proxy.target.Scheme, x.proxy.target.Host
	if base := x.proxy.target; base.Path != "" && base.Path != "/" {
		u = *base.JoinPath(x.r.URL.EscapedPath())
		u.RawQuery = x.r.URL.RawQuery
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(x.r.Context()), x.r.Method, u.String(), bytes.NewReader(x.body))
	if err != nil {
		return err
	}
	req.Header = endToEnd(x.r.Header)
	resp, err := x.proxy.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if x.answer, err = io.ReadAll(resp.Body); err != nil {
		return err
	}
	x.status, x.header = resp.StatusCode, endToEnd(resp.Header)
	return nil
}

// reply sends the status and header of the answer with this body.
func (x *exchange) reply(body []byte) {
	maps.Copy(x.w.Header(), x.header)
	x.w.WriteHeader(x.status)
	_, _ = x.w.Write(body) // the client may be gone
}

// endToEnd returns what of h is not about one connection (RFC 9110 §7.6.1).
func endToEnd(h http.Header) http.Header {
	h = h.Clone()
	for _, list := range h.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
	return h
}
