"""Text and bytes whatever the database's encoding is, and whatever the environment says about sessions."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.integration.relaying.broker import Killed
from tests.integration.relaying.harness import Outbox, header, small
from tests.integration.relaying.ways import PGOUTPUT, WAL2JSON, WAYS, need
from tests.servers.database import Database, Postgres
from walrelay.errors import Fatal


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
    monkeypatch.setattr("walrelay.source.outbox_rows.BATCH_ROWS", 1)
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
