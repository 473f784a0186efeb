package toolexec_test

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/internal/mappingpage"
)

// The Go blocks of README.md and docs/*.md are compiled in a module that
// requires this one, as a reader's would be:
//
//	a program (package main)   runs; the block after it, of text, is what it prints
//	a test (func Test…)        runs
//	declarations, statements   compile
//
// Other than the programs, the blocks of a section are one package, with what
// docGiven says is given.
//
// The tables of docs/errors.md are a test that is generated: see docTables.

// docGiven is what the snippets of a document may use without saying so: what
// the reader's program has.
var docGiven = map[string]string{
	"README.md": `
var (
	x     toolexec.Executor
	ctx   = context.Background()
	reply = func(text string, isError bool) {}
)
`,
	"docs/adopting.md": `
type RefundInput struct {
	OrderID string
	Cents   int
}

type Receipt struct {
	ID string
}

type Gateway struct{}

func (Gateway) Refund(context.Context, RefundInput) (Receipt, error)       { return Receipt{}, nil }
func (Gateway) FindByReference(context.Context, string) ([]Receipt, error) { return nil, nil }

// Step is a step of an agent's run.
type Step struct {
	Ref   string
	Input RefundInput
}

var (
	ctx      = context.Background()
	gateway  Gateway
	handlers = map[string]func(context.Context, json.RawMessage) (any, error){}
	reply    = func(string) {}
	branch   string // that was taken last

	succeed       = func(Step, Receipt) { branch = "succeed" }
	askModel      = func(Step, toolexec.Code, []toolexec.FieldError) { branch = "askModel" }
	schedule      = func(Step, time.Time) { branch = "schedule" }
	scheduleCheck = func(Step, time.Time) { branch = "scheduleCheck" }
	askPerson     = func(Step, toolexec.Code) { branch = "askPerson" }
	hold          = func(Step, toolexec.Code, string) { branch = "hold" }

	show      = func(string) {}
	bindTools = func(*toolexec.Executor) {}
	resume    = func(ref string, env toolexec.Envelope[json.RawMessage]) {}
)
`,
	"docs/errors.md": `
// What the rows of the tables and the snippets use.
var (
	err     = errors.New("as the client returned it")
	ctx     = context.Background()
	receipt = "rcpt_1"
	after   = time.Minute // what Retry-After says
)

// sqlState is the error of a driver for PostgreSQL.
type sqlState string

func (s sqlState) Error() string    { return "SQLSTATE " + string(s) }
func (s sqlState) SQLState() string { return string(s) }

// unsent and answered are errors of a client that says what it saw.
type unsent struct{ error }

func (unsent) NotSent() bool { return true }

type answered struct{ says *toolexec.Failure }

func (a answered) Error() string                     { return "refused" }
func (a answered) RequestFailure() *toolexec.Failure { return a.says }

// inner is another tool that fails with err, and charge is one too.
func inner(ctx context.Context, err error) (string, error) {
	var x toolexec.Executor
	return toolexec.Bind(&x, toolexec.Tool[string, string]{
		Name: "charge", Run: func(context.Context, string) (string, error) { return "", err },
	}).Func()(ctx, "ORD-5510")
}

func charge(ctx context.Context, order string) (string, error) { return inner(ctx, err) }
`,
}

// docImports are the packages that snippets use without importing them.
var docImports = []string{
	"context", "crypto/rand", "crypto/tls", "database/sql", "database/sql/driver", "encoding/json", "errors", "fmt", "io", "log/slog", "net", "net/http", "net/url",
	"os", "runtime", "slices", "strings", "sync", "sync/atomic", "syscall", "testing", "testing/synctest", "time",
	"github.com/toolexec/toolexec", "github.com/toolexec/toolexec/sqlstore", "github.com/toolexec/toolexec/toolexectest",
}

