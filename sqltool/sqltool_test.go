package sqltool_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqltool"
)

type in struct {
	ID string `json:"id"`
	At string `json:"at,omitempty"`
}

type out struct {
	No string `json:"no"`
}

func ok(context.Context, *sql.Tx, in) (out, error) { return out{"1"}, nil }

// once makes one attempt per call, and looks up at once.
func once() *toolexec.Executor { return &toolexec.Executor{Policy: toolexec.Policy{MaxRetries: -1}} }

func bind(w sqltool.Writer, write sqltool.Func[in, out]) *toolexec.Bound[in, out] {
	return toolexec.Bind(once(), sqltool.Tool(w, write, toolexec.Tool[in, out]{Name: "t"}))
}

func ref(ctx context.Context) context.Context { return toolexec.WithOperationRef(ctx, "op/1") }

// TestOrder is the order of things: the ref first, the mark and COMMIT last.
func TestOrder(t *testing.T) {
	for _, dialect := range []sqltool.Dialect{sqltool.PostgreSQL, sqltool.MySQL} {
		f := new(fake)
		w := sqltool.Writer{DB: f.db(), Dialect: dialect}
		write := func(context.Context, *sql.Tx, in) (out, error) {
			return out{"1"}, f.step("FUNCTION")
		}
		e := bind(w, write).Call(ref(t.Context()), in{ID: "a"})
		require.True(t, e.OK, "%v", errors.Unwrap(e.Err()))
		assert.Equal(t, []string{"BEGIN", "INSERT", "FUNCTION", "UPDATE", "COMMIT"}, f.steps())

		if dialect == sqltool.MySQL {
			f.fail = map[string]error{"INSERT": &mysqlError{Number: 1062}}
		}
		again := bind(w, write).Call(ref(t.Context()), in{ID: "a"})
		assert.Equal(t, []string{"BEGIN", "INSERT", "SELECT", "ROLLBACK"}, f.steps())
		assert.True(t, again.OK)
		assert.Equal(t, out{"1"}, again.Result)
	}
}

// seen is what is asserted of an answer.
type seen struct {
	state toolexec.CommitState
	code  toolexec.Code
}

