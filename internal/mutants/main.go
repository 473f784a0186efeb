// Command mutants takes the rules of package toolexec away, one at a time, and
// shows that the tests notice.
//
//	go run ./internal/mutants                  all of them; exit status 1 when one is not noticed
//	go run ./internal/mutants -run 'settle'    those whose name matches
//	go run ./internal/mutants -suite           ask the whole suite where the tests named notice nothing
//	go run ./internal/mutants -doc FILE        write the list, as docs/mutants.md
//
// All mutants are compiled into one test binary, each behind a switch that an
// environment variable turns on, with go test -overlay: no source file changes.
// Those that edit the same text go into further binaries. With every switch off
// the tests must pass.
package main

//go:generate go run . -doc ../../docs/mutants.md

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// switchOn is the environment variable that names the mutant that is on.
const switchOn = "TOOLEXEC_MUTANT"

// patience bounds the tests of one mutant: one that hangs them is noticed.
const patience = 3 * time.Minute

func main() {
	run := flag.String("run", "", "only the mutants whose name matches this pattern")
	suite := flag.Bool("suite", false, "ask the whole suite where the tests named notice nothing")
	doc := flag.String("doc", "", "write the list to this file and end")
	jobs := flag.Int("jobs", runtime.GOMAXPROCS(0), "mutants at a time")
	flag.Parse()
	var err error
	if *doc != "" {
		err = os.WriteFile(*doc, document(), 0o644)
	} else {
		err = check(*run, *suite, max(*jobs, 1))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// errUnnoticed is what a rule gets that no test holds, and an argued survivor
// that a test does notice.
var errUnnoticed = errors.New("the list above is not what it says")

func check(pattern string, suite bool, jobs int) error {
	chosen, err := choose(pattern)
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	groups, err := group(root, chosen)
	if err != nil {
		return err
	}
	var results []result
	for i, g := range groups {
		binary := filepath.Join(dir, fmt.Sprintf("%d.test", i))
		if err := g.build(root, dir, binary); err != nil {
			return err
		}
		r := runner{root: root, binary: binary, suite: suite, jobs: jobs}
		if err := r.unchanged(g.members); err != nil {
			return err
		}
		results = append(results, r.all(g.members)...)
	}
	return report(results)
}

func choose(pattern string) ([]mutant, error) {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	chosen := slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !matches.MatchString(m.name) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-run: no mutant has a name like %q", pattern)
	}
	return chosen, nil
}

func moduleRoot() (string, error) {
	out, err := exec.CommandContext(context.Background(), "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// one binary -------------------------------------------------------------------

// compiled are mutants that edit different texts.
type compiled struct {
	members []mutant
	files   map[string]*edited
}

// edited is a file with the edits of several mutants.
type edited struct {
	source []byte
	edits  []edit
}

type edit struct {
	from, to int
	text     string
}

// group puts each mutant into the first binary none of whose edits it touches.
func group(root string, chosen []mutant) ([]*compiled, error) {
	var groups []*compiled
	for _, m := range chosen {
		source, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			return nil, err
		}
		if n := bytes.Count(source, []byte(m.old)); n != 1 {
			return nil, fmt.Errorf("%q: %s holds the text that is to change %d times, not once:\n%s", m.name, m.file, n, m.old)
		}
		at := bytes.Index(source, []byte(m.old))
		e := edit{at, at + len(m.old), strings.ReplaceAll(m.new, "mutated", fmt.Sprintf("(mutantOn == %q)", m.name))}
		i := slices.IndexFunc(groups, func(g *compiled) bool { return g.takes(m.file, e) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &compiled{files: make(map[string]*edited)})
		}
		groups[i].add(m, source, e)
	}
	return groups, nil
}

func (g *compiled) takes(file string, e edit) bool {
	f := g.files[file]
	return f == nil || !slices.ContainsFunc(f.edits, func(o edit) bool { return e.from < o.to && o.from < e.to })
}

func (g *compiled) add(m mutant, source []byte, e edit) {
	if g.files[m.file] == nil {
		g.files[m.file] = &edited{source: source}
	}
	g.files[m.file].edits = append(g.files[m.file].edits, e)
	g.members = append(g.members, m)
}

func (f *edited) text() []byte {
	slices.SortFunc(f.edits, func(a, b edit) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, e := range f.edits {
		out = append(append(out, f.source[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, f.source[at:]...)
}

// build compiles the tests of the root package with the edits in place.
func (g *compiled) build(root, dir, binary string) error {
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	put := func(file string, text []byte) error {
		path := filepath.Join(dir, filepath.Base(binary)+"."+file)
		overlay.Replace[filepath.Join(root, file)] = path
		return os.WriteFile(path, text, 0o600)
	}
	for name, f := range g.files {
		if err := put(name, f.text()); err != nil {
			return err
		}
	}
	theSwitch := "package toolexec\n\nimport \"os\"\n\nvar mutantOn = os.Getenv(\"" + switchOn + "\")\n"
	if err := put("mutant_switch.go", []byte(theSwitch)); err != nil {
		return err
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		return err
	}
	config := binary + ".json"
	if err := os.WriteFile(config, raw, 0o600); err != nil {
		return err
	}
	build := exec.CommandContext(context.Background(), "go", "test", "-c", "-overlay", config, "-o", binary, ".")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("the mutants do not compile: %w\n%s", err, out)
	}
	return nil
}

// running -----------------------------------------------------------------------

type result struct {
	mutant
	noticed string // by which test; "" for none
	took    time.Duration
}

type runner struct {
	root, binary string
	suite        bool
	jobs         int
}

// unchanged runs the tests with every switch off.
func (r *runner) unchanged(members []mutant) error {
	var patterns []string
	for _, m := range members {
		patterns = append(patterns, m.tests)
	}
	out, failed := r.tests("", strings.Join(patterns, "|"))
	if failed {
		return fmt.Errorf("the tests fail without any mutant:\n%s", out)
	}
	return nil
}

func (r *runner) all(members []mutant) []result {
	results := make([]result, len(members))
	var wg sync.WaitGroup
	next := make(chan int)
	for range r.jobs {
		wg.Go(func() {
			for i := range next {
				results[i] = r.one(members[i])
				fmt.Fprint(os.Stderr, ".")
			}
		})
	}
	for i := range members {
		next <- i
	}
	close(next)
	wg.Wait()
	return results
}

func (r *runner) one(m mutant) result {
	began := time.Now()
	out, failed := r.tests(m.name, m.tests)
	if !failed && r.suite {
		out, failed = r.tests(m.name, ".")
	}
	res := result{mutant: m, took: time.Since(began)}
	if failed {
		res.noticed = culprit(out)
	}
	return res
}

// tests runs what matches pattern while the mutant is on.
func (r *runner) tests(name, pattern string) (out []byte, failed bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.binary, "-test.failfast", "-test.timeout", (patience - 10*time.Second).String(), "-test.run", pattern)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), switchOn+"="+name)
	out, err := cmd.CombinedOutput()
	return out, err != nil
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	deadTest   = regexp.MustCompile(`(?m)^(panic: test timed out|panic: |fatal error: )`)
)

// culprit is the first test that failed.
func culprit(out []byte) string {
	if m := failedTest.FindSubmatch(out); m != nil {
		return string(m[1])
	}
	if m := deadTest.FindSubmatch(out); m != nil {
		return "the whole run (" + strings.TrimSuffix(string(m[1]), ": ") + ")"
	}
	return "the whole run"
}

// reporting ------------------------------------------------------------------------

func report(results []result) error {
	width, wrong := 0, 0
	for _, r := range results {
		width = max(width, len(r.name))
	}
	fmt.Fprintln(os.Stderr)
	for _, r := range results {
		verdict := "noticed by " + r.noticed
		switch {
		case r.noticed == "" && r.survives == "":
			verdict = "NOT NOTICED"
			wrong++
		case r.noticed == "":
			verdict = "survives: " + r.survives
		case r.survives != "":
			verdict += ", although it is listed as a survivor"
			wrong++
		}
		fmt.Printf("%-16s %-*s  %5.1fs  %s\n", r.file, width, r.name, r.took.Seconds(), verdict)
	}
	fmt.Printf("%d mutants, %d not as listed\n", len(results), wrong)
	if wrong > 0 {
		return errUnnoticed
	}
	return nil
}

// document prints the list for a reader.
func document() []byte {
	var w bytes.Buffer
	fmt.Fprint(&w, `<!-- Written by go generate ./internal/mutants. -->

# The rules, and that tests hold them

Each rule below was taken away, and a test failed. Repeat it with

`+"```sh\ngo run ./internal/mutants\n```"+`

which takes them away again, one at a time, names the test that noticed, and fails when none did.

| file | rule |
|---|---|
`)
	var survivors []mutant
	for _, m := range mutants {
		if m.survives != "" {
			survivors = append(survivors, m)
			continue
		}
		fmt.Fprintf(&w, "| `%s` | %s |\n", m.file, m.rule)
	}
	fmt.Fprint(&w, "\n## What no test can notice\n\n")
	for _, m := range survivors {
		fmt.Fprintf(&w, "- `%s`: %s. Not noticed: %s.\n", m.file, m.rule, m.survives)
	}
	return w.Bytes()
}
