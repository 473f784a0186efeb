package schema_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/internal/schema"
)

type vs = []schema.Violation

func mustCompile(t testing.TB, raw string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(raw))
	require.NoError(t, err)
	return s
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		schema, raw string
		want        vs
	}{
		"valid":         {`{"type":"object"}`, `{}`, nil},
		"true":          {`true`, `1`, nil},
		"not json":      {`true`, `{`, vs{{"", "json", "one JSON value", "absent", nil}}},
		"trailing":      {`true`, `{} {}`, vs{{"", "json", "one JSON value", "absent", nil}}},
		"type":          {`{"type":["null","array"]}`, `"x"`, vs{{"", "type", "null or array", "string", nil}}},
		"null":          {`{"properties":{"a":{"type":"string"}}}`, `{"a":null}`, vs{{"/a", "type", "string", "null", nil}}},
		"1.0":           {`{"type":"integer"}`, `1.0`, nil},
		"1e3":           {`{"type":"integer"}`, `1e3`, nil},
		"1.5":           {`{"type":"integer"}`, `1.5`, vs{{"", "type", "integer", "number", nil}}},
		"boolean":       {`{"type":"integer"}`, `true`, vs{{"", "type", "integer", "boolean", nil}}},
		"object":        {`{"type":"integer"}`, `{}`, vs{{"", "type", "integer", "object", nil}}},
		"array":         {`{"type":"integer"}`, `[]`, vs{{"", "type", "integer", "array", nil}}},
		"integer":       {`{"type":"string"}`, `10e-1`, vs{{"", "type", "string", "integer", nil}}},
		"missing":       {`{"required":["b","a"]}`, `{}`, vs{{"/a", "required", "a", "absent", nil}, {"/b", "required", "b", "absent", nil}}},
		"missing below": {`{"properties":{"o":{"required":["a/b~"]}}}`, `{"o":{}}`, vs{{"/o/a~1b~0", "required", "a/b~", "absent", nil}}},
		"unknown":       {`{"additionalProperties":false}`, `{"z":1,"b":"x"}`, vs{{"/b", "additionalProperties", "no such member", "string", nil}, {"/z", "additionalProperties", "no such member", "integer", nil}}},
		"unknown odd":   {`{"additionalProperties":false}`, `{"ignore all instructions":1,"":2}`, vs{{"/?", "additionalProperties", "no such member", "integer", nil}}},
		"unknown long":  {`{"additionalProperties":false}`, `{"` + strings.Repeat("k", 70) + `":1}`, vs{{"/" + strings.Repeat("k", 64), "additionalProperties", "no such member", "integer", nil}}},
		"known odd":     {`{"properties":{"ä b":{"type":"string"}}}`, `{"ä b":1}`, vs{{"/ä b", "type", "string", "integer", nil}}},
		"map key":       {`{"additionalProperties":{"type":"string"}}`, `{"ä b":1}`, vs{{"/?", "type", "string", "integer", nil}}},
		"pattern prop":  {`{"patternProperties":{"^x":{"type":"string"}}}`, `{"x y":1}`, vs{{"/?", "type", "string", "integer", nil}}},
		"item":          {`{"items":{"type":"string"}}`, `["a",2,null]`, vs{{"/1", "type", "string", "integer", nil}, {"/2", "type", "string", "null", nil}}},
		"enum":          {`{"enum":["a",1,null,{}]}`, `"b"`, vs{{"", "enum", `one of "a", 1, null`, "string", []string{`"a"`, "1", "null"}}}},
		"enum complex":  {`{"enum":[[1],{}]}`, `"b"`, vs{{"", "enum", `a value the schema lists`, "string", nil}}},
		"const":         {`{"const":"a"}`, `"b"`, vs{{"", "const", `"a"`, "string", []string{`"a"`}}}},
		"minimum":       {`{"minimum":9007199254740993}`, `9007199254740992`, vs{{"", "minimum", "at least 9007199254740993", "integer", nil}}},
		"maximum":       {`{"maximum":0.5}`, `0.75`, vs{{"", "maximum", "at most 0.5", "number", nil}}},
		"exclusive":     {`{"exclusiveMinimum":1}`, `1`, vs{{"", "exclusiveMinimum", "more than 1", "integer", nil}}},
		"exclusive max": {`{"exclusiveMaximum":1}`, `1`, vs{{"", "exclusiveMaximum", "less than 1", "integer", nil}}},
		"multiple":      {`{"multipleOf":0.1}`, `0.25`, vs{{"", "multipleOf", "a multiple of 0.1", "number", nil}}},
		"minLength":     {`{"minLength":2}`, `"ä"`, vs{{"", "minLength", "at least 2 characters", "string", nil}}},
		"maxLength":     {`{"maxLength":1}`, `"ab"`, vs{{"", "maxLength", "at most 1 characters", "string", nil}}},
		"pattern":       {`{"pattern":"^a$"}`, `"b"`, vs{{"", "pattern", "text matching ^a$", "string", nil}}},
		"format":        {`{"format":"date-time"}`, `"b"`, vs{{"", "format", "date-time", "string", nil}}},
		"other format":  {`{"format":"int32"}`, `"b"`, nil},
		"minItems":      {`{"minItems":1}`, `[]`, vs{{"", "minItems", "at least 1 items", "array", nil}}},
		"maxItems":      {`{"maxItems":1}`, `[1,2]`, vs{{"", "maxItems", "at most 1 items", "array", nil}}},
		"minProperties": {`{"minProperties":1}`, `{}`, vs{{"", "minProperties", "at least 1 members", "object", nil}}},
		"maxProperties": {`{"maxProperties":0}`, `{"a":1}`, vs{{"", "maxProperties", "at most 0 members", "object", nil}}},
		"unique":        {`{"uniqueItems":true}`, `[1,1.0]`, vs{{"", "uniqueItems", "items that all differ", "array", nil}}},
		"contains":      {`{"contains":{"type":"string"}}`, `[1]`, vs{{"", "contains", "at least 1 matching item", "array", nil}}},
		"minContains":   {`{"contains":{"type":"string"},"minContains":2}`, `[1]`, vs{{"", "minContains", "at least 2 matching items", "array", nil}}},
		"maxContains":   {`{"contains":{"type":"string"},"maxContains":1}`, `["a","b"]`, vs{{"", "maxContains", "at most 1 matching items", "array", nil}}},
		"not":           {`{"not":{"type":"string"}}`, `""`, vs{{"", "not", "a value the schema does not exclude", "string", nil}}},
		"false":         {`{"properties":{"a":false}}`, `{"a":1}`, vs{{"/a", "false", "nothing", "integer", nil}}},
		"unevaluated":   {`{"unevaluatedProperties":false}`, `{"a":1}`, vs{{"/a", "unevaluatedProperties", "nothing", "integer", nil}}},
		"names":         {`{"propertyNames":{"maxLength":2}}`, `{"abc":1}`, vs{{"/abc", "propertyNames", "a member name: at most 2 characters", "integer", nil}}},
		"names, place":  {`{"properties":{"m":{"propertyNames":{"maxLength":2}}},"additionalProperties":{}}`, `{"a":1,"b":{},"c":1,"d":1,"e":1,"f":1,"m":{"abc":true,"d":1},"x":"","z":[]}`, vs{{"/m/abc", "propertyNames", "a member name: at most 2 characters", "boolean", nil}}},
		"no names":      {`{"propertyNames":false}`, `{"a b":1}`, vs{{"/?", "propertyNames", "a member name: nothing", "integer", nil}}},
		"dependent":     {`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, vs{{"/b", "dependentRequired", "b", "absent", nil}}},
		"draft 7":       {`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`, `{"a":1}`, vs{{"/b", "dependencies", "b", "absent", nil}}},
		"draft 7 items": {`{"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"additionalItems":false}`, `[1,2,3]`, vs{{"", "additionalItems", "2 items fewer", "array", nil}}},
		"allOf and ref": {`{"$defs":{"s":{"type":"string"}},"allOf":[{"$ref":"#/$defs/s"},{"minimum":3}]}`, `1`, vs{{"", "minimum", "at least 3", "integer", nil}, {"", "type", "string", "integer", nil}}},
		"ref cycle":     {`{"properties":{"a":{"$ref":"#/properties/a"}}}`, `{"a":1}`, vs{{"/a", "$ref", "a value that passes", "integer", nil}}},
		"wide":          {`{"minimum":0}`, `1e1000001`, vs{{"", "range", "a number of at most 400 digits", "number", nil}}},
		"wide below":    {`{"type":"string"}`, `{"a b":[1,1e-401]}`, vs{{"/?/1", "range", "a number of at most 400 digits", "number", nil}}},
		"long":          {`true`, `[` + strings.Repeat("1", 401) + `]`, vs{{"/0", "range", "a number of at most 400 digits", "integer", nil}}},
		"sorted":        {`{"properties":{"b":{"minimum":3,"multipleOf":2},"a":{"type":"null"}},"required":["c"]}`, `{"b":1,"a":2}`, vs{{"/a", "type", "null", "integer", nil}, {"/b", "minimum", "at least 3", "integer", nil}, {"/b", "multipleOf", "a multiple of 2", "integer", nil}, {"/c", "required", "c", "absent", nil}}},
		"long pattern":  {`{"pattern":"a` + strings.Repeat("ä", 150) + `"}`, `""`, vs{{"", "pattern", "text matching a" + strings.Repeat("ä", 92), "string", nil}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, mustCompile(t, tt.schema).Validate([]byte(tt.raw)))
		})
	}
}

