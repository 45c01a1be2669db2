"""Drains a table with the polling worker of `walrelay bench latency`, without its pauses; prints one JSON object.

    python -m walrelay.lab.bench.throughput.drain_polling walrelay_bench_backlog.polled walrelay.bench.backlog

The servers are in DATABASE_URL and KAFKA_BOOTSTRAP_SERVERS. The clock runs from the first poll until one finds nothing.
"""

import os
import sys
from typing import Any

import psycopg
from confluent_kafka import Producer

from walrelay.lab.bench import child
from walrelay.lab.bench.polling import Poller
from walrelay.lab.bench.throughput.drain import Clock, tell

_PRODUCER: dict[str, Any] = {"enable.idempotence": True, "partitioner": "murmur2_random", "log_level": 0}


def main(table: str, topic: str) -> None:
    producer = Producer({**_PRODUCER, "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]})
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        poller = Poller(connection, producer, table, topic)
        clock, events = Clock(), 0
        while published := poller.poll():
            events += published
        clock.stop()
    tell(events, clock)


if __name__ == "__main__":
    child.run(main, *sys.argv[1:])
