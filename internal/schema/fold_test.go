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
