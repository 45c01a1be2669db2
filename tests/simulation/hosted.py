"""A broker for asyncio as cruel as a network: connections of a hosted sink that lose, store without an answer, answer
late, or say "not now"; and what a relay does with the sink.
"""

from collections.abc import Callable, Hashable
from functools import partial
from random import Random
from typing import Any

import pytest

from walrelay.errors import Retryable, WalrelayError
from walrelay.model import Message, Receipt
from walrelay.sinks.hosting import HostedSink, InDoubt, Misfit, PumpedLoop, RefusalMemory, Sending, Window, lane_of_key
from walrelay.sinks.hosting import link as link_module
from walrelay.sinks.hosting import sink as sink_module

MESSAGES = 30
WINDOW = 8
BREAKS = "lost", "answers_lost", "late", "silent", "refuses_to_connect", "client_raises", "relay_dies", "in_doubt"
"""What happens to a connection: the broker gets nothing of what is on its way; it stores that, and its answers get
lost; it was the leader of a cluster, and answers when the next connection leads to another one, which has nothing of
it; it says nothing; the next attempts fail; a callback raises; the relay ends, and a new sink goes on; the broker
refuses one of what is on its way, and does not say which, so that one at a time is sent."""


class CruelConnection:
    """One connection. What it was sent is on its way until the broker serves it."""

    def __init__(self, broker: "CruelBroker", loop: PumpedLoop, fail: Callable[[WalrelayError], None]) -> None:
        self._broker, self._loop, self.fail = broker, loop, fail
        self.wire: list[Sending] = []
        self._silent = False

    def raise_in_callback(self) -> None:
        def broken() -> None:
            raise ValueError("the client is broken")

        self._loop.call_soon(broken)

    async def open(self) -> None:
        if self._broker.refuses > 0:
            self._broker.refuses -= 1
            raise Retryable("connection refused")

    def send(self, sending: Sending) -> None:
        assert self is self._broker.connections[-1], "sent on a connection that was given up"
        assert not (self._broker.doubtful and self.wire), "sent beside another while it is not known which is refused"
        if not self._silent:
            self.wire.append(sending)

    def fall_silent(self) -> None:
        self._silent = True

    def push(self) -> None:
        pass

    def misfit(self, message: Message) -> Misfit | None:
        return None

    def trouble(self) -> str:
        return ""

    def close(self) -> None:
        """The broker may still have what is on its way."""


class CruelBroker:
    """Stores what it serves, one sending of any lane at a time."""

    def __init__(self, random: Random, *, ordered: bool) -> None:
        self.random, self._ordered = random, ordered
        self.connections: list[CruelConnection] = []
        self.refuses = 0  # attempts to connect
        self.full = 0  # messages for which there is no room
        self.doubtful = 0  # messages that have to be sent alone
        self.stored: list[int] = []
        self.answers: list[Callable[[], None]] = []  # that are late

    def connect(self, loop: PumpedLoop, fail: Callable[[WalrelayError], None]) -> CruelConnection:
        self.connections.append(CruelConnection(self, loop, fail))
        return self.connections[-1]

    def serve(self) -> None:
        """Takes one sending, if one is on its way."""
        wire = self.connections[-1].wire
        if not wire:
            return
        sending = wire.pop(0 if self._ordered else self.random.randrange(len(wire)))
        if self.full > 0 and not self._ordered:
            self.full -= 1
            sending.not_now("the queue is full")
            return
        self._store(sending)
        self.doubtful = max(0, self.doubtful - 1)
        sending.durable()
        sending.durable()  # a second answer says nothing

    def happens(self, kind: str) -> None:
        """See BREAKS."""
        connection = self.connections[-1]
        if kind == "client_raises":
            connection.raise_in_callback()
            return
        wire, connection.wire = connection.wire, []
        for sending in wire[: self.random.randint(0, len(wire))]:
            if kind == "answers_lost":
                self._store(sending)
            elif kind == "late":
                self.answers += self.random.choice([[sending.durable], [partial(sending.not_now, "full")]])
                self.answers.append(partial(sending.failed, "too late"))
        if kind == "refuses_to_connect":
            self.refuses = 3
        if kind == "in_doubt":
            self.doubtful = max(self.doubtful, len(wire))
            connection.fail(InDoubt("one of them is refused"))
        elif kind == "silent":
            connection.fall_silent()
        else:
            connection.fail(Retryable("connection reset"))

    def answer_late(self) -> None:
        """Those of connections that were given up."""
        answers, self.answers = self.answers, []
        for each in answers:
            each()

    def _store(self, sending: Sending) -> None:
        self.stored += [taken.ticket for taken in sending.taken]


