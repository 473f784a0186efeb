package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The list names each rule once, and every text that it changes is there.
func TestList(t *testing.T) {
	names := make(map[string]bool)
	for _, m := range mutants {
		assert.False(t, names[m.name], "%q is there twice", m.name)
		names[m.name] = true
		assert.NotEmpty(t, m.rule, m.name)
		assert.NotEmpty(t, m.tests, m.name)
		assert.Contains(t, m.new, "mutated", m.name)
	}
	root, err := moduleRoot()
	require.NoError(t, err)
	groups, err := group(root, mutants)
	require.NoError(t, err)
	n := 0
	for _, g := range groups {
		n += len(g.members)
	}
	assert.Equal(t, len(mutants), n)
	page, err := os.ReadFile(filepath.Join(root, "docs", "mutants.md"))
	require.NoError(t, err)
	assert.Equal(t, string(document()), string(page), "run go generate ./internal/mutants")
}

func TestGroup(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("if x {\nif y && z {\n"), 0o600))
	change := func(name, old, is string) mutant { return mutant{name: name, file: "a.go", old: old, new: is} }
	groups, err := group(dir, []mutant{
		change("first", "if x {", "if x && !mutated {"),
		change("second", "y && z", "mutated"),
		change("touches the second", "z {", "z || mutated {"),
	})
	require.NoError(t, err)
	require.Len(t, groups, 2)
	assert.Equal(t, "if x && !(mutantOn == \"first\") {\nif (mutantOn == \"second\") {\n", string(groups[0].files["a.go"].text()))
	assert.Equal(t, "if x {\nif y && z || (mutantOn == \"touches the second\") {\n", string(groups[1].files["a.go"].text()))

	for text, want := range map[string]string{"if": "2 times", "gone": "0 times"} {
		_, err := group(dir, []mutant{change("m", text, "mutated")})
		assert.ErrorContains(t, err, want)
	}
}

func TestReport(t *testing.T) {
	held := result{mutant: mutant{name: "held"}, noticed: "TestX"}
	argued := result{mutant: mutant{name: "argued", survives: "no way"}}
	require.NoError(t, report([]result{held, argued}))
	require.ErrorIs(t, report([]result{held, {mutant: mutant{name: "nobody notices"}}}), errUnnoticed)
	require.ErrorIs(t, report([]result{{mutant: argued.mutant, noticed: "TestX"}}), errUnnoticed)
}

func TestCulprit(t *testing.T) {
	for out, want := range map[string]string{
		"--- FAIL: TestA (0.1s)\n--- FAIL: TestB (0.1s)\n": "TestA",
		"panic: test timed out after 2m\n":                 "the whole run (panic: test timed out)",
		"fatal error: all goroutines are asleep\n":         "the whole run (fatal error)",
		"": "the whole run",
	} {
		assert.Equal(t, want, culprit([]byte(out)), strings.TrimSpace(out))
	}
}
