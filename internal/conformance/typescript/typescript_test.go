package typescript

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// compilers are the names in package.json.
var compilers = []string{"typescript", "typescript-5"}

// compilerFlags are how users compile: as strictly as can be, and with strict alone.
var compilerFlags = map[string][]string{
	"strictest": nil,
	"strict":    {"--exactOptionalPropertyTypes", "false", "--noUncheckedIndexedAccess", "false"},
}

func TestCompiles(t *testing.T) {
	modules := install(t)
	all := capture(t)
	dir := project(t, all)
	for _, compiler := range compilers {
		for name, flags := range compilerFlags {
			t.Run(compiler+"/"+name, func(t *testing.T) {
				out, err := compile(t, modules, compiler, dir, flags...)
				require.NoError(t, err, out)
			})
		}
	}
	t.Run("decisions", func(t *testing.T) { checkDecisions(t, dir, all) })
}

// An answer that is not of its type is refused, so the constants are judged at all.
func TestCompilerRefuses(t *testing.T) {
	modules := install(t)
	all := capture(t)
	for name, tt := range map[string]struct{ constant, old, wrong string }{
		"another word":     {"unknown", `"next_action":"verify_operation"`, `"next_action":"verify"`},
		"a number":         {"unknown", `"commit_state":"unknown"`, `"commit_state":0`},
		"a member more":    {"unknown", `"ok":false`, `"ok":false,"attempts":1`},
		"a member less":    {"refunded", `"verification"`, `"verified"`},
		"another shape":    {"refunded", `"ok":true`, `"ok":false`},
		"another result":   {"refunded", `"receipt":"rcpt_1"`, `"receipt":1`},
		"a nested member":  {"malformed", `"pointer"`, `"path"`},
		"no scalar detail": {"changed", `"resource_version":7`, `"resource_version":[7]`},
		"false replayed":   {"replayed", `"replayed":true`, `"replayed":false`},
		"true recorded":    {"unrecorded", `"recorded":false`, `"recorded":true`},
		"another source":   {"lookedUp", `"source":"lookup"`, `"source":"hearsay"`},
	} {
		t.Run(name, func(t *testing.T) {
			broken := slices.Clone(all)
			i := slices.IndexFunc(broken, func(c captured) bool { return c.name == tt.constant })
			require.Contains(t, string(broken[i].raw), tt.old)
			broken[i].raw = bytes.Replace(broken[i].raw, []byte(tt.old), []byte(tt.wrong), 1)
			out, err := compile(t, modules, compilers[0], project(t, broken), "--noEmit")
			require.Error(t, err, "it compiles")
			assert.Regexp(t, `^captured\.ts\(\d+,\d+\): error TS2\d+: `, out)
			assert.Len(t, regexp.MustCompile(`error TS`).FindAllString(out, -1), 1, out)
		})
	}
}

// Every word and every member of an answer is in what was captured, so that none goes without a compiler's judgement.
func TestCaptureIsComplete(t *testing.T) {
	var schema any
	require.NoError(t, json.Unmarshal(toolexec.EnvelopeSchema(), &schema))
	var wanted []string
	list(schema, "", func(what string) { wanted = append(wanted, what) })
	require.Contains(t, wanted, "field_errors.allowed")
	require.Contains(t, wanted, "retry.directive=after_delay")

	seen := map[string]bool{}
	for _, c := range capture(t) {
		var answer map[string]any
		require.NoError(t, json.Unmarshal(c.raw, &answer))
		assert.Equal(t, answer["ok"], c.typ != "Failure", "%s is %s", c.name, c.raw)
		mark(seen, "", answer)
	}
	for _, what := range wanted {
		assert.True(t, seen[what], "no answer has %s", what)
	}
	for _, detail := range []string{"string", "float64", "bool"} {
		assert.True(t, seen["details are "+detail], "no detail is a %s", detail)
	}
}

// list tells of every member and every word that a schema has.
func list(schema any, path string, tell func(string)) {
	s, _ := schema.(map[string]any)
	words, _ := s["enum"].([]any)
	for _, w := range words {
		tell(fmt.Sprint(path, "=", w))
	}
	members, _ := s["properties"].(map[string]any)
	for name, member := range members {
		at := strings.TrimPrefix(path+"."+name, ".")
		tell(at)
		list(member, at, tell)
	}
	if items, ok := s["items"]; ok {
		list(items, path, tell)
	}
}

// mark notes which members an answer has, and which words.
func mark(seen map[string]bool, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			at := strings.TrimPrefix(path+"."+name, ".")
			seen[at] = true
			if path == "safe_details" {
				seen[fmt.Sprintf("details are %T", member)] = true
			}
			mark(seen, at, member)
		}
	case []any:
		for _, item := range v {
			mark(seen, path, item)
		}
	case string:
		seen[path+"="+v] = true
	}
}

