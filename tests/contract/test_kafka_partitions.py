"""Where a key goes: to the partition that Java's clients would choose; by librdkafka's default it would not."""

from contextlib import closing

from tests.servers.topics import Kafka
from walrelay.model import Message
from walrelay.publish import SinkHandle, load
from walrelay.testing import settle

HASHES = {  # the hashes of keys that the tests of Kafka's own Java client expect
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"abc": 479470107,
}


def test_a_key_goes_where_javas_clients_would_put_it(kafka: Kafka) -> None:
    """Otherwise one aggregate's events are in two partitions once something written in Java publishes them too."""
    topic = kafka.create_topic(partitions=12)
    plugin = load("kafka")
    sink = SinkHandle(
        "kafka", plugin.settings.model_validate({"bootstrap_servers": kafka.bootstrap_servers}), plugin
    ).open()
    with closing(sink):
        for key in HASHES:
            assert sink.publish(Message(topic, key, b"{}", [], 0), 1)
        settle(sink, len(HASHES))
    found = {message.key: message.partition for message in kafka.read_all(topic)}
    assert found == {key: (number & 0x7FFFFFFF) % 12 for key, number in HASHES.items()}
