-- What walrelay keeps for itself: one row for each slot it made, so that a slot that was lost is never taken for one
-- that was never made, and a backfill that did not get to its end is never taken for one that did. Written by
-- `walrelay init`, `walrelay recover` and `walrelay drop` only.
CREATE SCHEMA IF NOT EXISTS walrelay;

CREATE TABLE IF NOT EXISTS walrelay.slots (
    slot_name         text PRIMARY KEY,
    plugin            text NOT NULL,
    system_identifier text NOT NULL,
    created_lsn       pg_lsn NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT now()
);

ALTER TABLE walrelay.slots
    -- Every transaction with an xid8 below it had ended before the slot was made: its rows are not this slot's.
    ADD COLUMN IF NOT EXISTS created_xmin bigint,
    -- While a backfill is unfinished: what it publishes, and how far it got.
    ADD COLUMN IF NOT EXISTS backfill     jsonb;
