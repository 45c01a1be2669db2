-- One row for each command, with its response; written in the transaction of the command.
-- :table stands for the name of the table, :index for that of the index by which old rows are deleted.
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
