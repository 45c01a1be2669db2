-- The arguments of walrelay.emit and its variants.

    aggregate_type text,
    aggregate_id   text,
    type           text,
    payload        jsonb DEFAULT NULL,
    headers        jsonb DEFAULT '{}',
    topic          text DEFAULT NULL,
    tenant_id      text DEFAULT NULL,
    id             uuid DEFAULT pg_catalog.gen_random_uuid()
