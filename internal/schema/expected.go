package schema

import (
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// expected words what the schema asked for. Only the Want side of a kind is read: the Got side is the model's.
func expected(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return strings.Join(k.Want, " or ")
	case *kind.Format:
		return k.Want
	case *kind.Pattern:
		return "text matching " + k.Want
	case *kind.Minimum:
		return "at least " + showNumber(k.Want)
	case *kind.Maximum:
		return "at most " + showNumber(k.Want)
	case *kind.ExclusiveMinimum:
		return "more than " + showNumber(k.Want)
	case *kind.ExclusiveMaximum:
		return "less than " + showNumber(k.Want)
	case *kind.MultipleOf:
		return "a multiple of " + showNumber(k.Want)
	case *kind.FalseSchema:
		return "nothing"
	default:
		return expectedSize(k)
	}
}

func expectedSize(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinLength:
		return fmt.Sprintf("at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("at most %d items", k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("at least %d members", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("at most %d members", k.Want)
	case *kind.MinContains:
		return fmt.Sprintf("at least %d matching items", k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("at most %d matching items", k.Want)
	case *kind.Contains:
		return "at least 1 matching item"
	case *kind.UniqueItems:
		return "items that all differ"
	case *kind.AdditionalItems:
		return fmt.Sprintf("%d items fewer", k.Count)
	case *kind.Not:
		return "a value the schema does not exclude"
	default:
		// A kind of a later version, or a cycle of references in the schema itself.
		return "a value that passes"
	}
}
