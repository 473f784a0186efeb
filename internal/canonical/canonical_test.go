package canonical_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/internal/canonical"
)

func TestAppendForm(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("0", n) }
	tests := []struct{ name, in, want string }{
		{"white space", " \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : null } \n", `{"a":[1,2],"b":null}`},
		{"empty", `[{},[],"",{ },[ ]]`, `[{},[],"",{},[]]`},
		{"literals", `[true,false,null]`, `[true,false,null]`},
		{"array order", `[3,1,2]`, `[3,1,2]`},
		{"keys sorted", `{"b":1,"a":{"d":2,"c":3},"":4,"ab":5}`, `{"":4,"a":{"c":3,"d":2},"ab":5,"b":1}`},
		{"keys sorted by decoded form", `{"#":1,"\"":2,"z":3,"\\":4,"\u0001":5,"\u0061":6}`, `{"\u0001":5,"\"":2,"#":1,"\\":4,"a":6,"z":3}`},
		{"keys bytewise, not by UTF-16", `{"😀":1,"｡":2}`, `{"｡":2,"😀":1}`},
		{"escaped keys survive what follows", `{"\u0062":"\u0063\u0063","\u0061":["\u0064\u0064"]}`, `{"a":["dd"],"b":"cc"}`},
		{"escapes", `"\u0041\/\"\\\b\f\n\r\t\u001F\u007f\u00e9\u20AC\ud83d\uDE00x"`, `"A/\"\\\u0008\u000c\u000a\u000d\u0009\u001f` + "\x7fé€😀x\""},
		{"html escapes of encoding/json", `"\u003ca\u0026\u2028"`, "\"<a&\u2028\""},
		{"replacement character itself", `"` + "\uFFFD" + `\ufffd"`, "\"\uFFFD\uFFFD\""},

		{"int", `9007199254740993`, `9007199254740993`},
		{"trailing zeros stay", `8000`, `8000`},
		{"negative", `-12`, `-12`},
		{"fraction dropped", `1.0`, `1`},
		{"zero exponent", `1e0`, `1`},
		{"negative exponent", `10e-1`, `1`},
		{"capital, plus, leading zeros", `1.5E+0003`, `1500`},
		{"minus zero", `-0`, `0`},
		{"zero with exponent", `0.0e99`, `0`},
		{"zero with absurd exponent", `-0.00e-99999999999999999999999`, `0`},
		{"price", `-12.50`, `-12.5`},
		{"many digits", `123456789012345678901234567890.10`, `123456789012345678901234567890.1`},
		{"below one", `0.5`, `0.5`},
		{"leading fraction zeros", `0.00120`, `0.0012`},
		{"smallest plain fraction", `1e-6`, `0.000001`},
		{"first scientific fraction", `0.0000001`, `1e-7`},
		{"small with digits", `1.25e-7`, `125e-9`},
		{"80 zeros stay plain", `1e80`, `1` + zeros(80)},
		{"80 zeros stay plain, written out", `12` + zeros(80), `12` + zeros(80)},
		{"81 zeros do not", `1` + zeros(81), `1e81`},
		{"huge exponent", `1e1000000000`, `1e1000000000`},
		{"huge exponent, shifted", `-120.0e1000000000`, `-12e1000000001`},
		{"tiny", `1e-1000000000`, `1e-1000000000`},
		{"largest exponent", `1e9223372036854775807`, `1e9223372036854775807`},
		{"smallest exponent", `1e-9223372036854775808`, `1e-9223372036854775808`},
		{"smallest exponent, shifted into range", `10e-9223372036854775808`, `1e-9223372036854775807`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := canonical.Append([]byte("kept:"), []byte(tt.in), canonical.Limits{})
			require.NoError(t, err)
			assert.Equal(t, "kept:"+tt.want, string(got))
			again, err := canonical.Append(nil, got[5:], canonical.Limits{})
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(again))
			require.NoError(t, canonical.Check([]byte(tt.in), canonical.Limits{}))
		})
	}
}

