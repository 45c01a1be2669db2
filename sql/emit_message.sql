-- walrelay.emit without a table: the event is a logical message in the WAL, with the relay's prefix.
-- :prefix stands for outbox.messages.prefix of the settings.
-- :arguments stands for emit_arguments.sql.
CREATE OR REPLACE FUNCTION walrelay.emit_message(:arguments) RETURNS uuid LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $emit$
BEGIN
    IF num_nulls(id, aggregate_type, aggregate_id, type, headers) > 0 OR aggregate_type = '' OR topic = ''
        OR jsonb_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'event % of %: id, aggregate_id and type are not null, aggregate_type and topic not empty, and'
            ' headers is an object',
            type, aggregate_type USING ERRCODE = 'check_violation';
    END IF;
    PERFORM walrelay.check_event_size(aggregate_id, type, payload, headers);
    -- The content is sent as it is, in whatever encoding the database has: so it is UTF-8, and behind a mark where the
    -- relay would take it for something else.
    PERFORM pg_logical_emit_message(true, :prefix,
        CASE WHEN getdatabaseencoding() IN ('UTF8', 'SQL_ASCII') THEN '' ELSE decode('efbbbf', 'hex') END
        || convert_to(jsonb_build_object(
            'id', id, 'aggregate_type', aggregate_type, 'aggregate_id', aggregate_id, 'type', type, 'payload', payload,
            'headers', headers, 'topic', topic, 'tenant_id', tenant_id)::text,
            CASE getdatabaseencoding() WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END));
    RETURN id;
END $emit$;
