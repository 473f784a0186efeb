package main

import "testing"

// BenchmarkPaths runs the paths of the page under go test, for benchstat.
func BenchmarkPaths(b *testing.B) {
	all := options{sections: sections}
	for _, p := range append(all.paths(), recordPaths(100_000)...) {
		b.Run(p.Name, p.Run)
	}
}
