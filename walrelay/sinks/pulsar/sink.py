"""The Pulsar producers behind the Sink contract.

A producer keeps its order and resends for ever: nothing it was given overtakes what is before it, and all of a key is
given to one producer. So nothing waits here for the broker, but for messages whose producer is being made. The sink
outlives its producers: what has no receipt goes to the next one, in order. A broker that is away, or takes nothing for
now, is back-pressure.
"""

from collections import OrderedDict
from collections.abc import Iterable
from time import monotonic
from typing import Any

from walrelay.errors import Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt, Refusal
from walrelay.sinks.hosting import Misfit, RefusalMemory
from walrelay.sinks.hosting.sink import WITH_CARE, size_of
from walrelay.sinks.pulsar.client import OK, VERDICTS, let_go, made_client, producer_config, said
from walrelay.sinks.pulsar.mailbox import Mailbox
from walrelay.sinks.pulsar.messages import ToPulsar
from walrelay.sinks.pulsar.producers import About, Flight, PulsarTopic
from walrelay.sinks.pulsar.reach import Reach
from walrelay.sinks.pulsar.settings import PulsarSettings

_LOOK = 1.0  # seconds between two looks for topics without an answer
_PAUSE = 0.1  # seconds after which it is looked whether a producer may be made again
_OVERDUE = 5.0  # seconds without an answer that are told as trouble


