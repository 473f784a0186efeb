package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/internal/schema"
)

func TestNormalize(t *testing.T) {
	tests := map[string]string{
		`1`: `1`, `1.0`: `1`, `-1.00`: `-1`, `1e3`: `1000`, `1E+3`: `1000`, `10e-1`: `1`, `1.5`: `1.5`, `1.5e1`: `15`, `1.25e1`: `1.25e1`,
		`0.0`: `0`, `-0.0`: `-0`, `0e5`: `0`, `0.001e3`: `1`, `0.010e2`: `1`, `5e-1`: `5e-1`, `120.0e-1`: `12`, `1e401`: `1e401`, `1e99999999999999999999`: `1e99999999999999999999`,
		`1e400`:                         `1` + strings.Repeat("0", 400),
		`[1.0,"1.0","\"1.0",2.0]`:       `[1,"1.0","\"1.0",2]`,
		`{"1.0":1e0,"a\\":3.0}`:         `{"1.0":1,"a\\":3}`,
		`null`:                          `null`,
		`"unterminated 1.0`:             `"unterminated 1.0`,
		strings.Repeat("0", 401) + `.0`: strings.Repeat("0", 401) + `.0`,
	}
	for raw, want := range tests {
		in := []byte(raw)
		assert.Equal(t, want, string(schema.Normalize(in)), raw)
		assert.Equal(t, raw, string(in), "input is not written to")
	}
	same := []byte(`[1,2.5]`)
	assert.Same(t, &same[0], &schema.Normalize(same)[0])
}

type (
	picky  struct{ v string } //nolint:unused // reflection sees it
	strict struct{ N int8 }
	lax    float64
	shout  string
	nested struct {
		Items []struct {
			N int8 `json:"n"`
		} `json:"items"`
		ByName map[string]*uint16 `json:"by_name"`
		Free   any                `json:"free"`
		P      picky              `json:"p"`
		S      shout              `json:"s"`
		W      *time.Time         `json:"w"`
		F32    float32            `json:"f32"`
		F64    float64            `json:"f64"`
		Text   string             `json:"text"`
		Yes    bool               `json:"yes"`
		Bytes  []byte             `json:"bytes"`
		Keys   map[int]string     `json:"keys"`
		Num    json.Number        `json:"num"`
		Big    big.Int            `json:"big"`
		Q      int                `json:"q,string"`
		Pair   [2]int             `json:"pair"`
		Strict strict             `json:"strict"`
		Lax    lax                `json:"lax"`
		Off    bool               `json:"-"`
		Dash   int                `json:"-,"` //nolint:staticcheck // the point
		hidden int
	}
)

func (p *picky) UnmarshalJSON(b []byte) error { return fmt.Errorf("picky about %s", b) }

func (s *strict) UnmarshalJSON([]byte) error { return errors.New("no") }

func (l *lax) UnmarshalJSON([]byte) error { return nil }

func (s *shout) UnmarshalText(b []byte) error { return fmt.Errorf("shout %s", b) }

