"""What a recovery will publish. Changes nothing.

A floor says how far the lost slot's relay got: transactions below it had ended before the last durable position. Rows
of later transactions may not have been published, except those that the topics have.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from walrelay.control.table import given_up
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import RelayPosition
from walrelay.operations.recovery.missing_rows import KnownPublished, Removed, removed
from walrelay.operations.recovery.topics import counting_positions, found_in_topics, is_text, recalled
from walrelay.outcomes import FoundMessages, Known, SettledRows, settled_rows
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.history import History, server_history
from walrelay.postgres.slot_records import first_xmin, recorded_value
from walrelay.postgres.snapshot import View
from walrelay.publish.expiry import Expired, expired_if_known
from walrelay.table.backfill_journal import Scope, unfinished_backfill_error, unfinished_progress
from walrelay.table.confirmed import ended_before
from walrelay.table.rows import OutboxRows
from walrelay.table.selection import Selection, TableDescription, describe_table
from walrelay.table.topics import oldest_by_topic, topic_groups
from walrelay.wiring import Wiring, positions


class RecoveryRequest(NamedTuple):
    """The operator's options: a time, or everything; how many messages to read back from each partition; topics of
    earlier rules, whose messages count.
    """

    since: str | None = None
    everything: bool = False
    recall: int = 50_000
    replace: bool = False
    topics: Sequence[str] = ()


class Recovery(NamedTuple):
    """What will be done. `scope` and `known` are for `backfill_until`; the rest is for the report."""

    scope: Scope
    known: Known
    lost: str
    published: list[str]  # what is known to be published, and how
    rows: int
    repeats: int  # how many of the rows the topics of today's rules may have, at most
    settled: SettledRows
    oldest: str
    newest: str
    removed: Removed
    beyond: str  # events that no table has; empty: none
    expired: list[Expired]


class KeptPosition(NamedTuple):
    """Where a relay keeps its own position ("the file ..."), and how to read it; None: there is none yet."""

    where: str
    read: Callable[[], RelayPosition | None]


class Floor(NamedTuple):
    """Transactions with an xid8 below `xmin` need no recovery; `why`: how that is known."""

    xmin: int
    why: str


class Loss(NamedTuple):
    """How the slot was lost. `kept`: its row of pg_replication_slots if it still exists."""

    what: str
    kept: Slot | None
    created_lsn: LSN | None


def plan_recovery(wiring: Wiring, request: RecoveryRequest, kept: Sequence[KeptPosition] | None = None) -> Recovery:
    """Fatal where there is nothing to recover, or no way to tell from where on. Changes nothing.

    `kept`: places of positions other than the wiring's.
    """
    with Catalog(wiring.dsn) as catalog, View(wiring.dsn, catalog) as view:
        catalog.refuse_standby()
        server, slot = server_history(wiring.dsn, catalog), wiring.slot
        table = describe_table(catalog, wiring)
        if (begun := unfinished_progress(catalog, slot)) is not None:
            if begun.scope.command != "recover":
                raise unfinished_backfill_error(catalog, slot, begun)
            lost = Loss(f"{slot} was being made again when an earlier recovery was interrupted", None, None)
            scope, told = (
                begun.scope,
                [f"{begun.published} row{'s' * (begun.published != 1)} by the interrupted recovery, which continues"],
            )
        else:
            lost = loss(catalog, slot, replace=request.replace)
            scope, told = _scope(catalog, wiring, request, lost, server, kept)
        _refuse_time(view, table, scope)
        for topic in request.topics:
            wiring.sink.refuse_unknown(topic)
        published = begun.published if begun else 0
        read = recalled(
            wiring, catalog, view, table, scope, request.topics, request.recall and request.recall + published
        )
        counts = counting_positions(table, server, lost.created_lsn)
        messages = [each for each in read.messages if is_text(each.id) and counts(each.position)]
        complete = read.complete_since_ms if len(messages) == len(read.messages) else None  # some do not count
        known = Known(FoundMessages(messages, request.topics), lambda letter: counts(letter.position))
        told += found_in_topics(messages)
        reached = begun.reached if begun and begun.order == tuple(term.name for term in table.order) else ()
        selection = Selection(scope.floor, scope.since, (), reached)
        settled = settled_rows(wiring, catalog, view, table, selection, known)
        rows = OutboxRows(view, table, selection._replace(known=settled.ids))
        ((count, repeats, oldest, newest),) = rows.ask(_summary(table, complete))
        gone = removed(view, table, KnownPublished(scope.floor, [*known.found.ids]))
        return Recovery(
            scope,
            known,
            lost.what,
            told,
            rows=count,
            repeats=repeats,
            settled=settled,
            oldest=oldest or "",
            newest=newest or "",
            removed=gone,
            beyond=_beyond(wiring),
            expired=_expired(wiring, view, table, selection._replace(known=settled.ids)),
        )


def _expired(wiring: Wiring, view: View, table: TableDescription, selection: Selection) -> list[Expired]:
    if not wiring.sink.may_expire:
        return []
    groups = topic_groups(wiring, view, table, selection).groups
    return expired_if_known(wiring.sink, oldest_by_topic(groups))


def _beyond(wiring: Wiring) -> str:
    prefix = wiring.outbox.prefix
    return (
        f"events written by walrelay.emit_message (prefix {prefix!r}) since then: no table has them" if prefix else ""
    )


def _scope(
    catalog: Catalog,
    wiring: Wiring,
    request: RecoveryRequest,
    lost: Loss,
    server: History,
    kept: Sequence[KeptPosition] | None,
) -> tuple[Scope, list[str]]:
    places = _kept(wiring) if kept is None else kept
    floors, told = known_floors(catalog, wiring.slot, lost, places, server)
    if request.everything:
        return Scope("recover"), [*told, "only what the topics have counts as published (--all)"]
    if floors:
        told.insert(0, floors[0].why)
    if request.since is not None:
        told.insert(0, f"everything committed or written before {request.since} (--since)")
    elif not floors:
        raise Fatal(
            f"{lost.what}, and nothing says how far it had got",
            hint="Give the time from which events may be missing, best the time of the last message in the topics minus"
            " the longest time that a transaction of a writer takes: `walrelay recover --since '2026-11-21 09:58Z'`. Or"
            " `--all` for every row in the table. Either way, rows whose messages are in the topics are left out.",
        )
    return Scope("recover", floors[0].xmin if floors else 0, request.since), told


def _refuse_time(view: View, table: TableDescription, scope: Scope) -> None:
    if scope.since is not None:
        view.rows("SELECT %s::timestamptz", [scope.since])
        if not table.time:
            raise Fatal(
                "--since needs times to compare with, and the table has none",
                hint="Map outbox.columns.created_at to a column of type timestamptz, or use `--all`.",
            )


def _summary(table: TableDescription, complete: int | None) -> str:
    """SQL: the rows, how many of them the broker may have, and the times of the first and the last."""
    if not table.time:
        return f"count(*), {'0' if complete == 0 else 'count(*)'}, NULL, NULL"
    repeats = "count(*)"
    if complete is not None:
        since = datetime.fromtimestamp((complete + 1) / 1000, UTC).isoformat()  # topics have milliseconds only
        repeats = f"count(*) FILTER (WHERE coalesce({table.time} < '{since}', true))"
    times = ", ".join(f"to_char({which}({table.time}), 'YYYY-MM-DD HH24:MI:SS.US')" for which in ("min", "max"))
    return f"count(*), {'0' if complete == 0 else repeats}, {times}"


def _kept(wiring: Wiring) -> list[KeptPosition]:
    """The relay's own position, if it keeps one, and that of a slot which it gave up."""
    place, noted = (
        wiring.position.place,
        KeptPosition("walrelay.relays, of the slot that was dropped", lambda: _noted(wiring)),
    )
    own = KeptPosition(f"the relay's own position (the {place})", lambda: _last(wiring))
    return [noted] if place == "slot" else [own, noted]


