"""The lead: who has it, what waiting for it costs the server, and that it is free as soon as its holder is gone."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread

from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay.postgres import connect
from walrelay.postgres.locks import lock_key
from walrelay.source.leadership import lead, lead_at_once

SLOT = "orders"


@contextmanager
def waiting(
    database: Database, *, renewal: float = 60.0, silence: float = 300.0, told: list[str] | None = None
) -> Iterator[tuple[int, list[bool]]]:
    """Somebody who waits for the lead: the PID of its connection, and what came of it; `told` gets what it says."""
    connection, stop, came = connect.replication(database.dsn), Event(), list[bool]()
    told = [] if told is None else told

    def wait() -> None:
        came.append(lead(connection, SLOT, stop.is_set, lambda: None, told.append, renewal=renewal, silence=silence))

    thread = Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield connection.pgconn.backend_pid, came
    finally:
        stop.set()
        thread.join(10)
        connection.close()


@contextmanager
def leading(database: Database) -> Iterator[connect.Connection]:
    with closing(connect.replication(database.dsn)) as leader:
        assert lead_at_once(leader, SLOT)
        yield leader


def asks(database: Database, pid: int, what: str) -> object:
    """A column of the connection's row in pg_stat_activity."""
    rows = database.execute(f"SELECT {what} FROM pg_stat_activity WHERE pid = %s", [pid])
    return rows[0][0] if rows else None


def test_one_leads_and_the_next_follows_as_soon_as_its_connection_is_gone(database: Database) -> None:
    with leading(database) as leader, waiting(database) as (pid, came):
        wait_until(lambda: asks(database, pid, "wait_event") == "advisory", 10, "the request to wait")
        assert came == []
        database.execute("SELECT pg_terminate_backend(%s)", [leader.pgconn.backend_pid])
        wait_until(lambda: came, 5, "the lead")
        assert came == [True]


def test_whoever_stops_waiting_does_not_seem_to_wait_any_longer(database: Database) -> None:
    with leading(database):
        with waiting(database) as (pid, came):
            wait_until(lambda: asks(database, pid, "wait_event") == "advisory", 10, "the request to wait")
        assert came == [False]
        wait_until(lambda: asks(database, pid, "pid") is None, 10, "the server to notice")


def test_whoever_is_frozen_while_it_waits_does_not_keep_the_lead(database: Database) -> None:
    """It gets the lead, and then the server hears no more of it."""
    with leading(database) as leader, waiting(database, silence=0.5) as (pid, came):
        wait_until(lambda: asks(database, pid, "wait_event") == "advisory", 10, "the request to wait")
        leader.close()
        wait_until(lambda: came, 10, "the lead")
        assert came == [True]
        with closing(connect.replication(database.dsn)) as next_one:
            wait_until(lambda: lead_at_once(next_one, SLOT), 10, "the server to give it up")


def test_the_lead_of_one_slot_is_not_that_of_another(database: Database) -> None:
    with closing(connect.replication(database.dsn)) as one, closing(connect.replication(database.dsn)) as other:
        assert lead_at_once(one, "orders")
        assert lead_at_once(other, "invoices")
        assert not lead_at_once(other, "orders")
    assert lock_key("orders") != lock_key("invoices")


def test_whoever_waits_asks_nothing_meanwhile(database: Database) -> None:
    with leading(database), waiting(database) as (pid, _):
        wait_until(lambda: asks(database, pid, "wait_event") == "advisory", 10, "the request to wait")
        asked = asks(database, pid, "query_start")
        for _ in range(50):  # as many statements of somebody else
            database.execute("SELECT 1")
        assert asks(database, pid, "query_start") == asked


def test_waiting_does_not_keep_vacuum_from_removing_rows_for_long(database: Database) -> None:
    """A statement that waits has a snapshot, so the request is given up and sent again, by default once a minute."""
    with leading(database), waiting(database, renewal=0.2) as (pid, _):
        wait_until(lambda: asks(database, pid, "wait_event") == "advisory", 10, "the request to wait")
        before = asks(database, pid, "backend_xmin::text::bigint")
        for _ in range(3):
            database.execute("CREATE TEMPORARY TABLE t AS SELECT 1")
        newer = "the snapshot of whoever waits to be a newer one"
        wait_until(lambda: int(str(asks(database, pid, "backend_xmin::text") or 0)) > int(str(before)), 10, newer)


def test_a_holder_that_is_no_relay_is_named_with_the_way_to_be_rid_of_it(database: Database) -> None:
    told: list[str] = []
    with database.connect(application_name="psql of mallory") as mallory:
        mallory.execute("SELECT pg_advisory_lock(%s)", [lock_key(SLOT)])
        with waiting(database, renewal=0.2, told=told) as (_, came):
            wait_until(lambda: len(told) > 2, 10, "it to be named again and again")
            assert f"PID {mallory.info.backend_pid}, role 'postgres', application 'psql of mallory'" in told[0]
            statement = told[0].rpartition(": ")[2]
            database.execute(statement)
            wait_until(lambda: came, 5, "the lead")
    assert came == [True]


def test_a_relay_that_leads_is_not_named_as_a_stranger(database: Database) -> None:
    told: list[str] = []
    with leading(database), waiting(database, renewal=0.2, told=told) as (pid, _):
        first = asks(database, pid, "query_start")
        wait_until(lambda: asks(database, pid, "query_start") != first, 10, "another request")
    assert told == []
