"""A sink around a connection whose client is written for asyncio: what is on its way, for how long, and in which order.

The connection says what the broker did with each sending. Whatever it raises, and a sending without an answer, ends the
sink: the next run makes a new one and publishes again what has no receipt.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any, NamedTuple, Protocol

from walrelay.errors import Retryable, StartAnew, WalrelayError
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt, Refusal
from walrelay.sinks.hosting.lanes import Lanes
from walrelay.sinks.hosting.loop import PumpedLoop

_UNPUMPED = 128  # messages after which the loop is pumped though nobody asks for receipts
WITH_CARE = 1_000  # messages after a refusal during which a lane takes one message at a time


class Taken(NamedTuple):
    """A message that the sink is responsible for."""

    message: Message
    ticket: int


class Misfit(NamedTuple):
    """Why the broker cannot have a message as it is: said before anything of it is sent."""

    reason: str
    hint: str
    error: str = "serialization"


class Window(NamedTuple):
    """What may be on its way, or wait for that: so many messages and bytes. An answer may take so many seconds."""

    messages: int
    bytes: int
    seconds: float


class SendingOwner(Protocol):
    """Whoever gave a sending to a connection, and hears of it."""

    def settle(self, sending: "Sending") -> None:
        """See `Sending.durable`."""
        ...

    def refuse(self, sending: "Sending", reason: str, hint: str, error: str, scope: str, *, ends: bool) -> None:
        """See `Sending.refused`."""
        ...

    def fail(self, why: WalrelayError) -> None:
        """The connection is of no use any more."""
        ...


class Sending:
    """Messages that the broker takes or refuses as one; a single one as a rule. The connection tells of each once."""

    __slots__ = ("_sink", "lane", "sent_at", "taken")

    def __init__(self, sink: SendingOwner, lane: Hashable, taken: Sequence[Taken]) -> None:
        self._sink, self.lane, self.taken, self.sent_at = sink, lane, taken, 0.0

    def durable(self) -> None:
        """The broker has said that all of it is durable."""
        self._sink.settle(self)

    def refused(
        self, reason: str, hint: str, error: str = "refused", scope: str = "message", *, ends: bool = False
    ) -> None:
        """The broker will never take it; what the words mean: see `walrelay.model.Refusal`. `ends`: the connection is
        of no use any more.
        """
        self._sink.refuse(self, reason, hint, error, scope, ends=ends)

    def failed(self, why: str) -> None:
        """It may not have arrived: the run is over, and the next one sends it again."""
        self._sink.fail(Retryable(why))


class HostedConnection(Protocol):
    """What a kind of broker adds: its client, in the loop that it is given. No method waits for the broker."""

    async def open(self) -> None:
        """Connects. Raises Retryable where a later try may succeed, Fatal where no try can."""
        ...

    def send(self, sending: Sending) -> None:
        """Hands the sending to the client, behind all those before."""
        ...

    def push(self) -> None:
        """What was handed over is to leave now."""
        ...

    def misfit(self, message: Message) -> Misfit | None:
        """Why the broker could not have this message unaltered; asked once, when there is room for it, and if it
        fits it is taken.
        """
        ...

    def trouble(self) -> str:
        """What the broker complains of: while it does, a sending may wait for its answer. Empty if it does not."""
        ...

    def close(self) -> None:
        """Aborts what the loop does not know of; the loop lets go of everything else. Never raises."""
        ...


@dataclass
class RefusalMemory:
    """What the sinks of one relay know of refusals: after one, the next run takes a lane's messages one at a time, so
    that it can go on after the next.
    """

    with_care: int = 0  # messages


def lane_of_key(message: Message) -> Hashable:
    """The order that consumers may rely on is that of a key in a topic. All messages without a key share a lane."""
    return message.topic, message.key


class HostedSink:
    """Implements `walrelay.publish.Sink`. Durable is what the connection calls durable."""

    def __init__(
        self,
        connect: Callable[[PumpedLoop, Callable[[WalrelayError], None]], HostedConnection],
        window: Window,
        memory: RefusalMemory,
        broker: str,
        *,
        lane_of: Callable[[Message], Hashable] | None = lane_of_key,
        width: int = 1,
        width_bytes: float = inf,
    ) -> None:
        """`connect` gets the loop, and what it calls when the connection broke. `broker`: its name in messages.

        `lane_of` None: no lanes, for a broker that refuses what would overtake. `width`, `width_bytes`: how much of a
        lane may be on its way as one, key, value and headers; a single message may be larger.
        """
        self._loop = PumpedLoop()
        self._window, self._memory, self._broker = window, memory, broker
        self._lane_of, self._lanes = lane_of, Lanes[Taken](width, _whole_size, width_bytes)
        self._in_flight: dict[Sending, None] = {}  # in the order of sending
        self._room, self._bytes = window.messages, window.bytes
        self._unpumped = 0
        self._settled: dict[int, int] = {}  # ticket -> messages
        self._refusals: list[Refusal] = []
        self._over = False  # a refusal was told that ends the sink
        self._failure: WalrelayError | None = None
        self._connected = False
        self._loop.set_exception_handler(self._broke)
        self._connection = connect(self._loop, self.fail)
        self._loop.start(self._open())

    def descriptor(self) -> int | None:
        return self._loop.descriptor

    def publish(self, message: Message, ticket: int) -> bool:
        if self._room <= 0 or self._bytes <= 0 or self._refusals or self._failure or self._over:
            return False
        lane = self._lane_of(message) if self._lane_of is not None else None
        if self._memory.with_care and (self._lanes.busy(lane) if self._lane_of is not None else self._in_flight):
            return False
        if (misfit := self._connection.misfit(message)) is not None:
            self._refusals.append(Refusal(ticket, message, *misfit, ends=False))
            return True
        self._memory.with_care = max(0, self._memory.with_care - 1)
        taken = Taken(message, ticket)
        self._room -= 1
        self._bytes -= size_of(message)
        if self._lane_of is None or self._lanes.enter(lane, taken):
            self._send(lane, (taken,))
        self._unpumped += 1
        if self._unpumped >= _UNPUMPED:
            self._pump(0)
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        self._pump(0 if self._heard else timeout)
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
        self._pump(0)
        while self._in_flight and self._failure is None and (left := deadline - monotonic()) > 0:
            self._pump(left)

    def close(self) -> None:
        self._failure = self._failure or Retryable("the sink is closed")
        self._connection.close()
        self._loop.let_go()

    def trouble(self) -> str:
        if self._connected:
            return self._connection.trouble()
        return self._connection.trouble() or f"not connected to {self._broker} yet"

    def settle(self, sending: Sending) -> None:
        """See `Sending.durable`."""
        if self._failure is not None or not self._done(sending):
            return
        for _, ticket in sending.taken:
            self._settled[ticket] = self._settled.get(ticket, 0) + 1
        following = self._lanes.leave(sending.lane) if self._lane_of is not None else ()
        if following and not self._ended:
            self._send(sending.lane, following)
        self._loop.wake()

    def refuse(self, sending: Sending, reason: str, hint: str, error: str, scope: str, *, ends: bool) -> None:
        """See `Sending.refused`. Nothing of its lane was sent after it; if something waits for that, it is let go."""
        if self._failure is not None or not self._done(sending):
            return
        self._memory.with_care = WITH_CARE
        if len(sending.taken) > 1:
            self.fail(StartAnew(f"messages were refused together, and are sent one by one to find the one: {reason}"))
            return
        followed = self._lanes.leave(sending.lane) if self._lane_of is not None else self._in_flight
        ((message, ticket),) = sending.taken
        self._refusals.append(Refusal(ticket, message, reason, hint, error, scope, ends=ends or bool(followed)))
        self._loop.wake()

    def fail(self, why: WalrelayError) -> None:
        """The connection is of no use any more."""
        self._failure = self._failure or why
        self._loop.wake()

    def _broke(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback of the client raised."""
        why = context.get("exception")
        what = f"{type(why).__name__}: {why}" if why is not None else context.get("message", "")
        self.fail(Retryable(f"the client of {self._broker} failed: {what}"))

    @property
    def _ended(self) -> bool:
        """Whether nothing may be sent any more, because of a refusal."""
        return self._over or any(refusal.ends for refusal in self._refusals)

    @property
    def _heard(self) -> bool:
        return bool(self._settled or self._refusals or self._failure)

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(self._window.seconds):
                await self._connection.open()
            self._connected = True
            for sending in [*self._in_flight]:  # taken meanwhile; some may be answered at once
                if not self._ended:
                    self._hand_over(sending)
            self._loop.wake()
        except WalrelayError as why:
            self.fail(why)
        except TimeoutError:
            self.fail(Retryable(f"{self._broker} has not let us connect within {self._window.seconds:g} s"))
        except Exception as why:
            self.fail(Retryable(f"{self._broker} cannot be reached: {type(why).__name__}: {why}"))

    def _send(self, lane: Hashable, taken: Sequence[Taken]) -> None:
        sending = Sending(self, lane, taken)
        self._in_flight[sending] = None
        if self._connected:
            self._hand_over(sending)

    def _hand_over(self, sending: Sending) -> None:
        sending.sent_at = monotonic()
        try:
            self._connection.send(sending)
        except Exception as why:
            self.fail(Retryable(f"the connection to {self._broker} failed: {type(why).__name__}: {why}"))

    def _done(self, sending: Sending) -> bool:
        """False if it was told of before."""
        if sending not in self._in_flight:
            return False
        del self._in_flight[sending]
        self._room += len(sending.taken)
        self._bytes += sum(size_of(message) for message, _ in sending.taken)
        return True

    def _pump(self, timeout: float) -> None:
        self._unpumped = 0
        if self._failure is None:
            if self._connected:
                self._connection.push()
            self._loop.pump(timeout)

    def _look_for_silence(self) -> None:
        oldest = next(iter(self._in_flight), None)
        if (
            oldest is None
            or not self._connected
            or monotonic() - oldest.sent_at < self._window.seconds
            or self._failure is not None
        ):
            return
        if self._connection.trouble():
            oldest.sent_at = monotonic()  # the broker has said why it does not answer
            return
        topic = oldest.taken[0].message.topic
        self.fail(
            Retryable(f"{self._broker} has not answered for {self._window.seconds:g} s to a message for {topic!r}")
        )


def size_of(message: Message) -> int:
    return len(message.value or b"") + len(message.key or b"") + 64


def _whole_size(taken: Taken) -> int:
    message = taken.message
    return size_of(message) + sum(len(name) + len(value or b"") for name, value in message.headers)
