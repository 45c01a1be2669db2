-- The outbox. Writers insert a row in the transaction that changes their business rows; it is never updated.
-- :table stands for the name in the settings (public.outbox by default).
CREATE TABLE IF NOT EXISTS :table (
    id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregate_type text NOT NULL CHECK (aggregate_type <> ''),
    aggregate_id   text NOT NULL,
    type           text NOT NULL,
    payload        jsonb,
    headers        jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(headers) = 'object'),
    topic          text CHECK (topic <> ''),
    tenant_id      text,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE :table IS 'Transactional outbox: walrelay publishes every row that is committed here.';
