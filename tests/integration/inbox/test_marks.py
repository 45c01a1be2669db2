"""The high-water mark on real PostgreSQL: what it tells, and what it must never take for a repetition."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from tests.integration.inbox.conftest import WaitForLock
from tests.integration.libraries import Client, Library, transaction
from tests.servers.database import Database
from walrelay.decode.contract import Columns, OutboxLayout
from walrelay.decode.records import RowDecoder
from walrelay.inbox import Identity, Inbox, Position
from walrelay.lsn import LSN

INBOX = Inbox(by_position=True)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

_ids = count()


def event(position: str, seconds: float = 0) -> Identity:
    """A new event, committed so many seconds after noon."""
    time = NOON + timedelta(seconds=seconds)
    return Identity(f"e{next(_ids)}", "t", Position.parsed(position), "orders[0]", time)


def handle(client: Client, message: Identity, consumer: str = "billing") -> bool:
    with client.block(INBOX.receive(client.connection, consumer=consumer, message_id=message)) as first:
        return bool(first)


def first(database: Database, messages: Iterable[Identity]) -> list[bool]:
    """Which of the messages are first, each in a transaction of its own."""
    answers = []
    for message in messages:
        with (
            database.connect(autocommit=False) as connection,
            INBOX.receive(connection, consumer="billing", message_id=message) as is_first,
        ):
            answers.append(is_first)
    return answers


def rows(database: Database) -> int:
    ((found,),) = database.execute("SELECT count(*) FROM inbox")
    return int(found)


def test_a_stream_and_its_repetition_need_one_row(library: Library, consumers: Database) -> None:
    stream = [event(f"{lsn}:{n}", 1) for lsn in ("0/FFFFFF8", "0/10000000", "1/0", "1/8") for n in (0, 2, 9, 10)]
    with transaction(library, consumers.dsn) as client:
        assert [handle(client, message) for message in stream] == [True] * 16
        assert [handle(client, message) for message in stream] == [False] * 16
        assert handle(client, stream[0], consumer="shipping")
        assert handle(client, stream[0]._replace(source="orders[1]"))

    assert rows(consumers) == 0
    assert consumers.execute(
        "SELECT commit_lsn::text, ordinal FROM inbox_marks WHERE consumer = 'billing' AND source = 'orders[0]'"
    ) == [("1/8", 10)]


def test_a_rollback_takes_the_mark_back(library: Library, consumers: Database) -> None:
    one, two = event("1/0:0"), event("1/8:0")
    with transaction(library, consumers.dsn) as client:
        assert handle(client, one)
    client = library.open(consumers.dsn, False)
    client.begin()
    assert handle(client, two)
    client.roll_back()
    client.close()

    assert first(consumers, [one, two]) == [False, True]


def test_the_same_partition_at_the_same_time_waits_its_turn(
    library: Library, consumers: Database, threads: ThreadPoolExecutor, waits_for_a_lock: WaitForLock
) -> None:
    """As after a rebalance, when the old owner of a partition is still at work."""
    first(consumers, [event("0/8:0")])
    message = event("1/0:0")

    def new_owner() -> bool:
        with transaction(library, consumers.dsn) as client:
            return handle(client, message)

    with transaction(library, consumers.dsn) as client:
        assert handle(client, message)
        other = threads.submit(new_owner)
        waits_for_a_lock(other)

    assert other.result(10) is False


def test_what_is_replayed_is_received_behind_higher_positions_once(consumers: Database) -> None:
    refused, later = event("1/0:0"), event("1/8:0")
    replayed = refused._replace(replayed=True)
    assert first(consumers, [later, replayed, replayed]) == [True, True, False]
    assert first(consumers, [refused, later]) == [False, False]


def test_an_event_that_came_replayed_first_is_known_when_the_stream_brings_it(consumers: Database) -> None:
    late = event("1/8:0")
    assert first(consumers, [event("1/0:0"), late._replace(replayed=True), late]) == [True, True, False]


def test_rows_of_a_table_go_by_id_whatever_was_streamed_before(consumers: Database) -> None:
    """A second attempt of a backfill gives the same rows other positions; a new server may give them lower ones."""
    one, two = event("0/1000006:0"), event("0/1000006:1")
    again = [two._replace(position=Position("0/1000106", 0)), event("0/1000106:1")]
    assert first(consumers, [event("1/0:0", 5), one, two, *again]) == [True, True, True, False, True]
    assert first(consumers, [event("1/8:0", 6)]) == [True]


def test_the_positions_that_a_backfill_makes_up_are_known_and_no_others() -> None:
    outbox = OutboxLayout("public", "outbox", Columns(*Columns._fields))
    for consistent_point in (LSN(0x1000000), LSN(0xFFFFFFFF8), LSN(8)):
        decoder = RowDecoder(outbox, dict.fromkeys(Columns._fields, 25), consistent_point)
        record = decoder.decode([b"{}"] * len(decoder.columns), 0)
        made_up = Position.parsed(str(record.position))
        assert made_up is not None
        assert made_up.of_a_row
        for below in (0, 1):  # a commit at that very point; the last byte of one, as wal2json's version 1 has it
            streamed = Position.parsed(f"{LSN(consistent_point - below)}:0")
            assert streamed is not None
            assert not streamed.of_a_row


@pytest.mark.parametrize(
    "lacking", [{"position": None}, {"source": None}, {"committed_at": None}, {"position": None, "source": None}]
)
def test_what_position_cannot_decide_goes_by_id(consumers: Database, lacking: dict[str, Any]) -> None:
    first(consumers, [event("9/0:0", 9)])
    one, two = event("1/0:0")._replace(**lacking), event("1/0:0")._replace(**lacking)
    assert first(consumers, [one, two, one, two]) == [True, True, False, False]


def test_new_events_of_a_promoted_server_whose_positions_went_back_are_received(consumers: Database) -> None:
    """It had not got 1/110 to 1/120, which were published; it writes its own there, later."""
    old = [event("1/100:0", 1), event("1/110:0", 2), event("1/118:0", 3), event("1/120:0", 3)]
    assert first(consumers, old) == [True] * 4

    new = [event("1/110:0", 9), event("1/118:0", 9), event("1/118:1", 9), event("1/120:0", 11), event("1/128:0", 12)]
    assert first(consumers, [old[0], new[0], old[0], *new[1:]]) == [False, True, False, True, True, True, True]
    # The relay repeats what both histories have, and what it has published of the new one.
    assert first(consumers, [old[0], *new]) == [False] * 6


def test_events_of_another_cluster_are_received(consumers: Database) -> None:
    assert first(consumers, [event("FF/0:0", 100)]) == [True]
    restored = [event("0/1000000:0", 200), event("0/1000008:0", 201), event("0/1000008:1", 201)]
    assert first(consumers, [*restored, *restored]) == [True] * 3 + [False] * 3


def test_commits_whose_times_are_not_in_their_order_are_told_by_position(consumers: Database) -> None:
    """Two writers take the time before they take their place in the WAL; a clock may also be set back."""
    stream = [event("1/0:0", 5), event("1/8:0", 4), event("1/10:0", 4.5), event("1/18:0", -3600)]
    assert first(consumers, [*stream, *stream]) == [True] * 4 + [False] * 4


def test_a_consumer_may_go_over_from_ids_to_positions(consumers: Database) -> None:
    by_id = [event("1/0:0"), event("1/8:0")]
    with consumers.connect(autocommit=False) as connection:
        for message in by_id:
            with Inbox().receive(connection, consumer="billing", message_id=message) as is_first:
                assert is_first
    assert first(consumers, [*by_id, event("1/10:0")]) == [False, False, True]
