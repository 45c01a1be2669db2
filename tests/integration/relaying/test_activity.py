"""What is asked about a relay that runs, through the database: its numbers, and the last events."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.relaying.harness import Outbox, Relaying
from tests.servers.database import Database
from walrelay.control.asking import EventFilter, activity, recent_events, relay_activity
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.observe import Noticed
from walrelay.postgres.catalog import Catalog

LONG = 30.0  # seconds, on a busy machine


@pytest.fixture
def outbox(database: Database) -> Outbox:
    made = Outbox(database, "binary", events={"payloads": True, "redact": {"*secret*": ["card.number"]}})
    made.init()
    return made


@pytest.fixture
def relay(outbox: Outbox) -> Iterator[Relaying]:
    with outbox.relay() as relay:
        relay.streams()
        yield relay


@pytest.fixture
def catalog(outbox: Outbox) -> Iterator[Catalog]:
    with Catalog(outbox.wiring.dsn) as catalog:
        yield catalog


def slot(outbox: Outbox) -> str:
    return outbox.wiring.slot


def test_numbers_and_events_of_a_relay_that_runs(outbox: Outbox, relay: Relaying, catalog: Catalog) -> None:
    outbox.write(1, 2)
    with outbox.database.connect(autocommit=False) as connection:
        outbox.write(3, 4, 5, connection=connection)
    relay.confirms(outbox.end_of_wal())
    found = recent_events(catalog, slot(outbox), patience=LONG)
    numbers = found.activity
    assert (numbers.slot, numbers.state, numbers.records, numbers.published) == (slot(outbox), "streaming", 5, 5)
    assert (numbers.in_flight, numbers.last_event, numbers.kept) == (0, 5, 5)
    assert numbers.published_bytes == 5
    ((sink, topic, messages, size),) = numbers.topics
    assert (sink, topic, messages, size) == ("", "outbox.event.order", 5, 5)
    assert numbers.transaction_rows is not None
    assert numbers.transaction_rows.p50 == 1
    assert numbers.latency is not None
    assert 0 < numbers.latency.p50 <= numbers.latency.p99 < LONG
    assert [each.number for each in found.events] == [5, 4, 3, 2, 1]
    assert [each.key for each in found.events] == ["5", "4", "3", "2", "1"]
    for each in found.events:
        assert (each.topic, each.type, each.payload, each.bytes) == ("outbox.event.order", "placed", each.key, 1)
        assert each.position is not None
        assert each.position.startswith(f"{each.commit_lsn}:")
        assert each.acknowledged_at is not None
        assert each.confirmed_at is not None
        assert each.read_at <= each.published_at <= each.acknowledged_at <= each.confirmed_at
        assert LSN.parse(each.commit_lsn) < LSN.parse(numbers.confirmed_lsn or "0/0")
    wanted = found.events[2]
    assert recent_events(catalog, slot(outbox), 3, patience=LONG).events == found.events[:2]
    by_id = EventFilter("outbox.*", wanted.id or "", wanted.key or "")
    assert recent_events(catalog, slot(outbox), 0, by_id, LONG).events == [wanted]
    assert not recent_events(catalog, slot(outbox), 0, EventFilter("other"), LONG).events


def test_payloads_are_shown_without_what_is_to_be_left_out(outbox: Outbox, relay: Relaying, catalog: Catalog) -> None:
    columns = "(aggregate_type, aggregate_id, type, payload)"
    for kind, payload in (("secret", '{"card": {"number": 4711, "name": "x"}}'), ("secret", "4711"), ("order", "{}")):
        row = f"INSERT INTO {outbox.wiring.table} {columns} VALUES (%s, 'k', 'placed', %s)"
        outbox.database.execute(row, [kind, payload])
    relay.confirms(outbox.end_of_wal())
    found = recent_events(catalog, slot(outbox), patience=LONG).events
    assert [each.payload for each in found] == ["{}", "4711", '{"card": {"name": "x", "number": null}}']


def test_nothing_is_written_while_nobody_asks_and_who_asks_at_once_shares_an_answer(
    outbox: Outbox, relay: Relaying, catalog: Catalog
) -> None:
    outbox.write(1)
    relay.confirms(outbox.end_of_wal())
    assert outbox.database.execute("SELECT * FROM walrelay.activity") == []
    relay_activity(catalog, slot(outbox), LONG)

    def ask(_: int) -> float:
        with Catalog(outbox.wiring.dsn) as own:
            return activity(own, patience=LONG)[slot(outbox)].at

    with ThreadPoolExecutor(8) as executor:
        answers = [*executor.map(ask, range(8))]
    assert len({*answers}) <= 4, "eight questions have a few answers"


def test_it_is_in_no_publication_and_no_decoded_transaction(outbox: Outbox, relay: Relaying, catalog: Catalog) -> None:
    outbox.database.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    published = "SELECT tablename FROM pg_publication_tables WHERE pubname = 'everything'"
    assert ("activity",) not in outbox.database.execute(published)
    outbox.database.execute(f"SELECT pg_create_logical_replication_slot('{slot(outbox)}_o', 'test_decoding')")
    relay_activity(catalog, slot(outbox), LONG)
    changes = f"SELECT data FROM pg_logical_slot_get_changes('{slot(outbox)}_o', NULL, NULL)"
    assert not [data for (data,) in outbox.database.execute(changes) if "activity" in data]
    outbox.write(1)
    relay.confirms(outbox.end_of_wal())


def test_a_question_while_the_publication_is_gone_does_no_harm(
    outbox: Outbox, relay: Relaying, catalog: Catalog
) -> None:
    """What is written to a table then could not be decoded by any server; this table is in no WAL."""
    publication = outbox.wiring.publication
    outbox.database.execute(f"ALTER PUBLICATION {publication} RENAME TO away")
    relay_activity(catalog, slot(outbox), LONG)
    outbox.database.execute(f"ALTER PUBLICATION away RENAME TO {publication}")
    outbox.write(1)
    relay.confirms(outbox.end_of_wal())
    assert len(outbox.broker.durable) == 1


def test_who_cannot_be_asked_is_said(outbox: Outbox, catalog: Catalog) -> None:
    with pytest.raises(Fatal, match="no instance leads"):
        relay_activity(catalog, slot(outbox))
    assert activity(catalog, [slot(outbox), "nobody"]) == activity(catalog) == {}
    outbox.database.execute("DROP TABLE walrelay.activity")
    with pytest.raises(Fatal, match=r"no table walrelay\.activity") as failure:
        relay_activity(catalog, slot(outbox))
    assert "walrelay init" in failure.value.hint
    assert outbox.init()["table walrelay.activity"] == "created"


def test_anybody_may_notify_anything(outbox: Outbox, relay: Relaying, catalog: Catalog) -> None:
    for text in (
        "nobody",
        "' --",
        " ",
        "x y z",
        f"{slot(outbox)} -1",
        f"{slot(outbox)} 99999999999999999999",
        "\N{SNOWMAN}",
    ):
        outbox.database.execute("SELECT pg_notify('walrelay_activity', %s)", [text])
    assert relay_activity(catalog, slot(outbox), LONG).state == "streaming"
    assert outbox.watcher.of(Noticed) == []


@pytest.mark.parametrize("trouble", ["locked", "dropped", "other columns", "no right"])
def test_a_table_that_cannot_be_written_slows_and_stops_no_relay(
    outbox: Outbox, relay: Relaying, catalog: Catalog, trouble: str
) -> None:
    with outbox.database.connect(autocommit=False) as blocking:
        if trouble == "locked":
            blocking.execute("LOCK TABLE walrelay.activity")
        elif trouble == "dropped":
            outbox.database.execute("DROP TABLE walrelay.activity")
        elif trouble == "other columns":
            outbox.database.execute("ALTER TABLE walrelay.activity DROP COLUMN activity")
        else:
            outbox.database.execute(
                "CREATE FUNCTION public.throws() RETURNS trigger LANGUAGE plpgsql"
                " AS $$ BEGIN RAISE SQLSTATE '42501'; END $$"
            )
            outbox.database.execute(
                "CREATE TRIGGER throws BEFORE INSERT ON walrelay.activity FOR EACH ROW EXECUTE FUNCTION public.throws()"
            )
        for _ in range(3):
            outbox.database.execute("SELECT pg_notify('walrelay_activity', '')")
        relay.wait_until(lambda: _noticed(outbox), "it to be told")
        outbox.write(1, 2, 3)
        relay.confirms(outbox.end_of_wal())
    assert len(outbox.broker.durable) == 3
    assert len(_noticed(outbox)) == 1


def _noticed(outbox: Outbox) -> list[str]:
    return [each.text for each in outbox.watcher.of(Noticed) if "walrelay.activity" in each.text]
