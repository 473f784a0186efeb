// Command faultlab runs the same executor into each class of failure, and then
// a refund into a lost acknowledgement, five ways: go run ./examples/faultlab
//
// With -http it is a page, on which each fault can be chosen and watched:
// go run ./examples/faultlab -http 127.0.0.1:8080
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	complain := log.New(stderr, "", 0)
	flags := flag.NewFlagSet("faultlab", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		complain.Print("usage: faultlab [-real] [-json]\n       faultlab -http address [-expose]")
		flags.PrintDefaults()
	}
	full := flags.Bool("real", false, "run at full length (20 s) instead of 20 times faster")
	asJSON := flags.Bool("json", false, "print the envelopes, one a line, and nothing else")
	address := flags.String("http", "", "serve the lab as a page at this `address`, 127.0.0.1:8080 for example")
	exposed := flags.Bool("expose", false, "let -http be an address that other machines reach")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil: // flags has said what is wrong
		return 2
	case flags.NArg() > 0:
		complain.Printf("faultlab takes no arguments, only flags: %q", flags.Args())
		flags.Usage()
		return 2
	case *address == "" && *exposed, *address != "" && (*full || *asJSON):
		complain.Print("faultlab: -expose goes with -http, -real and -json go without")
		flags.Usage()
		return 2
	case *address != "":
		if err := serve(ctx, *address, *exposed, complain); err != nil {
			complain.Print("faultlab: ", err)
			return 1
		}
		return 0
	}
	l := &lab{speed: 20}
	if *full {
		l.speed = 1
	}
	show := text(l, stdout)
	if *asJSON {
		show = lines(stdout)
	}
	if err := l.visit(ctx, show); err != nil {
		complain.Print("faultlab: ", err)
		return 1
	}
	return 0
}

// lines shows the envelopes of an exhibit as JSON lines.
func lines(w io.Writer) func(*exhibit) error {
	enc := json.NewEncoder(w)
	return func(e *exhibit) error {
		for _, a := range e.answers {
			if err := enc.Encode(a.envelope); err != nil {
				return err
			}
		}
		return nil
	}
}
