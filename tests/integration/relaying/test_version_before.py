"""What the version before made is brought up to date under writers and a relay of then, which go on."""

from contextlib import ExitStack
from pathlib import Path

import psycopg

from tests.integration.relaying.harness import Outbox
from tests.servers.database import Database

MADE = Path(__file__).with_name("version_before.sql").read_text()

# As applications of then call them.
CALLS = [
    "SELECT walrelay.emit('order', %(key)s, 'Placed', '{\"n\": 1}')",
    "SELECT walrelay.emit('order', %(key)s, 'Placed', payload => NULL, headers => '{\"a\": \"b\"}', topic => 'orders',"
    " tenant_id => 'acme', id => gen_random_uuid())",
    "SELECT walrelay.emit_and_delete('order', %(key)s, 'Placed', '1')",
    "SELECT walrelay.emit_message('order', %(key)s, 'Placed', '1')",
    "INSERT INTO public.outbox (aggregate_type, aggregate_id, type) VALUES ('order', %(key)s, 'Placed')",
]

# What a relay, a clean-up and `walrelay init` of then send to the tables of the schema walrelay.
NOTED = """
    INSERT INTO walrelay.slots AS s (slot_name, plugin, created_lsn, system_identifier, table_oid, entry_oid,
        publication_stamp, created_xmin, published_from)
    SELECT slot_name, plugin, confirmed_flush_lsn, (SELECT system_identifier::text FROM pg_control_system()),
        'public.outbox'::regclass::oid, (SELECT oid FROM pg_publication_rel LIMIT 1), '', 1, 0
    FROM pg_replication_slots WHERE slot_name = %(slot)s
    ON CONFLICT (slot_name) DO UPDATE SET (system_identifier, table_oid, entry_oid, publication_stamp) =
        (excluded.system_identifier, excluded.table_oid, excluded.entry_oid, excluded.publication_stamp)
    RETURNING 1
"""
QUERIES = [
    NOTED,
    "SELECT to_jsonb(s) FROM walrelay.slots s, pg_control_system() c WHERE slot_name = %(slot)s"
    " AND s.system_identifier = c.system_identifier::text",
    "SELECT created_at, system_identifier FROM walrelay.slots WHERE slot_name = %(slot)s",
    "SELECT slot_name, s.system_identifier = c.system_identifier::text, (r->>'published_from')::int8, r->>'created_at'"
    " FROM (SELECT s.*, to_jsonb(s) AS r FROM walrelay.slots s) AS s, pg_control_system() c WHERE slot_name = %(slot)s",
    "SELECT backfill FROM walrelay.slots WHERE slot_name = %(slot)s AND backfill IS NOT NULL",
    """
    INSERT INTO walrelay.positions AS p (slot_name, system_identifier, timeline, lsn, commit_lsn, ordinal, xmin_xid)
    SELECT slot_name, '1', 1, '0/1'::pg_lsn, '0/1'::pg_lsn, 0, '1'::text::xid8
    FROM pg_replication_slots WHERE slot_name = %(slot)s AND active_pid IS NOT DISTINCT FROM NULL::int4
    ON CONFLICT (slot_name) DO UPDATE SET (system_identifier, timeline, lsn, commit_lsn, ordinal, xmin_xid, kept_at) =
        (excluded.system_identifier, excluded.timeline, excluded.lsn, excluded.commit_lsn, excluded.ordinal,
        excluded.xmin_xid, now())
    RETURNING 1
    """,
    "SELECT system_identifier, timeline, lsn::text, commit_lsn::text, ordinal, xmin_xid::text::int8"
    " FROM walrelay.positions WHERE slot_name = %(slot)s",
    """
    INSERT INTO walrelay.dead_letters (slot_name, commit_lsn, ordinal, number, record_id, sink, topic, key, status,
        error, reason, attempts, record, message, raw, closed_at, closed_by)
    VALUES (%(slot)s, '0/1'::pg_lsn, 0, 0, '', 'kafka', 'orders', '1'::bytea, 'waiting', 'too large', 'why', 1,
        '{}'::json, '{}'::json, NULL::bytea, NULL, NULL)
    ON CONFLICT (slot_name, commit_lsn, ordinal, number, record_id) DO UPDATE
    SET attempts = dead_letters.attempts + excluded.attempts, last_at = clock_timestamp()
    RETURNING 1
    """,
    "SELECT DISTINCT ON (topic, key) topic, key, commit_lsn::text, ordinal, number, record_id"
    " FROM walrelay.dead_letters WHERE slot_name = %(slot)s AND status IN ('waiting', 'blocked')"
    " AND topic IS NOT NULL AND key IS NOT NULL ORDER BY topic, key, commit_lsn, ordinal, number",
    "SELECT count(*) FROM walrelay.dead_letters WHERE slot_name = %(slot)s AND status IN ('waiting', 'blocked')",
]


def write(connection: psycopg.Connection[tuple[object, ...]], key: str) -> None:
    for call in CALLS:
        connection.execute(call.encode(), {"key": key}, prepare=True)


def test_writers_and_a_relay_of_the_version_before_go_on_while_init_brings_it_up_to_date(database: Database) -> None:
    """Each on one connection with its statements prepared, a writer in the middle of its transaction."""
    outbox = Outbox(database, "text")
    slot = outbox.settings.source.slot
    database.execute(MADE)
    database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    with ExitStack() as open_:
        writer = open_.enter_context(database.connect(autocommit=False))
        relay = open_.enter_context(database.connect())

        def asked() -> list[int]:
            return [len(relay.execute(each.encode(), {"slot": slot}, prepare=True).fetchall()) for each in QUERIES]

        before = asked()
        assert before == [1, 1, 1, 1, 0, 1, 1, 1, 1, 1]
        write(writer, "before")
        outcomes = outbox.init()
        made = {outcomes[f"function walrelay.{name}"] for name in ("check_event_size", "emit", "emit_and_delete")}
        assert (made, outcomes["schema walrelay"]) == ({"updated"}, "created")
        write(writer, "after")
        writer.commit()
        assert asked() == before
        write(writer, "later")
        writer.commit()
    assert set(outbox.init().values()) == {"present"}
    with outbox.relay() as streaming:
        keys = [message.key for message in outbox.messages(streaming)]
    assert keys == [b"before"] * len(CALLS) + [b"after"] * len(CALLS) + [b"later"] * len(CALLS)
