-- In the order of positions, with what lists and counts look at: they need not read records and messages.
CREATE INDEX IF NOT EXISTS dead_letters_order ON walrelay.dead_letters (slot_name, commit_lsn, ordinal, number, id)
    INCLUDE (status, error, first_at, last_at);
