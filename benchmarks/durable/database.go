package durable

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of PostgreSQL
	_ "modernc.org/sqlite"             // the driver of SQLite

	"github.com/toolexec/toolexec/sqlstore"
)

// postgres is where to look for a server; its user may create databases.
var postgres = cmp.Or(os.Getenv("TOOLEXEC_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")

const (
	mostCallers = 64
	// mostConns is less than a server has as it comes (100), with those of the peers.
	mostConns = 32
)

// database is one that is empty at first and gone in the end.
type database struct {
	dialect sqlstore.Dialect
	dsn     string // PostgreSQL's
	file    string // SQLite's
	drop    func()
}

// newSQLite keeps its databases in files of a directory.
func newSQLite(dir, name string) *database {
	return &database{dialect: sqlstore.SQLite, file: filepath.Join(dir, name), drop: func() {}}
}

// prefix is that of the names of this process's databases.
var prefix = fmt.Sprintf("toolexec_benchmark_%d_", os.Getpid())

// newPostgres makes a database of its own.
func newPostgres(ctx context.Context) (*database, error) {
	admin, err := sql.Open("pgx", postgres)
	if err != nil {
		return nil, err
	}
	name := prefix + strings.ToLower(rand.Text()[:12])
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		_ = admin.Close()
		return nil, err
	}
	at, err := url.Parse(postgres)
	if err != nil {
		_ = admin.Close()
		return nil, err
	}
	at.Path = "/" + name
	return &database{dialect: sqlstore.PostgreSQL, dsn: at.String(), drop: func() {
		_, _ = admin.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
		_ = admin.Close()
	}}, nil
}

// pool returns a pool that keeps its connections until the end.
func (d *database) pool(end *cleanups) (*sql.DB, error) {
	driver, dsn := "pgx", d.dsn
	if d.dialect == sqlstore.SQLite {
		driver, dsn = "sqlite", d.file
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	end.add(func() { _ = db.Close() })
	db.SetMaxOpenConns(mostConns)
	db.SetMaxIdleConns(mostConns)
	return db, nil
}

// version is what the server says of itself.
func (d *database) version(ctx context.Context) (string, error) {
	question := "SELECT sqlite_version()"
	if d.dialect == sqlstore.PostgreSQL {
		question = "SHOW server_version"
	}
	var end cleanups
	defer end.run()
	db, err := d.pool(&end)
	if err != nil {
		return "", err
	}
	var v string
	err = db.QueryRowContext(ctx, question).Scan(&v)
	v, _, _ = strings.Cut(v, " ") // who packed it says nothing
	return fmt.Sprintf("%s %s", d.dialect, v), err
}
