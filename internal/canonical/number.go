package canonical

import (
	"bytes"
	"slices"
	"strconv"
)

const (
	// maxZeros is how many zeros an integer may end in before it is written with an exponent. Go's decoder takes no exponent into an
	// integer, so a stored argument must keep the plain form: 80 covers 256-bit amounts. More would let 1e999999999 fill the memory.
	maxZeros = 80
	// maxFractionZeros keeps the form encoding/json gives a float: an exponent below 1e-6.
	maxFractionZeros = 5
)

// number reads a number of RFC 8259 section 6. Anything that begins no token ends here and is refused.
func (s *scanner) number() bool {
	negative := s.peek() == '-'
	if negative {
		s.pos++
	}
	whole, ok := s.integer()
	if !ok {
		return false
	}
	fraction, ok := s.fraction()
	if !ok {
		return false
	}
	exponent, ok := s.exponent()
	if !ok {
		return false
	}
	return s.writeNumber(negative, whole, fraction, exponent)
}

// digits reads at least one digit.
func (s *scanner) digits() (d []byte, ok bool) {
	start := s.pos
	for '0' <= s.peek() && s.peek() <= '9' {
		s.pos++
	}
	if s.pos == start {
		return nil, s.unexpected()
	}
	return s.src[start:s.pos], true
}

// integer reads digits without a leading zero: after a zero, more digits are left for what follows to refuse.
func (s *scanner) integer() (d []byte, ok bool) {
	if s.peek() == '0' {
		s.pos++
		return s.src[s.pos-1 : s.pos], true
	}
	return s.digits()
}

func (s *scanner) fraction() (d []byte, ok bool) {
	if s.peek() != '.' {
		return nil, true
	}
	s.pos++
	return s.digits()
}

// exponent reads sign and digits as text: whether they fit matters only when the number is not zero.
func (s *scanner) exponent() (text []byte, ok bool) {
	if s.peek()|0x20 != 'e' {
		return nil, true
	}
	s.pos++
	start := s.pos
	if c := s.peek(); c == '+' || c == '-' {
		s.pos++
	}
	if _, ok := s.digits(); !ok {
		return nil, false
	}
	return s.src[start:s.pos], true
}

// writeNumber writes the digits without outer zeros and then gives them their place.
func (s *scanner) writeNumber(negative bool, whole, fraction, exponent []byte) bool {
	places := len(fraction)
	if whole[0] == '0' {
		whole, fraction = nil, bytes.TrimLeft(fraction, "0")
	}
	if len(whole)+len(fraction) == 0 {
		s.out = append(s.out, '0')
		return true
	}
	if negative {
		s.out = append(s.out, '-')
	}
	start := len(s.out)
	s.out = append(append(s.out, whole...), fraction...)
	full := len(s.out)
	for s.out[len(s.out)-1] == '0' {
		s.out = s.out[:len(s.out)-1]
	}
	scale, ok := scaled(exponent, full-len(s.out)-places)
	if !ok {
		return s.fail(NumberTooLarge, s.pos-len(exponent))
	}
	s.out = arrange(s.out, start, scale)
	return true
}

// scaled adds shift to a written exponent; it fails outside int64.
func scaled(exponent []byte, shift int) (scale int64, ok bool) {
	if len(exponent) == 0 {
		return int64(shift), true
	}
	written, err := strconv.ParseInt(string(exponent), 10, 64)
	if err != nil {
		return 0, false
	}
	scale = written + int64(shift)
	return scale, (scale > written) == (shift > 0) // else it wrapped
}

// arrange turns the digits of out since start into the number digits·10^scale.
func arrange(out []byte, start int, scale int64) []byte {
	n := int64(len(out) - start)
	switch {
	case 0 <= scale && scale <= maxZeros:
		for range scale {
			out = append(out, '0')
		}
		return out
	case -n < scale && scale < 0:
		return slices.Insert(out, len(out)+int(scale), '.')
	case -n-maxFractionZeros <= scale && scale < 0:
		return slices.Insert(out, start, []byte("0.00000")[:2-n-scale]...)
	}
	return strconv.AppendInt(append(out, 'e'), scale, 10)
}
