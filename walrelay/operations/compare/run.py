"""A comparison: reads the topics of both publishers, or the marked rows and the relay's topics, beside each other, and
pairs what they have.

The next message is always read from the side with fewer messages that wait for their counterpart. So neither side runs
ahead, whatever the timestamps say, and few messages are in memory.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from time import monotonic, time
from typing import NamedTuple

from walrelay.operations.compare.fields import ComparedField
from walrelay.operations.compare.marks import Marked, MarkedRows, RowStream
from walrelay.operations.compare.pairing import NEW, OLD, Comparing, Judging, Pairing, Side
from walrelay.operations.compare.report import CompareReport, Deviation
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.snapshot import View
from walrelay.publish import OpenStream, TopicMessage, TopicStream
from walrelay.wiring import Wiring

_MARGIN_MS = 600_000  # between the timestamps of a message and of its counterpart
_HOUR_MS = 3_600_000
_LOOK = 0.1  # seconds for a message of a side that has none yet
_SIDES: tuple[Side, Side] = (OLD, NEW)


class CompareRequest(NamedTuple):
    """What to compare: pairs of topics (old, new), or the topics of the rules with the rows that are `marked`; messages
    since (None: from where both sides begin; with `marked` at most an hour) and before a time (None: now; with `marked`
    less the patience). `follow`: whatever comes, until it is stopped; not with `marked`. `patience`: seconds to wait
    for a counterpart.
    """

    topics: Sequence[tuple[str, str]]
    ids: tuple[ComparedField, ComparedField]
    since: datetime | None = None
    until: datetime | None = None
    follow: bool = False
    patience: float = 10.0
    ignored: Sequence[str] = ()
    created: ComparedField | None = None
    window: int = 100_000
    listed: int = 10
    marked: Marked | None = None

    def rules(self, topics: Sequence[tuple[str, str]]) -> Comparing:
        marks = self.marked is not None
        return Comparing(topics, self.ids, self.ignored, self.created, marks, self.window, self.listed)


@contextmanager
def comparing(
    wiring: Wiring, request: CompareRequest, stop: Callable[[], bool]
) -> Iterator[tuple[Iterator[Deviation], CompareReport]]:
    """The deviations, to be iterated over for as long as it may go on, and the report so far. Changes nothing."""
    open_stream = wiring.sink.topic_streams("`walrelay compare`")
    since_ms = None if request.since is None else _ms(request.since)
    with ExitStack() as stack:
        if request.marked is None:
            pairing, streams = _of_topics(request, open_stream, since_ms, stack)
        else:
            pairing, streams = _of_marks(wiring, request, request.marked, open_stream, since_ms, stack)
        yield _Comparison(streams, pairing, request, stop).deviations(), pairing.report


_Begun = tuple[Pairing, Sequence[TopicStream]]


def _of_topics(request: CompareRequest, open_stream: OpenStream, since_ms: int | None, stack: ExitStack) -> _Begun:
    until_ms = None if request.follow else _ms(request.until) if request.until else int(time() * 1000)
    topics = [*dict.fromkeys(old for old, _ in request.topics)], [*dict.fromkeys(new for _, new in request.topics)]
    begin_ms = _beginning(open_stream, topics) if since_ms is None else since_ms
    streams = [stack.enter_context(open_stream(names, max(0, begin_ms - _MARGIN_MS))) for names in topics]
    return Pairing(request.rules(request.topics), Judging(since_ms, until_ms)), streams


def _of_marks(
    wiring: Wiring,
    request: CompareRequest,
    marked: Marked,
    open_stream: OpenStream,
    since_ms: int | None,
    stack: ExitStack,
) -> _Begun:
    """The first message of NEW is of the first transaction in the slot. What was written later is in the slot too."""
    now_ms = int(time() * 1000)
    until_ms = _ms(request.until) if request.until else now_ms - int(request.patience * 1000)
    catalog = stack.enter_context(Catalog(wiring.dsn))
    rows = MarkedRows(wiring, catalog, marked)
    topics = rows.topics(now_ms - _HOUR_MS if since_ms is None else since_ms)
    begin_ms = max(now_ms - _HOUR_MS, _beginning(open_stream, [topics])) if since_ms is None else since_ms
    pairing = Pairing(request.rules([(each, each) for each in topics]), Judging(begin_ms, until_ms))
    view = stack.enter_context(View(wiring.dsn, catalog))
    old = RowStream(rows.messages(view, begin_ms - _MARGIN_MS, pairing.report.latency[OLD]))
    return pairing, [old, stack.enter_context(open_stream(topics, max(0, begin_ms - _MARGIN_MS)))]


def _beginning(open_stream: OpenStream, topics: Sequence[Sequence[str]]) -> int:
    """The time from which on both sides have messages; now, if one has none."""
    begun = []
    for names in topics:
        with open_stream(names, 0) as stream:
            first = _first(stream)
            begun.append(int(time() * 1000) if first is None else first.timestamp_ms)
    return max(begun)


def _first(stream: TopicStream) -> TopicMessage | None:
    while (message := stream.next(_LOOK)) is None and not stream.over:
        pass
    return message


class _Comparison:
    """Takes turns between the two streams."""

    def __init__(
        self, streams: Sequence[TopicStream], pairing: Pairing, request: CompareRequest, stop: Callable[[], bool]
    ) -> None:
        self._streams, self._pairing, self._request, self._stop = streams, pairing, request, stop
        self._over_since: float | None = None

    def deviations(self) -> Iterator[Deviation]:
        """To the end, or until it is to stop."""
        while not self._stop() and not self._at_the_end():
            if (taken := self._next()) is not None:
                yield from self._pairing.add(*taken, monotonic())
            if self._request.follow and self._over_since is not None:
                yield from self._pairing.give_up(monotonic() - self._request.patience)
        if not self._request.follow and not self._stop():
            yield from self._pairing.give_up(float("inf"))
        self._pairing.stop()

    def _next(self) -> tuple[Side, TopicMessage] | None:
        for side in sorted(_SIDES, key=self._pairing.waiting):
            if (message := self._streams[side].next(_LOOK)) is not None:
                return side, message
        return None

    def _at_the_end(self) -> bool:
        """Not with `follow`. What is behind the end is read for as long as a message waits for its counterpart."""
        if self._over_since is None:
            if not all(stream.over for stream in self._streams):
                return False
            self._over_since = monotonic()
        if self._request.follow:
            return False
        return not self._pairing.judged_waits or monotonic() - self._over_since > self._request.patience


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
