"""What the doctor expects of the database, and findings as values."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from walrelay.decode.records import BINARY_PRINTERS
from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.postgres.catalog import Catalog
from walrelay.table.functions import function_scripts
from walrelay.table.row_filter import Drop, dropped
from walrelay.wiring import Marks, Wiring

BY_RULE = "column."


class Expected(NamedTuple):
    """What the settings expect of the database, as plain values.

    `columns` maps the needed roles, and what rules name as `column.NAME`, to columns of the outbox. `binary_types`: the
    type OIDs that are read in binary, None without binary mode. `arguments`: what names settings file and relay in
    commands, as in ` -c other.yaml`.
    """

    dsn: str
    slot: str
    publication: str | None  # None for wal2json
    plugin: str
    schema: str
    table: str
    columns: Mapping[str, str]
    binary_types: frozenset[int] | None = None
    failover: bool = False
    prefix: str | None = None  # of logical messages that are events
    writers: tuple[str, ...] = ()  # the roles that may write those
    position_in_table: bool = False  # the relay's own
    sets_aside: bool = False  # some refusals are dead letters in the table
    retention: bool = False  # the relay cleans up
    marks: Marks | None = None  # the relay marks published rows
    arguments: str = ""
    drops: tuple[Drop, ...] = ()  # the rules that the publication's row filter may stand for
    functions: Mapping[str, str] = MappingProxyType({})  # for writers, as `walrelay init` makes them
    router: Callable[[Catalog], object] | None = None  # where routing depends on the types of columns

    @property
    def outbox(self) -> str:
        """The table as quoted identifiers, for statements."""
        return f"{identifier(self.schema)}.{identifier(self.table)}"

    @property
    def name(self) -> str:
        """The table's name, not quoted, for messages."""
        return f"{self.schema}.{self.table}"

    def walrelay(self, command: str) -> str:
        """A walrelay command for this relay, to paste."""
        return f"walrelay {command}{self.arguments}"


def expected(wiring: Wiring, arguments: str = "") -> Expected:
    """What a relay with this wiring expects."""
    outbox = wiring.needed
    return Expected(
        dsn=wiring.dsn,
        slot=wiring.slot,
        publication=wiring.publication,
        plugin=wiring.plugin,
        schema=outbox.schema,
        table=outbox.table,
        columns={role: column for role, column in outbox.columns._asdict().items() if column}
        | {f"{BY_RULE}{column}": column for column in outbox.extra},
        binary_types=frozenset(BINARY_PRINTERS) if wiring.wants_binary else None,
        failover=wiring.streaming.failover,
        prefix=outbox.prefix,
        writers=wiring.writers.roles,
        position_in_table=wiring.position.place == "table",
        sets_aside=not wiring.policy.only_stops,
        retention=wiring.retention is not None,
        marks=wiring.marks,
        arguments=arguments,
        drops=dropped(wiring),
        functions=function_scripts(wiring),
        router=None if wiring.rules.debezium is None else wiring.router,
    )


def ok(subject: str, detail: str) -> Finding:
    return Finding(subject, "ok", detail)


def warning(subject: str, detail: str, fix: str) -> Finding:
    return Finding(subject, "warning", detail, fix)


def problem(subject: str, detail: str, fix: str) -> Finding:
    return Finding(subject, "problem", detail, fix)
