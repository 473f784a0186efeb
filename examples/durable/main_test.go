package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("DURABLE_ROLE"); role != "" { // the agent, started by the test
		if err := agent(context.Background(), os.Stdout, os.Getenv("DURABLE_FILE"), os.Getenv("DURABLE_GATEWAY"), role); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const want = `first:   calls process_refund
gateway: rcpt_1 posted for process_refund:ORD-5510, $80.00; the answer is on its way
first:   killed
second:  calls process_refund
second:  OPERATION_IN_PROGRESS, unknown, wait_and_retry
second:  waits until it is known
second:  OK, committed by lookup: {"id":"rcpt_1"}
second:  calls once more: OK, committed, replayed true: rcpt_1
ledger:  refunds 1, total $80.00
`

func TestShow(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer out.Close()
	require.NoError(t, show(out))
	got, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	assert.Equal(t, want, string(got))
}
