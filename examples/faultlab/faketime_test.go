package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// fakePlay is play in fake time: what takes a minute takes none.
func fakePlay(t *testing.T) func(context.Context, plan, func(moment)) {
	return func(_ context.Context, p plan, tell func(moment)) {
		var told []moment
		synctest.Test(t, func(t *testing.T) {
			play(t.Context(), p, func(m moment) { told = append(told, m) })
		})
		for _, m := range told {
			tell(m)
		}
	}
}

// ownAnswer is the last answer of the executor itself for p, called as its
// envelopes say, in fake time.
func ownAnswer(t *testing.T, p plan) (wire string) {
	synctest.Test(t, func(t *testing.T) {
		r := &reel{lab: p.lab(), began: time.Now(), tell: func(moment) {}}
		s := r.stage(p, sideToolexec)
		env := s.x.Execute(t.Context(), s.call)
		for n := 1; n < number(p.calls) && !env.Retry.NotBefore.IsZero(); n++ {
			if env.NextAction != toolexec.NextWaitAndRetry && env.NextAction != toolexec.NextVerifyOperation {
				break
			}
			time.Sleep(time.Until(env.Retry.NotBefore))
			env = s.x.Execute(t.Context(), s.call)
		}
		heard := s.watch.lateEvidence()
		if s.watch.ended(t.Context()); s.watch.lateEvidence() > heard {
			env = s.x.Execute(t.Context(), s.call)
		}
		s.faults.Wait()
		assert.NoError(t, s.x.Close(t.Context()))
		raw, err := json.Marshal(env)
		assert.NoError(t, err)
		wire = string(raw)
	})
	return wire
}

// Not a test of its own: it serves the page in fake time, for the tests in
// browser/, which read the address from its output and close its input in the
// end. /own answers with the executor's own envelope for a plan.
func TestServeInFakeTime(t *testing.T) {
	if os.Getenv("FAULTLAB_FAKE_TIME") == "" {
		t.Skip("the tests in browser/ run it, with FAULTLAB_FAKE_TIME=1")
	}
	s := &server{play: fakePlay(t)}
	mux := http.NewServeMux()
	mux.Handle("/", s.handler())
	mux.HandleFunc("GET /own", func(w http.ResponseWriter, r *http.Request) {
		p, err := parsePlan(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, ownAnswer(t, p))
	})
	web := httptest.NewServer(mux)
	defer web.Close()
	_, err := fmt.Println("faultlab:", web.URL)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
}
