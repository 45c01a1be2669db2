"""`walrelay init --push-down`: rules that drop as the publication's row filter. What they drop stays on the server, and
everything else is as without it.
"""

from typing import Any

import pytest

from tests.integration.relaying.cleaning import AT_ONCE, clean, left, publish
from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox
from tests.servers.database import Database
from walrelay.errors import Fatal
from walrelay.observe import Dropped
from walrelay.operations import push_down, setup
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.slot_records import noted_publication

NOISE = {"name": "noise", "when": {"type": {"prefix": "debug."}}, "drop": True}
TENANT = {"name": "tenant", "when": {"tenant_id": ["o'neil", "back\\slash"], "topic": {"exists": False}}, "drop": True}
REST = {"name": "rest"}

pgoutput = pytest.mark.parametrize("way", ["text"], indirect=True)


@pytest.fixture(autouse=True)
def _filters(database: Database) -> None:
    if database.server.major < 15:
        pytest.skip("publications have row filters since PostgreSQL 15")


def pushed(outbox: Outbox) -> push_down.PushDown:
    with Catalog(outbox.wiring.dsn) as catalog:
        planned = push_down.plan(catalog, outbox.wiring)
        if planned.sql:
            push_down.apply(catalog, outbox.wiring, planned)
        assert push_down.plan(catalog, outbox.wiring).sql == "", "it is done"
        return planned


def write(outbox: Outbox, **columns: Any) -> None:
    row = {"aggregate_type": "order", "aggregate_id": "o", "type": "placed", "payload": "{}"} | columns
    outbox.database.execute(
        f"INSERT INTO outbox ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})", [*row.values()]
    )


def assert_pushed_down(outbox: Outbox) -> None:
    pushed(outbox)
    with outbox.relay() as relay:
        write(outbox, type="debug.x", payload="1")
        write(outbox, payload="2")
        assert outbox.values(relay) == [b"2"]


@pytest.mark.parametrize("way", ["text", "binary"], indirect=True)
def test_rows_that_rules_drop_never_leave_the_server(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(routes=[NOISE, TENANT, REST])
    write(outbox, type="debug.before", payload="1")
    assert pushed(outbox).sql
    for number, columns in enumerate(
        ({"type": "debug.x"}, {"tenant_id": "o'neil"}, {"tenant_id": "back\\slash"}, {"tenant_id": "O'NEIL"}, {}), 2
    ):
        write(outbox, payload=str(number), **columns)
    write(outbox, tenant_id="o'neil", topic="has.one", payload="7")
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"5", b"6", b"7"]
        (dropped,) = {each.rule for each in outbox.watcher.happenings if isinstance(each, Dropped)}
        end = outbox.end_of_wal()
        write(outbox, type="debug.last")
        relay.confirms(end)
    assert dropped == "noise", "only the row from before the filter came to the relay"
    assert sum(isinstance(each, Dropped) for each in outbox.watcher.happenings) == 1


