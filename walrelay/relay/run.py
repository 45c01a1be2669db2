"""The life of a run around its loop. Each run gets a new relay, or continues the previous one over a new connection.

In this order, and each step is a precondition of the next: the connection, to a server that is no standby; the lead;
the catalog, of the same server; the sink, which fences off its predecessors; the own position; the stream.
"""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from threading import Timer
from time import monotonic, sleep

from walrelay.decode.contract import Decoder
from walrelay.errors import Disconnected, NoRoom, NotConnected, NotServing, Retryable, StartAnew, Waiting
from walrelay.lsn import ZERO
from walrelay.model import RelayPosition
from walrelay.observe import Noticed, Observer, Stopped, Streaming, notices
from walrelay.observe.stalls import StallWatch
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import translated
from walrelay.publish import Sink
from walrelay.relay.contract import Factories
from walrelay.relay.holding import Holding, MakeTimer
from walrelay.relay.lead import Lead
from walrelay.relay.loop import Relay
from walrelay.relay.retracing import ReadHistory, telling
from walrelay.route import Ahead, ResumedRouting, Routing
from walrelay.source.contract import Positions
from walrelay.source.positions import OwnPositionKeeper, refuse_another_count
from walrelay.source.slot_source import SlotSource
from walrelay.source.start import OwnPosition, Start
from walrelay.source.stream import Stream
from walrelay.supervise import Backoff, Retries, supervise
from walrelay.table.backfill_journal import refuse_unfinished_backfill
from walrelay.wiring import Wiring

_MOMENT = 0.02  # seconds between two looks at what a sink that goes on alone has heard
_HOLD = 2.0  # seconds that a sink may go on alone after the connection to PostgreSQL broke
_FENCING = 30.0  # seconds for the broker to fence off an earlier producer, before that counts as a failure
_GIVES_THE_LEAD_BACK = Disconnected, NotServing, Waiting, StartAnew
"""The connection is gone, or leads to where nothing can be read; or the stream has ended in good order."""


