"""Whatever SQL writes the event, and whatever types a driver sends, it arrives once and in commit order."""

from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import pq

from tests.integration.relaying.harness import Outbox, header

OBJECTS = """
CREATE TABLE orders (id int PRIMARY KEY);
CREATE FUNCTION placed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM walrelay.emit('order', NEW.id::text, TG_NAME);
    RETURN NULL;
END $$;
CREATE TRIGGER at_once AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION placed();
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION placed();
CREATE FUNCTION as_its_owner() RETURNS uuid LANGUAGE sql SECURITY DEFINER SET search_path = '' AS
    $$ SELECT walrelay.emit('order', '1', 'as_its_owner') $$;
CREATE VIEW events AS SELECT aggregate_type, aggregate_id, type FROM outbox;
CREATE TABLE commands (name text);
CREATE RULE also AS ON INSERT TO commands DO ALSO
    INSERT INTO outbox (aggregate_type, aggregate_id, type) VALUES ('order', '1', NEW.name);
"""

INTO = "INSERT INTO outbox (id, aggregate_type, aggregate_id, type) VALUES ('%s', 'order', '1', '%s')"
ID = uuid4()

# Statements of one session each, and the events that come of them, in this order.
SESSIONS: list[tuple[list[str], list[str]]] = [
    (["INSERT INTO orders VALUES (1)"], ["at_once", "at_commit"]),
    (["BEGIN", "INSERT INTO orders VALUES (2)", "SET CONSTRAINTS ALL IMMEDIATE", "ROLLBACK"], []),
    (["SET search_path = nowhere", "SELECT walrelay.emit('order', '1', 'elsewhere')"], ["elsewhere"]),
    (["SET session_replication_role = replica", "SELECT walrelay.emit('order', '1', 'replica')"], ["replica"]),
    (["SET synchronous_commit = off", "SELECT walrelay.emit('order', '1', 'no wait')"], ["no wait"]),
    (["SET SESSION AUTHORIZATION {writer}", "SELECT walrelay.emit('order', '1', 'as a writer')"], ["as a writer"]),
    (["SET ROLE {reader}", "SELECT public.as_its_owner()"], ["as_its_owner"]),
    (
        [
            "DO $$ BEGIN"
            " BEGIN"
            " PERFORM walrelay.emit('order', '1', 'never'), walrelay.emit_message('order', '1', 'never');"
            " RAISE 'undone';"
            " EXCEPTION WHEN raise_exception THEN PERFORM walrelay.emit('order', '1', 'handled');"
            " END; END $$"
        ],
        ["handled"],
    ),
    (
        [
            INTO % (ID, "inserted"),
            INTO % (ID, "never") + " ON CONFLICT DO NOTHING",
            INTO % (ID, "never") + " ON CONFLICT (id) DO UPDATE SET type = excluded.type",
        ],
        ["inserted"],
    ),
    (["INSERT INTO events VALUES ('order', '1', 'through a view')"], ["through a view"]),
    (["INSERT INTO commands VALUES ('by a rule')"], ["by a rule"]),
    (
        [
            "MERGE INTO outbox USING (VALUES ('merged')) AS v (type) ON false WHEN NOT MATCHED THEN"
            " INSERT (aggregate_type, aggregate_id, type) VALUES ('order', '1', v.type)"
        ],
        ["merged"],
    ),
    (
        [
            "SELECT pg_replication_origin_create('{origin}'), pg_replication_origin_session_setup('{origin}')",
            "SELECT walrelay.emit('order', '1', 'of another origin')",
            "SELECT pg_replication_origin_session_reset()",
        ],
        ["of another origin"],
    ),
    (
        [
            "ALTER TABLE outbox ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY own ON outbox FOR INSERT TO {writer} WITH CHECK (tenant_id = 'acme')",
            "SET ROLE {writer}",
            "SELECT walrelay.emit('order', '1', 'of a tenant', tenant_id => 'acme')",
        ],
        ["of a tenant"],
    ),
]

