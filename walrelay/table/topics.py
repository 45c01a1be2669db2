"""The topics that rows of the table go to by the rules of today, and how many rows to each."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from walrelay.decode.records import RowDecoder
from walrelay.errors import Unroutable
from walrelay.lsn import ZERO
from walrelay.model import OutboxRecord
from walrelay.postgres.snapshot import View
from walrelay.table.rows import OutboxRows
from walrelay.table.selection import Selection, TableDescription
from walrelay.wiring import Wiring, only

_UNROUTABLE = ""


class TopicGroup(NamedTuple):
    """How many rows become messages of one topic and type; times in microseconds since 1970, None where none is known.
    No topic: no rule routes them.
    """

    topic: str
    type: str
    rows: int
    first: int | None
    last: int | None


class RowsByTopic(NamedTuple):
    """`rows` of which `dropped` become no message; a row that becomes several is in several groups."""

    groups: list[TopicGroup]
    rows: int
    dropped: int


def row_topics(wiring: Wiring, view: View, table: TableDescription, selection: Selection) -> Iterator[str]:
    """Each topic once or more often; rows that no rule routes are left out."""
    topic_of = TopicOf(wiring, table)
    for values in OutboxRows(view, table, selection).distinct(topic_of.columns):
        yield from filter(None, topic_of.all(topic_of.record(values)))


def topic_groups(
    wiring: Wiring, view: View, table: TableDescription, selection: Selection, topic: str | None = None
) -> RowsByTopic:
    """The rows by topic (or all to the one that is given) and type, sorted."""
    topic_of = TopicOf(wiring, table, roles=("type",))
    counts: Counter[tuple[str, str]] = Counter()
    first, last = dict[tuple[str, str], int](), dict[tuple[str, str], int]()
    total = dropped = 0
    for *values, rows, earliest, latest in OutboxRows(view, table, selection).groups(topic_of.columns):
        record, number = topic_of.record(values), int(rows or 0)
        topics = dict.fromkeys(topic or each for each in topic_of.all(record))
        total, dropped = total + number, dropped + (0 if topics else number)
        for each in topics:
            key = (each, record.type or "")
            counts[key] += number
            if earliest is not None and latest is not None:
                first[key] = min(first.get(key, int(earliest)), int(earliest))
                last[key] = max(last.get(key, 0), int(latest))
    groups = [TopicGroup(*key, counts[key], first.get(key), last.get(key)) for key in sorted(counts)]
    return RowsByTopic(groups, total, dropped)


def oldest_by_topic(groups: Iterable[TopicGroup]) -> dict[str, int]:
    """The time of the oldest row for each topic, where one is known."""
    oldest = dict[str, int]()
    for group in groups:
        if group.topic and group.first is not None:
            oldest[group.topic] = min(oldest.get(group.topic, group.first), group.first)
    return oldest


class TopicOf:
    """What names a row's topic, as a decoder of the columns that do."""

    def __init__(self, wiring: Wiring, table: TableDescription, roles: tuple[str, ...] = ()) -> None:
        """`roles`: to be among the columns besides."""
        self._rules = rules = wiring.rules
        self._topics = rules.topics_of()
        outbox = only(wiring.needed, {*rules.fields, *roles})._replace(extra=tuple(rules.naming_columns))
        self._decoder = RowDecoder(outbox, table.types, ZERO)
        self.columns = self._decoder.columns

    def record(self, values: "list[bytes | None] | tuple[bytes | None, ...]") -> OutboxRecord:
        """The record of a row, with what is among the columns."""
        return self._decoder.naming(values)

    def all(self, record: OutboxRecord) -> list[str]:
        """The topics of the record's messages; an empty name where no rule routes it; none for one that is dropped."""
        try:
            return self._topics(record)
        except Unroutable:
            return [_UNROUTABLE]

    def dropping(self, record: OutboxRecord) -> str | None:
        """The rule that drops a record without topics."""
        return self._rules.dropping(record)
