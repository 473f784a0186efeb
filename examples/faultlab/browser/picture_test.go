package browser

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var pictureUpdate = flag.Bool("update", false, "make the README's picture anew")

const (
	picturePath  = "../../../docs/faultlab.png"
	pictureWidth = 960
	pictureBytes = 150_000
)

// The README's picture is the page, of the run that it opens with, down to the
// end of the time line: go test -run TestPicture . -args -update
func TestPicture(t *testing.T) {
	if *pictureUpdate {
		tab, address := labOpen(t, labInFakeTime)
		labDo(t, tab, labView(pictureWidth, "light"), labRun(address, "tool=write&fault=answer-lost"))
		labDo(t, tab, chromedp.Evaluate[chromedp.Void](`document.querySelector("details").open = false`))
		height := labEval[int](t, tab, `Math.ceil(document.querySelector("details").getBoundingClientRect().top + scrollY)`)
		labDo(t, tab, chromedp.EmulateViewport(pictureWidth, int64(height)), chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()"))
		picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(picturePath, pictureSmall(t, picture), 0o644))
	}
	picture, err := os.ReadFile(picturePath)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(picture), pictureBytes)
	size, err := png.DecodeConfig(bytes.NewReader(picture))
	require.NoError(t, err)
	assert.Equal(t, pictureWidth, size.Width)
}

// pictureSmall keeps the 256 colours that the picture has most of.
func pictureSmall(t *testing.T, picture []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	often := make(map[color.Color]int)
	bounds := full.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			often[full.At(x, y)]++
		}
	}
	palette := slices.SortedFunc(maps.Keys(often), func(a, b color.Color) int {
		return cmp.Or(often[b]-often[a], strings.Compare(fmt.Sprint(a), fmt.Sprint(b))) // the same picture each time
	})
	small := image.NewPaletted(bounds, palette[:min(len(palette), 256)])
	draw.Draw(small, bounds, full, bounds.Min, draw.Src)
	var out bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small))
	return out.Bytes()
}
