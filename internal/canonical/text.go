package canonical

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string, writes its canonical form and returns where its decoded bytes are, as long as scratch is not cut below them.
func (s *scanner) text() (decoded span, ok bool) {
	open := s.pos
	s.pos++
	if !s.stretch() {
		return span{}, false
	}
	if s.src[s.pos] == '"' { // the usual case: what needs no escape has only one form
		s.pos++
		s.out = append(s.out, s.src[open:s.pos]...)
		return span{from: open + 1, to: s.pos - 1}, true
	}
	return s.escaped(open + 1)
}

// escaped goes on at the first backslash of a string that begins at start.
func (s *scanner) escaped(start int) (decoded span, ok bool) {
	base := len(s.scratch)
	s.scratch = append(s.scratch, s.src[start:s.pos]...)
	for s.src[s.pos] != '"' {
		if !s.escape() {
			return span{}, false
		}
		start = s.pos
		if !s.stretch() {
			return span{}, false
		}
		s.scratch = append(s.scratch, s.src[start:s.pos]...)
	}
	s.pos++
	decoded = span{from: base, to: len(s.scratch), decoded: true}
	s.out = appendQuoted(s.out, s.bytes(decoded))
	return decoded, true
}

// stretch moves to the next quote or backslash. Escapes are ASCII, so each stretch between them is UTF-8 by itself or not at all.
func (s *scanner) stretch() bool {
	start, high := s.pos, byte(0)
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		if c < ' ' || c == '"' || c == '\\' {
			break
		}
		high |= c
		s.pos++
	}
	if high >= utf8.RuneSelf && !utf8.Valid(s.src[start:s.pos]) {
		return s.fail(InvalidUTF8, start+validPrefix(s.src[start:s.pos]))
	}
	if s.peek() < ' ' {
		return s.unexpected()
	}
	return true
}

// validPrefix is the length of the UTF-8 before the first byte that is none; b contains one.
func validPrefix(b []byte) int {
	for i := 0; ; {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
}

// shortEscapes and what they stand for, RFC 8259 section 7.
const (
	shortEscapes = `"\/bfnrt`
	shortMeaning = "\"\\/\b\f\n\r\t"
)

// escape decodes the escape at the current backslash into scratch.
func (s *scanner) escape() bool {
	offset := s.pos
	s.pos++
	c := s.peek()
	if c == 'u' {
		return s.unicode(offset)
	}
	i := strings.IndexByte(shortEscapes, c)
	if i < 0 {
		return s.unexpected()
	}
	s.pos++
	s.scratch = append(s.scratch, shortMeaning[i])
	return true
}

// unicode decodes \uXXXX, or the two of a surrogate pair. An unpaired surrogate is refused: encoding/json would replace it with
// U+FFFD, and two different strings would become one.
func (s *scanner) unicode(offset int) bool {
	r, ok := s.hex()
	if !ok {
		return false
	}
	if utf16.IsSurrogate(r) {
		if !bytes.HasPrefix(s.src[s.pos:], []byte(`\u`)) {
			return s.fail(InvalidUTF8, offset)
		}
		s.pos++
		low, ok := s.hex()
		if !ok {
			return false
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return s.fail(InvalidUTF8, offset)
		}
	}
	s.scratch = utf8.AppendRune(s.scratch, r)
	return true
}

// hex reads the u and the four digits of an escape.
func (s *scanner) hex() (r rune, ok bool) {
	s.pos++
	for range 4 {
		digit, ok := unhex(s.peek())
		if !ok {
			return 0, s.unexpected()
		}
		r = r<<4 | digit
		s.pos++
	}
	return r, true
}

func unhex(c byte) (digit rune, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0'), true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10, true
	}
	return 0, false
}

// appendQuoted writes the one form of a string. It escapes only what RFC 8259 requires, and never in the short form of a control
// character, so that there is nothing to choose.
func appendQuoted(dst, text []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
