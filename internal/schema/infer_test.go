package schema_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/internal/schema"
)

type (
	refund struct {
		OrderID string `json:"order_id" jsonschema:"the order to refund"`
		Cents   int    `json:"cents"`
		Note    string `json:"note,omitempty"`
		When    *int8  `json:"when,omitzero"`
		secret  int
		Skipped string `json:"-"`
	}
	base     struct{ A int }
	promoted struct {
		base
		B string
	}
	named  struct{ Inner base }
	tagged struct {
		Base `json:"base"`
	}
	omitted struct {
		Base `json:"-"`
	}
	Base      struct{ A int }
	Text      string
	embedText struct{ Text }
	embedPtr  struct{ *base }
	quoted    struct {
		N int `json:"n,string"`
	}
	dash struct {
		D int `json:"-,"` //nolint:staticcheck // the point
	}
	list    struct{ Next *list }
	loop    *loop
	reader  struct{ R io.Reader }
	intKeys struct{ M map[int]string }
	badTag  struct {
		A int `jsonschema:"minimum=3"`
	}
	own      struct{ hidden int }
	defaults struct {
		Size int `json:"size"`
	}
	stamped struct {
		time.Time
		Extra string
	}
	level  int
	blob   []byte
	deep   struct{ L []map[string][]chan int }
	common struct {
		W  time.Time         `json:"w"`
		U  uuid.UUID         `json:"u"`
		P  *uuid.UUID        `json:"p"`
		IP netip.Addr        `json:"ip"`
		I  big.Int           `json:"i"`
		F  big.Float         `json:"f"`
		N  json.Number       `json:"n"`
		R  json.RawMessage   `json:"r"`
		RP *json.RawMessage  `json:"rp"`
		B  []byte            `json:"b"`
		BB blob              `json:"bb"`
		L  slog.Level        `json:"l"`
		E  level             `json:"e"`
		O  own               `json:"o"`
		X  any               `json:"x"`
		D  defaults          `json:"d"`
		S  stamped           `json:"s"`
		M  map[uuid.UUID]int `json:"m"`
	}
)

func (o *own) UnmarshalJSON([]byte) error { o.hidden = 1; return nil }

func (d *defaults) UnmarshalJSON(b []byte) error {
	type plain defaults
	d.Size = 7
	return json.Unmarshal(b, (*plain)(d))
}

func (l *level) UnmarshalText(b []byte) error {
	if string(b) != "high" {
		return fmt.Errorf("no level %s", b)
	}
	*l = 3
	return nil
}