// TestDocuments compiles every Go block of the documents, runs the programs and
// tests among them, and the tables of docs/errors.md.
func TestDocuments(t *testing.T) {
	m := newDocModule(t)
	var programs []docProgram
	for _, path := range docPaths(t) {
		programs = append(programs, m.add(path, docBlocks(t, path))...)
	}
	m.write("tables/tables_test.go", docTables(t, "docs/errors.md"))
	m.run(t, "vet", "./...")
	m.run(t, "test", "./...")
	require.NotEmpty(t, programs)
	for _, p := range programs {
		t.Run(fmt.Sprintf("%s:%d", p.path, p.block.line), func(t *testing.T) {
			assert.Equal(t, p.prints, m.run(t, "run", "./"+p.dir))
		})
	}
}

// TestDocumentsNameFiles finds every file that a document links to.
func TestDocumentsNameFiles(t *testing.T) {
	for _, path := range docPaths(t) {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(docFence.ReplaceAllString(string(raw), ""), -1) {
			if !strings.Contains(m[1], "://") {
				_, err := os.Stat(filepath.Join(filepath.Dir(path), m[1]))
				assert.NoError(t, err, path)
			}
		}
	}
}

func docPaths(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	return append([]string{"README.md"}, docs...)
}

// docBlock is a fenced block.
type docBlock struct {
	lang, text string
	line       int // of its first line of text
	section    int // how many headings of the second level stand before it
}

