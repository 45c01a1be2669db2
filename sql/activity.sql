-- One row for each relay: what its process answers to whoever asks, by
-- NOTIFY walrelay_activity, '' (all relays), 'SLOT', or 'SLOT NUMBER' (with the events after that number). Nothing is
-- written while nobody asks. The table is unlogged: its rows are in no WAL, on no standby, and gone after a crash.
CREATE UNLOGGED TABLE IF NOT EXISTS walrelay.activity (
    slot_name  text PRIMARY KEY,
    written_at timestamptz NOT NULL,
    activity   json NOT NULL
) WITH (fillfactor = 10);
