"""What `outbox.mark_published` costs: `python -m tests.bench.marks`, on a PostgreSQL of its own, with a sink that keeps
nothing, so that nothing else takes the relay's time.

Relays without and with marks take turns, each on a database of its own. Each drains many rows at once, or relays a
writer's 200 rows a second.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import NamedTuple

import psutil
import yaml

from tests.bench.cleanup import Writer, say, streams, wal_end
from tests.servers import choose
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import wait_until
from walrelay import cli

_FILL = """
INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
SELECT 'order', 'order-' || n, 'OrderPlaced', jsonb_build_object('number', n, 'padding', repeat('x', 90))
FROM generate_series(1, %s) n
"""
_MARKS = {"where": "published_at IS NULL", "set": "published_at = now()"}
_CONFIRMED = """
SELECT 1 FROM pg_replication_slots
WHERE database = current_database() AND confirmed_flush_lsn - '0/0'::pg_lsn >= %s
"""


class Cost(NamedTuple):
    """Seconds until all was confirmed, and marked; seconds of CPU; bytes of WAL a row, and of table and indexes."""

    confirmed: float
    marked: float
    relay: float
    postgres: float
    wal: float
    size: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=100_000, help="to be drained; 0: leave that out")
    parser.add_argument("--seconds", type=float, default=8.0, help="of writing; 0: leave that out")
    options = parser.parse_args()
    programs = choose.postgres_programs(choose.this_machine())
    with (
        PostgresServer(programs, {"fsync": True, "shared_buffers": "512MB", "max_wal_size": "4GB"}) as server,
        tempfile.TemporaryDirectory() as directory,
    ):
        costs: dict[str, list[Cost]] = {}
        for number in range(options.rounds):
            for marks in (False, True) if number % 2 else (True, False):
                for kind, measure in (("drain", _drained), ("200/s", _relayed)):
                    if amount := options.rows if measure is _drained else options.seconds:
                        with _outbox(server, Path(directory), marks=marks) as (database, file):
                            name = f"{kind}, {'with marks' if marks else 'without'}"
                            costs.setdefault(name, []).append(measure(server, database, file, amount))
                            say(f"{name}: {costs[name][-1]}")
        for name, found in sorted(costs.items()):
            say(name)
            for member, values in zip(Cost._fields, zip(*found, strict=True), strict=True):
                say(f"  {member:10}{median(values):9.3f}   ({min(values):.3f} to {max(values):.3f})")


@contextmanager
def _outbox(server: PostgresServer, directory: Path, *, marks: bool) -> Iterator[tuple[Database, Path]]:
    database, file = server.create_database(), directory / "walrelay.yaml"
    source, outbox = {"dsn": database.dsn, "slot": database.name}, {"mark_published": _MARKS if marks else None}
    file.write_text(yaml.safe_dump({"source": source, "outbox": outbox, "sink": {"kind": "memory"}}))
    cli.main(["init", "--config", str(file)], standalone_mode=False)
    if marks:
        database.execute("ALTER TABLE outbox ADD published_at timestamptz")
        database.execute("CREATE INDEX ON outbox (id) WHERE published_at IS NULL")
    yield database, file
    database.drop_slots()
    database.drop()


@contextmanager
def _relay(database: Database, file: Path) -> Iterator[psutil.Process]:
    words = [sys.executable, "-m", "walrelay", "run", "--config", str(file)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as relay:
        try:
            wait_until(lambda: streams(database), 30, "the relay to stream")
            yield psutil.Process(relay.pid)
        finally:
            relay.terminate()
            relay.wait(30)


def _drained(server: PostgresServer, database: Database, file: Path, rows: int) -> Cost:
    database.execute(_FILL, [rows])
    wal, postgres, begun = wal_end(database), _seconds(server), monotonic()
    with _relay(database, file) as relay:
        confirmed, marked = _done(database, wal, begun)
        return _cost(server, database, relay, rows, wal, postgres, confirmed, marked)


def _relayed(server: PostgresServer, database: Database, file: Path, seconds: float) -> Cost:
    with _relay(database, file) as relay:
        sleep(1)
        wal, postgres, before = wal_end(database), _seconds(server), _seconds_of(relay)
        with Writer(database) as writer:
            sleep(seconds)
        confirmed, marked = _done(database, wal_end(database), monotonic())
        cost = _cost(server, database, relay, len(writer.samples), wal, postgres, confirmed, marked)
        return cost._replace(relay=cost.relay - before)


def _done(database: Database, end: int, begun: float) -> tuple[float, float]:
    wait_until(lambda: database.execute(_CONFIRMED, [end]), 60, "all to be confirmed")
    confirmed = monotonic() - begun
    if database.execute("SELECT 1 FROM pg_attribute WHERE attrelid = 'outbox'::regclass AND attname = 'published_at'"):
        unmarked = "SELECT 1 FROM outbox WHERE published_at IS NULL LIMIT 1"
        wait_until(lambda: not database.execute(unmarked), 60, "all to be marked")
    return confirmed, monotonic() - begun


def _cost(
    server: PostgresServer,
    database: Database,
    relay: psutil.Process,
    rows: int,
    wal: int,
    postgres: float,
    confirmed: float,
    marked: float,
) -> Cost:
    spent = _seconds_of(relay), _seconds(server) - postgres
    written = wal_end(database) - wal
    ((size,),) = database.execute("SELECT pg_total_relation_size('outbox')")
    return Cost(confirmed, marked, *spent, written / rows, size / rows)


def _seconds(server: PostgresServer) -> float:
    """CPU of the server's processes, also of those that have ended."""
    postmaster = psutil.Process(server.pid)
    times = postmaster.cpu_times()
    children = sum(_seconds_of(each) for each in postmaster.children(recursive=True))
    return float(times.user + times.system + times.children_user + times.children_system) + children


def _seconds_of(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
