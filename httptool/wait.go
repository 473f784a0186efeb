package httptool

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxWait is what an absurd wait is cut to.
const maxWait = 24 * time.Hour

// waitOf returns how long the other side asks to wait: by Retry-After, else by
// the headers of a rate limit. Zero: it does not say.
func waitOf(h http.Header, now time.Time) time.Duration {
	if d, ok := retryAfter(h, now); ok {
		return d
	}
	return rateLimited(h, now)
}

// retryAfter reads the header of RFC 9110 §10.2.3: seconds, or a date. A date is
// on the server's clock, so its Date counts where there is one.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if d, ok := seconds(v); ok {
		return d, true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxWait), true
}

// rateLimited reads what the drafts of "RateLimit header fields for HTTP" and
// their predecessors say about when an exhausted quota is full again:
//
//	RateLimit: "burst";r=0;t=30, "daily";r=17;t=3600     (from draft 08 on)
//	RateLimit: limit=100, remaining=0, reset=30          (draft 07)
//	RateLimit-Reset: 30                                  (up to draft 06)
//	X-RateLimit-Reset: 30, or a moment in Unix seconds   (nobody's)
func rateLimited(h http.Header, now time.Time) time.Duration {
	var wait time.Duration
	for policy := range strings.SplitSeq(strings.Join(h.Values("RateLimit"), ","), ",") {
		if d, exhausted := quota(policy); exhausted {
			wait = max(wait, d)
		}
	}
	if wait == 0 {
		wait = reset(strings.Join(h.Values("RateLimit"), ","))
	}
	if wait == 0 {
		wait, _ = seconds(h.Get("RateLimit-Reset"))
	}
	if wait > 0 {
		return wait
	}
	return untilReset(h.Get("X-RateLimit-Reset"), now)
}

// quota reads one policy of the newer form; exhausted is false if some of it is
// left.
func quota(policy string) (wait time.Duration, exhausted bool) {
	for i, p := range strings.Split(policy, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		switch {
		case i == 0:
		case name == "r":
			exhausted = value == "0"
		case name == "t":
			wait, _ = seconds(value)
		}
	}
	return wait, exhausted
}

// reset reads the older form.
func reset(limit string) (wait time.Duration) {
	for p := range strings.SplitSeq(limit, ",") {
		if name, value, _ := strings.Cut(strings.TrimSpace(p), "="); name == "reset" {
			wait, _ = seconds(value)
		}
	}
	return wait
}

// untilReset tells a moment from a number of seconds by its size: no quota takes
// thirty years.
func untilReset(v string, now time.Time) time.Duration {
	const year2001 = 1e9
	if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil && n >= year2001 {
		return min(max(time.Unix(n, 0).Sub(now), 0), maxWait)
	}
	d, _ := seconds(v)
	return d
}

// seconds reads a whole, non-negative number of seconds, cut to maxWait.
func seconds(v string) (time.Duration, bool) {
	v = strings.TrimSpace(v)
	if v == "" || strings.Trim(v, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil { // only digits: too many
		n = math.MaxInt64
	}
	return time.Duration(min(n, int64(maxWait/time.Second))) * time.Second, true
}
