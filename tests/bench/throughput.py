"""Draining a backlog: the relay into librdkafka's mock cluster, beside `pg_recvlogical -f /dev/null`, in one run.

Every reading has a slot of its own, made before the backlog was written, so all read the same WAL; readings of the
two alternate, so that a noisy neighbour meets both.
"""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import monotonic
from typing import NamedTuple

from tests.servers.database import Database
from tests.servers.mock_kafka import MockKafka
from tests.servers.postgres import PostgresServer
from walrelay import compose
from walrelay.config import load
from walrelay.source import setup
from walrelay.source.catalog import Catalog

_PAYLOAD_BYTES = 100  # with id, types and timestamp a row of about 235 bytes


class Workload(NamedTuple):
    rows: int = 500_000
    rows_per_transaction: int = 10
    rounds: int = 3


class Reading(NamedTuple):
    """Medians over the rounds: rows a second; for the relay its CPU seconds and peak resident bytes too."""

    limit: float
    relay: float
    cpu_per_million: float
    peak_rss_bytes: int

    @property
    def ratio(self) -> float:
        return self.relay / self.limit


def measure(server: PostgresServer, workload: Workload, directory: Path, *, binary: bool = True) -> Reading:
    """Writes the backlog, then drains it `rounds` times with each reader."""
    database = server.create_database()
    try:
        with MockKafka() as kafka:
            files = [_settings(directory, database, kafka, number, binary) for number in range(workload.rounds)]
            for file in files:
                initialise(file)
            limits = [f"limit_{number}" for number in range(workload.rounds)]
            for slot in limits:
                database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
            end = _write(database, workload)
            drained = [
                (_pg_recvlogical(server, database, slot, end, binary), _relay(file, end))
                for slot, file in zip(limits, files, strict=True)
            ]
    finally:
        database.drop()
    return Reading(
        limit=median(workload.rows / seconds for seconds, _ in drained),
        relay=median(workload.rows / relay["seconds"] for _, relay in drained),
        cpu_per_million=median(relay["cpu"] * 1e6 / workload.rows for _, relay in drained),
        peak_rss_bytes=max(int(relay["peak_rss_bytes"]) for _, relay in drained),
    )


def _settings(directory: Path, database: Database, kafka: MockKafka, number: int, binary: bool) -> Path:
    file = directory / f"relay_{number}.yaml"
    settings = {
        "source": {"dsn": database.dsn, "slot": f"relay_{number}", "binary": binary},
        "sink": {"kind": "kafka", "bootstrap_servers": kafka.bootstrap_servers, "create_topics": True},
    }
    file.write_text(json.dumps(settings))
    return file


def initialise(file: Path) -> None:
    """What `walrelay init` does for the settings in `file`."""
    settings = load(file)
    with Catalog(compose.dsn(settings)) as catalog:
        wanted = compose.wanted(settings)
        for _ in setup.apply(catalog, wanted, setup.plan(catalog, wanted), patience=30):
            pass


def _write(database: Database, workload: Workload) -> str:
    """Commits the rows; returns where the WAL ends after them."""
    transactions = workload.rows // workload.rows_per_transaction
    with database.connect() as connection:
        connection.execute(
            f"""
            CREATE PROCEDURE fill(transactions int, size int) LANGUAGE plpgsql AS $$
            BEGIN
                FOR number IN 1..transactions LOOP
                    INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
                    SELECT 'order', 'order-' || (number % 1000), 'OrderPlaced',
                           jsonb_build_object('text', repeat('x', {_PAYLOAD_BYTES - 12}))
                    FROM generate_series(1, size);
                    COMMIT;
                END LOOP;
            END $$
            """.encode()
        )
        connection.execute("SET synchronous_commit = off")
        connection.execute("CALL fill(%s, %s)", [transactions, workload.rows_per_transaction])
        connection.execute("SET synchronous_commit = on")
        connection.execute("SELECT pg_logical_emit_message(true, 'end', '')")  # an end to come to, and all flushed
    ((end,),) = database.execute("SELECT pg_current_wal_flush_lsn()::text")
    return str(end)


def _pg_recvlogical(server: PostgresServer, database: Database, slot: str, end: str, binary: bool) -> float:
    options = ["proto_version=1", 'publication_names="walrelay"', "messages=true", *(["binary=true"] if binary else [])]
    command = [str(server.bin("pg_recvlogical")), "--dbname", database.dsn, "--slot", slot, "--start", "--no-loop"]
    command += ["--file", "/dev/null", "--endpos", end, *(part for option in options for part in ("-o", option))]
    began = monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return monotonic() - began


def _relay(file: Path, end: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.drain", str(file), end]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    result: dict[str, float] = json.loads(done.stdout)
    return result
