CREATE TABLE outbox (
    id varchar(36) NOT NULL PRIMARY KEY,
    tenant_id varchar(64) NOT NULL,
    aggregate_id varchar(128),
    aggregate_type varchar(100),
    topic varchar(128) NOT NULL,
    occurred_at timestamptz NOT NULL,
    payload json NOT NULL,
    event_metadata json,
    routing_key varchar(100),
    schema_id varchar(128),
    schema_version integer DEFAULT 1,
    status varchar(10) NOT NULL DEFAULT 'NEW',
    retry_count integer NOT NULL DEFAULT 0,
    retry_after timestamptz,
    error_message varchar(500),
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_outbox_tenant_status ON outbox (tenant_id, status, created_at);
