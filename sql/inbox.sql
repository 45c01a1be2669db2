-- The messages that consumers have received, so that a repetition is recognised. :table has a row for each message; :marks,
-- for consumers that use positions, one for each partition. :index is the index by which old rows are deleted.
CREATE TABLE IF NOT EXISTS :table (
    consumer    text NOT NULL,
    message_id  text NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, message_id)
);

CREATE INDEX IF NOT EXISTS :index ON :table (received_at);

CREATE TABLE IF NOT EXISTS :marks (
    consumer     text NOT NULL,
    source       text NOT NULL,
    commit_lsn   pg_lsn NOT NULL,
    ordinal      int NOT NULL,
    committed_at timestamptz NOT NULL,
    PRIMARY KEY (consumer, source)
) WITH (fillfactor = 10);