// TestFailures has each statement fail.
func TestFailures(t *testing.T) {
	lost := driver.ErrBadConn
	nc, unknown := toolexec.NotCommitted, toolexec.CommitUnknown
	down := seen{nc, toolexec.CodeDependencyUnavailable}
	for _, row := range []struct {
		name     string
		dialect  sqltool.Dialect
		fail     map[string]error
		affected map[string]driver.Result
		want     seen
		steps    string
	}{
		{"no connection", sqltool.PostgreSQL, map[string]error{"CONNECT": io.EOF}, nil, down, ""},
		{"BEGIN", sqltool.PostgreSQL, map[string]error{"BEGIN": io.EOF}, nil, down, "BEGIN"},
		{"BEGIN refused", sqltool.PostgreSQL, map[string]error{"BEGIN": pgError("28P01")}, nil, seen{nc, toolexec.CodeAuthenticationRequired}, "BEGIN"},
		{"BEGIN refused", sqltool.MySQL, map[string]error{"BEGIN": &mysqlError{Number: 1045}}, nil, seen{nc, toolexec.CodeAuthenticationRequired}, "BEGIN"},
		{"INSERT, connection lost", sqltool.PostgreSQL, map[string]error{"INSERT": io.EOF, "ROLLBACK": lost}, nil, down, "BEGIN INSERT ROLLBACK"},
		{"INSERT, connection lost", sqltool.MySQL, map[string]error{"INSERT": errors.New("gone"), "SELECT": errors.New("gone"), "ROLLBACK": errors.New("gone")}, nil, down, "BEGIN INSERT SELECT ROLLBACK"},
		{"INSERT refused", sqltool.MySQL, map[string]error{"INSERT": &mysqlError{Number: 1213}}, nil, seen{nc, toolexec.CodeSerializationConflict}, "BEGIN INSERT SELECT ROLLBACK"},
		{"INSERT refused", sqltool.PostgreSQL, map[string]error{"INSERT": pgError("42P01")}, nil, seen{nc, toolexec.CodeConfigError}, "BEGIN INSERT ROLLBACK"},
		{"INSERT, no count", sqltool.PostgreSQL, nil, map[string]driver.Result{"INSERT": noCount{}}, seen{nc, toolexec.CodeToolFailed}, "BEGIN INSERT ROLLBACK"},
		{"a row that goes away", sqltool.PostgreSQL, nil, map[string]driver.Result{"INSERT": driver.RowsAffected(0)}, seen{nc, toolexec.CodeToolFailed}, "BEGIN INSERT SELECT ROLLBACK"},
		{"a row that cannot be read", sqltool.PostgreSQL, map[string]error{"SELECT": pgError("40001")}, map[string]driver.Result{"INSERT": driver.RowsAffected(0)}, seen{nc, toolexec.CodeSerializationConflict}, "BEGIN INSERT SELECT ROLLBACK"},
		{"UPDATE", sqltool.PostgreSQL, map[string]error{"UPDATE": pgError("25P02")}, nil, seen{nc, toolexec.CodeToolFailed}, "BEGIN INSERT UPDATE ROLLBACK"},
		{"UPDATE of nothing", sqltool.PostgreSQL, nil, map[string]driver.Result{"UPDATE": driver.RowsAffected(0)}, seen{nc, toolexec.CodeToolFailed}, "BEGIN INSERT UPDATE ROLLBACK"},
		{"UPDATE, no count", sqltool.PostgreSQL, nil, map[string]driver.Result{"UPDATE": noCount{}}, seen{nc, toolexec.CodeToolFailed}, "BEGIN INSERT UPDATE ROLLBACK"},
		{"COMMIT refused", sqltool.PostgreSQL, map[string]error{"COMMIT": pgError("40001")}, nil, seen{nc, toolexec.CodeSerializationConflict}, "BEGIN INSERT UPDATE COMMIT"},
		{"COMMIT in doubt, and nobody to ask", sqltool.PostgreSQL, map[string]error{"COMMIT": lost, "SELECT": lost}, nil, seen{unknown, toolexec.CodeOutcomeUnknown}, "BEGIN INSERT UPDATE COMMIT SELECT SELECT SELECT"},
		{"COMMIT in doubt, and it was executed", sqltool.PostgreSQL, map[string]error{"COMMIT": lost}, nil, seen{toolexec.Committed, toolexec.CodeOK}, "BEGIN INSERT UPDATE COMMIT SELECT"},
		{"COMMIT by MySQL's deadlock", sqltool.MySQL, map[string]error{"COMMIT": &mysqlError{Number: 1213}}, nil, seen{toolexec.Committed, toolexec.CodeOK}, "BEGIN INSERT UPDATE COMMIT SELECT"},
	} {
		t.Run(string(row.dialect)+" "+row.name, func(t *testing.T) {
			f := &fake{fail: row.fail, affected: row.affected}
			e := bind(sqltool.Writer{DB: f.db(), Dialect: row.dialect}, ok).Call(ref(t.Context()), in{ID: "a"})
			assert.Equal(t, row.want, seen{e.CommitState, e.Code}, "%v", errors.Unwrap(e.Err()))
			assert.Equal(t, row.steps, strings.Join(f.steps(), " "))
		})
	}
}

// TestPanic: the transaction is rolled back before the panic goes on, while the
// attempt's context is still alive.
func TestPanic(t *testing.T) {
	f := new(fake)
	inner := sqltool.Run(sqltool.Writer{DB: f.db(), Dialect: sqltool.PostgreSQL},
		func(context.Context, *sql.Tx, in) (out, error) { panic("no") })
	var steps []string
	tool := toolexec.Bind(once(), toolexec.Tool[in, out]{Name: "t", MarksSent: true, Run: func(ctx context.Context, a in) (out, error) {
		defer func() { steps = f.steps() }()
		return inner(ctx, a)
	}})
	e := tool.Call(ref(t.Context()), in{ID: "a"})
	assert.Equal(t, seen{toolexec.NotCommitted, toolexec.CodeToolPanic}, seen{e.CommitState, e.Code})
	assert.Equal(t, []string{"BEGIN", "INSERT", "ROLLBACK"}, steps)
}

