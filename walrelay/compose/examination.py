"""Settings to the one examination of what they name in the database, for the commands that are not the doctor."""

from collections.abc import Collection, Iterator

from walrelay.compose.reading import dsn, needed, publication, table, writers_columns
from walrelay.config import Settings
from walrelay.decode.records import BINARY_PRINTERS
from walrelay.errors import NotConnected
from walrelay.model import Finding
from walrelay.operations import doctor
from walrelay.operations.doctor import Command, Expected
from walrelay.postgres.catalog import Catalog
from walrelay.table.functions import function_scripts

BY_ANOTHER_ROLE = ("role", "privileges")
"""Findings about the role: the SQL of `walrelay init --dry-run` may be run by another."""


def expected(settings: Settings, config: str = "") -> Expected:
    """What the settings ask the database for; `config` is the file to name in commands."""
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
        binary_types=frozenset(BINARY_PRINTERS) if binary else None,
        failover=settings.source.failover,
        prefix=settings.outbox.messages.prefix,
        writers=settings.outbox.messages.writers,
        position_in_table=settings.delivery == "at_least_once" and settings.position.keep == "table",
        sets_aside={settings.refusals.policy, *settings.refusals.topics.values()} != {"stop"},
        retention=settings.retention is not None,
        config=config,
        functions=function_scripts(
            table(settings),
            writers_columns(settings),
            settings.outbox.messages.prefix,
            settings.outbox.max_message_bytes,
        ),
    )


def refuse(settings: Settings, catalog: Catalog, command: Command, *, but: Collection[str] = ()) -> None:
    """Fatal for the first problem that stands in the command's way; `but`: subjects that somebody else sees to."""
    doctor.refuse(catalog, expected(settings), command, but=but)


def refuse_connection(settings: Settings, cause: NotConnected) -> None:
    """Fatal where no retry can cure that the first replication connection was refused."""
    doctor.refuse_connection(expected(settings), cause)


def told(settings: Settings, catalog: Catalog, command: Command) -> Iterator[Finding]:
    """The problems that do not stop the command, and that whoever uses it has to know of."""
    return doctor.told(catalog, expected(settings), command)
