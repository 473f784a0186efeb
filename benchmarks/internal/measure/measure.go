// Package measure has what the pages of the benchmarks have in common: samples
// of paths that take turns, medians with their spread, ratios within a pass,
// aims, and Markdown tables.
package measure

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"
)

// Sample is what one pass measured of one path, per operation.
type Sample struct {
	N             int // operations
	Ns            float64
	Bytes, Allocs int64
	Extra         map[string]float64 // by unit: what the path reported by b.ReportMetric
}

// Path is one way to do something.
type Path struct {
	Name string
	Run  func(b *testing.B)
	Time func(benchtime time.Duration) time.Duration // how long it takes in a pass; nil: benchtime
}

// Samples are those of many passes, by path. The zero value has none.
type Samples struct {
	names []string
	of    map[string][]Sample
}

// Add appends what a pass measured of a path.
func (s *Samples) Add(name string, got Sample) {
	if s.of == nil {
		s.of = make(map[string][]Sample)
	}
	if s.of[name] == nil {
		s.names = append(s.names, name)
	}
	s.of[name] = append(s.of[name], got)
}

// Names lists the paths in the order in which they were measured first.
func (s *Samples) Names() []string { return slices.Clone(s.names) }

// Of returns the samples of a path, one a pass.
func (s *Samples) Of(name string) []Sample { return s.of[name] }

// Ns is the time of a path's operations.
func (s *Samples) Ns(name string) Spread {
	return spreadOf(s.of[name], func(v Sample) float64 { return v.Ns })
}

// Bytes is what a path's operations allocate.
func (s *Samples) Bytes(name string) Spread {
	return spreadOf(s.of[name], func(v Sample) float64 { return float64(v.Bytes) })
}

// Allocs is how often a path's operations allocate.
func (s *Samples) Allocs(name string) Spread {
	return spreadOf(s.of[name], func(v Sample) float64 { return float64(v.Allocs) })
}

// Extra is another metric of a path.
func (s *Samples) Extra(name, unit string) Spread {
	return spreadOf(s.of[name], func(v Sample) float64 { return v.Extra[unit] })
}

// Ratio is the time of one path over that of another, within each pass: a
// machine that slows down slows both.
func (s *Samples) Ratio(of, to string) Spread {
	return Ratio(s.of[of], s.of[to], func(v Sample) float64 { return v.Ns })
}

// Ratio is a value of one path over that of another, within each pass.
func Ratio(of, to []Sample, value func(Sample) float64) Spread {
	list := make([]float64, min(len(of), len(to)))
	for i := range list {
		list[i] = value(of[i]) / value(to[i])
	}
	return SpreadOf(list...)
}

func spreadOf(list []Sample, value func(Sample) float64) Spread {
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = value(v)
	}
	return SpreadOf(out...)
}

// Run measures every path once a pass, one after the other, until ctx ends, and
// says on progress how far it is.
func (s *Samples) Run(ctx context.Context, paths []Path, passes int, benchtime time.Duration, progress io.Writer) error {
	for pass := range passes {
		for _, p := range paths {
			if err := ctx.Err(); err != nil {
				return err
			}
			took := benchtime
			if p.Time != nil {
				took = p.Time(benchtime)
			}
			one, err := once(p, took)
			if err != nil {
				return err
			}
			s.Add(p.Name, one)
		}
		_, _ = fmt.Fprintf(progress, "pass %d of %d, %d paths\n", pass+1, passes, len(paths))
	}
	return nil
}
