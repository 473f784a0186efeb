package excerpt_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/internal/excerpt"
)

func TestJSON(t *testing.T) {
	rows := `[` + strings.Repeat(`{"id":1,"name":"abc"},`, 39) + `{"id":2}]`
	long := strings.Repeat("x", 1000)
	deep := strings.Repeat(`[`, 100) + strings.Repeat("1,", 500) + `1` + strings.Repeat(`]`, 100)
	for _, row := range []struct {
		name, raw string
		max       int
		want      string
	}{
		{"fits", ` [1, 2] `, 8, ` [1, 2] `},
		{"fits without white space", " [1,\n2] ", 7, `[1,2]`},
		{"array keeps leading elements", rows, 128, `[{"id":1,"name":"abc"},{"id":1,"name":"abc"},{"id":1,"name":"abc"},{"id":1,"name":"abc"},"…[36 of 40 elements left out]"]`},
		{"array without room for an element", rows, 40, `["…[40 of 40 elements left out]"]`},
		{"array without room for an array", rows, 34, `"…[868 bytes left out]"`},
		{
			"object keeps leading members", `{"z":1,"a":"` + long + `","b":2,"long":"` + long + `","c":3}`, 200,
			`{"z":1,"a":"` + strings.Repeat("x", 49) + `…[951 of 1000 bytes left out]","b":2,"long":"` + strings.Repeat("x", 49) + `…[951 of 1000 bytes left out]","c":3}`,
		},
		{"object without room for all", `{"z":1,"a":"` + long + `","b":2,"long":"` + long + `","c":3}`, 140, `{"z":1,"a":"` + strings.Repeat("x", 54) + `…[946 of 1000 bytes left out]","b":2,"…":"[2 of 5 members left out]"}`},
		{"object without room for a member", `{"a":"` + long + `"}`, 50, `{"…":"[1 of 1 members left out]"}`},
		{"string", `"` + long + `"`, 60, `"xxxxxxxxxxxxxxxxxxxxxxxxxx…[974 of 1000 bytes left out]"`},
		{"string, runes are whole", `"` + strings.Repeat("ü", 500) + `"`, 41, `"üüü…[994 of 1000 bytes left out]"`},
		{"string, escapes are whole", `"` + strings.Repeat(`\"`, 500) + `"`, 41, `"\"\"\"…[994 of 1000 bytes left out]"`},
		{"string, escaped runes are whole", `"` + strings.Repeat(`\u00e4`, 500) + `"`, 44, `"\u00e4…[2994 of 3000 bytes left out]"`},
		{"string, surrogate pairs are whole", `"` + strings.Repeat(`\ud83d\ude00`, 500) + `"`, 57, `"\ud83d\ude00…[5988 of 6000 bytes left out]"`},
		{"string without room", `"` + long + `"`, 33, `"…[text, 1000 bytes, left out]"`},
		{"string without room for a type", `"` + long + `"`, 30, `"…[1000 bytes left out]"`},
		{"number", strings.Repeat("1", 1000), 999, `"…[number, 1000 bytes, left out]"`},
		{"number among others", `[1,` + strings.Repeat("1", 1000) + `,2]`, 200, `[1,"…[number, 1000 bytes, left out]",2]`},
		{"one large among small", `["` + long + `",1,2]`, 200, `["` + strings.Repeat("x", 159) + `…[841 of 1000 bytes left out]",1,2]`},
		{"object below", `{"a":{"b":[` + strings.Repeat("10,", 400) + `10]}}`, 120, `{"a":{"b":[` + strings.Repeat("10,", 23) + `"…[378 of 401 elements left out]"]}}`},
		{"a key like the mark", `{"a":1,"…":"x","b":"` + long + `"}`, 60, `{"a":1,"…":"[2 of 3 members left out]"}`},
		{"an escaped key like the mark", `{"a":1,"\u2026":"x","b":"` + long + `"}`, 60, `{"a":1,"…":"[2 of 3 members left out]"}`},
		{"a long key", `{"a":1,"` + long + `":2,"b":3}`, 60, `{"a":1,"…":"[2 of 3 members left out]"}`},
		{"empty containers", `[[],{},"` + long + `"]`, 110, `[[],{},"` + strings.Repeat("x", 67) + `…[933 of 1000 bytes left out]"]`},
		{"deep", deep, 1150, strings.Repeat(`[`, 16) + `"…[array of 1 elements, 1169 bytes, left out]"` + strings.Repeat(`]`, 16)},
		{"brackets in text", `["]}\\\"[{",` + strings.Repeat("7,", 100) + `7]`, 60, `["]}\\\"[{",7,7,7,7,7,7,"…[95 of 102 elements left out]"]`},
		{"no JSON", strings.Repeat("[", 100), 60, `"…[text that is not JSON, 100 bytes, left out]"`},
		{"nothing else fits", rows, 10, `"…"`},
		{"the least room", rows, -1, `"…"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := string(excerpt.JSON([]byte(row.raw), row.max))
			assert.Equal(t, row.want, got)
			assert.LessOrEqual(t, len(got), max(row.max, excerpt.Min))
			assert.True(t, json.Valid([]byte(got)))
		})
	}
}

func TestNoted(t *testing.T) {
	long := `"` + strings.Repeat("x", 1000) + `"`
	for _, row := range []struct{ name, raw, want string }{
		{"fits", `[1]`, `[1]`},
		{"array", `[` + strings.Repeat("10,", 400) + `10]`, `[10,10,10,10,10,10,"…[395 of 401 elements left out; done, \"x\"]"]`},
		{"array whose elements are cut", `[` + long + `]`, `["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…[960 of 1000 bytes left out]","…[elements above are cut; done, \"x\"]"]`},
		{"object", `{"a":1,"b":` + long + `,"c":` + long + `}`, `{"a":1,"…":"[2 of 3 members left out; done, \"x\"]"}`},
		{"object whose members are cut", `{"a":` + long + `}`, `{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…[966 of 1000 bytes left out]","…":"[members above are cut; done, \"x\"]"}`},
		{"text", long, `"xxxxxxxxxxxxxxxxxxxxxxx…[977 of 1000 bytes left out; done, \"x\"]"`},
		{"number", strings.Repeat("1", 1000), `"…[number, 1000 bytes, left out; done, \"x\"]"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			room := 121
			switch row.name {
			case "array", "object", "text":
				room = 70
			}
			got := excerpt.Noted([]byte(row.raw), room, `done, "x"`)
			assert.Equal(t, row.want, string(got))
			assert.LessOrEqual(t, len(got), room)
			assert.True(t, json.Valid(got))
		})
	}
}

