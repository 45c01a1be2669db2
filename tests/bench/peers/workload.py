"""The rows that every peer gets: the backlog that it drains, and the statement for one event."""

from tests.bench.peers.contract import Outbox
from tests.bench.peers.deliveries import KEYS
from tests.servers.database import Database

ROWS_PER_TRANSACTION = 10

_TEXT_BYTES = 88  # with the number, id, key, types and timestamp: about 250 bytes a row in walrelay's own table


def statement(outbox: Outbox, first: str, last: str) -> str:
    """Inserts the events from one number to another, both SQL expressions."""
    return f"""
        WITH rows(id, key, payload) AS (
            SELECT gen_random_uuid(), 'order-' || (number % {KEYS}),
                   jsonb_build_object('number', number, 'text', repeat('x', {_TEXT_BYTES}))
            FROM generate_series({first}, {last}) AS number
        ) {outbox.insert}
    """


def write_backlog(database: Database, outbox: Outbox, rows: int) -> None:
    """Commits the events 0 to rows - 1, ten a transaction, and leaves no checkpoint to do behind."""
    fill = f"""
        DO $fill$
        BEGIN
            FOR bench_first IN 0..{rows - 1} BY {ROWS_PER_TRANSACTION} LOOP
                {statement(outbox, "bench_first", f"LEAST(bench_first + {ROWS_PER_TRANSACTION}, {rows}) - 1")};
                COMMIT;
            END LOOP;
        END $fill$
    """
    with database.connect() as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute(fill.encode())
        connection.execute("SET synchronous_commit = on")
        connection.execute("ANALYZE")
        connection.execute("CHECKPOINT")


def write_one(database: Database, outbox: Outbox, number: int) -> None:
    """Commits one event."""
    database.execute(statement(outbox, str(number), str(number)))
