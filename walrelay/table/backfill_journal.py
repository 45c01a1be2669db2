"""What walrelay.slots says of a backfill: that it is unfinished, what it publishes, and how far it got."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.locks import hold, holder, lead_lock, slot_lock
from walrelay.postgres.slot_records import (
    PublicationNote,
    begin_backfill,
    end_backfill,
    is_readable,
    store_backfill,
    store_backfill_slot,
    unfinished_backfill,
)
from walrelay.table.selection import Reached


class Scope(NamedTuple):
    """What a backfill publishes: rows of transactions from `floor` on, written `since` a time, of which the SQL
    condition `where` holds (empty: all); and the command that began it.
    """

    command: str = "init --backfill"
    floor: int = 0
    since: str | None = None
    where: str = ""


class BackfillProgress(NamedTuple):
    """An unfinished backfill. `order`: the names of the terms that `reached` refers to."""

    scope: Scope
    published: int = 0
    order: tuple[str, ...] = ()
    reached: tuple[Reached, ...] = ()


class BackfillJournal:
    """The row of walrelay.slots during a backfill; each call is durable when it returns."""

    def __init__(self, catalog: Catalog, slot: str) -> None:
        self._catalog, self._slot = catalog, slot
        self._point = LSN(0)
        self._xmin = 0
        self._earlier: tuple[Reached, ...] = ()
        self._progress = BackfillProgress(Scope())

    def lock(self) -> None:
        """Holds two locks for as long as this connection lives: a second backfill would drop the slot of the first, and
        a relay that begins meanwhile would stream ahead of the rows.
        """
        hold(self._catalog, slot_lock(self._catalog, self._slot))
        hold(self._catalog, lead_lock(self._slot, "run the command again"))

    def begin(self, scope: Scope, plugin: str) -> BackfillProgress:
        """Notes that a backfill is unfinished, before the slot is touched; returns how far an earlier one got."""
        progress = self._progress = unfinished_progress(self._catalog, self._slot) or BackfillProgress(scope)
        begin_backfill(self._catalog, self._slot, plugin, _written(progress))
        return progress

    def made(
        self, consistent_point: LSN, xmin: int, note: PublicationNote, order: Sequence[str]
    ) -> tuple[Reached, ...]:
        """To be called when the slot is there, with a snapshot; returns what earlier readings in the same order
        reached. `note`: of the outbox before the slot was made.
        """
        self._point, self._xmin = consistent_point, xmin
        if self._progress.order != tuple(order):  # places mean nothing in another order
            self._progress = self._progress._replace(order=tuple(order), reached=())
        self._earlier = self._progress.reached
        store_backfill_slot(self._catalog, self._slot, consistent_point, note)
        return self._earlier

    def reached(self, key: Sequence[bytes | None], published: int, *, passed: bool) -> None:
        """All rows before `key` are durable, `published` of them since the last call; `passed`: see OutboxRow."""
        self._progress = self._progress._replace(published=self._progress.published + published)
        try:
            before = tuple(None if value is None else value.decode() for value in key)
        except UnicodeDecodeError:  # in a SQL_ASCII database; JSON cannot hold it, so a later place has to do
            return
        earlier = () if passed else self._earlier
        self._progress = self._progress._replace(reached=(*earlier, Reached(self._xmin, before)))
        self._insist(store_backfill(self._catalog, self._slot, self._point, _written(self._progress)))

    def finish(self) -> None:
        """Everything is durable: from now on the slot may be read. Fatal if it was lost meanwhile."""
        slot = self._catalog.slot(self._slot)
        if slot is None or slot.wal_status == "lost" or slot.confirmed_flush_lsn != self._point:
            raise Fatal(
                f"slot {self._slot!r} was dropped, moved or lost while rows were published from the table",
                hint=f"Run `walrelay {self._progress.scope.command}` again: it publishes what came meanwhile, and"
                " repeats at most the last batch. If max_slot_wal_keep_size or idle_replication_slot_timeout cost the"
                " slot, raise it before.",
                page="unfinished",
            )
        scope = self._progress.scope
        everything = not scope.floor and scope.since is None and not scope.where
        self._insist(end_backfill(self._catalog, self._slot, self._point, self._xmin, everything=everything))

    def _insist(self, changed: bool) -> None:
        if not changed:
            raise Fatal(
                f"the entry of slot {self._slot!r} in walrelay.slots was changed while rows were published",
                hint="`walrelay drop` was run, or the entry was changed by hand. Not all rows were published.",
                page="unfinished",
            )


def unfinished_progress(catalog: Catalog, slot: str) -> BackfillProgress | None:
    """How far an unfinished backfill of the slot got; None if there is none.

    In a dump that was restored elsewhere the numbers of transactions mean nothing, and everything is published again.
    """
    if (found := unfinished_backfill(catalog, slot)) is None:
        return None
    progress = _read(found[0])
    return progress if found[1] else BackfillProgress(progress.scope._replace(floor=0))


def refuse_unfinished_backfill(catalog: Catalog, slot: str) -> None:
    """Fatal while rows of the table are still to be published before the stream's. A role that may not read
    walrelay.slots is not refused.
    """
    if is_readable(catalog) and (progress := unfinished_progress(catalog, slot)) is not None:
        raise unfinished_backfill_error(catalog, slot, progress)


def unfinished_backfill_error(catalog: Catalog, slot: str, progress: BackfillProgress) -> Fatal:
    command = f"walrelay {progress.scope.command}"
    if who := holder(catalog, slot_lock(catalog, slot)):
        return Fatal(
            f"`{command}` is under way: {who}; {progress.published} rows were published, others not yet",
            hint="Wait for it. If it is ended, run it again: it goes on where it stopped.",
            page="unfinished",
        )
    return Fatal(
        f"`{command}` did not finish: {progress.published} rows were published, others not, and the stream's events"
        " come after them",
        hint=f"Run `{command}` again: it goes on where it stopped.",
        page="unfinished",
    )


def _written(progress: BackfillProgress) -> str:
    return json.dumps(
        {
            **progress.scope._asdict(),
            "published": progress.published,
            "order": progress.order,
            "reached": [reached._asdict() for reached in progress.reached],
        },
        ensure_ascii=False,  # an escape would have to be in the database's encoding, which SQL_ASCII never is
    )


def _read(found: dict[str, Any]) -> BackfillProgress:
    return BackfillProgress(
        Scope(found["command"], found["floor"], found["since"], found.get("where", "")),
        found["published"],
        tuple(found["order"]),
        tuple(Reached(each["xmin"], tuple(each["before"])) for each in found["reached"]),
    )
