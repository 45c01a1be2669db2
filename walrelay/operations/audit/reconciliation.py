"""Compares the table with the topics: which rows arrived, how often, and whether in the order of their commits.
Pure.

An event is identified by 60 bits of its id's hash, so that it takes some 80 bytes: among a million, two are mistaken
for one another once in two million audits. The state of an event is one small number: a flag, and the count of its
messages, less those that are due besides the first.

Where rules make several messages of a record, what is due to each topic is an event of its own.

The positions of first deliveries must grow within a partition. Messages of a replay or a backfill are not checked:
their position is not that of a commit. A row of the period is compared with all messages before it, also those of other
times.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from walrelay.decode.records import is_from_table
from walrelay.lsn import LSN
from walrelay.model import RecordPosition
from walrelay.publish import Found, Span

_AGAIN, _ONE = 1, 2  # published from the table; a message of the stream
_REMEMBERED = 10_000  # messages that are out of order

_Place = tuple[LSN, int]


class Misplaced(NamedTuple):
    """A first delivery that came `behind` one with a later position; `key`: also behind a later one of its key."""

    found: Found
    behind: str
    key: bool = False


class Missing(NamedTuple):
    """A row that is in no topic; `topic` by today's rules."""

    id: str
    topic: str
    at_ms: int | None  # when it was committed; None: not known


class SetAside(NamedTuple):
    """A row that became a dead letter."""

    id: str
    position: str
    status: str
    error: str


