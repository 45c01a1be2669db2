"""What is committed arrives, in commit order, however it was written; what is not, never does."""

import pytest
from psycopg.conninfo import make_conninfo

from tests.integration.relaying.broker import Killed
from tests.integration.relaying.harness import Outbox, position
from walrelay.lsn import LSN, ZERO

COPY = "COPY outbox (aggregate_type, aggregate_id, type, payload) FROM STDIN"


def copy(outbox: Outbox, rows: int) -> None:
    """So many rows in one COPY: they share one LSN in the WAL."""
    with outbox.database.connect() as connection, connection.cursor().copy(COPY) as lines:
        for number in range(rows):
            lines.write_row(("order", str(number % 7), "placed", str(number)))


def in_order(rows: int) -> list[bytes]:
    return [b"%d" % number for number in range(rows)]


def test_a_rollback_and_a_savepoint_rolled_back_never_arrive(outbox: Outbox) -> None:
    with outbox.database.connect() as connection:
        with connection.transaction(force_rollback=True):
            outbox.write("rolled back", connection=connection)
        with connection.transaction():
            outbox.write(1, connection=connection)
            with connection.transaction(force_rollback=True):  # a savepoint
                outbox.write("rolled back to a savepoint", connection=connection)
                with connection.transaction():
                    outbox.write("released inside it", connection=connection)
            outbox.write(2, connection=connection)
    with outbox.relay() as relay:
        messages = outbox.messages(relay)
    assert [message.value for message in messages] == [b"1", b"2"]
    assert [position(message)[1] for message in messages] == [0, 1]


def test_a_row_deleted_or_changed_in_its_own_transaction_arrives_as_it_was_inserted(outbox: Outbox) -> None:
    with outbox.database.connect() as connection, connection.transaction():
        outbox.write(1, 2, connection=connection)
        connection.execute("DELETE FROM outbox WHERE aggregate_id = '1'")
        connection.execute("UPDATE outbox SET payload = '3'")
    outbox.database.execute("DELETE FROM outbox")
    outbox.database.execute("TRUNCATE outbox")
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1", b"2"]


def test_transactions_arrive_in_the_order_of_their_commits(outbox: Outbox) -> None:
    connect = outbox.database.connect
    with connect(autocommit=False) as long, connect(autocommit=False) as short, outbox.relay() as relay:
        outbox.write("long 1", connection=long)
        outbox.write("short 1", connection=short)
        short.commit()
        outbox.write("short 2", connection=short)
        outbox.write("long 2", connection=long)
        outbox.write("alone")
        assert outbox.values(relay) == [b'"short 1"', b'"alone"']
        long.commit()
        short.commit()
        messages = outbox.messages(relay)
    assert [message.value for message in messages[2:]] == [b'"long 1"', b'"long 2"', b'"short 2"']
    assert [position(message) for message in messages] == sorted({position(message) for message in messages})


@pytest.mark.parametrize("acknowledged", [0, 1, 499, 999])
def test_a_copy_that_was_cut_off_comes_again_whole_at_the_same_positions(outbox: Outbox, acknowledged: int) -> None:
    copy(outbox, 1000)
    dies_after(outbox, acknowledged)
    before = list(outbox.broker.durable)
    outbox.broker.release()
    with outbox.relay() as relay:
        messages = outbox.messages(relay)[acknowledged:]
    assert [message.value for message in messages] == [*in_order(1000), b'"the last"']
    positions = [position(message) for message in messages]
    assert positions == sorted(set(positions))
    assert [position(message) for message in before] == positions[:acknowledged]


def test_a_copy_that_was_confirmed_does_not_come_again(outbox: Outbox) -> None:
    copy(outbox, 1000)
    dies_after(outbox, 1000, confirmed=outbox.end_of_wal())
    outbox.broker.release()
    with outbox.relay() as relay:
        assert outbox.values(relay) == [*in_order(1000), b'"the last"']


def dies_after(outbox: Outbox, acknowledged: int, confirmed: LSN = ZERO) -> None:
    """A relay reads all, is told that so many messages are durable, and dies of the next record."""
    outbox.broker.grant(acknowledged)
    with outbox.relay() as relay:
        relay.offers(1000)
        relay.wait_until(lambda: len(outbox.broker.durable) == acknowledged, f"{acknowledged} receipts")
        relay.confirms(confirmed)
        outbox.broker.break_after(0, Killed)
        outbox.write("the last")
        relay.dies()


def test_a_transaction_that_outgrows_the_servers_memory_arrives_whole(outbox: Outbox) -> None:
    dsn = make_conninfo(outbox.database.dsn, options="-c logical_decoding_work_mem=64kB")
    spilling = outbox.under(source={"dsn": dsn})
    copy(outbox, 20_000)
    with spilling.relay() as relay:
        messages = spilling.messages(relay)
    assert [message.value for message in messages] == in_order(20_000)
    assert [position(message)[1] for message in messages] == list(range(20_000))


def test_a_confirmed_transaction_does_not_come_again_and_the_one_right_behind_it_does(outbox: Outbox) -> None:
    """The server itself may write a record between the two, or behind them."""
    connect, broker = outbox.database.connect, outbox.broker
    with connect(autocommit=False) as first, connect(autocommit=False) as second:
        outbox.write("first", connection=first)
        outbox.write("second", connection=second)
        before = outbox.end_of_wal()
        first.commit()
        between = outbox.end_of_wal()
        second.commit()
        behind = outbox.end_of_wal()
    broker.grant(1)
    with outbox.under(shutdown_timeout=0).relay() as relay:
        relay.offers(2)
        relay.wait_until(lambda: outbox.confirmed > before, "the first to be confirmed")
    assert before < outbox.confirmed <= between
    broker.release()
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b'"first"', b'"second"']
    assert between <= position(broker.durable[1])[0] < behind or outbox.way == "format1"  # which does not tell it
    assert broker.offered[1] == broker.offered[2] == broker.durable[1]


def test_a_prepared_transaction_arrives_when_it_is_committed(own_outbox: Outbox) -> None:
    gone, kept = (f"{own_outbox.database.name} {fate}" for fate in ("gone", "kept"))
    with own_outbox.database.connect() as connection:
        for name in (gone, kept):
            connection.execute("BEGIN")
            own_outbox.write(name[-4:], connection=connection)
            connection.execute(f"PREPARE TRANSACTION '{name}'".encode())
        own_outbox.write("between", connection=connection)
        connection.execute(f"ROLLBACK PREPARED '{gone}'".encode())
        with own_outbox.relay() as relay:
            assert own_outbox.values(relay) == [b'"between"']
            connection.execute(f"COMMIT PREPARED '{kept}'".encode())
            assert own_outbox.values(relay) == [b'"between"', b'"kept"']