func TestDecodeViolations(t *testing.T) {
	tests := map[string]struct {
		raw  string
		want schema.Violation
	}{
		"overflow":      {`{"items":[{"n":1},{"n":300}]}`, schema.Violation{Pointer: "/items/1/n", Rule: "range", Expected: "an integer from -128 to 127", Received: "integer"}},
		"exponent":      {`{"items":[{"n":3e2}]}`, schema.Violation{Pointer: "/items/0/n", Rule: "range", Expected: "an integer from -128 to 127", Received: "integer"}},
		"fraction":      {`{"items":[{"n":1.5}]}`, schema.Violation{Pointer: "/items/0/n", Rule: "type", Expected: "integer", Received: "number"}},
		"map value":     {`{"by_name":{"a":1,"b":-1,"c":-1}}`, schema.Violation{Pointer: "/by_name/b", Rule: "range", Expected: "an integer from 0 to 65535", Received: "integer"}},
		"map name":      {`{"by_name":{"b c":-1}}`, schema.Violation{Pointer: "/by_name/?", Rule: "range", Expected: "an integer from 0 to 65535", Received: "integer"}},
		"map keys":      {`{"keys":{"x":"a"}}`, schema.Violation{Pointer: "/keys", Rule: "decode", Expected: "a value the tool can read", Received: "object"}},
		"other case":    {`{"TEXT":1}`, schema.Violation{Pointer: "/text", Rule: "type", Expected: "string", Received: "integer"}},
		"text":          {`{"text":{"a":1}}`, schema.Violation{Pointer: "/text", Rule: "type", Expected: "string", Received: "object"}},
		"text, array":   {`{"text":[1]}`, schema.Violation{Pointer: "/text", Rule: "type", Expected: "string", Received: "array"}},
		"bool":          {`{"yes":"true"}`, schema.Violation{Pointer: "/yes", Rule: "type", Expected: "boolean", Received: "string"}},
		"array":         {`{"items":true}`, schema.Violation{Pointer: "/items", Rule: "type", Expected: "array", Received: "boolean"}},
		"base64":        {`{"bytes":"%%"}`, schema.Violation{Pointer: "/bytes", Rule: "decode", Expected: "a value the tool can read", Received: "string"}},
		"whole":         {`[]`, schema.Violation{Rule: "type", Expected: "object", Received: "array"}},
		"UnmarshalJSON": {`{"p":{"a":1}}`, schema.Violation{Pointer: "/p", Rule: "decode", Expected: "a value the tool can read", Received: "object"}},
		"own reading":   {`{"strict":{"N":300}}`, schema.Violation{Pointer: "/strict", Rule: "decode", Expected: "a value the tool can read", Received: "object"}},
		"own, scalar":   {`{"strict":1}`, schema.Violation{Pointer: "/strict", Rule: "decode", Expected: "a value the tool can read", Received: "integer"}},
		"dash":          {`{"-":"x"}`, schema.Violation{Pointer: "/-", Rule: "type", Expected: "integer", Received: "string"}},
		"first by name": {`{"by_name":{"g":-1,"f":-1,"e":-1,"d":-1,"c":-1,"b":-1,"a":-1}}`, schema.Violation{Pointer: "/by_name/a", Rule: "range", Expected: "an integer from 0 to 65535", Received: "integer"}},
		"UnmarshalText": {`{"s":"x"}`, schema.Violation{Pointer: "/s", Rule: "decode", Expected: "a value the tool can read", Received: "string"}},
		"text wanted":   {`{"s":1}`, schema.Violation{Pointer: "/s", Rule: "type", Expected: "string", Received: "integer"}},
		"time":          {`{"w":"yesterday"}`, schema.Violation{Pointer: "/w", Rule: "decode", Expected: "a value the tool can read", Received: "string"}},
		"float range":   {`{"f64":1e309}`, schema.Violation{Pointer: "/f64", Rule: "range", Expected: "a number within a 64-bit float", Received: "integer"}},
		"float32 range": {`{"f32":1e39}`, schema.Violation{Pointer: "/f32", Rule: "range", Expected: "a number within a 32-bit float", Received: "integer"}},
		"json.Number":   {`{"num":true}`, schema.Violation{Pointer: "/num", Rule: "type", Expected: "number", Received: "boolean"}},
		"beside quoted": {`{"q":"4","text":1}`, schema.Violation{Pointer: "/text", Rule: "type", Expected: "string", Received: "integer"}},
		"quoted":        {`{"q":1}`, schema.Violation{Rule: "decode", Expected: "a value the tool can read", Received: "object"}},
		"pair":          {`{"pair":[1,"x"]}`, schema.Violation{Pointer: "/pair/1", Rule: "type", Expected: "integer", Received: "string"}},
		"precision":     {`{"f64":9007199254740993}`, schema.Violation{Pointer: "/f64", Rule: "precision", Expected: "digits a 64-bit float holds exactly", Received: "integer"}},
		"precision any": {`{"free":{"a b":[1,-9007199254740993]}}`, schema.Violation{Pointer: "/free/?/1", Rule: "precision", Expected: "digits a 64-bit float holds exactly", Received: "integer"}},
		"precision f32": {`{"f32":1000000000000000001}`, schema.Violation{Pointer: "/f32", Rule: "precision", Expected: "digits a 32-bit float holds exactly", Received: "integer"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v, err := schema.Decode([]byte(tt.raw), new(nested))
			require.NoError(t, err)
			require.NotNil(t, v)
			assert.Equal(t, tt.want, *v)
		})
	}
}

func TestDecode(t *testing.T) {
	var in nested
	v, err := schema.Decode([]byte(`{"items":[{"n":1e2},{"n":2.0}],"f64":9007199254740992,"f32":0.1,"free":[1e23,9007199254740993.0,null],
		"num":90071992547409931,"big":90071992547409931,"q":"4","text":"9007199254740993","unknown":90071992547409931,"pair":null,"lax":9007199254740993}`), &in)
	require.NoError(t, err)
	require.Nil(t, v)
	assert.Equal(t, int8(100), in.Items[0].N)
	assert.Equal(t, int8(2), in.Items[1].N)
	assert.Equal(t, "90071992547409931", in.Big.String())
	assert.Equal(t, 4, in.Q)
	_ = in.hidden

	var n int
	v, err = schema.Decode([]byte("1.0"), &n)
	require.NoError(t, err)
	assert.Nil(t, v)
	assert.Equal(t, 1, n)
	var u uint64
	v, err = schema.Decode([]byte("18446744073709551616"), &u)
	require.NoError(t, err)
	assert.Equal(t, "an integer from 0 to 18446744073709551615", v.Expected)
}

