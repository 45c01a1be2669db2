"""The backlog of the throughput benchmark: an outbox full of committed rows, and slots whose WAL is still unread."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from walrelay.ddl import script
from walrelay.errors import Fatal, WalrelayError
from walrelay.lab.bench.results import LEAST_ROW_BYTES, ThroughputRequest
from walrelay.lab.servers import guest
from walrelay.lsn import LSN, ZERO
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import first_line

SCHEMA = PUBLICATION = SLOT = "walrelay_bench_backlog"
TABLE = f"{SCHEMA}.outbox"
TOPIC = "walrelay.bench.backlog"  # as the relay makes it of the aggregate type

_COPY = f"{SLOT}_copy"
_MARK = "Made by walrelay bench throughput, which also removes it."
_LONG = 4 * 3600.0  # seconds that a statement may take
_LETS_GO = 10.0  # seconds for a walsender to notice that its reader has left
_PATIENCE = 30.0  # seconds to wait for open transactions when the slot is made

# What a row is beside the payload's text, as pgoutput sends it in text: id, types, key, headers and the time.
_OVERHEAD = LEAST_ROW_BYTES - 8

# The payload cannot be compressed within a row, or a large row would be a small one on disk and in the WAL.
_FILL = f"""
CREATE PROCEDURE {SCHEMA}.fill(events bigint, per_transaction bigint, payload_bytes int, keys int)
LANGUAGE plpgsql AS $$
DECLARE
    done bigint := 0;
    size bigint;
    filler text := (SELECT left(string_agg(md5(random()::text), ''), payload_bytes)
                    FROM generate_series(0, payload_bytes / 32));
BEGIN
    WHILE done < events LOOP
        size := least(per_transaction, events - done);
        INSERT INTO {TABLE} (aggregate_type, aggregate_id, type, payload)
        SELECT 'backlog', 'order-' || 1000 + number % keys, 'OrderPlaced', jsonb_build_object('text', filler)
        FROM generate_series(done, done + size - 1) AS number;
        COMMIT;
        done := done + size;
    END LOOP;
END $$
"""

_TAKEN = f"""
SELECT FROM pg_namespace WHERE nspname = '{SCHEMA}' UNION ALL
SELECT FROM pg_publication WHERE pubname = '{PUBLICATION}' UNION ALL
SELECT FROM pg_replication_slots WHERE slot_name IN ('{SLOT}', '{_COPY}')
"""


class Backlog:
    """A backlog of `events` committed rows; `end` is a position after the last of them that every reader comes to."""

    def __init__(self, dsn: str, catalog: Catalog) -> None:
        self.dsn, self.catalog = dsn, catalog
        self.events, self.end = 0, ZERO

    def write(self, request: ThroughputRequest) -> None:
        """Takes some seconds for each hundred thousand rows."""
        per_transaction = request.rows_per_transaction or request.events
        with connect.ordinary(self.dsn, statement_timeout=_LONG) as connection:
            try:
                connection.execute("SET synchronous_commit = off")
                connection.execute(
                    f"CALL {SCHEMA}.fill(%s, %s, %s, %s)".encode(),
                    (request.events, per_transaction, request.row_bytes - _OVERHEAD, request.keys),
                )
                connection.execute("SET synchronous_commit = on")
                # Not the end of the WAL, where another session may write at any time.
                row = connection.execute("SELECT pg_logical_emit_message(true, 'end', '')::text").fetchone()
                connection.execute(f"VACUUM ANALYZE {TABLE}".encode())
            except psycopg.Error as cause:
                raise Fatal(f"the backlog could not be written: {first_line(cause)}") from cause
            except BaseException:
                connection.cancel_safe()  # or the server would write on, and the schema could not be dropped
                raise
        self.events, self.end = request.events, LSN.parse(row[0] if row else "")

    @contextmanager
    def slot(self, plugin: str = "pgoutput") -> Iterator[str]:
        """A slot for one reading; WalrelayError where the server does not have the plugin."""
        self.catalog.rows(
            "SELECT pg_copy_logical_replication_slot(%s::name, %s::name, false, %s::name)", SLOT, _COPY, plugin
        )
        try:
            yield _COPY
        finally:
            with Catalog(self.dsn) as tidying:  # what was interrupted may have left the other one in any state
                _drop(tidying, _COPY)

    def refusal(self, plugin: str) -> str:
        """Why the server has no slots for that plugin; empty if it has."""
        try:
            with self.slot(plugin):
                return ""
        except WalrelayError as error:
            return first_line(error.__cause__) if isinstance(error.__cause__, psycopg.Error) else str(error)

    def confirmed(self, slot: str) -> LSN:
        """What the slot's reader, who has ended, confirmed."""
        guest.until_let_go(self.catalog, slot, _LETS_GO)
        found = self.catalog.slot(slot)
        return (found and found.confirmed_flush_lsn) or ZERO