// Text that an attacker made deep is read a bounded number of times.
func TestDeepTextTakesNoTime(t *testing.T) {
	raw := []byte(strings.Repeat(`{"a":[`, 4000) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`]}`, 4000))
	got := excerpt.JSON(raw, 32<<10)
	assert.True(t, json.Valid(got))
	assert.Less(t, len(got), 1<<10, "what is too deep is left out")
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		``, `null`, `[]`, `{}`, ` [1, 2] `, `"\ud83d\ude00\\\""`, "\"\xff\xc3\"", `{"a":{"b":[1,{"c":null}]},"…":1,"\u2026":2}`, `[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]`, `{"a":`, `1e1000`, `["","",true,-0.5]`, strings.Repeat("7", 400),
		`{"a":"` + strings.Repeat("y", 300) + `","b":[` + strings.Repeat(`"zz",`, 60) + `1]}`, `[` + strings.Repeat(`{"id":1},`, 50) + `2]`,
	} {
		for _, n := range []int{0, 5, 12, 40, 100, 300} {
			f.Add([]byte(s), n)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, room int) {
		room %= 1 << 12
		given := bytes.Clone(raw)
		got := excerpt.JSON(raw, room)
		require.Equal(t, given, raw, "the text was changed")
		require.Equal(t, got, excerpt.JSON(raw, room), "the same twice")
		if len(raw) <= room {
			require.Equal(t, raw, got, "what fits is left alone")
			return
		}
		fuzzShort(t, raw, got, room)
		note := `note "` + string(raw[:min(len(raw), 5)])
		fuzzShort(t, raw, excerpt.Noted(raw, room, note), room)
	})
}