def _noted(wiring: Wiring) -> RelayPosition | None:
    with Catalog(wiring.dsn) as catalog:
        return given_up(catalog, wiring.slot)


def _last(wiring: Wiring) -> RelayPosition | None:
    """Fences off a relay that died during a commit, which would hide its position; a relay that works has the slot."""
    with Catalog(wiring.dsn) as catalog:
        kept = positions(wiring, catalog, catalog.system())
        return kept.last() if kept else None


def loss(catalog: Catalog, slot: str, *, replace: bool) -> Loss:
    """Fatal if the slot is in order or in use. `replace`: also recovers a slot that is in order."""
    found = catalog.slot(slot)
    if found is not None and found.active_pid is not None:
        raise Fatal(f"slot {slot!r} is in use by PID {found.active_pid}", hint="Stop the relay first, then recover.")
    made = _made(catalog, slot)
    if found is None:
        what = f"{slot} is gone" + (f" (it was made at {made[0]})" if made else "; walrelay never made it here")
        return Loss(what, None, made[1] if made else None)
    if found.wal_status == "lost" or found.invalidation_reason:
        return Loss(f"{slot} is lost ({found.invalidation_reason or 'wal_status lost'})", found, made and made[1])
    if not replace:
        raise Fatal(
            f"slot {slot!r} can be read: `walrelay run` goes on from {found.confirmed_flush_lsn}",
            hint="If events are missing all the same, because another client read the slot or it was made again:"
            " `walrelay recover --replace` replaces it and publishes what may not have been published.",
        )
    return Loss(f"{slot} can be read, and is replaced", None, made and made[1])


