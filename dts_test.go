package toolexec_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// envelope.d.ts says in TypeScript what envelope.schema.json says. These tests hold the two and the Go words equal
// without a compiler; internal/conformance/typescript has the compiler judge.

// dtsSchema is as much of a JSON Schema as the envelope's has.
type dtsSchema struct {
	Enum       []string             `json:"enum"`
	Const      any                  `json:"const"`
	Not        *dtsSchema           `json:"not"`
	Type       any                  `json:"type"`
	Required   []string             `json:"required"`
	Properties map[string]dtsSchema `json:"properties"`
	Items      *dtsSchema           `json:"items"`
	Then       *dtsSchema           `json:"then"`
	Else       *dtsSchema           `json:"else"`

	never, free bool // the schema false; the schema true
}

func (s *dtsSchema) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "true", "false":
		s.never, s.free = string(b) == "false", string(b) == "true"
		return nil
	}
	type plain dtsSchema
	return json.Unmarshal(b, (*plain)(s))
}

func readEnvelopeSchema(t *testing.T) (s dtsSchema) {
	t.Helper()
	require.NoError(t, json.Unmarshal(toolexec.EnvelopeSchema(), &s))
	require.NotEmpty(t, s.Properties)
	return s
}

// shape returns the members of a success or a failure: those of both, as one branch narrows them.
func (s dtsSchema) shape(branch *dtsSchema) dtsSchema {
	out := dtsSchema{Properties: maps.Clone(s.Properties), Required: slices.Concat(s.Required, branch.Required)}
	for name, narrowed := range branch.Properties {
		wide := out.Properties[name]
		switch {
		case narrowed.never:
			delete(out.Properties, name)
		case narrowed.Not != nil:
			wide.Not = narrowed.Not
			out.Properties[name] = wide
		default:
			out.Properties[name] = narrowed
		}
	}
	return out
}

// dtsUnions are the types that list words, and where the schema lists the same.
var dtsUnions = map[string][]string{
	"Class": {"class"}, "Category": {"category"}, "CommitState": {"commit_state"}, "NextAction": {"next_action"},
	"Directive": {"retry", "directive"}, "Source": {"verification", "source"},
}

func (s dtsSchema) at(path []string) dtsSchema {
	for _, name := range path {
		s = s.Properties[name]
	}
	return s
}

type dtsField struct {
	typ      string
	optional bool
}

// dts is a declaration: what each union lists, and the members of each interface.
type dts struct {
	unions     map[string][]string
	interfaces map[string]map[string]dtsField
}

var (
	dtsComment   = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	dtsUnion     = regexp.MustCompile(`export type (\w+) =([^;]*);`)
	dtsWord      = regexp.MustCompile(`"([a-z_]+)"`)
	dtsInterface = regexp.MustCompile(`export interface (\w+)[^{]*\{([^}]*)\}`)
	dtsMember    = regexp.MustCompile(`(?m)^ *readonly (\w+)(\??): ([^;]+);$`)
)

func readDTS(t *testing.T) dts {
	t.Helper()
	raw, err := os.ReadFile("envelope.d.ts")
	require.NoError(t, err)
	text := dtsComment.ReplaceAllString(string(raw), "")
	d := dts{map[string][]string{}, map[string]map[string]dtsField{}}
	for _, m := range dtsUnion.FindAllStringSubmatch(text, -1) {
		for _, w := range dtsWord.FindAllStringSubmatch(m[2], -1) {
			d.unions[m[1]] = append(d.unions[m[1]], w[1])
		}
	}
	for _, m := range dtsInterface.FindAllStringSubmatch(text, -1) {
		fields := map[string]dtsField{}
		for _, f := range dtsMember.FindAllStringSubmatch(m[2], -1) {
			fields[f[1]] = dtsField{f[3], f[2] == "?"}
		}
		d.interfaces[m[1]] = fields
		require.Len(t, fields, strings.Count(m[2], ";")-strings.Count(m[2], "[key: string]"), "a member of %s is not understood", m[1])
	}
	require.Contains(t, text, "export type Envelope<T = unknown> = Success<T> | Failure;")
	return d
}

