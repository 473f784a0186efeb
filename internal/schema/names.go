package schema

import (
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// namesVocabulary checks propertyNames a second time. The validator's own error shares the backing array of its location
// with the rest of the walk (v6.0.3, objValidate: `verr.InstanceLocation = vd.vloc`), so it ends up pointing to whatever was
// visited last; errors added by an extension are copied. The validator's own are dropped in [report.causes].
var namesVocabulary = &jsonschema.Vocabulary{
	URL:     "toolexec:///names",
	Schema:  &jsonschema.Schema{Bool: new(true)}, // the meta-schema asks nothing more
	Compile: compileNames,
}

func compileNames(ctx *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
	if _, ok := obj["propertyNames"]; !ok {
		return nil, nil
	}
	return &names{ctx.Enqueue([]string{"propertyNames"})}, nil
}

type names struct{ schema *jsonschema.Schema }

func (n *names) Validate(ctx *jsonschema.ValidatorContext, v any) {
	obj, _ := v.(map[string]any)
	for name := range obj {
		if err, bad := errors.AsType[*jsonschema.ValidationError](n.schema.Validate(name)); bad {
			ctx.AddErrors(err.Causes, &nameError{PropertyNames: &kind.PropertyNames{Property: name}})
		}
	}
}

// nameError is a kind.PropertyNames whose location can be trusted.
type nameError struct{ *kind.PropertyNames }
