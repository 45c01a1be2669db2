"""What a replay will publish. Changes nothing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from math import inf
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.lsn import LSN, ZERO
from walrelay.model import RecordPosition
from walrelay.operations.replay.journal import ReplayProgress, ReplayRequest, unfinished_replay
from walrelay.outcomes import SettledRows, settled_rows
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.snapshot import View
from walrelay.publish import Found
from walrelay.publish.expiry import Expired, expired_if_known
from walrelay.table.confirmed import confirmed_rows
from walrelay.table.filters import Filters, filter_condition
from walrelay.table.rows import OutboxRows, in_commit_order
from walrelay.table.selection import (
    Reached,
    RowCondition,
    Selection,
    TableDescription,
    all_of,
    describe_table,
    xid8,
)
from walrelay.table.topics import TopicGroup, oldest_by_topic, row_topics, topic_groups
from walrelay.wiring import Wiring

_MARGIN = timedelta(minutes=10)  # between the times of a row and of its message
_PATIENCE = 10.0  # seconds for the relay to confirm what was committed just before


class ReplayPlan(NamedTuple):
    """What will be done. `ids`: the events at the positions; the rest is for the report."""

    name: str
    replaying: ReplayProgress
    resumed: bool
    restart: bool
    ids: list[str] | None
    rows: int  # that are still to be published
    messages: int  # of these rows
    groups: list[TopicGroup]  # these messages
    dropped: int  # rows that a rule drops
    unconfirmed: int  # rows that the relay may not have confirmed
    why: str  # nothing more is known to be confirmed
    letters: int  # messages that are dead letters
    not_found: list[str]  # ids, or positions and ids, without a row
    expired: list[Expired]

    @property
    def left_out(self) -> list[str]:
        """Which rows match and are not published, and why."""
        told = []
        if self.unconfirmed:
            told.append(f"{_rows(self.unconfirmed, 'row')} that the relay may not have confirmed: {self.why}")
        if self.dropped:
            told.append(f"{_rows(self.dropped, 'row')} that a rule drops")
        if self.letters:
            told.append(f"{_rows(self.letters, 'dead letter')}: `walrelay dlq list`")
        return told

    @property
    def unknown(self) -> list[str]:
        """What was asked for by name and has no row."""
        return [f"{each}: the table has no such row" for each in self.not_found]


def _rows(count: int, one: str) -> str:
    return f"{count} {one if count == 1 else one + 's'}"


def plan_replay(
    wiring: Wiring,
    request: ReplayRequest,
    wait: Callable[[float], object],
    *,
    since: str | None = None,
    until: str | None = None,
    name: str | None = None,
    restart: bool = False,
) -> ReplayPlan:
    """Changes nothing. Fatal where it is not clear which rows to publish.

    `since`, `until`: the request's times (ISO 8601). `name`: made from the filters if None. `restart`: does not
    continue an earlier replay.
    """
    if request.topic is not None:
        wiring.sink.refuse_unknown(request.topic)
    with Catalog(wiring.dsn) as catalog, View(wiring.dsn, catalog) as view:
        catalog.refuse_standby()
        table = describe_table(catalog, wiring)
        name, begun = _begun(wiring, catalog, request, name, restart)
        known = confirmed_rows(catalog, view, wiring.slot, _PATIENCE, wait)
        replaying = begun or ReplayProgress(request, since, until, known.xmin)
        found = None
        if replaying.asked.positions is not None:
            found = _at_positions(wiring, view, table, replaying)
        ids = None if found is None else list(found)
        selected = selection(wiring, table, replaying, ids)
        filtered = Selection(also=_filters(wiring, table, replaying, ids))
        ordered, rest = _rest(view, table, replaying, selected)
        later = f"count(*) FILTER (WHERE {xid8(view.xmax)} >= {replaying.ceiling})"
        ((unconfirmed,),) = OutboxRows(view, table, filtered).ask(later)
        settled = settled_rows(wiring, catalog, view, table, selected, again=True)
        left = settled_rows(wiring, catalog, view, ordered, rest, again=True)
        by_topic = topic_groups(wiring, view, ordered, rest._replace(known=left.ids), replaying.asked.topic)
        groups = by_topic.groups if replaying.asked.topic else list(_without(by_topic.groups, left))
        return ReplayPlan(
            name=name,
            replaying=replaying,
            resumed=begun is not None,
            restart=restart,
            ids=ids,
            rows=by_topic.rows - by_topic.dropped,
            messages=sum(group.rows for group in groups),
            groups=groups,
            dropped=by_topic.dropped,
            unconfirmed=unconfirmed,
            why=known.why or ("a transaction was open when the replay was begun" if unconfirmed else ""),
            letters=settled.letters.total(),
            not_found=_not_found(view, table, replaying.asked.ids, found or {}),
            expired=expired_if_known(wiring.sink, oldest_by_topic(groups)),
        )


def _without(groups: Iterable[TopicGroup], settled: SettledRows) -> Iterator[TopicGroup]:
    """The groups less the messages that are dead letters."""
    for group in groups:
        if left := group.rows - settled.aside[group.topic, group.type]:
            yield group._replace(rows=left)


def selection(
    wiring: Wiring, table: TableDescription, replaying: ReplayProgress, ids: Sequence[str] | None
) -> Selection:
    """All rows of the replay, including those that are published already."""
    return Selection(ceiling=replaying.ceiling, also=_filters(wiring, table, replaying, ids))


def _begun(
    wiring: Wiring, catalog: Catalog, request: ReplayRequest, given: str | None, restart: bool
) -> tuple[str, ReplayProgress | None]:
    """The name of the replay, and its state if it was interrupted."""
    name = given or request.name
    found = unfinished_replay(catalog, wiring.slot, name, restart=restart)
    if found is None and not request.selects:
        raise Fatal(
            "nothing says which rows to publish again" + (f", and there is no replay {name}" if given else ""),
            hint="Give a filter, as in `walrelay replay --from 2h --type OrderPlaced`, or --all for every row.",
        )
    if found is not None and request not in (found.asked, ReplayRequest()):
        raise Fatal(
            f"there is an unfinished replay {name} of other rows",
            hint=f"`walrelay replay --name {name}` goes on with it, `--restart` forgets it; or choose another name.",
        )
    return name, found


def _filters(
    wiring: Wiring, table: TableDescription, replaying: ReplayProgress, ids: Sequence[str] | None
) -> RowCondition:
    asked = replaying.asked
    filters = Filters(
        since=replaying.since,
        until=replaying.until,
        aggregates=[
            (kind, id_ if colon else None) for kind, colon, id_ in (a.partition(":") for a in asked.aggregates)
        ],
        types=asked.types,
        ids=asked.ids or None,
        tenants=asked.tenants,
    )
    columns = wiring.outbox.columns._asdict()
    also = filter_condition(table, columns, filters)
    return also if ids is None else all_of(also, filter_condition(table, columns, Filters(ids=ids)))


def _rest(
    view: View, table: TableDescription, replaying: ReplayProgress, selected: Selection
) -> tuple[TableDescription, Selection]:
    """The rows that are left. If the order has changed, the place that was reached means nothing."""
    if replaying.reached is None:
        return table, selected
    ordered = in_commit_order(view, table, selected)
    if tuple(term.name for term in ordered.order) != replaying.order:
        return table, selected
    return ordered, selected._replace(reached=[Reached(replaying.ceiling, replaying.reached)])


def _at_positions(wiring: Wiring, view: View, table: TableDescription, replaying: ReplayProgress) -> dict[str, str]:
    """Reads the topics and returns the positions of the messages in the range, by id."""
    first, last = position_range(replaying.asked.positions or "")
    read_back = wiring.sink.reader("`walrelay replay --position`")
    names = wiring.rules.whole_topics | set(row_topics(wiring, view, table, Selection()))
    found = dict[str, str]()
    since = datetime.fromisoformat(replaying.since) - _MARGIN if replaying.since else datetime.fromtimestamp(0, UTC)
    for each in read_back(sorted(names), int(since.timestamp() * 1000)):
        if not isinstance(each, Found) or (place := RecordPosition.of_header(each.position)) is None:
            continue
        if place[0] > ZERO and first <= place <= last:  # a replayed row's is not that of a commit
            found[each.id] = each.position
    if not found:
        listed = ", ".join(sorted(names)) or "none that the rows go to"
        raise Fatal(
            f"no message has a position in {replaying.asked.positions} (topics read: {listed})",
            hint="The positions are those of the messages' header `position`. What the broker has deleted since can be"
            " found by its time or id: --from, --to, --id.",
        )
    return found


def position_range(text: str) -> tuple[tuple[LSN, float], tuple[LSN, float]]:
    """First and last of `A..B`, or of `A` alone; an LSN without an ordinal means its whole transaction."""
    first, dots, last = text.partition("..")
    (from_lsn, from_ordinal), (to_lsn, to_ordinal) = map(RecordPosition.parse, (first, last if dots else first))
    return (from_lsn, from_ordinal or 0), (to_lsn, inf if to_ordinal is None else to_ordinal)


def _not_found(view: View, table: TableDescription, asked: Sequence[str], found: dict[str, str]) -> list[str]:
    """Named ids without a row, regardless of the other filters."""
    named = {**dict.fromkeys(asked, ""), **found}
    if not named:
        return []
    rows = OutboxRows(view, table, Selection(also=filter_condition(table, {}, Filters(ids=list(named)))))
    there = {(values[0] or b"").decode("utf-8", "surrogateescape") for values in rows.distinct([table.id])}
    return [f"{id_} at {place}" if place else id_ for id_, place in named.items() if not {id_, id_.lower()} & there]
