"""Settings to what the other commands ask for: init, doctor, tail."""

from collections.abc import Iterator

from walrelay.compose.reading import decoder, dsn, needed, plugin_options, present, publication, table
from walrelay.config import Settings
from walrelay.decode.as_wal2json import PluginLines, RenderedLines
from walrelay.decode.binary import PRINTERS
from walrelay.decode.contract import Columns
from walrelay.decode.lines import Lines, RecordLines
from walrelay.errors import Fatal
from walrelay.route import FIELDS
from walrelay.source.catalog import Catalog
from walrelay.source.days import COLUMN, NewDays
from walrelay.source.doctor import Expected
from walrelay.source.likeness import type_names, unlikenesses
from walrelay.source.setup import Wanted
from walrelay.wire import wal2json
from walrelay.wire.commands import Options


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


def wanted(settings: Settings, *, partitioned: bool = False) -> Wanted:
    """What `walrelay init` makes for the settings; `partitioned`: the outbox with a partition for each day."""
    columns = settings.outbox.decoding.columns._asdict()
    arguments = (role for role in Columns._fields if role != "created_at")
    return Wanted(
        table=table(settings),
        columns={role: columns[role] for role in arguments if columns[role]},
        slot=settings.source.slot,
        publication=publication(settings),
        plugin=settings.source.plugin,
        failover=settings.source.failover,
        prefix=settings.outbox.messages.prefix,
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