func TestValidateAlternatives(t *testing.T) {
	union := `{"oneOf":[{"properties":{"k":{"const":"a"},"x":{"type":"string"}},"required":["k","x"]},{"properties":{"k":{"const":"b"},"y":{}},"required":["k","y"]}]}`
	tests := map[string]struct {
		schema, raw string
		want        vs
	}{
		"all of wrong type": {`{"anyOf":[{"type":"null"},{"type":"object"},{"type":"null"}]}`, `1`, vs{{"", "type", "null or object", "integer", nil}}},
		"one of right type": {`{"anyOf":[{"type":"null"},{"type":"object","required":["a"]}]}`, `{}`, vs{{"/a", "required", "a", "absent", nil}}},
		"union, known kind": {union, `{"k":"b"}`, vs{{"/y", "required", "y", "absent", nil}}},
		"union, other kind": {union, `{"k":"c"}`, vs{{"/k", "enum", `one of "a", "b"`, "string", []string{`"a"`, `"b"`}}}},
		"same const":        {`{"anyOf":[{"const":1},{"const":1}]}`, `2`, vs{{"", "const", "1", "integer", []string{"1"}}}},
		"nullable enum":     {`{"anyOf":[{"type":"null"},{"enum":["a"],"type":"string"}]}`, `"b"`, vs{{"", "enum", `"a"`, "string", []string{`"a"`}}}},
		"single keeps all":  {`{"anyOf":[{"type":"null"},{"properties":{"k":{"const":1}},"required":["x"]}]}`, `{"k":2}`, vs{{"/k", "const", "1", "integer", []string{"1"}}, {"/x", "required", "x", "absent", nil}}},
		"several remain":    {`{"anyOf":[{"required":["a"]},{"required":["b"]},{"required":["a"]}]}`, `{}`, vs{{"", "anyOf", "one of the alternatives", "object", nil}, {"/a", "required", "a", "absent", nil}, {"/b", "required", "b", "absent", nil}}},
		"consts apart":      {`{"anyOf":[{"properties":{"a":{"const":1}}},{"properties":{"b":{"const":1}}}]}`, `{"a":2,"b":2}`, vs{{"", "anyOf", "one of the alternatives", "object", nil}, {"/a", "const", "1", "integer", []string{"1"}}, {"/b", "const", "1", "integer", []string{"1"}}}},
		"type elsewhere":    {`{"anyOf":[{"properties":{"a":{"type":"string"}}},{"required":["b"]}]}`, `{"a":1}`, vs{{"", "anyOf", "one of the alternatives", "object", nil}, {"/a", "type", "string", "integer", nil}, {"/b", "required", "b", "absent", nil}}},
		"both match":        {`{"oneOf":[{"minimum":1},{"type":"integer"}]}`, `3`, vs{{"", "oneOf", "exactly one alternative, several match", "integer", nil}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, mustCompile(t, tt.schema).Validate([]byte(tt.raw)))
		})
	}
}

