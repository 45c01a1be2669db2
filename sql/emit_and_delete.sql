-- walrelay.emit, with the row deleted in the same transaction: the relay reads its INSERT in the WAL, and no row is left to
-- clean up, replay or audit. It also needs SELECT and DELETE on the outbox. The search_path is the caller's here too, which
-- triggers on the outbox may rely on, and so every name has its schema.
-- :arguments stands for emit_arguments.sql.
CREATE OR REPLACE FUNCTION walrelay.emit_and_delete(:arguments) RETURNS uuid LANGUAGE plpgsql VOLATILE AS $emit$
DECLARE
    place tid;
    part  oid;
BEGIN
    PERFORM walrelay.check_event_size(aggregate_id, type, payload, headers);
    INSERT INTO :table AS o (:columns) VALUES (:values) RETURNING o.ctid, o.tableoid INTO place, part;
    DELETE FROM :table AS o WHERE o.ctid OPERATOR(pg_catalog.=) place AND o.tableoid OPERATOR(pg_catalog.=) part;
    RETURN id;
END $emit$;