// TestOwnErrors keep their meaning, also when the connection is lost after them,
// and the tool's classifiers are asked about those of the driver.
func TestOwnErrors(t *testing.T) {
	mine := &mysqlError{Number: 1062}
	for _, row := range []struct {
		name string
		err  error
		want toolexec.Code
	}{
		{"plain", errors.New("no"), toolexec.CodeDependencyUnavailable}, // perhaps the connection's own
		{"stated", toolexec.Rejected("TOO_POOR", nil), "TOO_POOR"},
		{"stated, of the driver", toolexec.Rejected("TOO_POOR", mine), "TOO_POOR"},
		{"of the driver", mine, "TAKEN"},
		{"joined", errors.Join(errors.New("no"), &mysqlError{Number: 1406}), toolexec.CodeInvalidArguments},
		{"joined, unknown", errors.Join(errors.New("no"), errors.New("no")), toolexec.CodeDependencyUnavailable},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := &fake{fail: map[string]error{"ROLLBACK": driver.ErrBadConn}}
			tool := toolexec.Bind(once(), sqltool.Tool(sqltool.Writer{DB: f.db(), Dialect: sqltool.MySQL},
				func(context.Context, *sql.Tx, in) (out, error) { return out{}, row.err },
				toolexec.Tool[in, out]{Name: "t", Classifiers: []toolexec.Classifier{func(err error) (toolexec.Failure, bool) {
					return toolexec.Failure{Code: "TAKEN"}, errors.Is(err, mine)
				}}}))
			e := tool.Call(ref(t.Context()), in{ID: "a"})
			assert.Equal(t, seen{toolexec.NotCommitted, row.want}, seen{e.CommitState, e.Code})
		})
	}
}

// TestLookupWaits for an open transaction, with pauses, until it must stop.
func TestLookupWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fail: map[string]error{"INSERT": pgError("55P03")}}
		db := f.db()
		defer db.Close()
		look := sqltool.Lookup[in, out](sqltool.Writer{DB: db, Dialect: sqltool.PostgreSQL})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := look(ctx, "op/1", in{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "still open")
		assert.Equal(t, time.Second, time.Since(start))
		looks := 0
		for _, s := range f.steps() {
			if s == "INSERT" {
				looks++
			}
		}
		assert.Equal(t, 14, looks, "after 0, 5, 15, 35, 75, 155 ms and then every 100 ms")

		time.AfterFunc(300*time.Millisecond, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.fail = nil
		})
		found, err := look(t.Context(), "op/1", in{})
		require.NoError(t, err)
		assert.Equal(t, toolexec.Absent[out](), found)
	})
}

// TestLookupFails: an error is never absence.
func TestLookupFails(t *testing.T) {
	for _, row := range []struct {
		name     string
		dialect  sqltool.Dialect
		fail     map[string]error
		affected map[string]driver.Result
	}{
		{"the read", sqltool.PostgreSQL, map[string]error{"SELECT": io.EOF}, nil},
		{"BEGIN", sqltool.PostgreSQL, map[string]error{"BEGIN": io.EOF}, nil},
		{"SET", sqltool.PostgreSQL, map[string]error{"SET": io.EOF}, nil},
		{"INSERT", sqltool.PostgreSQL, map[string]error{"INSERT": pgError("25006")}, nil},
		{"no count", sqltool.PostgreSQL, nil, map[string]driver.Result{"INSERT": noCount{}}},
		{"the row is there and is not", sqltool.PostgreSQL, nil, map[string]driver.Result{"INSERT": driver.RowsAffected(0)}},
		{"the read", sqltool.MySQL, map[string]error{"SELECT": io.EOF}, nil},
	} {
		t.Run(string(row.dialect)+" "+row.name, func(t *testing.T) {
			f := &fake{fail: row.fail, affected: row.affected}
			found, err := sqltool.Lookup[in, out](sqltool.Writer{DB: f.db(), Dialect: row.dialect})(t.Context(), "op/1", in{})
			require.Error(t, err)
			assert.Equal(t, toolexec.Finding[out]{}, found)
		})
	}
}