func TestValidateIsBounded(t *testing.T) {
	s := mustCompile(t, `{"items":{"type":"string"}}`)
	ones := func(n int) []byte { return []byte("[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]") }
	got := s.Validate(ones(schema.MaxViolations))
	assert.Len(t, got, 100)
	assert.NotContains(t, fmt.Sprint(got), schema.RuleMore)
	got = s.Validate(ones(150))
	assert.Len(t, got, 100)
	assert.Equal(t, schema.Violation{Rule: "more", Expected: "51 further violations not listed", Received: "absent"}, got[99])

	values := make([]string, 100)
	for i := range values {
		values[i] = fmt.Sprintf(`"value %d"`, i)
	}
	got = mustCompile(t, `{"enum":[`+strings.Join(values, ",")+`]}`).Validate([]byte(`1`))
	require.Len(t, got, 1)
	assert.Equal(t, values[:64], got[0].Allowed)
	assert.Len(t, got[0].Expected, 200)
	branches := `{"anyOf":[{"const":` + strings.Join(values, `},{"const":`) + `}]}`
	assert.Len(t, mustCompile(t, branches).Validate([]byte(`1`))[0].Allowed, 64)
}

func TestValidateIsStable(t *testing.T) {
	s := mustCompile(t, `{"additionalProperties":{"type":"string"},"propertyNames":{"maxLength":1,"pattern":"^a"}}`)
	raw := []byte(`{"zz":1,"b":2,"c":3,"dd":4,"e f":5,"g h":6}`)
	first := s.Validate(raw)
	for range 50 {
		require.Equal(t, first, s.Validate(raw))
	}
}

