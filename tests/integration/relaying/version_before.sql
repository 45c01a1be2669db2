-- What `walrelay init` made in the version before the functions had comments (their version 1) and walrelay.slots the
-- column `parts`, with outbox.messages.prefix: walrelay. It is there already, wherever walrelay is: not to be changed.

CREATE SCHEMA IF NOT EXISTS walrelay;

CREATE TABLE IF NOT EXISTS walrelay.slots (
    slot_name         text PRIMARY KEY,
    plugin            text NOT NULL,
    system_identifier text NOT NULL,
    created_lsn       pg_lsn NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS walrelay.positions (
    slot_name         text PRIMARY KEY,
    system_identifier text NOT NULL,
    timeline          integer NOT NULL,
    lsn               pg_lsn NOT NULL,
    commit_lsn        pg_lsn NOT NULL,
    ordinal           integer NOT NULL,
    xmin_xid          xid8 NOT NULL,
    kept_at           timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 10);

ALTER TABLE walrelay.slots
    -- What init saw of the outbox last, so that a table which was dropped and made anew, or which left the publication
    -- and came back, is noticed also where no relay ran meanwhile.
    ADD COLUMN IF NOT EXISTS table_oid         bigint,
    ADD COLUMN IF NOT EXISTS entry_oid         bigint,
    ADD COLUMN IF NOT EXISTS publication_stamp text,
    -- Every transaction with an xid8 below it had ended before the slot was made: its rows are not this slot's.
    ADD COLUMN IF NOT EXISTS created_xmin      bigint,
    -- While a backfill is unfinished: what it publishes, and how far it got.
    ADD COLUMN IF NOT EXISTS backfill          jsonb,
    -- Rows of every transaction with an xid8 from it on are published, by the slot or from the table; of those before
    -- nothing is known. 0: all rows are.
    ADD COLUMN IF NOT EXISTS published_from    bigint;

CREATE TABLE IF NOT EXISTS walrelay.dead_letters (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slot_name  text NOT NULL,
    commit_lsn pg_lsn NOT NULL,
    ordinal    int NOT NULL,                -- of the record in its transaction; -1: the whole transaction
    number     int NOT NULL DEFAULT 0,      -- of the message among those of its record
    record_id  text NOT NULL DEFAULT '',
    sink       text NOT NULL,
    topic      text,                        -- NULL: it got none
    key        bytea,
    status     text NOT NULL CHECK (status IN ('waiting', 'blocked', 'replayed', 'discarded', 'skipped')),
    error      text NOT NULL,
    reason     text NOT NULL,
    attempts   int NOT NULL,                -- how often it was offered to the broker or, without a topic, met
    first_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    record     json,                        -- the outbox row; text that is not UTF-8 as {"base64": ...}
    message    json,                        -- as it was offered; NULL: there was none
    raw        bytea,                       -- the frame of a row that could not be read
    closed_at  timestamptz,                 -- replayed, discarded or skipped: when, by whom and why
    closed_by  text,
    closed_why text,
    UNIQUE (slot_name, commit_lsn, ordinal, number, record_id)
);

CREATE INDEX IF NOT EXISTS dead_letters_open ON walrelay.dead_letters (slot_name, topic, key)
    WHERE status IN ('waiting', 'blocked');

CREATE TABLE IF NOT EXISTS "public"."outbox" (
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

COMMENT ON TABLE "public"."outbox" IS 'Transactional outbox: walrelay publishes every row that is committed here.';

CREATE OR REPLACE FUNCTION walrelay.check_event_size(aggregate_id text, type text, payload jsonb, headers jsonb)
RETURNS void LANGUAGE plpgsql STABLE AS $check$
DECLARE
    bytes int := coalesce(octet_length(payload::text), 0) + coalesce(octet_length(headers::text), 0)
        + coalesce(octet_length(aggregate_id), 0) + coalesce(octet_length(type), 0) + 256;
BEGIN
    IF bytes > 1000000 THEN
        RAISE EXCEPTION 'event % of % is too large: % bytes, and a message may have %', type, aggregate_id, bytes, 1000000
            USING ERRCODE = 'program_limit_exceeded',
            HINT = 'Put the content somewhere else and its address into the event; or raise the limit of the broker, then'
                ' outbox.max_message_bytes, drop this function and run walrelay init.';
    END IF;
END $check$;

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
    INSERT INTO "public"."outbox" ("aggregate_type", "aggregate_id", "type", "payload", "headers", "topic", "tenant_id", "id") VALUES (emit.aggregate_type, emit.aggregate_id, emit.type, emit.payload, emit.headers, emit.topic, emit.tenant_id, emit.id);
    RETURN id;
END $emit$;

CREATE OR REPLACE FUNCTION walrelay.emit_and_delete(
    aggregate_type text,
    aggregate_id   text,
    type           text,
    payload        jsonb DEFAULT NULL,
    headers        jsonb DEFAULT '{}',
    topic          text DEFAULT NULL,
    tenant_id      text DEFAULT NULL,
    id             uuid DEFAULT gen_random_uuid()
) RETURNS uuid LANGUAGE plpgsql VOLATILE AS $emit$
DECLARE
    place tid;
    part  oid;
BEGIN
    PERFORM walrelay.check_event_size(aggregate_id, type, payload, headers);
    INSERT INTO "public"."outbox" AS o ("aggregate_type", "aggregate_id", "type", "payload", "headers", "topic", "tenant_id", "id") VALUES (emit_and_delete.aggregate_type, emit_and_delete.aggregate_id, emit_and_delete.type, emit_and_delete.payload, emit_and_delete.headers, emit_and_delete.topic, emit_and_delete.tenant_id, emit_and_delete.id) RETURNING o.ctid, o.tableoid INTO place, part;
    DELETE FROM "public"."outbox" AS o WHERE o.ctid = place AND o.tableoid = part;
    RETURN id;
END $emit$;

CREATE OR REPLACE FUNCTION walrelay.emit_message(
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
    IF num_nulls(id, aggregate_type, aggregate_id, type, headers) > 0 OR aggregate_type = '' OR topic = ''
        OR jsonb_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'event % of %: id, aggregate_id and type are not null, aggregate_type and topic not empty, and'
            ' headers is an object',
            type, aggregate_type USING ERRCODE = 'check_violation';
    END IF;
    PERFORM walrelay.check_event_size(aggregate_id, type, payload, headers);
    PERFORM pg_logical_emit_message(true, 'walrelay', jsonb_build_object(
        'id', id, 'aggregate_type', aggregate_type, 'aggregate_id', aggregate_id, 'type', type, 'payload', payload,
        'headers', headers, 'topic', topic, 'tenant_id', tenant_id)::text);
    RETURN id;
END $emit$;

CREATE PUBLICATION "walrelay" FOR TABLE "public"."outbox" WITH (publish = 'insert', publish_via_partition_root = true);