// TestIdentity: fields that are no part of the operation's identity do not make
// a duplicate another operation.
func TestIdentity(t *testing.T) {
	f := new(fake)
	call := func(ignore []string, arguments in) toolexec.Envelope[out] {
		return toolexec.Bind(once(), sqltool.Tool(sqltool.Writer{DB: f.db(), Dialect: sqltool.PostgreSQL}, ok,
			toolexec.Tool[in, out]{Name: "t", IgnoreFields: ignore})).Call(ref(t.Context()), arguments)
	}
	require.True(t, call([]string{"/at"}, in{"a", "noon"}).OK)
	assert.True(t, call([]string{"/at"}, in{"a", "night"}).OK)
	assert.Equal(t, toolexec.CodeOperationRefReused, call([]string{"/at"}, in{"b", "noon"}).Code)
	assert.Equal(t, toolexec.CodeOperationRefReused, call(nil, in{"a", "noon"}).Code)
}

// TestResultThatFitsNoMore leaves the fact.
func TestResultThatFitsNoMore(t *testing.T) {
	f := new(fake)
	w := sqltool.Writer{DB: f.db(), Dialect: sqltool.PostgreSQL}
	require.True(t, bind(w, ok).Call(ref(t.Context()), in{ID: "a"}).OK)
	type other struct {
		No int `json:"no"`
	}
	e := toolexec.Bind(once(), sqltool.Tool(w, func(context.Context, *sql.Tx, in) (other, error) { return other{}, nil },
		toolexec.Tool[in, other]{Name: "t"})).Call(ref(t.Context()), in{ID: "a"})
	assert.True(t, e.OK)
	assert.False(t, e.HasResult)
	found, err := sqltool.Lookup[in, other](w)(t.Context(), "op/1", in{})
	require.NoError(t, err)
	assert.Equal(t, toolexec.FoundEffectOnly[other](), found)
}

// TestResultThatCannotBeEncoded is committed all the same.
func TestResultThatCannotBeEncoded(t *testing.T) {
	f := new(fake)
	e := toolexec.Bind(once(), sqltool.Tool(sqltool.Writer{DB: f.db(), Dialect: sqltool.PostgreSQL},
		func(context.Context, *sql.Tx, in) (any, error) { return func() {}, nil },
		toolexec.Tool[in, any]{Name: "t"})).Call(ref(t.Context()), in{ID: "a"})
	assert.True(t, e.OK)
	assert.Equal(t, []string{"BEGIN", "INSERT", "UPDATE", "COMMIT"}, f.steps())
}

// TestNoOperation: outside an attempt there is no ref, and nothing is sent.
func TestNoOperation(t *testing.T) {
	f := new(fake)
	w := sqltool.Writer{DB: f.db(), Dialect: sqltool.PostgreSQL, CommitWait: -1}
	_, err := sqltool.Run(w, ok)(t.Context(), in{})
	require.ErrorContains(t, err, "no operation is running")
	assert.Empty(t, f.steps())
	_, err = sqltool.Run(w, func(context.Context, *sql.Tx, chan int) (out, error) { return out{}, nil })(t.Context(), nil)
	require.ErrorContains(t, err, "cannot be encoded")
	_, err = sqltool.Lookup[chan int, out](w)(t.Context(), "op/1", nil)
	require.ErrorContains(t, err, "cannot be encoded")
	_, err = sqltool.Run(w, func(context.Context, *sql.Tx, twice) (out, error) { return out{}, nil })(t.Context(), twice{})
	require.ErrorContains(t, err, "the arguments: ")
	assert.True(t, bind(w, ok).Call(ref(t.Context()), in{ID: "a"}).OK, "without a bound")
}

// twice encodes as an object with a name twice.
type twice struct{}

func (twice) MarshalJSON() ([]byte, error) { return []byte(`{"a":1,"a":2}`), nil }

