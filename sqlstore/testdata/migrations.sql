-- sqlite
CREATE TABLE "t" (scope BLOB NOT NULL, ref BLOB NOT NULL, version INTEGER NOT NULL, state TEXT NOT NULL, tool TEXT NOT NULL, alias BLOB, fingerprint BLOB NOT NULL, live_print BLOB, is_open INTEGER NOT NULL, due_at INTEGER, claimed_until INTEGER, result_until INTEGER, retain_until INTEGER, prune_at INTEGER, saved_at INTEGER NOT NULL, record TEXT NOT NULL, arguments BLOB, result BLOB) STRICT;
-- sqlite
CREATE UNIQUE INDEX "t_key" ON "t" (scope, ref);
-- sqlite
CREATE INDEX "t_due" ON "t" (due_at, scope, ref) WHERE due_at IS NOT NULL;
-- sqlite
CREATE INDEX "t_live" ON "t" (live_print, scope, ref) WHERE live_print IS NOT NULL;
-- sqlite
CREATE INDEX "t_alias" ON "t" (alias, scope, ref) WHERE alias IS NOT NULL;
-- sqlite
CREATE INDEX "t_prune" ON "t" (prune_at) WHERE prune_at IS NOT NULL;
-- postgresql
CREATE TABLE "t" (scope bytea NOT NULL, ref bytea NOT NULL, version bigint NOT NULL, state text NOT NULL, tool text NOT NULL, alias bytea, fingerprint bytea NOT NULL, live_print bytea, is_open bigint NOT NULL, due_at bigint, claimed_until bigint, result_until bigint, retain_until bigint, prune_at bigint, saved_at bigint NOT NULL, record text NOT NULL, arguments bytea, result bytea);
-- postgresql
CREATE UNIQUE INDEX "t_key" ON "t" (scope, ref);
-- postgresql
CREATE INDEX "t_due" ON "t" (due_at, scope, ref) WHERE due_at IS NOT NULL;
-- postgresql
CREATE INDEX "t_live" ON "t" (live_print, scope, ref) WHERE live_print IS NOT NULL;
-- postgresql
CREATE INDEX "t_alias" ON "t" (alias, scope, ref) WHERE alias IS NOT NULL;
-- postgresql
CREATE INDEX "t_prune" ON "t" (prune_at) WHERE prune_at IS NOT NULL;
-- mysql
CREATE TABLE IF NOT EXISTS `t` (scope VARBINARY(1024) NOT NULL, ref VARBINARY(1024) NOT NULL, version BIGINT NOT NULL, state VARBINARY(255) NOT NULL, tool VARBINARY(255) NOT NULL, alias VARBINARY(1024), fingerprint VARBINARY(33) NOT NULL, live_print VARBINARY(33), is_open BIGINT NOT NULL, due_at BIGINT, claimed_until BIGINT, result_until BIGINT, retain_until BIGINT, prune_at BIGINT, saved_at BIGINT NOT NULL, record LONGBLOB NOT NULL, arguments LONGBLOB, result LONGBLOB, PRIMARY KEY (scope, ref), INDEX `t_due` (due_at), INDEX `t_live` (live_print), INDEX `t_alias` (alias), INDEX `t_prune` (prune_at)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;