class PulsarSink:
    """Owned by one run. Durable is what the broker has acknowledged."""

    def __init__(self, settings: PulsarSettings, memory: RefusalMemory) -> None:
        self._settings, self._memory, self._to_pulsar = settings, memory, ToPulsar(settings)
        self._client, self._config = made_client(settings), producer_config(settings)
        self._mailbox = Mailbox(OK)
        self._reach = Reach(self._client, self._mailbox, settings.url)
        self._topics: OrderedDict[str, PulsarTopic] = OrderedDict()  # the one that was used last is the last
        self._behind: dict[PulsarTopic, None] = {}  # those of which something was not sent
        self._number = 0
        self._room, self._bytes = settings.max_in_flight, settings.max_in_flight_bytes
        self._settled: dict[int, int] = {}  # ticket -> messages
        self._refusals: list[Refusal] = []
        self._look_at = 0.0  # for silence
        self._over = False  # a refusal was told that ends the sink
        self._closed = False

    def publish(self, message: Message, ticket: int) -> bool:
        if self._room <= 0 or self._bytes <= 0 or self._refusals or self._over or self._closed:
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
        self._room -= 1
        self._bytes -= size_of(message)
        topic.take(self._number, Flight(message, ticket, fit))
        self._move(topic)
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        deadline = monotonic() + timeout
        self._take()
        while not self._heard and (left := deadline - monotonic()) > 0:
            self._wait(left)
        if self._settled:
            settled, self._settled = self._settled, {}
            return [Receipt(ticket, count) for ticket, count in settled.items()]
        if self._refusals:
            refusals, self._refusals = self._refusals, []
            self._over = self._over or any(refusal.ends for refusal in refusals)
            return refusals
        if self._closed:
            raise Retryable("the sink is closed")
        return []

    def flush(self, timeout: float) -> None:
        deadline = monotonic() + timeout
        self._take()
        while self._in_flight and not self._ended and (left := deadline - monotonic()) > 0:
            self._wait(left)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        let_go(self._client)
        self._mailbox.take()
        self._topics.clear()

    def descriptor(self) -> int | None:
        return self._mailbox.descriptor

    def trouble(self) -> str:
        waiting = [topic for topic in self._topics.values() if topic.in_flight]
        for topic in waiting:
            if topic.why:
                return topic.why
        if why := self._reach.trouble():
            return why
        now = monotonic()
        for topic in waiting:
            if topic.producer is None:
                return f"not connected to Pulsar yet: the producer of {topic.name!r} is being made"
            if not topic.is_connected:
                return f"the producer of {topic.name!r} has no connection to Pulsar, or its backlog is full"
            if topic.silent_for(now) > _OVERDUE:
                return f"Pulsar has not answered for more than {_OVERDUE:g} s to a message for {topic.name!r}"
        return ""

    @property
    def _heard(self) -> bool:
        return bool(self._settled or self._refusals or self._closed)

    @property
    def _in_flight(self) -> bool:
        return self._room < self._settings.max_in_flight

    @property
    def _ended(self) -> bool:
        """Whether nothing may be sent any more."""
        return self._over or self._closed or any(refusal.ends for refusal in self._refusals)

    def _topic(self, name: str) -> PulsarTopic | None:
        """None: there are as many as there may be, and something of each is on its way."""
        topic = self._topics.get(name)
        if topic is not None:
            self._topics.move_to_end(name)
            return topic
        if len(self._topics) >= self._settings.max_producers and not self._make_room():
            return None
        topic = self._topics[name] = PulsarTopic(name)
        return topic

    def _make_room(self) -> bool:
        for topic in self._topics.values():
            if not topic.in_flight:
                self._forget(topic)
                return True
        return False

    def _forget(self, topic: PulsarTopic) -> None:
        """Its next message gets another producer."""
        self._topics.pop(topic.name, None)
        self._behind.pop(topic, None)
        topic.let_go()

    def _move(self, topic: PulsarTopic) -> None:
        topic.move(self._client, self._config, self._mailbox, self._settings.request_timeout)
        if topic.is_behind:
            self._behind[topic] = None
        else:
            self._behind.pop(topic, None)

    def _lose(self, topic: PulsarTopic, why: str) -> None:
        topic.lost(why)
        self._behind[topic] = None

    def _wait(self, timeout: float) -> None:
        """For something to take, or for a producer to be made again."""
        self._mailbox.wait(min(timeout, _PAUSE) if self._behind else timeout)
        self._take()

    def _take(self) -> None:
        if self._closed:
            return
        for about, what in self._mailbox.take():
            if about is self._reach:
                if self._reach.answered(what):
                    for topic in self._behind:
                        topic.hurry()
            elif not about.topic.is_current(about.life):
                _let_go_of(what)
            elif not about.number:
                self._producer_made(about.topic, what)
            elif what == OK:
                self._settle(about)
            else:
                self._failed(about, what)
        self._look_for_silence()
        self._reach.ask()
        if not self._ended:
            for topic in [*self._behind]:
                self._move(topic)

    def _producer_made(self, topic: PulsarTopic, made: Any) -> None:
        result = getattr(made, "error", None)
        if result is None:
            topic.made(made)
            return
        number = next(iter(topic.in_flight), 0)
        self._decide(topic, number, result, f" ({made.message})" if made.message else "")

    def _settle(self, about: About) -> None:
        flight = self._landed(about.topic, about.number)
        if flight is not None:
            self._settled[flight.ticket] = self._settled.get(flight.ticket, 0) + 1
            about.topic.heard()
            self._reach.heard()

    def _failed(self, about: About, result: Any) -> None:
        if about.number in about.topic.in_flight and not self._ended:
            self._decide(about.topic, about.number, result, "")

    def _decide(self, topic: PulsarTopic, number: int, result: Any, more: str) -> None:
        """What becomes of a message that Pulsar has not taken, and of those behind it."""
        verdict = VERDICTS.get(result)
        if verdict is None:
            self._lose(topic, f"Pulsar takes nothing for {topic.name!r}: {said(result)}{more}")
            return
        flight = self._landed(topic, number)
        if verdict.scope == "topic":
            self._forget(topic)
        if flight is None or self._ended:
            return
        self._memory.with_care = WITH_CARE
        reason, hint, error, scope = verdict
        ends = any(later > number for later in topic.in_flight)
        text = f"{reason}{more}: {topic.name!r}"
        self._refusals.append(Refusal(flight.ticket, flight.message, text, hint, error, scope, ends=ends))

    def _landed(self, topic: PulsarTopic, number: int) -> Flight | None:
        flight = topic.landed(number)
        if flight is not None:
            self._room += 1
            self._bytes += size_of(flight.message)
        return flight

    def _look_for_silence(self) -> None:
        """A producer sends again for ever what the broker ends the connection for: a message that became too large,
        for instance. Another one has it refused. As long as no broker has answered since there is nothing to gain.
        """
        now, seconds = monotonic(), self._settings.request_timeout
        if now < self._look_at:
            return
        self._look_at = now + _LOOK
        for topic in self._topics.values():
            if topic.silent_for(now) <= seconds or topic.producer is None or topic.is_connected:
                continue
            if self._reach.heard_at > topic.heard_at + seconds:
                self._lose(topic, f"Pulsar has not answered for {seconds:g} s to a message for {topic.name!r}")


def _let_go_of(made: Any) -> None:
    """Of a producer that comes too late."""
    if hasattr(made, "close_async"):
        made.close_async(lambda result: None)
