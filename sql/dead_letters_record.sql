-- By the id of the record.
CREATE INDEX IF NOT EXISTS dead_letters_record ON walrelay.dead_letters (slot_name, record_id);
