package crash

import (
	"bytes"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

var (
	kills = flag.Int("kills", 20, "how many processes are killed at least, one at a time on a file, and half as many of two at once")
	seed  = flag.Uint64("seed", 0, "of the schedules; 0: another one each time")
)

const jobVariable = "TOOLEXEC_CRASH_JOB"

func TestMain(m *testing.M) {
	if encoded := os.Getenv(jobVariable); encoded != "" {
		if err := runChild(encoded); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// tally is what all worlds of a test came to.
type tally struct {
	mu                                   sync.Mutex // protects what follows
	worlds, operations, duplicates, lost int
	wrong, unresolved, escalated         int
	killed                               map[string]int
	problems                             []string
}

func (t *tally) String() string {
	total := 0
	for _, n := range t.killed {
		total += n
	}
	s := fmt.Sprintf("%d worlds, %d operations, %d kills: %d duplicates, %d lost, %d told wrong, %d unresolved; %d with a person because the verifier was down for good\n",
		t.worlds, t.operations, total, t.duplicates, t.lost, t.wrong, t.unresolved, t.escalated)
	for _, p := range slices.Sorted(maps.Keys(t.killed)) {
		s += fmt.Sprintf("  killed %-28s %5d\n", p, t.killed[p])
	}
	return s
}

func (t *tally) kills() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.killed {
		n += k
	}
	return n
}

// TestCrash: one process at a time on a database.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash(t, 1)
}

// TestCrashTwoProcesses: two at once on one file, both with all the steps.
func TestCrashTwoProcesses(t *testing.T) {
	t.Parallel()
	crash(t, 2)
}

// parallel worlds spend most of their time waiting for leases to end.
const parallel = 40

func crash(t *testing.T, processes int) {
	want := *kills / processes
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	all := &tally{killed: map[string]int{}}
	var next sync.Mutex // protects n
	n := uint64(0)
	var running sync.WaitGroup
	for range min(parallel/processes, 1+want/5) {
		running.Go(func() {
			for all.kills() < want && !t.Failed() {
				next.Lock()
				n++
				world := first + n
				next.Unlock()
				runWorld(t, world, processes, all)
			}
		})
	}
	running.Wait()
	t.Logf("seed %d\n%s", first, all)
	for _, p := range all.problems {
		t.Error(p)
	}
	assert.Zero(t, all.duplicates, "duplicates")
	assert.Zero(t, all.lost, "told committed, and nothing happened")
	assert.Zero(t, all.wrong, "told not_committed, and it happened")
	assert.Zero(t, all.unresolved, "unresolved")
	if want >= 500 {
		for _, p := range points {
			assert.NotZero(t, all.killed[p], "nothing was killed %s", p)
		}
	}
}

// runWorld kills the processes of one world several times, and lets the last
// ones finish.
func runWorld(t *testing.T, seed uint64, processes int, all *tally) {
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	l := &ledger{
		kind: []verifierKind{verifierGood, verifierSlow, verifierEarly, verifierFlaky, verifierDown}[rng.IntN(5)],
		rng:  rand.New(rand.NewPCG(seed, 2)), dedupe: map[string]bool{toolDedupe: true},
		effects: map[string][]effect{}, kill: map[string]func(){}, lethal: map[string]trap{},
	}
	server := httptest.NewServer(l.handler())
	defer server.Close()
	file := filepath.Join(dir, "records.db")
	var steps []step
	for i := range 2 + rng.IntN(6) {
		steps = append(steps, step{ID: fmt.Sprintf("step_%d", i), Tool: tools[rng.IntN(len(tools))]})
	}
	killed := map[string]int{}
	lives := 6 + rng.IntN(8)
	for life := range lives + 1 {
		last := life == lives
		l.mu.Lock()
		l.calm = last
		l.mu.Unlock()
		done := l.finished()
		var left []step
		for _, s := range steps {
			if !done[s.ID] || last {
				left = append(left, s)
			}
		}
		var living sync.WaitGroup
		var mu sync.Mutex // protects killed
		for p := range processes {
			j := job{
				File: file, Ledger: server.URL, Name: fmt.Sprintf("%d.%d", life, p), Steps: left, Last: last,
				Patient: last || rng.IntN(8) == 0, Checks: -1,
			}
			if l.kind == verifierDown {
				j.Checks = 4
			}
			if !last {
				j.Point = points[rng.IntN(len(points))]
				j.Visit = 1 + rng.IntN(3)
				if j.Point == atRandom {
					j.Visit = rng.IntN(250)
				}
			}
			living.Go(func() {
				if live(t, l, j) {
					mu.Lock()
					killed[j.Point]++
					mu.Unlock()
				}
			})
		}
		living.Wait()
		if t.Failed() {
			return
		}
	}
	l.pending.Wait()
	all.add(t, seed, l, file, steps, killed)
}

// live starts a process and waits for its end. It reports whether it was
// killed.
func live(t *testing.T, l *ledger, j job) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), jobVariable+"="+j.encode())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if !assert.NoError(t, cmd.Start()) {
		return false
	}
	l.mu.Lock()
	l.kill[j.Name] = func() { _ = cmd.Process.Kill() }
	l.lethal[j.Name] = trap{point: j.Point, visit: j.Visit}
	l.mu.Unlock()
	err := cmd.Wait()
	if ctx.Err() != nil {
		assert.Fail(t, "a process did not end", "%+v\n%s", j, out.String())
		return false
	}
	if err == nil {
		return false // it had finished before it came to its point
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		assert.Fail(t, "a process failed", "code %d, %+v\n%s", code, j, out.String())
		return false
	}
	return true
}

// add judges a world that has come to rest.
func (t *tally) add(tt *testing.T, seed uint64, l *ledger, file string, steps []step, killed map[string]int) {
	records := allRecords(tt, file)
	duplicates, lost, wrong := l.judge()
	done := l.finished()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.worlds++
	t.operations += len(steps)
	t.duplicates += duplicates
	t.lost += lost
	t.wrong += wrong
	for p, n := range killed {
		t.killed[p] += n
	}
	say := func(format string, args ...any) {
		t.problems = append(t.problems, fmt.Sprintf("world %d, verifier %s: ", seed, l.kind)+fmt.Sprintf(format, args...))
	}
	for _, w := range l.wrong {
		say("%s", w)
	}
	for _, s := range steps {
		switch {
		case done[s.ID]:
		case l.kind == verifierDown:
			t.escalated++
		default:
			t.unresolved++
			say("%+v was never told a success", s)
		}
	}
	for _, r := range records {
		if r.State == toolexec.StateInFlight || r.State == toolexec.StateUnknown {
			t.unresolved++
			say("the record %s is left %s", r.Ref, r.State)
		}
	}
}

func allRecords(t *testing.T, file string) (all []toolexec.Record) {
	db, err := sql.Open("sqlite", file)
	require.NoError(t, err)
	defer db.Close()
	store, err := sqlstore.Open(t.Context(), db, sqlstore.SQLite, sqlstore.Options{})
	require.NoError(t, err)
	defer store.Close()
	q := toolexec.Query{}
	for {
		page, next, err := store.List(t.Context(), q)
		require.NoError(t, err)
		all = append(all, page...)
		if next == (toolexec.Cursor{}) {
			return all
		}
		q.After = next
	}
}
