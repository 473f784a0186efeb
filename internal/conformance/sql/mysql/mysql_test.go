package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"io"
	"log"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec/internal/conformance/sql/suite"
	"github.com/toolexec/toolexec/sqlstore"
)

var dsn = cmp.Or(os.Getenv("TOOLEXEC_MYSQL"), "root@tcp(127.0.0.1:3306)/test")

// engine keeps each place in a database of its own.
func engine(set func(*mysql.Config)) suite.Engine {
	return suite.Engine{
		Dialect: sqlstore.MySQL,
		New: func(t testing.TB) suite.Place {
			admin, err := sql.Open("mysql", dsn)
			require.NoError(t, err)
			if err := admin.PingContext(t.Context()); err != nil {
				_ = admin.Close()
				t.Skipf("no MySQL or MariaDB answers; TOOLEXEC_MYSQL is where to look for one: %v", err)
			}
			name := suite.Name()
			_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
			require.NoError(t, err)
			t.Cleanup(func() {
				_, err := admin.ExecContext(context.Background(), "DROP DATABASE "+name)
				require.NoError(t, err)
				require.NoError(t, admin.Close())
			})
			config, err := mysql.ParseDSN(dsn)
			require.NoError(t, err)
			config.DBName = name
			set(config)
			return suite.Place{Driver: "mysql", DSN: config.FormatDSN()}
		},
	}
}

// The driver logs what it also returns.
func TestMain(m *testing.M) {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0))
	os.Exit(m.Run())
}

func plain(*mysql.Config) {}

func TestSuite(t *testing.T) { suite.Run(t, engine(plain)) }

func TestOtherSettings(t *testing.T) {
	for name, set := range map[string]func(*mysql.Config){
		"rows found":   func(c *mysql.Config) { c.ClientFoundRows = true },
		"interpolated": func(c *mysql.Config) { c.InterpolateParams = true },
	} {
		t.Run(name, func(t *testing.T) { suite.RunShort(t, engine(set)) })
	}
}

func TestSpeed(t *testing.T) { suite.Speed(t, engine(plain)) }

func TestProcesses(t *testing.T) { suite.Processes(t, engine(plain)) }

func TestOneProcess(t *testing.T) { suite.OneProcess(t, engine(plain)) }

func TestWire(t *testing.T) {
	suite.RunWire(t, engine(plain), func(p suite.Place) string {
		config, err := mysql.ParseDSN(p.DSN)
		require.NoError(t, err)
		return config.Addr
	}, func(p suite.Place, address string) suite.Place {
		config, err := mysql.ParseDSN(p.DSN)
		require.NoError(t, err)
		config.Addr = address
		return suite.Place{Driver: p.Driver, DSN: config.FormatDSN()}
	})
}

// TestClock has the server's clock stand still in another year: every moment is
// on it.
func TestClock(t *testing.T) {
	suite.Clock(t, engine(func(c *mysql.Config) {
		c.Params = map[string]string{"timestamp": "1500000000.25"}
	}), time.Unix(1_500_000_000, 250_000_000))
}
