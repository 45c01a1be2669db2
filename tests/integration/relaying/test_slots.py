"""A slot that may not be read, or not now: what the relay says, and that it never skips anything."""

from collections.abc import Callable
from contextlib import closing
from threading import Timer
from time import monotonic

import pytest

from tests.integration.relaying.harness import Outbox
from tests.integration.relaying.ways import PGOUTPUT
from tests.servers.database import Database, Postgres
from tests.servers.postgres import PostgresServer
from walrelay import compose
from walrelay.errors import Disconnected, Fatal
from walrelay.lsn import ZERO
from walrelay.source.stream import Stream, Timing
from walrelay.supervise import Stop
from walrelay.wire.commands import Options, pgoutput_options

OTHER_PLUGIN = {"pgoutput": "wal2json", "wal2json": "pgoutput"}


def make_slot(outbox: Outbox, database: Database) -> None:
    """The slot of the settings, in whichever database."""
    source = outbox.settings.source
    database.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [source.slot, source.plugin])


def test_a_missing_slot_stops_the_relay_and_is_not_made(outbox: Outbox) -> None:
    slot = outbox.settings.source.slot
    outbox.database.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    outbox.write(1)
    error = outbox.failure()
    assert f"{slot!r} does not exist" in str(error)
    assert "have not been published" in error.hint
    assert slot not in outbox.database.server.slots()


def test_a_slot_of_another_plugin_is_refused(outbox: Outbox) -> None:
    made_for = outbox.settings.source.plugin
    error = outbox.under(source={"plugin": OTHER_PLUGIN[made_for]}).failure()
    assert f"was made for {made_for}" in str(error)
    assert f"source.plugin: {made_for}" in error.hint


def test_a_slot_of_another_database_is_refused(outbox: Outbox, postgres: Postgres) -> None:
    outbox.database.execute("SELECT pg_drop_replication_slot(%s)", [outbox.settings.source.slot])
    elsewhere = postgres.create_database()
    try:
        make_slot(outbox, elsewhere)
        error = outbox.failure()
        assert f"database {elsewhere.name}," in str(error)
        assert "source.dsn" in error.hint
    finally:
        elsewhere.drop()


