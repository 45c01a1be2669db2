-- What walrelay keeps for itself: one row for each slot it made, so that a slot that was lost is never taken for one
-- that was never made. Written by `walrelay init` and `walrelay drop` only.
CREATE SCHEMA IF NOT EXISTS walrelay;

CREATE TABLE IF NOT EXISTS walrelay.slots (
    slot_name         text PRIMARY KEY,
    plugin            text NOT NULL,
    system_identifier text NOT NULL,
    created_lsn       pg_lsn NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT now()
);

-- What init saw of the outbox last, so that a table which was dropped and made anew, or which left the publication and
-- came back, is noticed also where no relay ran meanwhile.
ALTER TABLE walrelay.slots
    ADD COLUMN IF NOT EXISTS table_oid bigint,
    ADD COLUMN IF NOT EXISTS entry_oid bigint,
    ADD COLUMN IF NOT EXISTS publication_stamp text;
