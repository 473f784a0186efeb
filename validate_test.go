package toolexec_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// compiledEnvelopeSchema is compiled once: every test of the package asks it. Formats are asserted, so
// that an instant has to be RFC 3339.
var compiledEnvelopeSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(toolexec.EnvelopeSchema()))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("envelope.schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("envelope.schema.json")
})

// validateEnvelope validates one encoded envelope.
func validateEnvelope(t testing.TB, raw []byte) error {
	t.Helper()
	s, err := compiledEnvelopeSchema()
	require.NoError(t, err, "the schema does not compile")
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err, "%s", raw)
	return s.Validate(doc)
}

// checkEnvelope asserts what holds for every envelope that the library returns, whatever it says: it is
// valid by the published schema, and JSON carries it without loss. e is an Envelope of any result type.
func checkEnvelope(t testing.TB, e any) {
	t.Helper()
	raw, err := json.Marshal(e)
	require.NoError(t, err)
	assert.NoError(t, validateEnvelope(t, raw), "%s", raw)

	back := reflect.New(reflect.TypeOf(e))
	require.NoError(t, json.Unmarshal(raw, back.Interface()), "%s", raw)
	again, err := json.Marshal(back.Elem().Interface())
	require.NoError(t, err)
	assert.JSONEq(t, string(raw), string(again), "a second trip differs from the first")
	equalEnvelopes(t, reflect.ValueOf(e), back.Elem(), string(raw))
}

// equalEnvelopes compares all exported fields. A result is compared as JSON, because that is what
// travelled; one that cannot be encoded has to be gone.
func equalEnvelopes(t testing.TB, want, got reflect.Value, raw string) {
	t.Helper()
	require.Contains(t, want.Type().Name(), "Envelope[")
	encodable := true
	for i := range want.NumField() {
		f := want.Type().Field(i)
		a, b := want.Field(i), got.Field(i)
		switch {
		case !f.IsExported():
			continue
		case f.Name == "Result":
			x, err := json.Marshal(a.Interface())
			encodable = err == nil
			if y, err := json.Marshal(b.Interface()); encodable && assert.NoError(t, err) && want.FieldByName("HasResult").Bool() {
				assert.JSONEq(t, string(x), string(y), "%s: %s", f.Name, raw)
			}
		case f.Name == "HasResult":
			assert.Equal(t, a.Bool() && encodable, b.Bool(), "%s: %s", f.Name, raw)
		case f.Name == "SafeDetails" && !encodable:
			assert.Contains(t, b.Interface(), toolexec.DetailNote, raw)
		default:
			assert.Equal(t, comparableField(a), comparableField(b), "%s: %s", f.Name, raw)
		}
	}
}

// comparableField makes of a field what is equal exactly when the field is: instants in UTC and without
// their monotonic part, numbers as JSON writes them, an empty list like none.
func comparableField(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case toolexec.Retry:
		x.NotBefore = x.NotBefore.Round(0).UTC()
		return x
	case *toolexec.Verification:
		if x == nil {
			return nil
		}
		y := *x
		y.CheckedAt = y.CheckedAt.Round(0).UTC()
		return y
	case toolexec.Details:
		out := map[string]string{}
		for k, d := range x {
			raw, _ := json.Marshal(d)
			out[k] = string(raw)
		}
		return out
	case time.Time:
		return x.Round(0).UTC()
	case []toolexec.FieldError:
		raw, _ := json.Marshal(x)
		if len(x) == 0 {
			return "[]"
		}
		return string(raw)
	}
	return v.Interface()
}
