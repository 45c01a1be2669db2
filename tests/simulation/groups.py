"""A broker with transactions, and a producer for the real exactly-once sink. What is open vanishes with whoever opened
it; a commit whose answer is lost happened or did not, and it may happen later, until its id is fenced off.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NamedTuple
from zlib import crc32

from confluent_kafka import KafkaError, KafkaException

from tests.simulation.broker import _PARTITIONS, FakeBroker
from tests.simulation.clock import Clock
from tests.simulation.fuse import Fuse, boundary
from walrelay.model import Message, RelayPosition


class Group(NamedTuple):
    """What a Kafka transaction holds. `began`: how many messages the broker had when its first came."""

    began: int
    messages: tuple[Message, ...]
    position: RelayPosition | None


class TransactionalBroker(FakeBroker):
    """Keeps what was committed. `witness` is called after each commit."""

    def __init__(self, random: Random, witness: Callable[[], None], *, room: int = 8) -> None:
        super().__init__(random, room=room)
        self.witness = witness
        self.committed: list[Message] = []  # over all partitions, in the order they were committed in
        self.position: RelayPosition | None = None
        self.epochs = Counter[str]()  # of each transactional id
        self.asked = dict[str, Group]()  # what is to be committed, by id; whether it will be is not decided
        self.committing = set[str]()  # the ids that something was committed by
        self.sent = 0  # messages, committed or not
        self._newest = 0  # of them, the last that was committed
        self.deaf = 0.3  # how often an answer does not come in time
        self.takes_back = 0.0  # how often a transaction is aborted for a reason of the broker's own
        self.timeout = 60.0  # transaction.timeout.ms, in seconds

    def fence(self, identity: str) -> int:
        """No earlier producer of that id can do anything any more; what it asked for last is done, or is not."""
        self.may_commit(identity)
        self.asked.pop(identity, None)
        self.epochs[identity] += 1
        return self.epochs[identity]

    def may_commit(self, identity: str) -> None:
        """What was asked for is done at any time, or never."""
        if identity in self.asked and self.random.random() < 0.5:
            self.commit(identity)

    def commit(self, identity: str) -> None:
        group = self.asked.pop(identity)
        self.committing.add(identity)
        assert not group.messages or group.began >= self._newest, "sent before the group before it was done"
        self._newest = group.began + len(group.messages)
        for message in group.messages:
            self.committed.append(message)
            self.store((message.topic, crc32(message.key or b"") % _PARTITIONS), message)
        self.position = group.position or self.position
        self.witness()


class FakeProducer:
    """librdkafka's transactional producer, as far as the sink uses it."""

    def __init__(self, broker: TransactionalBroker, fuse: Fuse, clock: Clock, identity: str) -> None:
        self.fuse, self._identity = fuse, identity
        self._broker, self._clock = broker, clock
        self._epoch = 0
        self._queue: list[tuple[Message, Callable[..., None]]] = []
        self._sent: list[Message] = []
        self._position: RelayPosition | None = None
        self._open = self._committing = self._broken = False
        self._begun, self._first = 0.0, 0

    def __len__(self) -> int:
        return len(self._queue)

    @boundary
    def init_transactions(self, timeout: float) -> None:
        if self._unlucky(timeout):
            raise _timed_out()
        self._epoch = self._broker.fence(self._identity)
        if self._unlucky(timeout):
            raise _timed_out()

    @boundary
    def begin_transaction(self) -> None:
        if not self._epoch or self._open:
            raise KafkaException(KafkaError(KafkaError._STATE, "no new transaction"))
        self._open, self._begun = True, self._clock()
        for identity in [*self._broker.asked]:
            self._broker.may_commit(identity)

    @boundary
    def produce(
        self, topic: str, value: bytes, key: bytes, partition: int, report: Callable[..., None], *rest: object
    ) -> None:
        self._takes()
        self._queue.append((Message(topic, key, value, [], 0), report))

    @boundary
    def keep(self, position: RelayPosition) -> None:
        """The position is produced; what follows in the transaction would not be covered by it."""
        self._takes()
        self._position = position

    @boundary
    def poll(self, timeout: float) -> None:
        self._send(self._broker.random.randint(0, len(self._queue)))
        self._clock.wait(timeout)
        if self._fenced and self._broker.random.random() < 0.5:
            raise _fenced()

    @boundary
    def commit_transaction(self, timeout: float) -> None:
        assert self._open
        if self._fenced:
            raise _fenced()
        if not self._committing:
            self._send(len(self._queue))
            overdue = self._clock() - self._begun > self._broker.timeout
            if self._broken or overdue or self._broker.random.random() < self._broker.takes_back:
                raise KafkaException(KafkaError(KafkaError._INCONSISTENT, "aborted", False, False, True))
            if self._unlucky(timeout):
                raise _timed_out()  # the request was not sent yet
            self._committing = True
            self._broker.asked[self._identity] = Group(self._first, tuple(self._sent), self._position)
        if self._unlucky(timeout):
            self._broker.may_commit(self._identity)
            raise _timed_out()
        if self._identity in self._broker.asked:
            self._broker.commit(self._identity)
        self._reset()

    @boundary
    def abort_transaction(self, timeout: float) -> None:
        if self._committing or self._fenced:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._reset()

    def purge(self, **_: bool) -> None:
        if self.fuse.dead:
            return
        assert not (self._committing and self._queue)
        self._queue.clear()

    @property
    def _fenced(self) -> bool:
        return 0 < self._epoch != self._broker.epochs[self._identity]

    def _takes(self) -> None:
        assert self._open, "a message outside a transaction"
        assert not self._committing, "a message after the commit"
        if len(self._queue) >= self._broker.room:
            raise BufferError

    def _send(self, count: int) -> None:
        for message, report in self._queue[:count]:
            if message.value in self._broker.refused:
                self._broken = True
                report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), _Delivered(message))
            self._first = self._first if self._sent else self._broker.sent
            self._broker.sent += 1
            self._sent.append(message)
        del self._queue[:count]

    def _reset(self) -> None:
        self._open = self._committing = self._broken = False
        self._sent, self._position = [], None
        self._queue.clear()

    def _unlucky(self, timeout: float) -> bool:
        unlucky = self._broker.random.random() < self._broker.deaf
        if unlucky:
            self._clock.wait(timeout)
        return unlucky


class FakePositions:
    """In place of `PositionTopic`."""

    def __init__(self, broker: TransactionalBroker) -> None:
        self._broker = broker
        self.written: RelayPosition | None = None

    def make(self) -> None:
        pass

    def last(self) -> RelayPosition | None:
        return self._broker.position

    def write(self, producer: FakeProducer, position: RelayPosition) -> None:
        producer.keep(position)
        self.written = position


class _Delivered(NamedTuple):
    """A message of a delivery report."""

    message: Message

    def topic(self) -> str:
        return self.message.topic

    def key(self) -> bytes | None:
        return self.message.key

    def value(self) -> bytes | None:
        return self.message.value

    def partition(self) -> int:
        return self.message.partition


def _timed_out() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", False, True, False))


def _fenced() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._FENCED, "fenced", True, False, False))
