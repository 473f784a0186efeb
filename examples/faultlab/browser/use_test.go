package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
)

// useText is the text of the first element that a selector finds.
func useText(selector string) string {
	return `document.querySelector("` + selector + `").textContent.trim()`
}

const (
	useStatus       = "#status"
	useBlindTotal   = "[data-side=blind] [data-part=total]"
	useGuardedTotal = "[data-side=toolexec] [data-part=total]"
)

// Without a pointer: from the top of the page to the outcome, with Tab, the first
// letter of an option, arrows, and Enter.
func TestKeyboard(t *testing.T) {
	tab, address := labOpen(t, labInFakeTime)
	labDo(t, tab, chromedp.Navigate(address))
	focused := func() string {
		return labEval[string](t, tab, `document.activeElement.id || document.activeElement.textContent.trim()`)
	}
	var order []string
	for range 13 {
		labDo(t, tab, chromedp.KeyEvent(kb.Tab))
		order = append(order, focused())
	}
	assert.Equal(t, []string{
		"Skip to the outcome", "tool", "fault", "on", "verifier", "guard", "deadline", "retries", "backoff", "calls", "pace", "run", "link",
	}, order)

	labDo(t, tab, chromedp.Navigate(address)) // back to the top
	labDo(t, tab, chromedp.KeyEvent(kb.Tab+kb.Tab+"r"))
	assert.Equal(t, "search_orders: it changes nothing.", labEval[string](t, tab, useText("#tool-says")))
	labDo(t, tab, chromedp.KeyEvent(kb.ArrowDown+kb.ArrowDown))
	for range 10 {
		labDo(t, tab, chromedp.KeyEvent(kb.Tab))
	}
	assert.Equal(t, "run", focused())
	labDo(t, tab, chromedp.KeyEvent(kb.Enter), labState("done"))
	assert.Equal(t, "Done. blind retry $160.00, toolexec $80.00.", labEval[string](t, tab, useText(useStatus)))
	assert.Equal(t, "run", focused(), "the focus stays")
}

// Step by step, by keyboard: each step adds a line, the money comes with it, and
// the focus is on the button that goes on.
func TestSteps(t *testing.T) {
	tab, address := labOpen(t, labInFakeTime)
	labDo(t, tab, chromedp.Navigate(address))
	labDo(t, tab, chromedp.Evaluate[chromedp.Void](`document.getElementById("pace").value = "step"; document.getElementById("guard").value = "toolexec"; document.getElementById("run").focus()`),
		chromedp.KeyEvent(kb.Enter), labState("running"))
	lines := func() int {
		return labEval[int](t, tab, `document.querySelectorAll("[data-side=toolexec] .log li").length`)
	}
	labDo(t, tab, labUntil(`document.querySelectorAll("[data-side=toolexec] .log li").length > 0`))
	assert.Equal(t, 1, lines())
	assert.Equal(t, "next", labEval[string](t, tab, "document.activeElement.id"))
	assert.Equal(t, `Step 1, at 0.0 s: call 1: process_refund {"order_id":"ORD-5510","cents":8000}.`, labEval[string](t, tab, useText(useStatus)))
	assert.True(t, labEval[bool](t, tab, `document.querySelector("figure[data-side=blind]").hidden`))

	labDo(t, tab, chromedp.KeyEvent(kb.Enter+kb.Enter))
	assert.Equal(t, 3, lines())
	assert.Equal(t, "$0.00", labEval[string](t, tab, useText(useGuardedTotal)))
	labDo(t, tab, chromedp.KeyEvent(kb.Enter))
	assert.Equal(t, "$80.00", labEval[string](t, tab, useText(useGuardedTotal)))
	labDo(t, tab, chromedp.KeyEvent(kb.Tab+kb.Enter), labState("done"))
	assert.Equal(t, 8, lines(), "all steps")
	assert.Equal(t, "run", labEval[string](t, tab, "document.activeElement.id"))
}

// The program itself, in real time, 20 times faster: nothing of the page needs
// fake time. A link runs at once; Stop ends a run, and so does another.
func TestProgram(t *testing.T) {
	tab, address := labOpen(t, labProgram)
	labDo(t, tab, labRun(address, "tool=write&fault=answer-lost&verifier=early&pace=20"))
	assert.Equal(t, "$160.00", labEval[string](t, tab, useText(useBlindTotal)))
	assert.Equal(t, "$80.00", labEval[string](t, tab, useText(useGuardedTotal)))
	assert.Equal(t, address+"/?tool=write&fault=answer-lost&on=first&verifier=early&guard=both&deadline=2s&retries=2&backoff=500ms&calls=3&pace=20",
		labEval[string](t, tab, "location.href"), "the address is the whole plan")

	labDo(t, tab, chromedp.Navigate(address+"/?fault=request-lost&on=every&calls=4"), chromedp.Click(chromedp.CSS("#stop")), labState("stopped"))
	labDo(t, tab, chromedp.Click(chromedp.CSS("#run")), labState("running"))
	labDo(t, tab, chromedp.Evaluate[chromedp.Void](`document.getElementById("fault").value = "none"`), chromedp.Click(chromedp.CSS("#run")), labState("done"))
	assert.Equal(t, "Done. blind retry $80.00, toolexec $80.00.", labEval[string](t, tab, useText(useStatus)))
}

// A link that cannot be run says what can.
func TestGarbage(t *testing.T) {
	tab, address := labOpen(t, labInFakeTime, "status of 400 (Bad Request)")
	labDo(t, tab, chromedp.Navigate(address+"/?tool=%3Cimg+src=x+onerror=alert(1)%3E"))
	assert.Equal(t, `This cannot be run: tool cannot be "<img src=x onerror=alert(1)>"; it is one of read, idempotent, write. Start again with the standard run.`,
		labEval[string](t, tab, useText("[role=alert]")))
	assert.Equal(t, 0, labEval[int](t, tab, `document.images.length`))
}

// A server that has too much to do, or is gone, is said in words.
func TestFailure(t *testing.T) {
	tab, address := labOpen(t, labInFakeTime)
	labDo(t, tab, chromedp.Navigate(address))
	for answer, says := range map[string]string{
		`Promise.reject(new TypeError("Failed to fetch"))`:                                      "The lab does not answer. Is the program still running?",
		`new Response("4 runs of yours go on.", { status: 429 })`:                               "4 runs of yours go on.",
		`new Response('data: {"kind":"note","side":"toolexec","at":0,"text":"it begins"}\n\n')`: "The run ended early: the connection to the server was lost.",
	} {
		labDo(t, tab, chromedp.Evaluate[chromedp.Void](`fetch = async () => `+answer), chromedp.Click(chromedp.CSS("#run")), labState("failed"))
		labDo(t, tab, labUntil(useText(useStatus)+` === "`+says+`"`))
	}
}
