-- What walrelay keeps for itself. slots: one row for each slot it made, so that a slot that was lost is never taken for
-- one that was never made, and a backfill that did not get to its end is never taken for one that did; written by
-- `walrelay init`, `walrelay recover` and `walrelay drop` only. positions: where a relay with `position.keep: table`
-- got to; one row for each of them, updated by the relay.
CREATE SCHEMA IF NOT EXISTS walrelay;

CREATE TABLE IF NOT EXISTS walrelay.slots (
    slot_name         text PRIMARY KEY,
    plugin            text NOT NULL,
    system_identifier text NOT NULL,
    created_lsn       pg_lsn NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS walrelay.positions (
    slot_name         text PRIMARY KEY,
    system_identifier text NOT NULL,
    timeline          integer NOT NULL,
    lsn               pg_lsn NOT NULL,
    commit_lsn        pg_lsn NOT NULL,
    ordinal           integer NOT NULL,
    xmin_xid          xid8 NOT NULL,
    kept_at           timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 10);

ALTER TABLE walrelay.slots
    -- What init saw of the outbox last, so that a table which was dropped and made anew, or which left the publication
    -- and came back, is noticed also where no relay ran meanwhile.
    ADD COLUMN IF NOT EXISTS table_oid         bigint,
    ADD COLUMN IF NOT EXISTS entry_oid         bigint,
    ADD COLUMN IF NOT EXISTS publication_stamp text,
    -- Every transaction with an xid8 below it had ended before the slot was made: its rows are not this slot's.
    ADD COLUMN IF NOT EXISTS created_xmin      bigint,
    -- While a backfill is unfinished: what it publishes, and how far it got.
    ADD COLUMN IF NOT EXISTS backfill          jsonb,
    -- Rows of every transaction with an xid8 from it on are published, by the slot or from the table; of those before
    -- nothing is known. 0: all rows are.
    ADD COLUMN IF NOT EXISTS published_from    bigint,
    -- Of each table that holds rows of the outbox, by its OID: the file it lay in, how it was attached as a partition,
    -- and, where published_from is not 0, from which transaction and time on its rows are published.
    ADD COLUMN IF NOT EXISTS parts             jsonb;
