"""What the contract means for Kafka: refusals, fatal errors of the producer, and a broker that dies."""

import os
from contextlib import closing

import pytest

from tests.contract.cases import KafkaCase
from tests.servers.waiting import wait_until
from walrelay.errors import Retryable
from walrelay.lsn import LSN
from walrelay.model import Message, Refusal, System
from walrelay.publish import ExactlyOnceSink, Sink, SinkHandle
from walrelay.sinks.kafka.plugin import plugin
from walrelay.sinks.kafka.settings import KafkaSettings
from walrelay.sinks.kafka.sink import UnbatchedSink
from walrelay.testing import message, numbers, publish, receipts, seconds, settle

SOON = {"topic.metadata.propagation.max.ms": 500}
LIMIT = 20_000


class SmallTopic(KafkaCase):
    """A topic of one partition that takes messages of up to LIMIT bytes."""

    def __init__(self, case: KafkaCase) -> None:
        super().__init__(case.broker, partitions=1, config={"max.message.bytes": str(LIMIT)})
        self.settings = KafkaSettings.model_validate({"bootstrap_servers": self.broker.bootstrap_servers})

    def open_next(self) -> Sink:
        """The sink of a process's next run."""
        return plugin.open(self.settings, self.memory)


@pytest.fixture
def small_topic(kafka_case: KafkaCase) -> SmallTopic:
    return SmallTopic(kafka_case)


def refusal(sink: Sink, timeout: float = 10) -> Refusal:
    """The first refusal that the sink tells; receipts before it are skipped."""

    def told() -> Refusal | None:
        return next((each for each in sink.receipts(0.1) if isinstance(each, Refusal)), None)

    found = wait_until(told, timeout, "a refusal")
    assert found is not None
    return found


def offer(sink: Sink, message: Message, timeout: float = 10) -> None:
    """Publishes it as soon as there is room; receipts are asked for meanwhile, as the relay does."""

    def taken() -> bool:
        if sink.publish(message, ticket=0):
            return True
        list(sink.receipts(0.1))
        return False

    wait_until(taken, timeout, "room for the message")


def failure(sink: Sink, timeout: float = 10) -> str:
    """What the sink says when the run has to end."""

    def ends() -> str:
        try:
            list(sink.receipts(0.1))
        except Retryable as error:
            return str(error)
        return ""

    return wait_until(ends, timeout, "the sink to give up")


def test_a_message_above_the_clients_limit_is_refused_at_once(kafka_case: KafkaCase) -> None:
    with closing(kafka_case.open()) as sink:
        large = message(kafka_case, 1, size=1_100_000)
        assert sink.publish(large, ticket=3)
        assert not sink.publish(message(kafka_case, 2), ticket=3), "nothing may overtake it before it is told"
        refused = refusal(sink)
        assert (refused.ticket, refused.message, refused.error, refused.scope) == (3, large, "too_large", "message")
        assert "too large" in refused.reason
        assert "message.max.bytes" in refused.hint
        assert not refused.ends, "nothing of it was sent, so the producer is as good as before"
        assert sink.publish(message(kafka_case, 2), ticket=3)


def test_no_position_is_committed_past_a_message_that_the_client_refused(kafka_case: KafkaCase) -> None:
    """Kafka knows nothing of such a message, and would commit the transaction that it is missing in."""
    settings = KafkaSettings.model_validate({"bootstrap_servers": kafka_case.broker.bootstrap_servers})
    system = System(kafka_case.topic, 1)  # of this test alone

    def begun() -> ExactlyOnceSink:
        sink = SinkHandle("kafka", settings, plugin).open_exactly_once(system, "walrelay")
        wait_until(sink.fence, 20, "the broker to fence")
        return sink

    with closing(begun()) as sink:
        sink.last()
        assert sink.publish(message(kafka_case, 1, size=1_100_000), ticket=0)
        sink.mark(LSN(500))
        sink.flush(2)
        sink.flush(2)
        assert refusal(sink).ends
    with closing(begun()) as successor:
        assert successor.last() is None


def test_a_message_to_a_topic_that_is_not_there_is_refused(kafka_case: KafkaCase) -> None:
    with closing(kafka_case.open(**SOON)) as sink:
        lost = message(kafka_case, 1)._replace(topic="nowhere")
        assert sink.publish(lost, ticket=0)
        assert "from now on each message is sent alone" in failure(sink)


def test_two_relays_of_one_process_do_not_slow_each_other(kafka_case: KafkaCase) -> None:
    """Each remembers its own refused batches."""
    settings = KafkaSettings.model_validate({"bootstrap_servers": kafka_case.broker.bootstrap_servers, "options": SOON})
    refused, other = (SinkHandle("kafka", settings, plugin) for _ in range(2))
    with closing(refused.open()) as sink:
        assert sink.publish(message(kafka_case, 1)._replace(topic="nowhere"), ticket=0)
        assert "from now on each message is sent alone" in failure(sink)
    with closing(refused.open()) as sink:
        assert isinstance(sink, UnbatchedSink)
    with closing(other.open()) as sink:
        assert not isinstance(sink, UnbatchedSink)


