-- What the admin API does in the background, and how far it got. Written by `walrelay admin`.
CREATE TABLE IF NOT EXISTS walrelay.jobs (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slot_name  text NOT NULL,
    action     text NOT NULL,
    request    json NOT NULL,
    caller     text NOT NULL,
    state      text NOT NULL CHECK (state IN ('running', 'done', 'failed', 'interrupted')),
    total      bigint NOT NULL,
    counts     json NOT NULL DEFAULT '{}',  -- by outcome: how many
    notes      json NOT NULL DEFAULT '[]',  -- what is to be said of single ones, of a few
    error      text NOT NULL DEFAULT '',
    hint       text NOT NULL DEFAULT '',
    result     json,                        -- what it found, if it is to find something
    begun_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

CREATE INDEX IF NOT EXISTS jobs_of_slot ON walrelay.jobs (slot_name, id);

-- A table of an earlier version.
ALTER TABLE walrelay.jobs ADD COLUMN IF NOT EXISTS result json;
ALTER TABLE walrelay.jobs ALTER COLUMN total TYPE bigint;
