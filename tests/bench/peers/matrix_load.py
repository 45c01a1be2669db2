"""A writer that goes on whatever happens to PostgreSQL: one event a transaction, one connection after another."""

import threading
from time import sleep, time
from types import TracebackType
from typing import Self

import psycopg

from tests.bench.peers.contract import Outbox
from tests.bench.peers.workload import statement
from tests.servers.database import Database

_RECONNECT_EVERY = 0.05


class Load:
    """Commits events at a steady rate from __enter__ to __exit__, numbered from `first` on.

    A commit whose answer was lost with the connection is not among the committed: whether it took place, the table
    tells.
    """

    def __init__(self, database: Database, outbox: Outbox, first: int, rate: float) -> None:
        self.next = first
        self._committed: dict[int, float] = {}
        self._database, self._rate = database, rate
        self._prepare = f"PREPARE emit(bigint) AS {statement(Outbox('', outbox.insert), '$1', '$1')}"
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    @property
    def committed(self) -> dict[int, float]:
        """Number -> when COMMIT returned, as of now."""
        return self._committed.copy()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._halt.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._halt.is_set():
            try:
                with self._database.connect() as connection:
                    self._write(connection)
            except psycopg.OperationalError:
                self._halt.wait(_RECONNECT_EVERY)

    def _write(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        connection.execute(self._prepare.encode())
        due = time()
        while not self._halt.is_set():
            number, self.next = self.next, self.next + 1
            connection.execute(f"EXECUTE emit({number})".encode())
            self._committed[number] = time()
            due = max(due + 1 / self._rate, time() - 1)  # after a stall it does not make up for more than a second
            sleep(max(0.0, due - time()))
