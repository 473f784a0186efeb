package durable

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/toolexec/toolexec/benchmarks/internal/measure"
)

// A run of a moment: every path works, on every database that there is, and every row of the page is there.
func TestSection(t *testing.T) {
	var page strings.Builder
	o := Options{Passes: 1, Window: 20 * time.Millisecond, Records: 10_000, Jobs: 50, InFlight: 100, Progress: io.Discard}
	if err := Section(t.Context(), &page, o); err != nil {
		t.Fatal(err)
	}
	rows := []string{"| D1 | ", "| D3 | sqlite", "| D5 | 100 operations", "| bare statements | ", "| **" + pathSaves + "** | ", "| **" + pathWrite + "** | ", "| " + measure.Number(1_000) + " | ", "| " + measure.Number(10_000) + " | "}
	if missing := absent(t.Context()); missing != nil {
		t.Logf("no PostgreSQL answers; TOOLEXEC_POSTGRES is where to look for one: %v", missing)
		rows = append(rows, "No PostgreSQL answered")
	} else {
		rows = append(rows, "| D2 | ", "| D3 | postgresql", "| D4 | ", "| "+pathDBOS+" | ", "| "+pathRiver+" | ", "| "+pathDrain+" | ")
	}
	for _, want := range rows {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
	if strings.Contains(page.String(), "NaN") || strings.Contains(page.String(), "| – ") {
		t.Errorf("a figure is missing:\n%s", page.String())
	}
}

// An interrupted run ends, and leaves no database behind.
func TestSectionStops(t *testing.T) {
	if missing := absent(t.Context()); missing != nil {
		t.Skipf("no PostgreSQL answers; TOOLEXEC_POSTGRES is where to look for one: %v", missing)
	}
	for _, during := range []string{"postgresql 1", ", 1000 records"} {
		ctx, cancel := context.WithCancel(t.Context())
		o := Options{
			Passes: 1, Window: 20 * time.Millisecond, Records: 1_000, Jobs: 50, InFlight: 100,
			Progress: writer(func(line string) {
				if strings.HasPrefix(line, "postgresql") && strings.Contains(line, during) {
					cancel()
				}
			}),
		}
		if err := Section(ctx, io.Discard, o); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", during, err)
		}
		cancel()
	}
	admin, err := sql.Open("pgx", postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	var left int
	if err := admin.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_database WHERE starts_with(datname, $1)", prefix).Scan(&left); err != nil || left > 0 {
		t.Errorf("%d databases are left (%v)", left, err)
	}
}

type writer func(line string)

func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

// Where no server answers, the page says so and has the rest.
func TestWithoutPostgres(t *testing.T) {
	was := postgres
	postgres = "postgres://nobody@127.0.0.1:1/none?sslmode=disable"
	defer func() { postgres = was }()
	var page strings.Builder
	if err := Section(context.Background(), &page, Options{Passes: 1, Window: time.Millisecond, Records: 1_000, InFlight: 100, Progress: io.Discard}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"No PostgreSQL answered", "| **" + pathWrite + "** | "} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
}
