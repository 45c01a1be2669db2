"""The rows that another publisher marked as published, as a stream of the messages that today's rules make of them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from walrelay.decode.records import RowDecoder
from walrelay.errors import Fatal, Undecodable, Unroutable
from walrelay.lsn import ZERO
from walrelay.model import Message, OutboxRecord
from walrelay.operations.compare.pairing import OWN_HEADER
from walrelay.operations.compare.report import NO_TOPIC, ROW, Latency
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.snapshot import View
from walrelay.publish import TopicMessage
from walrelay.route import Routing
from walrelay.table.filters import Filters, filter_condition
from walrelay.table.published import TIMES, written_time
from walrelay.table.rows import OutboxRows, refuse_sql
from walrelay.table.selection import RowCondition, Selection, Term, all_of, describe_table, verbatim
from walrelay.table.topics import row_topics
from walrelay.wiring import Wiring

_INT8 = 20


class Marked(NamedTuple):
    """SQL over the outbox: of which rows the mark is set, and when it was (empty: not known)."""

    where: str
    at: str = ""


class MarkedRows:
    """The marked rows that were written since a time."""

    def __init__(self, wiring: Wiring, catalog: Catalog, marked: Marked) -> None:
        """Fatal where the SQL of `marked` does not suit the table, or the rows have no time."""
        self._wiring, self._catalog, self._marked = wiring, catalog, marked
        table, created_at = describe_table(catalog, wiring), wiring.outbox.columns.created_at or ""
        if table.types.get(created_at) not in TIMES:  # the commit's time is that of the mark, which is another version
            raise Fatal(
                f"--marked needs the time of each row, and {wiring.table} has no column for it",
                hint="Map outbox.columns.created_at to a column of type timestamptz or timestamp.",
            )
        self._table = table._replace(time=written_time(table, created_at))
        for option, text, condition, kind, example in (
            ("--marked", marked.where, marked.where, "an SQL condition", "published_at IS NOT NULL"),
            ("--marked-at", marked.at, f"{self._at} > 0", "a time", "published_at"),
        ):
            if text:
                refuse_sql(catalog, wiring, f"{option} {text!r}", condition, f"{kind} over the columns", example)

    def topics(self, since_ms: int) -> list[str]:
        """Of the rules, and of these rows by the rules."""
        with View(self._wiring.dsn, self._catalog) as view:
            found = row_topics(self._wiring, view, self._table, self._selection(since_ms))
            return sorted({*self._wiring.rules.whole_topics, *found})

    def messages(self, view: View, since_ms: int, latency: Latency) -> Iterator[TopicMessage]:
        """In the table's order, without positions; the timestamp is the row's time. What lies between that and the time
        of the mark, if that is known, goes into `latency`.
        """
        table = self._table
        if self._marked.at:  # as the last term of the order it decides nothing, and comes with the row
            table = table._replace(order=(*table.order, Term("mark", self._at, "int8", _INT8)))
        decoder, router = RowDecoder(self._wiring.needed, table.types, ZERO), self._wiring.router(self._catalog)
        number = 0
        for batch in OutboxRows(view, table, self._selection(since_ms)).batches(decoder.columns):
            for row in batch:
                written_ms = row.committed_at // 1000
                if self._marked.at and (at := row.key[-1]) is not None:
                    latency.add(int(at) - written_ms)
                for each in _made(router, decoder.decode(row.values, row.committed_at)):
                    headers = tuple(header for header in each.headers if header[0] != OWN_HEADER)
                    yield TopicMessage(each.topic, ROW, number, written_ms, False, each.key, each.value, headers)
                    number += 1

    @property
    def _at(self) -> str:
        return f"floor(extract(epoch FROM ({verbatim(self._marked.at)})) * 1000)::int8"

    def _selection(self, since_ms: int) -> Selection:
        since = Filters(since=datetime.fromtimestamp(max(0, since_ms) / 1000, UTC).isoformat())
        where = RowCondition(verbatim(self._marked.where))
        return Selection(also=all_of(filter_condition(self._table, {}, since), where))


class RowStream:
    """Implements `walrelay.publish.TopicStream` over messages that are there."""

    def __init__(self, messages: Iterator[TopicMessage]) -> None:
        self._messages = messages
        self.over = False

    def next(self, timeout: float) -> TopicMessage | None:
        message = next(self._messages, None)
        self.over = message is None
        return message


def _made(router: Routing, record: OutboxRecord) -> tuple[Message, ...]:
    """A row that today's rules refuse is a message without a topic, whose value says why."""
    try:
        return tuple(router.route(record))
    except (Unroutable, Undecodable) as why:
        id_ = record.id.encode("utf-8", "surrogateescape")
        return (Message(NO_TOPIC, None, str(why).encode("utf-8", "surrogateescape"), [("id", id_)], 0),)
