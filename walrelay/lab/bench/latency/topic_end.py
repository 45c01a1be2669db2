"""Where a topic ends: whoever has read that far has seen all of it."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer

from walrelay.lab.servers.kafka import QUIET, explained, topic_ends


class TopicEnd:
    """Asks the brokers; reads nothing. `options` are librdkafka's."""

    def __init__(self, bootstrap_servers: str, topic: str, options: Mapping[str, Any]) -> None:
        self._topic = topic
        settings = {"bootstrap.servers": bootstrap_servers, "group.id": "walrelay-bench"}
        with explained(f"the topics cannot be read at {bootstrap_servers}"):
            self._client = Consumer({**QUIET, **settings, **options})

    def offsets(self) -> Mapping[int, int]:
        return topic_ends(self._client, self._topic)

    def close(self) -> None:
        self._client.close()
