"""Pairs the messages of two publishers, and says what differs. Pure.

Two messages are a pair if they have the same id, or, where one of them has none, the same key and value. A message
waits for its counterpart; so many wait at most, and then the oldest is given up. Messages that come again with an id
are counted as repetitions: any publisher that delivers at least once makes them.

The order is judged within a key: of two pairs, the one that is completed later must be later on both sides. That needs
no memory of single messages: pairs that are in order on both sides are completed in that order, however the two
readings run beside each other.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from walrelay.operations.compare.fields import ComparedField, milliseconds
from walrelay.operations.compare.report import NO_HEADER, NO_TOPIC, CompareReport, Deviation, Difference, differences
from walrelay.publish import TopicMessage

Side = Literal[0, 1]
OLD: Side = 0
NEW: Side = 1
OWN_HEADER = "position"  # which no other publisher can give
_MOST_BYTES = 2**28  # of messages that wait on one side

_Where = tuple[str, int]


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


class _Waiting(NamedTuple):
    message: TopicMessage
    id: str | None
    content: bytes
    read_at: float


class _Side:
    """The messages of one side that wait, the oldest first, and the ids that were paired lately."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._waiting = OrderedDict[int, _Waiting]()
        self._by_id = dict[str, int]()
        self._alike = dict[tuple[bytes, bool], dict[int, None]]()  # by content, and whether they have an id
        self._paired = OrderedDict[str, None]()
        self._next = self.size = 0
        self.first_pair = dict[_Where, int]()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) > self._window or (self.size > _MOST_BYTES and len(self._waiting) > 1)

    def repeats(self, id_: str) -> bool:
        return id_ in self._by_id or id_ in self._paired

    def wait(self, waiting: _Waiting) -> None:
        number = self._next = self._next + 1
        self._waiting[number] = waiting
        self._alike.setdefault((waiting.content, waiting.id is not None), {})[number] = None
        if waiting.id is not None:
            self._by_id[waiting.id] = number
        self.size += _size(waiting.message)

    def counterpart(self, id_: str | None, content: bytes) -> _Waiting | None:
        """Of a message of the other side; it waits no more."""
        number = self._by_id.get(id_) if id_ is not None else None
        if number is None:
            having = (False,) if id_ is not None else (False, True)
            number = next((each for has_id in having for each in self._alike.get((content, has_id), ())), None)
        return None if number is None else self._remove(number)

    def oldest(self) -> _Waiting | None:
        return next(iter(self._waiting.values()), None)

    def give_up(self) -> _Waiting:
        """The oldest."""
        return self._remove(next(iter(self._waiting)))

    def paired(self, waiting: _Waiting) -> None:
        self.first_pair.setdefault((waiting.message.topic, waiting.message.partition), waiting.message.offset)
        if waiting.id is not None:
            self._paired[waiting.id] = None
            if len(self._paired) > self._window:
                self._paired.popitem(last=False)

    def all(self) -> Iterator[_Waiting]:
        return iter(self._waiting.values())

    def _remove(self, number: int) -> _Waiting:
        waiting = self._waiting.pop(number)
        content = waiting.content, waiting.id is not None
        del self._alike[content][number]
        if not self._alike[content]:
            del self._alike[content]
        if waiting.id is not None:
            del self._by_id[waiting.id]
        self.size -= _size(waiting.message)
        return waiting


class _Order:
    """The latest pair of each key, of the last so many keys."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._last = OrderedDict[Any, tuple[int, int, str]]()

    def behind(self, old: TopicMessage, new: TopicMessage, name: str) -> str | None:
        """The name of a pair that is later on one side and earlier on the other; None if there is none, or no key."""
        if old.key is None or new.key is None:
            return None
        key = old.topic, old.partition, new.topic, new.partition, old.key
        last_old, last_new, last_name = self._last.pop(key, (-1, -1, ""))
        self._last[key] = max(last_old, old.offset), max(last_new, new.offset), name
        if len(self._last) > self._window:
            self._last.popitem(last=False)
        return last_name if old.offset < last_old or new.offset < last_new else None


class Pairing:
    """Collects messages of both sides, and what is to be said about them."""

    def __init__(self, rules: Comparing, judging: Judging) -> None:
        self._rules, self._judging = rules, judging
        self._sides = _Side(rules.window), _Side(rules.window)
        self._order = _Order(rules.window)
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
        id_, mine, other = self._rules.ids[side].of(message), self._sides[side], self._sides[1 - side]
        if id_ is not None and mine.repeats(id_):
            self.report.repeated[side] += 1
            return
        waiting = _Waiting(message, id_, _content(message), now)
        found = other.counterpart(id_, waiting.content)
        if found is not None:
            yield from self._pair(*((waiting, found) if side == OLD else (found, waiting)))
            return
        mine.wait(waiting)
        while mine.is_full:
            yield from self._without(side, mine.give_up(), full=True)

    def give_up(self, read_before: float) -> Iterator[Deviation]:
        """Those that wait since before that time."""
        for side in (OLD, NEW):
            while (oldest := self._sides[side].oldest()) is not None and oldest.read_at < read_before:
                yield from self._without(side, self._sides[side].give_up())

    def stop(self) -> None:
        """What still waits is neither here nor there."""
        self.report.waiting = [len(self._sides[OLD]), len(self._sides[NEW])]

    def _pair(self, old: _Waiting, new: _Waiting) -> Iterator[Deviation]:
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

    def _without(self, side: Side, waiting: _Waiting, *, full: bool = False) -> Iterator[Deviation]:
        if not self._judged(side, waiting):
            self.report.beside[side] += 1
            return
        self.report.alone[side] += 1
        self.report.given_up_early += full
        old, new = (waiting.message, None) if side == OLD else (None, waiting.message)
        yield from self._told(Deviation("only in OLD" if side == OLD else "only in NEW", waiting.id or "", old, new))

    def _judged(self, side: Side, waiting: _Waiting) -> bool:
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


def _content(message: TopicMessage) -> bytes:
    hashed = blake2b(b"-" if message.key is None else b"%d:%s" % (len(message.key), message.key), digest_size=16)
    hashed.update(b"-" if message.value is None else b":" + message.value)
    return hashed.digest()


def _size(message: TopicMessage) -> int:
    return len(message.value or b"") + len(message.key or b"")