def test_a_slot_in_use_is_waited_for_which_is_said_once(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """By somebody who is no instance of this relay, and so does not know of the lead."""
    attempts: list[compose.RelayRuns] = []
    run = compose.RelayRuns.run

    def counted(runs: compose.RelayRuns, stop: Callable[[], bool]) -> None:
        attempts.append(runs)
        run(runs, stop)

    monkeypatch.setattr(compose.RelayRuns, "run", counted)
    options = outbox.wiring.options(binary=False)
    stranger = Stream(outbox.database.dsn, outbox.settings.source.slot, "walrelay", Timing(), lambda text: None)
    with closing(stranger):
        stranger.start_stream(ZERO, options)
        with outbox.relay() as relay:
            relay.wait_until(lambda: len(attempts) >= 3, "the relay to try again and again")
            assert [str(stranger.pid) in said for said in outbox.watcher.retries] == [True]
            stranger.close()
            outbox.write(1)
            assert outbox.values(relay) == [b"1"]


BEHIND_ITS_BACK = pytest.mark.parametrize(
    "statements",
    [
        ["SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())"],
        [
            "SELECT pg_drop_replication_slot('{slot}')",
            "SELECT pg_create_logical_replication_slot('{slot}', '{plugin}')",
        ],
    ],
    ids=["moved", "made again"],
)


@BEHIND_ITS_BACK
def test_a_slot_that_went_on_behind_the_relays_back_is_refused_where_a_shared_position_proves_it(
    outbox: Outbox, statements: list[str]
) -> None:
    """Between two connections of one process."""
    keeping = outbox.under(position={"keep": "table"})
    runs = compose.RelayRuns(keeping.wiring, keeping.watcher)
    keeping.write(1)
    runs.run(lambda: bool(keeping.broker.durable))
    before = keeping.confirmed
    keeping.write(2)
    _do_behind_its_back(keeping, statements)
    with pytest.raises(
        Fatal, match=f"walrelay confirmed only {before}, as the row in walrelay.positions says"
    ) as caught:
        runs.run(lambda: False)
    assert "still in the outbox table" in caught.value.hint
    assert [message.value for message in keeping.broker.offered] == [b"1"]


@BEHIND_ITS_BACK
def test_a_slot_that_went_on_behind_the_relays_back_is_noticed_where_only_the_process_remembers(
    outbox: Outbox, statements: list[str]
) -> None:
    """It looks as if another instance had led meanwhile, and a stop would be an outage."""
    runs = compose.RelayRuns(outbox.wiring, outbox.watcher)
    outbox.write(1)
    runs.run(lambda: len(outbox.broker.durable) == 1)
    before = outbox.confirmed
    outbox.write(2)
    _do_behind_its_back(outbox, statements)
    outbox.write(3)
    runs.run(lambda: len(outbox.broker.durable) == 2)
    assert [message.value for message in outbox.broker.offered] == [b"1", b"3"]
    (said,) = outbox.watcher.notices
    assert f"this process confirmed {before}" in said
    assert "walrelay audit" in said


def test_an_instance_whose_connection_broke_goes_on_after_another_one_led(outbox: Outbox) -> None:
    """What it remembers is older than the slot then, and proves nothing: it was the other one that published."""
    first, second = (compose.RelayRuns(outbox.wiring, outbox.watcher) for _ in range(2))
    outbox.write(1)

    def broken() -> bool:
        """The connection breaks when the event is confirmed, and the process is in no hurry to have a new one."""
        if outbox.broker.durable and (walsender := outbox.slot("active_pid")) and outbox.confirmed >= end:
            outbox.database.server.execute("SELECT pg_terminate_backend(%s)", [walsender])
        return False

    end = outbox.end_of_wal()
    with pytest.raises(Disconnected):
        first.run(broken)
    outbox.write(2)
    second.run(lambda: len(outbox.broker.durable) == 2)
    outbox.write(3)
    first.run(lambda: len(outbox.broker.durable) == 3)
    assert [message.value for message in outbox.broker.offered] == [b"1", b"2", b"3"]
    (said,) = outbox.watcher.notices
    assert "another instance led meanwhile" in said


def _do_behind_its_back(outbox: Outbox, statements: list[str]) -> None:
    for statement in statements:
        source = outbox.settings.source
        outbox.database.execute(statement.format(slot=source.slot, plugin=source.plugin))


@pytest.mark.parametrize("way", PGOUTPUT)
@pytest.mark.parametrize("server", ["postgres", "postgres18"])
@pytest.mark.parametrize("messages", ["notice", "error"])
def test_a_publication_made_after_the_slot_stops_the_relay_before_anything_is_confirmed(
    request: pytest.FixtureRequest, server: str, way: str, messages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to PostgreSQL 17 the server refuses; since 18 it skips the rows with a warning, even to a session that
    is told of errors only.
    """
    monkeypatch.setenv("PGOPTIONS", f"-c client_min_messages={messages}")
    running: Postgres | PostgresServer = request.getfixturevalue(server)
    database = running.create_database()
    try:
        outbox = Outbox(database, way)
        outbox.init()
        database.execute("DROP PUBLICATION walrelay")
        database.execute("SELECT pg_drop_replication_slot(%s)", [outbox.settings.source.slot])
        database.execute("DELETE FROM walrelay.slots")  # as if no init had seen the publication before
        make_slot(outbox, database)
        outbox.write(1)
        database.execute("CREATE PUBLICATION walrelay FOR TABLE outbox WITH (publish = 'insert')")
        outbox.write(2)
        before = outbox.confirmed
        error = outbox.failure()
        assert "publication" in str(error)
        assert "walrelay recover --replace" in error.hint
        assert outbox.confirmed == before
        assert outbox.broker.offered == []
    finally:
        database.drop()


@pytest.mark.parametrize("way", ["text"])
def test_a_slot_that_is_missing_is_told_from_a_publication_whatever_it_is_called(outbox: Outbox) -> None:
    stream = Stream(outbox.database.dsn, "no_publication", "walrelay", Timing(), lambda text: None)
    with closing(stream), pytest.raises(Fatal, match="'no_publication' does not exist") as caught:
        stream.start_stream(ZERO, outbox.wiring.options(binary=False))
    assert "walrelay recover" in caught.value.hint


@pytest.mark.parametrize("way", ["text"])
def test_a_stop_ends_the_wait_for_a_frame_once(outbox: Outbox) -> None:
    stop = Stop()
    stream = Stream(outbox.database.dsn, outbox.settings.source.slot, "walrelay", Timing(), print, [stop.fileno()])
    with closing(stream):
        stream.start_stream(ZERO, outbox.wiring.options(binary=False))
        Timer(0.1, stop.set).start()
        began = monotonic()
        while not stop.is_set():  # the server may say where it stands
            stream.read(30)
        assert monotonic() - began < 20
        stream.read(0)  # if a frame came just before
        stream.read(0.01)
        began = monotonic()
        while stream.read(0.2):
            began = monotonic()
        assert monotonic() - began >= 0.15, "whoever still has to read to the end of a transaction would spin"


def test_a_walsender_that_is_ended_is_replaced_and_nothing_is_lost_or_repeated(outbox: Outbox) -> None:
    with outbox.relay() as relay:
        for number in range(1, 4):
            outbox.write(number)
            assert outbox.values(relay) == [b"%d" % n for n in range(1, number + 1)]
            relay.confirms(outbox.end_of_wal())
            outbox.database.server.execute("SELECT pg_terminate_backend(%s)", [outbox.slot("active_pid")])
            relay.streams(times=number + 1)


@pytest.mark.parametrize("way", ["text"])
def test_an_error_of_the_plugin_is_told_with_the_position_it_was_at(outbox: Outbox) -> None:
    outbox.write(1)
    stream = Stream(outbox.database.dsn, outbox.settings.source.slot, "nowhere", Timing(), lambda text: None)
    with closing(stream), pytest.raises(Fatal) as caught:
        read_to_the_end(stream, pgoutput_options("nowhere", binary=False))
    if outbox.database.server.major < 18:  # which skips it with a warning
        assert "associated LSN" in str(caught.value)
    assert "nowhere" in str(caught.value)


def read_to_the_end(stream: Stream, options: Options) -> None:
    stream.start_stream(ZERO, options)
    deadline = monotonic() + 30
    while monotonic() < deadline:
        stream.read(0.1)