func TestFor(t *testing.T) {
	anything := `{"type":["null","boolean","object","array","number","string"]}`
	tests := map[string]struct {
		t    reflect.Type
		want string
	}{
		"struct": {reflect.TypeFor[refund](), `{"type":"object","properties":{"order_id":{"type":"string","description":"the order to refund"},
			"cents":{"type":"integer"},"note":{"type":"string"},"when":{"type":["null","integer"],"minimum":-128,"maximum":127}},
			"required":["order_id","cents"],"additionalProperties":false}`},
		"pointer at the top": {reflect.TypeFor[*base](), `{"type":"object","properties":{"A":{"type":"integer"}},"required":["A"],"additionalProperties":false}`},
		"promoted":           {reflect.TypeFor[promoted](), `{"type":"object","properties":{"A":{"type":"integer"},"B":{"type":"string"}},"required":["A","B"],"additionalProperties":false}`},
		"named":              {reflect.TypeFor[named](), `{"type":"object","properties":{"Inner":{"type":"object","properties":{"A":{"type":"integer"}},"required":["A"],"additionalProperties":false}},"required":["Inner"],"additionalProperties":false}`},
		"string":             {reflect.TypeFor[string](), `{"type":"string"}`},
		"map":                {reflect.TypeFor[map[string]bool](), `{"type":"object","additionalProperties":{"type":"boolean"}}`},
		"slice":              {reflect.TypeFor[[]uint](), `{"type":["null","array"],"items":{"type":"integer","minimum":0}}`},
		"array":              {reflect.TypeFor[[2]float64](), `{"type":"array","items":{"type":"number"},"minItems":2,"maxItems":2}`},
		"any":                {reflect.TypeFor[any2](), `true`},
		"dash":               {reflect.TypeFor[dash](), `{"type":"object","properties":{"-":{"type":"integer"}},"required":["-"],"additionalProperties":false}`},
		"common types": {reflect.TypeFor[common](), `{"type":"object","additionalProperties":false,
			"required":["w","u","p","ip","i","f","n","r","rp","b","bb","l","e","o","x","d","s","m"],
			"properties":{"w":{"type":"string","format":"date-time"},"u":{"type":"string"},"p":{"type":["null","string"]},"ip":{"type":"string"},
			"i":{"type":"integer"},"f":{"type":"string"},"n":{"type":"number"},"r":` + anything + `,"rp":` + anything + `,
			"b":{"type":["null","string"],"contentEncoding":"base64"},"bb":{"type":["null","string"],"contentEncoding":"base64"},
			"l":{"type":"string"},"e":{"type":"string"},"o":` + anything + `,"x":true,
			"d":{"type":"object","properties":{"size":{"type":"integer"}},"required":["size"],"additionalProperties":false},
			"s":` + anything + `,"m":{"type":"object","additionalProperties":{"type":"integer"}}}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			raw, err := schema.For(tt.t)
			require.NoError(t, err)
			assert.JSONEq(t, tt.want, string(raw))
			_, err = schema.Compile(raw)
			require.NoError(t, err)
		})
	}
}

type any2 = any

func TestForKeepsFieldOrder(t *testing.T) {
	raw, err := schema.For(reflect.TypeFor[struct{ Z, M, A int }]())
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"properties":{"Z":{"type":"integer"},"M":{"type":"integer"},"A":{"type":"integer"}}`)
}

func TestForRefuses(t *testing.T) {
	tests := map[string]struct {
		t    reflect.Type
		says []string
	}{
		"nil":             {nil, []string{"no type"}},
		"chan":            {reflect.TypeFor[chan int](), []string{"chan int"}},
		"func":            {reflect.TypeFor[struct{ F func() }](), []string{"func()"}},
		"complex":         {reflect.TypeFor[complex128](), []string{"complex128"}},
		"deep":            {reflect.TypeFor[deep](), []string{"schema_test.deep", "chan int"}},
		"cycle":           {reflect.TypeFor[list](), []string{"schema_test.list", "cycle"}},
		"pointer cycle":   {reflect.TypeFor[loop](), []string{"pointer to itself"}},
		"cycle in field":  {reflect.TypeFor[struct{ L loop }](), []string{"field", "pointer to itself"}},
		"interface":       {reflect.TypeFor[reader](), []string{"schema_test.reader.R", "io.Reader"}},
		"int keys":        {reflect.TypeFor[intKeys](), []string{"schema_test.intKeys.M", "map key int"}},
		"tagged embedded": {reflect.TypeFor[tagged](), []string{"schema_test.tagged.Base", "name the field"}},
		"dash embedded":   {reflect.TypeFor[omitted](), []string{"schema_test.omitted.Base", "name the field"}},
		"embedded text":   {reflect.TypeFor[embedText](), []string{"schema_test.embedText.Text", "must be a struct"}},
		"embedded ptr":    {reflect.TypeFor[embedPtr](), []string{"schema_test.embedPtr.base", "unexported"}},
		"quoted":          {reflect.TypeFor[quoted](), []string{"schema_test.quoted.N", ",string"}},
		"twice": {reflect.StructOf([]reflect.StructField{
			{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
			{Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
		}), []string{"two fields", `"x"`}},
		"tag": {reflect.TypeFor[badTag](), []string{"schema_test.badTag", "WORD="}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			raw, err := schema.For(tt.t)
			require.Error(t, err)
			assert.Nil(t, raw)
			for _, s := range tt.says {
				assert.ErrorContains(t, err, s)
			}
			if tt.t != nil {
				assert.ErrorContains(t, err, "change the type or write the schema by hand")
			}
		})
	}
}

// What encoding/json writes for a type must pass the schema of that type and be read back.
func TestForAgreesWithEncodingJSON(t *testing.T) {
	u := uuid.MustParse("0195d3a0-0000-7000-8000-000000000000")
	rm := json.RawMessage(`[1]`)
	var e level
	require.NoError(t, e.UnmarshalText([]byte("high")))
	in := struct {
		W  time.Time
		U  uuid.UUID
		P  *uuid.UUID
		IP netip.Addr
		I  big.Int
		F  big.Float
		R  big.Rat
		RP *json.RawMessage
		N  json.Number
		B  []byte
		L  slog.Level
		D  time.Duration
		M  map[uuid.UUID]int
		T  promoted
	}{W: time.Unix(0, 0).UTC(), U: u, IP: netip.MustParseAddr("10.0.0.1"), I: *big.NewInt(12), R: *big.NewRat(1, 3), RP: &rm, N: "12", B: []byte("hi"), M: map[uuid.UUID]int{u: 1}}
	text, err := json.Marshal(&in)
	require.NoError(t, err)
	raw, err := schema.For(reflect.TypeOf(in))
	require.NoError(t, err)
	s, err := schema.Compile(raw)
	require.NoError(t, err)
	assert.Empty(t, s.Validate(text), "%s against %s", text, raw)
	v, err := schema.Decode(text, &in)
	require.NoError(t, err)
	assert.Nil(t, v)
	_ = refund{secret: 1}
}
