package httptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/toolexec/toolexec"
)

// expand replaces each {member} of template by that member of the JSON object
// arguments, escaped for where it stands; {ref} by ref, where one is given. The
// host cannot be templated: arguments come from a model.
func expand(template string, arguments []byte, ref ...string) (string, error) {
	if !strings.Contains(template, "{") {
		return template, nil
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(arguments, &members) // no object has no members
	if len(ref) > 0 {
		members = withRef(members, ref[0])
	}
	var b strings.Builder
	for rest := template; ; {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed {
			return "", errors.New("httptool: the URL has a { without its }")
		}
		value, err := escaped(members, name, b.String())
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		rest = tail
	}
}

func withRef(members map[string]json.RawMessage, ref string) map[string]json.RawMessage {
	if members == nil {
		members = make(map[string]json.RawMessage)
	}
	members["ref"], _ = json.Marshal(ref) // a string can be encoded
	return members
}

// escaped returns a member as it may stand after the part of the URL before it.
func escaped(members map[string]json.RawMessage, name, before string) (string, error) {
	text, ok := scalarText(members[name])
	_, path, inPath := strings.Cut(afterScheme(before), "/")
	switch {
	case !ok:
		return "", toolexec.Invalid(name, "a text, a number or a boolean")
	case !inPath && !strings.HasPrefix(before, "/"):
		return "", fmt.Errorf("httptool: the URL names {%s} before its path, and arguments must not choose a host", name)
	case strings.Contains(path, "?"):
		return url.QueryEscape(text), nil
	case text == "" || climbs(before, text):
		return "", toolexec.Invalid(name, "a text that can be a part of a path")
	}
	return url.PathEscape(text), nil
}

// climbs reports whether text, put behind before, makes a segment "." or "..":
// also one that only some servers see, because they decode a slash.
func climbs(before, text string) bool {
	whole := before[strings.LastIndex(before, "/")+1:] + text
	for segment := range strings.FieldsFuncSeq(whole, func(r rune) bool { return r == '/' || r == '\\' }) {
		if strings.Trim(segment, ".") == "" {
			return true
		}
	}
	return false
}

func afterScheme(s string) string {
	if _, rest, ok := strings.Cut(s, "://"); ok {
		return rest
	}
	return s
}

// scalarText is the text of a JSON string, number or boolean.
func scalarText(raw json.RawMessage) (string, bool) {
	var s string
	switch {
	case len(raw) == 0 || string(raw) == "null" || raw[0] == '{' || raw[0] == '[':
		return "", false
	case raw[0] == '"':
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	}
	return string(raw), true
}
