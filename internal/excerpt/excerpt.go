// Package excerpt shortens JSON for a reader: what is left is JSON again, and says where something is missing, what, and how
// much.
package excerpt

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// Min is the least room that is used: a smaller max counts as this.
const Min = len(nothing)

const (
	nothing = `"…"` // stands where there is room for nothing else

	// minPart is the least room for a value that is cut: its mark, and a little of it.
	minPart = 64
	// An element of an array that is cut gets at least this part of the array's room, a member of an object that of the
	// object's. Rows are alike, so a few whole ones say more; members differ, so a little of each does.
	partOfArray, partOfObject = 4, 32
	// maxDepth is how deep values are cut; below they are whole or left out. Each level may read the whole text once.
	maxDepth = 16
)

// JSON returns raw in at most max bytes. What fits is returned as it is, unread; so the result may be raw itself.
//
// What does not fit is cut, never inside a token, and stays of its type: an array keeps leading elements and an object leading
// members, in their order; a string is cut between two characters; a number or a literal is never cut, only left out. Where
// one value is much larger than its neighbours, it is cut before they are left out. Each cut is marked in its place:
//
//	[1,2,"…[38 of 40 elements left out]"]
//	{"a":1,"…":"[2 of 3 members left out]"}
//	"The first words…[1200 of 1300 bytes left out]"
//	"…[object of 3 members, 900 bytes, left out]"
//
// The last form stands in place of a value for which there is no room at all, at the top as well, and the text "…" where even
// that is too long. Bytes are those of the JSON text without white space. The result is a function of raw and max alone. Text
// that is not JSON is left out as a whole.
func JSON(raw []byte, maxBytes int) []byte {
	if len(raw) <= maxBytes {
		return raw
	}
	return Noted(raw, maxBytes, "")
}

// Noted is JSON with a note, which is put into a mark at the top whether or not there is a cut at the top itself. The note is
// left out where the top has no room for a mark.
func Noted(raw []byte, maxBytes int, note string) []byte {
	if len(raw) <= maxBytes {
		return raw
	}
	maxBytes = max(maxBytes, Min)
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return leaf(nil, "text that is not JSON", len(raw), maxBytes, note)
	}
	raw = compact.Bytes()
	if len(raw) <= maxBytes {
		return raw
	}
	return cut(make([]byte, 0, maxBytes), raw, maxBytes, 0, note)
}

// fit appends v whole, or cut.
func fit(out, v []byte, room, depth int) []byte {
	if len(v) <= room {
		return append(out, v...)
	}
	return cut(out, v, room, depth, "")
}

// cut appends less of v than there is, in at most room bytes, which are Min at least.
func cut(out, v []byte, room, depth int, note string) []byte {
	switch v[0] {
	case '"':
		return cutString(out, v, room, note)
	case '[', '{':
		c := container{keyed: v[0] == '{'}
		return c.cut(out, v, room, depth, note)
	}
	return leaf(out, "number", len(v), room, note)
}

// cutString keeps the leading characters.
func cutString(out, v []byte, room int, note string) []byte {
	whole := len(v) - 2
	longest := stringMark(whole, whole, note) // no shorter number has more digits
	keep := prefix(v[1:len(v)-1], room-2-len(longest))
	if keep == 0 {
		return leaf(out, "text", whole, room, note)
	}
	out = append(out, v[:1+keep]...)
	out = append(out, stringMark(whole-keep, whole, note)...)
	return append(out, '"')
}

func stringMark(left, whole int, note string) string {
	return "…[" + strconv.Itoa(left) + " of " + strconv.Itoa(whole) + " bytes left out" + escaped(note) + "]"
}

// leaf appends the mark that stands in place of v.
func leaf(out []byte, what string, size, room int, note string) []byte {
	bytes := strconv.Itoa(size) + " bytes"
	for _, mark := range []string{
		`"…[` + what + ", " + bytes + ", left out" + escaped(note) + `]"`,
		`"…[` + what + ", " + bytes + `, left out]"`,
		`"…[` + bytes + ` left out]"`,
	} {
		if len(mark) <= room {
			return append(out, mark...)
		}
	}
	return append(out, nothing...)
}

