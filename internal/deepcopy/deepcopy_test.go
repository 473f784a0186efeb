package deepcopy_test

import (
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolexec/toolexec/internal/deepcopy"
)

type node struct {
	Name string
	Next *node
	List []*node
	Map  map[string]*node
	Any  any
}

type locked struct {
	mu sync.Mutex
	N  int
}

type mixed struct {
	Public  []int
	private []int
	Lock    *locked
	At      time.Time
	Do      func() int
	Ch      chan int
	Arr     [2]map[string]int
}

type named []string

func TestValueSharesNothing(t *testing.T) {
	in := node{
		Name: "a", Next: &node{Name: "b"}, List: []*node{{Name: "c"}, nil}, Map: map[string]*node{"d": {Name: "d"}},
		Any: map[string]any{"k": []any{1, "x", named{"y"}}},
	}
	out := deepcopy.Value(in)
	assert.Equal(t, in, out)
	in.Next.Name, in.List[0].Name, in.Map["d"].Name = "changed", "changed", "changed"
	in.List[1] = &node{}
	in.Map["new"] = nil
	in.Any.(map[string]any)["k"].([]any)[2].(named)[0] = "changed" //nolint:forcetypeassert // made above
	assert.Equal(t, "b", out.Next.Name)
	assert.Equal(t, "c", out.List[0].Name)
	assert.Nil(t, out.List[1])
	assert.Equal(t, map[string]*node{"d": {Name: "d"}}, out.Map)
	assert.Equal(t, map[string]any{"k": []any{1, "x", named{"y"}}}, out.Any)
}

func TestValueKeepsWhatItMayNotCopy(t *testing.T) {
	in := mixed{
		Public: []int{1}, private: []int{2}, Lock: &locked{N: 3}, At: time.Now(), Do: func() int { return 4 }, Ch: make(chan int),
		Arr: [2]map[string]int{{"a": 1}, nil},
	}
	out := deepcopy.Value(in)
	assert.Same(t, in.Lock, out.Lock)
	assert.Equal(t, in.At, out.At)
	assert.Equal(t, in.Ch, out.Ch)
	assert.Equal(t, 4, out.Do())
	in.Public[0], in.private[0], in.Arr[0]["a"] = 9, 9, 9
	assert.Equal(t, []int{1}, out.Public)
	assert.Equal(t, []int{9}, out.private, "an unexported field is assigned")
	assert.Equal(t, map[string]int{"a": 1}, out.Arr[0])
	assert.Nil(t, out.Arr[1])
	in.Lock.mu.Lock()
	assert.False(t, out.Lock.mu.TryLock(), "a lock is not copied")
	in.Lock.mu.Unlock()
}

func TestValueKeepsNilAndEmptyApart(t *testing.T) {
	type in struct {
		A, B []int
		M, N map[string]int
		P    *int
		E    any
	}
	v := in{B: []int{}, N: map[string]int{}}
	assert.Equal(t, v, deepcopy.Value(v))
}

func TestValueOfARing(t *testing.T) {
	a := &node{Name: "a"}
	a.Next = &node{Name: "b", Next: a}
	a.Map = map[string]*node{"self": a}
	out := deepcopy.Value(a)
	assert.NotSame(t, a, out)
	assert.Same(t, out, out.Next.Next)
	assert.Same(t, out, out.Map["self"])
	ring := map[string]any{}
	ring["self"] = ring
	got := deepcopy.Value(ring)
	assert.Equal(t, reflect.ValueOf(got).Pointer(), reflect.ValueOf(got["self"]).Pointer())
	list := make([]any, 1)
	list[0] = list
	assert.Len(t, deepcopy.Value(list), 1)
}

func TestShares(t *testing.T) {
	type flat struct {
		A int
		B string
		C time.Time
		D [3]float64
		E *locked
		f []int //nolint:unused // what cannot be copied is not asked about
	}
	type deep struct{ F struct{ G map[string]int } }
	assert.False(t, deepcopy.Shares(reflect.TypeFor[flat]()))
	assert.False(t, deepcopy.Shares(reflect.TypeFor[string]()))
	for _, s := range []reflect.Type{
		reflect.TypeFor[deep](), reflect.TypeFor[[]int](), reflect.TypeFor[any](), reflect.TypeFor[*int](), reflect.TypeFor[node](),
		reflect.TypeFor[[2][]int](),
	} {
		assert.True(t, deepcopy.Shares(s), s)
	}
}
