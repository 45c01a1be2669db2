-- One call for one event, from any language: SELECT walrelay.emit('order', '42', 'OrderPlaced', '{"total": 12.50}').
-- Runs with the caller's rights: it needs INSERT on the outbox and USAGE on the schema walrelay. The search_path stays
-- the caller's, because triggers on the outbox may rely on it; so every name in here has its schema.
-- :arguments stands for emit_arguments.sql; :table, :columns and :values for the outbox of the settings and its columns.
CREATE OR REPLACE FUNCTION walrelay.emit(:arguments) RETURNS uuid LANGUAGE plpgsql VOLATILE AS $emit$
BEGIN
    PERFORM walrelay.check_event_size(aggregate_id, type, payload, headers);
    INSERT INTO :table (:columns) VALUES (:values);
    RETURN id;
END $emit$;
