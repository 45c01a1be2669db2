"""The producer of a topic, and what has no receipt of it. When a producer is of no use any more another one is made,
after a pause that grows, and gets all of that again, in order.
"""

from collections import deque
from time import monotonic
from typing import Any, NamedTuple

from walrelay.model import Message
from walrelay.sinks.hosting.circuit import backed_off
from walrelay.sinks.pulsar.client import built
from walrelay.sinks.pulsar.mailbox import Mailbox
from walrelay.sinks.pulsar.messages import ForPulsar

_MAKING = 5.0  # seconds more than its own time-out that a producer may take to be made


class Flight(NamedTuple):
    """A message that has no receipt."""

    message: Message
    ticket: int
    fit: ForPulsar


class About(NamedTuple):
    """Which message, or with 0 which producer, the client speaks of. `life`: of which producer of the topic."""

    topic: "PulsarTopic"
    life: int
    number: int


class PulsarTopic:
    """One that the relay publishes to. `in_flight`: by number, in the order of publishing."""

    __slots__ = (
        "_due",
        "_failures",
        "_life",
        "_making_until",
        "_unsent",
        "heard_at",
        "in_flight",
        "name",
        "producer",
        "why",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.in_flight: dict[int, Flight] = {}
        self.producer: Any = None
        self.why = ""
        """Why the last producer was of no use, until there is an answer again."""
        self.heard_at = monotonic()
        """When there last was an answer, or nothing to answer."""
        self._unsent: deque[int] = deque()
        self._life = self._failures = 0
        self._due = 0.0  # no producer is made before
        self._making_until = 0.0

    def take(self, number: int, flight: Flight) -> None:
        if not self.in_flight:
            self.heard_at = monotonic()
        self.in_flight[number] = flight
        self._unsent.append(number)

    def move(self, client: Any, config: Any, mailbox: Mailbox, timeout: float) -> None:
        """Sends what was not sent, up to a message that the client refuses itself: its callback says so within
        `send_async`. After a complaint of another topic the rest is sent once that was taken.
        """
        if self.producer is None:
            if self._unsent:
                self._make(client, config, mailbox, timeout)
            return
        send, unsent = self.producer.send_async, self._unsent
        while unsent and not mailbox.complained:
            number = unsent.popleft()
            send(built(self.in_flight[number].fit), mailbox.callback(About(self, self._life, number)))

    def _make(self, client: Any, config: Any, mailbox: Mailbox, timeout: float) -> None:
        now = monotonic()
        if now < max(self._due, self._making_until):
            return
        if self._making_until:
            self.lost("the client says nothing of the producer that is being made")
            return
        self._making_until = now + timeout + _MAKING
        client.create_producer_async_v2(self.name, config, mailbox.made(About(self, self._life, 0)))

    def made(self, producer: Any) -> None:
        self.producer, self._making_until, self.heard_at = producer, 0.0, monotonic()

    def is_current(self, life: int) -> bool:
        """Whether that is said of the producer that is used, or is being made, now."""
        return life == self._life

    def landed(self, number: int) -> Flight | None:
        """Its answer has come."""
        return self.in_flight.pop(number, None)

    def heard(self) -> None:
        """The broker takes messages."""
        self.why, self._failures, self.heard_at = "", 0, monotonic()

    def silent_for(self, now: float) -> float:
        """So many seconds something has been without an answer."""
        return now - self.heard_at if self.in_flight else 0.0

    @property
    def is_behind(self) -> bool:
        """Whether something waits for its producer."""
        return bool(self._unsent)

    @property
    def is_connected(self) -> bool:
        return self.producer is not None and self.producer.is_connected()

    def lost(self, why: str) -> None:
        """The producer is of no use any more, or none was made: the next one gets all that has no receipt."""
        self.let_go()
        self._failures += 1
        self._due = monotonic() + backed_off(self._failures)
        self.why = why
        self._unsent = deque(self.in_flight)

    def hurry(self) -> None:
        """The broker is there again: no pause is needed."""
        self._due = 0.0

    def let_go(self) -> None:
        """What this producer says counts for nothing from now on."""
        self._life += 1
        self._making_until = 0.0
        producer, self.producer = self.producer, None
        if producer is not None:
            producer.close_async(nothing)


def nothing(result: Any) -> None:
    """For answers that nobody waits for."""
