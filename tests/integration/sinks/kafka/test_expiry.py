"""Topics that delete a message by its own time are told from those that keep it, or go by the broker's clock."""

from collections.abc import Mapping

import pytest

from tests.integration.sinks.kafka.test_recall import settings
from tests.servers.topics import Kafka
from walrelay.publish import SinkHandle
from walrelay.sinks.kafka import plugin


@pytest.fixture
def handle(kafka: Kafka) -> SinkHandle:
    return SinkHandle("kafka", settings(kafka), plugin)


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        ({"retention.ms": "60000"}, 60),
        ({"retention.ms": "-1"}, None),
        ({"retention.ms": "1000", "message.timestamp.type": "LogAppendTime"}, None),
        ({"retention.ms": "1000", "cleanup.policy": "compact"}, None),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1000"}, 1),
    ],
)
def test_the_time_that_a_topic_keeps_a_message(
    kafka: Kafka, handle: SinkHandle, topic: str, config: Mapping[str, str], seconds: float | None
) -> None:
    name = kafka.create_topic(f"{topic}.own", config=config)
    try:
        found = handle.expiry([name, "no-such-topic"])
        assert {topic: each.seconds for topic, each in found.items()} == ({} if seconds is None else {name: seconds})
        assert handle.expiry([f"{topic}.*"]).keys() == found.keys()
        if found:
            assert "--add-config message.timestamp.type=LogAppendTime" in found[name].fix
    finally:
        kafka.delete_topics(name)
