package toolexec_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// What README.md shows besides Go, which TestDocuments runs.

// TestDocumentsQuoteOutput finds every text that no program of the document prints
// in the golden output of an example, which its own test compares with a run.
func TestDocumentsQuoteOutput(t *testing.T) {
	golden := ""
	files, err := filepath.Glob("examples/*/testdata/*.golden")
	require.NoError(t, err)
	for _, name := range files {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		golden += string(raw)
	}
	for _, path := range docPaths(t) {
		var before docBlock
		for _, b := range docBlocks(t, path) {
			if b.lang == "text" && !before.isProgram() {
				assert.Contains(t, golden, strings.TrimRight(b.text, "\n"), "%s:%d", path, b.line)
			}
			before = b
		}
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
	var shown []string
	for _, b := range docBlocks(t, "README.md") {
		if b.lang == "json" {
			shown = append(shown, b.text)
		}
	}
	assert.Equal(t, []string{string(got) + "\n"}, shown)
}

// The table of rates is some rows of the page that a command prints.
func TestReadmeQuotesTheRates(t *testing.T) {
	page, err := os.ReadFile("benchmarks/RATES.md")
	require.NoError(t, err)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	rows := 0
	for line := range strings.Lines(string(readme)) {
		if strings.HasPrefix(line, "| with the ref |") {
			rows++
			assert.Contains(t, string(page), line)
		}
	}
	assert.Equal(t, 6, rows)
}
