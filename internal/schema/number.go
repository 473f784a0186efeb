package schema

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// maxDigits bounds the digits and the exponent of a number literal. No float64 needs more, and beyond it the validator's exact
// arithmetic costs 36 ms for the eight bytes 1e999999 and panics from 1e1000001 on (big.Rat.SetString refuses, nil.Cmp).
const maxDigits = 400

// tooWide reports a literal outside maxDigits.
func tooWide(lit string) bool {
	if len(lit) > maxDigits {
		return true
	}
	i := strings.IndexAny(lit, "eE")
	if i < 0 {
		return false
	}
	exp, err := strconv.Atoi(lit[i+1:])
	return err != nil || exp > maxDigits || exp < -maxDigits
}

// wideNumbers returns the paths of all numbers in v that are too wide.
func wideNumbers(v any, at []string) (paths [][]string) {
	switch v := v.(type) {
	case json.Number:
		if tooWide(string(v)) {
			paths = append(paths, append([]string(nil), at...))
		}
	case map[string]any:
		for key, val := range v {
			paths = append(paths, wideNumbers(val, append(at, key))...)
		}
	case []any:
		for i, val := range v {
			paths = append(paths, wideNumbers(val, append(at, strconv.Itoa(i)))...)
		}
	}
	return paths
}

// integral returns lit in plain digits when its value is an integer. Literals that are too wide are not expanded.
func integral(lit string) (string, bool) {
	if !strings.ContainsAny(lit, ".eE") {
		return lit, true
	}
	if tooWide(lit) {
		return "", false
	}
	digits, sign := strings.CutPrefix(lit, "-")
	exp := 0
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		exp, _ = strconv.Atoi(digits[i+1:]) // tooWide has parsed it
		digits = digits[:i]
	}
	whole, frac, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+frac, "0")
	point := len(digits) - len(frac) + exp // digits before the decimal point
	significant := strings.TrimRight(digits, "0")
	if len(significant) > point && significant != "" {
		return "", false
	}
	plain := "0"
	if significant != "" {
		plain = significant + strings.Repeat("0", point-len(significant))
	}
	if sign {
		plain = "-" + plain
	}
	return plain, true
}

// Normalize rewrites every number literal of raw that has a fraction or an exponent and an integral value into plain
// digits: 1.0 and 10e-1 become 1, 1e3 becomes 1000. JSON Schema calls them integers and Go's decoders refuse them for
// integer fields. Numbers wider than 400 digits are left alone. raw must be valid JSON; it is returned itself when
// nothing changes, and never written to.
func Normalize(raw []byte) []byte {
	out, _ := normalize(raw)
	return out
}

// normalize also reports whether raw holds a plain integer so long that a float64 may not hold it.
func normalize(raw []byte) (out []byte, long bool) {
	kept := 0 // raw[:kept] is already in out
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			i = stringEnd(raw, i)
		case c == '-' || '0' <= c && c <= '9':
			end := numberEnd(raw, i)
			lit := string(raw[i:end])
			if plain, ok := integral(lit); ok && plain != lit {
				out = append(append(out, raw[kept:i]...), plain...)
				kept = end
			} else if ok && len(lit) > 15 {
				long = true
			}
			i = end - 1
		}
	}
	if out == nil {
		return raw, long
	}
	return append(out, raw[kept:]...), long
}

// stringEnd returns the index of the quote that closes the string starting at i, or the last index.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(raw) - 1
}

func numberEnd(raw []byte, i int) int {
	for i < len(raw) && strings.IndexByte("+-.eE0123456789", raw[i]) >= 0 {
		i++
	}
	return i
}

// losesDigits reports whether the plain integer lit has no exact float of the given size. Fractions and exponents are written
// by someone who expects rounding; digits of an identifier are not.
func losesDigits(lit string, bits int) bool {
	n, ok := new(big.Int).SetString(lit, 10)
	if !ok || tooWide(lit) {
		return false
	}
	var acc big.Accuracy
	if bits == 32 {
		_, acc = new(big.Float).SetInt(n).Float32()
	} else {
		_, acc = new(big.Float).SetInt(n).Float64()
	}
	return acc != big.Exact
}

// showNumber writes a bound of the schema.
func showNumber(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
