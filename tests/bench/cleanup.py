"""What a clean-up costs the writers: `python -m tests.bench.cleanup --rows 10000000`, on a PostgreSQL of its own.

A writer commits 200 rows a second all the time, beside a real relay; the clean-up works in slices, with as much quiet
in between, so that both are measured under the same conditions. Then days of a partitioned outbox are dropped instead.
"""

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, NamedTuple

import yaml

from tests.servers import choose
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import wait_until
from walrelay import compose
from walrelay.config import Settings, load
from walrelay.operations import setup
from walrelay.operations.cleanup import CleanupRequest, Session, batches, cleaning
from walrelay.postgres.catalog import Catalog
from walrelay.table import days

DAYS = 10  # that the rows are spread over; all but the last are old enough
RATE = 200
_CHUNK = 250_000

_FILL = """
INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, created_at)
SELECT 'order', 'order-' || n, 'OrderPlaced', jsonb_build_object('number', n, 'padding', repeat('x', 90)),
       date_trunc('day', now()) - interval '1 day' * %(days)s + interval '1 day' * (n * %(days)s::float8 / %(rows)s)
FROM generate_series(%(first)s, %(last)s) n
"""
_INSERT = """
INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
VALUES ('order', 'order-1', 'OrderPlaced', '{"n": 1}')
"""


class Slices(NamedTuple):
    """The latencies of commits in seconds, in the time that was cleaned and in the quiet between."""

    cleaning: list[float]
    quiet: list[float]


class Writer:
    """A client that commits a row every five milliseconds, late or not."""

    def __init__(self, database: Database) -> None:
        self._database, self._halt = database, Event()
        self.samples: list[tuple[float, float]] = []
        self._thread = Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._halt.set()
        self._thread.join(30)

    def between(self, begin: float, end: float) -> list[float]:
        return [took for at, took in list(self.samples) if begin <= at < end]

    def _work(self) -> None:
        with self._database.connect() as connection:
            due = monotonic()
            while not self._halt.wait(max(0.0, due - monotonic())):
                connection.execute(_INSERT)
                self.samples.append((due, monotonic() - due))  # from when it was due: a stall counts for all it held up
                due += 1 / RATE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--slice", type=float, default=10.0, help="seconds of cleaning, and then of quiet")
    parser.add_argument("--paces", type=float, nargs="*", default=[0.1, 1.0])
    parser.add_argument("--target", type=float, default=batches.TARGET, help="seconds that a batch should take")
    parser.add_argument("--no-days", action="store_true")
    options = parser.parse_args()
    batches.TARGET = options.target
    programs = choose.postgres_programs(choose.this_machine())
    servers_settings: dict[str, Any] = {"fsync": True, "shared_buffers": "512MB", "max_wal_size": "4GB"}
    with PostgresServer(programs, servers_settings) as server, tempfile.TemporaryDirectory() as directory:
        for pace in options.paces:
            with _outbox(server, Path(directory), options.rows, partitioned=False) as (database, settings):
                _by_rows(database, settings, pace, options.slice)
        if options.no_days:
            return
        with _outbox(server, Path(directory), options.rows, partitioned=True) as (database, settings):
            _by_days(database, settings)


