package schema

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// RuleCase marks a member whose name differs from a field's only in case.
const RuleCase = "case"

// CaseVariants returns a violation for each member of raw that encoding/json
// would decode into a field of t although its name differs from the field's in
// case. A validator takes such a member for an unknown one, so a schema that
// allows those would check one value and the tool would get another. raw must
// be valid JSON.
func CaseVariants(raw []byte, t reflect.Type) []Violation {
	v, ok := parse(raw)
	if !ok {
		return nil
	}
	var w caseWalk
	w.value("", v, t)
	slices.SortFunc(w.found, func(a, b Violation) int { return strings.Compare(a.Pointer, b.Pointer) })
	return w.found
}

type caseWalk struct{ found []Violation }

func (w *caseWalk) value(at string, v any, t reflect.Type) {
	t = strip(t)
	if ownDecoding(t) {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		w.object(at, v, t)
	case []any:
		if k := t.Kind(); k == reflect.Slice || k == reflect.Array {
			for i, e := range v {
				w.value(at+"/"+strconv.Itoa(i), e, t.Elem())
			}
		}
	}
}

func (w *caseWalk) object(at string, v map[string]any, t reflect.Type) {
	switch t.Kind() {
	case reflect.Map:
		for name, e := range v {
			w.value(at+"/"+escape(name), e, t.Elem())
		}
	case reflect.Struct:
		fields := jsonFields(t)
		for name, e := range v {
			if ft, exact := fields[name]; exact {
				w.value(at+"/"+escape(name), e, ft)
			} else if want, variant := foldedMatch(fields, name); variant {
				w.found = append(w.found, Violation{Pointer: at + "/" + escape(want), Rule: RuleCase, Expected: "the name in this very case"})
			}
		}
	}
}

// Exact reports that [CaseVariants] finds nothing in what s accepts for t: where t has fields, s names all members there may be,
// and those that are fields as they are spelt. False means that it is not known.
func (s *Schema) Exact(t reflect.Type) bool { return s.acceptor.exact(t) }

func (a *acceptor) exact(t reflect.Type) bool {
	t = strip(t)
	if a == nil || ownDecoding(t) {
		return true
	}
	switch k := t.Kind(); {
	case k == reflect.Struct && a.kinds&object != 0:
		return a.additional == nil && a.exactFields(jsonFields(t))
	case k == reflect.Map && a.kinds&object != 0:
		inexact := func(m namedMember) bool { return !m.value.exact(t.Elem()) }
		return a != anything && a.additional.exact(t.Elem()) && !slices.ContainsFunc(a.members, inexact)
	case (k == reflect.Slice || k == reflect.Array) && a.kinds&array != 0:
		return a != anything && a.items.exact(t.Elem()) // anything has no end, and a type may have none
	}
	return true
}

func (a *acceptor) exactFields(fields map[string]reflect.Type) bool {
	for _, m := range a.members {
		t, spelt := fields[m.name]
		if _, variant := foldedMatch(fields, m.name); !spelt && variant || spelt && !m.value.exact(t) {
			return false
		}
	}
	return true
}

func foldedMatch(fields map[string]reflect.Type, name string) (string, bool) {
	for f := range fields {
		if strings.EqualFold(f, name) {
			return f, true
		}
	}
	return "", false
}

// fieldsOf keeps what jsonFields found, which is most of the work of CaseVariants.
var fieldsOf sync.Map

// jsonFields are the members that encoding/json knows of a struct. The map is shared.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	if known, ok := fieldsOf.Load(t); ok {
		return known.(map[string]reflect.Type) //nolint:forcetypeassert // only findFields' are in it
	}
	found := findFields(t)
	fieldsOf.Store(t, found)
	return found
}

func findFields(t reflect.Type) map[string]reflect.Type {
	out := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("json") == "-" || !f.IsExported() || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		out[name] = f.Type
	}
	return out
}

var unmarshalerType = reflect.TypeFor[json.Unmarshaler]()

// ownDecoding: the type reads its JSON itself.
func ownDecoding(t reflect.Type) bool {
	return t.Implements(unmarshalerType) || reflect.PointerTo(t).Implements(unmarshalerType)
}

// Declared reports whether a JSON Pointer leads to a field that t declares, by
// way of fields and elements only: such a pointer holds no text of a caller's.
func Declared(pointer string, t reflect.Type) bool {
	if pointer == "" {
		return false
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch t.Kind() {
		case reflect.Struct:
			field, ok := jsonFields(t)[token]
			if !ok {
				return false
			}
			t = field
		case reflect.Slice, reflect.Array:
			if _, err := strconv.Atoi(token); err != nil {
				return false
			}
			t = t.Elem()
		default:
			return false
		}
	}
	return true
}