// checkDecisions runs the compiled host and compares what it decides with what the answers say.
func checkDecisions(t *testing.T, dir string, all []captured) {
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "out", "main.js"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())

	type decision struct {
		Shape       string `json:"shape"`
		Step        string `json:"step"`
		NextAction  string `json:"next_action"`
		CommitState string `json:"commit_state"`
		May         bool   `json:"may_have_happened"`
	}
	got := map[string]decision{}
	require.NoError(t, json.Unmarshal(out, &got), string(out))

	steps := map[toolexec.NextAction]string{
		toolexec.NextContinue: "succeeded", toolexec.NextCorrectInput: "needs_input", toolexec.NextWaitAndRetry: "scheduled",
		toolexec.NextVerifyOperation: "verification", toolexec.NextRequestApproval: "approval", toolexec.NextEscalate: "escalated",
	}
	unheardOf := decision{"failure", "escalated", "escalate", "unknown", true}
	want := map[string]decision{"later": unheardOf, "inherited": unheardOf}
	for _, c := range all {
		var e toolexec.Envelope[json.RawMessage]
		require.NoError(t, json.Unmarshal(c.raw, &e))
		shape := map[bool]string{true: "success", false: "failure"}[e.OK]
		want[c.name] = decision{shape, steps[e.NextAction], e.NextAction.String(), e.CommitState.String(), e.CommitState != toolexec.NotCommitted}
	}
	assert.Equal(t, want, got)
	assert.Len(t, steps, len(slices.Compact(slices.Sorted(maps.Values(steps)))))
}

// project writes what is compiled to a directory: the declaration, the sources, and the answers as constants.
func project(t *testing.T, all []captured) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("src")))
	declaration, err := os.ReadFile("../../../envelope.d.ts")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "envelope.d.ts"), declaration, 0o600))

	var b strings.Builder
	b.WriteString("import type { Envelope, Failure, Success } from \"./envelope\";\n\nexport interface Receipt {\n  readonly receipt: string;\n}\n\n")
	names := make([]string, len(all))
	for i, c := range all {
		fmt.Fprintf(&b, "export const %s: %s = %s;\n", c.name, c.typ, c.raw)
		names[i] = c.name
	}
	fmt.Fprintf(&b, "\nexport const captured: Record<string, Envelope> = { %s };\n", strings.Join(names, ", "))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "captured.ts"), []byte(b.String()), 0o600))
	return dir
}

// compile runs a compiler in dir and returns what it says.
func compile(t *testing.T, modules, compiler, dir string, flags ...string) (string, error) {
	t.Helper()
	tsc := filepath.Join(modules, compiler, "bin", "tsc")
	cmd := exec.CommandContext(t.Context(), "node", append([]string{tsc, "--project", ".", "--pretty", "false"}, flags...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// install returns the directory of the pinned compilers, which are downloaded once.
func install(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	dir := cacheDir(t)
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "installing-") //nolint:usetesting // renaming needs the file system of dir
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(fresh) })
	for _, name := range []string{"package.json", "package-lock.json"} {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(fresh, name), raw, 0o600))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		if unreachable.Match(out) {
			t.Skipf("npm cannot reach its registry")
		}
		require.NoError(t, err, string(out))
	}
	if err := os.Rename(fresh, dir); err != nil { // unless another process was first
		require.DirExists(t, modules, "%v", err)
	}
	return modules
}

// unreachable is npm without a network.
var unreachable = regexp.MustCompile(`\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT)\b`)

// cacheDir is where the compilers of this lock file are kept: in the user's cache, else for this test alone.
func cacheDir(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	var manifest struct {
		DevDependencies map[string]string `json:"devDependencies"`
	}
	raw, err := os.ReadFile("package.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &manifest))
	var versions []string
	for _, c := range compilers {
		version := strings.TrimPrefix(manifest.DevDependencies[c], "npm:typescript@")
		require.Regexp(t, `^\d+\.\d+\.\d+$`, version, "%s is not pinned", c)
		versions = append(versions, version)
	}
	return filepath.Join(cache, "toolexec-ci", "typescript-"+strings.Join(versions, "-"))
}

// The lock file pins what is installed, and names no place to get it from.
func TestLockFile(t *testing.T) {
	raw, err := os.ReadFile("package-lock.json")
	require.NoError(t, err)
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	require.NoError(t, json.Unmarshal(raw, &lock))
	for _, c := range compilers {
		assert.Contains(t, lock.Packages, "node_modules/"+c)
	}
	for name, p := range lock.Packages {
		assert.Empty(t, p.Resolved, name)
		if name != "" {
			assert.NotEmpty(t, p.Version, name)
			assert.NotEmpty(t, p.Integrity, name)
		}
	}
	assert.NotContains(t, string(raw), "://")
}
