package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nothing is cut off, at any width and in any light. LOOK=directory keeps the
// pictures, for a person to look at.
func TestLooks(t *testing.T) {
	tab, address := labOpen(t, labInFakeTime)
	for name, query := range map[string]string{
		"standard": "tool=write&fault=answer-lost",
		"settle":   "tool=write&fault=request-late&verifier=early",
		"late":     "tool=write&fault=hang-after&verifier=none",
		"down":     "tool=write&fault=answer-lost&verifier=down&calls=4",
		"read":     "tool=read&fault=request-lost&on=every",
	} {
		for _, width := range []int64{400, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(fmt.Sprint(name, width, scheme), func(t *testing.T) {
					labDo(t, tab, labView(width, scheme), labRun(address, query))
					assert.LessOrEqual(t, labEval[int](t, tab, "document.documentElement.scrollWidth"), int(width), "the page is wider than its window")
					if look := os.Getenv("LOOK"); look != "" {
						labKeep(t, tab, filepath.Join(look, fmt.Sprintf("%s-%d-%s", name, width, scheme)))
					}
				})
			}
		}
	}
}

// labKeep keeps a picture of the page, and of each section.
func labKeep(t *testing.T, tab context.Context, name string) {
	t.Helper()
	picture, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name+".png", picture, 0o600))
	for i := range labEval[int](t, tab, `document.querySelectorAll("form, section").length`) {
		picture, err := chromedp.Run(tab, chromedp.Screenshot(chromedp.JSPath(fmt.Sprintf(`document.querySelectorAll("form, section")[%d]`, i))))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s-%d.png", name, i), picture, 0o600))
	}
}
