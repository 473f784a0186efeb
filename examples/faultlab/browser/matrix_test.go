package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every tool with every fault and verifier, chosen and run on the page: the
// envelope that it shows in the end is the executor's own for the same plan.
func TestMatrix(t *testing.T) {
	tab, address := labOpen(t, labInFakeTime)
	labDo(t, tab, chromedp.Navigate(address))
	options := func(name string) []string {
		return labEval[[]string](t, tab, `Array.from(document.getElementById("`+name+`").options, o => o.value)`)
	}
	tools, faults, verifiers := options("tool"), options("fault"), options("verifier")
	require.Len(t, tools, 3)
	require.Greater(t, len(faults), 20)
	require.Len(t, verifiers, 5)

	const tabs = 2
	plans := make(chan [3]string)
	var all sync.WaitGroup
	for i := range tabs {
		if i > 0 {
			tab = labFurtherTab(t, tab)
			labDo(t, tab, chromedp.Navigate(address))
		}
		all.Go(func() {
			for p := range plans {
				matrixRun(t, tab, address, p)
			}
		})
	}
	for _, tool := range tools {
		for _, fault := range faults {
			for _, verifier := range verifiers {
				plans <- [3]string{tool, fault, verifier}
			}
		}
	}
	close(plans)
	all.Wait()
}

// matrixChoose chooses on the page as a person does, and presses Run; its value is
// what the page shows in the end.
const matrixChoose = `(async (plan) => {
	for (const [name, value] of Object.entries(plan)) {
		const select = document.getElementById(name);
		select.value = value;
		select.dispatchEvent(new Event("change", { bubbles: true }));
	}
	document.getElementById("run").click();
	while (document.body.dataset.state === "running") await new Promise((done) => setTimeout(done, 1));
	const text = (selector) => document.querySelector(selector).textContent;
	return {
		query: location.search,
		link: document.getElementById("link").getAttribute("href"),
		state: document.body.dataset.state,
		wire: document.getElementById("envelope").dataset.wire,
		lines: Array.from(document.querySelectorAll("#envelope code"), (e) => e.textContent).join("\n"),
		happened: text("[data-side=toolexec][data-part=happened]"),
	};
})({ tool: %q, fault: %q, verifier: %q })`

type matrixShown struct{ Query, Link, State, Wire, Lines, Happened string }

func matrixRun(t *testing.T, tab context.Context, address string, p [3]string) {
	shown, err := chromedp.Run(tab, chromedp.Evaluate[matrixShown](fmt.Sprintf(matrixChoose, p[0], p[1], p[2]), chromedp.EvalAwaitPromise))
	if !assert.NoError(t, err, p) || !assert.Equal(t, "done", shown.State, p) {
		return
	}
	assert.Equal(t, "/"+shown.Query, shown.Link, "the link is the run's")
	own := matrixOwn(t, address+"/own"+shown.Query)
	assert.Equal(t, own, shown.Wire, p)
	assert.JSONEq(t, own, shown.Lines, "the lines are the envelope")
	assert.NotEmpty(t, shown.Happened, p)
}

// matrixOwn is the executor's own envelope.
func matrixOwn(t *testing.T, target string) string {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	if !assert.NoError(t, err) {
		return ""
	}
	answer, err := http.DefaultClient.Do(r)
	if !assert.NoError(t, err) {
		return ""
	}
	defer answer.Body.Close()
	own, err := io.ReadAll(answer.Body)
	assert.NoError(t, err)
	return string(own)
}
