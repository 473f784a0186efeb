// Package closest finds, among known names, the ones a misspelt name probably meant.
package closest

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

const (
	maxLength      = 128 // bytes; longer names are not looked at, the distance is quadratic
	minContained   = 4   // bytes one name must have to count as a part of another
	minMaxDistance = 2
)

// Names returns at most limit of known, best first, ties alphabetical, without repetitions; nil when none is sensible.
//
// Names are compared without regard to case and separators (space _ - . : /), by optimal string alignment: insertions,
// deletions, substitutions and swaps of neighbours cost 1. A name is sensible at a distance of at most max(2, a third of name's
// length) that changes no more than half of the longer one, or when one contains the other and the shorter has 4 bytes or
// more. A name longer than 128 bytes has no closest names and is none. Nothing is returned that is not in known.
func Names(name string, known []string, limit int) []string {
	wanted := fold(name)
	if len(name) > maxLength || len(wanted) == 0 || limit <= 0 {
		return nil
	}
	var found []candidate
	for _, k := range known {
		if len(k) > maxLength {
			continue
		}
		if distance, ok := compare(wanted, fold(k)); ok {
			found = append(found, candidate{k, distance})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	found = slices.Compact(found)
	var names []string
	for _, c := range found[:min(limit, len(found))] {
		names = append(names, c.name)
	}
	return names
}

type candidate struct {
	name     string
	distance int
}

// fold drops what people vary: case and separators.
func fold(name string) []rune {
	return []rune(strings.Map(func(r rune) rune {
		if strings.ContainsRune("_-.:/ ", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name))
}

func compare(wanted, known []rune) (distance int, sensible bool) {
	distance = align(wanted, known)
	near := distance <= max(minMaxDistance, len(wanted)/3)
	// Without this every name of two letters would be close to every other.
	similar := 2*distance <= max(len(wanted), len(known))
	return distance, near && similar || contains(string(wanted), string(known))
}

func contains(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	return len(b) >= minContained && strings.Contains(a, b)
}

// align is the optimal string alignment distance (restricted Damerau-Levenshtein), in three rows.
func align(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
