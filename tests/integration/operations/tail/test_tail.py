"""`walrelay tail`: what it prints, that it leaves the slot alone, and how it ends."""

import os
import signal
import uuid
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.integration.operations.tail.tailing import PATIENCE, Tailed, ended
from tests.servers.database import Database, Postgres
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.postgres.catalog import Catalog
from walrelay.source import peek
from walrelay.source.stream import Stream, Timing
from walrelay.wire.commands import pgoutput_options

FEW_COLUMNS = {
    "columns": dict.fromkeys(("aggregate_type", "aggregate_id", "type", "headers", "topic", "tenant_id", "created_at"))
}


class TailedMaker(Protocol):
    def __call__(self, plugin: str, **options: Any) -> Tailed: ...


@pytest.fixture
def make(database: Database, tmp_path: Path) -> TailedMaker:
    return lambda plugin, **options: Tailed(database, tmp_path, plugin, **options)


@pytest.fixture
def tailed(make: TailedMaker) -> Tailed:
    return make("pgoutput")


@pytest.mark.parametrize(("plugin", "version"), [("pgoutput", 2), ("wal2json", 1), ("wal2json", 2)])
def test_a_record_is_a_json_object_a_line_with_its_payload_digit_for_digit(
    make: TailedMaker, plugin: str, version: int
) -> None:
    tailed = make(plugin, wal2json_format=version)
    payload, time = '{"n": 1.500000000000000000000000000001}', "2026-11-21 09:58:54.95604+05:30"
    tailed.database.execute(
        f"INSERT INTO {tailed.table} VALUES ('b', 'order', NULL, NULL, NULL, NULL, NULL, NULL, NULL),"
        """ ('a', 'order', '42', 'placed', %s, '{"h": "\u00e4"}', NULL, NULL, %s)""",
        [payload, time],
    )
    done = tailed.tail()
    assert (done.code, done.err) == (0, "")
    first, second = done.records
    assert second["position"].removesuffix(":1") == first["position"].removesuffix(":0")
    assert second["committed_at"].endswith("Z")
    assert second == {
        "position": second["position"],
        "committed_at": first["committed_at"],
        "id": "a",
        "aggregate_type": "order",
        "aggregate_id": "42",
        "type": "placed",
        "payload": {"n": 1.5},
        "headers": {"h": "ä"},
        "topic": None,
        "tenant_id": None,
        "created_at": "2026-11-21 04:28:54.95604+00",
    }
    assert b'"payload": {"n": 1.500000000000000000000000000001}' in done.lines[1]


@pytest.mark.parametrize("form", ["walrelay", "wal2json"])
def test_the_newest_postgresql_is_peeked_into_and_followed(postgres18: Postgres, tmp_path: Path, form: str) -> None:
    database = postgres18.create_database()
    tailed = Tailed(database, tmp_path, "pgoutput", columns="id text, payload json, aggregate_type text,"
                    " size int GENERATED ALWAYS AS (1) STORED", outbox=FEW_COLUMNS)  # fmt: skip
    with tailed.following("--format", form) as following:
        tailed.write(1, 2)
        followed = following.interrupted()
    peeked = tailed.tail("--format", form)
    database.drop()
    assert followed == peeked
    assert len(peeked.lines) == (2 if form == "walrelay" else 6)
    assert ("does not send size" in peeked.err) == (form == "wal2json")


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("form", ["walrelay", "wal2json"])
def test_a_database_without_an_encoding_keeps_its_bytes(
    postgres: Postgres, tmp_path: Path, form: str, follow: bool
) -> None:
    name = f"test_{uuid.uuid4().hex[:12]}"
    postgres.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    database = Database(postgres, name)
    tailed = Tailed(database, tmp_path, "pgoutput", columns="id text, payload text", outbox=FEW_COLUMNS)
    insert = f"SET client_encoding = 'SQL_ASCII'; INSERT INTO {tailed.table} VALUES (E'\\xe4', E'\\xff')"
    if follow:
        with tailed.following("--format", form) as following:
            database.execute(insert)
            done = following.interrupted()
    else:
        database.execute(insert)
        done = tailed.tail("--format", form)
    database.drop()
    assert (done.code, done.err) == (0, "")
    if form == "walrelay":
        assert (done.records[0]["id"], done.records[0]["payload"]) == ({"base64": "5A=="}, {"base64": "/w=="})
    else:
        assert b'"value":"\xe4"' in done.lines[1]
        assert b'"value":"\xff"' in done.lines[1]


