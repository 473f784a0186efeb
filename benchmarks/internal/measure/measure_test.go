package measure

import (
	"context"
	"errors"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	for _, row := range []struct {
		values []float64
		want   Spread
		text   string
	}{
		{[]float64{3, 1, 2}, Spread{2, 1, 3}, "2 (1 to 3)"},
		{[]float64{4, 1, 2, 3}, Spread{2.5, 1, 4}, "2.50 (1 to 4)"},
		{[]float64{7}, Spread{7, 7, 7}, "7 (7 to 7)"},
	} {
		got := SpreadOf(row.values...)
		if got != row.want || got.String() != row.text || !got.Known() {
			t.Errorf("%v: %+v, %s", row.values, got, got)
		}
	}
	if none := SpreadOf(); none.Known() || none.String() != "– (– to –)" {
		t.Errorf("no values: %s", none)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 2: "2", -1: "-1", 0.6: "0.600", 0.03124: "0.0312", 9.994: "9.99", 12: "12", 12.04: "12.0", 999.6: "1\u00a0000", 1234.5: "1\u00a0234",
		259588: "259\u00a0588", 1e6: "1\u00a0000\u00a0000", -123456: "-123\u00a0456", 1e-9: "0.000000", math.Inf(1): "–",
	} {
		if got := Number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	spread := Spread{Median: 2, Min: 1, Max: 3}
	for _, row := range []struct {
		aim        Aim
		text, want string
	}{
		{AtMost(3), "≤ 3", "yes"},
		{AtMost(2.5), "≤ 2.5", "yes, not in each pass"},
		{AtMost(1.5), "≤ 1.5", "**no**, in some passes"},
		{AtMost(0.6), "≤ 0.6", "**no**"},
		{AtLeast(1), "≥ 1", "yes"},
		{AtLeast(2), "≥ 2", "yes, not in each pass"},
		{AtLeast(2.5), "≥ 2.5", "**no**, in some passes"},
		{AtLeast(5000), "≥ 5\u00a0000", "**no**"},
	} {
		if got := row.aim.Verdict(spread); got != row.want || row.aim.String() != row.text {
			t.Errorf("%s: %s, want %s", row.aim, got, row.want)
		}
	}
}

func TestBar(t *testing.T) {
	for _, row := range []struct {
		v    float64
		want string
	}{
		{0, ""}, {math.NaN(), ""}, {1, strings.Repeat("█", 20)}, {2, strings.Repeat("█", 20)}, {0.5, strings.Repeat("█", 10)},
		{0.001, "▏"}, {0.025, "▌"}, {0.12, "██▍"},
	} {
		if got := Bar(row.v, 1); got != row.want {
			t.Errorf("%v: %s, want %s", row.v, got, row.want)
		}
	}
}

func TestTable(t *testing.T) {
	table := NewTable("path", "ns", "note", "bar", "none")
	table.Row("a|b", 12, "≤ 1", "")
	table.Row("c", "1.5 (1 to 2)", "", "█", "")
	var out strings.Builder
	table.Print(&out)
	const want = `| path | ns | note | bar | none |
| --- | ---: | --- | --- | --- |
| a\|b | 12 | ≤ 1 |  |  |
| c | 1.5 (1 to 2) |  | █ |  |

`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

// A ratio is that of two samples of one pass.
func TestRatio(t *testing.T) {
	var s Samples
	for pass := range 3 {
		slow := math.Pow(10, float64(pass)) // the machine, not the path
		s.Add("of", Sample{Ns: slow * float64(2+pass), Bytes: 100, Allocs: int64(pass), Extra: map[string]float64{"ops/s": 5}})
		s.Add("to", Sample{Ns: slow * 2})
	}
	for _, row := range []struct {
		name      string
		got, want Spread
	}{
		{"ratio", s.Ratio("of", "to"), Spread{1.5, 1, 2}},
		{"ns", s.Ns("of"), Spread{30, 2, 400}},
		{"bytes", s.Bytes("of"), Spread{100, 100, 100}},
		{"allocs", s.Allocs("of"), Spread{1, 0, 2}},
		{"ops", s.Extra("of", "ops/s"), Spread{5, 5, 5}},
	} {
		if row.got != row.want {
			t.Errorf("%s: %+v, want %+v", row.name, row.got, row.want)
		}
	}
	if got := strings.Join(s.Names(), " "); got != "of to" {
		t.Errorf("the paths are %s", got)
	}
	if s.Ratio("of", "neither").Known() {
		t.Error("a ratio to nothing is known")
	}
}

func TestRunTakesTurns(t *testing.T) {
	var turns []string
	path := func(name string) Path {
		return Path{Name: name, Run: func(b *testing.B) {
			turns = append(turns, name)
			b.ReportAllocs()
			for b.Loop() {
			}
			b.ReportMetric(3, "things")
		}}
	}
	var asked time.Duration
	b := path("b")
	b.Time = func(benchtime time.Duration) time.Duration { asked = benchtime; return 1 }
	var s Samples
	if err := s.Run(t.Context(), []Path{path("a"), b}, 2, time.Millisecond, io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(turns, ""); got != "abab" || asked != time.Millisecond {
		t.Errorf("the turns are %s, the time %s", got, asked)
	}
	for _, name := range s.Names() {
		if list := s.Of(name); len(list) != 2 || list[0].N < 1 || list[0].Ns <= 0 || list[0].Extra["things"] != 3 {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

func TestRunEnds(t *testing.T) {
	var s Samples
	failing := Path{Name: "p", Run: func(b *testing.B) { b.FailNow() }}
	if err := s.Run(t.Context(), []Path{failing}, 1, time.Millisecond, io.Discard); err == nil || err.Error() != `the path "p" failed` {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx, []Path{failing}, 1, time.Millisecond, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestBenchmarkLine(t *testing.T) {
	procs := ""
	if n := runtime.GOMAXPROCS(0); n > 1 {
		procs = "-" + strconv.Itoa(n)
	}
	got := BenchmarkLine("BenchmarkPaths", "Write, new ref", Sample{N: 7, Ns: 1234.5, Bytes: 8, Allocs: 9, Extra: map[string]float64{"b/s": 2, "a/s": 1}})
	want := "BenchmarkPaths/Write,_new_ref" + procs + "\t7\t1234.5 ns/op\t1 a/s\t2 b/s\t8 B/op\t9 allocs/op"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProcessor(t *testing.T) {
	for _, row := range []struct{ info, want string }{
		{"processor\t: 0\nmodel name\t: A Processor\n\nmodel name\t: Another\n", "A Processor"},
		{"processor\t: 0\nmodel name\t:\n", runtime.GOARCH},
		{"", runtime.GOARCH},
	} {
		if got := processor(row.info); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}
