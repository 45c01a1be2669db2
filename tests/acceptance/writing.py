"""Writers under load, whose commit order is known: the database itself numbers the events of a key as they commit.

Taking the next number locks the key's row until the transaction ends, so the transactions of a key follow each other
and their numbers are 1, 2, 3 ... in commit order, without a gap; what is rolled back gives its numbers back.
"""

import random
import threading
import uuid
from typing import Any, Self

import psycopg

from tests.servers.database import Database
from tests.servers.waiting import wait_until

Connection = psycopg.Connection[tuple[Any, ...]]

_EMIT = """
    WITH next AS (UPDATE event_numbers SET number = number + 1 WHERE key = %(key)s RETURNING number)
    INSERT INTO outbox (id, aggregate_type, aggregate_id, type, payload)
    SELECT %(id)s, 'thing', %(key)s, 'Happened', jsonb_build_object('number', number, 'padding', %(padding)s::text)
    FROM next
"""


class _Undone(Exception):
    """Rolls back the block that it is raised in."""


class Writers:
    """Threads that commit, roll back and partly roll back transactions of one to a dozen events until `stop`.

    A server that goes away is waited for: whether its last commits took place, the table tells.
    """

    def __init__(self, database: Database, *, seed: int, threads: int = 3, keys: int = 7, pause: float = 0.01) -> None:
        self._database, self._keys, self._pause = database, [f"key-{number}" for number in range(keys)], pause
        self._halt = threading.Event()
        self._failures: list[Exception] = []
        self.acknowledged: set[str] = set()
        self.undone: set[str] = set()
        database.execute("CREATE TABLE IF NOT EXISTS event_numbers (key text PRIMARY KEY, number int NOT NULL)")
        database.execute("INSERT INTO event_numbers SELECT unnest(%s::text[]), 0 ON CONFLICT DO NOTHING", [self._keys])
        self._threads = [
            threading.Thread(
                target=self._write, args=(random.Random(seed * 1000 + n),), name=f"writer {n}", daemon=True
            )
            for n in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Returns when the last transaction is over; what a writer died of is raised."""
        self._halt.set()
        for thread in self._threads:
            thread.join(30)
        if self._failures:
            raise self._failures[0]

    def wait_for_more(self, events: int, timeout: float = 30) -> None:
        """Returns when so many more events were committed."""
        enough = len(self.acknowledged) + events
        wait_until(lambda: len(self.acknowledged) >= enough, timeout, f"{events} more events to be committed")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write(self, rng: random.Random) -> None:
        try:
            while not self._halt.is_set():
                try:
                    with self._database.connect() as connection:
                        while not self._halt.wait(self._pause):
                            self._transaction(connection, rng)
                except psycopg.OperationalError:
                    self._halt.wait(0.05)  # stopped, restarting or recovering
        except Exception as error:
            self._failures.append(error)

    def _transaction(self, connection: Connection, rng: random.Random) -> None:
        keys = sorted(rng.sample(self._keys, rng.randint(1, 3)))  # in this order, or they would deadlock
        committed: list[str] = []
        fate = rng.random()
        try:
            with connection.transaction():
                for key in keys:
                    committed += self._events(connection, rng, key)
                    if rng.random() < 0.25:
                        self._undo(connection, rng, key)
                if fate < 0.15:
                    raise _Undone
        except _Undone:
            self.undone.update(committed)
            return
        if not connection.broken:  # psycopg says nothing when it was lost in a rollback and no commit was sent
            self.acknowledged.update(committed)

    def _undo(self, connection: Connection, rng: random.Random, key: str) -> None:
        try:
            with connection.transaction():
                self.undone.update(self._events(connection, rng, key))
                raise _Undone
        except _Undone:
            pass

    def _events(self, connection: Connection, rng: random.Random, key: str) -> list[str]:
        ids = [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(rng.randint(1, 4))]
        for event in ids:
            connection.execute(_EMIT, {"key": key, "id": event, "padding": "x" * rng.randint(0, 400)})
        return ids
