package canonical

import "strconv"

// Kind says why an input was refused.
type Kind uint8

// The kinds of refusal. The zero Kind is none of them.
const (
	Syntax         Kind = 1 // not RFC 8259
	Truncated      Kind = 2 // a beginning of JSON, or nothing: the input ends before the value does
	TrailingData   Kind = 3 // something follows the value
	DuplicateKey   Kind = 4 // two members of an object have the same name once unescaped; readers differ in which one counts
	InvalidUTF8    Kind = 5 // not UTF-8, or an unpaired surrogate escape, which names no character; decoders would merge both into U+FFFD
	TooDeep        Kind = 6 // beyond Limits.MaxDepth
	TooLarge       Kind = 7 // beyond Limits.MaxBytes
	NumberTooLarge Kind = 8 // a decimal exponent, as written or of the last digit that is not zero, beyond int64 in either direction
)

var kindNames = [...]string{
	Syntax:         "invalid JSON",
	Truncated:      "JSON ends early",
	TrailingData:   "data after the JSON value",
	DuplicateKey:   "duplicate object key",
	InvalidUTF8:    "invalid UTF-8 or unpaired surrogate",
	TooDeep:        "JSON nested too deeply",
	TooLarge:       "JSON too large",
	NumberTooLarge: "number exponent out of range",
}

// String describes the kind in English; a value without a name is "kind(n)".
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// Error is what every refusal returns.
type Error struct {
	Kind Kind
	// Offset is the byte of the input at which the refusal is certain: for a duplicate key the later key, for TooLarge the limit.
	Offset int
	// Pointer is the JSON Pointer of the innermost value or member concerned, "" for the whole input. It holds object keys, which are
	// the caller's data, therefore it is not part of the text.
	Pointer string
}

// Error names kind and offset. It never contains bytes of the input, which may be a secret.
func (e *Error) Error() string {
	return e.Kind.String() + " at byte " + strconv.Itoa(e.Offset)
}