@contextmanager
def _outbox(
    server: PostgresServer, directory: Path, rows: int, *, partitioned: bool
) -> Iterator[tuple[Database, Settings]]:
    """A full outbox with a relay on it, whose rows count as published."""
    database = server.create_database()
    file = directory / f"{database.name}.yaml"
    source = {"dsn": database.dsn, "slot": database.name}
    file.write_text(yaml.safe_dump({"source": source, "sink": {"kind": "stdout"}}))
    settings = load(file)
    wiring = compose.wiring(settings)
    with Catalog(database.dsn) as catalog:
        steps = setup.plan(catalog, wiring, partitioned=partitioned)
        list(setup.apply(catalog, wiring, steps[:-1], patience=60))
        if partitioned:
            for number in range(1, DAYS + 1):
                day = days.today() - timedelta(days=number)
                database.execute(days.NewDays("public", "outbox").day(day))
        begun = monotonic()
        for first in range(1, rows + 1, _CHUNK):
            last = min(rows, first + _CHUNK - 1)
            database.execute(_FILL, {"first": first, "last": last, "rows": rows, "days": DAYS})
        database.execute("VACUUM (ANALYZE) outbox")
        ((size,),) = database.execute(
            "SELECT sum(pg_table_size(relid)) FROM pg_partition_tree('outbox')"
            if partitioned
            else "SELECT pg_table_size('outbox')"
        )
        say(f"{rows} rows, {size / rows:.0f} bytes each in the table, written in {monotonic() - begun:.0f} s")
        list(setup.apply(catalog, wiring, setup.plan(catalog, wiring, partitioned=partitioned), patience=60))
    database.execute("UPDATE walrelay.slots SET published_from = 0")  # as if the relay had published them
    with subprocess.Popen(
        [sys.executable, "-m", "walrelay", "run", "--config", file],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as relay:
        try:
            wait_until(lambda: streams(database), 30, "the relay to stream")
            database.execute("CHECKPOINT")
            yield database, settings
        finally:
            relay.terminate()
            relay.wait(30)
    database.drop()


def streams(database: Database) -> bool:
    return bool(database.execute("SELECT 1 FROM pg_replication_slots WHERE active AND database = current_database()"))


def _by_rows(database: Database, settings: Settings, pace: float, length: float) -> None:
    batches: list[tuple[float, int]] = []
    changed = Session.changed

    def timed(self: Session, statement: str, *parameters: Any) -> int:
        begun = monotonic()
        rows = changed(self, statement, *parameters)
        batches.append((monotonic() - begun, rows))
        return rows

    Session.changed = timed  # type: ignore[method-assign]
    cutoff = _age_of_the_last_day(database)
    with Writer(database) as writer:
        sleep(length)
        before = wal_end(database)
        slices, worked, quiet_wal = Slices([], []), 0.0, 0
        with cleaning(compose.wiring(settings), CleanupRequest(cutoff, pace=pace), sleep) as (steps, tally):
            begun = monotonic()
            for step in steps:
                if step.what.startswith("cleaning") and monotonic() - begun > length:
                    worked += (end := monotonic()) - begun
                    slices.cleaning.extend(writer.between(begun, end))
                    wal = wal_end(database)
                    sleep(length)
                    quiet_wal += wal_end(database) - wal
                    slices.quiet.extend(writer.between(end, monotonic()))
                    begun = monotonic()
            worked += monotonic() - begun
            slices.cleaning.extend(writer.between(begun, monotonic()))
        wal = wal_end(database) - before - quiet_wal
    Session.changed = changed  # type: ignore[method-assign]
    times = sorted(took for took, _ in batches)
    say(f"pace {pace:g}: {tally.rows} rows deleted in {worked:.0f} s ({tally.rows / worked:.0f}/s)")
    say(f"  batches: {len(times)}, median {1000 * statistics.median(times):.0f} ms, longest {1000 * times[-1]:.0f} ms")
    say(
        f"  WAL: {wal / 2**20:.0f} MiB while cleaning, of which the writer's is a little ({wal / tally.rows:.0f} B/row)"
    )
    say(f"  commits while cleaning:  {_distribution(slices.cleaning)}")
    say(f"  commits in the quiet:    {_distribution(slices.quiet)}")


def _by_days(database: Database, settings: Settings) -> None:
    cutoff = _age_of_the_last_day(database)
    with Writer(database) as writer:
        sleep(10)
        before, begun = wal_end(database), monotonic()
        with cleaning(compose.wiring(settings), CleanupRequest(cutoff, pace=1.0), sleep) as (steps, tally):
            for _ in steps:
                pass
        end = monotonic()
        wal = wal_end(database) - before
        say(f"days: {len(tally.dropped)} dropped with {tally.rows} rows in {end - begun:.1f} s")
        say(f"  WAL: {wal / 2**20:.0f} MiB")
        say(f"  commits meanwhile:       {_distribution(writer.between(begun, end))}")
        say(f"  commits before:          {_distribution(writer.between(begun - 10, begun))}")
        for note in tally.notes:
            say(f"  note: {note}")


def _age_of_the_last_day(database: Database) -> float:
    ((age,),) = database.execute("SELECT extract(epoch FROM now() - (date_trunc('day', now()) - interval '1 day'))")
    return float(age)


def wal_end(database: Database) -> int:
    ((lsn,),) = database.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    return int(lsn)


def _distribution(times: list[float]) -> str:
    ordered = sorted(times)
    if not ordered:
        return "none"
    p50, p99 = (1000 * ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.99))
    return f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, longest {1000 * ordered[-1]:.1f} ms ({len(ordered)} commits)"


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # a program for people


if __name__ == "__main__":
    main()
