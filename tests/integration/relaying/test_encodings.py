"""Text and bytes whatever the database's encoding is, and whatever the environment says about sessions."""

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Literal

import psycopg
import pytest

from tests.integration.relaying.broker import Killed
from tests.integration.relaying.harness import Outbox, header, small
from tests.integration.relaying.ways import PGOUTPUT, WAL2JSON, WAYS, need
from tests.servers.database import Database, Postgres
from walrelay.decode.messages import CODECS
from walrelay.errors import Fatal, Undecodable
from walrelay.outbox import Event
from walrelay.outbox import Outbox as Emitting


@pytest.fixture
def encoded(request: pytest.FixtureRequest, postgres: Postgres) -> Iterator[Database]:
    """An empty database in the encoding of the test's parameter."""
    empty = postgres.create_database()
    empty.drop()
    postgres.execute(f"CREATE DATABASE {empty.name} ENCODING '{request.param}' LOCALE 'C' TEMPLATE template0")
    yield empty
    empty.drop()


def outbox_in(database: Database, way: str) -> Outbox:
    need(way, database.server)
    database.execute("CREATE TABLE t (id text, aggregate_id text, payload text)")
    outbox = Outbox(database, way, **small())
    outbox.init()
    return outbox


@pytest.mark.parametrize("encoded", ["UTF8", "LATIN1", "EUC_JP"], indirect=True)
@pytest.mark.parametrize("way", PGOUTPUT)
def test_pgoutput_brings_text_of_any_encoding_as_utf8(encoded: Database, way: str) -> None:
    outbox = outbox_in(encoded, way)
    text = "日本" if "EUC" in encoded.execute("SHOW server_encoding")[0][0] else "déjà vu"
    with encoded.connect(client_encoding="UTF8") as connection:
        connection.execute("INSERT INTO t VALUES (%(text)s, %(text)s, %(text)s)", {"text": text})
    with outbox.relay() as relay:
        (message,) = outbox.messages(relay)
    assert (header(message, "id"), message.key, message.value) == (text.encode(), text.encode(), text.encode())


@pytest.mark.parametrize("encoded", ["LATIN1"], indirect=True)
@pytest.mark.parametrize("way", WAL2JSON)
def test_wal2json_is_refused_where_it_would_print_another_encoding(encoded: Database, way: str) -> None:
    outbox = outbox_in(encoded, way)
    before = outbox.confirmed
    error = outbox.failure()
    assert "LATIN1" in str(error)
    assert "pgoutput" in error.hint
    assert outbox.confirmed == before


@pytest.mark.parametrize("encoded", ["SQL_ASCII"], indirect=True)
@pytest.mark.parametrize("way", WAYS)
def test_bytes_that_are_no_text_pass_through_a_database_without_encoding(encoded: Database, way: str) -> None:
    outbox = outbox_in(encoded, way)
    encoded.execute(r"INSERT INTO t VALUES (E'\xe9', E'k\xff', E'caf\xe9 \xc3\xa9 \xed\xa0\x80')")
    with outbox.relay() as relay:
        (message,) = outbox.messages(relay)
    assert (header(message, "id"), message.key) == (b"\xe9", b"k\xff")
    assert message.value == b"caf\xe9 \xc3\xa9 \xed\xa0\x80"


@pytest.mark.parametrize("encoded", ["UTF8", "LATIN1", "WIN1251", "EUC_JP", "SQL_ASCII"], indirect=True)
@pytest.mark.parametrize("way", PGOUTPUT)
def test_an_event_without_a_row_arrives_as_one_with_a_row_does(encoded: Database, way: str) -> None:
    need(way, encoded.server)
    outbox = Outbox(encoded, way, outbox={"messages": {"prefix": "walrelay"}})
    outbox.init()
    catalog = "SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = %s"
    ((encoding,),) = encoded.server.execute(catalog, [encoded.name])
    letter = {"LATIN1": "é", "WIN1251": "ж", "EUC_JP": "日"}.get(encoding, "€")
    key, kind, payload = "k" + letter, "T" + letter, f'{{"name": "{letter}"}}'
    with encoded.connect() as connection:
        connection.execute(
            "SET client_encoding = 'UTF8'" if encoding != "SQL_ASCII" else "SET client_encoding = 'SQL_ASCII'"
        )
        for function in ("emit", "emit_message"):
            connection.pgconn.exec_(f"SELECT walrelay.{function}('order', '{key}', '{kind}', '{payload}')".encode())
    event = partial(Event, aggregate_type="order", aggregate_id=key, type=kind, payload=json.loads(payload))
    with encoded.connect() as connection, connection.transaction():
        storages: tuple[Literal["row", "message"], ...] = ("row", "message")
        for storage in storages:
            writer = Emitting("public.outbox", storage=storage)
            writer.emit(connection, event())
            if encoding != "SQL_ASCII":  # which takes no escape of JSON for a letter
                writer.emit_many(connection, [event()])
    with outbox.relay() as relay:
        messages = outbox.messages(relay)
    assert {(message.key, header(message, "type"), message.value) for message in messages} == {
        (key.encode(), kind.encode(), payload.encode())
    }
    assert len(messages) == (6 if encoding != "SQL_ASCII" else 4)


RAW = '{"id": "1", "aggregate_type": "order", "aggregate_id": "é", "payload": {"a": "é"}}'


