"""What exactly once means on a real broker: groups with their position or nothing, fences, aborts, and their errors."""

from contextlib import closing
from threading import Thread
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import NewPartitions

from tests.conftest import KafkaMaker
from tests.contract.cases import KafkaCase
from tests.contract.test_kafka import LIMIT, SmallTopic, failure, refusal
from tests.servers.kafka import KafkaServer
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal, Retryable
from walrelay.lsn import LSN
from walrelay.model import Message, Receipt, RelayPosition, System
from walrelay.publish import SinkHandle
from walrelay.sinks.kafka import position_topic
from walrelay.sinks.kafka.plugin import plugin
from walrelay.sinks.kafka.settings import KafkaSettings
from walrelay.sinks.kafka.transactional_producer import TURNS
from walrelay.sinks.kafka.transactions import KafkaTransactions
from walrelay.testing import message, numbers

SYSTEM = System("7301", 1)


class Relaying:
    """A slot's sinks on one broker, one after the other; what was committed is read as consumers should."""

    def __init__(self, broker: KafkaServer, **settings: object) -> None:
        self.case, self.slot = KafkaCase(broker), f"slot_{uuid4().hex[:8]}"
        self.settings = KafkaSettings.model_validate({"bootstrap_servers": broker.bootstrap_servers, **settings})
        self.handle = SinkHandle("kafka", self.settings, plugin)

    def open(self, system: System = SYSTEM) -> KafkaTransactions:
        """A sink that has fenced off the ones before it."""
        sink = self.handle.open_exactly_once(system, self.slot)
        assert isinstance(sink, KafkaTransactions)
        wait_until(sink.fence, 20, "a transactional session")
        return sink

    def publish(self, sink: KafkaTransactions, *values: int, end: int = 0) -> None:
        """One transaction of these messages, which ends at `end`; without it, it goes on."""
        for number in values:
            offer(sink, message(self.case, number), ticket=values[0])
        if end:
            sink.mark(LSN(end))

    @property
    def committed(self) -> list[int]:
        return numbers(self.case.arrived())

    def seen(self, numbers: list[int]) -> None:
        """Consumers see these soon: the broker answers when the commit is certain, not when its marks are written."""
        wait_until(lambda: self.committed == numbers, 10, f"{numbers} to be seen")

    def position(self, lsn: int) -> RelayPosition:
        return RelayPosition(SYSTEM, self.slot, LSN(lsn))


@pytest.fixture
def relaying(kafka_case: KafkaCase) -> Relaying:
    return Relaying(kafka_case.broker)


def offer(sink: KafkaTransactions, each: Message, ticket: int) -> None:
    """Takes it as soon as there is room: after a group there is none for a moment."""

    def taken() -> bool:
        if sink.publish(each, ticket):
            return True
        assert list(sink.receipts(0.001)) == []
        return False

    wait_until(taken, 5, "room", interval=0.001)


def settle(sink: KafkaTransactions) -> list[Receipt]:
    """Receipts, once there are some."""
    return wait_until(lambda: [each for each in sink.receipts(0.1) if isinstance(each, Receipt)], 10, "receipts")


def test_a_group_is_seen_whole_and_with_its_position_or_not_at_all(relaying: Relaying) -> None:
    with closing(relaying.open()) as sink:
        assert sink.last() is None
        relaying.publish(sink, 1, 2, 3)
        sink.flush(1)
        assert relaying.committed == [], "the transaction is not over"
        sink.mark(LSN(100))
        assert settle(sink) == [Receipt(1, 3)]
        relaying.seen([1, 2, 3])
    with closing(relaying.open()) as successor:
        assert successor.last() == relaying.position(100)


def test_what_was_not_committed_is_taken_back(relaying: Relaying) -> None:
    with closing(relaying.open()) as sink:
        relaying.publish(sink, 1, end=100)
        settle(sink)
        relaying.publish(sink, 2, 3)
    with closing(relaying.open()) as successor:
        assert successor.last() == relaying.position(100)
        relaying.publish(successor, 2, 3, end=200)
        settle(successor)
    relaying.seen([1, 2, 3])


def test_a_sink_that_another_one_fenced_off_publishes_nothing_more(relaying: Relaying) -> None:
    with closing(relaying.open()) as zombie:
        relaying.publish(zombie, 1, end=100)
        settle(zombie)
        relaying.publish(zombie, 2, 3, end=200)
        with closing(relaying.open()) as leader:
            assert leader.last() == relaying.position(100)
            assert "another instance publishes" in failure(zombie)
            assert not zombie.publish(message(relaying.case, 4), ticket=4)
            relaying.publish(leader, 2, 3, end=200)
            settle(leader)
    relaying.seen([1, 2, 3])