class Runs:
    """Makes a relay for each run; keeps what this process knows to be confirmed.

    If only the connection to PostgreSQL broke, relay and sink are kept for the next run as well: what the sink holds is
    delivered meanwhile, and not published again. Unless another instance leads by then.
    """

    def __init__(
        self,
        wiring: Wiring,
        factories: Factories,
        observer: Observer,
        *,
        from_slot: bool = False,
        clock: Callable[[], float] = monotonic,
        timer: MakeTimer = Timer,
    ) -> None:
        """`from_slot`: begin where the slot stands, whatever the relay's own position says."""
        self._wiring, self._factories, self._observer, self._from_slot = wiring, factories, observer, from_slot
        self.bookmark: RelayPosition | None = None
        self._relay: Relay | None = None
        self._sink: Sink | None = None
        self._connected = False  # ever
        self._kept = False  # whether there should be a position of the relay's own
        self._clock, self._holding = clock, Holding(_HOLD, self._let_go, timer)
        self._ahead, self._stalls = Ahead(), StallWatch(observer)
        self._dead_lettering = factories.refusals()
        self._pausing = factories.pausing()
        self._wait: Callable[[float], object] = sleep
        self._retries = Retries(lambda: self.bookmark, observer, Backoff())

    def until(self, stop: Callable[[], bool], wait: Callable[[float], object], backoff: Backoff) -> None:
        """One run after the other, until one ends in good order or an operator must act; then lets everything go.

        `stop`, `wait` and `backoff` are as in `supervise`.
        """
        try:
            self._wait = wait
            self._retries = retries = Retries(lambda: self.bookmark, self._observer, backoff)
            supervise(
                run=lambda: self.run(stop),
                stop=stop,
                wait=partial(self._pause, wait, stop),
                observer=self._observer,
                retries=retries,
            )
        finally:
            self.close()

    def run(self, stop: Callable[[], bool]) -> None:
        """One run, from connecting to leaving or to the error that ends it."""
        self._ahead.run(lambda: self._run(stop))

    def close(self) -> None:
        """Lets the sink go, with everything that it has no receipt for."""
        self._holding.end()
        self._let_go()

    def _pause(self, wait: Callable[[float], object], stop: Callable[[], bool], seconds: float) -> None:
        """Between two runs. A sink that has a descriptor moves only while it is asked."""
        end = self._clock() + seconds
        while self._sink is not None and self._sink.descriptor() is not None and not stop():
            if (left := end - self._clock()) <= 0:
                return
            wait(min(left, _MOMENT))
            self._holding.unless_over(self._deliver)
        wait(max(0.0, end - self._clock()))

    def _deliver(self) -> None:
        relay = self._relay
        if relay is not None:
            try:
                relay.settling.fetch(0)
            except Retryable:
                self._let_go()  # the broker is away as well

    def _run(self, stop: Callable[[], bool]) -> None:
        try:
            with translated():
                self._connect(stop)
        except Disconnected:
            if self._relay is None or self._wiring.exactly_once:
                self.close()
            else:
                self._holding.begin()
            raise
        except BaseException:
            self.close()
            raise
        self.close()

    def _let_go(self) -> None:
        sink, self._sink, self._relay = self._sink, None, None
        if sink is not None:
            sink.close()

    def _connect(self, stop: Callable[[], bool]) -> None:
        try:
            stream = self._factories.stream()
        except NotConnected as cause:
            if not self._connected:  # later passwords may be changed, and poolers be passed by
                self._factories.refuse_connection(cause)
            raise
        self._connected = True
        with closing(stream):
            if self._leads(stream, stop):
                with self._factories.catalog() as catalog:
                    self._lead_on(stream, catalog, stop)

    def _leads(self, stream: Stream, stop: Callable[[], bool]) -> bool:
        """Whether this instance leads; if it has to wait for that, it first lets go of what it still holds."""
        stream.refuse_standby()  # before the lead: whoever waits for it on a standby knows less once that is promoted
        if self._factories.leads_at_once(stream):
            return True
        self.close()
        self.bookmark = None  # whoever leads meanwhile gets further
        return self._factories.lead(stream, stop)

    def _lead_on(self, stream: Stream, catalog: Catalog, stop: Callable[[], bool]) -> None:
        """Leads over one stream after the other: while the relay is paused, the sink has no room, or what is not
        PostgreSQL's keeps it from publishing, there is none, but the connection stays, and with it the lead. So nobody
        else publishes what the sink holds, and commands see a leader, however long that lasts.
        """
        catalog.refuse_another_server(stream.backend)  # before any answer of its is believed
        with self._pausing.while_leading(catalog):
            lead = Lead(stream, catalog, self._wiring, self._pausing, stop)
            while not self._paused(lead, stop):
                try:
                    if not self._lead(stream, catalog, stop):
                        return
                    self.close()  # nothing is owed, and a pause may take days
                except Retryable as why:
                    if stop() or isinstance(why, _GIVES_THE_LEAD_BACK) or not catalog.usable:
                        raise
                    self._wait_for(why, lead, stream, stop)
                    if stop() and self._relay is None:
                        raise

    def _wait_for(self, why: Retryable, lead: Lead, stream: Stream, stop: Callable[[], bool]) -> None:
        """Until there is room in a sink that holds messages; a sink that ended is made again after a pause."""
        # A Kafka transaction does not stay open for so long, and nobody has seen what is in it.
        waits = not self._wiring.exactly_once or getattr(self._sink, "outlives_the_stream", False)
        if isinstance(why, NoRoom) and self._relay is not None and waits:
            said = "the stream starts again when there is room; this instance keeps the lead"
            self._observer.saw(Noticed(f"{why}; {said}"))
            stream.pause(stop)
            self._relay.settling.await_room(self._relay.source, lead.leaving, lead.check)
            return
        self.close()
        seconds = self._retries.failed(why)
        stream.pause(stop)
        lead.wait(seconds, self._wait, self._clock)
        self._retries.begin()

    def _paused(self, lead: Lead, stop: Callable[[], bool]) -> bool:
        """Waits while the relay is paused, unless the sink still holds something: that is settled first. Whether the
        relay was stopped meanwhile.
        """
        if self._relay is not None or not self._pausing.asked():
            return False
        lead.hold_while_paused()
        if stop():
            self._observer.saw(Stopped(self.bookmark.lsn if self.bookmark else ZERO, 0))
        return stop()

    def _lead(self, stream: Stream, catalog: Catalog, stop: Callable[[], bool]) -> bool:
        """Whether the relay paused, and keeps the lead."""
        refuse_unfinished_backfill(catalog, self._wiring.slot)
        self._factories.examine(catalog)
        source, decodes = self._factories.source(stream, catalog, self.bookmark)
        history = ReadHistory(source, decodes, partial(self._factories.source, stream, catalog, self.bookmark), stop)
        relay = self._relay
        if relay is not None and self._may_resume(source, relay, history):
            source, decodes = history.source, history.decoder
            self._resume(relay, source, decodes, catalog)
        else:
            self.close()
            self._relay = relay = self._begin(history, catalog, stop)
            source = history.source
        self.bookmark = source.bookmark
        self._observer.saw(Streaming(source.slot.name, source.start, self._wiring.plugin))
        try:
            with self._factories.while_leading(catalog):
                return relay.run(stop, self._pausing.asked)
        finally:
            self.bookmark = source.bookmark
            kept = self.bookmark.lsn != source.start  # a position behind it
            self._from_slot &= not kept
            self._kept |= kept and self._wiring.position.place != "slot"

    def _may_resume(self, source: SlotSource, relay: Relay, history: ReadHistory) -> bool:
        """Whether this is the same server, which was not set back, and nothing happened to the slot since this process
        confirmed last.
        """
        bookmark = self.bookmark
        if bookmark is None or self._wiring.exactly_once:
            return False  # a Kafka transaction that is open is aborted: nobody has seen it
        read = relay.ledger.latest
        return source.continues(bookmark, read) and history.same_up_to(read, source.latest) == read

    def _resume(self, relay: Relay, source: SlotSource, decodes: Decoder, catalog: Catalog) -> None:
        assert self.bookmark is not None
        keeper = self._keeper(self._factories.positions(catalog, source), catalog)
        source.start_stream(relay.ledger.latest, keeper, confirmed=self.bookmark.lsn, xmin=self.bookmark.xmin)
        self._dead_lettering.reconnect(catalog)
        self._holding.end()
        if self._relay is None:
            raise Disconnected("it took too long to get a connection to PostgreSQL again, so the sink was closed")
        relay.resume(source, decodes)

    def _begin(self, history: ReadHistory, catalog: Catalog, stop: Callable[[], bool]) -> Relay:
        """In this order: the lead, which came before; whoever wrote before is fenced off; the position; the stream."""
        sink, kept = self._open_sink(history.source, catalog, stop)
        own = None if self._from_slot else self._own(kept)
        if self._from_slot:
            start = history.at_the_slot(catalog, lambda: None if kept is None else self._own(kept))
        else:
            start = history.start(catalog, own)
        source = history.source
        source.latest = start.latest
        if own is not None and start.ordinal:
            refuse_another_count(own.position, self._wiring.counting)
        read_up_to = telling(sink if self._wiring.exactly_once else None)
        read_up_to(start.latest)
        sink.mark(start.lsn, start.commit_lsn, start.ordinal)
        if start.notice:
            self._observer.saw(Noticed(start.notice))
        source.start_stream(start.lsn, self._keeper(kept, catalog), xmin=start.xmin)
        routing, dead_lettering_sink = self._dead_lettering.wrap(catalog, start.lsn, self._routing(start), sink)
        limits = self._wiring.limits
        around = self._observer, limits, self._stalls, read_up_to
        return Relay(source, history.decoder, routing, dead_lettering_sink, *around)

    def _own(self, positions: Positions | None) -> OwnPosition | None:
        """What the place says that every run of this relay writes to; without one, what this process remembers."""
        where, last = self._wiring.position.place, None if positions is None else positions.last()
        if last is not None and where != "slot":
            return OwnPosition(where, last)
        if self._kept:
            said = (
                "the position that this relay kept is gone, and with it perhaps what was published: the stream goes on"
            )
            self._observer.saw(
                Noticed(f"{said} where this process confirmed last; `walrelay replay` publishes rows again")
            )
        return None if self.bookmark is None else OwnPosition("memory", self.bookmark)

    def _open_sink(
        self, source: SlotSource, catalog: Catalog, stop: Callable[[], bool]
    ) -> tuple[Sink, Positions | None]:
        """The sink, and where the relay keeps its own position, if it does: in exactly-once mode that is the sink."""
        if self._wiring.exactly_once:
            self._sink = sink = self._factories.exactly_once_sink(source.system)
            self._fence(sink, stop)
            return sink, sink
        self._sink = self._factories.sink()
        kept = self._factories.positions(catalog, source)
        if kept is not None:
            self._fence(kept, stop)
        return self._sink, kept

    def _fence(self, positions: Positions, stop: Callable[[], bool]) -> None:
        begun = self._clock()
        while not positions.fence():
            if stop() or self._clock() > begun + _FENCING:
                raise Retryable(
                    "the broker has not answered the request to fence off earlier producers:"
                    f" {positions.trouble() or 'no answer'}"
                )

    def _keeper(self, kept: Positions | None, catalog: Catalog) -> OwnPositionKeeper | None:
        interval = self._wiring.streaming.timing.confirm_interval
        return OwnPositionKeeper(kept, catalog, interval, notices(self._observer)) if kept else None

    def _routing(self, start: Start) -> Routing:
        routing = self._ahead.routing(self._factories.routing())
        return ResumedRouting(routing, start.commit_lsn, start.ordinal) if start.ordinal else routing
