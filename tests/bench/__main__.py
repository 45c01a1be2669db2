"""`make bench`: throughput beside pg_recvlogical, and latency with a real broker."""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import confluent_kafka
import psycopg

from tests.bench import latency, throughput
from tests.servers import choose
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench ARGS=...")
    parser.add_argument("--rows", type=int, default=500_000, help="of the backlog")
    parser.add_argument("--rounds", type=int, default=3, help="of draining, each reader once")
    parser.add_argument("--events", type=int, default=2_000, help="of the latency measurement, at 200 a second")
    parser.add_argument("--text", action="store_true", help="pgoutput in text mode, for both readers")
    parser.add_argument("--only", choices=["throughput", "latency"])
    arguments = parser.parse_args()
    machine = choose.this_machine()
    with PostgresServer(choose.postgres_programs(machine)) as server, _directory() as directory:
        _say(_where(server))
        if arguments.only != "latency":
            for per_transaction in (10, 1):
                workload = throughput.Workload(arguments.rows, per_transaction, arguments.rounds)
                _throughput(server, workload, directory, binary=not arguments.text)
        if arguments.only != "throughput":
            _latency(server, machine, directory, arguments.events)


def _throughput(server: PostgresServer, workload: throughput.Workload, directory: Path, *, binary: bool) -> None:
    per = "1 row a transaction" if workload.rows_per_transaction == 1 else "10 rows a transaction"
    reading = throughput.measure(server, workload, directory, binary=binary)
    _say(
        f"drain {workload.rows:,} rows, {per}, into the mock cluster (medians of {workload.rounds}):\n"
        f"  pg_recvlogical -f /dev/null  {reading.limit:>9,.0f} rows/s\n"
        f"  walrelay                     {reading.relay:>9,.0f} rows/s   ratio {reading.ratio:.2f},"
        f" {reading.cpu_per_million:.1f} CPU s per million, peak RSS {reading.peak_rss_bytes / 2**20:.0f} MB"
    )


def _latency(server: PostgresServer, machine: choose.Machine, directory: Path, events: int) -> None:
    database = server.create_database()
    try:
        with KafkaServer(choose.kafka_jars(machine)) as kafka:
            topic = kafka.create_topic("outbox.event.order", partitions=3)
            file = directory / "latency.yaml"
            sink = {"kind": "kafka", "bootstrap_servers": kafka.bootstrap_servers}
            file.write_text(json.dumps({"source": {"dsn": database.dsn}, "sink": sink}))
            throughput.initialise(file)
            found = latency.measure(database, kafka, topic, file, rate=200, events=events)
    finally:
        database.drop()
    _say(
        f"commit to consumer, real Kafka, 200 commits/s, {found.events:,} events:"
        f" p50 {found.p50:.2f} ms, p99 {found.p99:.2f} ms, max {found.max:.2f} ms"
    )


def _where(server: PostgresServer) -> str:
    version = server.execute("SHOW server_version")[0][0]
    librdkafka = confluent_kafka.libversion()[0]
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, Python {platform.python_version()},"
        f" PostgreSQL {version}, psycopg {psycopg.__version__}, librdkafka {librdkafka}"
    )


@contextmanager
def _directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="walrelay-bench-") as name:
        yield Path(name)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
