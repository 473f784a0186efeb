package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// axePackage is the accessibility checker, from the npm registry.
const axePackage = "axe-core@4.14.1"

// axeSource downloads the checker into a directory of the test.
func axeSource(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("no npm, with which " + axePackage + " is downloaded")
	}
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), "npm", "install", "--prefix", dir, "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", axePackage)
	if said, err := command.CombinedOutput(); err != nil {
		t.Skipf("%s could not be downloaded: %v: %s", axePackage, err, said)
	}
	source, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	require.NoError(t, err)
	return string(source)
}

// axeRun is what is wrong with the page, a line each: impact, rule, where.
const axeRun = `axe.run().then(found => found.violations.flatMap(v => v.nodes.map(n => v.impact + " " + v.id + ": " + n.target.join(" ") + ": " + n.failureSummary)))`

// The page has no fault that axe-core finds, before a run, after one, light and
// dark, wide and narrow.
func TestAccessible(t *testing.T) {
	source := axeSource(t)
	tab, address := labOpen(t, labInFakeTime)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{400, 1280} {
			for _, query := range []string{"", "tool=write&fault=answer-lost&verifier=down", "tool=read&fault=bad-arguments&guard=toolexec"} {
				labDo(t, tab, labView(width, scheme), chromedp.Navigate(address+"/?"+query))
				if query != "" {
					labDo(t, tab, labState("done"))
				}
				labDo(t, tab, chromedp.Evaluate[chromedp.Void](source))
				assert.Empty(t, labEval[[]string](t, tab, axeRun), "%s %d %q", scheme, width, query)
			}
		}
	}
}
