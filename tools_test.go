package toolexec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

//go:generate go test -run ^TestToolShapes$ . -update

// shopOrder and its like are the inputs of a small shop's tools.
type shopOrder struct {
	OrderID string           `json:"order_id"          jsonschema:"the order, as printed on its receipt"`
	Lines   []shopLine       `json:"lines,omitempty"`
	Gift    *bool            `json:"gift,omitempty"`
	Weight  float64          `json:"weight,omitempty"`
	Stock   map[string]int16 `json:"stock,omitempty"`
}

type shopLine struct {
	SKU      string `json:"sku"`
	Quantity uint8  `json:"quantity" jsonschema:"pieces, not boxes"`
}

type shopRefund struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
	Reason  string `json:"reason"`
}

type shopDone struct {
	ID string `json:"id"`
}

// A schema of the author's own, with members in no special order, a character that HTML escapes, and a number wider than
// a float.
const refundSchema = `{
  "type": "object",
  "required": ["order_id", "cents", "reason"],
  "properties": {
    "reason":   {"enum": ["damaged", "late", "returned"], "description": "why: \"late\" means > 3 days"},
    "order_id": {"type": "string", "pattern": "^ORD-[0-9]{4}$"},
    "cents":    {"type": "integer", "minimum": 1, "maximum": 10000000000000001}
  },
  "additionalProperties": false
}`

const orderResultSchema = `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`

// newShop binds one tool of each kind, not in the order of their names.
func newShop() *toolexec.Executor {
	x := new(toolexec.Executor)
	toolexec.Bind(x, toolexec.Tool[shopRefund, shopDone]{
		Name: "refund_order", Description: "Refund an order once.", Run: answerShop[shopRefund],
		InputSchema: json.RawMessage(refundSchema), Approval: &toolexec.Approval[shopRefund]{}, VerificationTool: "find_order",
	})
	toolexec.Bind(x, toolexec.Tool[shopOrder, shopDone]{
		Name: "find_order", Description: "Find an order.", Run: answerShop[shopOrder],
		Effect: toolexec.ReadOnly, OutputSchema: json.RawMessage(orderResultSchema),
	})
	toolexec.Bind(x, toolexec.Tool[shopOrder, shopDone]{
		Name: "save_order", Description: "Save an order.", Run: answerShop[shopOrder],
		Effect: toolexec.Idempotent, Approval: &toolexec.Approval[shopOrder]{TTL: -1},
	})
	toolexec.Bind(x, toolexec.Tool[struct{}, shopDone]{Name: "close_shop", Run: answerShop[struct{}]})
	key := func(shopLine) string { return "key" }
	toolexec.Bind(x, toolexec.Tool[shopLine, shopDone]{Name: "set_stock", Run: answerShop[shopLine], Effect: toolexec.Idempotent, Ref: key})
	toolexec.Bind(x, toolexec.Tool[shopLine, shopDone]{Name: "ship_line", Run: answerShop[shopLine], Ref: key})
	toolexec.Bind(x, toolexec.Tool[shopLine, shopDone]{
		Name: "order_stock", Run: answerShop[shopLine], Effect: toolexec.Idempotent, Ref: key, DedupeWindow: time.Hour,
	})
	return x
}

func answerShop[In any](context.Context, In) (shopDone, error) { return shopDone{ID: "done"}, nil }

func TestTools(t *testing.T) {
	list := newShop().Tools()
	require.Len(t, list, 7)
	for i := range list { // the texts have tests of their own
		assert.NotEmpty(t, list[i].InputSchema, list[i].Name)
		list[i].InputSchema = nil
	}
	assert.Equal(t, []toolexec.ToolInfo{
		{Name: "close_shop", Effect: toolexec.Write, Destructive: true},
		{
			Name: "find_order", Description: "Find an order.", OutputSchema: json.RawMessage(orderResultSchema),
			Effect: toolexec.ReadOnly, ReadOnly: true, Idempotent: true,
		},
		{Name: "order_stock", Effect: toolexec.Idempotent, Destructive: true},
		{
			Name: "refund_order", Description: "Refund an order once.",
			Effect: toolexec.Write, Destructive: true, NeedsApproval: true, VerificationTool: "find_order",
		},
		{Name: "save_order", Description: "Save an order.", Effect: toolexec.Idempotent, Destructive: true, NeedsApproval: true},
		{Name: "set_stock", Effect: toolexec.Idempotent, Idempotent: true, Destructive: true},
		{Name: "ship_line", Effect: toolexec.Write, Destructive: true},
	}, list)

	var none toolexec.Executor
	assert.Empty(t, none.Tools())
}

