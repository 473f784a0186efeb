package measure

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Processor names the machine's processor, or else its architecture.
func Processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // only Linux has it
	return processor(string(info))
}

func processor(info string) string {
	for line := range strings.Lines(info) {
		key, name, _ := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); strings.TrimSpace(key) == "model name" && name != "" {
			return name
		}
	}
	return runtime.GOARCH
}

// Versions are those of the modules in this program, by path.
func Versions() map[string]string {
	out := make(map[string]string)
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	for _, m := range info.Deps {
		out[m.Path] = m.Version
	}
	return out
}

// Commit is the one from which this program was built, or "".
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	set := make(map[string]string)
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	if set["vcs.revision"] != "" && set["vcs.modified"] == "true" {
		return set["vcs.revision"] + ", changed"
	}
	return set["vcs.revision"]
}
