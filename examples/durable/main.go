// Command durable refunds an order with records in an SQLite file, is killed
// with SIGKILL when the gateway has posted the refund and not answered yet, is
// started again on the same file, and finds out what happened instead of
// refunding twice:
//
//	go run .
//
// The agent is a process of its own: this program, started again.
package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	var err error
	if role := os.Getenv("DURABLE_ROLE"); role != "" {
		err = agent(context.Background(), os.Stdout, os.Getenv("DURABLE_FILE"), os.Getenv("DURABLE_GATEWAY"), role)
	} else {
		err = show(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "durable:", err)
		os.Exit(1)
	}
}

// show runs the gateway, and the agent twice. They write to the same file, so
// that their lines come in the order in which they were written.
func show(out *os.File) error {
	dir, err := os.MkdirTemp("", "durable")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	g := &gateway{out: out}
	server := httptest.NewServer(g)
	defer server.Close()
	defer g.stop()

	first := process(out, filepath.Join(dir, "records.db"), server.URL, "first")
	g.onPost = func() { _ = first.Process.Kill() } // before it can answer
	if err := first.Start(); err != nil {
		return err
	}
	if err := first.Wait(); err == nil {
		return fmt.Errorf("the first agent was not killed")
	}
	fmt.Fprintln(out, "first:   killed")
	if err := process(out, filepath.Join(dir, "records.db"), server.URL, "second").Run(); err != nil {
		return fmt.Errorf("the second agent: %w", err)
	}
	g.print()
	return nil
}

// process is an agent on a file of records.
func process(out *os.File, file, gateway, role string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), os.Args[0]) //nolint:gosec // itself, in another role
	cmd.Env = append(os.Environ(), "DURABLE_ROLE="+role, "DURABLE_FILE="+file, "DURABLE_GATEWAY="+gateway)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	return cmd
}
