"""The rows of the table that are asked for, the latest first, with what the table itself says of each."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from walrelay.decode.records import as_text
from walrelay.errors import WalrelayError
from walrelay.identifiers import identifier
from walrelay.operations.find.question import RowQuestion, key_of, page_of
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.parts import not_delivered
from walrelay.postgres.sizes import size
from walrelay.postgres.snapshot import View
from walrelay.table.filters import Filters, filter_condition
from walrelay.table.published import TIMES
from walrelay.table.selection import (
    COMMIT,
    RowCondition,
    all_of,
    comes_before,
    describe_table,
    id_text,
    quoted,
    verbatim,
    xid8,
)
from walrelay.table.topics import TopicOf
from walrelay.wiring import Wiring

_TEXT, _INT8, _BOOL = 25, 20, 16
_LARGE = 8 * 2**20  # bytes of a table; to read a smaller one takes a moment
_SAMPLE = 64 * 2**20  # bytes of it that are read for the topics of its rows
_SHOWN = ("aggregate_type", "aggregate_id", "type")


class TableRow(NamedTuple):
    """A row as the table has it. Times in microseconds since 1970, `xid`: of the transaction that wrote it, `part`: the
    OID of its table. `topics`: those of its messages; an empty name where no rule routes it; None: not known.
    `dropped_by`: what keeps it from being published; `marked`: its column says that it was.
    """

    id: str
    aggregate_type: str | None
    aggregate_id: str | None
    type: str | None
    written_at: int | None
    committed_at: int | None
    xid: int
    part: int
    marked: bool
    topics: tuple[str, ...] | None
    dropped_by: str


class RowsOfTable(NamedTuple):
    """`next`: `after` for the rows behind them."""

    rows: list[TableRow]
    next: str | None
    notices: list[str]


class RowSearch:
    """Finds rows in one snapshot."""

    def __init__(self, wiring: Wiring, catalog: Catalog, view: View) -> None:
        self._wiring, self._catalog, self._view = wiring, catalog, view
        self._table = describe_table(catalog, wiring)
        inherited = not_delivered(catalog, wiring.table)
        self._notices = [f"{inherited}; `walrelay doctor` has the statements"] if inherited else []
        self._topic_of = self._made_topic_of()

    def find(self, question: RowQuestion) -> RowsOfTable:
        """Those that the question asks for, at most `limit`."""
        table = self._table
        if table.id not in table.types:
            where = f"{self._wiring.table} has no column {table.id!r}" if table.types else "there is no such table"
            return RowsOfTable([], None, [f"the table was not searched: {where}"])
        asked = self._condition(question)
        listed, types = self._columns()
        order = ", ".join(f"{term.expression} DESC NULLS LAST" for term in table.order)
        only = "" if table.partitioned else "ONLY "
        query = (
            f"SELECT {', '.join(listed)} FROM {only}{table.name} AS o WHERE {asked.text} ORDER BY {order}"
            f" LIMIT {question.limit + 1:d}"
        )
        if (bytes_read := self._reads_all(query, asked.parameters)) >= _LARGE:
            what = f"no index answers this question: the whole table was read ({size(bytes_read)})"
            self._notices.append(f"{what}. {self._index(question)}")
        found = [*self._view.stream(query, asked.parameters, types)]
        page = found[: question.limit]
        width = len(table.order)
        more = page_of(page[-1][-width:]) if len(found) > question.limit else None
        return RowsOfTable([self._row(values) for values in page], more, self._notices)

    def topics(self) -> tuple[set[str], list[str]]:
        """Those that rows of the table go to, by a sample of them if it is large; and what that leaves out."""
        table, topic_of = self._table, self._topic_of
        if topic_of is None or not topic_of.columns or table.id not in table.types:
            return set(), self._notices
        listed = ", ".join(f"o.{quoted(each)}" for each in topic_of.columns)
        share, sample = 100 * _SAMPLE / max(1, self._size()), ""
        if share < 100:
            sample = f"TABLESAMPLE SYSTEM ({share:.4f})"
            self._notices.append("which topics rows go to was found out by a sample of them: name others to read")
        query = f"SELECT DISTINCT {listed} FROM {table.name} AS o {sample}"
        types = [table.types[each] for each in topic_of.columns]
        records = (topic_of.record(values) for values in self._view.stream(query, [], types))
        return {topic for record in records for topic in topic_of.all(record) if topic}, self._notices

    def _made_topic_of(self) -> TopicOf | None:
        """None where the table does not suit the rules."""
        try:
            return TopicOf(self._wiring, self._table)
        except WalrelayError as why:
            self._notices.append(f"where rows go is not known: {why}")
            return None

    def _condition(self, question: RowQuestion) -> RowCondition:
        table, columns = self._table, self._wiring.outbox.columns._asdict()
        aggregates = [] if question.aggregate is None else [question.aggregate]
        filters = Filters(aggregates=aggregates, ids=list(question.ids) or None)
        conditions = [filter_condition(table, columns, filters)]
        created_at = self._created_at
        for time, name, operator in ((question.since, "since", ">="), (question.until, "until", "<")):
            if time is None:
                continue
            if created_at:  # alone, so that its index can be used
                conditions.append(RowCondition(f"{created_at} {operator} %s::timestamptz", [time.isoformat()]))
            else:
                by_commit: Any = {name: time.isoformat()}
                conditions.append(filter_condition(table, columns, Filters(**by_commit)))
        if question.after:
            text, keys = comes_before(table.order, key_of(question.after, len(table.order)))
            conditions.append(RowCondition(text, keys))
        return all_of(*conditions)

    def _index(self, question: RowQuestion) -> str:
        """The statement that makes one that would."""
        columns = self._wiring.outbox.columns
        wanted = [columns.id] if question.ids else []
        if question.aggregate is not None and not wanted:
            wanted = [columns.aggregate_type, columns.aggregate_id][: 1 if question.aggregate[1] is None else 2]
        named = ", ".join(identifier(each) for each in wanted or [columns.created_at] if each)
        if not named:
            return "Times of commits have no index"
        concurrently = "" if self._table.partitioned else "CONCURRENTLY "
        return f"To make it fast: CREATE INDEX {concurrently}ON {self._wiring.table} ({named});"

    @property
    def _created_at(self) -> str:
        column = self._wiring.outbox.columns.created_at
        return f"o.{quoted(column)}" if column and self._table.types.get(column) in TIMES else ""

    def _columns(self) -> tuple[list[str], list[int]]:
        """Expressions, and the OIDs of their types: what names the topics, what is shown, facts, the place in order."""
        table, marks = self._table, self._wiring.marks
        naming = [] if self._topic_of is None else self._topic_of.columns
        columns = self._wiring.outbox.columns._asdict()
        shown = [f"o.{quoted(name)}::text" if (name := columns[role]) in table.types else "NULL" for role in _SHOWN]
        facts = [
            (_microseconds(f"{self._created_at}::timestamptz" if self._created_at else "NULL::timestamptz"), _INT8),
            (_microseconds(COMMIT.expression if table.commits else "NULL::timestamptz"), _INT8),
            (xid8(self._view.xmax), _INT8),
            ("o.tableoid::int8", _INT8),
            (f"({verbatim(marks.where)}) IS NOT TRUE" if marks else "false", _BOOL),
            (f"({verbatim(table.condition)}) IS TRUE" if table.condition else "true", _BOOL),
        ]
        listed = [*(f"o.{quoted(each)}" for each in naming), id_text(table), *shown, *(text for text, _ in facts)]
        types = [*(table.types[each] for each in naming), *[_TEXT] * 4, *(oid for _, oid in facts)]
        for term in table.order:
            listed.append(term.expression)
            types.append(term.oid)
        return listed, types

    def _row(self, values: Sequence[bytes | None]) -> TableRow:
        topic_of = self._topic_of
        naming = 0 if topic_of is None else len(topic_of.columns)
        id_, aggregate_type, aggregate_id, type_ = (
            None if each is None else as_text(each) for each in values[naming : naming + 4]
        )
        written_at, committed_at, xid, part, marked, published = values[naming + 4 : naming + 10]
        topics, dropped_by = None, ""
        if topic_of is not None:
            record = topic_of.record([*values[:naming]])
            topics = tuple(dict.fromkeys(topic_of.all(record)))
            if not topics:
                rule = topic_of.dropping(record)
                dropped_by = f"the rule {rule!r} drops it" if rule else "a rule drops it"
        if published != b"t":
            dropped_by = f"the publication {self._wiring.publication!r} leaves it out, by its row filter"
        return TableRow(
            id_ or "",
            aggregate_type,
            aggregate_id,
            type_,
            _number(written_at),
            _number(committed_at),
            int(xid or 0),
            int(part or 0),
            marked == b"t",
            topics,
            dropped_by,
        )

    def _reads_all(self, query: str, parameters: Sequence[Any]) -> int:
        """How many bytes of the table are read if no index can answer; 0 where one can."""
        view = self._view
        view.rows("SELECT set_config('enable_seqscan', 'off', true)")
        ((plan,),) = view.rows(f"EXPLAIN (FORMAT JSON) {query}", parameters)
        view.rows("SELECT set_config('enable_seqscan', 'on', true)")
        if all(map(_is_looked_up, _scans(plan[0]["Plan"]))):
            return 0
        return self._size()

    def _size(self) -> int:
        """Bytes of the table and its partitions."""
        ((found,),) = self._view.rows(
            "SELECT coalesce((SELECT sum(pg_relation_size(relid)) FROM pg_partition_tree(to_regclass(%s))"
            " WHERE isleaf), pg_relation_size(to_regclass(%s)))::int8",
            [self._wiring.table] * 2,
        )
        return int(found or 0)


def _scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes of a plan that read a table."""
    below = plan.get("Plans", [])
    if not below and ("Relation Name" in plan or "Index Name" in plan):
        yield plan
    for each in below:
        yield from _scans(each)


def _is_looked_up(scan: dict[str, Any]) -> bool:
    return "Index Cond" in scan or scan["Node Type"] == "Tid Scan"


def _microseconds(time: str) -> str:
    return f"CASE WHEN isfinite({time}) THEN (extract(epoch FROM {time}) * 1000000)::int8 END"


def _number(value: bytes | None) -> int | None:
    return None if value is None else int(value)
