"""Settings to how the outbox is read: connection string, names, plugin options, decoder."""

from walrelay.config import Settings
from walrelay.decode.contract import Columns, Decoder, OutboxLayout, Skips
from walrelay.decode.messages import AS_THEY_ARE
from walrelay.decode.pgoutput import PgoutputDecoder
from walrelay.decode.records import BINARY_PRINTERS
from walrelay.decode.wal2json import Wal2jsonDecoder
from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.model import Counting
from walrelay.postgres.catalog import Catalog
from walrelay.route import Router, TopicTemplate
from walrelay.source.slot_source import SlotReading
from walrelay.wire import wal2json
from walrelay.wire.commands import Options, pgoutput_options


def reading(settings: Settings, *, binary: bool) -> SlotReading:
    """What is read from the slot, and how."""
    return SlotReading(
        slot=settings.source.slot,
        publication=publication(settings),
        plugin=settings.source.plugin,
        options=plugin_options(settings, binary=binary),
        table=table(settings),
        check_interval=settings.source.publication_check_interval,
    )


def decoder(
    settings: Settings, outbox: OutboxLayout, *, encoding: str, binary: bool, skips: Skips = frozenset()
) -> Decoder:
    """The decoder of the settings' plugin. `encoding`: the database's."""
    outbox = encoded(outbox, encoding)
    if settings.source.plugin == "wal2json":
        return Wal2jsonDecoder(outbox, settings.source.wal2json_format, skips=skips)
    return PgoutputDecoder(outbox, binary=binary, skips=skips)


def encoded(outbox: OutboxLayout, encoding: str) -> OutboxLayout:
    """The outbox in a database of that encoding."""
    if outbox.prefix is not None and not outbox.prefix.isascii() and encoding not in AS_THEY_ARE:
        raise Fatal(
            f"logical messages of the prefix {outbox.prefix!r} cannot be told from others: the server sends it in the"
            f" database's encoding, which is {encoding}",
            hint="Set outbox.messages.prefix to one of ASCII letters, or to null if no events are emitted that way.",
        )
    return outbox._replace(encoding=encoding)


def plugin_options(settings: Settings, *, binary: bool) -> Options:
    """What START_REPLICATION tells the settings' plugin."""
    outbox = settings.outbox.decoding
    if settings.source.plugin == "wal2json":
        return wal2json.options(settings.source.wal2json_format, outbox.schema, outbox.table)
    return pgoutput_options(settings.source.publication, binary=binary)


def shown(settings: Settings) -> OutboxLayout:
    """The outbox with all its roles, of which those that routing does not ask for may be missing in a row."""
    required = {role for role, column in needed(settings).columns._asdict().items() if column}
    return settings.outbox.decoding._replace(optional=frozenset(Columns._fields) - required)


def needed(settings: Settings) -> OutboxLayout:
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
    return all(types.get(column) in BINARY_PRINTERS for column in needed(settings).columns if column)


def counting(settings: Settings) -> Counting:
    """What counts as a record under these settings."""
    source, prefix = settings.source, settings.outbox.decoding.prefix
    plugin = f"wal2json, format {source.wal2json_format}" if source.plugin == "wal2json" else source.plugin
    return Counting(plugin, publication(settings), table(settings), prefix)


def router(settings: Settings) -> Router:
    """Records to messages by the rules of the settings."""
    return Router(settings.route.topic, settings.reserved_topics)


def dsn(settings: Settings) -> str:
    """The connection string, in the clear."""
    return settings.source.dsn.get_secret_value()


def table(settings: Settings) -> str:
    """The outbox table as quoted identifiers."""
    outbox = settings.outbox.decoding
    return f"{identifier(outbox.schema)}.{identifier(outbox.table)}"


def writers_columns(settings: Settings) -> dict[str, str]:
    """The arguments of walrelay.emit and the columns of the outbox that they go to."""
    columns = settings.outbox.decoding.columns._asdict()
    return {role: column for role, column in columns.items() if column and role != "created_at"}


def publication(settings: Settings) -> str | None:
    """The publication that is read; wal2json knows none."""
    return settings.source.publication if settings.source.plugin == "pgoutput" else None
