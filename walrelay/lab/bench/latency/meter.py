"""Reads what the database has paid so far. Costs are differences of two readings."""

import time
from collections.abc import Callable

from walrelay.lab.bench.latency.server_cpu import ServerCpu
from walrelay.lab.bench.latency.statements import Counter
from walrelay.lab.bench.names import SCHEMA, TABLE
from walrelay.lab.bench.results import Cost
from walrelay.postgres.catalog import Catalog

_PATIENCE = 15.0  # seconds; a session that sleeps tells its statistics after ten

_DEAD = f"SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_user_tables WHERE schemaname = '{SCHEMA}'"


class Meter:
    """One for the whole run: `dead` only grows, and TRUNCATE does not set it back."""

    def __init__(self, catalog: Catalog, statements: Counter) -> None:
        self._catalog, self._statements, self._cpu = catalog, statements, ServerCpu(catalog)

    def read(self) -> Cost:
        wal_bytes = self._catalog.value("SELECT (pg_current_wal_insert_lsn() - '0/0')::float8")
        return Cost(self._statements.so_far(), wal_bytes, self._dead_tuples(), self._cpu.seconds())

    def of_writer(self, cost: Cost) -> Cost:
        """What was measured of the writer alone, as it is reported: statements only if they were counted."""
        return cost._replace(statements=None) if self._statements.workers_only else cost

    def await_statistics(self, before: Cost) -> None:
        """Sessions tell their statistics late: wait until they tell of every row that the outbox shows as updated.

        Each of them has left a dead version behind.
        """
        updated = self._catalog.value(f"SELECT count(*) FROM {TABLE} WHERE published_at IS NOT NULL")
        _wait(lambda: self._dead_tuples() - (before.dead_tuples or 0.0) >= updated)

    def _dead_tuples(self) -> float:
        return float(self._catalog.value(_DEAD))


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
