"""Settings to a replay: rows of the table published again, from where it stopped before.

A reading is one snapshot, sorted once. It is let go of after a minute, because for as long as it is open vacuum can
remove nothing; the next one begins behind what was reached.
"""

from collections.abc import Iterator, Sequence
from threading import Event
from time import monotonic

from walrelay.compose.attempts import until_finished
from walrelay.compose.backfill import outbox_table
from walrelay.compose.reading import dsn, needed, router
from walrelay.compose.replay_plan import ReplayPlan, selection
from walrelay.config import Settings
from walrelay.decode.records import RowDecoder
from walrelay.lsn import ZERO
from walrelay.model import OutboxRecord
from walrelay.observe import Backfilled, Backfilling, Observer
from walrelay.operations.replay.rows import Again, Pace
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.snapshot import View
from walrelay.publish import load
from walrelay.table.replay_journal import ReplayJournal
from walrelay.table.rows import BATCH_ROWS, BatchPublisher, OutboxRow, OutboxRows, in_commit_order

READING = 60.0  # seconds
SORTING = 10  # times as long as it took to get at the first row, if that is more


def replay_until(stop: Event, settings: Settings, plan: ReplayPlan, rate: float | None, observer: Observer) -> bool:
    """Publishes the rows of the plan, `rate` of them a second; True when it got to its end."""
    attempts = _Attempts(settings, plan, rate, observer, stop)
    return until_finished(attempts, stop, settings, observer)


class _Attempts:
    """What is durable, walrelay.replays knows."""

    def __init__(
        self, settings: Settings, plan: ReplayPlan, rate: float | None, observer: Observer, stop: Event
    ) -> None:
        self._settings, self._plan, self._observer, self._stop = settings, plan, observer, stop
        self._pace = Pace(rate, stop.is_set, stop.wait)
        self._most = max(1, min(BATCH_ROWS, int(rate))) if rate else BATCH_ROWS  # a second's, so that it is told
        self._begun = False
        self.published = 0
        self.finished = False

    def run(self) -> None:
        """One attempt, to its end, to a stop, or to the error that ends it."""
        settings, name = self._settings, self._plan.name
        with Catalog(dsn(settings)) as catalog:
            catalog.refuse_standby()
            journal = ReplayJournal(catalog, settings.source.slot, name)
            if self._begun:
                journal.resumes()
            else:
                journal.begin(self._plan.replaying, resumed=self._plan.resumed, restart=self._plan.restart)
            self._begun = True
            sink = load(settings.sink.kind).open(settings.sink.settings)
            try:
                routing = Again(router(settings), self._plan.replaying.asked.topic)
                publisher = BatchPublisher(routing, sink, self._observer, self._stop.is_set, settings.shutdown_timeout)
                readings = _Readings(settings, catalog, journal, self._plan)
                self._publish(readings, publisher)
            finally:
                sink.close()
            if not self._stop.is_set():
                journal.finish()
                self.finished = True

    def _publish(self, readings: "_Readings", publisher: BatchPublisher) -> None:
        at_the_end, first = False, True
        while not at_the_end and not self._stop.is_set():
            with View(dsn(self._settings), readings.catalog) as view:
                rows, decoder = readings.begin(view)
                if first:
                    self._observer.saw(Backfilling(rows.count(), readings.journal.published))
                first, at_the_end = False, self._read(rows, decoder, readings.journal, publisher)

    def _read(self, rows: OutboxRows, decoder: RowDecoder, journal: ReplayJournal, publisher: BatchPublisher) -> bool:
        """Whether it got to the last row. What comes before a batch is durable, and noted before it is begun."""
        begun, until, before = monotonic(), 0.0, 0
        for batch in rows.batches(decoder.columns, self._most):
            until = until or monotonic() + max(READING, SORTING * (monotonic() - begun))
            if before:
                journal.reached(batch[0].key, before)
                if monotonic() > until:
                    return False
            taken = list[OutboxRow]()
            publisher.publish(self._paced(batch, decoder, taken))
            before = len(taken)
            self.published += before
            self._observer.saw(Backfilled(before))
            if before < len(batch):
                journal.reached(batch[before].key, before)
                return False
        return True

    def _paced(self, batch: Sequence[OutboxRow], decoder: RowDecoder, taken: list[OutboxRow]) -> Iterator[OutboxRecord]:
        for row in batch:
            if not self._pace.turn():
                return
            taken.append(row)
            yield decoder.decode(row.values, row.committed_at)


class _Readings:
    """The rows that are left, as each snapshot has them."""

    def __init__(self, settings: Settings, catalog: Catalog, journal: ReplayJournal, plan: ReplayPlan) -> None:
        self._settings, self.catalog, self.journal, self._plan = settings, catalog, journal, plan

    def begin(self, view: View) -> tuple[OutboxRows, RowDecoder]:
        settings, plan = self._settings, self._plan
        table = outbox_table(settings, self.catalog)
        selected = selection(settings, self.catalog, table, plan.replaying, plan.ids)
        table = in_commit_order(view, table, selected)
        reached = self.journal.in_order([term.name for term in table.order])
        decoder = RowDecoder(needed(settings), table.types, ZERO, self.journal.published)
        return OutboxRows(view, table, selected._replace(reached=reached)), decoder