@pytest.mark.parametrize("groups", range(TURNS))
def test_each_producer_of_a_sink_is_fenced_off_before_the_position_is_read(relaying: Relaying, groups: int) -> None:
    """The zombie holds a full group of another producer after each commit; the next relay publishes at least once."""
    with closing(relaying.open()) as zombie:
        for number in range(groups):
            relaying.publish(zombie, number, end=100 + number)
            settle(zombie)
        relaying.publish(zombie, 8, 9, end=200)
        kept = relaying.handle.open_positions(SYSTEM, relaying.slot).last()
        assert kept == (relaying.position(99 + groups) if groups else None)
        assert "another instance publishes" in failure(zombie)
    relaying.seen([*range(groups)])


def test_idle_progress_is_kept_in_a_group_of_its_own(relaying: Relaying) -> None:
    with closing(relaying.open()) as sink:
        wait_until(lambda: sink.keep(relaying.position(500)) == 500, 10, "the position to be kept")
    with closing(relaying.open()) as successor:
        assert successor.last() == relaying.position(500)


def test_idle_progress_does_not_pass_what_is_under_way(relaying: Relaying) -> None:
    with closing(relaying.open()) as sink:
        relaying.publish(sink, 1, end=100)
        settle(sink)
        relaying.publish(sink, 2)
        assert sink.keep(relaying.position(500)) == 100


def test_idle_progress_before_a_transaction_that_was_cut_leaves_it_cut(relaying: Relaying) -> None:
    """Other transactions end before the cut one comes again: its first part is published all the same."""
    with closing(relaying.open()) as sink:
        relaying.publish(sink, 1, 2)
        sink.mark(LSN(100), LSN(300), 2, over=True)
        settle(sink)
    for lsn in (200, 300):  # commits stand back to back: the one before the cut one may end where that begins
        with closing(relaying.open()) as successor:
            start = successor.last()
            assert start is not None
            assert (start.commit_lsn, start.ordinal) == (300, 2)
            successor.mark(start.lsn, start.commit_lsn, start.ordinal)
            wait_until(lambda: successor.keep(relaying.position(lsn)) == lsn, 10, "the position to be kept")  # noqa: B023
    with closing(relaying.open()) as last:
        assert last.last() == relaying.position(300)._replace(commit_lsn=LSN(300), ordinal=2)
        last.mark(LSN(300), LSN(300), 2)
        relaying.publish(last, 3, end=400)
        settle(last)
        assert last.last() == relaying.position(400)


def test_after_a_promotion_positions_are_of_the_new_timeline(relaying: Relaying) -> None:
    """Those of the old one count only up to where it ended: what came later would be published again."""
    with closing(relaying.open()) as sink:
        relaying.publish(sink, 1, end=100)
        settle(sink)
    promoted = System(SYSTEM.identifier, SYSTEM.timeline + 1)
    with closing(relaying.open(promoted)) as sink:
        assert sink.last() == relaying.position(100)
        relaying.publish(sink, 2, end=90)  # the new timeline branched off before the end of the old one
        settle(sink)
        assert sink.last() == relaying.position(90)._replace(system=promoted)
    with closing(relaying.open(promoted)) as sink:
        sink.last()
        wait_until(lambda: sink.keep(relaying.position(95)) == 95, 10, "the position to be kept")
        assert sink.last() == relaying.position(95)._replace(system=promoted)


def test_a_full_group_ends_with_its_transaction(kafka_case: KafkaCase) -> None:
    relaying = Relaying(kafka_case.broker, group_messages=3)
    with closing(relaying.open()) as sink:
        relaying.publish(sink, 1, 2, end=100)
        assert sink.publish(message(relaying.case, 3), ticket=3)
        assert sink.publish(message(relaying.case, 4), ticket=3)
        sink.mark(LSN(200))
        assert not sink.publish(message(relaying.case, 5), ticket=5), "first the commit"
        assert settle(sink) == [Receipt(1, 2), Receipt(3, 2)]
        offer(sink, message(relaying.case, 5), ticket=5)


def test_a_message_that_is_too_large_for_the_client_is_refused_and_its_group_taken_back(relaying: Relaying) -> None:
    with closing(relaying.open()) as sink:
        relaying.publish(sink, 1, end=100)
        large = message(relaying.case, 2, size=1_100_000)
        assert sink.publish(large, ticket=2)
        assert refusal(sink).message == large
        assert relaying.committed == []


