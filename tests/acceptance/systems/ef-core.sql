CREATE SCHEMA messaging;
CREATE TABLE messaging.outbox_messages (
    id uuid NOT NULL PRIMARY KEY,
    type varchar(500) NOT NULL,
    content jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    processed_at timestamptz,
    error varchar(2000),
    retry_count integer NOT NULL DEFAULT 0
);
CREATE INDEX ix_outbox_messages_unprocessed ON messaging.outbox_messages (created_at) WHERE processed_at IS NULL;
CREATE INDEX ix_outbox_messages_processed_at ON messaging.outbox_messages (processed_at) WHERE processed_at IS NOT NULL;
