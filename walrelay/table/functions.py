"""walrelay.emit and its variants: what writers may call from SQL, made for the present settings and kept current.

The comment of each function says which version of walrelay's functions it is, for which outbox, and the digest of its
body. So `walrelay init` replaces what it made for earlier settings or by an earlier version, leaves alone what was
changed by hand or by a later version, and does not take a function from another outbox that is in use: its writers'
events would go to this one.
"""

import re
from collections.abc import Iterator, Mapping
from hashlib import md5
from typing import NamedTuple

from walrelay.ddl import script
from walrelay.identifiers import identifier
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.slot_records import publisher
from walrelay.wire.commands import literal
from walrelay.wiring import Wiring

UNPUBLISHED = "walrelay.emit_message is there, but outbox.messages.prefix is null: what it writes is not published"

VERSION = 2
"""To be increased with each change of these functions. (Version 1 had no comment.)"""

_ARGUMENTS = re.compile(r"FUNCTION walrelay\.\w+\((.*?)\)\s+RETURNS", re.S)
_BODY = re.compile(r"AS (\$\w+\$)(.*)\1", re.S)
_COMMENT = re.compile(r"walrelay's, version (\d+), for (.+); `walrelay init` keeps it current \(([0-9a-f]{32})\)")
_FIRST_VERSION = re.compile(r"walrelay\.check_event_size\(|is too large: % bytes, and a message may have %")
_INSERT = re.compile(r"INSERT INTO (.+?) (?:AS o )?\(")


class Function(NamedTuple):
    """`present`: the function is as the settings want it, or is to stay as it is; then `note` says why. `differs`: why
    an existing function is to be replaced.
    """

    name: str
    sql: str
    present: bool
    differs: str = ""
    note: str = ""


class _Found(NamedTuple):
    """A function in the catalog. `made`: version, outbox and digest in its comment."""

    body: str
    settings: list[str] | None
    made: tuple[int, str, str] | None

    @property
    def outbox(self) -> str | None:
        if self.made is not None:
            return self.made[1]
        found = _INSERT.search(self.body)
        return found[1] if found else None

    @property
    def is_walrelays(self) -> bool:
        """Whether the function is unchanged since walrelay made it."""
        if self.made is not None:
            return self.made[2] == _digest(self.body)
        return _FIRST_VERSION.search(self.body) is not None


def function_scripts(wiring: Wiring) -> dict[str, str]:
    """The SQL of each function by its name. `table` is quoted where it must be; `columns`: argument -> column of the
    outbox; without a `prefix` logical messages are no events.
    """
    table, columns, prefix = wiring.table, wiring.emit_columns, wiring.outbox.prefix
    found = {"check_event_size": script("event_size", limit=str(wiring.writers.max_message_bytes))}
    arguments = script("emit_arguments")
    listed = ", ".join(identifier(column) for column in columns.values())
    for name in ("emit", "emit_and_delete"):
        values = ", ".join(f"{name}.{argument}" for argument in columns)
        found[name] = script(name, arguments=arguments, table=table, columns=listed, values=values)
    if prefix is not None:
        found["emit_message"] = script("emit_message", arguments=arguments, prefix=literal(prefix))
    return {name: sql + _comment(name, sql, table) for name, sql in found.items()}


def examine_functions(catalog: Catalog, table: str, slot: str, wanted: Mapping[str, str]) -> Iterator[Function]:
    """Compares `wanted`, from `function_scripts`, with the catalog. `slot` publishes `table`."""
    found = {name: _found(catalog, sql) for name, sql in wanted.items()}
    theirs = {each.outbox for each in found.values() if each is not None and each.outbox is not None} - {table}
    user = next((use for other in sorted(theirs) if (use := _in_use(catalog, other, slot))), None)
    for name, sql in wanted.items():
        there = found[name]
        if there is None and function_exists(catalog, name):
            yield Function(name, sql, True, note="a function of that name with other arguments is there")
        elif there is None:
            yield Function(name, sql, False)
        elif (there.body, there.settings) == (_body(sql), _settings(sql)) and there.outbox in (None, table):
            yield Function(name, sql, True)
        elif user is not None:
            yield Function(
                name, sql, True, note=f"it belongs to {user}; writers of {table} insert their rows themselves"
            )
        elif there.made is not None and there.made[0] > VERSION:
            yield Function(name, sql, True, note=f"it is of a later version of walrelay ({there.made[0]})")
        elif not there.is_walrelays:
            yield Function(
                name, sql, True, note="it was changed by hand; drop it, and `walrelay init` creates walrelay's"
            )
        else:
            yield Function(name, sql, False, differs=_difference(there, table))


