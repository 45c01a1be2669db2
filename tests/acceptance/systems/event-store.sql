CREATE TABLE events (
    position bigserial PRIMARY KEY,
    type varchar(64) NOT NULL,
    tags text[] NOT NULL,
    data jsonb NOT NULL,
    transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
    occurred_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX idx_events_tags ON events USING gin (tags);
