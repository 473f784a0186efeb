package canonical_test

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/toolexec/toolexec/internal/canonical"
)

type faithfulSecret string

func (faithfulSecret) MarshalJSON() ([]byte, error) { return []byte(`"***"`), nil }

type faithfulText string

func (faithfulText) MarshalText() ([]byte, error) { return []byte("***"), nil }

type faithfulTree struct {
	Kids []*faithfulTree
	Any  any `json:"any,omitempty"`
}

func TestFaithful(t *testing.T) {
	for _, v := range []any{
		0, "", []byte{}, map[string][]float64{}, struct{ A, B int }{}, faithfulTree{}, time.Time{}, big.Int{}, json.RawMessage{},
		json.Number(""), netip.Addr{}, uuid.UUID{}, &struct{ At *time.Time }{}, map[int]string{},
	} {
		assert.True(t, canonical.Faithful(reflect.TypeOf(v)), "%T", v)
	}
	for _, v := range []any{
		faithfulSecret(""), faithfulText(""), []faithfulSecret{}, map[faithfulText]int{}, struct{ cents int }{},
		struct {
			Token string `json:"-"`
		}{}, struct{ In struct{ hidden bool } }{},
	} {
		assert.False(t, canonical.Faithful(reflect.TypeOf(v)), "%T", v)
	}
}
