// Package mappingpage reads the tables of docs/mapping.md, so that tests can run
// their rows. A row is known by the id in its first cell, and a table by what its
// ids begin with; the tests of one package own all rows of one prefix.
package mappingpage

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/toolexec/toolexec"
)

// Owners says whose tests run the rows of a prefix, as directories of the
// repository.
var Owners = map[string]string{
	"http":    "httptool",
	"wire":    "httptool",
	"go":      ".",
	"sql":     ".",
	"driver":  "internal/conformance/sqltool",
	"mysql":   "internal/conformance/sqltool",
	"sqltool": "sqltool",
}

// Row is a row of a table.
type Row struct {
	ID string
	// Codes are the code spans in its column signal, which name what is run where a
	// row is about several codes.
	Codes []string
	// Cells are what the row states of the signal, by the names of their columns. The
	// words of a row, in its columns signal and why, are not among them.
	Cells map[string]string
}

// Prefix is what the row's id begins with.
func (r Row) Prefix() string {
	prefix, _, _ := strings.Cut(r.ID, "-")
	return prefix
}

// Read returns the rows of a page in their order. A table belongs to the mapping
// if its first column is called id.
func Read(path string) (rows []Row, err error) {
	raw, err := os.ReadFile(path) //nolint:gosec // the page, as a test names it
	if err != nil {
		return nil, err
	}
	var header []string
	for i, line := range strings.Split(string(raw), "\n") {
		cells := Line(line)
		switch {
		case cells == nil:
			header = nil
		case header == nil:
			header = cells
		case header[0] != "id" || strings.Trim(cells[0], "-") == "":
		case len(cells) != len(header):
			return nil, fmt.Errorf("%s:%d: %d cells under %d columns", path, i+1, len(cells), len(header))
		default:
			rows = append(rows, rowOf(header, cells))
		}
	}
	return rows, nil
}

// Of returns the rows of a prefix, of which there must be some.
func Of(path, prefix string) (rows []Row, err error) {
	all, err := Read(path)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(all, func(r Row) bool { return r.Prefix() != prefix })
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no row of %s-…", path, prefix)
	}
	return rows, nil
}

// Match is Of for rows that each have a case of their name, where each case has a
// row: the error names those that have not.
func Match[T any](path, prefix string, cases map[string]T) (rows []Row, err error) {
	rows, err = Of(path, prefix)
	if err != nil {
		return nil, err
	}
	var missing []string
	seen := make(map[string]bool)
	for _, r := range rows {
		if _, ok := cases[r.ID]; !ok || seen[r.ID] {
			missing = append(missing, r.ID+" has no case of its own")
		}
		seen[r.ID] = true
	}
	for id := range cases {
		if !seen[id] {
			missing = append(missing, id+" has no row")
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, fmt.Errorf("%s: %s", path, strings.Join(missing, ", "))
	}
	return rows, nil
}

// Line returns the cells of a line of a table; nil if it is none.
func Line(line string) []string {
	line, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !ok {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

func rowOf(header, cells []string) Row {
	r := Row{ID: strings.Trim(cells[0], "`"), Cells: make(map[string]string)}
	for i, name := range header {
		switch name {
		case "id", "why":
		case "signal":
			for n, span := range strings.Split(cells[i], "`") {
				if n%2 == 1 {
					r.Codes = append(r.Codes, span)
				}
			}
		default:
			r.Cells[name] = strings.Trim(cells[i], "`")
		}
	}
	return r
}

// Column is what became of a row's signal under the tool that a column is about.
type Column[T any] struct {
	Name string
	Env  toolexec.Envelope[T]
}

// Cells are the cells that a row of these columns should have: the code, class
// and category, each as often as they differ, and of each column the commit state
// and the next action.
func Cells[T any](columns ...Column[T]) map[string]string {
	var code, class, category []string
	cells := make(map[string]string)
	for _, c := range columns {
		code = with(code, string(c.Env.Code))
		class = with(class, unless(c.Env.OK, c.Env.Class))
		category = with(category, unless(c.Env.OK, c.Env.Category))
		cells[c.Name] = fmt.Sprintf("%s, %s", c.Env.CommitState, c.Env.NextAction)
	}
	for name, all := range map[string][]string{"code": code, "class": class, "category": category} {
		cells[name] = strings.Join(all, " / ")
	}
	return cells
}

func with(all []string, s string) []string {
	if slices.Contains(all, s) {
		return all
	}
	return append(all, s)
}

// unless is the text of a word, or a dash for a success, which has none.
func unless(ok bool, word fmt.Stringer) string {
	if ok {
		return "–"
	}
	return word.String()
}
