// Package deepcopy copies plain data, so that two attempts of a tool share
// nothing they could write to.
package deepcopy

import "reflect"

// Shares reports whether values of t can share memory after an assignment, as
// far as Value would copy it.
func Shares(t reflect.Type) bool { return shares(t, map[reflect.Type]bool{}) }

func shares(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Interface:
		return true
	case reflect.Pointer:
		return !opaque(t.Elem())
	case reflect.Array:
		return shares(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if (f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct) && shares(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// Value returns a copy of v: maps, slices, pointers and what stands behind
// interfaces are copied, through exported fields, and pointers that meet again
// meet in the copy. Unexported fields are assigned, so what they point to is
// shared; so is what a pointer to a struct with unexported fields points to,
// since such a struct may not be copied (a lock), and channels and functions.
// It runs no code of v's types.
func Value[T any](v T) T {
	c := copier{done: map[visit]reflect.Value{}}
	out := reflect.New(reflect.TypeFor[T]()).Elem()
	out.Set(c.copy(reflect.ValueOf(&v).Elem()))
	return out.Interface().(T) //nolint:forcetypeassert // made of T
}

// visit names a pointer, map or slice that was copied already.
type visit struct {
	at  uintptr
	len int
	t   reflect.Type
}

type copier struct{ done map[visit]reflect.Value }

func (c *copier) copy(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		return c.pointer(v)
	case reflect.Map:
		return c.mapping(v)
	case reflect.Slice:
		return c.slice(v)
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		out := reflect.New(v.Type()).Elem()
		out.Set(c.copy(v.Elem()))
		return out
	case reflect.Array:
		out := reflect.New(v.Type()).Elem()
		for i := range v.Len() {
			out.Index(i).Set(c.copy(v.Index(i)))
		}
		return out
	case reflect.Struct:
		return c.structure(v)
	}
	return v
}

func (c *copier) structure(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	c.fields(out, v)
	return out
}

// fields copies exported fields, those that an embedded struct promotes included.
func (c *copier) fields(out, v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Type().Field(i); {
		case f.IsExported():
			out.Field(i).Set(c.copy(v.Field(i)))
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			c.fields(out.Field(i), v.Field(i))
		}
	}
}

func (c *copier) pointer(v reflect.Value) reflect.Value {
	if v.IsNil() || opaque(v.Type().Elem()) {
		return v
	}
	at := visit{v.Pointer(), 0, v.Type()}
	if out, ok := c.done[at]; ok {
		return out
	}
	out := reflect.New(v.Type().Elem()).Convert(v.Type())
	c.done[at] = out
	out.Elem().Set(c.copy(v.Elem()))
	return out
}

func (c *copier) mapping(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return v
	}
	at := visit{v.Pointer(), 0, v.Type()}
	if out, ok := c.done[at]; ok {
		return out
	}
	out := reflect.MakeMapWithSize(v.Type(), v.Len())
	c.done[at] = out
	for it := v.MapRange(); it.Next(); {
		out.SetMapIndex(it.Key(), c.copy(it.Value()))
	}
	return out
}

func (c *copier) slice(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return v
	}
	at := visit{v.Pointer(), v.Len(), v.Type()}
	if out, ok := c.done[at]; ok && v.Len() > 0 {
		return out
	}
	out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
	c.done[at] = out
	if flat(v.Type().Elem()) {
		reflect.Copy(out, v)
		return out
	}
	for i := range v.Len() {
		out.Index(i).Set(c.copy(v.Index(i)))
	}
	return out
}

// flat reports whether an assignment copies all there is.
func flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface, reflect.Array, reflect.Struct:
		return false
	}
	return true
}

// opaque reports whether t is a struct with unexported fields.
func opaque(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for f := range t.Fields() {
		if !f.IsExported() {
			return true
		}
	}
	return false
}
