"""Settings to running: what the runs of a relay open."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event

from walrelay.compose.examination import refuse, refuse_connection, told
from walrelay.compose.positions import place, positions
from walrelay.compose.reading import binary_suits, counting, decoder, dsn, needed, publication, reading, router
from walrelay.compose.refusals import refusals
from walrelay.compose.retention import Retention
from walrelay.config import Settings
from walrelay.dead_letters.store import await_letters, skips
from walrelay.dead_letters.wrapping import DeadLettering
from walrelay.decode.contract import Decoder
from walrelay.errors import NotConnected
from walrelay.model import RelayPosition, System
from walrelay.observe import Noticed, Observer, StandingBy, notices
from walrelay.postgres.catalog import Catalog
from walrelay.publish import ExactlyOnceSink, Sink, load, load_exactly_once
from walrelay.relay import run
from walrelay.relay.contract import Parameters
from walrelay.relay.loop import Limits
from walrelay.route import Routing
from walrelay.source.contract import Positions
from walrelay.source.leadership import lead, lead_at_once
from walrelay.source.slot_source import SlotSource
from walrelay.source.stream import Stream, Timing
from walrelay.supervise import Backoff
from walrelay.table.functions import UNPUBLISHED, function_exists


def relay_until(stop: Event, settings: Settings, observer: Observer, *, from_slot: bool = False) -> None:
    """Runs the relay of `settings` until `stop` is set; Fatal when an operator must act.

    `from_slot`: begin where the slot stands, whatever the relay's own position says.
    """
    backoff = Backoff(settings.retry.min_pause, settings.retry.max_pause)
    Runs(settings, observer, from_slot=from_slot).until(stop.is_set, stop.wait, backoff)


class Runs(run.Runs):
    """The runs of one process by these settings."""

    def __init__(self, settings: Settings, observer: Observer, *, from_slot: bool = False) -> None:
        super().__init__(parameters(settings), Factories(settings, observer), observer, from_slot=from_slot)


def parameters(settings: Settings) -> Parameters:
    """What a run goes by under these settings."""
    return Parameters(
        slot=settings.source.slot,
        plugin=settings.source.plugin,
        exactly_once=settings.delivery == "exactly_once",
        place=place(settings),
        confirm_interval=settings.source.confirm_interval,
        counting=counting(settings),
        limits=Limits(settings.source.pause_limit, settings.shutdown_timeout),
    )


class Factories:
    """Implements `walrelay.relay.contract.Factories`."""

    def __init__(self, settings: Settings, observer: Observer) -> None:
        self._settings, self._observer = settings, observer
        self._retention = Retention(settings, observer)

    def stream(self) -> Stream:
        settings, source = self._settings, self._settings.source
        timing = Timing(source.confirm_interval, source.receive_timeout)
        return Stream(dsn(settings), source.slot, publication(settings) or "", timing, notices(self._observer))

    def refuse_connection(self, cause: NotConnected) -> None:
        refuse_connection(self._settings, cause)

    def leads_at_once(self, stream: Stream) -> bool:
        return lead_at_once(stream.connection, self._settings.source.slot)

    def lead(self, stream: Stream, stop: Callable[[], bool]) -> bool:
        slot, observer = self._settings.source.slot, self._observer
        return lead(stream.connection, slot, stop, lambda: observer.saw(StandingBy(slot)), notices(observer))

    def catalog(self) -> Catalog:
        return Catalog(dsn(self._settings), patience=min(10.0, self._settings.source.receive_timeout))

    def examine(self, catalog: Catalog) -> None:
        """What ends the relay at a row, perhaps a later one, is only told."""
        refuse(self._settings, catalog, "run")
        for finding in told(self._settings, catalog, "run"):
            consequence = f"the relay will stop at the next row: {finding.detail} (fix: {finding.fix})"
            self._observer.saw(Noticed(consequence))
        if self._settings.outbox.messages.prefix is None and function_exists(catalog, "emit_message"):
            self._observer.saw(Noticed(UNPUBLISHED))

    def source(self, stream: Stream, catalog: Catalog, last: RelayPosition | None) -> tuple[SlotSource, Decoder]:
        settings = self._settings
        binary = binary_suits(settings, catalog)
        source = SlotSource(reading(settings, binary=binary), stream, catalog, notices(self._observer), last)
        await_letters(catalog, source.slot)
        named = skips(catalog, settings.source.slot)
        encoding = catalog.server_encoding()
        return source, decoder(settings, needed(settings), encoding=encoding, binary=binary, skips=named)

    def sink(self) -> Sink:
        return load(self._settings.sink.kind).open(self._settings.sink.settings)

    def exactly_once_sink(self, system: System) -> ExactlyOnceSink:
        sink, slot = self._settings.sink, self._settings.source.slot
        return load_exactly_once(sink.kind).open_exactly_once(sink.settings, system, slot, counting(self._settings))

    def positions(self, catalog: Catalog, source: SlotSource) -> Positions | None:
        return positions(self._settings, catalog, source.system, source.pid)

    def routing(self) -> Routing:
        return router(self._settings)

    def refusals(self) -> DeadLettering:
        return refusals(self._settings, self._observer)

    def while_leading(self, catalog: Catalog) -> AbstractContextManager[None]:
        return self._retention.while_leading(catalog)
