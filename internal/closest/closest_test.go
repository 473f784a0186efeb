package closest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/toolexec/toolexec/internal/closest"
)

func TestNames(t *testing.T) {
	tools := []string{"search_orders", "process_refund", "get_invoice", "get_invoices", "send_mail", "list-users"}
	tests := map[string]struct {
		name  string
		known []string
		limit int
		want  []string
	}{
		"typo":              {"serch_orders", tools, 3, []string{"search_orders"}},
		"separators":        {"list_users", tools, 3, []string{"list-users"}},
		"case":              {"ProcessRefund", tools, 3, []string{"process_refund"}},
		"equal":             {"send_mail", tools, 3, []string{"send_mail"}},
		"best first":        {"get_invoic", tools, 3, []string{"get_invoice", "get_invoices"}},
		"limit":             {"get_invoic", tools, 1, []string{"get_invoice"}},
		"no limit":          {"get_invoic", tools, 0, nil},
		"negative limit":    {"get_invoic", tools, -1, nil},
		"swap is one":       {"abcd", []string{"abxx", "bacd"}, 1, []string{"bacd"}},
		"swap before two":   {"abcdefg", []string{"bacdegf", "abcdxyg", "bacdxyg"}, 5, []string{"abcdxyg", "bacdegf"}},
		"ties":              {"cat1", []string{"cat4", "cat3", "cat2"}, 2, []string{"cat2", "cat3"}},
		"contained":         {"refund", tools, 3, []string{"process_refund"}},
		"contains":          {"please_send_mail_now", tools, 3, []string{"send_mail"}},
		"contained, short":  {"get", []string{"get_some_invoice"}, 3, nil},
		"contained, four":   {"find", []string{"find_some_invoice"}, 3, []string{"find_some_invoice"}},
		"two letters":       {"ab", []string{"xy", "ba"}, 3, []string{"ba"}},
		"half":              {"abc", []string{"axy", "abx"}, 3, []string{"abx"}},
		"third of long":     {"abcdefghijkl", []string{"XXXXefghijkl", "XXXXXfghijkl"}, 3, []string{"XXXXefghijkl"}},
		"nothing alike":     {"launch_rocket", tools, 3, nil},
		"empty":             {"", tools, 3, nil},
		"only separators":   {"_-.", tools, 3, nil},
		"no known":          {"a", nil, 3, nil},
		"repeated":          {"send_mial", []string{"send_mail", "send_mail"}, 3, []string{"send_mail"}},
		"128 bytes":         {strings.Repeat("a", 128), []string{strings.Repeat("a", 127)}, 3, []string{strings.Repeat("a", 127)}},
		"129 bytes":         {strings.Repeat("a", 129), []string{strings.Repeat("a", 127)}, 3, nil},
		"long known":        {strings.Repeat("a", 128), []string{strings.Repeat("a", 129)}, 3, nil},
		"characters":        {"größe", []string{"GRÖßE_2", "grösse"}, 3, []string{"GRÖßE_2", "grösse"}},
		"insert and delete": {"abcdef", []string{"bcdefg"}, 3, []string{"bcdefg"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			known := slices.Clone(tt.known)
			assert.Equal(t, tt.want, closest.Names(tt.name, tt.known, tt.limit))
			assert.Equal(t, known, tt.known, "known is not written to")
		})
	}
}

func FuzzNames(f *testing.F) {
	f.Add("serch", "search", "find", 2)
	f.Add("\xff_", "", "ab", -1)
	f.Fuzz(func(t *testing.T, name, a, b string, limit int) {
		got := closest.Names(name, []string{a, b}, limit)
		if len(got) > max(limit, 0) {
			t.Fatalf("%d names, limit %d", len(got), limit)
		}
		for _, g := range got {
			if g != a && g != b {
				t.Fatalf("%q is not known", g)
			}
		}
	})
}

func BenchmarkNames(b *testing.B) {
	known := []string{"search_orders", "process_refund", "get_invoice", "get_invoices", "send_mail", "list-users"}
	b.ReportAllocs()
	for b.Loop() {
		closest.Names("serch_orders", known, 3)
	}
}
