"""What `walrelay init --adopt` finds in a table that another worker reads: the preset that it suits, or which column
could have which role, and why. It changes nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from walrelay.decode.contract import Columns
from walrelay.errors import Fatal
from walrelay.postgres.catalog import READABLE, Catalog
from walrelay.postgres.publications import KINDS, REPLICATED_KINDS

_DOCUMENTS = frozenset({"json", "jsonb"})
_TEXTS = frozenset({"text", "character varying", "character", "citext"})
_TIMES = frozenset({"timestamp with time zone", "timestamp without time zone"})
_IDS = frozenset({"uuid", "bigint", "integer", *_TEXTS})

_ROLES: dict[str, tuple[Set[str], str]] = {
    "id": (_IDS, "eventid messageid id position"),
    "payload": (_DOCUMENTS | _TEXTS | {"bytea"}, "payload eventdata data content body message eventpayload"),
    "headers": (_DOCUMENTS, "headers metadata eventmetadata meta"),
    "topic": (_TEXTS, "topic destination"),
    "type": (_TEXTS, "eventtype type messagetype eventname"),
    "aggregate_type": (_TEXTS, "aggregatetype entitytype streamtype aggregate"),
    "aggregate_id": (_IDS, "aggregateid entityid streamid messagekey partitionkey"),
    "tenant_id": (_IDS, "tenantid tenant"),
    "created_at": (_TIMES, "createdat occurredat occurredon createdon insertedat timestamp"),
}
"""By role, in the order in which they choose: the types that it may have, and the names, without `_`, best first."""

_HEADERS = frozenset(
    {
        *("routingkey", "schemaid", "schemaversion", "eventversion", "version", "correlationid", "causationid"),
        *("contenttype", "traceparent", "tracestate", "occurredat", "occurredon", "userid"),
    }
)
"""Names of columns, without `_`, that consumers may want to see."""


class TableColumn(NamedTuple):
    """A column as the catalog has it; `type` without its length; `key`: it is the primary key."""

    name: str
    type: str
    key: bool = False


class Choice(NamedTuple):
    """The column of a role, None without one, and why."""

    column: str | None
    why: str


class Adoption(NamedTuple):
    """What settings could say. `preset`: the one that suits the table; then `roles` and `headers` are empty. `headers`:
    templates by header. `unread`: the other columns.
    """

    table: str
    preset: str | None
    roles: Mapping[str, Choice]
    headers: Mapping[str, str]
    unread: Sequence[str]

    @property
    def topic(self) -> str:
        """A template for the topic of records without one of their own."""
        return "outbox.event.{aggregate_type}" if self.roles["aggregate_type"].column else "events"


def columns_of(catalog: Catalog, table: str) -> list[TableColumn]:
    """The columns that are in the stream, in their order. `table` as SQL takes it; Fatal if it is no table."""
    kind = catalog.value("SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)", table)
    if kind is None:
        raise Fatal(
            f"table {table} does not exist in database {catalog.database!r}",
            hint="Write it as schema.table; names with capitals in double quotes. The role also needs USAGE on"
            " the schema.",
        )
    if KINDS.get(kind) not in REPLICATED_KINDS:
        raise Fatal(
            f"{table} is {KINDS.get(kind, 'no table')}, which is not replicated",
            hint="Name the table that the events are written to.",
        )
    return [
        TableColumn(*row)
        for row in catalog.rows(
            "SELECT attname::text, format_type(atttypid, NULL), EXISTS (SELECT FROM pg_index i WHERE"
            " i.indrelid = attrelid AND i.indisprimary AND i.indnkeyatts = 1 AND i.indkey[0] = attnum)"
            " FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
            f" AND attgenerated = '' AND {READABLE} ORDER BY attnum",
            table,
        )
    ]


def adoption(table: str, columns: Sequence[TableColumn], presets: Mapping[str, Set[str]]) -> Adoption:
    """`presets`: the columns that each names. Fatal where no column can be the id, or the payload."""
    names = [column.name for column in columns]
    suitable = [name for name, needed in presets.items() if needed <= {*names}]
    if suitable:
        preset = max(suitable, key=lambda name: len(presets[name]))
        return Adoption(table, preset, {}, {}, [name for name in names if name not in presets[preset]])
    roles = _roles(table, columns)
    taken = {choice.column for choice in roles.values()}
    free = [column for column in columns if column.name not in taken]
    headers = {_header(each): _template(each) for each in free if _bare(each.name) in _HEADERS and '"' not in each.name}
    unread = [each.name for each in free if _header(each) not in headers]
    return Adoption(table, None, roles, headers, unread)


def _roles(table: str, columns: Sequence[TableColumn]) -> dict[str, Choice]:
    found: dict[str, Choice] = {}
    for role in _ROLES:
        taken = {choice.column for choice in found.values()}
        choice = next(_candidates(role, [column for column in columns if column.name not in taken]), None)
        if choice is None and role in ("id", "payload"):
            types = ", ".join(sorted(_ROLES[role][0]))
            raise Fatal(
                f"no column of {table} can be the {role} of an event; it has:"
                f" {', '.join(f'{column.name} ({column.type})' for column in columns) or 'none'}",
                hint=f"A column for the {role} has one of the types {types}. If there is one, name it in"
                f" outbox.columns.{role}.",
            )
        found[role] = choice or Choice(None, "no column looks like it")
    return {role: found[role] for role in Columns._fields}


def _candidates(role: str, columns: Sequence[TableColumn]) -> Iterator[Choice]:
    """The best first."""
    types, names = _ROLES[role]
    fitting = [column for column in columns if column.type in types]
    for name in names.split():
        if role == "id" and name == "id":  # event_id or message_id before it
            yield from (Choice(each.name, f"{each.type}, the primary key") for each in fitting if each.key)
        yield from (Choice(each.name, f"{each.type}, by its name") for each in fitting if _bare(each.name) == name)
    documents = [column for column in fitting if column.type in {*_DOCUMENTS, "bytea"}]
    if role == "payload" and len(documents) == 1:
        yield Choice(documents[0].name, f"the only column of type {documents[0].type}")


def _bare(name: str) -> str:
    return name.replace("_", "").lower()


def _header(column: TableColumn) -> str:
    """`CorrelationId` and `correlation_id` become `correlation-id`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", "-", column.name).lower()


def _template(column: TableColumn) -> str:
    name = column.name if re.fullmatch(r"[\w$-]+", column.name) else f'"{column.name}"'
    suffix = "|utc" if column.type in _TIMES else "|boolean" if column.type == "boolean" else ""
    return f"{{column.{name}{suffix}}}"
