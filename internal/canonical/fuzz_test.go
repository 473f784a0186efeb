package canonical_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/internal/canonical"
)

var seeds = []string{
	benchArgs, `{"b":[1.0,-0,1e3,9007199254740993],"a":{"\u0041":"\ud83d\ude00\n","":null}}`, `[true,false,null,"",[],{}]`,
	`1e1000000000`, `0.00120e-7`, `-12.50`, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `[1,]`, `{"z":{"y":1,"x":2},"k":"\\\""}`, `1e80`, `100e-9223372036854775808`,
}

// FuzzSum holds the law: two inputs have one sum if and only if they are equal values by the oracle.
func FuzzSum(f *testing.F) {
	for i, s := range seeds {
		f.Add([]byte(s), []byte(seeds[(i+1)%len(seeds)]), uint64(i))
	}
	f.Fuzz(func(t *testing.T, a, b []byte, seed uint64) {
		if canonical.Check(a, canonical.Limits{}) != nil {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		v := decode(t, a)
		assert.Equal(t, sum(t, "t", string(a)), sum(t, "t", rewrite(rng, v)), "another form of the same value")
		form, err := canonical.Append(nil, a, canonical.Limits{})
		require.NoError(t, err)
		assert.True(t, equal(v, decode(t, form)), "the canonical form is another value: %s", form)
		again, err := canonical.Append(nil, form, canonical.Limits{MaxBytes: -1})
		require.NoError(t, err)
		assert.Equal(t, string(form), string(again))

		changed := rewrite(rng, change(rng, v))
		require.False(t, equal(v, decode(t, []byte(changed))), "the test changed nothing")
		assert.NotEqual(t, sum(t, "t", string(a)), sum(t, "t", changed), "%s", changed)

		if canonical.Check(b, canonical.Limits{}) == nil {
			assert.Equal(t, equal(v, decode(t, b)), sum(t, "t", string(a)) == sum(t, "t", string(b)))
		}
	})
}

// FuzzCheck holds Check against encoding/json: it refuses all that is not valid, and of the valid only what it documents.
func FuzzCheck(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		err := canonical.Check(src, canonical.Limits{})
		_, appendErr := canonical.Append(nil, src, canonical.Limits{})
		assert.Equal(t, err, appendErr)
		var e *canonical.Error
		if !errors.As(err, &e) {
			assert.True(t, json.Valid(src), "accepted")
			raw, ok := canonical.At(src, "")
			assert.True(t, ok)
			assert.Equal(t, strings.Trim(string(src), " \t\r\n"), string(raw))
			return
		}
		switch e.Kind {
		case canonical.Syntax, canonical.Truncated, canonical.TrailingData:
			assert.False(t, json.Valid(src), err)
		}
		assert.LessOrEqual(t, e.Offset, len(src))
	})
}

func decode(t *testing.T, src []byte) any {
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v), "%q", src)
	return v
}

// equal is the oracle.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && equalNumbers(string(a), string(b))
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k := range a {
			if other, ok := b[k]; !ok || !equal(a[k], other) {
				return false
			}
		}
		return true
	}
	return a == b
}

func equalNumbers(a, b string) bool {
	if moderate(a) && moderate(b) {
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		return x.Cmp(y) == 0
	}
	return normal(a) == normal(b)
}

func moderate(n string) bool {
	_, exp, found := strings.Cut(strings.ToLower(n), "e")
	e, err := strconv.Atoi(exp)
	return !found || err == nil && -2000 < e && e < 2000
}

