package measure

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// Table is a Markdown table. A column of figures stands to the right.
type Table struct {
	head []string
	rows [][]string
}

// NewTable returns a table with these columns.
func NewTable(head ...string) *Table { return &Table{head: head} }

// Row appends a row; cells are strings, and anything else as fmt.Sprint has it.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(t.head))
	for i := range cells {
		row[i] = strings.ReplaceAll(fmt.Sprint(cells[i]), "|", `\|`)
	}
	t.rows = append(t.rows, row)
}

// Print writes the table and an empty line. What becomes of w is the caller's
// business.
func (t *Table) Print(w io.Writer) {
	rule := make([]string, len(t.head))
	for i := range rule {
		rule[i] = "---"
		if t.figures(i) {
			rule[i] = "---:"
		}
	}
	for _, row := range append([][]string{t.head, rule}, t.rows...) {
		_, _ = fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
	_, _ = fmt.Fprintln(w)
}

// figures reports whether each cell of a column begins with a digit, where it
// has anything.
func (t *Table) figures(column int) bool {
	some := false
	for _, row := range t.rows {
		if cell := row[column]; cell != "" {
			some = true
			if cell[0] < '0' || cell[0] > '9' {
				return false
			}
		}
	}
	return some
}

// barWidth is how many blocks a full bar has.
const barWidth = 20

// Bar draws v as a part of full, to an eighth of a block.
func Bar(v, full float64) string {
	if !(v > 0) || !(full > 0) {
		return ""
	}
	eighths := int(math.Round(8 * barWidth * min(1, v/full)))
	bar := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		r, _ := utf8.DecodeRuneInString("▏▎▍▌▋▊▉"[3*(rest-1):])
		bar += string(r)
	}
	if bar == "" {
		return "▏"
	}
	return bar
}
