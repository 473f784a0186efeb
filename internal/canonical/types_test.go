package canonical_test

import (
	"encoding"
	"encoding/json"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/internal/canonical"
)

type (
	secret struct {
		Shown string
		Token string `json:"-"`
		low   string //nolint:unused // reflection sees it
	}
	dashed struct {
		A int `json:"-,"` //nolint:staticcheck // the point
	}
	tree struct {
		Left, Right *tree
		Note        string `json:"-"`
	}
	twice struct{ A, B secret }

	Base struct {
		ID    string
		Trace string `json:"-"`
	}
	lower  struct{ Name, Hid string }
	outer  struct{ Base }
	hiding struct {
		Base
		ID string
	}
	tagWins struct {
		Base
		Other
	}
	Other struct {
		X string `json:"ID"`
	}
	Rival   struct{ ID string }
	quarrel struct {
		Base
		Rival
	}
	below struct {
		quarrel
		ID2 string `json:"ID"`
	}
	named struct {
		Base `json:"base"`
	}
	badTag struct {
		A string `json:"a\"b"` //nolint:staticcheck // the point
		B string `json:"A"`
	}
	noBase struct {
		Base `json:"-"`
	}
	byPtr struct{ *lower }
	self  struct {
		*self //nolint:unused // reflection sees it
		X     string
	}
	Names   []string
	withNon struct {
		Names
		hiddenNames //nolint:unused // reflection sees it
		fmtLike
	}
	hiddenNames []string //nolint:unused // reflection sees it
	fmtLike     interface{ Foo() }

	unwritable struct {
		F  func()
		C  chan int
		Z  complex128
		U  unsafe.Pointer
		P  *func()
		M  map[float64]int
		S  map[struct{ A int }]int
		ok func() //nolint:unused // reflection sees it
		G  func() `json:"-"`
	}
	containers struct {
		S []secret
		A [2]secret
		M map[string]*secret
		K map[netip.Addr]int
		I map[int]int
		P **secret
		X any
		B []byte
	}

	valueJSON struct {
		Token string `json:"-"`
	}
	ptrJSON struct {
		Token string `json:"-"`
	}
	valueText struct {
		Token string `json:"-"`
	}
	ptrHolder struct {
		V ptrJSON
		P *ptrJSON
		S []ptrJSON
		A [1]ptrJSON
		M map[string]ptrJSON
	}

	stamped struct {
		time.Time
		Note string
		low  int
	}
	stampedOwn struct {
		time.Time
		Note string
	}
	deeper struct {
		stamped
		More int
	}
	PtrJSON = ptrJSON
	viaPtr  struct {
		*PtrJSON
		Note string
	}
	viaVal struct {
		PtrJSON
		Note string
	}
	promotedText struct {
		valueText
		Note string
	}
	ownPtr struct {
		time.Time
		Note string `json:"-"`
	}
)

func (valueJSON) MarshalJSON() ([]byte, error)  { return []byte(`1`), nil }
func (*ptrJSON) MarshalJSON() ([]byte, error)   { return []byte(`1`), nil }
func (valueText) MarshalText() ([]byte, error)  { return []byte(`1`), nil }
func (stampedOwn) MarshalJSON() ([]byte, error) { return []byte(`1`), nil }
func (*ownPtr) MarshalJSON() ([]byte, error)    { return []byte(`1`), nil }

// sameTag is made here because go vet refuses it in source.
var sameTag = reflect.StructOf([]reflect.StructField{
	{Name: "A", Type: reflect.TypeFor[string](), Tag: `json:"x"`},
	{Name: "B", Type: reflect.TypeFor[string](), Tag: `json:"x"`},
})

type (
	depthWins struct {
		Other
		ID string
	}
	awayAbove struct {
		Rival
		ID string `json:"-"`
	}
	Holder   struct{ V ptrJSON }
	holdsPtr struct{ *Holder }
)