@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
@pytest.mark.parametrize("form", ["walrelay", "wal2json"])
def test_a_peek_leaves_the_slot_where_it_is(make: TailedMaker, plugin: str, form: str) -> None:
    tailed = make(plugin)
    tailed.write(1, 2, 3)
    before = tailed.position()
    first = tailed.tail("--format", form)
    assert len(first.lines) == (3 if form == "walrelay" else 9)
    assert tailed.tail("--format", form) == first
    assert tailed.position() == before


def test_following_shows_what_is_committed_from_now_on_beside_a_relay_that_runs(tailed: Tailed) -> None:
    tailed.write("before")
    relay = reading(tailed)
    with tailed.following() as following:
        tailed.write(1, 2)
        name = tailed.temporary_slot()
        assert name != tailed.slot
        done = following.interrupted()
    assert (done.code, done.err) == (0, "")
    assert done.ids == ["1", "2"]
    relay.close()
    wait_until(lambda: name not in tailed.database.server.slots(), PATIENCE, "the temporary slot to be gone")


def test_following_holds_no_wal_back_while_the_outbox_is_idle(tailed: Tailed) -> None:
    with tailed.following() as following:
        tailed.database.execute("CREATE TABLE unpublished AS SELECT generate_series(1, 20000) n")
        assert following.interrupted() == (0, b"", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_following_quietly(tailed: Tailed, number: signal.Signals) -> None:
    with tailed.following() as following:
        assert following.interrupted(number) == (0, b"", "")


def test_a_slot_in_use_is_told_with_the_way_to_look_beside_it(tailed: Tailed) -> None:
    relay = reading(tailed)
    done = tailed.tail()
    relay.close()
    assert (done.code, done.out) == (1, b"")
    assert f"slot '{tailed.slot}' cannot be peeked while it is in use" in done.err
    assert "walrelay tail --follow" in done.err


def test_a_missing_slot_is_told_as_everywhere(tailed: Tailed) -> None:
    tailed.database.execute("SELECT pg_drop_replication_slot(%s)", [tailed.slot])
    done = tailed.tail()
    assert done.code == 1
    assert f"replication slot '{tailed.slot}' does not exist" in done.err


def test_a_slot_of_the_other_plugin_is_told(make: TailedMaker) -> None:
    tailed = make("wal2json")
    tailed.database.execute("SELECT pg_drop_replication_slot(%s)", [tailed.slot])
    tailed.database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [tailed.slot])
    done = tailed.tail()
    assert done.code == 1
    assert "was made for pgoutput, the settings say wal2json" in done.err


def test_a_slot_of_another_database_is_told(tailed: Tailed, postgres: Postgres) -> None:
    other = postgres.create_database()
    tailed.database.execute("SELECT pg_drop_replication_slot(%s)", [tailed.slot])
    other.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [tailed.slot])
    done = tailed.tail()
    other.drop()
    assert done.code == 1
    assert f"belongs to database {other.name}," in done.err


@pytest.mark.parametrize("follow", [False, True])
def test_what_comes_before_an_undecodable_row_is_printed_and_the_error_says_where(tailed: Tailed, follow: bool) -> None:
    def write() -> None:
        with tailed.database.connect(autocommit=False) as connection:
            tailed.write("first", "second", None, "fourth", connection=connection)

    if follow:
        with tailed.following() as following:
            write()
            done = following.finished()
    else:
        write()
        done = tailed.tail()
    assert done.code == 1
    assert done.ids == ["first", "second"]
    assert done.records[-1]["position"].removesuffix(":1") + ":2" in done.err


def test_a_role_that_routing_does_not_need_may_have_no_column(make: TailedMaker) -> None:
    tailed = make("pgoutput", columns="id text, aggregate_type text, aggregate_id text, type text, payload text,"
                  " headers json, topic text")  # fmt: skip
    tailed.write(1)
    done = tailed.tail()
    assert (done.code, done.ids) == (0, ["1"])
    assert done.records[0]["tenant_id"] is None


def test_rows_that_may_be_missing_are_noted(tailed: Tailed) -> None:
    tailed.database.execute(f"ALTER PUBLICATION walrelay DROP TABLE {tailed.table}")
    done = tailed.tail()
    assert done.code == 0
    assert "note: rows may be missing: walrelay does not have public.outbox" in done.err


