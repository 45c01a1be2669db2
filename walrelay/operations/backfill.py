"""A backfill: the rows of the table published up to where a new slot begins to stream."""

from collections.abc import Callable
from threading import Event

from walrelay.decode.records import RowDecoder
from walrelay.errors import Fatal, Retryable
from walrelay.observe import Backfilled, Backfilling, Noticed, Observer
from walrelay.outcomes import NOTHING_KNOWN, BlockedKeys, Known, LeftToPublish, settled_rows
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.role_checks import refuse_missing_rights, rights_to_replicate
from walrelay.postgres.slot_notes import note_before_backfill
from walrelay.postgres.slot_records import missing_rights_on_slots
from walrelay.postgres.slots import drop_slot, new_slot
from walrelay.postgres.snapshot import View
from walrelay.publish.expiry import expired, refuse_expired
from walrelay.table.backfill_journal import BackfillJournal, BackfillProgress, Scope, unfinished_progress
from walrelay.table.rows import BatchPublisher, OutboxRows, in_commit_order, until_finished
from walrelay.table.selection import RowCondition, Selection, TableDescription, describe_table, verbatim
from walrelay.table.topics import TopicGroup, oldest_by_topic, topic_groups
from walrelay.wiring import Wiring, begin_at


def backfill_until(
    stop: Event,
    wiring: Wiring,
    scope: Scope,
    observer: Observer,
    *,
    patience: float,
    known: Known = NOTHING_KNOWN,
    even_expired: bool = False,
) -> bool:
    """Makes the slot and publishes the messages of the rows of `scope`, but for those that are dead letters and, in a
    recovery, those that are `known` to be published; continues an interrupted backfill. True when it is complete, and
    the slot may be read. `patience`: seconds to wait for open transactions when the slot is made. `even_expired`: also
    to topics that delete rows of that age at once, which is Fatal otherwise, before anything is changed.
    """
    attempts = _BackfillAttempts(wiring, scope, observer, patience, known, stop.is_set, even_expired=even_expired)
    return until_finished(attempts, stop, wiring.backoff, observer)


def _rows_by_topic(
    wiring: Wiring, catalog: Catalog, view: View, table: TableDescription, progress: BackfillProgress, known: Known
) -> list[TopicGroup]:
    """The rows that are left to publish."""
    scope = progress.scope
    reached = progress.reached if progress.order == tuple(term.name for term in table.order) else ()
    selection = Selection(scope.floor, scope.since, (), reached, also=_rows_where(scope.where))
    settled = settled_rows(wiring, catalog, view, table, selection, known, again=scope.command != "recover")
    return topic_groups(wiring, view, table, selection._replace(known=settled.ids)).groups


def _rows_where(where: str) -> RowCondition:
    return RowCondition(verbatim(where) or "true")


