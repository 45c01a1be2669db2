-- Unfinished replays: what they publish again, and how far they got. Made and written by `walrelay replay`, which deletes
-- the row when the replay is done.
CREATE TABLE IF NOT EXISTS walrelay.replays (
    slot_name         text NOT NULL,
    name              text NOT NULL,
    system_identifier text NOT NULL,
    progress          jsonb NOT NULL,
    begun_at          timestamptz NOT NULL DEFAULT now(),
    changed_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (slot_name, name)
);
