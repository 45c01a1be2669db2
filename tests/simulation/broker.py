"""A broker that loses what has no receipt, and whose partitions each have a speed of their own."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from random import Random
from zlib import crc32

from tests.simulation.clock import Clock
from tests.simulation.fuse import Fuse, boundary
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt, Refusal

_PARTITIONS = 2

Partition = tuple[str, int]


class FakeBroker:
    """The durable side, which outlives clients. `room` is how many messages a client may have without a receipt."""

    def __init__(self, random: Random, *, room: int = 8) -> None:
        self.random, self.room = random, room
        self.log: defaultdict[Partition, list[Message]] = defaultdict(list)
        self.held: set[str] = set()  # topics where nothing becomes durable
        self.mute: set[str] = set()  # topics where what became durable gets no receipt
        self.refused: set[bytes] = set()  # values that are refused when their turn comes, but in this topic
        self.dead_letters = "dead letters"
        self.closed: set[str] = set()  # topics for which everything is refused
        self.survives: bool | None = None  # whether a sink outlives a refusal; None: it goes on as if nothing were
        self.pace = 0.5  # how often a partition moves when it is looked at
        self.gathers = False  # whether clients send only when they are told to or have no room
        self.misses_flushes = 0  # how many flushes end before the client library's thread wakes up
        self.durable: Counter[bytes] = Counter()  # value -> how often it is there

    @property
    def messages(self) -> list[Message]:
        return [message for messages in self.log.values() for message in messages]

    def connect(self, fuse: Fuse, clock: Clock) -> "FakeSink":
        return FakeSink(self, fuse, clock)

    def store(self, partition: Partition, message: Message) -> None:
        self.log[partition].append(message)
        self.durable[message.value or b""] += 1


class FakeSink:
    """One client: implements `walrelay.publish.Sink`."""

    def __init__(self, broker: FakeBroker, fuse: Fuse, clock: Clock) -> None:
        self.fuse = fuse
        self.owed: Message | None = None  # what was offered when there was no room
        self.stored: Callable[[], None] = lambda: None  # called when a message became durable
        self._broker, self._clock = broker, clock
        self._queues: defaultdict[Partition, deque[tuple[Message, int]]] = defaultdict(deque)
        self._unheard: list[tuple[str, Receipt | Refusal]] = []  # (topic, what nobody has asked for yet)
        self._taken = 0
        self._gathering = False
        self._open: set[str] = set()  # topics with a message under way, where one at a time is taken
        self._over = False  # after a refusal that was the end

    @boundary
    def publish(self, message: Message, ticket: int) -> bool:
        if message.topic == self._broker.dead_letters:
            return self._taken < self._broker.room and self._take(message, ticket)
        assert self.owed in (None, message), "another message is offered than the one there was no room for"
        if self._taken >= self._broker.room or self._over or message.topic in self._open:
            self.owed = message
            self._gathering = False
            return False
        self.owed = None
        return self._take(message, ticket)

    def _take(self, message: Message, ticket: int) -> bool:
        self._taken += 1
        self._gathering = self._broker.gathers
        if self._broker.survives:
            self._open.add(message.topic)
        self._queues[message.topic, crc32(message.key or b"") % _PARTITIONS].append((message, ticket))
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    @boundary
    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        self._progress()
        heard = self._hear()
        if not heard:
            self._clock.wait(timeout)
        return heard

    @boundary
    def flush(self, timeout: float) -> None:
        self._gathering = self._gathering and self._broker.misses_flushes > 0
        self._broker.misses_flushes -= 1
        self._progress()
        if self._taken:
            self._clock.wait(timeout)

    @boundary
    def close(self) -> None:
        self.vanish()

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return "the broker is slow today" if self._broker.held or self._broker.mute else ""

    def sends(self) -> None:
        """What the client library's thread does while nobody asks."""
        self._progress()

    def vanish(self) -> None:
        """The client is gone: of what was on its way some made it, in order, and the rest is lost."""
        for partition, queue in self._queues.items():
            self._move(partition, self._broker.random.randint(0, len(queue)))
        self._queues.clear()
        self._unheard.clear()

    def _progress(self) -> None:
        random = self._broker.random
        for partition in self._queues:
            if random.random() < self._broker.pace and not self._gathering:
                self._move(partition, random.randint(1, 4))

    def _move(self, partition: Partition, count: int) -> None:
        topic, queue = partition[0], self._queues[partition]
        if topic in self._broker.held:
            return
        for _ in range(min(count, len(queue))):
            if self._over:
                return
            message, ticket = queue.popleft()
            if message.value in self._broker.refused and topic != self._broker.dead_letters:
                ends = not self._broker.survives
                self._over = self._broker.survives is False
                scope = "topic" if topic in self._broker.closed else "message"
                why = ("too large", "Make it smaller.", "poison", scope, ends)
                self._unheard.append((topic, Refusal(ticket, message, *why)))
                continue
            self._broker.store(partition, message)
            self.stored()
            self._unheard.append((topic, Receipt(ticket, 1)))

    def _hear(self) -> list[Receipt | Refusal]:
        """Some of what happened, in any order; receipts for one transaction are sometimes put together."""
        random = self._broker.random
        random.shuffle(self._unheard)
        audible = [found for found in self._unheard if found[0] not in self._broker.mute]
        heard = audible[: random.randint(0, len(audible))]
        for found in heard:
            self._unheard.remove(found)
            self._open.discard(found[0])
        self._taken -= len(heard)
        receipts = [each for _, each in heard]
        return _together(receipts) if random.random() < 0.5 else receipts


def _together(heard: list[Receipt | Refusal]) -> list[Receipt | Refusal]:
    counts = Counter(each.ticket for each in heard if isinstance(each, Receipt))
    refusals = [each for each in heard if isinstance(each, Refusal)]
    return [*(Receipt(ticket, count) for ticket, count in counts.items()), *refusals]
