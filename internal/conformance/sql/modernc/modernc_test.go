package modernc

import (
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/toolexec/toolexec/internal/conformance/sql/suite"
	"github.com/toolexec/toolexec/sqlstore"
)

var engine = suite.Engine{
	Dialect: sqlstore.SQLite,
	New: func(t testing.TB) suite.Place {
		file := filepath.Join(t.TempDir(), "records.db")
		return suite.Place{Driver: "sqlite", DSN: file}
	},
}

func TestSuite(t *testing.T) { suite.Run(t, engine) }

func TestSpeed(t *testing.T) { suite.Speed(t, engine) }

func TestProcesses(t *testing.T) { suite.Processes(t, engine) }

func TestOneProcess(t *testing.T) { suite.OneProcess(t, engine) }

func TestSQLite(t *testing.T) {
	suite.RunSQLite(t, engine,
		func(p suite.Place) string { return strings.TrimPrefix(p.DSN, "file:") },
		func(p suite.Place) suite.Place {
			return suite.Place{Driver: p.Driver, DSN: "file:" + p.DSN + "?mode=ro"}
		},
		suite.Place{Driver: "sqlite", DSN: ":memory:"}, suite.Place{Driver: "sqlite", DSN: "file:shared?mode=memory&cache=shared"}, suite.Place{Driver: "sqlite", DSN: ""},
	)
}
