package schema

import (
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// acceptor is what a schema asks of a value, as far as [Schema.Accepts] can tell. A nil acceptor accepts nothing.
//
// It is made of the compiled schema, by which the validator itself goes, and it fails closed: a schema, at the top or below,
// that uses a keyword outside understood has none.
type acceptor struct {
	kinds kinds

	listed   bool // texts and integers are all there is: the schema has an enum or const
	texts    []string
	integers []int64

	bounded     bool // by least and most, with which only integers are compared
	least, most int64

	length limits // of a string, in characters
	format *jsonschema.Format

	memberCount limits
	members     []namedMember
	required    uint64    // bits: indexes of members
	additional  *acceptor // of members with other names

	itemCount limits
	items     *acceptor
}

// namedMember is a member that the schema names. A word has a bit for each, which bounds them.
type namedMember struct {
	name  string
	value *acceptor
}

const maxNamed = 64

// limits are inclusive.
type limits struct{ least, most int }

var noLimits = limits{0, math.MaxInt}

func (l limits) hold(n int) bool { return l.least <= n && n <= l.most }

// kinds is a set of JSON types, of which fraction is a number that is no integer.
type kinds uint8

const (
	null kinds = 1 << iota
	boolean
	integer
	fraction
	text
	array
	object
	everyKind = null | boolean | integer | fraction | text | array | object
)

var kindsOf = map[string]kinds{
	"null": null, "boolean": boolean, "integer": integer, "number": integer | fraction, "string": text, "array": array, "object": object,
}

// understood are the fields of a compiled schema that an acceptor goes by, and those that ask nothing of a value: annotations,
// what only references lead to, and what is worked out for unevaluatedProperties and unevaluatedItems. Every other field, and
// so all that a later version of the validator adds, must be zero.
var understood = fieldNames(
	"Types", "Enum", "Const", "Format", "MinLength", "MaxLength", "Minimum", "Maximum", "ExclusiveMinimum", "ExclusiveMaximum",
	"Properties", "AdditionalProperties", "Required", "MinProperties", "MaxProperties", "Items2020", "MinItems", "MaxItems",

	"DraftVersion", "Location", "ID", "Anchor", "up", "resource", "dynamicAnchors", "allPropsEvaluated", "allItemsEvaluated", "numItemsEvaluated",
	"Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated",
)

func fieldNames(names ...string) map[string]bool {
	set := make(map[string]bool)
	for _, name := range names {
		set[name] = true
	}
	return set
}

func understands(s *jsonschema.Schema) bool {
	for field, value := range reflect.ValueOf(s).Elem().Fields() {
		if !understood[field.Name] && !value.IsZero() {
			return false
		}
	}
	return s.DraftVersion == 2020 && (s.Enum == nil || s.Const == nil)
}

// anything accepts every value.
var anything = newAnything()

func newAnything() *acceptor {
	a := unlimited()
	a.additional, a.items = a, a
	return a
}

func unlimited() *acceptor {
	return &acceptor{
		kinds: everyKind, least: math.MinInt64, most: math.MaxInt64, length: noLimits, memberCount: noLimits, itemCount: noLimits,
	}
}

// newAcceptor makes the acceptor of s; nil asks nothing. A compiled schema contains itself only by way of references, which are
// not understood, so this ends.
func newAcceptor(s *jsonschema.Schema) *acceptor {
	switch {
	case s == nil || s.Bool != nil && *s.Bool:
		return anything
	case !understands(s):
		return nil
	}
	a := unlimited()
	a.setKinds(s.Types)
	a.setValues(s)
	a.format = s.Format
	a.length.set(s.MinLength, s.MaxLength)
	a.memberCount.set(s.MinProperties, s.MaxProperties)
	a.itemCount.set(s.MinItems, s.MaxItems)
	a.items = newAcceptor(s.Items2020)
	if !a.setBounds(s) || !a.setMembers(s) {
		return nil
	}
	return a
}

func (l *limits) set(least, most *int) {
	if least != nil {
		l.least = *least
	}
	if most != nil {
		l.most = *most
	}
}

func (a *acceptor) setKinds(types *jsonschema.Types) {
	if types == nil {
		return
	}
	a.kinds = 0
	for _, name := range types.ToStrings() {
		a.kinds |= kindsOf[name]
	}
}

// setValues keeps the texts and integers of an enum or const; other values that it lists are left to the validator.
func (a *acceptor) setValues(s *jsonschema.Schema) {
	var values []any
	switch {
	case s.Enum != nil:
		values = s.Enum.Values
	case s.Const != nil:
		values = []any{*s.Const}
	default:
		return
	}
	a.listed, a.kinds = true, a.kinds&(text|integer)
	for _, v := range values {
		switch v := v.(type) {
		case string:
			a.texts = append(a.texts, v)
		case json.Number:
			if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
				a.integers = append(a.integers, n)
			}
		}
	}
}

// setBounds fails for a bound that is no integer, and when no int64 is within.
func (a *acceptor) setBounds(s *jsonschema.Schema) bool {
	least, most := big.NewInt(math.MinInt64), big.NewInt(math.MaxInt64)
	for _, bound := range []struct {
		at     *big.Rat
		shift  int64
		end    *big.Int
		inward int
	}{
		{s.Minimum, 0, least, +1}, {s.ExclusiveMinimum, 1, least, +1},
		{s.Maximum, 0, most, -1}, {s.ExclusiveMaximum, -1, most, -1},
	} {
		switch {
		case bound.at == nil:
			continue
		case !bound.at.IsInt():
			return false
		}
		a.bounded = true
		n := new(big.Int).Add(bound.at.Num(), big.NewInt(bound.shift))
		if n.Cmp(bound.end) == bound.inward {
			bound.end.Set(n)
		}
	}
	a.least, a.most = least.Int64(), most.Int64()
	return least.IsInt64() && most.IsInt64()
}

// setMembers fails for more names than there is room for.
func (a *acceptor) setMembers(s *jsonschema.Schema) bool {
	switch rest := s.AdditionalProperties.(type) {
	case *jsonschema.Schema:
		a.additional = newAcceptor(rest)
	case bool:
		if rest {
			a.additional = anything
		}
	default:
		a.additional = anything
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		a.members = append(a.members, namedMember{name, newAcceptor(s.Properties[name])})
	}
	for _, name := range s.Required {
		i := a.member([]byte(name))
		if i < 0 {
			i = len(a.members)
			a.members = append(a.members, namedMember{name, a.additional})
		}
		a.required |= 1 << i
	}
	return len(a.members) <= maxNamed
}

// member returns the index of a named member, or -1.
func (a *acceptor) member(name []byte) int {
	return slices.IndexFunc(a.members, func(m namedMember) bool { return m.name == string(name) })
}
