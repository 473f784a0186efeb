package toolexec

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/toolexec/toolexec/internal/canonical"
)

// maxRef bounds an operation ref, in bytes.
const maxRef = 200

// fingerprintRule is the version of the rule that makes fingerprints: tool
// name and canonical arguments, numbers by exact decimal value, SHA-256.
const fingerprintRule = 1

// validRef reports whether ref is 1 to 200 bytes of [A-Za-z0-9._:/@-].
func validRef(ref string) bool {
	if len(ref) == 0 || len(ref) > maxRef {
		return false
	}
	for i := range len(ref) {
		if !refByte(ref[i]) {
			return false
		}
	}
	return true
}

func refByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._:/@-", c) >= 0
}

// mintRef names an operation that nobody named: op_ and a UUIDv7 (RFC 9562),
// so that refs sort by time. Never the model's call id, which changes when a
// turn is replayed, and never a hash of the arguments, since two equal
// payments can both be meant.
func mintRef() string { return "op_" + uuid.Must(uuid.NewV7()).String() }

// deriveRef names an operation by its tool's business key. A key with other
// bytes than a ref may hold, or too long, is replaced by its hash; so is a key
// that looks like one, or two keys could share a ref.
func deriveRef(tool, key string) string {
	ref := tool + ":" + key
	if validRef(ref) && !strings.HasPrefix(key, "sha256:") {
		return ref
	}
	return tool + ":" + digestOf([]byte(ref)) // the name of a tool leaves room for it
}

// nonce names one ownership of an operation, unlike every other of any process.
func (x *Executor) nonce() string {
	x.setUp()
	b := append(make([]byte, 0, 64), x.id...)
	return string(strconv.AppendUint(append(b, '.'), x.begun.Add(1), 36))
}

// digestOf names a value without holding it.
func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// fieldDigest names the value of one argument. Equal values have equal
// digests however they are written; an absent one has none.
func fieldDigest(arguments []byte, pointer string) string {
	raw, ok := canonical.At(arguments, pointer)
	if !ok {
		return ""
	}
	form, err := canonical.Append(nil, raw, canonical.Limits{})
	if err != nil {
		return digestOf(raw)
	}
	return digestOf(form)
}