UNKNOWN, INT4, TEXT, JSON, BPCHAR, VARCHAR, JSONB = 0, 23, 25, 114, 1042, 1043, 3802
TYPES = [
    (UNKNOWN,) * 4,
    (TEXT,) * 4,
    (VARCHAR,) * 4,
    (BPCHAR, INT4, TEXT, JSON),
    (TEXT, UNKNOWN, UNKNOWN, JSONB),
]
CALL = "SELECT walrelay.emit($1::text, $2::text, $3::text, $4::jsonb)"


@pytest.fixture
def names(outbox: Outbox) -> Iterator[dict[str, str]]:
    """Two roles, of which one may write and the other may do nothing, and a replication origin."""
    execute, suffix = outbox.database.execute, uuid4().hex[:8]
    names = {name: f"{name}_{suffix}" for name in ("writer", "reader", "origin")}
    for role in (names["writer"], names["reader"]):
        execute(f"CREATE ROLE {role}")
        execute(f"GRANT USAGE ON SCHEMA public TO {role}")
    execute(f"GRANT INSERT ON outbox TO {names['writer']}; GRANT USAGE ON SCHEMA walrelay TO {names['writer']}")
    yield names
    execute("SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin WHERE roname = %s", [names["origin"]])
    execute(f"DROP OWNED BY {names['writer']}, {names['reader']} CASCADE")
    execute(f"DROP ROLE {names['writer']}, {names['reader']}")


def test_every_way_that_sql_has_to_write_arrives_once_and_in_order(outbox: Outbox, names: dict[str, str]) -> None:
    outbox.database.execute(OBJECTS)
    expected = list[str]()
    for statements, types in SESSIONS:
        with outbox.database.connect() as session:
            for statement in statements:
                session.execute(_filled(statement, names).encode())
        expected += types
    with outbox.database.connect() as session:
        with session.cursor().copy("COPY outbox (aggregate_type, aggregate_id, type) FROM STDIN") as copy:
            copy.write(b"order\t1\tcopied\n")
        session.execute(f"SET ROLE {names['writer']}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("SELECT walrelay.emit('order', '1', 'never', tenant_id => 'another')")
    with outbox.relay() as relay:
        assert [header(message, "type") for message in outbox.messages(relay)] == [
            each.encode() for each in (*expected, "copied")
        ]


@pytest.mark.parametrize("way", ["text"])
def test_whatever_types_a_driver_sends_the_event_is_the_same(outbox: Outbox, way: str) -> None:
    """Drivers differ in which type they say a parameter is of: psycopg and pgx none, JDBC varchar, others text."""
    numbers, expected = count(), list[bytes]()
    sessions = [
        "SET client_encoding = 'LATIN1'; SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'SQL, DMY'",
        "SET standard_conforming_strings = off; SET backslash_quote = on; SET IntervalStyle = 'iso_8601'",
    ]
    for settings in sessions:
        with outbox.database.connect() as session:
            session.execute(settings.encode())
            for types in TYPES:
                number = str(next(numbers))
                payload = f'{{"n": {number}, "name": "Käthe \\\\ O\'Neill"}}'
                values = [each.encode(session.info.encoding) for each in ("order", number, "Placed", payload)]
                assert _error(session.pgconn.exec_params(CALL.encode(), values, types)) == "", types
                literals = b", ".join(pq.Escaping(session.pgconn).escape_literal(each) for each in values)
                assert _error(session.pgconn.exec_(b"SELECT walrelay.emit(%s)" % literals)) == ""
                expected += [payload.encode()] * 2
    with outbox.database.connect() as session:
        call = b"SELECT walrelay.emit($1, $2, $3, $4)"
        values = [b"order", b"1", b"Placed", b"{}"]
        assert "does not exist" in _error(session.pgconn.exec_params(call, values, (VARCHAR,) * 4))
        assert _error(session.pgconn.exec_params(call, values, (UNKNOWN,) * 4)) == ""
    with outbox.relay() as relay:
        messages = outbox.messages(relay)
    assert [message.value for message in messages] == [*expected, b"{}"]


def _filled(statement: str, names: dict[str, str]) -> str:
    for name, given in names.items():
        statement = statement.replace("{" + name + "}", given)
    return statement


def _error(result: Any) -> str:
    """The error's text; empty where there was none."""
    return "" if result.status == pq.ExecStatus.TUPLES_OK else (result.error_message or b"").decode("latin1")