var (
	docFence   = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```\n") //nolint:gocritic // each ^ begins a line
	docPackage = regexp.MustCompile(`(?m)^package (\w+)$`)
	docTest    = regexp.MustCompile(`(?m)^func Test\w+\(t \*testing\.T\)`)
)

// docBlocks returns the blocks of a document.
func docBlocks(t *testing.T, path string) (blocks []docBlock) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(raw)
	for _, m := range docFence.FindAllStringSubmatchIndex(text, -1) {
		before := text[:m[4]]
		blocks = append(blocks, docBlock{text[m[2]:m[3]], text[m[4]:m[5]], 1 + strings.Count(before, "\n"), strings.Count(before, "\n## ")})
	}
	return blocks
}

func (b docBlock) isProgram() bool { return docPackage.FindString(b.text) == "package main" }
func (b docBlock) isTest() bool    { return docTest.MatchString(b.text) }

// isDeclarations: it can stand outside a function.
func (b docBlock) isDeclarations() bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+b.text, parser.SkipObjectResolution)
	return err == nil
}

// docModule is a module in a directory of its own that requires this one.
type docModule struct {
	t         *testing.T
	dir, root string
}

func newDocModule(t *testing.T) docModule {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	m := docModule{t, t.TempDir(), root}
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	_, requirements, _ := strings.Cut(string(mod), "\n")
	m.write("go.mod", "module example.com/reader\n"+requirements+
		"\nrequire github.com/toolexec/toolexec v0.0.0\n\nreplace github.com/toolexec/toolexec => "+root+"\n")
	sum, err := os.ReadFile("go.sum")
	require.NoError(t, err)
	m.write("go.sum", string(sum))
	return m
}

func (m docModule) write(name, text string) {
	m.t.Helper()
	name = filepath.Join(m.dir, name)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(name), 0o750))
	require.NoError(m.t, os.WriteFile(name, []byte(text), 0o600))
}

// run runs a go command in the module and returns what it prints.
func (m docModule) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = m.dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// docProgram is a block that runs, and what it must print.
type docProgram struct {
	path, dir, prints string
	block             docBlock
}

// add writes the Go blocks of a document and returns its programs.
func (m docModule) add(path string, blocks []docBlock) (programs []docProgram) {
	m.t.Helper()
	stem := strings.ToLower(strings.TrimSuffix(filepath.Base(path), ".md"))
	for i, b := range blocks {
		if b.lang != "go" {
			continue
		}
		formatted, err := format.Source([]byte(b.text))
		if assert.NoError(m.t, err, "%s:%d", path, b.line) {
			assert.Equal(m.t, string(formatted), b.text, "%s:%d is not formatted", path, b.line)
		}
		section := fmt.Sprintf("%s%d/", stem, b.section)
		file := fmt.Sprintf("%sline%d", section, b.line)
		at := fmt.Sprintf("//line %s:%d\n", filepath.Join(m.root, path), b.line)
		switch {
		case b.isProgram():
			if assert.True(m.t, i+1 < len(blocks) && blocks[i+1].lang == "text", "%s:%d: the block after a program is the text that it prints", path, b.line) {
				programs = append(programs, docProgram{path, file, blocks[i+1].text, b})
			}
			m.write(file+"/main.go", at+b.text)
			continue
		case b.isTest():
			m.write(file+"_test.go", docFile(at+b.text))
		case b.isDeclarations():
			m.write(file+".go", docFile(at+b.text))
		default:
			m.write(file+".go", docFile(docStatements(m.t, at, b.text)))
		}
		m.write(section+"given.go", docFile(docGiven[path]))
	}
	return programs
}

// docFile makes a file of declarations: what they use is imported, and what is
// named besides.
func docFile(declarations string, besides ...string) string {
	var imports strings.Builder
	for _, spec := range besides {
		imports.WriteString("import " + spec + "\n")
	}
	for _, path := range docImports {
		if regexp.MustCompile(`\b` + filepath.Base(path) + `\.[A-Z]`).MatchString(declarations) {
			fmt.Fprintf(&imports, "import %q\n", path)
		}
	}
	return "package snippet\n\n" + imports.String() + "\n" + declarations
}

// docStatements makes a function of statements: what they declare is used.
func docStatements(t *testing.T, at, statements string) string {
	t.Helper()
	const begin = "func _() {\n"
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+begin+statements+"\n}", parser.SkipObjectResolution)
	require.NoError(t, err, at)
	out := begin + at + statements
	for _, s := range f.Decls[0].(*ast.FuncDecl).Body.List { //nolint:forcetypeassert // it was just written
		for _, name := range docDeclared(s) {
			out += "_ = " + name + "\n"
		}
	}
	return out + "}\n"
}

// docDeclared are the variables that a statement declares.
func docDeclared(s ast.Stmt) (names []string) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		for _, e := range s.Lhs {
			if id, ok := e.(*ast.Ident); ok && s.Tok == token.DEFINE && id.Name != "_" {
				names = append(names, id.Name)
			}
		}
	case *ast.DeclStmt:
		for _, spec := range s.Decl.(*ast.GenDecl).Specs { //nolint:forcetypeassert // a DeclStmt holds nothing else
			if v, ok := spec.(*ast.ValueSpec); ok {
				for _, id := range v.Names {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names
}

// docColumns are the columns that say what becomes of a row's failure, and the
// facts that the tool in it declares.
var docColumns = map[string]string{
	"Write":                "",
	"Write, OneRequest":    "OneRequest: true",
	"Write, MarksSent":     "MarksSent: true",
	"Write, ErrorsMean":    "ErrorsMean: toolexec.EvidenceRejected",
	"Idempotent":           "Effect: toolexec.Idempotent",
	"ReadOnly":             "Effect: toolexec.ReadOnly",
	"ReadOnly, may be nil": "Effect: toolexec.ReadOnly, EmptyIsResult: true",
}

// docTables makes a test of the tables of a document that have a column
// "return": its cell is the error that a tool returns, or the body of the tool.
// The test runs it in each of docColumns that the table has, and compares all
// other cells with what it sees.
func docTables(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var columns, rows strings.Builder
	for name, facts := range docColumns {
		fmt.Fprintf(&columns, "%q: {%s},\n", name, facts)
	}
	var header []string
	n := 0
	for i, line := range strings.Split(string(raw), "\n") {
		cells := mappingpage.Line(line)
		switch {
		case cells == nil:
			header = nil
		case header == nil:
			header = cells
		case slices.Contains(header, "return") && !strings.HasPrefix(cells[0], "---"):
			require.Len(t, cells, len(header), "%s:%d", path, i+1)
			rows.WriteString(docRow(t, fmt.Sprintf("%s:%d", path, i+1), header, cells))
			n++
		}
	}
	require.Greater(t, n, 80, "rows of %s that are checked", path)
	return docFile(docGiven[path]+"\nvar columns = map[string]toolexec.Tool[string, string]{\n"+columns.String()+"}\n"+
		"\nvar rows = []row{\n"+rows.String()+"}\n"+docTableTest, `. "github.com/toolexec/toolexec"`)
}

func docRow(t *testing.T, at string, header, cells []string) string {
	t.Helper()
	var body string
	for i, h := range header {
		if h != "return" {
			continue
		}
		body = strings.Trim(cells[i], "`")
		// An expression is an error; but panic(err) is one that has no value.
		if _, err := parser.ParseExpr(body); err == nil && !strings.HasPrefix(body, "panic(") {
			body = `return "", ` + body
		}
	}
	return fmt.Sprintf("//line %s\n{%q, func(ctx context.Context, cancel func()) (string, error) { %s }, %#v, %#v},\n", at, at, body, header, cells)
}