// The same words in Go, in the schema and in the declaration.
func TestDeclaredWords(t *testing.T) {
	d, schema, source := readDTS(t), readEnvelopeSchema(t), wordsOfGo(t)
	assert.ElementsMatch(t, slices.Collect(maps.Keys(dtsUnions)), slices.Collect(maps.Keys(d.unions)))
	for name, path := range dtsUnions {
		require.NotEmpty(t, source[name], name)
		assert.ElementsMatch(t, source[name], schema.at(path).Enum, "%s: Go and the schema", name)
		assert.ElementsMatch(t, source[name], d.unions[name], "%s: Go and the declaration", name)
	}
}

// wordsOfGo reads the constants of each type of words from the source, so that a new one is not forgotten here.
func wordsOfGo(t *testing.T) map[string][]string {
	t.Helper()
	zero := map[string]string{
		"Class": toolexec.Class("").String(), "Category": toolexec.Category("").String(), "CommitState": toolexec.CommitState("").String(),
		"NextAction": toolexec.NextAction("").String(), "Directive": toolexec.Directive("").String(), "Source": toolexec.Source("").String(),
	}
	file, err := parser.ParseFile(token.NewFileSet(), "enums.go", nil, 0)
	require.NoError(t, err)
	words := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		name, value := fmt.Sprint(spec.Type), spec.Values[0].(*ast.BasicLit)
		word, err := strconv.Unquote(value.Value)
		require.NoError(t, err)
		if word == "" {
			word = zero[name]
		}
		words[name] = append(words[name], word)
		return true
	})
	return words
}

// The same members in the schema and in the declaration, with the same types, optional in both or in neither.
func TestDeclaredMembers(t *testing.T) {
	d, schema := readDTS(t), readEnvelopeSchema(t)
	for name, s := range map[string]dtsSchema{
		"Success":      schema.shape(schema.Then),
		"Failure":      schema.shape(schema.Else),
		"Retry":        schema.Properties["retry"],
		"Verification": schema.Properties["verification"],
		"FieldError":   *schema.Properties["field_errors"].Items,
	} {
		want := map[string]dtsField{}
		for member, m := range s.Properties {
			want[member] = dtsField{typeOf(schema, member, m), !slices.Contains(s.Required, member)}
		}
		if name != "Success" && name != "Failure" {
			assert.Equal(t, want, d.interfaces[name], name)
			continue
		}
		want["ok"] = dtsField{strconv.FormatBool(name == "Success"), false}
		assert.Equal(t, want, d.interfaces[name], name)
	}
	require.Len(t, d.interfaces, 6, "an interface without a test")

	var keys []string
	for key, f := range d.interfaces["SafeDetails"] {
		assert.Equal(t, dtsField{"Scalar", true}, f, key)
		keys = append(keys, key)
	}
	assert.ElementsMatch(t, []string{
		toolexec.DetailField, toolexec.DetailAllowedValues, toolexec.DetailRetryAfter, toolexec.DetailResourceVersion,
		toolexec.DetailVerificationTool, toolexec.DetailExistingCommitState, toolexec.DetailPartial, toolexec.DetailNote,
	}, keys)
}

// typeOf spells a member's schema in TypeScript.
func typeOf(root dtsSchema, member string, s dtsSchema) string {
	union := ""
	for name, path := range dtsUnions {
		if path[len(path)-1] == member && slices.Equal(root.at(path).Enum, s.Enum) {
			union = name
		}
	}
	named := map[string]string{"retry": "Retry", "verification": "Verification", "safe_details": "SafeDetails", "field_errors": "readonly FieldError[]"}
	switch {
	case named[member] != "":
		return named[member]
	case union != "" && s.Not != nil:
		return fmt.Sprintf("Exclude<%s, %q> | UnknownWord", union, s.Not.Const)
	case union != "":
		return union + " | UnknownWord"
	case s.Const != nil:
		raw, _ := json.Marshal(s.Const)
		return string(raw)
	case s.free:
		return "T"
	case s.Items != nil:
		return "readonly " + typeOf(root, "", *s.Items) + "[]"
	}
	return strings.NewReplacer("integer", "number").Replace(fmt.Sprint(s.Type))
}