@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
def test_the_limit_counts_records_however_much_else_waits(make: TailedMaker, plugin: str) -> None:
    tailed = make(plugin)
    tailed.write(1)
    with tailed.database.connect() as connection:
        for n in range(1200):
            connection.execute("INSERT INTO other VALUES (%s)", [n])
    tailed.write(2, 3, 4)
    assert tailed.tail("--limit", "3").ids == ["1", "2", "3"]
    assert tailed.tail("--limit", "0").ids == ["1", "2", "3", "4"]
    assert tailed.tail("--limit", "9").ids == ["1", "2", "3", "4"]


def test_a_limit_inside_a_transaction_ends_there_and_one_at_its_end_after_it(tailed: Tailed) -> None:
    with tailed.database.connect(autocommit=False) as connection:
        tailed.write(1, 2, 3, connection=connection)
    actions = [line[11:12] for line in tailed.tail("-n", "2", "--format", "wal2json").lines]
    assert actions == [b"B", b"I", b"I"]
    actions = [line[11:12] for line in tailed.tail("-n", "3", "--format", "wal2json").lines]
    assert actions == [b"B", b"I", b"I", b"I", b"C"]


def test_a_backlog_is_cut_unless_all_of_it_is_asked_for_and_that_is_told(tailed: Tailed) -> None:
    tailed.database.execute(
        f"INSERT INTO {tailed.table} (id, payload) SELECT n, '{{}}' FROM generate_series(1, 3000) n"
    )
    few, many = tailed.tail(), tailed.tail("--limit", "0")
    assert few.ids == [str(n) for n in range(1, 1001)]
    assert "first 1000 records; --limit 0" in few.err
    assert len(many.lines) == 3000
    assert many.err == ""


def test_following_ends_at_its_limit(tailed: Tailed) -> None:
    with tailed.following("--limit", "2", "--format", "wal2json") as following:
        tailed.write(1, 2, 3)
        done = following.finished()
    assert (done.code, done.err) == (0, "")
    assert [line[11:12] for line in done.lines] == [b"B", b"I", b"C"] * 2


def test_a_reader_that_has_enough_ends_a_peek_quietly(tailed: Tailed) -> None:
    tailed.database.execute(
        f"INSERT INTO {tailed.table} (id, payload) SELECT n, '{{}}' FROM generate_series(1, 50000) n"
    )
    reading_end, writing_end = os.pipe()
    process = tailed.start("--limit", "0", stdout=writing_end)
    os.close(writing_end)
    assert os.read(reading_end, 100).startswith(b"{")
    os.close(reading_end)
    assert ended(process) == (0, b"", "")


def test_a_reader_that_leaves_ends_following_at_once_and_quietly(tailed: Tailed) -> None:
    reading_end, writing_end = os.pipe()
    process = tailed.start("--follow", stdout=writing_end)
    os.close(writing_end)
    wait_until(tailed.temporary_slot, PATIENCE, "the temporary slot to stream")
    tailed.write(1)
    assert os.read(reading_end, 100).startswith(b"{")
    os.close(reading_end)
    assert ended(process) == (0, b"", "")


def test_a_reader_that_pauses_does_not_cost_the_connection(tailed: Tailed) -> None:
    patience = 1000  # milliseconds; PostgreSQL ends a walsender that hears nothing for so long
    tailed.database.execute(f'ALTER DATABASE "{tailed.database.name}" SET wal_sender_timeout = {patience}')
    with tailed.following("--limit", "20000") as following:
        tailed.database.execute(
            f"INSERT INTO {tailed.table} (id, payload)"
            " SELECT n, jsonb_build_object('padding', repeat('x', 300)) FROM generate_series(1, 20000) n"
        )
        paused = f"now() > backend_start + '{3 * patience} ms'"
        wait_until(lambda: tailed.temporary_slot(paused), PATIENCE, "a long pause")
        assert following.running
        done = following.finished()
    assert done.code == 0
    assert done.ids == [str(n) for n in range(1, 20001)]


