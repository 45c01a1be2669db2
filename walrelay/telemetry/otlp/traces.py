"""A span for a message that is sampled: from the commit of its row until it is durable.

The relay's thread only notes what is sampled, and when: `SpanMaker` makes spans of that in another one. Times are those
of the loop's turns, which decode and publish many messages each.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from math import inf
from random import random
from time import time
from typing import NamedTuple

from walrelay.lsn import LSN
from walrelay.model import Message
from walrelay.observe import (
    Confirmed,
    DeadLettered,
    EndedFatally,
    Happening,
    Relayed,
    Retrying,
    Settled,
    Stopped,
    Streaming,
    Turned,
)
from walrelay.telemetry.otlp.outlet import Outlet

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"

_ODD = frozenset(b"13579bdf")  # the last digit of flags that have `sampled`
_LENGTH = 55  # of a traceparent; a later version may be longer
_LAST = _LENGTH - 1
_MOST = 2_048  # messages that wait for their receipt; further ones get no span
_ALL = inf
_AGAIN = "the run ended before its receipt: it is published again"


class TracedRelay(NamedTuple):
    """What every span of a relay says. `kinds`: of its sinks, by their names."""

    name: str
    slot: str
    kinds: Mapping[str, str]


class TracedMessage(NamedTuple):
    """A sampled message that was handed to the sink. It does not hold the value: many may wait. Times are Unix's."""

    address: str
    headers: Sequence[tuple[str, bytes | None]]
    size: int | None
    committed_at: float  # by the server's clock
    read_at: float
    sent_at: float
    parent: bytes | None  # the traceparent that says that it is sampled


class TracedOutcome(NamedTuple):
    """What became of it, and when the relay knew. `error`: empty where it is durable."""

    relay: TracedRelay
    message: TracedMessage
    at: float
    error: str


class TraceObserver:
    """An observer of one relay."""

    def __init__(self, relay: TracedRelay, outlet: Outlet[TracedOutcome], lost: Counter[str], share: float) -> None:
        """`share`: of the messages that have no parent, how many are sampled."""
        self._relay, self._outlet, self._lost, self._share = relay, outlet, lost, share
        self._waiting: deque[tuple[LSN, list[TracedMessage]]] = deque()  # by the last transaction of a turn
        self._count = 0
        self._refused: dict[str, str] = {}  # by position, while messages wait

    def saw(self, happening: Happening) -> None:
        kind = type(happening)
        if kind is Relayed:  # these happen all the time
            self._relayed(happening)  # type: ignore[arg-type]
        elif kind is not Turned and self._count:
            self._seldom(happening)

    def _relayed(self, turn: Relayed) -> None:
        share, found = self._share, list[TracedMessage]()
        for message in turn.taken:
            parent = None
            for name, value in message.headers:
                if name == TRACEPARENT:
                    parent = value
                    break
            if parent is None or len(parent) < _LENGTH:
                if not share or random() >= share:
                    continue
                parent = None
            elif parent[_LAST] not in _ODD:
                continue
            found.append(_traced(message, turn.read_at, time(), parent))
        if found:
            self._wait(turn.last, found)

    def _wait(self, last: LSN, found: list[TracedMessage]) -> None:
        room = min(_MOST - self._count, self._outlet.room)
        if len(found) > room:
            self._outlet.lose(len(found) - max(0, room), self._lost)
            del found[max(0, room) :]
        if found:
            self._waiting.append((last, found))
            self._count += len(found)

    def _seldom(self, happening: Happening) -> None:
        match happening:
            case Settled(_, _, commit_lsn):
                self._end(commit_lsn)
            case Confirmed(_, unsettled) if not unsettled:
                self._end(_ALL)
            case DeadLettered(letter):
                if len(self._refused) >= _MOST:
                    del self._refused[next(iter(self._refused))]
                self._refused[letter.origin.position] = f"{letter.error}: a dead letter"
            case Streaming(_, start):  # the sink may have gone on alone with what does not come again
                before = [each for each in self._waiting if each[0] < start]
                self._waiting = deque(each for each in self._waiting if each[0] >= start)
                self._end(_ALL, _AGAIN)
                self._waiting, self._count = deque(before), sum(len(messages) for _, messages in before)
            case Retrying(error=error) if error != "Disconnected":
                self._end(_ALL, _AGAIN)
            case Stopped() | EndedFatally():
                self._end(_ALL, _AGAIN)

    def _end(self, up_to: float, error: str = "") -> None:
        now, waiting, refused = time(), self._waiting, self._refused
        while waiting and waiting[0][0] <= up_to:
            _, messages = waiting.popleft()
            self._count -= len(messages)
            for message in messages:
                reason = error or (refused and refused.get(_position(message))) or ""
                self._outlet.offer(TracedOutcome(self._relay, message, now, reason), self._lost)
        if not waiting:
            refused.clear()


def _traced(message: Message, read_at: float, sent_at: float, parent: bytes | None) -> TracedMessage:
    size = None if message.value is None else len(message.value)
    return TracedMessage(message.topic, message.headers, size, message.timestamp_ms / 1e3, read_at, sent_at, parent)


def _position(message: TracedMessage) -> str:
    return texts(message.headers).get("position", "")


def texts(headers: Sequence[tuple[str, bytes | None]]) -> Mapping[str, str]:
    """The last of each name counts: it is walrelay's."""
    return {name: value.decode(errors="replace") for name, value in headers if value is not None}