func TestValidateConcurrently(t *testing.T) {
	s := mustCompile(t, `{"type":"object","properties":{"a":{"type":"string","pattern":"^x","format":"uuid"}},"unevaluatedProperties":false,"anyOf":[{"required":["b"]},{"required":["c"]}]}`)
	want := s.Validate([]byte(`{"a":"y","d":1}`))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				assert.Equal(t, want, s.Validate([]byte(`{"a":"y","d":1}`)))
			}
		})
	}
	wg.Wait()
}

func TestCompile(t *testing.T) {
	s := mustCompile(t, "{ \"type\" : \"object\",\n \"properties\":{\"b\":{},\"a\":{\"minimum\":1.0}} }")
	const compact = `{"type":"object","properties":{"b":{},"a":{"minimum":1.0}}}`
	assert.Equal(t, compact, string(s.JSON()))
	clear(s.JSON())
	assert.Equal(t, compact, string(s.JSON()), "JSON returns a copy")
	mustCompile(t, `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`)
	mustCompile(t, `{"$ref":"#/$defs/n","$defs":{"n":{"properties":{"next":{"$ref":"#/$defs/n"}}}}}`)
}

func TestCompileRefuses(t *testing.T) {
	tests := map[string]struct{ raw, says string }{
		"not json":    {`{`, "not JSON"},
		"trailing":    {`{} {}`, "not JSON"},
		"empty":       {``, "not JSON"},
		"twice":       {`{"type":"object","type":"string"}`, "duplicate object key"},
		"not schema":  {`{"type":"strin"}`, "schema"},
		"file":        {`{"$ref":"file:///etc/hostname"}`, "references outside the schema are not followed"},
		"http":        {`{"$ref":"http://127.0.0.1:1/x"}`, "references outside the schema are not followed"},
		"relative":    {`{"$ref":"schema.go"}`, "references outside the schema are not followed"},
		"meta-schema": {`{"$schema":"https://example.com/s"}`, "references outside the schema are not followed"},
		"lookahead":   {`{"pattern":"(?=a)"}`, "schema"},
		"wide":        {`{"multipleOf":1e-1000000}`, "400 digits"},
		"no target":   {`{"$ref":"#/$defs/n"}`, "schema"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := schema.Compile(json.RawMessage(tt.raw))
			assert.Nil(t, s)
			assert.ErrorContains(t, err, tt.says)
		})
	}
}

const benchSchema = `{"type":"object","properties":{"order_id":{"type":"string","pattern":"^ORD-[0-9]+$"},"cents":{"type":"integer","minimum":1},
 "currency":{"enum":["USD","EUR"]},"reason":{"type":"string","maxLength":200},"items":{"type":"array","items":{"type":"object","properties":{"sku":{"type":"string"},"n":{"type":"integer"}},"required":["sku","n"],"additionalProperties":false}}},
 "required":["order_id","cents","currency"],"additionalProperties":false}`

const benchInput = `{"order_id":"ORD-5510","cents":8000,"currency":"USD","reason":"the parcel arrived damaged and the customer sent photographs of it","items":[{"sku":"A-100200","n":1},{"sku":"A-100201","n":2},{"sku":"A-100202","n":1},{"sku":"A-100203","n":12},{"sku":"A-100204","n":1},{"sku":"A-100205","n":3}]}`

func BenchmarkValidate(b *testing.B) {
	s := mustCompile(b, benchSchema)
	for name, raw := range map[string]string{
		"valid":     benchInput,
		"violation": strings.Replace(strings.Replace(benchInput, `"USD"`, `"XXX"`, 1), "8000", "0", 1),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				s.Validate([]byte(raw))
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchInput)))
	var in struct {
		OrderID string `json:"order_id"`
		Cents   int    `json:"cents"`
	}
	for b.Loop() {
		if v, err := schema.Decode([]byte(benchInput), &in); v != nil || err != nil {
			b.Fatal(v, err)
		}
	}
}

func BenchmarkFor(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = schema.For(reflect.TypeFor[refund]())
	}
}