// docTableTest runs the rows.
const docTableTest = `
type row struct {
	at          string
	run         func(ctx context.Context, cancel func()) (string, error)
	header, row []string
}

func TestTables(t *testing.T) {
	for _, r := range rows {
		t.Run(r.at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := make([]string, len(r.row))
				for i := range r.row {
					is[i] = r.cell(i)
				}
				if !slices.Equal(is, r.row) {
					t.Errorf("%s is\n| %s |\nand ought to be\n| %s |", r.at, strings.Join(r.row, " | "), strings.Join(is, " | "))
				}
			})
		})
	}
}

// cell is what a cell should be.
func (r row) cell(i int) string {
	name := r.header[i]
	tool, known := columns[name]
	env, evidence, runs := r.call(tool) // a Write, if it is no column of a tool's
	read, _, _ := r.call(columns["ReadOnly"])
	switch {
	case i == 0 || name == "return":
		return r.row[i] // words, and what is run
	case known:
		return outcome(env, runs)
	case name == "any effect":
		return r.anyEffect()
	case name == "evidence":
		return evidence.String()
	case name == "code" && slices.Contains(r.header, "ReadOnly") && read.Code != env.Code:
		return string(env.Code) + " / " + string(read.Code)
	case name == "code":
		return string(env.Code)
	case name == "class" && !env.OK:
		return env.Class.String()
	case name == "class" && !read.OK:
		return "– / " + read.Class.String()
	case name == "class":
		return "–"
	}
	return "no such column"
}

// outcome is the cell of a column of a tool's.
func outcome(env toolexec.Envelope[string], runs int) string {
	return fmt.Sprintf("%s, %s, %d×", env.CommitState, env.NextAction, runs)
}

// anyEffect is the outcome that is the same for each effect.
func (r row) anyEffect() string {
	var all []string
	for _, effect := range []string{"Write", "Idempotent", "ReadOnly"} {
		env, _, runs := r.call(columns[effect])
		all = append(all, outcome(env, runs))
	}
	if all = slices.Compact(all); len(all) > 1 {
		return "they differ: " + strings.Join(all, "; ")
	}
	return all[0]
}

// call runs the tool of a row as a column declares it, until the executor gives
// up.
func (r row) call(tool toolexec.Tool[string, string]) (env toolexec.Envelope[string], evidence toolexec.Evidence, runs int) {
	seen := new(attempts)
	x := toolexec.Executor{Observer: seen}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tool.Name = "tool"
	tool.Run = func(ctx context.Context, _ string) (string, error) { return r.run(ctx, cancel) }
	env = toolexec.Bind(&x, tool).Call(ctx, "in")
	_ = x.Close(context.Background())
	return env, seen.evidence, seen.n
}

// attempts notes how many there were, and what the last one proved.
type attempts struct {
	n        int
	evidence toolexec.Evidence
}

func (a *attempts) Start(ctx context.Context, _ toolexec.Event) context.Context { return ctx }
func (a *attempts) Note(context.Context, toolexec.Event)                         {}
func (a *attempts) End(_ context.Context, e toolexec.Event) {
	if i, ok := e.(toolexec.AttemptInfo); ok {
		a.n, a.evidence = a.n+1, i.Evidence
	}
}
`
