"""Settings to a recovery: which rows may not have been published, before anything is changed."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from walrelay.compose.backfill import outbox_table
from walrelay.compose.commands import topics
from walrelay.compose.positions import kept_positions
from walrelay.compose.reading import dsn
from walrelay.compose.row_topics import row_topics
from walrelay.config import Settings
from walrelay.errors import Fatal
from walrelay.lsn import LSN, ZERO
from walrelay.operations.recovery.floors import KeptPosition, Loss, known_floors, loss
from walrelay.operations.recovery.missing_rows import Published, Removed, removed
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.history import History, server_history
from walrelay.postgres.snapshot import View
from walrelay.publish import Recall, Recalled, load
from walrelay.table.backfill_journal import Scope, unfinished_backfill_error, unfinished_progress
from walrelay.table.rows import OutboxRows
from walrelay.table.selection import Selection, TableDescription

_UUID = 2950
_NOTHING = Recalled([], None)


class Wish(NamedTuple):
    """What the operator says: a time from which on, or everything; how many messages of each partition to read back."""

    since: str | None = None
    everything: bool = False
    recall: int = 50_000
    replace: bool = False


class Recovery(NamedTuple):
    """What is going to be done. `scope` and `known` are for `compose.backfill_until`; the rest is for people."""

    scope: Scope
    known: list[str]
    lost: str
    published: list[str]  # what is known to be published, and how
    rows: int
    repeats: int  # how many of the rows may have been published at most
    oldest: str
    newest: str
    removed: Removed
    beyond: str  # what no table has; empty: nothing


def recovery_plan(settings: Settings, wish: Wish, kept: Sequence[KeptPosition] | None = None) -> Recovery:
    """Fatal where there is nothing to recover, or where nobody says from where on. Changes nothing.

    `kept`: places of positions, where others are meant than those of the settings.
    """
    with Catalog(dsn(settings)) as catalog, View(dsn(settings), catalog) as view:
        catalog.refuse_standby()
        server, slot = server_history(dsn(settings), catalog), settings.source.slot
        table = outbox_table(settings, catalog)
        if (begun := unfinished_progress(catalog, slot)) is not None:
            if begun.scope.command != "recover":
                raise unfinished_backfill_error(catalog, slot, begun)
            lost = Loss(f"{slot} was being made again when an earlier recovery was interrupted", None, None)
            scope, told = (
                begun.scope,
                [f"{begun.published} row{'s' * (begun.published != 1)} by the earlier recovery, which goes on"],
            )
        else:
            lost = loss(catalog, slot, replace=wish.replace)
            scope, told = _scope(catalog, settings, wish, lost, server, kept)
        _refuse_time(view, table, scope)
        recalled = _recalled(settings, view, table, scope, wish.recall + (begun.published if begun else 0))
        known = of_this_history(recalled, table, server, lost)
        if len(known) < len(recalled.messages):  # some are not taken into account
            recalled = recalled._replace(complete_since_ms=None)
        told += _found_in_topics(recalled, known)
        reached = begun.reached if begun and begun.order == tuple(term.name for term in table.order) else ()
        rows = OutboxRows(view, table, Selection(scope.floor, scope.since, known, reached))
        ((count, repeats, oldest, newest),) = rows.ask(_summary(table, recalled))
        gone = removed(view, table, Published(scope.floor, known))
        times = (oldest or "", newest or "")
        return Recovery(scope, known, lost.what, told, count, repeats, *times, gone, _beyond(settings))


def _beyond(settings: Settings) -> str:
    prefix = settings.outbox.messages.prefix
    return (
        f"events written by walrelay.emit_message (prefix {prefix!r}) since then: no table has them" if prefix else ""
    )


def _scope(
    catalog: Catalog, settings: Settings, wish: Wish, lost: Loss, server: History, kept: Sequence[KeptPosition] | None
) -> tuple[Scope, list[str]]:
    places = kept_positions(settings) if kept is None else kept
    floors, told = known_floors(catalog, settings.source.slot, lost, places, server)
    if wish.everything:
        return Scope("recover"), [*told, "only what the topics have counts as published (--all)"]
    if floors:
        told.insert(0, floors[0].why)
    if wish.since is not None:
        told.insert(0, f"everything committed or written before {wish.since} (--since)")
    elif not floors:
        raise Fatal(
            f"{lost.what}, and nothing says how far it had got",
            hint="Say from when on events may be missing, best the time of the last message in the topics, less the"
            " longest time that a transaction of a writer takes: `walrelay recover --since '2026-11-21 09:58Z'`. Or"
            " `--all` for every row in the table. Messages that the topics have are left out of either.",
        )
    return Scope("recover", floors[0].xmin if floors else 0, wish.since), told


def _refuse_time(view: View, table: TableDescription, scope: Scope) -> None:
    if scope.since is not None:
        view.rows("SELECT %s::timestamptz", [scope.since])
        if not table.time:
            raise Fatal(
                "--since needs times to compare with, and the table has none",
                hint="Map outbox.columns.created_at to a column of type timestamptz, or use `--all`.",
            )


def _recalled(settings: Settings, view: View, table: TableDescription, scope: Scope, count: int) -> Recalled:
    """The ends of the topics that the rows go to."""
    plugin = load(settings.sink.kind)
    if not isinstance(plugin, Recall) or not count:
        return _NOTHING
    names = set(row_topics(settings, view, table, Selection(scope.floor, scope.since)))
    names = names or set(row_topics(settings, view, table, Selection()))
    names |= {name for name in topics(settings) if "*" not in name}
    return plugin.newest(settings.sink.settings, sorted(names), count)


def of_this_history(recalled: Recalled, table: TableDescription, server: History, lost: Loss) -> list[str]:
    """The ids of the messages, less those whose number another event may have been given since.

    A promoted standby that lacked the last numbers gives them out once more; where it does not know any more when that
    was, no number counts. Nobody makes the same uuid twice.
    """
    branch, unique = server.branch, table.types.get(table.id) == _UUID
    if server.forgotten and not unique:
        return []
    if branch is None or unique or (lost.created_lsn or ZERO) > branch:
        return [identity for identity, _ in recalled.messages if _is_text(identity)]
    return [
        identity
        for identity, position in recalled.messages
        if _is_text(identity) and (lsn := _lsn(position)) is not None and ZERO < lsn < branch
    ]


def _is_text(identity: str) -> bool:
    return identity.isprintable() and not any("\ud800" <= letter <= "\udfff" for letter in identity)


def _lsn(position: str) -> LSN | None:
    try:
        return LSN.parse(position.partition(":")[0])
    except ValueError:
        return None


def _found_in_topics(recalled: Recalled, known: Sequence[str]) -> Iterator[str]:
    if recalled.messages:
        newest = max(_lsn(position) or ZERO for _, position in recalled.messages)
        events = "1 event" if len(known) == 1 else f"{len(known)} events"
        yield f"{events} whose messages were read back from the ends of the topics, up to {newest}"


def _summary(table: TableDescription, recalled: Recalled) -> str:
    """Rows, how many of them the broker may have, and the times of the first and the last."""
    if not table.time:
        return f"count(*), {'0' if recalled.complete_since_ms == 0 else 'count(*)'}, NULL, NULL"
    repeats, complete = "count(*)", recalled.complete_since_ms
    if complete is not None:
        since = datetime.fromtimestamp((complete + 1) / 1000, UTC).isoformat()  # a millisecond is cut off there
        repeats = f"count(*) FILTER (WHERE coalesce({table.time} < '{since}', true))"
    times = ", ".join(f"to_char({which}({table.time}), 'YYYY-MM-DD HH24:MI:SS.US')" for which in ("min", "max"))
    return f"count(*), {'0' if complete == 0 else repeats}, {times}"
