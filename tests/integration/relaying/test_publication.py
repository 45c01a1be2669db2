"""What the publication lets through, and that a table which leaves it is never taken for a quiet one."""

import pytest

from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox, Relaying
from tests.integration.relaying.ways import PGOUTPUT
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay.errors import Undecodable

QUICK = {"publication_check_interval": 0.1}

# wal2json knows no publications; what it is told to read it reads, whatever others do
only_pgoutput = pytest.mark.parametrize("way", PGOUTPUT, indirect=True)


def insert_elsewhere(database: Database) -> None:
    """A transaction that is nothing to the outbox."""
    database.execute("CREATE TABLE IF NOT EXISTS business (n int); INSERT INTO business VALUES (1)")


def test_only_rows_of_the_outbox_are_records(database: Database, make_outbox: OutboxMaker) -> None:
    database.execute("CREATE SCHEMA other; CREATE TABLE other.outbox (id int, payload text)")
    database.execute('CREATE TABLE business (id int, payload text); CREATE TABLE "Outbox" (id int, payload text)')
    outbox = make_outbox()
    if outbox.settings.source.plugin == "pgoutput":
        database.execute('ALTER PUBLICATION walrelay ADD TABLE other.outbox, business, "Outbox"')
        database.execute("ALTER PUBLICATION walrelay SET (publish = 'insert, update, delete, truncate')")
        database.execute("ALTER TABLE outbox REPLICA IDENTITY FULL")
    for table in ("other.outbox", "business", '"Outbox"'):
        database.execute(f"INSERT INTO {table} VALUES (1, 'not ours')")
    with database.connect() as connection, connection.transaction():
        connection.execute("INSERT INTO business VALUES (2, 'not ours either')")
        outbox.write(1, connection=connection)
        connection.execute("UPDATE outbox SET payload = '2'; DELETE FROM outbox; TRUNCATE outbox, business")
        outbox.write(3, connection=connection)
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1", b"3"]


@pytest.mark.parametrize(
    "loss",
    [
        "DROP TABLE outbox",
        "DROP TABLE outbox; CREATE TABLE outbox (id int, aggregate_type text, aggregate_id text, payload jsonb)",
        "ALTER TABLE outbox RENAME TO moved",
        "CREATE SCHEMA far; ALTER TABLE outbox SET SCHEMA far",
    ],
    ids=["dropped", "made again", "renamed", "moved"],
)
def test_a_table_that_is_gone_stops_the_relay_before_more_is_confirmed(make_outbox: OutboxMaker, loss: str) -> None:
    _stops_without_confirming(make_outbox(source=QUICK), loss)


@only_pgoutput
@pytest.mark.parametrize(
    "loss",
    [
        "ALTER PUBLICATION walrelay DROP TABLE outbox",
        "ALTER PUBLICATION walrelay SET (publish = 'update')",
    ],
)
def test_a_table_that_is_not_published_any_more_stops_the_relay_before_more_is_confirmed(
    make_outbox: OutboxMaker, loss: str
) -> None:
    _stops_without_confirming(make_outbox(source=QUICK), loss)


def _stops_without_confirming(outbox: Outbox, loss: str) -> None:
    with outbox.relay() as relay:
        outbox.write(1)
        assert outbox.values(relay) == [b"1"]
        outbox.database.execute(loss)
        lost = outbox.end_of_wal()
        insert_elsewhere(outbox.database)
        error = relay.failure()
    assert "the outbox is not published" in str(error)
    assert "walrelay init" in error.hint
    assert outbox.confirmed <= lost
    if outbox.settings.source.plugin == "pgoutput" or "created again" not in str(error):  # wal2json reads by name
        assert "not published" in str(outbox.failure())


BETWEEN_TWO_LOOKS = {"publication_check_interval": 3}
LEFT = "ALTER PUBLICATION walrelay DROP TABLE outbox"
BACK = "ALTER PUBLICATION walrelay ADD TABLE outbox"
FEWER_COLUMNS = "id, aggregate_type, aggregate_id, type, payload, headers, topic"
MADE_ANEW = "CREATE TABLE moved (LIKE outbox INCLUDING ALL); DROP TABLE outbox; ALTER TABLE moved RENAME TO outbox"


@pytest.mark.parametrize("way", ["text"], indirect=True)
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((LEFT, BACK), "left publication 'walrelay' and came back"),
        ((MADE_ANEW, BACK), "was dropped and created again"),
        ((f"ALTER PUBLICATION walrelay SET TABLE outbox ({FEWER_COLUMNS})",), "column list"),
        (
            ("ALTER PUBLICATION walrelay SET TABLE outbox WHERE (type = 'x')",),
            "published in another way now (row filter",
        ),
    ],
    ids=["left and came back", "made again", "column list", "row filter"],
)
@pytest.mark.parametrize("running", [True, False], ids=["between two looks", "while no relay runs"])
def test_an_outbox_that_was_not_published_all_the_time_stops_the_relay(
    make_outbox: OutboxMaker, changes: tuple[str, ...], said: str, running: bool
) -> None:
    outbox = make_outbox(source=BETWEEN_TWO_LOOKS)
    with outbox.relay() as relay, outbox.database.connect() as connection:
        outbox.write(1)
        assert outbox.values(relay) == [b"1"]
        if not running:
            relay.stop()
        for change in changes:
            connection.execute(change.encode())
            outbox.write("lost", connection=connection)
        if not running:
            confirmed = outbox.confirmed
            error = outbox.failure()
            assert outbox.confirmed == confirmed
        else:
            lost = outbox.end_of_wal()
            wait_until(lambda: _ends_on_traffic(relay, outbox.database), 20, "the next look")
            error = relay.failure()
            assert outbox.confirmed <= lost
    assert said in str(error)
    assert "compare with the table" in error.hint
    assert said in str(outbox.failure()), "it is not forgotten by starting again"
    assert said in outbox.init()["the outbox"]
    with outbox.relay() as relay:
        relay.streams()
    assert "the outbox" not in outbox.init()


