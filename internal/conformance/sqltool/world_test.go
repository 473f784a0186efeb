package sqltool_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqltool"
)

var (
	postgresDSN = cmp.Or(os.Getenv("TOOLEXEC_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")
	mysqlDSN    = cmp.Or(os.Getenv("TOOLEXEC_MYSQL"), "root@tcp(127.0.0.1:3306)/test")
)

// The driver logs what it also returns.
func TestMain(m *testing.M) {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0))
	os.Exit(m.Run())
}

// engine is a driver and what its database says.
type engine struct {
	name    string
	driver  string
	dialect sqltool.Dialect
	begin   string // what the driver sends, in capitals
	extra   string // settings of the driver, as in a URL
}

var (
	pgx     = engine{"pgx", "pgx", sqltool.PostgreSQL, "BEGIN", ""}
	pq      = engine{"pq", "postgres", sqltool.PostgreSQL, "BEGIN", ""}
	mariadb = engine{"mysql", "mysql", sqltool.MySQL, "START TRANSACTION", ""}
)

// each runs a test on every engine.
func each(t *testing.T, f func(t *testing.T, w *world)) {
	for _, e := range []engine{pgx, pq, mariadb} {
		t.Run(e.name, func(t *testing.T) { f(t, newWorld(t, e)) })
	}
}

// world is a place of its own in a database, and a wire to it.
type world struct {
	engine

	place string
	admin *sql.DB // straight to the server, in the place
	db    *sql.DB // over the wire, which tools use
	wire  *wire
}

func newWorld(t *testing.T, e engine) *world {
	t.Helper()
	w := &world{engine: e, place: "toolexec_" + strings.ToLower(rand.Text()[:16])}
	create, drop, env := "CREATE SCHEMA ", "DROP SCHEMA %s CASCADE", "TOOLEXEC_POSTGRES"
	if e.dialect == sqltool.MySQL {
		create, drop, env = "CREATE DATABASE ", "DROP DATABASE %s", "TOOLEXEC_MYSQL"
	}
	base, err := sql.Open(e.driver, w.at("", "", nil))
	require.NoError(t, err)
	t.Cleanup(func() { base.Close() })
	if err := base.PingContext(t.Context()); err != nil {
		t.Skipf("no server answers the driver %s; %s is where to look for one: %v", e.driver, env, err)
	}
	exec(t, base, create+w.place)
	t.Cleanup(func() {
		_, err := base.ExecContext(context.Background(), fmt.Sprintf(drop, w.place))
		require.NoError(t, err)
	})
	w.wire = newWire(t, w.address(t))
	w.admin = w.open(t, "", nil)
	w.db = w.open(t, w.wire.Addr().String(), nil)
	w.schema(t)
	return w
}

// schema has a ledger that would show a second effect of a ref, and tables that
// refuse rows.
func (w *world) schema(t *testing.T) {
	key := "varchar(200)"
	for _, s := range []string{
		"CREATE TABLE ledger (ref " + key + " NOT NULL, amount integer NOT NULL)",
		"CREATE TABLE parents (id integer PRIMARY KEY)",
		"CREATE TABLE strict (id integer PRIMARY KEY, must integer NOT NULL, small smallint NOT NULL DEFAULT 0, parent integer," +
			" CONSTRAINT positive CHECK (must > 0), CONSTRAINT child FOREIGN KEY (parent) REFERENCES parents (id))",
		"INSERT INTO strict (id, must) VALUES (1, 1), (2, 1)",
	} {
		exec(t, w.admin, s)
	}
	require.NoError(t, w.writer().CreateTable(t.Context()))
}

func (w *world) writer() sqltool.Writer { return sqltool.Writer{DB: w.db, Dialect: w.dialect} }

// at is a DSN in the place, or outside it where that is "", by another address
// or as another user where those are given.
func (w *world) at(place, address string, user *url.Userinfo) string {
	if w.dialect == sqltool.MySQL {
		config, err := mysql.ParseDSN(mysqlDSN)
		if err != nil {
			panic(err)
		}
		config.DBName = cmp.Or(place, config.DBName)
		config.Addr = cmp.Or(address, config.Addr)
		if user != nil {
			config.User = user.Username()
			config.Passwd, _ = user.Password()
		}
		out := config.FormatDSN()
		switch {
		case w.extra == "":
			return out
		case strings.Contains(out, "?"):
			return out + "&" + w.extra
		}
		return out + "?" + w.extra
	}
	u, err := url.Parse(postgresDSN)
	if err != nil {
		panic(err)
	}
	q, err := url.ParseQuery(u.RawQuery + "&" + w.extra)
	if err != nil {
		panic(err)
	}
	q.Set("synchronous_commit", "off") // nobody pulls the plug during these tests
	if place != "" {
		q.Set("search_path", place)
	}
	u.RawQuery, u.Host = q.Encode(), cmp.Or(address, u.Host)
	if user != nil {
		u.User = user
	}
	return u.String()
}