// What is listed for a caller is what its calls may name.
func TestToolsAllowed(t *testing.T) {
	all := []string{"close_shop", "find_order", "order_stock", "refund_order", "save_order", "set_stock", "ship_line"}
	for name, tt := range map[string]struct{ allowed, want []string }{
		"nil is all":         {nil, all},
		"empty is none":      {[]string{}, nil},
		"one":                {[]string{"save_order"}, []string{"save_order"}},
		"in order of names":  {[]string{"save_order", "close_shop"}, []string{"close_shop", "save_order"}},
		"unknown is skipped": {[]string{"drop_tables", "find_order", ""}, []string{"find_order"}},
		"only unknown":       {[]string{"drop_tables"}, nil},
		"twice is once":      {[]string{"find_order", "find_order"}, []string{"find_order"}},
		"not a prefix":       {[]string{"find", "FIND_ORDER"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := newShop()
			assert.Equal(t, tt.want, namesOf(x.Tools(tt.allowed...)))

			var usable []string
			for _, tool := range all {
				e := x.Execute(t.Context(), toolexec.Call{Name: tool, Arguments: json.RawMessage(`[]`), Allowed: tt.allowed})
				if e.Class != toolexec.ClassUnknownTool {
					usable = append(usable, tool)
				}
			}
			assert.Equal(t, usable, namesOf(x.Tools(tt.allowed...)), "listed and usable differ")
		})
	}
	assert.Equal(t, all, namesOf(newShop().Tools()), "no argument is all")
}

func namesOf(list []toolexec.ToolInfo) (names []string) {
	for _, i := range list {
		names = append(names, i.Name)
	}
	return names
}

// Listing is safe while tools are added. (The race detector judges.)
func TestToolsWhileBinding(t *testing.T) {
	x := newShop()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			toolexec.Bind(x, toolexec.Tool[shopLine, shopDone]{Name: "zz" + strconv.Itoa(i), Run: answerShop[shopLine]})
		})
		wg.Go(func() { assert.GreaterOrEqual(t, len(x.Tools()), 4) })
	}
	wg.Wait()
	assert.Len(t, x.Tools(), 15)
}

// What a caller does to what it was given does not reach what is enforced, nor what the next one is given.
func TestToolsAreTheCallersOwn(t *testing.T) {
	given := []byte(refundSchema)
	x := new(toolexec.Executor)
	toolexec.Bind(x, toolexec.Tool[shopRefund, shopDone]{Name: "refund_order", Run: answerShop[shopRefund], InputSchema: given, OutputSchema: []byte(orderResultSchema)})
	want, err := json.Marshal(x.Tools())
	require.NoError(t, err)
	for _, i := range x.Tools() {
		clear(i.InputSchema)
		clear(i.OutputSchema)
		_ = append(i.InputSchema[:0], `{"type":"string"}`...)
	}
	clear(given)

	got, err := json.Marshal(x.Tools())
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
	e := x.Execute(t.Context(), toolexec.Call{Name: "refund_order", Arguments: json.RawMessage(`{"order_id":"1","cents":1,"reason":"late"}`)})
	require.Len(t, e.FieldErrors, 1)
	assert.Equal(t, "/order_id: pattern", e.FieldErrors[0].Pointer+": "+e.FieldErrors[0].Rule)
	e = x.Execute(t.Context(), toolexec.Call{Name: "refund_order", Arguments: json.RawMessage(`{"order_id":"ORD-5510","cents":1,"reason":"late"}`)})
	assert.True(t, e.OK)
	assert.JSONEq(t, `{"id":"done"}`, string(e.Result))
}

// A schema of the author's own comes back as it was written: every member, in its order, every number in its digits.
// Only white space is not kept.
func TestToolSchemaIsTheAuthors(t *testing.T) {
	var want bytes.Buffer
	require.NoError(t, json.Compact(&want, []byte(refundSchema)))
	info := newShop().Tools("refund_order")[0]
	assert.Equal(t, want.String(), string(info.InputSchema))
	assert.Equal(t, orderResultSchema, string(newShop().Tools("find_order")[0].OutputSchema))
}

// The schema that a model is shown and the one that is enforced are the same: another library that knows only what is
// listed refuses what the executor refuses, and nothing else.
func TestToolSchemaIsTheEnforcedOne(t *testing.T) {
	inputs := map[string][]string{
		"find_order":   variants(t, `{"order_id":"ORD-5510","lines":[{"sku":"A","quantity":2}],"gift":true,"weight":1.5,"stock":{"A":3}}`),
		"save_order":   variants(t, `{"order_id":"ORD-5510","lines":[{"sku":"A","quantity":2}],"gift":null,"weight":2,"stock":{}}`),
		"refund_order": variants(t, `{"order_id":"ORD-5510","cents":8000,"reason":"late"}`),
		"close_shop":   variants(t, `{}`),
		"set_stock":    variants(t, `{"sku":"A","quantity":2}`),
		"order_stock":  variants(t, `{"sku":"A","quantity":2}`),
		"ship_line":    variants(t, `{"sku":"A","quantity":2}`),
	}
	x := newShop()
	for _, info := range x.Tools() {
		t.Run(info.Name, func(t *testing.T) {
			listed := compileListed(t, info.InputSchema)
			var accepted, refused int
			for _, raw := range inputs[info.Name] {
				var v any
				require.NoError(t, json.Unmarshal([]byte(raw), &v), raw)
				err := listed.Validate(v)
				e := x.Execute(t.Context(), toolexec.Call{Name: info.Name, Arguments: json.RawMessage(raw)})
				malformed := e.Class == toolexec.ClassMalformed
				assert.Equal(t, err != nil, malformed, "%s\nby what is listed: %v\nby the executor: %v", raw, err, e.FieldErrors)
				if malformed {
					refused++
				} else {
					accepted++
				}
			}
			assert.NotZero(t, accepted, "nothing was accepted")
			assert.Greater(t, refused, 10, "hardly anything was refused")
		})
	}
}

