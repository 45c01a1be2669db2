"""Settings to running: a relay for each run, everything in it new, or the one before over a new connection."""

from collections.abc import Callable
from contextlib import closing
from math import inf
from threading import Event
from time import monotonic

from walrelay.compose.positions import positions
from walrelay.compose.reading import binary_suits, decoder, dsn, needed, publication, reading
from walrelay.compose.refusals import Refusals
from walrelay.compose.retention import Retention
from walrelay.config import Settings
from walrelay.decode.contract import Decoder
from walrelay.errors import Disconnected, Retryable
from walrelay.model import Position
from walrelay.observe import Observer
from walrelay.publish import ExactlyOnceSink, Sink, load, load_exactly_once
from walrelay.relay import Limits, Relay
from walrelay.route import Resumed, Router, Routing
from walrelay.source.backfill_progress import refuse_unfinished_backfill
from walrelay.source.catalog import Catalog
from walrelay.source.contract import Positions
from walrelay.source.dead_letters.writing import skips
from walrelay.source.keeping import Keeper
from walrelay.source.leadership import lead, lead_at_once
from walrelay.source.slot_source import SlotSource
from walrelay.source.start import Start
from walrelay.source.stream import Stream, Timing
from walrelay.supervise import Backoff, supervise

_HOLD = 2.0  # seconds that a sink may go on alone after the connection to PostgreSQL broke
_FENCING = 30.0  # seconds for the broker to fence off an earlier producer, before another instance may try


def relay_until(stop: Event, settings: Settings, observer: Observer, *, from_slot: bool = False) -> None:
    """Runs the relay of `settings` until `stop` is set; Fatal when an operator must act.

    `from_slot`: begin where the slot stands, whatever the relay's own position says.
    """
    runs = Runs(settings, observer, from_slot=from_slot)
    backoff = Backoff(settings.retry.min_pause, settings.retry.max_pause)
    try:
        supervise(
            run=lambda: runs.run(stop.is_set),
            progress=lambda: runs.bookmark,
            stop=stop.is_set,
            wait=stop.wait,
            observer=observer,
            backoff=backoff,
        )
    finally:
        runs.close()