def test_a_reader_that_does_not_come_back_holds_no_wal_for_ever(make: TailedMaker) -> None:
    """Nor checkpoints, which wait for a walsender that cannot write once they want its slot."""
    tailed = make("pgoutput", pause_limit=1)
    reading_end, writing_end = os.pipe()
    process = tailed.start("--follow", stdout=writing_end)
    os.close(writing_end)
    wait_until(tailed.temporary_slot, PATIENCE, "the temporary slot to stream")
    tailed.database.execute(
        f"INSERT INTO {tailed.table} (id, payload)"
        " SELECT n, jsonb_build_object('padding', repeat('x', 1000)) FROM generate_series(1, 20000) n"
    )
    done = ended(process)
    assert done.code == 1
    assert "nothing was read from standard output for 1 s" in done.err
    assert "hint: Run it again" in done.err
    assert os.read(reading_end, 100).startswith(b"{"), "what was printed is there for whoever reads it now"
    os.close(reading_end)
    wait_until(lambda: tailed.database.server.slots(tailed.database.name) == {tailed.slot}, PATIENCE, "its slot to go")


def test_a_server_without_room_for_what_waits_says_so(tailed: Tailed) -> None:
    """It collects the answer of a look into the slot, in a temporary file where it is large."""
    tailed.database.execute(
        f"INSERT INTO {tailed.table} (id, payload)"
        " SELECT n, jsonb_build_object('padding', repeat('x', 1000)) FROM generate_series(1, 20000) n"
    )
    tailed.database.execute(f'ALTER DATABASE "{tailed.database.name}" SET temp_file_limit = 1024')
    done = tailed.tail("--limit", "0")
    assert (done.code, done.out) == (1, b"")
    assert f"no room to collect what waits in slot '{tailed.slot}': temporary file size exceeds" in done.err
    assert "walrelay tail --limit 100" in done.err


def test_a_slot_that_open_transactions_keep_from_being_made_is_told(
    tailed: Tailed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peek, "_SLOT_PATIENCE", 0.2)
    with tailed.database.connect(autocommit=False) as writer, Catalog(tailed.database.dsn) as catalog:
        tailed.write(1, connection=writer)
        options = pgoutput_options("walrelay", binary=False)
        with pytest.raises(Fatal, match="has to wait for the transactions that are open now") as caught:
            peek.temporary_stream(tailed.database.dsn, "pgoutput", "walrelay", options, Timing(), catalog, print)
    assert "pg_stat_activity" in caught.value.hint


def reading(tailed: Tailed) -> Stream:
    """What a relay has open: a stream from the slot."""
    stream = Stream(tailed.database.dsn, tailed.slot, "walrelay", Timing(), print)
    stream.start_stream(LSN.parse(tailed.position()), pgoutput_options("walrelay", binary=False))
    return stream


@pytest.mark.parametrize("form", ["walrelay", "wal2json"])
def test_wal2json_is_refused_where_run_refuses_it(postgres: Postgres, tmp_path: Path, form: str) -> None:
    name = f"test_{uuid.uuid4().hex[:12]}"
    postgres.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    database = Database(postgres, name)
    tailed = Tailed(database, tmp_path, "wal2json", columns="id text, payload text", outbox=FEW_COLUMNS)
    for follow in ([], ["--follow"]):
        done = tailed.tail("--format", form, *follow)
        assert (done.code, done.lines) == (1, [])
        assert "wal2json prints text in the database's encoding, which is LATIN1" in done.err
    database.drop()


@pytest.mark.parametrize("form", ["walrelay", "wal2json"])
def test_logical_messages_of_a_database_in_another_encoding_are_printed_in_utf_8(
    postgres: Postgres, tmp_path: Path, form: str
) -> None:
    name = f"test_{uuid.uuid4().hex[:12]}"
    postgres.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    database = Database(postgres, name)
    tailed = Tailed(database, tmp_path, "pgoutput", columns="id text, payload text", outbox=FEW_COLUMNS)
    with database.connect(client_encoding="UTF8") as connection:
        content = '{"id": "é", "payload": "é"}'
        connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s)", [content])
        marked = b"\xef\xbb\xbf" + content.encode()
        connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s::bytea)", [marked])
    done = tailed.tail("--format", form)
    database.drop()
    assert done.code == 0, done.err
    found = [
        record["id"] if form == "walrelay" else record["content"]
        for record in done.records
        if "id" in record or "content" in record
    ]
    assert found == ["é" if form == "walrelay" else content] * 2
