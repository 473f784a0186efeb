// Package browser tests the page of the fault lab in a headless Chromium, and
// makes the README's picture from it. install.sh installs one where that is
// possible; without one the tests are skipped.
package browser

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// labBrowser finds a Chromium.
func labBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Skip("no Chromium: install one (install.sh does, on Debian as root), or name it in CHROMIUM")
	return ""
}

// labOpen starts the lab, labProgram or labInFakeTime, and opens a tab of a new
// browser, which is closed first.
func labOpen(t *testing.T, start func(*testing.T) string, allowed ...string) (tab context.Context, address string) {
	t.Helper()
	labBrowser(t)
	address = start(t)
	return labTab(t, allowed...), address
}

// labProgram builds the lab and starts it; it returns its address.
func labProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "faultlab")
	labGo(t, "build", "-o", program, ".")
	command := labCommand(t, program, "-http", "127.0.0.1:0")
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	said, err := command.StderrPipe()
	require.NoError(t, err)
	return labStart(t, command, said)
}

// labInFakeTime starts the lab in fake time: every run takes no time at all, and
// is told with the times that it would have taken.
func labInFakeTime(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "faultlab.test")
	labGo(t, "test", "-c", "-o", program, ".")
	command := labCommand(t, program, "-test.run", "^TestServeInFakeTime$")
	command.Env = append(os.Environ(), "FAULTLAB_FAKE_TIME=1")
	input, err := command.StdinPipe()
	require.NoError(t, err)
	command.Cancel = input.Close
	said, err := command.StdoutPipe()
	require.NoError(t, err)
	return labStart(t, command, said)
}

// labCommand is a command that ends when the test does, after its tabs.
func labCommand(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	command := exec.CommandContext(ctx, program, args...)
	command.WaitDelay = 20 * time.Second
	t.Cleanup(func() {
		end()
		_ = command.Wait()
	})
	return command
}

func labGo(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = ".." // the lab's module
	said, err := command.CombinedOutput()
	require.NoError(t, err, string(said))
}

// labStart starts the server and reads its address.
func labStart(t *testing.T, command *exec.Cmd, said io.Reader) string {
	t.Helper()
	require.NoError(t, command.Start())
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "faultlab: "); ok {
			return address
		}
	}
	require.Fail(t, "the lab ended without an address")
	return ""
}

// labTab opens a tab of a new browser. Whatever its console says is an error of
// the test, but for what holds an allowed text.
func labTab(t *testing.T, allowed ...string) context.Context {
	t.Helper()
	ctx, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(labBrowser(t)),
		chromedp.NoSandbox, // a container's root has no other way
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("font-render-hinting", "none"),
	)...)
	t.Cleanup(stop)
	return labFurtherTab(t, ctx, allowed...)
}

// labFurtherTab opens another tab of the browser of ctx.
func labFurtherTab(t *testing.T, ctx context.Context, allowed ...string) context.Context {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(ctx)
	said := chromedp.Console(ctx)
	heard := make(chan []string)
	go func() {
		var lines []string
		for m, err := range said {
			if err != nil {
				break
			}
			if line := m.String(); !slices.ContainsFunc(allowed, func(a string) bool { return strings.Contains(line, a) }) {
				lines = append(lines, line)
			}
		}
		heard <- lines
	}()
	t.Cleanup(func() {
		closeTab()
		assert.Empty(t, <-heard, "the console is silent")
	})
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}

// labDo does all that in the tab, within half a minute.
func labDo(t *testing.T, tab context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab, 30*time.Second)
	defer cancel()
	require.NoError(t, chromedp.Do(ctx, steps...))
}

// labEval is the value of a JavaScript expression in the tab.
func labEval[T any](t *testing.T, tab context.Context, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab, 30*time.Second)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(t, err, expression)
	return value
}

// labView makes the tab so many pixels wide, light or dark, and still.
func labView(width int64, scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.EmulateViewport(width, 900), func(ctx context.Context, tab *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		return chromedp.Void{}, err
	})
}

// labRun opens the page with a plan, which then runs, and waits for its end.
func labRun(address, query string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.Navigate(address+"/?"+query), labState("done"))
}

// labState waits for a state of the page.
func labState(state string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(chromedp.CSS(`body[data-state="` + state + `"]`))
}

// labUntil waits until a JavaScript expression is true.
func labUntil(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Poll[chromedp.Void](expression)
}