// normal writes a number as an integer without trailing zeros and an unbounded exponent.
func normal(n string) string {
	mantissa, exp, _ := strings.Cut(strings.ToLower(n), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	e, ok := new(big.Int).SetString(exp, 10)
	if !ok {
		e = new(big.Int)
	}
	m, _ := new(big.Int).SetString(whole+fraction, 10)
	if m.Sign() == 0 {
		return "0"
	}
	sign := strings.Repeat("-", (1-m.Sign())/2)
	digits := m.Abs(m).String()
	stripped := strings.TrimRight(digits, "0")
	e.Add(e, big.NewInt(int64(len(digits)-len(stripped)-len(fraction))))
	return fmt.Sprintf("%s%se%s", sign, stripped, e)
}

// rewrite writes v with keys shuffled and numbers, strings and white space in other forms.
func rewrite(rng *rand.Rand, v any) string {
	space := func() string { return []string{"", "", " ", "\t", "\n \r"}[rng.IntN(5)] }
	var parts []string
	var brackets string
	switch v := v.(type) {
	case json.Number:
		return space() + reformat(rng, string(v)) + space()
	case string:
		return space() + requote(rng, v) + space()
	case []any:
		brackets = "[]"
		for _, e := range v {
			parts = append(parts, rewrite(rng, e))
		}
	case map[string]any:
		brackets = "{}"
		for k, e := range v { // in random order
			parts = append(parts, space()+requote(rng, k)+space()+":"+rewrite(rng, e))
		}
	default:
		return space() + fmt.Sprint(map[any]string{nil: "null", true: "true", false: "false"}[v]) + space()
	}
	return space() + brackets[:1] + strings.Join(parts, ",") + space() + brackets[1:] + space()
}

// reformat shifts the point of a number, or appends zeros.
func reformat(rng *rand.Rand, n string) string {
	mantissa, exp, _ := strings.Cut(strings.ToLower(n), "e")
	e, err := strconv.ParseInt("0"+strings.TrimPrefix(exp, "+"), 10, 64)
	if err != nil || e > 1e18 || strings.HasPrefix(exp, "-") {
		return n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	switch rng.IntN(4) {
	case 0:
		return fmt.Sprintf("%s.%s%sE+0%d", whole, fraction, strings.Repeat("0", 1+rng.IntN(90)), e)
	case 1:
		zeros := rng.IntN(100)
		if strings.TrimLeft(whole, "-") == "0" {
			return fmt.Sprintf("%s.%s0e%d", whole, fraction, e)
		}
		return fmt.Sprintf("%s%s%se%d", whole, fraction, strings.Repeat("0", zeros), e-int64(zeros+len(fraction)))
	case 2:
		sign, digits := "", whole
		if strings.HasPrefix(whole, "-") {
			sign, digits = "-", whole[1:]
		}
		return fmt.Sprintf("%s0.%s%se%d", sign, digits, fraction, e+int64(len(digits)))
	}
	return n
}

// requote writes a string with a random choice of escapes.
func requote(rng *rand.Rand, s string) string {
	var b strings.Builder
	for _, r := range s {
		quoted, _ := json.Marshal(string(r))
		switch {
		case rng.IntN(3) > 0:
			b.Write(quoted[1 : len(quoted)-1])
		case r > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return `"` + b.String() + `"`
}

// change returns a copy of v that differs in one place.
func change(rng *rand.Rand, v any) any {
	switch v := v.(type) {
	case []any:
		if i := rng.IntN(len(v) + 1); i < len(v) {
			out := append([]any{}, v...)
			out[i] = change(rng, v[i])
			return out
		}
		return append(append([]any{}, v...), nil)
	case map[string]any:
		out, n := map[string]any{}, rng.IntN(len(v)+1)
		for k, e := range v {
			if out[k] = e; n == 0 {
				out[k] = change(rng, e)
			}
			n--
		}
		if n == 0 {
			out[strings.Repeat("k", 1+longest(v))] = nil
		}
		return out
	case json.Number:
		if sign := strings.TrimPrefix(string(v), "-"); sign != string(v) && !equalNumbers(string(v), "0") {
			return json.Number(sign)
		}
		if !strings.ContainsAny(string(v), "eE.") && !equalNumbers(string(v), "0") {
			return v + "1"
		}
		if equalNumbers(string(v), "77e-77") {
			return json.Number("5")
		}
		return json.Number("77e-77")
	case string:
		return v + "\x00"
	}
	return "another"
}

func longest(m map[string]any) (n int) {
	for k := range m {
		n = max(n, len(k))
	}
	return n
}
