-- The tables of walrelay. slots: one row for each slot that it made, so that a lost slot is never mistaken for one that was
-- never made, nor an unfinished backfill for a finished one; written by `walrelay init`, `recover`, `drop` and `run --from-slot`.
-- positions: the position of each relay with `position.keep: table`; one row each, updated by the relay.
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
    -- The outbox as init last saw it: a table that was dropped and created again, or that left the publication and came
    -- back, is noticed even if no relay ran meanwhile.
    ADD COLUMN IF NOT EXISTS table_oid         bigint,
    ADD COLUMN IF NOT EXISTS entry_oid         bigint,
    ADD COLUMN IF NOT EXISTS publication_stamp text,
    -- Transactions with an xid8 below it had ended before the slot was made: this slot does not have their rows.
    ADD COLUMN IF NOT EXISTS created_xmin      bigint,
    -- While a backfill is unfinished: what it publishes, and how far it got.
    ADD COLUMN IF NOT EXISTS backfill          jsonb,
    -- Rows of transactions with an xid8 from it on are published, by the slot or from the table; of earlier rows nothing
    -- is known. 0: all rows are published.
    ADD COLUMN IF NOT EXISTS published_from    bigint,
    -- For each table that holds rows of the outbox, by its OID: its file, how it was attached as a partition, and, where
    -- published_from is not 0, from which transaction and time on its rows are published.
    ADD COLUMN IF NOT EXISTS parts             jsonb;
