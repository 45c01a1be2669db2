"""The reader that does not stream: a worker that polls a table of its own, filled anew for each reading."""

import psycopg

from walrelay.errors import Fatal
from walrelay.lab.bench.throughput.backlog import SCHEMA, TABLE, TOPIC
from walrelay.lab.bench.throughput.medians import Reading
from walrelay.lab.bench.throughput.readers import Place, drained
from walrelay.postgres import connect
from walrelay.postgres.failures import first_line

POLLED = f"{SCHEMA}.polled"

# The index is what a polling worker should have: of the rows that are due, in their order.
_MAKE = f"""
DROP TABLE IF EXISTS {POLLED};
CREATE TABLE {POLLED} (
    LIKE {TABLE} INCLUDING ALL, number bigint GENERATED ALWAYS AS IDENTITY, published_at timestamptz
);
CREATE INDEX ON {POLLED} (number) WHERE published_at IS NULL;
"""
_FILL = f"""
INSERT INTO {POLLED} (aggregate_type, aggregate_id, type, payload)
SELECT aggregate_type, aggregate_id, type, payload FROM {TABLE} LIMIT %s
"""


class Polling:
    """walrelay.lab.bench.polling without its pauses. `events`: how many of the backlog's it is given."""

    def __init__(self, events: int, bootstrap: str) -> None:
        self._events, self._bootstrap = events, bootstrap

    def read(self, place: Place) -> Reading:
        self._fill(place.backlog.dsn)
        return drained(
            place, "the polling worker", ["walrelay.lab.bench.throughput.drain_polling", POLLED, TOPIC], self._bootstrap
        )

    def _fill(self, dsn: str) -> None:
        with connect.ordinary(dsn, statement_timeout=600) as connection:
            try:
                connection.execute(_MAKE.encode())
                connection.execute(_FILL.encode(), (self._events,))
                connection.execute(f"VACUUM ANALYZE {POLLED}".encode())
            except psycopg.Error as cause:
                raise Fatal(f"the polling worker's table could not be filled: {first_line(cause)}") from cause
