"""A sink around a connection whose client is written for asyncio: what is on its way, for how long, and in which order.

The connection says what the broker did with each sending. The sink outlives it: after one that broke, or that has no
answer in time, the next one gets what has no receipt, in the same order. A broker that is away, or says "not now", is
back-pressure. The sink ends for what another run can cure, or none.
"""

from collections.abc import Callable, Hashable, Iterable
from math import inf
from time import monotonic

from walrelay.errors import Retryable, StartAnew, WalrelayError
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Receipt, Refusal
from walrelay.sinks.hosting.circuit import backed_off
from walrelay.sinks.hosting.contract import (
    WITH_CARE,
    Connect,
    HostedConnection,
    InDoubt,
    Misfit,
    RefusalMemory,
    Sending,
    SendingOwner,
    Taken,
    Window,
    lane_of_key,
    size_of,
    whole_size,
)
from walrelay.sinks.hosting.lanes import Lanes
from walrelay.sinks.hosting.link import ENDS, Link

__all__ = [
    "WITH_CARE",
    "HostedConnection",
    "HostedSink",
    "Misfit",
    "RefusalMemory",
    "Sending",
    "SendingOwner",
    "Taken",
    "Window",
    "lane_of_key",
    "size_of",
]

_UNPUMPED = 128  # messages after which the loop is pumped though nobody asks for receipts
_OVERDUE = 5.0  # seconds without an answer that are told as trouble
_MORE = 2  # sendings that are sent again at once when one of their topic was taken after a "not now"