@contextmanager
def prepared(dsn: str, *, embedded: bool) -> Iterator[Backlog]:
    """An empty one. Everything goes afterwards; an embedded server goes as a whole."""
    with Catalog(dsn) as catalog:
        _be_the_only_one(catalog)
        _remove_leftovers(catalog)
        try:
            _make(catalog)
            yield Backlog(dsn, catalog)
        finally:
            if not embedded:
                with Catalog(dsn) as tidying:
                    connect.set_statement_timeout(tidying.connection, _PATIENCE)
                    _remove(tidying)


def _make(catalog: Catalog) -> None:
    connect.set_statement_timeout(catalog.connection, _PATIENCE)
    try:
        catalog.connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        catalog.connection.execute(f"COMMENT ON SCHEMA {SCHEMA} IS '{_MARK}'".encode())
        catalog.connection.execute(script("outbox", table=TABLE).encode())
        catalog.connection.execute(script("publication", publication=PUBLICATION, table=TABLE).encode())
        catalog.connection.execute(_FILL.encode())
        catalog.connection.execute(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')".encode())
    except psycopg.Error as cause:
        raise Fatal(
            f"the backlog could not be prepared: {first_line(cause)}",
            hint="`walrelay doctor` finds what a server lacks; without --dsn the benchmark brings one of its own.",
        ) from cause


def _be_the_only_one(catalog: Catalog) -> None:
    """A lock of this session; a benchmark that was killed has none any more."""
    if not catalog.value("SELECT pg_try_advisory_lock(hashtext(%s))", SCHEMA):
        raise Fatal("another benchmark is running on this database", hint="Wait until it has ended.")


def _remove_leftovers(catalog: Catalog) -> None:
    """Removes what a killed benchmark left; Fatal for what is not a benchmark's."""
    if catalog.value(f"SELECT obj_description(to_regnamespace('{SCHEMA}'), 'pg_namespace')") == _MARK:
        _remove(catalog)
    elif catalog.rows(_TAKEN):
        raise Fatal(
            f"the server has a slot, a schema or a publication {SCHEMA} that no benchmark made on this database",
            hint="The benchmark needs that name for itself: use another server, or drop them.",
        )


def _remove(catalog: Catalog) -> None:
    for slot in (_COPY, SLOT):
        _drop(catalog, slot)
    _tell(catalog, f"DROP PUBLICATION IF EXISTS {PUBLICATION}")
    _tell(catalog, f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def _tell(catalog: Catalog, statement: str) -> None:
    try:
        catalog.connection.execute(statement.encode())
    except psycopg.Error as cause:
        raise Fatal(f"what the benchmark made could not be removed: {first_line(cause)}", hint=statement) from cause


def _drop(catalog: Catalog, slot: str) -> None:
    guest.until_let_go(catalog, slot, _LETS_GO)
    catalog.rows(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s::name", slot
    )
