"""How long a push waits in the client library."""

from collections.abc import Iterator
from time import monotonic

import pytest

from walrelay.model import Message
from walrelay.sinks.kafka.settings import KafkaSettings
from walrelay.sinks.kafka.sink import KafkaSink

PUSHES = 20


@pytest.fixture
def sink() -> Iterator[KafkaSink]:
    """With a message for a broker that does not answer."""
    sink = KafkaSink(KafkaSettings.model_validate({"bootstrap_servers": "127.0.0.1:9"}).client_options())
    assert sink.publish(Message("events", None, b"{}", [], 0), 0)
    yield sink
    sink.close()


def test_a_push_that_several_sinks_share_gives_each_a_millisecond_at_least(sink: KafkaSink) -> None:
    """The client makes nothing of a third of a millisecond, and sends nothing."""
    began = monotonic()
    for _ in range(PUSHES):
        sink.flush(0.001 / 3)
    assert monotonic() - began >= PUSHES / 2 * 0.001