func TestRefusals(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := []struct {
		name, in string
		want     canonical.Error
	}{
		{"empty", "", canonical.Error{Kind: canonical.Truncated}},
		{"only space", "  ", canonical.Error{Kind: canonical.Truncated, Offset: 2}},
		{"byte order mark", "\ufeff1", canonical.Error{Kind: canonical.Syntax}},
		{"NUL", "\x00", canonical.Error{Kind: canonical.Syntax}},
		{"cut object", `{"a":1`, canonical.Error{Kind: canonical.Truncated, Offset: 6}},
		{"cut before value", `{"a":`, canonical.Error{Kind: canonical.Truncated, Offset: 5, Pointer: "/a"}},
		{"cut string", `["abc`, canonical.Error{Kind: canonical.Truncated, Offset: 5, Pointer: "/0"}},
		{"cut escape", `"\`, canonical.Error{Kind: canonical.Truncated, Offset: 2}},
		{"cut literal", `tru`, canonical.Error{Kind: canonical.Truncated, Offset: 3}},
		{"wrong literal", `[1,nul]`, canonical.Error{Kind: canonical.Syntax, Offset: 6, Pointer: "/1"}},
		{"two values", `{} {}`, canonical.Error{Kind: canonical.TrailingData, Offset: 3}},
		{"NUL after value", "1\x00", canonical.Error{Kind: canonical.TrailingData, Offset: 1}},
		{"other white space", "1\v", canonical.Error{Kind: canonical.TrailingData, Offset: 1}},
		{"comma before bracket", `[1,]`, canonical.Error{Kind: canonical.Syntax, Offset: 3, Pointer: "/1"}},
		{"comma before brace", `{"a":1,}`, canonical.Error{Kind: canonical.Syntax, Offset: 7}},
		{"comma first", `[,1]`, canonical.Error{Kind: canonical.Syntax, Offset: 1, Pointer: "/0"}},
		{"no comma", `[1 2]`, canonical.Error{Kind: canonical.Syntax, Offset: 3}},
		{"no colon", `{"a" 1}`, canonical.Error{Kind: canonical.Syntax, Offset: 5, Pointer: "/a"}},
		{"number as key", `{1:1}`, canonical.Error{Kind: canonical.Syntax, Offset: 1}},
		{"bad key", `{"\x":1}`, canonical.Error{Kind: canonical.Syntax, Offset: 3}},
		{"wrong bracket", `[1}`, canonical.Error{Kind: canonical.Syntax, Offset: 2}},
		{"leading zero", `[01]`, canonical.Error{Kind: canonical.Syntax, Offset: 2}},
		{"plus", `+1`, canonical.Error{Kind: canonical.Syntax}},
		{"minus alone", `[-]`, canonical.Error{Kind: canonical.Syntax, Offset: 2, Pointer: "/0"}},
		{"point first", `.5`, canonical.Error{Kind: canonical.Syntax}},
		{"point last", `[5.]`, canonical.Error{Kind: canonical.Syntax, Offset: 3, Pointer: "/0"}},
		{"no exponent", `[1e]`, canonical.Error{Kind: canonical.Syntax, Offset: 3, Pointer: "/0"}},
		{"no exponent after sign", `[1e+]`, canonical.Error{Kind: canonical.Syntax, Offset: 4, Pointer: "/0"}},
		{"NaN", `NaN`, canonical.Error{Kind: canonical.Syntax}},
		{"control character", "\"a\nb\"", canonical.Error{Kind: canonical.Syntax, Offset: 2}},
		{"control character after escape", "\"\\n\n\"", canonical.Error{Kind: canonical.Syntax, Offset: 3}},
		{"unknown escape", `"\a"`, canonical.Error{Kind: canonical.Syntax, Offset: 2}},
		{"short unicode escape", `"\u12"`, canonical.Error{Kind: canonical.Syntax, Offset: 5}},
		{"bad hex", `"\u12g4"`, canonical.Error{Kind: canonical.Syntax, Offset: 5}},
		{"bad hex of low surrogate", `"\ud800\u12g4"`, canonical.Error{Kind: canonical.Syntax, Offset: 11}},
		{"high surrogate alone", `["\ud83dx"]`, canonical.Error{Kind: canonical.InvalidUTF8, Offset: 2, Pointer: "/0"}},
		{"low surrogate alone", `"a\ude00"`, canonical.Error{Kind: canonical.InvalidUTF8, Offset: 2}},
		{"two high surrogates", `"\ud83d\ud83d"`, canonical.Error{Kind: canonical.InvalidUTF8, Offset: 1}},
		{"surrogate and letter", `"\ud83d\u0041"`, canonical.Error{Kind: canonical.InvalidUTF8, Offset: 1}},
		{"invalid UTF-8", "\"é\uFFFD\xff\"", canonical.Error{Kind: canonical.InvalidUTF8, Offset: 6}},
		{"surrogate in UTF-8", "\"\xed\xa0\x80\"", canonical.Error{Kind: canonical.InvalidUTF8, Offset: 1}},
		{"overlong UTF-8 after escape", "\"\\n\xc0\x80\"", canonical.Error{Kind: canonical.InvalidUTF8, Offset: 3}},
		{"duplicate key", `{"a":1,"b":2,"a":1}`, canonical.Error{Kind: canonical.DuplicateKey, Offset: 13, Pointer: "/a"}},
		{"adjacent duplicate", `{"a":1,"a":1}`, canonical.Error{Kind: canonical.DuplicateKey, Offset: 7, Pointer: "/a"}},
		{"duplicate after unescaping", `{"x":[{"\u0061":1,"b":1,"a":1}]}`, canonical.Error{Kind: canonical.DuplicateKey, Offset: 24, Pointer: "/x/0/a"}},
		{"pointer is escaped", `{"a/b~":[0,{"":x}]}`, canonical.Error{Kind: canonical.Syntax, Offset: 15, Pointer: "/a~1b~0/1/"}},
		{"exponent too large", `[1e9223372036854775808]`, canonical.Error{Kind: canonical.NumberTooLarge, Offset: 3, Pointer: "/0"}},
		{"exponent too large after stripping", `[10e9223372036854775807]`, canonical.Error{Kind: canonical.NumberTooLarge, Offset: 4, Pointer: "/0"}},
		{"exponent too small", `0.1e-9223372036854775808`, canonical.Error{Kind: canonical.NumberTooLarge, Offset: 4}},
		{"too deep", deep(65), canonical.Error{Kind: canonical.TooDeep, Offset: 64, Pointer: strings.Repeat("/0", 64)}},
		{"too large", strings.Repeat(" ", 1<<20) + "1", canonical.Error{Kind: canonical.TooLarge, Offset: 1 << 20}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dst, err := canonical.Append([]byte("kept"), []byte(tt.in), canonical.Limits{})
			assert.Equal(t, "kept", string(dst))
			assert.Equal(t, &tt.want, err)
			assert.Equal(t, &tt.want, canonical.Check([]byte(tt.in), canonical.Limits{}))
			sum, err := canonical.Sum("t", []byte(tt.in), canonical.Exclusions{}, canonical.Limits{})
			assert.Equal(t, &tt.want, err)
			assert.Zero(t, sum)
		})
	}
	require.NoError(t, canonical.Check([]byte(deep(64)), canonical.Limits{}))
	require.NoError(t, canonical.Check([]byte(`[`+deep(63)+`,`+deep(63)+`,{},{"a":[]}]`), canonical.Limits{}), "depth is not a count")
	require.NoError(t, canonical.Check([]byte(strings.Repeat(" ", 1<<20-1)+"1"), canonical.Limits{}))
}

func TestLimits(t *testing.T) {
	deep := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	large := []byte(strings.Repeat(" ", 2<<20) + "1")
	tests := []struct {
		name string
		in   []byte
		lim  canonical.Limits
		want canonical.Kind // 0 is accepted
	}{
		{"depth reached", deep(3), canonical.Limits{MaxDepth: 3}, 0},
		{"depth exceeded", deep(4), canonical.Limits{MaxDepth: 3}, canonical.TooDeep},
		{"raised depth", deep(1000), canonical.Limits{MaxDepth: 1000}, 0},
		{"negative depth", deep(10_000), canonical.Limits{MaxDepth: -1}, 0},
		{"negative depth still ends", deep(10_001), canonical.Limits{MaxDepth: -1}, canonical.TooDeep},
		{"no depth above encoding/json's", deep(10_001), canonical.Limits{MaxDepth: 20_000}, canonical.TooDeep},
		{"size reached", []byte("[1]"), canonical.Limits{MaxBytes: 3}, 0},
		{"size exceeded", []byte("[1] "), canonical.Limits{MaxBytes: 3}, canonical.TooLarge},
		{"no size limit", large, canonical.Limits{MaxBytes: -1}, 0},
		{"default size", large, canonical.Limits{}, canonical.TooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := canonical.Check(tt.in, tt.lim)
			if tt.want == 0 {
				require.NoError(t, err)
				return
			}
			var e *canonical.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.want, e.Kind)
		})
	}
}

func TestErrorTextHoldsNoInput(t *testing.T) {
	const secret = "hunter2"
	for _, in := range []string{`{"hunter2":1,"hunter2":2}`, `{"k":"hunter2` + "\xff", `hunter2`, `["hunter2`, `[1] hunter2`, `"hunter2\x"`} {
		err := canonical.Check([]byte(in), canonical.Limits{})
		require.Error(t, err)
		assert.NotContains(t, err.Error(), secret)
	}
	assert.EqualError(t, canonical.Check([]byte(`{"a":1,"a":2}`), canonical.Limits{}), "duplicate object key at byte 7")
}

func TestKindString(t *testing.T) {
	seen := map[string]bool{}
	for k := canonical.Syntax; k <= canonical.NumberTooLarge; k++ {
		assert.NotContains(t, k.String(), "kind(")
		seen[k.String()] = true
	}
	assert.Len(t, seen, 8)
	assert.Equal(t, "kind(0)", canonical.Kind(0).String())
	assert.Equal(t, "kind(200)", canonical.Kind(200).String())
}

func TestAppendCostsNoMoreMemoryThanPromised(t *testing.T) {
	in := "[1e80" + strings.Repeat(",1e80", 1000) + ",1e999999999999]"
	got, err := canonical.Append(nil, []byte(in), canonical.Limits{})
	require.NoError(t, err)
	assert.Less(t, len(got), 17*len(in))
}

func TestStoredIntegersStillDecode(t *testing.T) {
	// Arguments are kept in canonical form and decoded again after a restart; Go takes no exponent into an integer.
	type in struct {
		A int64
		B uint64
		C *big.Int
		D float64
	}
	want := in{-1000000000000000000, 10000000000000000000, new(big.Int).Exp(big.NewInt(10), big.NewInt(77), nil), 1e300}
	src, err := json.Marshal(want)
	require.NoError(t, err)
	form, err := canonical.Append(nil, src, canonical.Limits{})
	require.NoError(t, err)
	var got in
	require.NoError(t, json.Unmarshal(form, &got))
	assert.Equal(t, want, got)
}

// sum fails the test on error.
func sum(t testing.TB, tool, args string, pointers ...string) [32]byte {
	t.Helper()
	ex, err := canonical.ParseExclusions(pointers)
	require.NoError(t, err)
	got, err := canonical.Sum(tool, []byte(args), ex, canonical.Limits{})
	require.NoError(t, err, args)
	return got
}

func TestSumIsPinned(t *testing.T) {
	// Sums are stored. If this fails, canonical.Version has to change with the rule.
	want := sha256.Sum256([]byte("toolexec.fingerprint/1\x00" + "\x00\x00\x00\x00\x00\x00\x00\x06" + "refund" + `{"a":1,"b":["é"]}`))
	got := sum(t, "refund", `{"b":["\u00e9"],"a":1.0}`)
	assert.Equal(t, hex.EncodeToString(want[:]), hex.EncodeToString(got[:]))
	assert.Equal(t, 1, canonical.Version)
}

func TestSumSeparates(t *testing.T) {
	inputs := []struct{ tool, args string }{
		{"t", `{}`}, {"t", `[]`}, {"t", `null`}, {"t", `0`}, {"t", `false`}, {"t", `""`}, {"t", `"0"`}, {"t", `"null"`}, {"t", `[[]]`}, {"t", `[{}]`},
		{"t{", `{}`}, {"", `1`}, {"1", `1`}, {"", `11`}, {"T", `{}`},
		{"t", `9007199254740992`}, {"t", `9007199254740993`}, {"t", `0.1`}, {"t", `0.10000000000000001`}, {"t", `1e400`}, {"t", `1e401`}, {"t", `-1e400`},
		{"t", `[1,2]`}, {"t", `[2,1]`}, {"t", `[12]`}, {"t", `{"a":null}`}, {"t", `{"a":{}}`}, {"t", `{"a":1,"b":2}`}, {"t", `{"a":2,"b":1}`},
		{"t", `"é"`}, {"t", `"e\u0301"`}, {"t", `" "`},
	}
	seen := map[[32]byte]int{}
	for i, in := range inputs {
		s := sum(t, in.tool, in.args)
		if j, ok := seen[s]; ok {
			t.Errorf("%v and %v have one sum", in, inputs[j])
		}
		seen[s] = i
	}
}

func TestSumExcludes(t *testing.T) {
	tests := []struct {
		name, a, b string
		pointers   []string
		equal      bool
	}{
		{"member", `{"ts":1,"x":2}`, `{"x":2,"ts":9}`, []string{"/ts"}, true},
		{"absent member", `{"ts":1,"x":2}`, `{"x":2}`, []string{"/ts"}, true},
		{"only member", `{"ts":1}`, `{}`, []string{"/ts"}, true},
		{"last member", `{"a":1,"ts":1}`, `{"a":1}`, []string{"/ts"}, true},
		{"middle member", `{"a":1,"m":1,"z":2}`, `{"a":1,"z":2}`, []string{"/m"}, true},
		{"unsorted", `{"z":1,"m":1,"a":2}`, `{"a":2,"z":1}`, []string{"/m"}, true},
		{"unsorted, first in order", `{"z":1,"a":1}`, `{"z":1}`, []string{"/a"}, true},
		{"other member", `{"ts":1,"x":2}`, `{"ts":1,"x":3}`, []string{"/ts"}, false},
		{"same name elsewhere", `{"o":{"ts":1}}`, `{"o":{"ts":2}}`, []string{"/ts"}, false},
		{"nested", `{"o":{"ts":1,"k":1}}`, `{"o":{"ts":2,"k":1}}`, []string{"/o/ts"}, true},
		{"whole subtree", `{"o":{"ts":1,"k":1},"p":1}`, `{"p":1,"o":[7]}`, []string{"/o"}, true},
		{"subtree and below", `{"o":{"ts":1}}`, `{"o":{"ts":2,"k":1}}`, []string{"/o/ts", "/o"}, true},
		{"two members of one object", `{"o":{"a":1,"b":1}}`, `{"o":{"a":2,"b":2}}`, []string{"/o/a", "/o/b"}, true},
		{"missing place", `{"a":1}`, `{"a":2}`, []string{"/x/y/z", "/a/b"}, false},
		{"inside an element", `[{"ts":1},{"ts":1}]`, `[{"ts":2},{"ts":1}]`, []string{"/0/ts"}, true},
		{"inside another element", `[{"ts":1},{"ts":1}]`, `[{"ts":1},{"ts":2}]`, []string{"/0/ts"}, false},
		{"first element", `[1,2]`, `[9,2]`, []string{"/0"}, true},
		{"element, not its value", `[1,2]`, `[9,3]`, []string{"/0"}, false},
		{"all elements", `[1,2]`, `[]`, []string{"/0", "/1"}, true},
		{"index with a leading zero", `[1,2]`, `[1,3]`, []string{"/01"}, false},
		{"past the end", `[1]`, `[2]`, []string{"/-"}, false},
		{"number as member name", `{"0":1}`, `{"0":2}`, []string{"/0"}, true},
		{"escaped pointer", `{"a/b":{"m~n":1}}`, `{"a/b":{"m~n":2}}`, []string{"/a~1b/m~0n"}, true},
		{"~01 is ~1", `{"~1":1}`, `{"~1":2}`, []string{"/~01"}, true},
		{"escaped key", `{"t\u0073":1}`, `{"ts":2}`, []string{"/ts"}, true},
		{"empty key", `{"":1}`, `{"":2}`, []string{"/"}, true},
		{"nothing", `{"a":1}`, `{"a":2}`, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.equal, sum(t, "t", tt.a, tt.pointers...) == sum(t, "t", tt.b, tt.pointers...))
		})
	}
}

func TestSumChecksWhatItExcludes(t *testing.T) {
	ex, err := canonical.ParseExclusions([]string{"/ts"})
	require.NoError(t, err)
	for in, want := range map[string]canonical.Kind{
		`{"ts":1,"ts":2}`:       canonical.DuplicateKey,
		`{"ts":1,"a":1,"ts":2}`: canonical.DuplicateKey,
		`{"ts":"\ud800"}`:       canonical.InvalidUTF8,
		`{"ts":{"a":1,"a":1}}`:  canonical.DuplicateKey,
	} {
		_, err := canonical.Sum("t", []byte(in), ex, canonical.Limits{})
		var e *canonical.Error
		require.ErrorAs(t, err, &e, in)
		assert.Equal(t, want, e.Kind, in)
	}
}

func TestParseExclusionsRefuses(t *testing.T) {
	for pointer, want := range map[string]string{
		"":       `excluded JSON Pointer "" excludes all arguments`,
		"ts":     `excluded JSON Pointer "ts" must begin with /`,
		"#/ts":   `excluded JSON Pointer "#/ts" must begin with /`,
		"/a~":    `excluded JSON Pointer "/a~" has a ~ that is neither ~0 (for ~) nor ~1 (for /)`,
		"/a~2/b": `excluded JSON Pointer "/a~2/b" has a ~ that is neither ~0 (for ~) nor ~1 (for /)`,
		"/\xff":  `excluded JSON Pointer "/\xff" is not UTF-8`,
	} {
		ex, err := canonical.ParseExclusions([]string{"/fine", pointer})
		require.EqualError(t, err, want)
		assert.Zero(t, ex)
	}
}

func TestAt(t *testing.T) {
	const args = ` {"a": {"b/c~": [10, {"x": "y"} , null]}, "\u0065": 1.50, "": {}, "0": true, "big": [[1],[2]]} `
	tests := []struct {
		pointer, want string
		ok            bool
	}{
		{"", strings.TrimSpace(args), true},
		{"/a", `{"b/c~": [10, {"x": "y"} , null]}`, true},
		{"/a/b~1c~0", `[10, {"x": "y"} , null]`, true},
		{"/a/b~1c~0/0", `10`, true},
		{"/a/b~1c~0/1/x", `"y"`, true},
		{"/a/b~1c~0/2", `null`, true},
		{"/a/b~1c~0/3", ``, false},
		{"/a/b~1c~0/-", ``, false},
		{"/a/b~1c~0/01", ``, false},
		{"/a/b~1c~0/+1", ``, false},
		{"/a/b~1c~0/0/x", ``, false},
		{"/e", `1.50`, true},
		{"/", `{}`, true},
		{"/0", `true`, true},
		{"/big/1/0", `2`, true},
		{"/nope", ``, false},
		{"/a/nope", ``, false},
		{"a", ``, false},
		{"/~", ``, false},
	}
	for _, tt := range tests {
		t.Run(tt.pointer, func(t *testing.T) {
			raw, ok := canonical.At([]byte(args), tt.pointer)
			assert.Equal(t, tt.ok, ok)
			assert.Equal(t, tt.want, string(raw))
		})
	}
}

func TestAtOfBrokenInput(t *testing.T) {
	for _, tt := range [][2]string{{``, ``}, {``, `/a`}, {`{"a":`, `/a`}, {`{"a" 1}`, `/a`}, {`{"a":x,"b":1}`, `/b`}, {`[x,1]`, `/1`}, {`{1`, `/a`}, {`[`, `/0`}} {
		raw, ok := canonical.At([]byte(tt[0]), tt[1])
		assert.False(t, ok, tt)
		assert.Nil(t, raw, tt)
	}
	_, ok := canonical.At(bytes.Repeat([]byte("["), 1<<20), "")
	assert.False(t, ok, "deep input must not exhaust the stack")
}

func TestAtResultCannotReachItsNeighbour(t *testing.T) {
	args := []byte(`[1,2]`)
	raw, _ := canonical.At(args, "/0")
	_ = append(raw, 'x')
	assert.Equal(t, `[1,2]`, string(args))
}
