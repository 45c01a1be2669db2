CREATE TABLE event_store (
    aggregate_id varchar(255) NOT NULL,
    event_type varchar(255) NOT NULL,
    event_data jsonb NOT NULL,
    version integer NOT NULL,
    timestamp timestamp NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'),
    PRIMARY KEY (aggregate_id, version)
);
CREATE TABLE outbox (
    id uuid NOT NULL PRIMARY KEY,
    aggregate_id varchar(255) NOT NULL,
    event_type varchar(255) NOT NULL,
    event_data jsonb NOT NULL,
    metadata jsonb,
    created_at timestamp NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'),
    published_at timestamp,
    published boolean NOT NULL DEFAULT false,
    retry_count integer NOT NULL DEFAULT 0
);
CREATE INDEX idx_outbox_unpublished ON outbox (created_at) WHERE NOT published;