class Runs:
    """Makes a relay for each run; keeps what this process knows to be confirmed.

    If only the connection to PostgreSQL broke, relay and sink are kept for the next run as well: what the sink holds is
    delivered meanwhile, and not published again. Unless another instance leads by then.
    """

    def __init__(self, settings: Settings, observer: Observer, *, from_slot: bool = False) -> None:
        self._settings, self._observer, self._from_slot = settings, observer, from_slot
        self.bookmark: Position | None = None
        self._relay: Relay | None = None
        self._sink: Sink | None = None
        self._held_until = inf
        self._refusals = Refusals(settings, observer)
        self._retention = Retention(settings, observer)

    def run(self, stop: Callable[[], bool]) -> None:
        """One run, from connecting to leaving or to the error that ends it."""
        try:
            self._connect(stop)
        except Disconnected:
            if self._relay is None or monotonic() > self._held_until:
                self.close()
            raise
        except BaseException:
            self.close()
            raise
        self.close()

    def close(self) -> None:
        """Lets the sink go, with everything that it has no receipt for."""
        sink, self._sink, self._relay, self._held_until = self._sink, None, None, inf
        if sink is not None:
            sink.close()

    def _connect(self, stop: Callable[[], bool]) -> None:
        settings, observer = self._settings, self._observer
        source, timing = settings.source, Timing(settings.source.confirm_interval, settings.source.receive_timeout)
        stream = Stream(dsn(settings), source.slot, publication(settings) or "", timing, observer.noticed)
        with closing(stream):
            if self._leads(stream, stop):
                with Catalog(dsn(settings), patience=min(10.0, source.receive_timeout)) as catalog:
                    self._lead(stream, catalog, stop)

    def _leads(self, stream: Stream, stop: Callable[[], bool]) -> bool:
        """Whether this instance leads; if it has to wait for that, it first lets go of what it still holds."""
        slot = self._settings.source.slot
        if lead_at_once(stream.connection, slot):
            return True
        self.close()
        self.bookmark = None  # whoever leads meanwhile gets further
        return lead(stream.connection, slot, stop, lambda: self._observer.standing_by(slot))

    def _lead(self, stream: Stream, catalog: Catalog, stop: Callable[[], bool]) -> None:
        refuse_unfinished_backfill(catalog, self._settings.source.slot)
        binary = binary_suits(self._settings, catalog)
        reads = reading(self._settings, binary=binary)
        source = SlotSource(reads, stream, catalog, self._observer.noticed, self.bookmark)
        named = skips(catalog, self._settings.source.slot)
        decodes = decoder(self._settings, needed(self._settings), binary=binary, skips=named)
        if self._relay is not None and self._may_resume(source):
            self._resume(self._relay, source, decodes, catalog)
        else:
            self.close()
            self._relay = self._begin(source, decodes, catalog, stop)
        self.bookmark = source.bookmark
        self._observer.streaming(source.slot.name, source.start, self._settings.source.plugin)
        try:
            with self._retention.while_leading(catalog):
                self._relay.run(stop)
        except Disconnected:
            self._held_until = monotonic() + (_HOLD if self._settings.delivery == "at_least_once" else 0)
            raise
        finally:
            self.bookmark = source.bookmark
            self._from_slot &= self.bookmark.lsn == source.start  # until a position was kept behind it

    def _may_resume(self, source: SlotSource) -> bool:
        """Whether this is the same server, and nothing happened to the slot since this process confirmed last."""
        bookmark = self.bookmark
        if bookmark is None or bookmark.system != source.system or self._settings.delivery == "exactly_once":
            return False  # a Kafka transaction that is open is aborted: nobody has seen it
        return source.where(bookmark) == Start(bookmark.lsn)

    def _resume(self, relay: Relay, source: SlotSource, decodes: Decoder, catalog: Catalog) -> None:
        assert self.bookmark is not None
        keeper = self._keeper(positions(self._settings, catalog, source.system, source.pid), catalog)
        source.begin(relay.ledger.latest, keeper, confirmed=self.bookmark.lsn)
        self._refusals.resume(catalog)
        relay.resume(source, decodes)

    def _begin(self, source: SlotSource, decodes: Decoder, catalog: Catalog, stop: Callable[[], bool]) -> Relay:
        """In this order: the lead, which came before; whoever wrote before is fenced off; the position; the stream."""
        sink, kept = self._open_sink(source, catalog, stop)
        start = source.where(None if self._from_slot else self._own(kept))
        sink.mark(start.lsn, start.commit_lsn, start.ordinal)
        if start.notice:
            self._observer.noticed(start.notice)
        source.begin(start.lsn, self._keeper(kept, catalog))
        limits = Limits(self._settings.source.pause_limit, self._settings.shutdown_timeout)
        routing, careful_sink = self._refusals.begin(catalog, start.lsn, self._routing(start), sink)
        return Relay(source, decodes, routing, careful_sink, self._observer, limits)

    def _own(self, positions: Positions | None) -> Position | None:
        return positions.last() if positions else self.bookmark

    def _open_sink(
        self, source: SlotSource, catalog: Catalog, stop: Callable[[], bool]
    ) -> tuple[Sink, Positions | None]:
        """The sink, and where the relay keeps its own position, if it does: in exactly-once mode that is the sink."""
        settings, slot = self._settings, self._settings.source.slot
        if settings.delivery == "at_least_once":
            self._sink = load(settings.sink.kind).open(settings.sink.settings)
            return self._sink, positions(settings, catalog, source.system, source.pid)
        sink = load_exactly_once(settings.sink.kind).open_exactly_once(settings.sink.settings, source.system, slot)
        self._sink = sink
        self._fence(sink, stop)
        return sink, sink

    def _fence(self, sink: ExactlyOnceSink, stop: Callable[[], bool]) -> None:
        begun = monotonic()
        while not sink.fence():
            if stop() or monotonic() > begun + _FENCING:
                raise Retryable(f"the broker has not begun a transactional session: {sink.trouble() or 'no answer'}")

    def _keeper(self, kept: Positions | None, catalog: Catalog) -> Keeper | None:
        return Keeper(kept, catalog, self._settings.source.confirm_interval) if kept else None

    def _routing(self, start: Start) -> Routing:
        router = Router(self._settings.route.topic)
        return Resumed(router, start.commit_lsn, start.ordinal) if start.ordinal else router
