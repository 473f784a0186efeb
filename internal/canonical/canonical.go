// Package canonical gives JSON arguments one form, so that two calls can be asked whether they mean the same operation.
//
// The form is not RFC 8785 (JCS): that one takes numbers through IEEE 754 doubles and so merges 9007199254740993 with
// 9007199254740992, two different ids. Here numbers are compared by exact decimal value. Otherwise the input language is RFC 8259
// made strict where it leaves a choice that would let two readers see two values: duplicate member names, invalid UTF-8, unpaired
// surrogate escapes and a byte order mark are refused.
//
// The canonical form of a value is
//
//   - an object with its members sorted bytewise by decoded name, an array in its order, without white space;
//   - a string with only '"', '\' and U+0000–U+001F escaped, as \", \\ and \u00xx;
//   - an integer in plain digits up to 80 trailing zeros, so that it still decodes into a Go integer or a big.Int of 256 bits; a
//     fraction in plain digits up to 5 zeros after its point; any other number as its digits without outer zeros, 'e', exponent;
//   - zero as 0, whatever its sign and exponent.
//
// It is JSON again, and its own canonical form. All functions are safe for concurrent use and
// keep no reference to their input, [At] excepted, whose result is a part of it.
package canonical

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// Version numbers the rule behind [Sum]: any change of the canonical form, or of how it is hashed, needs another. Records keep it
// beside the sum, because sums of different versions cannot be compared.
const Version = 1

// domain keeps these hashes apart from every other use of SHA-256; its digit is Version.
const domain = "toolexec.fingerprint/1\x00"

// What the zero [Limits] accept.
const (
	DefaultDepth = 64
	DefaultBytes = 1 << 20
)

// hardDepth is where encoding/json gives up too; it bounds the stack of the recursive scanner whatever the caller asks for.
const hardDepth = 10_000

// Limits bounds what is accepted. The zero value is the default and the safe choice.
type Limits struct {
	// MaxDepth is the number of arrays and objects that may be open at once. Zero means 64, negative or above 10000 means 10000,
	// the depth at which encoding/json refuses.
	MaxDepth int
	// MaxBytes is the largest size of the input, white space included. Zero means 1 MiB, negative means no limit.
	MaxBytes int
}

func (l Limits) depth() int {
	switch {
	case l.MaxDepth == 0:
		return DefaultDepth
	case l.MaxDepth < 0:
		return hardDepth
	}
	return min(l.MaxDepth, hardDepth)
}

func (l Limits) refuses(size int) (limit int, refused bool) {
	limit = l.MaxBytes
	if limit == 0 {
		limit = DefaultBytes
	}
	return limit, limit > 0 && size > limit
}

// Append appends the canonical form of the one JSON value in src to dst; they may overlap. On failure the error is an *[Error] and
// dst is returned as it was. The form is at most 17 times as large as src (an array of 1e80).
func Append(dst, src []byte, lim Limits) ([]byte, error) {
	f := borrow()
	defer f.release()
	s := f.scanner(src)
	if err := s.run(nil, lim); err != nil {
		return dst, err
	}
	return append(dst, s.out...), nil
}

// Check reports what [Append] would refuse, without building its result. The error is an *[Error].
func Check(src []byte, lim Limits) error {
	f := borrow()
	defer f.release()
	s := f.scanner(src)
	s.discard = true
	return s.run(nil, lim)
}

// Sum returns the fingerprint of a call: the SHA-256 of a domain string, the length of the tool's name, the name, and the canonical
// form of args without the places ex excludes. Excluded places are still checked. The length keeps a name from borrowing bytes of
// the arguments. Empty args are no JSON value and refused; a call without arguments has to say {} or null.
func Sum(tool string, args []byte, ex Exclusions, lim Limits) ([32]byte, error) {
	f := borrow()
	defer f.release()
	s := f.scanner(args)
	s.out = append(s.out, domain...)
	s.out = binary.BigEndian.AppendUint64(s.out, uint64(len(tool)))
	s.out = append(s.out, tool...)
	if err := s.run(ex.root, lim); err != nil {
		return [32]byte{}, err
	}
	return sha256.Sum256(s.out), nil
}

// At returns the raw bytes of the value at a JSON Pointer (RFC 6901) as a part of args, to ask whether one field changed. It is
// absent when the pointer leads nowhere or is malformed. args should have passed [Check]; for other input At does not fail, but
// may find a value before the place where the input is broken, and the first of two equal keys.
func At(args []byte, pointer string) (raw []byte, ok bool) {
	tokens, err := parsePointer(pointer)
	if err != nil {
		return nil, false
	}
	f := borrow()
	defer f.release()
	s := f.scanner(args)
	s.maxDepth, s.discard = hardDepth, true
	s.space()
	for _, token := range tokens {
		if !s.enter(token) {
			return nil, false
		}
	}
	start := s.pos
	if !s.value(nil) {
		return nil, false
	}
	return args[start:s.pos:s.pos], true
}

// run scans the whole source. It returns the error interface, because a nil *Error in it would not be nil.
func (s *scanner) run(n *node, lim Limits) error {
	s.maxDepth = lim.depth()
	if limit, refused := lim.refuses(len(s.src)); refused {
		return &Error{Kind: TooLarge, Offset: limit}
	}
	if !s.document(n) {
		return s.failure()
	}
	return nil
}

// failure makes the error with its place, collected innermost first while the scanner unwound.
func (s *scanner) failure() *Error {
	var b strings.Builder
	for _, token := range slices.Backward(s.trail) {
		b.WriteByte('/')
		b.WriteString(escapeToken(token))
	}
	return &Error{Kind: s.kind, Offset: s.offset, Pointer: b.String()}
}
