package httptool_test

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/httptool"
)

// How long an answer asks to wait.
func TestWaits(t *testing.T) {
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	unix := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
	for name, row := range map[string]struct {
		header func() map[string]string
		want   time.Duration
	}{
		"nothing":                  {func() map[string]string { return nil }, 0},
		"seconds":                  {func() map[string]string { return map[string]string{"Retry-After": " 120 "} }, 2 * time.Minute},
		"zero":                     {func() map[string]string { return map[string]string{"Retry-After": "0"} }, 0},
		"negative":                 {func() map[string]string { return map[string]string{"Retry-After": "-5"} }, 0},
		"fraction":                 {func() map[string]string { return map[string]string{"Retry-After": "1.5"} }, 0},
		"words":                    {func() map[string]string { return map[string]string{"Retry-After": "soon"} }, 0},
		"absurd":                   {func() map[string]string { return map[string]string{"Retry-After": "99999999"} }, 24 * time.Hour},
		"more than a number holds": {func() map[string]string { return map[string]string{"Retry-After": "99999999999999999999999"} }, 24 * time.Hour},
		"date":                     {func() map[string]string { return map[string]string{"Retry-After": at(90 * time.Second)} }, 90 * time.Second},
		"date of another clock": {func() map[string]string {
			return map[string]string{"Retry-After": at(time.Hour + 90*time.Second), "Date": at(time.Hour)}
		}, 90 * time.Second},
		"date with a broken clock": {func() map[string]string { return map[string]string{"Retry-After": at(90 * time.Second), "Date": "?"} }, 90 * time.Second},
		"past":                     {func() map[string]string { return map[string]string{"Retry-After": at(-time.Hour)} }, 0},
		"far":                      {func() map[string]string { return map[string]string{"Retry-After": at(1000 * time.Hour)} }, 24 * time.Hour},
		"limit":                    {func() map[string]string { return map[string]string{"RateLimit": `"burst";r=0;t=30`} }, 30 * time.Second},
		"limits": {func() map[string]string {
			return map[string]string{"RateLimit": `"burst";r=0;t=30, "daily"; r=0; t=3600, "other";r=3;t=9999`}
		}, time.Hour},
		"limit that is left":   {func() map[string]string { return map[string]string{"RateLimit": `"burst";r=1;t=30`} }, 0},
		"limit without a time": {func() map[string]string { return map[string]string{"RateLimit": `"burst";r=0`} }, 0},
		"draft 07":             {func() map[string]string { return map[string]string{"RateLimit": "limit=100, remaining=0, reset=30"} }, 30 * time.Second},
		"draft 06":             {func() map[string]string { return map[string]string{"RateLimit-Reset": "30"} }, 30 * time.Second},
		"X in seconds":         {func() map[string]string { return map[string]string{"X-RateLimit-Reset": "30"} }, 30 * time.Second},
		"X as a moment":        {func() map[string]string { return map[string]string{"X-RateLimit-Reset": unix(45 * time.Second)} }, 45 * time.Second},
		"X in the past":        {func() map[string]string { return map[string]string{"X-RateLimit-Reset": "1000000001"} }, 0},
		"Retry-After goes first": {func() map[string]string {
			return map[string]string{"Retry-After": "5", "RateLimit": `"burst";r=0;t=30`}
		}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(10 * 365 * 24 * time.Hour) // the bubble's clock begins in 2000, too early for a moment
				resp := answerTo(http.MethodPost, 429, "", "").Response
				for k, v := range row.header() {
					resp.Header.Set(k, v)
				}
				var f *toolexec.Failure
				require.ErrorAs(t, httptool.CheckResponse(resp), &f)
				assert.Equal(t, row.want, f.RetryAfter)
			})
		})
	}
}
