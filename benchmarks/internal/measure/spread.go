package measure

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Spread is the median of some values, the least and the greatest.
type Spread struct{ Median, Min, Max float64 }

// SpreadOf returns the spread of values; that of none is NaN. The median of an
// even number of values is between the two in the middle.
func SpreadOf(values ...float64) Spread {
	if len(values) == 0 {
		return Spread{math.NaN(), math.NaN(), math.NaN()}
	}
	list := slices.Sorted(slices.Values(values))
	mid := len(list) / 2
	median := list[mid]
	if len(list)%2 == 0 {
		median = (list[mid-1] + list[mid]) / 2
	}
	return Spread{median, list[0], list[len(list)-1]}
}

// Known reports whether there were any values.
func (s Spread) Known() bool { return !math.IsNaN(s.Median) }

// String returns median, least and greatest: "1.24 (0.98 to 1.31)".
func (s Spread) String() string {
	return fmt.Sprintf("%s (%s to %s)", Number(s.Median), Number(s.Min), Number(s.Max))
}

// Number formats v with three significant digits, or all of those before the
// point, in groups of three: 0.0312, 4.60, 259 588; a whole number as it is.
func Number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case v == math.Trunc(v):
		return group(strconv.FormatFloat(v, 'f', 0, 64))
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return group(strconv.FormatFloat(v, 'f', min(max(decimals, 0), 6), 64))
}

// group separates thousands by a space that does not break.
func group(number string) string {
	whole, rest, point := strings.Cut(number, ".")
	var b strings.Builder
	for i, d := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 && whole[i-1] != '-' {
			b.WriteRune('\u00a0')
		}
		b.WriteRune(d)
	}
	if point {
		b.WriteString("." + rest)
	}
	return b.String()
}

// Aim is a bound on a median.
type Aim struct {
	Bound   float64
	AtLeast bool // else at most
}

// AtMost is the aim that a median is at most bound.
func AtMost(bound float64) Aim { return Aim{bound, false} }

// AtLeast is the aim that it is at least bound.
func AtLeast(bound float64) Aim { return Aim{bound, true} }

func (a Aim) String() string {
	bound := group(strconv.FormatFloat(a.Bound, 'f', -1, 64))
	if a.AtLeast {
		return "≥ " + bound
	}
	return "≤ " + bound
}

// Reached reports whether v keeps to the bound.
func (a Aim) Reached(v float64) bool {
	if a.AtLeast {
		return v >= a.Bound
	}
	return v <= a.Bound
}

// Verdict says whether the median of s reaches the aim, and whether every pass
// did so or did not.
func (a Aim) Verdict(s Spread) string {
	switch least, greatest := a.Reached(s.Min), a.Reached(s.Max); {
	case least && greatest:
		return "yes"
	case !least && !greatest:
		return "**no**"
	case a.Reached(s.Median):
		return "yes, not in each pass"
	default:
		return "**no**, in some passes"
	}
}