class _BackfillAttempts:
    """Each attempt makes the slot again; walrelay.slots knows what is durable."""

    def __init__(
        self,
        wiring: Wiring,
        scope: Scope,
        observer: Observer,
        patience: float,
        known: Known,
        stop: Callable[[], bool],
        *,
        even_expired: bool,
    ) -> None:
        self._even_expired = even_expired
        self._wiring, self._scope, self._observer, self._patience = wiring, scope, observer, patience
        self._known, self._stop = known, stop
        self.published = 0
        self.finished = False

    def run(self) -> None:
        wiring, stop = self._wiring, self._stop
        with Catalog(wiring.dsn) as catalog:
            catalog.refuse_standby()
            journal = BackfillJournal(catalog, wiring.slot)
            journal.lock()
            rights = [*missing_rights_on_slots(catalog, "INSERT", "UPDATE"), *rights_to_replicate(catalog)]
            refuse_missing_rights(catalog, rights, f"make slot {wiring.slot} again")
            routing = wiring.router(catalog)
            self._refuse_expired(catalog)
            progress = journal.begin(self._scope, wiring.plugin)
            self._refuse_another_condition(progress.scope.where)
            note = note_before_backfill(catalog, wiring.slot, wiring.table, wiring.publication)
            drop_slot(catalog, wiring.slot)
            failover, patience = wiring.streaming.failover, self._patience
            with new_slot(
                wiring.dsn, catalog, wiring.slot, wiring.plugin, failover=failover, patience=patience
            ) as made:
                view = View(wiring.dsn, catalog, made.snapshot)
            with view:
                also = _rows_where(progress.scope.where)
                outbox = in_commit_order(
                    view, describe_table(catalog, wiring), Selection(progress.scope.floor, also=also)
                )
                reached = journal.made(
                    made.consistent_point, view.xmin, note(view.xmax), [term.name for term in outbox.order]
                )
                scope = progress.scope
                again = scope.command != "recover"
                selection = Selection(scope.floor, scope.since, (), reached, also=also)
                settled = settled_rows(wiring, catalog, view, outbox, selection, self._known, again=again)
                blocked = BlockedKeys(wiring, catalog, self._observer, routing)
                blocked.begin(view, outbox, selection)  # rows with an open dead letter are read for their places
                known = [each for each in settled.ids if each not in blocked.ahead]
                rows = OutboxRows(view, outbox, selection._replace(known=known))
                passed = len(settled.ids) - len(known)
                self._observer.saw(Backfilling(rows.count() - passed, progress.published))
                decoder = RowDecoder(wiring.needed, outbox.types, made.consistent_point)
                left = LeftToPublish(wiring, catalog, routing, self._known, blocked, again=again)
                at_the_end = self._publish(rows, decoder, left, journal, stop)
            if at_the_end:
                journal.finish()
                self._begin_at(catalog, view.xmin)
                self.finished = True

    def _refuse_expired(self, catalog: Catalog) -> None:
        if self._even_expired or not self._wiring.sink.may_expire:
            return
        progress = unfinished_progress(catalog, self._wiring.slot) or BackfillProgress(self._scope)
        with View(self._wiring.dsn, catalog) as view:
            table = describe_table(catalog, self._wiring)
            groups = _rows_by_topic(self._wiring, catalog, view, table, progress, self._known)
        refuse_expired(expired(self._wiring.sink, oldest_by_topic(groups)))
        self._even_expired = True  # asked once

    def _refuse_another_condition(self, begun_with: str) -> None:
        if self._scope.where and self._scope.where != begun_with:
            raise Fatal(
                f"an unfinished backfill publishes {f'the rows where {begun_with}' if begun_with else 'all rows'}",
                hint=f"`walrelay {self._scope.command}` without --where goes on with it; `walrelay drop` gives it up.",
            )

    def _begin_at(self, catalog: Catalog, xmin: int) -> None:
        """Stores the position. A failure is only a warning: the rows are published, and need not be published again."""
        try:
            begin_at(self._wiring, catalog, xmin=xmin, recovered=self._scope.command == "recover")
        except Retryable as error:
            hint = "if the relay had a slot before, start it with --from-slot"
            self._observer.saw(Noticed(f"{error}; {hint}"))

    def _publish(
        self,
        rows: OutboxRows,
        decoder: RowDecoder,
        left: LeftToPublish,
        journal: BackfillJournal,
        stop: Callable[[], bool],
    ) -> bool:
        """Whether it reached the end. Before each batch everything earlier is durable, and the journal says so."""
        wiring = self._wiring
        sink = self._wiring.sink.open()
        try:
            backfill = BatchPublisher(left, sink, self._observer, stop, wiring.limits.shutdown)
            before = withheld = 0
            for batch in rows.batches(decoder.columns):
                if before:
                    journal.reached(batch[0].key, before, passed=batch[0].passed)
                if stop():
                    return False
                backfill.publish(left.next([decoder.decode(row.values, row.committed_at) for row in batch]))
                before = len(batch)
                self.published += before
                self._observer.saw(Backfilled(before - (left.withheld - withheld)))
                withheld = left.withheld
            return True
        finally:
            sink.close()
