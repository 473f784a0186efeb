package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Decode reads raw into the value into points to, with encoding/json, after [Normalize].
//
// What a schema cannot say comes back as a Violation, without the value: Rule "range" (300 for an int8, 1e400 for a
// float64), "type" (1.5 for an int), "precision" (a plain integer that the float or the any it goes to cannot hold exactly;
// fractions and exponents are rounded as usual), and "decode" (an UnmarshalJSON or UnmarshalText refused; its error is
// dropped because it may quote the value). Only the first is reported. into may then be partly filled.
//
// The Pointer is found by decoding parts of raw again, so a refusing UnmarshalJSON runs more than once; its panics are not
// recovered. The error is for callers: into is not a non-nil pointer, or raw is not JSON.
func Decode(raw []byte, into any) (*Violation, error) {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return nil, fmt.Errorf("schema: Decode needs a non-nil pointer, not %T", into)
	}
	plain, long := normalize(raw)
	err := json.Unmarshal(plain, into)
	if err != nil && !json.Valid(plain) {
		return nil, errors.New("schema: not JSON")
	}
	t := target.Type().Elem()
	if err != nil {
		v := locate(part{raw: plain, t: t})
		return &v, nil //nolint:nilerr // the Violation says it without the value
	}
	if long {
		// From raw, not from plain: there 1e23 would look like an exact number.
		return imprecise(part{raw: raw, t: t}), nil
	}
	return nil, nil
}

// part is a piece of the input with the type it is read into.
type part struct {
	raw json.RawMessage
	t   reflect.Type
	ptr string
}

// locate finds the first, deepest part that cannot be read by itself.
func locate(p part) Violation {
	for _, c := range children(p) {
		if json.Unmarshal(c.raw, reflect.New(c.t).Interface()) != nil {
			return locate(c)
		}
	}
	return misfit(p)
}

// imprecise finds the first integer whose digits would be lost.
func imprecise(p part) *Violation {
	t := strip(p.t)
	bits := 0
	switch {
	case readsJSON(t) || readsText(t):
		return nil
	case t.Kind() == reflect.Float32:
		bits = 32
	case t.Kind() == reflect.Float64 || t.Kind() == reflect.Interface:
		bits = 64
	}
	if bits > 0 && losesDigits(string(p.raw), bits) {
		return &Violation{Pointer: p.ptr, Rule: "precision", Expected: fmt.Sprintf("digits a %d-bit float holds exactly", bits), Received: "integer"}
	}
	for _, c := range children(p) {
		if v := imprecise(c); v != nil {
			return v
		}
	}
	return nil
}

// children returns the parts of p, members sorted by name. A type that reads itself has none.
func children(p part) []part {
	t := strip(p.t)
	if readsJSON(t) || readsText(t) {
		return nil
	}
	switch rawType(p.raw) {
	case "object":
		return members(p, t)
	case "array":
		return items(p, t)
	}
	return nil
}

func members(p part, t reflect.Type) (all []part) {
	var obj map[string]json.RawMessage
	_ = json.Unmarshal(p.raw, &obj) // valid, and an object
	for _, key := range slices.Sorted(maps.Keys(obj)) {
		name, elem := safeName(key), element(t)
		if t.Kind() == reflect.Struct {
			name, elem = field(t, key)
		}
		if elem != nil {
			all = append(all, part{raw: obj[key], t: elem, ptr: p.ptr + "/" + escape(name)})
		}
	}
	return all
}

func items(p part, t reflect.Type) (all []part) {
	var list []json.RawMessage
	_ = json.Unmarshal(p.raw, &list) // valid, and an array
	elem := element(t)
	if elem == nil {
		return nil
	}
	for i, raw := range list {
		all = append(all, part{raw: raw, t: elem, ptr: p.ptr + "/" + strconv.Itoa(i)})
	}
	return all
}

// element is the type of the items or values of t, nil when it has none. In an any everything is an any.
func element(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array:
		return t.Elem()
	case reflect.Interface:
		return t
	}
	return nil
}

// field returns the JSON name and type of the field key goes to; encoding/json ignores case. The type is nil when there is
// none, or when ",string" makes its JSON another than its type's.
func field(t reflect.Type, key string) (string, reflect.Type) {
	var folded reflect.Type
	var name string
	for _, f := range reflect.VisibleFields(t) {
		n, options, ok := member(f)
		switch {
		case !ok || strings.Contains(options, ",string"):
		case n == key:
			return n, f.Type
		case folded == nil && strings.EqualFold(n, key):
			name, folded = n, f.Type
		}
	}
	return name, folded
}

// strip removes pointers, a bounded number of them.
func strip(t reflect.Type) reflect.Type {
	t, _ = follow(t)
	return t
}

// misfit says why p cannot be read. It looks at types only; the decoder's error quotes values.
func misfit(p part) Violation {
	t := strip(p.t)
	v := Violation{Pointer: p.ptr, Rule: "type", Expected: wanted(t), Received: rawType(p.raw)}
	number := v.Received == "integer" || v.Received == "number"
	switch {
	case v.Expected == "number" && number:
		v.Rule, v.Expected = "range", fmt.Sprintf("a number within a %d-bit float", t.Bits())
	case v.Expected == "integer" && v.Received == "integer":
		v.Rule, v.Expected = "range", integerRange(t)
	case v.Expected == "" || v.Expected == v.Received || isBytes(t) && v.Received == "string":
		v.Rule, v.Expected = "decode", "a value the tool can read"
	}
	return v
}

// wanted is the JSON type t is read from, "" when only t knows.
func wanted(t reflect.Type) string {
	switch k := t.Kind(); {
	case readsJSON(t):
		return ""
	case t == reflect.TypeFor[json.Number]():
		return "number"
	case readsText(t), k == reflect.String:
		return "string"
	case k == reflect.Bool:
		return "boolean"
	case k >= reflect.Int && k <= reflect.Uintptr:
		return "integer"
	case k == reflect.Float32 || k == reflect.Float64:
		return "number"
	case k == reflect.Slice || k == reflect.Array:
		return "array"
	case k == reflect.Map || k == reflect.Struct:
		return "object"
	}
	return ""
}

func integerRange(t reflect.Type) string {
	bits := t.Bits()
	if t.Kind() >= reflect.Uint {
		return fmt.Sprintf("an integer from 0 to %d", uint64(math.MaxUint64)>>(64-bits))
	}
	return fmt.Sprintf("an integer from %d to %d", int64(math.MinInt64)>>(64-bits), int64(math.MaxInt64)>>(64-bits))
}

// rawType names the JSON type of one valid JSON value by its first byte.
func rawType(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	switch raw[0] {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	}
	return typeName(json.Number(raw))
}
