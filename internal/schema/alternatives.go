package schema

import (
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// alternatives reports a failed anyOf or oneOf by the alternatives the model probably meant.
func (r report) alternatives(e *jsonschema.ValidationError, rule string) []Violation {
	head := r.violation(e.InstanceLocation, rule, "one of the alternatives")
	var branches [][]Violation
	for _, cause := range e.Causes {
		branches = append(branches, order(r.causes(cause)))
	}
	wrongType := func(v Violation) bool { return v.Rule == "type" && v.Pointer == head.Pointer }
	for _, off := range []func(Violation) bool{wrongType, wrongValue} {
		branches = without(branches, off)
		if len(branches) == 1 {
			return branches[0]
		}
		if merged, ok := mergeAll(branches, off); ok {
			return []Violation{merged}
		}
	}
	return append([]Violation{head}, slices.Concat(branches...)...)
}

func wrongValue(v Violation) bool { return v.Rule == "const" || v.Rule == "enum" }

// without drops the branches that have a violation of the kind off, unless all have.
func without(branches [][]Violation, off func(Violation) bool) [][]Violation {
	rest := slices.DeleteFunc(slices.Clone(branches), func(b []Violation) bool { return slices.ContainsFunc(b, off) })
	if len(rest) == 0 {
		return branches
	}
	return rest
}

// mergeAll makes one violation of the first of kind off in each branch; ok is false when a branch has none or they are at
// different places.
func mergeAll(branches [][]Violation, off func(Violation) bool) (merged Violation, ok bool) {
	var expected []string
	for i, b := range branches {
		at := slices.IndexFunc(b, off)
		if at < 0 || i > 0 && b[at].Pointer != merged.Pointer {
			return Violation{}, false
		}
		v := b[at]
		if i == 0 {
			merged = v
			merged.Allowed = nil
		}
		expected = append(expected, v.Expected)
		merged.Allowed = append(merged.Allowed, v.Allowed...)
	}
	merged.Allowed = unique(merged.Allowed)
	if merged.Rule == "type" {
		merged.Expected = cut(strings.Join(unique(expected), " or "), maxExpected)
	} else {
		merged.Expected = oneOf(merged.Allowed)
		if len(merged.Allowed) > 1 {
			merged.Rule = "enum" // a const is an enum of one
		}
	}
	return merged, len(branches) > 0
}

// unique removes repetitions, keeping the order, and bounds the length.
func unique(list []string) (all []string) {
	for _, s := range list {
		if len(all) < maxAllowed && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
