package canonical

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
)

// scanner reads src once and writes its canonical form behind out. Methods that return false have called
// fail; while they unwind, each
// level adds its step to trail, so that the place of an error costs nothing until there is one.
type scanner struct {
	src      []byte
	pos      int
	out      []byte
	members  []member // of all open objects, innermost last
	scratch  []byte   // decoded keys that contain escapes
	depth    int
	maxDepth int
	discard  bool // only checking: out is cut back after each value
	kind     Kind // of the failure
	offset   int
	trail    []string
}

// member is one member of an object that is still open. It holds no pointers, which keeps the collector out of sorting.
type member struct {
	key        span
	offset     int // of the key in src
	start, end int // in out; equal when the member is excluded
}

// span is where the decoded bytes of a string are: in src, or in scratch when it has escapes.
type span struct {
	from, to int
	decoded  bool
}

func (s *scanner) bytes(at span) []byte {
	if at.decoded {
		return s.scratch[at.from:at.to]
	}
	return s.src[at.from:at.to]
}

// byKey orders members by decoded name; of two equal ones the earlier comes first, so that the later is the duplicate.
func (s *scanner) byKey(a, b member) int {
	if c := s.compare(a, b); c != 0 {
		return c
	}
	return cmp.Compare(a.offset, b.offset)
}

func (s *scanner) compare(a, b member) int { return bytes.Compare(s.bytes(a.key), s.bytes(b.key)) }

func (s *scanner) fail(kind Kind, offset int) bool {
	s.kind, s.offset = kind, offset
	return false
}

// unexpected fails at the current byte.
func (s *scanner) unexpected() bool {
	if s.pos >= len(s.src) {
		return s.fail(Truncated, s.pos)
	}
	return s.fail(Syntax, s.pos)
}

// within adds one step to the place of the error that is being returned.
func (s *scanner) within(token string) bool {
	s.trail = append(s.trail, token)
	return false
}

// peek returns 0 at the end: no token begins with a NUL byte.
func (s *scanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) document(n *node) bool {
	s.space()
	if !s.value(n) {
		return false
	}
	s.space()
	if s.pos < len(s.src) {
		return s.fail(TrailingData, s.pos)
	}
	return true
}

// value reads one value without white space around it. n says what to leave out below it.
func (s *scanner) value(n *node) bool {
	mark := len(s.out)
	ok := s.token(n)
	if s.discard {
		s.out = s.out[:mark]
	}
	return ok
}

