-- By the key, of any length.
CREATE INDEX IF NOT EXISTS dead_letters_key ON walrelay.dead_letters USING hash (key);
