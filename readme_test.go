package toolexec_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// readmeBlocks returns the fenced blocks of README.md of one language.
func readmeBlocks(t *testing.T, lang string) []string {
	t.Helper()
	raw, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var out []string
	for _, m := range regexp.MustCompile("(?s)```"+lang+"\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		out = append(out, m[1])
	}
	return out
}

// runReadmeGo runs a program as if it stood in a module that requires this one.
func runReadmeGo(t *testing.T, source string) string {
	t.Helper()
	dir := filepath.Join("testdata", "readme", t.Name())
	require.NoError(t, os.MkdirAll(dir, 0o750))
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join("testdata", "readme")) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "run", "./"+dir).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// TestReadmeProgram runs the complete program and compares what it prints.
func TestReadmeProgram(t *testing.T) {
	programs, texts := readmeBlocks(t, "go"), readmeBlocks(t, "text")
	assert.Equal(t, texts[0], runReadmeGo(t, programs[0]))
}

// TestReadmeLoop compiles the snippet of the agent loop.
func TestReadmeLoop(t *testing.T) {
	snippet := readmeBlocks(t, "go")[1]
	runReadmeGo(t, `package main

import (
	"context"
	"encoding/json"

	"github.com/toolexec/toolexec"
)

func main() {
	var x toolexec.Executor
	ctx := context.Background()
	reply := func(string, bool) {}
`+snippet+"}\n")
}

// TestReadmeOutput holds what is quoted of the fault lab against its golden
// output, which its own test compares with a run.
func TestReadmeOutput(t *testing.T) {
	golden, err := os.ReadFile("examples/faultlab/testdata/faultlab.golden")
	require.NoError(t, err)
	for _, block := range readmeBlocks(t, "text")[1:] {
		assert.Contains(t, string(golden), strings.TrimRight(block, "\n"))
	}
}

// TestReadmeEnvelope makes the envelope that is shown.
func TestReadmeEnvelope(t *testing.T) {
	var x toolexec.Executor
	type invoice struct{}
	tool := toolexec.Bind(&x, toolexec.Tool[invoice, invoice]{
		Name: "create_invoice", VerificationTool: "get_invoice_by_operation_ref",
		Run: func(context.Context, invoice) (invoice, error) { return invoice{}, toolexec.InDoubt(nil) },
	})
	env := tool.Call(toolexec.WithOperationRef(t.Context(), "run_81/step_4"), invoice{})
	got, err := json.MarshalIndent(env, "", "  ")
	require.NoError(t, err)
	assert.Equal(t, readmeBlocks(t, "json")[0], string(got)+"\n")
}

// TestReadmeNames finds every file and directory that is mentioned.
func TestReadmeNames(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(string(raw), -1) {
		_, err := os.Stat(m[1])
		assert.NoError(t, err, m[1])
	}
}
