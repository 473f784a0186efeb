package main

import "testing"

// BenchmarkPaths runs the paths of the table under go test, for benchstat.
func BenchmarkPaths(b *testing.B) {
	for _, p := range paths {
		b.Run(p.name, p.run)
	}
}

// TestPaths runs each path for a moment: a path that fails must not be found
// out when somebody measures.
func TestPaths(t *testing.T) {
	names := map[string]bool{}
	for _, p := range paths {
		names[p.name] = true
	}
	for _, r := range ratios {
		if !names[r.of] || !names[r.to] {
			t.Errorf("%s compares %q and %q, which are not both measured", r.id, r.of, r.to)
		}
	}
	got := measure(1)
	for _, p := range paths {
		if got[p.name][0].ns <= 0 {
			t.Errorf("%s: no time", p.name)
		}
	}
}