@pgoutput
def test_the_filter_changes_nothing_of_what_is_known_to_be_published(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(routes=[NOISE, REST])
    slot = outbox.settings.source.slot
    query = "SELECT published_from, parts FROM walrelay.slots WHERE slot_name = %s"
    before = outbox.database.execute(query, [slot])
    pushed(outbox)
    with Catalog(outbox.wiring.dsn) as catalog:
        assert catalog.published("walrelay", outbox.wiring.table).seen == noted_publication(catalog, slot)
    assert outbox.database.execute(query, [slot]) == before
    assert set(outbox.init().values()) == {"present"}


@pgoutput
def test_a_filter_follows_the_rules(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(routes=[NOISE, TENANT, REST])
    pushed(outbox)
    fewer = outbox.under(routes=[{"name": "first", "when": {"type": "x"}}, NOISE])
    error = fewer.failure()
    assert "withholds rows that no rule drops, so their events are lost: type begins with 'debug.'" in str(error)
    assert error.hint == "walrelay init --push-down"
    assert "WHERE" not in pushed(fewer).sql
    assert outbox.database.execute("SELECT rowfilter FROM pg_publication_tables WHERE pubname = 'walrelay'") == [
        (None,)
    ]


@pgoutput
def test_rules_that_stay_with_the_relay_are_named(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(
        routes=[
            {"name": "deep", "when": {"payload.n": 1}, "drop": True},
            {"name": "like", "when": {"type": {"glob": "a*"}}, "drop": True},
            {"name": "when", "when": {"created_at": "2026"}, "drop": True},
            NOISE,
            {"name": "header", "when": {"header.x": 1}, "drop": True},
            {"name": "after", "when": {"type": "b"}, "drop": True},
            REST,
        ]
    )
    assert {drop.rule: drop.why for drop in pushed(outbox).drops} == {
        "deep": "payload.n is not a whole column",
        "like": "a row filter has no glob",
        "when": 'the text of "created_at" depends on the session, or has no equality',
        "noise": "",
    }


@pgoutput
def test_what_the_server_withholds_is_cleaned_up_like_what_the_relay_drops(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(routes=[NOISE, REST], **AT_ONCE)
    write(outbox, type="debug.x", payload="1")
    pushed(outbox)
    write(outbox, type="debug.x", payload="2")
    publish(outbox, 3)
    with outbox.relay():
        assert clean(outbox).rows == 3
    assert left(outbox) == []


@pgoutput
def test_what_the_server_withholds_against_the_rules_stays_in_the_table(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(routes=[NOISE, REST], **AT_ONCE)
    pushed(outbox)
    write(outbox, type="debug.x", payload="1")
    publish(outbox, 2)
    with outbox.relay():
        assert clean(outbox.under(routes=[REST])).rows == 1
    assert left(outbox) == [1]


@pgoutput
def test_a_partitioned_outbox_can_have_a_filter(database: Database, way: str) -> None:
    outbox = Outbox(database, way, routes=[NOISE, REST])
    with Catalog(outbox.wiring.dsn) as catalog:
        steps = setup.plan(catalog, outbox.wiring, partitioned=True)
        assert [*setup.apply(catalog, outbox.wiring, steps, patience=10)]
    assert_pushed_down(outbox)


@pgoutput
def test_an_outbox_with_children_can_have_a_filter(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(routes=[NOISE, REST])
    outbox.database.execute("CREATE TABLE child () INHERITS (outbox)")
    assert_pushed_down(outbox)


@pgoutput
@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("ALTER PUBLICATION walrelay SET (publish = 'insert, update')", "also publishes updates"),
        ("ALTER PUBLICATION walrelay SET TABLE outbox WHERE (type <> 'x')", "was not made of rules"),
        (
            "ALTER PUBLICATION walrelay SET TABLE outbox (id, aggregate_type, aggregate_id, type, payload, headers,"
            " topic)",
            "has a list of columns",
        ),
        (
            "DROP PUBLICATION walrelay; CREATE PUBLICATION walrelay FOR ALL TABLES WITH (publish = 'insert')",
            "names all tables",
        ),
    ],
)
def test_a_publication_that_cannot_have_this_filter_stays_as_it_is(
    make_outbox: OutboxMaker, before: str, said: str
) -> None:
    outbox = make_outbox(routes=[NOISE, REST])
    outbox.database.execute(before)
    with pytest.raises(Fatal, match=said):
        pushed(outbox)


@pgoutput
def test_a_running_relay_or_another_reader_of_the_publication_is_named(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(routes=[NOISE, REST])
    with outbox.relay() as relay:
        relay.streams()
        with pytest.raises(Fatal, match=r"is read by PID .* a running relay would stop"):
            pushed(outbox)
    other = outbox.under(source={"slot": f"{outbox.settings.source.slot}_2"}, routes=[REST])
    other.init()
    with pytest.raises(Fatal, match="would lose rows that only these rules drop"):
        pushed(outbox)


@pytest.mark.parametrize("way", ["format2"], indirect=True)
def test_wal2json_has_no_publication(make_outbox: OutboxMaker) -> None:
    with pytest.raises(Fatal, match="wal2json reads no publication"):
        pushed(make_outbox(routes=[NOISE, REST]))
