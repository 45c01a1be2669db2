-- walrelay.emit and its variants call it first: an event that the broker would refuse is refused in the transaction that
-- writes it. 256 bytes are for the headers and the frame that the relay adds.
-- :limit stands for outbox.max_message_bytes of the settings.
CREATE OR REPLACE FUNCTION walrelay.check_event_size(aggregate_id text, type text, payload jsonb, headers jsonb)
RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $check$
DECLARE
    bytes int := coalesce(octet_length(payload::text), 0) + coalesce(octet_length(headers::text), 0)
        + coalesce(octet_length(aggregate_id), 0) + coalesce(octet_length(type), 0) + 256;
BEGIN
    IF bytes > :limit THEN
        RAISE EXCEPTION 'event % of % is too large: % bytes, and a message may have %', type, aggregate_id, bytes, :limit
            USING ERRCODE = 'program_limit_exceeded',
            HINT = 'Put the content somewhere else and its address into the event; or raise the limit of the broker, then'
                ' outbox.max_message_bytes, and run walrelay init.';
    END IF;
END $check$;
