"""Settings to how the outbox is read: connection string, names, plugin options, decoder."""

from walrelay.config import Settings
from walrelay.decode.binary import PRINTERS
from walrelay.decode.contract import Columns, Decoder, Outbox, Skips
from walrelay.decode.pgoutput import PgoutputDecoder
from walrelay.decode.wal2json import Wal2jsonDecoder
from walrelay.identifiers import identifier
from walrelay.route import TopicTemplate
from walrelay.source.catalog import Catalog
from walrelay.source.slot_source import Reading
from walrelay.wire import wal2json
from walrelay.wire.commands import Options, pgoutput_options


def reading(settings: Settings, *, binary: bool) -> Reading:
    """What is read from the slot, and how."""
    return Reading(
        slot=settings.source.slot,
        publication=publication(settings),
        plugin=settings.source.plugin,
        options=plugin_options(settings, binary=binary),
        table=table(settings),
        check_interval=settings.source.publication_check_interval,
    )


def decoder(settings: Settings, outbox: Outbox, *, binary: bool, skips: Skips = frozenset()) -> Decoder:
    """The decoder of the settings' plugin."""
    if settings.source.plugin == "wal2json":
        return Wal2jsonDecoder(outbox, settings.source.wal2json_format, skips=skips)
    return PgoutputDecoder(outbox, binary=binary, skips=skips)


def plugin_options(settings: Settings, *, binary: bool) -> Options:
    """What START_REPLICATION tells the settings' plugin."""
    outbox = settings.outbox.decoding
    if settings.source.plugin == "wal2json":
        return wal2json.options(settings.source.wal2json_format, outbox.schema, outbox.table)
    return pgoutput_options(settings.source.publication, binary=binary)


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
