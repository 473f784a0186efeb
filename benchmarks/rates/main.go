// Command rates counts what goes wrong under faults, with this library and with
// what people use instead, and prints the tables of RATES.md:
//
//	cd benchmarks && go run ./rates -o RATES.md
//
// Every contender meets the same drawn faults, under the same agent. All time is
// fake, so a pause of 30 s costs nothing, and a seed prints the same table every
// time.
package main

import (
	"flag"
	"io"
	"os"
	"testing"
)

//go:generate go run . -o ../RATES.md

// What the committed tables are made with.
const (
	committedSeed = 1
	committedEach = 240
)

func main() {
	testing.Init()
	seed := flag.Uint64("seed", committedSeed, "of the faults")
	each := flag.Int("each", committedEach, "worlds a fault")
	file := flag.String("o", "", "the file to write; empty: standard output")
	flag.Parse()
	out := os.Stdout
	os.Stdout = os.Stderr // on which testing.Main says PASS
	// A bubble of fake time has to belong to a test.
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "rates", F: func(t *testing.T) {
		if err := write(out, *file, measure(t, *seed, *each).markdown()); err != nil {
			t.Error(err)
		}
	}}}, nil, nil)
}

func write(out io.Writer, file, text string) error {
	if file != "" {
		return os.WriteFile(file, []byte(text), 0o600)
	}
	_, err := io.WriteString(out, text)
	return err
}
