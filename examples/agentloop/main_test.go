package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden file")

// runLoop runs the program in fake time and returns its output and how long it
// took.
func runLoop(t *testing.T, args ...string) (stdout string, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		began := time.Now()
		assert.Equal(t, 0, run(t.Context(), args, &out, &errs), errs.String())
		assert.Empty(t, errs.String())
		stdout, took = out.String(), time.Since(began)
	})
	return stdout, took
}

func TestText(t *testing.T) {
	got, took := runLoop(t)
	assert.Less(t, took, 10*time.Second, "what somebody waits for who runs it")
	golden := filepath.Join("testdata", "agentloop.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
	for line := range strings.Lines(got) {
		assert.LessOrEqual(t, len(line), width+1, line)
	}
}

// What the golden file shows is worth reading only if it shows everything.
func TestSeedOneShowsEveryMistake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, 1, nil)
		require.NoError(t, w.play(t.Context()))
		made, _ := w.story.kinds()
		for _, b := range blunders {
			assert.Positive(t, made[b.kind], b.kind)
		}
	})
}

// At full length all is the same but the line that says so.
func TestRealText(t *testing.T) {
	short, fast := runLoop(t, "-seed", "2")
	long, slow := runLoop(t, "-seed=2", "-real")
	assert.Greater(t, slow, 15*fast)
	head, short, _ := strings.Cut(short, "The model is offered")
	assert.Contains(t, head, "Run 20 times faster than the times say (-real: at full length).\n")
	head, long, _ = strings.Cut(long, "The model is offered")
	assert.NotContains(t, head, "faster")
	assert.Equal(t, short[strings.Index(short, "The ledger"):strings.Index(short, "The mistakes")],
		long[strings.Index(long, "The ledger"):strings.Index(long, "The mistakes")])
}

func TestFlags(t *testing.T) {
	const usage = "usage: agentloop [-seed N] [-real]\n"
	for name, c := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"unknown":    {[]string{"-slow"}, 2, "flag provided but not defined: -slow\n" + usage},
		"a value":    {[]string{"-seed=x"}, 2, `invalid value "x" for flag -seed: parse error` + "\n" + usage},
		"an operand": {[]string{"-real", "7"}, 2, `agentloop takes no arguments, only flags: ["7"]` + "\n" + usage},
		"help":       {[]string{"-h"}, 0, usage},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			assert.Equal(t, c.status, run(t.Context(), c.args, &out, &errs))
			assert.Empty(t, out.String())
			assert.True(t, strings.HasPrefix(errs.String(), c.says), errs.String())
		})
	}
}

// brokenPipe takes nothing.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestOutputThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		assert.Equal(t, 1, run(t.Context(), nil, brokenPipe{}, &errs))
		assert.Equal(t, "agentloop: file already closed\n", errs.String())
	})
}

// The program fails when the ledger is not right, so that it cannot look right.
func TestLedgerThatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := newWorld(1, 1, &out)
		_, err := w.shop.gateway.post(posting{Ref: "by another way", Order: "ORD-1002", Cents: 2550})
		require.NoError(t, err)
		assert.EqualError(t, w.play(t.Context()), "orders that were not refunded exactly once, with one mail: 1")
		assert.Regexp(t, `ORD-1002 +\$25.50 +2 +\$51.00 +1   WRONG`, out.String())
	})
}
