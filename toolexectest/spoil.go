package toolexectest

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Results that are spoiled: of the wrong shape, or too large.

// maxDepth bounds the walk through a type that holds itself.
const maxDepth = 8

// garble makes the zero v a value of the wrong shape, where its type can hold
// one.
func garble(v reflect.Value) {
	unknown := map[string]any{"unexpected": true}
	switch {
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"unexpected":tr`))
	case v.Kind() == reflect.String:
		v.SetString("\xff\xfe unexpected")
	case v.Kind() == reflect.Interface && v.NumMethod() == 0:
		v.Set(reflect.ValueOf(unknown))
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("unexpected").Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	}
}

// grow makes v at least n bytes long as JSON, in the first place of it that can
// be longer; false when there is none. What v points to is not written.
func grow(v reflect.Value, n, depth int) bool {
	if depth == 0 || !v.CanSet() {
		return false
	}
	switch t := v.Type(); t.Kind() { //nolint:exhaustive // the others have no place
	case reflect.String:
		v.SetString(v.String() + strings.Repeat("x", n))
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return false
		}
		v.Set(reflect.ValueOf(strings.Repeat("x", n)))
	case reflect.Slice:
		return growSlice(v, n)
	case reflect.Map:
		return growMap(v, n, depth)
	case reflect.Pointer:
		own := reflect.New(t.Elem())
		if !v.IsNil() {
			own.Elem().Set(v.Elem())
		}
		if !grow(own.Elem(), n, depth-1) {
			return false
		}
		v.Set(own)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Tag.Get("json") != "-" && grow(v.Field(i), n, depth-1) {
				return true
			}
		}
		return false
	default:
		return false
	}
	return true
}

// growSlice adds elements, each of which is a byte at least. Raw JSON becomes one
// long text.
func growSlice(v reflect.Value, n int) bool {
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`"` + strings.Repeat("x", n) + `"`))
		return true
	}
	v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()+n), v).Slice(0, v.Len()))
	v.Set(reflect.AppendSlice(v, reflect.MakeSlice(v.Type(), n, n)))
	return true
}

// growMap adds one long entry: its value, or else its key.
func growMap(v reflect.Value, n, depth int) bool {
	t := v.Type()
	if t.Key().Kind() != reflect.String {
		return false
	}
	own := reflect.MakeMap(t)
	for _, k := range v.MapKeys() {
		own.SetMapIndex(k, v.MapIndex(k))
	}
	key, value := "grown", reflect.New(t.Elem()).Elem()
	if !grow(value, n, depth-1) {
		key += strings.Repeat("x", n)
	}
	own.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), value)
	v.Set(own)
	return true
}