def known_floors(
    catalog: Catalog, slot: str, lost: Loss, kept: Iterable[KeptPosition], history: History
) -> tuple[list[Floor], list[str]]:
    """The floors, the best first; remarks say why other evidence does not count."""
    found, remarks = list[Floor](), list[str]()
    for where, read in kept:
        position = read()
        if position is None:
            continue
        name = f"position {position.lsn} in {where}"
        if fault := history.fault(position) or (
            "it does not say which transactions had ended" if not position.xmin else ""
        ):
            remarks.append(f"{name} cannot be used: {fault}")
        else:
            why = f"everything up to the {name} (transactions before {position.xmin} had ended by then)"
            found.append(Floor(position.xmin, why))
    found += _of_the_slot(catalog, lost, history)
    found += _of_its_beginning(catalog, slot, history)
    return sorted(found, key=lambda floor: -floor.xmin), remarks


def _of_the_slot(catalog: Catalog, lost: Loss, history: History) -> Iterator[Floor]:
    """An invalidated slot still shows which transactions it did not need."""
    if lost.kept is not None and (xmin := ended_before(catalog, lost.kept, history.end)) is not None:
        where = f"the lost slot's position {lost.kept.confirmed_flush_lsn}"
        yield Floor(xmin, f"everything up to {where} (transactions before {xmin} had ended by then)")


def _of_its_beginning(catalog: Catalog, slot: str, history: History) -> Iterator[Floor]:
    """None in a dump that was restored elsewhere, or after pg_upgrade: the numbers belong to another system."""
    if xmin := first_xmin(catalog, slot, history.system.identifier):
        yield Floor(xmin, f"this slot began at transaction {xmin}; older rows do not belong to its stream")


def _made(catalog: Catalog, slot: str) -> tuple[str, LSN] | None:
    at = recorded_value(catalog, slot, "created_at")
    lsn = recorded_value(catalog, slot, "created_lsn")
    return (f"{at[:16].replace('T', ' ')}", LSN.parse(lsn)) if at and lsn else None
