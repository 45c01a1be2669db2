"""The Pulsar producers behind the Sink contract.

A producer keeps its order and resends for ever: nothing it was given overtakes what is before it, and all of a key is
given to one producer. So nothing waits here for the broker, but for messages whose producer is still being made.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from time import monotonic
from typing import Any, NamedTuple

from walrelay.errors import Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt, Refusal
from walrelay.sinks.hosting import Misfit, RefusalMemory
from walrelay.sinks.hosting.sink import WITH_CARE, size_of
from walrelay.sinks.pulsar.client import OK, VERDICTS, PulsarVerdict, built, let_go, made_client, producer_config, said
from walrelay.sinks.pulsar.mailbox import Mailbox
from walrelay.sinks.pulsar.messages import ToPulsar
from walrelay.sinks.pulsar.settings import PulsarSettings

_MAKING = 5.0  # seconds more that a producer may take: its own time-out says more than ours


class _PulsarTopic:
    """One that the relay publishes to. `waiting`: what its producer is given as soon as there is one."""

    __slots__ = ("in_flight", "name", "producer", "waiting")

    def __init__(self, name: str) -> None:
        self.name, self.in_flight = name, 0
        self.producer: Any = None
        self.waiting: deque[tuple[int, Any]] = deque()


class _Flight(NamedTuple):
    message: Message
    ticket: int
    topic: _PulsarTopic
    began: float


class PulsarSink:
    """Owned by one run. Durable is what the broker has acknowledged."""

    def __init__(self, settings: PulsarSettings, memory: RefusalMemory) -> None:
        self._settings, self._memory, self._to_pulsar = settings, memory, ToPulsar(settings)
        self._client, self._config = made_client(settings), producer_config(settings)
        self._mailbox = Mailbox(OK)
        self._topics: OrderedDict[str, _PulsarTopic] = OrderedDict()  # the one that was used last is the last
        self._in_flight: dict[int, _Flight] = {}  # in the order of publishing
        self._number = 0
        self._room, self._bytes = settings.max_in_flight, settings.max_in_flight_bytes
        self._settled: dict[int, int] = {}  # ticket -> messages
        self._refusals: list[Refusal] = []
        self._over = False  # a refusal was told that ends the sink
        self._failure: Retryable | None = None
        self._closed = False

    def publish(self, message: Message, ticket: int) -> bool:
        if self._room <= 0 or self._bytes <= 0 or self._refusals or self._failure or self._over:
            return False
        if self._mailbox.complained:  # it may be about a message of this key
            return False
        fit = self._to_pulsar(message)
        if isinstance(fit, Misfit):
            self._refusals.append(Refusal(ticket, message, *fit, ends=False))
            return True
        topic = self._topic(fit.topic)
        if topic is None or (self._memory.with_care and topic.in_flight):
            return False
        self._memory.with_care = max(0, self._memory.with_care - 1)
        self._number += 1
        self._in_flight[self._number] = _Flight(message, ticket, topic, monotonic())
        topic.in_flight += 1
        self._room -= 1
        self._bytes -= size_of(message)
        if topic.producer is None or topic.waiting:
            topic.waiting.append((self._number, built(fit)))
        else:
            self._send(topic, self._number, built(fit))
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        deadline = monotonic() + timeout
        self._take()
        while not self._heard and (left := deadline - monotonic()) > 0:
            self._mailbox.wait(left)
            self._take()
        self._look_for_silence()
        if self._settled:
            settled, self._settled = self._settled, {}
            return [Receipt(ticket, count) for ticket, count in settled.items()]
        if self._refusals:
            refusals, self._refusals = self._refusals, []
            self._over = self._over or any(refusal.ends for refusal in refusals)
            return refusals
        if self._failure is not None:
            raise self._failure
        return []

    def flush(self, timeout: float) -> None:
        deadline = monotonic() + timeout
        self._take()
        while self._in_flight and self._failure is None and (left := deadline - monotonic()) > 0:
            self._mailbox.wait(left)
            self._take()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._failure = self._failure or Retryable("the sink is closed")
        let_go(self._client)
        self._mailbox.take()
        self._topics.clear()

    def descriptor(self) -> int | None:
        return self._mailbox.descriptor

    def trouble(self) -> str:
        if self._failure is not None:
            return str(self._failure)
        for flight in self._in_flight.values():
            topic = flight.topic
            if topic.producer is None:
                return f"not connected to Pulsar yet: the producer of {topic.name!r} is being made"
            if not topic.producer.is_connected():
                return f"the producer of {topic.name!r} has no connection to Pulsar, or its backlog is full"
            break
        return ""

    @property
    def _heard(self) -> bool:
        return bool(self._settled or self._refusals or self._failure)

    @property
    def _ended(self) -> bool:
        """Whether nothing may be sent any more."""
        return self._over or self._failure is not None or any(refusal.ends for refusal in self._refusals)

    def _topic(self, name: str) -> _PulsarTopic | None:
        """None: there are as many as there may be, and something of each is on its way."""
        topic = self._topics.get(name)
        if topic is not None:
            self._topics.move_to_end(name)
            return topic
        if len(self._topics) >= self._settings.max_producers and not self._make_room():
            return None
        topic = self._topics[name] = _PulsarTopic(name)
        self._client.create_producer_async_v2(name, self._config, self._mailbox.made(topic))
        return topic

    def _make_room(self) -> bool:
        for topic in self._topics.values():
            if not topic.in_flight:
                self._forget(topic)
                return True
        return False

    def _forget(self, topic: _PulsarTopic) -> None:
        """Its next message gets another producer."""
        self._topics.pop(topic.name, None)
        if topic.producer is not None:
            topic.producer.close_async(_nothing)

    def _send(self, topic: _PulsarTopic, number: int, message: Any) -> None:
        topic.producer.send_async(message, self._mailbox.callback(number))

    def _take(self) -> None:
        for about, what in self._mailbox.take():
            if self._failure is not None:
                return
            if isinstance(about, _PulsarTopic):
                self._producer_made(about, what)
            elif what == OK:
                self._settle(about)
            else:
                self._failed(about, what)
        for topic in self._topics.values():
            if topic.waiting and topic.producer is not None:
                self._send_waiting(topic)

    def _send_waiting(self, topic: _PulsarTopic) -> None:
        """Up to a message that the client refuses itself, of which its callback tells within `send_async`. After a
        complaint of another topic the rest is sent once that was taken.
        """
        while topic.waiting and not self._ended and not self._mailbox.complained:
            self._send(topic, *topic.waiting.popleft())

    def _producer_made(self, topic: _PulsarTopic, made: Any) -> None:
        result = getattr(made, "error", None)
        if result is None:
            topic.producer = made
            return
        self._forget(topic)
        if not topic.waiting:
            return
        number, _ = topic.waiting.popleft()
        self._decide(number, result, f" ({made.message})" if made.message else "")

    def _settle(self, number: int) -> None:
        flight = self._landed(number)
        if flight is not None:
            self._settled[flight.ticket] = self._settled.get(flight.ticket, 0) + 1

    def _failed(self, number: int, result: Any) -> None:
        flight = self._in_flight.get(number)
        if flight is None or self._ended:
            return
        if result not in VERDICTS or VERDICTS[result].scope == "topic":
            self._forget(flight.topic)
        self._decide(number, result, "")

    def _decide(self, number: int, result: Any, more: str) -> None:
        """What becomes of a message that Pulsar has not taken."""
        flight = self._landed(number)
        if flight is None or self._ended:
            return
        verdict: PulsarVerdict | None = VERDICTS.get(result)
        name = flight.topic.name
        if verdict is None:
            self._failure = Retryable(f"Pulsar did not take a message for {name!r}: {said(result)}{more}")
            return
        self._memory.with_care = WITH_CARE
        reason, hint, error, scope = verdict
        text = f"{reason}{more}: {name!r}"
        ends = any(each.topic is flight.topic for later, each in self._in_flight.items() if later > number)
        self._refusals.append(Refusal(flight.ticket, flight.message, text, hint, error, scope, ends=ends))

    def _landed(self, number: int) -> _Flight | None:
        flight = self._in_flight.pop(number, None)
        if flight is not None:
            flight.topic.in_flight -= 1
            self._room += 1
            self._bytes += size_of(flight.message)
        return flight

    def _look_for_silence(self) -> None:
        oldest = next(iter(self._in_flight.values()), None)
        seconds = self._settings.request_timeout
        if oldest is None or self._failure is not None:
            return
        grace = _MAKING if oldest.topic.producer is None else 0
        if monotonic() - oldest.began < seconds + grace:
            return
        why = self.trouble()
        text = f"Pulsar has not answered for {seconds:g} s to a message for {oldest.topic.name!r}"
        self._failure = Retryable(f"{text}: {why}" if why else text)


def _nothing(result: Any) -> None:
    pass
