package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Limits of what is reported.
const (
	MaxViolations = 100 // entries of one report
	maxName       = 64  // bytes of a member name that is not in the schema
	maxExpected   = 200 // bytes of Expected
	maxAllowed    = 64  // entries of Allowed
)

// RuleMore is the rule of the last entry of a report that was cut.
const RuleMore = "more"

// Violation is one broken rule. It never holds the received value, only its JSON type.
type Violation struct {
	// Pointer is the place (RFC 6901), "" the whole, for a missing member the place where it should be. A member name the
	// schema does not spell is model text: it is cut to 64 bytes and is "?" unless it consists of [A-Za-z0-9_.-].
	Pointer string
	// Rule is the schema keyword: required, type, enum, minimum, additionalProperties, format, …; or "range", "precision"
	// and "decode" (see [Decode]), "false" for a place where nothing is allowed, "json" for input that is not JSON, [RuleMore].
	Rule string
	// Expected says in a few words of the schema what would pass ("string", "at least 1"); for required, the member's name.
	Expected string
	// Received is the JSON type found: null, boolean, object, array, number, integer, string, or absent.
	Received string
	// Allowed lists, JSON-encoded, the scalars an enum or const allows, 64 at most.
	Allowed []string
}

// Validate returns every violation of s in raw, nil when there is none: sorted by pointer, then rule, without duplicates,
// derived from typed errors and never from their text.
//
// At most [MaxViolations] entries are returned; when there were more, the last has Rule [RuleMore] and Expected says how many
// are not listed. Where anyOf or oneOf fails, the alternatives of the wrong type are left out, then those whose const or enum
// differs; what remains is reported, after an entry for the anyOf itself when more than one alternative remains. Numbers are
// compared exactly; one wider than 400 digits breaks "range", and then nothing else is reported.
//
// raw must be one JSON value (otherwise the only entry has Rule "json"). Of members that occur twice the last is seen, so the
// caller must refuse duplicates: encoding/json merges them.
func (s *Schema) Validate(raw []byte) []Violation {
	v, ok := parse(raw)
	if !ok {
		return []Violation{{Rule: "json", Expected: "one JSON value", Received: "absent"}}
	}
	r := report{schema: s, root: v}
	var path [8]string // on the stack
	if wide := wideNumbers(v, path[:0]); len(wide) > 0 {
		return finish(r.wide(wide))
	}
	failed, ok := errors.AsType[*jsonschema.ValidationError](s.compiled.Validate(v))
	if !ok {
		return nil
	}
	return finish(r.causes(failed))
}

// order sorts and removes duplicates.
func order(all []Violation) []Violation {
	slices.SortFunc(all, compare)
	return slices.CompactFunc(all, func(a, b Violation) bool { return compare(a, b) == 0 })
}

func finish(all []Violation) []Violation {
	all = order(all)
	if len(all) <= MaxViolations {
		return all
	}
	hidden := len(all) - MaxViolations + 1
	return append(all[:MaxViolations-1:MaxViolations-1], Violation{
		Rule: RuleMore, Expected: fmt.Sprintf("%d further violations not listed", hidden), Received: "absent",
	})
}

func compare(a, b Violation) int {
	return cmp.Or(
		strings.Compare(a.Pointer, b.Pointer),
		strings.Compare(a.Rule, b.Rule),
		strings.Compare(a.Expected, b.Expected),
		strings.Compare(a.Received, b.Received),
		slices.Compare(a.Allowed, b.Allowed),
	)
}

// report turns the validator's error tree into violations.
type report struct {
	schema *Schema
	root   any
}

func (r report) wide(paths [][]string) (all []Violation) {
	for _, at := range paths {
		all = append(all, r.violation(at, "range", fmt.Sprintf("a number of at most %d digits", maxDigits)))
	}
	return all
}

func (r report) causes(e *jsonschema.ValidationError) []Violation {
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		return r.all(e.Causes)
	case *kind.AnyOf:
		return r.alternatives(e, "anyOf")
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return r.alternatives(e, "oneOf")
		}
		return []Violation{r.violation(e.InstanceLocation, "oneOf", "exactly one alternative, several match")}
	case *kind.Required:
		return r.missing(e.InstanceLocation, "required", k.Missing)
	case *kind.DependentRequired:
		return r.missing(e.InstanceLocation, "dependentRequired", k.Missing)
	case *kind.Dependency:
		return r.missing(e.InstanceLocation, "dependencies", k.Missing)
	case *kind.AdditionalProperties:
		return r.unknown(e.InstanceLocation, k.Properties)
	case *kind.PropertyNames:
		return nil // see namesVocabulary
	case *nameError:
		return []Violation{r.badName(e, k.Property)}
	default:
		return []Violation{r.leaf(e)}
	}
}

