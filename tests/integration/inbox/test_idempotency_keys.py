"""Idempotency keys on real PostgreSQL, with each library."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.integration.inbox.conftest import WaitForLock
from tests.integration.libraries import LIBRARIES, Client, Library, autocommit, transaction
from tests.servers.database import Database, Postgres
from walrelay.inbox import IdempotencyConflict, IdempotencyKeys, OutsideTransaction, Response, Unanswered
from walrelay.inbox.keys import fingerprint

KEYS = IdempotencyKeys()
ORDER = {"sku": "apple", "count": 2}


def order(
    client: Client, key: str = "k1", request: object = ORDER, scope: str = "", keys: IdempotencyKeys = KEYS
) -> Response:
    """A command: places an order, and answers with how many there are."""
    with client.block(keys.claim(client.connection, key=key, request=request, scope=scope)) as command:
        if command.response is not None:
            found: Response = command.response
            return found
        client.execute("INSERT INTO handled VALUES ('order')")
        ((count,),) = client.execute("SELECT count(*) FROM handled")
        headers = [("content-type", "text/plain"), ("x-twice", "a"), ("x-twice", "b\u20ac")]
        given: Response = command.respond(201, headers, f"order {count} \x00".encode() + b"\xff")
        return given


def orders(database: Database) -> int:
    ((count,),) = database.execute("SELECT count(*) FROM handled")
    return int(count)


def test_the_same_key_and_request_get_the_stored_response(library: Library, consumers: Database) -> None:
    answers = []
    for _ in range(3):
        with transaction(library, consumers.dsn) as client:
            answers.append(order(client))
    with transaction(library, consumers.dsn) as client:
        answers.append(order(client, request=dict(reversed(ORDER.items()))))

    assert answers == [answers[0]] * 4
    assert answers[0].headers == (("content-type", "text/plain"), ("x-twice", "a"), ("x-twice", "b\u20ac"))
    assert answers[0].body == b"order 1 \x00\xff"
    assert orders(consumers) == 1


def test_the_same_key_and_another_request_are_a_conflict(library: Library, consumers: Database) -> None:
    with transaction(library, consumers.dsn) as client:
        order(client)
    with transaction(library, consumers.dsn) as client:
        with pytest.raises(IdempotencyConflict, match="'k1' was used for another request"):
            order(client, request={"sku": "apple", "count": 3})
        order(client, key="k2", request={"sku": "apple", "count": 3})

    assert orders(consumers) == 2


def test_keys_of_two_clients_never_meet(library: Library, consumers: Database) -> None:
    with transaction(library, consumers.dsn) as client:
        first = order(client, scope="alice")
        second = order(client, request={"other": 1}, scope="bob")
        assert order(client, scope="alice") == first
    assert first != second
    assert orders(consumers) == 2


def test_a_rollback_leaves_nothing_and_the_next_one_carries_it_out(library: Library, consumers: Database) -> None:
    client = library.open(consumers.dsn, False)
    client.begin()
    order(client)
    client.roll_back()
    client.close()
    assert consumers.execute("SELECT 1 FROM idempotency_keys") == []

    with transaction(library, consumers.dsn) as client:
        order(client)
    assert orders(consumers) == 1


def test_a_command_that_fails_keeps_no_key_even_if_the_transaction_is_committed(
    library: Library, consumers: Database
) -> None:
    with transaction(library, consumers.dsn) as client:
        try:
            with client.block(KEYS.claim(client.connection, key="k1", request=ORDER)):
                client.execute("INSERT INTO handled VALUES ('half')")
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass

    assert orders(consumers) == 0
    with transaction(library, consumers.dsn) as client:
        order(client)


def test_a_claimed_key_without_a_response_is_an_error_and_is_not_kept(library: Library, consumers: Database) -> None:
    def forgotten(client: Client) -> None:
        with client.block(KEYS.claim(client.connection, key="k1", request=ORDER)):
            client.execute("INSERT INTO handled VALUES ('half')")

    with transaction(library, consumers.dsn) as client, pytest.raises(Unanswered, match="'k1' was claimed"):
        forgotten(client)

    assert orders(consumers) == 0
    assert consumers.execute("SELECT 1 FROM idempotency_keys") == []


def test_the_same_key_at_the_same_time_waits_and_gets_the_response(
    library: Library, consumers: Database, threads: ThreadPoolExecutor, waits_for_a_lock: WaitForLock
) -> None:
    def again() -> Response:
        with transaction(library, consumers.dsn) as client:
            return order(client)

    with transaction(library, consumers.dsn) as client:
        first = order(client)
        others = [threads.submit(again) for _ in range(3)]
        waits_for_a_lock(others[0])

    assert [other.result(10) for other in others] == [first] * 3
    assert orders(consumers) == 1


def test_the_same_key_at_the_same_time_is_carried_out_if_the_first_is_rolled_back(
    library: Library, consumers: Database, threads: ThreadPoolExecutor, waits_for_a_lock: WaitForLock
) -> None:
    def again() -> Response:
        with transaction(library, consumers.dsn) as client:
            return order(client)

    client = library.open(consumers.dsn, False)
    client.begin()
    order(client)
    second = threads.submit(again)
    waits_for_a_lock(second)
    client.roll_back()
    client.close()

    assert second.result(10).status == 201
    assert orders(consumers) == 1


def test_an_expired_key_is_as_good_as_new(library: Library, consumers: Database) -> None:
    with transaction(library, consumers.dsn) as client:
        order(client)
    consumers.execute("UPDATE idempotency_keys SET claimed_at = claimed_at - interval '25 hours'")
    with transaction(library, consumers.dsn) as client:
        longer = IdempotencyKeys(expires=timedelta(days=2))
        assert order(client, keys=longer).body == b"order 1 \x00\xff"
        assert order(client, request={"count": 9}).body == b"order 2 \x00\xff"
        assert order(client, request={"count": 9}).body == b"order 2 \x00\xff"
    assert orders(consumers) == 2


def test_expired_keys_are_forgotten(library: Library, consumers: Database) -> None:
    with transaction(library, consumers.dsn) as client:
        for key in ("k1", "k2", "k3"):
            order(client, key=key)
    consumers.execute("UPDATE idempotency_keys SET claimed_at = claimed_at - interval '25 hours' WHERE key <> 'k3'")

    with autocommit(library, consumers.dsn) as client:
        assert client.wait(KEYS.forget(client.connection)) == 2
        assert client.wait(KEYS.forget(client.connection, older_than=timedelta())) == 1


def test_outside_of_a_transaction_nothing_is_claimed(library: Library, consumers: Database) -> None:
    with autocommit(library, consumers.dsn) as client, pytest.raises(OutsideTransaction, match="IdempotencyKeys"):
        order(client)
    assert consumers.execute("SELECT 1 FROM idempotency_keys") == []


def test_a_stored_response_cannot_be_replaced(consumers: Database) -> None:
    with consumers.connect(autocommit=False) as connection:
        with KEYS.claim(connection, key="k1", request=ORDER) as command:
            command.respond(201)
        with KEYS.claim(connection, key="k1", request=ORDER) as command, pytest.raises(RuntimeError, match="answered"):
            command.respond(202)


@pytest.mark.parametrize(
    ("one", "other"),
    [(b"1", "1"), ("1", 1), ({"a": 1}, {"a": "1"}), ([1, 2], [2, 1]), ("", b""), (None, "null")],
)
def test_different_requests_have_different_fingerprints(one: object, other: object) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_what_has_no_fingerprint_is_an_error() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        fingerprint(object())


@pytest.mark.parametrize("library", [each for each in LIBRARIES if not each.name.endswith("-psycopg")], ids=str)
def test_a_repetition_is_told_in_a_database_without_an_encoding(library: Library, postgres: Postgres) -> None:
    """psycopg gives text of SQL_ASCII as bytes; SQLAlchemy over it cannot even connect."""
    name = f"test_ascii_{uuid4().hex[:8]}"
    postgres.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    database = Database(postgres, name)
    try:
        with database.connect() as connection:
            KEYS.create(connection)
        for first in (True, False):
            with (
                transaction(library, database.dsn) as client,
                client.block(KEYS.claim(client.connection, key="k", request={"a": 1})) as command,
            ):
                assert (command.response is None) == first
                if first:
                    command.respond(201, {"x": "y"}, "done")
                else:
                    assert command.response == (201, (("x", "y"),), b"done")
    finally:
        database.drop()