class HostedSink:
    """Implements `walrelay.publish.Sink`. Durable is what the connection calls durable."""

    def __init__(
        self,
        connect: Connect,
        window: Window,
        memory: RefusalMemory,
        broker: str,
        *,
        address: str = "",
        lane_of: Callable[[Message], Hashable] | None = lane_of_key,
        width: int = 1,
        width_bytes: float = inf,
    ) -> None:
        """`connect` is called for each connection. `broker`: its name in messages; `address`: where it is.

        `lane_of` None: no lanes, for a broker that refuses what would overtake. `width`, `width_bytes`: how much of a
        lane may be on its way as one, key, value and headers; a single message may be larger.
        """
        self._window, self._memory, self._broker, self._address = window, memory, broker, address
        self._lane_of, self._lanes = lane_of, Lanes[Taken](width, whole_size, width_bytes)
        self._in_flight: dict[Sending, None] = {}  # in the order of sending
        self._alone: Sending | None = None  # the one on its way, while it has to be by itself
        self._put_off: dict[Sending, float] = {}  # and when they are sent again
        self._due = inf  # the first of them
        self._not_now = ""  # why the newest of them was
        self._room, self._bytes = window.messages, window.bytes
        self._unpumped = 0
        self._settled: dict[int, int] = {}  # ticket -> messages
        self._refusals: list[Refusal] = []
        self._over = False  # a refusal was told that ends the sink
        self._holds = False  # whether a sending waits because one at a time is on its way
        self._failure: WalrelayError | None = None
        self._link = Link(connect, broker, window.seconds, self._opened)

    def descriptor(self) -> int | None:
        return self._link.loop.descriptor

    def publish(self, message: Message, ticket: int) -> bool:
        if self._room <= 0 or self._bytes <= 0 or self._refusals or self._failure or self._over:
            return False
        lane = self._lane_of(message) if self._lane_of is not None else None
        if (self._memory.with_care and self._is_busy(lane)) or (self._memory.alone and self._in_flight):
            return False
        if (misfit := self._link.connection.misfit(message)) is not None:
            self._refusals.append(Refusal(ticket, message, *misfit, ends=False))
            return True
        self._memory.with_care = max(0, self._memory.with_care - 1)
        taken = Taken(message, ticket)
        self._room -= 1
        self._bytes -= size_of(message)
        if self._lane_of is None or self._lanes.enter(lane, taken):
            self._send(Sending(self, lane, (taken,)))
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
        """Returns at once where nothing can be pushed: the broker is away, or has said "not now"."""
        deadline = monotonic() + timeout
        self._pump(0)
        while self._in_flight and not (self._failure or self._link.away) and (left := deadline - monotonic()) > 0:
            self._pump(left)

    def close(self) -> None:
        self._failure = self._failure or Retryable("the sink is closed")
        self._link.close()

    def trouble(self) -> str:
        why = self._complaint()
        return f"{why} ({self._address})" if why and self._address not in why else why

    def _complaint(self) -> str:
        link = self._link
        if not link.connected:
            at = f" at {self._address}" if self._address else ""
            return link.why or link.connection.trouble() or f"not connected to {self._broker}{at} yet"
        if why := link.connection.trouble() or (self._not_now if self._put_off else ""):
            return why
        oldest = self._oldest()
        if oldest is None:
            return ""
        overdue = monotonic() - oldest.sent_at > _OVERDUE
        return link.why or (f"{self._broker} has not answered for more than {_OVERDUE:g} s" if overdue else "")

    def settle(self, sending: Sending) -> None:
        """See `Sending.durable`."""
        if self._failure is not None or not self._done(sending):
            return
        for _, ticket in sending.taken:
            self._settled[ticket] = self._settled.get(ticket, 0) + 1
        following = self._lanes.leave(sending.lane) if self._lane_of is not None else ()
        if following and not self._ended:
            self._send(Sending(self, sending.lane, following))
        if sending.attempts and self._put_off:
            self._hurry(sending.taken[0].message.topic)
        self._hand_over_held()
        self._link.loop.wake()

    def refuse(self, sending: Sending, reason: str, hint: str, error: str, scope: str, *, ends: bool) -> None:
        """See `Sending.refused`. Nothing of its lane was sent after it; if something waits for that, it is let go."""
        if self._failure is not None or not self._done(sending):
            return
        self._memory.with_care = WITH_CARE
        if len(sending.taken) > 1:
            self.fail(StartAnew(f"messages were refused together, and are sent one by one to find the one: {reason}"))
            return
        followed = self._lanes.leave(sending.lane) if self._lane_of is not None else self._in_flight or self._put_off
        ((message, ticket),) = sending.taken
        self._refusals.append(Refusal(ticket, message, reason, hint, error, scope, ends=ends or bool(followed)))
        self._hand_over_held()
        self._link.loop.wake()

    def put_off(self, sending: Sending, why: str) -> None:
        """See `Sending.not_now`. It stays where it is in its lane."""
        if self._failure is not None or sending not in self._in_flight:
            return
        del self._in_flight[sending]
        self._link.heard()
        self._not_now = why
        again = sending.again()
        again.attempts += 1
        self._put_off[again] = due = monotonic() + backed_off(again.attempts)
        self._due = min(self._due, due)
        if sending is self._alone:
            self._alone = None
            self._hand_over_held()

    def fail(self, why: WalrelayError) -> None:
        """The connection is of no use any more."""
        self._link.fail(why)

    @property
    def _ended(self) -> bool:
        """Whether nothing may be sent any more, because of a refusal."""
        return self._over or any(refusal.ends for refusal in self._refusals)

    @property
    def _heard(self) -> bool:
        return bool(self._settled or self._refusals or self._failure)

    def _is_busy(self, lane: Hashable) -> bool:
        return self._lanes.busy(lane) if self._lane_of is not None else bool(self._in_flight or self._put_off)

    def _opened(self) -> None:
        for sending in [*self._in_flight]:  # some may be answered at once
            if not self._ended:
                self._hand_over(sending)

    def _send(self, sending: Sending) -> None:
        self._in_flight[sending] = None
        if self._link.connected:
            self._hand_over(sending)

    def _hand_over(self, sending: Sending) -> None:
        if self._memory.alone:
            if self._alone is not None:
                self._holds = True
                return
            self._alone = sending
        sending.sent_at = monotonic()
        try:
            self._link.connection.send(sending)
        except Exception as why:
            self.fail(Retryable(f"the connection to {self._broker} failed: {type(why).__name__}: {why}"))

    def _hand_over_held(self) -> None:
        """What waits because one message at a time is on its way."""
        if self._holds and self._link.connected and self._alone is None:
            self._holds = False
            for sending in [*self._in_flight]:
                if not (sending.sent_at or self._ended):
                    self._hand_over(sending)

    def _oldest(self) -> Sending | None:
        """Of those that were handed over."""
        return next((each for each in self._in_flight if each.sent_at), None)

    def _done(self, sending: Sending) -> bool:
        """False if it was told of before."""
        if sending not in self._in_flight:
            return False
        del self._in_flight[sending]
        if sending is self._alone:
            self._alone = None
            self._memory.alone -= 1
        self._room += len(sending.taken)
        self._bytes += sum(size_of(message) for message, _ in sending.taken)
        if self._link.why:
            self._link.heard()
        return True

    def _hurry(self, topic: str) -> None:
        """The broker takes again what it did not take: what else was put off for that topic is sent, a few at first."""
        found = [each for each in self._put_off if each.taken[0].message.topic == topic]
        self._put_off.update(dict.fromkeys(found[:_MORE], 0.0))
        self._due = 0.0 if found else self._due

    def _pump(self, timeout: float) -> None:
        self._unpumped = 0
        if self._failure is not None:
            return
        if self._put_off and self._link.connected:
            if (left := self._due - monotonic()) <= 0:
                self._send_due()
            else:
                timeout = min(timeout, left)
        self._link.pump(timeout)
        if self._link.broken is not None:
            self._begin_again(self._link.broken)

    def _send_due(self) -> None:
        now = monotonic()
        due = [each for each, at in self._put_off.items() if at <= now]
        for sending in due:
            del self._put_off[sending]
            if not self._ended:
                self._send(sending)
        self._due = min(self._put_off.values(), default=inf)

    def _begin_again(self, why: WalrelayError) -> None:
        """The next connection gets all that has no receipt. Answers of this one count for nothing from now on."""
        if isinstance(why, InDoubt):
            self._memory.alone = max(self._memory.alone, len(self._in_flight))
        if isinstance(why, ENDS) or self._ended:
            self._failure = why
            return
        self._link.renew(why)
        self._alone = None
        self._in_flight = dict.fromkeys(each.again() for each in (*self._put_off, *self._in_flight))
        self._put_off, self._due = {}, inf

    def _look_for_silence(self) -> None:
        oldest = self._oldest()
        if (
            oldest is None
            or not self._link.connected
            or monotonic() - oldest.sent_at < self._window.seconds
            or self._failure is not None
        ):
            return
        if self._link.connection.trouble():
            oldest.sent_at = monotonic()  # the broker has said why it does not answer
            return
        topic = oldest.taken[0].message.topic
        why = f"{self._broker} has not answered for {self._window.seconds:g} s to a message for {topic!r}"
        self._begin_again(Retryable(why))
