package canonical

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// Faithful reports whether a value of t can be had back from its JSON: no part of it is left out by its type, as
// unexported fields are and those that JSON is told to ignore, and whatever writes itself reads itself as well. What a
// particular value may lose is not looked at: an empty slice that is omitted, the type of what an interface holds.
func Faithful(t reflect.Type) bool { return faithful(t, map[reflect.Type]bool{}) }

func faithful(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return true
	}
	seen[t] = true
	if writes, reads := marshalsItself(t); writes || reads {
		return writes && reads
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return faithful(t.Elem(), seen)
	case reflect.Map:
		return faithful(t.Key(), seen) && faithful(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() && !f.Anonymous || name == "-" || !faithful(f.Type, seen) {
				return false
			}
		}
	}
	return true
}

// marshalsItself reports whether values of t, or pointers to them, have methods that write and read them as JSON.
func marshalsItself(t reflect.Type) (writes, reads bool) {
	p := reflect.PointerTo(t)
	has := func(i reflect.Type) bool { return t.Implements(i) || p.Implements(i) }
	writes = has(reflect.TypeFor[json.Marshaler]()) || has(reflect.TypeFor[encoding.TextMarshaler]())
	reads = has(reflect.TypeFor[json.Unmarshaler]()) || has(reflect.TypeFor[encoding.TextUnmarshaler]())
	return writes, reads
}
