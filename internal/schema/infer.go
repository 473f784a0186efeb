package schema

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// anyType spells "unrestricted". An empty schema would do, but jsonschema-go turns an empty override behind a pointer into
// {"type":["null"]}, which refuses everything else.
var anyType = &jsonschema.Schema{Types: []string{"null", "boolean", "object", "array", "number", "string"}}

var (
	textType  = &jsonschema.Schema{Type: "string"}
	bytesType = &jsonschema.Schema{Types: []string{"null", "string"}, ContentEncoding: "base64"}
)

// known corrects jsonschema-go where encoding/json reads another JSON type than it infers (big.Int: a string), or says more.
var known = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
	reflect.TypeFor[slog.Level]():      textType,
	reflect.TypeFor[big.Int]():         {Type: "integer"},
	reflect.TypeFor[json.Number]():     {Type: "number"},
	reflect.TypeFor[json.RawMessage](): anyType,
}

// For infers the JSON Schema (draft 2020-12) of t as encoding/json reads it, compact, members in field order.
//
// Structs refuse unknown members; a field is required unless its tag says omitempty or omitzero; a jsonschema tag is its
// description. Pointers and slices may be null, except that a pointer at the top is followed: the arguments as a whole are
// never null. A type that implements encoding.TextUnmarshaler is a string, []byte is a base64 string, time.Time a date-time,
// and a type with its own UnmarshalJSON is unrestricted, unless it is a struct with JSON members of its own.
//
// The error names the type and the mend: chan, func, complex, an interface with methods, map keys that are not text, cycles,
// and the struct tags for which inferred and read JSON would differ (named embedded fields, ",string", one name twice).
func For(t reflect.Type) (json.RawMessage, error) {
	if t == nil {
		return nil, errors.New("schema: no type given (nil interface?)")
	}
	t, err := follow(t)
	if err != nil {
		return nil, refusal(t, err)
	}
	w := walker{overrides: map[reflect.Type]*jsonschema.Schema{}, seen: map[reflect.Type]bool{}}
	if err := w.visit(t); err != nil {
		return nil, refusal(t, err)
	}
	inferred, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: w.overrides})
	if err != nil {
		return nil, refusal(t, err)
	}
	if inferred.Type == "object" && len(inferred.Properties) == 0 && inferred.AdditionalProperties != nil && t.Kind() == reflect.Struct {
		inferred.Properties = map[string]*jsonschema.Schema{} // OpenAI refuses an object that lists none
	}
	raw, err := json.Marshal(inferred)
	if err != nil {
		return nil, refusal(t, err)
	}
	return raw, nil
}

func refusal(t reflect.Type, err error) error {
	return fmt.Errorf("schema: none can be inferred for %s: %w; change the type or write the schema by hand", t, err)
}

// follow removes pointers. The bound is for `type P *P`, on which jsonschema-go never returns.
func follow(t reflect.Type) (reflect.Type, error) {
	for range 8 {
		if t.Kind() != reflect.Pointer {
			return t, nil
		}
		t = t.Elem()
	}
	return t, errors.New("too many pointers, or a pointer to itself")
}

// walker visits a type graph before jsonschema-go does, collecting overrides and refusing what would be inferred wrongly.
type walker struct {
	overrides map[reflect.Type]*jsonschema.Schema
	seen      map[reflect.Type]bool
}

func (w walker) visit(t reflect.Type) error {
	t, err := follow(t)
	if err != nil || w.seen[t] {
		return err
	}
	w.seen[t] = true
	if s := override(t); s != nil {
		w.overrides[t] = s
		return nil
	}
	switch t.Kind() {
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("encoding/json cannot fill the interface %s", t)
		}
	case reflect.Slice, reflect.Array:
		return w.visit(t.Elem())
	case reflect.Map:
		if t.Key().Kind() != reflect.String && !readsText(t.Key()) {
			return fmt.Errorf("map key %s is not text", t.Key())
		}
		return w.visit(t.Elem())
	case reflect.Struct:
		return w.visitStruct(t)
	}
	return nil
}

// override returns what to use for t instead of inference, or nil.
func override(t reflect.Type) *jsonschema.Schema {
	if s := known[t]; s != nil {
		return s
	}
	switch {
	case readsJSON(t):
		if !hasMembers(t) {
			return anyType
		}
	case readsText(t):
		return textType
	case isBytes(t):
		return bytesType
	}
	return nil
}

func (w walker) visitStruct(t reflect.Type) error {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			if err := checkEmbedded(f); err != nil {
				return fmt.Errorf("field %s.%s: %w", t, f.Name, err)
			}
			continue
		}
		name, options, ok := member(f)
		if !ok {
			continue
		}
		if names[name] {
			return fmt.Errorf("two fields of %s are called %q in JSON", t, name)
		}
		names[name] = true
		if strings.Contains(options, ",string") {
			return fmt.Errorf("field %s.%s: the option \",string\" is not supported", t, f.Name)
		}
		if err := w.visit(f.Type); err != nil {
			return fmt.Errorf("field %s.%s: %w", t, f.Name, err)
		}
	}
	return nil
}

// checkEmbedded refuses embedded fields that encoding/json treats as a member of their own, or cannot set: jsonschema-go
// ignores their tags and always promotes.
func checkEmbedded(f reflect.StructField) error {
	t := f.Type
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case tag != "":
		return errors.New("an embedded field cannot carry a JSON name; name the field")
	case t.Kind() != reflect.Struct && f.IsExported():
		return errors.New("an embedded field must be a struct; name the field")
	case pointer && !f.IsExported():
		return errors.New("encoding/json cannot set an embedded pointer to an unexported struct")
	}
	return nil
}

// member returns the JSON name of f and its tag options (",omitempty,…"); ok is false when encoding/json ignores it.
func member(f reflect.StructField) (name, options string, ok bool) {
	tag := f.Tag.Get("json")
	if !f.IsExported() || tag == "-" {
		return "", "", false
	}
	name, rest, found := strings.Cut(tag, ",")
	if found {
		options = "," + rest
	}
	if name == "" {
		name = f.Name
	}
	return name, options, true
}

// hasMembers tells the struct that wraps its own decoding (defaults, checks) from the one whose JSON is something else. A
// struct that got UnmarshalJSON from an embedded field is the latter.
func hasMembers(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	found := false
	for f := range t.Fields() {
		if f.Anonymous && readsJSON(strip(f.Type)) {
			return false
		}
		_, _, ok := member(f)
		found = found || ok
	}
	return found
}

func readsJSON(t reflect.Type) bool {
	return t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

func readsText(t reflect.Type) bool {
	return t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}