@pytest.mark.parametrize("encoded", ["LATIN1"], indirect=True)
@pytest.mark.parametrize("way", PGOUTPUT)
def test_text_that_an_application_emits_itself_is_converted_where_the_encoding_is_known(
    encoded: Database, way: str
) -> None:
    outbox = outbox_in(encoded, way)
    with encoded.connect(client_encoding="UTF8") as connection:
        connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s)", [RAW])
        already = b"\xef\xbb\xbf" + RAW.encode()
        connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s::bytea)", [already])
    with outbox.relay() as relay:
        messages = outbox.messages(relay)
    assert [(message.key, message.value) for message in messages] == [("é".encode(), '{"a": "é"}'.encode())] * 2


@pytest.mark.parametrize("encoded", ["EUC_JP"], indirect=True)
@pytest.mark.parametrize("way", PGOUTPUT)
def test_text_that_an_application_emits_itself_in_another_encoding_is_refused_unless_it_is_ascii(
    encoded: Database, way: str
) -> None:
    outbox = outbox_in(encoded, way)
    with encoded.connect(client_encoding="UTF8") as connection:
        connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s)", [RAW.replace("é", "e")])
        connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s)", [RAW.replace("é", "日")])
    error = outbox.failure()
    assert isinstance(error, Undecodable)
    assert "its text is in the database's encoding, EUC_JP" in str(error)
    assert "walrelay.emit_message" in error.hint
    assert [message.value for message in outbox.broker.durable] == [b'{"a": "e"}']


@pytest.mark.parametrize("encoded", ["LATIN1"], indirect=True)
def test_a_prefix_that_cannot_be_told_in_the_databases_encoding_is_refused(encoded: Database) -> None:
    encoded.execute("CREATE TABLE t (id text, aggregate_id text, payload text)")
    outbox = Outbox(encoded, "text", **{**small(), "outbox": {**small()["outbox"], "messages": {"prefix": "é"}}})
    outbox.init()
    assert "logical messages of the prefix 'é' cannot be told from others" in str(outbox.failure())


def test_every_byte_of_a_single_byte_encoding_is_the_character_that_postgresql_takes_it_for(postgres: Postgres) -> None:
    query = """
        CREATE FUNCTION pg_temp.read(b bytea, encoding text) RETURNS text LANGUAGE plpgsql AS $$
        BEGIN RETURN convert_from(b, encoding); EXCEPTION WHEN OTHERS THEN RETURN NULL; END $$
    """
    with psycopg.connect(postgres.dsn, client_encoding="UTF8") as connection:
        connection.execute(query)
        for encoding, codec in CODECS.items():
            found = connection.execute(
                "SELECT n, pg_temp.read(set_byte('\\x00', 0, n), %s) FROM generate_series(128, 255) AS n", [encoding]
            )
            theirs: dict[int, str | None] = dict(found.fetchall())
            ours = {n: bytes([n]).decode(codec, "ignore") or None for n in range(128, 256)}
            assert ours == theirs, encoding


@pytest.mark.parametrize("way", ["text"])
@pytest.mark.parametrize(
    ("encoded", "written", "sent"),
    [
        ("SQL_ASCII", [r"abc", r"\xc3\xa9", r"\xff"], [b"abc", b"\xc3\xa9", b"\xff"]),
        ("LATIN1", [r"abc", r"\xe9"], [b"abc", b"\xc3\xa9"]),
    ],
    indirect=["encoded"],
)
def test_a_backfill_goes_on_from_text_of_any_encoding(
    encoded: Database, way: str, written: list[str], sent: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.table.rows.BATCH_ROWS", 1)
    encoded.execute("CREATE TABLE t (id text, aggregate_id text, payload text)")
    outbox = Outbox(encoded, way, **small())
    for text in written:
        encoded.execute(f"INSERT INTO t VALUES (E'{text}', 'k', 'p')")
    for _ in written:
        outbox.broker.break_after(1, Killed)
        with suppress(Killed):
            outbox.backfill()
    assert {header(message, "id") for message in outbox.broker.durable} <= {*sent}
    with suppress(Fatal):  # it is at its end already
        outbox.backfill()
    assert {header(message, "id") for message in outbox.broker.durable} == {*sent}


def test_a_hostile_environment_changes_nothing(database: Database, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database.execute("CREATE TABLE t (id timestamptz, aggregate_id text, payload bytea)")
    outbox = Outbox(database, way, **small())
    outbox.init()
    database.execute("INSERT INTO t VALUES ('2026-01-02 03:04:05.60+01', 'ш €', %s)", [b"\x00\xff\\"])
    hostile = "bytea_output=escape IntervalStyle=iso_8601 extra_float_digits=-3 client_min_messages=debug1"
    for setting in ("DateStyle = 'SQL, DMY'", "TimeZone = 'Asia/Kolkata'", "bytea_output = 'escape'"):
        database.execute(f"ALTER DATABASE {database.name} SET {setting}")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN2")
    monkeypatch.setenv("PGDATESTYLE", "SQL, DMY")
    monkeypatch.setenv("PGTZ", "America/New_York")
    monkeypatch.setenv("PGOPTIONS", " ".join(f"-c {setting}" for setting in hostile.split()))
    with outbox.relay() as relay:
        (message,) = outbox.messages(relay)
    assert header(message, "id") == b"2026-01-02 02:04:05.6+00"
    assert (message.key, message.value) == ("ш €".encode(), b"\x00\xff\\")
    assert message.timestamp_ms > 1_700_000_000_000
