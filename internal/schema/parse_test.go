package schema

import (
	"bytes"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
)

var parseSeeds = []string{
	`{"order_id":"ORD-5510","cents":8000,"tags":["a","b"],"ok":true,"no":false,"nil":null,"deep":{"a":[{"b":[[]]}],"c":{}}}`,
	` [ 1 , -2.5e+10 , 0 , "" , "\"\\\/\b\f\n\r\té😀" , "é" , "` + "\xff" + `" ] `,
	`{"a":1,"a":{"b":2}}`, `"text"`, `0`, `-0`, `1e400`, `null`, `{}`, `[]`,
	``, `{`, `{"a"}`, `[1,]`, `01`, `"`, `nul`, `1 2`, `{"a":1}}`, `"` + "\x00" + `"`, `{"a" 1}`, `[1 2]`, `[,1]`,
}

func TestParse(t *testing.T) {
	for _, text := range parseSeeds {
		checkParse(t, []byte(text))
	}
}

// FuzzParse: what the library's own reader makes of a document is what parse makes of it.
func FuzzParse(f *testing.F) {
	for _, text := range parseSeeds {
		f.Add([]byte(text))
	}
	f.Fuzz(checkParse)
}

func checkParse(t *testing.T, raw []byte) {
	want, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	got, ok := parse(raw)
	assert.Equal(t, err == nil, ok, "%q: %v", raw, err)
	if err == nil {
		assert.Equal(t, want, got, "%q", raw)
	}
}

func BenchmarkParse(b *testing.B) {
	raw := []byte(`{"order_id":"ORD-5510","cents":8000}`)
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			parse(raw)
		}
	})
	b.Run("UnmarshalJSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		}
	})
}
