"""The run of a replay: rows of the table published again, from where it stopped before.

A reading is one snapshot, sorted once. It is closed after a minute, because vacuum can remove nothing while it is open;
the next one begins after the last row that was reached.
"""

from collections.abc import Callable, Iterator, Sequence
from threading import Event
from time import monotonic

from walrelay.decode.records import RowDecoder
from walrelay.lsn import ZERO
from walrelay.model import REPLAYED, AnyRecord, Message, OutboxRecord, sink_and_topic
from walrelay.observe import Backfilled, Backfilling, Observer
from walrelay.operations.replay.journal import ReplayJournal
from walrelay.operations.replay.plan import ReplayPlan, selection
from walrelay.outcomes import LeftToPublish, settled_rows
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.snapshot import View
from walrelay.publish.expiry import expired, refuse_expired
from walrelay.route import Routing
from walrelay.table.rows import BATCH_ROWS, BatchPublisher, OutboxRow, OutboxRows, in_commit_order, until_finished
from walrelay.table.selection import describe_table
from walrelay.table.topics import oldest_by_topic
from walrelay.wiring import Wiring

READING = 60.0  # seconds
SORTING = 10  # times as long as it took to get at the first row, if that is more
_BEHIND = 0.05  # seconds to catch up on after a wait for the broker: more would be a burst
_FINE = 0.001  # seconds; a shorter sleep is not worth it


def run_replay(
    stop: Event,
    wiring: Wiring,
    plan: ReplayPlan,
    rate: float | None,
    observer: Observer,
    *,
    even_expired: bool = False,
) -> bool:
    """Publishes the rows of the plan, `rate` of them a second; True when all are published. `even_expired`: also to
    topics that delete rows of that age at once, which is Fatal otherwise, before anything is published.
    """
    attempts = _ReplayAttempts(wiring, plan, rate, observer, stop, even_expired=even_expired)
    return until_finished(attempts, stop, wiring.backoff, observer)


class _ReplayAttempts:
    """Attempts at one replay; walrelay.replays knows what is durable."""

    def __init__(
        self,
        wiring: Wiring,
        plan: ReplayPlan,
        rate: float | None,
        observer: Observer,
        stop: Event,
        *,
        even_expired: bool,
    ) -> None:
        self._even_expired = even_expired
        self._wiring, self._plan, self._observer, self._stop = wiring, plan, observer, stop
        self._pace = Pace(rate, stop.is_set, stop.wait)
        self._most = max(1, min(BATCH_ROWS, int(rate))) if rate else BATCH_ROWS  # a second's, so that progress shows
        self._begun = False
        self.published = 0
        self.finished = False

    def run(self) -> None:
        """One attempt, to its end, to a stop, or to the error that ends it."""
        wiring, name = self._wiring, self._plan.name
        if not self._even_expired:
            refuse_expired(expired(wiring.sink, oldest_by_topic(self._plan.groups)))
            self._even_expired = True  # asked once
        with Catalog(wiring.dsn) as catalog:
            catalog.refuse_standby()
            journal = ReplayJournal(catalog, wiring.slot, name)
            if self._begun:
                journal.resumes()
            else:
                journal.begin(self._plan.replaying, resumed=self._plan.resumed, restart=self._plan.restart)
            self._begun = True
            sink = self._wiring.sink.open()
            try:
                topic, addressed = self._plan.replaying.asked.topic, bool(wiring.sink.names)
                router = wiring.router(catalog)
                left = LeftToPublish(wiring, catalog, router, again=True)
                routing = Again(router, topic, addressed=addressed, left=left)
                publisher = BatchPublisher(routing, sink, self._observer, self._stop.is_set, wiring.limits.shutdown)
                readings = _Readings(wiring, catalog, journal, self._plan)
                self._publish(readings, publisher, left)
            finally:
                sink.close()
            if not self._stop.is_set():
                journal.finish()
                self.finished = True

    def _publish(self, readings: "_Readings", publisher: BatchPublisher, left: LeftToPublish) -> None:
        at_the_end, first = False, True
        while not at_the_end and not self._stop.is_set():
            with View(self._wiring.dsn, readings.catalog) as view:
                rows, decoder = readings.begin(view)
                if first:
                    self._observer.saw(Backfilling(rows.count(), readings.journal.published))
                first, at_the_end = False, self._read(rows, decoder, readings.journal, publisher, left)

    def _read(
        self,
        rows: OutboxRows,
        decoder: RowDecoder,
        journal: ReplayJournal,
        publisher: BatchPublisher,
        left: LeftToPublish,
    ) -> bool:
        """Whether it reached the last row. Before each batch everything earlier is durable, and the journal says so."""
        begun, until, before = monotonic(), 0.0, 0
        for batch in rows.batches(decoder.columns, self._most):
            until = until or monotonic() + max(READING, SORTING * (monotonic() - begun))
            if before:
                journal.reached(batch[0].key, before)
                if monotonic() > until:
                    return False
            taken = list[OutboxRow]()
            records = left.next([decoder.decode(row.values, row.committed_at) for row in batch])
            publisher.publish(self._paced(batch, records, taken))
            before = len(taken)
            self.published += before
            self._observer.saw(Backfilled(before))
            if before < len(batch):
                journal.reached(batch[before].key, before)
                return False
        return True

    def _paced(
        self, batch: Sequence[OutboxRow], records: Sequence[OutboxRecord], taken: list[OutboxRow]
    ) -> Iterator[OutboxRecord]:
        for row, record in zip(batch, records, strict=True):
            if not self._pace.turn():
                return
            taken.append(row)
            yield record