func TestDecodeErrors(t *testing.T) {
	for name, into := range map[string]any{"nil": nil, "value": 1, "nil pointer": (*int)(nil)} {
		v, err := schema.Decode([]byte("1"), into)
		assert.Nil(t, v, name)
		assert.ErrorContains(t, err, "non-nil pointer", name)
	}
	v, err := schema.Decode([]byte(`{"canary`), new(int))
	assert.Nil(t, v)
	require.ErrorContains(t, err, "not JSON")
	assert.NotContains(t, err.Error(), "canary")
}

// Decoding what every rule refuses must not show what was refused.
const canary = "CANARY7f3a"

var leaky = `{"$defs":{"c":{"enum":["a","b"]}},"type":"object","properties":{"a":{"type":"string","pattern":"^x","maxLength":2,"minLength":900},"n":{"minimum":5,"multipleOf":4},
 "e":{"$ref":"#/$defs/c"},"k":{"const":"z"},"f":{"format":"date-time"},"u":{"format":"uri"},"l":{"items":{"type":"integer"},"uniqueItems":true,"contains":{"const":1}},
 "o":{"oneOf":[{"type":"string","format":"email"},{"type":"object","required":["q"]}]},"m":{"additionalProperties":{"type":"integer"},"propertyNames":{"maxLength":3}},
 "x":{"not":{"type":"string"}}},"required":["zz"],"additionalProperties":false}`

func assertNoCanary(t *testing.T, vs []schema.Violation) {
	t.Helper()
	text := fmt.Sprintf("%#v", vs)
	if strings.Contains(text, canary) || strings.Contains(text, "7331") {
		t.Fatalf("a received value is reported: %s", text)
	}
}

func TestNoValueIsReported(t *testing.T) {
	s := mustCompile(t, leaky)
	raw := strings.ReplaceAll(`{"a":"V","n":7331,"e":"V","k":"V","f":"V","u":":V","l":["V","V",7331.5],"o":"V",
		"m":{"a":"V","a V":7331,"<V>":"V"},"x":"V","y":"V","not V":1}`, "V", canary)
	require.True(t, json.Valid([]byte(raw)), raw)
	vs := s.Validate([]byte(raw))
	assert.Greater(t, len(vs), 12)
	assertNoCanary(t, vs)
	for _, into := range []any{new(nested), new(int), new([]int), new(map[string]int), new(map[string]picky), new(map[string]shout)} {
		v, err := schema.Decode([]byte(raw), into)
		require.NoError(t, err)
		if v != nil {
			assertNoCanary(t, []schema.Violation{*v})
		}
	}
}

// No input makes Validate or Decode panic or report what was received; member names are the bounded exception, so the
// canary is only put into values.
func FuzzValidateDecode(f *testing.F) {
	s := mustCompile(f, leaky)
	raw, err := schema.For(reflect.TypeFor[common]())
	require.NoError(f, err)
	wide := mustCompile(f, string(raw))
	for _, seed := range []string{benchInput, `{"a":"@","n":1e1000001,"l":["@",1.0,1e3]}`, `{"items":[{"n":300}],"p":"@","s":"@","free":9007199254740993}`, `[["@"]]`, `{"w":"@","i":"@","by_name":{"a":-1}}`, `"@`, `1e-999999`, `{"o":{"q":"@"},"m":{"a b":"@"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var doc any
		if json.Unmarshal(raw, &doc) == nil {
			raw, _ = json.Marshal(plant(doc))
		}
		for _, s := range []*schema.Schema{s, wide} {
			vs := s.Validate(raw)
			assertNoCanary(t, vs)
			if len(vs) > schema.MaxViolations {
				t.Fatal(len(vs))
			}
		}
		for _, into := range []any{new(nested), new(common), new(any), new([]float32), new(map[string]shout)} {
			v, err := schema.Decode(raw, into)
			if err != nil && json.Valid(raw) {
				t.Fatal(err)
			}
			if v != nil {
				assertNoCanary(t, []schema.Violation{*v})
			}
		}
	})
}

// plant makes every string value the canary.
func plant(v any) any {
	switch v := v.(type) {
	case string:
		return canary
	case []any:
		for i := range v {
			v[i] = plant(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plant(v[k])
			if strings.Contains(k, "7331") {
				delete(v, k)
			}
		}
	}
	return v
}

// Normalize changes no number.
func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{`1.0`, `1e3`, `-0.0`, `[1.50e1,"1.0\\"]`, `0.00100e2`, `{"a":1e-3}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		out := schema.Normalize(raw)
		if !json.Valid(raw) {
			return
		}
		var a, b any
		require.True(t, json.Valid(out), "%s became %s", raw, out)
		if errA, errB := json.Unmarshal(raw, &a), json.Unmarshal(out, &b); errA == nil && errB == nil {
			require.Equal(t, a, b, "%s became %s", raw, out)
		}
	})
}