func TestHidden(t *testing.T) {
	tests := []struct {
		name string
		of   reflect.Type
		want []string
	}{
		{"nil", nil, nil},
		{"scalar", reflect.TypeFor[int](), nil},
		{"interface", reflect.TypeFor[any](), nil},
		{"tagged away", reflect.TypeFor[secret](), []string{"Token"}},
		{"pointer to it", reflect.TypeFor[*secret](), []string{"Token"}},
		{"slice of it", reflect.TypeFor[[]secret](), []string{"[].Token"}},
		{"named dash", reflect.TypeFor[dashed](), nil},
		{"recursion", reflect.TypeFor[*tree](), []string{"Note"}},
		{"every place of a type", reflect.TypeFor[twice](), []string{"A.Token", "B.Token"}},
		{"containers", reflect.TypeFor[containers](), []string{"S[].Token", "A[].Token", "M[].Token", "P.Token"}},
		{"unwritable", reflect.TypeFor[unwritable](), []string{"F", "C", "Z", "U", "P", "M", "S", "G"}},
		{"unwritable itself", reflect.TypeFor[func(int)](), []string{"func(int)"}},

		{"embedded", reflect.TypeFor[outer](), []string{"Base.Trace"}},
		{"embedded, shadowed", reflect.TypeFor[hiding](), []string{"Base.ID", "Base.Trace"}},
		{"embedded, tag preferred", reflect.TypeFor[tagWins](), []string{"Base.ID", "Base.Trace"}},
		{"embedded, both lost", reflect.TypeFor[quarrel](), []string{"Base.ID", "Base.Trace", "Rival.ID"}},
		{"quarrel below a winner", reflect.TypeFor[below](), []string{"quarrel.Base.ID", "quarrel.Base.Trace", "quarrel.Rival.ID"}},
		{"one tag twice", sameTag, []string{"A", "B"}},
		{"depth before tag", reflect.TypeFor[depthWins](), []string{"Other.X"}},
		{"a field tagged away hides nothing", reflect.TypeFor[awayAbove](), []string{"ID"}},
		{"embedded pointer makes addressable", reflect.TypeFor[holdsPtr](), nil},
		{"embedded with a name", reflect.TypeFor[named](), []string{"Base.Trace"}},
		{"tag that is no name", reflect.TypeFor[badTag](), []string{"A"}},
		{"embedded, tagged away", reflect.TypeFor[noBase](), []string{"Base"}},
		{"embedded pointer to unexported", reflect.TypeFor[byPtr](), nil},
		{"embedding itself", reflect.TypeFor[self](), nil},
		{"embedded other kinds", reflect.TypeFor[withNon](), nil},

		{"own MarshalJSON", reflect.TypeFor[valueJSON](), nil},
		{"own MarshalText", reflect.TypeFor[valueText](), nil},
		{"own method on the pointer, value", reflect.TypeFor[ptrJSON](), []string{"Token"}},
		{"own method on the pointer, pointer", reflect.TypeFor[*ptrJSON](), nil},
		{"own method on the pointer, held", reflect.TypeFor[ptrHolder](), []string{"V.Token", "A[].Token", "M[].Token"}},
		{"own method on the pointer, addressable", reflect.TypeFor[*ptrHolder](), []string{"M[].Token"}},
		{"standard library", reflect.TypeFor[time.Time](), nil},
		{"promoted method", reflect.TypeFor[stamped](), []string{"Note"}},
		{"promoted method, pointer", reflect.TypeFor[*stamped](), []string{"Note"}},
		{"promoted twice", reflect.TypeFor[deeper](), []string{"stamped.Note", "More"}},
		{"promoted from a pointer", reflect.TypeFor[viaPtr](), []string{"Note"}},
		{"promoted to the pointer", reflect.TypeFor[*viaVal](), []string{"Note"}},
		{"not promoted to the value", reflect.TypeFor[viaVal](), []string{"PtrJSON.Token"}},
		{"promoted MarshalText", reflect.TypeFor[promotedText](), []string{"Note"}},
		{"own method beside an embedded one", reflect.TypeFor[stampedOwn](), nil},
		{"own method beside an embedded one, pointer", reflect.TypeFor[*stampedOwn](), nil},
		{"own pointer method beside an embedded one", reflect.TypeFor[*ownPtr](), nil},
		{"the embedded one counts for the value", reflect.TypeFor[ownPtr](), []string{"Note"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, canonical.Hidden(tt.of))
		})
	}
}

