"""The contract between a hosted sink and its connections: what is sent, and what a connection says of it."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from walrelay.errors import Retryable, WalrelayError
from walrelay.model import Message
from walrelay.sinks.hosting.loop import PumpedLoop

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


class InDoubt(Retryable):
    """The broker refuses one of what is on its way, and does not say which. Nothing is refused for its looks: the next
    connection gets one message at a time, until all of these have an answer of their own.
    """


class SendingOwner(Protocol):
    """Gives sendings to a connection, and hears of them."""

    def settle(self, sending: "Sending") -> None:
        """See `Sending.durable`."""
        ...

    def refuse(self, sending: "Sending", reason: str, hint: str, error: str, scope: str, *, ends: bool) -> None:
        """See `Sending.refused`."""
        ...

    def put_off(self, sending: "Sending", why: str) -> None:
        """See `Sending.not_now`."""
        ...

    def fail(self, why: WalrelayError) -> None:
        """The connection is of no use any more."""
        ...


class _NoOwner:
    """Implements `SendingOwner` for a sending that another one has replaced: its answers count for nothing."""

    def settle(self, sending: "Sending") -> None:
        pass

    def refuse(self, sending: "Sending", reason: str, hint: str, error: str, scope: str, *, ends: bool) -> None:
        pass

    def put_off(self, sending: "Sending", why: str) -> None:
        pass

    def fail(self, why: WalrelayError) -> None:
        pass


_NO_OWNER = _NoOwner()


class Sending:
    """Messages that the broker takes or refuses as one; a single one as a rule. The connection tells of each once."""

    __slots__ = ("_sink", "attempts", "lane", "prepared", "sent_at", "taken")

    def __init__(self, sink: SendingOwner, lane: Hashable, taken: Sequence[Taken]) -> None:
        self._sink, self.lane, self.taken, self.sent_at = sink, lane, taken, 0.0
        self.attempts = 0
        """How often the broker has said "not now"."""
        self.prepared: Any = None
        """Made of the messages by the connection; the next connection finds it here."""

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

    def not_now(self, why: str) -> None:
        """The broker did not take it, and may take it later: it is sent again after a pause. Nothing of its lane is
        sent before; other lanes go on. Without lanes nothing else waits: what must not be overtaken then is `failed`.
        """
        self._sink.put_off(self, why)

    def failed(self, why: str) -> None:
        """It may not have arrived, and the connection is of no use any more: the next one sends it again."""
        self._sink.fail(Retryable(why))

    def again(self) -> "Sending":
        """The same for another attempt. Answers to this one count for nothing from now on."""
        following = Sending(self._sink, self.lane, self.taken)
        following.attempts, following.prepared = self.attempts, self.prepared
        self._sink = _NO_OWNER
        return following


class HostedConnection(Protocol):
    """What a kind of broker adds: its client, in the loop that it is given. No method waits for the broker.

    One that breaks is closed, its loop with it, and another one is made: it gets all that has no answer, in order.
    """

    async def open(self) -> None:
        """Connects. Raises Retryable where a later try may succeed, Fatal where no try can."""
        ...

    def send(self, sending: Sending) -> None:
        """Hands the sending to the client, behind all those before. It may have been sent by an earlier connection."""
        ...

    def push(self) -> None:
        """What was handed over is to leave now."""
        ...

    def misfit(self, message: Message) -> Misfit | None:
        """Why the broker could not have this message unaltered; asked once, when there is room for it, and if it
        fits it is taken. Perhaps another connection sends it, so what is kept of it belongs to the sink
        (`PreparedMessages`).
        """
        ...

    def trouble(self) -> str:
        """What the broker complains of: while it does, a sending may wait for its answer. Empty if it does not."""
        ...

    def close(self) -> None:
        """Aborts what the loop does not know of; the loop lets go of everything else. Never raises."""
        ...


Connect = Callable[[PumpedLoop, Callable[[WalrelayError], None]], HostedConnection]
"""Makes a connection in that loop, without connecting. The connection calls the second argument when it broke."""


@dataclass
class RefusalMemory:
    """What the sinks of one relay know of refusals: after one, the next run takes a lane's messages one at a time, so
    that it can go on after the next.
    """

    with_care: int = 0  # messages
    alone: int = 0  # sendings that are on their way by themselves, because one of them is refused


def lane_of_key(message: Message) -> Hashable:
    """The order that consumers may rely on is that of a key in a topic. All messages without a key share a lane."""
    return message.topic, message.key


def size_of(message: Message) -> int:
    """Bytes that count as on their way."""
    return len(message.value or b"") + len(message.key or b"") + 64


def whole_size(taken: Taken) -> int:
    """With its headers."""
    message = taken.message
    return size_of(message) + sum(len(name) + len(value or b"") for name, value in message.headers)
