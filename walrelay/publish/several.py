"""The sinks of a relay that has several: to the relay they are one, whose topics are addresses, `SINK:TOPIC`.

Each sink keeps its own window and its own pace. The stream has one order, though: while the sink of the next message
has no room nothing more is read, so what the others have is sent, and then they wait too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import NoReturn

from walrelay.errors import Fatal, WalrelayError
from walrelay.lsn import LSN, ZERO
from walrelay.model import (
    Counting,
    Finding,
    Message,
    Offered,
    Receipt,
    Refusal,
    System,
    address,
    sink_and_topic,
)
from walrelay.publish.contract import (
    ExactlyOnceSink,
    Found,
    PositionKeeper,
    Recalled,
    Sink,
    Span,
    TopicMessage,
    TopicStream,
)
from walrelay.publish.plugins import OpenStream, ReadBack, SinkHandle

_OTHERS = 1.0  # seconds that the other sinks have to settle what they took, once one has ended
_new = tuple.__new__
_MAKING = "walrelay init --topics "  # in hints of a sink, which does not know its name


class SeveralSinks:
    """Implements `Sink` over sinks by name. When one ends (a refusal that is its end, or an error), nothing more is
    taken, and that is told once the others have settled: the next run repeats what has no receipt.
    """

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self._sinks = dict(sinks)  # less those that have ended
        self._all = [*sinks.values()]
        self._owed = dict.fromkeys(sinks, 0)  # messages without a receipt
        self._full = ""  # the sink that had no room for the message that was offered last
        self._refusal: Refusal | None = None
        self._error: WalrelayError | None = None
        self._deadline = 0.0

    def publish(self, message: Message, ticket: int) -> bool:
        if self._ending:
            return False
        name, topic = sink_and_topic(message.topic)
        if name not in self._sinks:
            raise _unknown(message.topic, self._sinks)
        taken = self._sinks[name].publish(_readdressed(message, topic), ticket)
        self._owed[name] += taken
        self._full = "" if taken else name
        return taken

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        for sink in self._sinks.values():
            sink.mark(end_lsn, commit_lsn, ordinal, over=over)

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        """Waits for a sink without room, if there is one: the relay does."""
        heard = [each for name in [*self._sinks] for each in self._heard(name, 0.0)]
        awaited = [self._full] if self._full in self._sinks else self._owing
        for name in awaited:
            if not heard and timeout:
                heard = self._heard(name, timeout / len(awaited))
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

    def trouble(self) -> str:
        """Of the sinks that owe receipts, each with its name."""
        troubles = ((name, self._sinks[name].trouble()) for name in self._owing)
        return "; ".join(f"{name}: {trouble or 'nothing was acknowledged'}" for name, trouble in troubles)

    @property
    def _owing(self) -> list[str]:
        return [name for name in self._sinks if self._owed[name]]

    @property
    def _ending(self) -> bool:
        return len(self._sinks) < len(self._all)

    def _heard(self, name: str, timeout: float) -> list[Receipt | Refusal]:
        heard: list[Receipt | Refusal] = []
        try:
            found = [*self._sinks[name].receipts(timeout)]
        except WalrelayError as error:
            self._error = self._error or error
            self._end(name)
            return []
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
            self._error = self._error or Fatal(f"the sink {name} has ended", hint=each.hint)
            self._end(name)
        return heard

    def _end(self, name: str) -> None:
        if self._sinks.pop(name, None) is not None:
            self._deadline = monotonic() + _OTHERS


class SinkHandles:
    """The handles of a relay's sinks as one, which has `SinkHandle`'s methods; topics are addresses.

    No transaction of a broker goes over several sinks, so there is no publishing exactly once, and no place for a
    position.
    """

    kind = "several"
    finds_newest = False
    """What one sink has may be missing in another: a recovery must not take it for published."""

    def __init__(self, handles: Mapping[str, SinkHandle]) -> None:
        self._handles = dict(handles)

    @property
    def names(self) -> tuple[str, ...]:
        """See `SinkHandle.names`."""
        return (*self._handles,)

    def refuse_unknown(self, topic: str) -> None:
        """See `SinkHandle.refuse_unknown`."""
        self._by_sink([topic])

    def open(self) -> Sink:
        """All of them, or none."""
        opened: dict[str, Sink] = {}
        try:
            for name, handle in self._handles.items():
                opened[name] = handle.open()
        except BaseException:
            for sink in opened.values():
                sink.close()
            raise
        return SeveralSinks(opened)

    def sink_of(self, topic: str | None) -> str:
        """See `SinkHandle.sink_of`."""
        name = sink_and_topic(topic or "")[0]
        return name if name in self._handles else self.kind

    def open_exactly_once(self, system: System, slot: str, counting: Counting | None = None) -> ExactlyOnceSink:
        self._refuse("publish exactly once")

    def open_positions(self, system: System, slot: str) -> PositionKeeper:
        self._refuse("keep a position in a topic")

    def examine_positions(self) -> Iterable[Finding]:
        self._refuse("keep a position in a topic")

    def examine(self, topics: Sequence[str]) -> Iterator[Finding]:
        """The findings of each sink, with its name."""
        topics_of = self._by_sink(topics)
        for name, handle in self._handles.items():
            for finding in handle.examine(topics_of.get(name, [])):
                yield finding._replace(subject=f"{name}: {finding.subject}", fix=_named(name, finding.fix))

    def newest(self, topics: Sequence[str], count: int) -> Recalled:
        return Recalled([], None)

    def reader(self, purpose: str) -> ReadBack:
        """Fatal if one of the sinks cannot be read."""
        readers = {name: handle.reader(f"{purpose}, for sink {name!r},") for name, handle in self._handles.items()}

        def read_back(topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
            for name, own in self._by_sink(topics).items():
                for each in readers[name](own, since_ms):
                    yield each._replace(topic=address(name, each.topic))

        return read_back

    def topic_streams(self, purpose: str) -> OpenStream:
        """Topics of one sink at a time."""

        def opened(topics: Sequence[str], since_ms: int) -> AbstractContextManager[TopicStream]:
            by_sink = self._by_sink(topics)
            if len(by_sink) > 1:
                raise Fatal(
                    f"{purpose} reads the topics of one sink as one stream, and {', '.join(topics)} are of several",
                    hint="Run it once for each sink.",
                )
            ((name, own),) = by_sink.items()
            return _addressed(name, self._handles[name].topic_streams(f"{purpose}, for sink {name!r},")(own, since_ms))

        return opened

    def make_topics(
        self, topics: Sequence[str], partitions: int, replication_factor: int | None
    ) -> Iterator[tuple[str, bool]]:
        """See `SinkPlugin.make_topics`."""
        by_sink = self._by_sink(topics)
        making = {
            name: self._handles[name].make_topics(own, partitions, replication_factor) for name, own in by_sink.items()
        }
        return ((address(name, topic), made) for name, each in making.items() for topic, made in each)

    def _by_sink(self, addresses: Iterable[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for each in addresses:
            name, topic = sink_and_topic(each)
            if name not in self._handles:
                raise _unknown(each, self._handles)
            found.setdefault(name, []).append(topic)
        return found

    def _refuse(self, what: str) -> NoReturn:
        raise Fatal(
            f"a relay with several sinks ({', '.join(self._handles)}) cannot {what}",
            hint="No transaction goes over several brokers. Give each sink a relay: walrelay docs several-sinks",
        )


AnySinkHandle = SinkHandle | SinkHandles


class _Addressed:
    """Implements `TopicStream` for topics of that sink."""

    def __init__(self, name: str, stream: TopicStream) -> None:
        self._name, self._stream = name, stream

    def next(self, timeout: float) -> TopicMessage | None:
        message = self._stream.next(timeout)
        return message and message._replace(topic=address(self._name, message.topic))

    @property
    def over(self) -> bool:
        return self._stream.over


@contextmanager
def _addressed(name: str, opened: AbstractContextManager[TopicStream]) -> Iterator[TopicStream]:
    with opened as stream:
        yield _Addressed(name, stream)


def _unknown(address: str, names: Iterable[str]) -> Fatal:
    first, *_ = names
    return Fatal(
        f"the topic {address!r} names no sink of this relay; its sinks are {', '.join(names)}",
        hint=f"Where a relay has several sinks a topic is written SINK:TOPIC, as in {first}:orders.",
    )


def _readdressed(message: Message, topic: str) -> Message:
    """The message at that topic, for the same record."""
    if isinstance(message, Offered):
        offered = _new(Offered, (topic, *message[1:]))
        offered.record, offered.number = message.record, message.number
        return offered
    return _new(Message, (topic, *message[1:]))


def _of_sink(name: str, refusal: Refusal) -> Refusal:
    message = _readdressed(refusal.message, address(name, refusal.message.topic))
    return refusal._replace(message=message, hint=_named(name, refusal.hint))


def _named(name: str, advice: str) -> str:
    return advice.replace(_MAKING, f"{_MAKING}{name}:")