// fuzzShort checks what holds for text that was cut.
func fuzzShort(t *testing.T, raw, got []byte, room int) {
	require.LessOrEqual(t, len(got), max(room, excerpt.Min))
	require.True(t, json.Valid(got), "%s", got)
	if !json.Valid(raw) {
		return
	}
	require.True(t, !utf8.Valid(raw) || utf8.Valid(got), "a rune was parted: %s", got)
	first := bytes.TrimSpace(raw)[0]
	var compact bytes.Buffer
	require.NoError(t, json.Compact(&compact, raw))
	if got[0] != first { // it is a number, which is never cut, or there was no room for its type
		require.Equal(t, byte('"'), got[0])
		require.True(t, bytes.IndexByte([]byte("-0123456789"), first) >= 0 || room < 200, "%s", got)
	}
	if compact.Len() > max(room, excerpt.Min) {
		require.Contains(t, string(got), "…", "a cut without a mark")
	}
	fuzzLeading(t, compact.Bytes(), got)
}

// fuzzLeading: the members and elements of got but for its mark are the leading ones of raw, in their order.
func fuzzLeading(t *testing.T, raw, got []byte) {
	if got[0] != raw[0] || got[0] != '[' && got[0] != '{' {
		return
	}
	a, b := json.NewDecoder(bytes.NewReader(raw)), json.NewDecoder(bytes.NewReader(got))
	for _, d := range []*json.Decoder{a, b} {
		_, err := d.Token()
		require.NoError(t, err)
	}
	for b.More() {
		var x, y json.RawMessage
		if raw[0] == '{' {
			kb, err := b.Token()
			require.NoError(t, err)
			if kb == "…" && bytes.HasPrefix(bytes.TrimLeft(got[b.InputOffset():], ":"), []byte(`"[`)) {
				require.NoError(t, b.Decode(&y))
				require.False(t, b.More(), "the mark comes last")
				return
			}
			ka, err := a.Token()
			require.NoError(t, err)
			require.Equal(t, ka, kb)
		}
		require.NoError(t, b.Decode(&y))
		if !b.More() && bytes.HasPrefix(y, []byte(`"…[`)) {
			return
		}
		require.True(t, a.More())
		require.NoError(t, a.Decode(&x))
		if !bytes.Equal(x, y) {
			require.Contains(t, string(y), "…", "a cut without a mark")
			require.Greater(t, len(x), len(y)-1)
			if y[0] == x[0] {
				fuzzLeading(t, x, y)
			}
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	row := `{"id":1234,"title":"an ordinary title of a row","tags":["a","b"],"text":"` + strings.Repeat("word ", 40) + `"},`
	many := []byte(`[` + strings.Repeat(row, 4000) + row[:len(row)-1] + `]`)
	one := []byte(`{"log":"` + strings.Repeat(`a line of it\n`, 80_000) + `","ok":true}`)
	for _, c := range []struct {
		name string
		raw  []byte
		room int
	}{
		{"fits", many, len(many)}, {"rows", many, 32 << 10}, {"text", one, 32 << 10}, {"small", []byte(`{"log":"` + strings.Repeat("x", 2000) + `"}`), 1 << 10},
	} {
		b.Run(fmt.Sprintf("%s/%dKiB", c.name, len(c.raw)>>10), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.raw)))
			for b.Loop() {
				excerpt.JSON(c.raw, c.room)
			}
		})
	}
}
