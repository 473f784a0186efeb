package schema

import (
	"encoding/json"
	"strings"
)

// parse returns raw as the validator wants it: numbers as json.Number, of members that occur twice the last. ok is false
// when raw is not one JSON value. It is jsonschema.UnmarshalJSON without its Decoder, which takes about twice
// the time and allocations (BenchmarkParse).
func parse(raw []byte) (v any, ok bool) {
	if !json.Valid(raw) {
		return nil, false
	}
	p := parser{raw: raw}
	return p.value(), true
}

// parser reads what is known to be JSON.
type parser struct {
	raw []byte
	pos int
}

// skip moves past space, commas and colons, which need no looking at where the syntax is known to be right.
func (p *parser) skip() byte {
	for {
		switch c := p.raw[p.pos]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			p.pos++
		default:
			return c
		}
	}
}

func (p *parser) value() any {
	switch p.skip() {
	case '{':
		return p.object()
	case '[':
		return p.array()
	case '"':
		return p.text()
	case 't':
		p.pos += len("true")
		return true
	case 'f':
		p.pos += len("false")
		return false
	case 'n':
		p.pos += len("null")
		return nil
	}
	return p.number()
}

func (p *parser) object() map[string]any {
	m := map[string]any{}
	for p.pos++; p.skip() != '}'; {
		name := p.text()
		m[name] = p.value()
	}
	p.pos++
	return m
}

func (p *parser) array() []any {
	list := []any{}
	for p.pos++; p.skip() != ']'; {
		list = append(list, p.value())
	}
	p.pos++
	return list
}

// text reads a string. Plain ASCII is as it stands; the rest is left to encoding/json.
func (p *parser) text() string {
	start := p.pos
	plain := true
	for p.pos++; p.raw[p.pos] != '"'; p.pos++ {
		switch c := p.raw[p.pos]; {
		case c == '\\':
			p.pos++
			plain = false
		case c >= 0x80:
			plain = false
		}
	}
	p.pos++
	if plain {
		return string(p.raw[start+1 : p.pos-1])
	}
	var s string
	_ = json.Unmarshal(p.raw[start:p.pos], &s) // a valid string
	return s
}

func (p *parser) number() json.Number {
	start := p.pos
	for p.pos < len(p.raw) && strings.IndexByte("+-.0123456789Ee", p.raw[p.pos]) >= 0 {
		p.pos++
	}
	return json.Number(p.raw[start:p.pos])
}
