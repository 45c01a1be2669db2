-- The outbox with a partition for each day (UTC), so that old events are dropped as a whole. walrelay makes the coming
-- days and drops the old ones; rows without a day go into a default partition, so that no writer ever fails.
-- :table stands for the name in the settings (public.outbox by default).
CREATE TABLE IF NOT EXISTS :table (
    id             uuid NOT NULL DEFAULT gen_random_uuid(),
    aggregate_type text NOT NULL CHECK (aggregate_type <> ''),
    aggregate_id   text NOT NULL,
    type           text NOT NULL,
    payload        jsonb,
    headers        jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(headers) = 'object'),
    topic          text CHECK (topic <> ''),
    tenant_id      text,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (id, created_at)
) PARTITION BY RANGE (created_at);

COMMENT ON TABLE :table IS 'Transactional outbox: walrelay publishes every row that is committed here.';
