package httptool

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"reflect"
	"slices"
	"sync"
)

// watch collects what can be proven about one RoundTrip of a *http.Transport
// that is ours, and keeps it from sending the request a second time.
//
// One RoundTrip can be several tries, each on a connection: net/http sends again
// what it thinks was not processed. It is wrong about that where a server resets
// a stream with PROTOCOL_ERROR after it has acted (golang/go#47635 made it retry
// that), and where a request bears an Idempotency-Key that the server ignores. So
// a further try may go out only after proof that the one before did not.
//
// That net/http sends again is no proof by itself. On HTTP/2 it does so after a
// GOAWAY that excludes the stream and after a REFUSED_STREAM, which were not
// processed, but after a PROTOCOL_ERROR too (canRetryError in h2_bundle.go), and it
// keeps to itself which it was: shouldRetryRequest drops the error for a request
// without a body, for what GetBody returns, or for a text. The first and the third
// leave the connection alike. So a GOAWAY stays in doubt.
type watch struct {
	prior  bool // HTTP/2 without TLS, by prior knowledge
	cancel context.CancelCauseFunc

	hooks  httptrace.ClientTrace
	answer body // of the response, where it needs one

	mu      sync.Mutex // protects what follows
	seeking bool       // a connection is being looked for
	tries   int        // connections that were obtained
	last    try
	refused bool // the server refused the stream, and the try after that was stopped
	doubt   bool // a try that followed one without proof was stopped, or had no connection
	blind   bool // a try that followed one that was not counted was let go

	ofBody error // that a streamed body failed with
}

// try is one connection that was obtained for the request.
type try struct {
	conn     *countedConn // nil: not counted
	secured  *tls.Conn    // nil: no TLS, or none of crypto/tls
	start    int64        // bytes written before the request
	shared   bool         // HTTP/2: other requests write to it too
	fresh    bool         // no request was made on it before
	headers  bool         // HTTP/2: the headers have been handed to the connection
	answered bool         // a byte of the answer was seen
}

// errStopped cancels a try that must not go out.
var errStopped = errors.New("httptool: not sent again")

// trace returns ctx with w watching.
func (w *watch) trace(ctx context.Context) context.Context {
	w.hooks = httptrace.ClientTrace{
		GetConn:              func(string) { w.seek() },
		GotConn:              w.gotConn,
		WroteHeaders:         func() { w.note(func(t *try) { t.headers = true }) },
		GotFirstResponseByte: func() { w.note(func(t *try) { t.answered = true }) },
	}
	return httptrace.WithClientTrace(ctx, &w.hooks)
}

// seek notes that net/http looks for a connection: whatever it fails with before
// it has one is not about the try before.
func (w *watch) seek() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seeking = true
}

func (w *watch) note(set func(*try)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set(&w.last)
}

// gotConn runs before anything of the request is written to the connection, on
// the goroutine of RoundTrip.
func (w *watch) gotConn(info httptrace.GotConnInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.last
	w.seeking = false
	w.last = w.newTry(info)
	w.tries++
	switch {
	case w.tries == 1 || before.isUnsent():
		return
	case before.conn == nil && !before.shared:
		// Only net/http counted. Without an Idempotency-Key in sight it sends again what
		// it did not write a byte of, and nothing else.
		w.blind = true
		return
	case before.shared && before.sameAs(&w.last):
		// net/http gives a connection up after a GOAWAY, and after a PROTOCOL_ERROR. It
		// stays with it only after REFUSED_STREAM, "not processed" (RFC 9113 §8.7).
		w.refused = true
	default:
		w.doubt = true
	}
	w.cancel(errStopped) // HTTP/2 looks at it before it writes headers
	if w.last.conn != nil && !w.last.shared {
		w.last.conn.sealAt(w.last.start) // HTTP/1 does not
	}
}

func (w *watch) newTry(info httptrace.GotConnInfo) try {
	t := try{conn: counted(info.Conn), fresh: !info.Reused, shared: w.prior}
	if secured, ok := info.Conn.(*tls.Conn); ok {
		t.secured = secured
		t.shared = secured.ConnectionState().NegotiatedProtocol == "h2"
	}
	if t.conn != nil {
		t.start = t.conn.count()
	}
	return t
}

func (t *try) sameAs(other *try) bool {
	return t.secured != nil && t.secured == other.secured || t.conn != nil && t.conn == other.conn
}

// isUnsent reports whether nothing of the request was written to the connection,
// after net/http has given the try up. On HTTP/1 the bytes prove it. On HTTP/2
// others write too, but a stream ends only when its goroutine has, and that says
// when it handed headers over: that it never did is the last word.
func (t *try) isUnsent() bool {
	if t.shared {
		return !t.headers
	}
	return t.bytesProve()
}

// bytesProve seals the connection if nothing was written to it for the request.
func (t *try) bytesProve() bool {
	return t.conn != nil && !t.shared && t.conn.sealAt(t.start)
}

// proves reports whether RoundTrip, which ended with err, sent nothing that the
// other side's application can have seen.
func (w *watch) proves(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.doubt, w.blind:
		return false
	case w.refused, w.tries == 0:
		return true
	case w.seeking: // net/http has given the try up, and found no other connection
		if !w.last.isUnsent() {
			w.doubt = true
		}
		return !w.doubt
	}
	return w.last.bytesProve() || w.last.refusedInHandshake(err)
}

// unreadable reports whether an answer came that is none: it began, and what
// ended it was neither the network nor the time.
func (w *watch) unreadable(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var timeout interface{ Timeout() bool }
	var network *net.OpError
	return w.last.answered && !w.doubt && !isEOF(err) && !errors.As(err, &network) &&
		!errors.Is(err, context.Canceled) && (!errors.As(err, &timeout) || !timeout.Timeout())
}

// refusedInHandshake: in TLS 1.3 the client is done before the server has judged
// its certificate, so the request is written when the refusal comes. A server
// hands nothing to its application before the handshake is over. Renegotiation,
// which TLS 1.2 has, can refuse after a request was read.
func (t *try) refusedInHandshake(err error) bool {
	var refused *net.OpError
	return t.fresh && !t.answered && t.secured != nil && t.secured.ConnectionState().Version == tls.VersionTLS13 &&
		errors.As(err, &refused) && refused.Op == "remote error" && slices.Contains(handshakeAlerts, alertOf(refused.Err))
}

// handshakeAlerts are those that refuse a handshake (RFC 8446 §6.2):
// handshake_failure, five about certificates, unknown_ca, access_denied,
// protocol_version, certificate_required, no_application_protocol.
var handshakeAlerts = []uint64{40, 42, 43, 44, 45, 46, 48, 49, 70, 116, 120}

// alertOf returns the TLS alert in err, whose type is not exported; 0 is no
// refusal.
func alertOf(err error) uint64 {
	v := reflect.ValueOf(err)
	if !v.IsValid() || v.Type().PkgPath() != "crypto/tls" || v.Type().Name() != "alert" {
		return 0
	}
	return v.Uint()
}