def test_a_partition_that_was_added_takes_its_message_in_every_turn(kafka_case: KafkaCase) -> None:
    """Each producer has its own knowledge of the topic, of which it has asked before."""
    relaying = Relaying(kafka_case.broker)
    relaying.case = SmallTopic(kafka_case)
    topic, admin = relaying.case.topic, kafka_case.broker.admin
    with closing(relaying.open()) as sink:
        for number in range(1, TURNS + 1):
            relaying.publish(sink, number, end=100 * number)
            settle(sink)
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(15)
        kafka_case.broker.wait_for_leaders(topic, 2)
        for number in range(TURNS + 1, 2 * TURNS + 1):
            offer(sink, message(relaying.case, number)._replace(partition=1), ticket=number)
            sink.mark(LSN(100 * number))
            assert settle(sink) == [Receipt(number, 1)]
        offer(sink, message(relaying.case, 9)._replace(partition=2), ticket=9)
        assert refusal(sink).error == "unknown_partition"


def test_a_refused_batch_is_published_one_by_one_to_find_the_message(kafka_case: KafkaCase) -> None:
    small = SmallTopic(kafka_case)
    relaying = Relaying(kafka_case.broker)
    relaying.case = small
    messages = [message(small, number, size=LIMIT * 2 if number == 3 else 10) for number in range(6)]

    def publish(sink: KafkaTransactions) -> None:
        for each in messages:
            sink.publish(each, ticket=0)
        sink.mark(LSN(100))

    with closing(relaying.open()) as sink:
        publish(sink)
        assert "refused a batch of messages" in failure(sink)
    with closing(relaying.open()) as sink:
        publish(sink)
        found = refusal(sink)
    assert found.message == messages[3]
    assert relaying.committed == []


def test_a_group_that_the_broker_took_back_ends_the_run(private_kafka: KafkaMaker) -> None:
    """Nothing was heard of it for transaction_timeout: the broker aborts it, and so it may be published again."""
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
    relaying = Relaying(private_kafka(properties=often), transaction_timeout=1)
    with closing(relaying.open()) as sink:
        relaying.publish(sink, 1)
        sink.flush(1)
        wait_until(lambda: relaying.case.broker.log().count("Completed rollback"), 20, "the broker to abort")
        sink.mark(LSN(100))
        assert failure(sink)
    with closing(relaying.open()) as successor:
        assert successor.last() is None
        relaying.publish(successor, 1, end=100)
        settle(successor)
    relaying.seen([1])


def test_a_broker_that_does_not_answer_is_waited_for(relaying: Relaying) -> None:
    """A commit that timed out may have happened, or not: the same call again finds out."""
    with closing(relaying.open()) as sink:
        relaying.publish(sink, 1, end=100)
        settle(sink)
        relaying.publish(sink, 2, end=200)
        relaying.case.hold()
        for _ in range(10):
            assert list(sink.receipts(0.05)) == []
        relaying.case.release()
        assert settle(sink) == [Receipt(2, 1)]
    relaying.seen([1, 2])


def test_a_position_behind_another_relays_open_transaction_is_waited_for(relaying: Relaying) -> None:
    """It is not committed yet as far as a consumer knows, and an older one would be taken for the last."""
    with closing(relaying.open()) as sink:
        relaying.publish(sink, 1, end=100)
        settle(sink)
        settings = relaying.case.broker.client_settings()
        other = Producer({**settings, "transactional.id": f"other-{relaying.slot}", "log_level": 0})
        other.init_transactions(10)
        other.begin_transaction()
        other.produce(relaying.settings.positions_topic, b"{}", b"other", 0)
        other.flush(10)
        relaying.publish(sink, 2, end=200)
        settle(sink)
    with closing(relaying.open()) as successor:
        found: list[RelayPosition | None] = []
        looking = Thread(target=lambda: found.append(successor.last()), daemon=True)
        looking.start()
        looking.join(1)
        assert found == [], "the older position was taken for the last"
        other.abort_transaction(10)
        looking.join(20)
        assert found == [relaying.position(200)]


def test_a_topic_that_would_forget_positions_is_refused(relaying: Relaying) -> None:
    name = relaying.case.broker.create_topic(config={"cleanup.policy": "delete"})
    settings = relaying.settings.model_copy(update={"positions_topic": name})
    with closing(SinkHandle("kafka", settings, plugin).open_exactly_once(SYSTEM, relaying.slot)) as sink:
        with pytest.raises(Fatal, match="policy=delete") as caught:
            sink.fence()
        assert "cleanup.policy=compact" in caught.value.hint


