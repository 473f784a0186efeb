package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/internal/canonical"
	"github.com/toolexec/toolexec/internal/schema"
)

// library compiles a schema by another hand; nil when it is none.
func library(raw string) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(nil)
	if c.AddResource("mem:///schema", doc) != nil {
		return nil
	}
	s, err := c.Compile("mem:///schema")
	if err != nil {
		return nil
	}
	return s
}

// cased has fields whose names the schemas of the tests spell alike, or in another case.
type cased struct {
	Same  map[string]cased `json:"a"`
	Other []cased          `json:"B"`
	Cents int              `json:"c"`
	Any   any              `json:"any"`
}

// accepts asks the acceptor, and when it is sure asks those for whom it speaks.
func accepts(t *testing.T, text, raw string) bool {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(text))
	require.NoError(t, err)
	if !s.Accepts(slices.Clip([]byte(raw))) {
		return false
	}
	require.NoError(t, canonical.Check([]byte(raw), canonical.Limits{}), "%s accepts %s", text, raw)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
	require.NoError(t, err, "%s accepts %s", text, raw)
	require.NoError(t, library(text).Validate(doc), "%s accepts %s", text, raw)
	require.Empty(t, s.Validate([]byte(raw)), "%s accepts %s", text, raw)
	if s.Exact(reflect.TypeFor[cased]()) {
		require.Empty(t, schema.CaseVariants([]byte(raw), reflect.TypeFor[cased]()), "%s accepts %s", text, raw)
	}
	return true
}

// keywords has for every field of a compiled schema a schema that fills it, with a value that the schema allows. What the acceptor
// does not understand it must not be sure of.
var keywords = []struct {
	field, schema, raw string
	sure               bool
}{
	{"Types", `{"type":["integer","null"]}`, `1`, true},
	{"Enum", `{"enum":["a",1]}`, `"a"`, true},
	{"Const", `{"const":7}`, `7`, true},
	{"Format", `{"format":"date-time"}`, `"2026-11-30T12:00:00Z"`, true},
	{"MaxProperties", `{"maxProperties":1}`, `{"a":1}`, true},
	{"MinProperties", `{"minProperties":1}`, `{"a":1}`, true},
	{"Required", `{"required":["a"]}`, `{"a":1}`, true},
	{"Properties", `{"properties":{"a":{"type":"string"}}}`, `{"a":""}`, true},
	{"AdditionalProperties", `{"additionalProperties":{"type":"string"}}`, `{"a":""}`, true},
	{"MinItems", `{"minItems":1}`, `[1]`, true},
	{"MaxItems", `{"maxItems":1}`, `[1]`, true},
	{"Items2020", `{"items":{"type":"string"}}`, `[""]`, true},
	{"MinLength", `{"minLength":1}`, `"a"`, true},
	{"MaxLength", `{"maxLength":1}`, `"a"`, true},
	{"Maximum", `{"maximum":1}`, `1`, true},
	{"Minimum", `{"minimum":1}`, `1`, true},
	{"ExclusiveMaximum", `{"exclusiveMaximum":1}`, `0`, true},
	{"ExclusiveMinimum", `{"exclusiveMinimum":1}`, `2`, true},
	{"Title", `{"title":"a"}`, `1`, true},
	{"Description", `{"description":"a"}`, `1`, true},
	{"Default", `{"default":1}`, `2`, true},
	{"Comment", `{"$comment":"a"}`, `1`, true},
	{"ReadOnly", `{"readOnly":true}`, `1`, true},
	{"WriteOnly", `{"writeOnly":true}`, `1`, true},
	{"Examples", `{"examples":[1]}`, `2`, true},
	{"Deprecated", `{"deprecated":true}`, `1`, true},
	{"DraftVersion", `{}`, `1`, true},
	{"Location", `{}`, `1`, true},
	{"ID", `{"$id":"https://example.com/s"}`, `1`, true},
	{"Anchor", `{"$anchor":"a"}`, `1`, true},

	{"Bool", `false`, `1`, false},
	{"Ref", `{"$ref":"#/$defs/a","$defs":{"a":{}}}`, `1`, false},
	{"DynamicRef", `{"$dynamicRef":"#/$defs/a","$defs":{"a":{}}}`, `1`, false},
	{"DynamicAnchor", `{"$dynamicAnchor":"a"}`, `1`, false},
	{"Not", `{"not":false}`, `1`, false},
	{"AllOf", `{"allOf":[{}]}`, `1`, false},
	{"AnyOf", `{"anyOf":[{}]}`, `1`, false},
	{"OneOf", `{"oneOf":[{}]}`, `1`, false},
	{"If", `{"if":true,"then":{}}`, `1`, false},
	{"Then", `{"if":true,"then":{}}`, `1`, false},
	{"Else", `{"if":false,"else":{}}`, `1`, false},
	{"PropertyNames", `{"propertyNames":{"maxLength":1}}`, `{"a":1}`, false},
	{"Extensions", `{"propertyNames":{"maxLength":1}}`, `{"a":1}`, false},
	{"PatternProperties", `{"patternProperties":{"a":{}}}`, `{"a":1}`, false},
	{"DependentRequired", `{"dependentRequired":{"a":["b"]}}`, `{}`, false},
	{"DependentSchemas", `{"dependentSchemas":{"a":{}}}`, `{}`, false},
	{"UnevaluatedProperties", `{"unevaluatedProperties":true}`, `{}`, false},
	{"UniqueItems", `{"uniqueItems":true}`, `[]`, false},
	{"Contains", `{"contains":{}}`, `[1]`, false},
	{"MinContains", `{"contains":{},"minContains":1}`, `[1]`, false},
	{"MaxContains", `{"contains":{},"maxContains":1}`, `[1]`, false},
	{"PrefixItems", `{"prefixItems":[{}]}`, `[1]`, false},
	{"UnevaluatedItems", `{"unevaluatedItems":true}`, `[]`, false},
	{"Pattern", `{"pattern":"a"}`, `"a"`, false},
	{"MultipleOf", `{"multipleOf":1}`, `1`, false},

	// Of earlier drafts nothing is understood.
	{"Dependencies", `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`, `{}`, false},
	{"Items", `{"$schema":"http://json-schema.org/draft-07/schema#","items":{}}`, `[]`, false},
	{"AdditionalItems", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{}],"additionalItems":{}}`, `[]`, false},
	{"RecursiveRef", `{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"$recursiveRef":"#"}}}`, `{"a":1}`, false},
	{"RecursiveAnchor", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true}`, `1`, false},
	{"DraftVersion", `{"$schema":"http://json-schema.org/draft-07/schema#"}`, `1`, false},
}

