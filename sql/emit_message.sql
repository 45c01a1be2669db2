-- As walrelay.emit, without a table: the event is a logical message in the WAL, of the prefix that the relay knows.
-- :prefix stands for outbox.messages.prefix of the settings.
-- :arguments stands for emit_arguments.sql.
CREATE OR REPLACE FUNCTION walrelay.emit_message(:arguments) RETURNS uuid LANGUAGE plpgsql VOLATILE AS $emit$
BEGIN
    IF num_nulls(id, aggregate_type, aggregate_id, type, headers) > 0 OR aggregate_type = '' OR topic = ''
        OR jsonb_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'event % of %: id, aggregate_id and type are not null, aggregate_type and topic not empty, and'
            ' headers is an object',
            type, aggregate_type USING ERRCODE = 'check_violation';
    END IF;
    PERFORM walrelay.check_event_size(aggregate_id, type, payload, headers);
    PERFORM pg_logical_emit_message(true, :prefix, jsonb_build_object(
        'id', id, 'aggregate_type', aggregate_type, 'aggregate_id', aggregate_id, 'type', type, 'payload', payload,
        'headers', headers, 'topic', topic, 'tenant_id', tenant_id)::text);
    RETURN id;
END $emit$;
