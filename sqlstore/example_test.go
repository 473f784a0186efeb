package sqlstore_test

import (
	"context"
	"database/sql"
	"log"
	"time"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqlstore"
)

// The program imports a driver too, for example
//
//	import _ "modernc.org/sqlite"
func Example() { //nolint:testableexamples // it is compiled only: there is no driver in this module
	ctx := context.Background()
	db, err := sql.Open("sqlite", "operations.db")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := sqlstore.Open(ctx, db, sqlstore.SQLite, sqlstore.Options{KeepFacts: 90 * 24 * time.Hour})
	if err != nil {
		log.Print(err)
		return
	}
	defer func() { _ = store.Close() }()

	x := toolexec.Executor{Store: store}
	refund := toolexec.Bind(&x, toolexec.Tool[string, string]{
		Name: "process_refund",
		Run:  func(context.Context, string) (string, error) { return "rcpt_1", nil },
	})
	// After a crash of this program the same call finds out what became of it.
	env := refund.Call(toolexec.WithOperationRef(ctx, "run_81/step_4"), "ORD-5510")
	log.Print(env.CommitState)
}
