package sqlstore

import (
	"database/sql"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
)

// instants counts the Instants in v, so that a new one cannot be forgotten.
func instants(v reflect.Value) (n int) {
	switch {
	case v.Type() == reflect.TypeFor[toolexec.Instant]():
		return 1
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for _, field := range v.Fields() {
			n += instants(field)
		}
	case v.Kind() == reflect.Pointer:
		return instants(reflect.New(v.Type().Elem()).Elem())
	case v.Kind() == reflect.Slice:
		return instants(reflect.New(v.Type().Elem()).Elem())
	}
	return n
}

func TestEveryMomentMoves(t *testing.T) {
	r := toolexec.Record{
		Approval: &toolexec.ApprovalRecord{}, Unresolved: make([]toolexec.Unresolved, 1), History: make([]toolexec.HistoryEntry, 1),
	}
	names := make(map[string]bool)
	moments(&r, func(name string, i *toolexec.Instant) {
		*i = toolexec.At(time.Unix(1000, 0))
		names[name] = true
	})
	const ownColumns = 2 // UpdatedAt and RetainUntil
	assert.Len(t, names, instants(reflect.ValueOf(r))-ownColumns)
	shift(&r, []string{"history.0", "lease_until"}, time.Second)
	assert.Equal(t, int64(1001), r.History[0].At.Time().Unix())
	assert.Equal(t, int64(1001), r.LeaseUntil.Time().Unix())
	assert.Equal(t, int64(1000), r.NotBefore.Time().Unix())
}

func TestDue(t *testing.T) {
	at := time.Unix(5000, 0)
	for _, tt := range []struct {
		name     string
		r        toolexec.Record
		due      any
		relative int64
	}{
		{"committed", toolexec.Record{State: toolexec.StateCommitted}, nil, 0},
		{"held", toolexec.Record{State: toolexec.StateInFlight}, nil, 0},
		{"a lease from now", toolexec.Record{State: toolexec.StateInFlight, LeaseUntil: toolexec.In(3 * time.Second)}, int64(3_000_000), 1},
		{"a lease that is over", toolexec.Record{State: toolexec.StateInFlight, LeaseUntil: toolexec.In(-time.Second)}, int64(-1_000_000), 1},
		{"a lease until", toolexec.Record{State: toolexec.StateInFlight, LeaseUntil: toolexec.At(at)}, int64(5_000_000_000), 0},
		{"unknown, at once", toolexec.Record{State: toolexec.StateUnknown}, int64(0), 1},
		{"unknown, a check", toolexec.Record{State: toolexec.StateUnknown, NextCheckAt: toolexec.At(at)}, int64(5_000_000_000), 0},
		{"released", toolexec.Record{State: toolexec.StateReleased, NotBefore: toolexec.In(time.Minute)}, int64(60_000_000), 1},
		{"approved", toolexec.Record{
			State: toolexec.StateAwaitingApproval, Approval: &toolexec.ApprovalRecord{Decision: "approved", Expires: toolexec.In(time.Hour)},
		}, int64(0), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			due, relative := resolve(&tt.r, time.Unix(9000, 0))
			assert.Equal(t, tt.due, due)
			assert.Equal(t, tt.relative, relative)
		})
	}
}

func TestEncodeLeavesTheCallersRecordAlone(t *testing.T) {
	s, err := newStore(new(sql.DB), SQLite, Options{})
	require.NoError(t, err)
	r := toolexec.Record{
		State: toolexec.StateUnknown, Arguments: []byte(`{}`), Result: []byte(`1`),
		History: []toolexec.HistoryEntry{{At: toolexec.In(time.Second)}}, Approval: &toolexec.ApprovalRecord{Expires: toolexec.In(time.Second)},
	}
	was := r.Clone()
	e, err := s.encode(r)
	require.NoError(t, err)
	assert.Equal(t, was, r)
	r.Arguments[0], r.Result[0] = 'x', 'x'
	assert.Equal(t, `{}`, string(e.args))
	assert.Equal(t, `1`, string(e.result))
}

func TestRecordsThatCannotBeEncoded(t *testing.T) {
	s, err := newStore(new(sql.DB), SQLite, Options{})
	require.NoError(t, err)
	_, err = s.Save(t.Context(), toolexec.Record{LeaseUntil: toolexec.At(time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC))})
	require.ErrorContains(t, err, "sqlstore: the record cannot be encoded: ")
	require.NoError(t, s.Close())
}
