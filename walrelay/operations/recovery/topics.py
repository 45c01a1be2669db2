"""What the topics say about a lost slot: the messages at their ends, and which of those count."""

from collections.abc import Callable, Iterator, Sequence

from walrelay.lsn import LSN, ZERO
from walrelay.model import sink_and_topic
from walrelay.outcomes import topics_of_letters
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.history import History
from walrelay.postgres.snapshot import View
from walrelay.publish import Recalled, RecalledMessage
from walrelay.table.backfill_journal import Scope
from walrelay.table.selection import Selection, TableDescription
from walrelay.table.topics import row_topics
from walrelay.wiring import Wiring

_UUID = 2950


def recalled(
    wiring: Wiring,
    catalog: Catalog,
    view: View,
    table: TableDescription,
    scope: Scope,
    named: Sequence[str],
    count: int,
) -> Recalled:
    """Reads the ends of the topics that the rows go to, of those that dead letters name, and of the operator's
    (`named`): `count` messages of each partition.
    """
    if not wiring.sink.finds_newest or not count:
        return Recalled([], None)
    names = set(row_topics(wiring, view, table, Selection(scope.floor, scope.since)))
    names = names or set(row_topics(wiring, view, table, Selection()))
    names |= wiring.rules.whole_topics | {*named}
    names |= {each for each in topics_of_letters(catalog, wiring.slot) if _is_of_a_sink(wiring, each)}
    if wiring.policy.topic:
        names.add(wiring.policy.topic)
    return wiring.sink.newest(sorted(names), count)


def _is_of_a_sink(wiring: Wiring, topic: str) -> bool:
    """Whether the relay still has the sink of a dead letter's topic."""
    return not wiring.sink.names or sink_and_topic(topic)[0] in wiring.sink.names


def counting_positions(table: TableDescription, server: History, created_lsn: LSN | None) -> Callable[[str], bool]:
    """Whether what has this position, a message or a dead letter, is of the row that has its id now.

    A promoted standby that lacked the last numbers assigns them again; if it is not known when it was promoted, no
    number counts. A uuid is never assigned twice.
    """
    branch, unique = server.branch, table.types.get(table.id) == _UUID
    if server.forgotten and not unique:
        return lambda position: False
    if branch is None or unique or (created_lsn or ZERO) > branch:
        return lambda position: True
    return lambda position: (lsn := _lsn(position)) is not None and ZERO < lsn < branch


def is_text(identity: str) -> bool:
    """Whether PostgreSQL takes it as a parameter."""
    return identity.isprintable() and not any("\ud800" <= letter <= "\udfff" for letter in identity)


def _lsn(position: str) -> LSN | None:
    try:
        return LSN.parse(position.partition(":")[0])
    except ValueError:
        return None


def found_in_topics(messages: Sequence[RecalledMessage]) -> Iterator[str]:
    if messages:
        newest = max(_lsn(each.position) or ZERO for each in messages)
        ids = len({each.id for each in messages})
        events = "1 event" if ids == 1 else f"{ids} events"
        yield f"{events} whose messages were read back from the ends of the topics, up to {newest}"
