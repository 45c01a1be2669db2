-- The open ones. Nothing that writers make as long as they like is in an index: one whose topic or key was too long for it
-- could not be stored, and the relay could not go on.
CREATE INDEX IF NOT EXISTS dead_letters_waiting ON walrelay.dead_letters (slot_name, commit_lsn)
    WHERE status IN ('waiting', 'blocked');
