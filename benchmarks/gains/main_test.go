package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A binary that prints what a benchmark does is read.
func TestOnce(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "bench")
	script := "#!/bin/sh\necho \"BenchmarkPaths/Write,_new_ref-2 \t   1234\t  5678.5 ns/op\t  3240 B/op\t  18 allocs/op\"\n"
	if err := os.WriteFile(binary, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := once(context.Background(), binary, "Write, new ref", time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if got.N != 1234 || got.Ns != 5678.5 || got.Bytes != 3240 || got.Allocs != 18 {
		t.Errorf("got %+v", got)
	}
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho PASS\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := once(context.Background(), binary, "Write, new ref", time.Millisecond); err == nil {
		t.Error("a binary without the path is taken")
	}
}
