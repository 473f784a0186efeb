package sqltool_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cut is what a wire does to a message of the client's.
type cut int

const (
	pass     cut = iota
	before       // nothing of it arrives, and the connection is reset
	middle       // half of it arrives
	after        // it arrives and is answered, and the answer does not arrive
	late         // the client loses its connection; the message arrives later
	hold         // it arrives later; the client keeps its connection
	silently     // it arrives, and nothing comes back, for ever
)

// names of cuts, for tests.
var names = map[cut]string{before: "before", middle: "middle", after: "after", late: "late", hold: "hold", silently: "silently"}

// wire is between a client and a server, and cuts at messages. A message is
// what the client's driver writes at once.
type wire struct {
	net.Listener

	to string

	mu    sync.Mutex // protects what follows
	at    string
	skip  int // messages that match and pass
	do    cut
	held  chan struct{} // released: what is late or held may go on
	draw  func() cut    // instead of what is armed, if not nil
	fired int
	live  map[net.Conn]bool
}

func newWire(t *testing.T, to string) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{Listener: l, to: to, live: make(map[net.Conn]bool), held: make(chan struct{})}
	t.Cleanup(func() {
		l.Close()
		w.release()
		w.mu.Lock()
		defer w.mu.Unlock()
		for c := range w.live {
			c.Close()
		}
	})
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go w.serve(client)
		}
	}()
	return w
}

// arm cuts at the n-th message from now, from 1, that contains text, whatever
// its case.
func (w *wire) arm(text string, n int, do cut) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.skip, w.do, w.fired, w.held = strings.ToUpper(text), n-1, do, 0, make(chan struct{})
}

// chaos draws for each message what is done to it, until it is given nil.
func (w *wire) chaos(draw func() cut) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.draw, w.fired = draw, 0
}

// cuts is how often it cut since it was armed.
func (w *wire) cuts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fired
}

// release lets go on what is late or held.
func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.held:
	default:
		close(w.held)
	}
}

// match disarms itself.
func (w *wire) match(message []byte) (cut, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.draw != nil {
		do := w.draw()
		if do != pass {
			w.fired++
		}
		held := make(chan struct{})
		time.AfterFunc(rand.N(400*time.Millisecond), func() { close(held) })
		return do, held
	}
	if w.do == pass || !bytes.Contains(bytes.ToUpper(message), []byte(w.at)) {
		return pass, nil
	}
	if w.skip > 0 {
		w.skip--
		return pass, nil
	}
	do := w.do
	w.do = pass
	w.fired++
	return do, w.held
}

func (w *wire) track(c net.Conn, live bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if live {
		w.live[c] = true
	} else {
		delete(w.live, c)
	}
}

func (w *wire) serve(client net.Conn) {
	w.track(client, true)
	defer w.track(client, false)
	server, err := net.Dial("tcp", w.to)
	if err != nil {
		client.Close()
		return
	}
	w.track(server, true)
	defer w.track(server, false)
	l := &link{client: client, server: server, answered: make(chan struct{}, 1)}
	go l.answers()
	defer client.Close()
	defer server.Close()
	l.messages(w)
}

// link is one connection.
type link struct {
	client, server net.Conn

	mu       sync.Mutex // protects what follows
	mute     bool
	answered chan struct{} // a mute link's answers are told of here
}

func (l *link) answers() {
	defer l.client.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buf)
		l.mu.Lock()
		mute := l.mute
		l.mu.Unlock()
		if mute {
			select {
			case l.answered <- struct{}{}:
			default:
			}
		} else if n > 0 {
			if _, err := l.client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = true
}

// wait returns when the server has answered. Some messages are not: a statement
// is closed, a client says goodbye.
func (l *link) wait() {
	select {
	case <-l.answered:
	case <-time.After(2 * time.Second):
	}
}

func (l *link) messages(w *wire) {
	buf := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buf)
		if err != nil {
			return
		}
		do, held := w.match(buf[:n])
		switch do {
		case before:
			return
		case middle:
			_, _ = l.server.Write(buf[:n/2])
			return
		case after:
			l.silence()
			_, _ = l.server.Write(buf[:n])
			l.wait()
			return
		case late:
			l.silence()
			l.client.Close()
			<-held
			_, _ = l.server.Write(buf[:n])
			l.wait()
			return
		case silently:
			l.silence()
			_, _ = l.server.Write(buf[:n])
			l.wait()
			_, _ = io.Copy(io.Discard, l.client)
			return
		case hold:
			select {
			case <-held:
			case <-time.After(30 * time.Second):
			}
		case pass:
		}
		if _, err := l.server.Write(buf[:n]); err != nil {
			return
		}
	}
}