class HostedRelaying:
    """Publishes the messages in their order, and knows which are durable. A new sink gets what has no receipt."""

    def __init__(self, broker: CruelBroker, keys: int, sink_type: type[HostedSink], seconds: float) -> None:
        self._broker, self._type, self._seconds = broker, sink_type, seconds
        self._messages = [Message("t", b"%d" % (n % keys), b"%d" % n, [], 0) for n in range(MESSAGES)]
        self._lane_of: Callable[[Message], Hashable] | None = lane_of_key if not broker._ordered else None
        self.durable = set[int]()
        self.sinks = 0
        self._begin()

    def _begin(self) -> None:
        self.sinks += 1
        self._left = [n for n in range(MESSAGES) if n not in self.durable]
        self.sink = self._type(
            self._broker.connect,
            Window(WINDOW, 10_000, self._seconds),
            RefusalMemory(),
            "the fake",
            lane_of=self._lane_of,
        )

    def step(self) -> None:
        """Publishes what there is room for, and fetches receipts."""
        while self._left and self.sink.publish(self._messages[self._left[0]], self._left[0]):
            self._left.pop(0)
        for receipt in self.sink.receipts(0):
            assert isinstance(receipt, Receipt)
            assert receipt.ticket not in self.durable, "a second receipt"
            assert receipt.ticket in self._broker.stored, "a receipt for what the broker does not have"
            self.durable.add(receipt.ticket)

    def dies(self) -> None:
        self.sink.close()
        self._broker.doubtful = 0  # what the next process does not know of
        self._begin()

    def finish(self) -> None:
        for _ in range(3_000):
            if len(self.durable) == MESSAGES and not self.sink.trouble():
                break
            self._broker.serve()
            self.step()
        assert len(self.durable) == MESSAGES, f"no receipt: {sorted({*range(MESSAGES)} - self.durable)}"
        assert self.sink.trouble() == ""
        self.sink.close()

    def verify(self, keys: int) -> None:
        first = [*dict.fromkeys(self._broker.stored)]
        assert sorted(first) == [*range(MESSAGES)], "lost"
        for key in range(keys):
            assert [n for n in first if n % keys == key] == [*range(key, MESSAGES, keys)], f"key {key} is out of order"
        if self._broker._ordered:
            assert first == [*range(MESSAGES)], "out of order"
        assert len(self._broker.stored) - MESSAGES <= (len(self._broker.connections) - 1) * WINDOW, (
            "repeated beyond the window"
        )


def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow at once."""
    for module in (link_module, sink_module):
        monkeypatch.setattr(module, "backed_off", lambda failures: 0.0)


def live(seed: int, kinds: dict[int, str], *, ordered: bool, sink_type: type[HostedSink] = HostedSink) -> None:
    """A relay with its sink, and at these steps what is in BREAKS."""
    random = Random(seed)
    keys = random.choice((1, 3, 10))
    broker = CruelBroker(random, ordered=ordered)
    relaying = HostedRelaying(broker, keys, sink_type, 0.02 if "silent" in kinds.values() else 10)
    steps: list[Callable[[], Any]] = [broker.serve, broker.serve, relaying.step]
    for step in range(max(kinds, default=0) + 1):
        random.choice(steps)()
        if random.random() < 0.05:
            broker.full = 3
        if (kind := kinds.get(step)) is not None:
            broker.happens(kind)
            if kind == "relay_dies":
                relaying.dies()
        if kind == "late" or random.random() < 0.1:
            relaying.step()
            broker.answer_late()
    relaying.finish()
    assert relaying.sinks == 1 + [*kinds.values()].count("relay_dies"), "the sink ended"
    relaying.verify(keys)
