"""Settings to what the other commands ask for: init, doctor, tail."""

from collections.abc import Iterator

from walrelay.compose.examination import told
from walrelay.compose.reading import decoder, encoded, plugin_options, publication, shown, table, writers_columns
from walrelay.config import Settings
from walrelay.decode.lines import LineReader, PluginLineReader, RecordLineReader, RenderedLineReader
from walrelay.errors import Fatal
from walrelay.operations.setup import Wanted
from walrelay.operations.tail.wal2json_differences import type_names, unlikenesses
from walrelay.postgres.catalog import Catalog
from walrelay.route import FIELDS
from walrelay.table.days import COLUMN, NewDays
from walrelay.wire import wal2json
from walrelay.wire.commands import Options


def lines(settings: Settings, catalog: Catalog, form: str) -> tuple[Options, LineReader]:
    """What `walrelay tail` tells the plugin, and what makes lines of the answer; `form` is "walrelay" or "wal2json"."""
    encoding = catalog.server_encoding()
    if form == "walrelay":
        decodes = decoder(settings, shown(settings), encoding=encoding, binary=False)
        return plugin_options(settings, binary=False), RecordLineReader(decodes)
    outbox = encoded(settings.outbox.decoding, encoding)
    if settings.source.plugin == "wal2json":
        return wal2json.plain_options(outbox.schema, outbox.table), PluginLineReader(outbox.prefix)
    rendered = RenderedLineReader(outbox, lambda columns: type_names(catalog, columns))
    return plugin_options(settings, binary=False), rendered


def remarks(settings: Settings, catalog: Catalog, form: str) -> Iterator[str]:
    """What whoever reads the lines of `walrelay tail` should know about them beforehand."""
    name = publication(settings)
    for finding in told(settings, catalog, "tail"):
        if form == "wal2json" and finding.subject == "columns":
            continue  # its lines have whatever columns there are
        yield f"rows may be missing: {finding.detail}; {finding.fix}"
    if form == "wal2json" and name is not None and not catalog.published(name, table(settings)).fault(name, ""):
        yield from unlikenesses(catalog, name, table(settings))


def topics(settings: Settings) -> list[str]:
    """The topics that are known beforehand, with `*` for what only a row can say."""
    return [settings.route.topic.format(**dict.fromkeys(FIELDS, "*"))]


def wanted(settings: Settings, *, partitioned: bool = False) -> Wanted:
    """What `walrelay init` makes for the settings; `partitioned`: the outbox with a partition for each day."""
    return Wanted(
        table=table(settings),
        columns=writers_columns(settings),
        slot=settings.source.slot,
        publication=publication(settings),
        plugin=settings.source.plugin,
        failover=settings.source.failover,
        prefix=settings.outbox.messages.prefix,
        writers=settings.outbox.messages.writers,
        max_message_bytes=settings.outbox.max_message_bytes,
        days=_days(settings) if partitioned else None,
    )


def _days(settings: Settings) -> NewDays:
    outbox = settings.outbox.decoding
    if outbox.columns.created_at != COLUMN:
        raise Fatal(
            f"a partitioned outbox has its days by the column {COLUMN}, the settings name {outbox.columns.created_at}",
            hint=f"outbox.columns.created_at: {COLUMN}",
        )
    return NewDays(outbox.schema, outbox.table)
