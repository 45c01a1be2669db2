-- One call for one event, from any language: SELECT walrelay.emit('order', '42', 'OrderPlaced', '{"total": 12.50}').
-- Runs with the caller's rights: it needs INSERT on the outbox and USAGE on the schema walrelay.
-- :table, :columns and :values stand for the outbox of the settings and its columns.
CREATE OR REPLACE FUNCTION walrelay.emit(
    aggregate_type text,
    aggregate_id   text,
    type           text,
    payload        jsonb DEFAULT NULL,
    headers        jsonb DEFAULT '{}',
    topic          text DEFAULT NULL,
    tenant_id      text DEFAULT NULL,
    id             uuid DEFAULT gen_random_uuid()
) RETURNS uuid LANGUAGE plpgsql VOLATILE AS $emit$
BEGIN
    PERFORM walrelay.check_event_size(aggregate_id, type, payload, headers);
    INSERT INTO :table (:columns) VALUES (:values);
    RETURN id;
END $emit$;
