package httptool

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
)

// Problem is what a body says about a failure: a problem of RFC 9457, or what
// services make of the same idea. All of it is the other side's text: for
// operators and for programs that compare it, never for a model.
type Problem struct {
	Type, Title, Detail, Instance string
	// Members are those of the outermost JSON object, as they are.
	Members map[string]json.RawMessage
}

// readProblem reads the body as far as it is JSON and short; a body that is
// neither is no problem.
func readProblem(resp *http.Response, maxBytes int64) (p Problem) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return p
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	if err != nil || int64(len(body)) > maxBytes || json.Unmarshal(body, &p.Members) != nil {
		return Problem{}
	}
	p.Type, p.Title, p.Detail, p.Instance = p.text("type"), p.text("title"), p.text("detail"), p.text("instance")
	return p
}

func (p *Problem) text(member string) (s string) {
	if json.Unmarshal(p.Members[member], &s) != nil {
		return ""
	}
	return s
}

// isA reports whether the problem names itself by one of the words: as the last
// part of its type, as its code, or as the type or code of an error object in it.
func (p *Problem) isA(words ...string) bool {
	var inner struct {
		Error struct{ Type, Code string }
	}
	_ = json.Unmarshal(p.Members["error"], &inner.Error) // an error of another shape has no name
	last := p.Type[strings.LastIndexAny(p.Type, "/#:")+1:]
	for _, word := range words {
		if last == word || p.text("code") == word || inner.Error.Type == word || inner.Error.Code == word {
			return true
		}
	}
	return false
}

// token is text that cannot be an instruction: one word without a space.
var token = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// scalar returns a member that is a number, a boolean or a token.
func (p *Problem) scalar(member string) (any, bool) {
	var v any
	d := json.NewDecoder(strings.NewReader(string(p.Members[member])))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil, false
	}
	switch s := v.(type) {
	case json.Number, bool:
		return s, true
	case string:
		return s, token.MatchString(s)
	}
	return nil, false
}
