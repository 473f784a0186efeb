package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serveGet asks a handler that listens nowhere, by the name localhost.
func serveGet(t *testing.T, s *server, target string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	r.Host = "localhost:8080"
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	return w
}

// serveWaiting is a server whose runs do nothing until they are ended.
func serveWaiting(begun chan<- struct{}, ended chan<- struct{}) *server {
	return &server{play: func(ctx context.Context, _ plan, tell func(moment)) {
		tell(moment{Kind: kindNote, Text: "it waits"})
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
	}}
}

// serveEvents reads the moments of a stream.
func serveEvents(t *testing.T, body io.Reader) (told []moment) {
	t.Helper()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			assert.Empty(t, lines.Text(), "events are parted by an empty line")
			continue
		}
		var m moment
		require.NoError(t, json.Unmarshal([]byte(data), &m))
		told = append(told, m)
	}
	require.NoError(t, lines.Err())
	return told
}

func TestServePage(t *testing.T) {
	w := serveGet(t, &server{}, "/")
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	page := w.Body.String()
	assert.Contains(t, page, `data-linked="false"`)
	for _, c := range choices {
		assert.Contains(t, page, `<label for="`+c.Name+`">`)
		for _, o := range c.Options {
			assert.Contains(t, page, `<option value="`+o.Value+`"`, c.Name)
		}
	}
	assert.Equal(t, len(choices), strings.Count(page, " selected>"))
	assert.NotContains(t, page, "<script>", "a script has a file")
	assert.NotContains(t, page, "style=", "a style has a file")

	linked := serveGet(t, &server{}, "/?tool=read&pace=step").Body.String()
	assert.Contains(t, linked, `data-linked="true"`)
	assert.Contains(t, linked, `<option value="read" data-says="search_orders: it changes nothing." selected>`)
	assert.Contains(t, linked, "and shows what happened when you ask for the next step.</p>")
}

func TestServeGarbage(t *testing.T) {
	query := url.Values{"tool": {`"><script>alert(1)</script>{{.}}`}}.Encode()
	w := serveGet(t, &server{}, "/?"+query)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	page := w.Body.String()
	assert.Contains(t, page, `This cannot be run: tool cannot be &#34;\&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;{{.}}&#34;; it is one of read, idempotent, write.`)
	assert.Contains(t, page, `data-linked="false"`, "nothing runs")
	assert.NotContains(t, page, "<script>alert")

	w = serveGet(t, &server{}, "/run?"+query)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
	assert.Equal(t, `This cannot be run: tool cannot be "\"><script>alert(1)</script>{{.}}"; it is one of read, idempotent, write.`+"\n", w.Body.String())
}

func TestServeIsStrict(t *testing.T) {
	for target, is := range map[string]struct {
		status int
		media  string
	}{
		"/":             {http.StatusOK, "text/html; charset=utf-8"},
		"/?tool=x":      {http.StatusBadRequest, "text/html; charset=utf-8"},
		"/lab.css":      {http.StatusOK, "text/css; charset=utf-8"},
		"/lab.js":       {http.StatusOK, "text/javascript; charset=utf-8"},
		"/icon.svg":     {http.StatusOK, "image/svg+xml"},
		"/page.html":    {http.StatusNotFound, "text/plain; charset=utf-8"},
		"/../main.go":   {http.StatusTemporaryRedirect, "text/html; charset=utf-8"},
		"/run?pace=1e9": {http.StatusBadRequest, "text/plain; charset=utf-8"},
	} {
		w := serveGet(t, &server{}, target)
		assert.Equal(t, is.status, w.Code, target)
		assert.Equal(t, is.media, w.Header().Get("Content-Type"), target)
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), target)
		assert.Equal(t, policy, w.Header().Get("Content-Security-Policy"), target)
		assert.Equal(t, "same-origin", w.Header().Get("Cross-Origin-Resource-Policy"), target)
		assert.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"), target)
	}
	assert.NotContains(t, policy, "unsafe")
}

// A page elsewhere can make its own name point to this machine; the lab does not
// answer to it.
func TestServeKnowsItsName(t *testing.T) {
	for host, status := range map[string]int{
		"localhost:8080": http.StatusOK, "127.0.0.1:8080": http.StatusOK, "[::1]:8080": http.StatusOK, "localhost": http.StatusOK,
		"attacker.example": http.StatusMisdirectedRequest, "localhost.attacker.example:8080": http.StatusMisdirectedRequest,
		"192.0.2.1:8080": http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		(&server{}).handler().ServeHTTP(w, r)
		assert.Equal(t, status, w.Code, host)
		w = httptest.NewRecorder()
		(&server{exposed: true}).handler().ServeHTTP(w, r)
		assert.Equal(t, http.StatusOK, w.Code, "exposed: "+host)
	}
}

func TestServeStreams(t *testing.T) {
	web := httptest.NewServer((&server{play: fakePlay(t)}).handler())
	defer web.Close()
	answer, err := http.Get(web.URL + "/run?tool=write&fault=answer-lost")
	require.NoError(t, err)
	defer answer.Body.Close()
	assert.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	told := serveEvents(t, answer.Body)
	assert.Equal(t, "$160.00", pageLast(told, sideBlind).books.Total)
	assert.Equal(t, "$80.00", pageLast(told, sideToolexec).books.Total)
	assert.Equal(t, ownAnswer(t, pagePlan(t, "")), pageLast(told, sideToolexec).answer.Envelope)
	assert.Equal(t, kindEnd, told[len(told)-1].Kind)
}

