"""Loads plug-ins: sinks by entry point, so that nothing in walrelay imports a broker's client unasked."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, cached_property, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from walrelay.errors import SinkError, WalrelayError
from walrelay.model import Counting, Finding, Message, System
from walrelay.publish.contract import (
    ExactlyOnce,
    ExactlyOnceSink,
    Expiry,
    Found,
    Labelled,
    PositionKeeper,
    ReadNumbers,
    Recalled,
    Sink,
    SinkPlugin,
    Span,
    TopicStream,
)

GROUP = "walrelay.sinks"

ReadBack = Callable[[Sequence[str], int], Iterator[Found | Span]]
"""(topics, since_ms), as `SinkPlugin.read_back` has it."""

OpenStream = Callable[[Sequence[str], int], AbstractContextManager[TopicStream]]
"""(topics, since_ms), as `SinkPlugin.topic_stream` has it."""


@cache
def entry_points_by_kind() -> dict[str, EntryPoint]:
    """Looked up once in a process: that reads a file of every installed package."""
    return {point.name: point for point in reversed([*entry_points(group=GROUP)])}  # the first of a name counts


def installed() -> list[str]:
    """The kinds of sink that are installed, sorted."""
    return sorted(entry_points_by_kind())


def load(kind: str) -> SinkPlugin:
    """The plug-in of that kind; Fatal when there is none."""
    point = entry_points_by_kind().get(kind)
    if point is None:
        raise SinkError(
            f"there is no sink of kind {kind!r}",
            hint=f"Installed are: {', '.join(installed())}. A sink of another package is found once it is installed.",
        )
    plugin: SinkPlugin = point.load()
    return plugin


class SinkHandle:
    """A kind of sink with its settings, and what the sinks of one relay learned in this process. What the kind cannot
    do is Fatal as soon as it is asked for.
    """

    def __init__(self, kind: str, settings: Any, plugin: SinkPlugin) -> None:
        self.kind = kind
        self._settings, self._plugin = settings, plugin
        self._watched = False
        self._numbers: ReadNumbers = dict

    names: tuple[str, ...] = ()
    """Of a relay's sinks, where it has several: the only sink has none."""

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds of a relay's sinks by their names; the only one has the name ""."""
        return {"": self.kind}

    def watch(self) -> None:
        """Somebody wants to know what the client library counts."""
        self._watched = True

    def client_numbers(self) -> Mapping[str, Labelled]:
        """By the names of metrics; the first label is the sink's name. Called by any thread."""
        return {
            metric: {("", *labels): value for labels, value in each.items()} for metric, each in self._numbers().items()
        }

    def sink_of(self, topic: str | None) -> str:
        """What dead letters of that topic have as their sink: its name, or the kind of the only one."""
        return self.kind

    @cached_property
    def place(self) -> Callable[[Message], str | None]:
        """Where a message goes at the broker; None: nowhere. See `SinkPlugin.place`."""
        place = self._plugin.place(self._settings)

        def place_or_none(message: Message) -> str | None:
            try:
                return place(message)
            except WalrelayError:
                return None

        return place_or_none

    def refuse_unknown(self, topic: str) -> None:
        """Fatal for a topic of a sink that the relay does not have."""

    def open(self) -> Sink:
        """See `SinkPlugin.open`."""
        return self._plugin.open(self._settings, self._memory)

    def open_exactly_once(self, system: System, slot: str, counting: Counting | None = None) -> ExactlyOnceSink:
        """See `ExactlyOnce.open`."""
        return self._exactly_once.open(self._settings, self._memory, system, slot, counting)

    def open_positions(self, system: System, slot: str) -> PositionKeeper:
        """See `ExactlyOnce.open_positions`."""
        return self._exactly_once.open_positions(self._settings, system, slot)

    def examine(self, topics: Sequence[str]) -> Iterable[Finding]:
        """See `SinkPlugin.examine`."""
        return self._plugin.examine(self._settings, topics)

    def examine_positions(self) -> Iterable[Finding]:
        """See `ExactlyOnce.examine_positions`."""
        return self._exactly_once.examine_positions(self._settings)

    @property
    def finds_newest(self) -> bool:
        """Whether `newest` finds anything."""
        return self._plugin.newest is not None

    def newest(self, topics: Sequence[str], count: int) -> Recalled:
        """See `SinkPlugin.newest`; nothing where the kind has no way to do that."""
        newest = self._plugin.newest
        return newest(self._settings, topics, count) if newest else Recalled([], None)

    @property
    def may_expire(self) -> bool:
        """Whether `expiry` finds anything."""
        return self._plugin.expiry is not None

    def expiry(self, topics: Sequence[str]) -> Mapping[str, Expiry]:
        """See `SinkPlugin.expiry`; nothing where no topic of the kind deletes that way."""
        expiry = self._plugin.expiry
        return expiry(self._settings, topics) if expiry and topics else {}

    def reader(self, purpose: str) -> ReadBack:
        """Reads topics again; see `SinkPlugin.read_back`. `purpose`: what that is for."""
        read_back = self._plugin.read_back
        if read_back is None:
            raise SinkError(
                f"{purpose} reads the topics, and a sink of kind {self.kind!r} cannot read them",
                hint="So far the sinks kafka and nats can.",
            )
        return partial(read_back, self._settings)

    @property
    def readers(self) -> Mapping[str, ReadBack]:
        """By the names of `kinds`, those sinks that can be read back; topics are addresses."""
        read_back = self._plugin.read_back
        return {} if read_back is None else {"": partial(read_back, self._settings)}

    def topic_streams(self, purpose: str) -> OpenStream:
        """Opens topics to read everything in them; see `SinkPlugin.topic_stream`. `purpose`: what that is for."""
        topic_stream = self._plugin.topic_stream
        if topic_stream is None:
            raise SinkError(
                f"{purpose} reads the topics, and a sink of kind {self.kind!r} cannot read them",
                hint="So far only the sink kafka can.",
            )
        return partial(topic_stream, self._settings)

    def make_topics(
        self, topics: Sequence[str], partitions: int, replication_factor: int | None
    ) -> Iterator[tuple[str, bool]]:
        """See `SinkPlugin.make_topics`."""
        if self._plugin.make_topics is None:
            raise SinkError(f"a sink of kind {self.kind!r} has no topics to make", hint="Leave --topics out.")
        return self._plugin.make_topics(self._settings, topics, partitions, replication_factor)

    def made_as(self, topic: str) -> str:
        """See `SinkPlugin.made_as`."""
        return self._plugin.made_as(self._settings)

    @cached_property
    def _memory(self) -> Any:
        """Made for the first sink: it may need the client library."""
        memory = self._plugin.memory()
        if self._watched and self._plugin.client_numbers is not None:
            self._numbers = self._plugin.client_numbers(memory)
        return memory

    @property
    def _exactly_once(self) -> ExactlyOnce:
        if self._plugin.exactly_once is None:
            raise SinkError(
                f"a sink of kind {self.kind!r} cannot publish exactly once",
                hint="Set delivery to at_least_once, and let consumers detect duplicates by the header `id`.",
            )
        return self._plugin.exactly_once
