-- Commands that were answered, with the answer; written in the transaction of the command itself.
-- :table stands for the name of the table, :index for that of the index that forgetting needs.
CREATE TABLE IF NOT EXISTS :table (
    scope       text NOT NULL,
    key         text NOT NULL,
    fingerprint text NOT NULL,
    status      int,
    headers     json,
    body        bytea,
    claimed_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, key)
);

CREATE INDEX IF NOT EXISTS :index ON :table (claimed_at);
