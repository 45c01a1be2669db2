"""Commit to consumer: a writer at a steady rate, the installed relay, a real broker, a consumer of its own process.

Latency is from COMMIT's return in the writer to receipt in the consumer, both on this machine's clock. A commit is due
at a time fixed beforehand; one that is late is measured from when it was due, so that a stall cannot hide itself.
"""

import json
import subprocess
import sys
from pathlib import Path
from statistics import quantiles
from time import sleep, time
from typing import NamedTuple

from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until


class Latency(NamedTuple):
    """Milliseconds."""

    p50: float
    p99: float
    max: float
    events: int


def measure(database: Database, kafka: Kafka, topic: str, file: Path, *, rate: float, events: int) -> Latency:
    """`events` commits at `rate` a second through the relay that `file` configures; the first tenth warms up."""
    relay = subprocess.Popen([sys.executable, "-m", "walrelay", "run", "-c", str(file)], stderr=subprocess.PIPE)
    consumer = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.receive", kafka.bootstrap_servers, topic, str(events + 1)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert consumer.stdout is not None
        wait_until(lambda: _active(database), 30, "the relay to stream")
        assert consumer.stdout.readline() == "ready\n"
        due = _write(database, events, rate)
        received = json.loads(consumer.communicate(timeout=60)[0])
    finally:
        for process in (relay, consumer):
            process.terminate()
            process.wait(30)
    millis = sorted(max(0.0, received[event] - at) * 1000 for event, at in list(due.items())[events // 10 :])
    cuts = quantiles(millis, n=100)
    return Latency(cuts[49], cuts[98], millis[-1], len(millis))


def _active(database: Database) -> bool:
    return database.execute("SELECT active FROM pg_replication_slots WHERE database = current_database()") == [(True,)]


def _write(database: Database, events: int, rate: float) -> dict[str, float]:
    """Event id -> when its commit returned, or was due if that was earlier than it began."""
    committed: dict[str, float] = {}
    with database.connect(autocommit=False) as connection:
        _emit(connection, "warm")  # the topic's leader and the producer's id are found once
        begin = time() + 0.5
        for number in range(events):
            due = begin + number / rate
            sleep(max(0.0, due - time()))
            began = time()
            _emit(connection, str(number))
            committed[str(number)] = time() - max(0.0, began - due - 0.001)
    return committed


def _emit(connection: object, event: str) -> None:
    connection.execute(  # type: ignore[attr-defined]
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload) VALUES ('order', %s, 'OrderPlaced', %s)",
        (f"order-{hash(event) % 1000}", json.dumps({"event": event, "text": "x" * 80})),
    )
    connection.commit()  # type: ignore[attr-defined]
