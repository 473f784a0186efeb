package toolexec_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The root module stays light: whoever embeds it takes these five and what they need. A heavier
// dependency belongs in a nested module under adapters/.
func TestDirectRequirements(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)

	assert.Equal(t, []string{
		"github.com/cenkalti/backoff/v4",
		"github.com/google/jsonschema-go",
		"github.com/google/uuid",
		"github.com/santhosh-tekuri/jsonschema/v6",
		"github.com/stretchr/testify", // tests only, see TestRootLinksNoTestCode
	}, directRequirements(string(mod)))
	assert.NotContains(t, directives(string(mod)), "replace", "a replace in the root is ignored by whoever imports it")
}

func TestDirectRequirementsReadsBothForms(t *testing.T) {
	const mod = `module example.com/m // not a requirement

go 1.26

require example.com/single v1.0.0
require example.com/hidden v1.0.0 // indirect

require (
	// a comment
	example.com/block v1.0.0

	example.com/also-hidden v1.0.0 // indirect
	example.com/commented v1.0.0 // kept back
)

exclude example.com/block v0.9.0
`
	assert.Equal(t, []string{"example.com/block", "example.com/commented", "example.com/single"}, directRequirements(mod))
	assert.Equal(t, []string{"module", "go", "require", "require", "require", "exclude"}, directives(mod))
}

// A program that imports the root must not carry test code, an HTTP stack or process control. Packages
// that need these (httptool, toolexectest) are imported by who wants them.
func TestRootLinksNoTestCode(t *testing.T) {
	linked := dependencies(t, ".")
	require.Contains(t, linked, "github.com/toolexec/toolexec", "go list describes another package")

	for _, forbidden := range []string{
		"testing",
		"net/http",
		"os/exec",
		// Templates call methods by name, which keeps the linker from dropping unused ones.
		"text/template",
		"html/template",
		"github.com/stretchr/testify",
		"github.com/toolexec/toolexec/httptool",
		"github.com/toolexec/toolexec/sqlstore",
		"github.com/toolexec/toolexec/toolexectest",
	} {
		assert.Empty(t, within(linked, forbidden), "the root package links %s", forbidden)
	}

	// The same question about the test binary has to find something, or the loop above proves nothing.
	assert.NotEmpty(t, within(dependencies(t, "-test", "."), "testing"))
}

// directRequirements returns the sorted paths that mod requires without an indirect mark.
func directRequirements(mod string) []string {
	var paths []string
	inBlock := false
	for line := range strings.Lines(mod) {
		code, comment, _ := strings.Cut(line, "//")
		fields := strings.Fields(code)
		switch {
		case len(fields) == 0:
			continue
		case inBlock && fields[0] == ")":
			inBlock = false
			continue
		case fields[0] == "require" && len(fields) == 2: // require (
			inBlock = true
			continue
		case fields[0] == "require":
			fields = fields[1:]
		case !inBlock:
			continue
		}
		if strings.TrimSpace(comment) != "indirect" {
			paths = append(paths, fields[0])
		}
	}
	slices.Sort(paths)
	return paths
}

// directives returns the first word of every directive of mod, in order.
func directives(mod string) []string {
	var words []string
	inBlock := false
	for line := range strings.Lines(mod) {
		code, _, _ := strings.Cut(line, "//")
		fields := strings.Fields(code)
		if len(fields) == 0 {
			continue
		}
		if !inBlock {
			words = append(words, fields[0])
		}
		switch fields[len(fields)-1] {
		case "(":
			inBlock = true
		case ")":
			inBlock = false
		}
	}
	return words
}

// dependencies returns the import paths that args of go list reach.
func dependencies(t *testing.T, args ...string) []string {
	t.Helper()
	args = append([]string{"list", "-deps", "-f", "{{.ImportPath}}"}, args...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return strings.Fields(string(out))
}

// within returns those of paths that are pkg or lie below it.
func within(paths []string, pkg string) []string {
	var found []string
	for _, path := range paths {
		if path == pkg || strings.HasPrefix(path, pkg+"/") {
			found = append(found, path)
		}
	}
	return found
}