func compileListed(t *testing.T, raw json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	require.NoError(t, json.Unmarshal(raw, &s))
	r, err := s.Resolve(nil)
	require.NoError(t, err)
	return r
}

// strange values stand where they fit and where they do not.
var strange = []string{
	`null`, `true`, `0`, `-1`, `1`, `1.0`, `1.5`, `255`, `256`, `32767`, `32768`, `-32769`, `1e2`, `""`, `"late"`, `"ORD-1234"`, `"x"`,
	`[]`, `[1]`, `[null]`, `[{}]`, `[{"sku":"B","quantity":255}]`, `{}`, `{"A":1}`, `{"A":40000}`, `{"sku":"B"}`,
}

// variants returns good and what becomes of it when each part of it in turn is replaced by each strange value, removed,
// or given a member that nobody knows.
func variants(t *testing.T, good string) []string {
	t.Helper()
	var doc any
	require.NoError(t, json.Unmarshal([]byte(good), &doc))
	out := []string{good}
	show := func() {
		raw, err := json.Marshal(doc)
		require.NoError(t, err)
		out = append(out, string(raw))
	}
	change(doc, func(v any) { doc = v }, show)
	return out
}

// change makes every single change to v, which put stores, shows each and takes it back.
func change(v any, put func(any), show func()) {
	for _, s := range strange {
		put(json.RawMessage(s))
		show()
	}
	put(v)
	switch v := v.(type) {
	case map[string]any:
		for k, member := range v {
			change(member, func(n any) { v[k] = n }, show)
			delete(v, k)
			show()
			v[k] = member
		}
		v["unheard_of"] = 1
		show()
		delete(v, "unheard_of")
	case []any:
		for i, item := range v {
			change(item, func(n any) { v[i] = n }, show)
		}
	}
}

// What an adapter's author writes for each provider. Struct fields are in the order of the provider's documentation.

type openAIFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"` // strict mode takes no optional members; responses assume it when it is not said
}

func openAI(t toolexec.ToolInfo) openAIFunction {
	return openAIFunction{Name: t.Name, Description: t.Description, Parameters: t.InputSchema}
}

// openAIChat makes the tools of a chat completion.
func openAIChat(list []toolexec.ToolInfo) any {
	type tool struct {
		Type     string         `json:"type"`
		Function openAIFunction `json:"function"`
	}
	out := make([]tool, len(list))
	for i, t := range list {
		out[i] = tool{"function", openAI(t)}
	}
	return map[string]any{"tools": out}
}

// openAIResponses makes the tools of a response.
func openAIResponses(list []toolexec.ToolInfo) any {
	type tool struct {
		Type string `json:"type"`
		openAIFunction
	}
	out := make([]tool, len(list))
	for i, t := range list {
		out[i] = tool{"function", openAI(t)}
	}
	return map[string]any{"tools": out}
}

// anthropicMessages makes the tools of a message.
func anthropicMessages(list []toolexec.ToolInfo) any {
	type tool struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"input_schema"`
	}
	out := make([]tool, len(list))
	for i, t := range list {
		out[i] = tool{t.Name, t.Description, t.InputSchema}
	}
	return map[string]any{"tools": out}
}

// mcpToolsList makes the result of tools/list.
func mcpToolsList(list []toolexec.ToolInfo) any {
	type annotations struct {
		ReadOnly    bool `json:"readOnlyHint"`
		Destructive bool `json:"destructiveHint"`
		Idempotent  bool `json:"idempotentHint"`
	}
	type tool struct {
		Name         string          `json:"name"`
		Description  string          `json:"description,omitempty"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
		Annotations  annotations     `json:"annotations"`
	}
	out := make([]tool, len(list))
	for i, t := range list {
		out[i] = tool{t.Name, t.Description, t.InputSchema, t.OutputSchema, annotations{t.ReadOnly, t.Destructive, t.Idempotent}}
	}
	return map[string]any{"tools": out}
}

// TestToolShapes holds what providers are sent. To write it: go generate .
func TestToolShapes(t *testing.T) {
	for name, shape := range map[string]func([]toolexec.ToolInfo) any{
		"openai_chat": openAIChat, "openai_responses": openAIResponses, "anthropic": anthropicMessages, "mcp": mcpToolsList,
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			require.NoError(t, enc.Encode(shape(newShop().Tools())))

			file := filepath.Join("testdata", "tools", name+".json")
			if updating() {
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
				require.NoError(t, os.WriteFile(file, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, string(want), got.String(), "run go generate .")
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "tools"))
	require.NoError(t, err)
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name()
	}
	assert.True(t, slices.Equal(names, []string{"anthropic.json", "mcp.json", "openai_chat.json", "openai_responses.json"}), "%v", names)
}

// updating reports whether the binary's -update flag, which a test inside the package declares, is set.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}
