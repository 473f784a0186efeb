package toolexec

import (
	"flag"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write generated documents instead of comparing them")

// TestCodesDocument keeps docs/codes.md equal to the table. To write it:
// go generate .
func TestCodesDocument(t *testing.T) {
	const file = "docs/codes.md"
	if *update {
		require.NoError(t, os.MkdirAll("docs", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(codesMarkdown()), 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, codesMarkdown(), string(got), "run go generate .")
}

// TestCodeTable holds what every row must satisfy.
func TestCodeTable(t *testing.T) {
	pattern := regexp.MustCompile(CodePattern)
	seen := map[Code]bool{}
	for _, f := range codeTable {
		assert.False(t, seen[f.Code], "%s stands twice", f.Code)
		seen[f.Code] = true
		assert.Regexp(t, pattern, string(f.Code))
		assert.True(t, validCode(f.Code), f.Code)
		assert.NotEmpty(t, f.Happened, f.Code)
		if f.Class == ClassTransient && f.Next != NextVerifyOperation {
			assert.Equal(t, RetryAfterDelay, f.Directive, f.Code)
			assert.Equal(t, NextWaitAndRetry, f.Next, f.Code)
		}
		if f.Code != CodeOK {
			assert.NotEqual(t, NextContinue, f.Next, f.Code)
		}
	}
	for _, bad := range []Code{"", "ok", "1A", "A-B", "A B", Code(make([]byte, 64))} {
		assert.False(t, validCode(bad), "%q", bad)
	}
}