func (s *scanner) token(n *node) bool {
	switch s.peek() {
	case '{':
		return s.open('{') && s.object(n)
	case '[':
		return s.open('[') && s.array(n)
	case '"':
		keep := len(s.scratch) // the keys of open objects
		_, ok := s.text()
		s.scratch = s.scratch[:keep]
		return ok
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

func (s *scanner) literal(word string) bool {
	for i := range len(word) {
		if s.peek() != word[i] {
			return s.unexpected()
		}
		s.pos++
	}
	s.out = append(s.out, word...)
	return true
}

func (s *scanner) open(bracket byte) bool {
	if s.depth == s.maxDepth {
		return s.fail(TooDeep, s.pos)
	}
	s.depth++
	s.pos++
	s.out = append(s.out, bracket)
	return true
}

func (s *scanner) close(bracket byte) bool {
	s.depth--
	s.out = append(s.out, bracket)
	return true
}

// next moves to the next element of an array or object, or past its closing bracket. A bracket straight after a comma is left for
// the element's own reader to refuse.
func (s *scanner) next(closing byte, first bool) (more, ok bool) {
	s.space()
	switch c := s.peek(); {
	case c == closing:
		s.pos++
		return false, true
	case first:
		return true, true
	case c != ',':
		return false, s.unexpected()
	}
	s.pos++
	s.space()
	return true, true
}

// comma separates from the element before, if that was not left out; start is the position of the bracket in out.
func (s *scanner) comma(start int) {
	if len(s.out) > start+1 {
		s.out = append(s.out, ',')
	}
}

func (s *scanner) array(n *node) bool {
	start := len(s.out) - 1
	for i := 0; ; i++ {
		more, ok := s.next(']', i == 0)
		if !ok {
			return false
		}
		if !more {
			return s.close(']')
		}
		mark, child := len(s.out), n.element(i)
		s.comma(start)
		if !s.value(child) {
			return s.within(strconv.Itoa(i))
		}
		if child.excluded() {
			s.out = s.out[:mark]
		}
	}
}

func (s *scanner) object(n *node) bool {
	start, base := len(s.out)-1, len(s.members)
	for first := true; ; first = false {
		more, ok := s.next('}', first)
		if !ok {
			return false
		}
		if !more {
			return s.sort(start, base) && s.close('}')
		}
		if !s.member(n, start) {
			return false
		}
	}
}

func (s *scanner) member(n *node, start int) bool {
	mark := len(s.out)
	s.comma(start)
	m := member{offset: s.pos, start: len(s.out)}
	var ok bool
	if m.key, ok = s.name(); !ok {
		return false
	}
	s.out = append(s.out, ':')
	child := n.member(s.bytes(m.key))
	if !s.value(child) {
		return s.within(string(s.bytes(m.key)))
	}
	if child.excluded() {
		s.out, m.start = s.out[:mark], mark
	}
	m.end = len(s.out)
	s.members = append(s.members, m)
	return true
}

// name reads a member's name and the colon after it.
func (s *scanner) name() (key span, ok bool) {
	if s.peek() != '"' {
		return span{}, s.unexpected()
	}
	if key, ok = s.text(); !ok {
		return span{}, false
	}
	s.space()
	if s.peek() != ':' {
		s.unexpected()
		return span{}, s.within(string(s.bytes(key)))
	}
	s.pos++
	s.space()
	return key, true
}

// sort brings the members since base into order and refuses duplicates. What is in order already, strictly, has none.
func (s *scanner) sort(start, base int) bool {
	members := s.members[base:]
	s.members = s.members[:base]
	if s.ascending(members) {
		return true
	}
	slices.SortFunc(members, s.byKey)
	for i := 1; i < len(members); i++ {
		if s.compare(members[i-1], members[i]) == 0 {
			s.fail(DuplicateKey, members[i].offset)
			return s.within(string(s.bytes(members[i].key)))
		}
	}
	if !s.discard {
		s.rewrite(start, members)
	}
	return true
}

func (s *scanner) ascending(members []member) bool {
	for i := 1; i < len(members); i++ {
		if s.compare(members[i-1], members[i]) >= 0 {
			return false
		}
	}
	return true
}

// rewrite writes the members anew behind out, in their order, and moves them down to the bracket at start: out is its own scratch.
func (s *scanner) rewrite(start int, members []member) {
	end := len(s.out)
	s.out = append(s.out, '{')
	for _, m := range members {
		if m.start == m.end {
			continue
		}
		s.comma(end)
		s.out = append(s.out, s.out[m.start:m.end]...)
	}
	n := copy(s.out[start:], s.out[end:])
	s.out = s.out[:start+n]
}

// enter moves from the start of a value to the start of its member or element named by a reference token.
func (s *scanner) enter(token string) bool {
	switch s.peek() {
	case '{':
		s.pos++
		return s.enterObject(token)
	case '[':
		s.pos++
		return s.enterArray(token)
	}
	return false
}

func (s *scanner) enterObject(token string) bool {
	for first := true; ; first = false {
		if more, ok := s.next('}', first); !ok || !more {
			return false
		}
		key, ok := s.name()
		if !ok {
			return false
		}
		if string(s.bytes(key)) == token {
			return true
		}
		if !s.value(nil) {
			return false
		}
	}
}

func (s *scanner) enterArray(token string) bool {
	for i := 0; ; i++ {
		if more, ok := s.next(']', i == 0); !ok || !more {
			return false
		}
		if strconv.Itoa(i) == token {
			return true
		}
		if !s.value(nil) {
			return false
		}
	}
}
