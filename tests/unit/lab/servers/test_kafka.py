"""Questions to brokers that made a topic a moment ago, and to brokers that never answer."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from tests.servers.mock_kafka import MockKafka
from tests.servers.topics import QUIET
from walrelay.errors import Fatal
from walrelay.lab.brokers.kafka import PartitionsConsumer
from walrelay.lab.servers.kafka import RealKafka, patiently, topic_ends


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    with MockKafka() as mock:
        yield mock.bootstrap_servers


@pytest.fixture
def consumer(brokers: str) -> Iterator[Consumer]:
    made = Consumer({**QUIET, "bootstrap.servers": brokers, "group.id": "t", "allow.auto.create.topics": True})
    yield made
    made.close()


class NotLeading:
    """The consumer, whose brokers answer its first questions about a partition with an error."""

    def __init__(self, consumer: Consumer, times: int, code: int) -> None:
        self._consumer, self.left, self._code = consumer, times, code
        self.list_topics = consumer.list_topics

    def get_watermark_offsets(self, *arguments: object, **options: object) -> object:
        if self.left:
            self.left -= 1
            raise KafkaException(KafkaError(self._code))
        return self._consumer.get_watermark_offsets(*arguments, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TRANSPORT]
)
def test_a_partition_without_a_leader_is_asked_for_again(consumer: Consumer, code: int) -> None:
    client = NotLeading(consumer, 3, code)
    assert set(topic_ends(client, "fresh").values()) == {0}  # type: ignore[arg-type]
    assert client.left == 0


def test_a_question_that_is_never_answered_is_fatal_and_says_what_was_asked(consumer: Consumer) -> None:
    client = NotLeading(consumer, 10**6, KafkaError.NOT_LEADER_FOR_PARTITION)
    with pytest.raises(Fatal, match=r"the end of topic fresh \[0\] cannot be asked for: .*[Ll]eader"):
        topic_ends(client, "fresh", patience=0.1)  # type: ignore[arg-type]


def test_an_answer_is_given_as_it_comes() -> None:
    assert patiently(lambda: 7, "nothing") == 7


def test_an_address_that_is_none_is_fatal() -> None:
    with pytest.raises(Fatal, match="no connection to Kafka at host:99999999"):
        RealKafka("host:99999999").ready()


def test_the_consumer_of_the_demo_says_what_it_could_not_read() -> None:
    with pytest.raises(Fatal):
        PartitionsConsumer("127.0.0.1:1", {"no.such.option": "1"}, "orders")