def test_the_last_of_many_positions_is_found(relaying: Relaying) -> None:
    """Of several relays in one topic, most of them more talkative; read from the end backwards."""
    talkative = Relaying(relaying.case.broker)
    with closing(relaying.open()) as sink, closing(talkative.open()) as other:
        relaying.publish(sink, 1, end=100)
        settle(sink)
        for lsn in range(1, 301):
            wait_until(lambda lsn=lsn: other.keep(talkative.position(lsn)) == lsn, 10, "a position")  # type: ignore[misc]
        assert sink.last() == relaying.position(100)
        assert other.last() == talkative.position(300)


def test_a_position_is_there_as_soon_as_its_records_are(relaying: Relaying) -> None:
    """`Consumer.consume` waits half a second for as many records as it was asked for, at every start of a relay."""

    def took() -> float:
        began = monotonic()
        assert sink.last() == relaying.position(0x20)
        return monotonic() - began

    with closing(relaying.open()) as sink:
        relaying.publish(sink, 1, end=0x20)
        settle(sink)
        assert min(took() for _ in range(5)) < 0.4


class BehindConsumer(Consumer):
    """Its broker's metadata are behind, for the first questions: a topic that is there is unknown to it."""

    unaware = 0

    def get_watermark_offsets(self, *args: Any, **kwargs: Any) -> Any:
        if BehindConsumer.unaware:
            BehindConsumer.unaware -= 1
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return super().get_watermark_offsets(*args, **kwargs)


@pytest.mark.parametrize("opened", ["exactly once", "a topic for positions"])
def test_a_broker_that_does_not_know_the_topic_yet_is_asked_again_for_the_position(
    relaying: Relaying, opened: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a position the relay would begin at the slot, and publish again what is behind that."""
    with closing(relaying.open()) as sink:
        relaying.publish(sink, 1, end=100)
        settle(sink)
    monkeypatch.setattr(position_topic, "Consumer", BehindConsumer)
    BehindConsumer.unaware = 3
    if opened == "exactly once":
        with closing(relaying.open()) as successor:
            assert successor.last() == relaying.position(100)
    else:
        positions = relaying.handle.open_positions(SYSTEM, relaying.slot)
        assert positions.last() == relaying.position(100)
    assert BehindConsumer.unaware == 0


def test_a_topic_for_positions_that_is_deleted_under_the_relay_is_not_one_without_a_position(
    relaying: Relaying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position_topic, "_BEHIND", 0.3)
    name = relaying.case.broker.create_topic(config={"cleanup.policy": "compact"})
    settings = relaying.settings.model_copy(update={"positions_topic": name})
    relaying.handle = SinkHandle("kafka", settings, plugin)
    with closing(relaying.open()) as sink:
        assert sink.last() is None
        relaying.case.broker.delete_topics(name)
        admin = relaying.case.broker.admin  # a broker serves a topic until it has heard of its end
        wait_until(lambda: name not in admin.list_topics(timeout=5).topics, 20, "the topic to be gone")
        with pytest.raises(Retryable, match=name):
            sink.last()


def test_a_position_that_was_held_up_does_not_land_behind_a_later_one(private_kafka: KafkaMaker) -> None:
    """An earlier run's, or a frozen relay's: the slot would seem to have been moved by somebody else."""
    relaying = Relaying(private_kafka())
    first, second = (relaying.handle.open_positions(SYSTEM, relaying.slot) for _ in range(2))
    first.last()
    wait_until(lambda: first.keep(relaying.position(100)) == 100, 10, "the position to be kept")
    relaying.case.hold()
    assert first.keep(relaying.position(200)) == 100
    relaying.case.release()
    second.last()
    wait_until(lambda: second.keep(relaying.position(300)) == 300, 20, "the position to be kept")
    with pytest.raises(Retryable, match="another instance publishes"):
        wait_until(lambda: first.keep(relaying.position(400)) > 200, 10, "the fence")
    assert second.last() == relaying.position(300)


def test_a_broker_that_is_away_holds_nobody_up_who_wants_to_stop() -> None:
    settings = KafkaSettings.model_validate({"bootstrap_servers": "127.0.0.1:1"})
    with closing(SinkHandle("kafka", settings, plugin).open_exactly_once(SYSTEM, "slot")) as sink:
        for _ in range(2):
            asked = monotonic()
            assert not sink.fence()
            assert monotonic() - asked < 15  # librdkafka itself would wait for a minute and more


def test_a_transaction_timeout_that_the_broker_does_not_allow_is_told_and_not_tried_again(
    kafka_case: KafkaCase,
) -> None:
    with pytest.raises(Fatal, match="no transaction as long as 3600 s") as caught:
        Relaying(kafka_case.broker, transaction_timeout=3600).open()
    assert "sink.transaction_timeout" in caught.value.hint