class AuditTally:
    """Collects the events of a period (in milliseconds since 1970): first the rows, then the messages."""

    def __init__(
        self, since_ms: int, until_ms: int, listed: int, *, by_topic: bool = False, strangers: bool = True
    ) -> None:
        """`listed`: how many of each kind are listed. `by_topic`: a row may be due to several topics. `strangers`:
        messages without a row are counted.
        """
        self._since, self._until, self._listed, self._by_topic = since_ms, until_ms, listed, by_topic
        self._counts_strangers = strangers
        self._rows: dict[int, int] = {}
        self._strangers: dict[int, int] = {}
        self._beside: set[int] = set()
        self._letters: set[int] = set()  # ids in the topic for dead letters
        self._last: dict[tuple[str, int], tuple[_Place, str]] = {}
        self.rows = self.read = self.again = self.misplaced = 0
        self.out_of_order: list[Misplaced] = []
        self.repetitions: list[Found] = []
        self.unknown: list[Found] = []

    def expect(self, id_: str, topics: Sequence[str] = ("",)) -> None:
        """A row of the period that the relay has confirmed; with `by_topic` the topics of its messages."""
        self.rows += 1
        for topic in topics:
            event = self._event(id_, topic)
            self._rows[event] = self._rows[event] - _ONE if self._by_topic and event in self._rows else 0

    def beside(self, id_: str) -> None:
        """A row of the table that is not checked."""
        self._beside.add(_hash(id_))

    def found(self, each: Found) -> None:
        """A message, in the order of its partition."""
        self.read += 1
        if each.letter:
            self._letters.add(_hash(each.id))
            if self._by_topic:
                return  # it says nothing of the topic that it was meant for
        hash_, place = self._event(each.id, each.topic), RecordPosition.of_header(each.position)
        from_table = each.replayed or (place is not None and is_from_table(place[0]))
        events = self._events(hash_, each)
        if events is not None:
            self._count(events, hash_, each, from_table, place)
        if place is not None and not from_table and not each.letter:
            where = (each.topic, each.partition)
            if where not in self._last or place > self._last[where][0]:
                self._last[where] = place, each.position

    def _events(self, hash_: int, each: Found) -> dict[int, int] | None:
        """The event's slot in the counts; None: it is not of the period."""
        if hash_ in self._rows:
            return self._rows
        of_period = self._since <= each.timestamp_ms < self._until
        if not (self._counts_strangers and of_period) or (self._beside and _hash(each.id) in self._beside):
            return None
        if hash_ not in self._strangers:
            self._strangers[hash_] = 0
            self._keep(self.unknown, each)
        return self._strangers

    def _count(self, events: dict[int, int], hash_: int, each: Found, from_table: bool, place: _Place | None) -> None:
        code = events[hash_]
        if each.letter:
            return
        if from_table:
            self.again += 1
            events[hash_] = code | _AGAIN
        else:
            events[hash_] = code + _ONE
            if code >= _ONE:
                self._keep(self.repetitions, each)
            elif place is not None:
                self._judge(each, place)

    def _judge(self, each: Found, place: _Place) -> None:
        before = self._last.get((each.topic, each.partition))
        if before is not None and (place < before[0] or (place == before[0] and not self._by_topic)):
            self.misplaced += 1
            if len(self.out_of_order) < _REMEMBERED:
                self.out_of_order.append(Misplaced(each, before[1]))

    def _keep(self, kind: list[Found], each: Found) -> None:
        if len(kind) < self._listed:
            kind.append(each)

    def is_missing(self, id_: str, topic: str = "") -> bool:
        """Whether it is a row without a message; with `by_topic` without one that is due to that topic."""
        return _is_missing(self._rows.get(self._event(id_, topic), _ONE))

    def lacking(self, id_: str, topic: str = "") -> int:
        """How many messages of that row the topics do not have; with `by_topic` those that are due to that topic."""
        code = self._rows.get(self._event(id_, topic), _ONE)
        return 1 - code // _ONE if _is_missing(code) else 0

    def is_letter(self, id_: str) -> bool:
        """Whether it was found in a topic for dead letters."""
        return _hash(id_) in self._letters

    def _event(self, id_: str, topic: str) -> int:
        return _hash(f"{id_}\0{topic}" if self._by_topic else id_)

    @property
    def due(self) -> int:
        """What may be missing: rows, or with `by_topic` their messages."""
        return len(self._rows)

    @property
    def missing(self) -> int:
        return sum(map(_is_missing, self._rows.values()))

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    def times(self) -> dict[int, int]:
        """How many events came twice, three times and so on from the stream."""
        counted = Counter(code // _ONE for events in (self._rows, self._strangers) for code in events.values())
        return {times: events for times, events in sorted(counted.items()) if times > 1}


def within_keys(misplaced: Iterable[Misplaced], messages: Iterable[Found | Span]) -> list[Misplaced]:
    """Sets for each whether it is behind a later message of its own key; `messages` are read again for that."""
    told = {_where(each.found): each for each in misplaced}
    last: dict[tuple[str, int, bytes | None], _Place] = {
        (each.found.topic, each.found.partition, each.found.key): (LSN(0), 0)
        for each in told.values()
        if each.found.key is not None
    }
    for each in messages:
        if isinstance(each, Span) or (key := (each.topic, each.partition, each.key)) not in last:
            continue
        place = RecordPosition.of_header(each.position)
        if place is None or each.replayed or each.letter or is_from_table(place[0]):
            continue
        if (found := told.get(_where(each))) is not None and place < last[key]:
            told[_where(each)] = found._replace(key=True)
        last[key] = max(last[key], place)
    return list(told.values())


class AuditReport(NamedTuple):
    """The result of an audit. Times are ISO 8601; the first few of each kind are listed, the rest is counted."""

    since: str
    until: str  # empty: up to what the relay has confirmed
    delivery: str
    rows: int  # that were checked
    due: int  # what was looked for: these rows, or what rules make of them in several topics
    several: bool  # rules may make several messages of a row; what is counted below is messages then
    of_tenants: bool  # other messages without a row are not counted
    unconfirmed: int  # rows of the period that were not
    why: str  # nothing more is known to be confirmed
    messages: int
    spans: list[Span]
    missing: int
    missing_listed: list[Missing]
    before_slot: int  # of the missing rows: written before the slot was made
    removed: int  # of the missing rows: removed from the table while the topics were read
    set_aside: dict[str, int]  # status -> rows
    set_aside_listed: list[SetAside]
    misplaced: int
    misplaced_in_key: int
    misplaced_listed: list[Misplaced]
    repeated: dict[int, int]  # how often they came -> events
    repeated_listed: list[Found]
    again: int  # messages that a replay or a backfill published
    unknown: int  # events without a row in the table
    unknown_listed: list[Found]

    @property
    def faults(self) -> list[str]:
        """What violates the guarantees, for the verdict."""
        repeated = sum(self.repeated.values()) if self.delivery == "exactly_once" else 0
        counts = ((self.missing, "missing"), (self.misplaced, "out of order"), (repeated, "repeated"))
        return [f"{count} {what}" for count, what in counts if count]

    @property
    def verdict(self) -> str:
        if self.faults:
            return ", ".join(self.faults)
        return "all is well" if self.rows else "there were no rows to check"

    @property
    def hidden(self) -> list[Span]:
        """Partitions that could not be read to their end, because a transaction is open there."""
        return [span for span in self.spans if span.ended < span.high]

    def as_json(self) -> str:
        """One object; `ok` is whether the exit code is 0."""
        members = {name: _plain(value) for name, value in self._asdict().items()}
        return json.dumps({"ok": not self.faults, "faults": self.faults, **members})


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(member) for name, member in value._asdict().items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _is_missing(code: int) -> bool:
    return code < _ONE and not code & _AGAIN


def _hash(id_: str) -> int:
    return int.from_bytes(blake2b(id_.encode("utf-8", "surrogateescape"), digest_size=8).digest()) >> 4


def _where(found: Found) -> tuple[str, int, int]:
    return found.topic, found.partition, found.offset
