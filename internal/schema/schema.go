// Package schema infers, compiles and enforces the JSON Schema (draft 2020-12) of tool arguments.
//
// One text serves both sides: the bytes of [Schema.JSON] are what a model is shown and what [Schema.Validate] enforces.
// Nothing this package returns holds a received value. What it reports comes from the schema, from Go types, or is the name of
// a JSON type; the one exception is the name of a member the schema does not know, which is bounded (see [Violation]).
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolexec/toolexec/internal/canonical"
)

// location is where the compiler keeps the schema. It has a scheme of its own, so a relative $ref can never become a file name.
const location = "toolexec:///schema"

// errOutside answers every attempt to load a document.
var errOutside = errors.New("references outside the schema are not followed; copy the definition into $defs")

// Schema is a compiled schema. It never changes and is safe for concurrent use.
type Schema struct {
	raw      json.RawMessage
	compiled *jsonschema.Schema
	acceptor *acceptor
	names    map[string]struct{} // member names the schema itself spells; all others are model text
}

// Compile prepares raw for [Schema.Validate].
//
// Nothing is loaded from the network or from files: a $ref or $schema that leaves the document is an error, except to the
// meta-schemas that are built in. Formats are asserted: a rule shown to the model and not enforced would let the two texts
// differ. Formats the validator does not know and content keywords (contentEncoding, …) are annotations. Patterns are Go
// regular expressions, which take linear time; ECMA look-around is an error. Numbers wider than 400 digits and members that
// occur twice are errors.
func Compile(raw json.RawMessage) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("schema: not JSON: %w", err)
	}
	if err := canonical.Check(raw, canonical.Limits{MaxBytes: -1}); err != nil { // a member twice: one is shown, the other enforced
		return nil, fmt.Errorf("schema: %w", err)
	}
	if len(wideNumbers(doc, nil)) > 0 {
		return nil, fmt.Errorf("schema: holds a number wider than %d digits", maxDigits)
	}
	compiled, err := compile(doc)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	var text bytes.Buffer
	_ = json.Compact(&text, raw) // parsed above
	names := map[string]struct{}{}
	collectNames(doc, names)
	return &Schema{raw: text.Bytes(), compiled: compiled, acceptor: newAcceptor(compiled), names: names}, nil
}

func compile(doc any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.RegisterVocabulary(namesVocabulary)
	c.AssertVocabs()
	// Without a loader of ours the compiler reads file:// URLs.
	c.UseLoader(refusingLoader{})
	if err := c.AddResource(location, doc); err != nil {
		return nil, err
	}
	return c.Compile(location)
}

type refusingLoader struct{}

func (refusingLoader) Load(string) (any, error) { return nil, errOutside }

// JSON returns a copy of the compact text of the schema, members in the order they were written.
func (s *Schema) JSON() json.RawMessage { return bytes.Clone(s.raw) }

// collectNames gathers the member names v spells in properties, required and dependentRequired, at any depth. Being
// generous is harmless: every string of the schema is the author's.
func collectNames(v any, names map[string]struct{}) {
	switch v := v.(type) {
	case map[string]any:
		for key, val := range v {
			switch key {
			case "properties", "dependentRequired":
				addKeys(val, names)
			case "required":
				addStrings(val, names)
			}
			collectNames(val, names)
		}
	case []any:
		for _, item := range v {
			collectNames(item, names)
		}
	}
}

func addKeys(v any, names map[string]struct{}) {
	obj, _ := v.(map[string]any)
	for key, val := range obj {
		names[key] = struct{}{}
		addStrings(val, names)
	}
}

func addStrings(v any, names map[string]struct{}) {
	list, _ := v.([]any)
	for _, item := range list {
		if s, ok := item.(string); ok {
			names[s] = struct{}{}
		}
	}
}
