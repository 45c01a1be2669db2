"""The position of a record: the same in every way of reading, and the same each time it is read."""

from datetime import datetime

from tests.integration.relaying.harness import Outbox, position
from tests.integration.relaying.ways import need
from tests.servers.database import Database
from walrelay.model import Message

MESSAGE = '{"id": "m", "aggregate_type": "order", "payload": 4}'


def workload(database: Database, outbox: Outbox) -> None:
    """Transactions of one row and of several, with foreign rows, messages and sub-transactions between them."""
    database.execute("CREATE TABLE business (n int)")
    with database.connect() as connection:
        outbox.write(1, connection=connection)
        with connection.transaction():
            connection.execute("INSERT INTO business SELECT generate_series(1, 50)")
            outbox.write(2, 3, connection=connection)
            with connection.transaction(force_rollback=True):
                outbox.write("never", connection=connection)
            connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s)", [MESSAGE])
            outbox.write(5, connection=connection)
        outbox.write(6, 7, connection=connection)


def test_positions_are_the_same_in_every_way_of_reading(database: Database, every_way: list[Outbox]) -> None:
    need("format1", database.server)
    workload(database, every_way[0])
    read: dict[str, list[Message]] = {}
    for outbox in every_way:
        with outbox.relay() as relay:
            read[outbox.way] = outbox.messages(relay)
    positions = {way: [position(message) for message in messages] for way, messages in read.items()}
    assert positions["text"] == positions["binary"] == positions["format2"]
    assert [ordinal for _, ordinal in positions["text"]] == [0, 0, 1, 2, 3, 0, 0]
    # Format 1 does not say where a commit record starts: its positions are the commit record's last byte.
    assert [ordinal for _, ordinal in positions["format1"]] == [0, 0, 1, 2, 3, 0, 0]
    starts = [lsn for lsn, _ in positions["text"]]
    last_bytes = [lsn for lsn, _ in positions["format1"]]
    assert all(start < last < start + 1000 for start, last in zip(starts, last_bytes, strict=True))
    assert last_bytes == sorted(last_bytes)
    texts = [message._replace(headers=message.headers[:-1]) for message in read["text"]]
    assert position(read["text"][0])  # which is the last header
    for messages in read.values():
        assert [message._replace(headers=message.headers[:-1]) for message in messages] == texts


def test_positions_are_the_same_when_a_record_comes_again(outbox: Outbox) -> None:
    workload(outbox.database, outbox)
    broker = outbox.broker
    broker.withhold()
    cut_short = outbox.under(shutdown_timeout=0)
    for run in (1, 2):
        with cut_short.relay() as relay:
            relay.offers(7 * run)
    broker.release()
    with outbox.relay() as relay:
        messages = outbox.messages(relay)
    assert broker.offered[:7] == broker.offered[7:14] == messages


def test_the_timestamp_is_that_of_the_commit(outbox: Outbox) -> None:
    with outbox.database.connect() as connection, outbox.database.connect() as clock:

        def now() -> int:
            ((moment,),) = clock.execute("SELECT clock_timestamp()")
            assert isinstance(moment, datetime)
            return int(moment.timestamp() * 1000)

        with connection.transaction():
            outbox.write(1, 2, connection=connection)
            before = now()
        after = now()
    with outbox.relay() as relay:
        first, second = outbox.messages(relay)
    assert before <= first.timestamp_ms <= after
    assert first.timestamp_ms == second.timestamp_ms
