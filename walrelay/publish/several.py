"""The open sinks of a relay that has several: to the relay they are one, whose topics are addresses, `SINK:TOPIC`.

Each sink keeps its own window and its own pace, also while the broker of another is away. The stream has one order,
though: while the sink of the next message has no room nothing more is read, so what the others have is sent, and then
they wait too.
"""

from collections.abc import Iterable, Mapping, Sequence
from selectors import EVENT_READ, DefaultSelector
from time import monotonic

from walrelay.errors import Fatal, SinkError, WalrelayError
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, Offered, Receipt, Refusal, address, sink_and_topic
from walrelay.publish.contract import Sink

_SILENT = 5.0  # seconds without a receipt that is owed, after which a sink that says nothing is in trouble
_OTHERS = 1.0  # seconds that the other sinks have to settle what they took, once one has ended
_MOMENT = 0.005  # seconds: timers of sinks are no event of a descriptor
_new = tuple.__new__
_MAKING = "walrelay init --topics "


class SeveralSinks:
    """Implements `Sink` over sinks by name. When one ends (a refusal that is its end, or an error), nothing more is
    taken, and that is told once the others have settled: the next run repeats what has no receipt.
    """

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self._sinks = dict(sinks)  # less those that have ended
        self._all = [*sinks.values()]
        self._owed = dict.fromkeys(sinks, 0)  # messages without a receipt
        self._heard_at = dict.fromkeys(sinks, 0.0)  # the last receipt, or the first message after none was owed
        self._full = ""  # the sink that had no room for the message that was offered last
        self._refusal: Refusal | None = None
        self._error: WalrelayError | None = None
        self._deadline = 0.0
        self._selector = DefaultSelector()
        found = ((name, sink.descriptor()) for name, sink in sinks.items())
        self._descriptors = {name: each for name, each in found if each is not None}
        for each in self._descriptors.values():
            self._selector.register(each, EVENT_READ)

    def descriptor(self) -> int | None:
        """Of all sinks that have one; kqueue's and epoll's selectors have one themselves."""
        return self._selector.fileno() if self._descriptors and hasattr(self._selector, "fileno") else None

    def publish(self, message: Message, ticket: int) -> bool:
        if self._ending:
            return False
        name, topic = sink_and_topic(message.topic)
        if name not in self._sinks:
            raise unknown_sink(message.topic, self._sinks)
        taken = self._sinks[name].publish(_readdressed(message, topic), ticket)
        if not self._owed[name]:
            self._heard_at[name] = monotonic()
        self._owed[name] += taken
        self._full = "" if taken else name
        return taken

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        for sink in self._sinks.values():
            sink.mark(end_lsn, commit_lsn, ordinal, over=over)

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        """Waits for a sink without room, if there is one: the relay does. What the others hold is sent meanwhile."""
        deadline = monotonic() + timeout
        heard = self._told()
        while not heard and (awaited := self._awaited) and (left := deadline - monotonic()) > 0:
            heard = self._wait(awaited, left)
            if not self._descriptors:
                break  # all go on by themselves
            heard += self._told()
        if heard or not self._ending or (self._owing and monotonic() < self._deadline):
            return heard
        if self._refusal is None:
            assert self._error is not None
            raise self._error
        refusal, self._refusal = self._refusal, None
        return [refusal]

    def flush(self, timeout: float) -> None:
        owing = self._owing
        for name in owing:
            self._sinks[name].flush(timeout / len(owing))

    def close(self) -> None:
        for sink in self._all:
            sink.close()
        self._selector.close()

    def trouble(self) -> str:
        """The troubles of the sinks, each with its name; a sink that owes a receipt for long has one as well."""
        now, found = monotonic(), list[str]()
        for name, sink in self._sinks.items():
            silent = self._owed[name] and now - self._heard_at[name] > _SILENT
            if trouble := sink.trouble() or ("nothing was acknowledged" if silent else ""):
                found.append(f"{name}: {trouble}")
        return "; ".join(found)

    @property
    def _owing(self) -> list[str]:
        return [name for name in self._sinks if self._owed[name]]

    @property
    def _awaited(self) -> list[str]:
        return [self._full] if self._full in self._sinks else self._owing

    @property
    def _ending(self) -> bool:
        return len(self._sinks) < len(self._all)

    def _told(self) -> list[Receipt | Refusal]:
        return [each for name in [*self._sinks] for each in self._heard(name, 0.0)]

    def _wait(self, awaited: Sequence[str], seconds: float) -> list[Receipt | Refusal]:
        """For something of theirs, or for a moment. A sink with a descriptor moves only while it is asked."""
        alone = [name for name in awaited if name not in self._descriptors]
        if not alone:
            self._selector.select(min(seconds, _MOMENT))
            return []
        seconds = min(seconds, _MOMENT) if self._descriptors else seconds
        return [each for name in alone for each in self._heard(name, seconds / len(alone))]

    def _heard(self, name: str, timeout: float) -> list[Receipt | Refusal]:
        heard: list[Receipt | Refusal] = []
        try:
            found = [*self._sinks[name].receipts(timeout)]
        except WalrelayError as error:
            self._error = self._error or error
            self._end(name)
            return []
        if found:
            self._heard_at[name] = monotonic()
        for each in found:
            if isinstance(each, Receipt):
                self._owed[name] -= each.messages
                heard.append(each)
                continue
            self._owed[name] -= 1
            refusal = _of_sink(name, each)
            if not each.ends:
                heard.append(refusal)
                continue
            self._refusal = self._refusal or refusal
            self._error = self._error or SinkError(f"the sink {name} has ended", hint=each.hint)
            self._end(name)
        return heard

    def _end(self, name: str) -> None:
        if self._sinks.pop(name, None) is not None:
            self._deadline = monotonic() + _OTHERS
            if name in self._descriptors:
                self._selector.unregister(self._descriptors.pop(name))


def unknown_sink(address: str, names: Iterable[str]) -> Fatal:
    first, *_ = names
    return SinkError(
        f"the topic {address!r} names no sink of this relay; its sinks are {', '.join(names)}",
        hint=f"Where a relay has several sinks a topic is written SINK:TOPIC, as in {first}:orders.",
    )


def naming_sink(name: str, advice: str) -> str:
    """Advice of a sink, which does not know its name, as it is right for the relay."""
    return advice.replace(_MAKING, f"{_MAKING}{name}:")


def _readdressed(message: Message, topic: str) -> Message:
    """The message at that topic, for the same record."""
    if isinstance(message, Offered):
        offered = _new(Offered, (topic, *message[1:]))
        offered.record, offered.number = message.record, message.number
        return offered
    return _new(Message, (topic, *message[1:]))


def _of_sink(name: str, refusal: Refusal) -> Refusal:
    message = _readdressed(refusal.message, address(name, refusal.message.topic))
    return refusal._replace(message=message, hint=naming_sink(name, refusal.hint))
