"""The consumer of the latency measurement: prints `ready`, then one JSON object of event -> time of receipt.

python -m tests.bench.receive 127.0.0.1:9092 topic 2001
"""

import json
import sys
from time import time

from confluent_kafka import Consumer


def main(bootstrap_servers: str, topic: str, count: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,  # a broker answers as soon as it has a byte
        }
    )
    received: dict[str, float] = {}
    consumer.subscribe([topic], on_assign=lambda *_: _say("ready"))
    while len(received) < int(count):
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            received[json.loads(message.value() or b"{}")["event"]] = time()
    _say(json.dumps(received))
    consumer.close()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