// escaped is a note as it stands inside a JSON string.
func escaped(note string) string {
	if note == "" {
		return ""
	}
	raw, _ := json.Marshal(note) // a string never fails
	return "; " + string(raw[1:len(raw)-1])
}

// container is an array or an object that is cut.
type container struct {
	keyed bool
	share int    // what a value is sure to get before parts are left out for it
	parts []part // leading ones, those that are kept
	total int    // parts there are
}

// part is an element, or a member: its key with the colon, and its value.
type part struct{ key, value []byte }

// markKey is the key of the mark. A member of that name, and what follows it, is not kept, so that no key comes twice.
const markKey = nothing + ":"

func (p part) isMark() bool { return string(p.key) == markKey || string(p.key) == `"\u2026":` }

func (c *container) cut(out, v []byte, room, depth int, note string) []byte {
	c.share = max(minPart, room/partOfArray)
	if c.keyed {
		c.share = max(minPart, room/partOfObject)
	}
	inside := room - len("[]")
	least := c.read(v, inside)
	marked := note != "" || len(c.parts) < c.total
	if marked {
		inside -= len(c.mark(c.total, note)) // no smaller number has more digits
	}
	for least > inside && len(c.parts) > 0 { // the mark took their place
		last := len(c.parts) - 1
		least -= c.needs(c.parts[last])
		c.parts = c.parts[:last]
	}
	if inside < 0 || depth >= maxDepth {
		return leaf(out, c.what(), len(v), room, note)
	}
	level := c.level(inside)
	out = append(out, v[0])
	for _, p := range c.parts {
		out = append(out, p.key...)
		out = append(fit(out, p.value, level, depth+1), ',')
	}
	if marked {
		out = append(out, c.mark(c.total-len(c.parts), note)...)
	} else {
		out = out[:len(out)-1] // a comma
	}
	return append(out, v[len(v)-1])
}

// read counts the parts of v, and keeps as many leading ones as fit when each value gets its share. It returns what they need
// then.
func (c *container) read(v []byte, inside int) (least int) {
	full := false
	for at := 1; at < len(v)-1; {
		var p part
		if c.keyed {
			end := skip(v, at) + 1
			p.key, at = v[at:end], end
		}
		end := skip(v, at)
		p.value, at = v[at:end], end+1 // and the comma
		c.total++
		if full = full || p.isMark() || least+c.needs(p) > inside; !full {
			least += c.needs(p)
			c.parts = append(c.parts, p)
		}
	}
	return least
}

// needs is the least room for a part, with a comma.
func (c *container) needs(p part) int { return len(p.key) + min(len(p.value), c.share) + len(",") }

// level is the most bytes that each value can have so that all of them fit into room: those that need less leave it to the
// others.
func (c *container) level(room int) int {
	sizes := make([]int, len(c.parts))
	for i, p := range c.parts {
		sizes[i] = len(p.value)
		room -= len(p.key) + len(",")
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if each := room / (len(sizes) - i); size > each {
			return each
		}
		room -= size
	}
	return math.MaxInt // all are whole
}

func (c *container) what() string {
	if c.keyed {
		return "object of " + strconv.Itoa(c.total) + " members"
	}
	return "array of " + strconv.Itoa(c.total) + " elements"
}

// mark is the last element or member, which says what is missing.
func (c *container) mark(left int, note string) string {
	parts, key, open := "elements", "", `"…[`
	if c.keyed {
		parts, key, open = "members", markKey, `"[`
	}
	text := strconv.Itoa(left) + " of " + strconv.Itoa(c.total) + " " + parts + " left out"
	if left == 0 {
		text = parts + " above are cut"
	}
	return key + open + text + escaped(note) + `]"`
}
