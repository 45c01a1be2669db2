-- Messages that were refused and rows that could not be read, whole, so that nothing is dropped without a trace. Written
-- by the relay, `walrelay dlq` and `walrelay skip`. A record that is read again after a crash gets no second row.
CREATE TABLE IF NOT EXISTS walrelay.dead_letters (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slot_name  text NOT NULL,
    commit_lsn pg_lsn NOT NULL,
    ordinal    int NOT NULL,                -- of the record in its transaction; -1: the whole transaction
    number     int NOT NULL DEFAULT 0,      -- of the message among those of its record
    record_id  text NOT NULL DEFAULT '',
    sink       text NOT NULL,
    topic      text,                        -- NULL: it has none
    key        bytea,
    status     text NOT NULL CHECK (status IN ('waiting', 'blocked', 'replayed', 'discarded', 'skipped')),
    error      text NOT NULL,
    reason     text NOT NULL,
    attempts   int NOT NULL,                -- how often it was offered to the broker or, without a topic, read
    first_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    record     json,                        -- the outbox row; text that is not UTF-8 as {"base64": ...}
    message    json,                        -- as it was offered; NULL: none was made
    raw        bytea,                       -- what could not be read: a row's frame, a logical message's content
    closed_at  timestamptz,                 -- replayed, discarded or skipped: when, by whom and why
    closed_by  text,
    closed_why text,
    UNIQUE (slot_name, commit_lsn, ordinal, number, record_id)
);

-- An operator's correction of the record, which a replay publishes instead of it; NULL: there is none. A table of an
-- earlier version gets these columns, unless a replay has it locked: the relay must not wait behind both.
SET LOCAL lock_timeout = '2s';
ALTER TABLE walrelay.dead_letters
    ADD COLUMN IF NOT EXISTS edited_record json,
    ADD COLUMN IF NOT EXISTS edited_at     timestamptz,
    ADD COLUMN IF NOT EXISTS edited_by     text,
    ADD COLUMN IF NOT EXISTS edit_reason   text;
