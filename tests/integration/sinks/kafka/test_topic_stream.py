"""Topics read as one stream, in the order of timestamps."""

import pytest
from confluent_kafka import Producer

from tests.integration.sinks.kafka.test_recall import produce, settings
from tests.servers.topics import QUIET, Kafka
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal
from walrelay.publish import SinkHandle, TopicMessage
from walrelay.sinks.kafka import plugin

T0 = 1_700_000_000_000  # what `produce` counts from


def read(kafka: Kafka, *topics: str, since_ms: int = 0) -> list[TopicMessage]:
    with SinkHandle("kafka", settings(kafka), plugin).topic_streams("a test")(topics, since_ms) as stream:
        found = []
        while (message := stream.next(5)) is not None or not stream.over:
            found += [message] if message else []
            if message and stream.over:
                break
        return found


def test_partitions_are_merged_by_timestamp_and_each_stays_in_its_order(kafka: Kafka, topic: str) -> None:
    """Far more than is read ahead of a partition, so that partitions are paused; the first is written first."""
    for partition in range(3):
        produce(kafka, topic, *range(partition, 12_000, 3), partition=partition)
    found = read(kafka, topic)
    assert [message.timestamp_ms - T0 for message in found] == list(range(12_000))
    assert [message.offset for message in found if message.partition == 1] == list(range(4000))


def test_what_is_large_is_not_read_far_ahead_and_arrives_whole(kafka: Kafka, topic: str) -> None:
    producer = Producer({**QUIET, "bootstrap.servers": kafka.bootstrap_servers})
    for number in range(40):
        producer.produce(topic, b"%d" % (number % 10) * 500_000, partition=number % 2, timestamp=T0 + number)
    assert producer.flush(30) == 0
    found = read(kafka, topic)
    assert [message.value and message.value[:1] for message in found] == [b"%d" % (n % 10) for n in range(40)]


def test_whoever_published_it_a_message_is_seen_as_it_is(kafka: Kafka, topic: str) -> None:
    producer = Producer({**QUIET, "bootstrap.servers": kafka.bootstrap_servers})
    headers: list[tuple[str, str | bytes | None]] = [("a", b"\xff"), ("a", None), ("b", b"")]
    producer.produce(topic, None, b"k", partition=0, headers=headers, timestamp=T0)
    producer.flush(10)
    (found,) = read(kafka, topic)
    assert found == TopicMessage(topic, 0, 0, T0, False, b"k", None, (("a", b"\xff"), ("a", None), ("b", b"")))


def test_it_begins_at_a_time_and_goes_on_with_what_comes(kafka: Kafka, topic: str) -> None:
    produce(kafka, topic, 1, 2, 3)
    with SinkHandle("kafka", settings(kafka), plugin).topic_streams("a test")([topic], T0 + 2) as stream:
        assert [(message := stream.next(10)) and message.timestamp_ms - T0 for _ in range(2)] == [2, 3]
        assert wait_until(lambda: stream.next(0.1) is None and stream.over, 10, "the end")
        produce(kafka, topic, 4, partition=1)
        found = wait_until(lambda: stream.next(0.1), 10, "what came later")
        assert found is not None
        assert found.timestamp_ms == T0 + 4


def test_an_open_transaction_hides_what_is_behind_it_until_it_ends(kafka: Kafka, topic: str) -> None:
    produce(kafka, topic, 1)
    open_one = produce(kafka, topic, 2, transactional=True)
    with SinkHandle("kafka", settings(kafka), plugin).topic_streams("a test")([topic], 0) as stream:
        assert wait_until(lambda: stream.next(0.1), 10, "the first") is not None
        assert wait_until(lambda: stream.next(0.1) is None and stream.over, 10, "the end that can be seen")
        open_one.commit_transaction(10)
        assert wait_until(lambda: stream.next(0.1), 10, "the second") is not None


def test_a_topic_that_does_not_exist_is_an_error(kafka: Kafka, topic: str) -> None:
    with pytest.raises(Fatal, match="there is no topic 'no-such-topic'"):
        read(kafka, topic, "no-such-topic")
