"""The consumer: a process that notes when each message came.

    python -m walrelay.lab.bench.latency.consumer topic journal options

It says `ready` on standard output, then appends to the journal: [segment, number, partition, offset, ns]. `options` are
librdkafka's, as a JSON object.
"""

import gc
import json
import os
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from walrelay.lab.bench import child
from walrelay.lab.servers.kafka import QUIET, topic_ends


def receive(topic: str, journal: Path, options: str) -> None:
    """For ever."""
    gc.disable()  # nothing here makes cycles, and a collection would delay a message
    consumer = Consumer(
        {
            **QUIET,
            "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
            "group.id": "walrelay-bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # a message that the broker dropped must not go unnoticed
            **json.loads(options),
        }
    )
    # Assigned rather than subscribed: no group has to be formed, and none is left on the user's brokers.
    consumer.assign([TopicPartition(topic, *place) for place in topic_ends(consumer, topic).items()])
    with journal.open("a", buffering=1) as received:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            message = consumer.poll(1.0)
            at_ns = time.monotonic_ns()
            if message is None:
                continue
            if message.error() is not None:
                raise KafkaException(message.error())
            event = json.loads(message.value() or b"")
            place = f"{message.partition()},{message.offset()}"
            received.write(f"[{event['segment']},{event['number']},{place},{at_ns}]\n")


if __name__ == "__main__":
    child.run(receive, sys.argv[1], Path(sys.argv[2]), sys.argv[3])
