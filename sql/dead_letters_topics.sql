-- How many are open by topic.
CREATE INDEX IF NOT EXISTS dead_letters_topics ON walrelay.dead_letters (slot_name, topic)
    WHERE status IN ('waiting', 'blocked') AND coalesce(octet_length(topic), 0) <= 1000;
