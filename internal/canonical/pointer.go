package canonical

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// escapeToken and unescapeToken keep the order RFC 6901 section 4 asks for, or "~01" would become "/".
func escapeToken(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

func unescapeToken(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// parsePointer splits a JSON Pointer (RFC 6901 section 3) into its unescaped reference tokens.
func parsePointer(pointer string) (tokens []string, err error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, errors.New("must begin with /")
	}
	if !utf8.ValidString(pointer) {
		return nil, errors.New("is not UTF-8")
	}
	if strings.Count(pointer, "~") != strings.Count(pointer, "~0")+strings.Count(pointer, "~1") {
		return nil, errors.New("has a ~ that is neither ~0 (for ~) nor ~1 (for /)")
	}
	tokens = strings.Split(pointer[1:], "/")
	for i, token := range tokens {
		tokens[i] = unescapeToken(token)
	}
	return tokens, nil
}

// Exclusions is a compiled set of places that [Sum] leaves out: timestamps, request ids. The zero value excludes nothing. It is
// immutable.
type Exclusions struct{ root *node }

// ParseExclusions compiles JSON Pointers (RFC 6901). A pointer names an object member or, by index, an array element; elements after
// an excluded one keep their index. A pointer to a place that does not exist excludes nothing, so "-" is allowed and idle in an
// array. The empty pointer is an error: it would make all calls of a tool equal.
func ParseExclusions(pointers []string) (Exclusions, error) {
	var ex Exclusions
	for _, pointer := range pointers {
		tokens, err := parsePointer(pointer)
		if err == nil && len(tokens) == 0 {
			err = errors.New("excludes all arguments")
		}
		if err != nil {
			return Exclusions{}, fmt.Errorf("excluded JSON Pointer %q %w", pointer, err)
		}
		ex.add(tokens)
	}
	return ex, nil
}

func (ex *Exclusions) add(tokens []string) {
	if ex.root == nil {
		ex.root = &node{}
	}
	n := ex.root
	for _, token := range tokens {
		n = n.grow(token)
	}
	n.exclude = true
}

// node is one step of the excluded pointers, a trie. A nil node, the usual one, has nothing below it to exclude.
type node struct {
	exclude  bool
	children map[string]*node
}

func (n *node) grow(token string) *node {
	child := n.children[token]
	if child == nil {
		child = &node{}
		if n.children == nil {
			n.children = make(map[string]*node)
		}
		n.children[token] = child
	}
	return child
}

func (n *node) excluded() bool { return n != nil && n.exclude }

func (n *node) member(key []byte) *node {
	if n == nil {
		return nil
	}
	return n.children[string(key)]
}

func (n *node) element(i int) *node {
	if n == nil {
		return nil
	}
	return n.children[strconv.Itoa(i)]
}
