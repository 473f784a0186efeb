package mcptool_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readmeBlocks are the Go texts of README.md.
func readmeBlocks(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var blocks []string
	for _, part := range strings.Split(string(raw), "```go\n")[1:] {
		block, _, found := strings.Cut(part, "```")
		require.True(t, found)
		blocks = append(blocks, block)
	}
	return blocks
}

// readmeBuild builds a program as if it were a directory of this module, so that its requirements are those here.
func readmeBuild(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	file, overlay, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	place, err := filepath.Abs(filepath.Join("readme", "main.go"))
	require.NoError(t, err)
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{place: file}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, raw, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", binary, "./readme").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// TestReadmeProgram builds the program and calls its tool over stdio.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	binary := readmeBuild(t, readmeBlocks(t)[0])
	cs, err := mcp.NewClient(impl("client"), nil).Connect(t.Context(), &mcp.CommandTransport{Command: exec.CommandContext(t.Context(), binary)}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cs.Close() })
	for i := range 2 {
		res, env := ask(t, cs, "process_refund", "run_81/step_4", args)
		assert.Equal(t, `"rcpt_1"`, textOf(t, res))
		assert.Equal(t, i == 1, env.Replayed)
	}
}

// TestReadmeImport builds the other side: ten lines at most.
func TestReadmeImport(t *testing.T) {
	t.Parallel()
	block := readmeBlocks(t)[1]
	assert.LessOrEqual(t, strings.Count(block, "\n"), 10)
	readmeBuild(t, `package main

import (
	"context"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/adapters/mcptool"
)

`+block+"\nfunc main() { _, _ = importCRM(context.Background(), new(toolexec.Executor)) }\n")
}