// address is that of the server.
func (w *world) address(t *testing.T) string {
	if w.dialect == sqltool.MySQL {
		config, err := mysql.ParseDSN(mysqlDSN)
		require.NoError(t, err)
		return config.Addr
	}
	u, err := url.Parse(postgresDSN)
	require.NoError(t, err)
	return u.Host
}

func (w *world) open(t *testing.T, address string, user *url.Userinfo) *sql.DB {
	t.Helper()
	db, err := sql.Open(w.driver, w.at(w.place, address, user))
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	require.NoError(t, err, query)
}

// bind replaces ? by what the dialect has for it.
func (w *world) bind(query string) string {
	if w.dialect == sqltool.MySQL {
		return query
	}
	for n := 1; strings.Contains(query, "?"); n++ {
		query = strings.Replace(query, "?", fmt.Sprintf("$%d", n), 1)
	}
	return query
}

func (w *world) count(t testing.TB, query string, args ...any) int {
	t.Helper()
	var n int
	require.NoError(t, w.admin.QueryRowContext(t.Context(), w.bind(query), args...).Scan(&n), query)
	return n
}

// effects is how many rows of the ledger an operation has.
func (w *world) effects(t testing.TB, ref string) int {
	t.Helper()
	return w.count(t, "SELECT COUNT(*) FROM ledger WHERE ref = ?", ref)
}

// quiet waits until no transaction that has written to the ledger or to the refs
// is open any more. In MySQL the locks are asked, because its list of
// transactions is not refreshed for those who ask often.
func (w *world) quiet(t testing.TB) {
	t.Helper()
	if w.dialect == sqltool.MySQL {
		w.count(t, "SELECT COUNT(*) FROM operation_refs LOCK IN SHARE MODE")
		w.count(t, "SELECT COUNT(*) FROM ledger LOCK IN SHARE MODE")
		return
	}
	require.Eventually(t, func() bool {
		return w.count(t, "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'relation' AND relation IN ('ledger'::regclass, 'operation_refs'::regclass)"+
			" AND mode = 'RowExclusiveLock'") == 0
	}, 10*time.Second, 5*time.Millisecond)
}

type order struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

type receipt struct {
	Number string `json:"number"`
}

// book is what tools write: one row of the ledger.
func (w *world) book(ctx context.Context, q interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, in order,
) (receipt, error) {
	_, err := q.ExecContext(ctx, w.bind("INSERT INTO ledger (ref, amount) VALUES (?, ?)"), toolexec.OperationRef(ctx), in.Amount)
	return receipt{"no-" + in.ID}, err
}

func (w *world) write(ctx context.Context, tx *sql.Tx, in order) (receipt, error) {
	return w.book(ctx, tx, in)
}

// quick keeps pauses out of the tests.
var quick = toolexec.Policy{
	Deadline: 20 * time.Second, TotalDeadline: time.Minute,
	Backoff: toolexec.Backoff{Initial: time.Millisecond, Max: 2 * time.Millisecond},
}

// once makes no second attempt within a call.
func once() toolexec.Policy {
	p := quick
	p.MaxRetries = -1
	return p
}

type bound = *toolexec.Bound[order, receipt]

// tool binds a write of sqltool's to an executor of its own.
func (w *world) tool(t *testing.T, policy toolexec.Policy, write sqltool.Func[order, receipt]) bound {
	t.Helper()
	x := &toolexec.Executor{Policy: policy}
	t.Cleanup(func() { require.NoError(t, x.Close(context.Background())) })
	return w.toolOn(x, write)
}

func (w *world) toolOn(x *toolexec.Executor, write sqltool.Func[order, receipt]) bound {
	return toolexec.Bind(x, sqltool.Tool(w.writer(), write, toolexec.Tool[order, receipt]{
		Name: "book", Verify: &toolexec.Verifier[order, receipt]{Deadline: 20 * time.Second},
	}))
}

// observer is told what the tests ask about.
type observer struct {
	looked    func() // a look-up has ended
	duplicate func() // two attempts of one operation succeeded
}

func (o observer) Start(ctx context.Context, _ toolexec.Event) context.Context { return ctx }

func (o observer) End(_ context.Context, e toolexec.Event) {
	if _, ok := e.(toolexec.VerificationInfo); ok && o.looked != nil {
		o.looked()
	}
}

func (o observer) Note(_ context.Context, e toolexec.Event) {
	if _, ok := e.(toolexec.DuplicateEffect); ok && o.duplicate != nil {
		o.duplicate()
	}
}

// newRef names an operation.
func newRef() string { return "op/" + strings.ToLower(rand.Text()) }

func with(ctx context.Context, ref string) context.Context {
	return toolexec.WithOperationRef(ctx, ref)
}

// seen is what is asserted of an envelope.
type seen struct {
	State toolexec.CommitState
	Code  toolexec.Code
	Next  toolexec.NextAction
	Rows  int
}

func (w *world) seen(t *testing.T, e toolexec.Envelope[receipt], ref string) seen {
	t.Helper()
	w.quiet(t)
	return seen{e.CommitState, e.Code, e.NextAction, w.effects(t, ref)}
}

// done is a success with one effect.
var done = seen{toolexec.Committed, toolexec.CodeOK, toolexec.NextContinue, 1}