def type_without_uuid(catalog: Catalog, table: str, column: str) -> str | None:
    """The type of that column of the outbox if it takes no UUID, which walrelay.emit writes as the id; else None."""
    query = """
        WITH RECURSIVE base AS (
            SELECT t.oid, t.typbasetype, t.typcategory, format_type(a.atttypid, a.atttypmod) AS name
            FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
            WHERE a.attrelid = to_regclass(%s) AND a.attname = %s
            UNION ALL
            SELECT t.oid, t.typbasetype, t.typcategory, base.name FROM base JOIN pg_type t ON t.oid = base.typbasetype
        )
        SELECT name FROM base WHERE typbasetype = 0 AND typcategory <> 'S' AND oid <> 'uuid'::regtype AND NOT EXISTS (
            SELECT FROM pg_cast WHERE castsource = 'uuid'::regtype AND casttarget = base.oid AND castcontext <> 'e')
    """
    found = catalog.rows(query, table, column)
    return found[0][0] if found else None


def function_exists(catalog: Catalog, name: str) -> bool:
    """Whether a function of that name exists, whatever its arguments."""
    query = "SELECT 1 FROM pg_proc WHERE proname = %s AND pronamespace = to_regnamespace('walrelay')"
    return bool(catalog.value(query, name))


def _difference(there: _Found, table: str) -> str:
    if there.outbox not in (None, table):
        return f"it writes to {there.outbox}"
    version = 1 if there.made is None else there.made[0]
    return f"it is version {version}, and this is {VERSION}" if version < VERSION else "it was made for other settings"


def _found(catalog: Catalog, sql: str) -> _Found | None:
    signature = _signature(sql)
    rows = catalog.rows(
        "SELECT prosrc, proconfig, obj_description(oid, 'pg_proc') FROM pg_proc WHERE oid = to_regprocedure(%s)",
        signature,
    )
    if not rows:
        return None
    ((body, settings, comment),) = rows
    made = _COMMENT.fullmatch(comment or "")
    return _Found(body, settings, (int(made[1]), made[2], made[3]) if made else None)


def _in_use(catalog: Catalog, table: str, slot: str) -> str | None:
    """What publishes that outbox, if another slot does. A slot that `walrelay drop` dropped does not; a slot that is
    being read does so under its relay's settings, even if `init` has others.
    """
    if (other := publisher(catalog, table, but=slot)) is not None:
        return f"{table}, which slot {other} publishes"
    read = (
        "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()"
        " AND active_pid IS NOT NULL AND to_regclass(%s) IS NOT NULL"
    )
    if catalog.value(read, slot, table):
        return f"{table}, which the relay that reads slot {slot} publishes until it is stopped and init run again"
    return None


def _comment(name: str, sql: str, table: str) -> str:
    text = f"walrelay's, version {VERSION}, for {table}; `walrelay init` keeps it current ({_digest(_body(sql))})"
    return f"\nCOMMENT ON FUNCTION {_signature(sql)} IS {literal(text)};\n"


def _signature(sql: str) -> str:
    """`walrelay.emit(text, text, ...)`."""
    found = _ARGUMENTS.search(sql)
    assert found is not None
    name = re.search(r"FUNCTION (walrelay\.\w+)", sql)
    assert name is not None
    return f"{name[1]}({', '.join(argument.split()[1] for argument in found[1].split(','))})"


def _body(sql: str) -> str:
    found = _BODY.search(sql)
    assert found is not None
    return found[2]


def _settings(sql: str) -> list[str] | None:
    """In the form of pg_proc.proconfig."""
    found = re.findall(r"^(?:.*?\s)?SET (\w+) = (.+?)(?= AS \$|$)", sql.split(" AS $")[0], re.M)
    return [f"{name}={value}" for name, value in found] or None


def _digest(body: str) -> str:
    return md5(body.encode(), usedforsecurity=False).hexdigest()
