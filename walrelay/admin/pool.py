"""A few connections to each database, used again, and closed when nobody has wanted them for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import NamedTuple

from walrelay.errors import Disconnected, Retryable
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.connect import is_idle, set_statement_timeout
from walrelay.postgres.failures import PostgresError

_WAIT = 5.0  # seconds for a connection that others have
_IDLE = 60.0  # seconds


class _Idle(NamedTuple):
    catalog: Catalog
    since: float


class CatalogPool:
    """At most `size` connections at a time; Retryable where all are taken. `statement_timeout` in seconds."""

    def __init__(self, dsn: str, size: int, statement_timeout: float) -> None:
        self._dsn, self._timeout = dsn, statement_timeout
        self._room, self._lock = BoundedSemaphore(size), Lock()
        self._idle: list[_Idle] = []

    @contextmanager
    def catalog(self) -> Iterator[Catalog]:
        if not self._room.acquire(timeout=_WAIT):
            raise Retryable(f"all connections to the database were taken for {_WAIT:g} s (admin.connections)")
        try:
            catalog = self._taken()
            try:
                yield catalog
            finally:
                self._give_back(catalog)
        finally:
            self._room.release()

    def close_idle(self, older_than: float = _IDLE) -> None:
        """Those that nobody has wanted for so many seconds."""
        with self._lock:
            old = [each for each in self._idle if monotonic() - each.since >= older_than]
            self._idle = [each for each in self._idle if each not in old]
        for each in old:
            each.catalog.close()

    def _taken(self) -> Catalog:
        """One that still answers, with the timeout that others may have changed; a new one otherwise."""
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle is None:
                catalog = Catalog(self._dsn)
                set_statement_timeout(catalog.connection, self._timeout)
                return catalog
            try:
                set_statement_timeout(idle.catalog.connection, self._timeout)
                return idle.catalog
            except (PostgresError, Disconnected):
                idle.catalog.close()

    def _give_back(self, catalog: Catalog) -> None:
        if is_idle(catalog.connection):
            with self._lock:
                self._idle.append(_Idle(catalog, monotonic()))
        else:
            catalog.close()
