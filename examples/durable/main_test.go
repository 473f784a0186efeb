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

func TestShow(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer func() { _ = out.Close() }()
	require.NoError(t, show(out))
	got, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join("testdata", "durable.golden"))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}
