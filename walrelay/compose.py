"""Settings to a relay: the only module that names concrete classes."""

from collections.abc import Callable, Iterator
from threading import Event

from walrelay.config import Settings
from walrelay.decode.as_wal2json import PluginLines, RenderedLines
from walrelay.decode.binary import PRINTERS
from walrelay.decode.contract import Columns, Decoder, Outbox
from walrelay.decode.lines import Lines, RecordLines
from walrelay.decode.pgoutput import PgoutputDecoder
from walrelay.decode.wal2json import Wal2jsonDecoder
from walrelay.observe import Observer
from walrelay.publish import load
from walrelay.relay import Limits, Relay
from walrelay.route import FIELDS, Router, TopicTemplate
from walrelay.source.catalog import Catalog
from walrelay.source.doctor import Expected
from walrelay.source.likeness import type_names, unlikenesses
from walrelay.source.setup import Wanted
from walrelay.source.slot_source import Bookmark, Reading, SlotSource
from walrelay.source.stream import Timing
from walrelay.supervise import Backoff, supervise
from walrelay.wire import wal2json
from walrelay.wire.commands import Options, identifier, pgoutput_options


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


def decoder(settings: Settings, outbox: Outbox, *, binary: bool) -> Decoder:
    """The decoder of the settings' plugin."""
    if settings.source.plugin == "wal2json":
        return Wal2jsonDecoder(outbox, settings.source.wal2json_format)
    return PgoutputDecoder(outbox, binary=binary)


def plugin_options(settings: Settings, *, binary: bool) -> Options:
    """What START_REPLICATION tells the settings' plugin."""
    outbox = settings.outbox.decoding
    if settings.source.plugin == "wal2json":
        return wal2json.options(settings.source.wal2json_format, outbox.schema, outbox.table)
    return pgoutput_options(settings.source.publication, binary=binary)


def lines(settings: Settings, catalog: Catalog, form: str) -> tuple[Options, Lines]:
    """What `walrelay tail` tells the plugin, and what makes lines of the answer; `form` is "walrelay" or "wal2json"."""
    outbox = settings.outbox.decoding
    if form == "walrelay":
        shown = decoder(settings, present(settings, catalog), binary=False)
        return plugin_options(settings, binary=False), RecordLines(shown)
    if settings.source.plugin == "wal2json":
        return wal2json.plain_options(outbox.schema, outbox.table), PluginLines(outbox.prefix)
    rendered = RenderedLines(outbox, lambda columns: type_names(catalog, columns))
    return plugin_options(settings, binary=False), rendered


def remarks(settings: Settings, catalog: Catalog, form: str) -> Iterator[str]:
    """What whoever reads the lines of `walrelay tail` should know about them beforehand."""
    name, outbox = publication(settings), table(settings)
    published = catalog.published(name or "", outbox)
    if published.oid is None:
        yield f"no rows will be found: there is no table {outbox}"
    elif name is None:
        if published.partitioned:
            yield f"no rows will be found: {outbox} is partitioned, and wal2json names the partition with each row"
    elif fault := published.fault(name, outbox):
        yield f"rows may be missing: {fault}"
    elif form == "wal2json":
        yield from unlikenesses(catalog, name, outbox)


def present(settings: Settings, catalog: Catalog) -> Outbox:
    """The outbox with the roles that routing asks for, and the others as far as the table has them."""
    outbox, asked = settings.outbox.decoding, needed(settings).columns._asdict()
    there = catalog.column_types(table(settings))
    columns = {role: column if column in there else asked[role] for role, column in outbox.columns._asdict().items()}
    return outbox._replace(columns=Columns(**columns))


def needed(settings: Settings) -> Outbox:
    """The outbox with the roles that routing asks for: a column that nobody needs is not read, nor missed."""
    outbox = settings.outbox.decoding
    roles = _ROUTED | set(TopicTemplate(settings.route.topic).fields)
    columns = {role: column if role in roles else None for role, column in outbox.columns._asdict().items()}
    return outbox._replace(columns=Columns(**columns))


_ROUTED = {"id", "aggregate_id", "type", "payload", "headers", "topic"}


def binary_suits(settings: Settings, catalog: Catalog) -> bool:
    """Whether the settings want binary mode and every needed column has a type that is read in it."""
    if not settings.source.binary or settings.source.plugin != "pgoutput":
        return False
    types = catalog.column_types(table(settings))
    return all(types.get(column) in PRINTERS for column in needed(settings).columns if column)


def dsn(settings: Settings) -> str:
    """The connection string, in the clear."""
    return settings.source.dsn.get_secret_value()


def table(settings: Settings) -> str:
    """The outbox table as quoted identifiers."""
    outbox = settings.outbox.decoding
    return f"{identifier(outbox.schema)}.{identifier(outbox.table)}"


def publication(settings: Settings) -> str | None:
    """The publication that is read; wal2json knows none."""
    return settings.source.publication if settings.source.plugin == "pgoutput" else None


def expected(settings: Settings, config: str = "") -> Expected:
    """What `walrelay doctor` asks the database for; `config` is the file to name in commands."""
    outbox = needed(settings)
    binary = settings.source.binary and settings.source.plugin == "pgoutput"
    return Expected(
        dsn=dsn(settings),
        slot=settings.source.slot,
        publication=publication(settings),
        plugin=settings.source.plugin,
        schema=outbox.schema,
        table=outbox.table,
        columns={role: column for role, column in outbox.columns._asdict().items() if column},
        binary_types=frozenset(PRINTERS) if binary else None,
        failover=settings.source.failover,
        config=config,
    )


def topics(settings: Settings) -> list[str]:
    """The topics that are known beforehand, with `*` for what only a row can say."""
    return [settings.route.topic.format(**dict.fromkeys(FIELDS, "*"))]


def wanted(settings: Settings) -> Wanted:
    """What `walrelay init` makes for the settings."""
    columns = settings.outbox.decoding.columns._asdict()
    arguments = (role for role in Columns._fields if role != "created_at")
    return Wanted(
        table=table(settings),
        columns={role: columns[role] for role in arguments if columns[role]},
        slot=settings.source.slot,
        publication=publication(settings),
        plugin=settings.source.plugin,
        failover=settings.source.failover,
    )
