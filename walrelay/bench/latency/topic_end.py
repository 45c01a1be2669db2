"""Where a topic ends: whoever has read that far has seen all of it."""

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from walrelay.embedded.kafka import QUIET
from walrelay.errors import Fatal

_PATIENCE = 10.0  # seconds


class TopicEnd:
    """Asks the brokers; reads nothing. `options` are librdkafka's."""

    def __init__(self, bootstrap_servers: str, topic: str, options: Mapping[str, Any]) -> None:
        self._topic = topic
        settings = {"bootstrap.servers": bootstrap_servers, "group.id": "walrelay-bench"}
        self._client = Consumer({**QUIET, **settings, **options})

    def offsets(self) -> Mapping[int, int]:
        return ends(self._client, self._topic)

    def close(self) -> None:
        self._client.close()


def ends(client: Consumer, topic: str) -> Mapping[int, int]:
    """By partition, the offset that the next message will have. Waits for the topic to appear."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        found = client.list_topics(topic, timeout=_PATIENCE).topics[topic]
        if found.error is None and found.partitions:
            places = {number: TopicPartition(topic, number) for number in found.partitions}
            return {
                number: client.get_watermark_offsets(place, timeout=_PATIENCE)[1] for number, place in places.items()
            }
        time.sleep(0.02)
    raise Fatal(f"topic {topic} did not appear on the brokers")
