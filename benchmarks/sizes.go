package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/benchmarks/internal/measure"
)

// sized is how many bytes the JSON of a result has.
type sized int

var sizes = []sized{100, 1_000, 10_000, 100_000, 1_000_000}

func (s sized) String() string {
	switch {
	case s >= 1_000_000:
		return measure.Number(float64(s)/1e6) + " MB"
	case s >= 1_000:
		return measure.Number(float64(s)/1e3) + " KB"
	default:
		return measure.Number(float64(s)) + " B"
	}
}

// of names a path whose result has this size.
func (s sized) of(path string) string { return path + ", " + s.String() }

const pathMarshalResult = "json.Marshal of the result"

func sizePaths() []measure.Path {
	var out []measure.Path
	for _, s := range sizes {
		out = append(out,
			measure.Path{Name: s.of(pathMarshalResult), Run: s.marshal},
			measure.Path{Name: s.of(pathWrite), Run: s.write},
			measure.Path{Name: s.of(pathReplay), Run: s.replay},
			measure.Path{Name: s.of(pathByName), Run: s.byName},
		)
	}
	return out
}

type document struct {
	Text string `json:"text"`
}

func (s sized) document() document {
	return document{strings.Repeat("a", int(s)-len(`{"text":""}`))}
}

// tool is one with such a result, which records keep however large it is.
func (s sized) tool(effect toolexec.Effect) toolexec.Tool[input, document] {
	out := s.document()
	return toolexec.Tool[input, document]{
		Name: call.Name, Effect: effect, MaxResult: 2 * int(s),
		Run: func(context.Context, input) (document, error) { return out, nil },
	}
}

func (s sized) marshal(b *testing.B) {
	out := s.document()
	b.ReportAllocs()
	for b.Loop() {
		wire, err := json.Marshal(&out)
		must(b, err == nil && len(wire) == int(s))
	}
}

func (s sized) write(b *testing.B) {
	t := toolexec.Bind(&toolexec.Executor{Store: forgetful()}, s.tool(toolexec.Write))
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		must(b, t.Call(toolexec.WithOperationRef(context.Background(), ref(n)), in).OK)
	}
}

func (s sized) replay(b *testing.B) {
	t := toolexec.Bind(new(toolexec.Executor), s.tool(toolexec.Write))
	ctx := toolexec.WithOperationRef(context.Background(), ref(1))
	must(b, t.Call(ctx, in).OK)
	b.ReportAllocs()
	for b.Loop() {
		env := t.Call(ctx, in)
		must(b, env.Replayed && len(env.Result.Text) > 0)
	}
}

func (s sized) byName(b *testing.B) {
	x := new(toolexec.Executor)
	toolexec.Bind(x, s.tool(toolexec.ReadOnly))
	b.ReportAllocs()
	for b.Loop() {
		env := x.Execute(context.Background(), call)
		wire, err := env.AppendJSON(nil)
		must(b, err == nil && len(wire) > int(s))
	}
}
