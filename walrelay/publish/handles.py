"""The handles of a relay's sinks as one: what `walrelay.publish.several` is for the sinks that are open."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NoReturn

from walrelay.errors import SinkError
from walrelay.model import Counting, Finding, Message, System, address, sink_and_topic
from walrelay.publish.contract import (
    ExactlyOnceSink,
    Expiry,
    Found,
    Labelled,
    PositionKeeper,
    Recalled,
    RecalledMessage,
    Sink,
    Span,
    TopicMessage,
    TopicStream,
)
from walrelay.publish.plugins import OpenStream, ReadBack, SinkHandle
from walrelay.publish.several import SeveralSinks, naming_sink, unknown_sink


class SinkHandles:
    """The handles of a relay's sinks as one, which has `SinkHandle`'s methods; topics are addresses.

    No transaction of a broker goes over several sinks, so there is no publishing exactly once, and no place for a
    position.
    """

    kind = "several"

    def __init__(self, handles: Mapping[str, SinkHandle]) -> None:
        self._handles = dict(handles)

    @property
    def names(self) -> tuple[str, ...]:
        """See `SinkHandle.names`."""
        return (*self._handles,)

    @property
    def kinds(self) -> dict[str, str]:
        """See `SinkHandle.kinds`."""
        return {name: handle.kind for name, handle in self._handles.items()}

    def watch(self) -> None:
        """See `SinkHandle.watch`."""
        for handle in self._handles.values():
            handle.watch()

    def client_numbers(self) -> Mapping[str, Labelled]:
        """See `SinkHandle.client_numbers`."""
        found = dict[str, dict[tuple[str, ...], float]]()
        for name, handle in self._handles.items():
            for metric, each in handle.client_numbers().items():
                found.setdefault(metric, {}).update({(name, *labels[1:]): value for labels, value in each.items()})
        return found

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

    def place(self, message: Message) -> str | None:
        """See `SinkHandle.place`; with the sink's name."""
        name, topic = sink_and_topic(message.topic)
        found = self._handles[name].place(message._replace(topic=topic)) if name in self._handles else None
        return None if found is None else address(name, found)

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
                yield finding._replace(subject=f"{name}: {finding.subject}", fix=naming_sink(name, finding.fix))

    @property
    def finds_newest(self) -> bool:
        """Whether `newest` finds anything, in any of them."""
        return any(handle.finds_newest for handle in self._handles.values())

    def newest(self, topics: Sequence[str], count: int) -> Recalled:
        """Of each sink that has a way to do that."""
        messages, complete = list[RecalledMessage](), list[int | None]()
        for name, own in self._by_sink(topics).items():
            found = self._handles[name].newest(own, count)
            messages += [
                each if each.letter else each._replace(topic=address(name, each.topic)) for each in found.messages
            ]
            complete.append(found.complete_since_ms)
        known = [each for each in complete if each is not None]
        return Recalled(messages, max(known, default=0) if len(known) == len(complete) else None)

    @property
    def may_expire(self) -> bool:
        """Whether `expiry` finds anything, in any of them."""
        return any(handle.may_expire for handle in self._handles.values())

    def expiry(self, topics: Sequence[str]) -> Mapping[str, Expiry]:
        """See `SinkPlugin.expiry`."""
        found = {name: self._handles[name].expiry(own) for name, own in self._by_sink(topics).items()}
        return {address(name, topic): expiry for name, each in found.items() for topic, expiry in each.items()}

    def reader(self, purpose: str) -> ReadBack:
        """Fatal if one of the sinks cannot be read."""
        for name, handle in self._handles.items():
            handle.reader(f"{purpose}, for sink {name!r},")
        return self._read_back

    @property
    def readers(self) -> Mapping[str, ReadBack]:
        """See `SinkHandle.readers`."""
        return {name: self._read_back for name, handle in self._handles.items() if handle.readers}

    def _read_back(self, topics: Sequence[str], since_ms: int) -> Iterator[Found | Span]:
        for name, own in self._by_sink(topics).items():
            for each in self._handles[name].readers[""](own, since_ms):
                yield each._replace(topic=address(name, each.topic))

    def topic_streams(self, purpose: str) -> OpenStream:
        """Topics of one sink at a time."""

        def opened(topics: Sequence[str], since_ms: int) -> AbstractContextManager[TopicStream]:
            by_sink = self._by_sink(topics)
            if len(by_sink) > 1:
                raise SinkError(
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

    def made_as(self, topic: str) -> str:
        """See `SinkHandle.made_as`."""
        return self._handles[sink_and_topic(topic)[0]].made_as(topic)

    def _by_sink(self, addresses: Iterable[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for each in addresses:
            name, topic = sink_and_topic(each)
            if name not in self._handles:
                raise unknown_sink(each, self._handles)
            found.setdefault(name, []).append(topic)
        return found

    def _refuse(self, what: str) -> NoReturn:
        raise SinkError(
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
