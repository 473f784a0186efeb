package excerpt

import (
	"bytes"
	"unicode/utf8"
)

// skip returns the end of the value or key that begins at i, in valid JSON without white space.
func skip(v []byte, i int) int {
	switch v[i] {
	case '"':
		return skipString(v, i)
	case '[', '{':
		return skipContainer(v, i)
	}
	for i < len(v) && v[i] != ',' && v[i] != ']' && v[i] != '}' {
		i++
	}
	return i
}

func skipString(v []byte, i int) int {
	for i++; ; {
		end := i + bytes.IndexByte(v[i:], '"')
		slashes := end
		for slashes > i && v[slashes-1] == '\\' {
			slashes--
		}
		i = end + 1
		if (end-slashes)%2 == 0 {
			return i
		}
	}
}

func skipContainer(v []byte, i int) int {
	for depth := 0; ; {
		switch v[i] {
		case '"':
			i = skipString(v, i)
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// prefix returns how many bytes of the inside of a string make whole characters within room: no escape sequence, surrogate pair or rune is
// parted.
func prefix(s []byte, room int) int {
	end := 0
	for end < len(s) {
		n := character(s[end:])
		if end+n > room {
			break
		}
		end += n
	}
	return end
}

// character returns the length of the first character of s, escaped or not.
func character(s []byte) int {
	switch {
	case s[0] != '\\':
		_, n := utf8.DecodeRune(s)
		return n
	case s[1] != 'u':
		return 2
	case len(s) >= 12 && highSurrogate(s) && s[6] == '\\' && s[7] == 'u':
		return 12
	}
	return 6
}

// highSurrogate reports whether \uD800 to \uDBFF is at the beginning of s.
func highSurrogate(s []byte) bool {
	return s[2]|0x20 == 'd' && (s[3] == '8' || s[3] == '9' || s[3]|0x20 == 'a' || s[3]|0x20 == 'b')
}
