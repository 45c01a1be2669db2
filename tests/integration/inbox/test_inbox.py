"""The inbox on real PostgreSQL, with each library."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.integration.inbox.conftest import WaitForLock
from tests.integration.libraries import LIBRARIES, Client, Library, autocommit, transaction
from tests.servers.database import Database
from walrelay.inbox import Identity, Inbox, OutsideTransaction, UnknownConnection

INBOX = Inbox()


def handle(client: Client, message_id: str | UUID, consumer: str = "billing") -> bool:
    """What a consumer does with a message; whether it was first."""
    with client.block(INBOX.receive(client.connection, consumer=consumer, message_id=message_id)) as first:
        if first:
            client.execute(f"INSERT INTO handled VALUES ('{message_id}')")
    return bool(first)


def handled(database: Database) -> list[str]:
    return [what for (what,) in database.execute("SELECT what FROM handled")]


def test_a_message_that_comes_again_is_told(library: Library, consumers: Database) -> None:
    id_ = uuid4()
    answers = []
    for _ in range(3):
        with transaction(library, consumers.dsn) as client:
            answers.append(handle(client, id_))
    with transaction(library, consumers.dsn) as client:
        answers += [handle(client, id_), handle(client, uuid4()), handle(client, id_, consumer="shipping")]

    assert answers == [True, False, False, False, True, True]
    assert len(handled(consumers)) == 3


@pytest.mark.parametrize("missing", [None, "", b"", Identity("")])
def test_a_message_without_an_id_is_refused_and_not_taken_for_a_repetition(missing: Any) -> None:
    with pytest.raises(ValueError, match="the message has no id"):
        Inbox().receive(None, consumer="billing", message_id=missing)


@pytest.mark.parametrize("library", LIBRARIES[:2], ids=str)
def test_an_error_after_a_rollback_inside_is_not_hidden(library: Library, consumers: Database) -> None:
    assert library.name.startswith("psycopg")
    with (  # noqa: PT012
        pytest.raises(ZeroDivisionError),
        transaction(library, consumers.dsn) as client,
        client.block(INBOX.receive(client.connection, consumer="billing", message_id="1")),
    ):
        client.roll_back()
        raise ZeroDivisionError


def test_a_rollback_takes_the_receipt_with_it(library: Library, consumers: Database) -> None:
    client = library.open(consumers.dsn, False)
    client.begin()
    handle(client, "1")
    client.roll_back()
    client.close()

    with transaction(library, consumers.dsn) as client:
        assert handle(client, "1")

    assert handled(consumers) == ["1"]


def test_a_handler_that_catches_its_own_error_and_commits_has_not_received(
    library: Library, consumers: Database
) -> None:
    with transaction(library, consumers.dsn) as client:
        client.execute("INSERT INTO handled VALUES ('before')")
        try:
            with client.block(INBOX.receive(client.connection, consumer="billing", message_id="1")) as first:
                assert first
                client.execute("INSERT INTO handled VALUES ('half')")
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        client.execute("INSERT INTO handled VALUES ('after')")

    assert sorted(handled(consumers)) == ["after", "before"]
    with transaction(library, consumers.dsn) as client:
        assert handle(client, "1")


def test_an_error_of_the_database_leaves_the_transaction_usable(library: Library, consumers: Database) -> None:
    with transaction(library, consumers.dsn) as client:
        with (
            pytest.raises(Exception, match="division by zero"),
            client.block(INBOX.receive(client.connection, consumer="billing", message_id="1")),
        ):
            client.execute("SELECT 1/0")
        assert handle(client, "1")

    assert handled(consumers) == ["1"]


FETCHED = pytest.mark.parametrize("fetched", [True, False], ids=["where it is made", "at the end"])


@FETCHED
@pytest.mark.parametrize("autocommits", [True, False])
def test_an_error_of_the_database_in_a_pipeline_leaves_the_block_and_the_transaction_usable(
    consumers: Database, fetched: bool, autocommits: bool
) -> None:
    """It comes when its answer is asked for: at the end of the block at the latest, so that the savepoint holds."""
    with consumers.connect(autocommit=autocommits) as connection, connection.transaction(), connection.pipeline():
        connection.execute("INSERT INTO handled VALUES ('before')")
        with pytest.raises(psycopg.errors.UndefinedTable):  # noqa: PT012, SIM117
            with INBOX.receive(connection, consumer="billing", message_id="1") as first:
                assert first
                connection.execute("INSERT INTO handled VALUES ('inside')")
                cursor = connection.execute("SELECT FROM nowhere")
                if fetched:
                    cursor.fetchone()
                connection.execute("INSERT INTO handled VALUES ('inside')")
        with INBOX.receive(connection, consumer="billing", message_id="1") as first:
            assert first, "the receipt was not taken back"
            connection.execute("INSERT INTO handled VALUES ('again')")
    assert consumers.execute("SELECT what FROM handled") == [("before",), ("again",)]
    assert consumers.execute("SELECT message_id FROM inbox") == [("1",)]


@FETCHED
def test_so_it_does_in_an_async_pipeline(consumers: Database, fetched: bool) -> None:
    async def works() -> None:
        connection = await psycopg.AsyncConnection.connect(consumers.dsn)
        async with connection, connection.pipeline():
            with pytest.raises(psycopg.errors.UndefinedTable):  # noqa: PT012
                async with INBOX.receive(connection, consumer="billing", message_id="1") as first:
                    assert first
                    cursor = await connection.execute("SELECT FROM nowhere")
                    if fetched:
                        await cursor.fetchone()
            async with INBOX.receive(connection, consumer="billing", message_id="1") as first:
                assert first
            await connection.execute("INSERT INTO handled VALUES ('again')")

    asyncio.run(works())
    assert consumers.execute("SELECT what FROM handled") == [("again",)]
    assert consumers.execute("SELECT message_id FROM inbox") == [("1",)]


def test_a_duplicate_at_the_same_time_waits_and_is_then_second(
    library: Library, consumers: Database, threads: ThreadPoolExecutor, waits_for_a_lock: WaitForLock
) -> None:
    def duplicate() -> bool:
        with transaction(library, consumers.dsn) as client:
            return handle(client, "1")

    with transaction(library, consumers.dsn) as client:
        assert handle(client, "1")
        second = threads.submit(duplicate)
        waits_for_a_lock(second)

    assert second.result(10) is False
    assert handled(consumers) == ["1"]


def test_a_duplicate_at_the_same_time_is_first_if_the_other_is_rolled_back(
    library: Library, consumers: Database, threads: ThreadPoolExecutor, waits_for_a_lock: WaitForLock
) -> None:
    def duplicate() -> bool:
        with transaction(library, consumers.dsn) as client:
            return handle(client, "1")

    client = library.open(consumers.dsn, False)
    client.begin()
    assert handle(client, "1")
    second = threads.submit(duplicate)
    waits_for_a_lock(second)
    client.roll_back()
    client.close()

    assert second.result(10) is True
    assert handled(consumers) == ["1"]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_duplicate_that_a_snapshot_does_not_see_is_a_serialization_failure_and_second_when_tried_again(
    library: Library, consumers: Database, level: str
) -> None:
    def overtaken() -> None:
        with transaction(library, consumers.dsn) as client:
            client.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
            client.execute("SELECT 1 FROM handled")
            with transaction(LIBRARIES[0], consumers.dsn) as other:
                assert handle(other, "1")
            handle(client, "1")

    with pytest.raises(Exception, match="could not serialize access"):
        overtaken()

    with transaction(library, consumers.dsn) as client:
        client.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        assert not handle(client, "1")


def test_outside_of_a_transaction_nothing_is_received(library: Library, consumers: Database) -> None:
    with autocommit(library, consumers.dsn) as client, pytest.raises(OutsideTransaction, match=r"Inbox\.receive"):
        handle(client, "1")

    assert consumers.execute("SELECT 1 FROM inbox") == []


def test_the_wrong_kind_of_with_is_said(library: Library, consumers: Database) -> None:
    with transaction(library, consumers.dsn) as client:
        block = INBOX.receive(client.connection, consumer="billing", message_id="1")
        if client.is_async:
            with pytest.raises(TypeError, match="write `async with` Inbox"), block:
                pass
        else:
            with pytest.raises(TypeError, match="write `with` Inbox"):
                block.__aenter__().send(None)


def test_what_is_no_connection_is_said() -> None:
    with pytest.raises(UnknownConnection, match="is not a connection"), INBOX.receive(1, consumer="b", message_id="1"):
        pass


def test_receipts_are_forgotten_by_their_age_in_batches(library: Library, consumers: Database) -> None:
    consumers.execute(
        "INSERT INTO inbox SELECT 'billing', n::text, now() - interval '8 days' FROM generate_series(1, 2500) n"
    )
    consumers.execute("INSERT INTO inbox SELECT 'billing', n::text, now() FROM generate_series(9001, 9010) n")

    with autocommit(library, consumers.dsn) as client:
        assert client.wait(INBOX.forget(client.connection, older_than=timedelta(days=7))) == 2500
        assert client.wait(INBOX.forget(client.connection, older_than=timedelta(days=7))) == 0

    assert consumers.execute("SELECT count(*) FROM inbox") == [(10,)]


def test_forgetting_goes_by_the_index(consumers: Database) -> None:
    consumers.execute(
        "INSERT INTO inbox SELECT 'billing', n::text, now() - n * interval '1 minute' FROM generate_series(1, 20000) n"
    )
    consumers.execute("ANALYZE inbox")
    plan = consumers.execute(
        "EXPLAIN SELECT ctid FROM inbox WHERE received_at < clock_timestamp() - 864000.0::float8 * interval '1 second'"
        " ORDER BY received_at LIMIT 1000 FOR UPDATE SKIP LOCKED"
    )
    assert any("inbox_received_at" in line for (line,) in plan), plan


def test_the_tables_may_have_other_names_and_stand_in_another_schema(library: Library, database: Database) -> None:
    database.execute("CREATE SCHEMA billing")
    inbox = Inbox("billing.Received")
    with transaction(library, database.dsn) as client:
        client.wait(inbox.create(client.connection))
        client.wait(inbox.create(client.connection))  # again does nothing
        with client.block(inbox.receive(client.connection, consumer="c", message_id="1")) as first:
            assert first

    assert database.execute('SELECT consumer, message_id FROM billing."Received"') == [("c", "1")]


@pytest.mark.parametrize("name", ["a.b.c", 'in"box', "", "in box", "x:y", "1nbox"])
def test_what_is_no_name_of_a_table_is_said(name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a table"):
        Inbox(name)


def test_ids_of_bytes_stay_apart_whatever_is_in_them(consumers: Database) -> None:
    apart: list[tuple[Any, ...]] = [
        ("abc", b"abc", Identity("abc")),
        (b"\xff",),
        (b"\\xff", "\\xff"),
        (b"a\0b", "a\0b", Identity("a\0b")),
        ("a\ufffdb",),
        ("\udcff",),
    ]
    with consumers.connect() as connection, connection.transaction():
        for same in apart:
            answers = []
            for id_ in same + same:
                with INBOX.receive(connection, consumer="billing", message_id=id_) as first:
                    answers.append(first)
            assert answers == [True] + [False] * (2 * len(same) - 1), same
