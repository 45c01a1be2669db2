"""Pairs the messages of two publishers, and says what differs. Pure.

Two messages in corresponding topics are a pair if they have the same id, or, where one of them has none, the same key
and value. A message waits for its counterpart; so many wait at most, and then the oldest is given up: its counterpart
may then be in any topic. Messages that come again with an id, to the same topic, are counted as repetitions: any
publisher that delivers at least once makes them.

The order is judged within a key: of two pairs, the one that is completed later must be later on both sides. That needs
no memory of single messages: pairs that are in order on both sides are completed in that order, however the two
readings run beside each other.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from walrelay.operations.compare.fields import ComparedField, milliseconds
from walrelay.operations.compare.report import NO_HEADER, NO_TOPIC, CompareReport, Deviation, Difference, differences
from walrelay.operations.compare.waiting import KeyOrder, WaitingMessage, WaitingSide, content_of, lanes
from walrelay.publish import TopicMessage

Side = Literal[0, 1]
OLD: Side = 0
NEW: Side = 1
OWN_HEADER = "position"  # which no other publisher can give


class Judging(NamedTuple):
    """Which messages have to have a counterpart: those since (None: after the first pair of their partition) and before
    these times, in milliseconds since 1970.
    """

    since_ms: int | None = None
    until_ms: int | None = None


class Comparing(NamedTuple):
    """How messages are compared. `topics`: pairs of an old and a new one. `ids`: where the id is, on each side.
    `ignored`: patterns of headers, besides OWN_HEADER where OLD has none. `marks`: OLD is rows, in no order; the
    timestamp is when they were written. `window`: how many messages wait on a side. `listed`: deviations of each kind.
    """

    topics: Sequence[tuple[str, str]]
    ids: tuple[ComparedField, ComparedField] = (ComparedField("header", ("id",)), ComparedField("header", ("id",)))
    ignored: Sequence[str] = ()
    created: ComparedField | None = None
    marks: bool = False
    window: int = 100_000
    listed: int = 10


class Pairing:
    """Collects messages of both sides, and what is to be said about them."""

    def __init__(self, rules: Comparing, judging: Judging) -> None:
        self._rules, self._judging = rules, judging
        self._sides = WaitingSide(rules.window), WaitingSide(rules.window)
        self._lanes, self._order = lanes(rules.topics), KeyOrder(rules.window)
        self._all_lanes = [*dict.fromkeys((*self._lanes[OLD].values(), *self._lanes[NEW].values(), None))]
        self._listed = Counter[str]()
        self.report = CompareReport()

    def waiting(self, side: Side) -> int:
        """How many messages of this side wait."""
        return len(self._sides[side])

    @property
    def judged_waits(self) -> bool:
        """Whether a message waits that has to have a counterpart."""
        return any(self._judged(side, each) for side in (OLD, NEW) for each in self._sides[side].all())

    def add(self, side: Side, message: TopicMessage, now: float) -> Iterator[Deviation]:
        """Each side's messages in the order of their partitions; `now` in seconds, of any clock that never goes
        back.
        """
        self.report.read[side] += 1
        mine, lane = self._sides[side], self._lanes[side].get(message.topic)
        waiting = WaitingMessage(message, lane, self._rules.ids[side].of(message), content_of(message), now)
        if mine.repeats(waiting):
            self.report.repeated[side] += 1
            return
        found = self._sides[1 - side].counterpart(waiting, self._all_lanes if lane is None else (lane, None))
        if found is not None:
            yield from self._pair(side, waiting, found)
            return
        mine.wait(waiting)
        while mine.is_full:
            yield from self._given_up(side, full=True)

    def give_up(self, read_before: float) -> Iterator[Deviation]:
        """Those that wait since before that time."""
        for side in (OLD, NEW):
            while (oldest := self._sides[side].oldest()) is not None and oldest.read_at < read_before:
                yield from self._given_up(side)

    def stop(self) -> None:
        """What still waits is neither here nor there."""
        self.report.waiting = [len(self._sides[OLD]), len(self._sides[NEW])]

    def _given_up(self, side: Side, *, full: bool = False) -> Iterator[Deviation]:
        """The oldest. What has no counterpart where it should may have it in another topic."""
        waiting = self._sides[side].give_up()
        found = self._sides[1 - side].counterpart(waiting, self._all_lanes)
        yield from self._without(side, waiting, full=full) if found is None else self._pair(side, waiting, found)

    def _pair(self, side: Side, waiting: WaitingMessage, other: WaitingMessage) -> Iterator[Deviation]:
        old, new = (waiting, other) if side == OLD else (other, waiting)
        self._sides[OLD].paired(old)
        self._sides[NEW].paired(new)
        report, name = self.report, old.id or new.id or ""
        report.pairs += 1
        self._measure(old.message, new.message)
        found = [*self._differences(old.message, new.message)]
        behind = None if self._rules.marks else self._order.behind(old.message, new.message, name)
        if behind is not None:
            found.append(Difference("order", f"beside {behind}" if behind else "", "the other way round"))
        if not found:
            report.identical += 1
            return
        report.differing.update(each.what for each in found)
        yield from self._told(Deviation("differs", name, old.message, new.message, tuple(found)))

    def _differences(self, old: TopicMessage, new: TopicMessage) -> Iterator[Difference]:
        if old.topic == NO_TOPIC:
            yield Difference("topic", f"none: {(old.value or b'').decode('utf-8', 'backslashreplace')}", new.topic)
            return
        if (old.topic, new.topic) not in self._rules.topics:
            yield Difference("topic", old.topic, new.topic)
        for each in differences(old, new):
            if self._is_ignored(each):
                self.report.ignored[each.what] += 1
            else:
                yield each

    def _is_ignored(self, difference: Difference) -> bool:
        kind, _, name = difference.what.partition(" ")
        if kind != "header":
            return False
        own = name == OWN_HEADER and difference.old == NO_HEADER
        return own or any(fnmatchcase(name, pattern) for pattern in self._rules.ignored)

    def _without(self, side: Side, waiting: WaitingMessage, *, full: bool) -> Iterator[Deviation]:
        if not self._judged(side, waiting):
            self.report.beside[side] += 1
            return
        self.report.alone[side] += 1
        self.report.given_up_early += full
        old, new = (waiting.message, None) if side == OLD else (None, waiting.message)
        yield from self._told(Deviation("only in OLD" if side == OLD else "only in NEW", waiting.id or "", old, new))

    def _judged(self, side: Side, waiting: WaitingMessage) -> bool:
        message, (since_ms, until_ms) = waiting.message, self._judging
        if until_ms is not None and message.timestamp_ms >= until_ms:
            return False
        if since_ms is not None:
            return message.timestamp_ms >= since_ms
        first = self._sides[side].first_pair.get((message.topic, message.partition))
        return first is not None and message.offset > first

    def _measure(self, old: TopicMessage, new: TopicMessage) -> None:
        """The relay gives its messages the time of the commit, unless the topic takes the broker's."""
        if self._rules.marks:
            if new.appended:
                self.report.latency[NEW].add(new.timestamp_ms - old.timestamp_ms)
            return
        field = self._rules.created
        created = None if field is None else milliseconds(field.of(old) or field.of(new))
        if created is None and field is None and not new.appended:
            created = new.timestamp_ms
        if created is None:
            return
        self.report.latency[OLD].add(old.timestamp_ms - created)
        if new.appended:
            self.report.latency[NEW].add(new.timestamp_ms - created)

    def _told(self, deviation: Deviation) -> Iterator[Deviation]:
        kind = f"{deviation.verdict} {' '.join(each.what for each in deviation.differences)}"
        self._listed[kind] += 1
        if self._listed[kind] <= self._rules.listed:
            yield deviation