def _ends_on_traffic(relay: Relaying, database: Database) -> bool:
    insert_elsewhere(database)
    return relay.ended


@only_pgoutput
def test_a_publication_that_is_altered_without_harm_is_noticed(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(source=QUICK)
    with outbox.relay() as relay:
        relay.streams()
        outbox.database.execute("ALTER PUBLICATION walrelay SET (publish = 'insert, truncate')")
        insert_elsewhere(outbox.database)
        relay.wait_until(lambda: outbox.watcher.notices, "the change to be told")
        assert "publication 'walrelay' was altered" in outbox.watcher.notices[0]
        outbox.write(1)
        assert outbox.values(relay) == [b"1"]


@only_pgoutput
def test_a_publication_that_was_altered_while_no_relay_ran_is_noticed_until_init_takes_note(
    make_outbox: OutboxMaker,
) -> None:
    outbox = make_outbox()
    outbox.database.execute("ALTER PUBLICATION walrelay SET (publish = 'update')")
    outbox.write("lost")
    outbox.database.execute("ALTER PUBLICATION walrelay SET (publish = 'insert')")
    for _ in range(2):
        outbox.watcher.happenings.clear()
        with outbox.relay() as relay:
            relay.wait_until(lambda: outbox.watcher.notices, "the change to be told")
        assert "publication 'walrelay' was altered" in outbox.watcher.notices[0]
    outbox.init()
    outbox.watcher.happenings.clear()
    with outbox.relay() as relay:
        assert outbox.values(relay) == []
    assert outbox.watcher.notices == []


@only_pgoutput
def test_init_puts_a_table_back_into_the_publication(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(source=QUICK)
    outbox.database.execute("ALTER PUBLICATION walrelay DROP TABLE outbox")
    assert "not in publication" in str(outbox.failure())
    assert outbox.init()["publication walrelay"] == "created"
    outbox.write(1)
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1"]


@only_pgoutput
def test_rows_that_a_filter_holds_back_do_not_hold_back_the_position(database: Database, way: str) -> None:
    outbox = Outbox(database, way)
    _published(outbox, "outbox WHERE (aggregate_id = 'eu')")
    with outbox.relay() as relay:
        for number, region in enumerate(("eu", "us", "eu", "us")):
            database.execute(
                "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload) VALUES ('order', %s, 't', %s)",
                [region, str(number)],
            )
        assert outbox.values(relay) == [b"0", b"2"]
        insert_elsewhere(database)
        relay.confirms(outbox.end_of_wal())


@only_pgoutput
def test_a_column_list_that_hides_a_needed_column_is_said(database: Database, way: str) -> None:
    outbox = Outbox(database, way)
    _published(outbox, "outbox (id, aggregate_type, aggregate_id, type, headers, topic)")
    outbox.write(1)
    error = outbox.failure()
    assert isinstance(error, Undecodable)
    assert "'payload'" in str(error)
    assert "column list" in error.hint


@only_pgoutput
def test_a_column_list_may_leave_out_what_nobody_needs(database: Database, way: str) -> None:
    outbox = Outbox(database, way)
    _published(outbox, "outbox (id, aggregate_type, aggregate_id, type, payload, headers, topic)")
    outbox.write(1)
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1"]


def _published(outbox: Outbox, what: str) -> None:
    """Initialises `outbox` with a publication that somebody made by hand."""
    elsewhere = outbox.under(source={"publication": "unused"})
    elsewhere.init()  # makes the table
    outbox.database.execute(f"CREATE PUBLICATION walrelay FOR TABLE {what} WITH (publish = 'insert')")
    outbox.database.execute("SELECT pg_drop_replication_slot(%s)", [outbox.settings.source.slot])
    outbox.database.execute("DELETE FROM walrelay.slots")
    outbox.init()


def test_rows_of_an_inheriting_table_are_noticed_while_the_relay_runs(outbox: Outbox) -> None:
    with outbox.relay() as relay:
        relay.streams()
        outbox.database.execute("CREATE TABLE child () INHERITS (outbox)")
        outbox.database.execute(
            "INSERT INTO child (aggregate_type, aggregate_id, type, payload) VALUES ('order', '1', 'placed', '1')"
        )
        outbox.write(2)
        relay.wait_until(lambda: any("public.child inherits" in text for text in outbox.watcher.notices), "a notice")
        assert outbox.values(relay) == [b"2"]
