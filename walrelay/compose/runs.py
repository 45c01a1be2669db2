"""Settings to running: a relay for each run, everything in it new."""

from collections.abc import Callable
from threading import Event

from walrelay.compose.reading import binary_suits, decoder, dsn, needed, plugin_options, publication, table
from walrelay.config import Settings
from walrelay.observe import Observer
from walrelay.publish import load
from walrelay.relay import Limits, Relay
from walrelay.route import Router
from walrelay.source.catalog import Catalog
from walrelay.source.slot_source import Bookmark, Reading, SlotSource
from walrelay.source.stream import Timing
from walrelay.supervise import Backoff, supervise


def relay_until(stop: Event, settings: Settings, observer: Observer) -> None:
    """Runs the relay of `settings` until `stop` is set; Fatal when an operator must act."""
    runs = Runs(settings, observer)
    backoff = Backoff(settings.retry.min_pause, settings.retry.max_pause)
    supervise(
        run=lambda: runs.run(stop.is_set),
        progress=lambda: runs.bookmark,
        stop=stop.is_set,
        wait=stop.wait,
        observer=observer,
        backoff=backoff,
    )


class Runs:
    """Makes a relay for each run, everything in it new; keeps only what this process knows to be confirmed."""

    def __init__(self, settings: Settings, observer: Observer) -> None:
        self._settings, self._observer = settings, observer
        self.bookmark: Bookmark | None = None

    def run(self, stop: Callable[[], bool]) -> None:
        """One run, from connecting to leaving or to the error that ends it."""
        settings = self._settings
        with Catalog(dsn(settings), patience=min(10.0, settings.source.receive_timeout)) as catalog:
            binary = binary_suits(settings, catalog)
            reading = Reading(
                dsn=dsn(settings),
                slot=settings.source.slot,
                publication=publication(settings),
                plugin=settings.source.plugin,
                options=plugin_options(settings, binary=binary),
                table=table(settings),
                timing=Timing(settings.source.confirm_interval, settings.source.receive_timeout),
                check_interval=settings.source.publication_check_interval,
            )
            source = SlotSource(reading, catalog, self.bookmark, self._observer.noticed)
            self.bookmark = source.bookmark
            self._observer.streaming(reading.slot, source.start, reading.plugin)
            try:
                sink = load(settings.sink.kind).open(settings.sink.settings)
                try:
                    Relay(
                        source,
                        decoder(settings, needed(settings), binary=binary),
                        Router(settings.route.topic),
                        sink,
                        self._observer,
                        Limits(settings.source.pause_limit, settings.shutdown_timeout),
                    ).run(stop)
                finally:
                    sink.close()
            finally:
                self.bookmark = source.bookmark
                source.close()