func TestAcceptsKnowsEveryKeyword(t *testing.T) {
	missing := map[string]bool{}
	for field := range reflect.TypeFor[jsonschema.Schema]().Fields() {
		if field.IsExported() && !strings.HasPrefix(field.Name, "Content") { // content is not asserted: see Compile
			missing[field.Name] = true
		}
	}
	for _, k := range keywords {
		delete(missing, k.field)
		t.Run(k.field, func(t *testing.T) {
			assert.Equal(t, k.sure, accepts(t, k.schema, k.raw), "%s, %s", k.schema, k.raw)
			if !k.sure && !strings.Contains(k.schema, "$schema") { // nor below, where a draft cannot change
				assert.False(t, accepts(t, `{"items":`+strings.Replace(k.schema, "#/", "#/items/", 1)+`}`, `[`+k.raw+`]`))
			}
		})
	}
	assert.Empty(t, missing, "fields of a compiled schema without a row")
}

func TestAccepts(t *testing.T) {
	order := `{"type":"object","properties":{"id":{"type":"string"},"cents":{"type":"integer","minimum":1},"note":{"type":["null","string"],"maxLength":5}},"required":["id","cents"],"additionalProperties":false}`
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"n%d":1`, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	tests := map[string]struct {
		schema, raw string
		sure        bool
	}{
		"members":            {order, `{"id":"ORD-5510","cents":8000}`, true},
		"any order, space":   {order, " {\n\t\"cents\" : 8000 , \"note\":null,\r\"id\":\"\" } ", true},
		"missing":            {order, `{"id":"ORD-5510"}`, false},
		"unknown":            {order, `{"id":"","cents":1,"new":1}`, false},
		"twice":              {order, `{"id":"","cents":1,"id":""}`, false},
		"another case":       {order, `{"ID":"","cents":1}`, false},
		"escaped name":       {order, `{"\u0069d":"","cents":1}`, false},
		"null":               {order, `{"id":null,"cents":1}`, false},
		"below":              {order, `{"id":"","cents":0}`, false},
		"nothing":            {order, ``, false},
		"trailing":           {order, `{"id":"","cents":1}}`, false},
		"two values":         {order, `{"id":"","cents":1} {}`, false},
		"ends early":         {order, `{"id":"","cents":1`, false},
		"ends in a name":     {order, `{"id`, false},
		"no colon":           {order, `{"id" "","cents":1}`, false},
		"another colon":      {order, `{"id";"","cents":1}`, false},
		"another quote":      {order, `{'id":"","cents":1}`, false},
		"comma first":        {order, `{,"id":"","cents":1}`, false},
		"comma last":         {order, `{"id":"","cents":1,}`, false},
		"long":               {order, `{"id":"","cents":1,"note":"123456"}`, false},
		"long enough":        {order, `{"id":"","cents":1,"note":"äöü\n\u00e9"}`, true},
		"byte order mark":    {order, "\ufeff" + `{"id":"","cents":1}`, false},
		"required, unnamed":  {`{"required":["a"],"additionalProperties":{"type":"string"}}`, `{"a":"","b":""}`, true},
		"required, type":     {`{"required":["a"],"additionalProperties":{"type":"string"}}`, `{"a":1}`, false},
		"required, refused":  {`{"required":["a"],"additionalProperties":false}`, `{"a":1}`, false},
		"not met":            {`{"properties":{"a":{"pattern":"a"},"b":{}}}`, `{"b":1}`, true},
		"met":                {`{"properties":{"a":{"pattern":"a"},"b":{}}}`, `{"b":1,"a":"a"}`, false},
		"word":               {`true`, `true`, true},
		"two words":          {`true`, `truefalse`, false},
		"half a word":        {`true`, `nul`, false},
		"no word":            {`true`, `x`, false},
		"anything":           {`true`, `{"a":[1,0.5,"",true,false,null,{"b":{}}],"c":{"b":{}}}`, true},
		"anything twice":     {`true`, `{"a":{"a":1,"b":2},"b":1,"a":2}`, false},
		"name within":        {`true`, `{"a":{"a":{"a":1}}}`, true},
		"twice, escaped":     {`true`, `{"a":1,"\u0061":2}`, false},
		"32 names":           {`true`, names(32), true},
		"33 names":           {`true`, names(33), false},
		"33 names, two":      {`true`, "[" + names(32) + "," + names(1) + "]", true},
		"64 levels":          {`true`, deep(64), true},
		"65 levels":          {`true`, deep(65), false},
		"65 brackets":        {`true`, "[" + strings.Repeat("[],", 63) + "[]]", true},
		"1 MiB":              {`true`, `"` + strings.Repeat("a", 1<<20-2) + `"`, true},
		"more than 1 MiB":    {`true`, `"` + strings.Repeat("a", 1<<20-1) + `"`, false},
		"int64":              {`true`, `[9223372036854775807,-9223372036854775808]`, true},
		"uint64":             {`true`, `9223372036854775808`, false},
		"below int64":        {`true`, `-9223372036854775809`, false},
		"zero":               {`{"type":"integer"}`, `0`, true},
		"minus zero":         {`{"type":"integer"}`, `-0`, true},
		"minus":              {`true`, `-`, false},
		"leading zero":       {`true`, `01`, false},
		"plus":               {`true`, `+1`, false},
		"fraction":           {`{"type":"number"}`, `-0.0825`, true},
		"fraction, integer":  {`{"type":"integer"}`, `1.5`, false},
		"fraction of zero":   {`true`, `1.00`, false},
		"no fraction":        {`true`, `1.`, false},
		"exponent":           {`true`, `1e3`, false},
		"fraction, exponent": {`true`, `1.5e1`, false},
		"400 digits":         {`true`, `0.` + strings.Repeat("1", 398), true},
		"401 digits":         {`true`, `0.` + strings.Repeat("1", 399), false},
		"fraction, bounded":  {`{"minimum":1}`, `1.5`, false},
		"text, bounded":      {`{"minimum":1}`, `""`, true},
		"bound, fraction":    {`{"minimum":1.5}`, `2`, false},
		"bound, huge":        {`{"minimum":-1e30,"maximum":1e30}`, `1`, true},
		"bounds of int64":    {`{"items":{"exclusiveMinimum":-9223372036854775809,"exclusiveMaximum":9223372036854775808}}`, `[-9223372036854775808,9223372036854775807]`, true},
		"exclusive bounds":   {`{"items":{"exclusiveMinimum":-9223372036854775808}}`, `[-9223372036854775808]`, false},
		"exclusive maximum":  {`{"items":{"exclusiveMaximum":9223372036854775807}}`, `[9223372036854775807]`, false},
		"bound, too huge":    {`{"minimum":1e30}`, `9223372036854775807`, false},
		"bound, too small":   {`{"exclusiveMaximum":-1e30}`, `-9223372036854775808`, false},
		"bound, one too far": {`{"exclusiveMinimum":9223372036854775807}`, `9223372036854775807`, false},
		"two bounds":         {`{"minimum":1,"exclusiveMinimum":1}`, `1`, false},
		"two bounds, wider":  {`{"minimum":5,"exclusiveMinimum":1}`, `3`, false},
		"two bounds above":   {`{"maximum":1,"exclusiveMaximum":1}`, `1`, false},
		"enum":               {`{"enum":["a",1,null]}`, `"a"`, true},
		"enum, number":       {`{"enum":["a",1,null]}`, `1`, true},
		"enum, null":         {`{"enum":["a",1,null]}`, `null`, false},
		"enum, zero":         {`{"enum":[0]}`, `-0`, true},
		"enum, another":      {`{"enum":["a",1]}`, `"1"`, false},
		"enum, escaped":      {`{"enum":["a\n"]}`, `"a\n"`, false},
		"enum, backslash":    {`{"enum":["a\\n"]}`, `"a\n"`, false},
		"enum and type":      {`{"enum":["a",1],"type":"string"}`, `1`, false},
		"enum and const":     {`{"enum":["a"],"const":"a"}`, `"a"`, false},
		"const, null":        {`{"const":null}`, `null`, false},
		"format":             {`{"format":"uuid"}`, `"a"`, false},
		"format, escaped":    {`{"format":"ipv4"}`, `"127.0.0\u002e1"`, false},
		"format, backslash":  {`{"format":"regex"}`, `"\\"`, false},
		"format, no text":    {`{"format":"uuid"}`, `1`, true},
		"format, unknown":    {`{"format":"int32"}`, `"b"`, true},
		"escapes":            {`true`, `"\"\\\/\b\f\n\r\t\u00e9\u0000"`, true},
		"bad escape":         {`true`, `"\x"`, false},
		"bad digits":         {`true`, `"\u00g0"`, false},
		"sign for digits":    {`true`, `"\u+0e9"`, false},
		"ends in an escape":  {`true`, `"\u00`, false},
		"ends in backslash":  {`true`, `"\`, false},
		"ends in a string":   {`true`, `"a`, false},
		"surrogates":         {`true`, `"\ud83d\ude00"`, false},
		"low surrogate":      {`true`, `"\udc00"`, false},
		"half a surrogate":   {`true`, `"\ud83d"`, false},
		"UTF-8":              {`true`, `"😀"`, true},
		"not UTF-8":          {`true`, "\"\xff\"", false},
		"name not UTF-8":     {`true`, "{\"\xff\":1}", false},
		"control character":  {`true`, "\"\x1f\"", false},
		"items":              {`{"items":{"type":"string"},"minItems":1,"maxItems":2}`, `["a","b"]`, true},
		"items, none":        {`{"items":{"type":"string"},"minItems":1,"maxItems":2}`, `[]`, false},
		"items, many":        {`{"items":{"type":"string"},"minItems":1,"maxItems":2}`, `["a","b","c"]`, false},
		"items, type":        {`{"items":{"type":"string"},"minItems":1,"maxItems":2}`, `["a",1]`, false},
		"items, comma":       {`true`, `[1,]`, false},
		"items, no comma":    {`true`, `[1 2]`, false},
		"items, semicolon":   {`true`, `[1;2]`, false},
		"items, brace":       {`true`, `[1}`, false},
		"64 members":         {`{"required":` + manyNames(64) + `}`, manyMembers(64), true},
		"65 members":         {`{"required":` + manyNames(65) + `}`, manyMembers(65), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.sure, accepts(t, tt.schema, tt.raw)) })
	}
}

func manyNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"m%d"`, i)
	}
	return "[" + strings.Join(names, ",") + "]"
}

func manyMembers(n int) string {
	return strings.NewReplacer(`",`, `":1,`, `"]`, `":1}`, "[", "{").Replace(manyNames(n))
}

// What For infers of ordinary arguments is what an acceptor is for.
func TestAcceptsInferred(t *testing.T) {
	raw, err := schema.For(reflect.TypeFor[common]())
	require.NoError(t, err)
	assert.True(t, accepts(t, string(raw), `{"w":"2026-11-30T12:00:00.5Z","u":"a","p":null,"ip":"::1","i":1,"f":"1","n":0.5,"r":{"a":[]},"rp":null,
		"b":"YQ==","bb":null,"l":"INFO","e":"high","o":1,"x":[],"d":{"size":1},"s":"","m":{"a":-1,"b":2}}`))
}

func TestAcceptsAllocatesNothing(t *testing.T) {
	s := mustCompile(t, strings.Replace(benchSchema, `,"pattern":"^ORD-[0-9]+$"`, "", 1))
	raw := []byte(benchInput)
	require.True(t, s.Accepts(raw))
	assert.Zero(t, testing.AllocsPerRun(1000, func() { s.Accepts(raw) }))
}

// TestAcceptorAgreesWithLibrary draws schemas of the keywords that are understood, and values near what they ask for.
func TestAcceptorAgreesWithLibrary(t *testing.T) {
	d := draw{rand.New(rand.NewPCG(1, 2))}
	valid, sure := 0, 0
	for range 1500 {
		doc := d.schema(3)
		text := encode(doc)
		lib := library(text)
		for range 6 {
			v := d.value(doc, 4)
			if lib.Validate(v) == nil {
				valid++
			}
			if accepts(t, text, encode(v)) {
				sure++
			}
		}
	}
	t.Log(sure, "of", valid, "valid values accepted")
	assert.Greater(t, sure, valid/2)
	assert.Less(t, valid, 8000, "most values are near, not all are right")
}

func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

type draw struct{ *rand.Rand }

func (d draw) one(of ...any) any { return of[d.IntN(len(of))] }

func (d draw) number() any {
	return json.Number(d.one("0", "-0", "1", "2", "3", "-1", "7", "1.5", "1.0", "2e0", "0.25", "123456789012345", "9007199254740993", "9223372036854775807", "-9223372036854775808", "1e30", "-1e30").(string))
}

func (d draw) text() any {
	return d.one("", "a", "b", "ab", "abc", "äöü", "a\nb", "\"", "😀", "2026-11-30T12:00:00Z", "127.0.0.1")
}

// schema is an object of a few keywords, or a boolean.
func (d draw) schema(depth int) any {
	if d.IntN(12) == 0 {
		return d.IntN(4) > 0
	}
	s := map[string]any{}
	for range d.IntN(4) + 1 {
		d.keyword(s, depth)
	}
	return s
}

func (d draw) keyword(s map[string]any, depth int) {
	kind := d.one("boolean", "object", "array", "number", "integer", "string")
	nested := []func(){
		func() {
			s["properties"] = map[string]any{d.one("a", "c").(string): d.schema(depth - 1), d.one("any", "b").(string): d.schema(depth - 1)}
			s["additionalProperties"] = d.IntN(2) == 0
			s["type"] = "object"
		},
		func() { s["additionalProperties"] = d.schema(depth - 1) },
		func() { s["items"] = d.schema(depth - 1) },
		func() { s["type"] = "object" },
	}
	flat := []func(){
		func() { s["type"] = kind },
		func() { s["type"] = []any{kind, "null"} },
		func() { s["enum"] = []any{d.text(), d.number(), d.text(), d.one(nil, true, []any{})} },
		func() { s["const"] = d.one(d.text(), d.number(), nil) },
		func() { s["format"] = d.one("date-time", "ipv4", "none") },
		func() { s["minimum"] = d.number() },
		func() { s["maximum"] = d.number() },
		func() { s["exclusiveMinimum"] = d.number() },
		func() { s["exclusiveMaximum"] = d.number() },
		func() { s["minLength"] = d.IntN(4) },
		func() { s["maxLength"] = d.IntN(4) },
		func() { s["minItems"] = d.IntN(3) },
		func() { s["maxItems"] = d.IntN(3) },
		func() { s["minProperties"] = d.IntN(3) },
		func() { s["maxProperties"] = d.IntN(3) },
		func() { s["required"] = d.one([]any{"a"}, []any{"a", "c"}, []any{}) },
		func() { s["description"] = "a" },
		func() { s["default"] = 1 },
	}
	if depth > 0 && d.IntN(2) == 0 {
		nested[d.IntN(len(nested))]()
		return
	}
	flat[d.IntN(len(flat))]()
}

// value is often what doc asks for.
func (d draw) value(doc any, depth int) any {
	s, _ := doc.(map[string]any)
	if values, ok := s["enum"].([]any); ok && d.IntN(3) > 0 {
		return d.one(values...)
	}
	if v, ok := s["const"]; ok && d.IntN(3) > 0 {
		return v
	}
	kind, ok := s["type"].(string)
	if list, several := s["type"].([]any); several {
		kind, ok = d.one(list...).(string)
	}
	if !ok || d.IntN(8) == 0 {
		kind = d.one("null", "boolean", "object", "array", "number", "integer", "string").(string)
	}
	if depth == 0 {
		return d.text()
	}
	switch kind {
	case "null":
		return nil
	case "boolean":
		return d.IntN(2) == 0
	case "number", "integer":
		return d.number()
	case "string":
		return d.text()
	case "array":
		list := make([]any, d.IntN(3))
		for i := range list {
			list[i] = d.value(s["items"], depth-1)
		}
		return list
	}
	obj := map[string]any{}
	named, _ := s["properties"].(map[string]any)
	for _, name := range []string{"a", "b", "c", "any"} {
		if below, ok := named[name]; ok && d.IntN(4) > 0 {
			obj[name] = d.value(below, depth-1)
		} else if s["additionalProperties"] != false && d.IntN(3) == 0 || d.IntN(12) == 0 {
			obj[name] = d.value(s["additionalProperties"], depth-1)
		}
	}
	return obj
}

// FuzzAcceptorAgreesWithLibrary: whatever the schema, what was accepted is strict JSON that the validator finds nothing wrong with.
func FuzzAcceptorAgreesWithLibrary(f *testing.F) {
	for _, k := range keywords {
		f.Add([]byte(k.schema), []byte(k.raw))
	}
	d := draw{rand.New(rand.NewPCG(3, 4))}
	for range 100 {
		doc := d.schema(3)
		f.Add([]byte(encode(doc)), []byte(encode(d.value(doc, 4))))
	}
	f.Add([]byte(benchSchema), []byte(benchInput))
	f.Fuzz(func(t *testing.T, text, raw []byte) {
		if s, err := schema.Compile(text); err == nil && s.Accepts(bytes.Clone(raw)) {
			accepts(t, string(text), string(raw))
		}
	})
}

func BenchmarkAccepts(b *testing.B) {
	raw, err := schema.For(reflect.TypeFor[struct {
		OrderID string `json:"order_id"`
		Cents   int    `json:"cents"`
	}]())
	require.NoError(b, err)
	s, args := mustCompile(b, string(raw)), []byte(`{"order_id":"ORD-5510","cents":8000}`)
	require.True(b, s.Accepts(args))
	b.Run("Accepts", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Accepts(args)
		}
	})
	b.Run("Check and Validate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = canonical.Check(args, canonical.Limits{})
			s.Validate(args)
		}
	})
}
