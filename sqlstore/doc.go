// Package sqlstore keeps the records of package toolexec in a table of SQLite,
// PostgreSQL, MySQL or MariaDB, so that an operation survives the process that
// began it. It needs nothing but database/sql: the program brings the driver and
// opens the pool.
//
// [Open] makes the table, or brings one of an older version up to date, and
// refuses one of a newer version without touching it. Any number of stores and
// processes may use one table.
//
// # What is promised
//
// A Save that has returned without an error is durable: after kill -9 of the
// process, and with the settings below after a loss of power, the record is
// there. A Save that has returned [toolexec.ErrConflict] has stored nothing. Any
// other error leaves it open. Then the same Save is repeated: it succeeds, or is
// refused with ErrConflict and the record that the first one stored. The guard of
// package toolexec does so by itself.
//
// On SQLite, [Open] switches the file to WAL, and each connection that writes is
// set to synchronous=FULL, whatever the pool does: a commit is on the disk when
// it is acknowledged. [SynchronousNormal] leaves that to the next checkpoint. It
// loses nothing when the process dies, but the last commits when the machine
// does, and an operation whose begin is lost after its write was sent may be sent
// again. A database in memory is refused. The file must be on a disk of this
// machine: file systems of the network do not lock reliably.
//
// PostgreSQL and MySQL decide themselves: keep synchronous_commit=on, and
// innodb_flush_log_at_trx_commit=1 with sync_binlog=1. A failover to a replica
// that is not synchronous may lose the last commits, as a loss of power does
// with SynchronousNormal.
//
// # Time
//
// All moments are on the clock of the database, which SQLite has from its
// machine. The clocks of the processes do not matter. They are kept to the
// microsecond.
//
// # Speed
//
// Beginning an operation is one round trip, and so is finishing it. What several
// callers save at the same time is committed together: on SQLite always, on
// PostgreSQL when there are more at once than its own group commit serves well.
// Nothing ever waits for company, so a single caller pays nothing for it. On MySQL
// each Save commits by itself.
//
// On SQLite the Save of a single caller is one statement on the caller's own
// goroutine. Its context ends the wait for another process, as far as the driver
// heeds it, but not the wait for the disk.
//
// Let the pool keep its connections, or each Save makes a new one:
//
//	db.SetMaxOpenConns(32)
//	db.SetMaxIdleConns(32) // database/sql keeps 2 by default
//
// Give SQLite a pool of its own, too: a program that changes synchronous or
// locking_mode on a connection that it shares with the store changes it for the
// store.
//
// # Retention
//
// What has expired is gone for every method at that moment; [Store.Prune] deletes
// it. Supervisor.Run calls it after each pass; call it yourself only where none
// runs. Facts are not bounded in
// number: a disk that is full refuses new operations, and forgets none.
//
// # Errors
//
// They say what is wrong where SQLite, PostgreSQL or MySQL say it by a code: the
// disk is full, the database is read-only or corrupted, the table is missing. The
// driver's error is in their tree, for errors.As.
package sqlstore