def test_of_messages_that_are_counted_together_only_the_durable_ones_have_receipts(small_topic: SmallTopic) -> None:
    """The client calls for failures only; how many became durable is known when it holds the delivery no more."""
    with closing(small_topic.open_next()) as sink:
        for number in range(3):
            assert sink.publish(message(small_topic, number), ticket=7)
        sink.flush(10)  # the receipts are not asked for, so the next message is counted with these
        assert sink.publish(message(small_topic, 3, size=LIMIT * 2), ticket=7)
        assert settle(sink, 3) == {7: 3}
        assert "refused a batch of messages" in failure(sink)


def test_a_message_has_its_receipt_while_its_transaction_goes_on(kafka_case: KafkaCase) -> None:
    with closing(kafka_case.open()) as sink:
        for number in range(3):
            assert sink.publish(message(kafka_case, number), ticket=0)
            assert settle(sink, 1) == {0: 1}


def test_a_refused_batch_is_sent_again_one_by_one_to_find_the_message(small_topic: SmallTopic) -> None:
    messages = [message(small_topic, number, size=LIMIT * 2 if number == 3 else 10) for number in range(6)]
    with closing(small_topic.open_next()) as sink:
        for each in messages:
            assert sink.publish(each, ticket=0)
        assert "refused a batch of messages" in failure(sink)
    with closing(small_topic.open_next()) as sink:
        for each in messages[:4]:
            offer(sink, each)
        assert not sink.publish(messages[4], ticket=0), "nothing may overtake it before it is told"
        sink.flush(1)
        found = refusal(sink)
    assert found.message == messages[3], "with its headers, which tell the record's id and position"
    assert "max.message.bytes" in found.hint
    assert numbers(small_topic.arrived()) == [0, 1, 2], "no message overtakes a refused one in its partition"


@pytest.mark.parametrize("found_by", ["receipts", "flush"])
def test_a_fatal_error_of_the_producer_is_retryable(small_topic: SmallTopic, found_by: str) -> None:
    """A refused batch is one, because order could not be kept."""
    with closing(small_topic.open_next()) as sink:
        for number in range(50):
            assert sink.publish(message(small_topic, number, size=LIMIT // 10), ticket=0)
        if found_by == "flush":
            sink.flush(5)
        assert failure(sink)
        assert not sink.publish(message(small_topic, 50), ticket=0)
    assert small_topic.arrived() == []


def test_a_killed_broker_loses_nothing_that_has_a_receipt(kafka_case: KafkaCase) -> None:
    with closing(kafka_case.open()) as sink:
        settled = publish(sink, kafka_case, range(2000))
        kafka_case.broker.kill()
        settled += receipts(sink, 0.1)
        settled += publish(sink, kafka_case, range(2000, 3000))
        assert settled.total() < 3000
        kafka_case.broker.start()
        settle(sink, 3000, settled, timeout=40)
    assert numbers(kafka_case.arrived()) == list(range(3000))


def test_close_while_the_broker_is_down_is_quick_and_for_good(kafka_case: KafkaCase) -> None:
    with closing(kafka_case.open()) as sink:
        settle(sink, 100, publish(sink, kafka_case, range(100)))
        kafka_case.broker.stop()
        publish(sink, kafka_case, range(100, 600))
        wait_until(lambda: list(sink.receipts(0.1)) == [] and sink.trouble(), 10, "the sink to know the trouble")
        assert seconds(sink.close) < 2
    kafka_case.broker.start()
    with closing(kafka_case.open()) as successor:
        settle(successor, 1, publish(successor, kafka_case, range(1000, 1001)))
    assert numbers(kafka_case.arrived()) == [*range(100), 1000]


def test_the_first_message_does_not_wait_for_a_timer_of_librdkafkas(kafka_case: KafkaCase) -> None:
    """Left to itself the library asks for the producer's id half a second after the start, or a whole one."""

    def first() -> None:
        with closing(kafka_case.open()) as sink:
            publish(sink, kafka_case, range(1))
            wait_until(lambda: receipts(sink, 0.01), 10, "the first receipt")

    assert min(seconds(first) for _ in range(3)) < 0.3


def test_closed_sinks_leave_no_threads_behind(kafka_case: KafkaCase) -> None:
    """A relay that reconnects for a week must not grow."""

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    before = threads()
    for _ in range(5):
        sink = kafka_case.open()
        publish(sink, kafka_case, range(10))
        sink.close()
        del sink
    wait_until(lambda: threads() <= before, 10, f"{threads()} threads to become {before}")
