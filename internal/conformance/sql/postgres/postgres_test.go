package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/internal/conformance/sql/suite"
	"github.com/toolexec/toolexec/sqlstore"
)

var dsn = cmp.Or(os.Getenv("TOOLEXEC_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")

// engine keeps each place in a schema of its own.
func engine(driver string) suite.Engine {
	return suite.Engine{
		Dialect: sqlstore.PostgreSQL,
		New: func(t testing.TB) suite.Place {
			admin, err := sql.Open(driver, dsn)
			require.NoError(t, err)
			if err := admin.PingContext(t.Context()); err != nil {
				_ = admin.Close()
				t.Skipf("no PostgreSQL answers; TOOLEXEC_POSTGRES is where to look for one: %v", err)
			}
			name := suite.Name()
			_, err = admin.ExecContext(t.Context(), "CREATE SCHEMA "+name)
			require.NoError(t, err)
			t.Cleanup(func() {
				_, err := admin.ExecContext(context.Background(), "DROP SCHEMA "+name+" CASCADE")
				require.NoError(t, err)
				require.NoError(t, admin.Close())
			})
			return suite.Place{Driver: driver, DSN: within(t, name)}
		},
	}
}

// within returns where a schema is.
func within(t testing.TB, schema string) string {
	at, err := url.Parse(dsn)
	require.NoError(t, err)
	q := at.Query()
	q.Set("search_path", schema)
	q.Set("synchronous_commit", "off") // nobody pulls the plug during these tests
	at.RawQuery = q.Encode()
	return at.String()
}

func TestSuite(t *testing.T) { suite.Run(t, engine("pgx")) }

func TestOtherDriver(t *testing.T) { suite.RunShort(t, engine("postgres")) }

func TestSpeed(t *testing.T) {
	fast := engine("pgx")
	e := fast
	e.New = func(t testing.TB) suite.Place {
		place := fast.New(t)
		place.DSN = strings.Replace(place.DSN, "synchronous_commit=off", "synchronous_commit=on", 1)
		return place
	}
	suite.Speed(t, e)
}

func TestProcesses(t *testing.T) { suite.Processes(t, engine("pgx")) }

func TestOneProcess(t *testing.T) { suite.OneProcess(t, engine("pgx")) }

func TestWire(t *testing.T) {
	suite.RunWire(t, engine("pgx"), func(p suite.Place) string {
		at, err := url.Parse(p.DSN)
		require.NoError(t, err)
		return at.Host
	}, func(p suite.Place, address string) suite.Place {
		at, err := url.Parse(p.DSN)
		require.NoError(t, err)
		at.Host = address
		return suite.Place{Driver: p.Driver, DSN: at.String()}
	})
}

// TestClock has the server's clock a day off: every moment is on it.
func TestClock(t *testing.T) {
	e := engine("pgx")
	off := e
	off.New = func(t testing.TB) suite.Place {
		place := e.New(t)
		at, err := url.Parse(place.DSN)
		require.NoError(t, err)
		q := at.Query()
		schema := q.Get("search_path")
		_, err = place.Open(t).ExecContext(t.Context(), "CREATE FUNCTION "+schema+".statement_timestamp() RETURNS timestamptz LANGUAGE sql AS "+
			"$$ SELECT pg_catalog.statement_timestamp() - interval '1 day' $$")
		require.NoError(t, err)
		q.Set("search_path", schema+",pg_catalog")
		at.RawQuery = q.Encode()
		place.DSN = at.String()
		return place
	}
	suite.Clock(t, off, time.Now().Add(-24*time.Hour))
}
