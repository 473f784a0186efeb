package httptool

import (
	"errors"
	"net"
	"sync"
)

// countedConn counts the bytes that are written to a connection, and can be
// sealed: what was not written to it before never will be. Under TLS the bytes
// are those of the handshake too, so it is a difference that counts.
type countedConn struct {
	net.Conn

	mu      sync.Mutex // protects what follows; not held while writing
	written int64
	writing int // writes in progress
	sealed  bool
}

// errSealed is what a write meets after the connection was sealed.
var errSealed = errors.New("httptool: the request of this connection was given up before anything was written")

// Write implements net.Conn.
func (c *countedConn) Write(b []byte) (int, error) {
	if !c.begin() {
		return 0, errSealed
	}
	n, err := c.Conn.Write(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing--
	c.written += int64(max(n, 0))
	return n, err
}

func (c *countedConn) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return false
	}
	c.writing++
	return true
}

// count returns the bytes written so far.
func (c *countedConn) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// sealAt seals the connection if nothing was written since the count was start,
// and nothing is being written. Only a count cannot do: net/http writes on a
// goroutine of its own, which may come later than the error that a caller saw.
func (c *countedConn) sealAt(start int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing > 0 || c.written != start {
		return false
	}
	c.sealed = true
	return true
}

// counted finds the counted connection under conn, through any layers of TLS;
// nil if there is none.
func counted(conn net.Conn) *countedConn {
	for range 8 {
		switch c := conn.(type) {
		case *countedConn:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
	return nil
}