// TestVerify: what the tool sets itself is kept.
func TestVerify(t *testing.T) {
	w := sqltool.Writer{DB: new(fake).db(), Dialect: sqltool.PostgreSQL}
	got := sqltool.Tool(w, ok, toolexec.Tool[in, out]{Name: "t"})
	assert.True(t, got.MarksSent)
	assert.True(t, got.OneRequest)
	assert.True(t, got.Verify.Authoritative)
	assert.Equal(t, time.Duration(-1), got.Verify.Settle)

	own := &toolexec.Verifier[in, out]{Settle: time.Minute, MaxChecks: 3, Lookup: func(context.Context, string, in) (toolexec.Finding[out], error) {
		return toolexec.Conflicting[out](), nil
	}}
	got = sqltool.Tool(w, ok, toolexec.Tool[in, out]{Name: "t", Verify: own})
	assert.Equal(t, time.Minute, got.Verify.Settle)
	assert.Equal(t, 3, got.Verify.MaxChecks)
	found, err := got.Verify.Lookup(t.Context(), "", in{})
	require.NoError(t, err)
	assert.Equal(t, toolexec.OtherEffect, found.Verdict)
	assert.False(t, own.Authoritative, "the caller's is left alone")
}

// TestMistakes of the program are told at once, with the mend.
func TestMistakes(t *testing.T) {
	db := new(fake).db()
	good := sqltool.Writer{DB: db, Dialect: sqltool.PostgreSQL}
	for _, row := range []struct {
		w    sqltool.Writer
		want string
	}{
		{sqltool.Writer{}, "sqltool: the Writer has no DB; set it to the database that the tool writes to"},
		{sqltool.Writer{DB: db}, `sqltool: no such dialect: ""; set Dialect to PostgreSQL or MySQL`},
		{sqltool.Writer{DB: db, Dialect: sqltool.MySQL, Table: "a; b"}, `sqltool: the table name "a; b" must match `},
		{sqltool.Writer{DB: db, Dialect: sqltool.MySQL, Scope: "a b"}, `sqltool: the scope "a b" must match `},
	} {
		require.ErrorContains(t, row.w.CreateTable(t.Context()), row.want)
		_, err := row.w.Prune(t.Context(), 1, 1)
		require.ErrorContains(t, err, row.want)
		assert.Contains(t, panicOf(func() { sqltool.Run(row.w, ok) }), row.want)
		assert.Contains(t, panicOf(func() { sqltool.Lookup[in, out](row.w) }), row.want)
		assert.Contains(t, panicOf(func() { sqltool.Tool(row.w, ok, toolexec.Tool[in, out]{Name: "t"}) }), row.want)
	}
	assert.Contains(t, panicOf(func() { sqltool.Run[in, out](good, nil) }), "the function is nil")
	assert.Contains(t, panicOf(func() {
		sqltool.Tool(good, ok, toolexec.Tool[in, out]{Name: "t", Run: sqltool.Run(good, ok)})
	}), `Tool "t": it has a Run already`)
	assert.Contains(t, panicOf(func() {
		sqltool.Tool(good, ok, toolexec.Tool[in, out]{Name: "t", IgnoreFields: []string{"x"}})
	}), `Tool "t": IgnoreFields: `)
}

func panicOf(f func()) (text string) {
	defer func() { text, _ = recover().(string) }()
	f()
	return ""
}

// TestHousekeeping are the errors of CreateTable and Prune.
func TestHousekeeping(t *testing.T) {
	f := &fake{fail: map[string]error{"CREATE": io.EOF, "DELETE": io.EOF}}
	w := sqltool.Writer{DB: f.db(), Dialect: sqltool.PostgreSQL}
	require.ErrorIs(t, w.CreateTable(t.Context()), io.EOF)
	assert.Equal(t, []string{"CREATE", "CREATE", "CREATE"}, f.steps(), "it may have collided with another")
	_, err := w.Prune(t.Context(), time.Hour, 1)
	require.ErrorIs(t, err, io.EOF)
	f.fail, f.affected = nil, map[string]driver.Result{"DELETE": noCount{}}
	_, err = w.Prune(t.Context(), time.Hour, 1)
	require.ErrorIs(t, err, io.ErrNoProgress)
	f.steps()
	_, err = w.Prune(t.Context(), 0, 1)
	require.ErrorContains(t, err, "an age above zero")
	n, err := w.Prune(t.Context(), time.Hour, 0)
	require.NoError(t, err)
	assert.Zero(t, n)
	assert.Empty(t, f.steps())
}
