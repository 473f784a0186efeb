// Package sqltool runs a tool's write in one SQL transaction together with a
// row that names its operation, so that the effect and the knowledge of it
// commit together.
//
//	w := sqltool.Writer{DB: db, Dialect: sqltool.PostgreSQL}
//	err := w.CreateTable(ctx) // once, or with your migrations
//
//	refund := toolexec.Bind(&x, sqltool.Tool(w, refundOrder, toolexec.Tool[Refund, Receipt]{
//		Name: "process_refund",
//		Ref:  func(in Refund) string { return in.OrderID },
//	}))
//
// refundOrder is a func(context.Context, *sql.Tx, Refund) (Receipt, error). What
// it does with its transaction happens at most once per operation ref, and
// whether it happened can always be looked up: the row is there, or it is not.
// [Tool] adds both to the tool, and its declarations; [Run] and [Lookup] are
// the parts, for a tool that needs them apart.
//
// # What happens in one attempt
//
//	BEGIN
//	INSERT the ref       a second attempt waits here for the first, then finds its row
//	the tool's function  on the same transaction
//	UPDATE the ref       with the result, as JSON
//	MarkSent             the guard's record learns that COMMIT may be sent
//	COMMIT
//
// If the ref has a row already, the effect exists: the function is not run and
// the stored result is the answer. If that row is of other arguments the answer
// is OPERATION_REF_REUSED, and nothing is changed.
//
// # What is known after a failure
//
// Only COMMIT can leave something behind. [toolexec.MarkSent] is called just
// before it, and the tool declares MarksSent, so the guard's record says for
// each attempt, also of a process that died, whether COMMIT may have been sent.
// If not, nothing was committed and nothing will be: the executor may run the
// tool again without looking anything up. That holds for a lost connection, an
// error of any statement, a panic, a deadline, and it rests on the function
// doing nothing that outlives its transaction; see below.
//
// It also rests on the explicit transaction, in which database/sql repeats
// nothing but BEGIN. A statement outside of one it runs again when the driver
// answers driver.ErrBadConn, and lib/pq answers that also for a statement that
// was executed: two effects, of which nobody is told.
//
// COMMIT without a usable answer is in doubt. Of PostgreSQL's errors those of the
// classes 23 (a deferred constraint) and 40 (a conflict with another transaction,
// a deadlock) mean that nothing was committed, 40003 excepted: the tool declares
// OneRequest, for it has this one transaction. Everything else goes to the look-up.
//
// # Why the look-up needs no settle window
//
// COMMIT is sent only after the server has answered that the ref's row was
// inserted. So an attempt whose COMMIT is in doubt has, at any later time, a
// transaction on the server that is committed, and the row can be read; or
// rolled back, for good; or open, and then it holds the row's key. Look-ups
// tell the last two apart by asking for that key: in PostgreSQL with an INSERT
// of the ref that is rolled back, in MySQL with SELECT … FOR UPDATE NOWAIT. An
// open transaction is waited for, to the look-up's deadline, and after that the
// look-up "cannot tell". Absence is final as soon as it is seen, and [Tool]
// sets Settle to none.
//
// The look-up needs the same database server that the writes go to, not a
// replica, and the same privileges. The INSERT fails on a read-only server, so
// in PostgreSQL a mistake there is no absence.
//
// # What the function must not do
//
//   - End the transaction: tx.Commit, a COMMIT or ROLLBACK of its own, in MySQL
//     any statement that commits implicitly (DDL, LOCK TABLES). A tx.Commit is
//     noticed and leaves the attempt in doubt; the others are not.
//   - Change anything outside the transaction: another connection, an HTTP
//     request, a table that is not transactional (MyISAM). If it must, it calls
//     toolexec.MarkSent before.
//   - Use tx after it returned.
//
// # What the server should be told
//
// A client machine that loses power leaves its transaction open until the
// server gives up on it, and until then the operation can neither be run nor
// be found absent. Set idle_in_transaction_session_timeout in PostgreSQL,
// idle_write_transaction_timeout in MariaDB, wait_timeout in MySQL, to less
// than you are willing to wait.
//
// On a cluster with several writable nodes locks of one node are not seen by
// another, so absence is not proven there: set Settle in the tool's Verify.
// Two effects of one ref remain impossible wherever the table's key is
// enforced.
package sqltool