// The page is closed: the run ends, and so does its request.
func TestServeClientLeaves(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	s := serveWaiting(begun, ended)
	web := httptest.NewServer(s.handler())
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/run", http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	<-begun
	leave()
	<-ended
	assert.NoError(t, answer.Body.Close())
	web.Close() // waits for requests
	assert.Zero(t, s.runs.all)
	assert.Empty(t, s.runs.client)
}

// serveWriter is a client that reads everything.
type serveWriter struct{ *httptest.ResponseRecorder }

func (serveWriter) SetWriteDeadline(time.Time) error { return nil }

// The page is closed while a tool hangs: the request lasts until it has ended,
// so that nothing of the run is left.
func TestServeClientLeavesAHang(t *testing.T) {
	for _, query := range []string{"guard=toolexec", "guard=blind", "tool=read&guard=toolexec"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, leave := context.WithTimeout(t.Context(), 700*time.Millisecond)
			defer leave()
			began := time.Now()
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/run?fault=hang&"+query, http.NoBody)
			(&server{play: play}).stream(serveWriter{httptest.NewRecorder()}, r)
			assert.Equal(t, 3*time.Second, time.Since(began), query)
		})
	}
}

// A run is bounded in time, whoever waits for it.
func TestServeRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &server{play: func(ctx context.Context, _ plan, _ func(moment)) { <-ctx.Done() }}
		serveGet(t, s, "/run")
		assert.Equal(t, maxRun, time.Since(began))
	})
}

// A client that cannot be written to ends its run.
func TestServeClientStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		serveGet(t, serveWaiting(make(chan struct{}, 1), make(chan struct{}, 1)), "/run") // a recorder takes no deadline
		assert.Zero(t, time.Since(began))
	})
}

func TestServeBounds(t *testing.T) {
	var r runs
	var ends []func()
	for client := range maxRuns / maxPerClient {
		for range maxPerClient {
			end, problem := r.begin(string(rune('a' + client)))
			require.Empty(t, problem)
			ends = append(ends, end)
		}
	}
	_, problem := r.begin("a")
	assert.Equal(t, "4 runs of yours go on; wait until one ends, or close its page", problem)
	_, problem = r.begin("new")
	assert.Equal(t, "16 runs go on, which is all that the lab makes at once; try again in a minute", problem)
	ends[0]()
	_, problem = r.begin("new")
	assert.Empty(t, problem)
}

func TestServeRefusesTooMany(t *testing.T) {
	begun, ended := make(chan struct{}, maxPerClient+1), make(chan struct{}, maxPerClient+1)
	web := httptest.NewServer(serveWaiting(begun, ended).handler())
	t.Cleanup(web.Close) // after the clients have left
	for range maxPerClient {
		answer, err := http.Get(web.URL + "/run")
		require.NoError(t, err)
		t.Cleanup(func() { _ = answer.Body.Close() })
		<-begun
	}
	answer, err := http.Get(web.URL + "/run")
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
	said, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, "5", answer.Header.Get("Retry-After"))
	assert.Equal(t, "4 runs of yours go on; wait until one ends, or close its page.\n", string(said))
}

// The program serves until it is ended, and takes its runs along.
func TestServeProgram(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	said, says := io.Pipe()
	status := make(chan int)
	go func() {
		defer func() { _ = says.Close() }()
		status <- run(ctx, []string{"-http", "127.0.0.1:0"}, io.Discard, says)
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "faultlab: ")
	require.True(t, ok, line)
	answer, err := http.Get(address + "/run?fault=request-lost&on=every&calls=4")
	require.NoError(t, err)
	defer answer.Body.Close()
	first, err := bufio.NewReader(answer.Body).ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, first, "data: {")
	end()
	assert.Equal(t, 0, <-status)
}

func TestServeFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"reachable": {[]string{"-http", "0.0.0.0:8080"}, 1, "faultlab: 0.0.0.0:8080 can be reached from other machines, and whoever reaches it can make the lab run; use 127.0.0.1:8080, or add -expose if that is meant\n"},
		"all":       {[]string{"-http", ":8080"}, 1, "faultlab: :8080 can be reached from other machines, and whoever reaches it can make the lab run; use 127.0.0.1:8080, or add -expose if that is meant\n"},
		"no port":   {[]string{"-http", "127.0.0.1"}, 1, "faultlab: listen tcp: address 127.0.0.1: missing port in address\n"},
		"mixed":     {[]string{"-http", "127.0.0.1:0", "-json"}, 2, "faultlab: -expose goes with -http, -real and -json go without\nusage: faultlab [-real] [-json]\n       faultlab -http address [-expose]\n"},
		"alone":     {[]string{"-expose"}, 2, "faultlab: -expose goes with -http, -real and -json go without\nusage: faultlab [-real] [-json]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var errs bytes.Buffer
			ctx, end := context.WithCancel(t.Context())
			end() // what it wrongly serves it serves no longer than this
			assert.Equal(t, c.status, run(ctx, c.args, io.Discard, &errs))
			assert.True(t, strings.HasPrefix(errs.String(), c.says), errs.String())
		})
	}
}
