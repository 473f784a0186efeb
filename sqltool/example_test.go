package sqltool_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/sqltool"
)

type Refund struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}

type Receipt struct {
	Number string `json:"number"`
}

func refundOrder(ctx context.Context, tx *sql.Tx, in Refund) (Receipt, error) {
	_, err := tx.ExecContext(ctx, "INSERT INTO refunds (order_id, cents) VALUES ($1, $2)", in.OrderID, in.Cents)
	return Receipt{"R-" + in.OrderID}, err
}

// A tool whose write happens once per order, whatever happens to the connection.
func Example() {
	ctx := context.Background()
	db := exampleDatabase() // sql.Open("pgx", …) in a program
	defer db.Close()

	w := sqltool.Writer{DB: db, Dialect: sqltool.PostgreSQL}
	if err := w.CreateTable(ctx); err != nil {
		fmt.Println(err)
		return
	}
	var x toolexec.Executor
	refund := toolexec.Bind(&x, sqltool.Tool(w, refundOrder, toolexec.Tool[Refund, Receipt]{
		Name: "process_refund",
		Ref:  func(in Refund) string { return in.OrderID },
	}))

	// The answer to COMMIT is lost here. The look-up finds the row.
	e := refund.Call(ctx, Refund{"ORD-5510", 8000})
	fmt.Println(e.Code, e.CommitState, e.Result.Number, "by", e.Verification.Source)

	e = refund.Call(ctx, Refund{"ORD-5510", 8000})
	fmt.Println(e.Code, e.CommitState, e.Result.Number, "replayed:", e.Replayed)

	// Output:
	// OK committed R-ORD-5510 by lookup
	// OK committed R-ORD-5510 replayed: true
}
