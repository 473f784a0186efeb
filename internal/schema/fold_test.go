package schema_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/toolexec/toolexec/internal/schema"
)

func TestCaseVariants(t *testing.T) {
	type inner struct {
		X int `json:"x"`
	}
	type in struct {
		Cents int              `json:"cents"`
		Plain string           // JSON knows it as Plain
		Deep  inner            `json:"deep"`
		List  []*inner         `json:"list"`
		Named map[string]inner `json:"named"`
		Slash int              `json:"a/b"`
		Out   string           `json:"-"`
	}
	tests := []struct {
		name, raw string
		want      []string
	}{
		{"exact names", `{"cents":1,"Plain":"a","deep":{"x":1},"list":[{"x":1},null],"named":{"X":{"x":1}}}`, nil},
		{"unknown members are the schema's business", `{"other":1,"out":"x","deep":{"y":1}}`, nil},
		{"a variant beside the field", `{"cents":1,"Cents":900}`, []string{"/cents"}},
		{"a variant alone", `{"CENTS":900}`, []string{"/cents"}},
		{"an untagged field", `{"plain":"a"}`, []string{"/Plain"}},
		{"nested", `{"deep":{"X":1},"list":[{"X":1}],"named":{"a/b":{"X":2}}}`, []string{"/deep/x", "/list/0/x", "/named/a~1b/x"}},
		{"an odd name", `{"A/b":1}`, []string{"/a~1b"}},
		{"not JSON", `{`, nil},
		{"another type", `[1]`, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, v := range schema.CaseVariants([]byte(tc.raw), reflect.TypeFor[in]()) {
				assert.Equal(t, schema.RuleCase, v.Rule)
				got = append(got, v.Pointer)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestExact(t *testing.T) {
	type inner struct {
		X int `json:"x"`
	}
	type endless map[string]endless
	type list []list
	inners := `{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":false}`
	tests := map[string]struct {
		schema string
		t      reflect.Type
		want   bool
	}{
		"a field":           {inners, reflect.TypeFor[inner](), true},
		"by pointer":        {inners, reflect.TypeFor[**inner](), true},
		"another name":      {`{"properties":{"y":true},"additionalProperties":false}`, reflect.TypeFor[inner](), true},
		"another case":      {`{"properties":{"X":true},"additionalProperties":false}`, reflect.TypeFor[inner](), false},
		"both":              {`{"properties":{"x":true,"X":true},"additionalProperties":false}`, reflect.TypeFor[inner](), false},
		"required":          {`{"required":["X"],"additionalProperties":false}`, reflect.TypeFor[inner](), false},
		"any name":          {`{"properties":{"x":true}}`, reflect.TypeFor[inner](), false},
		"any value":         {`true`, reflect.TypeFor[inner](), false},
		"no value":          {`false`, reflect.TypeFor[inner](), true},
		"no object":         {`{"type":"string"}`, reflect.TypeFor[inner](), true},
		"not understood":    {`{"allOf":[{}]}`, reflect.TypeFor[inner](), true},
		"any":               {`true`, reflect.TypeFor[any](), true},
		"text":              {`true`, reflect.TypeFor[string](), true},
		"reads itself":      {`true`, reflect.TypeFor[own](), true},
		"map":               {`{"additionalProperties":` + inners + `}`, reflect.TypeFor[map[string]inner](), true},
		"map, a name":       {`{"properties":{"a":true},"additionalProperties":` + inners + `}`, reflect.TypeFor[map[string]inner](), false},
		"map, any value":    {`{"type":"object"}`, reflect.TypeFor[map[string]inner](), false},
		"map of any":        {`{"type":"object"}`, reflect.TypeFor[map[string]any](), true},
		"map, no object":    {`{"type":"string"}`, reflect.TypeFor[map[string]inner](), true},
		"slice":             {`{"items":` + inners + `}`, reflect.TypeFor[[]inner](), true},
		"slice, any value":  {`{"type":"array"}`, reflect.TypeFor[[]inner](), false},
		"slice, no array":   {`{"type":"string"}`, reflect.TypeFor[[]inner](), true},
		"array":             {`{"items":{"items":` + inners + `}}`, reflect.TypeFor[[2][2]*inner](), true},
		"array, any value":  {`{"items":{"type":"array"}}`, reflect.TypeFor[[2][2]*inner](), false},
		"a map of itself":   {`true`, reflect.TypeFor[endless](), false},
		"a slice of itself": {`{"items":true}`, reflect.TypeFor[list](), false},
		"within":            {`{"properties":{"In":` + inners + `},"additionalProperties":false}`, reflect.TypeFor[struct{ In inner }](), true},
		"within, any":       {`{"properties":{"In":{"type":"object"}},"additionalProperties":false}`, reflect.TypeFor[struct{ In inner }](), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, mustCompile(t, tt.schema).Exact(tt.t)) })
	}
}

func TestDeclared(t *testing.T) {
	type inner struct {
		X int `json:"x/y"`
	}
	type in struct {
		ID   string           `json:"id"`
		Deep *inner           `json:"deep"`
		List []inner          `json:"list"`
		Map  map[string]inner `json:"map"`
		Any  any              `json:"any"`
	}
	for pointer, want := range map[string]bool{
		"": false, "/id": true, "/deep/x~1y": true, "/list/3/x~1y": true, "/map": true, "/any": true, "/list/0": true,
		"/ID": false, "/other": false, "/id/x": false, "/list/a": false, "/map/key": false, "/map/key/x~1y": false, "/any/a": false,
	} {
		assert.Equal(t, want, schema.Declared(pointer, reflect.TypeFor[in]()), pointer)
	}
	assert.False(t, schema.Declared("/a", reflect.TypeFor[map[string]int]()))
}