func (r report) all(causes []*jsonschema.ValidationError) (all []Violation) {
	for _, c := range causes {
		all = append(all, r.causes(c)...)
	}
	return all
}

func (r report) missing(at []string, rule string, names []string) (all []Violation) {
	for _, name := range names {
		all = append(all, r.violation(child(at, name), rule, name))
	}
	return all
}

func (r report) unknown(at, names []string) (all []Violation) {
	for _, name := range names {
		all = append(all, r.violation(child(at, name), "additionalProperties", "no such member"))
	}
	return all
}

// badName reports a member name that breaks propertyNames. Its causes are located from the root of the name, not of the
// document, so only what they expected is of use.
func (r report) badName(e *jsonschema.ValidationError, name string) Violation {
	expected := "another member name"
	if inner := (report{schema: r.schema, root: name}).all(e.Causes); len(inner) > 0 {
		expected = "a member name: " + inner[0].Expected
	}
	return r.violation(child(e.InstanceLocation, name), "propertyNames", expected)
}

func (r report) leaf(e *jsonschema.ValidationError) Violation {
	v := r.violation(e.InstanceLocation, rule(e), "")
	switch k := e.ErrorKind.(type) {
	case *kind.Enum:
		v.Allowed = scalars(k.Want)
		v.Expected = oneOf(v.Allowed)
	case *kind.Const:
		v.Allowed = scalars([]any{k.Want})
		v.Expected = oneOf(v.Allowed)
	default:
		v.Expected = cut(expected(k), maxExpected)
	}
	return v
}

// rule is the keyword that failed. A false schema has none of its own; the keyword that holds it ends its location.
func rule(e *jsonschema.ValidationError) string {
	if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
		return path[0]
	}
	switch e.ErrorKind.(type) {
	case *kind.Not: // its KeywordPath is nil
		return "not"
	case *kind.RefCycle:
		return "$ref"
	}
	switch last := e.SchemaURL[strings.LastIndexByte(e.SchemaURL, '/')+1:]; last {
	case "unevaluatedProperties", "unevaluatedItems", "items", "additionalItems", "additionalProperties":
		return last
	}
	return "false"
}

// violation locates at in the document.
func (r report) violation(at []string, rule, expected string) Violation {
	var ptr strings.Builder
	v, here := r.root, true
	for _, token := range at {
		switch in := v.(type) {
		case []any:
			i, err := strconv.Atoi(token)
			if here = err == nil && i >= 0 && i < len(in); here {
				v = in[i]
			}
		case map[string]any:
			v, here = in[token]
			token = r.safe(token)
		default: // nothing to look into; without a place, the name may be anyone's
			v, here = nil, false
			token = r.safe(token)
		}
		ptr.WriteByte('/')
		ptr.WriteString(escape(token))
	}
	received := "absent"
	if here {
		received = typeName(v)
	}
	return Violation{Pointer: ptr.String(), Rule: rule, Expected: cut(expected, maxExpected), Received: received}
}

func (r report) safe(name string) string {
	if _, ours := r.schema.names[name]; ours {
		return name
	}
	return safeName(name)
}

// safeName bounds a name the model made up.
func safeName(name string) string {
	name = cut(name, maxName)
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_.-", c)
	}
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return !plain(c) }) {
		return "?"
	}
	return name
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func escape(token string) string { return pointerEscapes.Replace(token) }

func child(at []string, name string) []string { return append(slices.Clone(at), name) }

// cut shortens s to at most n bytes of whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if _, ok := integral(string(v)); ok {
			return "integer"
		}
	}
	return "number"
}

// scalars encodes the scalars among the values of the schema.
func scalars(values []any) (all []string) {
	for _, v := range values {
		switch v.(type) {
		case []any, map[string]any:
			continue
		}
		text, err := json.Marshal(v)
		if err == nil && len(all) < maxAllowed {
			all = append(all, string(text))
		}
	}
	return all
}

func oneOf(allowed []string) string {
	switch len(allowed) {
	case 0:
		return "a value the schema lists"
	case 1:
		return cut(allowed[0], maxExpected)
	}
	return cut("one of "+strings.Join(allowed, ", "), maxExpected)
}