class _Readings:
    """The rows that are left, snapshot by snapshot."""

    def __init__(self, wiring: Wiring, catalog: Catalog, journal: ReplayJournal, plan: ReplayPlan) -> None:
        self._wiring, self.catalog, self.journal, self._plan = wiring, catalog, journal, plan

    def begin(self, view: View) -> tuple[OutboxRows, RowDecoder]:
        wiring, plan = self._wiring, self._plan
        table = describe_table(self.catalog, wiring)
        selected = selection(wiring, table, plan.replaying, plan.ids)
        table = in_commit_order(view, table, selected)
        settled = settled_rows(wiring, self.catalog, view, table, selected, again=True)
        reached = self.journal.in_order([term.name for term in table.order])
        decoder = RowDecoder(wiring.needed, table.types, ZERO, self.journal.published)
        return OutboxRows(view, table, selected._replace(reached=reached, known=settled.ids)), decoder


class Again:
    """Routes as `routing` does, or everything to one topic, and adds the header `replayed`. What rules make alike for
    several topics is one message there. `addressed`: the topic is an address, which names a sink. `left`: routes those
    records likewise that have dead letters, whose messages are known by their own topics.
    """

    def __init__(
        self,
        routing: Routing,
        topic: str | None = None,
        *,
        addressed: bool = False,
        left: LeftToPublish | None = None,
    ) -> None:
        self._route, self._topic, self._left = routing.route, topic, left
        self._own = sink_and_topic(topic)[1] if topic and addressed else topic  # as rows and schemas name it

    def route(self, record: AnyRecord) -> Sequence[Message]:
        of_letters = self._left is not None and isinstance(record, OutboxRecord) and self._left.has_letters(record.id)
        route = self._left.route if self._left is not None and of_letters else self._route
        if self._topic is None or not isinstance(record, OutboxRecord):
            return [each._replace(headers=[*each.headers, REPLAYED]) for each in route(record)]
        messages: list[Message] = []
        named = record if of_letters else record._replace(topic=self._own)  # may need no topic from the template then
        for each in route(named):
            message = each._replace(topic=self._topic, headers=[*each.headers, REPLAYED])
            if message not in messages:
                messages.append(message)
        return messages


class Pace:
    """`rate` events a second, evenly; None: as many as the broker takes."""

    def __init__(
        self,
        rate: float | None,
        stop: Callable[[], bool],
        wait: Callable[[float], object],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`wait` returns after that many seconds, or as soon as `stop` is true."""
        self._interval = 1 / rate if rate else 0.0
        self._stop, self._wait, self._clock = stop, wait, clock
        self._due = clock() - self._interval

    def turn(self) -> bool:
        """Waits for the next event's turn; False after a stop."""
        if self._interval:
            self._due = max(self._due + self._interval, self._clock() - _BEHIND)
            while (left := self._due - self._clock()) > _FINE and not self._stop():
                self._wait(left)
        return not self._stop()