// The rules about embedded fields are encoding/json's; this holds them against it.
func TestHiddenAgreesWithJSON(t *testing.T) {
	at := time.Unix(0, 0).UTC()
	for _, tt := range []struct {
		value any
		want  string
	}{
		{hiding{Base{ID: "1"}, "2"}, `{"ID":"2"}`},
		{depthWins{Other{"1"}, "2"}, `{"ID":"2"}`},
		{awayAbove{Rival{"1"}, "2"}, `{"ID":"1"}`},
		{holdsPtr{&Holder{}}, `{"V":1}`},
		{tagWins{Base{ID: "1"}, Other{"2"}}, `{"ID":"2"}`},
		{quarrel{Base{ID: "1"}, Rival{"2"}}, `{}`},
		{below{quarrel{}, "3"}, `{"ID":"3"}`},
		{reflect.New(sameTag).Interface(), `{}`},
		{badTag{"1", "2"}, `{"A":"2"}`},
		{byPtr{&lower{"1", "2"}}, `{"Name":"1","Hid":"2"}`},
		{stamped{at, "n", 0}, `"1970-01-01T00:00:00Z"`},
		{deeper{stamped{at, "n", 0}, 1}, `"1970-01-01T00:00:00Z"`},
		{ownPtr{at, "n"}, `"1970-01-01T00:00:00Z"`},
		{viaVal{PtrJSON{"1"}, "n"}, `{"Note":"n"}`},
		{&viaVal{PtrJSON{"1"}, "n"}, `1`},
		{dashed{1}, `{"-":1}`},
	} {
		got, err := json.Marshal(tt.value)
		require.NoError(t, err)
		assert.Equal(t, tt.want, string(got), "%T", tt.value)
	}
}

type (
	marshals   struct{ A int }
	unmarshals struct{ A int }
	textOut    string
	textIn     string
	zeroes     struct{ A int }
	ring       struct {
		Next *ring
		Map  map[string][]ring
	}
	badRing struct {
		Next *badRing
		Bad  *textIn
	}
	locked struct {
		mu  sync.Mutex //nolint:unused // reflection sees it
		any any        //nolint:unused // reflection sees it
		A   int
	}
	skipped struct {
		A any `json:"-"`
	}
	dashName struct {
		A any `json:"-,"` //nolint:staticcheck // the point
	}
	omitting struct {
		Z *zeroes `json:",omitempty,omitzero"`
	}
	notOmit struct {
		Z zeroes `json:"omitzero"`
	}
	omitTime struct {
		T time.Time `json:"t,omitzero"`
	}
	anyIn    struct{ A [1][]map[string]*any }
	embedder struct{ inner }
	inner    struct{ A any }
	library  struct {
		T time.Time
		D time.Duration
		R json.RawMessage
		N json.Number
		B *big.Int
		F big.Float
		Q big.Rat
		A netip.Addr
		P netip.Prefix
		I net.IP
		L slog.Level
		X *regexp.Regexp
		U url.URL
		Y []byte
		C func(any)
		M map[netip.Addr]int
	}
)

func (*marshals) MarshalJSON() ([]byte, error) { return nil, nil }
func (*unmarshals) UnmarshalJSON([]byte) error { return nil }
func (textOut) MarshalText() ([]byte, error)   { return nil, nil }
func (*textIn) UnmarshalText([]byte) error     { return nil }
func (*zeroes) IsZero() bool                   { return false }

func TestPlain(t *testing.T) {
	tests := []struct {
		of   reflect.Type
		want bool
	}{
		{nil, false},
		{reflect.TypeFor[int](), true},
		{reflect.TypeFor[secret](), true},
		{reflect.TypeFor[library](), true},
		{reflect.TypeFor[ring](), true},
		{reflect.TypeFor[locked](), true},
		{reflect.TypeFor[skipped](), true},
		{reflect.TypeFor[notOmit](), true},
		{reflect.TypeFor[omitTime](), true},
		{reflect.TypeFor[zeroes](), true},
		{reflect.TypeFor[marshals](), false},
		{reflect.TypeFor[*marshals](), false},
		{reflect.TypeFor[[]unmarshals](), false},
		{reflect.TypeFor[map[textOut]int](), false},
		{reflect.TypeFor[map[string]textIn](), false},
		{reflect.TypeFor[badRing](), false},
		{reflect.TypeFor[dashName](), false},
		{reflect.TypeFor[omitting](), false},
		{reflect.TypeFor[anyIn](), false},
		{reflect.TypeFor[embedder](), false},
		{reflect.TypeFor[stamped](), false},
		{reflect.TypeFor[any](), false},
		{reflect.TypeFor[error](), false},
		{reflect.TypeFor[json.Marshaler](), false},
		{reflect.TypeFor[encoding.TextMarshaler](), false},
	}
	for _, tt := range tests {
		name := "nil"
		if tt.of != nil {
			name = tt.of.String()
		}
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, canonical.Plain(tt.of))
		})
	}
}
