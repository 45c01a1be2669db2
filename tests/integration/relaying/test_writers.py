"""What writers emit, in each of the ways to write, as it comes out of the relay."""

import threading
from typing import Any

import psycopg
import pytest

from tests.integration.relaying.harness import Outbox, header, position
from walrelay.outbox import Event, context
from walrelay.outbox import Outbox as Writer

FUNCTIONS = ("emit", "emit_and_delete", "emit_message")


def test_row_deleted_row_and_logical_message_arrive_alike_and_in_order(outbox: Outbox) -> None:
    """Two of the three leave no row behind."""
    given = [
        Event(
            aggregate_type="order",
            aggregate_id=f"o-{number % 3}",
            type="OrderPlaced",
            payload={"n": number},
            headers={"own": "ü", "none": None},
            tenant_id="acme",
        )
        for number in range(12)
    ]
    with outbox.database.connect() as connection, connection.transaction(), context(correlation_id="c-1"):
        for number, storage in enumerate(["row", "deleted_row", "message"]):
            writer = Writer(storage=storage)  # type: ignore[arg-type]
            writer.emit(connection, given[4 * number])
            writer.emit_many(connection, given[4 * number + 1 : 4 * number + 4])
    assert outbox.database.execute("SELECT count(*) FROM outbox") == [(4,)]
    with outbox.relay() as relay:
        messages = outbox.messages(relay)
    assert [(m.key, m.value) for m in messages] == [
        (str(each.aggregate_id).encode(), b'{"n": %d}' % number) for number, each in enumerate(given)
    ]
    assert [header(message, "id") for message in messages] == [str(each.id).encode() for each in given]
    assert [position(message)[1] for message in messages] == list(range(12))
    for message in messages:
        assert sorted(message.headers)[:4] == [
            ("correlation-id", b"c-1"),
            ("id", header(message, "id")),
            ("none", None),
            ("own", "ü".encode()),
        ]
        assert (message.topic, header(message, "type")) == ("outbox.event.order", b"OrderPlaced")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_call_from_sql_arrives_and_returns_its_id(outbox: Outbox, function: str) -> None:
    with outbox.database.connect() as connection:
        ((id_,),) = connection.execute(
            f"SELECT walrelay.{function}('order', '42', 'OrderPlaced', '{{\"total\": 12.50}}',"
            " headers => '{\"a\": \"b\"}', tenant_id => 'acme')"
        ).fetchall()
        connection.execute(f"SELECT walrelay.{function}('order', '42', 'Deleted', topic => 'elsewhere')")
        with connection.transaction(force_rollback=True):
            connection.execute(f"SELECT walrelay.{function}('order', '42', 'Never')")
    assert outbox.database.execute("SELECT count(*) FROM outbox") == [(2 if function == "emit" else 0,)]
    with outbox.relay() as relay:
        first, second = outbox.messages(relay)
    assert (first.topic, first.key, first.value) == ("outbox.event.order", b"42", b'{"total": 12.50}')
    assert (header(first, "id"), header(first, "a")) == (str(id_).encode(), b"b")
    assert (second.topic, second.value, header(second, "type")) == ("elsewhere", None, b"Deleted")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_sql_refuses_an_event_that_the_broker_would_refuse(outbox: Outbox, function: str) -> None:
    call = f"SELECT walrelay.{function}('order', '42', 'Huge', to_jsonb(repeat('x', %s)))"
    with outbox.database.connect() as connection:
        with pytest.raises(
            psycopg.errors.ProgramLimitExceeded, match=r"event Huge of 42 is too large: 1000\d\d\d bytes"
        ) as e:
            connection.execute(call.encode(), [1_000_000])
        assert "outbox.max_message_bytes" in (e.value.diag.message_hint or "")
        connection.execute(call.encode(), [999_000])
    with outbox.relay() as relay:
        assert [len(message.value or b"") for message in outbox.messages(relay)] == [999_002]


@pytest.mark.parametrize(
    "wrong",
    [
        "'', '1', 't'",
        "NULL, '1', 't'",
        "'a', NULL, 't'",
        "'a', '1', NULL",
        "'a', '1', 't', id => NULL",
        "'a', '1', 't', topic => ''",
        "'a', '1', 't', headers => NULL",
        "'a', '1', 't', headers => '[]'",
    ],
)
def test_an_event_without_a_row_is_checked_as_a_row_is(outbox: Outbox, wrong: str) -> None:
    for function in FUNCTIONS:
        with outbox.database.connect() as connection, pytest.raises(psycopg.errors.IntegrityError):
            connection.execute(f"SELECT walrelay.{function}({wrong})".encode())


def test_events_of_one_aggregate_by_two_writers_arrive_in_commit_order(outbox: Outbox) -> None:
    """The first to write is the last to commit, and arrives last: neither its id nor created_at says so."""
    writer = Writer()
    with outbox.database.connect(autocommit=False) as slow, outbox.database.connect(autocommit=False) as fast:
        writer.emit(slow, Event(aggregate_type="order", aggregate_id="1", type="written first"))
        writer.emit(fast, Event(aggregate_type="order", aggregate_id="1", type="committed first"))
        fast.commit()
        slow.commit()
    with outbox.relay() as relay:
        assert [header(message, "type") for message in outbox.messages(relay)] == [b"committed first", b"written first"]


def test_writers_that_lock_their_aggregate_have_its_events_in_the_order_of_its_versions(outbox: Outbox) -> None:
    """Many writers, few aggregates: the row lock lasts until the commit, so versions and commits agree."""
    outbox.database.execute("CREATE TABLE aggregates (id int PRIMARY KEY, version int NOT NULL DEFAULT 0)")
    outbox.database.execute("INSERT INTO aggregates SELECT generate_series(0, 2)")
    writers, rounds = 6, 40
    errors: list[BaseException] = []
    together = threading.Barrier(writers)

    def write(seed: int) -> None:
        try:
            with outbox.database.connect(autocommit=False) as connection:
                together.wait(20)
                for number in range(rounds):
                    _change(connection, (seed + number) % 3)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=[seed]) for seed in range(writers)]
    with outbox.relay() as relay:
        for thread in threads:
            thread.start()
        relay.wait_until(
            lambda: _waits(outbox) or not any(t.is_alive() for t in threads), "a writer to wait for a lock"
        )
        for thread in threads:
            thread.join(60)
        assert errors == []
        messages = outbox.messages(relay)
    assert len(messages) == writers * rounds
    for aggregate in range(3):
        versions = [int(m.value or b"") for m in messages if m.key == str(aggregate).encode()]
        assert versions == list(range(1, writers * rounds // 3 + 1))


def _waits(outbox: Outbox) -> bool:
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
    return bool(outbox.database.server.execute(query, [outbox.database.name])[0][0])


def _change(connection: psycopg.Connection[Any], aggregate: int) -> None:
    """What a writer that locks does: the row first, then the event."""
    query = "UPDATE aggregates SET version = version + 1 WHERE id = %s RETURNING version"
    ((version,),) = connection.execute(query, [aggregate]).fetchall()
    Writer().emit(connection, Event(aggregate_type="order", aggregate_id=aggregate, type="Changed", payload=version))
    connection.commit()
